// video on the GPU: a thread converts 16 pixels of two rows that lie between the same two rows of chroma. Two pixels of
// each row lie between the same four samples, so a sum of chroma is a dot product of bytes. A warp collects its colors in
// shared memory, since threads that each stored 48 bytes would write parts of sectors.
#include "video/backend.h"
#include "cuda.cuh"

#include <algorithm>
#include <type_traits>

namespace {

constexpr int WARPS = 4, BLOCKS_PER_SM = 8;
constexpr int EACH = 16, HALF = EACH / 2, TILE = 32 * EACH; // EACH: pixels of a thread in a row, TILE: of a warp
constexpr int VECTORS = 3 * TILE / 16;                      // of a row of colors
constexpr int GRAY_EACH = 16, GRAY_ROWS = 8;

struct Parameters {
    const unsigned char *y, *u, *v;
    unsigned char *out;
    size_t y_step, u_step, v_step, out_step;
    int rows, cols, chroma_rows, chroma_cols;
    bool aligned, out_aligned; // for vectors of a thread
    VideoModel model;
    uint32_t weights[2][2]; // of an odd or even row's pixels in an even or odd column: a byte for each sample of Samples
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
        using Vector = std::conditional_t<sizeof word == 8, uint2, uint4>;
#pragma unroll
        for (size_t i = 0; i < sizeof word / sizeof(Vector); ++i) {
            const Vector v = reinterpret_cast<const Vector *>(p)[i];
            memcpy(word + i * sizeof v / 4, &v, sizeof v);
        }
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

// Samples of 10 bits, one or two in a word.
template<class T>
__device__ __forceinline__ unsigned samples(unsigned elements, const VideoModel &m) {
    return sizeof(T) == 1 ? elements : elements >> m.right_shift & 0x03ff03ffu;
}

// The four samples around a pixel: two of the row above, two of the row below. Samples of 8 bits fill a word, those of 16
// a word a row.
template<class T>
struct Samples {
    unsigned u[sizeof(T)], v[sizeof(T)];
};
__device__ __forceinline__ int weigh(const unsigned (&samples)[1], uint32_t weights, int start) {
    return static_cast<int>(__dp4a(samples[0], weights, static_cast<unsigned>(start)));
}
__device__ __forceinline__ int weigh(const unsigned (&samples)[2], uint32_t weights, int start) {
    return static_cast<int>(__dp2a_hi(samples[1], weights, __dp2a_lo(samples[0], weights, static_cast<unsigned>(start))));
}

// What a thread reads: luma of two rows, and chroma of the rows above and below them. u has both where there is no v.
template<class T, bool PLANAR>
struct Part {
    static constexpr int STEP = PLANAR ? 1 : 2, BITS = 8 * sizeof(T);
    Words<T, EACH> luma[2];
    Words<T, PLANAR ? HALF : EACH> u[2];
    Words<T, HALF> v[2];
    unsigned left[2], right[2]; // chroma of the columns beside, as column() returns it

    __device__ __forceinline__ void load(const Parameters &q, int pair, int x) {
        const int col = x / 2, last = q.chroma_cols - 1, row = max(pair - 1, 0);
        const bool two_lines = pair > 0 && 2 * pair < q.rows;
        const bool two_rows = pair > 0 && pair < q.chroma_rows;
        const T *luma_at[2], *u_at[2], *v_at[2] = {};
        luma_at[0] = reinterpret_cast<const T *>(cusi::rowOf(q.y, q.y_step, max(2 * pair - 1, 0))) + x;
        luma_at[1] = cusi::rowOf(luma_at[0], two_lines ? q.y_step : 0, 1);
        u_at[0] = reinterpret_cast<const T *>(cusi::rowOf(q.u, q.u_step, row)) + STEP * col;
        u_at[1] = cusi::rowOf(u_at[0], two_rows ? q.u_step : 0, 1);
        if (PLANAR) {
            v_at[0] = reinterpret_cast<const T *>(cusi::rowOf(q.v, q.v_step, row)) + col;
            v_at[1] = cusi::rowOf(v_at[0], two_rows ? q.v_step : 0, 1);
        }
        if (q.aligned && x + EACH <= q.cols) {
            loadVectors(luma_at, u_at, v_at, col > 0, col + HALF <= last);
            return;
        }
        const int before = col > 0 ? -STEP : 0, after = STEP * (min(col + HALF, last) - col);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            luma[k].gather(luma_at[k], q.cols - x, 1);
            u[k].gather(u_at[k], STEP * (last + 1 - col), STEP);
            if (PLANAR)
                v[k].gather(v_at[k], last + 1 - col, 1);
            const T *const v_first = PLANAR ? v_at[k] : u_at[k] + 1;
            left[k] = u_at[k][before] | static_cast<unsigned>(v_first[before]) << BITS;
            right[k] = u_at[k][after] | static_cast<unsigned>(v_first[after]) << BITS;
        }
    }

