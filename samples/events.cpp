// Turns a recording of an event camera, or a video, into frames: pictures, videos, raw frames, HDF5; or says what is in it.
#include "common/app.hpp"
#include "common/eventview.hpp"
#include "common/md5.hpp"
#include "common/options.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/eventio.h"
#include "cusight/events.h"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace {

using sample::Stop;

void check(cusStatus status) {
    if (status == CUS_OK)
        return;
    throw Stop(status == CUS_ERROR_CUDA || status == CUS_ERROR_NO_CUDA ? sample::DEVICE : sample::FAILED, cusLastError());
}

bool endsWith(const std::string &text, const std::string &ending) {
    return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

struct Settings {
    std::string first, second; // INPUT, or "info" INPUT
    std::string representation = "histogram", camera, size, resize, range, shard, save;
    int channels = 0, events = 200000, window_us = 0, stride = 0;
    double speed = 1, fps = 30, threshold = 0.2;
    bool md5 = false, keep_last = false, skip_bad = false;
    sample::Common common;
};

cv::Size parseSize(const std::string &option, const std::string &text) {
    int width = 0, height = 0;
    char rest = 0;
    if (text.empty())
        return {};
    if (std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest) != 2 || width < 1 || height < 1 || width > 65536 ||
        height > 65536)
        throw Stop(sample::USAGE, option + " is '" + text + "', takes WIDTHxHEIGHT, 1..65536 each");
    return {width, height};
}

// ---- Events from a recording or a video, a piece at a time -------------------------------------------------------------

class Input {
  public:
    virtual ~Input() = default;
    // The next events, valid until the next call; false at the end. A recording that breaks off ends there, and problem()
    // says why.
    virtual bool next(cusEventArrays &events) = 0;
    virtual void rewind() = 0;
    // Whether event `index` can be made the next one at once.
    virtual bool seek(uint64_t index) {
        (void)index;
        return false;
    }
    virtual bool seekTime(int64_t) { return false; }
    virtual std::string describe() const = 0;

    const std::string &problem() const { return problem_; }
    cv::Size sensor;
    int64_t count = -1, first_time = -1, last_time = -1; // -1: not known yet

  protected:
    std::string problem_;
};

class Recording : public Input {
  public:
    static constexpr int PIECE = 800000; // whole chunks of M3ED and DSEC, four windows of the usual size

    Recording(cusEventReader *reader, const std::string &path, const Settings &s, bool pinned)
        : reader_(reader), path_(path), seekable_(!s.skip_bad) {
        check(cusEventReaderInfo(reader_, &info));
        sensor = {info.width, info.height};
        count = s.skip_bad ? -1 : info.count;
        first_time = info.first_time;
        last_time = s.skip_bad ? -1 : info.last_time;
        const int types[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // 64F: eight bytes each, for t
        for (int k = 0; k < 4; ++k)
            check(pinned ? cusMatCreatePinned(&column_[k], 1, PIECE, types[k])
                         : cusMatCreate(&column_[k], 1, PIECE, types[k], CUS_HOST));
    }
    ~Recording() override {
        cusEventReaderClose(reader_);
        for (cusMat &m : column_)
            cusMatRelease(&m);
    }

    bool next(cusEventArrays &events) override {
        if (!problem_.empty())
            return false;
        auto *x = static_cast<uint16_t *>(column_[0].data), *y = static_cast<uint16_t *>(column_[1].data);
        auto *p = static_cast<uint8_t *>(column_[2].data);
        auto *t = static_cast<int64_t *>(column_[3].data);
        size_t got = 0;
        if (cusEventReaderRead(reader_, PIECE, x, y, p, t, &got) != CUS_OK)
            problem_ = path_ + ": " + cusLastError();
        events = {x, y, p, t, got, CUS_HOST};
        return got > 0;
    }
    void rewind() override {
        problem_.clear();
        if (cusEventReaderSeekIndex(reader_, 0) != CUS_OK)
            throw Stop(sample::INPUT, path_ + ": " + cusLastError());
    }
    bool seek(uint64_t index) override {
        return seekable_ && cusEventReaderSeekIndex(reader_, static_cast<int64_t>(index)) == CUS_OK;
    }
    bool seekTime(int64_t time) override { return cusEventReaderSeekTime(reader_, time, nullptr) == CUS_OK; }
    std::string describe() const override { return path_ + ", " + cusEventFormatName(info.format); }
    cusEventCounts counts() const {
        cusEventCounts c;
        check(cusEventReaderCounts(reader_, &c));
        return c;
    }

    cusEventInfo info;

  private:
    cusEventReader *reader_;
    std::string path_;
    bool seekable_;
    cusMat column_[4] = {};
};

// Events made from video.
class Video final : public Input {
  public:
    Video(const std::string &spec, double threshold) : spec_(spec), threshold_(threshold) { rewind(); }
    ~Video() override { cusEventGeneratorDestroy(generator_); }

