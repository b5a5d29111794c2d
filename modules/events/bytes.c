/* Recordings that arrive as raw bytes. The host backend decodes each piece and pushes its events. The device backend
 * uploads the bytes to alternating buffers, unless they are a packet (packets.c), and decodes them behind the staged
 * events; the host learns only their number, the last time and the bounds of windows. */
#include "check.h"
#include "device.h"
#include "events/pipeline.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 3, MIN_BYTES = 4096, HOST_EVENTS = 65536 };

typedef struct Sent {
    const uint8_t *from;
    size_t size;
} Sent;

struct EventsBytes {
    cusEventDecoder *decoder;
    cusMat decoded[EVENTS_ARRAYS]; /* host: events of one run */
    /* Device */
    int piece_bytes;
    cusMat pinned[BUFFERS], device[BUFFERS]; /* each 1 x piece_bytes */
    cusStreamEvent uploaded[BUFFERS];
    Sent sent[BUFFERS]; /* pieces whose upload is queued and that are not decoded; the first is in buffer `turn` */
    int sent_count, turn;
    EventsFollowing following;
    void *user;
    cusMat done;                      /* page-locked cusEventDecoded that the decoder writes */
    uint64_t *gap;                    /* device memory for events_cuda_findGap() */
    uint64_t last_events, last_bytes; /* the last run's, for likelyToFit() */
    int decoder_failed;               /* the decoder failed, which later calls must not report as the pipeline's failure */
};

/* ---- Create and destroy ------------------------------------------------------------------------------------------ */

static cusStatus createDevice(cusEventPipeline *s, struct EventsBytes *b, const cusEventDecoderOptions *decoder) {
    for (int k = 0; k < BUFFERS; ++k) {
        CUS_TRY(cusMatCreatePinned(&b->pinned[k], 1, b->piece_bytes, CUS_8UC1));
        CUS_TRY(cusMatCreate(&b->device[k], 1, b->piece_bytes, CUS_8UC1, CUS_DEVICE));
        CUS_TRY(cusStreamEventCreate(&b->uploaded[k]));
    }
    CUS_TRY(cusMatCreatePinned(&b->done, 1, (int)sizeof(cusEventDecoded), CUS_8UC1));
    memset(b->done.data, 0, sizeof(cusEventDecoded));
    CUS_TRY(eventsPacketsCreate(s, decoder));
    if (!eventsByDuration(s))
        return CUS_OK;
    CUS_TRY(cusMatCreatePinned(&s->bounds, 1, (int)((s->batch + 1) * sizeof(cusEventWindow)), CUS_8UC1));
    return cusi_deviceAllocate("cusEventPipelineCreate", sizeof *b->gap, (void **)&b->gap);
}

cusStatus eventsBytesCreate(cusEventPipeline *s) {
    static const char function[] = "cusEventPipelineCreate";
    struct EventsBytes *b = calloc(1, sizeof *b);
    CUSI_REQUIRE(b, CUS_ERROR_NO_MEMORY, "%s: no host memory", function);
    s->bytes = b;
    cusEventDecoderOptions options = *s->options.decoder;
    s->options.decoder = NULL; /* belongs to the caller */
    options.space = s->options.compute;
    /* A block takes a millisecond for a column of a chunk of some 0.3 MB, so few chunks would leave the device idle. */
    b->piece_bytes = options.format == CUS_EVENTS_HDF5 ? 64 << 20 : 16 << 20;
    options.max_bytes = (size_t)b->piece_bytes;
    const cusStatus status = cusEventDecoderCreate(&b->decoder, &options);
    if (status != CUS_OK)
        return cusi_renamed(function, status);
    if (options.space == CUS_DEVICE)
        return createDevice(s, b, &options);
    for (int k = 0; k < EVENTS_ARRAYS; ++k)
        CUS_TRY(cusMatCreate(&b->decoded[k], 1, HOST_EVENTS, events_array_types[k], CUS_HOST));
    return CUS_OK;
}

