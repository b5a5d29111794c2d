/* Finds out from the header how to decode a file. */
#ifndef CUSI_EVENTIO_EVT_HEADER_H
#define CUSI_EVENTIO_EVT_HEADER_H

#include "eventio/recording.h"

enum { EVENTIO_HEADER_BYTES = 1 << 16 }; /* maximum length of a header */

typedef struct EventHeader {
    int legacy;                 /* EVT2.1: the upper half of each word comes first */
    cusEventDecoderState start; /* state before the first event */
} EventHeader;

/* Finds the format from the first n bytes of the file (all of it, or EVENTIO_HEADER_BYTES) and sets reader->info. */
cusStatus eventio_readHeader(cusEventReader *reader, const uint8_t *bytes, size_t n, EventHeader *header);

#endif
