// The CUDA backend of integral, by file:
//
//   integral_tile.cuh       tile shapes, tuning constants
//   integral_params.cuh     kernel parameters, formats of the published sums
//   integral_load.cuh       stage 1: a tile's pixels into shared memory
//   integral_scan.cuh       stage 2: sums inside the tile
//   integral_lookback.cuh   publishing sums, adding up those of earlier tiles
//   integral_neighbors.cuh  stage 3: what is left of and above the tile
//   integral_store.cuh      stage 4: the table's entries
//   integral_kernel.cuh     the kernel, made of these stages
//   integral_workspace.cuh  layout of the workspace
//   integral_launch.cuh     choice of tiles, slabs, launches; compiled in the three files below, side by side
//   integral_sums.cu        8-bit sources: sums
//   integral_squares.cu     8-bit sources: squares, with and without sums
//   integral_floats.cu      float sources
//   integral_boxes.cu       sums over rectangles
//   integral_cuda.cu        what integral_backend.h declares
#ifndef CUSI_INTEGRAL_STAGES_CUH
#define CUSI_INTEGRAL_STAGES_CUH

#include "cuda.cuh"
#include "integral_backend.h"

namespace cusi::integral {

// 8UC1 source, sum without sqsum; 8UC1 source with sqsum; 32FC1 source.
cusStatus launchSums(const char *function, const IntegralArgs &args, cudaStream_t stream);
cusStatus launchSquares(const char *function, const IntegralArgs &args, cudaStream_t stream);
cusStatus launchFloats(const char *function, const IntegralArgs &args, cudaStream_t stream);

} // namespace cusi::integral

#endif
