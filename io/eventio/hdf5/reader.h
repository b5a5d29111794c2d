/* HDF5 recordings. */
#ifndef CUSI_EVENTIO_HDF5_READER_H
#define CUSI_EVENTIO_HDF5_READER_H

#include "eventio/recording.h"

/* Sets reader->info, methods and state. If the file is not HDF5, the result is CUS_OK and reader->methods stays NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);

/* Whether the recording is stored in ECF chunks, so that its bytes are for a decoder. */
int eventio_isFramed(const cusEventReader *reader);
/* Starts them in the chunk of the event at reader->mark; *state: how a decoder starts. */
cusStatus eventio_startFrames(cusEventReader *reader, cusEventDecoderState *state);
/* Reads the next bytes behind *count, up to `capacity` in all. With an error *count has those before it. */
cusStatus eventio_readFrames(cusEventReader *reader, size_t capacity, uint8_t *bytes, size_t *count);

#endif
