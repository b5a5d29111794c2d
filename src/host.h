/* Helpers of the CPU backends. */
#ifndef CUSI_HOST_H
#define CUSI_HOST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One function, compiled for AVX-512, AVX2 and plain x86-64; the loader picks. Put it on the inner loops (a row, a tile),
 * not on functions with OpenMP pragmas: the outlined parallel body would not inherit it. Sanitizers cannot run before the
 * loader has picked, so there it is off. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CUSI_SANITIZE)
#define CUSI_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CUSI_MULTIVERSION
#endif

/* Fetches a line that is soon written, past the end of anything too. Every x86-64 processor takes the instruction, if only to
 * skip it; compilers left to themselves fetch for reading, and where another core has read the line, it then moves twice. */
static inline void cusi_prefetchToWrite(const void *address) {
#if defined(__x86_64__) && defined(__GNUC__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#elif defined(__GNUC__)
    __builtin_prefetch(address, 1);
#else
    (void)address;
#endif
}

/* 64-byte aligned, for free(). NULL when there is none. */
void *cusi_hostAllocate(size_t bytes);

#ifdef _OPENMP
#include <omp.h>
#define CUSI_PRAGMA(x) _Pragma(#x)
static inline int cusi_maxThreads(void) {
    return omp_get_max_threads();
}
#else
static inline int cusi_maxThreads(void) {
    return 1;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
