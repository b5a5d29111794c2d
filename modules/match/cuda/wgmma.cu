// Direct correlation of bytes by wgmma, on architecture 9.0a, whose tensor cores reach their rate only with operands in
// shared memory.
//
// The template is a Toeplitz matrix along both axes, of 4 rows x 16 columns of positions:
//     out(y0 + 4 n + my, x0 + 16 j + mx) = sum over ky, c, k of
//         T(ky - my, 16 c + k - mx) I(y0 + 4 n + ky, 16 (j + c) + k).
// A product has M = 64: (3 - my) 16 + mx; N = 8 NX: 8 j + n; K = 32: chunks c and c + 1 of 16 bytes, or, of an odd last
// chunk, rows ky and ky + 1.
//
// The image under a tile is kept in planes of 16 bytes, each in four phases (row % 4): the rows of eight neighboring n are
// 128 bytes in one piece for any ky, so operands of all products are windows of the same memory. The template's rows come
// by bulk copies, a slab of eight at a time, with the three rows before them. Four warps queue products; the others sum up
// squares and pixels meanwhile. Sums are kept modulo 2^32; costs of squared differences are below that. Channels follow one
// another: one is in shared memory at a time, and its products and squares are added to those of the ones before.
#include "match/cuda/direct.cuh"
#include "match/cuda/tensor.cuh"

#include <climits>

