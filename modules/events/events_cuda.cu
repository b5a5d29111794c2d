// Event frames on the GPU. Two ways:
//
// Sorting by tile. The frame is cut into tiles whose pixels fit shared memory. Runs of a window's events are sorted by tile, in
// shared memory, and written one after the other, each to a place of its own; then a block takes one tile of one window, reads
// its segments of all the window's runs, counts or finds the last events in shared memory, and writes its pixels. Events are
// read once, the frames written once, and in between a record of 2 or 4 bytes an event is written and read. The only atomics on
// device memory count skipped events.
//
// Accumulators in device memory (windows too long for the workspace). The events of a group of windows go into accumulators, with
// atomics that return nothing and whose result does not depend on their order; a second kernel turns these into pixels and leaves
// zeros behind. A group is small enough to stay in the L2 cache.
#include "cuda.cuh"
#include "events_backend.h"

#include <algorithm>
#include <limits>
#include <new>

namespace {

using cusi::cudaStatus;
using cusi::divUp;
using cusi::launch;
using cusi::launchOverlapped;
using cusi::rowOf;

namespace tuning {
// On an H200, milliseconds for 60 million uniform events in 300 stacks of 1280 x 720; "one pixel": all events on one.
// Sorting for HISTOGRAM / for the others, by events a run and threads: 8192, 512 x 2 blocks 0.166 / 0.220;
// 8192, 1024 x 2 0.199 / 0.257; 16384, 1024 0.215 / 0.280; 4096, 256 x 5 0.146 / 0.198, but painting from its shorter segments
// takes 0.06 to 0.1 more.
constexpr int RUN = 8192;
constexpr int SORT_THREADS = 512, SORT_BLOCKS = 2;
// Sorting for HISTOGRAM, uniform and one pixel: 1 0.202 and 0.367, 4 0.192 and 0.196 (in an earlier state).
constexpr int COUNTER_COPIES = 4;
// That a run is sorted by, with one more a thread each; a frame of more is made in bands, each from all events.
constexpr int MOST_TILES = SORT_THREADS - 1;
// By windows a group: 38 0.402 / 1.377, 75 0.386 / 1.307, 150 0.365 / 1.276, 300 0.354 / 1.260. 128 MiB hold 300 / 150. Side by
// side in one launch, one group apart, an earlier state of both took 0.96 to 1.15 times as long.
constexpr size_t SORTED_BYTES = size_t{128} << 20;
// log2 of a tile's pixels, and threads. Painting a HISTOGRAM: 13 with 256 threads 0.218; 14 with 128 0.216, 256 0.190,
// 512 0.224; 15 with 512 0.194.
constexpr int HISTOGRAM_TILE = 14, HISTOGRAM_THREADS = 256;
// MDES and TENCODE: 12 with 256 threads 1.045; 13 with 256 1.042, 512 1.089. Bulk copies instead of stores: 1.053.
constexpr int LAST_TILE = 13, LAST_THREADS = 256;
// The other kinds: accumulators of a block, and threads. By both, for MDES_COUNT, STACKED_HISTOGRAM, VOXEL_GRID, TIME_SURFACE:
// 20 KiB, 256 1.42, 2.32, 2.74, 1.58; 40 KiB, 128 1.27, 1.88, 2.67, 1.93; 256 1.11, 1.84, 2.65, 1.87; 384 -, -, 2.58, 1.44;
// 512 1.32, 2.32, 3.14, 1.67; 80 KiB, 256 1.52, 2.37, 2.35, 1.52; 512 1.31, 2.30, 2.34, 1.48.
constexpr size_t VALUES_BYTES = 40 << 10;
constexpr int VALUES_THREADS = 256;
// Percent of the cache that should be shared memory, where times are gathered through the rest. VOXEL_GRID: 44 2.52, 72 2.30,
// 86 2.64; TIME_SURFACE: 29 1.54, 44 1.39, 72 1.46, 86 1.88. Past the cache (ld.cg 2.65 and 1.88, not allocating 3.14 and 2.28).
constexpr int VOXEL_CARVEOUT = 72, SURFACE_CARVEOUT = 44;
constexpr unsigned NORMALISE_PARTS = 32; // of a frame, a block each
constexpr int SCATTER_THREADS = 256;
constexpr unsigned SCATTER_CHUNKS = 1; // of 8 events, a thread
// Of accumulators: 8 and 16 MiB were alike; 32, past what the L2 cache holds, took 1.6 times as long.
constexpr size_t GROUP_BYTES = size_t{16} << 20;
constexpr int BATCH_WINDOWS = 4096; // listed on the device at a time
} // namespace tuning

constexpr int CHUNK = 8;    // events that a thread loads together
constexpr int LISTED = 240; // windows that fit a launch's parameters

struct Window {
    unsigned long long first, last;
};

// Windows at equal distances need no list.
struct Windows {
    const Window *list;
    unsigned long long first, stride, length;
    __device__ Window operator[](unsigned w) const {
        if (list)
            return list[w];
        return {first + w * stride, first + w * stride + length};
    }
    Windows from(unsigned w) const {
        Windows rest = *this;
        if (rest.list)
            rest.list += w;
        rest.first += w * stride;
        return rest;
    }
};

struct Source {
    const uint16_t *x, *y;
    const uint8_t *p;
    const int64_t *t;
    unsigned long long count;
    bool aligned; // all of x, y, p start at multiples of 16 bytes
};

// Events 8 c .. 8 c + 7, of which [begin, end) counts, as 16-bit pairs and bytes.
struct Chunk {
    uint32_t x[4], y[4], p[2];
    int begin, end;
    __device__ unsigned col(int i) const { return x[i / 2] >> (i % 2 * 16) & 0xffff; }
    __device__ unsigned row(int i) const { return y[i / 2] >> (i % 2 * 16) & 0xffff; }
    __device__ bool positive(int i) const { return p[i / 4] >> (i % 4 * 8) & 255; }
    __device__ bool has(int i) const { return i >= begin && i < end; }
};

__device__ inline void load(const Source &source, const Window &window, unsigned long long c, Chunk &chunk) {
    const unsigned long long start = c * CHUNK;
    chunk.begin = start < window.first ? static_cast<int>(window.first - start) : 0;
    chunk.end = start + CHUNK > window.last ? static_cast<int>(window.last - start) : CHUNK;
    if (source.aligned && start + CHUNK <= source.count) {
        const uint4 x = __ldg(reinterpret_cast<const uint4 *>(source.x + start));
        const uint4 y = __ldg(reinterpret_cast<const uint4 *>(source.y + start));
        const uint2 p = __ldg(reinterpret_cast<const uint2 *>(source.p + start));
        chunk.x[0] = x.x, chunk.x[1] = x.y, chunk.x[2] = x.z, chunk.x[3] = x.w;
        chunk.y[0] = y.x, chunk.y[1] = y.y, chunk.y[2] = y.z, chunk.y[3] = y.w;
        chunk.p[0] = p.x, chunk.p[1] = p.y;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        chunk.x[i] = chunk.y[i] = 0;
    chunk.p[0] = chunk.p[1] = 0;
#pragma unroll
    for (int i = 0; i < CHUNK; ++i)
        if (chunk.has(i)) {
            chunk.x[i / 2] |= static_cast<uint32_t>(source.x[start + i]) << (i % 2 * 16);
            chunk.y[i / 2] |= static_cast<uint32_t>(source.y[start + i]) << (i % 2 * 16);
            chunk.p[i / 4] |= static_cast<uint32_t>(source.p[start + i]) << (i % 4 * 8);
        }
}

__device__ inline unsigned warpSum(unsigned value) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

struct List {
    Window window[LISTED];
};

__global__ void storeWindows(Window *list, const __grid_constant__ List windows, int count) {
    cusi::startInOrder();
    for (int w = threadIdx.x; w < count; w += blockDim.x)
        list[w] = windows.window[w];
}

// ---- Sorting by tile ---------------------------------------------------------------------------------------------------

// The frame, or a band of its rows, in tiles of 2^(row_bits + col_bits) pixels, tile after tile along a row of tiles.
struct Tiling {
    unsigned rows, cols;  // of the frame
    unsigned top, bottom; // the band's rows; top is a multiple of a tile's height
    unsigned row_bits, col_bits;
    unsigned tiles_a_row, tiles; // of the band
    __device__ unsigned tile(unsigned row, unsigned col) const {
        return ((row - top) >> row_bits) * tiles_a_row + (col >> col_bits);
    }
    __device__ unsigned rowOf(unsigned tile) const { return top + (tile / tiles_a_row << row_bits); }
    __device__ unsigned colOf(unsigned tile) const { return tile % tiles_a_row << col_bits; }
};

// A window's events in runs of tuning::RUN, each sorted by tile. A run has a place of its own, `pitch` records long, in which
// its tiles' segments begin at multiples of 16 bytes; ends[run][tile] says where they end. Records are uint16, twice the
// pixel in its tile plus polarity, or uint32, from the top: pixel, index in the run, polarity.
struct Sorted {
    void *records;
    uint16_t *ends;
    uint32_t *greens; // see findGreens
    unsigned runs_a_window, pitch;
    __device__ static unsigned runs(const Window &window) {
        const unsigned long long events = window.last - window.first / CHUNK * CHUNK;
        return window.first == window.last ? 0 : static_cast<unsigned>(divUp(events, 1ull * tuning::RUN));
    }
};

template<class Record>
constexpr unsigned PADDING = 16 / sizeof(Record); // records in 16 bytes

struct Sort {
    Windows windows;
    Tiling tiling;
    Sorted sorted;
    unsigned green_blocks;       // blocks that look for greens, one a window, before those that sort
    unsigned long long *skipped; // NULL: counted elsewhere
};

// TENCODE's green falls with time, so that it follows from the index of an event: greens[g] is the window's first event whose
// green is at most g, found by halving, a thread for each g. In an empty window nobody asks.
__device__ void findGreens(const Source &source, const Window &window, uint32_t *greens) {
    if (threadIdx.x >= 256)
        return;
    if (window.first == window.last) {
        greens[threadIdx.x] = 0;
        return;
    }
    const unsigned n = static_cast<unsigned>(window.last - window.first);
    const int64_t *t = source.t + window.first;
    const uint64_t newest = static_cast<uint64_t>(t[n - 1]), dt = newest - static_cast<uint64_t>(t[0]);
    unsigned low = 0, high = dt ? n : 0;
    while (low < high) { // 255 age / dt, truncated, is at most g where 255 age < (g + 1) dt
        const unsigned middle = low + (high - low) / 2;
        const bool reached = 255 * (newest - static_cast<uint64_t>(t[middle])) < (threadIdx.x + 1) * dt;
        high = reached ? middle : high;
        low = reached ? low : middle + 1;
    }
    greens[threadIdx.x] = low;
}

__device__ inline uint32_t half(const uint32_t *pairs, int i) {
    return i % 2 ? pairs[i / 2] >> 16 : pairs[i / 2] & 0xffff;
}
__device__ inline unsigned largest(const uint32_t *pairs) {
    const uint32_t most = __vmaxu2(__vmaxu2(pairs[0], pairs[1]), __vmaxu2(pairs[2], pairs[3]));
    return max(most & 0xffff, most >> 16);
}
__device__ inline unsigned least(const uint32_t *pairs) {
    const uint32_t least = __vminu2(__vminu2(pairs[0], pairs[1]), __vminu2(pairs[2], pairs[3]));
    return min(least & 0xffff, least >> 16);
}

// One run: where an event goes follows from the count of its tile, which also tells it its rank there, and from the sum of
// the tiles before. Events that do not count (outside the window, the frame or the band) go to one more tile, the last, which
// is not written. The order within a segment is arbitrary. BITS: of a record, for the pixel.
template<class Record, int BITS>
__device__ void sortRun(const Source &source, const Sort &job, unsigned block, char *shared) {
    constexpr int THREADS = tuning::SORT_THREADS, EVENTS = tuning::RUN / THREADS, COPIES = tuning::COUNTER_COPIES;
    constexpr unsigned PAD = PADDING<Record>;
    static_assert(EVENTS % CHUNK == 0 && tuning::RUN <= 1 << (31 - tuning::LAST_TILE), "a record is 32 bits");
    __shared__ unsigned sums[THREADS / 32], all;
    Record *sorted = reinterpret_cast<Record *>(shared);
    unsigned *counts = reinterpret_cast<unsigned *>(sorted + job.sorted.pitch);
    const unsigned tid = threadIdx.x, w = block / job.sorted.runs_a_window, run = block % job.sorted.runs_a_window;
    const Window window = job.windows[w];
    const Tiling &tiling = job.tiling;
    const unsigned tiles = tiling.tiles;
    if (run >= Sorted::runs(window))
        return;
    const unsigned long long start = window.first / CHUNK + (1ull * run * tuning::RUN) / CHUNK + tid;
    for (unsigned i = tid; i < (tiles + 1) * COPIES; i += THREADS)
        counts[i] = 0;
    Chunk chunk[EVENTS / CHUNK];
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v)
        load(source, window, start + v * THREADS, chunk[v]);
    __syncthreads();

    // Two events at a time, as 16-bit halves: all of it fits for a chunk that lies wholly inside.
    uint32_t place[EVENTS], records[EVENTS / 2]; // tile and rank; twice the pixel plus polarity
    unsigned outside = 0;
    unsigned *mine = counts + tid % COPIES; // counters by lanes, so that fewer of a warp meet in a crowded tile's
    const auto both = [](uint32_t value) { return value << 16 | value; };
    const uint32_t row_mask = both((1u << tiling.row_bits) - 1), col_mask = both((1u << tiling.col_bits) - 1),
                   tile_row_mask = both(0xffff >> tiling.row_bits), tile_col_mask = both(0xffff >> tiling.col_bits);
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v) {
        const Chunk &c = chunk[v];
        uint32_t tile[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t tile_row = (c.y[i] >> tiling.row_bits & tile_row_mask) - both(tiling.top >> tiling.row_bits),
                           tile_col = c.x[i] >> tiling.col_bits & tile_col_mask,
                           pixel = (c.y[i] & row_mask) << tiling.col_bits | (c.x[i] & col_mask),
                           nonzero = ((c.p[i / 2] & 0x7f7f7f7f) + 0x7f7f7f7f) | c.p[i / 2]; // bit 7 of each byte
            tile[i] = tile_row * tiling.tiles_a_row + tile_col;
            records[v * 4 + i] = pixel * 2 + (__byte_perm(nonzero, 0, i % 2 ? 0x4342 : 0x4140) >> 7 & 0x00010001);
        }
        const bool usual = c.begin == 0 && c.end == CHUNK && largest(c.x) < tiling.cols && largest(c.y) < tiling.bottom &&
                           (tiling.top == 0 || least(c.y) >= tiling.top);
        if (!usual) {
#pragma unroll
            for (int i = 0; i < CHUNK; ++i) {
                const unsigned row = c.row(i), col = c.col(i);
                outside += c.has(i) && (row >= tiling.rows || col >= tiling.cols);
                const bool counts_here = c.has(i) && col < tiling.cols && row >= tiling.top && row < tiling.bottom;
                const uint32_t number = counts_here ? tiling.tile(row, col) : tiles;
                tile[i / 2] = i % 2 ? tile[i / 2] | number << 16 : number;
            }
        }
        unsigned rank[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) // all of them in flight before the first result is looked at
            rank[i] = atomicAdd(mine + half(tile, i) * COPIES, 1u);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            place[v * CHUNK + i] = half(tile, i) << 16 | rank[i];
    }
    __syncthreads();

