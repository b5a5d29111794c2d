/* GPU memory and copies for src/mat.c: device_cuda.cu, or device_none.c in a build without CUDA. */
#ifndef CUSI_DEVICE_H
#define CUSI_DEVICE_H

#include "cusight/core.h"

#ifdef __cplusplus
extern "C" {
#endif

cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data);
/* CUDA chooses *step for rows of `row_bytes`. */
cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step);
void cusi_deviceFree(void *data);
cusStatus cusi_pinnedAllocate(const char *function, size_t bytes, void **data);
void cusi_pinnedFree(void *data);

/* Queued in `stream`; any direction between host and device (CUDA infers it). */
cusStatus cusi_deviceCopy(const char *function, void *dst, size_t dst_step, const void *src, size_t src_step,
                          size_t row_bytes, size_t rows, cusStream stream);
/* From device to device; both matrices exist and have the same size and type. */
cusStatus cusi_deviceCopyWithin(const char *function, const cusMat *src, cusMat *dst, cusStream stream);
cusStatus cusi_deviceZero(const char *function, void *dst, size_t step, size_t row_bytes, size_t rows, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
