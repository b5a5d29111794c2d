// Columns of events compressed by LZF, as h5py writes them: an encoder that makes any sequence of tokens, and decoders byte by byte.
#pragma once

#include "recording.hpp"

#include <algorithm>
#include <random>

namespace reference {

// ---- An encoder ----

inline void appendLiterals(std::vector<uint8_t> &out, const std::vector<uint8_t> &in, size_t from, size_t to, bool loose,
                           std::mt19937_64 &random) {
    while (from < to) {
        const size_t most = std::min<size_t>(to - from, 32), n = loose ? 1 + random() % most : most;
        appendNumber(out, n - 1, 1);
        out.insert(out.end(), in.begin() + std::ptrdiff_t(from), in.begin() + std::ptrdiff_t(from + n));
        from += n;
    }
}

inline void appendMatch(std::vector<uint8_t> &out, size_t length, size_t distance) {
    const size_t code = length - 2;
    appendNumber(out, std::min<size_t>(code, 7) << 5 | (distance - 1) >> 8, 1);
    if (code >= 7)
        appendNumber(out, code - 7, 1);
    appendNumber(out, distance - 1, 1);
}

// loose: matches that are there are used or not, at any of their distances and as long as one likes, and literals come in runs of any
// length. Otherwise the longest match that a few tries find is always used.
inline std::vector<uint8_t> encodeLzf(const std::vector<uint8_t> &in, bool loose, std::mt19937_64 &random) {
    constexpr size_t NONE = SIZE_MAX;
    std::vector<size_t> before(in.size(), NONE),
        last(4096, NONE); // where the same three bytes, or others of their hash, came
    std::vector<uint8_t> out;
    const uint64_t skipped = loose ? random() % 20 : 0; // in 20 matches
    size_t literal = 0, noted = 0;
    for (size_t at = 0; at < in.size();) {
        for (; noted <= at && noted + 3 <= in.size(); ++noted) {
            size_t &same = last[(in[noted] * 5u + in[noted + 1] * 77u + in[noted + 2] * 1031u) % 4096];
            before[noted] = same;
            same = noted;
        }
        size_t length = 0, distance = 0;
        const auto tryDistance = [&](size_t d) {
            size_t n = 0;
            while (d >= 1 && d <= std::min<size_t>(at, 8192) && n < 264 && at + n < in.size() &&
                   in[at + n - d] == in[at + n])
                ++n;
            if (n > length || (loose && n >= 3 && random() % 4 == 0))
                length = n, distance = d;
        };
        size_t candidate = before[at];
        for (size_t steps = loose ? 1 + random() % 8 : 4; steps > 0 && candidate != NONE; --steps) {
            tryDistance(at - candidate);
            candidate = before[candidate];
        }
        if (loose && random() % 4 == 0) {
            const size_t near = 1 + size_t(random() % 32), anywhere = 1 + size_t(random() % 8192);
            const size_t distances[] = {1, 2, 3, 8, near, near, 8192, anywhere};
            tryDistance(distances[random() % std::size(distances)]);
        }
        if (length < 3 || random() % 20 < skipped) {
            ++at;
            continue;
        }
        if (loose && random() % 2)
            length = 3 + size_t(random() % (length - 2));
        appendLiterals(out, in, literal, at, loose, random);
        appendMatch(out, length, distance);
        literal = at += length;
    }
    appendLiterals(out, in, literal, in.size(), loose, random);
    return out;
}

// How the columns of a chunk are written.
struct Columns {
    bool short_t = false, signed_t = false, signed_p = false;
    uint64_t offset = 0;
    unsigned plain = 0; // a bit for each of x, y, p and t: not compressed
    bool loose = false;
};

// Any that can say the times of e's first `taken` events, which are not negative and below 2^62.
inline Columns anyColumns(const Events &e, size_t taken, std::mt19937_64 &random) {
    Columns how;
    uint64_t least = 0, most = 0;
    if (taken) {
        const auto [low, high] = std::minmax_element(e.t.begin(), e.t.begin() + std::ptrdiff_t(taken));
        least = uint64_t(*low), most = uint64_t(*high);
    }
    const uint64_t kind = random(), range = most - least;
    how.signed_p = kind & 1;
    how.signed_t = kind & 2;
    how.short_t = range < uint64_t(1) << 32 && kind & 4;
    how.loose = kind & 8;
    how.plain = kind & 48 ? 0 : unsigned(kind >> 8 & 15);
    const bool usual = kind & 64; // the offset is 0, or the first time
    // What is stored is the time less the offset: from 0 or the least negative number on, up to the largest one.
    if (how.short_t) {
        const uint64_t first = how.signed_t ? uint64_t(0) - (uint64_t(1) << 31) : 0,
                       spare = (uint64_t(1) << 32) - 1 - range, stored = first + random() % (spare + 1);
        how.offset = least - stored;
        const bool fits = how.signed_t ? range < uint64_t(1) << 31 : true;
        if (usual && fits)
            how.offset = least;
    } else if (how.signed_t) {
        how.offset = usual ? 0 : random(); // numbers of 64 bits wrap
    } else {
        const uint64_t spare = (uint64_t(1) << 62) - 1 - range;
        how.offset = usual ? 0 : least - random() % (spare + 1);
    }
    return how;
}

// A chunk, whose parts tests may change.
struct StoredColumns {
    uint64_t rows = 0, flags = 0, offset = 0;
    std::vector<uint8_t> columns[4]; // x, y, p and t
    uint64_t sizes[4] = {};          // as the header has them