    // Counts to positions, a thread a tile.
    unsigned count[COPIES], total = 0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i)
        total += count[i] = tid <= tiles ? counts[tid * COPIES + i] : 0;
    const unsigned padded = divUp(total, PAD) * PAD;
    unsigned at = padded;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const unsigned before = __shfl_up_sync(0xffffffffu, at, offset);
        at += (tid & 31) >= offset ? before : 0;
    }
    if ((tid & 31) == 31)
        sums[tid / 32] = at;
    __syncthreads();
    at -= padded;
    for (unsigned i = 0; i < tid / 32; ++i)
        at += sums[i];
    if (tid < tiles)
        job.sorted.ends[static_cast<size_t>(block) * tiles + tid] = static_cast<uint16_t>(at + total);
    if (tid == tiles)
        all = at;
    if (tid <= tiles)
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            counts[tid * COPIES + i] = at;
            at += count[i];
        }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EVENTS; ++k) {
        const unsigned index = (k / CHUNK * THREADS + tid) * CHUNK + k % CHUNK;
        const uint32_t record = half(records, k);
        sorted[mine[(place[k] >> 16) * COPIES] + (place[k] & 0xffff)] = static_cast<Record>(
            sizeof(Record) == 2 ? record : ((record >> 1) << (32 - BITS)) + (index << 1 | (record & 1)));
    }
    __syncthreads();
    uint4 *out = reinterpret_cast<uint4 *>(static_cast<Record *>(job.sorted.records) +
                                           static_cast<size_t>(block) * job.sorted.pitch);
    for (unsigned i = tid; i < all / PAD; i += THREADS)
        out[i] = reinterpret_cast<const uint4 *>(sorted)[i];
    if (job.skipped) {
        outside = warpSum(outside);
        if ((tid & 31) == 0 && outside)
            atomicAdd(job.skipped, static_cast<unsigned long long>(outside));
    }
}

template<class Record, int BITS>
__global__ void __launch_bounds__(tuning::SORT_THREADS, tuning::SORT_BLOCKS)
    sortKernel(const Source source, const Sort job) {
    cusi::startInOrder();
    extern __shared__ uint4 dynamic[];
    if (blockIdx.x < job.green_blocks)
        findGreens(source, job.windows[blockIdx.x], job.sorted.greens + blockIdx.x * 256);
    else
        sortRun<Record, BITS>(source, job, blockIdx.x - job.green_blocks, reinterpret_cast<char *>(dynamic));
}

// Calls visit(16 bytes of records, how many of them count, their run) for the tile's segments in window w, the newest run
// first. A warp looks at 32 runs together and deals their segments out to the block's lanes in pieces of 16 bytes.
template<class Record, int THREADS, class Visit>
__device__ inline void forSegments(const Sorted &sorted, const Tiling &tiling, unsigned w, unsigned runs, unsigned tile,
                                   Visit visit) {
    constexpr unsigned PAD = PADDING<Record>;
    const unsigned lane = threadIdx.x & 31;
    for (unsigned base = 0; base < runs; base += 32) {
        unsigned begin = 0, end = 0;
        if (base + lane < runs) {
            const size_t run = static_cast<size_t>(w) * sorted.runs_a_window + (runs - 1 - (base + lane));
            const uint16_t *ends = sorted.ends + run * tiling.tiles;
            begin = tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) : 0;
            end = ends[tile];
        }
        const unsigned pieces = divUp(end, PAD) - begin;
        unsigned upto = pieces;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const unsigned before = __shfl_up_sync(0xffffffffu, upto, offset);
            upto += lane >= offset ? before : 0;
        }
        const unsigned shift = begin - (upto - pieces), all = __shfl_sync(0xffffffffu, upto, 31);
        for (unsigned first = threadIdx.x & ~31u; first < all; first += THREADS) {
            const unsigned piece = first + lane;
            unsigned segment = 0; // the first whose pieces go past this one
#pragma unroll
            for (int step = 16; step > 0; step /= 2)
                segment += __shfl_sync(0xffffffffu, upto, segment + step - 1) <= piece ? step : 0;
            const unsigned place = __shfl_sync(0xffffffffu, shift, segment) + piece,
                           left = __shfl_sync(0xffffffffu, end, segment) - place * PAD, run = runs - 1 - (base + segment);
            if (piece < all) {
                const Record *records = static_cast<const Record *>(sorted.records) +
                                        (static_cast<size_t>(w) * sorted.runs_a_window + run) * sorted.pitch;
                visit(reinterpret_cast<const uint4 *>(records)[place], left, run);
            }
        }
    }
}

// ---- Events to accumulators, accumulators to values: in shared memory or in device memory ------------------------------

enum Kind { LAST, SURFACE, COUNT, DENSITY_LEVELS, TIME_LEVELS, DIFFERENCE, VOXEL };

struct Values {
    void *frames;
    size_t step;
    unsigned channels, swap, cutoff;
    double decay; // SURFACE: powers of two a microsecond
    const int64_t *t;
    const EventsLevels *levels; // TIME_LEVELS: of each window of the batch
};

// Accumulators a pixel, as many as it has values.
__host__ __device__ constexpr unsigned unitOf(Kind kind, unsigned channels) {
    return kind == LAST || kind == DIFFERENCE ? 1
           : kind == SURFACE || kind == COUNT ? 2
           : kind == TIME_LEVELS              ? 2 * channels
                                              : channels;
}

// The last level that begins at or before the event; those past the last channel begin where the window ends.
__device__ inline unsigned levelOf(const EventsLevels &levels, unsigned index) {
    static_assert(EVENTS_MAX_CHANNELS == 16, "");
    unsigned level = 0;
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
        level += levels.begin[level + step] <= index ? step : 0;
    return level;
}

__device__ inline void densityLevels(unsigned n, unsigned channels, EventsLevels *levels) {
    if (threadIdx.x <= EVENTS_MAX_CHANNELS) {
        unsigned start = 0;
        for (unsigned j = 1; j <= threadIdx.x && j < 32; ++j)
            start += n >> j;
        levels->begin[threadIdx.x] = threadIdx.x < channels ? start : n;
    }
}

// What accumulate() and countPart() look at in window w; the block meets before they do.
template<Kind KIND>
__device__ inline void prepareLevels(const Values &values, unsigned w, const Window &window, EventsLevels *levels) {
    if (KIND == DENSITY_LEVELS)
        densityLevels(static_cast<unsigned>(window.last - window.first), values.channels, levels);
    if (KIND == TIME_LEVELS && threadIdx.x <= EVENTS_MAX_CHANNELS)
        levels->begin[threadIdx.x] = values.levels[w].begin[threadIdx.x];
}

// An event into its pixel's accumulators of 32 bits.
template<Kind KIND>
__device__ inline void accumulate(const Values &values, const EventsLevels &levels, uint32_t *pixel, unsigned index,
                                  bool positive) {
    const unsigned channel = positive ? values.swap : 1 - values.swap;
    if (KIND == LAST) {
        atomicMax(pixel, 2 * (index + 1) + positive);
    } else if (KIND == SURFACE) {
        atomicMax(pixel + channel, index + 1);
    } else if (KIND == COUNT) {
        atomicAdd(pixel + channel, 1u);
    } else if (KIND == DENSITY_LEVELS) {
        for (unsigned k = 0; k < values.channels && levels.begin[k] <= index; ++k) // two on average
            atomicAdd(pixel + k, 1u);
    } else if (KIND == TIME_LEVELS) {
        atomicAdd(pixel + channel * values.channels + levelOf(levels, index), 1u);
    } else if (KIND == DIFFERENCE) {
        atomicAdd(pixel, positive ? 1u : ~0u);
    }
}

// VOXEL: an event's weights in its bin and in the next, of which the last bin has none.
struct Voxel {
    unsigned bin;
    long long here, next;
};

struct VoxelTimes {
    int64_t start;
    double dt, inverse, last; // last: the bin
    __device__ VoxelTimes(const Values &values, const Window &window)
        : start(values.t[window.first]), last(values.channels - 1) {
        const int64_t span = values.t[window.last - 1] - start;
        dt = span > 0 ? static_cast<double>(span) : 1.0;
        inverse = 1 / dt;
    }
    __device__ Voxel operator()(int64_t t, bool positive) const {
        // A quotient by a known divisor, rounded correctly as the host's division is (Markstein 1990): from a reciprocal that is,
        // a first guess to less than 2 units in the last place, made one to less than 1, and that exact.
        const double product = last * static_cast<double>(t - start);
        double time = product * inverse;
        time = fma(fma(-time, dt, product), inverse, time);
        time = fma(fma(-time, dt, product), inverse, time);
        time = fmin(fmax(time, 0.0), last);
        const unsigned bin = static_cast<unsigned>(time);
        const long long next = static_cast<long long>((time - bin) * EVENTS_VOXEL_UNIT + 0.5),
                        here = static_cast<long long>(EVENTS_VOXEL_UNIT) - next;
        return {bin, positive ? here : -here, positive ? next : -next};
    }
};

// Four bytes to any address, of which `n` are there.
__device__ inline void storeBytes(uint8_t *out, uint32_t four, unsigned n) {
    if (n == 4 && reinterpret_cast<uintptr_t>(out) % 4 == 0) {
        __stcs(reinterpret_cast<uint32_t *>(out), four);
        return;
    }
    for (unsigned i = 0; i < n; ++i)
        out[i] = static_cast<uint8_t>(four >> (8 * i));
}

