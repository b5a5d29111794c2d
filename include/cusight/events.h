/* cusight/events.h: stacked frames from an event camera.
 *
 * Events are a structure of arrays; windows cut them into stacks; each stack becomes one frame in one or several
 * representations. cusEventStack does it for events that are in memory, on the CPU or the GPU; the event stream does it for
 * a recording of any length that comes in pieces, in fixed memory. The integer representations are bit-identical on both
 * backends whatever the thread order; so is the voxel grid, as it is summed in fixed point.
 */
#ifndef CUSIGHT_EVENTS_H
#define CUSIGHT_EVENTS_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events and windows ---------------------------------------------------------------------------------------------- */

/* `count` events in four parallel arrays, all in one space. The struct owns nothing. Arrays of CUS_DEVICE events that start
 * at multiples of 16 bytes are read with vector loads; any other start works and is slower. */
typedef struct cusEventArrays {
    const uint16_t *x, *y; /* column and row; outside the frame: the event is skipped and counted */
    const uint8_t *p;      /* 0: negative (darker), anything else: positive (brighter) */
    const int64_t *t;      /* microseconds, never decreasing. May be NULL where no representation looks at the time */
    size_t count;
    cusSpace space;
} cusEventArrays;

/* Events first .. last - 1 make one stack. first == last is an empty one: a frame without events. */
typedef struct cusEventWindow {
    uint64_t first, last;
} cusEventWindow;

typedef enum cusWindowUnit {
    CUS_WINDOW_COUNT = 0,   /* length and stride are numbers of events */
    CUS_WINDOW_DURATION = 1 /* length and stride are microseconds */
} cusWindowUnit;

/* Window i covers [i * stride, i * stride + length): events by index, or by time counted from the first event. A stride
 * below the length makes windows overlap, one above it leaves gaps. A window is complete when the recording reaches its
 * end: by count when it has all its events, by duration when the last event's time is at or past its last microsecond. Of
 * the windows that are not complete the first is kept or dropped, as keep_incomplete says, and none follows it. */
typedef struct cusWindowing {
    cusWindowUnit unit;
    uint64_t length;     /* 1 or more; default 200000 events */
    uint64_t stride;     /* 0 (default): as length */
    int keep_incomplete; /* default 0: dropped */
} cusWindowing;

CUS_API cusWindowing cusWindowingDefaults(void);

/* Lists the windows of `events`: their number goes to `count`, and as many of them as fit to windows[0 .. capacity - 1],
 * which is host memory (NULL with capacity 0: just the number). CUS_ERROR_CAPACITY when they do not all fit; `count` is
 * right then. By duration the times are searched, O(windows log events); times in device memory are searched there, and
 * the call waits for `stream`. Errors: NULL, VALUE, CAPACITY, NO_MEMORY, NO_CUDA, CUDA. */
CUS_API cusStatus cusEventWindows(const cusEventArrays *events, const cusWindowing *windowing, cusEventWindow *windows,
                                  size_t capacity, size_t *count, cusStream stream);

/* ---- Representations ------------------------------------------------------------------------------------------------- */

/* What a frame shows. n events i = 0 .. n - 1 in the window, dt = t[n-1] - t[0]. Formulas and sources: docs/events.md. */
typedef enum cusRepresentationKind {
    /* 8U, 2 channels: count of events by polarity, saturating at 255; positive first. */
    CUS_REPR_HISTOGRAM = 0,
    /* Mixed-density event stacks (Nam et al. 2022), `channels` of them: channel k looks at events s_k .. n - 1, s_0 = 0,
     * s_k = s_(k-1) + floor(n / 2^k); the polarity of the pixel's last event there: 8U 255 positive, 0 negative, 128 none;
     * 8S and 32F +1, -1, 0. */
    CUS_REPR_MDES = 1,
    /* 8U, `channels` of them: the same windows, saturating count of events of either polarity. */
    CUS_REPR_MDES_COUNT = 2,
    /* 8U, 3 channels, BGR: of the pixel's last event R = 255 if positive, B = 255 if negative,
     * G = floor(255 (t[n-1] - t) / dt), 0 where dt is 0; no event: 0, 0, 0 (Tencode, Huang et al. 2023). dt below 2^56
     * us, two thousand years. */
    CUS_REPR_TENCODE = 3,
    /* 8U, 2 * channels: by polarity (positive first), `channels` time bins min(floor(channels (t - t[0]) / max(dt, 1)),
     * channels - 1); count clipped at `cutoff`. */
    CUS_REPR_STACKED_HISTOGRAM = 4,
    /* 32F, `channels` time bins: t* = (channels - 1) (t - t[0]) / max(dt, 1); each event's +-1 is split linearly between
     * the two nearest bins (Zhu et al. 2019). Weights are multiples of 2^-24 and summed as integers: the result does not
     * depend on any order and differs from real arithmetic by at most 2^-25 per event of the pixel, and one rounding to
     * float. `normalize`: then the non-zero values lose their mean and are divided by their standard deviation (unless that
     * is 0), over the whole frame; equal on both backends to 1e-5 relative. */
    CUS_REPR_VOXEL_GRID = 5,
    /* 32F, 2 channels, positive first: exp((t_last - t[n-1]) / tau) with t_last the pixel's last event of that polarity, 0
     * where there is none; within 1 unit in the last place. */
    CUS_REPR_TIME_SURFACE = 6,
    /* 8S, 1 channel: positive events minus negative ones, clipped to -128..127 at the end. */
    CUS_REPR_EVENT_DIFF = 7
} cusRepresentationKind;

