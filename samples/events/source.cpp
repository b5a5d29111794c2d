#include "events/source.hpp"

#include "events/camera.hpp"

#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"
#include "common/output.hpp"
#include "common/standard_input.hpp"
#include "events/pictures/video.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace events {

using sample::Stop;

void check(cusStatus status) {
    if (status == CUS_OK)
        return;
    throw Stop(status == CUS_ERROR_CUDA || status == CUS_ERROR_NO_CUDA ? sample::DEVICE : sample::FAILED,
               inOptions(cusLastError()));
}

void warnOutside(uint64_t outside, uint64_t inside) {
    if (outside <= inside)
        return;
    const std::string warning =
        sample::text("more than half of the events lie outside the frame, %llu of %llu; --sensor-size is "
                     "WIDTHxHEIGHT",
                     static_cast<unsigned long long>(outside), static_cast<unsigned long long>(outside) + inside);
    sample::note("warning: %s", warning.c_str());
    sample::detail({{"warning", warning}});
}

void EventSource::reportOutside(const cusEventCounts &decoded) const {
    const cusEventCounts read = counts();
    const uint64_t outside = std::max<uint64_t>(read.bad_coordinates, decoded.bad_coordinates);
    if (!outside)
        return;
    sample::figure("outside the sensor", {{"outside_sensor", outside}}, "%llu", static_cast<unsigned long long>(outside));
    warnOutside(outside, std::max<uint64_t>(read.events, decoded.events));
}

