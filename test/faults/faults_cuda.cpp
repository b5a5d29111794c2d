// The CUDA runtime and cuFFT: calls that fail, and a simulation of both in host memory for machines without a GPU.
#include "interpose.hpp"

using namespace faults;

#ifndef CUSIGHT_HAVE_CUDA

bool faults::builtWithCuda() {
    return false;
}
void faults::simulateCuda(bool) {}
bool faults::simulatingCuda() {
    return false;
}
bool faults::cudaErrorPending() {
    return false;
}
void *faults::deviceBlock(size_t) {
    return nullptr;
}
void faults::freeDeviceBlock(void *) {}
int faults::cudaAllocations() {
    return 0;
}
bool faults::deviceHasWork() {
    return false;
}

#else

#include <cuda_runtime_api.h>
#include <cufft.h>
#include <dlfcn.h>

#include <cstring>

namespace {

constexpr size_t LARGE =
    1 << 16; // the simulation sets no more than this: kernels do nothing, and its memory begins as zeros
bool simulating = false;
int allocations = 0;
bool has_work = false; // in the NULL stream, since somebody waited
cudaError_t pending = cudaSuccess;

template<class T>
uintptr_t handleOf(T handle) {
    return (uintptr_t)handle;
}

// One call: an injected failure, the simulation, or the runtime.
template<class Simulated, class Real>
cudaError_t run(const char *function, Class memory, Simulated &&simulated, Real &&real) {
    if (memory != NONE && strikes(memory, function))
        return pending = cudaErrorMemoryAllocation;
    if (strikes(CUDA, function))
        return pending = cudaErrorUnknown;
    if (strikes(NO_DEVICE, function))
        return pending = cudaErrorNoDevice;
    return simulating ? simulated() : real();
}

// A call that only has to succeed in the simulation.
#define CUDA_CALL(function, parameters, arguments, ...)   \
    extern "C" cudaError_t faulty_##function parameters { \
        return run(                                       \
            #function, NONE,                              \
            [&]() -> cudaError_t {                        \
                __VA_ARGS__;                              \
                return cudaSuccess;                       \
            },                                            \
            [&] { return function arguments; });          \
    }

template<class Real>
cudaError_t allocate(const char *function, Class memory, Resource resource, void **p, size_t bytes, Real &&real) {
    const cudaError_t error = run(
        function, memory,
        [&] {
            *p = std::calloc(bytes + 256, 1);
            return *p ? cudaSuccess : cudaErrorMemoryAllocation;
        },
        real);
    if (error == cudaSuccess)
        take(resource, handleOf(*p));
    allocations += resource == DEVICE_BLOCK;
    return error;
}

// Freeing happens even if the call fails, as it may report an earlier error.
template<class Real>
cudaError_t release(const char *function, Resource resource, void *p, Real &&real) {
    if (p)
        give(resource, handleOf(p));
    const cudaError_t done = simulating ? (std::free(p), cudaSuccess) : real();
    if (strikes(CUDA, function))
        return cudaErrorUnknown;
    return strikes(NO_DEVICE, function) ? cudaErrorNoDevice : done;
}

void copyRows(void *dst, size_t dst_step, const void *src, size_t src_step, size_t bytes, size_t rows) {
    for (size_t y = 0; y < rows; ++y)
        std::memmove(static_cast<char *>(dst) + y * dst_step, static_cast<const char *>(src) + y * src_step, bytes);
}

int attribute(cudaDeviceAttr which) {
    switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
        return 9;
    case cudaDevAttrComputeCapabilityMinor:
        return 0;
    case cudaDevAttrMultiProcessorCount:
        return 132;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return 228 << 10;
    case cudaDevAttrL2CacheSize:
        return 50 << 20;
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
        return 1;
    default:
        return 1024;
    }
}

} // namespace

