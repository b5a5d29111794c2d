/* Matrices as DLPack tensors and back: see cusight/dlpack.h. */
#include "cusight/dlpack.h"
#include "check.h"

#include <limits.h>
#include <stdlib.h>

#ifdef CUSI_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

/* Indexed by the depth of a cusMat: CUS_8U and so on. */
static const DLDataType TYPES[8] = {{kDLUInt, 8, 1}, {kDLInt, 8, 1},    {kDLUInt, 16, 1},  {kDLInt, 16, 1},
                                    {kDLInt, 32, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLFloat, 16, 1}};

/* ---- To DLPack ------------------------------------------------------------------------------------------------------- */

/* A tensor made here, with everything it points to. */
typedef struct Exported {
    DLManagedTensorVersioned tensor;
    int64_t shape[3], strides[3];
    cusMat mat; /* owns the data, or nothing */
    void (*release)(void *context);
    void *context;
} Exported;

static void deleteExported(DLManagedTensorVersioned *tensor) {
    Exported *exported = tensor->manager_ctx;
    cusMatRelease(&exported->mat);
    if (exported->release)
        exported->release(exported->context);
    free(exported);
}

static cusStatus deviceOf(const cusMat *mat, DLDevice *device) {
    *device = (DLDevice){kDLCPU, 0};
    if (mat->space == CUS_HOST)
        return CUS_OK;
#ifdef CUSI_WITH_CUDA
    struct cudaPointerAttributes attributes;
    const cudaError_t error = cudaPointerGetAttributes(&attributes, mat->data);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return cusi_fail(CUS_ERROR_CUDA, "cusMatToDlpack: cudaPointerGetAttributes: %s (%s)", cudaGetErrorString(error),
                         cudaGetErrorName(error));
    }
    CUSI_REQUIRE(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged, CUS_ERROR_SPACE,
                 "cusMatToDlpack: mat is in CUS_DEVICE, but CUDA does not know its data as device memory");
    *device = (DLDevice){kDLCUDA, attributes.device};
    return CUS_OK;
#else
    return cusi_noCuda("cusMatToDlpack");
#endif
}

static cusStatus checkAccess(const char *function, cusDlpackAccess access) {
    CUSI_REQUIRE(access == CUS_DLPACK_READ || access == CUS_DLPACK_WRITE, CUS_ERROR_VALUE,
                 "%s: access is %d, expected CUS_DLPACK_READ or CUS_DLPACK_WRITE", function, (int)access);
    return CUS_OK;
}

cusStatus cusMatToDlpack(cusMat *mat, cusDlpackAccess access, void (*release)(void *context), void *context,
                         DLManagedTensorVersioned **tensor) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusMatToDlpack", tensor);
    *tensor = NULL;
    CUS_TRY(cusi_checkFields("cusMatToDlpack", "mat", mat));
    CUS_TRY(checkAccess("cusMatToDlpack", access));
    const int channels = CUS_CHANNELS(mat->type);
    const size_t unit = cusTypeSize(mat->type) / (size_t)channels;
    const size_t step = mat->rows > 1 ? mat->step : cusi_rowBytes(mat);
    CUSI_REQUIRE(step % unit == 0, CUS_ERROR_VALUE,
                 "cusMatToDlpack: mat has a step of %zu bytes, expected a multiple of %zu", step, unit);
    DLDevice device;
    CUS_TRY(deviceOf(mat, &device));
    Exported *exported = malloc(sizeof *exported);
    CUSI_REQUIRE(exported, CUS_ERROR_NO_MEMORY, "cusMatToDlpack: no host memory for %zu bytes", sizeof *exported);

    *exported = (Exported){.shape = {mat->rows, mat->cols, channels},
                           .strides = {(int64_t)(step / unit), channels, 1},
                           .mat = *mat,
                           .release = release,
                           .context = context};
    exported->tensor = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                                  .manager_ctx = exported,
                                                  .deleter = deleteExported,
                                                  .flags = access == CUS_DLPACK_READ ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                                                  .dl_tensor = {.data = mat->data,
                                                                .device = device,
                                                                .ndim = channels > 1 ? 3 : 2,
                                                                .dtype = TYPES[CUS_DEPTH(mat->type)],
                                                                .shape = exported->shape,
                                                                .strides = exported->strides}};
    if (!mat->owned)
        exported->mat = (cusMat)CUS_MAT_INIT;
    mat->owned = NULL;
    mat->pinned = 0;
    *tensor = &exported->tensor;
    return CUS_OK;
}

/* ---- From DLPack ----------------------------------------------------------------------------------------------------- */

/* Returns the depth of a tensor's elements, or -1. */
static int depthOf(const DLDataType *type) {
    for (int depth = 0; depth < 8; ++depth)
        if (type->code == TYPES[depth].code && type->bits == TYPES[depth].bits && type->lanes == 1)
            return depth;
    return -1;
}

static cusStatus spaceOf(const DLDevice *device, cusSpace *space) {
    *space = CUS_HOST;
    if (device->device_type == kDLCPU || device->device_type == kDLCUDAHost)
        return CUS_OK;
    CUSI_REQUIRE(device->device_type == kDLCUDA || device->device_type == kDLCUDAManaged, CUS_ERROR_SPACE,
                 "cusMatFromDlpack: tensor is on a device of type %d, expected kDLCPU (1), kDLCUDA (2), kDLCUDAHost (3) or "
                 "kDLCUDAManaged (13)",
                 (int)device->device_type);
    *space = CUS_DEVICE;
    int count = 0;
    CUS_TRY(cusDeviceCount(&count));
    CUSI_REQUIRE(count > 0, CUS_ERROR_NO_CUDA, "cusMatFromDlpack: tensor is in device memory, and there is no usable GPU");
    CUSI_REQUIRE(device->device_id >= 0 && device->device_id < count, CUS_ERROR_VALUE,
                 "cusMatFromDlpack: tensor is on device %d, expected 0 to %d", (int)device->device_id, count - 1);
    return CUS_OK;
}

