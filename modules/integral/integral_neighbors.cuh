// What a tile needs from its neighbors. An entry of the table is the sum of four parts: everything above and left of the
// tile (the corner), the columns before the entry above the tile, the rows up to the entry left of the tile, and the sum
// inside the tile. The first three come from earlier tiles, along three chains:
//
//   columns  a tile publishes the sums of its columns; the tiles below add them up;
//   rows     it publishes the sums of its rows; the tiles to the right add them up;
//   corners  once it knows everything left of it, it publishes the total; the tiles below add these up to their corner.
#ifndef CUSI_INTEGRAL_NEIGHBORS_CUH
#define CUSI_INTEGRAL_NEIGHBORS_CUH

#include "integral_lookback.cuh"
#include "integral_scan.cuh"

namespace cusi::integral {

// Where a thread works.
struct Position {
    unsigned tile_y, tile_x; // of the tile in the slab
    unsigned warp_x, warp_y; // of the warp in the tile
    unsigned lane, warp;
    uint32_t epoch;
};

// A block's shared memory for one table. Warps before FIRST_ROW_WARP look back along the columns, the others along the
// rows.
template<class Pixel, bool SQUARES, class Acc, class Tile, unsigned FIRST_ROW_WARP_>
struct TileSums {
    static constexpr unsigned FIRST_ROW_WARP = FIRST_ROW_WARP_;
    using Sum = typename Pixels4<Pixel>::Sum;
    static constexpr unsigned ROW_WARPS = Tile::WARPS - FIRST_ROW_WARP;
    static constexpr unsigned ROWS_PER_THREAD = std::is_same_v<Sum, uint32_t> ? 2 : 1;
    static constexpr unsigned THREADS_PER_ROW = 32 * ROW_WARPS * ROWS_PER_THREAD / Tile::HEIGHT; // they share its look-back
    static_assert(THREADS_PER_ROW * Tile::HEIGHT == 32 * ROW_WARPS * ROWS_PER_THREAD, "all threads look back");

    Vector4<Sum> columns[Tile::WARPS_Y][Tile::WARPS_X][32];                                                 // of each warp
    alignas(16) typename RowScan<Pixel, SQUARES, Tile::WARP_ROWS>::Total rows[Tile::WARPS_X][Tile::HEIGHT]; // of each warp
    Vector4<Acc> above[Tile::WARPS_X][32];                    // columns above the tile
    Acc left[THREADS_PER_ROW][Tile::HEIGHT];                  // rows left of the tile, in parts
    Vector4<Acc> row_starts[Tile::WARPS_X][Tile::HEIGHT / 4]; // rows left of the warp
    Acc corner;                                               // everything above and left of the tile
    Acc warp_corners[Tile::WARPS_X][Tile::WARPS_Y];           // what the warps' corners have beyond that

    __device__ Acc leftOf(unsigned y) const {
        Acc sum = left[0][y];
#pragma unroll
        for (unsigned p = 1; p < THREADS_PER_ROW; ++p)
            sum += left[p][y];
        return sum;
    }
    __device__ Sum rowSum(unsigned y) const {
        Sum sum = rows[0][y];
#pragma unroll
        for (int w = 1; w < Tile::WARPS_X; ++w)
            sum += rows[w][y];
        return sum;
    }
};

// ---- Columns --------------------------------------------------------------------------------------------------------

// The tile's sums of the warp's columns. Integers: of single columns; floats stay prefix sums, which cannot be taken apart.
template<class Tile, class Acc, class Shared>
__device__ __forceinline__ void tileColumnSums(Acc (&own)[4], const Shared &shared, const Position &at) {
#pragma unroll
    for (unsigned w = 0; w < Tile::WARPS_Y; ++w) {
        const auto some = shared.columns[w][at.warp_x][at.lane];
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += static_cast<Acc>(some.v[i]);
    }
    if constexpr (std::is_integral_v<Acc>)
        columnDifferences(own, at.lane);
}

// Publishes the sums of 128 of the tile's columns and finds what is above them.
template<class Tile, class T, class Shared>
__device__ inline void lookBackColumns(const T &table, const SlabParams &slab, Shared &shared, const Position &at) {
    using Acc = typename T::Acc;
    using Column = typename T::Column;
    using Prefix = ColumnPrefix<Acc>;
    const size_t width = static_cast<size_t>(slab.tile_cols) * Tile::WIDTH;
    const unsigned column = at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS + 4 * at.lane;
    const unsigned first = groupStart(at.tile_y, slab.column_group), group = at.tile_y / slab.column_group;
    Acc own[4] = {};
    tileColumnSums<Tile>(own, shared, at);
    const bool ends = endsGroup(at.tile_y, slab.column_group);
    if (!ends) {
        const Column sums[4] = {static_cast<Column>(own[0]), static_cast<Column>(own[1]), static_cast<Column>(own[2]),
                                static_cast<Column>(own[3])};
        Published<Column, 4>::store(sumAt<Column>(table.column_sums, at.tile_y * width + column), sums, at.epoch);
    }
    Acc above[4] = {};
    const auto addPrefix = [&] {
        LookBack<Prefix, 4>(sumAt<Prefix>(table.column_prefixes, column), width, group - (group > 0), group)
            .addTo(above, at.epoch);
    };
    // Large images of 32-bit sums are faster this way (16384x16384 by 1 %); in long chains, the prefix comes last.
    constexpr bool PREFIX_FIRST = sizeof(Acc) == 4 && Tile::THROTTLED;
    if (PREFIX_FIRST)
        addPrefix();
    LookBack<Column, 4, Tile::COLUMN_BATCH>(sumAt<Column>(table.column_sums, column), width, first, at.tile_y)
        .addTo(above, at.epoch);
    if (!PREFIX_FIRST)
        addPrefix();
    if (ends) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i)
            own[i] += above[i];
        Published<Prefix, 4>::store(sumAt<Prefix>(table.column_prefixes, group * width + column), own, at.epoch);
    }
    if constexpr (std::is_integral_v<Acc>)
        shared.above[at.warp_x][at.lane] = columnPrefixes(above, at.lane);
    else
        shared.above[at.warp_x][at.lane] = {{above[0], above[1], above[2], above[3]}};
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

