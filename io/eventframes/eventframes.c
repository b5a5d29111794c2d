#include "eventframes/eventframes.h"
#include "check.h"
#include "eventio/recording.h"
#include "progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

cusEventFramesOptions cusEventFramesDefaults(void) {
    return (cusEventFramesOptions){.windowing = cusWindowingDefaults(), .from = INT64_MIN, .to = INT64_MAX};
}

/* ---- The thread that makes frames ---------------------------------------------------------------------------------- */

/* Leaves to the next shard its windows by duration: they begin after the border. Before it they have not, unless times have stepped back,
 * which is damage; then this shard has all windows. */
static void cut(cusEventFrames *f, cusFrameBatch *batch) {
    size_t count = batch->count;
    while (count && f->options.end_window && batch->first + count > f->options.end_window &&
           batch->windows[count - 1].first >= f->until)
        --count;
    if (count == batch->count)
        return;
    for (int i = 0; i < batch->representations; ++i) {
        f->shorter[i] = batch->frames[i];
        f->shorter[i].rows = (int)((size_t)f->shorter[i].rows / batch->count * count);
    }
    batch->frames = f->shorter;
    batch->count = count;
}

/* The pipeline's sink: offers the batch, and waits until the caller has used it. */
static cusStatus offer(void *frames, const cusFrameBatch *given) {
    cusEventFrames *f = frames;
    cusFrameBatch batch = *given;
    if (f->has_mark)
        cut(f, &batch);
    if (!batch.count)
        return CUS_OK;
    pthread_mutex_lock(&f->lock);
    f->batch = batch;
    f->offer = OFFERED;
    pthread_cond_broadcast(&f->changed);
    while (f->offer != NOTHING && !f->cancelled && !f->stopping)
        pthread_cond_wait(&f->changed, &f->lock);
    const int cancelled = f->cancelled;
    pthread_mutex_unlock(&f->lock);
    return cancelled ? CUS_ERROR_CANCELLED : CUS_OK;
}

/* The next piece, or NULL if it is not wanted any more. */
static Piece *nextPiece(cusEventFrames *f) {
    pthread_mutex_lock(&f->lock);
    while (f->filled == f->taken && !f->cancelled && !f->stopping)
        pthread_cond_wait(&f->changed, &f->lock);
    Piece *piece = f->cancelled || f->stopping ? NULL : &f->pieces[f->taken % EVENTFRAMES_PIECES];
    pthread_mutex_unlock(&f->lock);
    return piece;
}

static cusStatus push(cusEventFrames *f, const Piece *piece) {
    if (f->decodes)
        return cusEventPipelinePushBytes(f->pipeline, piece->bytes.data, piece->count);
    const cusEventArrays events = {piece->column[0].data, piece->column[1].data, piece->column[2].data,
                                   piece->column[3].data, piece->count,          CUS_HOST};
    return cusEventPipelinePush(f->pipeline, &events);
}

/* Keeps the first failure. message NULL: that of the call that has just failed. */
static void keep(cusEventFrames *f, cusStatus status, const char *message) {
    if (f->status != CUS_OK || status == CUS_OK)
        return;
    f->status = status;
    if (!message)
        (void)cusi_renamed("cusEventFramesNext", status);
    strncpy(f->message, message ? message : cusLastError(), sizeof f->message - 1);
}

/* Whether later events change nothing. read: how many events have been. */
static int hasEnough(const cusEventFrames *f, const cusEventPipelineCounts *counts, uint64_t read) {
    const cusEventFramesOptions *o = &f->options;
    const uint64_t events = f->first_event + read, last = o->end_window - 1, stride = eventframes_stride(&o->windowing);
    if (!o->end_window || (f->has_mark && events <= f->until)) /* damage just before the next event is this shard's */
        return 0;
    if (o->windowing.unit == CUS_WINDOW_DURATION && !f->has_mark) /* whose origin is the pipeline's */
        return counts->complete;
    if (o->end_window <= o->first_window)
        return 1;
    const uint64_t start = stride && last > INT64_MAX / stride ? INT64_MAX : last * stride,
                   end = start + o->windowing.length;
    if (o->windowing.unit == CUS_WINDOW_COUNT)
        return events >= end;
    return counts->last_time >= f->origin && (uint64_t)counts->last_time - (uint64_t)f->origin >= end;
}

