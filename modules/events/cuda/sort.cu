// Sorting by tile: a block sorts a run of a window's events in shared memory and writes it to memory of its own, so blocks
// need not communicate. The order within a segment is arbitrary. The only atomics on device memory count skipped events.
#include "events/cuda/stages.cuh"

#include <cub/block/block_scan.cuh>

#include <algorithm>

namespace cusi::events {

namespace tuning {
constexpr int SORT_BLOCKS = 2; // blocks per multiprocessor
// Counters per tile, chosen by lane, so that fewer threads of a warp add to the same one when events are crowded.
constexpr int COUNTER_COPIES = 4;
} // namespace tuning

namespace {

constexpr uint64_t MAX_SORTED_EVENTS = CODE_MARK / 2 - 8; // in a window

struct SortParams {
    Windows windows;
    Tiling tiling;
    SortedRuns sorted;
    unsigned green_blocks;       // blocks that find green levels, one per window, before those that sort
    unsigned long long *skipped; // NULL: another kernel counts them
};

constexpr int THREADS = tuning::SORT_THREADS, EVENTS = tuning::RUN / THREADS, COPIES = tuning::COUNTER_COPIES;
static_assert(EVENTS % CHUNK == 0 && tuning::RUN <= 1 << (31 - tuning::INDEXED_TILE), "a record is 32 bits");

// Returns the records that a sorted run takes in memory, with each segment at a multiple of 16 bytes.
constexpr unsigned runPitch(unsigned tiles, unsigned record_bytes) {
    return tuning::RUN + 16 / record_bytes * (tiles + 1);
}

// Returns the shared memory for a run and its tiles' counters.
constexpr size_t sharedBytes(unsigned pitch, unsigned record_bytes) {
    return size_t{pitch} * record_bytes + (pitch - tuning::RUN) / (16 / record_bytes) * COPIES * sizeof(unsigned);
}

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

// ---- A run -------------------------------------------------------------------------------------------------------------

// A thread's events. tile_rank: tile << 16 | rank in its counter; records: 2 * pixel in the tile + polarity, packed.
struct RankedEvents {
    uint32_t tile_rank[EVENTS], records[EVENTS / 2];
};

// Return the largest and the smallest of four packed 16-bit pairs.
__device__ inline unsigned max16(const uint32_t *pairs) {
    const uint32_t m = __vmaxu2(__vmaxu2(pairs[0], pairs[1]), __vmaxu2(pairs[2], pairs[3]));
    return max(m & 0xffff, m >> 16);
}
__device__ inline unsigned min16(const uint32_t *pairs) {
    const uint32_t m = __vminu2(__vminu2(pairs[0], pairs[1]), __vminu2(pairs[2], pairs[3]));
    return min(m & 0xffff, m >> 16);
}
__device__ inline uint32_t replicate16(uint32_t value) {
    return value << 16 | value;
}

// Computes tiles and records of a chunk, two events at a time. Tiles are valid if the chunk lies wholly inside the window
// and the band.
__device__ __forceinline__ void packChunk(const Tiling &tiling, const Chunk &c, uint32_t (&tile)[4], uint32_t *records) {
    const uint32_t row_mask = replicate16((1u << tiling.row_bits) - 1), col_mask = replicate16((1u << tiling.col_bits) - 1),
                   tile_row_mask = replicate16(0xffff >> tiling.row_bits),
                   tile_col_mask = replicate16(0xffff >> tiling.col_bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t tile_row = (c.y[i] >> tiling.row_bits & tile_row_mask) - replicate16(tiling.top >> tiling.row_bits),
                       tile_col = c.x[i] >> tiling.col_bits & tile_col_mask,
                       pixel = (c.y[i] & row_mask) << tiling.col_bits | (c.x[i] & col_mask),
                       nonzero = ((c.p[i / 2] & 0x7f7f7f7f) + 0x7f7f7f7f) | c.p[i / 2]; // bit 7 of each byte
        tile[i] = tile_row * tiling.tiles_per_row + tile_col;
        records[i] = pixel * 2 + (__byte_perm(nonzero, 0, i % 2 ? 0x4342 : 0x4140) >> 7 & 0x00010001);
    }
}

__device__ __forceinline__ bool allInside(const Tiling &tiling, const Chunk &c) {
    return c.begin == 0 && c.end == CHUNK && max16(c.x) < tiling.cols && max16(c.y) < tiling.bottom &&
           (tiling.top == 0 || min16(c.y) >= tiling.top);
}

// Computes the tiles of a chunk event by event. Events outside the window, the frame or the band go to an extra last tile,
// which is not written. Adds the number outside the frame to `outside`.
__device__ __forceinline__ void tilesOfEach(const Tiling &tiling, const Chunk &c, uint32_t (&tile)[4], unsigned &outside) {
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const unsigned row = c.row(i), col = c.col(i);
        outside += c.has(i) && (row >= tiling.rows || col >= tiling.cols);
        const bool inside = c.has(i) && col < tiling.cols && row >= tiling.top && row < tiling.bottom;
        const uint32_t number = inside ? tiling.tile(row, col) : tiling.tiles;
        tile[i / 2] = i % 2 ? tile[i / 2] | number << 16 : number;
    }
}

// Counts the thread's events by tile and ranks them. Returns how many lie outside the frame.
__device__ __forceinline__ unsigned rankEvents(const Tiling &tiling, const Chunk (&chunk)[EVENTS / CHUNK], unsigned *counts,
                                               RankedEvents &ranked) {
    unsigned outside = 0;
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v) {
        const Chunk &c = chunk[v];
        uint32_t tile[4];
        packChunk(tiling, c, tile, ranked.records + v * 4);
        if (!allInside(tiling, c))
            tilesOfEach(tiling, c, tile, outside);
        unsigned rank[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) // issues all atomics before using a result
            rank[i] = atomicAdd(counts + element16(tile, i) * COPIES, 1u);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            ranked.tile_rank[v * CHUNK + i] = element16(tile, i) << 16 | rank[i];
    }
    return outside;
}

