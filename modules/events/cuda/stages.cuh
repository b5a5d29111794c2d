// Types and functions that the stages of the CUDA backend share: windows, events, tiles and sorted runs.
// docs/internals/events.md describes the stages, their limits and how their constants were found.
#ifndef CUSI_EVENTS_CUDA_STAGES_CUH
#define CUSI_EVENTS_CUDA_STAGES_CUH

#include "cuda.cuh"
#include "events/backend.h"

namespace cusi::events {

constexpr int CHUNK = 8;                 // events that a thread loads together
constexpr int GREEN_LEVELS = 256;        // values of TENCODE's green channel
constexpr uint32_t CODE_MARK = 1u << 30; // above all keys of sorted events: last_event.cu

namespace tuning {
constexpr int RUN = 8192; // events that a block sorts
constexpr int SORT_THREADS = 512;
constexpr int MAX_TILES = SORT_THREADS - 1; // one thread per tile, and one for the events outside
constexpr size_t SORTED_BYTES = size_t{128} << 20;
// log2 of a tile's pixels: for HISTOGRAM, and the maximum for the others, whose records hold an index
constexpr int HISTOGRAM_TILE = 14, INDEXED_TILE = 13;
constexpr int TILE_THREADS = 256;   // in a block of a kernel that makes tiles
constexpr int BATCH_WINDOWS = 4096; // windows per batch, whose bounds lie on the device together
} // namespace tuning

// ---- Windows and events ------------------------------------------------------------------------------------------------

struct Window {
    unsigned long long first, last;
};

// Windows of equal length and stride need no list.
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
    bool aligned; // x, y and p start at multiples of 16 bytes
};

// Events 8 c .. 8 c + 7 as packed 16-bit pairs and bytes; those in [begin, end) belong to the window.
struct Chunk {
    uint32_t x[4], y[4], p[2];
    int begin, end;
    __device__ unsigned col(int i) const { return x[i / 2] >> (i % 2 * 16) & 0xffff; }
    __device__ unsigned row(int i) const { return y[i / 2] >> (i % 2 * 16) & 0xffff; }
    __device__ bool positive(int i) const { return p[i / 4] >> (i % 4 * 8) & 255; }
    __device__ bool has(int i) const { return i >= begin && i < end; }
};

// Loads 16 bytes from any address through two aligned vectors. Both must lie inside the array.
__device__ inline uint4 loadUnaligned(const void *from) {
    const auto address = reinterpret_cast<uintptr_t>(from);
    const uint4 *vectors = reinterpret_cast<const uint4 *>(address - address % 16);
    return bytesFrom(__ldg(vectors), __ldg(vectors + 1), address % 16);
}

