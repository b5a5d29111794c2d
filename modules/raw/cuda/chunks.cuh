// Frames of ECF chunks: what a run knows of them, and how a block decodes one chunk.
//
// The fields of a chunk follow each other, and only decoding one tells where the next begins. So a block decodes field after field, a tile
// of bytes at a time, 16 bytes a thread. Which bytes are counts that follow a run, and how many digits of a step precede, is known after
// a scan of what each thread's bytes do to either (chainsOf); which events and times the runs have, after a scan of sums. Runs are marked
// at their first event and at each multiple of 32 in shared memory, and a warp copies the marks to 32 events at a time.
#ifndef CUSI_RAW_CUDA_CHUNKS_CUH
#define CUSI_RAW_CUDA_CHUNKS_CUH

#include "cuda.cuh"
#include "ecf.h"
#include "event_checks.h"
#include "raw/backend.h"

#include <cub/block/block_scan.cuh>

namespace cusi::raw::ecf {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int BYTES = 16, TILE = THREADS * BYTES; // of a thread, of a block
constexpr int AHEAD = 4;                          // bytes behind a tile: a count
constexpr uint32_t WINDOW = 2048;                 // events expanded at a time
constexpr uint32_t NONE = ~0u;
constexpr uint32_t MOST_HELD = CUSI_FRAME_HEADER + CUSI_FRAME_UNIT + CUSI_ECF_MOST_BYTES; // a header and a chunk

// ---- A run

// A complete chunk of the stream.
struct Listed {
    uint32_t at, size; // bytes of the stream
    uint32_t events;   // that are taken
    uint32_t base;     // events before it, without those that earlier runs have passed
};

// A place between chunks.
struct Place {
    uint64_t offset;       // of the frame's header in the recording
    uint32_t header;       // of the frame in the stream
    uint32_t header_bytes; // 0: the header is not complete
    uint32_t line;         // chunks of the frame before it
    uint32_t prefix;       // their bytes
    uint32_t chunk;        // the next in the stream
};
// What the stream has up to a place.
struct Walk {
    Place end;
    uint32_t chunks, events;
    uint32_t dropped; // bytes of the last frame's chunks that are no longer in the stream
    uint32_t bad;     // a malformed header follows
};

// Bytes of a stream that are to be kept: a header, and behind it those of a chunk. `held` of the stream's first bytes are there.
struct Keep {
    uint32_t header, header_bytes, chunk, chunk_bytes, held;
};

// What a decoder remembers, in device memory.
struct Memory {
    cusEventDecoderState place;
    cusEventCounts counts;
    cusEventDecoded last;
    uint32_t held, dropped; // bytes kept; bytes of the frame's chunks passed before those
    uint32_t is_full;       // the last run ended with CAPACITY, and nobody has asked
    uint32_t bad_chunk;     // the first with a bad event or more than fits, or malformed; NONE
    Walk walk;
    Keep keep;
};

struct Run {
    Memory *memory;
    Listed *list;                      // the run's chunks
    int64_t *first_times, *last_times; // of their events; INT64_MAX and -1: there are none
    uint8_t *held;                     // bytes that earlier pieces left: MOST_HELD
    cusEventBuffers scratch;           // for the events of a chunk
    const uint8_t *bytes;
    uint32_t size;
    cusEventBuffers events;
    cusEventDecoded *decoded;
    CusiSensor sensor;
    bool skips; // bad events
};

__device__ __forceinline__ bool isIdle(const Memory &memory) {
    return memory.is_full || memory.last.status == CUS_ERROR_FORMAT;
}

// The bytes that earlier pieces left, then the piece.
struct Stream {
    const uint8_t *held, *piece;
    uint32_t held_bytes, total;
    __device__ explicit Stream(const Run &run)
        : held(run.held), piece(run.bytes), held_bytes(run.memory->held), total(held_bytes + run.size) {}
    __device__ uint8_t at(uint32_t i) const { return i < held_bytes ? held[i] : piece[i - held_bytes]; }
    __device__ uint32_t number(uint32_t i) const {
        return at(i) | at(i + 1) << 8 | at(i + 2) << 16 | static_cast<uint32_t>(at(i + 3)) << 24;
    }
};

cusStatus launchRepair(const char *function, const Run &run, cudaStream_t stream); // repair.cu

// ---- Scans

// What a thread's bytes do, for each number of units that a count before them still has (0..2): how many units of a count follow
// (bits 0, 1), whether all runs are digits (bit 2), and how many digits end them (from bit 3 on, at most MOST_DIGITS). A byte each.
constexpr uint32_t MOST_DIGITS = 17, IDENTITY = 6u << 16 | 5u << 8 | 4u;
struct Compose {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const {
        uint32_t both = 0;
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) {
            const uint32_t first = a >> 8 * i & 255, then = b >> 8 * (first & 3) & 255;
            const uint32_t digits = min((then >> 3) + (then & 4 ? first >> 3 : 0), MOST_DIGITS);
            both |= ((then & 3) | (first & then & 4) | digits << 3) << 8 * i;
        }
        return both;
    }
};
// How a unit of a section is read.
struct Entry {
    uint32_t skip = 0, digits = 0; // units of a count; digits before
    __device__ Entry after(uint32_t chains) const {
        const uint32_t then = chains >> 8 * skip & 255;
        return {then & 3, min((then >> 3) + (then & 4 ? digits : 0), MOST_DIGITS)};
    }
};

