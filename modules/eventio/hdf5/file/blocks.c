/* The superblock, and blocks of the file, read within its bounds and verified. The last ones are kept, since the same
 * few lead to every chunk. */
#include "check.h"
#include "eventio/hdf5/file/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Checksum -------------------------------------------------------------------------------------------------------- */

static uint32_t load32(const uint8_t *p) {
    return (uint32_t)eventio_number(p, 4);
}
static uint32_t rotate(uint32_t x, int k) {
    return x << k | x >> (32 - k);
}

/* Bob Jenkins' lookup3 (hashlittle), with which HDF5 checks metadata and sorts names. */
uint32_t eventio_lookup3(const uint8_t *bytes, size_t n) {
    uint32_t a = 0xdeadbeef + (uint32_t)n, b = a, c = a;
    for (; n > 12; n -= 12, bytes += 12) {
        a += load32(bytes);
        b += load32(bytes + 4);
        c += load32(bytes + 8);
        a = (a - c) ^ rotate(c, 4), c += b;
        b = (b - a) ^ rotate(a, 6), a += c;
        c = (c - b) ^ rotate(b, 8), b += a;
        a = (a - c) ^ rotate(c, 16), c += b;
        b = (b - a) ^ rotate(a, 19), a += c;
        c = (c - b) ^ rotate(b, 4), b += a;
    }
    if (!n)
        return c;
    uint8_t last[12] = {0};
    memcpy(last, bytes, n);
    a += load32(last);
    b += load32(last + 4);
    c += load32(last + 8);
    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    return (c ^ b) - rotate(b, 24);
}

#ifdef CUSI_FUZZ
void (*eventio_hdf5Repair)(uint64_t at, uint32_t checksum);
#endif

/* Verifies the checksum: that of the bytes before it or, if it is not last, of the whole block with zeros in its place. */
static int isVerified(const Hdf5File *f, Hdf5Block *block, int checksum) {
    if (checksum == HDF5_UNCHECKED)
        return 1;
    if (block->size < 4)
        return 0;
    const size_t at = checksum == HDF5_CHECKSUM_LAST ? block->size - 4 : (size_t)checksum;
    if (at > block->size - 4)
        return 0;
    const uint32_t stored = load32(block->bytes + at);
    memset(block->bytes + at, 0, 4);
    const uint32_t right = eventio_lookup3(block->bytes, at == block->size - 4 ? at : block->size);
#ifdef CUSI_FUZZ
    if (stored != right && eventio_hdf5Repair) {
        eventio_hdf5Repair(f->base + block->address + at, right);
        return 1;
    }
#endif
    (void)f;
    return stored == right;
}

/* ---- Blocks ---------------------------------------------------------------------------------------------------------- */

cusStatus eventio_hdf5Damaged(const Hdf5File *f, uint64_t address, const char *what) {
    const unsigned long long at = f->base + address;
    return cusi_fail(CUS_ERROR_FORMAT, "%s: the HDF5 file is damaged: %s at byte %llu", f->function, what, at);
}

cusStatus eventio_hdf5Within(const Hdf5File *f, uint64_t address, uint64_t size, const char *what) {
    const uint64_t have = f->source->size - f->base;
    const unsigned long long end = f->base + address + size;
    if (size <= have && address <= have - size)
        return CUS_OK;
    if (address <= f->end && size <= f->end - address)
        return cusi_fail(CUS_ERROR_TRUNCATED, "%s: the HDF5 file ends at byte %llu, but its %s is stored up to byte %llu",
                         f->function, (unsigned long long)f->source->size, what, end);
    return cusi_fail(CUS_ERROR_FORMAT, "%s: the HDF5 file is damaged: its %s is outside the file", f->function, what);
}

static cusStatus readBytes(const Hdf5File *f, uint64_t address, void *bytes, size_t n, const char *what) {
    const int64_t got = eventio_readAt(f->source, f->base + address, bytes, n);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "%s: the file cannot be read: %s", f->function, strerror(errno));
    CUSI_REQUIRE((size_t)got == n, CUS_ERROR_TRUNCATED, "%s: the HDF5 file ends within its %s", f->function, what);
    return CUS_OK;
}

cusStatus eventio_hdf5Peek(const Hdf5File *f, uint64_t address, void *bytes, size_t n, const char *what) {
    CUS_TRY(eventio_hdf5Within(f, address, 1, what));
    for (int i = 0; i < HDF5_KEPT_BLOCKS; ++i) {
        const Hdf5Block *block = &f->kept[i];
        if (block->bytes && block->address == address && block->size >= n && block->checksum == HDF5_UNCHECKED) {
            memcpy(bytes, block->bytes, n);
            return CUS_OK;
        }
    }
    const uint64_t have = f->source->size - f->base - address;
    const size_t there = n < have ? n : (size_t)have;
    memset((uint8_t *)bytes + there, 0, n - there);
    return readBytes(f, address, bytes, there, what);
}

