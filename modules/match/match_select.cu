// Further matches of 8-bit pictures: one launch finds them all.
//
// Every block searches them by the ranges alone, in the same way, so blocks need not communicate. A list grows by the positions
// that may be the best of a round; those that later rounds add begin above the least upper end of the rounds before. Of each
// round, the position with the least middle is taken for the match. Then all blocks sum up the listed windows, and the last one
// compares their exact costs: up to the first round whose match turns out to be another one, the search was right. From there
// on denseKernel continues, which natural pictures do not need.
#include "match_candidates.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

constexpr int N = 512; // threads of a block
constexpr int MAX_MATCHES = 1024;
constexpr int MAX_LISTED = 4096;
constexpr int MAX_TILES = 256, MAX_NEW = 1024;         // that are examined, and join the list, at a time
constexpr int CHUNK_LOG2 = 7, CHUNK = 1 << CHUNK_LOG2; // positions of a tile that a warp examines at a time
constexpr int FEW_TILES = 2 * N / 32;
constexpr int STATIC_BYTES = 28672; // of selectKernel's shared memory, at most
constexpr int ITEMS_PER_BLOCK = 3;  // slices of windows, at least: blocks end at about the same time
constexpr uint16_t LEFT = 0xffff;
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
    int tiles, added;

    __device__ void reset() {
        some = next = NONE;
        tiles = added = 0;
    }
};

