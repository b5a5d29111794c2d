/* One recording with many readers: parts are scanned independently and joined into marks, from which readers continue.
 *
 * In a format without an index, an event's number and time depend on everything before it. A part's effect on the decoder's
 * state does not (event_words.h). A scan keeps just this, without decoding events. */
#include "check.h"
#include "event_words.h"
#include "eventio/evt/words.h"
#include "eventio/validate.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* A part's effect on the state of the decoder. */
typedef struct Part {
    uint64_t first, last;          /* bytes of the file */
    uint64_t events, early, wraps; /* totals of what `times` counts in a buffer */
    uint64_t lines;                /* text */
    CusiTimeRun times;
    CusiRowRun rows;      /* EVT3 */
    uint32_t vector_size; /* EVT3: size of the last vector; 0: none */
    uint32_t is_open;     /* EVT4: the last word scanned was a vector's */
} Part;

enum { SCAN_BYTES = EVENTIO_SCRATCH * sizeof(int64_t) };

_Static_assert(sizeof(Part) <= sizeof(cusEventPart), "cusEventPart has no room");
_Static_assert(sizeof(cusEventDecoderState) <= sizeof(cusEventMark), "cusEventMark has no room");

/* Returns whether numbers of events are places in the recording. A part then only says how many events there are in
 * all. */
static int hasIndex(const cusEventReader *reader) {
    return reader->methods->countEvents != NULL;
}

/* ---- Scanning ------------------------------------------------------------------------------------------------------ */

