/* Statuses that calls return, and the messages that they set. */
#ifndef CUSI_STATUS_H
#define CUSI_STATUS_H

#include "cusight/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the thread's message and returns `status`. */
cusStatus cusi_fail(cusStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns `status`, and replaces the function name that begins the thread's message by `function`. */
cusStatus cusi_renamed(const char *function, cusStatus status);

/* Returns CUS_ERROR_NO_CUDA, in a build without CUDA. */
cusStatus cusi_noCuda(const char *function);

/* Returns CUS_OK, or the status of `error`, a cudaError_t, with the message "function: what: CUDA's message". Clears CUDA's
 * last error. */
cusStatus cusi_cudaStatus(int error, const char *function, const char *what);

#define CUSI_REQUIRE(condition, status, ...) \
    do {                                     \
        if (!(condition)) {                  \
            cusi_fail(status, __VA_ARGS__);  \
            return status;                   \
        }                                    \
    } while (0)

#define CUSI_NOT_NULL(function, argument) \
    CUSI_REQUIRE((argument) != NULL, CUS_ERROR_NULL, "%s: %s is NULL", function, #argument)

#ifdef __cplusplus
}
#endif

#endif
