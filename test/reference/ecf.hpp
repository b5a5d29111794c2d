// ECF, the compression of Metavision's HDF5: an encoder of every variant, and a decoder in the plainest form.
#pragma once

#include "recording.hpp"

#include <algorithm>
#include <functional>
#include <random>

namespace reference {

// ---- An encoder ----

enum class Packing { ALL, XP, NONE };

// Splits runs at random places: an encoder may, and counts of 0 are allowed.
struct EcfRuns {
    std::mt19937_64 &random;
    bool split;
    size_t of(size_t length, size_t most) const {
        return std::min({length, most, split ? size_t(random() % (length + 2)) : length});
    }
};

inline void appendEcfTimes(std::vector<uint8_t> &out, const Events &e, const EcfRuns &runs) {
    int64_t time = e.size() ? e.t[0] : 0;
    for (size_t i = 0; i < e.size();) {
        uint64_t step = uint64_t(e.t[i] - time);
        time = e.t[i];
        if (step > 14 || (runs.split && step && runs.random() % 4 == 0)) {
            const uint64_t in_run = runs.split ? std::min<uint64_t>(runs.random() % 15, step) : 0;
            for (uint64_t digits = step - in_run; digits; digits >>= 4)
                appendNumber(out, 0xf0 | (digits & 15), 1);
            step = in_run;
        }
        size_t same = 1;
        while (i + same < e.size() && e.t[i + same] == time)
            ++same;
        for (bool first = true; first || same;) {
            const size_t n = runs.of(same, 65535);
            appendNumber(out, (first ? step : 0) << 4 | (n < 15 && !(runs.split && runs.random() % 8 == 0) ? n : 15), 1);
            if ((out.back() & 15) == 15)
                appendNumber(out, n, 2);
            first = false;
            same -= n;
            i += n;
        }
    }
}

inline void appendEcfRuns(std::vector<uint8_t> &out, size_t n, const EcfRuns &runs, uint32_t escape, int width,
                          const std::function<uint64_t(size_t)> &value) {
    for (size_t i = 0; i < n;) {
        size_t same = 1;
        while (i + same < n && value(i + same) == value(i))
            ++same;
        same = runs.of(same, 65535);
        appendNumber(out, value(i) * (escape + 1) | std::min<size_t>(same, escape), size_t(width));
        if (same >= escape)
            appendNumber(out, same, 2);
        i += same;
    }
}

inline std::vector<uint8_t> encodeEcf(const Events &e, Packing packing, std::mt19937_64 &random, bool split) {
    const EcfRuns runs{random, split};
    const size_t n = e.size();
    std::vector<uint8_t> out;
    appendNumber(out, n << 2 | (packing == Packing::ALL ? 2 : 0) | (packing == Packing::XP ? 1 : 0), 4);
    appendNumber(out, n ? uint64_t(e.t[0]) : 0, 8);
    appendEcfTimes(out, e, runs);
    const auto at = [&](size_t i, bool with_y) -> uint64_t { // what is past the end is anything
        return i < n ? (with_y ? uint64_t(e.y[i]) << 12 : 0) | uint64_t(e.x[i]) << 1 | e.p[i]
                     : random() & (with_y ? 0xffffff : 0xfff);
    };
    if (packing == Packing::ALL) {
        for (size_t i = 0; i < n; i += 4) {
            const uint64_t v[4] = {at(i, true), at(i + 1, true), at(i + 2, true), at(i + 3, true)};
            appendNumber(out, v[0] << 8 | (v[1] & 255), 4);
            appendNumber(out, v[1] >> 8 << 16 | (v[2] & 65535), 4);
            appendNumber(out, v[2] >> 16 << 24 | v[3], 4);
        }
        return out;
    }
    appendEcfRuns(out, n, runs, 31, 2, [&](size_t i) { return e.y[i]; });
    if (packing == Packing::XP) {
        for (size_t i = 0; i < n; i += 4) {
            const uint64_t v[4] = {at(i, false), at(i + 1, false), at(i + 2, false), at(i + 3, false)};
            appendNumber(out, v[0] << 4 | (v[1] & 15), 2);
            appendNumber(out, v[1] >> 4 << 8 | (v[2] & 255), 2);
            appendNumber(out, v[2] >> 8 << 12 | v[3], 2);
        }
        return out;
    }
    for (size_t i = 0; i < n;) {
        const unsigned x = e.x[i++];
        unsigned mask = 0, last = 0;
        while (i < n && e.x[i] > x + last && e.x[i] <= x + 5 && !(split && random() % 4 == 0)) {
            last = unsigned(e.x[i++]) - x;
            mask |= 1u << (5 - last);
        }
        appendNumber(out, x << 5 | mask, 2);
    }
    appendEcfRuns(out, n, runs, 127, 1, [&](size_t i) { return e.p[i]; });
    return out;
}

// Long and short runs, rows of neighbors, small, large and enormous steps in time.
inline Events ecfEvents(size_t n, std::mt19937_64 &random, unsigned width = 1280, unsigned height = 720,
                        int64_t start = -1) {
    Events e;
    const uint64_t bits = random() % 50; // one by one: compilers choose the order of operands
    const auto begin = int64_t(random() % (uint64_t(1) << bits));
    int64_t t = start < 0 ? begin : start;
    unsigned x = 0, y = 0, p = 0;
    const uint64_t kind = random();
    while (e.size() < n) {
        const uint64_t r = random();
        if (r % (2 + kind % 50) == 0)
            t += int64_t((r >> 8) % (uint64_t(1) << ((r >> 32) % 8 ? 5 : (r >> 36) % (start < 0 ? 40 : 12))));
        if (r % (1 + (kind >> 8) % 90) == 0)
            y = unsigned(random() % height);
        x = r % (1 + (kind >> 16) % 9) == 0 ? unsigned(random() % width) : (x + 1 + unsigned((r >> 48) % 3)) % width;
        if (r % (1 + (kind >> 24) % 300) == 0)
            p ^= 1;
        e.add(t, x, y, p);
    }
    return e;
}

// A chunk of n events as no encoder makes it: digits of 0, counts of 0, counts that follow although they are small, long and short runs
// in any order. Times go on from `t`.
inline std::vector<uint8_t> looseEcf(size_t n, std::mt19937_64 &random, unsigned width, unsigned height, int64_t &t) {
    std::vector<uint8_t> out;
    const auto below = [&](uint64_t limit) { return random() % limit; };
    const uint64_t packing = below(3), longest = below(3) ? 40 : 3000, digits = below(3) ? 3 : 7;
    appendNumber(out, n << 2 | (packing == 0 ? 2 : packing == 1 ? 1 : 0), 4);
    appendNumber(out, uint64_t(t), 8);
    // A run of up to `left` events, whose value stands above the count of `bits` bits.
    const auto run = [&](size_t left, uint64_t value, unsigned bits, size_t size) {
        const uint64_t escape = (uint64_t(1) << bits) - 1;
        const uint64_t count = std::min<uint64_t>(left, below(3) ? below(escape) : below(longest));
        const bool follows = count >= escape || below(4) == 0;
        appendNumber(out, value << bits | (follows ? escape : count), size);
        if (follows)
            appendNumber(out, count, 2);
        return size_t(count);
    };
    unsigned chain = 0;
    for (size_t left = n; left > 0;) {
        if (chain < 16 && below(10) < digits) {
            const uint64_t digit = chain < 4 && below(4) == 0 ? below(16) : 0;
            appendNumber(out, 0xf0 | digit, 1);
            t += int64_t(digit << 4 * chain++);
            continue;
        }
        const uint64_t step = below(15);
        t += int64_t(step);
        chain = 0;
        left -= run(left, step, 4, 1);
    }
    const auto packed = [&](size_t size, const auto &value) {
        const unsigned third = unsigned(2 * size);
        for (size_t i = 0; i < n; i += 4) {
            const uint64_t a = value(), b = value(), c = value(), d = value();
            appendNumber(out, a << third | (b & ((uint64_t(1) << third) - 1)), size);
            appendNumber(out, b >> third << 2 * third | (c & ((uint64_t(1) << 2 * third) - 1)), size);
            appendNumber(out, c >> 2 * third << 3 * third | d, size);
        }
    };
    const auto xp = [&] {
        const uint64_t x = below(width);
        return x << 1 | below(2);
    };
    if (packing == 0) {
        packed(4, [&] {
            const uint64_t y = below(height);
            return y << 12 | xp();
        });
        return out;
    }
    for (size_t left = n; left > 0;)
        left -= run(left, below(height), 5, 2);
    if (packing == 1) {
        packed(2, xp);
        return out;
    }
    for (size_t left = n; left > 0;) {
        uint64_t mask = below(32), events = 1;
        for (uint64_t bits = mask; bits; bits &= bits - 1)
            if (++events > left)
                mask &= mask - 1, --events;
        appendNumber(out, below(width - 5) << 5 | mask, 2);
        left -= size_t(events);
    }
    for (size_t left = n; left > 0;)
        left -= run(left, below(2), 7, 1);
    return out;
}

// ---- A decoder ----

// Decodes one chunk, byte by byte. Returns whether it is well-formed.
class EcfChunk {
  public:
    explicit EcfChunk(const std::vector<uint8_t> &bytes) : bytes_(bytes) {}

