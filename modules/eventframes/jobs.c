/* Divides the windows among several lanes as jobs. If the caller has chosen the length of batches, a job has whole
 * batches. A job begins at a mark from which its first window can be decoded. Marks come from a scan of the recording's
 * words, which is several times as fast as decoding. */
#include "check.h"
#include "eventframes/eventframes.h"
#include "eventio/evt/words.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* Marks from the next job's first mark on. */
typedef struct Marks {
    const cusEventFrames *frames;
    cusEventMark *mark;
    size_t count, room;
    cusEventPart *summaries;
    ScanBuffers *buffers;
    uint64_t parts, scanned, at_once;
    uint64_t job_bytes; /* least bytes of a job, unless its windows reach f->job_windows */
} Marks;

/* Scans the next parts on all threads. *is_end: there are none. */
static cusStatus scan(Marks *marks, int *is_end) {
    const cusEventFrames *const f = marks->frames;
    const uint64_t left = marks->parts - marks->scanned, n = left < marks->at_once ? left : marks->at_once;
    *is_end = n == 0;
    if (n == 0)
        return CUS_OK;
    if (marks->room < marks->count + n) {
        const size_t room = 2 * (marks->count + n);
        cusEventMark *const more = realloc(marks->mark, room * sizeof *more);
        CUSI_REQUIRE(more, CUS_ERROR_NO_MEMORY, "cusEventFramesNext: no host memory");
        marks->mark = more;
        marks->room = room;
    }
    CUS_TRY(
        eventio_scanWords(f->reader, &f->whole.mark, marks->scanned, n, marks->parts, marks->buffers, marks->summaries));
    CUS_TRY(eventio_joinWords(f->reader, marks->summaries, n, &marks->mark[marks->count - 1]));
    marks->count += n;
    marks->scanned += n;
    return CUS_OK;
}

/* Returns how far mark k is from the beginning, in events or microseconds; for times this is an estimate. */
static uint64_t extentAt(const Marks *marks, size_t k) {
    const cusEventFrames *const f = marks->frames;
    if (f->options.windowing.unit == CUS_WINDOW_COUNT)
        return marks->mark[k].index;
    cusEventDecoderState state;
    eventio_stateAt(&marks->mark[k], &state);
    return state.time > f->whole.origin ? (uint64_t)state.time - (uint64_t)f->whole.origin : 0;
}

static uint64_t windowAt(const Marks *marks, size_t k) {
    const Border border = {marks->mark[k].index, extentAt(marks, k)};
    return eventframes_windowAt(&marks->frames->options.windowing, &border);
}

/* Chooses the end of the job that begins at window `first`; 0: the end of the recording. Mark *last lies behind the
 * beginning of that window. */
static cusStatus chooseEnd(Marks *marks, uint64_t first, uint64_t *end, size_t *last) {
    const cusEventFrames *const f = marks->frames;
    for (*last = 1;; ++*last) {
        int is_end = 0;
        if (*last == marks->count)
            CUS_TRY(scan(marks, &is_end));
        *end = 0;
        if (is_end)
            return CUS_OK;
        const uint64_t window = windowAt(marks, *last), passed = window > first ? window - first : 0;
        *end = first + f->job_windows;
        if (passed >= f->job_windows)
            return CUS_OK;
        *end = first + passed / f->whole_windows * f->whole_windows;
        if (*end > first && marks->mark[*last].offset - marks->mark[0].offset >= marks->job_bytes)
            return CUS_OK;
    }
}

/* Finds the last mark, up to number `last`, before which no event of the windows from `first` on lies. */
static cusStatus chooseMark(const Marks *marks, uint64_t first, size_t last, size_t *chosen) {
    const cusWindowing *const w = &marks->frames->options.windowing;
    for (size_t k = last; k > 0; --k) {
        if (windowAt(marks, k) > first)
            continue;
        Border border;
        CUS_TRY(eventframes_borderAt(marks->frames, &marks->mark[k], &border));
        if (border.since == EVENTFRAMES_NO_EVENT || eventframes_windowAt(w, &border) > first)
            continue;
        *chosen = k;
        return CUS_OK;
    }
    *chosen = 0;
    return CUS_OK;
}

/* Returns the end of the bytes that windows before `end` are likely to need. */
static uint64_t chooseEnough(const Marks *marks, uint64_t end, size_t last) {
    const cusWindowing *const w = &marks->frames->options.windowing;
    const uint64_t needed = (end - 1) * eventframes_stride(w) + w->length;
    while (last + 1 < marks->count && extentAt(marks, last) < needed)
        ++last;
    return marks->mark[last].offset;
}