namespace cusi::match {

namespace {

constexpr int ACROSS = 16, DOWN = 4, ROWS = 8 * DOWN; // positions of a product; rows of positions in a tile
constexpr int SLAB = 8, BLOCKS = SLAB + DOWN - 1;     // rows of the template that a slab serves, and has
constexpr int BLOCK = ACROSS * 16;                    // bytes of a row of the template at a chunk, at each mx
constexpr int MAX_RING = 8;                           // the most slabs in shared memory
// Kernels: squared differences without maps and costs, with them, of colors, and with a mask; any method without and with a
// mask.
enum Kind { SSD, SSD_MAPS, SSD_COLORS, SSD_MASKED, ANY, ANY_MASKED, KINDS };
constexpr int COLORS = 3; // channels of SSD_COLORS

constexpr int threadsOf(int nx, Kind kind) {
    return nx == 32 || (nx == 16 && kind == ANY_MASKED) ? 384 : 256;
}
// What a launch promises: blocks that a multiprocessor has registers for.
constexpr int residentBlocks(int nx, Kind kind) {
    return threadsOf(nx, kind) == 384 ? 1 : nx >= 16 || kind >= ANY ? 2 : nx == 8 ? 3 : 4;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int GROUP = 128; // threads that multiply; the others help

// The place of a slab in the ring, that of the slab before, and the parity of the turn in which it arrives.
struct Turn {
    int place = 0, before = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void next(int ring) {
        before = place;
        place = place + 1 < ring ? place + 1 : 0;
        parity ^= place == 0;
    }
};

template<int NX, Kind KIND>
struct Tile {
    static constexpr bool SQUARED = KIND < ANY, MASKED = KIND == SSD_MASKED || KIND == ANY_MASKED;
    static constexpr int COLS = ACROSS * NX, THREADS = threadsOf(NX, KIND), CHANNELS = KIND == SSD_COLORS ? COLORS : 1;
    using Values = uint32_t[4 * NX]; // a thread's positions, in the order of multiplyAddAhead()

    const MatchModel &m;
    const Wgmma &plan;
    unsigned char *const slabs, *const image;
    uint32_t *const sums;    // before each byte of a row, of the bytes' columns below a window: squares or pixels
    uint32_t *const values;  // at positions, not of squared differences: places of products, squares, and pixels of a mask
    uint64_t *const arrived; // barriers of the ring's slabs
    const int x0, y0;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Returns where a row is in its plane.
    __device__ __forceinline__ int offsetOf(int row) const { return (row & 3) * plan.phase + (row >> 2) * 16; }
    // Rows are skewed so that the rows that a warp reads at once are in different banks.
    __device__ __forceinline__ uint32_t *sumsOf(int row) const { return sums + row * plan.sums_pitch + (row >> 3) * 8; }
    __device__ __forceinline__ uint32_t *valuesOf(int row, int place) const {
        return values + place * ROWS * (COLS + 1) + row * COLS + (row >> 3) * 8;
    }
    // Returns the row of values 2 i + e of the thread, whose column is 8 i / 2 + lane / 4.
    __device__ __forceinline__ int rowOfValues(int e) const { return 8 * (lane % 4) + 4 * e + DOWN - 1 - warp % 4; }
    // Passes with a mask multiply pixels by the template, then by the mask if sums of pixels are needed, then the high and
    // the low bytes of squares by the mask; passOfSquares() is that of the high bytes. For squared differences these come
    // first, then pixels by the template, then the low bytes: (-128 high + products) (-2) + low stays in registers.
    __device__ __forceinline__ int passOfSquares() const { return SQUARED ? 0 : m.needs_s1 ? 2 : 1; }

    // Queues the copy of a slab to a place of the ring; one thread calls it. Slabs of a frame's templates follow each
    // other, and the mask's are as many times there as passes need them.
    __device__ __forceinline__ void copySlab(int slab, int place) const {
        const uint32_t bytes = BLOCKS * BLOCK * plan.chunks;
        const bool of_mask = MASKED && slab / plan.slabs_each != (SQUARED ? 1 : 0);
        const unsigned char *const first =
            of_mask ? plan.mask : plan.slabs + templateOf(m, resultOf(0)) * plan.template_bytes;
        copyBulk(slabs + place * bytes, first + static_cast<size_t>(MASKED ? slab % plan.slabs_each : slab) * bytes, bytes,
                 &arrived[place]);
    }

    // Loads a channel of the image under the tile. What is outside the frame is arbitrary.
    __device__ __forceinline__ void loadImage(const unsigned char *from, size_t step, int channel) const {
        const auto load = [&](const auto &copy) { // copies up to 16 pixels, `left` of which are inside the frame
#pragma unroll 4
            for (int i = threadIdx.x; i < plan.planes * (ROWS + m.h); i += THREADS) {
                const int row = __umulhi(i, plan.planes_reciprocal), p = i - row * plan.planes, at = x0 + 16 * p;
                copy(image + p * plan.plane + offsetOf(row), from + min(y0 + row, m.rows - 1) * step, at, m.cols - at);
            }
        };
        const bool aligned = ((reinterpret_cast<uintptr_t>(from) | step) & 15) == 0;
        if constexpr (CHANNELS > 1)
            load([&](unsigned char *to, const unsigned char *pixels, int at, int left) {
                const unsigned char *const units = pixels + size_t{CHANNELS} * min(at, m.cols - 1);
                uint32_t words[4 * CHANNELS];
                if (aligned && left >= 16) {
#pragma unroll
                    for (int u = 0; u < CHANNELS; ++u)
                        loadFour(words + 4 * u, units + 16 * u);
                } else {
                    const int bytes = CHANNELS * max(1, min(left, 16));
#pragma unroll
                    for (int u = 0; u < CHANNELS; ++u) {
                        Unaligned16 unit;
                        const int skipped = min(16 * u, bytes - 1);
                        unit.load(units + skipped, bytes - skipped);
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            words[4 * u + i] = unit[i];
                    }
                }
                *reinterpret_cast<uint4 *>(to) = {everyThird(words, channel), everyThird(words + 3, channel),
                                                  everyThird(words + 6, channel), everyThird(words + 9, channel)};
            });
        else if (aligned)
            load([&](unsigned char *to, const unsigned char *pixels, int at, int left) {
                copyAheadUpTo(to, left > 0 ? pixels + at : from, max(0, min(left, 16)));
            });
        else
            load([&](unsigned char *to, const unsigned char *pixels, int at, int left) {
                Unaligned16 unit;
                unit.load(pixels + min(at, m.cols - 1), max(left, 1));
                *reinterpret_cast<uint4 *>(to) = {unit[0], unit[1], unit[2], unit[3]};
            });
        copiesArrived();
        storesReady();
    }

    // Adds the products of pass k to those of the pass before times a factor. Descriptors move by constants and turns are
    // counted, not divided: so they stay in uniform registers, and no product waits for its own to get there.
    __device__ __forceinline__ void multiply(int k, Turn &turn, Values &products) const {
        const uint32_t chunk = BLOCKS * BLOCK, plane = plan.plane, phase = plan.phase;
        const uint32_t slabs_at = sharedAddress(slabs);
        const bool of_squares = MASKED && (SQUARED ? k != 1 : k == passOfSquares());
        const uint32_t image_at = sharedAddress(image) + (of_squares ? plan.squares_at : 0);
        const int high = k - passOfSquares(); // passes since that of the high bytes
        const uint32_t factor = !MASKED                              ? k % CHANNELS != 0
                                : high < 1 || (high > 1 && !SQUARED) ? 0
                                : !SQUARED                           ? 256
                                : high == 1                          ? -128
                                                                     : -2;
        // From chunks that are neighbors to rows that are
        const uint64_t templ_rows = (uint64_t{BLOCK / 16} - chunk / 16) << 16,
                       pixels_rows = (uint64_t{phase / 16} - plane / 16) << 16;
        const int first = k * plan.slabs_each, all = plan.passes * plan.slabs_each;
#pragma unroll
        for (uint32_t &product : products)
            product = factor ? product * factor : 0;
        sumsReady(); // here and nowhere else: in the loops, ptxas would let products wait for each other (C7520)
#pragma unroll 1
        for (int s = 0; s < plan.slabs_each; ++s) {
            waitForBarrier(&arrived[turn.place], turn.parity);
            const int rows = min(SLAB, m.h + DOWN - 1 - SLAB * s);
            uint64_t templ_row = describe(slabs_at + turn.place * chunk * plan.chunks, chunk, 128);
            uint64_t pixels_row = describe(image_at + SLAB / 4 * 16 * s, plane, plane);
#pragma unroll 1
            for (int row = 0; row < rows; row += 2) { // two at once, as a row below the template is zero
                uint64_t templ = templ_row, pixels = pixels_row;
#pragma unroll 1
                for (int c = 0; c + 1 < plan.chunks; c += 2) {
                    multiplyAddAhead(products, templ, pixels);
                    multiplyAddAhead(products, templ + (BLOCK >> 4), pixels + (phase >> 4));
                    templ += 2 * chunk >> 4;
                    pixels += 2 * plane >> 4;
                }
                if (plan.chunks % 2)
                    multiplyAddAhead(products, templ + templ_rows, pixels + pixels_rows);
                templ_row += 2 * BLOCK >> 4;
                pixels_row += row % 4 ? uint64_t{1} - (phase >> 4) * 2 : (phase >> 4) * 2;
            }
            endStage();
            const int slab = first + s;
            if (slab >= 1 && slab - 1 + plan.ring < all) {
                waitForStages<1>(); // the slab before is not read any more
                waitForWarps<1, GROUP>();
                if (threadIdx.x == 0)
                    copySlab(slab - 1 + plan.ring, turn.before);
            }
            turn.next(plan.ring);
        }
        waitForStages<0>();
#pragma unroll
        for (uint32_t &product : products)
            asm volatile("" : "+r"(product)::"memory"); // is not read before
    }

    // Sums up squares or pixels down a window's height, for each row of the tile, and then along the row. A warp has a
    // strip of rows, a lane four neighboring bytes. Only the result is stored, since products leave little of the shared
    // memory's rate. Sums of further channels are added.
    template<bool SQUARES>
    __device__ __forceinline__ void sumUp(int channel) const {
        constexpr int STRIP = ROWS * 32 / (THREADS - GROUP);
        const int words = 4 * plan.planes, top = (warp - GROUP / 32) * STRIP;
        uint32_t before[STRIP] = {};
#pragma unroll 1
        for (int first = 0; 4 * first < plan.sums_pitch; first += 32) {
            const int word = min(first + lane, words - 1);
            const unsigned char *const column = image + (word >> 2) * plan.plane + (word & 3) * 4;
            // Rows k, k + 4, ... are words 0, 4, ... from here on: from the strip's, and from those a window lower.
            const uint32_t *out_at[4], *in_at[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                out_at[k] = reinterpret_cast<const uint32_t *>(column + offsetOf(top + k));
                in_at[k] = reinterpret_cast<const uint32_t *>(column + offsetOf(top + m.h + k));
            }
            uint32_t sum[4] = {}, sums_of[STRIP][4], all[STRIP], scan[STRIP];
#pragma unroll 4
            for (int r = 0; r < m.h; r += 4) {
                uint32_t w[4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    w[k] = r + k < m.h ? out_at[k][r] : 0;
                addRows<SQUARES>(w, sum);
            }
#pragma unroll
            for (int k = 0; k < STRIP; ++k) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums_of[k][i] = sum[i];
                all[k] = scan[k] = sum[0] + sum[1] + sum[2] + sum[3];
                moveDown<SQUARES>(out_at[k % 4][k / 4 * 4], in_at[k % 4][k / 4 * 4], sum);
            }
            cusi::warpInclusiveScan(scan, lane);
            uint32_t *const to = sumsOf(top) + 4 * (first + lane);
#pragma unroll
            for (int k = 0; k < STRIP; ++k) {
                const uint32_t zero = before[k] + scan[k] - all[k], one = zero + sums_of[k][0], two = one + sums_of[k][1];
                if (4 * (first + lane) < plan.sums_pitch) {
                    uint32_t *const at = to + k * plan.sums_pitch;
                    const uint4 more = channel ? *reinterpret_cast<const uint4 *>(at) : uint4{};
                    storeFour(sharedAddress(at), more.x + zero, more.y + one, more.z + two, more.w + two + sums_of[k][2]);
                }
                before[k] += __shfl_sync(cusi::FULL_WARP, scan[k], 31);
            }
        }
    }

    // Keeps the best of the tile, or with costs of each 64 columns; GROUP threads call it. It stores costs where they are
    // wanted. t2: the template's sum of squares. Positions are compared by one number: the cost, then the place.
    __device__ __forceinline__ void keepSquared(const Values &products, uint32_t t2, int result, const Direct &direct,
                                                const Scores &scores) const {
        constexpr bool COSTS = KIND != SSD && !MASKED;
        constexpr int PER_PART = COSTS ? TILE_COLS / 8 : 2 * NX, PARTS = cusi::divUp(2 * NX, PER_PART);
        __shared__ unsigned long long bests[PARTS * GROUP / 32];
        float *const map = KIND != SSD && scores.maps ? scores.maps[result] : nullptr;
        double *const costs = COSTS ? direct.costs : nullptr;
        const size_t map_step = map ? scores.map_steps[result] : 0;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            uint32_t least = ~0u, least_at = 0; // above each cost
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int row = rowOfValues(e), left = m.ocols - x0 - lane / 4;
                const int inside = y0 + row < m.orows ? left : 0;
                const uint32_t *const before = sumsOf(row) + lane / 4, *const behind = before + m.w;
                float *const to = map ? cusi::rowOf(map, map_step, y0 + row) + x0 + lane / 4 : nullptr;
                double *const costs_to =
                    costs ? costs + (static_cast<size_t>(result) * m.orows + y0 + row) * m.ocols + x0 + lane / 4 : nullptr;
#pragma unroll
                for (int i = part * PER_PART; i < min((part + 1) * PER_PART, 2 * NX); ++i) {
                    const uint32_t product = products[2 * i + e];
                    const uint32_t cost = t2 + (MASKED ? product : behind[8 * i] - before[8 * i] - 2 * product);
                    if (map && 8 * i < inside)
                        to[8 * i] = static_cast<float>(cost);
                    if (costs && 8 * i < inside)
                        costs_to[8 * i] = toDouble(cost);
                    if (8 * i < inside && cost < least)
                        least = cost, least_at = row * COLS + 8 * i;
                }
            }
            const uint32_t of_warp = __reduce_min_sync(cusi::FULL_WARP, least);
            const bool is_least = least == of_warp && least < ~0u;
            const uint32_t at = __reduce_min_sync(cusi::FULL_WARP, is_least ? least_at + lane / 4 : ~0u);
            if (lane == 0)
                bests[part * GROUP / 32 + warp] = static_cast<unsigned long long>(of_warp) << 32 | at;
        }
        waitForWarps<1, GROUP>();
        const int kept = costs ? PARTS : 1, each = PARTS / kept * (GROUP / 32);
        if (static_cast<int>(threadIdx.x) >= kept)
            return;
        unsigned long long best = ~0ull;
        for (int i = 0; i < each; ++i)
            best = min(best, bests[threadIdx.x * each + i]);
        const int place = static_cast<int>(best), y = y0 + place / COLS, x = x0 + place % COLS;
        Candidate *const to = direct.bests + (static_cast<size_t>(result) * direct.tiles + blockIdx.x) * kept + threadIdx.x;
        *to = best == ~0ull ? noCandidate()
                            : Candidate{static_cast<double>(best >> 32), static_cast<unsigned long long>(y) * m.ocols + x};
    }

