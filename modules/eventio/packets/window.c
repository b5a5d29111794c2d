/* Holds the bytes of a recording made of packets: a window on the file, and the last decompressed block. What a block
 * claims is checked before memory is allocated for it, and both buffers together stay within the reader's memory. */
#include "check.h"
#include "eventio/packets/packets.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 20, MAX_RATIO = 1100 };

/* Grows a buffer to `size` bytes and drops its contents. */
static cusStatus grow(PacketReader *p, uint8_t **buffer, size_t *capacity, size_t size) {
    if (size <= *capacity)
        return CUS_OK;
    const size_t others = p->window_capacity + p->block_capacity - *capacity;
    CUSI_REQUIRE(others <= p->max_memory && size <= p->max_memory - others, CUS_ERROR_CAPACITY,
                 "cusEventReaderRead: a block of %zu bytes needs more memory than max_memory allows", size);
    free(*buffer);
    *capacity = 0;
    *buffer = malloc(size);
    CUSI_REQUIRE(*buffer, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
    *capacity = size;
    return CUS_OK;
}

static cusStatus checkRange(const cusEventReader *reader, const PacketReader *p, uint64_t offset, uint64_t n) {
    const uint64_t size = reader->source.size;
    CUSI_REQUIRE(offset <= size && n <= size - offset, CUS_ERROR_TRUNCATED,
                 "cusEventReaderRead: the file ends at byte %llu, within the %llu bytes that start at byte %llu",
                 (unsigned long long)size, (unsigned long long)n, (unsigned long long)offset);
    CUSI_REQUIRE(n <= p->max_chunk, CUS_ERROR_CAPACITY,
                 "cusEventReaderRead: byte %llu: a packet of %llu bytes is larger than max_chunk, %zu",
                 (unsigned long long)offset, (unsigned long long)n, p->max_chunk);
    return CUS_OK;
}

cusStatus eventio_view(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t n, const uint8_t **bytes) {
    CUS_TRY(checkRange(reader, p, offset, n));
    if (reader->source.memory) {
        *bytes = reader->source.memory + offset;
        return CUS_OK;
    }
    if (offset < p->window_start || offset + n > p->window_start + p->window_size) {
        const uint64_t left = reader->source.size - offset;
        uint64_t wanted = n < WINDOW_BYTES ? WINDOW_BYTES : n;
        wanted = wanted < left ? wanted : left;
        p->window_size = 0;
        CUS_TRY(grow(p, &p->window, &p->window_capacity, (size_t)wanted));
        const int64_t got = eventio_readAt(&reader->source, offset, p->window, (size_t)wanted);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu",
                     (unsigned long long)offset);
        p->window_start = offset;
        p->window_size = (size_t)got;
        if ((uint64_t)got < wanted) /* the file has become shorter since it was opened; its end reports that */
            reader->source.size = offset + (uint64_t)got;
        CUS_TRY(checkRange(reader, p, offset, n));
    }
    *bytes = p->window + (offset - p->window_start);
    return CUS_OK;
}

/* is_last: the block ends where the file does. */
static cusStatus describe(Unpacked result, PacketCodec codec, uint64_t offset, size_t size, int is_last) {
    const char *name = eventio_codecName(codec);
    const unsigned long long at = offset;
    if (result == UNPACK_SHORT && is_last)
        return cusi_fail(CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the file ends within data compressed by %s that start at byte %llu", name,
                         at);
    switch (result) {
    case UNPACK_NO_MEMORY:
        return cusi_fail(CUS_ERROR_NO_MEMORY, "cusEventReaderRead: out of host memory");
    case UNPACK_ABSENT:
        return cusi_fail(CUS_ERROR_UNSUPPORTED,
                         "cusEventReaderRead: byte %llu: data compressed by %s; this library was built without it", at,
                         name);
    case UNPACK_LARGE:
        return cusi_fail(CUS_ERROR_CAPACITY,
                         "cusEventReaderRead: byte %llu: data compressed by %s give more than %zu bytes, as max_chunk "
                         "and the size of the file allow",
                         at, name, size);
    default:
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: damaged data, expected a block compressed by %s",
                         at, name);
    }
}

/* Returns the most that the block may give. One block gives at most max_chunk. All blocks give at most max_chunk and
 * 1100 bytes for each byte of the file up to here, so that a small file cannot cost much time. */
static size_t mostUnpacked(const PacketReader *p, uint64_t end) {
    const uint64_t allowed = end > UINT64_MAX / MAX_RATIO - p->max_chunk ? UINT64_MAX : end * MAX_RATIO + p->max_chunk;
    const uint64_t left = allowed > p->place.unpacked ? allowed - p->place.unpacked : 0;
    return left < p->max_chunk ? (size_t)left : p->max_chunk;
}

/* Decompresses to a block of unknown size, which grows until everything fits. */
static Unpacked unpackGrowing(PacketReader *p, PacketCodec codec, const uint8_t *in, size_t n, size_t most,
                              cusStatus *status) {
    size_t size = 4 * n + 4096 > p->block_capacity ? 4 * n + 4096 : p->block_capacity;
    for (;;) {
        size = size < most ? size : most;
        *status = grow(p, &p->block, &p->block_capacity, size);
        if (*status != CUS_OK)
            return UNPACK_BAD;
        const Unpacked result = eventio_unpack(codec, in, n, p->block, size, &p->block_size);
        if (result != UNPACK_LARGE || size == most)
            return result;
        size *= 4;
    }
}

static cusStatus unpackAnew(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t n, PacketCodec codec,
                            uint64_t size) {
    const uint8_t *in;
    CUS_TRY(eventio_view(reader, p, offset, n, &in));
    const size_t most = mostUnpacked(p, offset + n);
    p->block_offset = UINT64_MAX;
    if (size > most)
        return describe(UNPACK_LARGE, codec, offset, most, 0);
    cusStatus status = CUS_OK;
    Unpacked result;
    if (size) {
        CUS_TRY(grow(p, &p->block, &p->block_capacity, (size_t)size));
        result = eventio_unpack(codec, in, (size_t)n, p->block, (size_t)size, &p->block_size);
        if (result == UNPACK_LARGE || (result == UNPACK_DONE && p->block_size != size))
            result = UNPACK_BAD;
    } else {
        result = unpackGrowing(p, codec, in, (size_t)n, most, &status);
        CUS_TRY(status);
    }
    if (result != UNPACK_DONE)
        return describe(result, codec, offset, most, offset + n == reader->source.size);
    p->block_offset = offset;
    return CUS_OK;
}

cusStatus eventio_unpackBlock(cusEventReader *reader, PacketReader *p, uint64_t offset, uint64_t n, PacketCodec codec,
                              uint64_t size) {
    if (p->block_offset != offset)
        CUS_TRY(unpackAnew(reader, p, offset, n, codec, size));
    p->place.unpacked += p->block_size;
    return CUS_OK;
}

void eventio_freeBuffers(PacketReader *p) {
    free(p->window);
    free(p->block);
}
