/* Dot products of bytes with vectors of 32 bytes: AVX-VNNI. */
#define MATCH_DOTS_TARGET "avx2,avxvnni"
#define MATCH_DOTS_LANES  8
#define MATCH_DOTS_TABLE  match_dots_avxvnni
#define MATCH_DOTS_NS     0.018
#define MATCH_DOTS_ADD(sums, pixels, taps) \
    (Lanes) _mm256_dpbusd_avx_epi32((__m256i)(sums), (__m256i)(pixels), (__m256i)(taps))
#include "match/dots/kernels.h"
