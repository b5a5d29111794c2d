// Raw bytes of event cameras in the plainest form: one word after the other, each event checked as it comes.
#pragma once

#include "recording.hpp"

#include "cusight/raw.h"

#include <algorithm>
#include <string>

namespace reference {

// What a decoder makes of a whole recording.
class Raw {
  public:
    explicit Raw(const cusEventDecoderOptions &options) : options_(options) {}

    void run(const std::vector<uint8_t> &bytes) {
        for (at = 0; status == CUS_OK && at + wordBytes(bytes) <= bytes.size(); at += used_) {
            used_ = wordBytes(bytes);
            word(&bytes[at]);
            if (status != CUS_OK)
                break;
        }
        if (status == CUS_OK && at < bytes.size())
            status = CUS_ERROR_TRUNCATED;
    }

    Events events;
    std::vector<cusEventTrigger> triggers;
    cusEventCounts counts = {};
    cusStatus status = CUS_OK;
    std::string message; // of FORMAT, without the function's name
    uint64_t index = 0;  // next event; the bad one
    size_t at = 0;       // where decoding stopped: at the bad word or at an incomplete one

  private:
    static uint64_t load(const uint8_t *p, int size) {
        uint64_t value = 0;
        for (int i = 0; i < size; ++i)
            value |= uint64_t(p[i]) << 8 * i;
        return value;
    }

    size_t wordBytes(const std::vector<uint8_t> &bytes) const {
        switch (options_.format) {
        case CUS_EVENTS_EVT3:
            return 2;
        case CUS_EVENTS_EVT2:
            return 4;
        case CUS_EVENTS_EVT4: // a vector and its mask
            return at + 4 <= bytes.size() && (bytes[at + 3] >> 4 == 12 || bytes[at + 3] >> 4 == 13) ? 8 : 4;
        default:
            return 8;
        }
    }

    void word(const uint8_t *p) {
        switch (options_.format) {
        case CUS_EVENTS_EVT2:
            return evt2(uint32_t(load(p, 4)), 1, false);
        case CUS_EVENTS_EVT21: {
            const uint32_t first = uint32_t(load(p, 4)), second = uint32_t(load(p + 4, 4));
            return options_.legacy ? evt2(first, second, true) : evt2(second, first, true);
        }
        case CUS_EVENTS_EVT3:
            return evt3(unsigned(load(p, 2)));
        case CUS_EVENTS_EVT4:
            return evt4(uint32_t(load(p, 4)), used_ == 8 ? uint32_t(load(p + 4, 4)) : 1);
        default:
            return dat(int64_t(load(p, 4)), uint32_t(load(p + 4, 4)));
        }
    }

    // EVT2.1: `mask` has a bit for each column from x on.
    void evt2(uint32_t word, uint32_t mask, bool vectors) {
        const unsigned type = word >> 28;
        if (type == 0 || type == 1)
            vector(high_ * 64 + (word >> 22 & 63), word >> 11 & 2047, word & 2047, type, mask);
        else if (type == 8)
            timeHigh(word & 0xfffffff, 28);
        else if (type == 10)
            trigger(high_ * 64 + (word >> 22 & 63), word >> 8 & 31, word & 1);
        else if (type != 14 && type != 15)
            undefined(type, vectors ? "EVT2.1" : "EVT2");
    }

    void evt3(unsigned word) {
        const unsigned type = word >> 12, value = word & 4095;
        const int64_t t = high_ * 4096 + low_;
        if (type == 0) {
            row_ = value & 2047;
        } else if (type == 2) {
            vector(t, value & 2047, row_, value >> 11, 1);
        } else if (type == 3) {
            base_ = value & 2047;
            polarity_ = value >> 11;
        } else if (type == 4 || type == 5) {
            vector(t, base_, row_, polarity_, type == 4 ? value : value & 255);
            base_ += type == 4 ? 12 : 8;
        } else if (type == 6) {
            low_ = value;
        } else if (type == 8) {
            const int64_t before = high_;
            timeHigh(value, 12);
            if (high_ != before)
                low_ = 0;
        } else if (type == 10) {
            trigger(t, value >> 8, value & 1);
        } else if (type != 7 && type != 14 && type != 15) {
            undefined(type, "EVT3");
        }
    }

