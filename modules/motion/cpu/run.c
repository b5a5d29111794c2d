/* The CPU backend of motion: the object, and the stages of a step. */
#include "check.h"
#include "host.h"
#include "motion/cpu/stages.h"

#include <stdlib.h>
#include <string.h>

enum { BAND = 64 }; /* rows of a frame that a thread updates at once */

typedef struct State {
    MotionCamera *cameras;
    MotionPlanes *planes;
    MotionWorkspace *workspaces;
    int threads;
    cusMotionStatus *status;
    cusMotionBox *boxes;
    cusMotionTrack *tracks;
} State;

static size_t pixelsOf(const MotionModel *m) {
    return motionWords(m) * 64 * (size_t)m->rows;
}

static int createPlanes(const MotionModel *m, MotionPlanes *planes) {
    const size_t pixels = pixelsOf(m), mask = pixels / 8;
    planes->background = cusi_hostAllocate(pixels * sizeof *planes->background);
    planes->differences = cusi_hostAllocate(pixels);
    planes->watched = cusi_hostAllocate(mask);
    planes->moving = cusi_hostAllocate(mask);
    planes->mask = cusi_hostAllocate(mask);
    if (!planes->background || !planes->differences || !planes->watched || !planes->moving || !planes->mask)
        return 0;
    /* Clears whole words, since later steps also read the bits past the last column. */
    memset(planes->background, 0, pixels * sizeof *planes->background);
    memset(planes->moving, 0, mask);
    memset(planes->mask, 0, mask);
    return 1;
}

static int createWorkspace(const MotionModel *m, MotionWorkspace *w) {
    const size_t rows = (size_t)m->rows, runs = rows * (((size_t)m->cols + 1) / 2);
    w->rows = cusi_hostAllocate(pixelsOf(m) / 8);
    w->set = cusi_hostAllocate(rows);
    w->runs = cusi_hostAllocate(runs * sizeof *w->runs);
    w->areas = cusi_hostAllocate(runs * sizeof *w->areas);
    w->first_run = cusi_hostAllocate((rows + 1) * sizeof *w->first_run);
    return w->rows && w->set && w->runs && w->areas && w->first_run;
}

cusStatus motion_host_create(const char *function, cusMotionDetector *detector) {
    const MotionModel *const m = &detector->model;
    State *const s = calloc(1, sizeof *s);
    detector->state = s;
    CUSI_REQUIRE(s, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    const size_t cameras = (size_t)m->cameras, boxes = cameras * (size_t)m->options.max_boxes;
    s->threads = m->cameras < cusi_maxThreads() ? m->cameras : cusi_maxThreads();
    s->cameras = calloc(cameras, sizeof *s->cameras);
    s->planes = calloc(cameras, sizeof *s->planes);
    s->workspaces = calloc((size_t)s->threads, sizeof *s->workspaces);
    s->status = calloc(cameras, sizeof *s->status);
    s->boxes = calloc(boxes, sizeof *s->boxes);
    s->tracks = calloc(boxes, sizeof *s->tracks);
    int made = s->cameras && s->planes && s->workspaces && s->status && s->boxes && s->tracks;
    for (size_t c = 0; made && c < cameras; ++c)
        made = createPlanes(m, &s->planes[c]);
    for (int t = 0; made && t < s->threads; ++t)
        made = createWorkspace(m, &s->workspaces[t]);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    for (size_t c = 0; c < cameras; ++c)
        s->cameras[c].noise = s->status[c].noise = -1;
    detector->results.status = s->status;
    detector->results.boxes = s->boxes;
    detector->results.tracks = s->tracks;
    return motion_host_watch(detector, 0, m->cameras, NULL);
}

void motion_host_destroy(cusMotionDetector *detector) {
    State *const s = detector->state;
    if (!s)
        return;
    for (int c = 0; s->planes && c < detector->model.cameras; ++c) {
        const MotionPlanes *const p = &s->planes[c];
        free(p->background);
        free(p->differences);
        free(p->watched);
        free(p->moving);
        free(p->mask);
    }
    for (int t = 0; s->workspaces && t < s->threads; ++t) {
        const MotionWorkspace *const w = &s->workspaces[t];
        free(w->rows);
        free(w->set);
        free(w->runs);
        free(w->areas);
        free(w->first_run);
    }
    free(s->cameras);
    free(s->planes);
    free(s->workspaces);
    free(s->status);
    free(s->boxes);
    free(s->tracks);
    free(s);
}

cusStatus motion_host_watch(cusMotionDetector *detector, int camera, int count, const cusMat *mask) {
    const MotionModel *const m = &detector->model;
    State *const s = detector->state;
    const size_t words = motionWords(m);
    for (int c = camera; c < camera + count; ++c) {
        uint64_t *const watched = s->planes[c].watched;
        memset(watched, 0, words * (size_t)m->rows * sizeof *watched);
        uint32_t pixels = 0;
        for (size_t y = 0; y < (size_t)m->rows; ++y) {
            const uint8_t *const row = mask ? (const uint8_t *)mask->data + y * mask->step : NULL;
            for (size_t x = 0; x < (size_t)m->cols; ++x)
                if (!row || row[x]) {
                    watched[y * words + x / 64] |= (uint64_t)1 << x % 64;
                    ++pixels;
                }
        }
        s->cameras[c].watched = pixels;
    }
    return CUS_OK;
}

/* Updates bands of all frames; threads share them, since their sums do not depend on the order. */
static void update(const MotionModel *m, State *s, const MotionStep *step, const int64_t *times) {
    const int bands = (m->rows + BAND - 1) / BAND;
    const int threads = cusi_threadsFor(pixelsOf(m) * (size_t)m->cameras, 65536);
    (void)threads; /* without OpenMP */
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int task = 0; task < m->cameras * bands; ++task) {
        const int c = task / bands, first = task % bands * BAND;
        if (!step->frames[c].data)
            continue;
        MotionCamera *const camera = &s->cameras[c];
        const MotionPlan plan = motionPlan(m, camera, times ? times[c] : (int64_t)camera->steps);
        uint32_t moving = 0;
        uint64_t noise = 0;
        motion_host_update(m, &s->planes[c], &step->frames[c], &plan, camera->age == 0, first,
                           first + BAND < m->rows ? first + BAND : m->rows, &moving, &noise);
#pragma omp atomic
        camera->moving += moving;
#pragma omp atomic
        camera->noise_sum += noise;
    }
}

