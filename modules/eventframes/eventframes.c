#include "eventframes/eventframes.h"
#include "check.h"
#include "eventio/evt/words.h"
#include "host.h"
#include "progress.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

cusEventFramesOptions cusEventFramesDefaults(void) {
    return (cusEventFramesOptions){.windowing = cusWindowingDefaults(), .from = INT64_MIN, .to = INT64_MAX};
}

/* ---- Threads ------------------------------------------------------------------------------------------------------- */

/* Wakes all waiting threads; the lock is held. */
static void wake(cusEventFrames *f) {
    pthread_cond_broadcast(&f->changed);
    pthread_cond_broadcast(&f->dealing);
    for (int k = 0; k < f->lane_count; ++k)
        pthread_cond_broadcast(&f->lanes[k].changed);
}

static void stop(cusEventFrames *f) {
    pthread_mutex_lock(&f->lock);
    f->stopping = 1;
    wake(f);
    pthread_mutex_unlock(&f->lock);
    if (f->deals)
        pthread_join(f->dealer, NULL);
    f->deals = 0;
    for (int i = 0; i < f->lane_count; ++i) {
        Lane *const lane = &f->lanes[i];
        if (lane->threads > 0)
            pthread_join(lane->ahead, NULL);
        if (lane->threads > 1)
            pthread_join(lane->maker, NULL);
        lane->threads = 0;
    }
}

static cusStatus requireOwner(const cusEventFrames *f, const char *function) {
    CUSI_REQUIRE(f->process == getpid(), CUS_ERROR_VALUE, "%s: called in process %ld, expected %ld, which has opened it",
                 function, (long)getpid(), (long)f->process);
    return CUS_OK;
}

/* ---- Open and close ------------------------------------------------------------------------------------------------ */

/* Returns whether the pipeline decodes the recording's bytes from the reader's position on. Words are always decoded;
 * compressed chunks only on a device, since the reader decompresses them on all cores. */
static int decodes(cusEventFrames *f, cusEventDecoderOptions *decoder, cusEventDecoderState *state) {
    if (f->options.filter || f->options.from != INT64_MIN || f->options.to != INT64_MAX ||
        cusEventReaderDecoder(f->reader, decoder, state) != CUS_OK)
        return 0;
    const int chunks = decoder->format == CUS_EVENTS_METAVISION || decoder->format == CUS_EVENTS_HDF5;
    return f->reader->index == (chunks ? f->reader->mark : state->index) && (!chunks || f->options.compute == CUS_DEVICE);
}

/* Moves the reader to where `whole` begins, and decides whether the pipeline decodes bytes and whether these are
 * pinned. */
static cusStatus chooseWay(cusEventFrames *f, cusEventDecoderOptions *decoder) {
    Job *const job = &f->whole;
    cusStatus status = job->has_mark ? cusEventReaderSeekMark(f->reader, &job->mark) : CUS_OK;
    f->decodes = status == CUS_OK && decodes(f, decoder, &job->state);
    f->pinned = f->decodes && f->options.compute == CUS_DEVICE ? f->source.pinned : NULL;
    if (f->decodes && job->has_mark)
        job->first_event = job->state.index;
    return status == CUS_OK && !f->decodes ? eventframes_seek(f) : status;
}

/* Several lanes need marks: all words of the recording, or of its shard, must be decoded. */
static cusStatus requireMark(cusEventFrames *f, int *is_there) {
    Job *const job = &f->whole;
    *is_there = f->decodes && eventio_isWords(f->reader) && f->reader->options.bad_events != CUS_BAD_EVENTS_SKIP &&
                (job->has_mark || f->place == 0);
    if (!*is_there || job->has_mark)
        return CUS_OK;
    eventio_markOf(&job->state, &job->mark);
    return f->options.windowing.unit == CUS_WINDOW_COUNT ? CUS_OK
                                                         : eventframes_timeAt(f, &job->mark, &job->origin, is_there);
}

