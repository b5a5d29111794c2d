/* Reads the messages of a dataset: shape, type, layout, filters. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

enum { COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2, VIRTUAL = 3, MAX_DIMENSIONS = 32 };

typedef struct Reading {
    Hdf5Dataset *dataset;
    unsigned seen;           /* one bit for each type of message */
    uint64_t type_elsewhere; /* the object with the datatype, or hdf5_nowhere */
    unsigned layout_rank;    /* chunks: number of dimensions, including that of the element's bytes */
    uint64_t extents[HDF5_MAX_RANK + 1], element;
} Reading;

/* ---- Shape ----------------------------------------------------------------------------------------------------------- */

static cusStatus readSpace(const Hdf5File *f, const Hdf5Message *m, Hdf5Dataset *d) {
    enum { HAS_MOST = 1, NO_ELEMENTS = 2 };
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1);
    d->rank = (unsigned)eventio_takeNumber(&c, 1);
    const unsigned flags = (unsigned)eventio_takeNumber(&c, 1), kind = (unsigned)eventio_takeNumber(&c, 1);
    (void)eventio_take(&c, version == 1 ? 4 : 0);
    d->is_null = version == 2 && kind == NO_ELEMENTS;
    c.failed = c.failed || version < 1 || version > 2 || d->rank > MAX_DIMENSIONS;
    const uint64_t unlimited = UINT64_MAX >> (64 - 8 * f->length_size);
    for (unsigned i = 0; i < d->rank && !c.failed; ++i) {
        const uint64_t value = eventio_takeLength(&c);
        if (i < HDF5_MAX_RANK)
            d->shape[i] = value;
    }
    for (unsigned i = 0; i < d->rank && (flags & HAS_MOST) && !c.failed; ++i) {
        const uint64_t value = eventio_takeLength(&c);
        if (i < HDF5_MAX_RANK)
            d->most[i] = value == unlimited ? UINT64_MAX : value;
    }
    if (!(flags & HAS_MOST))
        memcpy(d->most, d->shape, sizeof d->most);
    return c.failed ? eventio_hdf5Damaged(f, m->address, "dataspace") : CUS_OK;
}

/* ---- Filters --------------------------------------------------------------------------------------------------------- */

static cusStatus readFilters(const Hdf5File *f, const Hdf5Message *m, Hdf5Dataset *d) {
    enum { FIRST_NAMED = 256 };
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1);
    d->filter_count = (unsigned)eventio_takeNumber(&c, 1);
    (void)eventio_take(&c, version == 1 ? 6 : 0);
    c.failed = c.failed || version < 1 || version > 2 || d->filter_count > HDF5_MAX_FILTERS;
    for (unsigned k = 0; k < d->filter_count && !c.failed; ++k) {
        Hdf5Filter *filter = &d->filters[k];
        filter->id = (unsigned)eventio_takeNumber(&c, 2);
        const uint64_t name = version == 1 || filter->id >= FIRST_NAMED ? eventio_takeNumber(&c, 2) : 0;
        filter->flags = (unsigned)eventio_takeNumber(&c, 2);
        filter->value_count = (unsigned)eventio_takeNumber(&c, 2);
        (void)eventio_take(&c, version == 1 ? (name + 7) / 8 * 8 : name);
        for (unsigned i = 0; i < filter->value_count && !c.failed; ++i) {
            const uint32_t value = (uint32_t)eventio_takeNumber(&c, 4);
            if (i < HDF5_MAX_FILTER_VALUES)
                filter->values[i] = value;
        }
        (void)eventio_take(&c, version == 1 && filter->value_count % 2 ? 4 : 0);
    }
    return c.failed ? eventio_hdf5Damaged(f, m->address, "filters of a dataset") : CUS_OK;
}

/* ---- Layout ---------------------------------------------------------------------------------------------------------- */

static void takeExtents(Hdf5Cursor *c, Reading *r, unsigned width) {
    for (unsigned i = 0; i < r->layout_rank && !c->failed; ++i) {
        const uint64_t extent = eventio_takeNumber(c, width);
        if (i + 1 == r->layout_rank)
            r->element = extent;
        else if (i < HDF5_MAX_RANK)
            r->extents[i] = extent;
        c->failed = c->failed || extent == 0;
    }
}

