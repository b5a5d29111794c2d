/* Matrices: creation, views and copies in host and device memory. */
#include "check.h"
#include "guard.h"
#include "cusight/dlpack.h"
#include "device.h"
#include "host.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

enum { HOST_ALIGNMENT = 64 };

/* Values of cusMat.pinned: the kind of memory that `owned` is. cusMatFromDlpack sets TENSOR. */
enum { MEMORY = 0, PINNED_MEMORY = 1, TENSOR = 2 };

static cusStatus create(const char *function, cusMat *mat, int rows, int cols, int type, cusSpace space, int pinned) {
    CUSI_NOT_NULL(function, mat);
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: size is %d x %d (rows x cols), expected at least 1 x 1",
                 function, rows, cols);
    CUSI_REQUIRE(cusTypeSize(type), CUS_ERROR_TYPE, "%s: type is %s", function, cusi_typeName(type));
    CUS_TRY(cusi_checkSpace(function, space));
    if (cusi_fits(mat, rows, cols, type, space) && (!pinned || mat->pinned == PINNED_MEMORY))
        return CUS_OK;
    CUSI_REQUIRE(!mat->data || mat->owned, CUS_ERROR_SIZE,
                 "%s: mat does not own its memory and is %d x %d (rows x cols) %s, expected %d x %d %s%s", function,
                 mat->rows, mat->cols, cusi_typeName(mat->type), rows, cols, cusi_typeName(type), pinned ? " pinned" : "");

    const size_t row_bytes = (size_t)cols * cusTypeSize(type);
    CUSI_REQUIRE((size_t)rows <= SIZE_MAX / 2 / row_bytes, CUS_ERROR_NO_MEMORY,
                 "%s: %d x %d (rows x cols) %s exceeds the address space", function, rows, cols, cusi_typeName(type));
    size_t step = row_bytes;
    void *data = NULL;
    if (space == CUS_DEVICE) {
        if (rows == 1 || cols == 1)
            CUS_TRY(cusi_deviceAllocate(function, row_bytes * (size_t)rows, &data));
        else
            CUS_TRY(cusi_deviceAllocatePitch(function, (size_t)rows, row_bytes, &data, &step));
    } else if (pinned) {
        CUS_TRY(cusi_pinnedAllocate(function, row_bytes * (size_t)rows, &data));
    } else {
        data = cusi_hostAllocate(row_bytes * (size_t)rows);
        CUSI_REQUIRE(data, CUS_ERROR_NO_MEMORY, "%s: no host memory for %zu bytes", function, row_bytes * (size_t)rows);
    }
    cusMatRelease(mat);
    *mat = (cusMat){rows, cols, type, space, step, data, data, pinned ? PINNED_MEMORY : MEMORY};
    return CUS_OK;
}

cusStatus cusMatCreate(cusMat *mat, int rows, int cols, int type, cusSpace space) {
    CUSI_TRACE;
    return create("cusMatCreate", mat, rows, cols, type, space, mat && mat->pinned == PINNED_MEMORY && space == CUS_HOST);
}

cusStatus cusMatCreatePinned(cusMat *mat, int rows, int cols, int type) {
    CUSI_TRACE;
    return create("cusMatCreatePinned", mat, rows, cols, type, CUS_HOST, 1);
}

void cusMatRelease(cusMat *mat) {
    CUSI_TRACE;
    if (!mat)
        return;
    if (mat->owned && mat->pinned == TENSOR) {
        DLManagedTensorVersioned *tensor = mat->owned;
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else if (mat->owned && mat->space == CUS_DEVICE)
        cusi_deviceFree(mat->owned);
    else if (mat->owned && mat->pinned)
        cusi_pinnedFree(mat->owned);
    else
        free(mat->owned);
    *mat = (cusMat)CUS_MAT_INIT;
}

cusStatus cusMatWrap(cusMat *mat, int rows, int cols, int type, cusSpace space, void *data, size_t step) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusMatWrap", mat);
    CUSI_NOT_NULL("cusMatWrap", data);
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE,
                 "cusMatWrap: size is %d x %d (rows x cols), expected at least 1 x 1", rows, cols);
    const size_t size = cusTypeSize(type);
    CUSI_REQUIRE(size, CUS_ERROR_TYPE, "cusMatWrap: type is %s", cusi_typeName(type));
    CUS_TRY(cusi_checkSpace("cusMatWrap", space));
    const size_t row_bytes = (size_t)cols * size;
    const size_t unit = size / (size_t)CUS_CHANNELS(type);
    step = step ? step : row_bytes;
    CUSI_REQUIRE(step >= row_bytes, CUS_ERROR_VALUE, "cusMatWrap: step is %zu bytes, expected 0 or at least %zu (one row)",
                 step, row_bytes);
    CUSI_REQUIRE(step % unit == 0 && (uintptr_t)data % unit == 0, CUS_ERROR_VALUE,
                 "cusMatWrap: data is %p and step is %zu, expected multiples of %zu bytes for type %s", data, step, unit,
                 cusi_typeName(type));
    CUSI_REQUIRE(!mat->owned || (data != mat->owned && data != mat->data), CUS_ERROR_ALIAS,
                 "cusMatWrap: data points to memory that mat owns");
    cusMatRelease(mat);
    *mat = (cusMat){rows, cols, type, space, step, data, NULL, 0};
    return CUS_OK;
}

