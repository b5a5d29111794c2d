/* Declarations that the entry points and the backends of events share. */
#ifndef CUSI_EVENTS_BACKEND_H
#define CUSI_EVENTS_BACKEND_H

#include "cusight/events.h"
#include "event_packets.h"
#include "guard.h"

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __CUDACC__
#define EVENTS_INLINE __host__ __device__ static inline
#else
#define EVENTS_INLINE static inline
#endif

/* A product of doubles that no compiler fuses with an addition. C is compiled with -ffp-contract=off. */
#ifdef __CUDA_ARCH__
#define EVENTS_PRODUCT(a, b) __dmul_rn(a, b)
#else
#define EVENTS_PRODUCT(a, b) ((a) * (b))
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { EVENTS_MAX_REPRESENTATIONS = 8, EVENTS_MAX_CHANNELS = 16 };

/* The most events of a window: 2 * (index in the window + 1) + polarity must fit 32 bits. */
#define EVENTS_MAX_WINDOW ((uint64_t)INT32_MAX - 1)

/* Voxel weights are multiples of one over this. */
#define EVENTS_VOXEL_UNIT 16777216.0

struct cusEventStacker {
    int rows, cols;
    cusSpace space;
    int count;
    cusRepresentation representations[EVENTS_MAX_REPRESENTATIONS];
    int types[EVENTS_MAX_REPRESENTATIONS];
    void *state; /* owned by the backend */
    CusiGuard guard;
};

/* MDES_COUNT and STACKED_HISTOGRAM divide a window's events into levels, by the starts of the mixed-density windows or by
 * time bins. Level k holds events begin[k] .. begin[k + 1] - 1. */
typedef struct EventsLevels {
    uint32_t begin[EVENTS_MAX_CHANNELS + 1];
} EventsLevels;

/* Finds the starts s_0 .. s_(channels - 1) of the mixed-density windows of n events, then n. */
EVENTS_INLINE void eventsMdesLevels(uint32_t n, int channels, EventsLevels *levels) {
    uint32_t start = 0;
    for (int k = 0; k < channels; ++k) {
        start += k > 0 ? n >> k : 0;
        levels->begin[k] = start;
    }
    levels->begin[channels] = n;
}

/* Returns the time, counted from the window's first event, at which bin k of `bins` begins: the smallest r with
 * floor(bins * r / max(dt, 1)) >= k. */
EVENTS_INLINE uint64_t eventsBinStart(int k, int bins, uint64_t dt) {
    dt = dt > 1 ? dt : 1;
    const uint64_t n = (uint64_t)bins, whole = dt / n, rest = dt % n; /* k * dt may exceed 64 bits */
    return (uint64_t)k * whole + ((uint64_t)k * rest + n - 1) / n;
}

/* Returns the time at which level k of `levels` halving levels begins: the smallest r with r * 2^(levels - k) >= max(dt,
 * 1). */
EVENTS_INLINE uint64_t eventsHalvingStart(int k, int levels, uint64_t dt) {
    const uint64_t divisor = (uint64_t)1 << (levels - k);
    dt = dt > 1 ? dt : 1;
    return dt / divisor + (dt % divisor != 0);
}

/* Returns the index of the first of t[0 .. count - 1] that is at least `relative` after origin. */
EVENTS_INLINE uint64_t eventsLowerBound(const int64_t *t, uint64_t count, int64_t origin, uint64_t relative) {
    uint64_t first = 0;
    while (count > 0) {
        const uint64_t half = count / 2;
        const int before = t[first + half] < origin || (uint64_t)t[first + half] - (uint64_t)origin < relative;
        first = before ? first + half + 1 : first;
        count = before ? count - half - 1 : half;
    }
    return first;
}

/* Moments of a voxel grid's values that are not 0, in units of 1 / EVENTS_VOXEL_UNIT: values are integers then, so sums are
 * exact. The sum of squares is squares[0] + 2^32 squares[1] + 2^64 squares[2], where squares[1] is signed. */