/* Scans work on a copy of the run, which stays in registers: the compiler must take bytes for an alias of anything else. */
static void scanEvt2(CusiTimeRun *times, const uint8_t *bytes, size_t n) {
    CusiTimeRun run = *times;
    for (size_t at = 0; at + 4 <= n; at += 4) {
        const uint32_t word = cusi_load32(bytes + at), type = cusi_evtType(word);
        run.events += type <= CUSI_EVT2_ON;
        if (type == CUSI_EVT2_TIME_HIGH)
            cusi_addTime(&run, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
    }
    *times = run;
}

/* upper: the offset of the half with the type in a word. */
static void scanEvt21(CusiTimeRun *times, const uint8_t *bytes, size_t n, size_t upper) {
    CusiTimeRun run = *times;
    for (size_t at = 0; at + 8 <= n; at += 8) {
        const uint32_t word = cusi_load32(bytes + at + upper), type = cusi_evtType(word);
        if (type <= CUSI_EVT2_ON)
            run.events += (uint32_t)__builtin_popcount(cusi_load32(bytes + at + (4 - upper)));
        else if (type == CUSI_EVT2_TIME_HIGH)
            cusi_addTime(&run, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
    }
    *times = run;
}

/* *open: whether the last word was a vector's. */
static void scanEvt4(CusiTimeRun *times, const uint8_t *bytes, size_t n, uint32_t *open) {
    CusiTimeRun run = *times;
    uint32_t is_mask = *open;
    for (size_t at = 0; at + 4 <= n; at += 4) {
        const uint32_t word = cusi_load32(bytes + at), type = cusi_evtType(word);
        if (is_mask)
            run.events += (uint32_t)__builtin_popcount(word);
        else if (type == CUSI_EVT4_TIME_HIGH)
            cusi_addTime(&run, cusi_evtTimeHigh(word), CUSI_EVT_TIME_BITS);
        else
            run.events += type == CUSI_EVT4_OFF || type == CUSI_EVT4_ON;
        is_mask = !is_mask && cusi_isEvt4Vector(word);
    }
    *times = run;
    *open = is_mask;
}

/* Every record has a time word, and none has lower bits. */
static void scanDat(CusiTimeRun *times, const uint8_t *bytes, size_t n) {
    if (n < 8)
        return;
    uint32_t wraps = 0;
    for (size_t at = 8; at + 8 <= n; at += 8)
        wraps += (uint32_t)cusi_isTimeWrap(cusi_load32(bytes + at - 8), cusi_load32(bytes + at), CUSI_DAT_TIME_BITS);
    cusi_addTime(times, cusi_load32(bytes), CUSI_DAT_TIME_BITS);
    times->last = cusi_load32(bytes + (n / 8 - 1) * 8);
    times->wraps += wraps;
    times->events = (uint32_t)(n / 8);
}

/* Scans words one by one. Those that follow each other unpredictably (rows, events, lower time bits) are handled without
 * branches. */
static void scanEvt3Words(Part *part, const uint8_t *bytes, size_t n) {
    enum {
        RARE = 1 << CUSI_EVT3_VECTOR_BASE | 1 << CUSI_EVT3_VECTOR_12 | 1 << CUSI_EVT3_VECTOR_8 | 1 << CUSI_EVT3_TIME_HIGH
    };
    CusiTimeRun *const times = &part->times;
    uint32_t events = 0, y = part->rows.y, low = times->timed ? times->low : times->early_low;
    for (size_t at = 0; at + 2 <= n; at += 2) {
        const uint32_t word = cusi_load16(bytes + at), type = cusi_evt3Type(word);
        events += type == CUSI_EVT3_X;
        y = type == CUSI_EVT3_Y ? cusi_evt3Place(word) : y;
        low = type == CUSI_EVT3_TIME_LOW ? cusi_evt3Time(word) : low;
        if (!(RARE >> type & 1))
            continue;
        if (type == CUSI_EVT3_TIME_HIGH) {
            times->events += events;
            events = 0;
            *(times->timed ? &times->low : &times->early_low) = low;
            cusi_addTime(times, cusi_evt3Time(word), CUSI_EVT3_TIME_BITS);
            low = times->low;
        } else if (type == CUSI_EVT3_VECTOR_BASE) {
            part->rows.x = cusi_evt3Base(word);
        } else {
            part->vector_size = cusi_evt3Columns(type);
            times->events += (uint32_t)__builtin_popcount(cusi_evt3Vector(word, part->vector_size));
            cusi_passColumns(&part->rows, part->vector_size);
        }
    }
    times->events += events;
    part->rows.y = y;
    *(times->timed ? &times->low : &times->early_low) = low;
}

enum { EVT3_BLOCK = 64, EVT3_HAS_TIME = 1, EVT3_HAS_VECTOR = 2 };

typedef uint16_t Words __attribute__((vector_size(16)));

/* Counts the events of a block. *has: which kinds of words it has. */
static uint32_t countEvt3(const uint8_t *bytes, uint32_t *has) {
    Words count = {0}, times = {0}, vectors = {0}, word;
    for (size_t at = 0; at < sizeof(uint16_t) * EVT3_BLOCK; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        const Words type = word >> 12, is_12 = (Words)(type == CUSI_EVT3_VECTOR_12),
                    is_8 = (Words)(type == CUSI_EVT3_VECTOR_8);
        Words bits = (word & ((is_12 & 0xfff) | (is_8 & 0xff))) - (Words)(type == CUSI_EVT3_X);
        bits -= bits >> 1 & 0x5555;
        bits = (bits & 0x3333) + (bits >> 2 & 0x3333);
        count += (bits + (bits >> 4)) & 0x0f0f; /* each byte counts for itself */
        times |= (Words)(type == CUSI_EVT3_TIME_HIGH);
        vectors |= is_12 | is_8 | (Words)(type == CUSI_EVT3_VECTOR_BASE);
    }
    uint32_t events = 0;
    *has = 0;
    for (size_t k = 0; k < sizeof word / sizeof word[0]; ++k) {
        events += (count[k] & 255u) + (count[k] >> 8);
        *has |= (times[k] ? EVT3_HAS_TIME : 0) | (vectors[k] ? EVT3_HAS_VECTOR : 0);
    }
    return events;
}

/* Completes the state after whole blocks. The last word of each kind counts, so they are searched from the end.
 * low_from: where the lower time bits were last set to 0; has: which kinds of words there are. */
static void endEvt3(Part *part, const uint8_t *bytes, size_t n, size_t low_from, uint32_t has) {
    CusiRowRun rows = {.y = CUSI_UNSET};
    uint32_t size = part->vector_size;
    int needs_low = 1, needs_x = (has & EVT3_HAS_VECTOR) != 0, needs_size = needs_x;
    for (size_t at = n; at > 0 && (needs_low || needs_x || needs_size || rows.y == CUSI_UNSET);) {
        at -= 2;
        const uint32_t word = cusi_load16(bytes + at), type = cusi_evt3Type(word), columns = cusi_evt3Columns(type);
        needs_low &= at >= low_from;
        if (type == CUSI_EVT3_TIME_LOW && needs_low) {
            part->times.low = cusi_evt3Time(word);
            needs_low = 0;
        } else if (type == CUSI_EVT3_Y && rows.y == CUSI_UNSET) {
            rows.y = cusi_evt3Place(word);
        } else if (type == CUSI_EVT3_VECTOR_BASE && needs_x) {
            const CusiRowRun passed = rows;
            rows.x = cusi_evt3Base(word);
            cusi_appendRows(&rows, &passed);
            needs_x = 0;
        } else if (columns) {
            rows.x += needs_x ? columns : 0;
            size = needs_size ? columns : size;
            needs_size = 0;
        }
    }
    part->vector_size = size;
    cusi_appendRows(&part->rows, &rows);
}

/* From the first upper time bits on, only these are taken in their order. */
static void scanEvt3(Part *part, const uint8_t *bytes, size_t n) {
    enum { BLOCK = 2 * EVT3_BLOCK };
    CusiTimeRun *const times = &part->times;
    size_t begin = 0, low_from = 0, at = 0;
    uint32_t has, has_any = 0;
    for (; !times->timed && begin < n; begin += BLOCK)
        scanEvt3Words(part, bytes + begin, n - begin < BLOCK ? n - begin : BLOCK);
    if (begin >= n)
        return;
    bytes += begin;
    n -= begin;
    for (; at + BLOCK <= n; at += BLOCK) {
        times->events += countEvt3(bytes + at, &has);
        has_any |= has;
        for (size_t k = at; has & EVT3_HAS_TIME && k < at + BLOCK; k += 2) {
            const uint32_t word = cusi_load16(bytes + k), last = times->last;
            if (cusi_evt3Type(word) == CUSI_EVT3_TIME_HIGH) {
                cusi_addTime(times, cusi_evt3Time(word), CUSI_EVT3_TIME_BITS);
                low_from = times->last == last ? low_from : k;
            }
        }
    }
    endEvt3(part, bytes, at, low_from, has_any);
    scanEvt3Words(part, bytes + at, n - at);
}

/* Counts whole lines as the decoder does; malformed ones end the reading later. */
static void scanText(Part *part, const uint8_t *bytes, size_t n) {
    for (const uint8_t *p = bytes, *const end = bytes + n; p < end;) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *line_end = newline ? newline : end;
        while (p < line_end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == ','))
            ++p;
        part->events += p < line_end && *p != '#';
        part->lines += newline != NULL;
        p = line_end + 1;
    }
}

