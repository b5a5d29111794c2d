/* Checks options, formats and events; bad input is an error or counted. */
#ifndef CUSI_EVENTIO_VALIDATE_H
#define CUSI_EVENTIO_VALIDATE_H

#include "eventio/recording.h"

cusStatus eventio_checkOptions(const cusEventReaderOptions *options);

/* Checks that the format found is the one that the options ask for. */
cusStatus eventio_checkFormat(const cusEventReader *reader);

/* Validates events 0 .. count-1, which follow an event at reader->last_time; reader->index is the number of the first. Sets
 * *kept: STOP: the events before the first bad one, which the error names. SKIP: all good ones, moved together; bad ones
 * are counted. */
cusStatus eventio_checkEvents(cusEventReader *reader, CusiEvents events, size_t count, size_t *kept);

#endif
