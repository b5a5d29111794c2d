// Counts pixels in an HSV range with a block of threads, for the kernels of hsv and match.
#ifndef CUSI_HSV_CUH
#define CUSI_HSV_CUH

#include "cuda.cuh"
#include "hsv.h"

namespace cusi {

// An 8UC3 image in BGR order, or a window of one.
struct BgrImage {
    const unsigned char *data;
    size_t step;
    int rows, cols;
};

inline BgrImage bgrImage(const cusMat &mat) {
    return {static_cast<const unsigned char *>(mat.data), mat.step, mat.rows, mat.cols};
}

constexpr int HSV_THREADS = 256;

// Counts the quads of an image: four neighboring pixels, which a thread handles at a time.
inline long long hsvQuads(int rows, int cols) {
    return divUp(cols, 4) * static_cast<long long>(rows);
}

#ifdef __CUDACC__

// OpenCV's reciprocal tables in shared memory; computing them costs less than loading them.
struct HsvTables {
    int saturation[256], hue[256];
    __device__ void fill() {
        for (int i = threadIdx.x; i < 256; i += HSV_THREADS) {
            saturation[i] = cusi_hsvSaturationScale(i);
            hue[i] = cusi_hsvHueScale(i);
        }
        __syncthreads();
    }
};

// Loads four BGR pixels as three words. Only `n` of them exist; the others become black.
__device__ __forceinline__ void loadBgrQuad(const unsigned char *p, int n, uint32_t (&words)[3]) {
    if (n == 4 && reinterpret_cast<uintptr_t>(p) % 4 == 0) {
        for (int k = 0; k < 3; ++k)
            words[k] = reinterpret_cast<const uint32_t *>(p)[k];
        return;
    }
    words[0] = words[1] = words[2] = 0;
#pragma unroll
    for (int k = 0; k < 12; ++k)
        if (k < 3 * n)
            words[k / 4] |= static_cast<uint32_t>(p[k]) << (k % 4 * 8);
}

// Returns this thread's part of the number of pixels in the range, when `blocks` blocks of HSV_THREADS share the image.
// Writes the mask unless it is NULL.
__device__ __forceinline__ unsigned countInRange(const BgrImage &image, const cusHsvRange &range, const HsvTables &tables,
                                                 unsigned char *mask, size_t mask_step, int block, int blocks) {
    unsigned count = 0;
    const int quads_per_row = divUp(image.cols, 4);
    const unsigned long long quads = static_cast<unsigned long long>(quads_per_row) * image.rows;
    for (unsigned long long i = static_cast<unsigned long long>(block) * HSV_THREADS + threadIdx.x; i < quads;
         i += static_cast<unsigned long long>(blocks) * HSV_THREADS) {
        const size_t y = i / quads_per_row;
        const int x = static_cast<int>(i - y * quads_per_row) * 4, n = min(4, image.cols - x);
        uint32_t words[3];
        loadBgrQuad(image.data + y * image.step + static_cast<size_t>(x) * 3, n, words);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const auto byte = [&](int b) { return static_cast<int>(words[b / 4] >> (b % 4 * 8) & 255); };
            const int in = k < n && cusi_hsvInRange(byte(3 * k), byte(3 * k + 1), byte(3 * k + 2), tables.saturation,
                                                    tables.hue, &range);
            count += in;
            if (mask && k < n)
                mask[y * mask_step + x + k] = in ? 255 : 0;
        }
    }
    return count;
}

#endif // __CUDACC__

} // namespace cusi

#endif
