/* Chunks of trusted files whose filters only libhdf5 and its plugins decode. Their bytes are stored into a dataset of a file in
 * memory that has the same filters, and read from there: libhdf5 never sees the recording's own file. */
#include "check.h"
#include "eventio/hdf5/columns.h"

#include <stdio.h>
#include <stdlib.h>

const char *eventio_filterPackage(unsigned filter) {
    switch (filter) {
    case 1:
        return "deflate: this build of cusight has no zlib";
    case 32000:
        return "LZF: Debian's hdf5-plugin-lzf";
    case 32001:
        return "Blosc: Debian's hdf5-filter-plugin-blosc-serial";
    case 4:
    case 5:
    case 6:
        return "part of libhdf5, if it was built with it";
    case 307:
    case 32004:
    case 32008:
        return "BZip2, LZ4 and Bitshuffle: Debian's hdf5-filter-plugin";
    case 32013:
        return "ZFP: Debian's hdf5-filter-plugin-zfp-serial";
    case 32015:
    case 32026:
        return "Zstandard and Blosc2: Python's hdf5plugin, with its folder in HDF5_PLUGIN_PATH";
    case 0x8ecf:
        return "ECF: for other types than Metavision's events its own plugin";
    default:
        return "registered at portal.hdfgroup.org; put its folder into HDF5_PLUGIN_PATH";
    }
}

#ifndef CUSI_WITH_HDF5_PLUGINS

cusStatus eventio_openPlugin(Table *t) {
    return cusi_fail(CUS_ERROR_UNSUPPORTED,
                     "cusEventReaderOpen: %s is stored with HDF5 filters that need libhdf5, which this build of cusight "
                     "lacks (CUSIGHT_HDF5_PLUGINS)",
                     t->name);
}

void eventio_closePlugin(Hdf5Plugin *plugin) {
    (void)plugin;
}

cusStatus eventio_pluginDecode(Hdf5Plugin *plugin, const uint8_t *in, size_t in_size, uint32_t skipped_filters,
                               uint8_t *out) {
    (void)plugin, (void)in, (void)in_size, (void)skipped_filters, (void)out;
    return CUS_ERROR_FORMAT;
}

#else

#include <hdf5.h>
#include <pthread.h>

/* ---- The lock ------------------------------------------------------------------------------------------------------ */

/* One thread at a time calls libhdf5, which may be built without thread safety. Its error printing is off meanwhile. */
typedef struct Hdf5Lock {
    H5E_auto2_t print;
    void *data;
} Hdf5Lock;

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

static Hdf5Lock lockHdf5(void) {
    Hdf5Lock lock = {NULL, NULL};
    pthread_mutex_lock(&hdf5_mutex);
    H5Eget_auto2(H5E_DEFAULT, &lock.print, &lock.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return lock;
}

static void unlockHdf5(Hdf5Lock lock) {
    H5Eset_auto2(H5E_DEFAULT, lock.print, lock.data);
    pthread_mutex_unlock(&hdf5_mutex);
}

static herr_t lookForMemory(unsigned n, const H5E_error2_t *error, void *found) {
    (void)n;
    if (error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC)
        *(int *)found = 1;
    return 0;
}

/* Whether memory ran out in the call of libhdf5 that failed last. */
static int isOutOfMemory(void) {
    int found = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, lookForMemory, &found);
    return found;
}

/* ---- Decoding ------------------------------------------------------------------------------------------------------ */

struct Hdf5Plugin {
    const Hdf5Dataset *set;
    hid_t file, type;
    hid_t dataset; /* with the filters that are not in `skipped` */
    uint32_t skipped;
};

/* A type of libhdf5 like the dataset's, which some filters ask for. */
static hid_t typeLike(const Hdf5Number *n) {
    static const unsigned sizes[] = {1, 2, 4, 8};
    const hid_t integers[2][2][4] = {{{H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE},
                                      {H5T_STD_U8BE, H5T_STD_U16BE, H5T_STD_U32BE, H5T_STD_U64BE}},
                                     {{H5T_STD_I8LE, H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE},
                                      {H5T_STD_I8BE, H5T_STD_I16BE, H5T_STD_I32BE, H5T_STD_I64BE}}};
    const int big = n->is_big_endian;
    if (n->class == HDF5_FLOAT && n->is_plain)
        return H5Tcopy(n->size == 4 ? (big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE) : (big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE));
    for (int k = 0; k < 4 && n->class == HDF5_INTEGER && n->is_plain; ++k)
        if (sizes[k] == n->size)
            return H5Tcopy(integers[n->is_signed][big][k]);
    return H5Tcreate(H5T_OPAQUE, n->size);
}

