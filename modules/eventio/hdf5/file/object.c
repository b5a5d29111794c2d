/* Reads object headers: a list of messages in one block and the continuations that it names. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

enum {
    MAX_PARTS = 1024, /* the first block and its continuations */
    MAX_MESSAGES = 65536,
    MAX_BYTES = 4 << 20,
    OLD_PREFIX = 16,
    FLAG_SHARED = 2,
    FLAG_FAIL_IF_UNKNOWN = 128,
    LAST_KNOWN = 24,
    HAS_TIMES = 32, /* flags of a new header */
    HAS_ATTRIBUTE_LIMITS = 16,
    HAS_ORDER = 4
};
static const char what[] = "object header";

typedef struct Walk {
    uint64_t object;
    int is_new;
    unsigned flags;
    int part, parts; /* continuations visited and known */
    struct {
        uint64_t address, size;
    } todo[MAX_PARTS];
    unsigned messages_left;
    uint64_t bytes_left;
} Walk;

static cusStatus addContinuation(const Hdf5File *f, Walk *w, const Hdf5Message *m) {
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const uint64_t address = eventio_takeAddress(&c), size = eventio_takeLength(&c);
    if (c.failed || size > w->bytes_left || w->parts == MAX_PARTS)
        return eventio_hdf5Damaged(f, w->object, "continuation of an object header");
    w->bytes_left -= size;
    w->todo[w->parts].address = address;
    w->todo[w->parts++].size = size;
    return CUS_OK;
}

/* Visits the messages in `c`, whose first byte is at `address`. */
static cusStatus visitPart(Hdf5File *f, Walk *w, Hdf5Cursor c, uint64_t address, Hdf5Visit visit, void *context) {
    const uint8_t *const start = c.at;
    const size_t prefix = !w->is_new ? 8 : w->flags & HAS_ORDER ? 6 : 4;
    while ((size_t)(c.end - c.at) >= prefix) {
        Hdf5Message m = {0};
        m.type = (unsigned)eventio_takeNumber(&c, w->is_new ? 1 : 2);
        m.size = (size_t)eventio_takeNumber(&c, 2);
        const unsigned flags = (unsigned)eventio_takeNumber(&c, 1);
        (void)eventio_take(&c, w->is_new ? prefix - 4 : 3);
        m.address = address + (uint64_t)(c.at - start);
        m.body = eventio_take(&c, m.size);
        if (!m.body || w->messages_left-- == 0)
            return eventio_hdf5Damaged(f, w->object, "message of an object header");
        m.is_shared = flags & FLAG_SHARED;
        CUSI_REQUIRE(m.type <= LAST_KNOWN || !(flags & FLAG_FAIL_IF_UNKNOWN), CUS_ERROR_UNSUPPORTED,
                     "%s: the HDF5 file has a message of type %u, which it forbids to ignore", f->function, m.type);
        if (m.type == HDF5_CONTINUATION)
            CUS_TRY(addContinuation(f, w, &m));
        else
            CUS_TRY(visit(f, &m, context));
    }
    return CUS_OK;
}

/* Visits an old header, whose first part has its size at byte 8 and its messages after byte 16. */
static cusStatus visitOld(Hdf5File *f, Walk *w, const uint8_t *start, Hdf5Visit visit, void *context) {
    const uint64_t size = eventio_number(start + 8, 4);
    const uint8_t *bytes;
    if (start[0] != 1 || size > w->bytes_left)
        return eventio_hdf5Damaged(f, w->object, what);
    w->bytes_left -= size;
    CUS_TRY(eventio_hdf5Block(f, w->object, OLD_PREFIX + size, HDF5_UNCHECKED, what, &bytes));
    return visitPart(f, w, eventio_hdf5Cursor(f, bytes + OLD_PREFIX, (size_t)size), w->object + OLD_PREFIX, visit, context);
}

static cusStatus visitNew(Hdf5File *f, Walk *w, const uint8_t *start, Hdf5Visit visit, void *context) {
    w->flags = start[5];
    const unsigned width = 1u << (w->flags & 3);
    const unsigned before = 6 + (w->flags & HAS_TIMES ? 16 : 0) + (w->flags & HAS_ATTRIBUTE_LIMITS ? 4 : 0);
    const uint64_t size = eventio_number(start + before, width), prefix = before + width;
    const uint8_t *bytes;
    if (start[4] != 2 || size > w->bytes_left)
        return eventio_hdf5Damaged(f, w->object, what);
    w->bytes_left -= size;
    CUS_TRY(eventio_hdf5Block(f, w->object, prefix + size + 4, HDF5_CHECKSUM_LAST, what, &bytes));
    return visitPart(f, w, eventio_hdf5Cursor(f, bytes + prefix, (size_t)size), w->object + prefix, visit, context);
}

static cusStatus visitContinuation(Hdf5File *f, Walk *w, Hdf5Visit visit, void *context) {
    const uint64_t address = w->todo[w->part].address, size = w->todo[w->part].size;
    const uint8_t *bytes;
    if (w->is_new && size < 8)
        return eventio_hdf5Damaged(f, w->object, "continuation of an object header");
    CUS_TRY(eventio_hdf5Block(f, address, size, w->is_new ? HDF5_CHECKSUM_LAST : HDF5_UNCHECKED, what, &bytes));
    if (!w->is_new)
        return visitPart(f, w, eventio_hdf5Cursor(f, bytes, (size_t)size), address, visit, context);
    if (memcmp(bytes, "OCHK", 4) != 0)
        return eventio_hdf5Damaged(f, address, "continuation of an object header");
    return visitPart(f, w, eventio_hdf5Cursor(f, bytes + 4, (size_t)size - 8), address + 4, visit, context);
}

cusStatus eventio_hdf5Messages(Hdf5File *f, uint64_t address, Hdf5Visit visit, void *context) {
    uint8_t start[40];
    Walk w = {.object = address, .messages_left = MAX_MESSAGES, .bytes_left = MAX_BYTES};
    CUS_TRY(eventio_hdf5Peek(f, address, start, sizeof start, what));
    w.is_new = memcmp(start, "OHDR", 4) == 0;
    CUS_TRY((w.is_new ? visitNew : visitOld)(f, &w, start, visit, context));
    for (; w.part < w.parts; ++w.part)
        CUS_TRY(visitContinuation(f, &w, visit, context));
    return CUS_OK;
}
