// Reproducible sums: what runs before and after the kernel.
#ifndef CUSI_INTEGRAL_GRID_CUH
#define CUSI_INTEGRAL_GRID_CUH

#include "cuda.cuh"
#include "integral/backend.h"
#include "integral/cuda/tile.cuh"

namespace cusi::integral {

// Zeroes the state; without a range, finds the largest finite magnitude of each channel.
cusStatus prepareGrid(const char *function, const IntegralArgs &args, cudaStream_t stream);

// Makes every entry NaN that a pixel above and left of it makes so: one outside the range, an infinity or a NaN.
cusStatus markOutside(const char *function, const IntegralArgs &args, cudaStream_t stream);

} // namespace cusi::integral

#endif
