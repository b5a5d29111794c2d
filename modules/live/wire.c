/* The wire format at both ends: headers, checksums, masks, key frames. docs/wire-format.md defines it. */
#include "live/wire.h"
#include "check.h"

#include <string.h>

/* ---- Header ------------------------------------------------------------------------------------------------------ */

enum { AT_MAGIC = 0, AT_VERSION = 4, AT_TYPE = 6, AT_ENCODING = 7, AT_PAYLOAD = 8, AT_RAW = 12, AT_SEQUENCE = 16 };
enum { AT_BASE = 24, AT_WIDTH = 32, AT_HEIGHT = 36, AT_CHANNELS = 40, AT_RESERVED = 41, AT_CRC = 44 };

static const uint8_t MAGIC[4] = {'C', 'U', 'S', 'D'};

void live_store(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
        at[i] = (uint8_t)(value >> (8 * i));
}

uint64_t live_load(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

cusStatus cusWirePack(const cusWireHeader *header, const void *payload, uint8_t out[CUS_WIRE_HEADER_BYTES]) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusWirePack", header);
    CUSI_NOT_NULL("cusWirePack", out);
    CUSI_REQUIRE(payload || header->payload_bytes == 0, CUS_ERROR_NULL, "cusWirePack: payload is NULL");
    memset(out, 0, CUS_WIRE_HEADER_BYTES);
    memcpy(out + AT_MAGIC, MAGIC, sizeof MAGIC);
    live_store(out + AT_VERSION, CUS_WIRE_VERSION, 2);
    out[AT_TYPE] = (uint8_t)header->type;
    out[AT_ENCODING] = (uint8_t)header->encoding;
    live_store(out + AT_PAYLOAD, header->payload_bytes, 4);
    live_store(out + AT_RAW, header->raw_bytes, 4);
    live_store(out + AT_SEQUENCE, header->sequence, 8);
    live_store(out + AT_BASE, header->base, 8);
    live_store(out + AT_WIDTH, header->width, 4);
    live_store(out + AT_HEIGHT, header->height, 4);
    out[AT_CHANNELS] = (uint8_t)header->channels;
    live_store(out + AT_CRC, cusCrc32c(cusCrc32c(0, out, AT_CRC), payload, header->payload_bytes), 4);
    return CUS_OK;
}

int live_checksumMatches(const uint8_t header[CUS_WIRE_HEADER_BYTES], const void *payload, size_t bytes) {
    return cusCrc32c(cusCrc32c(0, header, AT_CRC), payload, bytes) == (uint32_t)live_load(header + AT_CRC, 4);
}

/* Checks magic, version, type, encoding and reserved bytes. */
static cusStatus checkPreamble(const uint8_t in[CUS_WIRE_HEADER_BYTES]) {
    CUSI_REQUIRE(memcmp(in + AT_MAGIC, MAGIC, sizeof MAGIC) == 0, CUS_ERROR_FORMAT,
                 "live: the message starts with %02x %02x %02x %02x instead of \"CUSD\": the other end speaks another "
                 "protocol",
                 in[0], in[1], in[2], in[3]);
    const int version = (int)live_load(in + AT_VERSION, 2), type = in[AT_TYPE], encoding = in[AT_ENCODING];
    CUSI_REQUIRE(version == CUS_WIRE_VERSION, CUS_ERROR_UNSUPPORTED,
                 "live: the other end speaks version %d of the format, this program version %d", version, CUS_WIRE_VERSION);
    CUSI_REQUIRE(type >= CUS_WIRE_HELLO && type <= CUS_WIRE_REQUEST_CHECKSUMS, CUS_ERROR_FORMAT,
                 "live: message of unknown type %d", type);
    CUSI_REQUIRE(encoding == CUS_WIRE_RAW || encoding == CUS_WIRE_ZSTD, CUS_ERROR_FORMAT,
                 "live: message of unknown encoding %d", encoding);
    CUSI_REQUIRE(live_load(in + AT_RESERVED, 3) == 0, CUS_ERROR_FORMAT, "live: reserved bytes of the header are not zero");
    return CUS_OK;
}

static int hasSize(const cusWireHeader *h) {
    return h->width != 0 || h->height != 0 || h->channels != 0;
}

