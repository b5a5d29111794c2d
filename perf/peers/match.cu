#include "match.hpp"

#include <cuda_runtime.h>
#include <cufft.h>

#include <stdexcept>
#include <string>

namespace peers {

namespace {

void check(cudaError_t error) {
    if (error != cudaSuccess)
        throw std::runtime_error(cudaGetErrorString(error));
}
void check(cufftResult result) {
    if (result != CUFFT_SUCCESS)
        throw std::runtime_error("cuFFT error " + std::to_string(result));
}

// Writes to the corner of a zeroed plane; the rest of the plane is never written.
__global__ void toFloat(const unsigned char *src, size_t step, int rows, int cols, float *dst, int dst_cols) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < cols && y < rows)
        dst[static_cast<size_t>(y) * dst_cols + x] = src[y * step + x];
}

// b: the template's spectrum, conjugated and scaled when it was prepared.
__global__ void multiply(cufftComplex *a, const cufftComplex *b, size_t n) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n) {
        const cufftComplex p = a[i], q = b[i];
        a[i] = {p.x * q.x - p.y * q.y, p.x * q.y + p.y * q.x};
    }
}

__global__ void conjugate(cufftComplex *a, size_t n, float scale) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n)
        a[i] = {a[i].x * scale, -a[i].y * scale};
}

constexpr int SCAN_THREADS = 256, EACH = 4, TILE = 32;

__device__ float valueOf(unsigned char v) {
    return static_cast<float>(v) * static_cast<float>(v);
}
__device__ float valueOf(float v) {
    return v;
}

