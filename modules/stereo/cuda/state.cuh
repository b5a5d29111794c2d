// What the CUDA stages of stereo share: the state of a call in device memory, the range of a map, and each stage's launch.
#ifndef CUSI_STEREO_CUDA_STATE_CUH
#define CUSI_STEREO_CUDA_STATE_CUH

#include "cuda.cuh"
#include "stereo/stages.h"

#include <algorithm>

namespace cusi::stereo {

// The head of a scratch block; all zero when a call starts. Minima are kept inverted (~min), so that zero is the neutral
// start of both ends of a range and one atomicMax serves both.
struct State {
    unsigned arrived[3];                    // in fill rounds, which take turns: waitForAll()
    unsigned range_inverted_min, range_max; // of the finished map
};
static_assert(sizeof(State) <= STEREO_STATE_BYTES, "the head of a scratch block holds the state");

// Stages, each queued in `stream`; `function` is the public function named in messages. Everything was checked and every
// output exists.

// Edges (or census codes) of `count` images, 1 or 2, in one launch. Clears `state` unless it is null.
cusStatus features(const char *function, const cusMat *const *images, cusMat *const *outs, int count, bool census,
                   const cusStereoOptions &options, State *state, cudaStream_t stream);

// Best disparity of every pixel of `left` into out; no left-right check. keys: rows * cols words, used above STEREO_GROUP
// shifts.
cusStatus elevation(const char *function, const cusMat &left, const cusMat &right, uint16_t *out, size_t out_step,
                    int direction, const cusStereoOptions &options, uint32_t *keys, cudaStream_t stream);

// Makes holes where the two elevations differ by more than the options allow. right_elevation: tight rows.
cusStatus leftRightCheck(const char *function, cusMat &elevation, const uint16_t *right_elevation,
                         const cusStereoOptions &options, cudaStream_t stream);

// The state must be all zero. Where ONCE or RELAX iterate, leaves the range of the result in it.
cusStatus fill(const char *function, const cusMat &holes, cusMat &filled, const cusStereoOptions &options,
               const StereoScratch &scratch, cudaStream_t stream);

cusStatus median(const char *function, const cusMat &in, cusMat &out, int size, cudaStream_t stream);

// Range of a map into a state that was cleared.
cusStatus findRange(const char *function, const cusMat &elevation, State *state, cudaStream_t stream);
cusStatus contours(const char *function, const cusMat &elevation, cusMat &lines, const cusStereoOptions &options,
                   const State *state, cudaStream_t stream);
cusStatus picture(const char *function, const cusMat &elevation, const cusMat *lines, cusMat &picture, const State *state,
                  cudaStream_t stream);

#ifdef __CUDACC__

// Index i on a ring of n.
__device__ inline int wrap(int i, int n) {
    i %= n;
    return i < 0 ? i + n : i;
}

// A float or a 16-bit integer as an unsigned integer of the same order, for integer atomics.
__device__ inline unsigned toOrderedBits(float v) {
    const unsigned bits = __float_as_uint(v);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}
__device__ inline unsigned toOrderedBits(uint16_t v) {
    return v;
}

template<class T>
__device__ inline T fromOrderedBits(unsigned v) {
    if constexpr (std::is_same_v<T, float>)
        return __uint_as_float(v ^ (v >> 31 ? 0x80000000u : 0xffffffffu));
    else
        return static_cast<T>(v);
}

// Merges the range that each thread has seen into one in memory. All threads of the block call it.
__device__ inline void mergeRange(unsigned *inverted_min, unsigned *max, unsigned seen_inverted_min, unsigned seen_max) {
    for (int i = 16; i > 0; i /= 2) {
        seen_inverted_min = ::max(seen_inverted_min, __shfl_xor_sync(FULL_WARP, seen_inverted_min, i));
        seen_max = ::max(seen_max, __shfl_xor_sync(FULL_WARP, seen_max, i));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(inverted_min, seen_inverted_min);
        atomicMax(max, seen_max);
    }
}

#endif // __CUDACC__

} // namespace cusi::stereo

#endif
