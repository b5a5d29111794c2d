// Data of the kernels of pose.
#ifndef CUSI_POSE_FIELD_CUH
#define CUSI_POSE_FIELD_CUH

#include "cuda.cuh"
#include "pose/bound.h"

namespace cusi::pose {

constexpr int THREADS = 256, WARPS = THREADS / 32, TRIALS = 32;
constexpr int GROUP_SIZE = 8, SLICE = 32; // positions; rows
constexpr int MAX_GROUPS = 1 << 15;

// A pose's blocks at each level, and its positions.
struct Lists {
    uint32_t first[POSE_LEVELS]; // a multiple of POSE_CHUNK
    uint32_t count[POSE_LEVELS];
    int32_t rows, cols; // positions; 0 if the window does not fit
};

// A chunk of blocks. count, t1, t2: blocks of the list up to the chunk's last, the sums of their values and squares.
struct Chunk {
    int32_t pose, level, count;
    int64_t t1, t2;
};

// A PoseTest with integers where the sums are integers.
struct Test {
    uint64_t most;      // SQDIFF
    int64_t t1;         // sum of values if means are subtracted, else 0
    int64_t spread;     // count t2 - t1 t1
    float cosine, sine; // cosine < 0: rules out nothing
};

// 32 cells in a row; mask: those that remain.
struct Strip {
    int32_t pose, row, word;
    uint32_t mask;
};

struct Place {
    int row, col;
};

// Positions of a pose whose values are wanted. Blocks add the sums of their slices.
struct Group {
    int32_t pose, count;
    unsigned done; // slices done
    Place at[GROUP_SIZE];
    unsigned long long sums[GROUP_SIZE][3];
};

// Kernels set and read this. Writers of `best` hold the lock; version is odd while one writes.
struct State {
    unsigned lock, version, strips, next_part, groups, next_slice;
    int stop;            // 1: the search is cancelled
    PoseBest best, seen; // seen: the best before branch and bound
    int given_up, left;  // poses left by bounds, and those of them left by screening
};

struct Field {
    const unsigned char *frame;
    size_t frame_step;
    int frame_rows, frame_cols;
    const uint32_t *table; // integral image of the frame
    size_t table_step;     // in entries
    uint32_t *plane;       // level 0: least mean in the lower half, greatest in the upper half
    const uint32_t *templ,
        *mask; // [row][col] of the template: the pixel, its right neighbor, and the two below; mask: 0 or 255
    const Pose *poses;
    const Lists *lists;
    const PoseBlock *blocks;
    const Chunk *chunks; // one for every POSE_CHUNK blocks
    Test *tests;
    unsigned chunk_count;
    Strip *strips;
    Group *groups;
    int most_slices;
    unsigned long long *guesses; // [pose]: the cost as an ordered integer, then the place
    State *state;
    PosePicks picks;
    cusMatchMethod method;
    double limit_cost;
    int pose_count, levels;
    PoseLevel level[POSE_LEVELS];
    // [pose]: approximate memory loads for the exact values that bounds leave. A pose with more than most_loads is
    // given up and transformed.
    unsigned long long *loads, most_loads;
    int *given_up; // the poses that are given up
};

// ---- Poses that are given up ------------------------------------------------------------------------------------------

__device__ __forceinline__ bool isGivenUp(const Field &f, int pose) {
    return __ldcg(&f.loads[pose]) > f.most_loads;
}
// Adds loads to a pose. Returns whether it is now given up.
__device__ __forceinline__ bool isTooMuch(const Field &f, int pose, unsigned long long loads) {
    return atomicAdd(&f.loads[pose], loads) + loads > f.most_loads;
}

// ---- Block means ----------------------------------------------------------------------------------------------------

// Returns log2 of a block's side, a power of two.
__device__ __forceinline__ int log2Of(int block) {
    return 31 - __clz(block);
}

// Returns the mean of a block in units of 1/8, rounded down. corner: the table's entry of its first pixel.
__device__ __forceinline__ int blockMean(const uint32_t *corner, size_t step, int block) {
    const uint32_t *const below = corner + static_cast<size_t>(block) * step;
    const uint32_t sum = below[block] - below[0] - corner[block] + corner[0];
    return static_cast<int>(sum >> (2 * log2Of(block) - 3));
}

// The least and greatest mean of a block. The classes read them for neighboring cells or neighboring positions, one per
// lane.
struct Means {
    int low, high;
};
class CellMeans {
  public:
    __device__ CellMeans(const Field &f, int row, int col) : at_(f.plane + row * f.level[0].step + col) {}
    __device__ Means operator()(const PoseBlock &b) const {
        const uint32_t word = at_[b.offset];
        return {static_cast<int>(word & 0xffff), static_cast<int>(word >> 16)};
    }

