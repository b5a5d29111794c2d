// What kernels of direct correlation share, however they multiply: costs from a window's sums, and the best of the tiles.
#ifndef CUSI_MATCH_CUDA_DIRECT_CUH
#define CUSI_MATCH_CUDA_DIRECT_CUH

#include "match/cuda/refine.cuh"

namespace cusi::match {

constexpr int TILE_COLS = 64; // columns of positions in a tile

// Returns the low or the high bytes of the squares of four pixels.
__device__ __forceinline__ uint32_t squares(uint32_t word, int source) {
    uint32_t result = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint32_t byte = word >> (8 * k) & 255;
        result |= (byte * byte >> (source == HIGH_OF_SQUARES ? 8 : 0) & 255) << (8 * k);
    }
    return result;
}

// ---- Window sums

// Adds four rows of pixels, a word of each, or their squares, to the sums of the words' four columns.
template<bool SQUARES>
__device__ __forceinline__ void addRows(const uint32_t (&w)[4], uint32_t (&sums)[4]) {
    const uint32_t low0 = __byte_perm(w[0], w[1], 0x5140), high0 = __byte_perm(w[0], w[1], 0x7362);
    const uint32_t low1 = __byte_perm(w[2], w[3], 0x5140), high1 = __byte_perm(w[2], w[3], 0x7362);
    const uint32_t columns[4] = {__byte_perm(low0, low1, 0x5410), __byte_perm(low0, low1, 0x7632),
                                 __byte_perm(high0, high1, 0x5410), __byte_perm(high0, high1, 0x7632)};
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sums[k] = __dp4a(columns[k], SQUARES ? columns[k] : 0x01010101u, sums[k]);
}
// Moves the sums down a row.
template<bool SQUARES>
__device__ __forceinline__ void moveDown(uint32_t removed, uint32_t added, uint32_t (&sums)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint32_t out = __byte_perm(removed, 0, 0x4440 + k), in = __byte_perm(added, 0, 0x4440 + k);
        sums[k] += SQUARES ? in * in - out * out : in - out;
    }
}

// ---- Scores

// Sums of a window; all are integers.
struct Sums {
    double c, s1[MATCH_MAX_CHANNELS], s2;
};
// Converts by an addition, of which there are more a cycle than conversions.
__device__ __forceinline__ double toDouble(uint32_t v) {
    return __hiloint2double(0x43300000, static_cast<int>(v)) - 0x1p52;
}

// match_score() is not inlined because that takes minutes to compile.
static __device__ __noinline__ double normedOrCenteredCost(const MatchModel &m, const MatchTemplate &t, Sums sums) {
    const double score = match_score(&m, &t, m.shift, sums.c, sums.s1, sums.s2, sums.s2 - 2 * sums.c + t.t2);
    return match_smallestIsBest(m.method) ? score : -score;
}
__device__ __forceinline__ double costOf(const MatchModel &m, const MatchTemplate &t, const Sums &sums) {
    if (m.method == CUS_MATCH_SQDIFF)
        return sums.s2 - 2 * sums.c + t.t2;
    return normedOrCenteredCost(m, t, sums);
}

// Estimates costs in float, which suffices for most positions. The error is less than MARGIN, absolute with normed methods,
// otherwise relative. The cost is (c c_weight + s2 s2_weight - sum of t1 s1 + constant) factor; with normed methods it is
// divided by the window's norm, at most `most`, and `none` if there is no norm. CHANNELS: the most.
template<int CHANNELS>
struct Estimate {
    static constexpr float MARGIN = 1e-5f;
    const bool normed;
    double t1[CHANNELS], c_weight = 1, s2_weight = 0, constant = 0, norm_weight = 1;
    float factor, most = INFINITY, none = 0;

    __device__ Estimate(const MatchModel &m, const MatchTemplate &t) : normed(m.method & 1), factor(-1) {
        const bool centered = m.method >= CUS_MATCH_CCOEFF;
        double norm = t.t2;
        if (m.method <= CUS_MATCH_SQDIFF_NORMED) {
            c_weight = -2;
            s2_weight = factor = most = none = 1;
            constant = t.t2;
        } else if (centered) {
            c_weight = norm_weight = m.n;
            norm *= m.n;
        }
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) {
            t1[k] = k < m.channels ? t.t1[k] : 0;
            norm -= centered ? t1[k] * t1[k] : 0;
        }
        if (normed && norm > 0)
            factor *= rsqrtf(static_cast<float>(norm));
        else if (normed)
            norm_weight = 0, none = centered ? -1 : none; // no window has a norm then
        else if (centered)
            factor /= static_cast<float>(m.n);
    }
    __device__ __forceinline__ float operator()(const Sums &sums) const {
        double above = fma(sums.c, c_weight, fma(sums.s2, s2_weight, constant)), norm = norm_weight * sums.s2;
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) { // sums that the method does not need are zero
            above = fma(-sums.s1[k], t1[k], above);
            norm = fma(-sums.s1[k], sums.s1[k], norm);
        }
        const float cost = static_cast<float>(above) * factor, rounded = static_cast<float>(norm);
        float root;
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(rounded));
        return !normed ? cost : rounded > 0 ? fminf(cost * root, most) : none;
    }
    __device__ __forceinline__ bool mayBe(float estimate, float least) const {
        return estimate - least <= 4 * MARGIN * (normed ? 1.0f : fmaxf(fabsf(least), fabsf(estimate)));
    }
};

// ---- Results

// A launch has blocks (tile, frame). Either there is one template or one frame, or each frame has a template of its own, so
// that one index counts results: it is the template's or the frame's. They have costs, bests and maps in this order.
__device__ __forceinline__ int resultOf(int k) {
    return static_cast<int>(blockIdx.y) + k;
}
__device__ __forceinline__ int templateOf(const MatchModel &m, int result) {
    return m.templates > 1 ? result : 0;
}

