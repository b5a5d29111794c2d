/* HDF5 files that are written: shared by writer.c and frames/. */
#ifndef CUSI_EVENTIO_OUTPUT_H
#define CUSI_EVENTIO_OUTPUT_H

#include "cusight/eventio.h"

/* CUS_ERROR_UNSUPPORTED, for a build without HDF5. */
cusStatus eventio_noHdf5(const char *function);

/* Checks that a file can have frames of this shape. */
cusStatus eventio_checkFrames(const char *function, int rows, int cols, int type);

#ifdef CUSI_WITH_HDF5

#include "eventio/hdf5/library.h"

enum { HDF5_OUTPUT_DATASETS = 5, HDF5_OUTPUT_MAX_RANK = 4 };

/* A file that is written as `part`, in the folder of `path` under a random name, and renamed when it is finished.
 * Zero-initialize it before eventio_outputName. */
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

/* Creates /frames as cusFrameWriterCreate describes it, as dataset 0. */
int eventio_outputFrames(Hdf5Output *output, int rows, int cols, int type);
/* The same for `frames` frames in one block that is allocated but not written. */
int eventio_outputPlainFrames(Hdf5Output *output, uint64_t frames, int rows, int cols, int type);

/* The attribute of /frames that labels them, once. 0: failed. */
#define EVENTIO_LABEL "part"
cusStatus eventio_checkLabel(const char *function, const char *label);
int eventio_writeLabel(hid_t dataset, const char *label);

/* Both close the file and free what belongs to it. Finish stores and renames the file if `status` is CUS_OK and closing
 * succeeds, otherwise it removes the file; it returns `status` or the new error. */
cusStatus eventio_outputFinish(Hdf5Output *output, cusStatus status, const char *function);
void eventio_outputDiscard(Hdf5Output *output);

#endif
#endif
