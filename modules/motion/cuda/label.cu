// Components on the GPU: union-find with atomic minima (Playne and Hawick 2018) on the runs of set bits within words. Four short
// kernels, since each needs the whole of the one before: joining, areas, numbering, statistics. Most words are 0 and cost a load.
#include "motion/cuda/stages.cuh"

namespace cusi::motion {
namespace {

// A run of set bits in a word.
struct Run {
    int first, last;
    __device__ __forceinline__ uint32_t bits() const { return ~0u << first & ~0u >> (31 - last); }
    __device__ __forceinline__ unsigned length() const { return static_cast<unsigned>(last - first + 1); }
};

// The first run of a word that is not 0.
__device__ __forceinline__ Run firstRun(uint32_t word) {
    const int first = __ffs(static_cast<int>(word)) - 1;
    const uint32_t gaps = ~word & ~0u << first;
    return {first, gaps ? __ffs(static_cast<int>(gaps)) - 2 : 31};
}

__device__ __forceinline__ uint32_t nodeAt(uint32_t index, int first) {
    return index * NODES + static_cast<uint32_t>(first) / 2;
}

// The node of the run that contains bit `at` of word `index`.
__device__ __forceinline__ uint32_t nodeWith(uint32_t index, uint32_t word, int at) {
    const uint32_t gaps = ~word & ((1u << at) - 1);
    return nodeAt(index, gaps ? 32 - __clz(static_cast<int>(gaps)) : 0);
}

__device__ __forceinline__ uint32_t rootOf(const uint32_t *parents, uint32_t node) {
    for (uint32_t parent = loadRelaxed(parents + node); parent != node; parent = loadRelaxed(parents + node))
        node = parent;
    return node;
}

// Parents are smaller than their nodes at all times, whatever other threads join, so no path is a circle.
__device__ __forceinline__ void join(uint32_t *parents, uint32_t a, uint32_t b) {
    for (;;) {
        a = rootOf(parents, a);
        b = rootOf(parents, b);
        if (a == b)
            return;
        const uint32_t high = max(a, b), low = min(a, b);
        const uint32_t before = atomicMin(parents + high, low);
        if (before == high)
            return;
        a = before; // another thread was faster: high has a parent, which must join as well
        b = low;
    }
}

__global__ void __launch_bounds__(THREADS) joinKernel(const Detector d) {
    startInOrder();
    if (!looks(d, blockIdx.z))
        return;
    const unsigned x = blockIdx.x * TILE_WORDS + threadIdx.x % TILE_WORDS,
                   y = blockIdx.y * TILE_ROWS + threadIdx.x / TILE_WORDS;
    if (x >= d.words || y >= static_cast<unsigned>(d.model.rows))
        return;
    const size_t plane = blockIdx.z * d.planeWords();
    const uint32_t *const mask = d.planes.mask + plane;
    uint32_t *const parents = d.planes.parents + plane * NODES;
    const uint32_t index = y * d.words + x, above = index - d.words; // above is used only if y > 0
    const uint32_t left = x > 0 ? mask[index - 1] : 0;
    const uint32_t up = y > 0 ? mask[above] : 0, up_left = y > 0 && x > 0 ? mask[above - 1] : 0,
                   up_right = y > 0 && x + 1 < d.words ? mask[above + 1] : 0;
    for (uint32_t rest = mask[index]; rest;) {
        const Run run = firstRun(rest);
        rest &= ~run.bits();
        const uint32_t node = nodeAt(index, run.first);
        if (run.first == 0 && left >> 31)
            join(parents, node, nodeWith(index - 1, left, 31));
        if (run.first == 0 && up_left >> 31)
            join(parents, node, nodeWith(above - 1, up_left, 31));
        if (run.last == 31 && up_right & 1)
            join(parents, node, nodeAt(above + 1, 0));
        uint32_t touching = up & (run.bits() | run.bits() << 1 | run.bits() >> 1);
        while (touching) {
            const int at = __ffs(static_cast<int>(touching)) - 1;
            join(parents, node, nodeWith(above, up, at));
            touching &= touching + (1u << at); // without the lowest run
        }
    }
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

// Makes every node's parent its component's smallest, and adds up areas.
__global__ void __launch_bounds__(THREADS) areaKernel(const Detector d) {
    startInOrder();
    if (!looks(d, blockIdx.z))
        return;
    const Column column(d);
    uint32_t *const parents = d.planes.parents + column.plane * NODES, *const areas = d.planes.areas + column.plane * NODES;
    uint32_t rest = column.word;
    while (__any_sync(FULL_WARP, rest != 0)) {
        const bool has = rest != 0;
        uint32_t root = 0;
        unsigned length = 0;
        if (has) {
            const Run run = firstRun(rest);
            rest &= ~run.bits();
            length = run.length();
            const uint32_t node = nodeAt(column.index, run.first);
            root = rootOf(parents, node);
            if (root != node)
                __stcg(parents + node, root);
        }
        forEachRoot(has, root, [&](unsigned lanes, uint32_t current) {
            const unsigned sum = warpSum(isIn(lanes) ? length : 0);
            if (isFirstOf(lanes))
                atomicAdd(areas + current, sum);
        });
    }
}

// Numbers the components of at least min_area pixels, in any order.
__global__ void __launch_bounds__(THREADS) numberKernel(const Detector d) {
    startInOrder();
    if (!looks(d, blockIdx.z))
        return;
    const Column column(d);
    uint32_t *const areas = d.planes.areas + column.plane * NODES;
    MotionComponent *const components = d.components + static_cast<size_t>(blockIdx.z) * CUS_MOTION_MAX_COMPONENTS;
    for (uint32_t rest = column.word; rest;) {
        const Run run = firstRun(rest);
        rest &= ~run.bits();
        const uint32_t node = nodeAt(column.index, run.first);
        if (d.planes.parents[column.plane * NODES + node] != node)
            continue;
        const uint32_t area = areas[node];
        uint32_t number = 0;
        if (area >= static_cast<uint32_t>(d.model.options.min_area)) {
            number = atomicAdd(&d.cameras[blockIdx.z].components, 1u) + 1;
            if (number <= CUS_MOTION_MAX_COMPONENTS) {
                const int x = static_cast<int>(column.x) * 32 + run.first, y = static_cast<int>(column.y);
                components[number - 1] = {0, 0, area, 0, 0, x, y, x, y, static_cast<uint32_t>(x)};
            }
        }
        areas[node] = number;
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
    MotionComponent *const components = d.components + static_cast<size_t>(blockIdx.z) * CUS_MOTION_MAX_COMPONENTS;
    uint32_t rest = column.word;
    while (__any_sync(FULL_WARP, rest != 0)) {
        uint32_t number = 0;
        Part part = {};
        if (rest) {
            const Run run = firstRun(rest);
            rest &= ~run.bits();
            number =
                d.planes
                    .areas[column.plane * NODES + d.planes.parents[column.plane * NODES + nodeAt(column.index, run.first)]];
            if (number > 0)
                part = partOf(d, column, run);
        }
        forEachRoot(number > 0, number, [&](unsigned lanes, uint32_t current) {
            const Part all = part.ofLanes(lanes);
            if (isFirstOf(lanes)) // the last lane has the lowest row
                all.addTo(components + current - 1,
                          static_cast<int>(blockIdx.y * TILE_ROWS) + 31 - __clz(static_cast<int>(lanes)));
        });
    }
}

} // namespace

cusStatus label(const char *function, const Detector &d, cudaStream_t stream) {
    for (const auto kernel : {joinKernel, areaKernel, numberKernel, statisticsKernel})
        CUS_TRY(launchOverlapped(function, kernel, tiles(d), THREADS, 0, stream, d));
    return CUS_OK;
}

} // namespace cusi::motion
