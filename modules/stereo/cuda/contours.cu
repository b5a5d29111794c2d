// Finds the range of a map, draws contour lines, and shows the map in colors.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

template<class T>
__global__ void __launch_bounds__(256) rangeKernel(const T *elevation, size_t step, int rows, int cols, State *state) {
    startInOrder();
    unsigned seen_inverted_min = 0, seen_max = 0;
    for (int y = blockIdx.x; y < rows; y += gridDim.x) {
        const T *const row = rowOf(elevation, step, y);
        for (int x = threadIdx.x; x < cols; x += 256) {
            const T v = row[x];
            if (v != v) // NaN
                continue;
            seen_inverted_min = max(seen_inverted_min, ~toOrderedBits(v));
            seen_max = max(seen_max, toOrderedBits(v));
        }
    }
    mergeRange(state, seen_inverted_min, seen_max);
}

// Returns which of `levels` bands a value lies in. min and max are NaN if all values are.
__device__ inline unsigned band(float e, float min, float max, unsigned levels) {
    if (!(max > min))
        return 0;
    const float scale = __fdiv_rn(static_cast<float>(levels), __fsub_rn(max, min));
    const float band = __fmul_rn(__fsub_rn(e, min), scale);
    return band < static_cast<float>(levels) ? static_cast<unsigned>(band) : levels; // also for NaN and infinity
}
__device__ inline unsigned band(uint16_t e, uint16_t min, uint16_t max, unsigned levels) {
    return max > min ? (e - min) * levels / static_cast<unsigned>(max - min) : 0;
}

// A thread makes four pixels.
template<class T, bool CROSSING>
__global__ void __launch_bounds__(256)
    contoursKernel(const T *elevation, size_t step, unsigned char *out, size_t out_step, int rows, int cols,
                   unsigned levels, bool aligned, const State *state) {
    startInOrder();
    const T min = fromOrderedBits<T>(~state->range_inverted_min), max = fromOrderedBits<T>(state->range_max);
    const unsigned low = static_cast<unsigned>(min), width = (static_cast<unsigned>(max) - low) / levels;
    const unsigned interval = width ? width : 1;
    const float inverse = 1.0f / static_cast<float>(interval);
    const int x = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        const T *const row = rowOf(elevation, step, y) + x;
        const T *const below = y + 1 < rows ? rowOf(elevation, step, y + 1) + x : row;
        const int n = ::min(4, cols - x);
        T v[5], b[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = row[::min(k, n - 1)];
            b[k] = CROSSING ? below[::min(k, n - 1)] : v[k];
        }
        v[4] = CROSSING && x + 4 < cols ? row[4] : v[3];
        unsigned packed = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            bool line;
            if (CROSSING) { // neighbors are usually equal, and so are their bands
                line = (v[k + 1] != v[k] || b[k] != v[k]) &&
                       (band(v[k], min, max, levels) != band(v[k + 1], min, max, levels) ||
                        band(v[k], min, max, levels) != band(b[k], min, max, levels));
            } else { // the rounded quotient is exact if the interval divides `above`
                const unsigned above = static_cast<unsigned>(v[k]) - low;
                line = __float2uint_rn(static_cast<float>(above) * inverse) * interval == above;
            }
            packed |= line ? 255u << (8 * k) : 0;
        }
        unsigned char *const to = rowOf(out, out_step, y) + x;
        if (aligned && n == 4) {
            *reinterpret_cast<unsigned *>(to) = packed;
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (k < n)
                    to[k] = static_cast<unsigned char>(packed >> (8 * k));
        }
    }
}

template<class T>
__global__ void __launch_bounds__(256)
    pictureKernel(const T *elevation, size_t step, const unsigned char *lines, size_t lines_step, unsigned char *out,
                  size_t out_step, int rows, int cols, const State *state) {
    startInOrder();
    const T min = fromOrderedBits<T>(~state->range_inverted_min), max = fromOrderedBits<T>(state->range_max);
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        const T e = rowOf(elevation, step, y)[x];
        const bool black = e == T(0) || (lines && rowOf(lines, lines_step, y)[x]);
        const uint32_t color = black ? 0 : stereo_color(band(e, min, max, STEREO_COLORS - 1));
        unsigned char *const to = rowOf(out, out_step, y) + 3 * static_cast<size_t>(x);
        to[0] = static_cast<unsigned char>(color);
        to[1] = static_cast<unsigned char>(color >> 8);
        to[2] = static_cast<unsigned char>(color >> 16);
    }
}

// Finds the range of a map unless the state already holds it.
cusStatus findRange(const char *function, const cusMat &elevation, StereoScratch &scratch, cudaStream_t stream) {
    if (scratch.ranged == elevation.data)
        return CUS_OK;
    int sms = 0;
    CUSI_CUDA(function, multiprocessors(&sms));
    CUS_TRY(clearState(function, scratch, stream));
    scratch.cleared = 0;
    const auto launchRange = [&](auto *kernel) {
        return launchOverlapped(function, kernel, std::min(elevation.rows, 8 * sms), 256, 0, stream, elevation.data,
                                elevation.step, elevation.rows, elevation.cols, stateOf(scratch));
    };
    CUS_TRY(elevation.type == CUS_16UC1 ? launchRange(rangeKernel<uint16_t>) : launchRange(rangeKernel<float>));
    scratch.ranged = elevation.data;
    return CUS_OK;
}

} // namespace
} // namespace cusi::stereo

using namespace cusi::stereo;

cusStatus stereo_cuda_contours(const char *function, cusStream stream, const cusMat *elevation, cusMat *contours,
                               const cusStereoOptions *options, StereoScratch *scratch) {
    CUS_TRY(findRange(function, *elevation, *scratch, stream));
    const dim3 grid(cusi::divUp(elevation->cols, 4 * 256), std::min(elevation->rows, 65535));
    const auto launchContours = [&](auto *kernel) {
        return cusi::launchOverlapped(function, kernel, grid, 256, 0, stream, elevation->data, elevation->step,
                                      contours->data, contours->step, elevation->rows, elevation->cols, options->levels,
                                      cusi::isAligned(*contours, 4), stateOf(*scratch));
    };
    if (options->lines == CUS_LINES_CROSSING)
        return elevation->type == CUS_16UC1 ? launchContours(contoursKernel<uint16_t, true>)
                                            : launchContours(contoursKernel<float, true>);
    return elevation->type == CUS_16UC1 ? launchContours(contoursKernel<uint16_t, false>)
                                        : launchContours(contoursKernel<float, false>);
}

cusStatus stereo_cuda_picture(const char *function, cusStream stream, const cusMat *elevation, const cusMat *contours,
                              cusMat *picture, StereoScratch *scratch) {
    CUS_TRY(findRange(function, *elevation, *scratch, stream));
    const dim3 grid(cusi::divUp(elevation->cols, 256), std::min(elevation->rows, 65535));
    const cusMat lines = contours ? *contours : cusMat{};
    const auto launchPicture = [&](auto *kernel) {
        return cusi::launchOverlapped(function, kernel, grid, 256, 0, stream, elevation->data, elevation->step, lines.data,
                                      lines.step, picture->data, picture->step, elevation->rows, elevation->cols,
                                      stateOf(*scratch));
    };
    return elevation->type == CUS_16UC1 ? launchPicture(pictureKernel<uint16_t>) : launchPicture(pictureKernel<float>);
}
