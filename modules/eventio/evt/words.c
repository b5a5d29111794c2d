/* Reads and seeks in formats without an index. At every million events a checkpoint keeps the decoder's state; seeking
 * starts from the nearest one.
 *
 * The decoder delivers bad events too: seeking counts them, and reader.c checks what is read. */
#include "eventio/evt/words.h"
#include "check.h"
#include "eventio/evt/header.h"
#include "eventio/evt/triggers.h"
#include "eventio/text.h"
#include "eventio/validate.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, CHECKPOINT_EVENTS = 1000000 };

typedef struct WordReader {
    cusEventDecoder *decoder; /* NULL: text */
    TriggerReader *triggers;
    int legacy; /* EVT2.1: the upper half of each word comes first */
    cusEventDecoderState state;
    int lost;               /* the decoder has failed: seeking starts from a checkpoint */
    cusEventCounts counted; /* what reader->counts has of the decoder's */
    uint8_t *buffer;        /* `filled` bytes of the file, from `start` on */
    uint64_t start;
    size_t filled;
    cusEventDecoderState place; /* the state from which a decoder of the caller's starts: a mark, or the first event */
    cusEventDecoderState *checkpoints; /* the first is the state before the first event */
    size_t checkpoint_count, checkpoint_capacity;
} WordReader;

static cusStatus addCheckpoint(WordReader *words) {
    if (words->checkpoint_count == words->checkpoint_capacity) {
        const size_t capacity = 2 * words->checkpoint_capacity + 16;
        cusEventDecoderState *grown = realloc(words->checkpoints, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
        words->checkpoints = grown;
        words->checkpoint_capacity = capacity;
    }
    words->checkpoints[words->checkpoint_count++] = words->state;
    return CUS_OK;
}

/* Returns the offset in the file of the next byte that the decoder takes. */
static uint64_t position(const WordReader *words) {
    return words->state.offset + words->state.carried;
}

/* Moves the unused bytes to the front of the buffer and reads more after them. */
static cusStatus refill(cusEventReader *reader, WordReader *words) {
    const size_t used = (size_t)(position(words) - words->start), kept = words->filled - used;
    memmove(words->buffer, words->buffer + used, kept);
    words->start = position(words);
    words->filled = kept;
    const uint64_t offset = words->start + kept;
    const int64_t got = eventio_readAt(&reader->source, offset, words->buffer + kept, BUFFER_BYTES - kept);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu",
                 (unsigned long long)offset);
    words->filled += (size_t)got;
    return got ? CUS_OK : eventio_isShorter(&reader->source, "cusEventReaderRead", offset);
}

static void addCounts(cusEventReader *reader, WordReader *words, const cusEventCounts *counts) {
    cusEventCounts *sum = &reader->counts, *counted = &words->counted;
    sum->triggers_rising += counts->triggers_rising - counted->triggers_rising;
    sum->triggers_falling += counts->triggers_falling - counted->triggers_falling;
    sum->untimed += counts->untimed - counted->untimed;
    sum->bad_words += counts->bad_words - counted->bad_words;
    *counted = *counts;
}

/* Decodes from n bytes, at position(), up to `capacity` events. */
static cusStatus decodeWords(cusEventReader *reader, WordReader *words, const uint8_t *bytes, size_t n, CusiEvents out,
                             size_t capacity, size_t *count, size_t *used) {
    const cusEventBuffers buffers = {.x = out.x, .y = out.y, .p = out.p, .t = out.t, .capacity = capacity};
    cusEventDecoded done;
    const cusStatus status = cusEventDecoderRun(words->decoder, bytes, n, &buffers, &done, NULL);
    addCounts(reader, words, &done.counts);
    *count = (size_t)done.count;
    *used = (size_t)done.used;
    if (status != CUS_OK && status != CUS_ERROR_CAPACITY && status != CUS_ERROR_CANCELLED) {
        words->lost = 1;
        words->state.index = done.index;
        return cusi_renamed("cusEventReaderRead", status);
    }
    CUS_TRY(cusEventDecoderGetState(words->decoder, &words->state));
    if (*count && reader->info.format != CUS_EVENTS_EVT3) /* EVT3 keeps the time itself */
        words->state.time = out.t[*count - 1];
    return CUS_OK;
}

