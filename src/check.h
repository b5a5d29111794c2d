/* Argument checks, with which every entry point starts. A failed check sets the message. The comments say what a check
 * requires. */
#ifndef CUSI_CHECK_H
#define CUSI_CHECK_H

#include "status.h"
#include "trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns "8UC3", for example; valid until the thread's eighth next call. */
const char *cusi_typeName(int type);

/* The argument `space` is CUS_HOST or CUS_DEVICE. */
cusStatus cusi_checkSpace(const char *function, cusSpace space);

/* The matrix is not NULL or empty and its fields are consistent. */
cusStatus cusi_checkFields(const char *function, const char *argument, const cusMat *mat);

/* The array `reserved` of a struct that the caller fills is zero. `owner` precedes the field's name, as in "options->". */
#define cusi_checkReserved(function, owner, reserved) \
    cusi_checkZeros(function, owner, reserved, sizeof(reserved) / sizeof *(reserved))
cusStatus cusi_checkZeros(const char *function, const char *owner, const uint64_t *reserved, size_t count);

/* A switch is 0 or 1. */
cusStatus cusi_checkSwitch(const char *function, const char *name, int value);

/* cusi_checkFields, and device memory belongs to the current device. */
cusStatus cusi_checkMat(const char *function, const char *argument, const cusMat *mat);

/* cusi_checkMat, and the type is in `types`, a list that ends with -1. */
cusStatus cusi_checkInput(const char *function, const char *argument, const cusMat *mat, const int *types);
#define CUSI_TYPES(...) \
    (const int[]) {     \
        __VA_ARGS__, -1 \
    }

/* A batch has 1..CUS_MAX_BATCH images. */
cusStatus cusi_checkBatch(const char *function, int count);

/* Writes "argument[index]", for messages about an image of a batch, and returns it. index < 10000. */
enum { CUSI_ITEM_NAME = 32 };
const char *cusi_itemName(char name[CUSI_ITEM_NAME], const char *argument, int index);

/* rows and cols are at most 2^30, so that sums of coordinates and margins fit int. */
cusStatus cusi_checkSides(const char *function, const char *argument, int rows, int cols);

/* `mat` (argument) has the same size, type or space as `other` (other_argument). */
cusStatus cusi_checkSameSize(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other);
cusStatus cusi_checkSameType(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other);
cusStatus cusi_checkSameSpace(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other);

/* `mat` can become rows x cols of type in space: it is empty, owns its memory, or fits. Changes nothing; call cusMatCreate
 * after the last check. */
cusStatus cusi_checkOutput(const char *function, const char *argument, const cusMat *mat, int rows, int cols, int type,
                           cusSpace space);

/* The two matrices share no byte. An output without memory passes. */
cusStatus cusi_checkNoOverlap(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other);

/* Where the data lives decides where the work runs. In a build without CUDA the second call is
 * type-checked but never made or linked. */
#ifdef CUSI_WITH_CUDA
#define CUSI_BACKEND(function, space, host_call, cuda_call) ((space) == CUS_DEVICE ? (cuda_call) : (host_call))
#else
#define CUSI_BACKEND(function, space, host_call, cuda_call) \
    ((void)sizeof(cuda_call), (space) == CUS_DEVICE ? cusi_noCuda(function) : (host_call))
#endif

static inline int cusi_fits(const cusMat *mat, int rows, int cols, int type, cusSpace space) {
    return mat->data && mat->rows == rows && mat->cols == cols && mat->type == type && mat->space == space;
}

static inline size_t cusi_rowBytes(const cusMat *mat) {
    return (size_t)mat->cols * cusTypeSize(mat->type);
}

/* Returns whether there is no padding between rows. */
static inline int cusi_isContinuous(const cusMat *mat) {
    return mat->rows == 1 || mat->step == cusi_rowBytes(mat);
}

#ifdef __cplusplus
}
#endif

#endif
