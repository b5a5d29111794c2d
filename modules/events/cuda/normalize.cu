// VOXEL_GRID with `normalize`: the moments of frames become the scalings of their values. The kernels that make values
// (values.cu, long.cu) sum the moments first.
#include "events/cuda/stages.cuh"

namespace cusi::events {

namespace {

constexpr unsigned SCALING_THREADS = 32;

__global__ void __launch_bounds__(SCALING_THREADS)
    scalingsKernel(const EventsMoments *moments, unsigned count, int sample, EventsScaling *scalings) {
    startInOrder();
    const unsigned w = blockIdx.x * SCALING_THREADS + threadIdx.x;
    if (w < count)
        scalings[w] = eventsScaling(moments + w, sample);
}

} // namespace

EventsMoments *momentsOf(const Batch &batch, int index) {
    return batch.state->moments + static_cast<size_t>(index) * tuning::BATCH_WINDOWS;
}

EventsScaling *scalingsOf(const Batch &batch, int index) {
    return batch.state->scalings + static_cast<size_t>(index) * tuning::BATCH_WINDOWS;
}

cusStatus clearMoments(const Batch &batch, int index) {
    CUSI_CUDA(STACK, cudaMemsetAsync(momentsOf(batch, index), 0, batch.count * sizeof(EventsMoments), batch.stream));
    return CUS_OK;
}

cusStatus findScalings(const Batch &batch, int index, unsigned first, unsigned count) {
    const bool sample = eventsNormalize(&batch.stacker->representations[index]) == CUS_NORMALIZE_SAMPLE;
    return launchOverlapped(STACK, scalingsKernel, divUp(count, SCALING_THREADS), SCALING_THREADS, 0, batch.stream,
                            momentsOf(batch, index) + first, count, sample, scalingsOf(batch, index) + first);
}

} // namespace cusi::events
