/* Entry points of match for both backends: creation, with checks and moments of the templates, and use. */
#include "check.h"
#include "hsv.h"
#include "host.h"
#include "match/scores.h"
#include "match/dots/dots.h"
#include "match/fft/fft.h"
#include "progress.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cusMatcherOptions cusMatcherDefaults(void) {
    return (cusMatcherOptions){.method = CUS_MATCH_CCOEFF_NORMED,
                               .algorithm = CUS_MATCH_AUTO,
                               .max_matches = 1,
                               .min_distance = 1,
                               .score_limit = NAN,
                               .batch = 1};
}

#ifdef CUSI_WITH_CUDA
/* cuda/cufft/open.c: says why this thread's last call could not reach cuFFT, or NULL. */
const char *match_cufftProblem(void);
#endif

/* ---- Creation -------------------------------------------------------------------------------------------------------- */

static cusStatus checkOptions(const char *f, const cusMatcherOptions *o, const cusMat *templ, int count) {
    CUS_TRY(cusi_checkReserved(f, "options->", o->reserved));
    CUSI_REQUIRE((int)o->method >= 0 && o->method <= CUS_MATCH_CCOEFF_NORMED, CUS_ERROR_VALUE,
                 "%s: method is %d, expected CUS_MATCH_SQDIFF..CUS_MATCH_CCOEFF_NORMED", f, (int)o->method);
    CUSI_REQUIRE((int)o->algorithm >= 0 && o->algorithm <= CUS_MATCH_FFT, CUS_ERROR_VALUE,
                 "%s: algorithm is %d, expected CUS_MATCH_AUTO, CUS_MATCH_DIRECT or CUS_MATCH_FFT", f, (int)o->algorithm);
    CUSI_REQUIRE(o->max_matches >= 1 && o->max_matches <= 1024, CUS_ERROR_VALUE, "%s: max_matches is %d, expected 1..1024",
                 f, o->max_matches);
    CUSI_REQUIRE(o->min_distance >= 1, CUS_ERROR_VALUE, "%s: min_distance is %d, expected at least 1", f, o->min_distance);
    CUSI_REQUIRE(!isinf(o->score_limit), CUS_ERROR_VALUE,
                 "%s: score_limit is %g, expected a finite number, or NaN for no limit", f, o->score_limit);
    CUS_TRY(cusi_checkSwitch(f, "subpixel", o->subpixel));
    CUSI_REQUIRE(o->batch >= 1 && o->batch <= 1024, CUS_ERROR_VALUE, "%s: batch is %d, expected 1..1024", f, o->batch);
    CUSI_REQUIRE(o->batch == 1 || count == 1 || count == o->batch, CUS_ERROR_VALUE,
                 "%s: count is %d, expected 1 or %d, a template for each frame of a batch", f, count, o->batch);
    if (!o->mask)
        return CUS_OK;
    const int channels = CUS_CHANNELS(templ->type);
    CUS_TRY(cusi_checkInput(
        f, "mask", o->mask,
        channels == 1 ? CUSI_TYPES(CUS_8UC1, CUS_32FC1)
                      : CUSI_TYPES(CUS_8UC1, CUS_32FC1, CUS_MAKETYPE(CUS_8U, channels), CUS_MAKETYPE(CUS_32F, channels))));
    CUSI_REQUIRE(o->mask->type == CUS_8UC1 || o->method < CUS_MATCH_CCOEFF, CUS_ERROR_TYPE,
                 "%s: mask has type %s, expected 8UC1 for CUS_MATCH_CCOEFF and CUS_MATCH_CCOEFF_NORMED (the default)", f,
                 cusi_typeName(o->mask->type));
    CUS_TRY(cusi_checkSameSpace(f, "mask", o->mask, "templates[0]", templ));
    return cusi_checkSameSize(f, "mask", o->mask, "templates[0]", templ);
}

/* Copies a matrix in either space to host memory without row padding. */
static cusStatus fetch(const cusMat *mat, void *tight, cusStream stream) {
    cusMat host = CUS_MAT_INIT;
    CUS_TRY(cusMatWrap(&host, mat->rows, mat->cols, mat->type, CUS_HOST, tight, 0));
    if (mat->space == CUS_HOST)
        return cusMatCopy(mat, &host, NULL);
    CUS_TRY(cusMatDownload(mat, &host, stream));
    return cusStreamSynchronize(stream);
}

