// The stages of stereo in their plainest form: straight from the formulas, one pixel at a time, without running sums.
#pragma once

#include "cusight/stereo.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace reference::stereo {

// An image without padding. `at` is the pixel under a border rule, or nullptr outside.
template<class T>
struct Image {
    int rows = 0, cols = 0;
    std::vector<T> data;
    Image(int rows_, int cols_) : rows(rows_), cols(cols_), data(static_cast<size_t>(rows_) * cols_) {}
    T &operator()(int y, int x) { return data[static_cast<size_t>(y) * cols + x]; }
    const T &operator()(int y, int x) const { return data[static_cast<size_t>(y) * cols + x]; }
    const T *at(int y, int x, cusStereoBorder border) const {
        if (y >= 0 && y < rows && x >= 0 && x < cols)
            return &(*this)(y, x);
        if (border == CUS_STEREO_WRAP)
            return &(*this)(((y % rows) + rows) % rows, ((x % cols) + cols) % cols);
        return nullptr;
    }
    T value(int y, int x, cusStereoBorder border) const {
        const T *p = at(y, x, border);
        return p ? *p : T(0);
    }
};

using Bytes = Image<uint8_t>;
using Elevation = Image<uint16_t>;
using Smooth = Image<float>;

inline bool isEdge(int a, int b, float threshold) {
    const float limit = threshold * static_cast<float>(a + b);
    return static_cast<float>(2 * std::abs(a - b)) > limit;
}
inline bool isEdge(float a, float b, float threshold) {
    const float sum = a + b, half = sum * 0.5f, limit = threshold * half;
    return std::fabs(a - b) > (limit < 3.0f ? limit : 3.0f);
}

template<class T>
Bytes edges(const Image<T> &image, const cusStereoOptions &o) {
    using Sum = std::conditional_t<std::is_same_v<T, float>, float, int>;
    // (x, y) of three neighbors on one side and three on the other.
    static const int tests[4][2][3][2] = {{{{-1, -1}, {-1, 0}, {-1, 1}}, {{1, -1}, {1, 0}, {1, 1}}},
                                          {{{-1, -1}, {0, -1}, {1, -1}}, {{-1, 1}, {0, 1}, {1, 1}}},
                                          {{{-1, -1}, {0, -1}, {-1, 0}}, {{1, 1}, {0, 1}, {1, 0}}},
                                          {{{-1, 1}, {0, 1}, {-1, 0}}, {{1, -1}, {0, -1}, {1, 0}}}};
    Bytes result(image.rows, image.cols);
    for (int y = 0; y < image.rows; ++y)
        for (int x = 0; x < image.cols; ++x)
            for (const auto &test : tests) {
                Sum side[2];
                for (int i = 0; i < 2; ++i) {
                    Sum p[3];
                    for (int k = 0; k < 3; ++k)
                        p[k] = image.value(y + test[i][k][1], x + test[i][k][0], o.border);
                    side[i] = (p[0] + p[1]) + p[2];
                }
                if (isEdge(side[0], side[1], o.threshold))
                    result(y, x) = 255;
            }
    return result;
}

template<class T>
Bytes census(const Image<T> &image, const cusStereoOptions &o) {
    Bytes result(image.rows, image.cols);
    for (int y = 0; y < image.rows; ++y)
        for (int x = 0; x < image.cols; ++x) {
            int bit = 0;
            for (int dy = -1; dy <= 1; ++dy)
                for (int dx = -1; dx <= 1; ++dx)
                    if (dx || dy)
                        result(y, x) |=
                            static_cast<uint8_t>((image.value(y + dy, x + dx, o.border) > image(y, x) ? 1 : 0) << bit++);
        }
    return result;
}

// outside: the agreement of a pixel that lies outside.
inline int agree(const uint8_t *l, const uint8_t *r, cusStereoAgreement agreement, int outside) {
    if (!l || !r)
        return outside;
    switch (agreement) {
    case CUS_STEREO_EQUAL:
        return (*l != 0) == (*r != 0);
    case CUS_STEREO_EDGE:
        return *l != 0 && *r != 0;
    default:
        break;
    }
    int equal = 0;
    for (int bit = 0; bit < 8; ++bit)
        equal += (*l >> bit & 1) == (*r >> bit & 1);
    return equal;
}

