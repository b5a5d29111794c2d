#include "support.hpp"

#ifndef GTEST_FLAG_GET // GoogleTest before 1.12
#define GTEST_FLAG_GET(name) ::testing::GTEST_FLAG(name)
#endif

namespace {

// The first call that uses a device creates its context, which takes longer than most tests. Before CUDA tests that happens
// here, so that the time reported for a test is its own.
class DeviceContext : public testing::Environment {
    void SetUp() override {
        const std::string filter = GTEST_FLAG_GET(filter);
        const bool cuda_tests =
            filter == "*" || filter.find("/cuda") != std::string::npos || filter.find("Cuda.") != std::string::npos;
        support::Mat mat;
        if (cuda_tests && support::haveGpu())
            CUS_EXPECT_OK(cusMatCreate(&mat, 1, 1, CUS_8UC1, CUS_DEVICE));
    }
};

// ASSERT_ ends the whole test, also from the functions that it calls.
class EndTest : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult &result) override {
        if (result.fatally_failed())
            throw testing::AssertionException(result);
    }
};

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    testing::AddGlobalTestEnvironment(new DeviceContext);
    testing::UnitTest::GetInstance()->listeners().Append(new EndTest);
    std::printf("CUSIGHT_TEST_SEED=%llu\n", static_cast<unsigned long long>(support::seed()));
    return RUN_ALL_TESTS();
}
