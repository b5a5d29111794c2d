/* cusight/eventio.h: reads and writes recordings of event cameras. Host only. Events from video: cusight/eventgen.h.
 *
 * Events are a structure of arrays in host memory: x, y uint16 (pixels), p uint8 (0 negative, 1 positive), t int64
 * (microseconds, not negative, never decreasing). Every function has finished when it returns.
 *
 * The format of a file is detected from its content, never from its name:
 *
 *   format              content                                      sensor size                 count  polarity
 *   CUS_EVENTS_M3ED     HDF5 with /prophesee/<camera>/{x,y,p,t}      calib/resolution, 1280x720  known  0 or -1; 1
 *   CUS_EVENTS_DSEC     HDF5 with /events/{x,y,p,t}; /t_offset is    640x480                     known  0 or -1; 1
 *                       added to t
 *   CUS_EVENTS_HDF5     HDF5 with /events/{xs,ys,ps,ts} (e2vid,      attribute sensor_resolution known  0 or -1; 1
 *                       event_utils) or {x,y,pol,time} and the like
 *   CUS_EVENTS_MVSEC    HDF5 with /davis/<camera>/events: x y t p    346x260                     known  0 or -1; 1
 *   CUS_EVENTS_METAVISION   HDF5 with /CD/events, compressed with    attribute geometry          known  0; 1
 *                       ECF, gzip or not
 *   CUS_EVENTS_EVT2     Prophesee RAW: "% " lines with "evt 2.0"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_EVT21    Prophesee RAW: "% " lines with "evt 2.1"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_EVT3     Prophesee RAW: "% " lines with "evt 3.0"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_EVT4     Prophesee RAW: "% " lines with "evt 4.0"     geometry line, or camera    no     0; 1
 *   CUS_EVENTS_DAT      "% " lines, a type byte, a size byte of 8    Width and Height lines      known  0; 1
 *   CUS_EVENTS_AEDAT4   iniVation: "#!AER-DAT4.0"; packets not       sizeX, sizeY of the stream  known* 0; 1
 *                       compressed, or by LZ4 or zstd
 *   CUS_EVENTS_BAG      ROS 1: "#ROSBAG V2.0"; chunks not            height, width of a message  no     0; 1
 *                       compressed, or by LZ4 or bzip2
 *   CUS_EVENTS_MCAP     ROS 2 (CDR) and ROS 1; chunks not            height, width of a message  no     0; 1
 *                       compressed, or by LZ4 or zstd
 *   CUS_EVENTS_TEXT     lines "t x y p"; Metavision's "x,y,p,t" and  first line "width height",  no     0 or -1; 1
 *                       other orders with x before y; t with a dot   "%geometry:W,H" or names
 *                       or exponent is seconds (rounded), else microseconds
 *
 * (*) AEDAT4 that was not closed has no table of its packets; its count is not known.
 *
 * Bags and MCAP: messages of dvs_msgs/EventArray (prophesee_event_msgs/EventArray has the same fields) and of
 * event_camera_msgs/EventPacket in the encodings evt3, mono, libcaer and trigger of event_camera_codecs. Nanoseconds are
 * cut to microseconds. Times are what the messages say: of the camera's clock in evt3, of ROS in the others.
 *
 * Times in HDF5 are microseconds if they are integers, and seconds if they are floats (rounded). x, y and p may be floats
 * as well, p also a boolean.
 *
 * Columns of text are separated by spaces, tabs, commas or semicolons. A first line of names (t, ts, time or timestamp; x;
 * y; p, pol, polarity or on; with the sensor's size "x@1280" and "y@720") gives their order. Without one, the first lines
 * decide: times do not decrease, polarities are -1, 0 or 1. If several orders remain, it is "t x y p".
 *
 * The formats follow their authors: M3ED (Chaney et al. 2023), DSEC (Gehrig et al. 2021), Prophesee's documentation of RAW
 * EVT 2.0, EVT 2.1, EVT 3.0, EVT 4.0 and DAT; iniVation's AEDAT 4.0, ROS and the MCAP specification. Time counters wrap
 * (EVT2, EVT2.1 and EVT4 after 4.8 hours, EVT3 after 16.8 seconds, DAT after 71.6 minutes); they are unwrapped, so indices
 * and times in this interface always refer to the whole recording.
 *
 * Memory use does not grow with the recording, apart from 88 bytes for every million events passed in a format without an
 * index; the index of AEDAT4, bags and MCAP has at most 8 MiB. Sizes claimed by a file are not allocated before the file is
 * known to have data for them, and never beyond cusEventReaderOptions.max_memory.
 */
