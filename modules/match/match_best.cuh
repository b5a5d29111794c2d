// The better one of candidates, and the result that follows from it.
#ifndef CUSI_MATCH_BEST_CUH
#define CUSI_MATCH_BEST_CUH

#include "match_cuda.cuh"

namespace match {

__device__ __forceinline__ Candidate noCandidate() {
    return {INFINITY, ~0ull};
}
__device__ inline bool isBetter(const Candidate &a, const Candidate &b) {
    return a.cost < b.cost || (a.cost == b.cost && a.position < b.position);
}

// The best of a warp, in every lane.
__device__ __forceinline__ Candidate warpBest(Candidate best) {
    for (int d = 16; d; d /= 2) {
        const Candidate other = {__shfl_xor_sync(cusi::FULL_WARP, best.cost, d),
                                 __shfl_xor_sync(cusi::FULL_WARP, best.position, d)};
        if (isBetter(other, best))
            best = other;
    }
    return best;
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

// Offsets to fractions of a pixel, from the ranges' midpoints. rangeAt(x, y) is the range of a position of the map.
template<class RangeAt>
__device__ __forceinline__ void refineSubpixel(const MatchModel &m, const RangeAt &rangeAt, cusMatch &match) {
    const int x = match.x, y = match.y;
    const float middle = match_middle(rangeAt(x, y));
    if (x > 0 && x + 1 < m.ocols)
        match.dx = match_vertex(match_middle(rangeAt(x - 1, y)), middle, match_middle(rangeAt(x + 1, y)));
    if (y > 0 && y + 1 < m.orows)
        match.dy = match_vertex(match_middle(rangeAt(x, y - 1)), middle, match_middle(rangeAt(x, y + 1)));
}

template<class RangeAt>
__device__ __forceinline__ cusMatch matchAt(const MatchModel &m, const RangeAt &rangeAt, const Candidate &best) {
    cusMatch match = {-1, -1, NAN, 0, 0, 0, -1};
    if (best.position != ~0ull && best.cost <= m.limit_cost) {
        match.x = static_cast<int>(best.position % m.ocols);
        match.y = static_cast<int>(best.position / m.ocols);
        match.score = match_smallestIsBest(m.method) ? best.cost : 0 - best.cost;
        if (m.subpixel)
            refineSubpixel(m, rangeAt, match);
    }
    return match;
}
// ranges: of the template's map.
__device__ __forceinline__ cusMatch matchOf(const MatchModel &m, const MatchRange *ranges, const Candidate &best) {
    return matchAt(
        m, [&](int x, int y) { return ranges[static_cast<size_t>(y) * m.ocols + x]; }, best);
}

} // namespace match

#endif