    // Stores values where all threads see them after a barrier.
    __device__ __forceinline__ void storeValues(int place, const Values &from) const {
        uint32_t *const rows[2] = {valuesOf(rowOfValues(0), place) + lane / 4, valuesOf(rowOfValues(1), place) + lane / 4};
#pragma unroll
        for (int i = 0; i < 4 * NX; ++i)
            rows[i % 2][i / 2 * 8] = from[i];
    }

    // Makes an image of the high or the low bytes of squares, `to` bytes behind the pixels; threads from `first` on do it.
    __device__ __forceinline__ void makeSquares(int source, int to, int first) const {
        for (int i = static_cast<int>(threadIdx.x) - first; i < plan.planes * plan.plane / 16; i += THREADS - first) {
            uint4 *const at = reinterpret_cast<uint4 *>(image) + i;
            at[to / 16] = {squares(at->x, source), squares(at->y, source), squares(at->z, source), squares(at->w, source)};
        }
        storesReady();
    }

    // Does the helpers' work while the products of pass k are made: window sums, where those of squares go to registers,
    // as those of pixels take their place; with a mask, images of squares, where the low bytes take the place of what no
    // pass needs any more. It also makes a copy of the template's sums.
    __device__ __forceinline__ void help(int k, const MatchTemplate &t, MatchTemplate &copy, Values &of_squares) const {
        const int word = static_cast<int>(threadIdx.x) - GROUP;
        const bool copies = word < static_cast<int>(sizeof t / sizeof(double));
        const double early = copies ? reinterpret_cast<const double *>(&t)[word] : 0; // arrives meanwhile
        if constexpr (MASKED) {
            if (SQUARED ? k == 1 : m.needs_s2 && k == passOfSquares())
                makeSquares(LOW_OF_SQUARES, SQUARED ? plan.squares_at : 0, GROUP);
            else if (!SQUARED && m.needs_s2 && k == 0)
                makeSquares(HIGH_OF_SQUARES, plan.squares_at, GROUP);
        } else if constexpr (SQUARED) {
            if (k < CHANNELS)
                sumUp<true>(k);
        } else {
            if (m.needs_s2) {
                sumUp<true>(0);
                waitForWarps<2, THREADS - GROUP>();
#pragma unroll
                for (int i = 0; i < 4 * NX; ++i) {
                    const uint32_t *const before = sumsOf(rowOfValues(i % 2)) + lane / 4 + i / 2 * 8;
                    of_squares[i] = before[m.w] - before[0];
                }
                waitForWarps<2, THREADS - GROUP>();
            }
            if (m.needs_s1)
                sumUp<false>(0);
        }
        if (copies)
            reinterpret_cast<double *>(&copy)[word] = early;
    }

