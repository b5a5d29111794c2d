/* Text: one event per line, "t x y p", separated by spaces, tabs or commas; "#" starts a comment line. */
#include "check.h"
#include "eventio_words.h"

#include <string.h>

enum { MAX_LINE_BYTES = 512 }; /* a longer line is malformed, unless it is a comment */

/* ---- Numbers ------------------------------------------------------------------------------------------------------- */

static int isSpace(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == ',';
}

static const uint8_t *skipSpace(const uint8_t *p, const uint8_t *end) {
    while (p < end && isSpace(*p))
        ++p;
    return p;
}

typedef struct Number {
    uint64_t digits; /* up to 18 significant digits; further ones are cut off */
    int exponent;    /* value = digits * 10^exponent */
    int negative;
    int integer; /* written without a dot and an exponent */
} Number;

/* "e-3", if there is one. Returns the end; NULL: an exponent without digits. */
static const uint8_t *parseExponent(const uint8_t *p, const uint8_t *end, Number *number) {
    if (p == end || (*p != 'e' && *p != 'E'))
        return p;
    ++p;
    const int minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        ++p;
    int exponent = 0, digits = 0;
    for (; p < end && *p >= '0' && *p <= '9'; ++p, ++digits)
        exponent = exponent < 1000 ? exponent * 10 + (*p - '0') : exponent;
    if (!digits)
        return NULL;
    number->exponent += minus ? -exponent : exponent;
    number->integer = 0;
    return p;
}

/* Digits with an optional sign, dot and exponent, up to a separator. Returns the end; NULL: not a number. */
static const uint8_t *parseNumber(const uint8_t *p, const uint8_t *end, Number *number) {
    *number = (Number){.integer = 1};
    if (p < end && (*p == '-' || *p == '+'))
        number->negative = *p++ == '-';
    int any = 0, after_dot = 0;
    for (; p < end; ++p) {
        if (*p == '.' && !after_dot) {
            after_dot = 1;
            number->integer = 0;
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
    p = any ? parseExponent(p, end, number) : NULL;
    return p && p < end && !isSpace(*p) ? NULL : p;
}

/* number * 10^scale, rounded half up; -1 if negative or greater than 2^62. */
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

/* ---- Lines --------------------------------------------------------------------------------------------------------- */

typedef enum LineKind { LINE_MALFORMED, LINE_EMPTY, LINE_EVENT } LineKind;

typedef struct TextEvent {
    int64_t t, x, y, p;
} TextEvent;

static LineKind parseLine(const uint8_t *p, const uint8_t *end, int in_seconds, TextEvent *event) {
    if (end - p > MAX_LINE_BYTES && *p != '#')
        return LINE_MALFORMED;
    p = skipSpace(p, end);
    if (p == end || *p == '#')
        return LINE_EMPTY;
    Number number[4];
    for (int i = 0; i < 4; ++i) {
        p = parseNumber(p, end, &number[i]);
        if (!p || (i > 0 && !number[i].integer))
            return LINE_MALFORMED;
        p = skipSpace(p, end);
    }
    event->t = scaled(&number[0], in_seconds ? 6 : 0);
    event->x = scaled(&number[1], 0);
    event->y = scaled(&number[2], 0);
    event->p = number[3].negative && number[3].digits == 1 ? 0 : scaled(&number[3], 0);
    return p == end && event->t >= 0 && event->x >= 0 && event->x <= UINT16_MAX && event->y >= 0 &&
                   event->y <= UINT16_MAX && event->p >= 0
               ? LINE_EVENT
               : LINE_MALFORMED;
}

/* An error, or with CUS_BAD_EVENTS_SKIP a count. The last line of a file may be cut; a line without an end cannot be skipped. */
static cusStatus malformedLine(cusEventReader *reader, uint64_t line, uint64_t offset, int has_newline, int at_end) {
    if (!has_newline && at_end)
        return cusi_fail(CUS_ERROR_TRUNCATED, "cusEventReaderRead: the file ends within line %llu, byte %llu",
                         (unsigned long long)line, (unsigned long long)offset);
    if (reader->options.bad_events == CUS_BAD_EVENTS_STOP || !has_newline)
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: line %llu, byte %llu, is not \"t x y p\"",
                         (unsigned long long)line, (unsigned long long)offset);
    ++reader->counts.bad_words;
    return CUS_OK;
}

static cusStatus decodeLines(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used, int in_seconds) {
    const uint8_t *p = bytes, *const end = bytes + n;
    cusStatus status = CUS_OK;
    while (p < end && sink->count < sink->capacity) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline && !at_end && end - p <= MAX_LINE_BYTES)
            break;
        const uint64_t line = state->line + 1, offset = state->offset + (uint64_t)(p - bytes);
        TextEvent e;
        const LineKind kind = parseLine(p, newline ? newline : end, in_seconds, &e);
        if (kind == LINE_MALFORMED)
            status = malformedLine(reader, line, offset, newline != NULL, at_end);
        else if (kind == LINE_EVENT)
            eventio_emit(sink, (uint32_t)e.x, (uint32_t)e.y, e.p > 1 ? 2 : (uint32_t)e.p, e.t);
        else if (!newline && !at_end)
            status = cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: line %llu, byte %llu, is longer than %d bytes",
                               (unsigned long long)line, (unsigned long long)offset, MAX_LINE_BYTES);
        if (status != CUS_OK)
            break;
        state->line += newline != NULL;
        p = newline ? newline + 1 : end;
    }
    *used = (size_t)(p - bytes);
    return status;
}

cusStatus eventio_decodeText(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                             EventSink *sink, size_t *used) {
    return decodeLines(reader, state, bytes, n, at_end, sink, used, 0);
}

cusStatus eventio_decodeTextSeconds(cusEventReader *reader, DecoderState *state, const uint8_t *bytes, size_t n, int at_end,
                                    EventSink *sink, size_t *used) {
    return decodeLines(reader, state, bytes, n, at_end, sink, used, 1);
}

int eventio_looksLikeText(const uint8_t *bytes, size_t n, DecoderState *start, int *in_seconds, int64_t *width,
                          int64_t *height) {
    const uint8_t *p = bytes, *const end = bytes + n;
    if (n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) /* byte order mark */
        p += 3;
    for (int has_size = 0; p < end;) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *line_end = newline ? newline : end;
        const uint8_t *q = skipSpace(p, line_end);
        Number first, second;
        if (q < line_end && *q != '#') {
            q = parseNumber(q, line_end, &first);
            if (!q)
                return 0;
            const uint8_t *next = parseNumber(skipSpace(q, line_end), line_end, &second);
            if (!next || !second.integer)
                return 0;
            const int two_numbers = skipSpace(next, line_end) == line_end;
            if (!two_numbers || !newline || !first.integer || has_size) { /* the first event */
                *in_seconds = !first.integer;
                start->offset = (uint64_t)(p - bytes);
                return 1;
            }
            has_size = 1;
            *width = scaled(&first, 0);
            *height = scaled(&second, 0);
        }
        if (!newline)
            break;
        ++start->line;
        p = newline + 1;
    }
    return 0;
}
