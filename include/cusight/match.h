/* cusight/match.h: template matching with the exact best match, and inspection (match, then count a color).
 *
 *   frame, templates  | mask                                             | score map
 *   8UC1..4, 32FC1..4 | none, 8UC1, or weights: see cusMatcherOptions    | 32FC1, (rows - h + 1) x (cols - w + 1)
 *
 * A score is computed at every position (x, y) where the w x h template fits into the frame, as by cv::matchTemplate.
 * Matches are exact, as by brute force, and both backends give the same bits. 8-bit scores are exact numbers, rounded once
 * to double; those of floats and weights are within 1e-9 (normed methods; others: of the norms of window and template).
 * Of ties, the first position in row-major order is the best: scores of floats tie if they round to the same value.
 * docs/match.md has the formulas, that rounding and its exceptions, and the error bound of score maps.
 */
#ifndef CUSIGHT_MATCH_H
#define CUSIGHT_MATCH_H

#include "hsv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Matcher --------------------------------------------------------------------------------------------------------- */

/* Scores of a window I and the template T, with OpenCV's numbers. The largest is best, but for squared differences. */
typedef enum cusMatchMethod {
    CUS_MATCH_SQDIFF = 0,        /* sum (I - T)^2 */
    CUS_MATCH_SQDIFF_NORMED = 1, /* SQDIFF / sqrt(sum I^2 sum T^2), at most 1 */
    CUS_MATCH_CCORR = 2,         /* sum I T */
    CUS_MATCH_CCORR_NORMED = 3,  /* CCORR / sqrt(sum I^2 sum T^2) */
    CUS_MATCH_CCOEFF = 4,        /* CCORR of I and T less their means, channel by channel */
    CUS_MATCH_CCOEFF_NORMED = 5  /* CCORR_NORMED of the same, -1..1 */
} cusMatchMethod;

/* How the correlation is computed; results do not depend on it. Floats and weights always take the FFT. So do masks and
 * templates of 2^17 bytes or more on the CPU, and everything on a device without tensor cores for integers. Bytes with a
 * mask that is too large for the device's transforms in double (see cusMatcherRun) are matched directly.
 * cusMatcherAlgorithm tells which algorithm is used. */
typedef enum cusMatchAlgorithm {
    CUS_MATCH_AUTO = 0,   /* the faster one, by the measured crossover */
    CUS_MATCH_DIRECT = 1, /* rows * cols * w * h multiplications of bytes, on the device by tensor cores */
    CUS_MATCH_FFT = 2     /* transforms whose cost hardly depends on the template */
} cusMatchAlgorithm;

/* What to look for. */
typedef struct cusMatcherOptions {
    cusMatchMethod method; /* default CCOEFF_NORMED, which ignores brightness and contrast; for weights choose another */
    cusMatchAlgorithm algorithm; /* default AUTO */
    const cusMat *mask;   /* default NULL. Of the template's size and space, not all zero. 8UC1: pixels count where it is
                                    not 0. SQDIFF, CCORR and their normed methods also take weights: 32F with one channel or
                                    the template's, finite; or 8U with the template's channels, of which all but 0
                                    count as 1 */
    int max_matches;      /* 1..1024, default 1: matches to find per template, best first */
    int min_distance;     /* at least 1, default 1: any two matches differ by at least this in x or in y
                                    (non-maximum suppression) */
    double score_limit;   /* default NaN, no limit. A match must be at least this good: score <= score_limit for
                                    SQDIFF and SQDIFF_NORMED, >= for the others */
    int subpixel;         /* default 0. 1: set dx, dy to the vertex of a parabola through the exact scores at and
                                    beside the match, the same bits on both backends */
    int batch;            /* 1..1024, default 1 (also if 0): frames that a run takes in one call. Above 1 there is one
                                    template for all of them, or one for each, and `count` is 1 or `batch` */
    uint64_t reserved[8]; /* 0: for later options */
} cusMatcherOptions;

/* Returns these defaults. */
CUS_API cusMatcherOptions cusMatcherDefaults(void);

/* One match: 32 bytes, in host or device memory. */
typedef struct cusMatch {
    int32_t x, y;    /* top-left pixel of the window; -1, -1: no (further) match */
    double score;    /* exact, in the units of the method; NaN if there is no match */
    float dx, dy;    /* with `subpixel`: the extremum is at (x + dx, y + dy), each -0.5..0.5; 0 at the map's border and
                               beside positions that an earlier match has removed (min_distance) */
    uint32_t pixels; /* after cusMatcherInspect: pixels in the color range inside the window */
    int32_t filled;  /* after cusMatcherInspect: 1 filled, 0 empty; -1 before */
} cusMatch;

/* Prepared templates, and the matches of the last frame. */
typedef struct cusMatcher cusMatcher;

