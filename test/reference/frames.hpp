// Frames of chunks of HDF5, as a decoder of raw bytes takes them: ECF, and columns compressed by LZF.
#pragma once

#include "ecf.hpp"
#include "lzf.hpp"

#include "cusight/raw.h"

#include <string>
#include <utility>

namespace reference {

inline uint32_t magicOf(cusEventFormat format) {
    return format == CUS_EVENTS_HDF5 ? 0x31465a4c : 0x31464345; // "LZF1", "ECF1"
}

// A frame of chunks, of which so many events are taken.
inline void appendFrame(std::vector<uint8_t> &stream, const std::vector<std::vector<uint8_t>> &chunks,
                        const std::vector<uint32_t> &events, cusEventFormat format = CUS_EVENTS_METAVISION) {
    const auto pad = [&] { stream.resize((stream.size() + 255) / 256 * 256); };
    appendNumber(stream, magicOf(format), 4);
    appendNumber(stream, chunks.size(), 4);
    for (size_t k = 0; k < chunks.size(); ++k) {
        appendNumber(stream, chunks[k].size(), 4);
        appendNumber(stream, events[k], 4);
    }
    pad();
    for (const auto &chunk : chunks) {
        stream.insert(stream.end(), chunk.begin(), chunk.end());
        pad();
    }
}

// What a decoder makes of a whole recording of frames.
class Frames {
  public:
    explicit Frames(const cusEventDecoderOptions &options)
        : lzf_(options.format == CUS_EVENTS_HDF5), magic_(magicOf(options.format)),
          width_(options.width ? uint32_t(options.width) : 65536),
          height_(options.height ? uint32_t(options.height) : 65536), skips_(options.bad_events == CUS_BAD_EVENTS_SKIP) {}

    // Goes on from a place at the start of a frame.
    void startAt(const cusEventDecoderState &state) {
        index = state.index;
        passed_ = state.vector;
    }

    void run(const std::vector<uint8_t> &bytes) {
        for (at = 0; status == CUS_OK && at < bytes.size();)
            frame(bytes);
    }

    Events events;
    std::vector<cusEventTrigger> triggers; // none
    cusEventCounts counts = {};
    cusStatus status = CUS_OK;
    std::string message; // of FORMAT, without the function's name
    uint64_t index = 0;  // next event; the bad one
    size_t at = 0;       // of the frame in which decoding stopped

  private:
    static uint64_t number(const std::vector<uint8_t> &bytes, size_t at, size_t size = 4) {
        uint64_t value = 0;
        for (size_t i = 0; i < size; ++i)
            value |= uint64_t(bytes[at + i]) << 8 * i;
        return value;
    }
    static size_t padded(size_t size) { return (size + 255) / 256 * 256; }

    void fail(const std::string &what) {
        status = CUS_ERROR_FORMAT;
        message = what;
    }
    void badHeader() { fail("byte " + std::to_string(at) + ": no header of a frame"); }

    void frame(const std::vector<uint8_t> &bytes) {
        status = CUS_ERROR_TRUNCATED;
        if (bytes.size() - at < 8)
            return;
        const size_t n = size_t(number(bytes, at + 4));
        if (number(bytes, at) != magic_ || n < 1 || n > 255)
            return badHeader();
        size_t chunk = at + padded(8 + 8 * n);
        if (bytes.size() < chunk)
            return;
        for (size_t k = 0; k < n; ++k) {
            const uint64_t size = number(bytes, at + 8 + 8 * k), taken = number(bytes, at + 12 + 8 * k);
            if (size < (lzf_ ? 32 : 12) || size > 1 << 20 || taken > 65535 || taken > (lzf_ ? 10 : 3) * size)
                return badHeader();
        }
        for (size_t k = 0; k < n; ++k) {
            const size_t size = size_t(number(bytes, at + 8 + 8 * k));
            if (bytes.size() - chunk < padded(size))
                return;
            status = CUS_OK;
            decode({bytes.begin() + std::ptrdiff_t(chunk), bytes.begin() + std::ptrdiff_t(chunk + size)},
                   size_t(number(bytes, at + 12 + 8 * k)), chunk);
            if (status != CUS_OK)
                return;
            status = CUS_ERROR_TRUNCATED;
            chunk += padded(size);
        }
        status = CUS_OK;
        at = chunk;
    }

    static bool isEcf(const std::vector<uint8_t> &chunk, size_t taken, Events &e) {
        const uint64_t count = number(chunk, 0) >> 2;
        bool good = count >= taken && count <= 65535 && EcfChunk(chunk).run(e);
        for (const int64_t t : e.t)
            good = good && uint64_t(t) >> 62 == 0;
        return good;
    }

    void decode(const std::vector<uint8_t> &chunk, size_t taken, size_t byte) {
        Events e;
        if (!(lzf_ ? ColumnsChunk(chunk).run(taken, e) : isEcf(chunk, taken, e)))
            return fail(
                "byte " + std::to_string(byte) + ": chunk " +
                (lzf_ ? "whose columns are not what LZF defines, or have" : "that is not what ECF defines, or has") +
                " fewer events than its frame says");
        for (size_t i = std::exchange(passed_, 0); i < taken && status == CUS_OK; ++i)
            event(e.t[i], e.x[i], e.y[i], e.p[i]);
    }

    void event(int64_t t, uint32_t x, uint32_t y, unsigned p) {
        const bool outside = x >= width_ || y >= height_, neither = p > 1, late = t < last_;
        if (!outside && !neither && !late) {
            events.add(t, x, y, p);
            ++counts.events;
            last_ = t;
        } else if (skips_) {
            ++(outside ? counts.bad_coordinates : neither ? counts.bad_polarity : counts.bad_time);
        } else {
            const std::string start = "event " + std::to_string(index);
            return fail(outside ? start + " at x " + std::to_string(x) + ", y " + std::to_string(y) + " is outside the " +
                                      std::to_string(width_) + " x " + std::to_string(height_) + " sensor"
                        : neither ? start + " has a polarity other than 0 and 1"
                                  : start + " at " + std::to_string(t) + " us is earlier than the one before at " +
                                        std::to_string(last_) + " us");
        }
        ++index;
    }

    const bool lzf_;
    const uint32_t magic_, width_, height_;
    const bool skips_;
    size_t passed_ = 0; // events of the next chunk
    int64_t last_ = -1;
};

} // namespace reference
