#include "events/output.hpp"

#include "events/merge.hpp"
#include "events/source.hpp"

#include "common/app.hpp"

#include "cusight/live.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <utility>

#include <sys/stat.h>

namespace events {

using sample::Stop;

namespace {

bool endsWith(const std::string &text, const std::string &ending) {
    return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

bool isRaw(const std::string &name) {
    return endsWith(name, ".raw");
}

bool isHdf5(const std::string &name) {
    return endsWith(name, ".h5") || endsWith(name, ".hdf5");
}

// Tells recordings apart, on whatever host: the size, and the CRC-32C of 64 places.
std::string fingerprint(const std::string &path) {
    constexpr long long PLACES = 64, BYTES = 4096;
    struct stat about;
    if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode))
        return "";
    std::ifstream file(path, std::ios::binary);
    uint32_t crc = 0;
    std::array<char, BYTES> bytes = {};
    for (long long k = 0; k < PLACES; ++k) {
        file.clear();
        file.seekg(std::max(0LL, static_cast<long long>(about.st_size) - BYTES) * k / (PLACES - 1));
        file.read(bytes.data(), BYTES);
        crc = cusCrc32c(crc, bytes.data(), static_cast<size_t>(file.gcount()));
    }
    return sample::text("%lld %08x", static_cast<long long>(about.st_size), crc);
}

void checkOutput(cusStatus status) {
    if (status != CUS_OK)
        throw Stop(sample::OUTPUT, sample::lastMessage());
}

} // namespace

std::string runOf(const Settings &s) {
    return fingerprint(s.input) + " " + cusVersion() + " " + s.compression +
           sample::text(" %s %d %d %d %d %d %.9g %.9g %d %d %d %d %s %d", s.representation.c_str(), s.channels,
                        s.events_per_frame, s.us_per_frame, s.stride, s.keep_incomplete, s.from, s.to, s.sensor.width,
                        s.sensor.height, s.resize.width, s.resize.height, s.camera.c_str(), s.skip_bad) +
           sample::text(" %d,%d,%d,%d %s %d %d", s.crop[0], s.crop[1], s.crop[2], s.crop[3], s.flip.c_str(), s.hot_events,
                        s.activity) +
           sample::text(" %.9g %.9g %d %.9g %.9g %.9g %d", s.contrast_threshold, s.threshold_spread, s.refractory,
                        s.leak_rate, s.leak_jitter, s.shot_rate, s.seed);
}

// ---- PlaybackClock -----------------------------------------------------------------------------------------------------

void PlaybackClock::add(uint64_t first, const cusEventArrays &piece, const std::chrono::steady_clock::time_point *arrival) {
    pieces_.push_back({first, first + piece.count, piece.t[0], piece.t[piece.count - 1], {}});
    if (arrival)
        pieces_.back().arrival = *arrival;
    if (pieces_.size() > (arrival ? 4096 : 64)) // a camera's are small
        pieces_.pop_front();
}

int64_t PlaybackClock::timeOf(uint64_t event) const {
    for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p)
        if (event >= p->first)
            return p->from + static_cast<int64_t>(static_cast<double>(p->to - p->from) *
                                                  static_cast<double>(std::min(event, p->last) - p->first) /
                                                  static_cast<double>(p->last - p->first));
    return pieces_.empty() ? 0 : pieces_.front().from;
}

const std::chrono::steady_clock::time_point *PlaybackClock::arrivalOf(uint64_t event) const {
    for (auto p = pieces_.rbegin(); p != pieces_.rend(); ++p)
        if (event >= p->first && event < p->last)
            return p->arrival ? &*p->arrival : nullptr;
    return nullptr;
}

// ---- Latency -----------------------------------------------------------------------------------------------------------

static const double STEP = std::log(1.05);

void Latency::add(double milliseconds) {
    ++steps_[static_cast<int>(std::ceil(std::log(std::max(milliseconds, 1e-3)) / STEP))];
    ++count_;
    largest_ = std::max(largest_, milliseconds);
}

double Latency::quantile(double part) const {
    uint64_t below = 0;
    for (const auto &[step, count] : steps_)
        if ((below += count) >= static_cast<uint64_t>(std::ceil(part * static_cast<double>(count_))))
            return std::min(largest_, std::exp(step * STEP));
    return largest_;
}

void Latency::report() const {
    if (!count_)
        return;
    const double median = quantile(0.5), high = quantile(0.99);
    sample::figure("latency", {{"latency_ms", {{"median", median}, {"p99", high}, {"largest", largest_}}}},
                   "median %.3f ms, 99 %% below %.3f ms, largest %.3f ms, from the arrival of a frame's last byte", median,
                   high, largest_);
}

