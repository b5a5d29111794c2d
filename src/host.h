/* Helpers of the CPU backends. */
#ifndef CUSI_HOST_H
#define CUSI_HOST_H

#include "team.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles a function for AVX-512, AVX2 and plain x86-64; the loader picks one. Use it on inner loops (a row, a tile), not
 * on functions with OpenMP pragmas, whose outlined bodies do not inherit it. Off under sanitizers, which cannot run before
 * the loader has picked. GCC before 12 cannot pick by level, only by one feature. */
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__) || defined(CUSI_SANITIZE)
#define CUSI_MULTIVERSION
#elif __GNUC__ < 12
#define CUSI_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CUSI_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

/* Prefetches a cache line for writing; any address is allowed. Every x86-64 processor accepts the instruction, if only as a
 * no-op. A compiler's own prefetch is for reading, so a line that another core has read would move twice. */
static inline void cusi_prefetchToWrite(const void *address) {
#if defined(__x86_64__) && defined(__GNUC__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#elif defined(__GNUC__)
    __builtin_prefetch(address, 1);
#else
    (void)address;
#endif
}

/* Allocates memory aligned to 64 bytes, to be released with free(). Returns NULL if out of memory. */
void *cusi_hostAllocate(size_t bytes);

/* ---- Threads --------------------------------------------------------------------------------------------------------- */

/* Returns the quota of the control groups that the file `list` (/proc/self/cgroup) names, below `root`, in processors,
 * rounded up; 0: none. */
int cusi_quotaOf(const char *list, const char *root);

#ifdef _OPENMP
#include <omp.h>
/* Returns how many threads the calling thread may use: what the program or OMP_NUM_THREADS says, or the processors that it
 * may run on, or fewer if a control group has a lower quota. */
int cusi_maxThreads(void);
/* Returns the thread's number in its team; 0 is the calling thread. */
static inline int cusi_threadNumber(void) {
    return omp_get_thread_num();
}
#else
static inline int cusi_maxThreads(void) {
    return 1;
}
static inline int cusi_threadNumber(void) {
    return 0;
}
#endif

/* Returns the number of threads worth starting: one for each `share` of the work, up to the maximum. A share should take 20
 * us or more, since a sleeping thread needs 5 to 50 us to begin. */
static inline int cusi_threadsFor(size_t work, size_t share) {
    const size_t useful = work / share + 1;
    if (useful == 1)
        return 1;
    const int most = cusi_maxThreads();
    return useful < (size_t)most ? (int)useful : most;
}

#ifdef __cplusplus
}
#endif

#endif
