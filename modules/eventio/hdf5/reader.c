/* Detects HDF5 recordings, and has the format's methods. */
#include "eventio/hdf5/reader.h"
#include "check.h"
#include "eventio/hdf5/columns.h"
#include "eventio/validate.h"
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Looks for the signature of HDF5 at byte 0, or after a user block of 512, 1024, 2048 ... bytes. */
static cusStatus findSignature(const EventSource *source, int *found, uint64_t *base) {
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    *found = 0;
    for (uint64_t at = 0; !*found && at < source->size && at < (uint64_t)1 << 32; at = at ? 2 * at : 512) {
        uint8_t start[8];
        const int64_t got = eventio_readAt(source, at, start, 8);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read: %s", strerror(errno));
        *found = got == 8 && memcmp(start, signature, 8) == 0;
        *base = at;
    }
    return CUS_OK;
}

enum { METADATA_BYTES = 32 << 20 }; /* share of max_memory for the reader without its buffers */

enum { ASKED_EVENTS = 1 << 20 }; /* read at once if cusSetProgress may cancel */

static cusStatus readHdf5(cusEventReader *reader, size_t n, CusiEvents out, size_t *count) {
    Hdf5Reader *h = reader->state;
    *count = 0;
    if (h->index >= h->count) {
        for (int k = 0; k < h->table_count; ++k)
            CUSI_REQUIRE(h->table[k].length == h->count, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the recording ends at event %llu, but %s has %llu entries",
                         (unsigned long long)h->count, h->table[k].name, (unsigned long long)h->table[k].length);
        return CUS_OK;
    }
    if (n > h->count - h->index)
        n = (size_t)(h->count - h->index);
    CusiProgress *const progress = cusi_progress();
    while (*count < n) {
        const CusiEvents to = cusi_eventsFrom(out, *count);
        uint8_t *const columns[EVENTIO_COLUMNS] = {(uint8_t *)to.x, (uint8_t *)to.y, to.p, (uint8_t *)to.t};
        const size_t left = n - *count, piece = progress->callback && left > ASKED_EVENTS ? ASKED_EVENTS : left;
        size_t got = 0;
        const cusStatus status = eventio_readColumns(h, h->index, piece, columns, &got);
        h->index += got;
        *count += got;
        CUS_TRY(status);
        cusi_step(progress, (int64_t)got);
        CUS_TRY(cusi_proceed(progress));
    }
    return CUS_OK;
}

static cusStatus seekHdf5(cusEventReader *reader, uint64_t index) {
    Hdf5Reader *h = reader->state;
    h->index = index < h->count ? index : h->count;
    reader->index = h->index;
    return CUS_OK;
}

static cusStatus readTime(Hdf5Reader *h, uint64_t index, int64_t *time) {
    uint8_t *const columns[EVENTIO_COLUMNS] = {NULL, NULL, NULL, (uint8_t *)time};
    size_t good;
    return eventio_readColumns(h, index, 1, columns, &good);
}

/* Returns whether the error has another cause than the file's contents. */
static int isOutside(cusStatus status) {
    return status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO || status == CUS_ERROR_CAPACITY;
}

/* Ignores damage, which reading reports after the events before it. */
static cusStatus readTimeIfGood(Hdf5Reader *h, uint64_t index, int64_t *time) {
    int64_t found = 0;
    const cusStatus status = h->count ? readTime(h, index, &found) : CUS_ERROR_TRUNCATED;
    if (status == CUS_OK)
        *time = found;
    return isOutside(status) ? status : CUS_OK;
}

/* Searches by bisection. An event that cannot be read counts as too late, so reading from there reports the damage. */
static cusStatus findTimeInHdf5(cusEventReader *reader, int64_t time, uint64_t *index) {
    Hdf5Reader *h = reader->state;
    uint64_t low = 0, high = h->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        int64_t found = 0;
        const cusStatus status = readTime(h, middle, &found);
        if (isOutside(status))
            return status;
        if (status == CUS_OK && found < time)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low;
    return CUS_OK;
}

static cusStatus countHdf5(cusEventReader *reader, uint64_t *count) {
    const Hdf5Reader *h = reader->state;
    *count = h->count;
    return CUS_OK;
}

static void closeFile(Hdf5Reader *h) {
    if (!h)
        return;
    for (int k = 0; k < h->table_count; ++k)
        free(h->table[k].last.data);
    eventio_closeHdf5File(&h->file);
    for (int i = 0; h->jobs && i < h->job_count; ++i) {
        free(h->jobs[i].raw.data);
        free(h->jobs[i].decoded.data);
        free(h->jobs[i].spare.data);
    }
    free(h->jobs);
    eventio_closeFrames(h->frames);
    free(h);
}

static void closeHdf5(cusEventReader *reader) {
    Hdf5Reader *h = reader->state;
    if (h)
        closeFile(h->triggers);
    closeFile(h);
}

