// The kernels of a search: guesses, trials of the best guesses, then branch and bound.
#ifndef CUSI_POSE_SEARCH_CUH
#define CUSI_POSE_SEARCH_CUH

#include "pose/cuda/exact.cuh"

namespace cusi::pose {

// ---- Block means of cells -------------------------------------------------------------------------------------------

constexpr int PLANE_COLS = 32, PLANE_ROWS = 16; // positions per block, whole cells

__global__ void __launch_bounds__(PLANE_COLS *PLANE_ROWS) planeKernel(const __grid_constant__ Field f) {
    __shared__ int low[PLANE_COLS * PLANE_ROWS], high[PLANE_COLS * PLANE_ROWS];
    const PoseLevel level = f.level[0];
    const int tx = threadIdx.x, ty = threadIdx.y, cell = level.cell, per_row = PLANE_COLS / cell;
    const int own = ty * PLANE_COLS + tx;
    low[own] = 255 * POSE_UNIT;
    high[own] = 0;
    __syncthreads();
    const int64_t x = static_cast<int64_t>(blockIdx.x) * PLANE_COLS + tx;
    const int col = static_cast<int>(x / cell);
    for (int64_t y0 = static_cast<int64_t>(blockIdx.y) * PLANE_ROWS; y0 / cell < level.rows;
         y0 += static_cast<int64_t>(gridDim.y) * PLANE_ROWS) {
        const int64_t y = y0 + ty;
        const int at = ty / cell * per_row + tx / cell, row = static_cast<int>(y / cell);
        const bool is_inside = row < level.rows && col < level.cols && y < f.frame_rows - level.block + 1 &&
                               x < f.frame_cols - level.block + 1;
        if (is_inside) {
            const int mean = blockMean(f.table + y * f.table_step + x, f.table_step, level.block);
            atomicMin(&low[at], mean);
            atomicMax(&high[at], mean + 1);
        }
        __syncthreads();
        if (is_inside && ty % cell == 0 && tx % cell == 0)
            f.plane[row * level.step + col] = static_cast<uint32_t>(low[at]) | static_cast<uint32_t>(high[at]) << 16;
        __syncthreads();
        low[own] = 255 * POSE_UNIT;
        high[own] = 0;
        __syncthreads();
    }
}

// ---- Guesses --------------------------------------------------------------------------------------------------------

// Returns a key that orders costs as unsigned integers.
__device__ __forceinline__ unsigned long long guessKey(float cost, uint32_t place) {
    const uint32_t bits = __float_as_uint(cost);
    return static_cast<unsigned long long>(bits ^ (bits >> 31 ? ~0u : 1u << 31)) << 32 | place;
}

// The first blocks of a pose, and the sums of their values.
struct Guides {
    PoseBlock at[POSE_GUIDES];
    int count;
    float t1, t2;
};
__device__ inline void loadGuides(const Field &f, int pose, int level, Guides &shared) {
    const Lists &lists = f.lists[pose];
    const int count = min(static_cast<int>(lists.count[level]), int(POSE_GUIDES));
    if (threadIdx.x < count)
        shared.at[threadIdx.x] = f.blocks[lists.first[level] + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        shared.count = count;
        shared.t1 = shared.t2 = 0;
        for (int k = 0; k < count; ++k) {
            const float v = shared.at[k].value;
            shared.t1 += v;
            shared.t2 += v * v;
        }
    }
    __syncthreads();
}

// Returns how badly a cell or position fits; comparable between poses.
template<bool DIFFERS, class Read>
__device__ float guessCost(const Field &f, const Guides &guides, const Read &read) {
    if constexpr (DIFFERS) {
        int squares = 0;
#pragma unroll 8
        for (int k = 0; k < guides.count; ++k) {
            const PoseBlock b = guides.at[k];
            const Means m = read(b);
            const int d = m.low + m.high - b.value;
            squares += d * d;
        }
        return static_cast<float>(squares) / static_cast<float>(guides.count);
    } else {
        BlockSums<false> sums;
#pragma unroll 8
        for (int k = 0; k < guides.count; ++k)
            sums.add(read(guides.at[k]), guides.at[k]);
        const float n = static_cast<float>(guides.count), s1 = static_cast<float>(sums.s1),
                    mean = f.method == CUS_MATCH_CCOEFF_NORMED ? 1 / n : 0, t1 = guides.t1;
        const float energy = static_cast<float>(sums.s2) - s1 * s1 * mean,
                    product = static_cast<float>(sums.st) - s1 * t1 * mean, templ = guides.t2 - t1 * t1 * mean;
        return energy > 0 && templ > 0 ? -product * fabsf(product) / (energy * templ) : 0;
    }
}

// Returns the least key of a block, in thread 0.
__device__ inline unsigned long long blockMinKey(unsigned long long key) {
    __shared__ unsigned long long warps[WARPS];
    for (int d = 16; d > 0; d /= 2)
        key = min(key, __shfl_xor_sync(FULL_WARP, key, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = key;
    __syncthreads();
    for (int w = 0; w < WARPS && threadIdx.x == 0; ++w)
        key = min(key, warps[w]);
    return key;
}

constexpr unsigned long long NO_GUESS = ~0ull;

// Finds the best cell of each pose. Block x of gridDim.x examines a share of the cells.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS) guessKernel(const __grid_constant__ Field f) {
    __shared__ Guides guides;
    for (int pose = blockIdx.y; pose < f.pose_count; pose += gridDim.y) {
        const Lists &lists = f.lists[pose];
        loadGuides(f, pose, 0, guides);
        const int cell = f.level[0].cell, cols = divUp(lists.cols, cell);
        const unsigned cells = guides.count > 0 ? static_cast<unsigned>(cols) * divUp(lists.rows, cell) : 0;
        unsigned long long best = NO_GUESS;
        for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < cells; i += gridDim.x * THREADS) {
            const int row = static_cast<int>(i / cols), col = static_cast<int>(i % cols);
            const unsigned long long key = guessKey(guessCost<DIFFERS>(f, guides, CellMeans(f, row, col)), i);
            if (key < best && !pose_isSuppressed(&f.picks, pose, row * cell, col * cell))
                best = key;
        }
        best = blockMinKey(best);
        if (threadIdx.x == 0 && best != NO_GUESS)
            atomicMin(&f.guesses[pose], best);
    }
}

// Moves each guess to the best position in its cell and the cells around it, by as many blocks. Its place becomes row *
// columns of positions + column.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS) sharpenKernel(const __grid_constant__ Field f) {
    __shared__ Guides guides;
    for (int pose = blockIdx.x; pose < f.pose_count; pose += gridDim.x) {
        const unsigned long long guess = f.guesses[pose];
        if (guess == NO_GUESS)
            continue;
        __syncthreads();
        loadGuides(f, pose, 1, guides);
        const Lists &lists = f.lists[pose];
        const unsigned cell = static_cast<unsigned>(f.level[0].cell), side = 3 * cell, index = static_cast<uint32_t>(guess),
                       cols = divUp(static_cast<unsigned>(lists.cols), cell);
        const unsigned row = max(index / cols, 1u) * cell - cell, col = max(index % cols, 1u) * cell - cell;
        unsigned long long best = NO_GUESS;
        for (unsigned i = threadIdx.x; i < side * side && guides.count > 0; i += THREADS) {
            const int y = static_cast<int>(row + i / side), x = static_cast<int>(col + i % side);
            if (y >= lists.rows || x >= lists.cols)
                continue;
            const unsigned long long key = guessKey(guessCost<DIFFERS>(f, guides, PositionMeans(f, 1, y, x)),
                                                    static_cast<uint32_t>(y * lists.cols + x));
            if (key < best && !pose_isSuppressed(&f.picks, pose, y, x))
                best = key;
        }
        best = blockMinKey(best);
        if (threadIdx.x == 0)
            f.guesses[pose] = best;
    }
}

