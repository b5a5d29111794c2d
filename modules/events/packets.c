/* Packets of bytes in a pipeline with `low_latency`: pieces that one kernel decodes while it adds their events to the sums
 * of the next two windows (event_packets.h). A second kernel follows at once; it makes the frame of the first window if
 * that ends in the packet. The events are staged as ever, so whatever the sums cannot serve is made from events: a packet
 * with bad events or with events past both windows, and windows that began before such a packet. */
#include "check.h"
#include "device.h"
#include "events/pipeline.h"

static CusiSumsKind kindOf(const cusRepresentation *r) {
    switch (r->kind) {
    case CUS_REPR_HISTOGRAM:
        return CUSI_SUMS_COUNTS;
    case CUS_REPR_EVENT_DIFF:
        return r->clip_each_event ? CUSI_SUMS_NONE : CUSI_SUMS_DIFFERENCE;
    case CUS_REPR_TIME_SURFACE:
        return r->surface == CUS_SURFACE_EXPONENTIAL && !r->window_times && r->depth == CUS_32F ? CUSI_SUMS_TIMES
                                                                                                : CUSI_SUMS_NONE;
    default:
        return CUSI_SUMS_NONE;
    }
}

static size_t rowBytes(const CusiPacketSums *sums) {
    return (size_t)sums->row_sums * (sums->kind == CUSI_SUMS_TIMES ? 8 : 4);
}

cusStatus eventsPacketsCreate(cusEventPipeline *s, const cusEventDecoderOptions *decoder) {
    static const char function[] = "cusEventPipelineCreate";
    EventsPackets *p = &s->packets;
    const cusWindowing *windowing = &s->options.windowing;
    const cusRepresentation *r = &s->stacker->representations[0];
    p->on = s->options.low_latency && (decoder->format == CUS_EVENTS_EVT2 || decoder->format == CUS_EVENTS_EVT3);
    if (!p->on)
        return CUS_OK;
    const CusiSumsKind kind = kindOf(r);
    const uint32_t channels = kind == CUSI_SUMS_DIFFERENCE ? 1 : 2;
    CusiPacketSums sums = {.kind = kind,
                           .rows = (uint32_t)s->rows,
                           .cols = (uint32_t)s->cols,
                           .row_sums = ((uint32_t)s->cols * channels + 3) / 4 * 4,
                           .swap = kind != CUSI_SUMS_DIFFERENCE && r->swap_channels,
                           .by_duration = eventsByDuration(s),
                           .lengths = {windowing->length, windowing->length - !eventsByDuration(s)}};
    const cusMat *frames = &s->batches[0].frames[0];
    if (kind == CUSI_SUMS_NONE || s->representations > 1 || eventsStride(windowing) != windowing->length ||
        (uint64_t)sums.rows * sums.row_sums >= (uint64_t)1 << 30 || frames->step % 16)
        return CUS_OK;
    enum { done_bytes = 2 * sizeof(CusiPacketDone) };
    _Static_assert(done_bytes % 16 == 0, "kernels move sums in vectors");
    CUS_TRY(cusMatCreatePinned(&p->report, 1, (int)sizeof(CusiPacketDone), CUS_8UC1));
    CUS_TRY(cusi_deviceAllocate(function, done_bytes + 2 * sums.rows * rowBytes(&sums), &p->memory));
    CUS_TRY(cusi_deviceZero(function, p->memory, done_bytes, done_bytes, 1, s->compute));
    p->sums = sums;
    p->in_use = 1;
    return eventsPacketsForget(s);
}

void eventsPacketsDestroy(cusEventPipeline *s) {
    cusMatRelease(&s->packets.report);
    if (s->packets.memory)
        cusi_deviceFree(s->packets.memory);
}

/* Returns the sums of a window, of which every second one has the same. */
static void *sumsOf(const EventsPackets *p, uint64_t window) {
    return (char *)((CusiPacketDone *)p->memory + 2) + window % 2 * p->sums.rows * rowBytes(&p->sums);
}

static cusStatus clear(cusEventPipeline *s, uint64_t window) {
    EventsPackets *p = &s->packets;
    const size_t bytes = rowBytes(&p->sums);
    p->newest[window % 2] = p->outside[window % 2] = 0;
    return cusi_deviceZero("cusEventPipelinePushBytes", sumsOf(p, window), bytes, bytes, p->sums.rows, s->compute);
}