// Turns counts into positions in the sorted run, one thread per tile. `total` receives the length of the run.
template<class Record>
__device__ __forceinline__ void countsToPositions(unsigned tiles, unsigned *counts, uint16_t *ends, unsigned &total) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>;
    using Scan = cub::BlockScan<unsigned, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage scratch;
    const unsigned tid = threadIdx.x;
    unsigned count[COPIES], events = 0, at;
#pragma unroll
    for (int i = 0; i < COPIES; ++i)
        events += count[i] = tid <= tiles ? counts[tid * COPIES + i] : 0;
    Scan(scratch).ExclusiveSum(divUp(events, PAD) * PAD, at);
    if (tid < tiles)
        ends[tid] = static_cast<uint16_t>(at + events);
    if (tid == tiles)
        total = at;
    if (tid <= tiles)
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            counts[tid * COPIES + i] = at;
            at += count[i];
        }
}

// Writes the thread's records to their positions in shared memory.
template<class Record>
__device__ __forceinline__ void scatterRecords(const RankedEvents &ranked, const unsigned *positions, Record *sorted) {
#pragma unroll
    for (int k = 0; k < EVENTS; ++k) {
        const unsigned index = (k / CHUNK * THREADS + threadIdx.x) * CHUNK + k % CHUNK,
                       position = positions[(ranked.tile_rank[k] >> 16) * COPIES] + (ranked.tile_rank[k] & 0xffff);
        const uint32_t record = element16(ranked.records, k);
        sorted[position] = static_cast<Record>(
            sizeof(Record) == 2 ? record : (record >> 1) << (32 - tuning::INDEXED_TILE) | index << 1 | (record & 1));
    }
}

template<class Record, bool UNALIGNED>
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
        load<UNALIGNED>(source, window, start + v * THREADS, chunk[v]);
    __syncthreads();
    RankedEvents ranked;
    const unsigned outside = rankEvents(tiling, chunk, counts + tid % COPIES, ranked);
    __syncthreads();
    countsToPositions<Record>(tiles, counts, params.sorted.ends + static_cast<size_t>(block) * tiles, total);
    __syncthreads();
    scatterRecords(ranked, counts + tid % COPIES, sorted);
    __syncthreads();
    uint4 *out = reinterpret_cast<uint4 *>(static_cast<Record *>(params.sorted.records) +
                                           static_cast<size_t>(block) * params.sorted.pitch);
    for (unsigned i = tid; i < total / RECORDS_PER_16_BYTES<Record>; i += THREADS)
        out[i] = reinterpret_cast<const uint4 *>(sorted)[i];
    countSkipped(outside, params.skipped);
}

