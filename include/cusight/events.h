/* cusight/events.h: stacked frames from an event camera.
 *
 * Events are a structure of arrays. Windows divide them into stacks, and each stack becomes a frame in one or more
 * representations. cusEventStack processes events in memory, on the CPU or the GPU; a cusEventPipeline processes a
 * recording of any length in pieces, in fixed memory. The integer representations and the voxel grid, which is summed in
 * fixed point, are bit-identical on both backends and do not depend on the order of threads.
 */
#ifndef CUSIGHT_EVENTS_H
#define CUSIGHT_EVENTS_H

#include "raw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events and windows ---------------------------------------------------------------------------------------------- */

/* `count` events in four parallel arrays, all in one space. The struct owns nothing. Device arrays may start anywhere, but
 * are read faster, with vector loads, if all of them start at multiples of 16 bytes. */
typedef struct cusEventArrays {
    const uint16_t *x, *y; /* column and row; an event outside the frame is skipped and counted */
    const uint8_t *p;      /* 0: negative (darker), anything else: positive (brighter) */
    const int64_t *t;      /* microseconds, non-decreasing; may be NULL if times are not used */
    size_t count;          /* number of events */
    cusSpace space;        /* space of all four arrays */
} cusEventArrays;

/* Events first .. last - 1 form a stack. If first == last, the frame has no events. */
typedef struct cusEventWindow {
    uint64_t first, last; /* indices of events */
} cusEventWindow;

/* What a window's length counts. */
typedef enum cusWindowUnit {
    CUS_WINDOW_COUNT = 0,   /* length and stride are numbers of events */
    CUS_WINDOW_DURATION = 1 /* length and stride are microseconds */
} cusWindowUnit;

/* Window i covers [i * stride, i * stride + length) in events, or in microseconds from the first event. Windows overlap if
 * the stride is below the length and leave gaps if it is above. A window by count is complete if it has all its events, one
 * by duration if the last event's time is at or past its last microsecond. The first incomplete window is the last one that
 * is made, also if it is the only one; without keep_incomplete it is left out. */
typedef struct cusWindowing {
    cusWindowUnit unit;   /* default COUNT */
    uint64_t length;      /* 1 or more; default 200000 events */
    uint64_t stride;      /* 0 (default): same as length */
    int keep_incomplete;  /* default 1 (before version 0.3: 0) */
    uint64_t reserved[8]; /* 0: for later options */
} cusWindowing;

/* Returns these defaults. */
CUS_API cusWindowing cusWindowingDefaults(void);

/* Lists the windows of `events`: `count` receives their number, and windows[0 .. capacity - 1], in host memory, as many of
 * them as fit (NULL and capacity 0: only the number). If not all fit, returns CUS_ERROR_CAPACITY with `count` set.
 * windowing NULL: defaults. By duration the times are searched, O(windows log events), on the device if they lie there; the
 * call then waits for `stream`. Times that decrease in between give unspecified windows, within the events.
 * Errors: NULL; VALUE, also if the last time is before the first, or 2^63 us after it; CAPACITY; NO_MEMORY; NO_CUDA;
 * CUDA. */
CUS_API cusStatus cusEventWindows(const cusEventArrays *events, const cusWindowing *windowing, cusEventWindow *windows,
                                  size_t capacity, size_t *count, cusStream stream);

/* ---- Representations ------------------------------------------------------------------------------------------------- */

/* What a frame shows, for events i = 0 .. n - 1 of the window and dt = t[n-1] - t[0]. begin and end are t[0] and t[n-1], or
 * the window's own bounds (`window_times`). Formulas and sources:
 * docs/events.md. */