// The scores of all shifts at each pixel, [y][x][shift]: one agreement image a shift, whose windows are summed whole.
inline std::vector<int> scores(const Bytes &left, const Bytes &right, const cusStereoOptions &o) {
    const int radius = o.window / 2, outside = o.aggregation == CUS_STEREO_PATHS ? 4 : 0;
    std::vector<int> all(left.data.size() * static_cast<size_t>(o.shifts));
    for (int s = 0; s < o.shifts; ++s) {
        Bytes m(left.rows, left.cols);
        for (int y = 0; y < left.rows; ++y)
            for (int x = 0; x < left.cols; ++x)
                m(y, x) = static_cast<uint8_t>(
                    agree(&left(y, x), right.at(y, x + o.direction * s, o.border), o.agreement, outside));
        for (int y = 0; y < left.rows; ++y)
            for (int x = 0; x < left.cols; ++x) {
                if (o.agreement != CUS_STEREO_CENSUS && !m(y, x))
                    continue;
                int score = 0;
                for (int dy = -radius; dy <= radius; ++dy)
                    for (int dx = -radius; dx <= radius; ++dx)
                        score += m.at(y + dy, x + dx, o.border) ? m.value(y + dy, x + dx, o.border) : outside;
                all[(static_cast<size_t>(y) * static_cast<size_t>(left.cols) + static_cast<size_t>(x)) *
                        static_cast<size_t>(o.shifts) +
                    static_cast<size_t>(s)] = score;
            }
    }
    return all;
}

// The whole gray levels between two pixels, at most 255. Floats have 0..1 for these.
inline int levelsBetween(uint8_t a, uint8_t b) {
    return std::abs(a - b);
}
inline int levelsBetween(float a, float b) {
    const float difference = std::fabs(a - b), levels = 255.0f * difference;
    return static_cast<int>(std::min(levels, 255.0f));
}

// The scores of aggregation PATHS from those of windows: how far the sum over all paths stays below the largest possible.
// image: the left one, with whose gradient P2 falls; may be NULL without p2_slope.
template<class T>
std::vector<int> pathScores(const std::vector<int> &windows, int rows, int cols, const cusStereoOptions &o,
                            const Image<T> *image) {
    const int most = 8 * o.window * o.window, count = o.paths ? o.paths : 4;
    const int p1 = o.p1 ? o.p1 : 3 * o.window * o.window, p2 = o.p2 ? o.p2 : std::max(7 * o.window * o.window, p1);
    const auto at = [&](int y, int x) {
        return (static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)) *
               static_cast<size_t>(o.shifts);
    };
    // (y, x) of the steps along a path; with 4 paths the first ones.
    static const int steps[8][2] = {{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}};
    std::vector<int> scores(windows.size(), count * (most + p2)), path(windows.size());
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < cols; ++j) {
                const int y = steps[k][0] < 0 ? rows - 1 - i : i, x = steps[k][1] < 0 ? cols - 1 - j : j;
                const int from_y = y - steps[k][0], from_x = x - steps[k][1];
                const bool begins = from_y < 0 || from_y >= rows || from_x < 0 || from_x >= cols;
                const int *const before = begins ? nullptr : &path[at(from_y, from_x)];
                const int least = begins ? 0 : *std::min_element(before, before + o.shifts);
                const int levels = begins || !image ? 0 : levelsBetween((*image)(y, x), (*image)(from_y, from_x));
                const int jump = std::max(p1, p2 - o.p2_slope * levels);
                for (int s = 0; s < o.shifts; ++s) {
                    int sum = most - windows[at(y, x) + static_cast<size_t>(s)];
                    if (!begins) {
                        int best = std::min(before[s], least + jump);
                        best = s > 0 ? std::min(best, before[s - 1] + p1) : best;
                        best = s + 1 < o.shifts ? std::min(best, before[s + 1] + p1) : best;
                        sum += best - least;
                    }
                    path[at(y, x) + static_cast<size_t>(s)] = sum;
                    scores[at(y, x) + static_cast<size_t>(s)] -= sum;
                }
            }
    return scores;
}

