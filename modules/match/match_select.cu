// Further matches of 8-bit pictures: one launch finds them all.
//
// Every block searches them by the ranges alone, in the same way, so blocks need not communicate. A list grows by the positions that
// begin at or below a threshold. As long as the least upper end of those that are left is below it, the position with the least
// middle is taken for the match of a round, and those that may be the best of the round are wanted. Then all blocks sum up the
// wanted windows, and the last one compares their exact costs: up to the first round whose match turns out to be another one, the
// search was right. From there on denseKernel continues, which natural pictures do not need.
#include "match_select.cuh"

namespace match {

namespace {

constexpr int STATIC_BYTES = 28672; // of selectKernel's shared memory, at most
constexpr int ITEMS_PER_BLOCK = 3;  // slices of windows, at least: blocks end at about the same time

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
        return warpBest(best);
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

cusStatus chooseSelect(MatchCuda *cuda, cudaStream_t stream) {
    constexpr int MOST = 1 << 16; // rows or columns of packed()
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    if (m.orows > MOST || m.ocols > MOST || selectBytes(stages.scores) + STATIC_BYTES > static_cast<size_t>(most))
        return CUS_OK;
    static_assert(sizeof(Lists) + 1024 <= STATIC_BYTES, "shared memory of selectKernel");
    CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(selectKernel), most - STATIC_BYTES));
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
