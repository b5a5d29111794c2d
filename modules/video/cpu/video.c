/* video on the host takes parts of a row that fit the L1 cache, with one vectorized loop for each step. */
#include "check.h"
#include "host.h"
#include "video/backend.h"

enum { PART = 512, HALF = PART / 2, PIXELS_PER_THREAD = 32768 }; /* PART: pixels at once, even */

/* Chroma sums of a part, weights 4, from the column before the part to the one after it. */
typedef struct Sums {
    int16_t u[HALF + 2], v[HALF + 2];
} Sums;

/* Two rows of chroma with their weights, and how to read them. */
typedef struct Rows {
    const void *u[2], *v[2]; /* v: NULL if u has both */
    int weights[2];
    int last; /* column */
    int wide; /* elements have 16 bits */
} Rows;

#define SAMPLE8(row, i)      (((const uint8_t *)(row))[i])
#define SAMPLE16(row, i)     ((((const uint16_t *)(row))[i] >> m->right_shift) & m->mask)
#define MIX(sample, rows, i) ((int16_t)(w0 * sample(rows[0], i) + w1 * sample(rows[1], i)))
/* Sets the sums of chroma columns `first` + from to `first` + to. */
#define MIX_COLUMNS(sample)                                     \
    if (r->v[0])                                                \
        for (int i = from; i <= to; ++i) {                      \
            out->u[i] = MIX(sample, r->u, first + i);           \
            out->v[i] = MIX(sample, r->v, first + i);           \
        }                                                       \
    else                                                        \
        for (int i = from; i <= to; ++i) {                      \
            out->u[i] = MIX(sample, r->u, 2 * (first + i));     \
            out->v[i] = MIX(sample, r->u, 2 * (first + i) + 1); \
        }

/* Fills the sums for n pixels from chroma column `start` on. */
CUSI_MULTIVERSION
static void mixRows(const Rows *r, const VideoModel *m, int start, int n, Sums *restrict out) {
    const int w0 = r->weights[0], w1 = r->weights[1], first = start - 1, end = (n + 1) / 2 + 1;
    const int from = start == 0, to = first + end > r->last ? end - 1 : end;
    if (r->wide) {
        MIX_COLUMNS(SAMPLE16)
    } else {
        MIX_COLUMNS(SAMPLE8)
    }
    if (from) { /* columns beyond an edge equal the nearest one */
        out->u[0] = out->u[1];
        out->v[0] = out->v[1];
    }
    if (to < end) {
        out->u[end] = out->u[to];
        out->v[end] = out->v[to];
    }
}

/* Sums of all pixels, weights 16, without that of gray. */
CUSI_MULTIVERSION
static void mixColumns(const int16_t *restrict sums, const VideoModel *m, int n, int16_t *restrict out) {
    const int16_t e0 = (int16_t)m->even[0], e1 = (int16_t)m->even[1], o0 = (int16_t)m->odd[0], o1 = (int16_t)m->odd[1];
    const int16_t gray = (int16_t)m->neutral;
    for (int i = 0; i < (n + 1) / 2; ++i) {
        out[2 * i] = (int16_t)(e0 * sums[i] + e1 * sums[i + 1] - gray);
        out[2 * i + 1] = (int16_t)(o0 * sums[i + 1] + o1 * sums[i + 2] - gray);
    }
}

CUSI_MULTIVERSION
static void readLuma(const void *row, int wide, int n, const VideoModel *m, int16_t *restrict out) {
    const int16_t black = (int16_t)m->black;
    if (wide)
        for (int i = 0; i < n; ++i)
            out[i] = (int16_t)(16 * (SAMPLE16(row, i) - black));
    else
        for (int i = 0; i < n; ++i)
            out[i] = (int16_t)(16 * (SAMPLE8(row, i) - black));
}

static inline uint8_t clamped(int value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

CUSI_MULTIVERSION
static void makeColors(const int16_t *restrict y, const int16_t *restrict u, const int16_t *restrict v, const VideoModel *m,
                       int n, uint8_t *restrict bgr) {
    const int16_t luma = (int16_t)m->luma, rv = (int16_t)m->red_v, gu = (int16_t)m->green_u, gv = (int16_t)m->green_v,
                  bu = (int16_t)m->blue_u;
    const int shift = m->shift, round = m->round;
    for (int i = 0; i < n; ++i) {
        const int light = y[i] * luma + round;
        bgr[3 * i] = clamped((light + u[i] * bu) >> shift);
        bgr[3 * i + 1] = clamped((light + u[i] * gu + v[i] * gv) >> shift);
        bgr[3 * i + 2] = clamped((light + v[i] * rv) >> shift);
    }
}

static const void *rowOf(const cusMat *mat, int y) {
    return (const char *)mat->data + (size_t)y * mat->step;
}

void video_host_bgr(const VideoPlanes *p, const VideoModel *m, cusMat *bgr) {
    const int threads = cusi_threadsFor((size_t)bgr->rows * (size_t)bgr->cols, PIXELS_PER_THREAD);
    const int wide = p->y->type != CUS_8UC1, last_row = p->u->rows - 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int y = 0; y < bgr->rows; ++y) {
        const int odd = y % 2, above = y / 2 - !odd, below = above + 1;
        const int rows[2] = {above < 0 ? 0 : above, below > last_row ? last_row : below};
        Rows r = {.weights = {odd ? m->odd_row[0] : m->even_row[0], odd ? m->odd_row[1] : m->even_row[1]},
                  .last = p->u->cols - 1,
                  .wide = wide};
        for (int k = 0; k < 2; ++k) {
            r.u[k] = rowOf(p->u, rows[k]);
            r.v[k] = p->v ? rowOf(p->v, rows[k]) : NULL;
        }
        uint8_t *const out = (uint8_t *)bgr->data + (size_t)y * bgr->step;
        for (int x = 0; x < bgr->cols; x += PART) {
            const int n = bgr->cols - x < PART ? bgr->cols - x : PART;
            Sums sums;
            int16_t luma[PART], u[PART], v[PART];
            mixRows(&r, m, x / 2, n, &sums);
            mixColumns(sums.u, m, n, u);
            mixColumns(sums.v, m, n, v);
            readLuma((const char *)rowOf(p->y, y) + ((size_t)x << wide), wide, n, m, luma);
            makeColors(luma, u, v, m, n, out + 3 * (size_t)x);
        }
    }
    (void)threads;
}

CUSI_MULTIVERSION
static void makeGray(const int16_t *restrict y, const VideoModel *m, int n, uint8_t *restrict gray) {
    const int16_t luma = (int16_t)m->luma;
    const int shift = m->shift, round = m->round;
    for (int i = 0; i < n; ++i)
        gray[i] = clamped((y[i] * luma + round) >> shift);
}

void video_host_gray(const cusMat *y, const VideoModel *m, cusMat *gray) {
    const int threads = cusi_threadsFor((size_t)y->rows * (size_t)y->cols, 4 * PIXELS_PER_THREAD);
    const int wide = y->type != CUS_8UC1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int row = 0; row < y->rows; ++row)
        for (int x = 0; x < y->cols; x += PART) {
            const int n = y->cols - x < PART ? y->cols - x : PART;
            int16_t luma[PART];
            readLuma((const char *)rowOf(y, row) + ((size_t)x << wide), wide, n, m, luma);
            makeGray(luma, m, n, (uint8_t *)gray->data + (size_t)row * gray->step + x);
        }
    (void)threads;
}