void eventsBytesDestroy(cusEventPipeline *s) {
    struct EventsBytes *b = s->bytes;
    if (!b)
        return;
    cusEventDecoderDestroy(b->decoder);
    for (int k = 0; k < EVENTS_ARRAYS; ++k)
        cusMatRelease(&b->decoded[k]);
    for (int k = 0; k < BUFFERS; ++k) {
        cusMatRelease(&b->pinned[k]);
        cusMatRelease(&b->device[k]);
        cusStreamEventDestroy(b->uploaded[k]);
    }
    cusMatRelease(&b->done);
    cusMatRelease(&s->bounds);
    eventsPacketsDestroy(s);
    if (b->gap)
        cusi_deviceFree(b->gap);
    free(b);
}

cusStatus eventsBytesFinish(cusEventPipeline *s) {
    const cusStatus status = cusEventDecoderFinish(s->bytes->decoder, s->compute);
    return status == CUS_OK ? CUS_OK : cusi_renamed("cusEventPipelineFlush", status);
}

cusEventDecoder *cusEventPipelineDecoder(cusEventPipeline *pipeline) {
    return pipeline && pipeline->bytes ? pipeline->bytes->decoder : NULL;
}

/* ---- On the host ------------------------------------------------------------------------------------------------- */

static cusStatus pushOnHost(cusEventPipeline *s, const char *function, const uint8_t *bytes, size_t size) {
    struct EventsBytes *b = s->bytes;
    const cusEventBuffers to = {
        b->decoded[0].data, b->decoded[1].data, b->decoded[2].data, b->decoded[3].data, HOST_EVENTS, NULL, 0};
    cusEventDecoded done;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)size);
    do {
        const cusStatus status = cusEventDecoderRun(b->decoder, bytes, size, &to, &done, NULL);
        if (status != CUS_OK && status != CUS_ERROR_CAPACITY && status != CUS_ERROR_FORMAT)
            return status;
        s->counts.decoded = done.counts;
        const cusEventArrays events = {to.x, to.y, to.p, to.t, (size_t)done.count, CUS_HOST};
        CUS_TRY(CUSI_LONG(function, eventsPush(s, function, &events)));
        cusi_step(progress, (int64_t)done.used);
        CUS_TRY(cusi_proceed(progress));
        bytes += done.used;
        size -= (size_t)done.used;
    } while (done.status == CUS_ERROR_CAPACITY);
    b->decoder_failed = done.status == CUS_ERROR_FORMAT;
    return b->decoder_failed ? cusEventDecoderCheck(b->decoder, NULL, NULL) : CUS_OK; /* sets the message again */
}

/* ---- On the device ----------------------------------------------------------------------------------------------- */

/* Looks among the staged events from index `first` on for a step in time longer than max_gap allows. If there is one, sets
 * *failed, drops the events after it, and returns the times before and after it in s->newest and *after. */
static cusStatus checkGaps(cusEventPipeline *s, size_t first, int64_t newest, int *failed, int64_t *after) {
    const uint64_t limit = eventsGapLimit(s);
    const int64_t *t = eventsStaged(s, 3, 0);
    *failed = 0;
    while ((uint64_t)newest - (uint64_t)s->newest > limit) {
        uint64_t index = 0;
        int64_t times[2] = {0};
        CUS_TRY(CUSI_BACKEND(
            "cusEventPipelinePushBytes", CUS_DEVICE, CUS_OK,
            events_cuda_findGap(t + first, s->held - first, s->newest, limit, s->bytes->gap, &index, times, s->compute)));
        if (index == s->held - first)
            break;
        s->newest = times[0];
        if (eventsCheckGap(s, times[1]) != CUS_OK) {
            *failed = 1;
            *after = times[1];
            s->held = first + (size_t)index;
            return CUS_OK;
        }
        s->newest = times[1];
        first += (size_t)index + 1;
    }
    s->newest = newest;
    return CUS_OK;
}

/* Stages the events that a run has decoded and makes frames of them. */
static cusStatus stageDecoded(cusEventPipeline *s, const cusEventDecoded *done) {
    const size_t before = s->held;
    int failed = 0;
    int64_t after = 0;
    s->counts.decoded = done->counts;
    if (done->count > 0) {
        if (s->pushed == 0)
            s->origin = s->newest = done->first_time;
        s->held += (size_t)done->count;
        if (eventsByDuration(s))
            CUS_TRY(checkGaps(s, before, done->last_time, &failed, &after));
        s->pushed += s->held - before;
        s->counts.events += s->held - before;
    }
    const size_t staged = s->held;
    CUS_TRY(eventsSubmitStaged(s, 0));
    if (failed) /* sets the message again */
        return eventsCheckGap(s, after);
    const int full = done->status == CUS_ERROR_CAPACITY || s->held > s->capacity;
    CUSI_REQUIRE(!full || s->held < staged, CUS_ERROR_CAPACITY,
                 "cusEventPipelinePushBytes: window %llu has more than max_events = %zu events",
                 (unsigned long long)s->next, s->capacity);
    return CUS_OK;
}

