/* What the entry point and the two backends of hsv share. */
#ifndef CUSI_HSV_BACKEND_H
#define CUSI_HSV_BACKEND_H

#include "cusight/hsv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments are checked, outputs created. The host function completes before it returns; the CUDA function queues its
 * work. */
void hsv_host_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask);
cusStatus hsv_cuda_count(const cusMat *src, const cusHsvRange *range, cusMat *count, cusMat *mask, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
