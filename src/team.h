/* The threads that run `#pragma omp`: a team for each calling thread, which sleeps while it waits.
 *
 * The compiler makes a function of a parallel region's body and calls libgomp with it ("The libgomp ABI" in its manual).
 * libgomp's threads spin for milliseconds at the end of each region. On busy processors they spin for threads that do not
 * run, which takes twenty times one thread's time. How long they spin is read from the environment when the process starts
 * and applies to the whole process. So the library has its own threads behind these calls: the assembler renames them in
 * each file that includes this. LLVM's runtime, with clang, is used as it is. A test checks that the library calls nothing
 * else of libgomp: another construct needs its function here. */
#ifndef CUSI_TEAM_H
#define CUSI_TEAM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs body(data) on `threads` threads (0: cusi_maxThreads()), the caller among them, and returns when all have ended. Uses
 * fewer if threads cannot be created, or within a region. flags: libgomp's, ignored. */
void cusi_teamParallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
/* Return the calling thread's number in a region, 0 for the caller, and the number of threads. Outside regions 0 and 1. */
int cusi_teamNumber(void);
int cusi_teamSize(void);
/* Waits until all threads of the region have arrived. */
void cusi_teamBarrier(void);

/* Serve schedule(dynamic, chunk): threads take chunks of first, first + step, ... up to `end`, exclusive. Return 0 when
 * none is left. Start begins the loop, or enters the one that another thread has begun. */
bool cusi_teamStart(long first, long end, long step, long chunk, long *from, long *to);
bool cusi_teamNext(long *from, long *to);
bool cusi_teamStartUnsigned(bool up, unsigned long long first, unsigned long long end, unsigned long long step,
                            unsigned long long chunk, unsigned long long *from, unsigned long long *to);
bool cusi_teamNextUnsigned(unsigned long long *from, unsigned long long *to);
void cusi_teamEndLoop(void);
/* Runs a region that consists of one such loop. */
void cusi_teamParallelLoop(void (*body)(void *), void *data, unsigned threads, long first, long end, long step, long chunk,
                           unsigned flags);

/* Serve `critical`, for which all names share a lock, and `atomic` where no instruction exists. Code within them must be
 * short and must not call a callback (progress.h), which may call the library. */
void cusi_teamEnter(void **name);
void cusi_teamLeave(void **name);
void cusi_teamEnterAtomic(void);
void cusi_teamLeaveAtomic(void);

#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__)
#define CUSI_TEAM             1
#define CUSI_RENAME(from, to) __asm__(".set " #from ", " #to)
CUSI_RENAME(GOMP_parallel, cusi_teamParallel);
CUSI_RENAME(GOMP_parallel_loop_nonmonotonic_dynamic, cusi_teamParallelLoop);
CUSI_RENAME(GOMP_barrier, cusi_teamBarrier);
CUSI_RENAME(GOMP_loop_nonmonotonic_dynamic_start, cusi_teamStart);
CUSI_RENAME(GOMP_loop_nonmonotonic_dynamic_next, cusi_teamNext);
CUSI_RENAME(GOMP_loop_ull_nonmonotonic_dynamic_start, cusi_teamStartUnsigned);
CUSI_RENAME(GOMP_loop_ull_nonmonotonic_dynamic_next, cusi_teamNextUnsigned);
CUSI_RENAME(GOMP_loop_end, cusi_teamBarrier);
CUSI_RENAME(GOMP_loop_end_nowait, cusi_teamEndLoop);
CUSI_RENAME(GOMP_critical_name_start, cusi_teamEnter);
CUSI_RENAME(GOMP_critical_name_end, cusi_teamLeave);
CUSI_RENAME(GOMP_atomic_start, cusi_teamEnterAtomic);
CUSI_RENAME(GOMP_atomic_end, cusi_teamLeaveAtomic);
CUSI_RENAME(omp_get_thread_num, cusi_teamNumber);
CUSI_RENAME(omp_get_num_threads, cusi_teamSize);
#endif

#ifdef __cplusplus
}
#endif

#endif
