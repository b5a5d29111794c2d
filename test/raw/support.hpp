// What the tests of raw share: random streams of every format, with damage, and a decoder in either space with its arrays.
#pragma once

#include "../support.hpp"

#include "reference/frames.hpp"
#include "reference/raw.hpp"

#include <algorithm>

namespace raw_test {

using Bytes = std::vector<uint8_t>;

struct Kind {
    cusEventFormat format;
    int legacy;
    const char *name;
};
inline const Kind KINDS[] = {{CUS_EVENTS_EVT2, 0, "EVT2"},           {CUS_EVENTS_EVT21, 0, "EVT2.1"},
                             {CUS_EVENTS_EVT21, 1, "EVT2.1 legacy"}, {CUS_EVENTS_EVT3, 0, "EVT3"},
                             {CUS_EVENTS_EVT4, 0, "EVT4"},           {CUS_EVENTS_DAT, 0, "DAT"}};

inline cusEventDecoderOptions optionsOf(const Kind &kind, cusSpace space = CUS_HOST, cusBadEvents bad = CUS_BAD_EVENTS_STOP,
                                        int width = 1280, int height = 720) {
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = kind.format;
    options.legacy = kind.legacy;
    options.space = space;
    options.bad_events = bad;
    options.width = width;
    options.height = height;
    return options;
}

// ---- Streams ----

// A stream of words of one format, put together by hand.
struct Stream {
    Bytes bytes;
    cusEventFormat format = CUS_EVENTS_EVT2;
    int legacy = 0;

    explicit Stream(const Kind &kind) : format(kind.format), legacy(kind.legacy) {}
    explicit Stream(cusEventFormat f) : format(f) {}

    void put(uint64_t word, int size) {
        for (int i = 0; i < size; ++i)
            bytes.push_back(uint8_t(word >> 8 * i));
    }
    // A word of 32 bits, the upper half of one of EVT2.1, or one of EVT3.
    void word(uint32_t upper, uint32_t lower = 0) {
        if (format == CUS_EVENTS_EVT21)
            put(legacy ? uint64_t(lower) << 32 | upper : uint64_t(upper) << 32 | lower, 8);
        else
            put(upper, format == CUS_EVENTS_EVT3 ? 2 : 4);
    }
    // A time that events follow, in microseconds. EVT2, EVT2.1 and EVT4 give events the lower 6 bits; DAT has none of it.
    void time(int64_t t) {
        if (format == CUS_EVENTS_EVT3) {
            word(0x8000u | (uint32_t(t >> 12) & 4095));
            word(0x6000u | (uint32_t(t) & 4095));
        } else if (format != CUS_EVENTS_DAT) {
            word((format == CUS_EVENTS_EVT4 ? 14u : 8u) << 28 | (uint32_t(t >> 6) & 0xfffffff));
        }
    }
    void event(int64_t t, uint32_t x, uint32_t y, uint32_t p) {
        const uint32_t place = uint32_t(t & 63) << 22 | x << 11 | y;
        if (format == CUS_EVENTS_DAT) {
            put(uint64_t(t & 0xffffffff) | uint64_t(p << 28 | y << 14 | x) << 32, 8);
        } else if (format == CUS_EVENTS_EVT3) {
            word(y);
            word(0x2000u | p << 11 | x);
        } else {
            word((p + (format == CUS_EVENTS_EVT4 ? 10 : 0)) << 28 | place, 1);
        }
    }
    // Events of one time, row and polarity, one for each bit; EVT3 takes 12 of them. Not for EVT2 and DAT.
    void vector(int64_t t, uint32_t x, uint32_t y, uint32_t p, uint32_t mask) {
        const uint32_t place = uint32_t(t & 63) << 22 | x << 11 | y;
        if (format == CUS_EVENTS_EVT3) {
            word(y);
            word(0x3000u | p << 11 | x);
            word(0x4000u | (mask & 4095));
        } else if (format == CUS_EVENTS_EVT4) {
            word((p + 12) << 28 | place);
            word(mask);
        } else {
            word(p << 28 | place, mask);
        }
    }
    void trigger(int64_t t, uint32_t id, uint32_t value) {
        if (format == CUS_EVENTS_EVT3)
            word(0xa000u | id << 8 | value);
        else
            word((format == CUS_EVENTS_EVT4 ? 9u : 10u) << 28 | uint32_t(t & 63) << 22 | id << 8 | value);
    }
    // A word that the format does not define. Not for DAT.
    void undefined() { word(format == CUS_EVENTS_EVT3 ? 0x1000u : 0x50000000u); }