    bool run(Events &e) {
        const uint64_t header = next(4);
        const size_t n = size_t(header >> 2);
        uint64_t time = next(8);
        while (good_ && e.t.size() < n)
            step(time, n, e.t);
        if (header & 2) {
            for (uint64_t value : packed(n, 4)) {
                e.x.push_back(uint16_t(value >> 1 & 2047));
                e.y.push_back(uint16_t(value >> 12));
                e.p.push_back(value & 1);
            }
            return good_;
        }
        while (good_ && e.y.size() < n) {
            const uint64_t word = next(2);
            repeat(e.y, uint16_t(word >> 5), word & 31, 31, n);
        }
        if (header & 1) {
            for (uint64_t value : packed(n, 2)) {
                e.x.push_back(uint16_t(value >> 1));
                e.p.push_back(value & 1);
            }
            return good_;
        }
        while (good_ && e.x.size() < n) {
            const uint64_t word = next(2);
            e.x.push_back(uint16_t(word >> 5));
            for (unsigned k = 1; k <= 5; ++k)
                if (word >> (5 - k) & 1)
                    e.x.push_back(uint16_t((word >> 5) + k));
            good_ = good_ && e.x.size() <= n;
        }
        while (good_ && e.p.size() < n) {
            const uint64_t byte = next(1);
            repeat(e.p, uint8_t(byte >> 7), byte & 127, 127, n);
        }
        return good_;
    }