/* Returns the bytes of the smallest unit that must not be split; 1 for text. */
static size_t unitOf(cusEventFormat format) {
    switch (format) {
    case CUS_EVENTS_EVT2:
    case CUS_EVENTS_EVT4:
        return 4;
    case CUS_EVENTS_EVT3:
        return 2;
    case CUS_EVENTS_EVT21:
    case CUS_EVENTS_DAT:
        return 8;
    default:
        return 1;
    }
}

/* Finds the start of the first line at or after `at`, or the end of the file. */
static cusStatus nextLine(const cusEventReader *reader, uint64_t start, uint64_t at, uint64_t *line) {
    uint8_t buffer[4096];
    *line = at;
    if (at <= start)
        return CUS_OK;
    for (--at; at < reader->source.size;) {
        const int64_t got = eventio_readAt(&reader->source, at, buffer, sizeof buffer);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderScan: the file cannot be read at byte %llu",
                     (unsigned long long)at);
        if (got == 0)
            break;
        const uint8_t *newline = memchr(buffer, '\n', (size_t)got);
        if (newline) {
            *line = at + (uint64_t)(newline - buffer) + 1;
            return CUS_OK;
        }
        at += (uint64_t)got;
    }
    *line = reader->source.size;
    return CUS_OK;
}

/* Moves `at` past a mask of EVT4. No mask follows a word other than a vector's, so the words before `at` that look like
 * vectors are vectors and masks in turn. */
