/* What this build of the library contains. */
#include "build_information.h" /* in the build folder: cmake/build_information.h.in */
#include "check.h"
#include "host.h"

#define STRING(x) #x
#define NUMBER(x) STRING(x)
#define VERSION   NUMBER(CUSIGHT_VERSION_MAJOR) "." NUMBER(CUSIGHT_VERSION_MINOR) "." NUMBER(CUSIGHT_VERSION_PATCH)

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CUSI_SANITIZE)
#define PROCESSOR "x86-64, with AVX2 and AVX-512 where the processor has them"
#elif defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "AArch64"
#else
#define PROCESSOR "other"
#endif

const char *cusBuildInformation(void) {
    return "cusight " VERSION "\n" CUSI_BUILD_INFORMATION "  Processor:      " PROCESSOR "\n"
           "  Build type:     " CUSI_BUILD_TYPE "\n";
}
