/* cusight/match.h: template matching with the exact best match, HSV color counting, and inspection (match, then count).
 *
 * Scores of a w x h template T at every position (x, y) of an image I where it fits, that is (rows - h + 1) x
 * (cols - w + 1) of them; n = w h, sums over the window and all channels, one-channel sums per channel c:
 *   corr = sum I T,  S1c = sum I,  S2 = sum I^2 over the window;  T1c, T2 the same of the template
 *   CUS_MATCH_SQDIFF         sum (I - T)^2 = S2 - 2 corr + T2                                       best: smallest
 *   CUS_MATCH_SQDIFF_NORMED  min(1, SQDIFF / sqrt(S2 T2)); 1 where S2 T2 = 0                        best: smallest
 *   CUS_MATCH_CCORR          corr                                                                   best: largest
 *   CUS_MATCH_CCORR_NORMED   corr / sqrt(S2 T2); 0 where S2 T2 = 0                                  best: largest
 *   CUS_MATCH_CCOEFF         corr - sum_c S1c T1c / n                                               best: largest
 *   CUS_MATCH_CCOEFF_NORMED  CCOEFF / sqrt((S2 - sum_c S1c^2 / n) (T2 - sum_c T1c^2 / n));          best: largest
 *                            1 everywhere for a template of one color, else 0 where a window is of one color
 * The numbers and meanings are those of cv::matchTemplate. With a mask (SQDIFF, CCORR) the sums run over the template's
 * pixels whose mask byte is not 0.
 *
 * The best match is the brute-force answer, not the smallest of rounded numbers: correlation by FFT has a proven error
 * bound, and every position whose score may be the best within that bound is computed again directly. For 8-bit images
 * that is done in integers, so position and score are exact (equal scores: first in row-major order) and the same on both
 * backends; for 32F images in double precision. Score maps are float, within the bound of the true score:
 *   |error of corr| <= 12 log2(F) 2^-24 |I - m| |T - m|, F the transform's points, |.| Euclidean norms of whole image and
 * template, m the template's rounded mean, which is subtracted from both (measured errors are some hundred times smaller).
 *
 * Method: correlation theorem at image size (wrapped-around positions are never valid ones), window sums from prefix sums
 * (Lewis, "Fast normalized cross-correlation", 1995); error of the FFT after Higham, "Accuracy and stability of numerical
 * algorithms", ch. 24, with complex products good to sqrt(5) units (Brent, Percival, Zimmermann 2007); exact refinement, and everything on the device without a round trip, are this library's.
 */
#ifndef CUSIGHT_MATCH_H
#define CUSIGHT_MATCH_H

#include "hsv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Matcher --------------------------------------------------------------------------------------------------------- */

typedef enum cusMatchMethod {
    CUS_MATCH_SQDIFF = 0,
    CUS_MATCH_SQDIFF_NORMED = 1,
    CUS_MATCH_CCORR = 2,
    CUS_MATCH_CCORR_NORMED = 3,
    CUS_MATCH_CCOEFF = 4,
    CUS_MATCH_CCOEFF_NORMED = 5
} cusMatchMethod;

typedef enum cusMatchAlgorithm {
    CUS_MATCH_AUTO = 0,   /* the faster of the two, by the measured cut-over */
    CUS_MATCH_DIRECT = 1, /* rows * cols * n multiplications */
    CUS_MATCH_FFT = 2     /* UNSUPPORTED on the host in a build without an FFT library (cusMatcherHostFft) */
} cusMatchAlgorithm;

typedef struct cusMatcherOptions {
    cusMatchMethod method;       /* default SQDIFF */
    cusMatchAlgorithm algorithm; /* default AUTO */
    const cusMat *mask; /* default NULL. 8UC1 of the template's size, in its space; SQDIFF and CCORR only, not all zero */
    int max_matches;    /* 1..1024, default 1: matches to find per template, best first */
    int min_distance;   /* 1 or more, default 1: of two matches, |dx| or |dy| is at least this (non-maximum suppression) */
    double score_limit; /* default NaN, no limit: a match must be at least this good (<= for SQDIFF*, >= otherwise) */
    int subpixel;       /* default 0. 1: fill dx, dy with the vertex of a parabola through the neighboring scores */
} cusMatcherOptions;

CUS_API cusMatcherOptions cusMatcherDefaults(void);

