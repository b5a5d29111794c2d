// Page-locked memory, copies, streams, events and devices.
#include "cuda.cuh"
#include "device.h"
#include "guard.h"
#include "progress.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

namespace cusi {

cusStatus cudaStatus(cudaError_t error, const char *function, const char *what) {
    return cusi_cudaStatus(static_cast<int>(error), function, what);
}

namespace {

// Copies rows within the device, 16 bytes a thread: CUDA's own copy of padded rows reaches less than half of the memory
// bandwidth (3840x2160x3: 33 us).
__global__ void copyRowsKernel(unsigned char *dst, size_t dst_step, const unsigned char *src, size_t src_step,
                               size_t row_bytes, size_t rows, bool aligned) {
    startInOrder();
    for (size_t y = blockIdx.y; y < rows; y += gridDim.y)
        for (size_t x = 16 * (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x); x < row_bytes;
             x += 16 * static_cast<size_t>(gridDim.x) * blockDim.x) {
            const int left = static_cast<int>(row_bytes - x < 16 ? row_bytes - x : 16);
            store16(dst + y * dst_step + x, load16(src + y * src_step + x, left, aligned), left, aligned);
        }
}

} // namespace
} // namespace cusi

using cusi::cudaStatus;

cusStatus cusi_deviceCopy(const char *function, void *dst, size_t dst_step, const void *src, size_t src_step,
                          size_t row_bytes, size_t rows, cusStream stream) {
    if (rows == 1 || (dst_step == row_bytes && src_step == row_bytes))
        return cudaStatus(cudaMemcpyAsync(dst, src, row_bytes * rows, cudaMemcpyDefault, stream), function, "copy");
    return cudaStatus(cudaMemcpy2DAsync(dst, dst_step, src, src_step, row_bytes, rows, cudaMemcpyDefault, stream), function,
                      "copy");
}

cusStatus cusi_deviceCopyWithin(const char *function, const cusMat *src, cusMat *dst, cusStream stream) {
    const size_t row_bytes = cusi_rowBytes(src), rows = static_cast<size_t>(src->rows);
    if (cusi_isContinuous(src) && cusi_isContinuous(dst))
        return cusi_deviceCopy(function, dst->data, row_bytes, src->data, row_bytes, row_bytes, rows, stream);
    const unsigned blocks = static_cast<unsigned>(
        cusi::divUp(row_bytes, size_t{16 * 256}) < 65535 ? cusi::divUp(row_bytes, size_t{16 * 256}) : 65535);
    return cusi::launchOverlapped(
        function, cusi::copyRowsKernel, dim3(blocks, rows < 65535 ? static_cast<unsigned>(rows) : 65535), 256, 0, stream,
        static_cast<unsigned char *>(dst->data), dst->step, static_cast<const unsigned char *>(src->data), src->step,
        row_bytes, rows, cusi::isAligned(*src, 16) && cusi::isAligned(*dst, 16));
}

cusStatus cusi_deviceZero(const char *function, void *dst, size_t step, size_t row_bytes, size_t rows, cusStream stream) {
    return cudaStatus(cudaMemset2DAsync(dst, step > row_bytes ? step : row_bytes, 0, row_bytes, rows, stream), function,
                      "set to zero");
}

// Ends the stream's work by setting *stop. Uses a copy from host memory, since a kernel might find no free multiprocessor.
static cusStatus stopWork(const char *function, cusStream stream, int *stop) {
    const int one = 1;
    cudaStream_t beside = nullptr;
    CUSI_CUDA(function, cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    const cudaError_t error = cudaMemcpyAsync(stop, &one, sizeof one, cudaMemcpyHostToDevice, beside);
    CUSI_CUDA(function, cudaStreamDestroy(beside));
    CUS_TRY(cudaStatus(error, function, "copy"));
    CUSI_CUDA(function, cudaStreamSynchronize(stream));
    return cudaStatus(cudaMemset(stop, 0, sizeof *stop), function, "set to zero");
}

// Calls the callback until `query` returns something other than "not ready" or the call is cancelled. Calls `wait` if there
// is no callback.
template<class Query, class Wait>
static cusStatus waitAsking(const char *function, Query query, Wait wait) {
    using namespace std::chrono;
    CusiProgress *const progress = cusi_progress();
    if (!progress->callback)
        return cudaStatus(wait(), function, "queued work");
    const auto begin = steady_clock::now();
    while (!cusi_step(progress, 0)) {
        const cudaError_t error = query();
        if (error != cudaErrorNotReady)
            return cudaStatus(error, function, "queued work");
        if (steady_clock::now() - begin > milliseconds(1)) // the delay does not matter for longer work
            std::this_thread::sleep_for(microseconds(50));
    }
    return cusi_proceed(progress);
}

static cusStatus waitForEvent(const char *function, cusStreamEvent event) {
    return waitAsking(
        function, [&] { return cudaEventQuery(event); }, [&] { return cudaEventSynchronize(event); });
}

cusStatus cusi_deviceWait(const char *function, cusStream stream, int *stop) {
    const cusStatus status = waitAsking(
        function, [&] { return cudaStreamQuery(stream); }, [&] { return cudaStreamSynchronize(stream); });
    if (status == CUS_ERROR_CANCELLED && stop)
        CUS_TRY(stopWork(function, stream, stop));
    return status;
}

cusStatus cusi_deviceFinish(const char *function, cusStream stream) {
    return cudaStatus(cudaStreamSynchronize(stream), function, "queued work");
}

cusStatus cusi_deviceWaitToDownload(const char *function, const void *to, cusStream stream) {
    if (!cusi_progress()->callback)
        return CUS_OK;
    cudaPointerAttributes attributes = {};
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const bool waits =
        cudaPointerGetAttributes(&attributes, to) != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered;
    const bool asks = cudaStreamIsCapturing(stream, &capture) == cudaSuccess && capture == cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    return waits && asks ? cusi_deviceWait(function, stream, nullptr) : CUS_OK;
}

cusStatus cusStreamCreate(cusStream *stream) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamCreate", stream);
    return cudaStatus(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cusStreamCreate", "cudaStreamCreate");
}

void cusStreamDestroy(cusStream stream) {
    CUSI_TRACE;
    if (stream)
        (void)cudaStreamDestroy(stream);
}

cusStatus cusStreamSynchronize(cusStream stream) {
    CUSI_TRACE;
    CUS_TRY(cusi_refuseCapture("cusStreamSynchronize", stream, "the call waits for it"));
    return CUSI_LONG("cusStreamSynchronize", cusi_deviceWait("cusStreamSynchronize", stream, nullptr));
}

cusStatus cusStreamWaitEvent(cusStream stream, cusStreamEvent event) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamWaitEvent", event);
    return cudaStatus(cudaStreamWaitEvent(stream, event, 0), "cusStreamWaitEvent", "cudaStreamWaitEvent");
}