/* Chooses the shift of `count` templates: the mean of each channel inside the mask, rounded if all pixels are integers. */
static void chooseShift(const MatchModel *m, const void *data, MatchMask mask, size_t elements, int count, double *shift) {
    double sum[MATCH_MAX_CHANNELS] = {0};
    int integers = 1;
    for (size_t i = 0; i < elements * (size_t)count; ++i) {
        if (mask.inside && !mask.inside[i % elements])
            continue;
        const double v = match_element(data, m->integer, i);
        sum[i % (size_t)m->channels] += v;
        integers &= v == rint(v);
    }
    for (int c = 0; c < m->channels; ++c)
        shift[c] = match_shiftOf(sum[c] / (m->n * count), integers);
}

/* Chooses one shift for all templates, and for frames without a shift of their own. It must not make any template of floats
 * larger. */
static void chooseCommonShift(MatchModel *m, const void *data, MatchMask mask, size_t elements) {
    chooseShift(m, data, mask, elements, m->templates, m->shift);
    for (size_t k = 0; k < (size_t)m->templates && !m->integer; ++k) {
        double raw = 0, shifted = 0;
        for (size_t i = 0; i < elements; ++i) {
            const double v = match_element(data, 0, k * elements + i), difference = v - m->shift[i % (size_t)m->channels];
            const double weight = match_weight(mask, i);
            raw += weight * v * v;
            shifted += weight * difference * difference;
        }
        if (shifted > raw)
            memset(m->shift, 0, sizeof m->shift);
    }
}

static void sumTemplate(const MatchModel *m, const void *data, MatchMask mask, size_t elements, MatchTemplate *t) {
    *t = (MatchTemplate){.t2 = 0};
    memcpy(t->shift, m->shift, sizeof t->shift);
    if (match_hasOwnShift(m))
        chooseShift(m, data, mask, elements, 1, t->shift);
    double first[MATCH_MAX_CHANNELS] = {0}, plane2[MATCH_MAX_CHANNELS] = {0}, all2 = 0;
    int one_color = 1, known = 0; /* known: a bit for each channel with a value in `first` */
    for (size_t i = 0; i < elements; ++i) {
        const size_t c = i % (size_t)m->channels;
        const double weight = match_weight(mask, i);
        if (weight == 0)
            continue;
        const double raw = match_element(data, m->integer, i), v = raw - t->shift[c];
        t->raw_t1[c] += weight * raw;
        t->raw_t2 += weight * raw * raw;
        first[c] = known >> c & 1 ? first[c] : raw;
        known |= 1 << c;
        one_color &= raw == first[c];
        t->t1[c] += weight * v;
        t->t2 += weight * v * v;
        plane2[c] += weight * v * (weight * v);
        all2 += weight * v * (weight * v);
    }
    const double variation = match_centered(m, t->t2, t->t1, t->t1).high / m->n;
    t->variation = one_color ? 0 : variation;
    t->step = m->method == CUS_MATCH_SQDIFF && t->raw_t2 > 0 ? ldexp(1.0, ilogb(t->raw_t2) - 36) : 0;
    t->unit = m->integer ? 1 : match_unitOf(all2);
    for (int c = 0; c < m->channels; ++c)
        t->norm[c] = sqrt(plane2[c]);
}

void match_chooseSamples(const MatchModel *m, MatchMask mask, uint32_t *samples) {
    const uint64_t inside = (uint64_t)m->n;
    uint64_t pixel = 0, seen = 0;
    for (uint64_t i = 0; i < (uint64_t)m->samples; ++pixel) {
        if (mask.inside && !mask.inside[pixel * (size_t)m->channels])
            continue;
        if (seen++ == i * inside / (uint64_t)m->samples) {
            samples[i] = (uint32_t)pixel;
            ++i;
        }
    }
}