// Starts a search: clears the best value, lists the best guesses and removes them from the array.
__global__ void __launch_bounds__(THREADS) trialKernel(const __grid_constant__ Field f) {
    State &state = *f.state;
    if (threadIdx.x == 0) {
        state.lock = state.version = state.groups = state.next_slice = 0;
        state.best.ssd = 0, state.best.n = 1, state.best.cost = 0;
        state.best.pose = -1, state.best.row = state.best.col = 0;
    }
    for (int t = 0; t < TRIALS; ++t) {
        unsigned long long best = NO_GUESS;
        for (int pose = threadIdx.x; pose < f.pose_count; pose += THREADS)
            if (f.guesses[pose] != NO_GUESS)
                best = min(best, (f.guesses[pose] & ~0xffffffffull) | static_cast<unsigned>(pose));
        best = blockMinKey(best);
        if (threadIdx.x == 0 && best != NO_GUESS) {
            const int pose = static_cast<int>(best & 0xffffffff), cols = f.lists[pose].cols;
            const uint32_t place = static_cast<uint32_t>(f.guesses[pose]);
            Group &group = f.groups[state.groups++];
            group.pose = pose, group.count = 1, group.done = 0;
            group.at[0] = {static_cast<int>(place / cols), static_cast<int>(place % cols)};
            group.sums[0][0] = group.sums[0][1] = group.sums[0][2] = 0;
            f.guesses[pose] = NO_GUESS;
        }
        __syncthreads();
    }
}

