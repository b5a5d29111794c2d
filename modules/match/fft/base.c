/* The host's FFT with vectors of 16 bytes, which every processor has: SSE2, NEON. */
#define MATCH_FFT_LANES 4
#include "match/fft/kernels.h"

const MatchFftKernels match_fft_base = {"16-byte vectors", LANES,          forwardRows, forwardColumns,
                                        correlate,         inverseColumns, inverseRows};
