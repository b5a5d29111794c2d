// Fills holes: LOWER in one sweep over each row, ONCE and RELAX by iteration on tiles.
#include "device.h"
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

// ---- LOWER -------------------------------------------------------------------------------------------------------------

// Fills a hole with the smaller of the nearest elevations on either side. A warp handles a row, 32 columns at a time: to
// the right with the nearest elevation so far, then back.
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
// ONCE has T = uint16_t and 8 iterations a round, RELAX has T = float and 16. One cooperative launch makes all rounds.

constexpr int THREADS = 256;
constexpr unsigned MAX_BLOCKS = 65535;    // the limit of waitForAll()
constexpr long long SMALL_FILL = 1 << 20; // pixels below which smaller tiles occupy the device better

template<class T, int CORE_>
struct Tile {
    static constexpr bool RELAX = std::is_same_v<T, float>;
    static constexpr int CORE = CORE_;
    static constexpr int ROUND = RELAX ? int(STEREO_ROUND) : 8; // iterations, and width of the border
    static constexpr int SIDE = CORE + 2 * ROUND;
    T v[2][SIDE * SIDE]; // iterations alternate between the two
    uint16_t holes[SIDE * SIDE];
    unsigned count;
};

template<class T>
struct Map {
    T *data;
    size_t step;
    __device__ T *row(int y) const { return rowOf(data, step, y); }
};

template<class T>
struct FillParameters {
    Map<const uint16_t> holes; // the elevation
    Map<const T> start;        // input of the first round
    Map<T> filled, second;
    State *state;
    int rows, cols, tiles_across, tiles, iterations;
    float tolerance;
    bool wrapped;
};

// Loads the tile whose border starts at (y0, x0) and lists its holes, except those of the outermost ring.
template<class T, int CORE>
__device__ __forceinline__ void loadTile(Tile<T, CORE> &tile, const FillParameters<T> p, Map<const T> from, int x0,
                                         int y0) {
    constexpr int SIDE = Tile<T, CORE>::SIDE;
    constexpr bool RELAX = Tile<T, CORE>::RELAX;
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
                v[k] = from.row(y)[x];
                hole[k] = RELAX ? p.holes.row(y)[x] == 0 : v[k] == T(0);
            }
        }
#pragma unroll
        for (int k = 0; k < BATCH; ++k) {
            const int i = start + k * THREADS + threadIdx.x;
            if (i >= SIDE * SIDE)
                break;
            tile.v[0][i] = tile.v[1][i] = v[k];
            const int edge_y = i / SIDE, edge_x = i % SIDE;
            if (hole[k] && edge_y > 0 && edge_y < SIDE - 1 && edge_x > 0 && edge_x < SIDE - 1)
                tile.holes[atomicAdd(&tile.count, 1u)] = static_cast<uint16_t>(i);
        }
    }
}

