/* Reads B-trees. Each step down goes one level lower, so no path is longer than a tree's depth, whatever the file says. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <string.h>

/* ---- Version 1: names of old groups, chunks ---------------------------------------------------------------------- */

enum { GROUP_TREE = 0, CHUNK_TREE = 1 };

/* A node: children 0 .. count - 1, each between two keys. */
typedef struct Node {
    unsigned level, count;
    size_t key_size, step; /* bytes of a key; of a key and a child */
    const uint8_t *keys;
    unsigned address_size;
} Node;

static cusStatus readNode(Hdf5File *f, uint64_t address, unsigned type, size_t key_size, Node *node) {
    static const char what[] = "B-tree node";
    uint8_t start[8];
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Peek(f, address, start, sizeof start, what));
    *node = (Node){.level = start[5],
                   .count = (unsigned)eventio_number(start + 6, 2),
                   .key_size = key_size,
                   .step = key_size + f->address_size,
                   .address_size = f->address_size};
    if (memcmp(start, "TREE", 4) != 0 || start[4] != type)
        return eventio_hdf5Damaged(f, address, what);
    const size_t prefix = 8 + 2 * (size_t)f->address_size;
    CUS_TRY(eventio_hdf5Block(f, address, prefix + node->count * node->step + key_size, HDF5_UNCHECKED, what, &bytes));
    node->keys = bytes + prefix;
    return CUS_OK;
}

static const uint8_t *keyOf(const Node *node, unsigned i) {
    return node->keys + i * node->step;
}

static uint64_t childOf(const Node *node, unsigned i) {
    const uint64_t value = eventio_number(keyOf(node, i) + node->key_size, node->address_size);
    return value == UINT64_MAX >> (64 - 8 * node->address_size) ? hdf5_nowhere : value;
}

/* Goes down from a node of level `level` to its child, which must be one level lower. */
static cusStatus readChild(Hdf5File *f, uint64_t address, unsigned type, Node *node) {
    const unsigned level = node->level;
    CUS_TRY(readNode(f, address, type, node->key_size, node));
    return node->level + 1 == level ? CUS_OK : eventio_hdf5Damaged(f, address, "level of a B-tree node");
}

/* The names of a group. */
typedef struct Names {
    uint64_t address, size; /* place of the local heap's data */
} Names;

