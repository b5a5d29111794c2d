/* Fixed and extensible arrays of chunks. An element is an address; with filters also the number of stored bytes and the
 * filters skipped. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

enum { MAX_PAGE_BITS = 20, PREFIX = 6, CHECKSUM = 4 }; /* the signature, version and client; a checksum */

/* Fields of both kinds. */
typedef struct Elements {
    uint64_t header;
    unsigned client; /* 1: with filters */
    unsigned size;   /* bytes of an element */
} Elements;

static int isElementSize(const Hdf5File *f, const Elements *e) {
    return e->client ? e->size > f->address_size + 4u && e->size <= f->address_size + 12u : e->size == f->address_size;
}

static void readElement(const Hdf5File *f, const Elements *e, const uint8_t *bytes, Hdf5Chunk *chunk) {
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, e->size);
    chunk->address = eventio_takeAddress(&c);
    if (e->client) {
        chunk->size = eventio_takeNumber(&c, e->size - f->address_size - 4);
        chunk->mask = (uint32_t)eventio_takeNumber(&c, 4);
    }
}

/* Reads a block that starts with a signature, version 0, the client and `back`, the header's address. */
static cusStatus readBlock(Hdf5File *f, const Elements *e, uint64_t address, uint64_t size, const char *signature,
                           const char *what, Hdf5Cursor *c) {
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Block(f, address, size, HDF5_CHECKSUM_LAST, what, &bytes));
    *c = eventio_hdf5Cursor(f, bytes, (size_t)size);
    const int good = eventio_takeSignature(c, signature, 0) && eventio_takeNumber(c, 1) == e->client &&
                     eventio_takeAddress(c) == e->header;
    return good ? CUS_OK : eventio_hdf5Damaged(f, address, what);
}

/* Returns whether bit `index` is set, counted from the highest of the first byte. */
static int bitOf(const uint8_t *bits, uint64_t index) {
    return bits[index / 8] >> (7 - index % 8) & 1;
}

static cusStatus readPage(Hdf5File *f, const Elements *e, uint64_t address, uint64_t count, uint64_t index,
                          const char *what, Hdf5Chunk *chunk) {
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Block(f, address, count * e->size + CHECKSUM, HDF5_CHECKSUM_LAST, what, &bytes));
    readElement(f, e, bytes + index * e->size, chunk);
    return CUS_OK;
}

/* ---- Fixed ----------------------------------------------------------------------------------------------------------- */

