/* cusight/motion.h: what moves in the frames of one or many cameras: boxes, their strength and their tracks.
 *
 * A detector has 1 to 1,024 cameras of one frame size. Each step takes a frame of each camera and finds moving objects
 * against a background that it learns. Everything is computed in integers, so both backends give the same bits.
 *
 * Definition of a step of one camera. Values in units of 1/256 are said so.
 *   Luma        y of a pixel: its value (8UC1), or (29 B + 150 G + 77 R + 128) >> 8 (8UC3).
 *   Background  b, in 1/256 gray levels, 16 bits a pixel. In the first step b = 256 y. In the n-th step after it (n = 1, 2,
 *               ...) b += (w (256 y - b) + 2^14) >> 15, rounded down, after the difference is taken. w is 2^15 / 2^shift,
 *               or, with learn_us, 2^15 (time since the last frame) / learn_us within 1 .. 2^15; and at least 2^15 / (n +
 *               1), so that the background begins as a plain mean. With `ghosts` what is learned of 256 y - b is limited
 *               to -T .. T, so that things that pass leave no traces.
 *   Difference  d = |256 y - b|, in 1/256 gray levels.
 *   Moving      A watched pixel moves if d > T. T is 256 threshold or, with noise_factor, the larger of that and
 *               noise_factor times the camera's noise (at most 255 gray levels).
 *   Noise       The mean of min(d, 8191) over the watched pixels, in 1/256 gray levels; it follows the mean m of a step by
 *               noise += (m - noise + 8) >> 4, the first one at once. Only steps after the first count in which nothing is
 *               found.
 *   Sudden      If more than sudden_percent of the watched pixels move, the light or the camera has changed: the state is
 *   change      SUDDEN, nothing is found, and the next step is a first step. In the first step, and in the `warmup` steps
 *               after it, the state is LEARNING and nothing is found.
 *   Shadows     With `shadows`, a moving pixel of luma y whose background is B = (b + 128) >> 8, after the step has changed
 *               it, is shadow if y < B and 100 y >= shadows B, and the edges there are the background's:
 *               |y' B - y B'| <= 8 B for each of the up to four pixels y', B' beside, above and below. It then counts as
 *               one that does not move in all that follows.
 *   Mask        The moving pixels, eroded by a square of 2 erode + 1 pixels, then dilated by one of 2 dilate + 1 pixels.
 *               Pixels outside of the frame are ignored by both, as in OpenCV.
 *   Components  8-connected components of the mask of at least min_area pixels. Each has a box, an area, a centroid and a
 *               strength, which is the mean of d / 256, rounded down at each pixel, over its moving pixels. If there are
 *               more than CUS_MOTION_MAX_COMPONENTS, the state is CROWDED and there are no boxes.
 *   Boxes       The max_boxes largest components, sorted by area (largest first), then row, then column of the box's
 *               corner, then column of the component's first pixel. With `merge`, boxes that share a pixel become one,
 *               until none do, and are sorted again. The order of merging does not change the result.
 *               With `tight`, a component's box and first pixel are those of its moving pixels, not of the mask.
 *   Split       With `split`, a box is cut between things that stand side by side. Let n be the number of moving pixels of
 *               the mask in a column of the box, and N the largest n. A core is a longest run of columns with 100 n >=
 *               split N that is at least N / 10 columns wide (10 width >= N) and has at least min_area pixels of the mask
 *               in the box. Between two cores, of which one ends before column u and the next one begins with column v,
 *               the box is cut before column (u + v) / 2, rounded down. A box that is cut is replaced by its slices, from
 *               left to right: boxes, as of a component, of the mask's pixels that the box has in their columns. Boxes in
 *               excess of max_boxes are left out.
 *   Ghosts      With `ghosts`, a box is where something has left if the background has more edges around what moves
 *               than the frame: of all neighbors in a row or a column of which one moves, in the box and a pixel around
 *               it, the sum of |y - y'| is less than that of |B - B'|. The background of the mask's pixels in such boxes
 *               becomes 256 y.
 *   Tracks      Each track, by increasing id, takes the box that shares most pixels with its last box (the first of
 *               equals), if no track has taken it. Boxes left over begin tracks, with ids from 1 on. A track ends after
 *               more than track_gap steps without a box. There are at most max_boxes tracks: those without a box and with
 *               the smallest ids end to make room.
 *
 * Sources: running average and difference as cv::accumulateWeighted and cv::absdiff; union-find on the GPU with atomic
 * minima (Playne and Hawick 2018; Allegretti, Bolelli and Grana 2019), here on runs of bits instead of pixels; people in a
 * group by the peaks of their silhouette's vertical projection (Haritaoglu, Harwood and Davis 1999).
 */
