/* The thread of a lane that makes frames, job by job, and offers them to the caller. */
#include "check.h"
#include "eventframes/eventframes.h"
#include "host.h"

#include <stdio.h>
#include <string.h>

/* Removes the windows by duration that begin after the border, perhaps the whole batch: the next job makes them. No
 * window begins before the border unless times have stepped back, which is damage; then this job makes all windows. */
static void cut(const Job *job, Offer *offer) {
    cusFrameBatch *const batch = &offer->batch;
    const size_t all = batch->count;
    while (batch->count && job->end_window && batch->first + batch->count > job->end_window &&
           batch->windows[batch->count - 1].first >= job->until)
        --batch->count;
    for (int i = 0; i < batch->representations; ++i)
        offer->frames[i].rows = (int)((size_t)offer->frames[i].rows / all * batch->count);
}

cusStatus eventframes_offer(void *to, const cusFrameBatch *batch) {
    Lane *const lane = to;
    cusEventFrames *const f = lane->frames;
    Offer *const offer = &lane->offers[lane->offered % EVENTS_MAX_BATCHES];
    offer->job = lane->number;
    offer->batch = *batch;
    memcpy(offer->frames, batch->frames, (size_t)batch->representations * sizeof *batch->frames);
    offer->batch.frames = offer->frames;
    lane->end = batch->first + batch->count;
    if (lane->job->has_mark)
        cut(lane->job, offer);
    pthread_mutex_lock(&f->lock);
    if (eventframes_isWanted(f)) {
        ++lane->offered;
        pthread_cond_signal(&f->changed);
        while (eventframes_isWanted(f) && lane->offered - lane->released > lane->spare)
            pthread_cond_wait(&lane->changed, &f->lock);
    }
    const int cancelled = f->cancelled;
    pthread_mutex_unlock(&f->lock);
    return cancelled ? CUS_ERROR_CANCELLED : CUS_OK;
}

/* Records the first failure. With message NULL, it is that of the call that has just failed. */
static void keep(Outcome *outcome, cusStatus status, const char *message) {
    if (outcome->status != CUS_OK || status == CUS_OK)
        return;
    outcome->status = status;
    if (!message)
        (void)cusi_renamed("cusEventFramesNext", status);
    (void)snprintf(outcome->message, sizeof outcome->message, "%s", message ? message : cusLastError());
}

/* Releases the previous piece, if has_one, and waits for the next one of this job, or of the next job if is_new.
 * Returns NULL if there is none or frames are no longer wanted. */
static Piece *nextPiece(Lane *lane, int has_one, int is_new) {
    cusEventFrames *const f = lane->frames;
    Piece *piece = NULL;
    pthread_mutex_lock(&f->lock);
    lane->taken += has_one != 0;
    if (has_one)
        pthread_cond_broadcast(&lane->changed);
    while (eventframes_isWanted(f)) {
        if (lane->filled == lane->taken && lane->has_all)
            break;
        if (lane->filled == lane->taken) {
            pthread_cond_wait(&lane->changed, &f->lock);
            continue;
        }
        piece = &lane->pieces[lane->taken % EVENTFRAMES_PIECES];
        if (!is_new || piece->job != lane->number)
            break;
        piece = NULL; /* it belongs to a finished job */
        ++lane->taken;
        pthread_cond_broadcast(&lane->changed);
    }
    piece = eventframes_isWanted(f) ? piece : NULL;
    pthread_mutex_unlock(&f->lock);
    return piece;
}

/* Finds the bytes after those that are being pushed. */
static int following(void *of, const void **bytes, size_t *size) {
    Lane *const lane = of;
    pthread_mutex_lock(&lane->frames->lock);
    const Piece *const next = &lane->pieces[(lane->taken + 1) % EVENTFRAMES_PIECES];
    const int is_there = lane->filled > lane->taken + 1 && next->job == lane->number && next->count > 0;
    if (is_there) {
        *bytes = next->from;
        *size = next->count;
    }
    pthread_mutex_unlock(&lane->frames->lock);
    return is_there;
}

static cusStatus push(const cusEventFrames *f, cusEventPipeline *pipeline, const Piece *piece) {
    if (f->decodes) {
        CUS_TRY(cusEventPipelinePushBytes(pipeline, piece->from, piece->count));
        const uint64_t end = f->pinned ? (uint64_t)((const uint8_t *)piece->from - f->pinned) + piece->count : 0;
        return end > eventio_sizeNow(&f->source) ? eventio_checkSize(&f->source, "cusEventFramesNext") : CUS_OK;
    }
    const cusEventArrays events = {piece->column[0].data, piece->column[1].data, piece->column[2].data,
                                   piece->column[3].data, piece->count,          CUS_HOST};
    return cusEventPipelinePush(pipeline, &events);
}