    bool hasVectors() const { return format != CUS_EVENTS_EVT2 && format != CUS_EVENTS_DAT; }
};

// How often what is wrong comes, in 1000 words.
struct Damage {
    unsigned undefined = 0, outside = 0, late = 0, polarity = 0, noise = 0;
};

// A stream of about n words: bursts, vectors, triggers, wraps of the counters, and damage.
inline Bytes randomStream(const Kind &kind, size_t n, const Damage &damage, std::mt19937_64 &random, int width = 1280,
                          int height = 720) {
    Stream s(kind);
    const auto below = [&](uint64_t limit) { return uint32_t(random() % limit); };
    const auto happens = [&](unsigned in1000) { return in1000 && below(1000) < in1000; };
    const bool untimed = below(4) == 0, far = below(8) == 0;
    int64_t t = far ? (int64_t(1) << 34) - 3000 : int64_t(below(100000));
    if (!untimed)
        s.time(t);
    for (size_t i = 0; i < n; ++i) {
        if (below(6) == 0) {
            t += below(40) == 0 ? below(9000) : below(30);
            s.time(t);
        }
        const int64_t when = happens(damage.late) ? t - std::min<int64_t>(t, 1 + below(70)) : t;
        const bool outside = happens(damage.outside);
        const uint32_t x = outside && below(2) ? uint32_t(width) + below(uint64_t(2048 - width)) : below(uint64_t(width)),
                       y = outside ? uint32_t(height) + below(uint64_t(2048 - height)) : below(uint64_t(height)),
                       p = below(2);
        if (when != t)
            s.time(when);
        const bool undefined = happens(damage.undefined), noise = happens(damage.noise);
        const uint64_t any = random(), other = random(); // one by one: compilers choose the order of arguments
        if (undefined && s.format != CUS_EVENTS_DAT)
            s.undefined();
        else if (noise && s.format != CUS_EVENTS_DAT)
            s.word(uint32_t(any), uint32_t(other));
        else if (s.format != CUS_EVENTS_DAT && below(50) == 0)
            s.trigger(when, any % 16, other % 2);
        else if (s.hasVectors() && below(3) == 0)
            s.vector(when, other % 4 ? x / 40 * 32 : x, y, p, uint32_t(any & (other >> 40 & 1 ? other : any >> 32)));
        else if (s.format == CUS_EVENTS_EVT3 && below(12) == 0)
            s.word(0x5000u | below(256)); // goes on from the last vector
        else
            s.event(when, x, y, s.format == CUS_EVENTS_DAT && happens(damage.polarity) ? 2 + below(14) : p);
    }
    if (below(4) == 0)
        s.bytes.resize(s.bytes.size() - std::min<size_t>(s.bytes.size(), below(8)));
    return s.bytes;
}

// Events whose columns compress as a camera's do, to almost nothing, or not at all. Times go on from `t`.
inline reference::Events columnsEvents(size_t n, std::mt19937_64 &random, unsigned width, unsigned height, int64_t t) {
    const uint64_t kind = random() % 4;
    if (kind < 2)
        return reference::ecfEvents(n, random, width, height, t);
    reference::Events e;
    const uint64_t place = random(), step = uint64_t(1) << random() % 12;
    while (e.size() < n) {
        const uint64_t any = kind == 2 ? place : random();
        t += kind == 2 ? 0 : int64_t(random() % step);
        e.add(t, unsigned((any & 0xffff) % width), unsigned((any >> 16 & 0xffff) % height), unsigned(any >> 32 & 1));
    }
    return e;
}

// A chunk of ECF with e, or as many events as no encoder writes them, which t goes on with.
inline Bytes ecfChunk(const reference::Events &e, std::mt19937_64 &random, unsigned width, unsigned height, int64_t &t) {
    const bool loose = random() % 3 == 0, split = random() % 2;
    const auto packing = reference::Packing(random() % 3);
    Bytes chunk =
        loose ? reference::looseEcf(e.size(), random, width, height, t) : reference::encodeEcf(e, packing, random, split);
    if (random() % 5 == 0) // an encoder's padding
        chunk.resize(chunk.size() + random() % 20);
    return chunk;
}

// A stream of frames of a format with about n events, for a sensor of at most 2000 x 2000. Damage comes in 1000 events, but `late` of ECF
// in 1000 chunks, and `noise`, changed bytes, in 1000 chunks or headers. ECF has no bad polarity.
inline Bytes randomFrames(size_t n, const Damage &damage, std::mt19937_64 &random, int width = 1280, int height = 720,
                          cusEventFormat format = CUS_EVENTS_METAVISION) {
    Bytes stream;
    const bool lzf = format == CUS_EVENTS_HDF5;
    const auto columns = unsigned(width), rows = unsigned(height);
    const size_t header = lzf ? 32 : 12;
    const auto below = [&](uint64_t limit) { return random() % limit; };
    const auto happens = [&](unsigned in1000) { return in1000 && below(1000) < in1000; };
    const auto change = [&](Bytes &bytes, size_t first) {
        for (size_t k = 1 + below(3); k--;)
            bytes[first + below(bytes.size() - first)] = uint8_t(below(3) ? random() : 0xff);
    };
    int64_t t = int64_t(below(uint64_t(1) << below(40)));
    const size_t usual = 1 + n / (1 + below(20));
    for (size_t made = 0; made < n;) {
        std::vector<Bytes> chunks(1 + below(below(8) ? 6 : 255));
        std::vector<uint32_t> taken;
        for (Bytes &chunk : chunks) {
            const size_t count = made < n && below(30) ? std::min<size_t>(below(usual + 1), 65535) : below(3);
            if (happens(damage.late))
                t = std::max<int64_t>(0, t - int64_t(below(3000)));
            reference::Events e = lzf ? columnsEvents(count, random, columns, rows, t)
                                      : reference::ecfEvents(count, random, columns, rows, t);
            t = count ? e.t.back() : t;
            for (size_t i = 0; i < count; ++i)
                if (happens(damage.outside))
                    (below(2) ? e.x : e.y)[i] = uint16_t(2000 + below(48));
            for (size_t i = 0; lzf && i < count; ++i) {
                if (happens(damage.polarity))
                    e.p[i] = uint8_t(2 + below(254));
                if (happens(damage.late))
                    e.t[i] = std::max<int64_t>(0, e.t[i] - int64_t(below(3000)));
            }
            if (!lzf)
                chunk = ecfChunk(e, random, columns, rows, t);
            taken.push_back(uint32_t(below(4) ? count : below(count + 1)));
            if (lzf) {
                if (below(3) == 0)
                    reference::appendGarbage(e, std::min<size_t>(below(30), 65535 - count), random);
                chunk = reference::encodeColumns(e, reference::anyColumns(e, taken.back(), random), random);
            }
            if (happens(damage.noise))
                change(chunk, chunk.size() > header ? below(2) * header : 0);
            made += count;
        }
        const size_t start = stream.size();
        reference::appendFrame(stream, chunks, taken, format);
        if (happens(damage.noise))
            stream[start + below(8 + 8 * chunks.size())] = uint8_t(random());
    }
    if (!stream.empty() && below(4) == 0)
        stream.resize(stream.size() - below(std::min<size_t>(stream.size(), 3000)));
    return stream;
}

// ---- Decoding ----

// Memory in either space whose elements tests see. Bytes past what a call may write are poisoned and checked.
template<class T>
class Array {
  public:
    // pinned: memory of the host, which the device uses too: many small runs then need no copies.
    Array(cusSpace space, size_t n, size_t offset = 0, bool pinned = false) : offset_(offset), size_(n) {
        const int bytes = int((n + PAST) * sizeof(T) + offset);
        EXPECT_EQ(pinned && space == CUS_DEVICE ? cusMatCreatePinned(&memory_, 1, bytes, CUS_8UC1)
                                                : cusMatCreate(&memory_, 1, bytes, CUS_8UC1, space),
                  CUS_OK)
            << cusLastError();
        const std::vector<T> zeros(n); // all of it is downloaded
        upload(zeros.data(), n);
        limit(n);
    }
    T *data() { return reinterpret_cast<T *>(static_cast<uint8_t *>(memory_.data) + offset_); }
    size_t size() const { return size_; }