/* Makes frames of all pieces; what fails is in f->status. */
static void makeFrames(cusEventFrames *f) {
    if (f->device >= 0)
        keep(f, cusDeviceSet(f->device), NULL);
    cusEventPipelineCounts counts = {0}, before = {0}; /* a pipeline counts on when it begins again */
    keep(f, cusEventPipelineQuery(f->pipeline, &before), NULL);
    for (int last = f->status != CUS_OK; !last;) {
        Piece *piece = nextPiece(f);
        if (!piece)
            return;
        keep(f, push(f, piece), NULL);
        keep(f, piece->damage, piece->message);
        last = piece->last || f->status != CUS_OK;
        if (f->options.end_window) {
            keep(f, cusEventPipelineQuery(f->pipeline, &counts), NULL);
            last = last || hasEnough(f, &counts, counts.events - before.events);
        }
        pthread_mutex_lock(&f->lock);
        ++f->taken;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    keep(f, cusEventPipelineQuery(f->pipeline, &counts), NULL);
    const int64_t last_time = counts.last_time;
    const int has_enough = hasEnough(f, &counts, counts.events - before.events);
    keep(f, cusEventPipelineFlush(f->pipeline), NULL);
    keep(f, cusEventPipelineQuery(f->pipeline, &counts), NULL);
    if ((f->status == CUS_ERROR_FORMAT || f->status == CUS_ERROR_TRUNCATED || f->status == CUS_ERROR_IO) &&
        has_enough) /* damage behind what is wanted */
        f->status = CUS_OK;
    pthread_mutex_lock(&f->lock);
    f->counts.last_time = last_time;
    f->counts.events = counts.events - before.events;
    f->counts.skipped = counts.skipped - before.skipped;
    f->counts.read = f->decodes ? counts.decoded : f->counts.read;
    pthread_mutex_unlock(&f->lock);
}

static void *make(void *frames) {
    cusEventFrames *f = frames;
    makeFrames(f);
    pthread_mutex_lock(&f->lock);
    f->ended = 1;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void stop(cusEventFrames *f) {
    pthread_mutex_lock(&f->lock);
    f->stopping = 1;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->threads > 0)
        pthread_join(f->ahead, NULL);
    if (f->threads > 1)
        pthread_join(f->maker, NULL);
    f->threads = 0;
}

static cusStatus requireOwner(const cusEventFrames *f, const char *function) {
    CUSI_REQUIRE(f->process == getpid(), CUS_ERROR_VALUE, "%s: called in process %ld, expected %ld, which has opened it",
                 function, (long)getpid(), (long)f->process);
    return CUS_OK;
}

cusStatus eventframes_createFilter(cusEventFrames *f) {
    cusEventFilterDestroy(f->filter);
    f->filter = NULL;
    return f->options.filter ? cusEventFilterCreate(&f->filter, &f->filter_options) : CUS_OK;
}

/* ---- Open and close ------------------------------------------------------------------------------------------------ */

/* Whether a decoder takes the recording's bytes, from where the reader is: everywhere those of words; chunks only on a device, since
 * the reader decompresses them on all cores. */
static int decodes(cusEventFrames *f, cusEventDecoderOptions *decoder, cusEventDecoderState *state) {
    if (f->options.filter || f->options.from != INT64_MIN || f->options.to != INT64_MAX ||
        cusEventReaderDecoder(f->reader, decoder, state) != CUS_OK)
        return 0;
    const int chunks = decoder->format == CUS_EVENTS_METAVISION || decoder->format == CUS_EVENTS_HDF5;
    return f->reader->index == (chunks ? f->reader->mark : state->index) && (!chunks || f->options.compute == CUS_DEVICE);
}

cusStatus eventframes_seek(cusEventFrames *f) {
    const cusEventFramesOptions *o = &f->options;
    const uint64_t stride = eventframes_stride(&o->windowing);
    if (f->has_mark) {
        f->first_event = f->mark.index;
        return cusEventReaderSeekMark(f->reader, &f->mark);
    }
    if (o->from != INT64_MIN)
        return cusEventReaderSeekTime(f->reader, o->from, NULL);
    const int is_numbered = o->shards < 2 && f->reader->options.bad_events != CUS_BAD_EVENTS_SKIP;
    if (!o->filter && is_numbered && o->windowing.unit == CUS_WINDOW_COUNT && stride > 0 &&
        o->first_window < (uint64_t)INT64_MAX / 2 / stride)
        f->first_event = o->first_window * stride;
    return f->reader->index == f->place + f->first_event
               ? CUS_OK
               : cusEventReaderSeekIndex(f->reader, (int64_t)(f->place + f->first_event));
}

static cusStatus createPipeline(cusEventFrames *f, const cusRepresentation *representations, int count) {
    static const char function[] = "cusEventFramesOpen";
    const cusEventFramesOptions *o = &f->options;
    cusEventDecoderOptions decoder;
    cusEventDecoderState state;
    cusStatus status = f->has_mark ? cusEventReaderSeekMark(f->reader, &f->mark) : CUS_OK;
    f->decodes = status == CUS_OK && decodes(f, &decoder, &state);
    if (status == CUS_OK && !f->decodes)
        status = eventframes_seek(f);
    if (status != CUS_OK)
        return cusi_renamed(function, status);
    if (f->decodes && f->has_mark)
        f->first_event = state.index;
    const int cuts = f->has_mark && o->windowing.unit == CUS_WINDOW_DURATION;
    const cusEventPipelineOptions options = {.windowing = o->windowing,
                                             .first_window = o->first_window,
                                             .end_window = cuts ? 0 : o->end_window,
                                             .compute = o->compute,
                                             .deliver = o->deliver,
                                             .max_events = o->max_events,
                                             .batch_windows = o->batch_windows,
                                             .max_gap = o->max_gap,
                                             .first_event = f->first_event,
                                             .origin = f->origin,
                                             .decoder = f->decodes ? &decoder : NULL,
                                             .whole_batches = 1};
    const int is_given = o->rows || o->cols;
    CUSI_REQUIRE(is_given || f->info.width, CUS_ERROR_SIZE,
                 "%s: rows and cols are 0, expected the size of the frames, since the recording does not have the sensor's",
                 function);
    status = cusEventPipelineCreate(&f->pipeline, is_given ? o->rows : f->info.height, is_given ? o->cols : f->info.width,
                                    representations, count, &options, offer, f);
    if (status == CUS_OK && f->decodes)
        status = cusEventDecoderSetState(cusEventPipelineDecoder(f->pipeline), &state);
    return status == CUS_OK ? CUS_OK : cusi_renamed(function, status);
}

/* Starts the threads. Signals are for the program's own. */
static cusStatus start(cusEventFrames *f) {
    pthread_mutex_lock(&f->lock); /* other threads may ask for the counts, or cancel */
    f->filled = f->taken = 0;
    f->stopping = f->ended = 0;
    f->offer = NOTHING;
    f->counts = (cusEventFramesCounts){.last_time = -1,
                                       .first_window = f->options.first_window,
                                       .end_window = f->options.end_window,
                                       .size = f->decodes ? f->reader->source.size - f->info.start : 0};
    pthread_mutex_unlock(&f->lock);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&f->ahead, NULL, eventframes_readAhead, f) && ++f->threads &&
        !pthread_create(&f->maker, NULL, make, f))
        ++f->threads;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CUSI_REQUIRE(f->threads == 2, CUS_ERROR_NO_MEMORY, "cusEventFramesOpen: no thread can be started");
    return CUS_OK;
}

