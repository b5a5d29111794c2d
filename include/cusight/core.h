/* cusight/core.h: status codes, matrices, streams, stream events and devices.
 *
 * Thread contract. Every function may be called from any thread. The error message is kept per thread. The library has no
 * global state but the device allocator: threads may work at the same time unless they write the same matrix or use the
 * same object. A call on an object that another call is using is refused with CUS_ERROR_BUSY: waiting would hide a mistake,
 * and the results of two callers would mix. Destroying an object that is in use is not detected.
 *
 * An object on the device may move between streams: a call first makes its stream wait for the object's work in other
 * streams, without blocking the host. That takes a moment on the device, so use one object per stream where speed matters.
 * In a capture (cudaStreamBeginCapture) the streams of that capture are ordered in the same way, but when the graph runs,
 * the order of its objects' other work is up to the program.
 *
 * Where the data lives decides where the work runs. Matrices in CUS_HOST memory are processed by the CPU; the result is
 * ready when the call returns, and the stream argument is ignored. Matrices in CUS_DEVICE memory are processed by the
 * current CUDA device: the work is queued in the given stream, and the call does not wait for it. Mixing spaces in one call
 * is an error, and so is a matrix, object or stream that belongs to another device than the current one (CUS_ERROR_SPACE;
 * streams with CUDA 12.8 or later).
 * Calls that wait for a stream cannot be captured into a graph and say so (docs/memory-and-streams.md lists all calls).
 *
 * Options. Start from what the ...Defaults function returns and change what you want. Options that switch something on are
 * 0 or 1, and numbers are finite, unless they say otherwise. Structs that may grow end in `reserved`, which must be 0: a
 * later version may use it for options, and a program that was built for this version then still works. A call refuses
 * other values with CUS_ERROR_VALUE.
 */
#ifndef CUSIGHT_CORE_H
#define CUSIGHT_CORE_H

#include <stddef.h>
#include <stdint.h>

/* The version of these headers; cusVersion() is that of the library that runs. */
#define CUSIGHT_VERSION_MAJOR 0
/* Before 1.0, another minor version may change the interface. */
#define CUSIGHT_VERSION_MINOR 3
/* Counts compatible corrections. */
#define CUSIGHT_VERSION_PATCH 0

/* Marks an exported function. */
#if defined(_WIN32)
#define CUS_API
#else
#define CUS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------------------------------- */

/* Every call returns a status. Anything but CUS_OK means that the call was rejected and changed nothing, unless the
 * function says otherwise; cusLastError() then names the function, the argument, its value and what was expected. As in
 * CUDA, asynchronous errors are reported by the next call that synchronizes with the stream. */
typedef enum cusStatus {
    CUS_OK = 0,
    CUS_ERROR_NULL = 1,         /* a required pointer is NULL, or a matrix is empty */
    CUS_ERROR_VALUE = 2,        /* a number or option is out of range */
    CUS_ERROR_TYPE = 3,         /* the function does not accept this element type */
    CUS_ERROR_SIZE = 4,         /* a matrix has the wrong size or exceeds a stated limit */
    CUS_ERROR_SPACE = 5,        /* host and device matrices are mixed, or in the wrong space */
    CUS_ERROR_ALIAS = 6,        /* matrices overlap where they must not */
    CUS_ERROR_CAPACITY = 7,     /* an output of fixed size is too small for the result */
    CUS_ERROR_NO_MEMORY = 8,    /* host or device memory is exhausted */
    CUS_ERROR_NO_CUDA = 9,      /* device work requested, but no CUDA support, GPU or driver */
    CUS_ERROR_CUDA = 10,        /* another CUDA error; the message quotes it */
    CUS_ERROR_IO = 11,          /* a file, pipe or socket could not be opened, read or written */
    CUS_ERROR_FORMAT = 12,      /* the input is malformed or not in the expected format */
    CUS_ERROR_TRUNCATED = 13,   /* the input ends early; everything before that was delivered */
    CUS_ERROR_UNSUPPORTED = 14, /* valid, but not supported: a missing library, or a stream that is being captured */
    CUS_ERROR_BUSY = 15,        /* another call is using the object */
    CUS_ERROR_CANCELLED = 16    /* the callback of cusSetProgress asked for it, or cusEventFramesCancel */
} cusStatus;

/* Returns "CUS_ERROR_TYPE" and so on; never NULL. */
CUS_API const char *cusStatusName(cusStatus status);

/* Returns the message of the calling thread's last failed call, or "" before any failure. Valid until its next failure.
 * Control characters of names, files and peers are written as "\x1b". */
CUS_API const char *cusLastError(void);

