/* Formats that are read from front to back: Prophesee RAW (EVT2, EVT3), DAT, text. Every million events a mark keeps the
 * place in the file and the decoder's state, so that seeking starts at the nearest mark. */
#include "check.h"
#include "eventio_backend.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 1 << 20, /* read at once */
    HEADER_BYTES = 1 << 16, /* a longer header is none */
    LINE_BYTES = 512,       /* a longer line of text is none */
    MARK_EVENTS = 1000000
};

/* Everything a decoder remembers between two words. */
typedef struct Decoder {
    uint64_t offset; /* of the next byte, in the file */
    uint64_t index;  /* of the next event */
    int64_t high;    /* time of the last time word, wraps included, in its own ticks; -1 before the first */
    int64_t time;    /* microseconds of the last event or time word */
    uint64_t line;   /* text: lines passed */
    uint32_t low, y, base_x, base_p;
    uint32_t vector; /* EVT3: events of the current vector that are still to come, a bit each, from base_x - vector_size */
    uint32_t vector_size;
} Decoder;

typedef struct Stream Stream;

/* Where decoded events go. */
typedef struct Sink {
    EventArrays out;
    size_t count, capacity;
} Sink;

typedef cusStatus (*Decode)(cusEventReader *reader, Decoder *d, const uint8_t *bytes, size_t n, int at_end, Sink *sink,
                            size_t *used);

struct Stream {
    Decode decode;
    Decoder now;
    uint8_t *buffer; /* file bytes begin..end, from `start` on */
    uint64_t start;
    size_t filled;
    Decoder *marks;
    size_t mark_count, mark_capacity;
    int seconds; /* text: times are seconds */
};

static inline void put(Sink *sink, uint32_t x, uint32_t y, uint32_t p, int64_t t) {
    const size_t i = sink->count++;
    sink->out.x[i] = (uint16_t)x;
    sink->out.y[i] = (uint16_t)y;
    sink->out.p[i] = (uint8_t)p;
    sink->out.t[i] = t;
}

static inline uint32_t word16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t word32(const uint8_t *p) {
    return word16(p) | word16(p + 2) << 16;
}

/* The next value of a counter with `bits` bits, after `last` (-1: none): a large step back is a wrap. */
static int64_t carryOn(int64_t last, int64_t value, int bits) {
    const int64_t period = (int64_t)1 << bits;
    if (last < 0)
        return value;
    int64_t next = (last & ~(period - 1)) | value;
    if (next < last && last - next > period / 2)
        next += period;
    return next;
}

static cusStatus undefinedWord(cusEventReader *reader, const char *format, uint32_t type, uint64_t offset) {
    if (reader->options.bad_events == CUS_BAD_EVENTS_SKIP) {
        ++reader->counts.bad_words;
        return CUS_OK;
    }
    return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: byte %llu: word of type %x, which %s does not have",
                     (unsigned long long)offset, type, format);
}

static void trigger(cusEventReader *reader, uint32_t word) {
    ++*(word & 1 ? &reader->counts.triggers_rising : &reader->counts.triggers_falling);
}

/* Bits 31..28 type, then for an event t[5:0] x[10:0] y[10:0]; type 8: the time's upper 28 bits. */
static cusStatus decodeEvt2(cusEventReader *reader, Decoder *d, const uint8_t *bytes, size_t n, int at_end, Sink *sink,
                            size_t *used) {
    (void)at_end;
    size_t at = 0;
    cusStatus status = CUS_OK;
    for (; at + 4 <= n && sink->count < sink->capacity && status == CUS_OK; at += 4) {
        const uint32_t word = word32(bytes + at), type = word >> 28;
        if (type <= 1) {
            if (d->high >= 0)
                put(sink, word >> 11 & 2047, word & 2047, type, d->high << 6 | (word >> 22 & 63));
            else
                ++reader->counts.untimed;
        } else if (type == 8) {
            d->high = carryOn(d->high, word & 0xfffffff, 28);
        } else if (type == 10) {
            trigger(reader, word);
        } else if (type < 14) { /* 14 and 15: other words and their continuation, which carry no events */
            status = undefinedWord(reader, "EVT2", type, d->offset + at);
            if (status != CUS_OK)
                break;
        }
    }
    *used = at;
    return status;
}