EventColumns::EventColumns(size_t capacity, bool pinned) {
    const int types[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // x, y, p; t is int64_t, as large as 64F
    for (int k = 0; k < 4; ++k)
        check(pinned ? cusMatCreatePinned(&column_[k], 1, static_cast<int>(capacity), types[k])
                     : cusMatCreate(&column_[k], 1, static_cast<int>(capacity), types[k], CUS_HOST));
}

EventColumns::~EventColumns() {
    for (cusMat &m : column_)
        cusMatRelease(&m);
}

namespace {

class RecordingSource final : public EventSource {
  public:
    static constexpr size_t PIECE = 800000; // whole chunks of M3ED and DSEC; four frames of the default size

    RecordingSource(cusEventReader *reader, const std::string &path, bool skip_bad, bool pinned)
        : reader_(reader), path_(path), columns_(PIECE, pinned) {
        check(cusEventReaderInfo(reader_, &info_));
        sensor = {info_.width, info_.height};
        count = skip_bad ? -1 : info_.count;
        first_time = info_.first_time;
        last_time = skip_bad ? -1 : info_.last_time;
    }
    ~RecordingSource() override { cusEventReaderClose(reader_); }

    bool next(cusEventArrays &events) override {
        if (!problem_.empty())
            return false;
        size_t got = 0;
        if (cusEventReaderRead(reader_, PIECE, columns_.x(), columns_.y(), columns_.p(), columns_.t(), &got) != CUS_OK)
            problem_ = path_ + ": " + inOptions(sample::lastMessage());
        events = columns_.view(got);
        return got > 0;
    }
    void rewind() override {
        problem_.clear();
        if (cusEventReaderSeekIndex(reader_, 0) != CUS_OK)
            throw Stop(sample::INPUT, path_ + ": " + sample::lastMessage());
    }
    cusEventReader *reader() override { return reader_; }
    bool seekTime(int64_t time) override {
        return sample::longCalls([&] { return cusEventReaderSeekTime(reader_, time, nullptr); }) == CUS_OK;
    }
    std::vector<cusEventTrigger> triggers() override {
        std::vector<cusEventTrigger> some(4096);
        size_t got = 0;
        const sample::LongCalls calls;
        const cusStatus status = cusEventReaderReadTriggers(reader_, some.size(), some.data(), &got);
        if (status != CUS_OK && status != CUS_ERROR_CANCELLED && problem_.empty()) // interrupted: there are no more
            problem_ = path_ + ": " + sample::lastMessage();
        some.resize(got);
        return some;
    }
    std::string describe() const override { return path_ + ", " + cusEventFormatName(info_.format); }
    const cusEventInfo *info() const override { return &info_; }
    cusEventCounts counts() const override {
        cusEventCounts c;
        check(cusEventReaderCounts(reader_, &c));
        return c;
    }

  private:
    cusEventInfo info_;
    cusEventReader *reader_;
    std::string path_;
    EventColumns columns_;
};

int64_t microseconds(double seconds) {
    return static_cast<int64_t>(std::llround(1e6 * seconds));
}

// For recordings that give no size: covers all events.
void measureSensor(EventSource &source, const std::string &name) {
    cusEventArrays e;
    while (!sample::interrupted() && source.next(e))
        for (size_t i = 0; i < e.count; ++i) {
            source.sensor.width = std::max(source.sensor.width, e.x[i] + 1);
            source.sensor.height = std::max(source.sensor.height, e.y[i] + 1);
        }
    if (!source.sensor.width)
        throw Stop(sample::INPUT, name + " contains no events" + (source.problem().empty() ? "" : ": " + source.problem()));
    source.rewind();
}

cusEventGeneratorOptions generatorOptions(const Settings &s, cusSpace space) {
    cusEventGeneratorOptions options = cusEventGeneratorDefaults();
    options.positive = options.negative = s.contrast_threshold;
    options.threshold_spread = s.threshold_spread;
    options.refractory_us = s.refractory;
    options.leak_rate = s.leak_rate;
    options.leak_jitter = s.leak_jitter;
    options.shot_rate = s.shot_rate;
    options.seed = static_cast<uint64_t>(s.seed);
    options.space = space;
    return options;
}

} // namespace

std::unique_ptr<EventSource> openEvents(const Settings &s, bool pinned) {
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.width = s.sensor.width;
    options.height = s.sensor.height;
    options.camera = s.camera.empty() ? nullptr : s.camera.c_str();
    options.bad_events = s.skip_bad ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    options.max_memory = s.memory->reader();
    options.max_chunk = std::clamp<size_t>(options.max_memory / 16, 64 << 20, UINT32_MAX);
    cusEventReader *reader = nullptr;
    const bool standard = sample::isStandard(s.input);
    std::string path = s.input;
    const std::string name = standard ? "stdin" : s.input;
    if (standard) { // other recordings than those of a camera are read back and forth, so stdin becomes a file
        sample::StandardInput input;
        if (auto camera = openCamera(input, s, options, pinned))
            return camera;
        path = input.spool();
    }
    const cusStatus status = sample::longCalls([&] { return cusEventReaderOpen(&reader, path.c_str(), &options); });
    if (status == CUS_OK)
        return std::make_unique<RecordingSource>(reader, name, s.skip_bad, pinned);
    const std::string message = inOptions(sample::lastMessage());
    // An input that no reader recognizes may be a video, a camera or a folder of images.
    sample::requireRegular(path);
    if (status == CUS_ERROR_IO || message.find("not an event recording") != std::string::npos)
        return openVideo(path, generatorOptions(s, pinned ? CUS_DEVICE : CUS_HOST), *s.memory);
    throw Stop(sample::INPUT, name + ": " + message);
}

Selection::Selection(EventSource &source, const Settings &s)
    : grid(s.resize), source_(source), input_(s.input), from_(microseconds(s.from)),
      to_(s.to < 0 ? -1 : microseconds(s.to)), filter_options_(cusEventFilterDefaults()),
      filters_(s.crop[2] || s.flip != "none" || s.hot_events || s.activity || s.resize.width) {
    if (!source.sensor.width)
        measureSensor(source, s.input);
    const sample::Size kept = s.crop[2] ? sample::Size{s.crop[2], s.crop[3]} : source.sensor;
    cusEventFilterOptions &o = filter_options_;
    o.width = source.sensor.width, o.height = source.sensor.height;
    o.x = s.crop[0], o.y = s.crop[1], o.region_width = s.crop[2], o.region_height = s.crop[3];
    o.flip_x = s.flip == "x" || s.flip == "both";
    o.flip_y = s.flip == "y" || s.flip == "both";
    o.hot_events = static_cast<uint64_t>(s.hot_events);
    o.activity = s.activity;
    for (const auto &[is_given, name] : {std::pair<bool, const char *>{s.crop[2] > 0, "--crop"},
                                         {s.hot_events > 0, "--hot-pixels"},
                                         {s.activity > 0, "--activity"}})
        if (is_given)
            dropping_ += (dropping_.empty() ? "" : " and ") + std::string(name);
    const double pixels = (o.width + 2.0) * (o.height + 2.0);
    if (o.hot_events)
        s.memory->take(16 * pixels, sample::text("the counts of --hot-pixels for %d x %d pixels", o.width, o.height));
    if (o.activity)
        s.memory->take(8 * pixels, sample::text("the times of --activity for %d x %d pixels", o.width, o.height));
    o.grid_width = grid.width, o.grid_height = grid.height;
    grid = grid.width ? grid : kept;
    rewind();
}

void Selection::rewind() {
    if (filters_) {
        cusEventFilter *made = nullptr;
        check(cusEventFilterCreate(&made, &filter_options_));
        filter_.reset(made);
    }
    source_.rewind();
    start_ = -1;
    if (from_ && source_.first_time >= 0 && source_.seekTime(source_.first_time + from_))
        start_ = source_.first_time;
}

void Selection::choose(cusEventFramesOptions &options) {
    options.filter = filters_ ? &filter_options_ : nullptr;
    cusEventArrays first;
    if ((from_ || to_ >= 0) && start_ < 0)
        start_ = source_.next(first) ? first.t[0] : 0;
    source_.rewind();
    options.from = from_ ? start_ + from_ : options.from;
    options.to = to_ < 0 ? options.to : start_ + to_;
}

std::string Selection::whyEmpty(bool read) const {
    if ((is_filtered_ || (read && filters_)) && !dropping_.empty())
        return dropping_ + " keep none of those that are there";
    return from_ || to_ >= 0 ? "--range contains no events" : input_ + " contains no events";
}

bool Selection::next(cusEventArrays &events) {
    while (!sample::interrupted() && source_.next(events)) {
        if (start_ < 0)
            start_ = events.t[0];
        const int64_t *end = events.t + events.count;
        const auto low = static_cast<size_t>(std::lower_bound(events.t, end, start_ + from_) - events.t);
        const auto high =
            to_ < 0 ? events.count : static_cast<size_t>(std::lower_bound(events.t, end, start_ + to_) - events.t);
        const bool over = high < events.count;
        events = {events.x + low, events.y + low, events.p + low, events.t + low, high - std::min(low, high), CUS_HOST};
        if (events.count)
            filter(events);
        if (events.count)
            return true;
        if (over)
            return false;
    }
    return false;
}

void Selection::filter(cusEventArrays &events) {
    if (!filters_)
        return;
    is_filtered_ = true;
    const size_t n = events.count;
    x_.assign(events.x, events.x + n);
    y_.assign(events.y, events.y + n);
    p_.assign(events.p, events.p + n);
    t_.assign(events.t, events.t + n);
    check(cusEventFilterRun(filter_.get(), n, x_.data(), y_.data(), p_.data(), t_.data(), &events.count));
    events = {x_.data(), y_.data(), p_.data(), t_.data(), events.count, CUS_HOST};
}

} // namespace events
