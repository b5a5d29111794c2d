/* libhdf5, which the writers and the plugins' filters use: the lock around it. */
#ifndef CUSI_EVENTIO_HDF5_LIBRARY_H
#define CUSI_EVENTIO_HDF5_LIBRARY_H

#include <hdf5.h>

/* One thread at a time calls libhdf5, which may be built without thread safety. Its error printing is off meanwhile. */
typedef struct Hdf5Lock {
    H5E_auto2_t print;
    void *data;
} Hdf5Lock;

Hdf5Lock eventio_lockHdf5(void);
void eventio_unlockHdf5(Hdf5Lock lock);

/* Whether memory ran out in the call of libhdf5 that failed last. */
int eventio_hdf5OutOfMemory(void);

#endif
