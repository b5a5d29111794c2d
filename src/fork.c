/* fork(): ends libgomp's threads before it.
 *
 * The child lacks the OpenMP threads of the forking thread, and its next parallel region would wait for them for ever.
 * Each process starts new ones when it next needs them. (GCC's runtime only: LLVM's resets itself. Nothing helps a
 * thread that forks within a parallel region.) */

/* status.c refers to it, so that programs which link the static library get this file. */
extern const char cusi_forkHandler;
const char cusi_forkHandler = 1;

#if defined(_OPENMP) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 9
#include <omp.h>
#include <pthread.h>

static void endThreads(void) {
    (void)omp_pause_resource_all(omp_pause_soft);
}

__attribute__((constructor)) static void registerHandler(void) {
    (void)pthread_atfork(endThreads, NULL, NULL);
}
#endif