/* Estimates how many of `left` bytes decode to events that fit; overflowing is slow. */
static size_t likelyToFit(const cusEventPipeline *s, size_t left) {
    const struct EventsBytes *b = s->bytes;
    const uint64_t room = eventsRoom(s);
    const uint64_t bytes = b->last_events ? room * b->last_bytes / b->last_events / 8 * 7 : room;
    const uint64_t likely = bytes > MIN_BYTES ? bytes : MIN_BYTES;
    return likely < left ? (size_t)likely : left;
}

static cusStatus decode(cusEventPipeline *s, const uint8_t *bytes, size_t size, int is_packet) {
    struct EventsBytes *b = s->bytes;
    cusEventDecoded *const done = b->done.data;
    for (size_t used = 0, piece; used < size; used += done->status == CUS_OK ? piece : (size_t)done->used) {
        CUS_TRY(eventsMakeRoom(s, is_packet ? eventsPacketMost(size - used) : SIZE_MAX));
        const cusEventBuffers to = {.x = eventsStaged(s, 0, s->held),
                                    .y = eventsStaged(s, 1, s->held),
                                    .p = eventsStaged(s, 2, s->held),
                                    .t = eventsStaged(s, 3, s->held),
                                    .capacity = eventsRoom(s)};
        piece = likelyToFit(s, size - used);
        s->packets.adds = 0;
        CUS_TRY(is_packet ? eventsPacketRun(s, bytes + used, piece, &to, done)
                          : cusEventDecoderRun(b->decoder, bytes + used, piece, &to, done, s->compute));
        CUS_TRY(cusStreamSynchronize(s->compute));
        const cusStatus status = done->status == CUS_OK ? CUS_OK : cusEventDecoderCheck(b->decoder, NULL, s->compute);
        if (status != CUS_OK && status != CUS_ERROR_CAPACITY && status != CUS_ERROR_FORMAT)
            return status;
        b->last_events = done->count;
        b->last_bytes = done->used;
        eventsPacketRead(s, done);
        CUS_TRY(stageDecoded(s, done));
        CUS_TRY(eventsPacketSettle(s));
        b->decoder_failed = done->status == CUS_ERROR_FORMAT;
        if (b->decoder_failed)
            return cusEventDecoderCheck(b->decoder, NULL, s->compute); /* sets the message again */
    }
    return CUS_OK;
}

/* Large pieces need fewer waits. */
static size_t pieceOf(const struct EventsBytes *b, size_t size) {
    const size_t quarter = size / 4, most = (size_t)b->piece_bytes;
    return quarter > most ? most : quarter > most / 2 ? quarter : most / 2;
}

static int isPinned(const void *bytes) {
    return CUSI_BACKEND("cusEventPipelinePushBytes", CUS_DEVICE, 0, events_cuda_isPinned(bytes));
}

/* Queues the upload of bytes into a buffer that is free. */
static cusStatus send(cusEventPipeline *s, const uint8_t *from, size_t size, int pinned) {
    struct EventsBytes *b = s->bytes;
    const int k = (b->turn + b->sent_count) % BUFFERS;
    if (!pinned)
        memcpy(b->pinned[k].data, from, size);
    CUS_TRY(cusi_deviceCopy("cusEventPipelinePushBytes", b->device[k].data, size, pinned ? from : b->pinned[k].data, size,
                            size, 1, s->up));
    CUS_TRY(cusStreamEventRecord(b->uploaded[k], s->up));
    b->sent[b->sent_count++] = (Sent){from, size};
    return CUS_OK;
}

