#include "heatmap/things.hpp"

#include "common/app.hpp"
#include "common/terminal/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace heatmap {

// Whether a box shares no pixel with the first one of its thing. Leaves in the wind come back, people may stay a while.
static bool hasLeft(const cusMotionBox &first, const cusMotionBox &box) {
    return box.x >= first.x + first.width || first.x >= box.x + box.width || box.y >= first.y + first.height ||
           first.y >= box.y + box.height;
}

void keep(Watched &watched, const std::exception_ptr &error) {
    if (!error || !watched.error.empty())
        return;
    try {
        std::rethrow_exception(error);
    } catch (const sample::Stop &stop) {
        if (stop.code() == sample::INPUT)
            watched.error = stop.what();
        else if (stop.code() != sample::INTERRUPTED)
            throw;
    } catch (const std::exception &failed) {
        watched.error = watched.name + ": " + failed.what();
        watched.code = sample::FAILED;
    }
}

void Collector::add(double seconds, const std::vector<cusMotionBox> &boxes) {
    current_.clear();
    for (const cusMotionBox &box : boxes) {
        Thing &thing = tracks_[box.track];
        thing.seen.push_back({seconds, box});
        thing.left = thing.left || hasLeft(thing.seen.front().box, box);
        if (!thing.id && thing.left && thing.seen.size() >= least_frames_)
            thing.id = ++counted_;
        if (thing.id)
            current_.push_back(&thing);
    }
}

std::vector<Thing> Collector::things() const {
    std::vector<Thing> all;
    for (const auto &[track, thing] : tracks_)
        if (thing.id)
            all.push_back(thing);
    std::sort(all.begin(), all.end(), [](const Thing &a, const Thing &b) { return a.id < b.id; });
    return all;
}

std::vector<std::pair<double, double>> periods(const std::vector<Thing> &things, double margin) {
    std::vector<std::pair<double, double>> each, all;
    for (const Thing &thing : things)
        each.emplace_back(std::max(0.0, thing.seen.front().seconds - margin), thing.seen.back().seconds + margin);
    std::sort(each.begin(), each.end());
    for (const auto &[start, end] : each)
        if (all.empty() || start > all.back().second)
            all.emplace_back(start, end);
        else
            all.back().second = std::max(all.back().second, end);
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
