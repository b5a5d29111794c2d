// Weights of events, and values from accumulators, for tiles (values.cu) and for long windows (long.cu).
#ifndef CUSI_EVENTS_CUDA_VALUES_CUH
#define CUSI_EVENTS_CUDA_VALUES_CUH

#include "events/cuda/stages.cuh"

#include <cstddef>
#include <cuda_fp16.h>

namespace cusi::events {

// ---- MDES_COUNT and STACKED_HISTOGRAM: the level of an event -----------------------------------------------------------

// Returns the last level that begins at or before the event. Levels past the last channel begin where the window ends.
__device__ inline unsigned levelOf(const EventsLevels &levels, unsigned index) {
    static_assert(EVENTS_MAX_CHANNELS == 16, "");
    unsigned level = 0;
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
        level += levels.begin[level + step] <= index ? step : 0;
    return level;
}

// Computes or loads the levels of window w. The caller synchronizes the block before reading them.
template<Kind KIND>
__device__ inline void prepareLevels(const Representation &repr, unsigned w, const Window &window, EventsLevels *levels) {
    if (KIND == MDES_COUNT && threadIdx.x == 0) {
        const unsigned n = static_cast<unsigned>(window.last - window.first), channels = repr.channels;
        eventsMdesLevels(n, static_cast<int>(channels), levels);
        for (unsigned k = channels; k < EVENTS_MAX_CHANNELS; ++k)
            levels->begin[k + 1] = n;
    }
    if ((KIND == STACKED_HISTOGRAM || KIND == MDES_DIFF) && threadIdx.x <= EVENTS_MAX_CHANNELS)
        levels->begin[threadIdx.x] = repr.levels[w].begin[threadIdx.x];
}

// ---- VOXEL_GRID --------------------------------------------------------------------------------------------------------

// An event's weights in its bin and in the next, which does not exist after the last bin.
struct VoxelWeights {
    unsigned bin;
    long long here, next;
};

struct VoxelTimes {
    int64_t start;
    double dt, inverse, last_bin;
    __device__ VoxelTimes(int64_t first, int64_t last, unsigned bins) : start(first), last_bin(bins - 1) {
        const int64_t span = last - start;
        dt = span > 0 ? static_cast<double>(span) : 1.0;
        inverse = 1 / dt;
    }
    // Division by a known divisor, rounded correctly as the host's is (Markstein 1990): the quotient by a correctly rounded
    // reciprocal is within 2 units in the last place, one correction brings it within 1, and a second makes it exact.
    __device__ double binsBefore(int64_t t) const {
        const double product = last_bin * static_cast<double>(t - start);
        double time = product * inverse;
        time = fma(fma(-time, dt, product), inverse, time);
        return fma(fma(-time, dt, product), inverse, time);
    }
    __device__ VoxelWeights operator()(int64_t t, bool positive) const {
        const double time = fmin(fmax(binsBefore(t), 0.0), last_bin);
        const unsigned bin = static_cast<unsigned>(time);
        const long long next = static_cast<long long>((time - bin) * EVENTS_VOXEL_UNIT + 0.5),
                        here = static_cast<long long>(EVENTS_VOXEL_UNIT) - next;
        return {bin, positive ? here : -here, positive ? next : -next};
    }
};

// The same for EVENT_CUBE, where bin 0 stands for one before the first.
struct CubeTimes {
    VoxelTimes times; // bins are counted up to one past the last
    __device__ CubeTimes(const cusEventSpan &span, unsigned bins) : times(span.begin, span.end, bins + 1) {}
    __device__ VoxelWeights operator()(int64_t t, bool) const {
        const double time = eventsCubeTime(times.binsBefore(t), static_cast<int>(times.last_bin));
        const unsigned bin = static_cast<unsigned>(time);
        const long long next = static_cast<long long>((time - bin) * EVENTS_VOXEL_UNIT + 0.5);
        return {bin, static_cast<long long>(EVENTS_VOXEL_UNIT) - next, next};
    }
};

__device__ inline float voxelValue(int sum) { // scaling by a power of two is exact, so the value is rounded once
    return static_cast<float>(sum) * static_cast<float>(1 / EVENTS_VOXEL_UNIT);
}
__device__ inline float voxelValue64(int64_t sum) {
    return static_cast<float>(static_cast<double>(sum) / EVENTS_VOXEL_UNIT);
}

// Rounds two floats to halves; `low` comes first in memory.
__device__ inline uint32_t halvesOf(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t &>(both);
}

// Returns the sum over the warp modulo 2^64. Each lane's 27, 27 and 10 bits are summed in 32.
__device__ inline unsigned long long warpSum64(uint64_t v) {
    constexpr unsigned PART = (1u << 27) - 1;
    const unsigned long long low = warpSum(static_cast<unsigned>(v) & PART),
                             middle = warpSum(static_cast<unsigned>(v >> 27) & PART),
                             high = warpSum(static_cast<unsigned>(v >> 54));
    return low + (middle << 27) + (high << 54);
}

// Adds a block's moments to a frame's. Every thread of the block calls it.
template<int THREADS>
__device__ inline void addMoments(const EventsMoments &mine, EventsMoments *frame) {
    constexpr unsigned WARPS = THREADS / 32, FIELDS = sizeof mine / sizeof(uint64_t);
    __shared__ unsigned long long sums[WARPS][FIELDS];
    const uint64_t fields[] = {mine.count, mine.squares[0], mine.squares[1], mine.squares[2],
                               static_cast<uint64_t>(mine.sum)};
    static_assert(sizeof fields == sizeof mine && offsetof(EventsMoments, sum) == 4 * sizeof(uint64_t), "in this order");
    const unsigned warp = threadIdx.x / 32;
    bool any = false;
#pragma unroll
    for (unsigned k = 0; k < FIELDS; ++k)
        any = any || fields[k];
    const bool warp_has_any = __any_sync(FULL_WARP, any);
#pragma unroll
    for (unsigned k = 0; k < FIELDS; ++k) {
        const unsigned long long sum = warp_has_any ? warpSum64(fields[k]) : 0;
        if (threadIdx.x % 32 == 0)
            sums[warp][k] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= FIELDS)
        return;
    unsigned long long all = 0;
    for (unsigned w = 0; w < WARPS; ++w)
        all += sums[w][threadIdx.x];
    if (all)
        atomicAdd(reinterpret_cast<unsigned long long *>(frame) + threadIdx.x, all);
}

__device__ inline float voxelUnits(float value) {
    return value * static_cast<float>(EVENTS_VOXEL_UNIT);
}

// ---- TIME_SURFACE and EVENT_DIFF ---------------------------------------------------------------------------------------

__device__ inline float otherSurfaceValue(const Representation &repr, const ValueOptions &options, int64_t t,
                                          const cusEventSpan &span) {
    return options.surface == CUS_SURFACE_EXPONENTIAL
               ? eventsExponential(t, span.end, repr.decay)
               : eventsSurfaceValue(t, span.begin, span.end, options.surface == CUS_SURFACE_LINEAR);
}

__device__ inline int limited(int sum, const ValueOptions &options) {
    return max(options.lower, min(options.upper, sum));
}

// Clip one or four sums to -128..127 and return bytes.
__device__ inline uint32_t clipped(uint32_t sum) {
    return static_cast<uint32_t>(max(-128, min(127, static_cast<int>(sum)))) & 255;
}
__device__ inline uint32_t clippedBytes(const uint4 &sums) {
    uint32_t upper, all; // each instruction clips two sums and packs them below its last operand
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(upper) : "r"(sums.w), "r"(sums.z), "r"(0));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(sums.y), "r"(sums.x), "r"(upper));
    return all;
}

} // namespace cusi::events

#endif
