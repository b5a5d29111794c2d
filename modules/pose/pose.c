/* Entry points of pose. */
#include "check.h"
#include "host.h"
#include "pose/backend.h"
#include "progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POSES = 65536, MAX_SIDE = 8192, MAX_PIXELS = 1 << 24 };

cusPoseOptions cusPoseDefaults(void) {
    return (cusPoseOptions){.method = CUS_MATCH_CCOEFF_NORMED,
                            .angles = {0, 0, 1, NULL, 0},
                            .scales = {1, 1, 1, NULL, 0},
                            .max_matches = 1,
                            .min_distance = 1,
                            .min_angle = 360,
                            .score_limit = NAN};
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

/* Checks a range within low..high and counts its values. */
static cusStatus countRange(const char *f, const char *name, const cusPoseRange *r, double low, double high, int *count) {
    if (r->list) {
        CUSI_REQUIRE(r->count >= 1 && r->count <= MAX_POSES, CUS_ERROR_VALUE, "%s: %s.count is %d, expected 1..%d", f, name,
                     r->count, MAX_POSES);
        for (int i = 0; i < r->count; ++i)
            CUSI_REQUIRE(r->list[i] >= low && r->list[i] <= high, CUS_ERROR_VALUE, "%s: %s.list[%d] is %g, expected %g..%g",
                         f, name, i, r->list[i], low, high);
        *count = r->count;
        return CUS_OK;
    }
    CUSI_REQUIRE(r->first >= low && r->last <= high && r->first <= r->last, CUS_ERROR_VALUE,
                 "%s: %s are %g to %g, expected an ascending range within %g..%g (first to last)", f, name, r->first,
                 r->last, low, high);
    CUSI_REQUIRE(isfinite(r->step) && (r->first == r->last || r->step > 0), CUS_ERROR_VALUE,
                 "%s: %s.step is %g, expected more than 0, and finite", f, name, r->step);
    const double steps = r->first == r->last ? 0 : (r->last - r->first) / r->step + 0.001;
    CUSI_REQUIRE(steps < MAX_POSES, CUS_ERROR_VALUE, "%s: %s.step is %g, expected at most %d values", f, name, r->step,
                 MAX_POSES);
    *count = (int)steps + 1;
    return CUS_OK;
}

static cusStatus checkOptions(const char *f, const cusPoseOptions *o, const cusMat *templ) {
    CUS_TRY(cusi_checkReserved(f, "options->", o->reserved));
    CUSI_REQUIRE(o->method == CUS_MATCH_SQDIFF || o->method == CUS_MATCH_SQDIFF_NORMED ||
                     o->method == CUS_MATCH_CCORR_NORMED || o->method == CUS_MATCH_CCOEFF_NORMED,
                 CUS_ERROR_VALUE,
                 "%s: method is %d, expected CUS_MATCH_SQDIFF, or SQDIFF_NORMED, CCORR_NORMED or CCOEFF_NORMED", f,
                 (int)o->method);
    CUSI_REQUIRE(o->max_matches >= 1 && o->max_matches <= 1024, CUS_ERROR_VALUE, "%s: max_matches is %d, expected 1..1024",
                 f, o->max_matches);
    CUSI_REQUIRE(o->min_distance >= 1, CUS_ERROR_VALUE, "%s: min_distance is %d, expected at least 1", f, o->min_distance);
    CUSI_REQUIRE(o->min_angle >= 0 && o->min_angle <= 360, CUS_ERROR_VALUE, "%s: min_angle is %g, expected 0..360", f,
                 o->min_angle);
    CUSI_REQUIRE(!isinf(o->score_limit), CUS_ERROR_VALUE,
                 "%s: score_limit is %g, expected a finite number, or NaN for no limit", f, o->score_limit);
    CUS_TRY(cusi_checkSwitch(f, "refine", o->refine));
    if (!o->mask)
        return CUS_OK;
    CUS_TRY(cusi_checkFields(f, "mask", o->mask));
    CUS_TRY(cusi_checkSameSpace(f, "mask", o->mask, "templ", templ));
    CUS_TRY(cusi_checkInput(f, "mask", o->mask, CUSI_TYPES(CUS_8UC1)));
    return cusi_checkSameSize(f, "mask", o->mask, "templ", templ);
}

static cusStatus checkScales(const char *f, const cusMat *templ, const double *scales, int count) {
    for (int i = 0; i < count; ++i) {
        const double w = templ->cols * scales[i], h = templ->rows * scales[i];
        CUSI_REQUIRE(w <= MAX_SIDE && h <= MAX_SIDE && w * h <= MAX_PIXELS, CUS_ERROR_SIZE,
                     "%s: templ is %d x %d (rows x cols) at scale %g, expected scaled sides of at most %d and 2^24 pixels",
                     f, templ->rows, templ->cols, scales[i], MAX_SIDE);
    }
    return CUS_OK;
}

static void fillRange(double *values, const cusPoseRange *r, int count) {
    for (int i = 0; i < count; ++i)
        values[i] = r->list ? r->list[i] : r->first + i * r->step;
}

static cusStatus copyTight(uint8_t *to, const cusMat *from, cusStream stream) {
    cusMat tight = CUS_MAT_INIT;
    CUS_TRY(cusMatWrap(&tight, from->rows, from->cols, from->type, CUS_HOST, to, 0));
    if (from->space == CUS_HOST)
        return cusMatCopy(from, &tight, NULL);
    CUS_TRY(cusMatDownload(from, &tight, stream));
    return cusStreamSynchronize(stream);
}

static cusStatus fill(const char *f, cusPoseMatcher *m, const cusMat *templ, const cusPoseOptions *o, cusStream stream) {
    const size_t pixels = (size_t)templ->rows * (size_t)templ->cols;
    m->templ_rows = templ->rows;
    m->templ_cols = templ->cols;
    m->angles = malloc((size_t)m->angle_count * sizeof(double));
    m->scales = malloc((size_t)m->scale_count * sizeof(double));
    m->poses = calloc((size_t)pose_count(m), sizeof *m->poses);
    m->picks = calloc((size_t)o->max_matches, sizeof *m->picks);
    m->matches = calloc((size_t)o->max_matches, sizeof *m->matches);
    m->templ = malloc(pixels);
    m->mask = o->mask ? malloc(pixels) : NULL;
    CUSI_REQUIRE(m->angles && m->scales && m->poses && m->picks && m->matches && m->templ && (m->mask || !o->mask),
                 CUS_ERROR_NO_MEMORY, "%s: out of host memory", f);
    fillRange(m->angles, &o->angles, m->angle_count);
    fillRange(m->scales, &o->scales, m->scale_count);
    CUS_TRY(checkScales(f, templ, m->scales, m->scale_count));
    CUS_TRY(copyTight(m->templ, templ, stream));
    if (o->mask) {
        CUS_TRY(copyTight(m->mask, o->mask, stream));
        int any = 0;
        for (size_t i = 0; i < pixels; ++i)
            any |= m->mask[i];
        CUSI_REQUIRE(any, CUS_ERROR_VALUE, "%s: mask is all zero, expected a pixel that counts", f);
    }
    for (int a = 0; a < m->angle_count; ++a)
        for (int s = 0; s < m->scale_count; ++s)
            m->poses[a * m->scale_count + s].transform =
                pose_transform(templ->cols, templ->rows, m->angles[a], m->scales[s]);
    CUS_TRY(CUSI_BACKEND(f, m->space, pose_host_create(f, m), pose_cuda_create(f, m)));
    if (m->space == CUS_DEVICE) /* the first run may be in another stream */
        CUS_TRY(cusStreamSynchronize(NULL));
    return cusi_guardCreate(f, &m->guard, m->space);
}

cusStatus cusPoseMatcherCreate(cusPoseMatcher **matcher, const cusMat *templ, int rows, int cols,
                               const cusPoseOptions *options, cusStream stream) {
    CUSI_TRACE;
    const char *const f = "cusPoseMatcherCreate";
    CUSI_NOT_NULL(f, matcher);
    const cusPoseOptions o = options ? *options : cusPoseDefaults();
    CUS_TRY(cusi_checkInput(f, "templ", templ, CUSI_TYPES(CUS_8UC1)));
    CUSI_REQUIRE(rows > 0 && cols > 0, CUS_ERROR_VALUE, "%s: frames are %d x %d (rows x cols), expected at least 1 x 1", f,
                 rows, cols);
    CUS_TRY(cusi_checkSides(f, "rows x cols", rows, cols));
    CUSI_REQUIRE((int64_t)rows * cols <= 1 << 30, CUS_ERROR_SIZE,
                 "%s: frames are %d x %d (rows x cols), expected at most 2^30 pixels", f, rows, cols);
    CUSI_REQUIRE(templ->rows <= MAX_SIDE && templ->cols <= MAX_SIDE, CUS_ERROR_SIZE,
                 "%s: templ is %d x %d (rows x cols), expected sides of at most %d", f, templ->rows, templ->cols, MAX_SIDE);
    CUS_TRY(checkOptions(f, &o, templ));
    int angles, scales;
    CUS_TRY(countRange(f, "angles", &o.angles, -360, 360, &angles));
    CUS_TRY(countRange(f, "scales", &o.scales, 0.0625, 16, &scales));
    CUSI_REQUIRE((int64_t)angles * scales <= MAX_POSES, CUS_ERROR_VALUE,
                 "%s: %d angles and %d scales, expected at most %d poses", f, angles, scales, MAX_POSES);
    CUS_TRY(cusi_checkStream(f, templ->space, stream));
    if (templ->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(f, stream, "the call waits for it"));
    cusPoseMatcher *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", f);
    made->options = o;
    made->seen.pose = -1;
    made->options.mask = NULL;
    made->options.angles.list = made->options.scales.list = NULL;
    made->angle_count = angles;
    made->scale_count = scales;
    made->space = templ->space;
    made->rows = rows;
    made->cols = cols;
    const cusStatus status = CUSI_LONG(f, fill(f, made, templ, &o, stream));
    if (status != CUS_OK) {
        cusPoseMatcherDestroy(made);
        return status;
    }
    *matcher = made;
    return CUS_OK;
}

void cusPoseMatcherDestroy(cusPoseMatcher *matcher) {
    CUSI_TRACE;
    if (!matcher)
        return;
#ifdef CUSI_WITH_CUDA
    if (matcher->space == CUS_DEVICE)
        pose_cuda_destroy(matcher);
#endif
    if (matcher->space == CUS_HOST)
        pose_host_destroy(matcher);
    for (int i = 0; matcher->blocks && i < pose_count(matcher) * matcher->levels; ++i)
        free(matcher->blocks[i].at);
    free(matcher->blocks);
    cusi_guardRelease(&matcher->guard);
    free(matcher->angles);
    free(matcher->scales);
    free(matcher->templ);
    free(matcher->mask);
    free(matcher->poses);
    free(matcher->picks);
    free(matcher->matches);
    free(matcher);
}

/* ---- Use --------------------------------------------------------------------------------------------------------- */

static cusPoseMatch matchOf(const cusPoseMatcher *m, const PoseBest *b) {
    const Pose *const p = &m->poses[b->pose];
    const int angle = b->pose / m->scale_count, scale = b->pose % m->scale_count;
    return (cusPoseMatch){.x = (double)pose_center(b->col, p->left, p->transform.cols) / 2,
                          .y = (double)pose_center(b->row, p->top, p->transform.rows) / 2,
                          .angle = m->angles[angle],
                          .scale = m->scales[scale],
                          .score = pose_score(m->options.method, b),
                          .col = b->col,
                          .row = b->row,
                          .angle_index = angle,
                          .scale_index = scale,
                          .pixels = (int32_t)p->n};
}

cusStatus pose_values(cusPoseMatcher *m, const cusMat *frame, PoseBest *values, int count, cusStream stream) {
    return CUSI_BACKEND("cusPoseMatcherRun", m->space, pose_host_values(m, frame, values, count),
                        pose_cuda_values(m, frame, values, count, stream));
}

static cusStatus search(cusPoseMatcher *m, const cusMat *frame, cusStream stream) {
    const char *const f = "cusPoseMatcherRun";
    m->found = 0;
    m->seen.pose = -1;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, m->options.max_matches);
    for (int i = 0; i < m->options.max_matches; ++i, cusi_step(progress, 1)) {
        PoseBest *const best = &m->picks[i];
        best->pose = -1;
        const cusStatus status = CUSI_LONG(f, CUSI_BACKEND(f, m->space, pose_host_search(m, frame, m->picks, i, best),
                                                           pose_cuda_search(m, frame, m->picks, i, best, stream)));
        if (best->pose >= 0 && pose_cost(m->options.method, best) > pose_limitCost(m))
            best->pose = -1;
        if (best->pose >= 0) /* after a cancel, the best so far */
            m->matches[m->found++] = matchOf(m, best);
        CUS_TRY(status);
        if (best->pose < 0)
            break;
        if (m->options.refine)
            CUS_TRY(pose_refine(m, frame, &m->matches[i], stream));
    }
    return CUS_OK;
}

