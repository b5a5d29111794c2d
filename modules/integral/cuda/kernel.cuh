// The integral kernel reads the source once and writes each table once. A block computes one tile. Blocks take the tiles
// row by row, so a block waits only for blocks with smaller numbers. Like CUB's, the look-back relies on blocks starting in
// the order of blockIdx.
#ifndef CUSI_INTEGRAL_KERNEL_CUH
#define CUSI_INTEGRAL_KERNEL_CUH

#include "integral/cuda/store.cuh"

namespace cusi::integral {

// Makes the first blocks of a throttled launch start one after the other.
__device__ __forceinline__ void staggerStart(const SlabParams &slab) {
    if (blockIdx.x < slab.first_wave) {
        const long long start = clock64(), wait = static_cast<long long>(blockIdx.x) * slab.start_interval;
        while (clock64() - start < wait) {
        }
    }
}

// Waits until all but the last max_writers tiles before this one are written.
__device__ inline void awaitTurnToWrite(const SlabParams &slab, uint32_t tiles_before) {
    const uint32_t tiles = tiles_before + blockIdx.x - slab.max_writers + 1;
    uint32_t written;
    do
        written = loadRelaxed(&slab.state->tiles_written);
    while (static_cast<int32_t>(written - tiles) < 0);
}

// ---- Sources of several channels, batches -----------------------------------------------------------------------------

// Returns the number of channels, or images of a batch, that the blocks take in turn.
template<class SumTable, class SquareTable>
__device__ __forceinline__ unsigned channelsOf(const SumTable &sum_table, const SquareTable &square_table) {
    if constexpr (SumTable::INTERLEAVED || SumTable::BATCHED)
        return sum_table.channels;
    else if constexpr (SquareTable::INTERLEAVED)
        return square_table.channels;
    else
        return 1;
}
template<class T>
__device__ __forceinline__ decltype(auto) ofChannel(const T &table, unsigned channel) {
    if constexpr (T::INTERLEAVED || T::BATCHED)
        return table.ofChannel(channel);
    else
        return (table);
}

// ---- The kernel -----------------------------------------------------------------------------------------------------

// Sums what is left of the tile, in parts, for both tables together, since the number of round trips decides the time.
template<class First, class... More>
__device__ inline void lookBackRows(const Position &at, First first, More... more) {
    static_assert(((First::PARTS == More::PARTS) && ...), "their threads have the same rows");
    for (unsigned tile = first.firstTile(); tile < at.tile_x; tile += First::PARTS) {
        do
            first.load(), (more.load(), ...);
        while (!(first.isComplete(at.epoch) && ... && more.isComplete(at.epoch)));
        first.add(), (more.add(), ...);
    }
    first.store(), (more.store(), ...);
}

// Publishes the tile's sums and finds what is left of and above it, and then of each warp.
template<class First, class... More>
__device__ __forceinline__ void lookBack(const Position &at, First &first, More &...more) {
    constexpr unsigned THREADS = 32 * First::ROW_WARPS;
    if (at.warp < First::FIRST_ROW_WARP) {
        first.lookBackColumns(), (more.lookBackColumns(), ...);
    } else {
        first.publishRows(), (more.publishRows(), ...);
        lookBackRows(at, first.rowLookBack(), more.rowLookBack()...);
        asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); // the warps that come here
        first.lookBackCorner(), (more.lookBackCorner(), ...);
    }
    __syncthreads();
    first.computeWarpStarts(), (more.computeWarpStarts(), ...);
}

// Returns where the thread works in a tile, without the epoch.
template<class Tile>
__device__ __forceinline__ Position positionIn(unsigned tile, const SlabParams &slab) {
    Position at;
    at.lane = threadIdx.x % 32;
    at.warp = threadIdx.x / 32;
    at.warp_x = at.warp % Tile::WARPS_X;
    at.warp_y = at.warp / Tile::WARPS_X;
    at.tile_y = tile / slab.tile_cols;
    at.tile_x = tile - at.tile_y * slab.tile_cols;
    return at;
}

// Returns the number of the launch after the last one.
__device__ __forceinline__ uint32_t epochAfter(uint32_t last) {
    return max((last + 1) & MAX_EPOCH, 1u);
}

// Bytes of dynamic shared memory for the scans.
template<class Pixel, class SquareTable, class Tile>
constexpr size_t SCAN_BYTES = EXISTS<SquareTable>
                                  ? sizeof(uint32_t[Tile::THREADS]) * RowScan<Pixel, true, Tile::WARP_ROWS>::SHARED_WORDS
                                  : 0;

