// Transforms in float of frames whose values are tiny or huge. Rows are transformed as they are unless their sum of squares shows that
// floats could underflow or overflow. Then they are transformed again, multiplied by a power of two, their level. Before the columns
// follow, all rows get the least level of the frame. Ordinary frames only pay for looking at the sums.
#ifndef CUSI_MATCH_CUDA_LEVELS_CUH
#define CUSI_MATCH_CUDA_LEVELS_CUH

#include "match/cuda/stages.cuh"

namespace cusi::match {

// The exponent for rows with this sum of squares, which is not finite if a difference of pixels was not.
__device__ __forceinline__ int levelOf(double squares) {
    if ((squares >= 0x1p-120 && squares < 0x1p120) || squares == 0)
        return 0;
    return squares < 0x1p240 ? min(-(ilogb(squares) >> 1), 126) : -128;
}

// Rows' sum of squares, valid in the first thread. transform(level) transforms them times 2^level and gives the sum of their squares.
// All threads of the block must call it.
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

// Whether rows have levels; the same in all threads of the block.
__device__ __forceinline__ bool hasLevels(const MatchModel &m, const Energy &energy) {
    if (m.integer)
        return false;
    bool any = false;
    for (int i = threadIdx.x; i < m.channels * energy.part_count; i += blockDim.x)
        any |= levelOf(energy.parts[i]) != 0;
    return __syncthreads_or(any);
}

// The frame's level: the least of its rows, but for rows of zeros.
__device__ inline int leastLevel(const MatchModel &m, const Energy &energy) {
    float least = 126;
    for (int i = threadIdx.x; i < m.channels * energy.part_count; i += blockDim.x)
        if (energy.parts[i] != 0)
            least = fminf(least, static_cast<float>(levelOf(energy.parts[i])));
    return static_cast<int>(cusi::blockMin(least));
}

// What rows of a part are multiplied by to get the frame's level.
__device__ __forceinline__ float toLevel(int least, double squares) {
    return static_cast<float>(ldexp(1.0, least - levelOf(squares)));
}

} // namespace cusi::match

#endif
