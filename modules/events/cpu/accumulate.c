/* Events to accumulators. Positions are computed for a few hundred events at once, which the compiler vectorizes; what
 * remains per event is one read-modify-write in a band that stays in the cache. */
#include "check.h"
#include "events/cpu/stages.h"
#include "host.h"

#include <assert.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define TARGET_AVX512 __attribute__((target("avx512f,popcnt")))
#endif

/* Computes the positions of n events, the first at `from`; OUTSIDE for events outside the band. Returns how many are
 * inside. */
CUSI_MULTIVERSION
static uint32_t locate(const Events *events, uint32_t from, uint32_t n, const Grid *grid, uint32_t *restrict position) {
    const uint16_t *restrict x = events->x + from, *restrict y = events->y + from;
    const uint8_t *restrict p = events->p + from;
    const Grid g = *grid;
    uint32_t inside = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t row = y[i] - g.row0, col = x[i];
        const uint32_t at = row * g.step + col * g.unit + (p[i] ? g.positive : g.negative);
        const uint32_t in = (row < g.rows) & (col < g.cols);
        position[i] = in ? at : OUTSIDE;
        inside += in;
    }
    return inside;
}

#ifdef TARGET_AVX512
/* Stores whole registers. This overwrites nothing unread, since never more positions are kept than were read. */
TARGET_AVX512
static void keepInsideAvx512(uint32_t *position, uint32_t *index, uint32_t n) {
    uint32_t kept = 0;
    __m512i i = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (uint32_t k = 0; k < n; k += 16, i = _mm512_add_epi32(i, _mm512_set1_epi32(16))) {
        const __mmask16 rest = (__mmask16)(n - k < 16 ? (1 << (n - k)) - 1 : -1);
        const __m512i at = _mm512_loadu_si512(position + k);
        const __mmask16 in = _mm512_mask_cmpneq_epi32_mask(rest, at, _mm512_set1_epi32(-1));
        _mm512_storeu_si512(position + kept, _mm512_maskz_compress_epi32(in, at));
        _mm512_storeu_si512(index + kept, _mm512_maskz_compress_epi32(in, i));
        kept += (uint32_t)__builtin_popcount(in);
    }
}
#endif

/* Moves the positions that are not OUTSIDE to the front, in order, and lists their indices. The arrays have EVENTS_AT_ONCE
 * elements. No branch: if two threads share a frame, half of the events are outside, and a branch would be mispredicted for
 * every other one. */
static void keepInside(uint32_t *position, uint32_t *index, uint32_t n) {
#ifdef TARGET_AVX512
    if (__builtin_cpu_supports("avx512f")) {
        keepInsideAvx512(position, index, n);
        return;
    }
#endif
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t at = position[i];
        position[kept] = at;
        index[kept] = i;
        kept += at != OUTSIDE;
    }
}

/* Runs code for events from .. to - 1 inside the band: `i` is the event, `at` its position. Adds their number to `inside`. */
#define FOR_EVENTS_INSIDE(events, from, to, grid, inside, ...)                   \
    do {                                                                         \
        uint32_t position_[EVENTS_AT_ONCE], index_[EVENTS_AT_ONCE];              \
        for (uint32_t start_ = (from), n_; start_ < (to); start_ += n_) {        \
            n_ = (to)-start_ < EVENTS_AT_ONCE ? (to)-start_ : EVENTS_AT_ONCE;    \
            const uint32_t found_ = locate(events, start_, n_, grid, position_); \
            (inside) += found_;                                                  \
            if (found_ > 0 && found_ < n_)                                       \
                keepInside(position_, index_, n_);                               \
            for (uint32_t k_ = 0; k_ < found_; ++k_) {                           \
                const uint32_t at = position_[k_];                               \
                const uint32_t i = start_ + (found_ < n_ ? index_[k_] : k_);     \
                (void)i;                                                         \
                __VA_ARGS__                                                      \
            }                                                                    \
        }                                                                        \
    } while (0)

/* +1 or -1. A table, because compilers turn a comparison into a branch, and polarities are random. */
static int32_t signOf(uint8_t p) {
    static const int32_t signs[] = {-1, 1};
    return signs[p != 0];
}

uint64_t events_host_count(const Events *events, uint32_t from, uint32_t to, const Grid *grid, uint8_t *counts,
                           uint8_t ceiling) {
    uint64_t inside = 0;
    FOR_EVENTS_INSIDE(events, from, to, grid, inside, {
        const uint8_t c = counts[at];
        counts[at] = (uint8_t)(c + (c < ceiling));
    });
    return inside;
}

