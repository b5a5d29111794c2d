// How a block decodes a chunk of ECF (ecf.h).
//
// The fields of a chunk follow each other, and only decoding one tells where the next begins. So a block decodes field
// after field, a tile of bytes at a time, 16 bytes a thread. A scan finds which bytes are counts and how many digits of a
// step precede each thread's bytes (chainsOf); a second scan, of sums, finds which events and times the runs have. Each run
// is marked in shared memory at its first event and at each multiple of 32; a warp then copies the marks to 32 events at a
// time.
#ifndef CUSI_RAW_CUDA_ECF_CUH
#define CUSI_RAW_CUDA_ECF_CUH

#include "ecf.h"
#include "raw/cuda/frames.cuh"

namespace cusi::raw::frames::ecf {

constexpr int BYTES = 16, TILE = THREADS * BYTES; // bytes per thread, per block
constexpr int AHEAD = 4;                          // bytes loaded after a tile, for a count that begins in it
constexpr uint32_t WINDOW = 2048;                 // events expanded at a time

// ---- Scans

// A byte for each case of 0, 1 or 2 units of a count left over before a thread's bytes: how many are left over after them
// (bits 0, 1), whether all runs are digits (bit 2), and how many digits end them (from bit 3 on, at most MAX_DIGITS).
constexpr uint32_t MAX_DIGITS = 17, IDENTITY = 6u << 16 | 5u << 8 | 4u;
struct Compose {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const {
        uint32_t both = 0;
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) {
            const uint32_t first = a >> 8 * i & 255, then = b >> 8 * (first & 3) & 255;
            const uint32_t digits = min((then >> 3) + (then & 4 ? first >> 3 : 0), MAX_DIGITS);
            both |= ((then & 3) | (first & then & 4) | digits << 3) << 8 * i;
        }
        return both;
    }
};
// What precedes a unit of a section and determines how it is read.
struct Entry {
    uint32_t skip = 0, digits = 0; // units that belong to a count; digits before them
    __device__ Entry after(uint32_t chains) const {
        const uint32_t then = chains >> 8 * skip & 255;
        return {then & 3, min((then >> 3) + (then & 4 ? digits : 0), MAX_DIGITS)};
    }
};

struct Sum {
    uint32_t events;
    unsigned long long time;
    __device__ friend Sum operator+(const Sum &a, const Sum &b) { return {a.events + b.events, a.time + b.time}; }
};

using ChainScan = cub::BlockScan<uint32_t, THREADS>;
using SumScan = cub::BlockScan<Sum, THREADS>;

struct Shared {
    alignas(16) uint8_t bytes[TILE + AHEAD + 28]; // from an address that is a multiple of 16 on
    unsigned long long marks[WINDOW];             // all 0 between windows
    union {
        typename ChainScan::TempStorage chains;
        typename SumScan::TempStorage sums;
    } scan;
    uint32_t end; // where the section ends
};
// ---- Sections: the fields of a chunk

// The runs of each section consist of units of UNIT bytes, whose lower BITS bits are a count; if all are ones, the count
// follows in COUNT units. BITS is 0 if the unit has a mask instead.
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
    uint32_t next[3] = {4, 5, 6}; // for the units after this one, if 0, 1 or 2 units of a count are left
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

// A token is a run, a digit or a mask.
struct Token {
    int at, bytes;
    uint32_t unit, events;
    unsigned long long step;
    bool endless; // the step has more than 64 bits
};

// Calls each(token) for the tokens that begin in a thread's bytes.
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
            entry.digits = min(entry.digits + 1, MAX_DIGITS);
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

