/* One pixel of a generator, in integers that both backends compute alike. cusight/eventgen.h has the definition.
 *
 * Bounds: log intensities are below 2^19 and thresholds below 2^20. With leak or shot noise an interval is below 2^24 us
 * and a leak below 2^37 (100 per second, divided by 1 - 4.88 * 0.2), otherwise an interval is below 2^42 us. So products
 * with an interval stay below 2^63. */
#ifndef CUSI_EVENTGEN_PIXEL_H
#define CUSI_EVENTGEN_PIXEL_H

#include <stdint.h>

#ifdef __CUDACC__
#define EVENTGEN_INLINE __host__ __device__ static inline
#else
#define EVENTGEN_INLINE static inline
#endif

enum {
    EVENTGEN_MIN_THRESHOLD = 655, /* 0.01 in units of 2^-16 */
    EVENTGEN_NORMAL_MEAN = 1020,  /* mean of the sum of eight bytes */
    EVENTGEN_SCALE_BITS = 8,      /* fraction of the factors of normal numbers */
    EVENTGEN_LEAK_BITS = 24,      /* fraction of a leak per microsecond */
    EVENTGEN_RATE_BITS = 44,      /* fraction of a leak rate per microsecond */
    EVENTGEN_SHOT_BITS = 40       /* fraction of a shot rate and of a waiting time, in base 2 */
};

/* The standard deviation of the sum of eight bytes: sqrt(8 (2^16 - 1) / 12). */
#define EVENTGEN_NORMAL_SIGMA 209.0207

/* The options in fixed point. */
typedef struct EventgenModel {
    int32_t positive, negative; /* in units of 2^-16 */
    int32_t spread;             /* per unit of a normal number, in units of 2^-(16 + EVENTGEN_SCALE_BITS) */
    int32_t jitter;             /* the same, relative */
    int64_t refractory;         /* microseconds */
    int64_t leak_rate;          /* thresholds per microsecond, in units of 2^-EVENTGEN_RATE_BITS; 0: no leak */
    int32_t random;             /* whether there is leak or shot noise */
    uint32_t seed[2];           /* low, high */
} EventgenModel;

/* Tables by pixel value. */
typedef struct EventgenTables {
    int32_t log_intensity[256];
    uint32_t shot_rate[256]; /* per microsecond, in units of 2^-EVENTGEN_SHOT_BITS */
} EventgenTables;

/* What a generator keeps of a pixel between two runs, besides its last value. */
typedef struct EventgenPixel {
    int64_t last_event; /* time of the last event, or of the first frame before any */
    int64_t waiting;    /* time until the next shot */
    int32_t reference;  /* log intensity at the last event */
    uint32_t draws;
} EventgenPixel;

/* A pixel during a run, with what is derived from it. */
typedef struct EventgenWalk {
    EventgenPixel pixel;
    int32_t positive, negative;
    int64_t mean_leak, leak; /* per microsecond */
    int32_t shot_polarity;
} EventgenWalk;

/* A pixel's values in two successive frames. */
typedef struct EventgenInterval {
    int64_t start, end; /* times of the frames */
    int32_t from, to;   /* log intensities */
    uint32_t shot_rate;
} EventgenInterval;

typedef struct EventgenEvent {
    int64_t t;
    int32_t positive;
} EventgenEvent;

