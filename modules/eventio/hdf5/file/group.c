/* Finds objects by name. Old groups list them in a B-tree, new ones in their object header or, if there are many, in a
 * fractal heap that is sorted by hashes of the names. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

enum { MAX_EQUAL_HASHES = 16, HASH_RECORD = 5, ID_SIZE = 7, HARD_LINK = 0 };

/* A group, or another kind of object. */
typedef struct Group {
    const char *name; /* the name wanted; NULL: only the kind of the object */
    int is_group, is_dataset;
    uint64_t tree, names;          /* for an old group */
    uint64_t link_heap, link_tree; /* if there are many links */
    int found;
    uint64_t address; /* hdf5_nowhere: the link leads elsewhere */
} Group;

/* Sets *found if a link message is for this name, and *address. */
static cusStatus readLink(const Hdf5File *f, const uint8_t *body, size_t size, uint64_t place, const char *name, int *found,
                          uint64_t *address) {
    enum { HAS_ORDER = 4, HAS_TYPE = 8, HAS_CHARSET = 16 };
    Hdf5Cursor c = eventio_hdf5Cursor(f, body, size);
    const unsigned version = (unsigned)eventio_takeNumber(&c, 1), flags = (unsigned)eventio_takeNumber(&c, 1);
    const uint64_t type = flags & HAS_TYPE ? eventio_takeNumber(&c, 1) : HARD_LINK;
    (void)eventio_take(&c, (flags & HAS_ORDER ? 8 : 0) + (flags & HAS_CHARSET ? 1 : 0));
    const uint64_t length = eventio_takeNumber(&c, 1u << (flags & 3));
    const uint8_t *there = eventio_take(&c, length);
    if (c.failed || version != 1 || length == 0)
        return eventio_hdf5Damaged(f, place, "link");
    if (length != strlen(name) || memcmp(there, name, (size_t)length) != 0)
        return CUS_OK;
    *address = type == HARD_LINK ? eventio_takeAddress(&c) : hdf5_nowhere;
    if (c.failed || (type == HARD_LINK && *address == hdf5_nowhere))
        return eventio_hdf5Damaged(f, place, "link");
    *found = 1;
    return CUS_OK;
}

static cusStatus visitGroup(Hdf5File *f, const Hdf5Message *m, void *context) {
    enum { TRACKS_ORDER = 1 };
    Group *g = context;
    Hdf5Cursor c = eventio_hdf5Cursor(f, m->body, m->size);
    g->is_dataset = g->is_dataset || m->type == HDF5_LAYOUT;
    if (m->type != HDF5_SYMBOL_TABLE && m->type != HDF5_LINK_INFO && m->type != HDF5_LINK && m->type != HDF5_GROUP_INFO)
        return CUS_OK;
    g->is_group = 1;
    CUSI_REQUIRE(!m->is_shared, CUS_ERROR_UNSUPPORTED, "%s: the HDF5 file has a group whose links are stored elsewhere",
                 f->function);
    if (m->type == HDF5_SYMBOL_TABLE) {
        g->tree = eventio_takeAddress(&c);
        g->names = eventio_takeAddress(&c);
    } else if (m->type == HDF5_LINK_INFO) {
        const unsigned version = (unsigned)eventio_takeNumber(&c, 1), flags = (unsigned)eventio_takeNumber(&c, 1);
        (void)eventio_take(&c, flags & TRACKS_ORDER ? 8 : 0);
        g->link_heap = eventio_takeAddress(&c);
        g->link_tree = eventio_takeAddress(&c);
        c.failed = c.failed || version != 0;
    } else if (m->type == HDF5_LINK && g->name && !g->found) {
        return readLink(f, m->body, m->size, m->address, g->name, &g->found, &g->address);
    }
    return c.failed ? eventio_hdf5Damaged(f, m->address, "group") : CUS_OK;
}

static int compareHash(const uint8_t *record, const void *wanted) {
    const uint32_t there = (uint32_t)eventio_number(record, 4), hash = *(const uint32_t *)wanted;
    return there < hash ? -1 : there > hash;
}

static cusStatus findDense(Hdf5File *f, Group *g) {
    enum { RECORD = 4 + ID_SIZE };
    uint8_t records[MAX_EQUAL_HASHES * RECORD];
    unsigned count;
    const uint32_t hash = eventio_lookup3((const uint8_t *)g->name, strlen(g->name));
    CUS_TRY(
        eventio_hdf5Records(f, g->link_tree, HASH_RECORD, RECORD, compareHash, &hash, MAX_EQUAL_HASHES, records, &count));
    for (unsigned i = 0; i < count && !g->found; ++i) {
        const uint8_t *link;
        size_t size;
        CUS_TRY(eventio_hdf5HeapObject(f, g->link_heap, records + (size_t)i * RECORD + 4, ID_SIZE, &link, &size));
        CUS_TRY(readLink(f, link, size, g->link_heap, g->name, &g->found, &g->address));
    }
    return CUS_OK;
}

static const Group no_group = {NULL, 0, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, UINT64_MAX};

cusStatus eventio_hdf5Find(Hdf5File *f, uint64_t group, const char *name, Hdf5Kind *kind, uint64_t *address) {
    Group g = no_group, object = no_group;
    g.name = name;
    *kind = HDF5_MISSING;
    CUS_TRY(eventio_hdf5Messages(f, group, visitGroup, &g));
    if (g.tree != hdf5_nowhere)
        CUS_TRY(eventio_hdf5FindSymbol(f, g.tree, g.names, name, &g.found, &g.address));
    else if (!g.found && g.link_tree != hdf5_nowhere)
        CUS_TRY(findDense(f, &g));
    if (!g.found)
        return CUS_OK;
    *kind = HDF5_ELSEWHERE;
    if (g.address == hdf5_nowhere)
        return CUS_OK;
    *address = g.address;
    CUS_TRY(eventio_hdf5Messages(f, g.address, visitGroup, &object));
    *kind = object.is_dataset ? HDF5_DATASET : object.is_group ? HDF5_GROUP : HDF5_OTHER;
    return CUS_OK;
}
