/* Entry points of the event generator, for both backends. */
#include "check.h"
#include "eventgen/backend.h"
#include "progress.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { DEFAULT_EVENTS = 1 << 24 };

cusEventGeneratorOptions cusEventGeneratorDefaults(void) {
    return (cusEventGeneratorOptions){.positive = 0.2, .negative = 0.2, .space = CUS_HOST};
}

/* Checks a number; NaN fails. */
static cusStatus checkOption(const char *function, const char *name, double value, double least, double most) {
    CUSI_REQUIRE(value >= least && value <= most, CUS_ERROR_VALUE, "%s: %s is %g, expected %g..%g", function, name, value,
                 least, most);
    return CUS_OK;
}

static cusStatus checkOptions(const char *function, int rows, int cols, const cusEventGeneratorOptions *options) {
    CUS_TRY(cusi_checkReserved(function, "options->", options->reserved));
    CUSI_REQUIRE(rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), expected 1..65536 each", function, rows, cols);
    CUS_TRY(checkOption(function, "positive", options->positive, 0.01, 10));
    CUS_TRY(checkOption(function, "negative", options->negative, 0.01, 10));
    CUS_TRY(checkOption(function, "threshold_spread", options->threshold_spread, 0, 1));
    CUSI_REQUIRE(options->refractory_us >= 0 && options->refractory_us <= 1000000, CUS_ERROR_VALUE,
                 "%s: refractory_us is %lld, expected 0..1000000", function, (long long)options->refractory_us);
    CUS_TRY(checkOption(function, "leak_rate", options->leak_rate, 0, 100));
    CUS_TRY(checkOption(function, "leak_jitter", options->leak_jitter, 0, 0.2));
    CUS_TRY(checkOption(function, "shot_rate", options->shot_rate, 0, 1000));
    CUS_TRY(cusi_checkSpace(function, options->space));
    CUSI_REQUIRE(options->space == CUS_HOST || (int64_t)rows * cols < INT32_MAX, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), expected fewer than 2^31 - 1 pixels on the device", function, rows,
                 cols);
    CUSI_REQUIRE(options->space == CUS_HOST || options->max_events <= INT32_MAX, CUS_ERROR_VALUE,
                 "%s: max_events is %zu, expected up to 2147483647", function, options->max_events);
    return CUS_OK;
}

static EventgenModel modelOf(const cusEventGeneratorOptions *o) {
    const double normal = (1 << EVENTGEN_SCALE_BITS) / EVENTGEN_NORMAL_SIGMA;
    return (EventgenModel){
        .positive = (int32_t)lround(o->positive * 65536),
        .negative = (int32_t)lround(o->negative * 65536),
        .spread = (int32_t)lround(o->threshold_spread * 65536 * normal),
        .jitter = (int32_t)lround(o->leak_jitter * 65536 * normal),
        .refractory = o->refractory_us,
        .leak_rate = llround(o->leak_rate * 1e-6 * (double)((int64_t)1 << EVENTGEN_RATE_BITS)),
        .random = o->leak_rate > 0 || o->shot_rate > 0,
        .seed = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)},
    };
}

static void fillTables(EventgenTables *tables, double shot_rate) {
    const double unit = 1e-6 / log(2) * (double)((int64_t)1 << EVENTGEN_SHOT_BITS);
    for (int v = 0; v < 256; ++v) {
        tables->log_intensity[v] = (int32_t)lround((v < 20 ? v * (log(20) / 20) : log(v)) * 65536);
        tables->shot_rate[v] = (uint32_t)llround(shot_rate * unit * (1 - 0.75 * (v + 20) / 275));
    }
}

cusStatus cusEventGeneratorCreate(cusEventGenerator **generator, int rows, int cols,
                                  const cusEventGeneratorOptions *options) {
    CUSI_TRACE;
    static const char function[] = "cusEventGeneratorCreate";
    CUSI_NOT_NULL(function, generator);
    const cusEventGeneratorOptions chosen = options ? *options : cusEventGeneratorDefaults();
    CUS_TRY(checkOptions(function, rows, cols, &chosen));
    cusEventGenerator *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->rows = rows;
    made->cols = cols;
    made->space = chosen.space;
    made->max_events = chosen.max_events ? chosen.max_events : DEFAULT_EVENTS;
    made->model = modelOf(&chosen);
    made->time = -1;
    fillTables(&made->tables, chosen.shot_rate);
    cusStatus status =
        CUSI_BACKEND(function, made->space, eventgen_host_create(function, made), eventgen_cuda_create(function, made));
    if (status == CUS_OK)
        status = cusi_guardCreate(function, &made->guard, made->space);
    if (status != CUS_OK) {
        cusEventGeneratorDestroy(made);
        return status;
    }
    *generator = made;
    return CUS_OK;
}