static cusStatus passMask(const cusEventReader *reader, uint64_t start, uint64_t *at) {
    uint8_t buffer[4096];
    uint64_t run = 0;
    for (uint64_t end = *at; end > start;) {
        const size_t n = end - start < sizeof buffer ? (size_t)(end - start) : sizeof buffer;
        const int64_t got = eventio_readAt(&reader->source, end - n, buffer, n);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderScan: the file cannot be read at byte %llu",
                     (unsigned long long)(end - n));
        size_t k = (size_t)got < n ? 0 : n; /* the file has become shorter since it was opened */
        while (k && cusi_isEvt4Vector(cusi_load32(buffer + k - 4))) {
            k -= 4;
            ++run;
        }
        if (k)
            break;
        end = (size_t)got < n ? start : end - n;
    }
    *at += run % 2 ? 4 : 0;
    return CUS_OK;
}

/* Finds where part `part` of `parts` of the file from `start` on begins. */
static cusStatus cut(const cusEventReader *reader, uint64_t start, uint64_t part, uint64_t parts, uint64_t *at) {
    const uint64_t size = reader->source.size;
    const size_t unit = unitOf(reader->info.format);
    if (part == parts || size <= start) {
        *at = size;
        return CUS_OK;
    }
    *at = start + eventio_share((size - start) / unit, part, parts) * unit;
    if (reader->info.format == CUS_EVENTS_EVT4)
        return passMask(reader, start, at);
    return unit == 1 ? nextLine(reader, start, *at, at) : CUS_OK;
}

/* Returns how many bytes of `buffer` are whole units or lines: all, at the end of the part. */
static size_t wholeBytes(const uint8_t *buffer, size_t n, size_t unit, int at_end) {
    if (at_end)
        return n;
    if (unit > 1)
        return n / unit * unit;
    const uint8_t *newline = memrchr(buffer, '\n', n);
    return newline ? (size_t)(newline - buffer) + 1 : n;
}

/* Scans a buffer of the part, of which n bytes are whole. */
static void scanBuffer(const cusEventReader *reader, Part *part, const uint8_t *buffer, size_t n) {
    CusiTimeRun *const times = &part->times;
    const int was_timed = times->timed != 0;
    times->events = times->wraps = 0;
    if (reader->info.format == CUS_EVENTS_EVT2)
        scanEvt2(times, buffer, n);
    else if (reader->info.format == CUS_EVENTS_EVT21)
        scanEvt21(times, buffer, n, eventio_wordsUpperHalf(reader));
    else if (reader->info.format == CUS_EVENTS_EVT3)
        scanEvt3(part, buffer, n);
    else if (reader->info.format == CUS_EVENTS_EVT4)
        scanEvt4(times, buffer, n, &part->is_open);
    else if (reader->info.format == CUS_EVENTS_DAT)
        scanDat(times, buffer, n);
    else
        scanText(part, buffer, n);
    if (!was_timed)
        part->early = part->events + (times->timed ? times->early : times->events);
    part->events += times->events;
    part->wraps += times->wraps;
}

/* Scans part `number` of `parts` from `start` on, on any thread. `buffer` has room for SCAN_BYTES. After a cancel the
 * part is incomplete. */
