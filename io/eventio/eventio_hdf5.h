/* Shared by the HDF5 reader and writers: the lock around libhdf5, the file driver that reads an EventSource, and output
 * files. */
#ifndef CUSI_EVENTIO_HDF5_H
#define CUSI_EVENTIO_HDF5_H

#include "eventio_internal.h"

#include <hdf5.h>

enum { EVENTIO_FILTER_DEFLATE = 1, EVENTIO_FILTER_LZF = 32000, EVENTIO_FILTER_BLOSC = 32001 };

/* Bytes of metadata that one operation may read: libhdf5 needs several times as much memory for them. */
enum { EVENTIO_METADATA_BYTES = 4 << 20 };

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
    uint64_t claimed_end; /* of the file, by its header */
    size_t metadata_left; /* bytes of metadata that libhdf5 may still read */
    int metadata_refused; /* it asked for more */
    size_t chunk_bytes;   /* of the buffer that a chunk is read into: reads of another size are refused. 0: any size */
    cusStatus failure;    /* what stopped the driver: NO_MEMORY, or IO with the reason in `error` */
    int error;
    void *file; /* the driver's */
} Hdf5Source;

/* Right after a call of libhdf5 that failed: NO_MEMORY or IO with a message, if neither the file nor the call is to blame; else
 * CUS_OK. */
cusStatus eventio_hdf5Failure(const Hdf5Source *source, const char *function);

/* ---- eventio_hdf5_guard.c: what libhdf5 does not survive. `base` is the address of the superblock ------------------------ */

/* Both: 1 yes, 0 no, -1 if the file cannot be read, with the reason in errno. */

/* Whether the chunks of the dataset at `address`, counted from `base`, have an extent. */
int eventio_datasetIsGood(const EventSource *source, uint64_t base, uint64_t address);

/* Whether the free list of the local heap whose first n bytes are `prefix` ends. 1 also for what is no heap; EVENTIO_HEAP_TOO_LARGE:
 * its names are more metadata than may be read. */
enum { EVENTIO_HEAP_TOO_LARGE = 2 };
int eventio_heapIsGood(const EventSource *source, uint64_t base, const uint8_t *prefix, size_t n);

/* ---- eventio_hdf5_driver.c ------------------------------------------------------------------------------------------------ */

/* Before each call of libhdf5: renews the allowance of metadata, and clears what the driver has noted and chunk_bytes. */
void eventio_beginHdf5(Hdf5Source *source);

/* The end of the file that its header claims, if that is past the true one; else 0. */
uint64_t eventio_hdf5PastEnd(const Hdf5Source *source);

/* The address of the superblock: not 0 after a user block. */
uint64_t eventio_hdf5Base(const Hdf5Source *source);

/* After the file is closed, and before the source is freed. */
void eventio_detachHdf5(Hdf5Source *source);

/* Registers a driver for H5Pset_driver, whose info is a pointer to a Hdf5Source *. Release it with H5FDunregister. */
hid_t eventio_hdf5Driver(void);

enum { HDF5_OUTPUT_DATASETS = 5, HDF5_OUTPUT_MAX_RANK = 4 };

/* A file that is written as `part`, in the folder of `path` under a random name, and renamed when it is finished. Zero-initialize
 * it before eventio_outputName. */
typedef struct Hdf5Output {
    char *path, *part;
    hid_t file, dataset[HDF5_OUTPUT_DATASETS];
} Hdf5Output;

/* 0: out of memory. */
int eventio_outputName(Hdf5Output *output, const char *path);
/* CUS_ERROR_IO: the file cannot be written, with the reason in errno unless that is 0. */
cusStatus eventio_outputFail(const Hdf5Output *output, const char *function);

/* Sets the oldest format in a file's access properties, so that each libhdf5 writes the same bytes. 0: failed. */
int eventio_outputVersion(hid_t access);

/* The caller holds the lock. 0: failed. A dataset grows along its first axis by chunks, with LZF if `compress` is set. */
int eventio_outputCreate(Hdf5Output *output);
int eventio_outputDataset(Hdf5Output *output, int index, hid_t group, const char *name, hid_t type, int rank,
                          const hsize_t *chunk, size_t chunk_bytes, int compress);

/* /frames as cusFrameWriterCreate describes it, as dataset 0. */
int eventio_outputFrames(Hdf5Output *output, int rows, int cols, int type);
/* The same for `frames` frames in one block that is allocated but not written. */
int eventio_outputPlainFrames(Hdf5Output *output, uint64_t frames, int rows, int cols, int type);

/* The attribute of /frames that labels them, once. 0: failed. */
#define EVENTIO_LABEL "part"
cusStatus eventio_checkLabel(const char *function, const char *label);
int eventio_writeLabel(hid_t dataset, const char *label);

/* Both close the file and free what belongs to it. Finish stores and renames the file if `status` is CUS_OK and closing succeeds,
 * otherwise it removes the file; it returns `status` or the new error. */
cusStatus eventio_outputFinish(Hdf5Output *output, cusStatus status, const char *function);
void eventio_outputDiscard(Hdf5Output *output);

#endif
