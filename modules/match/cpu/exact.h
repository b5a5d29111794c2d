/* Exact scores. */
#ifndef CUSI_MATCH_CPU_EXACT_H
#define CUSI_MATCH_CPU_EXACT_H

#include "match/cpu/state.h"

/* The score of one window, from the pixels. */
double match_exactScore(const MatchModel *m, const MatchHost *host, const cusMat *frame, int k, size_t y, size_t x);

/* Nanoseconds that takes. */
double match_windowNs(const MatchModel *m);

/* Prepares what is below. sums: of all templates. */
cusStatus match_prepareExact(const MatchModel *m, MatchHost *host, const void *templates, const MatchTemplate *sums);

/* The spectrum, unscaled, of plane p of template k. */
void match_transformTemplate(const MatchModel *m, const MatchHost *host, int k, int p, double *spectrum);

/* host->costs becomes the costs of all positions of template k: exact if pixels are integers (bytes, or floats that are), otherwise
 * from correlations and window sums in double. */
void match_exactPass(const MatchModel *m, MatchHost *host, const cusMat *frame, int k);

#endif