/* Computes TENCODE's green, floor(255 age / dt). Double division is exact if age <= dt < 2^45. */
CUSI_MULTIVERSION
static void greenOfEvents(const int64_t *restrict t, uint32_t n, uint64_t newest, uint64_t dt, uint16_t *restrict green) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const uint64_t age = newest - (uint64_t)t[i];
        most = age > most ? age : most;
    }
    if (most <= dt && dt < (uint64_t)1 << 45) {
        const double scale = dt ? (double)dt : 1.0;
        for (uint32_t i = 0; i < n; ++i)
            green[i] = (uint16_t)(int32_t)((double)(int64_t)(255 * (newest - (uint64_t)t[i])) / scale);
    } else {
        for (uint32_t i = 0; i < n; ++i)
            green[i] = dt ? (uint8_t)(255 * (newest - (uint64_t)t[i]) / dt) : 0;
    }
}

uint64_t events_host_lastCodes(const Events *events, const Grid *grid, int with_green, uint16_t *codes) {
    uint64_t inside = 0;
    EventsLevels levels;
    uint32_t position[EVENTS_AT_ONCE], index[EVENTS_AT_ONCE];
    uint16_t green[EVENTS_AT_ONCE] = {0};
    if (events->count == 0)
        return 0;
    assert(events->t || !with_green);
    const uint64_t newest = with_green ? (uint64_t)events->t[events->count - 1] : 0;
    const uint64_t dt = with_green ? newest - (uint64_t)events->t[0] : 0;
    eventsMdesLevels(events->count, EVENTS_MAX_CHANNELS, &levels);
    for (uint32_t k = 0; k < EVENTS_MAX_CHANNELS; ++k)
        for (uint32_t start = levels.begin[k], n; start < levels.begin[k + 1]; start += n) {
            const uint32_t rest = levels.begin[k + 1] - start;
            n = rest < EVENTS_AT_ONCE ? rest : EVENTS_AT_ONCE;
            const uint32_t found = locate(events, start, n, grid, position);
            inside += found;
            if (found == 0)
                continue;
            if (with_green)
                greenOfEvents(events->t + start, n, newest, dt, green);
            if (found < n)
                keepInside(position, index, n);
            for (uint32_t j = 0; j < found; ++j) {
                const uint32_t i = found < n ? index[j] : j;
                codes[position[j]] =
                    (uint16_t)(CODE_EVENT + (events->p[start + i] ? CODE_POSITIVE : 0) + k * CODE_LEVEL + green[i]);
            }
        }
    return inside;
}

uint64_t events_host_lastIndices(const Events *events, const Grid *grid, uint32_t *indices) {
    uint64_t inside = 0;
    FOR_EVENTS_INSIDE(events, 0, events->count, grid, inside, { indices[at] = i + 1; });
    return inside;
}

uint64_t events_host_sumPolarities(const Events *events, const Grid *grid, int32_t *sum) {
    uint64_t inside = 0;
    FOR_EVENTS_INSIDE(events, 0, events->count, grid, inside, { sum[at] += signOf(events->p[i]); });
    return inside;
}

uint64_t events_host_sumVoxels(const Events *events, const Grid *grid, int bins, int64_t *voxels) {
    uint64_t inside = 0;
    if (events->count == 0)
        return 0;
    assert(events->t);
    const int64_t t0 = events->t[0], span = events->t[events->count - 1] - t0;
    const double dt = span > 0 ? (double)span : 1.0;
    FOR_EVENTS_INSIDE(events, 0, events->count, grid, inside, {
        double time = (double)(bins - 1) * (double)(events->t[i] - t0) / dt;
        time = time < 0 ? 0 : time > bins - 1 ? bins - 1 : time;
        const int bin = (int)time;
        const int64_t next = (int64_t)((time - bin) * EVENTS_VOXEL_UNIT + 0.5), sign = signOf(events->p[i]),
                      here = (int64_t)EVENTS_VOXEL_UNIT - next;
        int64_t *voxel = voxels + (size_t)at * (size_t)bins + bin;
        voxel[0] += sign * here;
        if (bin + 1 < bins)
            voxel[1] += sign * next;
    });
    return inside;
}

/* Bin k begins where floor(bins (t - t0) / max(dt, 1)) reaches k. */
void events_host_timeLevels(const Events *events, int bins, EventsLevels *levels) {
    assert(events->t || !events->count);
    levels->begin[0] = 0;
    levels->begin[bins] = events->count;
    const uint64_t dt = events->count ? (uint64_t)events->t[events->count - 1] - (uint64_t)events->t[0] : 0;
    for (int k = 1; k < bins; ++k)
        levels->begin[k] =
            events->count ? (uint32_t)eventsLowerBound(events->t, events->count, events->t[0], eventsBinStart(k, bins, dt))
                          : 0;
}
