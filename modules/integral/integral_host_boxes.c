/* Sums over rectangles: a share of them per thread, four reads each. */
#include "integral_host.h"

#include <math.h>

enum { BOXES_PER_THREAD = 4096 };

cusStatus integral_host_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums) {
    const int64_t rows = table->rows - 1, cols = table->cols - 1;
    const int useful = boxes->rows / BOXES_PER_THREAD + 1;
    const int threads = useful < cusi_maxThreads() ? useful : cusi_maxThreads();
    (void)threads; /* unused without OpenMP */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int k = 0; k < boxes->rows; ++k) {
        const int32_t *box = INTEGRAL_ROW(const int32_t, boxes, k);
        const int32_t x = box[0], y = box[1], width = box[2], height = box[3];
        double *sum = INTEGRAL_ROW(double, sums, k);
        if (x < 0 || y < 0 || width < 0 || height < 0 || (int64_t)x + width > cols || (int64_t)y + height > rows)
            *sum = (double)NAN;
        else if (table->type == CUS_32SC1)
            *sum = cusBoxSum32S(table->data, table->step, x, y, width, height);
        else
            *sum = cusBoxSum64F(table->data, table->step, x, y, width, height);
    }
    return CUS_OK;
}
