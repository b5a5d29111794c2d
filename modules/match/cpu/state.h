/* The CPU's half of a matcher, and the stages that run.c calls in turn: scores.c (ranges of all scores) and search.c (the
 * best of a map). search.c calls window.c (the exact score of one window) and exact.c (of all windows). */
#ifndef CUSI_MATCH_CPU_STATE_H
#define CUSI_MATCH_CPU_STATE_H

#include "host.h"
#include "match/dots/dots.h"
#include "match/fft/fft.h"
#include "match/model.h"
#include "progress.h"
#include "match/scores.h"

/* What threads that share a transform lose: a tenth of the time, and nanoseconds at the start and end of each stage. */
#define TUNING_SHARED   1.1
#define TUNING_STAGE_NS 1e4

typedef struct Best {
    double cost;
    size_t position;
} Best;

/* A rectangle of the score map. */
typedef struct Block {
    size_t y, x, rows, cols;
} Block;

/* MATCH_TILE neighboring positions in a row of the score map being searched. */
enum { MATCH_TILE = 64, MATCH_MAX_BUFFERS = 24 };
typedef struct Tile {
    float lower, upper; /* least ends of ranges: lower of positions without an exact cost, upper of all */
    int known;          /* whether MatchHost.costs is valid here */
    Best best;          /* the best position with an exact cost */
} Tile;
static const Best MATCH_NOTHING = {INFINITY, SIZE_MAX};

static inline size_t match_tilesAcross(const MatchModel *m) {
    return ((size_t)m->ocols + MATCH_TILE - 1) / MATCH_TILE;
}

typedef struct MatchHost {
    int threads;
    CusiProgress *progress; /* progress of the run */
    MatchTemplate *sums;
    char *templates;   /* without padding; masked pixels are 0 */
    MatchMask mask;    /* one value for each element */
    uint32_t *samples; /* match_chooseSamples() */
    size_t template_bytes;
    /* The score map is cut into blocks, which run one after the other. All threads share a block. */
    int block_rows, block_cols;
    int64_t down, across;
    /* The direct algorithm. */
    const MatchDots *dots;                      /* NULL with the FFT */
    uint32_t *taps, *packed;                    /* words (dots.h) of the templates; of the pixels under a block */
    size_t taps_across, taps_size, packed_cols; /* words of a template's row, of a template, of a packed row */
    int32_t *dot_sums;                          /* for each thread, MatchDots::rows rows of sums_cols */
    size_t sums_cols;
    MatchFft *fft;                    /* NULL with the direct algorithm */
    int fft_rows, fft_cols;           /* a transform covers the pixels under a block */
    float *plane, *spectra, *product; /* one plane, the channels' spectra, their product */
    float *template_spectra;          /* count x channels, scaled by 1 / points, not conjugated */
    double *s1,
        *s2; /* window sums, with a mask of a block, else of match_rowsAtOnce() rows for each thread: a plane a channel */
    size_t sums_rows;                  /* rows of such a plane */
    double *column1, *column2;         /* for each thread, sums over h rows of each column: one row a channel; one row */
    double *correlation;               /* for each thread, one score row */
    MatchRange *ranges;                /* ranges of `count` score maps */
    double shift[MATCH_MAX_CHANNELS];  /* shift of the frame's pixels */
    double energy[MATCH_MAX_CHANNELS]; /* energy of the frame's channels, shifted */
    double unit;                       /* divides shifted pixels before transforms in float */
    /* The exact pass, by transforms in double. */
    MatchFft *fft64;
    double *plane64, *planes64; /* one plane under a block, the spectra of all */
    double *spectra64;          /* spectrum of template `loaded64` */
    double *mask_spectra64;     /* scaled; with weights, one for each channel; NULL without a mask */
    int loaded64;               /* -1 if none is loaded */
    double pass_ns;             /* infinite if rounding would not be exact */
    double largest;             /* floats: largest magnitude of the templates if they are integers, otherwise infinity */
    /* The search, in one score map at a time. */
    double *costs; /* exact, times MatchError::range; NaN if not known */
    Tile *tiles;   /* of `count` score maps */
    size_t *listed_tiles;
    Best *bests; /* for each thread */
    /* All buffers above. */
    void *memory[MATCH_MAX_BUFFERS];
    size_t buffers, lacking; /* lacking: bytes of an allocation that failed, or 0 */
} MatchHost;

static inline Block match_block(const MatchModel *m, const MatchHost *host, int64_t i) {
    const size_t y = (size_t)(i / host->across * host->block_rows), x = (size_t)(i % host->across * host->block_cols);
    const size_t rows = (size_t)m->orows - y, cols = (size_t)m->ocols - x;
    const Block block = {y, x, rows < (size_t)host->block_rows ? rows : (size_t)host->block_rows,
                         cols < (size_t)host->block_cols ? cols : (size_t)host->block_cols};
    return block;
}

static inline const char *match_row(const cusMat *mat, size_t y) {
    return (const char *)mat->data + y * mat->step;
}