bool faults::builtWithCuda() {
    return true;
}
void faults::simulateCuda(bool on) {
    simulating = on;
    pending = cudaSuccess;
}
bool faults::simulatingCuda() {
    return simulating;
}
void *faults::deviceBlock(size_t bytes) {
    void *data = nullptr;
    if (simulating) { // from calloc, whose zeros of large blocks cost nothing; its address is kept in front
        auto *const base = static_cast<char *>(std::calloc(bytes + 512, 1));
        if (!base)
            return nullptr;
        char *const aligned = base + 512 - handleOf(base) % 256;
        std::memcpy(aligned - sizeof base, &base, sizeof base);
        return aligned;
    }
    return cudaMalloc(&data, bytes) == cudaSuccess ? data : nullptr;
}
void faults::freeDeviceBlock(void *data) {
    if (!simulating) {
        (void)cudaFree(data);
        return;
    }
    void *base = nullptr;
    std::memcpy(&base, static_cast<char *>(data) - sizeof base, sizeof base);
    std::free(base);
}
int faults::cudaAllocations() {
    return allocations;
}
bool faults::deviceHasWork() {
    return simulating && has_work;
}
bool faults::cudaErrorPending() {
    return pending != cudaSuccess || (!simulating && support::haveGpu() && cudaPeekAtLastError() != cudaSuccess);
}

extern "C" {
cudaError_t faulty_cudaGetLastError(void) {
    const cudaError_t error = pending;
    pending = cudaSuccess;
    return error != cudaSuccess || simulating ? error : cudaGetLastError();
}
cudaError_t faulty_cudaMalloc(void **p, size_t n) {
    return allocate("cudaMalloc", DEVICE_MEMORY, DEVICE_BLOCK, p, n, [=] { return cudaMalloc(p, n); });
}
cudaError_t faulty_cudaMallocAsync(void **p, size_t n, cudaStream_t stream) {
    return allocate("cudaMallocAsync", DEVICE_MEMORY, DEVICE_BLOCK, p, n, [=] { return cudaMallocAsync(p, n, stream); });
}
cudaError_t faulty_cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
    const size_t step = (width + 511) / 512 * 512;
    const cudaError_t error = allocate("cudaMallocPitch", DEVICE_MEMORY, DEVICE_BLOCK, p, step * height,
                                       [=] { return cudaMallocPitch(p, pitch, width, height); });
    if (error == cudaSuccess && simulating)
        *pitch = step;
    return error;
}
cudaError_t faulty_cudaMallocHost(void **p, size_t n) {
    return allocate("cudaMallocHost", PINNED_MEMORY, PINNED_BLOCK, p, n, [=] { return cudaMallocHost(p, n); });
}
cudaError_t faulty_cudaFree(void *p) {
    return release("cudaFree", DEVICE_BLOCK, p, [=] { return cudaFree(p); });
}
cudaError_t faulty_cudaFreeAsync(void *p, cudaStream_t stream) {
    return release("cudaFreeAsync", DEVICE_BLOCK, p, [=] { return cudaFreeAsync(p, stream); });
}
cudaError_t faulty_cudaFreeHost(void *p) {
    return release("cudaFreeHost", PINNED_BLOCK, p, [=] { return cudaFreeHost(p); });
}
cudaError_t faulty_cudaHostRegister(void *p, size_t n, unsigned flags) {
    const cudaError_t error = run(
        "cudaHostRegister", PINNED_MEMORY, [] { return cudaSuccess; }, [=] { return cudaHostRegister(p, n, flags); });
    if (error == cudaSuccess)
        take(PINNED_BLOCK, handleOf(p));
    return error;
}
cudaError_t faulty_cudaHostUnregister(void *p) {
    give(PINNED_BLOCK, handleOf(p));
    const cudaError_t error = simulating ? cudaSuccess : cudaHostUnregister(p);
    return strikes(CUDA, "cudaHostUnregister") ? cudaErrorUnknown : error;
}