// ---- PlainFrames -------------------------------------------------------------------------------------------------------

PlainFrames::PlainFrames(const std::string &path, sample::Size size, int type) : file_(path), size_(size), type_(type) {
    if (file_.inPlace())
        sample::cannotWrite(path, "it is no regular file");
    uint64_t offset = 0;
    layOut(1, offset);
    file_.seek(static_cast<long long>(offset), SEEK_SET);
}

void PlainFrames::layOut(uint64_t frames, uint64_t &offset) {
    if (cusFrameFileLayout(file_.temporary().c_str(), size_.height, size_.width, type_, frames, 0, nullptr, &offset) !=
        CUS_OK)
        sample::cannotWrite(file_.path(), sample::lastMessage());
}

void PlainFrames::finish(uint64_t frames, const std::string &label) {
    uint64_t offset = 0;
    file_.flush();
    layOut(frames, offset);
    if (!label.empty() && cusFrameFileLabel(file_.temporary().c_str(), label.c_str()) != CUS_OK)
        sample::cannotWrite(file_.path(), sample::lastMessage());
    file_.commit();
}

bool storesFrames(const std::string &name) {
    return isRaw(name) || isHdf5(name);
}

// ---- FrameOutput -------------------------------------------------------------------------------------------------------

FrameOutput::FrameOutput(const Settings &settings, const cusRepresentation &representation, sample::Size size, double fps)
    : settings_(settings), representation_(representation), size_(size) {
    check(cusRepresentationType(&representation_, &type_));
    open(fps);
}

bool FrameOutput::hasPictures(const Settings &s) {
    const std::string &name = s.common.output;
    const bool others = s.checksum || !s.events_file.empty() || !s.triggers_file.empty();
    return isPaced(s) || !(storesFrames(name) || (name.empty() && others));
}

bool FrameOutput::onlySeen(const Settings &settings) {
    const std::string &name = settings.common.output;
    return hasPictures(settings) && !storesFrames(name) && !settings.checksum && !isOnePicture(settings);
}

FrameOutput::~FrameOutput() {
    cusFrameWriterDiscard(hdf5_);
}

void FrameOutput::open(double fps) {
    const std::string &name = settings_.common.output;
    if (isRaw(name)) {
        raw_output_ = true;
        raw_ = std::make_unique<sample::OutputFile>(name);
    } else if (isHdf5(name) && settings_.compression == "none") {
        plain_ = std::make_unique<PlainFrames>(name, size_, type_);
    } else if (isHdf5(name)) {
        checkOutput(cusFrameWriterCreate(&hdf5_, name.c_str(), size_.height, size_.width, type_));
    }
    paced_ = isPaced(settings_);
    if (!hasPictures(settings_))
        return;
    settings_.memory->take(64.0 * size_.width * size_.height,
                           sample::text("pictures of %d x %d pixels", size_.width, size_.height));
    pictures_ = openPictures(settings_, representation_, size_, fps);
}

cusStatus FrameOutput::receive(void *user, const cusFrameBatch *batch) {
    auto *self = static_cast<FrameOutput *>(user);
    try {
        self->receiving_([&] { self->take(*batch); });
        self->closed_ = self->closed_ || sample::interrupted(); // a gap may be millions of frames long
        return self->closed_ ? CUS_ERROR_IO : CUS_OK;
    } catch (...) {
        self->error_ = std::current_exception();
        return CUS_ERROR_IO;
    }
}

void FrameOutput::rethrow() const {
    if (error_)
        std::rethrow_exception(error_);
}

void FrameOutput::take(const cusFrameBatch &batch) {
    first_event_ = frames_ ? first_event_ : batch.windows[0].first;
    const cusMat &m = batch.frames[0];
    const size_t row = static_cast<size_t>(m.cols) * cusTypeSize(m.type);
    const bool is_whole = m.step == row;
    const size_t lines = is_whole ? 1 : static_cast<size_t>(m.rows), bytes = is_whole ? m.rows * row : row;
    for (size_t y = 0; y < lines; ++y) {
        const char *at = static_cast<const char *>(m.data) + y * m.step;
        if (settings_.checksum)
            crc_ = cusCrc32c(crc_, at, bytes);
        if (raw_)
            raw_->write(at, bytes);
        if (plain_)
            plain_->write(at, bytes);
    }
    if (hdf5_)
        checkOutput(cusFrameWriterWrite(hdf5_, &m));
    for (size_t i = 0; i < batch.count; ++i) {
        last_ = batch.windows[i];
        events_ += last_.last - last_.first;
        sample::reportFrame(
            {{"frame", frames_ + i}, {"first_event", batch.windows[i].first}, {"last_event", batch.windows[i].last}});
    }
    if (raw_ && raw_->inPlace()) // whoever reads them gets them now
        raw_->flush();
    const size_t shown = pictures_ ? show(batch) : batch.count;
    if (!still)
        addLatencies(batch);
    frames_ += raw_ || hdf5_ || settings_.checksum ? batch.count : shown;
}

