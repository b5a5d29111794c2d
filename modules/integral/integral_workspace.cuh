// Layout of the workspace: the launch state, then the chains of each table. Tall images are cut into slabs that reuse it.
#ifndef CUSI_INTEGRAL_WORKSPACE_CUH
#define CUSI_INTEGRAL_WORKSPACE_CUH

#include "cuda.cuh"
#include "integral_params.cuh"
#include "integral_tile.cuh"

#include <algorithm>

namespace cusi::integral {

// The chains of a table, in words; each is a multiple of 16 bytes.
template<class Tile, class T>
struct ChainLayout {
    static constexpr size_t ACC_BYTES = sizeof(typename T::Acc);
    size_t tile_rows, tile_cols;

    size_t columnSums() const { return tile_rows * tile_cols * Tile::WIDTH * sizeof(typename T::Column) / 4; }
    size_t columnPrefixes() const {
        return divUp(tile_rows, size_t(Tile::MIN_COLUMN_GROUP)) * tile_cols * Tile::WIDTH *
               sizeof(ColumnPrefix<typename T::Acc>) / 4;
    }
    size_t rowSums() const { return tile_rows * tile_cols * Tile::HEIGHT * sizeof(typename T::Row) / 4; }
    size_t rowPrefixes() const {
        return divUp(tile_cols, size_t(tuning::GROUP)) * tile_rows * Tile::HEIGHT * ACC_BYTES / 4;
    }
    size_t cornerSums() const { return divUp(tile_rows * tile_cols, size_t{2}) * 2 * ACC_BYTES / 4; }
    size_t words() const { return columnSums() + columnPrefixes() + rowSums() + rowPrefixes() + cornerSums(); }

    // Assigns the table its chains from `words` on, which moves past them.
    void assign(T &table, TaggedWord *&words) const {
        table.column_sums = words;
        table.column_prefixes = table.column_sums + columnSums();
        table.row_sums = table.column_prefixes + columnPrefixes();
        table.row_prefixes = table.row_sums + rowSums();
        table.corner_sums = table.row_prefixes + rowPrefixes();
        words = table.corner_sums + cornerSums();
    }
};
template<class Tile>
struct ChainLayout<Tile, NoTable> {
    size_t tile_rows, tile_cols;
    size_t words() const { return 0; }
    void assign(NoTable &, TaggedWord *&) const {}
};

// An image cut into slabs of equal height that keep to tuning::SLAB_BYTES, if they can.
template<class Tile, class SumTable, class SquareTable>
struct WorkspaceLayout {
    size_t tile_rows, tile_cols, slab_tile_rows;

    WorkspaceLayout(size_t rows, size_t cols)
        : tile_rows(divUp(rows, size_t(Tile::HEIGHT))), tile_cols(divUp(cols, size_t(Tile::WIDTH))) {
        constexpr size_t GROUP = Tile::MIN_COLUMN_GROUP;
        const size_t slabs = divUp(
            tile_rows, std::clamp<size_t>(tuning::SLAB_BYTES / bytes(GROUP) * GROUP, 1, MAX_SLAB_ROWS / Tile::HEIGHT));
        slab_tile_rows = divUp(tile_rows, slabs);
    }
    size_t bytes(size_t some_tile_rows) const {
        return (ChainLayout<Tile, SumTable>{some_tile_rows, tile_cols}.words() +
                ChainLayout<Tile, SquareTable>{some_tile_rows, tile_cols}.words()) *
               sizeof(TaggedWord);
    }
    // Enough for every image up to this size.
    size_t maxBytes() const {
        return sizeof(LaunchState) + std::min(bytes(tile_rows), std::max(tuning::SLAB_BYTES, bytes(1)));
    }
};

} // namespace cusi::integral

#endif
