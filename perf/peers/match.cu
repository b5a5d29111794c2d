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

__global__ void padToFloat(const unsigned char *src, size_t step, int rows, int cols, float *dst, int dst_rows,
                           int dst_cols) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < dst_cols && y < dst_rows)
        dst[static_cast<size_t>(y) * dst_cols + x] = y < rows && x < cols ? src[y * step + x] : 0.0f;
}

__global__ void multiply(cufftComplex *a, const cufftComplex *b, size_t n, float scale) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < n) {
        const cufftComplex p = a[i], q = b[i];
        a[i] = {(p.x * q.x + p.y * q.y) * scale, (p.y * q.x - p.x * q.y) * scale};
    }
}

__global__ void scanRows(const unsigned char *src, size_t step, int rows, int cols, float *integral) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= rows)
        return;
    float sum = 0;
    for (int x = 0; x < cols; ++x) {
        sum += static_cast<float>(src[y * step + x]) * src[y * step + x];
        integral[static_cast<size_t>(y) * cols + x] = sum;
    }
}

__global__ void scanColumns(int rows, int cols, float *integral) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = 1; y < rows; ++y)
        integral[static_cast<size_t>(y) * cols + x] += integral[static_cast<size_t>(y - 1) * cols + x];
}

__global__ void ssdScores(const float *integral, int rows, int cols, const float *correlation, int pitch, int h, int w,
                          float t2, float *scores) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int ocols = cols - w + 1, orows = rows - h + 1;
    if (x >= ocols || y >= orows)
        return;
    const auto at = [&](int j, int i) { return j < 0 || i < 0 ? 0.0f : integral[static_cast<size_t>(j) * cols + i]; };
    const float s2 = at(y + h - 1, x + w - 1) - at(y - 1, x + w - 1) - at(y + h - 1, x - 1) + at(y - 1, x - 1);
    scores[static_cast<size_t>(y) * ocols + x] = s2 - 2 * correlation[static_cast<size_t>(y) * pitch + x] + t2;
}

dim3 gridFor(int rows, int cols, dim3 block) {
    return dim3((cols + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
}

} // namespace

PublishedMatch::PublishedMatch(int rows, int cols, int h, int w)
    : rows_(rows), cols_(cols), h_(h), w_(w), fft_rows_(rows + h - 1), fft_cols_(cols + w - 1) {
    const size_t plane = static_cast<size_t>(fft_rows_) * fft_cols_,
                 spectrum = static_cast<size_t>(fft_rows_) * (fft_cols_ / 2 + 1);
    check(cufftPlan2d(&forward_, fft_rows_, fft_cols_, CUFFT_R2C));
    check(cufftPlan2d(&inverse_, fft_rows_, fft_cols_, CUFFT_C2R));
    check(cudaMalloc(&planes_, 2 * plane * sizeof(float)));
    check(cudaMalloc(&spectra_, 2 * spectrum * sizeof(cufftComplex)));
    check(cudaMalloc(&integral_, static_cast<size_t>(rows) * cols * sizeof(float)));
    check(cudaMalloc(&scores_, static_cast<size_t>(rows - h + 1) * (cols - w + 1) * sizeof(float)));
}

PublishedMatch::~PublishedMatch() {
    cufftDestroy(forward_);
    cufftDestroy(inverse_);
    for (void *p : {static_cast<void *>(planes_), spectra_, static_cast<void *>(integral_), static_cast<void *>(scores_)})
        cudaFree(p);
}

void PublishedMatch::run(const cusMat &frame, const cusMat &templ, cusStream stream) {
    const size_t plane = static_cast<size_t>(fft_rows_) * fft_cols_,
                 spectrum = static_cast<size_t>(fft_rows_) * (fft_cols_ / 2 + 1);
    cufftComplex *spectra = static_cast<cufftComplex *>(spectra_);
    const dim3 block(32, 8), grid = gridFor(fft_rows_, fft_cols_, block);
    check(cufftSetStream(forward_, stream));
    check(cufftSetStream(inverse_, stream));
    padToFloat<<<grid, block, 0, stream>>>(static_cast<const unsigned char *>(frame.data), frame.step, rows_, cols_,
                                           planes_, fft_rows_, fft_cols_);
    padToFloat<<<grid, block, 0, stream>>>(static_cast<const unsigned char *>(templ.data), templ.step, h_, w_,
                                           planes_ + plane, fft_rows_, fft_cols_);
    check(cufftExecR2C(forward_, planes_, spectra));
    check(cufftExecR2C(forward_, planes_ + plane, spectra + spectrum));
    multiply<<<static_cast<unsigned>((spectrum + 255) / 256), 256, 0, stream>>>(spectra, spectra + spectrum, spectrum,
                                                                                1.0f / static_cast<float>(plane));
    check(cufftExecC2R(inverse_, spectra, planes_));
    scanRows<<<(rows_ + 127) / 128, 128, 0, stream>>>(static_cast<const unsigned char *>(frame.data), frame.step, rows_,
                                                      cols_, integral_);
    scanColumns<<<(cols_ + 127) / 128, 128, 0, stream>>>(rows_, cols_, integral_);
    ssdScores<<<gridFor(rows_ - h_ + 1, cols_ - w_ + 1, block), block, 0, stream>>>(integral_, rows_, cols_, planes_,
                                                                                    fft_cols_, h_, w_, 0.0f, scores_);
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
