/* Checks of what libhdf5 does not survive. `base` is the address of the superblock. */
#ifndef CUSI_EVENTIO_HDF5_GUARD_H
#define CUSI_EVENTIO_HDF5_GUARD_H

#include "eventio/source.h"

/* Bytes of metadata that one operation may read: libhdf5 needs several times as much memory for them. */
enum { EVENTIO_METADATA_BYTES = 4 << 20 };

/* Both functions return 1 for yes, 0 for no, and -1 if the file cannot be read, with the reason in errno. */

/* Whether the chunks of the dataset at `address`, counted from `base`, have an extent. */
int eventio_datasetIsGood(const EventSource *source, uint64_t base, uint64_t address);

/* Whether the free list of the local heap whose first n bytes are `prefix` ends. 1 also if it is no heap;
 * EVENTIO_HEAP_TOO_LARGE if its names are more metadata than may be read. */
enum { EVENTIO_HEAP_TOO_LARGE = 2 };
int eventio_heapIsGood(const EventSource *source, uint64_t base, const uint8_t *prefix, size_t n);

#endif
