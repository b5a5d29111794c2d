// Union-find with atomic minima (Playne and Hawick, 2018), in shared or global memory. Parents are indices; a root is its
// own parent.
#ifndef CUSI_UNION_FIND_CUH
#define CUSI_UNION_FIND_CUH

#include <cstdint>

namespace cusi {

// Returns a node's root. Whatever other threads join meanwhile, a parent is never larger than its node, so paths have no
// cycles. Volatile: other threads write, and the memory may be shared or global.
__device__ __forceinline__ uint32_t rootOf(const volatile uint32_t *parents, uint32_t node) {
    for (uint32_t parent = parents[node]; parent < node; parent = parents[node])
        node = parent;
    return node;
}

__device__ __forceinline__ void join(uint32_t *parents, uint32_t a, uint32_t b) {
    for (;;) {
        a = rootOf(parents, a);
        b = rootOf(parents, b);
        if (a == b)
            return;
        const uint32_t high = max(a, b), low = min(a, b);
        const uint32_t before = atomicMin(parents + high, low);
        if (before == high)
            return;
        a = before; // another thread gave high a parent, which must join as well
        b = low;
    }
}

} // namespace cusi

#endif
