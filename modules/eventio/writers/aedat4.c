/* Writes AEDAT4 (aedat4/): packets of `chunk` events or of triggers, each compressed on its own, and a table of them.
 * The FlatBuffers always have the same few fields, so they are laid out here by hand: all fields at multiples of their
 * size from the start, which is the size prefix. */
#include "check.h"
#include "eventio/writers/methods.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CUSI_WITH_LZ4
#include <lz4frame.h>
#endif
#ifdef CUSI_WITH_ZSTD
#include <zstd.h>
#endif

enum { NONE, LZ4, ZSTD };                                     /* the option compress */
enum { PACKET_HEADER = 8, EVENTS_AT = 32, EVENT_BYTES = 16 }; /* EVENTS_AT: in a buffer of events */
enum { LINE_BYTES = 48, LINES_AT = 44, ZSTD_LEVEL = 3 };      /* the table */
enum { EVENT_STREAM, TRIGGER_STREAM };
enum { TRIGGERS = 512, RISING = 1, FALLING = 2 }; /* in a packet; the edges of the external signal */

/* An entry of the table: a stored packet. */
typedef struct Line {
    uint64_t offset; /* behind its header */
    uint32_t stream, size, count;
    int64_t first, last;
} Line;

typedef struct Aedat4Writer {
    uint8_t *packet, *packed; /* PACKET_HEADER bytes, then a buffer of events; the same compressed */
    size_t packed_capacity;
    uint32_t count; /* events in the packet */
    int64_t first, last;
    cusEventTrigger triggers[TRIGGERS]; /* triggers of the next packet */
    uint32_t trigger_count;
    uint64_t end, position_at; /* end of the file; where the header has the table's place */
    Line *lines;
    size_t line_count, line_capacity;
} Aedat4Writer;

static void put16(uint8_t *p, uint32_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}
static void put32(uint8_t *p, uint64_t value) {
    put16(p, (uint32_t)value & 0xffff);
    put16(p + 2, (uint32_t)(value >> 16) & 0xffff);
}
static void put64(uint8_t *p, uint64_t value) {
    put32(p, value);
    put32(p + 4, value >> 32);
}

/* Puts the start of a buffer of `size` bytes, whose root table is at `root` and whose list of `n` fields is at `list`. */
static void putRoot(uint8_t *p, size_t size, const char *identifier, size_t root, size_t list, const uint16_t *fields,
                    size_t n) {
    put32(p, size - 4);
    put32(p + 4, root - 4);
    memcpy(p + 8, identifier, 4);
    for (size_t k = 0; k < n; ++k)
        put16(p + list + 2 * k, fields[k]);
    put32(p + root, root - list);
}

/* ---- Compression ------------------------------------------------------------------------------------------------- */

static size_t boundOf(int codec, size_t n) {
#ifdef CUSI_WITH_LZ4
    if (codec == LZ4)
        return LZ4F_compressFrameBound(n, NULL);
#endif
#ifdef CUSI_WITH_ZSTD
    if (codec == ZSTD)
        return ZSTD_compressBound(n);
#endif
    (void)codec, (void)n;
    return 0;
}

/* Compresses n bytes to `out`, which has room for boundOf(). Returns 0 if memory runs out. */
static size_t compress(int codec, const uint8_t *in, size_t n, uint8_t *out, size_t capacity) {
#ifdef CUSI_WITH_LZ4
    if (codec == LZ4) {
        LZ4F_preferences_t preferences = LZ4F_INIT_PREFERENCES;
        preferences.frameInfo.contentSize = n;
        const size_t size = LZ4F_compressFrame(out, capacity, in, n, &preferences);
        return LZ4F_isError(size) ? 0 : size;
    }
#endif
#ifdef CUSI_WITH_ZSTD
    if (codec == ZSTD) {
        const size_t size = ZSTD_compress(out, capacity, in, n, ZSTD_LEVEL);
        return ZSTD_isError(size) ? 0 : size;
    }
#endif
    (void)codec, (void)in, (void)n, (void)out, (void)capacity;
    return 0;
}

