#include "events/camera.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace events {

namespace {

using Clock = std::chrono::steady_clock;
using sample::Stop;

constexpr size_t PIECE_BYTES = 64 * 1024, PIECE_EVENTS = 1 << 18;
constexpr size_t KEPT_BYTES = size_t{64} << 20; // so many first bytes are kept to start again
constexpr size_t HEADER_BYTES = 64 * 1024;

class CameraSource final : public EventSource {
  public:
    CameraSource(sample::StandardInput input, const cusEventInfo &info, const cusEventReaderOptions &reading, bool pinned)
        : info_(info), input_(std::move(input)), columns_(PIECE_EVENTS, pinned) {
        sensor = {info.width, info.height};
        cusEventDecoderOptions options = cusEventDecoderDefaults();
        options.format = info.format;
        options.legacy = info.legacy;
        options.width = info.width;
        options.height = info.height;
        options.bad_events = reading.bad_events;
        check(cusEventDecoderCreate(&decoder_, &options));
        std::vector<char> header(info.start);
        for (size_t at = 0; at < header.size();)
            at += input_.read(&header[at], header.size() - at);
        info_.count = info_.first_time = info_.last_time = -1;
        start();
    }
    ~CameraSource() override { cusEventDecoderDestroy(decoder_); }

    bool next(cusEventArrays &events) override {
        size_t got = 0;
        while (!got && problem_.empty()) {
            if (at_ >= piece_.size() && (!quiet(timeSoFar()) || !read()))
                break;
            got = decode();
        }
        events = columns_.view(got);
        return got > 0;
    }
    void rewind() override {
        if (live())
            throw Stop(sample::INPUT, "stdin cannot be read from its beginning again");
        problem_.clear();
        start();
    }
    bool live() const override { return is_over_; }
    const Clock::time_point *arrival() const override { return &arrival_; }
    std::vector<cusEventTrigger> triggers() override { return std::exchange(triggers_, {}); }
    std::string describe() const override { return std::string("stdin, ") + cusEventFormatName(info_.format); }
    const cusEventInfo *info() const override { return &info_; }
    cusEventCounts counts() const override { return counts_; }

  private:
    // Moves the decoder to the first event; offsets in messages are those of the file.
    void start() {
        cusEventDecoderState state = {};
        (void)cusEventDecoderFinish(decoder_, nullptr); // whatever was left
        check(cusEventDecoderGetState(decoder_, &state));
        state.offset = info_.start;
        check(cusEventDecoderSetState(decoder_, &state));
        replayed_ = at_ = 0;
        piece_.clear();
    }

    // Gets the next bytes: kept ones, or those that come. Returns false at the end, or after an interrupt.
    bool read() {
        at_ = 0;
        if (replayed_ < kept_.size()) {
            const size_t n = std::min(PIECE_BYTES, kept_.size() - replayed_);
            piece_.assign(kept_.begin() + static_cast<std::ptrdiff_t>(replayed_),
                          kept_.begin() + static_cast<std::ptrdiff_t>(replayed_ + n));
            replayed_ += n;
            return true;
        }
        piece_.resize(PIECE_BYTES);
        piece_.resize(receive());
        arrival_ = Clock::now();
        keep();
        if (piece_.empty() && !sample::interrupted() && cusEventDecoderFinish(decoder_, nullptr) != CUS_OK)
            problem_ = "stdin: " + sample::lastMessage();
        return !piece_.empty();
    }
    size_t receive() {
        if (is_at_end_)
            return 0;
        try {
            const size_t got = input_.read(piece_.data(), piece_.size());
            is_at_end_ = got == 0;
            return got;
        } catch (const Stop &stop) { // frames that are complete are finished
            if (stop.code() != sample::INTERRUPTED)
                throw;
            return 0;
        }
    }
    void keep() {
        is_over_ = is_over_ || kept_.size() + piece_.size() > KEPT_BYTES;
        if (is_over_)
            kept_ = {};
        else
            kept_.insert(kept_.end(), piece_.begin(), piece_.end());
        replayed_ = kept_.size();
    }

    // No event before this time will come: the camera's time words say so, also while nothing moves.
    int64_t timeSoFar() const {
        cusEventDecoderState state = {};
        check(cusEventDecoderGetState(decoder_, &state));
        if (info_.format == CUS_EVENTS_DAT || state.time_high < 0) // each event has its own time
            return INT64_MIN;
        return state.time_high << (info_.format == CUS_EVENTS_EVT3 ? 12 : 6); // without the lower bits, which come later
    }

    size_t decode() {
        std::vector<cusEventTrigger> triggers(PIECE_BYTES / 2); // no word is smaller
        const cusEventBuffers buffers = {columns_.x(), columns_.y(),    columns_.p(),   columns_.t(),
                                         PIECE_EVENTS, triggers.data(), triggers.size()};
        cusEventDecoded done = {};
        const cusStatus status =
            cusEventDecoderRun(decoder_, piece_.data() + at_, piece_.size() - at_, &buffers, &done, nullptr);
        counts_ = done.counts;
        triggers_.insert(triggers_.end(), triggers.begin(), triggers.begin() + static_cast<std::ptrdiff_t>(done.triggers));
        at_ += done.used;
        if (status != CUS_OK && status != CUS_ERROR_CAPACITY)
            problem_ = "stdin: " + sample::lastMessage();
        return done.count;
    }

    cusEventInfo info_;
    sample::StandardInput input_;
    EventColumns columns_;
    cusEventDecoder *decoder_ = nullptr;
    cusEventCounts counts_ = {};
    std::vector<cusEventTrigger> triggers_; // not fetched yet
    std::vector<char> piece_, kept_;        // the bytes being decoded, and all since the start
    size_t at_ = 0, replayed_ = 0;
    bool is_over_ = false; // more bytes have come than are kept
    bool is_at_end_ = false;
    Clock::time_point arrival_ = Clock::now();
};

// Where the "% " lines end; npos: later than these bytes.
size_t headerEnd(const std::string &bytes) {
    size_t at = 0;
    while (bytes.size() >= at + 2 && bytes.compare(at, 2, "% ") == 0) {
        const size_t newline = bytes.find('\n', at);
        if (newline == std::string::npos)
            return newline;
        const std::string line = bytes.substr(at, newline - at);
        at = newline + 1;
        if (line == "% end" || line == "% end\r")
            return at;
    }
    return bytes.size() < at + 2 ? std::string::npos : at;
}

// Whether the header and the first event, as far as they will come, are among the first bytes.
bool isHeaderThere(const std::string &bytes) {
    const size_t end = headerEnd(bytes);
    return bytes.size() >= HEADER_BYTES || (end != std::string::npos && bytes.size() >= end + 8);
}

} // namespace

std::unique_ptr<EventSource> openCamera(sample::StandardInput &input, const Settings &settings,
                                        const cusEventReaderOptions &options, bool pinned) {
    if (input.start().compare(0, 2, "% ") != 0 || settings.shards > 1 || sample::StandardInput::isFile())
        return nullptr;
    while (!isHeaderThere(input.start()) && input.extend()) {
    }
    cusEventReader *reader = nullptr;
    cusEventInfo info = {};
    if (cusEventReaderOpenMemory(&reader, input.start().data(), input.start().size(), &options) != CUS_OK)
        throw Stop(sample::INPUT, "stdin: " + sample::lastMessage());
    check(cusEventReaderInfo(reader, &info));
    cusEventReaderClose(reader);
    return info.width ? std::make_unique<CameraSource>(input, info, options, pinned) : nullptr;
}

} // namespace events
