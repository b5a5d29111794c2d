// Further matches of 8-bit pictures: the search of one block, by the ranges alone. match_select.cu explains how it is used.
#ifndef CUSI_MATCH_SELECT_CUH
#define CUSI_MATCH_SELECT_CUH

#include "match_candidates.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

constexpr int N = 512; // threads of a block
constexpr int MAX_MATCHES = 1024;
constexpr int MAX_LISTED = 4096;
constexpr int OWN = MAX_LISTED / N;                    // listed positions of a thread
constexpr int MAX_TILES = 256;                         // that are examined at a time
constexpr int CHUNK_LOG2 = 7, CHUNK = 1 << CHUNK_LOG2; // positions of a tile that a warp examines at a time
constexpr int FEW_TILES = 4 * N / 32;
constexpr uint16_t LEFT = 0x7fff, WANTED = 0x8000; // of Search::until
constexpr unsigned NONE = ~0u;

// Unsigned numbers in the order of the floats.
__device__ __forceinline__ unsigned ordered(float v) {
    const unsigned bits = __float_as_uint(v);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(unsigned v) {
    return __uint_as_float(v & 0x80000000u ? v & 0x7fffffffu : ~v);
}

// What there is to choose from in a round. Numbers are ordered(); NONE: nothing is left.
struct Choice {
    unsigned lower = NONE, upper = NONE;   // least ends of the listed positions
    unsigned middle = NONE, winner = NONE; // least middle, and the first position that has it
    unsigned bound = NONE, tile = NONE;    // least bound, and the first tile that has it

    // The least of all lanes.
    __device__ void ofWarp() {
        lower = cusi::warpMin(lower);
        upper = cusi::warpMin(upper);
        const unsigned least = cusi::warpMin(middle);
        winner = cusi::warpMin(middle == least ? winner : NONE);
        middle = least;
        const unsigned least_bound = cusi::warpMin(bound);
        tile = cusi::warpMin(bound == least_bound ? tile : NONE);
        bound = least_bound;
    }
};

// What a block finds out in a turn.
struct Turn {
    unsigned parts[6][N / 32]; // of Choice, from each warp
    unsigned some, next;       // of one tile's unlisted positions: least upper and lower end
    int tiles, added, kept;

    __device__ void reset() {
        some = next = NONE;
        tiles = added = kept = 0;
    }
};

struct Lists {
    Turn turns[2];                               // alternately: one is in use while the other is made new
    unsigned tiles[MAX_TILES], nexts[MAX_TILES]; // nexts: the tiles' bounds after this turn
    unsigned chosen[2][4][N / 32];               // alternately: of Choice, from each warp
    unsigned winners[MAX_MATCHES];
};

// Positions are y << 16 | x: in row-major order, without divisions.
__device__ __forceinline__ unsigned packed(int y, int x) {
    return static_cast<unsigned>(y) << 16 | static_cast<unsigned>(x);
}
__device__ __forceinline__ int xOf(unsigned position) {
    return static_cast<int>(position & 0xffff);
}
__device__ __forceinline__ int yOf(unsigned position) {
    return static_cast<int>(position >> 16);
}

enum class Outcome { AGAIN, ENDED, OVERFLOWED };

// The search of one block in the map of one template.
struct Search {
    const MatchModel &m;
    const Scores &scores;
    const MatchRange *ranges;
    Lists &lists;
    // The list: positions, their ranges, and the round before which a match took them away, or LEFT; with WANTED if they may
    // be the best of a round.
    unsigned *candidates;
    MatchRange *candidate_ranges;
    uint16_t *until;
    unsigned *bounds; // of the tiles, ordered(): no unlisted position that is left begins below; NONE: none is left
    int tiles, tile_log2;
    int distance; // min_distance, but not far beyond the map
    float tiles_across_inverse;

    __device__ int chunks_log2() const { return max(tile_log2 - CHUNK_LOG2, 0); }
    __device__ int rowOfTile(int tile) const { // exact below 2^20 tiles
        return static_cast<int>((static_cast<float>(tile) + 0.5f) * tiles_across_inverse);
    }
    __device__ bool isNear(int x, int y, unsigned match) const {
        return abs(x - xOf(match)) < distance && abs(y - yOf(match)) < distance;
    }

    // Calls use(position, range) for the positions of a chunk that the first `found` matches have left. By a whole warp.
    template<class Use>
    __device__ __forceinline__ void visit(int tile, int chunk, int found, const Use &use) const {
        constexpr int EACH = CHUNK / 32;
        const int lane = threadIdx.x % 32, ty = rowOfTile(tile), tx = tile - ty * scores.tiles_across;
        const int x0 = tx << scores.tile_cols_log2, y0 = ty << scores.tile_rows_log2;
        const int x1 = x0 + (1 << scores.tile_cols_log2), y1 = y0 + (1 << scores.tile_rows_log2);
        int x[EACH], y[EACH];
        bool left[EACH];
        MatchRange range[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int at = chunk * CHUNK + i * 32 + lane;
            x[i] = x0 + (at & ((1 << scores.tile_cols_log2) - 1));
            y[i] = y0 + (at >> scores.tile_cols_log2);
            left[i] = at < 1 << tile_log2 && y[i] < m.orows && x[i] < m.ocols;
            if (left[i])
                range[i] = ranges[static_cast<size_t>(y[i]) * m.ocols + x[i]];
        }
        for (int r0 = 0; r0 < found; r0 += 32) {
            const unsigned mine = lists.winners[min(r0 + lane, found - 1)];
            const bool is_near = r0 + lane < found && meets(x0, y0, x1, y1, mine);
            for (unsigned near = __ballot_sync(cusi::FULL_WARP, is_near); near; near &= near - 1) {
                const unsigned match = lists.winners[r0 + __ffs(static_cast<int>(near)) - 1];
#pragma unroll
                for (int i = 0; i < EACH; ++i)
                    left[i] = left[i] && !isNear(x[i], y[i], match);
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (left[i])
                use(packed(y[i], x[i]), range[i]);
    }

    // Whether a rectangle of positions and the neighborhood of a match meet.
    __device__ bool meets(int x0, int y0, int x1, int y1, unsigned match) const {
        return x0 < xOf(match) + distance && x1 > xOf(match) - distance + 1 && y0 < yOf(match) + distance &&
               y1 > yOf(match) - distance + 1;
    }

    // Tiles that the neighborhood of a match meets (covers: lies in whole), or those inside the map that it covers.
    struct Tiles {
        int x, y, across, down;
    };
    __device__ Tiles tilesNear(unsigned match) const {
        const int cols = scores.tile_cols_log2, rows = scores.tile_rows_log2;
        const int x = max(xOf(match) - distance + 1, 0) >> cols, y = max(yOf(match) - distance + 1, 0) >> rows;
        return {x, y, ((min(xOf(match) + distance, m.ocols) - 1) >> cols) - x + 1,
                ((min(yOf(match) + distance, m.orows) - 1) >> rows) - y + 1};
    }
    __device__ Tiles tilesCovered(unsigned match) const {
        const int cols = scores.tile_cols_log2, rows = scores.tile_rows_log2;
        const int x = cusi::divUp(max(xOf(match) - distance + 1, 0), 1 << cols);
        const int y = cusi::divUp(max(yOf(match) - distance + 1, 0), 1 << rows);
        const int x1 = min(xOf(match) + distance, m.ocols), y1 = min(yOf(match) + distance, m.orows);
        return {x, y, (x1 == m.ocols ? scores.tiles_across : x1 >> cols) - x,
                (y1 == m.orows ? scores.tiles_down : y1 >> rows) - y};
    }

    // The exact bound of a tile near match j, unless an earlier match of this turn, from `first` on, has the tile too. By a warp.
    __device__ void updateBound(int tile, int first, int j, int found) const {
        const int lane = static_cast<int>(threadIdx.x) % 32, ty = rowOfTile(tile), tx = tile - ty * scores.tiles_across;
        const int x0 = tx << scores.tile_cols_log2, y0 = ty << scores.tile_rows_log2;
        bool other = false;
        for (int i = first + lane; i < j; i += 32)
            other |= meets(x0, y0, x0 + (1 << scores.tile_cols_log2), y0 + (1 << scores.tile_rows_log2), lists.winners[i]);
        if (__any_sync(cusi::FULL_WARP, other))
            return;
        const unsigned bound = bounds[tile];
        unsigned next = NONE;
        for (int chunk = 0; bound != NONE && chunk < 1 << chunks_log2(); ++chunk)
            visit(tile, chunk, found, [&](unsigned, const MatchRange &range) {
                const unsigned lower = ordered(range.lower);
                next = lower >= bound ? min(next, lower) : next;
            });
        next = cusi::warpMin(next);
        if (lane == 0)
            bounds[tile] = next;
    }

    // After matches first .. found - 1: the bounds of the tiles that their neighborhoods meet, if they are few, else of those that
    // they cover.
    __device__ void updateBounds(int first, int found) const {
        if (distance == 1) // a match itself is all that is removed, and it was listed
            return;
        __syncthreads(); // the matches are known
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        const int matches = found - first, reach = 2 * distance - 2;
        const long long most = ((reach >> scores.tile_cols_log2) + 2LL) * ((reach >> scores.tile_rows_log2) + 2LL);
        if (most <= FEW_TILES) {
            for (int item = warp; item < matches * static_cast<int>(most); item += N / 32) {
                const int i = item / matches, j = first + item - i * matches;
                const Tiles near = tilesNear(lists.winners[j]);
                if (i < near.across * near.down)
                    updateBound((near.y + i / near.across) * scores.tiles_across + near.x + i % near.across, first, j,
                                found);
            }
            return;
        }
        for (int j = first; j < found; ++j) {
            const Tiles covered = tilesCovered(lists.winners[j]);
            for (int ty = warp; ty < covered.down; ty += N / 32)
                for (int tx = lane; tx < covered.across; tx += 32)
                    bounds[(covered.y + ty) * scores.tiles_across + covered.x + tx] = NONE;
            __syncthreads();
        }
    }

    __device__ bool isLeft(int i) const {
        return (until[i] & LEFT) == LEFT;
    }
    __device__ void consider(Choice &mine, int i) const {
        const MatchRange range = candidate_ranges[i];
        const unsigned middle = ordered(match_middle(range)), position = candidates[i];
        mine.lower = min(mine.lower, ordered(range.lower));
        mine.upper = min(mine.upper, ordered(range.upper));
        if (middle < mine.middle || (middle == mine.middle && position < mine.winner)) {
            mine.middle = middle;
            mine.winner = position;
        }
    }

    // The least of all threads, from the parts of each warp.
    template<int PARTS>
    __device__ static Choice ofBlock(Choice mine, unsigned (*parts)[N / 32]) {
        mine.ofWarp();
        const int warp = static_cast<int>(threadIdx.x) / 32, other = static_cast<int>(threadIdx.x) % (N / 32);
        const unsigned values[6] = {mine.lower, mine.upper, mine.middle, mine.winner, mine.bound, mine.tile};
        if (threadIdx.x % 32 == 0)
#pragma unroll
            for (int i = 0; i < PARTS; ++i)
                parts[i][warp] = values[i];
        __syncthreads();
        mine.lower = parts[0][other];
        mine.upper = parts[1][other];
        mine.middle = parts[2][other];
        mine.winner = parts[3][other];
        if constexpr (PARTS > 4) {
            mine.bound = parts[4][other];
            mine.tile = parts[5][other];
        }
        mine.ofWarp();
        return mine;
    }

    __device__ Choice choose(Turn &now, int listed) const {
        Choice mine;
        for (int i = threadIdx.x; i < listed; i += N)
            if (isLeft(i))
                consider(mine, i);
        for (int i = threadIdx.x; i < tiles; i += N) {
            const unsigned bound = bounds[i];
            if (bound < mine.bound) {
                mine.bound = bound;
                mine.tile = static_cast<unsigned>(i);
            }
        }
        return ofBlock<6>(mine, now.parts);
    }

    // The same of the list alone, after `round` matches, the last one of which, if any, was chosen by `last`.
    __device__ Choice chooseListed(int listed, int round, const Choice *last, int parity) const {
        Choice mine;
        for (int i = threadIdx.x; i < listed; i += N) {
            if (!isLeft(i))
                continue;
            if (last) {
                if (ordered(candidate_ranges[i].lower) <= last->upper)
                    until[i] |= WANTED;
                if (isNear(xOf(candidates[i]), yOf(candidates[i]), last->winner)) {
                    until[i] = static_cast<uint16_t>((until[i] & WANTED) | round);
                    continue;
                }
            }
            consider(mine, i);
        }
        return ofBlock<4>(mine, lists.chosen[parity]);
    }

    // A threshold that several tiles reach: the median of the warps' least bounds.
    __device__ unsigned severalTiles(const Turn &now, unsigned least) const {
        const unsigned mine = now.parts[4][threadIdx.x % (N / 32)];
        int rank = 0;
#pragma unroll
        for (int i = 0; i < N / 32; ++i)
            rank +=
                now.parts[4][i] < mine || (now.parts[4][i] == mine && i < static_cast<int>(threadIdx.x % (N / 32))) ? 1 : 0;
        const unsigned median = cusi::warpMin(rank == N / 64 ? mine : NONE);
        return median < ordered(INFINITY) ? median : least;
    }

    // Nothing listed is left: a threshold from the tile with the least bound. False if the bound was out of date.
    __device__ bool findThreshold(Turn &now, const Choice &choice, int found, unsigned &threshold) const {
        const int tile = static_cast<int>(choice.tile);
        for (int chunk = static_cast<int>(threadIdx.x) / 32; chunk < 1 << chunks_log2(); chunk += N / 32) {
            unsigned upper = NONE, lower = NONE;
            visit(tile, chunk, found, [&](unsigned, const MatchRange &range) {
                if (ordered(range.lower) < choice.bound) // listed
                    return;
                lower = min(lower, ordered(range.lower));
                upper = min(upper, ordered(range.upper));
            });
            lower = cusi::warpMin(lower);
            upper = cusi::warpMin(upper);
            if (threadIdx.x % 32 == 0) {
                atomicMin(&now.next, lower);
                atomicMin(&now.some, upper);
            }
        }
        __syncthreads();
        threshold = now.some;
        if (now.next == choice.bound)
            return true;
        if (threadIdx.x == 0)
            bounds[tile] = now.next;
        return false;
    }

    // Adds all unlisted positions that begin at or below the threshold to the list; false if there are too many.
    __device__ bool extend(Turn &now, unsigned threshold, int found, int &listed) const {
        for (int i = threadIdx.x; i < tiles; i += N)
            if (bounds[i] <= threshold) {
                const int at = atomicAdd(&now.tiles, 1);
                if (at < MAX_TILES) {
                    lists.tiles[at] = static_cast<unsigned>(i);
                    lists.nexts[at] = NONE;
                }
            }
        __syncthreads();
        if (now.tiles > MAX_TILES)
            return false;
        for (int item = static_cast<int>(threadIdx.x) / 32; item < now.tiles << chunks_log2(); item += N / 32) {
            const int index = item >> chunks_log2(), tile = static_cast<int>(lists.tiles[index]);
            const unsigned bound = bounds[tile];
            unsigned next = NONE;
            visit(tile, item - (index << chunks_log2()), found, [&](unsigned position, const MatchRange &range) {
                const unsigned lower = ordered(range.lower);
                if (lower > threshold) {
                    next = min(next, lower);
                } else if (lower >= bound) {
                    const int at = listed + atomicAdd(&now.added, 1);
                    if (at < MAX_LISTED) {
                        candidates[at] = position;
                        candidate_ranges[at] = range;
                        until[at] = LEFT;
                    }
                }
            });
            next = cusi::warpMin(next);
            if (threadIdx.x % 32 == 0)
                atomicMin(&lists.nexts[index], next);
        }
        __syncthreads();
        if (listed + now.added > MAX_LISTED)
            return false;
        for (int i = threadIdx.x; i < now.tiles; i += N)
            bounds[lists.tiles[i]] = lists.nexts[i];
        listed += now.added;
        return true;
    }

    // A thread's part of the list.
    struct Own {
        unsigned position[OWN];
        MatchRange range[OWN];
        uint16_t until[OWN]; // 0: none
    };
    template<class Keep>
    __device__ void loadOwn(int listed, Own &own, const Keep &keep) const {
#pragma unroll
        for (int e = 0; e < OWN; ++e) {
            const int i = static_cast<int>(threadIdx.x) + e * N;
            own.until[e] = 0;
            if (i < listed && keep(until[i])) {
                own.position[e] = candidates[i];
                own.range[e] = candidate_ranges[i];
                own.until[e] = until[i];
            }
        }
    }
    // Only what keep() says stays in the list.
    template<class Keep>
    __device__ void shorten(Turn &now, int &listed, const Keep &keep) const {
        Own own;
        __syncthreads();
        loadOwn(listed, own, keep);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < OWN; ++e)
            if (own.until[e]) {
                const int at = atomicAdd(&now.kept, 1);
                candidates[at] = own.position[e];
                candidate_ranges[at] = own.range[e];
                until[at] = own.until[e];
            }
        __syncthreads();
        listed = now.kept;
    }

    // The wanted positions, in row-major order, so that all blocks have the same list, and from now on as Candidate has them.
    __device__ void sortWanted(Turn &now, int &listed) const {
        shorten(now, listed, [](unsigned state) { return (state & WANTED) != 0; });
        Own own;
        int rank[OWN];
        loadOwn(listed, own, [](unsigned) { return true; });
#pragma unroll
        for (int e = 0; e < OWN; ++e) {
            rank[e] = 0;
            for (int j = 0; own.until[e] && j < listed; ++j)
                rank[e] += candidates[j] < own.position[e] ? 1 : 0;
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < OWN; ++e)
            if (own.until[e]) {
                candidates[rank[e]] = static_cast<unsigned>(yOf(own.position[e])) * m.ocols + xOf(own.position[e]);
                until[rank[e]] = own.until[e] & LEFT;
            }
        __syncthreads();
    }

    // Takes matches from the list while their upper ends are at most `limit`, below which nothing unlisted begins.
    __device__ void takeListed(Choice choice, unsigned limit, int &found, int listed) const {
        const int first = found;
        while (choice.winner != NONE && choice.upper <= limit && found < m.max_matches &&
               choice.lower < ordered(INFINITY) && unordered(choice.lower) <= m.limit_cost) {
            if (threadIdx.x == 0)
                lists.winners[found] = choice.winner;
            ++found;
            const Choice last = choice;
            choice = chooseListed(listed, found, &last, found % 2);
        }
        if (found > first)
            updateBounds(first, found);
    }

    // One turn, after `found` matches. strict: thresholds are no higher than they must be.
    __device__ Outcome search(int &found, int turn, bool &strict, int &listed) const {
        Turn &now = lists.turns[turn % 2];
        Choice choice = choose(now, listed);
        if (threadIdx.x == 0)
            lists.turns[1 - turn % 2].reset();
        const unsigned least = min(choice.lower, choice.bound);
        if (least >= ordered(INFINITY) || unordered(least) > m.limit_cost) // NONE, too
            return Outcome::ENDED;
        unsigned limit = choice.bound - 1;
        if (choice.winner == NONE || choice.upper > limit) {
            limit = choice.upper;
            if (!strict)
                limit =
                    choice.winner == NONE ? severalTiles(now, choice.bound) : max(limit, severalTiles(now, choice.bound));
            else if (choice.winner == NONE && !findThreshold(now, choice, found, limit))
                return Outcome::AGAIN;
            if (listed > MAX_LISTED / 2)
                shorten(now, listed, [](unsigned state) { return (state & WANTED) != 0 || state == LEFT; });
            if (!extend(now, limit, found, listed)) {
                const bool overflowed = strict;
                strict = true;
                return overflowed ? Outcome::OVERFLOWED : Outcome::AGAIN;
            }
            choice = chooseListed(listed, found, nullptr, found % 2);
        }
        takeListed(choice, limit, found, listed);
        return Outcome::AGAIN;
    }

    // All rounds from 1 on; the number of matches found, the first among them.
    __device__ int searchAll(const cusMatch &first, const float *tile_lowers, int &listed, Outcome &outcome) const {
        for (int i = threadIdx.x; i < tiles; i += N)
            bounds[i] = ordered(tile_lowers[i]);
        if (threadIdx.x == 0) {
            lists.turns[0].reset();
            lists.winners[0] = packed(first.y, first.x);
        }
        __syncthreads();
        updateBounds(0, 1);
        outcome = Outcome::AGAIN;
        listed = 0;
        bool strict = false;
        int found = 1, turn = 0;
        for (; found < m.max_matches && outcome == Outcome::AGAIN; ++turn) {
            __syncthreads();
            outcome = search(found, turn, strict, listed);
        }
        __syncthreads();
        sortWanted(lists.turns[turn % 2], listed);
        return found;
    }

    // By a whole warp: whether one of the first `found` matches has removed a position.
    __device__ bool isRemoved(int x, int y, int found) const {
        bool removed = false;
        for (int i = threadIdx.x % 32; i < found; i += 32)
            removed |= isNear(x, y, lists.winners[i]);
        return __any_sync(cusi::FULL_WARP, removed);
    }
    __device__ MatchRange rangeOfLeft(int x, int y, int found) const {
        if (isRemoved(x, y, found))
            return {INFINITY, INFINITY};
        return ranges[static_cast<size_t>(y) * m.ocols + x];
    }
};

} // namespace

} // namespace match

#endif
