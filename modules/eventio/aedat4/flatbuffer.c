/* Tables, fields and vectors of FlatBuffers. All integers are little-endian; an offset counts from where it is stored. */
#include "eventio/aedat4/flatbuffer.h"
#include "event_words.h"

#include <string.h>

enum { MAX_BYTES = 0x7fffffff }; /* FlatBuffers' own limit; sums of two offsets cannot wrap */

/* Opens the table at `at`. It starts with the distance to its list of fields, which may lie on either side. */
static int openTable(const uint8_t *bytes, size_t size, size_t at, FlatTable *table) {
    if (at > size || size - at < 4)
        return 0;
    const int64_t list = (int64_t)at - (int32_t)cusi_load32(bytes + at);
    if (list < 0 || list > (int64_t)size - 4)
        return 0;
    const size_t list_size = cusi_load16(bytes + list), length = cusi_load16(bytes + list + 2);
    if (list_size < 4 || list_size % 2 || list_size > size - (size_t)list || length < 4 || length > size - at)
        return 0;
    *table = (FlatTable){bytes, size, at, length, (size_t)list + 4, (list_size - 4) / 2};
    return 1;
}

int eventio_flatRoot(const uint8_t *bytes, size_t size, const char *identifier, FlatTable *table) {
    return size >= 8 && size <= MAX_BYTES && memcmp(bytes + 4, identifier, 4) == 0 &&
           openTable(bytes, size, cusi_load32(bytes), table);
}

int eventio_flatField(const FlatTable *t, unsigned number, size_t size, const uint8_t **field) {
    *field = NULL;
    const size_t offset = number < t->field_count ? cusi_load16(t->bytes + t->fields + 2 * (size_t)number) : 0;
    if (!offset)
        return 1;
    if (offset < 4 || offset > t->length || size > t->length - offset)
        return 0;
    *field = t->bytes + t->at + offset;
    return 1;
}

int eventio_flatVector(const FlatTable *t, unsigned number, size_t element, const uint8_t **elements, size_t *count) {
    const uint8_t *field;
    *elements = t->bytes;
    *count = 0;
    if (!eventio_flatField(t, number, 4, &field))
        return 0;
    if (!field)
        return 1;
    const size_t at = (size_t)(field - t->bytes) + cusi_load32(field);
    if (at > t->size || t->size - at < 4)
        return 0;
    *count = cusi_load32(t->bytes + at);
    *elements = t->bytes + at + 4;
    return *count <= (t->size - at - 4) / element;
}

int eventio_flatElement(const FlatTable *parent, const uint8_t *elements, size_t i, FlatTable *table) {
    const size_t at = (size_t)(elements - parent->bytes) + 4 * i;
    return openTable(parent->bytes, parent->size, at + cusi_load32(parent->bytes + at), table);
}