#ifndef CUSIGHT_EVENTIO_H
#define CUSIGHT_EVENTIO_H

#include "eventgen.h"
#include "raw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reader -------------------------------------------------------------------------------------------------------- */

/* How to read a recording. */
typedef struct cusEventReaderOptions {
    int width, height;     /* sensor, 1..65536: overrides the file. 0, 0: from the file */
    const char *camera;    /* 1 to 31 characters. M3ED, MVSEC: "left" or "right"; NULL: "left", or the only one in the file.
                              AEDAT4: the camera's name or the stream's number. BAG, MCAP: the topic, or one or more of its
                              parts: "left" finds "/dvs/left/events". NULL: the first with events */
    cusEventFormat format; /* ANY: from the content. EVT2, EVT21, EVT3, EVT4: also for a RAW file whose header does not name
                                its encoding. Otherwise: an error if the file has another format */
    cusBadEvents bad_events; /* default STOP */
    int threads;             /* threads that decompress HDF5 chunks, 0..1024; 0: as many as OpenMP uses */
    size_t max_memory;       /* bytes that a reader may use, whatever the file claims; 0: 2^30 (the default), otherwise
                                at least 2^26. CUS_ERROR_CAPACITY if a recording needs more */
    size_t max_chunk;        /* bytes of a chunk of HDF5, BAG or MCAP, or a packet of AEDAT4, decompressed, up to 2^32 - 1;
                                0: 2^26 (the default). Larger ones: CUS_ERROR_CAPACITY, as are BAG, MCAP and AEDAT4 that
                                decompress to more than 1100 times their size and max_chunk */
    int plugins;             /* reserved: 0 */
    /* 1: the file is mapped and pinned until the reader is closed, so that cusEventFrames of a GPU read it straight
     * from the page cache: for several passes, since pinning takes as long as reading. max_memory must be at least its
     * size. EVT2, EVT2.1, EVT3, EVT4 and DAT, from a file; a GPU is needed. Default 0 */
    int pin_file;
    uint64_t reserved[8]; /* 0: for later options */
} cusEventReaderOptions;

/* Returns these defaults. */
CUS_API cusEventReaderOptions cusEventReaderDefaults(void);

/* What is known about a recording. */
typedef struct cusEventInfo {
    cusEventFormat format; /* as detected */
    int width, height;     /* 0, 0 if neither the file nor the options give them: coordinates are then not checked */
    int64_t count;         /* events in the file; -1 if it is only known after reading all of it */
    int64_t first_time;    /* microseconds; -1 if there is no event */
    int64_t last_time;     /* -1 if it is only known after reading all of it, or before first_time */
    char camera[32];       /* M3ED, MVSEC, AEDAT4: the camera being read, as it can be asked for; BAG, MCAP: the topic, if
                              longer without its first parts; otherwise the camera named in the header, or "" */
    uint64_t start;        /* RAW, DAT and text: the byte at which the events start; others: 0 */
    int legacy;            /* EVT2.1: 1 if the upper half of each word comes first, as for cusEventDecoderOptions */
    uint64_t reserved[8];  /* 0: for later fields */
} cusEventInfo;

/* An open recording. */
typedef struct cusEventReader cusEventReader;

/* Opens a recording for cusEventReaderInfo and cusEventReaderRead. One call at a time may use a reader (else BUSY);
 * other readers are independent. `options` NULL: defaults. Errors:
 *   NULL, VALUE (options), NO_MEMORY;
 *   IO: missing, not readable, or not a regular file (a directory, a pipe, a device);
 *   FORMAT: empty, of an unknown format, not what its header says, or HDF5 with a dataset of the recording outside the file
 *   (soft or external link, external storage, virtual dataset), which is never opened;
 *   TRUNCATED: ends before the first event could be found;
 *   CAPACITY: needs more than max_memory or max_chunk, which the message names;
 *   UNSUPPORTED: pin_file of memory or another format; NO_CUDA, CUDA: pin_file without a GPU, or where it cannot pin;
 *   UNSUPPORTED: a dataset with more than one compression; another HDF5 filter than deflate, LZF, Blosc, LZ4, zstd, ECF,
 *   shuffle and fletcher32 (the message names it, and h5repack, which replaces it); an encoding that is known but not
 *   supported (AEDAT before 4.0, big-endian EVT 2.1, DAT version 1, other encodings of event_camera_msgs); data compressed
 *   by a library that this build lacks. */
