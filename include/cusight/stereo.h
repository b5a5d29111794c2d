/* cusight/stereo.h: elevation and contour maps from stereo pairs.
 *
 * Source of the method: the edge-matching stereo algorithm of Thinking Machines technical report 86.14 (1986), stage by
 * stage, with options that are this library's. cusStereoClassic() is the algorithm as published; cusStereoDefaults() is
 * the combination that measured best on real pairs with known truth (docs/stereo.md). Host and CUDA results are
 * bit-identical, in float32 too: every float operation and its order is defined below.
 *
 * Images: left and right of a rectified pair, 8UC1, or 32FC1 with brightness 0..1, of equal size and type, 1x1 or larger,
 * any row step. Elevations: 16UC1, 1 + the best shift, 0 for a hole; 32FC1 after CUS_FILL_RELAX. Stages: edges or signs of
 * each image -> elevation -> fill -> median -> contours; each is a function here, and a cusContourMapper runs them all.
 *
 * Every function: `options` NULL means cusStereoDefaults(). Inputs and outputs lie in one space, outputs are created as
 * needed and overlap no input. Ready: host at return, device when the stream has passed the call. Functions that say
 * "scratch" take it from the device's memory pool in stream order (cudaMallocAsync); a mapper allocates only when it is
 * created. Errors everywhere: NULL, TYPE, SIZE, SPACE, ALIAS, VALUE (an option outside its range), NO_MEMORY, NO_CUDA,
 * CUDA.
 */
#ifndef CUSIGHT_STEREO_H
#define CUSIGHT_STEREO_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What lies outside the image. WRAP: the opposite side (a torus), as published. ZERO: brightness zero, no edge, and
 * nothing there agrees with anything. */
typedef enum cusStereoBorder { CUS_STEREO_WRAP = 0, CUS_STEREO_ZERO = 1 } cusStereoBorder;

/* When a left and a right pixel agree. EQUAL: both are edges or neither is (published: flat areas agree too), 1 or 0.
 * EDGE: both are edges, 1 or 0. SIGNS: how many of the eight neighbors compare with the center alike, 0..8. */
typedef enum cusStereoAgreement { CUS_STEREO_EQUAL = 0, CUS_STEREO_EDGE = 1, CUS_STEREO_CENSUS = 2 } cusStereoAgreement;

/* How holes are filled: see cusStereoFill. */
typedef enum cusStereoFillRule {
    CUS_FILL_NONE = 0,
    CUS_FILL_ONCE = 1,
    CUS_FILL_RELAX = 2,
    CUS_FILL_LOWER = 3
} cusStereoFillRule;

/* Which pixels are on a line: see cusStereoContours. */
typedef enum cusStereoLines { CUS_LINES_MODULO = 0, CUS_LINES_CROSSING = 1 } cusStereoLines;

enum { CUS_STEREO_MAX_SHIFTS = 256, CUS_STEREO_MAX_WINDOW = 63 };

/* Values in brackets: classic, default. */
typedef struct cusStereoOptions {
    cusStereoBorder border;       /* [WRAP, ZERO] */
    cusStereoAgreement agreement; /* [EQUAL, SIGNS] */
    float threshold;              /* 0 or more [0.2, 0.2]: how much of their mean two sides of an edge differ by */
    int shifts;                   /* 1..256, not more than columns [30, 30] */
    int direction;                /* +1: left x is looked up at right x + s. -1: at x - s, as in a rectified pair whose
                                     near things lie further left in the right image [+1, -1] */
    int window;                   /* odd, 1..63: side of the square that votes [21, 7] */
    int prefer_smaller;           /* equal scores: 0 the larger shift wins, 1 the smaller [0, 1] */
    int left_right_check;         /* -1: none. 0..256: left-right check, elevations of the two images may differ by this
                                     much; where they differ by more there is a hole [-1, 1] */
    cusStereoFillRule fill;       /* [ONCE, LOWER] */
    int iterations;               /* 0..1000000, of ONCE and RELAX [50, 512] */
    float tolerance;              /* RELAX: 0 or more, ends early at changes up to this; 0 ends at no change [0, 0.001] */
    int median;                   /* 0 none, 3 or 5: side of the median filter [0, 5] */
    cusStereoLines lines;         /* [MODULO, CROSSING] */
    int levels;                   /* 1..65535 [10, 10] */
} cusStereoOptions;

CUS_API cusStereoOptions cusStereoClassic(void);
CUS_API cusStereoOptions cusStereoDefaults(void);

/* ---- Stages ---------------------------------------------------------------------------------------------------------- */

/* Edges of one image. edges: 8UC1, 255 at an edge, 0 elsewhere. Four tests compare the sums a and b of three neighbors on
 * either side: left column (top to bottom) / right column; upper row (left to right) / lower row; (-1,-1), (0,-1), (-1,0) /
 * (1,1), (0,1), (1,0); (-1,1), (0,1), (-1,0) / (1,-1), (0,-1), (1,0), as (x, y) offsets. An edge is where, in any of
 * them, the means differ by more than clamp(threshold * their mean, 0, 1).
 * 8UC1: a, b are exact integers and the test is 2 |a - b| > threshold * (a + b), the product rounded to float32 (the clamp
 * to 1 never decides). 32FC1: a = (p0 + p1) + p2 in float32 in the order above, likewise b, and the test is
 * |a - b| > min(threshold * ((a + b) * 0.5f), 3); a NaN is CUS_ERROR_VALUE on the host and makes no edge on the device.
 * Uses border, threshold. Cost: one read, one write. */
