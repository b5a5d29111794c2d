// Computes scores and the ranges of their true values from correlations and window sums.
#ifndef CUSI_MATCH_CUDA_SCORES_CUH
#define CUSI_MATCH_CUDA_SCORES_CUH

#include "match/cuda/windows.cuh"

namespace cusi::match {

// match_range() is not inlined: in every kernel it would take minutes to compile and megabytes of code.
struct RangeAndScore {
    MatchRange range;
    float score;
};
static __device__ __noinline__ RangeAndScore rangeOf(const MatchModel &m, const MatchTemplate &t, const double *p, double c,
                                                     MatchError error, double s1_0, double s1_1, double s1_2, double s1_3,
                                                     double s2) {
    const double s1[MATCH_MAX_CHANNELS] = {s1_0, s1_1, s1_2, s1_3};
    RangeAndScore result;
    result.range = match_range(&m, &t, p, c, error, s1, s2, &result.score);
    return result;
}

// Returns the cost from the correlation c of the shifted pixels in double. uncertain: error bound of a window's sum of
// squares.
template<class T>
__device__ double costOf(const MatchModel &m, const MatchTemplate &t, const Windows &windows, int y, int x, double c,
                         double uncertain) {
    double s1[MATCH_MAX_CHANNELS] = {}, s2 = 0;
    windowAt<T>(m, windows, y, x, s1, s2);
    if (m.masked && !(uncertain > 0)) { // transforms made these sums, which are integers
#pragma unroll
        for (double &sum : s1)
            sum = rint(sum);
        s2 = rint(s2);
    }
    const double score =
        match_rank(&m, &t, match_scoreOf(&m, &t, frameShift<T>(m, windows.shift), c, s1, s2, s2 - 2 * c + t.t2, uncertain));
    return match_smallestIsBest(m.method) ? score : -score;
}

// Returns whether all values of the frame are finite.
__device__ __forceinline__ bool isUsable(const MatchModel &m, const Energy &energy) {
    double sum = 0;
    for (int c = 0; c < m.channels && !m.integer; ++c)
        sum += energy.channels[c];
    return sum < INFINITY;
}

// Writes the ranges of template k and, if wanted, its scores. SQUARED: the method is SQDIFF, whose range needs none of
// match_range()'s branches.
template<int CN, bool SQUARED>
struct ScoreWriter {
    const MatchModel &m;
    const Scores &scores;
    const MatchTemplate &t;
    const double *const shift; // what the frame's pixels are shifted by
    const int k;
    const MatchError error;
    const bool usable; // isUsable()

    __device__ __forceinline__ MatchRange write(int y, int x, double c, const double (&s1)[CN], double s2) const {
        float score;
        MatchRange range;
        if constexpr (SQUARED) {
            const double value = fmax(s2 - 2 * error.unit * c + t.t2, 0.0);
            const double margin = 2 * error.correlation + error.score + value * 0x1p-22;
            range = {static_cast<float>((value - margin) * error.range),
                     static_cast<float>((value + margin) * error.range)};
            score = static_cast<float>(value * m.unit);
        } else {
            const RangeAndScore result = rangeOf(m, t, shift, c, error, s1[0], CN > 1 ? s1[1 % CN] : 0,
                                                 CN > 2 ? s1[2 % CN] : 0, CN > 3 ? s1[3 % CN] : 0, s2);
            range = result.range;
            score = result.score;
        }
        if (!usable) {
            range = {INFINITY, INFINITY};
            score = NAN;
        }
        scores.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x] = range;
        if (scores.maps)
            cusi::rowOf(scores.maps[k], scores.map_steps[k], y)[x] = score;
        return range;
    }
};

} // namespace cusi::match

#endif
