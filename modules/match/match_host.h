/* What the stages of the CPU backend share: match_host.c (runs a frame), match_host_prepare.c (plans, allocates),
 * match_host_sums.c (frame energy, window sums), match_host_scores.c (correlation, score ranges of a block),
 * match_host_refine.c (exact scores of windows), match_host_exact.c (exact scores of whole blocks), match_host_search.c (the
 * best of a map). */
#ifndef CUSI_MATCH_HOST_H
#define CUSI_MATCH_HOST_H

#include "match_backend.h"
#include "match_fft_lines.inc"

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
    int team;                         /* threads that share these buffers: each has its row of those for one row */
    char *memory;
    Best best; /* of the positions this thread has computed exactly */
} Worker;

/* A run of MATCH_TILE positions in a row of the score map of the template that is being searched. */
enum { MATCH_TILE = 64 };
typedef struct Tile {
    float lower, upper; /* least ends of ranges: lower of positions without an exact cost, upper of all */
    Best best;          /* of those with one */
    int known;          /* MatchHost.costs is valid here */
} Tile;

/* A row of tiles: the least of their ends, the best of their bests. */
typedef struct Line {
    float lower, upper;
    int stale; /* a tile has changed since */
    Best best;
} Line;

/* What the exact pass and the search know of a block. */
typedef struct BlockState {
    double windows; /* computed one by one so far */
    int64_t wanted; /* candidates of this round */
    int done;       /* the exact pass has been here */
} BlockState;

/* The exact pass: how it cuts the score map, what it costs, and its transforms. */
typedef struct ExactPlan {
    int block_rows, block_cols; /* columns: a multiple of MATCH_TILE, or all */
    int64_t down, across;
    int fft_rows, fft_cols;     /* 0: direct */
    double block_ns, window_ns; /* of one block; of one window computed alone. block_ns infinity: there is no exact pass */
    double units;               /* error of a correlation: times the sum over planes of |plane| |template plane| */
} ExactPlan;

typedef struct MatchHost {
    MatchTemplate *sums;
    char *templates; /* tight; masked-out pixels are 0 */
    uint8_t *mask;   /* 255 or 0 for each element, or NULL */
    size_t template_bytes;
    int fft_rows, fft_cols;
    int block_rows, block_cols; /* of the score map */
    float *spectra;             /* of the templates, count x planes, scaled by 1 / points, not conjugated */
    MatchRange *ranges;         /* count score maps */
    ExactPlan exact;
    MatchFft64 *fft64;
    double *plane64, *planes64;      /* one plane under a block, the spectra of all */
    double *spectra64;               /* of the planes of template `loaded64` */
    int loaded64;                    /* -1: none */
    Worker exact_worker;             /* the buffers of the team that computes blocks of the exact pass by FFT */
    double energy[MATCH_MAX_PLANES]; /* of the frame */
    double largest;                  /* 32F: magnitude of the templates' pixels if they are integers; otherwise infinity */
    int exact_floats;                /* 32F: the frame's correlations are integers that double holds; -1: not known yet */
    double *costs;                   /* exact costs of one score map; NaN: not known */
    Tile *tiles;                     /* of one score map */
    Line *lines;                     /* rows of tiles */
    size_t *listed_tiles;
    BlockState *blocks; /* of the exact pass */
    int64_t *listed_blocks;
    uint32_t *first, *counts; /* 32F: an equal window for each; equal pixels of each column, for each thread */
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

/* What the shift takes from a masked correlation: a constant of the template. */
double match_maskedConstant(const MatchModel *m, const MatchTemplate *t, const MatchHost *host);

/* Direct: prepares worker->planar; makes worker->correlation row `y` of the block for template k. */
void match_loadPlanar(const MatchModel *m, const cusMat *frame, const Block *block, uint8_t *planar);
void match_correlateDirect(const MatchModel *m, const MatchHost *host, const Block *block, int k, size_t y, Worker *worker);

/* Plane p of a template at a pixel: see MatchModel. */
double match_templatePlane(const MatchModel *m, const MatchHost *host, const char *pixels, int p, size_t pixel);

/* The exact score of one position, from the pixels; of MATCH_AT_ONCE neighbors of a 32F map. */
enum { MATCH_AT_ONCE = 8 };
double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x);
void match_exactNeighbors(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x,
                          double *scores);

/* Chooses the blocks of the exact pass; sums: of all templates. direct_ns: of one multiplication of the direct algorithm. */
ExactPlan match_planExact(const MatchModel *m, int fft, const MatchTemplate *sums, int direct_rows, double direct_ns);

/* Prepares the exact pass for template k. */
void match_loadExact(const MatchModel *m, MatchHost *host, int k);

/* Integer pixels, of any type: exact costs of all positions of the listed blocks. Otherwise, by FFT, narrow ranges. */
void match_exactBlocks(const MatchModel *m, MatchHost *host, const cusMat *frame, int k, const int64_t *blocks, int64_t n);

/* Whether match_exactBlocks() gives exact costs of this frame. */
int match_givesCosts(const MatchModel *m, MatchHost *host, const cusMat *frame);

/* host->first becomes, for each position, one whose window has the same pixels. */
void match_findEqualWindows(const MatchModel *m, MatchHost *host, const cusMat *frame);

/* A block of the exact pass. */
static inline Block match_exactBlock(const MatchModel *m, const ExactPlan *plan, int64_t i) {
    Block block = {.y = (size_t)(i / plan->across * plan->block_rows), .x = (size_t)(i % plan->across * plan->block_cols)};
    const size_t rows = (size_t)m->orows - block.y, cols = (size_t)m->ocols - block.x;
    block.rows = rows < (size_t)plan->block_rows ? rows : (size_t)plan->block_rows;
    block.cols = cols < (size_t)plan->block_cols ? cols : (size_t)plan->block_cols;
    return block;
}

/* The results of template k become "no match". */
void match_clearMatches(const cusMatcher *matcher, int k);

/* The matches of template k, from its ranges. */
void match_findMatches(const cusMatcher *matcher, const cusMat *frame, int k);

#endif