static cusStatus open(cusEventFrames *f, const cusRepresentation *representations, int count) {
    static const char function[] = "cusEventFramesOpen";
    f->info = f->reader->info;
    f->place = f->reader->index;
    f->device = -1;
    if (f->options.compute == CUS_DEVICE)
        CUS_TRY(cusDeviceGet(&f->device));
    if (f->options.filter)
        f->filter_options = *f->options.filter;
    cusStatus status = eventframes_createFilter(f);
    if (status == CUS_OK)
        status = eventframes_takeShard(f);
    if (status != CUS_OK)
        return cusi_renamed(function, status);
    CUS_TRY(createPipeline(f, representations, count));
    for (int k = 0; k < EVENTFRAMES_PIECES; ++k)
        CUS_TRY(eventframes_createPiece(f, &f->pieces[k], f->options.compute == CUS_DEVICE));
    return start(f);
}

/* Takes `owned`, also if it fails. */
static cusStatus openFrames(cusEventFrames **frames, cusEventReader *reader, cusEventReader *owned,
                            const cusRepresentation *representations, int count, const cusEventFramesOptions *options) {
    static const char function[] = "cusEventFramesOpen";
    cusEventFrames *made = calloc(1, sizeof *made);
    if (!made) {
        cusEventReaderClose(owned);
        return cusi_fail(CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->process = getpid();
    made->options = options ? *options : cusEventFramesDefaults();
    made->reader = reader;
    made->owned = owned;
    cusStatus status = cusi_checkReserved(function, "options->", made->options.reserved);
    if (status == CUS_OK)
        status = open(made, representations, count);
    if (status != CUS_OK) {
        if (reader != owned && reader->index != made->place) { /* the caller's is where it was */
            const int silent = cusi_setSilence(1);
            (void)cusEventReaderSeekIndex(reader, (int64_t)made->place);
            (void)cusi_setSilence(silent);
        }
        cusEventFramesClose(made);
        return status;
    }
    *frames = made;
    return CUS_OK;
}

cusStatus cusEventFramesOpen(cusEventFrames **frames, const char *path, const cusEventReaderOptions *reader,
                             const cusRepresentation *representations, int count, const cusEventFramesOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventFramesOpen";
    CUSI_NOT_NULL(function, frames);
    CUSI_NOT_NULL(function, path);
    cusEventReader *opened;
    const cusStatus status = cusEventReaderOpen(&opened, path, reader);
    return status == CUS_OK ? CUSI_LONG(function, openFrames(frames, opened, opened, representations, count, options))
                            : cusi_renamed(function, status);
}

cusStatus cusEventFramesOpenReader(cusEventFrames **frames, cusEventReader *reader,
                                   const cusRepresentation *representations, int count,
                                   const cusEventFramesOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventFramesOpenReader";
    CUSI_NOT_NULL(function, frames);
    CUSI_NOT_NULL(function, reader);
    const cusStatus status = CUSI_LONG(function, openFrames(frames, reader, NULL, representations, count, options));
    return status == CUS_OK ? CUS_OK : cusi_renamed(function, status);
}

void cusEventFramesCancel(cusEventFrames *frames) {
    CUSI_TRACE;
    if (!frames || frames->process != getpid())
        return;
    pthread_mutex_lock(&frames->lock);
    frames->cancelled = 1;
    pthread_cond_broadcast(&frames->changed);
    pthread_mutex_unlock(&frames->lock);
}

void cusEventFramesClose(cusEventFrames *frames) {
    CUSI_TRACE;
    if (!frames)
        return;
    if (frames->process != getpid()) /* its threads are the parent's, which may have held locks and a device */
        return;
    cusEventFramesCancel(frames);
    stop(frames);
    cusEventPipelineDestroy(frames->pipeline);
    cusEventFilterDestroy(frames->filter);
    for (int k = 0; k < EVENTFRAMES_PIECES; ++k)
        eventframes_releasePiece(&frames->pieces[k]);
    cusEventReaderClose(frames->owned);
    pthread_cond_destroy(&frames->changed);
    pthread_mutex_destroy(&frames->lock);
    free(frames);
}

/* ---- Next ---------------------------------------------------------------------------------------------------------- */

/* Waits for a batch or the end; the lock is held. */
static void await(cusEventFrames *f, CusiProgress *progress) {
    while (f->offer != OFFERED && !f->ended && !f->cancelled) {
        if (!progress->callback) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&f->changed, &f->lock, &until);
        pthread_mutex_unlock(&f->lock);
        const int stop = cusi_step(progress, 0);
        pthread_mutex_lock(&f->lock);
        if (stop)
            return;
    }
}

static cusStatus next(cusEventFrames *f, cusFrameBatch *batch) {
    static const char function[] = "cusEventFramesNext";
    CUSI_NOT_NULL(function, batch);
    *batch = (cusFrameBatch){0};
    CUSI_REQUIRE(f->process == getpid(), CUS_ERROR_VALUE, "%s: called in process %ld, expected %ld, which has opened it",
                 function, (long)getpid(), (long)f->process);
    pthread_mutex_lock(&f->lock);
    if (f->offer == GIVEN) {
        f->offer = NOTHING;
        pthread_cond_broadcast(&f->changed);
    }
    await(f, cusi_progress());
    const int cancelled = f->cancelled, ended = f->ended;
    if (f->offer == OFFERED && !cancelled) {
        f->offer = GIVEN;
        *batch = f->batch;
        f->counts.windows += batch->count;
        if (!ended)
            f->counts.events = batch->windows[batch->count - 1].last;
    }
    pthread_mutex_unlock(&f->lock);
    if (batch->count)
        return CUS_OK;
    CUSI_REQUIRE(!cancelled, CUS_ERROR_CANCELLED, "%s: cancelled by cusEventFramesCancel", function);
    if (!ended)
        return cusi_proceed(cusi_progress());
    return f->status == CUS_OK ? CUS_OK : cusi_fail(f->status, "%s", f->message);
}

cusStatus cusEventFramesNext(cusEventFrames *frames, cusFrameBatch *batch) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventFramesNext", frames, NULL, CUSI_LONG("cusEventFramesNext", next(frames, batch)));
}

