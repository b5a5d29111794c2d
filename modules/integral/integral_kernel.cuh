// The integral kernel: one pass, in which the source is read once and each table written once. A block computes one tile.
//
// Blocks take the tiles row by row, so a block waits only for blocks with smaller numbers. Like CUB's, the look-back relies
// on blocks being started in the order of blockIdx.
//
// Bandwidth rises when concurrent writes are close together. So in images with more tiles than fit on the GPU at once,
// writes are throttled: the first blocks start one after the other, and only the next few tiles in order are written at a
// time. Loads of a multiprocessor that is storing take up to 2000 cycles, and so do spilled registers: look-backs must take
// few round trips.
#ifndef CUSI_INTEGRAL_KERNEL_CUH
#define CUSI_INTEGRAL_KERNEL_CUH

#include "integral_store.cuh"

namespace cusi::integral {

// A block's work on one table, step by step. The warps with warp_y = COLUMN_WARP_Y look back along the columns, those from
// FIRST_ROW_WARP on along the rows, CORNER_WARP for the corner.
template<class Pixel, bool SQUARES, class T, class Tile, unsigned COLUMN_WARP_Y, unsigned FIRST_ROW_WARP,
         unsigned CORNER_WARP>
struct TableBuilder {
    using Shared = TileSums<Pixel, SQUARES, typename T::Acc, Tile, FIRST_ROW_WARP>;
    Shared &shared;
    const T &table;
    const SlabParams &slab;
    const Position &at;
    ColumnSums<Pixel, SQUARES> columns;
    RowScan<Pixel, SQUARES, Tile::WARP_ROWS> scan;

