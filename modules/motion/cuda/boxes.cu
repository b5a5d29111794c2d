// Ends a step on the GPU, a block for each camera: joins components across tiles, finds state and noise, sorts, merges and
// splits boxes, and follows tracks.
#include "motion/cuda/runs.cuh"

namespace cusi::motion {
namespace {

constexpr int FINISHERS = 512; // threads of a block
constexpr int MAX_BOXES = 256; // each handled by one thread

struct Shared {
    MotionComponent boxes[MAX_BOXES];
    cusMotionBox sorted[MAX_BOXES];
    cusMotionTrack tracks[MAX_BOXES];
    union {
        uint32_t parents[MAX_BOXES];               // of parts, if there are few
        uint16_t order[CUS_MOTION_MAX_COMPONENTS]; // used to sort many components, then for the parents of boxes
    };
    uint32_t listed[MAX_BOXES]; // the roots, if there are few parts
    uint16_t merged[MAX_BOXES];
    int takers[MAX_BOXES]; // for each box its slices, then the first track that wants it
    int decided;           // number of decided tracks
    int roots;             // number of listed roots
    uint32_t counts[LISTS];
    MotionCamera camera;
    cusMotionStatus status;
};
static_assert(sizeof(Shared) <= 48 << 10, "shared memory without an attribute");
constexpr uint16_t NONE = 0xffff;

constexpr int WARPS = FINISHERS / 32;
static_assert(sizeof(MotionComponent) % sizeof(uint32_t) == 0, "of words");

// Returns the sum of all lanes' components, in every lane.
__device__ __forceinline__ MotionComponent warpTotal(MotionComponent mine) {
    constexpr int WORDS = sizeof mine / sizeof(uint32_t);
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2) {
        uint32_t words[WORDS];
        memcpy(words, &mine, sizeof mine);
#pragma unroll
        for (uint32_t &word : words)
            word = __shfl_xor_sync(FULL_WARP, word, distance);
        MotionComponent other;
        memcpy(&other, words, sizeof other);
        motionAbsorb(&mine, &other);
    }
    return mine;
}

// Adds up few parts, whose parents are roots, a warp for each root.
__device__ __forceinline__ void addFewParts(const Detector &d, Shared &s, MotionComponent *components) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) / 32; i < s.roots; i += WARPS) {
        MotionComponent mine = MOTION_NOTHING;
#pragma unroll 1
        for (uint32_t part = threadIdx.x % 32; part < s.counts[PARTS]; part += 32)
            if (s.parents[part] == s.listed[i])
                motionAbsorb(&mine, &s.boxes[part]);
        mine = warpTotal(mine);
        if (threadIdx.x % 32 == 0 && mine.area >= static_cast<uint32_t>(d.model.options.min_area)) {
            const uint32_t number = atomicAdd(&s.camera.components, 1u);
            if (number < CUS_MOTION_MAX_COMPONENTS)
                components[number] = mine;
        }
    }
}

// Joins parts to components, in shared memory if FEW.
template<bool FEW>
__device__ __forceinline__ void joinParts(const Detector &d, Shared &s) {
    const size_t plane = blockIdx.x * d.planeWords();
    const uint32_t count = s.counts[PARTS];
    MotionComponent *const components = d.components + blockIdx.x * d.slots, *const parts =
                                                                                 FEW ? s.boxes
                                                                                     : components +
                                                                                           CUS_MOTION_MAX_COMPONENTS;
    uint32_t *const parents = FEW ? s.parents : d.parents + blockIdx.x * d.slots + CUS_MOTION_MAX_COMPONENTS;
    const uint32_t first = threadIdx.x;
    if (FEW && first < count) {
        s.parents[first] = first;
        s.boxes[first] = components[CUS_MOTION_MAX_COMPONENTS + first];
    }
    __syncthreads();
    const auto labelAt = [&](uint32_t index, int bit) {
        return d.planes.labels[plane * NODES + nodeAt(index, bit)] - CUS_MOTION_MAX_COMPONENTS;
    };
#pragma unroll 1
    for (uint32_t i = first; i < s.counts[JOINS]; i += FINISHERS) {
        const uint32_t index = d.joins[blockIdx.x * d.most_joins + i];
        joinRuns(parents, d.planes.mask + plane, index, 1, d.words, inOtherTiles(d, index % d.words, index / d.words),
                 labelAt);
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t part = first; part < count; part += FINISHERS) {
        const uint32_t root = flatten(parents, part);
        if (FEW && root == part)
            s.listed[atomicAdd(&s.roots, 1)] = part;
        else if (!FEW && root != part)
            absorb(parts + root, parts[part]);
    }
    __syncthreads();
    if (FEW)
        addFewParts(d, s, components);
#pragma unroll 1
    for (uint32_t part = first; !FEW && part < count; part += FINISHERS) {
        if (parents[part] != part || parts[part].area < static_cast<uint32_t>(d.model.options.min_area))
            continue;
        const uint32_t number = atomicAdd(&s.camera.components, 1u);
        if (number < CUS_MOTION_MAX_COMPONENTS)
            components[number] = parts[part];
    }
    __syncthreads();
}

