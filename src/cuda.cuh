// Helpers of the CUDA backends: error mapping, launches, addressing.
#ifndef CUSI_CUDA_CUH
#define CUSI_CUDA_CUH

#include "check.h"
#include "memory.cuh"
#include "warp.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace cusi {

// Returns CUS_OK, or the mapped status with the message "function: what: CUDA's message". Clears CUDA's last error, so it
// is not reported twice.
cusStatus cudaStatus(cudaError_t error, const char *function, const char *what);

#define CUSI_CUDA(function, call) CUS_TRY(cusi::cudaStatus((call), function, #call))

template<class T>
__host__ __device__ constexpr T divUp(T a, T b) {
    return (a + b - 1) / b;
}

// Queries the current device's multiprocessors without synchronizing.
inline cudaError_t multiprocessors(int *count) {
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device);
    return error;
}

// Shared memory that a block may use on every GPU with this architecture. For static_assert in device code.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr size_t SHARED_OF_BLOCK = 64 << 10;
#else
constexpr size_t SHARED_OF_BLOCK = 99 << 10; // 8.6, 8.9 and 12.0; others have more
#endif

// Queues kernel<<<grid, block, shared, stream>>>(args...).
template<class... Parameters, class... Arguments>
cusStatus launch(const char *function, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
                 cudaStream_t stream, Arguments &&...arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaStatus(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), function,
                      "kernel launch");
}

#ifdef __CUDACC__

// Returns whether the code that runs on a device of this version has startInOrder()'s instructions. That code was
// compiled for the latest version that is not above the device's.
constexpr bool startsInOrder(int major, int minor) {
    constexpr int compiled[] = {__CUDA_ARCH_LIST__}; // 750, 800, 900 and so on
    int latest = 0;
    for (const int version : compiled)
        latest = version <= 100 * major + 10 * minor && version > latest ? version : latest;
    return latest >= 900;
}

// Sets *blocks to how many blocks a cluster of this kernel can have, up to CLUSTER_BLOCKS; 1 where there are no clusters.
constexpr int CLUSTER_BLOCKS = 8;
template<class... Parameters>
cusStatus mostClusterBlocks(const char *function, void (*kernel)(Parameters...), unsigned threads, int *blocks) {
    int device = 0, major = 0, minor = 0;
    CUS_TRY(cudaStatus(cudaGetDevice(&device), function, "cudaGetDevice"));
    CUS_TRY(cudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), function, "device"));
    CUS_TRY(cudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), function, "device"));
    *blocks = 1;
    if (!startsInOrder(major, minor))
        return CUS_OK;
    cudaLaunchConfig_t config = {};
    config.gridDim = CLUSTER_BLOCKS;
    config.blockDim = threads;
    CUS_TRY(cudaStatus(cudaOccupancyMaxPotentialClusterSize(blocks, kernel, &config), function, "cluster size"));
    *blocks = *blocks < CLUSTER_BLOCKS ? *blocks : CLUSTER_BLOCKS;
    return CUS_OK;
}

// As launchOverlapped(), in clusters of `blocks` blocks along x, more than one only on 9.0 and later.
template<class... Parameters, class... Arguments>
cusStatus launchClusters(const char *function, unsigned blocks, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                         size_t shared, cudaStream_t stream, Arguments &&...arguments) {
    int device = 0, major = 0, minor = 0;
    CUS_TRY(cudaStatus(cudaGetDevice(&device), function, "cudaGetDevice"));
    CUS_TRY(cudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), function, "device"));
    CUS_TRY(cudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), function, "device"));
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = blocks;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = !startsInOrder(major, minor) ? 0 : blocks > 1 ? 2 : 1;
    return cudaStatus(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), function,
                      "kernel launch");
}

// Queues a kernel that begins with startInOrder(): on 9.0 and later its blocks may be scheduled while its predecessor in
// the stream drains (programmatic dependent launch). Any other kernel would run too early: use launch().
template<class... Parameters, class... Arguments>
cusStatus launchOverlapped(const char *function, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
                           cudaStream_t stream, Arguments &&...arguments) {
    return launchClusters(function, 1, kernel, grid, block, shared, stream, std::forward<Arguments>(arguments)...);
}

#endif // __CUDACC__

// Returns the start of row y of a matrix.
template<class T>
__host__ __device__ inline T *rowOf(T *data, size_t step, size_t y) {
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return reinterpret_cast<T *>(reinterpret_cast<Byte *>(data) + y * step);
}

// Returns whether all rows start at a multiple of `bytes`, for vector loads.
inline bool isAligned(const void *data, size_t step, int rows, size_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0 && (rows == 1 || step % bytes == 0);
}
inline bool isAligned(const cusMat &mat, size_t bytes) {
    return isAligned(mat.data, mat.step, mat.rows, bytes);
}

#ifdef __CUDACC__

// Lets the next kernel's blocks be scheduled, for launchOverlapped(). CUDA 11.8 has the instructions but lacks CUDA 12's
// functions for them.
__device__ inline void letNextKernelStart() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until all work queued before this kernel is complete and visible.
__device__ inline void waitForEarlierWork() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The block's rank in its cluster, the cluster's blocks, and a barrier of all their threads. Without clusters a block is
// alone.
__device__ __forceinline__ unsigned clusterRank() {
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}
__device__ __forceinline__ unsigned clusterBlocks() {
    unsigned blocks = 1;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
    return blocks;
}
__device__ __forceinline__ void clusterBarrier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}
// Reads the flag that cusi_deviceWait() sets after a cancel.
__device__ __forceinline__ bool isStopped(const int *stop) {
    return *static_cast<const volatile int *>(stop) != 0;
}
// The first line of most kernels for launchOverlapped().
__device__ inline void startInOrder() {
    letNextKernelStart();
    waitForEarlierWork();
}

#endif // __CUDACC__

} // namespace cusi

#endif
