// match on the GPU. One frame, all in the caller's stream, nothing read back:
//   verticalKernel    sums of pixels and squares down the windows' rows, at every column
//   rowsFftKernel     frame -> spectra of its rows; beside verticalKernel on 9.0 and later
//   columnsFftKernel  transform of the columns, product with the templates' spectra, transform back, in shared memory; in other
//                     blocks the windows' sums from the vertical ones, and the frame's energy
//   scoresFftKernel   rows back, scores, ranges of their true values, and the ranges' ends of each tile
//   refineKernel      positions whose range reaches the least upper end are computed exactly; the best is the result
// Each kernel's blocks take their places while the kernel before drains. Frames whose rows or columns do not fit into a block's
// shared memory go through cuFFT: rowsKernel, cuFFT, columnsKernel, cuFFT, scoresKernel. The direct path leaves the FFTs out and
// correlates in scoresKernel.
#include "cuda.cuh"
#include "hsv.cuh"
#include "match_backend.h"
#include "match_fft.cuh"

#include <cufft.h>

#include <algorithm>
#include <new>
#include <vector>

namespace {

namespace tuning {
constexpr int ROW_ITEMS = 8;                // neighboring pixels of a thread of rowsKernel
constexpr int SPECTRUM_ITEMS = 4;           // of a thread of multiplySpectra
constexpr long long TIMED_POINTS = 1 << 19; // frames of fewer take cuFFT's smallest size without timing others
constexpr int CANDIDATES = 1024;            // listed; where there are more, they are searched for tile by tile
constexpr int CANDIDATE_TILES = 256;
constexpr int REFINE_BLOCKS_PER_SM = 1;
// Of shared memory for rows' prefix sums, four rows of 1326; longer rows' are in global memory.
constexpr size_t PREFIX_BYTES = 46080;
// Of a block of verticalKernel. 1326 x 1025 with 479 x 432 on one H200, profiled: 32 columns and 32 strips 19.6 us, 8 and 64 11.8,
// and 8.1 since strips begin where chunks do.
constexpr int VERTICAL_COLS = 8, VERTICAL_STRIPS = 64, VERTICAL_UNROLL = 8;
// Of a block of columnsFftKernel at most: more blocks on a multiprocessor, so that the last ones do not run alone. The same
// frame: 256 threads 49.8 us, 192 48.8, 160 48.6, 128 49.8; 1920 x 1080 with 150 x 150: 97.1, 96.9, 99.8, 99.5, and 384 105.3.
constexpr int COLUMN_THREADS = 192;
} // namespace tuning

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int TILE_COLS = 64, TILE_ROWS = 32; // of scoresKernel
constexpr int BAND = 4;                       // rows of a block of the row transforms: two complex signals
constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr cufftHandle NO_PLAN = -1;

struct Job {
    MatchModel model;
    const MatchTemplate *sums;
    const unsigned char *templates, *mask; // rows of template_step bytes, zeros behind the last element
    size_t template_step, template_bytes, mask_step;
    const void *frame;
    size_t frame_step;
    // FFT. Spectra of the blocks' own transforms: tiles of two columns, rows in order (spectra, products) or frequencies in the
    // order of columnsFftKernel's last pass (template_spectra); with cuFFT rows of fft_cols / 2 + 1.
    int fft_rows, fft_cols;
    fft::Plan row_plan, column_plan;
    int spectrum_tiles, spectrum_pitch, product_pitch;
    float4 *pair_spectra, *pair_products;
    const float4 *pair_templates;
    float *planes;
    cufftComplex *spectra, *products;
    const cufftComplex *template_spectra;
    const float *correlations;
    // Window sums: up to four quantities, first the channels, then the squares
    int quantities;
    void *vertical, *windows; // orows rows of vertical_pitch; orows x ocols
    size_t vertical_pitch;
    int wide_sums;   // vertical sums of bytes take 64 bits
    void *prefixes;  // of the rows of vertical sums, where they do not fit into shared memory
    int window_rows; // of a block of windowSums
    double *energy_parts, *energy;
    int parts;          // a plane
    MatchError *errors; // of each template in this frame
    // Scores
    float *const *scores; // of each template; rows of scores_step bytes
    const size_t *scores_step;
    MatchRange *ranges;
    float *tile_lowers, *block_uppers; // least ends of each tile and of all tiles of a block of the scores' kernel
    int tiles_across, tiles_down, tile_cols_log2, tile_rows_log2;
    int upper_count; // of a template's block_uppers
    // Refinement
    void *partial;
    unsigned *tickets;
    cusMatch *results;
    int round, refine_blocks;
    double constant; // masked: what the correlation lacks, the same at every position and template (SQDIFF)
};

// Exact sums of 8-bit images are integers; those of floats are doubles.
template<class T>
struct SumTypes {
    using Sum = long long;
};
template<>
struct SumTypes<float> {
    using Sum = double;
};

// ---- Rows
// ---------------------------------------------------------------------------------------------------------------

// Elements x .. x + N - 1 of a row, zeros where x is not below `end`.
template<class T, int N>
__device__ void loadRow(const T *row, size_t x, size_t end, float (&v)[N]) {
    if (sizeof(T) == 1 && N % 4 == 0 && x + N <= end && reinterpret_cast<uintptr_t>(row + x) % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            const uint32_t word = __ldg(reinterpret_cast<const uint32_t *>(row + x) + i);
#pragma unroll
            for (int k = 0; k < 4; ++k)
                v[4 * i + k] = static_cast<float>(word >> (8 * k) & 255);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        v[i] = x + i < end ? static_cast<float>(__ldg(row + x + i)) : 0.0f;
}

// Sum over a block of whole warps, in an order that does not vary, to thread 0.
__device__ double blockTotal(double mine) {
    __shared__ double warps[32];
    for (int d = 16; d; d /= 2)
        mine += __shfl_down_sync(FULL_WARP, mine, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; ++w)
            mine += warps[w];
    return mine;
}

// For cuFFT, or only for the frame's energy: shifted planes in floats. One block a row; a thread takes ROW_ITEMS neighboring
// pixels, so that floats leave in 16-byte stores.
template<class T, int CN>
__global__ void __launch_bounds__(THREADS) rowsKernel(const __grid_constant__ Job job) {
    cusi::startInOrder();
    constexpr int ITEMS = tuning::ROW_ITEMS;
    const MatchModel &m = job.model;
    const int y = blockIdx.x;
    const bool filled = y < m.rows;
    const T *row = cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, filled ? y : 0);
    const size_t end = filled ? static_cast<size_t>(m.cols) * CN : 0;
    const int width = job.planes ? job.fft_cols : m.cols;
    double energy[MATCH_MAX_PLANES] = {0, 0, 0, 0};
    for (int x = static_cast<int>(threadIdx.x) * ITEMS; x < width; x += THREADS * ITEMS) {
        float v[CN * ITEMS], square[ITEMS];
        loadRow<T, CN * ITEMS>(row, static_cast<size_t>(x) * CN, end, v);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const bool inside = filled && x + i < m.cols;
            float sum = 0;
#pragma unroll
            for (int c = 0; c < CN; ++c) {
                float &value = v[i * CN + c];
                value = inside ? value - static_cast<float>(m.shift[c]) : 0.0f;
                sum += value * value;
                energy[c] += static_cast<double>(value) * value;
            }
            square[i] = inside ? sum - static_cast<float>(m.square_shift) : 0.0f;
            if (m.planes > CN)
                energy[CN] += static_cast<double>(square[i]) * square[i];
        }
        if (!job.planes)
            continue;
        const size_t plane = static_cast<size_t>(job.fft_rows) * job.fft_cols;
        float *out = job.planes + static_cast<size_t>(y) * job.fft_cols + x;
#pragma unroll
        for (int i = 0; i < ITEMS; i += 4)
            if (x + i < width) {
#pragma unroll
                for (int c = 0; c < CN; ++c)
                    *reinterpret_cast<float4 *>(out + c * plane + i) =
                        make_float4(v[i * CN + c], v[(i + 1) * CN + c], v[(i + 2) * CN + c], v[(i + 3) * CN + c]);
                if (m.planes > CN)
                    *reinterpret_cast<float4 *>(out + CN * plane + i) =
                        make_float4(square[i], square[i + 1], square[i + 2], square[i + 3]);
            }
    }
    if (!filled)
        return;
#pragma unroll
    for (int p = 0; p < CN + 1; ++p) {
        if (p >= m.planes)
            break;
        const double sum = blockTotal(energy[p]);
        if (threadIdx.x == 0)
            job.energy_parts[static_cast<size_t>(p) * job.parts + y] = sum;
    }
}

extern __shared__ float4 shared_points[];

// Spectra of BAND rows of a plane. A complex transform of rows y and y + 1 as real and imaginary part holds both: twice their
// spectra are Z(k) + conj Z(n - k) and that of the difference turned by -i; the templates' spectra make up for the factor.
__global__ void __launch_bounds__(fft::MOST_THREADS, 2)
    rowsFftKernel(const __grid_constant__ Job job, bool beside_vertical) {
    if (!beside_vertical)
        cusi::startInOrder();
#if __CUDA_ARCH__ >= 900
    else // what is before verticalKernel was done when that let this kernel start
        cudaTriggerProgrammaticLaunchCompletion();
#endif
    const MatchModel &m = job.model;
    const fft::Plan &plan = job.row_plan;
    const int y0 = blockIdx.x * BAND, p = blockIdx.y;
    const int y = y0 + 2 * fft::signal(); // and the row below
    const unsigned char *const first =
        static_cast<const unsigned char *>(job.frame) + static_cast<size_t>(min(y, m.rows - 1)) * job.frame_step;
    const unsigned char *const second =
        static_cast<const unsigned char *>(job.frame) + static_cast<size_t>(min(y + 1, m.rows - 1)) * job.frame_step;
    double energy;
    if (m.integer && p < m.channels) {
        const int shift = static_cast<int>(m.shift[p]);
        unsigned sum = 0; // at most 2 * 16 squares of a byte
        fft::forwardA(plan, shared_points, [&](int x) {
            const int at = min(x, m.cols - 1) * m.channels + p;
            int a = __ldg(first + at), b = __ldg(second + at);
            a = x < m.cols && y < m.rows ? a - shift : 0;
            b = x < m.cols && y + 1 < m.rows ? b - shift : 0;
            sum += a * a + b * b;
            return make_float2(static_cast<float>(a), static_cast<float>(b));
        });
        energy = sum;
    } else {
        double sum = 0;
        fft::forwardA(plan, shared_points, [&](int x) {
            const size_t at = static_cast<size_t>(min(x, m.cols - 1)) * m.channels;
            const auto value = [&](const unsigned char *row, bool inside) {
                float v = 0, square = 0;
#pragma unroll 1
                for (int c = 0; c < m.channels; ++c) {
                    const float pixel = m.integer ? static_cast<float>(__ldg(row + at + c))
                                                  : __ldg(reinterpret_cast<const float *>(row) + at + c);
                    v = pixel - static_cast<float>(m.shift[c]);
                    square += v * v;
                }
                if (p == m.channels)
                    v = square - static_cast<float>(m.square_shift);
                v = inside ? v : 0;
                sum += static_cast<double>(v) * v;
                return v;
            };
            const float a = value(first, x < m.cols && y < m.rows);
            return make_float2(a, value(second, x < m.cols && y + 1 < m.rows));
        });
        energy = sum;
    }
    fft::passB<true>(plan, shared_points);
    fft::passC(plan, shared_points);
    energy = blockTotal(energy); // and the barrier after the last pass
    if (threadIdx.x == 0)
        job.energy_parts[static_cast<size_t>(p) * job.parts + blockIdx.x] = energy;
    // Two neighboring threads write a tile's rows y and y + 1, 32 bytes, then y + 2 and y + 3.
    float4 *out = job.pair_spectra + static_cast<size_t>(p) * job.spectrum_tiles * job.spectrum_pitch + y0;
    for (int i = threadIdx.x; i < 2 * job.spectrum_tiles; i += blockDim.x) {
        const int tile = i / 2, k = 2 * tile;
        const bool odd = i % 2;
        const auto part = [&](float zx, float zy, float mx, float my) {
            return odd ? make_float2(zy + my, mx - zx) : make_float2(zx + mx, zy - my);
        };
        const float4 z0 = shared_points[__ldg(plan.places + k)], z1 = shared_points[__ldg(plan.places + k + 1)];
        const float4 m0 = shared_points[__ldg(plan.places + (k ? plan.n - k : 0))];
        const float4 m1 = shared_points[__ldg(plan.places + plan.n - k - 1)];
        const float2 a0 = part(z0.x, z0.y, m0.x, m0.y), a1 = part(z1.x, z1.y, m1.x, m1.y);
        const float2 b0 = part(z0.z, z0.w, m0.z, m0.w), b1 = part(z1.z, z1.w, m1.z, m1.w);
        float4 *at = out + static_cast<size_t>(tile) * job.spectrum_pitch + odd;
        at[0] = make_float4(a0.x, a0.y, a1.x, a1.y);
        at[2] = make_float4(b0.x, b0.y, b1.x, b1.y);
    }
#if __CUDA_ARCH__ >= 900
    if (beside_vertical) // so that the next kernel, which follows this one, follows both
        cudaGridDependencySynchronize();
#endif
}