    // What follows the first n elements must stay as it is.
    void limit(size_t n) {
        const std::vector<uint8_t> poison(PAST * sizeof(T), POISON);
        copy(n, reinterpret_cast<T *>(const_cast<uint8_t *>(poison.data())), PAST, true);
    }
    void upload(const T *from, size_t n) { copy(0, const_cast<T *>(from), n, true); }
    // The first n elements. Those from `limit` on are checked to be as limit() left them.
    std::vector<T> download(size_t n, size_t limit) {
        std::vector<T> got(limit + PAST);
        copy(0, got.data(), got.size(), false);
        const std::vector<uint8_t> poison(PAST * sizeof(T), POISON);
        EXPECT_EQ(std::memcmp(&got[limit], poison.data(), poison.size()), 0) << "written past the capacity of " << limit;
        got.resize(n);
        return got;
    }

  private:
    static constexpr size_t PAST = 16;
    static constexpr uint8_t POISON = 0xA5;
    void copy(size_t first, T *host, size_t n, bool up) {
        if (!n)
            return;
        T *const array = data() + first;
        if (memory_.space == CUS_HOST) {
            std::memcpy(up ? array : host, up ? host : array, n * sizeof(T));
            return;
        }
        cusMat there = CUS_MAT_INIT, here = CUS_MAT_INIT;
        EXPECT_EQ(cusMatWrap(&there, 1, int(n * sizeof(T)), CUS_8UC1, CUS_DEVICE, array, 0), CUS_OK) << cusLastError();
        EXPECT_EQ(cusMatWrap(&here, 1, int(n * sizeof(T)), CUS_8UC1, CUS_HOST, host, 0), CUS_OK) << cusLastError();
        EXPECT_EQ(up ? cusMatUpload(&here, &there, nullptr) : cusMatDownload(&there, &here, nullptr), CUS_OK)
            << cusLastError();
        EXPECT_EQ(cusStreamSynchronize(nullptr), CUS_OK) << cusLastError();
    }

