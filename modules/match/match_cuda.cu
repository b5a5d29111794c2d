// match on the GPU. One frame, all in the caller's stream, nothing read back:
//   rowsKernel       frame -> shifted float planes for the FFT, prefix sums along rows, energy of each row
//   cuFFT            real to complex
//   columnsKernel    spectra times templates' conjugate spectra; beside it, in other blocks, prefix sums down the columns of
//                    the windows' row sums, and the frame's energy
//   cuFFT            complex to real
//   scoresKernel     scores, ranges of their true values, and the ranges' ends of each tile
//   refineKernel     positions whose range reaches the least upper end are computed exactly; the best is the result
// The direct path leaves the FFTs out and correlates in scoresKernel.
#include "cuda.cuh"
#include "match_backend.h"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cufft.h>

#include <algorithm>
#include <new>
#include <vector>

#ifndef MATCH_TUNE_CANDIDATES
#define MATCH_TUNE_CANDIDATES 1024
#endif
#ifndef MATCH_TUNE_REFINE_BLOCKS
#define MATCH_TUNE_REFINE_BLOCKS 1
#endif

namespace {

namespace tuning {
constexpr int ROW_THREADS = 192;
constexpr int ROW_ITEMS = 8;    // one round for rows of up to 1536 pixels
constexpr int COLUMN_WIDTH = 8; // columns of a block of column sums: a 32-byte sector of row sums
constexpr int COLUMN_ITEMS = 8; // rows of a thread in a round
constexpr int SPECTRUM_ITEMS = 4;
constexpr long long TIMED_POINTS = 1 << 19; // frames of fewer take the smallest FFT without timing others
constexpr int REFINE_BLOCKS_PER_SM = MATCH_TUNE_REFINE_BLOCKS;
constexpr int CANDIDATES = MATCH_TUNE_CANDIDATES; // listed; where there are more, they are searched for tile by tile
constexpr int CANDIDATE_TILES = 256;
} // namespace tuning

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int TILE_COLS = 64, TILE_ROWS = 32; // of the score map
constexpr unsigned FULL_WARP = 0xffffffffu;
constexpr cufftHandle NO_PLAN = -1;

struct Job {
    MatchModel model;
    const MatchTemplate *sums;
    const unsigned char *templates, *mask; // rows of template_step bytes, zeros behind the last element
    size_t template_step, template_bytes;
    const void *frame;
    size_t frame_step;
    // FFT
    int fft_rows, fft_cols;
    float *planes;
    cufftComplex *spectra, *products;
    const cufftComplex *template_spectra;
    const float *correlations;
    // Window sums: up to four quantities, first the channels, then the squares
    int quantities;
    void *row_sums, *column_sums;
    size_t row_sums_step; // elements
    double *row_energy, *energy;
    MatchError *errors; // of each template in this frame
    // Scores
    float *const *scores; // of each template; rows of scores_step bytes
    const size_t *scores_step;
    MatchRange *ranges, *tiles;
    int tiles_across, tiles_down;
    // Refinement
    void *partial;
    unsigned *tickets;
    cusMatch *results;
    int round, refine_blocks;
    double constant; // masked: what the correlation lacks, the same at every position and template (SQDIFF)
};

// Exact sums of 8-bit images are integers: 32 bits along a row (a difference of two, modulo 2^32, is right as long as the
// window's own sum fits), 64 down the columns. Floats are summed in double.
template<class T>
struct SumTypes {
    using Row = uint32_t;
    using Column = long long;
};
template<>
struct SumTypes<float> {
    using Row = double;
    using Column = double;
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

// Moves the frame in, planes and row sums out, once each. One block a row; a thread takes ROW_ITEMS neighbouring pixels, so
// that floats and sums leave in 16-byte stores.
template<class T, int CN>
__global__ void __launch_bounds__(tuning::ROW_THREADS, CN == 1 && sizeof(T) == 1 ? 8 : 4) rowsKernel(const Job job) {
    using Row = typename SumTypes<T>::Row;
    using Scan = cub::BlockScan<Row, tuning::ROW_THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    using Reduce = cub::BlockReduce<double, tuning::ROW_THREADS>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } shared;
    constexpr int ITEMS = tuning::ROW_ITEMS;
    const MatchModel &m = job.model;
    const int y = blockIdx.x;
    const bool filled = y < m.rows;
    const T *row = cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, filled ? y : 0);
    const size_t end = filled ? static_cast<size_t>(m.cols) * CN : 0;
    const int width = job.planes ? job.fft_cols : m.cols;
    Row before[4] = {0, 0, 0, 0};
    double energy[MATCH_MAX_PLANES] = {0, 0, 0, 0};
    for (int x0 = 0; x0 < width; x0 += tuning::ROW_THREADS * ITEMS) {
        const int x = x0 + static_cast<int>(threadIdx.x) * ITEMS;
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
            }
            square[i] = inside ? sum - static_cast<float>(m.square_shift) : 0.0f;
        }
        if (job.planes) {
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
            continue;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
            for (int c = 0; c < CN; ++c)
                energy[c] += static_cast<double>(v[i * CN + c]) * v[i * CN + c];
            if (m.planes > CN)
                energy[CN] += static_cast<double>(square[i]) * square[i];
        }
        int q = 0;
        const auto scan = [&](Row(&values)[ITEMS], Row &carry) {
            Row total;
            Scan(shared.scan).InclusiveSum(values, values, total);
            __syncthreads();
            Row *out = static_cast<Row *>(job.row_sums) + (static_cast<size_t>(q) * m.rows + y) * job.row_sums_step + x;
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                values[i] += carry;
#pragma unroll
            for (int i = 0; i < ITEMS; i += 4) {
                if (x + i >= m.cols)
                    break;
                if constexpr (sizeof(Row) == 4) {
                    *reinterpret_cast<uint4 *>(out + i) =
                        make_uint4(values[i], values[i + 1], values[i + 2], values[i + 3]);
                } else {
                    reinterpret_cast<double2 *>(out + i)[0] = make_double2(values[i], values[i + 1]);
                    reinterpret_cast<double2 *>(out + i)[1] = make_double2(values[i + 2], values[i + 3]);
                }
            }
            carry += total;
            ++q;
        };
        // Shifted bytes are whole numbers; negative ones wrap around, which the differences undo.
        const auto whole = [](float value) {
            if constexpr (sizeof(Row) == 4)
                return static_cast<Row>(static_cast<int>(value));
            else
                return static_cast<Row>(value);
        };
        if (m.needs_s1) {
#pragma unroll
            for (int c = 0; c < CN; ++c) {
                Row values[ITEMS];
#pragma unroll
                for (int i = 0; i < ITEMS; ++i)
                    values[i] = whole(v[i * CN + c]);
                scan(values, before[c]);
            }
        }
        if (m.needs_s2) {
            Row values[ITEMS];
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                values[i] = 0;
#pragma unroll
                for (int c = 0; c < CN; ++c)
                    values[i] += whole(v[i * CN + c]) * whole(v[i * CN + c]);
            }
            scan(values, before[3]);
        }
    }
    if (!filled || m.error == 0)
        return;
