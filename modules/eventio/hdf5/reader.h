/* HDF5 recordings. */
#ifndef CUSI_EVENTIO_HDF5_READER_H
#define CUSI_EVENTIO_HDF5_READER_H

#include "eventio/recording.h"

/* Sets reader->info, methods and state. If the file is not HDF5, the result is CUS_OK and reader->methods stays NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);

/* How a decoder takes the recording's chunks as they are stored: METAVISION for those of ECF, HDF5 for columns compressed by LZF, whatever
 * the file's format is called. ANY: it does not. */
cusEventFormat eventio_frameFormat(const cusEventReader *reader);
/* Starts them in the chunk of the event at reader->mark; *state: how a decoder starts. */
cusStatus eventio_startFrames(cusEventReader *reader, cusEventDecoderState *state);
/* Reads the next bytes behind *count, up to `capacity` in all. With an error *count has those before it. */
cusStatus eventio_readFrames(cusEventReader *reader, size_t capacity, uint8_t *bytes, size_t *count);

#endif