/* Prepares a matcher from a host copy of the templates without row padding. */
static cusStatus prepare(const char *f, cusMatcher *made, const void *data, MatchMask mask, cusStream stream) {
    assert(data);
    MatchModel *m = &made->model;
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels;
    MatchTemplate *sums = calloc((size_t)m->templates, sizeof *sums);
    CUSI_REQUIRE(sums, CUS_ERROR_NO_MEMORY, "%s: out of host memory", f);
    if (made->algorithm == CUS_MATCH_DIRECT && made->space == CUS_HOST)
        for (int c = 0; c < m->channels; ++c)
            m->shift[c] = MATCH_DOTS_SHIFT;
    else if (made->algorithm == CUS_MATCH_FFT && !m->weighted)
        chooseCommonShift(m, data, mask, elements);
    if (!m->integer && m->method >= CUS_MATCH_CCOEFF)
        m->samples = m->n < MATCH_LANES ? (int)m->n : MATCH_LANES;
    const size_t bytes = elements * (m->integer ? 1 : sizeof(float));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 0.2, m->templates);
    cusStatus status = CUS_OK;
    for (int k = 0; k < m->templates && status == CUS_OK; ++k, cusi_step(progress, 1)) {
        const char *one = (const char *)data + (size_t)k * bytes;
        int finite = 1;
        for (size_t i = 0; i < elements && !m->integer; ++i)
            finite &= isfinite(match_element(one, 0, i)) != 0;
        if (!finite) {
            status = cusi_fail(CUS_ERROR_VALUE, "%s: templates[%d] holds NaN or infinity, expected finite values", f, k);
            break;
        }
        sumTemplate(m, one, mask, elements, &sums[k]);
        status = cusi_proceed(progress);
    }
    if (status == CUS_OK)
        status = CUSI_BACKEND(f, made->space, match_host_prepare(made, data, mask, sums),
                              match_cuda_prepare(made, data, mask, sums, stream));
    if (status == CUS_OK && made->space == CUS_DEVICE) /* the first run may be in another stream */
        status = cusStreamSynchronize(stream);
    free(sums);
    return status;
}

/* Copies a matrix of bytes or floats to floats in host memory without row padding. bytes: room for a matrix of bytes. */
static cusStatus fetchFloats(const cusMat *mat, float *tight, uint8_t *bytes, cusStream stream) {
    if (CUS_DEPTH(mat->type) == CUS_32F || !bytes)
        return fetch(mat, tight, stream);
    CUS_TRY(fetch(mat, bytes, stream));
    const size_t n = (size_t)mat->rows * (size_t)mat->cols * (size_t)CUS_CHANNELS(mat->type);
    for (size_t i = 0; i < n; ++i)
        tight[i] = bytes[i];
    return CUS_OK;
}

/* Fetches the mask's value for each element of a template, and sets the model's fields. one: room for one template. */
static cusStatus fetchMask(const char *f, MatchModel *m, const cusMat *mask, uint8_t *inside, float *weights, void *one,
                           cusStream stream) {
    const size_t pixels = (size_t)m->w * (size_t)m->h, channels = (size_t)m->channels;
    const size_t given = (size_t)CUS_CHANNELS(mask->type);
    CUS_TRY(weights ? fetchFloats(mask, weights, one, stream) : fetch(mask, inside, stream));
    m->n = weights ? m->n : 0;
    float largest = 0;
    int finite = 1;
    for (size_t i = 0; weights && i < pixels * given; ++i) {
        largest = fmaxf(largest, fabsf(weights[i]));
        finite &= isfinite(weights[i]) != 0;
    }
    CUSI_REQUIRE(finite, CUS_ERROR_VALUE, "%s: mask holds NaN or infinity, expected finite weights", f);
    /* Scaling the largest weight to 1 .. 2 keeps all products far from the ends of double's range. */
    const int exponent = largest > 0 && CUS_DEPTH(mask->type) == CUS_32F ? ilogbf(largest) : 0;
    m->unit = m->method & 1 ? 1 : ldexp(1.0, 2 * exponent);
    double norm2 = 0;
    for (size_t i = pixels * channels; i-- > 0;) { /* backwards, since values move towards the end */
        const size_t from = i / channels * given + i % channels % given;
        if (weights) {
            inside[i] = weights[from] != 0 ? 255 : 0;
            weights[i] = CUS_DEPTH(mask->type) == CUS_8U ? weights[from] != 0 : ldexpf(weights[from], -exponent);
            const double weight = (double)weights[i] * weights[i];
            norm2 += weight * weight;
        } else {
            inside[i] = inside[from] ? 255 : 0;
        }
        m->n += !weights && inside[i] && i % channels == 0 ? 1 : 0;
    }
    CUSI_REQUIRE(weights ? norm2 > 0 : m->n > 0, CUS_ERROR_VALUE, "%s: mask is all zero", f);
    m->mask_norm = sqrt(weights ? norm2 : m->n);
    return CUS_OK;
}