/* Checks the frame size against the format's limits, and the payload size against its decompressed size. */
static cusStatus checkSizes(const cusWireHeader *h) {
    const int frame = h->type == CUS_WIRE_KEY_FRAME || h->type == CUS_WIRE_DIFFERENCE;
    CUSI_REQUIRE(!hasSize(h) ||
                     (h->width >= 1 && h->width <= CUS_WIRE_MAX_SIDE && h->height >= 1 && h->height <= CUS_WIRE_MAX_SIDE &&
                      (h->channels == 1 || h->channels == 3 || h->channels == 4) &&
                      (uint64_t)h->width * h->height * (unsigned)h->channels <= CUS_WIRE_MAX_FRAME_BYTES),
                 CUS_ERROR_FORMAT, "live: a frame of %u x %u with %d channels is outside the format's limits", h->width,
                 h->height, h->channels);
    CUSI_REQUIRE(!frame || hasSize(h), CUS_ERROR_FORMAT, "live: a frame without a size");
    CUSI_REQUIRE(h->encoding == CUS_WIRE_RAW ? h->payload_bytes == h->raw_bytes
                                             : frame && h->payload_bytes >= 1 && h->payload_bytes < h->raw_bytes,
                 CUS_ERROR_FORMAT, "live: a payload of %u bytes cannot decode to %u bytes", h->payload_bytes, h->raw_bytes);
    return CUS_OK;
}

/* Checks what each type of message requires of the other fields. */
static cusStatus checkType(const cusWireHeader *h) {
    const uint64_t row_bytes = (uint64_t)h->width * (unsigned)h->channels, frame_bytes = row_bytes * h->height;
    const uint64_t mask_bytes = (row_bytes + 7) / 8 * h->height;
    switch (h->type) {
    case CUS_WIRE_KEY_FRAME:
        CUSI_REQUIRE(h->raw_bytes == frame_bytes, CUS_ERROR_FORMAT, "live: a key frame of %u bytes, expected %llu",
                     h->raw_bytes, (unsigned long long)frame_bytes);
        CUSI_REQUIRE(h->sequence >= 1 && h->base == 0, CUS_ERROR_FORMAT,
                     "live: a key frame with sequence number %llu and base %llu", (unsigned long long)h->sequence,
                     (unsigned long long)h->base);
        break;
    case CUS_WIRE_DIFFERENCE:
        CUSI_REQUIRE(h->raw_bytes >= mask_bytes && h->raw_bytes - mask_bytes <= frame_bytes, CUS_ERROR_FORMAT,
                     "live: a difference of %u bytes, expected %llu to %llu", h->raw_bytes, (unsigned long long)mask_bytes,
                     (unsigned long long)(mask_bytes + frame_bytes));
        CUSI_REQUIRE(h->base >= 1 && h->sequence > h->base, CUS_ERROR_FORMAT,
                     "live: a difference with sequence number %llu and base %llu", (unsigned long long)h->sequence,
                     (unsigned long long)h->base);
        break;
    case CUS_WIRE_HELLO: /* the viewer's is empty, the sender's has a size and 8 bytes */
        CUSI_REQUIRE(h->raw_bytes == (hasSize(h) ? (uint32_t)LIVE_HELLO_BYTES : 0u) && h->sequence == 0 && h->base == 0,
                     CUS_ERROR_FORMAT, "live: a hello of %u bytes", h->raw_bytes);
        break;
    case CUS_WIRE_CHECKSUM:
        CUSI_REQUIRE(h->raw_bytes == LIVE_CHECKSUM_BYTES && h->sequence >= 1 && h->base == 0 && !hasSize(h),
                     CUS_ERROR_FORMAT, "live: a checksum of %u bytes for frame %llu, expected %d bytes", h->raw_bytes,
                     (unsigned long long)h->sequence, LIVE_CHECKSUM_BYTES);
        break;
    default:
        CUSI_REQUIRE(h->raw_bytes == 0 && h->base == 0 && !hasSize(h), CUS_ERROR_FORMAT,
                     "live: a message of type %d with %u bytes or a size, expected neither", (int)h->type, h->raw_bytes);
    }
    return CUS_OK;
}

cusStatus cusWireParse(const uint8_t in[CUS_WIRE_HEADER_BYTES], cusWireHeader *header) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusWireParse", in);
    CUSI_NOT_NULL("cusWireParse", header);
    CUS_TRY(checkPreamble(in));
    const cusWireHeader h = {.type = (cusWireType)in[AT_TYPE],
                             .encoding = (cusWireEncoding)in[AT_ENCODING],
                             .payload_bytes = (uint32_t)live_load(in + AT_PAYLOAD, 4),
                             .raw_bytes = (uint32_t)live_load(in + AT_RAW, 4),
                             .sequence = live_load(in + AT_SEQUENCE, 8),
                             .base = live_load(in + AT_BASE, 8),
                             .width = (uint32_t)live_load(in + AT_WIDTH, 4),
                             .height = (uint32_t)live_load(in + AT_HEIGHT, 4),
                             .channels = in[AT_CHANNELS],
                             .crc = (uint32_t)live_load(in + AT_CRC, 4)};
    CUS_TRY(checkSizes(&h));
    CUS_TRY(checkType(&h));
    *header = h;
    return CUS_OK;
}