static cusStatus run(cusPoseMatcher *m, const cusMat *frame, cusStream stream) {
    const char *const f = "cusPoseMatcherRun";
    CUS_TRY(cusi_checkFields(f, "frame", frame));
    CUSI_REQUIRE(frame->space == m->space, CUS_ERROR_SPACE, "%s: frame is in %s memory, expected %s like the matcher", f,
                 frame->space == CUS_DEVICE ? "device" : "host", m->space == CUS_DEVICE ? "device" : "host");
    CUS_TRY(cusi_checkInput(f, "frame", frame, CUSI_TYPES(CUS_8UC1)));
    CUSI_REQUIRE(frame->rows == m->rows && frame->cols == m->cols, CUS_ERROR_SIZE,
                 "%s: frame is %d x %d (rows x cols), expected %d x %d like the matcher", f, frame->rows, frame->cols,
                 m->rows, m->cols);
    if (m->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(f, stream, "the call waits for it"));
    const cusStatus status = search(m, frame, stream);
    if (m->space == CUS_HOST)
        pose_host_end(m);
    return status;
}

cusStatus cusPoseMatcherRun(cusPoseMatcher *matcher, const cusMat *frame, cusStream stream) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPoseMatcherRun", matcher, stream, CUSI_LONG("cusPoseMatcherRun", run(matcher, frame, stream)));
}