typedef enum cusRepresentationKind {
    /* 8U, 2 channels: number of events by polarity, positive first, saturating at 255. */
    CUS_REPR_HISTOGRAM = 0,
    /* Mixed-density event stacks (Nam et al. 2022), `channels` channels: channel k shows the polarity of the pixel's last
     * event among events s_k .. n - 1, with s_0 = 0 and s_k = s_(k-1) + floor(n / 2^k). 8U: 255 positive, 0 negative, 128
     * no event; 8S and 32F: +1, -1, 0. */
    CUS_REPR_MDES = 1,
    /* 8U, `channels` channels: number of events in the same ranges, of either polarity, saturating at 255. */
    CUS_REPR_MDES_COUNT = 2,
    /* 8U, 3 channels, BGR (Tencode, Huang et al. 2023), for the pixel's last event: R = 255 if positive, B = 255 if
     * negative, G = floor(255 (t[n-1] - t) / dt), or 0 if dt is 0. No event: 0, 0, 0. dt must be below 2^56 us (2,000
     * years). */
    CUS_REPR_TENCODE = 3,
    /* 8U, 2 * channels channels: number of events by polarity (positive first) and time bin
     * min(floor(channels (t - t[0]) / max(dt, 1)), channels - 1), saturating at `cutoff`. */
    CUS_REPR_STACKED_HISTOGRAM = 4,
    /* 32F or 16F, `channels` time bins (Zhu et al. 2019): each event's +-1 is split linearly between the two bins nearest
     * to t* = (channels - 1) (t - t[0]) / max(dt, 1). Weights are multiples of 2^-24 and summed as integers: the result
     * does not depend on the order and differs from real arithmetic by at most 2^-25 per event of the pixel and one
     * rounding to float. `normalize`: see cusNormalization. */
    CUS_REPR_VOXEL_GRID = 5,
    /* 32F or 16F, 2 channels, positive first: exp((t_last - t[n-1]) / tau), where t_last is the time of the pixel's last
     * event of that polarity, or 0 if there is none. Floats are accurate to 0.51 units in the last place. `surface` has
     * other values. */
    CUS_REPR_TIME_SURFACE = 6,
    /* 8S, 1 channel: positive minus negative events, clipped to lower..upper: the final sum, or with `clip_each_event` the
     * sum after each event. */
    CUS_REPR_EVENT_DIFF = 7,
    /* 32F or 16F, 2 * channels channels, those of a time bin side by side, positive first (Zhu et al. 2018, as OpenEB has
     * it): each event counts 1, split linearly between the two bins nearest to t* = channels (t - begin) / max(end -
     * begin, 1) - 1/2; what falls outside the bins is lost. Values are scale times the sums, at most `clip`. Sums are
     * exact, as VOXEL_GRID's. */
    CUS_REPR_EVENT_CUBE = 8,
    /* 8S, `channels` channels: positive minus negative events, clipped to lower..upper, of those with
     * t - t[0] < max(dt, 1) / 2^(channels - 1 - k) in channel k, and of all in the last one (RVT's mixed-density stack). */
    CUS_REPR_MDES_DIFF = 9
} cusRepresentationKind;

/* How a voxel grid is normalized. The mean of the frame's n non-zero values is subtracted from them, and the differences
 * are divided by their standard deviation; other values stay 0. Moments are exact, and both backends give the same bits,
 * within 3e-7 relative of real arithmetic. A frame without events stays 0; one non-zero value, or equal ones, become 0. */
typedef enum cusNormalization {
    CUS_NORMALIZE_NONE = 0,       /* default */
    CUS_NORMALIZE_POPULATION = 1, /* the variance has divisor n, as numpy.std */
    CUS_NORMALIZE_SAMPLE = 2      /* n - 1, as torch.std: E-RAFT, DSEC */
} cusNormalization;

/* The values of a time surface, where t_last is the time of the pixel's last event. Windows whose events begin 104 tau
 * before `end` give the same EXPONENTIAL values as windows that begin with the recording: older events are 0 as floats. */
typedef enum cusSurface {
    CUS_SURFACE_EXPONENTIAL = 0, /* default: exp((t_last - end) / tau) */
    CUS_SURFACE_TIME = 1,        /* t_last - begin, in microseconds; exact below 2^24 */
    CUS_SURFACE_LINEAR = 2       /* (t_last - begin) / max(end - begin, 1), from 0 on */
} cusSurface;