struct Lists {
    Turn turns[2];                               // alternately: one is in use while the other is made new
    unsigned tiles[MAX_TILES], nexts[MAX_TILES]; // nexts: the tiles' bounds after this turn
    unsigned positions[MAX_NEW];
    MatchRange ranges[MAX_NEW];
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

enum class Outcome { FOUND, AGAIN, ENDED, OVERFLOWED };

// The search of one block in the map of one template.
struct Search {
    const MatchModel &m;
    const Scores &scores;
    const MatchRange *ranges;
    Lists &lists;
    // The list: positions, their ranges, and the round before which a match took them away, or LEFT.
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
            const bool meets = r0 + lane < found && x0 < xOf(mine) + distance && x1 > xOf(mine) - distance + 1 &&
                               y0 < yOf(mine) + distance && y1 > yOf(mine) - distance + 1;
            for (unsigned near = __ballot_sync(cusi::FULL_WARP, meets); near; near &= near - 1) {
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

    // The bounds of the tiles that the neighborhood of the last match meets: exactly, if they are few, else those that it covers.
    __device__ void updateBounds(unsigned match, int found) const {
        if (distance == 1) // the match itself is all that is removed, and it was listed
            return;
        const int x0 = max(xOf(match) - distance + 1, 0), y0 = max(yOf(match) - distance + 1, 0);
        const int x1 = min(xOf(match) + distance, m.ocols), y1 = min(yOf(match) + distance, m.orows);
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        const int cols = scores.tile_cols_log2, rows = scores.tile_rows_log2;
        int tx0 = x0 >> cols, ty0 = y0 >> rows;
        int across = ((x1 - 1) >> cols) - tx0 + 1, down = ((y1 - 1) >> rows) - ty0 + 1;
        if (across * down <= FEW_TILES) {
            __syncthreads(); // the match is known
            for (int i = warp; i < across * down; i += N / 32) {
                const int tile = (ty0 + i / across) * scores.tiles_across + tx0 + i % across;
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
            return;
        }
        tx0 = cusi::divUp(x0, 1 << cols);
        ty0 = cusi::divUp(y0, 1 << rows);
        across = (x1 == m.ocols ? scores.tiles_across : x1 >> cols) - tx0;
        down = (y1 == m.orows ? scores.tiles_down : y1 >> rows) - ty0;
        for (int ty = warp; ty < down; ty += N / 32)
            for (int tx = lane; tx < across; tx += 32)
                bounds[(ty0 + ty) * scores.tiles_across + tx0 + tx] = NONE;
    }

    __device__ Choice choose(Turn &now, int listed) const {
        Choice mine;
        for (int i = threadIdx.x; i < listed; i += N) {
            if (until[i] != LEFT)
                continue;
            const MatchRange range = candidate_ranges[i];
            const unsigned middle = ordered(match_middle(range)), position = candidates[i];
            mine.lower = min(mine.lower, ordered(range.lower));
            mine.upper = min(mine.upper, ordered(range.upper));
            if (middle < mine.middle || (middle == mine.middle && position < mine.winner)) {
                mine.middle = middle;
                mine.winner = position;
            }
        }
        for (int i = threadIdx.x; i < tiles; i += N) {
            const unsigned bound = bounds[i];
            if (bound < mine.bound) {
                mine.bound = bound;
                mine.tile = static_cast<unsigned>(i);
            }
        }
        mine.ofWarp();
        const int warp = static_cast<int>(threadIdx.x) / 32, other = static_cast<int>(threadIdx.x) % (N / 32);
        if (threadIdx.x % 32 == 0) {
            const unsigned parts[6] = {mine.lower, mine.upper, mine.middle, mine.winner, mine.bound, mine.tile};
#pragma unroll
            for (int i = 0; i < 6; ++i)
                now.parts[i][warp] = parts[i];
        }
        __syncthreads();
        mine.lower = now.parts[0][other];
        mine.upper = now.parts[1][other];
        mine.middle = now.parts[2][other];
        mine.winner = now.parts[3][other];
        mine.bound = now.parts[4][other];
        mine.tile = now.parts[5][other];
        mine.ofWarp();
        return mine;
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
                    const int at = atomicAdd(&now.added, 1);
                    if (at < MAX_NEW) {
                        lists.positions[at] = position;
                        lists.ranges[at] = range;
                    }
                }
            });
            next = cusi::warpMin(next);
            if (threadIdx.x % 32 == 0)
                atomicMin(&lists.nexts[index], next);
        }
        __syncthreads();
        if (now.added > MAX_NEW || listed + now.added > MAX_LISTED)
            return false;
        for (int i = threadIdx.x; i < now.tiles; i += N)
            bounds[lists.tiles[i]] = lists.nexts[i];
        for (int i = threadIdx.x; i < now.added; i += N) { // in row-major order, so that all blocks have the same list
            const unsigned position = lists.positions[i];
            int at = listed;
#pragma unroll 8
            for (int j = 0; j < now.added; ++j)
                at += lists.positions[j] < position ? 1 : 0;
            candidates[at] = position;
            candidate_ranges[at] = lists.ranges[i];
            until[at] = LEFT;
        }
        listed += now.added;
        return true;
    }

    __device__ void take(unsigned match, int found, int listed) const {
        for (int i = threadIdx.x; i < listed; i += N)
            if (until[i] == LEFT && isNear(xOf(candidates[i]), yOf(candidates[i]), match))
                until[i] = static_cast<uint16_t>(found + 1);
        if (threadIdx.x == 0)
            lists.winners[found] = match;
        updateBounds(match, found + 1);
    }

    // One turn of round `found`, after as many matches.
    __device__ Outcome search(int found, int turn, int &listed) const {
        Turn &now = lists.turns[turn % 2];
        const Choice choice = choose(now, listed);
        if (threadIdx.x == 0)
            lists.turns[1 - turn % 2].reset();
        const unsigned least = min(choice.lower, choice.bound);
        if (least >= ordered(INFINITY) || unordered(least) > m.limit_cost) // NONE, too
            return Outcome::ENDED;
        if (choice.winner != NONE && choice.bound > choice.upper) {
            take(choice.winner, found, listed);
            return Outcome::FOUND;
        }
        unsigned threshold = choice.upper;
        if (choice.winner == NONE && !findThreshold(now, choice, found, threshold))
            return Outcome::AGAIN;
        return extend(now, threshold, found, listed) ? Outcome::AGAIN : Outcome::OVERFLOWED;
    }

    // All rounds from 1 on; the number of matches found, the first among them.
    __device__ int searchAll(const cusMatch &first, const float *tile_lowers, int &listed, Outcome &outcome) const {
        for (int i = threadIdx.x; i < tiles; i += N)
            bounds[i] = ordered(tile_lowers[i]);
        if (threadIdx.x == 0)
            lists.turns[0].reset();
        __syncthreads();
        take(packed(first.y, first.x), 0, 0);
        outcome = Outcome::AGAIN;
        listed = 0;
        int found = 1;
        for (int turn = 0; found < m.max_matches && outcome <= Outcome::AGAIN; ++turn) {
            __syncthreads();
            outcome = search(found, turn, listed);
            found += outcome == Outcome::FOUND ? 1 : 0;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < listed; i += N) // from now on as Candidate has them
            candidates[i] = static_cast<unsigned>(yOf(candidates[i])) * m.ocols + xOf(candidates[i]);
        __syncthreads();
        return found;
    }

    // By a whole warp: whether the first `found` matches have left a position.
    __device__ bool isLeft(int x, int y, int found) const {
        bool removed = false;
        for (int i = threadIdx.x % 32; i < found; i += 32)
            removed |= isNear(x, y, lists.winners[i]);
        return !__any_sync(cusi::FULL_WARP, removed);
    }
    __device__ MatchRange rangeOfLeft(int x, int y, int found) const {
        if (!isLeft(x, y, found))
            return {INFINITY, INFINITY};
        return ranges[static_cast<size_t>(y) * m.ocols + x];
    }
};

