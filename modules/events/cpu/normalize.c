/* Normalized voxel grids on the CPU. */
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

/* Subtracts the mean from the non-zero values of a frame and divides them by their standard deviation. */
static void normalizeFrame(cusMat *frames, size_t top, size_t rows, int sample, int threads) {
    (void)threads;
    const size_t n = (size_t)frames->cols * (size_t)CUS_CHANNELS(frames->type);
    uint64_t count = 0, low = 0, middle = 0, high = 0;
    int64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : count, sum, low, middle, high)
    for (int64_t y = 0; y < (int64_t)rows; ++y) {
        const EventsMoments m =
            momentsOfRow((const float *)((const char *)frames->data + (top + (size_t)y) * frames->step), n);
        count += m.count, sum += m.sum;
        low += m.squares[0], middle += m.squares[1], high += m.squares[2];
    }
    const EventsMoments moments = {.count = count, .squares = {low, middle, high}, .sum = sum};
    const EventsScaling scaling = eventsScaling(&moments, sample);
#pragma omp parallel for num_threads(threads)
    for (int64_t y = 0; y < (int64_t)rows; ++y)
        normalizeRow((float *)((char *)frames->data + (top + (size_t)y) * frames->step), n, scaling);
}

void events_host_normalize(const cusEventStacker *stacker, cusMat *frames, size_t window, int threads) {
    for (int i = 0; i < stacker->count; ++i) {
        const int normalize = eventsNormalize(&stacker->representations[i]);
        if (normalize)
            normalizeFrame(&frames[i], window * (size_t)stacker->rows, (size_t)stacker->rows,
                           normalize == CUS_NORMALIZE_SAMPLE, threads);
    }
}
