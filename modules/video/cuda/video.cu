// video on the GPU: a thread converts eight pixels of two rows that lie between the same two rows of chroma. A warp
// collects its colors in shared memory, since threads that each stored 24 bytes would write parts of sectors.
#include "video/backend.h"
#include "cuda.cuh"

#include <algorithm>
#include <type_traits>

namespace {

constexpr int WARPS = 4, EACH = 8, HALF = EACH / 2, TILE = 32 * EACH; // EACH: pixels of a thread in a row, TILE: of a warp
constexpr int GRAY_EACH = 16, GRAY_ROWS = 8;

struct Parameters {
    const unsigned char *y, *u, *v;
    unsigned char *out;
    size_t y_step, u_step, v_step, out_step;
    int rows, cols, chroma_rows, chroma_cols;
    bool aligned, out_aligned; // for vectors of a thread
    VideoModel model;
};

// Clamps four colors to bytes; `a` is the first in memory.
__device__ __forceinline__ uint32_t clampToBytes(int a, int b, int c, int d) {
    uint32_t bytes;
    asm("{ .reg .b32 upper; cvt.pack.sat.u8.s32.b32 upper, %4, %3, 0; cvt.pack.sat.u8.s32.b32 %0, %2, %1, upper; }"
        : "=r"(bytes)
        : "r"(a), "r"(b), "r"(c), "r"(d));
    return bytes;
}

// N elements in words, and how they are loaded. `count` elements exist; those beyond equal the last one in the same place
// of `group` elements.
template<class T, int N>
struct Words {
    uint32_t word[N * sizeof(T) / 4];

    __device__ __forceinline__ void load(const T *p) {
        using Vector = std::conditional_t<sizeof word == 16, uint4, std::conditional_t<sizeof word == 8, uint2, unsigned>>;
        const Vector v = *reinterpret_cast<const Vector *>(p);
        memcpy(word, &v, sizeof v);
    }
    __device__ __forceinline__ void gather(const T *p, int count, int group) {
        constexpr int PER_WORD = 4 / sizeof(T);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const uint32_t element = p[i < count ? i : count - group + i % group];
            word[i / PER_WORD] = i % PER_WORD ? word[i / PER_WORD] | element << i % PER_WORD * 8 * sizeof(T) : element;
        }
    }
};

// What a thread reads: luma of two rows, and chroma of the rows above and below them. u has both where there is no v.
template<class T, bool PLANAR>
struct Part {
    Words<T, EACH> luma[2];
    Words<T, PLANAR ? HALF : EACH> u[2];
    Words<T, HALF> v[2];
    unsigned left[2], right[2]; // chroma of the columns beside

    // All vectors in one branch, so that they are on their way together.
    __device__ __forceinline__ void load(const Parameters &q, int pair, int x) {
        constexpr int STEP = PLANAR ? 1 : 2;
        const int col = x / 2, last = q.chroma_cols - 1;
        const T *luma_at[2], *u_at[2], *v_at[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const int row = min(max(pair - 1 + k, 0), q.chroma_rows - 1);
            luma_at[k] =
                reinterpret_cast<const T *>(cusi::rowOf(q.y, q.y_step, min(max(2 * pair - 1 + k, 0), q.rows - 1))) + x;
            u_at[k] = reinterpret_cast<const T *>(cusi::rowOf(q.u, q.u_step, row)) + STEP * col;
            v_at[k] = PLANAR ? reinterpret_cast<const T *>(cusi::rowOf(q.v, q.v_step, row)) + col : u_at[k] + 1;
            const int before = STEP * (max(col - 1, 0) - col), after = STEP * (min(col + HALF, last) - col);
            left[k] = u_at[k][before] | static_cast<unsigned>(v_at[k][before]) << 16;
            right[k] = u_at[k][after] | static_cast<unsigned>(v_at[k][after]) << 16;
        }
        if (q.aligned && x + EACH <= q.cols) {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                luma[k].load(luma_at[k]);
                u[k].load(u_at[k]);
                if (PLANAR)
                    v[k].load(v_at[k]);
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                luma[k].gather(luma_at[k], q.cols - x, 1);
                u[k].gather(u_at[k], STEP * (last + 1 - col), STEP);
                if (PLANAR)
                    v[k].gather(v_at[k], last + 1 - col, 1);
            }
        }
    }

    // Chroma of row k: u in the lower 16 bits, v in the upper. Column 0 is the one before the thread's, HALF + 1 the one
    // after.
    __device__ __forceinline__ unsigned chroma(int k, int column) const {
        const int i = column - 1;
        if (i < 0)
            return left[k];
        if (i == HALF)
            return right[k];
        if (sizeof(T) == 2)
            return PLANAR ? __byte_perm(u[k].word[i / 2], v[k].word[i / 2], i % 2 ? 0x7632 : 0x5410) : u[k].word[i];
        return PLANAR ? __byte_perm(u[k].word[0], v[k].word[0], 0x4400 + 0x1111 * i) & 0x00ff00ffu
                      : __byte_perm(u[k].word[i / 2], 0, i % 2 ? 0x4342 : 0x4140);
    }

    __device__ __forceinline__ unsigned lumaOf(int k, int i) const {
        return sizeof(T) == 2 ? __byte_perm(luma[k].word[i / 2], 0, i % 2 ? 0x4432 : 0x4410)
                              : __byte_perm(luma[k].word[i / 4], 0, 0x4440 + i % 4);
    }
};