static cusStatus createPipeline(Lane *lane, const cusRepresentation *representations, int count,
                                const cusEventDecoderOptions *decoder) {
    static const char function[] = "cusEventFramesOpen";
    enum { TO_DEVICE = 256 << 20, TO_HOST = 128 << 20, OF_HOST = 48 << 20 }; /* bytes of frames */
    cusEventFrames *const f = lane->frames;
    const cusEventFramesOptions *const o = &f->options;
    const cusEventPipelineOptions options = {.windowing = o->windowing,
                                             .first_window = f->whole.first_window,
                                             .end_window = f->whole.end_window,
                                             .compute = o->compute,
                                             .deliver = o->deliver,
                                             .max_events = o->max_events,
                                             .batch_windows = o->batch_windows,
                                             .max_gap = o->max_gap,
                                             .first_event = f->whole.first_event,
                                             .origin = f->whole.origin,
                                             .decoder = f->decodes ? decoder : NULL,
                                             .whole_batches = 1};
    const int is_given = o->rows || o->cols, is_device = o->compute == CUS_DEVICE;
    CUSI_REQUIRE(is_given || f->info.width, CUS_ERROR_SIZE,
                 "%s: rows and cols are 0, expected the size of the frames, since the recording does not have the sensor's",
                 function);
    const size_t room = f->lane_count == 1 ? 0 : !is_device ? OF_HOST : o->deliver == CUS_DEVICE ? TO_DEVICE : TO_HOST;
    cusStatus status =
        eventsCreatePipeline(&lane->pipeline, is_given ? o->rows : f->info.height, is_given ? o->cols : f->info.width,
                             representations, count, &options, room, eventframes_offer, lane);
    if (status == CUS_OK) {
        size_t windows;
        const uint64_t batches = (uint64_t)eventsBatches(lane->pipeline, &windows);
        lane->spare = o->deliver == o->compute ? batches - 1 : 0;
        f->job_windows = windows * (batches > 1 ? batches - 1 : 1);
        f->whole_windows = o->batch_windows ? windows : 1;
    }
    for (int k = 0; k < EVENTFRAMES_PIECES && status == CUS_OK; ++k)
        status = eventframes_createPiece(f, &lane->pieces[k], is_device);
    return status == CUS_OK ? CUS_OK : cusi_renamed(function, status);
}

/* Starts the threads of all lanes, and the dealer if there are several lanes. The threads block signals, which are
 * meant for the program's own. */