typedef struct EventsMoments {
    uint64_t count, squares[3];
    int64_t sum;
} EventsMoments;

EVENTS_INLINE void eventsAddValue(EventsMoments *moments, float value) {
    const int64_t units = (int64_t)((double)value * EVENTS_VOXEL_UNIT);
    const uint64_t size = units < 0 ? 0 - (uint64_t)units : (uint64_t)units;
    const unsigned __int128 square = (unsigned __int128)size * size;
    moments->count += units != 0;
    moments->sum += units;
    moments->squares[0] += (uint32_t)square;
    moments->squares[1] += (uint32_t)(square >> 32);
    moments->squares[2] += (uint64_t)(square >> 64);
}

/* Normalization turns a value that is not 0, in the same units, into ((value - mean) - rest) * scale. mean is the mean as a
 * float, rest what it lacks, and scale 0 if the standard deviation is. */
typedef struct EventsScaling {
    float mean, rest, scale;
} EventsScaling;

EVENTS_INLINE float eventsNormalized(float units, EventsScaling scaling) {
    return units != 0 ? ((units - scaling.mean) - scaling.rest) * scaling.scale : 0;
}

/* Gives the same bits on both backends, since only exact products are added. sample: divide by count - 1. */
EVENTS_INLINE EventsScaling eventsScaling(const EventsMoments *moments, int sample) {
    EventsScaling scaling = {0, 0, 0};
    if (moments->count == 0)
        return scaling;
    /* The mean is whole + left / n. A window has less than 2^31 events, so n < 2^32 and |sum| < 2^55. */
    const int64_t n = (int64_t)moments->count, whole = moments->sum / n, left = moments->sum % n;
    const uint64_t distance = left < 0 ? (uint64_t)-left : (uint64_t)left, square = distance * distance;
    const double fraction = (double)left / (double)n;
    scaling.mean = (float)((double)whole + fraction);
    scaling.rest = (float)((double)whole - (double)scaling.mean + fraction);
    /* Squared deviations from the mean: those from `whole`, minus square / n. At least 1/2, unless all values are equal. */
    const __int128 squares = ((__int128)moments->squares[2] << 64) +
                             (__int128)(int64_t)moments->squares[1] * ((int64_t)1 << 32) + moments->squares[0];
    const unsigned __int128 about =
        (unsigned __int128)(squares - (__int128)whole * (moments->sum + left)) - square / (uint64_t)n;
    const double deviations = (double)(uint64_t)(about >> 64) * 18446744073709551616.0 + (double)(uint64_t)about -
                              (double)(square % (uint64_t)n) / (double)n;
    if (deviations > 0)
        scaling.scale = (float)sqrt((double)(n - (sample != 0)) / deviations);
    return scaling;
}

/* Returns the value of TIME_SURFACE for CUS_SURFACE_TIME and CUS_SURFACE_LINEAR. */
EVENTS_INLINE float eventsSurfaceValue(int64_t t, int64_t begin, int64_t end, int linear) {
    const uint64_t span = (uint64_t)end - (uint64_t)begin;
    const double since = t > begin ? (double)((uint64_t)t - (uint64_t)begin) : 0;
    return (float)(linear ? since / (span > 0 ? (double)span : 1.0) : since);
}

/* Returns the decay of an exponential surface in powers of two per microsecond. It is finite, so that its product with 0 is
 * 0. */
EVENTS_INLINE double eventsDecay(double tau) {
    const double decay = 1.44269504088896340736 / tau;
    return decay < DBL_MAX ? decay : DBL_MAX;
}

/* Returns exp((t - end) / tau), the value of TIME_SURFACE for CUS_SURFACE_EXPONENTIAL, as a power of two. The minimax
 * polynomial of the fraction, which is 1 at 0, errs by at most 2^-32, so the float is within 0.51 units in the last place.
 * No product is fused with an addition, so every processor gives the same bits. */
