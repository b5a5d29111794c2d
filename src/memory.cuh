// Loads and stores with a cache hint or a memory order, and vector accesses at any address.
#ifndef CUSI_MEMORY_CUH
#define CUSI_MEMORY_CUH

#include <cstdint>
#include <cstring>

namespace cusi {

#ifdef __CUDACC__

// Relaxed, device-wide accesses to flags and partial results that blocks publish to each other. The words themselves say
// whether they are complete, so no fence is needed.
__device__ __forceinline__ unsigned long long loadRelaxed(const unsigned long long *p) {
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ uint32_t loadRelaxed(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void storeRelaxed(unsigned long long *p, unsigned long long v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// Device-wide accesses to a flag that says whether data beside it is complete.
__device__ __forceinline__ unsigned long long loadAcquire(const unsigned long long *p) {
    unsigned long long v;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void storeRelease(unsigned long long *p, unsigned long long v) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ void addRelaxed(uint32_t *p, uint32_t v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// L2 cache policies (compute capability 8.0 and later) for data that is read again soon, and for data that passes once.
__device__ __forceinline__ uint64_t policyEvictLast() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ __forceinline__ uint64_t policyEvictFirst() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Relaxed accesses to words that many blocks read: L2 keeps the line where the architecture allows it. Two words at once
// are two separate atomic accesses.
__device__ __forceinline__ void storeRelaxedEvictLast(unsigned long long *p, unsigned long long v) {
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.u64 [%0], %1, %2;" ::"l"(p), "l"(v), "l"(policyEvictLast())
                 : "memory");
#else
    storeRelaxed(p, v);
#endif
}
__device__ __forceinline__ void storeRelaxedEvictLast(unsigned long long *p, unsigned long long v0, unsigned long long v1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("st.relaxed.gpu.global.L2::cache_hint.v2.u64 [%0], {%1, %2}, %3;" ::"l"(p), "l"(v0), "l"(v1),
                 "l"(policyEvictLast())
                 : "memory");
#else
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v0), "l"(v1) : "memory");
#endif
}
__device__ __forceinline__ unsigned long long loadRelaxedEvictLast(const unsigned long long *p) {
#if __CUDA_ARCH__ >= 800
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.u64 %0, [%1], %2;"
                 : "=l"(v)
                 : "l"(p), "l"(policyEvictLast())
                 : "memory");
    return v;
#else
    return loadRelaxed(p);
#endif
}
__device__ __forceinline__ void loadRelaxedEvictLast(const unsigned long long *p, unsigned long long &v0,
                                                     unsigned long long &v1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.relaxed.gpu.global.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;"
                 : "=l"(v0), "=l"(v1)
                 : "l"(p), "l"(policyEvictLast())
                 : "memory");
#else
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(v0), "=l"(v1) : "l"(p) : "memory");
#endif
}

// Stores 16 bytes at an aligned address without keeping them in any cache.
template<class T>
__device__ __forceinline__ void store16EvictFirst(T *p, const T *v) {
    uint4 w;
    memcpy(&w, v, sizeof w);
#if __CUDA_ARCH__ >= 800
    asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p), "r"(w.x), "r"(w.y),
                 "r"(w.z), "r"(w.w), "l"(policyEvictFirst())
                 : "memory");
#else
    __stcs(reinterpret_cast<uint4 *>(p), w);
#endif
}

// Loads 16 bytes from any address. bytes < 16: reads only that many; the rest is 0. `aligned` is uniform over the launch.
__device__ inline uint4 load16(const unsigned char *p, int bytes, bool aligned) {
    if (aligned && bytes >= 16)
        return __ldcs(reinterpret_cast<const uint4 *>(p));
    uint32_t w[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 16; ++i)
        if (i < bytes)
            w[i / 4] |= static_cast<uint32_t>(p[i]) << (i % 4 * 8);
    return make_uint4(w[0], w[1], w[2], w[3]);
}

// Returns 16 bytes of two neighboring vectors, from byte `phase`, 0..15, on.
__device__ __forceinline__ uint4 bytesFrom(const uint4 &low, const uint4 &high, unsigned phase) {
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; ++i)
        w[i] = phase & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i)
        w[i] = phase & 4 ? w[i + 1] : w[i];
    const unsigned shift = phase % 4 * 8;
    return make_uint4(__funnelshift_r(w[0], w[1], shift), __funnelshift_r(w[1], w[2], shift),
                      __funnelshift_r(w[2], w[3], shift), __funnelshift_r(w[3], w[4], shift));
}

// Loads 16 bytes from an aligned address, or leaves `v` as it is. No branch: behind one, the compiler waits for the bytes
// before it issues the next load.
__device__ __forceinline__ void loadStreamedIf(bool wanted, const void *p, uint4 &v) {
    asm volatile("{ .reg .pred wanted; setp.ne.u32 wanted, %5, 0; @wanted ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(static_cast<unsigned>(wanted)));
}

// Loads a byte, or leaves `v` as it is, likewise without a branch.
__device__ __forceinline__ void loadByteIf(bool wanted, const void *p, uint32_t &v) {
    asm volatile("{ .reg .pred wanted; setp.ne.u32 wanted, %2, 0; @wanted ld.global.u8 %0, [%1]; }"
                 : "+r"(v)
                 : "l"(p), "r"(static_cast<unsigned>(wanted)));
}

// Splits a copy of bytes [first, last) at an aligned address. Vectors move whole 16 bytes; lanes move the rest, at most 15
// bytes at either end, one byte each. Returns this lane's offset, or -1. Lanes 0..15 serve the first vector, 16..31 the
// last.
__host__ __device__ __forceinline__ int edgeByte(int first, int last, unsigned lane) {
    const bool upper = lane >= 16, one_vector = (first & 15) != 0 && (first ^ last) < 16;
    const int at = ((upper ? last : first) & ~15) + static_cast<int>(lane % 16);
    const bool takes = upper ? !one_vector : (first & 15) != 0;
    return takes && at >= first && at < last ? at : -1;
}

// Stores the first `bytes` of 16 to any address.
__device__ inline void store16(unsigned char *p, const uint4 &v, int bytes, bool aligned) {
    if (aligned && bytes >= 16) {
        __stcs(reinterpret_cast<uint4 *>(p), v);
        return;
    }
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 16; ++i)
        if (i < bytes)
            p[i] = static_cast<unsigned char>(w[i / 4] >> (i % 4 * 8));
}

#endif // __CUDACC__

} // namespace cusi

#endif