/* Creates a matcher for frames of rows x cols and `count` templates, 1..1024, of one size, type (8UC1..C4, 32FC1..C4) and
 * space; the frames have the same type and space. Everything is allocated and prepared here. If templates are on the
 * device, the call waits for `stream`, in which they were written. The templates are not needed afterwards.
 * Limits: frames have at most 2^30 rows and columns; templates fit into them; a row of an 8-bit template has at most 65536
 * bytes; 32F templates are finite (VALUE); with a mask, transforms in double must hold frame and template (SIZE; on the
 * device see cusMatcherRun).
 * One call at a time may use a matcher (else BUSY), in any stream (core.h); others are independent.
 * Device memory for 8-bit images, FFT: about 16 * channels + 30 bytes per pixel, 14 * channels more for other methods than
 * SQDIFF, 20 * (channels + 1) more with a mask, and 12 bytes for each position and further template. DIRECT: 8 bytes for
 * each position and template if more than one match or `subpixel` is wanted, and 8 to 48 bytes for each position if the
 * template has a mask or is cut into sections (above 66,050 bytes at the latest); for up to 128 frames of a batch, as many
 * of them as take 512 MiB.
 * Errors: NULL, VALUE, TYPE, SIZE, SPACE, NO_MEMORY, NO_CUDA, CUDA, UNSUPPORTED. */
CUS_API cusStatus cusMatcherCreate(cusMatcher **matcher, const cusMat *templates, int count, int rows, int cols,
                                   const cusMatcherOptions *options, cusStream stream);
/* Safe on NULL. Device: waits for the device, as cudaFree does. */
CUS_API void cusMatcherDestroy(cusMatcher *matcher);

/* Matches one frame, or each of an array of `batch` frames. The matches stay in the matcher until its next run.
 * scores: NULL (as it must be in a stream that is captured), or an array of matrices, one for each template or each frame
 * of a batch, which become the score maps: 32FC1, created as needed, not overlapping the frames.
 * Ready: host at return; device in stream order.
 * Cost, FFT: one read of the frame, one real FFT per channel and one inverse FFT per template at frame size, one pass over
 * the map, and the windows of the few positions that may be the best; device: two launches for each further match. If very
 * many may be the best (flat and periodic images), a second transform, in double, computes them all, which takes three to
 * four times as long. In frames of more than 3840 rows or columns with more than 2^24 positions or a template of more than
 * 1920 rows or columns (one channel, compute capability 9.0; half of that or less if blocks have less shared memory) the
 * device computes such windows one by one, exact but slow, with up to rows * cols * w * h multiplications for each match.
 * Cost, DIRECT: rows * cols * w * h multiplications, whatever the pictures show; device: one launch for the frames of a
 * batch, up to 128 or as cusMatcherCreate says, and one for all their further matches. With the FFT, frames of a batch
 * follow one another.
 * Errors: NULL, TYPE, SIZE, SPACE, ALIAS, NO_MEMORY, CUDA. */
CUS_API cusStatus cusMatcherRun(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream);

/* Copies the matches of the last run (and inspection) of template `index`, or of frame `index` of a batch, best first, to
 * `matches`, which has room for `capacity`; *found becomes their number, at most max_matches. Waits for `stream`, which
 * must be that of the run. CAPACITY if they do not all fit; then none is copied. Errors: NULL, VALUE, CAPACITY, CUDA. */
CUS_API cusStatus cusMatcherGet(cusMatcher *matcher, int index, cusMatch *matches, int capacity, int *found,
                                cusStream stream);

/* Makes a view of the results in place, for work that continues on the device: 8UC1, one row of max_matches *
 * sizeof(cusMatch) bytes for each template, or for each frame of a batch. It is valid while the matcher exists; its
 * contents change in stream order with each run. Errors: NULL. */
CUS_API cusStatus cusMatcherResults(const cusMatcher *matcher, cusMat *view);

/* Returns the algorithm that the matcher uses: CUS_MATCH_DIRECT or CUS_MATCH_FFT; CUS_MATCH_AUTO for NULL. */
CUS_API cusMatchAlgorithm cusMatcherAlgorithm(const cusMatcher *matcher);

/* Returns the vectors that the host's FFT uses on this processor: "AVX-512", "AVX2" or "16-byte vectors" (SSE2, NEON).
 * Results do not depend on them. */
CUS_API const char *cusMatcherHostFft(void);

/* ---- Inspection ------------------------------------------------------------------------------------------------------ */

/* Counts the pixels in `range` (hsv.h) inside the window of each match and sets the match's `pixels` and `filled`
 * (pixels >= min_fill * w * h). Follows cusMatcherRun in the same stream. Nothing returns to the host until cusMatcherGet.
 * frame: the color image, 8UC3, of the size and space of the matcher's frames: the matched frame itself, or the color
 * version of a gray one; an array for a batch. min_fill: 0..1. Errors: NULL, VALUE, TYPE, SIZE, SPACE, CUDA. */
CUS_API cusStatus cusMatcherInspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                                    cusStream stream);

#ifdef __cplusplus
}
#endif

#endif /* CUSIGHT_MATCH_H */
