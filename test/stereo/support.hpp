// Cases for the tests of stereo: images in either space, random pairs, holes and options, and comparison with the reference.
#pragma once

#include "../support.hpp"
#include "cusight/stereo.h"
#include "reference/stereo.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace stereo_test {

namespace ref = reference::stereo;
using support::Layout;
using support::TestMat;

template<class T>
int typeOf() {
    return std::is_same_v<T, float> ? CUS_32FC1 : std::is_same_v<T, uint16_t> ? CUS_16UC1 : CUS_8UC1;
}

template<class T>
testing::AssertionResult same(const cusMat &got, const ref::Image<T> &want) {
    if (got.type != typeOf<T>() || got.rows != want.rows || got.cols != want.cols)
        return testing::AssertionFailure() << "other type or size";
    const auto data = support::elements<T>(got);
    for (size_t i = 0; i < data.size(); ++i)
        if (std::memcmp(&data[i], &want.data[i], sizeof(T)) != 0)
            return testing::AssertionFailure()
                   << "at (y, x) = (" << i / want.cols << ", " << i % want.cols << ") of " << want.rows << " x "
                   << want.cols << ": " << +data[i] << ", the reference has " << +want.data[i];
    return testing::AssertionSuccess();
}

template<class T>
struct Placed : TestMat {
    Placed(const ref::Image<T> &image, cusSpace space, Layout layout = {})
        : TestMat(image.rows, image.cols, typeOf<T>(), space, layout, image.data.data()) {}
};

template<class T>
ref::Image<T> randomImage(int rows, int cols, std::mt19937_64 &random) {
    ref::Image<T> image(rows, cols);
    const bool coarse = random() & 1; // few levels: flat areas and ties
    for (auto &v : image.data) {
        const auto byte = static_cast<uint8_t>(coarse ? (random() & 3) * 85 : random());
        v = std::is_same_v<T, float> ? static_cast<T>(byte / 255.0f) : static_cast<T>(byte);
    }
    return image;
}

// A right image that is the left one moved by the first and the last shifts in turn, plus noise: agreements with structure.
inline ref::Bytes matchOf(const ref::Bytes &left, int direction, int shifts, std::mt19937_64 &random) {
    ref::Bytes right(left.rows, left.cols);
    for (int y = 0; y < left.rows; ++y)
        for (int x = 0; x < left.cols; ++x) {
            const int tile = x / 16 + y / 16, s = tile % 2 ? shifts - 1 - tile / 2 % shifts : tile / 2 % shifts;
            right(y, x) =
                random() % 16 ? left.value(y, x - direction * s, CUS_STEREO_WRAP) : static_cast<uint8_t>(random());
        }
    return right;
}

inline ref::Elevation randomHoles(int rows, int cols, std::mt19937_64 &random) {
    ref::Elevation e(rows, cols);
    const uint64_t known = 1 + random() % 8, top = random() & 1 ? 6 : random() & 1 ? 31 : 65535;
    for (auto &v : e.data)
        v = static_cast<uint16_t>(random() % 8 < known ? 0 : 1 + random() % top);
    return e;
}

inline cusStereoOptions randomOptions(int cols, std::mt19937_64 &random) {
    cusStereoOptions o = cusStereoClassic();
    o.border = static_cast<cusStereoBorder>(random() % 2);
    o.agreement = static_cast<cusStereoAgreement>(random() % 3);
    o.threshold = static_cast<float>(random() % 100) / 250.0f;
    o.shifts = 1 + static_cast<int>(random() % static_cast<uint64_t>(std::min(cols, 40)));
    o.direction = random() & 1 ? 1 : -1;
    o.window = 1 + 2 * static_cast<int>(random() % 12);
    o.prefer_smaller = static_cast<int>(random() % 2);
    o.left_right_check = static_cast<int>(random() % 4) - 1;
    const int bits = static_cast<int>(random() % 16);
    o.subpixel_bits = bits < 2 || bits > 8 ? 0 : bits;
    o.min_confidence = random() % 3 ? 0 : static_cast<int>(random() % 60);
    o.speckle_size = random() % 2 ? 0 : static_cast<int>(random() % 100);
    return o;
}

// Options of aggregation PATHS at random, beside those that `o` has.
inline cusStereoOptions withPaths(cusStereoOptions o, std::mt19937_64 &random) {
    o.aggregation = CUS_STEREO_PATHS;
    o.agreement = CUS_STEREO_CENSUS;
    o.window = std::min<int>(o.window, CUS_STEREO_MAX_PATH_WINDOW);
    o.paths = static_cast<int>(random() % 3) * 4;
    const uint64_t extremes = random() % 4;
    o.p1 = extremes == 0 ? CUS_STEREO_MAX_PENALTY : extremes == 1 ? 0 : 1 + static_cast<int>(random() % 100);
    o.p2 = extremes == 3 ? CUS_STEREO_MAX_PENALTY : o.p1 + (o.p1 ? static_cast<int>(random() % 400) : 0);
    o.p2 = std::min<int>(o.p2, CUS_STEREO_MAX_PENALTY);
    return o;
}

// The elevation of a pair before speckles are removed, and its confidence.
template<class T>
ref::Matched matchOfPair(const ref::Image<T> &left, const ref::Image<T> &right, const cusStereoOptions &o) {
    const bool census = o.agreement == CUS_STEREO_CENSUS;
    return ref::match(census ? ref::census(left, o) : ref::edges(left, o),
                      census ? ref::census(right, o) : ref::edges(right, o), o, &left);
}
// The elevation before holes are filled.
template<class T>
ref::Elevation holesOf(const ref::Image<T> &left, const ref::Image<T> &right, const cusStereoOptions &o) {
    return ref::filterSpeckles(matchOfPair(left, right, o).elevation, o);
}

// Calls visit() with the elevation as the options fill it, whose type depends on the rule.
template<class Visit>
void withFilled(const ref::Elevation &holes, const cusStereoOptions &o, Visit &&visit) {
    if (o.fill == CUS_FILL_RELAX)
        visit(ref::fillRelax(holes, o));
    else
        visit(o.fill == CUS_FILL_ONCE ? ref::fillOnce(holes, o) : o.fill == CUS_FILL_LOWER ? ref::fillLower(holes) : holes);
}

inline std::string describe(const cusStereoOptions &o) {
    return "border " + std::to_string(o.border) + ", agreement " + std::to_string(o.agreement) + ", threshold " +
           std::to_string(o.threshold) + ", shifts " + std::to_string(o.shifts) + ", direction " +
           std::to_string(o.direction) + ", window " + std::to_string(o.window) + ", prefer_smaller " +
           std::to_string(o.prefer_smaller) + ", left_right_check " + std::to_string(o.left_right_check) + ", fill " +
           std::to_string(o.fill) + ", iterations " + std::to_string(o.iterations) + ", lines " + std::to_string(o.lines) +
           ", levels " + std::to_string(o.levels) + ", subpixel_bits " + std::to_string(o.subpixel_bits) +
           ", min_confidence " + std::to_string(o.min_confidence) + ", speckle_size " + std::to_string(o.speckle_size) +
           ", aggregation " + std::to_string(o.aggregation) + ", paths " + std::to_string(o.paths) + ", p1 " +
           std::to_string(o.p1) + ", p2 " + std::to_string(o.p2) + ", p2_slope " + std::to_string(o.p2_slope);
}

} // namespace stereo_test
