// remap on the GPU: a thread makes pixels of some rows of one column, or of some images of one map at one place. Each pixel
// waits for its place, then for its neighbors; those of all are in flight together. Neighboring threads read neighboring
// pixels of src, so caches serve most reads.
#include "remap/backend.h"
#include "cuda.cuh"

#include <algorithm>
#include <type_traits>

namespace {

constexpr int COLS_OF_BLOCK = 32, THREAD_ROWS = 8; // of a block
// Blocks on a multiprocessor of the kernels for one image of one channel.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int RESIDENT_BLOCKS = 4;
#else
constexpr int RESIDENT_BLOCKS = 6;
#endif

constexpr int LAUNCH_IMAGES = 64; // images of a batch that fit a launch's parameters

// Returns how many images of one map a thread has, and how many rows, THREAD_ROWS apart. More channels need more registers
// for each pixel.
__host__ __device__ constexpr int imagesOfThread(int channels, bool shares) {
    return !shares ? 1 : channels == 1 ? 8 : 4;
}
__host__ __device__ constexpr int rowsOfThread(int channels, bool shares) {
    return shares ? 1 : channels == 1 ? 4 : 2;
}

struct Image {
    const unsigned char *src, *map;
    unsigned char *dst;
    size_t src_step, map_step, dst_step;
};
template<int IMAGES>
struct Parameters {
    Image images[IMAGES];
    int src_rows, src_cols, rows, cols;
    bool map_aligned8; // rows of the maps start at a multiple of 8 bytes
};
static_assert(sizeof(Parameters<LAUNCH_IMAGES>) <= 4000 && LAUNCH_IMAGES % imagesOfThread(1, true) == 0);

__device__ __forceinline__ int roundPlace(float coordinate) {
    const float farthest = REMAP_FARTHEST;
    return __float2int_rn(fminf(fmaxf(__fmul_rn(coordinate, REMAP_ONE), -farthest), farthest)); // NaN: -farthest
}

__device__ __forceinline__ unsigned char blend(const unsigned *p, unsigned a, unsigned b) {
    const unsigned upper = (REMAP_ONE - a) * p[0] + a * p[1], lower = (REMAP_ONE - a) * p[2] + a * p[3];
    return static_cast<unsigned char>(((REMAP_ONE - b) * upper + b * lower + (1u << (2 * REMAP_BITS - 1))) >>
                                      (2 * REMAP_BITS));
}

__device__ __forceinline__ float blend(const float *p, unsigned a, unsigned b) {
    const unsigned weights[4] = {(REMAP_ONE - a) * (REMAP_ONE - b), a * (REMAP_ONE - b), (REMAP_ONE - a) * b, a * b};
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) // weights are exact
        v[k] = __fmul_rn(p[k], __fmul_rn(static_cast<float>(weights[k]), 1.0f / (REMAP_ONE * REMAP_ONE)));
    return __fadd_rn(__fadd_rn(v[0], v[1]), __fadd_rn(v[2], v[3]));
}

// A pixel's value in a register.
template<class T>
using Value = std::conditional_t<std::is_same_v<T, float>, float, unsigned>;

// Loads the pixel at (left, top) and its right, lower, and lower right neighbor, 0 outside src. TESTED: some may be there.
template<bool TESTED, class T, int CHANNELS, class Q>
__device__ __forceinline__ void loadPixels(Value<T> (&p)[CHANNELS][4], const Q &q, const unsigned char *src, size_t step,
                                           int left, int top) {
    // Inside nothing is negative, and products of 64 bits without a sign take half the instructions.
    const auto wide = [](int v) { return TESTED ? static_cast<size_t>(v) : static_cast<unsigned>(v); };
    const unsigned char *const upper = src + (wide(top) * step + wide(left) * sizeof(T[CHANNELS])), *lower = upper + step;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int x = left + k % 2, y = top + k / 2;
        const bool inside = !TESTED || (x >= 0 && x < q.src_cols && y >= 0 && y < q.src_rows);
        const T *const from = reinterpret_cast<const T *>(k < 2 ? upper : lower) + k % 2 * CHANNELS;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            p[c][k] = inside ? __ldg(from + c) : Value<T>(0);
    }
}

