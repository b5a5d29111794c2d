/* The host's FFT in double: for correlations that become exact when rounded, and for the templates' float spectra, which
 * then add only their rounding to the error. */
#include "host.h"
#include "match/fft/fft.h"

#include <stdlib.h>
#include <string.h>

#define MATCH_FFT_REAL       double
#define MATCH_FFT_TYPE(name) name##64
#define MATCH_FFT_NAME(name) match_fft64_##name
#include "match/fft/planes.h"

/* Panels may be wider or narrower than those in float. */
void match_fft_roundSpectrum(const MatchFft64 *wide, const double *from, double scale, const MatchFft *fft, float *to) {
    const size_t from_lanes = wide->kernels->lanes, to_lanes = fft->kernels->lanes;
    memset(to, 0, match_fft_panels(fft) * match_fft_panelSize(fft) * sizeof *to);
    for (size_t x = 0; x < (size_t)fft->cols / 2; ++x) {
        const double *in = from + x / from_lanes * match_fft64_panelSize(wide) + x % from_lanes;
        float *out = to + x / to_lanes * match_fft_panelSize(fft) + x % to_lanes;
        for (size_t y = 0; y < (size_t)fft->rows; ++y, in += 2 * from_lanes, out += 2 * to_lanes) {
            out[0] = (float)(in[0] * scale);
            out[to_lanes] = (float)(in[from_lanes] * scale);
        }
    }
}

/* ---- Vectors of 16 bytes, which every processor has: SSE2, NEON */

#define MATCH_FFT_DOUBLE
#define MATCH_FFT_LANES 2
#define MATCH_FFT_TABLE match_fft64_base
#define MATCH_FFT_LABEL "16-byte vectors"
#include "match/fft/kernels.h"