    void evt4(uint32_t word, uint32_t mask) {
        const unsigned type = word >> 28;
        const int64_t t = high_ * 64 + (word >> 22 & 63);
        if (type >= 10 && type <= 13)
            vector(t, word >> 11 & 2047, word & 2047, type & 1, mask);
        else if (type == 14)
            timeHigh(word & 0xfffffff, 28);
        else if (type == 9)
            trigger(t, word >> 8 & 31, word & 1);
        else if (type != 6 && type != 7 && type != 15)
            undefined(type, "EVT4");
    }

    void dat(int64_t time, uint32_t word) {
        timeHigh(time, 32);
        event(high_, word & 16383, word >> 14 & 16383, word >> 28);
    }

    void timeHigh(int64_t value, int bits) {
        const int64_t period = int64_t(1) << bits;
        const int64_t periods = high_ < 0 ? 0 : high_ / period;
        const bool wrapped = high_ >= 0 && high_ % period - value > period / 2;
        high_ = (periods + wrapped) * period + value;
    }

    void vector(int64_t t, uint64_t x, unsigned y, unsigned p, uint32_t mask) {
        for (unsigned bit = 0; bit < 32 && status == CUS_OK; ++bit) {
            if (!(mask >> bit & 1))
                continue;
            if (high_ < 0)
                ++counts.untimed;
            else
                event(t, x + bit, y, p);
        }
    }

    void event(int64_t t, uint64_t x, unsigned y, unsigned p) {
        const bool is_evt3 = options_.format == CUS_EVENTS_EVT3;
        uint64_t width = options_.width ? uint64_t(options_.width) : 65536;
        const uint64_t height = options_.height ? uint64_t(options_.height) : 65536;
        if (is_evt3) { // vectors can run past 16 bits
            width = std::min<uint64_t>(width, 65535);
            x = std::min<uint64_t>(x, 65535);
        }
        const std::string name = "event " + std::to_string(index);
        if (x >= width || y >= height)
            bad(counts.bad_coordinates, name + " at x " + std::to_string(x) + ", y " + std::to_string(y) +
                                            " is outside the " + std::to_string(width) + " x " + std::to_string(height) +
                                            " sensor");
        else if (p > 1)
            bad(counts.bad_polarity, name + " has a polarity other than 0 and 1");
        else if (t < last_)
            bad(counts.bad_time, name + " at " + std::to_string(t) + " us is earlier than the one before at " +
                                     std::to_string(last_) + " us");
        else {
            events.add(t, unsigned(x), y, p);
            last_ = t;
            ++counts.events;
        }
        index += status == CUS_OK;
    }

    void trigger(int64_t t, unsigned id, unsigned value) {
        ++(value ? counts.triggers_rising : counts.triggers_falling);
        if (high_ < 0)
            return;
        cusEventTrigger made = {};
        made.t = t;
        made.id = int16_t(id);
        made.value = uint8_t(value);
        triggers.push_back(made);
    }

    void undefined(unsigned type, const char *format) {
        const char *digits = "0123456789abcdef";
        bad(counts.bad_words,
            "byte " + std::to_string(at) + ": word of type " + digits[type] + ", which " + format + " does not define");
    }

    void bad(uint64_t &count, const std::string &what) {
        if (options_.bad_events == CUS_BAD_EVENTS_SKIP) {
            ++count;
            return;
        }
        status = CUS_ERROR_FORMAT;
        message = what;
    }

    cusEventDecoderOptions options_;
    size_t used_ = 0;
    int64_t high_ = -1, low_ = 0, last_ = -1;
    unsigned row_ = 0, polarity_ = 0;
    uint64_t base_ = 0;
};

} // namespace reference
