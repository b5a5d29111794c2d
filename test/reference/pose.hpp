// Template matching under rotation and scale, from the definition: every position of every pose.
#pragma once

#include "cusight/pose.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

struct PosePicture {
    int rows = 0, cols = 0;
    std::vector<uint8_t> data;
    int at(int64_t y, int64_t x) const { return data[static_cast<size_t>(y * cols + x)]; }
};

// The window of a pose: pixels of -1 do not count. x2, y2: twice the center, from the window's first pixel.
struct PoseWindow {
    int rows = 0, cols = 0, x2 = 0, y2 = 0;
    std::vector<int> pixels;
};

inline PoseWindow poseWindow(const PosePicture &templ, const std::vector<uint8_t> &mask, double angle, double scale) {
    const long double radians = angle * 3.14159265358979323846264338327950288L / 180;
    const auto rounded = [](long double v) { return std::ldexp(static_cast<double>(std::floor(v * 0x1p40L + 0.5L)), -40); };
    const double c = rounded(std::cos(radians)), s = rounded(std::sin(radians));
    const auto cosine = static_cast<int64_t>(std::floor(c * (0x1p32 / scale) + 0.5)),
               sine = static_cast<int64_t>(std::floor(s * (0x1p32 / scale) + 0.5));
    const double across = std::fabs(c) * scale, along = std::fabs(s) * scale;
    const auto side = [](double v) { return static_cast<int>(std::ceil(std::ceil(v * 0x1p20) / 0x1p20)); };
    const int cols = side(across * templ.cols + along * templ.rows), rows = side(along * templ.cols + across * templ.rows);
    const auto source = [&](int64_t v) { // units of 2^-33 to 16.16 to 1/32
        return (((v + (1 << 16)) >> 17) + (1 << 10)) >> 11;
    };
    std::vector<int> canvas;
    int left = cols, right = -1, top = rows, bottom = -1;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            const int64_t dx = 2 * x - (cols - 1), dy = 2 * y - (rows - 1);
            const int64_t u = source(cosine * dx - sine * dy + (int64_t{templ.cols - 1} << 32)),
                          v = source(sine * dx + cosine * dy + (int64_t{templ.rows - 1} << 32));
            int sum = 512;
            bool counts = true;
            for (int j = 0; j < 2; ++j)
                for (int i = 0; i < 2; ++i) {
                    const auto weight = static_cast<int>((i ? u & 31 : 32 - (u & 31)) * (j ? v & 31 : 32 - (v & 31)));
                    const int64_t sx = (u >> 5) + i, sy = (v >> 5) + j;
                    if (weight == 0)
                        continue;
                    counts = counts && sx >= 0 && sy >= 0 && sx < templ.cols && sy < templ.rows &&
                             (mask.empty() || mask[static_cast<size_t>(sy * templ.cols + sx)]);
                    sum += counts ? weight * templ.at(sy, sx) : 0;
                }
            canvas.push_back(counts ? sum >> 10 : -1);
            if (counts) {
                left = std::min(left, x), right = std::max(right, x);
                top = std::min(top, y), bottom = std::max(bottom, y);
            }
        }
    PoseWindow window;
    if (right < 0)
        return window;
    window.rows = bottom - top + 1, window.cols = right - left + 1;
    window.x2 = cols - 1 - 2 * left, window.y2 = rows - 1 - 2 * top;
    for (int y = top; y <= bottom; ++y)
        for (int x = left; x <= right; ++x)
            window.pixels.push_back(canvas[static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)]);
    return window;
}

// A position's value: a fraction for SQDIFF, else value / 1; the smaller cost is better.
struct PoseValue {
    int angle, scale, row, col, x2, y2;
    int64_t n;
    unsigned __int128 above, below; // SQDIFF
    double cost, score;
};

inline PoseValue poseValue(const PosePicture &picture, const PoseWindow &w, cusMatchMethod method, int row, int col) {
    int64_t n = 0, ssd = 0, s1 = 0, s2 = 0, t1 = 0, t2 = 0, corr = 0;
    for (int y = 0; y < w.rows; ++y)
        for (int x = 0; x < w.cols; ++x) {
            const int64_t t = w.pixels[static_cast<size_t>(y) * static_cast<size_t>(w.cols) + static_cast<size_t>(x)];
            if (t < 0)
                continue;
            const int64_t v = picture.at(row + y, col + x);
            ++n, ssd += (v - t) * (v - t), s1 += v, s2 += v * v, t1 += t, t2 += t * t, corr += v * t;
        }
    PoseValue value{0, 0, row, col, 2 * col + w.x2, 2 * row + w.y2, n, 0, 1, 0, 0};
    const auto ratio = [](int64_t a, uint64_t b, uint64_t c) {
        return static_cast<double>(a) / std::sqrt(static_cast<double>(b) * static_cast<double>(c));
    };
    const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
    switch (method) {
    case CUS_MATCH_SQDIFF:
        value.above = u(ssd), value.below = u(n);
        value.score = static_cast<double>(ssd) / static_cast<double>(n);
        return value;
    case CUS_MATCH_SQDIFF_NORMED:
        value.cost = value.score = s2 && t2 ? std::min(1.0, ratio(ssd, u(s2), u(t2))) : 1;
        return value;
    case CUS_MATCH_CCORR_NORMED:
        value.score = s2 && t2 ? std::min(1.0, ratio(corr, u(s2), u(t2))) : 0;
        break;
    default: {
        const uint64_t window = u(n) * u(s2) - u(s1) * u(s1), flat = u(n) * u(t2) - u(t1) * u(t1);
        value.score = flat == 0     ? 1
                      : window == 0 ? 0
                                    : std::max(-1.0, std::min(1.0, ratio(n * corr - s1 * t1, window, flat)));
    }
    }
    value.cost = -value.score;
    return value;
}

