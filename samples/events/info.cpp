#include "events/info.hpp"

#include "events/source.hpp"

#include "common/app.hpp"
#include "common/terminal/progress.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace events {

namespace {

using sample::Json;
using ull = unsigned long long;

// Facts that require reading all events.
class Statistics {
  public:
    explicit Statistics(cv::Size sensor)
        : sensor_(sensor), width_(sensor.width ? static_cast<size_t>(sensor.width) : 65536), pixels_(65536, 0) {}

    void add(const cusEventArrays &e) {
        first_ = first_ < 0 ? e.t[0] : first_;
        last_ = e.t[e.count - 1];
        for (size_t i = 0; i < e.count; ++i) {
            positive_ += e.p[i];
            right_ = std::max<unsigned>(right_, e.x[i]);
            bottom_ = std::max<unsigned>(bottom_, e.y[i]);
        }
        if (pixels_.size() < (bottom_ + size_t{1}) * width_)
            pixels_.resize((bottom_ + size_t{1}) * width_);
        for (size_t i = 0; i < e.count; ++i)
            ++pixels_[e.y[i] * width_ + e.x[i]];
        events_ += e.count;
    }

    uint64_t events() const { return events_; }

    void reportSensor() const {
        if (sensor_.width)
            sample::figure("sensor", Json().add("width", sensor_.width).add("height", sensor_.height), "%d x %d",
                           sensor_.width, sensor_.height);
        else
            sample::figure("sensor", Json().add("largest_x", right_).add("largest_y", bottom_),
                           "not given; events reach x %u, y %u", right_, bottom_);
    }

    void reportEvents() const {
        sample::figure("events", Json().add("events", events_), "%llu", static_cast<ull>(events_));
        if (!events_)
            return;
        const double seconds = 1e-6 * static_cast<double>(last_ - first_);
        sample::figure("time", Json().add("first_time", first_).add("last_time", last_).add("seconds", seconds),
                       "%lld .. %lld us, %.6f s", static_cast<long long>(first_), static_cast<long long>(last_), seconds);
        if (seconds > 0)
            sample::figure("rate", Json().add("events_per_second", static_cast<double>(events_) / seconds),
                           "%.4f million events/s", 1e-6 * static_cast<double>(events_) / seconds);
        const double positive = static_cast<double>(positive_) / static_cast<double>(events_);
        sample::figure("positive", Json().add("positive", positive), "%.2f %%", 100 * positive);
        reportPixels();
    }

  private:
    // A hot pixel fires at least 20 times as often as the median of the pixels that fire at all.
    void reportPixels() const {
        std::vector<size_t> active;
        for (size_t i = 0; i < pixels_.size(); ++i)
            if (pixels_[i])
                active.push_back(i);
        sample::figure("active pixels", Json().add("active_pixels", active.size()), "%zu", active.size());
        const auto middle = active.begin() + static_cast<std::ptrdiff_t>(active.size() / 2);
        std::nth_element(active.begin(), middle, active.end(), [&](size_t a, size_t b) { return pixels_[a] < pixels_[b]; });
        const uint32_t median = pixels_[*middle];
        std::vector<size_t> hot;
        std::copy_if(active.begin(), active.end(), std::back_inserter(hot),
                     [&](size_t i) { return pixels_[i] >= 20 * median; });
        std::sort(hot.begin(), hot.end(), [&](size_t a, size_t b) {
            return pixels_[a] != pixels_[b] ? pixels_[a] > pixels_[b] : a < b; // ties: by position
        });
        std::string hottest;
        Json json = Json().add("median_events_per_pixel", median).add("hot_pixels", hot.size());
        for (size_t i = 0; i < std::min<size_t>(hot.size(), 5); ++i) {
            json.append("hottest",
                        Json().add("x", hot[i] % width_).add("y", hot[i] / width_).add("events", pixels_[hot[i]]));
            hottest += sample::text("%s(%zu, %zu) %u", i ? ", " : ": ", hot[i] % width_, hot[i] / width_, pixels_[hot[i]]);
        }
        sample::figure("hot pixels", json, "%zu with at least 20 times the median of %u%s", hot.size(), median,
                       hottest.c_str());
    }

    const cv::Size sensor_;
    const size_t width_;
    std::vector<uint32_t> pixels_; // events of each pixel; grows with the rows that occur
    uint64_t events_ = 0, positive_ = 0;
    unsigned right_ = 0, bottom_ = 0;
    int64_t first_ = -1, last_ = -1;
};

// Counts the triggers of a recording that does not have them among its events.
void countTriggers(EventSource &source, cusEventCounts &c) {
    for (auto some = source.triggers(); !some.empty(); some = source.triggers())
        for (const cusEventTrigger &trigger : some)
            ++(trigger.value ? c.triggers_rising : c.triggers_falling);
}

void reportCounts(const cusEventCounts &c) {
    if (c.triggers_rising + c.triggers_falling)
        sample::figure("triggers",
                       Json().add("triggers_rising", c.triggers_rising).add("triggers_falling", c.triggers_falling),
                       "%llu (%llu rising, %llu falling)", static_cast<ull>(c.triggers_rising) + c.triggers_falling,
                       static_cast<ull>(c.triggers_rising), static_cast<ull>(c.triggers_falling));
    if (c.bad_coordinates + c.bad_polarity + c.bad_time + c.bad_words + c.untimed)
        sample::figure("skipped",
                       Json()
                           .add("outside_sensor", c.bad_coordinates)
                           .add("bad_polarity", c.bad_polarity)
                           .add("back_in_time", c.bad_time)
                           .add("undefined", c.bad_words)
                           .add("untimed", c.untimed),
                       "%llu outside the sensor, %llu bad polarities, %llu back in time, %llu undefined, %llu before the "
                       "first time word",
                       static_cast<ull>(c.bad_coordinates), static_cast<ull>(c.bad_polarity), static_cast<ull>(c.bad_time),
                       static_cast<ull>(c.bad_words), static_cast<ull>(c.untimed));
}

} // namespace

void printInfo(const Settings &s) {
    const std::unique_ptr<EventSource> source = openEvents(s, false);
    Statistics statistics(source->sensor);
    sample::Progress progress("events", source->count > 0 ? source->count : 0);
    cusEventArrays e;
    while (!sample::interrupted() && source->next(e)) {
        statistics.add(e);
        if (source->arrival())
            (void)source->triggers(); // counted with the events
        progress.update(static_cast<long long>(statistics.events()));
    }
    progress.finish();

    sample::figure("input", "%s", source->describe().c_str());
    statistics.reportSensor();
    if (source->info() && source->info()->camera[0])
        sample::figure("camera", "%s", source->info()->camera);
    statistics.reportEvents();
    if (source->info()) {
        cusEventCounts counts = source->counts();
        if (source->info()->format == CUS_EVENTS_METAVISION)
            countTriggers(*source, counts);
        reportCounts(counts);
    }
    if (!source->problem().empty())
        throw sample::Stop(sample::INPUT, source->problem());
}

} // namespace events
