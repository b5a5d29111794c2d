/* Entry points of motion, for both backends. */
#include "check.h"
#include "device.h"
#include "motion/backend.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

cusMotionOptions cusMotionDefaults(void) {
    return (cusMotionOptions){.shift = 7,
                              .threshold = 25,
                              .erode = 1,
                              .dilate = 4,
                              .min_area = 400,
                              .max_boxes = 64,
                              .sudden_percent = 60,
                              .warmup = 8,
                              .track_gap = 10,
                              .space = CUS_HOST};
}

static cusStatus checkNumber(const char *function, const char *name, int64_t value, int64_t low, int64_t high) {
    CUSI_REQUIRE(value >= low && value <= high, CUS_ERROR_VALUE, "%s: %s is %lld, expected %lld..%lld", function, name,
                 (long long)value, (long long)low, (long long)high);
    return CUS_OK;
}

static cusStatus checkModel(const char *function, const MotionModel *m) {
    const cusMotionOptions *const o = &m->options;
    CUS_TRY(cusi_checkReserved(function, "options->", o->reserved));
    const struct {
        const char *name;
        int64_t value, low, high;
    } numbers[] = {{"cameras", m->cameras, 1, CUS_MOTION_MAX_CAMERAS},
                   {"rows", m->rows, 1, 65536},
                   {"cols", m->cols, 1, 65536},
                   {"shift", o->shift, 0, 8},
                   {"learn_us", o->learn_us, 0, INT64_C(1) << 32},
                   {"threshold", o->threshold, 1, 255},
                   {"noise_factor", o->noise_factor, 0, 255},
                   {"erode", o->erode, 0, 8},
                   {"dilate", o->dilate, 0, 8},
                   {"min_area", o->min_area, 1, INT32_MAX},
                   {"max_boxes", o->max_boxes, 1, 256},
                   {"merge", o->merge, 0, 1},
                   {"sudden_percent", o->sudden_percent, 1, 100},
                   {"warmup", o->warmup, 0, 65535},
                   {"track_gap", o->track_gap, 0, 65535},
                   {"shadows", o->shadows, 0, 100},
                   {"ghosts", o->ghosts, 0, 1},
                   {"tight", o->tight, 0, 1},
                   {"split", o->split, 0, 100}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
        CUS_TRY(checkNumber(function, numbers[i].name, numbers[i].value, numbers[i].low, numbers[i].high));
    CUSI_REQUIRE((int64_t)m->rows * m->cols <= INT32_MAX, CUS_ERROR_VALUE,
                 "%s: frame is %d x %d (rows x cols), expected fewer than 2^31 pixels", function, m->rows, m->cols);
    CUSI_REQUIRE(m->type == CUS_8UC1 || m->type == CUS_8UC3, CUS_ERROR_TYPE, "%s: type is %s, expected 8UC1 or 8UC3",
                 function, cusi_typeName(m->type));
    return cusi_checkSpace(function, o->space);
}

cusStatus cusMotionDetectorCreate(cusMotionDetector **detector, int cameras, int rows, int cols, int type,
                                  const cusMotionOptions *options) {
    CUSI_TRACE;
    const char *const function = "cusMotionDetectorCreate";
    CUSI_NOT_NULL(function, detector);
    const MotionModel model = {rows, cols, type, cameras, options ? *options : cusMotionDefaults()};
    CUS_TRY(checkModel(function, &model));
    cusMotionDetector *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    made->model = model;
    made->results.cameras = cameras;
    made->results.max_boxes = model.options.max_boxes;
    made->results.space = model.options.space;
    made->times = malloc((size_t)cameras * sizeof *made->times);
    for (int c = 0; made->times && c < cameras; ++c)
        made->times[c] = INT64_MIN;
    cusStatus status = made->times ? CUS_OK : cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    if (status == CUS_OK)
        status = CUSI_BACKEND(function, made->results.space, motion_host_create(function, made),
                              motion_cuda_create(function, made));
    if (status == CUS_OK)
        status = cusi_guardCreate(function, &made->guard, made->results.space);
    if (status != CUS_OK) {
        cusMotionDetectorDestroy(made);
        return status;
    }
    *detector = made;
    return CUS_OK;
}

void cusMotionDetectorDestroy(cusMotionDetector *detector) {
    CUSI_TRACE;
    if (!detector)
        return;
#ifdef CUSI_WITH_CUDA
    if (detector->results.space == CUS_DEVICE)
        motion_cuda_destroy(detector);
#endif
    if (detector->results.space == CUS_HOST)
        motion_host_destroy(detector);
    cusi_guardRelease(&detector->guard);
    free(detector->times);
    free(detector);
}

/* Checks a camera's frame or mask. */
static cusStatus checkImage(const char *function, const char *name, const MotionModel *m, const cusMat *image, int type) {
    static const char *const spaces[] = {"host", "device"};
    CUS_TRY(cusi_checkMat(function, name, image));
    CUSI_REQUIRE(image->type == type, CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", function, name,
                 cusi_typeName(image->type), cusi_typeName(type));
    CUSI_REQUIRE(image->space == m->options.space, CUS_ERROR_SPACE,
                 "%s: %s is in %s memory, expected %s memory like the detector", function, name,
                 spaces[image->space == CUS_DEVICE], spaces[m->options.space == CUS_DEVICE]);
    CUSI_REQUIRE(image->rows == m->rows && image->cols == m->cols, CUS_ERROR_SIZE,
                 "%s: %s is %d x %d (rows x cols), expected %d x %d like the detector", function, name, image->rows,
                 image->cols, m->rows, m->cols);
    return CUS_OK;
}

static cusStatus watch(cusMotionDetector *detector, int camera, const cusMat *mask, cusStream stream) {
    const char *const function = "cusMotionDetectorWatch";
    const MotionModel *const m = &detector->model;
    CUS_TRY(checkNumber(function, "camera", camera, -1, m->cameras - 1));
    if (mask)
        CUS_TRY(checkImage(function, "mask", m, mask, CUS_8UC1));
    const int first = camera < 0 ? 0 : camera, count = camera < 0 ? m->cameras : 1;
    return CUSI_BACKEND(function, m->options.space, motion_host_watch(detector, first, count, mask),
                        motion_cuda_watch(function, detector, first, count, mask, stream));
}

cusStatus cusMotionDetectorWatch(cusMotionDetector *detector, int camera, const cusMat *mask, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusMotionDetectorWatch", detector, stream, watch(detector, camera, mask, stream));
}

static cusStatus checkStep(const char *function, const cusMotionDetector *detector, const MotionStep *step) {
    const MotionModel *const m = &detector->model;
    CUSI_NOT_NULL(function, step->frames);
    CUSI_REQUIRE(step->times || m->options.learn_us == 0, CUS_ERROR_VALUE,
                 "%s: times is NULL, expected an array, since learn_us is %lld", function, (long long)m->options.learn_us);
    for (int c = 0; c < m->cameras; ++c) {
        if (!step->frames[c].data)
            continue;
        char name[CUSI_ITEM_NAME];
        CUS_TRY(checkImage(function, cusi_itemName(name, "frames", c), m, &step->frames[c], m->type));
        CUSI_REQUIRE(!step->times || step->times[c] >= detector->times[c], CUS_ERROR_VALUE,
                     "%s: times[%d] is %lld, expected at least %lld, the time of the camera's last frame", function, c,
                     (long long)step->times[c], (long long)detector->times[c]);
    }
    return CUS_OK;
}

static cusStatus run(cusMotionDetector *detector, const cusMat *frames, const int64_t *times, cusStream stream) {
    const char *const function = "cusMotionDetectorRun";
    const MotionModel *const m = &detector->model;
    const MotionStep step = {frames, times};
    CUS_TRY(checkStep(function, detector, &step));
    if (times && m->options.space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "a graph would repeat the times of the frames"));
    CUS_TRY(CUSI_BACKEND(function, m->options.space, motion_host_run(detector, &step),
                         motion_cuda_run(function, detector, &step, stream)));
    for (int c = 0; times && c < m->cameras; ++c)
        if (frames[c].data)
            detector->times[c] = times[c];
    return CUS_OK;
}

