/* GPU memory and copies for src/mat.c: device_cuda.cu, or device_none.c in a build without CUDA. */
#ifndef CUSI_DEVICE_H
#define CUSI_DEVICE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates memory, aligned to 256 bytes, that every stream may use, from cusSetDeviceAllocator's allocator or else from
 * CUDA. *data is NULL on failure. cusi_deviceFree accepts NULL and waits until the device no longer uses the memory. */
cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data);
/* Allocates rows of `row_bytes` bytes, *step apart. */
cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step);
void cusi_deviceFree(void *data);
/* Allocates and frees memory for work in `stream` alone, without waiting. With `function` NULL, an error sets no
 * message. */
cusStatus cusi_deviceAllocateAsync(const char *function, size_t bytes, void **data, cusStream stream);
cusStatus cusi_deviceFreeAsync(const char *function, void *data, cusStream stream);
cusStatus cusi_pinnedAllocate(const char *function, size_t bytes, void **data);
void cusi_pinnedFree(void *data);
/* Pins memory that is mapped for reading only, whole pages, for all devices; cusi_unpin takes it back before it is
 * unmapped. */
cusStatus cusi_pin(const char *function, void *data, size_t bytes);
void cusi_unpin(void *data);

/* Queues a copy in `stream`, in any direction between host and device (CUDA infers it). */
cusStatus cusi_deviceCopy(const char *function, void *dst, size_t dst_step, const void *src, size_t src_step,
                          size_t row_bytes, size_t rows, cusStream stream);
/* Copies within the device. Both matrices exist and have the same size and type. */
cusStatus cusi_deviceCopyWithin(const char *function, const cusMat *src, cusMat *dst, cusStream stream);
cusStatus cusi_deviceZero(const char *function, void *dst, size_t step, size_t row_bytes, size_t rows, cusStream stream);

/* Waits for the stream without calling the callback of cusSetProgress. */
cusStatus cusi_deviceFinish(const char *function, cusStream stream);

/* Waits for the stream and calls the callback of cusSetProgress (progress.h). After a cancel sets *stop, in device memory,
 * to 1 until the work ends: kernels that read it (cusi::isStopped) return early. If `stop` is NULL, the call does not wait
 * for the work to end. */
cusStatus cusi_deviceWait(const char *function, cusStream stream, int *stop);

/* Must precede a copy to `to`, in host memory. A copy to pageable memory waits for the stream; if cusSetProgress has a
 * callback, this waits first, so that the callback is called. */
cusStatus cusi_deviceWaitToDownload(const char *function, const void *to, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
