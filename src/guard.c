/* Guards against misuse: see guard.h. */
#include "guard.h"

static cusStatus claim(const char *function, const char *object, CusiGuard *guard) {
    CUSI_REQUIRE(!__atomic_exchange_n(&guard->busy, 1, __ATOMIC_ACQUIRE), CUS_ERROR_BUSY,
                 "%s: %s is in use by another call, expected one call at a time", function, object);
    return CUS_OK;
}

static cusStatus release(CusiGuard *guard, cusStatus status) {
    __atomic_store_n(&guard->busy, 0, __ATOMIC_RELEASE);
    return status;
}

#ifdef CUSI_WITH_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>

#define TRY_CUDA(function, call) CUS_TRY(cusi_cudaStatus((call), (function), #call))

/* Distinguishes streams that exist at the same time: cudaStreamPerThread is a different stream in each thread. */
static uint64_t handleOf(cusStream stream) {
    static _Thread_local char here;
    return stream == cudaStreamPerThread ? (uintptr_t)&here : (uintptr_t)stream;
}

/* Returns an id that no other stream of the program ever has. Not for a stream under capture: the query breaks the
 * capture. */
static cusStatus idOf(const char *function, cusStream stream, uint64_t *id) {
#if CUDART_VERSION >= 12000
    unsigned long long value = 0;
    TRY_CUDA(function, cudaStreamGetId(stream, &value));
    *id = value;
#else
    (void)function;
    *id = handleOf(stream);
#endif
    return CUS_OK;
}

/* Returns in *capture the id of the capture that `stream` is part of, or 0. */
static cusStatus captureOf(const char *function, cusStream stream, uint64_t *capture) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    *capture = 0;
    const cudaError_t error = cudaStreamIsCapturing(stream, &status);
    if (error == cudaErrorStreamCaptureImplicit) {
        (void)cudaGetLastError();
        return cusi_fail(
            CUS_ERROR_UNSUPPORTED,
            "%s: stream is the default stream, which cannot be used while a stream that synchronizes with it is "
            "being captured",
            function);
    }
    if (error != cudaSuccess)
        (void)cudaGetLastError(); /* the call itself reports it */
    if (error != cudaSuccess || status == cudaStreamCaptureStatusNone)
        return CUS_OK;
    unsigned long long id = 0;
#if CUDART_VERSION >= 13000
    TRY_CUDA(function, cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
#else
    TRY_CUDA(function, cudaStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL));
#endif
    *capture = (uint64_t)id + 1;
    return CUS_OK;
}

/* Records `event` behind all work queued on the current device. Drivers before CUDA 12.5 cannot do this; then the host
 * waits for that work, after which any earlier recording of the event serves. */
static cusStatus recordAll(const char *function, cudaEvent_t event) {
#if CUDART_VERSION >= 12050
    enum cudaDriverEntryPointQueryResult found;
    CUresult (*current)(CUcontext *) = NULL, (*record)(CUcontext, CUevent) = NULL;
    CUcontext context = NULL;
    if (cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", (void **)(void *)&current, 12000, cudaEnableDefault, &found) ==
            cudaSuccess &&
        cudaGetDriverEntryPointByVersion("cuCtxRecordEvent", (void **)(void *)&record, 12050, cudaEnableDefault, &found) ==
            cudaSuccess &&
        current && record && current(&context) == CUDA_SUCCESS && record(context, event) == CUDA_SUCCESS)
        return CUS_OK;
    (void)cudaGetLastError();
#endif
    (void)event;
    TRY_CUDA(function, cudaDeviceSynchronize());
    return CUS_OK;
}

/* Returns whether there is one device only, so that memory and streams cannot belong to another. The number of devices
 * never changes in a process. */
static int isOnlyDevice(void) {
    static int known; /* the number, or 0 */
    int count = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (count == 0) {
        if (cudaGetDeviceCount(&count) != cudaSuccess) {
            (void)cudaGetLastError();
            return 1; /* no driver or GPU, which the call itself reports */
        }
        __atomic_store_n(&known, count, __ATOMIC_RELAXED);
    }
    return count == 1;
}

