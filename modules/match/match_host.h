/* What the stages of the CPU backend share: match_host.c (runs a frame), match_host_prepare.c (plans, allocates),
 * match_host_sums.c (frame energy, window sums), match_host_scores.c (correlation, score ranges of a block),
 * match_host_refine.c (exact scores, the best of a map). */
#ifndef CUSI_MATCH_HOST_H
#define CUSI_MATCH_HOST_H

#include "match_backend.h"
#include "match_fft.h"

/* The best position so far. */
typedef struct Best {
    double cost;
    size_t position;
} Best;

/* One thread's buffers, and the best position it has found. */
typedef struct Worker {
    MatchFft *fft;
    float *plane, *spectra, *product; /* one plane, the planes' spectra, their product */
    uint8_t *planar;                  /* direct: the block's channels, deinterleaved */
    uint32_t *sum32;                  /* direct: one score row in 32 bits, flushed before it overflows */
    double *correlation;              /* one score row */
    double *s1, *s2;                  /* window sums of a block: one plane a channel; one plane */
    double *column1, *column2;        /* sums over h rows of each column: one row a channel; one row */
    char *memory;
    Best best; /* of the positions this thread has computed exactly */
} Worker;

typedef struct MatchHost {
    MatchTemplate *sums;
    char *templates; /* tight; masked-out pixels are 0 */
    uint8_t *mask;   /* 255 or 0 for each element, or NULL */
    size_t template_bytes;
    int fft_rows, fft_cols;
    int block_rows, block_cols; /* of the score map */
    float *spectra;             /* of the templates, count x planes, scaled by 1 / points, not conjugated */
    MatchRange *ranges;         /* count score maps */
    Worker *workers;
    int threads;
} MatchHost;

/* A rectangle of the score map. */
typedef struct Block {
    size_t y, x, rows, cols;
} Block;

static inline const char *match_row(const cusMat *mat, size_t y) {
    return (const char *)mat->data + y * mat->step;
}

/* Threads worth starting for this many operations. */
static inline int match_threadsFor(const MatchHost *host, double operations) {
    const double useful = operations / (1 << 20) + 1;
    return useful < host->threads ? (int)useful : host->threads;
}

Worker *match_thisWorker(const MatchHost *host);

/* sum and square grow by those of n bytes, `stride` apart (1 or 3). */
void match_sumBytes(const uint8_t *row, size_t n, size_t stride, uint64_t *sum, uint64_t *square);

/* Element x of the squares plane of a masked SQDIFF. */
double match_squarePlane(const MatchModel *m, const void *row, size_t x);

/* Sums of squares of the frame's shifted planes. */
void match_frameEnergy(const MatchModel *m, const cusMat *frame, int threads, double *energy);

/* Fills worker->s1 and s2 for the windows of a block, as far as the method needs them. */
void match_windowSums(const MatchModel *m, const cusMat *frame, const Block *block, Worker *worker);

/* Scores and ranges of one block for all templates. scores: NULL or the score maps. */
void match_scoreBlock(cusMatcher *matcher, const cusMat *frame, cusMat *scores, const MatchError *errors,
                      const Block *block, Worker *worker);

/* The exact score of one position, from the pixels. */
double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x);

/* The results of template k become "no match". */
void match_clearMatches(const cusMatcher *matcher, int k);

/* The matches of template k, from its ranges. */
void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k);

#endif
