// Events from video in their plainest form: each pixel by itself, microsecond by microsecond.
#pragma once

#include "recording.hpp"

#include "cusight/eventgen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace reference {

// ---- Without noise ----

inline int32_t logIntensity(int v) {
    return static_cast<int32_t>(std::lround(65536 * (v < 20 ? v * std::log(20.0) / 20 : std::log(double(v)))));
}

// The events between two frames of cols columns. `references`: each pixel's reference log intensity, updated.
inline Events crossings(const std::vector<uint8_t> &before, const std::vector<uint8_t> &after, int cols, int64_t t0,
                        int64_t t1, int32_t positive, int32_t negative, std::vector<int32_t> &references) {
    struct Event {
        int64_t t;
        size_t pixel;
        int p;
    };
    std::vector<Event> found;
    for (size_t i = 0; i < after.size(); ++i) {
        const int64_t from = logIntensity(before[i]), to = logIntensity(after[i]);
        while (to - references[i] >= positive) {
            references[i] += positive;
            const double time = double(references[i] - from) * double(t1 - t0) / double(to - from);
            found.push_back({t0 + static_cast<int64_t>(std::ceil(time - 1e-9)), i, 1});
        }
        while (references[i] - to >= negative) {
            references[i] -= negative;
            const double time = double(from - references[i]) * double(t1 - t0) / double(from - to);
            found.push_back({t0 + static_cast<int64_t>(std::ceil(time - 1e-9)), i, 0});
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const Event &a, const Event &b) { return a.t < b.t; });
    Events events;
    for (const Event &e : found)
        events.add(e.t, unsigned(e.pixel % size_t(cols)), unsigned(e.pixel / size_t(cols)), unsigned(e.p));
    return events;
}

// ---- With noise ----