CUS_API cusStatus cusEventReaderOpen(cusEventReader **reader, const char *path, const cusEventReaderOptions *options);

/* Opens a whole file in memory, which must stay valid until the reader is closed. */
CUS_API cusStatus cusEventReaderOpenMemory(cusEventReader **reader, const void *data, size_t size,
                                           const cusEventReaderOptions *options);

/* Safe on NULL. */
CUS_API void cusEventReaderClose(cusEventReader *reader);

/* Returns what the file says. Errors: NULL. */
CUS_API cusStatus cusEventReaderInfo(const cusEventReader *reader, cusEventInfo *info);
/* Returns what has been read. Errors: NULL, BUSY. */
CUS_API cusStatus cusEventReaderCounts(const cusEventReader *reader, cusEventCounts *counts);

/* Reads the next events, up to `capacity`, into the arrays, and sets *count. It is less than capacity only at the end of
 * the recording (0: no event is left) or with an error. Pass NULL for arrays that you do not need.
 * If the recording is damaged, the events before the damage are delivered together with the error: *count is valid then,
 * the message says where the damage is, and the next call returns the same error with *count 0.
 *   TRUNCATED: the file ends within an event or a chunk, or has become shorter since it was opened; FORMAT: malformed from
 *   here on; CAPACITY: max_memory; IO; NO_MEMORY.
 * After NULL or VALUE nothing has been read. Cost: HDF5: each chunk is fetched once, decompressed straight into the arrays
 * on all threads, and checked in one pass; a chunk that a call starts or ends within is decompressed once more. Other
 * formats: one pass on one thread, which decompresses each packet or chunk once. */
CUS_API cusStatus cusEventReaderRead(cusEventReader *reader, size_t capacity, uint16_t *x, uint16_t *y, uint8_t *p,
                                     int64_t *t, size_t *count);

/* The next event read will be number `index` of the file: 0 is the first, and events skipped by CUS_BAD_EVENTS_SKIP count;
 * an index at or past the end means the end. HDF5: one step. AEDAT4 with its table: one packet. Other formats: decodes
 * forward from the nearest checkpoint, made at every million events so far (BAG, MCAP: before a chunk, every 65536 events).
 * Errors: NULL, VALUE, and those of Read if the part passed over is damaged. */
CUS_API cusStatus cusEventReaderSeekIndex(cusEventReader *reader, int64_t index);

/* The next event read will be the first with t >= time; *index, unless NULL, is set to its number. HDF5: binary search,
 * which decompresses about log2(chunks) chunks. Other formats: as SeekIndex. */
CUS_API cusStatus cusEventReaderSeekTime(cusEventReader *reader, int64_t time, int64_t *index);

/* ---- Bytes, for a decoder elsewhere ---------------------------------------------------------------------------------- */

/* Returns options with which a cusEventDecoder decodes the recording, on the GPU for example, and the state to start from,
 * at the recording's first event or at the mark to which cusEventReaderSeekMark has moved since the last other seek;
 * cusEventReaderReadBytes starts there too. The options' space is CUS_HOST; chunks of HDF5 need CUS_DEVICE. A
 * cusEventPipeline takes both (cusight/events.h).
 * HDF5 goes to a decoder in chunks of up to 65535 events, if they have one filter. ECF, in all chunks: METAVISION. LZF:
 * M3ED, DSEC and HDF5 with x and y as unsigned integers of 16 bits, p of 8 and t of 32 or 64, little-endian, in chunks of
 * the same events and of the same length; the options' format is then CUS_EVENTS_HDF5, whatever the recording's is. Offsets
 * in their states are those of the bytes that cusEventReaderReadBytes gives.
 * Errors: NULL; NO_MEMORY; UNSUPPORTED: neither such HDF5 nor EVT2, EVT2.1, EVT3, EVT4 or DAT. */
