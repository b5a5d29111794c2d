// Which variant of its loops the library runs: what CUSIGHT_ISA selects is what runs.
#include "variants/instruction_set.h"

#include "cusight/match.h"
#include "host.h"
#include "integral/backend.h"
#include "match/dots/dots.h"
#include "support.hpp"

namespace {

TEST(Variants, TheChosenSetIsAvailable) {
    const char *value = std::getenv("CUSIGHT_ISA");
    const std::string set = instructionSet();
    if (value && *value) {
        EXPECT_EQ(set, value);
    }
    std::string last;
    bool listed = false;
    for (int i = 0; availableInstructionSet(i); ++i)
        listed |= set == (last = availableInstructionSet(i));
    EXPECT_TRUE(listed);
    if (!value || !*value) {
        EXPECT_EQ(set, last);
    }
    EXPECT_EQ(availableInstructionSet(-1), nullptr);
}

#ifdef __x86_64__
TEST(Variants, TheLibraryRunsTheChosenSet) {
    const std::string set = instructionSet();
    __builtin_cpu_init();
    EXPECT_EQ(__builtin_cpu_supports("avx2") != 0, set != "sse2");
    const bool avx512 = set == "avx512" || set == "amx";
    EXPECT_EQ(__builtin_cpu_supports("avx512f") != 0, avx512);
    EXPECT_STREQ(cusMatcherHostFft(), set == "sse2" ? "16-byte vectors" : set == "avx2" ? "AVX2" : "AVX-512");
    EXPECT_EQ(match_dots_kernels(1) != nullptr, set != "sse2");
    EXPECT_EQ(match_dots_kernels(0)->words == 16, set == "amx") << "tiles";
    EXPECT_EQ(integral_host_supports(INTEGRAL_AVX512), avx512);
    if (!avx512) {
        EXPECT_FALSE(__builtin_cpu_supports("avx512vbmi2") || __builtin_cpu_supports("avx512vnni"));
    }
#if __GNUC__ >= 12 && !defined(CUSI_SANITIZE) && \
    defined(__OPTIMIZE__) /* clang says 4; GCC 11 clones for AVX2 without FMA */
    volatile double a = 1 + 0x1p-30, product = a * a;
    const std::string built = cusBuildInformation(), name = set == "sse2" ? "SSE2" : set == "avx2" ? "AVX2" : "AVX-512";
    EXPECT_NE(built.find(" runs " + name + " ("), std::string::npos) << built;
    EXPECT_EQ(productPlus(a, a, -product) != 0, set != "sse2") << "the loader picked another clone";
#endif
}
#endif

} // namespace
