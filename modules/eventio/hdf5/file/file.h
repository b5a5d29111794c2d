/* A strict reader of HDF5's file format, for the part of it that recordings use. The file may come from a stranger:
 * every address and size is checked against the file before it is used, checksums are verified, and the work of each
 * call is bounded. Nothing recurses on what the file says, and nothing outside the file is opened. Nothing below
 * includes what stands above it:
 *
 *   index.c       where a chunk is stored: the six kinds of index
 *   dataset.c     shape, layout and filters of a dataset; attribute.c: an attribute, in its object or in a heap
 *   type.c        datatypes
 *   group.c       an object's address by its name, in old and new groups
 *   heap.c        objects in fractal heaps and global heaps
 *   arrays.c, trees.c    fixed and extensible arrays; B-trees of versions 1 and 2
 *   object.c      the messages of object headers
 *   blocks.c      the superblock; verified blocks of the file, some of which it keeps
 *
 * Format: "HDF5 File Format Specification Version 4.0" (The HDF Group). Addresses are those of the file, counted from
 * the superblock. Functions return CUS_OK, or with a message FORMAT (damaged), TRUNCATED (the file ends before what it
 * claims), UNSUPPORTED, CAPACITY, IO or NO_MEMORY. */
#ifndef CUSI_EVENTIO_HDF5_FILE_FILE_H
#define CUSI_EVENTIO_HDF5_FILE_FILE_H

#include "eventio/source.h"

#include <string.h>

enum {
    HDF5_KEPT_BLOCKS = 16,
    HDF5_MAX_BLOCK = 1 << 20, /* bytes of one block of metadata */
    HDF5_MAX_RANK = 4,
    HDF5_MAX_FILTERS = 32, /* the format's limit */
    HDF5_MAX_FILTER_VALUES = 24,
    HDF5_MAX_MEMBERS = 8
};
static const uint64_t hdf5_nowhere = UINT64_MAX; /* address of what was never written */

/* A verified part of the file. */
typedef struct Hdf5Block {
    uint64_t address;
    size_t size;
    int checksum;   /* as passed to eventio_hdf5Block */
    uint8_t *bytes; /* NULL: none */
    uint64_t used;  /* the file's clock at the last use */
} Hdf5Block;

typedef struct Hdf5File {
    const EventSource *source;
    const char *function; /* the entry point, which messages name */
    uint64_t base, end;   /* place of the superblock; end of the file according to it, counted from there */
    unsigned address_size, length_size;
    uint64_t root; /* the root group */
    Hdf5Block kept[HDF5_KEPT_BLOCKS];
    uint64_t clock;
} Hdf5File;

/* ---- blocks.c -------------------------------------------------------------------------------------------------------- */

/* Reads the superblock at byte `base` of the source, whose signature the caller has found. */
cusStatus eventio_openHdf5File(Hdf5File *f, const EventSource *source, uint64_t base, const char *function);
void eventio_closeHdf5File(Hdf5File *f);

/* Checks that bytes address .. address + size - 1, part of `what`, are in the file: CUS_OK, FORMAT or TRUNCATED. */
cusStatus eventio_hdf5Within(const Hdf5File *f, uint64_t address, uint64_t size, const char *what);

enum { HDF5_UNCHECKED = -1, HDF5_CHECKSUM_LAST = -2 };
/* Reads the block at `address`, valid until the next call for this file. checksum: where its lookup3 checksum is,
 * HDF5_CHECKSUM_LAST (the last four bytes) or HDF5_UNCHECKED. */
cusStatus eventio_hdf5Block(Hdf5File *f, uint64_t address, uint64_t size, int checksum, const char *what,
                            const uint8_t **bytes);

/* Copies n bytes, zeros past the end of the file; only to learn how large a block is. */
cusStatus eventio_hdf5Peek(const Hdf5File *f, uint64_t address, void *bytes, size_t n, const char *what);

/* Fails with FORMAT: `what` at this address is damaged. */
cusStatus eventio_hdf5Damaged(const Hdf5File *f, uint64_t address, const char *what);

uint32_t eventio_lookup3(const uint8_t *bytes, size_t n);

#ifdef CUSI_FUZZ
/* Is called for a wrong checksum, with its offset in the source and the right value. The block then counts as good. */
extern void (*eventio_hdf5Repair)(uint64_t at, uint32_t checksum);
#endif

/* Reads the fields of a block one after the other. Past its end they are 0, and `failed` is set. */
typedef struct Hdf5Cursor {
    const uint8_t *at, *end;
    unsigned address_size, length_size;
    int failed;
} Hdf5Cursor;

