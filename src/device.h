/* GPU memory and copies for src/mat.c: device_cuda.cu, or device_none.c in a build without CUDA. */
#ifndef CUSI_DEVICE_H
#define CUSI_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates from cusSetDeviceAllocator's allocator or else from CUDA: 256-byte aligned memory that every stream may use.
 * *data is NULL on failure. cusi_deviceFree accepts NULL, and waits until the device no longer uses the memory. */
cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data);
/* With `step`: rows of `row_bytes`, *step apart. */
cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step);
void cusi_deviceFree(void *data);
/* For work in `stream` alone. Neither call waits. Pass `function` NULL to free without a message on errors. */
cusStatus cusi_deviceAllocateAsync(const char *function, size_t bytes, void **data, cusStream stream);
cusStatus cusi_deviceFreeAsync(const char *function, void *data, cusStream stream);
cusStatus cusi_pinnedAllocate(const char *function, size_t bytes, void **data);
void cusi_pinnedFree(void *data);

/* Queues a copy in `stream`, in any direction between host and device (CUDA infers it). */
cusStatus cusi_deviceCopy(const char *function, void *dst, size_t dst_step, const void *src, size_t src_step,
                          size_t row_bytes, size_t rows, cusStream stream);
/* Copies within the device. Both matrices exist and have the same size and type. */
cusStatus cusi_deviceCopyWithin(const char *function, const cusMat *src, cusMat *dst, cusStream stream);
cusStatus cusi_deviceZero(const char *function, void *dst, size_t step, size_t row_bytes, size_t rows, cusStream stream);

/* Waits for the stream, and asks what cusSetProgress says (progress.h). After a cancel, *stop, in device memory, is 1 until the work
 * ends: kernels that read it (cusi::isStopped) return early. If `stop` is NULL, the work goes on and is not waited for. */
cusStatus cusi_deviceWait(const char *function, cusStream stream, int *stop);

#ifdef __cplusplus
}
#endif

#endif
