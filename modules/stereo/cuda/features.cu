// Computes the features of an image, edges or census codes. A thread makes four pixels from 3 x 6.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

struct Image {
    const unsigned char *data;
    unsigned char *out;
    size_t step, out_step;
};

struct FeatureParameters {
    Image images[2];
    int rows, cols;
    float threshold;
    bool zero, aligned; // border ZERO; rows start at multiples of 4 bytes
    State *state;       // the kernel clears it; may be null
};

// Loads columns x - 1 .. x + 4 of a row, under the border rule.
template<class T>
__device__ inline void loadSix(const T *row, int x, const FeatureParameters &p, T *v) {
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const int c = x + k - 1;
        const bool outside = c < 0 || c >= p.cols;
        v[k] = outside && p.zero ? T(0) : row[outside ? wrap(c, p.cols) : c];
    }
}

// Loads the same columns of bytes, packed: x - 1 .. x + 2, then x + 3 and x + 4.
__device__ inline uint2 loadSixBytes(const unsigned char *row, int x, const FeatureParameters &p) {
    if (p.aligned && x > 0 && x + 4 < p.cols) {
        const unsigned w = *reinterpret_cast<const unsigned *>(row + x);
        return make_uint2(w << 8 | row[x - 1], w >> 24 | row[x + 4] << 8);
    }
    unsigned char v[6];
    loadSix(row, x, p, v);
    return make_uint2(v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24, v[4] | v[5] << 8);
}

// Returns byte k of a word as a float: the bits make 2^23 + byte, from which 2^23 is subtracted.
__device__ inline float byteAsFloat(unsigned w, int k) {
    return __uint_as_float(__byte_perm(w, 0x4b000000u, 0x7540 + k)) - 8388608.0f;
}

// Loads rows y - 1 .. y + 1 of columns x - 1 .. x + 4 as floats, and bytes as packed words, too.
template<class T, bool CENSUS>
__device__ __forceinline__ void loadNeighborhood(const unsigned char *image, size_t step, int x, int y,
                                                 const FeatureParameters &p, float (&v)[3][6], uint2 (&bytes)[3]) {
    const int rows = p.rows;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        int at = y + i - 1;
        const bool nothing = p.zero && (at < 0 || at >= rows);
        at = at < 0 ? rows - 1 : at >= rows ? 0 : at; // the opposite side; ignored where `nothing`
        const T *row = reinterpret_cast<const T *>(rowOf(image, step, at));
        if constexpr (sizeof(T) == 1) {
            bytes[i] = nothing ? make_uint2(0, 0) : loadSixBytes(row, x, p);
            if (!CENSUS) {
#pragma unroll
                for (int k = 0; k < 6; ++k)
                    v[i][k] = k < 4 ? byteAsFloat(bytes[i].x, k) : byteAsFloat(bytes[i].y, k - 4);
            }
        } else {
#pragma unroll
            for (int k = 0; k < 6; ++k)
                v[i][k] = 0;
            if (!nothing)
                loadSix(row, x, p, v[i]);
        }
    }
}

// a and b are sums of three pixels. For bytes both sides of 2 |a - b| > threshold * (a + b) are halved, which is exact.
template<class T>
__device__ inline bool isEdge(float a, float b, float threshold) {
    const float sum = __fadd_rn(a, b), difference = fabsf(__fsub_rn(a, b));
    if (sizeof(T) == 1)
        return difference > __fmul_rn(threshold * 0.5f, sum);
    const float limit = __fmul_rn(threshold, __fmul_rn(sum, 0.5f));
    return difference > (limit < 3.0f ? limit : 3.0f);
}
__device__ inline float sum3(float a, float b, float c) {
    return __fadd_rn(__fadd_rn(a, b), c);
}

// Census codes of four pixels, packed.
__device__ __forceinline__ unsigned censusOfBytes(const uint2 (&bytes)[3]) {
    unsigned packed = 0;
    const unsigned center = __funnelshift_r(bytes[1].x, bytes[1].y, 8);
    int bit = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i)