#ifndef CUSIGHT_MOTION_H
#define CUSIGHT_MOTION_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUS_MOTION_MAX_CAMERAS    1024 /* cameras of a detector */
#define CUS_MOTION_MAX_COMPONENTS 4096 /* components of a camera, each of at least min_area pixels */

/* How to find motion. */
typedef struct cusMotionOptions {
    int shift;          /* the background learns at the rate 1 / 2^shift a step, 0..8, default 7. 0: compares two frames */
    int64_t learn_us;   /* time constant of the background, 1..2^32 us; 0 (default): it learns by shift */
    int threshold;      /* gray levels, 1..255, default 25 */
    int noise_factor;   /* times the camera's mean absolute difference, 0..255, default 0: threshold alone */
    int erode, dilate;  /* pixels on each side, 0..8, defaults 1 and 4 */
    int min_area;       /* pixels of a component, after erosion and dilation; at least 1, default 400 */
    int max_boxes;      /* of a camera, 1..256, default 64 */
    int merge;          /* 1: merge boxes that overlap; default 0 */
    int sudden_percent; /* 1..100, default 60. 100: never */
    int warmup;         /* steps, 0..65535, default 8 */
    int track_gap;      /* steps, 0..65535, default 10 */
    cusSpace space;     /* of frames and results, default CUS_HOST */
    int shadows; /* percent of the background's luma that shadow has at least, 1..100; 0 (default): shadow moves too */
    int ghosts;  /* 1: learn at once where something has left, and little of what moves; default 0 */
    int tight;   /* 1: boxes of moving pixels instead of the mask's; default 0 */
    int split;   /* percent of the fullest column that a box is cut below, 1..100; 0 (default): boxes are not cut */
    uint64_t reserved[6]; /* 0: for later options */
} cusMotionOptions;

/* The defaults named above. */
CUS_API cusMotionOptions cusMotionDefaults(void);

/* What a camera's last step found. */
typedef enum cusMotionState {
    CUS_MOTION_LEARNING = 0, /* first steps, and before any step */
    CUS_MOTION_WATCHING = 1, /* the boxes are valid, possibly none */
    CUS_MOTION_SUDDEN = 2,   /* everything changed; the background is learned again */
    CUS_MOTION_CROWDED = 3   /* too many components; no boxes */
} cusMotionState;

/* A camera's last step. */
typedef struct cusMotionStatus {
    int64_t time;        /* time of its frame */
    uint32_t steps;      /* steps of this camera so far */
    int32_t state;       /* a cusMotionState */
    uint32_t moving;     /* pixels that move, with shadows, before erosion */
    uint32_t components; /* of at least min_area pixels */
    int32_t threshold;   /* T, in 1/256 gray levels */
    int32_t noise;       /* in 1/256 gray levels; -1: not yet known */
    int32_t boxes;       /* number of boxes */
    int32_t tracks;      /* number of tracks that have not ended */
} cusMotionStatus;

/* A moving object in one frame. */
typedef struct cusMotionBox {
    int32_t x, y, width, height; /* pixels */
    uint32_t area;               /* pixels of its components; of a slice, those in it */
    int32_t center_x, center_y;  /* centroid in 1/256 pixels, rounded down */
    uint32_t strength;           /* mean difference of its moving pixels in 1/256 gray levels, rounded down */
    uint32_t track;              /* the id of its track */
    uint32_t first;              /* column of its first pixel, in the box's top row */
} cusMotionBox;

/* A moving object in successive frames. Its path is the centroids of its boxes. */
typedef struct cusMotionTrack {
    int64_t first, last;         /* times of its first and of its last box */
    uint32_t id;                 /* from 1 on, for each camera */
    uint32_t boxes;              /* number of its boxes so far */
    int32_t x, y, width, height; /* of the last box */
    int32_t missed;              /* steps since the last box */
    int32_t box;                 /* of this step, as an index; -1: none */
} cusMotionTrack;