static void finish(const MotionModel *m, State *s, int c, const cusMat *frame, int64_t time, MotionWorkspace *workspace) {
    MotionCamera *const camera = &s->cameras[c];
    cusMotionStatus *const status = &s->status[c];
    const size_t first = (size_t)c * (size_t)m->options.max_boxes;
    if (motionState(m, camera) == CUS_MOTION_WATCHING) {
        if (m->options.shadows)
            motion_host_shadows(m, &s->planes[c], frame);
        motion_host_morph(m, &s->planes[c], workspace);
        camera->components = motion_host_label(m, &s->planes[c], workspace);
    } else {
        memset(s->planes[c].mask, 0, pixelsOf(m) / 8);
    }
    motionEnd(m, camera, time, status);
    motion_host_boxes(m, &s->planes[c], camera, workspace->components,
                      status->state == CUS_MOTION_WATCHING ? status->components : 0, time, status, s->boxes + first,
                      s->tracks + first);
    if (m->options.ghosts)
        motion_host_ghosts(m, &s->planes[c], frame, s->boxes + first, status->boxes);
}

cusStatus motion_host_run(cusMotionDetector *detector, const MotionStep *step) {
    const MotionModel *const m = &detector->model;
    State *const s = detector->state;
    update(m, s, step, step->times);
    const int threads = s->threads < cusi_maxThreads() ? s->threads : cusi_maxThreads();
    (void)threads;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int c = 0; c < m->cameras; ++c)
        if (step->frames[c].data)
            finish(m, s, c, &step->frames[c], step->times ? step->times[c] : (int64_t)s->cameras[c].steps,
                   &s->workspaces[cusi_threadNumber()]);
    return CUS_OK;
}

cusStatus motion_host_mask(const cusMotionDetector *detector, int camera, const cusMat *mask) {
    const State *const s = detector->state;
    const size_t words = motionWords(&detector->model);
    for (size_t y = 0; y < (size_t)mask->rows; ++y) {
        const uint64_t *const bits = s->planes[camera].mask + y * words;
        uint8_t *const row = (uint8_t *)mask->data + y * mask->step;
        for (size_t x = 0; x < (size_t)mask->cols; ++x)
            row[x] = bits[x / 64] >> x % 64 & 1 ? 255 : 0;
    }
    return CUS_OK;
}