// Marks events first .. first + n - 1 with their value, as far as they lie in the window that begins at `window`.
__device__ __forceinline__ void mark(Shared &shared, uint32_t window, uint32_t first, uint32_t n,
                                     unsigned long long value) {
    const uint32_t from = max(first, window), to = min(first + n, window + WINDOW);
    for (uint32_t i = from; i < to; i = (i | 31) + 1)
        shared.marks[i - window] = MARK | value;
}
__device__ __forceinline__ void markMask(Shared &shared, uint32_t window, uint32_t first, uint32_t unit) {
    const uint32_t x = unit >> 5;
    mark(shared, window, first, 1, x);
    for (uint32_t bits = __brev(unit) >> 27; bits; bits &= bits - 1) // reversed: bit 0 now stands for x + 1
        mark(shared, window, ++first, 1, x + __ffs(bits));
}

// Passes the marks to events first .. last - 1 and clears them.
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
    uint32_t at, size; // offset in the input, bytes
    uint32_t count;    // events
};

// Decodes a section from byte `at` of the chunk on and calls emit(event, value) for each of its events. Times start at
// `time`; `odd` is set if they decrease, since a step may wrap. Returns where the section ends, or NONE if it is malformed.
template<class Section, class Emit>
__device__ uint32_t decodeSection(const Source &s, Shared &shared, const Chunk &chunk, uint32_t at, unsigned long long time,
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

// Decodes values of 24 or 12 bits, four in three words, and calls emit(event, value). Returns false if the chunk is too
// short.
template<int WORD, class Emit>
__device__ bool decodePacked(const Source &s, Shared &shared, const Chunk &chunk, uint32_t at, const Emit &emit) {
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
        constexpr int B = 2 * WORD; // a third of a value, in bits
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

struct Codec {
    static constexpr int PARTS = 1;
    using Shared = ecf::Shared;

    // Must precede a block's first chunk.
    static __device__ void prepare(Shared &shared) {
        for (uint32_t i = threadIdx.x; i < WINDOW; i += THREADS)
            shared.marks[i] = 0;
        __syncthreads();
    }

    // Decodes a chunk, which must have the target's events. Returns false if it is malformed. Sets `odd` if one of this
    // thread's events is off the sensor or may be earlier than the one before. The whole block calls it.
    static __device__ bool decode(const Source &s, Shared &shared, uint32_t start, uint32_t size, const Target &to, int,
                                  bool &odd) {
        const uint32_t header = s.number(start);
        const unsigned long long time = s.number(start + 4) | static_cast<unsigned long long>(s.number(start + 8)) << 32;
        const Chunk chunk = {start, size, header >> 2};
        if (chunk.count < to.first + to.count || chunk.count > CUSI_CHUNK_MAX_EVENTS)
            return false;
        const auto emitX = [&](uint32_t i, unsigned long long x) { to.putX(i, static_cast<uint32_t>(x), odd); };
        const auto emitY = [&](uint32_t i, unsigned long long y) { to.putY(i, static_cast<uint32_t>(y), odd); };
        const auto emitP = [&](uint32_t i, unsigned long long p) { to.putP(i, static_cast<uint32_t>(p), odd); };
        uint32_t at = decodeSection<Times>(s, shared, chunk, CUSI_ECF_HEADER, time, odd,
                                           [&](uint32_t i, unsigned long long t) { to.putTime(i, t); });
        if (at == NONE)
            return false;
        if (header & CUSI_ECF_ALL_PACKED)
            return decodePacked<4>(s, shared, chunk, at, [&](uint32_t i, uint32_t value) {
                emitX(i, value >> 1 & 2047);
                emitY(i, value >> 12);
                emitP(i, value & 1);
            });
        at = decodeSection<Rows>(s, shared, chunk, at, 0, odd, emitY);
        if (at == NONE)
            return false;
        if (header & CUSI_ECF_XP_PACKED)
            return decodePacked<2>(s, shared, chunk, at, [&](uint32_t i, uint32_t value) {
                emitX(i, value >> 1);
                emitP(i, value & 1);
            });
        at = decodeSection<Masks>(s, shared, chunk, at, 0, odd, emitX);
        return at != NONE && decodeSection<Polarities>(s, shared, chunk, at, 0, odd, emitP) != NONE;
    }
};

} // namespace cusi::raw::frames::ecf

#endif
