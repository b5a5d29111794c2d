// Masks and components on the GPU. A block has a tile of 8 x 32 words of a mask and, in shared memory, its surroundings. It
// erodes and dilates, labels the tile, and adds up whole components and the parts of those that reach other tiles.
#include "motion/cuda/runs.cuh"

namespace cusi::motion {
namespace {

constexpr int MAX_RADIUS = 8;                                   // largest radius of erosion and of dilation
constexpr int ROWS = TILE_ROWS + 2 * (MAX_RADIUS + MAX_RADIUS); // of a tile and its surroundings
constexpr int WORDS = TILE_WORDS + 2;
static_assert(2 * MAX_RADIUS <= 32, "one word on each side is enough");

using Tile = uint32_t[ROWS][WORDS];

struct Window {
    int radius;
    bool erodes;

    __device__ __forceinline__ uint32_t combine(uint32_t a, uint32_t b) const { return erodes ? a & b : a | b; }
    // Pixels outside the frame have no effect.
    __device__ __forceinline__ uint32_t outside() const { return erodes ? ~0u : 0; }
};

__device__ __forceinline__ void alongRows(const Tile &in, Tile &out, int rows, Window window) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS) {
        const int y = i / WORDS, x = i % WORDS;
        const uint32_t here = in[y][x], before = x > 0 ? in[y][x - 1] : window.outside(),
                       after = x + 1 < WORDS ? in[y][x + 1] : window.outside();
        uint32_t all = here;
        for (int k = 1; k <= window.radius; ++k)
            all = window.combine(all, window.combine(here << k | before >> (32 - k), here >> k | after << (32 - k)));
        out[y][x] = all;
    }
    __syncthreads();
}

__device__ __forceinline__ uint32_t acrossRows(const Tile &in, int rows, int y, int x, Window window) {
    uint32_t all = in[y][x];
    for (int k = max(0, y - window.radius); k <= min(rows - 1, y + window.radius); ++k)
        all = window.combine(all, in[k][x]);
    return all;
}

// Returns the bits of word x of row y that are pixels; none outside the frame.
__device__ __forceinline__ uint32_t pixelsOf(const Detector &d, int y, int x) {
    const bool inside = y >= 0 && y < d.model.rows && x >= 0 && x < static_cast<int>(d.words);
    return inside ? validBits(d, static_cast<unsigned>(x)) : 0;
}

// The components of a tile. A warp has a column of words here: objects are higher than wide, so most runs of a column
// belong to one component and cost one addition. Nodes are numbered so that those of a warp lie in different banks.
struct Labels {
    uint32_t words[THREADS];
    // By node: a node of the same component. A root has its own number, its area above that, and REACHES if it reaches
    // another tile; finally its slot, or NONE.
    uint32_t parents[THREADS * NODES];
};
constexpr int AREA_SHIFT = 12;
constexpr uint32_t REACHES = 1u << 31, NONE = ~0u;
static_assert(THREADS * NODES == 1 << AREA_SHIFT, "a node's number is below the area");

__device__ __forceinline__ uint32_t nodeInTile(uint32_t word, int first) {
    return static_cast<uint32_t>(first) / 2 * THREADS + word;
}

// The differences of a word with moving pixels.
struct Differences {
    uint32_t moving;
    uint32_t parts[8] = {}; // differences of four pixels each

    __device__ __forceinline__ void load(const Detector &d, size_t at) {
        const uint4 *const halves = reinterpret_cast<const uint4 *>(d.planes.differences + at * 32);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (moving >> 16 * i & 0xffff) {
                const uint4 half = halves[i];
                parts[4 * i] = half.x, parts[4 * i + 1] = half.y, parts[4 * i + 2] = half.z, parts[4 * i + 3] = half.w;
            }
    }
    // Returns the sum of d / 256 over the moving pixels of a run.
    __device__ __forceinline__ unsigned sum(uint32_t run) const {
        unsigned sum = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            sum = __dp4a(parts[i] & (((moving & run) >> 4 * i & 15) * 0x00204081u & 0x01010101u) * 255u, 0x01010101u, sum);
        return sum;
    }
};

