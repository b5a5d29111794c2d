/* The host's FFT with vectors of 64 bytes: AVX-512. */
#include "match/fft/target.h"

#ifdef MATCH_FFT_X86

MATCH_FFT_TARGET(avx512f)
#define MATCH_FFT_LANES 16
#include "match/fft/kernels.h"

const MatchFftKernels match_fft_avx512 = {"AVX-512", LANES,          forwardRows, forwardColumns,
                                          correlate, inverseColumns, inverseRows};

MATCH_FFT_TARGET_END

#endif
