// Keeps transforms in float from underflowing or overflowing. Rows whose sum of squares is tiny or huge are transformed
// again, multiplied by 2^level. Before the transforms of columns, all rows get the lowest level of the frame. Ordinary
// frames only pay for the check of the sums.
#ifndef CUSI_MATCH_CUDA_LEVELS_CUH
#define CUSI_MATCH_CUDA_LEVELS_CUH

#include "match/cuda/stages.cuh"

namespace cusi::match {

// Returns the level of rows with this sum of squares, which is not finite if a shifted pixel is not.
__device__ __forceinline__ int levelOf(double squares) {
    if ((squares >= 0x1p-120 && squares < 0x1p120) || squares == 0)
        return 0;
    return squares < 0x1p240 ? min(-(ilogb(squares) >> 1), 126) : -128;
}

// Returns the sum of the rows' squares, valid in the first thread. transform(level) transforms the rows times 2^level and
// returns the sum of their squares. All threads of the block must call this.
template<class Transform>
__device__ __forceinline__ double transformAtLevel(const MatchModel &m, const Transform &transform) {
    __shared__ int wanted;
    double squares = 0;
#pragma unroll 1
    for (int level = 0;;) {
        const double sum = transform(level);
        if (!level)
            squares = sum;
        else if (!isfinite(squares))
            squares = ldexp(sum, -2 * level);
        if (m.integer || level)
            return squares;
        if (threadIdx.x == 0)
            wanted = levelOf(squares);
        __syncthreads();
        level = wanted;
        if (!level)
            return squares;
    }
}

// Returns whether a row has a level other than 0; the same in all threads of the block.
__device__ __forceinline__ bool hasLevels(const MatchModel &m, const Energy &energy) {
    if (m.integer)
        return false;
    bool any = false;
    for (int i = threadIdx.x; i < m.channels * energy.part_count; i += blockDim.x)
        any |= levelOf(energy.parts[i]) != 0;
    return __syncthreads_or(any);
}

// Returns the frame's level, the lowest of its rows. Rows of zeros have none.
__device__ inline int leastLevel(const MatchModel &m, const Energy &energy) {
    float least = 126;
    for (int i = threadIdx.x; i < m.channels * energy.part_count; i += blockDim.x)
        if (energy.parts[i] != 0)
            least = fminf(least, static_cast<float>(levelOf(energy.parts[i])));
    return static_cast<int>(cusi::blockMin(least));
}

// Returns the factor that brings rows with this sum of squares to the frame's level.
__device__ __forceinline__ float toLevel(int least, double squares) {
    return static_cast<float>(ldexp(1.0, least - levelOf(squares)));
}

} // namespace cusi::match

#endif
