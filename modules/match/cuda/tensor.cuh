// Instructions of tensor cores and of copies to shared memory.
#ifndef CUSI_MATCH_CUDA_TENSOR_CUH
#define CUSI_MATCH_CUDA_TENSOR_CUH

#include <cstdint>

namespace cusi::match {

__device__ __forceinline__ uint32_t sharedAddress(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Loads blocks of 8 rows x 16 bytes. Lane l passes the address of row l % 8 of block l / 8, and gets four bytes of row l /
// 4 of each block.
__device__ __forceinline__ void loadBlocks(uint32_t (&blocks)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
                 : "r"(address));
}
__device__ __forceinline__ void loadBlocks(uint32_t (&blocks)[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(blocks[0]), "=r"(blocks[1])
                 : "r"(address));
}

// Computes sums (16 columns x 8 rows) += templ (16 columns x BYTES) times pixels (8 rows x BYTES).
template<int BYTES>
__device__ __forceinline__ void multiplyAdd(uint32_t (&sums)[4], const uint32_t (&templ)[4], const uint32_t (&pixels)[2]) {
#if __CUDA_ARCH__ >= 800
    if constexpr (BYTES == 32)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
            "%3};"
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
            : "r"(templ[0]), "r"(templ[1]), "r"(templ[2]), "r"(templ[3]), "r"(pixels[0]), "r"(pixels[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
            : "r"(templ[0]), "r"(templ[1]), "r"(pixels[0]));
#else
#pragma unroll
    for (int part = 0; part < 4; ++part) // columns 0..7 and 8..15 of the first 16 bytes, then of the others
        if (part < BYTES / 8)
            asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+r"(sums[part % 2 * 2]), "+r"(sums[part % 2 * 2 + 1])
                : "r"(templ[part]), "r"(pixels[part / 2]));
#endif
}

// Copies 16 bytes to shared memory; they have arrived after copiesArrived() and a barrier.
__device__ __forceinline__ void copyAhead(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sharedAddress(to)), "l"(from) : "memory");
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
#endif
}
__device__ __forceinline__ void copiesArrived() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

} // namespace cusi::match

#endif