// Samples of 10 bits, one or two in a word.
template<class T>
__device__ __forceinline__ unsigned samples(unsigned elements, const VideoModel &m) {
    return sizeof(T) == 1 ? elements : elements >> m.right_shift & 0x03ff03ffu;
}

// Converts a thread's pixels of row k. weights: of the two rows of chroma.
template<class T, bool PLANAR>
__device__ __forceinline__ void convert(const VideoModel &m, const Part<T, PLANAR> &part, int k, const int *weights,
                                        uint32_t (&words)[3 * EACH / 4]) {
    // A word of chroma is v 2^16 + u. Sums become those without that of gray: 2^16 times that of v, plus that of u.
    const unsigned gray = static_cast<unsigned>(m.neutral / 4) * 0x10001u;
    unsigned mixed[HALF + 2];
#pragma unroll
    for (int i = 0; i < HALF + 2; ++i)
        mixed[i] = weights[0] * samples<T>(part.chroma(0, i), m) + (weights[1] * samples<T>(part.chroma(1, i), m) - gray);
    const int scale = 16 * m.luma, black = m.round - scale * m.black;
    int colors[3 * EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int *const w = i % 2 ? m.odd : m.even;
        const int both = static_cast<int>(w[0] * mixed[(i + 1) / 2] + w[1] * mixed[(i + 1) / 2 + 1]);
        const int u = static_cast<int16_t>(both), v = (both + 0x8000) >> 16;
        const int light = scale * static_cast<int>(samples<T>(part.lumaOf(k, i), m)) + black;
        colors[3 * i] = (m.blue_u * u + light) >> m.shift;
        colors[3 * i + 1] = (m.green_u * u + (m.green_v * v + light)) >> m.shift;
        colors[3 * i + 2] = (m.red_v * v + light) >> m.shift;
    }
#pragma unroll
    for (int i = 0; i < 3 * EACH / 4; ++i)
        words[i] = clampToBytes(colors[4 * i], colors[4 * i + 1], colors[4 * i + 2], colors[4 * i + 3]);
}

template<class T, bool PLANAR>
__global__ void __launch_bounds__(32 * WARPS) bgrKernel(const Parameters q) {
    cusi::startInOrder();
    __shared__ uint4 staged[WARPS][2][3 * TILE / 16];
    const int first = blockIdx.x * TILE, x = first + EACH * static_cast<int>(threadIdx.x);
    // Pair p has rows 2 p - 1 and 2 p, between chroma rows p - 1 and p.
    for (int pair = blockIdx.y * WARPS + threadIdx.y; pair <= q.rows / 2; pair += gridDim.y * WARPS) {
        if (x < q.cols) {
            Part<T, PLANAR> part;
            part.load(q, pair, x);
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                uint32_t words[3 * EACH / 4];
                convert(q.model, part, k, k ? q.model.even_row : q.model.odd_row, words);
                uint2 *const to = reinterpret_cast<uint2 *>(staged[threadIdx.y][k]) + 3 * threadIdx.x;
#pragma unroll
                for (int i = 0; i < 3; ++i)
                    to[i] = make_uint2(words[2 * i], words[2 * i + 1]);
            }
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const int y = 2 * pair - 1 + k;
            if (y < 0 || y >= q.rows)
                continue;
            unsigned char *const out = cusi::rowOf(q.out, q.out_step, y) + 3 * static_cast<size_t>(first);
            const int bytes = 3 * min(TILE, q.cols - first), vectors = q.out_aligned ? bytes / 16 : 0;
#pragma unroll 1
            for (int i = threadIdx.x; i < vectors; i += 32)
                __stcs(reinterpret_cast<uint4 *>(out) + i, staged[threadIdx.y][k][i]);
#pragma unroll 1
            for (int i = 16 * vectors + threadIdx.x; i < bytes; i += 32)
                out[i] = reinterpret_cast<const unsigned char *>(staged[threadIdx.y][k])[i];
        }
        __syncwarp(); // before the next pair overwrites what lanes read
    }
}

