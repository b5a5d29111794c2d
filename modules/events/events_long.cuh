// Long windows: how a block adds up the records of a tile in shared memory.
#ifndef CUSI_EVENTS_LONG_CUH
#define CUSI_EVENTS_LONG_CUH

#include "events_values.cuh"

namespace cusi::events {

namespace tuning {
constexpr int LONG_THREADS = 256;
}

// Once a count has come this far, counts are looked at before they are added to, and left alone from 255 on: many threads
// that add to one address wait for each other. A thread has at most 8 adds in flight past either bound.
constexpr uint32_t CROWDED = 4096;
static_assert(CROWDED + 8 * tuning::LONG_THREADS < 65536 && (CROWDED & (CROWDED - 1)) == 0,
              "counters of 16 bits must not carry");

__host__ __device__ constexpr bool countsEvents(Kind kind) {
    return kind == HISTOGRAM || kind == MDES_COUNT || kind == STACKED_HISTOGRAM;
}

// 16 bytes of records, how many of them are valid (0: none), their run, and with TimedRecord the run's base.
struct Piece {
    uint4 records;
    int left;
    unsigned run;
    uint32_t base;
};

// What a block adds to: `pixels` words of shared memory per plane.
struct Target {
    uint32_t *cells;
    unsigned pixels, from; // from: of the tile, the first pixel
    volatile int *crowded;
};

__device__ __forceinline__ bool below255(const Target &target, unsigned cell, unsigned shift, uint32_t mask) {
    return (static_cast<volatile uint32_t *>(target.cells)[cell] >> shift & mask) < 255;
}

__device__ __forceinline__ void countPiece(const Target &target, const Piece &piece, uint32_t flip) {
    const uint32_t records[4] = {piece.records.x ^ flip, piece.records.y ^ flip, piece.records.z ^ flip,
                                 piece.records.w ^ flip};
    if (*target.crowded) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t counter = element16(records, i), cell = counter / 2 - target.from, shift = (counter & 1) * 16;
            if (i < piece.left && cell < target.pixels && below255(target, cell, shift, 0xffff))
                atomicAdd(target.cells + cell, 1u << shift);
        }
        return;
    }
    uint32_t old[8], largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t counter = element16(records, i), cell = counter / 2 - target.from;
        old[i] = i < piece.left && cell < target.pixels ? atomicAdd(target.cells + cell, 1u << ((counter & 1) * 16)) : 0;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        largest |= old[i];
    if (largest & (0x10000 - CROWDED) * 0x10001u) // either half
        *target.crowded = 1;
}

// Four events of a piece: pixels from the target's first on, and keys as in forRecords(), 0 for none.
struct FourEvents {
    uint32_t pixel[4], key[4];
    __device__ FourEvents(const Target &target, const Piece &piece, uint32_t first_index) {
        constexpr int SHIFT = 32 - tuning::INDEXED_TILE;
        const uint32_t records[4] = {piece.records.x, piece.records.y, piece.records.z, piece.records.w},
                       base = 2 * (piece.run * tuning::RUN + first_index + 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pixel[i] = (records[i] >> SHIFT) - target.from;
            key[i] = i < piece.left && pixel[i] < target.pixels ? base + (records[i] & (1u << SHIFT) - 1) : 0;
        }
    }
};

// The same of timed records; key: TIMED + 2 * position + polarity, or 0 for no event.
struct TimedEvents {
    uint32_t pixel[4], key[4];
    __device__ TimedEvents(const Target &target, const Piece &piece, const TileParams &params, uint32_t first_index) {
        const unsigned shift = 32 - params.tiling.row_bits - params.tiling.col_bits;
        const uint32_t records[4] = {piece.records.x, piece.records.y, piece.records.z, piece.records.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pixel[i] = (records[i] >> shift) - target.from;
            key[i] = i < piece.left && pixel[i] < target.pixels ? piece.base + (records[i] & (1u << shift) - 1) : 0;
        }
        if (piece.base == WIDE_RUN)
            lookUp(params, piece.run * tuning::RUN + first_index);
    }
    // Indices in the run, whose first event has index `first` in the long window, to positions.
    __device__ __forceinline__ void lookUp(const TileParams &params, uint32_t first) {
        const int64_t *t = params.repr.t + params.whole.first;
        const VoxelTimes times(t[0], params.repr.t[params.whole.last - 1], params.repr.channels);
        int64_t found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = t[key[i] ? first + (key[i] - WIDE_RUN) / 2 : 0];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            key[i] = key[i] ? TIMED + 2 * times.position(found[i]) + (key[i] & 1) : 0;
    }
};

// Adds 1 to counters of 32 bits.
template<Kind KIND>
__device__ __forceinline__ void countFour(const Target &target, const FourEvents &four, const Representation &repr,
                                          const EventsLevels &levels) {
    const bool crowded = *target.crowded;
    uint32_t largest = 0;
    const auto add = [&](unsigned plane, unsigned pixel) {
        const unsigned cell = plane * target.pixels + pixel;
        if (!crowded || below255(target, cell, 0, ~0u))
            largest = max(largest, atomicAdd(target.cells + cell, 1u));
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (four.key[i] == 0)
            continue;
        const unsigned level = levelOf(levels, four.key[i] / 2 - 1);
        if (KIND == MDES_COUNT)
            for (unsigned k = 0; k <= level; ++k) // two on average
                add(k, four.pixel[i]);
        else
            add(((four.key[i] & 1) == repr.swap ? repr.channels : 0) + level, four.pixel[i]);
    }
    if (largest >= CROWDED)
        *target.crowded = 1;
}