cusStatus eventio_hdf5FixedArray(Hdf5File *f, uint64_t address, int filtered, uint64_t index, Hdf5Chunk *chunk) {
    static const char header[] = "fixed array header", what[] = "fixed array";
    Elements e = {.header = address, .client = filtered != 0};
    const uint8_t *bytes;
    const size_t header_size = PREFIX + 2 + (size_t)f->length_size + f->address_size + CHECKSUM;
    CUS_TRY(eventio_hdf5Block(f, address, header_size, HDF5_CHECKSUM_LAST, header, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, header_size);
    const int good = eventio_takeSignature(&c, "FAHD", 0) && eventio_takeNumber(&c, 1) == e.client;
    e.size = (unsigned)eventio_takeNumber(&c, 1);
    const unsigned page_bits = (unsigned)eventio_takeNumber(&c, 1);
    const uint64_t count = eventio_takeLength(&c), block = eventio_takeAddress(&c);
    if (!good || !isElementSize(f, &e) || page_bits > MAX_PAGE_BITS || count > (uint64_t)1 << 48)
        return eventio_hdf5Damaged(f, address, header);
    if (index >= count)
        return eventio_hdf5Damaged(f, address, "size of a fixed array");
    if (block == hdf5_nowhere)
        return CUS_OK;
    const uint64_t page = (uint64_t)1 << page_bits, before = PREFIX + f->address_size;
    if (count <= page) {
        CUS_TRY(readBlock(f, &e, block, before + count * e.size + CHECKSUM, "FADB", what, &c));
        readElement(f, &e, c.at + index * e.size, chunk);
        return CUS_OK;
    }
    const uint64_t pages = (count + page - 1) / page, bitmap = (pages + 7) / 8, number = index / page;
    CUS_TRY(readBlock(f, &e, block, before + bitmap + CHECKSUM, "FADB", what, &c));
    if (!bitOf(c.at, number))
        return CUS_OK;
    const uint64_t start = block + before + bitmap + CHECKSUM + number * (page * e.size + CHECKSUM);
    return readPage(f, &e, start, number + 1 < pages ? page : count - number * page, index % page, what, chunk);
}

/* ---- Extensible ------------------------------------------------------------------------------------------------------ */

/* Elements 0 .. in_index - 1 are in the index block. The others are in data blocks, of which super block s has 2^(s /
 * 2), each of block_min * 2^((s + 1) / 2) elements. The data blocks of the first super blocks are listed in the index
 * block itself. */
typedef struct Extensible {
    Elements e;
    unsigned index_bits, in_index, block_min, pointers_min, page_bits;
    unsigned offset_bytes; /* bytes of a block's place in the array */
    uint64_t index_block;
} Extensible;

static int isPowerOfTwo(unsigned value) {
    return value && !(value & (value - 1));
}

static cusStatus openExtensible(Hdf5File *f, uint64_t address, int filtered, Extensible *x) {
    static const char what[] = "extensible array header";
    const uint8_t *bytes;
    const size_t size = PREFIX + 6 + 6 * (size_t)f->length_size + f->address_size + CHECKSUM;
    CUS_TRY(eventio_hdf5Block(f, address, size, HDF5_CHECKSUM_LAST, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, size);
    *x = (Extensible){.e = {.header = address, .client = filtered != 0}};
    const int good = eventio_takeSignature(&c, "EAHD", 0) && eventio_takeNumber(&c, 1) == x->e.client;
    x->e.size = (unsigned)eventio_takeNumber(&c, 1);
    x->index_bits = (unsigned)eventio_takeNumber(&c, 1);
    x->in_index = (unsigned)eventio_takeNumber(&c, 1);
    x->block_min = (unsigned)eventio_takeNumber(&c, 1);
    x->pointers_min = (unsigned)eventio_takeNumber(&c, 1);
    x->page_bits = (unsigned)eventio_takeNumber(&c, 1);
    (void)eventio_take(&c, 6 * (uint64_t)f->length_size); /* statistics */
    x->index_block = eventio_takeAddress(&c);
    x->offset_bytes = (x->index_bits + 7) / 8;
    return good && isElementSize(f, &x->e) && x->index_bits >= 1 && x->index_bits <= 64 && isPowerOfTwo(x->block_min) &&
                   isPowerOfTwo(x->pointers_min) && x->page_bits <= MAX_PAGE_BITS &&
                   eventio_log2(x->block_min) <= x->index_bits
               ? CUS_OK
               : eventio_hdf5Damaged(f, address, what);
}

/* An element's place behind the index block. */
typedef struct Place {
    unsigned super;           /* super block */
    uint64_t blocks, each;    /* its data blocks; elements in each */
    uint64_t block, in_block; /* data block in the super block; element in it */
    uint64_t page;            /* elements in a page; 0: the data block has no pages */
} Place;

static Place placeOf(const Extensible *x, uint64_t index) {
    Place p = {0};
    index -= x->in_index;
    p.super = eventio_log2((index >> eventio_log2(x->block_min)) + 1);
    index -= (((uint64_t)1 << p.super) - 1) * x->block_min;
    p.blocks = (uint64_t)1 << p.super / 2;
    const unsigned each = eventio_log2(x->block_min) + (p.super + 1) / 2; /* block_min is a power of two */
    p.each = (uint64_t)1 << each;
    p.block = index >> each;
    p.in_block = index & (p.each - 1);
    p.page = p.each > (uint64_t)1 << x->page_bits ? (uint64_t)1 << x->page_bits : 0;
    return p;
}

static cusStatus readDataBlock(Hdf5File *f, const Extensible *x, uint64_t address, const Place *p, Hdf5Chunk *chunk) {
    static const char what[] = "extensible array's data block";
    Hdf5Cursor c;
    if (address == hdf5_nowhere)
        return CUS_OK;
    const uint64_t before = PREFIX + f->address_size + x->offset_bytes;
    CUS_TRY(readBlock(f, &x->e, address, before + (p->page ? 0 : p->each * x->e.size) + CHECKSUM, "EADB", what, &c));
    (void)eventio_take(&c, x->offset_bytes);
    if (!p->page) {
        readElement(f, &x->e, c.at + p->in_block * x->e.size, chunk);
        return CUS_OK;
    }
    const uint64_t start = address + before + CHECKSUM + p->in_block / p->page * (p->page * x->e.size + CHECKSUM);
    return readPage(f, &x->e, start, p->page, p->in_block % p->page, what, chunk);
}

/* Finds the data block in a super block that the index block lists. */
static cusStatus readSuperBlock(Hdf5File *f, const Extensible *x, uint64_t address, const Place *p, Hdf5Chunk *chunk) {
    static const char what[] = "extensible array's super block";
    Hdf5Cursor c;
    if (address == hdf5_nowhere)
        return CUS_OK;
    const uint64_t pages = p->page ? p->each / p->page : 0, bitmap = p->blocks * ((pages + 7) / 8);
    const uint64_t size = PREFIX + f->address_size + x->offset_bytes + bitmap + p->blocks * f->address_size + CHECKSUM;
    CUS_TRY(readBlock(f, &x->e, address, size, "EASB", what, &c));
    (void)eventio_take(&c, x->offset_bytes);
    const uint8_t *bits = eventio_take(&c, bitmap);
    if (pages && !bitOf(bits, p->block * pages + p->in_block / p->page))
        return CUS_OK;
    (void)eventio_take(&c, p->block * f->address_size);
    return readDataBlock(f, x, eventio_takeAddress(&c), p, chunk);
}

cusStatus eventio_hdf5ExtensibleArray(Hdf5File *f, uint64_t address, int filtered, uint64_t index, Hdf5Chunk *chunk) {
    static const char what[] = "extensible array's index block";
    Extensible x;
    Hdf5Cursor c;
    CUS_TRY(openExtensible(f, address, filtered, &x));
    if (x.index_block == hdf5_nowhere)
        return CUS_OK;
    /* Super blocks, and how many of them have their data blocks in the index block. */
    const unsigned supers = 1 + x.index_bits - eventio_log2(x.block_min), direct = 2 * eventio_log2(x.pointers_min);
    const uint64_t listed = 2 * ((uint64_t)x.pointers_min - 1);
    const uint64_t size = PREFIX + f->address_size + (uint64_t)x.in_index * x.e.size + listed * f->address_size +
                          (supers > direct ? supers - direct : 0) * (uint64_t)f->address_size + CHECKSUM;
    CUS_TRY(readBlock(f, &x.e, x.index_block, size, "EAIB", what, &c));
    if (index < x.in_index) {
        readElement(f, &x.e, c.at + index * x.e.size, chunk);
        return CUS_OK;
    }
    const Place p = placeOf(&x, index);
    (void)eventio_take(&c, (uint64_t)x.in_index * x.e.size);
    if (p.super >= supers || p.super >= 62)
        return eventio_hdf5Damaged(f, address, "size of an extensible array");
    if (p.super < direct) {
        /* The first super blocks up to number s have 2^(s / 2 + 1) - 2 data blocks, and half as many again if s is odd. */
        const uint64_t half = (uint64_t)1 << p.super / 2;
        (void)eventio_take(&c, (2 * half - 2 + (p.super % 2 ? half : 0) + p.block) * f->address_size);
        const uint64_t block = eventio_takeAddress(&c);
        return c.failed || p.page ? eventio_hdf5Damaged(f, address, what) : readDataBlock(f, &x, block, &p, chunk);
    }
    (void)eventio_take(&c, (listed + (p.super - direct)) * f->address_size);
    const uint64_t super = eventio_takeAddress(&c);
    return c.failed ? eventio_hdf5Damaged(f, address, what) : readSuperBlock(f, &x, super, &p, chunk);
}
