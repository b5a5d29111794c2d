/* The host's FFT in double with vectors of 16 bytes, which every processor has: SSE2, NEON. */
#define MATCH_FFT_DOUBLE
#define MATCH_FFT_LANES 2
#include "match/fft/kernels.h"

const MatchFftKernels64 match_fft64_base = {"16-byte vectors", LANES,          forwardRows, forwardColumns,
                                            correlate,         inverseColumns, inverseRows};