template<class Pixel, class SumTable, class SquareTable, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    integralKernel(const SlabParams slab, const SumTable sum_table, const SquareTable square_table) {
    constexpr bool BOTH = EXISTS<SumTable> && EXISTS<SquareTable>,
                   INTERLEAVED = SumTable::INTERLEAVED || SquareTable::INTERLEAVED,
                   IN_TURN = INTERLEAVED || SumTable::BATCHED;
    static_assert(!IN_TURN || (!BOTH && !Tile::THROTTLED), "");
    using Sums = TableTile<Pixel, false, typename SingleOf<SumTable>::Type, Tile, BOTH ? 2 : 1>;
    using Squares = TableTile<Pixel, true, SquareTable, Tile, BOTH ? 2 : 1>;
    __shared__ alignas(16) Pixels4<Pixel> shared_pixels[Tile::WARPS * Tile::WARP_ROWS][32];
    __shared__ typename Sums::Shared sum_shared;
    __shared__ typename Squares::Shared squares_shared;
    __shared__ uint32_t epoch, tiles_before;
    extern __shared__ __align__(16) uint32_t scan_memory[]; // if rows are staged, a StagedRow for each warp follows
    startInOrder();
    if (threadIdx.x == 0) {
        const uint2 state = __ldcg(reinterpret_cast<const uint2 *>(slab.state));
        epoch = epochAfter(state.x);
        tiles_before = state.y;
    }
    const unsigned channels = channelsOf(sum_table, square_table);
    const unsigned tile = blockIdx.x / channels, channel = blockIdx.x - tile * channels;
    Position at = positionIn<Tile>(tile, slab);
    const unsigned x = at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS,
                   y = at.tile_y * Tile::HEIGHT + at.warp_y * Tile::WARP_ROWS;
    const bool whole = y + Tile::WARP_ROWS <= slab.rows && x + WARP_COLS <= slab.cols;
    Pixels4<Pixel> *const warp_pixels = shared_pixels[at.warp * Tile::WARP_ROWS];
    staggerStart(slab);
    if constexpr (INTERLEAVED) {
        loadRowsOfChannel<Tile::WARP_ROWS>(warp_pixels, slab, channels, channel, x, y, at.lane);
    } else if constexpr (SumTable::BATCHED) {
        SlabParams image = slab;
        image.src = sum_table.images[channel].src;
        image.step = sum_table.images[channel].src_step;
        loadRows<Tile::WARP_ROWS>(warp_pixels, image, x, y, at.lane, whole && slab.src_aligned16);
    } else {
        loadRows<Tile::WARP_ROWS>(warp_pixels, slab, x, y, at.lane, whole && slab.src_aligned16);
    }
    const PixelRows<Pixel> pixels(warp_pixels + at.lane, slab, channel);
    const auto &sums_of_channel = ofChannel(sum_table, channel);
    const auto &squares_of_channel = ofChannel(square_table, channel);
    Sums sums(sum_shared, sums_of_channel, slab, at, 0, scan_memory);
    Squares squares(squares_shared, squares_of_channel, slab, at, BOTH, scan_memory);
    const auto forTables = [&](const auto &step) {
        if constexpr (EXISTS<SumTable>)
            step(sums);
        if constexpr (EXISTS<SquareTable>)
            step(squares);
    };
    __pipeline_wait_prior(0);
    __syncwarp();
    if constexpr (std::is_same_v<Pixel, GridFloat>) {
        bool any = false;
#pragma unroll
        for (unsigned k = 0; k < Tile::WARP_ROWS; ++k)
            any |= pixels.anyOutside(k);
        if (any)
            slab.state->grid.has_outside = 1;
    }
    forTables([&](auto &table) { table.sumTile(pixels); });
    __syncthreads();
    at.epoch = epoch;
    if constexpr (BOTH)
        lookBack(at, sums, squares);
    else
        forTables([&](auto &table) { lookBack(at, table); });
    // The last tile of a channel or image has waited, directly or through others, for words of every block of it. Once the
    // last tiles of all get here, all blocks have read the state.
    if constexpr (IN_TURN) {
        if (threadIdx.x == 0 && blockIdx.x >= gridDim.x - channels &&
            atomicInc(&slab.state->channels_done, channels - 1) == channels - 1) // wraps to 0
            slab.state->epoch = at.epoch;
    } else if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
        slab.state->epoch = at.epoch;
        slab.state->tiles_before = tiles_before + (slab.max_writers ? gridDim.x : 0);
    }
    // A warp that computes no starts polls meanwhile.
    if (threadIdx.x == Tile::THREADS - 32 && slab.max_writers && blockIdx.x >= slab.max_writers)
        awaitTurnToWrite(slab, tiles_before);
    const unsigned valid_rows = slab.rows - min(slab.rows, y);
    void *const stage = scan_memory + (SCAN_BYTES<Pixel, SquareTable, Tile> + at.warp * STAGE_BYTES) / sizeof(uint32_t);
    if constexpr (EXISTS<SumTable>) {
        TableWriter<Sums> writer(sums);
        __syncthreads();
        writer.write(pixels, valid_rows, whole, stage);
    } else {
        __syncthreads();
    }
    if constexpr (EXISTS<SquareTable>)
        TableWriter<Squares>(squares).write(pixels, valid_rows, whole, stage);
    if (threadIdx.x == 0 && slab.max_writers) // relaxed, since only the count matters
        addRelaxed(&slab.state->tiles_written, 1);
}

} // namespace cusi::integral

#endif