static cusStatus createJobs(Hdf5Reader *h, int threads) {
    h->threads = threads;
    h->job_count = EVENTIO_JOBS_PER_THREAD * threads;
    h->jobs = calloc((size_t)h->job_count, sizeof *h->jobs);
    CUSI_REQUIRE(h->jobs, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    return CUS_OK;
}

/* ---- Triggers ------------------------------------------------------------------------------------------------------ */

static cusStatus prepareTriggers(const cusEventReader *reader, const Hdf5Reader *h, Hdf5Reader *triggers, int *found) {
    triggers->max_memory = h->max_memory / 4;
    triggers->max_chunk = h->max_chunk;
    CUS_TRY(createJobs(triggers, 1));
    CUS_TRY(eventio_openHdf5File(&triggers->file, &reader->source, h->file.base, "cusEventReaderReadTriggers"));
    return eventio_openTriggerDataset(triggers, found);
}

/* Opens the triggers, rows of another dataset, with buffers of their own. */
static cusStatus openTriggers(const cusEventReader *reader, Hdf5Reader *h) {
    int found = 0;
    Hdf5Reader *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "cusEventReaderReadTriggers: out of host memory");
    const cusStatus status = prepareTriggers(reader, h, made, &found);
    h->without_triggers = status == CUS_OK && !found;
    if (status != CUS_OK || !found) {
        closeFile(made);
        return status == CUS_OK ? CUS_OK : cusi_renamed("cusEventReaderReadTriggers", status);
    }
    h->triggers = made;
    return CUS_OK;
}

static cusStatus readPiece(Hdf5Reader *triggers, size_t n, cusEventTrigger *out, size_t *count) {
    enum { PIECE = 1024 };
    uint16_t id[PIECE];
    uint8_t value[PIECE];
    int64_t t[PIECE];
    const uint64_t left = triggers->count - triggers->index;
    n = n < PIECE ? n : PIECE;
    n = n < left ? n : (size_t)left;
    uint8_t *const columns[EVENTIO_COLUMNS] = {(uint8_t *)id, NULL, value, (uint8_t *)t};
    const cusStatus status = eventio_readColumns(triggers, triggers->index, n, columns, count);
    triggers->index += *count;
    for (size_t i = 0; i < *count; ++i)
        out[i] = (cusEventTrigger){.t = t[i], .id = (int16_t)id[i], .value = value[i] != 0};
    return status == CUS_OK ? CUS_OK : cusi_renamed("cusEventReaderReadTriggers", status);
}

static cusStatus readTriggers(cusEventReader *reader, size_t n, cusEventTrigger *out, size_t *count) {
    Hdf5Reader *h = reader->state;
    *count = 0;
    if (reader->info.format != CUS_EVENTS_METAVISION)
        return CUS_OK;
    if (!h->triggers && !h->without_triggers)
        CUS_TRY(openTriggers(reader, h));
    CusiProgress *const progress = cusi_progress();
    for (size_t got = 1; h->triggers && *count < n && got;) {
        cusi_step(progress, 0);
        CUS_TRY(cusi_proceed(progress));
        const cusStatus status = readPiece(h->triggers, n - *count, out + *count, &got);
        *count += got;
        CUS_TRY(status);
    }
    return CUS_OK;
}

static void rewindTriggers(cusEventReader *reader) {
    Hdf5Reader *h = reader->state;
    closeFile(h->triggers);
    h->triggers = NULL;
}

/* ---- Opening ------------------------------------------------------------------------------------------------------- */

static const EventReaderMethods hdf5_methods = {readHdf5,     seekHdf5,       findTimeInHdf5, closeHdf5,
                                                readTriggers, rewindTriggers, countHdf5};

cusStatus eventio_openHdf5(cusEventReader *reader) {
    int found;
    uint64_t base;
    CUS_TRY(findSignature(&reader->source, &found, &base));
    if (!found)
        return CUS_OK;
    Hdf5Reader *h = calloc(1, sizeof *h);
    CUSI_REQUIRE(h, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    reader->state = h;
    reader->methods = &hdf5_methods;
    CUS_TRY(createJobs(h, reader->options.threads ? reader->options.threads : cusi_maxThreads()));
    h->max_memory = reader->options.max_memory - METADATA_BYTES;
    h->max_chunk = reader->options.max_chunk;
    CUS_TRY(eventio_openHdf5File(&h->file, &reader->source, base, "cusEventReaderOpen"));
    CUS_TRY(eventio_openDatasets(reader, h));
    CUS_TRY(eventio_checkFormat(reader));

    reader->info.count = (int64_t)h->count;
    int64_t first = -1, last = -1;
    CUS_TRY(readTimeIfGood(h, 0, &first));
    CUS_TRY(readTimeIfGood(h, h->count - 1, &last));
    reader->info.first_time = first;
    reader->info.last_time = last >= first ? last : -1; /* reading reports the event that is out of order */
    return CUS_OK;
}