/* Copies templates and mask to host memory, then prepares. */
static cusStatus fetchAndPrepare(const char *f, cusMatcher *made, const cusMat *templates, const cusMat *mask,
                                 cusStream stream) {
    MatchModel *m = &made->model;
    const size_t elements = (size_t)m->w * (size_t)m->h * (size_t)m->channels;
    const size_t bytes = elements * (m->integer ? 1 : sizeof(float));
    char *data = cusi_hostAllocate(bytes * (size_t)m->templates);
    uint8_t *inside = mask ? cusi_hostAllocate(elements) : NULL, *one = m->weighted ? cusi_hostAllocate(elements) : NULL;
    float *weights = m->weighted ? cusi_hostAllocate(elements * sizeof(float)) : NULL;
    cusStatus status = CUS_OK;
    if (!data || (mask && !inside) || (m->weighted && (!one || !weights)))
        status = cusi_fail(CUS_ERROR_NO_MEMORY, "%s: out of host memory for %zu bytes", f, bytes * (size_t)m->templates);
    for (int k = 0; k < m->templates && status == CUS_OK; ++k) {
        char *const to = data + (size_t)k * bytes;
        status = m->integer ? fetch(&templates[k], to, stream) : fetchFloats(&templates[k], (float *)to, one, stream);
    }
    if (status == CUS_OK && mask)
        status = fetchMask(f, m, mask, inside, weights, one, stream);
    if (status == CUS_OK)
        status = prepare(f, made, data, (MatchMask){inside, weights}, stream);
    if (status == CUS_OK && m->weighted && CUS_DEPTH(made->type) == CUS_8U)
        status = cusMatCreate(&made->floats, m->rows, m->cols, CUS_MAKETYPE(CUS_32F, m->channels), made->space);
    free(data);
    free(inside);
    free(one);
    free(weights);
    return status;
}

static cusStatus checkTemplates(const char *f, const cusMat *templates, int count) {
    for (int k = 0; k < count; ++k) {
        char name[32];
        snprintf(name, sizeof name, "templates[%d]", k);
        CUS_TRY(cusi_checkInput(
            f, name, &templates[k],
            CUSI_TYPES(CUS_8UC1, CUS_8UC2, CUS_8UC3, CUS_8UC4, CUS_32FC1, CUS_32FC2, CUS_32FC3, CUS_32FC4)));
        CUS_TRY(cusi_checkSameSpace(f, name, &templates[k], "templates[0]", &templates[0]));
        CUS_TRY(cusi_checkSameType(f, name, &templates[k], "templates[0]", &templates[0]));
        CUS_TRY(cusi_checkSameSize(f, name, &templates[k], "templates[0]", &templates[0]));
    }
    return CUS_OK;
}

static cusStatus checkSizes(const char *f, const cusMat *first, int rows, int cols) {
    CUS_TRY(cusi_checkSides(f, "rows x cols", rows, cols));
    CUSI_REQUIRE(rows >= first->rows && cols >= first->cols, CUS_ERROR_SIZE,
                 "%s: templates are %d x %d (rows x cols), expected at most the frame, %d x %d", f, first->rows,
                 first->cols, rows, cols);
    CUSI_REQUIRE(CUS_DEPTH(first->type) == CUS_32F || cusi_rowBytes(first) <= 65536, CUS_ERROR_SIZE,
                 "%s: a row of templates[0] has %zu bytes, expected at most 65536", f, cusi_rowBytes(first));
    CUSI_REQUIRE((uint64_t)rows * (uint64_t)cols < UINT32_MAX, CUS_ERROR_SIZE,
                 "%s: frames are %d x %d (rows x cols), expected at most 2^32 - 2 pixels", f, rows, cols);
    return CUS_OK;
}