/* A representation and its parameters. Those that its kind does not use are ignored. */
typedef struct cusRepresentation {
    cusRepresentationKind kind; /* what a frame shows */
    /* 1..16. MDES, MDES_COUNT, MDES_DIFF and STACKED_HISTOGRAM and EVENT_CUBE (bins): default 10; VOXEL_GRID (bins):
     * default 5. Others: ignored */
    int channels;
    /* MDES: CUS_8U (default), CUS_8S or CUS_32F. VOXEL_GRID, TIME_SURFACE, EVENT_CUBE: CUS_32F (default) or CUS_16F, whose
     * values are those of 32F, normalized or not, rounded to the nearest half, ties to even; 65520 and more become
     * infinity. Converting 32F frames to halves gives the same bits. */
    int depth;
    /* HISTOGRAM, STACKED_HISTOGRAM, TIME_SURFACE, EVENT_CUBE: negative first. TENCODE: RGB. Default 0 */
    int swap_channels;
    int cutoff;    /* STACKED_HISTOGRAM: 1..255, default 255 */
    int normalize; /* VOXEL_GRID: a cusNormalization, default NONE */
    double tau;    /* TIME_SURFACE: microseconds, above 0, default 50000 */
    int surface;   /* TIME_SURFACE: a cusSurface, default EXPONENTIAL */
    /* TIME_SURFACE, EVENT_CUBE: begin and end are the window's own (cusEventSpan); 0 (default): t[0] and t[n-1]. */
    int window_times;
    /* EVENT_DIFF, MDES_DIFF: -128 <= lower <= 0 <= upper <= 127, default -128 and 127, also if both are 0 */
    int lower, upper;
    int clip_each_event; /* EVENT_DIFF: default 0 */
    double scale, clip;  /* EVENT_CUBE: above 0; default 1, and infinity */
    /* VOXEL_GRID: a rectification map, rows x cols 32FC2 in the stacker's space. It gives the position (x, y) of each
     * pixel's events, whose weights are split between the four pixels around it. It must outlive the stacker. NULL
     * (default): events stay where they are. */
    const cusMat *map;
    uint64_t reserved[8]; /* 0: for later options */
} cusRepresentation;

/* Returns the defaults of a kind. */
CUS_API cusRepresentation cusRepresentationDefaults(cusRepresentationKind kind);

/* Finds the type of the frames, such as CUS_8UC2. Errors: NULL, VALUE, TYPE. */
CUS_API cusStatus cusRepresentationType(const cusRepresentation *representation, int *type);

/* "histogram", "mdes", "mdes_count", "tencode", "stacked_histogram", "voxel_grid", "time_surface", "event_diff",
 * "event_cube" or "mdes_diff"; NULL if `kind` is invalid. */
CUS_API const char *cusRepresentationName(cusRepresentationKind kind);

/* ---- Events in memory ------------------------------------------------------------------------------------------------ */

/* Makes frames from events in memory. */
typedef struct cusEventStacker cusEventStacker;

/* Creates a stacker for frames of rows x cols (1..65536 each) in `count` (1..8) representations, for events in `space`. All
 * workspace is allocated here: on the device 136 MiB for sorted events and one frame's accumulators, at most 8 bytes per
 * value; on the host one frame's accumulators per thread, and its floats if it is normalized and 16F. One call at a time
 * may use an object (else BUSY), in any stream (core.h); different objects are independent. Errors: NULL, VALUE, TYPE,
 * SIZE, NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusEventStackerCreate(cusEventStacker **stacker, int rows, int cols, cusSpace space,
                                        const cusRepresentation *representations, int count);
/* Safe on NULL. */
CUS_API void cusEventStackerDestroy(cusEventStacker *stacker);

/* Makes a frame of each window in each representation.
 * windows: host memory, read before the call returns; any order, overlapping or not; 0 <= first <= last <= events->count,
 * at most 2^31 - 2 events each. window_count 0: no effect.
 * frames: one matrix per representation, created as needed as (window_count * rows) x cols; frame w is rows w * rows ..
 * (w + 1) * rows - 1. Frames must not overlap the events or each other.
 * Ready: on the host at return, on the device in stream order. Decreasing times give unspecified values but no memory
 * error.
 * Cost on the device: x, y and p are read, and 2 or 4 bytes per event are written and read again, once for HISTOGRAM and
 * once for all other representations whose tiles have the same size (which depends on the bytes per pixel). Frames are
 * written once. VOXEL_GRID and TIME_SURFACE read all times, the others few; VOXEL_GRID with `normalize` reads times and
 * sorted events twice. A window with millions of events is made by itself, with one or two atomics per event, and each
 * representation then reads its events (MDES and TENCODE together). Crowded events cost more: if all events of a short
 * window are on one pixel, up to 4 ns each. Memory does not depend on the events. Figures: docs/events.md.
 * Errors: NULL, VALUE, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY. */
CUS_API cusStatus cusEventStack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                                size_t window_count, cusMat *frames, cusStream stream);

/* The bounds of a window in time, in microseconds: begin <= end. */
typedef struct cusEventSpan {
    int64_t begin, end; /* microseconds */
} cusEventSpan;

/* Does what cusEventStack does, for representations with `window_times`: `spans`, in host memory, has the bounds of each
 * window. */
CUS_API cusStatus cusEventStackSpans(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                                     const cusEventSpan *spans, size_t window_count, cusMat *frames, cusStream stream);

/* Counts the events skipped because they lie outside the frame, over all windows since creation (an event in two
 * windows counts twice). On the device waits for `stream`. Errors: NULL, CUDA. */