#pragma unroll
    for (int p = 0; p < CN + 1; ++p) {
        if (p >= m.planes)
            break;
        const double sum = Reduce(shared.reduce).Sum(energy[p]);
        __syncthreads();
        if (threadIdx.x == 0)
            job.row_energy[static_cast<size_t>(p) * m.rows + y] = sum;
    }
}

// ---- Columns
// ------------------------------------------------------------------------------------------------------------

// Prefix sums down the columns: column_sums[q][y][x] = sum of the row sums of windows at x over rows 0 .. y - 1. A block
// goes down COLUMN_WIDTH columns, a round at a time: every thread has COLUMN_ITEMS rows of one column in registers, learns
// what the strips above it add up to, and writes.
template<class T>
__device__ void columnSums(const Job &job, int block) {
    using Row = typename SumTypes<T>::Row;
    using Column = typename SumTypes<T>::Column;
    constexpr int WIDTH = tuning::COLUMN_WIDTH, ITEMS = tuning::COLUMN_ITEMS, STRIPS = THREADS / WIDTH;
    __shared__ Column warps[2][WARPS][WIDTH];
    const MatchModel &m = job.model;
    const int across = cusi::divUp(m.ocols, WIDTH), q = block / across;
    const int column = threadIdx.x % WIDTH, strip = threadIdx.x / WIDTH, warp = threadIdx.x / 32;
    const int x = min(block % across * WIDTH + column, m.ocols - 1);
    const bool inside = block % across * WIDTH + column < m.ocols;
    const bool sign = m.needs_s1 && q < m.channels; // sums of shifted pixels may be negative; squares use all 32 bits
    const Row *in = static_cast<const Row *>(job.row_sums) + static_cast<size_t>(q) * m.rows * job.row_sums_step + x;
    Column *out = static_cast<Column *>(job.column_sums) + static_cast<size_t>(q) * (m.rows + 1) * m.ocols + x;
    if (inside && strip == 0)
        out[0] = 0;
    Row right[ITEMS], left[ITEMS];
    const auto load = [&](int y) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Row *row = in + static_cast<size_t>(min(y + i, m.rows - 1)) * job.row_sums_step;
            right[i] = row[m.w - 1];
            left[i] = x ? row[-1] : Row(0);
        }
    };
    load(strip * ITEMS);
    Column above = 0;
    for (int y0 = 0, round = 0; y0 < m.rows; y0 += STRIPS * ITEMS, ++round) {
        const int y = y0 + strip * ITEMS;
        Column sums[ITEMS], sum = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const Row window = right[i] - left[i];
            if (y + i < m.rows) {
                if constexpr (sizeof(Row) == 4)
                    sum += sign ? static_cast<Column>(static_cast<int>(window)) : static_cast<Column>(window);
                else
                    sum += window;
            }
            sums[i] = sum;
        }
        load(y + STRIPS * ITEMS); // the next round's, while this one waits for its neighbours
        // Strips of a warp, then warps.
        Column before = sum;
#pragma unroll
        for (int d = WIDTH; d < 32; d *= 2) {
            const Column other = __shfl_up_sync(FULL_WARP, before, d);
            if (threadIdx.x % 32 >= d)
                before += other;
        }
        if (threadIdx.x % 32 >= 32 - WIDTH)
            warps[round % 2][warp][column] = before;
        before -= sum;
        __syncthreads();
        Column all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const Column total = warps[round % 2][w][column];
            before += w < warp ? total : 0;
            all += total;
        }
        before += above;
        above += all;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
            if (inside && y + i < m.rows)
                out[static_cast<size_t>(y + i + 1) * m.ocols] = before + sums[i];
    }
}

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

