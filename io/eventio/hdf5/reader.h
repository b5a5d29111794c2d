/* M3ED and DSEC recordings. */
#ifndef CUSI_EVENTIO_HDF5_READER_H
#define CUSI_EVENTIO_HDF5_READER_H

#include "eventio/recording.h"

/* Sets reader->info, methods and state. If the file is not HDF5, the result is CUS_OK and reader->methods stays NULL. */
cusStatus eventio_openHdf5(cusEventReader *reader);

#endif