// Four words, of which `n` are there.
__device__ inline void storeWords(uint32_t *out, const uint4 &four, unsigned n) {
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        if (i < n)
            __stcs(out + i, words[i]);
}

constexpr uint32_t VALUE_MARK = 1u << 31; // the sign of a float that has none

// exp((t - newest) / tau) as a power of two: of the fraction a Taylor series, good to 2^-37, and the integer into the exponent. A
// quarter of what exp() and a division take, and more where doubles are slow.
__device__ inline float surfaceValue(const Values &values, int64_t t, int64_t newest) {
    const double power = fmax(fmin(static_cast<double>(t - newest) * values.decay, 128.0), -160.0), whole = rint(power),
                 x = (power - whole) * 0.693147180559945309417;
    double series = 1 / 362880.0;
    series = fma(series, x, 1 / 40320.0);
    series = fma(series, x, 1 / 5040.0);
    series = fma(series, x, 1 / 720.0);
    series = fma(series, x, 1 / 120.0);
    series = fma(series, x, 1 / 24.0);
    series = fma(series, x, 1 / 6.0);
    series = fma(series, x, 0.5);
    series = fma(series, x, 1.0);
    series = fma(series, x, 1.0);
    return static_cast<float>(
        __hiloint2double(__double2hiint(series) + static_cast<int>(whole) * (1 << 20), __double2loint(series)));
}

__device__ inline float voxelValue(int sum) { // a power of two: one rounding
    return static_cast<float>(sum) * static_cast<float>(1 / EVENTS_VOXEL_UNIT);
}
__device__ inline float wideVoxelValue(int64_t sum) {
    return static_cast<float>(static_cast<double>(sum) / EVENTS_VOXEL_UNIT);
}

__device__ inline uint32_t differences(const uint4 &sums) {
    const auto byte = [](uint32_t sum) { return static_cast<uint32_t>(max(-128, min(127, static_cast<int>(sum)))) & 255; };
    return byte(sums.x) | byte(sums.y) << 8 | byte(sums.z) << 16 | byte(sums.w) << 24;
}

// Four accumulators to values `at` .. of row y, of which `n` are there.
template<Kind KIND>
__device__ inline void writeValues(const Values &values, const Window &window, const uint4 &four, size_t y, unsigned at,
                                   unsigned n) {
    const uint32_t sums[4] = {four.x, four.y, four.z, four.w};
    if (KIND == SURFACE) {
        float *out = rowOf(static_cast<float *>(values.frames), values.step, y) + at;
        const int64_t *t = values.t + window.first, *newest = values.t + window.last - 1;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            if (i < n)
                out[i] = sums[i] ? surfaceValue(values, t[sums[i] - 1], *newest) : 0.0f;
        return;
    }
    uint32_t bytes = differences(four);
    if (KIND != DIFFERENCE) {
        const auto count = [&](int i) { return min(sums[i], values.cutoff) << (8 * i); };
        bytes = count(0) | count(1) | count(2) | count(3);
    }
    storeBytes(rowOf(static_cast<uint8_t *>(values.frames), values.step, y) + at, bytes, n);
}

// ---- Tiles to pixels: HISTOGRAM ----------------------------------------------------------------------------------------

// What is painted: one tile of one window by a block.
struct Paint {
    Windows windows;
    Tiling tiling;
    Sorted sorted;
    Values values;      // everything but MDES in bytes and TENCODE
    bool vectors;       // of their rows: start at multiples of 16 bytes
    unsigned part_bits; // tileValuesKernel
    // MDES bytes for positive, negative and none; and TENCODE
    uint8_t *mdes, *tencode;
    size_t mdes_step, tencode_step;
    bool mdes_vectors, tencode_vectors;
    unsigned none, positive, negative, swap;
    // Instead of sorted runs: keys in device memory, `pitch` from one row to the next; `keep` them for another look
    uint32_t *keys;
    unsigned pitch;
    bool keep;
};

constexpr unsigned HISTOGRAM_PIXELS = 1u << tuning::HISTOGRAM_TILE;

__device__ inline void clearCells(uint32_t *cells, unsigned words) {
    for (unsigned i = threadIdx.x; i < words / 4; i += blockDim.x)
        reinterpret_cast<uint4 *>(cells)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Pixels from .. from + pixels - 1 of the tile to the frame; eight(i) gives the counts of pixels from + 8 i and on.
template<class Eight>
__device__ inline void writeCounts(const Paint &job, unsigned w, unsigned tile, unsigned from, unsigned pixels,
                                   Eight eight) {
    const Tiling &tiling = job.tiling;
    const unsigned row0 = tiling.rowOf(tile), col0 = tiling.colOf(tile);
    for (unsigned i = threadIdx.x; i < pixels / 8; i += tuning::HISTOGRAM_THREADS) {
        const unsigned pixel = from + 8 * i, row = row0 + (pixel >> tiling.col_bits),
                       col = col0 + (pixel & ((1u << tiling.col_bits) - 1));
        if (row < tiling.bottom && col < tiling.cols)
            cusi::store16(rowOf(static_cast<unsigned char *>(job.values.frames), job.values.step,
                                static_cast<size_t>(w) * tiling.rows + row) +
                              col * 2,
                          eight(i), static_cast<int>(min(8u, tiling.cols - col)) * 2, job.vectors);
    }
}

// Counters of 8 bits, the two of a pixel side by side. The add that carries out of a counter sees 255 in it, as nothing has
// carried before; then the tile is counted again, half a tile at a time in 16 bits, where a counter that has reached 255 is
// left alone. At most 8 adds a thread are under way past that, which 16 bits have room for.
static_assert(255 + 8 * tuning::HISTOGRAM_THREADS < 65536, "careful counters must not carry");

__global__ void __launch_bounds__(tuning::HISTOGRAM_THREADS) histogramKernel(const Paint job) {
    cusi::startInOrder();
    constexpr int THREADS = tuning::HISTOGRAM_THREADS;
    extern __shared__ uint4 dynamic[];
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const unsigned w = blockIdx.y, tile = blockIdx.x;
    const unsigned runs = Sorted::runs(job.windows[w]);
    if (threadIdx.x == 0)
        carried = 0;
    clearCells(cells, HISTOGRAM_PIXELS / 2);
    const uint32_t flip = job.values.swap ? 0 : 0x00010001; // positive comes first
    forSegments<uint16_t, THREADS>(job.sorted, job.tiling, w, runs, tile, [&](const uint4 &eight, unsigned left, unsigned) {
        if (*static_cast<volatile int *>(&carried))
            return;
        const uint32_t records[4] = {eight.x ^ flip, eight.y ^ flip, eight.z ^ flip, eight.w ^ flip};
        uint32_t old[8];
        bool carry = false;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t counter = half(records, i);
            old[i] = i < left ? atomicAdd(cells + counter / 4, 1u << (counter * 8 & 31)) : 0;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
            carry |= (~old[i] & 255u << (half(records, i) * 8 & 31)) == 0;
        if (carry)
            atomicExch(&carried, 1);
    });
    __syncthreads();
    if (!carried) {
        writeCounts(job, w, tile, 0, HISTOGRAM_PIXELS, [&](unsigned i) { return reinterpret_cast<uint4 *>(cells)[i]; });
        return;
    }
    for (unsigned from = 0; from < HISTOGRAM_PIXELS; from += HISTOGRAM_PIXELS / 2) {
        __syncthreads();
        clearCells(cells, HISTOGRAM_PIXELS / 2);
        forSegments<uint16_t, THREADS>(
            job.sorted, job.tiling, w, runs, tile, [&](const uint4 &eight, unsigned left, unsigned) {
                const uint32_t records[4] = {eight.x ^ flip, eight.y ^ flip, eight.z ^ flip, eight.w ^ flip};
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const uint32_t counter = half(records, i), cell = counter / 2 - from, shift = (counter & 1) * 16;
                    if (i < left && cell < HISTOGRAM_PIXELS / 2 &&
                        (static_cast<volatile uint32_t *>(cells)[cell] >> shift & 0xffff) < 255)
                        atomicAdd(cells + cell, 1u << shift);
                }
            });
        __syncthreads();
        writeCounts(job, w, tile, from, HISTOGRAM_PIXELS / 2, [&](unsigned i) {
            const auto two = [](uint32_t a, uint32_t b) {
                return __byte_perm(__vminu2(a, 0x00ff00ff), __vminu2(b, 0x00ff00ff), 0x6420);
            };
            const uint4 a = reinterpret_cast<uint4 *>(cells)[2 * i], b = reinterpret_cast<uint4 *>(cells)[2 * i + 1];
            return make_uint4(two(a.x, a.y), two(a.z, a.w), two(b.x, b.y), two(b.z, b.w));
        });
    }
}

// ---- Tiles to pixels: MDES and TENCODE ---------------------------------------------------------------------------------

// A pixel's last event, first as a key, 2 * (index + 1) + polarity, of which the largest stays; then its own thread replaces
// it by a code, which is all that the pixel's bytes depend on: how many channels of MDES it reaches, its green, the change
// that its polarity makes to the byte of no event, and in the top bits a mark that no key has and the polarity. 0: no event.
// The sign of byte 2 says negative (255 or 0 ^ 128, 255 ^ 0), that of byte 3 positive.
constexpr uint32_t MARK = 1u << 30, POSITIVE = 1u << 31;
constexpr uint64_t LAST_MOST_EVENTS = MARK / 2 - 8; // in a window

constexpr unsigned LAST_PIXELS = 1u << tuning::LAST_TILE;
constexpr int STRIP = 128; // neighboring pixels that are written together

struct Coder {
    uint32_t negative, positive; // with channel 0 reached, as every event does
    uint32_t begin[EVENTS_MAX_CHANNELS];
    const uint32_t *greens;
};

template<int K>
__device__ inline Coder coderOf(const Paint &job, unsigned n, const uint32_t *greens) {
    Coder coder;
    coder.negative = MARK | (job.negative ^ job.none) << 16 | 1;
    coder.positive = MARK | POSITIVE | (job.positive ^ job.none) << 16 | 1;
    coder.greens = greens;
    coder.begin[0] = 0;
#pragma unroll
    for (int k = 1; k < K; ++k)
        coder.begin[k] = coder.begin[k - 1] + (n >> k);
    return coder;
}

// N keys to codes, side by side: each step of looking for a green waits for the one before.
template<int K, bool TENCODE, int N>
__device__ inline void encode(const Coder &coder, const uint32_t (&keys)[N], uint32_t (&codes)[N]) {
    uint32_t green[N];
#pragma unroll
    for (int i = 0; i < N; ++i)
        green[i] = 0;
    if (TENCODE) // the least g with greens[g] <= index
#pragma unroll
        for (int step = 128; step > 0; step /= 2)
#pragma unroll
            for (int i = 0; i < N; ++i)
                green[i] += coder.greens[green[i] + step - 1] > keys[i] / 2 - 1 ? step : 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        codes[i] = (keys[i] & 1 ? coder.positive : coder.negative) | green[i] << 8;
#pragma unroll
        for (int k = 1; k < K; ++k)
            codes[i] += coder.begin[k] <= keys[i] / 2 - 1;
    }
}

// Calls visit(pixels, keys) for four events of the tile at a time; what does not count has key 0.
template<int THREADS, class Visit>
__device__ inline void forRecords(const Paint &job, unsigned w, unsigned tile, Visit visit) {
    constexpr int SHIFT = 32 - tuning::LAST_TILE;
    const Window window = job.windows[w];
    const unsigned ahead = static_cast<unsigned>(window.first % CHUNK);
    forSegments<uint32_t, THREADS>(
        job.sorted, job.tiling, w, Sorted::runs(window), tile, [&](const uint4 &four, unsigned left, unsigned run) {
            const uint32_t records[4] = {four.x, four.y, four.z, four.w}, base = 2 * (run * tuning::RUN - ahead + 1);
            uint32_t pixel[4], key[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                pixel[i] = records[i] >> SHIFT;
                key[i] = i < left ? base + (records[i] & (1u << SHIFT) - 1) : 0;
            }
            visit(pixel, key);
        });
}

