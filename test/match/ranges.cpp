// Ranges of scores on the host: a part of a row at once, with the bits of match_range(), or its range and a little more.
#include "match/support.hpp"

extern "C" {
#include "match/cpu/state.h"
}

#include <cstring>

namespace {

using namespace match_test;

struct Case {
    MatchModel m{};
    MatchTemplate t{};
    MatchError error{0, 0, 0, 1, 1};
    double shift[MATCH_MAX_CHANNELS]{};
};

// Sums as windows of about `n` pixels have them: integers for bytes. Some windows are flat, some are without energy.
Case drawCase(std::mt19937_64 &random, cusMatchMethod method, int channels, bool integer, double n, bool flat) {
    const auto draw = [&](double scale) {
        const double v = (static_cast<double>(random() >> 11) * 0x1p-52 - 1) * scale;
        return integer ? std::rint(v) : v;
    };
    Case c;
    c.m.method = method;
    c.m.channels = channels;
    c.m.integer = integer;
    c.m.n = n;
    c.m.unit = integer ? 1 : 0x1p-3;
    for (int k = 0; k < channels; ++k) {
        c.shift[k] = draw(100);
        c.t.shift[k] = integer ? c.shift[k] : draw(100);
        c.t.t1[k] = draw(n);
    }
    c.t.t2 = std::abs(draw(n * 1000));
    c.t.raw_t2 = flat ? 0 : c.t.t2 + std::abs(draw(n * 100));
    c.t.variation = flat ? 0 : std::abs(draw(n * 900));
    c.t.step = 0x1p-36 * c.t.t2;
    c.error.correlation = std::abs(draw(n));
    if (!integer)
        c.error = {c.error.correlation, std::abs(draw(n)), std::abs(draw(n * 20)), 0x1p4, 0x1p-20};
    return c;
}

// Ranges of normed scores of bytes come from estimates in float. They must have all of a range, but for its rounding to
// float, and little more. An error of 2 or more says nothing.
void compareEstimate(const MatchRange &range, const MatchRange &estimate) {
    const double middle = (static_cast<double>(range.lower) + range.upper) / 2, half = range.upper - middle;
    const double rounding = 0x1p-22 * std::abs(middle) + 0x1p-23 * half, more = 0x1p-19 * (std::abs(middle) + half);
    ASSERT_LE(estimate.lower, range.lower + rounding) << range.upper;
    ASSERT_GE(estimate.upper, range.upper - rounding) << range.lower;
    if (half >= 2)
        return;
    ASSERT_GE(estimate.lower, range.lower - more) << range.upper;
    ASSERT_LE(estimate.upper, range.upper + more) << range.lower;
}

void compareRanges(std::mt19937_64 &random, const Case &c) {
    constexpr size_t PLANE = 71;
    double correlation[PLANE], s1[MATCH_MAX_CHANNELS * PLANE], s2[PLANE];
    for (size_t i = 0; i < PLANE; ++i) {
        const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
        double squares = 0;
        for (size_t k = 0; k < MATCH_MAX_CHANNELS; ++k) {
            s1[k * PLANE + i] = (unit - 0.5) * c.m.n * static_cast<double>(random() % 200);
            if (c.m.integer)
                s1[k * PLANE + i] = std::rint(s1[k * PLANE + i]);
            squares += k < static_cast<size_t>(c.m.channels) ? s1[k * PLANE + i] * s1[k * PLANE + i] / c.m.n : 0;
        }
        correlation[i] = (unit - 0.5) * c.m.n * (i % 2 ? 2000 : 0);
        for (size_t k = 0; k < static_cast<size_t>(c.m.channels); ++k) // half of the scores are not -1 or 1
            correlation[i] += s1[k * PLANE + i] * c.t.t1[k] / c.m.n;
        s2[i] = std::ceil(squares) + static_cast<double>(random() % 3) * std::rint(unit * c.m.n * 100); // a third: flat
        if (random() % 16 == 0) {
            s2[i] = 0;
            for (size_t k = 0; k < MATCH_MAX_CHANNELS; ++k)
                s1[k * PLANE + i] = 0;
        }
    }
    const bool exact = !c.m.integer || !(c.m.method & 1);
    for (size_t n : {size_t{1}, size_t{7}, size_t{64}}) {
        float scores[MATCH_TILE];
        MatchRange ranges[MATCH_TILE], alone[MATCH_TILE];
        match_findRanges(&c.m, &c.t, c.shift, c.error, correlation, s1, PLANE, s2, n, scores, ranges);
        match_findRanges(&c.m, &c.t, c.shift, c.error, correlation, s1, PLANE, s2, n, nullptr, alone);
        ASSERT_EQ(std::memcmp(ranges, alone, n * sizeof *ranges), 0) << "without scores";
        for (size_t i = 0; i < n; ++i) {
            double sums[MATCH_MAX_CHANNELS];
            for (size_t k = 0; k < MATCH_MAX_CHANNELS; ++k)
                sums[k] = s1[k * PLANE + i];
            float score;
            const MatchRange range = match_range(&c.m, &c.t, c.shift, correlation[i], c.error, sums, s2[i], &score);
            ASSERT_EQ(std::memcmp(&score, &scores[i], sizeof score), 0) << i << ": " << score << ", not " << scores[i];
            SCOPED_TRACE(i);
            if (exact)
                ASSERT_EQ(std::memcmp(&range, &ranges[i], sizeof range), 0)
                    << range.lower << " .. " << range.upper << ", not " << ranges[i].lower << " .. " << ranges[i].upper;
            else
                ASSERT_NO_FATAL_FAILURE(compareEstimate(range, ranges[i]));
        }
    }
}

TEST(MatchRanges, AreThoseOfOnePosition) {
    auto random = support::generator();
    for (auto method : METHODS)
        for (int channels = 1; channels <= 4; ++channels)
            for (bool integer : {true, false})
                for (double n : {1.0, 64.0, 4096.0, 262144.0, 4e6}) // sums of the last two need more than 53 bits
                    for (bool flat : {false, true}) {
                        SCOPED_TRACE(testing::Message() << "method " << method << ", " << channels << " channels, integer "
                                                        << integer << ", n " << n << ", flat " << flat);
                        compareRanges(random, drawCase(random, method, channels, integer, n, flat));
                    }
}

} // namespace
