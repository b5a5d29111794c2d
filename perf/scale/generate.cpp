#include "generate.hpp"

#include "cusight/eventio.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace scale {

namespace {

constexpr size_t BLOCK = 1 << 20; // events encoded at once; each block can be decoded independently

uint64_t mixed(uint64_t i) {
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ i >> 29) * 0xBF58476D1CE4E5B9u;
    return i ^ i >> 32;
}

using Bytes = std::vector<uint8_t>;

void put16(Bytes &out, uint32_t word) {
    out.push_back(static_cast<uint8_t>(word));
    out.push_back(static_cast<uint8_t>(word >> 8));
}

void put32(Bytes &out, uint32_t word) {
    put16(out, word & 0xffff);
    put16(out, word >> 16);
}

void encodeEvt2(const Columns &e, size_t n, Bytes &out) {
    int64_t high = -1;
    for (size_t i = 0; i < n; ++i) {
        if (e.t[i] >> 6 != high) {
            high = e.t[i] >> 6;
            put32(out, 0x80000000u | static_cast<uint32_t>(high & 0xfffffff));
        }
        put32(out, static_cast<uint32_t>(e.p[i]) << 28 | static_cast<uint32_t>(e.t[i] & 63) << 22 |
                       static_cast<uint32_t>(e.x[i]) << 11 | e.y[i]);
    }
}

// A camera repeats the upper time bits at least every 4096 us, even without events. from: the time of the previous event.
void encodeEvt3(const Columns &e, size_t n, int64_t from, Bytes &out) {
    int64_t high = from >> 12, low = -1;
    int row = -1;
    put16(out, 0x8000u | static_cast<uint32_t>(high & 4095));
    for (size_t i = 0; i < n; ++i) {
        while (high < e.t[i] >> 12) {
            put16(out, 0x8000u | static_cast<uint32_t>(++high & 4095));
            low = -1;
        }
        if (low != (e.t[i] & 4095))
            put16(out, 0x6000u | static_cast<uint32_t>(low = e.t[i] & 4095));
        if (row != e.y[i])
            put16(out, static_cast<uint32_t>(row = e.y[i]));
        put16(out, 0x2000u | static_cast<uint32_t>(e.p[i]) << 11 | e.x[i]);
    }
}

void encodeDat(const Columns &e, size_t n, Bytes &out) {
    for (size_t i = 0; i < n; ++i) {
        put32(out, static_cast<uint32_t>(e.t[i]));
        put32(out, static_cast<uint32_t>(e.p[i]) << 28 | static_cast<uint32_t>(e.y[i]) << 14 | e.x[i]);
    }
}

void encodeText(const Columns &e, size_t n, Bytes &out) {
    char line[64];
    for (size_t i = 0; i < n; ++i) {
        const int length =
            std::snprintf(line, sizeof line, "%lld %d %d %d\n", static_cast<long long>(e.t[i]), e.x[i], e.y[i], e.p[i]);
        out.insert(out.end(), line, line + length);
    }
}

std::string headerOf(const std::string &format) {
    const std::string size = std::to_string(COLS) + "x" + std::to_string(ROWS);
    if (format == "evt2")
        return "% evt 2.0\n% geometry " + size + "\n% end\n";
    if (format == "evt3")
        return "% evt 3.0\n% geometry " + size + "\n% end\n";
    if (format == "dat")
        return "% Data file containing CD events.\n% Version 2\n% Height " + std::to_string(ROWS) + "\n% Width " +
               std::to_string(COLS) + "\n" + std::string("\x0c\x08");
    return std::to_string(COLS) + " " + std::to_string(ROWS) + "\n";
}

int64_t timeOf(uint64_t event, double rate) {
    return static_cast<int64_t>(static_cast<double>(event) * (1e6 / rate));
}

void encode(const std::string &format, uint64_t first, size_t count, double rate, Bytes &out) {
    Columns e;
    e.x.resize(count), e.y.resize(count), e.p.resize(count), e.t.resize(count);
    makeEvents(first, count, rate, e.x.data(), e.y.data(), e.p.data(), e.t.data());
    out.clear();
    out.reserve(count * 8);
    if (format == "evt2")
        encodeEvt2(e, count, out);
    else if (format == "evt3")
        encodeEvt3(e, count, first ? timeOf(first - 1, rate) : 0, out);
    else if (format == "dat")
        encodeDat(e, count, out);
    else
        encodeText(e, count, out);
}

[[noreturn]] void fail(const std::string &path, const std::string &why) {
    throw std::runtime_error(path + ": " + why);
}

void generateM3ed(const std::string &path, uint64_t events, double rate, unsigned threads) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = COLS;
    options.height = ROWS;
    options.threads = static_cast<int>(threads);
    cusEventWriter *writer = nullptr;
    if (cusEventWriterCreate(&writer, path.c_str(), &options) != CUS_OK)
        fail(path, cusLastError());
    const size_t most = static_cast<size_t>(std::min<uint64_t>(events, BLOCK * threads));
    Columns e;
    e.x.resize(most), e.y.resize(most), e.p.resize(most), e.t.resize(most);
    for (uint64_t first = 0; first < events; first += most) {
        const auto count = static_cast<size_t>(std::min<uint64_t>(most, events - first));
        inParallel(count, threads, [&](size_t low, size_t high) {
            makeEvents(first + low, high - low, rate, &e.x[low], &e.y[low], &e.p[low], &e.t[low]);
        });
        if (cusEventWriterWrite(writer, count, e.x.data(), e.y.data(), e.p.data(), e.t.data()) != CUS_OK) {
            const std::string why = cusLastError();
            cusEventWriterDiscard(writer);
            fail(path, why);
        }
    }
    if (cusEventWriterFinish(writer) != CUS_OK)
        fail(path, cusLastError());
}

} // namespace

void makeEvents(uint64_t first, size_t count, double rate, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t) {
    for (size_t k = 0; k < count; ++k) {
        const uint64_t i = first + k, r = mixed(i), row = mixed(i / 4); // four events in a row
        uint64_t column = (r & 0xffffffff) * COLS >> 32;
        if (r >> 32 & 3) // on four lines, 24 pixels wide, that move
            column = (i / 40000 * 3 + (r >> 34 & 3) * 300 + (r >> 36) % 24) % COLS;
        x[k] = static_cast<uint16_t>(column);
        y[k] = static_cast<uint16_t>((row & 0xffffffff) * ROWS >> 32);
        p[k] = static_cast<uint8_t>(r >> 63);
        if (t)
            t[k] = timeOf(i, rate);
    }
}

void generate(const std::string &path, const std::string &format, uint64_t events, double rate, unsigned threads) {
    if (format == "m3ed")
        return generateM3ed(path, events, rate, threads);
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file)
        fail(path, "cannot be written");
    const std::string header = headerOf(format);
    bool good = std::fwrite(header.data(), 1, header.size(), file) == header.size();
    std::vector<Bytes> blocks(threads);
    for (uint64_t first = 0; first < events && good; first += BLOCK * threads) {
        inParallel(threads, threads, [&](size_t k, size_t) {
            const uint64_t from = std::min(events, first + BLOCK * k), to = std::min(events, from + BLOCK);
            encode(format, from, static_cast<size_t>(to - from), rate, blocks[k]);
            if (from == to)
                blocks[k].clear();
        });
        for (const Bytes &block : blocks)
            good = good && std::fwrite(block.data(), 1, block.size(), file) == block.size();
    }
    if (std::fclose(file) != 0 || !good)
        fail(path, "cannot be written");
}

} // namespace scale