// Leaves the codes of the tile's pixels in `cells`.
template<int K, bool TENCODE>
__device__ void codesOfTile(const Paint &job, unsigned w, unsigned tile, uint32_t *cells, uint32_t *greens) {
    constexpr int THREADS = tuning::LAST_THREADS;
    const Window window = job.windows[w];
    const Coder coder = coderOf<K>(job, static_cast<unsigned>(window.last - window.first), greens);
    if (TENCODE)
        for (unsigned g = threadIdx.x; g < 256; g += THREADS)
            greens[g] = job.sorted.greens[w * 256 + g];
    clearCells(cells, LAST_PIXELS);
    if (job.keys) {
        const Tiling &tiling = job.tiling;
        const unsigned row0 = tiling.rowOf(tile), col0 = tiling.colOf(tile);
        for (unsigned i = threadIdx.x; i < LAST_PIXELS; i += THREADS) {
            const unsigned row = row0 + (i >> tiling.col_bits), col = col0 + (i & ((1u << tiling.col_bits) - 1));
            if (row >= tiling.bottom || col >= tiling.cols)
                continue;
            uint32_t *place = job.keys + (static_cast<size_t>(w) * tiling.rows + row) * job.pitch + col;
            const uint32_t key[1] = {*place};
            uint32_t code[1];
            encode<K, TENCODE>(coder, key, code);
            cells[i] = key[0] ? code[0] : 0;
            if (!job.keep)
                *place = 0;
        }
        __syncthreads();
        return;
    }
    const volatile uint32_t *now = cells;
    forRecords<THREADS>(job, w, tile, [&](const uint32_t(&cell)[4], const uint32_t(&key)[4]) {
        uint32_t found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cell[i]] : ~0u;
#pragma unroll
        for (int i = 0; i < 4; ++i) // newest run first, so that a crowded pixel's other events are done here
            if (found[i] < key[i])
                atomicMax(cells + cell[i], key[i]);
    });
    __syncthreads();
    forRecords<THREADS>(job, w, tile, [&](const uint32_t(&cell)[4], const uint32_t(&key)[4]) {
        uint32_t found[4], code[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cell[i]] : ~0u;
        encode<K, TENCODE>(coder, key, code);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (found[i] == key[i])
                atomicExch(cells + cell[i], code[i]);
    });
    __syncthreads();
}

// Bytes of a and b as the selector's digits say; a digit 8 + i gives the sign of byte i in all bits.
__device__ inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
}

// Pixels of BYTES bytes each, left in shared memory by the warp, to the frame.
template<int BYTES>
__device__ inline void storeStrip(const uint32_t *strip, uint8_t *out, unsigned pixels, bool vectors) {
    const unsigned lane = threadIdx.x & 31;
    __syncwarp();
    if (vectors && pixels == STRIP) {
#pragma unroll
        for (unsigned i = 0; i < divUp(STRIP * BYTES, 512); ++i)
            if (i * 32 + lane < STRIP * BYTES / 16)
                __stcs(reinterpret_cast<uint4 *>(out) + i * 32 + lane,
                       reinterpret_cast<const uint4 *>(strip)[i * 32 + lane]);
    } else {
        for (unsigned i = lane; i < pixels * BYTES; i += 32)
            out[i] = reinterpret_cast<const uint8_t *>(strip)[i];
    }
    __syncwarp();
}

// Shared memory of lastKernel: codes, greens, a strip for each warp.
constexpr size_t lastShared(int channels) {
    return sizeof(uint32_t) * (LAST_PIXELS + 256) + static_cast<size_t>(tuning::LAST_THREADS / 32 * STRIP * (channels + 3));
}

// K: channels of MDES in bytes, 0 for none of it.
template<int K, bool TENCODE>
__global__ void __launch_bounds__(tuning::LAST_THREADS) lastKernel(const Paint job) {
    cusi::startInOrder();
    extern __shared__ uint4 dynamic[];
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic), *greens = cells + LAST_PIXELS;
    uint32_t *mdes = greens + 256 + threadIdx.x / 32 * (STRIP / 4 * (K + 3)), *tencode = mdes + STRIP / 4 * K;
    const unsigned w = blockIdx.y, tile = blockIdx.x, lane = threadIdx.x & 31;
    codesOfTile<K, TENCODE>(job, w, tile, cells, greens);

    const Tiling &tiling = job.tiling;
    const unsigned row0 = tiling.rowOf(tile), col0 = tiling.colOf(tile);
    // TENCODE's first and third byte are signs: of byte 2, negative, and of byte 3, positive.
    const uint32_t first = job.swap ? 11 : 10, third = job.swap ? 10 : 11;
    for (unsigned s = threadIdx.x / 32; s < LAST_PIXELS / STRIP; s += tuning::LAST_THREADS / 32) {
        const unsigned row = row0 + (s * STRIP >> tiling.col_bits),
                       col = col0 + (s * STRIP & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const unsigned pixels = min(static_cast<unsigned>(STRIP), tiling.cols - col);
        const size_t y = static_cast<size_t>(w) * tiling.rows + row;
        const uint4 four = reinterpret_cast<const uint4 *>(cells + s * STRIP)[lane];
        if constexpr (K > 0) {
            const uint32_t code[4] = {four.x, four.y, four.z, four.w};
            uint32_t bytes[K];
#pragma unroll
            for (int j = 0; j < K; ++j)
                bytes[j] = job.none * 0x01010101;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t reached = __byte_perm(code[i], 0, 0x0000), change = __byte_perm(code[i], 0, 0x2222);
#pragma unroll
                for (int j = i * K / 4; j <= (i * K + K - 1) / 4; ++j) { // words that have bytes of pixel i
                    uint32_t limit = 0; // byte k of the pixel changes where `reached` is above k: gets a sign from 127 - k
#pragma unroll
                    for (int b = 0; b < 4; ++b)
                        if (j * 4 + b >= i * K && j * 4 + b < (i + 1) * K)
                            limit |= static_cast<uint32_t>(127 - (j * 4 + b - i * K)) << (8 * b);
                    bytes[j] ^= permute(reached + limit, 0, 0xba98) & change;
                }
            }
#pragma unroll
            for (int j = 0; j < K; ++j)
                mdes[lane * K + j] = bytes[j];
            storeStrip<K>(mdes, job.mdes + y * job.mdes_step + static_cast<size_t>(col) * K, pixels, job.mdes_vectors);
        }
        if (TENCODE) {
            tencode[lane * 3] = permute(four.x, four.y, first | 1 << 4 | third << 8 | (first + 4) << 12);
            tencode[lane * 3 + 1] = permute(four.y, four.z, 1 | third << 4 | (first + 4) << 8 | 5 << 12);
            tencode[lane * 3 + 2] = permute(four.z, four.w, third | (first + 4) << 4 | 5 << 8 | (third + 4) << 12);
            storeStrip<3>(tencode, job.tencode + y * job.tencode_step + static_cast<size_t>(col) * 3, pixels,
                          job.tencode_vectors);
        }
    }
}

__global__ void __launch_bounds__(tuning::LAST_THREADS) mdesFloatsKernel(const Paint job) {
    cusi::startInOrder();
    extern __shared__ uint4 dynamic[];
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const unsigned w = blockIdx.y, tile = blockIdx.x;
    codesOfTile<EVENTS_MAX_CHANNELS, false>(job, w, tile, cells, nullptr);
    const Tiling &tiling = job.tiling;
    const unsigned row0 = tiling.rowOf(tile), col0 = tiling.colOf(tile),
                   height = min(1u << tiling.row_bits, tiling.bottom - row0),
                   values = min(1u << tiling.col_bits, tiling.cols - col0) * job.values.channels;
    for (unsigned i = threadIdx.x; i < values * height; i += tuning::LAST_THREADS) {
        const unsigned row = i / values, col = i % values / job.values.channels, channel = i % values % job.values.channels;
        const uint32_t code = cells[row << tiling.col_bits | col];
        rowOf(static_cast<float *>(job.values.frames), job.values.step,
              static_cast<size_t>(w) * tiling.rows + row0 +
                  row)[static_cast<size_t>(col0) * job.values.channels + i % values] = (code & 255) <= channel ? 0.0f
                                                                                       : code & POSITIVE       ? 1.0f
                                                                                                               : -1.0f;
    }
}

// ---- Tiles to pixels: the other kinds ----------------------------------------------------------------------------------

// Bytes of a pixel's accumulators in shared memory: counts have 8 bits, the others 32, as long as that is enough.
__host__ __device__ constexpr unsigned bytesOf(Kind kind, unsigned channels) {
    return unitOf(kind, channels) * (kind == DENSITY_LEVELS || kind == TIME_LEVELS ? 1 : 4);
}

// A block makes a part of a tile, 2^part_bits pixels whose accumulators fit shared memory, from all of the tile's records.
struct Part {
    unsigned w, tile, from, pixels; // of the tile
    unsigned row0, col0;            // of the frame: the tile's first
    __device__ explicit Part(const Paint &job) {
        const unsigned split_bits = job.tiling.row_bits + job.tiling.col_bits - job.part_bits; // log2 of a tile's parts
        w = blockIdx.y;
        tile = blockIdx.x >> split_bits;
        from = (blockIdx.x & ((1u << split_bits) - 1)) << job.part_bits;
        pixels = 1u << job.part_bits;
        const unsigned tile_row = tile / job.tiling.tiles_a_row;
        row0 = job.tiling.top + (tile_row << job.tiling.row_bits);
        col0 = (tile - tile_row * job.tiling.tiles_a_row) << job.tiling.col_bits;
    }
    // The lower or upper half of it.
    __device__ Part half(unsigned i) const {
        Part part = *this;
        part.pixels /= 2;
        part.from += i * part.pixels;
        return part;
    }
};

// As forRecords(), with pixels counted from the part's first.
template<class Visit>
__device__ inline void forRecords(const Paint &job, const Part &part, Visit visit) {
    forRecords<tuning::VALUES_THREADS>(job, part.w, part.tile, [&](uint32_t(&pixel)[4], uint32_t(&key)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            pixel[i] -= part.from;
            key[i] = pixel[i] < part.pixels ? key[i] : 0;
        }
        visit(pixel, key);
    });
}

// The part to the frame: value(i) gives bytes 16 i .. 16 i + 15 of it, where a pixel has `bytes`, of 1 or 4 a value.
template<class Value>
__device__ inline void writePart(const Paint &job, const Part &part, unsigned bytes, bool words, Value value) {
    const Tiling &tiling = job.tiling;
    const unsigned together = bytes == 1   ? 4
                              : bytes == 2 ? 2
                                           : 1; // strips of a warp, so that all lanes have something to do
    const unsigned lanes = 32 / together, lane = threadIdx.x % lanes;
    for (unsigned s = threadIdx.x / lanes; s < part.pixels / STRIP; s += tuning::VALUES_THREADS / lanes) {
        const unsigned pixel = part.from + s * STRIP, row = part.row0 + (pixel >> tiling.col_bits),
                       col = part.col0 + (pixel & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const unsigned all = min(static_cast<unsigned>(STRIP), tiling.cols - col) * bytes;
        unsigned char *out = rowOf(static_cast<unsigned char *>(job.values.frames), job.values.step,
                                   static_cast<size_t>(part.w) * tiling.rows + row) +
                             static_cast<size_t>(col) * bytes;
        for (unsigned i = lane; i * 16 < all; i += lanes) {
            const unsigned left = min(16u, all - i * 16);
            const uint4 four = value(s * (STRIP / 16) * bytes + i);
            if (words && !(job.vectors && left == 16))
                storeWords(reinterpret_cast<uint32_t *>(out) + i * 4, four, left / 4);
            else
                cusi::store16(out + i * 16, four, static_cast<int>(left), job.vectors);
        }
    }
}

// Adds 1 to n counters of 8 bits from number `at` on. False where one of them was 255 and has carried.
__device__ inline bool countBytes(uint32_t *cells, unsigned at, unsigned n) {
    bool good = true;
    for (const unsigned end = at + n; at < end; at = at / 4 * 4 + 4) {
        const unsigned here = min(end - at, 4 - at % 4);
        const uint32_t ones = 0x01010101u >> (32 - 8 * here) << (at % 4 * 8), old = atomicAdd(cells + at / 4, ones);
        good = good && (__vcmpeq4(old, ~0u) & ones) == 0;
    }
    return good;
}

// The same for counters that stay at 255.
__device__ inline void countBytesCarefully(uint32_t *cells, unsigned at, unsigned n) {
    for (const unsigned end = at + n; at < end; ++at) {
        const unsigned shift = at % 4 * 8;
        uint32_t old = static_cast<volatile uint32_t *>(cells)[at / 4], expected = ~old;
        while (old != expected && (old >> shift & 255) < 255) {
            expected = old;
            old = atomicCAS(cells + at / 4, expected, expected + (1u << shift));
        }
    }
}

// MDES_COUNT and STACKED_HISTOGRAM: the part's counters. False where one of 8 bits has carried, unless CAREFULly.
template<Kind KIND, bool CAREFUL>
__device__ void countPart(const Paint &job, const Part &part, const EventsLevels &levels, uint32_t *cells, int *carried) {
    const Values &values = job.values;
    const unsigned channels = values.channels;
    forRecords(job, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        if (!CAREFUL && *static_cast<volatile int *>(carried))
            return;
        bool good = true;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (key[i] == 0)
                continue;
            const unsigned level = levelOf(levels, key[i] / 2 - 1),
                           second = (key[i] & 1) == values.swap ? 1 : 0; // polarity's place
            const unsigned at = KIND == DENSITY_LEVELS ? pixel[i] * channels : (pixel[i] * 2 + second) * channels + level,
                           n = KIND == DENSITY_LEVELS ? level + 1 : 1;
            if (CAREFUL)
                countBytesCarefully(cells, at, n);
            else if (KIND == TIME_LEVELS)
                good = (~atomicAdd(cells + at / 4, 1u << (at % 4 * 8)) & 255u << (at % 4 * 8)) != 0 && good;
            else
                good = countBytes(cells, at, n) && good;
        }
        if (!good)
            atomicExch(carried, 1);
    });
}

