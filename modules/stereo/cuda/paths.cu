// Finds the best disparity of every pixel by semi-global matching: aggregation PATHS. G lanes follow one path, and each has
// K neighboring shifts of its pixels, two in a register. All paths run at once, each with sums of its own, since adding to
// common sums would take more reads and writes. Three passes: costs, paths, and the best shifts in both images.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

constexpr int WARPS = 4;                                        // of a block that follows paths or chooses shifts
constexpr int COST_WARPS = 8, COST_COLS = 128, COST_STEPS = 16; // a warp makes the costs of COST_STEPS pixels
constexpr int CHOICE_COLS = 128;
constexpr unsigned OUTSIDE = 0x80008000; // sums beyond the first and the last shift

struct PathParameters {
    const unsigned char *left, *right;
    size_t left_step, right_step;
    int rows, cols, shifts, lanes, radius, direction, paths;
    bool wrapped, prefer_smaller;
    unsigned p1, p2, full, far;
    const unsigned char *image; // where P2 falls with the gradient, or NULL
    size_t image_step;
    int image_type, p2_slope;
    void *costs, *sums;   // [y][x][lanes]; the latter of each path
    uint32_t *right_keys; // of all pixels, or NULL
    uint16_t *out;
    size_t out_step;
    bool refined;
    int subpixel_bits, min_confidence;
    unsigned char *confidence;
    size_t confidence_step;

    __device__ size_t pixels() const { return static_cast<size_t>(rows) * cols; }
};

// The K values of a lane, which are loaded and stored at once as far as their alignment allows.
template<class T, int K>
struct alignas(K * sizeof(T) % 16 == 0  ? 16
               : K * sizeof(T) % 8 == 0 ? 8
                                        : 4) Lane {
    unsigned words[K * sizeof(T) / 4];

    // Values 2 j and 2 j + 1 in the halves of a word.
    __device__ unsigned pair(int j) const {
        if constexpr (sizeof(T) == 2)
            return words[j];
        else
            return __byte_perm(words[j / 2], 0, j % 2 ? 0x4342 : 0x4140);
    }
    __device__ void setPairs(const unsigned (&pairs)[K / 2]) {
#pragma unroll
        for (int i = 0; i < static_cast<int>(K * sizeof(T) / 4); ++i)
            if constexpr (sizeof(T) == 2)
                words[i] = pairs[i];
            else
                words[i] = __byte_perm(pairs[2 * i], pairs[2 * i + 1], 0x6420);
    }
};

// The smallest value of G neighboring lanes, in each of them.
template<int G>
__device__ inline unsigned groupMin(unsigned v) {
    if constexpr (G == 32) {
        return ~warpMax(~v);
    } else {
#pragma unroll
        for (int d = G / 2; d > 0; d /= 2)
            v = min(v, __shfl_xor_sync(FULL_WARP, v, d));
        return v;
    }
}

// ---- Costs -------------------------------------------------------------------------------------------------------------

// Stacks in shared memory, of four codes of a column: PLANES of them cover the window's rows. Those of COST_COLS pixels and
// the columns around them come first, then those of their matches.
template<int RADIUS>
struct CodeStacks {
    static constexpr int WINDOW = 2 * RADIUS + 1, PLANES = (WINDOW + 3) / 4, COLS = COST_COLS + 2 * RADIUS;

    __host__ __device__ static int pitch(int lanes) { return 2 * COLS + lanes; }

