/* Dot products of bytes with vectors of 32 bytes: AVX2. */
#define MATCH_DOTS_TARGET      "avx2"
#define MATCH_DOTS_LANES       8
#define MATCH_DOTS_TABLE       match_dots_avx2
#define MATCH_DOTS_NS          0.058
#define MATCH_DOTS_PAIRS(a, b) (Lanes) _mm256_madd_epi16((__m256i)(a), (__m256i)(b))
#include "match/dots/kernels.h"
