/* cusight/stereo.h: elevation and contour maps from stereo pairs.
 *
 * Source of the method: the edge-matching stereo algorithm of Thinking Machines technical report 86.14 (1986), stage by
 * stage, extended with options. cusStereoClassic() is the algorithm as published; cusStereoDefaults() is the combination
 * that scored best on real pairs with ground truth (docs/stereo.md). Host and CUDA results are bit-identical, including
 * float32: every float operation and its order is defined below.
 *
 * Images: left and right of a rectified pair, 8UC1, or 32FC1 with brightness 0..1, of the same size and type, at least
 * 1 x 1, at most 2^30 rows and columns, any row step. A shift is a disparity in pixels. Elevations: 16UC1, 1 + the best
 * shift, in 1 / 2^subpixel_bits pixel, 0 for a hole; 32FC1 in the same unit after CUS_FILL_RELAX. Stages: edges or census
 * of each image -> elevation -> speckle filter -> fill -> median -> contours. Each is a function, and a cusContourMapper
 * runs them all.
 *
 * All functions: `options` NULL means cusStereoDefaults(). Inputs and outputs are in the same space; outputs are created as
 * needed and must not overlap inputs. Ready: host at return; device in stream order. "Scratch" comes from the device's
 * memory pool in stream order (cudaMallocAsync); a mapper allocates only when it is created. Errors of all functions: NULL,
 * TYPE, SIZE, SPACE, ALIAS, VALUE (an option out of range), NO_MEMORY, NO_CUDA, CUDA.
 */
#ifndef CUSIGHT_STEREO_H
#define CUSIGHT_STEREO_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pixels outside the image. WRAP: those of the opposite side (a torus), as published. ZERO: brightness zero, no edge,
 * and no agreement. */
typedef enum cusStereoBorder { CUS_STEREO_WRAP = 0, CUS_STEREO_ZERO = 1 } cusStereoBorder;

/* Agreement of a left and a right pixel. EQUAL: 1 if both or neither are edges (so flat areas agree; as published), else 0.
 * EDGE: 1 if both are edges, else 0. CENSUS: how many of the eight census bits are equal, 0..8. */
typedef enum cusStereoAgreement { CUS_STEREO_EQUAL = 0, CUS_STEREO_EDGE = 1, CUS_STEREO_CENSUS = 2 } cusStereoAgreement;

/* How to fill holes: see cusStereoFill. */
typedef enum cusStereoFillRule {
    CUS_FILL_NONE = 0,
    CUS_FILL_ONCE = 1,
    CUS_FILL_RELAX = 2,
    CUS_FILL_LOWER = 3
} cusStereoFillRule;

/* Which pixels lie on a line: see cusStereoContours. */
typedef enum cusStereoLines { CUS_LINES_MODULO = 0, CUS_LINES_CROSSING = 1 } cusStereoLines;

/* What decides on a pixel's shift: see cusStereoElevation. WINDOW: the agreements around the pixel. PATHS: those, and what
 * is seen along straight lines from the borders to the pixel (semi-global matching). */
typedef enum cusStereoAggregation { CUS_STEREO_WINDOW = 0, CUS_STEREO_PATHS = 1 } cusStereoAggregation;

enum {
    CUS_STEREO_MAX_SHIFTS = 1024,
    CUS_STEREO_MAX_WINDOW = 63,
    CUS_STEREO_AUTO = 0,
    CUS_STEREO_MAX_PATH_WINDOW = 15, /* with PATHS */
    CUS_STEREO_MAX_PENALTY = 6000
};

/* Values in brackets: classic, default. cusStereoBest() differs from the default in window (3), speckle_size (49) and
 * aggregation (PATHS). */