// Lists the positions within POSE_CLIMB of the best one, in its pose and the neighboring poses.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS) climbKernel(const __grid_constant__ Field f) {
    __shared__ ExactShared shared;
    __shared__ Place places[POSE_CLIMB_PLACES];
    __shared__ int count;
    const PoseBest best = f.state->best;
    if (threadIdx.x == 0)
        f.state->groups = f.state->next_slice = 0;
    const int scales = f.picks.scale_count, angle = best.pose / scales, scale = best.pose % scales;
    for (int i = 0; i < POSE_BESIDE && best.pose >= 0; ++i) {
        const int a = angle + (i == 1) - (i == 2), s = scale + (i == 3) - (i == 4), pose = a * scales + s;
        if (a < 0 || s < 0 || s >= scales || pose >= f.pose_count)
            continue;
        __syncthreads();
        if (threadIdx.x == 0)
            count = 0;
        __syncthreads();
        const int k = static_cast<int>(threadIdx.x), side = 2 * POSE_CLIMB + 1;
        int row, col;
        pose_sameCenter(f.poses, &best, pose, &row, &col);
        row += k / side - POSE_CLIMB, col += k % side - POSE_CLIMB;
        const Lists &lists = f.lists[pose];
        if (k < POSE_CLIMB_PLACES && row >= 0 && col >= 0 && row < lists.rows && col < lists.cols &&
            !pose_isSuppressed(&f.picks, pose, row, col))
            places[atomicAdd(&count, 1)] = {row, col};
        __syncthreads();
        listGroups<DIFFERS>(f, pose, places, count, shared);
    }
}

// ---- Branch and bound -----------------------------------------------------------------------------------------------

// Computes the tests of all chunks from the best value so far, and empties the lists.
__global__ void __launch_bounds__(THREADS) testKernel(const __grid_constant__ Field f, bool is_first) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i == 0 && is_first)
        f.state->seen = f.state->best, f.state->given_up = 0;
    if (i == 0)
        f.state->strips = f.state->next_part = f.state->groups = f.state->next_slice = 0;
    if (i >= f.chunk_count || f.chunks[i].count == 0)
        return;
    const Chunk c = f.chunks[i];
    const PoseGoal goal = pose_goal(f.method, &f.state->best, f.limit_cost);
    const bool centered = f.method == CUS_MATCH_CCOEFF_NORMED;
    PoseTest t = {};
    t.count = c.count;
    pose_test(f.method, &f.poses[c.pose], f.level[c.level].block, &goal, static_cast<double>(c.t1),
              static_cast<double>(c.t2), &t);
    const int64_t t1 = centered ? c.t1 : 0;
    f.tests[i] = {t.most < 0x1p62 ? static_cast<uint64_t>(t.most) : 1ull << 62, t1, c.count * c.t2 - t1 * t1,
                  __double2float_rd(t.cosine), static_cast<float>(t.sine)};
}

// Returns whether blocks leave the lane's cell or position. All lanes of the warp have the same pose.
template<bool DIFFERS, class Read>
__device__ bool isLeft(const Field &f, const Lists &lists, int level, bool is_left, const Read &read) {
    const bool centered = f.method == CUS_MATCH_CCOEFF_NORMED;
    const PoseBlock *const blocks = f.blocks + lists.first[level];
    const Test *const tests = f.tests + lists.first[level] / POSE_CHUNK;
    const int count = static_cast<int>(lists.count[level]);
    Totals<DIFFERS> totals;
    for (int k = 0; k < count; k += POSE_CHUNK) {
        if (!__any_sync(FULL_WARP, is_left))
            break;
        BlockSums<DIFFERS> sums;
        const int end = min(count - k, int(POSE_CHUNK));
        if (is_left) {
#pragma unroll 4
            for (int i = 0; i < end; ++i)
                sums.add(read(blocks[k + i]), blocks[k + i]);
            totals.add(sums);
            is_left = totals.passes(tests[k / POSE_CHUNK], k + end, centered);
        }
    }
    return is_left;
}

