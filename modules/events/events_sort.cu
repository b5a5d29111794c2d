// Sorting by tile: a block sorts a run of a window's events in shared memory and writes it to memory of its own, so blocks
// need not communicate. The order within a segment is arbitrary. The only atomics on device memory count skipped events.
#include "events_sort.cuh"

#include <algorithm>
#include <type_traits>

namespace cusi::events {

namespace {

constexpr uint64_t MAX_SORTED_EVENTS = CODE_MARK / 2 - 8; // per window

struct SortParams {
    Windows windows;
    Tiling tiling;
    SortedRuns sorted;
    unsigned green_blocks;       // blocks that find green levels, one per window, before those that sort
    unsigned long long *skipped; // NULL: another kernel counts them
};

// Memory for a run's base.
template<class Record>
constexpr size_t BASE_BYTES = std::is_same_v<Record, TimedRecord> ? sizeof(uint32_t) : 0;

template<class Record>
constexpr int PIXEL_BITS = sizeof(Record) == 2 ? tuning::HISTOGRAM_TILE : tuning::INDEXED_TILE;

// TENCODE's green falls with time, so it follows from an event's index: green_begin[g] is the window's first event whose
// green is at most g. A thread finds one by binary search.
__device__ void greenLevels(const Source &source, const Window &window, uint32_t *green_begin) {
    if (threadIdx.x >= GREEN_LEVELS)
        return;
    if (window.first == window.last) { // no event will look it up
        green_begin[threadIdx.x] = 0;
        return;
    }
    const unsigned n = static_cast<unsigned>(window.last - window.first);
    const int64_t *t = source.t + window.first;
    const uint64_t newest = static_cast<uint64_t>(t[n - 1]), dt = newest - static_cast<uint64_t>(t[0]);
    unsigned low = 0, high = dt ? n : 0;
    while (low < high) { // floor(255 age / dt) <= g if and only if 255 age < (g + 1) dt
        const unsigned middle = low + (high - low) / 2;
        const bool reached = 255 * (newest - static_cast<uint64_t>(t[middle])) < (threadIdx.x + 1) * dt;
        high = reached ? middle : high;
        low = reached ? low : middle + 1;
    }
    green_begin[threadIdx.x] = low;
}

// The thread's records to their positions in shared memory.
template<class Record>
__device__ __forceinline__ void scatterRecords(const RankedEvents &ranked, const unsigned *positions, Record *sorted) {
#pragma unroll
    for (int k = 0; k < EVENTS; ++k) {
        const unsigned index = (k / CHUNK * THREADS + threadIdx.x) * CHUNK + k % CHUNK;
        const uint32_t record = element16(ranked.records, k);
        sorted[positionOf(ranked, k, positions)] = static_cast<Record>(
            sizeof(Record) == 2 ? record : ((record >> 1) << (32 - PIXEL_BITS<Record>)) + (index << 1 | (record & 1)));
    }
}

template<class Record, bool ANYWHERE>
__device__ void sortRun(const Source &source, const SortParams &params, unsigned block, char *shared) {
    __shared__ unsigned total;
    Record *sorted = reinterpret_cast<Record *>(shared);
    unsigned *counts = reinterpret_cast<unsigned *>(sorted + params.sorted.pitch);
    const unsigned tid = threadIdx.x, w = block / params.sorted.runs_per_window,
                   run = block % params.sorted.runs_per_window;
    const Window window = params.windows[w];
    const Tiling &tiling = params.tiling;
    const unsigned tiles = tiling.tiles;
    if (run >= SortedRuns::runs(window))
        return;
    const unsigned long long start = window.first / CHUNK + (1ull * run * tuning::RUN) / CHUNK + tid;
    for (unsigned i = tid; i < (tiles + 1) * COPIES; i += THREADS)
        counts[i] = 0;
    Chunk chunk[EVENTS / CHUNK];
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v)
        load<ANYWHERE>(source, window, start + v * THREADS, chunk[v]);
    __syncthreads();
    RankedEvents ranked;
    const unsigned outside = rankEvents(tiling, chunk, counts + tid % COPIES, ranked);
    __syncthreads();
    countsToPositions<Record>(tiles, counts, params.sorted.ends + static_cast<size_t>(block) * tiles, total);
    __syncthreads();
    scatterRecords(ranked, counts + tid % COPIES, sorted);
    __syncthreads();
    writeRun<Record>(params.sorted, block, reinterpret_cast<const uint4 *>(sorted), total);
    countSkipped(outside, params.skipped);
}

// ANYWHERE: for arrays that are not aligned. Aligned ones take the other kernel.
template<class Record, bool ANYWHERE>
__global__ void __launch_bounds__(tuning::SORT_THREADS, tuning::SORT_BLOCKS)
    sortKernel(const Source source, const SortParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    if (blockIdx.x < params.green_blocks)
        greenLevels(source, params.windows[blockIdx.x], params.sorted.green_begin + blockIdx.x * GREEN_LEVELS);
    else
        sortRun<Record, ANYWHERE>(source, params, blockIdx.x - params.green_blocks, reinterpret_cast<char *>(dynamic));
}

constexpr size_t GREEN_BYTES = GREEN_LEVELS * sizeof(uint32_t); // of a window

} // namespace

