/* What cusEventFrames asks of a pipeline beyond the public calls: to move to another place of its recording. */
#ifndef CUSI_EVENTS_PLACE_H
#define CUSI_EVENTS_PLACE_H

#include "cusight/events.h"

/* Like the options of cusEventPipelineOptions with these names. */
typedef struct EventsPlace {
    uint64_t first_window, end_window, first_event;
    int64_t origin;
    uint64_t whole_end; /* gaps before this window are errors, even after end_window; 0: no end */
} EventsPlace;

enum { EVENTS_MAX_BATCHES = 17 };

/* Like cusEventPipelineCreate, with room for about `room` bytes of frames in up to EVENTS_MAX_BATCHES batches; 0: for
 * as many as the pipeline needs. If `deliver` is `compute`, the sink may return while the caller still uses the batch
 * and up to eventsBatches() - 2 before it. */
cusStatus eventsCreatePipeline(cusEventPipeline **pipeline, int rows, int cols, const cusRepresentation *representations,
                               int count, const cusEventPipelineOptions *options, size_t room, cusFrameSink sink,
                               void *user);

/* Forgets the recording, failures and undelivered frames; the next push begins at the place. The caller sets a
 * decoder's state. Counts continue. */
cusStatus eventsGoTo(cusEventPipeline *pipeline, const EventsPlace *place);

/* Returns whether the bytes that the next push will begin with are there; they stay until then. */
typedef int (*EventsFollowing)(void *user, const void **bytes, size_t *size);
/* While the pipeline decodes the last bytes of a push on a device, it uploads page-locked ones of the next. */
void eventsBytesFollow(cusEventPipeline *pipeline, EventsFollowing following, void *user);

/* Makes no more windows from `end_window` on. */
void eventsEndAt(cusEventPipeline *pipeline, uint64_t end_window);

/* Does cusEventPipelineQuery without `skipped`, which would wait. */
void eventsCount(const cusEventPipeline *pipeline, cusEventPipelineCounts *counts);

/* Returns the number of batches; *windows receives the windows of each. */
int eventsBatches(const cusEventPipeline *pipeline, size_t *windows);

#endif