  private:
    const uint32_t *at_;
};
class PositionMeans {
  public:
    __device__ PositionMeans(const Field &f, int level, int row, int col)
        : at_(f.table + row * f.table_step + col), step_(f.table_step), block_(f.level[level].block) {}
    __device__ Means operator()(const PoseBlock &b) const {
        const int mean = blockMean(at_ + b.offset, step_, block_);
        return {mean, mean + 1};
    }

  private:
    const uint32_t *at_;
    size_t step_;
    int block_;
};

// ---- Sums over blocks -----------------------------------------------------------------------------------------------

// Sums over up to 64 blocks: 64 * 4081^2 is below 2^31 (cpu/bounds.c).
template<bool DIFFERS>
struct BlockSums;
template<>
struct BlockSums<true> {
    uint32_t squares = 0;

    __device__ void add(Means m, const PoseBlock &b) {
        const int d = max(0, max(m.low - (b.mean + 1), b.mean - m.high));
        squares += static_cast<uint32_t>(d * d);
    }
    __device__ BlockSums ofWarp() const { return {warpSum(squares)}; }
};
template<>
struct BlockSums<false> {
    int32_t s1 = 0, s2 = 0, st = 0, sr = 0;

    __device__ void add(Means m, const PoseBlock &b) {
        const int c = m.low + m.high, r = m.high - m.low;
        s1 += c;
        s2 += c * c;
        st += c * b.value;
        sr += r * r;
    }
    __device__ BlockSums ofWarp() const {
        const auto sum = [](int32_t v) { return static_cast<int32_t>(warpSum(static_cast<unsigned>(v))); };
        return {sum(s1), sum(s2), sum(st), sum(sr)};
    }
};

// Sums over all blocks so far, at most 2^16.
template<bool DIFFERS>
struct Totals;
template<>
struct Totals<true> {
    uint64_t squares = 0;

    __device__ void add(const BlockSums<true> &s) { squares += s.squares; }
    __device__ bool passes(const Test &t, int, bool) const { return squares <= t.most; }
};
template<>
struct Totals<false> {
    int64_t s1 = 0, s2 = 0, st = 0, sr = 0;

    __device__ void add(const BlockSums<false> &s) { s1 += s.s1, s2 += s.s2, st += s.st, sr += s.sr; }

    // Returns whether the ball of windows meets the cone. All values are `count` times those of pose_cone()'s proof.
    // Differences that cancel are taken in integers; floats round by less than 2^-20 of the window's norm.
    __device__ bool passes(const Test &t, int count, bool centered) const {
        if (t.cosine < 0)
            return true;
        const int64_t mean = centered ? s1 : 0;
        const float energy = static_cast<float>(count * s2 - mean * mean),
                    along = static_cast<float>(count * st - s1 * t.t1) * rsqrtf(static_cast<float>(t.spread)),
                    norm = sqrtf(energy), rest = energy - along * along - 0x1p-18f * energy;
        const float distance = t.cosine * sqrtf(fmaxf(rest, 0)) - t.sine * along;
        return distance <= sqrtf(static_cast<float>(count * sr)) * (1 + 0x1p-18f) + 0x1p-18f * norm;
    }
};

} // namespace cusi::pose

#endif