// VOXEL_GRID: the part's sums. `high`: their upper halves; NULL: 32 bits, and `carried` where these were not enough.
__device__ void sumVoxels(const Paint &job, const Part &part, uint32_t *cells, uint32_t *high, int *carried) {
    const Values &values = job.values;
    const Window window = job.windows[part.w];
    if (window.first == window.last)
        return;
    const VoxelTimes times(values, window);
    forRecords(job, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        if (!high && *static_cast<volatile int *>(carried))
            return;
        int64_t t[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            t[i] = values.t[window.first + (key[i] ? key[i] / 2 - 1 : 0)];
        bool good = true;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (key[i] == 0)
                continue;
            const Voxel voxel = times(t[i], key[i] & 1);
            for (unsigned k = 0; k < 2 && voxel.bin + k < values.channels; ++k) {
                const unsigned at = pixel[i] * values.channels + voxel.bin + k;
                const long long weight = k ? voxel.next : voxel.here;
                const uint32_t added = static_cast<uint32_t>(weight), old = atomicAdd(cells + at, added), sum = old + added;
                if (!high) { // a sum that has left the range has another sign than both that went into it
                    good = good && static_cast<int>((old ^ sum) & (added ^ sum)) >= 0;
                } else {
                    const uint32_t upper = static_cast<uint32_t>(weight >> 32) + (sum < old);
                    if (upper) // seldom
                        atomicAdd(high + at, upper);
                }
            }
        }
        if (!good)
            atomicExch(carried, 1);
    });
}

// TIME_SURFACE: a pixel's last events as indices + 1, which their own threads then replace by values with a mark that no index has.
__device__ void surfaceOf(const Paint &job, const Part &part, uint32_t *cells) {
    const Values &values = job.values;
    const Window window = job.windows[part.w];
    const volatile uint32_t *now = cells;
    const auto cellOf = [&](uint32_t pixel, uint32_t key) { return pixel * 2 + ((key & 1) == values.swap ? 1 : 0); };
    forRecords(job, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        uint32_t found[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = key[i] ? now[cellOf(pixel[i], key[i])] : ~0u;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (found[i] < key[i] / 2)
                atomicMax(cells + cellOf(pixel[i], key[i]), key[i] / 2);
    });
    __syncthreads();
    const int64_t newest = window.first == window.last ? 0 : values.t[window.last - 1];
    forRecords(job, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
        bool last[4];
        int64_t t[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            last[i] = key[i] && now[cellOf(pixel[i], key[i])] == key[i] / 2;
            t[i] = values.t[window.first + (last[i] ? key[i] / 2 - 1 : 0)];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (last[i])
                atomicExch(cells + cellOf(pixel[i], key[i]),
                           VALUE_MARK | __float_as_uint(surfaceValue(values, t[i], newest)));
    });
}

template<Kind KIND>
__global__ void __launch_bounds__(tuning::VALUES_THREADS) tileValuesKernel(const Paint job) {
    cusi::startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ EventsLevels levels;
    __shared__ int carried;
    uint32_t *cells = reinterpret_cast<uint32_t *>(dynamic);
    const Values &values = job.values;
    const Part part(job);
    const unsigned bytes = bytesOf(KIND, values.channels), words = part.pixels * bytes / 4;
    if (part.row0 + (part.from >> job.tiling.col_bits) >= job.tiling.bottom)
        return;
    if (threadIdx.x == 0)
        carried = 0;
    prepareLevels<KIND>(values, part.w, job.windows[part.w], &levels);
    clearCells(cells, words);

    if constexpr (KIND == DENSITY_LEVELS || KIND == TIME_LEVELS) {
        countPart<KIND, false>(job, part, levels, cells, &carried);
        __syncthreads();
        if (carried) {
            clearCells(cells, words);
            countPart<KIND, true>(job, part, levels, cells, &carried);
        }
    } else if constexpr (KIND == VOXEL) {
        sumVoxels(job, part, cells, nullptr, &carried);
        __syncthreads();
        if (carried) {
            for (unsigned i = 0; i < 2; ++i) {
                const uint32_t *high = cells + words / 2;
                clearCells(cells, words);
                sumVoxels(job, part.half(i), cells, cells + words / 2, &carried);
                __syncthreads();
                writePart(job, part.half(i), bytes, true, [&](unsigned at) {
                    const auto value = [&](unsigned k) {
                        const uint64_t sum = static_cast<uint64_t>(high[at * 4 + k]) << 32 | cells[at * 4 + k];
                        return __float_as_uint(wideVoxelValue(static_cast<int64_t>(sum)));
                    };
                    return make_uint4(value(0), value(1), value(2), value(3));
                });
                __syncthreads();
            }
            return;
        }
    } else if constexpr (KIND == SURFACE) {
        surfaceOf(job, part, cells);
    } else {
        static_assert(KIND == DIFFERENCE, "");
        forRecords(job, part, [&](const uint32_t(&pixel)[4], const uint32_t(&key)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key[i])
                    atomicAdd(cells + pixel[i], key[i] & 1 ? 1u : ~0u);
        });
    }
    __syncthreads();
    const uint4 *quads = reinterpret_cast<const uint4 *>(cells);
    if constexpr (KIND == DIFFERENCE)
        writePart(job, part, 1, false, [&](unsigned i) { // in an order in which the lanes do not meet in a bank
            const unsigned turn = threadIdx.x / 2 % 4;
            uint32_t four[4];
#pragma unroll
            for (unsigned k = 0; k < 4; ++k)
                four[k] = differences(quads[i * 4 + (k ^ turn)]);
            const bool pairs = turn & 1, halves = turn & 2;
            const uint32_t a = pairs ? four[1] : four[0], b = pairs ? four[0] : four[1], c = pairs ? four[3] : four[2],
                           d = pairs ? four[2] : four[3];
            return halves ? make_uint4(c, d, a, b) : make_uint4(a, b, c, d);
        });
    else
        writePart(job, part, bytes, KIND == SURFACE || KIND == VOXEL, [&](unsigned i) {
            const auto value = [&](uint32_t cell) {
                return KIND == TIME_LEVELS ? __vminu4(cell, values.cutoff * 0x01010101u)
                       : KIND == SURFACE   ? cell & ~VALUE_MARK
                       : KIND == VOXEL     ? __float_as_uint(voxelValue(static_cast<int>(cell)))
                                           : cell;
            };
            return make_uint4(value(quads[i].x), value(quads[i].y), value(quads[i].z), value(quads[i].w));
        });
}

// ---- Accumulators in device memory -------------------------------------------------------------------------------------

struct Scatter {
    Windows windows;
    unsigned count;           // windows
    unsigned blocks_a_window; // blocks = count * blocks_a_window
    unsigned rows, cols;
    unsigned pitch; // pixels from one row of accumulators to the next, a multiple of 4
    void *accumulators;
    Values values;
    unsigned long long *skipped; // NULL: counted elsewhere
};

template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) scatterKernel(const Source source, const Scatter job) {
    cusi::startInOrder();
    __shared__ EventsLevels levels;
    const unsigned w = blockIdx.x / job.blocks_a_window, part = blockIdx.x % job.blocks_a_window;
    const Window window = job.windows[w];
    const Values &values = job.values;
    const unsigned long long c0 = window.first / CHUNK, end = divUp(window.last, static_cast<unsigned long long>(CHUNK));
    if (window.first == window.last)
        return;
    prepareLevels<KIND>(values, w, window, &levels);
    __syncthreads();
    const size_t frame = static_cast<size_t>(w) * job.rows * job.pitch;
    unsigned outside = 0;
    for (unsigned long long c = c0 + part * blockDim.x + threadIdx.x; c < end;
         c += static_cast<unsigned long long>(job.blocks_a_window) * blockDim.x) {
        Chunk chunk;
        load(source, window, c, chunk);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            if (!chunk.has(i))
                continue;
            const unsigned row = chunk.row(i), col = chunk.col(i);
            if (row >= job.rows || col >= job.cols) {
                ++outside;
                continue;
            }
            const bool positive = chunk.positive(i);
            const size_t pixel = (frame + static_cast<size_t>(row) * job.pitch + col) * unitOf(KIND, values.channels);
            if constexpr (KIND != VOXEL) {
                accumulate<KIND>(values, levels, static_cast<uint32_t *>(job.accumulators) + pixel,
                                 static_cast<unsigned>(c * CHUNK + i - window.first), positive);
            } else {
                const VoxelTimes times(values, window);
                const Voxel voxel = times(source.t[c * CHUNK + i], positive);
                unsigned long long *sums = static_cast<unsigned long long *>(job.accumulators) + pixel + voxel.bin;
                atomicAdd(sums, static_cast<unsigned long long>(voxel.here));
                if (voxel.bin + 1 < values.channels)
                    atomicAdd(sums + 1, static_cast<unsigned long long>(voxel.next));
            }
        }
    }
    if (job.skipped) {
        outside = warpSum(outside);
        if ((threadIdx.x & 31) == 0 && outside)
            atomicAdd(job.skipped, static_cast<unsigned long long>(outside));
    }
}

// One thread a window and bin.
__global__ void timeLevels(const Source source, const Windows windows, unsigned count, int bins, EventsLevels *levels) {
    cusi::startInOrder();
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, w = i / (EVENTS_MAX_CHANNELS + 1);
    const int k = static_cast<int>(i % (EVENTS_MAX_CHANNELS + 1));
    if (w >= count)
        return;
    const Window window = windows[w];
    const unsigned n = static_cast<unsigned>(window.last - window.first);
    unsigned begin = n;
    if (k < bins && n > 0) {
        const int64_t *t = source.t + window.first;
        const uint64_t start = eventsBinStart(k, bins, static_cast<uint64_t>(t[n - 1]) - static_cast<uint64_t>(t[0]));
        unsigned low = 0, high = n;
        while (low < high) {
            const unsigned middle = low + (high - low) / 2;
            const bool before = t[middle] < t[0] || static_cast<uint64_t>(t[middle]) - static_cast<uint64_t>(t[0]) < start;
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        begin = low;
    }
    levels[w].begin[k] = begin;
}

struct Expand {
    Windows windows;
    unsigned count; // windows
    unsigned rows, cols, pitch;
    unsigned blocks;
    void *accumulators;
    Values values;
};

// Accumulators to values, four at a time; zeros stay behind.
template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) valuesKernel(const Expand job) {
    cusi::startInOrder();
    const unsigned blocks_a_window = job.blocks / job.count, w = blockIdx.x / blocks_a_window,
                   part = blockIdx.x % blocks_a_window;
    const Window window = job.windows[w];
    const unsigned unit = unitOf(KIND, job.values.channels), values = job.cols * unit, quads = divUp(values, 4u);
    const size_t row_words = static_cast<size_t>(job.pitch) * unit; // a multiple of 4
    const unsigned long long all = 1ull * quads * job.rows;
    for (unsigned long long q = part * blockDim.x + threadIdx.x; q < all; q += blocks_a_window * blockDim.x) {
        const unsigned row = static_cast<unsigned>(q / quads), at = static_cast<unsigned>(q % quads) * 4,
                       n = min(4u, values - at);
        const size_t y = static_cast<size_t>(w) * job.rows + row;
        if constexpr (KIND == VOXEL) {
            longlong2 *place =
                reinterpret_cast<longlong2 *>(static_cast<long long *>(job.accumulators) + y * row_words + at);
            const longlong2 a = place[0], b = place[1];
            place[0] = place[1] = make_longlong2(0, 0);
            const long long sums[4] = {a.x, a.y, b.x, b.y};
            float *out = rowOf(static_cast<float *>(job.values.frames), job.values.step, y) + at;
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                if (i < n)
                    out[i] = wideVoxelValue(sums[i]);
        } else {
            uint4 *place = reinterpret_cast<uint4 *>(static_cast<uint32_t *>(job.accumulators) + y * row_words + at);
            const uint4 four = *place;
            *place = make_uint4(0, 0, 0, 0);
            writeValues<KIND>(job.values, window, four, y, at, n);
        }
    }
}

