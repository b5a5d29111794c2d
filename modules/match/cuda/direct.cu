// Direct correlation matches bytes exactly in one launch: tensor cores multiply integers, then window sums, scores and the
// best match follow.
//
// For row r of the template, out(y, x) += sum over bytes c of T(r, c) I(y + r, x + c) is a matrix product: rows of the
// image, as they lie in memory, times a Toeplitz matrix of the row. A warp computes 16 columns of 8 BLOCKS rows of
// positions. It multiplies rows r, r + 8, r + 16 and r + 24 of the template together, since each needs the image's blocks
// of eight rows moved on by one. Sums are kept modulo 2^32. Templates whose sums are larger, or that do not fit into shared
// memory, are cut into sections, whose sums are added up in doubles.
#include "match/cuda/direct.cuh"
#include "match/cuda/tensor.cuh"

namespace cusi::match {

namespace {

constexpr int ACROSS = 16, COLS = TILE_COLS;                // columns of positions per warp; per tile
constexpr int ROWS_PER_STEP = 4, CHUNK = 8 * ROWS_PER_STEP; // rows of the template: multiplied together; in shared memory
constexpr int PRODUCTS_PITCH = COLS + 4;                    // words from row to row, avoids bank conflicts
constexpr int SQUARE_PLANES = 3, PIXEL_PLANES = 2; // bytes of a sum of MAX_ROWS rows: 256 * 255^2 < 2^24, 256 * 255 < 2^16
constexpr int MAX_ROWS = 256;

// ---- The image under a tile

// Loads the image under the tile from pixel (y0, x0) on. Bytes beyond the frame's last row and column are arbitrary.
template<int THREADS>
__device__ void loadTile(const MatchModel &m, const Frame &frame, const Direct &direct, int source, unsigned char *tile,
                         int y0, int x0) {
    const int units = direct.pitch / 16, total = units * direct.tile_rows;
    const int last_row = m.rows - 1 - y0,
              bytes = min(m.cols - x0, direct.pitch) * m.channels; // bytes of a row inside the frame
    const unsigned char *from =
        static_cast<const unsigned char *>(frame.data) + y0 * frame.step + static_cast<size_t>(x0) * m.channels;
    if (source == PIXELS && ((reinterpret_cast<uintptr_t>(from) | frame.step) & 15) == 0) {
        for (int i = threadIdx.x; i < total; i += THREADS) {
            const int row = __umulhi(i, direct.units_reciprocal), to = 16 * (i - row * units), left = bytes - to;
            const unsigned char *at = from + min(row, last_row) * frame.step + to;
            if (left >= 16)
                copyAhead(tile + row * direct.pitch + to, at);
            else
                for (int k = 0; k < left; ++k)
                    tile[row * direct.pitch + to + k] = at[k];
        }
        return;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < total; i += THREADS) {
        const int row = __umulhi(i, direct.units_reciprocal), to = 16 * (i - row * units), at = min(to, bytes - 1);
        Unaligned16 pixels;
        pixels.load(from + min(row, last_row) * frame.step + at, bytes - at);
        uint4 unit = {pixels[0], pixels[1], pixels[2], pixels[3]};
        if (source != PIXELS)
            unit = {squares(unit.x, source), squares(unit.y, source), squares(unit.z, source), squares(unit.w, source)};
        *reinterpret_cast<uint4 *>(tile + row * direct.pitch + to) = unit;
    }
}

// ---- Products with the template

// Adds the products of a chunk with `left` rows (ALL: CHUNK rows) of `steps` times BYTES bytes. templ_at: the lane's words
// of the chunk's first row.
template<int BYTES, bool ALL, int BLOCKS, int SPLIT>
__device__ __forceinline__ void multiplyChunk(const MatchModel &m, const Direct &direct, uint32_t pixels_at,
                                              const uint32_t *templ_at, int part, int steps, int left,
                                              uint32_t (&sums)[BLOCKS][4]) {
    constexpr int PAIRS = (BLOCKS + ROWS_PER_STEP) / 2, TURNS = 8 / SPLIT;
    uint32_t pixels[2 * PAIRS][2], templ[ROWS_PER_STEP][4] = {};
    const int eight = 8 * m.channels; // columns
    const auto loadTemplate = [&](const uint32_t *at, int j) {
        at += 8 * j * direct.words_pitch;
        templ[j][0] = at[0];
        templ[j][1] = at[-eight];
        if constexpr (BYTES == 32) {
            templ[j][2] = at[16];
            templ[j][3] = at[16 - eight];
        }
    };
    templ_at += part * direct.words_pitch;
    pixels_at += part * direct.pitch;
#pragma unroll 1
    for (int step = 0; step < steps; ++step, templ_at += 32, pixels_at += 32) {
        const uint32_t *next = templ_at;
#pragma unroll
        for (int j = 0; j < ROWS_PER_STEP; ++j) // words of rows below the template are loaded but not used
            loadTemplate(next, j);
#pragma unroll 1
        for (int turn = 0; turn < TURNS; ++turn) {
            uint32_t at = pixels_at + turn * SPLIT * direct.pitch;
#pragma unroll
            for (int i = 0; i < 2 * PAIRS; i += 2, at += 16 * direct.pitch) {
                uint32_t blocks[4];
                loadBlocks(blocks, at);
                pixels[i][0] = blocks[0], pixels[i][1] = blocks[1];
                pixels[i + 1][0] = blocks[2], pixels[i + 1][1] = blocks[3];
            }
            next += turn + 1 < TURNS ? SPLIT * direct.words_pitch : 0;
#pragma unroll
            for (int j = 0; j < ROWS_PER_STEP; ++j) {
                if (!ALL && part + turn * SPLIT + 8 * j >= left)
                    break; // rows grow with j and turn, so no later turn needs this row either
#pragma unroll
                for (int i = 0; i < BLOCKS; ++i)
                    multiplyAdd<BYTES>(sums[i], templ[j], pixels[i + j]);
                loadTemplate(next, j); // for the next turn, while other warps multiply
            }
        }
    }
}

// ---- Window sums

// Sums pixels or their squares down the section's rows, at each byte of the tile's rows. sumAcross() adds them up along the
// rows on tensor cores, which multiply bytes, so each byte of a sum has a plane of its own. A thread makes four columns of
// a strip of rows.
template<int ROWS, int THREADS, bool SQUARES>
__device__ void sumDown(const Direct &direct, int rows, int columns, const unsigned char *tile, unsigned char *planes) {
    constexpr int STRIPS = THREADS / 128 * 4 > ROWS / 8 ? ROWS / 8 : THREADS / 128 * 4, STRIP = ROWS / STRIPS;
    const int words = cusi::divUp(columns, 4), plane = ROWS * direct.pitch, pitch = direct.pitch;
    const auto wordAt = [](const unsigned char *p) { return *reinterpret_cast<const uint32_t *>(p); };
    for (int i = threadIdx.x; i < words * STRIPS; i += THREADS) {
        const int strip = i / words, at = strip * STRIP * pitch + 4 * (i - strip * words);
        const unsigned char *top = tile + at, *bottom = top;
        uint32_t sums[4] = {};
#pragma unroll 2
        for (int r = 0; r < rows; r += 4) {
            uint32_t w[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                w[k] = r + k < rows ? wordAt(bottom) : 0;
                bottom += r + k < rows ? pitch : 0;
            }
            addRows<SQUARES>(w, sums);
        }
        unsigned char *to = planes + at;
#pragma unroll
        for (int r = 0; r < STRIP; ++r, to += pitch, top += pitch, bottom += pitch) {
            const uint32_t low0 = __byte_perm(sums[0], sums[1], 0x5140), low1 = __byte_perm(sums[2], sums[3], 0x5140);
            *reinterpret_cast<uint32_t *>(to) = __byte_perm(low0, low1, 0x5410);
            *reinterpret_cast<uint32_t *>(to + plane) = __byte_perm(low0, low1, 0x7632);
            if constexpr (SQUARES)
                *reinterpret_cast<uint32_t *>(to + 2 * plane) =
                    __byte_perm(__byte_perm(sums[0], sums[1], 0x0062), __byte_perm(sums[2], sums[3], 0x0062), 0x5410);
            moveDown<SQUARES>(wordAt(top), wordAt(bottom), sums);
        }
    }
}

template<int BLOCKS, int SPLIT, bool SQUARED>
struct Work {
    static constexpr int ROWS = 8 * BLOCKS, THREADS = 128 * SPLIT;