EVENTS_INLINE float eventsExponential(int64_t t, int64_t end, double decay) {
    const double power = EVENTS_PRODUCT((double)(int64_t)((uint64_t)t - (uint64_t)end), decay);
    const double limited = power < -160 ? -160 : power > 128 ? 128 : power, whole = rint(limited), x = limited - whole;
    double value = 0x1.c04815415f25ep-17;
    value = EVENTS_PRODUCT(value, x) + 0x1.443f95e689c5dp-13;
    value = EVENTS_PRODUCT(value, x) + 0x1.5dc05149ba9cap-10;
    value = EVENTS_PRODUCT(value, x) + 0x1.3b2a1bf5b7f04p-7;
    value = EVENTS_PRODUCT(value, x) + 0x1.c6b0551d56c6dp-5;
    value = EVENTS_PRODUCT(value, x) + 0x1.ebfbe045705a1p-3;
    value = EVENTS_PRODUCT(value, x) + 0x1.62e4300b9dab4p-1;
    value = EVENTS_PRODUCT(value, x) + 1;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += (uint64_t)(int)whole << 52;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

/* Returns the value of EVENT_CUBE for a sum in units of 1 / EVENTS_VOXEL_UNIT. The product and the float are rounded once
 * each. */
EVENTS_INLINE float eventsCubeValue(int64_t sum, double unit, double clip) {
    const double value = (double)sum * unit;
    return (float)(value < clip ? value : clip);
}

/* Returns an event's position in a cube in bins, counted from one bin before the first and limited to where it touches
 * none. scaled: bins * (t - begin) / span. */
EVENTS_INLINE double eventsCubeTime(double scaled, int bins) {
    const double time = scaled + 0.5;
    return time < 0 ? 0 : time > bins + 1 ? bins + 1 : time;
}

/* Finds the pixel to the upper left of a rectified event, which may be one outside the frame, and the event's distances
 * down and right of it. Returns 0 if the event touches no pixel. */
EVENTS_INLINE int eventsRectify(const float *xy, int rows, int cols, int *row, int *col, double *down, double *right) {
    const float x = xy[0], y = xy[1];
    if (!(x > -1 && x < (float)cols && y > -1 && y < (float)rows))
        return 0;
    *col = (int)floorf(x);
    *row = (int)floorf(y);
    *right = (double)x - *col;
    *down = (double)y - *row;
    return 1;
}

/* Returns a weight of time times the share of one of the four pixels (bit 0: the right ones, bit 1: the lower ones). Only
 * products are rounded, which no compiler fuses. */
EVENTS_INLINE int64_t eventsCornerWeight(int64_t weight, int corner, double down, double right) {
    const double x = corner & 1 ? right : 1 - right, y = corner & 2 ? down : 1 - down;
    return (int64_t)rint(y * x * (double)weight);
}

/* Returns whether a packet ends the first of its windows. room: events until it is full, or UINT64_MAX by duration: the
 * first event after it ends it then. */
EVENTS_INLINE int eventsEndsWindow(const CusiPacketDone *done, uint64_t room) {
    return !done->spoiled && (done->events > done->in_first || done->events >= room);
}

/* MDES and TENCODE follow from a pixel's last event, which one pass finds for both. */
static inline int eventsUsesLastEvent(cusRepresentationKind kind) {
    return kind == CUS_REPR_MDES || kind == CUS_REPR_TENCODE;
}

/* Returns a representation's cusNormalization. */
static inline int eventsNormalize(const cusRepresentation *r) {
    return r->kind == CUS_REPR_VOXEL_GRID ? r->normalize : CUS_NORMALIZE_NONE;
}

/* Returns whether the representation uses the window's own time bounds. */
static inline int eventsUsesSpan(const cusRepresentation *r) {
    return r->window_times && (r->kind == CUS_REPR_TIME_SURFACE || r->kind == CUS_REPR_EVENT_CUBE);
}

/* Returns whether the order of a pixel's events matters. */
static inline int eventsInOrder(const cusRepresentation *r) {
    return r->kind == CUS_REPR_EVENT_DIFF && r->clip_each_event;
}

/* ---- windows.c ----------------------------------------------------------------------------------------------------- */

/* Checks that the needed arrays exist. */
cusStatus eventsCheckArrays(const char *function, const cusEventArrays *events, int coordinates, int times);

cusStatus eventsCheckWindowing(const char *function, const cusWindowing *windowing);

/* Returns the number of windows. extent: the number of events, or the last event's time from the first, plus one. */
uint64_t eventsWindowCount(const cusWindowing *windowing, uint64_t extent);

static inline uint64_t eventsStride(const cusWindowing *windowing) {
    return windowing->stride ? windowing->stride : windowing->length;
}

/* ---- events.c -------------------------------------------------------------------------------------------------------- */

/* Returns whether a representation of the stacker uses times, or bounds of windows. */
int eventsNeedsTimes(const cusEventStacker *stacker);
int eventsNeedsSpans(const cusEventStacker *stacker);

/* ---- The backends ---------------------------------------------------------------------------------------------------- */

cusStatus events_host_create(cusEventStacker *stacker);
void events_host_destroy(cusEventStacker *stacker);
/* spans: NULL unless a representation uses them. */
cusStatus events_host_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            const cusEventSpan *spans, size_t window_count, cusMat *frames);
/* In cpu/normalize.c. Subtracts the mean from the non-zero values of a frame in 32F and divides them by their standard
 * deviation, in place; if `frame` is 16F, it receives them rounded. The other rounds a row. */
