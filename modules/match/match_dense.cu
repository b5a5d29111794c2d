// Dense correlation: denseKernel for frames of one piece, and its launch. match_dense_pieces.cu has the kernel for frames in pieces.
#include "match_dense_kernel.cuh"

namespace match {

namespace {

DenseKernel kernelFor(const Stages &stages) {
    if (isInPieces(stages.dense.pieces))
        return denseKernelInPieces(stages.model.integer);
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
