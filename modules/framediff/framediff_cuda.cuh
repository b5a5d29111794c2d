// What the CUDA stages of framediff give each other.
//
//   framediff_heatmap.cu   heatmap and noise view
//   framediff_filter.cu    noise filter, first pass: the map of changed pixels
//   framediff_encode.cu    the encoder's kernel: one pass over frame and reference
//   framediff_dense.cu     the kernel that takes its place when much changes
//   framediff_decode.cu    the decoder
//   framediff_cuda.cu      the encoder's workspace, parameters and launches
#ifndef CUSI_FRAMEDIFF_CUDA_CUH
#define CUSI_FRAMEDIFF_CUDA_CUH

#include "cuda.cuh"
#include "framediff_backend.h"

namespace framediff {

namespace tuning { // measured: docs/internals/framediff.md
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
// Half of that, for its 64 KB of shared memory. The host knows it as `half_blocks`.
constexpr int ENCODE_THREADS = 256, DENSE_THREADS = 256;
#else
constexpr int ENCODE_THREADS = 512, DENSE_THREADS = 512;
#endif
constexpr int ENCODE_BLOCKS_PER_SM = 2;
constexpr unsigned ENCODE_PIECE = 2;    // granularity of a warp's run, in groups of 32 units: 1 KB; of small frames 1
constexpr unsigned ENCODE_LONGEST = 16; // most pieces in a run
constexpr int ENCODE_STAGED = 512;      // entries a warp keeps in shared memory; the rest of a denser run is read twice
constexpr unsigned DENSE_SHARE =
    16; // the frame after one of which more than 1/16 of the bytes changed goes to the dense kernel
constexpr int DENSE_BLOCKS_PER_SM = 3;
constexpr int DENSE_UNITS = 2; // of a thread
} // namespace tuning

constexpr int TILE_PIXELS = 512; // pixels a warp handles at once, one row or part of it
constexpr unsigned ENCODE_WARPS = tuning::ENCODE_THREADS / 32;

// Threads of the encoder's blocks, for the host.
inline int encodeThreads(bool half_blocks) {
    return half_blocks ? tuning::ENCODE_THREADS / 2 : tuning::ENCODE_THREADS;
}

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

// Persists on the device between frames, followed by one status word per tile.
struct EncodeState {
    unsigned long long frame;       // the frame's number, in the lower 30 bits
    unsigned long long dense_frame; // of those that denseKernel encodes, whose status words follow the others
};

// The frame is cut into units of 16 bytes, row by row; the last unit of a row may be shorter. A group is 32 units.
struct EncodeParams {
    const unsigned char *cur;
    unsigned char *ref, *values, *mask;
    uint32_t *positions, *count;
    EncodeState *state;
    unsigned long long *tile_status;
    const uint32_t *changed; // one bit per pixel, for the noise filter; null without it
    size_t cur_step, ref_step, mask_step;
    unsigned cur_gap, ref_gap, ref_step16; // for full units, in units: the padding after a row, the reference's step
    unsigned rows, cols, row_bytes, units, changed_words_per_row;
    Divisor units_per_row;
    unsigned groups, tiles;     // a tile is the share of one block
    unsigned run, run_fraction; // pieces per warp: integer part, and fraction in 2^-32
    unsigned piece;             // groups in a piece
    unsigned capacity;
    uint32_t addend; // 255 - threshold in each byte
    unsigned char min_neighbors, channels;
    bool aligned, mask_by_two;
    bool may_overflow; // the list may be too short, so the kernels leave the reference unchanged
    bool list_vectors; // positions start at a multiple of 16 bytes, values at one of 4
    unsigned long long *dense_status;
    uint32_t *dense_hint;             // in host memory: whether the dense kernel encodes later frames
    unsigned dense_tiles, dense_from; // a frame is dense from so many entries on
};

// framediff_filter.cu: writes the map of changed pixels.
cusStatus launchChangedPixels(const EncodeParams &encode, uint32_t *changed, bool aligned, cudaStream_t stream);

// framediff_encode.cu: allows the kernels their shared memory; encodes. `full_units` states what UnitReader<true> requires.
// `half_blocks`: whether these kernels have been compiled for compute capability 7.5.
cusStatus prepareEncodeKernels(const char *function, bool *half_blocks);
cusStatus launchEncode(const EncodeParams &params, bool full_units, bool half_blocks, cudaStream_t stream);

// framediff_dense.cu: the same for frames of which much changes, if nothing can overflow.
unsigned denseTiles(unsigned groups, bool half_blocks);
cusStatus prepareDenseKernels(const char *function, bool half_blocks);
cusStatus launchDense(const EncodeParams &params, bool full_units, bool half_blocks, cudaStream_t stream);

// framediff_decode.cu: adds the entries of a list to a frame, unless the list was too short.
cusStatus launchDecode(const char *function, const cusMat &frame, const cusSparseDiff &diff, cudaStream_t stream);

#ifdef __CUDACC__

// The highest bit of each byte of `difference` that is above the threshold: there, adding 255 - threshold carries out of the
// byte. `addend`: 255 - threshold in each byte.
__device__ inline uint32_t overThreshold(uint32_t difference, uint32_t addend) {
    const uint32_t low = (difference & 0x7f7f7f7fu) + (addend & 0x7f7f7f7fu);
    return ((difference & addend) | (difference & low) | (addend & low)) & 0x80808080u;
}

// Packs the flags (0x80 or 0) of eight bytes into one bit each.
__device__ inline unsigned packFlags(uint32_t low, uint32_t high) {
    return __dp4a(low, 0x08040201u, __dp4a(high, 0x80402010u, 0u)) >> 7;
}

// One bit for each of 16 bytes that differ by more than the threshold.
__device__ inline unsigned changedBits(const uint4 &a, const uint4 &b, uint32_t addend) {
    const auto over = [&](uint32_t x, uint32_t y) { return overThreshold(__vabsdiffu4(x, y), addend); };
    return packFlags(over(a.x, b.x), over(a.y, b.y)) | packFlags(over(a.z, b.z), over(a.w, b.w)) << 8;
}

// Loads a lane's share of a tile of up to TILE_PIXELS pixels of a pair of images, at addresses that are multiples of 16: vectors
// lane + 32 k for each k < CN; zeros past the end.
template<int CN>
__device__ __forceinline__ void loadAlignedTile(const unsigned char *first, const unsigned char *second, unsigned pixels,
                                                unsigned lane, uint4 (&a)[CN], uint4 (&b)[CN]) {
#pragma unroll
    for (int k = 0; k < CN; ++k) {
        const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * CN) - at;
        a[k] = left > 0 ? cusi::load16(first + at, left, true) : make_uint4(0, 0, 0, 0);
        b[k] = left > 0 ? cusi::load16(second + at, left, true) : make_uint4(0, 0, 0, 0);
    }
}

