/* libhdf5 for the readers and writers: the lock around it, its errors, and a file driver that reads an EventSource. */
#ifndef CUSI_EVENTIO_HDF5_DRIVER_H
#define CUSI_EVENTIO_HDF5_DRIVER_H

#include "eventio/source.h"

#include <hdf5.h>

/* One thread at a time calls libhdf5, which may be built without thread safety. Its error printing is off meanwhile. */
typedef struct Hdf5Lock {
    H5E_auto2_t print;
    void *data;
} Hdf5Lock;

Hdf5Lock eventio_lockHdf5(void);
void eventio_unlockHdf5(Hdf5Lock lock);

/* What the driver reads. */
typedef struct Hdf5Source {
    const EventSource *source;
    uint64_t claimed_end; /* the end of the file according to its header */
    size_t metadata_left; /* bytes of metadata that libhdf5 may still read */
    int metadata_refused; /* it asked for more */
    size_t chunk_bytes;   /* the buffer for a chunk: reads of another size fail. 0: any size */
    cusStatus failure;    /* what stopped the driver: NO_MEMORY, or IO with the reason in `error` */
    int error;
    void *file; /* the driver's */
} Hdf5Source;

/* Call it right after libhdf5 failed. NO_MEMORY or IO with a message if neither the file nor the call is to blame, else
 * CUS_OK. */
cusStatus eventio_hdf5Failure(const Hdf5Source *source, const char *function);

/* Before each call of libhdf5: renews the allowance of metadata, and clears what the driver has noted and chunk_bytes. */
void eventio_beginHdf5(Hdf5Source *source);

/* The end of the file that its header claims, if that is past the true one; else 0. */
uint64_t eventio_hdf5PastEnd(const Hdf5Source *source);

/* The address of the superblock: not 0 after a user block. */
uint64_t eventio_hdf5Base(const Hdf5Source *source);

/* Call it after the file is closed and before the source is freed. */
void eventio_detachHdf5(Hdf5Source *source);

/* Registers a driver for H5Pset_driver, whose info is a pointer to a Hdf5Source *. Release it with H5FDunregister. */
hid_t eventio_hdf5Driver(void);

#endif
