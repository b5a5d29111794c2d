// Warp and block primitives that several kernels share: sums, minima, scans, byte permutes.
#ifndef CUSI_WARP_CUH
#define CUSI_WARP_CUH

#include <cstdint>
#include <type_traits>

namespace cusi {

constexpr unsigned FULL_WARP = 0xffffffffu;

#ifdef __CUDACC__

// Sum over the warp, in every lane. The shuffles add the same pairs in every lane, so all lanes hold the same bits, floats
// included.
template<class T>
__device__ __forceinline__ T warpSum(T v) {
#if __CUDA_ARCH__ >= 800
    constexpr bool IN_HARDWARE = std::is_same_v<T, uint32_t>;
#else
    constexpr bool IN_HARDWARE = false;
#endif
    if constexpr (IN_HARDWARE) {
        return __reduce_add_sync(FULL_WARP, v);
    } else {
#pragma unroll
        for (int d = 16; d > 0; d /= 2)
            v += __shfl_xor_sync(FULL_WARP, v, d);
        return v;
    }
}

// Sum over the warp, valid in lane 0 only.
template<class T>
__device__ __forceinline__ T warpSumToFirst(T v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v += __shfl_down_sync(FULL_WARP, v, d);
    return v;
}

// Minimum over the warp, in every lane.
__device__ __forceinline__ float warpMin(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v = fminf(v, __shfl_xor_sync(FULL_WARP, v, d));
    return v;
}

__device__ __forceinline__ uint32_t warpMin(uint32_t v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(FULL_WARP, v);
#else
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        v = min(v, __shfl_xor_sync(FULL_WARP, v, d));
    return v;
#endif
}

// Inclusive prefix sums over the lanes. Several at once hide each other's shuffle latency.
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

// Sum over a block of whole warps (1024 threads at most) in a fixed order, valid in thread 0 only.
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

// Minimum over a block of whole warps (1024 threads at most), in every thread.
__device__ __forceinline__ float blockMin(float v) {
    __shared__ float warps[32];
    v = warpMin(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    return warpMin(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : INFINITY);
}

// prmt.b32 with its sign-replicating modes, which __byte_perm masks off.
__device__ __forceinline__ uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(selector));
    return result;
}

#endif // __CUDACC__

} // namespace cusi

#endif