// Calls each(value, lanes that have it, whether this is the first of them) for each value except NONE. All lanes of the
// warp call it. Atomics on one address wait for each other, so lanes with the same value add together.
template<class Each>
__device__ __forceinline__ void forEachOf(uint32_t value, Each each) {
    for (unsigned left = __ballot_sync(FULL_WARP, value != NONE); left;) {
        const int first = __ffs(static_cast<int>(left)) - 1;
        const uint32_t current = __shfl_sync(FULL_WARP, value, first);
        const unsigned lanes = __ballot_sync(FULL_WARP, value == current);
        each(current, lanes, static_cast<int>(threadIdx.x % 32) == first);
        left &= ~lanes;
    }
}

// A thread's word of a tile.
struct Word {
    unsigned x, y;
    uint32_t index, bits;
    uint32_t border;    // pixels with neighbors in other tiles
    bool joins;         // whether runs must be joined with those of other tiles
    uint32_t roots = 0; // first pixels of runs that are roots

    // `words` are the tile's, column by column.
    __device__ __forceinline__ Word(const Detector &d, const uint32_t *words)
        : x(blockIdx.x * TILE_WORDS + threadIdx.x / TILE_ROWS), y(blockIdx.y * TILE_ROWS + threadIdx.x % TILE_ROWS),
          index(y * d.words + x), bits(words[threadIdx.x]) {
        const Neighbors others = inOtherTiles(d, x, y);
        const bool bottom = y % TILE_ROWS == TILE_ROWS - 1 && y + 1 < static_cast<unsigned>(d.model.rows),
                   right = x % TILE_WORDS == TILE_WORDS - 1 && x + 1 < d.words;
        const uint32_t left = others.left;
        border = others.up || bottom ? ~0u : left | static_cast<uint32_t>(right) << 31;
        // A set pixel above already joins the word to the upper right; only a gap needs this.
        const bool up_right = !others.up && others.up_right && !(words[threadIdx.x - 1] >> 31);
        joins = bits & (others.up ? ~0u : left | static_cast<uint32_t>(up_right) << 31);
    }
};

// Sets every run's first parent: the run above it in its column, if that is a smaller node. Then shortens paths within the
// column, so that high objects do not have long ones.
__device__ __forceinline__ void linkColumn(Labels &s, uint32_t bits) {
    uint32_t above = __shfl_up_sync(FULL_WARP, bits, 1);
    above = threadIdx.x % 32 ? above : 0;
    for (uint32_t rest = bits; rest;) {
        const Run run = takeRun(rest);
        const uint32_t node = nodeInTile(threadIdx.x, run.first), touching = above & run.around();
        const int at = __ffs(static_cast<int>(touching)) - 1;
        s.parents[node] = touching ? min(node, nodeInTile(threadIdx.x - 1, firstBit(above, at))) : node;
    }
    uint32_t rest = bits;
#pragma unroll 1
    while (__any_sync(FULL_WARP, rest != 0)) {
        const bool has = rest != 0;
        const uint32_t node = has ? nodeInTile(threadIdx.x, takeRun(rest).first) : 0;
#pragma unroll 1
        for (int length = 1; length < TILE_ROWS; length *= 2) {
            __syncwarp();
            const uint32_t next = has ? s.parents[s.parents[node]] : 0;
            __syncwarp();
            if (has)
                s.parents[node] = next;
        }
    }
}

// Joins the runs of a tile and adds up the areas of its roots.
__device__ __forceinline__ void labelTile(Labels &s, Word &word) {
    linkColumn(s, word.bits);
    __syncthreads();
    const bool has_left = threadIdx.x >= TILE_ROWS, has_up = threadIdx.x % TILE_ROWS > 0;
    joinRuns(s.parents, s.words, threadIdx.x, TILE_ROWS, 1,
             {has_left, has_left && has_up, has_up, has_up && threadIdx.x < THREADS - TILE_ROWS}, nodeInTile);
    __syncthreads();
    uint32_t rest = word.bits;
    while (__any_sync(FULL_WARP, rest != 0)) {
        Run run = {};
        uint32_t root = NONE;
        if (rest) {
            run = takeRun(rest);
            const uint32_t node = nodeInTile(threadIdx.x, run.first);
            root = flatten(s.parents, node);
            if (root == node)
                word.roots |= 1u << run.first;
        }
        forEachOf(root, [&](uint32_t current, unsigned lanes, bool first) {
            const bool in = root == current;
            const unsigned area = warpSum(in ? run.length() : 0);
            const bool reaches = __any_sync(FULL_WARP, in ? run.bits() & word.border : 0);
            if (!first)
                return;
            atomicAdd(s.parents + current, area << AREA_SHIFT);
            if (reaches)
                atomicOr(s.parents + current, REACHES);
        });
    }
    __syncthreads();
}

