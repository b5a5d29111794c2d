/* Writes the messages of a dataset's header: shape, type, fill value, layout, filters, and attributes with text. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"

#include <errno.h>
#include <string.h>

/* ---- Types ----------------------------------------------------------------------------------------------------------- */

Hdf5Type eventio_integerType(unsigned size, int is_signed) {
    return (Hdf5Type){.number = {HDF5_INTEGER, size, 8 * size, is_signed, 0, 1}};
}

Hdf5Type eventio_floatType(unsigned size) {
    return (Hdf5Type){.number = {HDF5_FLOAT, size, 8 * size, 1, 0, 1}};
}

void eventio_addMember(Hdf5Type *type, const char *name, unsigned offset, Hdf5Type member) {
    Hdf5Member *m = &type->member[type->member_count++];
    strncpy(m->name, name, sizeof m->name - 1);
    m->offset = offset;
    m->number = member.number;
}

/* Puts the class and version of a type, 24 bits, and its size. */
static void putTypeStart(Hdf5Head *h, unsigned class, unsigned version, unsigned bits, unsigned size) {
    eventio_put(h, version << 4 | class, 1);
    eventio_put(h, bits, 3);
    eventio_put(h, size, 4);
}

/* Puts an IEEE 754 type: the sign is the highest bit, and the first bit of the mantissa is implied. */
static void putFloat(Hdf5Head *h, unsigned size) {
    enum { FLOAT = 1, IMPLIED_BIT = 2 << 4 };
    const unsigned exponent = size == 2 ? 5 : size == 4 ? 8 : 11, mantissa = 8 * size - 1 - exponent;
    putTypeStart(h, FLOAT, 1, (8 * size - 1) << 8 | IMPLIED_BIT, size);
    eventio_put(h, 0, 2);
    eventio_put(h, 8 * size, 2);
    eventio_put(h, mantissa, 1);
    eventio_put(h, exponent, 1);
    eventio_put(h, 0, 1);
    eventio_put(h, mantissa, 1);
    eventio_put(h, (1u << (exponent - 1)) - 1, 4);
}

static void putNumber(Hdf5Head *h, const Hdf5Number *n) {
    enum { INTEGER = 0, SIGNED = 8 };
    if (n->class == HDF5_FLOAT) {
        putFloat(h, n->size);
        return;
    }
    putTypeStart(h, INTEGER, 1, n->is_signed ? SIGNED : 0, n->size);
    eventio_put(h, 0, 2);
    eventio_put(h, 8 * n->size, 2);
}

static void putType(Hdf5Head *h, const Hdf5Type *type) {
    enum { COMPOUND = 6, VERSION = 3 };
    if (type->number.class != HDF5_COMPOUND) {
        putNumber(h, &type->number);
        return;
    }
    putTypeStart(h, COMPOUND, VERSION, type->member_count, type->number.size);
    for (unsigned i = 0; i < type->member_count; ++i) {
        const Hdf5Member *m = &type->member[i];
        eventio_putBytes(h, m->name, strlen(m->name) + 1);
        eventio_put(h, m->offset, eventio_numberBytes(type->number.size));
        putNumber(h, &m->number);
    }
}

/* ---- Datasets -------------------------------------------------------------------------------------------------------- */

static void putShape(Hdf5Head *h, const Hdf5Dataset *d) {
    enum { VERSION = 2, HAS_MOST = 1, SIMPLE = 1 };
    const int grows = d->storage == HDF5_CHUNKED;
    eventio_messageStart(h, HDF5_DATASPACE);
    eventio_put(h, VERSION, 1);
    eventio_put(h, d->rank, 1);
    eventio_put(h, grows ? HAS_MOST : 0, 1);
    eventio_put(h, SIMPLE, 1);
    for (unsigned i = 0; i < d->rank; ++i)
        eventio_put(h, d->shape[i], 8);
    for (unsigned i = 0; i < d->rank && grows; ++i)
        eventio_put(h, i == 0 ? UINT64_MAX : d->shape[i], 8);
    eventio_messageEnd(h);
}

/* Chunks that were never written read as zeros; contiguous data are always written. */
static void putFill(Hdf5Head *h, const Hdf5Dataset *d) {
    enum { VERSION = 3, EARLY = 1, INCREMENTAL = 3, NEVER = 1 << 2, IF_SET = 2 << 2 };
    eventio_messageStart(h, HDF5_FILL);
    eventio_put(h, VERSION, 1);
    eventio_put(h, d->storage == HDF5_CHUNKED ? INCREMENTAL | IF_SET : EARLY | NEVER, 1);
    eventio_messageEnd(h);
}

