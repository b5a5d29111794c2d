/* cusight/dlpack.h: matrices as DLPack tensors and back, without copying: for PyTorch, CuPy, JAX, NumPy, TVM and others.
 *
 * A matrix of one channel is a tensor of shape (rows, cols), one of several channels is (rows, cols, channels). Strides
 * count elements of one channel; rows may be padded, columns and channels are contiguous.
 *
 * | cusMat                          | DLPack                                  |
 * | 8U, 16U                         | kDLUInt, 8 or 16 bits                   |
 * | 8S, 16S, 32S                    | kDLInt, 8, 16 or 32 bits                |
 * | 16F, 32F, 64F                   | kDLFloat, 16, 32 or 64 bits             |
 * | CUS_HOST, pinned or not         | kDLCPU; accepted too: kDLCUDAHost       |
 * | CUS_DEVICE                      | kDLCUDA; accepted too: kDLCUDAManaged   |
 *
 * No call waits for a stream: make the consumer's stream wait for the producer's (cusStreamWaitEvent).
 *
 * DLPack's structures are defined here, as in version 1.1, unless <dlpack/dlpack.h> was included before; include it first
 * if you need more of it. cusight.h does not include this header.
 */
#ifndef CUSIGHT_DLPACK_H
#define CUSIGHT_DLPACK_H

#include "core.h"

/* ---- DLPack's structures --------------------------------------------------------------------------------------------- */

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_       /* the guard of dlpack.h */
#define CUSIGHT_DEFINES_DLPACK /* DLPack's structures are those of this header */

/* Where the data is. */
typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /* page-locked host memory */
    kDLOpenCL = 4,
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16,
    kDLMAIA = 17
} DLDeviceType;

/* A device. */
typedef struct {
    DLDeviceType device_type; /* its kind */
    int32_t device_id;        /* 0 for host memory */
} DLDevice;

/* What an element is. */
typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6
} DLDataTypeCode;

/* The type of an element. */
typedef struct {
    uint8_t code;   /* a DLDataTypeCode */
    uint8_t bits;   /* bits of one lane */
    uint16_t lanes; /* 1, unless elements are vectors */
} DLDataType;

/* An array, which owns nothing. */
typedef struct {
    void *data;           /* its memory */
    DLDevice device;      /* where the memory is */
    int32_t ndim;         /* dimensions */
    DLDataType dtype;     /* type of the elements */
    int64_t *shape;       /* ndim sizes */
    int64_t *strides;     /* in elements; NULL: contiguous, last dimension fastest */
    uint64_t byte_offset; /* from data to the first element */
} DLTensor;

/* The form before DLPack 1.0. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;                            /* the array */
    void *manager_ctx;                             /* what the deleter needs */
    void (*deleter)(struct DLManagedTensor *self); /* ends the tensor's life; may be NULL */
} DLManagedTensor;

#endif /* DLPACK_DLPACK_H_ */

#ifndef DLPACK_MAJOR_VERSION   /* not defined by an older dlpack.h either */
#define DLPACK_MAJOR_VERSION 1 /* version of the structures below */
#define DLPACK_MINOR_VERSION 1 /* the same */

/* The version of a tensor's structure. */
typedef struct {
    uint32_t major, minor; /* tensors of another major version are refused */
} DLPackVersion;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0) /* must not be written */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1) /* made by copying */

/* An array with an owner. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;                                  /* version of this structure */
    void *manager_ctx;                                      /* what the deleter needs */
    void (*deleter)(struct DLManagedTensorVersioned *self); /* ends the tensor's life; may be NULL */
    uint64_t flags;                                         /* DLPACK_FLAG_BITMASK_... */
    DLTensor dl_tensor;                                     /* the array */
} DLManagedTensorVersioned;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Conversion ------------------------------------------------------------------------------------------------------ */

/* What the receiver of a tensor may do. */
typedef enum cusDlpackAccess {
    CUS_DLPACK_READ = 0, /* the receiver only reads the data */
    CUS_DLPACK_WRITE = 1 /* the receiver may write too */
} cusDlpackAccess;

/* Makes a tensor of `mat`. The tensor takes over what `mat` owns: `mat` becomes a view of the same data, valid until the
 * tensor's deleter is called. If `mat` owns nothing (it was wrapped, or is a region), the tensor is a view too: keep the
 * memory valid until then, and pass `release` to be told; it is called once with `context`, by the thread that calls the
 * deleter, after what the tensor owned is freed. release: NULL if not needed.
 * access: with CUS_DLPACK_READ, the tensor is marked as read-only.
 * The tensor never depends on `mat` itself. Its device id is that of the GPU that holds the data. The deleter frees device
 * memory as cusMatRelease does. Errors, which leave `mat` unchanged and set *tensor to NULL: NULL, TYPE, SPACE, SIZE, VALUE
 * (a step that is not a multiple of a channel's size), NO_MEMORY, CUDA. */
CUS_API cusStatus cusMatToDlpack(cusMat *mat, cusDlpackAccess access, void (*release)(void *context), void *context,
                                 DLManagedTensorVersioned **tensor);

/* Makes `mat` a matrix of the tensor's data and of its size and type. `mat` then owns the tensor: cusMatRelease(mat), or a
 * call that gives `mat` other memory, calls the tensor's deleter. Regions of `mat` are views, as of any matrix. What `mat`
 * owned before is released.
 * Accepted: 1 to 3 dimensions (cols), (rows, cols) or (rows, cols, channels) with up to 512 channels; elements as in the
 * table above with 1 lane; contiguous columns and channels; rows that do not overlap, at any distance.
 * access: CUS_DLPACK_WRITE if you or a function of this library will write to `mat`; a read-only tensor is then refused.
 * Errors, after which the tensor still belongs to the caller: NULL (also a tensor without data), VALUE (read-only,
 * misaligned, unknown device), TYPE, SIZE (dimensions, strides), SPACE (memory that is neither the host's nor CUDA's),
 * NO_CUDA, UNSUPPORTED (another major version of DLPack: only its deleter may be called). */
CUS_API cusStatus cusMatFromDlpack(DLManagedTensorVersioned *tensor, cusDlpackAccess access, cusMat *mat);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_DLPACK_H */