// Rare cases are not inlined: a kernel that runs once a step waits for its instructions to be loaded. Each kernel has its
// own copies, since a function of two kernels takes registers from both.
template<bool SPLIT>
__device__ __noinline__ void joinManyParts(const Detector &d, Shared &s) {
    joinParts<false>(d, s);
}

// Sorts the indices 0 .. count - 1 of the components by a bitonic sort. Indices up to the next power of two stay behind
// them.
template<bool SPLIT>
__device__ __noinline__ void sortComponents(const MotionComponent *components, uint32_t count, uint16_t *order) {
    uint32_t padded = 1;
#pragma unroll 1
    while (padded < count)
        padded *= 2;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < padded; i += FINISHERS)
        order[i] = static_cast<uint16_t>(i);
    __syncthreads();
    const auto before = [&](uint32_t a, uint32_t b) {
        return a < count && (b >= count || motionBefore(components + a, components + b));
    };
#pragma unroll 1
    for (uint32_t size = 2; size <= padded; size *= 2)
#pragma unroll 1
        for (uint32_t distance = size / 2; distance > 0; distance /= 2) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < padded; i += FINISHERS) {
                const uint32_t other = i ^ distance;
                if (other < i)
                    continue;
                const uint16_t a = order[i], b = order[other];
                if ((i & size) == 0 ? before(b, a) : before(a, b)) {
                    order[i] = b;
                    order[other] = a;
                }
            }
            __syncthreads();
        }
}

// Takes the `most` largest components in order. If there are few, each thread counts those before its own.
template<bool SPLIT>
__device__ void takeLargest(const MotionComponent *components, uint32_t count, uint32_t most, Shared &s) {
    const uint32_t i = threadIdx.x;
    if (count > MAX_BOXES) {
        sortComponents<SPLIT>(components, count, s.order);
        if (i < most)
            s.boxes[i] = components[s.order[i]];
        __syncthreads();
        return;
    }
    MotionComponent mine = {};
    uint32_t before = i < count ? 0 : most;
    if (i < count)
        s.boxes[i] = mine = components[i];
    __syncthreads();
#pragma unroll 1
#pragma unroll 4
    for (uint32_t k = 0; k < count && i < count; ++k)
        before += static_cast<uint32_t>(motionBefore(&s.boxes[k], &mine));
    __syncthreads();
    if (before < most)
        s.boxes[before] = mine;
    __syncthreads();
}