// ---- Window sums
// ---------------------------------------------------------------------------------------------------------

using tuning::VERTICAL_COLS, tuning::VERTICAL_STRIPS;

// Sums of shifted pixels (S1) and of their squares (S2) over the h rows from each row of the score map down, at every column of
// the frame. A block takes 8 columns. Its threads first add up a chunk of rows each; from these sums each makes that of the
// first window of its share of the map and then moves it down. The second reading comes from the first-level cache.
// Sum: unsigned where the sums, whose sign windowSums knows, fit into 32 bits. A thread takes PIXELS neighboring columns.
template<class T, int CN, int PIXELS, class Sum, bool S1, bool S2>
struct Vertical {
    using Pixel = std::conditional_t<sizeof(T) == 1, int, double>;
    static constexpr int ACROSS = VERTICAL_COLS / PIXELS, N = (S1 ? CN : 0) + (S2 ? 1 : 0),
                         UNROLL = tuning::VERTICAL_UNROLL;
    struct alignas(PIXELS * sizeof(Sum)) Sums {
        Sum v[PIXELS];
    };
    using Chunks = Sums[N][VERTICAL_STRIPS][ACROSS];

    // A thread's pixels of a row as they were loaded: taking them apart here would wait for each load before the next.
    template<bool WORDS>
    struct Raw {
        std::conditional_t<WORDS, uint32_t, T> v[WORDS ? 1 : PIXELS * CN];
        __device__ void load(const char *row, const size_t (&offsets)[PIXELS]) {
            if constexpr (WORDS) {
                v[0] = __ldg(reinterpret_cast<const uint32_t *>(row + offsets[0]));
            } else {
#pragma unroll
                for (int i = 0; i < PIXELS * CN; ++i)
                    v[i] = __ldg(reinterpret_cast<const T *>(row + offsets[i / CN]) + i % CN);
            }
        }
        __device__ Pixel pixel(int i, int c) const {
            if constexpr (WORDS)
                return static_cast<Pixel>(v[0] >> (8 * i) & 255);
            else
                return static_cast<Pixel>(v[i * CN + c]);
        }
    };

    const Job &job;
    size_t offsets[PIXELS]; // of the thread's columns in a row; past the frame's last that one's
    Pixel shift[CN];

    template<class Pixels>
    __device__ void add(Sums (&sum)[N], const Pixels &raw, bool minus) const {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i) {
            Pixel squares = 0;
#pragma unroll
            for (int c = 0; c < CN; ++c) {
                const Pixel v = raw.pixel(i, c) - shift[c];
                if (S1)
                    sum[c].v[i] += static_cast<Sum>(minus ? -v : v);
                squares += v * v;
            }
            if (S2)
                sum[N - 1].v[i] += static_cast<Sum>(minus ? -squares : squares);
        }
    }
    __device__ const char *row(int y) const {
        return static_cast<const char *>(job.frame) + static_cast<size_t>(min(y, job.model.rows - 1)) * job.frame_step;
    }
    template<bool WORDS>
    __device__ void addRows(int y, int end, Sums (&sum)[N]) const {
        for (; y < end; y += UNROLL) {
            Raw<WORDS> raw[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; ++i)
                raw[i].load(row(y + i), offsets);
#pragma unroll
            for (int i = 0; i < UNROLL; ++i)
                if (y + i < end)
                    add(sum, raw[i], false);
        }
    }
    // WORDS: all columns exist, four bytes in an aligned word.
    template<bool WORDS>
    __device__ void run(Chunks &chunks, int column, int strip, int x) const {
        const MatchModel &m = job.model;
        const int chunk = cusi::divUp(m.rows, VERTICAL_STRIPS);
        Sums sum[N] = {};
        addRows<WORDS>(min(strip * chunk, m.rows), min((strip + 1) * chunk, m.rows), sum);
#pragma unroll
        for (int q = 0; q < N; ++q)
            chunks[q][strip][column] = sum[q];
        __syncthreads();
        const int y0 = strip * chunk, y1 = min(y0 + chunk, m.orows);
        if (y0 >= y1 || x >= m.cols)
            return;
        const int last = (y0 + m.h) / chunk; // whole chunks of the first window
#pragma unroll
        for (int q = 0; q < N; ++q)
            sum[q] = {};
#pragma unroll 4
        for (int i = strip; i < last; ++i)
#pragma unroll
            for (int q = 0; q < N; ++q)
#pragma unroll
                for (int k = 0; k < PIXELS; ++k)
                    sum[q].v[k] += chunks[q][i][column].v[k];
        addRows<WORDS>(last * chunk, y0 + m.h, sum);
        Sum *to = static_cast<Sum *>(job.vertical) + y0 * job.vertical_pitch + x;
        for (int y = y0; y < y1; y += UNROLL) {
            Raw<WORDS> out[UNROLL], in[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; ++i) {
                out[i].load(row(y + i), offsets);
                in[i].load(row(y + i + m.h), offsets);
            }
#pragma unroll
            for (int i = 0; i < UNROLL; ++i, to += job.vertical_pitch) {
                if (y + i >= y1)
                    break;
#pragma unroll
                for (int q = 0; q < N; ++q) // rows are padded to four columns
                    *reinterpret_cast<Sums *>(to + q * m.orows * job.vertical_pitch) = sum[q];
                add(sum, out[i], true);
                add(sum, in[i], false);
            }
        }
    }
};

template<class T, int CN, int PIXELS, class Sum, bool S1, bool S2>
__global__ void __launch_bounds__(VERTICAL_COLS / PIXELS * VERTICAL_STRIPS)
    verticalKernel(const __grid_constant__ Job job) {
#if __CUDA_ARCH__ >= 900
    // The other way round than startInOrder(): rowsFftKernel, which does not wait for this kernel, must not start before what
    // came before is done.
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
    using Work = Vertical<T, CN, PIXELS, Sum, S1, S2>;
    __shared__ typename Work::Chunks chunks;
    const MatchModel &m = job.model;
    const int column = threadIdx.x % Work::ACROSS, strip = threadIdx.x / Work::ACROSS;
    const int x0 = blockIdx.x * VERTICAL_COLS, x = x0 + column * PIXELS;
    Work work = {job, {}, {}};
#pragma unroll
    for (int i = 0; i < PIXELS; ++i)
        work.offsets[i] = static_cast<size_t>(min(x + i, m.cols - 1)) * (CN * sizeof(T));
#pragma unroll
    for (int c = 0; c < CN; ++c)
        work.shift[c] = static_cast<typename Work::Pixel>(m.shift[c]);
    if (PIXELS == 4 && x0 + VERTICAL_COLS <= m.cols)
        work.template run<PIXELS == 4>(chunks, column, strip, x);
    else
        work.template run<false>(chunks, column, strip, x);
}

template<class T, int CN, int PIXELS, class Sum>
cusStatus launchVerticalOf(const char *f, const Job &job, cudaStream_t stream) {
    const MatchModel &m = job.model;
    return cusi::launchOverlapped(f,
                                  !m.needs_s1  ? verticalKernel<T, CN, PIXELS, Sum, false, true>
                                  : m.needs_s2 ? verticalKernel<T, CN, PIXELS, Sum, true, true>
                                               : verticalKernel<T, CN, PIXELS, Sum, true, false>,
                                  cusi::divUp(m.cols, VERTICAL_COLS), VERTICAL_COLS / PIXELS * VERTICAL_STRIPS, 0, stream,
                                  job);
}
template<class T, int CN>
cusStatus launchVertical(const char *f, const Job &job, cudaStream_t stream) {
    if constexpr (sizeof(T) == 1) {
        if (job.wide_sums)
            return launchVerticalOf<T, CN, 1, long long>(f, job, stream);
        if (CN == 1 && cusi::isAligned(job.frame, job.frame_step, job.model.rows, 4))
            return launchVerticalOf < T, CN, CN == 1 ? 4 : 1, unsigned > (f, job, stream);
        return launchVerticalOf<T, CN, 1, unsigned>(f, job, stream);
    } else {
        return launchVerticalOf<T, CN, 1, double>(f, job, stream);
    }
}

// Rows of the windows' sums, all quantities in turn: differences of the sums up to each vertical one. A warp takes a row.
template<class T>
__device__ void windowSums(const Job &job, int block) {
    using Sum = typename SumTypes<T>::Sum;
    struct alignas(16) Two {
        Sum v[2];
    };
    constexpr int ITEMS = 4;
    const MatchModel &m = job.model;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, item = block * job.window_rows + warp;
    if (warp >= job.window_rows || item >= job.quantities * m.orows)
        return;
    const unsigned sign = m.needs_s1 && item / m.orows < m.channels ? ~0u : 0; // squares use all 32 bits
    const size_t row = static_cast<size_t>(item) * job.vertical_pitch;
    Sum *sums = job.prefixes ? static_cast<Sum *>(job.prefixes) + row
                             : reinterpret_cast<Sum *>(shared_points) + warp * job.vertical_pitch;
    const bool narrow = sizeof(T) == 1 && !job.wide_sums;
    Sum before = 0;
    uint4 four = {};
    if (narrow && ITEMS * lane < m.cols)
        four = *reinterpret_cast<const uint4 *>(static_cast<const unsigned *>(job.vertical) + row + ITEMS * lane);
    for (int x = ITEMS * lane; x - ITEMS * lane < m.cols; x += 32 * ITEMS) {
        Sum v[ITEMS] = {};
        if (narrow) {
            const unsigned words[ITEMS] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                v[i] = static_cast<Sum>(static_cast<long long>(
                    static_cast<unsigned long long>(sign & (static_cast<int>(words[i]) >> 31)) << 32 | words[i]));
            four = {};
            if (x + 32 * ITEMS < m.cols)
                four = *reinterpret_cast<const uint4 *>(static_cast<const unsigned *>(job.vertical) + row + x + 32 * ITEMS);
        } else if (x < m.cols) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                v[i] = static_cast<const Sum *>(job.vertical)[row + x + i];
        }
#pragma unroll
        for (int i = 1; i < ITEMS; ++i)
            v[i] += v[i - 1];
        Sum end = v[ITEMS - 1];
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const Sum other = __shfl_up_sync(FULL_WARP, end, d);
            end += lane >= d ? other : 0;
        }
        const Sum mine = before + end - v[ITEMS - 1];
        before += __shfl_sync(FULL_WARP, end, 31);
        if (x < m.cols) {
#pragma unroll
            for (int i = 0; i < ITEMS; i += 2)
                *reinterpret_cast<Two *>(sums + x + i) = {v[i] + mine, v[i + 1] + mine};
        }
    }
    __syncwarp();
    Sum *out = static_cast<Sum *>(job.windows) + static_cast<size_t>(item) * m.ocols;
    const Sum *ends = sums + m.w - 1;
#pragma unroll 4
    for (int x = lane; x < m.ocols; x += 32)
        out[x] = ends[x] - (x ? sums[x - 1] : 0);
}

// ---- Columns
// ------------------------------------------------------------------------------------------------------------

// PLANES 0: as many as the model says.
template<int PLANES>
__device__ void multiplySpectra(const Job &job, int block, int blocks) {
    constexpr int ITEMS = PLANES ? tuning::SPECTRUM_ITEMS : 1, MOST = PLANES ? PLANES : MATCH_MAX_PLANES;
    const int planes = PLANES ? PLANES : job.model.planes;
    const size_t spectrum = static_cast<size_t>(job.fft_rows) * (job.fft_cols / 2 + 1);
    for (size_t i0 = static_cast<size_t>(block) * THREADS * ITEMS + threadIdx.x; i0 < spectrum;
         i0 += static_cast<size_t>(blocks) * THREADS * ITEMS) {
        cufftComplex image[MOST][ITEMS];
#pragma unroll
        for (int p = 0; p < MOST; ++p)
#pragma unroll
            for (int u = 0; u < ITEMS; ++u)
                if (p < planes && i0 + u * THREADS < spectrum)
                    image[p][u] = job.spectra[p * spectrum + i0 + u * THREADS];
        for (int k = 0; k < job.model.count; ++k) {
            cufftComplex sum[ITEMS];
#pragma unroll
            for (int u = 0; u < ITEMS; ++u)
                sum[u] = {0, 0};
#pragma unroll
            for (int p = 0; p < MOST; ++p) {
                if (p >= planes)
                    break;
                const cufftComplex *t = job.template_spectra + (static_cast<size_t>(k) * planes + p) * spectrum + i0;
#pragma unroll
                for (int u = 0; u < ITEMS; ++u)
                    if (i0 + u * THREADS < spectrum) {
                        const cufftComplex a = image[p][u], b = t[u * THREADS];
                        sum[u].x += a.x * b.x + a.y * b.y;
                        sum[u].y += a.y * b.x - a.x * b.y;
                    }
            }
#pragma unroll
            for (int u = 0; u < ITEMS; ++u)
                if (i0 + u * THREADS < spectrum)
                    job.products[k * spectrum + i0 + u * THREADS] = sum[u];
        }
    }
}