void FrameOutput::addLatencies(const cusFrameBatch &batch) {
    const auto now = std::chrono::steady_clock::now();
    for (size_t i = 0; i < batch.count; ++i) {
        // By duration, the first event past the window completes it, unless the recording ends.
        const uint64_t last = batch.windows[i].last, completes = settings_.us_per_frame > 0 ? last : last - 1;
        const auto *arrival = clock.arrivalOf(completes);
        if (!arrival)
            arrival = clock.arrivalOf(last - 1);
        if (arrival)
            latency_.add(std::chrono::duration<double, std::milli>(now - *arrival).count());
    }
}

size_t FrameOutput::show(const cusFrameBatch &batch) {
    const cusMat &m = batch.frames[0];
    size_t i = 0;
    for (; i < batch.count && !closed_; ++i) {
        cusMat frame = CUS_MAT_INIT;
        check(cusMatRegion(&m, 0, static_cast<int>(i) * size_.height, size_.width, size_.height, &frame));
        const double seconds = paced_ ? 1e-6 * static_cast<double>(clock.timeOf(batch.windows[i].last)) : 0;
        closed_ = !pictures_->show(frame, seconds) || sample::interrupted();
    }
    return i;
}

void FrameOutput::finish() {
    finishing_([this] { finishFiles(); });
}

// The note in a shard's HDF5 file, for `cusight-events merge`; "" without --shard.
std::string FrameOutput::label() const {
    return settings_.shards == 1 ? "" : shardLabel({settings_.shard, settings_.shards, settings_.run, is_damaged});
}

bool isMadeAlready(const Settings &s) {
    ShardLabel label;
    if (s.shards == 1 || !isHdf5(s.common.output) || !readShardLabel(s.common.output, label) || label.shard != s.shard ||
        label.shards != s.shards || label.run != shardRun(s.run) || fingerprint(s.input).empty() || label.is_damaged ||
        s.checksum || !s.events_file.empty() || !s.triggers_file.empty())
        return false;
    sample::figure("frames in", {{"frames_in", s.common.output}}, "%s, which is this shard already",
                   s.common.output.c_str());
    return true;
}

void FrameOutput::finishFiles() {
    if (settings_.shards > 1 && runOf(settings_) != settings_.run)
        throw Stop(sample::INPUT, settings_.input + " has changed since it was opened");
    if (raw_)
        raw_->commit();
    raw_.reset();
    if (plain_)
        plain_->finish(frames_, label());
    plain_.reset();
    if (hdf5_ && settings_.shards > 1)
        checkOutput(cusFrameWriterLabel(hdf5_, label().c_str()));
    if (hdf5_) {
        checkOutput(cusFrameWriterFinish(std::exchange(hdf5_, nullptr)));
        sample::currentFiles().wrote(settings_.common.output);
    }
    if (pictures_)
        pictures_->finish();
}

void FrameOutput::report() const {
    const std::string name = sample::isStandard(settings_.common.output) ? "stdout" : settings_.common.output;
    latency_.report();
    if (settings_.checksum)
        sample::figureText("checksum", "%08x", crc_);
    if (pictures_)
        sample::figureText("output", "%s", pictures_->name().c_str());
    if (raw_output_ || isHdf5(name))
        sample::figure("frames in", {{"frames_in", name}}, "%s", name.c_str());
    if (!settings_.events_file.empty())
        sample::figure("events in", {{"events_in", settings_.events_file}}, "%s", settings_.events_file.c_str());
}

// ---- TriggerFile -------------------------------------------------------------------------------------------------------

TriggerFile::TriggerFile(const std::string &path) : path_(path) {
    if (path.empty())
        return;
    file_ = std::make_unique<sample::OutputFile>(path);
    file_->print("t,id,value\n");
}

void TriggerFile::write(EventSource &source) {
    for (auto some = source.triggers(); !some.empty(); some = source.triggers()) {
        for (size_t i = 0; file_ && i < some.size(); ++i)
            file_->print("%lld,%d,%d\n", static_cast<long long>(some[i].t), some[i].id, some[i].value);
        count_ += some.size();
    }
}

void TriggerFile::finish() {
    if (file_)
        file_->commit();
}

void TriggerFile::report() const {
    if (file_)
        sample::figure("triggers", {{"triggers", count_}, {"triggers_in", path_}}, "%llu in %s",
                       static_cast<unsigned long long>(count_), path_.c_str());
}

} // namespace events
