/* Reads text: one event per line, four numbers separated by spaces, tabs, commas or semicolons; "#" and "%" start a
 * comment line. A line of names, or else the numbers of the first lines, give the order of the columns ("t x y p",
 * Metavision's "x,y,p,t" and others). */
#include "eventio/text.h"
#include "check.h"

#include <string.h>

enum { MAX_LINE_BYTES = 512 }; /* a longer line is malformed, unless it is a comment */

/* ---- Numbers ------------------------------------------------------------------------------------------------------- */

static int isSpace(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == ',' || c == ';';
}

static const uint8_t *skipSpace(const uint8_t *p, const uint8_t *end) {
    while (p < end && isSpace(*p))
        ++p;
    return p;
}

typedef struct Number {
    uint64_t digits; /* up to 18 significant digits; further ones are cut off */
    int exponent;    /* the value is digits * 10^exponent */
    int negative;
    int integer; /* written without a dot and an exponent */
} Number;

/* Parses an exponent such as "e-3" if there is one. Returns its end, or NULL if it has no digits. */
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

/* Parses digits with an optional sign, dot and exponent, up to a separator. Returns the end, or NULL if this is not a
 * number. */
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

/* Returns number * 10^scale, rounded half up; -1 if negative or greater than 2^62. */
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

static int isComment(const uint8_t *p, const uint8_t *end) {
    return p < end && (*p == '#' || *p == '%');
}

/* Returns whether the line has four numbers and nothing else. */
static int parseNumbers(const uint8_t *p, const uint8_t *end, Number *number) {
    for (int i = 0; i < 4; ++i) {
        p = parseNumber(skipSpace(p, end), end, &number[i]);
        if (!p)
            return 0;
    }
    return skipSpace(p, end) == end;
}

static LineKind parseLine(const uint8_t *p, const uint8_t *end, const TextColumns *columns, TextEvent *event) {
    if (end - p > MAX_LINE_BYTES && !isComment(p, end))
        return LINE_MALFORMED;
    p = skipSpace(p, end);
    if (p == end || isComment(p, end))
        return LINE_EMPTY;
    Number number[4];
    if (!parseNumbers(p, end, number))
        return LINE_MALFORMED;
    const Number *t = &number[columns->t], *x = &number[columns->x], *y = &number[columns->y],
                 *polarity = &number[columns->p];
    if (!x->integer || !y->integer || !polarity->integer)
        return LINE_MALFORMED;
    event->t = scaled(t, columns->in_seconds ? 6 : 0);
    event->x = scaled(x, 0);
    event->y = scaled(y, 0);
    event->p = polarity->negative && polarity->digits == 1 ? 0 : scaled(polarity, 0);
    return event->t >= 0 && event->x >= 0 && event->x <= UINT16_MAX && event->y >= 0 && event->y <= UINT16_MAX &&
                   event->p >= 0
               ? LINE_EVENT
               : LINE_MALFORMED;
}

/* Writes the order of the columns, for example "x y p t". */
static void nameColumns(const TextColumns *columns, char name[8]) {
    memcpy(name, "       ", 8);
    name[2 * columns->t] = 't';
    name[2 * columns->x] = 'x';
    name[2 * columns->y] = 'y';
    name[2 * columns->p] = 'p';
    name[7] = 0;
}

/* Reports the line, or counts it with CUS_BAD_EVENTS_SKIP. The last line of a file may be cut; a line without an end cannot
 * be skipped. */
static cusStatus malformedLine(cusEventReader *reader, uint64_t line, uint64_t offset, int has_newline, int at_end) {
    if (!has_newline && at_end)
        return cusi_fail(CUS_ERROR_TRUNCATED, "cusEventReaderRead: the file ends within line %llu, byte %llu",
                         (unsigned long long)line, (unsigned long long)offset);
    if (reader->options.bad_events == CUS_BAD_EVENTS_STOP || !has_newline) {
        char columns[8];
        nameColumns(&reader->text, columns);
        return cusi_fail(CUS_ERROR_FORMAT, "cusEventReaderRead: line %llu, byte %llu, is not \"%s\"",
                         (unsigned long long)line, (unsigned long long)offset, columns);
    }
    ++reader->counts.bad_words;
    return CUS_OK;
}

