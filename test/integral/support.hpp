// What the tests of integral share.
#pragma once

#include "reference/integral.hpp"
#include "../support.hpp"

#include "cusight/integral.h"

#include <cmath>

namespace {

constexpr double EPSILON = 1.0 / (1ull << 53); // relative error of one rounding in double

// A source type, and which tables are computed from it.
struct Case {
    int type, sum_depth;
    bool sum, sqsum;
};
const Case CASES[] = {{CUS_8UC1, CUS_32S, true, false},  {CUS_8UC1, CUS_64F, true, false},
                      {CUS_8UC1, CUS_32S, false, true},  {CUS_8UC1, CUS_32S, true, true},
                      {CUS_8UC1, CUS_64F, true, true},   {CUS_32FC1, CUS_32S, true, false},
                      {CUS_32FC1, CUS_64F, false, true}, {CUS_32FC1, CUS_64F, true, true}};

[[maybe_unused]] cusIntegralOptions depthOf(int sum_depth) {
    cusIntegralOptions options = cusIntegralDefaults();
    options.sum_depth = sum_depth;
    return options;
}

int sumType(const Case &c) {
    return c.type == CUS_8UC1 && c.sum_depth == CUS_32S ? CUS_32SC1 : CUS_64FC1;
}

// Floats of both signs over many magnitudes.
[[maybe_unused]] std::vector<float> randomFloats(size_t n, std::mt19937_64 &random) {
    std::vector<float> v(n);
    for (auto &f : v)
        f = std::ldexp(static_cast<float>(static_cast<int64_t>(random() >> 40) - (1 << 23)),
                       static_cast<int>(random() % 24) - 24);
    return v;
}

// Every set of tables of `in`, whose pixels are `bytes`, so that sums of floats too are exact in any order. `tables`: their layout, in
// entries.
[[maybe_unused]] void checkTables(support::TestMat &in, const std::vector<uint8_t> &bytes, support::Layout tables) {
    const cusMat &src = in.mat;
    const size_t rows = static_cast<size_t>(src.rows), cols = static_cast<size_t>(src.cols);
    const auto narrow = reference::integral<uint32_t>(bytes, rows, cols);
    const auto sums = reference::integral<double>(bytes, rows, cols),
               squares = reference::integral<double>(bytes, rows, cols, true);
    for (const Case &c : CASES) {
        if (c.type != src.type)
            continue;
        SCOPED_TRACE(testing::Message() << rows << " x " << cols << ", type " << c.type << ", tables at " << tables.offset
                                        << " + " << tables.padding << ", depth " << c.sum_depth << ", tables " << c.sum
                                        << c.sqsum);
        const bool is32 = sumType(c) == CUS_32SC1;
        const size_t entry = is32 ? 4 : 8;
        support::TestMat sum(src.rows + 1, src.cols + 1, sumType(c), src.space,
                             {tables.padding * entry, tables.offset * entry}),
            sqsum(src.rows + 1, src.cols + 1, CUS_64FC1, src.space, {tables.padding * 8, tables.offset * 8});
        const cusIntegralOptions options = depthOf(c.sum_depth);
        CUS_ASSERT_OK(cusIntegral(&src, c.sum ? &sum.mat : nullptr, c.sqsum ? &sqsum.mat : nullptr, &options, nullptr));
        ASSERT_TRUE(!c.sum || (is32 ? sum.get<uint32_t>() == narrow : sum.get<double>() == sums));
        ASSERT_TRUE(!c.sqsum || sqsum.get<double>() == squares);
        ASSERT_TRUE(in.intact() && sum.intact() && sqsum.intact());
    }
}

// A 64FC1 table of floats on a device: within the bound of the header.
[[maybe_unused]] void expectWithinBound(const std::vector<double> &got, const std::vector<float> &src, int rows, int cols,
                                        bool squares) {
    std::vector<float> magnitudes(src);
    for (auto &m : magnitudes)
        m = std::fabs(m);
    const auto expected = reference::integral<double>(src, rows, cols, squares),
               bound = reference::integral<double>(magnitudes, rows, cols, squares);
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_LE(std::fabs(got[i] - expected[i]), 2.0 * (rows + cols + 64) * EPSILON * bound[i]) << "entry " << i;
}

// A pixel at (y0, x0) that is not finite, among pixels of 1.5: it makes every entry below and to the right of it not finite, and no
// other.
[[maybe_unused]] void checkSpread(const cusMat &in, int y0, int x0) {
    support::TestMat sum(in.rows + 1, in.cols + 1, CUS_64FC1, in.space),
        sqsum(in.rows + 1, in.cols + 1, CUS_64FC1, in.space);
    CUS_ASSERT_OK(cusIntegral(&in, &sum.mat, &sqsum.mat, nullptr, nullptr));
    const auto s = sum.get<double>(), q = sqsum.get<double>();
    size_t i = 0;
    for (int y = 0; y <= in.rows; ++y)
        for (int x = 0; x <= in.cols; ++x, ++i)
            if (y > y0 && x > x0) {
                ASSERT_FALSE(std::isfinite(s[i]) || std::isfinite(q[i])) << y << ", " << x;
            } else {
                ASSERT_EQ(s[i], 1.5 * x * y);
                ASSERT_EQ(q[i], 2.25 * x * y);
            }
}

} // namespace
