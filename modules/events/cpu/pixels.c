/* Turns accumulators into pixels. */
#include "events/cpu/stages.h"
#include "host.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Each pixel copies all 16 channels from a table; the next pixel overwrites those past `channels`. GCC 12 would vectorize
 * the copies into stores that fault unless every pixel is aligned. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-vectorize")))
#endif
void events_host_mdesRow(const uint16_t *codes, size_t cols, const cusRepresentation *r, uint8_t *row) {
    const size_t channels = (size_t)r->channels, element = r->depth == CUS_32F ? sizeof(float) : 1;
    const size_t pixel = channels * element, copied = EVENTS_MAX_CHANNELS * element;
    float wide[2 * CODE_EVENT / CODE_LEVEL][EVENTS_MAX_CHANNELS] = {{0}};
    uint8_t narrow[2 * CODE_EVENT / CODE_LEVEL][EVENTS_MAX_CHANNELS];
    memset(narrow, r->depth == CUS_8U ? 128 : 0, sizeof narrow);
    for (size_t code = CODE_EVENT / CODE_LEVEL; code < 2 * CODE_EVENT / CODE_LEVEL; ++code) {
        const int positive = (code & CODE_POSITIVE / CODE_LEVEL) != 0;
        const size_t level = code % EVENTS_MAX_CHANNELS, n = level < channels ? level + 1 : channels;
        memset(narrow[code], r->depth == CUS_8U ? (positive ? 255 : 0) : (positive ? 1 : 255 /* -1 */), n);
        for (size_t k = 0; k < n; ++k)
            wide[code][k] = positive ? 1.0f : -1.0f;
    }
    const size_t whole = cols * pixel < copied ? 0 : (cols * pixel - copied) / pixel + 1;
    size_t x = 0;
    if (element == 1)
        for (; x < whole; ++x)
            memcpy(row + x * pixel, narrow[codes[x] / CODE_LEVEL], EVENTS_MAX_CHANNELS);
    else
        for (; x < whole; ++x)
            memcpy(row + x * pixel, wide[codes[x] / CODE_LEVEL], EVENTS_MAX_CHANNELS * sizeof(float));
    for (; x < cols; ++x)
        memcpy(row + x * pixel,
               element == 1 ? (const void *)narrow[codes[x] / CODE_LEVEL] : (const void *)wide[codes[x] / CODE_LEVEL],
               pixel);
}

/* Computes 0x00RRGGBB for n pixels. */
CUSI_MULTIVERSION
static void tencodeColors(const uint16_t *restrict codes, size_t n, uint32_t positive, uint32_t negative,
                          uint32_t *restrict color) {
    for (size_t i = 0; i < n; ++i) {
        const uint32_t code = codes[i], red_blue = code & CODE_POSITIVE ? positive : negative;
        color[i] = code ? red_blue | (code & 255) << 8 : 0;
    }
}

void events_host_tencodeRow(const uint16_t *codes, size_t cols, const cusRepresentation *r, uint8_t *row) {
    const uint32_t red = 0xff0000, blue = 0x0000ff;
    uint32_t color[EVENTS_AT_ONCE];
    for (size_t start = 0; start < cols; start += EVENTS_AT_ONCE) {
        const size_t n = cols - start < EVENTS_AT_ONCE ? cols - start : EVENTS_AT_ONCE;
        tencodeColors(codes + start, n, r->swap_channels ? blue : red, r->swap_channels ? red : blue, color);
        for (size_t i = 0; i < n; ++i) {
            uint8_t *const bgr = row + 3 * (start + i);
            bgr[0] = (uint8_t)color[i];
            bgr[1] = (uint8_t)(color[i] >> 8);
            bgr[2] = (uint8_t)(color[i] >> 16);
        }
    }
}

CUSI_MULTIVERSION
void events_host_addNewerLevels(uint8_t *row, size_t cols, size_t channels) {
    for (size_t x = 0; x < cols; ++x)
        for (size_t k = channels - 1; k-- > 0;) {
            const unsigned sum = (unsigned)row[x * channels + k] + row[x * channels + k + 1];
            row[x * channels + k] = (uint8_t)(sum < 255 ? sum : 255);
        }
}

CUSI_MULTIVERSION
void events_host_diffRow(const int32_t *restrict sum, size_t cols, int8_t *restrict row) {
    for (size_t x = 0; x < cols; ++x)
        row[x] = (int8_t)(sum[x] < -128 ? -128 : sum[x] > 127 ? 127 : sum[x]);
}

CUSI_MULTIVERSION
void events_host_voxelRow(const int64_t *restrict voxels, size_t n, float *restrict row) {
    for (size_t i = 0; i < n; ++i)
        row[i] = (float)((double)voxels[i] / EVENTS_VOXEL_UNIT);
}

void events_host_surfaceRow(const uint32_t *indices, size_t n, const cusRepresentation *r, const Events *events,
                            float *row) {
    const int64_t *const t = events->t;
    for (size_t i = 0; i < n; ++i) {
        row[i] = 0.0f;
        if (indices[i] == 0)
            continue;
        assert(t);
        row[i] = (float)exp((double)(t[indices[i] - 1] - t[events->count - 1]) / r->tau);
    }
}

void events_host_normalize(cusMat *frames, size_t top, size_t rows) {
    const size_t n = (size_t)frames->cols * (size_t)CUS_CHANNELS(frames->type);
    double sum = 0, squares = 0;
    uint64_t count = 0;
    for (size_t y = top; y < top + rows; ++y) {
        const float *row = (const float *)((const char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i) {
            sum += row[i];
            count += row[i] != 0;
        }
    }
    const double mean = count ? sum / (double)count : 0;
    for (size_t y = top; y < top + rows; ++y) {
        const float *row = (const float *)((const char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i)
            squares += row[i] != 0 ? (row[i] - mean) * (row[i] - mean) : 0;
    }
    const double deviation = count ? sqrt(squares / (double)count) : 0, scale = deviation > 0 ? 1 / deviation : 1;
    for (size_t y = top; y < top + rows; ++y) {
        float *row = (float *)((char *)frames->data + y * frames->step);
        for (size_t i = 0; i < n; ++i)
            row[i] = row[i] != 0 ? (float)((row[i] - mean) * scale) : 0;
    }
}
