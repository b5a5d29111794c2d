#include "events/info.hpp"

#include "events/source.hpp"

#include "common/app.hpp"
#include "common/terminal/progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace events {

namespace {

using sample::Json;
using ull = unsigned long long;

// The events of each pixel, in squares that exist where events are: what a sensor claims to have, or one far event, costs nothing.
class PixelCounts {
  public:
    explicit PixelCounts(Memory &memory) : memory_(memory), squares_(ROW * ROW) {}

    void add(unsigned x, unsigned y) {
        auto &square = squares_[(y / SIDE) * ROW + x / SIDE];
        if (!square && !make(square))
            return;
        ++(*square)[(y % SIDE) * SIDE + x % SIDE];
    }
    // "" or why the counts are not those of all events.
    const std::string &problem() const { return problem_; }

    struct Pixel {
        size_t x, y;
        uint32_t events;
    };
    // Those with events, row by row.
    std::vector<Pixel> active() const {
        std::vector<Pixel> list;
        for (size_t y = 0; y < ROW * SIDE; ++y)
            for (size_t k = 0; k < ROW; ++k)
                if (const auto &square = squares_[y / SIDE * ROW + k])
                    for (size_t x = 0; x < SIDE; ++x)
                        if (const uint32_t events = (*square)[y % SIDE * SIDE + x])
                            list.push_back({k * SIDE + x, y, events});
        return list;
    }

  private:
    static constexpr size_t SIDE = 64, ROW = 65536 / SIDE;
    using Square = std::array<uint32_t, SIDE * SIDE>;

    // The list of active pixels may double its room, and its hot ones are listed again.
    bool make(std::unique_ptr<Square> &square) {
        const double bytes = sizeof(Square) + SIDE * SIDE * 4 * sizeof(Pixel);
        if (problem_.empty() && !memory_.has(bytes))
            problem_ = "not counted: the pixels need " + memory_.excess(bytes);
        if (!problem_.empty())
            return false;
        memory_.take(bytes, "the pixels");
        square = std::make_unique<Square>();
        return true;
    }

    Memory &memory_;
    std::vector<std::unique_ptr<Square>> squares_;
    std::string problem_;
};

// Facts that require reading all events.
class Statistics {
  public:
    Statistics(sample::Size sensor, Memory &memory) : sensor_(sensor), pixels_(memory) {}

    void add(const cusEventArrays &e) {
        first_ = first_ < 0 ? e.t[0] : first_;
        last_ = e.t[e.count - 1];
        for (size_t i = 0; i < e.count; ++i) {
            positive_ += e.p[i];
            right_ = std::max<unsigned>(right_, e.x[i]);
            bottom_ = std::max<unsigned>(bottom_, e.y[i]);
            pixels_.add(e.x[i], e.y[i]);
        }
        events_ += e.count;
    }

    uint64_t events() const { return events_; }

    void reportSensor() const {
        if (sensor_.width)
            sample::figure("sensor", {{"width", sensor_.width}, {"height", sensor_.height}}, "%d x %d", sensor_.width,
                           sensor_.height);
        else
            sample::figure("sensor", {{"largest_x", right_}, {"largest_y", bottom_}}, "not given; events reach x %u, y %u",
                           right_, bottom_);
    }

    void reportEvents() const {
        sample::figure("events", {{"events", events_}}, "%llu", static_cast<ull>(events_));
        if (!events_)
            return;
        const double seconds = 1e-6 * static_cast<double>(last_ - first_);
        sample::figure("time", {{"first_time", first_}, {"last_time", last_}, {"seconds", seconds}},
                       "%lld .. %lld us, %.6f s", static_cast<long long>(first_), static_cast<long long>(last_), seconds);
        if (seconds > 0)
            sample::figure("rate", {{"events_per_second", static_cast<double>(events_) / seconds}}, "%.4f million events/s",
                           1e-6 * static_cast<double>(events_) / seconds);
        const double positive = static_cast<double>(positive_) / static_cast<double>(events_);
        sample::figure("positive", {{"positive", positive}}, "%.2f %%", 100 * positive);
        reportPixels();
    }