void events_host_normalize(const cusMat *values, const cusMat *frame, int sample, int threads);
void events_host_round(const float *row, size_t n, uint16_t *halves);
cusStatus events_host_skipped(cusEventStacker *stacker, uint64_t *skipped);

cusStatus events_cuda_create(cusEventStacker *stacker);
void events_cuda_destroy(cusEventStacker *stacker);
cusStatus events_cuda_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            const cusEventSpan *spans, size_t window_count, cusMat *frames, cusStream stream);
cusStatus events_cuda_skipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream);
/* The origin is the first time, the extent the last minus the first plus one. The second call finds windows by duration. */
cusStatus events_cuda_extent(const cusEventArrays *events, int64_t *origin, uint64_t *extent, cusStream stream);
cusStatus events_cuda_windows(const cusEventArrays *events, int64_t origin, const cusWindowing *windowing,
                              cusEventWindow *windows, size_t count, cusStream stream);
/* Finds windows first .. first + count - 1 among `events` times, and waits. `windows` is page-locked. */
cusStatus events_cuda_bounds(const int64_t *t, uint64_t events, int64_t origin, const cusWindowing *windowing,
                             uint64_t first, size_t count, cusEventWindow *windows, cusStream stream);
/* Finds the first of `events` times that is more than `limit` after the time before it, and waits. *index is `events` if
 * there is none; times[0] and times[1] are the two times. `previous` precedes the first; `work` is a word in device
 * memory. */
cusStatus events_cuda_findGap(const int64_t *t, uint64_t events, int64_t previous, uint64_t limit, uint64_t *work,
                              uint64_t *index, int64_t times[2], cusStream stream);
/* A frame of the sums of a packet's first window: `newest` and `outside` are those of the packets before. */
typedef struct EventsSumsFrame {
    const CusiPacketSums *sums;
    uint64_t newest, outside, room;
    int makes;                     /* 0: the sums lack events, so there is no frame */
    CusiPacketDone *next, *report; /* becomes 0 for the next packet; page-locked copy of *sums->done */
} EventsSumsFrame;
/* If the packet ends the window, makes the frame of the stacker's only representation, whose rows are aligned to 16 bytes,
 * and clears the sums. */
cusStatus events_cuda_frameOfSums(cusEventStacker *stacker, const EventsSumsFrame *from, cusMat *frame, cusStream stream);
/* Returns whether this is page-locked host memory, which the device can read directly. */
int events_cuda_isPinned(const void *data);

#ifdef __cplusplus
}
#endif

#endif
