// Shadows and ghosts on the GPU: where the frame is the background in less light, and where only the background has edges.
// Kernels of their own, so that a step without these options is launched as before.
#include "motion/cuda/stages.cuh"

namespace cusi::motion {
namespace {

// What the pixels of one camera are read from.
struct Ground {
    const uint8_t *frame;
    size_t step, row_values; // row_values: values of the background a row
    const uint16_t *background;
    bool color;

    __device__ __forceinline__ int32_t luma(int y, int x) const {
        const uint8_t *const row = frame + static_cast<size_t>(y) * step;
        if (!color)
            return row[x];
        const uint8_t *const p = row + 3 * static_cast<size_t>(x);
        return motionLuma(p[0], p[1], p[2]);
    }
    __device__ __forceinline__ int32_t gray(int y, int x) const {
        return motionGray(background[static_cast<size_t>(y) * row_values + static_cast<size_t>(x)]);
    }
};

__device__ __forceinline__ Ground groundOf(const Detector &d, const Frames &frames, unsigned index, unsigned number) {
    return {frames.data[index], frames.step[index], static_cast<size_t>(d.words) * 32,
            d.planes.background + number * d.planeWords() * 32, d.model.type == CUS_8UC3};
}

// Loads everything at once instead of ending early. At the frame's border a pixel is its own neighbor.
__device__ __forceinline__ bool isShadow(const Detector &d, const Ground &g, int y, int x) {
    const int32_t luma = g.luma(y, x), gray = g.gray(y, x);
    const auto keeps = [&](int v, int u) { return motionKeepsEdge(luma, gray, g.luma(v, u), g.gray(v, u)); };
    return motionDarker(luma, gray, d.model.options.shadows) & keeps(y, max(x - 1, 0)) &
           keeps(y, min(x + 1, d.model.cols - 1)) & keeps(max(y - 1, 0), x) & keeps(min(y + 1, d.model.rows - 1), x);
}

// Each warp removes the shadow of 32 words of camera first + blockIdx.y, one after the other, with a lane for each pixel.
__global__ void __launch_bounds__(THREADS) shadowKernel(const Detector d, const Frames frames, unsigned first) {
    startInOrder();
    const unsigned number = first + blockIdx.y, lane = threadIdx.x % 32;
    const size_t index = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    uint32_t *const moving = d.planes.moving + number * d.planeWords() + index;
    const uint32_t mine = index < d.planeWords() ? *moving : 0;
    if (!frames.data[blockIdx.y] || motionState(&d.model, &d.cameras[number]) != CUS_MOTION_WATCHING)
        return;
    const Ground ground = groundOf(d, frames, blockIdx.y, number);
    uint32_t shadow = 0;
    for (uint32_t rest = __ballot_sync(FULL_WARP, mine != 0); rest; rest &= rest - 1) {
        const unsigned turn = static_cast<unsigned>(__ffs(static_cast<int>(rest))) - 1;
        const unsigned at = static_cast<unsigned>(index) - lane + turn;
        const int y = static_cast<int>(at / d.words), x = static_cast<int>(at % d.words * 32 + lane);
        const bool moves = __shfl_sync(FULL_WARP, mine, turn) >> lane & 1;
        const uint32_t found = __ballot_sync(FULL_WARP, moves && isShadow(d, ground, y, x));
        shadow = lane == turn ? found : shadow;
    }
    if (shadow)
        *moving = mine & ~shadow;
}

// Whether each box is a ghost, until the next step joins parts, whose memory this is.
__device__ __forceinline__ uint32_t *ghostsOf(const Detector &d, unsigned number) {
    return d.parents + number * d.slots;
}

// The pixels of a word of which one moves and the neighbor, on the right or below, does not, or the other way round.
struct Edges {
    uint32_t right, below;
};

// A box with a pixel around it, as words of the planes of bits.
struct Surroundings {
    int left, top, right, bottom, first_word, words;

