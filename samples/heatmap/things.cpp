#include "heatmap/things.hpp"

#include "common/app.hpp"
#include "common/terminal/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

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
    return {{"t", s.seconds},
            {"x", s.box.x},
            {"y", s.box.y},
            {"width", s.box.width},
            {"height", s.box.height},
            {"center_x", pixels(s.box.center_x)},
            {"center_y", pixels(s.box.center_y)},
            {"area", s.box.area},
            {"strength", s.box.strength / 256.0}};
}

static sample::Json inputJson(const Watched &input) {
    sample::Json json = {{"input", input.name},
                         {"width", input.size.width},
                         {"height", input.size.height},
                         {"fps", input.fps},
                         {"frames", input.frames}};
    if (!input.error.empty())
        json["error"] = input.error;
    if (input.damaged)
        json["damaged"] = input.damaged;
    for (const Gap &gap : input.gaps)
        json["lost"].push_back({{"t", gap.seconds}, {"seconds", gap.lasted}, {"reason", gap.why}});
    for (const double t : input.sudden)
        json["sudden_changes"].push_back({{"t", t}});
    for (const std::string &clip : input.clips)
        json["clips"].push_back({{"file", clip}});
    return json;
}

static sample::Json thingJson(const Thing &thing) {
    sample::Json json = {{"id", thing.id},
                         {"start", thing.seen.front().seconds},
                         {"end", thing.seen.back().seconds},
                         {"frames", thing.seen.size()},
                         {"strength", meanStrength(thing)}};
    for (const Seen &s : thing.seen)
        json["boxes"].push_back(boxJson(s));
    return json;
}

// An input's things are many after hours, so each is written before the next is made.
static void writeObject(sample::OutputFile &file, const Watched &input) {
    std::string members = sample::dump(inputJson(input));
    members.pop_back(); // }
    file.print("%s", members.c_str());
    const char *separator = ",\"things\":[";
    for (const Thing &thing : input.things) {
        file.print("%s%s", separator, sample::dump(thingJson(thing)).c_str());
        separator = ",";
    }
    file.print("%s", input.things.empty() ? "}" : "]}");
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
        for (size_t i = 0; i < inputs.size(); ++i) {
            file.print(i ? "," : "{\"inputs\":[");
            writeObject(file, inputs[i]);
        }
        file.print("]}\n");
    } else {
        file.print("input,id,t,x,y,width,height,center_x,center_y,area,strength\n");
        for (const Watched &input : inputs)
            writeRows(file, input);
    }
}

} // namespace heatmap