// The frame's energy from its parts, in an order that does not vary.
__device__ void addEnergy(const Job &job) {
    for (int p = 0; p < job.model.planes; ++p) {
        double sum = 0;
        for (int i = threadIdx.x; i < job.parts; i += blockDim.x)
            sum += job.energy_parts[static_cast<size_t>(p) * job.parts + i];
        sum = blockTotal(sum);
        if (threadIdx.x == 0)
            job.energy[p] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < job.model.count; k += blockDim.x)
        job.errors[k] = match_error(&job.model, &job.sums[k], job.energy);
}

template<class T>
__global__ void __launch_bounds__(THREADS)
    columnsKernel(const __grid_constant__ Job job, int window_blocks, int energy_blocks) {
    cusi::startInOrder();
    const int block = blockIdx.x;
    if (block < window_blocks)
        windowSums<T>(job, block);
    else if (block < window_blocks + energy_blocks)
        addEnergy(job);
    else if (job.model.planes == 1)
        multiplySpectra<1>(job, block - window_blocks - energy_blocks, gridDim.x - window_blocks - energy_blocks);
    else
        multiplySpectra<0>(job, block - window_blocks - energy_blocks, gridDim.x - window_blocks - energy_blocks);
}

// Two columns of the spectrum: forth, the conjugate of the product with the templates' conjugate spectra, and back. The last pass
// forth, the product and the first pass back share registers. What the columns hold below the frame is 0, what they come to
// below the score map is not wanted.
__device__ void correlateColumns(const Job &job, int tile) {
    const MatchModel &m = job.model;
    const fft::Plan &plan = job.column_plan;
    const int elements = plan.elements();
    for (int p = 0; p < m.planes; ++p) {
        const float2 *in =
            reinterpret_cast<const float2 *>(job.pair_spectra +
                                             (static_cast<size_t>(p) * job.spectrum_tiles + tile) * job.spectrum_pitch) +
            fft::signal();
        float4 *points = shared_points + p * elements;
        fft::forwardA(plan, points, [&](int y) { return y < m.rows ? in[2 * y] : make_float2(0, 0); });
        fft::passB<true>(plan, points);
    }
    for (int k = 0; k < m.count; ++k) {
        float4 *work = shared_points + (m.count == 1 ? 0 : m.planes * elements);
        fft::withC(plan, [&](auto radix) {
            constexpr int R = decltype(radix)::VALUE;
            const int step = 2 * plan.a * plan.b;
            const size_t spectrum = static_cast<size_t>(job.spectrum_tiles) * plan.n * 2;
            const float2 *templ =
                reinterpret_cast<const float2 *>(job.pair_templates + static_cast<size_t>(tile) * plan.n) +
                static_cast<size_t>(k) * m.planes * spectrum;
            float2 t[R]; // the first ones are asked for before the barrier
#pragma unroll
            for (int i = 0; i < R; ++i)
                t[i] = static_cast<int>(threadIdx.x) < step ? __ldg(templ + threadIdx.x + i * step) : float2{0, 0};
            __syncthreads();
            for (int place = threadIdx.x; place < step; place += blockDim.x) {
                const int i0 = plan.overB(place / 2), j = place / 2 - i0 * plan.b;
                const int at = 2 * (i0 * plan.stride + j * R);
                float2 *to = fft::signalPoints(work) + at;
                for (int p = 0; p < m.planes; ++p) {
                    if (p || place >= static_cast<int>(blockDim.x))
#pragma unroll
                        for (int i = 0; i < R; ++i)
                            t[i] = __ldg(templ + p * spectrum + place + i * step);
                    const float2 *from = fft::signalPoints(shared_points + p * elements) + at;
                    fft::Points<R> points;
#pragma unroll
                    for (int i = 0; i < R; ++i)
                        points.v[i] = from[2 * i];
                    points.transform();
#pragma unroll
                    for (int i = 0; i < R; ++i) {
                        const float2 a = points.v[i], b = t[i], sum = p ? to[2 * i] : float2{0, 0};
                        points.v[i] = {fmaf(a.x, b.x, fmaf(a.y, b.y, sum.x)), fmaf(a.x, b.y, fmaf(-a.y, b.x, sum.y))};
                    }
                    if (p == m.planes - 1)
                        points.transform();
#pragma unroll
                    for (int i = 0; i < R; ++i)
                        to[2 * i] = points.v[i];
                }
            }
        });
        fft::passB<false>(plan, work);
        float2 *out = reinterpret_cast<float2 *>(job.pair_products +
                                                 (static_cast<size_t>(k) * job.spectrum_tiles + tile) * job.product_pitch) +
                      fft::signal();
        fft::backwardA(plan, work, [&](int y, float2 *, const float2 &v) {
            if (y < job.product_pitch)
                out[2 * y] = v;
        });
    }
}

template<class T>
__global__ void __launch_bounds__(fft::MOST_THREADS, 2) columnsFftKernel(const __grid_constant__ Job job) {
    cusi::startInOrder();
    const int block = blockIdx.x;
    if (block < job.spectrum_tiles)
        correlateColumns(job, block);
    else if (block == job.spectrum_tiles)
        addEnergy(job);
    else
        windowSums<T>(job, block - job.spectrum_tiles - 1);
}

// ---- Scores
// -------------------------------------------------------------------------------------------------------------

template<class T, bool SQUARES_ONLY = false>
__device__ void windowAt(const Job &job, int y, int x, double *s1, double &s2) {
    using Sum = typename SumTypes<T>::Sum;
    const MatchModel &m = job.model;
    const size_t plane = static_cast<size_t>(m.orows) * m.ocols;
    const Sum *at = static_cast<const Sum *>(job.windows) + static_cast<size_t>(y) * m.ocols + x;
    int q = 0;
    if constexpr (SQUARES_ONLY) {
        s2 = static_cast<double>(at[0]);
        return;
    }
    if (m.needs_s1)
        for (; q < m.channels; ++q)
            s1[q] = static_cast<double>(at[q * plane]);
    s2 = m.needs_s2 ? static_cast<double>(at[q * plane]) : 0;
}

__device__ float warpLeast(float v) {
    for (int d = 16; d; d /= 2)
        v = fminf(v, __shfl_xor_sync(FULL_WARP, v, d));
    return v;
}

// Least of a block of whole warps, to all threads.
__device__ float blockLeast(float v) {
    __shared__ float warps[32];
    v = warpLeast(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    return warpLeast(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : INFINITY);
}

// A thread's scores: column threadIdx.x % 16 * 4 + o, row threadIdx.x / 16 * 2 + r of the tile.
using TileSums = double[2][4];

// Correlation of 8-bit pixels with __dp4a. The template goes through shared memory in pieces of PIECE_ROWS x PIECE_WORDS
// words, with the pixels under it; a thread keeps the words under its four columns in registers and shifts them by bytes.
template<int CN>
__device__ void correlateBytes(const Job &job, int k, int y0, int x0, TileSums &sums) {
    constexpr int PIECE_ROWS = 16, PIECE_WORDS = 16;
    constexpr int ROWS = TILE_ROWS + PIECE_ROWS;
    constexpr int WORDS = (TILE_COLS * CN / 4 + PIECE_WORDS + CN + 15) / 16 * 16 + 8; // two rows of threads: other banks
    __shared__ uint32_t pixels[ROWS][WORDS];
    __shared__ uint32_t piece[PIECE_ROWS][PIECE_WORDS];
    const MatchModel &m = job.model;
    const int row_bytes = m.w * CN, frame_bytes = m.cols * CN;
    const unsigned char *templ = job.templates + k * job.template_bytes;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    unsigned long long total[2][4] = {};
    for (int j0 = 0; j0 < m.h; j0 += PIECE_ROWS)
        for (int i0 = 0; i0 < row_bytes; i0 += PIECE_WORDS * 4) {
            const int piece_rows = min(PIECE_ROWS, m.h - j0);
            const int piece_words = min(PIECE_WORDS, cusi::divUp(row_bytes - i0, 4));
            __syncthreads();
            for (int i = threadIdx.x; i < PIECE_ROWS * PIECE_WORDS; i += THREADS) {
                const int j = i / PIECE_WORDS, word = i % PIECE_WORDS;
                piece[j][word] =
                    j < piece_rows && word < piece_words
                        ? *reinterpret_cast<const uint32_t *>(templ + (j0 + j) * job.template_step + i0 + 4 * word)
                        : 0;
            }
            for (int i = threadIdx.x; i < ROWS * WORDS * 4; i += THREADS) {
                const int j = i / (WORDS * 4), byte = i % (WORDS * 4), y = y0 + j0 + j, x = x0 * CN + i0 + byte;
                const unsigned char *row = cusi::rowOf(static_cast<const unsigned char *>(job.frame), job.frame_step,
                                                       static_cast<size_t>(min(y, m.rows - 1)));
                reinterpret_cast<unsigned char *>(pixels)[i] = y < m.rows && x < frame_bytes ? row[x] : 0;
            }
            __syncthreads();
            uint32_t part[2][4] = {};
            for (int j = 0; j < piece_rows; ++j) {
                uint32_t w[2][CN + 1];
#pragma unroll
                for (int r = 0; r < 2; ++r)
#pragma unroll
                    for (int i = 0; i < CN; ++i)
                        w[r][i] = pixels[ty * 2 + r + j][tx * CN + i];
#pragma unroll 4
                for (int word = 0; word < piece_words; ++word) {
                    const uint32_t t = piece[j][word];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        w[r][CN] = pixels[ty * 2 + r + j][tx * CN + word + CN];
#pragma unroll
                        for (int o = 0; o < 4; ++o) {
                            const int at = o * CN / 4, shift = o * CN % 4 * 8;
                            const uint32_t four = shift ? __funnelshift_r(w[r][at], w[r][at + 1], shift) : w[r][at];
                            part[r][o] = __dp4a(four, t, part[r][o]);
                        }
#pragma unroll
                        for (int i = 0; i < CN; ++i)
                            w[r][i] = w[r][i + 1];
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
                for (int o = 0; o < 4; ++o)
                    total[r][o] += part[r][o];
        }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int o = 0; o < 4; ++o)
            sums[r][o] = static_cast<double>(total[r][o]);
}

// Any type, with or without a mask, one position after the other: floats in double; a masked SQDIFF is summed as it is.
template<class T, int CN>
__device__ void correlatePlainly(const Job &job, int k, int y0, int x0, TileSums &sums) {
    const MatchModel &m = job.model;
    const int row = m.w * CN;
    for (int r = 0; r < 2; ++r)
        for (int o = 0; o < 4; ++o) {
            const int y = y0 + static_cast<int>(threadIdx.x) / 16 * 2 + r,
                      x = x0 + static_cast<int>(threadIdx.x) % 16 * 4 + o;
            double sum = 0;
            if (y < m.orows && x < m.ocols)
                for (int j = 0; j < m.h; ++j) {
                    const T *a =
                        cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, y + j) + static_cast<size_t>(x) * CN;
                    const T *b =
                        reinterpret_cast<const T *>(job.templates + k * job.template_bytes + j * job.template_step);
                    const unsigned char *keep = job.mask ? job.mask + static_cast<size_t>(j) * job.mask_step : nullptr;
                    for (int i = 0; i < row; ++i) {
                        const double pixel = a[i], templ = b[i];
                        if (keep && m.method == CUS_MATCH_SQDIFF)
                            sum += keep[i] ? (pixel - templ) * (pixel - templ) : 0;
                        else
                            sum += pixel * templ; // 0 where it is masked
                    }
                }
            if (m.masked && m.method == CUS_MATCH_SQDIFF)
                sum -= job.sums[k].t2; // which match_range adds
            sums[r][o] = sum;
        }
}

// A masked CCORR lacks shift times the template's sum; it is the template's, so not in job.constant.
__device__ double maskedConstant(const Job &job, int k) {
    if (job.model.method == CUS_MATCH_SQDIFF)
        return job.constant;
    double constant = 0;
    for (int c = 0; c < job.model.channels; ++c)
        constant += job.model.shift[c] * job.sums[k].raw_t1[c];
    return constant;
}

// match_range once for all kernels: inlined, it takes minutes to compile and megabytes.
struct Scored {
    MatchRange range;
    float score;
};
__device__ __noinline__ Scored scoreOf(const MatchModel &m, const MatchTemplate &t, double c, MatchError error, double s1_0,
                                       double s1_1, double s1_2, double s2) {
    const double s1[3] = {s1_0, s1_1, s1_2};
    Scored scored;
    scored.range = match_range(&m, &t, c, error, s1, s2, &scored.score);
    return scored;
}

// Writes a position's range and, where it is wanted, its score. SQUARED: a SQDIFF without a mask, whose range is found without the
// questions that match_range asks.
template<int CN, bool SQUARED>
__device__ MatchRange putScore(const Job &job, const MatchTemplate &t, int k, int y, int x, double c,
                               const MatchError &error, bool usable, const double (&s1)[CN], double s2) {
    const MatchModel &m = job.model;
    float score;
    MatchRange range;
    if constexpr (SQUARED) {
        const double value = fmax(s2 - 2 * c + t.t2, 0.0);
        const double margin = 2 * error.correlation + error.window + value * 0x1p-22;
        range = {static_cast<float>(value - margin), static_cast<float>(value + margin)};
        score = static_cast<float>(value);
    } else {
        const Scored scored = scoreOf(m, t, c, error, s1[0], CN > 1 ? s1[1 % CN] : 0, CN > 2 ? s1[2 % CN] : 0, s2);
        range = scored.range;
        score = scored.score;
    }
    if (!usable) {
        range = {INFINITY, INFINITY};
        score = NAN;
    }
    job.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x] = range;
    if (job.scores)
        cusi::rowOf(job.scores[k], job.scores_step[k], y)[x] = score;
    return range;
}