    __device__ TableBuilder(Shared &shared_, const T &table_, const SlabParams &slab_, const Position &at_,
                            uint32_t *scan_memory)
        : shared(shared_), table(table_), slab(slab_), at(at_),
          scan(scan_memory + 32 * scan.SHARED_WORDS * at_.warp + at_.lane) {}
    __device__ void sumTile(const PixelRows<Pixel> &pixels) {
#pragma unroll
        for (int k = 0; k < Tile::WARP_ROWS; ++k)
            columns.add(pixels[k]);
        scan.scan(pixels, &shared.rows[at.warp_x][at.warp_y * Tile::WARP_ROWS], at.lane);
    }
    __device__ void storeColumns() {
        const typename Pixels4<Pixel>::Sum sums[4] = {columns[0], columns[1], columns[2], columns[3]};
        shared.columns[at.warp_y][at.warp_x][at.lane] = columnPrefixes(sums, at.lane);
    }
    __device__ void lookBackColumns() {
        if (at.warp_y == COLUMN_WARP_Y)
            integral::lookBackColumns<Tile>(table, slab, shared, at);
    }
    __device__ void publishRows() {
        integral::publishRows<Tile>(table, slab, shared, at);
    }
    __device__ RowLookBack<Tile, T, Shared> rowLookBack() const {
        return {table, slab, shared, at};
    }
    __device__ void lookBackCorner() {
        if (at.warp == CORNER_WARP)
            integral::lookBackCorner<Tile>(table, slab, shared, at);
    }
    __device__ void computeWarpStarts() {
        if (at.warp_y == COLUMN_WARP_Y)
            integral::computeWarpStarts<Tile, T>(shared, at);
    }
    __device__ TableWriter<Pixel, SQUARES, T, Tile, Shared> writer() const {
        return {table, slab, shared, scan, at};
    }
};
// A table that was not requested.
template<class Pixel, bool SQUARES, class Tile, unsigned COLUMN_WARP_Y, unsigned FIRST_ROW_WARP, unsigned CORNER_WARP>
struct TableBuilder<Pixel, SQUARES, NoTable, Tile, COLUMN_WARP_Y, FIRST_ROW_WARP, CORNER_WARP> {
    struct Shared {};
    struct NoWriter {
        __device__ void write(const PixelRows<Pixel> &, unsigned, bool, const SlabParams &, void *) {}
    };
    __device__ TableBuilder(Shared &, const NoTable &, const SlabParams &, const Position &, uint32_t *) {}
    __device__ void sumTile(const PixelRows<Pixel> &) {}
    __device__ void storeColumns() {}
    __device__ void lookBackColumns() {}
    __device__ void publishRows() {}
    __device__ void lookBackCorner() {}
    __device__ void computeWarpStarts() {}
    __device__ NoWriter writer() const { return {}; }
};

template<class Tile>
__device__ __forceinline__ void setPosition(Position &at, const SlabParams &slab) {
    at.lane = threadIdx.x % 32;
    at.warp = threadIdx.x / 32;
    at.warp_x = at.warp % Tile::WARPS_X;
    at.warp_y = at.warp / Tile::WARPS_X;
    at.tile_y = blockIdx.x / slab.tile_cols;
    at.tile_x = blockIdx.x - at.tile_y * slab.tile_cols;
}

// The first blocks of a throttled launch start one after the other.
__device__ __forceinline__ void staggerStart(const SlabParams &slab) {
    if (blockIdx.x < slab.first_wave) {
        const long long start = clock64(), wait = static_cast<long long>(blockIdx.x) * slab.start_interval;
        while (clock64() - start < wait) {
        }
    }
}

// Publishes the tile's sums and finds what is left of and above it.
template<class Tile, unsigned FIRST_ROW_WARP, bool SUMS, bool SQUARES, class Sums, class Squares>
__device__ __forceinline__ void lookBack(const Position &at, Sums &sums, Squares &squares) {
    if (at.warp < FIRST_ROW_WARP) {
        sums.lookBackColumns();
        squares.lookBackColumns();
    } else {
        sums.publishRows();
        squares.publishRows();
        if constexpr (SUMS && SQUARES)
            lookBackRows(at, sums.rowLookBack(), squares.rowLookBack());
        else if constexpr (SUMS)
            lookBackRows(at, sums.rowLookBack());
        else
            lookBackRows(at, squares.rowLookBack());
        syncRowWarps<Tile::THREADS - 32 * FIRST_ROW_WARP>();
        sums.lookBackCorner();
        squares.lookBackCorner();
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

// Dynamic shared memory of the scans.
template<class Pixel, class SquareTable, class Tile>
constexpr size_t SCAN_BYTES = EXISTS<SquareTable>
                                  ? sizeof(uint32_t[Tile::THREADS]) * RowScan<Pixel, true, Tile::WARP_ROWS>::SHARED_WORDS
                                  : 0;

template<class Pixel, class SumTable, class SquareTable, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    integralKernel(const SlabParams slab, const SumTable sum_table, const SquareTable square_table) {
    constexpr bool BOTH = EXISTS<SumTable> && EXISTS<SquareTable>; // different warps look back along their columns
    constexpr unsigned FIRST_ROW_WARP = (BOTH ? 2 : 1) * Tile::WARPS_X;
    using Sums = TableBuilder<Pixel, false, SumTable, Tile, 0, FIRST_ROW_WARP, FIRST_ROW_WARP>;
    using Squares = TableBuilder<Pixel, true, SquareTable, Tile, BOTH, FIRST_ROW_WARP, FIRST_ROW_WARP + BOTH>;
    __shared__ alignas(16) Pixels4<Pixel> shared_pixels[Tile::WARPS * Tile::WARP_ROWS][32];
    __shared__ typename Sums::Shared sum_shared;
    __shared__ typename Squares::Shared squares_shared;
    __shared__ uint32_t epoch, tiles_before;
    extern __shared__ __align__(16) uint32_t scan_memory[]; // and, if tables are not aligned, rows on their way
    startInOrder();
    if (threadIdx.x == 0) {
        const uint2 state = __ldcg(reinterpret_cast<const uint2 *>(slab.state));
        epoch = max((state.x + 1) & MAX_EPOCH, 1u);
        tiles_before = state.y;
    }
    Position at;
    setPosition<Tile>(at, slab);
    const unsigned x = at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS,
                   y = at.tile_y * Tile::HEIGHT + at.warp_y * Tile::WARP_ROWS;
    const bool whole = y + Tile::WARP_ROWS <= slab.rows && x + WARP_COLS <= slab.cols;
    Pixels4<Pixel> *const warp_pixels = shared_pixels[at.warp * Tile::WARP_ROWS];
    staggerStart(slab);
    loadRows<Tile::WARP_ROWS>(warp_pixels, slab, x, y, at.lane, whole && slab.src_aligned16);
    const PixelRows<Pixel> pixels = {warp_pixels + at.lane};
    Sums sums(sum_shared, sum_table, slab, at, scan_memory);
    Squares squares(squares_shared, square_table, slab, at, scan_memory);
    __pipeline_wait_prior(0);
    __syncwarp();
    sums.sumTile(pixels);
    squares.sumTile(pixels);
    sums.storeColumns();
    squares.storeColumns();
    __syncthreads();
    at.epoch = epoch;
    lookBack<Tile, FIRST_ROW_WARP, EXISTS<SumTable>, EXISTS<SquareTable>>(at, sums, squares);
    __syncthreads();
    sums.computeWarpStarts();
    squares.computeWarpStarts();
    // The last tile has waited, directly or through others, for words of every block, so all have read the state.
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
        slab.state->epoch = at.epoch;
        slab.state->tiles_before = tiles_before + (slab.max_writers ? gridDim.x : 0);
    }
    // A warp that computes no starts polls meanwhile.
    if (threadIdx.x == Tile::THREADS - 32 && slab.max_writers && blockIdx.x >= slab.max_writers)
        awaitTurnToWrite(slab, tiles_before);
    auto sum_writer = sums.writer();
    __syncthreads();
    const unsigned valid_rows = slab.rows - min(slab.rows, y);
    void *const stage = scan_memory + (SCAN_BYTES<Pixel, SquareTable, Tile> + at.warp * STAGE_BYTES) / sizeof(uint32_t);
    sum_writer.write(pixels, valid_rows, whole, slab, stage);
    squares.writer().write(pixels, valid_rows, whole, slab, stage);
    if (threadIdx.x == 0 && slab.max_writers) // relaxed: the count matters, not the contents
        addRelaxed(&slab.state->tiles_written, 1);
}

} // namespace cusi::integral

#endif
