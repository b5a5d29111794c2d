#include "integral.hpp"

namespace {

constexpr int THREADS = 256, TILE = 32;

__device__ int warpInclusiveScan(int v, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d)
            v += other;
    }
    return v;
}

// One block a row, one pixel a thread in each step.
template<class T>
__global__ void scanRows(const T *src, size_t src_pitch, int *dst, size_t dst_pitch, int cols) {
    __shared__ int warp_sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    src += blockIdx.x * src_pitch;
    dst += blockIdx.x * dst_pitch;
    int before = 0;
    for (int x = threadIdx.x; x - static_cast<int>(threadIdx.x) < cols; x += THREADS) {
        const int sum = warpInclusiveScan(x < cols ? src[x] : 0, lane);
        if (lane == 31)
            warp_sums[warp] = sum;
        __syncthreads();
        int start = before;
        for (int w = 0; w < THREADS / 32; ++w) {
            if (w < warp)
                start += warp_sums[w];
            before += warp_sums[w];
        }
        if (x < cols)
            dst[x] = start + sum;
        __syncthreads();
    }
}

__global__ void transpose(const int *src, int *dst, int rows, int cols) {
    __shared__ int tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        if (x < cols && y + k < rows)
            tile[threadIdx.y + k][threadIdx.x] = src[static_cast<size_t>(y + k) * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        if (x < rows && y + k < cols)
            dst[static_cast<size_t>(y + k) * rows + x] = tile[threadIdx.x][threadIdx.y + k];
}

} // namespace

namespace peers {

void publishedIntegral(const cusMat &src, cusMat &sum, cusMat &transposed, cusStream stream) {
    int *const s = static_cast<int *>(sum.data), *const t = static_cast<int *>(transposed.data);
    const int rows = src.rows, cols = src.cols;
    const dim3 block(TILE, 8), tiles((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE),
        transposed_tiles(tiles.y, tiles.x);
    scanRows<<<rows, THREADS, 0, stream>>>(static_cast<const unsigned char *>(src.data), src.step, s, cols, cols);
    transpose<<<tiles, block, 0, stream>>>(s, t, rows, cols);
    scanRows<<<cols, THREADS, 0, stream>>>(t, rows, t, rows, rows);
    transpose<<<transposed_tiles, block, 0, stream>>>(t, s, cols, rows);
}

} // namespace peers
