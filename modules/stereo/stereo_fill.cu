// Filling holes: LOWER in one sweep over each row, ONCE and RELAX by iteration on tiles.
#include "stereo_cuda.cuh"

namespace cusi::stereo {
namespace {

// ---- LOWER -------------------------------------------------------------------------------------------------------------

// The smaller of the nearest elevations on either side. A warp takes a row, 32 columns at a time: to the right with the
// nearest so far, then back.
template<class T>
__global__ void __launch_bounds__(256)
    lowerKernel(const uint16_t *holes, size_t holes_step, T *out, size_t out_step, int rows, int cols) {
    startInOrder();
    constexpr int AHEAD = 4;
    const unsigned lane = threadIdx.x % 32;
    for (int y = blockIdx.x * 8 + threadIdx.x / 32; y < rows; y += gridDim.x * 8) {
        const uint16_t *const in = rowOf(holes, holes_step, y);
        T *const to = rowOf(out, out_step, y);
        unsigned nearest = 0;
        for (int x = 0; x < cols; x += 32 * AHEAD) {
            unsigned v[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int at = x + 32 * k + lane;
                v[k] = at < cols ? in[at] : 0;
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const unsigned known = __ballot_sync(FULL_WARP, v[k] != 0);
                const unsigned before = known & (FULL_WARP >> (31 - lane));
                const unsigned found = __shfl_sync(FULL_WARP, v[k], before ? 31 - __clz(before) : 0);
                const int at = x + 32 * k + lane;
                if (at < cols)
                    to[at] = static_cast<T>(before ? found : nearest);
                const unsigned last = __shfl_sync(FULL_WARP, v[k], known ? 31 - __clz(known) : 0);
                nearest = known ? last : nearest;
            }
        }
        nearest = 0;
        for (int x = (cols - 1) / (32 * AHEAD) * (32 * AHEAD); x >= 0; x -= 32 * AHEAD) {
            unsigned v[AHEAD], l[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int at = x + 32 * k + lane;
                v[k] = at < cols ? in[at] : 0;
                l[k] = at < cols ? static_cast<unsigned>(to[at]) : 0; // this lane wrote it above
            }
#pragma unroll
            for (int k = AHEAD - 1; k >= 0; --k) {
                const unsigned known = __ballot_sync(FULL_WARP, v[k] != 0);
                const unsigned after = known & (FULL_WARP << lane);
                const unsigned found = __shfl_sync(FULL_WARP, v[k], after ? __ffs(after) - 1 : 0);
                const unsigned right = after ? found : nearest;
                const int at = x + 32 * k + lane;
                if (at < cols && v[k] == 0 && right && (l[k] == 0 || right < l[k]))
                    to[at] = static_cast<T>(right);
                const unsigned first = __shfl_sync(FULL_WARP, v[k], known ? __ffs(known) - 1 : 0);
                nearest = known ? first : nearest;
            }
        }
    }
}

// ---- ONCE and RELAX ----------------------------------------------------------------------------------------------------
// ONCE has T = uint16_t and 8 iterations a round, RELAX T = float and 16. A block loads a tile and a border as wide as a
// round has iterations into shared memory, lists the holes, iterates on those alone until nothing changes, and writes the
// tile. All rounds are one cooperative launch: the blocks wait for each other after each round and end early once all have
// settled.
// ONCE usually needs a single round, which reads and writes the map once.
// RELAX: a pixel that is n from the tile's edge matters to the core up to iteration n of a round. So holes near the edge, which
// are listed apart, take part in the first half of a round only.

constexpr int USUAL_THREADS = 256;
constexpr int MOST_THREADS = 1024;        // RELAX, where a block has a multiprocessor to itself
constexpr unsigned MOST_BLOCKS = 65535;   // that wait for each other
constexpr unsigned DENSE_SHARE = 4;       // RELAX: a tile of which more than a 4th are holes is iterated on as a whole
constexpr long long SMALL_FILL = 1 << 20; // pixels; below this smaller tiles occupy the device better

template<class T, int CORE_, int THREADS_>
struct Tile {
    static constexpr bool RELAX = std::is_same_v<T, float>;
    static constexpr int CORE = CORE_;
    static constexpr int ROUND = RELAX ? int(STEREO_ROUND) : 8; // iterations, and width of the border
    static constexpr int SIDE = CORE + 2 * ROUND;
    static constexpr int HALF = ROUND / 2, LAST = SIDE * SIDE - 1;
    T v[2][SIDE * SIDE]; // the iterations alternate
    uint16_t holes[SIDE * SIDE];
    unsigned count;
    unsigned near_edge;         // RELAX: holes within HALF of the edge, which are listed from LAST down
    unsigned inverted_min, max; // of what this block has written
    // Whether tiles with many holes are iterated on as a whole; the holes, one bit each.
    static constexpr bool MAY_BE_DENSE = RELAX && THREADS_ == MOST_THREADS;
    unsigned bits[MAY_BE_DENSE ? SIDE * SIDE / 32 : 1];
};

template<class T>
struct FillParameters {
    const uint16_t *holes; // the elevation
    const T *start;        // input of the first round
    T *filled, *second;
    State *state;
    size_t holes_step, start_step, filled_step;
    int rows, cols, tiles_across, tiles, iterations;
    float tolerance;
    bool wrapped;
};

// Loads the tile whose border starts at (y0, x0) and lists its holes, except those of the outermost ring. HOLES: false if they
// have been listed before.
template<bool HOLES, class T, int CORE, int THREADS>
__device__ __forceinline__ void loadTile(Tile<T, CORE, THREADS> &tile, const FillParameters<T> p, const T *from,
                                         size_t from_step, int x0, int y0) {
    constexpr int SIDE = Tile<T, CORE, THREADS>::SIDE;
    constexpr bool RELAX = Tile<T, CORE, THREADS>::RELAX;
    constexpr int BATCH = SIDE * SIDE < 8 * THREADS ? SIDE * SIDE / THREADS : 8; // loads in flight at once
    for (int start = 0; start < SIDE * SIDE; start += BATCH * THREADS) {
        T v[BATCH];
        bool hole[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
            const int i = start + k * THREADS + threadIdx.x;
            int y = y0 + i / SIDE, x = x0 + i % SIDE;
            const bool outside = y < 0 || y >= p.rows || x < 0 || x >= p.cols;
            v[k] = RELAX ? T(-1) : T(0);
            hole[k] = false;
            if (i < SIDE * SIDE && (!outside || p.wrapped)) {
                if (outside) {
                    y = wrap(y, p.rows);
                    x = wrap(x, p.cols);
                }
                v[k] = rowOf(from, from_step, y)[x];
                hole[k] = HOLES && (RELAX ? rowOf(p.holes, p.holes_step, y)[x] == 0 : v[k] == T(0));
            }
        }
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
            const int i = start + k * THREADS + threadIdx.x;
            if (i >= SIDE * SIDE)
                break;
            tile.v[0][i] = tile.v[1][i] = v[k];
            if (!HOLES)
                continue;
            const int edge_y = i / SIDE, edge_x = i % SIDE;
            const bool listed = hole[k] && edge_y > 0 && edge_y < SIDE - 1 && edge_x > 0 && edge_x < SIDE - 1;
            if constexpr (Tile<T, CORE, THREADS>::MAY_BE_DENSE) {
                static_assert(SIDE * SIDE % 32 == 0, "warps get here as a whole");
                const unsigned bits = __ballot_sync(FULL_WARP, listed);
                if (threadIdx.x % 32 == 0)
                    tile.bits[i / 32] = bits;
            }
            if (listed) {
                constexpr int HALF = Tile<T, CORE, THREADS>::HALF, LAST = Tile<T, CORE, THREADS>::LAST;
                if (RELAX && (edge_y <= HALF || edge_y >= SIDE - 1 - HALF || edge_x <= HALF || edge_x >= SIDE - 1 - HALF))
                    tile.holes[LAST - atomicAdd(&tile.near_edge, 1u)] = static_cast<uint16_t>(i);
                else
                    tile.holes[atomicAdd(&tile.count, 1u)] = static_cast<uint16_t>(i);
            }
        }
    }
}

// Iterates on the holes of a tile, up to a round. Returns which tile.v holds the result. *active: the last iteration still
// changed a pixel of the core (RELAX: by more than the tolerance).
template<class T, int CORE, int THREADS>
__device__ __forceinline__ int iterateTile(Tile<T, CORE, THREADS> &tile, const FillParameters<T> &p, int iterations,
                                           bool *active) {
    constexpr int SIDE = Tile<T, CORE, THREADS>::SIDE, ROUND = Tile<T, CORE, THREADS>::ROUND;
    constexpr bool RELAX = Tile<T, CORE, THREADS>::RELAX;
    int from = 0;
    *active = false;
    for (int i = 0; i < iterations; ++i) {
        const T *const a = tile.v[from];
        T *const b = tile.v[from ^ 1];
        bool changed = false, counts = false;
        // ONCE's are counted anew at each step
        const unsigned inner = RELAX ? tile.count : 0,
                       listed = inner + (RELAX && i < Tile<T, CORE, THREADS>::HALF ? tile.near_edge : 0);
        for (unsigned k = threadIdx.x; RELAX ? k < listed : k < tile.count; k += THREADS) {
            const int at = tile.holes[RELAX && k >= inner ? Tile<T, CORE, THREADS>::LAST - (k - inner) : k];
            const T now = a[at], l = a[at - 1], r = a[at + 1], u = a[at - SIDE], d = a[at + SIDE];
            T next;
            if constexpr (RELAX) {
                // Below zero: outside, replaced by the pixel's own value.
                next = __fmul_rn(
                    __fadd_rn(__fadd_rn(l < 0 ? now : l, r < 0 ? now : r), __fadd_rn(u < 0 ? now : u, d < 0 ? now : d)),
                    0.25f);
            } else {
                next = now ? now : static_cast<T>((l + r + u + d) / 4);
            }
            b[at] = next;
            if constexpr (RELAX) {
                changed |= next != now;
                if (i + 1 == iterations && fabsf(__fsub_rn(next, now)) > p.tolerance) {
                    const int y = at / SIDE, x = at % SIDE;
                    counts |= y >= ROUND && y < SIDE - ROUND && x >= ROUND && x < SIDE - ROUND;
                }
            } else if (next != now) {
                changed = true;
                const int y = at / SIDE, x = at % SIDE;
                counts = counts || (y >= ROUND && y < SIDE - ROUND && x >= ROUND && x < SIDE - ROUND);
            }
        }
        from ^= 1;
        if (!__syncthreads_or(changed)) {
            *active = false;
            break;
        }
        *active = counts;
    }
    return from;
}

// As iterateTile() for RELAX, where many pixels are holes: a lane keeps two columns of each of its warp's rows in registers and
// computes every pixel, hole or not, without a list. Both rows go through shared memory, too, for the warps above and below.
template<int CORE, int THREADS>
__device__ __forceinline__ int iterateDenseTile(Tile<float, CORE, THREADS> &tile, const FillParameters<float> &p,
                                                int tile_x, int tile_y, int iterations, bool *active) {
    constexpr int SIDE = Tile<float, CORE, THREADS>::SIDE, ROUND = Tile<float, CORE, THREADS>::ROUND;
    constexpr int ROWS = SIDE / (THREADS / 32), PAIRS = SIDE / 2, ASKED = 4;
    static_assert(PAIRS == 32, "a warp's lanes have two columns each");
    static_assert(ROWS == 2, "and two rows, each beside another warp's");
    const int lane = threadIdx.x % 32, y0 = threadIdx.x / 32 * ROWS;
    float2 v[ROWS];
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        v[r] = reinterpret_cast<const float2 *>(tile.v[0])[(y0 + r) * PAIRS + lane];
        bits |= (tile.bits[(y0 + r) * 2 + lane / 16] >> lane % 16 * 2 & 3) << 2 * r;
    }
    // The image's first and last row and column, beyond which a pixel's own value takes the place of a neighbor's.
    const int first_x = p.wrapped ? -1 : -tile_x, last_x = p.wrapped ? -1 : p.cols - 1 - tile_x;
    const int first_y = p.wrapped ? -1 : -tile_y, last_y = p.wrapped ? -1 : p.rows - 1 - tile_y;
    static_assert(CORE % 2 == 0 && ROUND % 2 == 0, "the first column of the image is the first of a lane");
    const bool left_out = 2 * lane == first_x, right_out = 2 * lane == last_x, next_right_out = 2 * lane + 1 == last_x;
    const auto average = [](float l, float r, float u, float d) {
        return __fmul_rn(__fadd_rn(__fadd_rn(l, r), __fadd_rn(u, d)), 0.25f);
    };
    int from = 0;
    *active = false;
#pragma unroll ASKED
    for (int i = 0; i < iterations; ++i) {
        const bool asks = i % ASKED == 0; // whether anything still changes
        bool changed = false, counts = false;
        if (y0 + ROWS - 1 > i && y0 < SIDE - 1 - i) { // other rows can no longer reach the core
            const float2 *const a = reinterpret_cast<const float2 *>(tile.v[from]);
            float2 *const b = reinterpret_cast<float2 *>(tile.v[from ^ 1]);
            float2 above = a[max(y0 - 1, 0) * PAIRS + lane];
            const float2 below = a[min(y0 + ROWS, SIDE - 1) * PAIRS + lane];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const float2 now = v[r], up = y0 + r == first_y ? now : above;
                const float2 down = y0 + r == last_y ? now : r + 1 < ROWS ? v[r + 1 < ROWS ? r + 1 : r] : below;
                const float left = __shfl_up_sync(FULL_WARP, now.y, 1), right = __shfl_down_sync(FULL_WARP, now.x, 1);
                const float x = average(left_out ? now.x : left, right_out ? now.x : now.y, up.x, down.x);
                const float y = average(now.x, next_right_out ? now.y : right, up.y, down.y);
                v[r] = make_float2(bits >> 2 * r & 1 ? x : now.x, bits >> 2 * r & 2 ? y : now.y);
                if (asks)
                    changed |= v[r].x != now.x || v[r].y != now.y;
                if (i + 1 == iterations && y0 + r >= ROUND && y0 + r < SIDE - ROUND && lane >= ROUND / 2 &&
                    lane < (SIDE - ROUND) / 2)
                    counts |=
                        fabsf(__fsub_rn(v[r].x, now.x)) > p.tolerance || fabsf(__fsub_rn(v[r].y, now.y)) > p.tolerance;
                above = now;
            }
            b[y0 * PAIRS + lane] = v[0];
            b[(y0 + 1) * PAIRS + lane] = v[1];
        }
        from ^= 1;
        if (!asks) {
            __syncthreads();
        } else if (!__syncthreads_or(changed)) {
            *active = false;
            break;
        }
        *active = counts;
    }
    return from;
}

