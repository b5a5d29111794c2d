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

__device__ bool isShadow(const Detector &d, const Ground &g, int y, int x) {
    const int32_t luma = g.luma(y, x), gray = g.gray(y, x);
    if (!motionDarker(luma, gray, d.model.options.shadows))
        return false;
    const auto keeps = [&](int v, int u) { return motionKeepsEdge(luma, gray, g.luma(v, u), g.gray(v, u)); };
    return (x == 0 || keeps(y, x - 1)) && (x + 1 == d.model.cols || keeps(y, x + 1)) && (y == 0 || keeps(y - 1, x)) &&
           (y + 1 == d.model.rows || keeps(y + 1, x));
}

// Each thread removes the shadow of a word of camera first + blockIdx.y.
__global__ void __launch_bounds__(THREADS) shadowKernel(const Detector d, const Frames frames, unsigned first) {
    startInOrder();
    const unsigned number = first + blockIdx.y;
    const size_t index = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (index >= d.planeWords() || !frames.data[blockIdx.y] ||
        motionState(&d.model, &d.cameras[number]) != CUS_MOTION_WATCHING)
        return;
    uint32_t *const moving = d.planes.moving + number * d.planeWords() + index;
    const uint32_t all = *moving;
    const Ground ground = groundOf(d, frames, blockIdx.y, number);
    const int y = static_cast<int>(index / d.words), x = static_cast<int>(index % d.words) * 32;
    uint32_t shadow = 0;
    for (uint32_t rest = all; rest; rest &= rest - 1) {
        const int bit = __ffs(static_cast<int>(rest)) - 1;
        shadow |= static_cast<uint32_t>(isShadow(d, ground, y, x + bit)) << bit;
    }
    if (shadow)
        *moving = all & ~shadow;
}

// Whether each box is a ghost, until the next step joins parts, whose memory this is.
__device__ __forceinline__ uint32_t *ghostsOf(const Detector &d, unsigned number) {
    return d.parents + number * d.slots;
}

// Adds up the edges of box blockIdx.x of camera first + blockIdx.y, those of the frame less those of the background.
__global__ void __launch_bounds__(THREADS) ghostKernel(const Detector d, const Frames frames, unsigned first) {
    startInOrder();
    const unsigned number = first + blockIdx.y;
    if (!frames.data[blockIdx.y] || static_cast<int>(blockIdx.x) >= d.status[number].boxes)
        return;
    __shared__ unsigned long long sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    const cusMotionBox box =
        d.boxes[static_cast<size_t>(number) * static_cast<size_t>(d.model.options.max_boxes) + blockIdx.x];
    const int left = max(box.x - 1, 0), top = max(box.y - 1, 0), right = min(box.x + box.width, d.model.cols - 1),
              bottom = min(box.y + box.height, d.model.rows - 1);
    const int first_word = left / 32, words = right / 32 - first_word + 1;
    const uint32_t *const moving = d.planes.moving + number * d.planeWords();
    const Ground g = groundOf(d, frames, blockIdx.y, number);
    const auto edge = [&](int y, int x, int next_y, int next_x) {
        return abs(g.luma(y, x) - g.luma(next_y, next_x)) - abs(g.gray(y, x) - g.gray(next_y, next_x));
    };
    long long mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < words * (bottom - top + 1); i += THREADS) {
        const int y = top + i / words, word = first_word + i % words;
        const uint32_t *const at = moving + static_cast<size_t>(y) * d.words + static_cast<size_t>(word);
        const uint32_t here = *at, next = here >> 1 | (word + 1 < static_cast<int>(d.words) ? at[1] << 31 : 0),
                       below = y < bottom ? at[d.words] : here;
        for (uint32_t rest = (here ^ next) & columns(word, left, right - 1); rest; rest &= rest - 1) {
            const int x = 32 * word + __ffs(static_cast<int>(rest)) - 1;
            mine += edge(y, x, y, x + 1);
        }
        for (uint32_t rest = (here ^ below) & columns(word, left, right); rest; rest &= rest - 1) {
            const int x = 32 * word + __ffs(static_cast<int>(rest)) - 1;
            mine += edge(y, x, y + 1, x);
        }
    }
    if (mine)
        atomicAdd(&sum, static_cast<unsigned long long>(mine)); // modulo 2^64, so signs do not matter
    __syncthreads();
    if (threadIdx.x == 0)
        ghostsOf(d, number)[blockIdx.x] = static_cast<long long>(sum) < 0;
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
    for (int y = box.y; y < box.y + box.height; ++y)
        for (int x = box.x + static_cast<int>(threadIdx.x); x < box.x + box.width; x += THREADS)
            if (mask[static_cast<size_t>(y) * d.words + static_cast<size_t>(x / 32)] >> x % 32 & 1)
                background[static_cast<size_t>(y) * g.row_values + static_cast<size_t>(x)] =
                    static_cast<uint16_t>(g.luma(y, x) << 8);
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
