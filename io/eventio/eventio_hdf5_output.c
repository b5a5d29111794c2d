/* HDF5 output files: written under a temporary name and renamed when complete. */
#include "check.h"
#include "eventio_internal.h"

cusStatus eventio_noHdf5(const char *function) {
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no HDF5 (Debian: libhdf5-dev)", function);
}

#ifdef CUSI_WITH_HDF5

#include "eventio_hdf5.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int eventio_outputName(Hdf5Output *o, const char *path) {
    const size_t length = strlen(path);
    o->path = malloc(length + 1);
    o->part = malloc(length + 6);
    if (!o->path || !o->part) {
        free(o->path);
        free(o->part);
        o->path = o->part = NULL;
        return 0;
    }
    memcpy(o->path, path, length + 1);
    snprintf(o->part, length + 6, "%s.part", path);
    return 1;
}

cusStatus eventio_outputFail(const Hdf5Output *o, const char *function) {
    return cusi_fail(CUS_ERROR_IO, "%s: %s cannot be written%s%s", function, o->part, errno ? ": " : "",
                     errno ? strerror(errno) : "");
}

int eventio_outputCreate(Hdf5Output *o) {
    errno = 0;
    o->file = H5Fcreate(o->part, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    return o->file >= 0;
}

int eventio_outputDataset(Hdf5Output *o, int index, hid_t group, const char *name, hid_t type, int rank,
                          const hsize_t *chunk, size_t chunk_bytes, int compress) {
    hsize_t empty[HDF5_OUTPUT_MAX_RANK], max[HDF5_OUTPUT_MAX_RANK];
    memcpy(empty, chunk, (size_t)rank * sizeof *empty);
    memcpy(max, chunk, (size_t)rank * sizeof *max);
    empty[0] = 0;
    max[0] = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(rank, empty, max), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, rank, chunk);
    /* The parameters that h5py stores: filter revision, LZF version, chunk size in bytes. */
    const unsigned values[3] = {4, 261, (unsigned)chunk_bytes};
    if (compress)
        H5Pset_filter(properties, EVENTIO_FILTER_LZF, H5Z_FLAG_OPTIONAL, 3, values);
    o->dataset[index] = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    H5Sclose(space);
    return o->dataset[index] >= 0;
}

static int closeAll(Hdf5Output *o) {
    int good = 1;
    const Hdf5Lock lock = eventio_lockHdf5();
    for (int k = 0; k < HDF5_OUTPUT_DATASETS; ++k)
        if (o->dataset[k] > 0 && H5Dclose(o->dataset[k]) < 0)
            good = 0;
    if (o->file > 0 && H5Fclose(o->file) < 0)
        good = 0;
    eventio_unlockHdf5(lock);
    return good;
}

static void freeNames(Hdf5Output *o) {
    free(o->path);
    free(o->part);
}

cusStatus eventio_outputFinish(Hdf5Output *o, cusStatus status, const char *function) {
    errno = 0;
    const int closed = closeAll(o);
    if (status == CUS_OK && (!closed || rename(o->part, o->path) != 0))
        status = eventio_outputFail(o, function);
    if (status != CUS_OK)
        remove(o->part);
    freeNames(o);
    return status;
}

void eventio_outputDiscard(Hdf5Output *o) {
    closeAll(o);
    if (o->part)
        remove(o->part);
    freeNames(o);
}

#endif
