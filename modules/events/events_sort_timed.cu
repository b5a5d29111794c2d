// Sorting by tile for the voxel grid of a long window, with records that carry the event's time (events_cuda.cuh).
#include "events_sort.cuh"
#include "events_values.cuh"

#include <cuda_pipeline_primitives.h>

namespace cusi::events {

namespace {

struct TimedSortParams {
    Windows windows; // parts
    Tiling tiling;
    SortedRuns sorted;
    unsigned long long *skipped; // NULL: another kernel counts them
    Window whole;
    unsigned bins;
};

constexpr int WARP_EVENTS = 32 * EVENTS;
static_assert(EVENTS == 2 * CHUNK, "half of a run's times fit where its records will be");

// A run's times as its threads read them: a warp those of its own events, in rows of 32 neighbors. Past the last event of the
// window, the last one's time.
struct RunTimes {
    const int64_t *t;
    unsigned last, first; // the run's last event, and the thread's first
    __device__ __forceinline__ RunTimes(const Source &source, const Window &window, unsigned long long start)
        : t(source.t + start), last(static_cast<unsigned>(min(window.last - start, 1ull * tuning::RUN) - 1)),
          first((threadIdx.x & ~31u) * CHUNK + (threadIdx.x & 31)) {}
    // Row k of the warp's chunks v.
    __device__ __forceinline__ const int64_t *row(unsigned v, unsigned k) const {
        return t + min(v * THREADS * CHUNK + first + k * 32, last);
    }
};

// From times to positions. The times of a warp's first chunks wait in shared memory, where the records come later, those of
// the second in registers, so that all loads of a thread are under way at once.
struct Stage {
    uint32_t *words; // the warp's
    int64_t start, end, first, second[CHUNK];

    __device__ __forceinline__ void loadFirst(const RunTimes &run, unsigned first_in_window, const int64_t *t,
                                              const Window &whole) {
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k)
            __pipeline_memcpy_async(reinterpret_cast<int64_t *>(words) + k * 32 + threadIdx.x % 32, run.row(0, k),
                                    sizeof *t);
        __pipeline_commit();
        start = __ldg(t + whole.first);
        end = __ldg(t + whole.last - 1);
        first = __ldg(run.t + first_in_window);
    }
    __device__ __forceinline__ void loadSecond(const RunTimes &run) {
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k)
            second[k] = __ldg(run.row(1, k));
    }

    // Leaves 2 * (position less the base) of each event in shared memory, by index in the run. Returns the base, the position
    // of the run's first event; `seen` receives the bits of all differences.
    __device__ __forceinline__ uint32_t toPositions(unsigned bins, uint32_t &seen) const {
        const VoxelTimes times(start, end, bins);
        const uint32_t base = times.position(first);
        const unsigned lane = threadIdx.x % 32;
        uint32_t found[EVENTS];
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k)
            found[CHUNK + k] = times.position(second[k]) - base;
        __pipeline_wait_prior(0);
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k)
            found[k] = times.position(reinterpret_cast<const int64_t *>(words)[k * 32 + lane]) - base;
        __syncwarp(); // all lanes have read their times
        seen = 0;
#pragma unroll
        for (unsigned k = 0; k < EVENTS; ++k) {
            words[k * 32 + lane] = found[k] * 2;
            seen |= found[k];
        }
        return base;
    }
};

// The thread's records, from what its warp has staged. A wide run has indices instead.
__device__ __forceinline__ void timeRecords(const RankedEvents &ranked, unsigned time_bits, bool wide,
                                            const uint32_t *staged, uint32_t (&records)[EVENTS]) {
    const unsigned lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < EVENTS; k += 4) {
        const unsigned index = (k / CHUNK * THREADS + threadIdx.x) * CHUNK + k % CHUNK;
        const uint4 four = *reinterpret_cast<const uint4 *>(staged + (k / CHUNK * 32 + lane) * CHUNK + k % CHUNK);
        const uint32_t times[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t record = element16(ranked.records, k + i);
            records[k + i] = (record >> 1) << (time_bits + 1) | (wide ? (index + i) * 2 : times[i]) | (record & 1);
        }
    }
}