CUS_API cusStatus cusEventStackerSkipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream);

/* ---- Recordings of any length, in pieces ----------------------------------------------------------------------------- */

/* The frames of `count` consecutive windows, valid until the sink returns. */
typedef struct cusFrameBatch {
    /* One matrix per representation, each (count * rows) x cols, in the space `deliver`; host memory is page-locked if
     * compute is CUS_DEVICE. */
    const cusMat *frames;
    int representations;           /* number of them */
    int device;                    /* where the frames lie; -1: the host */
    uint64_t first;                /* index of the first window in the recording, from 0 */
    size_t count;                  /* windows */
    const cusEventWindow *windows; /* event indices count from the first event pushed, which has the number first_event */
    /* Device frames are ready in the order of this stream, and are reused after the work that the sink queues there. Host
     * frames are ready, and this is NULL. */
    cusStream stream;
} cusFrameBatch;

/* Called in window order by cusEventPipelinePush and cusEventPipelineFlush, on their thread. Any status but CUS_OK stops
 * the pipeline and is returned by the call. The sink must not call the pipeline. */
typedef cusStatus (*cusFrameSink)(void *user, const cusFrameBatch *batch);

/* What a pipeline does with a recording. */
typedef struct cusEventPipelineOptions {
    cusWindowing windowing; /* default cusWindowingDefaults() */
    uint64_t first_window;  /* default 0. Only windows first_window .. end_window - 1 are made: a shard of a recording */
    uint64_t end_window;    /* default 0: no end */
    cusSpace compute;       /* CUS_HOST (default) or CUS_DEVICE */
    cusSpace deliver;       /* CUS_HOST (default), or CUS_DEVICE if compute is CUS_DEVICE */
    /* Maximum number of events in a window; determines buffer sizes. 0 (default): 4 Mi (16 Mi if they are decoded on the
     * device), or the length of windows by count if that is more. */
    size_t max_events;
    size_t batch_windows; /* maximum windows per call of the sink. 0 (default): 16 MiB of frames */
    /* Maximum number of successive windows, by duration, that lie between two consecutive events: a damaged or hostile time
     * may cause billions of empty frames. 0 (default): 1000; UINT64_MAX: no limit. */
    uint64_t max_gap;
    /* The number of the first event that is pushed, if reading begins within the recording, at or before the first event of
     * first_window. Windows and their event indices are then those of the whole recording. 0 (default): its start. */
    uint64_t first_event;
    int64_t origin; /* first_event above 0, by duration: the time of the recording's first event */
    /* NULL (default): events are pushed. Otherwise raw bytes are pushed (cusEventPipelinePushBytes), which a decoder with
     * these options decodes where the pipeline computes; its space and max_bytes are ignored. Only Create reads them. */
    const cusEventDecoderOptions *decoder;
    /* 1: the sink gets batches of exactly batch_windows windows, except the last of a recording, which the flush delivers.
     * 0 (default): windows that a push completes are delivered without waiting for more; with compute CUS_DEVICE at the
     * latest by the next cusEventPipelineAdvance. */
    int whole_batches;
    /* 1: for bytes that arrive in small pieces (packets), each of which is to be a frame soon. With compute CUS_DEVICE,
     * packets of EVT2 and EVT3 of up to 4 MiB are decoded by one kernel, which reads page-locked bytes where they are and
     * sums the events of a HISTOGRAM, EVENT_DIFF (without clip_each_event) or TIME_SURFACE (EXPONENTIAL in 32F, without
     * window_times) meanwhile; the frame of a window that ends in the packet follows without a wait of the host. Frames
     * are the same, and everything else is made as with 0: larger pieces, other formats and representations, several
     * representations, windows that overlap or leave gaps, of which two end in one packet, or that a flush or Advance ends,
     * and packets with bad events. Takes the memory of two frames in 32 bits, TIME_SURFACE in 64. The host backend has no
     * such wait. Default 0 */
    int low_latency;
    uint64_t reserved[7]; /* 0: for later options */
} cusEventPipelineOptions;

/* Returns these defaults. */
CUS_API cusEventPipelineOptions cusEventPipelineDefaults(void);

/* Makes frames from a recording that is pushed piece by piece. */
typedef struct cusEventPipeline cusEventPipeline;

