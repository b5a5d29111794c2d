/* HDF5 recordings. */
#ifndef CUSI_EVENTIO_HDF5_READER_H
#define CUSI_EVENTIO_HDF5_READER_H

#include "eventio/recording.h"

/* Sets reader->info, methods and state. If the file is not HDF5, the result is CUS_OK and reader->methods stays NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);

/* Returns how a decoder takes the stored chunks: METAVISION for those of ECF, HDF5 for columns compressed by LZF,
 * whatever the file's format is called; ANY: not at all. */
cusEventFormat eventio_frameFormat(const cusEventReader *reader);
/* Starts frames at the chunk of the event at reader->mark. *state: how a decoder starts. */
cusStatus eventio_startFrames(cusEventReader *reader, cusEventDecoderState *state);
/* Appends the next bytes behind *count, up to `capacity` in all; with an error, those before it. */
cusStatus eventio_readFrames(cusEventReader *reader, size_t capacity, uint8_t *bytes, size_t *count);

#endif
