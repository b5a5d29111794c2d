/* What the library uses of POSIX and Windows lacks, or does in another way. Included ahead of each source in C, so that these need to know
 * of one system only; files.h is included by the headers that declare the same in POSIX, posix.c has the rest. Threads are
 * winpthreads'. */
#ifndef CUSI_WINDOWS_POSIX_H
#define CUSI_WINDOWS_POSIX_H

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The linker of Windows cannot choose a function when it loads: one set of instructions, which -march sets. */
#define target_clones(...)

#define CUSI_SEPARATORS "/\\:" /* of names in a path */

/* ---- Memory: aligned blocks must be freed in their own way, so all blocks are aligned -------------------------------- */

enum { CUSI_ALIGNMENT = 16 };
void *cusi_windowsCalloc(size_t count, size_t size);
#define malloc(bytes)                   _aligned_malloc(bytes, CUSI_ALIGNMENT)
#define calloc(count, size)             cusi_windowsCalloc(count, size)
#define realloc(block, bytes)           _aligned_realloc(block, bytes, CUSI_ALIGNMENT)
#define free(block)                     _aligned_free(block)
#define aligned_alloc(alignment, bytes) _aligned_malloc(bytes, alignment)

void *memrchr(const void *bytes, int byte, size_t n);
void *memmem(const void *bytes, size_t n, const void *part, size_t length);

/* ---- Processes and threads ------------------------------------------------------------------------------------------- */

/* Whether there is such a process; number 0 is the only signal. */
int kill(pid_t process, int number);
typedef int sigset_t;
#define sigfillset(set) ((void)(set))
#undef pthread_sigmask
#define pthread_sigmask(how, set, before) ((void)(set), (void)(before))
#undef pthread_atfork
#define pthread_atfork(before, parent, child) ((void)(child), 0)

/* A thread that ends holds locks of winpthreads, and perhaps the loader's, which the threads that it waits for need: what is to be done
 * at its end, another thread does. There is one key. */
int cusi_windowsCreateKey(pthread_key_t *key, void (*end)(void *));
#define pthread_key_create cusi_windowsCreateKey

/* syscall(SYS_futex, ...) is all that there is. */
enum { FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE };
long cusi_windowsFutex(volatile void *address, int what, uint32_t value, const struct timespec *limit, ...);
#define syscall(futex, ...) cusi_windowsFutex(__VA_ARGS__, NULL)

#endif