// Writes the core of a tile and extends the range that this thread has seen.
template<class T, int CORE, int THREADS>
__device__ __forceinline__ void storeTile(const Tile<T, CORE, THREADS> &tile, int result, const FillParameters<T> p, T *to,
                                          size_t to_step, int x0, int y0, unsigned &seen_inverted_min, unsigned &seen_max) {
    constexpr int SIDE = Tile<T, CORE, THREADS>::SIDE, ROUND = Tile<T, CORE, THREADS>::ROUND;
    for (int i = threadIdx.x; i < CORE * CORE; i += THREADS) {
        const int ty = i / CORE + ROUND, tx = i % CORE + ROUND, y = y0 + ty, x = x0 + tx;
        if (y < p.rows && x < p.cols) {
            const T v = tile.v[result][ty * SIDE + tx];
            rowOf(to, to_step, y)[x] = v;
            seen_inverted_min = max(seen_inverted_min, ~toOrderedBits(v));
            seen_max = max(seen_max, toOrderedBits(v));
        }
    }
}

// One round over this block's tiles. Returns whether one of them is still active; `seen_...`: the range of what this thread has
// written. has_holes: this block's only tile has been loaded in an earlier round, and its holes, which stay the same, are listed.
template<class T, int CORE, int THREADS>
__device__ __forceinline__ bool fillRound(Tile<T, CORE, THREADS> &tile, const FillParameters<T> p, const T *from,
                                          size_t from_step, T *to, size_t to_step, int iterations, bool has_holes,
                                          unsigned &seen_inverted_min, unsigned &seen_max) {
    constexpr int ROUND = Tile<T, CORE, THREADS>::ROUND;
    constexpr bool RELAX = Tile<T, CORE, THREADS>::RELAX;
    bool any_active = false;
    seen_inverted_min = seen_max = 0;
    for (int t = blockIdx.x; t < p.tiles; t += gridDim.x) {
        const int x0 = t % p.tiles_across * CORE - ROUND, y0 = t / p.tiles_across * CORE - ROUND;
        __syncthreads();
        if (Tile<T, CORE, THREADS>::MAY_BE_DENSE && has_holes) {
            loadTile<false>(tile, p, from, from_step, x0, y0);
        } else {
            if (threadIdx.x == 0)
                tile.count = 0;
            if (RELAX && threadIdx.x == 0)
                tile.near_edge = 0;
            __syncthreads();
            loadTile<true>(tile, p, from, from_step, x0, y0);
        }
        __syncthreads();
        bool active;
        int result;
        if constexpr (Tile<T, CORE, THREADS>::MAY_BE_DENSE)
            result = tile.count + tile.near_edge > sizeof tile.holes / sizeof *tile.holes / DENSE_SHARE
                         ? iterateDenseTile(tile, p, x0, y0, iterations, &active)
                         : iterateTile(tile, p, iterations, &active);
        else
            result = iterateTile(tile, p, iterations, &active);
        any_active |= active;
        storeTile(tile, result, p, to, to_step, x0, y0, seen_inverted_min, seen_max);
    }
    return any_active;
}