static void putLayout(Hdf5Head *h, const Hdf5Dataset *d) {
    enum { VERSION = 3, CONTIGUOUS = 1, CHUNKED = 2 };
    eventio_messageStart(h, HDF5_LAYOUT);
    eventio_put(h, VERSION, 1);
    eventio_put(h, d->storage == HDF5_CHUNKED ? CHUNKED : CONTIGUOUS, 1);
    if (d->storage == HDF5_CHUNKED) {
        eventio_put(h, d->rank + 1, 1);
        eventio_put(h, d->address, 8);
        for (unsigned i = 0; i < d->rank; ++i)
            eventio_put(h, d->chunk[i], 4);
        eventio_put(h, d->type.number.size, 4);
    } else {
        eventio_put(h, d->address, 8);
        eventio_put(h, d->bytes, 8);
    }
    eventio_messageEnd(h);
}

static void putFilters(Hdf5Head *h, const Hdf5Dataset *d) {
    enum { VERSION = 2, FIRST_NAMED = 256 };
    eventio_messageStart(h, HDF5_FILTERS);
    eventio_put(h, VERSION, 1);
    eventio_put(h, d->filter_count, 1);
    for (unsigned k = 0; k < d->filter_count; ++k) {
        const Hdf5Filter *f = &d->filters[k];
        eventio_put(h, f->id, 2);
        eventio_put(h, 0, f->id >= FIRST_NAMED ? 2 : 0); /* no name */
        eventio_put(h, f->flags, 2);
        eventio_put(h, f->value_count, 2);
        for (unsigned i = 0; i < f->value_count; ++i)
            eventio_put(h, f->values[i], 4);
    }
    eventio_messageEnd(h);
}

void eventio_setFilter(Hdf5Dataset *d, unsigned filter) {
    enum { OPTIONAL = 1, LEVEL = 6 };
    d->filter_count = filter != 0;
    d->filters[0] = (Hdf5Filter){.id = filter, .flags = OPTIONAL};
    if (filter == EVENTIO_FILTER_LZF) /* what h5py stores: filter revision, LZF version, bytes of a chunk */
        d->filters[0] = (Hdf5Filter){filter, OPTIONAL, 3, {4, 261, (uint32_t)d->chunk_bytes}};
    else if (filter == EVENTIO_FILTER_DEFLATE)
        d->filters[0] = (Hdf5Filter){filter, OPTIONAL, 1, {LEVEL}};
}

void eventio_putDataset(Hdf5Head *h, const Hdf5Dataset *d) {
    putShape(h, d);
    eventio_messageStart(h, HDF5_DATATYPE);
    putType(h, &d->type);
    eventio_messageEnd(h);
    putFill(h, d);
    putLayout(h, d);
    if (d->filter_count)
        putFilters(h, d);
}

/* ---- Attributes ------------------------------------------------------------------------------------------------------ */

enum { ATTRIBUTE_VERSION = 3, TEXT_TYPE = 8, SCALAR_SPACE = 4, MESSAGE_PREFIX = 4 };

/* Puts the start of an attribute whose type has this many bytes; type and value follow. */
static void putAttributeStart(Hdf5Head *h, const char *name, unsigned type_bytes) {
    eventio_messageStart(h, HDF5_ATTRIBUTE);
    eventio_put(h, ATTRIBUTE_VERSION, 1);
    eventio_put(h, 0, 1);
    eventio_put(h, strlen(name) + 1, 2);
    eventio_put(h, type_bytes, 2);
    eventio_put(h, SCALAR_SPACE, 2);
    eventio_put(h, 0, 1); /* the name is ASCII */
    eventio_putBytes(h, name, strlen(name) + 1);
}

static void putScalarSpace(Hdf5Head *h) {
    enum { VERSION = 2 };
    eventio_put(h, VERSION, SCALAR_SPACE);
}

/* Puts an empty message of this many bytes with its prefix. */
static void putNothing(Hdf5Head *h, size_t bytes) {
    eventio_messageStart(h, HDF5_NOTHING);
    eventio_putBytes(h, NULL, bytes - MESSAGE_PREFIX);
    eventio_messageEnd(h);
}