    // Returns the best of the thread's positions by any method; all threads call it. Warps take rows in turn.
    __device__ __forceinline__ Candidate bestOf(const MatchTemplate &t, int result, const Direct &direct,
                                                const Scores &scores, unsigned *of_frame) const {
        constexpr int WARPS = THREADS / 32, TURNS = (ROWS + WARPS - 1) / WARPS, AT_ONCE = 4;
        const auto visit = [&](int turn, const auto &handle) {
            const int row = warp + turn * WARPS;
            if (row >= ROWS || y0 + row >= m.orows)
                return;
            const uint32_t *const of_pixels = MASKED ? valuesOf(row, 2) : sumsOf(row);
#pragma unroll AT_ONCE
            for (int x = lane; x < COLS; x += 32)
                handle({toDouble(valuesOf(row, 0)[x]),
                        {m.needs_s1 ? toDouble(MASKED ? of_pixels[x] : of_pixels[x + m.w] - of_pixels[x]) : 0},
                        m.needs_s2 ? toDouble(valuesOf(row, 1)[x]) : 0},
                       y0 + row, x0 + x);
        };
        const auto keep = [&](const Sums &window, int y, int x, Candidate &best) {
            keepCost(m, t, window, direct, scores, result, y, x, best);
        };
        return bestOfTurns<TURNS, 1>(m, t, scores.maps != nullptr, of_frame, visit, keep);
    }
};

#endif

template<int NX, Kind KIND>
__global__ void __launch_bounds__(threadsOf(NX, KIND), residentBlocks(NX, KIND))
    wgmmaKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frames frames,
                const __grid_constant__ Templates templates, const __grid_constant__ Scores scores,
                const __grid_constant__ Direct direct, const __grid_constant__ Refinement refinement) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ uint64_t arrived[MAX_RING];
    __shared__ MatchTemplate templ[2];
    using Part = Tile<NX, KIND>;
    constexpr bool SQUARED = Part::SQUARED, MASKED = Part::MASKED;
    constexpr int CHANNELS = Part::CHANNELS;
    cusi::letNextKernelStart();
    const Wgmma &plan = direct.wgmma;
    unsigned char *const shared = reinterpret_cast<unsigned char *>(shared_points);
    const int tile_x = static_cast<int>(blockIdx.x) % direct.tiles_across;
    const int tile_y = static_cast<int>(blockIdx.x) / direct.tiles_across;
    const Part tile = {m,
                       plan,
                       shared,
                       shared + plan.image_at,
                       reinterpret_cast<uint32_t *>(shared + plan.sums_at),
                       reinterpret_cast<uint32_t *>(shared + (MASKED ? plan.sums_at : 0)),
                       arrived,
                       tile_x * ACROSS * NX,
                       tile_y * ROWS};
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 0; i < plan.ring; ++i)
            initBarrier(&arrived[i], 1);
        barriersReady();
