/* Sums sources of 2 to 4 channels: a thread handles a stripe of columns, as in floats.c. The sums left of a stripe in each
 * row wait in the table, where the stripe's first entries will be, so there is no workspace. */
#include "integral/cpu/rows.h"

#include <string.h>

#if defined(__has_builtin) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define VECTORS 1
typedef uint8_t U8x8 __attribute__((vector_size(8)));
typedef uint16_t U16x8 __attribute__((vector_size(16)));
typedef uint32_t U32x8 __attribute__((vector_size(32)));
typedef int32_t S32x8 __attribute__((vector_size(32)));
typedef double F64x8 __attribute__((vector_size(64)));
#endif
#endif

#define INLINE __attribute__((always_inline)) static inline

enum { WRITE_AHEAD = 4096 }; /* bytes; table lines are prefetched this far ahead for writing */

/* ---- Rows, for a number of channels known at compile time --------------------------------------------------------- */

/* n: pixels of a stripe's row. out: its entries, where the sums left of them wait; above: the entries above. */

/* Bytes are added 8 values, which are 4 or 2 pixels, at a time. With 3 channels, the next step reads the last two again. */
#ifdef VECTORS
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define PIXELS(channels)   (8 / (channels))

/* Makes the prefix sums of src[0 .. 7] in each channel. */
#define SCAN(prefix, channels, squares, src)                                 \
    do {                                                                     \
        const U32x8 zero = {0};                                              \
        U8x8 bytes;                                                          \
        memcpy(&bytes, (src), sizeof bytes);                                 \
        U16x8 narrow = __builtin_convertvector(bytes, U16x8);                \
        if (squares) /* 255 squared fits */                                  \
            narrow *= narrow;                                                \
        (prefix) = __builtin_convertvector(narrow, U32x8);                   \
        if ((channels) == 2)                                                 \
            (prefix) += SHUFFLE(zero, (prefix), 0, 1, 8, 9, 10, 11, 12, 13); \
        if ((channels) == 3)                                                 \
            (prefix) += SHUFFLE(zero, (prefix), 0, 1, 2, 8, 9, 10, 11, 12);  \
        else                                                                 \
            (prefix) += SHUFFLE(zero, (prefix), 0, 1, 2, 3, 8, 9, 10, 11);   \
    } while (0)
/* Repeats the values of the last pixel. */
#define REPEAT_LAST(prefix, channels)                                    \
    ((channels) == 2   ? SHUFFLE(prefix, prefix, 6, 7, 6, 7, 6, 7, 6, 7) \
     : (channels) == 3 ? SHUFFLE(prefix, prefix, 3, 4, 5, 3, 4, 5, 3, 4) \
                       : SHUFFLE(prefix, prefix, 4, 5, 6, 7, 4, 5, 6, 7))
#endif

INLINE void write32(int channels, int squares, const uint8_t *src, size_t n, const uint32_t *above, uint32_t *out) {
    const size_t values = n * (size_t)channels;
    uint32_t sums[8];
    for (int i = 0; i < 8; ++i)
        sums[i] = out[i % channels];
    size_t x = 0;
#ifdef VECTORS
    const size_t step = (size_t)(PIXELS(channels) * channels);
    U32x8 before;
    memcpy(&before, sums, sizeof before);
    for (; x + 8 <= values; x += step) {
        U32x8 prefix, row;
        SCAN(prefix, channels, squares, src + x);
        cusi_prefetchToWrite((char *)(out + x) + WRITE_AHEAD);
        memcpy(&row, above + x, sizeof row);
        row += prefix + before;
        memcpy(out + x, &row, sizeof row);
        before += REPEAT_LAST(prefix, channels);
    }
    memcpy(sums, &before, sizeof before);
#endif
    for (; x < values; x += (size_t)channels)
        for (int c = 0; c < channels; ++c) {
            const uint32_t v = src[x + (size_t)c];
            out[x + (size_t)c] = above[x + (size_t)c] + (sums[c] += squares ? v * v : v);
        }
}

INLINE void write64(int channels, int squares, const uint8_t *src, size_t n, const double *above, double *out) {
    const size_t values = n * (size_t)channels;
    double sums[8];
    for (int i = 0; i < 8; ++i)
        sums[i] = out[i % channels];
    size_t x = 0;
#ifdef VECTORS
    const size_t step = (size_t)(PIXELS(channels) * channels);
    F64x8 before;
    memcpy(&before, sums, sizeof before);
    for (; x + 8 <= values; x += step) {
        U32x8 prefix;
        F64x8 row;
        SCAN(prefix, channels, squares, src + x);
        cusi_prefetchToWrite((char *)(out + x) + WRITE_AHEAD);
        const F64x8 wide = __builtin_convertvector((S32x8)prefix, F64x8);
        memcpy(&row, above + x, sizeof row);
        row += wide + before;
        memcpy(out + x, &row, sizeof row);
        before += REPEAT_LAST(wide, channels);
    }
    memcpy(sums, &before, sizeof before);
#endif
    for (; x < values; x += (size_t)channels)
        for (int c = 0; c < channels; ++c) {
            const uint32_t v = src[x + (size_t)c];
            out[x + (size_t)c] = above[x + (size_t)c] + (sums[c] += squares ? v * v : v);
        }
}

