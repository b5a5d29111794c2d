/* Finds a chunk in the index of its dataset. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

enum { PLAIN_RECORD = 10, FILTERED_RECORD = 11, MAX_RECORD = 8 + 8 + 4 + 8 * HDF5_MAX_RANK };

/* Finds the chunk's number in arrays, which count row by row, for the most chunks possible. The unlimited dimension
 * comes first. */
static cusStatus numberInArray(const Hdf5File *f, const Hdf5Dataset *d, const uint64_t *number, uint64_t *index) {
    unsigned unlimited = 0;
    while (unlimited < d->rank && d->most[unlimited] != UINT64_MAX)
        ++unlimited;
    const int has_unlimited = unlimited < d->rank;
    *index = has_unlimited ? number[unlimited] : 0;
    for (unsigned i = 0; i < d->rank; ++i) {
        if (has_unlimited && i == unlimited)
            continue;
        const uint64_t most = d->most[i] == UINT64_MAX ? 0 : (d->most[i] + d->chunk[i] - 1) / d->chunk[i];
        if (most == 0 || number[i] >= most || *index > ((uint64_t)1 << 62) / most)
            return cusi_fail(CUS_ERROR_FORMAT,
                             "%s: the HDF5 file is damaged: the shape of a dataset does not fit its index", f->function);
        *index = *index * most + number[i];
    }
    return CUS_OK;
}

/* The key of a record: a chunk's numbers. */
typedef struct Key {
    unsigned rank, before; /* bytes of a record before its numbers */
    const uint64_t *number;
} Key;

static int compareNumbers(const uint8_t *record, const void *wanted) {
    const Key *key = wanted;
    for (unsigned i = 0; i < key->rank; ++i) {
        const uint64_t there = eventio_number(record + key->before + 8 * i, 8);
        if (there != key->number[i])
            return there < key->number[i] ? -1 : 1;
    }
    return 0;
}

static cusStatus findInTree2(Hdf5File *f, const Hdf5Dataset *d, const uint64_t *number, Hdf5Chunk *chunk) {
    const int filtered = d->filter_count > 0;
    uint8_t record[MAX_RECORD];
    unsigned size, count;
    CUS_TRY(eventio_hdf5RecordSize(f, d->address, &size));
    const unsigned least = f->address_size + (filtered ? 4 : 0) + 8 * d->rank;
    if (size < least + (filtered ? 1 : 0) || size > least + (filtered ? 8 : 0))
        return eventio_hdf5Damaged(f, d->address, "B-tree header");
    const Key key = {d->rank, size - 8 * d->rank, number};
    CUS_TRY(eventio_hdf5Records(f, d->address, filtered ? FILTERED_RECORD : PLAIN_RECORD, size, compareNumbers, &key, 1,
                                record, &count));
    if (!count)
        return CUS_OK;
    Hdf5Cursor c = eventio_hdf5Cursor(f, record, size);
    chunk->address = eventio_takeAddress(&c);
    if (filtered) {
        chunk->size = eventio_takeNumber(&c, size - least);
        chunk->mask = (uint32_t)eventio_takeNumber(&c, 4);
    }
    return CUS_OK;
}

static int isPartial(const Hdf5Dataset *d, const uint64_t *number) {
    for (unsigned i = 0; i < d->rank; ++i)
        if (number[i] == d->shape[i] / d->chunk[i])
            return 1;
    return 0;
}

cusStatus eventio_hdf5FindChunk(Hdf5File *f, const Hdf5Dataset *d, const uint64_t *number, Hdf5Chunk *chunk) {
    uint64_t offsets[HDF5_MAX_RANK], index;
    *chunk = (Hdf5Chunk){hdf5_nowhere, d->chunk_bytes, 0};
    if (d->address == hdf5_nowhere)
        return CUS_OK;
    switch (d->index) {
    case HDF5_TREE_1:
        for (unsigned i = 0; i < d->rank; ++i)
            offsets[i] = number[i] * d->chunk[i];
        CUS_TRY(eventio_hdf5TreeChunk(f, d->address, d->rank, offsets, chunk));
        break;
    case HDF5_SINGLE:
        for (unsigned i = 0; i < d->rank; ++i)
            if (number[i] != 0)
                return CUS_OK;
        chunk->address = d->address;
        if (d->single_is_filtered)
            *chunk = (Hdf5Chunk){d->address, d->single.size, d->single.mask};
        break;
    case HDF5_IMPLICIT:
        CUS_TRY(numberInArray(f, d, number, &index));
        if (index > ((uint64_t)1 << 62) / d->chunk_bytes)
            return eventio_hdf5Damaged(f, d->address, "shape of a dataset");
        chunk->address = d->address + index * d->chunk_bytes;
        break;
    case HDF5_FIXED_ARRAY:
        CUS_TRY(numberInArray(f, d, number, &index));
        CUS_TRY(eventio_hdf5FixedArray(f, d->address, d->filter_count > 0, index, chunk));
        break;
    case HDF5_EXTENSIBLE_ARRAY:
        CUS_TRY(numberInArray(f, d, number, &index));
        CUS_TRY(eventio_hdf5ExtensibleArray(f, d->address, d->filter_count > 0, index, chunk));
        break;
    case HDF5_TREE_2:
        CUS_TRY(findInTree2(f, d, number, chunk));
        break;
    }
    /* A stored chunk of 0 bytes is one that was never written. */
    if (chunk->size == 0)
        chunk->address = hdf5_nowhere;
    if (d->partial_is_plain && isPartial(d, number))
        chunk->mask = UINT32_MAX;
    return CUS_OK;
}
