/* Reads datatypes: numbers, text, and compounds of those. Compounds within compounds are not read, so nothing recurses. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

enum {
    FIXED_POINT = 0,
    FLOATING_POINT = 1,
    STRING = 3,
    BIT_FIELD = 4,
    COMPOUND = 6,
    REFERENCE = 7,
    ENUMERATION = 8,
    VARIABLE_LENGTH = 9
};

/* The start of each datatype. */
typedef struct Start {
    unsigned class, version, bits;
    uint64_t size;
} Start;

static Start takeStart(Hdf5Cursor *c) {
    const unsigned first = (unsigned)eventio_takeNumber(c, 1);
    Start s = {first & 15, first >> 4, (unsigned)eventio_takeNumber(c, 3), 0};
    s.size = eventio_takeNumber(c, 4);
    c->failed = c->failed || s.version < 1 || s.version > 5 || s.size == 0;
    return s;
}

static void readInteger(Hdf5Cursor *c, Start s, Hdf5Number *n) {
    const unsigned offset = (unsigned)eventio_takeNumber(c, 2);
    n->class = HDF5_INTEGER;
    n->bits = (unsigned)eventio_takeNumber(c, 2);
    n->is_big_endian = (int)(s.bits & 1) && s.size > 1;
    n->is_signed = s.bits >> 3 & 1;
    n->is_plain =
        (s.size == 1 || s.size == 2 || s.size == 4 || s.size == 8) && offset == 0 && n->bits == 8 * (unsigned)s.size;
}

static void readFloat(Hdf5Cursor *c, Start s, Hdf5Number *n) {
    enum { VAX_ORDER = 64 };
    static const uint8_t half[12] = {0, 0, 16, 0, 10, 5, 0, 10, 15}, single[12] = {0, 0, 32, 0, 23, 8, 0, 23, 127},
                         twice[12] = {0, 0, 64, 0, 52, 11, 0, 52, 255, 3};
    const uint8_t *fields = eventio_take(c, 12);
    n->class = HDF5_FLOAT;
    n->bits = 8 * (unsigned)s.size;
    n->is_signed = 1;
    n->is_big_endian = (int)(s.bits & 1);
    n->is_plain = fields && !(s.bits & VAX_ORDER) &&
                  ((s.size == 2 && memcmp(fields, half, 12) == 0) || (s.size == 4 && memcmp(fields, single, 12) == 0) ||
                   (s.size == 8 && memcmp(fields, twice, 12) == 0));
}

/* Skips the names and values of an enumeration. */
static void passMembers(Hdf5Cursor *c, Start s, uint64_t value_size) {
    const unsigned count = s.bits & 65535;
    for (unsigned i = 0; i < count && !c->failed; ++i) {
        const uint8_t *name = c->at, *end = memchr(name, 0, (size_t)(c->end - name));
        const uint64_t length = end ? (uint64_t)(end - name) + 1 : UINT64_MAX;
        (void)eventio_take(c, end && s.version < 3 ? (length + 7) / 8 * 8 : length);
    }
    (void)eventio_take(c, count * value_size);
}

/* Takes a number or text up to its last byte. Other classes give HDF5_OTHER_CLASS and do not move the cursor. */
static void takeNumber(Hdf5Cursor *c, Hdf5Number *n) {
    Start s = takeStart(c);
    *n = (Hdf5Number){.class = HDF5_OTHER_CLASS, .size = (uint32_t)s.size};
    if (s.class == FIXED_POINT) {
        readInteger(c, s, n);
    } else if (s.class == FLOATING_POINT) {
        readFloat(c, s, n);
    } else if (s.class == STRING) {
        n->class = HDF5_TEXT;
    } else if (s.class == ENUMERATION) {
        const Start base = takeStart(c);
        if (base.class == FIXED_POINT && base.size == s.size)
            readInteger(c, base, n);
        else
            c->failed = 1;
        passMembers(c, s, base.size);
    } else if (s.class == VARIABLE_LENGTH && (s.bits & 15) == 1) {
        n->class = HDF5_VARIABLE_TEXT;
        (void)takeStart(c); /* the type of one character */
    } else if (s.class == BIT_FIELD) {
        (void)eventio_take(c, 4);
    } else if (s.class != REFERENCE) {
        c->at = c->end; /* nothing after it can be found */
    }
}

/* Takes the fields before a member's type. */
static void takeMember(Hdf5Cursor *c, Start s, Hdf5Member *m) {
    enum { OLD_ARRAY = 28 };
    const uint8_t *name = c->at, *end = memchr(name, 0, (size_t)(c->end - name));
    const uint64_t length = end ? (uint64_t)(end - name) + 1 : UINT64_MAX;
    (void)eventio_take(c, end && s.version < 3 ? (length + 7) / 8 * 8 : length);
    if (c->failed)
        return;
    strncpy(m->name, (const char *)name, sizeof m->name - 1);
    m->offset = (uint32_t)eventio_takeNumber(c, s.version < 3 ? 4 : eventio_numberBytes(s.size));
    if (s.version == 1) {
        const uint8_t *array = eventio_take(c, OLD_ARRAY);
        c->failed = c->failed || array[0] != 0; /* an array of numbers */
    }
}

cusStatus eventio_hdf5Type(const Hdf5File *f, const uint8_t *body, size_t size, uint64_t address, Hdf5Type *type) {
    Hdf5Cursor c = eventio_hdf5Cursor(f, body, size);
    memset(type, 0, sizeof *type);
    if (size && (body[0] & 15) != COMPOUND) {
        takeNumber(&c, &type->number);
        return c.failed ? eventio_hdf5Damaged(f, address, "datatype") : CUS_OK;
    }
    const Start s = takeStart(&c);
    const unsigned count = s.bits & 65535;
    type->number = (Hdf5Number){.class = HDF5_COMPOUND, .size = (uint32_t)s.size};
    if (c.failed || count > HDF5_MAX_MEMBERS) { /* no compound of a recording has that many */
        type->number.class = HDF5_OTHER_CLASS;
        return c.failed ? eventio_hdf5Damaged(f, address, "datatype") : CUS_OK;
    }
    for (unsigned i = 0; i < count; ++i) {
        Hdf5Member *m = &type->member[i];
        takeMember(&c, s, m);
        if (!c.failed)
            takeNumber(&c, &m->number);
        if (c.failed || m->offset > s.size || m->number.size > s.size - m->offset)
            return eventio_hdf5Damaged(f, address, "compound datatype");
        if (m->number.class == HDF5_OTHER_CLASS) {
            type->number.class = HDF5_OTHER_CLASS;
            return CUS_OK;
        }
    }
    type->member_count = count;
    return CUS_OK;
}