#pragma unroll 1
        for (int i = 0; i < min(plan.ring, plan.passes * plan.slabs_each); ++i)
            tile.copySlab(i, i); // a template is older than all work before this launch
    }
    cusi::waitForEarlierWork();
    const unsigned char *const pixels = static_cast<const unsigned char *>(frames.frames[blockIdx.y].data);
    const size_t step = frames.frames[blockIdx.y].step;
    tile.loadImage(pixels, step, 0);
    __syncthreads();
    // Uniform in a warp, which ptxas has to see: otherwise it lets products wait for each other (C7520).
    const bool multiplies = __shfl_sync(cusi::FULL_WARP, threadIdx.x / GROUP, 0) == 0;
    if (MASKED && SQUARED) {
        tile.makeSquares(HIGH_OF_SQUARES, plan.squares_at, 0);
        __syncthreads();
    }
    Turn turn;
    typename Part::Values kept;
    for (int k = 0; k < plan.passes; ++k) {
        const int channel = k % CHANNELS, result = resultOf(MASKED ? 0 : k / CHANNELS);
        if (CHANNELS > 1 && k) {
            tile.loadImage(pixels, step, channel);
            __syncthreads();
        }
        typename Part::Values fresh; // needs no registers of helpers
        typename Part::Values &values = MASKED || CHANNELS > 1 ? kept : fresh;
        MatchTemplate &own = templ[k / CHANNELS % 2];
        if (multiplies)
            tile.multiply(k, turn, values);
        else
            tile.help(k, templates.sums[templateOf(m, result)], own, values);
        const bool last = MASKED ? k + 1 == plan.passes : channel == CHANNELS - 1;
        if constexpr (!SQUARED) {
            __syncthreads(); // without a mask, values lie over slabs and image
            const int of_squares = tile.passOfSquares();
            if (!MASKED || (multiplies && k != of_squares))
                tile.storeValues(!MASKED ? !multiplies : k > of_squares ? 1 : 2 * k, values);
        }
        __syncthreads();
        if constexpr (SQUARED) {
            if (multiplies && last)
                tile.keepSquared(values, static_cast<uint32_t>(own.t2), result, direct, scores);
        } else if (last) {
            keepBest(direct, result,
                     blockBestToFirst<Part::THREADS / 32>(
                         tile.bestOf(own, result, direct, scores, leastOf(m, refinement, result))));
        }
    }
    finishFrame<Part::THREADS>(m, direct, refinement);
