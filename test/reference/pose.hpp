// Template matching under rotation and scale, from the definition: every position of every pose.
#pragma once

#include "cusight/pose.h"

#include <algorithm>
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

// Costs on a 3 x 3 grid, those of y in rows, and the vertex of the quadratic surface through them.
struct PoseSurface {
    double f[3][3], x = 0, y = 0, least = std::nan("");
    bool complete() const {
        return std::none_of(&f[0][0], &f[0][0] + 9, [](double v) { return std::isnan(v); });
    }
    void solve() {
        const double gx = (f[1][2] - f[1][0]) / 2, hx = f[1][2] - 2 * f[1][1] + f[1][0];
        const double gy = (f[2][1] - f[0][1]) / 2, hy = f[2][1] - 2 * f[1][1] + f[0][1];
        const double cross = (f[2][2] - f[2][0] - f[0][2] + f[0][0]) / 4;
        const double below = hx * hy - cross * cross;
        x = (cross * gy - hy * gx) / below, y = (cross * gx - hx * gy) / below;
        if (!(hx > 0 && below > 0 && std::fabs(x) <= 1 && std::fabs(y) <= 1)) { // none near: each axis alone
            x = hx > 0 && std::fabs(gx) <= hx ? -gx / hx : 0;
            y = hy > 0 && std::fabs(gy) <= hy ? -gy / hy : 0;
        }
        least = f[1][1] + ((x != 0 ? gx * x : 0) + (y != 0 ? gy * y : 0)) / 2;
    }
};

// The indices of the values next below and above, and how far they are; -1 if there are not two at similar distances.
struct PoseBeside {
    int below = -1, at, above = -1;
    double down = INFINITY, up = INFINITY;
    PoseBeside(const std::vector<double> &values, int i, bool circular) : at(i) {
        const double here = values[static_cast<size_t>(i)];
        const auto wrapped = [&](double d) {
            d = circular ? std::fmod(d, 360) : d;
            return circular && d < 0 ? d + 360 : d;
        };
        for (size_t j = 0; j < values.size(); ++j) {
            if (const double d = wrapped(values[j] - here); d > 1e-6 && d < up)
                up = d, above = static_cast<int>(j);
            if (const double d = wrapped(here - values[j]); d > 1e-6 && d < down)
                down = d, below = static_cast<int>(j);
        }
        if (!(up <= 2 * down && down <= 2 * up))
            below = above = -1;
    }
    int operator[](int i) const { return i == 0 ? below : i == 1 ? at : above; }
    double moved(double value, double t) const {
        return t != 0 ? value + t * (up + down) / 2 + t * t * (up - down) / 2 : value;
    }
};

// A pose's best position near the center of a match, to a fraction of a pixel, and its cost there; NaN if there is none.
struct PosePeak {
    double x = std::nan(""), y = std::nan(""), cost = std::nan("");
    bool complete = false;
};

inline PosePeak posePeak(const PosePicture &picture, const PoseWindow &w, cusMatchMethod method, const PoseValue &match,
                         bool own) {
    PosePeak peak;
    if (w.rows == 0)
        return peak;
    const double sign = method == CUS_MATCH_SQDIFF || method == CUS_MATCH_SQDIFF_NORMED ? 1 : -1;
    int col = static_cast<int>(std::floor((match.x2 - w.x2) / 2.0)),
        row = static_cast<int>(std::floor((match.y2 - w.y2) / 2.0));
    for (int trial = 1;; ++trial) {
        PoseSurface s;
        int to_x = 1, to_y = 1;
        for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 3; ++x) {
                const int c = col + x - 1, r = row + y - 1;
                const bool fits = c >= 0 && r >= 0 && c + w.cols <= picture.cols && r + w.rows <= picture.rows;
                s.f[y][x] = fits ? sign * poseValue(picture, w, method, r, c).score : std::nan("");
            }
        for (int i = 0; i < 9; ++i)
            if (s.f[i / 3][i % 3] < s.f[to_y][to_x])
                to_y = i / 3, to_x = i % 3;
        peak.complete = s.complete();
        const bool centered = to_x == 1 && to_y == 1;
        if (!own && (!peak.complete || (!centered && trial == 8)))
            return {};
        if (own || centered) {
            s.solve();
            peak.x = (2 * col + w.x2) / 2.0 + s.x, peak.y = (2 * row + w.y2) / 2.0 + s.y, peak.cost = s.least;
            return peak;
        }
        row += to_y - 1, col += to_x - 1;
    }
}

// The vertex over angle and scale of the peaks of nine poses, after up to four steps towards the least one. x and y are
// interpolated between the peaks.
inline PoseRefined refinedPose(const PosePicture &picture, const PosePicture &templ, const std::vector<uint8_t> &mask,
                               const std::vector<double> &angles, const std::vector<double> &scales, cusMatchMethod method,
                               const PoseValue &match) {
    int angle = match.angle, scale = match.scale;
    for (int step = 0;; ++step) {
        const PoseBeside a(angles, angle, true), s(scales, scale, false);
        PosePeak peaks[3][3];
        for (int i = 0; i < 9; ++i)
            if (const int at = a[i % 3], of = s[i / 3]; at >= 0 && of >= 0)
                peaks[i / 3][i % 3] = posePeak(
                    picture, poseWindow(templ, mask, angles[static_cast<size_t>(at)], scales[static_cast<size_t>(of)]),
                    method, match, at == match.angle && of == match.scale);
        int x = 1, y = 1;
        PoseSurface surface;
        for (int i = 0; i < 9; ++i) {
            const bool used = peaks[1][1].complete || i == 4;
            surface.f[i / 3][i % 3] = used ? peaks[i / 3][i % 3].cost : std::nan("");
            if (used && peaks[i / 3][i % 3].cost < peaks[y][x].cost)
                x = i % 3, y = i / 3;
        }
        if ((x != 1 || y != 1) && step < 4) {
            angle = a[x], scale = s[y];
            continue;
        }
        surface.solve();
        const auto along = [](double t, double before, double after) { return t != 0 ? t * (after - before) / 2 : 0; };
        const PosePeak &own = peaks[1][1];
        return {own.x + along(surface.x, peaks[1][0].x, peaks[1][2].x) + along(surface.y, peaks[0][1].x, peaks[2][1].x),
                own.y + along(surface.x, peaks[1][0].y, peaks[1][2].y) + along(surface.y, peaks[0][1].y, peaks[2][1].y),
                a.moved(angles[static_cast<size_t>(angle)], surface.x),
                s.moved(scales[static_cast<size_t>(scale)], surface.y)};
    }
}

} // namespace reference
