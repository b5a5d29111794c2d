// hsv on the GPU is one pass over the image. Each thread converts four pixels at a time, each block adds its count once.
#include "hsv.cuh"
#include "hsv.h"

#include <algorithm>

namespace {

constexpr int BLOCKS_PER_SM = 8;

__global__ void __launch_bounds__(cusi::HSV_THREADS)
    countKernel(const cusi::BgrImage src, const cusHsvRange range, unsigned *count, unsigned char *mask, size_t mask_step) {
    __shared__ cusi::HsvTables tables;
    tables.fill();
    const unsigned sum = cusi::blockSum(cusi::countInRange(src, range, tables, mask, mask_step, blockIdx.x, gridDim.x));
    if (threadIdx.x == 0 && sum)
        atomicAdd(count, sum);
}

} // namespace

cusStatus hsv_cuda_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream) {
    const char *f = "cusHsvCount";
    int multiprocessors = 0;
    CUSI_CUDA(f, cusi::multiprocessors(&multiprocessors));
    const long long wanted = cusi::divUp<long long>(cusi::hsvQuads(src->rows, src->cols), cusi::HSV_THREADS);
    const unsigned blocks = static_cast<unsigned>(std::min<long long>(BLOCKS_PER_SM * multiprocessors, wanted));
    CUSI_CUDA(f, cudaMemsetAsync(count->data, 0, sizeof(unsigned), stream));
    return cusi::launch(f, countKernel, blocks, cusi::HSV_THREADS, 0, stream, cusi::bgrImage(*src), *range,
                        static_cast<unsigned *>(count->data), mask ? static_cast<unsigned char *>(mask->data) : nullptr,
                        mask ? mask->step : 0);
}