#else
    __trap(); // planWgmma() sees that there is no code
#endif
}

// ---- Host

using Kernel = void (*)(const MatchModel, const Frames, const Templates, const Scores, const Direct, const Refinement);

// A tile has 16 NX x 32 positions. cost: the time of a tile by its products, more for those that wait for shared memory.
struct Shape {
    int nx, cost;
    Kernel kernels[KINDS]; // of kindOf(); NULL where shared memory would have no room for the sums
};
template<int NX>
constexpr Shape shapeOf(int cost) {
    return {NX,
            cost,
            {wgmmaKernel<NX, SSD>, wgmmaKernel<NX, SSD_MAPS>, wgmmaKernel<NX, SSD_COLORS>, wgmmaKernel<NX, SSD_MASKED>,
             wgmmaKernel<NX, ANY>, wgmmaKernel<NX, ANY_MASKED>}};
}
constexpr Shape SHAPES[] = {shapeOf<4>(5),
                            shapeOf<8>(7),
                            shapeOf<16>(10),
                            {18, 11, {wgmmaKernel<18, SSD>, wgmmaKernel<18, SSD_MAPS>}},
                            {32, 17, {wgmmaKernel<32, SSD>, wgmmaKernel<32, SSD_MAPS>, wgmmaKernel<32, SSD_COLORS>}}};

bool wantsCosts(const MatchModel &m) {
    return m.max_matches > 1 || m.subpixel;
}
Kind kindOf(const MatchModel &m, bool maps) {
    if (m.method != CUS_MATCH_SQDIFF)
        return m.masked ? ANY_MASKED : ANY;
    return m.masked ? SSD_MASKED : m.channels > 1 ? SSD_COLORS : maps || wantsCosts(m) ? SSD_MAPS : SSD;
}