CUS_API cusStatus cusEventReaderDecoder(cusEventReader *reader, cusEventDecoderOptions *options,
                                        cusEventDecoderState *state);

/* Reads the next bytes of the recording, up to `capacity`, and sets *count; it is less than capacity only at the end, or
 * with an error.
 * Reading and seeking events change nothing here. HDF5: the chunks as they are in the file, in frames (cusight/raw.h).
 * Cost: one copy, on all threads from 1 MiB on. Errors: NULL; VALUE: cusEventReaderDecoder has not been called; IO;
 * TRUNCATED: the file has become shorter; HDF5: also TRUNCATED and FORMAT if the file or its index of chunks is damaged;
 * UNSUPPORTED: a chunk behind damage in METAVISION's index is not compressed. *count then has the bytes before that. */
CUS_API cusStatus cusEventReaderReadBytes(cusEventReader *reader, size_t capacity, void *bytes, size_t *count);

/* ---- Triggers -------------------------------------------------------------------------------------------------------- */

/* Reads the next external triggers of the recording, up to `capacity`, and sets *count; it is less than capacity only at
 * the end or with an error. They are a list of their own: the first call starts at the first trigger, whatever events have
 * been read, and seeking changes nothing. Formats: EVT2, EVT2.1, EVT3 and EVT4, without triggers before the first time
 * word; Metavision (/EXT_TRIGGER/events); AEDAT4 (edges of the same camera's external signal, id 0); BAG and MCAP (in evt3,
 * and packets of triggers in the topic's folder); the others have none. Times are as stored; nothing checks their order.
 * After damage, as for cusEventReaderRead, the triggers before it are delivered together with the error, which stays until
 * the rewind. Errors: NULL and those of cusEventReaderRead; Metavision: also those of cusEventReaderOpen, if the dataset is
 * not one of triggers. Cost: RAW: one more pass over the file on one thread, 0.5 MiB of memory. AEDAT4, BAG, MCAP: one more
 * pass, with up to a quarter of max_memory. Metavision: each chunk is read once per call, with up to a quarter of
 * max_memory besides what events need. */
CUS_API cusStatus cusEventReaderReadTriggers(cusEventReader *reader, size_t capacity, cusEventTrigger *triggers,
                                             size_t *count);
/* The next trigger read will be the first of the recording. Errors: NULL. */
CUS_API cusStatus cusEventReaderRewindTriggers(cusEventReader *reader);

/* ---- One recording, many readers ----------------------------------------------------------------------------------- */

/* Splits a recording among threads or processes, each with a reader of its own that was opened with the same options. In
 * formats without an index, an event's number and time depend on everything before it. Therefore each worker first scans
 * its parts (no event is decoded: two to ten times as fast as reading; but BAG, MCAP, and AEDAT4 without its table: each
 * worker's first scan reads the whole recording to count its events). Then all summaries are joined, and each worker starts
 * at a mark:
 *
 *   for (k = my first part; k < my last part; ++k)
 *       CUS_TRY(cusEventReaderScan(reader, k, parts, &summaries[k]));
 *   ... exchange the summaries ...
 *   CUS_TRY(cusEventReaderMarks(reader, summaries, parts, marks));
 *   CUS_TRY(cusEventReaderSeekMark(reader, &marks[my first part]));
 *
 * Both structs are plain data: processes on machines of the same kind may send them to each other. */
typedef struct cusEventPart {
    uint64_t content[14]; /* the library's own; may be copied and sent as bytes */
} cusEventPart;

/* A place in a recording from which a reader can continue. */
typedef struct cusEventMark {
    uint64_t offset; /* in bytes of the file; HDF5 and packets: in events. Parts of equal size take about equally long */
    uint64_t index;  /* next event, as for cusEventReaderSeekIndex; in the last mark, the number of events */
    uint64_t content[9]; /* the library's own; may be copied and sent as bytes */
} cusEventMark;

/* Summarizes part number `part` of `parts` (up to 2^32) about equal ones, up to whole words or lines. Reading continues
 * where it was. Events and lines that reading skips with CUS_BAD_EVENTS_SKIP are counted here. Cost: one pass over the
 * part; none for HDF5 and AEDAT4 with its table, which have an index; BAG, MCAP and other AEDAT4: the first call of a
 * reader reads the recording to its end. Errors: NULL, VALUE, IO. Damage is not an error here: numbers up to it are right,
 * and reading reports it. */