static cusStatus decodeText(cusEventReader *reader, WordReader *words, const uint8_t *bytes, size_t n, int at_end,
                            CusiEvents out, size_t capacity, size_t *count, size_t *used) {
    cusEventDecoderState *state = &words->state;
    EventSink sink = {out, 0, capacity};
    const cusStatus status = eventio_decodeText(reader, state, bytes, n, at_end, &sink, used);
    state->offset += *used;
    state->index += sink.count;
    if (sink.count)
        state->time = sink.out.t[sink.count - 1];
    *count = sink.count;
    return status;
}

static cusStatus readWords(cusEventReader *reader, size_t n, CusiEvents out, size_t *count) {
    WordReader *words = reader->state;
    CusiProgress *const progress = cusi_progress();
    *count = 0;
    while (*count < n) {
        const size_t skip = (size_t)(position(words) - words->start), have = words->filled - skip, left = n - *count;
        const size_t capacity = left < CHECKPOINT_EVENTS ? left : CHECKPOINT_EVENTS;
        const CusiEvents to = cusi_eventsFrom(out, *count);
        const int at_end = words->start + words->filled >= reader->source.size;
        size_t used = 0, got = 0;
        const cusStatus status =
            words->decoder ? decodeWords(reader, words, words->buffer + skip, have, to, capacity, &got, &used)
                           : decodeText(reader, words, words->buffer + skip, have, at_end, to, capacity, &got, &used);
        *count += got;
        cusi_step(progress, (int64_t)got);
        if (status != CUS_OK) /* the decoder may look past the last event; it reports the damage again */
            return words->decoder && *count == n ? CUS_OK : status;
        const uint64_t last = words->checkpoint_count ? words->checkpoints[words->checkpoint_count - 1].index : 0;
        if (words->state.index >= last + CHECKPOINT_EVENTS)
            CUS_TRY(addCheckpoint(words));
        CUS_TRY(cusi_proceed(progress));
        if (used || got)
            continue;
        if (at_end) {
            CUSI_REQUIRE(have == 0 && !words->state.carried, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the file ends at byte %llu, within an event of %s that starts at byte %llu",
                         (unsigned long long)reader->source.size, cusEventFormatName(reader->info.format),
                         (unsigned long long)words->state.offset);
            return CUS_OK;
        }
        CUS_TRY(refill(reader, words));
    }
    return CUS_OK;
}

static cusStatus restore(WordReader *words, const cusEventDecoderState *checkpoint) {
    if (words->decoder)
        CUS_TRY(cusEventDecoderSetState(words->decoder, checkpoint));
    words->state = *checkpoint;
    words->lost = 0;
    words->counted = (cusEventCounts){0};
    if (position(words) < words->start || position(words) > words->start + words->filled) {
        words->start = position(words);
        words->filled = 0;
    }
    return CUS_OK;
}

const cusEventDecoderState *eventio_wordsStart(const cusEventReader *reader) {
    const WordReader *words = reader->state;
    return &words->checkpoints[0];
}

const cusEventDecoderState *eventio_wordsPlace(const cusEventReader *reader) {
    const WordReader *words = reader->state;
    return &words->place;
}

size_t eventio_wordsUpperHalf(const cusEventReader *reader) {
    const WordReader *words = reader->state;
    return words->legacy ? 0 : 4;
}

cusStatus eventio_wordsRestore(cusEventReader *reader, const cusEventDecoderState *state) {
    WordReader *words = reader->state;
    CUS_TRY(restore(words, state));
    words->place = *state;
    return CUS_OK;
}

/* After a cancel, returns to where the reader was. */
static cusStatus stay(WordReader *words, const WordReader *before, cusStatus status) {
    if (status != CUS_ERROR_CANCELLED)
        return status;
    CUS_TRY(restore(words, &before->state));
    words->place = before->place;
    words->lost = before->lost;
    return status;
}

/* Decodes forward from the nearest checkpoint, or from the current state if that is nearer. */
static cusStatus seekWords(cusEventReader *reader, uint64_t index) {
    WordReader *words = reader->state;
    const WordReader before = *words;
    words->place = words->checkpoints[0];
    size_t k = words->checkpoint_count - 1;
    while (k > 0 && words->checkpoints[k].index > index)
        --k;
    if (words->lost || words->state.index > index || words->checkpoints[k].index > words->state.index)
        CUS_TRY(restore(words, &words->checkpoints[k]));
    return stay(words, &before, eventio_readOn(reader, &words->state.index, index));
}