constexpr int BYTES_OF_MULTIPROCESSOR = 228 << 10, BESIDE = 2 << 10; // shared memory; what a block takes beside its own

// Lays out shared memory with `ring` slabs and returns its size in bytes.
int layOut(const MatchModel &m, const Shape &shape, int ring, Wgmma &plan) {
    plan.ring = ring;
    plan.chunks = cusi::divUp(m.w + ACROSS - 1, 16);
    plan.slabs_each = cusi::divUp(m.h + DOWN - 1, SLAB);
    plan.template_bytes = static_cast<size_t>(m.channels) * plan.slabs_each * BLOCKS * BLOCK * plan.chunks;
    plan.planes = shape.nx - 1 + plan.chunks;
    plan.planes_reciprocal = 0xffffffffu / plan.planes + 1;
    plan.phase = cusi::divUp(m.h + ROWS, 4) * 16;
    plan.plane = cusi::divUp(4 * plan.phase, 128) * 128 + 16; // neighboring planes in different banks
    plan.sums_pitch = std::max(16 * plan.planes, cusi::divUp(ACROSS * shape.nx + m.w, 4) * 4);
    plan.image_at = ring * BLOCKS * BLOCK * plan.chunks;
    plan.squares_at = plan.planes * plan.plane;
    plan.sums_at = plan.image_at + plan.squares_at;
    plan.passes = m.count * m.channels;
    plan.parts = wantsCosts(m) ? ACROSS * shape.nx / TILE_COLS : 1;
    const int values = 4 * ROWS * (ACROSS * shape.nx + 1);
    const bool squared = m.method == CUS_MATCH_SQDIFF;
    if (!m.masked) {
        if (!squared) // values lie below
            plan.sums_at = std::max(plan.sums_at, 2 * values);
        return plan.sums_at + 4 * ROWS * (plan.sums_pitch + 1);
    }
    plan.sums_at += plan.squares_at;
    plan.passes = squared ? 3 : 1 + (m.needs_s1 ? 1 : 0) + (m.needs_s2 ? 2 : 0);
    return plan.sums_at + (squared ? 0 : m.needs_s1 ? 3 : 2) * values;
}

// Chooses the shape with the shortest time: of the most tiles that a multiprocessor gets, in rounds of resident blocks. Of
// equals it is the one with more of these, which load and multiply in turn, then the largest. As many slabs come ahead as
// there is room for.
void chooseShape(const MatchModel &m, int multiprocessors, int most, Direct &direct) {
    const int frames = std::min(m.frames, LAUNCH_FRAMES);
    const Kind kind = kindOf(m, false);
    long long least = LLONG_MAX;
    int most_resident = 0;
    for (const Shape &shape : SHAPES) {
        Wgmma plan = {};
        const int shared = layOut(m, shape, 2, plan), slab = plan.image_at / 2;
        if (shared > most || !shape.kernels[kind] || (wantsCosts(m) && shape.nx % 4))
            continue;
        const int across = cusi::divUp(m.ocols, ACROSS * shape.nx), down = cusi::divUp(m.orows, ROWS);
        const long long tiles = static_cast<long long>(across) * down * frames;
        const int resident = std::min(residentBlocks(shape.nx, kind), BYTES_OF_MULTIPROCESSOR / (shared + BESIDE));
        const long long at_once = static_cast<long long>(resident) * multiprocessors;
        const long long turns = tiles / at_once * resident + cusi::divUp<long long>(tiles % at_once, multiprocessors);
        // While channels are loaded, only another block multiplies.
        const long long time = turns * shape.cost * (kind == SSD_COLORS && resident == 1 ? 12 : 10);
        if (time > least || (time == least && resident < most_resident))
            continue;
        least = time;
        most_resident = resident;
        const int blocks = static_cast<int>(std::min<long long>(resident, turns));
        const int room = std::min(most, BYTES_OF_MULTIPROCESSOR / blocks - BESIDE) - shared;
        const int ring = std::min({MAX_RING, 2 + room / slab, std::max(2, plan.slabs_each * plan.passes)});
        direct.shared = layOut(m, shape, ring, plan);
        direct.shape = static_cast<int>(&shape - SHAPES);
        direct.tiles_across = across;
        direct.tiles = static_cast<unsigned>(across * down);
        direct.wgmma = plan;
    }
}

} // namespace

