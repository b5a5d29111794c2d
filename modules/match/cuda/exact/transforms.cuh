// Transforms in double in shared memory, for the exact pass and for sums inside a mask.
#ifndef CUSI_MATCH_CUDA_EXACT_TRANSFORMS_CUH
#define CUSI_MATCH_CUDA_EXACT_TRANSFORMS_CUH

#include "match/cuda/fft/transform.cuh"
#include "match/cuda/refine.cuh"

namespace cusi::match {

enum Counter { TAKEN, DONE, LEFT, FRACTIONS, COUNTERS }; // ExactPass::counters
constexpr int EXACT_THREADS = REFINE_THREADS;            // with one block a multiprocessor, 168 registers a thread

__device__ __forceinline__ fft::DoublePair *sharedElements() {
    return reinterpret_cast<fft::DoublePair *>(shared_points);
}

constexpr fft::Direction FORWARD = fft::Direction::FORWARD, INVERSE = fft::Direction::INVERSE;

// ---- Rows

// A plane of the frame or of a template: a channel less an offset, zero outside the mask. Plane number `channels` of the
// frame is the sum of the channels' squares, that of a template the mask. With weights, a template's channels are weighted,
// and the planes from number `channels` on are the squares of each channel, or of a template its squared weights.
template<class T>
struct Plane {
    using Value = std::conditional_t<sizeof(T) == 1, int, double>;
    const unsigned char *pixels, *mask; // mask: NULL if there is none
    const float *weights;               // NULL if there are none
    size_t step, mask_step;
    int rows, cols, channels;
    int channel;
    bool single; // squares are of a single channel, since there are weights
    Value offset[MATCH_MAX_CHANNELS] = {};

