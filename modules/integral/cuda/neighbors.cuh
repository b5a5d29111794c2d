// A tile gets what it needs from its neighbors along three chains. Columns: it publishes the sums of its columns, which the
// tiles below add up. Rows: it publishes the sums of its rows, which the tiles to the right add up. Corners: once it knows
// everything left of it, it publishes the total; the tiles below add these up to their corner, everything above and left.
#ifndef CUSI_INTEGRAL_NEIGHBORS_CUH
#define CUSI_INTEGRAL_NEIGHBORS_CUH

#include "integral/cuda/lookback.cuh"
#include "integral/cuda/scan.cuh"

namespace cusi::integral {

// The first warp that looks back along the rows; the warps before it look back along the columns. Their number decides the
// order in which floats are added, which must not depend on the tables requested.
template<class Pixel, class Tile, unsigned TABLES>
constexpr unsigned FIRST_ROW_WARP_OF = (TABLES == 1 && sizeof(Pixel) == 4 ? 2 : TABLES) * Tile::WARPS_X;

// A block's work on one of its tables, up to writing it. Different warps look back along the columns of each table; all
// others look back along the rows.
template<class Pixel, bool SQUARES, class T, class Tile, unsigned TABLES>
struct TableTile {
    using Acc = typename T::Acc;
    using Sum = typename Pixels4<Pixel>::Sum;
    using Scan = RowScan<Pixel, SQUARES, Tile::WARP_ROWS>;
    static constexpr unsigned FIRST_ROW_WARP = FIRST_ROW_WARP_OF<Pixel, Tile, TABLES>,
                              ROW_WARPS = Tile::WARPS - FIRST_ROW_WARP;
    // A thread of the row warps has N neighboring rows; PARTS threads share their look-back.
    static constexpr unsigned N = std::is_same_v<Sum, uint32_t> ? 2 : 1, PARTS = 32 * ROW_WARPS * N / Tile::HEIGHT;
    static_assert(PARTS * Tile::HEIGHT == 32 * ROW_WARPS * N, "all threads look back");

    struct Shared {
        Vector4<Sum> columns[Tile::WARPS_Y][Tile::WARPS_X][32];             // column sums of each warp
        alignas(16) typename Scan::Total rows[Tile::WARPS_X][Tile::HEIGHT]; // row sums of each warp
        Vector4<Acc> above[Tile::WARPS_X][32];                              // columns above the tile
        Acc left[PARTS][Tile::HEIGHT];                                      // rows left of the tile, in parts
        Vector4<Acc> row_starts[Tile::WARPS_X][Tile::HEIGHT / 4];           // rows left of the warp
        Acc corner;                                                         // everything above and left of the tile
        Acc warp_corners[Tile::WARPS_X][Tile::WARPS_Y];                     // offset of the warps' corners from it
    };

    Shared &shared;
    const T &table;
    const SlabParams &slab;
    const Position &at;
    const unsigned index; // of the table: its columns are those of the warps in row `index`
    Scan scan;

    __device__ TableTile(Shared &shared_, const T &table_, const SlabParams &slab_, const Position &at_, unsigned index_,
                         uint32_t *scan_memory)
        : shared(shared_), table(table_), slab(slab_), at(at_), index(index_),
          scan(scan_memory + 32 * Scan::SHARED_WORDS * at_.warp + at_.lane) {}

    // ---- Sums inside the tile ----

    __device__ void sumTile(const PixelRows<Pixel> &pixels) {
        ColumnSums<Pixel, SQUARES> columns;
#pragma unroll
        for (int k = 0; k < Tile::WARP_ROWS; ++k)
            columns.add(pixels[k]);
        scan.scan(pixels, &shared.rows[at.warp_x][at.warp_y * Tile::WARP_ROWS], at.lane);
        const Sum sums[4] = {columns[0], columns[1], columns[2], columns[3]};
        shared.columns[at.warp_y][at.warp_x][at.lane] = columnPrefixes(sums, at.lane);
    }
    // Returns the tile's sums of the warp's columns. Of bytes it is one sum per column. Of floats it is prefix sums,
    // because differences of doubles would round.
    __device__ __forceinline__ void tileColumnSums(Acc (&own)[4]) const {
#pragma unroll
        for (unsigned w = 0; w < Tile::WARPS_Y; ++w) {
            const auto some = shared.columns[w][at.warp_x][at.lane];
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                own[i] += static_cast<Acc>(some.v[i]);
        }
        if constexpr (T::COLUMNS_APART)
            columnDifferences(own, at.lane);
    }
    __device__ Sum rowSum(unsigned y) const {
        Sum sum = shared.rows[0][y];
#pragma unroll
        for (int w = 1; w < Tile::WARPS_X; ++w)
            sum += shared.rows[w][y];
        return sum;
    }

