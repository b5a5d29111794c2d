/* "% " headers, and which decoder a file needs. */
#ifndef CUSI_EVENTIO_EVT_HEADER_H
#define CUSI_EVENTIO_EVT_HEADER_H

#include "eventio/evt/decoders.h"

enum { EVENTIO_HEADER_BYTES = 1 << 16 }; /* maximum length of a header */

typedef struct EventHeader {
    DecodeFunction decode;
    DecoderState start; /* state before the first event */
} EventHeader;

/* Finds the format from the first n bytes of the file (all of it, or EVENTIO_HEADER_BYTES) and sets reader->info. */
cusStatus eventio_readHeader(cusEventReader *reader, const uint8_t *bytes, size_t n, EventHeader *header);

#endif