// Streams and events.
cudaError_t faulty_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return allocate("cudaStreamCreateWithFlags", NONE, STREAM, reinterpret_cast<void **>(stream), 1,
                    [=] { return cudaStreamCreateWithFlags(stream, flags); });
}
cudaError_t faulty_cudaStreamDestroy(cudaStream_t stream) {
    return release("cudaStreamDestroy", STREAM, stream, [=] { return cudaStreamDestroy(stream); });
}
cudaError_t faulty_cudaEventCreate(cudaEvent_t *event) {
    return allocate("cudaEventCreate", NONE, STREAM_EVENT, reinterpret_cast<void **>(event), 1,
                    [=] { return cudaEventCreate(event); });
}
cudaError_t faulty_cudaEventDestroy(cudaEvent_t event) {
    return release("cudaEventDestroy", STREAM_EVENT, event, [=] { return cudaEventDestroy(event); });
}
} // extern "C"

extern "C" cudaError_t faulty_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return allocate("cudaEventCreateWithFlags", NONE, STREAM_EVENT, reinterpret_cast<void **>(event), 1,
                    [=] { return cudaEventCreateWithFlags(event, flags); });
}
CUDA_CALL(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (mode), )
#if CUDART_VERSION >= 13000
CUDA_CALL(cudaStreamGetCaptureInfo,
          (cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
           const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count),
          (s, status, id, graph, nodes, edges, count), *status = cudaStreamCaptureStatusNone)
#else
CUDA_CALL(cudaStreamGetCaptureInfo_v2,
          (cudaStream_t s, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
           const cudaGraphNode_t **nodes, size_t *count),
          (s, status, id, graph, nodes, count), *status = cudaStreamCaptureStatusNone)
#endif
#if CUDART_VERSION >= 12050
CUDA_CALL(cudaGetDriverEntryPointByVersion,
          (const char *name, void **function, unsigned version, unsigned long long flags,
           cudaDriverEntryPointQueryResult *found),
          (name, function, version, flags, found), *function = nullptr)
#endif
CUDA_CALL(cudaStreamGetId, (cudaStream_t s, unsigned long long *id), (s, id), *id = handleOf(s))
#if CUDART_VERSION >= 12080
CUDA_CALL(cudaStreamGetDevice, (cudaStream_t s, int *device), (s, device), *device = 0)
#endif
CUDA_CALL(cudaStreamSynchronize, (cudaStream_t s), (s), has_work = false)
CUDA_CALL(cudaStreamQuery, (cudaStream_t s), (s), )
CUDA_CALL(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), (s, e, flags), )
CUDA_CALL(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), (e, s), )
CUDA_CALL(cudaEventSynchronize, (cudaEvent_t e), (e), has_work = false)
CUDA_CALL(cudaEventQuery, (cudaEvent_t e), (e), )
CUDA_CALL(cudaEventElapsedTime, (float *ms, cudaEvent_t a, cudaEvent_t b), (ms, a, b), *ms = 1)
CUDA_CALL(cudaDeviceSynchronize, (void), (), has_work = false)
CUDA_CALL(cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus *status), (s, status),
          *status = cudaStreamCaptureStatusNone)
CUDA_CALL(cudaGetDevice, (int *device), (device), *device = 0)
CUDA_CALL(cudaSetDevice, (int device), (device), )
CUDA_CALL(cudaGetDeviceCount, (int *count), (count), *count = 1)
CUDA_CALL(cudaDeviceGetAttribute, (int *value, cudaDeviceAttr which, int device), (value, which, device),
          *value = attribute(which))
CUDA_CALL(cudaDriverGetVersion, (int *version), (version), *version = CUDART_VERSION)
CUDA_CALL(cudaRuntimeGetVersion, (int *version), (version), *version = CUDART_VERSION)
CUDA_CALL(cudaGetDeviceProperties, (cudaDeviceProp * p, int device), (p, device), std::memset(p, 0, sizeof *p))
CUDA_CALL(cudaMemGetInfo, (size_t * left, size_t *total), (left, total), *left = *total = size_t{1} << 36)
CUDA_CALL(cudaFuncSetAttribute, (const void *f, cudaFuncAttribute which, int value), (f, which, value), )
CUDA_CALL(cudaFuncGetAttributes, (cudaFuncAttributes * a, const void *f), (a, f), std::memset(a, 0, sizeof *a),
          a->binaryVersion = 90, a->maxThreadsPerBlock = 1024, a->numRegs = 64)