static cusStatus get(const cusPoseMatcher *matcher, cusPoseMatch *matches, int capacity, int *found) {
    const char *const f = "cusPoseMatcherGet";
    CUSI_NOT_NULL(f, found);
    CUSI_REQUIRE(capacity >= 0, CUS_ERROR_VALUE, "%s: capacity is %d, expected at least 0", f, capacity);
    CUSI_REQUIRE(matches || capacity == 0, CUS_ERROR_NULL, "%s: matches is NULL", f);
    *found = matcher->found;
    CUSI_REQUIRE(matcher->found <= capacity, CUS_ERROR_CAPACITY, "%s: capacity is %d, expected at least %d", f, capacity,
                 matcher->found);
    if (matcher->found > 0)
        memcpy(matches, matcher->matches, (size_t)matcher->found * sizeof *matches);
    return CUS_OK;
}

static cusStatus getNearest(const cusPoseMatcher *matcher, cusPoseMatch *nearest, int *found) {
    const char *const f = "cusPoseMatcherNearest";
    CUSI_NOT_NULL(f, nearest);
    CUSI_NOT_NULL(f, found);
    *found = matcher->found > 0 || matcher->seen.pose >= 0;
    if (*found)
        *nearest = matcher->found > 0 ? matcher->matches[0] : matchOf(matcher, &matcher->seen);
    return CUS_OK;
}

