// Finds the best disparity of every pixel by semi-global matching: aggregation PATHS. A warp follows one path, and a lane has
// K neighboring shifts of its pixels. All paths run at once, each with sums of its own, since adding to common sums would take
// more reads and writes. Three passes: costs, paths, and the best shifts in both images.
#include "stereo/cuda/state.cuh"

namespace cusi::stereo {
namespace {

constexpr int WARPS = 4;      // of a block that makes costs or follows paths
constexpr int COST_COLS = 64; // columns that a warp slides its windows along
constexpr int CHOICE_WARPS = 8, CHOICE_COLS = 128;
constexpr unsigned OUTSIDE = 1u << 20; // a sum beyond the first and the last shift

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
               : K * sizeof(T) % 4 == 0 ? 4
               : K * sizeof(T) % 2 == 0 ? 2
                                        : 1) Lane {
    T v[K];
};

__device__ inline unsigned warpMin(unsigned v) {
    return ~warpMax(~v);
}

// ---- Costs -------------------------------------------------------------------------------------------------------------

// The agreements of column x, which may lie outside, in the window's rows around y.
__device__ inline unsigned columnSum(const PathParameters &p, int y, int x, int shift) {
    int match = x + p.direction * shift;
    if (x < 0 || x >= p.cols || match < 0 || match >= p.cols) {
        if (!p.wrapped)
            return STEREO_OUTSIDE * (2 * p.radius + 1);
        x = wrap(x, p.cols);
        match = wrap(match, p.cols);
    }
    unsigned sum = 0;
    for (int k = -p.radius; k <= p.radius; ++k) {
        int row = y + k;
        if (row < 0 || row >= p.rows) {
            if (!p.wrapped) {
                sum += STEREO_OUTSIDE;
                continue;
            }
            row = wrap(row, p.rows);
        }
        sum += 8 - __popc(rowOf(p.left, p.left_step, row)[x] ^ rowOf(p.right, p.right_step, row)[match]);
    }
    return sum;
}

template<class T>
__global__ void __launch_bounds__(32 * WARPS) costsKernel(PathParameters p) {
    startInOrder();
    const int groups = p.lanes / 32, parts = divUp(p.cols, COST_COLS), lane = threadIdx.x % 32;
    const size_t task = static_cast<size_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int shift = static_cast<int>(task % groups) * 32 + lane;
    const int x0 = static_cast<int>(task / groups % parts) * COST_COLS;
    const size_t y = task / groups / parts;
    if (y >= p.rows)
        return;
    const bool tried = shift < p.shifts;
    unsigned agreements = 0;
    for (int x = x0 - p.radius; tried && x < x0 + p.radius; ++x)
        agreements += columnSum(p, static_cast<int>(y), x, shift);
    T *at = static_cast<T *>(p.costs) + (y * p.cols + x0) * p.lanes + shift;
    for (int x = x0; x < min(p.cols, x0 + COST_COLS); ++x, at += p.lanes) {
        if (tried)
            agreements += columnSum(p, static_cast<int>(y), x + p.radius, shift);
        *at = static_cast<T>(tried ? p.full - agreements : p.far);
        if (tried)
            agreements -= columnSum(p, static_cast<int>(y), x - p.radius, shift);
    }
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
template<class T, int K, bool GUIDED>
__global__ void __launch_bounds__(32 * WARPS) pathsKernel(PathParameters p) {
    startInOrder();
    const int lane = threadIdx.x % 32;
    long long number = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32;
    int direction = 0;
    while (direction < p.paths && number >= pathsOf(direction, p.rows, p.cols))
        number -= pathsOf(direction++, p.rows, p.cols);
    if (direction == p.paths)
        return;
    const Path path = pathOf(number, direction, p.rows, p.cols);
    using Values = Lane<T, K>;
    const size_t first = (static_cast<size_t>(path.y) * p.cols + path.x) * 32 + lane;
    const Values *cost = static_cast<const Values *>(p.costs) + first;
    Values *sum = static_cast<Values *>(p.sums) + direction * p.pixels() * 32 + first;
    const ptrdiff_t step = (static_cast<ptrdiff_t>(path.dy) * p.cols + path.dx) * 32;
    const int pixel_bytes = p.image_type == CUS_8UC1 ? 1 : 4;
    const unsigned char *pixel =
        GUIDED ? rowOf(p.image, p.image_step, path.y) + static_cast<size_t>(path.x) * pixel_bytes : nullptr;
    const ptrdiff_t pixel_step = path.dy * static_cast<ptrdiff_t>(p.image_step) + path.dx * pixel_bytes;
    const float white = p.image_type == CUS_8UC1 ? 1 : 255;
    float gray = GUIDED ? stereo_gray(pixel, p.image_type) : 0, next_gray = gray;
    unsigned before[K] = {}, least = 0, p2 = p.p2;
    Values next = *cost;
    for (int i = 0; i < path.length; ++i, sum += step) {
        const Values now = next;
        cost += step;
        if (i + 1 < path.length)
            next = *cost;
        if (GUIDED && i + 1 < path.length)
            next_gray = stereo_gray(pixel += pixel_step, p.image_type);
        unsigned lower = __shfl_up_sync(FULL_WARP, before[K - 1], 1), upper = __shfl_down_sync(FULL_WARP, before[0], 1);
        lower = lane == 0 ? OUTSIDE : lower;
        upper = lane == 31 ? OUTSIDE : upper;
        unsigned smallest = OUTSIDE;
        Values stored;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned same = before[k], above = k + 1 < K ? before[k + 1 < K ? k + 1 : k] : upper;
            const unsigned v = now.v[k] + min(min(same, least + p2), min(lower, above) + p.p1) - least;
            lower = same;
            before[k] = v;
            stored.v[k] = static_cast<T>(v);
            smallest = min(smallest, v);
        }
        *sum = stored;
        least = warpMin(smallest);
        if (GUIDED)
            p2 = static_cast<unsigned>(
                stereo_p2At(gray, next_gray, white, p.p2_slope, static_cast<int>(p.p1), static_cast<int>(p.p2)));
        gray = next_gray;
    }
}

// ---- The best shifts ---------------------------------------------------------------------------------------------------

// Here a key has a sum, so that the smallest one wins; in memory its bits are inverted.

__device__ inline unsigned shiftOf(unsigned key, bool prefer_smaller) {
    return prefer_smaller ? key % KEY_SHIFTS : KEY_SHIFTS - 1 - key % KEY_SHIFTS;
}

// Writes the elevation of a pixel from the sums of all lanes. All lanes of the warp call it.
template<int K>
__device__ inline void choosePixel(const PathParameters &p, int y, int x, int lane, const unsigned (&sums)[K], unsigned key,
                                   unsigned worst) {
    const unsigned winner = warpMin(key), best = shiftOf(winner, p.prefer_smaller);
    StereoPeak peak = {};
    peak.score = static_cast<uint16_t>(worst - winner / KEY_SHIFTS);
    peak.shift = static_cast<uint16_t>(best);
    if (p.refined) {
        unsigned below = 0, above = 0, second = 0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const unsigned shift = lane * K + k, score = shift < p.shifts ? worst - sums[k] : 0;
            below = shift + 1 == best ? score : below;
            above = shift == best + 1 ? score : above;
            second = shift + 1 < best || shift > best + 1 ? max(second, score) : second;
        }
        peak.below = static_cast<uint16_t>(warpMax(below));
        peak.above = static_cast<uint16_t>(warpMax(above));
        peak.second = static_cast<uint16_t>(warpMax(second));
    }
    if (lane != 0)
        return;
    const unsigned sure = p.refined ? stereo_confidence(&peak) : 0;
    const bool counts = peak.score > 0 && static_cast<int>(sure) >= p.min_confidence;
    rowOf(p.out, p.out_step, y)[x] =
        static_cast<uint16_t>(counts ? stereo_elevationOf(&peak, p.shifts, p.subpixel_bits) : 0);
    if (p.confidence)
        rowOf(p.confidence, p.confidence_step, y)[x] = static_cast<unsigned char>(counts ? sure : 0);
}

