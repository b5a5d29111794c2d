// Direct correlation of bytes of one channel by wgmma, on architecture 9.0a, whose tensor cores reach their rate only with
// operands in shared memory.
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
// squares and pixels meanwhile. Sums are kept modulo 2^32; costs of squared differences are below that.
#include "match/cuda/direct.cuh"
#include "match/cuda/tensor.cuh"

#include <climits>

namespace cusi::match {

namespace {

constexpr int ACROSS = 16, DOWN = 4, ROWS = 8 * DOWN; // positions of a product; rows of positions in a tile
constexpr int SLAB = 8, BLOCKS = SLAB + DOWN - 1;     // rows of the template that a slab serves, and has
constexpr int BLOCK = ACROSS * 16;                    // bytes of a row of the template at a chunk, at each mx
constexpr int MAX_RING = 8;                           // the most slabs in shared memory
// Kernels: squared differences without and with maps; any method and one template, without and with a mask.
enum { SQUARED, SQUARED_MAPS, GENERAL, MASKED };

constexpr int threadsOf(int nx, int kind) {
    return nx == 32 || (nx == 16 && kind == MASKED) ? 384 : 256;
}
// What a launch promises: blocks that a multiprocessor has registers for.
constexpr int residentBlocks(int nx, int kind) {
    return threadsOf(nx, kind) == 384 ? 1 : nx == 16 || kind >= GENERAL ? 2 : nx == 8 ? 3 : 4;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int GROUP = 128; // threads that multiply

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

template<int NX, int KIND>
struct Tile {
    static constexpr int COLS = ACROSS * NX, THREADS = threadsOf(NX, KIND), HELPERS = THREADS - GROUP;
    static constexpr int QUANTITIES = KIND >= GENERAL ? 2 : 1; // squares, pixels

    const MatchModel &m;
    const Wgmma &plan;
    unsigned char *const slabs, *const image;
    // They are of each quantity: before each byte of a row, of the bytes' columns below a window; with a mask at positions.
    uint32_t *const sums;
    uint64_t *const arrived; // barriers of the ring's slabs
    const int x0, y0;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Returns where a row is in its plane.
    __device__ __forceinline__ int offsetOf(int row) const { return (row & 3) * plan.phase + (row >> 2) * 16; }
    // Rows are skewed so that the rows that a warp reads at once are in different banks. place: of the quantity's sums.
    __device__ __forceinline__ uint32_t *sumsOf(int row, int place = 0) const {
        return sums + place * plan.sums_words + row * plan.sums_pitch + (row >> 3) * 8;
    }
    // The products: over slabs and image, or, with a mask, in the first place.
    __device__ __forceinline__ uint32_t *productsOf(int row) const {
        return KIND == MASKED ? sumsOf(row) : reinterpret_cast<uint32_t *>(slabs) + row * COLS + (row >> 3) * 8;
    }
    // Sums that the method does not need have no place. With a mask, sums of squares follow those of pixels.
    __device__ __forceinline__ bool needs(int quantity) const {
        return KIND < GENERAL || (quantity ? m.needs_s1 : m.needs_s2);
    }
    __device__ __forceinline__ int placeOf(int quantity) const {
        return KIND == MASKED ? quantity || !m.needs_s1 ? 1 : 2 : quantity && m.needs_s2;
    }
    // With a mask: the pass that multiplies the low bytes of squares, which the one of the high bytes follows.
    __device__ __forceinline__ int passOfSquares() const { return m.needs_s1 ? 2 : 1; }

    // Queues the copy of a slab to a place of the ring; one thread calls it. Slabs of a frame's templates follow each
    // other, and the mask's are as many times there as passes need them.
    __device__ __forceinline__ void copySlab(int slab, int place) const {
        const uint32_t bytes = BLOCKS * BLOCK * plan.chunks;
        const bool of_mask = KIND == MASKED && slab >= plan.slabs_each;
        const unsigned char *const first =
            of_mask ? plan.mask : plan.slabs + templateOf(m, resultOf(0)) * plan.template_bytes;
        copyBulk(slabs + place * bytes, first + static_cast<size_t>(of_mask ? slab % plan.slabs_each : slab) * bytes, bytes,
                 &arrived[place]);
    }

    // Loads the image under the tile. What is outside the frame is arbitrary.
    __device__ __forceinline__ void loadImage(const unsigned char *from, size_t step) const {
        const auto load = [&](const auto &copy) { // copies up to 16 pixels, `left` of which are inside the frame
#pragma unroll 4
            for (int i = threadIdx.x; i < plan.planes * (ROWS + m.h); i += THREADS) {
                const int row = __umulhi(i, plan.planes_reciprocal), p = i - row * plan.planes, at = x0 + 16 * p;
                copy(image + p * plan.plane + offsetOf(row), from + min(y0 + row, m.rows - 1) * step, at, m.cols - at);
            }
        };
        if (((reinterpret_cast<uintptr_t>(from) | step) & 15) == 0)
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

    // Adds the products of pass k to zero. Descriptors move by constants and turns are counted, not divided: so they stay
    // in uniform registers, and no product waits for its own to get there.
    __device__ __forceinline__ void multiply(int k, Turn &turn, uint32_t (&products)[4 * NX]) const {
        const uint32_t chunk = BLOCKS * BLOCK, plane = plan.plane, phase = plan.phase;
        const uint32_t slabs_at = sharedAddress(slabs);
        const uint32_t image_at = sharedAddress(image) + (KIND == MASKED && k == passOfSquares() ? plan.squares_at : 0);
        // From chunks that are neighbors to rows that are
        const uint64_t templ_rows = (uint64_t{BLOCK / 16} - chunk / 16) << 16,
                       pixels_rows = (uint64_t{phase / 16} - plane / 16) << 16;
        const int first = k * plan.slabs_each, all = plan.passes * plan.slabs_each;
#pragma unroll
        for (uint32_t &product : products)
            product = 0;
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

    // Sums up squares and pixels down a window's height, at each byte of a row, for each row of the tile.
    __device__ __forceinline__ void sumDown() const {
        const int words = 4 * plan.planes, strips = m.h <= 24 || words <= HELPERS / 2 ? 4 : 2, strip_rows = ROWS / strips;
        for (int i = threadIdx.x - GROUP; i < words * strips; i += HELPERS) {
            const int word = i % words, top = i / words * strip_rows;
            const unsigned char *const column = image + (word >> 2) * plan.plane + (word & 3) * 4;
            const auto wordAt = [&](int row) { return *reinterpret_cast<const uint32_t *>(column + offsetOf(row)); };
            uint32_t sum[QUANTITIES][4] = {};
            int r = 0;
#pragma unroll 2
            for (; r + 4 <= m.h; r += 4) {
                uint32_t w[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) // top + r is a multiple of 4
                    w[k] = *reinterpret_cast<const uint32_t *>(column + offsetOf(top + r) + k * plan.phase);
                const uint32_t low0 = __byte_perm(w[0], w[1], 0x5140), high0 = __byte_perm(w[0], w[1], 0x7362);
                const uint32_t low1 = __byte_perm(w[2], w[3], 0x5140), high1 = __byte_perm(w[2], w[3], 0x7362);
                const uint32_t four[4] = {__byte_perm(low0, low1, 0x5410), __byte_perm(low0, low1, 0x7632),
                                          __byte_perm(high0, high1, 0x5410), __byte_perm(high0, high1, 0x7632)};
#pragma unroll
                for (int q = 0; q < QUANTITIES; ++q)
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        sum[q][k] = __dp4a(four[k], q ? 0x01010101u : four[k], sum[q][k]);
            }
            for (; r < m.h; ++r)
                move(sum, 0, wordAt(top + r));
#pragma unroll 4
            for (int y = top; y < top + strip_rows; ++y) {
#pragma unroll
                for (int q = 0; q < QUANTITIES; ++q)
                    if (needs(q))
                        *reinterpret_cast<uint4 *>(sumsOf(y, placeOf(q)) + 4 * word) = {sum[q][0], sum[q][1], sum[q][2],
                                                                                        sum[q][3]};
                move(sum, wordAt(y), wordAt(y + m.h));
            }
        }
    }
    __device__ __forceinline__ void move(uint32_t (&sum)[QUANTITIES][4], uint32_t removed, uint32_t added) const {
#pragma unroll
        for (int q = 0; q < QUANTITIES; ++q)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const uint32_t out = removed >> 8 * k & 255, in = added >> 8 * k & 255;
                sum[q][k] += q ? in - out : in * in - out * out;
            }
    }

    // Turns the sums of each row into those of all bytes before. A warp takes several rows at once, which hides the latency
    // of shuffles.
    __device__ __forceinline__ void sumAcross(int place) const {
        constexpr int WARPS = HELPERS / 32, AT_ONCE = 4;
        const int words = 16 * plan.planes;
        for (int y = warp - GROUP / 32; y < ROWS; y += WARPS * AT_ONCE) {
            uint32_t before[AT_ONCE] = {};
            for (int first = 0; first < plan.sums_pitch; first += 128) {
                const int x = first + 4 * lane;
                uint4 v[AT_ONCE];
                uint32_t all[AT_ONCE], scan[AT_ONCE];
#pragma unroll
                for (int n = 0; n < AT_ONCE; ++n) {
                    v[n] = x < words ? *reinterpret_cast<const uint4 *>(sumsOf(y + n * WARPS, place) + x) : uint4{};
                    all[n] = scan[n] = v[n].x + v[n].y + v[n].z + v[n].w;
                }
                cusi::warpInclusiveScan(scan, lane);
#pragma unroll
                for (int n = 0; n < AT_ONCE; ++n) {
                    const uint32_t zero = before[n] + scan[n] - all[n], one = zero + v[n].x, two = one + v[n].y;
                    if (x < plan.sums_pitch)
                        *reinterpret_cast<uint4 *>(sumsOf(y + n * WARPS, place) + x) = {zero, one, two, two + v[n].z};
                    before[n] += __shfl_sync(cusi::FULL_WARP, scan[n], 31);
                }
            }
        }
    }

    // Returns the best of the tile, valid in the first thread; GROUP threads call it. It stores the costs in the map unless
    // that is NULL. t2: the template's sum of squares. Positions are compared by one number: the cost, then the place.
    __device__ __forceinline__ Candidate bestSquared(const uint32_t (&products)[4 * NX], uint32_t t2, float *map,
                                                     size_t map_step) const {
        __shared__ unsigned long long bests[GROUP / 32];
        uint32_t least = ~0u, least_at = 0; // above each cost
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int row = 8 * (lane % 4) + 4 * e + DOWN - 1 - warp, left = m.ocols - x0 - lane / 4;
            const int inside = y0 + row < m.orows ? left : 0;
            const uint32_t *const before = sumsOf(row) + lane / 4, *const behind = before + m.w;
            float *const to = map ? cusi::rowOf(map, map_step, y0 + row) + x0 + lane / 4 : nullptr;
#pragma unroll
            for (int i = 0; i < 2 * NX; ++i) {
                const uint32_t cost = behind[8 * i] - before[8 * i] + t2 - 2 * products[2 * i + e];
                if (map && 8 * i < inside)
                    to[8 * i] = static_cast<float>(cost);
                if (8 * i < inside && cost < least)
                    least = cost, least_at = row * COLS + 8 * i;
            }
        }
        const uint32_t of_warp = __reduce_min_sync(cusi::FULL_WARP, least);
        const bool is_least = least == of_warp && least < ~0u;
        const uint32_t at = __reduce_min_sync(cusi::FULL_WARP, is_least ? least_at + lane / 4 : ~0u);
        if (lane == 0)
            bests[warp] = static_cast<unsigned long long>(of_warp) << 32 | at;
        waitForWarps<1, GROUP>();
        const unsigned long long best = min(min(bests[0], bests[1]), min(bests[2], bests[3]));
        const int place = static_cast<int>(best), y = y0 + place / COLS, x = x0 + place % COLS;
        if (best == ~0ull)
            return noCandidate();
        return {static_cast<double>(best >> 32), static_cast<unsigned long long>(y) * m.ocols + x};
    }

    // Stores the group's products of a pass where all threads see them after a barrier.
    __device__ __forceinline__ void storeProducts(int pass, const uint32_t (&products)[4 * NX]) const {
        const int row = 8 * (lane % 4) + DOWN - 1 - warp, above = KIND == MASKED ? pass - passOfSquares() : 0;
        const int place = KIND == MASKED ? (above > 0 ? placeOf(0) : pass) * plan.sums_words : 0;
        uint32_t *const rows[2] = {productsOf(row) + place + lane / 4, productsOf(row + 4) + place + lane / 4};
#pragma unroll
        for (int i = 0; i < 4 * NX; ++i) {
            uint32_t &to = rows[i % 2][i / 2 * 8];
            to = above > 0 ? to + 256 * products[i] : products[i];
        }
    }

    // Makes the image of the next pass with squares. Their low bytes have an image of their own; the high bytes take the
    // place of the pixels, which no pass needs any more.
    __device__ __forceinline__ void makeSquares(int pass) const {
        const bool high = pass == passOfSquares();
        const int source = high ? HIGH_OF_SQUARES : LOW_OF_SQUARES, to = high ? 0 : plan.squares_at / 16;
        if (!m.needs_s2 || (pass > 0 && !high))
            return;
        for (int i = threadIdx.x - GROUP; i < plan.planes * plan.plane / 16; i += HELPERS) {
            uint4 *const at = reinterpret_cast<uint4 *>(image) + i;
            at[to] = {squares(at->x, source), squares(at->y, source), squares(at->z, source), squares(at->w, source)};
        }
        storesReady();
    }

    // Does the helpers' work while the products of pass k are made: in the first the window sums, or images of squares; and
    // a copy of the template's sums.
    template<bool FIRST>
    __device__ __forceinline__ void help(int k, const MatchTemplate &t, MatchTemplate &copy) const {
        const int word = static_cast<int>(threadIdx.x) - GROUP;
        const bool copies = word < static_cast<int>(sizeof t / sizeof(double));
        const double early = copies ? reinterpret_cast<const double *>(&t)[word] : 0; // arrives meanwhile
        if constexpr (KIND == MASKED) {
            makeSquares(k);
        } else if (FIRST) {
            if (needs(0) || needs(1))
                sumDown();
            waitForWarps<2, HELPERS>();
#pragma unroll 1
            for (int q = 0; q < QUANTITIES; ++q)
                if (needs(q))
                    sumAcross(placeOf(q));
        }
        if (copies)
            reinterpret_cast<double *>(&copy)[word] = early;
    }

    // Returns the best of the thread's positions by any method; all threads call it. Warps take rows in turn.
    __device__ __forceinline__ Candidate bestOf(const MatchTemplate &t, int result, const Direct &direct,
                                                const Scores &scores) const {
        constexpr int WARPS = THREADS / 32, TURNS = (ROWS + WARPS - 1) / WARPS, AT_ONCE = 4;
        const auto visit = [&](int turn, const auto &handle) {
            const int row = warp + turn * WARPS;
            if (row >= ROWS || y0 + row >= m.orows)
                return;
            const uint32_t *const of_squares = sumsOf(row, placeOf(0)), *const of_pixels = sumsOf(row, placeOf(1));
            const auto sumAt = [&](const uint32_t *sums, int x) {
                return toDouble(KIND == MASKED ? sums[x] : sums[x + m.w] - sums[x]);
            };
#pragma unroll AT_ONCE
            for (int x = lane; x < COLS; x += 32)
                handle({toDouble(productsOf(row)[x]),
                        {m.needs_s1 ? sumAt(of_pixels, x) : 0},
                        m.needs_s2 ? sumAt(of_squares, x) : 0},
                       y0 + row, x0 + x);
        };
        const auto keep = [&](const Sums &window, int y, int x, Candidate &best) {
            keepCost(m, t, window, direct, scores, result, y, x, best);
        };
        return bestOfTurns<TURNS, 1>(m, t, scores.maps != nullptr, visit, keep);
    }
};

#endif

template<int NX, int KIND>
__global__ void __launch_bounds__(threadsOf(NX, KIND), residentBlocks(NX, KIND))
    wgmmaKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frames frames,
                const __grid_constant__ Templates templates, const __grid_constant__ Scores scores,
                const __grid_constant__ Direct direct, const __grid_constant__ Refinement refinement) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ uint64_t arrived[MAX_RING];
    __shared__ MatchTemplate templ[2];
    using Part = Tile<NX, KIND>;
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
    tile.loadImage(static_cast<const unsigned char *>(frames.frames[blockIdx.y].data), frames.frames[blockIdx.y].step);
    __syncthreads();
    // Uniform in a warp, which ptxas has to see: otherwise it lets products wait for each other (C7520).
    const bool multiplies = __shfl_sync(cusi::FULL_WARP, threadIdx.x / GROUP, 0) == 0;
    if (!multiplies)
        tile.template help<true>(0, templates.sums[templateOf(m, resultOf(0))], templ[0]);
    Turn turn;
    for (int k = 0; k < (KIND == GENERAL ? 1 : plan.passes); ++k) {
        const int result = resultOf(KIND == MASKED ? 0 : k);
        MatchTemplate &own = templ[k % 2];
        uint32_t products[4 * NX];
        if (multiplies) {
            tile.multiply(k, turn, products);
            if constexpr (KIND == MASKED)
                tile.storeProducts(k, products);
        } else if (k > 0) {
            tile.template help<false>(k, templates.sums[templateOf(m, result)], own);
        }
        __syncthreads();
        if constexpr (KIND == GENERAL) {
            if (multiplies)
                tile.storeProducts(k, products);
            __syncthreads();
        }
        if (KIND == GENERAL || (KIND == MASKED && k + 1 == plan.passes)) {
            keepBest(direct, result, blockBestToFirst<Part::THREADS / 32>(tile.bestOf(own, result, direct, scores)));
        } else if (KIND < GENERAL && multiplies) {
            constexpr bool MAPS = KIND == SQUARED_MAPS;
            keepBest(direct, result,
                     tile.bestSquared(products, static_cast<uint32_t>(own.t2), MAPS ? scores.maps[result] : nullptr,
                                      MAPS ? scores.map_steps[result] : 0));
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
    Kernel kernels[4]; // of each kind; NULL where shared memory would have no room for the sums
};
template<int NX>
constexpr Shape shapeOf(int cost) {
    return {NX,
            cost,
            {wgmmaKernel<NX, SQUARED>, wgmmaKernel<NX, SQUARED_MAPS>, wgmmaKernel<NX, GENERAL>, wgmmaKernel<NX, MASKED>}};
}
constexpr Shape SHAPES[] = {
    shapeOf<4>(5), shapeOf<8>(7), shapeOf<16>(10), {32, 17, {wgmmaKernel<32, SQUARED>, wgmmaKernel<32, SQUARED_MAPS>}}};

// The kind of a run without maps.
int kindOf(const MatchModel &m) {
    return m.masked ? MASKED : m.method == CUS_MATCH_SQDIFF ? SQUARED : GENERAL;
}

constexpr int BYTES_OF_MULTIPROCESSOR = 228 << 10, BESIDE = 2 << 10; // shared memory; what a block takes beside its own

// Lays out shared memory with `ring` slabs and returns its size in bytes.
int layOut(const MatchModel &m, const Shape &shape, int ring, Wgmma &plan) {
    plan.ring = ring;
    plan.chunks = cusi::divUp(m.w + ACROSS - 1, 16);
    plan.slabs_each = cusi::divUp(m.h + DOWN - 1, SLAB);
    plan.template_bytes = static_cast<size_t>(plan.slabs_each) * BLOCKS * BLOCK * plan.chunks;
    plan.planes = shape.nx - 1 + plan.chunks;
    plan.planes_reciprocal = 0xffffffffu / plan.planes + 1;
    plan.phase = cusi::divUp(m.h + ROWS, 4) * 16;
    plan.plane = cusi::divUp(4 * plan.phase, 128) * 128 + 16; // neighboring planes in different banks
    plan.sums_pitch = cusi::divUp(16 * plan.planes + 1, 4) * 4;
    plan.sums_words = ROWS * plan.sums_pitch + ROWS;
    plan.image_at = ring * BLOCKS * BLOCK * plan.chunks;
    plan.sums_at = plan.image_at + plan.planes * plan.plane;
    plan.passes = m.count;
    const int kind = kindOf(m), squares = m.needs_s2 ? 1 : 0, pixels = m.method >= CUS_MATCH_CCOEFF ? 1 : 0;
    if (kind == MASKED) { // places for products and sums at positions
        plan.passes = 1 + pixels + 2 * squares;
        plan.squares_at = plan.planes * plan.plane;
        plan.sums_at += squares * plan.squares_at;
        plan.sums_pitch = ACROSS * shape.nx;
        plan.sums_words = ROWS * plan.sums_pitch + ROWS;
        return plan.sums_at + 4 * plan.sums_words * (1 + pixels + squares);
    }
    if (kind == GENERAL) // products lie below
        plan.sums_at = std::max(plan.sums_at, 4 * ROWS * (ACROSS * shape.nx + 1));
    return plan.sums_at + 4 * plan.sums_words * (kind == GENERAL ? pixels + squares : 1);
}

// Chooses the shape with the shortest time: of the most tiles that a multiprocessor gets, in rounds of resident blocks. Of
// equals it is the one with more of these, which load and multiply in turn, then the largest. As many slabs come ahead as
// there is room for.
void chooseShape(const MatchModel &m, int multiprocessors, int most, Direct &direct) {
    const int frames = std::min(m.frames, LAUNCH_FRAMES);
    const int kind = kindOf(m);
    long long least = LLONG_MAX;
    int most_resident = 0;
    for (const Shape &shape : SHAPES) {
        Wgmma plan = {};
        const int shared = layOut(m, shape, 2, plan), slab = plan.image_at / 2;
        if (shared > most || !shape.kernels[kind])
            continue;
        const int across = cusi::divUp(m.ocols, ACROSS * shape.nx), down = cusi::divUp(m.orows, ROWS);
        const long long tiles = static_cast<long long>(across) * down * frames;
        const int resident = std::min(residentBlocks(shape.nx, kind), BYTES_OF_MULTIPROCESSOR / (shared + BESIDE));
        const long long at_once = static_cast<long long>(resident) * multiprocessors;
        const long long turns = tiles / at_once * resident + cusi::divUp<long long>(tiles % at_once, multiprocessors);
        const long long time = turns * shape.cost;
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
    const bool one = m.integer && m.max_matches == 1 && !m.subpixel;
    const bool kept = kindOf(m) == SQUARED || m.count == 1; // the other kinds overwrite the image
    // With a mask, larger templates leave shared memory to small tiles only, which would not beat the FFT.
    const double pixels = static_cast<double>(m.w) * m.h, most_pixels = bounds.wgmma * (m.masked ? 0.5 : 1);
    if (!one || !kept || m.channels != 1 || pixels <= bounds.above || pixels > most_pixels)
        return CUS_OK;
    cudaFuncAttributes code = {};
    int most = 0;
    CUSI_CUDA(f, cudaFuncGetAttributes(&code, SHAPES[0].kernels[0]));
    CUS_TRY(sharedMemory(&most));
    if (code.numRegs > 16) // otherwise it is the empty kernel of another architecture than 9.0a
        chooseShape(m, multiprocessors, most, *direct);
    return CUS_OK;
}

// Uploads the slabs: [template][slab][chunk][row][mx][byte], and those of the mask behind.
cusStatus prepareWgmma(MatchCuda *cuda, const unsigned char *pixels, const uint8_t *mask, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    Direct &direct = cuda->stages.direct;
    const Wgmma &plan = direct.wgmma;
    std::vector<unsigned char> slabs;
    CUS_TRY(inHostMemory([&] { slabs.reserve(plan.template_bytes * (m.templates + 1)); }));
    for (int k = 0; k < m.templates + (mask ? 1 : 0); ++k, pixels += static_cast<size_t>(m.w) * m.h)
        for (int slab = 0; slab < plan.slabs_each; ++slab)
            for (int chunk = 0; chunk < plan.chunks; ++chunk)
                for (int i = 0; i < BLOCKS * BLOCK; ++i) {
                    const int row = SLAB * slab + i / BLOCK - (DOWN - 1), at = 16 * chunk + i % 16 - i / 16 % ACROSS;
                    const bool inside = row >= 0 && row < m.h && at >= 0 && at < m.w;
                    const size_t pixel = static_cast<size_t>(row) * m.w + at;
                    const bool counts = inside && (!mask || mask[pixel]);
                    slabs.push_back(!counts ? 0 : k == m.templates ? 1 : pixels[pixel]);
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
    const int kind = kindOf(stages.model) == SQUARED && stages.scores.maps ? SQUARED_MAPS : kindOf(stages.model);
    return cusi::launchOverlapped("cusMatcherRun", shape.kernels[kind], dim3(direct.tiles, count),
                                  threadsOf(shape.nx, kind), direct.shared, stream, stages.model, frames, stages.templates,
                                  stages.scores, direct, stages.refinement);
}

} // namespace cusi::match