/* Events of the current vector while there is room. */
static void emitVector(Decoder *d, Sink *sink) {
    const uint32_t first = d->base_x - d->vector_size;
    while (d->vector && sink->count < sink->capacity) {
        put(sink, first + (uint32_t)__builtin_ctz(d->vector), d->y, d->base_p, d->time);
        d->vector &= d->vector - 1;
    }
}

static cusStatus decodeEvt3(cusEventReader *reader, Decoder *d, const uint8_t *bytes, size_t n, int at_end, Sink *sink,
                            size_t *used) {
    (void)at_end;
    size_t at = 0;
    cusStatus status = CUS_OK;
    emitVector(d, sink);
    for (; at + 2 <= n && sink->count < sink->capacity; at += 2) {
        const uint32_t word = word16(bytes + at), type = word >> 12;
        switch (type) {
        case 0:
            d->y = word & 2047;
            break;
        case 2:
            if (d->high >= 0)
                put(sink, word & 2047, d->y, word >> 11 & 1, d->time);
            else
                ++reader->counts.untimed;
            break;
        case 3:
            d->base_x = word & 2047;
            d->base_p = word >> 11 & 1;
            break;
        case 4:
        case 5:
            d->vector_size = type == 4 ? 12 : 8;
            d->vector = word & ((1u << d->vector_size) - 1);
            d->base_x += d->vector_size;
            if (d->high < 0) {
                reader->counts.untimed += (uint64_t)__builtin_popcount(d->vector);
                d->vector = 0;
            }
            emitVector(d, sink);
            break;
        case 6:
            d->low = word & 4095;
            d->time = (d->high < 0 ? 0 : d->high << 12) | d->low;
            break;
        case 8: {
            const int64_t high = carryOn(d->high, word & 4095, 12);
            /* A new upper half starts with a lower half of zero; a repeated one changes nothing. */
            if (high != d->high)
                d->low = 0;
            d->high = high;
            d->time = high << 12 | d->low;
            break;
        }
        case 10:
            trigger(reader, word);
            break;
        case 7:
        case 14:
        case 15: /* other words and their continuations, which carry no events */
            break;
        default:
            status = undefinedWord(reader, "EVT3", type, d->offset + at);
        }
        if (status != CUS_OK)
            break;
    }
    *used = at;
    return status;
}

/* u32 t, then x[13:0] y[27:14] p[31:28]. */
static cusStatus decodeDat(cusEventReader *reader, Decoder *d, const uint8_t *bytes, size_t n, int at_end, Sink *sink,
                           size_t *used) {
    (void)reader, (void)at_end;
    size_t at = 0;
    for (; at + 8 <= n && sink->count < sink->capacity; at += 8) {
        const uint32_t word = word32(bytes + at + 4);
        d->high = carryOn(d->high, word32(bytes + at), 32);
        put(sink, word & 16383, word >> 14 & 16383, word >> 28, d->high);
    }
    *used = at;
    return CUS_OK;
}

/* ---- Text --------------------------------------------------------------------------------------------------------------
 */

static int isSpace(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == ',';
}

static const uint8_t *skipSpace(const uint8_t *p, const uint8_t *end) {
    while (p < end && isSpace(*p))
        ++p;
    return p;
}

/* A number: digits, with a sign, a dot and an exponent as they come. NULL where there is none. */
typedef struct Number {
    uint64_t digits; /* up to 18 significant ones; more are cut off */
    int exponent;    /* value = digits * 10^exponent */
    int negative, whole;
} Number;