typedef struct cusStereoOptions {
    cusStereoBorder border;       /* [WRAP, ZERO] */
    cusStereoAgreement agreement; /* [EQUAL, CENSUS] */
    float threshold;        /* at least 0 [0.2, 0.2]: contrast of an edge, as a fraction of the mean of its two sides */
    int shifts;             /* 1..1024, at most the columns [30, 30]: disparities 0 .. shifts - 1 are tried. Or AUTO: what
                                     cusStereoFindShifts finds */
    int direction;          /* +1: left x matches right x + s. -1: right x - s, as in a standard rectified pair,
                                     where near objects lie further left in the right image [+1, -1] */
    int window;             /* odd, 1..63: side of the square matching window [21, 7] */
    int prefer_smaller;     /* ties: 0 the larger shift wins, 1 the smaller [0, 1] */
    int left_right_check;   /* -1: off. 0..1024, in pixels: largest difference between the elevations of the two images; a
                                     larger one makes a hole [-1, 1] */
    cusStereoFillRule fill; /* [ONCE, LOWER] */
    int iterations;         /* 0..1000000, for ONCE and RELAX [50, 512] */
    float tolerance;        /* at least 0; RELAX stops early once changes are this small [0, 0.001] */
    int median;             /* 0: off; 3 or 5: side of the median filter [0, 5] */
    cusStereoLines lines;   /* [MODULO, CROSSING] */
    int levels;             /* 1..65535 [10, 10] */
    int subpixel_bits;      /* 0, or 2..8: fraction bits of elevations; shifts * 2^subpixel_bits is at most 65535 [0, 0] */
    int min_confidence;     /* 0..255: pixels of less confidence become holes [0, 0] */
    int speckle_size;       /* at least 0: regions of at most this many pixels become holes [0, 0] */
    cusStereoAggregation aggregation; /* PATHS needs CENSUS and a window of at most 15 [WINDOW, WINDOW] */
    int paths;                        /* of PATHS: 4, or 8; 0: 4 [0, 0] */
    int p1;       /* of PATHS, up to 6000: penalty where the shift changes by 1 along a path; 0: 3 window^2 [0, 0] */
    int p2;       /* of PATHS, p1..6000: penalty of larger changes; 0: 7 window^2, or p1 if that is more [0, 0] */
    int p2_slope; /* of PATHS in a mapper, 0..6000: what p2 loses for each gray level between the two pixels of a step, down
                     to p1, since edges of things are often edges of the image [0, 0] */
    uint64_t reserved[6]; /* 0: for later options */
} cusStereoOptions;

/* The algorithm as published in 1986. */
CUS_API cusStereoOptions cusStereoClassic(void);
/* The combination that scored best on real pairs. */
CUS_API cusStereoOptions cusStereoDefaults(void);
/* Semi-global matching, for smooth and repetitive scenes: fewer errors at several times the time and memory. */
CUS_API cusStereoOptions cusStereoBest(void);

/* ---- Stages ---------------------------------------------------------------------------------------------------------- */

/* Edges of one image. edges: 8UC1, 255 at an edge, 0 elsewhere. Four tests compare the sums a and b of three neighbors
 * on either side: left column (top to bottom) / right column; upper row (left to right) / lower row; (-1,-1), (0,-1),
 * (-1,0) / (1,1), (0,1), (1,0); (-1,1), (0,1), (-1,0) / (1,-1), (0,-1), (1,0), as (x, y) offsets. An edge is where, in
 * any of them, the means differ by more than clamp(threshold * their mean, 0, 1). 8UC1: a, b are exact integers and the
 * test is 2 |a - b| > threshold * (a + b), the product rounded to float32 (the clamp to 1 never decides). 32FC1: a =
 * (p0 + p1) + p2 in float32 in the order above, likewise b, and the test is |a - b| > min(threshold * ((a + b) * 0.5f),
 * 3); a NaN is CUS_ERROR_VALUE on the host and makes no edge on the device. Uses border, threshold. Cost: one read, one
 * write. */
CUS_API cusStatus cusStereoEdges(const cusMat *image, cusMat *edges, const cusStereoOptions *options, cusStream stream);

/* Census transform of one image (Zabih and Woodfill, 1994). census: 8UC1, bit k set where neighbor k is brighter than
 * the center; neighbors are counted row by row from the upper left. 32FC1 and NaN as above. Uses border. Cost: one
 * read, one write. */
CUS_API cusStatus cusStereoCensus(const cusMat *image, cusMat *census, const cusStereoOptions *options, cusStream stream);