enum class From { FFT, BYTES, PLAIN };

// One block a tile and template.
template<class T, int CN, From FROM, bool SQUARED>
__global__ void __launch_bounds__(THREADS) scoresKernel(const __grid_constant__ Job job) {
    cusi::startInOrder();
    const MatchModel &m = job.model;
    const int k = blockIdx.z, tile_x = blockIdx.x, tile_y = blockIdx.y;
    const int x0 = tile_x * TILE_COLS, y0 = tile_y * TILE_ROWS;
    const MatchTemplate &t = job.sums[k];
    const MatchError error = job.errors[k];
    const bool usable = m.integer || job.energy[0] < MATCH_MAX_ENERGY;
    TileSums sums;
    if constexpr (FROM == From::BYTES)
        correlateBytes<CN>(job, k, y0, x0, sums);
    else if constexpr (FROM == From::PLAIN)
        correlatePlainly<T, CN>(job, k, y0, x0, sums);
    const auto rowOfScore = [&](int i) { // of the FFT, neighboring threads take neighboring columns
        return y0 + (FROM == From::FFT ? i * 4 + static_cast<int>(threadIdx.x) / TILE_COLS
                                       : static_cast<int>(threadIdx.x) / 16 * 2 + i / 4);
    };
    const auto columnOfScore = [&](int i) {
        return x0 + static_cast<int>(FROM == From::FFT ? threadIdx.x % TILE_COLS : threadIdx.x % 16 * 4 + i % 4);
    };
    const float *correlation = job.correlations + static_cast<size_t>(k) * job.fft_rows * job.fft_cols;
    const double constant = FROM == From::FFT && m.masked ? maskedConstant(job, k) : 0;
    // Everything is loaded before anything is stored, so that the loads do not wait for one another.
    double c[8], s1[8][CN] = {}, s2[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int y = min(rowOfScore(i), m.orows - 1), x = min(columnOfScore(i), m.ocols - 1);
        if constexpr (FROM == From::FFT)
            c[i] = static_cast<double>(correlation[static_cast<size_t>(y) * job.fft_cols + x]) + constant;
        else
            c[i] = sums[i / 4][i % 4];
        windowAt<T, SQUARED>(job, y, x, s1[i], s2[i]);
    }
    MatchRange least = {INFINITY, INFINITY};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int y = rowOfScore(i), x = columnOfScore(i);
        if (y >= m.orows || x >= m.ocols)
            continue;
        const MatchRange range = putScore<CN, SQUARED>(job, t, k, y, x, c[i], error, usable, s1[i], s2[i]);
        least.lower = fminf(least.lower, range.lower);
        least.upper = fminf(least.upper, range.upper);
    }
    const size_t tile = (static_cast<size_t>(k) * job.tiles_down + tile_y) * job.tiles_across + tile_x;
    const float lower = blockLeast(least.lower), upper = blockLeast(least.upper);
    if (threadIdx.x == 0) {
        job.tile_lowers[tile] = lower;
        job.block_uppers[tile] = upper;
    }
}

// BAND rows of the score map: their spectra back, two rows as real and imaginary part of one transform, and the scores. 32 columns
// are a tile.
template<class T, int CN, bool SQUARED>
__global__ void __launch_bounds__(fft::MOST_THREADS, 2) scoresFftKernel(const __grid_constant__ Job job) {
    const MatchModel &m = job.model;
    const fft::Plan &plan = job.row_plan;
    const int k = blockIdx.y, y0 = blockIdx.x * BAND;
    const float4 *in = job.pair_products + static_cast<size_t>(k) * job.spectrum_tiles * job.product_pitch + y0;
    const int half = plan.n / 2, odd = threadIdx.x % 2;
    constexpr int UNROLL = 3;
    for (int i0 = 0; i0 < 2 * job.spectrum_tiles; i0 += static_cast<int>(blockDim.x) * UNROLL) {
        int forth_place[UNROLL], back_place[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int column = min(i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x), half);
            forth_place[u] = __ldg(plan.places + column);
            back_place[u] = __ldg(plan.places + (column ? plan.n - column : 0));
        }
        if (i0 == 0) // the places do not depend on what was before
            cusi::startInOrder();
        // Neighboring threads read 32 bytes, rows y and y + 1 of two columns; each keeps one column of both.
        float4 v[2][UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int i = i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
            const float4 *at = in + static_cast<size_t>(min(i / 2, job.spectrum_tiles - 1)) * job.product_pitch + odd;
            v[0][u] = at[0];
            v[1][u] = at[2];
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int column = i0 + u * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
            float4 forth = {}, back = {};
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                const float4 mine = v[pair][u];
                const float sent_x = odd ? mine.x : mine.z, sent_y = odd ? mine.y : mine.w;
                const float got_x = __shfl_xor_sync(FULL_WARP, sent_x, 1), got_y = __shfl_xor_sync(FULL_WARP, sent_y, 1);
                float2 a = odd ? float2{got_x, got_y} : float2{mine.x, mine.y};
                float2 b = odd ? float2{mine.z, mine.w} : float2{got_x, got_y};
                if (column == 0 || column == half) // real, but for rounding
                    a.y = b.y = 0;
                // a + i b, and with n - k in place of k conj a + i conj b
                const float2 plus = {a.x - b.y, a.y + b.x}, minus = {a.x + b.y, b.x - a.y};
                if (pair == 0)
                    forth.x = plus.x, forth.y = plus.y, back.x = minus.x, back.y = minus.y;
                else
                    forth.z = plus.x, forth.w = plus.y, back.z = minus.x, back.w = minus.y;
            }
            if (column <= half)
                shared_points[forth_place[u]] = forth;
            if (column > 0 && column < half)
                shared_points[back_place[u]] = back;
        }
    }
    fft::passC(plan, shared_points);
    fft::passB<false>(plan, shared_points);
    fft::backwardA(plan, shared_points, [&](int, float2 *from, const float2 &v) { *from = v; });
    __syncthreads();

    const MatchTemplate &t = job.sums[k];
    const MatchError error = job.errors[k];
    const bool usable = m.integer || job.energy[0] < MATCH_MAX_ENERGY;
    const double constant = m.masked ? maskedConstant(job, k) : 0;
    float upper = INFINITY;
    constexpr int GROUPS = SQUARED ? 3 : 1; // loads of so many groups of columns at a time
    for (int x0 = threadIdx.x; x0 - static_cast<int>(threadIdx.x % 32) < m.ocols;
         x0 += GROUPS * static_cast<int>(blockDim.x)) {
        double s1[GROUPS][BAND][CN] = {}, s2[GROUPS][BAND];
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
#pragma unroll
            for (int r = 0; r < BAND; ++r)
                windowAt<T, SQUARED>(job, min(y0 + r, m.orows - 1), min(x0 + g * static_cast<int>(blockDim.x), m.ocols - 1),
                                     s1[g][r], s2[g][r]);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const int x = x0 + g * static_cast<int>(blockDim.x);
            const float4 v = shared_points[plan.place(min(x, m.ocols - 1))];
            const float c[BAND] = {v.x, v.y, v.z, v.w};
            float lower = INFINITY;
#pragma unroll
            for (int r = 0; r < BAND; ++r) {
                if (y0 + r >= m.orows || x >= m.ocols)
                    break;
                const MatchRange range = putScore<CN, SQUARED>(job, t, k, y0 + r, x, static_cast<double>(c[r]) + constant,
                                                               error, usable, s1[g][r], s2[g][r]);
                lower = fminf(lower, range.lower);
                upper = fminf(upper, range.upper);
            }
            lower = warpLeast(lower);
            if (threadIdx.x % 32 == 0 && x < m.ocols)
                job.tile_lowers[(static_cast<size_t>(k) * job.tiles_down + blockIdx.x) * job.tiles_across + x / 32] = lower;
        }
    }
    upper = blockLeast(upper);
    if (threadIdx.x == 0)
        job.block_uppers[static_cast<size_t>(k) * job.upper_count + blockIdx.x] = upper;
}

// Position `index`, modulo the positions of a tile, of a tile; false outside the map.
__device__ bool tilePosition(const Job &job, int tile, long long index, int &y, int &x) {
    const int cols = 1 << job.tile_cols_log2, rows = 1 << job.tile_rows_log2;
    y = tile / job.tiles_across * rows + (static_cast<int>(index >> job.tile_cols_log2) & (rows - 1));
    x = tile % job.tiles_across * cols + (static_cast<int>(index) & (cols - 1));
    return y < job.model.orows && x < job.model.ocols;
}

// Takes the neighborhood of the match of the round before out of the map. A block goes through the tiles of one of block_uppers, a
// warp through one tile.
__global__ void __launch_bounds__(THREADS) suppressKernel(const __grid_constant__ Job job) {
    cusi::startInOrder();
    const MatchModel &m = job.model;
    const int k = blockIdx.y, tiles = job.tiles_across * job.tiles_down / job.upper_count, first = blockIdx.x * tiles;
    const cusMatch match = job.results[static_cast<size_t>(k) * m.max_matches + job.round - 1];
    const long long d = m.min_distance, y0 = static_cast<long long>(first / job.tiles_across) << job.tile_rows_log2;
    if (match.x < 0 || y0 >= match.y + d || y0 + (1 << job.tile_rows_log2) <= match.y - d + 1)
        return;
    float upper = INFINITY;
    for (int tile = first + threadIdx.x / 32; tile < first + tiles; tile += WARPS) {
        float lower = INFINITY;
        for (int i = threadIdx.x % 32; i < 1 << (job.tile_cols_log2 + job.tile_rows_log2); i += 32) {
            int y, x;
            if (!tilePosition(job, tile, i, y, x))
                continue;
            MatchRange &range = job.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x];
            if (abs(x - match.x) < d && abs(y - match.y) < d)
                range = {INFINITY, INFINITY};
            lower = fminf(lower, range.lower);
            upper = fminf(upper, range.upper);
        }
        lower = warpLeast(lower);
        if (threadIdx.x % 32 == 0)
            job.tile_lowers[static_cast<size_t>(k) * job.tiles_across * job.tiles_down + tile] = lower;
    }
    upper = blockLeast(upper);
    if (threadIdx.x == 0)
        job.block_uppers[static_cast<size_t>(k) * job.upper_count + blockIdx.x] = upper;
}

// ---- Refinement
// ---------------------------------------------------------------------------------------------------------

// Sums over a part of one window. 8-bit: the squared differences for SQDIFF, else the products. Floats: both, and the window's
// own sums.
template<class T>
struct Partial {
    unsigned long long sum = 0;
    __device__ void add(const Partial &other) { sum += other.sum; }
    __device__ void down(int d) { sum += __shfl_down_sync(FULL_WARP, sum, d); }
};
template<>
struct Partial<float> {
    double ssd = 0, c = 0, s1 = 0, s2 = 0;
    __device__ void add(const Partial &other) { ssd += other.ssd, c += other.c, s1 += other.s1, s2 += other.s2; }
    __device__ void down(int d) {
        ssd += __shfl_down_sync(FULL_WARP, ssd, d);
        c += __shfl_down_sync(FULL_WARP, c, d);
        s1 += __shfl_down_sync(FULL_WARP, s1, d);
        s2 += __shfl_down_sync(FULL_WARP, s2, d);
    }
};

// 16 bytes at any address in a row that goes on for `left` bytes, at least one; what comes for those behind its end is arbitrary. Whole
// words are read where they lie in the row or share an aligned word with it, and without a branch, so that the loads of several
// calls are on their way together.
struct Sixteen {
    uint32_t words[5];
    unsigned shift;