static const uint8_t *parseNumber(const uint8_t *p, const uint8_t *end, Number *number) {
    *number = (Number){.whole = 1};
    if (p < end && (*p == '-' || *p == '+'))
        number->negative = *p++ == '-';
    int any = 0, after_dot = 0;
    for (; p < end; ++p) {
        if (*p == '.' && !after_dot) {
            after_dot = 1;
            number->whole = 0;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        any = 1;
        if (number->digits < 100000000000000000u) {
            number->digits = number->digits * 10 + (uint64_t)(*p - '0');
            number->exponent -= after_dot;
        } else {
            number->exponent += !after_dot;
        }
    }
    if (!any)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        const uint8_t *q = p + 1;
        const int minus = q < end && *q == '-';
        if (q < end && (*q == '-' || *q == '+'))
            ++q;
        int exponent = 0, digits = 0;
        for (; q < end && *q >= '0' && *q <= '9'; ++q, ++digits)
            exponent = exponent < 1000 ? exponent * 10 + (*q - '0') : exponent;
        if (!digits)
            return NULL;
        number->exponent += minus ? -exponent : exponent;
        number->whole = 0;
        p = q;
    }
    return p < end && !isSpace(*p) ? NULL : p;
}

/* number * 10^scale, rounded half up; -1 when negative or past 2^62. */
static int64_t scaled(const Number *number, int scale) {
    uint64_t value = number->digits;
    if (number->negative && value)
        return -1;
    int exponent = number->exponent + scale;
    for (; exponent > 0 && value; --exponent) {
        if (value > ((uint64_t)1 << 62) / 10)
            return -1;
        value *= 10;
    }
    if (exponent < -19)
        return 0;
    uint64_t divisor = 1, half = 0;
    for (; exponent < 0; ++exponent) {
        half = divisor * 5;
        divisor *= 10;
    }
    return (int64_t)(value / divisor + (half && value % divisor >= half));
}

/* "t x y p". 0: no event in this line, but a comment or nothing; -1: malformed. */
static int parseLine(const uint8_t *p, const uint8_t *end, int seconds, int64_t *t, int64_t *x, int64_t *y,
                     int64_t *polarity) {
    p = skipSpace(p, end);
    if (p == end || *p == '#')
        return 0;
    Number number[4];
    for (int i = 0; i < 4; ++i) {
        p = parseNumber(p, end, &number[i]);
        if (!p || (i > 0 && !number[i].whole))
            return -1;
        p = skipSpace(p, end);
    }
    *t = scaled(&number[0], seconds ? 6 : 0);
    *x = scaled(&number[1], 0);
    *y = scaled(&number[2], 0);
    *polarity = number[3].negative && number[3].digits == 1 ? 0 : scaled(&number[3], 0);
    return p == end && *t >= 0 && *x >= 0 && *x <= UINT16_MAX && *y >= 0 && *y <= UINT16_MAX && *polarity >= 0 ? 1 : -1;
}

