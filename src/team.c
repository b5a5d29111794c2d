/* Threads of parallel regions: see team.h. */
#include "team.h"

#include "host.h"
#include "progress.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- Waiting --------------------------------------------------------------------------------------------------------- */

/* Times that a thread looks at a gate before it sleeps: long enough for a running thread to arrive (15 to 50 us), but short
 * against the time slice for which a thread may be suspended. */
enum { LOOKS = 1000 };

/* A number that threads wait for. */
typedef struct Gate {
    _Atomic uint32_t value, asleep;
} Gate;

static inline void pauseBriefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Waits until the gate's value is no longer `value`. Meanwhile a calling thread reports progress, since a worker may have a
 * region's last item. */
static void waitWhile(Gate *gate, uint32_t value) {
    CusiProgress *const progress = cusi_progress();
    const struct timespec while_asking = {.tv_nsec = 20000000};
    for (int i = 0; i < LOOKS; ++i) {
        if (atomic_load_explicit(&gate->value, memory_order_acquire) != value)
            return;
        pauseBriefly();
    }
    atomic_fetch_add(&gate->asleep, 1);
    while (atomic_load(&gate->value) == value) {
        (void)syscall(SYS_futex, &gate->value, FUTEX_WAIT_PRIVATE, value, progress->callback ? &while_asking : NULL);
        (void)cusi_step(progress, 0);
    }
    atomic_fetch_sub(&gate->asleep, 1);
}

