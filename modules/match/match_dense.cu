// denseKernel: the best matches where the refinement's lists overflowed, if there are several templates or matches.
#include "match_dense.cuh"

namespace match {

namespace {

template<class T>
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
    const Search<T> search = {m, templates, windows, scores, refinement, dense};
    findDense(search, frame);
}

} // namespace

size_t denseBytes(const Stages &stages) {
    const Dense &dense = stages.dense;
    const int columns = dense.columns.elements() * (stages.model.planes > 1 ? 2 : 1);
    return std::max(dense.rows.elements(), columns) * sizeof(fft::DoublePair);
}

cusStatus allowDenseMemory(const MatchModel &m, int bytes) {
    return allowSharedMemory(reinterpret_cast<const void *>(m.integer ? denseKernel<uint8_t> : denseKernel<float>), bytes);
}

cusStatus launchDense(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", stages.model.integer ? denseKernel<uint8_t> : denseKernel<float>,
                                  stages.dense.blocks, DENSE_THREADS, denseBytes(stages), stream, stages.model,
                                  stages.frame, stages.templates, stages.windows, stages.scores, stages.refinement,
                                  stages.dense);
}

} // namespace match
