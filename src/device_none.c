/* GPU functions in a build without CUDA: the same symbols, each of which reports CUS_ERROR_NO_CUDA. */
#include "check.h"
#include "device.h"

#include <string.h>

static cusStatus none(const char *function) {
    return cusi_fail(CUS_ERROR_NO_CUDA, "%s: this build of cusight has no CUDA support", function);
}

cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data) {
    (void)bytes, (void)data;
    return none(function);
}

cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step) {
    (void)rows, (void)row_bytes, (void)data, (void)step;
    return none(function);
}

void cusi_deviceFree(void *data) {
    (void)data;
}

cusStatus cusi_deviceAllocateAsync(const char *function, size_t bytes, void **data, cusStream stream) {
    (void)bytes, (void)data, (void)stream;
    return none(function);
}

cusStatus cusi_deviceFreeAsync(const char *function, void *data, cusStream stream) {
    (void)data, (void)stream;
    return none(function);
}

cusStatus cusSetDeviceAllocator(const cusDeviceAllocator *allocator) {
    CUSI_TRACE;
    if (allocator) {
        CUSI_NOT_NULL("cusSetDeviceAllocator", allocator->allocate);
        CUSI_NOT_NULL("cusSetDeviceAllocator", allocator->deallocate);
        CUS_TRY(cusi_checkReserved("cusSetDeviceAllocator", "allocator->", allocator->reserved));
    }
    return none("cusSetDeviceAllocator");
}

cusStatus cusi_pinnedAllocate(const char *function, size_t bytes, void **data) {
    (void)bytes, (void)data;
    return none(function);
}

void cusi_pinnedFree(void *data) {
    (void)data;
}

cusStatus cusi_pin(const char *function, void *data, size_t bytes) {
    (void)data, (void)bytes;
    return none(function);
}

void cusi_unpin(void *data) {
    (void)data;
}

cusStatus cusi_deviceCopy(const char *function, void *dst, size_t dst_step, const void *src, size_t src_step,
                          size_t row_bytes, size_t rows, cusStream stream) {
    (void)dst, (void)dst_step, (void)src, (void)src_step, (void)row_bytes, (void)rows, (void)stream;
    return none(function);
}

cusStatus cusi_deviceCopyWithin(const char *function, const cusMat *src, cusMat *dst, cusStream stream) {
    (void)src, (void)dst, (void)stream;
    return none(function);
}

cusStatus cusi_deviceZero(const char *function, void *dst, size_t step, size_t row_bytes, size_t rows, cusStream stream) {
    (void)dst, (void)step, (void)row_bytes, (void)rows, (void)stream;
    return none(function);
}

cusStatus cusi_deviceFinish(const char *function, cusStream stream) {
    (void)stream;
    return none(function);
}

cusStatus cusi_deviceWaitToDownload(const char *function, const void *to, cusStream stream) {
    (void)to, (void)stream;
    return none(function);
}

cusStatus cusStreamCreate(cusStream *stream) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamCreate", stream);
    return none("cusStreamCreate");
}

void cusStreamDestroy(cusStream stream) {
    CUSI_TRACE;
    (void)stream;
}

cusStatus cusStreamSynchronize(cusStream stream) {
    CUSI_TRACE;
    (void)stream;
    return none("cusStreamSynchronize");
}

cusStatus cusStreamWaitEvent(cusStream stream, cusStreamEvent event) {
    CUSI_TRACE;
    (void)stream, (void)event;
    return none("cusStreamWaitEvent");
}

cusStatus cusStreamEventCreate(cusStreamEvent *event) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamEventCreate", event);
    return none("cusStreamEventCreate");
}

void cusStreamEventDestroy(cusStreamEvent event) {
    CUSI_TRACE;
    (void)event;
}

cusStatus cusStreamEventRecord(cusStreamEvent event, cusStream stream) {
    CUSI_TRACE;
    (void)event, (void)stream;
    return none("cusStreamEventRecord");
}

cusStatus cusStreamEventSynchronize(cusStreamEvent event) {
    CUSI_TRACE;
    (void)event;
    return none("cusStreamEventSynchronize");
}

cusStatus cusStreamEventElapsed(cusStreamEvent start, cusStreamEvent stop, float *milliseconds) {
    CUSI_TRACE;
    (void)start, (void)stop, (void)milliseconds;
    return none("cusStreamEventElapsed");
}

cusStatus cusDeviceCount(int *count) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDeviceCount", count);
    *count = 0;
    return CUS_OK;
}

cusStatus cusDeviceSet(int device) {
    CUSI_TRACE;
    (void)device;
    return none("cusDeviceSet");
}

cusStatus cusDeviceGet(int *device) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDeviceGet", device);
    return none("cusDeviceGet");
}

cusStatus cusDeviceQuery(int device, cusDeviceInfo *info) {
    CUSI_TRACE;
    (void)device;
    CUSI_NOT_NULL("cusDeviceQuery", info);
    memset(info, 0, sizeof *info);
    return none("cusDeviceQuery");
}
