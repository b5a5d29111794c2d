/* cusight/eventio.h: recordings of event cameras in and out, and events made from video. Host only.
 *
 * Events travel as a structure of arrays in host memory: x, y uint16 (pixels), p uint8 (0 negative, 1 positive), t int64
 * (microseconds, 0 or later, never decreasing). Every function is finished when it returns.
 *
 * What a file is, its first bytes decide, never its name:
 *
 *   format              how it is known                              sensor size                 count  polarity
 *   CUS_EVENTS_M3ED     HDF5 with /prophesee/<camera>/{x,y,p,t}      calib/resolution, 1280x720  known  0 or -1; 1
 *   CUS_EVENTS_DSEC     HDF5 with /events/{x,y,p,t}; /t_offset is    640x480                     known  0 or -1; 1
 *                       added to t
 *   CUS_EVENTS_EVT2     Prophesee RAW: "% " lines with "evt 2.0"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_EVT3     Prophesee RAW: "% " lines with "evt 3.0"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_DAT      "% " lines, a type byte, a size byte of 8    Width and Height lines      known  0; 1
 *   CUS_EVENTS_TEXT     lines "t x y p"; t with a dot or exponent    first line "width height"   no     0 or -1; 1
 *                       is seconds (rounded), else microseconds
 *
 * Formats by their makers' descriptions: M3ED (Chaney et al. 2023), DSEC (Gehrig et al. 2021), Prophesee's pages on RAW EVT
 * 2.0, EVT 3.0 and DAT. Time counters that wrap (EVT2 after 4.8 hours, EVT3 after 16.8 seconds, DAT after 71.6 minutes)
 * are carried on; an index or time in this interface is always that of the whole recording.
 *
 * Memory in use does not grow with the recording, apart from 64 bytes for every million events passed in a format without
 * an index. Nothing that a file claims about itself is allocated before the bytes that justify it are there.
 */
#ifndef CUSIGHT_EVENTIO_H
#define CUSIGHT_EVENTIO_H

#include "events.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cusEventFormat {
    CUS_EVENTS_ANY = 0, /* by content */
    CUS_EVENTS_M3ED = 1,
    CUS_EVENTS_DSEC = 2,
    CUS_EVENTS_EVT2 = 3,
    CUS_EVENTS_EVT3 = 4,
    CUS_EVENTS_DAT = 5,
    CUS_EVENTS_TEXT = 6
} cusEventFormat;

/* "M3ED", "DSEC", "EVT2", "EVT3", "DAT", "text"; never NULL. */
CUS_API const char *cusEventFormatName(cusEventFormat format);

/* ---- Reader ---------------------------------------------------------------------------------------------------------- */

/* What to do with an event outside the sensor, with a polarity that is none, or earlier than the one before it. */
typedef enum cusBadEvents {
    CUS_BAD_EVENTS_STOP = 0, /* CUS_ERROR_FORMAT with the event's index; those before it are delivered */
    CUS_BAD_EVENTS_SKIP = 1  /* left out and counted in cusEventCounts; so are undefined words of EVT2 and EVT3
                                and lines of text that are none */
} cusBadEvents;

typedef struct cusEventReaderOptions {
    int width, height;       /* 0, 0: from the file. Otherwise this is the sensor, whatever the file says; 1..65536 */
    const char *camera;      /* M3ED: "left" or "right"; NULL is "left", or the only one there */
    cusEventFormat format;   /* ANY: by content. EVT2, EVT3: also for a RAW file whose header does not name its encoding.
                                Any other: an error where the file is not of that format */
    cusBadEvents bad_events; /* default STOP */
    int threads;             /* that decompress HDF5 chunks; 0: as many as OpenMP has */
} cusEventReaderOptions;

CUS_API cusEventReaderOptions cusEventReaderDefaults(void);

typedef struct cusEventInfo {
    cusEventFormat format;
    int width, height;  /* 0, 0 where neither the file nor the options say: coordinates are then not checked */
    int64_t count;      /* events in the file; -1 where only reading to the end can tell */
    int64_t first_time; /* microseconds; -1 where there is no event */
    int64_t last_time;  /* -1 where only reading to the end can tell */
    char camera[32];    /* M3ED: the camera read; else what the header says of the camera, "" where nothing */
} cusEventInfo;

