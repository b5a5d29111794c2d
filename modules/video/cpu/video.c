/* video on the host takes parts of a row that fit the L1 cache, with one vectorized loop for each step. */
#include "check.h"
#include "host.h"
#include "video/backend.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define VIDEO_X86 1
#include <immintrin.h>
#endif

enum { PART = 512, HALF = PART / 2, PIXELS_PER_THREAD = 32768 }; /* PART: pixels at once, even */

/* Chroma sums of a part, weights 4, from the column before the part to the one after it. */
typedef struct Sums {
    int16_t u[HALF + 2], v[HALF + 2];
} Sums;

/* Luma of a part's pixels and their chroma, weights 16, without those of black and gray. */
typedef struct Colors {
    _Alignas(32) int16_t y[PART];
    _Alignas(32) int16_t u[PART];
    _Alignas(32) int16_t v[PART];
} Colors;

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

/* Makes the sums of n pixels, weights 16, without that of gray. */
CUSI_MULTIVERSION
static void mixColumns(const Sums *restrict sums, const VideoModel *m, int n, Colors *restrict out) {
    const int16_t e0 = (int16_t)m->even[0], e1 = (int16_t)m->even[1], o0 = (int16_t)m->odd[0], o1 = (int16_t)m->odd[1];
    const int16_t gray = (int16_t)m->neutral;
    for (int i = 0; i < (n + 1) / 2; ++i) {
        out->u[2 * i] = (int16_t)(e0 * sums->u[i] + e1 * sums->u[i + 1] - gray);
        out->u[2 * i + 1] = (int16_t)(o0 * sums->u[i + 1] + o1 * sums->u[i + 2] - gray);
    }
    for (int i = 0; i < (n + 1) / 2; ++i) {
        out->v[2 * i] = (int16_t)(e0 * sums->v[i] + e1 * sums->v[i + 1] - gray);
        out->v[2 * i + 1] = (int16_t)(o0 * sums->v[i + 1] + o1 * sums->v[i + 2] - gray);
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

static void makeColors(const Colors *c, const VideoModel *m, int from, int n, uint8_t *restrict bgr) {
    for (int i = from; i < n; ++i) {
        const int light = c->y[i] * m->luma + m->round;
        bgr[3 * i] = clamped((light + c->u[i] * m->blue_u) >> m->shift);
        bgr[3 * i + 1] = clamped((light + c->u[i] * m->green_u + c->v[i] * m->green_v) >> m->shift);
        bgr[3 * i + 2] = clamped((light + c->v[i] * m->red_v) >> m->shift);
    }
}

#ifdef VIDEO_X86
#define TARGET_AVX2 __attribute__((target("avx2")))

/* Returns a factor for each of the two 16-bit numbers in a 32-bit lane. */
TARGET_AVX2
static inline __m256i factors(int low, int high) {
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)low | (uint32_t)high << 16));
}

/* Rounds sums of 16 pixels, of which unpacking has put 0..3 and 8..11 to `low`, to 16 bits, saturated. */
TARGET_AVX2
static inline __m256i rounded(__m256i low, __m256i high, const VideoModel *m) {
    const __m256i round = _mm256_set1_epi32(m->round), shift = _mm256_set1_epi32(m->shift);
    return _mm256_packs_epi32(_mm256_srav_epi32(_mm256_add_epi32(low, round), shift),
                              _mm256_srav_epi32(_mm256_add_epi32(high, round), shift));
}