    // All loads come first, so that they are on their way together.
    __device__ __forceinline__ void loadVectors(const T *const *luma_at, const T *const *u_at, const T *const *v_at,
                                                bool has_left, bool has_right) {
        using Both = std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>;
        const auto beside = [&](int k, int at) {
            return PLANAR ? u_at[k][at] | static_cast<unsigned>(v_at[k][at]) << BITS
                          : *reinterpret_cast<const Both *>(u_at[k] + 2 * at);
        };
        unsigned before[2] = {}, after[2] = {};
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            luma[k].load(luma_at[k]);
            u[k].load(u_at[k]);
            if (PLANAR)
                v[k].load(v_at[k]);
            if (has_left)
                before[k] = beside(k, -1);
            if (has_right)
                after[k] = beside(k, HALF);
        }
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            left[k] = has_left ? before[k] : column(k, 0);
            right[k] = has_right ? after[k] : column(k, HALF - 1);
        }
    }

    // The elements of one of the thread's columns, u and above it v.
    __device__ __forceinline__ unsigned column(int k, int i) const {
        if (sizeof(T) == 2)
            return PLANAR ? __byte_perm(u[k].word[i / 2], v[k].word[i / 2], i % 2 ? 0x7632 : 0x5410) : u[k].word[i];
        return PLANAR ? __byte_perm(u[k].word[i / 4], v[k].word[i / 4], 0x40 + i % 4 * 0x11) & 0xffff
                      : __byte_perm(u[k].word[i / 2], 0, i % 2 ? 0x4432 : 0x4410);
    }
    // Those of columns c - 1 and c in one word, for elements of 8 bits.
    __device__ __forceinline__ unsigned twoColumns(int k, int c) const {
        const auto own = [&](int i) {
            return PLANAR ? __byte_perm(u[k].word[i / 2], v[k].word[i / 2], i % 2 ? 0x7362 : 0x5140) : u[k].word[i];
        };
        if (c == 0)
            return __byte_perm(left[k], own(0), 0x5410);
        if (c == HALF)
            return __byte_perm(own(HALF / 2 - 1), right[k], 0x5432);
        return c % 2 ? own(c / 2) : __byte_perm(own(c / 2 - 1), own(c / 2), 0x5432);
    }

    // The samples of columns c - 1 and c of both rows; c is at most HALF.
    __device__ __forceinline__ Samples<T> around(int c, const VideoModel &m) const {
        Samples<T> s;
        if constexpr (sizeof(T) == 1) {
            const unsigned above = twoColumns(0, c), below = twoColumns(1, c);
            s.u[0] = __byte_perm(above, below, 0x6420);
            s.v[0] = __byte_perm(above, below, 0x7531);
        } else {
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const unsigned before = samples<T>(c == 0 ? left[k] : column(k, c - 1), m),
                               after = samples<T>(c == HALF ? right[k] : column(k, c), m);
                s.u[k] = __byte_perm(before, after, 0x5410);
                s.v[k] = __byte_perm(before, after, 0x7632);
            }
        }
        return s;
    }

    __device__ __forceinline__ unsigned lumaOf(int k, int i) const {
        return sizeof(T) == 2 ? __byte_perm(luma[k].word[i / 2], 0, i % 2 ? 0x4432 : 0x4410)
                              : __byte_perm(luma[k].word[i / 4], 0, 0x4440 + i % 4);
    }
};