static cusStatus scanBytes(const cusEventReader *reader, uint64_t start, uint64_t number, uint64_t parts, uint8_t *buffer,
                           CusiProgress *progress, Part *part) {
    const size_t unit = unitOf(reader->info.format);
    *part = (Part){.times = {.early_low = CUSI_UNSET, .low = CUSI_UNSET}, .rows = {.y = CUSI_UNSET}};
    CUS_TRY(cut(reader, start, number, parts, &part->first));
    CUS_TRY(cut(reader, start, number + 1, parts, &part->last));
    for (uint64_t at = part->first; at < part->last;) {
        const uint64_t left = part->last - at;
        const int64_t got = eventio_readAt(&reader->source, at, buffer, left < SCAN_BYTES ? (size_t)left : SCAN_BYTES);
        CUSI_REQUIRE(got >= 0, CUS_ERROR_IO, "cusEventReaderScan: the file cannot be read at byte %llu",
                     (unsigned long long)at);
        if (got == 0) /* the file has become shorter since it was opened */
            break;
        const size_t n = wholeBytes(buffer, (size_t)got, unit, at + (uint64_t)got >= part->last);
        scanBuffer(reader, part, buffer, n);
        at += n ? n : (uint64_t)got;
        if (cusi_step(progress, got))
            break;
    }
    return CUS_OK;
}

static cusStatus checkParts(const char *function, uint64_t parts) {
    CUSI_REQUIRE(parts >= 1 && parts <= (uint64_t)1 << 32, CUS_ERROR_VALUE, "%s: parts is %llu, expected 1 to 2^32",
                 function, (unsigned long long)parts);
    return CUS_OK;
}

static cusStatus scan(cusEventReader *reader, uint64_t part, uint64_t parts, cusEventPart *summary) {
    static const char function[] = "cusEventReaderScan";
    CUSI_NOT_NULL(function, summary);
    CUS_TRY(checkParts(function, parts));
    CUSI_REQUIRE(part < parts, CUS_ERROR_VALUE, "%s: part is %llu, expected less than parts, %llu", function,
                 (unsigned long long)part, (unsigned long long)parts);
    Part found = {0};
    if (hasIndex(reader)) {
        CUS_TRY(reader->methods->countEvents(reader, &found.events));
    } else {
        CusiProgress *const progress = cusi_progress();
        cusi_part(progress, 1, (int64_t)(reader->source.size / parts));
        CUS_TRY(scanBytes(reader, eventio_wordsStart(reader)->offset, part, parts, (uint8_t *)reader->scratch.t, progress,
                          &found));
        CUS_TRY(cusi_proceed(progress));
    }
    memset(summary, 0, sizeof *summary);
    memcpy(summary, &found, sizeof found);
    return CUS_OK;
}

cusStatus cusEventReaderScan(cusEventReader *reader, uint64_t part, uint64_t parts, cusEventPart *summary) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventReaderScan", reader, NULL, CUSI_LONG("cusEventReaderScan", scan(reader, part, parts, summary)));
}

struct ScanBuffers {
    int threads;
    uint8_t bytes[];
};

ScanBuffers *eventio_createScanBuffers(void) {
    const int threads = cusi_maxThreads();
    ScanBuffers *const made = malloc(sizeof *made + (size_t)threads * SCAN_BYTES);
    if (made)
        made->threads = threads;
    return made;
}

cusStatus eventio_scanWords(const cusEventReader *reader, const cusEventMark *from, uint64_t first, uint64_t count,
                            uint64_t parts, ScanBuffers *buffers, cusEventPart *summaries) {
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)((double)reader->source.size * (double)count / (double)parts));
    const int useful = cusi_threadsFor((size_t)count, 1), threads = useful < buffers->threads ? useful : buffers->threads;
    (void)threads;
    uint64_t failed = UINT64_MAX;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t k = 0; k < (int64_t)count; ++k) {
        Part found;
        if (cusi_isCancelled(progress))
            continue;
        const cusStatus status = scanBytes(reader, from->offset, first + (uint64_t)k, parts,
                                           buffers->bytes + (size_t)cusi_threadNumber() * SCAN_BYTES, progress, &found);
        memset(&summaries[k], 0, sizeof summaries[k]);
        memcpy(&summaries[k], &found, sizeof found);
        if (status != CUS_OK)
            __atomic_store_n(&failed, first + (uint64_t)k, __ATOMIC_RELAXED);
    }
    CUSI_REQUIRE(failed == UINT64_MAX, CUS_ERROR_IO, "cusEventReaderScan: the file cannot be read in part %llu of %llu",
                 (unsigned long long)failed, (unsigned long long)parts);
    return cusi_proceed(progress);
}