// Lists the cells that blocks leave in pose first_pose + blockIdx.z, 32 cells of a row per warp. SINGLE: cells are
// positions, whose bounds take so long that poses are given up here.
template<bool DIFFERS, bool SINGLE>
__global__ void __launch_bounds__(THREADS) boundKernel(const __grid_constant__ Field f, int first_pose) {
    const int pose = first_pose + static_cast<int>(blockIdx.z), cell = f.level[0].cell, lane = threadIdx.x % 32;
    const Lists &lists = f.lists[pose];
    const int rows = divUp(lists.rows, cell), cols = divUp(lists.cols, cell), words = divUp(cols, 32);
    for (int row = blockIdx.y * WARPS + threadIdx.x / 32; row < rows; row += gridDim.y * WARPS)
        for (int word = blockIdx.x; word < words; word += gridDim.x) {
            if constexpr (SINGLE)
                if (__any_sync(FULL_WARP, isGivenUp(f, pose)))
                    return;
            const int col = 32 * word + lane;
            const bool is_left = isLeft<DIFFERS>(f, lists, 0, col < cols, CellMeans(f, row, col));
            const uint32_t mask = __ballot_sync(FULL_WARP, is_left);
            if (lane == 0 && mask != 0)
                f.strips[atomicAdd(&f.state->strips, 1u)] = {pose, row, word, mask};
            if (SINGLE && lane == 0 && mask != 0)
                (void)isTooMuch(f, pose, static_cast<unsigned long long>(__popc(mask)) * f.poses[pose].n);
        }
}

// Returns whether the finest blocks leave a position; the warp tests every 64 blocks.
template<bool DIFFERS>
__device__ bool isLeftByWarp(const Field &f, const Lists &lists, int level, Place at) {
    const bool centered = f.method == CUS_MATCH_CCOEFF_NORMED;
    const PoseBlock *const blocks = f.blocks + lists.first[level];
    const Test *const tests = f.tests + lists.first[level] / POSE_CHUNK;
    const int count = static_cast<int>(lists.count[level]), lane = threadIdx.x % 32;
    const PositionMeans read(f, level, at.row, at.col);
    Totals<DIFFERS> totals;
    for (int k = 0; k < count; k += 64) {
        BlockSums<DIFFERS> sums;
        const int end = min(count, k + 64);
        for (int i = k + lane; i < end; i += 32)
            sums.add(read(blocks[i]), blocks[i]);
        totals.add(sums.ofWarp());
        if (!totals.passes(tests[(end - 1) / POSE_CHUNK], end, centered))
            return false;
    }
    return true;
}

struct SearchShared {
    ExactShared exact;
    PoseBest best; // the best at the start
    Strip strip;
    int first; // first position of the part in the strip's cells; -1: no more parts
    int left, last;
    Place left_at[THREADS], last_at[THREADS];
};

// Returns whether a position may be the best: if the best is perfect, a later one is not.
__device__ inline bool isCandidate(const Field &f, const PoseBest &best, int pose, Place at) {
    PoseBest here = best;
    here.pose = pose, here.row = at.row, here.col = at.col;
    return !(pose_isPerfect(f.method, &best) && !pose_isBetter(&here, &best)) &&
           !pose_isSuppressed(&f.picks, pose, at.row, at.col);
}