/* Generates four random words by Philox4x32-10 (Salmon et al., 2011). */
EVENTGEN_INLINE void eventgenRandom(const uint32_t seed[2], uint32_t pixel, uint32_t draw, uint32_t purpose,
                                    uint32_t word[4]) {
    uint32_t key0 = seed[0], key1 = seed[1];
    word[0] = pixel;
    word[1] = draw;
    word[2] = purpose;
    word[3] = 0;
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = (uint64_t)0xD2511F53u * word[0], b = (uint64_t)0xCD9E8D57u * word[2];
        word[0] = (uint32_t)(b >> 32) ^ word[1] ^ key0;
        word[1] = (uint32_t)b;
        word[2] = (uint32_t)(a >> 32) ^ word[3] ^ key1;
        word[3] = (uint32_t)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Returns a normal number, from 64 random bits, in units of 1 / EVENTGEN_NORMAL_SIGMA. */
EVENTGEN_INLINE int32_t eventgenNormal(uint32_t a, uint32_t b) {
    const uint32_t pairs = (a & 0xff00ffu) + (a >> 8 & 0xff00ffu) + (b & 0xff00ffu) + (b >> 8 & 0xff00ffu);
    return (int32_t)((pairs & 0xffffu) + (pairs >> 16)) - EVENTGEN_NORMAL_MEAN;
}

/* Returns normal * scale, rounded down. scale has EVENTGEN_SCALE_BITS more bits than the result. */
EVENTGEN_INLINE int32_t eventgenScaled(int32_t normal, int32_t scale) {
    return (int32_t)((int64_t)normal * scale >> EVENTGEN_SCALE_BITS);
}

/* Returns -log2((2 word + 1) / 2^33), which is above 0, with EVENTGEN_SHOT_BITS fractional bits, of which 16 are
 * computed. */
EVENTGEN_INLINE int64_t eventgenWaiting(uint32_t word) {
    uint64_t x = 2 * (uint64_t)word + 1; /* log2(x) by squaring: each time x reaches 2, a bit is 1 */
    int32_t whole = 0;
    for (int shift = 32; shift > 0; shift /= 2)
        if (x >> whole >> shift)
            whole += shift;
    x = x << (33 - whole) >> 2; /* 1 <= x < 2 with 31 fractional bits */
    int64_t log2 = whole;
    for (int bit = 0; bit < 16; ++bit) {
        x = x * x >> 31;
        const int32_t set = (int32_t)(x >> 32);
        log2 = 2 * log2 + set;
        x >>= set;
    }
    return (((int64_t)33 << 16) - log2) << (EVENTGEN_SHOT_BITS - 16);
}

EVENTGEN_INLINE int32_t eventgenThreshold(int32_t nominal, int32_t normal, int32_t spread) {
    const int32_t own = nominal + eventgenScaled(normal, spread);
    return own > EVENTGEN_MIN_THRESHOLD ? own : EVENTGEN_MIN_THRESHOLD;
}

/* Draws the pixel's leak, polarity and waiting time. Returns word 2, and word 3 without its top bit in *phase. */
EVENTGEN_INLINE uint32_t eventgenDraw(const EventgenModel *model, uint32_t index, EventgenWalk *walk, uint32_t *phase) {
    uint32_t word[4];
    eventgenRandom(model->seed, index, walk->pixel.draws, 1, word);
    walk->leak = (walk->mean_leak << 16) / (65536 + eventgenScaled(eventgenNormal(word[0], word[1]), model->jitter));
    walk->shot_polarity = (int32_t)(word[3] >> 31);
    *phase = word[3] & 0x7fffffffu;
    return word[2];
}

/* Derives what does not change during a run. */
EVENTGEN_INLINE void eventgenDerive(const EventgenModel *model, uint32_t index, EventgenWalk *walk) {
    uint32_t word[4] = {0, 0, 0, 0};
    walk->positive = model->positive;
    walk->negative = model->negative;
    if (model->spread) {
        eventgenRandom(model->seed, index, 0, 0, word);
        walk->positive = eventgenThreshold(model->positive, eventgenNormal(word[0], word[1]), model->spread);
        walk->negative = eventgenThreshold(model->negative, eventgenNormal(word[2], word[3]), model->spread);
    }
    walk->mean_leak = walk->positive * model->leak_rate >> (EVENTGEN_RATE_BITS - EVENTGEN_LEAK_BITS);
    walk->leak = 0;
    walk->shot_polarity = 0;
}

/* Starts a pixel at the first frame. */
EVENTGEN_INLINE void eventgenStart(const EventgenModel *model, uint32_t index, int32_t log_intensity, int64_t time,
                                   EventgenWalk *walk) {
    uint32_t phase = 0;
    walk->pixel.last_event = time;
    walk->pixel.waiting = 0;
    walk->pixel.reference = log_intensity;
    walk->pixel.draws = 0;
    eventgenDerive(model, index, walk);
    if (model->random)
        walk->pixel.waiting = eventgenWaiting(eventgenDraw(model, index, walk, &phase));
    if (model->leak_rate)
        walk->pixel.reference -= (int32_t)((int64_t)phase * walk->positive >> 31);
}

/* Continues a pixel that the last run left. */
EVENTGEN_INLINE void eventgenResume(const EventgenModel *model, uint32_t index, const EventgenPixel *pixel,
                                    EventgenWalk *walk) {
    uint32_t phase;
    walk->pixel = *pixel;
    eventgenDerive(model, index, walk);
    if (model->random)
        eventgenDraw(model, index, walk, &phase);
}

/* Returns the leak in `passed` microseconds, rounded down. */
EVENTGEN_INLINE int64_t eventgenLeaked(const EventgenWalk *walk, int64_t passed) {
    return walk->leak * passed >> EVENTGEN_LEAK_BITS;
}

/* Returns the first microsecond from `earliest` on at which the signal is past a threshold, or INT64_MAX. The signal is
 * `low` above the reference at the start of the interval and `high` at its end. */
EVENTGEN_INLINE int64_t eventgenCrossing(const EventgenWalk *walk, const EventgenInterval *i, int64_t low, int64_t high,
                                         int64_t earliest, int32_t *positive) {
    const int64_t up = walk->positive, down = walk->negative, span = i->end - i->start;
    if (low < up && low > -down && high < up && high > -down)
        return INT64_MAX;
    const int64_t now = low * span + (high - low) * (earliest - i->start); /* the signal at `earliest`, times span */
    *positive = now >= up * span || (now > -down * span && high >= up);
    if (now >= up * span || now <= -down * span)
        return earliest;
    if (high < up && high > -down)
        return INT64_MAX;
    const int64_t passed = *positive ? up - low : down + low, distance = *positive ? high - low : low - high;
    return i->start + (int64_t)((uint64_t)(passed * span + distance - 1) / (uint64_t)distance);
}

/* Returns a / b, rounded up, for a > 0 and a quotient below 2^24. Corrects a float division, since GPUs divide 64-bit
 * integers slowly. */
EVENTGEN_INLINE int64_t eventgenQuotient(int64_t a, int64_t b) {
    int64_t q = (int64_t)((float)a / (float)b), left = a - q * b;
    for (; left > 0; left -= b)
        ++q;
    for (; left <= -b; left += b)
        --q;
    return q;
}

/* Advances the pixel to its next event in the interval, or to the interval's end and returns 0. */
EVENTGEN_INLINE int eventgenNext(const EventgenModel *model, uint32_t index, const EventgenInterval *i, EventgenWalk *walk,
                                 EventgenEvent *event) {
    EventgenPixel *pixel = &walk->pixel;
    const int64_t ready = pixel->last_event + model->refractory;
    if (ready > i->end)
        return 0;
    const int64_t low = (int64_t)i->from - pixel->reference + eventgenLeaked(walk, i->start - ready),
                  high = (int64_t)i->to - pixel->reference + eventgenLeaked(walk, i->end - ready);
    const int64_t from = ready > i->start ? ready : i->start; /* the wait for a shot starts here */
    int32_t positive = 0;
    const int64_t crossing = eventgenCrossing(walk, i, low, high, ready > i->start ? ready : i->start + 1, &positive);
    const int64_t coming = (int64_t)i->shot_rate * (i->end - from);
    const int is_shot = i->shot_rate && coming >= pixel->waiting;
    const int64_t shot = is_shot ? from + eventgenQuotient(pixel->waiting, i->shot_rate) : INT64_MAX;
    if (crossing == INT64_MAX && shot == INT64_MAX) {
        pixel->waiting -= coming;
        return 0;
    }
    if (crossing <= shot) {
        event->t = crossing;
        event->positive = positive;
        pixel->reference += (positive ? walk->positive : -walk->negative) - (int32_t)eventgenLeaked(walk, crossing - ready);
    } else {
        event->t = shot;
        event->positive = walk->shot_polarity;
        pixel->reference = i->from + (int32_t)((int64_t)(i->to - i->from) * (shot - i->start) / (i->end - i->start));
    }
    pixel->last_event = event->t;
    ++pixel->draws;
    if (model->random) {
        uint32_t phase;
        pixel->waiting = eventgenWaiting(eventgenDraw(model, index, walk, &phase));
    }
    return 1;
}

#endif
