// First pass of the noise filter: the map of changed pixels, one bit each. Reads frame and reference once.
//
// Each warp handles 512 pixels of a row: coalesced 16-byte vectors of both images become one bit per byte in shared memory,
// from which each lane makes the bits of 16 pixels.
#include "framediff/cuda/encode.cuh"
#include "framediff/cuda/tiles.cuh"

namespace framediff {
namespace {

constexpr int THREADS = 256;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int UNALIGNED_BLOCKS_PER_SM = 4;
#else
constexpr int UNALIGNED_BLOCKS_PER_SM = 5; // of three channels
#endif

struct ChangedPixelsParams {
    const unsigned char *cur, *ref;
    uint32_t *changed;
    size_t cur_step, ref_step;
    unsigned words_per_row, tiles_per_row, cols;
    unsigned long long tiles;
    uint32_t addend;
};

// A lane's share of a tile: vectors lane + 32 k for each k < CN; zeros past the end.
template<int CN>
__device__ __forceinline__ void takeShare(const TileBytes<CN> &tile, uint4 *staged, unsigned lane, uint4 (&v)[CN]) {
    if (!tile.hasEdges()) {
#pragma unroll
        for (int k = 0; k < CN; ++k)
            v[k] = tile.v[k];
        return;
    }
    tile.stage(staged, lane);
#pragma unroll
    for (int k = 0; k < CN; ++k)
        v[k] = cusi::bytesFrom(staged[lane + 32 * k], staged[lane + 32 * k + 1], tile.phase());
    __syncwarp();
}

// ALIGNED: all rows begin at multiples of 16 bytes.
template<int CN, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, ALIGNED || CN != 3 ? 0 : UNALIGNED_BLOCKS_PER_SM)
    changedPixelsKernel(const ChangedPixelsParams params) {
    __shared__ uint16_t bytes[THREADS / 32][32 * CN + 4];
    cusi::startInOrder();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long tile = blockIdx.x * (THREADS / 32ull) + warp;
    if (tile >= params.tiles)
        return;
    const unsigned long long y = tile / params.tiles_per_row;
    const unsigned x = static_cast<unsigned>(tile - y * params.tiles_per_row) * TILE_PIXELS;
    const unsigned pixels = min(static_cast<unsigned>(TILE_PIXELS), params.cols - x);
    const unsigned char *cur = params.cur + y * params.cur_step + static_cast<size_t>(x) * CN;
    const unsigned char *ref = params.ref + y * params.ref_step + static_cast<size_t>(x) * CN;
    uint4 a[CN], b[CN];
    if constexpr (ALIGNED) {
        loadAlignedTile<CN>(cur, ref, pixels, lane, a, b);
    } else {
        __shared__ uint4 staged[THREADS / 32][TileBytes<CN>::VECTORS];
        const TileBytes<CN> first(cur, 0, static_cast<int>(pixels), lane), second(ref, 0, static_cast<int>(pixels), lane);
        takeShare(first, staged[warp], lane, a);
        takeShare(second, staged[warp], lane, b);
    }
#pragma unroll
    for (int k = 0; k < CN; ++k)
        bytes[warp][lane + 32 * k] = static_cast<uint16_t>(changedBits(a[k], b[k], params.addend));
    __syncwarp();
    unsigned long long mine = 0; // 16 CN bits
#pragma unroll
    for (int k = 0; k < CN; ++k)
        mine |= static_cast<unsigned long long>(bytes[warp][lane * CN + k]) << (16 * k);
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k)
        found |= (mine >> (CN * k) & ((1u << CN) - 1)) != 0 ? 1u << k : 0;
    const unsigned upper = __shfl_down_sync(cusi::FULL_WARP, found, 1), word = x / 32 + lane / 2;
    if (lane % 2 == 0 && word < params.words_per_row)
        params.changed[y * params.words_per_row + word] = found | upper << 16;
}

template<bool ALIGNED>
auto kernelOf(int channels) {
    return channels == 1   ? changedPixelsKernel<1, ALIGNED>
           : channels == 3 ? changedPixelsKernel<3, ALIGNED>
                           : changedPixelsKernel<4, ALIGNED>;
}

} // namespace

cusStatus launchChangedPixels(const EncodeParams &encode, cudaStream_t stream) {
    ChangedPixelsParams params = {};
    params.cur = encode.cur;
    params.ref = encode.ref;
    params.changed = encode.changed;
    params.cur_step = encode.cur_step;
    params.ref_step = encode.ref_step;
    params.words_per_row = encode.changed_words_per_row;
    params.cols = encode.cols;
    params.tiles_per_row = cusi::divUp(params.cols, static_cast<unsigned>(TILE_PIXELS));
    params.tiles = static_cast<unsigned long long>(params.tiles_per_row) * encode.rows;
    params.addend = encode.addend;
    const auto kernel = encode.aligned ? kernelOf<true>(encode.channels) : kernelOf<false>(encode.channels);
    return cusi::launchOverlapped("cusDiffEncode", kernel,
                                  static_cast<unsigned>(cusi::divUp(params.tiles, THREADS / 32ull)), THREADS, 0, stream,
                                  params);
}

} // namespace framediff