/* Elevation from the edges or census codes of the left and right image (8UC1; for EQUAL and EDGE nonzero is an edge).
 * The score of a pixel and shift is the sum of agreements in the window around the pixel; with WRAP, a window larger
 * than the image counts pixels repeatedly. With EQUAL and EDGE the score counts only where the pixel itself agrees.
 * elevation: 16UC1, 1 + the shift of the best score, 0 where no score is above zero. With left_right_check the right image
 * is matched too, in the opposite direction, and an elevation is kept only where that of the matching right pixel differs
 * by at most `left_right_check`; whole shifts are compared. Uses border, agreement, shifts, direction, window,
 * prefer_smaller, left_right_check, subpixel_bits, min_confidence, aggregation. SIZE: more shifts than columns. Cost:
 * running sums, nearly independent of the window, linear in the shifts; agreements and scores are never stored, and one
 * pass matches both images. Scratch on a device, per pixel: 4 bytes above 32 shifts (16 with fractions or confidences), 4
 * bytes with left_right_check; on the host 2 MB a thread and 2 bytes a pixel with left_right_check. With AUTO the call
 * waits (cusStereoFindShifts).
 *
 * PATHS (Hirschmueller, 2008) also uses paths, p1, p2. The cost C of a pixel p and shift s is 8 window^2 minus the score
 * above, in integers, but what lies outside with ZERO agrees in 4 bits, so that a path keeps its shift where the match has
 * left the image. Along a path that comes from pixel q to its neighbor p, L(p, s) = C(p, s) + min(L(q, s), L(q, s - 1) +
 * p1, L(q, s + 1) + p1, m + p2) - m with m = min L(q, .) over all shifts; shifts that are not tried do not count, and L =
 * C where a path begins. Paths begin at the border, with WRAP too. They go right, left, down and up; 8: and along both
 * diagonals, both ways. The score is the sum over the paths of 8 window^2 + p2 - L, never below 0, at most 62,400. A
 * right pixel has the scores of the left pixels that it matches. Cost: linear in shifts and paths. Scratch, per pixel and
 * shift: on the host 2 bytes, shifts rounded up to a multiple of 32; on a device 1 + paths bytes if 8 window^2 + 2 p2 +
 * p1 is at most 255, else twice that, shifts rounded up to 32, 64, 96, 128, 192, 256, 512 or 1,024.
 *
 * p2_slope: where the gray levels a and b of pixels q and p of the left image differ, max(p1, p2 - p2_slope |a - b|) takes
 * the place of p2 on that step. 32FC1: |a - b| is min(255, floor(255 |a - b|)) with each operation in float32; NaN on a device
 * counts 255. The codes here have no gradient, so a p2_slope above 0 is VALUE, and only a cusContourMapper takes it.
 *
 * subpixel_bits: with the scores c of the best shift and l, r of the shifts below and above (which count as the best does),
 * the elevation is (1 + shift) 2^bits + offset: |offset| = |r - l| / (2 (c - min(l, r))) of 2^bits, rounded to the nearest
 * integer (halves up) and at most 2^(bits - 1) - 1, towards the larger of l and r. It is 0 where c = min(l, r) and for the
 * first and the last shift. */
CUS_API cusStatus cusStereoElevation(const cusMat *left, const cusMat *right, cusMat *elevation,
                                     const cusStereoOptions *options, cusStream stream);

/* cusStereoElevation with a confidence. confidence: 8UC1, or NULL; floor(255 (c - d) / c), where d is the largest score of
 * all shifts but the best one and its two neighbors; 0 at holes. It is 255 if nothing else agrees, and near 0 if several
 * places match alike, as in a repeated pattern. */
CUS_API cusStatus cusStereoElevationConfidence(const cusMat *left, const cusMat *right, cusMat *elevation,
                                               cusMat *confidence, const cusStereoOptions *options, cusStream stream);

/* How many shifts a pair needs, from its edges or census codes. Up to eight slices of 16 rows, at equal distances, are
 * matched with min(1024, columns) shifts, or fewer if subpixel_bits allows no more, a window of 15 or more, a left-right
 * check of 1 or more and a min_confidence of 16 or more. A pixel counts where the elevations of its left and its upper
 * neighbor differ from its own by at most 1. `shifts` is the smallest number that covers 99.5 % of these, and a margin of
 * an eighth and 8; at least 16, at most as many as were tried, and a multiple of 8 below that. If under 5 % of the pixels
 * count, it is the number in `options`, or the default. options: as for cusStereoElevation; its shifts are ignored
 * otherwise. The call waits for the device. Errors: UNSUPPORTED in a captured stream. */
CUS_API cusStatus cusStereoFindShifts(const cusMat *left, const cusMat *right, int *shifts, const cusStereoOptions *options,
                                      cusStream stream);

/* Makes holes of speckles: small regions whose elevations differ from those around them. Two pixels that share a side
 * belong to one region if neither is a hole and their elevations differ by at most one pixel, 2^subpixel_bits. 16UC1. Uses
 * speckle_size (0: a copy), subpixel_bits. SIZE: more than 2^32 - 1 pixels. Method on a device: union-find with atomic
 * minima (Playne and Hawick, 2018). Cost: two reads, one write, and about 24 bytes of scratch read or written a pixel.
 * Scratch: 8 bytes a pixel. */
