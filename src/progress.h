/* Progress and cancelling of long calls: the other side of cusSetProgress().
 *
 * A public function that can take more than a second makes its work through CUSI_LONG, in parts of so many steps, and ends soon after
 * a step returned 1:
 *
 *     CUSI_GUARDED("cusFoo", foo, stream, CUSI_LONG("cusFoo", run(foo)));
 *
 *     CusiProgress *const progress = cusi_progress(); // of the calling thread; its workers share the pointer
 *     cusi_part(progress, 0.2, rows);                 // the next `rows` steps take the call to 20 %
 *     #pragma omp parallel for
 *     for (int y = 0; y < rows; ++y)
 *         if (!cusi_step(progress, 1))
 *             work(y);
 *     CUS_TRY(cusi_proceed(progress)); // before anything is changed that a cancel must leave
 *
 * A long function that is called by another advances that one's present step. Only the calling thread calls the callback; the
 * others of its team read what it returned. A step should take 10 us or more, and the calling thread should come to one every 50 ms:
 * give it a share of the work for as long as there is any, by schedule(dynamic) where items differ. Without a callback, a step costs
 * a load. */
#ifndef CUSI_PROGRESS_H
#define CUSI_PROGRESS_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_LONG_DEPTH = 4 }; /* long functions within each other, of which more advance nothing */

typedef struct CusiLevel {
    double first, last;  /* of the whole call: where this function begins and ends */
    double low, high;    /* of the whole call: where the present part begins and ends */
    int64_t steps, done; /* of the part; done is atomic */
} CusiLevel;

typedef struct CusiProgress {
    cusProgressCallback callback; /* NULL: nothing here is used */
    void *user;
    double interval;      /* between two calls of it, in seconds */
    const char *function; /* that the caller called */
    double begun, asked, shown;
    int is_asking, calls, depth;
    int cancelled; /* atomic */
    CusiLevel level[CUSI_LONG_DEPTH];
} CusiProgress;

/* cusSetProgress() with another interval, for tests. */
cusStatus cusi_setProgress(cusProgressCallback callback, void *user, double interval);

/* The calling thread's progress, within CUSI_LONG; never NULL. */
CusiProgress *cusi_progress(void);

/* Begins a part of the current function, which has `steps` steps and ends at `end` of it, 0..1. In the calling thread only. */
void cusi_part(CusiProgress *progress, double end, int64_t steps);

int cusi_advance(CusiProgress *progress, int64_t steps);

/* `steps` more are done, or 0 to ask only. Returns 1 if the work is to stop. From any thread of the team. */
static inline int cusi_step(CusiProgress *progress, int64_t steps) {
    return progress->callback && cusi_advance(progress, steps);
}

/* The same answer without asking. */
static inline int cusi_isCancelled(const CusiProgress *progress) {
    return progress->callback && __atomic_load_n(&progress->cancelled, __ATOMIC_RELAXED);
}

/* CUS_OK, or CUS_ERROR_CANCELLED with its message. In the calling thread only. */
cusStatus cusi_proceed(const CusiProgress *progress);

void cusi_longBegin(const char *function);
cusStatus cusi_longEnd(cusStatus status);

/* The status of `call`, which is CUS_ERROR_CANCELLED if the callback asked for it. */
#define CUSI_LONG(function, call) (cusi_longBegin(function), cusi_longEnd(call))

#ifdef __cplusplus
}
#endif

#endif
