/* Device memory, from CUDA or from the program's allocator. A block is recorded with its allocator, so that it returns
 * there even if another has been set since. (Without CUDA: device_none.c.) */
#include "check.h"
#include "device.h"

#ifdef CUSI_WITH_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUCKETS = 1024, ALIGNMENT = 256, PITCH = 512 };

typedef struct Block {
    struct Block *next;
    void *data;
    size_t bytes;
    int device;
    cusDeviceAllocator allocator;
} Block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; never held while an allocator runs */
static cusDeviceAllocator given;                         /* no functions: memory comes from CUDA */
static Block *blocks[BUCKETS];
/* Zero until a program sets an allocator; until then nothing is locked or looked up. */
static atomic_int is_given;
static atomic_size_t block_count;

static Block **bucketOf(const void *data) {
    return &blocks[(uintptr_t)data / ALIGNMENT % BUCKETS];
}

static void keep(Block *block) {
    Block **const bucket = bucketOf(block->data);
    pthread_mutex_lock(&lock);
    block->next = *bucket;
    *bucket = block;
    atomic_fetch_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
}

/* Removes and returns the block at this address; NULL if its memory is CUDA's. */
static Block *takeOut(const void *data) {
    if (atomic_load_explicit(&block_count, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    Block **at = bucketOf(data);
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    Block *const found = *at;
    if (found) {
        *at = found->next;
        atomic_fetch_sub(&block_count, 1);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void giveBack(Block *block, cusStream stream) {
    block->allocator.deallocate(block->data, block->bytes, block->device, stream, block->allocator.user);
    (void)cudaGetLastError(); /* drop the allocator's own errors */
    free(block);
}

/* Returns the status of CUDA's own allocation. If memory runs out, the message says how much was requested. */
static cusStatus allocated(cudaError_t error, const char *function, const char *call, size_t bytes, void **data) {
    if (error == cudaSuccess)
        return CUS_OK;
    *data = NULL;
    const cusStatus status = cusi_cudaStatus(error, function, call);
    if (error != cudaErrorMemoryAllocation)
        return status;
    return cusi_fail(status, "%s: no device memory for %zu bytes", function, bytes);
}

/* Allocates from the given allocator; leaves *data NULL if there is none. With `wait`, every stream may use the memory, not
 * only `stream`. */
static cusStatus allocateGiven(const char *function, size_t bytes, void **data, cusStream stream, int wait) {
    *data = NULL;
    if (!atomic_load_explicit(&is_given, memory_order_acquire))
        return CUS_OK;
    pthread_mutex_lock(&lock);
    const cusDeviceAllocator allocator = given;
    pthread_mutex_unlock(&lock);
    if (!allocator.allocate)
        return CUS_OK;
    int device = 0;
    CUS_TRY(cusi_cudaStatus(cudaGetDevice(&device), function, "cudaGetDevice"));
    Block *const block = malloc(sizeof *block);
    CUSI_REQUIRE(block, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    const size_t size = bytes ? bytes : 1;
    *block = (Block){NULL, allocator.allocate(size, device, stream, allocator.user), size, device, allocator};
    (void)cudaGetLastError();
    if (!block->data) {
        free(block);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no device memory for %zu bytes from the program's allocator", function,
                         bytes);
    }
    if ((uintptr_t)block->data % ALIGNMENT) {
        cusi_fail(CUS_ERROR_VALUE, "%s: the program's allocator returned %p, expected a multiple of %d", function,
                  block->data, ALIGNMENT);
        giveBack(block, stream);
        return CUS_ERROR_VALUE;
    }
    const cusStatus waited = wait ? cusi_cudaStatus(cudaStreamSynchronize(stream), function, "queued work") : CUS_OK;
    if (waited != CUS_OK) {
        giveBack(block, stream);
        return waited;
    }
    *data = block->data;
    keep(block);
    return CUS_OK;
}

cusStatus cusSetDeviceAllocator(const cusDeviceAllocator *allocator) {
    CUSI_TRACE;
    const cusDeviceAllocator none = {NULL, NULL, NULL, {0}};
    if (allocator) {
        CUSI_NOT_NULL("cusSetDeviceAllocator", allocator->allocate);
        CUSI_NOT_NULL("cusSetDeviceAllocator", allocator->deallocate);
        CUS_TRY(cusi_checkReserved("cusSetDeviceAllocator", "allocator->", allocator->reserved));
    }
    pthread_mutex_lock(&lock);
    given = allocator ? *allocator : none;
    atomic_store_explicit(&is_given, allocator != NULL, memory_order_release);
    pthread_mutex_unlock(&lock);
    return CUS_OK;
}

/* Exchanges the thread's capture mode. In relaxed mode the thread may allocate during a capture: an output that a captured
 * call creates is allocated at once and is not part of the graph. */
static void exchangeCaptureMode(enum cudaStreamCaptureMode *mode) {
    if (cudaThreadExchangeStreamCaptureMode(mode) != cudaSuccess)
        (void)cudaGetLastError();
}

/* Allocates `rows` rows of `bytes` bytes, padded to *step unless `step` is NULL. */
static cusStatus allocate(const char *function, size_t rows, size_t bytes, void **data, size_t *step) {
    const size_t padded = step ? (bytes + PITCH - 1) / PITCH * PITCH : bytes; /* CUDA's own choice */
    *data = NULL;
    CUSI_REQUIRE(padded >= bytes && padded <= SIZE_MAX / rows, CUS_ERROR_NO_MEMORY,
                 "%s: no device memory for %zu rows of %zu bytes", function, rows, bytes);
    CUS_TRY(allocateGiven(function, padded * rows, data, NULL, 1));
    if (!*data)
        return step ? allocated(cudaMallocPitch(data, step, bytes, rows), function, "cudaMallocPitch", padded * rows, data)
                    : allocated(cudaMalloc(data, bytes), function, "cudaMalloc", bytes, data);
    if (step)
        *step = padded;
    return CUS_OK;
}

cusStatus cusi_deviceAllocate(const char *function, size_t bytes, void **data) {
    return cusi_deviceAllocatePitch(function, 1, bytes, data, NULL);
}

cusStatus cusi_deviceAllocatePitch(const char *function, size_t rows, size_t row_bytes, void **data, size_t *step) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    exchangeCaptureMode(&mode);
    const cusStatus status = allocate(function, rows, row_bytes, data, step);
    exchangeCaptureMode(&mode);
    return status;
}

cusStatus cusi_pinnedAllocate(const char *function, size_t bytes, void **data) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    exchangeCaptureMode(&mode);
    const cudaError_t error = cudaMallocHost(data, bytes);
    cusStatus status = cusi_cudaStatus((int)error, function, "cudaMallocHost");
    if (error == cudaErrorMemoryAllocation)
        status = cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no page-locked host memory for %zu bytes", function, bytes);
    exchangeCaptureMode(&mode);
    return status;
}

void cusi_pinnedFree(void *data) {
    if (cudaFreeHost(data) != cudaSuccess)
        (void)cudaGetLastError();
}

cusStatus cusi_pin(const char *function, void *data, size_t bytes) {
    const cudaError_t error = cudaHostRegister(data, bytes, cudaHostRegisterReadOnly | cudaHostRegisterPortable);
    (void)cudaGetLastError(); /* later calls must not report it */
    CUSI_REQUIRE(error != cudaErrorMemoryAllocation, CUS_ERROR_NO_MEMORY, "%s: %zu bytes of memory cannot be pinned",
                 function, bytes);
    return cusi_cudaStatus((int)error, function, "cudaHostRegister");
}

void cusi_unpin(void *data) {
    if (cudaHostUnregister(data) != cudaSuccess)
        (void)cudaGetLastError();
}

void cusi_deviceFree(void *data) {
    if (!data)
        return;
    Block *const block = takeOut(data);
    if (!block) {
        (void)cudaFree(data);
        return;
    }
    /* Synchronize like cudaFree: nobody knows which streams still use the memory. */
    const int device = block->device;
    int current = device;
    (void)cudaGetDevice(&current);
    if (current != device)
        (void)cudaSetDevice(device);
    (void)cudaDeviceSynchronize();
    giveBack(block, NULL);
    if (current != device)
        (void)cudaSetDevice(current);
}

cusStatus cusi_deviceAllocateAsync(const char *function, size_t bytes, void **data, cusStream stream) {
    *data = NULL;
    if (atomic_load_explicit(&is_given, memory_order_acquire)) {
        /* A graph's memory must exist whenever the graph runs; only CUDA can ensure that. */
        enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        CUS_TRY(cusi_cudaStatus(cudaStreamIsCapturing(stream, &capture), function, "cudaStreamIsCapturing"));
        if (capture == cudaStreamCaptureStatusNone)
            CUS_TRY(allocateGiven(function, bytes, data, stream, 0));
        if (*data)
            return CUS_OK;
    }
    return allocated(cudaMallocAsync(data, bytes, stream), function, "workspace", bytes, data);
}

cusStatus cusi_deviceFreeAsync(const char *function, void *data, cusStream stream) {
    Block *const block = takeOut(data);
    if (block) {
        giveBack(block, stream);
        return CUS_OK;
    }
    const cudaError_t error = cudaFreeAsync(data, stream);
    if (error == cudaSuccess || function)
        return cusi_cudaStatus(error, function, "workspace");
    (void)cudaGetLastError();
    return CUS_ERROR_CUDA;
}

#else
typedef int device_memory_is_empty;
#endif
