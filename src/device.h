/* GPU memory and copies for src/mat.c: device_cuda.cu, or device_none.c in a build without CUDA. */
#ifndef CUSI_DEVICE_H
#define CUSI_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory comes from the allocator of cusSetDeviceAllocator, else from CUDA; on failure *data is NULL. Every stream may
 * use it, and it is 256-byte aligned. cusi_deviceFree takes NULL, too, and waits until the device no longer uses the memory. */
cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data);
/* With *step for rows of `row_bytes`, unless `step` is NULL. */
cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step);
void cusi_deviceFree(void *data);
/* Memory for work in `stream` alone. Neither call waits. To free without a message in case of an error: function NULL. */
cusStatus cusi_deviceAllocateAsync(const char *function, size_t bytes, void **data, cusStream stream);
cusStatus cusi_deviceFreeAsync(const char *function, void *data, cusStream stream);
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
