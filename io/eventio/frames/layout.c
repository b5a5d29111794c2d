/* Makes a file of frames without the frames: what libhdf5 writes around them, and where it puts them. A file driver writes
 * everything but raw data. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/output.h"
#include "eventio/source.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

cusStatus cusFramePack(const cusMat *frame, void *packed, size_t *stored) {
    CUSI_TRACE;
    static const char function[] = "cusFramePack";
    CUSI_NOT_NULL(function, packed);
    CUSI_NOT_NULL(function, stored);
    CUS_TRY(cusi_checkMat(function, "frame", frame));
    CUSI_REQUIRE(frame->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frame is in device memory, expected host memory",
                 function);
    CUS_TRY(eventio_checkFrames(function, frame->rows, frame->cols, frame->type));
    const size_t row = cusi_rowBytes(frame), rows = (size_t)frame->rows, bytes = rows * row;
    const uint8_t *plain = frame->data;
    uint8_t *copy = NULL;
    if (frame->step != row) {
        copy = malloc(bytes);
        CUSI_REQUIRE(copy, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
        for (size_t y = 0; y < rows; ++y)
            memcpy(copy + y * row, plain + y * frame->step, row);
        plain = copy;
    }
    *stored = eventio_lzfEncode(plain, bytes, packed);
    if (*stored == 0) {
        memcpy(packed, plain, bytes);
        *stored = bytes;
    }
    free(copy);
    return CUS_OK;
}

#ifndef CUSI_WITH_HDF5

cusStatus cusFrameFileLayout(const char *path, int rows, int cols, int type, uint64_t frames, int compressed,
                             const uint32_t *stored, uint64_t *offsets) {
    CUSI_TRACE;
    (void)path, (void)rows, (void)cols, (void)type, (void)frames, (void)compressed, (void)stored, (void)offsets;
    return eventio_noHdf5("cusFrameFileLayout");
}

#else

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- The driver ---------------------------------------------------------------------------------------------------- */

typedef struct LayoutDriver {
    int fd;
    uint64_t raw;      /* where libhdf5 last wrote raw data */
    uint64_t capacity; /* the end of what libhdf5 wrote */
    int error;         /* why it could not be written, or 0; hidden from libhdf5, which would try again at exit */
    struct LayoutFile *file;
} LayoutDriver;

typedef struct LayoutFile {
    H5FD_t base;          /* first, as libhdf5 requires */
    LayoutDriver *driver; /* NULL: gone, but libhdf5 kept the file, as it does after some errors */
    haddr_t end_of_addresses;
} LayoutFile;

static H5FD_t *layoutOpen(const char *name, unsigned flags, hid_t properties, haddr_t max_address) {
    (void)name, (void)flags, (void)max_address;
    LayoutDriver *const *info = H5Pget_driver_info(properties);
    LayoutFile *file = info ? calloc(1, sizeof *file) : NULL;
    if (!file)
        return NULL;
    file->driver = *info;
    file->driver->file = file;
    return &file->base;
}

static herr_t layoutClose(H5FD_t *file) {
    LayoutDriver *driver = ((LayoutFile *)file)->driver;
    if (driver)
        driver->file = NULL;
    free(file);
    return 0;
}

/* The flags of libhdf5's own driver, which decide where things are placed. */
static herr_t layoutQuery(const H5FD_t *file, unsigned long *flags) {
    (void)file;
    *flags =
        H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t layoutGetEoa(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const LayoutFile *)file)->end_of_addresses;
}

static herr_t layoutSetEoa(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((LayoutFile *)file)->end_of_addresses = address;
    return 0;
}

static haddr_t layoutGetEof(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    const LayoutDriver *driver = ((const LayoutFile *)file)->driver;
    return driver ? driver->capacity : 0;
}

static herr_t layoutRead(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t address, size_t size, void *buffer) {
    (void)type, (void)properties;
    const LayoutDriver *driver = ((const LayoutFile *)file)->driver;
    if (!driver)
        return -1;
    const EventSource source = {driver->fd, NULL, UINT64_MAX};
    const int64_t got = eventio_readAt(&source, address, buffer, size);
    if (got < 0)
        return -1;
    memset((char *)buffer + got, 0, size - (size_t)got);
    return 0;
}

static herr_t layoutWrite(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t address, size_t size,
                          const void *buffer) {
    (void)properties;
    LayoutDriver *driver = ((LayoutFile *)file)->driver;
    if (!driver)
        return 0;
    if (driver->capacity < address + size)
        driver->capacity = address + size;
    if (type == H5FD_MEM_DRAW) {
        driver->raw = address;
        return 0;
    }
    for (size_t done = 0; done < size && !driver->error;) {
        const ssize_t n = pwrite(driver->fd, (const char *)buffer + done, size - done, (off_t)(address + done));
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            driver->error = n == 0 ? ENOSPC : errno;
    }
    return 0;
}

