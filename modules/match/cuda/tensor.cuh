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

// Loads 16 bytes that do not change at once.
__device__ __forceinline__ void loadFour(uint32_t *words, const void *from) {
    const uint4 four = __ldg(static_cast<const uint4 *>(from));
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}
// Returns bytes i, i + 3, i + 6 and i + 9 of three words.
__device__ __forceinline__ uint32_t everyThird(const uint32_t *words, unsigned i) {
    const uint32_t first = __byte_perm(words[0], words[1], i | (i + 3) << 4 | (i + 6 & 7) << 8);
    return __byte_perm(first, words[2], i == 0 ? 0x5210 : i == 1 ? 0x6210 : 0x7410);
}
// Stores 16 bytes of shared memory at once, which compilers may split otherwise.
__device__ __forceinline__ void storeFour(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// ---- Architecture 9.0a: products by four warps, whose operands are in shared memory

// A barrier of threads in shared memory: it turns when `threads` have arrived and all bytes that it expects are there.
__device__ __forceinline__ void initBarrier(uint64_t *barrier, unsigned threads) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(threads) : "memory");
}
// Let copies and products see the barriers that this thread has initialized, and what it has stored in shared memory.
__device__ __forceinline__ void barriersReady() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void storesReady() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Waits until the barrier has turned for the first (parity 0), second (1), third (0) time, and so on.
__device__ __forceinline__ void waitForBarrier(uint64_t *barrier, unsigned parity) {
    asm volatile("{\n.reg .pred turned;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 turned, [%0], %1;\n"
                 "@turned bra done;\nbra again;\ndone:\n}\n" ::"r"(sharedAddress(barrier)),
                 "r"(parity)
                 : "memory");
}
// Arrives at the barrier, and copies `bytes`, a multiple of 16, that it expects. Both addresses are multiples of 16.
__device__ __forceinline__ void copyBulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
    const uint32_t at = sharedAddress(barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(to)),
        "l"(from), "r"(bytes), "r"(at)
        : "memory");
}
// Copies the first `bytes` of 16, 0 to 16, to shared memory, and zeros for the others; otherwise copyAhead().
__device__ __forceinline__ void copyAheadUpTo(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from), "r"(bytes)
                 : "memory");
}
// Waits for `THREADS` threads of the block, whole warps, which call it with the same ID, 1 to 15.
template<int ID, int THREADS>
__device__ __forceinline__ void waitForWarps() {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

// Describes an operand of rows of 32 bytes without swizzle: blocks of 8 rows x 16 bytes, `next_bytes` from one to that of
// the other 16 bytes, `next_rows` to that of the next eight rows. All are multiples of 16 bytes.
__device__ __forceinline__ uint64_t describe(uint32_t address, uint32_t next_bytes, uint32_t next_rows) {
    return static_cast<uint64_t>(address >> 4) | static_cast<uint64_t>(next_bytes >> 4) << 16 |
           static_cast<uint64_t>(next_rows >> 4) << 32;
}

#define CUSI_SUMS_8(i)                                                                                            \
    "+r"(sums[i]), "+r"(sums[i + 1]), "+r"(sums[i + 2]), "+r"(sums[i + 3]), "+r"(sums[i + 4]), "+r"(sums[i + 5]), \
        "+r"(sums[i + 6]), "+r"(sums[i + 7])
#define CUSI_SUMS_32(i) CUSI_SUMS_8(i), CUSI_SUMS_8(i + 8), CUSI_SUMS_8(i + 16), CUSI_SUMS_8(i + 24)
#define CUSI_NAMES_16   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CUSI_NAMES_32   CUSI_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CUSI_NAMES_64                                                                                                 \
    CUSI_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
                  "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CUSI_NAMES_72 CUSI_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define CUSI_NAMES_128                                                                                                \
    CUSI_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
                  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, " \
                  "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "  \
                  "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CUSI_WGMMA(rows, names, a, b, ...)                                                                     \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"                                                \
                 "wgmma.mma_async.sync.aligned.m64n" rows "k32.s32.u8.u8 {" names "}, " a ", " b ", add;\n}\n" \
                 : __VA_ARGS__                                                                                 \
                 : "l"(templ), "l"(pixels))

// Queues sums (64 columns x 2 COUNT rows) += templ (64 columns x 32 bytes) times pixels (2 COUNT rows x 32 bytes), for the
// four warps of a group. Lane l of warp w has sums[4 j + 2 i + e] of column 16 w + 8 i + l / 4 and row 8 j + 2 (l % 4) + e.
template<int COUNT>
__device__ __forceinline__ void multiplyAddAhead(uint32_t (&sums)[COUNT], uint64_t templ, uint64_t pixels) {
    static_assert(COUNT == 16 || COUNT == 32 || COUNT == 64 || COUNT == 72 || COUNT == 128);
    if constexpr (COUNT == 16)
        CUSI_WGMMA("32", CUSI_NAMES_16, "%16", "%17", CUSI_SUMS_8(0), CUSI_SUMS_8(8));
    else if constexpr (COUNT == 32)
        CUSI_WGMMA("64", CUSI_NAMES_32, "%32", "%33", CUSI_SUMS_32(0));
    else if constexpr (COUNT == 64)
        CUSI_WGMMA("128", CUSI_NAMES_64, "%64", "%65", CUSI_SUMS_32(0), CUSI_SUMS_32(32));
    else if constexpr (COUNT == 72)
        CUSI_WGMMA("144", CUSI_NAMES_72, "%72", "%73", CUSI_SUMS_32(0), CUSI_SUMS_32(32), CUSI_SUMS_8(64));
    else
        CUSI_WGMMA("256", CUSI_NAMES_128, "%128", "%129", CUSI_SUMS_32(0), CUSI_SUMS_32(32), CUSI_SUMS_32(64),
                   CUSI_SUMS_32(96));
}
#undef CUSI_WGMMA

// The group's sums in registers are ready to be added to; the products queued so far are a stage; at most LATER stages are
// not finished yet.
__device__ __forceinline__ void sumsReady() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void endStage() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template<int LATER>
__device__ __forceinline__ void waitForStages() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}

} // namespace cusi::match

#endif