// The frame's energy from its rows', in an order that does not vary.
__device__ void addEnergy(const Job &job) {
    using Reduce = cub::BlockReduce<double, THREADS>;
    __shared__ typename Reduce::TempStorage shared;
    for (int p = 0; p < job.model.planes; ++p) {
        double sum = 0;
        for (int y = threadIdx.x; y < job.model.rows; y += THREADS)
            sum += job.row_energy[static_cast<size_t>(p) * job.model.rows + y];
        sum = Reduce(shared).Sum(sum);
        __syncthreads();
        if (threadIdx.x == 0)
            job.energy[p] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < job.model.count; k += THREADS)
        job.errors[k] = match_error(&job.model, &job.sums[k], job.energy);
}

template<class T>
__global__ void __launch_bounds__(THREADS) columnsKernel(const Job job, int column_blocks, int energy_blocks) {
    const int block = blockIdx.x;
    if (block < column_blocks)
        columnSums<T>(job, block);
    else if (block < column_blocks + energy_blocks)
        addEnergy(job);
    else if (job.model.planes == 1)
        multiplySpectra<1>(job, block - column_blocks - energy_blocks, gridDim.x - column_blocks - energy_blocks);
    else
        multiplySpectra<0>(job, block - column_blocks - energy_blocks, gridDim.x - column_blocks - energy_blocks);
}

// ---- Scores
// -------------------------------------------------------------------------------------------------------------

template<class T, bool SQUARES_ONLY = false>
__device__ void windowAt(const Job &job, int y, int x, double *s1, double &s2) {
    using Column = typename SumTypes<T>::Column;
    const MatchModel &m = job.model;
    const size_t plane = static_cast<size_t>(m.rows + 1) * m.ocols;
    const Column *top = static_cast<const Column *>(job.column_sums) + static_cast<size_t>(y) * m.ocols + x;
    const Column *bottom = top + static_cast<size_t>(m.h) * m.ocols;
    int q = 0;
    if constexpr (SQUARES_ONLY) {
        s2 = static_cast<double>(bottom[0] - top[0]);
        return;
    }
    if (m.needs_s1)
        for (; q < m.channels; ++q)
            s1[q] = static_cast<double>(bottom[q * plane] - top[q * plane]);
    s2 = m.needs_s2 ? static_cast<double>(bottom[q * plane] - top[q * plane]) : 0;
}

// Least lower and upper ends of a tile, to thread 0.
__device__ MatchRange tileRange(MatchRange mine) {
    __shared__ MatchRange warps[WARPS];
    for (int d = 16; d; d /= 2) {
        mine.lower = fminf(mine.lower, __shfl_down_sync(FULL_WARP, mine.lower, d));
        mine.upper = fminf(mine.upper, __shfl_down_sync(FULL_WARP, mine.upper, d));
    }
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; ++w) {
            mine.lower = fminf(mine.lower, warps[w].lower);
            mine.upper = fminf(mine.upper, warps[w].upper);
        }
    return mine;
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
                    const unsigned char *keep = job.mask ? job.mask + static_cast<size_t>(j) * row : nullptr;
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

enum class From { FFT, BYTES, PLAIN };

// One block a tile and template.
// SQUARED: a SQDIFF without a mask, whose range is found without the questions that match_range asks.
template<class T, int CN, From FROM, bool SQUARED>
__global__ void __launch_bounds__(THREADS) scoresKernel(const Job job) {
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
    const auto rowOfScore = [&](int i) { // of the FFT, neighbouring threads take neighbouring columns
        return y0 + (FROM == From::FFT ? i * 4 + static_cast<int>(threadIdx.x) / TILE_COLS
                                       : static_cast<int>(threadIdx.x) / 16 * 2 + i / 4);
    };
    const auto columnOfScore = [&](int i) {
        return x0 + static_cast<int>(FROM == From::FFT ? threadIdx.x % TILE_COLS : threadIdx.x % 16 * 4 + i % 4);
    };
    const float *correlation = job.correlations + static_cast<size_t>(k) * job.fft_rows * job.fft_cols;
    const double constant = FROM == From::FFT && m.masked ? maskedConstant(job, k) : 0;
    // Everything is loaded before anything is stored, so that the loads do not wait for one another.
    double c[8], s1[8][CN], s2[8];
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
    const double t2 = t.t2, margin2 = 2 * error.correlation + error.window;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int y = rowOfScore(i), x = columnOfScore(i);
        if (y >= m.orows || x >= m.ocols)
            continue;
        float score;
        MatchRange range;
        if constexpr (SQUARED) {
            const double value = fmax(s2[i] - 2 * c[i] + t2, 0.0), margin = margin2 + value * 0x1p-22;
            range = {static_cast<float>(value - margin), static_cast<float>(value + margin)};
            score = static_cast<float>(value);
        } else {
            range = match_range(&m, &t, c[i], error, s1[i], s2[i], &score);
        }
        if (!usable) {
            range = {INFINITY, INFINITY};
            score = NAN;
        }
        job.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x] = range;
        if (job.scores)
            cusi::rowOf(job.scores[k], job.scores_step[k], y)[x] = score;
        least.lower = fminf(least.lower, range.lower);
        least.upper = fminf(least.upper, range.upper);
    }
    least = tileRange(least);
    if (threadIdx.x == 0)
        job.tiles[(static_cast<size_t>(k) * job.tiles_down + tile_y) * job.tiles_across + tile_x] = least;
}

