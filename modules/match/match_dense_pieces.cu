// Dense correlation: denseKernel for frames in pieces.
#include "match_dense_kernel.cuh"

namespace match {

DenseKernel denseKernelInPieces(bool integer) {
    return integer ? denseKernel<uint8_t, true> : denseKernel<float, true>;
}

} // namespace match