static void emit(EventSink *sink, const TextEvent *e) {
    const size_t i = sink->count++;
    sink->out.x[i] = (uint16_t)e->x;
    sink->out.y[i] = (uint16_t)e->y;
    sink->out.p[i] = (uint8_t)(e->p > 1 ? 2 : e->p);
    sink->out.t[i] = e->t;
}

cusStatus eventio_decodeText(cusEventReader *reader, cusEventDecoderState *state, const uint8_t *bytes, size_t n,
                             int at_end, EventSink *sink, size_t *used) {
    const uint8_t *p = bytes, *const end = bytes + n;
    cusStatus status = CUS_OK;
    while (p < end && sink->count < sink->capacity) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline && !at_end && end - p <= MAX_LINE_BYTES)
            break;
        const uint64_t line = state->line + 1, offset = state->offset + (uint64_t)(p - bytes);
        TextEvent e;
        const LineKind kind = parseLine(p, newline ? newline : end, &reader->text, &e);
        if (kind == LINE_MALFORMED)
            status = malformedLine(reader, line, offset, newline != NULL, at_end);
        else if (kind == LINE_EVENT)
            emit(sink, &e);
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

/* ---- Which column is what ------------------------------------------------------------------------------------------- */

enum { ORDERS = 6, METAVISION = 1, SAMPLE_LINES = 2000 };

/* The most common order comes first: the first order that the numbers allow is chosen, but Metavision's precedes if the
 * file looks like it. */
static const TextColumns orders[ORDERS] = {
    {.t = 0, .x = 1, .y = 2, .p = 3}, {.t = 3, .x = 0, .y = 1, .p = 2}, {.t = 2, .x = 0, .y = 1, .p = 3},
    {.t = 0, .x = 2, .y = 3, .p = 1}, {.t = 3, .x = 1, .y = 2, .p = 0}, {.t = 1, .x = 2, .y = 3, .p = 0},
};

static int isCoordinate(const Number *n) {
    return n->integer && scaled(n, 0) >= 0 && scaled(n, 0) <= UINT16_MAX;
}

static int isPolarity(const Number *n) {
    return n->integer && n->digits <= 1 && n->exponent == 0;
}

/* Finds the order that the fewest lines contradict: times do not decrease, coordinates have 16 bits, polarities are -1,
 * 0 or 1. Of several, `usual` comes first. */
static TextColumns findColumns(const uint8_t *p, const uint8_t *end, int usual) {
    size_t contradictions[ORDERS] = {0};
    int64_t last[4] = {-1, -1, -1, -1}; /* last number of each column, as a time */
    int in_seconds[4] = {0}, lines = 0;
    while (p < end && lines < SAMPLE_LINES) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *line_end = newline ? newline : end;
        Number number[4];
        if (!isComment(p, line_end) && parseNumbers(p, line_end, number)) {
            int64_t value[4];
            for (int i = 0; i < 4; ++i) {
                in_seconds[i] |= !lines && !number[i].integer;
                value[i] = scaled(&number[i], in_seconds[i] ? 6 : 0);
            }
            for (int k = 0; k < ORDERS; ++k) {
                const TextColumns *o = &orders[k];
                contradictions[k] += value[o->t] < 0 || value[o->t] < last[o->t] || !isCoordinate(&number[o->x]) ||
                                     !isCoordinate(&number[o->y]) || !isPolarity(&number[o->p]);
            }
            memcpy(last, value, sizeof last);
            ++lines;
        }
        p = newline ? newline + 1 : end;
    }
    int best = usual;
    for (int k = 0; k < ORDERS; ++k)
        best = contradictions[k] < contradictions[best] ? k : best;
    TextColumns found = orders[best];
    found.in_seconds = (unsigned char)in_seconds[found.t];
    return found;
}

