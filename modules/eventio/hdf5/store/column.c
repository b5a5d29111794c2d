/* Writes a dataset of one dimension, which grows by chunks that all threads compress. */
#include "check.h"
#include "eventio/hdf5/codec.h"
#include "eventio/hdf5/store/store.h"
#include "host.h"
#include "lzf.h"

#include <stdlib.h>

int eventio_columnCreate(Hdf5Column *c, const Hdf5Type *type, size_t chunk, size_t batch, unsigned filter) {
    c->set = (Hdf5Dataset){.type = *type, .rank = 1, .storage = HDF5_CHUNKED, .address = hdf5_nowhere};
    c->set.chunk[0] = chunk;
    c->set.chunk_bytes = chunk * type->number.size;
    eventio_setFilter(&c->set, filter);
    c->batch = batch;
    c->waiting = malloc(batch * (size_t)c->set.chunk_bytes);
    return c->waiting != NULL;
}

void eventio_columnFree(Hdf5Column *c) {
    free(c->waiting);
    free(c->chunks);
}

int eventio_columnsCreate(Hdf5Columns *all, const Hdf5Column *columns, int n) {
    size_t most = 1, bytes = 1;
    for (int k = 0; k < n; ++k) {
        const size_t batch = columns[k].batch * (size_t)columns[k].set.chunk_bytes;
        bytes = batch > bytes ? batch : bytes;
        most = columns[k].batch > most ? columns[k].batch : most;
    }
    all->packed = malloc(bytes);
    all->packed_size = calloc(most, sizeof *all->packed_size);
    return all->packed && all->packed_size;
}

void eventio_columnsFree(Hdf5Columns *all) {
    free(all->packed);
    free(all->packed_size);
}

/* Compresses a chunk with `size` bytes of elements. Returns 0 if it is stored plain, SIZE_MAX if memory runs out. */
static size_t pack(const Hdf5Dataset *d, const uint8_t *in, size_t size, uint8_t *out) {
    switch (d->filter_count ? d->filters[0].id : 0) {
    case EVENTIO_FILTER_LZF:
        return cusi_lzfEncode(in, d->chunk_bytes, out);
    case EVENTIO_FILTER_DEFLATE:
        return eventio_deflateEncode(in, d->chunk_bytes, out, (int)d->filters[0].values[0]);
    case EVENTIO_FILTER_ECF:
        return eventio_ecfEncode(in, size, out);
    default:
        return 0;
    }
}

/* Notes a chunk's place. */
static cusStatus addChunk(const Hdf5Columns *all, Hdf5Column *c, Hdf5Chunk chunk) {
    if (c->chunk_count == c->chunk_capacity) {
        const size_t capacity = 2 * c->chunk_capacity + 16;
        Hdf5Chunk *grown = realloc(c->chunks, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "%s: out of host memory", all->function);
        c->chunks = grown;
        c->chunk_capacity = capacity;
    }
    c->chunks[c->chunk_count++] = chunk;
    return CUS_OK;
}

cusStatus eventio_columnStore(Hdf5Columns *all, Hdf5Column *c, int at_end) {
    const size_t element = c->set.type.number.size, chunk = (size_t)c->set.chunk[0], bytes = chunk * element;
    const size_t chunks = at_end ? (c->filled + chunk - 1) / chunk : c->filled / chunk;
    const size_t elements = chunks * chunk < c->filled ? chunks * chunk : c->filled;
    if (!chunks)
        return CUS_OK;
    memset(c->waiting + elements * element, 0, (chunks * chunk - elements) * element);
#pragma omp parallel for schedule(dynamic) num_threads(all->threads) if (chunks > 1)
    for (size_t i = 0; i < chunks; ++i) {
        const size_t left = (elements - i * chunk) * element;
        all->packed_size[i] = pack(&c->set, c->waiting + i * bytes, left < bytes ? left : bytes, all->packed + i * bytes);
    }
    for (size_t i = 0; i < chunks; ++i) {
        const size_t packed = all->packed_size[i], size = packed ? packed : bytes;
        CUSI_REQUIRE(packed != SIZE_MAX, CUS_ERROR_NO_MEMORY, "%s: out of host memory", all->function);
        /* A plain chunk's filter is marked as skipped. */
        CUS_TRY(addChunk(all, c, (Hdf5Chunk){all->end, size, !packed && c->set.filter_count}));
        CUS_TRY(eventio_outputWrite(all->output, all->end, (packed ? all->packed : c->waiting) + i * bytes, size,
                                    all->function));
        all->end += size;
    }
    c->set.shape[0] += elements;
    c->filled -= elements;
    memmove(c->waiting, c->waiting + elements * element, c->filled * element);
    return CUS_OK;
}

void eventio_columnFill(Hdf5Column *c, const void *elements, size_t n) {
    memcpy(c->waiting + c->filled * c->set.type.number.size, elements, n * c->set.type.number.size);
    c->filled += n;
}

cusStatus eventio_columnAppend(Hdf5Columns *all, Hdf5Column *c, const void *element) {
    eventio_columnFill(c, element, 1);
    return c->filled == c->batch * c->set.chunk[0] ? eventio_columnStore(all, c, 0) : CUS_OK;
}

static Hdf5Chunk chunkAt(const void *chunks, uint64_t k) {
    return ((const Hdf5Chunk *)chunks)[k];
}

cusStatus eventio_columnFinish(Hdf5Columns *all, Hdf5Column *c) {
    CUS_TRY(eventio_columnStore(all, c, 1));
    const Hdf5Chunks chunks = {chunkAt, c->chunks, c->skipped, c->chunk_count};
    return eventio_writeTree(all->output->fd, &c->set, &chunks, &all->end, &c->set.address)
               ? CUS_OK
               : eventio_outputFail(all->output, all->function);
}
