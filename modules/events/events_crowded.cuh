// Crowded tiles of short windows. A tile with most of a window's events would keep its block busy long after all others.
// Where there are few windows, kernels have a form with helpers, each one or several further blocks of the same launch: the
// block of a crowded tile leaves it to them. A helper has a share of the window's runs; each of its blocks accumulates a piece
// of the tile from some of their records and adds what it has found to a slot of device memory, and the last block to do so
// makes the pixels. Nobody waits for another block.
#ifndef CUSI_EVENTS_CROWDED_CUH
#define CUSI_EVENTS_CROWDED_CUH

#include "events_tiles.cuh"

namespace cusi::events {

// How many helpers a tile with so many pieces in the sampled runs gets: its share of all events, at least two, if it is
// crowded. Segments end in the middle of a piece, so one piece per run is not counted: together tiles get no more helpers
// than there are.
template<class Record>
__device__ __forceinline__ unsigned helpersGiven(const Helpers &helpers, unsigned pieces, unsigned samples) {
    return pieces >= helpers.crowded * max(samples, 1u)
               ? helpersWanted((pieces - samples) * RECORDS_PER_16_BYTES<Record>, samples, helpers.count)
               : 0;
}

// 16-byte pieces up to the end of the tile's segment of a run.
template<class Record>
__device__ __forceinline__ unsigned piecesUpTo(const uint16_t *ends, unsigned tile) {
    return divUp<unsigned>(ends[tile], RECORDS_PER_16_BYTES<Record>);
}

// The runs of a tile's own block, which leaves if the tile is crowded. In a window of up to 32 runs it finds that out when it
// reads their bounds; in longer ones, here, from a sample.
template<class Record>
__device__ __forceinline__ RunRange runsUnlessCrowded(const TileParams &params, unsigned w, unsigned tile) {
    const unsigned runs = SortedRuns::runs(params.windows[w]), tiles = params.tiling.tiles, lane = threadIdx.x & 31;
    if (runs <= SAMPLED_RUNS)
        return {0, ~0u, params.helpers.crowded * runs};
    const uint16_t *ends = params.sorted.ends +
                           (static_cast<size_t>(w) * params.sorted.runs_per_window + lane * (runs / SAMPLED_RUNS)) * tiles;
    const unsigned pieces = warpSum(piecesUpTo<Record>(ends, tile) - (tile > 0 ? piecesUpTo<Record>(ends, tile - 1) : 0u));
    return {0, ~0u, helpersGiven<Record>(params.helpers, pieces, SAMPLED_RUNS) > 0 ? 0 : ~0u};
}

// What a block that helps makes. count: helpers of this tile, of which the first is number `first` in the window; 0: nothing to
// do. A helper is helpers.readers blocks for each piece of the tile's part, which read the same runs.
struct Help {
    unsigned tile, first, count, first_run, last_run, reader;
    __device__ RunRange runs(const Helpers &helpers) const { return {first_run, last_run, ~0u, reader, helpers.readers}; }
};

// Finds the tile of block number `block` of window w's helpers, and its share of the runs. All helpers of the window come to
// the same division. The block's accumulators lend their shared memory, so that as many blocks fit a multiprocessor as without
// helpers.
template<class Record, int THREADS>
__device__ inline Help helpOf(const TileParams &params, unsigned w, unsigned block, uint32_t *cells) {
    uint32_t *sums = cells, *warps = sums + tuning::MAX_TILES + 1; // sums: of pieces up to the tile before
    Help &result = *reinterpret_cast<Help *>(warps + THREADS / 32);
    const unsigned helper = block / params.helpers.readers, reader = block % params.helpers.readers;
    const unsigned tid = threadIdx.x, tiles = params.tiling.tiles, runs = SortedRuns::runs(params.windows[w]),
                   samples = min(runs, SAMPLED_RUNS), stride = runs / max(samples, 1u);
    const uint16_t *ends = params.sorted.ends + static_cast<size_t>(w) * params.sorted.runs_per_window * tiles;
    if (tid == 0)
        result = {};
    for (unsigned i = tid; i <= tiles; i += THREADS)
        sums[i] = 0;
    __syncthreads();
    constexpr unsigned PER_WARP = SAMPLED_RUNS * 32 / THREADS;
#pragma unroll 8
    for (unsigned tile = tid % 32; tile < tiles; tile += 32) {
        unsigned sum = 0;
#pragma unroll
        for (unsigned k = 0; k < PER_WARP; ++k)
            if (const unsigned sample = tid / 32 * PER_WARP + k; sample < samples)
                sum += piecesUpTo<Record>(ends + static_cast<size_t>(sample * stride) * tiles, tile);
        atomicAdd(sums + tile + 1, sum);
    }
    __syncthreads();
    unsigned before = 0; // helpers of the tiles before
    for (unsigned base = 0; base < tiles; base += THREADS) {
        const unsigned tile = base + tid,
                       given =
                           tile < tiles ? helpersGiven<Record>(params.helpers, sums[tile + 1] - sums[tile], samples) : 0;
        unsigned scanned[1] = {given};
        warpInclusiveScan(scanned, tid & 31);
        if ((tid & 31) == 31)
            warps[tid / 32] = scanned[0];
        __syncthreads();
        unsigned first = before + scanned[0] - given;
        for (unsigned i = 0; i < THREADS / 32; ++i) {
            first += i < tid / 32 ? warps[i] : 0;
            before += warps[i];
        }
        const unsigned number = helper - first;
        if (helper >= first && number < given)
            result = {tile, first, given, runs * number / given, runs * (number + 1) / given, reader};
        __syncthreads();
    }
    const Help help = result;
    __syncthreads();
    return help;
}

// A crowded tile has two helpers or more, so first / 2 is another number for each.
__device__ __forceinline__ size_t slotOf(const Helpers &helpers, const Help &help, unsigned w, unsigned piece) {
    return (static_cast<size_t>(w) * (helpers.count / 2) + help.first / 2) * helpers.pieces + piece;
}

// Adds what the block has accumulated to the tile's slot: add(cell of the slot, value) for cells that are not zero.
template<int THREADS, class Cell, class Add>
__device__ __forceinline__ void addToSlot(const Helpers &helpers, size_t slot, const Cell *cells, Add add) {
    const unsigned size = helpers.slot_bytes / sizeof(Cell);
    Cell *sums = static_cast<Cell *>(helpers.slots) + slot * size;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < size; i += THREADS)
        if (const Cell value = cells[i])
            add(sums + i, value);
    __syncthreads();
}