CUS_API cusStatus cusEventReaderScan(cusEventReader *reader, uint64_t part, uint64_t parts, cusEventPart *summary);

/* Joins the summaries of all parts in order: marks[k], k = 0 .. parts, is where part k starts; the last is the end of the
 * recording. Errors: NULL, VALUE (summaries of another recording or number of parts). */
CUS_API cusStatus cusEventReaderMarks(const cusEventReader *reader, const cusEventPart *summaries, uint64_t parts,
                                      cusEventMark *marks);

/* The next event read will be the one at the mark, with its number and time in the whole recording; SeekIndex and Read
 * continue from there. Cost: one step. Errors: NULL, VALUE. */
CUS_API cusStatus cusEventReaderSeekMark(cusEventReader *reader, const cusEventMark *mark);

/* ---- Writer -------------------------------------------------------------------------------------------------------- */

/* How to write a recording. */
typedef struct cusEventWriterOptions {
    int width, height;  /* sensor, 1..65536; EVT2, EVT3, METAVISION: ..2048; DAT: ..16384; AEDAT4: ..32768; needed */
    const char *camera; /* M3ED: group under /prophesee: "left" or "right"; NULL: "left". AEDAT4: a name; NULL: "cusight" */
    int chunk;          /* HDF5: events in a chunk, 1024..4194304 (METAVISION: 65535); 0: 40000 (16384), the default.
                           AEDAT4: events in a packet, 1024..1048576; 0: 8192 */
    int compress;       /* default 1: M3ED LZF, METAVISION ECF, AEDAT4 LZ4; 2: gzip (needs zlib), AEDAT4 zstd; 0: none */
    int threads;        /* HDF5: threads that compress, 0..1024; 0: as many as OpenMP uses */
    cusEventFormat format; /* ANY (the default): M3ED; the others that can be written: see cusEventWriterCreate */
    uint64_t reserved[8];  /* 0: for later options */
} cusEventWriterOptions;

/* Returns these defaults; width and height are 0 and must be set. */
CUS_API cusEventWriterOptions cusEventWriterDefaults(void);

/* A recording being written. */
typedef struct cusEventWriter cusEventWriter;

/* Creates a recording:
 *
 *   format       contents
 *   M3ED         HDF5: /prophesee/<camera>/{x, y uint16, p int8, t int64, ms_map_idx uint64}, calib/resolution {width,
 *                height}
 *   METAVISION   HDF5 as OpenEB writes it: /CD/events {x, y, p, t}, /CD/indexes, /EXT_TRIGGER the same, geometry
 *   EVT2, EVT3   Prophesee RAW with the lines evt, format and geometry; EVT3 uses vectors where they are shorter
 *   AEDAT4       iniVation's AEDAT 4.0 with a stream of events, one of triggers, and a table of the packets, which takes 48
 *                bytes of memory a packet
 *   DAT          Prophesee DAT, version 2
 *   TEXT         width and height, then lines "t x y p" with t in seconds, six digits; if the path ends in .csv
 *                Metavision's "%geometry:W,H" and "x,y,p,t" in microseconds
 *
 * Reading it gives the same events in the same order. The same events give the same bytes, whatever the number of threads
 * and the sizes of the calls. HDF5 needs no libhdf5. The file is written in the folder of `path` under a random name,
 * synchronized to disk and renamed when it is finished: `path` is never an incomplete file, and a previous file stays until
 * then. A symbolic link at `path` is replaced, not followed; a folder, device or pipe is IO. Errors: NULL, VALUE, IO,
 * NO_MEMORY, UNSUPPORTED (a compression that this build lacks). */
CUS_API cusStatus cusEventWriterCreate(cusEventWriter **writer, const char *path, const cusEventWriterOptions *options);

