// Runs of set bits within words, and the union-find over them, in shared memory within a tile and in global memory between tiles.
#ifndef CUSI_MOTION_CUDA_RUNS_CUH
#define CUSI_MOTION_CUDA_RUNS_CUH

#include "motion/cuda/stages.cuh"
#include "union_find.cuh"

namespace cusi::motion {

// A run of set bits in a word.
struct Run {
    int first, last;
    __device__ __forceinline__ uint32_t bits() const { return ~0u << first & ~0u >> (31 - last); }
    __device__ __forceinline__ unsigned length() const { return static_cast<unsigned>(last - first + 1); }
};

// Takes the first run from a word that is not 0.
__device__ __forceinline__ Run takeRun(uint32_t &word) {
    const int first = __ffs(static_cast<int>(word)) - 1;
    const uint32_t gaps = ~word & ~0u << first;
    const Run run = {first, gaps ? __ffs(static_cast<int>(gaps)) - 2 : 31};
    word &= ~run.bits();
    return run;
}

__device__ __forceinline__ uint32_t nodeAt(uint32_t index, int first) {
    return index * NODES + static_cast<uint32_t>(first) / 2;
}

// The node of the run that contains bit `at` of word `index`.
__device__ __forceinline__ uint32_t nodeWith(uint32_t index, uint32_t word, int at) {
    const uint32_t gaps = ~word & ((1u << at) - 1);
    return nodeAt(index, gaps ? 32 - __clz(static_cast<int>(gaps)) : 0);
}

// The neighbors whose runs a word's runs are to be joined with.
struct Neighbors {
    bool left, up_left, up, up_right;
};

// Joins the runs of word `index`; `row`: words from one row to the next. Runs that touch in more than one way, as those of wide
// things do, are joined in one.
__device__ __forceinline__ void joinRuns(uint32_t *parents, const uint32_t *words, uint32_t index, uint32_t row,
                                         const Neighbors &neighbors) {
    const uint32_t above = index - row; // used only if there is a row above
    const uint32_t left = neighbors.left ? words[index - 1] : 0, up_left = neighbors.up_left ? words[above - 1] : 0,
                   up = neighbors.up ? words[above] : 0, up_right = neighbors.up_right ? words[above + 1] : 0;
    for (uint32_t rest = words[index]; rest;) {
        const Run run = takeRun(rest);
        const uint32_t node = nodeAt(index, run.first);
        uint32_t touching = up & (run.bits() | run.bits() << 1 | run.bits() >> 1);
        if (run.first == 0 && left >> 31) {
            join(parents, node, nodeWith(index - 1, left, 31));
            if (up_left >> 31)
                touching &= touching + 1; // without a run at bit 0, which is joined by way of the left
        } else if (run.first == 0 && up_left >> 31) {
            join(parents, node, nodeWith(above - 1, up_left, 31));
        }
        if (run.last == 31 && up_right & 1 && !(up >> 31))
            join(parents, node, nodeAt(above + 1, 0));
        while (touching) {
            const int at = __ffs(static_cast<int>(touching)) - 1;
            join(parents, node, nodeWith(above, up, at));
            touching &= touching + (1u << at); // without the lowest run
        }
    }
}

} // namespace cusi::motion

#endif
