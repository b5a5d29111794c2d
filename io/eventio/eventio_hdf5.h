/* What the HDF5 reader and writers share: the lock around libhdf5, the driver that reads an EventSource, and files that are
 * written. */
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

enum { HDF5_OUTPUT_DATASETS = 5, HDF5_OUTPUT_AXES = 4 };

/* A file that is written as PATH.part and takes its name when it is finished. Zeros before eventio_outputName. */
typedef struct Hdf5Output {
    char *path, *part;
    hid_t file, dataset[HDF5_OUTPUT_DATASETS];
} Hdf5Output;

/* 0: no memory. */
int eventio_outputName(Hdf5Output *output, const char *path);
/* The message that it cannot be written, with errno's reason unless that is 0. */
cusStatus eventio_outputFail(const Hdf5Output *output, const char *function);

/* These two under the lock; 0: failed. A dataset grows along its first axis by chunks, with LZF where `compress` is set. */
int eventio_outputCreate(Hdf5Output *output);
int eventio_outputDataset(Hdf5Output *output, int index, hid_t group, const char *name, hid_t type, int axes,
                          const hsize_t *chunk, size_t chunk_bytes, int compress);

/* Close the file and free what belongs to it. Finish gives it its name when `status` is CUS_OK and all went well, else
 * removes it; returns `status` or what went wrong now. */
cusStatus eventio_outputFinish(Hdf5Output *output, cusStatus status, const char *function);
void eventio_outputDiscard(Hdf5Output *output);

#endif