    const MatchModel &m;
    const Frame &frame;
    const Direct &direct;
    unsigned char *const shared;
    // SPLIT warps share the positions of a group of 16 columns of the tile.
    const int x0 = blockIdx.x % direct.tiles_across * COLS, y0 = blockIdx.x / direct.tiles_across * ROWS;
    const int lane = threadIdx.x % 32, part = threadIdx.x / 128, group = threadIdx.x / 32 % 4;
    uint32_t *const words = reinterpret_cast<uint32_t *>(shared + direct.words_at); // the template's rows
    uint32_t *const ones = reinterpret_cast<uint32_t *>(shared + direct.ones_at);
    uint32_t *const products = reinterpret_cast<uint32_t *>(shared + direct.products_at);
    unsigned char *const planes = shared + direct.planes_at;
    const int lane_offset = 15 * m.channels + 4 * (lane % 4) - m.channels * (lane / 4); // the lane's first word in a row

    __device__ __forceinline__ void copyWords(uint32_t *to, const uint32_t *from, int rows) const {
        for (int i = threadIdx.x; i < rows * direct.words_pitch / 4; i += THREADS)
            copyAhead(to + 4 * i, from + 4 * i);
    }
    __device__ __forceinline__ uint32_t *chunkWords(int first) const {
        return words + first / CHUNK % 2 * CHUNK * direct.words_pitch;
    }