// SHARES: all images have the map and the steps of the first.
template<class T, int CHANNELS, int IMAGES, bool SHARES>
__global__ void __launch_bounds__(COLS_OF_BLOCK *THREAD_ROWS, CHANNELS *IMAGES == 1 ? RESIDENT_BLOCKS : 0)
    remapKernel(const __grid_constant__ Parameters<IMAGES> q) {
    constexpr int EACH = imagesOfThread(CHANNELS, SHARES), ROWS = rowsOfThread(CHANNELS, SHARES),
                  ROWS_OF_BLOCK = THREAD_ROWS * ROWS;
    cusi::startInOrder();
    const Image *const images = q.images + (IMAGES > 1 ? blockIdx.z * EACH : 0);
    const Image &shared = SHARES ? q.images[0] : images[0];
    const unsigned x = blockIdx.x * COLS_OF_BLOCK + threadIdx.x;
    if (x >= static_cast<unsigned>(q.cols))
        return;
    for (int y = blockIdx.y * ROWS_OF_BLOCK + threadIdx.y; y < q.rows; y += gridDim.y * ROWS_OF_BLOCK) {
        float2 places[ROWS]; // rows below the map take its last one
        const auto placeOf = [&](int i) {
            const unsigned row = min(y + THREAD_ROWS * i, q.rows - 1);
            return reinterpret_cast<const float2 *>(cusi::rowOf(shared.map, shared.map_step, row)) + x;
        };
        if (SHARES || q.map_aligned8) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) // images of a batch may share a map, so that caches should keep it
                places[i] = IMAGES > 1 ? __ldg(placeOf(i)) : __ldcs(placeOf(i));
        } else {
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
                places[i] = {__ldg(&placeOf(i)->x), __ldg(&placeOf(i)->y)};
        }
        int fixed_x[ROWS], fixed_y[ROWS];
        bool all_inside = true;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            fixed_x[i] = roundPlace(places[i].x);
            fixed_y[i] = roundPlace(places[i].y);
            all_inside &= static_cast<unsigned>(fixed_x[i] >> REMAP_BITS) < static_cast<unsigned>(q.src_cols - 1) &&
                          static_cast<unsigned>(fixed_y[i] >> REMAP_BITS) < static_cast<unsigned>(q.src_rows - 1);
        }
        Value<T> p[EACH][ROWS][CHANNELS][4];
        const auto loadAll = [&](auto tested) {
#pragma unroll
            for (int n = 0; n < EACH; ++n)
#pragma unroll
                for (int i = 0; i < ROWS; ++i)
                    loadPixels<decltype(tested)::value, T>(p[n][i], q, images[n].src, shared.src_step,
                                                           fixed_x[i] >> REMAP_BITS, fixed_y[i] >> REMAP_BITS);
        };
        if (all_inside)
            loadAll(std::false_type());
        else
            loadAll(std::true_type());
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int row = y + THREAD_ROWS * i;
            if (row >= q.rows)
                break;
            const size_t at = static_cast<unsigned>(row) * shared.dst_step + x * sizeof(T[CHANNELS]);
#pragma unroll
            for (int n = 0; n < EACH; ++n)
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c)
                    reinterpret_cast<T *>(images[n].dst + at)[c] =
                        blend(p[n][i][c], fixed_x[i] & (REMAP_ONE - 1), fixed_y[i] & (REMAP_ONE - 1));
        }
    }
}

template<class T, int IMAGES, bool SHARES>
auto kernelFor(int channels) {
    constexpr void (*kernels[])(Parameters<IMAGES>) = {remapKernel<T, 1, IMAGES, SHARES>, remapKernel<T, 2, IMAGES, SHARES>,
                                                       remapKernel<T, 3, IMAGES, SHARES>,
                                                       remapKernel<T, 4, IMAGES, SHARES>};
    return kernels[channels - 1];
}

template<int IMAGES, bool SHARES>
cusStatus launchImages(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst,
                       cudaStream_t stream) {
    const int channels = CUS_CHANNELS(src->type), each = imagesOfThread(channels, SHARES),
              rows = THREAD_ROWS * rowsOfThread(channels, SHARES), groups = cusi::divUp(count, each);
    Parameters<IMAGES> q = {};
    q.src_rows = src->rows;
    q.src_cols = src->cols;
    q.rows = map->rows;
    q.cols = map->cols;
    q.map_aligned8 = true;
    for (int k = 0; k < groups * each; ++k) {
        const int i = std::min(k, count - 1); // the last threads make the last image more than once
        q.images[k] = {static_cast<const unsigned char *>(src[i].data),
                       static_cast<const unsigned char *>(map[i].data),
                       static_cast<unsigned char *>(dst[i].data),
                       src[i].step,
                       map[i].step,
                       dst[i].step};
        q.map_aligned8 = q.map_aligned8 && cusi::isAligned(map[i], 8);
    }
    const auto kernel = CUS_DEPTH(src->type) == CUS_8U ? kernelFor<unsigned char, IMAGES, SHARES>(channels)
                                                       : kernelFor<float, IMAGES, SHARES>(channels);
    const dim3 grid(cusi::divUp(q.cols, COLS_OF_BLOCK), std::min(cusi::divUp(q.rows, rows), 65535), groups);
    return cusi::launchOverlapped(function, kernel, grid, dim3(COLS_OF_BLOCK, THREAD_ROWS), 0, stream, q);
}

// Returns whether threads can make pixels of several images at one place.
bool canShare(int count, const cusMat *src, const cusMat *map, const cusMat *dst) {
    for (int i = 0; i < count; ++i)
        if (map[i].data != map->data || map[i].step != map->step || src[i].step != src->step || dst[i].step != dst->step)
            return false;
    return count >= imagesOfThread(CUS_CHANNELS(src->type), true) && cusi::isAligned(*map, 8);
}

} // namespace

cusStatus remap_cuda_remap(const char *function, int count, const cusMat *src, const cusMat *map, cusMat *dst,
                           cusStream stream) {
    if (count == 1)
        return launchImages<1, false>(function, 1, src, map, dst, stream);
    for (int i = 0; i < count; i += LAUNCH_IMAGES) {
        const int n = std::min(count - i, LAUNCH_IMAGES);
        const auto launch =
            canShare(n, src + i, map + i, dst + i) ? launchImages<LAUNCH_IMAGES, true> : launchImages<LAUNCH_IMAGES, false>;
        CUS_TRY(launch(function, n, src + i, map + i, dst + i, stream));
    }
    return CUS_OK;
}