/* Returns the bytes of this attribute with the longest label, and of an empty message that fills what a shorter one
 * leaves. */
static size_t labelRoom(const char *name) {
    return MESSAGE_PREFIX + 9 + strlen(name) + 1 + TEXT_TYPE + SCALAR_SPACE + HDF5_MAX_LABEL + MESSAGE_PREFIX;
}

void eventio_putLabel(Hdf5Head *h, const char *name, const char *label) {
    enum { TEXT = 3 };
    const size_t start = h->size, room = labelRoom(name);
    if (label) {
        putAttributeStart(h, name, TEXT_TYPE);
        putTypeStart(h, TEXT, 1, 0, (unsigned)strlen(label) + 1); /* ends with a zero, ASCII */
        putScalarSpace(h);
        eventio_putBytes(h, label, strlen(label) + 1);
        eventio_messageEnd(h);
    }
    putNothing(h, room - (h->size - start));
}

typedef struct Last {
    unsigned type;
    uint64_t address; /* address of its prefix */
    size_t bytes;     /* bytes with the prefix */
} Last;

static cusStatus keepLast(Hdf5File *f, const Hdf5Message *m, void *context) {
    (void)f;
    *(Last *)context = (Last){m->type, m->address - MESSAGE_PREFIX, m->size + MESSAGE_PREFIX};
    return CUS_OK;
}

cusStatus eventio_labelObject(Hdf5File *f, int fd, uint64_t object, const char *name, const char *label, int *done) {
    Last last = {0};
    const uint8_t *bytes;
    Hdf5Head h = {0};
    *done = 0;
    CUS_TRY(eventio_hdf5Messages(f, object, keepLast, &last));
    if (last.type != HDF5_NOTHING || last.bytes != labelRoom(name) || last.address < object ||
        last.address - object > HDF5_HEAD_BYTES / 2)
        return CUS_OK;
    /* If the object ends with the message, its checksum is right. */
    const size_t before = (size_t)(last.address - object), size = before + last.bytes;
    CUS_TRY(eventio_hdf5Block(f, object, size + 4, HDF5_CHECKSUM_LAST, "object header", &bytes));
    eventio_putBytes(&h, bytes, before);
    eventio_putLabel(&h, name, label);
    eventio_put(&h, eventio_lookup3(h.bytes, h.size), 4);
    CUSI_REQUIRE(eventio_writeAt(fd, f->base + object, h.bytes, h.size), CUS_ERROR_IO, "%s: the file cannot be written: %s",
                 f->function, strerror(errno));
    *done = 1;
    return CUS_OK;
}

uint64_t eventio_putTexts(Hdf5Head *h, const char *const *texts, unsigned n) {
    enum { HEAP_BYTES = 4096, VERSION = 1, PREFIX = 16 }; /* libhdf5 makes no smaller heap */
    eventio_putBytes(h, NULL, -h->size % 8);
    const size_t heap = h->size;
    eventio_putBytes(h, "GCOL", 4);
    eventio_put(h, VERSION, 4);
    eventio_put(h, HEAP_BYTES, 8);
    for (unsigned k = 0; k < n; ++k) {
        const size_t length = strlen(texts[k]);
        eventio_put(h, k + 1, 2);
        eventio_put(h, 1, 2); /* references */
        eventio_put(h, 0, 4);
        eventio_put(h, length, 8);
        eventio_putBytes(h, texts[k], length);
        eventio_putBytes(h, NULL, -length % 8);
    }
    const size_t left = heap + HEAP_BYTES - h->size; /* free space is object 0 */
    eventio_put(h, 0, 8);
    eventio_put(h, left, 8);
    eventio_putBytes(h, NULL, left - PREFIX);
    return heap;
}

void eventio_putTextAttribute(Hdf5Head *h, const char *name, const char *text, uint64_t heap, unsigned number) {
    enum { VARIABLE = 9, IS_TEXT = 1, REFERENCE = 16, CHARACTER_TYPE = 12 };
    const Hdf5Number character = {HDF5_INTEGER, 1, 8, 0, 0, 1};
    putAttributeStart(h, name, TEXT_TYPE + CHARACTER_TYPE);
    putTypeStart(h, VARIABLE, 1, IS_TEXT, REFERENCE);
    putNumber(h, &character);
    putScalarSpace(h);
    eventio_put(h, strlen(text), 4);
    eventio_put(h, heap, 8);
    eventio_put(h, number, 4);
    eventio_messageEnd(h);
}
