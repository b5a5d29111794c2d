/* Reads the few things that AEDAT4 needs of FlatBuffers: tables, fields and vectors. Each offset is checked before it
 * is followed; nothing recurses. A function returns 0 if the buffer is not valid. */
#ifndef CUSI_EVENTIO_AEDAT4_FLATBUFFER_H
#define CUSI_EVENTIO_AEDAT4_FLATBUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct FlatTable {
    const uint8_t *bytes; /* the whole buffer */
    size_t size;
    size_t at, length;          /* the table */
    size_t fields, field_count; /* offsets of its fields, 16 bits each */
} FlatTable;

/* Finds the root table of a buffer of `size` bytes after its size prefix, which has a file identifier of 4 letters. */
int eventio_flatRoot(const uint8_t *bytes, size_t size, const char *identifier, FlatTable *table);

/* Sets *field to `size` bytes in the table, or to NULL if the field has its default. */
int eventio_flatField(const FlatTable *table, unsigned number, size_t size, const uint8_t **field);

/* Finds the elements of a vector, or the characters of a string; none if the field has its default. */
int eventio_flatVector(const FlatTable *table, unsigned number, size_t element, const uint8_t **elements, size_t *count);

/* Opens element i of a vector of tables, with `elements` and i < count from eventio_flatVector. */
int eventio_flatElement(const FlatTable *parent, const uint8_t *elements, size_t i, FlatTable *table);

#endif
