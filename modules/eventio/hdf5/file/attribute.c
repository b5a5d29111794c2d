/* Attributes with text or numbers, in the object header or, if there are many, in a fractal heap. Text of any length is
 * in a global heap. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

enum { MAX_EQUAL_HASHES = 16, NAME_RECORD = 8, ID_SIZE = 8, RECORD = 17 };

/* An attribute being looked for. */
typedef struct Attribute {
    const char *name;
    Hdf5Number number; /* the type, once found */
    uint8_t *value;
    size_t size, filled; /* bytes */
    int found;
    uint64_t heap, index; /* place of the text in a global heap */
    uint64_t dense_heap, dense_tree;
} Attribute;

static void copyValue(Attribute *a, const uint8_t *value, size_t n) {
    a->filled = n < a->size ? n : a->size;
    memcpy(a->value, value, a->filled);
    a->found = 1;
}

/* Reads an attribute message: name, type, shape and value. */
static cusStatus readAttribute(const Hdf5File *f, const uint8_t *body, size_t size, uint64_t place, Attribute *a) {
    enum { SHARED = 3 };
    Hdf5Cursor c = eventio_hdf5Cursor(f, body, size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1), flags = (unsigned)eventio_takeNumber(&c, 1);
    const uint64_t name_size = eventio_takeNumber(&c, 2), type_size = eventio_takeNumber(&c, 2),
                   space_size = eventio_takeNumber(&c, 2), step = version == 1 ? 8 : 1;
    (void)eventio_take(&c, version == 3 ? 1 : 0); /* the character set */
    const uint8_t *name = eventio_take(&c, (name_size + step - 1) / step * step);
    const uint8_t *type_at = eventio_take(&c, (type_size + step - 1) / step * step);
    (void)eventio_take(&c, (space_size + step - 1) / step * step);
    if (c.failed || version < 1 || version > 3)
        return eventio_hdf5Damaged(f, place, "attribute");
    const size_t wanted = strlen(a->name) + 1;
    if (name_size != wanted || memcmp(name, a->name, wanted) != 0 || (version > 1 && flags & SHARED))
        return CUS_OK;
    Hdf5Type type;
    CUS_TRY(eventio_hdf5Type(f, type_at, (size_t)type_size, place, &type));
    a->number = type.number;
    if (type.number.class == HDF5_VARIABLE_TEXT) {
        (void)eventio_takeNumber(&c, 4); /* the length, which the heap has too */
        a->heap = eventio_takeAddress(&c);
        a->index = eventio_takeNumber(&c, 4);
        return c.failed ? eventio_hdf5Damaged(f, place, "attribute") : CUS_OK;
    }
    const size_t there = (size_t)(c.end - c.at);
    if (there < type.number.size)
        return eventio_hdf5Damaged(f, place, "attribute");
    copyValue(a, c.at, type.number.class == HDF5_TEXT ? type.number.size : there);
    return CUS_OK;
}

static cusStatus visitObject(Hdf5File *f, const Hdf5Message *m, void *context) {
    enum { TRACKS_ORDER = 1 };
    Attribute *a = context;
    if (m->type == HDF5_ATTRIBUTE && !m->is_shared)
        return readAttribute(f, m->body, m->size, m->address, a);
    if (m->type != HDF5_ATTRIBUTE_INFO || m->is_shared)
        return CUS_OK;
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1), flags = (unsigned)eventio_takeNumber(&c, 1);
    (void)eventio_take(&c, flags & TRACKS_ORDER ? 2 : 0);
    a->dense_heap = eventio_takeAddress(&c);
    a->dense_tree = eventio_takeAddress(&c);
    return c.failed || version != 0 ? eventio_hdf5Damaged(f, m->address, "list of attributes") : CUS_OK;
}

static int compareHash(const uint8_t *record, const void *wanted) {
    const uint32_t there = (uint32_t)eventio_number(record + RECORD - 4, 4), hash = *(const uint32_t *)wanted;
    return there < hash ? -1 : there > hash;
}

static cusStatus readDense(Hdf5File *f, Attribute *a) {
    uint8_t records[MAX_EQUAL_HASHES * RECORD];
    unsigned count;
    const uint32_t hash = eventio_lookup3((const uint8_t *)a->name, strlen(a->name));
    CUS_TRY(
        eventio_hdf5Records(f, a->dense_tree, NAME_RECORD, RECORD, compareHash, &hash, MAX_EQUAL_HASHES, records, &count));
    for (unsigned i = 0; i < count; ++i) {
        const uint8_t *bytes;
        size_t size;
        CUS_TRY(eventio_hdf5HeapObject(f, a->dense_heap, records + (size_t)i * RECORD, ID_SIZE, &bytes, &size));
        CUS_TRY(readAttribute(f, bytes, size, a->dense_heap, a));
    }
    return CUS_OK;
}

/* Sets a->found, a->number and the value. */
static cusStatus findAttribute(Hdf5File *f, uint64_t object, Attribute *a) {
    CUS_TRY(eventio_hdf5Messages(f, object, visitObject, a));
    if (!a->found && a->heap == hdf5_nowhere && a->dense_tree != hdf5_nowhere)
        CUS_TRY(readDense(f, a));
    if (!a->found && a->heap != hdf5_nowhere) {
        const uint8_t *bytes;
        size_t length;
        CUS_TRY(eventio_hdf5GlobalObject(f, a->heap, a->index, &bytes, &length));
        copyValue(a, bytes, length);
    }
    return CUS_OK;
}

cusStatus eventio_hdf5Text(Hdf5File *f, uint64_t object, const char *name, char *text, size_t size, int *found) {
    Attribute a = {.name = name, .value = (uint8_t *)text, .size = size - 1};
    a.heap = a.dense_heap = a.dense_tree = hdf5_nowhere;
    text[0] = 0;
    CUS_TRY(findAttribute(f, object, &a));
    *found = a.found && (a.number.class == HDF5_TEXT || a.number.class == HDF5_VARIABLE_TEXT);
    text[*found ? a.filled : 0] = 0;
    return CUS_OK;
}

cusStatus eventio_hdf5Integers(Hdf5File *f, uint64_t object, const char *name, uint8_t *values, size_t size,
                               Hdf5Number *number, unsigned *count) {
    Attribute a = {.name = name, .value = values, .size = size};
    a.heap = a.dense_heap = a.dense_tree = hdf5_nowhere;
    CUS_TRY(findAttribute(f, object, &a));
    *number = a.number;
    *count = a.found && a.number.class == HDF5_INTEGER && a.number.is_plain ? (unsigned)(a.filled / a.number.size) : 0;
    return CUS_OK;
}