static inline Hdf5Cursor eventio_hdf5Cursor(const Hdf5File *f, const uint8_t *bytes, size_t n) {
    return (Hdf5Cursor){bytes, bytes + n, f->address_size, f->length_size, 0};
}
/* Returns the next n bytes; NULL past the end. */
static inline const uint8_t *eventio_take(Hdf5Cursor *c, uint64_t n) {
    const uint8_t *bytes = c->at;
    if (n > (uint64_t)(c->end - c->at)) {
        c->failed = 1;
        return NULL;
    }
    c->at += n;
    return bytes;
}
static inline uint64_t eventio_number(const uint8_t *bytes, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}
/* Returns a number of up to 8 bytes. */
static inline uint64_t eventio_takeNumber(Hdf5Cursor *c, unsigned size) {
    const uint8_t *bytes = eventio_take(c, size);
    return bytes ? eventio_number(bytes, size) : 0;
}
static inline uint64_t eventio_takeLength(Hdf5Cursor *c) {
    return eventio_takeNumber(c, c->length_size);
}
static inline uint64_t eventio_takeAddress(Hdf5Cursor *c) {
    const uint64_t value = eventio_takeNumber(c, c->address_size);
    return value == UINT64_MAX >> (64 - 8 * c->address_size) ? hdf5_nowhere : value;
}
/* Returns whether the next bytes are this signature and version. */
static inline int eventio_takeSignature(Hdf5Cursor *c, const char *signature, unsigned version) {
    const uint8_t *s = eventio_take(c, 4);
    return s && memcmp(s, signature, 4) == 0 && eventio_takeNumber(c, 1) == version;
}
/* Returns the bytes that numbers up to `most` take. */
static inline unsigned eventio_numberBytes(uint64_t most) {
    unsigned bytes = 1;
    while (bytes < 8 && most >> 8 * bytes)
        ++bytes;
    return bytes;
}
static inline unsigned eventio_log2(uint64_t value) {
    return value ? 63u - (unsigned)__builtin_clzll(value) : 0;
}

/* ---- object.c -------------------------------------------------------------------------------------------------------- */

enum {
    HDF5_NOTHING = 0,
    HDF5_DATASPACE = 1,
    HDF5_LINK_INFO = 2,
    HDF5_DATATYPE = 3,
    HDF5_FILL = 5,
    HDF5_LINK = 6,
    HDF5_EXTERNAL = 7,
    HDF5_LAYOUT = 8,
    HDF5_GROUP_INFO = 10,
    HDF5_FILTERS = 11,
    HDF5_ATTRIBUTE = 12,
    HDF5_CONTINUATION = 16,
    HDF5_SYMBOL_TABLE = 17,
    HDF5_ATTRIBUTE_INFO = 21
};

typedef struct Hdf5Message {
    unsigned type;
    int is_shared;    /* the body is stored elsewhere; these bytes say where */
    uint64_t address; /* address of the body */
    const uint8_t *body;
    size_t size;
} Hdf5Message;

/* A visitor must not read blocks: the message is in one. */
typedef cusStatus (*Hdf5Visit)(Hdf5File *f, const Hdf5Message *message, void *context);
/* Visits the messages of the object header at `address`, in the file's order. */
cusStatus eventio_hdf5Messages(Hdf5File *f, uint64_t address, Hdf5Visit visit, void *context);

/* ---- trees.c --------------------------------------------------------------------------------------------------------- */

/* Finds a name in an old group: the object header's address, or hdf5_nowhere with *found for a soft link. */
cusStatus eventio_hdf5FindSymbol(Hdf5File *f, uint64_t tree, uint64_t heap, const char *name, int *found,
                                 uint64_t *address);

typedef struct Hdf5Chunk {
    uint64_t address; /* hdf5_nowhere: never written */
    uint64_t size;    /* bytes stored */
    uint32_t mask;    /* filters not applied, one bit each */
} Hdf5Chunk;

/* Finds the chunk whose first element is at `offsets` (rank numbers) in a version 1 B-tree. */
cusStatus eventio_hdf5TreeChunk(Hdf5File *f, uint64_t tree, unsigned rank, const uint64_t *offsets, Hdf5Chunk *chunk);

/* Compares a record of a version 2 B-tree with what is wanted: negative if the record comes before it, 0 if it matches. */
typedef int (*Hdf5Compare)(const uint8_t *record, const void *wanted);
/* Copies all matching records of `size` bytes each, up to `most`; more are an error. `type` and `size` must be the
 * tree's. */
cusStatus eventio_hdf5Records(Hdf5File *f, uint64_t tree, unsigned type, unsigned size, Hdf5Compare compare,
                              const void *wanted, unsigned most, uint8_t *records, unsigned *count);
cusStatus eventio_hdf5RecordSize(Hdf5File *f, uint64_t tree, unsigned *size);

/* ---- arrays.c -------------------------------------------------------------------------------------------------------- */

/* Finds element `index` of the fixed or extensible array whose header is at `address`. */
cusStatus eventio_hdf5FixedArray(Hdf5File *f, uint64_t address, int filtered, uint64_t index, Hdf5Chunk *chunk);
cusStatus eventio_hdf5ExtensibleArray(Hdf5File *f, uint64_t address, int filtered, uint64_t index, Hdf5Chunk *chunk);

/* ---- heap.c ---------------------------------------------------------------------------------------------------------- */

/* Finds the object with this ID in a fractal heap, valid like a block. */
cusStatus eventio_hdf5HeapObject(Hdf5File *f, uint64_t heap, const uint8_t *id, unsigned id_size, const uint8_t **bytes,
                                 size_t *size);