// Takes the neighbourhood of the match of the round before out of the map.
__global__ void __launch_bounds__(THREADS) suppressKernel(const Job job) {
    const MatchModel &m = job.model;
    const int k = blockIdx.z, x0 = blockIdx.x * TILE_COLS, y0 = blockIdx.y * TILE_ROWS;
    const cusMatch match = job.results[static_cast<size_t>(k) * m.max_matches + job.round - 1];
    const long long d = m.min_distance;
    if (match.x < 0 || x0 >= match.x + d || x0 + TILE_COLS <= match.x - d + 1 || y0 >= match.y + d ||
        y0 + TILE_ROWS <= match.y - d + 1)
        return;
    MatchRange least = {INFINITY, INFINITY};
    for (int i = threadIdx.x; i < TILE_COLS * TILE_ROWS; i += THREADS) {
        const int y = y0 + i / TILE_COLS, x = x0 + i % TILE_COLS;
        if (y >= m.orows || x >= m.ocols)
            continue;
        MatchRange &range = job.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x];
        if (abs(x - match.x) < d && abs(y - match.y) < d)
            range = {INFINITY, INFINITY};
        least.lower = fminf(least.lower, range.lower);
        least.upper = fminf(least.upper, range.upper);
    }
    least = tileRange(least);
    if (threadIdx.x == 0)
        job.tiles[(static_cast<size_t>(k) * job.tiles_down + blockIdx.y) * job.tiles_across + blockIdx.x] = least;
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

// Four bytes at any address; whole words only where they lie inside the row, `left` bytes long.
__device__ inline uint32_t fourBytes(const unsigned char *p, int left) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (left >= 8) {
        const uint32_t *words = reinterpret_cast<const uint32_t *>(address & ~uintptr_t{3});
        const unsigned shift = (address & 3) * 8;
        return shift ? __funnelshift_r(words[0], words[1], shift) : words[0];
    }
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i)
        if (i < left)
            word |= static_cast<uint32_t>(p[i]) << (8 * i);
    return word;
}