static void add(Gate *gate, uint32_t amount) {
    atomic_fetch_add(&gate->value, amount);
    if (atomic_load(&gate->asleep))
        (void)syscall(SYS_futex, &gate->value, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* ---- Teams ----------------------------------------------------------------------------------------------------------- */

typedef unsigned long long Count;

typedef struct Loop {
    Count first, end, step, count, chunk; /* count: number of iterations */
    _Atomic Count next;
} Loop;

enum { LOOPS = 2 }; /* after a loop without a barrier, a thread may begin the next while others are still in it */

/* One run of a region. */
typedef struct Team {
    void (*body)(void *);
    void *data;
    int size, is_loop;   /* is_loop: its body is in loops[0] when it starts */
    _Atomic int arrived; /* threads at the barrier */
    Gate passed;         /* how often all have passed the barrier */
    pthread_mutex_t opening;
    int opened; /* loops that a thread has begun */
    Loop loops[LOOPS];
} Team;

/* A thread that waits for its caller's regions. `left` belongs to the caller. A call makes `called` odd until it is taken:
 * by the worker, or by the caller if it finishes before the worker has begun, as happens when other programs use the
 * processors. */
typedef struct Worker {
    Gate called;
    Team *team; /* NULL: the worker must end */
    int number;
    pthread_t thread;
    Gate *left;
    struct Worker *next;
} Worker;

/* The workers of one calling thread. */
typedef struct Pool {
    Worker *first;
    Gate left; /* parts of the current region that have not ended */
} Pool;

/* A thread's place in a region. */
typedef struct Place {
    Team *team; /* NULL: outside regions */
    int number;
    int loops, barriers; /* how many of the region's this thread has entered */
} Place;

static _Thread_local Place me;
static _Thread_local Pool *mine;

static void run(Team *team, int number) {
    me = (Place){team, number, team->is_loop, 0};
    team->body(team->data);
}

static bool take(Worker *worker) {
    uint32_t called = atomic_load(&worker->called.value);
    return (called & 1) && atomic_compare_exchange_strong(&worker->called.value, &called, called + 1);
}

static void *work(void *argument) {
    Worker *const worker = argument;
    for (;;) {
        if (!take(worker)) {
            waitWhile(&worker->called, atomic_load(&worker->called.value) & ~1u);
            continue;
        }
        if (!worker->team)
            return NULL;
        run(worker->team, worker->number);
        add(worker->left, (uint32_t)-1);
    }
}

/* ---- Pools ----------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER, atomic = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t of_thread; /* a thread's pool, so that the workers end with the thread */
static int has_key;

static void endPool(void *argument) {
    Pool *const pool = argument;
    for (Worker *worker = pool->first, *next; worker; worker = next) {
        next = worker->next;
        worker->team = NULL;
        add(&worker->called, 1);
        pthread_join(worker->thread, NULL);
        free(worker);
    }
    free(pool);
    mine = NULL;
}

/* Resets the state in a child of fork(), which has none of the other threads. */
static void forgetThreads(void) {
    critical = atomic = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (!mine)
        return;
    for (Worker *worker = mine->first, *next; worker; worker = next) {
        next = worker->next;
        free(worker);
    }
    mine->first = NULL;
}

__attribute__((constructor)) static void prepare(void) {
    has_key = pthread_key_create(&of_thread, endPool) == 0;
    (void)pthread_atfork(NULL, NULL, forgetThreads);
}

static Worker *createWorker(Pool *pool) {
    Worker *const worker = cusi_hostAllocate(sizeof *worker);
    if (!worker)
        return NULL;
    *worker = (Worker){.left = &pool->left};
    if (pthread_create(&worker->thread, NULL, work, worker) == 0)
        return worker;
    free(worker);
    return NULL;
}

/* Returns the calling thread's pool with *count workers, at most `wanted`. */
static Pool *poolWith(int wanted, int *count) {
    *count = 0;
    if (!mine && has_key) {
        mine = calloc(1, sizeof *mine);
        if (mine && pthread_setspecific(of_thread, mine)) {
            free(mine);
            mine = NULL;
        }
    }
    Worker **worker = mine ? &mine->first : NULL;
    for (; worker && *count < wanted; worker = &(*worker)->next, ++*count)
        if (!*worker && !(*worker = createWorker(mine)))
            break;
    return mine;
}

/* ---- Regions --------------------------------------------------------------------------------------------------------- */

/* Returns the size of a region's team. As in OpenMP, a region within another, ours or the program's own, has one thread
 * unless the program allows more. */
static int sizeFor(unsigned threads) {
    int within = me.team != NULL;
#ifdef _OPENMP
    within |= omp_get_active_level() >= omp_get_max_active_levels();
#endif
    return within ? 1 : threads > 0 ? (int)threads : cusi_maxThreads();
}

static void runTeam(Team *team, unsigned threads) {
    const Place outer = me;
    int workers = 0;
    const int wanted = sizeFor(threads);
    Pool *const pool = wanted > 1 ? poolWith(wanted - 1, &workers) : NULL;
    team->size = workers + 1;
    pthread_mutex_init(&team->opening, NULL);
    if (workers)
        atomic_store(&pool->left.value, (uint32_t)workers);
    int number = 1;
    for (Worker *worker = workers ? pool->first : NULL; number <= workers; worker = worker->next) {
        worker->team = team;
        worker->number = number++;
        add(&worker->called, 1);
    }
    run(team, 0);
    for (Worker *worker = workers && !me.barriers ? pool->first : NULL; worker; worker = worker->next)
        if (take(worker)) { /* at a barrier all threads have begun; workers beyond the team have not been called */
            run(team, worker->number);
            atomic_fetch_sub(&pool->left.value, 1);
        }
    for (uint32_t left; workers && (left = atomic_load(&pool->left.value)) != 0;)
        waitWhile(&pool->left, left);
    pthread_mutex_destroy(&team->opening);
    me = outer;
}

void cusi_teamParallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
    (void)flags;
    Team team = {.body = body, .data = data};
    runTeam(&team, threads);
}

int cusi_teamNumber(void) {
    return me.team ? me.number : 0;
}

int cusi_teamSize(void) {
    return me.team ? me.team->size : 1;
}

void cusi_teamBarrier(void) {
    Team *const team = me.team;
    if (!team || team->size == 1)
        return;
    ++me.barriers;
    const uint32_t passed = atomic_load(&team->passed.value);
    if (atomic_fetch_add(&team->arrived, 1) + 1 < team->size) {
        waitWhile(&team->passed, passed);
    } else {
        atomic_store(&team->arrived, 0);
        add(&team->passed, 1);
    }
}

/* ---- Loops ----------------------------------------------------------------------------------------------------------- */

static Loop loopOf(Count first, Count end, Count step, Count chunk, bool up, bool none) {
    if (none)
        return (Loop){.count = 0};
    const Count distance = up ? end - first : first - end, by = up ? step : 0 - step;
    return (Loop){.first = first, .end = end, .step = step, .count = (distance + by - 1) / by, .chunk = chunk};
}

static Loop signedLoop(long first, long end, long step, long chunk) {
    const bool up = step > 0;
    return loopOf((Count)first, (Count)end, (Count)step, (Count)chunk, up, up ? first >= end : first <= end);
}

static bool takeChunk(Loop *loop, Count *from, Count *to) {
    const Count at = atomic_load_explicit(&loop->next, memory_order_relaxed) < loop->count
                         ? atomic_fetch_add_explicit(&loop->next, loop->chunk, memory_order_relaxed)
                         : loop->count;
    if (at >= loop->count)
        return false;
    *from = loop->first + at * loop->step;
    *to = loop->count - at <= loop->chunk ? loop->end : *from + loop->chunk * loop->step; /* loop->end: avoids overflow */
    return true;
}

static Loop *currentLoop(void) {
    return &me.team->loops[(me.loops - 1) % LOOPS];
}

static bool start(Loop made, Count *from, Count *to) {
    Team *const team = me.team;
    pthread_mutex_lock(&team->opening);
    if (team->opened < ++me.loops) {
        team->opened = me.loops;
        *currentLoop() = made;
    }
    pthread_mutex_unlock(&team->opening);
    return takeChunk(currentLoop(), from, to);
}

bool cusi_teamStart(long first, long end, long step, long chunk, long *from, long *to) {
    Count a = 0, b = 0;
    const bool some = start(signedLoop(first, end, step, chunk), &a, &b);
    *from = (long)a;
    *to = (long)b;
    return some;
}

bool cusi_teamNext(long *from, long *to) {
    Count a = 0, b = 0;
    const bool some = takeChunk(currentLoop(), &a, &b);
    *from = (long)a;
    *to = (long)b;
    return some;
}

bool cusi_teamStartUnsigned(bool up, Count first, Count end, Count step, Count chunk, Count *from, Count *to) {
    return start(loopOf(first, end, step, chunk, up, up ? first >= end : first <= end), from, to);
}

bool cusi_teamNextUnsigned(Count *from, Count *to) {
    return takeChunk(currentLoop(), from, to);
}

void cusi_teamEndLoop(void) {}

void cusi_teamParallelLoop(void (*body)(void *), void *data, unsigned threads, long first, long end, long step, long chunk,
                           unsigned flags) {
    (void)flags;
    Team team = {.body = body, .data = data, .is_loop = 1, .opened = 1};
    team.loops[0] = signedLoop(first, end, step, chunk);
    runTeam(&team, threads);
}

/* ---- Locks ----------------------------------------------------------------------------------------------------------- */

void cusi_teamEnter(void **name) {
    (void)name;
    pthread_mutex_lock(&critical);
}

void cusi_teamLeave(void **name) {
    (void)name;
    pthread_mutex_unlock(&critical);
}

void cusi_teamEnterAtomic(void) {
    pthread_mutex_lock(&atomic);
}

void cusi_teamLeaveAtomic(void) {
    pthread_mutex_unlock(&atomic);
}
