// Template matching, from the formulas.
#pragma once

#include "cusight/match.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace reference {

// An image of `channels` interleaved values; T is uint8_t or float.
template<class T>
struct Image {
    int rows = 0, cols = 0, channels = 1;
    std::vector<T> data;
    T at(int y, int x, int c) const {
        return data[(static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)) *
                        static_cast<size_t>(channels) +
                    static_cast<size_t>(c)];
    }
};

// The product of unsigned integers, least digit first.
inline std::vector<uint32_t> product(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    std::vector<uint32_t> digits(a.size() + b.size());
    for (size_t i = 0; i < a.size(); ++i) {
        uint64_t carry = 0;
        for (size_t j = 0; j < b.size(); ++j) {
            carry += uint64_t{a[i]} * b[j] + digits[i + j];
            digits[i + j] = static_cast<uint32_t>(carry);
            carry >>= 32;
        }
        digits[i + b.size()] = static_cast<uint32_t>(carry);
    }
    return digits;
}
inline std::vector<uint32_t> digitsOf(unsigned __int128 a) {
    return {static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(a >> 64),
            static_cast<uint32_t>(a >> 96)};
}
inline bool isGreater(std::vector<uint32_t> a, std::vector<uint32_t> b) {
    a.resize(std::max(a.size(), b.size()));
    b.resize(a.size());
    return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
}

// a / sqrt(b c), rounded once; b, c > 0. Where long double does not tell on which side of the middle between two doubles it lies,
// a^2 and middle^2 b c do.
inline double rounded(__int128 a, __int128 b, __int128 c) {
    const long double value =
        static_cast<long double>(a) / (std::sqrt(static_cast<long double>(b)) * std::sqrt(static_cast<long double>(c)));
    const double size = std::fabs(static_cast<double>(value)), sign = a < 0 ? -1 : 1;
    const long double magnitude = std::fabs(value), off = std::fabs(magnitude - size),
                      unit = std::nextafter(size, INFINITY) - size;
    if (std::fabs(off - unit / 2) > magnitude * 0x1p-59L)
        return sign * size;
    const double below = magnitude < size ? std::nextafter(size, 0.0) : size, above = std::nextafter(below, INFINITY);
    int exponent;
    const double mantissa = std::frexp(below, &exponent); // the middle is (2 mantissa 2^53 + 1) 2^(exponent - 54)
    const auto middle = digitsOf(static_cast<unsigned __int128>(std::ldexp(mantissa, 54)) + 1);
    std::vector<uint32_t> power(static_cast<size_t>(2 * (54 - exponent)) / 32 + 1);
    power.back() = uint32_t{1} << (2 * (54 - exponent) % 32);
    const auto digits = digitsOf(static_cast<unsigned __int128>(a < 0 ? -a : a));
    const bool more = isGreater(product(product(digits, digits), power),
                                product(product(middle, middle), product(digitsOf(static_cast<unsigned __int128>(b)),
                                                                         digitsOf(static_cast<unsigned __int128>(c)))));
    return sign * (more ? above : below);
}

// One score: of integers exact, or the rational number's square root rounded once; of floats in long double.
template<class T>
double score(const Image<T> &image, const Image<T> &templ, const uint8_t *mask, cusMatchMethod method, int y, int x) {
    constexpr bool INTEGERS = std::is_integral_v<T>;
    using Sum = std::conditional_t<INTEGERS, int64_t, long double>;
    using Wide = std::conditional_t<INTEGERS, __int128, long double>;
    const Wide n =
        static_cast<Wide>(mask ? std::count_if(mask, mask + templ.rows * templ.cols, [](uint8_t v) { return v != 0; })
                               : int64_t{templ.rows} * templ.cols);
    Wide ssd = 0, corr = 0, s2 = 0, t2 = 0, covariance = 0, window = 0, flat = 0;
    for (int c = 0; c < templ.channels; ++c) {
        Sum s1c = 0, t1c = 0, s2c = 0, t2c = 0, corrc = 0, ssdc = 0;
        for (int j = 0; j < templ.rows; ++j)
            for (int i = 0; i < templ.cols; ++i) {
                if (mask && !mask[static_cast<size_t>(j) * static_cast<size_t>(templ.cols) + static_cast<size_t>(i)])
                    continue;
                const Sum a = image.at(y + j, x + i, c), b = templ.at(j, i, c);
                ssdc += (a - b) * (a - b);
                corrc += a * b;
                s1c += a, t1c += b, s2c += a * a, t2c += b * b;
            }
        ssd += ssdc, corr += corrc, s2 += s2c, t2 += t2c;
        covariance += n * corrc - static_cast<Wide>(s1c) * t1c;
        window += n * s2c - static_cast<Wide>(s1c) * s1c;
        flat += n * t2c - static_cast<Wide>(t1c) * t1c;
    }
    const auto ratio = [](Wide a, Wide b, Wide c) {
        if constexpr (INTEGERS)
            return rounded(a, b, c);
        else
            return static_cast<double>(a / (std::sqrt(b) * std::sqrt(c)));
    };
    switch (method) {
    case CUS_MATCH_SQDIFF:
        return static_cast<double>(ssd);
    case CUS_MATCH_SQDIFF_NORMED:
        return s2 > 0 && t2 > 0 ? std::min(ratio(ssd, s2, t2), 1.0) : 1.0;
    case CUS_MATCH_CCORR:
        return static_cast<double>(corr);
    case CUS_MATCH_CCORR_NORMED:
        return s2 > 0 && t2 > 0 ? ratio(corr, s2, t2) : 0.0;
    case CUS_MATCH_CCOEFF:
        return ratio(covariance, n, n);
    default:
        if (flat <= 0)
            return 1;
        return window > 0 ? ratio(covariance, window, flat) : 0;
    }
}

