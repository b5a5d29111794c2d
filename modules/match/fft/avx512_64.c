/* The host's FFT in double with vectors of 64 bytes: AVX-512. */
#include "match/fft/target.h"

#ifdef MATCH_FFT_X86

MATCH_FFT_TARGET(avx512f)
#define MATCH_FFT_DOUBLE
#define MATCH_FFT_LANES 8
#include "match/fft/kernels.h"

const MatchFftKernels64 match_fft64_avx512 = {"AVX-512", LANES,          forwardRows, forwardColumns,
                                              correlate, inverseColumns, inverseRows};

MATCH_FFT_TARGET_END

#endif