// A block has CHOICE_COLS pixels of a row. The keys of the right pixels that they match meet in shared memory: place i is the
// match i columns to the right of the first pixel, or to the left of the last one.
template<class T, int K>
__global__ void __launch_bounds__(32 * CHOICE_WARPS) chooseKernel(PathParameters p) {
    __shared__ unsigned keys[CHOICE_COLS + 32 * K];
    startInOrder();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, x0 = blockIdx.x * CHOICE_COLS;
    const unsigned worst = p.paths * (p.full + p.p2);
    using Values = Lane<T, K>;
    for (int y = blockIdx.y; y < p.rows; y += gridDim.y) {
        for (int i = threadIdx.x; i < CHOICE_COLS + 32 * K; i += 32 * CHOICE_WARPS)
            keys[i] = UINT32_MAX;
        __syncthreads();
        for (int j = warp; j < min(CHOICE_COLS, p.cols - x0); j += CHOICE_WARPS) {
            const size_t at = (static_cast<size_t>(y) * p.cols + x0 + j) * 32 + lane;
            unsigned sums[K] = {}, smallest = UINT32_MAX;
            for (int d = 0; d < p.paths; ++d) {
                const Values values = static_cast<const Values *>(p.sums)[d * p.pixels() * 32 + at];
#pragma unroll
                for (int k = 0; k < K; ++k)
                    sums[k] += values.v[k];
            }
#pragma unroll
            for (int k = 0; k < K; ++k) {
                const unsigned shift = lane * K + k, tie = p.prefer_smaller ? shift : KEY_SHIFTS - 1 - shift;
                if (shift < p.shifts) {
                    const unsigned key = sums[k] * KEY_SHIFTS + tie;
                    smallest = min(smallest, key);
                    if (p.right_keys)
                        atomicMin(&keys[(p.direction > 0 ? j : CHOICE_COLS - 1 - j) + shift], key);
                }
            }
            choosePixel<K>(p, y, x0 + j, lane, sums, smallest, worst);
        }
        __syncthreads();
        for (int i = threadIdx.x; p.right_keys && i < CHOICE_COLS + 32 * K; i += 32 * CHOICE_WARPS) {
            int match = p.direction > 0 ? x0 + i : x0 + CHOICE_COLS - 1 - i;
            const bool inside = match >= 0 && match < p.cols;
            if (keys[i] < worst * KEY_SHIFTS && (inside || p.wrapped)) {
                match = inside ? match : wrap(match, p.cols);
                atomicMax(&p.right_keys[static_cast<size_t>(y) * p.cols + match], ~keys[i]);
            }
        }
        __syncthreads();
    }
}

