/* The host's FFT in double with vectors of 32 bytes: AVX2. */
#define MATCH_FFT_DOUBLE
#define MATCH_FFT_TARGET "avx2"
#define MATCH_FFT_LANES  4
#define MATCH_FFT_TABLE  match_fft64_avx2
#define MATCH_FFT_LABEL  "AVX2"
#include "match/fft/kernels.h"
