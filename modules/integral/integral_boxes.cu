// Sums over rectangles: one thread each, four reads.
#include "cuda.cuh"
#include "integral_backend.h"

namespace {

template<bool IS_64F>
__global__ void boxSumsKernel(const char *table, size_t step, int rows, int cols, const char *boxes, size_t boxes_step,
                              char *sums, size_t sums_step, unsigned count) {
    const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count)
        return;
    const int *box = reinterpret_cast<const int *>(boxes + k * boxes_step);
    const int x = box[0], y = box[1], width = box[2], height = box[3];
    double sum = nan("");
    if (x >= 0 && y >= 0 && width >= 0 && height >= 0 && static_cast<long long>(x) + width <= cols &&
        static_cast<long long>(y) + height <= rows)
        sum = IS_64F ? cusBoxSum64F(table, step, x, y, width, height) : cusBoxSum32S(table, step, x, y, width, height);
    *reinterpret_cast<double *>(sums + k * sums_step) = sum;
}

} // namespace

cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream) {
    constexpr unsigned THREADS = 256;
    const unsigned count = static_cast<unsigned>(boxes->rows);
    const auto kernel = table->type == CUS_64FC1 ? boxSumsKernel<true> : boxSumsKernel<false>;
    return cusi::launch("cusBoxSums", kernel, cusi::divUp(count, THREADS), THREADS, 0, stream,
                        static_cast<const char *>(table->data), table->step, table->rows - 1, table->cols - 1,
                        static_cast<const char *>(boxes->data), boxes->step, static_cast<char *>(sums->data), sums->step,
                        count);
}