/* Adds floats, each channel in the order of the plain loop. */
INLINE void writeFloats(int channels, int squares, const float *src, size_t n, const double *above, double *out) {
    double sums[4] = {0};
    memcpy(sums, out, (size_t)channels * sizeof *sums);
    for (size_t x = 0; x < n * (size_t)channels; x += (size_t)channels)
        for (int c = 0; c < channels; ++c) {
            const double v = src[x + (size_t)c];
            out[x + (size_t)c] = above[x + (size_t)c] + (sums[c] += squares ? v * v : v);
        }
}

/* Adds n pixels to the sums of their channels. */
INLINE void add32(int channels, int squares, const uint8_t *src, size_t n, uint32_t *sums) {
    for (; n > 0; --n, src += channels)
        for (int c = 0; c < channels; ++c)
            sums[c] += squares ? (uint32_t)(src[c] * src[c]) : src[c];
}
INLINE void add64(int channels, int squares, const uint8_t *src, size_t n, double *sums) {
    for (; n > 0; --n, src += channels)
        for (int c = 0; c < channels; ++c)
            sums[c] += squares ? src[c] * src[c] : src[c];
}
INLINE void addFloats(int channels, int squares, const float *src, size_t n, double *sums) {
    for (; n > 0; --n, src += channels)
        for (int c = 0; c < channels; ++c) {
            const double v = src[c];
            sums[c] += squares ? v * v : v;
        }
}

/* ---- Rows of any number of channels -------------------------------------------------------------------------------- */

typedef enum Kind { BYTES_TO_32, BYTES_TO_64, FLOATS } Kind;

#define EACH_KIND(function, channels, squares, ...)                       \
    (kind == BYTES_TO_32   ? function##32(channels, squares, __VA_ARGS__) \
     : kind == BYTES_TO_64 ? function##64(channels, squares, __VA_ARGS__) \
                           : function##Floats(channels, squares, __VA_ARGS__))
#define EACH(function, ...)                                                                                        \
    (channels == 2   ? squares ? EACH_KIND(function, 2, 1, __VA_ARGS__) : EACH_KIND(function, 2, 0, __VA_ARGS__)   \
       : channels == 3 ? squares ? EACH_KIND(function, 3, 1, __VA_ARGS__) : EACH_KIND(function, 3, 0, __VA_ARGS__) \
       : squares ? EACH_KIND(function, 4, 1, __VA_ARGS__)                                                          \
                     : EACH_KIND(function, 4, 0, __VA_ARGS__))

CUSI_MULTIVERSION
static void writeRow(Kind kind, int channels, int squares, const void *src, size_t n, const void *above, void *out) {
    EACH(write, src, n, above, out);
}
static void addRow(Kind kind, int channels, int squares, const void *src, size_t n, void *sums) {
    EACH(add, src, n, sums);
}

/* ---- Stripes ------------------------------------------------------------------------------------------------------- */

static Kind kindOf(const cusMat *src, const cusMat *table) {
    return CUS_DEPTH(src->type) == CUS_32F ? FLOATS : CUS_DEPTH(table->type) == CUS_32S ? BYTES_TO_32 : BYTES_TO_64;
}

static size_t stripeStart(const cusMat *src, int count, int k) {
    return (size_t)src->cols * (size_t)k / (size_t)count;
}

/* These return the pixel in column x of row y, and the entry below and to the right of it. */
static const void *pixelAt(const cusMat *src, int y, size_t x) {
    return INTEGRAL_ROW(const char, src, y) + x * cusTypeSize(src->type);
}
static void *entryAt(const cusMat *table, int y, size_t x) {
    return INTEGRAL_ROW(char, table, y + 1) + (x + 1) * cusTypeSize(table->type);
}

/* Stores the sums left of each stripe of row y where its first entries will be. */
static void sumLeftOfStripes(const cusMat *src, const cusMat *table, int squares, int count, int y) {
    const size_t entry = cusTypeSize(table->type);
    double sums[4] = {0}; /* or uint32_t */
    for (int k = 0; k < count; ++k) {
        const size_t start = stripeStart(src, count, k), end = stripeStart(src, count, k + 1);
        memcpy(entryAt(table, y, start), sums, entry);
        if (k + 1 < count)
            addRow(kindOf(src, table), CUS_CHANNELS(src->type), squares, pixelAt(src, y, start), end - start, sums);
    }
    memset(INTEGRAL_ROW(char, table, y + 1), 0, entry);
}

void integral_runChannels(const IntegralArgs *args, int threads) {
    const cusMat *const src = args->src;
    cusMat *const tables[2] = {args->sum, args->sqsum};
    const int channels = CUS_CHANNELS(src->type), count = threads < src->cols ? threads : src->cols;
#pragma omp parallel for schedule(static) num_threads(count)
    for (int y = 0; y < src->rows; ++y)
        for (int i = 0; i < 2; ++i)
            if (tables[i])
                sumLeftOfStripes(src, tables[i], i, count, y);
#pragma omp parallel for schedule(static) num_threads(count)
    for (int k = 0; k < count; ++k) {
        const size_t start = stripeStart(src, count, k), n = stripeStart(src, count, k + 1) - start;
        for (int y = 0; y < src->rows; ++y)
            for (int i = 0; i < 2; ++i)
                if (tables[i])
                    writeRow(kindOf(src, tables[i]), channels, i, pixelAt(src, y, start), n,
                             entryAt(tables[i], y - 1, start), entryAt(tables[i], y, start));
    }
}