typedef struct cusRepresentation {
    cusRepresentationKind kind;
    int channels;      /* MDES, MDES_COUNT: 1..16, default 10. STACKED_HISTOGRAM: bins, 1..16, default 10. VOXEL_GRID: bins,
                      1..16, default 5. Others: not looked at */
    int depth;         /* MDES: CUS_8U (default), CUS_8S or CUS_32F */
    int swap_channels; /* HISTOGRAM, STACKED_HISTOGRAM, TIME_SURFACE: negative first. TENCODE: RGB. Default 0 */
    int cutoff;        /* STACKED_HISTOGRAM: 1..255, default 255 */
    int normalize;     /* VOXEL_GRID: default 0 */
    double tau;        /* TIME_SURFACE: microseconds, above 0, default 50000 */
} cusRepresentation;

CUS_API cusRepresentation cusRepresentationDefaults(cusRepresentationKind kind);

/* The element type of its frames, CUS_8UC2 and so on. Errors: NULL, VALUE, TYPE. */
CUS_API cusStatus cusRepresentationType(const cusRepresentation *representation, int *type);

/* "histogram", "mdes", "mdes_count", "tencode", "stacked_histogram", "voxel_grid", "time_surface", "event_diff"; NULL for a
 * number that is none of them. */
CUS_API const char *cusRepresentationName(cusRepresentationKind kind);

/* ---- Events in memory ------------------------------------------------------------------------------------------------ */

typedef struct cusEventStacker cusEventStacker;

/* Makes frames of rows x cols (1..65536 each) in `representations`, 1..8 of them, for events in `space`. Everything is
 * allocated here: on the device 128 MiB of workspace for sorted events and 16 MiB for accumulators, or one frame's where those
 * are more; on the host one frame's accumulators a thread. One object is used by one stream (or thread) at a time; different
 * objects are independent. Errors: NULL, VALUE, TYPE, SIZE, NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusEventStackerCreate(cusEventStacker **stacker, int rows, int cols, cusSpace space,
                                        const cusRepresentation *representations, int count);
CUS_API void cusEventStackerDestroy(cusEventStacker *stacker);

/* One frame for each window in each representation. windows: any order, overlapping or not, 0 <= first <= last <=
 * events->count, at most 2^31 - 2 events each; host memory, read before the call returns. frames: as many matrices as the
 * stacker has representations; each is created as needed as (window_count * rows) x cols, frame w being rows w * rows ..
 * (w + 1) * rows - 1. Frames must not overlap the events or one another. window_count 0 does nothing.
 * Ready: host at return, device when the stream has passed it. Times that do go back give unspecified values in the
 * representations that look at times, nothing worse.
 * Cost: see docs/events.md. On the device x, y and p are read, and 2 or 4 bytes an event written and read again, once for
 * HISTOGRAM and once for the others with tiles of the same size, which the bytes a pixel decide; the frames are written once
 * (VOXEL_GRID with `normalize`: read twice and written again where they are not 0). Times are read by VOXEL_GRID and
 * TIME_SURFACE; the others look at few of them. Windows of tens of millions of events take a slower way, and so does the whole
 * list that has one.
 * Errors: NULL, VALUE, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY. */