// Returns the sums over a template's sections that Direct::totals has of each position of a frame.
__host__ __device__ inline size_t totalsOf(const MatchModel &m) {
    return m.needs_s1 || m.needs_s2 ? 2 + m.channels : 1;
}

// Keeps the best of the block's tile, valid in the first thread.
__device__ __forceinline__ void keepBest(const Direct &direct, int result, const Candidate &best) {
    if (threadIdx.x == 0)
        direct.bests[static_cast<size_t>(result) * direct.tiles + blockIdx.x] = best;
}

// Keeps a position's cost where it is wanted, and the position if it is the best so far.
__device__ __forceinline__ void keepCost(const MatchModel &m, const MatchTemplate &t, const Sums &sums,
                                         const Direct &direct, const Scores &scores, int result, int y, int x,
                                         Candidate &best) {
    const Candidate here = {costOf(m, t, sums), static_cast<unsigned long long>(y) * m.ocols + x};
    if (direct.costs)
        direct.costs[static_cast<size_t>(result) * m.orows * m.ocols + here.position] = here.cost;
    if (scores.maps)
        cusi::rowOf(scores.maps[result], scores.map_steps[result], y)[x] =
            static_cast<float>(match_smallestIsBest(m.method) ? here.cost : -here.cost);
    if (isBetter(here, best))
        best = here;
}

// Returns where a template's or frame's least estimate so far is: as a number that grows as estimates fall, at first 0.
__device__ __forceinline__ unsigned *leastOf(const MatchModel &m, const Refinement &refinement, int result) {
    return refinement.tickets + m.frames * m.count + result;
}
// Returns the least estimate of the block and of the blocks that have called it before.
__device__ __forceinline__ float leastOfFrame(float least, unsigned *of_frame) {
    __shared__ unsigned found;
    if (threadIdx.x == 0) {
        const unsigned bits = __float_as_uint(least), own = bits >> 31 ? bits : ~bits ^ 0x80000000u;
        found = max(own, atomicMax(of_frame, own));
    }
    __syncthreads();
    return __uint_as_float(found >> 31 ? found : ~found ^ 0x80000000u);
}

// Returns the best of the thread's positions; the whole block calls it. A warp visits them in TURNS, at most 32:
// visit(turn, handle) calls handle(sums, y, x) for each of the lane's, also right of the last. keep(sums, y, x, best) does
// keepCost(): for all positions, or only for those that may be the frame's best by estimates, which come first.
template<int TURNS, int CHANNELS, class Visit, class Keep>
__device__ __forceinline__ Candidate bestOfTurns(const MatchModel &m, const MatchTemplate &t, bool all, unsigned *of_frame,
                                                 const Visit &visit, const Keep &keep) {
    const Estimate<CHANNELS> estimate(m, t);
    Candidate best = noCandidate();
    const int lane = threadIdx.x % 32;
    float least = INFINITY, of_turn = INFINITY; // of_turn: lane i keeps the least of the warp's i-th turn
#pragma unroll 1
    for (int turn = 0; turn < TURNS && !all; ++turn) {
        float least_here = INFINITY;
        visit(turn, [&](const Sums &sums, int, int x) {
            least_here = fminf(least_here, fmaxf(estimate(sums), x < m.ocols ? -INFINITY : INFINITY)); // no branch
        });
        least_here = cusi::warpMin(least_here);
        of_turn = lane == turn ? least_here : of_turn;
    }
    if (!all)
        least = leastOfFrame(cusi::blockMin(of_turn), of_frame);
#pragma unroll 1
    for (int turn = 0; turn < TURNS; ++turn) {
        bool visits = all;
        if (!all) // the same for the block
            visits = estimate.mayBe(__shfl_sync(cusi::FULL_WARP, of_turn, turn), least);
        if (visits)
            visit(turn, [&](const Sums &sums, int y, int x) {
                if (x < m.ocols && (all || estimate.mayBe(estimate(sums), least)))
                    keep(sums, y, x, best);
            });
    }
    return best;
}

// In the last block of a frame to arrive, stores the best of all tiles. If there are costs, launchMatches() does that.
template<int THREADS>
__device__ __forceinline__ void finishFrame(const MatchModel &m, const Direct &direct, const Refinement &refinement) {
    if (direct.costs || !isLastBlock(&refinement.tickets[blockIdx.y]))
        return;
    for (int k = 0; k < m.count; ++k) {
        const Candidate *bests = direct.bests + static_cast<size_t>(resultOf(k)) * direct.tiles;
        Candidate best = noCandidate();
#pragma unroll 8
        for (unsigned i = threadIdx.x; i < direct.tiles; i += THREADS) {
            const ulonglong2 read = __ldcg(reinterpret_cast<const ulonglong2 *>(bests + i)); // one load of 16 bytes
            const Candidate here = {__longlong_as_double(static_cast<long long>(read.x)), read.y};
            if (isBetter(here, best))
                best = here;
        }
        best = blockBestToFirst<THREADS / 32>(best);
        if (threadIdx.x == 0) {
            refinement.results[resultOf(k)] = matchOf(m, best, nullptr);
            *leastOf(m, refinement, resultOf(k)) = 0;
        }
    }
    if (threadIdx.x == 0)
        refinement.tickets[blockIdx.y] = 0;
}

// ---- Host

// Chooses Direct::match_blocks.
cusStatus prepareMatches(MatchCuda *cuda);
// Queues what finds the matches of `results` templates or frames from their costs, in tiles of TILE_COLS x tile_rows.
cusStatus launchMatches(const Stages &stages, int results, int tile_rows, cudaStream_t stream);

} // namespace cusi::match

#endif