    bool next(cusEventArrays &events) override {
        while (source_->read(frame_)) {
            cv::cvtColor(frame_, gray_, cv::COLOR_BGR2GRAY);
            cusMat view = CUS_MAT_INIT;
            check(cusMatWrap(&view, gray_.rows, gray_.cols, CUS_8UC1, CUS_HOST, gray_.data, gray_.step));
            const auto time = static_cast<int64_t>(std::llround(1e6 * static_cast<double>(frames_++) / source_->fps()));
            check(cusEventGeneratorPush(generator_, &view, time, &events));
            if (events.count)
                return true;
        }
        return false;
    }
    void rewind() override {
        source_ = sample::openSource(spec_);
        sensor = source_->size();
        cusEventGeneratorDestroy(generator_);
        generator_ = nullptr;
        const cusEventGeneratorOptions options = {threshold_, threshold_};
        check(cusEventGeneratorCreate(&generator_, sensor.height, sensor.width, &options));
        frames_ = 0;
    }
    std::string describe() const override { return source_->name() + ", events made from video"; }

  private:
    std::string spec_;
    double threshold_;
    std::unique_ptr<sample::Source> source_;
    cusEventGenerator *generator_ = nullptr;
    cv::Mat frame_, gray_;
    long long frames_ = 0;
};

std::unique_ptr<Input> openInput(const std::string &name, const Settings &s, bool pinned) {
    cusEventReaderOptions options = cusEventReaderDefaults();
    const cv::Size size = parseSize("--size", s.size);
    options.width = size.width;
    options.height = size.height;
    options.camera = s.camera.empty() ? nullptr : s.camera.c_str();
    options.bad_events = s.skip_bad ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    cusEventReader *reader = nullptr;
    const cusStatus status = cusEventReaderOpen(&reader, name.c_str(), &options);
    if (status == CUS_OK)
        return std::make_unique<Recording>(reader, name, s, pinned);
    const std::string message = cusLastError();
    // What no reader knows may be a video, a camera, a folder of images.
    if (status == CUS_ERROR_IO || message.find("not an event recording") != std::string::npos)
        return std::make_unique<Video>(name, s.threshold);
    throw Stop(sample::INPUT, name + ": " + message);
}

// ---- info --------------------------------------------------------------------------------------------------------------

int info(const Settings &s) {
    std::unique_ptr<Input> input = openInput(s.second, s, false);
    std::vector<uint32_t> pixels(65536, 0); // grows with the rows that occur
    const bool known = input->sensor.width > 0;
    const size_t width = known ? static_cast<size_t>(input->sensor.width) : 65536;
    uint64_t events = 0, positive = 0;
    unsigned right = 0, bottom = 0;
    int64_t first = -1, last = -1;
    cusEventArrays e;
    sample::Progress progress("events", input->count > 0 ? input->count : 0);
    while (!sample::interrupted() && input->next(e)) {
        first = first < 0 ? e.t[0] : first;
        last = e.t[e.count - 1];
        for (size_t i = 0; i < e.count; ++i) {
            positive += e.p[i];
            right = std::max<unsigned>(right, e.x[i]);
            bottom = std::max<unsigned>(bottom, e.y[i]);
        }
        if (pixels.size() < (bottom + size_t{1}) * width)
            pixels.resize((bottom + size_t{1}) * width);
        for (size_t i = 0; i < e.count; ++i)
            ++pixels[e.y[i] * width + e.x[i]];
        events += e.count;
        progress.update(static_cast<long long>(events));
    }
    progress.finish();

    sample::figure("input", "%s", input->describe().c_str());
    if (known)
        sample::figure("sensor", "%d x %d", input->sensor.width, input->sensor.height);
    else
        sample::figure("sensor", "not said; events reach x %u, y %u", right, bottom);
    const auto *recording = dynamic_cast<const Recording *>(input.get());
    if (recording && recording->info.camera[0])
        sample::figure("camera", "%s", recording->info.camera);
    sample::figure("events", "%llu", static_cast<unsigned long long>(events));
    if (events) {
        const double seconds = 1e-6 * static_cast<double>(last - first);
        sample::figure("time", "%lld .. %lld us, %.6f s", static_cast<long long>(first), static_cast<long long>(last),
                       seconds);
        if (seconds > 0)
            sample::figure("rate", "%.4f million events/s", 1e-6 * static_cast<double>(events) / seconds);
        sample::figure("positive", "%.2f %%", 100 * static_cast<double>(positive) / static_cast<double>(events));
        // A hot pixel fires 20 times as often as the median of those that fire at all.
        std::vector<size_t> active;
        for (size_t i = 0; i < pixels.size(); ++i)
            if (pixels[i])
                active.push_back(i);
        sample::figure("active pixels", "%zu", active.size());
        const auto middle = active.begin() + static_cast<std::ptrdiff_t>(active.size() / 2);
        const auto fewer = [&](size_t a, size_t b) { return pixels[a] < pixels[b]; };
        std::nth_element(active.begin(), middle, active.end(), fewer);
        const uint32_t median = pixels[*middle];
        active.erase(std::remove_if(active.begin(), active.end(), [&](size_t i) { return pixels[i] < 20 * median; }),
                     active.end());
        std::sort(active.begin(), active.end(), [&](size_t a, size_t b) {
            return pixels[a] != pixels[b] ? pixels[a] > pixels[b] : a < b; // the first of equal ones first
        });
        std::string hottest;
        for (size_t i = 0; i < std::min<size_t>(active.size(), 5); ++i)
            hottest +=
                sample::text("%s(%zu, %zu) %u", i ? ", " : ": ", active[i] % width, active[i] / width, pixels[active[i]]);
        sample::figure("hot pixels", "%zu with 20 times the median of %u%s", active.size(), median, hottest.c_str());
    }
    if (recording) {
        const cusEventCounts c = recording->counts();
        if (c.triggers_rising + c.triggers_falling)
            sample::figure("triggers", "%llu (%llu rising, %llu falling)",
                           static_cast<unsigned long long>(c.triggers_rising) + c.triggers_falling,
                           static_cast<unsigned long long>(c.triggers_rising),
                           static_cast<unsigned long long>(c.triggers_falling));
        const uint64_t bad = c.bad_coordinates + c.bad_polarity + c.bad_time + c.bad_words + c.untimed;
        if (bad)
            sample::figure("left out",
                           "%llu outside the sensor, %llu bad polarities, %llu back in time, %llu undefined, %llu "
                           "before the first time word",
                           static_cast<unsigned long long>(c.bad_coordinates),
                           static_cast<unsigned long long>(c.bad_polarity), static_cast<unsigned long long>(c.bad_time),
                           static_cast<unsigned long long>(c.bad_words), static_cast<unsigned long long>(c.untimed));
    }
    if (!input->problem().empty())
        throw Stop(sample::INPUT, input->problem());
    return sample::OK;
}

// ---- The part of the input that is asked for ---------------------------------------------------------------------------

// Events of a time range, on another grid where asked.
class Part {
  public:
    Part(Input &input, const Settings &s) : input_(input) {
        if (!s.range.empty()) {
            char rest = 0;
            double from = 0, to = 0;
            if (std::sscanf(s.range.c_str(), "%lf:%lf%c", &from, &to, &rest) == 2 && from >= 0 && to > from && to < 1e9)
                to_ = static_cast<int64_t>(std::llround(1e6 * to));
            else if (!(std::sscanf(s.range.c_str(), "%lf:%c", &from, &rest) == 1 && from >= 0 && from < 1e9))
                throw Stop(sample::USAGE,
                           "--range is '" + s.range + "', takes FROM:TO or FROM: in seconds from the first event");
            from_ = static_cast<int64_t>(std::llround(1e6 * from));
        }
        grid = parseSize("--resize", s.resize);
        if (grid.width && (!input.sensor.width))
            throw Stop(sample::USAGE, "--resize needs the size of the sensor: --size WIDTHxHEIGHT");
        if (!grid.width)
            grid = input.sensor;
        else {
            scale_x_ = scale(input.sensor.width, grid.width);
            scale_y_ = scale(input.sensor.height, grid.height);
        }
        rewind();
    }