cusStatus cusMatRegion(const cusMat *mat, int x, int y, int cols, int rows, cusMat *region) {
    CUSI_TRACE;
    CUS_TRY(cusi_checkFields("cusMatRegion", "mat", mat));
    CUSI_NOT_NULL("cusMatRegion", region);
    CUSI_REQUIRE(region != mat || !mat->owned, CUS_ERROR_ALIAS,
                 "cusMatRegion: region is mat and mat owns its memory, expected another cusMat");
    CUSI_REQUIRE(x >= 0 && y >= 0 && cols > 0 && rows > 0 && x <= mat->cols - cols && y <= mat->rows - rows,
                 CUS_ERROR_VALUE,
                 "cusMatRegion: region is %d x %d (rows x cols) at x %d, y %d, expected a rectangle inside %d x %d", rows,
                 cols, x, y, mat->rows, mat->cols);
    const cusMat whole = *mat;
    if (region != mat)
        cusMatRelease(region);
    *region = whole;
    region->rows = rows;
    region->cols = cols;
    region->data = (char *)whole.data + (size_t)y * whole.step + (size_t)x * cusTypeSize(whole.type);
    region->owned = NULL;
    region->pinned = 0;
    return CUS_OK;
}

static cusStatus copy(const char *function, const cusMat *src, cusMat *dst, cusSpace from, cusSpace to, cusStream stream) {
    CUS_TRY(cusi_checkMat(function, "src", src));
    CUSI_REQUIRE(src->space == from, CUS_ERROR_SPACE, "%s: src is in %s memory, expected %s", function,
                 src->space == CUS_DEVICE ? "device" : "host", from == CUS_DEVICE ? "device" : "host");
    CUS_TRY(cusi_checkOutput(function, "dst", dst, src->rows, src->cols, src->type, to));
    CUS_TRY(cusi_checkNoOverlap(function, "dst", dst, "src", src));
    CUS_TRY(cusi_checkStream(function, from == CUS_DEVICE ? from : to, stream));
    CUS_TRY(cusMatCreate(dst, src->rows, src->cols, src->type, to));
    const size_t row_bytes = cusi_rowBytes(src);
    if (from == CUS_DEVICE && to == CUS_DEVICE)
        return cusi_deviceCopyWithin(function, src, dst, stream);
    if (to == CUS_HOST && from == CUS_DEVICE)
        CUS_TRY(cusi_deviceWaitToDownload(function, dst->data, stream));
    if (from == CUS_DEVICE || to == CUS_DEVICE)
        return cusi_deviceCopy(function, dst->data, dst->step, src->data, src->step, row_bytes, (size_t)src->rows, stream);
    if (cusi_isContinuous(src) && cusi_isContinuous(dst)) {
        memcpy(dst->data, src->data, row_bytes * (size_t)src->rows);
        return CUS_OK;
    }
    for (size_t y = 0; y < (size_t)src->rows; ++y)
        memcpy((char *)dst->data + y * dst->step, (const char *)src->data + y * src->step, row_bytes);
    return CUS_OK;
}

cusStatus cusMatUpload(const cusMat *src, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    return copy("cusMatUpload", src, dst, CUS_HOST, CUS_DEVICE, stream);
}

cusStatus cusMatDownload(const cusMat *src, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    return CUSI_LONG("cusMatDownload", copy("cusMatDownload", src, dst, CUS_DEVICE, CUS_HOST, stream));
}

cusStatus cusMatCopy(const cusMat *src, cusMat *dst, cusStream stream) {
    CUSI_TRACE;
    CUSI_REQUIRE(src, CUS_ERROR_NULL, "cusMatCopy: src is NULL");
    return copy("cusMatCopy", src, dst, src->space, src->space, stream);
}

cusStatus cusMatSetZero(cusMat *mat, cusStream stream) {
    CUSI_TRACE;
    CUS_TRY(cusi_checkMat("cusMatSetZero", "mat", mat));
    CUS_TRY(cusi_checkStream("cusMatSetZero", mat->space, stream));
    if (mat->space == CUS_DEVICE)
        return cusi_deviceZero("cusMatSetZero", mat->data, mat->step, cusi_rowBytes(mat), (size_t)mat->rows, stream);
    for (size_t y = 0; y < (size_t)mat->rows; ++y)
        memset((char *)mat->data + y * mat->step, 0, cusi_rowBytes(mat));
    return CUS_OK;
}

void *cusi_hostAllocate(size_t bytes) {
    /* aligned_alloc requires a multiple of the alignment; rounding up fails only on overflow. */
    const size_t rounded = (bytes + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
    return rounded < bytes ? NULL : aligned_alloc(HOST_ALIGNMENT, rounded);
}