CUDA_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          (int *blocks, const void *f, int threads, size_t shared, unsigned flags), (blocks, f, threads, shared, flags),
          *blocks = 2)
CUDA_CALL(cudaOccupancyMaxPotentialClusterSize, (int *blocks, const void *f, const cudaLaunchConfig_t *config),
          (blocks, f, config), *blocks = 8)
CUDA_CALL(cudaPointerGetAttributes, (cudaPointerAttributes * a, const void *p), (a, p), std::memset(a, 0, sizeof *a),
          a->type = holds(DEVICE_BLOCK, handleOf(p))   ? cudaMemoryTypeDevice
                    : holds(PINNED_BLOCK, handleOf(p)) ? cudaMemoryTypeHost
                                                       : cudaMemoryTypeUnregistered,
          a->devicePointer = const_cast<void *>(p))
CUDA_CALL(cudaMemcpy, (void *dst, const void *src, size_t n, cudaMemcpyKind kind), (dst, src, n, kind),
          std::memmove(dst, src, n))
CUDA_CALL(cudaMemcpyAsync, (void *dst, const void *src, size_t n, cudaMemcpyKind kind, cudaStream_t s),
          (dst, src, n, kind, s), std::memmove(dst, src, n), has_work |= s == nullptr)
CUDA_CALL(cudaMemcpy2DAsync,
          (void *dst, size_t dst_step, const void *src, size_t src_step, size_t w, size_t h, cudaMemcpyKind kind,
           cudaStream_t s),
          (dst, dst_step, src, src_step, w, h, kind, s), copyRows(dst, dst_step, src, src_step, w, h),
          has_work |= s == nullptr)
CUDA_CALL(cudaMemset, (void *p, int value, size_t n), (p, value, n), std::memset(p, value, n < LARGE ? n : LARGE))
CUDA_CALL(cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t s), (p, value, n, s),
          std::memset(p, value, n < LARGE ? n : LARGE), has_work |= s == nullptr)
CUDA_CALL(cudaMemset2DAsync, (void *p, size_t step, int value, size_t w, size_t h, cudaStream_t s),
          (p, step, value, w, h, s), has_work |= s == nullptr;
          for (size_t y = 0; y < h; ++y) std::memset(static_cast<char *>(p) + y * step, value, w))
CUDA_CALL(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *kernel, void **args), (config, kernel, args),
          has_work |= config->stream == nullptr)
CUDA_CALL(cudaLaunchCooperativeKernel,
          (const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s),
          (kernel, grid, block, args, shared, s), has_work |= s == nullptr)

// ---- cuFFT, which the library opens itself: dlsym gives it these.

