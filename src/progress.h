/* Progress and cancelling of long calls: how the library serves cusSetProgress().
 *
 * A public function that can take more than a second does its work through CUSI_LONG, in parts of a number of steps, and
 * ends soon after a step returned 1:
 *
 *     CUSI_GUARDED("cusFoo", foo, stream, CUSI_LONG("cusFoo", run(foo)));
 *
 *     CusiProgress *const progress = cusi_progress(); // the calling thread's; its workers share the pointer
 *     cusi_part(progress, 0.2, rows);                 // the next `rows` steps take the call to 20 %
 *     #pragma omp parallel for
 *     for (int y = 0; y < rows; ++y)
 *         if (!cusi_step(progress, 1))
 *             work(y);
 *     CUS_TRY(cusi_proceed(progress)); // before anything is changed that a cancel must leave
 *
 * A long function that another one calls advances the caller's current step. Only the calling thread calls the callback;
 * the other threads of its team read what it returned. A step should take 10 us or more, and the calling thread should
 * reach one every 50 ms: give it a share of the work for as long as there is any, with schedule(dynamic) where items
 * differ. Without a callback, a step costs a load. */
#ifndef CUSI_PROGRESS_H
#define CUSI_PROGRESS_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSI_LONG_DEPTH = 4 }; /* levels of long functions within each other; deeper ones report nothing */

typedef struct CusiLevel {
    double first, last;  /* fractions of the whole call where this function begins and ends */
    double low, high;    /* fractions of the whole call where the current part begins and ends */
    int64_t steps, done; /* steps of the current part; done is atomic */
} CusiLevel;

typedef struct CusiProgress {
    cusProgressCallback callback; /* NULL: no other field is used */
    void *user;
    double interval;      /* seconds between two calls of it */
    const char *function; /* name of the public function */
    double begun, asked, shown;
    int is_silent; /* set also while the callback runs */
    int calls, depth;
    int cancelled; /* atomic */
    CusiLevel level[CUSI_LONG_DEPTH];
} CusiProgress;

/* Does cusSetProgress() with another interval, for tests. */
cusStatus cusi_setProgress(cusProgressCallback callback, void *user, double interval);

/* Returns the calling thread's progress, within CUSI_LONG; never NULL. */
CusiProgress *cusi_progress(void);

/* Begins a part of the current function with `steps` steps, which ends when `end` of the function, 0..1, is done. Only for
 * the calling thread. */
void cusi_part(CusiProgress *progress, double end, int64_t steps);

int cusi_advance(CusiProgress *progress, int64_t steps);

/* Reports `steps` more steps, or with 0 only asks. Returns 1 if the work must stop. For any thread of the team. */
static inline int cusi_step(CusiProgress *progress, int64_t steps) {
    return progress->callback && cusi_advance(progress, steps);
}

/* While `on`, calls of this thread neither report nor stop, so that code can restore what a cancel must not change. Returns
 * the previous setting. */
int cusi_setSilence(int on);

/* Returns whether the call has been cancelled, without asking. */
static inline int cusi_isCancelled(const CusiProgress *progress) {
    return progress->callback && __atomic_load_n(&progress->cancelled, __ATOMIC_RELAXED);
}

/* Returns CUS_OK, or CUS_ERROR_CANCELLED with its message. Only for the calling thread. */
cusStatus cusi_proceed(const CusiProgress *progress);

void cusi_longBegin(const char *function);
cusStatus cusi_longEnd(cusStatus status);

/* Makes `call`, and gives its status or CUS_ERROR_CANCELLED if the callback asked for it. */
#define CUSI_LONG(function, call) (cusi_longBegin(function), cusi_longEnd(call))

#ifdef __cplusplus
}
#endif

#endif