static cusStatus decodeText(cusEventReader *reader, Decoder *d, const uint8_t *bytes, size_t n, int at_end, Sink *sink,
                            size_t *used) {
    const Stream *stream = reader->state;
    const uint8_t *p = bytes, *const end = bytes + n;
    cusStatus status = CUS_OK;
    while (p < end && sink->count < sink->capacity) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline && !at_end && end - p <= LINE_BYTES)
            break;
        const uint8_t *line_end = newline ? newline : end;
        int64_t t, x, y, polarity;
        const int found =
            line_end - p > LINE_BYTES && *p != '#' ? -1 : parseLine(p, line_end, stream->seconds, &t, &x, &y, &polarity);
        if (found < 0) {
            if (!newline && at_end)
                status = cusi_fail(CUS_ERROR_TRUNCATED, "cusEventReaderRead: the file ends within line %llu, byte %llu",
                                   (unsigned long long)d->line + 1, (unsigned long long)d->offset + (uint64_t)(p - bytes));
            else if (reader->options.bad_events == CUS_BAD_EVENTS_STOP || !newline)
                status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: line %llu, byte %llu, is not \"t x y p\"",
                                   (unsigned long long)d->line + 1, (unsigned long long)d->offset + (uint64_t)(p - bytes));
            else
                ++reader->counts.bad_words;
            if (status != CUS_OK)
                break;
        } else if (found) {
            put(sink, (uint32_t)x, (uint32_t)y, polarity > 1 ? 2 : (uint32_t)polarity, t);
        } else if (!newline && !at_end) {
            status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: line %llu, byte %llu, is longer than %d bytes",
                               (unsigned long long)d->line + 1, (unsigned long long)d->offset + (uint64_t)(p - bytes),
                               LINE_BYTES);
            break;
        }
        d->line += newline != NULL;
        p = newline ? newline + 1 : end;
    }
    *used = (size_t)(p - bytes);
    return status;
}

/* ---- Reading and seeking -----------------------------------------------------------------------------------------------
 */

static cusStatus addMark(Stream *stream) {
    if (stream->mark_count == stream->mark_capacity) {
        const size_t capacity = 2 * stream->mark_capacity + 16;
        Decoder *grown = realloc(stream->marks, capacity * sizeof *grown);
        CUSI_REQUIRE(grown, CUS_ERROR_NO_MEMORY, "cusEventReaderRead: no host memory");
        stream->marks = grown;
        stream->mark_capacity = capacity;
    }
    stream->marks[stream->mark_count++] = stream->now;
    return CUS_OK;
}

static cusStatus streamRead(cusEventReader *reader, size_t n, EventArrays out, size_t *count) {
    Stream *stream = reader->state;
    Decoder *d = &stream->now;
    *count = 0;
    while (*count < n) {
        size_t skip = (size_t)(d->offset - stream->start), have = stream->filled - skip;
        const size_t left = n - *count;
        Sink sink = {eventio_from(out, *count), 0, left < MARK_EVENTS ? left : MARK_EVENTS};
        const int at_end = stream->start + stream->filled >= reader->source.size;
        size_t used = 0;
        const cusStatus status = stream->decode(reader, d, stream->buffer + skip, have, at_end, &sink, &used);
        d->offset += used;
        d->index += sink.count;
        *count += sink.count;
        if (sink.count)
            d->time = reader->info.format == CUS_EVENTS_EVT3 ? d->time : sink.out.t[sink.count - 1];
        if (status != CUS_OK)
            return status;
        if (d->index >= (stream->mark_count ? stream->marks[stream->mark_count - 1].index : 0) + MARK_EVENTS)
            CUS_TRY(addMark(stream));
        if (used || sink.count)
            continue;
        if (at_end) {
            CUSI_REQUIRE(have == 0, CUS_ERROR_TRUNCATED,
                         "cusEventReaderRead: the file ends at byte %llu, within an event of %s that starts at byte %llu",
                         (unsigned long long)reader->source.size, cusEventFormatName(reader->info.format),
                         (unsigned long long)d->offset);
            return CUS_OK;
        }
        memmove(stream->buffer, stream->buffer + skip, have);
        stream->start = d->offset;
        stream->filled = have;
        const int64_t got =
            eventio_readAt(&reader->source, stream->start + have, stream->buffer + have, BUFFER_BYTES - have);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderRead: the file cannot be read at byte %llu",
                     (unsigned long long)(stream->start + have));
        if (got == 0)
            reader->source.size = stream->start + have; /* it became shorter under our hands */
        stream->filled += (size_t)got;
    }
    return CUS_OK;
}

static void restore(Stream *stream, const Decoder *mark) {
    stream->now = *mark;
    if (mark->offset < stream->start || mark->offset > stream->start + stream->filled) {
        stream->start = mark->offset;
        stream->filled = 0;
    }
}