// Waits for all blocks, and returns whether a thread of any of them is active. Rounds take turns at three words, of which
// the next one is cleared while nobody uses it.
__device__ __forceinline__ bool waitForAll(State *state, int round, bool active) {
    __shared__ bool any_active;
    constexpr unsigned ONE_ACTIVE = MOST_BLOCKS + 1; // blocks that have arrived, and of these the active ones
    const bool block_active = __syncthreads_or(active);
    if (threadIdx.x == 0) {
        unsigned *const word = &state->arrived[round % 3], arrived;
        if (blockIdx.x == 0)
            state->arrived[(round + 1) % 3] = 0;
        __threadfence();
        atomicAdd(word, block_active ? ONE_ACTIVE + 1 : 1);
        do
            arrived = loadRelaxed(word);
        while (arrived % ONE_ACTIVE < gridDim.x);
        __threadfence();
        any_active = arrived >= ONE_ACTIVE;
    }
    __syncthreads();
    return any_active;
}

template<class T, int CORE, int THREADS>
__global__ void __launch_bounds__(THREADS) fillKernel(const FillParameters<T> p) {
    constexpr int ROUND = Tile<T, CORE, THREADS>::ROUND;
    extern __shared__ unsigned shared[];
    Tile<T, CORE, THREADS> &tile = *reinterpret_cast<Tile<T, CORE, THREADS> *>(shared);
    const T *from = p.start;
    size_t from_step = p.start_step;
    T *to = p.filled;
    size_t to_step = p.filled_step;
    unsigned seen_inverted_min, seen_max;
    if (threadIdx.x == 0)
        tile.inverted_min = tile.max = 0;
    if (Tile<T, CORE, THREADS>::RELAX) { // starts from p.filled, so the first round writes elsewhere
        to = p.second;
        to_step = static_cast<size_t>(p.cols) * sizeof(T);
    }
    for (int done = 0, round = 0;; ++round) {
        const int iterations = min(ROUND, p.iterations - done);
        const bool has_holes = round > 0 && gridDim.x >= static_cast<unsigned>(p.tiles);
        bool active = fillRound(tile, p, from, from_step, to, to_step, iterations, has_holes, seen_inverted_min, seen_max);
        done += iterations;
        if (done < p.iterations || to != p.filled)
            active = waitForAll(p.state, round, active);
        // The map is now in `to`, which the next round would read.
        if (done >= p.iterations || !active)
            break;
        from = to;
        from_step = to_step;
        const bool into_filled = to == p.second;
        to = into_filled ? p.filled : p.second;
        to_step = into_filled ? p.filled_step : static_cast<size_t>(p.cols) * sizeof(T);
    }
    if (to != p.filled)
        for (int y = blockIdx.x; y < p.rows; y += gridDim.x)
            for (int x = threadIdx.x; x < p.cols; x += THREADS)
                rowOf(p.filled, p.filled_step, y)[x] = p.second[static_cast<size_t>(y) * p.cols + x];
    mergeRange(&tile.inverted_min, &tile.max, seen_inverted_min, seen_max); // the block's first
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(&p.state->range_inverted_min, tile.inverted_min);
        atomicMax(&p.state->range_max, tile.max);
    }
}