/* Takes a compact dataset, whose bytes are in the message. */
static void takeCompact(Hdf5Cursor *c, const Hdf5Message *m, unsigned width, Hdf5Dataset *d) {
    d->storage = HDF5_CONTIGUOUS;
    d->bytes = eventio_takeNumber(c, width);
    d->address = m->address + (uint64_t)(c->at - m->body);
    (void)eventio_take(c, d->bytes);
}

static void takeOldLayout(Hdf5Cursor *c, const Hdf5Message *m, Reading *r) {
    Hdf5Dataset *d = r->dataset;
    r->layout_rank = (unsigned)eventio_takeNumber(c, 1);
    const unsigned class = (unsigned)eventio_takeNumber(c, 1);
    (void)eventio_take(c, 5);
    if (class == COMPACT) {
        (void)eventio_take(c, 4 * (uint64_t)r->layout_rank);
        takeCompact(c, m, 4, d);
    } else if (class == CONTIGUOUS) {
        d->address = eventio_takeAddress(c);
    } else if (class == CHUNKED) {
        d->storage = HDF5_CHUNKED;
        d->address = eventio_takeAddress(c);
        takeExtents(c, r, 4);
    } else {
        c->failed = 1;
    }
}

/* Takes the chunks of layout version 4 and later: the index has one of five kinds, with parameters that its header
 * repeats. */
static void takeIndex(Hdf5Cursor *c, Reading *r) {
    enum { PARTIAL_IS_PLAIN = 1, SINGLE_IS_FILTERED = 2 };
    static const unsigned parameters[] = {0, 0, 0, 1, 5, 6};
    Hdf5Dataset *d = r->dataset;
    const unsigned flags = (unsigned)eventio_takeNumber(c, 1);
    r->layout_rank = (unsigned)eventio_takeNumber(c, 1);
    const unsigned width = (unsigned)eventio_takeNumber(c, 1);
    if (width < 1 || width > 8) {
        c->failed = 1;
        return;
    }
    takeExtents(c, r, width);
    const unsigned index = (unsigned)eventio_takeNumber(c, 1);
    if (index < HDF5_SINGLE || index > HDF5_TREE_2) {
        c->failed = 1;
        return;
    }
    d->index = (Hdf5Index)index;
    d->partial_is_plain = flags & PARTIAL_IS_PLAIN;
    d->single_is_filtered = index == HDF5_SINGLE && flags & SINGLE_IS_FILTERED;
    if (d->single_is_filtered) {
        d->single.size = eventio_takeLength(c);
        d->single.mask = (uint32_t)eventio_takeNumber(c, 4);
    }
    (void)eventio_take(c, parameters[index]);
    d->address = eventio_takeAddress(c);
}

static cusStatus readLayout(const Hdf5File *f, const Hdf5Message *m, Reading *r) {
    Hdf5Dataset *d = r->dataset;
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1);
    c.failed = c.failed || version < 1 || version > 5;
    if (version < 3) {
        takeOldLayout(&c, m, r);
        return c.failed ? eventio_hdf5Damaged(f, m->address, "layout of a dataset") : CUS_OK;
    }
    const unsigned class = (unsigned)eventio_takeNumber(&c, 1);
    if (class == COMPACT) {
        takeCompact(&c, m, 2, d);
    } else if (class == CONTIGUOUS) {
        d->address = eventio_takeAddress(&c);
        d->bytes = eventio_takeLength(&c);
    } else if (class == CHUNKED) {
        d->storage = HDF5_CHUNKED;
        if (version == 3) {
            r->layout_rank = (unsigned)eventio_takeNumber(&c, 1);
            d->address = eventio_takeAddress(&c);
            takeExtents(&c, r, 4);
        } else {
            takeIndex(&c, r);
        }
    } else if (class == VIRTUAL && version > 3) {
        d->storage = HDF5_VIRTUAL;
    } else {
        c.failed = 1;
    }
    return c.failed ? eventio_hdf5Damaged(f, m->address, "layout of a dataset") : CUS_OK;
}

/* ---- All messages ---------------------------------------------------------------------------------------------------- */

/* Reads a shared datatype, which belongs to another object. */
static cusStatus readSharedType(const Hdf5File *f, const Hdf5Message *m, Reading *r) {
    enum { IN_OBJECT = 2 };
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1), kind = (unsigned)eventio_takeNumber(&c, 1);
    (void)eventio_take(&c, version == 1 ? 6 : 0);
    r->type_elsewhere = eventio_takeAddress(&c);
    CUSI_REQUIRE(c.failed || version < 3 || kind == IN_OBJECT, CUS_ERROR_UNSUPPORTED,
                 "%s: the HDF5 file has shared object header messages", f->function);
    return c.failed || version < 1 || version > 3 ? eventio_hdf5Damaged(f, m->address, "datatype") : CUS_OK;
}