// UNALIGNED: fast for arrays that start anywhere; otherwise only aligned arrays are read in vectors.
template<bool UNALIGNED>
__device__ inline void load(const Source &source, const Window &window, unsigned long long c, Chunk &chunk) {
    const unsigned long long start = c * CHUNK;
    chunk.begin = start < window.first ? static_cast<int>(window.first - start) : 0;
    chunk.end = start + CHUNK > window.last ? static_cast<int>(window.last - start) : CHUNK;
    // The aligned vectors around unaligned polarities cover events start - 15 .. start + 31.
    if (UNALIGNED ? start >= 2 * CHUNK && start + 4 * CHUNK <= source.count
                  : source.aligned && start + CHUNK <= source.count) {
        const auto vector = [](const void *from) {
            return UNALIGNED ? loadUnaligned(from) : __ldg(static_cast<const uint4 *>(from));
        };
        const uint4 x = vector(source.x + start), y = vector(source.y + start);
        chunk.x[0] = x.x, chunk.x[1] = x.y, chunk.x[2] = x.z, chunk.x[3] = x.w;
        chunk.y[0] = y.x, chunk.y[1] = y.y, chunk.y[2] = y.z, chunk.y[3] = y.w;
        if constexpr (UNALIGNED) {
            const uint4 p = loadUnaligned(source.p + start);
            chunk.p[0] = p.x, chunk.p[1] = p.y;
        } else {
            const uint2 p = __ldg(reinterpret_cast<const uint2 *>(source.p + start));
            chunk.p[0] = p.x, chunk.p[1] = p.y;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const bool has = chunk.has(i);
        const uint32_t x = has ? source.x[start + i] : 0, y = has ? source.y[start + i] : 0,
                       p = has ? source.p[start + i] : 0;
        chunk.x[i / 2] = (i % 2 ? chunk.x[i / 2] : 0) | x << (i % 2 * 16);
        chunk.y[i / 2] = (i % 2 ? chunk.y[i / 2] : 0) | y << (i % 2 * 16);
        chunk.p[i / 4] = (i % 4 ? chunk.p[i / 4] : 0) | p << (i % 4 * 8);
    }
}

__device__ inline uint32_t element16(const uint32_t *pairs, int i) {
    return i % 2 ? pairs[i / 2] >> 16 : pairs[i / 2] & 0xffff;
}

// ---- Tiles and sorted runs ---------------------------------------------------------------------------------------------

// The frame, or a band of its rows, in tiles of 2^(row_bits + col_bits) pixels, numbered row by row.
struct Tiling {
    unsigned rows, cols;  // rows and columns of the frame
    unsigned top, bottom; // rows of the band; top is a multiple of a tile's height
    unsigned row_bits, col_bits;
    unsigned tiles_per_row, tiles; // tiles of the band
    __device__ unsigned tile(unsigned row, unsigned col) const {
        return ((row - top) >> row_bits) * tiles_per_row + (col >> col_bits);
    }
    __device__ unsigned firstRow(unsigned tile) const { return top + (tile / tiles_per_row << row_bits); }
    __device__ unsigned firstCol(unsigned tile) const { return tile % tiles_per_row << col_bits; }
};

// A window's events in runs of tuning::RUN, each sorted by tile. Each run has `pitch` records of memory, in which the
// segment of a tile begins at a multiple of 16 bytes; ends[run][tile] says where it ends. Records:
//   uint16 (HISTOGRAM)   2 * pixel in the tile + polarity
//   uint32 (the others)  pixel in the tile (INDEXED_TILE bits), index in the run, polarity (1 bit)
struct SortedRuns {
    void *records;
    uint16_t *ends;
    uint32_t *green_begin; // TENCODE: GREEN_LEVELS per window
    unsigned runs_per_window, pitch;
    // Returns the most runs that a window of `events` events can have.
    static uint64_t maxRuns(uint64_t events) { return divUp<uint64_t>(events + CHUNK - 1, tuning::RUN); }
    __device__ static unsigned runs(const Window &window) {
        const unsigned long long events = window.last - window.first / CHUNK * CHUNK;
        return window.first == window.last ? 0 : static_cast<unsigned>(divUp(events, 1ull * tuning::RUN));
    }
};

template<class Record>
constexpr unsigned RECORDS_PER_16_BYTES = 16 / sizeof(Record);

// ---- Representations ---------------------------------------------------------------------------------------------------

// What a pixel accumulates. MDES and TENCODE both follow from its last event. OTHER_SURFACE: TIME_SURFACE with a window's
// own bounds, or with other than exponential values. MDES_DIFF also makes EVENT_DIFF with other limits, as one channel.
// ORDERED_DIFF: EVENT_DIFF clipped at each event. RECTIFIED_VOXELS: VOXEL_GRID with a map.
enum Kind {
    LAST_EVENT,
    TIME_SURFACE,
    HISTOGRAM,
    MDES_COUNT,
    STACKED_HISTOGRAM,
    EVENT_DIFF,
    VOXEL_GRID,
    EVENT_CUBE,
    MDES_DIFF,
    OTHER_SURFACE,
    ORDERED_DIFF,
    RECTIFIED_VOXELS
};

// The parts of a cusRepresentation that kernels use, and its frames.
struct Representation {
    void *frames;
    size_t step;
    unsigned channels, swap, cutoff;
    double decay; // TIME_SURFACE: powers of two per microsecond
    const int64_t *t;
    const EventsLevels *levels; // STACKED_HISTOGRAM: one per window of the batch
    bool halves;                // the frames are 16F
};

// Options that only some kinds use.
struct ValueOptions {
    const cusEventSpan *spans; // EVENT_CUBE, OTHER_SURFACE: one per window of the batch
    const char *map;           // RECTIFIED_VOXELS
    size_t map_step;
    double unit, clip; // EVENT_CUBE
    int lower, upper;  // MDES_DIFF, ORDERED_DIFF
    int surface;       // OTHER_SURFACE: a cusSurface
    bool continues;    // ORDERED_DIFF: starts from the values of the frame
};

// Accumulators per pixel, one for each of its values.
__host__ __device__ constexpr unsigned accumulatorsPerPixel(Kind kind, unsigned channels) {
    return kind == LAST_EVENT || kind == EVENT_DIFF || kind == ORDERED_DIFF     ? 1
           : kind == TIME_SURFACE || kind == OTHER_SURFACE || kind == HISTOGRAM ? 2
           : kind == STACKED_HISTOGRAM || kind == EVENT_CUBE                    ? 2 * channels
                                                                                : channels;
}

// Returns whether the kind sums weights, in 64 bits where 32 may overflow.
__host__ __device__ constexpr bool sumsWeights(Kind kind) {
    return kind == VOXEL_GRID || kind == RECTIFIED_VOXELS || kind == EVENT_CUBE;
}

// Adds the threads' events outside the frame to *skipped, unless it is NULL because another kernel counts them.
__device__ __forceinline__ void countSkipped(unsigned outside, unsigned long long *skipped) {
    if (skipped) {
        outside = warpSumToFirst(outside);
        if ((threadIdx.x & 31) == 0 && outside)
            atomicAdd(skipped, static_cast<unsigned long long>(outside));
    }
}

constexpr int STRIP_BITS = 7, STRIP = 1 << STRIP_BITS; // a warp writes this many neighboring pixels at a time

// Parameters of a tile kernel: a block makes the pixels of one tile (or a part of it) of one window.
struct TileParams {
    Windows windows;
    Tiling tiling;
    SortedRuns sorted;
    Representation repr; // lastEventKernel uses only the channels
    unsigned part_bits;  // log2 of the pixels that a block makes
    // lastEventKernel: its frames, and MDES's bytes for no event, positive and negative
    uint8_t *mdes, *tencode;
    size_t mdes_step, tencode_step;
    unsigned none, positive, negative, swap;
    const uint32_t *keys; // a long window's last-event keys in device memory, in place of sorted runs; or NULL
    // VOXEL_GRID with `normalize`, for each window: sums for momentsKernel, results for normalizedKernel
    EventsMoments *moments;
    const EventsScaling *scalings;
    ValueOptions options;
};

using TileKernel = void (*)(TileParams);

// One pass over the tiles of a group of windows.
struct TilePass {
    TileKernel kernel;
    size_t shared;
    unsigned tile_bits, part_bits; // log2 of a tile's pixels, and of those that a block makes
    TileParams params;
    TileKernel moments = nullptr; // runs first, over all tiles of a frame
    int index = 0;                // index of the representation, if there are moments
};

struct TilePasses {
    TilePass pass[EVENTS_MAX_REPRESENTATIONS + 1];
    int count;
    bool with_green; // one of them is TENCODE
};

// ---- The host's side ---------------------------------------------------------------------------------------------------

constexpr char STACK[] = "cusEventStack", CREATE[] = "cusEventStackerCreate";

// The stacker's device memory.
struct State {
    void *memory = nullptr; // holds all of the following
    unsigned long long *skipped = nullptr;
    Window *list = nullptr;
    EventsLevels *levels = nullptr;    // BATCH_WINDOWS for each representation if one is STACKED_HISTOGRAM
    void *accumulators = nullptr;      // accumulators of a long window
    EventsMoments *moments = nullptr;  // BATCH_WINDOWS for each representation if one is normalized
    EventsScaling *scalings = nullptr; // the same
    cusEventSpan *spans = nullptr;     // if used: BATCH_WINDOWS given by the caller, then as many of the events
    char *sorted = nullptr;            // runs of events
    int multiprocessors = 0;
    size_t values_shared_bytes = 0; // shared memory for accumulators
};

struct Batch {
    cusEventStacker *stacker;
    State *state;
    Source source;
    cusMat *frames;
    size_t top; // the first frame's first row
    cudaStream_t stream;
    Windows windows = {};
    unsigned count = 0;      // windows
    uint64_t max_events = 0; // in a window
    bool is_long = false;    // one window, through accumulators in device memory
    const cusEventWindow *host_windows = nullptr;
    const cusEventSpan *host_spans = nullptr; // or NULL
};

// Returns whether rows are whole 16-byte vectors at aligned addresses.
inline bool rowsAligned(const cusMat &mat) {
    return isAligned(mat.data, mat.step, 2, 16) && cusi_rowBytes(&mat) % 16 == 0;
}

// Returns the first row of the batch's first frame.
template<class T>
T *frameTop(const Batch &batch, const cusMat &mat) {
    return reinterpret_cast<T *>(static_cast<char *>(mat.data) + batch.top * mat.step);
}

Kind kindOf(const cusRepresentation &representation);
unsigned channelsOf(const cusRepresentation &representation);
Representation representationOf(const Batch &batch, int index);
ValueOptions optionsOf(const Batch &batch, int index);
inline bool usesLevels(Kind kind) {
    return kind == STACKED_HISTOGRAM || kind == MDES_DIFF;
}
inline bool usesSpans(Kind kind) {
    return kind == EVENT_CUBE || kind == OTHER_SURFACE;
}

// windows.cu: the bounds of windows, in events and in time, and where the time bins of STACKED_HISTOGRAM and MDES_DIFF
// begin.
Source sourceOf(const cusEventArrays *events);
cusStatus listWindows(State *state, const cusEventWindow *windows, unsigned count, cudaStream_t stream, Windows *result);
cusStatus findTimeBins(const Batch &batch, int index);
cusStatus listSpans(const Batch &batch);

// sort.cu: tiles, memory for sorted runs, and the sort.
Tiling tilingOf(const cusEventStacker *stacker, unsigned bits);
Tiling bandOf(Tiling tiling, unsigned top);
cusStatus createSort();
// Lays out the workspace for a group of windows. Returns their number, 0 if a window is too long for it.
unsigned planSort(const Batch &batch, const Tiling &tiling, unsigned record_bytes, SortedRuns *sorted);
cusStatus sortWindows(const Batch &batch, const Tiling &band, unsigned record_bytes, const SortedRuns &sorted,
                      unsigned first, unsigned count, bool with_green, bool count_skipped);
// Finds the green levels of TENCODE for the batch's only window, without sorting.
cusStatus findGreenLevels(const Batch &batch, const SortedRuns &sorted);

// Passes over sorted runs: histogram.cu, last_event.cu (MDES and TENCODE), values.cu (the others).
TilePass histogramPass(const Batch &batch, int index);
cusStatus createLastEvent(const cusEventStacker *stacker);
void addLastEventPasses(const Batch &batch, TilePasses *passes);
cusStatus createValues(const cusEventStacker *stacker, State *state);
// Returns log2 of the pixels that a block of tileValuesKernel makes.
unsigned valuesPartBits(const Batch &batch, int index);
TilePass valuesPass(const Batch &batch, int index);

TileKernel orderedKernelFor(bool aligned);

// long.cu: a window through accumulators in device memory.
size_t accumulatorBytes(const cusEventStacker *stacker, Kind kind, unsigned channels);
// Returns whether the batch's only window is long, in a call whose windows have `all_events` events.
bool isLong(const Batch &batch, double all_events);
// Leaves the pixels' last-event keys in the accumulators.
cusStatus findKeys(const Batch &batch, bool count_skipped);
// Makes the window's frame. Not for MDES, TENCODE and ORDERED_DIFF.
cusStatus makeLong(const Batch &batch, int index, bool count_skipped);

// normalize.cu: VOXEL_GRID with `normalize`. Moments of the batch's windows are cleared, summed by the kernels that make
// the values, and turned into scalings.
EventsMoments *momentsOf(const Batch &batch, int index);
EventsScaling *scalingsOf(const Batch &batch, int index);
cusStatus clearMoments(const Batch &batch, int index);
cusStatus findScalings(const Batch &batch, int index, unsigned first, unsigned count);

} // namespace cusi::events

#endif
