/* Writes HDF5 files in the folder of their place under an unpredictable name, and renames them when they are complete. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dup3, memfd_create */
#endif
#include "eventio/output.h"
#include "check.h"
#include "eventio/hdf5/codec.h"

cusStatus eventio_noHdf5(const char *function) {
    return cusi_fail(CUS_ERROR_UNSUPPORTED, "%s: this build of cusight has no HDF5 (Debian: libhdf5-dev)", function);
}

cusStatus eventio_checkFrames(const char *function, int rows, int cols, int type) {
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frame is %d x %d (rows x cols), expected 1 x 1 or larger",
                 function, rows, cols);
    CUSI_REQUIRE(cusTypeSize(type), CUS_ERROR_TYPE, "%s: type is %s, expected a cusMat type", function,
                 cusi_typeName(type));
    CUSI_REQUIRE((uint64_t)rows * (uint64_t)cols <= UINT32_MAX / cusTypeSize(type), CUS_ERROR_SIZE,
                 "%s: a frame of %d x %d (rows x cols) %s has 2^32 bytes or more", function, rows, cols,
                 cusi_typeName(type));
    return CUS_OK;
}

#ifdef CUSI_WITH_HDF5

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { HIDDEN_NAME = 80 }; /* ".cusight-01234567-01234567-01234567-0123456789abcdef.part" and more */

/* The length of the folder's name in a path, with its slash. */
static size_t folderLength(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

int eventio_outputName(Hdf5Output *o, const char *path) {
    const size_t length = strlen(path);
    o->path = malloc(length + 1);
    o->part = malloc(folderLength(path) + HIDDEN_NAME);
    if (!o->path || !o->part) {
        free(o->path);
        free(o->part);
        o->path = o->part = NULL;
        return 0;
    }
    memcpy(o->path, path, length + 1);
    memcpy(o->part, path, folderLength(path));
    return 1;
}

cusStatus eventio_outputFail(const Hdf5Output *o, const char *function) {
    CUSI_REQUIRE(errno != ENOMEM, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return cusi_fail(CUS_ERROR_IO, "%s: %s cannot be written%s%s", function, o->path, errno ? ": " : "",
                     errno ? strerror(errno) : "");
}

/* Whether a file may take the place of what is there: nothing, or a regular file that its owner has not protected. */
static int isReplaceable(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0)
        return 1;
    if (S_ISREG(there.st_mode))
        return access(path, W_OK) == 0;
    errno =
        S_ISDIR(there.st_mode) ? EISDIR : EINVAL; /* a device or a pipe would be lost, and HDF5 cannot be written to one */
    return 0;
}

int eventio_outputVersion(hid_t access) {
    return access >= 0 && H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) >= 0;
}