#pragma unroll
        for (int k = 0; k < 3; ++k)
            if (i != 1 || k != 1)
                packed |= __vcmpgtu4(__funnelshift_r(bytes[i].x, bytes[i].y, 8 * k), center) & (0x01010101u << bit++);
    return packed;
}

// Features of four pixels, packed.
template<class T, bool CENSUS>
__device__ __forceinline__ unsigned featuresOfFloats(const float (&v)[3][6], float threshold) {
    unsigned packed = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float ul = v[0][k], u = v[0][k + 1], ur = v[0][k + 2], l = v[1][k], c = v[1][k + 1], r = v[1][k + 2],
                    dl = v[2][k], d = v[2][k + 1], dr = v[2][k + 2];
        if (CENSUS) {
            packed |= ((ul > c) | (u > c) << 1 | (ur > c) << 2 | (l > c) << 3 | (r > c) << 4 | (dl > c) << 5 |
                       (d > c) << 6 | (dr > c) << 7)
                      << (8 * k);
        } else {
            const bool edge = isEdge<T>(sum3(ul, l, dl), sum3(ur, r, dr), threshold) |
                              isEdge<T>(sum3(ul, u, ur), sum3(dl, d, dr), threshold) |
                              isEdge<T>(sum3(ul, u, l), sum3(dr, d, r), threshold) |
                              isEdge<T>(sum3(dl, d, l), sum3(ur, u, r), threshold);
            packed |= edge ? 255u << (8 * k) : 0;
        }
    }
    return packed;
}

template<class T, bool CENSUS>
__global__ void __launch_bounds__(256) featuresKernel(const FeatureParameters p) {
    startInOrder();
    if (p.state && blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.y == 0 &&
        threadIdx.x < sizeof(State) / 4)
        reinterpret_cast<unsigned *>(p.state)[threadIdx.x] = 0;
    // Indexing by blockIdx.z would copy the parameters to local memory.
    const Image image = blockIdx.z != 0 ? p.images[1] : p.images[0];
    const int cols = p.cols, rows = p.rows;
    const int x = 4 * (blockIdx.x * 32 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        float v[3][6];
        uint2 bytes[3];
        loadNeighborhood<T, CENSUS>(image.data, image.step, x, y, p, v, bytes);
        unsigned packed;
        if constexpr (CENSUS && sizeof(T) == 1)
            packed = censusOfBytes(bytes);
        else
            packed = featuresOfFloats<T, CENSUS>(v, p.threshold);
        unsigned char *out = rowOf(image.out, image.out_step, y) + x;
        if (p.aligned && x + 3 < cols) {
            *reinterpret_cast<unsigned *>(out) = packed;
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (x + k < cols)
                    out[k] = static_cast<unsigned char>(packed >> (8 * k));
        }
    }
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_features(const char *function, cusStream stream, const cusMat *const *images, cusMat *const *outs,
                               int count, int census, const cusStereoOptions *options, StereoScratch *scratch) {
    using namespace cusi;
    using namespace cusi::stereo;
    FeatureParameters p = {};
    p.aligned = true;
    for (int i = 0; i < count; ++i) {
        p.images[i] = {static_cast<const unsigned char *>(images[i]->data), static_cast<unsigned char *>(outs[i]->data),
                       images[i]->step, outs[i]->step};
        p.aligned = p.aligned && isAligned(*images[i], 4) && isAligned(*outs[i], 4);
    }
    p.rows = images[0]->rows;
    p.cols = images[0]->cols;
    p.threshold = options->threshold;
    p.zero = options->border == CUS_STEREO_ZERO;
    p.state = scratch ? stateOf(*scratch) : nullptr;
    const dim3 grid(divUp(p.cols, 128), std::min(divUp(p.rows, 8), 65535), count), block(32, 8);
    const bool bytes = images[0]->type == CUS_8UC1;
    auto *kernel = bytes ? (census ? featuresKernel<uint8_t, true> : featuresKernel<uint8_t, false>)
                         : (census ? featuresKernel<float, true> : featuresKernel<float, false>);
    CUS_TRY(launchOverlapped(function, kernel, grid, block, 0, stream, p));
    if (scratch) {
        scratch->cleared = 1;
        scratch->ranged = nullptr;
    }
    return CUS_OK;
}
