/* The host's FFT in float: choice of the vector length, planes. */
#include "host.h"
#include "match/fft/fft.h"

#include <stdlib.h>
#include <string.h>

#define MATCH_FFT_REAL       float
#define MATCH_FFT_TYPE(name) name
#define MATCH_FFT_NAME(name) match_fft_##name
#include "match/fft/planes.h"

size_t match_fft_spectrumFloats(int rows, int cols) {
    const MatchFftKernels *const kernels = match_fft_kernels(0);
    return panels(cols, kernels) * 2 * kernels->lanes * (size_t)rows;
}

size_t match_threadOf(int team) {
#ifdef _OPENMP
    return team > 1 ? (size_t)omp_get_thread_num() : 0;
#else
    (void)team;
    return 0;
#endif
}

const char *match_fft_name(void) {
    return match_fft_kernels(0)->name;
}