template<class T>
std::vector<double> scoreMap(const Image<T> &image, const Image<T> &templ, const uint8_t *mask, cusMatchMethod method) {
    std::vector<double> map;
    for (int y = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x)
            map.push_back(score(image, templ, mask, method, y, x));
    return map;
}

// The same with weights, one for each of the template's elements, that multiply image and template.
template<class T>
double weightedScore(const Image<T> &image, const Image<T> &templ, const std::vector<float> &weights, cusMatchMethod method,
                     int y, int x) {
    long double ssd = 0, corr = 0, s2 = 0, t2 = 0;
    for (int j = 0, k = 0; j < templ.rows; ++j)
        for (int i = 0; i < templ.cols; ++i)
            for (int c = 0; c < templ.channels; ++c, ++k) {
                const long double weight = weights[static_cast<size_t>(k)], a = weight * image.at(y + j, x + i, c),
                                  b = weight * templ.at(j, i, c);
                ssd += (a - b) * (a - b), corr += a * b, s2 += a * a, t2 += b * b;
            }
    const bool squares = method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
    const long double value = squares ? ssd : corr;
    if (!(method & 1))
        return static_cast<double>(value);
    if (!(s2 > 0 && t2 > 0))
        return squares ? 1 : 0;
    const long double normed = value / (std::sqrt(s2) * std::sqrt(t2));
    return static_cast<double>(squares ? std::min(normed, 1.0L) : normed);
}

struct Found {
    int x, y;
    double score;
};

// The best k positions of a map, each at least `distance` from the ones before in x or in y; ties in row-major order.
inline std::vector<Found> best(const std::vector<double> &map, int cols, cusMatchMethod method, int k, int distance) {
    const bool smallest = method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
    std::vector<bool> gone(map.size());
    std::vector<Found> found;
    for (int round = 0; round < k; ++round) {
        size_t at = map.size();
        for (size_t i = 0; i < map.size(); ++i)
            if (!gone[i] && (at == map.size() || (smallest ? map[i] < map[at] : map[i] > map[at])))
                at = i;
        if (at == map.size())
            break;
        const int x = static_cast<int>(at) % cols, y = static_cast<int>(at) / cols;
        found.push_back({x, y, map[at]});
        for (size_t i = 0; i < map.size(); ++i)
            if (std::abs(static_cast<int>(i) % cols - x) < distance && std::abs(static_cast<int>(i) / cols - y) < distance)
                gone[i] = true;
    }
    return found;
}

// Vertex of the parabola through the scores a, b, c at -1, 0, 1, in double; 0 if it has none within half a pixel.
inline float vertex(double a, double b, double c) {
    const double at = 0.5 * (a - c) / (a - 2 * b + c);
    return at >= -0.5 && at <= 0.5 ? static_cast<float>(at) : 0;
}

struct Fractions {
    float dx, dy;
};

// The fractions of a pixel of found[i], from the scores beside it; 0 where there is none or an earlier match has taken it.
inline Fractions fractionsOf(const std::vector<double> &map, int cols, cusMatchMethod method, int distance,
                             const std::vector<Found> &found, size_t i) {
    const bool smallest = method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED;
    const int rows = static_cast<int>(map.size()) / cols;
    const auto cost = [&](int dy, int dx) -> double {
        const int y = found[i].y + dy, x = found[i].x + dx;
        const bool taken = std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(i), [&](const Found &f) {
            return std::abs(x - f.x) < distance && std::abs(y - f.y) < distance;
        });
        if (y < 0 || y >= rows || x < 0 || x >= cols || taken)
            return NAN;
        const double score = map[static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)];
        return smallest ? score : -score;
    };
    return {vertex(cost(0, -1), cost(0, 0), cost(0, 1)), vertex(cost(-1, 0), cost(0, 0), cost(1, 0))};
}

} // namespace reference
