/* Reads fractal heaps, with the links and attributes of objects that have many, and global heaps, with text of any
 * length. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

/* ---- Fractal heaps --------------------------------------------------------------------------------------------------- */

/* The heap is a space of up to 2^bits bytes. Its blocks are rows of `width`. Those of rows 0 and 1 have `first` bytes
 * each, those of each next row twice as many. Blocks up to `direct_most` bytes hold objects; larger ones are such
 * tables again. */
typedef struct Heap {
    uint64_t header;
    unsigned id_size, bits, width, root_rows;
    uint64_t first, direct_most, object_most, root;
    int has_checksums;
} Heap;

enum { ADDRESSED_BY_OFFSET = 0, MAX_BITS = 62 };

static int isPowerOfTwo(uint64_t value) {
    return value && !(value & (value - 1));
}

static cusStatus openHeap(Hdf5File *f, uint64_t address, Heap *h) {
    static const char what[] = "fractal heap header";
    const size_t size = 26 + 12 * (size_t)f->length_size + 3 * (size_t)f->address_size;
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Block(f, address, size, HDF5_CHECKSUM_LAST, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, size);
    int good = eventio_takeSignature(&c, "FRHP", 0);
    *h = (Heap){.header = address};
    h->id_size = (unsigned)eventio_takeNumber(&c, 2);
    const unsigned filters = (unsigned)eventio_takeNumber(&c, 2);
    h->has_checksums = eventio_takeNumber(&c, 1) >> 1 & 1;
    h->object_most = eventio_takeNumber(&c, 4);
    (void)eventio_takeLength(&c); /* large objects */
    (void)eventio_takeAddress(&c);
    (void)eventio_takeLength(&c); /* free space */
    (void)eventio_takeAddress(&c);
    (void)eventio_take(&c, 8 * (uint64_t)f->length_size); /* statistics */
    h->width = (unsigned)eventio_takeNumber(&c, 2);
    h->first = eventio_takeLength(&c);
    h->direct_most = eventio_takeLength(&c);
    h->bits = (unsigned)eventio_takeNumber(&c, 2);
    (void)eventio_takeNumber(&c, 2); /* rows at the start */
    h->root = eventio_takeAddress(&c);
    h->root_rows = (unsigned)eventio_takeNumber(&c, 2);
    CUSI_REQUIRE(!good || !filters, CUS_ERROR_UNSUPPORTED, "%s: the HDF5 file has a group whose names are compressed",
                 f->function);
    good = good && isPowerOfTwo(h->width) && isPowerOfTwo(h->first) && isPowerOfTwo(h->direct_most) &&
           h->first <= h->direct_most && h->direct_most <= HDF5_MAX_BLOCK && h->bits >= 1 && h->bits <= MAX_BITS &&
           h->width <= 1024;
    return good ? CUS_OK : eventio_hdf5Damaged(f, address, what);
}

/* Returns the bytes of a block of row `row`, and where the row starts in its table. */
static uint64_t blockSize(const Heap *h, unsigned row) {
    return row == 0 ? h->first : h->first << (row - 1);
}
static uint64_t rowStart(const Heap *h, unsigned row) {
    return row == 0 ? 0 : h->width * blockSize(h, row);
}

/* Returns the row of the byte at `offset` of a table. */
static unsigned rowOf(const Heap *h, uint64_t offset) {
    const uint64_t number = offset / ((uint64_t)h->width * h->first);
    return number ? 1 + eventio_log2(number) : 0;
}

