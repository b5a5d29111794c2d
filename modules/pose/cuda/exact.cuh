// Exact values of positions. Blocks resample slices of a pose, each once for several positions.
#ifndef CUSI_POSE_EXACT_CUH
#define CUSI_POSE_EXACT_CUH

#include "pose/cuda/field.cuh"

namespace cusi::pose {

// ---- The best value so far ------------------------------------------------------------------------------------------

// Loads the best value without a lock, since every slice reads it, and repeats the rare reads that a writer has
// disturbed. One thread of a block calls it, as it does offer().
__device__ inline PoseBest loadBest(const State *state) {
    PoseBest best;
    const PoseBest &shared = state->best;
    unsigned before, after;
    do {
        before = __ldcg(&state->version);
        __threadfence();
        best.ssd = __ldcg(&shared.ssd), best.n = __ldcg(&shared.n), best.cost = __ldcg(&shared.cost);
        best.pose = __ldcg(&shared.pose), best.row = __ldcg(&shared.row), best.col = __ldcg(&shared.col);
        __threadfence();
        after = __ldcg(&state->version);
    } while (before % 2 || before != after);
    return best;
}
__device__ inline void offer(const Field &f, const PoseBest &value) {
    State *const state = f.state;
    PoseBest best = loadBest(state);
    if (!pose_isBetter(&value, &best))
        return;
    while (atomicCAS(&state->lock, 0u, 1u) != 0)
        __nanosleep(100);
    best = loadBest(state);
    if (pose_isBetter(&value, &best)) {
        atomicAdd(&state->version, 1u);
        __threadfence();
        volatile PoseBest &shared = state->best;
        shared.ssd = value.ssd, shared.n = value.n, shared.cost = value.cost;
        shared.pose = value.pose, shared.row = value.row, shared.col = value.col;
        __threadfence();
        atomicAdd(&state->version, 1u);
    }
    __threadfence();
    atomicExch(&state->lock, 0u);
}

// ---- Pixels ---------------------------------------------------------------------------------------------------------

// pose_sample() along a row in 32 bits: coordinates in the template, 16.16, are below 2^31. One load gives all four
// sources, since lanes that cross the template's rows touch a cache line each.
class RowSampler {
  public:
    __device__ RowSampler(const Field &f, const PoseTransform &t, int col, int row)
        : templ_(f.templ), mask_(f.mask), width_(t.width), height_(t.height), place_(pose_place(&t, col, row)) {
        place_.u += 1 << 16, place_.v += 1 << 16; // adds half of what rounding drops
    }
    __device__ void advance(int64_t du, int64_t dv) { place_.u += du, place_.v += dv; }
    // Returns -1 where the pixel does not count.
    __device__ int operator()() const {
        const int u = (static_cast<int>(place_.u >> 17) + 1024) >> 11, v = (static_cast<int>(place_.v >> 17) + 1024) >> 11;
        const int x = u >> 5, y = v >> 5, fx = u & 31, fy = v & 31;
        if (x < 0 || y < 0 || x + (fx > 0) >= width_ || y + (fy > 0) >= height_)
            return -1;
        const int at = y * width_ + x; // below 2^26
        const uint32_t unused = (fx > 0 ? 0 : 0xff00ff00u) | (fy > 0 ? 0 : 0xffff0000u);
        if (mask_ && (__ldg(mask_ + at) | unused) != ~0u)
            return -1;
        const uint32_t sources = __ldg(templ_ + at), weights = static_cast<uint32_t>(32 - fx) | fx << 8;
        const int upper = static_cast<int>(__dp4a(sources, weights, 0u)),
                  lower = static_cast<int>(__dp4a(sources, weights << 16, 0u));
        return (32 * upper + fy * (lower - upper) + 512) >> 10;
    }

  private:
    const uint32_t *templ_, *mask_;
    int width_, height_;
    PosePlace place_;
};

// A thread's sums over a slice, for one position.
template<bool DIFFERS>
struct PixelSums {
    static constexpr int COUNT = DIFFERS ? 1 : 3; // squared differences; or I, I^2 and I T
    uint32_t v[COUNT] = {};

