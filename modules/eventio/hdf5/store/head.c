/* Writes the start of an HDF5 file: superblock, groups and object headers, as libhdf5 1.8 introduced them. */
#include "eventio/hdf5/store/store.h"

#include <string.h>

enum { SUPERBLOCK_BYTES = 48, OBJECT_PREFIX = 8, MESSAGE_PREFIX = 4, CHECKSUM = 4 };

void eventio_headStart(Hdf5Head *h) {
    memset(h, 0, sizeof *h);
    h->size = SUPERBLOCK_BYTES;
}

uint64_t eventio_putBytes(Hdf5Head *h, const void *bytes, size_t n) {
    const size_t at = h->size;
    if (bytes)
        memcpy(h->bytes + at, bytes, n);
    else
        memset(h->bytes + at, 0, n);
    h->size += n;
    return at;
}

void eventio_put(Hdf5Head *h, uint64_t value, unsigned n) {
    for (unsigned i = 0; i < n; ++i)
        h->bytes[h->size++] = (uint8_t)(value >> 8 * i);
}

/* Overwrites a number at an earlier place. */
static void putBack(Hdf5Head *h, size_t at, uint64_t value, unsigned n) {
    const size_t size = h->size;
    h->size = at;
    eventio_put(h, value, n);
    h->size = size;
}

size_t eventio_headBytes(const Hdf5Head *h) {
    return (h->size + HDF5_HEAD_STEP - 1) / HDF5_HEAD_STEP * HDF5_HEAD_STEP;
}

void eventio_headFinish(Hdf5Head *h, uint64_t root, uint64_t file_bytes) {
    enum { VERSION = 2, ADDRESS_SIZE = 8, LENGTH_SIZE = 8 };
    const size_t size = h->size;
    h->size = 0;
    eventio_putBytes(h, "\x89HDF\r\n\x1a\n", 8);
    eventio_put(h, VERSION, 1);
    eventio_put(h, ADDRESS_SIZE, 1);
    eventio_put(h, LENGTH_SIZE, 1);
    eventio_put(h, 0, 1);            /* flags */
    eventio_put(h, 0, 8);            /* base address */
    eventio_put(h, hdf5_nowhere, 8); /* superblock extension */
    eventio_put(h, file_bytes, 8);
    eventio_put(h, root, 8);
    eventio_put(h, eventio_lookup3(h->bytes, h->size), 4);
    h->size = size;
}

/* ---- Objects --------------------------------------------------------------------------------------------------------- */

void eventio_objectStart(Hdf5Head *h) {
    enum { VERSION = 2, SIZE_OF_2_BYTES = 1 };
    eventio_putBytes(h, NULL, -h->size % 8);
    h->object = h->size;
    eventio_putBytes(h, "OHDR", 4);
    eventio_put(h, VERSION, 1);
    eventio_put(h, SIZE_OF_2_BYTES, 1); /* size of the messages; no times, so the same contents give the same bytes */
    eventio_put(h, 0, 2);
}

uint64_t eventio_objectEnd(Hdf5Head *h) {
    putBack(h, h->object + OBJECT_PREFIX - 2, h->size - h->object - OBJECT_PREFIX, 2);
    eventio_put(h, eventio_lookup3(h->bytes + h->object, h->size - h->object), CHECKSUM);
    return h->object;
}

void eventio_messageStart(Hdf5Head *h, unsigned type) {
    enum { CONSTANT = 1 }; /* what the message says never changes */
    h->message = h->size;
    eventio_put(h, type, 1);
    eventio_put(h, 0, 2);
    eventio_put(h, type == HDF5_DATATYPE || type == HDF5_FILL || type == HDF5_FILTERS ? CONSTANT : 0, 1);
}

void eventio_messageEnd(Hdf5Head *h) {
    putBack(h, h->message + 1, h->size - h->message - MESSAGE_PREFIX, 2);
}

void eventio_putGroup(Hdf5Head *h) {
    eventio_messageStart(h, HDF5_LINK_INFO);
    eventio_put(h, 0, 2);            /* version, flags: no order of creation */
    eventio_put(h, hdf5_nowhere, 8); /* heap and B-tree for many links */
    eventio_put(h, hdf5_nowhere, 8);
    eventio_messageEnd(h);
    eventio_messageStart(h, HDF5_GROUP_INFO);
    eventio_put(h, 0, 2);
    eventio_messageEnd(h);
}

void eventio_putLink(Hdf5Head *h, const char *name, uint64_t object) {
    enum { VERSION = 1 };
    const size_t length = strlen(name);
    eventio_messageStart(h, HDF5_LINK);
    eventio_put(h, VERSION, 1);
    eventio_put(h, 0, 1); /* a hard link; the length of the name has one byte */
    eventio_put(h, length, 1);
    eventio_putBytes(h, name, length);
    eventio_put(h, object, 8);
    eventio_messageEnd(h);
}