/* Keeps what the push before has sent of these bytes, and returns its size. */
static size_t sentAhead(struct EventsBytes *b, const uint8_t *bytes, size_t size) {
    size_t sent = 0;
    for (int k = 0; k < b->sent_count; ++k) {
        if (b->sent[k].from != bytes + sent || b->sent[k].size > size - sent)
            b->sent_count = k;
        else
            sent += b->sent[k].size;
    }
    return sent;
}

/* Fills the free buffers with bytes from *at to the end, then with those that follow, from *ahead on. */
static cusStatus sendAll(cusEventPipeline *s, const uint8_t **at, const uint8_t *end, size_t piece, int pinned,
                         size_t *ahead) {
    struct EventsBytes *b = s->bytes;
    while (b->sent_count < BUFFERS && *at < end) {
        const size_t left = (size_t)(end - *at), size = left < piece ? left : piece;
        CUS_TRY(send(s, *at, size, pinned));
        *at += size;
    }
    const void *next = NULL;
    size_t all = 0;
    while (b->sent_count < BUFFERS && b->following && b->following(b->user, &next, &all) && *ahead < all &&
           isPinned(next)) {
        const size_t left = all - *ahead, most = pieceOf(b, all), size = left < most ? left : most;
        CUS_TRY(send(s, (const uint8_t *)next + *ahead, size, 1));
        *ahead += size;
    }
    return CUS_OK;
}

static cusStatus pushOnDevice(cusEventPipeline *s, const uint8_t *bytes, size_t size) {
    struct EventsBytes *b = s->bytes;
    const int pinned = isPinned(bytes);
    const size_t piece = pieceOf(b, size);
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, (int64_t)size);
    if (s->packets.on && size <= CUSI_PACKET_BYTES) {
        if (!pinned)
            memcpy(b->pinned[0].data, bytes, size);
        CUS_TRY(decode(s, pinned ? bytes : b->pinned[0].data, size, 1));
        cusi_step(progress, (int64_t)size);
        return cusi_proceed(progress);
    }
    const uint8_t *at = bytes + sentAhead(b, bytes, size);
    size_t ahead = 0;
    for (size_t used = 0; used < size;) {
        CUS_TRY(sendAll(s, &at, bytes + size, piece, pinned, &ahead));
        const Sent first = b->sent[0];
        CUS_TRY(cusStreamWaitEvent(s->compute, b->uploaded[b->turn]));
        CUS_TRY(decode(s, b->device[b->turn].data, first.size, 0));
        used += first.size;
        memmove(b->sent, b->sent + 1, (size_t)--b->sent_count * sizeof *b->sent);
        b->turn = (b->turn + 1) % BUFFERS;
        cusi_step(progress, (int64_t)first.size);
        CUS_TRY(cusi_proceed(progress));
    }
    return CUS_OK;
}

void eventsBytesFollow(cusEventPipeline *s, EventsFollowing following, void *user) {
    s->bytes->following = following;
    s->bytes->user = user;
}

void eventsBytesForget(cusEventPipeline *s) {
    if (s->bytes)
        s->bytes->sent_count = 0;
}

static cusStatus pushBytes(cusEventPipeline *s, const void *bytes, size_t size) {
    static const char function[] = "cusEventPipelinePushBytes";
    CUS_TRY(eventsStartOfPush(s, function, 1));
    CUSI_REQUIRE(bytes || !size, CUS_ERROR_NULL, "%s: bytes is NULL and size %zu", function, size);
    if (size == 0)
        return CUS_OK;
    s->bytes->decoder_failed = 0;
    const cusStatus status = s->resident ? pushOnDevice(s, bytes, size) : pushOnHost(s, function, bytes, size);
    if (status == CUS_OK)
        return status;
    (void)cusi_renamed(function, status);
    if (s->resident) { /* the caller's bytes are no longer read */
        (void)cusi_deviceFinish(function, s->up);
        eventsBytesForget(s);
        if (s->packets.on)
            (void)cusi_deviceFinish(function, s->compute);
    }
    return s->bytes->decoder_failed ? status : eventsRemember(s, status);
}

cusStatus cusEventPipelinePushBytes(cusEventPipeline *pipeline, const void *bytes, size_t size) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventPipelinePushBytes", pipeline, NULL,
                 CUSI_LONG("cusEventPipelinePushBytes", pushBytes(pipeline, bytes, size)));
}