static cusStatus visitDataset(Hdf5File *f, const Hdf5Message *m, void *context) {
    Reading *r = context;
    if (m->type != HDF5_DATASPACE && m->type != HDF5_DATATYPE && m->type != HDF5_LAYOUT && m->type != HDF5_FILTERS &&
        m->type != HDF5_EXTERNAL)
        return CUS_OK;
    if (r->seen >> m->type & 1)
        return eventio_hdf5Damaged(f, m->address, "second message of a kind in an object header");
    r->seen |= 1u << m->type;
    if (m->type == HDF5_EXTERNAL) {
        r->dataset->is_external = 1;
        return CUS_OK;
    }
    if (m->is_shared && m->type == HDF5_DATATYPE)
        return readSharedType(f, m, r);
    CUSI_REQUIRE(!m->is_shared, CUS_ERROR_UNSUPPORTED, "%s: the HDF5 file has shared object header messages", f->function);
    switch (m->type) {
    case HDF5_DATASPACE:
        return readSpace(f, m, r->dataset);
    case HDF5_DATATYPE:
        return eventio_hdf5Type(f, m->body, m->size, m->address, &r->dataset->type);
    case HDF5_LAYOUT:
        return readLayout(f, m, r);
    default:
        return readFilters(f, m, r->dataset);
    }
}

/* Visits a named datatype's own message. */
static cusStatus visitType(Hdf5File *f, const Hdf5Message *m, void *context) {
    Reading *r = context;
    if (m->type != HDF5_DATATYPE)
        return CUS_OK;
    if (m->is_shared || r->seen >> HDF5_DATATYPE & 1)
        return eventio_hdf5Damaged(f, m->address, "named datatype");
    r->seen |= 1u << HDF5_DATATYPE;
    return eventio_hdf5Type(f, m->body, m->size, m->address, &r->dataset->type);
}

/* Sets the shape of chunks, which have one more dimension than the dataset: the bytes of an element. */
static cusStatus setChunks(const Hdf5File *f, const Reading *r, const char *name, uint64_t address) {
    Hdf5Dataset *d = r->dataset;
    if (r->layout_rank != d->rank + 1 || d->rank == 0 || r->element != d->type.number.size)
        return cusi_fail(CUS_ERROR_FORMAT, "%s: dataset %s has chunks without an extent in each dimension", f->function,
                         name);
    d->chunk_bytes = r->element;
    for (unsigned i = 0; i < d->rank && i < HDF5_MAX_RANK; ++i) {
        d->chunk[i] = r->extents[i];
        if (d->chunk[i] > ((uint64_t)1 << 48) / d->chunk_bytes)
            return eventio_hdf5Damaged(f, address, "extent of a chunk");
        d->chunk_bytes *= d->chunk[i];
    }
    return CUS_OK;
}

cusStatus eventio_hdf5Dataset(Hdf5File *f, uint64_t address, const char *name, Hdf5Dataset *d) {
    memset(d, 0, sizeof *d);
    d->address = hdf5_nowhere;
    Reading r = {.dataset = d, .type_elsewhere = UINT64_MAX};
    CUS_TRY(eventio_hdf5Messages(f, address, visitDataset, &r));
    const unsigned needed = 1u << HDF5_DATASPACE | 1u << HDF5_DATATYPE | 1u << HDF5_LAYOUT;
    CUSI_REQUIRE((r.seen & needed) == needed, CUS_ERROR_FORMAT,
                 "%s: dataset %s has no shape, type or layout in the HDF5 file", f->function, name);
    if (r.type_elsewhere != hdf5_nowhere) {
        r.seen = 0;
        CUS_TRY(eventio_hdf5Messages(f, r.type_elsewhere, visitType, &r));
        if (!(r.seen >> HDF5_DATATYPE & 1))
            return eventio_hdf5Damaged(f, r.type_elsewhere, "named datatype");
    }
    return d->storage == HDF5_CHUNKED && !d->is_external ? setChunks(f, &r, name, address) : CUS_OK;
}