/* Backgrounds, masks, tracks and results of all cameras. */
typedef struct cusMotionDetector cusMotionDetector;

/* Creates a detector for frames of rows x cols, 1..65536 each and less than 2^31 pixels. type: 8UC1 or 8UC3 (BGR). options
 * NULL: defaults.
 * Memory for each pixel of a camera: host 4 bytes and, for each thread, 8 more; device 8 bytes, for whole tiles of 256 x 32
 * pixels, and 0.25 MB for each camera.
 * Errors: NULL, VALUE, TYPE, NO_MEMORY, NO_CUDA. */
CUS_API cusStatus cusMotionDetectorCreate(cusMotionDetector **detector, int cameras, int rows, int cols, int type,
                                          const cusMotionOptions *options);
/* Safe on NULL. Waits for the device. */
CUS_API void cusMotionDetectorDestroy(cusMotionDetector *detector);

/* From the next step on, only pixels whose mask is not 0 are watched: of camera `camera`, or of all with -1. mask: 8UC1 of
 * a frame's size in the detector's space, any row step; NULL: all pixels. Device: queued. Errors: VALUE, TYPE, SIZE,
 * SPACE. */
CUS_API cusStatus cusMotionDetectorWatch(cusMotionDetector *detector, int camera, const cusMat *mask, cusStream stream);

/* Makes a step. frames: one for each camera, of the detector's size, type and space, any row step. An empty matrix
 * (CUS_MAT_INIT) means that the camera has no new frame: it keeps its state and its results.
 * times: of the frames in microseconds, in host memory, read before the call returns, each at least the camera's last; only
 * those of cameras with a frame are read. NULL: times are the numbers of the steps, 0, 1, ... of each camera; with learn_us
 * times are needed.
 * Host: done at return. Device: queued in `stream`; the call neither waits nor allocates, and can be captured without
 * times.
 * Cost: a pass over the frame; the background is read and written. Frames on the device are read fastest if rows start at
 * multiples of 16 bytes.
 * Errors: NULL, TYPE, SIZE, SPACE, VALUE (times), CUDA; UNSUPPORTED (a captured run with times: a graph would repeat
 * them). */
CUS_API cusStatus cusMotionDetectorRun(cusMotionDetector *detector, const cusMat *frames, const int64_t *times,
                                       cusStream stream);

/* Results in place: arrays of the detector, in its space, which each run overwrites in its stream. */
typedef struct cusMotionResults {
    const cusMotionStatus *status; /* of each camera */
    const cusMotionBox *boxes;     /* those of camera c begin at c * max_boxes */
    const cusMotionTrack *tracks;  /* likewise, by increasing id */
    int cameras, max_boxes;        /* of the detector */
    cusSpace space;                /* of the arrays */
    uint64_t reserved[8];          /* 0: for later fields */
} cusMotionResults;

/* Returns the results without waiting. Errors: NULL. */
CUS_API cusStatus cusMotionDetectorResults(const cusMotionDetector *detector, cusMotionResults *results);

/* Waits for `stream` and copies the last results of `count` cameras from `camera` on to host memory: status[count],
 * boxes[count * max_boxes] and tracks[count * max_boxes], of which the status says how many are valid; each may be NULL.
 * Errors: NULL, VALUE, CUDA, UNSUPPORTED (capture). */
CUS_API cusStatus cusMotionDetectorGet(cusMotionDetector *detector, int camera, int count, cusMotionStatus *status,
                                       cusMotionBox *boxes, cusMotionTrack *tracks, cusStream stream);

/* Writes the mask of a camera's last step: 255 where something moves, otherwise 0; all 0 unless the state is WATCHING or
 * CROWDED. mask becomes 8UC1 of a frame's size in the detector's space. Errors: NULL, VALUE, SIZE, SPACE, NO_MEMORY,
 * CUDA. */
CUS_API cusStatus cusMotionDetectorMask(cusMotionDetector *detector, int camera, cusMat *mask, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_MOTION_H */
