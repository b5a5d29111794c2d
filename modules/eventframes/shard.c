/* Shards: which windows of the recording an object makes, and where it starts to read. */
#include "check.h"
#include "eventframes/eventframes.h"
#include "eventio/evt/words.h"
#include "host.h"

#include <stdlib.h>

static const char function[] = "cusEventFramesOpen";

/* Chooses no windows; an end_window of 0 would mean all. */
static void chooseNone(Job *job) {
    job->first_window += job->first_window == 0;
    job->end_window = job->first_window;
}

uint64_t eventframes_windowAt(const cusWindowing *w, const Border *at) {
    const uint64_t stride = eventframes_stride(w);
    if (at->index == 0)
        return 0;
    return w->unit == CUS_WINDOW_COUNT ? at->index / stride + (at->index % stride > 0) : at->since / stride + 1;
}

/* Sets first_window and end_window. */
static void chooseWindows(cusEventFrames *f, const Border *begin, const Border *end) {
    const cusEventFramesOptions *const o = &f->options;
    Job *const job = &f->whole;
    job->first_window = eventframes_windowAt(&o->windowing, begin);
    if (o->shard + 1 == o->shards || end->since == EVENTFRAMES_NO_EVENT) /* up to the end or the damage */
        return;
    job->end_window = eventframes_windowAt(&o->windowing, end);
    if (job->end_window <= job->first_window)
        chooseNone(job);
}

/* ---- Events that have numbers ---------------------------------------------------------------------------------------- */

/* Finds the marks where the shard and the next one begin. Scans everything before them, in parts small enough for all
 * threads. */
static cusStatus findMarks(const cusEventFrames *f, cusEventMark *first, cusEventMark *begin, cusEventMark *end) {
    enum { MIN_BYTES = 1 << 20, MAX_PARTS = 4096 };
    const uint64_t shards = f->options.shards, wanted = f->options.shard + (f->options.shard + 1 < shards),
                   small = f->reader->source.size / shards / MIN_BYTES + 1,
                   busy = (4 * (uint64_t)cusi_maxThreads() + wanted - 1) / wanted,
                   most = small < MAX_PARTS ? small : MAX_PARTS, each = busy < most ? busy : most, count = wanted * each;
    cusEventPart *const summaries = malloc((size_t)count * sizeof *summaries);
    cusEventMark *const marks = malloc((size_t)(count + 1) * sizeof *marks);
    cusStatus status = summaries && marks ? CUS_OK : cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    if (status == CUS_OK)
        status = eventio_scanFirst(f->reader, count, shards * each, summaries);
    if (status == CUS_OK)
        status = eventio_joinFirst(f->reader, summaries, count, shards * each, marks);
    if (status == CUS_OK && marks) {
        *first = marks[0];
        *begin = marks[f->options.shard * each];
        *end = marks[count];
    }
    free(marks);
    free(summaries);
    return status;
}

/* Returns whether the recording ends here; making frames reports the damage again. */
static int isDamage(cusStatus status) {
    return status == CUS_ERROR_FORMAT || status == CUS_ERROR_TRUNCATED;
}

cusStatus eventframes_timeAt(const cusEventFrames *f, const cusEventMark *mark, int64_t *time, int *is_there) {
    size_t count = 0;
    CUS_TRY(cusEventReaderSeekMark(f->reader, mark));
    const cusStatus status = cusEventReaderRead(f->reader, 1, NULL, NULL, NULL, time, &count);
    *is_there = count > 0;
    return isDamage(status) ? CUS_OK : status;
}

cusStatus eventframes_borderAt(const cusEventFrames *f, const cusEventMark *mark, Border *border) {
    int64_t time = f->whole.origin;
    int is_there = 1;
    if (f->options.windowing.unit == CUS_WINDOW_DURATION)
        CUS_TRY(eventframes_timeAt(f, mark, &time, &is_there));
    /* Times may start over behind damage. */
    *border = (Border){mark->index, is_there && time >= f->whole.origin ? (uint64_t)time - (uint64_t)f->whole.origin
                                                                        : EVENTFRAMES_NO_EVENT};
    return CUS_OK;
}

