/* Reads and seeks in formats without an index. At every million events a checkpoint keeps the decoder's state; seeking
 * starts from the nearest one. */
#include "eventio/evt/words.h"
#include "check.h"
#include "eventio/evt/header.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, CHECKPOINT_EVENTS = 1000000 };

typedef struct WordReader {
    DecodeFunction decode;
    DecoderState state;
    uint8_t *buffer; /* `filled` bytes of the file, from `start` on */
    uint64_t start;
    size_t filled;
    DecoderState *checkpoints; /* the first is the state before the first event */
    size_t checkpoint_count, checkpoint_capacity;
} WordReader;

static cusStatus addCheckpoint(WordReader *words) {
    if (words->checkpoint_count == words->checkpoint_capacity) {
        const size_t capacity = 2 * words->checkpoint_capacity + 16;
        DecoderState *grown = realloc(words->checkpoints, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
        words->checkpoints = grown;
        words->checkpoint_capacity = capacity;
    }
    words->checkpoints[words->checkpoint_count++] = words->state;
    return CUS_OK;
}

/* Moves the unused bytes to the front of the buffer and reads more after them. */
static cusStatus refill(cusEventReader *reader, WordReader *words) {
    const size_t used = (size_t)(words->state.offset - words->start), kept = words->filled - used;
    memmove(words->buffer, words->buffer + used, kept);
    words->start = words->state.offset;
    words->filled = kept;
    const uint64_t offset = words->start + kept;
    const int64_t got = eventio_readAt(&reader->source, offset, words->buffer + kept, BUFFER_BYTES - kept);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu",
                 (unsigned long long)offset);
    if (got == 0)
        reader->source.size = offset; /* the file has become shorter since it was opened */
    words->filled += (size_t)got;
    return CUS_OK;
}

static cusStatus readWords(cusEventReader *reader, size_t n, EventArrays out, size_t *count) {
    WordReader *words = reader->state;
    DecoderState *state = &words->state;
    *count = 0;
    while (*count < n) {
        const size_t skip = (size_t)(state->offset - words->start), have = words->filled - skip, left = n - *count;
        EventSink sink = {eventio_from(out, *count), 0, left < CHECKPOINT_EVENTS ? left : CHECKPOINT_EVENTS};
        const int at_end = words->start + words->filled >= reader->source.size;
        size_t used = 0;
        const cusStatus status = words->decode(reader, state, words->buffer + skip, have, at_end, &sink, &used);
        state->offset += used;
        state->index += sink.count;
        *count += sink.count;
        if (sink.count && reader->info.format != CUS_EVENTS_EVT3) /* EVT3 keeps the time itself */
            state->time = sink.out.t[sink.count - 1];
        if (status != CUS_OK)
            return status;
        const uint64_t last = words->checkpoint_count ? words->checkpoints[words->checkpoint_count - 1].index : 0;
        if (state->index >= last + CHECKPOINT_EVENTS)
            CUS_TRY(addCheckpoint(words));
        if (used || sink.count)
            continue;
        if (at_end) {
            CUSI_REQUIRE(have == 0, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the file ends at byte %llu, within an event of %s that starts at byte %llu",
                         (unsigned long long)reader->source.size, cusEventFormatName(reader->info.format),
                         (unsigned long long)state->offset);
            return CUS_OK;
        }
        CUS_TRY(refill(reader, words));
    }
    return CUS_OK;
}

static void restore(WordReader *words, const DecoderState *checkpoint) {
    words->state = *checkpoint;
    if (checkpoint->offset < words->start || checkpoint->offset > words->start + words->filled) {
        words->start = checkpoint->offset;
        words->filled = 0;
    }
}

const DecoderState *eventio_wordsStart(const cusEventReader *reader) {
    const WordReader *words = reader->state;
    return &words->checkpoints[0];
}

size_t eventio_wordsUpperHalf(const cusEventReader *reader) {
    const WordReader *words = reader->state;
    return words->decode == eventio_decodeEvt21Legacy ? 0 : 4;
}

void eventio_wordsRestore(cusEventReader *reader, const DecoderState *state) {
    restore(reader->state, state);
}

/* Decodes forward from the nearest checkpoint, or from the current state if that is nearer. */
static cusStatus seekWords(cusEventReader *reader, uint64_t index) {
    WordReader *words = reader->state;
    size_t k = words->checkpoint_count - 1;
    while (k > 0 && words->checkpoints[k].index > index)
        --k;
    if (words->state.index > index || words->checkpoints[k].index > words->state.index)
        restore(words, &words->checkpoints[k]);
    while (words->state.index < index) {
        const uint64_t left = index - words->state.index;
        size_t got = 0;
        CUS_TRY(readWords(reader, left < EVENTIO_SCRATCH ? (size_t)left : EVENTIO_SCRATCH, reader->scratch, &got));
        if (!got)
            break;
    }
    reader->index = words->state.index;
    return CUS_OK;
}

static cusStatus findTimeInWords(cusEventReader *reader, int64_t time, uint64_t *index) {
    WordReader *words = reader->state;
    size_t k = words->checkpoint_count - 1;
    while (k > 0 && words->checkpoints[k].time >= time)
        --k;
    restore(words, &words->checkpoints[k]);
    for (;;) {
        const uint64_t first = words->state.index;
        size_t got = 0, i = 0;
        const cusStatus status = readWords(reader, EVENTIO_SCRATCH, reader->scratch, &got);
        while (i < got && reader->scratch.t[i] < time)
            ++i;
        *index = first + i;
        if (i < got)
            return CUS_OK;
        if (status != CUS_OK || !got)
            return status;
    }
}

static void closeWords(cusEventReader *reader) {
    WordReader *words = reader->state;
    if (words) {
        free(words->buffer);
        free(words->checkpoints);
        free(words);
    }
}

static const EventReaderMethods word_methods = {readWords, seekWords, findTimeInWords, closeWords};

/* Finds the time of the first event. Reading reports damage later. */
static cusStatus findFirstTime(cusEventReader *reader, WordReader *words) {
    size_t events = 0;
    const cusStatus status = readWords(reader, 1, reader->scratch, &events);
    if (status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO)
        return status;
    reader->info.first_time = events ? reader->scratch.t[0] : -1;
    restore(words, &words->checkpoints[0]);
    reader->counts = (cusEventCounts){0};
    return CUS_OK;
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
    words->decode = header.decode;
    words->state = header.start;
    CUS_TRY(addCheckpoint(words));
    return findFirstTime(reader, words);
}