cusStatus eventio_scanFirst(cusEventReader *reader, uint64_t count, uint64_t parts, cusEventPart *summaries) {
    if (!hasIndex(reader)) {
        const cusEventMark start = {.offset = eventio_wordsStart(reader)->offset};
        ScanBuffers *const buffers = eventio_createScanBuffers();
        CUSI_REQUIRE(buffers, CUS_ERROR_NO_MEMORY, "cusEventReaderScan: no host memory");
        const cusStatus status = eventio_scanWords(reader, &start, 0, count, parts, buffers, summaries);
        free(buffers);
        return status;
    }
    Part found = {0};
    CUS_TRY(reader->methods->countEvents(reader, &found.events));
    memset(summaries, 0, (size_t)count * sizeof *summaries);
    for (uint64_t k = 0; k < count; ++k)
        memcpy(&summaries[k], &found, sizeof found);
    return CUS_OK;
}

/* ---- Joining ------------------------------------------------------------------------------------------------------- */

static void joinTimes(cusEventDecoderState *state, const Part *part, int bits) {
    const CusiTimeRun *times = &part->times;
    const int64_t before = state->time_high;
    if (times->early_low != CUSI_UNSET)
        state->time_low = times->early_low;
    if (!times->timed)
        return;
    const int64_t first = cusi_unwrapTime(before, times->first, bits);
    state->time_high = (int64_t)((((uint64_t)first >> bits) + part->wraps) << bits | times->last);
    if (times->low != CUSI_UNSET)
        state->time_low = times->low;
    else if (first != before)
        state->time_low = 0;
}

static void joinRows(cusEventDecoderState *state, const Part *part) {
    CusiRowRun rows = {state->y, CUSI_EVT3_BASE | (state->vector_p ? CUSI_EVT3_POSITIVE : 0) | state->vector_x};
    cusi_appendRows(&rows, &part->rows);
    state->y = rows.y;
    state->vector_x = rows.x & CUSI_EVT3_COLUMNS;
    state->vector_p = rows.x & CUSI_EVT3_POSITIVE ? 1 : 0;
    if (part->vector_size)
        state->vector_size = part->vector_size;
}

/* Advances the state past the part. No event before the mark is later than its time. */
static void join(cusEventFormat format, cusEventDecoderState *state, const Part *part) {
    const int is_untimed = state->time_high < 0;
    switch (format) {
    case CUS_EVENTS_EVT3:
        state->index -= is_untimed ? part->early : 0;
        joinTimes(state, part, CUSI_EVT3_TIME_BITS);
        state->time = (state->time_high < 0 ? 0 : state->time_high << CUSI_EVT3_LOW_BITS) | state->time_low;
        joinRows(state, part);
        break;
    case CUS_EVENTS_DAT:
        joinTimes(state, part, CUSI_DAT_TIME_BITS);
        state->time = state->time_high;
        break;
    case CUS_EVENTS_TEXT:
        state->time = INT64_MAX;
        state->line += part->lines;
        break;
    default:
        state->index -= is_untimed ? part->early : 0;
        joinTimes(state, part, CUSI_EVT_TIME_BITS);
        state->time = state->time_high < 0 ? -1 : cusi_evtTime(state->time_high, UINT32_MAX);
    }
    state->index += part->events;
    state->offset = part->last;
}