    // ---- Columns ----

    // One warp for each 128 columns publishes the tile's sums of these columns and finds what is above them.
    __device__ void lookBackColumns() {
        if (at.warp_y != index)
            return;
        using Column = typename T::Column;
        using Prefix = typename T::ColumnPrefix;
        const size_t width = static_cast<size_t>(slab.tile_cols) * Tile::WIDTH;
        const unsigned column = at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS + 4 * at.lane;
        const unsigned first = groupStart(at.tile_y, slab.column_group), group = at.tile_y / slab.column_group;
        Acc own[4] = {}, above[4] = {};
        tileColumnSums(own);
        const bool ends = endsGroup(at.tile_y, slab.column_group);
        if (!ends)
            Published<Column, 4>::store(sumAt<Column>(table.column_sums, at.tile_y * width + column), own, at.epoch);
        const auto addPrefix = [&] {
            LookBack<Prefix, 4>(sumAt<Prefix>(table.column_prefixes, column), width, group - (group > 0), group)
                .addTo(above, at.epoch);
        };
        // 1 % faster for 32-bit sums at 16384x16384. In long chains, the prefix comes last.
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
        if constexpr (T::COLUMNS_APART)
            shared.above[at.warp_x][at.lane] = columnPrefixes(above, at.lane);
        else
            shared.above[at.warp_x][at.lane] = {{above[0], above[1], above[2], above[3]}};
    }

    // ---- Rows: the row warps ----

    // Returns the words of a tile or group in the chain of the tile's row y. Chains are as long as the slab is high.
    template<class Format>
    __device__ TaggedWord *rowWords(TaggedWord *words, unsigned tile_or_group, unsigned y) const {
        return sumAt<Format>(words, tile_or_group * rowStride() + at.tile_y * Tile::HEIGHT + y);
    }
    __device__ size_t rowStride() const {
        return static_cast<size_t>(slab.tile_rows) * Tile::HEIGHT;
    }
    __device__ static unsigned threadRow() { // the first of the thread's N rows
        return (threadIdx.x - 32 * FIRST_ROW_WARP) % (Tile::HEIGHT / N) * N;
    }
    __device__ static unsigned threadPart() {
        return (threadIdx.x - 32 * FIRST_ROW_WARP) / (Tile::HEIGHT / N);
    }

    __device__ void publishRows() const {
        using Row = typename T::Row;
        if (threadPart() > 0 || endsGroup(at.tile_x, tuning::GROUP))
            return;
        Sum own[N];
#pragma unroll
        for (unsigned i = 0; i < N; ++i)
            own[i] = rowSum(threadRow() + i);
        Published<Row, N>::store(rowWords<Row>(table.row_sums, at.tile_x, threadRow()), own, at.epoch);
    }

    // Adds up what is left of the thread's rows, tile by tile.
    struct RowLookBack {
        using Row = typename T::Row;
        static constexpr unsigned PARTS = TableTile::PARTS;
        TableTile &t;
        const TaggedWord *words; // words of the next tile
        size_t stride;
        Published<Row, N> next;
        Acc left[N] = {};

        __device__ explicit RowLookBack(TableTile &t_) : t(t_) {
            const unsigned group = t.at.tile_x / tuning::GROUP;
            if (threadPart() == 0) // adds the prefix too
                LookBack<Acc, N>(t.template rowWords<Acc>(t.table.row_prefixes, 0, threadRow()), t.rowStride(),
                                 group - (group > 0), group)
                    .addTo(left, t.at.epoch);
            words = t.template rowWords<Row>(t.table.row_sums, firstTile(), threadRow());
            stride = PARTS * t.rowStride() * sizeof(Row) / 4;
        }
        __device__ unsigned firstTile() const { return groupStart(t.at.tile_x, tuning::GROUP) + threadPart(); }
        __device__ void load() { next.load(words); }
        __device__ bool isComplete(uint32_t epoch) const { return next.isComplete(epoch); }
        __device__ void add() {
            next.addTo(left);
            words += stride;
        }
        __device__ void store() const {
#pragma unroll
            for (unsigned i = 0; i < N; ++i)
                t.shared.left[threadPart()][threadRow() + i] = left[i];
        }
    };
    __device__ RowLookBack rowLookBack() {
        return RowLookBack(*this);
    }
    __device__ Acc leftOf(unsigned y) const {
        Acc sum = shared.left[0][y];
#pragma unroll
        for (unsigned p = 1; p < PARTS; ++p)
            sum += shared.left[p][y];
        return sum;
    }

