// Event recordings in their plainest form: a decoder and an encoder for each format.
#pragma once

#include "recording.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace reference {

struct Triggers {
    int rising = 0, falling = 0;
};

using Bytes = std::vector<uint8_t>;

inline void append(Bytes &bytes, uint64_t word, int size) {
    for (int i = 0; i < size; ++i)
        bytes.push_back(static_cast<uint8_t>(word >> 8 * i));
}
inline Bytes bytesOf(const std::string &text) {
    return Bytes(text.begin(), text.end());
}

// ---- Decoders: `data` is what follows the header ----

inline Events decodeEvt2(const Bytes &data, Triggers *triggers = nullptr) {
    Events events;
    int64_t high = -1, wraps = 0;
    for (size_t i = 0; i + 4 <= data.size(); i += 4) {
        uint32_t word;
        std::memcpy(&word, &data[i], 4);
        switch (word >> 28) {
        case 0:
        case 1:
            if (high >= 0)
                events.add((wraps * (1 << 28) + high) * 64 + (word >> 22 & 63), word >> 11 & 2047, word & 2047, word >> 28);
            break;
        case 8:
            if (high - static_cast<int64_t>(word & 0xfffffff) > 1 << 27)
                ++wraps;
            high = word & 0xfffffff;
            break;
        case 10:
            if (triggers)
                ++(word & 1 ? triggers->rising : triggers->falling);
            break;
        default:
            break;
        }
    }
    return events;
}

inline Events decodeEvt21(const Bytes &data, bool legacy, Triggers *triggers = nullptr) {
    Events events;
    int64_t high = -1, wraps = 0;
    for (size_t i = 0; i + 8 <= data.size(); i += 8) {
        uint64_t word;
        std::memcpy(&word, &data[i], 8);
        if (legacy)
            word = word << 32 | word >> 32;
        switch (word >> 60) {
        case 0:
        case 1:
            for (unsigned bit = 0; bit < 32; ++bit)
                if (high >= 0 && (word >> bit & 1))
                    events.add((wraps * (1 << 28) + high) * 64 + int64_t(word >> 54 & 63),
                               unsigned(word >> 43 & 2047) + bit, unsigned(word >> 32 & 2047), unsigned(word >> 60));
            break;
        case 8:
            if (high - int64_t(word >> 32 & 0xfffffff) > 1 << 27)
                ++wraps;
            high = int64_t(word >> 32 & 0xfffffff);
            break;
        case 10:
            if (triggers)
                ++(word >> 32 & 1 ? triggers->rising : triggers->falling);
            break;
        default:
            break;
        }
    }
    return events;
}

inline Events decodeEvt4(const Bytes &data, Triggers *triggers = nullptr) {
    Events events;
    int64_t high = -1, wraps = 0;
    const auto at = [&](size_t i) {
        uint32_t word;
        std::memcpy(&word, &data[i], 4);
        return word;
    };
    for (size_t i = 0; i + 4 <= data.size(); i += 4) {
        const uint32_t word = at(i), type = word >> 28, y = word & 2047, x = word >> 11 & 2047;
        const int64_t t = (wraps * (1 << 28) + high) * 64 + (word >> 22 & 63);
        if ((type == 10 || type == 11) && high >= 0) {
            events.add(t, x, y, type - 10);
        } else if ((type == 12 || type == 13) && i + 8 <= data.size()) {
            i += 4;
            for (unsigned bit = 0; bit < 32; ++bit)
                if (high >= 0 && (at(i) >> bit & 1))
                    events.add(t, x + bit, y, type - 12);
        } else if (type == 14) {
            if (high - static_cast<int64_t>(word & 0xfffffff) > 1 << 27)
                ++wraps;
            high = word & 0xfffffff;
        } else if (type == 9 && triggers) {
            ++(word & 1 ? triggers->rising : triggers->falling);
        }
    }
    return events;
}

inline Events decodeEvt3(const Bytes &data, Triggers *triggers = nullptr) {
    Events events;
    int64_t high = -1, wraps = 0, low = 0;
    unsigned y = 0, base = 0, p = 0;
    for (size_t i = 0; i + 2 <= data.size(); i += 2) {
        const unsigned word = data[i] | data[i + 1] << 8, value = word & 4095;
        const int64_t t = (wraps * 4096 + high) * 4096 + low;
        switch (word >> 12) {
        case 0:
            y = value & 2047;
            break;
        case 2:
            if (high >= 0)
                events.add(t, value & 2047, y, value >> 11);
            break;
        case 3:
            base = value & 2047;
            p = value >> 11;
            break;
        case 4:
        case 5: {
            const unsigned n = word >> 12 == 4 ? 12 : 8;
            for (unsigned k = 0; k < n; ++k)
                if (high >= 0 && (value >> k & 1))
                    events.add(t, base + k, y, p);
            base += n;
            break;
        }
        case 6:
            low = value;
            break;
        case 8:
            if (high - static_cast<int64_t>(value) > 2048)
                ++wraps;
            if (high != static_cast<int64_t>(value))
                low = 0;
            high = value;
            break;
        case 10:
            if (triggers)
                ++(word & 1 ? triggers->rising : triggers->falling);
            break;
        default:
            break;
        }
    }
    return events;
}