    __device__ void load(const unsigned char *p, int left) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(p);
        const uint32_t *at = reinterpret_cast<const uint32_t *>(address & ~uintptr_t{3});
        const int last = (static_cast<int>(address & 3) + min(left, 16) - 1) / 4;
#pragma unroll
        for (int i = 0; i < 5; ++i)
            words[i] = __ldg(at + min(i, last));
        shift = static_cast<unsigned>(address & 3) * 8;
    }
    __device__ uint32_t operator[](int i) const {
        return __funnelshift_r(words[i], words[i + 1], shift);
    }
};

// Rows j0 .. j1 - 1 of the window at (y, x), units `first`, `first` + `stride`, ... of them: 16 bytes or one float. Templates and masks
// are 0 behind the last element of a row.
template<class T>
__device__ Partial<T> windowPart(const Job &job, int k, int y, int x, int j0, int j1, int first, int stride) {
    const MatchModel &m = job.model;
    constexpr int UNROLL = 4;
    Partial<T> part;
    const int row = m.w * m.channels, rest = (m.cols - x) * m.channels; // of the window, of the frame
    const int units = sizeof(T) == 1 ? cusi::divUp(row, 16) : row;
    int j = j0 + first / units, unit = first % units;
    const int down = stride / units, along = stride % units;
    const auto next = [&] {
        j += down;
        unit += along;
        if (unit >= units) {
            unit -= units;
            ++j;
        }
    };
    while (j < j1) {
        if constexpr (sizeof(T) == 1) {
            Sixteen pixels[UNROLL];
            uint4 templ[UNROLL], keep[UNROLL];
            int left[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const bool busy = j < j1;
                const int line = busy ? j : j0, at = busy ? unit : 0;
                const T *a = cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, y + line) +
                             static_cast<size_t>(x) * m.channels;
                const unsigned char *b = job.templates + k * job.template_bytes + line * job.template_step;
                pixels[u].load(a + 16 * at, rest - 16 * at);
                templ[u] = __ldg(reinterpret_cast<const uint4 *>(b) + at);
                if (job.mask)
                    keep[u] = __ldg(reinterpret_cast<const uint4 *>(job.mask + line * job.mask_step) + at);
                left[u] = busy ? row - 16 * at : 0;
                next();
            }
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const uint32_t t[4] = {templ[u].x, templ[u].y, templ[u].z, templ[u].w};
                const uint32_t kept[4] = {keep[u].x, keep[u].y, keep[u].z, keep[u].w};
                uint32_t sum = 0, product = 0;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int bytes = left[u] - 4 * i; // of the window
                    const uint32_t inside = bytes >= 4 ? ~0u : bytes <= 0 ? 0 : (1u << (8 * bytes)) - 1;
                    const uint32_t a = pixels[u][i] & inside & (job.mask ? kept[i] : ~0u), b = t[i] & inside;
                    product = __dp4a(a, b, product);
                    if (m.method == CUS_MATCH_SQDIFF)
                        sum = __dp4a(b, b, __dp4a(a, a, sum));
                }
                part.sum += m.method == CUS_MATCH_SQDIFF ? sum - 2 * product : product;
            }
        } else {
            if (!job.mask || job.mask[j * job.mask_step + unit]) {
                const T *a = cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, y + j) + x;
                const double pixel = a[unit];
                const double templ =
                    reinterpret_cast<const float *>(job.templates + k * job.template_bytes + j * job.template_step)[unit];
                const double sa = pixel - m.shift[0], sb = templ - m.shift[0];
                part.ssd += (pixel - templ) * (pixel - templ);
                part.c += m.masked ? pixel * templ : sa * sb;
                part.s1 += sa;
                part.s2 += sa * sa;
            }
            next();
        }
    }
    return part;
}

// The cost from a window's exact sums; 8-bit window sums come from the columns' prefix sums.
template<class T>
__device__ double exactCost(const Job &job, int k, int y, int x, const Partial<T> &part) {
    const MatchModel &m = job.model;
    const MatchTemplate &t = job.sums[k];
    double score;
    if constexpr (sizeof(T) == 1) {
        const double sum = static_cast<double>(part.sum);
        if (m.masked || m.method == CUS_MATCH_SQDIFF) {
            score = match_score(&m, &t, sum, nullptr, 0, sum);
        } else {
            double s1[3] = {0, 0, 0}, s2 = 0, c = sum; // all integers below 2^53
            windowAt<T>(job, y, x, s1, s2);
            for (int i = 0; i < m.channels; ++i)
                c -= m.shift[i] * (s1[i] + t.raw_t1[i]);
            score = match_score(&m, &t, c, s1, s2, s2 - 2 * c + t.t2);
        }
    } else {
        score = match_score(&m, &t, part.c, &part.s1, part.s2, part.ssd);
    }
    return match_smallestIsBest(m.method) ? score : -score;
}

struct Best {
    double cost;
    unsigned long long position;
};
__device__ inline bool isBetter(const Best &a, const Best &b) {
    return a.cost < b.cost || (a.cost == b.cost && a.position < b.position);
}

// Appends value(i) of every thread where bit i of `votes` is set to the shared list, in the same order in every block; false when
// they do not fit. `count`, the list's length, is the same in all threads. The list can be read after a barrier.
template<class Value>
__device__ bool append(unsigned *list, int capacity, int &count, int round, unsigned votes, const Value &value) {
    __shared__ int ends[2][WARPS]; // in turn: the next call writes while this one still reads
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = __popc(votes);
    int end = mine;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(FULL_WARP, end, d);
        end += lane >= d ? other : 0;
    }
    if (lane == 31)
        ends[round % 2][warp] = end;
    __syncthreads();
    int at = count + end - mine;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        at += w < warp ? ends[round % 2][w] : 0;
        count += ends[round % 2][w];
    }
    for (; votes; votes &= votes - 1, ++at)
        if (at < capacity)
            list[at] = value(__ffs(votes) - 1);
    return count <= capacity;
}

template<class T>
__device__ Partial<T> blockSum(Partial<T> part) {
    __shared__ Partial<T> warps[WARPS];
    for (int d = 16; d; d /= 2)
        part.down(d);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; ++w)
            part.add(warps[w]);
    return part;
}

__device__ Best blockBest(Best best) {
    __shared__ Best warps[WARPS];
    for (int d = 16; d; d /= 2) {
        const Best other = {__shfl_down_sync(FULL_WARP, best.cost, d), __shfl_down_sync(FULL_WARP, best.position, d)};
        if (isBetter(other, best))
            best = other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; ++w)
            if (isBetter(warps[w], best))
                best = warps[w];
    return best;
}

// Every block finds the same list of candidates, so none has to tell another; then each takes some slices of some windows, and
// the last to finish adds them up. When the list overflows, each warp takes rows of tiles instead and every candidate that
// it meets there, unless that cannot be the best any more.
template<class T>
__global__ void __launch_bounds__(THREADS) refineKernel(const __grid_constant__ Job job) {
    __shared__ unsigned tiles[tuning::CANDIDATE_TILES], candidates[tuning::CANDIDATES];
    __shared__ bool last;
    cusi::startInOrder();
    const MatchModel &m = job.model;
    const int k = blockIdx.y, blocks = gridDim.x, tile_total = job.tiles_across * job.tiles_down;
    const float *lowers = job.tile_lowers + static_cast<size_t>(k) * tile_total;
    const float *uppers = job.block_uppers + static_cast<size_t>(k) * job.upper_count;
    const MatchRange *ranges = job.ranges + static_cast<size_t>(k) * m.orows * m.ocols;
    const Best nothing = {INFINITY, ~0ull};
    constexpr int VOTES = 16, SPAN = VOTES * THREADS;

    // The first tiles' ends are on their way while the threshold is found.
    float ends[VOTES], least = INFINITY;
#pragma unroll
    for (int i = 0; i < VOTES; ++i)
        ends[i] = i * THREADS + static_cast<int>(threadIdx.x) < tile_total ? lowers[i * THREADS + threadIdx.x] : INFINITY;
    for (int i = threadIdx.x; i < job.upper_count; i += THREADS)
        least = fminf(least, uppers[i]);
    const float threshold = blockLeast(least);

    int tile_count = 0, candidate_count = 0, round = 0;
    bool listed = true;
    for (int i0 = 0; listed && i0 < tile_total; i0 += SPAN) {
        unsigned votes = 0;
#pragma unroll
        for (int i = 0; i < VOTES; ++i) {
            const int tile = i0 + i * THREADS + static_cast<int>(threadIdx.x);
            if (i0)
                ends[i] = tile < tile_total ? lowers[tile] : INFINITY;
            votes |= (ends[i] <= threshold && threshold < INFINITY ? 1u : 0u) << i;
        }
        listed = append(tiles, tuning::CANDIDATE_TILES, tile_count, round++, votes,
                        [&](int i) { return static_cast<unsigned>(i0 + i * THREADS) + threadIdx.x; });
    }
    __syncthreads();
    const int tile_log2 = job.tile_cols_log2 + job.tile_rows_log2;
    const int positions = listed ? tile_count << tile_log2 : 0;
    for (int i0 = 0; listed && i0 < positions; i0 += SPAN) {
        const auto positionOf = [&](int i, unsigned &position) {
            const int at = i0 + i * THREADS + static_cast<int>(threadIdx.x);
            int y = 0, x = 0;
            const bool inside = at < positions && tilePosition(job, tiles[at >> tile_log2], at, y, x);
            position = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
            return inside;
        };
        unsigned votes = 0;
#pragma unroll
        for (int i = 0; i < VOTES; ++i) {
            if (i0 + i * THREADS >= positions)
                break;
            unsigned position;
            const bool inside = positionOf(i, position);
            votes |= (inside && ranges[position].lower <= threshold ? 1u : 0u) << i;
        }
        listed = append(candidates, tuning::CANDIDATES, candidate_count, round++, votes, [&](int i) {
            unsigned position;
            positionOf(i, position);
            return position;
        });
    }

    __syncthreads();
    const int found = candidate_count;
    const int slices = listed && found ? max(1, min(m.h, blocks / found)) : 1;
    Partial<T> *partial = static_cast<Partial<T> *>(job.partial) + static_cast<size_t>(k) * (tuning::CANDIDATES + blocks);
    // Overflow: the blocks' bests, in the same memory, which has room for a Best a block (see prepare()).
    Best *bests = reinterpret_cast<Best *>(partial);
    if (listed) {
        for (int item = blockIdx.x; item < found * slices; item += blocks) {
            const int slice = item % slices;
            const unsigned position = candidates[item / slices];
            const int y = position / m.ocols, x = position % m.ocols;
            const int each = cusi::divUp(m.h, slices), j0 = min(slice * each, m.h), j1 = min(j0 + each, m.h);
            const Partial<T> sum = blockSum(windowPart<T>(job, k, y, x, j0, j1, threadIdx.x, THREADS));
            if (threadIdx.x == 0)
                partial[item] = sum;
        }
    } else {
        const double floor = match_smallestIsBest(m.method) ? 0 : (m.method & 1) ? -1 : -INFINITY;
        const int lane = threadIdx.x % 32;
        Best best = nothing;
        const int runs_log2 = tile_log2 - 5; // of 32 neighboring positions in a tile
        for (long long run = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32;
             run < static_cast<long long>(tile_total) << runs_log2; run += static_cast<long long>(blocks) * WARPS) {
            const int tile = static_cast<int>(run >> runs_log2);
            if (!(lowers[tile] <= threshold))
                continue;
            int y = 0, x = 0;
            const bool inside = tilePosition(job, tile, run * 32 + lane, y, x);
            const unsigned long long mine = static_cast<unsigned long long>(y) * m.ocols + x, start = mine - lane;
            const float lower = inside ? ranges[mine].lower : INFINITY;
            for (unsigned votes = __ballot_sync(FULL_WARP, lower <= threshold && lower < INFINITY); votes;
                 votes &= votes - 1) {
                const int at = __ffs(votes) - 1;
                if (__shfl_sync(FULL_WARP, lower, at) > best.cost || (best.cost <= floor && best.position < start + at))
                    continue;
                Partial<T> sum = windowPart<T>(job, k, y, x - lane + at, 0, m.h, lane, 32);
                for (int d = 16; d; d /= 2)
                    sum.down(d);
                Best here = {exactCost<T>(job, k, y, x - lane + at, sum), start + at};
                here.cost = __shfl_sync(FULL_WARP, here.cost, 0);
                if (isBetter(here, best))
                    best = here;
            }
        }
        best = blockBest(best);
        if (threadIdx.x == 0)
            bests[blockIdx.x] = best;
    }

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&job.tickets[k], 1u) == static_cast<unsigned>(blocks) - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    Best best = nothing;
    if (listed) {
        // Few candidates have many slices, many have few: a warp or a thread each.
        const int together = found > WARPS ? 1 : 32, lane = threadIdx.x % together;
        for (int i = threadIdx.x / together; i < found; i += THREADS / together) {
            Partial<T> sum;
#pragma unroll 8
            for (int s = lane; s < slices; s += together)
                sum.add(partial[static_cast<size_t>(i) * slices + s]);
            if (together == 32)
                for (int d = 16; d; d /= 2)
                    sum.down(d);
            if (lane)
                continue;
            const int y = candidates[i] / m.ocols, x = candidates[i] % m.ocols;
            const Best here = {exactCost<T>(job, k, y, x, sum), candidates[i]};
            if (isBetter(here, best))
                best = here;
        }
    } else {
        for (int i = threadIdx.x; i < blocks; i += THREADS)
            if (isBetter(bests[i], best))
                best = bests[i];
    }
    best = blockBest(best);
    if (threadIdx.x != 0)
        return;
    job.tickets[k] = 0;
    cusMatch match = {-1, -1, NAN, 0, 0, 0, -1};
    if (best.position != ~0ull && best.cost <= m.limit_cost) {
        match.x = static_cast<int>(best.position % m.ocols);
        match.y = static_cast<int>(best.position / m.ocols);
        match.score = match_smallestIsBest(m.method) ? best.cost : 0 - best.cost;
        if (m.subpixel) {
            const MatchRange *here = ranges + best.position;
            const float middle = match_middle(*here);
            if (match.x > 0 && match.x + 1 < m.ocols)
                match.dx = match_vertex(match_middle(here[-1]), middle, match_middle(here[1]));
            if (match.y > 0 && match.y + 1 < m.orows)
                match.dy = match_vertex(match_middle(here[-m.ocols]), middle, match_middle(here[m.ocols]));
        }
    }
    job.results[static_cast<size_t>(k) * m.max_matches + job.round] = match;
}

