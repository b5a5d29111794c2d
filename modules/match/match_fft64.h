/* The host's exact correlation: complex 2-D transforms in double. One transform carries two real images, as real and imaginary
 * part; correlated with a real template, each part is its own image's correlation. docs/internals/match-host.md. */
#ifndef CUSI_MATCH_FFT64_H
#define CUSI_MATCH_FFT64_H

#include <stddef.h>

/* Rows and columns are multiples of this. */
enum { MATCH_FFT64_LANES = 8 };

/* Twiddle factors, read-only after creation, for any number of threads. */
typedef struct MatchFft64 MatchFft64;

/* The smallest size >= n that is fast: 8 2^a 3^b 5^c. */
int match_fft64_goodSize(int n);

/* For good sizes; NULL when out of memory. */
MatchFft64 *match_fft64_create(int rows, int cols);
void match_fft64_destroy(MatchFft64 *fft);

/* Doubles of one image or spectrum, and of a thread's workspace. */
size_t match_fft64_planeDoubles(const MatchFft64 *fft);
size_t match_fft64_workDoubles(const MatchFft64 *fft);

/* All arrays are aligned to 64 bytes. Images are bands of 8 rows: the first image's column x of a band is the 8 doubles at
 * 16 x, the second image's follow at 16 x + 8. The address of band i. */
double *match_fft64_band(const MatchFft64 *fft, double *plane, size_t i);

/* Transforms one band along its rows, in place. */
void match_fft64_transformBand(const MatchFft64 *fft, double *band, double *work);

/* A template's spectrum, divided by the number of points, from its first `bands` transformed bands; the others are zero. */
void match_fft64_spectrum(const MatchFft64 *fft, double *plane, size_t bands, double *spectrum, double *work);

/* planes: `count` images one after the other, whose first `bands` bands have been transformed; spectra: those of their
 * templates. The first `wanted` bands of planes become those of the sum of all correlations with the two images exchanged, once
 * match_fft64_transformBand() has been called for each. */
void match_fft64_correlate(const MatchFft64 *fft, double *planes, double *spectra, int count, size_t bands, size_t wanted,
                           double *work);

#endif
