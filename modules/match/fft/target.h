/* MATCH_FFT_TARGET(features) ... MATCH_FFT_TARGET_END: functions in between are compiled for x86-64 processors with these features. */
#include "match/fft/fft.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define MATCH_FFT_X86       1
#define MATCH_FFT_PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define MATCH_FFT_TARGET(features) \
    MATCH_FFT_PRAGMA(clang attribute push(__attribute__((target(#features))), apply_to = function))
#define MATCH_FFT_TARGET_END MATCH_FFT_PRAGMA(clang attribute pop)
#else
#define MATCH_FFT_TARGET(features) MATCH_FFT_PRAGMA(GCC push_options) MATCH_FFT_PRAGMA(GCC target(#features))
#define MATCH_FFT_TARGET_END       MATCH_FFT_PRAGMA(GCC pop_options)
#endif
#endif