// A barrier for the warps that look back along the rows.
template<unsigned THREADS>
__device__ inline void syncRowWarps() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

// The rows of one thread of the row warps.
template<class Tile, class Shared>
struct ThreadRows {
    static constexpr unsigned N = Shared::ROWS_PER_THREAD, THREADS = Tile::HEIGHT / N;
    unsigned row, part; // the first of N rows; which of the threads that share their look-back
    __device__ ThreadRows() {
        const unsigned thread = threadIdx.x - 32 * Shared::FIRST_ROW_WARP;
        row = thread % THREADS * N;
        part = thread / THREADS;
    }
};

template<class Tile, class T, class Shared>
__device__ inline void publishRows(const T &table, const SlabParams &slab, const Shared &shared, const Position &at) {
    using Row = typename T::Row;
    const ThreadRows<Tile, Shared> rows;
    constexpr unsigned N = rows.N;
    if (rows.part > 0 || endsGroup(at.tile_x, tuning::GROUP))
        return;
    std::conditional_t<N == 2, uint32_t, Row> own[N];
#pragma unroll
    for (unsigned i = 0; i < N; ++i)
        own[i] = shared.rowSum(rows.row + i);
    const size_t height = static_cast<size_t>(slab.tile_rows) * Tile::HEIGHT;
    Published<Row, N>::store(sumAt<Row>(table.row_sums, at.tile_x * height + at.tile_y * Tile::HEIGHT + rows.row), own,
                             at.epoch);
}

// One table's part of lookBackRows().
template<class Tile, class T, class Shared>
struct RowLookBack {
    using Acc = typename T::Acc;
    using Row = typename T::Row;
    static constexpr unsigned N = Shared::ROWS_PER_THREAD, PARTS = Shared::THREADS_PER_ROW;
    Shared &shared;
    const ThreadRows<Tile, Shared> rows;
    const TaggedWord *at; // of the next tile
    size_t stride;
    Published<Row, N> next;
    Acc left[N] = {};

    __device__ RowLookBack(const T &table, const SlabParams &slab, Shared &shared_, const Position &position)
        : shared(shared_) {
        const size_t height = static_cast<size_t>(slab.tile_rows) * Tile::HEIGHT;
        const unsigned y = position.tile_y * Tile::HEIGHT + rows.row, group = position.tile_x / tuning::GROUP;
        if (rows.part == 0) // the prefix too
            LookBack<Acc, N>(sumAt<Acc>(table.row_prefixes, y), height, group - (group > 0), group)
                .addTo(left, position.epoch);
        at = sumAt<Row>(table.row_sums, y + (groupStart(position.tile_x, tuning::GROUP) + rows.part) * height);
        stride = PARTS * height * sizeof(Row) / 4;
    }
    __device__ void load() { next.load(at); }
    __device__ bool isComplete(uint32_t epoch) const { return next.isComplete(epoch); }
    __device__ void add() {
        next.addTo(left);
        at += stride;
    }
    __device__ void store() const {
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            shared.left[rows.part][rows.row + i] = left[i];
    }
};

// Finds what is left of the tile, in parts; for both tables together, since the number of round trips decides the time.
template<class First, class... More>
__device__ inline void lookBackRows(const Position &at, First first, More... more) {
    static_assert(((First::N == More::N && First::PARTS == More::PARTS) && ...), "their threads have the same rows");
    for (unsigned tile = groupStart(at.tile_x, tuning::GROUP) + first.rows.part; tile < at.tile_x; tile += First::PARTS) {
        do
            first.load(), (more.load(), ...);
        while (!(first.isComplete(at.epoch) && ... && more.isComplete(at.epoch)));
        first.add(), (more.add(), ...);
    }
    first.store(), (more.store(), ...);
}