static cusStatus streamSeekIndex(cusEventReader *reader, uint64_t index) {
    Stream *stream = reader->state;
    size_t k = stream->mark_count - 1;
    while (k > 0 && stream->marks[k].index > index)
        --k;
    if (stream->now.index > index || stream->marks[k].index > stream->now.index)
        restore(stream, &stream->marks[k]);
    while (stream->now.index < index) {
        const uint64_t left = index - stream->now.index;
        size_t got = 0;
        CUS_TRY(streamRead(reader, left < EVENTIO_SCRATCH ? (size_t)left : EVENTIO_SCRATCH, reader->scratch, &got));
        if (!got)
            break;
    }
    reader->index = stream->now.index;
    return CUS_OK;
}

static cusStatus streamFindTime(cusEventReader *reader, int64_t time, uint64_t *index) {
    Stream *stream = reader->state;
    size_t k = stream->mark_count - 1;
    while (k > 0 && stream->marks[k].time >= time)
        --k;
    restore(stream, &stream->marks[k]);
    for (;;) {
        const uint64_t first = stream->now.index;
        size_t got = 0, i = 0;
        const cusStatus status = streamRead(reader, EVENTIO_SCRATCH, reader->scratch, &got);
        while (i < got && reader->scratch.t[i] < time)
            ++i;
        *index = first + i;
        if (i < got)
            return CUS_OK;
        if (status != CUS_OK || !got)
            return status;
    }
}

static void streamClose(cusEventReader *reader) {
    Stream *stream = reader->state;
    if (stream) {
        free(stream->buffer);
        free(stream->marks);
        free(stream);
    }
}

static const EventFormat stream_format = {streamRead, streamSeekIndex, streamFindTime, streamClose};

/* ---- Headers -----------------------------------------------------------------------------------------------------------
 */

typedef struct Header {
    size_t bytes;
    int evt_major, evt_minor; /* 0: not said */
    int dat;                  /* the comment of a DAT file */
    int dat_version;
    int width, height;
    int named_size; /* sensor size by the camera's name: width << 16 | height, 0 unknown */
    char camera[32];
} Header;

/* Whether `line` starts with `key`; *value is what follows it and its blanks. */
static int field(const char *line, const char *key, const char **value) {
    const size_t n = strlen(key);
    if (strncmp(line, key, n) != 0)
        return 0;
    *value = line + n + strspn(line + n, " \t");
    return 1;
}

static int sensible(long value) {
    return value >= 1 && value <= 65536;
}

static void setSize(Header *header, long width, long height) {
    if (sensible(width) && sensible(height)) {
        header->width = (int)width;
        header->height = (int)height;
    }
}

/* Sensors by the names that cameras write; a geometry line, where there is one, says it better. */
static int sizeByName(const char *value) {
    static const struct {
        const char *part;
        int width, height;
    } known[] = {{"gen41", 1280, 720}, {"imx636", 1280, 720}, {"imx646", 1280, 720}, {"gen42", 1280, 720},
                 {"gen31", 640, 480},  {"gen3", 640, 480},    {"gen4", 1280, 720},   {"genx320", 320, 320}};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strstr(value, known[i].part))
            return known[i].width << 16 | known[i].height;
    return 0;
}