// Searches positions s.first .. s.first + THREADS - 1 of the strip's cells, in order.
template<bool DIFFERS>
__device__ void searchPositions(const Field &f, const Lists &lists, SearchShared &s) {
    const int cell = f.level[0].cell, in_strip = s.first + static_cast<int>(threadIdx.x);
    const int nth = in_strip / (cell * cell), within = in_strip % (cell * cell), pose = s.strip.pose;
    if (threadIdx.x == 0)
        s.left = s.last = 0;
    __syncthreads();
    bool is_left = nth < __popc(s.strip.mask);
    const int bit = is_left ? static_cast<int>(__fns(s.strip.mask, 0, nth + 1)) : 0;
    const Place at = {s.strip.row * cell + within / cell, (32 * s.strip.word + bit) * cell + within % cell};
    is_left = is_left && at.row < lists.rows && at.col < lists.cols;
    if (f.levels > 1)
        is_left = isLeft<DIFFERS>(f, lists, 1, is_left, PositionMeans(f, 1, at.row, at.col));
    if (is_left && isCandidate(f, s.best, pose, at))
        s.left_at[atomicAdd(&s.left, 1)] = at;
    __syncthreads();
    if (f.levels == 1) // boundKernel() has counted these
        return listGroups<DIFFERS>(f, pose, s.left_at, s.left, s.exact);
    if (threadIdx.x == 0 && s.left > 0 && isTooMuch(f, pose, s.left * 4ull * lists.count[2]))
        s.left = 0;
    __syncthreads();
    if (s.left >= 32) { // neighbors, whose loads coalesce
        const Place own = s.left_at[min(static_cast<int>(threadIdx.x), s.left - 1)];
        if (isLeft<DIFFERS>(f, lists, 2, threadIdx.x < s.left, PositionMeans(f, 2, own.row, own.col)))
            s.last_at[atomicAdd(&s.last, 1)] = own;
    } else {
        for (int i = threadIdx.x / 32; i < s.left; i += WARPS)
            if (isLeftByWarp<DIFFERS>(f, lists, 2, s.left_at[i]) && threadIdx.x % 32 == 0)
                s.last_at[atomicAdd(&s.last, 1)] = s.left_at[i];
    }
    __syncthreads();
    if (threadIdx.x == 0 && s.last > 0 && isTooMuch(f, pose, s.last * static_cast<unsigned long long>(f.poses[pose].n)))
        s.last = 0;
    __syncthreads();
    listGroups<DIFFERS>(f, pose, s.last_at, s.last, s.exact);
}

// Takes the next part of a strip: the first parts of all strips, then the second parts.
__device__ inline void takePart(const Field &f, SearchShared &s) {
    const unsigned strips = f.state->strips, cell = static_cast<unsigned>(f.level[0].cell);
    const unsigned parts = divUp(32 * cell * cell, unsigned{THREADS});
    s.first = -1;
    if (isStopped(&f.state->stop))
        return;
    for (unsigned i = 0; s.first < 0 && strips > 0 && (i = atomicAdd(&f.state->next_part, 1u)) / strips < parts;) {
        const unsigned first = i / strips * THREADS;
        s.strip = f.strips[i % strips];
        const unsigned positions = __popc(s.strip.mask) * cell * cell;
        const bool counts = first == 0 && f.levels > 1; // count the next level's loads once for all parts
        if (first < positions && !(counts ? isTooMuch(f, s.strip.pose, 4ull * positions * f.lists[s.strip.pose].count[1])
                                          : isGivenUp(f, s.strip.pose)))
            s.first = static_cast<int>(first);
    }
}

// Lists the positions that all levels leave.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS, 3) searchKernel(const __grid_constant__ Field f) {
    __shared__ SearchShared s;
    if (threadIdx.x == 0)
        s.best = loadBest(f.state);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            takePart(f, s);
        __syncthreads();
        if (s.first < 0)
            return;
        searchPositions<DIFFERS>(f, f.lists[s.strip.pose], s);
    }
}

__global__ void __launch_bounds__(THREADS) givenUpKernel(const __grid_constant__ Field f) {
    const int pose = static_cast<int>(blockIdx.x * THREADS + threadIdx.x);
    if (pose < f.pose_count && isGivenUp(f, pose))
        f.given_up[atomicAdd(&f.state->given_up, 1)] = pose;
}

// ---- Values of given positions, for refinement ----------------------------------------------------------------------

template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS) valueKernel(const __grid_constant__ Field f, PoseBest *values) {
    const PoseBest v = values[blockIdx.x];
    const PoseBest value = computeValue<DIFFERS>(f, v.pose, {v.row, v.col});
    if (threadIdx.x == 0)
        values[blockIdx.x] = value;
}

} // namespace cusi::pose

#endif