namespace {

struct RealCufft {
    decltype(&cufftCreate) create;
    decltype(&cufftDestroy) destroy;
    decltype(&cufftMakePlanMany64) many;
    decltype(&cufftSetAutoAllocation) automatic;
    decltype(&cufftSetWorkArea) area;
    decltype(&cufftSetStream) stream;
    decltype(&cufftExecR2C) r2c;
    decltype(&cufftExecC2R) c2r;
    decltype(&cufftExecD2Z) d2z;
    decltype(&cufftExecZ2D) z2d;
} real_cufft;
int simulated_plans = 0;
int simulated_library;

template<class Real>
cufftResult fft(const char *function, Real &&real) {
    if (strikes(CUFFT, function))
        return CUFFT_EXEC_FAILED;
    return simulating ? CUFFT_SUCCESS : real();
}

// A plan that is only named, or named and made.
template<class Real>
cufftResult newPlan(const char *function, cufftHandle *plan, Real &&real) {
    if (strikes(DEVICE_MEMORY, function))
        return CUFFT_ALLOC_FAILED;
    const cufftResult result = fft(function, real);
    if (result != CUFFT_SUCCESS)
        return result;
    if (simulating)
        *plan = ++simulated_plans;
    take(FFT_PLAN, static_cast<uintptr_t>(*plan));
    return result;
}
cufftResult create(cufftHandle *plan) {
    return newPlan("cufftCreate", plan, [=] { return real_cufft.create(plan); });
}
cufftResult destroy(cufftHandle plan) {
    give(FFT_PLAN, static_cast<uintptr_t>(plan));
    const cufftResult done = simulating ? CUFFT_SUCCESS : real_cufft.destroy(plan);
    return strikes(CUFFT, "cufftDestroy") ? CUFFT_INTERNAL_ERROR : done;
}
cufftResult many(cufftHandle plan, int rank, long long *n, long long *in, long long in_stride, long long in_distance,
                 long long *out, long long out_stride, long long out_distance, cufftType type, long long batch,
                 size_t *work) {
    if (strikes(DEVICE_MEMORY, "cufftMakePlanMany64"))
        return CUFFT_ALLOC_FAILED;
    if (simulating)
        *work = 4096;
    return fft("cufftMakePlanMany64", [=] {
        return real_cufft.many(plan, rank, n, in, in_stride, in_distance, out, out_stride, out_distance, type, batch, work);
    });
}
cufftResult automatic(cufftHandle plan, int on) {
    return fft("cufftSetAutoAllocation", [=] { return real_cufft.automatic(plan, on); });
}
cufftResult area(cufftHandle plan, void *memory) {
    return fft("cufftSetWorkArea", [=] { return real_cufft.area(plan, memory); });
}
cufftResult setStream(cufftHandle plan, cudaStream_t stream) {
    return fft("cufftSetStream", [=] { return real_cufft.stream(plan, stream); });
}
cufftResult r2c(cufftHandle plan, cufftReal *in, cufftComplex *out) {
    return fft("cufftExecR2C", [=] { return real_cufft.r2c(plan, in, out); });
}
cufftResult c2r(cufftHandle plan, cufftComplex *in, cufftReal *out) {
    return fft("cufftExecC2R", [=] { return real_cufft.c2r(plan, in, out); });
}
cufftResult d2z(cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out) {
    return fft("cufftExecD2Z", [=] { return real_cufft.d2z(plan, in, out); });
}
cufftResult z2d(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out) {
    return fft("cufftExecZ2D", [=] { return real_cufft.z2d(plan, in, out); });
}

struct Symbol {
    const char *name;
    void *ours;
    void **real;
};
#define SYMBOL(name, ours, real) \
    { name, reinterpret_cast<void *>(&(ours)), reinterpret_cast<void **>(&real_cufft.real) }
const Symbol symbols[] = {SYMBOL("cufftCreate", create, create),     SYMBOL("cufftDestroy", destroy, destroy),
                          SYMBOL("cufftMakePlanMany64", many, many), SYMBOL("cufftSetAutoAllocation", automatic, automatic),
                          SYMBOL("cufftSetWorkArea", area, area),    SYMBOL("cufftSetStream", setStream, stream),
                          SYMBOL("cufftExecR2C", r2c, r2c),          SYMBOL("cufftExecC2R", c2r, c2r),
                          SYMBOL("cufftExecD2Z", d2z, d2z),          SYMBOL("cufftExecZ2D", z2d, z2d)};

} // namespace

extern "C" {
void *faulty_dlopen(const char *path, int mode) {
    if (strikes(LOADER, "dlopen"))
        return dlopen("libcufft-that-is-not-there.so", mode); // sets what dlerror says
    return simulating ? &simulated_library : dlopen(path, mode);
}
void *faulty_dlsym(void *library, const char *name) {
    if (strikes(LOADER, "dlsym"))
        return nullptr;
    for (const Symbol &s : symbols)
        if (std::strcmp(s.name, name) == 0) {
            *s.real = simulating ? nullptr : dlsym(library, name);
            return simulating || *s.real ? s.ours : nullptr;
        }
    return nullptr;
}
int faulty_dlclose(void *library) {
    return library == &simulated_library ? 0 : dlclose(library);
}
} // extern "C"

#endif