    // Computes the products of a section with words `template_words` at the tile's positions, in shared memory. load_image:
    // loads the image first, and makes its sums down the rows.
    __device__ __forceinline__ void multiply(const Section &section, const uint32_t *template_words,
                                             bool load_image) const {
        copyWords(words, template_words, min(CHUNK, section.rows));
        if (load_image) {
            copyWords(ones, direct.ones + section.ones, direct.ones_rows);
            cusi::waitForEarlierWork();
            loadTile<THREADS>(m, frame, direct, section.source, shared, y0 + section.y, x0 + section.x);
        }
        uint32_t sums[BLOCKS][4] = {};
        const uint32_t pixels_at = sharedAddress(shared) + ACROSS * group * m.channels +
                                   (lane % 8 + lane / 16 * 8) * direct.pitch + lane / 8 % 2 * 16;
        const int steps = section.halves / 2;
        const bool outside = x0 + ACROSS * group >= m.ocols; // all of the warp's columns
        for (int first = 0; first < section.rows; first += CHUNK) {
            copiesArrived();
            __syncthreads();
            const int left = section.rows - first;
            if (left > CHUNK)
                copyWords(chunkWords(first + CHUNK), template_words + (first + CHUNK) * direct.words_pitch,
                          min(CHUNK, left - CHUNK));
            if (outside)
                continue;
            const uint32_t at = pixels_at + first * direct.pitch, *templ = chunkWords(first) + lane_offset;
            if (left >= CHUNK)
                multiplyChunk<32, true, BLOCKS, SPLIT>(m, direct, at, templ, part, steps, left, sums);
            else
                multiplyChunk<32, false, BLOCKS, SPLIT>(m, direct, at, templ, part, steps, left, sums);
            if (section.halves % 2)
                multiplyChunk<16, false, BLOCKS, SPLIT>(m, direct, at + 32 * steps, templ + 32 * steps, part, 1, left,
                                                        sums);
        }
        __syncthreads();
        const int columns = COLS * m.channels + section.bytes - m.channels;
        if (load_image && (SQUARED || direct.sums_s2))
            sumDown<ROWS, THREADS, true>(direct, section.rows, columns, shared, planes);
        if (load_image && !SQUARED && direct.sums_s1)
            sumDown<ROWS, THREADS, false>(direct, section.rows, columns, shared,
                                          planes + (direct.sums_s2 ? SQUARE_PLANES * ROWS * direct.pitch : 0));
        __syncthreads();
        storeProducts(sums);
    }

