// Union-find with atomic minima (Playne and Hawick, 2018), in shared or global memory. A node's parent is an index; a root's is its
// own.
#ifndef CUSI_UNION_FIND_CUH
#define CUSI_UNION_FIND_CUH

#include <cstdint>

namespace cusi {

// Parents are smaller than their nodes at all times, whatever other threads join, so no path is a circle; what a root has is not
// smaller. Volatile: other threads write, and either memory may be meant.
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
        a = before; // another thread was faster: high has a parent, which must join as well
        b = low;
    }
}

} // namespace cusi

#endif