/* The colors of 16 pixels as 16 bits, by sums of two products. */
TARGET_AVX2
static inline void sumColors(const Colors *c, const VideoModel *m, int i, __m256i *b, __m256i *g, __m256i *r) {
    const __m256i y = _mm256_load_si256((const __m256i *)(const void *)(c->y + i));
    const __m256i u = _mm256_load_si256((const __m256i *)(const void *)(c->u + i));
    const __m256i v = _mm256_load_si256((const __m256i *)(const void *)(c->v + i));
    const __m256i blue = factors(m->luma, m->blue_u), red = factors(m->luma, m->red_v);
    const __m256i green = factors(m->luma, m->green_u), green_v = factors(0, m->green_v);
    const __m256i yu[2] = {_mm256_unpacklo_epi16(y, u), _mm256_unpackhi_epi16(y, u)};
    const __m256i yv[2] = {_mm256_unpacklo_epi16(y, v), _mm256_unpackhi_epi16(y, v)};
    __m256i sums[2];
    *b = rounded(_mm256_madd_epi16(yu[0], blue), _mm256_madd_epi16(yu[1], blue), m);
    *r = rounded(_mm256_madd_epi16(yv[0], red), _mm256_madd_epi16(yv[1], red), m);
    for (int k = 0; k < 2; ++k)
        sums[k] = _mm256_add_epi32(_mm256_madd_epi16(yu[k], green), _mm256_madd_epi16(yv[k], green_v));
    *g = rounded(sums[0], sums[1], m);
}

/* Clamps 32 colors to bytes, in order. */
TARGET_AVX2
static inline __m256i clampedBytes(const __m256i *words) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(words[0], words[1]), _MM_SHUFFLE(3, 1, 2, 0));
}

/* Stores 32 pixels. Byte k of 48 is color k % 3 of pixel k / 3; -1 leaves a byte to the other colors. */
TARGET_AVX2
static inline void storePixels(__m256i b, __m256i g, __m256i r, uint8_t *out) {
    const __m128i of_b[3] = {_mm_setr_epi8(0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5),
                             _mm_setr_epi8(-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1),
                             _mm_setr_epi8(-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1)};
    const __m128i of_g[3] = {_mm_setr_epi8(-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1),
                             _mm_setr_epi8(5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10),
                             _mm_setr_epi8(-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1)};
    const __m128i of_r[3] = {_mm_setr_epi8(-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1),
                             _mm_setr_epi8(-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1),
                             _mm_setr_epi8(10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15)};
    for (int k = 0; k < 3; ++k) {
        const __m256i bytes = _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(b, _mm256_broadcastsi128_si256(of_b[k])),
                                                              _mm256_shuffle_epi8(g, _mm256_broadcastsi128_si256(of_g[k]))),
                                              _mm256_shuffle_epi8(r, _mm256_broadcastsi128_si256(of_r[k])));
        _mm_storeu_si128((__m128i *)(void *)(out + 16 * k), _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)(out + 16 * k + 48), _mm256_extracti128_si256(bytes, 1));
    }
}

/* Does the same for whole groups of 32 pixels; returns how many pixels that are. */
TARGET_AVX2
static int makeColorsAvx2(const Colors *c, const VideoModel *m, int n, uint8_t *bgr) {
    const VideoModel model = *m; /* so that the compiler sees that bgr does not change it */
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i b[2], g[2], r[2];
        for (int k = 0; k < 2; ++k)
            sumColors(c, &model, i + 16 * k, b + k, g + k, r + k);
        storePixels(clampedBytes(b), clampedBytes(g), clampedBytes(r), bgr + 3 * i);
    }
    return i;
}
#endif

static const void *rowOf(const cusMat *mat, int y) {
    return (const char *)mat->data + (size_t)y * mat->step;
}

void video_host_bgr(const VideoPlanes *p, const VideoModel *m, cusMat *bgr) {
    const int threads = cusi_threadsFor((size_t)bgr->rows * (size_t)bgr->cols, PIXELS_PER_THREAD);
    const int wide = p->y->type != CUS_8UC1, last_row = p->u->rows - 1;
#ifdef VIDEO_X86
    const int avx2 = __builtin_cpu_supports("avx2");
#endif
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
            Colors colors;
            int done = 0;
            mixRows(&r, m, x / 2, n, &sums);
            mixColumns(&sums, m, n, &colors);
            readLuma((const char *)rowOf(p->y, y) + ((size_t)x << wide), wide, n, m, colors.y);
#ifdef VIDEO_X86
            if (avx2)
                done = makeColorsAvx2(&colors, m, n, out + 3 * (size_t)x);
#endif
            makeColors(&colors, m, done, n, out + 3 * (size_t)x);
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
