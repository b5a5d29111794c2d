/* The bytes of a recording: a regular file or memory. */
#include "eventio/source.h"
#include "check.h"
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kindOfFile(mode_t mode) {
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

cusStatus eventio_openSource(EventSource *source, const char *path, int access, const char *function) {
    /* O_NONBLOCK: opening a pipe that has no writer must not block. */
    source->fd = open(path, access | O_CLOEXEC | O_NONBLOCK);
    CUSI_REQUIRE(source->fd >= 0, CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(errno));
    struct stat about;
    CUSI_REQUIRE(fstat(source->fd, &about) == 0, CUS_ERROR_IO, "%s: %s: %s", function, path, strerror(errno));
    CUSI_REQUIRE(S_ISREG(about.st_mode), CUS_ERROR_IO, "%s: %s is %s, expected a regular file", function, path,
                 kindOfFile(about.st_mode));
    source->size = source->opened = (uint64_t)about.st_size;
    return CUS_OK;
}

cusStatus eventio_pin(EventSource *source, const char *function) {
    void *const mapped = mmap(NULL, (size_t)source->size, PROT_READ, MAP_SHARED, source->fd, 0);
    CUSI_REQUIRE(mapped != MAP_FAILED, CUS_ERROR_IO, "%s: the file cannot be mapped: %s", function, strerror(errno));
    (void)madvise(mapped, (size_t)source->size,
                  MADV_HUGEPAGE); /* pins four times as fast, where the file system has huge pages */
    const cusStatus status = cusi_pin(function, mapped, (size_t)source->size);
    if (status == CUS_OK)
        source->pinned = mapped;
    else
        (void)munmap(mapped, (size_t)source->size);
    return status;
}

void eventio_closeSource(EventSource *source) {
    if (source->pinned) {
        cusi_unpin(source->pinned);
        (void)munmap(source->pinned, (size_t)source->opened);
    }
    if (source->fd >= 0)
        close(source->fd);
}

uint64_t eventio_sizeNow(const EventSource *source) {
    struct stat about;
    const int is_shorter = source->fd >= 0 && fstat(source->fd, &about) == 0 && (uint64_t)about.st_size < source->opened;
    return is_shorter && (uint64_t)about.st_size < source->size ? (uint64_t)about.st_size : source->size;
}

cusStatus eventio_isShorter(const EventSource *source, const char *function, uint64_t end) {
    return cusi_fail(CUS_ERROR_TRUNCATED,
                     "%s: the file ends at byte %llu, and had %llu bytes when it was opened: it has become shorter",
                     function, (unsigned long long)end, (unsigned long long)source->opened);
}

cusStatus eventio_checkSize(const EventSource *source, const char *function) {
    const uint64_t size = eventio_sizeNow(source);
    return size < source->opened ? eventio_isShorter(source, function, size) : CUS_OK;
}

int64_t eventio_readAt(const EventSource *source, uint64_t offset, void *buffer, size_t n) {
    if (offset >= source->size)
        return 0;
    if (n > source->size - offset)
        n = (size_t)(source->size - offset);
    if (source->memory) {
        memcpy(buffer, source->memory + offset, n);
        return (int64_t)n;
    }
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(source->fd, (char *)buffer + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}