struct Sum {
    uint32_t events;
    unsigned long long time;
    __device__ friend Sum operator+(const Sum &a, const Sum &b) { return {a.events + b.events, a.time + b.time}; }
};

using ChainScan = cub::BlockScan<uint32_t, THREADS>;
using SumScan = cub::BlockScan<Sum, THREADS>;
using NumberScan = cub::BlockScan<uint32_t, THREADS>;
using TimeScan = cub::BlockScan<int64_t, THREADS>;

struct Shared {
    alignas(16) uint8_t bytes[TILE + AHEAD + 28]; // from a multiple of 16 on
    unsigned long long marks[WINDOW];             // 0 between windows
    union {
        typename ChainScan::TempStorage chains;
        typename SumScan::TempStorage sums;
        typename NumberScan::TempStorage numbers;
        typename TimeScan::TempStorage times;
    } scan;
    uint32_t end; // of the section
};
// Before the first chunk of a block.
__device__ __forceinline__ void clearMarks(Shared &shared) {
    for (uint32_t i = threadIdx.x; i < WINDOW; i += THREADS)
        shared.marks[i] = 0;
    __syncthreads();
}

// Loads n bytes of the stream, 16 at a time where they can be. Returns where they begin. Behind the stream's end are zeros.
__device__ inline uint32_t stage(const Stream &s, uint32_t from, uint32_t n, uint8_t *to) {
    const uint32_t have = min(n, s.total - min(from, s.total));
    if (have == 0 || (from < s.held_bytes && from + have > s.held_bytes)) { // of both
        for (uint32_t i = threadIdx.x; i < n; i += THREADS)
            to[i] = i < have ? s.at(from + i) : 0;
        return 0;
    }
    const uintptr_t begin =
                        reinterpret_cast<uintptr_t>(from < s.held_bytes ? s.held + from : s.piece + (from - s.held_bytes)),
                    end = begin + have;
    const uint32_t offset = begin % 16;
    for (uint32_t i = threadIdx.x; 16 * i < offset + n; i += THREADS) {
        const uintptr_t at = begin - offset + 16 * static_cast<uintptr_t>(i);
        uint4 sixteen = {0, 0, 0, 0};
        if (at >= begin && at + 16 <= end) {
            sixteen = *reinterpret_cast<const uint4 *>(at);
        } else {
            uint32_t four[4] = {};
            for (uint32_t j = 0; j < 16; ++j)
                if (at + j >= begin && at + j < end)
                    four[j / 4] |= static_cast<uint32_t>(*reinterpret_cast<const uint8_t *>(at + j)) << 8 * (j % 4);
            sixteen = {four[0], four[1], four[2], four[3]};
        }
        reinterpret_cast<uint4 *>(to)[i] = sixteen;
    }
    return offset;
}

// ---- Sections

