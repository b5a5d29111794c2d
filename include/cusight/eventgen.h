/* cusight/eventgen.h: events from video, with the noise of an event camera, on the CPU or the GPU.
 *
 * A generator turns gray frames and their times into the events that an event camera would have sent. Everything is
 * computed in integers and every random number is a function of (seed, pixel, number of the draw), so a video gives the
 * same events on both backends, on every machine, with any number of threads, and however its frames are divided among
 * calls.
 *
 * The model of a pixel. All values are log intensities in units of 2^-16.
 *   Signal      L(v) = ln(v) for pixel value v; below 20 the straight line from (0, 0) to (20, ln 20), since dark values
 *               are mostly noise. Between two frames it is linear in time.
 *   Thresholds  P and N: `positive` and `negative`, each plus `threshold_spread` times a normal number of the pixel's own,
 *               at least 0.01.
 *   Reference   R: L at the first frame; if pixels leak, less a random part of P, so that pixels do not leak in step.
 *   Leak        Outside the refractory period the reference falls by P * leak_rate / (1 + leak_jitter * normal number) per
 *               second. The normal number is drawn again after every event. What has leaked since the period's end is
 *               rounded down at frame times and linear in between.
 *   Threshold   At every microsecond after the previous frame, up to and including the next one: if the signal is at least
 *   events      P above the leaking reference, the pixel emits a positive event and the reference rises by P; if it is at
 *               least N below, a negative event and falls by N. Several events may share a microsecond.
 *   Refractory  For `refractory_us` after an event, or after the first frame, a pixel emits nothing and its reference
 *   period      stays; what is still past a threshold then is emitted then.
 *   Shot noise  A Poisson process outside the refractory period, of the rate shot_rate * (1 - 0.75 (v + 20) / 275), where v
 *               is the value at the interval's end: full in the dark, a quarter of it in white. Times are rounded up. Both
 *               polarities are equally likely. The event sets R to the signal.
 *
 * Random numbers are those of Philox4x32-10 (Salmon et al. 2011): key seed, counter (pixel, draw, purpose, 0), where pixel
 * is row * cols + column. Purpose 0, draw 0: thresholds, positive from words 0 and 1, negative from 2 and 3. Purpose 1,
 * draw n, made at the first frame (0) and after event n of the pixel: leak from words 0 and 1; the time to the next shot
 * from word 2, its polarity from the top bit of word 3, whose other bits are the part of P at the first frame. A normal
 * number is (sum of the eight bytes - 1020) / 209.02, which is within -4.88 .. 4.88. The time to a shot is 33 - log2(2 word
 * + 1), in units of ln 2 / rate; the logarithm has 16 fractional bits, each from a square of the mantissa, which keeps 31
 * bits after the point. docs/eventgen.md says how these are rounded.
 *
 * Sources: ESIM (Rebecq et al. 2018) for the crossings; v2e (Hu et al. 2021) for the mapping and the noise. Unlike v2e,
 * time is continuous; docs/eventgen.md lists what else differs.
 */
#ifndef CUSIGHT_EVENTGEN_H
#define CUSIGHT_EVENTGEN_H

#include "events.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The defaults make no noise. v2e's values for a noisy sensor are in brackets. */
typedef struct cusEventGeneratorOptions {
    double positive, negative; /* contrast thresholds in log intensity, 0.01..10, default 0.2 */
    double threshold_spread;   /* standard deviation over the pixels, 0..1, default 0 [0.05] */
    int64_t refractory_us;     /* 0..1000000, default 0 */
    double leak_rate;          /* leak events of a pixel per second, 0..100, default 0 [0.1] */
    double leak_jitter;        /* standard deviation of the time between leaks, as a part of it, 0..0.2, default 0 [0.1] */
    double shot_rate;          /* shot events of a black pixel per second, 0..1000, default 0 [5] */
    uint64_t seed;             /* default 0 */
    cusSpace space;            /* space of frames and events, default CUS_HOST */
    size_t max_events;         /* CUS_DEVICE: limit of a run, at 16 bytes each; up to 2^31 - 1; 0 (default): 2^24 */
    uint64_t reserved[8];      /* 0: for later options */
} cusEventGeneratorOptions;

/* Returns these defaults. */
CUS_API cusEventGeneratorOptions cusEventGeneratorDefaults(void);

