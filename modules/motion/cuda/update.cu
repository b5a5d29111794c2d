// Background, difference and threshold on the GPU, the only pass over the pixels. A thread has 16 pixels, whose moving bits
// are half a word. It is memory-bound: for each pixel 1 or 3 bytes of the frame, 4 of the background and a quarter of a
// byte of masks.
#include "motion/cuda/stages.cuh"

namespace cusi::motion {
namespace {

constexpr int PIXELS = 16; // pixels of a thread

template<int N>
__device__ __forceinline__ uint32_t byteOf(const uint32_t (&words)[N], int i) {
    return words[i / 4] >> (i % 4 * 8) & 255;
}

// Loads the luma of 16 pixels; those after the first `pixels`, which may be negative, are 0.
template<int CHANNELS>
__device__ __forceinline__ void loadLuma(const uint8_t *p, int pixels, bool aligned, uint32_t (&luma)[4]) {
    uint32_t bytes[4 * CHANNELS];
#pragma unroll
    for (int k = 0; k < CHANNELS; ++k) {
        const int left = CHANNELS * pixels - 16 * k;
        const uint4 v = load16(p + 16 * k, left, aligned);
        bytes[4 * k] = v.x;
        bytes[4 * k + 1] = v.y;
        bytes[4 * k + 2] = v.z;
        bytes[4 * k + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
        luma[i] = CHANNELS == 1 ? bytes[i] : 0;
    if (CHANNELS == 3) {
#pragma unroll
        for (int i = 0; i < PIXELS; ++i)
            luma[i / 4] |=
                static_cast<uint32_t>(motionLuma(byteOf(bytes, 3 * i), byteOf(bytes, 3 * i + 1), byteOf(bytes, 3 * i + 2)))
                << (i % 4 * 8);
    }
}

struct Sums {
    unsigned moving, noise;
};

// Updates the background of 16 pixels and returns which move. LITTLE: learns at most
// the threshold of a difference if `limited`.
template<bool LITTLE>
__device__ __forceinline__ uint32_t learn(const uint32_t (&luma)[4], const uint4 &low, const uint4 &high, uint4 *background,
                                          uint32_t watched, const MotionPlan &plan, bool limited, uint4 *differences,
                                          unsigned *noise) {
    const uint32_t pairs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t learned[8] = {}, parts[4] = {}, moving = 0;
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const int32_t before = static_cast<int32_t>(pairs[i / 2] >> (i % 2 * 16) & 0xffff);
        int32_t difference;
        const int32_t y = static_cast<int32_t>(byteOf(luma, i));
        const int32_t after =
            LITTLE ? motionLearnLittle(before, y, plan.weight, limited ? plan.threshold : 255 * 256, &difference)
                   : motionLearn(before, y, plan.weight, &difference);
        const bool is_watched = watched >> i & 1;
        moving |= static_cast<uint32_t>(is_watched && difference > plan.threshold) << i;
        *noise += is_watched ? static_cast<unsigned>(min(difference, MOTION_MAX_NOISE)) : 0;
        learned[i / 2] |= static_cast<uint32_t>(after) << (i % 2 * 16);
        parts[i / 4] |= static_cast<uint32_t>(difference >> 8) << (i % 4 * 8);
    }
    background[0] = make_uint4(learned[0], learned[1], learned[2], learned[3]);
    background[1] = make_uint4(learned[4], learned[5], learned[6], learned[7]);
    if (moving)
        *differences = make_uint4(parts[0], parts[1], parts[2], parts[3]);
    return moving;
}

// Adds a block's sums to the camera's.
__device__ __forceinline__ void addSums(const Sums &sums, MotionCamera *camera) {
    __shared__ Sums warps[THREADS / 32];
    const Sums warp = {warpSum(sums.moving), warpSum(sums.noise)};
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = warp;
    __syncthreads();
    if (threadIdx.x == 0) {
        Sums all = {};
        for (const Sums &w : warps) {
            all.moving += w.moving;
            all.noise += w.noise;
        }
        if (all.moving)
            atomicAdd(&camera->moving, all.moving);
        if (all.noise)
            atomicAdd(reinterpret_cast<unsigned long long *>(&camera->noise_sum),
                      static_cast<unsigned long long>(all.noise));
    }
}

template<int CHANNELS, bool LITTLE>
__global__ void __launch_bounds__(THREADS)
    updateKernel(const Detector d, const Frames frames, unsigned first, bool has_times, bool aligned) {
    startInOrder();
    const unsigned number = first + blockIdx.y;
    const uint8_t *const data = frames.data[blockIdx.y];
    if (blockIdx.x == 0 && threadIdx.x < LISTS)
        d.counts[number * LISTS + threadIdx.x] = 0;
    if (!data)
        return;
    MotionCamera *const camera = &d.cameras[number];
    const int64_t time = has_times ? frames.time[blockIdx.y] : static_cast<int64_t>(camera->steps);
    const unsigned halves = 2 * d.words, index = blockIdx.x * THREADS + threadIdx.x, y = index / halves;
    Sums sums = {};
    if (y < static_cast<unsigned>(d.model.rows)) {
        const unsigned half = index - y * halves;
        const size_t at = (number * d.planeWords() + static_cast<size_t>(y) * d.words) * 2 + half; // index of the half word
        uint4 *const background = reinterpret_cast<uint4 *>(d.planes.background) + 2 * at;
        const uint4 low = background[0], high = background[1];
        const uint32_t watched = reinterpret_cast<const uint16_t *>(d.planes.watched)[at];
        const int x = static_cast<int>(half) * PIXELS;
        uint32_t luma[4];
        loadLuma<CHANNELS>(data + y * frames.step[blockIdx.y] + static_cast<size_t>(x) * CHANNELS,
                           min(PIXELS, d.model.cols - x), aligned, luma);
        // In a first step the frame has the whole weight, so it becomes the background, and nothing moves.
        const uint32_t moving =
            learn<LITTLE>(luma, low, high, background, camera->age > 0 ? watched : 0, motionPlan(&d.model, camera, time),
                          LITTLE && camera->age > 0, reinterpret_cast<uint4 *>(d.planes.differences) + at, &sums.noise);
        reinterpret_cast<uint16_t *>(d.planes.moving)[at] = static_cast<uint16_t>(moving);
        sums.moving = static_cast<unsigned>(__popc(moving));
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        camera->active = 1;
        d.times[number] = time;
    }
    addSums(sums, camera);
}

// Each thread sets a word of the watched pixels of camera first + blockIdx.y.
__global__ void __launch_bounds__(THREADS) watchKernel(const Detector d, const uint8_t *mask, size_t step, unsigned first) {
    const unsigned number = first + blockIdx.y;
    const size_t index = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    uint32_t bits = 0;
    if (index < d.planeWords()) {
        const size_t y = index / d.words;
        const unsigned word = static_cast<unsigned>(index % d.words);
        bits = validBits(d, word);
        if (mask) {
            const uint8_t *const pixels = mask + y * step + static_cast<size_t>(word) * 32;
            for (uint32_t left = bits; left; left &= left - 1) {
                const int i = __ffs(static_cast<int>(left)) - 1;
                if (!pixels[i])
                    bits &= ~(1u << i);
            }
        }
        d.planes.watched[number * d.planeWords() + index] = bits;
    }
    const unsigned sum = warpSum(static_cast<unsigned>(__popc(bits)));
    if (threadIdx.x % 32 == 0 && sum)
        atomicAdd(&d.cameras[number].watched, sum);
}

__global__ void __launch_bounds__(THREADS) maskKernel(const Detector d, unsigned number, uint8_t *out, size_t step) {
    const size_t index = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (index >= d.planeWords())
        return;
    const int32_t state = d.status[number].state;
    const bool has_mask = state == CUS_MOTION_WATCHING || state == CUS_MOTION_CROWDED;
    const uint32_t bits = has_mask ? d.planes.mask[number * d.planeWords() + index] : 0;
    const unsigned word = static_cast<unsigned>(index % d.words);
    uint8_t *const pixels = out + index / d.words * step + static_cast<size_t>(word) * 32;
    for (uint32_t left = validBits(d, word); left; left &= left - 1) {
        const int i = __ffs(static_cast<int>(left)) - 1;
        pixels[i] = bits >> i & 1 ? 255 : 0;
    }
}

unsigned wordBlocks(const Detector &d) {
    return static_cast<unsigned>(divUp(d.planeWords(), static_cast<size_t>(THREADS)));
}

} // namespace

cusStatus update(const char *function, const Detector &d, const MotionStep &step, cudaStream_t stream) {
    const unsigned blocks = divUp(static_cast<unsigned>(2 * d.planeWords()), static_cast<unsigned>(THREADS));
    const bool gray = d.model.type == CUS_8UC1;
    const auto kernel = d.model.options.ghosts ? gray ? updateKernel<1, true> : updateKernel<3, true>
                        : gray ? updateKernel<1, false>
                                               : updateKernel<3, false>;
    for (int first = 0; first < d.model.cameras; first += LAUNCH_CAMERAS) {
        int count = 0;
        bool aligned = true;
        const Frames frames = framesOf(d, step, first, &count, &aligned);
        CUS_TRY(launchOverlapped(function, kernel, dim3(blocks, static_cast<unsigned>(count)), THREADS, 0, stream, d,
                                 frames, static_cast<unsigned>(first), step.times != nullptr, aligned));
    }
    return CUS_OK;
}

cusStatus watch(const char *function, const Detector &d, int first, int count, const cusMat *mask, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemset2DAsync(&d.cameras[first].watched, sizeof(MotionCamera), 0, sizeof(uint32_t),
                                          static_cast<size_t>(count), stream));
    return launch(function, watchKernel, dim3(wordBlocks(d), static_cast<unsigned>(count)), THREADS, 0, stream, d,
                  mask ? static_cast<const uint8_t *>(mask->data) : nullptr, mask ? mask->step : 0,
                  static_cast<unsigned>(first));
}

cusStatus writeMask(const char *function, const Detector &d, int camera, const cusMat &mask, cudaStream_t stream) {
    return launch(function, maskKernel, wordBlocks(d), THREADS, 0, stream, d, static_cast<unsigned>(camera),
                  static_cast<uint8_t *>(mask.data), mask.step);
}

} // namespace cusi::motion
