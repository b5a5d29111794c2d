/* The host's FFT with vectors of 32 bytes: AVX2. */
#include "match/fft/target.h"

#ifdef MATCH_FFT_X86

MATCH_FFT_TARGET(avx2)
#define MATCH_FFT_LANES 8
#include "match/fft/kernels.h"

const MatchFftKernels match_fft_avx2 = {"AVX2", LANES, forwardRows, forwardColumns, correlate, inverseColumns, inverseRows};

MATCH_FFT_TARGET_END

#endif