// Block-wise prefix sums, a block a row: four values a thread, shuffles within warps, warp sums in shared memory. Squares bytes.
template<class T>
__global__ void scanRows(const T *src, size_t src_pitch, float *dst, int cols) {
    __shared__ float warp_sums[SCAN_THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    src += blockIdx.x * src_pitch;
    dst += static_cast<size_t>(blockIdx.x) * cols;
    float before = 0;
    for (int first = 0; first < cols; first += SCAN_THREADS * EACH) {
        const int x = first + static_cast<int>(threadIdx.x) * EACH;
        float v[EACH];
        for (int k = 0; k < EACH; ++k)
            v[k] = (x + k < cols ? valueOf(src[x + k]) : 0.0f) + (k > 0 ? v[k - 1] : 0.0f);
        float sum = v[EACH - 1];
        for (int d = 1; d < 32; d *= 2) {
            const float other = __shfl_up_sync(0xffffffffu, sum, d);
            if (lane >= d)
                sum += other;
        }
        if (lane == 31)
            warp_sums[warp] = sum;
        __syncthreads();
        float start = before + sum - v[EACH - 1];
        for (int w = 0; w < SCAN_THREADS / 32; ++w) {
            if (w < warp)
                start += warp_sums[w];
            before += warp_sums[w];
        }
        for (int k = 0; k < EACH; ++k)
            if (x + k < cols)
                dst[x + k] = start + v[k];
        __syncthreads();
    }
}

__global__ void transpose(const float *src, float *dst, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        if (x < cols && y + k < rows)
            tile[threadIdx.y + k][threadIdx.x] = src[static_cast<size_t>(y + k) * cols + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += 8)
        if (x < rows && y + k < cols)
            dst[static_cast<size_t>(y + k) * rows + x] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void ssdScores(const float *integral, int rows, int cols, const float *correlation, int pitch, int h, int w,
                          const float *t2, float *scores) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int ocols = cols - w + 1, orows = rows - h + 1;
    if (x >= ocols || y >= orows)
        return;
    const auto at = [&](int j, int i) { return j < 0 || i < 0 ? 0.0f : integral[static_cast<size_t>(j) * cols + i]; };
    const float s2 = at(y + h - 1, x + w - 1) - at(y - 1, x + w - 1) - at(y + h - 1, x - 1) + at(y - 1, x - 1);
    scores[static_cast<size_t>(y) * ocols + x] = s2 - 2 * correlation[static_cast<size_t>(y) * pitch + x] + *t2;
}

__global__ void sumOfSquares(const unsigned char *src, size_t step, int rows, int cols, float *sum) {
    double mine = 0;
    for (int i = threadIdx.x; i < rows * cols; i += blockDim.x)
        mine += valueOf(src[i / cols * step + i % cols]);
    for (int d = 16; d > 0; d /= 2)
        mine += __shfl_down_sync(0xffffffffu, mine, d);
    if (threadIdx.x == 0)
        *sum = static_cast<float>(mine);
}

dim3 gridFor(int rows, int cols, dim3 block) {
    return dim3((cols + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
}

} // namespace

// The next even size with no prime factor above 7, which cuFFT transforms fastest.
int goodFftSize(int n) {
    for (n += n % 2;; n += 2) {
        int rest = n;
        for (const int p : {2, 3, 5, 7})
            while (rest % p == 0)
                rest /= p;
        if (rest == 1)
            return n;
    }
}

PublishedMatch::PublishedMatch(int rows, int cols, const cusMat &templ)
    : rows_(rows), cols_(cols), h_(templ.rows), w_(templ.cols), fft_rows_(goodFftSize(rows + h_ - 1)),
      fft_cols_(goodFftSize(cols + w_ - 1)) {
    const size_t plane = static_cast<size_t>(fft_rows_) * fft_cols_, image = static_cast<size_t>(rows) * cols;
    spectrum_size_ = static_cast<size_t>(fft_rows_) * (fft_cols_ / 2 + 1);
    check(cufftPlan2d(&forward_, fft_rows_, fft_cols_, CUFFT_R2C));
    check(cufftPlan2d(&inverse_, fft_rows_, fft_cols_, CUFFT_C2R));
    check(cudaMalloc(&plane_, plane * sizeof(float)));
    check(cudaMalloc(&correlation_, plane * sizeof(float)));
    check(cudaMalloc(&spectrum_, spectrum_size_ * sizeof(cufftComplex)));
    check(cudaMalloc(&template_spectrum_, spectrum_size_ * sizeof(cufftComplex)));
    check(cudaMalloc(&integral_, image * sizeof(float)));
    check(cudaMalloc(&transposed_, image * sizeof(float)));
    check(cudaMalloc(&scores_, static_cast<size_t>(rows - h_ + 1) * (cols - w_ + 1) * sizeof(float)));
    check(cudaMalloc(&t2_, sizeof(float)));
    // The template, once.
    const auto *pixels = static_cast<const unsigned char *>(templ.data);
    const dim3 block(32, 8);
    check(cudaMemset(plane_, 0, plane * sizeof(float)));
    toFloat<<<gridFor(h_, w_, block), block>>>(pixels, templ.step, h_, w_, plane_, fft_cols_);
    check(cufftExecR2C(forward_, plane_, static_cast<cufftComplex *>(template_spectrum_)));
    conjugate<<<static_cast<unsigned>((spectrum_size_ + 255) / 256), 256>>>(
        static_cast<cufftComplex *>(template_spectrum_), spectrum_size_, 1.0f / static_cast<float>(plane));
    sumOfSquares<<<1, 32>>>(pixels, templ.step, h_, w_, t2_);
    check(cudaMemset(plane_, 0, plane * sizeof(float)));
    check(cudaDeviceSynchronize());
}

PublishedMatch::~PublishedMatch() {
    cufftDestroy(forward_);
    cufftDestroy(inverse_);
    for (void *p : {static_cast<void *>(plane_), static_cast<void *>(correlation_), spectrum_, template_spectrum_,
                    static_cast<void *>(integral_), static_cast<void *>(transposed_), static_cast<void *>(scores_),
                    static_cast<void *>(t2_)})
        cudaFree(p);
}

void PublishedMatch::run(const cusMat &frame, cusStream stream) {
    auto *const spectrum = static_cast<cufftComplex *>(spectrum_);
    const auto *const pixels = static_cast<const unsigned char *>(frame.data);
    const dim3 block(32, 8), tiles((cols_ + TILE - 1) / TILE, (rows_ + TILE - 1) / TILE), turned(tiles.y, tiles.x);
    if (stream != stream_) {
        check(cufftSetStream(forward_, stream));
        check(cufftSetStream(inverse_, stream));
        stream_ = stream;
    }
    toFloat<<<gridFor(rows_, cols_, block), block, 0, stream>>>(pixels, frame.step, rows_, cols_, plane_, fft_cols_);
    check(cufftExecR2C(forward_, plane_, spectrum));
    multiply<<<static_cast<unsigned>((spectrum_size_ + 255) / 256), 256, 0, stream>>>(
        spectrum, static_cast<const cufftComplex *>(template_spectrum_), spectrum_size_);
    check(cufftExecC2R(inverse_, spectrum, correlation_));
    scanRows<<<rows_, SCAN_THREADS, 0, stream>>>(pixels, frame.step, integral_, cols_);
    transpose<<<tiles, block, 0, stream>>>(integral_, transposed_, rows_, cols_);
    scanRows<<<cols_, SCAN_THREADS, 0, stream>>>(static_cast<const float *>(transposed_), static_cast<size_t>(rows_),
                                                 transposed_, rows_);
    transpose<<<turned, block, 0, stream>>>(transposed_, integral_, cols_, rows_);
    ssdScores<<<gridFor(rows_ - h_ + 1, cols_ - w_ + 1, block), block, 0, stream>>>(integral_, rows_, cols_, correlation_,
                                                                                    fft_cols_, h_, w_, t2_, scores_);
    check(cudaGetLastError());
}

PlainFft::PlainFft(int rows, int cols) {
    check(cufftPlan2d(&forward_, rows, cols, CUFFT_R2C));
    check(cufftPlan2d(&inverse_, rows, cols, CUFFT_C2R));
    check(cudaMalloc(&plane_, static_cast<size_t>(rows) * cols * sizeof(float)));
    check(cudaMalloc(&spectrum_, static_cast<size_t>(rows) * (cols / 2 + 1) * sizeof(cufftComplex)));
    check(cudaMemset(plane_, 0, static_cast<size_t>(rows) * cols * sizeof(float)));
}

PlainFft::~PlainFft() {
    cufftDestroy(forward_);
    cufftDestroy(inverse_);
    cudaFree(plane_);
    cudaFree(spectrum_);
}

void PlainFft::run(cusStream stream) {
    check(cufftSetStream(forward_, stream));
    check(cufftSetStream(inverse_, stream));
    check(cufftExecR2C(forward_, plane_, static_cast<cufftComplex *>(spectrum_)));
    check(cufftExecC2R(inverse_, static_cast<cufftComplex *>(spectrum_), plane_));
}

} // namespace peers
