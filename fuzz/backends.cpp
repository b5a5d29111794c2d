// The CPU backend must give the reference's bits: bytes choose function, shape, step, offset, type, contents and options. One process
// uses one instruction set, CUSIGHT_ISA or the best.
#include "golden/golden.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const std::string different = golden::differentFromReference(bytes, count, CUS_HOST);
    if (different.empty() && !testing::Test::HasFailure()) // those are failed calls, and padding that was written
        return 0;
    std::fprintf(stderr, "%s\n", different.c_str());
    std::abort();
}