/* What was met since the reader was opened or last sought. */
typedef struct cusEventCounts {
    uint64_t events;                                  /* delivered */
    uint64_t triggers_rising, triggers_falling;       /* external trigger words (EVT2, EVT3) */
    uint64_t bad_coordinates, bad_polarity, bad_time; /* left out with CUS_BAD_EVENTS_SKIP */
    uint64_t untimed;                                 /* EVT2, EVT3: left out because no time word came before them */
    uint64_t bad_words;                               /* undefined words and lines, passed over with CUS_BAD_EVENTS_SKIP */
} cusEventCounts;

typedef struct cusEventReader cusEventReader;

/* Opens a recording; the caller reads cusEventReaderInfo and then pieces. One reader is used by one thread at a time,
 * different readers are independent. `options` NULL: defaults. Errors:
 *   NULL, VALUE (options), NO_MEMORY;
 *   IO: not there, not readable, or no regular file (a directory, a pipe, a device);
 *   FORMAT: empty, none of the formats, or not what its header says;
 *   TRUNCATED: ends before the first event could be found;
 *   UNSUPPORTED: HDF5 in a build without it; an HDF5 filter that is not installed (the message names the package that
 * brings it); an encoding that is known but not read (EVT 2.1, EVT 4, DAT version 1). */
CUS_API cusStatus cusEventReaderOpen(cusEventReader **reader, const char *path, const cusEventReaderOptions *options);

/* The same from a whole file in memory, which must stay until the reader is closed. */
CUS_API cusStatus cusEventReaderOpenMemory(cusEventReader **reader, const void *data, size_t size,
                                           const cusEventReaderOptions *options);

/* Safe on NULL. */
CUS_API void cusEventReaderClose(cusEventReader *reader);

CUS_API cusStatus cusEventReaderInfo(const cusEventReader *reader, cusEventInfo *info);
CUS_API cusStatus cusEventReaderCounts(const cusEventReader *reader, cusEventCounts *counts);

/* Delivers the next events, up to `capacity`, into the arrays, and says in *count how many. Less than capacity only at the
 * end of the recording (0: nothing is left) or with an error. Any array may be NULL when it is not wanted.
 * Errors that the recording causes come together with the events before the break: *count is valid then, the message says
 * where the break is, and the next call gives the same error with *count 0.
 *   TRUNCATED: the file ends within an event or a chunk; FORMAT: malformed from here on; IO; NO_MEMORY; UNSUPPORTED.
 * With NULL and VALUE nothing was read. Cost: HDF5: each chunk is fetched once, decompressed straight into the arrays on
 * all threads, and checked in one pass; pieces that start and end within a chunk decompress that chunk once more. Other
 * formats: one pass on one thread. */
CUS_API cusStatus cusEventReaderRead(cusEventReader *reader, size_t capacity, uint16_t *x, uint16_t *y, uint8_t *p,
                                     int64_t *t, size_t *count);

/* The next event read is number `index` of the file: 0 is the first, and events that CUS_BAD_EVENTS_SKIP leaves out count;
 * at or past the end: the end. HDF5: one step. Others: forward from the nearest of the million-event marks made so far.
 * Errors: NULL, VALUE, and those of Read where the passed-over part is broken. */
CUS_API cusStatus cusEventReaderSeekIndex(cusEventReader *reader, int64_t index);

/* The next event read is the first with t >= time; *index, where not NULL, becomes its number. HDF5: binary search, about
 * log2(chunks) chunks are decompressed. Others: as SeekIndex. */
CUS_API cusStatus cusEventReaderSeekTime(cusEventReader *reader, int64_t time, int64_t *index);

/* ---- Writer ---------------------------------------------------------------------------------------------------------- */

typedef struct cusEventWriterOptions {
    int width, height;  /* of the sensor, 1..65536; both must be given */
    const char *camera; /* group under /prophesee: "left" or "right"; NULL is "left" */
    int chunk;          /* events in a chunk, 1024..4194304, default 40000 */
    int compress;       /* default 1: LZF */
    int threads;        /* that compress; 0: as many as OpenMP has */
} cusEventWriterOptions;

CUS_API cusEventWriterOptions cusEventWriterDefaults(void);

typedef struct cusEventWriter cusEventWriter;

