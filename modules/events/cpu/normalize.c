/* Normalized voxel grids, and floats to halves, on the CPU. */
#include "events/backend.h"
#include "host.h"

/* Adds values whose squares fit 62 bits. Returns 0 if one is larger; nothing is added then. */
CUSI_MULTIVERSION
static int addSmallValues(const float *restrict row, size_t n, EventsMoments *moments) {
    const float limit = 127; /* 2^31 / EVENTS_VOXEL_UNIT is 128 */
    uint64_t count = 0, low = 0, high = 0;
    int64_t sum = 0;
    uint32_t large = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t small = (row[i] <= limit) & (row[i] >= -limit);
        const int32_t units = (int32_t)((small ? row[i] : 0) * (float)EVENTS_VOXEL_UNIT);
        const uint64_t square = (uint64_t)((int64_t)units * units);
        large |= !small;
        count += units != 0;
        sum += units;
        low += (uint32_t)square;
        high += square >> 32;
    }
    if (large)
        return 0;
    moments->count += count;
    moments->sum += sum;
    moments->squares[0] += low;
    moments->squares[1] += high;
    return 1;
}

static EventsMoments momentsOfRow(const float *row, size_t n) {
    EventsMoments moments = {.count = 0};
    if (!addSmallValues(row, n, &moments))
        for (size_t i = 0; i < n; ++i)
            eventsAddValue(&moments, row[i]);
    return moments;
}

CUSI_MULTIVERSION
static void normalizeRow(float *row, size_t n, EventsScaling scaling) {
    for (size_t i = 0; i < n; ++i)
        row[i] = eventsNormalized(row[i] * (float)EVENTS_VOXEL_UNIT, scaling);
}

/* Rounds floats to halves. The shifts are those of the exponents' biases, 127 and 15, and of the 13 bits that are lost. */
CUSI_MULTIVERSION
static void roundRow(const float *restrict row, size_t n, uint16_t *restrict halves) {
    for (size_t i = 0; i < n; ++i) {
        const float size = fabsf(row[i]), limited = size < 65536 ? size : 65536; /* rounds to infinity */
        const float small = limited + 0.5f; /* its last bit is 2^-24, that of halves below 2^-14 */
        uint32_t all, bits, fraction;
        memcpy(&all, &row[i], sizeof all);
        memcpy(&bits, &limited, sizeof bits);
        memcpy(&fraction, &small, sizeof fraction);
        const uint32_t rounded = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
        halves[i] = (uint16_t)((limited < 0x1p-14f ? fraction - 0x3f000000 : rounded) | (all >> 16 & 0x8000));
    }
}

void events_host_round(const float *row, size_t n, uint16_t *halves) {
    roundRow(row, n, halves);
}

static float *rowOf(const cusMat *mat, int64_t y) {
    return (float *)((char *)mat->data + (size_t)y * mat->step);
}

void events_host_normalize(const cusMat *values, const cusMat *frame, int sample, int threads) {
    (void)threads;
    const int64_t rows = values->rows;
    const size_t n = (size_t)values->cols * (size_t)CUS_CHANNELS(values->type);
    uint64_t count = 0, low = 0, middle = 0, high = 0;
    int64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : count, sum, low, middle, high)
    for (int64_t y = 0; y < rows; ++y) {
        const EventsMoments m = momentsOfRow(rowOf(values, y), n);
        count += m.count, sum += m.sum;
        low += m.squares[0], middle += m.squares[1], high += m.squares[2];
    }
    const EventsMoments moments = {.count = count, .squares = {low, middle, high}, .sum = sum};
    const EventsScaling scaling = eventsScaling(&moments, sample);
#pragma omp parallel for num_threads(threads)
    for (int64_t y = 0; y < rows; ++y) {
        normalizeRow(rowOf(values, y), n, scaling);
        if (frame->type != values->type)
            roundRow(rowOf(values, y), n, (uint16_t *)rowOf(frame, y));
    }
}
