// The direct algorithm for bytes on the CPU: dot products with every instruction set, and score maps that are exact.
#include "match/support.hpp"
#include "match/dots/dots.h"

namespace {

using namespace match_test;

// Neither an instruction for it nor pairs: plain C, which other processors use.
#define MATCH_DOTS_SET   plain
#define MATCH_DOTS_LANES 4
#define MATCH_DOTS_NS    1
#include "match/dots/kernels.h"

struct Case {
    size_t rows, width, step, pitch;
    std::vector<uint32_t> pixels, taps;
};

// Bytes are random, or all 255 and all the largest or the smallest tap, whose sums are the largest.
Case makeCase(std::mt19937_64 &random) {
    Case c = {1 + random() % 64, 1 + random() % 20, random() % 2 ? 1u : 4u, 0, {}, {}};
    c.pitch = MATCH_DOTS_COLS + c.width * c.step + random() % 9;
    const auto extreme = random() % 3;
    for (size_t i = 0; i < (c.rows + MATCH_DOTS_ROWS) * c.pitch; ++i)
        c.pixels.push_back(extreme ? 0xffffffff : static_cast<uint32_t>(random()));
    const size_t zeros = c.width;
    c.taps.assign(2 * zeros + c.rows * c.width, 0);
    for (size_t i = 0; i < c.rows * c.width; ++i)
        c.taps[zeros + i] = extreme == 0 ? static_cast<uint32_t>(random()) : extreme == 1 ? 0x7f7f7f7f : 0x80808080;
    return c;
}

int64_t tapSum(uint32_t taps, uint32_t pixels, int shift) {
    int64_t sum = 0;
    for (int b = 0; b < 32; b += 8)
        sum += static_cast<int8_t>(taps >> b) * (static_cast<uint8_t>(pixels >> b) - shift);
    return sum;
}

void check(const Case &c, const char *name, const MatchDots &kernels) {
    SCOPED_TRACE(testing::Message() << name << " rows " << c.rows << " width " << c.width << " step " << c.step);
    const uint32_t *first = c.taps.data() + c.width;
    int64_t start = 0;
    for (const uint32_t tap : c.taps)
        start += tapSum(tap, 0, MATCH_DOTS_SHIFT);
    int32_t sums[MATCH_DOTS_ROWS][MATCH_DOTS_COLS];
    kernels.correlate(c.pixels.data(), c.pitch, c.taps.data(), c.width, c.step, c.rows, static_cast<int32_t>(start), sums);
    for (size_t j = 0; j < MATCH_DOTS_ROWS; ++j)
        for (size_t i = 0; i < MATCH_DOTS_COLS; ++i) {
            int64_t expected = 0;
            for (size_t r = 0; r < c.rows; ++r)
                for (size_t k = 0; k < c.width; ++k)
                    expected +=
                        tapSum(first[r * c.width + k], c.pixels[(j + r) * c.pitch + i + k * c.step], MATCH_DOTS_SHIFT);
            ASSERT_EQ(sums[j][i], expected) << "row " << j << " position " << i;
        }
}

TEST(MatchDots, EveryInstructionSet) {
    auto random = support::generator();
    for (int round = 0; round < 60 && !testing::Test::HasFatalFailure(); ++round) {
        const Case c = makeCase(random);
        check(c, "plain C", table_plain);
        for (int i = 0; const MatchDots *kernels = match_dots_kernels(i); ++i)
            check(c, ("instruction set " + std::to_string(i)).c_str(), *kernels);
    }
}

// Sums near the largest that 32 bits hold, and beyond, where windows are summed up one by one.
TEST(MatchDots, LargeTemplates) {
    auto random = support::generator();
    for (const int side : {361, 362, 363})
        for (const int value : {0, 255}) {
            auto image = flat<uint8_t>(side + 2, side + 3, 1, 255);
            image.data[random() % image.data.size()] = 254;
            compare(image, flat<uint8_t>(side, side, 1, static_cast<uint8_t>(value)), CUS_HOST,
                    with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT));
        }
}

} // namespace
