// Exact values of positions, by a block: the pose is resampled once for several of them.
#ifndef CUSI_POSE_EXACT_CUH
#define CUSI_POSE_EXACT_CUH

#include "pose/cuda/field.cuh"

namespace cusi::pose {

constexpr int TOGETHER = 8; // positions

struct Place {
    int row, col;
};

struct ExactShared {
    PoseBest best; // as of the start
    Place at[TOGETHER];
    unsigned long long sums[TOGETHER][3]; // ssd, or those of I, I^2 and I T
    bool is_done;
};

// Called by one thread of a block.
template<class Act>
__device__ void withBest(State *state, const Act &act) {
    while (atomicCAS(&state->lock, 0u, 1u) != 0)
        __nanosleep(100);
    __threadfence();
    volatile PoseBest &shared = state->best;
    PoseBest best;
    best.ssd = shared.ssd, best.n = shared.n, best.cost = shared.cost;
    best.pose = shared.pose, best.row = shared.row, best.col = shared.col;
    if (act(best)) {
        shared.ssd = best.ssd, shared.n = best.n, shared.cost = best.cost;
        shared.pose = best.pose, shared.row = best.row, shared.col = best.col;
    }
    __threadfence();
    atomicExch(&state->lock, 0u);
}
__device__ inline PoseBest loadBest(State *state) {
    PoseBest best;
    withBest(state, [&](const PoseBest &now) { return best = now, false; });
    return best;
}
__device__ inline void offer(const Field &f, const PoseBest &value) {
    const double score = pose_score(f.method, &value);
    if ((pose_wantsSmallest(f.method) ? score : -score) > f.limit_cost)
        return;
    withBest(f.state, [&](PoseBest &best) {
        const bool is_better = pose_isBetter(&value, &best);
        if (is_better)
            best = value;
        return is_better;
    });
}

// A thread's sums of one position over a stripe of rows.
template<bool DIFFERS>
struct PixelSums {
    uint32_t v[DIFFERS ? 1 : 3] = {};

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

// Sums of shared.at[0..count - 1] to shared.sums. Stops early if none can be as good as shared.best and `stops`.
template<bool DIFFERS>
__device__ void sumPixels(const Field &f, const Pose &p, int count, bool stops, ExactShared &shared) {
    // a thread's sum over a stripe is at most 2^11 * 255^2, so that a warp's fits 32 bits
    const int stripe = max(1, (1 << 11) / divUp(p.cols, THREADS));
    const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
    if (tid < TOGETHER)
        shared.sums[tid][0] = shared.sums[tid][1] = shared.sums[tid][2] = 0;
    if (tid == 0)
        shared.is_done = false;
    __syncthreads();
    const int64_t du = 2 * THREADS * p.transform.cosine, dv = 2 * THREADS * p.transform.sine;
    for (int first = 0; first < p.rows; first += stripe) {
        PixelSums<DIFFERS> sums[TOGETHER];
        for (int y = first; y < min(first + stripe, p.rows); ++y) {
            PosePlace place = pose_place(&p.transform, p.left + tid, p.top + y);
            for (int x = tid; x < p.cols; x += THREADS, place.u += du, place.v += dv) {
                const int t = pose_sample(&p.transform, f.templ, f.mask, pose_sourceAt(place));
                if (t < 0)
                    continue;
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i)
                    if (i < count)
                        sums[i].add(
                            f.frame[static_cast<size_t>(shared.at[i].row + y) * f.frame_step + shared.at[i].col + x], t);
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
            for (int k = 0; i < count && k < (DIFFERS ? 1 : 3); ++k) {
                const unsigned of_warp = warpSum(sums[i].v[k]);
                if (lane == 0)
                    atomicAdd(&shared.sums[i][k], static_cast<unsigned long long>(of_warp));
            }
        if (!DIFFERS || !stops)
            continue;
        __syncthreads();
        if (tid == 0 && shared.best.pose >= 0) {
            bool is_done = true;
            for (int i = 0; i < count; ++i)
                is_done &= shared.sums[i][0] * shared.best.n > shared.best.ssd * static_cast<uint64_t>(p.n);
            shared.is_done = is_done;
        }
        __syncthreads();
        if (shared.is_done)
            return;
    }
    __syncthreads();
}

template<bool DIFFERS>
__device__ PoseBest valueOf(const Field &f, int pose, Place at, const unsigned long long (&sums)[3]) {
    const Pose &p = f.poses[pose];
    PoseBest value = {0, 1, 0, pose, at.row, at.col};
    if constexpr (DIFFERS)
        value.ssd = sums[0], value.n = static_cast<uint64_t>(p.n);
    else
        value.cost = pose_normed(f.method, &p, sums[0], sums[1], sums[2]);
    return value;
}

// Offers positions of a pose as the best. `at` is in shared memory.
template<bool DIFFERS>
__device__ void tryPositions(const Field &f, int pose, const Place *at, int count, ExactShared &shared) {
    for (int first = 0; first < count; first += TOGETHER) {
        const int n = min(count - first, TOGETHER);
        __syncthreads();
        if (threadIdx.x == 0)
            shared.best = loadBest(f.state);
        if (threadIdx.x < n)
            shared.at[threadIdx.x] = at[first + threadIdx.x];
        __syncthreads();
        sumPixels<DIFFERS>(f, f.poses[pose], n, true, shared);
        if (threadIdx.x == 0 && !shared.is_done)
            for (int i = 0; i < n; ++i)
                offer(f, valueOf<DIFFERS>(f, pose, shared.at[i], shared.sums[i]));
    }
    __syncthreads();
}

} // namespace cusi::pose

#endif