    // All threads must have finished reading the image: the products may overwrite it.
    __device__ __forceinline__ void storeProducts(const uint32_t (&sums)[BLOCKS][4]) const {
        uint32_t *to = products + 2 * (lane % 4) * PRODUCTS_PITCH + ACROSS * group + lane / 4;
#pragma unroll
        for (int turn = 0; turn < (SPLIT > 1 ? 2 : 1); ++turn) {
#pragma unroll
            for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    uint32_t *at = to + (8 * i + e % 2) * PRODUCTS_PITCH + e / 2 * 8;
                    if (turn == 0 && part == 0)
                        *at = sums[i][e];
                    else if (turn == 1 && part != 0)
                        atomicAdd(at, sums[i][e]);
                }
            __syncthreads();
        }
    }

    // Visits the lane's four positions of a block, row by row; e is the position's index in a fragment of products.
    template<class Visit>
    __device__ __forceinline__ void visit(int block, const Visit &visitPosition) const {
        const int row = 8 * block + 2 * (lane % 4), column = ACROSS * group + lane / 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int y = row + i / 2, x = column + i % 2 * 8;
            if (y0 + y < m.orows && x0 + x < m.ocols)
                visitPosition(i / 2 + i % 2 * 2, y, x);
        }
    }

    // Makes window sums of N blocks of eight rows from PLANES planes, from plane `first` on, times row `ones_row` of ones.
    template<int PLANES, int N>
    __device__ __forceinline__ void sumAcross(const Section &section, int block, int first, int ones_row,
                                              uint32_t (&sums)[N][4]) const {
        uint32_t at = sharedAddress(planes) + (first * ROWS + 8 * block + lane % 8) * direct.pitch +
                      ACROSS * group * m.channels + lane / 8 % 2 * 16;
        const uint32_t *templ_at = ones + lane_offset + ones_row * direct.words_pitch;
        const int eight = 8 * m.channels; // columns
        uint32_t parts[N][PLANES][4] = {};
#pragma unroll 1
        for (int s = 0; s < section.halves; s += 2, templ_at += 32, at += 32) {
            const uint32_t templ[4] = {templ_at[0], templ_at[-eight], templ_at[16], templ_at[16 - eight]};
#pragma unroll
            for (int k = 0; k < PLANES; ++k)
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    uint32_t pixels[2];
                    loadBlocks(pixels, at + (k * ROWS + n * 8) * direct.pitch);
                    multiplyAdd<32>(parts[n][k], templ, pixels);
                }
        }
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[n][e] = parts[n][0][e] + (parts[n][1][e] << 8) + (PLANES > 2 ? parts[n][PLANES - 1][e] << 16 : 0);
    }

    // Returns the best of the thread's positions for SQDIFF and one section. t2: the template's sum of squares.
    __device__ __forceinline__ Candidate bestSquared(const Section &section, uint32_t t2) const {
        constexpr int N = BLOCKS / SPLIT % 2 == 0 ? 2 : 1; // blocks that are summed together
        uint32_t least = ~0u;
        int least_at = -1;
#pragma unroll 1
        for (int block = part * N; block < BLOCKS; block += SPLIT * N) {
            uint32_t s2[N][4];
            sumAcross<SQUARE_PLANES>(section, block, 0, 0, s2);
#pragma unroll
            for (int n = 0; n < N; ++n)
                visit(block + n, [&](int e, int y, int x) {
                    const uint32_t cost = s2[n][e] - 2 * products[y * PRODUCTS_PITCH + x] + t2;
                    if (cost < least)
                        least = cost, least_at = y * COLS + x;
                });
        }
        if (least_at < 0)
            return noCandidate();
        return {static_cast<double>(least), positionOf(least_at / COLS, least_at % COLS)};
    }
    __device__ __forceinline__ unsigned long long positionOf(int y, int x) const {
        return static_cast<unsigned long long>(y0 + y) * m.ocols + x0 + x;
    }

    // Returns the best of the thread's positions; valid after the last section. Estimates come first if only the best
    // position is wanted and there is one section. Otherwise all costs are computed and stored where they are wanted.
    __device__ __forceinline__ Candidate bestOf(const Section &section, int p, const MatchTemplate &t, int result,
                                                const Scores &scores, unsigned *of_frame) const {
        const size_t positions = static_cast<size_t>(m.orows) * m.ocols;
        double *const frame_totals = direct.totals + blockIdx.y * totalsOf(m) * positions;
        const auto visitTurn = [&](int turn, const auto &handle) {
            const int block = part + turn * SPLIT;
            if (block >= BLOCKS)
                return;
            uint32_t s2[1][4] = {}, s1[MATCH_MAX_CHANNELS][1][4] = {};
            if (direct.sums_s2)
                sumAcross<SQUARE_PLANES>(section, block, 0, 0, s2);
            if (direct.sums_s1)
#pragma unroll
                for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
                    if (c < m.channels)
                        sumAcross<PIXEL_PLANES>(section, block, direct.sums_s2 ? SQUARE_PLANES : 0,
                                                m.channels > 1 ? c + 1 : 0, s1[c]);
            visit(block, [&](int e, int y, int x) {
                Sums sums = {1.0 * products[y * PRODUCTS_PITCH + x], {}, 1.0 * s2[0][e]};
#pragma unroll
                for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
                    sums.s1[c] = s1[c][0][e];
                handle(sums, y0 + y, x0 + x);
            });
        };
        const auto keep = [&](Sums sums, int y, int x, Candidate &best) {
            if (direct.totals) {
                double *totals = frame_totals + static_cast<size_t>(y) * m.ocols + x;
                const auto add = [&](int quantity, double sum, bool first) {
                    totals[quantity * positions] = sum + (first ? 0 : totals[quantity * positions]);
                };
                add(section.quantity, sums.c * section.weight, section.first);
#pragma unroll
                for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
                    if (direct.sums_s1 && c < m.channels)
                        add(1 + c, sums.s1[c], p == 0);
                if (direct.sums_s2)
                    add(1 + m.channels, sums.s2, p == 0);
                if (p + 1 < direct.count)
                    return;
                sums.c = totals[0];
#pragma unroll
                for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
                    sums.s1[c] = m.needs_s1 && c < m.channels ? totals[(1 + c) * positions] : 0;
                sums.s2 = m.needs_s2 ? totals[(1 + m.channels) * positions] : 0;
            }
            keepCost(m, t, sums, direct, scores, result, y, x, best);
        };
        return bestOfTurns<(BLOCKS + SPLIT - 1) / SPLIT, MATCH_MAX_CHANNELS>(
            m, t, direct.totals || direct.costs || scores.maps, of_frame, visitTurn, keep);
    }
};

