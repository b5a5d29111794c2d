/* Status and messages: see status.h. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512];

/* Returns the bytes of the printable character at `s` in UTF-8, or 0 if it is a control character or invalid. */
static size_t characterBytes(const unsigned char *s) {
    if (*s < 0x80)
        return *s >= 0x20 && *s != 0x7f;
    const size_t bytes = *s < 0xc2 || *s > 0xf4 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < bytes; ++i)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return *s == 0xc2 && s[1] < 0xa0 ? 0 : bytes; /* U+0080 to U+009F are control characters */
}

/* Writes control characters as "\x1b", since texts in messages come from files and peers, and messages go to terminals and
 * logs. */
static void escape(const char *text, char *out, size_t size) {
    const unsigned char *s = (const unsigned char *)text;
    size_t used = 0;
    while (*s && used + 5 <= size) {
        const size_t bytes = characterBytes(s);
        if (bytes)
            memcpy(out + used, s, bytes);
        else
            snprintf(out + used, size - used, "\\x%02x", *s);
        used += bytes ? bytes : 4;
        s += bytes ? bytes : 1;
    }
    out[used] = 0;
}

cusStatus cusi_fail(cusStatus status, const char *format, ...) {
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    escape(text, message, sizeof message);
    return status;
}

cusStatus cusi_renamed(const char *function, cusStatus status) {
    const char *colon = strchr(message, ':');
    return cusi_fail(status, "%s%s", function, colon ? colon : "");
}

const char *cusLastError(void) {
    return message;
}

const char *cusStatusName(cusStatus status) {
    switch (status) {
#define NAME(s) \
    case s:     \
        return #s;
        NAME(CUS_OK)
        NAME(CUS_ERROR_NULL)
        NAME(CUS_ERROR_VALUE)
        NAME(CUS_ERROR_TYPE)
        NAME(CUS_ERROR_SIZE)
        NAME(CUS_ERROR_SPACE)
        NAME(CUS_ERROR_ALIAS)
        NAME(CUS_ERROR_CAPACITY)
        NAME(CUS_ERROR_NO_MEMORY)
        NAME(CUS_ERROR_NO_CUDA)
        NAME(CUS_ERROR_CUDA)
        NAME(CUS_ERROR_IO)
        NAME(CUS_ERROR_FORMAT)
        NAME(CUS_ERROR_TRUNCATED)
        NAME(CUS_ERROR_UNSUPPORTED)
        NAME(CUS_ERROR_BUSY)
        NAME(CUS_ERROR_CANCELLED)
#undef NAME
    }
    return "unknown status";
}

#define STRING(x)  #x
#define VERSION(x) STRING(x)

const char *cusVersion(void) {
    return VERSION(CUSIGHT_VERSION_MAJOR) "." VERSION(CUSIGHT_VERSION_MINOR) "." VERSION(CUSIGHT_VERSION_PATCH);
}

cusStatus cusi_noCuda(const char *function) {
    return cusi_fail(CUS_ERROR_NO_CUDA, "%s: a matrix is in device memory, but this build of cusight has no CUDA support",
                     function);
}

#ifdef CUSI_WITH_CUDA
#include <cuda_runtime_api.h>

cusStatus cusi_cudaStatus(int code, const char *function, const char *what) {
    const cudaError_t error = (cudaError_t)code;
    if (error == cudaSuccess)
        return CUS_OK;
    (void)cudaGetLastError(); /* so that it is not reported twice */
    cusStatus status = CUS_ERROR_CUDA;
    if (error == cudaErrorMemoryAllocation)
        status = CUS_ERROR_NO_MEMORY;
    else if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary)
        status = CUS_ERROR_NO_CUDA;
    return cusi_fail(status, "%s: %s: %s (%s)", function, what, cudaGetErrorString(error), cudaGetErrorName(error));
}
#endif