// What the last block does.
struct Decision {
    const MatchModel &m;
    const Search &search;
    MatchRange *ranges;
    cusMatch *results;

    // The candidates' exact costs, in place of their first slice.
    __device__ void costs(const Templates &templates, const Windows &windows, int k, int listed, int slices,
                          PartialSums<uint8_t> *partial) const {
        const int together = listed > N / 32 ? 1 : 32, lane = threadIdx.x % together;
        for (int i = threadIdx.x / together; i < listed; i += N / together) {
            PartialSums<uint8_t> *const parts = partial + static_cast<size_t>(i) * slices;
            PartialSums<uint8_t> sum;
#pragma unroll 8
            for (int s = lane; s < slices; s += together)
                sum.add(parts[s]);
            if (together == 32)
                warpSumToFirst(sum);
            if (lane)
                continue;
            const int y = static_cast<int>(search.candidates[i] / m.ocols),
                      x = static_cast<int>(search.candidates[i] % m.ocols);
            const double cost = exactCost<uint8_t>(m, templates, windows, k, y, x, sum);
            parts->sum = static_cast<unsigned long long>(__double_as_longlong(cost));
        }
        __syncthreads();
    }

    // By a whole warp: the best listed position that earlier matches have left to a round.
    __device__ Candidate best(int round, int listed, int slices, const PartialSums<uint8_t> *partial) const {
        Candidate best = noCandidate();
        for (int i = threadIdx.x % 32; i < listed; i += 32) {
            if (search.until[i] <= round)
                continue;
            const double cost = __longlong_as_double(static_cast<long long>(partial[static_cast<size_t>(i) * slices].sum));
            const Candidate here = {cost, search.candidates[i]};
            if (isBetter(here, best))
                best = here;
        }
        for (int d = 16; d; d /= 2) {
            const Candidate other = {__shfl_xor_sync(cusi::FULL_WARP, best.cost, d),
                                     __shfl_xor_sync(cusi::FULL_WARP, best.position, d)};
            if (isBetter(other, best))
                best = other;
        }
        return best;
    }

    // Stores the matches of rounds 1 .. end - 1. The first round that is not decided then, at most `end`: what it may choose from
    // follows from the matches before. `missing`: the first round without a match.
    __device__ int decide(int end, int listed, int slices, const PartialSums<uint8_t> *partial, int &missing) const {
        __shared__ int undecided, none;
        if (threadIdx.x == 0) {
            undecided = end;
            none = m.max_matches;
        }
        __syncthreads();
        for (int round = 1 + static_cast<int>(threadIdx.x) / 32; round < end; round += N / 32) {
            const Candidate here = best(round, listed, slices, partial);
            const auto rangeAt = [&](int x, int y) { return search.rangeOfLeft(x, y, round); };
            const cusMatch match = matchAt(m, rangeAt, here);
            if (threadIdx.x % 32)
                continue;
            results[round] = match;
            if (match.x < 0)
                atomicMin(&none, round);
            if (match.x < 0 || packed(match.y, match.x) != search.lists.winners[round])
                atomicMin(&undecided, round + 1);
        }
        __syncthreads();
        missing = none;
        return undecided;
    }

    // Removes the neighborhoods of the first `found` matches from the map.
    __device__ void removeMatches(int found) const {
        const long long d = m.min_distance;
        for (int i = 0; i < found; ++i) {
            const int mx = results[i].x, my = results[i].y;
            const int x0 = static_cast<int>(max(mx - d + 1, 0LL)), y0 = static_cast<int>(max(my - d + 1, 0LL));
            const int x1 = static_cast<int>(min(mx + d, static_cast<long long>(m.ocols)));
            const int y1 = static_cast<int>(min(my + d, static_cast<long long>(m.orows)));
            for (int j = threadIdx.x; j < (x1 - x0) * (y1 - y0); j += N)
                ranges[static_cast<size_t>(y0 + j / (x1 - x0)) * m.ocols + x0 + j % (x1 - x0)] = {INFINITY, INFINITY};
        }
    }
    __device__ void endFrom(int round) const {
        for (int i = round + static_cast<int>(threadIdx.x); i < m.max_matches; i += N)
            results[i] = {-1, -1, NAN, 0, 0, 0, -1};
    }
};