// ---- Launches ----------------------------------------------------------------------------------------------------------

template<class T, int CORE>
FillParameters<T> parametersOf(const cusMat &holes, const cusMat &start, cusMat &filled, const cusStereoOptions &o,
                               const StereoScratch &scratch) {
    FillParameters<T> p = {};
    p.holes = static_cast<const uint16_t *>(holes.data);
    p.holes_step = holes.step;
    p.start = static_cast<const T *>(start.data);
    p.start_step = start.step;
    p.filled = static_cast<T *>(filled.data);
    p.filled_step = filled.step;
    p.second = static_cast<T *>(scratch.words);
    p.state = static_cast<State *>(scratch.block);
    p.rows = filled.rows;
    p.cols = filled.cols;
    p.tiles_across = divUp(p.cols, CORE);
    p.iterations = o.iterations;
    p.tolerance = o.tolerance;
    p.wrapped = o.border == CUS_STEREO_WRAP;
    return p;
}

template<class T, int CORE, int THREADS>
cusStatus iterate(const char *function, const cusMat &holes, const cusMat &start, cusMat &filled, const cusStereoOptions &o,
                  const StereoScratch &scratch, cudaStream_t stream) {
    constexpr int SHARED = sizeof(Tile<T, CORE, THREADS>);
    FillParameters<T> p = parametersOf<T, CORE>(holes, start, filled, o, scratch);
    const long long tiles = static_cast<long long>(p.tiles_across) * divUp(p.rows, CORE);
    CUSI_REQUIRE(tiles < INT32_MAX, CUS_ERROR_SIZE, "%s: elevation is %d x %d (rows x cols), too large to fill", function,
                 p.rows, p.cols);
    p.tiles = static_cast<int>(tiles);
    int sms = 0, resident = 0;
    CUSI_CUDA(function, multiprocessors(&sms));
    CUSI_CUDA(function,
              cudaFuncSetAttribute(fillKernel<T, CORE, THREADS>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    CUSI_CUDA(function, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, fillKernel<T, CORE, THREADS>, THREADS,
                                                                      size_t{SHARED}));
    const int blocks = std::min({tiles, static_cast<long long>(sms) * resident, static_cast<long long>(MOST_BLOCKS)});
    void *arguments[] = {&p};
    return cudaStatus(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(fillKernel<T, CORE, THREADS>),
                                                  dim3(blocks), dim3(THREADS), arguments, size_t{SHARED}, stream),
                      function, "kernel launch");
}