__device__ __forceinline__ uint32_t load16(const uint8_t *p) {
    return p[0] | static_cast<uint32_t>(p[1]) << 8;
}

// The kinds of runs: units of UNIT bytes, the lower BITS of which are a count; all ones: it follows in COUNT units. 0: a mask.
struct Times {
    static constexpr int UNIT = 1, BITS = 4, COUNT = 2;
    static __device__ bool isDigit(uint32_t unit) { return unit >> 4 == 15; }
};
struct Rows {
    static constexpr int UNIT = 2, BITS = 5, COUNT = 1;
    static __device__ bool isDigit(uint32_t) { return false; }
};
struct Masks {
    static constexpr int UNIT = 2, BITS = 5, COUNT = 0;
    static __device__ bool isDigit(uint32_t) { return false; }
};
struct Polarities {
    static constexpr int UNIT = 1, BITS = 7, COUNT = 2;
    static __device__ bool isDigit(uint32_t) { return false; }
};

template<class Section>
__device__ __forceinline__ uint32_t unitAt(const uint8_t *bytes, int i) {
    return Section::UNIT == 1 ? bytes[i] : load16(bytes + i);
}
template<class Section>
__device__ __forceinline__ bool isFollowed(uint32_t unit) {
    constexpr uint32_t ONES = (1u << Section::BITS) - 1;
    return Section::COUNT && !Section::isDigit(unit) && (unit & ONES) == ONES;
}

template<class Section>
__device__ inline uint32_t chainsOf(const uint8_t *bytes) {
    uint32_t next[3] = {4, 5, 6}; // of the units behind: none of a count is left, one, two
#pragma unroll 4
    for (int i = BYTES - Section::UNIT; i >= 0; i -= Section::UNIT) {
        const uint32_t unit = unitAt<Section>(bytes, i);
        uint32_t here = isFollowed<Section>(unit) ? next[Section::COUNT] : next[0];
        if (!Section::isDigit(unit))
            here &= ~4u;
        else if (here & 4)
            here += 8;
        next[2] = next[1];
        next[1] = next[0];
        next[0] = here;
    }
    return next[0] | next[1] << 8 | next[2] << 16;
}

// A run, a digit or a mask.
struct Token {
    int at, bytes;
    uint32_t unit, events;
    unsigned long long step;
    bool endless; // a digit past 64 bits
};

// Calls each(token) for those that begin in a thread's bytes.
template<class Section, class Each>
__device__ __forceinline__ void forEachToken(const uint8_t *bytes, Entry entry, const Each &each) {
#pragma unroll 1
    for (int i = static_cast<int>(entry.skip) * Section::UNIT; i < BYTES;) {
        const uint32_t unit = unitAt<Section>(bytes, i);
        Token token = {i, Section::UNIT, unit, unit & ((1u << Section::BITS) - 1), 0, false};
        if (Section::COUNT == 0) {
            token.events = 1 + __popc(token.events);
        } else if (Section::isDigit(unit)) {
            token.events = 0;
            token.endless = entry.digits >= 16;
            token.step = token.endless ? 0 : static_cast<unsigned long long>(unit & 15) << 4 * entry.digits;
            entry.digits = min(entry.digits + 1, MOST_DIGITS);
        } else {
            if (isFollowed<Section>(unit)) {
                token.events = load16(bytes + i + Section::UNIT);
                token.bytes += 2;
            }
            if (std::is_same_v<Section, Times>)
                token.step = unit >> 4;
            entry.digits = 0;
        }
        i += token.bytes;
        each(token);
    }
}

constexpr unsigned long long MARK = 1ull << 63;

// Marks events first .. first + n - 1 of the window from `window` on with their value.
__device__ __forceinline__ void mark(Shared &shared, uint32_t window, uint32_t first, uint32_t n,
                                     unsigned long long value) {
    const uint32_t from = max(first, window), to = min(first + n, window + WINDOW);
    for (uint32_t i = from; i < to; i = (i | 31) + 1)
        shared.marks[i - window] = MARK | value;
}
__device__ __forceinline__ void markMask(Shared &shared, uint32_t window, uint32_t first, uint32_t unit) {
    const uint32_t x = unit >> 5;
    mark(shared, window, first, 1, x);
    for (uint32_t bits = __brev(unit) >> 27; bits; bits &= bits - 1) // x + 1 is the lowest now
        mark(shared, window, ++first, 1, x + __ffs(bits));
}

