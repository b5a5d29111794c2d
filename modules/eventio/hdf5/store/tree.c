/* Writes the index of a dataset's chunks: a version 1 B-tree, whose nodes are full except the last of each level. */
#include "eventio/hdf5/store/store.h"

enum { FAN_OUT = 64, MAX_NODE = 24 + 8 * FAN_OUT + (FAN_OUT + 1) * (8 + 8 * (HDF5_MAX_RANK + 1)) }; /* libhdf5's default */

typedef struct Tree {
    const Hdf5Dataset *set;
    const Hdf5Chunks *chunks;
    size_t node_bytes;
    uint64_t under;    /* chunks under each child of this level */
    uint64_t children; /* the first child's address, for levels above 0 */
    uint64_t start;    /* address of the level's first node */
    uint64_t nodes;    /* number of nodes in this level */
    unsigned level;
    uint8_t *at; /* next byte of the node */
} Tree;

static void put(Tree *t, uint64_t value, unsigned n) {
    for (unsigned i = 0; i < n; ++i)
        *t->at++ = (uint8_t)(value >> 8 * i);
}

/* Puts the key of chunk k: size, filters and first element. After the last chunk comes an empty one past it in each
 * dimension. */
static void putKey(Tree *t, uint64_t k) {
    const Hdf5Dataset *d = t->set;
    const int is_end = k >= t->chunks->n;
    Hdf5Chunk chunk = {0};
    if (!is_end)
        chunk = t->chunks->at(t->chunks->chunks, k);
    put(t, chunk.size, 4);
    put(t, chunk.mask, 4);
    put(t, (t->chunks->first + (is_end ? t->chunks->n : k)) * d->chunk[0], 8);
    for (unsigned i = 1; i < d->rank; ++i)
        put(t, is_end ? d->chunk[i] : 0, 8);
    put(t, is_end ? d->type.number.size : 0, 8);
}

/* Puts node number `node` of the level. */
static void putNode(Tree *t, uint64_t node, uint8_t *bytes) {
    enum { OF_CHUNKS = 1 };
    static const uint8_t signature[4] = {'T', 'R', 'E', 'E'};
    const uint64_t first = node * FAN_OUT, all = (t->chunks->n + t->under - 1) / t->under;
    const unsigned used = all - first < FAN_OUT ? (unsigned)(all - first) : FAN_OUT;
    memset(bytes, 0, t->node_bytes);
    memcpy(bytes, signature, sizeof signature);
    t->at = bytes + sizeof signature;
    put(t, OF_CHUNKS, 1);
    put(t, t->level, 1);
    put(t, used, 2);
    put(t, node ? t->start + (node - 1) * t->node_bytes : hdf5_nowhere, 8);
    put(t, node + 1 < t->nodes ? t->start + (node + 1) * t->node_bytes : hdf5_nowhere, 8);
    for (uint64_t child = first; child < first + used; ++child) {
        putKey(t, child * t->under);
        put(t, t->level ? t->children + child * t->node_bytes : t->chunks->at(t->chunks->chunks, child).address, 8);
    }
    putKey(t, (first + used) * t->under);
}

int eventio_writeTree(int fd, const Hdf5Dataset *d, const Hdf5Chunks *chunks, uint64_t *end, uint64_t *root) {
    uint8_t bytes[MAX_NODE];
    Tree t = {.set = d, .chunks = chunks, .under = 1, .nodes = chunks->n};
    t.node_bytes = 24 + 8 * FAN_OUT + (FAN_OUT + 1) * (8 + 8 * (size_t)(d->rank + 1));
    *root = hdf5_nowhere;
    while (t.nodes > (t.level ? 1 : 0)) {
        t.nodes = (t.nodes + FAN_OUT - 1) / FAN_OUT;
        t.start = *end;
        for (uint64_t node = 0; node < t.nodes; ++node, *end += t.node_bytes) {
            putNode(&t, node, bytes);
            if (!eventio_writeAt(fd, *end, bytes, t.node_bytes))
                return 0;
        }
        *root = t.children = t.start;
        t.under *= FAN_OUT;
        ++t.level;
    }
    return 1;
}