cusStatus eventio_joinWords(const cusEventReader *reader, const cusEventPart *summaries, uint64_t count,
                            cusEventMark *marks) {
    cusEventDecoderState state;
    eventio_stateAt(&marks[0], &state);
    for (uint64_t k = 0; k < count; ++k) {
        Part part;
        memcpy(&part, &summaries[k], sizeof part);
        CUSI_REQUIRE(part.first == state.offset && part.last >= part.first, CUS_ERROR_VALUE,
                     "cusEventReaderMarks: summaries[%llu] starts at byte %llu, expected %llu", (unsigned long long)k,
                     (unsigned long long)part.first, (unsigned long long)state.offset);
        join(reader->info.format, &state, &part);
        eventio_markOf(&state, &marks[k + 1]);
    }
    return CUS_OK;
}

/* Joins parts of a format with an index, which have equal numbers of events. */
static cusStatus joinEvents(const cusEventPart *summaries, uint64_t count, uint64_t parts, cusEventMark *marks) {
    Part part;
    memcpy(&part, &summaries[0], sizeof part);
    const uint64_t events = part.events;
    for (uint64_t k = 0; k <= count; ++k) {
        marks[k] = (cusEventMark){.offset = eventio_share(events, k, parts), .index = eventio_share(events, k, parts)};
        if (k == count)
            break;
        memcpy(&part, &summaries[k], sizeof part);
        CUSI_REQUIRE(part.events == events && events <= INT64_MAX, CUS_ERROR_VALUE,
                     "cusEventReaderMarks: summaries[%llu] has %llu events, expected %llu", (unsigned long long)k,
                     (unsigned long long)part.events, (unsigned long long)events);
    }
    return CUS_OK;
}

cusStatus eventio_joinFirst(const cusEventReader *reader, const cusEventPart *summaries, uint64_t count, uint64_t parts,
                            cusEventMark *marks) {
    if (hasIndex(reader))
        return joinEvents(summaries, count, parts, marks);
    eventio_markOf(eventio_wordsStart(reader), &marks[0]);
    return eventio_joinWords(reader, summaries, count, marks);
}

cusStatus cusEventReaderMarks(const cusEventReader *reader, const cusEventPart *summaries, uint64_t parts,
                              cusEventMark *marks) {
    CUSI_TRACE;
    static const char function[] = "cusEventReaderMarks";
    CUSI_NOT_NULL(function, reader);
    CUSI_NOT_NULL(function, summaries);
    CUSI_NOT_NULL(function, marks);
    CUS_TRY(checkParts(function, parts));
    return eventio_joinFirst(reader, summaries, parts, parts, marks);
}

static cusStatus seekMark(cusEventReader *reader, const cusEventMark *mark) {
    static const char function[] = "cusEventReaderSeekMark";
    cusEventDecoderState state;
    eventio_stateAt(mark, &state);
    CUSI_REQUIRE(state.offset >= eventio_wordsStart(reader)->offset && state.offset <= reader->source.size, CUS_ERROR_VALUE,
                 "%s: mark is at byte %llu, which is not in this recording", function, (unsigned long long)state.offset);
    CUSI_REQUIRE(eventio_wordsRestore(reader, &state) == CUS_OK, CUS_ERROR_VALUE, "%s: mark is not one of this recording",
                 function);
    reader->failure.status = CUS_OK;
    reader->last_time = -1;
    reader->counts = (cusEventCounts){0};
    reader->index = state.index;
    return CUS_OK;
}

cusStatus cusEventReaderSeekMark(cusEventReader *reader, const cusEventMark *mark) {
    CUSI_TRACE;
    static const char function[] = "cusEventReaderSeekMark";
    CUSI_NOT_NULL(function, reader);
    CUSI_NOT_NULL(function, mark);
    if (hasIndex(reader)) {
        CUSI_REQUIRE(mark->index <= INT64_MAX, CUS_ERROR_VALUE, "%s: mark is not one of this recording", function);
        CUS_TRY(cusEventReaderSeekIndex(reader, (int64_t)mark->index));
        reader->mark = mark->index;
        return CUS_OK;
    }
    CUSI_GUARDED(function, reader, NULL, seekMark(reader, mark));
}
