/* Entry points of the readers: opening by content, checking what the formats deliver. */
#include "check.h"
#include "eventio_backend.h"
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *cusEventFormatName(cusEventFormat format) {
    static const char *const names[] = {"any", "M3ED", "DSEC", "EVT2", "EVT3", "DAT", "text"};
    return (unsigned)format < sizeof names / sizeof *names ? names[format] : "unknown";
}

cusEventReaderOptions cusEventReaderDefaults(void) {
    return (cusEventReaderOptions){.bad_events = CUS_BAD_EVENTS_STOP};
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

/* ---- Opening -----------------------------------------------------------------------------------------------------------
 */

static cusStatus checkOptions(const cusEventReaderOptions *options) {
    CUSI_REQUIRE((options->width == 0 && options->height == 0) ||
                     (options->width >= 1 && options->width <= 65536 && options->height >= 1 && options->height <= 65536),
                 CUS_ERROR_VALUE, "cusEventReaderOpen: sensor %d x %d (width x height), takes 0 x 0 or 1..65536 each",
                 options->width, options->height);
    CUSI_REQUIRE(options->format >= CUS_EVENTS_ANY && options->format <= CUS_EVENTS_TEXT, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: format is %d, takes a cusEventFormat", (int)options->format);
    CUSI_REQUIRE(options->bad_events == CUS_BAD_EVENTS_STOP || options->bad_events == CUS_BAD_EVENTS_SKIP, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: bad_events is %d, takes a cusBadEvents", (int)options->bad_events);
    CUSI_REQUIRE(options->threads >= 0 && options->threads <= 1024, CUS_ERROR_VALUE,
                 "cusEventReaderOpen: threads is %d, takes 0..1024", options->threads);
    CUSI_REQUIRE(!options->camera || (options->camera[0] && strlen(options->camera) < 32 && !strchr(options->camera, '/')),
                 CUS_ERROR_VALUE, "cusEventReaderOpen: camera is \"%.40s\", takes a name of 1 to 31 letters",
                 options->camera);
    return CUS_OK;
}

static cusStatus openSource(EventSource *source, const char *path) {
    /* Without O_NONBLOCK a pipe that nobody writes to would hold us here. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CUSI_REQUIRE(source->fd >= 0, CUS_ERROR_IO, "cusEventReaderOpen: %s: %s", path, strerror(errno));
    struct stat about;
    CUSI_REQUIRE(fstat(source->fd, &about) == 0, CUS_ERROR_IO, "cusEventReaderOpen: %s: %s", path, strerror(errno));
    CUSI_REQUIRE(S_ISREG(about.st_mode), CUS_ERROR_IO, "cusEventReaderOpen: %s is %s, takes a regular file", path,
                 S_ISDIR(about.st_mode)    ? "a directory"
                 : S_ISFIFO(about.st_mode) ? "a pipe"
                 : S_ISSOCK(about.st_mode) ? "a socket"
                                           : "a device");
    source->size = (uint64_t)about.st_size;
    return CUS_OK;
}

static cusStatus allocateScratch(EventArrays *scratch) {
    scratch->x = malloc(EVENTIO_SCRATCH * sizeof *scratch->x);
    scratch->y = malloc(EVENTIO_SCRATCH * sizeof *scratch->y);
    scratch->p = malloc(EVENTIO_SCRATCH * sizeof *scratch->p);
    scratch->t = malloc(EVENTIO_SCRATCH * sizeof *scratch->t);
    CUSI_REQUIRE(scratch->x && scratch->y && scratch->p && scratch->t, CUS_ERROR_NO_MEMORY,
                 "cusEventReaderOpen: no host memory");
    return CUS_OK;
}

/* `reader` owns the source by now. */
static cusStatus openReader(cusEventReader *reader) {
    CUSI_REQUIRE(reader->source.size, CUS_ERROR_FORMAT, "cusEventReaderOpen: the file is empty");
    CUS_TRY(allocateScratch(&reader->scratch));
    reader->info = (cusEventInfo){.count = -1, .first_time = -1, .last_time = -1};
    reader->last_time = -1;
    CUS_TRY(eventio_openHdf5(reader));
    if (!reader->format)
        CUS_TRY(eventio_openStream(reader));
    if (reader->options.width) {
        reader->info.width = reader->options.width;
        reader->info.height = reader->options.height;
    }
    return CUS_OK;
}

static cusStatus makeReader(cusEventReader **reader, const char *path, const void *data, size_t size,
                            const cusEventReaderOptions *options) {
    const cusEventReaderOptions chosen = options ? *options : cusEventReaderDefaults();
    CUS_TRY(checkOptions(&chosen));
    cusEventReader *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: no host memory");
    made->options = chosen;
    made->source = (EventSource){-1, data, size};
    cusStatus status = path ? openSource(&made->source, path) : CUS_OK;
    if (status == CUS_OK)
        status = openReader(made);
    made->options.camera = NULL; /* the caller's string; info.camera has it */
    if (status != CUS_OK) {
        cusEventReaderClose(made);
        return status;
    }
    *reader = made;
    return CUS_OK;
}

cusStatus cusEventReaderOpen(cusEventReader **reader, const char *path, const cusEventReaderOptions *options) {
    CUSI_NOT_NULL("cusEventReaderOpen", reader);
    CUSI_NOT_NULL("cusEventReaderOpen", path);
    return makeReader(reader, path, NULL, 0, options);
}

cusStatus cusEventReaderOpenMemory(cusEventReader **reader, const void *data, size_t size,
                                   const cusEventReaderOptions *options) {
    CUSI_NOT_NULL("cusEventReaderOpenMemory", reader);
    CUSI_NOT_NULL("cusEventReaderOpenMemory", data);
    return makeReader(reader, NULL, data, size, options);
}

void cusEventReaderClose(cusEventReader *reader) {
    if (!reader)
        return;
    if (reader->format)
        reader->format->close(reader);
    if (reader->source.fd >= 0)
        close(reader->source.fd);
    free(reader->scratch.x);
    free(reader->scratch.y);
    free(reader->scratch.p);
    free(reader->scratch.t);
    free(reader);
}

cusStatus cusEventReaderInfo(const cusEventReader *reader, cusEventInfo *info) {
    CUSI_NOT_NULL("cusEventReaderInfo", reader);
    CUSI_NOT_NULL("cusEventReaderInfo", info);
    *info = reader->info;
    return CUS_OK;
}

cusStatus cusEventReaderCounts(const cusEventReader *reader, cusEventCounts *counts) {
    CUSI_NOT_NULL("cusEventReaderCounts", reader);
    CUSI_NOT_NULL("cusEventReaderCounts", counts);
    *counts = reader->counts;
    return CUS_OK;
}

/* ---- Checking events ---------------------------------------------------------------------------------------------------
 */

/* What an event may be. `last` is the time before the first of them. */
typedef struct Limits {
    uint32_t width, height;
} Limits;

/* Whether any of n events breaks a rule: branch-free, so that the compiler vectorizes it. */
CUSI_MULTIVERSION
static int anyBad(EventArrays e, size_t n, Limits limits, int64_t last) {
    uint32_t place = 0, polarity = 0, order = n && e.t[0] < last;
    for (size_t i = 0; i < n; ++i)
        place |= (uint32_t)(e.x[i] >= limits.width) | (uint32_t)(e.y[i] >= limits.height);
    for (size_t i = 0; i < n; ++i)
        polarity |= e.p[i];
    for (size_t i = 1; i < n; ++i)
        order |= e.t[i] < e.t[i - 1];
    return place || polarity > 1 || order;
}

/* The events in the block of CHECK_BLOCK are good up to the first bad one. */
enum { CHECK_BLOCK = 16384 };

static size_t goodPrefix(EventArrays e, size_t n, Limits limits, int64_t last) {
    for (size_t i = 0; i < n; ++i) {
        if (e.x[i] >= limits.width || e.y[i] >= limits.height || e.p[i] > 1 || e.t[i] < last)
            return i;
        last = e.t[i];
    }
    return n;
}

/* Good events before the first bad one. */
static size_t checkEvents(EventArrays e, size_t n, Limits limits, int64_t last) {
    const int64_t blocks = (int64_t)((n + CHECK_BLOCK - 1) / CHECK_BLOCK);
    int64_t bad = blocks;
#pragma omp parallel for schedule(static) reduction(min : bad) if (blocks > 8)
    for (int64_t b = 0; b < blocks; ++b) {
        const size_t first = (size_t)b * CHECK_BLOCK, size = n - first < CHECK_BLOCK ? n - first : CHECK_BLOCK;
        if (anyBad(eventio_from(e, first), size, limits, first ? e.t[first - 1] : last) && b < bad)
            bad = b;
    }
    if (bad == blocks)
        return n;
    const size_t first = (size_t)bad * CHECK_BLOCK, size = n - first < CHECK_BLOCK ? n - first : CHECK_BLOCK;
    return first + goodPrefix(eventio_from(e, first), size, limits, first ? e.t[first - 1] : last);
}

/* Moves the good events together and counts the others; returns how many are left. */
static size_t dropBad(EventArrays e, size_t first, size_t n, Limits limits, int64_t last, cusEventCounts *counts) {
    size_t kept = first;
    for (size_t i = first; i < n; ++i) {
        if (e.x[i] >= limits.width || e.y[i] >= limits.height) {
            ++counts->bad_coordinates;
        } else if (e.p[i] > 1) {
            ++counts->bad_polarity;
        } else if (e.t[i] < last) {
            ++counts->bad_time;
        } else {
            last = e.t[i];
            e.x[kept] = e.x[i];
            e.y[kept] = e.y[i];
            e.p[kept] = e.p[i];
            e.t[kept] = e.t[i];
            ++kept;
        }
    }
    return kept;
}

static cusStatus describeBad(EventArrays e, size_t i, Limits limits, int64_t last, uint64_t index) {
    const unsigned long long n = index;
    if (e.x[i] >= limits.width || e.y[i] >= limits.height)
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: event %llu at x %d, y %d is outside the %u x %u sensor", n,
                         e.x[i], e.y[i], limits.width, limits.height);
    if (e.p[i] > 1)
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: event %llu has a polarity that is neither 0 nor 1", n);
    return cusi_fail(CUS_ERROR_FORMAT,
                     "cusEventReaderRead: event %llu at %lld us is earlier than the one before at %lld us", n,
                     (long long)e.t[i], (long long)last);
}

/* ---- Reading -----------------------------------------------------------------------------------------------------------
 */

/* The error is kept for the next call. */
static cusStatus breakOff(cusEventReader *reader, cusStatus status) {
    reader->broken = status;
    strncpy(reader->message, cusLastError(), sizeof reader->message - 1);
    return status;
}

/* One piece into arrays that are all there. *got < n and CUS_OK: the end. */
static cusStatus readPiece(cusEventReader *reader, size_t n, EventArrays out, size_t *got) {
    const Limits limits = {reader->info.width ? (uint32_t)reader->info.width : 65536,
                           reader->info.height ? (uint32_t)reader->info.height : 65536};
    *got = 0;
    while (*got < n) {
        EventArrays e = eventio_from(out, *got);
        size_t count = 0;
        cusStatus status = reader->format->read(reader, n - *got, e, &count);
        const size_t good = checkEvents(e, count, limits, reader->last_time);
        size_t kept = good;
        if (good < count) {
            const int64_t last = good ? e.t[good - 1] : reader->last_time;
            if (reader->options.bad_events == CUS_BAD_EVENTS_SKIP)
                kept = dropBad(e, good, count, limits, last, &reader->counts);
            else
                status = describeBad(e, good, limits, last, reader->index + good);
        }
        if (kept)
            reader->last_time = e.t[kept - 1];
        reader->index += count;
        reader->counts.events += kept;
        *got += kept;
        if (status != CUS_OK)
            return breakOff(reader, status);
        if (!count)
            break;
    }
    return CUS_OK;
}

cusStatus cusEventReaderRead(cusEventReader *reader, size_t capacity, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t,
                             size_t *count) {
    CUSI_NOT_NULL("cusEventReaderRead", reader);
    CUSI_NOT_NULL("cusEventReaderRead", count);
    *count = 0;
    if (reader->broken != CUS_OK)
        return cusi_fail(reader->broken, "%s", reader->message);
    const int whole = x && y && p && t;
    while (*count < capacity) {
        size_t n = capacity - *count, got = 0;
        EventArrays out = {x ? x + *count : reader->scratch.x, y ? y + *count : reader->scratch.y,
                           p ? p + *count : reader->scratch.p, t ? t + *count : reader->scratch.t};
        if (!whole && n > EVENTIO_SCRATCH)
            n = EVENTIO_SCRATCH;
        const cusStatus status = readPiece(reader, n, out, &got);
        *count += got;
        if (status != CUS_OK)
            return status;
        if (got < n)
            break;
    }
    return CUS_OK;
}

static cusStatus seek(cusEventReader *reader, uint64_t index) {
    reader->broken = CUS_OK;
    reader->last_time = -1;
    const cusStatus status = reader->format->seekIndex(reader, index);
    reader->counts = (cusEventCounts){0};
    return status == CUS_OK ? status : breakOff(reader, status);
}

cusStatus cusEventReaderSeekIndex(cusEventReader *reader, int64_t index) {
    CUSI_NOT_NULL("cusEventReaderSeekIndex", reader);
    CUSI_REQUIRE(index >= 0, CUS_ERROR_VALUE, "cusEventReaderSeekIndex: index is %lld, takes 0 or more", (long long)index);
    return seek(reader, (uint64_t)index);
}

cusStatus cusEventReaderSeekTime(cusEventReader *reader, int64_t time, int64_t *index) {
    CUSI_NOT_NULL("cusEventReaderSeekTime", reader);
    reader->broken = CUS_OK;
    uint64_t found = 0;
    const cusStatus status = reader->format->findTime(reader, time, &found);
    if (status != CUS_OK)
        return breakOff(reader, status);
    CUS_TRY(seek(reader, found));
    if (index)
        *index = (int64_t)found;
    return CUS_OK;
}