    void rewind() {
        input_.rewind();
        start_ = -1;
        if (from_ && input_.first_time >= 0 && input_.seekTime(input_.first_time + from_))
            start_ = input_.first_time;
    }

    bool next(cusEventArrays &events) {
        while (input_.next(events)) {
            if (start_ < 0)
                start_ = events.t[0];
            const int64_t *end = events.t + events.count;
            const auto low = static_cast<size_t>(std::lower_bound(events.t, end, start_ + from_) - events.t);
            const auto high =
                to_ < 0 ? events.count : static_cast<size_t>(std::lower_bound(events.t, end, start_ + to_) - events.t);
            const bool over = high < events.count;
            events = {events.x + low, events.y + low, events.p + low, events.t + low, high - std::min(low, high), CUS_HOST};
            if (events.count) {
                resize(events);
                return true;
            }
            if (over)
                return false;
        }
        return false;
    }

    // The range's first event plus `index` becomes the next one, where the input can.
    bool seek(uint64_t index) { return !from_ && input_.seek(index); }
    bool whole() const { return !from_ && to_ < 0; }

    cv::Size grid;

  private:
    static std::vector<uint16_t> scale(int from, int to) {
        std::vector<uint16_t> table(65536, 65535); // outside stays outside
        for (int i = 0; i < from; ++i)
            table[static_cast<size_t>(i)] = static_cast<uint16_t>(static_cast<int64_t>(i) * to / from);
        return table;
    }
    void resize(cusEventArrays &events) {
        if (scale_x_.empty())
            return;
        x_.resize(events.count);
        y_.resize(events.count);
        for (size_t i = 0; i < events.count; ++i) {
            x_[i] = scale_x_[events.x[i]];
            y_[i] = scale_y_[events.y[i]];
        }
        events.x = x_.data();
        events.y = y_.data();
    }