// The largest key by pixel, or index + 1 by pixel and polarity. Newest run first, so most events need no atomic.
template<Kind KIND>
__device__ __forceinline__ void keepNewest(const Target &target, const FourEvents &four, const Representation &repr) {
    uint32_t cell[4], value[4], found[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const bool second = KIND == TIME_SURFACE && (four.key[i] & 1) == repr.swap;
        cell[i] = four.pixel[i] + (second ? target.pixels : 0);
        value[i] = KIND == TIME_SURFACE ? four.key[i] / 2 : four.key[i];
        found[i] = four.key[i] ? static_cast<volatile uint32_t *>(target.cells)[cell[i]] : ~0u;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (found[i] < value[i])
            atomicMax(target.cells + cell[i], value[i]);
}

// Calls add(cell, value) for the lanes that have one; those whose cell is the first such lane's are added up before. Pays if
// they are many.
template<class Add>
__device__ __forceinline__ void addTogether(bool mine, unsigned cell, int value, Add add) {
    const unsigned active = __ballot_sync(FULL_WARP, mine);
    if (active == 0)
        return;
    const int leader = __ffs(static_cast<int>(active)) - 1;
    const unsigned shared_cell = __shfl_sync(FULL_WARP, cell, leader); // by all lanes: not behind &&
    const bool same = mine && cell == shared_cell;
    const uint32_t sum = warpSum(same ? static_cast<uint32_t>(value) : 0u);
    if (static_cast<int>(threadIdx.x & 31) == leader)
        add(cell, static_cast<int>(sum));
    else if (mine && !same)
        add(cell, value);
}

// Whether a quarter of the warp's events are on one pixel.
template<class Four>
__device__ __forceinline__ bool sharesPixel(const Four &four) {
    const uint32_t first = __shfl_sync(FULL_WARP, four.pixel[0], 0); // by all lanes: not behind &&
    return __popc(__ballot_sync(FULL_WARP, four.key[0] != 0 && four.pixel[0] == first)) >= 8;
}

__device__ __forceinline__ void sumFour(const Target &target, const FourEvents &four) {
    const bool together = sharesPixel(four);
    const auto add = [&](unsigned cell, int value) { atomicAdd(target.cells + cell, static_cast<uint32_t>(value)); };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int value = four.key[i] & 1 ? 1 : -1;
        if (together)
            addTogether(four.key[i] != 0, four.pixel[i], value, add);
        else if (four.key[i])
            add(four.pixel[i], value);
    }
}

// Adds to a word of shared memory unless `value` is 0, and returns what it held, or 0. In C++ the address of shared memory is
// computed again behind each condition.
__device__ __forceinline__ uint32_t addShared(uint32_t address, int value) {
    uint32_t old = 0;
    asm volatile("{\n\t.reg .pred some;\n\tsetp.ne.s32 some, %2, 0;\n\t@some atom.shared.add.u32 %0, [%1], %2;\n\t}"
                 : "+r"(old)
                 : "r"(address), "r"(value)
                 : "memory");
    return old;
}

// Whether a sum of 32 bits has overflowed: its sign, bit 31, differs from both of its terms'.
__device__ __forceinline__ uint32_t overflowBit(uint32_t old, uint32_t added) {
    const uint32_t sum = old + added;
    return (old ^ sum) & (added ^ sum) & 1u << 31;
}

// Adds weights of at most 2^24 to sums of 32 bits. A sum that overflows is too small or too large by 2^32, which
// overflow(cell, 2^32 or -2^32) adds to where it ends up.
template<class Overflow>
__device__ __forceinline__ void sumVoxels(const Target &target, const TimedEvents &four, Overflow overflow) {
    const auto correct = [&](unsigned cell, uint32_t old, int value) {
        if (overflowBit(old, static_cast<uint32_t>(value)))
            overflow(cell, value < 0 ? -(1ll << 32) : 1ll << 32);
    };
    unsigned cell[4];
    int here[4], next[4]; // 0: none. The last bin has no next one, and weight 0 for it
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t position = (four.key[i] & ~TIMED) / 2;
        const int weight = static_cast<int>(position & ((1u << VOXEL_BITS) - 1)), sign = four.key[i] & 1 ? 1 : -1;
        cell[i] = (position >> VOXEL_BITS) * target.pixels + four.pixel[i];
        next[i] = sign * weight;
        here[i] = four.key[i] ? sign * (1 << VOXEL_BITS) - next[i] : 0;
    }
    if (sharesPixel(four)) {
        const auto add = [&](unsigned at, int value) {
            correct(at, atomicAdd(target.cells + at, static_cast<uint32_t>(value)), value);
        };
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            addTogether(here[i] != 0, cell[i], here[i], add);
            addTogether(next[i] != 0, cell[i] + target.pixels, next[i], add);
        }
        return;
    }
    const uint32_t cells = static_cast<uint32_t>(__cvta_generic_to_shared(target.cells)),
                   plane = target.pixels * static_cast<uint32_t>(sizeof *target.cells);
    uint32_t old[8], overflows = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) { // all issued before the first result is used
        const uint32_t address = cells + cell[i] * static_cast<uint32_t>(sizeof *target.cells);
        old[2 * i] = addShared(address, here[i]);
        old[2 * i + 1] = addShared(address + plane, next[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        overflows |= overflowBit(old[2 * i], static_cast<uint32_t>(here[i])) |
                     overflowBit(old[2 * i + 1], static_cast<uint32_t>(next[i]));
    if (overflows == 0)
        return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        correct(cell[i], old[2 * i], here[i]);
        correct(cell[i] + target.pixels, old[2 * i + 1], next[i]);
    }
}

} // namespace cusi::events

#endif