template<class T, int K>
cusStatus matchPaths(const char *function, const PathParameters &p, cudaStream_t stream) {
    const size_t tasks = static_cast<size_t>(p.rows) * divUp(p.cols, COST_COLS) * (p.lanes / 32);
    CUS_TRY(launchOverlapped(function, costsKernel<T>, static_cast<unsigned>(divUp<size_t>(tasks, WARPS)), 32 * WARPS, 0,
                             stream, p));
    long long paths = 0;
    for (int d = 0; d < p.paths; ++d)
        paths += pathsOf(d, p.rows, p.cols);
    CUS_TRY(launchOverlapped(function, p.image ? pathsKernel<T, K, true> : pathsKernel<T, K, false>,
                             static_cast<unsigned>(divUp<long long>(paths, WARPS)), 32 * WARPS, 0, stream, p));
    const dim3 grid(divUp(p.cols, CHOICE_COLS), std::min(p.rows, 65535));
    return launchOverlapped(function, chooseKernel<T, K>, grid, 32 * CHOICE_WARPS, 0, stream, p);
}

template<class T>
cusStatus matchPathsOf(const char *function, const PathParameters &p, cudaStream_t stream) {
    switch (p.lanes / 32) {
    case 1:
        return matchPaths<T, 1>(function, p, stream);
    case 2:
        return matchPaths<T, 2>(function, p, stream);
    case 3:
        return matchPaths<T, 3>(function, p, stream);
    case 4:
        return matchPaths<T, 4>(function, p, stream);
    case 6:
        return matchPaths<T, 6>(function, p, stream);
    case 8:
        return matchPaths<T, 8>(function, p, stream);
    case 16:
        return matchPaths<T, 16>(function, p, stream);
    default:
        return matchPaths<T, 32>(function, p, stream);
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