// Returns how many blocks a multiprocessor has enough registers for.
constexpr int residentBlocks(int split, bool squared) {
    return split > 1 ? 4 / split : squared ? 5 : 4;
}

template<int BLOCKS, int SPLIT, bool SQUARED>
__global__ void __launch_bounds__(128 * SPLIT, residentBlocks(SPLIT, SQUARED))
    directKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frames frames,
                 const __grid_constant__ Templates templates, const __grid_constant__ Scores scores,
                 const __grid_constant__ Direct direct, const __grid_constant__ Refinement refinement) {
    cusi::letNextKernelStart();
    const Frame frame = {frames.frames[blockIdx.y].data, frames.frames[blockIdx.y].step, nullptr};
    const Work<BLOCKS, SPLIT, SQUARED> work = {m, frame, direct, reinterpret_cast<unsigned char *>(shared_points)};
    for (int k = 0; k < m.count; ++k) {
        const int result = resultOf(k), own = templateOf(m, result);
        const MatchTemplate &t = templates.sums[own];
        const uint32_t t2 = SQUARED ? static_cast<uint32_t>(t.t2) : 0; // loaded early
        Candidate best = noCandidate();
        for (int p = 0; p < (SQUARED ? 1 : direct.count); ++p) {
            if (k + p)
                __syncthreads(); // the next section overwrites window sums that other threads still read
            const Section section = p ? direct.sections[p] : direct.first;
            work.multiply(section, direct.words + own * direct.template_words + section.words, k == 0 || !direct.keeps);
            if constexpr (SQUARED)
                best = work.bestSquared(section, t2);
            else
                best = work.bestOf(section, p, t, result, scores, leastOf(m, refinement, result));
        }
        best = blockBestToFirst<4 * SPLIT>(best);
        keepBest(direct, result, best);
    }
    finishFrame<128 * SPLIT>(m, direct, refinement);
}

// ---- Host

using Kernel = void (*)(const MatchModel, const Frames, const Templates, const Scores, const Direct, const Refinement);