/* Appends n events. A rejected call writes nothing: VALUE names the first event that is outside the sensor, has p other
 * than 0 and 1, or a time that is negative, earlier than the one before, or later than 2^40 us (12 days; AEDAT4: 2^62 us).
 *   M3ED, METAVISION: nor more than 2^22 ms (70 minutes) and 1000 ms for each event before it after the first event: the
 *   index has an entry for every millisecond, or two.
 *   DAT: nor 2^31 us or more after the one before where the counter of 2^32 us wraps in between, and the first is below
 *   2^32 us.
 *   EVT2, EVT3: gaps of any length; time words tell how often the counter wraps, from time 0 on (EVT3: 4 bytes for 16.8 s).
 * After IO or NO_MEMORY the file cannot be finished. */
CUS_API cusStatus cusEventWriterWrite(cusEventWriter *writer, size_t n, const uint16_t *x, const uint16_t *y,
                                      const uint8_t *p, const int64_t *t);

/* Appends n external triggers to a recording of EVT2, EVT3, METAVISION or AEDAT4, in order of time, and before the events
 * that are later: each goes before the first event that is not earlier. A rejected call writes nothing: UNSUPPORTED
 * (another format); VALUE names the first trigger that is earlier than the last one or than the last event, later than
 * events may be, or whose id is not 0..31 (EVT2), 0..15 (EVT3), 0..32767 (METAVISION) or 0 (AEDAT4). METAVISION: one too
 * long after the first (as for events) is VALUE when it is written. Other errors: NULL, NO_MEMORY, IO. */
CUS_API cusStatus cusEventWriterWriteTriggers(cusEventWriter *writer, size_t n, const cusEventTrigger *triggers);

/* Writes what is left, renames the file and frees the writer, whatever the status. */
CUS_API cusStatus cusEventWriterFinish(cusEventWriter *writer);
/* Frees the writer and removes the unfinished file. Safe on NULL. */
CUS_API void cusEventWriterDiscard(cusEventWriter *writer);

/* ---- Filters ------------------------------------------------------------------------------------------------------- */

/* What a filter keeps, in this order; an event that one step drops is unknown to the next. */
typedef struct cusEventFilterOptions {
    int width, height;   /* sensor, 1..65536; events outside are dropped */
    int64_t begin, end;  /* microseconds: only events with begin <= t < end; default: all */
    uint64_t hot_events; /* hot pixels: only so many of each pixel in each hot_period; 0 (default): all */
    int64_t hot_period;  /* microseconds, from the first event on; default 1000000 */
    /* Background activity: only events with another at most so many microseconds before at one of the eight pixels around,
     * which need not be kept itself (Delbruck 2008). 0 (default): all. */
    int64_t activity;
    int x, y;                        /* upper left pixel of a region; it becomes 0, 0 */
    int region_width, region_height; /* size of the region; 0, 0 (default): the sensor's */
    int flip_x, flip_y;              /* mirror its columns, its rows; default 0 */
    /* 1..65536: then column x becomes x * grid_width / region_width, and rows likewise. 0, 0 (default): they stay */
    int grid_width;
    int grid_height;      /* see grid_width */
    uint64_t reserved[7]; /* 0: for later options */
} cusEventFilterOptions;

/* Returns these defaults; width and height are 0 and must be set. */
CUS_API cusEventFilterOptions cusEventFilterDefaults(void);

/* Filters a recording that arrives in pieces. */
typedef struct cusEventFilter cusEventFilter;

/* Creates a filter. Memory: 8 bytes a pixel for `activity`, 16 for `hot_events`. Errors: NULL, VALUE, NO_MEMORY. */
CUS_API cusStatus cusEventFilterCreate(cusEventFilter **filter, const cusEventFilterOptions *options);
/* Safe on NULL. */
CUS_API void cusEventFilterDestroy(cusEventFilter *filter);

/* Filters the next n events in place, in host memory: the first *kept are those that stay. The sizes of calls do not
 * matter. Errors that change nothing: NULL; VALUE if times decrease; BUSY. */
CUS_API cusStatus cusEventFilterRun(cusEventFilter *filter, size_t n, uint16_t *x, uint16_t *y, uint8_t *p, int64_t *t,
                                    size_t *kept);

/* ---- Frames in HDF5 ------------------------------------------------------------------------------------------------ */

/* A file of frames being written. */
typedef struct cusFrameWriter cusFrameWriter;

/* Creates an HDF5 file with one dataset, /frames, of shape frames x rows x cols x channels and the type's depth: one chunk
 * a frame, LZF compressed, readable by h5py; of any type, 16F too. Like the event writer's file it is renamed when it is
 * finished. Errors: NULL, VALUE, TYPE, SIZE (a frame of 2^32 bytes or more), IO, NO_MEMORY. */
