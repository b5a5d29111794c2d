/* Reads the stored frames of files that cusFrameWriter and cusFrameFileLayout made, to join them with others. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/output.h"
#include "eventio/source.h"

#ifndef CUSI_WITH_HDF5

cusStatus cusFrameReaderOpen(cusFrameReader **reader, const char *path, cusFrameFileInfo *info) {
    CUSI_TRACE;
    (void)reader, (void)path, (void)info;
    return eventio_noHdf5("cusFrameReaderOpen");
}

cusStatus cusFrameReaderStored(cusFrameReader *reader, uint64_t frame, void *stored, size_t *bytes) {
    CUSI_TRACE;
    (void)reader, (void)frame, (void)stored, (void)bytes;
    return eventio_noHdf5("cusFrameReaderStored");
}

void cusFrameReaderClose(cusFrameReader *reader) {
    CUSI_TRACE;
    (void)reader;
}

cusStatus cusFrameFileLabel(const char *path, const char *label) {
    CUSI_TRACE;
    (void)path, (void)label;
    return eventio_noHdf5("cusFrameFileLabel");
}

#else

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANK = HDF5_OUTPUT_MAX_RANK };

struct cusFrameReader {
    cusFrameFileInfo info;
    size_t frame_bytes;
    hid_t file, dataset;
    int fd;          /* contiguous frames are read without libhdf5 */
    uint64_t offset; /* where the first contiguous frame starts */
};

/* The cusMat type with this element type and number of channels; -1 if there is none. */
static int typeOf(hid_t type, hsize_t channels) {
    const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_U16LE, H5T_STD_I16LE,
                           H5T_STD_I32LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    for (int depth = 0; depth < (int)(sizeof types / sizeof *types); ++depth)
        if (H5Tequal(type, types[depth]) > 0 && channels >= 1 && channels <= 512)
            return CUS_MAKETYPE(depth, (int)channels);
    return -1;
}

/* Whether each frame is a chunk compressed with LZF alone, or all frames are one block. */
static int isStoredAsOurs(cusFrameReader *r, hid_t properties, const hsize_t *shape) {
    hsize_t chunk[RANK] = {0};
    const H5D_layout_t layout = H5Pget_layout(properties);
    if (layout == H5D_CONTIGUOUS && H5Pget_external_count(properties) == 0) {
        r->offset = shape[0] ? H5Dget_offset(r->dataset) : 0;
        return r->offset != HADDR_UNDEF;
    }
    unsigned flags = 0, values[8] = {0};
    size_t count = 8;
    char name[1];
    r->info.compressed = 1;
    return layout == H5D_CHUNKED && H5Pget_chunk(properties, RANK, chunk) == RANK && chunk[0] == 1 &&
           memcmp(chunk + 1, shape + 1, (RANK - 1) * sizeof *chunk) == 0 && H5Pget_nfilters(properties) == 1 &&
           H5Pget_filter2(properties, 0, &flags, &count, values, 1, name, NULL) == EVENTIO_FILTER_LZF;
}

/* Reads the label. An attribute of another type is not a label. Returns 0 if it cannot be read. */
static int readLabel(cusFrameReader *r) {
    const htri_t exists = H5Aexists(r->dataset, EVENTIO_LABEL);
    if (exists <= 0)
        return exists == 0;
    const hid_t attribute = H5Aopen(r->dataset, EVENTIO_LABEL, H5P_DEFAULT), type = H5Aget_type(attribute);
    const H5T_class_t class = H5Tget_class(type);
    const htri_t variable = class == H5T_STRING ? H5Tis_variable_str(type) : 1;
    const size_t size = variable == 0 ? H5Tget_size(type) : sizeof r->info.label;
    int good = class != H5T_NO_CLASS && variable >= 0 && size > 0;
    if (good && size < sizeof r->info.label)
        good = H5Aread(attribute, type, r->info.label) >= 0;
    H5Tclose(type);
    H5Aclose(attribute);
    return good;
}

/* The caller holds the lock. */
static int openFrames(cusFrameReader *r, const char *path) {
    r->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    r->dataset = r->file < 0 ? -1 : H5Dopen2(r->file, "frames", H5P_DEFAULT);
    if (r->dataset < 0)
        return 0;
    hsize_t shape[RANK] = {0};
    const hid_t space = H5Dget_space(r->dataset), type = H5Dget_type(r->dataset),
                properties = H5Dget_create_plist(r->dataset);
    int good = H5Sget_simple_extent_ndims(space) == RANK && H5Sget_simple_extent_dims(space, shape, NULL) == RANK &&
               shape[1] <= INT32_MAX && shape[2] <= INT32_MAX && isStoredAsOurs(r, properties, shape);
    const int element = good ? typeOf(type, shape[3]) : -1;
    H5Pclose(properties);
    H5Tclose(type);
    H5Sclose(space);
    r->info.frames = shape[0];
    r->info.rows = (int)shape[1];
    r->info.cols = (int)shape[2];
    r->info.type = element;
    good = good && element >= 0 &&
           eventio_checkFrames("cusFrameReaderOpen", r->info.rows, r->info.cols, r->info.type) == CUS_OK;
    return good && readLabel(r);
}

