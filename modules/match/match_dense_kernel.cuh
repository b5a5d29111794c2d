// denseKernel: the best matches where the refinement's lists overflowed, if there are several templates or matches. Its instances take
// minutes to compile, so two files share them.
#ifndef CUSI_MATCH_DENSE_KERNEL_CUH
#define CUSI_MATCH_DENSE_KERNEL_CUH

#include "match_dense.cuh"

namespace match {

using DenseKernel = void (*)(MatchModel, Frame, Templates, Windows, Scores, Refinement, Dense);
DenseKernel denseKernelInPieces(bool integer);

template<class T, bool IN_PIECES>
__global__ void __launch_bounds__(DENSE_THREADS, 1)
    denseKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement,
                const __grid_constant__ Dense dense) {
    cusi::startInOrder();
    bool overflow = false;
    for (int k = threadIdx.x; k < m.count; k += DENSE_THREADS)
        overflow |= refinement.overflows[k] != 0;
    if (!__syncthreads_or(overflow))
        return;
    const Search<T, true, IN_PIECES> search = {m, templates, windows, scores, refinement, dense};
    findDense(search, frame);
}

} // namespace match

#endif
