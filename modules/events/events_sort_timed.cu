// Sorting by tile for the voxel grid of a long window, with records that carry the event's time (events_cuda.cuh).
#include "events_sort.cuh"
#include "events_values.cuh"

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

// Stages 2 * (position less the run's base) of each event in shared memory, by index in the run. Lanes read times that are
// neighbors, and each warp those of its own events. `start`: the run's first event, which may lie before its window. Returns
// the base; `seen` receives the bits of all differences.
__device__ __forceinline__ uint32_t stagePositions(const Source &source, const TimedSortParams &params,
                                                   const Window &window, unsigned long long start, uint32_t *staged,
                                                   uint32_t &seen) {
    const VoxelTimes times(source.t, params.bins, params.whole);
    const int64_t *t = source.t + start;
    const unsigned last = static_cast<unsigned>(min(window.last - start, 1ull * tuning::RUN) - 1);
    const uint32_t base = times.position(t[window.first > start ? window.first - start : 0]);
    seen = 0;
#pragma unroll
    for (unsigned v = 0; v < EVENTS / CHUNK; ++v) {
        const unsigned first = (v * THREADS + (threadIdx.x & ~31u)) * CHUNK + (threadIdx.x & 31);
        int64_t loaded[CHUNK];
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k)
            loaded[k] = __ldg(t + min(first + k * 32, last));
#pragma unroll
        for (unsigned k = 0; k < CHUNK; ++k) {
            const uint32_t difference = times.position(loaded[k]) - base;
            staged[first + k * 32] = difference * 2;
            seen |= difference;
        }
    }
    return base;
}

// The thread's records, from what its warp has staged. A wide run has indices instead.
__device__ __forceinline__ void timeRecords(const RankedEvents &ranked, unsigned time_bits, bool wide,
                                            const uint32_t *staged, uint32_t (&records)[EVENTS]) {
#pragma unroll
    for (int k = 0; k < EVENTS; k += 4) {
        const unsigned index = (k / CHUNK * THREADS + threadIdx.x) * CHUNK + k % CHUNK;
        const uint4 four = *reinterpret_cast<const uint4 *>(staged + index);
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
    Chunk chunk[EVENTS / CHUNK];
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v)
        load<ANYWHERE>(source, window, start + tid + v * THREADS, chunk[v]);
    uint32_t seen;
    const uint32_t base = stagePositions(source, params, window, start * CHUNK, sorted, seen);
    __syncthreads();
    RankedEvents ranked;
    unsigned outside = rankEvents(tiling, chunk, counts + tid % COPIES, ranked);
    const bool wide = __syncthreads_or(seen >> time_bits != 0);
    if (tid == 0)
        params.sorted.bases[block] = wide ? WIDE_RUN : TIMED + 2 * base;
    countsToPositions<TimedRecord>(tiles, counts, params.sorted.ends + static_cast<size_t>(block) * tiles, total);
    uint32_t records[EVENTS];
    timeRecords(ranked, time_bits, wide, sorted, records);
    __syncthreads();
    const unsigned *positions = counts + tid % COPIES;
#pragma unroll
    for (int k = 0; k < EVENTS; ++k)
        sorted[positions[(ranked.tile_rank[k] >> 16) * COPIES] + (ranked.tile_rank[k] & 0xffff)] = records[k];
    __syncthreads();
    uint4 *out = reinterpret_cast<uint4 *>(static_cast<uint32_t *>(params.sorted.records) +
                                           static_cast<size_t>(block) * params.sorted.pitch);
    for (unsigned i = tid; i < total / RECORDS_PER_16_BYTES<TimedRecord>; i += THREADS)
        out[i] = dynamic[i];
    if (params.skipped) {
        outside = warpSum(outside);
        if ((tid & 31) == 0 && outside)
            atomicAdd(params.skipped, static_cast<unsigned long long>(outside));
    }
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