CUS_API cusStatus cusStereoEdges(const cusMat *image, cusMat *edges, const cusStereoOptions *options, cusStream stream);

/* Signs of one image. signs: 8UC1, bit k set where neighbor k is brighter than the center; the neighbors are counted row
 * by row from the upper left. 32FC1 and NaN as above. Uses border. Cost: one read, one write. */
CUS_API cusStatus cusStereoCensus(const cusMat *image, cusMat *census, const cusStereoOptions *options, cusStream stream);

/* Elevation from what the functions above made of the left and right image (8UC1; for EQUAL and EDGE any value but 0 is an
 * edge). The score of a pixel and shift is the sum of agreements in the window around it, a wrapped window counts a pixel
 * as often as it meets it; with EQUAL and EDGE it counts only where the pixel itself agrees. elevation: 16UC1, 1 + the
 * shift of the best score, 0 where no score is above zero. With a check the same is done from the right image (looked up in
 * the opposite direction), and an elevation stays where its partner has one that differs by at most `left_right_check`.
 * Uses border, agreement, shifts, direction, window, prefer_smaller, left_right_check. SIZE: more shifts than columns.
 * Cost: running sums, so nearly independent of the window; agreements and scores are never stored. Scratch: with more than
 * 32 shifts 4 bytes a pixel, with a check 2. */
CUS_API cusStatus cusStereoElevation(const cusMat *left, const cusMat *right, cusMat *elevation,
                                     const cusStereoOptions *options, cusStream stream);

/* Holes (0) of a 16UC1 elevation. NONE: a copy.
 * ONCE: in each iteration every hole takes the integer mean of its four neighbors as they were before the iteration, holes
 * counting 0; a value above 0 is then fixed. 16UC1.
 * LOWER: a hole takes the smaller of the nearest elevations to the left and to the right in its row, or the only one: what
 * is hidden from one camera belongs to the farther surface. A row of holes stays. 16UC1.
 * RELAX: as LOWER, then the holes are relaxed in float32, v = ((left + right) + (up + down)) * 0.25f from the values before
 * the iteration, while known pixels stay: a smooth surface. It ends early after any sixteenth iteration that changed no
 * pixel by more than `tolerance`. 32FC1.
 * Beyond the border: WRAP the opposite side; ZERO 0 for ONCE, the pixel's own value for RELAX; LOWER never looks there.
 * Uses border, fill, iterations, tolerance. Cost: 16 iterations a pass over memory. Scratch: 4 bytes a pixel. */
CUS_API cusStatus cusStereoFill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options, cusStream stream);

/* Median of the 3x3 or 5x5 neighbors, those outside taken from the nearest edge pixel. 16UC1 or 32FC1 (without NaN), the
 * same out. size: 3 or 5. Cost: one read, one write. */
CUS_API cusStatus cusStereoMedian(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream);

/* Contour lines. elevation: 16UC1 or 32FC1 (0..65535); contours: 8UC1, 255 on a line, 0 elsewhere. min and max are those of
 * all pixels, holes as 0. MODULO: (e - min) mod max(1, (max - min) / levels) == 0, in integers (32FC1: truncated first).
 * CROSSING: floor((e - min) * levels / (max - min)) differs from that of the right or the lower neighbor: thin closed
 * lines; 16UC1 in exact integers, 32FC1 as floor((e - min) * (levels / (max - min))) with each operation in float32. A flat
 * map has no crossing; a NaN is neither min nor max and lies in the highest band. Uses lines, levels. Cost: two reads, one
 * write. Scratch: 8 bytes. */
CUS_API cusStatus cusStereoContours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                                    cusStream stream);

/* An elevation in colors, 8UC3 BGR: from blue (low) over green and yellow to red (high), holes black. contours: NULL, or
 * 8UC1 of its size whose pixels above 0 are drawn black. Cost: two reads, one write. Scratch: 8 bytes. */
CUS_API cusStatus cusStereoPicture(const cusMat *elevation, const cusMat *contours, cusMat *picture, cusStream stream);

/* ---- All stages ------------------------------------------------------------------------------------------------------ */

typedef struct cusContourMapper cusContourMapper;

/* Everything is allocated here, for pairs of rows x cols of type (8UC1 or 32FC1); mapping allocates nothing (but outputs
 * that do not fit yet) and does not wait. One object is used by one stream (or thread) at a time; different objects are
 * independent. */
CUS_API cusStatus cusContourMapperCreate(cusContourMapper **mapper, int rows, int cols, int type, cusSpace space,
                                         const cusStereoOptions *options);
CUS_API void cusContourMapperDestroy(cusContourMapper *mapper);

/* elevation: after fill and median, 16UC1, or 32FC1 with RELAX. contours: 8UC1, or NULL for none. The same as the stages
 * one by one. A NaN in a 32FC1 image: as in cusStereoEdges. */
CUS_API cusStatus cusContourMap(cusContourMapper *mapper, const cusMat *left, const cusMat *right, cusMat *elevation,
                                cusMat *contours, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_STEREO_H */