    Input &input_;
    int64_t from_ = 0, to_ = -1, start_ = -1;
    std::vector<uint16_t> scale_x_, scale_y_, x_, y_;
};

// ---- Outputs -----------------------------------------------------------------------------------------------------------

// Paces a window at the recording's speed: when, in the recording, an event lies.
class Clock {
  public:
    void piece(uint64_t first, const cusEventArrays &e) {
        pieces_.push_back({first, first + e.count, e.t[0], e.t[e.count - 1]});
        if (pieces_.size() > 64)
            pieces_.pop_front();
    }
    int64_t at(uint64_t event) const {
        for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p)
            if (event >= p->first)
                return p->from + static_cast<int64_t>(static_cast<double>(p->to - p->from) *
                                                      static_cast<double>(std::min(event, p->last) - p->first) /
                                                      static_cast<double>(p->last - p->first));
        return pieces_.empty() ? 0 : pieces_.front().from;
    }
    void waitFor(int64_t time, double speed) {
        const auto now = std::chrono::steady_clock::now();
        if (!started_) {
            started_ = true;
            began_ = now;
            origin_ = time;
        }
        const auto due =
            began_ + std::chrono::microseconds(static_cast<int64_t>(static_cast<double>(time - origin_) / speed));
        if (due > now)
            std::this_thread::sleep_until(std::min(due, now + std::chrono::seconds(1)));
    }

