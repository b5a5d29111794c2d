// Exact sums of listed candidates: all blocks share the work, the last one continues.
#ifndef CUSI_MATCH_CANDIDATES_CUH
#define CUSI_MATCH_CANDIDATES_CUH

#include "match_best.cuh"
#include "match_exact.cuh"

namespace match {

// Slices of the windows of the listed candidates, shared by all blocks.
template<class T, int N>
__device__ __forceinline__ void sumSlices(const MatchModel &m, const Frame &frame, const Templates &templates, int k,
                                          const unsigned *candidates, int found, int slices, PartialSums<T> *partial) {
    for (int item = blockIdx.x; item < found * slices; item += gridDim.x) {
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
