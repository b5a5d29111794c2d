// Further matches of 8-bit pictures: one launch finds them all.
//
// Every block searches them by the ranges alone, in the same way, so blocks need not communicate: in each round the positions
// that may be the best are listed, and the one with the least middle is taken for the match. Then all blocks sum up the listed
// windows of all rounds, and the last one compares: up to the first round whose match turns out to be another one, the lists
// were right. From there on denseKernel continues; with natural pictures that does not happen.
#include "match_candidates.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

constexpr int N = 512; // threads of a block
constexpr int MAX_MATCHES = 1024;
constexpr int MAX_LISTED = 8192;                      // candidates of all rounds
constexpr int MAX_TILES = 256, MAX_CANDIDATES = 1024; // of a round
constexpr int CHUNK = 128;                            // positions of a tile that a warp examines at a time
constexpr int STATIC_BYTES = 28672;                   // of selectKernel's shared memory, at most
constexpr int ITEMS_PER_BLOCK = 3;                    // slices of windows, at least: blocks end at about the same time

// Unsigned numbers in the order of the floats.
__device__ __forceinline__ unsigned ordered(float v) {
    const unsigned bits = __float_as_uint(v);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(unsigned v) {
    return __uint_as_float(v & 0x80000000u ? v & 0x7fffffffu : ~v);
}

// What a block finds out in a round; floats are ordered().
struct Round {
    uint2 firsts[N / 32];               // of each warp: the least bound and its tile
    unsigned lower, upper;              // of the first tile: least ends of the positions left
    unsigned least_upper, least_middle; // of the candidates
    unsigned winner;                    // the first position with the least middle
    int tiles, candidates, kept;

    __device__ void reset() {
        lower = upper = least_upper = least_middle = winner = ~0u;
        tiles = candidates = kept = 0;
    }
};

struct Lists {
    Round rounds[2]; // alternately: one is in use while the other is made new
    unsigned tiles[MAX_TILES];
    unsigned positions[MAX_CANDIDATES];
    MatchRange ranges[MAX_CANDIDATES];
    int2 winners[MAX_MATCHES];   // (x, y)
    int begins[MAX_MATCHES + 1]; // of the rounds' candidates
};

enum class Outcome { FOUND, AGAIN, ENDED, OVERFLOWED };

// The search of one block in the map of one template.
struct Search {
    const MatchModel &m;
    const Scores &scores;
    const MatchRange *ranges;
    Lists &lists;
    unsigned *candidates; // of all rounds, those of a round in row-major order
    float *bounds;        // of the tiles: no position that is left begins below
    int tiles, tile_log2;

    __device__ int chunks() const { return cusi::divUp(1 << tile_log2, CHUNK); }

    // Calls use(position, range) for the positions of a chunk that the first `found` matches have left. By a whole warp.
    template<class Use>
    __device__ __forceinline__ void visit(int tile, int chunk, int found, const Use &use) const {
        constexpr int EACH = CHUNK / 32;
        const int lane = threadIdx.x % 32;
        const int x0 = tile % scores.tiles_across << scores.tile_cols_log2;
        const int y0 = tile / scores.tiles_across << scores.tile_rows_log2;
        const int x1 = x0 + (1 << scores.tile_cols_log2), y1 = y0 + (1 << scores.tile_rows_log2);
        int x[EACH], y[EACH];
        bool left[EACH];
        MatchRange range[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int at = chunk * CHUNK + i * 32 + lane;
            left[i] = at < 1 << tile_log2 && tilePosition(m, scores, tile, at, y[i], x[i]);
            if (left[i])
                range[i] = ranges[static_cast<size_t>(y[i]) * m.ocols + x[i]];
        }
        const long long d = m.min_distance;
        for (int r0 = 0; r0 < found; r0 += 32) {
            const int2 mine = lists.winners[min(r0 + lane, found - 1)];
            const bool meets =
                r0 + lane < found && x0 < mine.x + d && x1 > mine.x - d + 1 && y0 < mine.y + d && y1 > mine.y - d + 1;
            for (unsigned near = __ballot_sync(cusi::FULL_WARP, meets); near; near &= near - 1) {
                const int2 match = lists.winners[r0 + __ffs(near) - 1];
#pragma unroll
                for (int i = 0; i < EACH; ++i)
                    left[i] = left[i] && !(abs(x[i] - match.x) < d && abs(y[i] - match.y) < d);
            }
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (left[i])
                use(static_cast<unsigned>(y[i]) * m.ocols + x[i], range[i]);
    }

    // Tiles without any position outside the neighborhood of a match.
    __device__ void closeTiles(int2 match) const {
        const long long d = m.min_distance;
        const int cols = 1 << scores.tile_cols_log2, rows = 1 << scores.tile_rows_log2;
        const int x0 = static_cast<int>(max(match.x - d + 1, 0LL)), y0 = static_cast<int>(max(match.y - d + 1, 0LL));
        const int x1 = static_cast<int>(min(match.x + d, static_cast<long long>(m.ocols)));
        const int y1 = static_cast<int>(min(match.y + d, static_cast<long long>(m.orows)));
        const int tx0 = cusi::divUp(x0, cols), ty0 = cusi::divUp(y0, rows);
        const int across = (x1 == m.ocols ? scores.tiles_across : x1 / cols) - tx0;
        const int down = (y1 == m.orows ? scores.tiles_down : y1 / rows) - ty0;
        if (across > 0)
            for (int i = threadIdx.x; i < across * down; i += N)
                bounds[(ty0 + i / across) * scores.tiles_across + tx0 + i % across] = INFINITY;
    }

    // The least bound and the first tile that has it.
    static __device__ uint2 warpLeast(const uint2 &mine) {
        const unsigned least = cusi::warpMin(mine.x);
        return {least, cusi::warpMin(mine.x == least ? mine.y : ~0u)};
    }
    __device__ uint2 firstTile(Round &now) const {
        uint2 first = {~0u, ~0u};
        for (int i = threadIdx.x; i < tiles; i += N) {
            const unsigned here = ordered(bounds[i]);
            if (here < first.x)
                first = {here, static_cast<unsigned>(i)};
        }
        first = warpLeast(first);
        if (threadIdx.x % 32 == 0)
            now.firsts[threadIdx.x / 32] = first;
        __syncthreads();
        return warpLeast(now.firsts[threadIdx.x % (N / 32)]);
    }

    // Those candidates that begin at or below the least upper end, and the one with the least middle.
    __device__ void keepCandidates(Round &now, int begin) const {
        const float least_upper = unordered(now.least_upper);
        for (int i = threadIdx.x; i < now.candidates; i += N) {
            const MatchRange range = lists.ranges[i];
            const unsigned position = lists.positions[i];
            if (range.lower > least_upper)
                continue;
            int before = 0;
            for (int j = 0; j < now.candidates; ++j)
                before += lists.ranges[j].lower <= least_upper && lists.positions[j] < position ? 1 : 0;
            if (begin + before < MAX_LISTED)
                candidates[begin + before] = position;
            atomicAdd(&now.kept, 1);
            if (ordered(match_middle(range)) == now.least_middle)
                atomicMin(&now.winner, position);
        }
    }

    // Round `found`, after as many matches. `turn` counts the calls.
    __device__ Outcome findRound(int found, int turn) const {
        Round &now = lists.rounds[turn % 2];
        const uint2 least = firstTile(now);
        if (threadIdx.x == 0)
            lists.rounds[1 - turn % 2].reset();
        const int first = static_cast<int>(least.y);
        const float bound = unordered(least.x);
        if (!(bound < INFINITY) || bound > m.limit_cost)
            return Outcome::ENDED;
        for (int chunk = threadIdx.x / 32; chunk < chunks(); chunk += N / 32) {
            unsigned lower = ordered(INFINITY), upper = lower;
            visit(first, chunk, found, [&](unsigned, const MatchRange &range) {
                lower = min(lower, ordered(range.lower));
                upper = min(upper, ordered(range.upper));
            });
            lower = cusi::warpMin(lower);
            upper = cusi::warpMin(upper);
            if (threadIdx.x % 32 == 0) {
                atomicMin(&now.lower, lower);
                atomicMin(&now.upper, upper);
            }
        }
        __syncthreads();
        if (now.lower > least.x) { // the position that the bound came from was removed
            if (threadIdx.x == 0)
                bounds[first] = unordered(now.lower);
            return Outcome::AGAIN;
        }
        const float some = unordered(now.upper);
        for (int i = threadIdx.x; i < tiles; i += N)
            if (bounds[i] <= some) {
                const int at = atomicAdd(&now.tiles, 1);
                if (at < MAX_TILES)
                    lists.tiles[at] = i;
            }
        __syncthreads();
        if (now.tiles > MAX_TILES)
            return Outcome::OVERFLOWED;
        for (int item = threadIdx.x / 32; item < now.tiles * chunks(); item += N / 32)
            visit(static_cast<int>(lists.tiles[item / chunks()]), item % chunks(), found,
                  [&](unsigned position, const MatchRange &range) {
                      if (!(range.lower <= some))
                          return;
                      const int at = atomicAdd(&now.candidates, 1);
                      if (at < MAX_CANDIDATES) {
                          lists.positions[at] = position;
                          lists.ranges[at] = range;
                      }
                      atomicMin(&now.least_upper, ordered(range.upper));
                      atomicMin(&now.least_middle, ordered(match_middle(range)));
                  });
        __syncthreads();
        if (now.candidates > MAX_CANDIDATES)
            return Outcome::OVERFLOWED;
        const int begin = lists.begins[found];
        keepCandidates(now, begin);
        __syncthreads();
        if (begin + now.kept > MAX_LISTED)
            return Outcome::OVERFLOWED;
        const int position = static_cast<int>(now.winner);
        const int2 match = {position % m.ocols, position / m.ocols};
        if (threadIdx.x == 0) {
            lists.winners[found] = match;
            lists.begins[found + 1] = begin + now.kept;
        }
        closeTiles(match);
        return Outcome::FOUND;
    }

    // All rounds from 1 on; the number of matches found, the first among them.
    __device__ int findAll(const cusMatch &first, const float *tile_lowers, Outcome &outcome) const {
        for (int i = threadIdx.x; i < tiles; i += N)
            bounds[i] = tile_lowers[i];
        if (threadIdx.x == 0) {
            lists.rounds[0].reset();
            lists.winners[0] = {first.x, first.y};
            lists.begins[1] = 0;
        }
        __syncthreads();
        closeTiles({first.x, first.y});
        outcome = Outcome::FOUND;
        int found = 1;
        for (int turn = 0; found < m.max_matches && outcome <= Outcome::AGAIN; ++turn) {
            __syncthreads();
            outcome = findRound(found, turn);
            found += outcome == Outcome::FOUND ? 1 : 0;
        }
        __syncthreads();
        return found;
    }

    // By a whole warp: whether the first `found` matches have left a position.
    __device__ bool isLeft(int x, int y, int found) const {
        bool removed = false;
        for (int i = threadIdx.x % 32; i < found; i += 32) {
            const int2 match = lists.winners[i];
            removed |= abs(static_cast<long long>(x) - match.x) < m.min_distance &&
                       abs(static_cast<long long>(y) - match.y) < m.min_distance;
        }
        return !__any_sync(cusi::FULL_WARP, removed);
    }
    __device__ MatchRange rangeOfLeft(int x, int y, int found) const {
        constexpr MatchRange NONE = {INFINITY, INFINITY};
        if (x < 0 || y < 0 || x >= m.ocols || y >= m.orows || !isLeft(x, y, found))
            return NONE;
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
    __device__ void costs(const Templates &templates, const Windows &windows, int k, int found, int slices,
                          PartialSums<uint8_t> *partial) const {
        const int together = found > N / 32 ? 1 : 32, lane = threadIdx.x % together;
        for (int i = threadIdx.x / together; i < found; i += N / together) {
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

    // By a whole warp: the match of a round, whose first candidate is number `begin`.
    __device__ Candidate best(int begin, int end, int slices, const PartialSums<uint8_t> *partial) const {
        Candidate best = noCandidate();
        for (int i = begin + static_cast<int>(threadIdx.x % 32); i < end; i += 32) {
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

    // Stores the matches of rounds 1 .. end - 1. The first round that is not decided then, at most `end`: its match is as listed
    // only if those before are. `missing`: the first round without a match.
    __device__ int decide(int end, int slices, const PartialSums<uint8_t> *partial, int &missing) const {
        __shared__ int undecided, none;
        if (threadIdx.x == 0) {
            undecided = end;
            none = m.max_matches;
        }
        __syncthreads();
        for (int round = 1 + static_cast<int>(threadIdx.x) / 32; round < end; round += N / 32) {
            const Candidate here = best(search.lists.begins[round], search.lists.begins[round + 1], slices, partial);
            const auto rangeAt = [&](int x, int y) { return search.rangeOfLeft(x, y, round); };
            const cusMatch match = matchAt(m, rangeAt, here);
            if (threadIdx.x % 32)
                continue;
            results[round] = match;
            if (match.x < 0)
                atomicMin(&none, round);
            const int2 listed = search.lists.winners[round];
            if (match.x != listed.x || match.y != listed.y)
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
    unsigned *candidates = reinterpret_cast<unsigned *>(shared_points);
    const Search search = {m,          scores,
                           ranges,     lists,
                           candidates, reinterpret_cast<float *>(candidates + MAX_LISTED),
                           tiles,      scores.tile_cols_log2 + scores.tile_rows_log2};
    const Decision decision = {m, search, ranges, results};
    const cusMatch first = results[0];
    if (first.x < 0) {
        if (blockIdx.x == 0)
            decision.endFrom(1);
        return;
    }
    Outcome outcome;
    const int end = search.findAll(first, scores.tile_lowers + static_cast<size_t>(k) * tiles, outcome);
    const int found = lists.begins[end], slices = found ? max(1, min(m.h, ITEMS_PER_BLOCK * blocks / found)) : 1;
    PartialSums<uint8_t> *partial = static_cast<PartialSums<uint8_t> *>(refinement.listed_sums) +
                                    static_cast<size_t>(k) * (MAX_LISTED + ITEMS_PER_BLOCK * blocks);
    sumSlices<uint8_t, N>(m, frame, templates, k, candidates, found, slices, partial);
    if (!isLastBlock(&refinement.tickets[k]))
        return;

    decision.costs(templates, windows, k, found, slices, partial);
    int missing;
    const int undecided = decision.decide(end, slices, partial, missing);
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

int selectBytes(const Scores &scores) {
    return static_cast<int>((MAX_LISTED + static_cast<size_t>(scores.tiles_across) * scores.tiles_down) * sizeof(float));
}

} // namespace

cusStatus chooseSelect(MatchCuda *cuda, int most, cudaStream_t stream) {
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    const long long tiles = static_cast<long long>(stages.scores.tiles_across) * stages.scores.tiles_down;
    if (static_cast<long long>(MAX_LISTED) * 4 + tiles * 4 + STATIC_BYTES > most)
        return CUS_OK;
    static_assert(sizeof(Lists) + 1024 <= STATIC_BYTES, "shared memory of selectKernel");
    CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(selectKernel), selectBytes(stages.scores)));
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