// Copies the marks to the events from `first` to before `last`, and clears them.
template<class Emit>
__device__ __forceinline__ void emitMarks(Shared &shared, uint32_t window, uint32_t first, uint32_t last,
                                          const Emit &emit) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t i = 32 * (threadIdx.x / 32); i < WINDOW && window + i < last; i += 32 * WARPS) {
        unsigned long long value = shared.marks[i + lane];
        shared.marks[i + lane] = 0;
        const uint32_t marked = __ballot_sync(FULL_WARP, value != 0) & (FULL_WARP >> (31 - lane)),
                       event = window + i + lane;
        value = __shfl_sync(FULL_WARP, value, marked ? 31 - __clz(static_cast<int>(marked)) : 0);
        if (event >= first && event < last)
            emit(event, value & ~MARK);
    }
}

struct Chunk {
    uint32_t at, size; // in the stream
    uint32_t count;    // of its events
};

// Decodes a section from byte `at` of the chunk on, and calls emit(event, value) for each of its events; Times: from `time` on. `odd`: times
// decrease, as a step may wrap. Returns where the section ends; NONE: it is malformed.
template<class Section, class Emit>
__device__ uint32_t decodeSection(const Stream &s, Shared &shared, const Chunk &chunk, uint32_t at, unsigned long long time,
                                  bool &odd, const Emit &emit) {
    Entry entry;
    Sum sum = {0, time};
    if (chunk.count == 0)
        return at;
    for (; sum.events < chunk.count; at += TILE) {
        if (at >= chunk.size)
            return NONE;
        __syncthreads();
        const uint8_t *const bytes =
            shared.bytes + stage(s, chunk.at + at, TILE + AHEAD, shared.bytes) + BYTES * static_cast<int>(threadIdx.x);
        __syncthreads();
        Entry mine;
        if (Section::COUNT) {
            uint32_t before, all;
            ChainScan(shared.scan.chains).ExclusiveScan(chainsOf<Section>(bytes), before, IDENTITY, Compose(), all);
            mine = entry.after(before);
            entry = entry.after(all);
            __syncthreads();
        }
        Sum own = {0, 0}, before, all;
        forEachToken<Section>(bytes, mine, [&](const Token &t) { own = own + Sum{t.events, t.step}; });
        SumScan(shared.scan.sums)
            .ExclusiveScan(
                own, before, Sum{0, 0}, [](const Sum &a, const Sum &b) { return a + b; }, all);
        before = sum + before;
        bool bad = false;
        Sum now = before;
        forEachToken<Section>(bytes, mine, [&](const Token &t) {
            const Sum then = now + Sum{t.events, t.step};
            if (now.events < chunk.count) {
                const uint32_t end = at + BYTES * threadIdx.x + static_cast<uint32_t>(t.at + t.bytes);
                bad |= t.endless || end > chunk.size || then.events > chunk.count || (t.events && then.time >> 62);
                odd |= then.time < now.time;
                if (then.events == chunk.count)
                    shared.end = end;
            }
            now = then;
        });
        if (__syncthreads_or(bad))
            return NONE;
        const uint32_t first = sum.events, last = min(first + all.events, chunk.count);
        for (uint32_t window = first & ~31u; window < last; window += WINDOW) {
            now = before;
            if (before.events < min(last, window + WINDOW) && before.events + own.events > window)
                forEachToken<Section>(bytes, mine, [&](const Token &t) {
                    const unsigned long long value =
                        std::is_same_v<Section, Times> ? now.time + t.step : t.unit >> Section::BITS;
                    if (now.events < last && !Section::COUNT)
                        markMask(shared, window, now.events, t.unit);
                    else if (now.events < last)
                        mark(shared, window, now.events, t.events, value);
                    now = now + Sum{t.events, t.step};
                });
            __syncthreads();
            emitMarks(shared, window, first, last, emit);
            __syncthreads();
        }
        sum = sum + all;
    }
    return shared.end;
}