/* Compresses n bytes at `in` to w's packed bytes, behind room for a header. *out: the result. */
static cusStatus pack(cusEventWriter *w, uint8_t *in, size_t n, uint8_t **out, size_t *size) {
    Aedat4Writer *a = w->state;
    const int codec = w->options.compress;
    *out = in;
    *size = n;
    if (codec == NONE)
        return CUS_OK;
    const size_t bound = boundOf(codec, n);
    if (bound > a->packed_capacity) {
        free(a->packed);
        a->packed_capacity = 0;
        a->packed = malloc(PACKET_HEADER + bound);
        CUSI_REQUIRE(a->packed, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
        a->packed_capacity = bound;
    }
    *out = a->packed + PACKET_HEADER;
    *size = compress(codec, in, n, *out, bound);
    CUSI_REQUIRE(*size, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    return CUS_OK;
}

static cusStatus append(cusEventWriter *w, const uint8_t *bytes, size_t n) {
    Aedat4Writer *a = w->state;
    CUS_TRY(eventio_outputWrite(&w->output, a->end, bytes, n, w->function));
    a->end += n;
    return CUS_OK;
}

/* ---- Header ------------------------------------------------------------------------------------------------------ */

static cusStatus checkBuild(const cusEventWriter *w) {
#ifndef CUSI_WITH_LZ4
    CUSI_REQUIRE(w->options.compress != LZ4, CUS_ERROR_UNSUPPORTED,
                 "%s: this build of cusight has no LZ4 (Debian: liblz4-dev)", w->function);
#endif
#ifndef CUSI_WITH_ZSTD
    CUSI_REQUIRE(w->options.compress != ZSTD, CUS_ERROR_UNSUPPORTED,
                 "%s: this build of cusight has no zstd (Debian: libzstd-dev)", w->function);
#endif
    (void)w;
    return CUS_OK;
}

/* Describes the streams of events and triggers as iniVation's programs do. */
static int describeStreams(const cusEventWriter *w, char *xml, size_t capacity) {
    static const char *const names[] = {"NONE", "LZ4", "ZSTD"};
    const char *codec = names[w->options.compress], *source = w->options.camera ? w->options.camera : "cusight";
    return snprintf(xml, capacity,
                    "<dv version=\"2.0\">\n"
                    "  <node name=\"outInfo\" path=\"/outInfo/\">\n"
                    "    <node name=\"0\" path=\"/outInfo/0/\">\n"
                    "      <attr key=\"compression\" type=\"string\">%s</attr>\n"
                    "      <attr key=\"originalModuleName\" type=\"string\">cusight</attr>\n"
                    "      <attr key=\"originalOutputName\" type=\"string\">events</attr>\n"
                    "      <attr key=\"typeDescription\" type=\"string\">Array of events (polarity ON/OFF).</attr>\n"
                    "      <attr key=\"typeIdentifier\" type=\"string\">EVTS</attr>\n"
                    "      <node name=\"info\" path=\"/outInfo/0/info/\">\n"
                    "        <attr key=\"sizeX\" type=\"int\">%d</attr>\n"
                    "        <attr key=\"sizeY\" type=\"int\">%d</attr>\n"
                    "        <attr key=\"source\" type=\"string\">%s</attr>\n"
                    "      </node>\n"
                    "    </node>\n"
                    "    <node name=\"1\" path=\"/outInfo/1/\">\n"
                    "      <attr key=\"compression\" type=\"string\">%s</attr>\n"
                    "      <attr key=\"originalModuleName\" type=\"string\">cusight</attr>\n"
                    "      <attr key=\"originalOutputName\" type=\"string\">triggers</attr>\n"
                    "      <attr key=\"typeDescription\" type=\"string\">Array of triggers.</attr>\n"
                    "      <attr key=\"typeIdentifier\" type=\"string\">TRIG</attr>\n"
                    "      <node name=\"info\" path=\"/outInfo/1/info/\">\n"
                    "        <attr key=\"source\" type=\"string\">%s</attr>\n"
                    "      </node>\n"
                    "    </node>\n"
                    "  </node>\n"
                    "</dv>\n",
                    codec, w->options.width, w->options.height, source, codec, source);
}

/* Writes the line of the version, and an IOHeader: compression, the table's place (-1 until it is written), XML. */
static cusStatus writeHeader(cusEventWriter *w) {
    enum { VERSION = 14, LIST = 12, ROOT = 28, PLACE = ROOT + 4, COMPRESSION = ROOT + 12, TEXT = ROOT + 20, ROOM = 2048 };
    static const uint16_t fields[] = {10, 20, 12, 4, 16};
    static const int numbers[] = {0, 1, 3}; /* the format's numbers of none, LZ4 and zstd */
    uint8_t header[VERSION + ROOM] = "#!AER-DAT4.0\r\n", *io = header + VERSION;
    const size_t text = (size_t)describeStreams(w, (char *)io + TEXT + 4, ROOM - TEXT - 4);
    const size_t size = (TEXT + 4 + text + 1 + 7) / 8 * 8;
    putRoot(io, size, "IOHE", ROOT, LIST, fields, 5);
    put64(io + PLACE, UINT64_MAX);
    put32(io + COMPRESSION, (uint32_t)numbers[w->options.compress]);
    put32(io + ROOT + 16, 4);
    put32(io + TEXT, text);
    ((Aedat4Writer *)w->state)->position_at = VERSION + PLACE;
    return append(w, header, VERSION + size);
}

static cusStatus create(cusEventWriter *w) {
    const char *camera = w->options.camera;
    CUS_TRY(checkBuild(w));
    CUSI_REQUIRE(!camera || !strpbrk(camera, "<>&\""), CUS_ERROR_VALUE,
                 "%s: camera is \"%.40s\", expected a name without <, >, & and quotes", w->function, camera);
    Aedat4Writer *a = w->state = calloc(1, sizeof *a);
    if (a)
        a->packet = malloc(PACKET_HEADER + EVENTS_AT + (size_t)w->options.chunk * EVENT_BYTES);
    CUSI_REQUIRE(a && a->packet, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    return writeHeader(w);
}

/* ---- Packets ----------------------------------------------------------------------------------------------------- */

static cusStatus addLine(cusEventWriter *w, Line line) {
    Aedat4Writer *a = w->state;
    CUSI_REQUIRE(a->line_count < (INT_MAX - LINES_AT) / (4 + LINE_BYTES) - 1, CUS_ERROR_CAPACITY,
                 "%s: more packets than the file's table can have; use a larger chunk", w->function);
    if (a->line_count == a->line_capacity) {
        const size_t capacity = 2 * a->line_capacity + 64;
        Line *grown = realloc(a->lines, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
        a->lines = grown;
        a->line_capacity = capacity;
    }
    a->lines[a->line_count++] = line;
    return CUS_OK;
}

/* Compresses and appends a packet, a buffer of `size` bytes behind room for a header. */
static cusStatus appendPacket(cusEventWriter *w, Line line, uint8_t *plain, size_t size) {
    Aedat4Writer *a = w->state;
    uint8_t *out;
    CUS_TRY(pack(w, plain, size, &out, &size));
    put32(out - PACKET_HEADER, line.stream);
    put32(out - PACKET_HEADER + 4, size);
    line.offset = a->end + PACKET_HEADER;
    line.size = (uint32_t)size;
    CUS_TRY(addLine(w, line));
    return append(w, out - PACKET_HEADER, PACKET_HEADER + size);
}

static cusStatus flush(cusEventWriter *w) {
    enum { LIST = 14, ROOT = 20 };
    static const uint16_t fields[] = {6, 8, 4};
    Aedat4Writer *a = w->state;
    if (!a->count)
        return CUS_OK;
    uint8_t *const plain = a->packet + PACKET_HEADER;
    const size_t size = EVENTS_AT + (size_t)a->count * EVENT_BYTES;
    memset(plain, 0, EVENTS_AT);
    putRoot(plain, size, "EVTS", ROOT, LIST, fields, 3);
    put32(plain + 24, 4);
    put32(plain + 28, a->count);
    CUS_TRY(appendPacket(w, (Line){.stream = EVENT_STREAM, .count = a->count, .first = a->first, .last = a->last}, plain,
                         size));
    a->count = 0;
    return CUS_OK;
}

/* Writes a vector of tables: offset of each, the list of their fields, then the tables: place of the list, edge, time. */
static cusStatus flushTriggers(cusEventWriter *w) {
    enum { LIST = 14, ROOT = 20, ELEMENTS = 32, TABLE_BYTES = 16, ROOM = ELEMENTS + TRIGGERS * (4 + TABLE_BYTES) + 16 };
    static const uint16_t fields[] = {6, 8, 4}, trigger_fields[] = {8, TABLE_BYTES, 8, 4};
    Aedat4Writer *a = w->state;
    uint8_t packet[PACKET_HEADER + ROOM] = {0}, *const plain = packet + PACKET_HEADER;
    const size_t n = a->trigger_count, list = ELEMENTS + 4 * n, first = (list + 8 + 7) / 8 * 8,
                 size = first + n * TABLE_BYTES;
    if (!n)
        return CUS_OK;
    putRoot(plain, size, "TRIG", ROOT, LIST, fields, 3);
    put32(plain + ROOT + 4, 4);
    put32(plain + ROOT + 8, n);
    for (size_t k = 0; k < 4; ++k)
        put16(plain + list + 2 * k, trigger_fields[k]);
    for (size_t i = 0; i < n; ++i) {
        const size_t at = first + i * TABLE_BYTES;
        put32(plain + ELEMENTS + 4 * i, at - (ELEMENTS + 4 * i));
        put32(plain + at, at - list);
        plain[at + 4] = a->triggers[i].value ? RISING : FALLING;
        put64(plain + at + 8, (uint64_t)a->triggers[i].t);
    }
    const Line line = {
        .stream = TRIGGER_STREAM, .count = (uint32_t)n, .first = a->triggers[0].t, .last = a->triggers[n - 1].t};
    a->trigger_count = 0;
    return appendPacket(w, line, plain, size);
}

static cusStatus trigger(cusEventWriter *w, const cusEventTrigger *t) {
    Aedat4Writer *a = w->state;
    a->triggers[a->trigger_count++] = *t;
    return a->trigger_count == TRIGGERS ? flushTriggers(w) : CUS_OK;
}

static cusStatus write(cusEventWriter *w, const cusEventArrays *e) {
    Aedat4Writer *a = w->state;
    for (size_t i = 0; i < e->count; ++i) {
        uint8_t *event = a->packet + PACKET_HEADER + EVENTS_AT + (size_t)a->count * EVENT_BYTES;
        put64(event, (uint64_t)e->t[i]);
        put32(event + 8, (uint32_t)e->y[i] << 16 | e->x[i]);
        put32(event + 12, e->p[i]);
        a->first = a->count ? a->first : e->t[i];
        a->last = e->t[i];
        if (++a->count == (uint32_t)w->options.chunk)
            CUS_TRY(flush(w));
    }
    return CUS_OK;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* Lays out a vector of tables: offset of each, then the lines, which share one list of fields. */
static void layTable(const Aedat4Writer *a, uint8_t *table, size_t size) {
    enum { LIST = 12, LINE_LIST = 18, ROOT = 32 };
    static const uint16_t fields[] = {6, 8, 4}, line_fields[] = {14, 44, 12, 4, 20, 28, 36};
    const size_t n = a->line_count, first = size - n * LINE_BYTES;
    putRoot(table, size, "FTAB", ROOT, LIST, fields, 3);
    for (size_t k = 0; k < 7; ++k)
        put16(table + LINE_LIST + 2 * k, line_fields[k]);
    put32(table + ROOT + 4, 4);
    put32(table + ROOT + 8, n);
    for (size_t i = 0; i < n; ++i) {
        const size_t at = first + i * LINE_BYTES;
        const Line *line = &a->lines[i];
        put32(table + LINES_AT + 4 * i, at - (LINES_AT + 4 * i));
        put32(table + at, at - LINE_LIST);
        put32(table + at + 4, line->stream);
        put32(table + at + 8, line->size);
        put64(table + at + 12, line->offset);
        put64(table + at + 20, line->count);
        put64(table + at + 28, (uint64_t)line->first);
        put64(table + at + 36, (uint64_t)line->last);
    }
}

static cusStatus finish(cusEventWriter *w) {
    CUS_TRY(flush(w));
    CUS_TRY(flushTriggers(w));
    Aedat4Writer *a = w->state;
    const size_t first = (LINES_AT + 4 * a->line_count + 3) / 8 * 8 + 4; /* 4 bytes before a multiple of 8 */
    size_t size = first + a->line_count * LINE_BYTES;
    uint8_t *table = calloc(1, size), *out, place[8];
    CUSI_REQUIRE(table, CUS_ERROR_NO_MEMORY, "%s: out of host memory", w->function);
    layTable(a, table, size);
    put64(place, a->end);
    cusStatus status = pack(w, table, size, &out, &size);
    if (status == CUS_OK)
        status = append(w, out, size);
    if (status == CUS_OK)
        status = eventio_outputWrite(&w->output, a->position_at, place, sizeof place, w->function);
    free(table);
    return status;
}

static void destroy(cusEventWriter *w) {
    Aedat4Writer *a = w->state;
    if (a) {
        free(a->packet);
        free(a->packed);
        free(a->lines);
    }
    free(a);
}

const EventWriterMethods eventio_writeAedat4 = {.max_side = INT16_MAX + 1,
                                                .max_time = (int64_t)1 << 62, /* times usually count from the epoch */
                                                .max_chunk = 1 << 20,
                                                .default_chunk = 8192,
                                                .create = create,
                                                .write = write,
                                                .trigger = trigger,
                                                .finish = finish,
                                                .destroy = destroy};