/* Returns the version of the library that runs, "0.3.0". CUSIGHT_VERSION_... are those of the headers. */
CUS_API const char *cusVersion(void);

/* What this build contains, one line each: "cusight 0.3.0", then "  NAME: VALUE" for Blosc, zstd, CUDA, OpenMP,
 * compiler, processor and so on ("no" where a part is missing). For people and bug reports; names may change. Never
 * NULL. */
CUS_API const char *cusBuildInformation(void);

/* ---- Progress and cancelling ----------------------------------------------------------------------------------------- */

/* What a long call calls while it works. `done` is the part that is done, 0 to 1, never less than before; seconds_left is
 * an estimate, below 0 if there is none. Returns 0 to go on; anything else makes the call end soon with
 * CUS_ERROR_CANCELLED. At 1 the work is done, and the result is ignored. Must not throw or jump out. It may call this
 * library, but not with an object that the call uses. */
typedef int (*cusProgressCallback)(void *user, double done, double seconds_left);

/* From now on the calling thread's calls that can take more than a second (docs/progress.md lists them) call `callback`
 * about every 50 ms, on this thread, and once more when they have succeeded; shorter calls never do. NULL: no more. After a
 * cancel, objects are as before the call and can be used again, and matrices that the call writes have unspecified
 * contents; docs/progress.md names the exceptions. Costs nothing measurable. Errors: BUSY (within another call of this
 * thread). */
CUS_API cusStatus cusSetProgress(cusProgressCallback callback, void *user);

/* ---- Element types: OpenCV 4's numbers ------------------------------------------------------------------------------- */

/* CUS_16F: IEEE 754 half precision, finite up to 65504. Event frames can have it (events.h). The calls of core.h and
 * dlpack.h and files of frames (eventio.h) take every type; all others refuse 16F with CUS_ERROR_TYPE. */
enum { CUS_8U = 0, CUS_8S = 1, CUS_16U = 2, CUS_16S = 3, CUS_32S = 4, CUS_32F = 5, CUS_64F = 6, CUS_16F = 7 };

#define CUS_MAKETYPE(depth, channels) ((depth) + (((channels)-1) << 3)) /* an element type: depth, 1..512 channels */
#define CUS_DEPTH(type)               ((type)&7)                        /* CUS_8U and so on */
#define CUS_CHANNELS(type)            ((((type) >> 3) & 511) + 1)       /* 1..512 */

enum {
    CUS_8UC1 = CUS_MAKETYPE(CUS_8U, 1),
    CUS_8UC2 = CUS_MAKETYPE(CUS_8U, 2),
    CUS_8UC3 = CUS_MAKETYPE(CUS_8U, 3),
    CUS_8UC4 = CUS_MAKETYPE(CUS_8U, 4),
    CUS_8SC1 = CUS_MAKETYPE(CUS_8S, 1),
    CUS_16UC1 = CUS_MAKETYPE(CUS_16U, 1),
    CUS_16SC1 = CUS_MAKETYPE(CUS_16S, 1),
    CUS_32SC1 = CUS_MAKETYPE(CUS_32S, 1),
    CUS_32SC2 = CUS_MAKETYPE(CUS_32S, 2),
    CUS_32SC3 = CUS_MAKETYPE(CUS_32S, 3),
    CUS_32SC4 = CUS_MAKETYPE(CUS_32S, 4),
    CUS_32FC1 = CUS_MAKETYPE(CUS_32F, 1),
    CUS_32FC2 = CUS_MAKETYPE(CUS_32F, 2),
    CUS_32FC3 = CUS_MAKETYPE(CUS_32F, 3),
    CUS_32FC4 = CUS_MAKETYPE(CUS_32F, 4),
    CUS_64FC1 = CUS_MAKETYPE(CUS_64F, 1),
    CUS_64FC2 = CUS_MAKETYPE(CUS_64F, 2),
    CUS_64FC3 = CUS_MAKETYPE(CUS_64F, 3),
    CUS_64FC4 = CUS_MAKETYPE(CUS_64F, 4)
};

/* Returns the bytes per element, all channels; 0 if the type is invalid. */
CUS_API size_t cusTypeSize(int type);

/* ---- Streams, stream events, devices --------------------------------------------------------------------------------- */

/* cudaStream_t and cudaEvent_t under names that need no CUDA header: pass yours unchanged. NULL is the legacy default
 * stream, as in OpenCV. */
typedef struct CUstream_st *cusStream;
/* A point in a stream's work. */
typedef struct CUevent_st *cusStreamEvent;