inline Events decodeDat(const Bytes &data) {
    Events events;
    int64_t wraps = 0, last = 0;
    for (size_t i = 0; i + 8 <= data.size(); i += 8) {
        uint32_t t, word;
        std::memcpy(&t, &data[i], 4);
        std::memcpy(&word, &data[i + 4], 4);
        if (last - static_cast<int64_t>(t) > int64_t(1) << 31)
            ++wraps;
        last = t;
        events.add((wraps << 32) + t, word & 16383, word >> 14 & 16383, word >> 28);
    }
    return events;
}

// Times in seconds with a dot, as in real recordings.
inline Events decodeText(const std::string &text) {
    Events events;
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = std::min(text.find('\n', at), text.size());
        double t;
        unsigned x, y, p;
        if (std::sscanf(text.substr(at, end - at).c_str(), "%lf %u %u %u", &t, &x, &y, &p) == 4)
            events.add(std::llround(t * 1e6), x, y, p);
        at = end + 1;
    }
    return events;
}

// The bytes after the "% " lines.
inline Bytes afterHeader(const Bytes &file) {
    size_t at = 0;
    while (at + 1 < file.size() && file[at] == '%' && file[at + 1] == ' ') {
        const size_t line = at;
        while (at < file.size() && file[at] != '\n')
            ++at;
        ++at;
        if (std::string(file.begin() + line, file.begin() + at) == "% end\n")
            break;
    }
    return Bytes(file.begin() + at, file.end());
}

// ---- Encoders ----

inline Bytes evt2(const Events &e, const std::string &header) {
    Bytes file = bytesOf(header);
    int64_t high = -1;
    for (size_t i = 0; i < e.size(); ++i) {
        if (e.t[i] >> 6 != high) {
            high = e.t[i] >> 6;
            append(file, 0x80000000u | (high & 0xfffffff), 4);
        }
        append(file, uint32_t(e.p[i]) << 28 | uint32_t(e.t[i] & 63) << 22 | uint32_t(e.x[i]) << 11 | e.y[i], 4);
    }
    return file;
}

// Runs of one row, time and polarity within 32 pixels become one word.
inline Bytes evt21(const Events &e, const std::string &header, bool legacy) {
    Bytes file = bytesOf(header);
    const auto put = [&](uint64_t word) { append(file, legacy ? word << 32 | word >> 32 : word, 8); };
    int64_t high = -1;
    for (size_t i = 0; i < e.size();) {
        if (e.t[i] >> 6 != high) {
            high = e.t[i] >> 6;
            put((uint64_t(8) << 28 | uint64_t(high & 0xfffffff)) << 32);
        }
        const unsigned base = e.x[i] & ~31u;
        uint32_t mask = 0;
        size_t n = 0;
        for (; i + n < e.size() && e.t[i + n] == e.t[i] && e.y[i + n] == e.y[i] && e.p[i + n] == e.p[i] &&
               e.x[i + n] >= base && e.x[i + n] < base + 32 && (mask >> (e.x[i + n] - base)) == 0;
             ++n)
            mask |= 1u << (e.x[i + n] - base);
        put((uint64_t(e.p[i]) << 28 | uint64_t(e.t[i] & 63) << 22 | uint64_t(base) << 11 | e.y[i]) << 32 | mask);
        i += n;
    }
    return file;
}

// Runs of one row, time and polarity within 32 pixels become one vector.
inline Bytes evt4(const Events &e, const std::string &header) {
    Bytes file = bytesOf(header);
    int64_t high = -1;
    for (size_t i = 0; i < e.size();) {
        if (e.t[i] >> 6 != high) {
            high = e.t[i] >> 6;
            append(file, 0xe0000000u | (high & 0xfffffff), 4);
        }
        uint32_t mask = 0;
        size_t n = 0;
        for (; i + n < e.size() && e.t[i + n] == e.t[i] && e.y[i + n] == e.y[i] && e.p[i + n] == e.p[i] &&
               e.x[i + n] >= e.x[i] && e.x[i + n] < e.x[i] + 32 && (mask >> (e.x[i + n] - e.x[i])) == 0;
             ++n)
            mask |= 1u << (e.x[i + n] - e.x[i]);
        const uint32_t type = (n > 1 ? 12 : 10) + e.p[i];
        append(file, type << 28 | uint32_t(e.t[i] & 63) << 22 | uint32_t(e.x[i]) << 11 | e.y[i], 4);
        if (n > 1)
            append(file, mask, 4);
        i += n;
    }
    return file;
}