    __device__ static void make(const PathParameters &p, int y, int first, unsigned *stacks) {
        for (int i = threadIdx.x; i < pitch(p.lanes); i += 32 * COST_WARPS) {
            const bool is_left = i < COLS;
            int x = first + i - (is_left ? 0 : p.direction > 0 ? COLS : COLS + p.lanes - 1);
            if (x < 0 || x >= p.cols) // without WRAP the costs of what lies outside do not depend on it
                x = p.wrapped ? wrap(x, p.cols) : 0;
            unsigned stack[PLANES] = {};
#pragma unroll
            for (int k = 0; k < WINDOW; ++k) {
                int row = y - RADIUS + k;
                unsigned code = is_left ? (1 << STEREO_OUTSIDE) - 1 : 0; // outside, so many bits differ
                if (row < 0 || row >= p.rows)
                    row = p.wrapped ? wrap(row, p.rows) : -1;
                if (row >= 0)
                    code = is_left ? rowOf(p.left, p.left_step, row)[x] : rowOf(p.right, p.right_step, row)[x];
                stack[k / 4] |= code << (8 * (k % 4));
            }
#pragma unroll
            for (int k = 0; k < PLANES; ++k)
                stacks[k * pitch(p.lanes) + i] = stack[k];
        }
        __syncthreads();
    }
};

// A lane has one shift.
template<class T, int RADIUS>
__global__ void __launch_bounds__(32 * COST_WARPS) costsKernel(PathParameters p) {
    using Stacks = CodeStacks<RADIUS>;
    extern __shared__ unsigned stacks[];
    startInOrder();
    const int parts = divUp(p.cols, COST_COLS), x0 = static_cast<int>(blockIdx.x % parts) * COST_COLS;
    const int y = static_cast<int>(blockIdx.x / parts), pitch = Stacks::pitch(p.lanes);
    Stacks::make(p, y, x0 - RADIUS, stacks);
    const int groups = p.lanes / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int task = warp; task < groups * (COST_COLS / COST_STEPS); task += COST_WARPS) {
        const int shift = task % groups * 32 + lane, from = task / groups * COST_STEPS;
        const unsigned *const pixels = stacks + from;
        const unsigned *const matches = pixels + Stacks::COLS + (p.direction > 0 ? shift : p.lanes - 1 - shift);
        // The columns from here whose pixels and matches lie inside.
        const int first = p.wrapped ? 0 : RADIUS - x0 - from + (p.direction < 0 ? shift : 0);
        const unsigned inside = p.wrapped ? Stacks::COLS : max(0, p.cols - shift);
        T *at = static_cast<T *>(p.costs) + (static_cast<size_t>(y) * p.cols + x0 + from) * p.lanes + shift;
        unsigned cost = 0, differences[COST_STEPS + 2 * RADIUS] = {}; // of columns
#pragma unroll
        for (int i = 0; i < COST_STEPS + 2 * RADIUS; ++i) {
#pragma unroll
            for (int k = 0; k < Stacks::PLANES; ++k)
                differences[i] += __popc(pixels[k * pitch + i] ^ matches[k * pitch + i]);
            if (static_cast<unsigned>(i - first) >= inside)
                differences[i] = STEREO_OUTSIDE * Stacks::WINDOW;
            cost += differences[i];
            if (i < 2 * RADIUS)
                continue;
            if (x0 + from + i - 2 * RADIUS < p.cols)
                *at = static_cast<T>(shift < p.shifts ? cost : p.far);
            at += p.lanes;
            cost -= differences[i - 2 * RADIUS < 0 ? 0 : i - 2 * RADIUS];
        }
    }
}

template<class T, int RADIUS = 0>
cusStatus makeCosts(const char *function, const PathParameters &p, cudaStream_t stream) {
    if constexpr (RADIUS < (sizeof(T) == 1 ? 2 : CUS_STEREO_MAX_PATH_WINDOW / 2)) // larger costs exceed a byte
        if (RADIUS < p.radius)
            return makeCosts<T, RADIUS + 1>(function, p, stream);
    using Stacks = CodeStacks<RADIUS>;
    const size_t shared = sizeof(unsigned) * Stacks::PLANES * Stacks::pitch(p.lanes);
    return launchOverlapped(function, costsKernel<T, RADIUS>, static_cast<unsigned>(divUp(p.cols, COST_COLS)) * p.rows,
                            32 * COST_WARPS, shared, stream, p);
}

// ---- Paths -------------------------------------------------------------------------------------------------------------

// A path: its first pixel, the step to the next one, and how many pixels it has. Numbers count the rows to the right and
// back, the columns down and up, and the diagonals, which begin in a row or column at the border.
struct Path {
    int y, x, dy, dx, length;
};