cusStatus planWgmma(const MatchModel &m, int multiprocessors, Direct *direct) {
    const char *f = "cusMatcherCreate";
    direct->wgmma.ring = 0;
    const Crossovers &bounds = crossoversOf(m, std::min(m.frames, LAUNCH_FRAMES), multiprocessors);
    const Kind kind = kindOf(m, false);
    const bool squared = kind < SSD_MASKED;
    // The other kinds overwrite the image, and do not keep the bests of parts.
    const bool possible =
        squared ? m.channels == 1 || m.channels == COLORS : m.channels == 1 && m.count == 1 && !wantsCosts(m);
    // With a mask, larger templates leave shared memory to small tiles only, which would not beat the FFT.
    const double pixels = static_cast<double>(m.w) * m.h;
    const double most_pixels = kind == SSD_COLORS ? bounds.colors : bounds.wgmma * (m.masked ? 0.5 : 1);
    const double above = kind == SSD_COLORS          ? bounds.above_colors
                         : m.masked || wantsCosts(m) ? 0
                         : kind == ANY               ? std::max(bounds.above, 256.0)
                                                     : bounds.above;
    if (!m.integer || !possible || pixels <= above || pixels > most_pixels)
        return CUS_OK;
    cudaFuncAttributes code = {};
    int most = 0;
    CUSI_CUDA(f, cudaFuncGetAttributes(&code, SHAPES[0].kernels[0]));
    CUS_TRY(sharedMemory(&most));
    if (code.numRegs > 16) // otherwise it is the empty kernel of another architecture than 9.0a
        chooseShape(m, multiprocessors, most, *direct);
    return CUS_OK;
}

// Uploads the slabs: [template][channel][slab][chunk][row][mx][byte], and those of the mask behind.
cusStatus prepareWgmma(MatchCuda *cuda, const unsigned char *pixels, const uint8_t *mask, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    Direct &direct = cuda->stages.direct;
    const Wgmma &plan = direct.wgmma;
    std::vector<unsigned char> slabs;
    CUS_TRY(inHostMemory([&] { slabs.reserve(plan.template_bytes * (m.templates + 1)); }));
    const size_t each = static_cast<size_t>(m.w) * m.h * m.channels;
    for (int k = 0; k < (m.templates + (mask ? 1 : 0)) * m.channels; ++k)
        for (int slab = 0; slab < plan.slabs_each; ++slab)
            for (int chunk = 0; chunk < plan.chunks; ++chunk)
                for (int i = 0; i < BLOCKS * BLOCK; ++i) {
                    const int row = SLAB * slab + i / BLOCK - (DOWN - 1), at = 16 * chunk + i % 16 - i / 16 % ACROSS;
                    const bool inside = row >= 0 && row < m.h && at >= 0 && at < m.w;
                    const size_t pixel = (static_cast<size_t>(row) * m.w + at) * m.channels + k % m.channels;
                    const bool counts = inside && (!mask || mask[pixel]);
                    slabs.push_back(!counts                         ? 0
                                    : k / m.channels == m.templates ? 1
                                                                    : pixels[k / m.channels * each + pixel]);
                }
    const Shape &shape = SHAPES[direct.shape];
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    for (const Kernel kernel : shape.kernels)
        if (kernel)
            CUS_TRY(allowSharedMemory(reinterpret_cast<const void *>(kernel), most));
    CUS_TRY(upload(cuda, slabs.data(), slabs.size(), &direct.wgmma.slabs, stream));
    direct.wgmma.mask = direct.wgmma.slabs + plan.template_bytes * m.templates;
    return CUS_OK;
}

cusStatus launchWgmma(const Stages &stages, const Frames &frames, int count, cudaStream_t stream) {
    const Direct &direct = stages.direct;
    const Shape &shape = SHAPES[direct.shape];
    const Kind kind = kindOf(stages.model, stages.scores.maps != nullptr);
    CUS_TRY(cusi::launchOverlapped("cusMatcherRun", shape.kernels[kind], dim3(direct.tiles, count),
                                   threadsOf(shape.nx, kind), direct.shared, stream, stages.model, frames, stages.templates,
                                   stages.scores, direct, stages.refinement));
    if (!direct.costs)
        return CUS_OK;
    Stages parts = stages;
    parts.direct.tiles *= direct.wgmma.parts;
    parts.direct.tiles_across *= direct.wgmma.parts;
    return launchMatches(parts, stages.model.count * count, ROWS, stream);
}

} // namespace cusi::match