template<class T>
cusStatus fillLower(const char *function, const cusMat &holes, cusMat &filled, cudaStream_t stream) {
    const int blocks = std::min(divUp(holes.rows, 8), 1 << 20);
    return launchOverlapped(function, lowerKernel<T>, blocks, 256, 0, stream, static_cast<const uint16_t *>(holes.data),
                            holes.step, static_cast<T *>(filled.data), filled.step, holes.rows, holes.cols);
}

// Starts from what is in `filled`. As many threads as possible where there are not enough tiles for all multiprocessors.
cusStatus relax(const char *function, const cusMat &holes, cusMat &filled, const cusStereoOptions &options,
                const StereoScratch &scratch, cudaStream_t stream) {
    constexpr int CORE = 32;
    int sms = 0;
    CUSI_CUDA(function, multiprocessors(&sms));
    return static_cast<long long>(divUp(holes.rows, CORE)) * divUp(holes.cols, CORE) <= sms
               ? iterate<float, CORE, MOST_THREADS>(function, holes, filled, filled, options, scratch, stream)
               : iterate<float, CORE, USUAL_THREADS>(function, holes, filled, filled, options, scratch, stream);
}

cusStatus copy(const char *function, const cusMat &src, cusMat &dst, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemcpy2DAsync(dst.data, dst.step, src.data, src.step, cusi_rowBytes(&src), src.rows,
                                          cudaMemcpyDeviceToDevice, stream));
    return CUS_OK;
}

} // namespace

cusStatus fill(const char *function, const cusMat &holes, cusMat &filled, const cusStereoOptions &options,
               const StereoScratch &scratch, cudaStream_t stream) {
    if (options.fill == CUS_FILL_NONE || (options.fill == CUS_FILL_ONCE && options.iterations == 0))
        return copy(function, holes, filled, stream);
    if (options.fill == CUS_FILL_ONCE)
        return static_cast<long long>(holes.rows) * holes.cols < SMALL_FILL
                   ? iterate<uint16_t, 32, USUAL_THREADS>(function, holes, holes, filled, options, scratch, stream)
                   : iterate<uint16_t, 64, USUAL_THREADS>(function, holes, holes, filled, options, scratch, stream);
    if (options.fill == CUS_FILL_LOWER)
        return fillLower<uint16_t>(function, holes, filled, stream);
    CUS_TRY(fillLower<float>(function, holes, filled, stream));
    return options.iterations > 0 ? relax(function, holes, filled, options, scratch, stream) : CUS_OK;
}

} // namespace cusi::stereo
