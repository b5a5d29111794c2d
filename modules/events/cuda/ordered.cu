// Makes tiles of ORDERED_DIFF: sums of polarities that are clipped after each event, so the order of a pixel's events
// matters. A block orders a run's segment of the tile in shared memory; each thread then adds the events of its own pixels.
#include "events/cuda/tiles.cuh"
#include "events/cuda/values.cuh"

#include <cub/block/block_scan.cuh>

namespace cusi::events {

namespace {

constexpr unsigned WORDS = tuning::RUN / 32; // a bit for each event of a run
static_assert(WORDS == THREADS, "a thread has a word");

struct Segment {
    const uint32_t *records; // the run's records
    unsigned begin, end;
};

// Returns the tile's segment of a run of window w.
__device__ Segment segmentOf(const TileParams &params, unsigned w, unsigned tile, unsigned run) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<uint32_t>;
    const SortedRuns &sorted = params.sorted;
    const size_t number = static_cast<size_t>(w) * sorted.runs_per_window + run;
    const uint16_t *ends = sorted.ends + number * params.tiling.tiles;
    return {static_cast<const uint32_t *>(sorted.records) + number * sorted.pitch,
            tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) * PAD : 0, ends[tile]};
}

// Leaves the segment's events of the part in `ordered` in order of time, as 2 * pixel + polarity. Returns their number.
__device__ unsigned orderEvents(const Segment &segment, const TilePart &part, uint16_t *ordered) {
    using Scan = cub::BlockScan<unsigned, THREADS>;
    __shared__ typename Scan::TempStorage scratch;
    __shared__ uint32_t present[WORDS];
    __shared__ unsigned before[WORDS];
    constexpr int SHIFT = 32 - tuning::INDEXED_TILE;
    const auto forEvents = [&](auto visit) {
        for (unsigned i = segment.begin + threadIdx.x; i < segment.end; i += THREADS) {
            const uint32_t record = segment.records[i], pixel = (record >> SHIFT) - part.from;
            if (pixel < part.pixels)
                visit(pixel, (record & ((1u << SHIFT) - 1)) >> 1, record & 1);
        }
    };
    present[threadIdx.x] = 0;
    __syncthreads();
    forEvents([&](unsigned, unsigned index, unsigned) { atomicOr(present + index / 32, 1u << index % 32); });
    __syncthreads();
    unsigned mine = 0, all = 0;
    Scan(scratch).ExclusiveSum(static_cast<unsigned>(__popc(present[threadIdx.x])), mine, all);
    before[threadIdx.x] = mine;
    __syncthreads();
    forEvents([&](unsigned pixel, unsigned index, unsigned polarity) {
        const unsigned rank =
            before[index / 32] + static_cast<unsigned>(__popc(present[index / 32] & ((1u << index % 32) - 1)));
        ordered[rank] = static_cast<uint16_t>(2 * pixel + polarity);
    });
    __syncthreads();
    return all;
}

// Starts from the values that the frame has.
__device__ void loadPart(const TileParams &params, const TilePart &part, int *sums) {
    const Tiling &tiling = params.tiling;
    for (unsigned i = threadIdx.x; i < part.pixels; i += THREADS) {
        const unsigned pixel = part.from + i, row = part.row0 + (pixel >> tiling.col_bits),
                       col = part.col0 + (pixel & ((1u << tiling.col_bits) - 1));
        if (row < tiling.bottom && col < tiling.cols)
            sums[i] = rowOf(static_cast<const int8_t *>(params.repr.frames), params.repr.step,
                            static_cast<size_t>(part.w) * tiling.rows + row)[col];
    }
    __syncthreads();
}

template<bool ALIGNED>
__global__ void __launch_bounds__(THREADS) orderedDiffKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ uint16_t ordered[tuning::RUN];
    int *sums = reinterpret_cast<int *>(dynamic);
    const TilePart part(params);
    if (part.row0 + (part.from >> params.tiling.col_bits) >= params.tiling.bottom)
        return;
    clearShared(reinterpret_cast<uint32_t *>(sums), part.pixels);
    if (params.options.continues)
        loadPart(params, part, sums);
    const unsigned runs = SortedRuns::runs(params.windows[part.w]);
    for (unsigned run = 0; run < runs; ++run) {
        const unsigned count = orderEvents(segmentOf(params, part.w, part.tile, run), part, ordered);
        for (unsigned i = 0; i < count; ++i) {
            const unsigned event = ordered[i], pixel = event / 2;
            if (pixel % THREADS == threadIdx.x)
                sums[pixel] = limited(sums[pixel] + (event & 1 ? 1 : -1), params.options);
        }
        __syncthreads(); // before `ordered` is written again
    }
    const uint4 *quads = reinterpret_cast<const uint4 *>(dynamic);
    writePart<ALIGNED>(
        params, part, 1,
        [&](unsigned i) {
            return make_uint4(clippedBytes(quads[4 * i]), clippedBytes(quads[4 * i + 1]), clippedBytes(quads[4 * i + 2]),
                              clippedBytes(quads[4 * i + 3]));
        },
        [&](unsigned i) { return clipped(static_cast<uint32_t>(sums[i])); });
}

} // namespace

TileKernel orderedKernelFor(bool aligned) {
    return aligned ? orderedDiffKernel<true> : orderedDiffKernel<false>;
}

} // namespace cusi::events
