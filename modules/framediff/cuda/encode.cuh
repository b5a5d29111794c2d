// Parameters and primitives that the stages of the encoder and the decoder on the GPU share.
#ifndef CUSI_FRAMEDIFF_ENCODE_CUH
#define CUSI_FRAMEDIFF_ENCODE_CUH

#include "cuda.cuh"
#include "framediff/backend.h"

namespace cusi::framediff {

namespace tuning { // measured: docs/internals/framediff.md
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int ENCODE_THREADS = 256; // 7.5 has 64 KB of shared memory
#else
constexpr int ENCODE_THREADS = 512;
#endif
constexpr int ENCODE_BLOCKS_PER_SM = 2;
constexpr unsigned ENCODE_PIECE = 2; // groups in a piece; a warp's run consists of whole pieces (1 group in small frames)
constexpr unsigned ENCODE_LONGEST = 16; // most pieces in a run
constexpr unsigned BATCH_GROUPS = 16;   // most groups in a run of a batch
constexpr int ENCODE_STAGED = 512;   // entries that a warp keeps in shared memory; the rest of a denser run is read twice
constexpr unsigned DENSE_SHARE = 16; // if one byte in this many changes, the next frame goes to the dense kernel
constexpr int DENSE_BLOCKS_PER_SM = 3;
constexpr int DENSE_UNITS = 2; // units of a thread
} // namespace tuning

// Exact division of numbers below 2^31 by a divisor that is uniform over the launch.
struct Divisor {
    unsigned d = 1, multiplier = 0, shift = 0;
    Divisor() = default;
    explicit Divisor(unsigned divisor) : d(divisor) {
        if (d == 1)
            return;
        while ((1ull << shift) < d)
            ++shift;
        --shift;
        multiplier = static_cast<unsigned>(((1ull << (32 + shift)) + d - 1) / d);
    }
    __device__ unsigned divide(unsigned n) const { return d == 1 ? n : __umulhi(n, multiplier) >> shift; }
};

// The state that stays on the device between frames; one status word per tile follows it.
struct EncodeState {
    unsigned long long frame;       // frames that the kernel has encoded, modulo 2^30; the first is number 1
    unsigned long long dense_frame; // frames that the dense kernel has encoded; its status words follow the others
};

// Returns the status words.
__host__ __device__ inline unsigned long long *statusOf(EncodeState *state) {
    return reinterpret_cast<unsigned long long *>(state + 1);
}

// The frame is cut into units of 16 bytes, row by row; the last unit of a row may be shorter. A group is 32 units.

// What each frame of a launch has for itself.
struct EncodeImage {
    const unsigned char *cur;
    unsigned char *ref, *values, *mask;
    uint32_t *positions, *count;
    EncodeState *state;
    uint32_t *changed;    // one bit a pixel, for the noise filter; null without it
    uint32_t *dense_hint; // in host memory: whether the dense kernel encodes later frames
    size_t cur_step, ref_step, mask_step;
    unsigned cur_gap, ref_gap, ref_step16; // units, if these are full: padding after a row; the reference's step
    unsigned char min_neighbors, channels;
    bool aligned;      // whether all rows of the frame start at multiples of 16 bytes
    bool may_overflow; // whether the list may be too short; then the kernel leaves the reference unchanged
    unsigned capacity;
    uint32_t addend; // 255 - threshold in each byte
};

// What all frames of a launch share.
struct EncodeShape {
    unsigned dense_from; // a frame is dense from this many entries on
    unsigned rows, cols, row_bytes, units, changed_words_per_row;
    Divisor units_per_row;
    unsigned groups, tiles;     // a tile is the share of one block
    unsigned run, run_fraction; // pieces per warp: integer part; fraction in units of 2^-32
    unsigned piece;             // groups in a piece
};

struct EncodeParams : EncodeImage, EncodeShape {
    unsigned long long *tile_status, *dense_status;
    unsigned dense_tiles;
    bool list_vectors; // whether positions start at a multiple of 16 bytes, and values at a multiple of 4
};

// The frames of a batch are the second dimension of the grid.
constexpr int BATCH_IMAGES = 32;
struct EncodeBatch {
    EncodeShape shape;
    unsigned status_words; // of an encoder, for the tiles of a frame encoded alone
    EncodeImage images[BATCH_IMAGES];
};
static_assert(sizeof(EncodeBatch) <= 4096, "a launch's parameters");

// Returns the parameters of a block's frame.
__device__ __forceinline__ const EncodeParams &paramsOf(const EncodeParams &launch) {
    return launch;
}
__device__ __forceinline__ EncodeParams paramsOf(const EncodeBatch &launch) {
    const EncodeImage &image = launch.images[blockIdx.y];
    return {image, launch.shape, statusOf(image.state)};
}

// An encoder's kernels, by FULL_UNITS and FILTER_OR_MASK.
template<class Params>
using EncodeKernels = void (*[2][2])(Params);

// Allows the kernels shared memory past the default limit.
template<class Params>
cusStatus allowShared(const char *function, const EncodeKernels<Params> &kernels, int bytes) {
    for (const auto &of_units : kernels)
        for (const auto kernel : of_units)
            CUSI_CUDA(function, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return CUS_OK;
}

// filter.cu: writes `changed` of a frame, or of the first `count` of a batch.
cusStatus launchChangedPixels(const char *function, const EncodeParams &params, cudaStream_t stream);
cusStatus launchChangedPixels(const char *function, const EncodeBatch &batch, unsigned count, cudaStream_t stream);

// dense.cu: the number of tiles, and so of status words; kernel setup; encoding. `threads`: per block.
unsigned denseTiles(unsigned groups, int threads);
cusStatus prepareDenseKernels(const char *function, int threads);
cusStatus launchDense(const char *function, const EncodeParams &params, bool full_units, int threads, cudaStream_t stream);

// decode.cu: adds the entries of each list to its frame, unless the list was too short. The frames have one size; count is
// at most BATCH_IMAGES.
cusStatus launchDecode(const char *function, unsigned count, const cusMat *frames, const cusSparseDiff *diffs,
                       cudaStream_t stream);

// Returns the highest bit of each byte of `difference` that is above the threshold: adding 255 - threshold carries out of
// such bytes. addend: 255 - threshold in each byte.
__device__ inline uint32_t overThreshold(uint32_t difference, uint32_t addend) {
    const uint32_t low = (difference & 0x7f7f7f7fu) + (addend & 0x7f7f7f7fu);
    return ((difference & addend) | (difference & low) | (addend & low)) & 0x80808080u;
}

// Packs the flags (0x80 or 0) of eight bytes into one bit each.
__device__ inline unsigned packFlags(uint32_t low, uint32_t high) {
    return __dp4a(low, 0x08040201u, __dp4a(high, 0x80402010u, 0u)) >> 7;
}

// Returns one bit for each of 16 bytes that differ by more than the threshold.
__device__ inline unsigned changedBits(const uint4 &a, const uint4 &b, uint32_t addend) {
    const auto over = [&](uint32_t x, uint32_t y) { return overThreshold(__vabsdiffu4(x, y), addend); };
    return packFlags(over(a.x, b.x), over(a.y, b.y)) | packFlags(over(a.z, b.z), over(a.w, b.w)) << 8;
}

// ---- Decoupled look-back -----------------------------------------------------------------------------------------------
// Like CUB's, this relies on blocks starting in the order of blockIdx. CUB's tile prefix would read 32 counts a round
// instead of a wave's, and needs its words cleared before each frame; here they carry the frame's number.

// Bits 0..31 of a status word are the number, 32..33 say what it counts, 34..63 are the frame. 30 bits of the frame's
// number suffice, since every frame overwrites the words.
enum : unsigned long long {
    TILE_COUNT = 1ull << 32,  // the entries of this tile
    TILE_PREFIX = 2ull << 32, // the entries of this tile and all before it
    TILE_STATE = 3ull << 32
};

// Returns the number of entries in the tiles before `tile` to the whole block. Each thread waits for one of the THREADS
// preceding tiles, so a wave of blocks is added up in one round trip. frame: the frame's number in bits 34..63.
template<int THREADS>
__device__ inline unsigned lookBack(const unsigned long long *words, unsigned tile, unsigned long long frame) {
    constexpr unsigned WARPS = THREADS / 32;
    // For each warp's 32 tiles: their sum up to the nearest known prefix, and whether there is one.
    __shared__ unsigned sums[WARPS], ends[WARPS];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned before = 0;
    bool found = tile == 0;
    for (long long end = tile; !found; end -= THREADS) { // tiles [.., end) are still to be added
        const long long at = end - 1 - threadIdx.x;
        unsigned long long word = frame | TILE_PREFIX; // nothing precedes the first tile
        if (at >= 0)
            do
                word = cusi::loadRelaxed(words + at);
            while ((word & ~(TILE_STATE | 0xffffffffull)) != frame);
        const unsigned prefixes = __ballot_sync(cusi::FULL_WARP, (word & TILE_STATE) == TILE_PREFIX);
        const unsigned last = prefixes ? __ffs(static_cast<int>(prefixes)) - 1 : 31;
        const unsigned sum = cusi::warpSumToFirst(lane <= last ? static_cast<unsigned>(word) : 0u);
        if (end != tile)
            __syncthreads(); // the previous round has been read
        if (lane == 0) {
            sums[warp] = sum;
            ends[warp] = prefixes;
        }
        __syncthreads();
        const unsigned known = __ballot_sync(cusi::FULL_WARP, lane < WARPS && ends[lane % WARPS] != 0);
        const unsigned upto = known ? __ffs(static_cast<int>(known)) - 1 : 31;
        before += cusi::warpSum(lane < WARPS && lane <= upto ? sums[lane] : 0u);
        found = known != 0;
    }
    return before;
}

} // namespace cusi::framediff

#endif
