#include "support.hpp"

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    std::printf("seed %llu (set CUSIGHT_TEST_SEED to repeat)\n", static_cast<unsigned long long>(support::seed()));
    return RUN_ALL_TESTS();
}
