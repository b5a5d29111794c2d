// Warp and block primitives that several kernels need. Sums are here and not CUB's, whose headers take most of the time in
// which a file compiles; its scans are used where a kernel needs one.
#ifndef CUSI_WARP_CUH
#define CUSI_WARP_CUH

#include <cstdint>
#include <type_traits>

namespace cusi {

constexpr unsigned FULL_WARP = 0xffffffffu;

#ifdef __CUDACC__

// Return the sum, maximum and minimum over the warp, in every lane.
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

// Returns the sum over the warp, in lane 0 only, adding neighbors first.
template<class T>
__device__ __forceinline__ T warpSumToFirst(T v) {
    if constexpr (std::is_same_v<T, unsigned>) {
        return warpSum(v);
    } else {
#pragma unroll
        for (int d = 1; d < 32; d *= 2)
            v += __shfl_down_sync(FULL_WARP, v, d);
        return v;
    }
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

// Returns the sum over a block of whole warps (at most 1024 threads), in thread 0 only, adding in a fixed order.
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

// Return the sum, maximum and minimum over a block of whole warps (at most 1024 threads), in every thread.
template<class T, class OfWarp>
__device__ __forceinline__ T blockReduce(T v, T neutral, OfWarp of_warp) {
    __shared__ T warps[32];
    v = of_warp(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    return of_warp(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : neutral);
}
__device__ __forceinline__ unsigned blockSum(unsigned v) {
    return blockReduce(v, 0u, [](unsigned of_lane) { return warpSum(of_lane); });
}
__device__ __forceinline__ unsigned blockMax(unsigned v) {
    return blockReduce(v, 0u, [](unsigned of_lane) { return warpMax(of_lane); });
}
__device__ __forceinline__ float blockMin(float v) {
    return blockReduce(v, INFINITY, [](float of_lane) { return warpMin(of_lane); });
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