cusStatus cusMotionDetectorRun(cusMotionDetector *detector, const cusMat *frames, const int64_t *times, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusMotionDetectorRun", detector, stream, run(detector, frames, times, stream));
}

cusStatus cusMotionDetectorResults(const cusMotionDetector *detector, cusMotionResults *results) {
    CUSI_TRACE;
    const char *const function = "cusMotionDetectorResults";
    CUSI_NOT_NULL(function, detector);
    CUSI_NOT_NULL(function, results);
    *results = detector->results;
    return CUS_OK;
}

/* Copies an array of results from either space to the host. */
static cusStatus copyOut(const char *function, cusSpace space, void *to, const void *from, size_t bytes, cusStream stream) {
    if (!to)
        return CUS_OK;
    if (space == CUS_DEVICE) {
        CUS_TRY(cusi_deviceWaitToDownload(function, to, stream));
        return cusi_deviceCopy(function, to, bytes, from, bytes, bytes, 1, stream);
    }
    memcpy(to, from, bytes);
    return CUS_OK;
}

static cusStatus get(cusMotionDetector *detector, int camera, int count, cusMotionStatus *status, cusMotionBox *boxes,
                     cusMotionTrack *tracks, cusStream stream) {
    const char *const function = "cusMotionDetectorGet";
    const cusMotionResults *const r = &detector->results;
    CUS_TRY(checkNumber(function, "camera", camera, 0, r->cameras - 1));
    CUS_TRY(checkNumber(function, "count", count, 1, r->cameras - camera));
    if (r->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(function, stream, "the call waits for it"));
    const size_t first = (size_t)camera * (size_t)r->max_boxes, all = (size_t)count * (size_t)r->max_boxes;
    CUS_TRY(copyOut(function, r->space, status, r->status + camera, (size_t)count * sizeof *status, stream));
    CUS_TRY(copyOut(function, r->space, boxes, r->boxes + first, all * sizeof *boxes, stream));
    CUS_TRY(copyOut(function, r->space, tracks, r->tracks + first, all * sizeof *tracks, stream));
    return r->space == CUS_DEVICE ? cusStreamSynchronize(stream) : CUS_OK;
}

cusStatus cusMotionDetectorGet(cusMotionDetector *detector, int camera, int count, cusMotionStatus *status,
                               cusMotionBox *boxes, cusMotionTrack *tracks, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusMotionDetectorGet", detector, stream,
                 CUSI_LONG("cusMotionDetectorGet", get(detector, camera, count, status, boxes, tracks, stream)));
}

static cusStatus maskOf(cusMotionDetector *detector, int camera, cusMat *mask, cusStream stream) {
    const char *const function = "cusMotionDetectorMask";
    const MotionModel *const m = &detector->model;
    CUS_TRY(checkNumber(function, "camera", camera, 0, m->cameras - 1));
    CUS_TRY(cusi_checkOutput(function, "mask", mask, m->rows, m->cols, CUS_8UC1, m->options.space));
    CUS_TRY(cusMatCreate(mask, m->rows, m->cols, CUS_8UC1, m->options.space));
    return CUSI_BACKEND(function, m->options.space, motion_host_mask(detector, camera, mask),
                        motion_cuda_mask(function, detector, camera, mask, stream));
}

cusStatus cusMotionDetectorMask(cusMotionDetector *detector, int camera, cusMat *mask, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusMotionDetectorMask", detector, stream, maskOf(detector, camera, mask, stream));
}
