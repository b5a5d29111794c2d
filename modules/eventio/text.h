/* Events as text, one per line. */
#ifndef CUSI_EVENTIO_TEXT_H
#define CUSI_EVENTIO_TEXT_H

#include "eventio/recording.h"

/* Returns whether the file starts as text events do. Sets where the events start, their columns, and the sensor size if
 * an earlier line gives it. */
int eventio_looksLikeText(const uint8_t *bytes, size_t n, cusEventDecoderState *start, TextColumns *columns, int64_t *width,
                          int64_t *height);

/* Where decoded events go. */
typedef struct EventSink {
    CusiEvents out;
    size_t count, capacity;
} EventSink;

/* Decodes lines, with the columns of reader->text, from bytes 0 .. n-1, which start at state->offset in the file, until
 * they or the sink's capacity run out. *used: the bytes consumed. at_end: the file has no more bytes. The caller
 * advances state->offset and index. */
cusStatus eventio_decodeText(cusEventReader *reader, cusEventDecoderState *state, const uint8_t *bytes, size_t n,
                             int at_end, EventSink *sink, size_t *used);

#endif