// The best of a pixel's scores; -1 if none is above zero.
inline int bestShift(const int *score, const cusStereoOptions &o) {
    int best = -1;
    for (int s = 0; s < o.shifts; ++s)
        if (score[s] > 0 && (best < 0 || score[s] > score[best] || (score[s] == score[best] && !o.prefer_smaller)))
            best = s;
    return best;
}

inline Elevation elevationOneDirection(const Bytes &left, const Bytes &right, const cusStereoOptions &o) {
    const auto all = scores(left, right, o);
    Elevation elevation(left.rows, left.cols);
    for (size_t i = 0; i < elevation.data.size(); ++i)
        elevation.data[i] = static_cast<uint16_t>(1 + bestShift(&all[i * static_cast<size_t>(o.shifts)], o));
    return elevation;
}

// An elevation with its fraction: the peak of two lines of equal and opposite slope through three scores.
inline int withFraction(const int *score, int best, const cusStereoOptions &o) {
    if (o.subpixel_bits == 0)
        return 1 + best;
    const int whole = (1 + best) * (1 << o.subpixel_bits), most = (1 << (o.subpixel_bits - 1)) - 1;
    if (best == 0 || best == o.shifts - 1)
        return whole;
    const int lower = score[best - 1], upper = score[best + 1], slope = score[best] - std::min(lower, upper);
    if (slope == 0)
        return whole;
    // |upper - lower| / (2 slope) pixels, rounded to the nearest fraction
    const int offset = ((std::abs(upper - lower) << o.subpixel_bits) + slope) / (2 * slope);
    return whole + (upper > lower ? 1 : -1) * std::min(offset, most);
}

inline int confidenceOf(const int *score, int best, const cusStereoOptions &o) {
    int second = 0;
    for (int s = 0; s < o.shifts; ++s)
        if (std::abs(s - best) > 1)
            second = std::max(second, score[s]);
    return (score[best] - second) * 255 / score[best];
}

// With PATHS a right pixel has the scores of the left pixels that it matches.
inline Elevation rightElevation(const std::vector<int> &scores, int rows, int cols, const cusStereoOptions &o) {
    Elevation elevation(rows, cols);
    std::vector<int> of_pixel(static_cast<size_t>(o.shifts));
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            for (int s = 0; s < o.shifts; ++s) {
                const int match = x - o.direction * s, on_ring = ((match % cols) + cols) % cols;
                const bool counts = match == on_ring || o.border == CUS_STEREO_WRAP;
                of_pixel[static_cast<size_t>(s)] =
                    counts ? scores[(static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(on_ring)) *
                                        static_cast<size_t>(o.shifts) +
                                    static_cast<size_t>(s)]
                           : 0;
            }
            elevation(y, x) = static_cast<uint16_t>(1 + bestShift(of_pixel.data(), o));
        }
    return elevation;
}

struct Matched {
    Elevation elevation;
    Bytes confidence;
};

template<class T = uint8_t>
Matched match(const Bytes &left, const Bytes &right, const cusStereoOptions &o, const Image<T> *image = nullptr) {
    const bool paths = o.aggregation == CUS_STEREO_PATHS;
    auto all = scores(left, right, o);
    if (paths)
        all = pathScores(all, left.rows, left.cols, o, image);
    Matched result = {Elevation(left.rows, left.cols), Bytes(left.rows, left.cols)};
    cusStereoOptions reverse = o;
    reverse.direction = -o.direction;
    const Elevation right_elevation = o.left_right_check < 0 ? Elevation(0, 0)
                                      : paths                ? rightElevation(all, left.rows, left.cols, o)
                                                             : elevationOneDirection(right, left, reverse);
    for (int y = 0; y < left.rows; ++y)
        for (int x = 0; x < left.cols; ++x) {
            const int *score = &all[(static_cast<size_t>(y) * static_cast<size_t>(left.cols) + static_cast<size_t>(x)) *
                                    static_cast<size_t>(o.shifts)];
            const int best = bestShift(score, o);
            if (best < 0)
                continue;
            if (o.left_right_check >= 0) {
                const int back = right_elevation.value(y, x + o.direction * best, o.border);
                if (back == 0 || std::abs(back - (1 + best)) > o.left_right_check)
                    continue;
            }
            const int confidence = confidenceOf(score, best, o);
            if (confidence < o.min_confidence)
                continue;
            result.confidence(y, x) = static_cast<uint8_t>(confidence);
            result.elevation(y, x) = static_cast<uint16_t>(withFraction(score, best, o));
        }
    return result;
}