    __device__ void add(int image, int templ) {
        if constexpr (DIFFERS) {
            const int d = image - templ;
            v[0] += static_cast<uint32_t>(d * d);
        } else {
            v[0] += static_cast<uint32_t>(image);
            v[1] += static_cast<uint32_t>(image * image);
            v[2] += static_cast<uint32_t>(image * templ);
        }
    }
};

using Sums = unsigned long long[GROUP_SIZE][3];

// Adds rows first .. first + SLICE - 1 of a pose at `count` <= MAX_PLACES places to sums in shared memory. Windows are
// at most 2^14 wide, so a thread's sum is at most 2^11 * 255^2 and a warp's fits 32 bits.
template<bool DIFFERS, int MAX_PLACES>
__device__ void addSlice(const Field &f, const Pose &p, int first, const Place *at, int count, Sums &sums) {
    const int tid = static_cast<int>(threadIdx.x), last = min(first + SLICE, p.rows);
    const int64_t du = 2 * THREADS * p.transform.cosine, dv = 2 * THREADS * p.transform.sine;
    PixelSums<DIFFERS> own[MAX_PLACES];
    for (int y = first; y < last; ++y) {
        RowSampler sample(f, p.transform, p.left + tid, p.top + y);
        for (int x = tid; x < p.cols; x += THREADS, sample.advance(du, dv)) {
            const int t = sample();
            if (t >= 0)
#pragma unroll
                for (int i = 0; i < MAX_PLACES; ++i)
                    if (i < count)
                        own[i].add(f.frame[static_cast<size_t>(at[i].row + y) * f.frame_step + at[i].col + x], t);
        }
    }
#pragma unroll
    for (int i = 0; i < MAX_PLACES; ++i)
        for (int k = 0; i < count && k < PixelSums<DIFFERS>::COUNT; ++k) {
            const unsigned of_warp = warpSum(own[i].v[k]);
            if (tid % 32 == 0)
                atomicAdd(&sums[i][k], static_cast<unsigned long long>(of_warp));
        }
}

__device__ inline void clear(Sums &sums) {
    if (threadIdx.x < 3 * GROUP_SIZE)
        sums[threadIdx.x / 3][threadIdx.x % 3] = 0;
}

template<bool DIFFERS>
__device__ PoseBest valueOf(const Field &f, int pose, Place at, const unsigned long long *sums) {
    const Pose &p = f.poses[pose];
    PoseBest value = {0, 1, 0, pose, at.row, at.col};
    if constexpr (DIFFERS)
        value.ssd = sums[0], value.n = static_cast<uint64_t>(p.n);
    else
        value.cost = pose_normed(f.method, &p, sums[0], sums[1], sums[2]);
    return value;
}

struct ExactShared {
    Place at[GROUP_SIZE];
    Sums sums;
    unsigned slot;
    int count, first;       // the slice's number of places, and its first row
    bool is_done, is_worse; // two flags, since other threads read the first while thread 0 writes the second
};

// Computes the value of one position with a block; valid in thread 0.
template<bool DIFFERS>
__device__ __noinline__ PoseBest computeValue(const Field &f, int pose, Place at) {
    __shared__ Sums sums;
    const Pose &p = f.poses[pose];
    __syncthreads();
    clear(sums);
    __syncthreads();
    for (int first = 0; first < p.rows; first += SLICE)
        addSlice<DIFFERS, 1>(f, p, first, &at, 1, sums);
    __syncthreads();
    return valueOf<DIFFERS>(f, pose, at, sums[0]);
}

// Lists positions of a pose, in shared memory, for exactKernel(), and computes those for which the list has no room.
template<bool DIFFERS>
__device__ void listGroups(const Field &f, int pose, const Place *at, int count, ExactShared &shared) {
    __syncthreads();
    if (count == 0)
        return;
    if (threadIdx.x == 0)
        shared.slot = atomicAdd(&f.state->groups, static_cast<unsigned>(divUp(count, GROUP_SIZE)));
    __syncthreads();
    unsigned slot = shared.slot;
    for (int first = 0; first < count; first += GROUP_SIZE, ++slot) {
        const int n = min(count - first, GROUP_SIZE), tid = static_cast<int>(threadIdx.x);
        if (slot >= MAX_GROUPS) {
            for (int i = 0; i < n; ++i) {
                const PoseBest value = computeValue<DIFFERS>(f, pose, at[first + i]);
                if (tid == 0)
                    offer(f, value);
            }
            continue;
        }
        Group &group = f.groups[slot];
        if (tid == 0)
            group.pose = pose, group.count = n, group.done = 0;
        if (tid < n)
            group.at[tid] = at[first + tid];
        clear(group.sums);
    }
    __syncthreads();
}

// Computes the listed groups slice by slice: first slice 0 of all groups, then slice 1.
template<bool DIFFERS>
__global__ void __launch_bounds__(THREADS, 3) exactKernel(const __grid_constant__ Field f) {
    __shared__ ExactShared s;
    State &state = *f.state;
    const unsigned groups = min(state.groups, unsigned{MAX_GROUPS});
    for (;;) {
        __syncthreads();
        clear(s.sums);
        if (threadIdx.x == 0) {
            const unsigned i = atomicAdd(&state.next_slice, 1u);
            s.is_done =
                i / max(groups, 1u) >= static_cast<unsigned>(f.most_slices) || groups == 0 || isStopped(&state.stop);
            s.slot = s.is_done ? 0 : i % groups;
            s.first = s.is_done ? 0 : static_cast<int>(i / groups) * SLICE;
        }
        __syncthreads();
        if (s.is_done)
            return;
        Group &group = f.groups[s.slot];
        const Pose &p = f.poses[group.pose];
        const int count = group.count, slices = divUp(p.rows, SLICE);
        if (s.first >= p.rows)
            continue;
        if (threadIdx.x < count)
            s.at[threadIdx.x] = group.at[threadIdx.x];
        if (threadIdx.x == 0)
            s.is_worse = false;
        if (DIFFERS && threadIdx.x == 0 && s.first > 0) { // the sums so far may be worse than the best
            const PoseBest best = loadBest(&state);
            s.is_worse = best.pose >= 0;
            for (int i = 0; i < count; ++i)
                s.is_worse &= __ldcg(&group.sums[i][0]) * best.n > best.ssd * static_cast<uint64_t>(p.n);
        }
        __syncthreads();
        if (!s.is_worse) {
            addSlice<DIFFERS, GROUP_SIZE>(f, p, s.first, s.at, count, s.sums);
            __syncthreads();
            const int i = threadIdx.x / 3, k = threadIdx.x % 3;
            if (i < count && k < PixelSums<DIFFERS>::COUNT)
                atomicAdd(&group.sums[i][k], s.sums[i][k]);
            __threadfence();
        }
        __syncthreads();
        if (threadIdx.x != 0 || atomicAdd(&group.done, 1u) != static_cast<unsigned>(slices) - 1)
            continue;
        __threadfence();
        for (int i = 0; i < count; ++i) {
            const unsigned long long sums[] = {__ldcg(&group.sums[i][0]), __ldcg(&group.sums[i][1]),
                                               __ldcg(&group.sums[i][2])};
            offer(f, valueOf<DIFFERS>(f, group.pose, s.at[i], sums)); // incomplete sums are worse than the best
        }
    }
}

} // namespace cusi::pose

#endif