    support::Mat memory_;
    size_t offset_, size_;
};

// What decoders give: all events and triggers so far, and the last run's result.
struct Result {
    reference::Events events;
    std::vector<cusEventTrigger> triggers;
    cusEventDecoded last = {};
    cusStatus status = CUS_OK;
    std::string message;
};

// Arrays for a decoder in either space, for pieces of up to `bytes` bytes.
class Bench {
  public:
    Bench(cusSpace space, size_t bytes, size_t events, size_t triggers = 4096, bool pinned = false)
        : space_(space), bytes_(space, bytes, 1, pinned), x_(space, events, 0, pinned), y_(space, events, 0, pinned),
          p_(space, events, 0, pinned), t_(space, events, 0, pinned), triggers_(space, triggers, 0, pinned) {}

    // One run on a piece, and its result. `capacity`, `trigger_capacity`: of the arrays, up to those of the bench.
    void run(cusEventDecoder *decoder, const uint8_t *piece, size_t size, size_t capacity, size_t trigger_capacity,
             Result &result) {
        bytes_.upload(piece, size);
        x_.limit(capacity), y_.limit(capacity), p_.limit(capacity), t_.limit(capacity);
        triggers_.limit(trigger_capacity);
        const cusEventBuffers buffers = {x_.data(), y_.data(),        p_.data(),       t_.data(),
                                         capacity,  triggers_.data(), trigger_capacity};
        cusEventDecoded run = {};
        result.status =
            cusEventDecoderRun(decoder, bytes_.data(), size, &buffers, space_ == CUS_HOST ? &run : nullptr, nullptr);
        if (space_ == CUS_DEVICE) {
            EXPECT_EQ(result.status, CUS_OK) << cusLastError();
            result.status = cusEventDecoderCheck(decoder, &run, nullptr);
        }
        result.message = result.status == CUS_OK ? "" : cusLastError();
        EXPECT_EQ(run.status, result.status);
        EXPECT_LE(run.count, capacity);
        EXPECT_LE(run.triggers, trigger_capacity);
        EXPECT_LE(run.used, size);
        if (result.status == CUS_OK)
            EXPECT_EQ(run.used, size);
        append(result.events.x, x_.download(run.count, capacity));
        append(result.events.y, y_.download(run.count, capacity));
        append(result.events.p, p_.download(run.count, capacity));
        append(result.events.t, t_.download(run.count, capacity));
        append(result.triggers, triggers_.download(run.triggers, trigger_capacity));
        const auto &t = result.events.t;
        EXPECT_EQ(run.first_time, run.count ? t[t.size() - run.count] : -1);
        EXPECT_EQ(run.last_time, run.count ? t.back() : -1);
        result.last = run;
    }