inline Elevation elevation(const Bytes &left, const Bytes &right, const cusStereoOptions &o) {
    return match(left, right, o).elevation;
}

inline Elevation filterSpeckles(const Elevation &map, const cusStereoOptions &o) {
    Elevation filtered = map;
    Bytes seen(map.rows, map.cols);
    for (int y = 0; o.speckle_size > 0 && y < map.rows; ++y)
        for (int x = 0; x < map.cols; ++x) {
            std::vector<std::pair<int, int>> region;
            const auto take = [&](int j, int k) {
                seen(j, k) = 1;
                region.emplace_back(j, k);
            };
            if (map(y, x) && !seen(y, x))
                take(y, x);
            for (size_t i = 0; i < region.size(); ++i) {
                const auto [j, k] = region[i];
                for (const auto &[to_j, to_k] : {std::pair(j - 1, k), {j + 1, k}, {j, k - 1}, {j, k + 1}}) {
                    const uint16_t *const there = map.at(to_j, to_k, CUS_STEREO_ZERO);
                    if (there && *there && !seen(to_j, to_k) && std::abs(*there - map(j, k)) <= 1 << o.subpixel_bits)
                        take(to_j, to_k);
                }
            }
            if (region.size() <= static_cast<size_t>(o.speckle_size))
                for (const auto &[j, k] : region)
                    filtered(j, k) = 0;
        }
    return filtered;
}

inline Elevation fillOnce(Elevation state, const cusStereoOptions &o) {
    for (int i = 0; i < o.iterations; ++i) {
        const Elevation before = state;
        bool changed = false;
        for (int y = 0; y < state.rows; ++y)
            for (int x = 0; x < state.cols; ++x)
                if (before(y, x) == 0) {
                    state(y, x) =
                        static_cast<uint16_t>((before.value(y, x - 1, o.border) + before.value(y, x + 1, o.border) +
                                               before.value(y - 1, x, o.border) + before.value(y + 1, x, o.border)) /
                                              4);
                    changed |= state(y, x) != 0;
                }
        if (!changed)
            break;
    }
    return state;
}

inline Elevation fillLower(const Elevation &holes) {
    Elevation filled = holes;
    for (int y = 0; y < holes.rows; ++y)
        for (int x = 0; x < holes.cols; ++x) {
            int l = x, r = x;
            while (l >= 0 && !holes(y, l))
                --l;
            while (r < holes.cols && !holes(y, r))
                ++r;
            if (l >= 0 && r < holes.cols)
                filled(y, x) = std::min(holes(y, l), holes(y, r));
            else if (l >= 0)
                filled(y, x) = holes(y, l);
            else if (r < holes.cols)
                filled(y, x) = holes(y, r);
        }
    return filled;
}

inline Smooth fillRelax(const Elevation &holes, const cusStereoOptions &o) {
    const Elevation start = fillLower(holes);
    Smooth state(holes.rows, holes.cols);
    for (size_t i = 0; i < state.data.size(); ++i)
        state.data[i] = start.data[i];
    for (int i = 1; i <= o.iterations; ++i) {
        const Smooth before = state;
        float largest = 0;
        for (int y = 0; y < state.rows; ++y)
            for (int x = 0; x < state.cols; ++x) {
                if (holes(y, x))
                    continue;
                auto p = [&](int j, int k) {
                    const float *v = before.at(j, k, o.border);
                    return v ? *v : before(y, x);
                };
                const float row = p(y, x - 1) + p(y, x + 1), column = p(y - 1, x) + p(y + 1, x), sum = row + column;
                state(y, x) = sum * 0.25f;
                largest = std::max(largest, std::fabs(state(y, x) - before(y, x)));
            }
        if (i % 16 == 0 && largest <= o.tolerance)
            break;
    }
    return state;
}