CUS_API cusStatus cusStereoFilterSpeckles(const cusMat *elevation, cusMat *filtered, const cusStereoOptions *options,
                                          cusStream stream);

/* Fills the holes (0) of a 16UC1 elevation.
 * NONE (16UC1): a copy.
 * ONCE (16UC1): in each iteration every hole becomes the integer mean of its four neighbors before the iteration, where
 *   holes count as 0. A value above 0 is final.
 * LOWER (16UC1): a hole becomes the smaller of the nearest elevations to the left and right in its row, or the only one,
 *   since a pixel hidden from one camera belongs to the farther surface. A row of holes stays.
 * RELAX (32FC1): LOWER, then holes are relaxed in float32 to a smooth surface: v = ((left + right) + (up + down)) * 0.25f
 *   from the values before the iteration; known pixels stay. Stops early after any sixteenth iteration that changed no
 *   pixel by more than `tolerance`.
 * Outside the image: WRAP the opposite side; ZERO 0 for ONCE and the pixel's own value for RELAX; LOWER stays inside.
 * Uses border, fill, iterations, tolerance. Cost: a pass over memory per 16 iterations; a map with large areas of holes
 * takes all of them. Scratch: 4 bytes a pixel. */
CUS_API cusStatus cusStereoFill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options, cusStream stream);

/* Median of 3x3 or 5x5 pixels; outside the image the nearest pixel is repeated. 16UC1 or 32FC1 without NaN; `smoothed`
 * has the same type. size: 3 or 5. Cost: one read, one write. */
CUS_API cusStatus cusStereoMedian(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream);

/* Contour lines. elevation: 16UC1 or 32FC1 (0..65535); contours: 8UC1, 255 on a line, 0 elsewhere. min and max are
 * taken over all pixels, holes as 0. MODULO: (e - min) mod max(1, (max - min) / levels) == 0, in integers (32FC1:
 * truncated first). CROSSING: floor((e - min) * levels / (max - min)) differs from that of the right or the lower
 * neighbor: thin closed lines; 16UC1 in exact integers, 32FC1 as floor((e - min) * (levels / (max - min))) with each
 * operation in float32. A flat map has no crossings; NaN is ignored for min and max and lies in the highest band. Uses
 * lines, levels. Cost: two reads, one write. Scratch: 8 bytes. */
CUS_API cusStatus cusStereoContours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                                    cusStream stream);

/* Elevation in colors, 8UC3 BGR: blue (low), green, yellow, red (high); holes are black. contours: NULL, or 8UC1 of the
 * same size, whose nonzero pixels are drawn black. Cost: two reads, one write. Scratch: 8 bytes. */
CUS_API cusStatus cusStereoPicture(const cusMat *elevation, const cusMat *contours, cusMat *picture, cusStream stream);

/* ---- All stages ------------------------------------------------------------------------------------------------------ */

/* All stages, with their memory. */
typedef struct cusContourMapper cusContourMapper;

/* Allocates everything for pairs of rows x cols and type (8UC1 or 32FC1). Mapping then allocates nothing except outputs
 * that do not fit yet, and does not synchronize; with AUTO the first pair does both, and its range stays. One call at a
 * time may use an object (else BUSY), in any stream (core.h); different objects are independent. */
CUS_API cusStatus cusContourMapperCreate(cusContourMapper **mapper, int rows, int cols, int type, cusSpace space,
                                         const cusStereoOptions *options);
/* Safe on NULL. */
CUS_API void cusContourMapperDestroy(cusContourMapper *mapper);

/* elevation: after fill and median, 16UC1, or 32FC1 with RELAX. contours: 8UC1, or NULL. Equals the stages called
 * one by one, which know no p2_slope. NaN in a 32FC1 image: as in cusStereoEdges. */
CUS_API cusStatus cusContourMap(cusContourMapper *mapper, const cusMat *left, const cusMat *right, cusMat *elevation,
                                cusMat *contours, cusStream stream);

/* cusContourMap with the confidence of each elevation before fill and median, as from cusStereoElevationConfidence, or
 * NULL.
 * Errors: also VALUE for a mapper whose subpixel_bits and min_confidence are both 0, which has no memory for it. */
CUS_API cusStatus cusContourMapConfidence(cusContourMapper *mapper, const cusMat *left, const cusMat *right,
                                          cusMat *elevation, cusMat *contours, cusMat *confidence, cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_STEREO_H */