static MatchModel modelOf(const cusMat *first, int count, int rows, int cols, const cusMatcherOptions *o) {
    const int masked = o->mask != NULL, channels = CUS_CHANNELS(first->type);
    const int weighted = masked && o->mask->type != CUS_8UC1;
    const double limit = match_smallestIsBest(o->method) ? o->score_limit : -o->score_limit;
    return (MatchModel){.method = o->method,
                        .integer = CUS_DEPTH(first->type) == CUS_8U && !weighted,
                        .masked = masked,
                        .weighted = weighted,
                        .channels = channels,
                        .w = first->cols,
                        .h = first->rows,
                        .cols = cols,
                        .rows = rows,
                        .ocols = cols - first->cols + 1,
                        .orows = rows - first->rows + 1,
                        .count = o->batch > 1 ? 1 : count,
                        .templates = count,
                        .frames = o->batch,
                        .needs_s1 = o->method != CUS_MATCH_SQDIFF && !weighted,
                        .needs_s2 = o->method != CUS_MATCH_CCORR && o->method != CUS_MATCH_CCOEFF,
                        .max_matches = o->max_matches,
                        .min_distance = o->min_distance,
                        .subpixel = o->subpixel != 0,
                        .n = (double)first->cols * first->rows,
                        .unit = 1,
                        .limit_cost = isnan(limit) ? INFINITY : limit};
}

cusStatus cusMatcherCreate(cusMatcher **matcher, const cusMat *templates, int count, int rows, int cols,
                           const cusMatcherOptions *options, cusStream stream) {
    CUSI_TRACE;
    const char *f = "cusMatcherCreate";
    CUSI_NOT_NULL(f, matcher);
    CUSI_NOT_NULL(f, templates);
    cusMatcherOptions o = options ? *options : cusMatcherDefaults();
    o.batch += o.batch == 0;
    CUSI_REQUIRE(count >= 1 && count <= 1024, CUS_ERROR_VALUE, "%s: count is %d, expected 1..1024", f, count);
    CUS_TRY(checkTemplates(f, templates, count));
    const cusMat *first = &templates[0];
    CUS_TRY(checkOptions(f, &o, first, count));
    CUS_TRY(checkSizes(f, first, rows, cols));
    CUS_TRY(cusi_checkStream(f, first->space, stream));
    if (first->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(f, stream, "the call waits for it"));

    cusMatcher *made = calloc(1, sizeof *made);
    CUSI_REQUIRE(made, CUS_ERROR_NO_MEMORY, "%s: out of host memory", f);
    made->type = first->type;
    made->space = first->space;
    made->frames_at_once = 1;
    made->model = modelOf(first, count, rows, cols, &o);
    cusStatus status = CUS_OK;
    if (made->space == CUS_HOST)
        made->algorithm = match_host_algorithm(&made->model, o.algorithm);
#ifdef CUSI_WITH_CUDA
    else
        status = match_cuda_algorithm(&made->model, o.algorithm, &made->algorithm);
#endif
    if (status == CUS_OK)
        status = CUSI_LONG(f, fetchAndPrepare(f, made, templates, o.mask, stream));
    if (status == CUS_OK)
        status = cusi_guardCreate(f, &made->guard, made->space);
#ifdef CUSI_WITH_CUDA
    const char *const problem = match_cufftProblem();
    if (status == CUS_ERROR_CUDA && problem)
        status =
            cusi_fail(CUS_ERROR_NO_CUDA,
                      "%s: matching by FFT on the device needs cuFFT: %s (8-bit images: CUS_MATCH_DIRECT works without it)",
                      f, problem);
#endif
    if (status != CUS_OK) {
        cusMatcherDestroy(made);
        return status;
    }
    *matcher = made;
    return CUS_OK;
}