cusWireHeader live_header(cusWireType type, const LiveShape *shape) {
    cusWireHeader header = {.type = type, .encoding = CUS_WIRE_RAW};
    if (shape) {
        header.width = (uint32_t)shape->cols;
        header.height = (uint32_t)shape->rows;
        header.channels = CUS_CHANNELS(shape->type);
    }
    return header;
}

cusStatus live_shape(const char *function, int rows, int cols, int type, LiveShape *shape) {
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frame is %d x %d (rows x cols), expected 1 x 1 or larger",
                 function, rows, cols);
    CUSI_REQUIRE(type == CUS_8UC1 || type == CUS_8UC3 || type == CUS_8UC4, CUS_ERROR_TYPE,
                 "%s: type is %s, expected 8UC1, 8UC3 or 8UC4", function, cusi_typeName(type));
    const uint64_t bytes = (uint64_t)rows * (uint64_t)cols * cusTypeSize(type);
    CUSI_REQUIRE(rows <= CUS_WIRE_MAX_SIDE && cols <= CUS_WIRE_MAX_SIDE && bytes <= CUS_WIRE_MAX_FRAME_BYTES,
                 CUS_ERROR_SIZE, "%s: frame is %d x %d (rows x cols) %s, expected up to %d a side and %d bytes", function,
                 rows, cols, cusi_typeName(type), CUS_WIRE_MAX_SIDE, CUS_WIRE_MAX_FRAME_BYTES);
    shape->rows = rows;
    shape->cols = cols;
    shape->type = type;
    shape->row_bytes = (size_t)cols * cusTypeSize(type);
    shape->frame_bytes = (size_t)bytes;
    shape->mask_row_bytes = (shape->row_bytes + 7) / 8;
    shape->mask_bytes = shape->mask_row_bytes * (size_t)rows;
    shape->max_raw_bytes = shape->mask_bytes + shape->frame_bytes;
    return CUS_OK;
}

/* ---- Masks ------------------------------------------------------------------------------------------------------- */

/* Returns 64 bits of a row's mask; bits past its end are 0. */
static uint64_t maskWord(const uint8_t *mask_row, size_t at, size_t mask_row_bytes) {
    const size_t left = mask_row_bytes - at;
    if (left < 8)
        return live_load(mask_row + at, (int)left);
    return live_load(mask_row + at, 8);
}

void live_addValues(const LiveShape *shape, const uint8_t *mask, const uint8_t *values, uint8_t *sum) {
    for (int y = 0; y < shape->rows; ++y, mask += shape->mask_row_bytes, sum += shape->row_bytes)
        for (size_t at = 0; at < shape->mask_row_bytes; at += 8)
            for (uint64_t bits = maskWord(mask, at, shape->mask_row_bytes); bits; bits &= bits - 1) {
                uint8_t *const byte = sum + 8 * at + (unsigned)__builtin_ctzll(bits);
                *byte = (uint8_t)(*byte + *values++);
            }
}

int live_maskMatches(const LiveShape *shape, const uint8_t *mask, size_t values) {
    /* The bits of a row's last mask byte that are within the row. */
    const unsigned inside = shape->row_bytes % 8 ? (1u << (shape->row_bytes % 8)) - 1 : 255;
    size_t bits = 0;
    for (int y = 0; y < shape->rows; ++y, mask += shape->mask_row_bytes) {
        if (mask[shape->mask_row_bytes - 1] & ~inside)
            return 0;
        for (size_t at = 0; at < shape->mask_row_bytes; at += 8)
            bits += (unsigned)__builtin_popcountll(maskWord(mask, at, shape->mask_row_bytes));
    }
    return bits == values;
}

/* ---- Key frames -------------------------------------------------------------------------------------------------- */

void live_filterRows(const LiveShape *shape, uint8_t *frame) {
    const size_t n = shape->row_bytes;
    for (size_t y = (size_t)shape->rows - 1; y > 0; --y) {
        uint8_t *restrict row = frame + y * n;
        const uint8_t *restrict above = row - n;
        for (size_t i = 0; i < n; ++i)
            row[i] = (uint8_t)(row[i] - above[i]);
    }
}

void live_unfilterRows(const LiveShape *shape, const uint8_t *filtered, uint8_t *frame) {
    const size_t n = shape->row_bytes;
    memcpy(frame, filtered, n);
    for (size_t y = 1; y < (size_t)shape->rows; ++y) {
        uint8_t *restrict row = frame + y * n;
        const uint8_t *restrict above = row - n, *restrict from = filtered + y * n;
        for (size_t i = 0; i < n; ++i)
            row[i] = (uint8_t)(above[i] + from[i]);
    }
}