/* Fills rows, cols, type and step of `mat`. */
static cusStatus layoutOf(const DLTensor *tensor, cusMat *mat) {
    const int depth = depthOf(&tensor->dtype);
    CUSI_REQUIRE(
        depth >= 0, CUS_ERROR_TYPE,
        "cusMatFromDlpack: tensor has elements of code %d, %d bits, %d lanes, expected kDLUInt (1) of 8 or 16 bits, "
        "kDLInt (0) of 8, 16 or 32, or kDLFloat (2) of 16, 32 or 64, and 1 lane",
        tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
    const int ndim = tensor->ndim;
    CUSI_REQUIRE(ndim >= 1 && ndim <= 3, CUS_ERROR_SIZE,
                 "cusMatFromDlpack: tensor has %d dimensions, expected 1 to 3: (rows, cols, channels)", ndim);
    CUSI_REQUIRE(tensor->shape, CUS_ERROR_NULL, "cusMatFromDlpack: tensor has no shape");
    for (int i = 0; i < ndim; ++i) {
        const int64_t most = i == 2 ? 512 : INT_MAX;
        CUSI_REQUIRE(tensor->shape[i] >= 1 && tensor->shape[i] <= most, CUS_ERROR_SIZE,
                     "cusMatFromDlpack: dimension %d of tensor is %lld, expected 1 to %lld", i, (long long)tensor->shape[i],
                     (long long)most);
    }
    const int64_t rows = ndim == 1 ? 1 : tensor->shape[0], cols = tensor->shape[ndim == 1 ? 0 : 1];
    const int64_t channels = ndim == 3 ? tensor->shape[2] : 1;
    int64_t row_stride = cols * channels;
    if (tensor->strides) {
        /* The stride of a dimension of size 1 has no meaning. */
        const int64_t *strides = tensor->strides, column_stride = strides[ndim == 1 ? 0 : 1];
        CUSI_REQUIRE(channels == 1 || strides[2] == 1, CUS_ERROR_SIZE,
                     "cusMatFromDlpack: tensor has a stride of %lld between channels, expected 1", (long long)strides[2]);
        CUSI_REQUIRE(cols == 1 || column_stride == channels, CUS_ERROR_SIZE,
                     "cusMatFromDlpack: tensor has a stride of %lld between columns, expected %lld",
                     (long long)column_stride, (long long)channels);
        CUSI_REQUIRE(rows == 1 || (strides[0] >= row_stride && strides[0] <= INT64_MAX / 16 / rows), CUS_ERROR_SIZE,
                     "cusMatFromDlpack: tensor has a stride of %lld between rows, expected at least %lld",
                     (long long)strides[0], (long long)row_stride);
        if (rows > 1)
            row_stride = strides[0];
    }
    mat->rows = (int)rows;
    mat->cols = (int)cols;
    mat->type = CUS_MAKETYPE(depth, (int)channels);
    mat->step = (size_t)row_stride * (tensor->dtype.bits / 8u);
    return CUS_OK;
}

cusStatus cusMatFromDlpack(DLManagedTensorVersioned *tensor, cusDlpackAccess access, cusMat *mat) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusMatFromDlpack", tensor);
    CUSI_NOT_NULL("cusMatFromDlpack", mat);
    CUS_TRY(checkAccess("cusMatFromDlpack", access));
    CUSI_REQUIRE(tensor->version.major == DLPACK_MAJOR_VERSION, CUS_ERROR_UNSUPPORTED,
                 "cusMatFromDlpack: tensor is of DLPack version %u.%u, expected %d.x", (unsigned)tensor->version.major,
                 (unsigned)tensor->version.minor, DLPACK_MAJOR_VERSION);
    const DLTensor *t = &tensor->dl_tensor;
    CUSI_REQUIRE(access == CUS_DLPACK_READ || !(tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY), CUS_ERROR_VALUE,
                 "cusMatFromDlpack: tensor is read-only, expected access CUS_DLPACK_READ");
    CUSI_REQUIRE(t->data, CUS_ERROR_NULL, "cusMatFromDlpack: tensor has no data");
    CUSI_REQUIRE(mat->owned != tensor, CUS_ERROR_ALIAS, "cusMatFromDlpack: mat owns this tensor already");
    cusMat made = CUS_MAT_INIT;
    CUS_TRY(layoutOf(t, &made));
    CUS_TRY(spaceOf(&t->device, &made.space));
    made.data = (char *)t->data + t->byte_offset;
    CUSI_REQUIRE((uintptr_t)made.data % (t->dtype.bits / 8u) == 0, CUS_ERROR_VALUE,
                 "cusMatFromDlpack: tensor starts at %p, expected a multiple of %d bytes", made.data, t->dtype.bits / 8);
    made.owned = tensor;
    made.pinned = 2; /* see cusMatRelease */
    cusMatRelease(mat);
    *mat = made;
    return CUS_OK;
}
