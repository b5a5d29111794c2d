// Tile shapes and tuning constants of the integral kernel. docs/internals/integral.md has the measurements behind them.
#ifndef CUSI_INTEGRAL_TILE_CUH
#define CUSI_INTEGRAL_TILE_CUH

#include <cstddef>

namespace cusi::integral {

constexpr int WARP_COLS = 128; // columns of a warp: 32 lanes of four pixels

// How a tile is divided among the warps of a block.
template<int WARPS_X_, int WARPS_Y_, int WARP_ROWS_, int BLOCKS_PER_SM_, int MIN_COLUMN_GROUP_, int COLUMN_BATCH_,
         bool THROTTLED_ = false>
struct TileShape {
    static constexpr int WARPS_X = WARPS_X_, WARPS_Y = WARPS_Y_;
    static constexpr int WARP_ROWS = WARP_ROWS_; // rows of a warp
    static constexpr int BLOCKS_PER_SM = BLOCKS_PER_SM_;
    static constexpr int MIN_COLUMN_GROUP = MIN_COLUMN_GROUP_; // tiles in a group of the column chain, at least
    static constexpr int COLUMN_BATCH = COLUMN_BATCH_;         // tiles of that chain that a thread loads together
    static constexpr bool THROTTLED = THROTTLED_; // writes are throttled if not all tiles fit on the GPU at once
    static constexpr int WIDTH = WARPS_X * WARP_COLS, HEIGHT = WARPS_Y * WARP_ROWS;
    static constexpr int WARPS = WARPS_X * WARPS_Y, THREADS = 32 * WARPS;
    static_assert(HEIGHT % 32 == 0 && HEIGHT <= 256, "a lane has whole rows; column sums of bytes fit 16 bits");
    static_assert(WARP_ROWS % 4 == 0 && WARP_ROWS <= 32 && WARP_ROWS % (HEIGHT / 32) == 0, "");
    static_assert(32 * (WARPS - WARPS_X) >= HEIGHT / 2, "a thread for every two rows besides those for the columns");
};

// Small images get small tiles, so that every multiprocessor has some; see "Tile shapes" in the internals document.
namespace tuning {
using Small32 = TileShape<1, 8, 8, 4, 8, 4>; // 32-bit sums alone
using Medium32 = TileShape<2, 4, 16, 4, 8, 3, true>;
using Large32 = TileShape<4, 2, 32, 4, 16, 2, true>;
using Small64 = TileShape<1, 8, 8, 2, 8, 3>; // 8-bit sources with any 64-bit table
using Medium64 = TileShape<1, 8, 8, 4, 8, 1>;
using Large64 = TileShape<2, 4, 16, 3, 8, 1, true>;
using Float = TileShape<1, 8, 4, 4, 2, 1>; // 32FC1 sources

// Throttled launches: four blocks write at a time for every five multiprocessors.
constexpr unsigned WRITERS = 4, WRITERS_PER_SMS = 5;
constexpr unsigned START_INTERVAL = 2640; // cycles between the starts of a multiprocessor's first blocks
// Memory traffic of one group of the column chain: it takes longer than handing the prefix from tile to tile.
constexpr size_t GROUP_BYTES = 16 << 20;
constexpr unsigned MAX_COLUMN_GROUP = 32;
constexpr unsigned GROUP = 32; // tiles in a group of the row and corner chains
// Narrow images, from this ratio of the sides on and up to this width, get small tiles: larger ones would be mostly empty, and
// throttled writes would hold up the long chains down the columns.
constexpr int NARROW_SHAPE = 16, MAX_NARROW_COLS = 1024;
// Workspace of one slab. Taller images are cut into slabs, one launch each; 16384 x 16384 is one slab.
constexpr size_t SLAB_BYTES = 48 << 20;
} // namespace tuning

constexpr size_t MAX_SLAB_ROWS = 1 << 18; // a column's sum of squares fits 34 bits

} // namespace cusi::integral

#endif
