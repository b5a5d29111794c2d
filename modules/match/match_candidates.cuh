// Exact sums of listed candidates: all blocks share the work, the last one continues.
#ifndef CUSI_MATCH_CANDIDATES_CUH
#define CUSI_MATCH_CANDIDATES_CUH

#include "match_best.cuh"
#include "match_exact.cuh"

namespace match {

// Items first, first + step, ... of the slices of the listed candidates' windows. By a whole block.
template<class T, int N>
__device__ __forceinline__ void sumSlices(const MatchModel &m, const Frame &frame, const Templates &templates, int k,
                                          const unsigned *candidates, int found, int slices, PartialSums<T> *partial,
                                          int first, int step) {
    for (int item = first; item < found * slices; item += step) {
        const int slice = item % slices;
        const unsigned position = candidates[item / slices];
        const int y = position / m.ocols, x = position % m.ocols;
        const int each = cusi::divUp(m.h, slices), j0 = min(slice * each, m.h), j1 = min(j0 + each, m.h);
        const WindowPart part = {k, y, x, j0, j1, static_cast<int>(threadIdx.x), N};
        const PartialSums<T> sum = blockSumToFirst<T, N / 32>(sumWindowPart<T>(m, frame, templates, part));
        if (threadIdx.x == 0)
            partial[item] = sum;
    }
}

// The best listed candidate, from its slices' sums.
template<class T, int N>
__device__ __forceinline__ Candidate bestListed(const MatchModel &m, const Templates &templates, const Windows &windows,
                                                int k, const unsigned *candidates, int found, int slices,
                                                const PartialSums<T> *partial) {
    Candidate best = noCandidate();
    // Few candidates have many slices, many have few: a warp or a thread each.
    const int together = found > N / 32 ? 1 : 32, lane = threadIdx.x % together;
    for (int i = threadIdx.x / together; i < found; i += N / together) {
        PartialSums<T> sum;
#pragma unroll 8
        for (int s = lane; s < slices; s += together)
            sum.add(partial[static_cast<size_t>(i) * slices + s]);
        if (together == 32)
            warpSumToFirst(sum);
        if (lane)
            continue;
        const int y = candidates[i] / m.ocols, x = candidates[i] % m.ocols;
        const Candidate here = {exactCost<T>(m, templates, windows, k, y, x, sum), candidates[i]};
        if (isBetter(here, best))
            best = here;
    }
    return best;
}

// True in the last block of a template to arrive, to which the others' results are then visible.
__device__ __forceinline__ bool isLastBlock(unsigned *ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return false;
    __threadfence();
    return true;
}

} // namespace match

#endif