static uint32_t hashed(uint32_t hash, const char *text) { /* FNV-1a */
    for (; *text; ++text)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* ".cusight-OUTPUT-HOST-", hashes: the same for all runs that write this path and see each other's process numbers. The programs'
 * hidden names are the same (samples/common/output.cpp). */
static void hiddenStart(const char *path, char start[HIDDEN_NAME]) {
    static const uint32_t seed = 2166136261u;
    struct utsname host = {0};
    struct stat processes;
    uname(&host);
    char number[24];
    snprintf(number, sizeof number, "%llu",
             (unsigned long long)(stat("/proc/self/ns/pid", &processes) == 0 ? processes.st_ino : 0));
    snprintf(start, HIDDEN_NAME, ".cusight-%08x-%08x-", (unsigned)hashed(seed, path + folderLength(path)),
             (unsigned)hashed(hashed(seed, host.nodename), number));
}

/* Whether a run for the path that is no more has left a file of this name. */
static int isLeftover(const char *name, const char *start, const char *path) {
    enum { RANDOM = 17, PART = 5 }; /* a dash and 16 digits, ".part" and perhaps the path's ending */
    if (strncmp(name, start, strlen(start)) != 0)
        return 0;
    char *rest;
    const unsigned long process = strtoul(name + strlen(start), &rest, 16);
    if (strlen(rest) < RANDOM + PART || strncmp(rest + RANDOM, ".part", PART) != 0)
        return 0;
    const char *ending = rest + RANDOM + PART, *type = strrchr(path + folderLength(path), '.');
    return (!*ending || (type && strcmp(ending, type) == 0)) && process > 0 && process <= INT_MAX &&
           kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* Removes what killed runs of this user have left. */
static void removeLeftovers(Hdf5Output *o, const char *start) {
    o->part[folderLength(o->path)] = 0;
    DIR *folder = opendir(o->part[0] ? o->part : ".");
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        struct stat about;
        if (isLeftover(entry->d_name, start, o->path) &&
            fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_uid == geteuid())
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

/* A new file of a random name in the folder of the path. 0: failed, with the reason in errno unless that is 0. */
static int createPart(Hdf5Output *o, hid_t access) {
    char start[HIDDEN_NAME];
    hiddenStart(o->path, start);
    removeLeftovers(o, start);
    do { /* H5F_ACC_EXCL becomes O_EXCL, which follows no link */
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return 0;
        snprintf(o->part + folderLength(o->path), HIDDEN_NAME, "%.27s%x-%016llx.part", start, (unsigned)getpid(),
                 (unsigned long long)random);
        errno = 0;
        o->file = H5Fcreate(o->part, H5F_ACC_EXCL, H5P_DEFAULT, access);
    } while (o->file < 0 && errno == EEXIST);
    if (o->file < 0) { /* on a full disk the file is there but not usable */
        const int why = errno;
        unlink(o->part);
        errno = why;
    }
    return o->file >= 0;
}

int eventio_outputCreate(Hdf5Output *o) {
    errno = 0;
    o->file = -1;
    if (!isReplaceable(o->path))
        return 0;
    errno = 0;
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    const int good = eventio_outputVersion(access) && createPart(o, access);
    const int why = errno;
    H5Pclose(access);
    errno = why;
    return good;
}

int eventio_outputDataset(Hdf5Output *o, int index, hid_t group, const char *name, hid_t type, int rank,
                          const hsize_t *chunk, size_t chunk_bytes, int compress) {
    hsize_t empty[HDF5_OUTPUT_MAX_RANK], max[HDF5_OUTPUT_MAX_RANK];
    memcpy(empty, chunk, (size_t)rank * sizeof *empty);
    memcpy(max, chunk, (size_t)rank * sizeof *max);
    empty[0] = 0;
    max[0] = H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(rank, empty, max), properties = H5Pcreate(H5P_DATASET_CREATE);
    /* The parameters that h5py stores: filter revision, LZF version, chunk size in bytes. */
    const unsigned values[3] = {4, 261, (unsigned)chunk_bytes};
    const int good = H5Pset_chunk(properties, rank, chunk) >= 0 &&
                     H5Pset_obj_track_times(properties, 0) >= 0 && /* the same contents give the same file */
                     (!compress || H5Pset_filter(properties, EVENTIO_FILTER_LZF, H5Z_FLAG_OPTIONAL, 3, values) >= 0);
    o->dataset[index] = good ? H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT) : -1;
    H5Pclose(properties);
    H5Sclose(space);
    return o->dataset[index] >= 0;
}

static hid_t frameType(int type) {
    const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_U16LE, H5T_STD_I16LE,
                           H5T_STD_I32LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    return types[CUS_DEPTH(type)];
}

int eventio_outputFrames(Hdf5Output *o, int rows, int cols, int type) {
    const hsize_t frame[] = {1, (hsize_t)rows, (hsize_t)cols, (hsize_t)CUS_CHANNELS(type)};
    return eventio_outputDataset(o, 0, o->file, "frames", frameType(type), 4, frame,
                                 (size_t)rows * (size_t)cols * cusTypeSize(type), 1);
}

int eventio_outputPlainFrames(Hdf5Output *o, uint64_t frames, int rows, int cols, int type) {
    const hsize_t shape[] = {frames, (hsize_t)rows, (hsize_t)cols, (hsize_t)CUS_CHANNELS(type)};
    const hid_t space = H5Screate_simple(4, shape, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    const int good = H5Pset_layout(properties, H5D_CONTIGUOUS) >= 0 &&
                     H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY) >= 0 &&
                     H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER) >= 0 && H5Pset_obj_track_times(properties, 0) >= 0;
    o->dataset[0] = good ? H5Dcreate2(o->file, "frames", frameType(type), space, H5P_DEFAULT, properties, H5P_DEFAULT) : -1;
    H5Pclose(properties);
    H5Sclose(space);
    return o->dataset[0] >= 0;
}

cusStatus eventio_checkLabel(const char *function, const char *label) {
    const size_t length = strlen(label);
    CUSI_REQUIRE(length >= 1 && length < sizeof((cusFrameFileInfo *)NULL)->label, CUS_ERROR_VALUE,
                 "%s: label has %zu bytes, expected 1 to 63", function, length);
    return CUS_OK;
}

int eventio_writeLabel(hid_t dataset, const char *label) {
    const hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
    const hid_t attribute = H5Tset_size(type, strlen(label) + 1) >= 0
                                ? H5Acreate2(dataset, EVENTIO_LABEL, type, space, H5P_DEFAULT, H5P_DEFAULT)
                                : -1;
    int good = attribute >= 0 && H5Awrite(attribute, type, label) >= 0;
    if (attribute >= 0 && H5Aclose(attribute) < 0)
        good = 0;
    if (attribute >= 0 && !good) /* no label is better than half of one */
        H5Adelete(dataset, EVENTIO_LABEL);
    H5Tclose(type);
    H5Sclose(space);
    return good;
}

/* Lets libhdf5 write the rest of a failed output to memory: it keeps a file open that it cannot write, and fails again at
 * exit. */
static void divert(const Hdf5Output *o) {
    void *handle = NULL;
    if (o->file <= 0 || H5Fget_vfd_handle(o->file, H5P_DEFAULT, &handle) < 0 || !handle)
        return;
    const int memory = memfd_create("cusight", MFD_CLOEXEC);
    if (memory < 0)
        return;
    dup3(memory, *(const int *)handle, O_CLOEXEC);
    close(memory);
}

/* `keep` 0: the file is not wanted, so data not yet stored are dropped. */
static int closeAll(Hdf5Output *o, int keep) {
    const Hdf5Lock lock = eventio_lockHdf5();
    int good = keep && o->file > 0 && H5Fflush(o->file, H5F_SCOPE_LOCAL) >= 0;
    const int why = errno;
    if (!good)
        divert(o);
    for (int k = 0; k < HDF5_OUTPUT_DATASETS; ++k)
        if (o->dataset[k] > 0 && H5Dclose(o->dataset[k]) < 0)
            good = 0;
    if (o->file > 0 && H5Fclose(o->file) < 0)
        good = 0;
    eventio_unlockHdf5(lock);
    if (!good)
        errno = why;
    return good;
}

static void release(Hdf5Output *o) {
    if (o->part && o->file > 0)
        unlink(o->part);
    free(o->path);
    free(o->part);
    memset(o, 0, sizeof *o);
}

/* Synchronizes the file or folder to disk. */
static int syncPath(const char *path, int flags) {
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags);
    if (descriptor < 0)
        return 0;
    const int good = fsync(descriptor) == 0;
    const int why = errno;
    close(descriptor);
    errno = why;
    return good;
}

/* Synchronizes the closed file and gives it its name. */
static int renameOutput(Hdf5Output *o) {
    const mode_t mode = 0777;
    struct stat there;
    if (!syncPath(o->part, 0))
        return 0;
    if (stat(o->path, &there) == 0 && chmod(o->part, there.st_mode & mode) != 0)
        errno = 0; /* the new file keeps the usual permissions */
    if (rename(o->part, o->path) != 0)
        return 0;
    o->part[folderLength(o->path)] = '\0';
    syncPath(o->part[0] ? o->part : ".", O_DIRECTORY); /* a folder that cannot be read is not synchronized */
    o->file = 0;
    return 1;
}

cusStatus eventio_outputFinish(Hdf5Output *o, cusStatus status, const char *function) {
    errno = 0;
    const int closed = closeAll(o, status == CUS_OK);
    if (status == CUS_OK && (!closed || !renameOutput(o)))
        status = eventio_outputFail(o, function);
    release(o);
    return status;
}

void eventio_outputDiscard(Hdf5Output *o) {
    closeAll(o, 0);
    release(o);
}

#endif