static void headerLine(Header *header, const char *line) {
    const char *value;
    char *rest;
    if (field(line, "evt ", &value)) {
        header->evt_major = (int)strtol(value, &rest, 10);
        header->evt_minor = *rest == '.' ? (int)strtol(rest + 1, NULL, 10) : 0;
    } else if (field(line, "format ", &value)) {
        if (strncmp(value, "EVT", 3) == 0) {
            header->evt_major = (int)strtol(value + 3, &rest, 10);
            header->evt_minor = *rest == '.' ? (int)strtol(rest + 1, NULL, 10) : 0;
        } else if (strncmp(value, "DAT", 3) == 0) {
            header->dat = 1;
        }
        const char *width = strstr(value, ";width="), *height = strstr(value, ";height=");
        if (width && height)
            setSize(header, strtol(width + 7, NULL, 10), strtol(height + 8, NULL, 10));
    } else if (field(line, "geometry ", &value)) {
        const long width = strtol(value, &rest, 10);
        if (*rest == 'x')
            setSize(header, width, strtol(rest + 1, NULL, 10));
    } else if (field(line, "Width ", &value)) {
        const long width = strtol(value, NULL, 10);
        header->width = sensible(width) ? (int)width : 0;
    } else if (field(line, "Height ", &value)) {
        const long height = strtol(value, NULL, 10);
        header->height = sensible(height) ? (int)height : 0;
    } else if (field(line, "Version ", &value)) {
        header->dat_version = (int)strtol(value, NULL, 10);
    } else if (field(line, "Data file containing ", &value)) {
        header->dat = 1;
    } else if (field(line, "plugin_name ", &value)) {
        header->named_size = sizeByName(value);
        const size_t n = strcspn(value, " \t\r");
        memcpy(header->camera, value, n < sizeof header->camera ? n : sizeof header->camera - 1);
    }
}

/* The "% " lines at the start. Each must end within HEADER_BYTES. */
static cusStatus parseHeader(const char *function, const uint8_t *bytes, size_t n, Header *header) {
    while (header->bytes + 2 <= n && bytes[header->bytes] == '%' && bytes[header->bytes + 1] == ' ') {
        const uint8_t *text = bytes + header->bytes + 2;
        const uint8_t *newline = memchr(text, '\n', n - header->bytes - 2);
        CUSI_REQUIRE(newline || n >= HEADER_BYTES, CUS_ERROR_TRUNCATED, "%s: the file ends within its header, at byte %zu",
                     function, n);
        CUSI_REQUIRE(newline, CUS_ERROR_FORMAT, "%s: the header is longer than %d bytes", function, HEADER_BYTES);
        char line[256];
        size_t length = (size_t)(newline - text);
        length = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, text, length);
        line[length] = 0;
        line[strcspn(line, "\r")] = 0;
        header->bytes = (size_t)(newline + 1 - bytes);
        if (strcmp(line, "end") == 0)
            break;
        headerLine(header, line);
    }
    return CUS_OK;
}

/* Whether the file starts as text events do; then also a first line of "width height", and whether t is seconds. */
static int looksLikeText(const uint8_t *bytes, size_t n, Header *header, uint64_t *lines, int *seconds) {
    const uint8_t *p = bytes, *const end = bytes + n;
    if (n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) /* byte order mark */
        p += 3;
    for (int sized = 0; p < end;) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *line_end = newline ? newline : end;
        const uint8_t *q = skipSpace(p, line_end);
        Number first, second;
        if (q < line_end && *q != '#') {
            q = parseNumber(q, line_end, &first);
            if (!q)
                return 0;
            const uint8_t *next = parseNumber(skipSpace(q, line_end), line_end, &second);
            if (!next || !second.whole)
                return 0;
            if (skipSpace(next, line_end) == line_end && newline && first.whole && !sized) {
                sized = 1;
                setSize(header, (long)scaled(&first, 0), (long)scaled(&second, 0));
            } else {
                *seconds = !first.whole;
                header->bytes = (size_t)(p - bytes);
                return 1;
            }
        }
        if (!newline)
            break;
        ++*lines;
        p = newline + 1;
    }
    return 0;
}