void cusMatcherDestroy(cusMatcher *matcher) {
    CUSI_TRACE;
    if (!matcher)
        return;
    if (matcher->space == CUS_HOST)
        match_host_release(matcher);
#ifdef CUSI_WITH_CUDA
    else
        match_cuda_release(matcher);
#endif
    cusMatRelease(&matcher->results);
    cusMatRelease(&matcher->floats);
    cusi_guardRelease(&matcher->guard);
    free(matcher);
}

/* ---- Use ------------------------------------------------------------------------------------------------------------- */

/* Checks the frames of a run, which are in an array. */
static cusStatus checkFrames(const char *f, const cusMatcher *matcher, const cusMat *frames, int type) {
    const MatchModel *m = &matcher->model;
    CUSI_NOT_NULL(f, frames);
    for (int i = 0; i < m->frames; ++i) {
        const cusMat *frame = &frames[i];
        char name[32] = "frame";
        if (m->frames > 1)
            snprintf(name, sizeof name, "frame[%d]", i);
        CUS_TRY(cusi_checkMat(f, name, frame));
        CUSI_REQUIRE(frame->space == matcher->space, CUS_ERROR_SPACE,
                     "%s: %s is in %s memory, expected %s like the matcher", f, name,
                     frame->space == CUS_DEVICE ? "device" : "host", matcher->space == CUS_DEVICE ? "device" : "host");
        CUSI_REQUIRE(frame->type == type, CUS_ERROR_TYPE, "%s: %s has type %s, expected %s", f, name,
                     cusi_typeName(frame->type), cusi_typeName(type));
        CUSI_REQUIRE(frame->rows == m->rows && frame->cols == m->cols, CUS_ERROR_SIZE,
                     "%s: %s is %d x %d (rows x cols), expected %d x %d like the matcher", f, name, frame->rows,
                     frame->cols, m->rows, m->cols);
    }
    return CUS_OK;
}

static cusStatus createMaps(const char *f, const cusMatcher *matcher, const cusMat *frames, cusMat *scores) {
    const MatchModel *m = &matcher->model;
    for (int k = 0; k < m->frames * m->count; ++k) {
        char name[32];
        snprintf(name, sizeof name, "scores[%d]", k);
        CUS_TRY(cusi_checkOutput(f, name, &scores[k], m->orows, m->ocols, CUS_32FC1, matcher->space));
        for (int i = 0; i < m->frames; ++i)
            CUS_TRY(cusi_checkNoOverlap(f, name, &scores[k], "frame", &frames[i]));
    }
    for (int k = 0; k < m->frames * m->count; ++k)
        CUS_TRY(cusMatCreate(&scores[k], m->orows, m->ocols, CUS_32FC1, matcher->space));
    return CUS_OK;
}

/* Does on the host what match_cuda_toFloats() does. */
static cusStatus toFloats(const cusMat *frame, cusMat *floats) {
    const size_t n = (size_t)frame->cols * (size_t)CUS_CHANNELS(frame->type);
    for (size_t y = 0; y < (size_t)frame->rows; ++y) {
        const uint8_t *from = (const uint8_t *)frame->data + y * frame->step;
        float *to = (float *)(void *)((char *)floats->data + y * floats->step);
        for (size_t x = 0; x < n; ++x)
            to[x] = from[x];
    }
    return CUS_OK;
}

static cusStatus runObject(const char *f, cusMatcher *matcher, const cusMat *frames, cusMat *scores, cusStream stream) {
    const MatchModel *m = &matcher->model;
    CUS_TRY(checkFrames(f, matcher, frames, matcher->type));
    if (scores && matcher->space == CUS_DEVICE) /* the maps' addresses are sent when they change */
        CUS_TRY(cusi_refuseCapture(f, stream, "scores would not be part of the graph"));
    if (scores)
        CUS_TRY(createMaps(f, matcher, frames, scores));
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, m->frames);
    for (int i = 0, count; i < m->frames; i += count, cusi_step(progress, count)) {
        const cusMat *frame = &frames[i];
        count = m->frames - i < matcher->frames_at_once ? m->frames - i : matcher->frames_at_once;
        if (matcher->floats.data) {
            CUS_TRY(CUSI_BACKEND(f, matcher->space, toFloats(frame, &matcher->floats),
                                 match_cuda_toFloats(frame, &matcher->floats, stream)));
            frame = &matcher->floats;
        }
        CUS_TRY(CUSI_BACKEND(f, matcher->space,
                             CUSI_LONG(f, match_host_run(matcher, i, frame, scores ? scores + i * m->count : NULL)),
                             match_cuda_run(matcher, i, count, frame, scores, stream)));
    }
    return CUS_OK;
}

