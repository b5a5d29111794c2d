#include "heatmap/things.hpp"

#include "common/app.hpp"
#include "common/terminal/report.hpp"
#include "common/video/legend.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <iterator>

namespace heatmap {

void Collector::add(double seconds, const std::vector<cusMotionBox> &boxes) {
    for (const cusMotionBox &box : boxes)
        tracks_[box.track].push_back({seconds, box});
}

std::vector<Thing> Collector::things(int least_frames) const {
    std::vector<Thing> all;
    for (const auto &[id, seen] : tracks_)
        if (seen.size() >= static_cast<size_t>(least_frames))
            all.push_back({id, seen});
    std::stable_sort(all.begin(), all.end(),
                     [](const Thing &a, const Thing &b) { return a.seen.front().seconds < b.seen.front().seconds; });
    return all;
}

// Colors that neighbors in the list tell apart.
static cv::Scalar colorOf(uint32_t id) {
    static const cv::Scalar colors[] = {{60, 220, 255}, {255, 180, 60}, {120, 255, 120}, {200, 120, 255},
                                        {80, 120, 255}, {255, 255, 90}, {180, 180, 255}, {90, 230, 200}};
    return colors[id % (sizeof colors / sizeof *colors)];
}

void Collector::draw(cv::Mat &picture, const std::vector<cusMotionBox> &boxes, int least_frames) const {
    std::vector<cusMotionBox> shown;
    std::copy_if(boxes.begin(), boxes.end(), std::back_inserter(shown),
                 [&](const cusMotionBox &b) { return tracks_.at(b.track).size() >= static_cast<size_t>(least_frames); });
    for (const cusMotionBox &b : shown) {
        std::vector<cv::Point> path;
        for (const Seen &s : tracks_.at(b.track))
            path.emplace_back(s.box.center_x / 256, s.box.center_y / 256);
        cv::polylines(picture, path, false, colorOf(b.track), 1, cv::LINE_AA);
        cv::rectangle(picture, cv::Rect(b.x, b.y, b.width, b.height), colorOf(b.track), 2);
    }
    sample::Labels labels(picture.size());
    for (const cusMotionBox &b : shown) // above all lines
        labels.draw(picture, std::to_string(b.track), {b.x + 4, b.y + 4}, 0.6, colorOf(b.track), {0, 0, 0});
}

std::vector<std::pair<double, double>> periods(const std::vector<Thing> &things, double margin) {
    std::vector<std::pair<double, double>> all;
    for (const Thing &thing : things) { // by their start
        const double start = std::max(0.0, thing.seen.front().seconds - margin), end = thing.seen.back().seconds + margin;
        if (all.empty() || start > all.back().second)
            all.emplace_back(start, end);
        else
            all.back().second = std::max(all.back().second, end);
    }
    return all;
}

static double pixels(int32_t fixed) {
    return fixed / 256.0;
}

static double meanStrength(const Thing &thing) {
    double sum = 0;
    for (const Seen &s : thing.seen)
        sum += s.box.strength / 256.0;
    return sum / static_cast<double>(thing.seen.size());
}

static sample::Json boxJson(const Seen &s) {
    return sample::Json()
        .add("t", s.seconds)
        .add("x", s.box.x)
        .add("y", s.box.y)
        .add("width", s.box.width)
        .add("height", s.box.height)
        .add("center_x", pixels(s.box.center_x))
        .add("center_y", pixels(s.box.center_y))
        .add("area", s.box.area)
        .add("strength", s.box.strength / 256.0);
}

static sample::Json inputJson(const Watched &input) {
    sample::Json json;
    json.add("input", input.name).add("width", input.size.width).add("height", input.size.height).add("fps", input.fps);
    json.add("frames", input.frames);
    if (!input.error.empty())
        json.add("error", input.error);
    for (const double t : input.sudden)
        json.append("sudden_changes", sample::Json().add("t", t));
    for (const std::string &clip : input.clips)
        json.append("clips", sample::Json().add("file", clip));
    for (const Thing &thing : input.things) {
        sample::Json each;
        each.add("id", thing.id).add("start", thing.seen.front().seconds).add("end", thing.seen.back().seconds);
        each.add("frames", thing.seen.size()).add("strength", meanStrength(thing));
        for (const Seen &s : thing.seen)
            each.append("boxes", boxJson(s));
        json.append("things", each);
    }
    return json;
}

static void writeRows(sample::OutputFile &file, const Watched &input) {
    const std::string name = sample::csvCell(input.name);
    for (const Thing &thing : input.things)
        for (const Seen &s : thing.seen)
            file.print("%s,%u,%.6f,%d,%d,%d,%d,%.3f,%.3f,%u,%.3f\n", name.c_str(), thing.id, s.seconds, s.box.x, s.box.y,
                       s.box.width, s.box.height, pixels(s.box.center_x), pixels(s.box.center_y), s.box.area,
                       s.box.strength / 256.0);
}

void writeReport(sample::OutputFile &file, const std::vector<Watched> &inputs) {
    if (sample::ending(file.path()) == ".json") {
        sample::Json json;
        for (const Watched &input : inputs)
            json.append("inputs", inputJson(input));
        file.print("%s\n", json.text().c_str());
    } else {
        file.print("input,id,t,x,y,width,height,center_x,center_y,area,strength\n");
        for (const Watched &input : inputs)
            writeRows(file, input);
    }
}

} // namespace heatmap
