// Random cases of every function against the reference, on both backends, for two seconds or CUSIGHT_RANDOM_SECONDS.
#include "golden/golden.hpp"

#include <chrono>

namespace {

class RandomCases : public support::SpaceTest {};
CUS_BOTH_SPACES(RandomCases);

TEST_P(RandomCases, EqualTheReference) {
    auto random = support::generator();
    const char *const wanted = std::getenv("CUSIGHT_RANDOM_SECONDS");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 2);
    int cases = 0;
    for (; std::chrono::steady_clock::now() < end && !HasFailure(); ++cases) {
        std::vector<uint8_t> bytes(64);
        for (auto &b : bytes)
            b = static_cast<uint8_t>(random());
        EXPECT_EQ(golden::differentFromReference(bytes.data(), bytes.size(), space()), "");
    }
    std::printf("%d cases\n", cases);
}

} // namespace
