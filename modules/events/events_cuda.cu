// Event frames on the GPU. Two ways:
//
// Counting in shared memory (HISTOGRAM, many windows). The frame is cut into tiles of rows whose counters, 4 bits each, fill
// one multiprocessor's shared memory: four tiles for 1280 x 720 x 2. A block takes one tile of one window, looks at all the
// window's events and counts those of its tile. Events come from memory once and from the L2 cache for the other tiles;
// nothing else is read, and the frame is written once.
//
// Accumulators in device memory (everything else). The events of a group of windows go into accumulators, with atomics that
// return nothing and whose result does not depend on their order; a second kernel turns these into pixels and leaves zeros
// behind. A group is small enough to stay in the L2 cache. Running the two side by side, one group apart, was tried: the
// atomics hold up the other kernel's loads, and the whole took four times as long.
#include "cuda.cuh"
#include "events_backend.h"

#include <algorithm>
#include <new>

namespace {

using cusi::cudaStatus;
using cusi::divUp;
using cusi::launch;
using cusi::rowOf;

namespace tuning {
// On an H200, 60 million uniform events in 300 stacks of 1280 x 720.
// HISTOGRAM by threads a block: 512 0.538 ms, 640 0.495, 768 0.469, 896 0.458, 1024 0.508 (registers spill).
constexpr int TILE_THREADS = 896;
constexpr unsigned TILE_MOST_EVENTS = 1u << 20; // a longer window goes the other way
constexpr int SCATTER_THREADS = 256;
constexpr unsigned SCATTER_CHUNKS = 1; // of 8 events, a thread
// MDES and TENCODE by MiB a group: 8 6.3 ms, 16 6.2, 32 10.1, 48 11.5 (past what the L2 cache holds).
constexpr size_t GROUP_BYTES = size_t{16} << 20;
// Strips a warp: 2 5.8 ms, 4 6.2, 8 6.8.
constexpr unsigned EXPAND_STRIPS = 2;
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

// ---- Counting in shared memory -----------------------------------------------------------------------------------------

struct Tiles {
    unsigned rows, cols, tile_rows, tiles, jobs;
    unsigned words; // of shared memory
    unsigned swap;
    uint8_t *frames;
    size_t step;
    bool vectors; // 16-byte stores possible: rows start aligned and are multiples of 8 pixels, or follow tightly
    bool tight;
    uint32_t *spills; // a list for each block
    unsigned spill_capacity;
    unsigned long long *skipped;
};

// Quick counting. A counter is 4 bits; pixel i has bits 8 (i % 4) .. of word i / 4, the first channel low. Bit 3 works as a
// guard: the thread whose add makes a counter 8 takes the 8 away again and leaves an entry in the spill list, to be added to
// the finished frame. Up to 7 more may come in between; the 8th would carry into the neighbour, and whoever does that add
// sees 15, as no counter of the word can have carried before: then the tile is counted again, carefully. That nobody sees 15
// proves that nothing ever carried.
constexpr unsigned SPILL = 8;

struct Spill {
    uint32_t *list;
    unsigned *count;
    int *carried;
};

// The thread found the counter of `pixel` at 7 or 15 before its add.
__device__ inline void spillOver(uint32_t *counters, unsigned pixel, uint32_t one, uint32_t old, const Spill &spill) {
    if (old & one << 3) {
        *spill.carried = 1;
        return;
    }
    atomicSub(counters + pixel / 4, one << 3);
    spill.list[atomicAdd(spill.count, 1u)] = pixel * 2 + (one >> (pixel * 8 & 31) == 16);
}

// Visits the window's events by chunks, one chunk ahead in loading.
template<class Visit>
__device__ inline void forChunks(const Source &source, const Window &window, const int *stop, Visit visit) {
    const unsigned long long end = divUp(window.last, static_cast<unsigned long long>(CHUNK));
    unsigned long long c = window.first / CHUNK + threadIdx.x;
    Chunk chunk, next;
    if (c < end)
        load(source, window, c, chunk);
    for (; c < end && !*static_cast<const volatile int *>(stop); c += tuning::TILE_THREADS) {
        if (c + tuning::TILE_THREADS < end)
            load(source, window, c + tuning::TILE_THREADS, next);
        visit(chunk);
        chunk = next;
    }
}

__device__ inline unsigned largest(const uint32_t *pairs) {
    const uint32_t most = __vmaxu2(__vmaxu2(pairs[0], pairs[1]), __vmaxu2(pairs[2], pairs[3]));
    return max(most & 0xffff, most >> 16);
}

// Counts the window's events in `pixels` pixels from `base` on. Returns how many of the window's events this thread found
// outside the frame, which the first tile of a frame reports.
__device__ unsigned countQuickly(const Source &source, const Window &window, const Tiles &job, unsigned base,
                                 unsigned pixels, uint32_t *counters, const Spill &spill) {
    unsigned outside = 0;
    const uint32_t positive = job.swap ? 0x10101010 : 0x01010101;
    forChunks(source, window, spill.carried, [&](const Chunk &chunk) {
        const bool whole = chunk.begin == 0 && chunk.end == CHUNK;
        const bool usual = whole && largest(chunk.x) < job.cols && largest(chunk.y) < job.rows;
        uint32_t ones[2]; // a counter's one, by polarity, at the place of pixel 0
#pragma unroll
        for (int i = 0; i < 2; ++i)
            ones[i] = positive ^ (__vcmpeq4(chunk.p[i], 0) & 0x11111111);
        if (usual) { // eight adds in flight before the first result is looked at
            uint32_t old[CHUNK], one[CHUNK];
            bool full = false;
#pragma unroll
            for (int i = 0; i < CHUNK; ++i) {
                const unsigned pixel = chunk.row(i) * job.cols + (chunk.col(i) - base);
                one[i] = __funnelshift_l(0, __byte_perm(ones[i / 4], 0, 0x4440 + i % 4), pixel * 8);
                old[i] = 0;
                if (pixel < pixels)
                    old[i] = atomicAdd(counters + pixel / 4, one[i]);
            }
#pragma unroll
            for (int i = 0; i < CHUNK; ++i)
                full |= (~old[i] & one[i] * 7) == 0;
            if (full) {
#pragma unroll
                for (int i = 0; i < CHUNK; ++i)
                    if ((~old[i] & one[i] * 7) == 0)
                        spillOver(counters, chunk.row(i) * job.cols + (chunk.col(i) - base), one[i], old[i], spill);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            const unsigned col = chunk.col(i), row = chunk.row(i), pixel = row * job.cols + col - base;
            if (!chunk.has(i))
                continue;
            if (col >= job.cols || row >= job.rows) {
                ++outside;
            } else if (pixel < pixels) {
                const uint32_t one = (ones[i / 4] >> (i % 4 * 8) & 255) << (pixel * 8 & 31);
                const uint32_t old = atomicAdd(counters + pixel / 4, one);
                if ((~old & one * 7) == 0)
                    spillOver(counters, pixel, one, old, spill);
            }
        }
    });
    return outside;
}

// Careful counting: 16 bits a counter, a word a pixel, and so a quarter of the tile at a time. A counter that has reached 255
// is left alone; at most 8 adds a thread are under way past that, which 16 bits have room for.
static_assert(255 + 8 * tuning::TILE_THREADS < 65536, "careful counters must not carry");

__device__ void countCarefully(const Source &source, const Window &window, const Tiles &job, unsigned base, unsigned pixels,
                               uint32_t *counters, const int *never) {
    forChunks(source, window, never, [&](const Chunk &chunk) {
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
            const unsigned col = chunk.col(i), pixel = chunk.row(i) * job.cols + col - base;
            if (chunk.has(i) && col < job.cols && pixel < pixels) {
                const unsigned shift = (chunk.positive(i) ? job.swap : 1 - job.swap) * 16;
                if ((static_cast<volatile uint32_t *>(counters)[pixel] >> shift & 0xffff) < 255)
                    atomicAdd(counters + pixel, 1u << shift);
            }
        }
    });
}

// Four bytes of counters: eight counts in the order of the frame.
__device__ inline uint2 widen(uint32_t counters) {
    const uint32_t low = counters & 0x0f0f0f0f, high = counters >> 4 & 0x0f0f0f0f;
    return make_uint2(__byte_perm(low, high, 0x5140), __byte_perm(low, high, 0x7362));
}

// Pixels 8 i .. 8 i + 7, and pixel i, of the counters; zeros stay behind.
struct Quick {
    uint32_t *counters;
    __device__ uint4 eight(unsigned i) const {
        const uint2 packed = reinterpret_cast<uint2 *>(counters)[i];
        reinterpret_cast<uint2 *>(counters)[i] = make_uint2(0, 0);
        const uint2 a = widen(packed.x), b = widen(packed.y);
        return make_uint4(a.x, a.y, b.x, b.y);
    }
    __device__ uint2 one(unsigned i) const {
        uint8_t *counter = reinterpret_cast<uint8_t *>(counters) + i;
        const unsigned both = *counter;
        *counter = 0;
        return make_uint2(both & 15, both >> 4);
    }
};
struct Careful {
    uint32_t *counters;
    __device__ uint4 eight(unsigned i) const {
        uint4 *place = reinterpret_cast<uint4 *>(counters) + 2 * i;
        const uint4 a = place[0], b = place[1];
        place[0] = place[1] = make_uint4(0, 0, 0, 0);
        const auto two = [](uint32_t low, uint32_t high) {
            return __byte_perm(__vminu2(low, 0x00ff00ff), __vminu2(high, 0x00ff00ff), 0x6420);
        };
        return make_uint4(two(a.x, a.y), two(a.z, a.w), two(b.x, b.y), two(b.z, b.w));
    }
    __device__ uint2 one(unsigned i) const {
        const uint32_t both = counters[i];
        counters[i] = 0;
        return make_uint2(min(both & 0xffff, 255u), min(both >> 16, 255u));
    }
};

// `pixels` counted pixels to the frame, from its pixel `from` on, a multiple of 8.
template<class Counters>
__device__ inline void writePixels(const Tiles &job, uint8_t *frame, unsigned from, unsigned pixels, Counters counters) {
    unsigned done = 0;
    if (job.vectors) {
        done = pixels / 8 * 8;
        const unsigned eights_a_row = job.cols / 8;
        for (unsigned i = threadIdx.x; i < done / 8; i += tuning::TILE_THREADS) {
            const unsigned at = from / 8 + i;
            uint8_t *out = job.tight ? frame + static_cast<size_t>(at) * 16
                                     : frame + (at / eights_a_row) * job.step + (at % eights_a_row) * 16;
            __stcs(reinterpret_cast<uint4 *>(out), counters.eight(i));
        }
    }
    for (unsigned i = done + threadIdx.x; i < pixels; i += tuning::TILE_THREADS) {
        uint8_t *out = frame + ((from + i) / job.cols) * job.step + ((from + i) % job.cols) * 2;
        const uint2 counts = counters.one(i);
        out[0] = static_cast<uint8_t>(counts.x);
        out[1] = static_cast<uint8_t>(counts.y);
    }
}

// *byte = min(*byte + add, 255), through the aligned word around it.
__device__ inline void addSaturating(uint8_t *byte, unsigned add) {
    const unsigned shift = static_cast<unsigned>(reinterpret_cast<uintptr_t>(byte) & 3) * 8;
    uint32_t *word = reinterpret_cast<uint32_t *>(reinterpret_cast<uintptr_t>(byte) & ~static_cast<uintptr_t>(3));
    uint32_t found = __ldcg(word);
    for (;;) {
        const uint32_t expected = found;
        const unsigned value = expected >> shift & 255;
        if (value == 255)
            return;
        found = atomicCAS(word, expected, (expected & ~(255u << shift)) | min(value + add, 255u) << shift);
        if (found == expected)
            return;
    }
}

// The quick way may have stopped early.
__device__ unsigned countOutside(const Source &source, const Window &window, const Tiles &job, const int *never) {
    unsigned outside = 0;
    forChunks(source, window, never, [&](const Chunk &chunk) {
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            outside += chunk.has(i) && (chunk.col(i) >= job.cols || chunk.row(i) >= job.rows);
    });
    return outside;
}

__global__ void __launch_bounds__(tuning::TILE_THREADS)
    tileKernel(const Source source, const Windows windows, const Tiles job) {
    cusi::startInOrder();
    extern __shared__ uint32_t counters[];
    __shared__ unsigned spills;
    __shared__ int carried;
    __shared__ int never;
    const unsigned words = job.words;
    const Spill spill = {job.spills + static_cast<size_t>(blockIdx.x) * job.spill_capacity, &spills, &carried};
    if (threadIdx.x == 0)
        never = 0;
    for (unsigned i = threadIdx.x; i < words; i += tuning::TILE_THREADS)
        counters[i] = 0;
    for (unsigned k = blockIdx.x; k < job.jobs; k += gridDim.x) {
        if (threadIdx.x == 0)
            spills = carried = 0;
        __syncthreads();
        const unsigned w = k / job.tiles, tile = k % job.tiles;
        const Window window = windows[w];
        const unsigned row0 = tile * job.tile_rows, rows = min(job.tile_rows, job.rows - row0);
        const unsigned base = row0 * job.cols, pixels = rows * job.cols;
        uint8_t *frame = job.frames + static_cast<size_t>(w) * job.rows * job.step;
        unsigned outside = countQuickly(source, window, job, base, pixels, counters, spill);
        __syncthreads();
        if (!carried) {
            writePixels(job, frame + row0 * job.step, 0, pixels, Quick{counters});
            __syncthreads();
            for (unsigned i = threadIdx.x; i < spills; i += tuning::TILE_THREADS) {
                const unsigned counter = spill.list[i], pixel = base + counter / 2;
                addSaturating(frame + (pixel / job.cols) * job.step + (pixel % job.cols) * 2 + counter % 2, SPILL);
            }
        } else {
            for (unsigned i = threadIdx.x; i < words; i += tuning::TILE_THREADS)
                counters[i] = 0;
            const unsigned quarter = words / 8 * 8;
            for (unsigned from = 0; from < pixels; from += quarter) {
                __syncthreads();
                const unsigned n = min(quarter, pixels - from);
                countCarefully(source, window, job, base + from, n, counters, &never);
                __syncthreads();
                writePixels(job, frame + row0 * job.step, from, n, Careful{counters});
            }
            outside = tile == 0 ? countOutside(source, window, job, &never) : 0;
        }
        if (tile == 0) {
            outside = warpSum(outside);
            if ((threadIdx.x & 31) == 0 && outside > 0)
                atomicAdd(job.skipped, static_cast<unsigned long long>(outside));
        }
        __syncthreads();
    }
}

// ---- Accumulators in device memory: the scattering side ----------------------------------------------------------------

enum Kind { LAST, SURFACE, COUNT, DENSITY_LEVELS, TIME_LEVELS, DIFFERENCE, VOXEL };

struct Scatter {
    Windows windows;
    unsigned count;           // windows
    unsigned blocks_a_window; // blocks = count * blocks_a_window
    unsigned rows, cols;
    unsigned pitch; // pixels from one row of accumulators to the next, a multiple of 4
    unsigned channels, swap;
    void *accumulators;
    const EventsLevels *levels;  // TIME_LEVELS: of each window
    unsigned long long *skipped; // NULL: counted elsewhere
};

__device__ inline unsigned levelOf(const EventsLevels &levels, unsigned channels, unsigned index) {
    unsigned level = 0;
    for (unsigned k = 1; k < channels; ++k)
        level += levels.begin[k] <= index;
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

template<Kind KIND>
__device__ void scatter(const Source &source, const Scatter &job, unsigned block, EventsLevels *levels) {
    const unsigned w = block / job.blocks_a_window, part = block % job.blocks_a_window;
    const Window window = job.windows[w];
    const unsigned long long c0 = window.first / CHUNK, end = divUp(window.last, static_cast<unsigned long long>(CHUNK));
    if (window.first == window.last)
        return;
    if (KIND == DENSITY_LEVELS)
        densityLevels(static_cast<unsigned>(window.last - window.first), job.channels, levels);
    if (KIND == TIME_LEVELS && threadIdx.x <= EVENTS_MAX_CHANNELS)
        levels->begin[threadIdx.x] = job.levels[w].begin[threadIdx.x];
    if (KIND == DENSITY_LEVELS || KIND == TIME_LEVELS)
        __syncthreads();
    const size_t frame = static_cast<size_t>(w) * job.rows * job.pitch;
    double dt = 1;
    int64_t start = 0;
    if (KIND == VOXEL) {
        start = source.t[window.first];
        const int64_t span = source.t[window.last - 1] - start;
        dt = span > 0 ? static_cast<double>(span) : 1.0;
    }
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
            const unsigned channel = positive ? job.swap : 1 - job.swap;
            const unsigned index = static_cast<unsigned>(c * CHUNK + i - window.first);
            const size_t pixel = frame + static_cast<size_t>(row) * job.pitch + col;
            uint32_t *words = static_cast<uint32_t *>(job.accumulators);
            if (KIND == LAST) {
                atomicMax(words + pixel, 2 * (index + 1) + positive);
            } else if (KIND == SURFACE) {
                atomicMax(words + 2 * pixel + channel, index + 1);
            } else if (KIND == COUNT) {
                atomicAdd(words + 2 * pixel + channel, 1u);
            } else if (KIND == DENSITY_LEVELS) {
                for (unsigned k = 0; k < job.channels && levels->begin[k] <= index; ++k) // two on average
                    atomicAdd(words + pixel * job.channels + k, 1u);
            } else if (KIND == TIME_LEVELS) {
                atomicAdd(words + (2 * pixel + channel) * job.channels + levelOf(*levels, job.channels, index), 1u);
            } else if (KIND == DIFFERENCE) {
                atomicAdd(words + pixel, positive ? 1u : ~0u);
            } else {
                double time =
                    static_cast<double>(job.channels - 1) * static_cast<double>(source.t[c * CHUNK + i] - start) / dt;
                time = fmin(fmax(time, 0.0), static_cast<double>(job.channels - 1));
                const unsigned bin = static_cast<unsigned>(time);
                const long long next = static_cast<long long>((time - bin) * EVENTS_VOXEL_UNIT + 0.5);
                const long long here = static_cast<long long>(EVENTS_VOXEL_UNIT) - next;
                unsigned long long *voxel =
                    static_cast<unsigned long long *>(job.accumulators) + pixel * job.channels + bin;
                atomicAdd(voxel, static_cast<unsigned long long>(positive ? here : -here));
                if (bin + 1 < job.channels)
                    atomicAdd(voxel + 1, static_cast<unsigned long long>(positive ? next : -next));
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

// ---- Accumulators to pixels --------------------------------------------------------------------------------------------

struct Expand {
    Windows windows;
    unsigned count; // windows
    unsigned rows, cols, pitch;
    unsigned blocks;
    void *accumulators;
    bool keep; // another launch reads the accumulators after this one
    // LAST: MDES bytes for positive, negative and none; and TENCODE
    uint8_t *mdes, *tencode;
    size_t mdes_step, tencode_step;
    bool mdes_vectors, tencode_vectors;
    unsigned none, positive, negative, swap;
    const int64_t *t;
    // other kinds
    void *frames;
    size_t step;
    unsigned channels, cutoff;
    double tau;
};

constexpr int STRIP = 128; // pixels that a warp turns out together, 4 a lane

// Bytes `from` .. of a strip, left in shared memory by the warp, to the frame.
__device__ inline void storeStrip(const uint32_t *strip, uint8_t *out, unsigned bytes, bool vectors) {
    const unsigned lane = threadIdx.x & 31;
    __syncwarp();
    const unsigned whole = vectors ? bytes / 16 : 0;
    for (unsigned i = lane; i < whole; i += 32)
        __stcs(reinterpret_cast<uint4 *>(out) + i, reinterpret_cast<const uint4 *>(strip)[i]);
    for (unsigned i = whole * 16 + lane; i < bytes; i += 32)
        out[i] = reinterpret_cast<const uint8_t *>(strip)[i];
    __syncwarp();
}

// K: channels of MDES in bytes, 0 for none of it.
template<int K, bool TENCODE>
__device__ void expandLast(const Expand &job, unsigned block, EventsLevels *shared_levels) {
    constexpr int WARPS = tuning::SCATTER_THREADS / 32;
    constexpr int WORDS = STRIP / 4 * (K > 3 ? K : 3);
    __shared__ __align__(16) uint32_t strips[WARPS][WORDS];
    uint32_t *strip = strips[threadIdx.x / 32];
    const unsigned lane = threadIdx.x & 31;
    // Blocks share a window, so that its levels are made once.
    const unsigned blocks_a_window = job.blocks / job.count, w = block / blocks_a_window, part = block % blocks_a_window;
    const Window window = job.windows[w];
    const unsigned n = static_cast<unsigned>(window.last - window.first);
    if (K > 0) {
        densityLevels(n, K, shared_levels);
        __syncthreads();
    }
    unsigned begin[K > 0 ? K : 1];
#pragma unroll
    for (int k = 0; k < (K > 0 ? K : 1); ++k)
        begin[k] = K > 0 ? shared_levels->begin[k] : 0;
    unsigned long long newest = 0, dt = 0;
    if (TENCODE && n > 0) {
        newest = static_cast<unsigned long long>(job.t[window.last - 1]);
        dt = newest - static_cast<unsigned long long>(job.t[window.first]);
    }
    const float scale = dt ? 255.0f / static_cast<float>(dt) : 0.0f;
    const unsigned strips_a_row = divUp(job.cols, static_cast<unsigned>(STRIP)), all = strips_a_row * job.rows;
    uint32_t *keys = static_cast<uint32_t *>(job.accumulators) + static_cast<size_t>(w) * job.rows * job.pitch;
    const auto take = [&](unsigned s) {
        const unsigned row = s / strips_a_row, mine = s % strips_a_row * STRIP + lane * 4;
        uint4 four = make_uint4(0, 0, 0, 0);
        if (s < all && mine < job.pitch) {
            uint4 *place = reinterpret_cast<uint4 *>(keys + static_cast<size_t>(row) * job.pitch + mine);
            four = __ldcg(place);
            if (!job.keep)
                __stcg(place, make_uint4(0, 0, 0, 0));
        }
        return four;
    };
    const unsigned first = part * WARPS + threadIdx.x / 32, stride = blocks_a_window * WARPS;
    // Times are asked for one strip ahead, as the keys are: each is a trip to memory that depends on the one before.
    const auto timesOf = [&](const uint4 &four, unsigned long long *times) {
        const uint32_t key[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            times[i] =
                TENCODE && key[i] ? static_cast<unsigned long long>(__ldg(job.t + window.first + (key[i] / 2 - 1))) : 0;
    };
    uint4 next = take(first);
    unsigned long long times[4], next_times[4];
    timesOf(next, next_times);
    for (unsigned s = first; s < all; s += stride) {
        const uint4 four = next;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            times[i] = next_times[i];
        next = take(s + stride);
        const unsigned row = s / strips_a_row, col = s % strips_a_row * STRIP;
        const unsigned pixels = min(static_cast<unsigned>(STRIP), job.cols - col);
        const uint32_t key[4] = {four.x, four.y, four.z, four.w};
        const size_t y = static_cast<size_t>(w) * job.rows + row;
        if constexpr (K > 0) {
            uint32_t bytes[K];
#pragma unroll
            for (int j = 0; j < K; ++j)
                bytes[j] = job.none * 0x01010101;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (key[i] == 0)
                    continue;
                const unsigned index = key[i] / 2 - 1;
                const uint32_t change = ((key[i] & 1 ? job.positive : job.negative) ^ job.none) * 0x01010101;
#pragma unroll
                for (int k = 0; k < K; ++k)
                    if (k == 0 || begin[k] <= index)
                        bytes[(i * K + k) / 4] ^= change & 255u << ((i * K + k) % 4 * 8);
            }
#pragma unroll
            for (int j = 0; j < K; ++j)
                strip[lane * K + j] = bytes[j];
            storeStrip(strip, job.mdes + y * job.mdes_step + static_cast<size_t>(col) * K, pixels * K, job.mdes_vectors);
        }
        timesOf(next, next_times);
        if (TENCODE) {
            uint32_t pixel[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (key[i]) {
                    const unsigned long long age = newest - times[i];
                    // An estimate within 1, made exact by multiplying out.
                    unsigned green = static_cast<unsigned>(static_cast<float>(age) * scale) & 255;
                    green -= static_cast<unsigned long long>(green) * dt > 255 * age;
                    green += static_cast<unsigned long long>(green + 1) * dt <= 255 * age && dt > 0;
                    const unsigned blue = (key[i] & 1) == job.swap ? 255 : 0;
                    pixel[i] = blue | (green & 255) << 8 | (255 - blue) << 16;
                }
            strip[lane * 3] = pixel[0] | pixel[1] << 24;
            strip[lane * 3 + 1] = pixel[1] >> 8 | pixel[2] << 16;
            strip[lane * 3 + 2] = pixel[2] >> 16 | pixel[3] << 8;
            storeStrip(strip, job.tencode + y * job.tencode_step + static_cast<size_t>(col) * 3, pixels * 3,
                       job.tencode_vectors);
        }
    }
}

// MDES as floats reads the keys and leaves them.
__device__ void expandMdesFloats(const Expand &job, unsigned block, EventsLevels *shared_levels) {
    const unsigned blocks_a_window = job.blocks / job.count, w = block / blocks_a_window, part = block % blocks_a_window;
    const Window window = job.windows[w];
    densityLevels(static_cast<unsigned>(window.last - window.first), job.channels, shared_levels);
    __syncthreads();
    const unsigned values = job.cols * job.channels;
    const uint32_t *keys = static_cast<const uint32_t *>(job.accumulators) + static_cast<size_t>(w) * job.rows * job.pitch;
    for (unsigned row = part; row < job.rows; row += blocks_a_window)
        for (unsigned i = threadIdx.x; i < values; i += blockDim.x) {
            const uint32_t key = keys[static_cast<size_t>(row) * job.pitch + i / job.channels];
            const unsigned k = i % job.channels;
            float value = 0;
            if (key && (k == 0 || shared_levels->begin[k] <= key / 2 - 1))
                value = key & 1 ? 1.0f : -1.0f;
            rowOf(static_cast<float *>(job.frames), job.step, static_cast<size_t>(w) * job.rows + row)[i] = value;
        }
}

// Four bytes to any address, of which `n` are there.
__device__ inline void storeBytes(uint8_t *out, uint32_t four, unsigned n) {
    if (n == 4 && reinterpret_cast<uintptr_t>(out) % 4 == 0) {
        __stcs(reinterpret_cast<uint32_t *>(out), four);
        return;
    }
    for (unsigned i = 0; i < n; ++i)
        out[i] = static_cast<uint8_t>(four >> (8 * i));
}

// The kinds whose frames have one value for each accumulator: four of them at a time.
template<Kind KIND>
__device__ void expandValues(const Expand &job, unsigned block) {
    const unsigned blocks_a_window = job.blocks / job.count, w = block / blocks_a_window, part = block % blocks_a_window;
    const Window window = job.windows[w];
    const unsigned unit = KIND == SURFACE || KIND == COUNT ? 2
                          : KIND == TIME_LEVELS            ? 2 * job.channels
                          : KIND == DIFFERENCE             ? 1
                                                           : job.channels;
    const unsigned values = job.cols * unit, quads = divUp(values, 4u);
    const size_t row_words = static_cast<size_t>(job.pitch) * unit; // a multiple of 4
    for (unsigned q = part * blockDim.x + threadIdx.x; q < quads * job.rows; q += blocks_a_window * blockDim.x) {
        const unsigned row = q / quads, at = q % quads * 4, n = min(4u, values - at);
        const size_t y = static_cast<size_t>(w) * job.rows + row;
        if constexpr (KIND == VOXEL) {
            longlong2 *place =
                reinterpret_cast<longlong2 *>(static_cast<long long *>(job.accumulators) + y * row_words + at);
            const longlong2 a = place[0], b = place[1];
            place[0] = place[1] = make_longlong2(0, 0);
            const long long sums[4] = {a.x, a.y, b.x, b.y};
            float *out = rowOf(static_cast<float *>(job.frames), job.step, y) + at;
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                if (i < n)
                    out[i] = static_cast<float>(static_cast<double>(sums[i]) / EVENTS_VOXEL_UNIT);
        } else {
            uint4 *place = reinterpret_cast<uint4 *>(static_cast<uint32_t *>(job.accumulators) + y * row_words + at);
            const uint4 four = *place;
            *place = make_uint4(0, 0, 0, 0);
            const uint32_t sums[4] = {four.x, four.y, four.z, four.w};
            if constexpr (KIND == SURFACE) {
                float *out = rowOf(static_cast<float *>(job.frames), job.step, y) + at;
#pragma unroll
                for (unsigned i = 0; i < 4; ++i)
                    if (i < n)
                        out[i] = sums[i] ? static_cast<float>(exp(static_cast<double>(job.t[window.first + sums[i] - 1] -
                                                                                      job.t[window.last - 1]) /
                                                                  job.tau))
                                         : 0.0f;
            } else {
                uint32_t bytes = 0;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int sum = static_cast<int>(sums[i]);
                    const uint32_t value = KIND == DIFFERENCE ? static_cast<uint32_t>(max(-128, min(127, sum))) & 255
                                                              : min(sums[i], job.cutoff);
                    bytes |= value << (8 * i);
                }
                storeBytes(rowOf(static_cast<uint8_t *>(job.frames), job.step, y) + at, bytes, n);
            }
        }
    }
}

// ---- The launches ------------------------------------------------------------------------------------------------------

template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) scatterKernel(const Source source, const Scatter job) {
    cusi::startInOrder();
    __shared__ EventsLevels levels;
    scatter<KIND>(source, job, blockIdx.x, &levels);
}

template<int K, bool TENCODE>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) lastKernel(const Expand job) {
    cusi::startInOrder();
    __shared__ EventsLevels levels;
    expandLast<K, TENCODE>(job, blockIdx.x, &levels);
}

__global__ void __launch_bounds__(tuning::SCATTER_THREADS) mdesFloatsKernel(const Expand job) {
    cusi::startInOrder();
    __shared__ EventsLevels levels;
    expandMdesFloats(job, blockIdx.x, &levels);
}

template<Kind KIND>
__global__ void __launch_bounds__(tuning::SCATTER_THREADS) valuesKernel(const Expand job) {
    cusi::startInOrder();
    expandValues<KIND>(job, blockIdx.x);
}

using ScatterKernel = void (*)(Source, Scatter);
using ExpandKernel = void (*)(Expand);

// The kernel for this many MDES channels, 0 for none.
template<int K = 0>
ExpandKernel lastKernelFor(int channels, bool tencode) {
    if constexpr (K > EVENTS_MAX_CHANNELS)
        return nullptr;
    else if (channels == K)
        return tencode ? lastKernel<K, true> : lastKernel<K, false>;
    else
        return lastKernelFor<K + 1>(channels, tencode);
}

// ---- Normalising: one block a frame, sums in a fixed order
// ---------------------------------------------------------------

__device__ double blockSum(double value, double *shared) {
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i)
        sum += shared[i];
    return sum;
}

__global__ void __launch_bounds__(1024) normaliseKernel(float *frames, size_t step, unsigned rows, unsigned values) {
    cusi::startInOrder();
    __shared__ double shared[32];
    const size_t top = static_cast<size_t>(blockIdx.x) * rows;
    const auto all = [&](auto work) {
        for (unsigned y = threadIdx.x / 32; y < rows; y += 32)
            for (unsigned i = threadIdx.x & 31; i < values; i += 32)
                work(rowOf(frames, step, top + y)[i]);
    };
    double sum = 0, count = 0, squares = 0;
    all([&](float v) { sum += v, count += v != 0; });
    sum = blockSum(sum, shared);
    count = blockSum(count, shared);
    const double mean = count > 0 ? sum / count : 0;
    all([&](float v) { squares += v != 0 ? (v - mean) * (v - mean) : 0; });
    squares = blockSum(squares, shared);
    const double deviation = count > 0 ? sqrt(squares / count) : 0, scale = deviation > 0 ? 1 / deviation : 1;
    all([&](float &v) { v = v != 0 ? static_cast<float>((v - mean) * scale) : 0; });
}

// ---- The stacker's side on the host ------------------------------------------------------------------------------------

constexpr char FUNCTION[] = "cusEventStack", CREATE[] = "cusEventStackerCreate";

struct State {
    int multiprocessors = 0;
    size_t shared_bytes = 0;
    void *memory = nullptr; // all of the below
    unsigned long long *skipped = nullptr;
    Window *list = nullptr;
    EventsLevels *levels = nullptr;
    void *group = nullptr; // accumulators, zero between calls
    size_t group_bytes = 0;
    // Counting in shared memory; tiles 0 where HISTOGRAM is not asked for
    Tiles tiles = {};
    size_t tile_shared = 0;
    int tile_blocks = 0;
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

// Tiles as high as shared memory allows, then of equal height.
cusStatus planTiles(cusEventStacker *stacker, State *state) {
    const unsigned rows = static_cast<unsigned>(stacker->rows), cols = static_cast<unsigned>(stacker->cols);
    const size_t available = state->shared_bytes - 64; // the kernel's own variables take the rest
    Tiles &tiles = state->tiles;
    const unsigned most_rows = static_cast<unsigned>(std::min<size_t>(available / 32 * 32 / cols, rows));
    if (most_rows == 0)
        return CUS_OK;
    tiles.tiles = divUp(rows, most_rows);
    tiles.tile_rows = divUp(rows, tiles.tiles);
    tiles.tiles = divUp(rows, tiles.tile_rows);
    tiles.rows = rows;
    tiles.cols = cols;
    tiles.words = divUp(tiles.tile_rows * cols, 32u) * 8; // at least 8: the careful way takes 8 pixels together
    tiles.spill_capacity = tuning::TILE_MOST_EVENTS / SPILL;
    state->tile_shared = tiles.words * sizeof(uint32_t);
    CUSI_CUDA(CREATE, cudaFuncSetAttribute(tileKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(state->tile_shared)));
    int blocks = 0;
    CUSI_CUDA(CREATE,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, tileKernel, tuning::TILE_THREADS, state->tile_shared));
    state->tile_blocks = state->multiprocessors * blocks;
    return CUS_OK;
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

cusStatus runTiles(const Batch &batch, int index, bool count_skipped) {
    State *state = batch.state;
    Tiles tiles = state->tiles;
    const cusMat &mat = batch.frames[index];
    tiles.swap = batch.stacker->representations[index].swap != 0;
    tiles.frames = frameTop<uint8_t>(batch, mat);
    tiles.step = mat.step;
    tiles.tight = mat.step == 2 * static_cast<size_t>(tiles.cols);
    const bool tile_aligned = tiles.tight ? static_cast<size_t>(tiles.tile_rows) * tiles.cols * 2 % 16 == 0 &&
                                                static_cast<size_t>(tiles.rows) * tiles.cols * 2 % 16 == 0
                                          : tiles.cols % 8 == 0 && mat.step % 16 == 0;
    tiles.vectors = tile_aligned && reinterpret_cast<uintptr_t>(tiles.frames) % 16 == 0;
    tiles.jobs = batch.count * tiles.tiles;
    tiles.skipped = state->skipped + (count_skipped ? 0 : 1);
    const unsigned blocks = std::min<unsigned>(tiles.jobs, static_cast<unsigned>(state->tile_blocks));
    return launch(FUNCTION, tileKernel, blocks, tuning::TILE_THREADS, state->tile_shared, batch.stream, batch.source,
                  batch.windows, tiles);
}

// One way to look at accumulators.
struct Look {
    ExpandKernel kernel;
    Expand job;
};

// Group after group: events into accumulators, and those to pixels. The last look leaves zeros behind.
cusStatus runGroups(const Batch &batch, ScatterKernel kernel, Scatter scatter, size_t bytes_a_pixel, const Look *looks,
                    int look_count) {
    const State *state = batch.state;
    const unsigned pitch = pitchOf(batch.stacker), rows = static_cast<unsigned>(batch.stacker->rows),
                   cols = static_cast<unsigned>(batch.stacker->cols);
    const size_t frame_bytes = static_cast<size_t>(pitch) * rows * bytes_a_pixel;
    const unsigned group =
        static_cast<unsigned>(std::max<size_t>(1, std::min<size_t>(batch.count, state->group_bytes / frame_bytes)));
    const EventsLevels *levels = scatter.levels;
    const uint64_t chunks = batch.most_events / CHUNK + 2;
    scatter.blocks_a_window = static_cast<unsigned>(
        std::min<uint64_t>(divUp(chunks, uint64_t{tuning::SCATTER_THREADS * tuning::SCATTER_CHUNKS}), 1u << 16));
    scatter.rows = rows;
    scatter.cols = cols;
    scatter.pitch = pitch;
    scatter.accumulators = state->group;
    for (unsigned first = 0; first < batch.count; first += group) {
        scatter.windows = batch.windows.from(first);
        scatter.count = std::min(group, batch.count - first);
        scatter.levels = levels ? levels + first : nullptr;
        CUS_TRY(launch(FUNCTION, kernel, scatter.count * scatter.blocks_a_window, tuning::SCATTER_THREADS, 0, batch.stream,
                       batch.source, scatter));
        for (int k = 0; k < look_count; ++k) {
            Expand job = looks[k].job;
            job.windows = scatter.windows;
            job.count = scatter.count;
            job.rows = rows;
            job.cols = cols;
            job.pitch = pitch;
            job.accumulators = state->group;
            job.keep = k + 1 < look_count;
            job.t = batch.source.t;
            // Strips of 128 pixels a warp, or four values a thread, a few of each.
            const size_t pieces = job.frames ? frame_bytes / sizeof(uint32_t) / (4 * tuning::SCATTER_THREADS * 2)
                                             : static_cast<size_t>(rows) * divUp(cols, static_cast<unsigned>(STRIP)) /
                                                   (tuning::SCATTER_THREADS / 32 * tuning::EXPAND_STRIPS);
            job.blocks = job.count * static_cast<unsigned>(std::max<size_t>(1, std::min<size_t>(pieces, 8192)));
            const size_t y = static_cast<size_t>(first) * rows;
            job.mdes = job.mdes ? rowOf(job.mdes, job.mdes_step, y) : nullptr;
            job.tencode = job.tencode ? rowOf(job.tencode, job.tencode_step, y) : nullptr;
            job.frames = job.frames ? rowOf(static_cast<char *>(job.frames), job.step, y) : nullptr;
            CUS_TRY(launch(FUNCTION, looks[k].kernel, job.blocks, tuning::SCATTER_THREADS, 0, batch.stream, job));
        }
    }
    return CUS_OK;
}

template<Kind KIND>
cusStatus runValues(const Batch &batch, int index, bool count_skipped) {
    const cusRepresentation &r = batch.stacker->representations[index];
    Scatter scatter = {};
    Look look = {valuesKernel<KIND>, {}};
    scatter.channels = look.job.channels = static_cast<unsigned>(r.channels);
    scatter.swap = r.swap != 0;
    scatter.skipped = count_skipped ? batch.state->skipped : nullptr;
    look.job.cutoff = KIND == TIME_LEVELS ? static_cast<unsigned>(r.cutoff) : 255;
    look.job.tau = r.tau;
    look.job.frames = frameTop<void>(batch, batch.frames[index]);
    look.job.step = batch.frames[index].step;
    if (KIND == TIME_LEVELS) {
        scatter.levels = batch.state->levels;
        CUS_TRY(launch(FUNCTION, timeLevels, divUp(batch.count * (EVENTS_MAX_CHANNELS + 1), 128u), 128, 0, batch.stream,
                       batch.source, batch.windows, batch.count, r.channels, batch.state->levels));
    }
    CUS_TRY(runGroups(batch, scatterKernel<KIND>, scatter, accumulatorBytes(r), &look, 1));
    if (KIND == VOXEL && r.normalise)
        CUS_TRY(launch(FUNCTION, normaliseKernel, batch.count, 1024, 0, batch.stream, static_cast<float *>(look.job.frames),
                       look.job.step, static_cast<unsigned>(batch.stacker->rows),
                       static_cast<unsigned>(batch.stacker->cols * r.channels)));
    return CUS_OK;
}

// All of MDES and TENCODE from the same accumulators: the first of each in bytes together, any others before them.
cusStatus runLast(const Batch &batch, bool count_skipped) {
    Scatter scatter = {};
    scatter.skipped = count_skipped ? batch.state->skipped : nullptr;
    Look looks[EVENTS_MAX_REPRESENTATIONS + 1] = {}, together = {};
    int look_count = 0, channels = 0;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentation &r = batch.stacker->representations[i];
        const cusMat &mat = batch.frames[i];
        if (!eventsIsLast(r.kind))
            continue;
        if (r.kind == CUS_REPR_MDES && r.depth == CUS_32F) {
            Look &look = looks[look_count++];
            look.kernel = mdesFloatsKernel;
            look.job.frames = frameTop<void>(batch, mat);
            look.job.step = mat.step;
            look.job.channels = static_cast<unsigned>(r.channels);
            continue;
        }
        const bool mdes = r.kind == CUS_REPR_MDES;
        const bool taken = mdes ? together.job.mdes != nullptr : together.job.tencode != nullptr;
        Look &look = taken ? looks[look_count++] : together;
        look.kernel = lastKernelFor(mdes ? r.channels : 0, !mdes);
        Expand &expand = look.job;
        if (mdes) {
            expand.mdes = frameTop<uint8_t>(batch, mat);
            expand.mdes_step = mat.step;
            expand.mdes_vectors = aligned(mat);
            expand.none = r.depth == CUS_8U ? 128 : 0;
            expand.positive = r.depth == CUS_8U ? 255 : 1;
            expand.negative = r.depth == CUS_8U ? 0 : 255; // -1
            channels = taken ? channels : r.channels;
        } else {
            expand.tencode = frameTop<uint8_t>(batch, mat);
            expand.tencode_step = mat.step;
            expand.tencode_vectors = aligned(mat);
            expand.swap = r.swap != 0;
        }
    }
    together.kernel = lastKernelFor(channels, together.job.tencode != nullptr);
    looks[look_count++] = together;
    return runGroups(batch, scatterKernel<LAST>, scatter, sizeof(uint32_t), looks, look_count);
}

cusStatus runBatch(const Batch &batch) {
    bool last_made = false;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const bool first = i == 0;
        switch (batch.stacker->representations[i].kind) {
        case CUS_REPR_HISTOGRAM: {
            const Tiles &tiles = batch.state->tiles;
            const bool many = 2ull * batch.count * tiles.tiles >= static_cast<unsigned>(batch.state->multiprocessors);
            if (many && tiles.tiles > 0 && batch.most_events <= tuning::TILE_MOST_EVENTS && batch.state->tile_blocks > 0)
                CUS_TRY(runTiles(batch, i, first));
            else
                CUS_TRY(runValues<COUNT>(batch, i, first));
            break;
        }
        case CUS_REPR_MDES:
        case CUS_REPR_TENCODE:
            if (!last_made)
                CUS_TRY(runLast(batch, first));
            last_made = true;
            break;
        case CUS_REPR_MDES_COUNT:
            CUS_TRY(runValues<DENSITY_LEVELS>(batch, i, first));
            break;
        case CUS_REPR_STACKED_HISTOGRAM:
            CUS_TRY(runValues<TIME_LEVELS>(batch, i, first));
            break;
        case CUS_REPR_VOXEL_GRID:
            CUS_TRY(runValues<VOXEL>(batch, i, first));
            break;
        case CUS_REPR_TIME_SURFACE:
            CUS_TRY(runValues<SURFACE>(batch, i, first));
            break;
        case CUS_REPR_EVENT_DIFF:
            CUS_TRY(runValues<DIFFERENCE>(batch, i, first));
            break;
        }
    }
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
    int device = 0, shared = 0;
    CUSI_CUDA(CREATE, cudaGetDevice(&device));
    CUSI_CUDA(CREATE, cudaDeviceGetAttribute(&state->multiprocessors, cudaDevAttrMultiProcessorCount, device));
    CUSI_CUDA(CREATE, cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    state->shared_bytes = static_cast<size_t>(shared);
    size_t frame_bytes = 0, spill_bytes = 0;
    bool levels = false;
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation &r = stacker->representations[i];
        frame_bytes = std::max(frame_bytes, accumulatorBytes(r) * pitchOf(stacker) * static_cast<size_t>(stacker->rows));
        levels = levels || r.kind == CUS_REPR_STACKED_HISTOGRAM;
        if (r.kind == CUS_REPR_HISTOGRAM && spill_bytes == 0) {
            CUS_TRY(planTiles(stacker, state));
            spill_bytes = static_cast<size_t>(state->tile_blocks) * state->tiles.spill_capacity * sizeof(uint32_t);
        }
    }
    state->group_bytes = divUp(std::max(frame_bytes, tuning::GROUP_BYTES), size_t{256}) * 256;
    const size_t list_bytes = tuning::BATCH_WINDOWS * sizeof(Window),
                 levels_bytes = levels ? divUp(tuning::BATCH_WINDOWS * sizeof(EventsLevels), size_t{256}) * 256 : 0;
    const size_t bytes = 256 + list_bytes + levels_bytes + state->group_bytes + spill_bytes;
    CUSI_CUDA(CREATE, cudaMalloc(&state->memory, bytes));
    char *at = static_cast<char *>(state->memory);
    state->skipped = reinterpret_cast<unsigned long long *>(at);
    state->list = reinterpret_cast<Window *>(at += 256);
    state->levels = reinterpret_cast<EventsLevels *>(at += list_bytes);
    state->group = at += levels_bytes;
    state->tiles.spills = reinterpret_cast<uint32_t *>(at + state->group_bytes);
    CUSI_CUDA(CREATE, cudaMemsetAsync(state->memory, 0, bytes - spill_bytes, nullptr));
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