/* Returns the slot for a new block: an empty one, or the one used longest ago. */
static Hdf5Block *oldest(Hdf5File *f) {
    Hdf5Block *block = f->kept;
    for (int i = 1; i < HDF5_KEPT_BLOCKS && block->bytes; ++i)
        if (!f->kept[i].bytes || f->kept[i].used < block->used)
            block = &f->kept[i];
    return block;
}

cusStatus eventio_hdf5Block(Hdf5File *f, uint64_t address, uint64_t size, int checksum, const char *what,
                            const uint8_t **bytes) {
    for (int i = 0; i < HDF5_KEPT_BLOCKS; ++i) {
        Hdf5Block *block = &f->kept[i];
        if (block->bytes && block->address == address && block->size == size && block->checksum == checksum) {
            block->used = ++f->clock;
            *bytes = block->bytes;
            return CUS_OK;
        }
    }
    CUS_TRY(eventio_hdf5Within(f, address, size, what));
    CUSI_REQUIRE(size <= HDF5_MAX_BLOCK, CUS_ERROR_CAPACITY, "%s: the HDF5 file's %s has %llu bytes, expected up to %d",
                 f->function, what, (unsigned long long)size, HDF5_MAX_BLOCK);
    Hdf5Block *block = oldest(f);
    free(block->bytes);
    *block = (Hdf5Block){address, (size_t)size, checksum, malloc(size ? (size_t)size : 1), ++f->clock};
    CUSI_REQUIRE(block->bytes, CUS_ERROR_NO_MEMORY, "%s: out of host memory", f->function);
    cusStatus status = readBytes(f, address, block->bytes, block->size, what);
    if (status == CUS_OK && !isVerified(f, block, checksum))
        status = cusi_fail(CUS_ERROR_FORMAT, "%s: the HDF5 file is damaged: wrong checksum of the %s at byte %llu",
                           f->function, what, (unsigned long long)f->base + address);
    if (status != CUS_OK) {
        free(block->bytes);
        block->bytes = NULL;
    }
    *bytes = block->bytes;
    return status;
}

void eventio_closeHdf5File(Hdf5File *f) {
    for (int i = 0; i < HDF5_KEPT_BLOCKS; ++i)
        free(f->kept[i].bytes);
}

/* ---- Superblock ------------------------------------------------------------------------------------------------------ */

static int isSize(unsigned size) {
    return size == 2 || size == 4 || size == 8; /* nothing writes 16 and 32, which the format allows */
}

cusStatus eventio_openHdf5File(Hdf5File *f, const EventSource *source, uint64_t base, const char *function) {
    enum { VERSION = 8, OLD_SIZES = 13, NEW_SIZES = 9, OLD_FIELDS = 24 };
    static const char what[] = "superblock";
    const uint8_t *bytes;
    uint8_t start[16];
    *f = (Hdf5File){
        .source = source, .function = function, .base = base, .end = UINT64_MAX, .address_size = 8, .length_size = 8};
    CUS_TRY(eventio_hdf5Peek(f, 0, start, sizeof start, what));
    const unsigned version = start[VERSION];
    CUSI_REQUIRE(version <= 3, CUS_ERROR_FORMAT, "%s: the HDF5 file has a superblock of version %u, expected 0 to 3",
                 function, version);
    const uint8_t *sizes = start + (version < 2 ? OLD_SIZES : NEW_SIZES);
    const uint64_t have = source->size - base;
    if (isSize(sizes[0]) && isSize(sizes[1])) {
        f->address_size = sizes[0];
        f->length_size = sizes[1];
    } else {
        CUSI_REQUIRE(have >= sizeof start, CUS_ERROR_TRUNCATED, "%s: the HDF5 file ends within its %s", function, what);
        return cusi_fail(CUS_ERROR_FORMAT,
                         "%s: the HDF5 file has addresses of %u and lengths of %u bytes, expected 2, 4 or 8", function,
                         sizes[0], sizes[1]);
    }
    const unsigned fields = version == 0 ? OLD_FIELDS : version == 1 ? OLD_FIELDS + 4 : 12;
    const uint64_t size = fields + (version < 2 ? 6 : 4) * (uint64_t)f->address_size + (version < 2 ? 0 : 4);
    CUS_TRY(eventio_hdf5Block(f, 0, size, version < 2 ? HDF5_UNCHECKED : HDF5_CHECKSUM_LAST, what, &bytes));
    Hdf5Cursor c = eventio_hdf5Cursor(f, bytes + fields, (size_t)size - fields);
    (void)eventio_takeAddress(&c); /* the base address; like libhdf5, uses the place of the signature instead */
    (void)eventio_takeAddress(&c); /* free space, or the extension */
    f->end = eventio_takeAddress(&c);
    if (version < 2) {
        (void)eventio_takeAddress(&c); /* information of the file driver */
        (void)eventio_takeAddress(&c); /* the root group's name */
    }
    f->root = eventio_takeAddress(&c);
    return eventio_hdf5Within(f, f->root, 1, "root group");
}
