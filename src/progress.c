/* Progress and cancelling of long calls: see progress.h. */
#include "progress.h"

#include "trace.h"

#include <time.h>

static _Thread_local CusiProgress own;
static CusiProgress none; /* never written: it has no callback */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cusStatus cusi_setProgress(cusProgressCallback callback, void *user, double interval) {
    CUSI_REQUIRE(own.depth == 0 && !own.is_silent, CUS_ERROR_BUSY,
                 "cusSetProgress: another call of this thread is running, expected none");
    own = (CusiProgress){.callback = callback, .user = user, .interval = interval};
    return CUS_OK;
}

cusStatus cusSetProgress(cusProgressCallback callback, void *user) {
    CUSI_TRACE;
    return cusi_setProgress(callback, user, 0.05);
}

/* A call that the callback itself makes reports no progress. */
CusiProgress *cusi_progress(void) {
    return own.callback && own.depth > 0 && !own.is_silent ? &own : &none;
}

static CusiLevel *top(CusiProgress *p) {
    return &p->level[(p->depth < CUSI_LONG_DEPTH ? p->depth : CUSI_LONG_DEPTH) - 1];
}

/* Returns how much of the call is done, 0..1, after `more` further steps. */
static double position(const CusiLevel *l, int64_t more) {
    const int64_t done = __atomic_load_n(&l->done, __ATOMIC_RELAXED) + more;
    return done >= l->steps ? l->high : l->low + (l->high - l->low) * (double)done / (double)l->steps;
}

void cusi_longBegin(const char *function) {
    CusiProgress *const p = &own;
    if (!p->callback || p->is_silent)
        return;
    CusiLevel level = {.last = 1};
    if (p->depth > 0) {
        level.first = position(top(p), 0);
        level.last = position(top(p), 1);
    } else {
        p->function = function;
        p->begun = p->asked = now();
        p->shown = 0;
        p->calls = p->cancelled = 0;
    }
    level.low = level.high = level.first;
    if (p->depth++ < CUSI_LONG_DEPTH)
        *top(p) = level;
}

void cusi_part(CusiProgress *p, double end, int64_t steps) {
    if (!p->callback || p->depth > CUSI_LONG_DEPTH)
        return;
    CusiLevel *const l = top(p);
    l->low = l->high;
    l->high = l->first + (l->last - l->first) * end;
    l->steps = steps;
    l->done = 0;
}

static void ask(CusiProgress *p) {
    const double at = now(), elapsed = at - p->begun, where = position(top(p), 0);
    if (at - p->asked < p->interval)
        return;
    p->shown = where > p->shown ? where : p->shown;
    p->is_silent = 1;
    if (p->callback(p->user, p->shown, p->shown > 0.001 ? elapsed * (1 - p->shown) / p->shown : -1))
        __atomic_store_n(&p->cancelled, 1, __ATOMIC_RELAXED);
    p->is_silent = 0;
    ++p->calls;
    p->asked = now();
}

int cusi_advance(CusiProgress *p, int64_t steps) {
    if (steps > 0 && p->depth <= CUSI_LONG_DEPTH)
        (void)__atomic_fetch_add(&top(p)->done, steps, __ATOMIC_RELAXED);
    if (p == &own && !cusi_isCancelled(p))
        ask(p);
    return cusi_isCancelled(p);
}

int cusi_setSilence(int on) {
    const int before = own.is_silent;
    own.is_silent = on;
    return before;
}

cusStatus cusi_proceed(const CusiProgress *p) {
    CUSI_REQUIRE(!cusi_isCancelled(p), CUS_ERROR_CANCELLED, "%s: cancelled at %.0f %%", p->function, 100 * p->shown);
    return CUS_OK;
}

cusStatus cusi_longEnd(cusStatus status) {
    CusiProgress *const p = &own;
    if (!p->callback || p->is_silent)
        return status;
    if (status == CUS_OK || status == CUS_ERROR_CANCELLED)
        status = cusi_isCancelled(p) ? cusi_proceed(p) : status;
    if (--p->depth == 0 && status == CUS_OK && p->calls > 0) {
        p->is_silent = 1;
        (void)p->callback(p->user, 1, 0);
        p->is_silent = 0;
    }
    return status;
}