void cusEventGeneratorDestroy(cusEventGenerator *generator) {
    CUSI_TRACE;
    if (!generator)
        return;
#ifdef CUSI_WITH_CUDA
    if (generator->space == CUS_DEVICE)
        eventgen_cuda_destroy(generator);
#endif
    if (generator->space == CUS_HOST)
        eventgen_host_destroy(generator);
    cusi_guardRelease(&generator->guard);
    free(generator);
}

static cusStatus checkTime(const char *function, const cusEventGenerator *g, int64_t before, int64_t time) {
    const int bits = g->model.random ? 24 : 42;
    CUSI_REQUIRE(time >= 0, CUS_ERROR_VALUE, "%s: time is %lld us, expected 0 or more", function, (long long)time);
    CUSI_REQUIRE(before < 0 || (time > before && time - before < (int64_t)1 << bits), CUS_ERROR_VALUE,
                 "%s: time is %lld us, expected a time after that of the frame before, %lld us, by less than 2^%d us",
                 function, (long long)time, (long long)before, bits);
    return CUS_OK;
}

static cusStatus push(cusEventGenerator *generator, const cusMat *frame, int64_t time, cusEventArrays *events) {
    static const char function[] = "cusEventGeneratorPush";
    cusEventGenerator *const g = generator;
    CUSI_NOT_NULL(function, events);
    CUS_TRY(cusi_checkInput(function, "frame", frame, CUSI_TYPES(CUS_8UC1)));
    CUSI_REQUIRE(frame->space == CUS_HOST, CUS_ERROR_SPACE, "%s: frame is in device memory, expected host memory",
                 function);
    CUSI_REQUIRE(g->space == CUS_HOST, CUS_ERROR_SPACE,
                 "%s: generator is in device memory, expected host memory; use cusEventGeneratorRun", function);
    CUSI_REQUIRE(frame->rows == g->rows && frame->cols == g->cols, CUS_ERROR_SIZE,
                 "%s: frame is %d x %d (rows x cols), expected %d x %d like the generator", function, frame->rows,
                 frame->cols, g->rows, g->cols);
    CUS_TRY(checkTime(function, g, g->time, time));
    const EventgenBatch batch = {frame, &time, 1, g->time};
    const uint64_t count = eventgen_host_count(g, &batch);
    CUS_TRY(cusi_proceed(cusi_progress()));
    cusEventBuffers out;
    CUS_TRY(eventgen_host_arrays(function, g, count, &out));
    CUS_TRY(eventgen_host_make(function, g, &batch, &out, count));
    g->time = time;
    *events = (cusEventArrays){out.x, out.y, out.p, out.t, (size_t)count, CUS_HOST};
    return CUS_OK;
}

cusStatus cusEventGeneratorPush(cusEventGenerator *generator, const cusMat *frame, int64_t time, cusEventArrays *events) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventGeneratorPush", generator, NULL,
                 CUSI_LONG("cusEventGeneratorPush", push(generator, frame, time, events)));
}

static cusStatus checkBatch(const char *function, const cusEventGenerator *g, const EventgenBatch *batch) {
    const cusMat *const frames = batch->frames;
    CUSI_REQUIRE(batch->count >= 1 && batch->count <= CUS_EVENT_GENERATOR_MAX_FRAMES, CUS_ERROR_VALUE,
                 "%s: count is %d, expected 1..%d", function, batch->count, CUS_EVENT_GENERATOR_MAX_FRAMES);
    CUS_TRY(cusi_checkInput(function, "frames", frames, CUSI_TYPES(CUS_8UC1)));
    const char *const spaces[] = {"host", "device"};
    CUSI_REQUIRE(frames->space == g->space, CUS_ERROR_SPACE,
                 "%s: frames are in %s memory, expected %s memory like the generator", function,
                 spaces[frames->space == CUS_DEVICE], spaces[g->space == CUS_DEVICE]);
    CUSI_REQUIRE(frames->rows == (int64_t)g->rows * batch->count && frames->cols == g->cols, CUS_ERROR_SIZE,
                 "%s: frames are %d x %d (rows x cols), expected %lld x %d: %d frames like the generator's", function,
                 frames->rows, frames->cols, (long long)g->rows * batch->count, g->cols, batch->count);
    int64_t before = batch->before;
    for (int i = 0; i < batch->count; before = batch->times[i++])
        CUS_TRY(checkTime(function, g, before, batch->times[i]));
    const int64_t span = before - (batch->before < 0 ? batch->times[0] : batch->before);
    CUSI_REQUIRE(g->space == CUS_HOST || span <= UINT32_MAX, CUS_ERROR_VALUE,
                 "%s: the frames span %lld us, expected less than 2^32 on the device", function, (long long)span);
    return CUS_OK;
}