// ---- The launches ------------------------------------------------------------------------------------------------------

using PaintKernel = void (*)(Paint);

// The kernel for this many MDES channels, 0 for none.
template<int K = 0>
PaintKernel lastKernelFor(int channels, bool tencode) {
    if constexpr (K > EVENTS_MAX_CHANNELS)
        return nullptr;
    else if (channels == K)
        return tencode ? lastKernel<K, true> : lastKernel<K, false>;
    else
        return lastKernelFor<K + 1>(channels, tencode);
}

// ---- Normalizing: every frame in parts, which are put together in a fixed order ----------------------------------------

// Of the values that are not zero. The sum is exact, as they are multiples of 2^-24 (EVENTS_VOXEL_UNIT).
struct Moments {
    double count, sum, squares; // squares: of the distances from the mean
    __device__ double mean() const { return count > 0 ? sum / count : 0; }
};

// Of both (Chan, Golub and LeVeque 1979). What is equal stays so: then the squares are 0, not nearly.
__device__ inline Moments operator+(const Moments &a, const Moments &b) {
    const double count = a.count + b.count, distance = b.mean() - a.mean(),
                 weight = count > 0 ? a.count * b.count / count : 0;
    return {count, a.sum + b.sum, a.squares + b.squares + distance * distance * weight};
}

__device__ inline Moments ofLanes(Moments mine) {
    for (int offset = 16; offset > 0; offset /= 2)
        mine = mine + Moments{__shfl_down_sync(0xffffffffu, mine.count, offset),
                              __shfl_down_sync(0xffffffffu, mine.sum, offset),
                              __shfl_down_sync(0xffffffffu, mine.squares, offset)};
    return {__shfl_sync(0xffffffffu, mine.count, 0), __shfl_sync(0xffffffffu, mine.sum, 0),
            __shfl_sync(0xffffffffu, mine.squares, 0)};
}

struct Normalize {
    float *frames;
    size_t step;
    unsigned rows, values; // of a frame; values of a row
    bool vectors;          // rows start at multiples of 16 bytes
    Moments *moments;      // tuning::NORMALISE_PARTS of each frame
};

// Calls visit(four values, how many there are), which returns whether they are to be written back, for this block's part of a frame.
template<class Visit>
__device__ inline void forValues(const Normalize &job, Visit visit) {
    const unsigned long long rows = job.rows;
    const unsigned end = static_cast<unsigned>(rows * (blockIdx.x + 1) / tuning::NORMALISE_PARTS);
    for (unsigned y = static_cast<unsigned>(rows * blockIdx.x / tuning::NORMALISE_PARTS) + threadIdx.x / 32; y < end;
         y += tuning::VALUES_THREADS / 32) {
        float *row = rowOf(job.frames, job.step, static_cast<size_t>(blockIdx.y) * job.rows + y);
#pragma unroll 2
        for (unsigned i = threadIdx.x % 32 * 4; i < job.values; i += 128) {
            const unsigned n = min(4u, job.values - i);
            const bool vector = job.vectors && n == 4;
            float4 four = make_float4(0, 0, 0, 0);
            if (vector) {
                four = *reinterpret_cast<const float4 *>(row + i);
            } else {
                four.x = row[i];
                four.y = n > 1 ? row[i + 1] : 0;
                four.z = n > 2 ? row[i + 2] : 0;
                four.w = n > 3 ? row[i + 3] : 0;
            }
            if (!visit(four))
                continue;
            if (vector)
                *reinterpret_cast<float4 *>(row + i) = four;
            else
                storeWords(reinterpret_cast<uint32_t *>(row + i),
                           make_uint4(__float_as_uint(four.x), __float_as_uint(four.y), __float_as_uint(four.z),
                                      __float_as_uint(four.w)),
                           n);
        }
    }
}

__global__ void __launch_bounds__(tuning::VALUES_THREADS) momentsKernel(const Normalize job) {
    cusi::startInOrder();
    // Squares of distances from the first value, so that little cancels, and nothing of equal values is left.
    double origin = 0, distances = 0, squares = 0;
    Moments mine = {0, 0, 0};
    forValues(job, [&](const float4 &four) {
        for (const float v : {four.x, four.y, four.z, four.w})
            if (v != 0) {
                origin = mine.count == 0 ? v : origin;
                const double distance = v - origin;
                mine.count += 1, mine.sum += v, distances += distance, squares += distance * distance;
            }
        return false;
    });
    if (mine.count > 0)
        mine.squares = fmax(squares - distances * distances / mine.count, 0.0);
    __shared__ Moments warps[32];
    static_assert(tuning::VALUES_THREADS <= 1024, "");
    if (threadIdx.x < 32)
        warps[threadIdx.x] = {0, 0, 0};
    __syncthreads();
    const Moments warp = ofLanes(mine);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = warp;
    __syncthreads();
    const Moments all = ofLanes(warps[threadIdx.x % 32]);
    if (threadIdx.x == 0)
        job.moments[blockIdx.y * tuning::NORMALISE_PARTS + blockIdx.x] = all;
}

__global__ void __launch_bounds__(tuning::VALUES_THREADS) normalizeKernel(const Normalize job) {
    cusi::startInOrder();
    static_assert(tuning::NORMALISE_PARTS == 32, "a lane each");
    const Moments all = ofLanes(job.moments[blockIdx.y * tuning::NORMALISE_PARTS + threadIdx.x % 32]);
    const double mean = all.mean(), deviation = all.count > 0 ? sqrt(all.squares / all.count) : 0,
                 scale = deviation > 0 ? 1 / deviation : 1;
    forValues(job, [&](float4 &four) {
        const auto normalized = [&](float v) { return v != 0 ? static_cast<float>((v - mean) * scale) : 0; };
        const bool any = four.x != 0 || four.y != 0 || four.z != 0 || four.w != 0; // one in four or less
        four = make_float4(normalized(four.x), normalized(four.y), normalized(four.z), normalized(four.w));
        return any;
    });
}

// ---- The stacker's side on the host ------------------------------------------------------------------------------------

constexpr char FUNCTION[] = "cusEventStack", CREATE[] = "cusEventStackerCreate";

struct State {
    void *memory = nullptr; // all of the below
    unsigned long long *skipped = nullptr;
    Window *list = nullptr;
    EventsLevels *levels = nullptr; // BATCH_WINDOWS for each representation, where one is STACKED_HISTOGRAM
    void *group = nullptr;          // accumulators, zero between calls
    size_t group_bytes = 0;
    char *sorted = nullptr;  // runs of events; then the moments of frames
    size_t values_bytes = 0; // of shared memory for accumulators
};

size_t accumulatorBytes(const cusRepresentation &r) {
    const size_t channels = static_cast<size_t>(r.channels);
    switch (r.kind) {
    case CUS_REPR_HISTOGRAM:
    case CUS_REPR_TIME_SURFACE:
        return 2 * sizeof(uint32_t);
    case CUS_REPR_MDES_COUNT:
        return channels * sizeof(uint32_t);
    case CUS_REPR_STACKED_HISTOGRAM:
        return 2 * channels * sizeof(uint32_t);
    case CUS_REPR_VOXEL_GRID:
        return channels * sizeof(uint64_t);
    default:
        return sizeof(uint32_t);
    }
}

unsigned pitchOf(const cusEventStacker *stacker) {
    return divUp(static_cast<unsigned>(stacker->cols), 4u) * 4;
}

// The frame in tiles of 2^bits pixels: as few as possible, and of those as wide as possible.
Tiling tilingOf(const cusEventStacker *stacker, unsigned bits) {
    Tiling best = {};
    const unsigned rows = static_cast<unsigned>(stacker->rows), cols = static_cast<unsigned>(stacker->cols);
    for (unsigned col_bits = 7; col_bits <= bits; ++col_bits) { // a strip at least
        const unsigned row_bits = bits - col_bits, tiles_a_row = divUp(cols, 1u << col_bits),
                       tiles = tiles_a_row * divUp(rows, 1u << row_bits);
        if (tiles_a_row <= tuning::MOST_TILES && (best.tiles == 0 || tiles <= best.tiles))
            best = {rows, cols, 0, rows, row_bits, col_bits, tiles_a_row, tiles};
    }
    return best;
}

// Rows from `top` on, not more than a run can be sorted by.
Tiling bandOf(Tiling tiling, unsigned top) {
    const unsigned left = divUp(tiling.rows - top, 1u << tiling.row_bits), most = tuning::MOST_TILES / tiling.tiles_a_row,
                   tile_rows = divUp(left, divUp(left, most)); // bands of like height
    tiling.top = top;
    tiling.bottom = std::min(tiling.rows, top + (tile_rows << tiling.row_bits));
    tiling.tiles = tile_rows * tiling.tiles_a_row;
    return tiling;
}

// Where the windows follow one another at equal distances and are equally long nothing is listed.
cusStatus listWindows(State *state, const cusEventWindow *windows, unsigned count, cudaStream_t stream, Windows *result) {
    const uint64_t stride = count > 1 ? windows[1].first - windows[0].first : 0,
                   length = windows[0].last - windows[0].first;
    *result = {nullptr, windows[0].first, stride, length};
    bool regular = true;
    for (unsigned w = 0; w < count && regular; ++w)
        regular = windows[w].first == windows[0].first + w * stride && windows[w].last - windows[w].first == length;
    if (regular)
        return CUS_OK;
    result->list = state->list;
    for (unsigned w = 0; w < count; w += LISTED) {
        List part = {};
        const unsigned n = std::min<unsigned>(count - w, LISTED);
        for (unsigned i = 0; i < n; ++i)
            part.window[i] = {windows[w + i].first, windows[w + i].last};
        CUS_TRY(launch(FUNCTION, storeWindows, 1, 256, 0, stream, state->list + w, part, static_cast<int>(n)));
    }
    return CUS_OK;
}

struct Batch {
    cusEventStacker *stacker;
    State *state;
    Source source;
    Windows windows;
    unsigned count;       // windows
    uint64_t most_events; // in one of them
    size_t top;           // the first frame's first row
    cusMat *frames;
    cudaStream_t stream;
};

bool aligned(const cusMat &mat) {
    return cusi::isAligned(mat.data, mat.step, 2, 16);
}

template<class T>
T *frameTop(const Batch &batch, const cusMat &mat) {
    return reinterpret_cast<T *>(static_cast<char *>(mat.data) + batch.top * mat.step);
}

// Records of a run's place: its segments begin at multiples of 16 bytes.
template<class Record>
constexpr unsigned runPitch(unsigned tiles) {
    return tuning::RUN + PADDING<Record> * (tiles + 1);
}

// Shared memory of sortKernel.
template<class Record>
constexpr size_t sortShared(unsigned tiles) {
    return runPitch<Record>(tiles) * sizeof(Record) + (tiles + 1) * tuning::COUNTER_COPIES * sizeof(unsigned);
}

// Places in the workspace for the sorted runs of a group of windows. Returns how many windows that is, 0 where one of the
// batch is too long.
template<class Record>
unsigned planSorted(const Batch &batch, const Tiling &tiling, Sorted *sorted) {
    const unsigned tiles = std::min<unsigned>(tiling.tiles, tuning::MOST_TILES);
    const uint64_t runs = divUp<uint64_t>(batch.most_events + CHUNK - 1, tuning::RUN);
    sorted->pitch = runPitch<Record>(tiles);
    const uint64_t record_bytes = runs * sorted->pitch * sizeof(Record), green_bytes = 256 * sizeof(uint32_t),
                   window_bytes = record_bytes + green_bytes + runs * tiles * sizeof(uint16_t);
    const unsigned most = static_cast<unsigned>(std::min<uint64_t>(tuning::SORTED_BYTES / window_bytes, batch.count));
    if (most == 0 || batch.most_events > LAST_MOST_EVENTS)
        return 0;
    const unsigned group = divUp(batch.count, divUp(batch.count, most));
    char *memory = batch.state->sorted;
    sorted->runs_a_window = static_cast<unsigned>(runs);
    sorted->records = memory;
    sorted->greens = reinterpret_cast<uint32_t *>(memory += group * record_bytes);
    sorted->ends = reinterpret_cast<uint16_t *>(memory + group * green_bytes);
    return group;
}