  private:
    struct Piece {
        uint64_t first, last;
        int64_t from, to;
    };
    std::deque<Piece> pieces_;
    bool started_ = false;
    std::chrono::steady_clock::time_point began_;
    int64_t origin_ = 0;
};

// Everything that happens to a batch of frames.
struct Output {
    cusRepresentation representation;
    cv::Size size;
    int type = 0;
    bool md5 = false, paced = false, closed = false;
    double speed = 1;
    sample::Md5 sum;
    std::FILE *raw = nullptr;
    std::string raw_name;
    cusFrameWriter *frames = nullptr;
    std::unique_ptr<sample::Sink> sink;
    Clock clock;
    uint64_t written = 0;
    std::exception_ptr error;

    ~Output() {
        if (raw)
            std::fclose(raw);
        cusFrameWriterDiscard(frames);
    }

    void take(const cusFrameBatch &batch) {
        const cusMat &m = batch.frames[0];
        const size_t row = static_cast<size_t>(m.cols) * cusTypeSize(m.type);
        for (size_t y = 0; (md5 || raw) && y < static_cast<size_t>(m.rows); ++y) {
            const char *bytes = static_cast<const char *>(m.data) + y * m.step;
            if (md5)
                sum.update(bytes, row);
            if (raw && std::fwrite(bytes, 1, row, raw) != row)
                throw Stop(sample::OUTPUT, raw_name + " cannot be written: " + std::strerror(errno));
        }
        if (frames && cusFrameWriterWrite(frames, &m) != CUS_OK)
            throw Stop(sample::OUTPUT, cusLastError());
        for (size_t w = 0; sink && w < batch.count && !closed; ++w) {
            const cv::Mat frame(size.height, size.width, m.type,
                                static_cast<char *>(m.data) + w * static_cast<size_t>(size.height) * m.step, m.step);
            if (paced)
                clock.waitFor(clock.at(batch.windows[w].last), speed);
            closed = !sink->write(sample::eventPicture(representation, frame)) || sample::interrupted();
        }
        written += batch.count;
    }

    // What the stream calls: no exception may pass through it.
    static cusStatus receive(void *user, const cusFrameBatch *batch) {
        auto *self = static_cast<Output *>(user);
        try {
            self->take(*batch);
            return self->closed ? CUS_ERROR_IO : CUS_OK;
        } catch (...) {
            self->error = std::current_exception();
            return CUS_ERROR_IO;
        }
    }

    void finish() {
        if (raw && std::fclose(std::exchange(raw, nullptr)) != 0)
            throw Stop(sample::OUTPUT, raw_name + " cannot be written: " + std::strerror(errno));
        if (frames && cusFrameWriterFinish(std::exchange(frames, nullptr)) != CUS_OK)
            throw Stop(sample::OUTPUT, cusLastError());
        if (sink)
            sink->finish();
    }
};

// ---- The program -------------------------------------------------------------------------------------------------------

// Windows of a recording that is `extent` events or microseconds long.
uint64_t windowCount(uint64_t extent, const cusWindowing &w) {
    const uint64_t stride = w.stride ? w.stride : w.length;
    const uint64_t whole = extent >= w.length ? (extent - w.length) / stride + 1 : 0;
    return whole + (w.keep_incomplete && whole * stride < extent);
}

struct Shard {
    uint64_t first = 0, end = 0; // windows; end 0: to the end
    bool empty = false;
};