static cusStatus start(cusEventFrames *f) {
    const int is_dealt = f->lane_count > 1;
    pthread_mutex_lock(&f->lock); /* other threads may query the counts or cancel */
    f->stopping = f->ended = 0;
    f->claimed = f->turn = 0;
    f->dealt = !is_dealt;
    f->has_dealt = !is_dealt;
    f->jobs[0] = f->whole;
    f->in_use = NULL;
    f->status = CUS_OK;
    for (Lane *lane = f->lanes; lane < f->lanes + f->lane_count; ++lane) {
        lane->filled = lane->taken = lane->offered = lane->given = lane->released = 0;
        lane->has_all = 0;
    }
    f->counts = (cusEventFramesCounts){.last_time = -1,
                                       .first_window = f->whole.first_window,
                                       .end_window = f->whole.end_window,
                                       .size = f->decodes ? f->reader->source.size - f->info.start : 0};
    pthread_mutex_unlock(&f->lock);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = is_dealt && pthread_create(&f->dealer, NULL, eventframes_deal, f);
    f->deals = is_dealt && !failed;
    for (Lane *lane = f->lanes; lane < f->lanes + f->lane_count && !failed; ++lane) {
        failed = pthread_create(&lane->ahead, NULL, eventframes_readAhead, lane) || !++lane->threads ||
                 pthread_create(&lane->maker, NULL, eventframes_make, lane);
        lane->threads += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CUSI_REQUIRE(!failed, CUS_ERROR_NO_MEMORY, "cusEventFramesOpen: no thread can be started");
    return CUS_OK;
}

/* ---- Devices ------------------------------------------------------------------------------------------------------- */

/* Lists the devices that the options name; -1 is the host. */
static cusStatus chooseDevices(cusEventFrames *f, int *devices, int *count) {
    static const char function[] = "cusEventFramesOpen";
    const cusEventFramesOptions *const o = &f->options;
    const int is_host = o->compute != CUS_DEVICE;
    int available = 0;
    CUSI_REQUIRE(o->device_count >= CUS_ALL_DEVICES && o->device_count <= EVENTFRAMES_LANES, CUS_ERROR_VALUE,
                 "%s: device_count is %d, expected CUS_ALL_DEVICES or 0 to %d", function, o->device_count,
                 (int)EVENTFRAMES_LANES);
    CUSI_REQUIRE(!is_host || (!o->devices && o->device_count >= 0), CUS_ERROR_VALUE,
                 "%s: devices is %p and device_count %d, expected no device with compute CUS_HOST", function,
                 (const void *)o->devices, o->device_count);
    CUSI_REQUIRE(!o->devices || o->device_count > 0, CUS_ERROR_VALUE,
                 "%s: device_count is %d, expected the number of devices", function, o->device_count);
    *count = o->device_count ? o->device_count : 1;
    devices[0] = -1;
    if (!is_host && !o->device_count)
        return cusDeviceGet(&devices[0]);
    if (o->device_count == CUS_ALL_DEVICES) {
        CUS_TRY(cusDeviceCount(&available));
        *count = available < 1 ? 1 : available < EVENTFRAMES_LANES ? available : EVENTFRAMES_LANES;
    }
    for (int k = 0; k < *count; ++k)
        devices[k] = is_host ? -1 : o->devices ? o->devices[k] : k;
    return CUS_OK;
}

/* Creates a lane on each device that the recording can use. */
static cusStatus createLanes(cusEventFrames *f, const int *devices, int count, const cusRepresentation *representations,
                             int representation_count, const cusEventDecoderOptions *decoder) {
    const uint64_t parts = f->reader->source.size / eventframes_sizes.part + 1;
    int has_mark = 0;
    if (count > 1)
        CUS_TRY(requireMark(f, &has_mark));
    f->lane_count = !has_mark ? 1 : parts < (uint64_t)count ? (int)parts : count;
    f->job_room = f->lane_count > 1 ? 3 * (uint64_t)f->lane_count : 1;
    f->lane_threads = cusi_maxThreads() / f->lane_count + 1;
    f->lanes = calloc((size_t)f->lane_count, sizeof *f->lanes);
    f->jobs = calloc((size_t)f->job_room, sizeof *f->jobs);
    f->lane_count = f->lanes ? f->lane_count : 0;
    for (int k = 0; k < f->lane_count; ++k) {
        f->lanes[k].frames = f;
        f->lanes[k].device = devices[k];
        pthread_cond_init(&f->lanes[k].changed, NULL);
    }
    CUSI_REQUIRE(f->lanes && f->jobs, CUS_ERROR_NO_MEMORY, "cusEventFramesOpen: no host memory");
    for (int k = 0; k < f->lane_count; ++k) {
        if (devices[k] >= 0)
            CUS_TRY(cusDeviceSet(devices[k]));
        CUS_TRY(createPipeline(&f->lanes[k], representations, representation_count, decoder));
    }
    return CUS_OK;
}

/* Leaves the current device as it was. */
static void destroyLanes(cusEventFrames *f) {
    int before = -1;
    const int moves = f->lane_count > 0 && f->lanes[0].device >= 0 && cusDeviceGet(&before) == CUS_OK;
    for (int i = 0; i < f->lane_count; ++i) {
        Lane *const lane = &f->lanes[i];
        if (lane->device >= 0)
            (void)cusDeviceSet(lane->device);
        cusEventPipelineDestroy(lane->pipeline);
        for (int k = 0; k < EVENTFRAMES_PIECES; ++k)
            eventframes_releasePiece(&lane->pieces[k]);
        pthread_cond_destroy(&lane->changed);
    }
    if (moves)
        (void)cusDeviceSet(before);
    free(f->lanes);
    free(f->jobs);
    free(f->known);
}

/* ---- Open and close ------------------------------------------------------------------------------------------------ */

static cusStatus openLanes(cusEventFrames *f, const cusRepresentation *representations, int count) {
    static const char function[] = "cusEventFramesOpen";
    f->info = f->reader->info;
    f->source = f->reader->source;
    f->place = f->reader->index;
    f->whole.first_window = f->options.first_window;
    f->whole.end_window = f->options.end_window;
    int devices[EVENTFRAMES_LANES], device_count, before = -1;
    cusStatus status = chooseDevices(f, devices, &device_count);
    f->options.devices = NULL; /* belongs to the caller */
    if (status == CUS_OK && f->options.filter)
        f->filter_options = *f->options.filter;
    if (status == CUS_OK)
        status = eventframes_createFilter(f);
    if (status == CUS_OK)
        status = eventframes_takeShard(f);
    cusEventDecoderOptions decoder;
    if (status == CUS_OK)
        status = chooseWay(f, &decoder);
    if (status == CUS_OK && f->options.compute == CUS_DEVICE)
        status = cusDeviceGet(&before);
    if (status != CUS_OK)
        return cusi_renamed(function, status);
    status = createLanes(f, devices, device_count, representations, count, &decoder);
    if (before >= 0)
        (void)cusDeviceSet(before);
    return status == CUS_OK ? start(f) : cusi_renamed(function, status);
}

/* Takes ownership of `owned` even if it fails. */
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
    pthread_cond_init(&made->dealing, NULL);
    made->process = getpid();
    made->options = options ? *options : cusEventFramesDefaults();
    made->reader = reader;
    made->owned = owned;
    cusStatus status = cusi_checkReserved(function, "options->", made->options.reserved);
    if (status == CUS_OK)
        status = openLanes(made, representations, count);
    if (status != CUS_OK) {
        if (reader != owned && reader->index != made->place) { /* the caller's reader returns to its place */
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
    wake(frames);
    pthread_mutex_unlock(&frames->lock);
}

void cusEventFramesClose(cusEventFrames *frames) {
    CUSI_TRACE;
    if (!frames)
        return;
    if (frames->process != getpid()) /* the threads belong to the parent; they may have held locks and a device */
        return;
    cusEventFramesCancel(frames);
    stop(frames);
    destroyLanes(frames);
    cusEventFilterDestroy(frames->filter);
    cusEventReaderClose(frames->owned);
    pthread_cond_destroy(&frames->dealing);
    pthread_cond_destroy(&frames->changed);
    pthread_mutex_destroy(&frames->lock);
    free(frames);
}

/* ---- Next ---------------------------------------------------------------------------------------------------------- */

/* Adds a job's counts. The first failure ends the frames. */
static void collect(cusEventFrames *f, const Outcome *outcome) {
    const cusEventCounts *const read = &outcome->read;
    cusEventCounts *const sum = &f->counts.read;
    f->counts.events = outcome->events - f->whole.first_event;
    f->counts.last_time = outcome->last_time;
    f->counts.skipped += outcome->skipped;
    if (f->decodes)
        *sum = (cusEventCounts){.events = sum->events + read->events,
                                .triggers_rising = sum->triggers_rising + read->triggers_rising,
                                .triggers_falling = sum->triggers_falling + read->triggers_falling,
                                .bad_coordinates = sum->bad_coordinates + read->bad_coordinates,
                                .bad_polarity = sum->bad_polarity + read->bad_polarity,
                                .bad_time = sum->bad_time + read->bad_time,
                                .untimed = sum->untimed + read->untimed,
                                .bad_words = sum->bad_words + read->bad_words};
    if (outcome->status == CUS_OK)
        return;
    f->ended = 1;
    f->status = outcome->status;
    memcpy(f->message, outcome->message, sizeof f->message);
}

/* Lets the lane reuse the batch. */
static void release(Lane *lane) {
    ++lane->released;
    pthread_cond_broadcast(&lane->changed);
}

/* Returns the lane that has the next batch, or NULL; the lock is held. Moves the turn past finished jobs. */
static Lane *ready(cusEventFrames *f) {
    while (!f->ended && f->turn < f->claimed) {
        const Job *const job = &f->jobs[f->turn % f->job_room];
        Lane *const lane = &f->lanes[job->lane];
        const Offer *const offer = &lane->offers[lane->given % EVENTS_MAX_BATCHES];
        if (lane->offered > lane->given && offer->job == f->turn) {
            if (offer->batch.count)
                return lane;
            ++lane->given;
            release(lane);
            continue;
        }
        if (!job->is_done)
            return NULL;
        collect(f, &job->outcome);
        ++f->turn;
        pthread_cond_broadcast(&f->dealing);
    }
    if (f->has_dealt && f->turn == f->dealt)
        f->ended = 1;
    if (f->ended)
        wake(f);
    return NULL;
}

/* Waits for the next batch or the end, and returns the batch's lane; the lock is held. */
static Lane *await(cusEventFrames *f, CusiProgress *progress) {
    Lane *lane = NULL;
    while (!f->cancelled && !(lane = ready(f)) && !f->ended) {
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
            return NULL;
    }
    return lane;
}

static cusStatus next(cusEventFrames *f, cusFrameBatch *batch) {
    static const char function[] = "cusEventFramesNext";
    CUSI_NOT_NULL(function, batch);
    *batch = (cusFrameBatch){0};
    CUSI_REQUIRE(f->process == getpid(), CUS_ERROR_VALUE, "%s: called in process %ld, expected %ld, which has opened it",
                 function, (long)getpid(), (long)f->process);
    pthread_mutex_lock(&f->lock);
    if (f->in_use)
        release(f->in_use);
    f->in_use = NULL;
    Lane *const lane = await(f, cusi_progress());
    const int cancelled = f->cancelled, ended = f->ended;
    if (lane && !cancelled) {
        f->in_use = lane;
        *batch = lane->offers[lane->given++ % EVENTS_MAX_BATCHES].batch;
        f->counts.windows += batch->count;
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
    f->knows_all &= f->ended && f->status == CUS_OK; /* the damage may be gone */
    pthread_mutex_unlock(&f->lock);
    CUSI_REQUIRE(!cancelled, CUS_ERROR_CANCELLED, "%s: cancelled by cusEventFramesCancel", function);
    cusStatus status = eventframes_createFilter(f);
    cusEventDecoderOptions decoder;
    if (status == CUS_OK && f->lane_count == 1) /* several lanes seek by themselves */
        status = f->decodes ? cusEventReaderDecoder(f->reader, &decoder, &f->whole.state) : eventframes_seek(f);
    return status == CUS_OK ? start(f) : cusi_renamed(function, status);
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
