/* Frames of a whole recording: open, next, close. The library reads ahead on threads of its own, decodes where that is
 * fastest, and makes the frames of cusight/events.h, batch by batch, in memory that does not grow with the recording.
 *
 *   cusRepresentation histogram = cusRepresentationDefaults(CUS_REPR_HISTOGRAM);
 *   cusEventFrames *frames;
 *   cusFrameBatch batch;
 *   CUS_TRY(cusEventFramesOpen(&frames, "run.raw", NULL, &histogram, 1, NULL));
 *   cusStatus status;
 *   while ((status = cusEventFramesNext(frames, &batch)) == CUS_OK && batch.count)
 *       use(&batch);
 *   cusEventFramesClose(frames);
 *
 * For live data, which come in pieces, see cusEventPipeline; for external triggers, a cusEventReader of their own. */
#ifndef CUSIGHT_EVENTFRAMES_H
#define CUSIGHT_EVENTFRAMES_H

#include "eventio.h"
#include "events.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUS_ALL_DEVICES = -1 }; /* as a number of devices */

/* Which frames to make. */
typedef struct cusEventFramesOptions {
    cusWindowing windowing; /* default cusWindowingDefaults() */
    int rows, cols;         /* size of a frame, 1..65536; 0, 0 (default): the sensor's */
    cusSpace compute;       /* CUS_HOST (default) or CUS_DEVICE: the calling thread's current device */
    cusSpace deliver;       /* CUS_HOST (default), or CUS_DEVICE if compute is CUS_DEVICE */
    /* Windows of a batch, 1..4096; the last has what is left. 0 (default): 16 MiB of frames, or less */
    size_t batch_windows;
    /* Only windows first_window .. end_window - 1 are made, counted from the first event that is read. Default 0 */
    uint64_t first_window;
    uint64_t end_window; /* default 0: no end */
    int64_t from;        /* only events with t >= from, microseconds; windows count from the first. Default INT64_MIN */
    int64_t to;          /* only events with t < to, microseconds. Default INT64_MAX */
    /* NULL (default), or what decides which events stay and moves them; read by Open only */
    const cusEventFilterOptions *filter;
    size_t max_events; /* as for cusEventPipelineOptions, default 0 */
    uint64_t max_gap;  /* likewise, default 0 */
    /* Only the windows of shard number `shard`, 0 .. shards - 1, of `shards` (up to 2^20) about equal parts of the
     * recording. All shards one after the other are the windows of the whole, whoever makes them; a shard may have
     * none. Default 0, 0: all windows. Not with first_window and end_window */
    uint64_t shard;
    uint64_t shards; /* see shard */
    /* The `device_count` devices that make frames side by side, of which some may be equal; read by Open only. NULL
     * (default): devices 0 .. device_count - 1. Only with compute CUS_DEVICE */
    const int *devices;
    /* How many devices, up to 64; with compute CUS_HOST, how many threads decode. 0 (default): the calling thread's
     * device alone; CUS_ALL_DEVICES: all there are, without `devices` */
    int device_count;
    uint64_t reserved[4]; /* 0: for later options */
} cusEventFramesOptions;

/* Returns these defaults. */
CUS_API cusEventFramesOptions cusEventFramesDefaults(void);

/* Finds this process's shard, and the number of shards, if a launcher has started one process for each: a job array of
 * Slurm (SLURM_ARRAY_TASK_ID), MPI (OMPI_COMM_WORLD_RANK, PMI_RANK), a step of Slurm (srun: SLURM_PROCID), or MPI or a
 * step within an array. Errors: NULL; VALUE: there is no launcher, or its numbers do not fit. */
CUS_API cusStatus cusEventFramesLauncherShard(uint64_t *shard, uint64_t *shards);

/* The frames of one recording. */
typedef struct cusEventFrames cusEventFrames;

