/* The host's FFT with vectors of 32 bytes: AVX2. */
#define MATCH_FFT_TARGET "avx2"
#define MATCH_FFT_LANES  8
#define MATCH_FFT_TABLE  match_fft_avx2
#define MATCH_FFT_LABEL  "AVX2"
#include "match/fft/kernels.h"
