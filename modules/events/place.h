/* What cusEventFrames asks of a pipeline beyond the public calls: to go to another place of its recording. */
#ifndef CUSI_EVENTS_PLACE_H
#define CUSI_EVENTS_PLACE_H

#include "cusight/events.h"

/* As the options of cusEventPipelineOptions with these names. */
typedef struct EventsPlace {
    uint64_t first_window, end_window, first_event;
    int64_t origin;
    uint64_t whole_end; /* of the recording: before it gaps are errors, also where end_window comes first. 0: no end */
} EventsPlace;

enum { EVENTS_MAX_BATCHES = 17 };

/* cusEventPipelineCreate with room for about so many bytes of frames, in up to EVENTS_MAX_BATCHES batches; 0: as many as it needs itself.
 * Where `deliver` is `compute`, the sink may return while the caller still uses the batch, and up to eventsBatches() - 2 before it. */
cusStatus eventsCreatePipeline(cusEventPipeline **pipeline, int rows, int cols, const cusRepresentation *representations,
                               int count, const cusEventPipelineOptions *options, size_t room, cusFrameSink sink,
                               void *user);

/* Forgets the recording, failures and frames that have not been delivered; the next push begins at the place. With a decoder, its state
 * is the caller's to set. Counts continue. */
cusStatus eventsGoTo(cusEventPipeline *pipeline, const EventsPlace *place);

/* No windows from `end_window` on are made, if they have not been. */
void eventsEndAt(cusEventPipeline *pipeline, uint64_t end_window);

/* cusEventPipelineQuery without `skipped`, for which it waits. */
void eventsCount(const cusEventPipeline *pipeline, cusEventPipelineCounts *counts);

/* The number of batches, and of the windows of each. */
int eventsBatches(const cusEventPipeline *pipeline, size_t *windows);

#endif
