/* Recordings without an index, for reader.c and parts.c. */
#ifndef CUSI_EVENTIO_EVT_WORDS_H
#define CUSI_EVENTIO_EVT_WORDS_H

#include "eventio/recording.h"

#include <string.h>

/* Inspects the content and sets reader->info, methods and state. */
cusStatus eventio_openWords(cusEventReader *reader);

/* Returns whether a cusEventDecoder decodes the recording. */
int eventio_isWords(const cusEventReader *reader);

/* Returns the state before the first event. */
const cusEventDecoderState *eventio_wordsStart(const cusEventReader *reader);

/* Returns the state at the last mark sought, or else before the first event. */
const cusEventDecoderState *eventio_wordsPlace(const cusEventReader *reader);

/* EVT2.1: returns the offset in a word of its upper half. */
size_t eventio_wordsUpperHalf(const cusEventReader *reader);

/* Continues from the given state. Errors: VALUE (not a state of this recording). */
cusStatus eventio_wordsRestore(cusEventReader *reader, const cusEventDecoderState *state);

/* ---- Parts (evt/parts.c) ------------------------------------------------------------------------------------------- */

/* Returns where part `part` of `parts` of n begins: n * part / parts, which may exceed 64 bits on the way. */
static inline uint64_t eventio_share(uint64_t n, uint64_t part, uint64_t parts) {
    return n / parts * part + n % parts * part / parts;
}

/* Does cusEventReaderScan() of parts 0 .. count - 1 of `parts`, on all threads. A step of progress is a byte. */
cusStatus eventio_scanFirst(cusEventReader *reader, uint64_t count, uint64_t parts, cusEventPart *summaries);
/* Does cusEventReaderMarks() of these parts: marks[0] .. marks[count]. */
cusStatus eventio_joinFirst(const cusEventReader *reader, const cusEventPart *summaries, uint64_t count, uint64_t parts,
                            cusEventMark *marks);

typedef struct ScanBuffers ScanBuffers;
/* Allocates buffers for many calls of eventio_scanWords(), since new memory for all threads costs more than a scan. The
 * caller frees them. Returns NULL if memory runs out. */
ScanBuffers *eventio_createScanBuffers(void);

/* Scans words after a mark, which are divided into `parts` parts: parts first .. first + count - 1. */
cusStatus eventio_scanWords(const cusEventReader *reader, const cusEventMark *from, uint64_t first, uint64_t count,
                            uint64_t parts, ScanBuffers *buffers, cusEventPart *summaries);
/* Joins these parts; the caller sets marks[0], where the first of them begins. */
cusStatus eventio_joinWords(const cusEventReader *reader, const cusEventPart *summaries, uint64_t count,
                            cusEventMark *marks);

/* Makes a mark of words, which is a state of the decoder. */
static inline void eventio_markOf(const cusEventDecoderState *state, cusEventMark *mark) {
    memset(mark, 0, sizeof *mark);
    memcpy(mark, state, sizeof *state);
}
static inline void eventio_stateAt(const cusEventMark *mark, cusEventDecoderState *state) {
    memcpy(state, mark, sizeof *state);
}

/* ---- Bytes (evt/bytes.c) ------------------------------------------------------------------------------------------- */

/* Reads up to `capacity` bytes of words from `offset` on, on up to so many threads; from any thread. *count is smaller
 * only at the end. */
cusStatus eventio_readBytesAt(const EventSource *source, uint64_t offset, size_t capacity, void *bytes, int threads,
                              size_t *count);

#endif