// A tile has 64 x 8 `blocks` positions; `split` warps share the template's rows. Small maps have small tiles with many
// warps, one a multiprocessor. In large maps, blocks are many enough to keep it busy. On an H200, 640 x 480 takes 1.3 to
// 1.8 times as long with the last shape.
struct Shape {
    int blocks, split, tiles; // tiles: the most for each multiprocessor
    Kernel squared, general;
};
constexpr Shape SHAPES[] = {{4, 4, 1, directKernel<4, 4, true>, directKernel<4, 4, false>},
                            {6, 4, 1, directKernel<6, 4, true>, directKernel<6, 4, false>},
                            {8, 2, 2, directKernel<8, 2, true>, directKernel<8, 2, false>},
                            {8, 1, 1 << 30, directKernel<8, 1, true>, directKernel<8, 1, false>}};

size_t tilesOf(const MatchModel &m, const Shape &shape) {
    return static_cast<size_t>(cusi::divUp(m.ocols, COLS)) * cusi::divUp(m.orows, 8 * shape.blocks);
}
size_t tilesOfLaunch(const MatchModel &m, const Shape &shape) {
    return tilesOf(m, shape) * std::min(m.frames, LAUNCH_FRAMES);
}

// Lays out shared memory for sections of rows x cols and returns its size in bytes.
size_t layOut(const MatchModel &m, const Shape &shape, int rows, int cols, bool keeps, Direct &direct) {
    const int cn = m.channels, tile_rows = 8 * shape.blocks;
    const int halves = cusi::divUp((cols + ACROSS - 1) * cn, 16), even = 16 * (halves + halves % 2);
    direct.words_pitch = cusi::divUp((ACROSS - 1) * cn + even, 4) * 4;
    // An odd multiple of 16 puts eight neighboring rows into different banks.
    direct.pitch = (cusi::divUp(std::max((COLS - ACROSS) * cn + even, (COLS + cols - 1) * cn), 16) | 1) * 16;
    direct.tile_rows = tile_rows + rows + 14; // blocks are loaded in pairs, also the last one
    direct.units_reciprocal = 0xffffffffu / (direct.pitch / 16) + 1;
    direct.sums_s1 = m.needs_s1 && !m.masked;
    direct.sums_s2 = m.needs_s2 && !m.masked;
    direct.ones_rows = (direct.sums_s1 || direct.sums_s2 ? 1 : 0) + (direct.sums_s1 && cn > 1 ? cn : 0);
    const size_t tile = static_cast<size_t>(direct.pitch) * direct.tile_rows;
    const size_t products = size_t{4} * tile_rows * PRODUCTS_PITCH;
    const size_t words = size_t{4} * (rows > CHUNK ? 2 : 1) * CHUNK * direct.words_pitch;
    const size_t planes = static_cast<size_t>((direct.sums_s2 ? SQUARE_PLANES : 0) + (direct.sums_s1 ? PIXEL_PLANES : 0)) *
                          tile_rows * direct.pitch;
    const size_t ones = size_t{4} * direct.ones_rows * direct.words_pitch;
    const size_t words_at = keeps ? tile + products : std::max(tile, products);
    const size_t ones_at = words_at + (keeps ? words + planes : std::max(words, planes));
    if (ones_at + ones > 1 << 30)
        return SIZE_MAX;
    direct.keeps = keeps;
    direct.products_at = keeps ? static_cast<int>(tile) : 0;
    direct.words_at = static_cast<int>(words_at);
    direct.planes_at = static_cast<int>(words_at + (keeps ? words : 0));
    direct.ones_at = static_cast<int>(ones_at);
    return direct.shared = ones_at + ones;
}

