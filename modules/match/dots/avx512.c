/* Dot products of bytes with vectors of 64 bytes: AVX-512 VNNI. */
#define MATCH_DOTS_TARGET                  "avx512f,avx512vnni"
#define MATCH_DOTS_LANES                   16
#define MATCH_DOTS_TABLE                   match_dots_avx512
#define MATCH_DOTS_NS                      0.018
#define MATCH_DOTS_ADD(sums, pixels, taps) (Lanes) _mm512_dpbusd_epi32((__m512i)(sums), (__m512i)(pixels), (__m512i)(taps))
#include "match/dots/kernels.h"