// The frame in tiles of 2^bits pixels: as few as possible, and of those as wide as possible.
Tiling tilingOf(const cusEventStacker *stacker, unsigned bits) {
    Tiling best = {};
    const unsigned rows = static_cast<unsigned>(stacker->rows), cols = static_cast<unsigned>(stacker->cols);
    for (unsigned col_bits = STRIP_BITS; col_bits <= bits; ++col_bits) { // the narrowest tile is a strip
        const unsigned row_bits = bits - col_bits, tiles_per_row = divUp(cols, 1u << col_bits),
                       tiles = tiles_per_row * divUp(rows, 1u << row_bits);
        if (tiles_per_row <= tuning::MAX_TILES && (best.tiles == 0 || tiles <= best.tiles))
            best = {rows, cols, 0, rows, row_bits, col_bits, tiles_per_row, tiles};
    }
    return best;
}

// Rows from `top` on, at most MAX_TILES tiles of them. All bands have about the same height.
Tiling bandOf(Tiling tiling, unsigned top) {
    const unsigned left = divUp(tiling.rows - top, 1u << tiling.row_bits), most = tuning::MAX_TILES / tiling.tiles_per_row,
                   tile_rows = divUp(left, divUp(left, most));
    tiling.top = top;
    tiling.bottom = std::min(tiling.rows, top + (tile_rows << tiling.row_bits));
    tiling.tiles = tile_rows * tiling.tiles_per_row;
    return tiling;
}

// The longest window, in runs, that the workspace holds.
template<class Record>
uint64_t runsThatFit(unsigned tiles) {
    return (tuning::SORTED_BYTES - GREEN_BYTES) /
           (runPitch<Record>(tiles) * sizeof(Record) + tiles * sizeof(uint16_t) + BASE_BYTES<Record>);
}

template<class Record>
unsigned planSort(const Batch &batch, const Tiling &tiling, SortedRuns *sorted) {
    const unsigned tiles = std::min<unsigned>(tiling.tiles, tuning::MAX_TILES);
    const uint64_t runs = SortedRuns::mostRuns(batch.max_events);
    sorted->pitch = runPitch<Record>(tiles);
    const uint64_t record_bytes = runs * sorted->pitch * sizeof(Record),
                   window_bytes = record_bytes + GREEN_BYTES + runs * (tiles * sizeof(uint16_t) + BASE_BYTES<Record>);
    const unsigned most = static_cast<unsigned>(std::min<uint64_t>(tuning::SORTED_BYTES / window_bytes, batch.count));
    if (most == 0 || batch.max_events > MAX_SORTED_EVENTS)
        return 0;
    const unsigned group = divUp(batch.count, divUp(batch.count, most));
    char *memory = batch.state->sorted;
    sorted->runs_per_window = static_cast<unsigned>(runs);
    sorted->records = memory;
    sorted->green_begin = reinterpret_cast<uint32_t *>(memory += group * record_bytes);
    memory += group * GREEN_BYTES;
    if constexpr (BASE_BYTES < Record >> 0)
        sorted->bases = reinterpret_cast<uint32_t *>(memory);
    sorted->ends = reinterpret_cast<uint16_t *>(memory + group * runs * BASE_BYTES<Record>);
    return group;
}

template<class Record>
cusStatus sortWindows(const Batch &batch, const Tiling &band, const SortedRuns &sorted, unsigned first, unsigned count,
                      bool with_green, bool count_skipped) {
    const SortParams params = {batch.windows.from(first), band, sorted, with_green ? count : 0,
                               count_skipped ? batch.state->skipped : nullptr};
    const auto kernel = batch.source.aligned ? sortKernel<Record, false> : sortKernel<Record, true>;
    return launchOverlapped(STACK, kernel, params.green_blocks + count * sorted.runs_per_window, tuning::SORT_THREADS,
                            sharedBytes<Record>(sorted.pitch), batch.stream, batch.source, params);
}

cusStatus findGreenLevels(const Batch &batch, const Tiling &tiling, const SortedRuns &sorted, unsigned first,
                          unsigned count) {
    return launch(STACK, sortKernel<uint32_t, false>, count, tuning::SORT_THREADS, 0, batch.stream, batch.source,
                  SortParams{batch.windows.from(first), tiling, sorted, count, nullptr});
}

cusStatus createSort() {
    for (const auto kernel : {sortKernel<uint32_t, false>, sortKernel<uint32_t, true>})
        CUSI_CUDA(CREATE,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(sharedBytes<uint32_t>(runPitch<uint32_t>(tuning::MAX_TILES)))));
    return createTimedSort();
}

template uint64_t runsThatFit<uint16_t>(unsigned);
template uint64_t runsThatFit<uint32_t>(unsigned);
template uint64_t runsThatFit<TimedRecord>(unsigned);
template unsigned planSort<uint16_t>(const Batch &, const Tiling &, SortedRuns *);
template unsigned planSort<uint32_t>(const Batch &, const Tiling &, SortedRuns *);
template unsigned planSort<TimedRecord>(const Batch &, const Tiling &, SortedRuns *);
template cusStatus sortWindows<uint16_t>(const Batch &, const Tiling &, const SortedRuns &, unsigned, unsigned, bool, bool);
template cusStatus sortWindows<uint32_t>(const Batch &, const Tiling &, const SortedRuns &, unsigned, unsigned, bool, bool);

} // namespace cusi::events
