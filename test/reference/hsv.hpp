// Counting pixels in an HSV range, from the formulas.
#pragma once

#include "cusight/hsv.h"

#include <algorithm>
#include <cmath>

namespace reference {

struct Hsv {
    int h, s, v;
};

// OpenCV's COLOR_BGR2HSV of 8-bit pixels: fixed point with 12 fraction bits, reciprocals rounded half to even.
inline Hsv hsv(int b, int g, int r) {
    const int v = std::max({b, g, r}), diff = v - std::min({b, g, r});
    const auto scale = [](double numerator, int denominator) {
        return denominator ? static_cast<int>(std::nearbyint(numerator * 4096 / denominator)) : 0;
    };
    const auto round12 = [](int value) { return (value + 2048) >> 12; };
    const int s = round12(diff * scale(255, v));
    const int sector = v == r ? g - b : v == g ? b - r + 2 * diff : r - g + 4 * diff;
    const int h = round12(sector * scale(30, diff));
    return {h < 0 ? h + 180 : h, s, v};
}

inline bool inRange(const Hsv &c, const cusHsvRange &range) {
    const bool hue = range.lower[0] <= range.upper[0] ? c.h >= range.lower[0] && c.h <= range.upper[0]
                                                      : c.h >= range.lower[0] || c.h <= range.upper[0];
    return hue && c.s >= range.lower[1] && c.s <= range.upper[1] && c.v >= range.lower[2] && c.v <= range.upper[2];
}

} // namespace reference