  private:
    uint64_t next(size_t size) {
        uint64_t value = 0;
        for (size_t i = 0; i < size; ++i, ++at_) {
            good_ = good_ && at_ < bytes_.size();
            value |= good_ ? uint64_t(bytes_[at_]) << 8 * i : 0;
        }
        return value;
    }
    template<class T>
    void repeat(std::vector<T> &out, T value, uint64_t count, uint64_t escape, size_t n) {
        count = count == escape ? next(2) : count;
        good_ = good_ && count <= n - out.size();
        out.insert(out.end(), good_ ? count : 0, value);
    }
    void step(uint64_t &time, size_t n, std::vector<int64_t> &t) {
        uint64_t byte = next(1), step = 0;
        for (unsigned digit = 0; good_ && byte >> 4 == 15; ++digit, byte = next(1)) {
            good_ = good_ && digit < 16;
            step |= good_ ? (byte & 15) << 4 * digit : 0;
        }
        time += step + (byte >> 4);
        repeat(t, int64_t(time), byte & 15, 15, n);
    }
    std::vector<uint64_t> packed(size_t n, size_t size) {
        std::vector<uint64_t> values;
        const unsigned third = unsigned(8 * size / 4);
        const uint64_t all = (uint64_t(1) << 3 * third) - 1;
        while (good_ && values.size() < n) {
            const uint64_t a = next(size), b = next(size), c = next(size), one = (uint64_t(1) << third) - 1,
                           two = (uint64_t(1) << 2 * third) - 1;
            for (uint64_t value :
                 {a >> third, (b >> 2 * third) << third | (a & one), (c >> 3 * third) << 2 * third | (b & two), c & all})
                values.push_back(value);
        }
        values.resize(std::min(values.size(), n));
        return values;
    }

    const std::vector<uint8_t> &bytes_;
    size_t at_ = 0;
    bool good_ = true;
};

} // namespace reference
