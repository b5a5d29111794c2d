// denseKernel: the best matches where the refinement's lists overflowed, if there are several templates or matches.
#include "match_dense.cuh"

namespace match {

namespace {

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

auto kernelFor(const Stages &stages) {
    if (isInPieces(stages.dense.pieces))
        return stages.model.integer ? denseKernel<uint8_t, true> : denseKernel<float, true>;
    return stages.model.integer ? denseKernel<uint8_t, false> : denseKernel<float, false>;
}

} // namespace

size_t denseBytes(const Stages &stages) {
    const Dense &dense = stages.dense;
    const MatchModel &m = stages.model;
    const size_t columns = dense.columns.elements() * (m.planes > 1 ? size_t{2} : 1);
    // findEqual() and equalWindows()
    const size_t words = m.integer ? 0 : std::max(size_t{2} * m.rows, size_t{4} * BAND * equalWords(m));
    return std::max(std::max<size_t>(dense.rows.elements(), columns) * sizeof(fft::DoublePair), words * sizeof(unsigned));
}

cusStatus allowDenseMemory(const Stages &stages, int bytes) {
    return allowSharedMemory(reinterpret_cast<const void *>(kernelFor(stages)), bytes);
}

cusStatus launchDense(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", kernelFor(stages), stages.dense.blocks, DENSE_THREADS,
                                  denseBytes(stages), stream, stages.model, stages.frame, stages.templates, stages.windows,
                                  stages.scores, stages.refinement, stages.dense);
}

} // namespace match