// Merges overlapping boxes until none do. A merged box has a smaller index as its parent, others themselves. In each round
// every box that is left looks for the first one that it overlaps; then roots absorb, in any order, the boxes that joined
// them.
template<bool SPLIT>
__device__ __noinline__ void merge(Shared &s, int count) {
    uint16_t *const parents = s.order;
    const int i = static_cast<int>(threadIdx.x);
    parents[i] = static_cast<uint16_t>(i);
    __syncthreads();
#pragma unroll 1
    for (;;) {
        int into = i;
        if (i < count && parents[i] == i)
#pragma unroll 1
            for (int k = 0; k < i && into == i; ++k)
                if (parents[k] == k && motionOverlap(&s.boxes[k], &s.boxes[i]))
                    into = k;
        if (!__syncthreads_or(into != i))
            return;
        if (into != i)
            parents[i] = static_cast<uint16_t>(into);
        __syncthreads();
        int root = i;
#pragma unroll 1
        while (parents[root] != root)
            root = parents[root];
        if (i < count)
            s.merged[i] = into != i ? static_cast<uint16_t>(root) : NONE;
        __syncthreads();
        if (parents[i] == i)
#pragma unroll 1
            for (int k = i + 1; k < count; ++k)
                if (s.merged[k] == i)
                    motionAbsorb(&s.boxes[i], &s.boxes[k]);
        __syncthreads();
    }
}

// Writes the boxes that are left in order and returns their number.
template<bool SPLIT>
__device__ __noinline__ int sortMerged(Shared &s, int count) {
    const uint16_t *const parents = s.order;
    const int i = static_cast<int>(threadIdx.x);
    const bool is_left = i < count && parents[i] == i;
    if (is_left) {
        int rank = 0;
#pragma unroll 1
        for (int k = 0; k < count; ++k)
            rank += k != i && parents[k] == k && motionBefore(&s.boxes[k], &s.boxes[i]);
        s.sorted[rank] = motionBox(&s.boxes[i]);
    }
    return __syncthreads_count(is_left);
}

// Makes boxes of the largest components and returns their number.
template<bool SPLIT>
__device__ int makeBoxes(const Detector &d, Shared &s, uint32_t count) {
    const int boxes = static_cast<int>(min(count, static_cast<uint32_t>(d.model.options.max_boxes)));
    const int i = static_cast<int>(threadIdx.x);
    takeLargest<SPLIT>(d.components + blockIdx.x * d.slots, count, static_cast<uint32_t>(boxes), s);
    if (d.model.options.merge) {
        merge<SPLIT>(s, boxes);
        return sortMerged<SPLIT>(s, boxes);
    }
    if (i < boxes)
        s.sorted[i] = motionBox(&s.boxes[i]);
    __syncthreads();
    return boxes;
}

// The pixels of the mask that a box has in a column.
struct Column {
    int moving;
    uint32_t area;
};

__device__ __forceinline__ Column countColumn(const Detector &d, const cusMotionBox &box, int x) {
    Column column = {};
    if (x < box.x || x >= box.x + box.width)
        return column;
    size_t at = blockIdx.x * d.planeWords() + static_cast<size_t>(box.y) * d.words + static_cast<size_t>(x / 32);
#pragma unroll 4
    for (int y = 0; y < box.height; ++y, at += d.words) {
        const uint32_t bit = d.planes.mask[at] >> (x % 32) & 1;
        column.area += bit;
        column.moving += static_cast<int>(d.planes.moving[at] >> (x % 32) & bit);
    }
    return column;
}

// Puts what a box has in columns left .. right to slot `slot` of the boxes, with all lanes of a warp.
__device__ __noinline__ void writeSlice(const Detector &d, Shared &s, const cusMotionBox &box, int left, int right,
                                        int slot) {
    if (slot >= d.model.options.max_boxes)
        return;
    const int lane = static_cast<int>(threadIdx.x) % 32, first_word = left / 32, words = right / 32 - first_word + 1;
    MotionComponent mine = MOTION_NOTHING;
#pragma unroll 1
    for (int i = lane; i < words * box.height; i += 32) {
        const int y = box.y + i / words, word = first_word + i % words;
        const size_t at = blockIdx.x * d.planeWords() + static_cast<size_t>(y) * d.words + static_cast<size_t>(word);
        const uint32_t mask = d.planes.mask[at] & columns(word, left, right), moving = mask & d.planes.moving[at],
                       hull = d.model.options.tight ? moving : mask;
        MotionComponent here = MOTION_NOTHING;
        here.area = static_cast<uint32_t>(__popc(mask));
        here.moving = static_cast<uint32_t>(__popc(moving));
        here.sum_y = static_cast<uint64_t>(here.area) * static_cast<uint64_t>(y);
        for (uint32_t rest = mask; rest; rest &= rest - 1)
            here.sum_x += static_cast<uint64_t>(32 * word + __ffs(static_cast<int>(rest)) - 1);
        for (uint32_t rest = moving; rest; rest &= rest - 1)
            here.differences += d.planes.differences[32 * at + static_cast<size_t>(__ffs(static_cast<int>(rest)) - 1)];
        if (hull) {
            here.top = here.bottom = y;
            here.left = 32 * word + __ffs(static_cast<int>(hull)) - 1;
            here.right = 32 * word + 31 - __clz(static_cast<int>(hull));
            here.first = static_cast<uint32_t>(here.left);
        }
        motionAbsorb(&mine, &here);
    }
    mine = warpTotal(mine);
    if (lane == 0) {
        s.boxes[slot] = mine;
        s.merged[slot] = NONE;
    }
}