/* The state of one video: a reference value, a time and a draw for each pixel. */
typedef struct cusEventGenerator cusEventGenerator;

/* Creates a generator for frames of rows x cols, 1..65536 each; CUS_DEVICE: fewer than 2^31 - 1 pixels. options NULL:
 * defaults. Memory: 25 bytes a pixel, 50 once cusSetProgress has a callback, on the device 50 and the workspace for events.
 * Errors: NULL, VALUE, NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusEventGeneratorCreate(cusEventGenerator **generator, int rows, int cols,
                                          const cusEventGeneratorOptions *options);
/* Safe on NULL. Waits for the device. */
CUS_API void cusEventGeneratorDestroy(cusEventGenerator *generator);

/* Passes in the next frame (8UC1, host, any row step) and its time in microseconds, 0 or more, later than that of the
 * previous frame by less than 2^42, with leak or shot noise by less than 2^24 (16 s). For generators in CUS_HOST.
 * *events is set to the events with t in (previous time, time], in arrays of the generator that are valid until its next
 * call, sorted by t; at the same t by row, column, and order of emission. The first frame sets the references and makes no
 * events. The arrays grow when a frame makes more events than any before. Errors: NULL, TYPE, SIZE, SPACE, VALUE (time),
 * NO_MEMORY. Cost: two passes over the frame and five over its events. */
CUS_API cusStatus cusEventGeneratorPush(cusEventGenerator *generator, const cusMat *frame, int64_t time,
                                        cusEventArrays *events);

/* What one run did. Plain data of 64-bit fields, so that the device can write it. */
typedef struct cusEventsGenerated {
    uint64_t count;  /* events made; CAPACITY: events that the frames would make, none of which was written */
    uint64_t frames; /* frames consumed: all, or with CAPACITY none */
    int64_t status;  /* CUS_OK or CUS_ERROR_CAPACITY */
} cusEventsGenerated;

/* The most frames of a run. */
#define CUS_EVENT_GENERATOR_MAX_FRAMES 4096

/* Passes in `count` frames (1..4096) and writes their events, in the order of Push.
 * frames: 8UC1 in the generator's space, (count * rows) x cols, any row step; frame i is rows i * rows ..
 * (i + 1) * rows - 1.
 * events: arrays in the generator's space; triggers are ignored.
 * times: of the frames, in host memory, read before the call returns; each as Push takes it. On the device they span less
 * than 2^32 us, with the time of the frame before.
 * generated: host: host memory; device: device memory or page-locked host memory; NULL: nothing is written.
 * Host: finished at return, and the status returned is that of `generated`, with a message.
 * Device: queued in `stream`, which the call neither waits for nor allocates in. CUS_OK means that the run is queued; its
 * own status is in `generated`, and cusEventGeneratorCheck gives it with the message.
 *   CAPACITY: the frames make more events than `capacity` or, on the device, max_events. Nothing has changed: pass the
 *   frames again with larger arrays, or fewer of them. On the device every further run does nothing and reports CAPACITY
 *   with count 0 until cusEventGeneratorCheck has been called, so runs that are queued already do no harm.
 * Cost: on the device frames are read once, and each pixel's state is read and written once a run, so one run of many
 * frames is faster than many runs. As many keys of 8 bytes are sorted as `capacity` and max_events allow, however many
 * events there are: arrays should not be much larger than what is expected. On the host frames are read twice, once to
 * count.
 * Errors of the call that change nothing: NULL, TYPE, SIZE, SPACE, VALUE (count, times, misaligned arrays), CAPACITY
 * (host), NO_MEMORY (host), CUDA; UNSUPPORTED (the stream is being captured: a graph would repeat the times). */
CUS_API cusStatus cusEventGeneratorRun(cusEventGenerator *generator, const cusMat *frames, const int64_t *times, int count,
                                       const cusEventBuffers *events, cusEventsGenerated *generated, cusStream stream);

/* Waits for the last run and returns its status, with the message, and in *generated, which is in host memory or NULL, what
 * it did; or those of the first run that failed since the last Check. After CAPACITY the next run counts again: its first
 * frame is the failed run's. Errors: NULL, CAPACITY, CUDA, UNSUPPORTED (capture). */
CUS_API cusStatus cusEventGeneratorCheck(cusEventGenerator *generator, cusEventsGenerated *generated, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTGEN_H */
