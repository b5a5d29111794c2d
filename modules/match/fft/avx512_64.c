/* The host's FFT in double with vectors of 64 bytes: AVX-512. */
#define MATCH_FFT_DOUBLE
#define MATCH_FFT_TARGET "avx512f"
#define MATCH_FFT_LANES  8
#define MATCH_FFT_TABLE  match_fft64_avx512
#define MATCH_FFT_LABEL  "AVX-512"
#include "match/fft/kernels.h"
