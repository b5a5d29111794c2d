/* The host's FFT: real 2-D transforms in float. */
#ifndef CUSI_MATCH_FFT_H
#define CUSI_MATCH_FFT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plan with its workspace, for one thread. */
typedef struct MatchFft MatchFft;

/* The vectors that it uses on this processor: "AVX-512", "AVX2" or "16-byte vectors". */
const char *match_fft_name(void);

/* The smallest size >= n that it takes: even, with half of it a product of 2, 3, 5 and 7. */
int match_fft_goodSize(int n);

/* For sizes without a prime factor above 7, cols even; otherwise, or when out of memory, NULL. Planes are tight, rows x cols floats. Only the first `filled` rows of an input are
 * nonzero; only the first `wanted` rows of an inverse transform are needed. */
MatchFft *match_fft_create(int rows, int cols, int filled, int wanted);
void match_fft_destroy(MatchFft *fft);

/* Floats of one spectrum. */
size_t match_fft_spectrumFloats(int rows, int cols);

/* Unscaled. May overwrite the plane. */
void match_fft_forward(MatchFft *fft, float *plane, float *spectrum);
/* sum = a conj(b), or sum += a conj(b). */
void match_fft_correlate(MatchFft *fft, const float *a, const float *b, float *sum, int add);
/* Unscaled. May overwrite the spectrum. */
void match_fft_inverse(MatchFft *fft, float *spectrum, float *plane);

#ifdef __cplusplus
}
#endif

#endif