// ANYWHERE: for arrays that are not aligned. Aligned ones take the other kernel.
template<bool ANYWHERE>
__global__ void __launch_bounds__(tuning::SORT_THREADS, tuning::SORT_BLOCKS)
    sortTimedKernel(const Source source, const TimedSortParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ unsigned total;
    uint32_t *sorted = reinterpret_cast<uint32_t *>(dynamic);
    unsigned *counts = sorted + params.sorted.pitch;
    const unsigned tid = threadIdx.x, block = blockIdx.x, w = block / params.sorted.runs_per_window,
                   run = block % params.sorted.runs_per_window;
    const Window window = params.windows[w];
    const Tiling &tiling = params.tiling;
    const unsigned tiles = tiling.tiles, time_bits = 31 - tiling.row_bits - tiling.col_bits;
    if (run >= SortedRuns::runs(window))
        return;
    const unsigned long long start = window.first / CHUNK + (1ull * run * tuning::RUN) / CHUNK;
    for (unsigned i = tid; i < (tiles + 1) * COPIES; i += THREADS)
        counts[i] = 0;
    const RunTimes times(source, window, start * CHUNK);
    Stage stage;
    stage.words = sorted + tid / 32 * WARP_EVENTS;
    stage.loadFirst(times, run == 0 ? static_cast<unsigned>(window.first % CHUNK) : 0, source.t, params.whole);
    Chunk chunk[EVENTS / CHUNK];
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v)
        load<ANYWHERE>(source, window, start + tid + v * THREADS, chunk[v]);
    stage.loadSecond(times);
    uint32_t seen;
    const uint32_t base = stage.toPositions(params.bins, seen);
    __syncthreads();
    RankedEvents ranked;
    const unsigned outside = rankEvents(tiling, chunk, counts + tid % COPIES, ranked);
    const bool wide = __syncthreads_or(seen >> time_bits != 0);
    if (tid == 0)
        params.sorted.bases[block] = wide ? WIDE_RUN : TIMED + 2 * base;
    countsToPositions<TimedRecord>(tiles, counts, params.sorted.ends + static_cast<size_t>(block) * tiles, total);
    uint32_t records[EVENTS];
    timeRecords(ranked, time_bits, wide, stage.words, records);
    __syncthreads();
    const unsigned *positions = counts + tid % COPIES;
#pragma unroll
    for (int k = 0; k < EVENTS; ++k)
        sorted[positionOf(ranked, k, positions)] = records[k];
    __syncthreads();
    writeRun<TimedRecord>(params.sorted, block, dynamic, total);
    countSkipped(outside, params.skipped);
}

} // namespace

template<>
cusStatus sortWindows<TimedRecord>(const Batch &batch, const Tiling &band, const SortedRuns &sorted, unsigned first,
                                   unsigned count, bool, bool count_skipped) {
    const TimedSortParams params = {
        batch.windows.from(first), band, sorted, count_skipped ? batch.state->skipped : nullptr, batch.whole, batch.bins};
    const auto kernel = batch.source.aligned ? sortTimedKernel<false> : sortTimedKernel<true>;
    return launchOverlapped(STACK, kernel, count * sorted.runs_per_window, tuning::SORT_THREADS,
                            sharedBytes<TimedRecord>(sorted.pitch), batch.stream, batch.source, params);
}

cusStatus createTimedSort() {
    for (const auto kernel : {sortTimedKernel<false>, sortTimedKernel<true>})
        CUSI_CUDA(CREATE, cudaFuncSetAttribute(
                              kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(sharedBytes<TimedRecord>(runPitch<TimedRecord>(tuning::MAX_TILES)))));
    return CUS_OK;
}

} // namespace cusi::events
