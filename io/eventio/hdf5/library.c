/* The lock around libhdf5. */
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/library.h"

#include <pthread.h>

static pthread_mutex_t hdf5_mutex = PTHREAD_MUTEX_INITIALIZER;

/* fork() waits until no thread holds the lock, so the child finds it free and libhdf5 between two calls. */
static void beforeFork(void) {
    pthread_mutex_lock(&hdf5_mutex);
}
static void afterFork(void) {
    pthread_mutex_unlock(&hdf5_mutex);
}
__attribute__((constructor)) static void registerForkHandlers(void) {
    (void)pthread_atfork(beforeFork, afterFork, afterFork);
}

Hdf5Lock eventio_lockHdf5(void) {
    Hdf5Lock lock = {NULL, NULL};
    pthread_mutex_lock(&hdf5_mutex);
    H5Eget_auto2(H5E_DEFAULT, &lock.print, &lock.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return lock;
}

void eventio_unlockHdf5(Hdf5Lock lock) {
    H5Eset_auto2(H5E_DEFAULT, lock.print, lock.data);
    pthread_mutex_unlock(&hdf5_mutex);
}

static herr_t lookForMemory(unsigned n, const H5E_error2_t *error, void *found) {
    (void)n;
    if (error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC)
        *(int *)found = 1;
    return 0;
}

int eventio_hdf5OutOfMemory(void) {
    int found = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, lookForMemory, &found);
    return found;
}
#endif
