/* libhdf5's lock and errors, and a file driver that reads an EventSource. libhdf5 allocates up to the end of the file that
 * the header claims; this driver reports the true end, and bounds the metadata that one operation may read. */
#include "check.h"
#ifdef CUSI_WITH_HDF5
#include "eventio/hdf5/driver.h"
#include "eventio/hdf5/guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

cusStatus eventio_hdf5Failure(const Hdf5Source *source, const char *function) {
    int found = source->failure == CUS_ERROR_NO_MEMORY;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, lookForMemory, &found);
    CUSI_REQUIRE(!found, CUS_ERROR_NO_MEMORY, "%s: out of host memory in libhdf5", function);
    CUSI_REQUIRE(source->failure != CUS_ERROR_IO, CUS_ERROR_IO, "%s: the file cannot be read: %s", function,
                 strerror(source->error));
    return CUS_OK;
}

enum { PAGE = 4096 }; /* reads past the end give zeros up to the end of the last page */

static haddr_t paddedEnd(const Hdf5Source *source) {
    return (source->source->size + PAGE - 1) / PAGE * PAGE;
}

void eventio_beginHdf5(Hdf5Source *source) {
    source->metadata_left = EVENTIO_METADATA_BYTES;
    source->metadata_refused = 0;
    source->chunk_bytes = 0;
    source->failure = CUS_OK;
}

uint64_t eventio_hdf5PastEnd(const Hdf5Source *source) {
    return source->claimed_end > source->source->size ? source->claimed_end : 0;
}

typedef struct DriverFile {
    H5FD_t base;        /* first, as libhdf5 requires */
    Hdf5Source *source; /* NULL: the reader is gone, but libhdf5 kept the file, as it does after some errors */
    haddr_t end_of_addresses;
} DriverFile;

void eventio_detachHdf5(Hdf5Source *source) {
    if (source->file)
        ((DriverFile *)source->file)->source = NULL;
    source->file = NULL;
}

uint64_t eventio_hdf5Base(const Hdf5Source *source) {
    return source->file ? ((const DriverFile *)source->file)->base.base_addr : 0;
}

static H5FD_t *driverOpen(const char *name, unsigned flags, hid_t properties, haddr_t max_address) {
    (void)name, (void)max_address;
    Hdf5Source *const *info = H5Pget_driver_info(properties);
    if (!info || flags & H5F_ACC_RDWR)
        return NULL;
    DriverFile *file = calloc(1, sizeof *file);
    if (!file) {
        (*info)->failure = CUS_ERROR_NO_MEMORY;
        return NULL;
    }
    file->source = *info;
    file->source->file = file;
    return &file->base;
}

static herr_t driverClose(H5FD_t *file) {
    Hdf5Source *source = ((DriverFile *)file)->source;
    if (source && source->file == file)
        source->file = NULL;
    free(file);
    return 0;
}

static int driverCompare(const H5FD_t *a, const H5FD_t *b) {
    const uintptr_t first = (uintptr_t)((const DriverFile *)a)->source, second = (uintptr_t)((const DriverFile *)b)->source;
    return first < second ? -1 : first > second;
}

static haddr_t driverGetEoa(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    const DriverFile *f = (const DriverFile *)file;
    const haddr_t end = f->source ? paddedEnd(f->source) : 0;
    return f->end_of_addresses < end ? f->end_of_addresses : end;
}

static herr_t driverSetEoa(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
    (void)type;
    DriverFile *f = (DriverFile *)file;
    f->end_of_addresses = address;
    if (f->source && address > f->source->claimed_end)
        f->source->claimed_end = address;
    return 0;
}

static haddr_t driverGetEof(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    const Hdf5Source *source = ((const DriverFile *)file)->source;
    return source ? source->source->size : 0;
}

/* errno says why the file cannot be read. */
static herr_t cannotRead(Hdf5Source *source) {
    source->failure = CUS_ERROR_IO;
    source->error = errno;
    return -1;
}

static herr_t driverRead(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t address, size_t size, void *buffer) {
    (void)properties;
    Hdf5Source *source = ((DriverFile *)file)->source;
    if (!source)
        return -1;
    const uint64_t end = source->source->size;
    /* Only metadata are padded: half an index is better than none, but half a chunk would give events that do not exist. */
    if (address >= end || size > (type == H5FD_MEM_DRAW ? end : paddedEnd(source)) - address)
        return -1;
    if (type == H5FD_MEM_DRAW && source->chunk_bytes && size != source->chunk_bytes)
        return -1;
    if (type != H5FD_MEM_DRAW) {
        if (size > source->metadata_left) {
            source->metadata_refused = 1;
            return -1;
        }
        source->metadata_left -= size;
    }
    const int64_t got = eventio_readAt(source->source, address, buffer, size);
    if (got < 0)
        return cannotRead(source);
    if ((size_t)got < size && address + (uint64_t)got < end) /* the file has become shorter */
        return -1;
    memset((char *)buffer + got, 0, size - (size_t)got);
    const int good = type == H5FD_MEM_LHEAP ? eventio_heapIsGood(source->source, file->base_addr, buffer, size) : 1;
    if (good == EVENTIO_HEAP_TOO_LARGE) {
        source->metadata_refused = 1;
        return -1;
    }
    return good < 0 ? cannotRead(source) : good - 1;
}

static herr_t driverWrite(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t address, size_t size,
                          const void *buffer) {
    (void)file, (void)type, (void)properties, (void)address, (void)size, (void)buffer;
    return -1;
}

hid_t eventio_hdf5Driver(void) {
    const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
        .version = H5FD_CLASS_VERSION,
        .value = (H5FD_class_value_t)600, /* from the range for drivers outside the library */
#endif
        .name = "cusight",
        .maxaddr = ((haddr_t)1 << 62) - 1,
        .fc_degree = H5F_CLOSE_STRONG,
        .fapl_size = sizeof(Hdf5Source *),
        .open = driverOpen,
        .close = driverClose,
        .cmp = driverCompare,
        .get_eoa = driverGetEoa,
        .set_eoa = driverSetEoa,
        .get_eof = driverGetEof,
        .read = driverRead,
        .write = driverWrite,
        .fl_map = H5FD_FLMAP_SINGLE};
    return H5FDregister(&driver);
}
#endif