CUS_API cusStatus cusFrameWriterCreate(cusFrameWriter **writer, const char *path, int rows, int cols, int type);

/* Appends n frames, given as one host matrix of n * rows rows. After IO or NO_MEMORY the file cannot be finished. Errors:
 * NULL, TYPE, SIZE, SPACE, NO_MEMORY, IO, BUSY. */
CUS_API cusStatus cusFrameWriterWrite(cusFrameWriter *writer, const cusMat *frames);

/* Gives /frames the attribute `part`: 1 to 63 bytes, once; cusFrameReaderOpen returns it. Errors: NULL, VALUE, IO,
 * BUSY. */
CUS_API cusStatus cusFrameWriterLabel(cusFrameWriter *writer, const char *label);

/* Both free the writer. Finish completes the file; Discard (safe on NULL) removes it. */
CUS_API cusStatus cusFrameWriterFinish(cusFrameWriter *writer);
/* See cusFrameWriterFinish. */
CUS_API void cusFrameWriterDiscard(cusFrameWriter *writer);

/* Many threads or processes can write one file of frames: each packs its frames, asks the layout where they belong, and
 * writes them there. The file is byte for byte the one that a cusFrameWriter makes of all frames in order. */

/* Packs one frame (host, any row step) as a cusFrameWriter stores it. `packed` has room for the frame; *stored is set to
 * the bytes used: those of the frame if it is incompressible. Errors: NULL, SIZE (2^32 bytes or more), SPACE, NO_MEMORY. */
CUS_API cusStatus cusFramePack(const cusMat *frame, void *packed, size_t *stored);

/* Makes an existing file at `path` an HDF5 file with /frames, as cusFrameWriterCreate describes it, but without the frames:
 * stored[k] bytes of frame k belong at offsets[k]. Those bytes of the file stay as they are; its length becomes that of the
 * whole file. `compressed` 0: one contiguous block instead of chunks; it starts at offsets[0], the only one set if there
 * are frames, always at the same byte; `stored` is ignored. Without frames both may be NULL. Nothing is synchronized to
 * disk. Errors: NULL, VALUE, TYPE, SIZE, IO, NO_MEMORY. */
CUS_API cusStatus cusFrameFileLayout(const char *path, int rows, int cols, int type, uint64_t frames, int compressed,
                                     const uint32_t *stored, uint64_t *offsets);

/* Joins files of frames without decompressing: read the stored bytes of each frame, and write them where cusFrameFileLayout
 * says. Files may come from strangers: they are read like recordings. */
typedef struct cusFrameFileInfo {
    int rows, cols, type; /* one frame */
    int compressed;       /* one chunk a frame, LZF; otherwise one block */
    uint64_t frames;      /* in the file */
    char label[64];       /* as set by cusFrameWriterLabel or cusFrameFileLabel, or "" */
    uint64_t reserved[8]; /* 0: for later fields */
} cusFrameFileInfo;

/* An open file of frames. */
typedef struct cusFrameReader cusFrameReader;

/* Opens a file that cusFrameWriter or cusFrameFileLayout made. Errors: NULL, IO, FORMAT (any other file), TRUNCATED,
 * UNSUPPORTED (HDF5 that recordings do not use), NO_MEMORY. */
CUS_API cusStatus cusFrameReaderOpen(cusFrameReader **reader, const char *path, cusFrameFileInfo *info);
/* Sets *bytes to the size of a frame as it is stored, and copies it to `stored`, which has room for a frame; NULL: the size
 * only. Errors: NULL, VALUE, IO, FORMAT, TRUNCATED, BUSY. */
CUS_API cusStatus cusFrameReaderStored(cusFrameReader *reader, uint64_t frame, void *stored, size_t *bytes);
/* Safe on NULL. */
CUS_API void cusFrameReaderClose(cusFrameReader *reader);

/* Like cusFrameWriterLabel, for a finished file of this version. Errors: NULL, VALUE, those of cusFrameReaderOpen; IO also
 * if the file has a label or no room for one. */
CUS_API cusStatus cusFrameFileLabel(const char *path, const char *label);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_EVENTIO_H */
