/* Prepares poses and their blocks for both backends. */
#include "check.h"
#include "host.h"
#include "pose/backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A pose ------------------------------------------------------------------------------------------------------ */

/* Narrows columns *first .. *last - 1 of a row of the canvas to those whose sources lie in the template. These are an
 * interval, since coordinates are monotonic along a row. */
static void narrow(const PoseTransform *t, int row, int *first, int *last) {
    for (PosePlace at = pose_place(t, *first, row); *first < *last && !pose_isInside(t, pose_sourceAt(at)); ++*first)
        at = pose_placeAfter(t, at, 1);
    for (PosePlace at = pose_place(t, *last - 1, row); *first < *last && !pose_isInside(t, pose_sourceAt(at)); --*last)
        at = pose_placeAfter(t, at, -1);
}

/* Narrows them further to the first and last that count. Returns how many count. */
static int count(const cusPoseMatcher *m, const PoseTransform *t, int row, int *first, int *last) {
    narrow(t, row, first, last);
    if (!m->mask)
        return *last - *first;
    int n = 0, from = *last, to = *first;
    for (int x = *first; x < *last; ++x)
        if (pose_pixel(t, m->templ, m->mask, x, row) >= 0) {
            ++n;
            from = x < from ? x : from;
            to = x + 1;
        }
    *first = from;
    *last = to;
    return n;
}

/* Finds the window and counts its pixels. */
static void measure(const cusPoseMatcher *m, Pose *p) {
    const PoseTransform *const t = &p->transform;
    int left = t->cols, end = 0, top = -1, bottom = -1;
    for (int y = 0; y < t->rows; ++y) {
        int first = 0, last = t->cols;
        const int n = count(m, t, y, &first, &last);
        if (n == 0)
            continue;
        p->n += n;
        left = first < left ? first : left;
        end = last > end ? last : end;
        top = top < 0 ? y : top;
        bottom = y;
    }
    p->left = left;
    p->top = top;
    p->cols = end - left;
    p->rows = bottom - top + 1;
}

void pose_resample(const cusPoseMatcher *m, const Pose *p, uint8_t *pixels, uint8_t *mask) {
    memset(pixels, 0, (size_t)p->rows * (size_t)p->cols);
    memset(mask, 0, (size_t)p->rows * (size_t)p->cols);
    for (int y = 0; y < p->rows; ++y, pixels += p->cols, mask += p->cols) {
        int first = p->left, last = p->left + p->cols;
        narrow(&p->transform, p->top + y, &first, &last);
        PosePlace at = pose_place(&p->transform, first, p->top + y);
        for (int x = first; x < last; ++x, at = pose_placeAfter(&p->transform, at, 1)) {
            const int v = pose_sample(&p->transform, m->templ, m->mask, pose_sourceAt(at));
            pixels[x - p->left] = (uint8_t)(v < 0 ? 0 : v);
            mask[x - p->left] = v < 0 ? 0 : 255;
        }
    }
}

/* Sums the pixels of the pose in s; pixels that do not count are 0. */
static void sumPixels(Pose *p, const PoseScratch *s) {
    for (int y = 0; y < p->rows; ++y) {
        const uint8_t *const pixels = s->pixels + (size_t)y * (size_t)p->cols;
        uint32_t t1 = 0, t2 = 0; /* sums of at most 2^15 pixels */
        for (int x = 0; x < p->cols; ++x) {
            t1 += pixels[x];
            t2 += (uint32_t)pixels[x] * pixels[x];
        }
        p->t1 += t1;
        p->t2 += t2;
    }
}