/* Keeps the job, so that a later pass needs no scan. A later pass scans again if there are very many jobs or memory
 * runs out. */
static void keep(cusEventFrames *f, const Job *job) {
    enum { MAX_KNOWN = 1 << 13 };
    if (f->known_count == f->known_room) {
        if (f->known_room >= MAX_KNOWN)
            return;
        const uint64_t room = 2 * f->known_room + 64;
        Job *const more = realloc(f->known, (size_t)room * sizeof *more);
        if (!more)
            return;
        f->known = more;
        f->known_room = room;
    }
    f->known[f->known_count++] = *job;
}

static int deal(cusEventFrames *f, const Job *job) {
    pthread_mutex_lock(&f->lock);
    while (eventframes_isWanted(f) && f->dealt - f->turn == f->job_room)
        pthread_cond_wait(&f->dealing, &f->lock);
    const int is_wanted = eventframes_isWanted(f);
    if (is_wanted)
        f->jobs[f->dealt++ % f->job_room] = *job;
    pthread_cond_broadcast(&f->dealing);
    pthread_mutex_unlock(&f->lock);
    return is_wanted;
}

static cusStatus dealAll(cusEventFrames *f, Marks *marks) {
    uint64_t count = 0;
    f->known_count = 0;
    for (Job job = f->whole;;) {
        uint64_t end;
        size_t last, next = 0;
        CUS_TRY(chooseEnd(marks, job.first_window, &end, &last));
        const int is_last = !end || (f->whole.end_window && end >= f->whole.end_window);
        job.mark = marks->mark[0];
        job.has_mark = 1;
        eventio_stateAt(&job.mark, &job.state);
        job.first_event = job.state.index;
        job.end_window = f->whole.end_window;
        job.until = f->whole.until;
        job.border = job.enough = UINT64_MAX;
        if (!is_last) {
            CUS_TRY(chooseMark(marks, end, last, &next));
            job.end_window = end;
            job.until = marks->mark[next].index;
            job.border = marks->mark[next].offset;
            job.enough = chooseEnough(marks, end, last);
        }
        keep(f, &job);
        if (!deal(f, &job))
            return CUS_OK;
        ++count;
        if (is_last) {
            f->knows_all = f->known_count == count;
            return CUS_OK;
        }
        job.first_window = end;
        marks->count -= next;
        memmove(marks->mark, &marks->mark[next], marks->count * sizeof *marks->mark);
    }
}

/* Scans the recording and deals its jobs. */
static cusStatus scanAndDeal(cusEventFrames *f) {
    const uint64_t bytes = f->source.size - f->whole.mark.offset;
    Marks marks = {.frames = f, .count = 1, .room = 1, .parts = bytes / eventframes_sizes.part + 1};
    marks.job_bytes = bytes / (4 * (uint64_t)f->lane_count); /* keeps all lanes busy near the end */
    marks.job_bytes = marks.job_bytes < eventframes_sizes.job ? marks.job_bytes : eventframes_sizes.job;
    marks.at_once = 4 * (uint64_t)cusi_maxThreads();
    marks.mark = malloc(sizeof *marks.mark);
    marks.summaries = malloc((size_t)marks.at_once * sizeof *marks.summaries);
    marks.buffers = eventio_createScanBuffers();
    cusStatus status;
    if (marks.mark && marks.summaries && marks.buffers) {
        marks.mark[0] = f->whole.mark;
        status = dealAll(f, &marks);
        status = status == CUS_OK ? CUS_OK : cusi_renamed("cusEventFramesNext", status);
    } else {
        status = cusi_fail(CUS_ERROR_NO_MEMORY, "cusEventFramesNext: no host memory");
    }
    free(marks.buffers);
    free(marks.summaries);
    free(marks.mark);
    return status;
}

void *eventframes_deal(void *frames) {
    cusEventFrames *const f = frames;
    cusStatus status = CUS_OK;
    if (f->knows_all)
        for (uint64_t k = 0; k < f->known_count && deal(f, &f->known[k]); ++k)
            ;
    else
        status = scanAndDeal(f);
    pthread_mutex_lock(&f->lock);
    f->has_dealt = 1;
    if (status != CUS_OK) { /* reported by the call that follows the last job */
        f->status = status;
        strncpy(f->message, cusLastError(), sizeof f->message - 1);
    }
    pthread_cond_broadcast(&f->dealing);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}