// ---- Inspection

// Blocks along x share one match's window; counts and tickets are left at zero.
__global__ void __launch_bounds__(THREADS)
    inspectKernel(const cusi::BgrImage frame, const cusHsvRange range, double wanted, int w, int h, cusMatch *matches,
                  unsigned *counts, unsigned *tickets) {
    __shared__ cusi::HsvTables tables;
    cusMatch &match = matches[blockIdx.y];
    if (match.x < 0)
        return;
    tables.fill();
    const cusi::BgrImage window = {frame.data + match.y * frame.step + static_cast<size_t>(match.x) * 3, frame.step, h, w};
    const unsigned sum =
        cusi::blockSumToFirst(cusi::countInRange(window, range, tables, nullptr, 0, blockIdx.x, gridDim.x));
    if (threadIdx.x != 0)
        return;
    atomicAdd(&counts[blockIdx.y], sum);
    __threadfence();
    if (atomicAdd(&tickets[blockIdx.y], 1u) != gridDim.x - 1)
        return;
    const unsigned total = atomicExch(&counts[blockIdx.y], 0u);
    tickets[blockIdx.y] = 0;
    match.pixels = total;
    match.filled = total >= wanted;
}

// ---- The matcher's device half
// ------------------------------------------------------------------------------------------

struct MatchCuda {
    Job job = {};
    std::vector<void *> memory;
    cufftHandle forward = NO_PLAN, inverse = NO_PLAN;
    float **scores = nullptr; // what job.scores points at, when a run wants maps
    size_t *scores_step = nullptr;
    std::vector<float *> host_scores, sent_scores;
    std::vector<size_t> host_steps, sent_steps;
    unsigned *inspect_counts = nullptr;
    int multiprocessors = 0;
};

cusStatus fftStatus(cufftResult result, const char *function, const char *what) {
    if (result == CUFFT_SUCCESS)
        return CUS_OK;
    return cusi_fail(result == CUFFT_ALLOC_FAILED ? CUS_ERROR_NO_MEMORY : CUS_ERROR_CUDA, "%s: %s: cuFFT error %d",
                     function, what, static_cast<int>(result));
}
#define MATCH_FFT(function, call) CUS_TRY(fftStatus((call), function, #call))

// Zeroed, 256-byte aligned.
template<class T>
cusStatus allocate(MatchCuda *cuda, T **p, size_t n, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    void *memory = nullptr;
    n = std::max<size_t>(n, 1);
    CUSI_REQUIRE(n <= SIZE_MAX / 2 / sizeof(T), CUS_ERROR_NO_MEMORY, "%s: out of device memory", f);
    CUSI_CUDA(f, cudaMalloc(&memory, n * sizeof(T)));
    cuda->memory.push_back(memory);
    CUSI_CUDA(f, cudaMemsetAsync(memory, 0, n * sizeof(T), stream));
    *p = static_cast<T *>(memory);
    return CUS_OK;
}

// Is n 2^a 3^b 5^c 7^d?
bool isSmooth(int n) {
    for (int prime : {2, 3, 5, 7})
        while (n % prime == 0)
            n /= prime;
    return n == 1;
}

// The first few smooth sizes from n up, multiples of `multiple`; those after the first at most 7 % larger than n.
std::vector<int> goodSizes(int n, int multiple, size_t most) {
    std::vector<int> sizes;
    for (int size = cusi::divUp(n, multiple) * multiple; sizes.empty() || (sizes.size() < most && size <= n + n / 14);
         size += multiple)
        if (isSmooth(size))
            sizes.push_back(size);
    return sizes;
}

// Milliseconds of a transform and its inverse; infinity where they cannot be made.
float timeFft(int rows, int cols, cudaStream_t stream) {
    constexpr int WARMUP = 2, TIMED = 8;
    cufftHandle plans[2] = {NO_PLAN, NO_PLAN};
    float *plane = nullptr;
    cufftComplex *spectrum = nullptr;
    cudaEvent_t start = nullptr, stop = nullptr;
    const size_t points = static_cast<size_t>(rows) * cols, half = static_cast<size_t>(rows) * (cols / 2 + 1);
    bool ok = cufftPlan2d(&plans[0], rows, cols, CUFFT_R2C) == CUFFT_SUCCESS &&
              cufftPlan2d(&plans[1], rows, cols, CUFFT_C2R) == CUFFT_SUCCESS &&
              cudaMalloc(&plane, points * sizeof(float)) == cudaSuccess &&
              cudaMalloc(&spectrum, half * sizeof(cufftComplex)) == cudaSuccess && cudaEventCreate(&start) == cudaSuccess &&
              cudaEventCreate(&stop) == cudaSuccess &&
              cudaMemsetAsync(plane, 0, points * sizeof(float), stream) == cudaSuccess;
    for (int i = 0; ok && i < WARMUP + TIMED; ++i)
        ok = (i != WARMUP || cudaEventRecord(start, stream) == cudaSuccess) &&
             cufftSetStream(plans[0], stream) == CUFFT_SUCCESS &&
             cufftExecR2C(plans[0], plane, spectrum) == CUFFT_SUCCESS &&
             cufftSetStream(plans[1], stream) == CUFFT_SUCCESS && cufftExecC2R(plans[1], spectrum, plane) == CUFFT_SUCCESS;
    float milliseconds = INFINITY;
    if (!ok || cudaEventRecord(stop, stream) != cudaSuccess || cudaEventSynchronize(stop) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, start, stop) != cudaSuccess)
        milliseconds = INFINITY;
    for (cudaEvent_t event : {start, stop})
        if (event)
            (void)cudaEventDestroy(event);
    (void)cudaFree(plane);
    (void)cudaFree(spectrum);
    for (cufftHandle plan : plans)
        if (plan != NO_PLAN)
            (void)cufftDestroy(plan);
    (void)cudaGetLastError();
    return milliseconds;
}

// The transform's size. cuFFT's time is no simple function of it (on one H200: 2160 x 3840 216 us, 2187 x 3840 188 us; 700 x
// 1000 40 us, 729 x 1024 22 us), so for larger frames the nearby sizes are timed: first the rows, then the columns.
void chooseFftSize(const MatchModel &m, int *rows, int *cols, cudaStream_t stream) {
    const auto row_sizes = goodSizes(m.rows, 1, 6), col_sizes = goodSizes(m.cols, 4, 5); // 16-byte rows of floats
    *rows = row_sizes[0];
    *cols = col_sizes[0];
    if (static_cast<long long>(*rows) * *cols < tuning::TIMED_POINTS)
        return;
    float best = INFINITY;
    for (int size : row_sizes) {
        const float time = timeFft(size, col_sizes[0], stream);
        if (time < best * 0.98f) // noise must not decide
            best = time, *rows = size;
    }
    for (int size : col_sizes) {
        const float time = size == col_sizes[0] ? best : timeFft(*rows, size, stream);
        if (time < best * 0.98f)
            best = time, *cols = size;
    }
}

// The shortest transform of n points or more that a block can do, with as few threads as there are ways; n = 0 without.
fft::Plan planFor(int n) {
    fft::Plan best = {};
    int least = 0;
    for (int a : fft::A_RADICES)
        for (int b : fft::B_RADICES)
            for (int c : fft::C_RADICES) {
                const int points = a * b * c, most = 2 * points / std::min({a, b, c});
                if (points < n || points > fft::MOST_POINTS || (best.n && points > best.n) ||
                    (points == best.n && most >= least))
                    continue;
                const int threads = cusi::divUp(cusi::divUp(most, cusi::divUp(most, fft::MOST_THREADS)), 32) * 32;
                best = {points, a, b, c, b * c | 1, threads, 65536 / b + 1, 65536 / c + 1, nullptr, nullptr};
                least = most;
            }
    return best;
}

// In units of 2^-24, the rounding of one transform. Each layer of a butterfly's sums adds one unit of its results' magnitude, a
// turn by an eighth 2.3, other factors TWIDDLE_UNITS. In the Euclidean norm this holds because the squares of a layer's results,
// weighted as they enter the butterfly's, add up to the results' squares (Parseval): one unit of every intermediate is one unit
// of the results. Bounded by the sum of the inputs' magnitudes, the layers of radix 3 and 5 may count up to 1.4 times; the
// constants hold for both.
double errorUnits(const fft::Plan &plan) {
    return fft::butterflyUnits(plan.a) + fft::butterflyUnits(plan.b) + fft::butterflyUnits(plan.c) + 2 * fft::TWIDDLE_UNITS;
}

// Bound of a correlation's error in units of 2^-24 of |frame| |template|. Forth, errors are bounded in the Euclidean norm:
// the frame's rounding, rows, one sum that parts two rows, columns. Then the rounded template spectrum and the product, two
// multiply-adds a plane. Back, at every position by the sum of the magnitudes of the product's elements, which is at most
// |frame| |template| (Cauchy and Schwarz): columns, and rows, where two rows share a transform and one element may be sqrt 2 times as
// large. For 1080 x 1350 points that is 139; measured on waves, noise, stripes, impulses, flat halves and a sine at most 3.1.
double correlationUnits(const Job &job) {
    const double rows = errorUnits(job.row_plan), columns = errorUnits(job.column_plan);
    return 1.001 * (1 + rows + 1 + columns + 1 + 3 * job.model.planes + columns + 1.4143 * (1 + rows));
}

// Twiddle factors and places of a plan, the former rounded once.
cusStatus makeTables(MatchCuda *cuda, fft::Plan *plan, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    std::vector<float2> twiddles;
    const auto add = [&](int radix, int step) {
        for (int q = 1; q < radix; ++q)
            for (int t = 0; t < step; ++t) {
                const double angle = -2 * M_PI * q * t / (static_cast<double>(radix) * step);
                twiddles.push_back({static_cast<float>(cos(angle)), static_cast<float>(sin(angle))});
            }
    };
    add(plan->a, plan->b * plan->c);
    add(plan->b, plan->c);
    std::vector<uint16_t> places(plan->n);
    for (int k = 0; k < plan->n; ++k)
        places[k] =
            static_cast<uint16_t>(k % plan->a * plan->stride + k / plan->a % plan->b * plan->c + k / (plan->a * plan->b));
    float2 *device_twiddles = nullptr;
    uint16_t *device_places = nullptr;
    CUS_TRY(allocate(cuda, &device_twiddles, twiddles.size(), stream));
    CUS_TRY(allocate(cuda, &device_places, places.size(), stream));
    CUSI_CUDA(f, cudaMemcpyAsync(device_twiddles, twiddles.data(), twiddles.size() * sizeof(float2), cudaMemcpyHostToDevice,
                                 stream));
    CUSI_CUDA(
        f, cudaMemcpyAsync(device_places, places.data(), places.size() * sizeof(uint16_t), cudaMemcpyHostToDevice, stream));
    CUSI_CUDA(f, cudaStreamSynchronize(stream));
    plan->twiddles = device_twiddles;
    plan->places = device_places;
    return CUS_OK;
}

size_t prefixBytes(const Job &job) {
    return job.quantities && !job.prefixes ? job.window_rows * job.vertical_pitch * sizeof(double) : 0;
}

// Shared memory of a block of columnsFftKernel.
size_t columnBytes(const Job &job) {
    const MatchModel &m = job.model;
    const size_t spectra = static_cast<size_t>(job.column_plan.elements()) * sizeof(float4) * (m.planes + (m.count > 1));
    return std::max(spectra, prefixBytes(job));
}
size_t rowBytes(const Job &job) {
    return static_cast<size_t>(job.row_plan.elements()) * sizeof(float4);
}