    __device__ __forceinline__ Surroundings(const Detector &d, const cusMotionBox &box)
        : left(max(box.x - 1, 0)), top(max(box.y - 1, 0)), right(min(box.x + box.width, d.model.cols - 1)),
          bottom(min(box.y + box.height, d.model.rows - 1)), first_word(left / 32), words(right / 32 - first_word + 1) {}
    __device__ __forceinline__ int count() const { return words * (bottom - top + 1); }
    __device__ __forceinline__ Edges edges(const Detector &d, const uint32_t *moving, int i) const {
        const int y = top + i / words, word = first_word + i % words;
        const uint32_t *const at = moving + static_cast<size_t>(y) * d.words + static_cast<size_t>(word);
        const uint32_t here = *at, next = here >> 1 | (word + 1 < static_cast<int>(d.words) ? at[1] << 31 : 0),
                       below = y < bottom ? at[d.words] : here;
        return {(here ^ next) & columns(word, left, right - 1), (here ^ below) & columns(word, left, right)};
    }
};

// Adds up the edges of box blockIdx.x of camera first + blockIdx.y, those of the frame less those of the background. Most
// words have one or two, some 32, so the block lists them and shares the list; what does not fit, a thread adds at once.
__global__ void __launch_bounds__(THREADS) ghostKernel(const Detector d, const Frames frames, unsigned first) {
    startInOrder();
    const unsigned number = first + blockIdx.y;
    const cusMotionBox box =
        d.boxes[static_cast<size_t>(number) * static_cast<size_t>(d.model.options.max_boxes) + blockIdx.x];
    if (!frames.data[blockIdx.y] || static_cast<int>(blockIdx.x) >= d.status[number].boxes)
        return;
    constexpr int EACH = 4, LISTED = 4096; // words of a thread at a time
    static_assert(64 * EACH * THREADS <= 1 << 16, "an entry is 64 times the word, plus 32 for below, plus the bit");
    __shared__ uint16_t list[LISTED];
    __shared__ unsigned count;
    const Surroundings part(d, box);
    const uint32_t *const moving = d.planes.moving + number * d.planeWords();
    const Ground g = groundOf(d, frames, blockIdx.y, number);
    long long mine = 0;
    for (int from = 0; from < part.count(); from += EACH * THREADS) {
        const auto add = [&](unsigned entry) {
            const int i = from + static_cast<int>(entry / 64), y = part.top + i / part.words,
                      x = 32 * (part.first_word + i % part.words) + static_cast<int>(entry % 32),
                      next_y = y + (entry & 32 ? 1 : 0), next_x = x + (entry & 32 ? 0 : 1);
            mine += abs(g.luma(y, x) - g.luma(next_y, next_x)) - abs(g.gray(y, x) - g.gray(next_y, next_x));
        };
        Edges edges[EACH] = {};
        unsigned found = 0;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const int i = from + THREADS * k + static_cast<int>(threadIdx.x);
            if (i < part.count())
                edges[k] = part.edges(d, moving, i);
            found += static_cast<unsigned>(__popc(edges[k].right) + __popc(edges[k].below));
        }
        __syncthreads(); // all have read the list before
        if (threadIdx.x == 0)
            count = 0;
        __syncthreads();
        unsigned at = found ? atomicAdd(&count, found) : 0;
#pragma unroll
        for (int k = 0; k < 2 * EACH; ++k)
            for (uint32_t rest = k % 2 ? edges[k / 2].below : edges[k / 2].right; rest; rest &= rest - 1, ++at) {
                const unsigned entry = 64 * (THREADS * (k / 2) + threadIdx.x) + 32 * (k % 2) +
                                       static_cast<unsigned>(__ffs(static_cast<int>(rest))) - 1;
                if (at < LISTED)
                    list[at] = static_cast<uint16_t>(entry);
                else
                    add(entry);
            }
        __syncthreads();
        const unsigned listed = min(count, static_cast<unsigned>(LISTED));
#pragma unroll 2
        for (unsigned k = threadIdx.x; k < listed; k += THREADS)
            add(list[k]);
    }
    const long long sum = blockSumToFirst(mine);
    if (threadIdx.x == 0)
        ghostsOf(d, number)[blockIdx.x] = sum < 0;
}

// Learns the place of box blockIdx.x of camera first + blockIdx.y, if it is a ghost. Boxes may share pixels: all write the
// same.
__global__ void __launch_bounds__(THREADS) forgetKernel(const Detector d, const Frames frames, unsigned first) {
    startInOrder();
    const unsigned number = first + blockIdx.y;
    if (!frames.data[blockIdx.y] || static_cast<int>(blockIdx.x) >= d.status[number].boxes ||
        !ghostsOf(d, number)[blockIdx.x])
        return;
    const cusMotionBox box =
        d.boxes[static_cast<size_t>(number) * static_cast<size_t>(d.model.options.max_boxes) + blockIdx.x];
    const uint32_t *const mask = d.planes.mask + number * d.planeWords();
    const Ground g = groundOf(d, frames, blockIdx.y, number);
    uint16_t *const background = d.planes.background + number * d.planeWords() * 32;
    // Each thread goes on by THREADS pixels of the box, without a division.
    const int down = THREADS / box.width, across = THREADS % box.width;
    int y = static_cast<int>(threadIdx.x) / box.width, x = static_cast<int>(threadIdx.x) % box.width;
#pragma unroll 4
    while (y < box.height) {
        const size_t row = static_cast<size_t>(box.y + y), col = static_cast<size_t>(box.x + x);
        if (mask[row * d.words + col / 32] >> col % 32 & 1)
            background[row * g.row_values + col] = static_cast<uint16_t>(g.luma(box.y + y, box.x + x) << 8);
        y += down;
        x += across;
        if (x >= box.width) {
            x -= box.width;
            ++y;
        }
    }
}

// Launches a kernel for all cameras.
cusStatus forAll(const char *function, const Detector &d, const MotionStep &step, unsigned blocks, cudaStream_t stream,
                 void (*kernel)(Detector, Frames, unsigned)) {
    for (int first = 0; first < d.model.cameras; first += LAUNCH_CAMERAS) {
        bool aligned = true;
        int count = 0;
        const Frames frames = framesOf(d, step, first, &count, &aligned);
        CUS_TRY(launchOverlapped(function, kernel, dim3(blocks, static_cast<unsigned>(count)), THREADS, 0, stream, d,
                                 frames, static_cast<unsigned>(first)));
    }
    return CUS_OK;
}

} // namespace

cusStatus dropShadows(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream) {
    const size_t blocks = divUp(d.planeWords(), static_cast<size_t>(THREADS));
    return forAll(function, d, step, static_cast<unsigned>(blocks), stream, shadowKernel);
}

cusStatus learnGhosts(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream) {
    const unsigned boxes = static_cast<unsigned>(d.model.options.max_boxes);
    CUS_TRY(forAll(function, d, step, boxes, stream, ghostKernel));
    return forAll(function, d, step, boxes, stream, forgetKernel);
}

} // namespace cusi::motion