// Returns the number of slices of a box, 1 if it is not cut, with all lanes of a warp. Puts the slices of a box that is cut
// to slots from `slot` on if it is at least 0.
__device__ __noinline__ int cut(const Detector &d, Shared &s, const cusMotionBox &box, int slot) {
    const int lane = static_cast<int>(threadIdx.x) % 32, begin = box.x / 32 * 32, end = box.x + box.width;
    int most = 0;
#pragma unroll 1
    for (int x = begin; x < end; x += 32)
        most = max(most, countColumn(d, box, x + lane).moving);
    MotionCores cores = {static_cast<int>(warpMax(static_cast<unsigned>(most))), box.x, box.x, 0, -1};
    int slices = 0, left = box.x;
    const auto endRun = [&] {
        const int column = motionEndRun(&d.model, &cores);
        if (column < 0)
            return;
        if (slot >= 0)
            writeSlice(d, s, box, left, column - 1, slot + slices);
        ++slices;
        left = column;
    };
#pragma unroll 1
    for (int x = begin; x < end; x += 32) {
        const Column column = countColumn(d, box, x + lane);
        uint32_t full = __ballot_sync(FULL_WARP, motionIsFull(&d.model, &cores, column.moving));
#pragma unroll 1
        while (full) {
            const Run run = takeRun(full);
            if (x + run.first != cores.end) {
                endRun();
                cores.first = x + run.first;
            }
            cores.end = x + run.last + 1;
            cores.area += warpSum(run.bits() >> lane & 1 ? column.area : 0);
        }
    }
    endRun();
    if (slices > 0 && slot >= 0)
        writeSlice(d, s, box, left, end - 1, slot + slices);
    return slices + 1;
}

// Cuts boxes between things that stand side by side, a warp for each box, and returns how many there are then.
__device__ __noinline__ int split(const Detector &d, Shared &s, int count) {
    int *const slices = s.takers;
    const int i = static_cast<int>(threadIdx.x), lane = i % 32;
    const auto slicesBefore = [&](int box) {
        unsigned before = 0;
        for (int k = lane; k < box; k += 32)
            before += static_cast<unsigned>(slices[k]);
        return static_cast<int>(warpSum(before));
    };
    bool cuts = false;
#pragma unroll 1
    for (int box = i / 32; box < count; box += WARPS) {
        const int mine = cut(d, s, s.sorted[box], -1);
        if (lane == 0)
            slices[box] = mine;
        cuts |= mine > 1;
    }
    if (!__syncthreads_or(cuts))
        return count;
#pragma unroll 1
    for (int box = i / 32; box < count; box += WARPS) {
        const int slot = slicesBefore(box);
        if (slices[box] > 1)
            cut(d, s, s.sorted[box], slot);
        else if (lane == 0 && slot < d.model.options.max_boxes)
            s.merged[slot] = static_cast<uint16_t>(box);
    }
    const int all = min(slicesBefore(count), d.model.options.max_boxes);
    __syncthreads();
    cusMotionBox mine = {};
    if (i < all)
        mine = s.merged[i] == NONE ? motionBox(&s.boxes[i]) : s.sorted[s.merged[i]];
    __syncthreads();
    if (i < all)
        s.sorted[i] = mine;
    __syncthreads();
    return all;
}