cusStatus allowSharedMemory(const void *kernel, int bytes) {
    CUSI_CUDA("cusMatcherCreate", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return CUS_OK;
}

template<class T, int CN>
cusStatus allowSharedMemory(int bytes) {
    for (const void *kernel :
         {reinterpret_cast<const void *>(rowsFftKernel), reinterpret_cast<const void *>(columnsFftKernel<T>),
          reinterpret_cast<const void *>(scoresFftKernel<T, CN, true>),
          reinterpret_cast<const void *>(scoresFftKernel<T, CN, false>)})
        CUS_TRY(allowSharedMemory(kernel, bytes));
    return CUS_OK;
}

// The blocks' own transforms where they fit, else cuFFT (job.row_plan.n is 0).
cusStatus chooseFft(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    Job &job = cuda->job;
    const MatchModel &m = job.model;
    int device = 0, most = 0;
    CUSI_CUDA(f, cudaGetDevice(&device));
    CUSI_CUDA(f, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    most -= 8192; // the kernels' own
    job.row_plan = planFor(m.cols);
    job.column_plan = planFor(m.rows);
    job.column_plan.threads = std::min(job.column_plan.threads, tuning::COLUMN_THREADS);
    if (job.row_plan.n && job.column_plan.n && std::max(columnBytes(job), rowBytes(job)) <= static_cast<size_t>(most)) {
        job.fft_rows = job.column_plan.n;
        job.fft_cols = job.row_plan.n;
        CUS_TRY(makeTables(cuda, &job.row_plan, stream));
        CUS_TRY(makeTables(cuda, &job.column_plan, stream));
        return m.channels == 3 ? allowSharedMemory<uint8_t, 3>(most)
               : m.integer     ? allowSharedMemory<uint8_t, 1>(most)
                               : allowSharedMemory<float, 1>(most);
    }
    job.row_plan = job.column_plan = {};
    CUSI_REQUIRE(m.rows < (1 << 28) && m.cols < (1 << 28), CUS_ERROR_SIZE, "%s: a frame of %d x %d is too long for the FFT",
                 f, m.rows, m.cols);
    chooseFftSize(m, &job.fft_rows, &job.fft_cols, stream);
    return CUS_OK;
}

// cuFFT's plans of the frame's planes and the templates' products.
cusStatus makePlans(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    Job &job = cuda->job;
    const MatchModel &m = job.model;
    long long n[2] = {job.fft_rows, job.fft_cols}, real[2] = {n[0], n[1]}, complex[2] = {n[0], n[1] / 2 + 1};
    const long long plane = n[0] * n[1], spectrum = n[0] * complex[1];
    size_t sizes[2] = {0, 0};
    MATCH_FFT(f, cufftCreate(&cuda->forward));
    MATCH_FFT(f, cufftSetAutoAllocation(cuda->forward, 0));
    MATCH_FFT(
        f, cufftMakePlanMany64(cuda->forward, 2, n, real, 1, plane, complex, 1, spectrum, CUFFT_R2C, m.planes, &sizes[0]));
    MATCH_FFT(f, cufftCreate(&cuda->inverse));
    MATCH_FFT(f, cufftSetAutoAllocation(cuda->inverse, 0));
    MATCH_FFT(
        f, cufftMakePlanMany64(cuda->inverse, 2, n, complex, 1, spectrum, real, 1, plane, CUFFT_C2R, m.count, &sizes[1]));
    char *work = nullptr;
    CUS_TRY(allocate(cuda, &work, std::max(sizes[0], sizes[1]), stream));
    MATCH_FFT(f, cufftSetWorkArea(cuda->forward, work));
    MATCH_FFT(f, cufftSetWorkArea(cuda->inverse, work));
    return CUS_OK;
}

// A double spectrum, rows of cols / 2 + 1, as floats in the same order, or as columnsFftKernel takes it: in tiles of two columns, the
// results of its last pass thread by thread.
__global__ void __launch_bounds__(THREADS) roundSpectrumKernel(const cufftDoubleComplex *in, size_t n, cufftComplex *out) {
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * THREADS)
        out[i] = {static_cast<float>(in[i].x), static_cast<float>(in[i].y)};
}
__global__ void __launch_bounds__(THREADS)
    arrangeSpectrumKernel(const cufftDoubleComplex *in, int columns, const fft::Plan plan, int tiles, float4 *out) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= tiles * plan.n)
        return;
    const int tile = i / plan.n, step = plan.a * plan.b, t = i % plan.n % step;
    const int row = t / plan.b + plan.a * (t % plan.b + plan.b * (i % plan.n / step));
    const cufftDoubleComplex *at = in + static_cast<size_t>(row) * columns + 2 * tile;
    const cufftDoubleComplex second = 2 * tile + 1 < columns ? at[1] : cufftDoubleComplex{0, 0};
    out[i] = make_float4(static_cast<float>(at[0].x), static_cast<float>(at[0].y), static_cast<float>(second.x),
                         static_cast<float>(second.y));
}

struct SpectrumMaker {
    cufftHandle plan = NO_PLAN;
    double *plane = nullptr;
    cufftDoubleComplex *spectrum = nullptr;
    ~SpectrumMaker() {
        if (plan != NO_PLAN)
            (void)cufftDestroy(plan);
        (void)cudaFree(plane);
        (void)cudaFree(spectrum);
    }
};

// Spectra of the templates' planes, scaled, made in double: what they are off by is their rounding to float.
cusStatus prepareSpectra(MatchCuda *cuda, const void *templates, const uint8_t *mask, cufftComplex *out, float4 *pairs,
                         cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    Job &job = cuda->job;
    const MatchModel &m = job.model;
    long long n[2] = {job.fft_rows, job.fft_cols}, complex[2] = {n[0], n[1] / 2 + 1};
    const size_t plane = n[0] * n[1], spectrum = n[0] * complex[1];
    const size_t elements = static_cast<size_t>(m.w) * m.h * m.channels;
    // Twice the frame's spectra come from rowsFftKernel.
    const double scale = (pairs ? 0.5 : 1.0) / static_cast<double>(plane);
    SpectrumMaker maker;
    size_t work = 0;
    MATCH_FFT(f, cufftCreate(&maker.plan));
    MATCH_FFT(f,
              cufftMakePlanMany64(maker.plan, 2, n, n, 1, n[0] * n[1], complex, 1, n[0] * complex[1], CUFFT_D2Z, 1, &work));
    MATCH_FFT(f, cufftSetStream(maker.plan, stream));
    CUSI_CUDA(f, cudaMalloc(reinterpret_cast<void **>(&maker.plane), plane * sizeof *maker.plane));
    CUSI_CUDA(f, cudaMalloc(reinterpret_cast<void **>(&maker.spectrum), spectrum * sizeof *maker.spectrum));
    std::vector<double> host(static_cast<size_t>(m.w) * m.h);
    for (int k = 0; k < m.count; ++k)
        for (int p = 0; p < m.planes; ++p) {
            for (size_t pixel = 0; pixel < host.size(); ++pixel) {
                const size_t i = pixel * m.channels + (p < m.channels ? p : 0), at = k * elements + i;
                double value =
                    m.integer ? static_cast<const uint8_t *>(templates)[at] : static_cast<const float *>(templates)[at];
                if (p == m.channels)
                    value = 1;
                else if (!m.masked)
                    value -= m.shift[p];
                else if (m.method == CUS_MATCH_SQDIFF)
                    value = -2 * (value - m.shift[p]);
                host[pixel] = mask && !mask[i] ? 0 : value * scale;
            }
            CUSI_CUDA(f, cudaMemsetAsync(maker.plane, 0, plane * sizeof *maker.plane, stream));
            CUSI_CUDA(f, cudaMemcpy2DAsync(maker.plane, job.fft_cols * sizeof(double), host.data(), m.w * sizeof(double),
                                           m.w * sizeof(double), m.h, cudaMemcpyHostToDevice, stream));
            MATCH_FFT(f, cufftExecD2Z(maker.plan, maker.plane, maker.spectrum));
            const size_t which = static_cast<size_t>(k) * m.planes + p;
            if (pairs) {
                const int tiled = job.spectrum_tiles * job.column_plan.n;
                CUS_TRY(cusi::launch(f, arrangeSpectrumKernel, cusi::divUp(tiled, THREADS), THREADS, 0, stream,
                                     maker.spectrum, static_cast<int>(complex[1]), job.column_plan, job.spectrum_tiles,
                                     pairs + which * tiled));
            } else {
                CUS_TRY(cusi::launch(f, roundSpectrumKernel, 16 * cuda->multiprocessors, THREADS, 0, stream, maker.spectrum,
                                     spectrum, out + which * spectrum));
            }
            CUSI_CUDA(f, cudaStreamSynchronize(stream));
        }
    return CUS_OK;
}

cusStatus prepareFft(MatchCuda *cuda, const void *templates, const uint8_t *mask, cudaStream_t stream) {
    Job &job = cuda->job;
    const MatchModel &m = job.model;
    const size_t count = m.count, planes = m.planes;
    if (job.row_plan.n) {
        float4 *spectra = nullptr;
        const size_t tiles = job.spectrum_tiles;
        CUS_TRY(allocate(cuda, &job.pair_spectra, planes * tiles * job.spectrum_pitch, stream));
        CUS_TRY(allocate(cuda, &job.pair_products, count * tiles * job.product_pitch, stream));
        CUS_TRY(allocate(cuda, &spectra, count * planes * tiles * job.column_plan.n, stream));
        CUS_TRY(prepareSpectra(cuda, templates, mask, nullptr, spectra, stream));
        job.pair_templates = spectra;
        return CUS_OK;
    }
    const size_t plane = static_cast<size_t>(job.fft_rows) * job.fft_cols;
    const size_t spectrum = static_cast<size_t>(job.fft_rows) * (job.fft_cols / 2 + 1);
    cufftComplex *spectra = nullptr;
    float *correlations = nullptr;
    CUS_TRY(allocate(cuda, &job.planes, plane * planes, stream));
    CUS_TRY(allocate(cuda, &job.spectra, spectrum * planes, stream));
    CUS_TRY(allocate(cuda, &job.products, spectrum * count, stream));
    CUS_TRY(allocate(cuda, &spectra, spectrum * planes * count, stream));
    CUS_TRY(allocate(cuda, &correlations, plane * count, stream));
    CUS_TRY(makePlans(cuda, stream));
    CUS_TRY(prepareSpectra(cuda, templates, mask, spectra, nullptr, stream));
    job.template_spectra = spectra;
    job.correlations = correlations;
    return CUS_OK;
}