__host__ __device__ inline long long pathsOf(int direction, int rows, int cols) {
    return direction < 2 ? rows : direction < 4 ? cols : 0ll + rows + cols - 1;
}

__device__ inline Path pathOf(long long number, int direction, int rows, int cols) {
    const int i = static_cast<int>(number);
    Path path;
    path.dy = direction < 2 ? 0 : direction == 2 || direction == 4 || direction == 5 ? 1 : -1;
    path.dx = direction == 2 || direction == 3 ? 0 : direction % 2 == 0 ? 1 : -1;
    path.y = path.dy == 0 ? i : path.dy > 0 ? 0 : rows - 1;
    path.x = path.dx == 0 ? i : path.dx > 0 ? 0 : cols - 1;
    if (direction >= 4 && i < cols)
        path.x = i;
    else if (direction >= 4)
        path.y = path.dy > 0 ? i - cols + 1 : rows - 2 - (i - cols);
    const int down = path.dy > 0 ? rows - path.y : path.y + 1, across = path.dx > 0 ? cols - path.x : path.x + 1;
    path.length = path.dy == 0 ? across : path.dx == 0 ? down : min(down, across);
    return path;
}

// GUIDED: P2 falls with the gradient of the image.
template<class T, int G, int K, bool GUIDED>
__global__ void __launch_bounds__(32 * WARPS) pathsKernel(PathParameters p) {
    startInOrder();
    using Values = Lane<T, K>;
    constexpr int PAIRS = K / 2, AHEAD = sizeof(Values) <= 16 ? 4 : 2; // AHEAD: pixels that are loaded before their turn
    const int lane = threadIdx.x % G;
    long long number = (static_cast<long long>(blockIdx.x) * 32 * WARPS + threadIdx.x) / G;
    int direction = 0;
    while (direction < p.paths && number >= pathsOf(direction, p.rows, p.cols))
        number -= pathsOf(direction++, p.rows, p.cols);
    Path path = {}; // of no pixels if there are no more paths
    if (direction < p.paths)
        path = pathOf(number, direction, p.rows, p.cols);
    const size_t first = (static_cast<size_t>(path.y) * p.cols + path.x) * G + lane;
    const Values *cost = static_cast<const Values *>(p.costs) + first;
    Values *sum = static_cast<Values *>(p.sums) + direction * p.pixels() * G + first;
    const ptrdiff_t step = (static_cast<ptrdiff_t>(path.dy) * p.cols + path.dx) * G;
    const int pixel_bytes = p.image_type == CUS_8UC1 ? 1 : 4;
    const unsigned char *pixel =
        GUIDED ? rowOf(p.image, p.image_step, path.y) + static_cast<size_t>(path.x) * pixel_bytes : nullptr;
    const ptrdiff_t pixel_step = path.dy * static_cast<ptrdiff_t>(p.image_step) + path.dx * pixel_bytes;
    const float white = p.image_type == CUS_8UC1 ? 1 : 255;
    Values next[AHEAD] = {};
    float next_gray[AHEAD] = {}, gray = 0;
    const auto load = [&](int place, int i) {
        if (i < path.length) {
            next[place] = *cost;
            if (GUIDED)
                next_gray[place] = stereo_gray(pixel, p.image_type);
        }
        cost += step;
        pixel += GUIDED ? pixel_step : 0;
    };
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
        load(i, i);
    unsigned before[PAIRS] = {}, least = 0, p2 = p.p2;
    const unsigned p1 = p.p1 * 0x10001;
    const int steps = static_cast<int>(warpMax(path.length));
    for (int start = 0; start < steps; start += AHEAD)
#pragma unroll
        for (int place = 0; place < AHEAD; ++place, sum += step) {
            const Values now = next[place];
            const float now_gray = next_gray[place];
            load(place, start + place + AHEAD);
            if (GUIDED)
                p2 = static_cast<unsigned>(
                    stereo_p2At(gray, now_gray, white, p.p2_slope, static_cast<int>(p.p1), static_cast<int>(p.p2)));
            gray = now_gray;
            const unsigned lower = __shfl_up_sync(FULL_WARP, before[PAIRS - 1], 1, G);
            const unsigned upper = __shfl_down_sync(FULL_WARP, before[0], 1, G);
            // The sums around a pair's border: of the shift before it and of its first shift.
            unsigned around = __byte_perm(lane == 0 ? OUTSIDE : lower, before[0], 0x5432), smallest = OUTSIDE;
            const unsigned last = __byte_perm(before[PAIRS - 1], lane == G - 1 ? OUTSIDE : upper, 0x5432);
            const unsigned jump = least + p2 * 0x10001;
#pragma unroll
            for (int j = 0; j < PAIRS; ++j) {
                const unsigned same = before[j];
                const unsigned beyond = j + 1 < PAIRS ? __byte_perm(same, before[j + 1 < PAIRS ? j + 1 : j], 0x5432) : last;
                before[j] = __vminu2(__vadd2(__vminu2(around, beyond), p1), __vminu2(same, jump)) - least + now.pair(j);
                around = beyond;
                smallest = __vminu2(smallest, before[j]);
            }
            Values stored;
            stored.setPairs(before);
            if (start + place < path.length)
                *sum = stored;
            // Both halves have the least sum.
            least = groupMin<G>(__vminu2(smallest, __funnelshift_l(smallest, smallest, 16)));
        }
}