static cusStatus shareByMarks(cusEventFrames *f) {
    const cusEventFramesOptions *const o = &f->options;
    Job *const job = &f->whole;
    cusEventMark first, last;
    Border begin, end;
    int is_there;
    CUS_TRY(findMarks(f, &first, &job->mark, &last));
    CUS_TRY(eventframes_timeAt(f, &first, &job->origin, &is_there));
    CUS_TRY(eventframes_borderAt(f, &job->mark, &begin));
    CUS_TRY(eventframes_borderAt(f, &last, &end));
    if (begin.since != EVENTFRAMES_NO_EVENT && end.since < begin.since) /* damage lies between them */
        end.since = EVENTFRAMES_NO_EVENT;
    job->has_mark = 1;
    job->until = o->shard + 1 == o->shards || end.since == EVENTFRAMES_NO_EVENT ? UINT64_MAX : last.index;
    if (begin.since == EVENTFRAMES_NO_EVENT && o->shard > 0) { /* an earlier shard makes all that is left */
        chooseNone(job);
        job->until = 0;
        return CUS_OK;
    }
    chooseWindows(f, &begin, &end);
    return CUS_OK;
}

/* ---- Others ---------------------------------------------------------------------------------------------------------- */

/* Counts the wanted events, and the microseconds from the first to the last. */
static cusStatus count(cusEventFrames *f, Piece *piece, Border *all) {
    int64_t first = 0, last = 0;
    for (piece->last = 0; !piece->last;) {
        const cusStatus status = eventframes_readEvents(f, piece);
        if (status != CUS_OK && !isDamage(status))
            return status;
        piece->last |= status != CUS_OK;
        const int64_t *const t = piece->column[3].data;
        if (piece->count == 0)
            continue;
        first = all->index ? first : t[0];
        last = t[piece->count - 1];
        all->index += piece->count;
    }
    all->since = all->index ? (uint64_t)last - (uint64_t)first + 1 : 0;
    return CUS_OK;
}

static cusStatus shareByCounting(cusEventFrames *f) {
    const cusEventFramesOptions *const o = &f->options;
    Piece piece = {0};
    Border all = {0};
    cusStatus status = eventframes_createPiece(f, &piece, 0);
    if (status == CUS_OK)
        status = eventframes_seek(f);
    if (status == CUS_OK)
        status = count(f, &piece, &all);
    eventframes_releasePiece(&piece);
    if (status == CUS_OK)
        status = eventframes_createFilter(f);
    if (status == CUS_OK)
        status = cusEventReaderSeekIndex(f->reader, (int64_t)f->place);
    CUS_TRY(status);
    const uint64_t k = o->shard, n = o->shards;
    const Border begin = {eventio_share(all.index, k, n), eventio_share(all.since, k, n)},
                 end = {eventio_share(all.index, k + 1, n), eventio_share(all.since, k + 1, n)};
    chooseWindows(f, &begin, &end);
    return CUS_OK;
}

cusStatus eventframes_takeShard(cusEventFrames *f) {
    const cusEventFramesOptions *const o = &f->options;
    CUSI_REQUIRE(o->shards <= (uint64_t)1 << 20, CUS_ERROR_VALUE, "%s: shards is %llu, expected 0 to 2^20", function,
                 (unsigned long long)o->shards);
    CUSI_REQUIRE(o->shard < (o->shards ? o->shards : 1), CUS_ERROR_VALUE,
                 "%s: shard is %llu, expected less than shards, %llu", function, (unsigned long long)o->shard,
                 (unsigned long long)o->shards);
    if (o->shards < 2)
        return CUS_OK;
    CUSI_REQUIRE(!o->first_window && !o->end_window, CUS_ERROR_VALUE,
                 "%s: first_window is %llu and end_window %llu, expected 0 with shards", function,
                 (unsigned long long)o->first_window, (unsigned long long)o->end_window);
    CUSI_REQUIRE(f->place == 0, CUS_ERROR_VALUE, "%s: reader is at event %llu, expected its first event with shards",
                 function, (unsigned long long)f->place);
    CUSI_REQUIRE(o->windowing.length >= 1, CUS_ERROR_VALUE, "%s: windowing's length is 0, expected 1..2^63 - 1", function);
    const int is_selected = o->filter || o->from != INT64_MIN || o->to != INT64_MAX;
    const int is_numbered = !is_selected && f->reader->options.bad_events != CUS_BAD_EVENTS_SKIP;
    return is_numbered ? shareByMarks(f) : shareByCounting(f);
}