cusStatus prepare(cusMatcher *matcher, MatchCuda *cuda, const void *templates, const uint8_t *mask,
                  const MatchTemplate *sums, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    MatchModel &m = matcher->model;
    Job &job = cuda->job;
    const bool fft = matcher->algorithm == CUS_MATCH_FFT;
    const size_t count = m.count, elements = static_cast<size_t>(m.w) * m.h * m.channels;
    const size_t row_bytes = static_cast<size_t>(m.w) * cusTypeSize(matcher->type);
    CUSI_CUDA(f, cusi::multiprocessors(&cuda->multiprocessors));
    job.model = m;
    job.quantities = (m.needs_s1 ? m.channels : 0) + (m.needs_s2 ? 1 : 0);
    job.vertical_pitch = cusi::divUp(m.cols, 4) * size_t{4};
    const size_t prefix_bytes = job.vertical_pitch * sizeof(double);
    if (job.quantities && prefix_bytes > tuning::PREFIX_BYTES)
        CUS_TRY(allocate(cuda, reinterpret_cast<double **>(&job.prefixes),
                         static_cast<size_t>(job.quantities) * m.orows * job.vertical_pitch, stream));
    if (fft)
        CUS_TRY(chooseFft(cuda, stream));
    const bool own = job.row_plan.n > 0;
    if (own)
        m.error = correlationUnits(job) * 0x1p-24;
    else if (fft) // one transform forth and one back; the templates' spectra were made in double
        m.error = MATCH_FFT_UNITS * (2.0 / 3) * log2(static_cast<double>(job.fft_rows) * job.fft_cols) * 0x1p-24 + 0x1p-22;
    else
        m.error = m.integer ? 0 : 0x1p-52 * m.n;
    job.model = m;
    job.wide_sums = !m.integer || static_cast<double>(m.h) * m.channels * 255 * 255 >= 4294967296.0;
    job.template_step = cusi::divUp<size_t>(row_bytes, 16) * 16;
    job.template_bytes = job.template_step * m.h;
    const int warps = (own ? job.column_plan.threads : THREADS) / 32;
    job.window_rows = job.prefixes ? warps : std::clamp(static_cast<int>(tuning::PREFIX_BYTES / prefix_bytes), 1, warps);
    if (own) {
        job.spectrum_tiles = cusi::divUp(job.fft_cols / 2 + 1, 2);
        job.spectrum_pitch = cusi::divUp(m.rows, BAND) * BAND;
        job.product_pitch = cusi::divUp(m.orows, BAND) * BAND;
        job.tiles_across = cusi::divUp(m.ocols, 32);
        job.tiles_down = job.upper_count = cusi::divUp(m.orows, BAND);
        job.tile_cols_log2 = 5;
        job.tile_rows_log2 = 2;
        job.parts = cusi::divUp(m.rows, BAND);
    } else {
        job.tiles_across = cusi::divUp(m.ocols, TILE_COLS);
        job.tiles_down = cusi::divUp(m.orows, TILE_ROWS);
        job.upper_count = job.tiles_across * job.tiles_down;
        job.tile_cols_log2 = 6;
        job.tile_rows_log2 = 5;
        job.parts = m.rows;
    }
    static_assert(TILE_COLS == 1 << 6 && TILE_ROWS == 1 << 5 && BAND == 1 << 2, "tile_cols_log2, tile_rows_log2");
    job.refine_blocks = tuning::REFINE_BLOCKS_PER_SM * cuda->multiprocessors;
    for (size_t i = 0; mask && i < static_cast<size_t>(m.n); ++i)
        job.constant += mask[i * m.channels] ? m.square_shift : 0;

    unsigned char *device_templates = nullptr, *device_mask = nullptr;
    MatchTemplate *device_sums = nullptr;
    CUS_TRY(allocate(cuda, &device_templates, job.template_bytes * count, stream));
    CUS_TRY(allocate(cuda, &device_sums, count, stream));
    CUS_TRY(allocate(cuda, &job.energy_parts, static_cast<size_t>(m.planes) * job.parts, stream));
    CUS_TRY(allocate(cuda, &job.energy, MATCH_MAX_PLANES, stream));
    CUS_TRY(allocate(cuda, &job.errors, count, stream));
    const size_t map_rows = static_cast<size_t>(job.quantities) * m.orows;
    CUS_TRY(allocate(cuda, reinterpret_cast<char **>(&job.vertical),
                     map_rows * job.vertical_pitch * (job.wide_sums ? sizeof(double) : sizeof(uint32_t)), stream));
    CUS_TRY(allocate(cuda, reinterpret_cast<double **>(&job.windows), map_rows * m.ocols, stream));
    CUS_TRY(allocate(cuda, &job.ranges, count * m.orows * m.ocols, stream));
    CUS_TRY(allocate(cuda, &job.tile_lowers, count * job.tiles_across * job.tiles_down, stream));
    CUS_TRY(allocate(cuda, &job.block_uppers, count * job.upper_count, stream));
    const size_t partial_bytes = m.integer ? sizeof(Partial<uint8_t>) : sizeof(Partial<float>);
    // Room for `found * slices` partial sums, at most blocks or CANDIDATES, whichever is more, and for a Best a block.
    CUS_TRY(allocate(cuda, reinterpret_cast<char **>(&job.partial),
                     count * (tuning::CANDIDATES + job.refine_blocks) * std::max(partial_bytes, sizeof(Best)), stream));
    CUS_TRY(allocate(cuda, &job.tickets, count, stream));
    CUS_TRY(allocate(cuda, &cuda->scores, count, stream));
    CUS_TRY(allocate(cuda, &cuda->scores_step, count, stream));
    CUS_TRY(allocate(cuda, &cuda->inspect_counts, 2 * count * m.max_matches, stream));
    CUS_TRY(allocate(cuda, &job.results, count * m.max_matches, stream));
    CUS_TRY(cusMatWrap(&matcher->results, m.count, m.max_matches * static_cast<int>(sizeof(cusMatch)), CUS_8UC1, CUS_DEVICE,
                       job.results, 0));

    const size_t element = m.integer ? 1 : sizeof(float);
    std::vector<unsigned char> host(static_cast<const unsigned char *>(templates),
                                    static_cast<const unsigned char *>(templates) + elements * element * count);
    if (mask) {
        for (size_t i = 0; i < elements * count; ++i)
            if (!mask[i % elements])
                std::fill_n(&host[i * element], element, static_cast<unsigned char>(0));
        const size_t mask_row = static_cast<size_t>(m.w) * m.channels;
        job.mask_step = cusi::divUp<size_t>(mask_row, 16) * 16;
        CUS_TRY(allocate(cuda, &device_mask, job.mask_step * m.h, stream));
        CUSI_CUDA(f, cudaMemcpy2DAsync(device_mask, job.mask_step, mask, mask_row, mask_row, m.h, cudaMemcpyHostToDevice,
                                       stream));
    }
    CUSI_CUDA(f, cudaMemcpy2DAsync(device_templates, job.template_step, host.data(), row_bytes, row_bytes, m.h * count,
                                   cudaMemcpyHostToDevice, stream));
    CUSI_CUDA(f, cudaMemcpyAsync(device_sums, sums, count * sizeof *sums, cudaMemcpyHostToDevice, stream));
    const cusMatch none = {-1, -1, NAN, 0, 0, 0, -1};
    std::vector<cusMatch> nones(count * m.max_matches, none);
    CUSI_CUDA(f, cudaMemcpyAsync(job.results, nones.data(), nones.size() * sizeof none, cudaMemcpyHostToDevice, stream));
    job.templates = device_templates;
    job.mask = device_mask;
    job.sums = device_sums;
    cuda->host_scores.assign(count, nullptr);
    cuda->sent_scores.assign(count, nullptr);
    cuda->host_steps.assign(count, 0);
    cuda->sent_steps.assign(count, 0);
    if (fft)
        CUS_TRY(prepareFft(cuda, templates, mask, stream));
    CUSI_CUDA(f, cudaStreamSynchronize(stream));
    return CUS_OK;
}

template<class T, int CN>
cusStatus runTyped(cusMatcher *matcher, const Job &job, bool dot_products, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const MatchModel &m = job.model;
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    const bool fft = matcher->algorithm == CUS_MATCH_FFT, own = job.row_plan.n > 0;
    const bool squared = m.method == CUS_MATCH_SQDIFF && !m.masked;
    const int window_blocks = cusi::divUp(job.quantities * m.orows, job.window_rows);
    if (window_blocks)
        CUS_TRY((launchVertical<T, CN>(f, job, stream)));
    const dim3 tiles(job.tiles_across, job.tiles_down, m.count);
    if (own) {
        CUS_TRY(cusi::launchOverlapped(f, rowsFftKernel, dim3(cusi::divUp(m.rows, BAND), m.planes), job.row_plan.threads,
                                       rowBytes(job), stream, job, window_blocks > 0));
        CUS_TRY(cusi::launchOverlapped(f, columnsFftKernel<T>, job.spectrum_tiles + 1 + window_blocks,
                                       job.column_plan.threads, columnBytes(job), stream, job));
        CUS_TRY(cusi::launchOverlapped(f, squared ? scoresFftKernel<T, CN, true> : scoresFftKernel<T, CN, false>,
                                       dim3(job.tiles_down, m.count), job.row_plan.threads, rowBytes(job), stream, job));
    } else {
        const int energy_blocks = m.error > 0 ? 1 : 0;
        if (energy_blocks)
            CUS_TRY(cusi::launchOverlapped(f, rowsKernel<T, CN>, fft ? job.fft_rows : m.rows, THREADS, 0, stream, job));
        if (fft) {
            MATCH_FFT(f, cufftSetStream(cuda->forward, stream));
            MATCH_FFT(f, cufftExecR2C(cuda->forward, job.planes, job.spectra));
        }
        const long long spectrum = static_cast<long long>(job.fft_rows) * (job.fft_cols / 2 + 1);
        const int spectrum_blocks =
            fft ? static_cast<int>(std::min<long long>(
                      16LL * cuda->multiprocessors,
                      cusi::divUp<long long>(spectrum, m.planes == 1 ? THREADS * tuning::SPECTRUM_ITEMS : THREADS)))
                : 0;
        if (window_blocks + energy_blocks + spectrum_blocks)
            CUS_TRY(cusi::launchOverlapped(f, columnsKernel<T>, window_blocks + energy_blocks + spectrum_blocks, THREADS,
                                           prefixBytes(job), stream, job, window_blocks, energy_blocks));
        if (fft) {
            MATCH_FFT(f, cufftSetStream(cuda->inverse, stream));
            MATCH_FFT(f, cufftExecC2R(cuda->inverse, job.products, const_cast<float *>(job.correlations)));
            CUS_TRY(cusi::launchOverlapped(
                f, squared ? scoresKernel<T, CN, From::FFT, true> : scoresKernel<T, CN, From::FFT, false>, tiles, THREADS,
                0, stream, job));
        } else if (dot_products) {
            CUS_TRY(cusi::launchOverlapped(
                f, squared ? scoresKernel<uint8_t, CN, From::BYTES, true> : scoresKernel<uint8_t, CN, From::BYTES, false>,
                tiles, THREADS, 0, stream, job));
        } else {
            CUS_TRY(cusi::launchOverlapped(f, scoresKernel<T, CN, From::PLAIN, false>, tiles, THREADS, 0, stream, job));
        }
    }
    Job round = job;
    for (round.round = 0; round.round < m.max_matches; ++round.round) {
        if (round.round)
            CUS_TRY(cusi::launchOverlapped(f, suppressKernel, dim3(job.upper_count, m.count), THREADS, 0, stream, round));
        CUS_TRY(cusi::launchOverlapped(f, refineKernel<T>, dim3(job.refine_blocks, m.count), THREADS, 0, stream, round));
    }
    return CUS_OK;
}

} // namespace

cusStatus match_cuda_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums,
                             cusStream stream) try {
    MatchCuda *cuda = new MatchCuda;
    matcher->backend = cuda;
    return prepare(matcher, cuda, templates, mask, sums, stream);
} catch (const std::bad_alloc &) {
    return cusi_fail(CUS_ERROR_NO_MEMORY, "cusMatcherCreate: no host memory");
}

void match_cuda_release(cusMatcher *matcher) {
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    if (!cuda)
        return;
    if (cuda->forward != NO_PLAN)
        (void)cufftDestroy(cuda->forward);
    if (cuda->inverse != NO_PLAN)
        (void)cufftDestroy(cuda->inverse);
    for (void *p : cuda->memory)
        (void)cudaFree(p);
    delete cuda;
}

// By the performance suite's sweeps on one H200 the two cross near 16 x 16 at 640 x 480 and between 16 x 16 and 24 x 24 at 1920 x 1080.
cusMatchAlgorithm match_cuda_algorithm(const MatchModel *m) {
    const bool dot_products = m->integer && !m->masked;
    return m->n <= (dot_products ? 400 : 64) ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
}

cusStatus match_cuda_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream) {
    const char *f = "cusMatcherRun";
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    Job job = cuda->job;
    const MatchModel &m = job.model;
    job.frame = frame->data;
    job.frame_step = frame->step;
    if (scores) {
        for (int k = 0; k < m.count; ++k) {
            cuda->host_scores[k] = static_cast<float *>(scores[k].data);
            cuda->host_steps[k] = scores[k].step;
        }
        // Usually the maps are where they were in the run before.
        if (cuda->host_scores != cuda->sent_scores || cuda->host_steps != cuda->sent_steps) {
            CUSI_CUDA(f, cudaMemcpyAsync(cuda->scores, cuda->host_scores.data(), m.count * sizeof(float *),
                                         cudaMemcpyHostToDevice, stream));
            CUSI_CUDA(f, cudaMemcpyAsync(cuda->scores_step, cuda->host_steps.data(), m.count * sizeof(size_t),
                                         cudaMemcpyHostToDevice, stream));
            cuda->sent_scores = cuda->host_scores;
            cuda->sent_steps = cuda->host_steps;
        }
        job.scores = cuda->scores;
        job.scores_step = cuda->scores_step;
    }
    const bool dot_products = m.integer && !m.masked;
    if (m.integer)
        return m.channels == 1 ? runTyped<uint8_t, 1>(matcher, job, dot_products, stream)
                               : runTyped<uint8_t, 3>(matcher, job, dot_products, stream);
    return runTyped<float, 1>(matcher, job, false, stream);
}

cusStatus match_cuda_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream) {
    const MatchModel &m = matcher->model;
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    const unsigned matches = static_cast<unsigned>(m.count) * m.max_matches;
    const long long quads = cusi::hsvQuads(m.h, m.w);
    const unsigned blocks =
        static_cast<unsigned>(std::min<long long>(2LL * cuda->multiprocessors, cusi::divUp<long long>(quads, 2 * THREADS)));
    cusMatch *results = static_cast<cusMatch *>(matcher->results.data);
    // Grids have at most 65535 blocks along y.
    for (unsigned first = 0; first < matches; first += 65535)
        CUS_TRY(cusi::launch("cusMatcherInspect", inspectKernel, dim3(blocks, std::min(65535u, matches - first)), THREADS,
                             0, stream, cusi::bgrImage(*frame), *range, min_fill * m.n, m.w, m.h, results + first,
                             cuda->inspect_counts + first, cuda->inspect_counts + matches + first));
    return CUS_OK;
}