// Dense runs of one row, time and polarity become vectors.
inline Bytes evt3(const Events &e, const std::string &header) {
    Bytes file = bytesOf(header);
    int64_t high = -1, low = -1;
    int row = -1;
    for (size_t i = 0; i < e.size();) {
        // The time counter must not jump by more than half its range.
        for (int64_t to = e.t[i] >> 12; high != to;) {
            high = high < 0 || to - high < 1024 ? to : high + 1024;
            append(file, 0x8000u | (high & 4095), 2);
            low = -1;
        }
        if ((e.t[i] & 4095) != low) {
            low = e.t[i] & 4095;
            append(file, 0x6000u | low, 2);
        }
        if (e.y[i] != row) {
            row = e.y[i];
            append(file, row, 2);
        }
        unsigned mask = 0;
        size_t n = 0;
        for (; i + n < e.size() && e.t[i + n] == e.t[i] && e.y[i + n] == row && e.p[i + n] == e.p[i] &&
               e.x[i + n] >= e.x[i] && e.x[i + n] < e.x[i] + 12 && (mask >> (e.x[i + n] - e.x[i])) == 0;
             ++n)
            mask |= 1u << (e.x[i + n] - e.x[i]);
        if (n >= 3) {
            append(file, 0x3000u | unsigned(e.p[i]) << 11 | e.x[i], 2);
            append(file, mask < 256 ? 0x5000u | mask : 0x4000u | mask, 2);
            i += n;
        } else {
            append(file, 0x2000u | unsigned(e.p[i]) << 11 | e.x[i], 2);
            ++i;
        }
    }
    return file;
}

inline Bytes dat(const Events &e, const std::string &header, uint8_t type = 0x0c) {
    Bytes file = bytesOf(header);
    file.push_back(type);
    file.push_back(8);
    for (size_t i = 0; i < e.size(); ++i) {
        append(file, e.t[i] & 0xffffffff, 4);
        append(file, uint32_t(e.x[i]) | uint32_t(e.y[i]) << 14 | uint32_t(e.p[i]) << 28, 4);
    }
    return file;
}

inline Bytes text(const Events &e, bool seconds) {
    std::string file;
    char line[96];
    for (size_t i = 0; i < e.size(); ++i) {
        if (seconds)
            std::snprintf(line, sizeof line, "%lld.%06lld %u %u %u\n", static_cast<long long>(e.t[i] / 1000000),
                          static_cast<long long>(e.t[i] % 1000000), e.x[i], e.y[i], e.p[i]);
        else
            std::snprintf(line, sizeof line, "%lld %u %u %u\n", static_cast<long long>(e.t[i]), e.x[i], e.y[i], e.p[i]);
        file += line;
    }
    return bytesOf(file);
}

// Metavision's CSV.
inline Bytes csv(const Events &e) {
    std::string file;
    char line[96];
    for (size_t i = 0; i < e.size(); ++i) {
        std::snprintf(line, sizeof line, "%u,%u,%u,%lld\n", e.x[i], e.y[i], e.p[i], static_cast<long long>(e.t[i]));
        file += line;
    }
    return bytesOf(file);
}

// ---- LZF, byte by byte ----

inline bool lzf(const Bytes &in, size_t size, Bytes &out) {
    out.clear();
    for (size_t i = 0; i < in.size();) {
        const unsigned control = in[i++];
        if (control < 32) {
            for (unsigned k = 0; k <= control; ++k, ++i) {
                if (i >= in.size())
                    return false;
                out.push_back(in[i]);
            }
        } else {
            unsigned length = control >> 5;
            if (length == 7) {
                if (i >= in.size())
                    return false;
                length += in[i++];
            }
            if (i >= in.size())
                return false;
            const size_t distance = ((control & 31) << 8 | in[i++]) + 1;
            if (distance > out.size())
                return false;
            for (unsigned k = 0; k < length + 2; ++k)
                out.push_back(out[out.size() - distance]);
        }
        if (out.size() > size)
            return false;
    }
    return out.size() == size;
}

} // namespace reference