// ---- The best shifts ---------------------------------------------------------------------------------------------------

// Here a key has a sum, so that the smallest one wins; in memory its bits are inverted.

__device__ inline unsigned shiftOf(unsigned key, bool prefer_smaller) {
    return prefer_smaller ? key % KEY_SHIFTS : KEY_SHIFTS - 1 - key % KEY_SHIFTS;
}

// Returns the best shift of a pixel and what its elevation needs. All lanes call it, and have the same.
template<int G, int K>
__device__ inline StereoPeak peakOf(const PathParameters &p, int lane, const unsigned (&sums)[K], unsigned key,
                                    unsigned worst) {
    const unsigned winner = groupMin<G>(key), best = shiftOf(winner, p.prefer_smaller);
    StereoPeak peak = {};
    peak.score = static_cast<uint16_t>(worst - winner / KEY_SHIFTS);
    peak.shift = static_cast<uint16_t>(best);
    if (p.refined) {
        unsigned below = 0, above = 0, second = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned shift = lane * K + k, score = worst - min(worst, sums[k]);
            below = shift + 1 == best ? score : below;
            above = shift == best + 1 ? score : above;
            second = shift + 1 < best || shift > best + 1 ? max(second, score) : second;
        }
        peak.below = static_cast<uint16_t>(~groupMin<G>(~below));
        peak.above = static_cast<uint16_t>(~groupMin<G>(~above));
        peak.second = static_cast<uint16_t>(~groupMin<G>(~second));
    }
    return peak;
}

__device__ inline void writeElevation(const PathParameters &p, int y, int x, const StereoPeak &peak) {
    const unsigned sure = p.refined ? stereo_confidence(&peak) : 0;
    const bool counts = peak.score > 0 && static_cast<int>(sure) >= p.min_confidence;
    rowOf(p.out, p.out_step, y)[x] =
        static_cast<uint16_t>(counts ? stereo_elevationOf(&peak, p.shifts, p.subpixel_bits) : 0);
    if (p.confidence)
        rowOf(p.confidence, p.confidence_step, y)[x] = static_cast<unsigned char>(counts ? sure : 0);
}

