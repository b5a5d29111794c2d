// Correlation without a transform: a block correlates one tile of the score map with one template.
#ifndef CUSI_MATCH_DIRECT_CUH
#define CUSI_MATCH_DIRECT_CUH

#include "match_cuda.cuh"

namespace match {

constexpr int TILE_COLS = 64, TILE_ROWS = 32;

// A thread's correlations: column threadIdx.x % 16 * 4 + o, row threadIdx.x / 16 * 2 + r of the tile.
using ThreadSums = double[2][4];

// 8-bit pixels with __dp4a. The template passes through shared memory in pieces of PIECE_ROWS x PIECE_WORDS words, with the
// pixels under it; a thread keeps the words under its four columns in registers and shifts them by bytes.
template<int CN>
struct DotProducts {
    static constexpr int PIECE_ROWS = 16, PIECE_WORDS = 16;
    static constexpr int ROWS = TILE_ROWS + PIECE_ROWS;
    // Two rows of threads use different banks.
    static constexpr int WORDS = (TILE_COLS * CN / 4 + PIECE_WORDS + CN + 15) / 16 * 16 + 8;
    using Pixels = uint32_t[ROWS][WORDS];
    using Piece = uint32_t[PIECE_ROWS][PIECE_WORDS];

    // Row j0, byte i0 of the template on, with the pixels under it.
    static __device__ __forceinline__ void load(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                const unsigned char *templ, int y0, int x0, int j0, int i0, int piece_rows,
                                                int piece_words, Pixels &pixels, Piece &piece) {
        const int frame_bytes = m.cols * CN;
        for (int i = threadIdx.x; i < PIECE_ROWS * PIECE_WORDS; i += THREADS) {
            const int j = i / PIECE_WORDS, word = i % PIECE_WORDS;
            piece[j][word] = j < piece_rows && word < piece_words
                                 ? *reinterpret_cast<const uint32_t *>(templ + (j0 + j) * templates.step + i0 + 4 * word)
                                 : 0;
        }
        for (int i = threadIdx.x; i < ROWS * WORDS * 4; i += THREADS) {
            const int j = i / (WORDS * 4), byte = i % (WORDS * 4), y = y0 + j0 + j, x = x0 * CN + i0 + byte;
            const unsigned char *row = cusi::rowOf(static_cast<const unsigned char *>(frame.data), frame.step,
                                                   static_cast<size_t>(min(y, m.rows - 1)));
            reinterpret_cast<unsigned char *>(pixels)[i] = y < m.rows && x < frame_bytes ? row[x] : 0;
        }
    }

    static __device__ __forceinline__ void multiply(const Pixels &pixels, const Piece &piece, int piece_rows,
                                                    int piece_words, unsigned long long (&total)[2][4]) {
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
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

    static __device__ __forceinline__ void correlate(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                     int k, int y0, int x0, ThreadSums &sums) {
        __shared__ Pixels pixels;
        __shared__ Piece piece;
        const int row_bytes = m.w * CN;
        const unsigned char *templ = templates.pixels + k * templates.bytes;
        unsigned long long total[2][4] = {};
        for (int j0 = 0; j0 < m.h; j0 += PIECE_ROWS)
            for (int i0 = 0; i0 < row_bytes; i0 += PIECE_WORDS * 4) {
                const int piece_rows = min(PIECE_ROWS, m.h - j0);
                const int piece_words = min(PIECE_WORDS, cusi::divUp(row_bytes - i0, 4));
                __syncthreads();
                load(m, frame, templates, templ, y0, x0, j0, i0, piece_rows, piece_words, pixels, piece);
                __syncthreads();
                multiply(pixels, piece, piece_rows, piece_words, total);
            }
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int o = 0; o < 4; ++o)
                sums[r][o] = static_cast<double>(total[r][o]);
    }
};

// Any type, with or without a mask, one position after the other: floats in double; a masked SQDIFF is summed as it is.
template<class T, int CN>
__device__ void correlatePlainly(const MatchModel &m, const Frame &frame, const Templates &templates, int k, int y0, int x0,
                                 ThreadSums &sums) {
    const int row = m.w * CN;
    for (int r = 0; r < 2; ++r)
        for (int o = 0; o < 4; ++o) {
            const int y = y0 + static_cast<int>(threadIdx.x) / 16 * 2 + r,
                      x = x0 + static_cast<int>(threadIdx.x) % 16 * 4 + o;
            double sum = 0;
            if (y < m.orows && x < m.ocols)
                for (int j = 0; j < m.h; ++j) {
                    const T *a =
                        cusi::rowOf(static_cast<const T *>(frame.data), frame.step, y + j) + static_cast<size_t>(x) * CN;
                    const T *b = reinterpret_cast<const T *>(templates.pixels + k * templates.bytes + j * templates.step);
                    const unsigned char *mask =
                        templates.mask ? templates.mask + static_cast<size_t>(j) * templates.mask_step : nullptr;
                    for (int i = 0; i < row; ++i) {
                        const double pixel = a[i], templ = b[i];
                        if (mask && m.method == CUS_MATCH_SQDIFF)
                            sum += mask[i] ? (pixel - templ) * (pixel - templ) : 0;
                        else
                            sum += pixel * templ; // templates are 0 where they are masked
                    }
                }
            if (m.masked && m.method == CUS_MATCH_SQDIFF)
                sum -= templates.sums[k].t2; // which match_range() adds
            sums[r][o] = sum;
        }
}

} // namespace match

#endif