cusStatus cusMatcherRun(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream) {
    CUSI_TRACE;
    const char *f = "cusMatcherRun";
    CUSI_GUARDED(f, matcher, stream, CUSI_LONG(f, runObject(f, matcher, frame, scores, stream)));
}

static cusStatus get(const char *f, cusMatcher *matcher, int index, cusMatch *matches, int capacity, int *found,
                     cusStream stream) {
    CUSI_NOT_NULL(f, found);
    CUSI_REQUIRE(index >= 0 && index < matcher->results.rows, CUS_ERROR_VALUE, "%s: index is %d, expected 0..%d", f, index,
                 matcher->results.rows - 1);
    CUSI_REQUIRE(matches || capacity == 0, CUS_ERROR_NULL, "%s: matches is NULL", f);
    if (matcher->space == CUS_DEVICE)
        CUS_TRY(cusi_refuseCapture(f, stream, "the call waits for it"));
    cusMatch all[1024];
    const int most = matcher->model.max_matches;
    cusMat row = CUS_MAT_INIT;
    CUS_TRY(cusMatRegion(&matcher->results, 0, index, most * (int)sizeof(cusMatch), 1, &row));
    CUS_TRY(fetch(&row, all, stream));
    int n = 0;
    while (n < most && all[n].x >= 0)
        ++n;
    CUSI_REQUIRE(n <= capacity, CUS_ERROR_CAPACITY, "%s: %d matches, matches has capacity %d", f, n, capacity);
    if (n)
        memcpy(matches, all, (size_t)n * sizeof *matches);
    *found = n;
    return CUS_OK;
}

cusStatus cusMatcherGet(cusMatcher *matcher, int index, cusMatch *matches, int capacity, int *found, cusStream stream) {
    CUSI_TRACE;
    const char *f = "cusMatcherGet";
    CUSI_GUARDED(f, matcher, stream, CUSI_LONG(f, get(f, matcher, index, matches, capacity, found, stream)));
}

cusStatus cusMatcherResults(const cusMatcher *matcher, cusMat *view) {
    CUSI_TRACE;
    CUSI_NOT_NULL("cusMatcherResults", matcher);
    CUSI_NOT_NULL("cusMatcherResults", view);
    return cusMatRegion(&matcher->results, 0, 0, matcher->results.cols, matcher->results.rows, view);
}

cusMatchAlgorithm cusMatcherAlgorithm(const cusMatcher *matcher) {
    return matcher ? matcher->algorithm : CUS_MATCH_AUTO;
}

const char *cusMatcherHostFft(void) {
    return match_fft_kernels(sizeof(float), 0)->name;
}

static cusStatus inspect(const char *f, cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                         cusStream stream) {
    CUS_TRY(checkFrames(f, matcher, frame, CUS_8UC3));
    CUS_TRY(cusi_checkHsvRange(f, range));
    CUSI_REQUIRE(min_fill >= 0 && min_fill <= 1, CUS_ERROR_VALUE, "%s: min_fill is %g, expected 0..1", f, min_fill);
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, matcher->model.frames);
    for (int i = 0; i < matcher->model.frames; ++i, cusi_step(progress, 1))
        CUS_TRY(CUSI_BACKEND(f, matcher->space, CUSI_LONG(f, match_host_inspect(matcher, i, &frame[i], range, min_fill)),
                             match_cuda_inspect(matcher, i, &frame[i], range, min_fill, stream)));
    return CUS_OK;
}

cusStatus cusMatcherInspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                            cusStream stream) {
    CUSI_TRACE;
    const char *f = "cusMatcherInspect";
    CUSI_GUARDED(f, matcher, stream, CUSI_LONG(f, inspect(f, matcher, frame, range, min_fill, stream)));
}