// Values of 24 or 12 bits, four in three words: calls emit(event, value). Whether the chunk has them.
template<int WORD, class Emit>
__device__ bool decodePacked(const Stream &s, Shared &shared, const Chunk &chunk, uint32_t at, const Emit &emit) {
    constexpr uint32_t FOUR = 3 * WORD;
    const uint32_t groups = (chunk.count + 3) / 4;
    if (chunk.size - at < FOUR * groups)
        return false;
    for (uint32_t first = 0; first < groups; first += THREADS) {
        __syncthreads();
        const uint8_t *const bytes =
            shared.bytes + stage(s, chunk.at + at + FOUR * first, FOUR * THREADS, shared.bytes) + FOUR * threadIdx.x;
        __syncthreads();
        uint32_t word[3], value[4];
        for (int i = 0; i < 3; ++i) {
            word[i] = load16(bytes + WORD * i);
            if (WORD == 4)
                word[i] |= load16(bytes + WORD * i + 2) << 16;
        }
        constexpr int B = 2 * WORD; // bits of a third of a value
        constexpr uint32_t ONE = (1u << B) - 1, TWO = (1u << 2 * B) - 1;
        value[0] = word[0] >> B;
        value[1] = word[1] >> 2 * B << B | (word[0] & ONE);
        value[2] = word[2] >> 3 * B << 2 * B | (word[1] & TWO);
        value[3] = word[2] & ((1u << 3 * B) - 1);
        for (uint32_t i = 0; i < 4; ++i)
            if (4 * (first + threadIdx.x) + i < chunk.count)
                emit(4 * (first + threadIdx.x) + i, value[i]);
    }
    return true;
}

// Where the events of a chunk from number `first` on go, and how many of them.
struct Target {
    const cusEventBuffers *arrays;
    size_t at;
    uint32_t first, count;
    CusiSensor sensor;
    int64_t *first_time, *last_time; // NULL: not wanted
};

// Decodes a chunk, which must have the target's events, by the whole block. false: it is malformed. `odd`: of this thread's events one
// is outside the sensor or may be earlier than that before.
__device__ inline bool decodeChunk(const Stream &s, Shared &shared, uint32_t start, uint32_t size, const Target &to,
                                   bool &odd) {
    const uint32_t header = s.number(start);
    const unsigned long long time = s.number(start + 4) | static_cast<unsigned long long>(s.number(start + 8)) << 32;
    const Chunk chunk = {start, size, header >> 2};
    if (chunk.count < to.first + to.count || chunk.count > CUSI_ECF_MOST_EVENTS)
        return false;
    const cusEventBuffers &out = *to.arrays;
    const auto isWanted = [&](uint32_t i) { return i - to.first < to.count; };
    const auto emitX = [&](uint32_t i, uint32_t x) {
        if (!isWanted(i))
            return;
        odd |= x >= to.sensor.width;
        if (out.x)
            out.x[to.at + (i - to.first)] = static_cast<uint16_t>(x);
    };
    const auto emitY = [&](uint32_t i, uint32_t y) {
        if (!isWanted(i))
            return;
        odd |= y >= to.sensor.height;
        if (out.y)
            out.y[to.at + (i - to.first)] = static_cast<uint16_t>(y);
    };
    const auto emitP = [&](uint32_t i, uint32_t p) {
        if (isWanted(i) && out.p)
            out.p[to.at + (i - to.first)] = static_cast<uint8_t>(p);
    };
    const auto emitTime = [&](uint32_t i, unsigned long long t) {
        if (!isWanted(i))
            return;
        if (out.t)
            out.t[to.at + (i - to.first)] = static_cast<int64_t>(t);
        if (to.first_time && i == to.first)
            *to.first_time = static_cast<int64_t>(t);
        if (to.last_time && i == to.first + to.count - 1)
            *to.last_time = static_cast<int64_t>(t);
    };
    uint32_t at = decodeSection<Times>(s, shared, chunk, CUSI_ECF_HEADER, time, odd, emitTime);
    if (at == NONE)
        return false;
    if (header & CUSI_ECF_ALL_PACKED)
        return decodePacked<4>(s, shared, chunk, at, [&](uint32_t i, uint32_t value) {
            emitX(i, value >> 1 & 2047);
            emitY(i, value >> 12);
            emitP(i, value & 1);
        });
    at = decodeSection<Rows>(s, shared, chunk, at, 0, odd,
                             [&](uint32_t i, unsigned long long y) { emitY(i, static_cast<uint32_t>(y)); });
    if (at == NONE)
        return false;
    if (header & CUSI_ECF_XP_PACKED)
        return decodePacked<2>(s, shared, chunk, at, [&](uint32_t i, uint32_t value) {
            emitX(i, value >> 1);
            emitP(i, value & 1);
        });
    at = decodeSection<Masks>(s, shared, chunk, at, 0, odd,
                              [&](uint32_t i, unsigned long long x) { emitX(i, static_cast<uint32_t>(x)); });
    return at != NONE && decodeSection<Polarities>(s, shared, chunk, at, 0, odd, [&](uint32_t i, unsigned long long p) {
                             emitP(i, static_cast<uint32_t>(p));
                         }) != NONE;
}

