/* Gives the recording's bytes to a decoder of the caller's. */
#include "check.h"
#include "eventio/evt/words.h"
#include "eventio/hdf5/reader.h"
#include "host.h"

#include <errno.h>
#include <string.h>

static cusStatus startBytes(cusEventReader *reader, cusEventDecoderOptions *options, cusEventDecoderState *state) {
    static const char function[] = "cusEventReaderDecoder";
    CUSI_NOT_NULL(function, options);
    CUSI_NOT_NULL(function, state);
    const cusEventInfo *info = &reader->info;
    const cusEventFormat framed = eventio_frameFormat(reader);
    CUSI_REQUIRE(
        framed || eventio_isWords(reader), CUS_ERROR_UNSUPPORTED,
        "%s: the file is %s, expected EVT2, EVT2.1, EVT3, EVT4, DAT, Metavision in chunks compressed by ECF or HDF5 "
        "with columns x, y, p and t in equal chunks compressed by LZF",
        function, cusEventFormatName(info->format));
    *options = cusEventDecoderDefaults();
    options->format = framed ? framed : info->format;
    options->legacy = info->legacy;
    options->width = info->width;
    options->height = info->height;
    options->bad_events = reader->options.bad_events;
    if (framed)
        return eventio_startFrames(reader, state);
    *state = *eventio_wordsPlace(reader);
    reader->next_byte = state->offset;
    return CUS_OK;
}

cusStatus cusEventReaderDecoder(cusEventReader *reader, cusEventDecoderOptions *options, cusEventDecoderState *state) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderDecoder", reader, NULL, startBytes(reader, options, state));
}

static const char reading[] = "cusEventReaderReadBytes";

/* Threads take parts in turn: one thread copies 5 to 10 GB/s from the page cache, a fraction of a GPU's bus, and a thread that
 * has to share its core delays only its part. */
cusStatus eventio_readBytesAt(const EventSource *source, uint64_t offset, size_t capacity, void *bytes, int most,
                              size_t *count) {
    enum { PART = 1 << 20 };
    const uint64_t left = source->size > offset ? source->size - offset : 0;
    const size_t n = left < capacity ? (size_t)left : capacity;
    const int useful = cusi_threadsFor(n, PART), threads = useful < most ? useful : most;
    (void)threads;
    size_t read = n;
    int error = 0;
    *count = 0;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)n);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (size_t from = 0; from < n; from += PART) {
        const size_t size = PART < n - from ? PART : n - from;
        if (cusi_isCancelled(progress))
            continue;
        const int64_t got = eventio_readAt(source, offset + from, (char *)bytes + from, size);
        const int failed = got < 0 ? errno : 0;
        (void)cusi_step(progress, failed ? 0 : got);
        if (!failed && (size_t)got == size)
            continue;
#pragma omp critical(cusi_read_bytes)
        {
            error = failed ? failed : error;
            if (!failed && from + (size_t)got < read) /* the file has become shorter */
                read = from + (size_t)got;
        }
    }
    CUSI_REQUIRE(!error, CUS_ERROR_IO, "%s: the file cannot be read after byte %llu: %s", reading,
                 (unsigned long long)offset, strerror(error));
    CUS_TRY(cusi_proceed(progress));
    *count = read;
    return read < n ? eventio_isShorter(source, reading, offset + read) : CUS_OK;
}

static cusStatus readBytes(cusEventReader *reader, size_t capacity, void *bytes, size_t *count) {
    CUSI_NOT_NULL(reading, count);
    *count = 0;
    CUSI_REQUIRE(bytes || !capacity, CUS_ERROR_NULL, "%s: bytes is NULL and capacity %zu", reading, capacity);
    if (eventio_frameFormat(reader))
        return eventio_readFrames(reader, capacity, bytes, count);
    CUSI_REQUIRE(reader->next_byte, CUS_ERROR_VALUE, "%s: expected cusEventReaderDecoder before it", reading);
    const cusStatus status =
        eventio_readBytesAt(&reader->source, reader->next_byte, capacity, bytes, cusi_maxThreads(), count);
    reader->next_byte += *count;
    return status;
}

cusStatus cusEventReaderReadBytes(cusEventReader *reader, size_t capacity, void *bytes, size_t *count) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderReadBytes", reader, NULL,
                 CUSI_LONG("cusEventReaderReadBytes", readBytes(reader, capacity, bytes, count)));
}