/* Creates a pipeline. All memory is allocated here, whatever the length of the recording: with compute CUS_DEVICE three
 * sets of page-locked and device buffers, each for max_events events and a batch of frames. With a decoder the three
 * buffers hold 16 MiB of bytes, for HDF5 64 MiB, and one buffer on the device holds events. options NULL: defaults.
 * Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY, NO_CUDA; UNSUPPORTED: a decoder of METAVISION or HDF5 with compute
 * CUS_HOST. */
CUS_API cusStatus cusEventPipelineCreate(cusEventPipeline **pipeline, int rows, int cols,
                                         const cusRepresentation *representations, int count,
                                         const cusEventPipelineOptions *options, cusFrameSink sink, void *user);
/* Discards frames that are not delivered: flush first. NULL is ignored. Waits for the device. */
CUS_API void cusEventPipelineDestroy(cusEventPipeline *pipeline);

/* Adds the next events of the recording, any number of them, in host memory; the arrays may be reused when the call
 * returns. Upload, computation, download and the sink overlap. Large pieces in page-locked memory are uploaded directly;
 * others are copied to the pipeline's buffers first. Windows may span pieces. t is required if windows are by duration or a
 * representation uses times.
 * Errors that change nothing: NULL; SPACE; VALUE if an array is not aligned to its elements. Errors after which every
 * further call returns the same: VALUE if times decrease (by duration; the events before that are processed); CAPACITY if a
 * window by duration that must be buffered has more than max_events events, or if more than max_gap windows in a row are
 * empty and one of them is to be made (the events before them are processed); any status of the sink. */
CUS_API cusStatus cusEventPipelinePush(cusEventPipeline *pipeline, const cusEventArrays *events);

/* Adds the next bytes of the recording, any number of them, in host memory, for a pipeline with a decoder. They may be
 * reused when the call returns. With compute CUS_DEVICE the bytes, 2 to 4 an event (HDF5: 3 to 8), are uploaded instead of
 * events, which take 13; bytes in page-locked memory directly. HDF5 is fastest in pieces of 64 MiB. The frames are the same
 * as if the events were pushed. The call returns when the events are known; the frames of the last windows may not be
 * finished yet, as after cusEventPipelinePush.
 * Errors: NULL; VALUE: the pipeline takes events. Those of cusEventPipelinePush except of decreasing times; in CAPACITY a
 * window by duration may have up to 64 events more. FORMAT: as for cusEventDecoderRun; the events before it are processed,
 * every further call returns the same, and cusEventPipelineFlush delivers what is complete. */
CUS_API cusStatus cusEventPipelinePushBytes(cusEventPipeline *pipeline, const void *bytes, size_t size);
/* Returns the pipeline's decoder, or NULL if it has none, to continue from a state before the first push
 * (cusEventDecoderSetState). */
CUS_API cusEventDecoder *cusEventPipelineDecoder(cusEventPipeline *pipeline);

/* Says that no event before `time` will come, so that windows by duration that end at or before it are made and delivered
 * even if the scene is still: a live view keeps its rate. Also delivers the windows by count, or by duration if `time` is
 * past already, that are complete: with compute CUS_DEVICE a push may keep them until there are more. Events that are pushed
 * later must not be earlier. Does nothing before the first event. Errors: those of cusEventPipelinePush;
 * CAPACITY if more than max_gap windows end between the last event, or the time of the last call, and `time`. */
CUS_API cusStatus cusEventPipelineAdvance(cusEventPipeline *pipeline, int64_t time);

/* Ends the recording: makes the last windows and delivers all frames. The next push starts a new recording; the counts
 * continue.
 * Errors: as for cusEventPipelinePush, after the frames of the windows that were complete before it have been delivered;
 * TRUNCATED: the bytes ended within a word, and all frames have been delivered. */
CUS_API cusStatus cusEventPipelineFlush(cusEventPipeline *pipeline);

/* What has passed through a pipeline. */
typedef struct cusEventPipelineCounts {
    uint64_t events;        /* events pushed */
    uint64_t windows;       /* windows delivered */
    uint64_t skipped;       /* as cusEventStackerSkipped, over all windows delivered or queued */
    cusEventCounts decoded; /* with a decoder: of this recording, or the last one after a flush */
    int64_t last_time;      /* windows by duration: time of the last event pushed; -1: none, or after a flush */
    int complete;           /* 1: all windows up to end_window are queued; more events change nothing */
    uint64_t reserved[7];   /* 0: for later fields */
} cusEventPipelineCounts;

/* Counts since creation. On the device waits for queued work. Errors: NULL, CUDA. */
CUS_API cusStatus cusEventPipelineQuery(cusEventPipeline *pipeline, cusEventPipelineCounts *counts);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTS_H */