// Rows j0 .. j1 - 1 of the window at (y, x), elements `first`, `first` + `stride`, ... of them. fourBytes may touch up to three
// bytes before the window, which lie in the same aligned word, and so in the frame's memory.
template<class T>
__device__ Partial<T> windowPart(const Job &job, int k, int y, int x, int j0, int j1, int first, int stride) {
    const MatchModel &m = job.model;
    Partial<T> part;
    const int row = m.w * m.channels;
    const int units = sizeof(T) == 1 ? cusi::divUp(row, 4) : row;
    int j = j0 + first / units, unit = first % units;
    const int down = stride / units, along = stride % units;
    while (j < j1) {
        const T *a =
            cusi::rowOf(static_cast<const T *>(job.frame), job.frame_step, y + j) + static_cast<size_t>(x) * m.channels;
        const unsigned char *b = job.templates + k * job.template_bytes + j * job.template_step;
        if constexpr (sizeof(T) == 1) {
            uint32_t pixels = fourBytes(a + 4 * unit, row - 4 * unit);
            const uint32_t templ = reinterpret_cast<const uint32_t *>(b)[unit];
            if (job.mask)
                pixels &= fourBytes(job.mask + static_cast<size_t>(j) * row + 4 * unit, row - 4 * unit);
            if (m.method == CUS_MATCH_SQDIFF) {
                const uint32_t d = __vabsdiffu4(pixels, templ);
                part.sum += __dp4a(d, d, 0u);
            } else {
                part.sum += __dp4a(pixels, templ, 0u);
            }
        } else if (!job.mask || job.mask[static_cast<size_t>(j) * row + unit]) {
            const double pixel = a[unit], templ = reinterpret_cast<const float *>(b)[unit];
            const double sa = pixel - m.shift[0], sb = templ - m.shift[0];
            part.ssd += (pixel - templ) * (pixel - templ);
            part.c += m.masked ? pixel * templ : sa * sb;
            part.s1 += sa;
            part.s2 += sa * sa;
        }
        j += down;
        unit += along;
        if (unit >= units) {
            unit -= units;
            ++j;
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

// Appends value[i] of every thread where bit i of `votes` is set to the shared list, in the same order in every block; false when
// they do not fit.
__device__ bool append(unsigned *list, int capacity, int *count, unsigned votes, const unsigned (&value)[8]) {
    __shared__ int ends[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = __popc(votes);
    int end = mine;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(FULL_WARP, end, d);
        end += lane >= d ? other : 0;
    }
    if (lane == 31)
        ends[warp] = end;
    __syncthreads();
    int at = *count + end - mine, total = *count;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        at += w < warp ? ends[w] : 0;
        total += ends[w];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (votes >> i & 1) {
            if (at < capacity)
                list[at] = value[i];
            ++at;
        }
    __syncthreads();
    if (threadIdx.x == 0)
        *count = total;
    __syncthreads();
    return total <= capacity;
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
__global__ void __launch_bounds__(THREADS) refineKernel(const Job job) {
    __shared__ unsigned tiles[tuning::CANDIDATE_TILES], candidates[tuning::CANDIDATES];
    __shared__ int tile_count, candidate_count;
    __shared__ float threshold;
    __shared__ bool last;
    const MatchModel &m = job.model;
    const int k = blockIdx.y, blocks = gridDim.x, tile_total = job.tiles_across * job.tiles_down;
    const MatchRange *tile_ranges = job.tiles + static_cast<size_t>(k) * tile_total;
    const MatchRange *ranges = job.ranges + static_cast<size_t>(k) * m.orows * m.ocols;
    const Best nothing = {INFINITY, ~0ull};

    // The first 8 tiles of a thread stay in registers between the two questions.
    constexpr int KEPT = 8 * THREADS;
    MatchRange kept[8];
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int tile = i * THREADS + threadIdx.x;
        kept[i] = tile < tile_total ? tile_ranges[tile] : MatchRange{INFINITY, INFINITY};
        least = fminf(least, kept[i].upper);
    }
    for (int i = KEPT + threadIdx.x; i < tile_total; i += THREADS)
        least = fminf(least, tile_ranges[i].upper);
    const MatchRange all = tileRange({least, least});
    if (threadIdx.x == 0) {
        threshold = all.upper;
        tile_count = candidate_count = 0;
    }
    __syncthreads();

    bool listed = true;
    for (int i0 = 0; listed && i0 < tile_total; i0 += KEPT) {
        unsigned votes = 0, value[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            value[i] = i0 + i * THREADS + threadIdx.x;
            if (i0 && value[i] < static_cast<unsigned>(tile_total))
                kept[i] = tile_ranges[value[i]];
            votes |=
                (value[i] < static_cast<unsigned>(tile_total) && kept[i].lower <= threshold && threshold < INFINITY ? 1u
                                                                                                                    : 0u)
                << i;
        }
        listed = append(tiles, tuning::CANDIDATE_TILES, &tile_count, votes, value);
    }
    const int tiles_found = tile_count;
    for (int tile = 0; listed && tile < tiles_found; ++tile) {
        const int y0 = tiles[tile] / job.tiles_across * TILE_ROWS, x0 = tiles[tile] % job.tiles_across * TILE_COLS;
        unsigned votes = 0, value[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int y = y0 + i * 4 + threadIdx.x / TILE_COLS, x = x0 + threadIdx.x % TILE_COLS;
            value[i] = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
            votes |= (y < m.orows && x < m.ocols && ranges[value[i]].lower <= threshold ? 1u : 0u) << i;
        }
        listed = append(candidates, tuning::CANDIDATES, &candidate_count, votes, value);
    }

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
            const int j0 = static_cast<int>(static_cast<long long>(m.h) * slice / slices);
            const int j1 = static_cast<int>(static_cast<long long>(m.h) * (slice + 1) / slices);
            const Partial<T> sum = blockSum(windowPart<T>(job, k, y, x, j0, j1, threadIdx.x, THREADS));
            if (threadIdx.x == 0)
                partial[item] = sum;
        }
    } else {
        const double floor = match_smallestIsBest(m.method) ? 0 : (m.method & 1) ? -1 : -INFINITY;
        const int lane = threadIdx.x % 32;
        Best best = nothing;
        for (long long row = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32;
             row < static_cast<long long>(tile_total) * TILE_ROWS; row += static_cast<long long>(blocks) * WARPS) {
            const int tile = static_cast<int>(row / TILE_ROWS);
            const int y = tile / job.tiles_across * TILE_ROWS + static_cast<int>(row % TILE_ROWS);
            if (y >= m.orows || !(tile_ranges[tile].lower <= threshold))
                continue;
            for (int x0 = tile % job.tiles_across * TILE_COLS, half = 0; half < 2; ++half, x0 += 32) {
                const unsigned long long start = static_cast<unsigned long long>(y) * m.ocols + x0;
                const float lower = x0 + lane < m.ocols ? ranges[start + lane].lower : INFINITY;
                for (unsigned votes = __ballot_sync(FULL_WARP, lower <= threshold && lower < INFINITY); votes;
                     votes &= votes - 1) {
                    const int at = __ffs(votes) - 1;
                    if (__shfl_sync(FULL_WARP, lower, at) > best.cost || (best.cost <= floor && best.position < start + at))
                        continue;
                    Partial<T> sum = windowPart<T>(job, k, y, x0 + at, 0, m.h, lane, 32);
                    for (int d = 16; d; d /= 2)
                        sum.down(d);
                    Best here = {exactCost<T>(job, k, y, x0 + at, sum), start + at};
                    here.cost = __shfl_sync(FULL_WARP, here.cost, 0);
                    if (isBetter(here, best))
                        best = here;
                }
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
        for (int i = threadIdx.x / 32; i < found; i += WARPS) {
            Partial<T> sum;
            for (int s = threadIdx.x % 32; s < slices; s += 32)
                sum.add(partial[static_cast<size_t>(i) * slices + s]);
            for (int d = 16; d; d /= 2)
                sum.down(d);
            if (threadIdx.x % 32)
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

// ---- Colour
// -------------------------------------------------------------------------------------------------------------

struct HsvTables {
    int saturation[256], hue[256];
    __device__ void make() {
        for (int i = threadIdx.x; i < 256; i += THREADS) {
            saturation[i] = hsv_saturationScale(i);
            hue[i] = hsv_hueScale(i);
        }
        __syncthreads();
    }
};

__device__ unsigned blockCount(unsigned mine) {
    __shared__ unsigned warps[WARPS];
    for (int d = 16; d; d /= 2)
        mine += __shfl_down_sync(FULL_WARP, mine, d);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < WARPS; ++w)
            mine += warps[w];
    return mine;
}

struct Picture {
    const unsigned char *data;
    size_t step;
    int rows, cols;
};

// Pixels inside the range in this block's share of the picture; a thread takes four neighbours at a time.
__device__ unsigned countShare(const Picture &src, const cusHsvRange &range, const HsvTables &tables, unsigned char *mask,
                               size_t mask_step, int block, int blocks) {
    unsigned count = 0;
    const int across = cusi::divUp(src.cols, 4);
    const unsigned long long quads = static_cast<unsigned long long>(across) * src.rows;
    for (unsigned long long i = static_cast<unsigned long long>(block) * THREADS + threadIdx.x; i < quads;
         i += static_cast<unsigned long long>(blocks) * THREADS) {
        const size_t y = i / across;
        const int x = static_cast<int>(i - y * across) * 4, n = min(4, src.cols - x);
        const unsigned char *p = src.data + y * src.step + static_cast<size_t>(x) * 3;
        uint32_t w[3] = {0, 0, 0};
        if (n == 4 && reinterpret_cast<uintptr_t>(p) % 4 == 0) {
            for (int k = 0; k < 3; ++k)
                w[k] = reinterpret_cast<const uint32_t *>(p)[k];
        } else {
#pragma unroll
            for (int k = 0; k < 12; ++k)
                if (k < 3 * n)
                    w[k / 4] |= static_cast<uint32_t>(p[k]) << (k % 4 * 8);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const auto byte = [&](int b) { return static_cast<int>(w[b / 4] >> (b % 4 * 8) & 255); };
            const int in =
                k < n && hsv_inside(byte(3 * k), byte(3 * k + 1), byte(3 * k + 2), tables.saturation, tables.hue, &range);
            count += in;
            if (mask && k < n)
                mask[y * mask_step + x + k] = in ? 255 : 0;
        }
    }
    return count;
}

__global__ void __launch_bounds__(THREADS)
    hsvKernel(const Picture src, const cusHsvRange range, unsigned *count, unsigned char *mask, size_t mask_step) {
    __shared__ HsvTables tables;
    tables.make();
    const unsigned sum = blockCount(countShare(src, range, tables, mask, mask_step, blockIdx.x, gridDim.x));
    if (threadIdx.x == 0 && sum)
        atomicAdd(count, sum);
}

// Blocks along x share one match's window; counts and tickets are left at zero.
__global__ void __launch_bounds__(THREADS) inspectKernel(const Picture frame, const cusHsvRange range, double wanted, int w,
                                                         int h, cusMatch *matches, unsigned *counts, unsigned *tickets) {
    __shared__ HsvTables tables;
    cusMatch &match = matches[blockIdx.y];
    if (match.x < 0)
        return;
    tables.make();
    const Picture window = {frame.data + match.y * frame.step + static_cast<size_t>(match.x) * 3, frame.step, h, w};
    const unsigned sum = blockCount(countShare(window, range, tables, nullptr, 0, blockIdx.x, gridDim.x));
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

// Template planes as floats, through the forward plan, scaled by 1 / points.
cusStatus prepareSpectra(MatchCuda *cuda, const void *templates, const uint8_t *mask, cufftComplex *out,
                         cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    Job &job = cuda->job;
    const MatchModel &m = job.model;
    const size_t plane = static_cast<size_t>(job.fft_rows) * job.fft_cols;
    const size_t spectrum = static_cast<size_t>(job.fft_rows) * (job.fft_cols / 2 + 1);
    const size_t elements = static_cast<size_t>(m.w) * m.h * m.channels;
    const double scale = 1.0 / static_cast<double>(plane);
    std::vector<float> host(static_cast<size_t>(m.w) * m.h * m.planes);
    for (int k = 0; k < m.count; ++k) {
        for (int p = 0; p < m.planes; ++p)
            for (size_t pixel = 0; pixel < static_cast<size_t>(m.w) * m.h; ++pixel) {
                const size_t i = pixel * m.channels + (p < m.channels ? p : 0), at = k * elements + i;
                double value =
                    m.integer ? static_cast<const uint8_t *>(templates)[at] : static_cast<const float *>(templates)[at];
                if (p == m.channels)
                    value = 1;
                else if (!m.masked)
                    value -= m.shift[p];
                else if (m.method == CUS_MATCH_SQDIFF)
                    value = -2 * (value - m.shift[p]);
                host[p * static_cast<size_t>(m.w) * m.h + pixel] =
                    mask && !mask[i] ? 0.0f : static_cast<float>(value * scale);
            }
        CUSI_CUDA(f, cudaMemsetAsync(job.planes, 0, plane * m.planes * sizeof(float), stream));
        for (int p = 0; p < m.planes; ++p)
            CUSI_CUDA(f, cudaMemcpy2DAsync(job.planes + p * plane, job.fft_cols * sizeof(float),
                                           host.data() + static_cast<size_t>(p) * m.w * m.h, m.w * sizeof(float),
                                           m.w * sizeof(float), m.h, cudaMemcpyHostToDevice, stream));
        MATCH_FFT(f, cufftSetStream(cuda->forward, stream));
        MATCH_FFT(f, cufftExecR2C(cuda->forward, job.planes, out + static_cast<size_t>(k) * m.planes * spectrum));
        CUSI_CUDA(f, cudaStreamSynchronize(stream));
    }
    return CUS_OK;
}

cusStatus prepare(cusMatcher *matcher, MatchCuda *cuda, const void *templates, const uint8_t *mask,
                  const MatchTemplate *sums, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    MatchModel &m = matcher->model;
    Job &job = cuda->job;
    const bool fft = matcher->path == CUS_MATCH_FFT;
    const size_t count = m.count, elements = static_cast<size_t>(m.w) * m.h * m.channels;
    const size_t row_bytes = static_cast<size_t>(m.w) * cusTypeSize(matcher->type);
    CUSI_CUDA(f, cusi::multiprocessors(&cuda->multiprocessors));
    if (fft) {
        CUSI_REQUIRE(m.rows < (1 << 28) && m.cols < (1 << 28), CUS_ERROR_SIZE,
                     "%s: a frame of %d x %d is too long for the FFT", f, m.rows, m.cols);
        chooseFftSize(m, &job.fft_rows, &job.fft_cols, stream);
        m.error = MATCH_FFT_UNITS * log2(static_cast<double>(job.fft_rows) * job.fft_cols) * 0x1p-24;
    } else {
        m.error = m.integer ? 0 : 0x1p-52 * m.n;
    }
    job.model = m;
    job.quantities = (m.needs_s1 ? m.channels : 0) + (m.needs_s2 ? 1 : 0);
    job.template_step = cusi::divUp<size_t>(row_bytes, 16) * 16;
    job.template_bytes = job.template_step * m.h;
    job.row_sums_step = cusi::divUp(m.cols, 4) * size_t{4};
    job.tiles_across = cusi::divUp(m.ocols, TILE_COLS);
    job.tiles_down = cusi::divUp(m.orows, TILE_ROWS);
    job.refine_blocks = tuning::REFINE_BLOCKS_PER_SM * cuda->multiprocessors;
    for (size_t i = 0; mask && i < static_cast<size_t>(m.n); ++i)
        job.constant += mask[i * m.channels] ? m.square_shift : 0;

    unsigned char *device_templates = nullptr, *device_mask = nullptr;
    MatchTemplate *device_sums = nullptr;
    CUS_TRY(allocate(cuda, &device_templates, job.template_bytes * count, stream));
    CUS_TRY(allocate(cuda, &device_sums, count, stream));
    CUS_TRY(allocate(cuda, &job.row_energy, static_cast<size_t>(m.planes) * m.rows, stream));
    CUS_TRY(allocate(cuda, &job.energy, MATCH_MAX_PLANES, stream));
    CUS_TRY(allocate(cuda, &job.errors, count, stream));
    const size_t sum_bytes = m.integer ? sizeof(uint32_t) : sizeof(double);
    const size_t quantities = job.quantities;
    CUS_TRY(allocate(cuda, reinterpret_cast<char **>(&job.row_sums), quantities * m.rows * job.row_sums_step * sum_bytes,
                     stream));
    CUS_TRY(
        allocate(cuda, reinterpret_cast<double **>(&job.column_sums), quantities * (m.rows + size_t{1}) * m.ocols, stream));
    CUS_TRY(allocate(cuda, &job.ranges, count * m.orows * m.ocols, stream));
    CUS_TRY(allocate(cuda, &job.tiles, count * job.tiles_across * job.tiles_down, stream));
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
        CUS_TRY(allocate(cuda, &device_mask, elements, stream));
        CUSI_CUDA(f, cudaMemcpyAsync(device_mask, mask, elements, cudaMemcpyHostToDevice, stream));
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
    if (fft) {
        const size_t plane = static_cast<size_t>(job.fft_rows) * job.fft_cols;
        const size_t spectrum = static_cast<size_t>(job.fft_rows) * (job.fft_cols / 2 + 1);
        cufftComplex *template_spectra = nullptr;
        float *correlations = nullptr;
        CUS_TRY(allocate(cuda, &job.planes, plane * m.planes, stream));
        CUS_TRY(allocate(cuda, &job.spectra, spectrum * m.planes, stream));
        CUS_TRY(allocate(cuda, &job.products, spectrum * count, stream));
        CUS_TRY(allocate(cuda, &template_spectra, spectrum * m.planes * count, stream));
        CUS_TRY(allocate(cuda, &correlations, plane * count, stream));
        CUS_TRY(makePlans(cuda, stream));
        CUS_TRY(prepareSpectra(cuda, templates, mask, template_spectra, stream));
        job.template_spectra = template_spectra;
        job.correlations = correlations;
    }
    CUSI_CUDA(f, cudaStreamSynchronize(stream));
    return CUS_OK;
}

template<class T, int CN>
cusStatus runTyped(cusMatcher *matcher, const Job &job, bool dot_products, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const MatchModel &m = job.model;
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    const bool fft = matcher->path == CUS_MATCH_FFT;
    const bool energy = m.error > 0;
    if (fft || job.quantities || energy)
        CUS_TRY(cusi::launch(f, rowsKernel<T, CN>, fft ? job.fft_rows : m.rows, tuning::ROW_THREADS, 0, stream, job));
    if (fft) {
        MATCH_FFT(f, cufftSetStream(cuda->forward, stream));
        MATCH_FFT(f, cufftExecR2C(cuda->forward, job.planes, job.spectra));
    }
    const int column_blocks = job.quantities * cusi::divUp(m.ocols, tuning::COLUMN_WIDTH), energy_blocks = energy ? 1 : 0;
    const long long spectrum = static_cast<long long>(job.fft_rows) * (job.fft_cols / 2 + 1);
    const int spectrum_blocks =
        fft ? static_cast<int>(std::min<long long>(
                  16LL * cuda->multiprocessors,
                  cusi::divUp<long long>(spectrum, m.planes == 1 ? THREADS * tuning::SPECTRUM_ITEMS : THREADS)))
            : 0;
    if (column_blocks + energy_blocks + spectrum_blocks)
        CUS_TRY(cusi::launch(f, columnsKernel<T>, column_blocks + energy_blocks + spectrum_blocks, THREADS, 0, stream, job,
                             column_blocks, energy_blocks));
    if (fft) {
        MATCH_FFT(f, cufftSetStream(cuda->inverse, stream));
        MATCH_FFT(f, cufftExecC2R(cuda->inverse, job.products, const_cast<float *>(job.correlations)));
    }
    const dim3 tiles(job.tiles_across, job.tiles_down, m.count);
    const bool squared = m.method == CUS_MATCH_SQDIFF && !m.masked;
    if (fft)
        CUS_TRY(cusi::launch(f, squared ? scoresKernel<T, CN, From::FFT, true> : scoresKernel<T, CN, From::FFT, false>,
                             tiles, THREADS, 0, stream, job));
    else if (dot_products)
        CUS_TRY(cusi::launch(
            f, squared ? scoresKernel<uint8_t, CN, From::BYTES, true> : scoresKernel<uint8_t, CN, From::BYTES, false>,
            tiles, THREADS, 0, stream, job));
    else
        CUS_TRY(cusi::launch(f, scoresKernel<T, CN, From::PLAIN, false>, tiles, THREADS, 0, stream, job));
    Job round = job;
    for (round.round = 0; round.round < m.max_matches; ++round.round) {
        if (round.round)
            CUS_TRY(cusi::launch(f, suppressKernel, tiles, THREADS, 0, stream, round));
        CUS_TRY(cusi::launch(f, refineKernel<T>, dim3(job.refine_blocks, m.count), THREADS, 0, stream, round));
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

// Measured on one H200, microseconds of the stages that differ: 640x480 16x16 direct 32, FFT 45, 32x32 44 and 45; 1920x1080
// 32x32 131 and 147, 48x48 204 and 145; 3840x2160 32x32 483 and 467; three channels at 1920x1080 16x16 115 and 218, 32x32 283
// and 220. So the two cross near 1024 bytes of template, or three times that in colour.
cusMatchPath match_cuda_path(const MatchModel *m) {
    const bool dot_products = m->integer && !m->masked;
    return m->n <= (dot_products ? 1024 : 64) ? CUS_MATCH_DIRECT : CUS_MATCH_FFT;
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

cusStatus match_cuda_hsvCount(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream) {
    const char *f = "cusHsvCount";
    int multiprocessors = 0;
    CUSI_CUDA(f, cusi::multiprocessors(&multiprocessors));
    const long long quads = cusi::divUp(src->cols, 4) * static_cast<long long>(src->rows);
    const unsigned blocks =
        static_cast<unsigned>(std::min<long long>(8LL * multiprocessors, cusi::divUp<long long>(quads, THREADS)));
    CUSI_CUDA(f, cudaMemsetAsync(count->data, 0, sizeof(unsigned), stream));
    const Picture picture = {static_cast<const unsigned char *>(src->data), src->step, src->rows, src->cols};
    return cusi::launch(f, hsvKernel, blocks, THREADS, 0, stream, picture, *range, static_cast<unsigned *>(count->data),
                        mask ? static_cast<unsigned char *>(mask->data) : nullptr, mask ? mask->step : 0);
}

cusStatus match_cuda_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream) {
    const MatchModel &m = matcher->model;
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    const unsigned matches = static_cast<unsigned>(m.count) * m.max_matches;
    const long long quads = cusi::divUp(m.w, 4) * static_cast<long long>(m.h);
    const unsigned blocks =
        static_cast<unsigned>(std::min<long long>(2LL * cuda->multiprocessors, cusi::divUp<long long>(quads, 2 * THREADS)));
    const Picture picture = {static_cast<const unsigned char *>(frame->data), frame->step, frame->rows, frame->cols};
    cusMatch *results = static_cast<cusMatch *>(matcher->results.data);
    // Grids have at most 65535 blocks along y.
    for (unsigned first = 0; first < matches; first += 65535)
        CUS_TRY(cusi::launch("cusMatcherInspect", inspectKernel, dim3(blocks, std::min(65535u, matches - first)), THREADS,
                             0, stream, picture, *range, min_fill * m.n, m.w, m.h, results + first,
                             cuda->inspect_counts + first, cuda->inspect_counts + matches + first));
    return CUS_OK;
}
