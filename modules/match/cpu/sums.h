/* Planes and sums of frames and templates. */
#ifndef CUSI_MATCH_CPU_SUMS_H
#define CUSI_MATCH_CPU_SUMS_H

#include "match/cpu/state.h"

/* sum and square grow by those of n bytes, `stride` apart (1 or 3). */
void match_sumBytes(const uint8_t *row, size_t n, size_t stride, uint64_t *sum, uint64_t *square);

/* Element x of the squares plane of a masked SQDIFF. */
double match_squarePlane(const MatchModel *m, const void *row, size_t x);

/* Plane p of a template at a pixel: see MatchModel. */
double match_templatePlane(const MatchModel *m, const MatchHost *host, const char *pixels, int p, size_t pixel);

/* What the shift takes from a masked correlation: a constant of the template. */
double match_maskedConstant(const MatchModel *m, const MatchTemplate *t, const MatchHost *host);

/* Sums of squares of the frame's shifted planes. */
void match_frameEnergy(const MatchModel *m, const cusMat *frame, int threads, double *energy);

/* Fills host->s1 and s2 for the windows of a block, as far as the method needs them. */
void match_windowSums(const MatchModel *m, const MatchHost *host, const cusMat *frame, const Block *block);

#endif