// G lanes go along CHOICE_COLS pixels of a row, away from their matches. The next pixel has the same match one shift
// further, so the best keys of the right image move from register to register. The last part of a row may overlap the one
// before it, and the last block may repeat the last part: they write the same again.
template<class T, int G, int K, int PATHS>
__global__ void __launch_bounds__(32 * WARPS) chooseKernel(PathParameters p) {
    startInOrder();
    using Values = Lane<T, K>;
    constexpr bool AHEAD = PATHS * sizeof(Values) <= 256; // the next pixel's sums are loaded while this one's are compared
    const int lane = threadIdx.x % G, parts = divUp(p.cols, CHOICE_COLS), steps = min(p.cols, CHOICE_COLS);
    const size_t task =
        min((static_cast<size_t>(blockIdx.x) * 32 * WARPS + threadIdx.x) / G, static_cast<size_t>(p.rows) * parts - 1);
    const int y = static_cast<int>(task / parts), x0 = min(static_cast<int>(task % parts) * CHOICE_COLS, p.cols - steps);
    const unsigned worst = PATHS * (p.full + p.p2), flip = p.prefer_smaller ? 0 : KEY_SHIFTS - 1;
    const auto keepRight = [&](unsigned key, int match) {
        const bool inside = match >= 0 && match < p.cols;
        if (p.right_keys && key < worst * KEY_SHIFTS && (inside || p.wrapped)) {
            match = inside ? match : wrap(match, p.cols);
            atomicMax(&p.right_keys[static_cast<size_t>(y) * p.cols + match], ~key);
        }
    };
    unsigned right[K]; // of the matches of this pixel
#pragma unroll
    for (int k = 0; k < K; ++k)
        right[k] = UINT32_MAX;
    int x = p.direction < 0 ? x0 : x0 + steps - 1;
    const Values *at = static_cast<const Values *>(p.sums) + (static_cast<size_t>(y) * p.cols + x) * G + lane;
    const size_t volume = p.pixels() * G;
    StereoPeak peak = {};             // of the pixel that this lane writes: each one of G in turn
    unsigned passed_key = UINT32_MAX; // of the match that this pixel is the first to lack
    Values next[PATHS];
    const auto load = [&]() {
#pragma unroll
        for (int d = 0; d < PATHS; ++d)
            next[d] = at[d * volume];
        at -= p.direction * G;
    };
    if (AHEAD)
        load();
    for (int i = 0; i < steps; ++i, x -= p.direction) {
        if (!AHEAD)
            load();
        unsigned pairs[K / 2] = {}, sums[K], smallest = UINT32_MAX;
#pragma unroll
        for (int d = 0; d < PATHS; ++d)
#pragma unroll
            for (int j = 0; j < K / 2; ++j)
                pairs[j] += next[d].pair(j);
        if (AHEAD && i + 1 < steps)
            load();
        const unsigned passed = __shfl_sync(FULL_WARP, right[K - 1], G - 1, G);
        unsigned before = __shfl_up_sync(FULL_WARP, right[K - 1], 1, G);
        before = lane == 0 ? UINT32_MAX : before;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned shift = lane * K + k;
            sums[k] = k % 2 ? pairs[k / 2] >> 16 : pairs[k / 2] & 0xffff;
            if (sizeof(T) == 2 && shift >= p.shifts) // such sums are at least the worst one, and may have overflown
                sums[k] = worst;
            const unsigned key = sums[k] * KEY_SHIFTS + (shift ^ flip), same = right[k];
            smallest = min(smallest, key);
            right[k] = min(key, before);
            before = same;
        }
        const StereoPeak best = peakOf<G, K>(p, lane, sums, smallest, worst);
        if (i % G == lane) {
            peak = best;
            passed_key = passed;
        }
        if ((i % G == G - 1 || i == steps - 1) && lane <= i % G) {
            const int own = x + p.direction * (i % G - lane);
            writeElevation(p, y, own, peak);
            keepRight(passed_key, own + p.direction * G * K);
        }
    }
#pragma unroll
    for (int k = 0; k < K; ++k)
        keepRight(right[k], x + p.direction * (lane * K + k + 1));
}