// blockIdx.y: the template.
__global__ void __launch_bounds__(N)
    selectKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement) {
    __shared__ Lists lists;
    cusi::startInOrder();
    const int k = blockIdx.y, blocks = gridDim.x, tiles = scores.tiles_across * scores.tiles_down;
    cusMatch *results = refinement.results + static_cast<size_t>(k) * m.max_matches;
    MatchRange *ranges = scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols;
    if (refinement.overflows[k]) // in the first round
        return;
    MatchRange *candidate_ranges = reinterpret_cast<MatchRange *>(shared_points);
    unsigned *candidates = reinterpret_cast<unsigned *>(candidate_ranges + MAX_LISTED);
    uint16_t *until = reinterpret_cast<uint16_t *>(candidates + MAX_LISTED);
    const Search search = {m,
                           scores,
                           ranges,
                           lists,
                           candidates,
                           candidate_ranges,
                           until,
                           reinterpret_cast<unsigned *>(until + MAX_LISTED),
                           tiles,
                           scores.tile_cols_log2 + scores.tile_rows_log2,
                           min(m.min_distance, 1 << 17),
                           1.0f / static_cast<float>(scores.tiles_across)};
    const Decision decision = {m, search, ranges, results};
    const cusMatch first = results[0];
    if (first.x < 0) {
        if (blockIdx.x == 0)
            decision.endFrom(1);
        return;
    }
    Outcome outcome;
    int listed;
    const int end = search.searchAll(first, scores.tile_lowers + static_cast<size_t>(k) * tiles, listed, outcome);
    const int slices = max(1, min(m.h, ITEMS_PER_BLOCK * blocks / max(1, listed)));
    PartialSums<uint8_t> *partial = static_cast<PartialSums<uint8_t> *>(refinement.listed_sums) +
                                    static_cast<size_t>(k) * (MAX_LISTED + ITEMS_PER_BLOCK * blocks);
    sumSlices<uint8_t, N>(m, frame, templates, k, candidates, listed, slices, partial, blockIdx.x, gridDim.x);
    if (!isLastBlock(&refinement.tickets[k]))
        return;

    decision.costs(templates, windows, k, listed, slices, partial);
    int missing;
    const int undecided = decision.decide(end, listed, slices, partial, missing);
    const bool ended = missing < undecided, complete = undecided == end && outcome == Outcome::ENDED;
    if (ended || complete) {
        decision.endFrom(ended ? missing : end);
    } else if (undecided < m.max_matches) {
        decision.removeMatches(undecided);
        if (threadIdx.x == 0)
            refinement.overflows[k] = static_cast<unsigned>(undecided) + 1;
    }
    if (threadIdx.x == 0)
        refinement.tickets[k] = 0;
}

size_t selectBytes(const Scores &scores) {
    return MAX_LISTED * (sizeof(MatchRange) + sizeof(unsigned) + sizeof(uint16_t)) +
           static_cast<size_t>(scores.tiles_across) * scores.tiles_down * sizeof(float);
}

} // namespace

cusStatus chooseSelect(MatchCuda *cuda, int most, cudaStream_t stream) {
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    if (selectBytes(stages.scores) + STATIC_BYTES > static_cast<size_t>(most))
        return CUS_OK;
    static_assert(sizeof(Lists) + 1024 <= STATIC_BYTES, "shared memory of selectKernel");
    CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(selectKernel), static_cast<int>(selectBytes(stages.scores))));
    stages.refinement.select_blocks = std::max(1, cuda->multiprocessors / m.count);
    const size_t sums = MAX_LISTED + static_cast<size_t>(ITEMS_PER_BLOCK) * stages.refinement.select_blocks;
    return allocate(cuda, reinterpret_cast<PartialSums<uint8_t> **>(&stages.refinement.listed_sums), m.count * sums,
                    stream);
}

cusStatus launchSelect(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", selectKernel, dim3(stages.refinement.select_blocks, stages.model.count),
                                  N, selectBytes(stages.scores), stream, stages.model, stages.frame, stages.templates,
                                  stages.windows, stages.scores, stages.refinement);
}

} // namespace match
