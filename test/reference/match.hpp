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

// One score: exact integers where T is an integer type, then long double.
template<class T>
double score(const Image<T> &image, const Image<T> &templ, const uint8_t *mask, cusMatchMethod method, int y, int x) {
    const long double n = static_cast<long double>(templ.rows) * templ.cols;
    using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, long double>;
    long double ssd = 0, corr = 0, s2 = 0, t2 = 0, covariance = 0, window = 0, flat = 0;
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
        covariance += n * corrc - static_cast<long double>(s1c) * t1c;
        window += n * s2c - static_cast<long double>(s1c) * s1c;
        flat += n * t2c - static_cast<long double>(t1c) * t1c;
    }
    const long double energy = std::sqrt(s2) * std::sqrt(t2);
    switch (method) {
    case CUS_MATCH_SQDIFF:
        return static_cast<double>(ssd);
    case CUS_MATCH_SQDIFF_NORMED:
        return static_cast<double>(energy > 0 ? std::min(ssd / energy, 1.0L) : 1.0L);
    case CUS_MATCH_CCORR:
        return static_cast<double>(corr);
    case CUS_MATCH_CCORR_NORMED:
        return static_cast<double>(energy > 0 ? corr / energy : 0.0L);
    case CUS_MATCH_CCOEFF:
        return static_cast<double>(covariance / n);
    default:
        if (flat <= 0)
            return 1;
        return window > 0 ? static_cast<double>(covariance / (std::sqrt(window) * std::sqrt(flat))) : 0;
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

} // namespace reference
