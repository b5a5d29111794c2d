/* A libhdf5 file driver that reads an EventSource. libhdf5 refuses a file that is shorter than its header says; this driver
 * reports no end of file, so the existing part can be read, and fills the rest with zeros as the standard driver does. */
#ifdef CUSI_WITH_HDF5
#include "eventio_hdf5.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t hdf5_mutex = PTHREAD_MUTEX_INITIALIZER;

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

typedef struct DriverFile {
    H5FD_t base; /* first, as libhdf5 requires */
    Hdf5Source *source;
    haddr_t end_of_addresses;
} DriverFile;

static H5FD_t *driverOpen(const char *name, unsigned flags, hid_t properties, haddr_t max_address) {
    (void)name, (void)max_address;
    Hdf5Source *const *info = H5Pget_driver_info(properties);
    DriverFile *file = info && !(flags & H5F_ACC_RDWR) ? calloc(1, sizeof *file) : NULL;
    if (!file)
        return NULL;
    file->source = *info;
    return &file->base;
}

static herr_t driverClose(H5FD_t *file) {
    free(file);
    return 0;
}

static int driverCompare(const H5FD_t *a, const H5FD_t *b) {
    const uintptr_t first = (uintptr_t)((const DriverFile *)a)->source, second = (uintptr_t)((const DriverFile *)b)->source;
    return first < second ? -1 : first > second;
}

static haddr_t driverGetEoa(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const DriverFile *)file)->end_of_addresses;
}

static herr_t driverSetEoa(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((DriverFile *)file)->end_of_addresses = address;
    return 0;
}

static haddr_t driverGetEof(const H5FD_t *file, H5FD_mem_t type) {
    (void)file, (void)type;
    return (haddr_t)1 << 62;
}

static herr_t driverRead(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t address, size_t size, void *buffer) {
    (void)type, (void)properties;
    Hdf5Source *source = ((DriverFile *)file)->source;
    const int64_t got = eventio_readAt(source->source, address, buffer, size);
    if (got < 0)
        return -1;
    if ((size_t)got < size) {
        memset((char *)buffer + got, 0, size - (size_t)got);
        source->past_end = address + size;
    }
    return 0;
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
#else
typedef int eventio_hdf5_driver_is_empty;
#endif