/* Creates an M3ED-style HDF5 file: /prophesee/<camera>/{x,y uint16, p int8, t int64, ms_map_idx uint64},
 * calib/resolution {width, height}. It is written to `path` with ".part" appended and takes its name when it is finished,
 * so that no half-written file stands under `path`. Errors: NULL, VALUE, IO, NO_MEMORY, UNSUPPORTED (build without HDF5).
 */
CUS_API cusStatus cusEventWriterCreate(cusEventWriter **writer, const char *path, const cusEventWriterOptions *options);

/* Appends n events. A rejected call has written nothing: VALUE names the first event that is outside the sensor, has p
 * other than 0 and 1, or a time that is negative, earlier than the one before or past 2^40 us (12 days; ms_map_idx has an
 * entry for every millisecond from 0). After IO the file cannot be finished. */
CUS_API cusStatus cusEventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y,
                                      const uint8_t *p, const int64_t *t);

/* Writes what is left and the index, renames the file and frees the writer, whatever the status. */
CUS_API cusStatus cusEventWriterFinish(cusEventWriter *writer);
/* Frees the writer and removes the unfinished file. Safe on NULL. */
CUS_API void cusEventWriterDiscard(cusEventWriter *writer);

/* ---- Frames in HDF5 --------------------------------------------------------------------------------------------------- */

typedef struct cusFrameWriter cusFrameWriter;

/* Creates an HDF5 file with one dataset /frames of shape frames x rows x cols x channels, in the type's depth, a frame a
 * chunk, LZF compressed, as h5py reads it. As cusEventWriterCreate, it takes its name when it is finished. Errors: NULL,
 * VALUE, TYPE, SIZE (a frame of 2^32 bytes or more), IO, NO_MEMORY, UNSUPPORTED. */
CUS_API cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type);

/* Appends the frames in `frames`, a host matrix of n * rows rows. Errors: NULL, TYPE, SIZE, SPACE, NO_MEMORY, IO. */
CUS_API cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames);

/* Both free the writer. Finish: the file is complete. Discard (safe on NULL): there is none. */
CUS_API cusStatus cusFrameWriterFinish(cusFrameWriter *writer);
CUS_API void cusFrameWriterDiscard(cusFrameWriter *writer);

/* ---- Generator ------------------------------------------------------------------------------------------------------- */

/* Events from video, so that everything here can be tried without an event camera. Each pixel keeps a reference level; when
 * the log intensity, taken as linear in time from one frame to the next, moves away from it by a threshold, the pixel emits
 * an event at the moment of the crossing and the reference moves by the threshold; this repeats until it is less than one
 * threshold away. Log intensity of a value v: ln(v), below 20 the straight line from (0, 0) to (20, ln 20), as dark values
 * are mostly noise. Levels are integers in units of 2^-16, so the result is the same on every machine.
 * Method: ESIM (Rebecq et al. 2018); lin-log scale of v2e (Hu et al. 2021), without its noise model. */
typedef struct cusEventGeneratorOptions {
    double positive, negative; /* contrast thresholds in log intensity, 0.01..10, default 0.2 */
} cusEventGeneratorOptions;

CUS_API cusEventGeneratorOptions cusEventGeneratorDefaults(void);

typedef struct cusEventGenerator cusEventGenerator;

/* rows, cols: 1..65536. Errors: NULL, VALUE, NO_MEMORY. */
CUS_API cusStatus cusEventGeneratorCreate(cusEventGenerator **generator, int rows, int cols,
                                          const cusEventGeneratorOptions *options);
/* Safe on NULL. */
CUS_API void cusEventGeneratorDestroy(cusEventGenerator *generator);

/* Takes the next frame (8UC1, host, any row step) and its time in microseconds, later than the frame before. *events become
 * those with t in (time of the frame before, time], in arrays of the generator that are valid until its next call, sorted
 * by t; at one t by row, column, and order of crossing. The first frame sets the references and makes none. The object's
 * arrays grow when a frame makes more events than any before. Errors: NULL, TYPE, SIZE, SPACE, VALUE (time), NO_MEMORY.
 * Cost: one pass over the frame and three over its events. */
CUS_API cusStatus cusEventGeneratorPush(cusEventGenerator *generator, const cusMat *frame, int64_t time,
                                        cusEventArrays *events);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTIO_H */