static hid_t registerLayoutDriver(void) {
    const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
        .version = H5FD_CLASS_VERSION,
        .value = (H5FD_class_value_t)601, /* from the range for drivers outside the library */
#endif
        .name = "cusight-layout",
        .maxaddr = ((haddr_t)1 << 62) - 1,
        .fc_degree = H5F_CLOSE_STRONG,
        .fapl_size = sizeof(LayoutDriver *),
        .open = layoutOpen,
        .close = layoutClose,
        .query = layoutQuery,
        .get_eoa = layoutGetEoa,
        .set_eoa = layoutSetEoa,
        .get_eof = layoutGetEof,
        .read = layoutRead,
        .write = layoutWrite,
        .fl_map = H5FD_FLMAP_SINGLE};
    return H5FDregister(&driver);
}

/* ---- The layout ---------------------------------------------------------------------------------------------------- */

typedef struct Frames {
    int rows, cols, type, compressed;
    uint64_t count;
    const uint32_t *stored;
    uint64_t *offsets;
} Frames;

static size_t frameBytes(const Frames *f) {
    return (size_t)f->rows * (size_t)f->cols * cusTypeSize(f->type);
}

/* Writes chunks of the given sizes; the driver drops their contents. */
static int placeChunks(hid_t dataset, const LayoutDriver *driver, const Frames *f) {
    const hsize_t shape[] = {f->count, (hsize_t)f->rows, (hsize_t)f->cols, (hsize_t)CUS_CHANNELS(f->type)};
    const size_t bytes = frameBytes(f);
    void *nothing = calloc(1, bytes);
    int good = nothing && H5Dset_extent(dataset, shape) >= 0;
    for (uint64_t k = 0; k < f->count && good; ++k) {
        const hsize_t at[] = {k, 0, 0, 0};
        const uint32_t plain = f->stored[k] == bytes;
        good = H5Dwrite_chunk(dataset, H5P_DEFAULT, plain, at, f->stored[k], nothing) >= 0;
        f->offsets[k] = driver->raw;
    }
    free(nothing);
    return good;
}

/* Writes everything but the frames; *size receives the length of the file. */
static int writeLayout(hid_t access, const LayoutDriver *driver, const Frames *f, hsize_t *size) {
    Hdf5Output output = {.file = H5Fcreate("layout", H5F_ACC_TRUNC, H5P_DEFAULT, access)};
    if (output.file < 0)
        return 0;
    int good = f->compressed ? eventio_outputFrames(&output, f->rows, f->cols, f->type)
                             : eventio_outputPlainFrames(&output, f->count, f->rows, f->cols, f->type);
    if (good && f->compressed)
        good = placeChunks(output.dataset[0], driver, f);
    else if (good && f->count)
        good = (f->offsets[0] = H5Dget_offset(output.dataset[0])) != HADDR_UNDEF;
    if (output.dataset[0] > 0 && H5Dclose(output.dataset[0]) < 0)
        good = 0;
    good = good && H5Fflush(output.file, H5F_SCOPE_LOCAL) >= 0 && H5Fget_filesize(output.file, size) >= 0;
    return H5Fclose(output.file) >= 0 && good;
}

static cusStatus checkLayout(const char *function, const Frames *f) {
    CUS_TRY(eventio_checkFrames(function, f->rows, f->cols, f->type));
    const size_t bytes = frameBytes(f);
    CUSI_REQUIRE(f->count <= ((uint64_t)1 << 60) / bytes, CUS_ERROR_SIZE, "%s: %llu frames have 2^60 bytes or more",
                 function, (unsigned long long)f->count);
    for (uint64_t k = 0; f->compressed && k < f->count; ++k)
        CUSI_REQUIRE(f->stored[k] >= 1 && f->stored[k] <= bytes, CUS_ERROR_VALUE,
                     "%s: stored[%llu] is %lu, expected 1 to %zu", function, (unsigned long long)k,
                     (unsigned long)f->stored[k], bytes);
    return CUS_OK;
}

cusStatus cusFrameFileLayout(const char *path, int rows, int cols, int type, uint64_t frames, int compressed,
                             const uint32_t *stored, uint64_t *offsets) {
    CUSI_TRACE;
    static const char function[] = "cusFrameFileLayout";
    CUSI_NOT_NULL(function, path);
    if (frames)
        CUSI_NOT_NULL(function, offsets);
    if (frames && compressed)
        CUSI_NOT_NULL(function, stored);
    const Frames f = {rows, cols, type, compressed, frames, stored, offsets};
    CUS_TRY(checkLayout(function, &f));
    LayoutDriver driver = {.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)}, *info = &driver;
    CUSI_REQUIRE(driver.fd >= 0, CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(errno));
    hsize_t size = 0;
    errno = 0;
    const Hdf5Lock lock = eventio_lockHdf5();
    const hid_t id = registerLayoutDriver(), access = H5Pcreate(H5P_FILE_ACCESS);
    int good = id > 0 && eventio_outputVersion(access) && H5Pset_driver(access, id, &info) >= 0 &&
               writeLayout(access, &driver, &f, &size);
    const int why = driver.error ? driver.error : errno;
    if (driver.file)
        driver.file->driver = NULL;
    H5Pclose(access);
    H5FDunregister(id);
    eventio_unlockHdf5(lock);
    errno = why;
    good = good && !driver.error && ftruncate(driver.fd, (off_t)size) == 0;
    const Hdf5Output output = {.path = (char *)path};
    const cusStatus status = good ? CUS_OK : eventio_outputFail(&output, function);
    close(driver.fd);
    return status;
}

#endif