// Gives slots to the tile's roots, and lists the words that must be joined.
__device__ __forceinline__ void listRoots(const Detector &d, Labels &s, const Word &word) {
    uint32_t *const counts = d.counts + blockIdx.z * LISTS;
    for (uint32_t left = word.roots; left; left &= left - 1) {
        const uint32_t node = nodeInTile(threadIdx.x, __ffs(static_cast<int>(left)) - 1), root = s.parents[node];
        uint32_t slot = NONE;
        if (root & REACHES)
            slot = CUS_MOTION_MAX_COMPONENTS + atomicAdd(counts + PARTS, 1u);
        else if (root >> AREA_SHIFT >= static_cast<uint32_t>(d.model.options.min_area))
            slot = atomicAdd(counts + WHOLE, 1u);
        const bool fits = root & REACHES || slot < CUS_MOTION_MAX_COMPONENTS;
        s.parents[node] = fits ? slot : NONE;
        if (fits) {
            d.components[blockIdx.z * d.slots + slot] = MOTION_NOTHING;
            d.parents[blockIdx.z * d.slots + slot] = slot - CUS_MOTION_MAX_COMPONENTS; // used for parts only
        }
    }
    if (word.joins)
        d.joins[blockIdx.z * d.most_joins + atomicAdd(counts + JOINS, 1u)] = word.index;
    __syncthreads();
}

// Replaces a sum's box and first pixel by those of the moving pixels. All lanes of the warp call it; `moving` is 0 in lanes
// that do not belong to the sum.
__device__ __forceinline__ void tighten(MotionComponent *sum, const Word &word, uint32_t moving) {
    const unsigned lanes = __ballot_sync(FULL_WARP, moving != 0);
    const unsigned left = word.x * 32 + static_cast<unsigned>(__ffs(static_cast<int>(moving))) - 1,
                   right = word.x * 32 + 31 - static_cast<unsigned>(__clz(static_cast<int>(moving)));
    const int row = static_cast<int>(word.y - threadIdx.x % 32), first = __ffs(static_cast<int>(lanes)) - 1;
    const unsigned first_left = __shfl_sync(FULL_WARP, left, first & 31);
    const int most_left = 65535 - static_cast<int>(warpMax(moving ? 65535 - left : 0)),
              most_right = static_cast<int>(warpMax(moving ? right : 0));
    sum->first = lanes ? first_left : ~0u;
    sum->top = lanes ? row + first : INT32_MAX;
    sum->left = lanes ? most_left : INT32_MAX;
    sum->right = lanes ? most_right : 0;
    sum->bottom = lanes ? row + 31 - __clz(static_cast<int>(lanes)) : 0;
}

// Adds up the runs of the lanes `lanes`, which lie below each other, in the first of these lanes. All lanes of the warp
// call it. Sums fit 32 bits: a warp has 32 words of 32 pixels, with coordinates below 2^16.
__device__ __forceinline__ MotionComponent sumOf(const Differences &differences, const Word &word, const Run &run,
                                                 unsigned lanes) {
    const bool in = lanes >> threadIdx.x % 32 & 1;
    const unsigned length = in ? run.length() : 0, left = word.x * 32 + static_cast<unsigned>(run.first),
                   right = word.x * 32 + static_cast<unsigned>(run.last);
    const uint32_t bits = in ? run.bits() : 0;
    MotionComponent c;
    c.sum_x = warpSum(length * (left + right) / 2);
    c.sum_y = warpSum(length * word.y);
    c.first = left;
    c.top = static_cast<int>(word.y);
    c.left = 65535 - static_cast<int>(warpMax(in ? 65535 - left : 0));
    c.right = static_cast<int>(warpMax(in ? right : 0));
    c.bottom = static_cast<int>(word.y - threadIdx.x % 32) + 31 - __clz(static_cast<int>(lanes));
    c.area = warpSum(length);
    c.differences = warpSum(differences.sum(bits));
    c.moving = warpSum(static_cast<unsigned>(__popc(differences.moving & bits)));
    return c;
}