    __device__ double at(int y, int x) const {
        if (y >= rows || x >= cols)
            return 0;
        const T *pixel =
            reinterpret_cast<const T *>(pixels + static_cast<size_t>(y) * step) + static_cast<size_t>(x) * channels;
        const size_t i = static_cast<size_t>(x) * channels + (channel < channels ? channel : 0);
        if (sizeof(T) > 1 && single)
            return weighted(reinterpret_cast<const float *>(pixel),
                            weights ? weights + static_cast<size_t>(y) * cols * channels + static_cast<size_t>(x) * channels
                                    : nullptr,
                            channel, channels);
        if (mask && !__ldg(mask + static_cast<size_t>(y) * mask_step + i))
            return 0;
        if (channel < channels)
            return __ldg(pixel + channel) - offset[channel];
        if (mask)
            return 1;
        Value sum = 0;
        for (int c = 0; c < channels; ++c) {
            const Value v = __ldg(pixel + c) - offset[c];
            sum += v * v;
        }
        return sum;
    }
    // weights is NULL for the frame. Not inlined: it is rarely needed, and a pass of a transform loads many pixels.
    static __device__ __noinline__ double weighted(const float *pixel, const float *weights, int channel, int channels) {
        const int c = channel < channels ? channel : channel - channels;
        const double v = __ldg(pixel + c), weight = weights ? __ldg(weights + c) : 1;
        return weight * weight * (channel < channels ? v : weights ? 1 : v * v);
    }
};

// The first position of a piece of the map.
struct Place {
    int y, x;
};
__device__ __forceinline__ Place placeOf(const Pieces &pieces, int piece) {
    return {piece / pieces.across * pieces.rows, piece % pieces.across * pieces.cols};
}

// Describes the pixels under the windows of a piece.
template<class T>
__device__ Plane<T> framePlane(const MatchModel &m, const Frame &frame, const Pieces &pieces, const Place &place, int p) {
    using Value = typename Plane<T>::Value;
    const unsigned char *pixels = cusi::rowOf(static_cast<const unsigned char *>(frame.data), frame.step, place.y) +
                                  static_cast<size_t>(place.x) * m.channels * sizeof(T);
    const int rows = min(m.rows - place.y, pieces.rows + m.h - 1), cols = min(m.cols - place.x, pieces.cols + m.w - 1);
    Plane<T> plane = {pixels, nullptr, nullptr, frame.step, 0, rows, cols, m.channels, p, m.weighted != 0};
    for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
        plane.offset[c] = static_cast<Value>(frameShift<T>(m, frame.shift)[c]);
    return plane;
}

// templatePlane() of cufft/spectra.cu makes the same plane on the host.
template<class T>
__device__ Plane<T> templatePlane(const MatchModel &m, const Templates &templates, int k, int p) {
    using Value = typename Plane<T>::Value;
    const unsigned char *pixels = templates.pixels + k * templates.bytes;
    Plane<T> plane = {pixels, templates.mask, templates.weights, templates.step, templates.mask_step, m.h, m.w, m.channels,
                      p,      m.weighted != 0};
    for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
        plane.offset[c] = static_cast<Value>(templates.sums[k].shift[c]);
    return plane;
}

// Stores twice the spectra of a band of rows, in tiles of `pitch` rows; fft/rows.cu explains how two rows are separated. If
// a shifted pixel of a frame of floats is no integer or too large, sets the counter FRACTIONS.
template<class T>
__device__ void transformRows(const ExactPass &exact, const Plane<T> &plane, bool of_frame, int band, double2 *spectra,
                              int pitch) {
    fft::DoublePair *const elements = sharedElements();
    const int y = band * BAND + 2 * fft::signalIndex();
    bool fractions = false;
    fft::forwardOuterPass(exact.rows, elements, [&](int x) {
        const double2 v = {plane.at(y, x), plane.at(y + 1, x)};
        if (sizeof(T) > 1)
            fractions |= v.x != rint(v.x) || v.y != rint(v.y) || fmax(fabs(v.x), fabs(v.y)) > exact.largest_integer;
        return v;
    });
    if (sizeof(T) > 1 && of_frame && plane.channel < plane.channels && fractions)
        exact.counters[FRACTIONS] = 1;
    fft::middlePass<FORWARD>(exact.rows, elements);
    fft::innerPass(exact.rows, elements);
    __syncthreads();
    const double2 *points = reinterpret_cast<const double2 *>(elements);
    for (int i = threadIdx.x; i < exact.tiles * 2 * BAND; i += EXACT_THREADS) {
        const int tile = i / (2 * BAND), row = i / 2 % BAND, k = 2 * tile + i % 2, mirrored = k ? exact.rows.n - k : 0;
        const double2 z = points[2 * __ldg(exact.rows.digit_reversal + k) + row / 2];
        const double2 w = points[2 * __ldg(exact.rows.digit_reversal + mirrored) + row / 2];
        spectra[(static_cast<size_t>(tile) * pitch + band * BAND + row) * 2 + i % 2] =
            row % 2 ? double2{z.y + w.y, w.x - z.x} : double2{z.x + w.x, z.y - w.y};
    }
}

// ---- Columns

__device__ __forceinline__ void transformColumns(const fft::PlanOf<double2> &plan, const double2 *spectra, int rows) {
    const double2 *in = spectra + fft::signalIndex();
    fft::forwardOuterPass(plan, sharedElements(), [&](int y) {
        return y < rows ? in[2 * static_cast<size_t>(y)] : double2{0, 0};
    });
    fft::middlePass<FORWARD>(plan, sharedElements());
    fft::innerPass(plan, sharedElements());
    __syncthreads();
}

// Transforms columns of `product`, the conjugate of a correlation's spectrum, back to rows of the map.
__device__ __forceinline__ void inverseColumns(const ExactPass &exact, fft::DoublePair *product, double2 *products,
                                               int tile) {
    const fft::PlanOf<double2> &plan = exact.columns;
    fft::innerPass(plan, product);
    fft::middlePass<INVERSE>(plan, product);
    double2 *out = products + 2 * static_cast<size_t>(tile) * exact.product_pitch + fft::signalIndex();
    fft::inverseOuterPass(plan, product, [&](int y, double2 *, const double2 &v) {
        if (y < exact.product_pitch)
            out[2 * static_cast<size_t>(y)] = v;
    });
}

// Adds the conjugate of the spectrum of the correlation of a and b to `before`.
__device__ __forceinline__ double2 correlate(const double2 &a, const double2 &b, const double2 &before) {
    return {fma(a.x, b.x, fma(a.y, b.y, before.x)), fma(a.x, b.y, fma(-a.y, b.x, before.y))};
}

// ---- Rows of the map

// Loads a band's products and joins its rows in pairs, as in fft/scores.cu.
__device__ inline void loadProducts(const ExactPass &exact, const double2 *products, int band) {
    double2 *const points = reinterpret_cast<double2 *>(sharedElements());
    const int n = exact.rows.n, half = n / 2;
    for (int i = threadIdx.x; i < 2 * (half + 1); i += EXACT_THREADS) {
        const int k = i / 2, pair = i % 2;
        const double2 *in =
            products + 2 * (static_cast<size_t>(k / 2) * exact.product_pitch + band * BAND + 2 * pair) + k % 2;
        double2 a = in[0], b = in[2];
        if (k == 0 || k == half) // real, apart from rounding
            a.y = b.y = 0;
        points[2 * __ldg(exact.rows.digit_reversal + k) + pair] = {a.x - b.y, a.y + b.x};
        if (k > 0 && k < half)
            points[2 * __ldg(exact.rows.digit_reversal + n - k) + pair] = {a.x + b.y, b.x - a.y};
    }
}

// Returns the band's correlations in shared memory, at BAND * plan.element(x) + row; they lack the factor exact.scale.
__device__ __forceinline__ const double *inverseRows(const ExactPass &exact, const double2 *products, int band) {
    const fft::PlanOf<double2> &plan = exact.rows;
    fft::DoublePair *const elements = sharedElements();
    loadProducts(exact, products, band);
    fft::innerPass(plan, elements);
    fft::middlePass<INVERSE>(plan, elements);
    fft::inverseOuterPass(plan, elements, [&](int, double2 *from, const double2 &v) { *from = v; });
    __syncthreads();
    return reinterpret_cast<const double *>(elements);
}

} // namespace cusi::match

#endif