Shard chooseShard(const Settings &s, Input &input, Part &part, const cusWindowing &windowing) {
    Shard shard;
    if (s.shard.empty())
        return shard;
    unsigned long long i = 0, n = 0;
    char rest = 0;
    if (std::sscanf(s.shard.c_str(), "%llu/%llu%c", &i, &n, &rest) != 2 || i < 1 || i > n || n > 1000000)
        throw Stop(sample::USAGE, "--shard is '" + s.shard + "', takes I/N with I from 1 to N");
    const bool by_count = windowing.unit == CUS_WINDOW_COUNT;
    uint64_t extent = 0;
    if (part.whole() && input.count > 0 && (by_count || input.last_time >= 0)) {
        extent =
            by_count ? static_cast<uint64_t>(input.count) : static_cast<uint64_t>(input.last_time - input.first_time) + 1;
    } else { // it has to be looked through
        cusEventArrays e;
        int64_t first = -1;
        while (!sample::interrupted() && part.next(e)) {
            first = first < 0 ? e.t[0] : first;
            extent = by_count ? extent + e.count : static_cast<uint64_t>(e.t[e.count - 1] - first) + 1;
        }
        part.rewind();
    }
    const uint64_t windows = windowCount(extent, windowing);
    shard.first = windows * (i - 1) / n;
    shard.end = windows * i / n;
    shard.empty = shard.first == shard.end;
    return shard;
}

cusRepresentation chooseRepresentation(const Settings &s) {
    for (int kind = 0; const char *name = cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind)
        if (s.representation == name) {
            cusRepresentation r = cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind));
            if (s.channels)
                r.channels = s.channels;
            return r;
        }
    throw Stop(sample::USAGE, "--repr is '" + s.representation + "'");
}

void openOutputs(Output &out, const Settings &s, const cusWindowing &windowing, const std::string &title) {
    const std::string &name = s.common.output;
    const bool is_raw = endsWith(name, ".raw"), is_h5 = endsWith(name, ".h5") || endsWith(name, ".hdf5");
    if (is_raw) {
        out.raw_name = name;
        out.raw = std::fopen(name.c_str(), "wb");
        if (!out.raw)
            throw Stop(sample::OUTPUT, name + " cannot be written: " + std::strerror(errno));
    } else if (is_h5 &&
               cusFrameWriterCreate(&out.frames, name.c_str(), out.size.height, out.size.width, out.type) != CUS_OK) {
        throw Stop(sample::OUTPUT, cusLastError());
    }
    const bool data = is_raw || is_h5, window = !s.common.headless && sample::displayProblem().empty();
    if (!window && (data || (name.empty() && (s.md5 || !s.save.empty()))))
        return;
    sample::Common common = s.common;
    if (data)
        common.output.clear();
    double fps = s.fps;
    if (windowing.unit == CUS_WINDOW_DURATION) // a video plays at the recording's speed
        fps = std::min(240.0, std::max(1.0, 1e6 * s.speed / static_cast<double>(windowing.stride)));
    out.sink = sample::openSink(common, title, "events.mp4", out.size, fps);
    out.paced = window;
}

// Converts what passes into an M3ED-style recording.
class Saver {
  public:
    Saver(const std::string &path, cv::Size size) {
        if (path.empty())
            return;
        cusEventWriterOptions options = cusEventWriterDefaults();
        options.width = size.width;
        options.height = size.height;
        if (cusEventWriterCreate(&writer_, path.c_str(), &options) != CUS_OK)
            throw Stop(sample::OUTPUT, cusLastError());
    }
    ~Saver() { cusEventWriterDiscard(writer_); }
    void take(const cusEventArrays &e) {
        if (writer_ && cusEventWriterWrite(writer_, e.count, e.x, e.y, e.p, e.t) != CUS_OK)
            throw Stop(sample::OUTPUT, cusLastError());
    }
    void finish() {
        if (writer_ && cusEventWriterFinish(std::exchange(writer_, nullptr)) != CUS_OK)
            throw Stop(sample::OUTPUT, cusLastError());
    }

  private:
    cusEventWriter *writer_ = nullptr;
};

