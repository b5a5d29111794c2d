/* Opens cuFFT when the first transform is planned, so that a program that never matches by FFT on the device runs on a
 * machine without libcufft or without a driver. cmake/cufft.cmake compiles the kernels' calls to cuFFT as calls to the
 * functions below, so the library defines no name of cuFFT's own. */
#ifdef CUSI_WITH_CUDA
#include <cufft.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#ifndef CUSI_CUFFT_FOLDER
#define CUSI_CUFFT_FOLDER "/usr/local/cuda/lib64"
#endif
#define TEXT(x)       #x
#define NUMBER(x)     TEXT(x)
#define CUFFT_SONAME  "libcufft.so." NUMBER(CUFFT_VER_MAJOR)
#define MESSAGE_BYTES 400

/* Says why the calling thread's last call could not reach cuFFT; NULL if it could. Reading clears it. match.c, which calls
 * it, has the same declaration. */
const char *match_cufftProblem(void);

/* ---- Opening --------------------------------------------------------------------------------------------------------- */

/* X(name, parameters, arguments) of every cuFFT function that the backend calls. */
#define FUNCTIONS(X)                                                                                                       \
    X(cufftCreate, (cufftHandle * plan), (plan))                                                                           \
    X(cufftDestroy, (cufftHandle plan), (plan))                                                                            \
    X(cufftMakePlanMany64,                                                                                                 \
      (cufftHandle plan, int rank, long long *n, long long *in_embed, long long in_stride, long long in_distance,          \
       long long *out_embed, long long out_stride, long long out_distance, cufftType type, long long batch, size_t *work), \
      (plan, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, out_distance, type, batch, work))           \
    X(cufftSetAutoAllocation, (cufftHandle plan, int automatic), (plan, automatic))                                        \
    X(cufftSetWorkArea, (cufftHandle plan, void *area), (plan, area))                                                      \
    X(cufftSetStream, (cufftHandle plan, cudaStream_t stream), (plan, stream))                                             \
    X(cufftExecR2C, (cufftHandle plan, cufftReal * in, cufftComplex * out), (plan, in, out))                               \
    X(cufftExecC2R, (cufftHandle plan, cufftComplex * in, cufftReal * out), (plan, in, out))                               \
    X(cufftExecD2Z, (cufftHandle plan, cufftDoubleReal * in, cufftDoubleComplex * out), (plan, in, out))                   \
    X(cufftExecZ2D, (cufftHandle plan, cufftDoubleComplex * in, cufftDoubleReal * out), (plan, in, out))

typedef struct Cufft {
#define MEMBER(name, parameters, arguments) cufftResult(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
} Cufft;

static Cufft cufft;
static atomic_int is_open;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char problem[MESSAGE_BYTES];

/* dlsym returns an object pointer; POSIX defines this conversion, ISO C only through a union. */
static int resolve(void *library, const char *name, void *function) {
    void *const symbol = dlsym(library, name);
    *(void **)function = symbol;
    return symbol != NULL;
}

/* The loader searches first (a cuFFT that is loaded already, LD_LIBRARY_PATH, RUNPATH, the system's folders), then the
 * folder of the toolkit that this library was built with is tried. Only the header's major version will do: types and
 * constants may differ in another. */
static void *openLibrary(void) {
    void *library = dlopen(CUFFT_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    const char *why = dlerror();
    snprintf(problem, sizeof problem, "%s", why ? why : CUFFT_SONAME " cannot be opened");
    return dlopen(CUSI_CUFFT_FOLDER "/" CUFFT_SONAME, RTLD_NOW | RTLD_LOCAL);
}

static int openCufft(void) {
    if (atomic_load_explicit(&is_open, memory_order_acquire))
        return 1;
    pthread_mutex_lock(&opening);
    if (!atomic_load_explicit(&is_open, memory_order_relaxed)) {
        void *const library = openLibrary();
        const char *missing = NULL;
#define RESOLVE(name, parameters, arguments)                          \
    if (library && !missing && !resolve(library, #name, &cufft.name)) \
        missing = #name;
        FUNCTIONS(RESOLVE)
#undef RESOLVE
        if (library && !missing) {
            problem[0] = 0;
            atomic_store_explicit(&is_open, 1, memory_order_release);
        } else if (library) {
            snprintf(problem, sizeof problem, CUFFT_SONAME " has no function %s", missing);
            dlclose(library);
        }
    }
    pthread_mutex_unlock(&opening);
    return atomic_load_explicit(&is_open, memory_order_relaxed);
}

const char *match_cufftProblem(void) {
    static _Thread_local char message[MESSAGE_BYTES];
    if (!problem[0])
        return NULL;
    snprintf(message, sizeof message, "%s", problem);
    problem[0] = 0;
    return message;
}

/* ---- The functions --------------------------------------------------------------------------------------------------- */

#define FORWARD(name, parameters, arguments)                            \
    cufftResult cusi_##name parameters;                                 \
    cufftResult cusi_##name parameters {                                \
        return openCufft() ? cufft.name arguments : CUFFT_SETUP_FAILED; \
    }
FUNCTIONS(FORWARD)

#else
typedef int match_cufft_open_is_empty;
#endif
