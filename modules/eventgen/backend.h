/* Declarations that the entry points and the backends of eventgen share. */
#ifndef CUSI_EVENTGEN_BACKEND_H
#define CUSI_EVENTGEN_BACKEND_H

#include "cusight/eventgen.h"
#include "eventgen/pixel.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cusEventGenerator {
    int rows, cols;
    cusSpace space;
    size_t max_events; /* used on the device */
    EventgenModel model;
    EventgenTables tables;
    int64_t time;            /* time of the last frame, on the device of the last queued one; -1 before the first */
    cusEventsGenerated last; /* host: what the last run generated */
    void *state;             /* owned by the backend */
    CusiGuard guard;
};

/* Frames to process; everything has been checked. */
typedef struct EventgenBatch {
    const cusMat *frames;
    const int64_t *times;
    int count;
    int64_t before; /* time of the frame before; -1: the first frame sets the references */
} EventgenBatch;

/* Allocates `state`. Destroy is safe after a failure. */
cusStatus eventgen_host_create(const char *function, cusEventGenerator *generator);
cusStatus eventgen_cuda_create(const char *function, cusEventGenerator *generator);
void eventgen_host_destroy(cusEventGenerator *generator);
void eventgen_cuda_destroy(cusEventGenerator *generator);

/* Counts the events that the frames make. Changes no pixel. */
uint64_t eventgen_host_count(cusEventGenerator *generator, const EventgenBatch *batch);
/* Makes the `count` events and updates the pixels. After an error nothing has changed. */
cusStatus eventgen_host_make(const char *function, cusEventGenerator *generator, const EventgenBatch *batch,
                             const cusEventBuffers *events, uint64_t count);
/* Provides arrays of the generator for at least `count` events. */
cusStatus eventgen_host_arrays(const char *function, cusEventGenerator *generator, uint64_t count, cusEventBuffers *events);

/* Queues a run. */
cusStatus eventgen_cuda_run(const char *function, cusEventGenerator *generator, const EventgenBatch *batch,
                            const cusEventBuffers *events, cusEventsGenerated *generated, cusStream stream);
/* Waits. Returns in *last the first run that failed, or else the last one, and allows further runs. Sets the generator's
 * time. */
cusStatus eventgen_cuda_check(const char *function, cusEventGenerator *generator, cusEventsGenerated *last,
                              cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