// Iterates on the holes of a tile for at most a round. Returns which tile.v holds the result. *active: whether the last
// iteration still changed a pixel of the core (RELAX: by more than the tolerance).
template<class T, int CORE>
__device__ __forceinline__ int iterateTile(Tile<T, CORE> &tile, const FillParameters<T> &p, int iterations, bool *active) {
    constexpr int SIDE = Tile<T, CORE>::SIDE, ROUND = Tile<T, CORE>::ROUND;
    constexpr bool RELAX = Tile<T, CORE>::RELAX;
    int from = 0;
    *active = false;
    for (int i = 0; i < iterations; ++i) {
        const T *const a = tile.v[from];
        T *const b = tile.v[from ^ 1];
        bool changed = false, counts = false;
        for (unsigned k = threadIdx.x; k < tile.count; k += THREADS) {
            const int at = tile.holes[k];
            const T now = a[at], l = a[at - 1], r = a[at + 1], u = a[at - SIDE], d = a[at + SIDE];
            T next;
            if constexpr (RELAX) {
                // A value below zero is outside; the pixel's own value replaces it.
                next = __fmul_rn(
                    __fadd_rn(__fadd_rn(l < 0 ? now : l, r < 0 ? now : r), __fadd_rn(u < 0 ? now : u, d < 0 ? now : d)),
                    0.25f);
            } else {
                next = now ? now : static_cast<T>((l + r + u + d) / 4);
            }
            b[at] = next;
            if (next == now)
                continue;
            changed = true;
            if (!RELAX || i + 1 == iterations) { // where a change counts
                const int y = at / SIDE, x = at % SIDE;
                counts = counts || (y >= ROUND && y < SIDE - ROUND && x >= ROUND && x < SIDE - ROUND &&
                                    (!RELAX || fabsf(__fsub_rn(next, now)) > p.tolerance));
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

// Writes the core of a tile and extends the range that this thread has seen.
template<class T, int CORE>
__device__ __forceinline__ void storeTile(const Tile<T, CORE> &tile, int result, const FillParameters<T> p, Map<T> to,
                                          int x0, int y0, unsigned &seen_inverted_min, unsigned &seen_max) {
    constexpr int SIDE = Tile<T, CORE>::SIDE, ROUND = Tile<T, CORE>::ROUND;
    for (int i = threadIdx.x; i < CORE * CORE; i += THREADS) {
        const int ty = i / CORE + ROUND, tx = i % CORE + ROUND, y = y0 + ty, x = x0 + tx;
        if (y < p.rows && x < p.cols) {
            const T v = tile.v[result][ty * SIDE + tx];
            to.row(y)[x] = v;
            seen_inverted_min = max(seen_inverted_min, ~toOrderedBits(v));
            seen_max = max(seen_max, toOrderedBits(v));
        }
    }
}

// Runs one round over this block's tiles. Returns whether one of them is still active. seen_...: the range of values that
// this thread has written.
template<class T, int CORE>
__device__ __forceinline__ bool fillRound(Tile<T, CORE> &tile, const FillParameters<T> p, Map<const T> from, Map<T> to,
                                          int iterations, unsigned &seen_inverted_min, unsigned &seen_max) {
    constexpr int ROUND = Tile<T, CORE>::ROUND;
    bool any_active = false;
    seen_inverted_min = seen_max = 0;
    for (int t = blockIdx.x; t < p.tiles; t += gridDim.x) {
        const int x0 = t % p.tiles_across * CORE - ROUND, y0 = t / p.tiles_across * CORE - ROUND;
        __syncthreads();
        if (threadIdx.x == 0)
            tile.count = 0;
        __syncthreads();
        loadTile(tile, p, from, x0, y0);
        __syncthreads();
        bool active;
        const int result = iterateTile(tile, p, iterations, &active);
        any_active |= active;
        storeTile(tile, result, p, to, x0, y0, seen_inverted_min, seen_max);
    }
    return any_active;
}

// Waits for all blocks, and returns whether any of their threads is active. Rounds take turns at three words, and the next
// word is cleared while no block uses it.
__device__ __forceinline__ bool waitForAll(State *state, int round, bool active) {
    __shared__ bool any_active;
    constexpr unsigned ONE_ACTIVE = MAX_BLOCKS + 1; // the word counts arrived blocks by 1, active blocks by this
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

template<class T, int CORE>
__global__ void __launch_bounds__(THREADS) fillKernel(const FillParameters<T> p) {
    constexpr int ROUND = Tile<T, CORE>::ROUND;
    extern __shared__ unsigned shared[];
    Tile<T, CORE> &tile = *reinterpret_cast<Tile<T, CORE> *>(shared);
    Map<const T> from = p.start;
    Map<T> to = Tile<T, CORE>::RELAX ? p.second : p.filled; // RELAX starts from p.filled
    unsigned seen_inverted_min, seen_max;
    for (int done = 0, round = 0;; ++round) {
        const int iterations = min(ROUND, p.iterations - done);
        bool active = fillRound(tile, p, from, to, iterations, seen_inverted_min, seen_max);
        done += iterations;
        if (done < p.iterations || to.data != p.filled.data)
            active = waitForAll(p.state, round, active);
        // The map is now in `to`, the input of a next round.
        if (done >= p.iterations || !active)
            break;
        from = {to.data, to.step};
        to = to.data == p.second.data ? p.filled : p.second;
    }
    if (to.data != p.filled.data)
        for (int y = blockIdx.x; y < p.rows; y += gridDim.x)
            for (int x = threadIdx.x; x < p.cols; x += THREADS)
                p.filled.row(y)[x] = p.second.row(y)[x];
    mergeRange(p.state, seen_inverted_min, seen_max);
}

// ---- Launches ----------------------------------------------------------------------------------------------------------

template<class T, int CORE>
cusStatus iterate(const char *function, const cusMat &holes, const cusMat &start, cusMat &filled, const cusStereoOptions &o,
                  StereoScratch &scratch, cudaStream_t stream) {
    constexpr int SHARED = sizeof(Tile<T, CORE>);
    FillParameters<T> p = {};
    p.holes = {static_cast<const uint16_t *>(holes.data), holes.step};
    p.start = {static_cast<const T *>(start.data), start.step};
    p.filled = {static_cast<T *>(filled.data), filled.step};
    p.second = {static_cast<T *>(scratch.words), static_cast<size_t>(filled.cols) * sizeof(T)};
    p.state = stateOf(scratch);
    p.rows = filled.rows;
    p.cols = filled.cols;
    p.tiles_across = divUp(p.cols, CORE);
    p.iterations = o.iterations;
    p.tolerance = o.tolerance;
    p.wrapped = o.border == CUS_STEREO_WRAP;
    const long long tiles = static_cast<long long>(p.tiles_across) * divUp(p.rows, CORE);
    CUSI_REQUIRE(tiles < INT32_MAX, CUS_ERROR_SIZE, "%s: elevation is %d x %d (rows x cols), too large to fill", function,
                 p.rows, p.cols);
    p.tiles = static_cast<int>(tiles);
    int sms = 0, resident = 0;
    CUSI_CUDA(function, multiprocessors(&sms));
    CUSI_CUDA(function, cudaFuncSetAttribute(fillKernel<T, CORE>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    CUSI_CUDA(function,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, fillKernel<T, CORE>, THREADS, size_t{SHARED}));
    const int blocks = std::min({tiles, static_cast<long long>(sms) * resident, static_cast<long long>(MAX_BLOCKS)});
    void *arguments[] = {&p};
    CUS_TRY(clearState(function, scratch, stream));
    scratch.cleared = 0;
    CUS_TRY(cudaStatus(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(fillKernel<T, CORE>), dim3(blocks),
                                                   dim3(THREADS), arguments, size_t{SHARED}, stream),
                       function, "kernel launch"));
    scratch.ranged = filled.data;
    return CUS_OK;
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_fill(const char *function, cusStream stream, const cusMat *elevation, cusMat *filled,
                           const cusStereoOptions *options, StereoScratch *scratch) {
    using namespace cusi::stereo;
    const cusMat &holes = *elevation;
    const cusStereoOptions &o = *options;
    if (o.fill == CUS_FILL_NONE || (o.fill == CUS_FILL_ONCE && o.iterations == 0))
        return cusi_deviceCopyWithin(function, elevation, filled, stream);
    if (o.fill == CUS_FILL_ONCE)
        return static_cast<long long>(holes.rows) * holes.cols < SMALL_FILL
                   ? iterate<uint16_t, 32>(function, holes, holes, *filled, o, *scratch, stream)
                   : iterate<uint16_t, 64>(function, holes, holes, *filled, o, *scratch, stream);
    const auto fillLower = [&](auto *kernel) {
        return cusi::launchOverlapped(function, kernel, std::min(cusi::divUp(holes.rows, 8), 1 << 20), 256, 0, stream,
                                      holes.data, holes.step, filled->data, filled->step, holes.rows, holes.cols);
    };
    if (o.fill == CUS_FILL_LOWER)
        return fillLower(lowerKernel<uint16_t>);
    CUS_TRY(fillLower(lowerKernel<float>));
    return o.iterations > 0 ? iterate<float, 32>(function, holes, *filled, *filled, o, *scratch, stream) : CUS_OK;
}