// One way to look at sorted runs or keys.
struct Look {
    PaintKernel kernel;
    unsigned threads;
    size_t shared;
    unsigned tile_bits, part_bits; // log2 of pixels, of a tile and of a block
    Paint job;
};

// Paints `count` windows from number `first` of the batch on.
cusStatus paint(const Batch &batch, const Look &look, const Tiling &tiling, unsigned first, unsigned count) {
    Paint job = look.job;
    const size_t y = static_cast<size_t>(first) * tiling.rows;
    job.windows = batch.windows.from(first);
    job.tiling = tiling;
    job.mdes = job.mdes ? rowOf(job.mdes, job.mdes_step, y) : nullptr;
    job.tencode = job.tencode ? rowOf(job.tencode, job.tencode_step, y) : nullptr;
    Values &values = job.values;
    values.frames = values.frames ? rowOf(static_cast<char *>(values.frames), values.step, y) : nullptr;
    values.levels += values.levels ? first : 0;
    job.part_bits = look.part_bits;
    return launchOverlapped(FUNCTION, look.kernel, dim3(tiling.tiles << (look.tile_bits - look.part_bits), count),
                            look.threads, look.shared, batch.stream, job);
}

// Group after group, band after band: events to sorted runs, and those to pixels.
template<class Record, int BITS>
cusStatus runSorted(const Batch &batch, const Tiling &tiling, const Sorted &sorted, unsigned group, bool greens,
                    bool count_skipped, Look *looks, int look_count) {
    const size_t shared = sortShared<Record>(std::min<unsigned>(tiling.tiles, tuning::MOST_TILES));
    for (unsigned first = 0; first < batch.count; first += group) {
        const unsigned count = std::min(group, batch.count - first);
        for (unsigned top = 0; top < tiling.rows;) {
            const Tiling band = bandOf(tiling, top);
            Sort sort = {batch.windows.from(first), band, sorted, greens && top == 0 ? count : 0, nullptr};
            if (count_skipped && top == 0)
                sort.skipped = batch.state->skipped;
            CUS_TRY(launchOverlapped(FUNCTION, sortKernel<Record, BITS>, sort.green_blocks + count * sorted.runs_a_window,
                                     tuning::SORT_THREADS, shared, batch.stream, batch.source, sort));
            for (int k = 0; k < look_count; ++k) {
                looks[k].job.sorted = sorted;
                CUS_TRY(paint(batch, looks[k], band, first, count));
            }
            top = band.bottom;
        }
    }
    return CUS_OK;
}

// Events into accumulators: what all groups share. Returns how many windows make a group.
unsigned planScatter(const Batch &batch, size_t bytes_a_pixel, bool count_skipped, Scatter *scatter) {
    const State *state = batch.state;
    scatter->rows = static_cast<unsigned>(batch.stacker->rows);
    scatter->cols = static_cast<unsigned>(batch.stacker->cols);
    scatter->pitch = pitchOf(batch.stacker);
    scatter->accumulators = state->group;
    scatter->skipped = count_skipped ? state->skipped : nullptr;
    const uint64_t chunks = batch.most_events / CHUNK + 2;
    scatter->blocks_a_window = static_cast<unsigned>(
        std::min<uint64_t>(divUp(chunks, uint64_t{tuning::SCATTER_THREADS * tuning::SCATTER_CHUNKS}), 1u << 16));
    const size_t frame_bytes = static_cast<size_t>(scatter->pitch) * scatter->rows * bytes_a_pixel;
    return static_cast<unsigned>(std::max<size_t>(1, std::min<size_t>(batch.count, state->group_bytes / frame_bytes)));
}

template<Kind KIND>
cusStatus scatterGroup(const Batch &batch, Scatter scatter, unsigned first, unsigned count) {
    scatter.windows = batch.windows.from(first);
    scatter.count = count;
    scatter.values.levels += scatter.values.levels ? first : 0;
    return launch(FUNCTION, scatterKernel<KIND>, count * scatter.blocks_a_window, tuning::SCATTER_THREADS, 0, batch.stream,
                  batch.source, scatter);
}

Values valuesOf(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    const cusMat &mat = batch.frames[index];
    Values values = {frameTop<void>(batch, mat),
                     mat.step,
                     static_cast<unsigned>(r.channels),
                     r.swap_channels != 0,
                     255,
                     std::min(1 / (r.tau * 0.693147180559945309417), std::numeric_limits<double>::max()),
                     batch.source.t,
                     nullptr};
    if (r.kind == CUS_REPR_STACKED_HISTOGRAM) {
        values.cutoff = static_cast<unsigned>(r.cutoff);
        values.levels = batch.state->levels + static_cast<size_t>(index) * tuning::BATCH_WINDOWS;
    }
    return values;
}

// Through accumulators in device memory.
template<Kind KIND>
cusStatus runValues(const Batch &batch, int index, bool count_skipped) {
    const cusRepresentation &r = batch.stacker->representations[index];
    Scatter scatter = {};
    const size_t bytes_a_pixel = accumulatorBytes(r);
    const unsigned group = planScatter(batch, bytes_a_pixel, count_skipped, &scatter);
    scatter.values = valuesOf(batch, index);
    Expand job = {};
    job.rows = scatter.rows;
    job.cols = scatter.cols;
    job.pitch = scatter.pitch;
    job.accumulators = scatter.accumulators;
    job.values = scatter.values;
    const size_t frame_words = static_cast<size_t>(job.pitch) * job.rows * bytes_a_pixel / sizeof(uint32_t),
                 blocks = frame_words / (4 * tuning::SCATTER_THREADS * 2); // four values a thread, twice
    for (unsigned first = 0; first < batch.count; first += group) {
        job.windows = batch.windows.from(first);
        job.count = std::min(group, batch.count - first);
        job.blocks = job.count * static_cast<unsigned>(std::max<size_t>(1, std::min<size_t>(blocks, 8192)));
        job.values.frames =
            rowOf(static_cast<char *>(scatter.values.frames), job.values.step, static_cast<size_t>(first) * job.rows);
        CUS_TRY(scatterGroup<KIND>(batch, scatter, first, job.count));
        CUS_TRY(launch(FUNCTION, valuesKernel<KIND>, job.blocks, tuning::SCATTER_THREADS, 0, batch.stream, job));
    }
    return CUS_OK;
}

cusStatus runHistogram(const Batch &batch, int index, bool count_skipped) {
    const Tiling tiling = tilingOf(batch.stacker, tuning::HISTOGRAM_TILE);
    Sorted sorted = {};
    const unsigned group = planSorted<uint16_t>(batch, tiling, &sorted);
    if (group == 0)
        return runValues<COUNT>(batch, index, count_skipped);
    Look look = {histogramKernel,        tuning::HISTOGRAM_THREADS, HISTOGRAM_PIXELS * 2,
                 tuning::HISTOGRAM_TILE, tuning::HISTOGRAM_TILE,    {}};
    look.job.values = valuesOf(batch, index);
    look.job.vectors = aligned(batch.frames[index]);
    return runSorted<uint16_t, tuning::HISTOGRAM_TILE>(batch, tiling, sorted, group, false, count_skipped, &look, 1);
}

// Ways to look at records of 32 bits, or at keys.
struct Looks {
    Look look[EVENTS_MAX_REPRESENTATIONS + 1];
    int count;
    bool greens; // one is TENCODE
};

// MDES and TENCODE: the first of each in bytes together, any others before them.
void addLast(const Batch &batch, Looks *looks) {
    const Look blank = [] {
        Look look = {nullptr, tuning::LAST_THREADS, lastShared(0), tuning::LAST_TILE, tuning::LAST_TILE, {}};
        look.job.none = 128;
        look.job.positive = 255;
        return look;
    }();
    Look together = blank;
    int channels = 0;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentation &r = batch.stacker->representations[i];
        const cusMat &mat = batch.frames[i];
        if (!eventsIsLast(r.kind))
            continue;
        if (r.kind == CUS_REPR_MDES && r.depth == CUS_32F) {
            Look &look = looks->look[looks->count++] = blank;
            look.kernel = mdesFloatsKernel;
            look.job.values = valuesOf(batch, i);
            continue;
        }
        const bool mdes = r.kind == CUS_REPR_MDES;
        const bool taken = mdes ? together.job.mdes != nullptr : together.job.tencode != nullptr;
        Look &look = taken ? looks->look[looks->count++] = blank : together;
        look.kernel = lastKernelFor(mdes ? r.channels : 0, !mdes);
        Paint &job = look.job;
        if (mdes) {
            look.shared = lastShared(r.channels);
            job.mdes = frameTop<uint8_t>(batch, mat);
            job.mdes_step = mat.step;
            job.mdes_vectors = aligned(mat);
            job.none = r.depth == CUS_8U ? 128 : 0;
            job.positive = r.depth == CUS_8U ? 255 : 1;
            job.negative = r.depth == CUS_8U ? 0 : 255; // -1
            channels = taken ? channels : r.channels;
        } else {
            job.tencode = frameTop<uint8_t>(batch, mat);
            job.tencode_step = mat.step;
            job.tencode_vectors = aligned(mat);
            job.swap = r.swap_channels != 0;
            looks->greens = true;
        }
    }
    if (together.kernel) {
        together.kernel = lastKernelFor(channels, together.job.tencode != nullptr);
        looks->look[looks->count++] = together;
    }
}

// MDES and TENCODE of windows too long to sort: keys in device memory.
cusStatus runKeys(const Batch &batch, const Tiling &tiling, Looks *looks, bool count_skipped) {
    Scatter scatter = {};
    const unsigned group = planScatter(batch, sizeof(uint32_t), count_skipped, &scatter);
    Sorted sorted = {};
    sorted.greens = reinterpret_cast<uint32_t *>(batch.state->sorted);
    for (unsigned first = 0; first < batch.count; first += group) {
        const unsigned count = std::min(group, batch.count - first);
        CUS_TRY(scatterGroup<LAST>(batch, scatter, first, count));
        if (looks->greens)
            CUS_TRY(launch(FUNCTION, sortKernel<uint32_t, tuning::LAST_TILE>, count, tuning::SORT_THREADS, 0, batch.stream,
                           batch.source, Sort{batch.windows.from(first), tiling, sorted, count, nullptr}));
        for (int k = 0; k < looks->count; ++k) {
            Paint &job = looks->look[k].job;
            job.sorted = sorted;
            job.keys = static_cast<uint32_t *>(batch.state->group);
            job.pitch = scatter.pitch;
            job.keep = k + 1 < looks->count;
            CUS_TRY(paint(batch, looks->look[k], tiling, first, count));
        }
    }
    return CUS_OK;
}

// One of the kinds with accumulators: a look at sorted runs where there are `looks`, else through device memory.
template<Kind KIND>
cusStatus runOrAdd(const Batch &batch, int index, bool count_skipped, Looks *looks) {
    if (!looks)
        return runValues<KIND>(batch, index, count_skipped);
    Look look = {tileValuesKernel<KIND>, tuning::VALUES_THREADS, 0, tuning::LAST_TILE, tuning::LAST_TILE, {}};
    look.job.values = valuesOf(batch, index);
    look.job.vectors = aligned(batch.frames[index]);
    const unsigned bytes = bytesOf(KIND, look.job.values.channels);
    while (size_t{bytes} << look.part_bits > batch.state->values_bytes)
        --look.part_bits;
    look.shared = size_t{bytes} << look.part_bits;
    // The smallest tiles that are not too many, so that they have few parts, or one.
    Sorted sorted = {};
    for (unsigned bits = look.part_bits; bits < look.tile_bits; ++bits) {
        const Tiling tiling = tilingOf(batch.stacker, bits);
        if (tiling.tiles > 0 && tiling.tiles <= tuning::MOST_TILES && planSorted<uint32_t>(batch, tiling, &sorted) > 0)
            look.tile_bits = bits;
    }
    looks->look[looks->count++] = look;
    return CUS_OK;
}