// Adds up the components that have slots.
template<bool TIGHT>
__device__ __forceinline__ void addRuns(const Detector &d, const Labels &s, const Word &word,
                                        const Differences &differences) {
    MotionComponent *const components = d.components + blockIdx.z * d.slots;
    uint32_t *const labels = d.planes.labels + blockIdx.z * d.planeWords() * NODES;
    uint32_t rest = word.bits;
    while (__any_sync(FULL_WARP, rest != 0)) {
        Run run = {};
        uint32_t slot = NONE;
        if (rest) {
            run = takeRun(rest);
            const uint32_t node = nodeInTile(threadIdx.x, run.first);
            slot = s.parents[word.roots >> run.first & 1 ? node : s.parents[node]];
            if (run.bits() & word.border)
                labels[nodeAt(word.index, run.first)] = slot;
        }
        forEachOf(slot, [&](uint32_t current, unsigned lanes, bool first) {
            MotionComponent sum = sumOf(differences, word, run, lanes);
            if (TIGHT)
                tighten(&sum, word, slot == current ? differences.moving & run.bits() : 0);
            if (first) // this lane has the first pixel
                absorb(components + current, sum);
        });
    }
}

template<bool TIGHT>
__global__ void __launch_bounds__(THREADS, 4) tileKernel(const Detector d) {
    startInOrder();
    __shared__ Tile a, b;
    __shared__ Labels labels;
    const int erode = d.model.options.erode, dilate = d.model.options.dilate, around = erode + dilate;
    const int rows = TILE_ROWS + 2 * around;
    const int left = static_cast<int>(blockIdx.x) * TILE_WORDS, top = static_cast<int>(blockIdx.y) * TILE_ROWS;
    const size_t plane = blockIdx.z * d.planeWords();
    const MotionCamera camera = d.cameras[blockIdx.z];
    // Loads at the start what is added up at the end.
    const int own_x = left + static_cast<int>(threadIdx.x) / TILE_ROWS,
              own_y = top + static_cast<int>(threadIdx.x) % TILE_ROWS;
    const size_t own = plane + static_cast<size_t>(own_y) * d.words + static_cast<size_t>(own_x);
    Differences differences = {pixelsOf(d, own_y, own_x) ? d.planes.moving[own] : 0};
    uint32_t any = 0;
    for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS) {
        const int y = top - around + i / WORDS, x = left - 1 + i % WORDS;
        const uint32_t pixels = pixelsOf(d, y, x);
        const uint32_t bits =
            pixels ? d.planes.moving[plane + static_cast<size_t>(y) * d.words + static_cast<size_t>(x)] : 0;
        any |= bits;
        a[i / WORDS][i % WORDS] = erode > 0 ? bits | ~pixels : bits;
    }
    if (!camera.active || motionState(&d.model, &camera) != CUS_MOTION_WATCHING)
        return;
    differences.load(d, own);
    const bool is_set = __syncthreads_or(any != 0);
    if (is_set && erode > 0) {
        const Window window = {erode, true};
        alongRows(a, b, rows, window);
        for (int i = static_cast<int>(threadIdx.x); i < rows * WORDS; i += THREADS)
            a[i / WORDS][i % WORDS] = acrossRows(b, rows, i / WORDS, i % WORDS, window) &
                                      pixelsOf(d, top - around + i / WORDS, left - 1 + i % WORDS);
        __syncthreads();
    }
    const int y = static_cast<int>(threadIdx.x) / TILE_WORDS, x = static_cast<int>(threadIdx.x) % TILE_WORDS;
    uint32_t bits = 0;
    if (is_set) {
        const Window window = {dilate, false};
        alongRows(a, b, rows, window);
        bits = acrossRows(b, rows, y + around, x + 1, window) & pixelsOf(d, top + y, left + x);
    }
    if (pixelsOf(d, top + y, left + x))
        d.planes.mask[plane + static_cast<size_t>(top + y) * d.words + static_cast<size_t>(left + x)] = bits;
    labels.words[x * TILE_ROWS + y] = bits;
    if (!__syncthreads_or(bits != 0))
        return;
    Word word(d, labels.words);
    labelTile(labels, word);
    listRoots(d, labels, word);
    addRuns<TIGHT>(d, labels, word, differences);
}

} // namespace

cusStatus findComponents(const char *function, const Detector &d, cudaStream_t stream) {
    return launchOverlapped(function, d.model.options.tight ? tileKernel<true> : tileKernel<false>, tiles(d), THREADS, 0,
                            stream, d);
}

} // namespace cusi::motion