template<class T, int G, int K>
cusStatus matchPaths(const char *function, const PathParameters &p, cudaStream_t stream) {
    CUS_TRY(makeCosts<T>(function, p, stream));
    const auto blocks = [](long long threads) { return static_cast<unsigned>(divUp(threads, 32ll * WARPS)); };
    long long paths = 0;
    for (int d = 0; d < p.paths; ++d)
        paths += pathsOf(d, p.rows, p.cols);
    CUS_TRY(launchOverlapped(function, p.image ? pathsKernel<T, G, K, true> : pathsKernel<T, G, K, false>,
                             blocks(paths * G), 32 * WARPS, 0, stream, p));
    return launchOverlapped(function, p.paths == 8 ? chooseKernel<T, G, K, 8> : chooseKernel<T, G, K, 4>,
                            blocks(divUp(p.cols, CHOICE_COLS) * 1ll * p.rows * G), 32 * WARPS, 0, stream, p);
}

template<class T>
cusStatus matchPathsOf(const char *function, const PathParameters &p, cudaStream_t stream) {
    switch (p.lanes) {
    case 32:
        return matchPaths<T, 4, 8>(function, p, stream);
    case 64:
        return matchPaths<T, 8, 8>(function, p, stream);
    case 96:
        return matchPaths<T, 8, 12>(function, p, stream);
    case 128:
        return matchPaths<T, 16, 8>(function, p, stream);
    case 192:
        return matchPaths<T, 16, 12>(function, p, stream);
    case 256:
        return matchPaths<T, 32, 8>(function, p, stream);
    case 512:
        return matchPaths<T, 32, 16>(function, p, stream);
    default:
        return matchPaths<T, 32, 32>(function, p, stream);
    }
}

} // namespace
} // namespace cusi::stereo

cusStatus stereo_cuda_paths(const char *function, cusStream stream, const cusMat *left, const cusMat *right,
                            const cusMat *image, cusMat *elevation, cusMat *confidence, const cusStereoOptions *options,
                            StereoScratch *scratch) {
    using namespace cusi::stereo;
    const size_t pixels = static_cast<size_t>(left->rows) * static_cast<size_t>(left->cols);
    const size_t size = stereo_sumBytes(options);
    PathParameters p = {};
    p.left = static_cast<const unsigned char *>(left->data);
    p.right = static_cast<const unsigned char *>(right->data);
    p.left_step = left->step;
    p.right_step = right->step;
    p.rows = left->rows;
    p.cols = left->cols;
    p.shifts = options->shifts;
    p.lanes = stereo_deviceLanes(options);
    p.radius = options->window / 2;
    p.direction = options->direction;
    p.paths = stereo_paths(options);
    p.wrapped = options->border == CUS_STEREO_WRAP;
    p.prefer_smaller = options->prefer_smaller != 0;
    p.p1 = static_cast<unsigned>(stereo_p1(options));
    p.p2 = static_cast<unsigned>(stereo_p2(options));
    if (options->p2_slope) {
        p.image = static_cast<const unsigned char *>(image->data);
        p.image_step = image->step;
        p.image_type = image->type;
        p.p2_slope = options->p2_slope;
    }
    p.full = static_cast<unsigned>(8 * options->window * options->window);
    p.far = static_cast<unsigned>(stereo_farSum(options));
    p.costs = scratch->words;
    p.sums = static_cast<char *>(p.costs) + pixels * static_cast<size_t>(p.lanes) * size;
    p.right_keys = options->left_right_check >= 0 ? static_cast<uint32_t *>(scratch->right) : nullptr;
    p.out = static_cast<uint16_t *>(elevation->data);
    p.out_step = elevation->step;
    p.refined = stereo_isRefined(options, confidence) != 0;
    p.subpixel_bits = options->subpixel_bits;
    p.min_confidence = options->min_confidence;
    if (confidence) {
        p.confidence = static_cast<unsigned char *>(confidence->data);
        p.confidence_step = confidence->step;
    }
    if (p.right_keys)
        CUSI_CUDA(function, cudaMemsetAsync(p.right_keys, 0, 4 * pixels, stream));
    CUS_TRY(size == 1 ? matchPathsOf<uint8_t>(function, p, stream) : matchPathsOf<uint16_t>(function, p, stream));
    return p.right_keys ? checkBothWays(function, *elevation, confidence, p.right_keys, *options, stream) : CUS_OK;
}