cusStatus cusFrameReaderOpen(cusFrameReader **reader, const char *path, cusFrameFileInfo *info) {
    CUSI_TRACE;
    static const char function[] = "cusFrameReaderOpen";
    CUSI_NOT_NULL(function, reader);
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, info);
    cusFrameReader *r = calloc(1, sizeof *r);
    CUSI_REQUIRE(r, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    r->file = r->dataset = -1;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0) {
        const int why = errno;
        free(r);
        return cusi_fail(CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(why));
    }
    const Hdf5Lock lock = eventio_lockHdf5();
    const int good = openFrames(r, path);
    eventio_unlockHdf5(lock);
    if (!good) {
        cusFrameReaderClose(r);
        return cusi_fail(CUS_ERROR_FORMAT, "%s: %s is not a file of frames that cusight has written", function, path);
    }
    r->frame_bytes = (size_t)r->info.rows * (size_t)r->info.cols * cusTypeSize(r->info.type);
    *info = r->info;
    *reader = r;
    return CUS_OK;
}

static cusStatus readPlain(const cusFrameReader *r, uint64_t frame, void *stored, size_t *bytes) {
    *bytes = r->frame_bytes;
    const EventSource source = {r->fd, NULL, UINT64_MAX};
    const int64_t got = stored ? eventio_readAt(&source, r->offset + frame * r->frame_bytes, stored, r->frame_bytes)
                               : (int64_t)r->frame_bytes;
    CUSI_REQUIRE(got == (int64_t)r->frame_bytes, got < 0 ? CUS_ERROR_IO : CUS_ERROR_TRUNCATED,
                 "cusFrameReaderStored: frame %llu cannot be read", (unsigned long long)frame);
    return CUS_OK;
}

cusStatus cusFrameReaderStored(cusFrameReader *reader, uint64_t frame, void *stored, size_t *bytes) {
    CUSI_TRACE;
    static const char function[] = "cusFrameReaderStored";
    CUSI_NOT_NULL(function, reader);
    CUSI_NOT_NULL(function, bytes);
    CUSI_REQUIRE(frame < reader->info.frames, CUS_ERROR_VALUE, "%s: frame is %llu, expected less than %llu", function,
                 (unsigned long long)frame, (unsigned long long)reader->info.frames);
    if (!reader->info.compressed)
        return readPlain(reader, frame, stored, bytes);
    const hsize_t at[RANK] = {frame, 0, 0, 0};
    hsize_t size = 0;
    uint32_t plain = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    int good = H5Dget_chunk_storage_size(reader->dataset, at, &size) >= 0 && size >= 1 && size <= reader->frame_bytes;
    if (good && stored)
        good =
            H5Dread_chunk(reader->dataset, H5P_DEFAULT, at, &plain, stored) >= 0 && plain == (size == reader->frame_bytes);
    eventio_unlockHdf5(lock);
    CUSI_REQUIRE(good, CUS_ERROR_FORMAT, "%s: frame %llu cannot be read", function, (unsigned long long)frame);
    *bytes = (size_t)size;
    return CUS_OK;
}

void cusFrameReaderClose(cusFrameReader *reader) {
    CUSI_TRACE;
    if (!reader)
        return;
    const Hdf5Lock lock = eventio_lockHdf5();
    if (reader->dataset >= 0)
        H5Dclose(reader->dataset);
    if (reader->file >= 0)
        H5Fclose(reader->file);
    eventio_unlockHdf5(lock);
    close(reader->fd);
    free(reader);
}

/* ---- Labels -------------------------------------------------------------------------------------------------------- */

cusStatus cusFrameFileLabel(const char *path, const char *label) {
    CUSI_TRACE;
    static const char function[] = "cusFrameFileLabel";
    CUSI_NOT_NULL(function, path);
    CUSI_NOT_NULL(function, label);
    CUS_TRY(eventio_checkLabel(function, label));
    errno = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t dataset = file < 0 ? -1 : H5Dopen2(file, "frames", H5P_DEFAULT);
    int good = dataset >= 0 && eventio_writeLabel(dataset, label);
    if (dataset >= 0)
        H5Dclose(dataset);
    if (file >= 0 && H5Fclose(file) < 0)
        good = 0;
    eventio_unlockHdf5(lock);
    CUSI_REQUIRE(good, CUS_ERROR_IO, "%s: %s cannot be labeled%s%s", function, path, errno ? ": " : "",
                 errno ? strerror(errno) : "");
    return CUS_OK;
}

#endif
