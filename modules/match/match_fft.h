/* The host's FFT: one interface to whichever library is available. Real 2-D transforms in float. */
#ifndef CUSI_MATCH_FFT_H
#define CUSI_MATCH_FFT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plan with its workspace, for one thread. */
typedef struct MatchFft MatchFft;

/* "OpenCV", "KissFFT" or "none". */
const char *match_fft_name(void);

/* The smallest size >= n that the library transforms fast (even). */
int match_fft_goodSize(int n);

/* For even sizes; NULL when out of memory. Planes are tight, rows x cols floats. Only the first `filled` rows of an input are
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