void pose_load(const cusPoseMatcher *m, PoseScratch *s, int pose) {
    const Pose *const p = &m->poses[pose];
    pose_resample(m, p, s->pixels, s->mask);
    for (int y = 0; y < p->rows; ++y) {
        const uint8_t *const mask = s->mask + (size_t)y * (size_t)p->cols;
        int first = 0, last = p->cols;
        while (first < last && !mask[first])
            ++first;
        while (last > first && !mask[last - 1])
            --last;
        s->first[y] = first;
        s->last[y] = last;
    }
    s->pose = pose;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

typedef struct Summed {
    int32_t offset, sum;
    double contrast;
} Summed;

static int byContrast(const void *a, const void *b) {
    const double x = ((const Summed *)a)->contrast, y = ((const Summed *)b)->contrast;
    return (x < y) - (x > y);
}

/* Returns the sum of a block, or -1 if not all of it counts. */
static int32_t sumBlock(const PoseScratch *s, int cols, int block, int x0, int y0) {
    int32_t sum = 0;
    for (int y = y0; y < y0 + block; ++y)
        for (int x = x0; x < x0 + block; ++x) {
            const size_t at = (size_t)y * (size_t)cols + (size_t)x;
            if (!s->mask[at])
                return -1;
            sum += s->pixels[at];
        }
    return sum;
}

/* Lists disjoint blocks at multiples of the level's cells; `found` has room for all that fit. */
static int listBlocks(const Pose *p, const PoseScratch *s, const PoseLevel *level, Summed *found) {
    const int b = level->block, cell = level->cell;
    const double mean = (double)p->t1 / (double)p->n;
    int count = 0;
    for (int y = 0; y + b <= p->rows; y += b)
        for (int x = 0; x + b <= p->cols;) {
            const int32_t sum = sumBlock(s, p->cols, b, x, y);
            if (sum < 0) {
                x += cell;
                continue;
            }
            found[count++] =
                (Summed){(int32_t)((size_t)(y / cell) * level->step) + x / cell, sum, fabs(sum / (double)(b * b) - mean)};
            x += b;
        }
    qsort(found, (size_t)count, sizeof *found, byContrast);
    return count;
}

static int makeBlocks(const cusPoseMatcher *m, const Pose *p, const PoseScratch *s, const PoseLevel *level,
                      PoseBlocks *out) {
    const int b = level->block, area = b * b;
    const size_t room = (size_t)(p->rows / b) * (size_t)(p->cols / b);
    if (room == 0)
        return 1;
    Summed *const found = malloc(room * sizeof *found);
    out->count = found ? listBlocks(p, s, level, found) : 0;
    out->at = malloc(((size_t)out->count + 1) * sizeof *out->at);
    const double mean = m->options.method == CUS_MATCH_CCOEFF_NORMED ? (double)p->t1 / (double)p->n : 0;
    for (int i = 0; out->at && i < out->count; ++i)
        out->at[i] = (PoseBlock){found[i].offset, (int16_t)(found[i].sum * POSE_UNIT / area),
                                 (int16_t)floor(16 * ((double)found[i].sum / area - mean) + 0.5)};
    free(found);
    return found && out->at;
}

/* ---- All poses --------------------------------------------------------------------------------------------------- */

/* Chooses blocks of about a hundredth of the template. Each further level halves blocks and cells; the last has single
 * positions. The device, which reads means of single positions from its integral image, has them with large blocks
 * first, then with blocks of a quarter of the side. */
static void chooseLevels(cusPoseMatcher *m, size_t fine_step) {
    const int device = fine_step > 0;
    int64_t n = INT64_MAX;
    for (int i = 0; i < pose_count(m); ++i)
        if (m->poses[i].n > 0 && m->poses[i].n < n)
            n = m->poses[i].n;
    int block = 4;
    while (block < 64 && n < INT64_MAX && n / (4 * block * block) >= (device ? 96 : 64))
        block *= 2;
    const int cell = block / 4;
    const int last = cell < 4 ? 4 : cell;
    const int sizes[POSE_LEVELS][2] = {{block, cell}, {device ? block : block / 2, device ? 1 : cell / 2}, {last, 1}};
    m->levels = cell == 1 ? 1 : !device && cell == 2 ? 2 : POSE_LEVELS;
    for (int l = 0; l < m->levels; ++l) {
        PoseLevel *const level = &m->level[l];
        level->block = sizes[l][0];
        level->cell = sizes[l][1];
        level->rows = m->rows >= level->block ? (m->rows - level->block) / level->cell + 1 : 0;
        level->cols = m->cols >= level->block ? (m->cols - level->block) / level->cell + 1 : 0;
        level->step = l > 0 && fine_step > 0 ? fine_step : (size_t)level->cols + POSE_PADDING;
    }
}

PoseScratch *pose_createScratch(const cusPoseMatcher *m, int threads) {
    size_t area = 1, rows = 1;
    for (int i = 0; i < pose_count(m); ++i) {
        const Pose *const p = &m->poses[i];
        if (pose_positionRows(m, p) == 0)
            continue;
        const size_t own = (size_t)p->rows * (size_t)p->cols;
        area = own > area ? own : area;
        rows = (size_t)p->rows > rows ? (size_t)p->rows : rows;
    }
    PoseScratch *const scratch = calloc((size_t)threads, sizeof *scratch);
    for (int t = 0; scratch && t < threads; ++t) {
        PoseScratch *const s = &scratch[t];
        s->pose = -1;
        s->pixels = malloc(area);
        s->mask = malloc(area);
        s->first = malloc(rows * sizeof *s->first);
        s->last = malloc(rows * sizeof *s->last);
        if (!s->pixels || !s->mask || !s->first || !s->last) {
            pose_destroyScratch(scratch, threads);
            return NULL;
        }
    }
    return scratch;
}

void pose_destroyScratch(PoseScratch *scratch, int threads) {
    for (int t = 0; scratch && t < threads; ++t) {
        free(scratch[t].pixels);
        free(scratch[t].mask);
        free(scratch[t].first);
        free(scratch[t].last);
    }
    free(scratch);
}

static int listAll(cusPoseMatcher *m, PoseScratch *scratch, int threads) {
    (void)threads;
    int ok = 1;
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 1, pose_count(m));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int i = 0; i < pose_count(m); ++i) {
        Pose *const p = &m->poses[i];
        if (cusi_step(progress, 1) || pose_positionRows(m, p) == 0)
            continue;
        PoseScratch *const s = &scratch[cusi_threadNumber()];
        pose_load(m, s, i);
        sumPixels(p, s);
        int made = 1;
        for (int l = 0; l < m->levels; ++l)
            made &= makeBlocks(m, p, s, &m->level[l], &m->blocks[i * m->levels + l]);
        if (!made) {
#pragma omp atomic write
            ok = 0;
        }
    }
    return ok;
}

cusStatus pose_prepare(const char *function, cusPoseMatcher *m, size_t fine_step) {
    const int threads = cusi_maxThreads();
    CusiProgress *const progress = cusi_progress();
    cusi_part(progress, 0.3, pose_count(m));
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int i = 0; i < pose_count(m); ++i)
        if (!cusi_step(progress, 1))
            measure(m, &m->poses[i]);
    CUS_TRY(cusi_proceed(progress));
    chooseLevels(m, fine_step);
    m->blocks = calloc((size_t)pose_count(m) * (size_t)m->levels, sizeof *m->blocks);
    PoseScratch *const scratch = pose_createScratch(m, threads);
    const int ok = m->blocks && scratch && listAll(m, scratch, threads);
    pose_destroyScratch(scratch, threads);
    CUSI_REQUIRE(ok, CUS_ERROR_NO_MEMORY, "%s: out of host memory", function);
    return cusi_proceed(progress);
}
