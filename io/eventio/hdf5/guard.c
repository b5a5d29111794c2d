/* Checks of HDF5 structures on which libhdf5 1.10 crashes or never returns: chunks without extent, and a free list of a
 * group's names that is a circle. They read the file before libhdf5 does, and leave everything else to it. */
#include "eventio/hdf5/guard.h"
#ifdef CUSI_WITH_HDF5

#include <string.h>

enum {
    MESSAGE_DATASPACE = 1,
    MESSAGE_LAYOUT = 8,
    MESSAGE_CONTINUATION = 16,
    CLASS_COMPACT = 0,
    CLASS_CHUNKED = 2,
    MAX_DIMENSIONS = 33, /* with the size of an element */
    MAX_BLOCKS = 64,     /* blocks of an object header; libhdf5 writes one or two */
    MAX_MESSAGES = 65536
};

/* How the file counts addresses: from the superblock, in numbers of these sizes. */
typedef struct Layout {
    const EventSource *source;
    uint64_t base;
    unsigned address_size, length_size;
    int failed; /* the file could not be read */
} Layout;

typedef struct Block {
    uint64_t at, size;
} Block;

/* Bytes past the end read as zeros. */
static void readBytes(Layout *l, uint64_t at, void *buffer, size_t n) {
    const uint64_t start = l->base + at;
    const int64_t got = start < l->base ? 0 : eventio_readAt(l->source, start, buffer, n);
    const size_t have = got < 0 ? 0 : (size_t)got;
    l->failed |= got < 0;
    memset((uint8_t *)buffer + have, 0, n - have);
}

static uint64_t number(const uint8_t *bytes, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size && i < 8; ++i)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static Layout layoutOf(const EventSource *source, uint64_t base) {
    uint8_t start[16];
    Layout l = {source, base, 8, 8, 0};
    readBytes(&l, 0, start, sizeof start);
    const uint8_t *sizes = start[8] < 2 ? start + 13 : start + 9;
    if (sizes[0] <= 8 && sizes[1] <= 8) { /* the format allows 16 and 32, but nothing writes them */
        l.address_size = sizes[0];
        l.length_size = sizes[1];
    }
    return l;
}

/* ---- Chunks ---------------------------------------------------------------------------------------------------------- */

/* What the messages of an object header say. */
typedef struct Header {
    Block blocks[MAX_BLOCKS];
    int block_count, messages_left;
    int is_new;       /* the format "OHDR" */
    unsigned fixed;   /* bytes before each message */
    unsigned rank;    /* the greatest of the dataspace */
    unsigned extents; /* the fewest of a chunk */
    int has_zero;     /* an extent is 0; libhdf5 keeps 32 bits of each, and divides by them */
    int is_elsewhere; /* the dataspace is in another object */
} Header;

static void readLayoutMessage(const Layout *l, const uint8_t *message, Header *header) {
    const unsigned version = message[0];
    unsigned class = message[1], count = message[2], size = 4;
    const uint8_t *extents = message + 3 + l->address_size;
    if (version < 3) {
        count = message[1];
        class = message[2];
        extents = message + 8 + (class == CLASS_COMPACT ? 0 : l->address_size);
    } else if (version > 3) {
        count = message[3];
        size = message[4];
        extents = message + 5;
    }
    if (class != CLASS_CHUNKED || count > MAX_DIMENSIONS || size > 8)
        return; /* nothing to divide by, or libhdf5 refuses it */
    header->extents = count < header->extents ? count : header->extents;
    for (unsigned i = 0; i < count; ++i)
        if ((uint32_t)number(extents + size * i, size) == 0)
            header->has_zero = 1;
}

static void readContinuation(const Layout *l, const uint8_t *message, Header *header) {
    Block next = {number(message, l->address_size), number(message + l->address_size, l->length_size)};
    if (header->block_count == MAX_BLOCKS)
        return;
    if (header->is_new) { /* "OCHK" before, a checksum after */
        next.at += 4;
        next.size = next.size > 8 ? next.size - 8 : 0;
    }
    header->blocks[header->block_count++] = next;
}

static void readBlock(Layout *l, Block block, Header *header) {
    const unsigned fixed = header->fixed;
    while (block.size >= fixed && header->messages_left-- > 0 && !l->failed) {
        uint8_t message[8 + 8 + 8 * MAX_DIMENSIONS + 8];
        readBytes(l, block.at, message, sizeof message);
        const unsigned type = header->is_new ? message[0] : (unsigned)number(message, 2);
        const int is_shared = message[header->is_new ? 3 : 4] >> 1 & 1;
        const uint64_t size = fixed + number(message + (header->is_new ? 1 : 2), 2);
        const uint8_t *body = message + fixed;
        if (type == MESSAGE_DATASPACE) {
            header->is_elsewhere |= is_shared;
            header->rank = body[1] > header->rank ? body[1] : header->rank;
        } else if (type == MESSAGE_LAYOUT) {
            readLayoutMessage(l, body, header);
        } else if (type == MESSAGE_CONTINUATION) {
            readContinuation(l, body, header);
        }
        if (size > block.size)
            break;
        block.at += size;
        block.size -= size;
    }
}

int eventio_datasetIsGood(const EventSource *source, uint64_t base, uint64_t address) {
    Layout l = layoutOf(source, base);
    uint8_t start[40];
    readBytes(&l, address, start, sizeof start);
    const unsigned flags = start[5];
    Header header = {.block_count = 1, .messages_left = MAX_MESSAGES, .fixed = 8, .extents = MAX_DIMENSIONS + 1};
    header.blocks[0] = (Block){address + 16, number(start + 8, 4)};
    header.is_new = memcmp(start, "OHDR", 4) == 0;
    if (header.is_new) {
        const unsigned before = 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0), width = 1u << (flags & 3);
        header.fixed = 4 + (flags & 4 ? 2 : 0);
        header.blocks[0] = (Block){address + before + width, number(start + before, width)};
    }
    for (int i = 0; i < header.block_count; ++i)
        readBlock(&l, header.blocks[i], &header);
    if (l.failed)
        return -1;
    const int is_chunked = header.extents <= MAX_DIMENSIONS;
    return !is_chunked || (!header.has_zero && !header.is_elsewhere && header.extents > header.rank && header.extents > 1);
}

/* ---- Names of groups ------------------------------------------------------------------------------------------------- */

int eventio_heapIsGood(const EventSource *source, uint64_t base, const uint8_t *prefix, size_t n) {
    Layout l = layoutOf(source, base);
    if (n < 8 + 2 * (size_t)l.length_size + l.address_size || memcmp(prefix, "HEAP", 4) != 0)
        return 1;
    const uint64_t size = number(prefix + 8, l.length_size), at = number(prefix + 8 + 2 * l.length_size, l.address_size);
    uint64_t next = number(prefix + 8 + l.length_size, l.length_size), left = size / (2 * l.length_size + !l.length_size);
    if (size > EVENTIO_METADATA_BYTES) /* libhdf5 would allocate all of it before it reads it */
        return EVENTIO_HEAP_TOO_LARGE;
    while (next != 1 && next < size && !l.failed) { /* 1: the end */
        uint8_t bytes[8];
        if (left-- == 0)
            return 0;
        readBytes(&l, at + next, bytes, sizeof bytes);
        next = number(bytes, l.length_size);
    }
    return l.failed ? -1 : 1;
}
#endif