// ---- Corners --------------------------------------------------------------------------------------------------------

// The last tile of a group publishes for each row the sum up to and including the tile. left: of the lane's rows.
template<class Tile, class T, class Shared, unsigned N>
__device__ __forceinline__ void publishRowPrefixes(const T &table, const SlabParams &slab, const Shared &shared,
                                                   const typename T::Acc (&left)[N], const Position &at) {
    using Acc = typename T::Acc;
    const size_t height = static_cast<size_t>(slab.tile_rows) * Tile::HEIGHT;
    TaggedWord *const words =
        sumAt<Acc>(table.row_prefixes, at.tile_x / tuning::GROUP * height + at.tile_y * Tile::HEIGHT + at.lane * N);
#pragma unroll
    for (unsigned j = 0; j < N; ++j) {
        const Acc prefix[1] = {left[j] + static_cast<Acc>(shared.rowSum(at.lane * N + j))};
        Published<Acc, 1>::store(sumAt<Acc>(words, j), prefix, at.epoch);
    }
}

// One warp, once everything left of the tile is known: publishes its total and finds the corner.
template<class Tile, class T, class Shared>
__device__ inline void lookBackCorner(const T &table, const SlabParams &slab, Shared &shared, const Position &at) {
    using Acc = typename T::Acc;
    if (at.tile_x == 0) { // nothing is left of it: nobody has to wait
        if (at.lane == 0)
            shared.corner = 0;
        return;
    }
    constexpr unsigned LANE_ROWS = Tile::HEIGHT / 32;
    Acc left[LANE_ROWS], sum = 0;
#pragma unroll
    for (unsigned j = 0; j < LANE_ROWS; ++j)
        sum += left[j] = shared.leftOf(at.lane * LANE_ROWS + j);
    const Acc total[1] = {warpSum(sum)};
    const bool ends = endsGroup(at.tile_y, tuning::GROUP);
    TaggedWord *const corners = sumAt<Acc>(table.corner_sums, static_cast<size_t>(at.tile_x) * slab.tile_rows);
    if (at.lane == 0 && !ends)
        Published<Acc, 1>::store(sumAt<Acc>(corners, at.tile_y), total, at.epoch);
    if (endsGroup(at.tile_x, tuning::GROUP))
        publishRowPrefixes<Tile>(table, slab, shared, left, at);
    // A lane for each earlier tile of the group; the tile before the group holds the prefix.
    const unsigned first = groupStart(at.tile_y, tuning::GROUP);
    const unsigned tile = first - (first > 0) + at.lane;
    Acc corner[1] = {};
    LookBack<Acc, 1>(corners, 1, tile, min(tile + 1, at.tile_y)).addTo(corner, at.epoch);
    __syncwarp();
    corner[0] = warpSum(corner[0]);
    if (at.lane == 0) {
        shared.corner = corner[0];
        if (ends) {
            const Acc prefix[1] = {corner[0] + total[0]};
            Published<Acc, 1>::store(sumAt<Acc>(corners, at.tile_y), prefix, at.epoch);
        }
    }
}

// ---- Starts of the warps --------------------------------------------------------------------------------------------

// From what is left of and above the tile to what is left of and above each of its warps. One warp of each column of warps.
template<class Tile, class T, class Shared>
__device__ inline void computeWarpStarts(Shared &shared, const Position &at) {
    using Acc = typename T::Acc;
    constexpr unsigned LANE_ROWS = Tile::HEIGHT / 32;
    const unsigned y = at.lane * LANE_ROWS;
    Acc sum = 0;
#pragma unroll
    for (unsigned j = 0; j < LANE_ROWS; ++j) {
        Acc left = shared.leftOf(y + j);
#pragma unroll
        for (int w = 0; w < Tile::WARPS_X - 1; ++w)
            if (w < static_cast<int>(at.warp_x))
                left += static_cast<Acc>(shared.rows[w][y + j]);
        shared.row_starts[at.warp_x][(y + j) / 4].v[(y + j) % 4] = left;
        sum += left;
    }
    Acc inclusive[1] = {sum};
    warpInclusiveScan(inclusive, at.lane);
    Acc before = toExclusive(inclusive[0], sum, at.lane);
#pragma unroll
    for (int w = 0; w < Tile::WARPS_X - 1; ++w)
        if (w < static_cast<int>(at.warp_x))
            before += shared.above[w][0].v[0];
    if (y % Tile::WARP_ROWS == 0)
        shared.warp_corners[at.warp_x][y / Tile::WARP_ROWS] = before;
}

} // namespace cusi::integral

#endif
