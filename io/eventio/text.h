/* Events as text: one line each. */
#ifndef CUSI_EVENTIO_TEXT_H
#define CUSI_EVENTIO_TEXT_H

#include "eventio/evt/decoders.h"

/* Whether the file starts as text events do. Sets where the events start, their columns, and the sensor size if a line
 * before them gives it. */
int eventio_looksLikeText(const uint8_t *bytes, size_t n, DecoderState *start, TextColumns *columns, int64_t *width,
                          int64_t *height);

/* Decodes lines with the columns of reader->text. */
cusStatus eventio_decodeText(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used);

#endif
