// Runs of set bits within words and their union-find, in shared memory within a tile and in global memory between tiles.
#ifndef CUSI_MOTION_CUDA_RUNS_CUH
#define CUSI_MOTION_CUDA_RUNS_CUH

#include "motion/cuda/stages.cuh"
#include "union_find.cuh"

#include <cstddef>

namespace cusi::motion {

// A run of set bits in a word.
struct Run {
    int first, last;
    __device__ __forceinline__ uint32_t bits() const { return ~0u << first & ~0u >> (31 - last); }
    __device__ __forceinline__ uint32_t around() const { return bits() | bits() << 1 | bits() >> 1; }
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

// Returns the first bit of the run that contains bit `at` of a word.
__device__ __forceinline__ int firstBit(uint32_t word, int at) {
    const uint32_t gaps = ~word & ((1u << at) - 1);
    return gaps ? 32 - __clz(static_cast<int>(gaps)) : 0;
}

// The neighboring words with whose runs a word's runs must be joined.
struct Neighbors {
    bool left, up_left, up, up_right;
};

// Returns which neighbors of word x of row y lie in other tiles.
__device__ __forceinline__ Neighbors inOtherTiles(const Detector &d, unsigned x, unsigned y) {
    const bool left = x % TILE_WORDS == 0 && x > 0, up = y % TILE_ROWS == 0 && y > 0,
               right = x % TILE_WORDS == TILE_WORDS - 1;
    return {left, x > 0 && y > 0 && (left || up), up, x + 1 < d.words && y > 0 && (right || up)};
}

// Joins the runs of word `index` with its neighbors'. `column` and `row` are the distances of columns and rows in words;
// node(index, first) is the node of a word's run that begins at bit `first`. Runs that touch in several ways, as those of
// wide objects do, are joined once.
template<class Node>
__device__ __forceinline__ void joinRuns(uint32_t *parents, const uint32_t *words, uint32_t index, uint32_t column,
                                         uint32_t row, const Neighbors &neighbors, Node node) {
    const uint32_t before = index - column, above = index - row; // used only if these words exist
    const uint32_t left = neighbors.left ? words[before] : 0, up_left = neighbors.up_left ? words[above - column] : 0,
                   up = neighbors.up ? words[above] : 0, up_right = neighbors.up_right ? words[above + column] : 0;
    for (uint32_t rest = words[index]; rest;) {
        const Run run = takeRun(rest);
        const bool at_left = run.first == 0 && left >> 31, at_up_left = run.first == 0 && up_left >> 31;
        uint32_t touching = up & run.around();
        // If the run above touches both, the left run is joined through it, so objects that fill columns are joined once.
        bool to_left = at_left ? !(at_up_left && up & 1) : at_up_left,
             to_right = run.last == 31 && up_right & 1 && !(up >> 31);
        while (to_left || to_right || touching) { // joins in one place, since its code is long
            uint32_t other = above, word = up;
            int at = __ffs(static_cast<int>(touching)) - 1;
            if (to_left) {
                other = at_left ? before : above - column;
                word = at_left ? left : up_left;
                at = 31;
                to_left = false;
            } else if (to_right) {
                other = above + column;
                word = up_right;
                at = 0;
                to_right = false;
            } else {
                touching &= touching + (1u << at); // removes the lowest run
            }
            join(parents, node(index, run.first), node(other, firstBit(word, at)));
        }
    }
}

// Returns rootOf(), which becomes the node's parent, while other threads do the same. Every 16 steps it stores how far it
// has come, which shortens the paths of other threads.
__device__ __forceinline__ uint32_t flatten(uint32_t *parents, uint32_t node) {
    const volatile uint32_t *const now = parents;
    uint32_t root = node, steps = 0;
    for (uint32_t parent = now[root]; parent < root; parent = now[root]) {
        root = parent;
        if (++steps % 16 == 0)
            atomicMin(parents + node, root);
    }
    if (root != node)
        atomicMin(parents + node, root);
    return root;
}

// Does motionAbsorb() with atomics, since other threads do the same.
__device__ __forceinline__ void absorb(MotionComponent *into, const MotionComponent &from) {
    using Word = unsigned long long;
    static_assert(offsetof(MotionComponent, first) % 8 == 0 &&
                      offsetof(MotionComponent, top) == offsetof(MotionComponent, first) + 4,
                  "together one number by which first pixels are ordered");
    atomicMin(reinterpret_cast<Word *>(&into->first), static_cast<Word>(from.top) << 32 | from.first);
    atomicAdd(reinterpret_cast<Word *>(&into->sum_x), static_cast<Word>(from.sum_x));
    atomicAdd(reinterpret_cast<Word *>(&into->sum_y), static_cast<Word>(from.sum_y));
    atomicAdd(&into->area, from.area);
    atomicAdd(&into->differences, from.differences);
    atomicAdd(&into->moving, from.moving);
    atomicMin(&into->left, from.left);
    atomicMax(&into->right, from.right);
    atomicMax(&into->bottom, from.bottom);
}

} // namespace cusi::motion

#endif