/* Finds the device of a stream. Returns 0 if it is unknown, as before CUDA 12.8 and during a capture, which the query breaks. */
static int findDeviceOf(cusStream stream, int *device) {
#if CUDART_VERSION >= 12080
    enum cudaStreamCaptureStatus status;
    if (cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusNone &&
        cudaStreamGetDevice(stream, device) == cudaSuccess)
        return 1;
    (void)cudaGetLastError();
#endif
    (void)stream, (void)device;
    return 0;
}

cusStatus cusi_checkStream(const char *function, cusSpace space, cusStream stream) {
    /* As for memory, each thread remembers the last check that passed. */
    static _Thread_local struct {
        cusStream stream;
        int device;
    } passed;
    const int is_default =
        !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread; /* the current device's */
    int current = 0, device = 0;
    if (space != CUS_DEVICE || is_default || isOnlyDevice())
        return CUS_OK;
    if (cudaGetDevice(&current) != cudaSuccess) {
        (void)cudaGetLastError(); /* no driver or GPU, which the call itself reports */
        return CUS_OK;
    }
    if ((passed.stream == stream && passed.device == current) || !findDeviceOf(stream, &device))
        return CUS_OK;
    CUSI_REQUIRE(device == current, CUS_ERROR_SPACE, "%s: stream is on device %d, expected device %d, the current one",
                 function, device, current);
    passed.stream = stream;
    passed.device = current;
    return CUS_OK;
}

/* Finds the stream and the capture of the current call. first: NULL, or a guard for which they are known. */
static cusStatus identify(const char *function, const char *object, CusiGuard *guard, cusStream stream,
                          const CusiGuard *first) {
    int device = 0;
    if (first)
        device = first->device;
    else
        TRY_CUDA(function, cudaGetDevice(&device));
    CUSI_REQUIRE(device == guard->device, CUS_ERROR_SPACE, "%s: %s is on device %d, expected device %d, the current one",
                 function, object, guard->device, device);
    if (first) {
        guard->now = first->now;
        guard->now_capture = first->now_capture;
        return CUS_OK;
    }
    CUS_TRY(cusi_checkStream(function, CUS_DEVICE, stream));
    CUS_TRY(captureOf(function, stream, &guard->now_capture));
    guard->now = handleOf(stream);
    return guard->now_capture ? CUS_OK : idOf(function, stream, &guard->now);
}

static cusStatus enterDevice(const char *function, const char *object, CusiGuard *guard, cusStream stream,
                             const CusiGuard *first) {
    CUS_TRY(identify(function, object, guard, stream, first));
    if (guard->now_capture) { /* work outside the capture is not ordered with the graph */
        if (guard->now_capture == guard->capture && guard->now != guard->captured_in)
            TRY_CUDA(function, cudaStreamWaitEvent(stream, guard->captured, 0));
        return CUS_OK;
    }
    if (guard->calls == 0 || guard->now == guard->stream)
        return CUS_OK;
    if (guard->calls >= CUSI_SETTLED)
        CUS_TRY(recordAll(function, guard->passed));
    TRY_CUDA(function, cudaStreamWaitEvent(stream, guard->passed, 0));
    return CUS_OK;
}

static cusStatus leaveDevice(const char *function, CusiGuard *guard, cusStream stream) {
    if (guard->now_capture) { /* adds no node to the graph */
        TRY_CUDA(function, cudaEventRecord(guard->captured, stream));
        guard->capture = guard->now_capture;
        guard->captured_in = guard->now;
        return CUS_OK;
    }
    guard->calls = guard->now != guard->stream ? 1 : guard->calls < CUSI_SETTLED ? guard->calls + 1 : CUSI_SETTLED;
    guard->stream = guard->now;
    if (guard->calls < CUSI_SETTLED)
        TRY_CUDA(function, cudaEventRecord(guard->passed, stream));
    return CUS_OK;
}

cusStatus cusi_guardCreate(const char *function, CusiGuard *guard, cusSpace space) {
    *guard = (CusiGuard){0};
    if (space == CUS_HOST)
        return CUS_OK;
    uint64_t capture = 0; /* creation uses the default stream */
    CUS_TRY(captureOf(function, NULL, &capture));
    TRY_CUDA(function, cudaGetDevice(&guard->device));
    TRY_CUDA(function, cudaEventCreateWithFlags(&guard->captured, cudaEventDisableTiming));
    TRY_CUDA(function, cudaEventCreateWithFlags(&guard->passed, cudaEventDisableTiming));
    return CUS_OK;
}