template<class T>
__global__ void __launch_bounds__(32 * GRAY_ROWS) grayKernel(const Parameters q) {
    cusi::startInOrder();
    const int x = (blockIdx.x * 32 + threadIdx.x) * GRAY_EACH, count = min(GRAY_EACH, q.cols - x);
    const VideoModel &m = q.model;
    if (count <= 0)
        return;
    for (int y = blockIdx.y * GRAY_ROWS + threadIdx.y; y < q.rows; y += gridDim.y * GRAY_ROWS) {
        const unsigned char *const row = cusi::rowOf(q.y, q.y_step, y) + sizeof(T) * x;
        T luma[GRAY_EACH];
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(T)); ++i) {
            const uint4 part = cusi::load16(row + 16 * i, static_cast<int>(sizeof(T)) * count - 16 * i, q.aligned);
            memcpy(luma + i * 16 / sizeof(T), &part, sizeof part);
        }
        int gray[GRAY_EACH];
#pragma unroll
        for (int i = 0; i < GRAY_EACH; ++i)
            gray[i] = (16 * m.luma * (static_cast<int>(samples<T>(luma[i], m)) - m.black) + m.round) >> m.shift;
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = clampToBytes(gray[4 * i], gray[4 * i + 1], gray[4 * i + 2], gray[4 * i + 3]);
        cusi::store16(cusi::rowOf(q.out, q.out_step, y) + x, make_uint4(words[0], words[1], words[2], words[3]), count,
                      q.out_aligned);
    }
}

// Luma and output, whose vectors for a thread have in_bytes and out_bytes.
Parameters parametersOf(const cusMat &y, const VideoModel &model, const cusMat &out, size_t in_bytes, size_t out_bytes) {
    Parameters q = {};
    q.y = static_cast<const unsigned char *>(y.data);
    q.y_step = y.step;
    q.out = static_cast<unsigned char *>(out.data);
    q.out_step = out.step;
    q.rows = y.rows;
    q.cols = y.cols;
    q.aligned = cusi::isAligned(y, in_bytes);
    q.out_aligned = cusi::isAligned(out, out_bytes);
    q.model = model;
    return q;
}

} // namespace

cusStatus video_cuda_bgr(const VideoPlanes *planes, const VideoModel *model, cusMat *bgr, cusStream stream) {
    const cusMat &y = *planes->y, &u = *planes->u;
    const bool wide = y.type != CUS_8UC1, planar = planes->v != nullptr;
    const size_t vector = EACH * cusTypeSize(y.type), of_chroma = planar ? vector / 2 : vector;
    Parameters q = parametersOf(y, *model, *bgr, vector, 16);
    q.u = static_cast<const unsigned char *>(u.data);
    q.u_step = u.step;
    q.chroma_rows = u.rows;
    q.chroma_cols = u.cols;
    q.aligned = q.aligned && cusi::isAligned(u, of_chroma);
    if (planar) {
        q.v = static_cast<const unsigned char *>(planes->v->data);
        q.v_step = planes->v->step;
        q.aligned = q.aligned && cusi::isAligned(*planes->v, of_chroma);
    }
    const auto kernel = wide     ? planar ? bgrKernel<uint16_t, true> : bgrKernel<uint16_t, false>
                            : planar ? bgrKernel<uint8_t, true>
                                 : bgrKernel<uint8_t, false>;
    const dim3 grid(cusi::divUp(q.cols, TILE), std::min(cusi::divUp(q.rows / 2 + 1, WARPS), 65535));
    return cusi::launchOverlapped("cusYuvToBgr", kernel, grid, dim3(32, WARPS), 0, stream, q);
}

cusStatus video_cuda_gray(const cusMat *y, const VideoModel *model, cusMat *gray, cusStream stream) {
    const Parameters q = parametersOf(*y, *model, *gray, 16, 16);
    const dim3 grid(cusi::divUp(q.cols, 32 * GRAY_EACH), std::min(cusi::divUp(q.rows, GRAY_ROWS), 65535));
    return cusi::launchOverlapped("cusYuvToGray", y->type == CUS_8UC1 ? grayKernel<uint8_t> : grayKernel<uint16_t>, grid,
                                  dim3(32, GRAY_ROWS), 0, stream, q);
}
