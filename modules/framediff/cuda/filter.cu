// The first pass of the noise filter makes the map of changed pixels, one bit each.
#include "framediff/cuda/encode.cuh"
#include "framediff/cuda/tiles.cuh"

namespace cusi::framediff {
namespace {

constexpr int THREADS = 256, WARPS = THREADS / 32;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int UNALIGNED_BLOCKS_PER_SM = 4;
#else
constexpr int UNALIGNED_BLOCKS_PER_SM = 5; // for three channels
#endif

// ALIGNED: all rows begin at multiples of 16 bytes.
template<int CN, bool ALIGNED, class Params>
__global__ void __launch_bounds__(THREADS, ALIGNED || CN != 3 ? 0 : UNALIGNED_BLOCKS_PER_SM)
    changedPixelsKernel(const Params launch, unsigned tiles_per_row) {
    const EncodeParams &params = paramsOf(launch);
    __shared__ uint16_t bytes[WARPS][32 * CN + 4];
    __shared__ uint4 staged[WARPS][ALIGNED ? 1 : 32 * CN + 1];
    cusi::startInOrder();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long tile = blockIdx.x * (0ull + WARPS) + warp, y = tile / tiles_per_row;
    if (y >= params.rows)
        return;
    const unsigned x = static_cast<unsigned>(tile - y * tiles_per_row) * TILE_PIXELS;
    const unsigned pixels = min(static_cast<unsigned>(TILE_PIXELS), params.cols - x);
    uint4 a[CN], b[CN];
    loadTiles<CN, ALIGNED>(params.cur + y * params.cur_step + static_cast<size_t>(x) * CN,
                           params.ref + y * params.ref_step + static_cast<size_t>(x) * CN, 0, static_cast<int>(pixels),
                           lane, staged[warp], a, b);
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
    if (lane % 2 == 0 && word < params.changed_words_per_row)
        params.changed[y * params.changed_words_per_row + word] = found | upper << 16;
}

template<class Params>
cusStatus launch(const char *function, const Params &params, const EncodeShape &shape, int channels, bool aligned,
                 unsigned count, cudaStream_t stream) {
    static constexpr void (*KERNELS[2][3])(Params, unsigned) = {
        {changedPixelsKernel<1, false, Params>, changedPixelsKernel<3, false, Params>,
         changedPixelsKernel<4, false, Params>},
        {changedPixelsKernel<1, true, Params>, changedPixelsKernel<3, true, Params>, changedPixelsKernel<4, true, Params>}};
    const unsigned tiles_per_row = cusi::divUp(shape.cols, static_cast<unsigned>(TILE_PIXELS));
    const unsigned long long tiles = static_cast<unsigned long long>(tiles_per_row) * shape.rows;
    const dim3 grid(static_cast<unsigned>(cusi::divUp(tiles, 0ull + WARPS)), count);
    return cusi::launchOverlapped(function, KERNELS[aligned][channels / 2], grid, THREADS, 0, stream, params,
                                  tiles_per_row);
}

} // namespace

cusStatus launchChangedPixels(const char *function, const EncodeParams &params, cudaStream_t stream) {
    return launch(function, params, params, params.channels, params.aligned, 1, stream);
}

cusStatus launchChangedPixels(const char *function, const EncodeBatch &batch, unsigned count, cudaStream_t stream) {
    bool aligned = true;
    for (unsigned i = 0; i < count; ++i)
        aligned = aligned && batch.images[i].aligned;
    return launch(function, batch, batch.shape, batch.images[0].channels, aligned, count, stream);
}

} // namespace cusi::framediff
