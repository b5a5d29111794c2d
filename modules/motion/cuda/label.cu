// Components on the GPU, from tiles that are labeled within. Three short kernels, since each needs the whole of the one before:
// joining, areas, statistics. Most words are 0 and cost a load.
#include "motion/cuda/runs.cuh"

namespace cusi::motion {
namespace {

// What a root has as its parent once its component has a number, which is in the other bits.
constexpr uint32_t NUMBERED = 1u << 31;

__device__ __forceinline__ MotionComponent *componentsOf(const Detector &d, unsigned camera) {
    return d.components + static_cast<size_t>(camera) * CUS_MOTION_MAX_COMPONENTS;
}

// Joins the runs at the borders of tiles, which are joined within.
__global__ void __launch_bounds__(THREADS) joinKernel(const Detector d) {
    startInOrder();
    const unsigned in_x = threadIdx.x % TILE_WORDS, in_y = threadIdx.x / TILE_WORDS;
    const unsigned x = blockIdx.x * TILE_WORDS + in_x, y = blockIdx.y * TILE_ROWS + in_y;
    const bool leftmost = in_x == 0, rightmost = in_x == TILE_WORDS - 1, topmost = in_y == 0;
    if (!(leftmost || rightmost || topmost) || x >= d.words || y >= static_cast<unsigned>(d.model.rows) ||
        !looks(d, blockIdx.z))
        return;
    const size_t plane = blockIdx.z * d.planeWords();
    joinRuns(d.planes.parents + plane * NODES, d.planes.mask + plane, y * d.words + x, d.words,
             {leftmost && x > 0, (leftmost || topmost) && x > 0 && y > 0, topmost && y > 0,
              (rightmost || topmost) && x + 1 < d.words && y > 0});
}

// The words of a tile for kernels that add up: a warp has a column of 32 words, since things are higher than wide, so that most
// of its runs are of one component and cost one atomic addition.
struct Column {
    unsigned x, y;
    size_t plane;
    uint32_t index, word; // word: 0 outside of the frame

    __device__ __forceinline__ explicit Column(const Detector &d)
        : x(blockIdx.x * TILE_WORDS + threadIdx.x / 32), y(blockIdx.y * TILE_ROWS + threadIdx.x % 32),
          plane(blockIdx.z * d.planeWords()), index(y * d.words + x),
          word(x < d.words && y < static_cast<unsigned>(d.model.rows) ? d.planes.mask[plane + index] : 0) {}
};

// Calls add(lanes, root) for each root that lanes with a run have: `lanes` are those. All lanes of the warp call it.
template<class Add>
__device__ __forceinline__ void forEachRoot(bool has, uint32_t root, Add add) {
    unsigned left = __ballot_sync(FULL_WARP, has);
    while (left) {
        const uint32_t current = __shfl_sync(FULL_WARP, root, __ffs(static_cast<int>(left)) - 1);
        const unsigned lanes = __ballot_sync(FULL_WARP, has && root == current);
        add(lanes, current);
        left &= ~lanes;
    }
}

__device__ __forceinline__ bool isFirstOf(unsigned lanes) {
    return static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(lanes)) - 1;
}

__device__ __forceinline__ bool isIn(unsigned lanes) {
    return lanes >> threadIdx.x % 32 & 1;
}

// Makes every node's parent its component's smallest, and adds up areas. What makes a component large enough numbers it, so the
// numbers are in any order.
__global__ void __launch_bounds__(THREADS) areaKernel(const Detector d) {
    startInOrder();
    if (!looks(d, blockIdx.z))
        return;
    const Column column(d);
    uint32_t *const parents = d.planes.parents + column.plane * NODES, *const areas = d.planes.areas + column.plane * NODES;
    const uint32_t least = static_cast<uint32_t>(d.model.options.min_area);
    uint32_t rest = column.word;
    while (__any_sync(FULL_WARP, rest != 0)) {
        const bool has = rest != 0;
        uint32_t root = 0;
        unsigned length = 0;
        if (has) {
            const Run run = takeRun(rest);
            length = run.length();
            const uint32_t node = nodeAt(column.index, run.first);
            root = rootOf(parents, node);
            if (root != node)
                __stcg(parents + node, root);
        }
        forEachRoot(has, root, [&](unsigned lanes, uint32_t current) {
            const unsigned sum = warpSum(isIn(lanes) ? length : 0);
            if (!isFirstOf(lanes))
                return;
            const uint32_t before = atomicAdd(areas + current, sum);
            if (before >= least || before + sum < least)
                return;
            const uint32_t number = atomicAdd(&d.cameras[blockIdx.z].components, 1u);
            if (number < CUS_MOTION_MAX_COMPONENTS) {
                componentsOf(d, blockIdx.z)[number] = {0, 0, 0, 0, 0, 65535, 0, 0, 0, 0};
                __stcg(parents + current, NUMBERED | number);
            }
        });
    }
}

// Sum of d / 256 over the moving pixels `moving` of a word.
__device__ __forceinline__ unsigned sumDifferences(const uint8_t *differences, uint32_t moving) {
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t four = moving >> (4 * i) & 15;
        if (four) // otherwise there may be no differences
            sum = __dp4a(reinterpret_cast<const uint32_t *>(differences)[i] & (four * 0x00204081u & 0x01010101u) * 255u,
                         0x01010101u, sum);
    }
    return sum;
}