cusStatus eventio_hdf5GlobalObject(Hdf5File *f, uint64_t heap, uint64_t index, const uint8_t **bytes, size_t *size);

/* ---- group.c --------------------------------------------------------------------------------------------------------- */

typedef enum Hdf5Kind {
    HDF5_MISSING,
    HDF5_ELSEWHERE, /* a soft, external or user-defined link */
    HDF5_GROUP,
    HDF5_DATASET,
    HDF5_OTHER /* a named datatype */
} Hdf5Kind;

/* Looks `name` up in a group, without following links. */
cusStatus eventio_hdf5Find(Hdf5File *f, uint64_t group, const char *name, Hdf5Kind *kind, uint64_t *address);

/* ---- type.c ---------------------------------------------------------------------------------------------------------- */

typedef enum Hdf5Class {
    HDF5_INTEGER,
    HDF5_FLOAT,
    HDF5_TEXT,
    HDF5_VARIABLE_TEXT,
    HDF5_COMPOUND,
    HDF5_OTHER_CLASS
} Hdf5Class;

/* A number, or text of `size` bytes. Enumerations, such as h5py's booleans, are their integers. */
typedef struct Hdf5Number {
    Hdf5Class class;
    uint32_t size;
    unsigned bits; /* bits of the value; fewer than `size` bytes have if it is padded */
    int is_signed, is_big_endian;
    int is_plain; /* no padding, in one of the two byte orders; floats: IEEE 754 of 2, 4 or 8 bytes */
} Hdf5Number;

typedef struct Hdf5Member {
    char name[24];
    uint32_t offset;
    Hdf5Number number;
} Hdf5Member;

typedef struct Hdf5Type {
    Hdf5Number number;
    unsigned member_count;
    Hdf5Member member[HDF5_MAX_MEMBERS];
} Hdf5Type;

cusStatus eventio_hdf5Type(const Hdf5File *f, const uint8_t *body, size_t size, uint64_t address, Hdf5Type *type);

/* ---- dataset.c, attribute.c ------------------------------------------------------------------------------------------ */

typedef enum Hdf5Storage { HDF5_CONTIGUOUS, HDF5_CHUNKED, HDF5_VIRTUAL } Hdf5Storage;
typedef enum Hdf5Index {
    HDF5_TREE_1 = 0,
    HDF5_SINGLE = 1,
    HDF5_IMPLICIT = 2,
    HDF5_FIXED_ARRAY = 3,
    HDF5_EXTENSIBLE_ARRAY = 4,
    HDF5_TREE_2 = 5
} Hdf5Index;

typedef struct Hdf5Filter {
    unsigned id, flags, value_count;
    uint32_t values[HDF5_MAX_FILTER_VALUES];
} Hdf5Filter;

typedef struct Hdf5Dataset {
    Hdf5Type type;
    unsigned rank;                 /* 0: scalar; at most 32 */
    int is_null;                   /* the dataspace has no elements, not even one */
    uint64_t shape[HDF5_MAX_RANK]; /* sizes of the first dimensions */
    uint64_t most[HDF5_MAX_RANK];  /* what they may grow to; UINT64_MAX: no limit */
    Hdf5Storage storage;
    int is_external;
    uint64_t address; /* contiguous, and compact: the first byte; chunked: the index; hdf5_nowhere: never written */
    uint64_t bytes;   /* contiguous, compact: stored bytes, 0 if the file does not say */
    uint64_t chunk[HDF5_MAX_RANK];
    uint64_t chunk_bytes;
    Hdf5Index index;
    int single_is_filtered, partial_is_plain; /* partial: chunks that reach past the shape are stored without filters */
    Hdf5Chunk single;
    unsigned filter_count;
    Hdf5Filter filters[HDF5_MAX_FILTERS];
} Hdf5Dataset;

/* Reads the object header of a dataset; `name` is for messages. If it leads out of the file (external, virtual), type
 * and shape may stay unset. */
cusStatus eventio_hdf5Dataset(Hdf5File *f, uint64_t address, const char *name, Hdf5Dataset *dataset);

/* Reads a text attribute, cut to size - 1 bytes, and terminates it. *found 0: there is none, or it is not text. */
cusStatus eventio_hdf5Text(Hdf5File *f, uint64_t object, const char *name, char *text, size_t size, int *found);

/* Reads the integers of an attribute as stored, up to `size` bytes. *count 0: there is none, or it has no integers. */
cusStatus eventio_hdf5Integers(Hdf5File *f, uint64_t object, const char *name, uint8_t *values, size_t size,
                               Hdf5Number *number, unsigned *count);

/* ---- index.c --------------------------------------------------------------------------------------------------------- */

/* Finds a chunk by its number in each dimension. Its bytes may be past the end of the file. */
cusStatus eventio_hdf5FindChunk(Hdf5File *f, const Hdf5Dataset *dataset, const uint64_t *number, Hdf5Chunk *chunk);

#endif