/* Finds the object's bytes in the direct block that starts at `start` of the heap. */
static cusStatus readDirect(Hdf5File *f, const Heap *h, uint64_t address, uint64_t size, uint64_t offset, uint64_t length,
                            const uint8_t **bytes) {
    static const char what[] = "fractal heap block";
    const unsigned prefix = 5 + f->address_size + (h->bits + 7) / 8;
    CUS_TRY(eventio_hdf5Block(f, address, size, h->has_checksums ? (int)prefix : HDF5_UNCHECKED, what, bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, *bytes, (size_t)size);
    const int good = eventio_takeSignature(&c, "FHDB", 0) && eventio_takeAddress(&c) == h->header;
    const uint64_t data = prefix + (h->has_checksums ? 4 : 0);
    if (!good || offset < data || offset > size || length > size - offset)
        return eventio_hdf5Damaged(f, address, what);
    *bytes += offset;
    return CUS_OK;
}

/* Goes down from the root to the block with the object. Each table is smaller than the one before. */
static cusStatus readManaged(Hdf5File *f, const Heap *h, uint64_t offset, uint64_t length, const uint8_t **bytes) {
    static const char what[] = "fractal heap table";
    uint64_t address = h->root;
    unsigned rows = h->root_rows;
    if (rows == 0)
        return readDirect(f, h, address, h->first, offset, length, bytes);
    const unsigned direct_rows = eventio_log2(h->direct_most / h->first) + 2;
    for (;;) {
        const unsigned row = rowOf(h, offset), prefix = 5 + f->address_size + (h->bits + 7) / 8;
        if (rows > MAX_BITS || row >= rows)
            return eventio_hdf5Damaged(f, h->header, what);
        const uint64_t size = prefix + (uint64_t)rows * h->width * f->address_size + 4;
        CUS_TRY(eventio_hdf5Block(f, address, size, HDF5_CHECKSUM_LAST, what, bytes));
        Hdf5Cursor c = eventio_hdf5Cursor(f, *bytes, (size_t)size);
        if (!eventio_takeSignature(&c, "FHIB", 0) || eventio_takeAddress(&c) != h->header)
            return eventio_hdf5Damaged(f, address, what);
        offset -= rowStart(h, row);
        const uint64_t child_size = blockSize(h, row), column = offset / child_size;
        offset %= child_size;
        (void)eventio_take(&c, (h->bits + 7) / 8 + (row * (uint64_t)h->width + column) * f->address_size);
        address = eventio_takeAddress(&c);
        if (c.failed)
            return eventio_hdf5Damaged(f, h->header, what);
        if (row < direct_rows)
            return readDirect(f, h, address, child_size, offset, length, bytes);
        /* The child's rows cover child_size bytes. */
        const uint64_t first_row = h->width * h->first;
        const unsigned child_rows = child_size < first_row ? 0 : eventio_log2(child_size / first_row) + 1;
        if (child_rows == 0 || child_rows >= rows)
            return eventio_hdf5Damaged(f, h->header, what);
        rows = child_rows;
    }
}

cusStatus eventio_hdf5HeapObject(Hdf5File *f, uint64_t heap, const uint8_t *id, unsigned id_size, const uint8_t **bytes,
                                 size_t *size) {
    Heap h;
    CUS_TRY(openHeap(f, heap, &h));
    Hdf5Cursor c = eventio_hdf5Cursor(f, id, id_size);
    const uint64_t kind = eventio_takeNumber(&c, 1);
    const uint64_t offset = eventio_takeNumber(&c, (h.bits + 7) / 8);
    const unsigned in_block = (eventio_log2(h.direct_most) + 7) / 8, in_object = eventio_numberBytes(h.object_most);
    const uint64_t length = eventio_takeNumber(&c, in_block < in_object ? in_block : in_object);
    if (c.failed || id_size != h.id_size)
        return eventio_hdf5Damaged(f, heap, "ID in a fractal heap");
    CUSI_REQUIRE(kind >> 4 == ADDRESSED_BY_OFFSET, CUS_ERROR_UNSUPPORTED,
                 "%s: the HDF5 file has names or attributes of more than %llu bytes", f->function,
                 (unsigned long long)h.object_most);
    *size = (size_t)length;
    return readManaged(f, &h, offset, length, bytes);
}

/* ---- Global heaps ---------------------------------------------------------------------------------------------------- */

cusStatus eventio_hdf5GlobalObject(Hdf5File *f, uint64_t heap, uint64_t index, const uint8_t **bytes, size_t *size) {
    static const char what[] = "global heap";
    const size_t prefix = 8 + (size_t)f->length_size;
    CUS_TRY(eventio_hdf5Block(f, heap, prefix, HDF5_UNCHECKED, what, bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, *bytes, prefix);
    const int good = eventio_takeSignature(&c, "GCOL", 1);
    (void)eventio_take(&c, 3);
    const uint64_t whole = eventio_takeLength(&c);
    if (!good || whole < prefix)
        return eventio_hdf5Damaged(f, heap, what);
    CUS_TRY(eventio_hdf5Block(f, heap, whole, HDF5_UNCHECKED, what, bytes));
    c = eventio_hdf5Cursor(f, *bytes + prefix, (size_t)(whole - prefix));
    while ((size_t)(c.end - c.at) >= prefix) {
        const uint64_t number = eventio_takeNumber(&c, 2);
        (void)eventio_take(&c, 6); /* references, reserved */
        const uint64_t length = eventio_takeLength(&c);
        if (number == 0) /* the rest is free */
            break;
        const uint8_t *object = eventio_take(&c, length);
        if (object && number == index) {
            *bytes = object;
            *size = (size_t)length;
            return CUS_OK;
        }
        (void)eventio_take(&c, (8 - length % 8) % 8);
        if (c.failed)
            break;
    }
    return eventio_hdf5Damaged(f, heap, "object in a global heap");
}