// Looks at sorted runs: those by tiles of the same size share a sort.
cusStatus runLooks(const Batch &batch, const Looks &looks, bool count_skipped) {
    for (unsigned bits = 0; bits <= tuning::LAST_TILE; ++bits) {
        Looks same = {};
        for (int i = 0; i < looks.count; ++i)
            if (looks.look[i].tile_bits == bits)
                same.look[same.count++] = looks.look[i];
        if (same.count == 0)
            continue;
        const Tiling tiling = tilingOf(batch.stacker, bits);
        Sorted sorted = {};
        const unsigned group = planSorted<uint32_t>(batch, tiling, &sorted);
        const bool greens = looks.greens && bits == tuning::LAST_TILE;
        const cusStatus status = runSorted<uint32_t, tuning::LAST_TILE>(batch, tiling, sorted, group, greens, count_skipped,
                                                                        same.look, same.count);
        CUS_TRY(status);
        count_skipped = false;
    }
    return CUS_OK;
}

cusStatus normalize(const Batch &batch, int index) {
    const Values values = valuesOf(batch, index);
    const Normalize job = {static_cast<float *>(values.frames),
                           values.step,
                           static_cast<unsigned>(batch.stacker->rows),
                           static_cast<unsigned>(batch.stacker->cols) * values.channels,
                           aligned(batch.frames[index]),
                           reinterpret_cast<Moments *>(batch.state->sorted)};
    static_assert(tuning::BATCH_WINDOWS * tuning::NORMALISE_PARTS * sizeof(Moments) <= tuning::SORTED_BYTES, "");
    for (const auto kernel : {momentsKernel, normalizeKernel})
        CUS_TRY(launchOverlapped(FUNCTION, kernel, dim3(tuning::NORMALISE_PARTS, batch.count), tuning::VALUES_THREADS, 0,
                                 batch.stream, job));
    return CUS_OK;
}

cusStatus runBatch(const Batch &batch) {
    const Tiling tiling = tilingOf(batch.stacker, tuning::LAST_TILE);
    Sorted sorted = {};
    const unsigned group = planSorted<uint32_t>(batch, tiling, &sorted);
    Looks looks = {};
    addLast(batch, &looks);
    bool count_skipped = true; // by one of the representations
    if (group == 0 && looks.count > 0) {
        CUS_TRY(runKeys(batch, tiling, &looks, count_skipped));
        count_skipped = false;
    }
    Looks *more = group > 0 ? &looks : nullptr;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentation &r = batch.stacker->representations[i];
        const bool first = count_skipped && !eventsIsLast(r.kind);
        switch (r.kind) {
        case CUS_REPR_HISTOGRAM:
            CUS_TRY(runHistogram(batch, i, first));
            count_skipped = false;
            break;
        case CUS_REPR_VOXEL_GRID:
            CUS_TRY(runOrAdd<VOXEL>(batch, i, first, more));
            break;
        case CUS_REPR_MDES:
        case CUS_REPR_TENCODE:
            break;
        case CUS_REPR_MDES_COUNT:
            CUS_TRY(runOrAdd<DENSITY_LEVELS>(batch, i, first, more));
            break;
        case CUS_REPR_STACKED_HISTOGRAM:
            CUS_TRY(launch(FUNCTION, timeLevels, divUp(batch.count * (EVENTS_MAX_CHANNELS + 1), 128u), 128, 0, batch.stream,
                           batch.source, batch.windows, batch.count, r.channels,
                           batch.state->levels + static_cast<size_t>(i) * tuning::BATCH_WINDOWS));
            CUS_TRY(runOrAdd<TIME_LEVELS>(batch, i, first, more));
            break;
        case CUS_REPR_TIME_SURFACE:
            CUS_TRY(runOrAdd<SURFACE>(batch, i, first, more));
            break;
        case CUS_REPR_EVENT_DIFF:
            CUS_TRY(runOrAdd<DIFFERENCE>(batch, i, first, more));
            break;
        }
        count_skipped = count_skipped && (more || eventsIsLast(r.kind)); // looks are still to come
    }
    if (more)
        CUS_TRY(runLooks(batch, looks, count_skipped));
    for (int i = 0; i < batch.stacker->count; ++i)
        if (batch.stacker->representations[i].kind == CUS_REPR_VOXEL_GRID && batch.stacker->representations[i].normalize)
            CUS_TRY(normalize(batch, i));
    return CUS_OK;
}

Source sourceOf(const cusEventArrays *events) {
    const auto address = reinterpret_cast<uintptr_t>(events->x) | reinterpret_cast<uintptr_t>(events->y) |
                         reinterpret_cast<uintptr_t>(events->p);
    return {events->x, events->y, events->p, events->t, events->count, address % 16 == 0};
}

// bounds[2 w], bounds[2 w + 1]: first and last of window w, by duration.
__global__ void durationWindows(const Source source, unsigned long long stride, unsigned long long length,
                                unsigned long long windows, Window *list) {
    cusi::startInOrder();
    for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x; i < 2 * windows;
         i += static_cast<unsigned long long>(gridDim.x) * blockDim.x) {
        const unsigned long long start = i / 2 * stride + (i % 2 ? length : 0);
        unsigned long long low = 0, high = source.count;
        while (low < high) {
            const unsigned long long middle = low + (high - low) / 2;
            const bool before = source.t[middle] < source.t[0] ||
                                static_cast<uint64_t>(source.t[middle]) - static_cast<uint64_t>(source.t[0]) < start;
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        (i % 2 ? list[i / 2].last : list[i / 2].first) = low;
    }
}

} // namespace

cusStatus events_cuda_create(cusEventStacker *stacker) {
    State *state = new (std::nothrow) State;
    CUSI_REQUIRE(state, CUS_ERROR_NO_MEMORY, "%s: no host memory", CREATE);
    stacker->state = state;
    size_t frame_bytes = 0;
    bool levels = false;
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation &r = stacker->representations[i];
        frame_bytes = std::max(frame_bytes, accumulatorBytes(r) * pitchOf(stacker) * static_cast<size_t>(stacker->rows));
        levels = levels || r.kind == CUS_REPR_STACKED_HISTOGRAM;
        if (r.kind == CUS_REPR_MDES && r.depth != CUS_32F)
            for (bool tencode : {false, true})
                CUSI_CUDA(CREATE, cudaFuncSetAttribute(lastKernelFor(r.channels, tencode),
                                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(lastShared(r.channels))));
    }
    int device = 0, shared = 0;
    CUSI_CUDA(CREATE, cudaGetDevice(&device));
    CUSI_CUDA(CREATE, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
    // Three blocks on a multiprocessor, with what is not dynamic; but two strips of the most that a pixel has, as it may be halved.
    state->values_bytes = std::clamp(static_cast<size_t>(shared) / 3 - 1280, size_t{2 * STRIP} * EVENTS_MAX_CHANNELS * 4,
                                     tuning::VALUES_BYTES);
    for (PaintKernel kernel : {tileValuesKernel<SURFACE>, tileValuesKernel<DENSITY_LEVELS>, tileValuesKernel<TIME_LEVELS>,
                               tileValuesKernel<DIFFERENCE>, tileValuesKernel<VOXEL>})
        CUSI_CUDA(CREATE, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(state->values_bytes)));
    CUSI_CUDA(CREATE,
              cudaFuncSetAttribute(sortKernel<uint32_t, tuning::LAST_TILE>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(sortShared<uint32_t>(tuning::MOST_TILES))));
    CUSI_CUDA(CREATE, cudaFuncSetAttribute(tileValuesKernel<VOXEL>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           tuning::VOXEL_CARVEOUT));
    CUSI_CUDA(CREATE, cudaFuncSetAttribute(tileValuesKernel<SURFACE>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           tuning::SURFACE_CARVEOUT));
    state->group_bytes = divUp(std::max(frame_bytes, tuning::GROUP_BYTES), size_t{256}) * 256;
    const size_t list_bytes = tuning::BATCH_WINDOWS * sizeof(Window),
                 levels_bytes = levels ? EVENTS_MAX_REPRESENTATIONS *
                                             divUp(tuning::BATCH_WINDOWS * sizeof(EventsLevels), size_t{256}) * 256
                                       : 0,
                 cleared_bytes = 256 + list_bytes + levels_bytes + state->group_bytes;
    CUSI_CUDA(CREATE, cudaMalloc(&state->memory, cleared_bytes + tuning::SORTED_BYTES));
    char *at = static_cast<char *>(state->memory);
    state->skipped = reinterpret_cast<unsigned long long *>(at);
    state->list = reinterpret_cast<Window *>(at += 256);
    state->levels = reinterpret_cast<EventsLevels *>(at += list_bytes);
    state->group = at += levels_bytes;
    state->sorted = at + state->group_bytes;
    CUSI_CUDA(CREATE, cudaMemsetAsync(state->memory, 0, cleared_bytes, nullptr));
    return cudaStatus(cudaStreamSynchronize(nullptr), CREATE, "clearing the accumulators");
}

void events_cuda_destroy(cusEventStacker *stacker) {
    State *state = static_cast<State *>(stacker->state);
    if (!state)
        return;
    (void)cudaFree(state->memory);
    delete state;
}

cusStatus events_cuda_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            size_t window_count, cusMat *frames, cusStream stream) {
    State *state = static_cast<State *>(stacker->state);
    for (size_t done = 0; done < window_count; done += tuning::BATCH_WINDOWS) {
        Batch batch = {};
        batch.stacker = stacker;
        batch.state = state;
        batch.source = sourceOf(events);
        batch.count = static_cast<unsigned>(std::min<size_t>(window_count - done, tuning::BATCH_WINDOWS));
        for (unsigned w = 0; w < batch.count; ++w)
            batch.most_events = std::max(batch.most_events, windows[done + w].last - windows[done + w].first);
        batch.top = done * static_cast<size_t>(stacker->rows);
        batch.frames = frames;
        batch.stream = stream;
        CUS_TRY(listWindows(state, windows + done, batch.count, stream, &batch.windows));
        CUS_TRY(runBatch(batch));
    }
    return CUS_OK;
}

cusStatus events_cuda_skipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    const State *state = static_cast<const State *>(stacker->state);
    unsigned long long value = 0;
    CUSI_CUDA("cusEventStackerSkipped",
              cudaMemcpyAsync(&value, state->skipped, sizeof value, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA("cusEventStackerSkipped", cudaStreamSynchronize(stream));
    *skipped = value;
    return CUS_OK;
}

cusStatus events_cuda_extent(const cusEventArrays *events, uint64_t *extent, cusStream stream) {
    int64_t ends[2] = {0, 0};
    CUSI_CUDA("cusEventWindows", cudaMemcpyAsync(&ends[0], events->t, sizeof ends[0], cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA("cusEventWindows",
              cudaMemcpyAsync(&ends[1], events->t + events->count - 1, sizeof ends[1], cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA("cusEventWindows", cudaStreamSynchronize(stream));
    *extent = static_cast<uint64_t>(ends[1]) - static_cast<uint64_t>(ends[0]) + 1;
    return CUS_OK;
}

cusStatus events_cuda_windows(const cusEventArrays *events, const cusWindowing *windowing, cusEventWindow *windows,
                              size_t count, cusStream stream) {
    constexpr char function[] = "cusEventWindows";
    static_assert(sizeof(Window) == sizeof(cusEventWindow), "the list is copied as it is");
    Window *list = nullptr;
    CUSI_CUDA(function, cudaMalloc(reinterpret_cast<void **>(&list), count * sizeof(Window)));
    cusStatus status =
        launch(function, durationWindows, static_cast<unsigned>(std::min<size_t>(divUp(2 * count, size_t{128}), 4096)), 128,
               0, stream, sourceOf(events), eventsStride(windowing), windowing->length, count, list);
    if (status == CUS_OK)
        status = cudaStatus(cudaMemcpyAsync(windows, list, count * sizeof(Window), cudaMemcpyDeviceToHost, stream),
                            function, "copying the windows");
    if (status == CUS_OK)
        status = cudaStatus(cudaStreamSynchronize(stream), function, "queued work");
    (void)cudaFree(list);
    return status;
}

int events_cuda_isPinned(const void *data) {
    cudaPointerAttributes attributes = {};
    const bool known = cudaPointerGetAttributes(&attributes, data) == cudaSuccess;
    (void)cudaGetLastError();
    return known && attributes.type == cudaMemoryTypeHost;
}