/* Parses a line of names such as "x,y,p,t" or "timestamp x y polarity", or with the sensor's size "t,x@1280,y@720,on". */
static int parseNames(const uint8_t *p, const uint8_t *end, TextColumns *columns, int64_t *width, int64_t *height) {
    static const struct {
        const char *name;
        int column;
    } known[] = {{"t", 0}, {"ts", 0}, {"time", 0}, {"timestamp", 0}, {"x", 1},
                 {"y", 2}, {"p", 3},  {"pol", 3},  {"polarity", 3},  {"on", 3}};
    unsigned char place[4] = {9, 9, 9, 9};
    int64_t size[4] = {0};
    for (unsigned char i = 0; i < 4; ++i) {
        p = skipSpace(p, end);
        const uint8_t *word = p;
        while (p < end && !isSpace(*p) && *p != '@')
            ++p;
        const size_t length = (size_t)(p - word);
        int column = -1;
        for (size_t k = 0; k < sizeof known / sizeof *known; ++k)
            if (strlen(known[k].name) == length && memcmp(known[k].name, word, length) == 0)
                column = known[k].column;
        if (column < 0)
            return 0;
        place[column] = i;
        if (p < end && *p == '@') {
            Number number;
            p = column == 1 || column == 2 ? parseNumber(p + 1, end, &number) : NULL;
            if (!p || !number.integer)
                return 0;
            size[column] = scaled(&number, 0);
        }
    }
    for (int k = 0; k < 4; ++k)
        if (place[k] == 9)
            return 0;
    if (skipSpace(p, end) != end)
        return 0;
    *columns = (TextColumns){.t = place[0], .x = place[1], .y = place[2], .p = place[3]};
    if (size[1] && size[2]) {
        *width = size[1];
        *height = size[2];
    }
    return 1;
}

/* Parses "%geometry:640,480", as Metavision's decoders write it. */
static void parseGeometry(const uint8_t *p, const uint8_t *end, int64_t *width, int64_t *height) {
    static const char name[] = "%geometry:";
    const size_t length = sizeof name - 1;
    Number w, h;
    if ((size_t)(end - p) <= length || memcmp(p, name, length) != 0)
        return;
    p = parseNumber(p + length, end, &w);
    if (p && parseNumber(skipSpace(p, end), end, &h)) {
        *width = scaled(&w, 0);
        *height = scaled(&h, 0);
    }
}

/* Finds the columns from the lines at p, unless a line of names gave them: then the first event, p .. line_end, gives
 * only the unit of time. */
static void setColumns(const uint8_t *p, const uint8_t *line_end, const uint8_t *end, int named, int usual,
                       TextColumns *columns) {
    Number number[4];
    if (!named)
        *columns = findColumns(p, end, usual);
    else if (parseNumbers(p, line_end, number))
        columns->in_seconds = !number[columns->t].integer;
}

int eventio_looksLikeText(const uint8_t *bytes, size_t n, cusEventDecoderState *start, TextColumns *columns, int64_t *width,
                          int64_t *height) {
    const uint8_t *p = bytes, *const end = bytes + n;
    if (n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) /* byte order mark */
        p += 3;
    int has_size = 0, named = 0;
    while (p < end) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p));
        const uint8_t *line_end = newline ? newline : end;
        const uint8_t *q = skipSpace(p, line_end);
        Number first, second;
        if (isComment(q, line_end)) {
            parseGeometry(q, line_end, width, height);
        } else if (!named && newline && parseNames(q, line_end, columns, width, height)) {
            named = 1;
        } else if (q < line_end) {
            q = parseNumber(q, line_end, &first);
            if (!q)
                return 0;
            const uint8_t *next = parseNumber(skipSpace(q, line_end), line_end, &second);
            if (!next)
                return 0;
            const int two_numbers = skipSpace(next, line_end) == line_end;
            if (!two_numbers || !newline || !first.integer || !second.integer || has_size) { /* the first event */
                setColumns(p, line_end, end, named, *width && !has_size ? METAVISION : 0, columns);
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
    /* There are no events, but the size may be known. */
    if (!named)
        *columns = orders[has_size ? 0 : METAVISION];
    start->offset = n;
    return *width > 0 && *height > 0;
}
