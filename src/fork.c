/* fork(): what a child process must find in order.
 *
 * libgomp's threads of the forking thread do not exist in the child, whose next parallel region would wait for them for ever.
 * So they are ended before the fork, if there are any, and each process starts new ones when it next needs them. (Only GCC's
 * runtime: LLVM's resets itself. A thread that forks within a parallel region is beyond help.) */

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