    // ---- Corners ----

    // The last tile of a group publishes the sum of each row up to and including the tile. left: sums left of the lane's
    // rows.
    template<unsigned LANE_ROWS>
    __device__ __forceinline__ void publishRowPrefixes(const Acc (&left)[LANE_ROWS]) const {
        TaggedWord *const words = rowWords<Acc>(table.row_prefixes, at.tile_x / tuning::GROUP, at.lane * LANE_ROWS);
#pragma unroll
        for (unsigned j = 0; j < LANE_ROWS; ++j) {
            const Acc prefix[1] = {left[j] + static_cast<Acc>(rowSum(at.lane * LANE_ROWS + j))};
            Published<Acc, 1>::store(sumAt<Acc>(words, j), prefix, at.epoch);
        }
    }

    // Once everything left of the tile is known, one warp publishes its total and finds the corner.
    __device__ void lookBackCorner() {
        if (at.warp != FIRST_ROW_WARP + index)
            return;
        if (at.tile_x == 0) { // nothing is left of it, so nobody waits
            if (at.lane == 0)
                shared.corner = 0;
            return;
        }
        constexpr unsigned LANE_ROWS = Tile::HEIGHT / 32;
        Acc left[LANE_ROWS], sum = 0;
#pragma unroll
        for (unsigned j = 0; j < LANE_ROWS; ++j)
            sum += left[j] = leftOf(at.lane * LANE_ROWS + j);
        const Acc total[1] = {warpSumToFirst(sum)};
        const bool ends = endsGroup(at.tile_y, tuning::GROUP);
        TaggedWord *const corners = sumAt<Acc>(table.corner_sums, static_cast<size_t>(at.tile_x) * slab.tile_rows);
        if (at.lane == 0 && !ends)
            Published<Acc, 1>::store(sumAt<Acc>(corners, at.tile_y), total, at.epoch);
        if (endsGroup(at.tile_x, tuning::GROUP))
            publishRowPrefixes(left);
        // Each lane reads an earlier tile of the group; the tile before the group holds the prefix.
        const unsigned first = groupStart(at.tile_y, tuning::GROUP);
        const unsigned tile = first - (first > 0) + at.lane;
        Acc corner[1] = {};
        LookBack<Acc, 1>(corners, 1, tile, min(tile + 1, at.tile_y)).addTo(corner, at.epoch);
        __syncwarp();
        corner[0] = warpSumToFirst(corner[0]);
        if (at.lane == 0) {
            shared.corner = corner[0];
            if (ends) {
                const Acc prefix[1] = {corner[0] + total[0]};
                Published<Acc, 1>::store(sumAt<Acc>(corners, at.tile_y), prefix, at.epoch);
            }
        }
    }

    // ---- Starts of the warps ----

    // Computes what is left of and above each warp from what is left of and above the tile. One warp in each column runs
    // it.
    __device__ void computeWarpStarts() {
        if (at.warp_y != index)
            return;
        constexpr unsigned LANE_ROWS = Tile::HEIGHT / 32;
        const unsigned y = at.lane * LANE_ROWS;
        Acc sum = 0;
#pragma unroll
        for (unsigned j = 0; j < LANE_ROWS; ++j) {
            Acc left = leftOf(y + j);
#pragma unroll
            for (int w = 0; w < Tile::WARPS_X - 1; ++w)
                if (w < static_cast<int>(at.warp_x))
                    left += static_cast<Acc>(shared.rows[w][y + j]);
            shared.row_starts[at.warp_x][(y + j) / 4].v[(y + j) % 4] = left;
            sum += left;
        }
        Acc before = exclusiveSum(sum);
#pragma unroll
        for (int w = 0; w < Tile::WARPS_X - 1; ++w)
            if (w < static_cast<int>(at.warp_x))
                before += shared.above[w][0].v[0];
        if (y % Tile::WARP_ROWS == 0)
            shared.warp_corners[at.warp_x][y / Tile::WARP_ROWS] = before;
    }
};
// A table that was not requested.
template<class Pixel, bool SQUARES, class Tile, unsigned TABLES>
struct TableTile<Pixel, SQUARES, NoTable, Tile, TABLES> {
    struct Shared {};
    template<class... Arguments>
    __device__ explicit TableTile(Arguments &&...) {}
};

} // namespace cusi::integral

#endif