// Chooses the shape, and the size of sections that fit into shared memory, 32-bit sums and the planes of vertical sums.
void chooseSections(const MatchModel &m, int multiprocessors, size_t most, Direct &direct, int *rows, int *cols) {
    while (tilesOfLaunch(m, SHAPES[direct.shape]) > static_cast<size_t>(SHAPES[direct.shape].tiles) * multiprocessors)
        ++direct.shape;
    const auto fits = [&](size_t room) {
        return *rows <= MAX_ROWS && 65025.0 * *rows * *cols * m.channels < 4294967296.0 &&
               layOut(m, SHAPES[direct.shape], *rows, *cols, false, direct) <= room;
    };
    // The tiles that one multiprocessor computes, rounded up to whole rounds of resident blocks.
    const auto turns = [&](int shape) {
        const size_t shared = layOut(m, SHAPES[shape], *rows, *cols, false, direct) + 1024;
        const size_t resident = std::min<size_t>(residentBlocks(SHAPES[shape].split, false), (most + 1024) / shared);
        return resident ? cusi::divUp(tilesOfLaunch(m, SHAPES[shape]), resident * multiprocessors) * resident : SIZE_MAX;
    };
    *rows = m.h;
    *cols = m.w;
    // Blocks of four warps need other blocks on their multiprocessor to keep it busy.
    if (SHAPES[direct.shape].split == 1 && (!fits(most / 3) || turns(direct.shape - 1) < turns(direct.shape)))
        --direct.shape;
    while (direct.shape && !fits(most))
        --direct.shape;
    while (!fits(most)) // 16 x 16 always fits
        if (*rows >= *cols || *cols <= 16)
            *rows = cusi::divUp(*rows, 2);
        else
            *cols = cusi::divUp(cusi::divUp(*cols, 2), 16) * 16; // keeps rows aligned
    const Shape &shape = SHAPES[direct.shape];
    if (m.count == 1 || *rows < m.h || *cols < m.w || m.masked || layOut(m, shape, *rows, *cols, true, direct) > most)
        layOut(m, shape, *rows, *cols, false, direct);
}

// Appends rows of overlapping words: word i has four bytes of the row, from byte i - 15 channels on.
template<class Byte>
void appendWords(std::vector<uint32_t> &words, const Direct &direct, int cn, int rows, int bytes, const Byte &byteAt) {
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < direct.words_pitch; ++i) {
            uint32_t word = 0;
            for (int k = 0; k < 4; ++k) {
                const int at = i + k - (ACROSS - 1) * cn;
                if (at >= 0 && at < bytes)
                    word |= static_cast<uint32_t>(byteAt(r, at)) << (8 * k);
            }
            words.push_back(word);
        }
}

void makeSections(const MatchModel &m, int rows, int cols, const uint8_t *pixels, const uint8_t *mask, Direct &direct,
                  std::vector<Section> &sections, std::vector<uint32_t> &words) {
    const int cn = m.channels, row_bytes = m.w * cn;
    const size_t bytes = static_cast<size_t>(row_bytes) * m.h;
    const auto cut = [&](int source, int weight, int quantity, bool first) {
        for (int y = 0; y < m.h; y += rows)
            for (int x = 0; x < m.w; x += cols) {
                const int width = std::min(cols, m.w - x);
                sections.push_back({y, x, std::min(rows, m.h - y), width * cn, cusi::divUp((width + ACROSS - 1) * cn, 16),
                                    source, weight, quantity, first && x + y == 0, 0, 0});
            }
    };
    cut(PIXELS, 1, 0, true);
    for (int c = 0; m.masked && m.needs_s1 && c < cn; ++c)
        cut(PIXELS, 1, 1 + c, true);
    if (m.masked && m.needs_s2) {
        cut(LOW_OF_SQUARES, 1, 1 + cn, true);
        cut(HIGH_OF_SQUARES, 256, 1 + cn, false);
    }
    for (int k = 0; k < m.templates; ++k) {
        for (Section &section : sections) {
            if (k == 0)
                section.words = words.size();
            appendWords(words, direct, cn, section.rows, section.bytes, [&](int r, int at) {
                const size_t i = static_cast<size_t>(section.y + r) * row_bytes + section.x * cn + at;
                if (mask && !mask[i])
                    return 0;
                if (section.quantity == 0)
                    return static_cast<int>(pixels[k * bytes + i]);
                return section.quantity == 1 + cn || section.quantity == 1 + at % cn ? 1 : 0;
            });
        }
        if (k == 0)
            direct.template_words = words.size();
    }
    for (Section &section : sections) {
        section.ones = words.size();
        appendWords(words, direct, cn, direct.ones_rows, section.bytes,
                    [&](int r, int at) { return r == 0 || at % cn == r - 1 ? 1 : 0; });
    }
}

