// Events as tests hold them, and numbers as files do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reference {

struct Events {
    std::vector<uint16_t> x, y;
    std::vector<uint8_t> p;
    std::vector<int64_t> t;

    size_t size() const { return t.size(); }
    void add(int64_t time, unsigned column, unsigned row, unsigned polarity) {
        x.push_back(static_cast<uint16_t>(column));
        y.push_back(static_cast<uint16_t>(row));
        p.push_back(static_cast<uint8_t>(polarity));
        t.push_back(time);
    }
    bool operator==(const Events &o) const { return x == o.x && y == o.y && p == o.p && t == o.t; }
    Events part(size_t first, size_t n) const {
        const auto from = static_cast<std::ptrdiff_t>(first), to = static_cast<std::ptrdiff_t>(first + n);
        Events e;
        e.x.assign(x.begin() + from, x.begin() + to);
        e.y.assign(y.begin() + from, y.begin() + to);
        e.p.assign(p.begin() + from, p.begin() + to);
        e.t.assign(t.begin() + from, t.begin() + to);
        return e;
    }
    // A number that every event and their order go into (FNV-1a over whole values).
    uint64_t checksum() const {
        uint64_t h = 14695981039346656037u;
        for (size_t i = 0; i < size(); ++i)
            for (uint64_t v : {uint64_t(x[i]), uint64_t(y[i]), uint64_t(p[i]), uint64_t(t[i])})
                h = (h ^ v) * 1099511628211u;
        return h;
    }
};

inline void appendNumber(std::vector<uint8_t> &bytes, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i)
        bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
}

} // namespace reference