// Converts a thread's pixels and puts them into `staged`, which has two rows of VECTORS vectors for a warp.
template<class T, bool PLANAR>
__device__ __forceinline__ void convert(const Parameters &q, const Part<T, PLANAR> &part, uint4 *staged) {
    const VideoModel &m = q.model;
    Samples<T> samples_of[HALF + 1];
#pragma unroll
    for (int c = 0; c <= HALF; ++c)
        samples_of[c] = part.around(c, m);
    const int scale = 16 * m.luma, black = m.round - scale * m.black;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        int colors[3 * EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const Samples<T> &s = samples_of[(i + 1) / 2];
            const int u = weigh(s.u, q.weights[k][i % 2], -m.neutral), v = weigh(s.v, q.weights[k][i % 2], -m.neutral);
            const int light = scale * static_cast<int>(samples<T>(part.lumaOf(k, i), m)) + black;
            colors[3 * i] = (m.blue_u * u + light) >> m.shift;
            colors[3 * i + 1] = (m.green_u * u + (m.green_v * v + light)) >> m.shift;
            colors[3 * i + 2] = (m.red_v * v + light) >> m.shift;
        }
        uint32_t words[3 * EACH / 4];
#pragma unroll
        for (int i = 0; i < 3 * EACH / 4; ++i)
            words[i] = clampToBytes(colors[4 * i], colors[4 * i + 1], colors[4 * i + 2], colors[4 * i + 3]);
#pragma unroll
        for (int i = 0; i < 3; ++i)
            staged[k * VECTORS + 3 * threadIdx.x + i] =
                make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
}

// Writes a warp's colors of the rows of a pair, from column `first` on.
__device__ __forceinline__ void store(const Parameters &q, const uint4 *staged, int pair, int first) {
    const int y = 2 * pair - 1, bytes = 3 * min(TILE, q.cols - first), vectors = q.out_aligned ? bytes / 16 : 0;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        if (y + k < 0 || y + k >= q.rows)
            continue;
        unsigned char *const out = cusi::rowOf(q.out, q.out_step, y + k) + 3 * static_cast<size_t>(first);
        const uint4 *const from = staged + k * VECTORS;
#pragma unroll
        for (int i = 0; i < VECTORS; i += 32)
            if (i + static_cast<int>(threadIdx.x) < vectors)
                __stcs(reinterpret_cast<uint4 *>(out) + i + threadIdx.x, from[i + threadIdx.x]);
#pragma unroll 1
        for (int i = 16 * vectors + threadIdx.x; i < bytes; i += 32)
            out[i] = reinterpret_cast<const unsigned char *>(from)[i];
    }
}

template<class T, bool PLANAR>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS_PER_SM) bgrKernel(const Parameters q) {
    cusi::startInOrder();
    __shared__ uint4 staged[WARPS][2 * VECTORS];
    const int first = blockIdx.x * TILE, x = first + EACH * static_cast<int>(threadIdx.x);
    // Pair p has rows 2 p - 1 and 2 p, between chroma rows p - 1 and p.
    for (int pair = blockIdx.y * WARPS + threadIdx.y; pair <= q.rows / 2; pair += gridDim.y * WARPS) {
        if (x < q.cols) {
            Part<T, PLANAR> part;
            part.load(q, pair, x);
            convert(q, part, staged[threadIdx.y]);
        }
        __syncwarp();
        store(q, staged[threadIdx.y], pair, first);
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
    const size_t of_chroma = planar ? HALF * cusTypeSize(y.type) : 16;
    Parameters q = parametersOf(y, *model, *bgr, 16, 16);
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
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 2; ++i) {
            const int *const row = k ? model->even_row : model->odd_row, *const col = i ? model->odd : model->even;
            q.weights[k][i] = static_cast<uint32_t>(row[0] * col[0] | row[0] * col[1] << 8 | row[1] * col[0] << 16 |
                                                    row[1] * col[1] << 24);
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