// Allocates what tiles leave. Frames share a launch as far as their sums and costs fit into LAUNCH_BYTES.
cusStatus allocateTiles(MatchCuda *cuda, cudaStream_t stream) {
    constexpr size_t LAUNCH_BYTES = size_t{1} << 29;
    const MatchModel &m = cuda->stages.model;
    Direct &direct = cuda->stages.direct;
    const size_t positions = static_cast<size_t>(m.orows) * m.ocols;
    const size_t totals = direct.count > 1 ? totalsOf(m) * positions : 0;
    const size_t costs = m.max_matches > 1 || m.subpixel ? m.count * positions : 0;
    const size_t fitting = LAUNCH_BYTES / std::max<size_t>((totals + costs) * sizeof(double), 1);
    const int most = std::min(m.frames, LAUNCH_FRAMES);
    direct.frames = static_cast<int>(std::clamp<size_t>(fitting, 1, static_cast<size_t>(most)));
    const size_t bests = size_t{direct.tiles} * std::max(direct.wgmma.parts, 1);
    CUS_TRY(allocate(cuda, &direct.bests, bests * direct.frames * m.count, stream));
    if (totals)
        CUS_TRY(allocate(cuda, &direct.totals, direct.frames * totals, stream));
    if (!costs)
        return CUS_OK;
    CUS_TRY(allocate(cuda, &direct.costs, direct.frames * costs, stream));
    return prepareMatches(cuda);
}

} // namespace

cusStatus prepareDirect(MatchCuda *cuda, const void *pixels, const uint8_t *mask, cudaStream_t stream) {
    MatchModel &m = cuda->stages.model;
    Direct &direct = cuda->stages.direct;
    m.needs_s1 = m.method >= CUS_MATCH_CCOEFF; // direct correlation shifts nothing
    CUS_TRY(planWgmma(m, cuda->multiprocessors, &direct));
    if (direct.wgmma.ring) {
        CUS_TRY(allocateTiles(cuda, stream));
        return prepareWgmma(cuda, static_cast<const unsigned char *>(pixels), mask, stream);
    }
    int most = 0, rows = 0, cols = 0;
    CUS_TRY(sharedMemory(&most));
    chooseSections(m, cuda->multiprocessors, static_cast<size_t>(most), direct, &rows, &cols);
    const Shape &shape = SHAPES[direct.shape];
    direct.tiles_across = cusi::divUp(m.ocols, COLS);
    direct.tiles = static_cast<unsigned>(tilesOf(m, shape));
    CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(shape.squared), most));
    CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(shape.general), most));

    std::vector<Section> sections;
    std::vector<uint32_t> words;
    CUS_TRY(inHostMemory(
        [&] { makeSections(m, rows, cols, static_cast<const uint8_t *>(pixels), mask, direct, sections, words); }));
    direct.count = static_cast<int>(sections.size());
    direct.first = sections[0];
    CUS_TRY(allocateTiles(cuda, stream));
    CUS_TRY(upload(cuda, words.data(), words.size(), &direct.words, stream));
    CUS_TRY(upload(cuda, sections.data(), sections.size(), &direct.sections, stream));
    direct.ones = direct.words;
    return CUS_OK;
}

// Matches `count` frames, at most direct.frames, in one launch, and finds further matches in another.
cusStatus launchDirect(const Stages &stages, const cusMat *frames, int count, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const Direct &direct = stages.direct;
    const Shape &shape = SHAPES[direct.shape];
    const bool plain = !direct.totals && !direct.costs && !stages.scores.maps;
    Frames batch = {};
    for (int i = 0; i < count; ++i)
        batch.frames[i] = {frames[i].data, frames[i].step};
    if (direct.wgmma.slabs)
        return launchWgmma(stages, batch, count, stream);
    CUS_TRY(cusi::launchOverlapped("cusMatcherRun", plain && m.method == CUS_MATCH_SQDIFF ? shape.squared : shape.general,
                                   dim3(direct.tiles, count), 128 * shape.split, direct.shared, stream, m, batch,
                                   stages.templates, stages.scores, direct, stages.refinement));
    return direct.costs ? launchMatches(stages, m.count * count, 8 * shape.blocks, stream) : CUS_OK;
}

} // namespace cusi::match