cusStatus cusPoseMatcherGet(cusPoseMatcher *matcher, cusPoseMatch *matches, int capacity, int *found) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPoseMatcherGet", matcher, NULL, get(matcher, matches, capacity, found));
}

cusStatus cusPoseMatcherNearest(cusPoseMatcher *matcher, cusPoseMatch *nearest, int *found) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPoseMatcherNearest", matcher, NULL, getNearest(matcher, nearest, found));
}

static void copyOut(cusMat *to, const uint8_t *from) {
    for (int y = 0; y < to->rows; ++y)
        memcpy((char *)to->data + (size_t)y * to->step, from + (size_t)y * (size_t)to->cols, (size_t)to->cols);
}

static cusStatus window(const cusPoseMatcher *matcher, int angle_index, int scale_index, cusMat *templ, cusMat *mask) {
    const char *const f = "cusPoseMatcherTemplate";
    CUSI_REQUIRE(angle_index >= 0 && angle_index < matcher->angle_count, CUS_ERROR_VALUE,
                 "%s: angle_index is %d, expected 0..%d", f, angle_index, matcher->angle_count - 1);
    CUSI_REQUIRE(scale_index >= 0 && scale_index < matcher->scale_count, CUS_ERROR_VALUE,
                 "%s: scale_index is %d, expected 0..%d", f, scale_index, matcher->scale_count - 1);
    const Pose *const p = &matcher->poses[angle_index * matcher->scale_count + scale_index];
    CUSI_REQUIRE(p->n > 0, CUS_ERROR_VALUE, "%s: angle %g at scale %g has no pixels that count, expected a pose with some",
                 f, matcher->angles[angle_index], matcher->scales[scale_index]);
    if (templ)
        CUS_TRY(cusi_checkOutput(f, "templ", templ, p->rows, p->cols, CUS_8UC1, CUS_HOST));
    if (mask)
        CUS_TRY(cusi_checkOutput(f, "mask", mask, p->rows, p->cols, CUS_8UC1, CUS_HOST));
    if (templ && mask)
        CUS_TRY(cusi_checkNoOverlap(f, "mask", mask, "templ", templ));
    const size_t area = (size_t)p->rows * (size_t)p->cols;
    uint8_t *const pixels = malloc(2 * area);
    CUSI_REQUIRE(pixels, CUS_ERROR_NO_MEMORY, "%s: out of host memory for %zu bytes", f, 2 * area);
    pose_resample(matcher, p, pixels, pixels + area);
    cusStatus status = templ ? cusMatCreate(templ, p->rows, p->cols, CUS_8UC1, CUS_HOST) : CUS_OK;
    if (status == CUS_OK && mask)
        status = cusMatCreate(mask, p->rows, p->cols, CUS_8UC1, CUS_HOST);
    if (status == CUS_OK && templ)
        copyOut(templ, pixels);
    if (status == CUS_OK && mask)
        copyOut(mask, pixels + area);
    free(pixels);
    return status;
}

cusStatus cusPoseMatcherTemplate(cusPoseMatcher *matcher, int angle_index, int scale_index, cusMat *templ, cusMat *mask) {
    CUSI_TRACE;
    CUSI_GUARDED("cusPoseMatcherTemplate", matcher, NULL, window(matcher, angle_index, scale_index, templ, mask));
}

cusStatus cusPoseMatcherGrid(const cusPoseMatcher *matcher, int *angles, int *scales) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusPoseMatcherGrid", matcher);
    if (angles)
        *angles = matcher->angle_count;
    if (scales)
        *scales = matcher->scale_count;
    return CUS_OK;
}
