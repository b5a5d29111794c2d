#include "integral.hpp"

namespace {

constexpr int THREADS = 256, EACH = 4, TILE = 32;

__device__ int warpInclusiveScan(int v, int lane) {
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d)
            v += other;
    }
    return v;
}

// Loads four values from `src`: at once if it is aligned and all are inside.
__device__ int4 load(const unsigned char *src, int x, int cols) {
    if (x + EACH <= cols && reinterpret_cast<size_t>(src) % 4 == 0) {
        const uchar4 v = *reinterpret_cast<const uchar4 *>(src + x);
        return make_int4(v.x, v.y, v.z, v.w);
    }
    return make_int4(x < cols ? src[x] : 0, x + 1 < cols ? src[x + 1] : 0, x + 2 < cols ? src[x + 2] : 0,
                     x + 3 < cols ? src[x + 3] : 0);
}
__device__ int4 load(const int *src, int x, int cols) {
    if (x + EACH <= cols && reinterpret_cast<size_t>(src) % 16 == 0)
        return *reinterpret_cast<const int4 *>(src + x);
    return make_int4(x < cols ? src[x] : 0, x + 1 < cols ? src[x + 1] : 0, x + 2 < cols ? src[x + 2] : 0,
                     x + 3 < cols ? src[x + 3] : 0);
}

__device__ void store(int *dst, int x, int cols, int4 v) {
    if (x + EACH <= cols && reinterpret_cast<size_t>(dst) % 16 == 0) {
        *reinterpret_cast<int4 *>(dst + x) = v;
        return;
    }
    const int values[EACH] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < EACH && x + k < cols; ++k)
        dst[x + k] = values[k];
}

// One block a row, four pixels a thread in each step.
template<class T>
__global__ void scanRows(const T *src, size_t src_pitch, int *dst, size_t dst_pitch, int cols) {
    __shared__ int warp_sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    src += blockIdx.x * src_pitch;
    dst += blockIdx.x * dst_pitch;
    int before = 0;
    for (int first = 0; first < cols; first += THREADS * EACH) {
        const int x = first + static_cast<int>(threadIdx.x) * EACH;
        int4 v = load(src, x, cols);
        v.y += v.x;
        v.z += v.y;
        v.w += v.z;
        const int sum = warpInclusiveScan(v.w, lane);
        if (lane == 31)
            warp_sums[warp] = sum;
        __syncthreads();
        int start = before + sum - v.w;
        for (int w = 0; w < THREADS / 32; ++w) {
            if (w < warp)
                start += warp_sums[w];
            before += warp_sums[w];
        }
        store(dst, x, cols, make_int4(start + v.x, start + v.y, start + v.z, start + v.w));
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
