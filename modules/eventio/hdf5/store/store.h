/* Writes HDF5's file format, for files that h5py, h5dump and libhdf5 since 1.10 read. The same contents give the same
 * bytes, whoever writes them: one process, several, or a merge of what they wrote.
 *
 *   bytes of the file                                                                written
 *   the head: superblock, object headers, small contiguous data; a multiple of 512   last
 *   bytes, whatever the number of elements
 *   chunks, one after the other, or one contiguous block of data                     as they come
 *   B-trees with the places of the chunks                                            before the head
 *
 *   column.c    a chunked dataset of one dimension that grows
 *   tree.c      the index of a dataset's chunks
 *   messages.c  what the header of a dataset says: shape, type, layout, filters; text attributes
 *   head.c      the superblock, groups and object headers
 *
 * The structs are those of the reader (hdf5/file/file.h). */
#ifndef CUSI_EVENTIO_HDF5_STORE_STORE_H
#define CUSI_EVENTIO_HDF5_STORE_STORE_H

#include "eventio/hdf5/file/file.h"
#include "eventio/output.h"

/* ---- head.c ---------------------------------------------------------------------------------------------------------- */

enum { HDF5_HEAD_BYTES = 8192, HDF5_HEAD_STEP = 512, HDF5_MAX_LABEL = 64 /* with its zero */ };

/* The head being built. Callers put little into it, so it always fits. */
typedef struct Hdf5Head {
    size_t size;
    size_t object, message; /* where the current ones start */
    uint8_t bytes[HDF5_HEAD_BYTES];
} Hdf5Head;

void eventio_headStart(Hdf5Head *h);
/* Finishes the head with the superblock for a file of `file_bytes` bytes with this root group. */
void eventio_headFinish(Hdf5Head *h, uint64_t root, uint64_t file_bytes);
/* Returns the bytes of the finished head. */
size_t eventio_headBytes(const Hdf5Head *h);

/* Appends a number of n bytes, little-endian. */
void eventio_put(Hdf5Head *h, uint64_t value, unsigned n);
/* Appends bytes, zeros if NULL; returns the address of the first. */
uint64_t eventio_putBytes(Hdf5Head *h, const void *bytes, size_t n);

/* Append an object header. Messages go between its two calls, their bodies between those of a message. */
void eventio_objectStart(Hdf5Head *h);
uint64_t eventio_objectEnd(Hdf5Head *h);
void eventio_messageStart(Hdf5Head *h, unsigned type);
void eventio_messageEnd(Hdf5Head *h);

/* Put the messages of a group: first this, then the links to its members. */
void eventio_putGroup(Hdf5Head *h);
void eventio_putLink(Hdf5Head *h, const char *name, uint64_t object);

/* ---- messages.c ------------------------------------------------------------------------------------------------------ */

Hdf5Type eventio_integerType(unsigned size, int is_signed);
Hdf5Type eventio_floatType(unsigned size);
/* Adds a member to a compound; the type starts as zeros, with number.class HDF5_COMPOUND and number.size set. */
void eventio_addMember(Hdf5Type *type, const char *name, unsigned offset, Hdf5Type member);

/* Puts the messages of a dataset. Chunked: `address` is the tree's. */
void eventio_putDataset(Hdf5Head *h, const Hdf5Dataset *d);

/* Sets the only filter: EVENTIO_FILTER_LZF, DEFLATE or ECF; 0: none. */
void eventio_setFilter(Hdf5Dataset *d, unsigned filter);

/* Puts an attribute with text of fixed size as an object's last message, with room for any label. NULL: only the room,
 * for eventio_labelObject. */
void eventio_putLabel(Hdf5Head *h, const char *name, const char *label);
/* Writes the attribute into the room that an object of a finished file has for it. *done 0: it has none. */
cusStatus eventio_labelObject(Hdf5File *f, int fd, uint64_t object, const char *name, const char *label, int *done);

/* Put attributes with text of variable size: first a heap with the texts, then attributes that refer to them by number,
 * from 1 on. */
uint64_t eventio_putTexts(Hdf5Head *h, const char *const *texts, unsigned n);
void eventio_putTextAttribute(Hdf5Head *h, const char *name, const char *text, uint64_t heap, unsigned number);

/* ---- tree.c ---------------------------------------------------------------------------------------------------------- */

/* The n chunks of a dataset, from number `first` along the first dimension on. Earlier ones were never written and read
 * as zeros. */
typedef struct Hdf5Chunks {
    Hdf5Chunk (*at)(const void *chunks, uint64_t k);
    const void *chunks;
    uint64_t first, n;
} Hdf5Chunks;

/* Writes the index from byte *end of the file on and moves *end behind it. *root is its address, or hdf5_nowhere
 * without chunks. Returns 0 on failure, see errno. */
int eventio_writeTree(int fd, const Hdf5Dataset *d, const Hdf5Chunks *chunks, uint64_t *end, uint64_t *root);

/* ---- column.c -------------------------------------------------------------------------------------------------------- */

/* Shared by the columns of a file. */
typedef struct Hdf5Columns {
    EventOutput *output;
    const char *function; /* the entry point, which messages name */
    uint64_t end;         /* end of what has been written */
    int threads;
    uint8_t *packed; /* chunks, one after the other, each with room for a plain one */
    size_t *packed_size;
} Hdf5Columns;

/* A dataset of one dimension. Elements are appended to `waiting` by the caller. */
typedef struct Hdf5Column {
    Hdf5Dataset set;  /* shape[0]: elements stored, including those skipped */
    uint64_t skipped; /* whole chunks before the first */
    size_t batch;     /* chunks that are compressed together */
    uint8_t *waiting; /* room for a batch */
    size_t filled;    /* elements that wait */
    Hdf5Chunk *chunks;
    size_t chunk_count, chunk_capacity;
} Hdf5Column;

/* Returns 0 if memory runs out. */
int eventio_columnCreate(Hdf5Column *c, const Hdf5Type *type, size_t chunk, size_t batch, unsigned filter);
void eventio_columnFree(Hdf5Column *c);
/* Allocates room for all batches of these columns. Returns 0 if memory runs out. */
int eventio_columnsCreate(Hdf5Columns *all, const Hdf5Column *columns, int n);
void eventio_columnsFree(Hdf5Columns *all);

/* Stores the complete chunks that wait; at the end also the last one, padded with zeros. */
cusStatus eventio_columnStore(Hdf5Columns *all, Hdf5Column *c, int at_end);
/* Appends one element and stores the batch if it is full. */
cusStatus eventio_columnAppend(Hdf5Columns *all, Hdf5Column *c, const void *element);
/* Appends n elements, at most as many as there is room for. */
void eventio_columnFill(Hdf5Column *c, const void *elements, size_t n);
/* Stores what waits, and the index; then the dataset's header may be written. */
cusStatus eventio_columnFinish(Hdf5Columns *all, Hdf5Column *c);

#endif