int run(int argc, char **argv) {
    Settings s;
    sample::Options options(
        "cusight-events",
        "Turns a recording of an event camera into frames. \"cusight-events info INPUT\" says what is in it.");
    options.argument(
        s.first, "INPUT",
        "a recording (M3ED or DSEC HDF5, Prophesee RAW EVT2 or EVT3, DAT, text), known by its content; or what events "
        "are made from: " +
            std::string(sample::SOURCE_HELP));
    options.argument(s.second, "INPUT", "after \"info\"", false);
    std::vector<std::string> names;
    for (int kind = 0; const char *name = cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind)
        names.emplace_back(name);
    options.choice(s.representation, "--repr", names, "what a frame shows");
    options.number(s.channels, "--channels", "N", "of mdes and mdes_count, or time bins; 0: the representation's default",
                   0, 16);
    options.number(s.events, "--events-per-frame", "N", "events in a frame", 1, 2000000000);
    options.number(s.window_us, "--window-us", "T", "instead: microseconds in a frame", 0, 2000000000);
    options.number(s.stride, "--stride", "N", "from one frame's start to the next, events or microseconds; 0: as the frame",
                   0, 2000000000);
    options.flag(s.keep_last, "--keep-last", "also make the last frame, although it is not full");
    options.text(s.range, "--range", "FROM:TO", "seconds from the first event");
    options.text(s.shard, "--shard", "I/N", "make the I-th of N parts of the frames, I from 1");
    options.text(s.resize, "--resize", "WxH", "put the events on a grid of this size");
    options.text(s.size, "--size", "WxH", "the sensor, where the file does not say it");
    options.text(s.camera, "--camera", "NAME", "of an M3ED recording, left or right");
    options.flag(s.skip_bad, "--skip-bad", "leave bad events out, where the program would stop");
    options.number(s.threshold, "--threshold", "C", "video: change of log intensity that makes an event", 0.01, 10);
    options.flag(s.md5, "--md5", "print the MD5 of all frames in order");
    options.text(s.save, "--save", "FILE.h5", "write the events as an M3ED-style recording");
    options.number(s.speed, "--speed", "F", "of playing, 1 is the recording's own", 0.0001, 1000);
    options.number(s.fps, "--fps", "F", "of a video file made of frames by count", 1, 240);
    options.common(s.common, std::string("or the frames themselves, as NAME.raw or NAME.h5; otherwise ") +
                                 sample::SINK_HELP + "events.mp4");
    if (!options.parse(argc, argv))
        return sample::OK;
    if (s.first == "info") {
        if (s.second.empty())
            throw Stop(sample::USAGE, "info takes an INPUT");
        return info(s);
    }
    if (!s.second.empty())
        throw Stop(sample::USAGE, "'" + s.second + "' is one INPUT too many");

    const sample::Device device = sample::chooseDevice(s.common.device);
    std::unique_ptr<Input> input = openInput(s.first, s, device.space == CUS_DEVICE);
    if (!input->sensor.width) { // look how far the events reach
        cusEventArrays e;
        while (!sample::interrupted() && input->next(e))
            for (size_t i = 0; i < e.count; ++i) {
                input->sensor.width = std::max(input->sensor.width, e.x[i] + 1);
                input->sensor.height = std::max(input->sensor.height, e.y[i] + 1);
            }
        if (!input->sensor.width)
            throw Stop(sample::INPUT,
                       s.first + " holds no event" + (input->problem().empty() ? "" : ": " + input->problem()));
        input->rewind();
    }
    Part part(*input, s);

    cusEventPipelineOptions how = cusEventPipelineDefaults();
    how.windowing.unit = s.window_us ? CUS_WINDOW_DURATION : CUS_WINDOW_COUNT;
    how.windowing.length = static_cast<uint64_t>(s.window_us ? s.window_us : s.events);
    how.windowing.stride = static_cast<uint64_t>(s.stride ? s.stride : 0);
    if (!how.windowing.stride)
        how.windowing.stride = how.windowing.length;
    how.windowing.keep_incomplete = s.keep_last;
    how.compute = device.space;
    const Shard shard = chooseShard(s, *input, part, how.windowing);
    how.first_window = shard.first;
    how.end_window = shard.end;
    // A shard by count starts where its first window does, where the input can go there.
    if (shard.first && !shard.empty && how.windowing.unit == CUS_WINDOW_COUNT &&
        part.seek(shard.first * how.windowing.stride)) {
        how.first_window = 0;
        how.end_window = shard.end - shard.first;
    }

    Output out;
    out.representation = chooseRepresentation(s);
    out.size = part.grid;
    out.md5 = s.md5;
    out.speed = s.speed;
    check(cusRepresentationType(&out.representation, &out.type));
    openOutputs(out, s, how.windowing, "cusight-events: " + s.first);
    if (out.paced)
        how.batch_windows = 1;
    Saver saver(s.save, part.grid);

    cusEventPipeline *stream = nullptr;
    check(cusEventPipelineCreate(&stream, part.grid.height, part.grid.width, &out.representation, 1, &how, Output::receive,
                                 &out));
    const std::unique_ptr<cusEventPipeline, void (*)(cusEventPipeline *)> owner(stream, cusEventPipelineDestroy);
    uint64_t pushed = 0;
    const bool all = part.whole() && s.shard.empty();
    sample::Progress progress("events", all && input->count > 0 ? input->count : 0);
    cusStatus status = CUS_OK;
    cusEventArrays e;
    const uint64_t enough = !how.end_window || how.windowing.unit != CUS_WINDOW_COUNT
                                ? UINT64_MAX
                                : (how.end_window - 1) * how.windowing.stride + how.windowing.length;
    while (!shard.empty && status == CUS_OK && pushed < enough && !sample::interrupted() && part.next(e)) {
        // Small pieces while a window plays, so that it starts at once and knows the time.
        const size_t step = out.paced ? 65536 : e.count;
        for (size_t i = 0; i < e.count && status == CUS_OK; i += step) {
            cusEventArrays piece = {e.x + i, e.y + i, e.p + i, e.t + i, std::min(step, e.count - i), CUS_HOST};
            out.clock.piece(pushed, piece);
            saver.take(piece);
            status = cusEventPipelinePush(stream, &piece);
            pushed += piece.count;
            progress.update(static_cast<long long>(pushed),
                            sample::text("%llu frames", static_cast<unsigned long long>(out.written)));
        }
    }
    if (status == CUS_OK && !shard.empty)
        status = cusEventPipelineFlush(stream);
    const double seconds = progress.seconds();
    progress.finish();
    if (out.error)
        std::rethrow_exception(out.error);
    if (!out.closed)
        check(status);
    cusEventPipelineCounts counts = {};
    check(cusEventPipelineQuery(stream, &counts));
    out.finish();
    saver.finish();

    sample::figure("input", "%s, %d x %d", input->describe().c_str(), input->sensor.width, input->sensor.height);
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("frames", "%llu of %s, %d x %d", static_cast<unsigned long long>(out.written), s.representation.c_str(),
                   part.grid.width, part.grid.height);
    sample::figure("events", "%llu", static_cast<unsigned long long>(pushed));
    if (counts.skipped)
        sample::figure("outside the frame", "%llu", static_cast<unsigned long long>(counts.skipped));
    sample::figure("rate", "%.2f million events/s", 1e-6 * static_cast<double>(pushed) / std::max(seconds, 1e-9));
    if (s.md5)
        sample::figure("md5", "%s", out.sum.finish().c_str());
    if (out.sink)
        sample::figure("output", "%s", out.sink->name().c_str());
    if (endsWith(s.common.output, ".raw") || endsWith(s.common.output, ".h5") || endsWith(s.common.output, ".hdf5"))
        sample::figure("frames in", "%s", s.common.output.c_str());
    if (!s.save.empty())
        sample::figure("events in", "%s", s.save.c_str());
    if (!input->problem().empty())
        throw Stop(sample::INPUT, input->problem());
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