// The bytes of a tile at any address: aligned vectors that lie in the tile as a whole, and single bytes of the vectors at its
// two ends, so that nothing outside the tile is read. In shared memory the tile begins at the byte phase().
template<int CN>
class TileBytes {
  public:
    static constexpr int VECTORS = 32 * CN + 1; // of shared memory

    // `tile`: its pixel 0, which may lie before the row; `begin`, `end`: its pixels that exist. Only issues the loads.
    __device__ __forceinline__ TileBytes(const unsigned char *tile, int begin, int end, unsigned lane)
        : phase_(static_cast<int>(reinterpret_cast<uintptr_t>(tile) % 16)), first_(phase_ + begin * CN),
          last_(phase_ + end * CN) {
        const unsigned char *const base = tile - phase_;
#pragma unroll
        for (int k = 0; k < CN; ++k) {
            const int at = 16 * static_cast<int>(lane + 32 * k);
            v[k] = make_uint4(0, 0, 0, 0);
            cusi::loadStreamedIf(at >= first_ && at + 16 <= last_, base + at, v[k]);
        }
        if (hasEdges()) {
            const int at = cusi::edgeByte(first_, last_, lane);
            if (at >= 0)
                edge = base[at];
        }
    }

    __device__ __forceinline__ unsigned phase() const {
        return static_cast<unsigned>(phase_);
    }

    // Whether any lane holds less than whole vectors, or the tile begins inside one; the same for all lanes.
    __device__ __forceinline__ bool hasEdges() const {
        return ((first_ | last_) & 15) != 0;
    }

    // Stores the bytes, for the whole warp; zeros outside the tile.
    __device__ __forceinline__ void stage(uint4 *shared, unsigned lane) const {
#pragma unroll
        for (int k = 0; k < CN; ++k)
            shared[lane + 32 * k] = v[k];
        if (hasEdges()) {
            if (lane == 0)
                shared[VECTORS - 1] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            const int at = cusi::edgeByte(first_, last_, lane);
            if (at >= 0)
                reinterpret_cast<unsigned char *>(shared)[at] = static_cast<unsigned char>(edge);
        }
        __syncwarp();
    }

    uint4 v[CN];
    unsigned edge = 0; // the lane's byte of a vector that is not loaded as a whole

  private:
    const int phase_, first_, last_; // bytes from the first vector
};

#endif // __CUDACC__

} // namespace framediff

#endif