// Returns true in the last block to have added to the slot, whose cells then hold what all have added.
template<int THREADS, class Cell>
__device__ __forceinline__ bool takeSlot(const Helpers &helpers, const Help &help, size_t slot, Cell *cells) {
    const unsigned size = helpers.slot_bytes / sizeof(uint4);
    uint4 *sums = static_cast<uint4 *>(helpers.slots) + slot * size, *quads = reinterpret_cast<uint4 *>(cells);
    unsigned *ticket = helpers.tickets + slot;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        cells[0] = atomicAdd(ticket, 1u) + 1 == help.count * helpers.readers;
        __threadfence();
    }
    __syncthreads();
    const bool is_last = cells[0];
    __syncthreads();
    if (!is_last)
        return false;
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < size; i += THREADS)
        quads[i] = __ldcg(sums + i);
    for (unsigned i = threadIdx.x; i < size; i += THREADS) // zero again for the next launch
        sums[i] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0)
        *ticket = 0;
    __syncthreads();
    return true;
}

template<int THREADS, class Cell, class Add>
__device__ __forceinline__ bool mergeHelp(const TileParams &params, const Help &help, unsigned w, unsigned piece,
                                          Cell *cells, Add add) {
    const size_t slot = slotOf(params.helpers, help, w, piece);
    addToSlot<THREADS>(params.helpers, slot, cells, add);
    return takeSlot<THREADS>(params.helpers, help, slot, cells);
}

// Adds of cells: their sum, the larger one, and the sums of pairs of counts, of which each block adds 255 at most.
struct AddSum {
    template<class Cell>
    __device__ void operator()(Cell *sum, Cell value) const {
        atomicAdd(sum, value);
    }
};
struct KeepLargest {
    __device__ void operator()(uint32_t *largest, uint32_t value) const { atomicMax(largest, value); }
};
struct AddParts { // two sums of 32 bits, of which the second counts 2^12
    __device__ void operator()(unsigned long long *sum, unsigned long long parts) const {
        const long long low = static_cast<int>(parts), high = static_cast<int>(parts >> 32);
        atomicAdd(sum, static_cast<unsigned long long>(high * 4096 + low));
    }
};
struct AddCounts {
    __device__ void operator()(uint32_t *sum, uint32_t pair) const { atomicAdd(sum, __vminu2(pair, 0x00ff00ff)); }
};

} // namespace cusi::events

#endif