void cusi_guardRelease(CusiGuard *guard) {
    if (guard->captured)
        (void)cudaEventDestroy(guard->captured);
    if (guard->passed)
        (void)cudaEventDestroy(guard->passed);
}

cusStatus cusi_enterNext(const char *function, const char *object, CusiGuard *guard, cusStream stream,
                         const CusiGuard *first) {
    CUS_TRY(claim(function, object, guard));
    const cusStatus status = guard->passed ? enterDevice(function, object, guard, stream, first) : CUS_OK;
    return status == CUS_OK ? status : release(guard, status);
}

cusStatus cusi_leave(const char *function, CusiGuard *guard, cusStream stream, cusStatus status) {
    if (guard->passed && status == CUS_OK) {
        status = leaveDevice(function, guard, stream);
    } else if (guard->passed && !guard->now_capture && (status == CUS_ERROR_CUDA || status == CUS_ERROR_NO_MEMORY)) {
        guard->stream = guard->now; /* after these errors part of the work may be queued; after others nothing is */
        guard->calls = CUSI_SETTLED;
    }
    return release(guard, status);
}

cusStatus cusi_refuseCapture(const char *function, cusStream stream, const char *why) {
    uint64_t capture = 0;
    CUS_TRY(captureOf(function, stream, &capture));
    CUSI_REQUIRE(!capture, CUS_ERROR_UNSUPPORTED, "%s: stream is being captured, and %s; call it outside the capture",
                 function, why);
    return CUS_OK;
}

cusStatus cusi_checkDeviceMemory(const char *function, const char *argument, const void *data) {
    /* A query takes some hundred nanoseconds, so each thread remembers what has passed. If memory is freed and its
     * address reused on another device, an entry can miss misuse, but never rejects correct use. */
    static _Thread_local struct {
        const void *data;
        int device;
    } passed[1024];
    if (isOnlyDevice())
        return CUS_OK;
    int current = 0;
    if (cudaGetDevice(&current) != cudaSuccess) {
        (void)cudaGetLastError(); /* no driver or GPU, which the call itself reports */
        return CUS_OK;
    }
    const unsigned slot = (unsigned)(((uint64_t)(uintptr_t)data * 0x9E3779B97F4A7C15u) >> 54);
    if (passed[slot].data == data && passed[slot].device == current)
        return CUS_OK;
    struct cudaPointerAttributes attributes;
    const cudaError_t error = cudaPointerGetAttributes(&attributes, data);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return CUS_OK;
    }
    CUSI_REQUIRE(attributes.type != cudaMemoryTypeDevice || attributes.device == current, CUS_ERROR_SPACE,
                 "%s: %s is on device %d, expected device %d, the current one", function, argument, attributes.device,
                 current);
    passed[slot].data = data;
    passed[slot].device = current;
    return CUS_OK;
}

#else

cusStatus cusi_checkStream(const char *function, cusSpace space, cusStream stream) {
    (void)function, (void)space, (void)stream; /* the call itself reports CUS_ERROR_NO_CUDA */
    return CUS_OK;
}

cusStatus cusi_guardCreate(const char *function, CusiGuard *guard, cusSpace space) {
    (void)space; /* creation on a device fails elsewhere */
    (void)function;
    *guard = (CusiGuard){0};
    return CUS_OK;
}

void cusi_guardRelease(CusiGuard *guard) {
    (void)guard;
}

cusStatus cusi_enterNext(const char *function, const char *object, CusiGuard *guard, cusStream stream,
                         const CusiGuard *first) {
    (void)stream, (void)first;
    return claim(function, object, guard);
}

cusStatus cusi_leave(const char *function, CusiGuard *guard, cusStream stream, cusStatus status) {
    (void)function, (void)stream;
    return release(guard, status);
}

cusStatus cusi_refuseCapture(const char *function, cusStream stream, const char *why) {
    (void)function, (void)stream, (void)why;
    return CUS_OK;
}

cusStatus cusi_checkDeviceMemory(const char *function, const char *argument, const void *data) {
    (void)function, (void)argument, (void)data; /* the call itself reports CUS_ERROR_NO_CUDA */
    return CUS_OK;
}

#endif

cusStatus cusi_enter(const char *function, const char *object, CusiGuard *guard, cusStream stream) {
    return cusi_enterNext(function, object, guard, stream, NULL);
}
