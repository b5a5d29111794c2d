// The kernels that run before and after the integral kernel for reproducible sums.
#ifndef CUSI_INTEGRAL_GRID_CUH
#define CUSI_INTEGRAL_GRID_CUH

#include "cuda.cuh"
#include "integral/backend.h"
#include "integral/cuda/tile.cuh"

namespace cusi::integral {

// Zeroes the state, and without a range finds the largest finite magnitude of each channel.
cusStatus prepareGrid(const char *function, const IntegralArgs &args, cudaStream_t stream);

// Sets every entry to NaN that has a pixel outside the range, an infinity or a NaN above and left of it.
cusStatus markOutside(const char *function, const IntegralArgs &args, cudaStream_t stream);

} // namespace cusi::integral

#endif