// Philox4x32-10 (Salmon et al. 2011).
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t first = uint64_t(counter[0]) * 0xD2511F53, second = uint64_t(counter[2]) * 0xCD9E8D57;
        counter = {uint32_t(second >> 32) ^ counter[1] ^ key[0], uint32_t(second),
                   uint32_t(first >> 32) ^ counter[3] ^ key[1], uint32_t(first)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

// log2(n), 0 < n < 2^33, with 16 fractional bits: each comes from a square of the mantissa, which keeps 31 fractional bits.
inline int64_t log2Of(uint64_t n) {
    int64_t whole = 0;
    while (n >> (whole + 1))
        ++whole;
    uint64_t mantissa = whole <= 31 ? n << (31 - whole) : n >> (whole - 31);
    int64_t log = whole;
    for (int bit = 0; bit < 16; ++bit) {
        mantissa = mantissa * mantissa / (uint64_t(1) << 31);
        log *= 2;
        if (mantissa >= uint64_t(1) << 32) {
            log += 1;
            mantissa /= 2;
        }
    }
    return log;
}

inline int64_t floorDivide(__int128 a, __int128 b) { // b > 0
    return int64_t(a >= 0 ? a / b : -((-a + b - 1) / b));
}

class GeneratorPixel {
  public:
    GeneratorPixel(const cusEventGeneratorOptions &options, uint32_t index, int value, int64_t time)
        : options_(options), index_(index), value_(value), time_(time), ready_(time + options.refractory_us),
          reference_(logIntensity(value)) {
        const auto words = random(0, 0);
        positive_ = threshold(options.positive, normal(words[0], words[1]));
        negative_ = threshold(options.negative, normal(words[2], words[3]));
        draw();
        if (options.leak_rate > 0)
            reference_ -= floorDivide(__int128(random(0, 1)[3] % 0x80000000) * positive_, 0x80000000);
    }

    // The events until the next frame.
    void frame(int value, int64_t time, const std::function<void(int64_t, int)> &event) {
        const int64_t t0 = time_, t1 = time, from = logIntensity(value_), to = logIntensity(value);
        const int64_t rate =
            std::llround(options_.shot_rate * std::ldexp(1e-6 / std::log(2), 40) * (1 - 0.75 * (value + 20) / 275));
        for (int64_t t = t0 + 1; t <= t1; ++t) {
            while (t >= ready_) {
                const int64_t low = from - reference_ + leaked(t0), high = to - reference_ + leaked(t1);
                const __int128 above = __int128(low) * (t1 - t0) + __int128(high - low) * (t - t0); // times t1 - t0
                const bool rises = above >= __int128(positive_) * (t1 - t0),
                           falls = above <= __int128(-negative_) * (t1 - t0),
                           shoots = rate > 0 && rate * (t - std::max(t0, ready_)) >= waiting_;
                if (rises || falls) {
                    event(t, rises);
                    reference_ += (rises ? positive_ : -negative_) - leaked(t);
                } else if (shoots) {
                    event(t, int(random(draws_, 1)[3] >> 31));
                    reference_ = from + (to - from) * (t - t0) / (t1 - t0);
                } else {
                    break;
                }
                ready_ = t + options_.refractory_us;
                ++draws_;
                draw();
            }
        }
        waiting_ -= rate * std::max<int64_t>(0, t1 - std::max(t0, ready_));
        value_ = value;
        time_ = time;
    }

  private:
    std::array<uint32_t, 4> random(uint32_t draw, uint32_t purpose) const {
        return philox({index_, draw, purpose, 0}, {uint32_t(options_.seed), uint32_t(options_.seed >> 32)});
    }
    // In units of 1 / 209.0207.
    static int64_t normal(uint32_t a, uint32_t b) {
        int64_t sum = 0;
        for (int byte = 0; byte < 4; ++byte)
            sum += (a >> 8 * byte & 255) + (b >> 8 * byte & 255);
        return sum - 1020;
    }
    static int64_t scaled(int64_t normal, double sigma) {
        return floorDivide(normal * std::llround(sigma * 65536 * 256 / 209.0207), 256);
    }
    int64_t threshold(double nominal, int64_t normal) const {
        return std::max<int64_t>(655, std::llround(nominal * 65536) + scaled(normal, options_.threshold_spread));
    }
    void draw() {
        const auto words = random(draws_, 1);
        const int64_t rate = std::llround(options_.leak_rate * 1e-6 * std::ldexp(1, 44)), mean = positive_ * rate >> 20;
        leak_ = mean * 65536 / (65536 + scaled(normal(words[0], words[1]), options_.leak_jitter));
        waiting_ = ((int64_t(33) << 16) - log2Of(2 * uint64_t(words[2]) + 1)) << 24;
    }
    // From the end of the refractory period until t.
    int64_t leaked(int64_t t) const { return floorDivide(__int128(leak_) * (t - ready_), 1 << 24); }

    cusEventGeneratorOptions options_;
    uint32_t index_, draws_ = 0;
    int value_;
    int64_t time_, ready_, reference_, positive_ = 0, negative_ = 0, leak_ = 0, waiting_ = 0;
};

// The events of a video: frames of rows * cols values, one after the other.
inline Events eventsOf(const std::vector<uint8_t> &video, int rows, int cols, const std::vector<int64_t> &times,
                       const cusEventGeneratorOptions &options) {
    struct Event {
        int64_t t;
        size_t pixel;
        int p;
    };
    std::vector<Event> found;
    const size_t pixels = size_t(rows) * size_t(cols);
    for (size_t i = 0; i < pixels; ++i) {
        GeneratorPixel pixel(options, uint32_t(i), video[i], times[0]);
        for (size_t f = 1; f < times.size(); ++f)
            pixel.frame(video[f * pixels + i], times[f], [&](int64_t t, int p) { found.push_back({t, i, p}); });
    }
    std::stable_sort(found.begin(), found.end(), [](const Event &a, const Event &b) { return a.t < b.t; });
    Events events;
    for (const Event &e : found)
        events.add(e.t, unsigned(e.pixel % size_t(cols)), unsigned(e.pixel / size_t(cols)), unsigned(e.p));
    return events;
}

} // namespace reference