/* Creates a stream that does not synchronize with the default stream. Errors: NULL, NO_CUDA, CUDA. */
CUS_API cusStatus cusStreamCreate(cusStream *stream);
/* Does not wait: queued work completes in the background. NULL is ignored. */
CUS_API void cusStreamDestroy(cusStream stream);
/* Waits for everything queued so far and reports its errors. */
CUS_API cusStatus cusStreamSynchronize(cusStream stream);
/* Work queued in `stream` from now on waits for `event` as last recorded. */
CUS_API cusStatus cusStreamWaitEvent(cusStream stream, cusStreamEvent event);

/* Creates an event that also records the time. Errors: NULL, NO_CUDA, CUDA. */
CUS_API cusStatus cusStreamEventCreate(cusStreamEvent *event);
/* NULL is ignored. */
CUS_API void cusStreamEventDestroy(cusStreamEvent event);
/* Makes the event stand for all work queued in `stream` so far. */
CUS_API cusStatus cusStreamEventRecord(cusStreamEvent event, cusStream stream);
/* Waits until that work is done. */
CUS_API cusStatus cusStreamEventSynchronize(cusStreamEvent event);
/* Measures the milliseconds between two recorded events; waits for the second. */
CUS_API cusStatus cusStreamEventElapsed(cusStreamEvent start, cusStreamEvent stop, float *milliseconds);

/* A GPU's properties. */
typedef struct cusDeviceInfo {
    char name[256];       /* such as "NVIDIA H200" */
    int major, minor;     /* compute capability */
    int multiprocessors;  /* streaming multiprocessors */
    size_t l2_bytes;      /* level-2 cache */
    size_t shared_bytes;  /* maximum shared memory per block */
    size_t memory_total;  /* bytes */
    size_t memory_free;   /* bytes, at the time of the call */
    int driver_version;   /* 13000 is CUDA 13.0 */
    int runtime_version;  /* CUDA runtime in this library, in the same form */
    uint64_t reserved[8]; /* 0: for later fields */
} cusDeviceInfo;

/* Counts the usable GPUs; 0, not an error, without a GPU, a driver or CUDA support. */
CUS_API cusStatus cusDeviceCount(int *count);
/* Sets the calling thread's device, as cudaSetDevice does: the program's other CUDA code shares it. */
CUS_API cusStatus cusDeviceSet(int device);
/* Returns the calling thread's device. */
CUS_API cusStatus cusDeviceGet(int *device);
/* Errors: NULL, VALUE (no such device), NO_CUDA, CUDA. */
CUS_API cusStatus cusDeviceQuery(int device, cusDeviceInfo *info);

/* ---- Matrices -------------------------------------------------------------------------------------------------------- */

/* Where a matrix's data is, and so where work on it runs. */
typedef enum cusSpace { CUS_HOST = 0, CUS_DEVICE = 1 } cusSpace;

/* A 2-D array of elements: element (y, x) starts at (char *)data + y * step + x * cusTypeSize(type).
 * Start every matrix as `cusMat m = CUS_MAT_INIT;` (all zero: empty). You may read all fields; if you fill them
 * yourself, leave `owned` and `pinned` zero, and make `data` and `step` multiples of the size of one channel. A copy of the
 * struct is a second view of the same memory: release only one. */
typedef struct cusMat {
    int rows, cols; /* 0 x 0 if empty */
    int type;       /* CUS_8UC3 and so on, OpenCV 4's numbers */
    cusSpace space; /* where data is */
    size_t step;    /* bytes from one row to the next, at least cols * cusTypeSize(type) */
    void *data;     /* the first element; NULL if empty */
    void *owned;    /* private: what cusMatRelease frees; NULL for an empty, wrapped or region matrix */
    int pinned;     /* private: what `owned` is: memory (0), page-locked host memory (1), a DLPack tensor (2) */
} cusMat;

/* Images of a call that takes an array of them, such as cusRemapBatch. */
enum { CUS_MAX_BATCH = 1024 };

/* An empty matrix. */
#ifdef __cplusplus
#define CUS_MAT_INIT \
    {}
#else
#define CUS_MAT_INIT \
    { 0, 0, 0, CUS_HOST, 0, NULL, NULL, 0 }
#endif

/* Makes `mat` rows x cols of `type` in `space`. Memory that already fits (same size, type and space, owned or not) is
 * kept; other memory that the matrix owns is released first; a wrapped pointer or region that does not fit is an error.
 * Host rows are contiguous from a 64-byte boundary; device rows have CUDA's pitch. Contents are undefined. rows, cols:
 * at least 1, limited only by memory. Errors: NULL, VALUE, TYPE, SIZE (a wrapped matrix that does not fit), NO_MEMORY,
 * NO_CUDA; after NO_MEMORY the matrix is unchanged. */
