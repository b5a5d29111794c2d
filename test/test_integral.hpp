// What the tests of integral share.
#pragma once

#include "support.hpp"

#include "cusight/integral.h"

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

int sumType(const Case &c) {
    return c.type == CUS_8UC1 && c.sum_depth == CUS_32S ? CUS_32SC1 : CUS_64FC1;
}

} // namespace
