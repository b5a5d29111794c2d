/* What the HDF5 reader and writer share: the lock around libhdf5, and the driver that reads an EventSource. */
#ifndef CUSI_EVENTIO_HDF5_H
#define CUSI_EVENTIO_HDF5_H

#include "eventio_backend.h"

#include <hdf5.h>

enum { EVENTIO_FILTER_LZF = 32000, EVENTIO_FILTER_BLOSC = 32001 };

/* libhdf5 is entered by one thread at a time, as it may have been built without thread safety, and prints no errors
 * meanwhile. */
typedef struct Hdf5Lock {
    H5E_auto2_t print;
    void *data;
} Hdf5Lock;

Hdf5Lock eventio_lockHdf5(void);
void eventio_unlockHdf5(Hdf5Lock lock);

/* Shared with the driver: `past_end` becomes the end of the last read past the end of the file. */
typedef struct Hdf5Source {
    const EventSource *source;
    uint64_t past_end;
} Hdf5Source;

/* The id of a new driver, for H5Pset_driver with a pointer to Hdf5Source *; H5FDunregister when done. */
hid_t eventio_hdf5Driver(void);

#endif