/* ---- Again ---------------------------------------------------------------------------------------------------------- */

static cusStatus restart(cusEventFrames *f) {
    static const char function[] = "cusEventFramesRestart";
    CUS_TRY(requireOwner(f, function));
    stop(f);
    pthread_mutex_lock(&f->lock);
    const int cancelled = f->cancelled;
    pthread_mutex_unlock(&f->lock);
    CUSI_REQUIRE(!cancelled, CUS_ERROR_CANCELLED, "%s: cancelled by cusEventFramesCancel", function);
    cusStatus status = cusEventPipelineFlush(f->pipeline); /* its sink does not wait now */
    if (status != CUS_OK && status != CUS_ERROR_TRUNCATED)
        return cusi_renamed(function, status);
    status = eventframes_createFilter(f);
    cusEventDecoderOptions decoder;
    cusEventDecoderState state;
    if (status == CUS_OK && f->decodes)
        status = cusEventReaderDecoder(f->reader, &decoder, &state);
    if (status == CUS_OK)
        status = f->decodes ? cusEventDecoderSetState(cusEventPipelineDecoder(f->pipeline), &state) : eventframes_seek(f);
    if (status != CUS_OK)
        return cusi_renamed(function, status);
    f->status = CUS_OK;
    return start(f);
}

cusStatus cusEventFramesRestart(cusEventFrames *frames) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventFramesRestart", frames, NULL, restart(frames));
}

/* ---- Queries -------------------------------------------------------------------------------------------------------- */

cusStatus cusEventFramesInfo(const cusEventFrames *frames, cusEventInfo *info) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusEventFramesInfo", frames);
    CUSI_NOT_NULL("cusEventFramesInfo", info);
    *info = frames->info;
    return CUS_OK;
}

cusStatus cusEventFramesQuery(cusEventFrames *frames, cusEventFramesCounts *counts) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusEventFramesQuery", frames);
    CUSI_NOT_NULL("cusEventFramesQuery", counts);
    pthread_mutex_lock(&frames->lock);
    *counts = frames->counts;
    pthread_mutex_unlock(&frames->lock);
    return CUS_OK;
}
