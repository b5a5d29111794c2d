// Declarations that the CUDA stages of stereo share: the state of a call in device memory, and the range of a map.
#ifndef CUSI_STEREO_CUDA_STATE_CUH
#define CUSI_STEREO_CUDA_STATE_CUH

#include "cuda.cuh"
#include "stereo/stages.h"

#include <algorithm>

namespace cusi::stereo {

// The head of a scratch block, all zero at first. Minima are kept inverted (~min), so that zero is neutral for both ends of
// a range, and one atomicMax serves both.
struct State {
    unsigned arrived[3];                    // blocks that have finished a round of the fill: waitForAll()
    unsigned range_inverted_min, range_max; // range of the map that scratch.ranged names
};
static_assert(sizeof(State) <= STEREO_STATE_BYTES, "the head of a scratch block holds the state");

inline State *stateOf(const StereoScratch &scratch) {
    return static_cast<State *>(scratch.block);
}

// Clears the state unless it is all zero.
inline cusStatus clearState(const char *function, StereoScratch &scratch, cudaStream_t stream) {
    if (!scratch.cleared)
        CUSI_CUDA(function, cudaMemsetAsync(scratch.block, 0, sizeof(State), stream));
    scratch.cleared = 1;
    scratch.ranged = nullptr;
    return CUS_OK;
}

// The key of a pixel orders its matches, and the largest wins: what is to be large, times KEY_SHIFTS, and the shift, or
// what it lacks of the largest one if smaller shifts are preferred. 0 if nothing matches.
constexpr unsigned KEY_SHIFTS = CUS_STEREO_MAX_SHIFTS;

__device__ inline int elevationOfKey(unsigned key, bool prefer_smaller) {
    const unsigned tie = key % KEY_SHIFTS;
    return key ? static_cast<int>(prefer_smaller ? KEY_SHIFTS - tie : 1 + tie) : 0;
}

// The left-right check. right_keys: of the right image's pixels. confidence: may be NULL.
cusStatus checkBothWays(const char *function, const cusMat &elevation, const cusMat *confidence, const uint32_t *right_keys,
                        const cusStereoOptions &options, cudaStream_t stream);

// Returns index i on a ring of n.
__device__ inline int wrap(int i, int n) {
    i %= n;
    return i < 0 ? i + n : i;
}

// Returns a float or a 16-bit integer as an unsigned integer of the same order, for integer atomics.
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

// Merges the range seen by each thread of a block into the state. All threads of the block must call it once.
__device__ inline void mergeRange(State *state, unsigned seen_inverted_min, unsigned seen_max) {
    const unsigned inverted_min = blockMax(seen_inverted_min), max = blockMax(seen_max);
    if (threadIdx.x == 0) {
        atomicMax(&state->range_inverted_min, inverted_min);
        atomicMax(&state->range_max, max);
    }
}

} // namespace cusi::stereo

#endif
