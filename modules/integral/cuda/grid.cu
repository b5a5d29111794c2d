// For reproducible sums, finds the largest magnitude of the image and marks the entries that are not numbers.
#include "integral/cuda/grid.cuh"

#include <algorithm>
#include <cfloat>

namespace cusi::integral {
namespace {

constexpr unsigned THREADS = 256;

GridState *stateOf(const IntegralArgs &args) {
    return &static_cast<LaunchState *>(args.workspace)->grid;
}

struct Source {
    const float *data;
    size_t step;
    unsigned rows, cols, channels;
    bool aligned16;

    __device__ float pixel(unsigned y, unsigned x, unsigned channel) const {
        return __ldg(rowOf(data, step, y) + size_t{x} * channels + channel);
    }
};
Source sourceOf(const IntegralArgs &args) {
    const cusMat &src = *args.src;
    return {static_cast<const float *>(src.data),
            src.rows > 1 ? src.step : 0,
            static_cast<unsigned>(src.rows),
            static_cast<unsigned>(src.cols),
            static_cast<unsigned>(CUS_CHANNELS(src.type)),
            isAligned(src, 16)};
}

// ---- Before: magnitudes ---------------------------------------------------------------------------------------------

// Returns the bits of a magnitude, which compare as it does, or 0 unless it is finite.
__device__ __forceinline__ unsigned finiteBits(float v) {
    const unsigned bits = __float_as_uint(v) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

// Finds the largest magnitude of a channel. Blocks take segments of rows in turn.
constexpr unsigned SEGMENT = 4 * THREADS * 4; // columns: four vectors a thread
__global__ void __launch_bounds__(THREADS) magnitudesKernel(const Source src, GridState *state) {
    const unsigned channel = blockIdx.y, segments = divUp(src.cols, SEGMENT);
    const uint64_t count = uint64_t{src.rows} * segments;
    unsigned largest = 0;
    for (uint64_t i = blockIdx.x; i < count; i += gridDim.x) {
        const unsigned y = static_cast<unsigned>(i / segments), x = static_cast<unsigned>(i % segments) * SEGMENT,
                       end = min(src.cols - x, SEGMENT) + x;
        if (src.channels == 1 && src.aligned16) {
            const float4 *row = reinterpret_cast<const float4 *>(rowOf(src.data, src.step, y));
#pragma unroll
            for (unsigned k = 0; k < SEGMENT / THREADS / 4; ++k) {
                const unsigned at = x / 4 + k * THREADS + threadIdx.x;
                if (at < end / 4) {
                    const float4 v = __ldg(row + at);
                    largest =
                        max(max(max(largest, finiteBits(v.x)), max(finiteBits(v.y), finiteBits(v.z))), finiteBits(v.w));
                }
            }
            if (threadIdx.x < end % 4)
                largest = max(largest, finiteBits(src.pixel(y, end / 4 * 4 + threadIdx.x, 0)));
        } else {
            for (unsigned at = x + threadIdx.x; at < end; at += THREADS)
                largest = max(largest, finiteBits(src.pixel(y, at, channel)));
        }
    }
    largest = blockMax(largest);
    if (threadIdx.x == 0)
        atomicMax(state->magnitudes + channel, largest);
}

// ---- After: entries that are not numbers ----------------------------------------------------------------------------

struct Tables {
    double *data[2]; // sums, squares; NULL if not requested
    size_t steps[2];
};

// Returns the smallest of the threads' columns to all of them.
__device__ unsigned blockMin(unsigned column) {
    __shared__ unsigned smallest;
    if (threadIdx.x == 0)
        smallest = ~0u;
    __syncthreads();
    if (column != ~0u)
        atomicMin(&smallest, column);
    __syncthreads();
    column = smallest;
    __syncthreads();
    return column;
}

// A block marks some rows. It first publishes the first column of these rows with a pixel outside the range, and reads what
// the blocks above have published. If all pixels are inside, it ends at once.
__global__ void __launch_bounds__(THREADS)
    markKernel(const Source src, float range, const Tables tables, LaunchState *state) {
    startInOrder();
    if (!state->grid.has_outside)
        return;
    const unsigned share = divUp(src.rows, gridDim.x), first = min(src.rows, share * blockIdx.x),
                   end = min(src.rows, first + share);
    const TaggedWord tag = static_cast<TaggedWord>(state->epoch) << EPOCH_SHIFT, mask = (TaggedWord{1} << EPOCH_SHIFT) - 1;
    for (unsigned channel = 0; channel < src.channels; ++channel) {
        const auto firstOutside = [&](unsigned y) {
            for (unsigned x = threadIdx.x; x < src.cols; x += THREADS)
                if (!(fabsf(src.pixel(y, x, channel)) <= range))
                    return x;
            return ~0u;
        };
        TaggedWord *const published = state->grid.first_outside[channel];
        unsigned column = ~0u;
        for (unsigned y = first; y < end; ++y)
            column = min(column, firstOutside(y));
        column = blockMin(column);
        if (threadIdx.x == 0)
            storeRelaxed(published + blockIdx.x, tag | column);
        column = ~0u;
        if (threadIdx.x < blockIdx.x) {
            TaggedWord word;
            do
                word = loadRelaxed(published + threadIdx.x);
            while ((word & ~mask) != tag);
            column = static_cast<unsigned>(word & mask);
        }
        column = blockMin(column);
        for (unsigned y = first; y < end; ++y) {
            column = min(column, blockMin(firstOutside(y)));
            for (int i = 0; i < 2; ++i)
                if (tables.data[i] && column != ~0u)
                    for (unsigned x = column + 1 + threadIdx.x; x <= src.cols; x += THREADS)
                        rowOf(tables.data[i], tables.steps[i], y + 1)[size_t{x} * src.channels + channel] =
                            __longlong_as_double(0x7ff8000000000000);
        }
    }
}
static_assert(MARK_BLOCKS <= THREADS, "a thread for each block before");

} // namespace

cusStatus prepareGrid(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    GridState *const state = stateOf(args);
    CUSI_CUDA(function, cudaMemsetAsync(state, 0, offsetof(GridState, first_outside), stream));
    if (args.range > 0)
        return CUS_OK;
    int count = 0;
    CUSI_CUDA(function, multiprocessors(&count));
    const Source src = sourceOf(args);
    const uint64_t segments = uint64_t{src.rows} * divUp(src.cols, SEGMENT);
    const dim3 grid(static_cast<unsigned>(std::min<uint64_t>(segments, 8 * static_cast<unsigned>(count))), src.channels);
    return launch(function, magnitudesKernel, grid, THREADS, 0, stream, src, state);
}

cusStatus markOutside(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    Tables tables = {};
    const cusMat *const mats[2] = {args.sum, args.sqsum};
    for (int i = 0; i < 2; ++i)
        if (mats[i])
            tables.data[i] = static_cast<double *>(mats[i]->data), tables.steps[i] = mats[i]->step;
    return launchOverlapped(function, markKernel, MARK_BLOCKS, THREADS, 0, stream, sourceOf(args),
                            args.range > 0 ? args.range : FLT_MAX, tables, static_cast<LaunchState *>(args.workspace));
}

} // namespace cusi::integral