cusStatus cusStreamEventCreate(cusStreamEvent *event) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamEventCreate", event);
    return cudaStatus(cudaEventCreate(event), "cusStreamEventCreate", "cudaEventCreate");
}

void cusStreamEventDestroy(cusStreamEvent event) {
    CUSI_TRACE;
    if (event)
        (void)cudaEventDestroy(event);
}

cusStatus cusStreamEventRecord(cusStreamEvent event, cusStream stream) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamEventRecord", event);
    return cudaStatus(cudaEventRecord(event, stream), "cusStreamEventRecord", "cudaEventRecord");
}

cusStatus cusStreamEventSynchronize(cusStreamEvent event) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamEventSynchronize", event);
    return CUSI_LONG("cusStreamEventSynchronize", waitForEvent("cusStreamEventSynchronize", event));
}

cusStatus cusStreamEventElapsed(cusStreamEvent start, cusStreamEvent stop, float *milliseconds) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusStreamEventElapsed", start);
    CUSI_NOT_NULL("cusStreamEventElapsed", stop);
    CUSI_NOT_NULL("cusStreamEventElapsed", milliseconds);
    CUS_TRY(CUSI_LONG("cusStreamEventElapsed", waitForEvent("cusStreamEventElapsed", stop)));
    return cudaStatus(cudaEventElapsedTime(milliseconds, start, stop), "cusStreamEventElapsed", "cudaEventElapsedTime");
}

cusStatus cusDeviceCount(int *count) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDeviceCount", count);
    if (cudaGetDeviceCount(count) != cudaSuccess) {
        (void)cudaGetLastError();
        *count = 0;
    }
    return CUS_OK;
}

// Checks the number of a device. CUDA would only say "invalid device ordinal".
static cusStatus checkDevice(const char *function, int device) {
    int count = 0;
    CUS_TRY(cusDeviceCount(&count));
    CUSI_REQUIRE(count > 0, CUS_ERROR_NO_CUDA, "%s: no CUDA device or driver found", function);
    CUSI_REQUIRE(device >= 0 && device < count, CUS_ERROR_VALUE, "%s: device is %d, expected 0..%d", function, device,
                 count - 1);
    return CUS_OK;
}

cusStatus cusDeviceSet(int device) {
    CUSI_TRACE;
    CUS_TRY(checkDevice("cusDeviceSet", device));
    return cudaStatus(cudaSetDevice(device), "cusDeviceSet", "cudaSetDevice");
}

cusStatus cusDeviceGet(int *device) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDeviceGet", device);
    return cudaStatus(cudaGetDevice(device), "cusDeviceGet", "cudaGetDevice");
}

cusStatus cusDeviceQuery(int device, cusDeviceInfo *info) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusDeviceQuery", info);
    memset(info, 0, sizeof *info);
    CUS_TRY(checkDevice("cusDeviceQuery", device));
    cudaDeviceProp properties;
    CUSI_CUDA("cusDeviceQuery", cudaGetDeviceProperties(&properties, device));
    snprintf(info->name, sizeof info->name, "%s", properties.name);
    info->major = properties.major;
    info->minor = properties.minor;
    info->multiprocessors = properties.multiProcessorCount;
    info->l2_bytes = static_cast<size_t>(properties.l2CacheSize);
    info->shared_bytes = properties.sharedMemPerBlockOptin;
    info->memory_total = properties.totalGlobalMem;
    CUSI_CUDA("cusDeviceQuery", cudaDriverGetVersion(&info->driver_version));
    CUSI_CUDA("cusDeviceQuery", cudaRuntimeGetVersion(&info->runtime_version));
    int previous = 0;
    CUSI_CUDA("cusDeviceQuery", cudaGetDevice(&previous));
    CUSI_CUDA("cusDeviceQuery", cudaSetDevice(device));
    size_t total = 0;
    const cusStatus status = cudaStatus(cudaMemGetInfo(&info->memory_free, &total), "cusDeviceQuery", "cudaMemGetInfo");
    CUSI_CUDA("cusDeviceQuery", cudaSetDevice(previous));
    return status;
}