/* Returns how many threads are worth starting for so many operations. */
static inline int match_threadsFor(const MatchHost *host, double operations) {
    const double useful = operations / (1 << 20) + 1;
    return useful < host->threads ? (int)useful : host->threads;
}

static inline size_t match_thisThread(void) {
    return (size_t)cusi_threadNumber();
}

/* Returns how many score rows a thread computes together. */
static inline size_t match_rowsAtOnce(const MatchHost *host) {
    return host->dots ? host->dots->rows : 1;
}

/* Returns the first row of strip i of a block; each thread has one strip. */
static inline size_t match_stripStart(const MatchHost *host, const Block *block, size_t i) {
    const size_t together = match_rowsAtOnce(host), groups = (block->rows + together - 1) / together;
    const size_t start = groups * i / (size_t)host->threads * together;
    return start < block->rows ? start : block->rows;
}

/* Returns the row of the planes of window sums that has row y of the block. */
static inline size_t match_sumsRow(const MatchModel *m, const MatchHost *host, size_t y) {
    const size_t together = match_rowsAtOnce(host);
    return m->masked ? y : match_thisThread() * together + y % together;
}

/* ---- dots.c: the direct algorithm */

/* Cuts the score map into blocks of whole rows. */
void match_planDots(const MatchModel *m, MatchHost *host);

void match_packTemplates(const MatchModel *m, MatchHost *host);

/* Returns the nanoseconds that a frame takes on one thread. */
double match_dotsNs(const MatchModel *m);

void match_packBlock(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block);

/* Computes the correlations of template k in row y of the block. A thread must ask for match_rowsAtOnce() successive
 * rows. */
void match_dotRow(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y, double *out);

/* scores.c: computes scores and ranges of one block for all templates. scores: the score maps or NULL. */
void match_scoreBlock(cusMatcher *matcher, const cusMat *frame, cusMat *scores, const MatchError *errors,
                      const Block *block);

/* Does match_range() for n <= MATCH_TILE positions, with the same bits; but ranges of normed scores of bytes come from
 * estimates in float. s1: a plane for each channel, `plane` apart; NULL with weights. score: NULL if not wanted. The arrays
 * of a tile stay in the L1 cache. */
void match_findRanges(const MatchModel *m, const MatchTemplate *t, const double *shift, MatchError error,
                      const double *correlation, const double *s1, size_t plane, const double *s2, size_t n, float *score,
                      MatchRange *ranges);

/* Finds the least ends of n ranges. */
void match_leastEnds(const MatchRange *ranges, size_t n, float *lower, float *upper);

/* search.c: the first sets the results of template k to "no match", the second finds its matches from its ranges. */
void match_clearMatches(const cusMatcher *matcher, int k);
void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k, MatchError error);

/* window.c: computes the exact score of one window from the pixels. */
double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x);

/* ---- exact.c: exact scores of all positions */

/* Returns the nanoseconds that match_exactScore takes. */
double match_windowNs(const MatchModel *m);

void match_prepareExact(MatchModel *m, MatchHost *host);

/* Computes the unscaled spectrum of plane p of template k (match_templatePlane). */
void match_transformTemplate(const MatchModel *m, const MatchHost *host, int k, int p, double *spectrum);

/* Fills host->costs with the costs of all positions of template k. They are exact if pixels are integers (bytes, or floats
 * that are integers), otherwise computed from correlations and window sums in double. */
void match_exactPass(const MatchModel *m, MatchHost *host, const cusMat *frame, int k);

/* ---- sums.c: planes and sums of frames and templates */

/* Adds n bytes, `stride` apart, to `sum` and their squares to `square`. */
void match_sumBytes(const uint8_t *row, size_t n, size_t stride, uint64_t *sum, uint64_t *square);

/* Returns channel c of template k at a pixel, shifted and weighted. For c = m->channels and above, the mask of channel
 * c - m->channels. */
double match_templatePlane(const MatchModel *m, const MatchHost *host, int k, int c, size_t pixel);

/* Computes the spectra of the frame's channels under a block. plane: room for one channel. Both have the plan's element
 * type. */
void match_transformBlock(const MatchModel *m, const MatchHost *host, const MatchFft *fft, const cusMat *frame,
                          const Block *block, void *plane, void *spectra);

/* Chooses the shift of a frame that has its own: the mean of a sample. */
void match_chooseFrameShift(const MatchModel *m, const cusMat *frame, double *shift);

/* Sums the squares of each shifted channel of the frame. */
void match_frameEnergy(const MatchModel *m, const double *shift, const cusMat *frame, int threads, double *energy);

/* Fills host->s1 and s2 for the windows of a block if the method needs them: the first with a mask, all rows; the second
 * without one, row y, which a thread must ask for after all others of its strip, whose first row is `first`. */
void match_maskedSums(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block);
void match_rowSums(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block, size_t first,
                   size_t y);

#endif