template<class T>
Image<T> median(const Image<T> &image, int size) {
    Image<T> result(image.rows, image.cols);
    const int radius = size / 2;
    std::vector<T> around;
    for (int y = 0; y < image.rows; ++y)
        for (int x = 0; x < image.cols; ++x) {
            around.clear();
            for (int dy = -radius; dy <= radius; ++dy)
                for (int dx = -radius; dx <= radius; ++dx)
                    around.push_back(image(std::clamp(y + dy, 0, image.rows - 1), std::clamp(x + dx, 0, image.cols - 1)));
            std::sort(around.begin(), around.end());
            result(y, x) = around[around.size() / 2];
        }
    return result;
}

// Which of `levels` bands each value lies in. NaN is ignored for the range; NaN and infinity lie in the highest band.
template<class T>
std::vector<int64_t> bands(const Image<T> &image, int levels) {
    std::vector<int64_t> result(image.data.size());
    std::vector<T> values = image.data;
    values.erase(std::remove_if(values.begin(), values.end(), [](T v) { return v != v; }), values.end());
    if (values.empty())
        return result;
    const T min = *std::min_element(values.begin(), values.end()), max = *std::max_element(values.begin(), values.end());
    for (size_t i = 0; i < result.size() && max > min; ++i) {
        if constexpr (std::is_same_v<T, float>) {
            const float width = max - min, scale = static_cast<float>(levels) / width, e = image.data[i] - min;
            const float band = std::floor(e * scale);
            result[i] = band < static_cast<float>(levels) ? static_cast<int64_t>(band) : levels;
        } else {
            result[i] = static_cast<int64_t>(image.data[i] - min) * levels / (max - min);
        }
    }
    return result;
}

template<class T>
Bytes contours(const Image<T> &image, const cusStereoOptions &o) {
    Bytes result(image.rows, image.cols);
    if (o.lines == CUS_LINES_MODULO) {
        const auto ends = std::minmax_element(image.data.begin(), image.data.end());
        const int64_t low = static_cast<int64_t>(*ends.first), range = static_cast<int64_t>(*ends.second) - low;
        for (size_t i = 0; i < result.data.size(); ++i)
            result.data[i] =
                (static_cast<int64_t>(image.data[i]) - low) % std::max<int64_t>(1, range / o.levels) == 0 ? 255 : 0;
        return result;
    }
    Image<int64_t> band(image.rows, image.cols);
    band.data = bands(image, o.levels);
    for (int y = 0; y < image.rows; ++y)
        for (int x = 0; x < image.cols; ++x)
            result(y, x) =
                (x + 1 < image.cols && band(y, x) != band(y, x + 1)) || (y + 1 < image.rows && band(y, x) != band(y + 1, x))
                    ? 255
                    : 0;
    return result;
}

// 256 colors through blue, green, yellow and red, a third of the way each; holes and lines black.
template<class T>
std::vector<uint8_t> picture(const Image<T> &image, const Bytes *lines) {
    const int keys[4][3] = {{255, 0, 0}, {0, 255, 0}, {0, 255, 255}, {0, 0, 255}};
    std::vector<uint8_t> result;
    const auto band = bands(image, 255);
    for (size_t i = 0; i < image.data.size(); ++i) {
        const auto key = std::min<int64_t>(2, band[i] / 85), part = band[i] - 85 * key;
        for (int c = 0; c < 3; ++c) {
            const auto color = keys[key][c] + (keys[key + 1][c] - keys[key][c]) * part / 85;
            const bool black = image.data[i] == T(0) || (lines && lines->data[i]);
            result.push_back(black ? uint8_t(0) : static_cast<uint8_t>(color));
        }
    }
    return result;
}

} // namespace reference::stereo
