// Where the capacity may be too small, which only the encoder's last tile can tell, blocks whose entries fitted have updated the
// reference already. If not all fitted, this takes that back, so that nothing is lost.
#include "framediff_cuda.cuh"

#include <algorithm>

namespace framediff {
namespace {

constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS) undoKernel(const EncodeParams params) {
    cusi::startInOrder();
    const unsigned delivered = params.state->undelivered_from;
    if (delivered == 0xffffffffu)
        return;
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < delivered; i += gridDim.x * THREADS) {
        const unsigned p = params.positions[i], y = p / params.row_bytes;
        params.ref[static_cast<size_t>(y) * params.ref_step + (p - y * params.row_bytes)] -= params.values[i];
    }
}

} // namespace

cusStatus launchUndo(const EncodeParams &params, cudaStream_t stream) {
    int sms = 0;
    CUSI_CUDA("cusDiffEncode", cusi::multiprocessors(&sms));
    const unsigned blocks = std::min(std::max(1u, cusi::divUp(params.capacity, 4u * THREADS)), 8u * sms);
    return cusi::launchOverlapped("cusDiffEncode", undoKernel, blocks, THREADS, 0, stream, params);
}

} // namespace framediff