/* The chunks' shape and filters. */
static hid_t propertiesLike(const Hdf5Dataset *set, uint32_t skipped, const hsize_t *extents) {
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    int good = H5Pset_chunk(how, (int)set->rank, extents) >= 0;
    for (unsigned k = 0; k < set->filter_count && good; ++k) {
        const Hdf5Filter *f = &set->filters[k];
        if (!(skipped >> k & 1))
            good = f->value_count <= HDF5_MAX_FILTER_VALUES &&
                   H5Pset_filter(how, (H5Z_filter_t)f->id, H5Z_FLAG_OPTIONAL, f->value_count, f->values) >= 0;
    }
    if (good)
        return how;
    H5Pclose(how);
    return -1;
}

/* Makes the dataset for chunks that skip these filters. (libhdf5 1.10 forgets what a chunk skips.) The caller holds the lock. */
static int makeDataset(Hdf5Plugin *p, uint32_t skipped) {
    hsize_t extents[HDF5_MAX_RANK];
    for (unsigned i = 0; i < p->set->rank; ++i)
        extents[i] = p->set->chunk[i];
    if (p->dataset >= 0)
        H5Dclose(p->dataset);
    p->dataset = -1;
    p->skipped = skipped;
    const hid_t how = propertiesLike(p->set, skipped, extents), space = H5Screate_simple((int)p->set->rank, extents, NULL);
    const hid_t reading = H5Pcreate(H5P_DATASET_ACCESS);
    if (how >= 0 && H5Pset_chunk_cache(reading, 0, 0, 0) >= 0) /* each chunk is stored at the same place */
        p->dataset = H5Dcreate_anon(p->file, p->type, space, how, reading);
    H5Pclose(reading);
    H5Sclose(space);
    if (how >= 0)
        H5Pclose(how);
    return p->dataset >= 0;
}

/* The caller holds the lock. */
static int makeFile(Hdf5Plugin *p) {
    enum { GROWTH = 1 << 16 };
    char name[32]; /* two open files must not share it */
    snprintf(name, sizeof name, "cusight-%p", (void *)p);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_core(access, GROWTH, 0) >= 0) /* without it, a file would be written */
        p->file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    if (p->file < 0)
        return 0;
    p->type = typeLike(&p->set->type.number);
    return makeDataset(p, 0);
}

cusStatus eventio_openPlugin(Table *t) {
    const Hdf5Lock lock = lockHdf5();
    unsigned missing = 0;
    for (unsigned k = 0; k < t->set.filter_count && !missing; ++k)
        missing = H5Zfilter_avail((H5Z_filter_t)t->set.filters[k].id) > 0 ? 0 : t->set.filters[k].id;
    Hdf5Plugin *p = missing ? NULL : calloc(1, sizeof *p);
    int made = 0, no_memory = !p;
    if (p) {
        *p = (Hdf5Plugin){&t->set, -1, -1, -1, 0};
        made = makeFile(p);
        no_memory = !made && isOutOfMemory();
        t->plugin = p;
    }
    unlockHdf5(lock);
    CUSI_REQUIRE(!missing, CUS_ERROR_UNSUPPORTED,
                 "cusEventReaderOpen: %s is stored with HDF5 filter %u, which is not installed (%s)", t->name, missing,
                 eventio_filterPackage(missing));
    CUSI_REQUIRE(!no_memory, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    CUSI_REQUIRE(made, CUS_ERROR_FORMAT, "cusEventReaderOpen: libhdf5 does not accept the filters of %s", t->name);
    return CUS_OK;
}

void eventio_closePlugin(Hdf5Plugin *p) {
    if (!p)
        return;
    const Hdf5Lock lock = lockHdf5();
    if (p->dataset >= 0)
        H5Dclose(p->dataset);
    if (p->type >= 0)
        H5Tclose(p->type);
    if (p->file >= 0)
        H5Fclose(p->file);
    unlockHdf5(lock);
    free(p);
}

cusStatus eventio_pluginDecode(Hdf5Plugin *p, const uint8_t *in, size_t in_size, uint32_t skipped_filters, uint8_t *out) {
    const hsize_t first[HDF5_MAX_RANK] = {0};
    const Hdf5Lock lock = lockHdf5();
    const int good = (p->skipped == skipped_filters || makeDataset(p, skipped_filters)) &&
                     H5Dwrite_chunk(p->dataset, H5P_DEFAULT, 0, first, in_size, in) >= 0 &&
                     H5Dread(p->dataset, p->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
    const int no_memory = !good && isOutOfMemory();
    unlockHdf5(lock);
    return good ? CUS_OK : no_memory ? CUS_ERROR_NO_MEMORY : CUS_ERROR_FORMAT;
}

#endif