// Each track in turn takes the free box that shares most pixels with it. In each round all undecided tracks choose at once;
// those before the first that wants another's box have chosen as they would in turn.
template<bool SPLIT>
__device__ void assign(Shared &s, int boxes, int64_t time) {
    const int i = static_cast<int>(threadIdx.x), tracks = s.status.tracks;
#pragma unroll 1
    for (int from = 0; from < tracks; from = s.decided) {
        __syncthreads(); // all threads have read `decided`
        if (i < boxes)
            s.takers[i] = tracks;
        s.decided = tracks;
        __syncthreads();
        int best = -1;
        if (i >= from && i < tracks) {
            int64_t most = 0;
#pragma unroll 1
            for (int b = 0; b < boxes; ++b) {
                const int64_t shared = s.sorted[b].track ? 0 : motionShared(&s.tracks[i], &s.sorted[b]);
                if (shared > most) {
                    most = shared;
                    best = b;
                }
            }
            if (best >= 0)
                atomicMin(&s.takers[best], i);
        }
        __syncthreads();
        if (best >= 0 && s.takers[best] < i)
            atomicMin(&s.decided, i);
        __syncthreads();
        if (i >= from && i < s.decided) {
            s.tracks[i].box = -1;
            if (best >= 0)
                motionFollow(&s.tracks[i], &s.sorted[best], best, time);
        }
    }
    __syncthreads();
}

template<bool SPLIT>
__global__ void __launch_bounds__(FINISHERS, 1) finishKernel(const __grid_constant__ Detector d) {
    startInOrder();
    __shared__ Shared s;
    const int most = d.model.options.max_boxes, i = static_cast<int>(threadIdx.x);
    const size_t at = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(most) + threadIdx.x;
    const int64_t time = d.times[blockIdx.x];
    if (i < most)
        s.tracks[i] = d.tracks[at];
    if (i < LISTS)
        s.counts[i] = d.counts[blockIdx.x * LISTS + threadIdx.x];
    if (i == 0) {
        s.roots = 0;
        s.camera = d.cameras[blockIdx.x];
        s.camera.components = d.counts[blockIdx.x * LISTS + WHOLE];
        s.status = d.status[blockIdx.x];
    }
    __syncthreads();
    if (!s.camera.active)
        return;
    if (s.counts[PARTS] <= MAX_BOXES)
        joinParts<true>(d, s);
    else
        joinManyParts<SPLIT>(d, s);
    if (i == 0)
        motionEnd(&d.model, &s.camera, time, &s.status);
    __syncthreads();
    int boxes = makeBoxes<SPLIT>(d, s, s.status.state == CUS_MOTION_WATCHING ? s.status.components : 0);
    if (SPLIT)
        boxes = split(d, s, boxes);
    assign<SPLIT>(s, boxes, time);
    const bool changes =
        __syncthreads_or((i < s.status.tracks && s.tracks[i].box < 0) || (i < boxes && s.sorted[i].track == 0));
    if (i == 0) {
        s.status.boxes = boxes;
        if (changes)
            s.status.tracks = motionBeginTracks(&d.model, &s.camera, s.tracks, s.status.tracks, s.sorted, boxes, time);
        d.cameras[blockIdx.x] = s.camera;
        d.status[blockIdx.x] = s.status;
    }
    __syncthreads();
    if (i < boxes)
        d.boxes[at] = s.sorted[i];
    if (i < s.status.tracks)
        d.tracks[at] = s.tracks[i];
}

} // namespace

cusStatus finish(const char *function, const Detector &d, cudaStream_t stream) {
    const auto kernel = d.model.options.split ? finishKernel<true> : finishKernel<false>;
    return launchOverlapped(function, kernel, static_cast<unsigned>(d.model.cameras), FINISHERS, 0, stream, d);
}

} // namespace cusi::motion