// ---- Frames

// Finds the complete chunks of the stream, up to number `limit`, by the whole block. With `lists` they are listed.
__device__ inline Walk walk(const Run &run, Shared &shared, uint32_t limit, bool lists) {
    const Stream s(run);
    const Memory &memory = *run.memory;
    const uint32_t k = threadIdx.x; // of the frame's chunks
    Walk w = {};
    w.dropped = memory.dropped;
    Place &end = w.end;
    end.offset = memory.place.offset;
    end.line = static_cast<uint32_t>(memory.place.line);
    for (;;) {
        end.header_bytes = end.prefix = 0;
        end.chunk = end.header;
        const uint32_t left = s.total - end.header;
        if (left < CUSI_FRAME_START)
            return w;
        const uint32_t chunks = s.number(end.header + 4);
        w.bad = s.number(end.header) != CUSI_FRAME_MAGIC || chunks <= end.line || chunks > CUSI_FRAME_CHUNKS;
        if (w.bad || left < cusi_frameHeader(chunks))
            return w;
        const bool is_chunk = k < chunks;
        const uint32_t entry = end.header + CUSI_FRAME_START + CUSI_FRAME_ENTRY * k, size = is_chunk ? s.number(entry) : 0,
                       events = is_chunk ? s.number(entry + 4) : 0;
        w.bad = __syncthreads_or(is_chunk && !cusi_isFrameEntry(size, events));
        if (w.bad)
            return w;
        uint32_t before, all, events_before, all_events;
        NumberScan(shared.scan.numbers).ExclusiveSum(cusi_frameSlot(size), before, all);
        __syncthreads();
        const uint32_t header_bytes = cusi_frameHeader(chunks), at = end.header + header_bytes + before - w.dropped;
        const bool complete = is_chunk && k >= end.line && k - end.line < limit - w.chunks &&
                              static_cast<uint64_t>(at) + cusi_frameSlot(size) <= s.total;
        const uint32_t passed = w.chunks == 0 && k == end.line ? min(memory.place.vector, events) : 0;
        NumberScan(shared.scan.numbers).ExclusiveSum(complete ? events - passed : 0, events_before, all_events);
        if (lists && complete)
            run.list[w.chunks + k - end.line] = {at, size, events, w.events + events_before};
        const uint32_t done = static_cast<uint32_t>(__syncthreads_count(complete));
        w.chunks += done;
        w.events += all_events;
        end.line += done;
        if (end.line == chunks) {
            end.header += header_bytes + all - w.dropped;
            end.offset += header_bytes + all;
            end.line = w.dropped = 0;
            continue;
        }
        if (k == end.line)
            shared.end = before;
        __syncthreads();
        end.header_bytes = header_bytes;
        end.prefix = shared.end;
        end.chunk = end.header + header_bytes + end.prefix - w.dropped;
        return w;
    }
}

} // namespace cusi::raw::ecf

#endif
