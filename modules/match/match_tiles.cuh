// Tiles of the score map.
#ifndef CUSI_MATCH_TILES_CUH
#define CUSI_MATCH_TILES_CUH

#include "match_cuda.cuh"

namespace match {

// Position `index`, modulo the positions of a tile, of a tile; false outside the map.
__device__ inline bool tilePosition(const MatchModel &m, const Scores &scores, int tile, long long index, int &y, int &x) {
    const int cols = 1 << scores.tile_cols_log2, rows = 1 << scores.tile_rows_log2;
    y = tile / scores.tiles_across * rows + (static_cast<int>(index >> scores.tile_cols_log2) & (rows - 1));
    x = tile % scores.tiles_across * cols + (static_cast<int>(index) & (cols - 1));
    return y < m.orows && x < m.ocols;
}

} // namespace match

#endif
