/* cusight/pose.h: template matching under rotation and scale, with the exact best match.
 *
 * The template is resampled for every angle and every scale of a grid, and each such pose is compared with the picture at
 * every position where its window fits. The answer is that of this loop, without running it in full: poses and positions
 * are ruled out by proven bounds, and those that remain are computed exactly (docs/internals/pose.md).
 *
 * A pose. Angles are degrees, counterclockwise as in cv::getRotationMatrix2D; scale 2 looks for an object twice as large as
 * the template. Cosine and sine are integers of 2^-40, the same on every machine. Coordinates in the template are 16.16
 * fixed-point numbers; the center of the template lies at the center of the pose. Pixels are bilinear with weights of 1/32
 * pixel, half rounded up. A pixel counts only if its sources, up to four template pixels with a weight above 0, all lie in
 * the template and in its mask. The window is the bounding box of the pixels that count. At 0 degrees and scale 1 a pose is
 * the template.
 *
 * Its center is the middle of ceil(scale (w |cos| + h |sin|)) columns and ceil(scale (w |sin| + h |cos|)) rows, for a
 * template of w columns and h rows. If that number is odd, the center lies on the center of a pixel, and x or y is whole;
 * if it is even, it lies midway between two pixels, and x or y ends in .5. Only refine moves it from there.
 *
 * Scores are those of match.h over the n pixels that count, so that poses compare:
 *
 *   method                   score                                       best
 *   CUS_MATCH_SQDIFF         sum (I - T)^2 / n                           smallest; compared as exact fractions
 *   CUS_MATCH_SQDIFF_NORMED  as match.h                                  smallest
 *   CUS_MATCH_CCORR_NORMED   as match.h                                  largest
 *   CUS_MATCH_CCOEFF_NORMED  as match.h; 1 for a pose with one color     largest
 *
 * Sums are exact integers; a normed score is a / sqrt(b c) in double, with one rounding for each of b c, the root and the
 * quotient: the same bits on every machine, within 2^-51 of the exact number, and exactly 1 for a copy (CCORR_NORMED,
 * CCOEFF_NORMED). Equal scores are ties, of which the first in the order angle, scale, row, column is taken.
 * CUS_MATCH_CCORR and CUS_MATCH_CCOEFF grow with the brightness and the contrast of the picture, and do not compare poses.
 *
 * Method: branch and bound over cells of positions. Jensen's inequality bounds the squared difference of pixels by that of
 * the means of blocks (Gharavi-Alkhansari, "A fast globally optimal algorithm for template matching using low-resolution
 * pruning", 2001). For normed scores this library bounds 1 - score^2, the distance of the template to the nearest multiple
 * of the window, in the same way.
 */
#ifndef CUSIGHT_POSE_H
#define CUSIGHT_POSE_H

#include "match.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values of a grid: first, first + step, ... up to last (up to a thousandth of a step beyond it counts as last), or a
 * list. */
typedef struct cusPoseRange {
    double first;       /* the first value */
    double last;        /* at least first */
    double step;        /* above 0; any finite number if first is last */
    const double *list; /* default NULL. `count` values in any order, instead of first, last and step */
    int count;          /* values of the list */
} cusPoseRange;

/* What to look for. */
typedef struct cusPoseOptions {
    cusMatchMethod method; /* default CCOEFF_NORMED; not CCORR or CCOEFF */
    cusPoseRange angles;   /* degrees, -360..360; default 0 alone */
    cusPoseRange scales;   /* 1/16..16; default 1 alone */
    const cusMat *mask;    /* default NULL. 8UC1, of the template's size, not all zero: where it is not 0, pixels count */
    int max_matches;       /* 1..1024, default 1: matches to find, best first */
    int min_distance;      /* at least 1, default 1 */
    double min_angle;      /* 0..360, default 360. The centers of any two matches differ by at least min_distance in x or
                              in y, or their angles by at least min_angle, the shorter way around */
    double score_limit;    /* default NaN, no limit. A match must be at least this good: score <= score_limit for
                              SQDIFF and SQDIFF_NORMED, >= for the others */
    int refine;            /* default 0. 1: move x, y, angle and scale between the pixels and the values of the grid */
    uint64_t reserved[8];  /* 0: for later options */
} cusPoseOptions;

/* Returns these defaults. */
CUS_API cusPoseOptions cusPoseDefaults(void);

/* One match: 64 bytes. */
typedef struct cusPoseMatch {
    double x;            /* the center of the template in the picture, in pixels; 0 is the center of the first column */
    double y;            /* the same for rows */
    double angle;        /* degrees */
    double scale;        /* a value of the grid, or refined */
    double score;        /* score of the pose of the grid, in the units of the method */
    int32_t col;         /* first column of the pose's window in the picture */
    int32_t row;         /* first row of the window */
    int32_t angle_index; /* index of the angle in the grid, from 0 */
    int32_t scale_index; /* index of the scale in the grid, from 0 */
    int32_t pixels;      /* n, the pixels that count */
    int32_t reserved;    /* 0 */
} cusPoseMatch;

/* A template in all its poses, and the matches of the last frame. */
typedef struct cusPoseMatcher cusPoseMatcher;