static cusStatus openNames(Hdf5File *f, uint64_t heap, Names *names) {
    static const char what[] = "local heap";
    const uint8_t *bytes;
    const size_t size = 8 + 2 * (size_t)f->length_size + f->address_size;
    CUS_TRY(eventio_hdf5Block(f, heap, size, HDF5_UNCHECKED, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, size);
    if (!eventio_takeSignature(&c, "HEAP", 0))
        return eventio_hdf5Damaged(f, heap, what);
    (void)eventio_take(&c, 3);
    names->size = eventio_takeLength(&c);
    (void)eventio_takeLength(&c); /* the list of free parts */
    names->address = eventio_takeAddress(&c);
    return eventio_hdf5Within(f, names->address, names->size, what);
}

/* Sets *order like strcmp of `name` and the one at `offset`. */
static cusStatus compareName(Hdf5File *f, const Names *names, uint64_t offset, const char *name, int *order) {
    uint8_t there[257]; /* ends with 0 */
    const size_t n = strlen(name) + 1;
    if (offset >= names->size || n >= sizeof there)
        return eventio_hdf5Damaged(f, names->address, "name in a local heap");
    const uint64_t left = names->size - offset;
    memset(there, 0, sizeof there);
    CUS_TRY(eventio_hdf5Peek(f, names->address + offset, there, left < n ? (size_t)left : n, "local heap"));
    *order = strcmp(name, (const char *)there);
    return CUS_OK;
}

static cusStatus searchSymbols(Hdf5File *f, uint64_t leaf, const Names *names, const char *name, int *found,
                               uint64_t *address) {
    enum { SOFT_LINK = 2, PREFIX = 8 };
    static const char what[] = "symbol table node";
    uint8_t start[PREFIX];
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Peek(f, leaf, start, sizeof start, what));
    if (memcmp(start, "SNOD", 4) != 0 || start[4] != 1)
        return eventio_hdf5Damaged(f, leaf, what);
    const unsigned count = (unsigned)eventio_number(start + 6, 2);
    const size_t entry = 2 * (size_t)f->address_size + 24;
    for (unsigned low = 0, high = count; low < high;) {
        const unsigned middle = (low + high) / 2;
        int order = 0;
        CUS_TRY(eventio_hdf5Block(f, leaf, PREFIX + count * entry, HDF5_UNCHECKED, what, &bytes));
        Hdf5Cursor c = eventio_hdf5Cursor(f, bytes + PREFIX + middle * entry, entry);
        const uint64_t offset = eventio_takeAddress(&c), object = eventio_takeAddress(&c);
        const uint64_t cache = eventio_takeNumber(&c, 4);
        CUS_TRY(compareName(f, names, offset, name, &order));
        if (order == 0) {
            *found = 1;
            *address = cache == SOFT_LINK ? hdf5_nowhere : object;
            return CUS_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return CUS_OK;
}

/* Child i holds the names after key i up to key i + 1, which are offsets in the heap. */
cusStatus eventio_hdf5FindSymbol(Hdf5File *f, uint64_t tree, uint64_t heap, const char *name, int *found,
                                 uint64_t *address) {
    Names names = {0, 0};
    Node node;
    *found = 0;
    CUS_TRY(openNames(f, heap, &names));
    CUS_TRY(readNode(f, tree, GROUP_TREE, f->length_size, &node));
    for (;;) {
        unsigned low = 0, high = node.count;
        while (low < high) { /* the first child whose last name is not less */
            const unsigned middle = (low + high) / 2;
            int order = 0;
            CUS_TRY(compareName(f, &names, eventio_number(keyOf(&node, middle + 1), f->length_size), name, &order));
            if (order <= 0)
                high = middle;
            else
                low = middle + 1;
        }
        if (low == node.count)
            return CUS_OK;
        const uint64_t child = childOf(&node, low);
        if (node.level == 0)
            return searchSymbols(f, child, &names, name, found, address);
        CUS_TRY(readChild(f, child, GROUP_TREE, &node));
    }
}

static int compareOffsets(const uint64_t *offsets, unsigned rank, const uint8_t *key) {
    for (unsigned i = 0; i < rank; ++i) {
        const uint64_t there = eventio_number(key + 8 + 8 * i, 8);
        if (offsets[i] != there)
            return offsets[i] < there ? -1 : 1;
    }
    return 0;
}

cusStatus eventio_hdf5TreeChunk(Hdf5File *f, uint64_t tree, unsigned rank, const uint64_t *offsets, Hdf5Chunk *chunk) {
    Node node; /* a key: bytes stored, filters skipped, offsets and one for the bytes of an element */
    CUS_TRY(readNode(f, tree, CHUNK_TREE, 8 + 8 * ((size_t)rank + 1), &node));
    for (;;) {
        unsigned low = 0, high = node.count; /* the last child whose key is not greater is low - 1 */
        while (low < high) {
            const unsigned middle = (low + high) / 2;
            if (compareOffsets(offsets, rank, keyOf(&node, middle)) < 0)
                high = middle;
            else
                low = middle + 1;
        }
        if (low == 0)
            return CUS_OK;
        const uint8_t *key = keyOf(&node, low - 1);
        const uint64_t child = childOf(&node, low - 1);
        if (node.level == 0) {
            if (compareOffsets(offsets, rank, key) == 0)
                *chunk = (Hdf5Chunk){child, eventio_number(key, 4), (uint32_t)eventio_number(key + 4, 4)};
            return CUS_OK;
        }
        CUS_TRY(readChild(f, child, CHUNK_TREE, &node));
    }
}

/* ---- Version 2: names and attributes of new objects, chunks of datasets with several unlimited dimensions -------- */

enum { MAX_DEPTH = 16, MAX_NODES = 4096, MAX_WAITING = 256 };

/* A tree: depth d has nodes of up to most[d] records, whose subtrees have up to all[d]. */
typedef struct Tree {
    unsigned type, record_size, depth;
    uint64_t node_size, root;
    uint64_t root_records;
    uint64_t most[MAX_DEPTH + 1], all[MAX_DEPTH + 1];
    unsigned count_bytes; /* bytes of a node's number of records */
} Tree;

static uint64_t pointerSize(const Hdf5File *f, const Tree *t, unsigned depth) {
    return f->address_size + t->count_bytes + (depth > 1 ? eventio_numberBytes(t->all[depth - 1]) : 0);
}

static cusStatus openTree(Hdf5File *f, uint64_t address, Tree *t) {
    enum { PREFIX = 6, CHECKSUM = 4 };
    static const char what[] = "B-tree header";
    const size_t size = 22 + (size_t)f->address_size + f->length_size;
    const uint8_t *bytes;
    CUS_TRY(eventio_hdf5Block(f, address, size, HDF5_CHECKSUM_LAST, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, size);
    int good = eventio_takeSignature(&c, "BTHD", 0);
    t->type = (unsigned)eventio_takeNumber(&c, 1);
    t->node_size = eventio_takeNumber(&c, 4);
    t->record_size = (unsigned)eventio_takeNumber(&c, 2);
    t->depth = (unsigned)eventio_takeNumber(&c, 2);
    (void)eventio_take(&c, 2); /* when to split and merge nodes */
    t->root = eventio_takeAddress(&c);
    t->root_records = eventio_takeNumber(&c, 2);
    good = good && t->depth <= MAX_DEPTH && t->record_size && t->node_size <= HDF5_MAX_BLOCK &&
           t->node_size >= PREFIX + CHECKSUM + t->record_size;
    for (unsigned d = 0; good && d <= t->depth; ++d) {
        const uint64_t room = t->node_size - PREFIX - CHECKSUM;
        if (d == 0) {
            t->most[0] = t->all[0] = room / t->record_size;
            t->count_bytes = eventio_numberBytes(t->most[0]);
            continue;
        }
        const uint64_t pointer = pointerSize(f, t, d);
        t->most[d] = room < pointer ? 0 : (room - pointer) / (t->record_size + pointer);
        good = t->most[d] && t->all[d - 1] <= (UINT64_MAX >> 1) / (t->most[d] + 1);
        t->all[d] = (t->most[d] + 1) * t->all[d - 1] + t->most[d];
    }
    return good ? CUS_OK : eventio_hdf5Damaged(f, address, what);
}

cusStatus eventio_hdf5RecordSize(Hdf5File *f, uint64_t tree, unsigned *size) {
    Tree t;
    CUS_TRY(openTree(f, tree, &t));
    *size = t.record_size;
    return CUS_OK;
}

/* A node to visit. */
typedef struct Visit {
    uint64_t address, records;
    unsigned depth;
} Visit;

typedef struct Search {
    Hdf5Compare compare;
    const void *wanted;
    unsigned most, count;
    uint8_t *records;
    Visit waiting[MAX_WAITING];
    int waiting_count;
} Search;

/* Copies the node's matching records, and adds its children that may have others. */
static cusStatus visitNode(Hdf5File *f, const Tree *t, Visit v, Search *s) {
    static const char what[] = "B-tree node";
    const uint64_t pointer = v.depth ? pointerSize(f, t, v.depth) : 0;
    const uint64_t size = 10 + v.records * t->record_size + (v.depth ? (v.records + 1) * pointer : 0);
    const uint8_t *bytes;
    if (v.records > t->most[v.depth])
        return eventio_hdf5Damaged(f, v.address, what);
    CUS_TRY(eventio_hdf5Block(f, v.address, size, HDF5_CHECKSUM_LAST, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes, (size_t)size);
    if (!eventio_takeSignature(&c, v.depth ? "BTIN" : "BTLF", 0) || eventio_takeNumber(&c, 1) != t->type)
        return eventio_hdf5Damaged(f, v.address, what);
    const uint8_t *record = eventio_take(&c, v.records * t->record_size);
    int before = -1; /* order of the record before the child */
    for (uint64_t i = 0; i <= v.records; ++i, record += t->record_size) {
        const int after = i < v.records ? s->compare(record, s->wanted) : 1;
        if (v.depth) {
            const uint64_t address = eventio_takeAddress(&c), records = eventio_takeNumber(&c, t->count_bytes);
            (void)eventio_take(&c, pointer - f->address_size - t->count_bytes);
            if (before <= 0 && after >= 0) {
                if (s->waiting_count == MAX_WAITING)
                    return eventio_hdf5Damaged(f, v.address, what);
                s->waiting[s->waiting_count++] = (Visit){address, records, v.depth - 1};
            }
        }
        if (after == 0 && i < v.records) {
            if (s->count == s->most)
                return eventio_hdf5Damaged(f, v.address, what);
            memcpy(s->records + (size_t)s->count++ * t->record_size, record, t->record_size);
        }
        before = after;
    }
    return CUS_OK;
}

cusStatus eventio_hdf5Records(Hdf5File *f, uint64_t tree, unsigned type, unsigned size, Hdf5Compare compare,
                              const void *wanted, unsigned most, uint8_t *records, unsigned *count) {
    Tree t;
    *count = 0;
    CUS_TRY(openTree(f, tree, &t));
    if (t.type != type || t.record_size != size)
        return eventio_hdf5Damaged(f, tree, "type of a B-tree");
    Search s = {.compare = compare, .wanted = wanted, .most = most, .records = records};
    if (t.root != hdf5_nowhere && t.root_records)
        s.waiting[s.waiting_count++] = (Visit){t.root, t.root_records, t.depth};
    for (int nodes = 0; s.waiting_count; ++nodes) {
        if (nodes == MAX_NODES)
            return eventio_hdf5Damaged(f, tree, "B-tree");
        CUS_TRY(visitNode(f, &t, s.waiting[--s.waiting_count], &s));
    }
    *count = s.count;
    return CUS_OK;
}