static cusStatus findTimeInWords(cusEventReader *reader, int64_t time, uint64_t *index) {
    WordReader *words = reader->state;
    const WordReader before = *words;
    words->place = words->checkpoints[0];
    size_t k = words->checkpoint_count - 1;
    while (k > 0 && words->checkpoints[k].time >= time)
        --k;
    CUS_TRY(restore(words, &words->checkpoints[k]));
    return stay(words, &before, eventio_readToTime(reader, &words->state.index, time, index));
}

static void closeWords(cusEventReader *reader) {
    WordReader *words = reader->state;
    if (words) {
        cusEventDecoderDestroy(words->decoder);
        eventio_closeTriggers(words->triggers);
        free(words->buffer);
        free(words->checkpoints);
        free(words);
    }
}

/* Creates a decoder for the open recording, which delivers bad events like good ones. `function` is for messages. */
static cusStatus createDecoder(const cusEventReader *reader, const char *function, cusEventDecoder **decoder) {
    const WordReader *words = reader->state;
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = reader->info.format;
    options.legacy = words->legacy;
    options.bad_events = reader->options.bad_events;
    options.unchecked = 1;
    const cusStatus status = cusEventDecoderCreate(decoder, &options);
    return status == CUS_OK ? CUS_OK : cusi_renamed(function, status);
}

static cusStatus readTriggers(cusEventReader *reader, size_t n, cusEventTrigger *out, size_t *count) {
    WordReader *words = reader->state;
    *count = 0;
    if (!words->decoder || reader->info.format == CUS_EVENTS_DAT)
        return CUS_OK;
    if (!words->triggers) {
        cusEventDecoder *decoder;
        CUS_TRY(createDecoder(reader, "cusEventReaderReadTriggers", &decoder));
        CUS_TRY(eventio_openTriggers(decoder, eventio_wordsStart(reader), &words->triggers));
    }
    return eventio_readTriggers(reader, words->triggers, n, out, count);
}

static void rewindTriggers(cusEventReader *reader) {
    WordReader *words = reader->state;
    eventio_closeTriggers(words->triggers);
    words->triggers = NULL;
}

static const EventReaderMethods word_methods = {readWords,      seekWords, findTimeInWords, closeWords, readTriggers,
                                                rewindTriggers, NULL};

int eventio_isWords(const cusEventReader *reader) {
    return reader->methods == &word_methods && reader->info.format != CUS_EVENTS_TEXT;
}

/* Finds the time of the first event. Reading reports damage later. */
static cusStatus findFirstTime(cusEventReader *reader, WordReader *words) {
    size_t events = 0;
    const cusStatus status = readWords(reader, 1, reader->scratch, &events);
    if (status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO)
        return status;
    reader->info.first_time = events ? reader->scratch.t[0] : -1;
    reader->counts = (cusEventCounts){0};
    return restore(words, &words->checkpoints[0]);
}

cusStatus eventio_openWords(cusEventReader *reader) {
    WordReader *words = calloc(1, sizeof *words);
    CUSI_REQUIRE(words, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    reader->state = words;
    reader->methods = &word_methods;
    words->buffer = malloc(BUFFER_BYTES);
    CUSI_REQUIRE(words->buffer, CUS_ERROR_NO_MEMORY, "cusEventReaderOpen: out of host memory");
    const int64_t got = eventio_readAt(&reader->source, 0, words->buffer, EVENTIO_HEADER_BYTES);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderOpen: the file cannot be read");
    words->filled = (size_t)got;

    EventHeader header;
    CUS_TRY(eventio_readHeader(reader, words->buffer, words->filled, &header));
    words->legacy = reader->info.legacy = header.legacy;
    words->state = header.start;
    reader->info.start = header.start.offset;
    if (reader->info.format != CUS_EVENTS_TEXT)
        CUS_TRY(createDecoder(reader, "cusEventReaderOpen", &words->decoder));
    CUS_TRY(addCheckpoint(words));
    CUS_TRY(restore(words, &words->checkpoints[0]));
    words->place = words->checkpoints[0];
    return findFirstTime(reader, words);
}
