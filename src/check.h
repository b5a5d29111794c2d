/* Status, message and argument checks: what every entry point starts with. A check that fails has set the message. */
#ifndef CUSI_CHECK_H
#define CUSI_CHECK_H

#include "cusight/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the thread's message and returns `status`. */
cusStatus cusi_fail(cusStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "8UC3"; valid until the thread's eighth next call. */
const char *cusi_typeName(int type);

#define CUSI_REQUIRE(condition, status, ...) \
    do {                                     \
        if (!(condition)) {                  \
            cusi_fail(status, __VA_ARGS__);  \
            return status;                   \
        }                                    \
    } while (0)

#define CUSI_NOT_NULL(function, argument) \
    CUSI_REQUIRE((argument) != NULL, CUS_ERROR_NULL, "%s: %s is NULL", function, #argument)

/* `space`, an argument of that name, is one of the two. */
cusStatus cusi_checkSpace(const char *function, cusSpace space);

/* The matrix exists and its fields make sense. */
cusStatus cusi_checkMat(const char *function, const char *argument, const cusMat *mat);

/* cusi_checkMat, and its type is one of `types`, a list that ends with -1. */
cusStatus cusi_checkInput(const char *function, const char *argument, const cusMat *mat, const int *types);
#define CUSI_TYPES(...) \
    (const int[]) {     \
        __VA_ARGS__, -1 \
    }

/* `mat` (argument) has the size, the type, the space of `other` (other_argument). */
cusStatus cusi_checkSameSize(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other);
cusStatus cusi_checkSameType(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                             const cusMat *other);
cusStatus cusi_checkSameSpace(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other);

/* `mat` can become rows x cols of type in space: it is empty, owns its memory, or fits. Changes nothing; after the last
 * check of a call cusMatCreate makes it so. */
cusStatus cusi_checkOutput(const char *function, const char *argument, const cusMat *mat, int rows, int cols, int type,
                           cusSpace space);

/* The two matrices share no byte. Call it for outputs that keep their memory as well as for new ones. */
cusStatus cusi_checkNoOverlap(const char *function, const char *argument, const cusMat *mat, const char *other_argument,
                              const cusMat *other);

/* CUS_ERROR_NO_CUDA, for a build without it. */
cusStatus cusi_noCuda(const char *function);

/* Where the data lives decides where the work runs. In a build without CUDA the second call is only
 * looked at by the compiler, never made or linked. */
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

/* No padding between rows: the matrix is one run of bytes. */
static inline int cusi_isContinuous(const cusMat *mat) {
    return mat->rows == 1 || mat->step == cusi_rowBytes(mat);
}

#ifdef __cplusplus
}
#endif

#endif