CUS_API cusStatus cusMatCreate(cusMat *mat, int rows, int cols, int type, cusSpace space);

/* Does the same in page-locked host memory, which device copies can use asynchronously. cusMatCreate(..., CUS_HOST) on a
 * pinned matrix keeps it pinned. Errors: as above, and NO_CUDA without a GPU. */
CUS_API cusStatus cusMatCreatePinned(cusMat *mat, int rows, int cols, int type);

/* Frees what the matrix owns and makes it empty. Safe on NULL, empty and released matrices. Device memory: synchronizes
 * with the device, like cudaFree. */
CUS_API void cusMatRelease(cusMat *mat);

/* Makes `mat` a view of memory that it does not own. step 0 means rows without padding. data and step must be multiples
 * of the size of one channel. What `mat` owned is released. Errors: NULL, VALUE, TYPE. */
CUS_API cusStatus cusMatWrap(cusMat *mat, int rows, int cols, int type, cusSpace space, void *data, size_t step);

/* Makes `region` a view of the rectangle of `mat` whose first element is (y, x). It must lie inside and not be
 * empty. What `region` owned is released; region == mat is allowed unless mat owns its data (ALIAS). */
CUS_API cusStatus cusMatRegion(const cusMat *mat, int x, int y, int cols, int rows, cusMat *region);

/* Copies between the spaces, or within one (cusMatCopy). `dst` is created as needed. src and dst must not overlap.
 * Device copies are queued in `stream`. With pinned host memory they are asynchronous: do not touch the host side
 * until the stream has completed them. With pageable memory an upload returns when src may be reused, a download when dst
 * is complete. Cost: one pass over the data. Errors: NULL, SPACE, SIZE, ALIAS, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusMatUpload(const cusMat *src, cusMat *dst, cusStream stream);
/* Copies likewise from device to host memory. */
CUS_API cusStatus cusMatDownload(const cusMat *src, cusMat *dst, cusStream stream);
/* Copies likewise within one space. */
CUS_API cusStatus cusMatCopy(const cusMat *src, cusMat *dst, cusStream stream);

/* Sets every byte of every element to zero; padding between rows is untouched. Host: done at return. Device: queued. */
CUS_API cusStatus cusMatSetZero(cusMat *mat, cusStream stream);

/* ---- Device memory --------------------------------------------------------------------------------------------------- */

/* Replaces CUDA as the source of device memory: by RMM's or PyTorch's pool, for example (docs/memory-and-streams.md shows
 * both). The functions are called from any thread, several at a time. They must not throw or call this library. */
typedef struct cusDeviceAllocator {
    /* Returns `bytes` (at least 1) of memory of `device`, the calling thread's current device, aligned to 256 bytes, for
     * work queued in `stream` from now on. NULL if there is none: the call that needs it fails with NO_MEMORY. */
    void *(*allocate)(size_t bytes, int device, cusStream stream, void *user);
    /* Takes back what `allocate` returned for these bytes and this device. Work queued earlier in `stream` may still use
     * it; nothing else does. */
    void (*deallocate)(void *data, size_t bytes, int device, cusStream stream, void *user);
    void *user;           /* passed to both functions; may be NULL */
    uint64_t reserved[8]; /* 0: for later options */
} cusDeviceAllocator;

/* From now on the library takes all device memory, in every thread, from `allocator`, which is copied; NULL: from CUDA
 * again. Each block returns to where it came from. Objects allocate memory only when they are created (a cusPoseMatcher
 * also when it first transforms a pose), so an object or matrix keeps the allocator it was created with: the allocator
 * must outlive them. Matrices and objects may be used in any stream: they are allocated in the default stream, which is
 * waited for, and given back there after a wait for the device. Calls without an object that need a workspace
 * (cusIntegral, cusStereo...) allocate in their stream without waiting; while that is being captured into a graph, CUDA's
 * memory is used. Page-locked host memory, and the little that CUDA and cuFFT keep for themselves, are not affected.
 * Errors: NULL (one of the functions), NO_CUDA (a build without CUDA). */
CUS_API cusStatus cusSetDeviceAllocator(const cusDeviceAllocator *allocator);

/* ---- Errors in one line ---------------------------------------------------------------------------------------------- */

/* Returns the status of a call that failed, in functions that return cusStatus: CUS_TRY(cusMatCreate(&m, ...)); */
#define CUS_TRY(call)                       \
    do {                                    \
        cusStatus cus_try_status_ = (call); \
        if (cus_try_status_ != CUS_OK)      \
            return cus_try_status_;         \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_CORE_H */