    // The whole stream in pieces of random sizes into arrays of random capacities, from `least` on. Passes the rest again after
    // CAPACITY.
    Result decode(cusEventDecoder *decoder, const Bytes &stream, std::mt19937_64 &random, size_t most_bytes, size_t least,
                  size_t most_events) {
        Result result;
        size_t at = 0, rounds = 0;
        do {
            const size_t size = std::min(stream.size() - at, size_t(random() % (most_bytes + 1)));
            for (size_t from = 0; from <= size;) {
                const size_t capacity = least + random() % (most_events - least + 1);
                run(decoder, stream.data() + at + from, size - from, capacity, 1 + random() % 20, result);
                from += result.last.used;
                if (result.status != CUS_ERROR_CAPACITY || ++rounds > 100000)
                    break;
            }
            at += size;
        } while (at < stream.size() && result.status == CUS_OK);
        EXPECT_LE(rounds, 100000u) << "no progress";
        return result;
    }

  private:
    template<class T>
    static void append(std::vector<T> &all, const std::vector<T> &piece) {
        all.insert(all.end(), piece.begin(), piece.end());
    }

    cusSpace space_;
    Array<uint8_t> bytes_;
    Array<uint16_t> x_, y_;
    Array<uint8_t> p_;
    Array<int64_t> t_;
    Array<cusEventTrigger> triggers_;
};

inline bool sameCounts(const cusEventCounts &a, const cusEventCounts &b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}
inline std::string text(const cusEventCounts &c) {
    std::string s = "events " + std::to_string(c.events) + ", triggers " + std::to_string(c.triggers_rising) + " + " +
                    std::to_string(c.triggers_falling) + ", bad " + std::to_string(c.bad_coordinates) + ", " +
                    std::to_string(c.bad_polarity) + ", " + std::to_string(c.bad_time);
    return s + ", untimed " + std::to_string(c.untimed) + ", words " + std::to_string(c.bad_words);
}

// Everything that a decoder gave is what the reference gives. TRUNCATED is Finish's affair.
template<class Reference>
void checkEquals(const Result &got, const Reference &expected, const char *function) {
    const cusStatus status = expected.status == CUS_ERROR_TRUNCATED ? CUS_OK : expected.status;
    ASSERT_EQ(got.status, status) << got.message << "; expected " << expected.message;
    if (status == CUS_ERROR_FORMAT)
        ASSERT_EQ(got.message, function + (": " + expected.message));
    ASSERT_EQ(got.events.size(), expected.events.size());
    ASSERT_TRUE(got.events == expected.events);
    ASSERT_EQ(got.last.index, expected.index);
    ASSERT_TRUE(sameCounts(got.last.counts, expected.counts))
        << text(got.last.counts) << "; expected " << text(expected.counts);
    ASSERT_EQ(got.triggers.size(), expected.triggers.size());
    for (size_t i = 0; i < got.triggers.size(); ++i) {
        const cusEventTrigger &a = got.triggers[i], &b = expected.triggers[i];
        ASSERT_TRUE(a.t == b.t && a.id == b.id && a.value == b.value) << "trigger " << i;
    }
}

// Decodes into some of the arrays, a bit of `kept` each for x, y, p and t, and compares them with those of a reference that has run.
template<class Reference>
void checkArrays(unsigned kept, const Bytes &stream, const Reference &expected, const cusEventDecoderOptions &options) {
    SCOPED_TRACE("arrays " + std::to_string(kept));
    const cusSpace space = options.space;
    const size_t n = expected.events.size();
    Array<uint8_t> bytes(space, stream.size()), p(space, n);
    bytes.upload(stream.data(), stream.size());
    Array<uint16_t> x(space, n), y(space, n);
    Array<int64_t> t(space, n);
    support::Owned<cusEventDecoderDestroy> decoder;
    CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
    const cusEventBuffers buffers = {kept & 1 ? x.data() : nullptr,
                                     kept & 2 ? y.data() : nullptr,
                                     kept & 4 ? p.data() : nullptr,
                                     kept & 8 ? t.data() : nullptr,
                                     n,
                                     nullptr,
                                     0};
    cusEventDecoded done = {};
    CUS_ASSERT_OK(cusEventDecoderRun(decoder, bytes.data(), stream.size(), &buffers, nullptr, nullptr));
    CUS_ASSERT_OK(cusEventDecoderCheck(decoder, &done, nullptr));
    EXPECT_EQ(done.count, n);
    EXPECT_TRUE(sameCounts(done.counts, expected.counts)) << text(done.counts);
    EXPECT_TRUE(!(kept & 1) || x.download(n, n) == expected.events.x);
    EXPECT_TRUE(!(kept & 2) || y.download(n, n) == expected.events.y);
    EXPECT_TRUE(!(kept & 4) || p.download(n, n) == expected.events.p);
    EXPECT_TRUE(!(kept & 8) || t.download(n, n) == expected.events.t);
}

} // namespace raw_test