/* One match, 32 bytes, as it lies in host or device memory. */
typedef struct cusMatch {
    int32_t x, y;    /* top-left pixel of the window; -1, -1: no (further) match */
    double score;    /* exact, in the units of the method; NaN when there is no match */
    float dx, dy;    /* with `subpixel`: the extremum is at (x + dx, y + dy), each in -0.5..0.5; 0 at the map's border */
    uint32_t pixels; /* after cusMatcherInspect: pixels of the wanted color inside the window */
    int32_t filled;  /* after cusMatcherInspect: 1 filled, 0 empty; -1 before */
} cusMatch;

typedef struct cusMatcher cusMatcher;

/* Makes a matcher for frames of rows x cols and `count` templates of one size and type, which also fix the frames' type
 * (8UC1, 8UC3 or 32FC1) and space. Everything is allocated and prepared here (template spectra, FFT plans, workspace), and
 * for device templates this call waits for `stream`, in which they were written. The templates are not needed afterwards.
 * Limits: the template fits into the frame; an 8-bit template row has up to 65536 bytes; count 1..1024. 32F templates must
 * be finite, their squares adding up to less than 1e30 (VALUE).
 * One matcher is used by one stream (or thread) at a time; different matchers are independent.
 * Device memory: about (4 planes + 4 channels + 16) bytes a pixel for 8-bit images, planes being the channels, and
 * 12 bytes a position and template. Errors: NULL, VALUE, TYPE, SIZE, SPACE, NO_MEMORY, NO_CUDA, CUDA, UNSUPPORTED. */
CUS_API cusStatus cusMatcherCreate(cusMatcher **matcher, const cusMat *templates, int count, int rows, int cols,
                                   const cusMatcherOptions *options, cusStream stream);
/* NULL is ignored. Device: waits for the device, as cudaFree does. */
CUS_API void cusMatcherDestroy(cusMatcher *matcher);

/* Matches one frame. `scores`: NULL, or an array of as many matrices as there are templates, which become the score maps,
 * 32FC1, created as needed; they must not overlap the frame. The matches stay in the matcher until its next run. Ready: host at return, device when
 * the stream has passed it; nothing is allocated (but score maps that do not fit) and nothing waits.
 * A 32F frame that holds NaN or infinity, or whose squares add up to 1e30 or more, gives no match and score maps of NaN.
 * Cost, FFT: one read of the frame, a real FFT a channel and an inverse one a template at frame size, one pass over the
 * map and the windows of the few positions that may be best. Where very many may be (flat and periodic images) they are
 * computed directly: right, but slow, up to rows * cols * n multiplications.
 * Errors: NULL, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, CUDA. */
CUS_API cusStatus cusMatcherRun(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream);

/* Copies the matches of the last run (and inspection) of template `index` to `matches`, room for `capacity`; `found` gets how many
 * there are, best first, up to max_matches. Waits for `stream`, the run's. CAPACITY when there is not room for all (then none
 * is copied). Errors: NULL, VALUE, CAPACITY, CUDA. */
CUS_API cusStatus cusMatcherGet(cusMatcher *matcher, int index, cusMatch *matches, int capacity, int *found,
                                cusStream stream);

/* A view of the results where they are, for work that continues on the device: 8UC1, one row a template, max_matches
 * times sizeof(cusMatch) bytes. Valid while the matcher lives; its contents change in stream order with each run. */
CUS_API cusStatus cusMatcherResults(const cusMatcher *matcher, cusMat *view);

/* Which path the matcher takes: CUS_MATCH_DIRECT or CUS_MATCH_FFT; CUS_MATCH_AUTO for NULL. */
CUS_API cusMatchAlgorithm cusMatcherAlgorithm(const cusMatcher *matcher);

/* The FFT library of the host backend: "OpenCV", "KissFFT" or "none" (then the host always goes direct). */
CUS_API const char *cusMatcherHostFft(void);

/* ---- Inspection ----------------------------------------------------------------------------------------------------------
 */

/* After cusMatcherRun, in the same stream: counts the pixels in `range` inside each match's window and sets `pixels` and
 * `filled` (pixels >= min_fill * n) of the matches. `frame` is the color picture, 8UC3, of the size and in the space of the
 * matcher's frames (the matched frame itself, or the color version of a gray one). min_fill: 0..1. Nothing comes back to
 * the host until cusMatcherGet. Errors: NULL, VALUE, TYPE, SIZE, SPACE, CUDA. */
CUS_API cusStatus cusMatcherInspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                                    cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_MATCH_H */
