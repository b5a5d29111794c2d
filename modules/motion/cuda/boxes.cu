// Ends a step on the GPU, a block for each camera: joins components across tiles, finds state and noise, sorts and merges
// boxes, and follows tracks.
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
    int takers[MAX_BOXES]; // for each box the first track that wants it
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

// Rare cases are not inlined: a kernel that runs once a step waits for its instructions to be loaded.
__device__ __noinline__ void joinManyParts(const Detector &d, Shared &s) {
    joinParts<false>(d, s);
}

// Sorts the indices 0 .. count - 1 of the components by a bitonic sort. Indices up to the next power of two stay behind
// them.
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
__device__ void takeLargest(const MotionComponent *components, uint32_t count, uint32_t most, Shared &s) {
    const uint32_t i = threadIdx.x;
    if (count > MAX_BOXES) {
        sortComponents(components, count, s.order);
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
__device__ int makeBoxes(const Detector &d, Shared &s, uint32_t count) {
    const int boxes = static_cast<int>(min(count, static_cast<uint32_t>(d.model.options.max_boxes)));
    const int i = static_cast<int>(threadIdx.x);
    takeLargest(d.components + blockIdx.x * d.slots, count, static_cast<uint32_t>(boxes), s);
    if (d.model.options.merge) {
        merge(s, boxes);
        return sortMerged(s, boxes);
    }
    if (i < boxes)
        s.sorted[i] = motionBox(&s.boxes[i]);
    __syncthreads();
    return boxes;
}

// Each track in turn takes the free box that shares most pixels with it. In each round all undecided tracks choose at once;
// those before the first that wants another's box have chosen as they would in turn.
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
        joinManyParts(d, s);
    if (i == 0)
        motionEnd(&d.model, &s.camera, time, &s.status);
    __syncthreads();
    const int boxes = makeBoxes(d, s, s.status.state == CUS_MOTION_WATCHING ? s.status.components : 0);
    assign(s, boxes, time);
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
    return launchOverlapped(function, finishKernel, static_cast<unsigned>(d.model.cameras), FINISHERS, 0, stream, d);
}

} // namespace cusi::motion