// Values in the order of ties.
inline std::vector<PoseValue> poseValues(const PosePicture &picture, const PosePicture &templ,
                                         const std::vector<uint8_t> &mask, const std::vector<double> &angles,
                                         const std::vector<double> &scales, cusMatchMethod method) {
    std::vector<PoseValue> values;
    for (size_t a = 0; a < angles.size(); ++a)
        for (size_t s = 0; s < scales.size(); ++s) {
            const PoseWindow w = poseWindow(templ, mask, angles[a], scales[s]);
            for (int row = 0; w.rows > 0 && row + w.rows <= picture.rows; ++row)
                for (int col = 0; col + w.cols <= picture.cols; ++col) {
                    values.push_back(poseValue(picture, w, method, row, col));
                    values.back().angle = static_cast<int>(a), values.back().scale = static_cast<int>(s);
                }
        }
    return values;
}

// The best ones, with suppression.
inline std::vector<PoseValue> bestPoses(std::vector<PoseValue> values, const std::vector<double> &angles,
                                        const cusPoseOptions &o) {
    const bool smallest = o.method == CUS_MATCH_SQDIFF || o.method == CUS_MATCH_SQDIFF_NORMED;
    std::vector<PoseValue> found;
    while (static_cast<int>(found.size()) < o.max_matches) {
        const PoseValue *best = nullptr;
        for (const PoseValue &v : values) {
            if (smallest ? v.score > o.score_limit : v.score < o.score_limit)
                continue;
            if (!best || v.above * best->below < best->above * v.below ||
                (v.above * best->below == best->above * v.below && v.cost < best->cost))
                best = &v;
        }
        if (!best)
            break;
        const PoseValue pick = *best;
        found.push_back(pick);
        std::vector<PoseValue> rest;
        for (const PoseValue &v : values) {
            double turn =
                std::fabs(std::fmod(angles[static_cast<size_t>(v.angle)] - angles[static_cast<size_t>(pick.angle)], 360));
            turn = std::min(turn, 360 - turn);
            if (std::abs(v.x2 - pick.x2) >= 2 * o.min_distance || std::abs(v.y2 - pick.y2) >= 2 * o.min_distance ||
                turn >= o.min_angle)
                rest.push_back(v);
        }
        values = rest;
    }
    return found;
}

struct PoseRefined {
    double x, y, angle, scale;
};

// Each coordinate moved to the vertex of the parabola through the scores of its neighbors; scores about the same center, or half a
// pixel less.
inline PoseRefined refinedPose(const PosePicture &picture, const PosePicture &templ, const std::vector<uint8_t> &mask,
                               const std::vector<double> &angles, const std::vector<double> &scales, cusMatchMethod method,
                               const PoseValue &value) {
    const auto score = [&](int a, int s, int dx, int dy) {
        if (a < 0 || a >= static_cast<int>(angles.size()) || s < 0 || s >= static_cast<int>(scales.size()))
            return std::nan("");
        const PoseWindow w = poseWindow(templ, mask, angles[static_cast<size_t>(a)], scales[static_cast<size_t>(s)]);
        const int col = static_cast<int>(std::floor((value.x2 - w.x2) / 2.0)) + dx,
                  row = static_cast<int>(std::floor((value.y2 - w.y2) / 2.0)) + dy;
        const bool fits =
            w.rows > 0 && col >= 0 && row >= 0 && col + w.cols <= picture.cols && row + w.rows <= picture.rows;
        return fits ? poseValue(picture, w, method, row, col).score : std::nan("");
    };
    const auto vertex = [&](double before, double after) {
        const double v = (before - after) / 2 / (before - 2 * value.score + after);
        return std::fabs(v) <= 0.5 ? v : 0;
    };
    const auto moved = [](const std::vector<double> &values, int i, double v) {
        const auto at = static_cast<size_t>(i);
        return v < 0   ? values[at] - (values[at - 1] - values[at]) * v
               : v > 0 ? values[at] + (values[at + 1] - values[at]) * v
                       : values[at];
    };
    const int a = value.angle, s = value.scale;
    return {value.x2 / 2.0 + vertex(score(a, s, -1, 0), score(a, s, 1, 0)),
            value.y2 / 2.0 + vertex(score(a, s, 0, -1), score(a, s, 0, 1)),
            moved(angles, a, vertex(score(a - 1, s, 0, 0), score(a + 1, s, 0, 0))),
            moved(scales, s, vertex(score(a, s - 1, 0, 0), score(a, s + 1, 0, 0)))};
}

} // namespace reference