cusStatus eventio_openStream(cusEventReader *reader) {
    static const char function[] = "cusEventReaderOpen";
    const cusEventFormat asked = reader->options.format;
    Stream *stream = calloc(1, sizeof *stream);
    CUSI_REQUIRE(stream, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    reader->state = stream;
    reader->format = &stream_format;
    stream->buffer = malloc(BUFFER_BYTES);
    CUSI_REQUIRE(stream->buffer, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    const int64_t got = eventio_readAt(&reader->source, 0, stream->buffer, HEADER_BYTES);
    CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "%s: the file cannot be read", function);
    const size_t n = (size_t)got;

    Header header = {0};
    cusEventInfo *info = &reader->info;
    uint64_t lines = 0;
    CUS_TRY(parseHeader(function, stream->buffer, n, &header));
    const int raw_forced = !header.evt_major && (asked == CUS_EVENTS_EVT2 || asked == CUS_EVENTS_EVT3);
    if (header.evt_major || raw_forced) {
        if (raw_forced)
            header.evt_major = asked == CUS_EVENTS_EVT2 ? 2 : 3;
        CUSI_REQUIRE((header.evt_major == 2 || header.evt_major == 3) && header.evt_minor == 0, CUS_ERROR_UNSUPPORTED,
                     "%s: encoding EVT %d.%d, takes EVT 2.0 and 3.0", function, header.evt_major, header.evt_minor);
        info->format = header.evt_major == 2 ? CUS_EVENTS_EVT2 : CUS_EVENTS_EVT3;
        stream->decode = header.evt_major == 2 ? decodeEvt2 : decodeEvt3;
        if (!header.width || !header.height)
            setSize(&header, header.named_size >> 16, header.named_size & 65535);
    } else if (header.bytes && n < header.bytes + 2) {
        return cusi_fail(CUS_ERROR_TRUNCATED, "%s: the file ends after its header, at byte %zu", function, n);
    } else if (header.bytes && stream->buffer[header.bytes + 1] == 8 &&
               (stream->buffer[header.bytes] == 0 || stream->buffer[header.bytes] == 12)) {
        CUSI_REQUIRE(header.dat_version != 1, CUS_ERROR_UNSUPPORTED, "%s: DAT version 1, takes version 2", function);
        info->format = CUS_EVENTS_DAT;
        stream->decode = decodeDat;
        header.bytes += 2;
        info->count = (int64_t)((reader->source.size - header.bytes) / 8);
    } else if (header.bytes) {
        return cusi_fail(CUS_ERROR_FORMAT,
                         header.dat ? "%s: DAT with records of type %d and %d bytes, takes type 0 or 12 and 8 bytes"
                                    : "%s: a header of \"%% \" lines that names no EVT encoding, and no DAT records (first "
                                      "bytes %d, %d); option `format` says it for a RAW file",
                         function, stream->buffer[header.bytes], stream->buffer[header.bytes + 1]);
    } else if (looksLikeText(stream->buffer, n, &header, &lines, &stream->seconds)) {
        info->format = CUS_EVENTS_TEXT;
        stream->decode = decodeText;
    } else {
        return cusi_fail(CUS_ERROR_FORMAT,
                         "%s: not an event recording: neither HDF5, nor \"%% \" lines, nor text \"t x y p\"", function);
    }
    CUSI_REQUIRE(asked == CUS_EVENTS_ANY || asked == info->format, CUS_ERROR_FORMAT, "%s: the file is %s, asked for %s",
                 function, cusEventFormatName(info->format), cusEventFormatName(asked));
    if (header.width && header.height) {
        info->width = header.width;
        info->height = header.height;
    }
    memcpy(info->camera, header.camera, sizeof info->camera);
    stream->now = (Decoder){.offset = header.bytes, .high = -1, .time = -1, .line = lines};
    stream->filled = n;
    CUS_TRY(addMark(stream));

    /* The first event's time; what is wrong with it, reading will say. */
    size_t events = 0;
    const cusStatus status = streamRead(reader, 1, reader->scratch, &events);
    if (status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_IO)
        return status;
    info->first_time = events ? reader->scratch.t[0] : -1;
    restore(stream, &stream->marks[0]);
    reader->counts = (cusEventCounts){0};
    return CUS_OK;
}