  private:
    // A hot pixel fires at least 20 times as often as the median of the pixels that fire at all.
    void reportPixels() const {
        if (!pixels_.problem().empty()) {
            sample::figureText("active pixels", "%s", pixels_.problem().c_str());
            return;
        }
        using Pixel = PixelCounts::Pixel;
        std::vector<Pixel> active = pixels_.active();
        sample::figure("active pixels", {{"active_pixels", active.size()}}, "%zu", active.size());
        const auto middle = active.begin() + static_cast<std::ptrdiff_t>(active.size() / 2);
        std::nth_element(active.begin(), middle, active.end(),
                         [](const Pixel &a, const Pixel &b) { return a.events < b.events; });
        const uint32_t median = middle->events;
        std::vector<Pixel> hot;
        std::copy_if(active.begin(), active.end(), std::back_inserter(hot),
                     [&](const Pixel &pixel) { return pixel.events >= 20 * median; });
        std::sort(hot.begin(), hot.end(), [](const Pixel &a, const Pixel &b) { // ties: by position
            return std::make_tuple(b.events, a.y, a.x) < std::make_tuple(a.events, b.y, b.x);
        });
        std::string hottest;
        Json json = {{"median_events_per_pixel", median}, {"hot_pixels", hot.size()}};
        for (size_t i = 0; i < std::min<size_t>(hot.size(), 5); ++i) {
            json["hottest"].push_back({{"x", hot[i].x}, {"y", hot[i].y}, {"events", hot[i].events}});
            hottest += sample::text("%s(%zu, %zu) %u", i ? ", " : ": ", hot[i].x, hot[i].y, hot[i].events);
        }
        sample::figure("hot pixels", json, "%zu with at least 20 times the median of %u%s", hot.size(), median,
                       hottest.c_str());
    }

    const sample::Size sensor_;
    PixelCounts pixels_;
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
        sample::figure("triggers", {{"triggers_rising", c.triggers_rising}, {"triggers_falling", c.triggers_falling}},
                       "%llu (%llu rising, %llu falling)", static_cast<ull>(c.triggers_rising) + c.triggers_falling,
                       static_cast<ull>(c.triggers_rising), static_cast<ull>(c.triggers_falling));
    if (c.bad_coordinates + c.bad_polarity + c.bad_time + c.bad_words + c.untimed)
        sample::figure("skipped",
                       {{"outside_sensor", c.bad_coordinates},
                        {"bad_polarity", c.bad_polarity},
                        {"back_in_time", c.bad_time},
                        {"undefined", c.bad_words},
                        {"untimed", c.untimed}},
                       "%llu outside the sensor, %llu bad polarities, %llu back in time, %llu undefined, %llu before the "
                       "first time word",
                       static_cast<ull>(c.bad_coordinates), static_cast<ull>(c.bad_polarity), static_cast<ull>(c.bad_time),
                       static_cast<ull>(c.bad_words), static_cast<ull>(c.untimed));
}

} // namespace

void printInfo(const Settings &s) {
    const std::unique_ptr<EventSource> source = openEvents(s, false);
    Statistics statistics(source->sensor, *s.memory);
    sample::Progress progress("events", source->count > 0 ? source->count : 0);
    cusEventArrays e;
    while (!sample::interrupted() && source->next(e)) {
        statistics.add(e);
        if (source->arrival())
            (void)source->triggers(); // counted with the events
        progress.update(static_cast<long long>(statistics.events()));
    }
    progress.finish();

    sample::figureText("input", "%s", source->describe().c_str());
    statistics.reportSensor();
    if (source->info() && source->info()->camera[0])
        sample::figureText("camera", "%s", source->info()->camera);
    statistics.reportEvents();
    if (source->info()) {
        cusEventCounts counts = source->counts();
        if (source->info()->format == CUS_EVENTS_METAVISION)
            countTriggers(*source, counts);
        reportCounts(counts);
        warnOutside(counts.bad_coordinates, statistics.events());
    }
    if (!source->problem().empty())
        throw sample::Stop(sample::INPUT, source->problem());
}

} // namespace events
