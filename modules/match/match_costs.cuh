// Further matches from the exact costs of all positions, by one block: tiles know their best position, and a match changes only the
// tiles that its neighborhood meets.
#ifndef CUSI_MATCH_COSTS_CUH
#define CUSI_MATCH_COSTS_CUH

#include "match_best.cuh"

namespace match {

__host__ __device__ inline int costTiles(const MatchModel &m) {
    return cusi::divUp(m.ocols, COST_TILE_COLS) * cusi::divUp(m.orows, COST_TILE_ROWS);
}

// The costs of one template. N: threads of a block.
template<int N>
struct CostMap {
    static constexpr int GROUPS = 128; // of tiles, whose best positions are in shared memory

    const MatchModel &m;
    const double *costs;
    MatchRange *ranges; // infinite where matches have removed a position
    Candidate *tiles;   // the best position that is left in each tile
    int across, down;   // tiles

    __device__ CostMap(const MatchModel &model, const Scores &scores, const ExactCosts &exact, int k)
        : m(model), across(cusi::divUp(m.ocols, COST_TILE_COLS)), down(cusi::divUp(m.orows, COST_TILE_ROWS)) {
        const size_t map = static_cast<size_t>(k) * m.orows * m.ocols;
        costs = exact.positions + map;
        ranges = scores.ranges + map;
        tiles = exact.tiles + static_cast<size_t>(k) * across * down;
    }

    // Removes the positions of a tile that are `gone` and finds the best of the others. By a whole warp.
    template<class Gone>
    __device__ void updateTile(int ty, int tx, const Gone &gone) const {
        static_assert(COST_TILE_COLS == 32, "a lane has a column");
        const int lane = static_cast<int>(threadIdx.x) % 32, x = tx * COST_TILE_COLS + lane;
        double cost[COST_TILE_ROWS];
        bool left[COST_TILE_ROWS];
#pragma unroll
        for (int i = 0; i < COST_TILE_ROWS; ++i) {
            const int y = ty * COST_TILE_ROWS + i;
            const size_t at = static_cast<size_t>(y) * m.ocols + x;
            const bool inside = y < m.orows && x < m.ocols, is_gone = gone(y, x);
            if (inside && is_gone)
                ranges[at] = {INFINITY, INFINITY};
            left[i] = inside && !is_gone && ranges[at].lower < INFINITY;
            cost[i] = inside && !is_gone ? costs[at] : INFINITY;
        }
        Candidate best = noCandidate();
#pragma unroll
        for (int i = 0; i < COST_TILE_ROWS; ++i)
            if (left[i] && cost[i] < best.cost)
                best = {cost[i], static_cast<unsigned long long>(ty * COST_TILE_ROWS + i) * m.ocols + x};
        best = warpBest(best);
        if (lane == 0)
            tiles[static_cast<size_t>(ty) * across + tx] = best;
    }

    __device__ Candidate bestOfGroup(int group, int each) const {
        const int end = min((group + 1) * each, across * down);
        Candidate best = noCandidate();
#pragma unroll 4
        for (int i = group * each + static_cast<int>(threadIdx.x) % 32; i < end; i += 32)
            if (isBetter(tiles[i], best))
                best = tiles[i];
        return warpBest(best);
    }

    // The matches of rounds `round` .. max_matches - 1. All tiles are up to date.
    __device__ void findMatches(int round, cusMatch *results) const {
        __shared__ Candidate groups[GROUPS];
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        const int each = cusi::divUp(across * down, GROUPS);
        const long long d = m.min_distance;
        const auto updateGroups = [&](int first, int last) {
            for (int group = first + warp; group <= last; group += N / 32) {
                const Candidate best = bestOfGroup(group, each);
                if (lane == 0)
                    groups[group] = best;
            }
            __syncthreads();
        };
        updateGroups(0, GROUPS - 1);
        for (; round < m.max_matches; ++round) {
            Candidate best = noCandidate();
            for (int i = lane; i < GROUPS; i += 32)
                if (isBetter(groups[i], best))
                    best = groups[i];
            best = warpBest(best);
            if (best.position == ~0ull || !(best.cost <= m.limit_cost))
                break;
            if (threadIdx.x == 0)
                results[round] = matchOf(m, ranges, best);
            if (m.subpixel) // which reads ranges
                __syncthreads();
            const unsigned position = static_cast<unsigned>(best.position);
            const int my = static_cast<int>(position / m.ocols), mx = static_cast<int>(position % m.ocols);
            const int x0 = static_cast<int>(max(mx - d + 1, 0LL)), y0 = static_cast<int>(max(my - d + 1, 0LL));
            const int x1 = static_cast<int>(min(mx + d, static_cast<long long>(m.ocols)));
            const int y1 = static_cast<int>(min(my + d, static_cast<long long>(m.orows)));
            const int tx0 = x0 / COST_TILE_COLS, ty0 = y0 / COST_TILE_ROWS;
            const int tx1 = (x1 - 1) / COST_TILE_COLS, ty1 = (y1 - 1) / COST_TILE_ROWS, met = tx1 - tx0 + 1;
            for (int i = warp; i < met * (ty1 - ty0 + 1); i += N / 32)
                updateTile(ty0 + i / met, tx0 + i % met,
                           [&](int y, int x) { return x >= x0 && x < x1 && y >= y0 && y < y1; });
            __syncthreads();
            updateGroups((ty0 * across + tx0) / each, (ty1 * across + tx1) / each);
        }
        for (int i = round + static_cast<int>(threadIdx.x); i < m.max_matches; i += N)
            results[i] = {-1, -1, NAN, 0, 0, 0, -1};
    }
};

} // namespace match

#endif
