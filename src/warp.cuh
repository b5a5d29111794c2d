// Warp and block primitives that several kernels need and CUB lacks.
#ifndef CUSI_WARP_CUH
#define CUSI_WARP_CUH

#include <cstdint>

#ifdef __CUDACC__
#include <cub/warp/warp_reduce.cuh>
#endif

namespace cusi {

constexpr unsigned FULL_WARP = 0xffffffffu;

#ifdef __CUDACC__

// Returns the sum over the warp, in lane 0 only. CUB needs no storage for a whole warp.
template<class T>
__device__ __forceinline__ T warpSumToFirst(T v) {
    typename cub::WarpReduce<T>::TempStorage none;
    return cub::WarpReduce<T>(none).Sum(v);
}

// Return the sum, maximum and minimum over the warp, in every lane. CUB's results are in lane 0 only and would need
// another shuffle.
__device__ __forceinline__ unsigned warpSum(unsigned v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(FULL_WARP, v);
#else
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_xor_sync(FULL_WARP, v, d);
    return v;
#endif
}

__device__ __forceinline__ unsigned warpMax(unsigned v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(FULL_WARP, v);
#else
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v = max(v, __shfl_xor_sync(FULL_WARP, v, d));
    return v;
#endif
}

__device__ __forceinline__ float warpMin(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v = fminf(v, __shfl_xor_sync(FULL_WARP, v, d));
    return v;
}

// Computes N inclusive prefix sums over the lanes at once, which hides the latency of shuffles. CUB scans one after the
// other.
template<class T, int N>
__device__ __forceinline__ void warpInclusiveScan(T (&v)[N], unsigned lane) {
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        T before[N];
#pragma unroll
        for (int k = 0; k < N; ++k)
            before[k] = __shfl_up_sync(FULL_WARP, v[k], d);
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (lane >= d)
                v[k] += before[k];
    }
}

// Returns the sum over a block of whole warps (at most 1024 threads), in thread 0 only, adding in a fixed order. For block
// sizes known only at run time; others use cub::BlockReduce, which adds in the same order.
template<class T>
__device__ __forceinline__ T blockSumToFirst(T v) {
    __shared__ T warps[32];
    v = warpSumToFirst(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; ++w)
            v += warps[w];
    return v;
}

// Returns the minimum over a block of whole warps (at most 1024 threads), in every thread. CUB's result is in thread 0
// only.
__device__ __forceinline__ float blockMin(float v) {
    __shared__ float warps[32];
    v = warpMin(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    return warpMin(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : INFINITY);
}

// Does prmt.b32 with its sign-replicating modes, which __byte_perm masks off.
__device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
}

#endif // __CUDACC__

} // namespace cusi

#endif