cusStatus eventsPacketsForget(cusEventPipeline *s) {
    EventsPackets *p = &s->packets;
    p->knows_end = p->is_made = 0;
    p->sound = s->next + (s->held > 0);
    for (uint64_t k = 0; p->in_use && k < 2; ++k)
        CUS_TRY(clear(s, k));
    p->in_use = 0;
    return CUS_OK;
}

/* Sets the windows that the next packet's events are added to, and p->room. Returns 0 if they cannot be. The staged events
 * belong to the first one. */
static int chooseWindows(cusEventPipeline *s, CusiPacketSums *sums) {
    EventsPackets *p = &s->packets;
    const uint64_t length = sums->lengths[0], end = s->options.end_window;
    if (sums->kind == CUSI_SUMS_NONE || (end && s->next >= end))
        return 0;
    if (sums->by_duration) { /* before the first event no window has a time */
        const uint64_t most = (uint64_t)INT64_MAX - (uint64_t)s->origin;
        sums->begin = (int64_t)((uint64_t)s->origin + s->next * length);
        p->room = UINT64_MAX;
        return s->pushed > 0 && s->next <= most / length;
    }
    const uint64_t passed = s->pushed - s->next * length;
    sums->begin = (int64_t)(0 - passed);
    p->room = length - passed;
    return s->pushed >= s->next * length && passed < length;
}

cusStatus eventsPacketRun(cusEventPipeline *s, const void *bytes, size_t size, const cusEventBuffers *to,
                          cusEventDecoded *done) {
    EventsPackets *p = &s->packets;
    const Batch *batch = &s->batches[s->filling];
    CusiPacketSums sums = p->sums;
    p->adds = chooseWindows(s, &sums);
    if (!p->adds) {
        sums.kind = CUSI_SUMS_NONE;
        return cusi_decodePacket(cusEventPipelineDecoder(s), bytes, size, to, done, &sums, s->compute);
    }
    CusiPacketDone *const memory = p->memory;
    sums.done = memory + p->turn;
    p->turn = !p->turn;
    p->in_use = 1;
    for (uint64_t k = 0; k < 2; ++k)
        sums.sums[k] = sumsOf(p, s->next + k);
    CUS_TRY(cusi_decodePacket(cusEventPipelineDecoder(s), bytes, size, to, done, &sums, s->compute));
    const EventsSumsFrame from = {.sums = &sums,
                                  .newest = p->newest[s->next % 2],
                                  .outside = p->outside[s->next % 2],
                                  .room = p->room,
                                  .makes = s->next >= p->sound,
                                  .next = memory + p->turn,
                                  .report = p->report.data};
    cusMat frame = batch->frames[0];
    frame.data = (char *)frame.data + batch->count * (size_t)s->rows * frame.step;
    return CUSI_BACKEND("cusEventPipelinePushBytes", CUS_DEVICE, CUS_OK,
                        events_cuda_frameOfSums(s->stacker, &from, &frame, s->compute));
}

void eventsPacketRead(cusEventPipeline *s, const cusEventDecoded *done) {
    EventsPackets *p = &s->packets;
    const CusiPacketDone *report = p->report.data;
    p->knows_end = p->is_made = 0;
    p->adds = p->adds && done->status == CUS_OK && !report->spoiled;
    if (!p->adds) {
        p->sound = UINT64_MAX;
        return;
    }
    for (uint64_t k = 0; k < 2; ++k) {
        const uint64_t w = (s->next + k) % 2;
        p->newest[w] = report->newest[k] > p->newest[w] ? report->newest[k] : p->newest[w];
        p->outside[w] += report->outside[k];
    }
    p->is_made = s->next >= p->sound && eventsEndsWindow(report, p->room);
    if (p->is_made) /* and the sums are cleared */
        p->newest[s->next % 2] = p->outside[s->next % 2] = 0;
    p->knows_end = eventsByDuration(s);
    p->end = s->held + (size_t)report->in_first;
}

cusStatus eventsPacketSettle(cusEventPipeline *s) {
    return s->packets.adds ? CUS_OK : eventsPacketsForget(s);
}

cusStatus eventsPacketsTake(cusEventPipeline *s, size_t count, int *is_made) {
    EventsPackets *p = &s->packets;
    *is_made = p->is_made && count == 1;
    p->is_made = 0;
    for (size_t k = 0; !*is_made && p->in_use && k < count && k < 2; ++k)
        CUS_TRY(clear(s, s->next + k));
    return CUS_OK;
}
