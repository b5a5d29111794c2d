// The better one of candidates, and the result that follows from it.
#ifndef CUSI_MATCH_BEST_CUH
#define CUSI_MATCH_BEST_CUH

#include "match/cuda/stages.cuh"

namespace match {

__device__ __forceinline__ Candidate noCandidate() {
    return {INFINITY, ~0ull};
}
__device__ inline bool isBetter(const Candidate &a, const Candidate &b) {
    return a.cost < b.cost || (a.cost == b.cost && a.position < b.position);
}

// The best of a block of COUNT warps, valid in thread 0 only.
template<int COUNT = WARPS>
__device__ Candidate blockBestToFirst(Candidate best) {
    __shared__ Candidate warps[COUNT];
    for (int d = 16; d; d /= 2) {
        const Candidate other = {__shfl_down_sync(cusi::FULL_WARP, best.cost, d),
                                 __shfl_down_sync(cusi::FULL_WARP, best.position, d)};
        if (isBetter(other, best))
            best = other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < COUNT; ++w)
            if (isBetter(warps[w], best))
                best = warps[w];
    return best;
}

// The match that follows from the best position. ranges: the template's map, whose midpoints give offsets to fractions of a pixel.
__device__ __forceinline__ cusMatch matchOf(const MatchModel &m, const MatchRange *ranges, const Candidate &best) {
    cusMatch match = {-1, -1, NAN, 0, 0, 0, -1};
    if (best.position == ~0ull || !(best.cost <= m.limit_cost))
        return match;
    match.x = static_cast<int>(best.position % m.ocols);
    match.y = static_cast<int>(best.position / m.ocols);
    match.score = match_smallestIsBest(m.method) ? best.cost : 0 - best.cost;
    const MatchRange *at = ranges + best.position;
    if (m.subpixel && match.x > 0 && match.x + 1 < m.ocols)
        match.dx = match_vertex(match_middle(at[-1]), match_middle(*at), match_middle(at[1]));
    if (m.subpixel && match.y > 0 && match.y + 1 < m.orows)
        match.dy = match_vertex(match_middle(*(at - m.ocols)), match_middle(*at), match_middle(at[m.ocols]));
    return match;
}

} // namespace match

#endif
