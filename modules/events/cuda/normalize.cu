// VOXEL_GRID with `normalize`: subtracts the mean from the non-zero values of a frame and divides them by their standard
// deviation. A frame is read in parts whose moments are merged in a fixed order.
#include "events/cuda/stages.cuh"

#include <cub/block/block_reduce.cuh>

namespace cusi::events {

namespace tuning {
constexpr unsigned NORMALIZE_PARTS = 32; // parts of a frame, one per block
}

namespace {

constexpr int THREADS = tuning::TILE_THREADS;

// Moments of non-zero values. The sum is exact, because they are multiples of 2^-24 (EVENTS_VOXEL_UNIT).
struct Moments {
    double count, sum, squares; // squares: sum of squared deviations from the mean
    __device__ double mean() const { return count > 0 ? sum / count : 0; }
};

// Merges both (Chan, Golub and LeVeque 1979). Equal values keep squares of exactly 0.
__device__ inline Moments operator+(const Moments &a, const Moments &b) {
    const double count = a.count + b.count, distance = b.mean() - a.mean(),
                 weight = count > 0 ? a.count * b.count / count : 0;
    return {count, a.sum + b.sum, a.squares + b.squares + distance * distance * weight};
}

// Merges the threads' moments in a fixed order, valid in thread 0.
__device__ inline Moments blockMerge(const Moments &mine) {
    using Reduce = cub::BlockReduce<Moments, THREADS>;
    __shared__ typename Reduce::TempStorage scratch;
    return Reduce(scratch).Reduce(mine, [](const Moments &a, const Moments &b) { return a + b; });
}

struct NormalizeParams {
    float *frames;
    size_t step;
    unsigned rows, values; // rows of a frame; values of a row
    Moments *moments;      // tuning::NORMALIZE_PARTS of each frame
};

// Calls visit(four values) for this block's part of a frame. Values are written back if it returns true.
template<class Visit>
__device__ inline void forValues(const NormalizeParams &params, Visit visit) {
    const unsigned long long rows = params.rows;
    const unsigned end = static_cast<unsigned>(rows * (blockIdx.x + 1) / tuning::NORMALIZE_PARTS);
    for (unsigned y = static_cast<unsigned>(rows * blockIdx.x / tuning::NORMALIZE_PARTS) + threadIdx.x / 32; y < end;
         y += THREADS / 32) {
        float *const row = rowOf(params.frames, params.step, static_cast<size_t>(blockIdx.y) * params.rows + y);
        // The first vector is the one that holds the row's first value, wherever in it that value is.
        const int before = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / 4),
                  values = static_cast<int>(params.values);
#pragma unroll 2
        for (int i = static_cast<int>(threadIdx.x % 32 * 4) - before; i < values; i += 128) {
            const bool whole = i >= 0 && i + 4 <= values;
            const auto exists = [&](int k) { return i + k >= 0 && i + k < values; };
            float4 four;
            if (whole)
                four = *reinterpret_cast<const float4 *>(row + i);
            else
                four = make_float4(exists(0) ? row[i] : 0, exists(1) ? row[i + 1] : 0, exists(2) ? row[i + 2] : 0,
                                   exists(3) ? row[i + 3] : 0);
            if (!visit(four))
                continue;
            if (whole) {
                *reinterpret_cast<float4 *>(row + i) = four;
                continue;
            }
            const float v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (exists(k))
                    row[i + k] = v[k];
        }
    }
}

__global__ void __launch_bounds__(THREADS) momentsKernel(const NormalizeParams params) {
    startInOrder();
    // Sum distances from the first value: little cancels, and equal values give 0.
    double origin = 0, distances = 0, squares = 0;
    Moments mine = {0, 0, 0};
    forValues(params, [&](const float4 &four) {
        for (const float v : {four.x, four.y, four.z, four.w})
            if (v != 0) {
                origin = mine.count == 0 ? v : origin;
                const double distance = v - origin;
                mine.count += 1, mine.sum += v, distances += distance, squares += distance * distance;
            }
        return false;
    });
    if (mine.count > 0)
        mine.squares = fmax(squares - distances * distances / mine.count, 0.0);
    const Moments all = blockMerge(mine);
    if (threadIdx.x == 0)
        params.moments[blockIdx.y * tuning::NORMALIZE_PARTS + blockIdx.x] = all;
}

__global__ void __launch_bounds__(THREADS) normalizeKernel(const NormalizeParams params) {
    startInOrder();
    __shared__ Moments all;
    static_assert(tuning::NORMALIZE_PARTS <= THREADS, "one per thread");
    const Moments *parts = params.moments + blockIdx.y * tuning::NORMALIZE_PARTS;
    const Moments merged = blockMerge(threadIdx.x < tuning::NORMALIZE_PARTS ? parts[threadIdx.x] : Moments{0, 0, 0});
    if (threadIdx.x == 0)
        all = merged;
    __syncthreads();
    const double mean = all.mean(), deviation = all.count > 0 ? sqrt(all.squares / all.count) : 0,
                 scale = deviation > 0 ? 1 / deviation : 1;
    forValues(params, [&](float4 &four) {
        const auto normalized = [&](float v) { return v != 0 ? static_cast<float>((v - mean) * scale) : 0; };
        const bool any = four.x != 0 || four.y != 0 || four.z != 0 || four.w != 0; // most are 0, and zeros need no write
        four = make_float4(normalized(four.x), normalized(four.y), normalized(four.z), normalized(four.w));
        return any;
    });
}

} // namespace

cusStatus normalizeFrames(const Batch &batch, int index) {
    const Representation repr = representationOf(batch, index);
    const NormalizeParams params = {
        static_cast<float *>(repr.frames), repr.step, static_cast<unsigned>(batch.stacker->rows),
        static_cast<unsigned>(batch.stacker->cols) * repr.channels, reinterpret_cast<Moments *>(batch.state->sorted)};
    static_assert(tuning::BATCH_WINDOWS * tuning::NORMALIZE_PARTS * sizeof(Moments) <= tuning::SORTED_BYTES, "");
    for (const auto kernel : {momentsKernel, normalizeKernel})
        CUS_TRY(
            launchOverlapped(STACK, kernel, dim3(tuning::NORMALIZE_PARTS, batch.count), THREADS, 0, batch.stream, params));
    return CUS_OK;
}

} // namespace cusi::events
