/* Writes files under an unpredictable name in the same folder, and renames them when they are complete. */
#include "eventio/output.h"
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { HIDDEN_NAME = 80 }; /* ".cusight-01234567-01234567-01234567-0123456789abcdef.part" and more */

/* Returns the length of the folder's name in a path, with its slash. */
static size_t folderLength(const char *path) {
    size_t length = strlen(path);
    while (length && !strchr(CUSI_SEPARATORS, path[length - 1]))
        --length;
    return length;
}

static int setNames(EventOutput *o, const char *path) {
    const size_t length = strlen(path);
    o->path = malloc(length + 1);
    o->part = calloc(1, folderLength(path) + HIDDEN_NAME);
    if (!o->path || !o->part)
        return 0;
    memcpy(o->path, path, length + 1);
    memcpy(o->part, path, folderLength(path));
    return 1;
}

cusStatus eventio_outputFail(const EventOutput *o, const char *function) {
    CUSI_REQUIRE(errno != ENOMEM, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return cusi_fail(CUS_ERROR_IO, "%s: %s cannot be written%s%s", function, o->path, errno ? ": " : "",
                     errno ? strerror(errno) : "");
}

/* Returns whether a file may replace what is there: nothing, or a regular file that its owner has not protected. */
static int isReplaceable(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0)
        return 1;
    if (S_ISREG(there.st_mode))
        return access(path, W_OK) == 0;
    errno = S_ISDIR(there.st_mode) ? EISDIR : EINVAL; /* a device or a pipe would be lost */
    return 0;
}

static uint32_t hashed(uint32_t hash, const char *text) { /* FNV-1a */
    for (; *text; ++text)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* Writes ".cusight-OUTPUT-HOST-", two hashes, which are the same for all runs that write this path and see each other's
 * process numbers. The programs use the same hidden names (samples/common/output.cpp). */
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

/* Returns whether this is a file for the path of a run that has ended. */
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

/* Removes what this user's killed runs have left. */
static void removeLeftovers(EventOutput *o, const char *start) {
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

/* Creates a file with a random name in the folder of the path. Returns 0 on failure, see errno. */
static int createPart(EventOutput *o) {
    char start[HIDDEN_NAME];
    hiddenStart(o->path, start);
    removeLeftovers(o, start);
    do {
        uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return 0;
        snprintf(o->part + folderLength(o->path), HIDDEN_NAME, "%.27s%x-%016llx.part", start, (unsigned)getpid(),
                 (unsigned long long)random);
        o->fd = open(o->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    } while (o->fd < 0 && errno == EEXIST);
    return o->fd >= 0;
}

static void release(EventOutput *o) {
    free(o->path);
    free(o->part);
    *o = (EventOutput){.fd = -1};
}

cusStatus eventio_outputCreate(EventOutput *o, const char *path, const char *function) {
    *o = (EventOutput){.fd = -1};
    errno = ENOMEM;
    if (setNames(o, path) && isReplaceable(path) && createPart(o))
        return CUS_OK;
    const cusStatus status = eventio_outputFail(o, function);
    release(o);
    return status;
}

int eventio_writeAt(int fd, uint64_t at, const void *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t put = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (put > 0) {
            done += (size_t)put;
        } else if (put == 0 || errno != EINTR) {
            errno = put == 0 ? ENOSPC : errno;
            return 0;
        }
    }
    return 1;
}

cusStatus eventio_outputWrite(EventOutput *o, uint64_t at, const void *bytes, size_t n, const char *function) {
    return eventio_writeAt(o->fd, at, bytes, n) ? CUS_OK : eventio_outputFail(o, function);
}

/* Synchronizes a folder to disk; one that cannot be read is not synchronized. */
static void syncFolder(const char *path) {
    const int folder = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY);
    if (folder < 0)
        return;
    (void)fsync(folder);
    close(folder);
}

/* Synchronizes, closes and renames the file. */
static int renameOutput(EventOutput *o) {
    const mode_t mode = 0777;
    struct stat there;
    int good = fsync(o->fd) == 0;
    if (good && stat(o->path, &there) == 0 && fchmod(o->fd, there.st_mode & mode) != 0)
        errno = 0; /* the new file keeps the usual permissions */
    const int why = errno;
    if (close(o->fd) != 0)
        good = 0;
    else
        errno = why;
    o->fd = -1;
    if (!good || rename(o->part, o->path) != 0)
        return 0;
    o->part[folderLength(o->path)] = '\0';
    syncFolder(o->part[0] ? o->part : ".");
    return 1;
}

cusStatus eventio_outputFinish(EventOutput *o, cusStatus status, const char *function) {
    if (status != CUS_OK) {
        eventio_outputDiscard(o);
        return status;
    }
    if (renameOutput(o)) {
        release(o);
        return CUS_OK;
    }
    status = eventio_outputFail(o, function);
    unlink(o->part);
    release(o);
    return status;
}

void eventio_outputDiscard(EventOutput *o) {
    if (o->fd >= 0) {
        close(o->fd);
        unlink(o->part);
    }
    release(o);
}
