// Loads and stores with a cache hint or a memory order, and vector accesses at any address.
#ifndef CUSI_MEMORY_CUH
#define CUSI_MEMORY_CUH

#include <cstdint>

namespace cusi {

#ifdef __CUDACC__

// Relaxed, device-wide: for flags and partial results that blocks publish to each other, whose own bits say that they are
// complete, so that no fence is needed.
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
__device__ __forceinline__ void addRelaxed(uint32_t *p, uint32_t v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Policies of the L2 cache (9.0 and later): what is read again soon, and what is not.
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

// 16 bytes from any address. bytes < 16: reads only that many; the rest is 0. `aligned` is uniform over the launch.
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

// The first `bytes` of 16 to any address.
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