/* Opens the recording at `path` (`reader`: how to read it; NULL: defaults) for frames in `count` (1..8)
 * representations. Reading starts at once, on two threads. options NULL: defaults. All memory is allocated here: that
 * of a cusEventPipeline and three pieces of the recording. A piece has up to 16 MiB if the pipeline decodes the
 * recording's bytes: EVT2, EVT2.1, EVT3, EVT4 and DAT without a filter, from and to, and on a device, with 32 MiB, also
 * HDF5 that a cusEventDecoder can decode. Otherwise it has 2^18 events.
 * With shards, Open finds where the shard begins. Its windows are those that begin in its part of the bytes (of HDF5
 * and packets: of the events), and it decodes nothing before that part, but scans all words up to the part's end, on
 * all threads (cusEventReaderScan): N shards together N / 2 times the recording. Only with a filter, from, to or
 * CUS_BAD_EVENTS_SKIP, where events have no fixed numbers, are the shards of equal numbers of events or of equal time;
 * each then decodes the recording once to count them and again up to its part's end. Damage is reported by the first
 * shard whose windows end there; those of later shards are not part of the whole then.
 * Several devices make the same frames, and give the same errors, as one. Each has two threads, and room for 256 MiB of
 * frames instead of three batches, or more (128 MiB if `deliver` is CUS_HOST, 48 if compute is, too). Another thread
 * scans the words ahead, on all threads of the host, for places where some batches begin, which go to whichever device
 * is free; later passes know the places (in up to 8 MiB). Only EVT2, EVT2.1, EVT3, EVT4 and DAT have such places,
 * without a filter, from, to and CUS_BAD_EVENTS_SKIP, from their first event or a shard's on; the first device makes
 * all frames of other recordings, and of those of less than 1 MiB a device.
 * Errors: those of cusEventReaderOpen and cusEventPipelineCreate; VALUE: shard, devices; SIZE: the recording does not
 * have the sensor's size, and neither do the options. */
CUS_API cusStatus cusEventFramesOpen(cusEventFrames **frames, const char *path, const cusEventReaderOptions *reader,
                                     const cusRepresentation *representations, int count,
                                     const cusEventFramesOptions *options);
/* Does the same with an open reader, from the event that it would read next. Until cusEventFramesClose nothing else may
 * use the reader. */
CUS_API cusStatus cusEventFramesOpenReader(cusEventFrames **frames, cusEventReader *reader,
                                           const cusRepresentation *representations, int count,
                                           const cusEventFramesOptions *options);

/* Waits for the next batch, in window order; batch->count 0: there are no more. A batch is valid until the next call
 * for the same object; frames on a device, batch->device, are ready in the order of batch->stream, where the library
 * waits for work that the caller has queued there before it uses their memory again; frames of later batches may be
 * queued before it. One call at a time may use an object (else BUSY), from any thread; different objects, two on one
 * device too, are independent.
 * If the recording is damaged, all windows that are complete before the damage come first; then this and every further
 * call returns the error. Errors: NULL, BUSY; those of cusEventReaderRead, cusEventPipelinePush and ...PushBytes;
 * CANCELLED; VALUE: called in a child process, where fork() leaves the object without its threads. */
CUS_API cusStatus cusEventFramesNext(cusEventFrames *frames, cusFrameBatch *batch);

/* Starts again with the first window, in the same memory. The end, damage and other errors are forgotten; counts start
 * at 0. Several devices do not scan again after a complete pass. cusEventReaderOptions.pin_file saves reading, too.
 * Errors: NULL, BUSY, CANCELLED, those of cusEventReaderOpen; VALUE in a child process. */
CUS_API cusStatus cusEventFramesRestart(cusEventFrames *frames);

/* Makes a cusEventFramesNext that waits in another thread return CANCELLED, as all later ones do, within a piece of the
 * recording: milliseconds. May be called at any time before cusEventFramesClose. NULL is ignored. */
CUS_API void cusEventFramesCancel(cusEventFrames *frames);

/* Returns what the recording says. Errors: NULL. */
CUS_API cusStatus cusEventFramesInfo(const cusEventFrames *frames, cusEventInfo *info);

/* What has passed. */
typedef struct cusEventFramesCounts {
    uint64_t windows; /* given by cusEventFramesNext so far */
    uint64_t events;  /* up to the end of the last window; after the end: all in from .. to that the filter has kept */
    /* Read so far, ahead of the windows; of HDF5 only its chunks. 0 if it is read as events */
    uint64_t bytes;
    uint64_t size;       /* the whole recording; 0 if it is read as events */
    uint64_t skipped;    /* after the end, otherwise 0: events outside the frame, as cusEventStackerSkipped */
    cusEventCounts read; /* events: read so far, ahead of the windows. Bytes: after the end, otherwise 0 */
    /* Windows first_window .. end_window - 1 are made, by the options or for the shard. end_window 0: to the end */
    uint64_t first_window;
    uint64_t end_window;  /* see first_window */
    int64_t last_time;    /* windows by duration, after the end: time of the last event; otherwise -1 */
    uint64_t reserved[6]; /* 0: for later fields */
} cusEventFramesCounts;

/* Returns the counts, also while cusEventFramesNext runs, whose count 0 or error is the end. Errors: NULL. */
CUS_API cusStatus cusEventFramesQuery(cusEventFrames *frames, cusEventFramesCounts *counts);

/* Ends the threads and frees what Open allocated, the last batch included. Safe on NULL. Does nothing in a child
 * process of fork(). */
CUS_API void cusEventFramesClose(cusEventFrames *frames);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTFRAMES_H */