CUS_API cusStatus cusEventStack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                                size_t window_count, cusMat *frames, cusStream stream);

/* How many events lay outside the frame and were skipped, summed over all windows since the stacker was made (an event in
 * two windows counts twice). Waits for `stream` (device); the counting itself does not. Errors: NULL, CUDA. */
CUS_API cusStatus cusEventStackerSkipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream);

/* ---- Recordings of any length, in pieces ----------------------------------------------------------------------------- */

/* What the sink gets: `count` consecutive windows and their frames. Valid until the sink returns. */
typedef struct cusFrameBatch {
    const cusMat *frames; /* one matrix a representation, each (count * rows) x cols; host (page-locked where there
                             is a GPU) or device memory as `deliver` says */
    int representations;
    uint64_t first;                /* number of the first window in the recording, from 0 */
    size_t count;                  /* windows */
    const cusEventWindow *windows; /* their events, counted from the first event pushed */
    cusStream stream; /* device frames: ready in the order of this stream, and free again when what the sink has
                         queued there is done. Host frames: NULL, ready */
} cusFrameBatch;

/* Called in the order of the windows, from inside cusEventPipelinePush and cusEventPipelineFlush, on their thread. Anything but
 * CUS_OK stops the stream, and the call returns it. It must not call the stream. */
typedef cusStatus (*cusFrameSink)(void *user, const cusFrameBatch *batch);

typedef struct cusEventPipelineOptions {
    cusWindowing windowing;
    uint64_t
        first_window;     /* windows first_window .. end_window - 1 alone are made: a shard of a recording. Default 0, 0; */
    uint64_t end_window;  /* end_window 0: to the end */
    cusSpace compute;     /* CUS_HOST (default) or CUS_DEVICE */
    cusSpace deliver;     /* CUS_HOST (default); CUS_DEVICE with compute CUS_DEVICE only */
    size_t max_events;    /* events a window may have; buffers are sized by it. 0 (default): 4 Mi, or the windows' length by
                             count where that is more */
    size_t batch_windows; /* windows handed over together at most; 0 (default): as many as make 16 MiB of frames */
} cusEventPipelineOptions;

CUS_API cusEventPipelineOptions cusEventPipelineDefaults(void);

typedef struct cusEventPipeline cusEventPipeline;

/* Everything is allocated here and memory in use stays the same whatever the length of the recording: for CUS_DEVICE three
 * sets of page-locked and device buffers for max_events events and a batch of frames. Errors: NULL, VALUE, TYPE, SIZE,
 * NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusEventPipelineCreate(cusEventPipeline **stream, int rows, int cols,
                                         const cusRepresentation *representations, int count,
                                         const cusEventPipelineOptions *options, cusFrameSink sink, void *user);
/* Frames not yet handed over are lost: flush first. NULL is ignored. Waits for the device. */
CUS_API void cusEventPipelineDestroy(cusEventPipeline *stream);

/* The next events of the recording, in host memory, any number of them; the arrays may be reused when the call returns.
 * Upload, computing, download and the sink overlap. Large pieces in page-locked memory are uploaded from where they are;
 * small or pageable ones go through the stream's own buffers. Windows may cross pieces. t is needed by duration and where a
 * representation looks at it.
 * Errors: NULL, SPACE; VALUE when the time goes back (by duration; what came before is good); CAPACITY when a window by
 * duration has more than max_events events and has to be buffered; the sink's own. After an error other than NULL and SPACE
 * the stream takes no more pieces: every further call returns that error. */
CUS_API cusStatus cusEventPipelinePush(cusEventPipeline *stream, const cusEventArrays *events);

/* The recording ends: the last windows are made and everything is handed over. The stream then starts a new recording, as
 * if just created; skipped events go on being counted. Errors: as for the push. */
CUS_API cusStatus cusEventPipelineFlush(cusEventPipeline *stream);

typedef struct cusEventPipelineCounts {
    uint64_t events;  /* pushed */
    uint64_t windows; /* handed over */
    uint64_t skipped; /* outside the frame, as cusEventStackerSkipped, over the windows handed over or queued */
} cusEventPipelineCounts;

/* Since creation. Device: waits for what is queued. Errors: NULL, CUDA. */
CUS_API cusStatus cusEventPipelineQuery(cusEventPipeline *stream, cusEventPipelineCounts *counts);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTS_H */