    std::vector<uint8_t> chunk() const {
        std::vector<uint8_t> bytes;
        appendNumber(bytes, rows, 4);
        appendNumber(bytes, flags, 4);
        appendNumber(bytes, offset, 8);
        for (const uint64_t size : sizes)
            appendNumber(bytes, size, 4);
        for (const auto &column : columns)
            bytes.insert(bytes.end(), column.begin(), column.end());
        return bytes;
    }
    // Other bytes for a column, with their size.
    void store(size_t k, std::vector<uint8_t> bytes, bool plain = false) {
        columns[k] = std::move(bytes);
        sizes[k] = columns[k].size() | (plain ? uint64_t(1) << 31 : 0);
    }
};

// All of e's rows. A p of 0 is written as -1 if it is signed.
inline StoredColumns storedColumns(const Events &e, const Columns &how, std::mt19937_64 &random) {
    StoredColumns made;
    made.rows = e.size();
    made.flags = (how.short_t ? 1 : 0) | (how.signed_t ? 2 : 0) | (how.signed_p ? 4 : 0);
    made.offset = how.offset;
    std::vector<uint8_t> columns[4];
    for (size_t i = 0; i < e.size(); ++i) {
        appendNumber(columns[0], e.x[i], 2);
        appendNumber(columns[1], e.y[i], 2);
        appendNumber(columns[2], how.signed_p && e.p[i] == 0 ? 255 : e.p[i], 1);
        appendNumber(columns[3], uint64_t(e.t[i]) - how.offset, how.short_t ? 4 : 8);
    }
    for (size_t k = 0; k < 4; ++k) {
        const bool plain = how.plain >> k & 1;
        made.store(k, plain ? columns[k] : encodeLzf(columns[k], how.loose, random), plain);
    }
    return made;
}

inline std::vector<uint8_t> encodeColumns(const Events &e, const Columns &how, std::mt19937_64 &random) {
    return storedColumns(e, how, random).chunk();
}

// Rows that nobody takes, with anything in them.
inline void appendGarbage(Events &e, size_t rows, std::mt19937_64 &random) {
    while (rows--) {
        const uint64_t t = random(), place = random();
        e.add(int64_t(t), unsigned(place & 65535), unsigned(place >> 16 & 65535), unsigned(place >> 32 & 255));
    }
}

// ---- Decoders ----

// Whether the bytes are LZF of `size` bytes, which become `out`.
inline bool decodeLzf(const std::vector<uint8_t> &in, size_t size, std::vector<uint8_t> &out) {
    for (size_t at = 0; at < in.size();) {
        const size_t control = in[at++];
        if (control < 32) {
            for (size_t n = control + 1; n > 0; --n) {
                if (at == in.size() || out.size() == size)
                    return false;
                out.push_back(in[at++]);
            }
            continue;
        }
        size_t length = 2 + (control >> 5);
        if (control >> 5 == 7) {
            if (at == in.size())
                return false;
            length += in[at++];
        }
        if (at == in.size())
            return false;
        const size_t distance = (control & 31) * 256 + in[at++] + 1;
        for (; length > 0; --length) {
            if (distance > out.size() || out.size() == size)
                return false;
            out.push_back(out[out.size() - distance]);
        }
    }
    return out.size() == size;
}

// Decodes one chunk, which has at least its header of 32 bytes. Returns whether it is well-formed.
class ColumnsChunk {
  public:
    explicit ColumnsChunk(const std::vector<uint8_t> &bytes) : bytes_(bytes) {}

    bool run(size_t taken, Events &e) const {
        const size_t rows = size_t(number(bytes_, 0, 4));
        const uint64_t flags = number(bytes_, 4, 4), offset = number(bytes_, 8, 8);
        const size_t width_of_t = flags & 1 ? 4 : 8, widths[4] = {2, 2, 1, width_of_t};
        if (rows < taken || rows > 65535 || flags > 7)
            return false;
        std::vector<uint8_t> columns[4];
        size_t at = 32;
        for (size_t k = 0; k < 4; ++k) {
            const uint64_t stored = number(bytes_, 16 + 4 * k, 4);
            const size_t size = size_t(stored & 0x7fffffff);
            if (size > bytes_.size() - at)
                return false;
            const std::vector<uint8_t> in(bytes_.begin() + std::ptrdiff_t(at), bytes_.begin() + std::ptrdiff_t(at + size));
            at += size;
            if (stored >> 31)
                columns[k] = in;
            else if (!decodeLzf(in, rows * widths[k], columns[k]))
                return false;
            if (columns[k].size() != rows * widths[k])
                return false;
        }
        if (at != bytes_.size())
            return false;
        constexpr uint64_t LIMIT = uint64_t(1) << 62;
        for (size_t i = 0; i < taken; ++i) {
            uint64_t t = number(columns[3], i * width_of_t, width_of_t);
            if (!(flags & 2) && t >= LIMIT)
                return false;
            if (flags & 2 && width_of_t == 4 && t >> 31)
                t -= uint64_t(1) << 32;
            t += offset;
            if (t >= LIMIT)
                return false;
            const unsigned p = columns[2][i];
            e.add(int64_t(t), unsigned(number(columns[0], 2 * i, 2)), unsigned(number(columns[1], 2 * i, 2)),
                  flags & 4 && p == 255 ? 0 : p);
        }
        return true;
    }

  private:
    static uint64_t number(const std::vector<uint8_t> &bytes, size_t at, size_t size) {
        uint64_t value = 0;
        for (size_t i = 0; i < size; ++i)
            value |= uint64_t(bytes[at + i]) << 8 * i;
        return value;
    }

    const std::vector<uint8_t> &bytes_;
};

} // namespace reference