/* Creates a matcher of a template for frames of rows x cols. Everything but the memory of transforms is allocated here, and
 * each pose is resampled and summed once. The template and the mask are not needed afterwards. A pose whose window does not
 * fit into the frames, or without pixels that count, has no positions.
 * templ: 8UC1; searches run where its memory is. The mask must be in the same space. stream: reads a template in device
 * memory; the call waits for it.
 * Limits: template sides, also when scaled, are at most 8192 pixels, the scaled template has at most 2^24 pixels, frames
 * have at most 2^30 pixels; 65536 poses.
 * Memory on the host: about 3 bytes for each pixel of the frame, 8 for each block of pixels of a pose, 3 for each pixel of
 * the largest pose and thread, and from the first transform of a pose on 64 for each pixel of the frame and thread,
 * together at most 1 GiB or those of one thread (none for frames of more than 2^26 pixels).
 * Memory on the device: 6 bytes for each pixel of the frame, 8 for each block of pixels of a pose, 4 or, with a mask, 8 for
 * each pixel of the template, and up to 26 MB. From the first run that transforms a pose on, about 1 GiB more, or that of
 * one pose if it needs more: 64 bytes for each pixel of the frame, and 24 that all poses share, besides what cuFFT works
 * with (none for frames of more than 2^26 pixels). If that memory or cuFFT is missing, runs do without.
 * One call at a time may use a matcher (else BUSY); others are independent.
 * Errors: NULL, VALUE, TYPE, SIZE, SPACE (the mask), NO_MEMORY, NO_CUDA, CUDA, UNSUPPORTED (capture). */
CUS_API cusStatus cusPoseMatcherCreate(cusPoseMatcher **matcher, const cusMat *templ, int rows, int cols,
                                       const cusPoseOptions *options, cusStream stream);
/* Safe on NULL. Device: synchronizes, as cudaFree does. */
CUS_API void cusPoseMatcherDestroy(cusPoseMatcher *matcher);

/* Finds the template in a frame, 8UC1 in the memory of the template. The matches are ready when the call returns, and stay
 * in the matcher until its next run.
 * stream: ignored on the host. Device: work is queued there, and the call waits for it; it cannot be captured into a graph.
 * refine: quadratic surfaces through 3 x 3 exact scores. For the pose of the match and each of its up to 8 neighbors in
 * angle and scale, the surface over the positions around gives the best score and place of the pose between the pixels; a
 * neighbor first moves to its own best position near the center of the match. The surface over these best scores gives
 * angle and scale, and x and y are interpolated between the places of the poses. If a neighbor's score is better so, it
 * becomes the middle, up to 4 times: angle and scale may move by more than a step, since a pose can win on whole pixels
 * without being the nearest. Neighbors are the values next below and above, those of angles around the full turn; there are
 * none at the end of a grid, or where one is more than twice as far as the other. Where a neighbor is missing or its window
 * leaves the frame, that coordinate does not move. score, row, col, angle_index and scale_index stay those of the grid.
 * Choose steps so small that the neighbors still fit: a few pixels at most at the rim of the template.
 * Accuracy of refine, on a smooth texture of 41 x 37 pixels with steps of 2 or 3 degrees and of 0.03: 0.1 degrees, 0.003
 * of the scale and 0.03 pixels (docs/pose.md).
 * Cost: a pass over the frame for its block means, then a search for each match wanted, which is short if the best match
 * stands out. A pose that bounds do not finish soon is computed at all positions by Fourier transforms, and on the host
 * known for further matches. At worst (flat or periodic pictures, or a template that is not there) a search takes about 1.5
 * times as long as transforms of all poses. The device's transforms are those of cuFFT.
 * Errors: NULL, TYPE, SIZE, SPACE, BUSY, CUDA, UNSUPPORTED (capture). After an error there are no matches. */
CUS_API cusStatus cusPoseMatcherRun(cusPoseMatcher *matcher, const cusMat *frame, cusStream stream);

/* Copies the matches of the last run, best first, to `matches`, which has room for `capacity`; *found becomes their number,
 * at most max_matches. CAPACITY if they do not all fit; then none is copied. Errors: NULL, VALUE, CAPACITY, BUSY. */
CUS_API cusStatus cusPoseMatcherGet(cusPoseMatcher *matcher, cusPoseMatch *matches, int capacity, int *found);

/* Tells how near the last run came if nothing reaches score_limit: *nearest becomes the best match, or without matches the
 * best of the positions that the search tried first, 16 poses or more, whether within the limit or not. Its score is exact,
 * but others that were ruled out may be better, and the device may name another than the host. *found becomes 1, or 0 if no
 * position was tried: then no pose fits, or there was no run. Errors: NULL, BUSY. */
CUS_API cusStatus cusPoseMatcherNearest(cusPoseMatcher *matcher, cusPoseMatch *nearest, int *found);

/* Makes the window of a pose as it is compared: templ becomes the resampled template, 0 where no pixel counts, and mask 255
 * where one counts and 0 elsewhere. Both are 8UC1 in host memory, created as needed. Either may be NULL, and they must not
 * overlap. cusMatcherCreate takes them. A pose without pixels that count is a VALUE error.
 * Errors: NULL (matcher), VALUE, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, BUSY. */
CUS_API cusStatus cusPoseMatcherTemplate(cusPoseMatcher *matcher, int angle_index, int scale_index, cusMat *templ,
                                         cusMat *mask);

/* Gets the size of the grid: the numbers of angles and scales. Either may be NULL. Errors: NULL (matcher). */
CUS_API cusStatus cusPoseMatcherGrid(const cusPoseMatcher *matcher, int *angles, int *scales);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_POSE_H */