// UNALIGNED: the kernel for arrays that are not aligned.
template<class Record, bool UNALIGNED>
__global__ void __launch_bounds__(tuning::SORT_THREADS, tuning::SORT_BLOCKS)
    sortKernel(const Source source, const SortParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    if (blockIdx.x < params.green_blocks)
        greenLevels(source, params.windows[blockIdx.x], params.sorted.green_begin + blockIdx.x * GREEN_LEVELS);
    else
        sortRun<Record, UNALIGNED>(source, params, blockIdx.x - params.green_blocks, reinterpret_cast<char *>(dynamic));
}

} // namespace

// Divides the frame into the fewest tiles of 2^bits pixels, as wide as possible.
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

// Returns the band of at most MAX_TILES tiles that begins at row `top`. All bands have about the same height.
Tiling bandOf(Tiling tiling, unsigned top) {
    const unsigned left = divUp(tiling.rows - top, 1u << tiling.row_bits), most = tuning::MAX_TILES / tiling.tiles_per_row,
                   tile_rows = divUp(left, divUp(left, most));
    tiling.top = top;
    tiling.bottom = std::min(tiling.rows, top + (tile_rows << tiling.row_bits));
    tiling.tiles = tile_rows * tiling.tiles_per_row;
    return tiling;
}

unsigned planSort(const Batch &batch, const Tiling &tiling, unsigned record_bytes, SortedRuns *sorted) {
    const unsigned tiles = std::min<unsigned>(tiling.tiles, tuning::MAX_TILES);
    const uint64_t runs = SortedRuns::maxRuns(batch.max_events);
    sorted->pitch = runPitch(tiles, record_bytes);
    const uint64_t all_bytes = runs * sorted->pitch * record_bytes,
                   window_bytes = all_bytes + GREEN_LEVELS * sizeof(uint32_t) + runs * tiles * sizeof(uint16_t);
    const unsigned most = static_cast<unsigned>(std::min<uint64_t>(tuning::SORTED_BYTES / window_bytes, batch.count));
    if (most == 0 || batch.max_events > MAX_SORTED_EVENTS)
        return 0;
    const unsigned group = divUp(batch.count, divUp(batch.count, most));
    sorted->runs_per_window = static_cast<unsigned>(runs);
    sorted->records = batch.state->sorted;
    sorted->green_begin = reinterpret_cast<uint32_t *>(batch.state->sorted + group * all_bytes);
    sorted->ends = reinterpret_cast<uint16_t *>(sorted->green_begin + group * GREEN_LEVELS);
    return group;
}

cusStatus sortWindows(const Batch &batch, const Tiling &band, unsigned record_bytes, const SortedRuns &sorted,
                      unsigned first, unsigned count, bool with_green, bool count_skipped) {
    const SortParams params = {batch.windows.from(first), band, sorted, with_green ? count : 0,
                               count_skipped ? batch.state->skipped : nullptr};
    const bool aligned = batch.source.aligned;
    const auto kernel = record_bytes == 2 ? (aligned ? sortKernel<uint16_t, false> : sortKernel<uint16_t, true>)
                                          : (aligned ? sortKernel<uint32_t, false> : sortKernel<uint32_t, true>);
    return launchOverlapped(STACK, kernel, params.green_blocks + count * sorted.runs_per_window, tuning::SORT_THREADS,
                            sharedBytes(sorted.pitch, record_bytes), batch.stream, batch.source, params);
}

cusStatus findGreenLevels(const Batch &batch, const SortedRuns &sorted) {
    return launch(STACK, sortKernel<uint32_t, false>, 1, tuning::SORT_THREADS, 0, batch.stream, batch.source,
                  SortParams{batch.windows, {}, sorted, 1, nullptr});
}

cusStatus createSort() {
    for (const auto kernel : {sortKernel<uint32_t, false>, sortKernel<uint32_t, true>})
        CUSI_CUDA(CREATE, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(sharedBytes(runPitch(tuning::MAX_TILES, 4), 4))));
    return CUS_OK;
}

} // namespace cusi::events