static cusStatus checkOutput(const char *function, const cusEventGenerator *g, const cusEventBuffers *events,
                             const cusEventsGenerated *generated) {
    const void *const arrays[] = {events->x, events->y, events->p, events->t, generated};
    static const char *const names[] = {"x", "y", "p", "t", "generated"};
    static const unsigned sizes[] = {2, 2, 1, 8, 8};
    for (int i = 0; i < 5; ++i) {
        CUSI_REQUIRE((uintptr_t)arrays[i] % sizes[i] == 0, CUS_ERROR_VALUE,
                     "%s: %s does not start at a multiple of %u bytes", function, names[i], sizes[i]);
        if (arrays[i] && g->space == CUS_DEVICE)
            CUS_TRY(cusi_checkDeviceMemory(function, names[i], arrays[i]));
    }
    return CUS_OK;
}

static cusStatus runHost(const char *function, cusEventGenerator *g, const EventgenBatch *batch,
                         const cusEventBuffers *events, cusEventsGenerated *generated) {
    const uint64_t count = eventgen_host_count(g, batch);
    CUS_TRY(cusi_proceed(cusi_progress()));
    const int fits = count <= events->capacity;
    if (fits)
        CUS_TRY(eventgen_host_make(function, g, batch, events, count));
    g->last = (cusEventsGenerated){count, fits ? (uint64_t)batch->count : 0, fits ? CUS_OK : CUS_ERROR_CAPACITY};
    if (generated)
        *generated = g->last;
    CUSI_REQUIRE(fits, CUS_ERROR_CAPACITY, "%s: the frames make %llu events, expected up to %zu, the capacity", function,
                 (unsigned long long)count, events->capacity);
    return CUS_OK;
}

static cusStatus run(cusEventGenerator *generator, const cusMat *frames, const int64_t *times, int count,
                     const cusEventBuffers *events, cusEventsGenerated *generated, cusStream stream) {
    static const char function[] = "cusEventGeneratorRun";
    cusEventGenerator *const g = generator;
    CUSI_NOT_NULL(function, times);
    CUSI_NOT_NULL(function, events);
    const EventgenBatch batch = {frames, times, count, g->time};
    CUS_TRY(checkBatch(function, g, &batch));
    CUS_TRY(checkOutput(function, g, events, generated));
    if (g->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "a graph would repeat the times of the frames"));
    CUS_TRY(CUSI_BACKEND(function, g->space, runHost(function, g, &batch, events, generated),
                         eventgen_cuda_run(function, g, &batch, events, generated, stream)));
    g->time = times[count - 1];
    return CUS_OK;
}

cusStatus cusEventGeneratorRun(cusEventGenerator *generator, const cusMat *frames, const int64_t *times, int count,
                               const cusEventBuffers *events, cusEventsGenerated *generated, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventGeneratorRun", generator, stream,
                 CUSI_LONG("cusEventGeneratorRun", run(generator, frames, times, count, events, generated, stream)));
}

static cusStatus checkRun(cusEventGenerator *generator, cusEventsGenerated *generated, cusStream stream) {
    static const char function[] = "cusEventGeneratorCheck";
    if (generator->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "the call waits for it"));
    cusEventsGenerated last = generator->last;
    CUS_TRY(CUSI_BACKEND(function, generator->space, CUS_OK, eventgen_cuda_check(function, generator, &last, stream)));
    if (generated)
        *generated = last;
    CUSI_REQUIRE(last.status == CUS_OK, CUS_ERROR_CAPACITY,
                 "%s: a run's frames make %llu events, more than its capacity or max_events", function,
                 (unsigned long long)last.count);
    return CUS_OK;
}

cusStatus cusEventGeneratorCheck(cusEventGenerator *generator, cusEventsGenerated *generated, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusEventGeneratorCheck", generator, stream,
                 CUSI_LONG("cusEventGeneratorCheck", checkRun(generator, generated, stream)));
}