/* Returns whether later events change nothing, after `read` events. */
static int hasEnough(const cusEventFrames *f, const Job *job, const cusEventPipelineCounts *counts, uint64_t read) {
    const cusWindowing *const w = &f->options.windowing;
    const uint64_t events = job->first_event + read, last = job->end_window - 1, stride = eventframes_stride(w);
    if (!job->end_window ||
        (job->has_mark && events <= job->until)) /* damage just before the next event belongs to this job */
        return 0;
    if (w->unit == CUS_WINDOW_DURATION && !job->has_mark) /* the pipeline knows the origin */
        return counts->complete;
    if (job->end_window <= job->first_window)
        return 1;
    const uint64_t start = stride && last > INT64_MAX / stride ? INT64_MAX : last * stride, end = start + w->length;
    if (w->unit == CUS_WINDOW_COUNT)
        return events >= end;
    return counts->last_time >= job->origin && (uint64_t)counts->last_time - (uint64_t)job->origin >= end;
}

/* What has been done of a job. */
typedef struct Work {
    Lane *lane;
    const Job *job;
    Outcome *outcome;
    cusEventPipelineCounts before, counts;
    int has_enough, has_passed; /* has_passed: the border */
} Work;

/* Moves the pipeline to the job. */
static void begin(Work *work) {
    const Job *const job = work->job;
    cusEventPipeline *const pipeline = work->lane->pipeline;
    const int cuts = job->until && work->lane->frames->options.windowing.unit == CUS_WINDOW_DURATION;
    const EventsPlace place = {job->first_window, cuts ? 0 : job->end_window, job->first_event, job->origin,
                               work->lane->frames->options.end_window};
    work->lane->end = job->first_window;
    keep(work->outcome, eventsGoTo(pipeline, &place), NULL);
    if (work->lane->frames->decodes)
        keep(work->outcome, cusEventDecoderSetState(cusEventPipelineDecoder(pipeline), &job->state), NULL);
    keep(work->outcome, cusEventPipelineQuery(pipeline, &work->before), NULL);
}

/* Makes the frames of a piece. Returns whether the job needs more. */
static int use(Work *work, const Piece *piece) {
    const Lane *const lane = work->lane;
    keep(work->outcome, push(lane->frames, lane->pipeline, piece), NULL);
    keep(work->outcome, piece->damage, piece->message);
    eventsCount(lane->pipeline, &work->counts);
    if (piece->at_border && work->outcome->status == CUS_OK) {
        work->has_passed = 1;
        work->outcome->read = work->counts.decoded;
        eventsEndAt(lane->pipeline, work->job->end_window);
    }
    work->has_enough = hasEnough(lane->frames, work->job, &work->counts, work->counts.events - work->before.events);
    return !piece->last && work->outcome->status == CUS_OK && !work->has_enough;
}

/* Delivers the remaining frames. */
static void end(Work *work) {
    cusEventPipeline *const pipeline = work->lane->pipeline;
    Outcome *const outcome = work->outcome;
    eventsCount(pipeline, &work->counts);
    outcome->last_time = work->counts.last_time;
    work->has_enough = hasEnough(work->lane->frames, work->job, &work->counts, work->counts.events - work->before.events);
    keep(outcome, cusEventPipelineFlush(pipeline), NULL);
    keep(outcome, cusEventPipelineQuery(pipeline, &work->counts), NULL);
    const int is_damage = outcome->status == CUS_ERROR_FORMAT || outcome->status == CUS_ERROR_TRUNCATED ||
                          outcome->status == CUS_ERROR_IO || outcome->status == CUS_ERROR_CAPACITY;
    if (is_damage && work->has_enough &&
        work->lane->end >= work->job->end_window) /* the damage lies behind what is wanted */
        outcome->status = CUS_OK;
    outcome->events = work->job->first_event + work->counts.events - work->before.events;
    outcome->skipped = work->counts.skipped - work->before.skipped;
    if (outcome->status != CUS_OK || !work->has_passed)
        outcome->read = work->counts.decoded;
}

/* Makes the frames of the piece's job, and sets *piece to the last one used. Returns whether frames are still wanted. */
static int makeFrames(Lane *lane, Piece **piece) {
    cusEventFrames *const f = lane->frames;
    Job *const job = &f->jobs[(*piece)->job % f->job_room];
    Outcome outcome = {0};
    Work work = {.lane = lane, .job = job, .outcome = &outcome};
    lane->number = (*piece)->job;
    lane->job = job;
    begin(&work);
    while (outcome.status == CUS_OK && use(&work, *piece)) {
        if ((*piece)->is_end)
            eventframes_readMore(f, *piece);
        else if (!(*piece = nextPiece(lane, 1, 0)))
            return 0;
    }
    end(&work);
    pthread_mutex_lock(&f->lock);
    job->outcome = outcome;
    job->is_done = 1;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return 1;
}

void *eventframes_make(void *from) {
    Lane *const lane = from;
    if (lane->device >= 0) {
        (void)cusDeviceSet(lane->device); /* the pipeline fails, too */
        if (lane->frames->decodes)
            eventsBytesFollow(lane->pipeline, following, lane);
    }
#ifdef _OPENMP
    else if (lane->frames->lane_count > 1)
        omp_set_num_threads(lane->frames->lane_threads);
#endif
    lane->number = UINT64_MAX;
    for (Piece *piece = NULL; (piece = nextPiece(lane, piece != NULL, 1)) && makeFrames(lane, &piece);)
        ;
    return NULL;
}
