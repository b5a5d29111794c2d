/* What this build of the library contains. */
#include "build_information.h" /* in the build folder: cmake/build_information.h.in */
#include "check.h"
#include "host.h"

#define STRING(x) #x
#define NUMBER(x) STRING(x)
#define VERSION   NUMBER(CUSIGHT_VERSION_MAJOR) "." NUMBER(CUSIGHT_VERSION_MINOR) "." NUMBER(CUSIGHT_VERSION_PATCH)

#define BEFORE "cusight " VERSION "\n" CUSI_BUILD_INFORMATION "  Processor:      "
#define AFTER  "\n  Build type:     " CUSI_BUILD_TYPE "\n"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CUSI_SANITIZE) && !defined(target_clones)
/* What CUSI_MULTIVERSION chooses on this processor. */
#define OF_THREE(set) BEFORE "x86-64, runs " set " (built for SSE2, AVX2, AVX-512)" AFTER
#if __GNUC__ < 12
#define HAS_AVX512 __builtin_cpu_supports("avx512f")
#define HAS_AVX2   __builtin_cpu_supports("avx2")
#else
#define HAS_AVX512 __builtin_cpu_supports("x86-64-v4")
#define HAS_AVX2   __builtin_cpu_supports("x86-64-v3")
#endif
const char *cusBuildInformation(void) {
    return HAS_AVX512 ? OF_THREE("AVX-512") : HAS_AVX2 ? OF_THREE("AVX2") : OF_THREE("SSE2");
}
#else
#if defined(__x86_64__)
#define PROCESSOR "x86-64, SSE2 where the compiler vectorizes"
#elif defined(__aarch64__)
#define PROCESSOR "AArch64, NEON"
#else
#define PROCESSOR "other"
#endif
const char *cusBuildInformation(void) {
    return BEFORE PROCESSOR AFTER;
}
#endif