__device__ __forceinline__ unsigned warpMax(unsigned v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(FULL_WARP, v);
#else
#pragma unroll
    for (int k = 16; k > 0; k /= 2)
        v = max(v, __shfl_xor_sync(FULL_WARP, v, k));
    return v;
#endif
}

// What one run, or those of a warp, add to a component. Sums of a warp fit 32 bits: 32 words of 32 pixels, coordinates below 2^16.
struct Part {
    unsigned sum_x, sum_y, differences, moving, from_right, right; // from_right: 65535 - left, so that 0 is none

    __device__ __forceinline__ Part ofLanes(unsigned lanes) const {
        const bool in = isIn(lanes);
        return {warpSum(in ? sum_x : 0),  warpSum(in ? sum_y : 0),      warpSum(in ? differences : 0),
                warpSum(in ? moving : 0), warpMax(in ? from_right : 0), warpMax(in ? right : 0)};
    }
    __device__ __forceinline__ void addTo(MotionComponent *c, int bottom) const {
        atomicAdd(reinterpret_cast<unsigned long long *>(&c->sum_x), static_cast<unsigned long long>(sum_x));
        atomicAdd(reinterpret_cast<unsigned long long *>(&c->sum_y), static_cast<unsigned long long>(sum_y));
        atomicAdd(&c->differences, differences);
        atomicAdd(&c->moving, moving);
        atomicMin(&c->left, static_cast<int>(65535 - from_right));
        atomicMax(&c->right, static_cast<int>(right));
        atomicMax(&c->bottom, bottom);
    }
};

__device__ __forceinline__ Part partOf(const Detector &d, const Column &column, const Run &run) {
    const unsigned length = run.length(), first = column.x * 32 + static_cast<unsigned>(run.first),
                   last = column.x * 32 + static_cast<unsigned>(run.last);
    const size_t at = column.plane + column.index;
    const uint32_t moving = d.planes.moving[at] & run.bits();
    return {
        length * (first + last) / 2,           length * column.y, sumDifferences(d.planes.differences + at * 32, moving),
        static_cast<unsigned>(__popc(moving)), 65535 - first,     last};
}

__global__ void __launch_bounds__(THREADS) statisticsKernel(const Detector d) {
    startInOrder();
    const uint32_t count = d.cameras[blockIdx.z].components;
    if (count == 0 || count > CUS_MOTION_MAX_COMPONENTS || !looks(d, blockIdx.z))
        return;
    const Column column(d);
    const uint32_t *const parents = d.planes.parents + column.plane * NODES;
    MotionComponent *const components = componentsOf(d, blockIdx.z);
    uint32_t rest = column.word;
    while (__any_sync(FULL_WARP, rest != 0)) {
        uint32_t number = 0;
        Part part = {};
        if (rest) {
            const Run run = takeRun(rest);
            const uint32_t node = nodeAt(column.index, run.first), parent = parents[node];
            number = parent & NUMBERED ? parent : parents[parent];
            if (number & NUMBERED)
                part = partOf(d, column, run);
            if (parent & NUMBERED) { // the component's first run
                MotionComponent &c = components[number & ~NUMBERED];
                c.area = d.planes.areas[column.plane * NODES + node];
                c.top = static_cast<int>(column.y);
                c.first = column.x * 32 + static_cast<unsigned>(run.first);
            }
        }
        forEachRoot(number & NUMBERED, number, [&](unsigned lanes, uint32_t current) {
            const Part all = part.ofLanes(lanes);
            if (isFirstOf(lanes)) // the last lane has the lowest row
                all.addTo(components + (current & ~NUMBERED),
                          static_cast<int>(blockIdx.y * TILE_ROWS) + 31 - __clz(static_cast<int>(lanes)));
        });
    }
}

} // namespace

cusStatus label(const char *function, const Detector &d, cudaStream_t stream) {
    for (const auto kernel : {joinKernel, areaKernel, statisticsKernel})
        CUS_TRY(launchOverlapped(function, kernel, tiles(d), THREADS, 0, stream, d));
    return CUS_OK;
}

} // namespace cusi::motion
