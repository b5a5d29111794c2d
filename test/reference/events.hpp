// Event frames from their formulas, event by event.
#pragma once

#include "cusight/events.h"
#include "recording.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reference {

// s_0 = 0, s_k = floor(n / 2) + floor(n / 4) + ... (k terms), n halved in integers each time
inline std::vector<size_t> mdesStarts(size_t n, int channels) {
    std::vector<size_t> s{0};
    for (size_t half = n / 2; s.size() < static_cast<size_t>(channels); half /= 2)
        s.push_back(s.back() + half);
    return s;
}

inline double saturate(double value, double limit) {
    return std::min(value, limit);
}

// Subtracts the mean of the non-zero values from them and divides them by their standard deviation. Moments are exact, in units
// of 2^-24, of which the values, as floats, are multiples; each value is then computed in float, by three operations.
inline void normalize(std::vector<double> &values, bool sample) {
    __extension__ using Wide = __int128;
    Wide n = 0, sum = 0, squares = 0;
    for (double &v : values) {
        v = std::ldexp(static_cast<double>(static_cast<float>(v)), 24);
        n += v != 0;
        sum += static_cast<Wide>(v);
        squares += static_cast<Wide>(v) * static_cast<Wide>(v);
    }
    if (n == 0)
        return;
    const long double count = static_cast<long double>(n), mean = static_cast<long double>(sum) / count,
                      deviations = static_cast<long double>(n * squares - sum * sum) / count;
    const float first = static_cast<float>(mean), rest = static_cast<float>(mean - static_cast<long double>(first)),
                scale = deviations > 0 ? static_cast<float>(std::sqrt((count - (sample ? 1 : 0)) / deviations)) : 0.0f;
    for (double &v : values) {
        const float about = static_cast<float>(v) - first, centered = about - rest;
        v = v != 0 ? static_cast<double>(centered * scale) : 0;
    }
}

// Splits the polarity of an event at `time`, counted in bins, between the two nearest bins of its pixel.
inline void addVoxel(double *pixel, size_t bins, double time, bool positive, bool fixed_point) {
    double next = time - std::floor(time);
    // Which values are 0, and do not count for the mean, depends on the rounding of the weights; those of a pixel may cancel
    // in one arithmetic and not in the other. Sums of multiples of 2^-24 are exact.
    if (fixed_point)
        next = std::ldexp(std::floor(std::ldexp(next, 24) + 0.5), -24);
    const size_t bin = static_cast<size_t>(time);
    pixel[bin] += positive ? 1 - next : next - 1;
    if (bin + 1 < bins)
        pixel[bin + 1] += positive ? next : -next;
}

constexpr double EVENT_WEIGHT = 16777216; // 2^24

// Splits an event of a cube between the two bins nearest to `time`, in units of 2^-24. pixel: the first bin's value.
inline void addToCube(double *pixel, long bins, double time, double unit) {
    const long bin = static_cast<long>(std::floor(time));
    const double next = std::floor(std::ldexp(time - std::floor(time), 24) + 0.5);
    if (bin >= 0 && bin < bins)
        pixel[2 * bin] += unit - next;
    if (bin + 1 >= 0 && bin + 1 < bins)
        pixel[2 * (bin + 1)] += next;
}

// A voxel grid, event by event, where each event's weights are split between the four pixels around the position that the map
// has for its pixel. Weights of time and then their shares are rounded to multiples of 2^-24.
inline std::vector<double> rectifiedVoxels(const Events &events, cusEventWindow window, int rows, int cols, size_t bins,
                                           const cusMat &map) {
    std::vector<double> out(static_cast<size_t>(rows) * static_cast<size_t>(cols) * bins);
    for (uint64_t e = window.first; e < window.last; ++e) {
        if (events.x[e] >= cols || events.y[e] >= rows)
            continue;
        const float *xy =
            reinterpret_cast<const float *>(static_cast<const char *>(map.data) + events.y[e] * map.step) + 2 * events.x[e];
        const int64_t dt = std::max<int64_t>(events.t[window.last - 1] - events.t[window.first], 1);
        const double time = static_cast<double>(bins - 1) * static_cast<double>(events.t[e] - events.t[window.first]) /
                            static_cast<double>(dt);
        std::vector<double> weights(bins);
        addVoxel(weights.data(), bins, time, events.p[e] != 0, true);
        for (int y = 0; y < rows; ++y)
            for (int x = 0; x < cols; ++x) {
                const double dx = 1 - std::fabs(static_cast<double>(xy[0]) - x),
                             dy = 1 - std::fabs(static_cast<double>(xy[1]) - y);
                if (!(dx > 0 && dy > 0))
                    continue;
                for (size_t b = 0; b < bins; ++b)
                    out[(static_cast<size_t>(y) * static_cast<size_t>(cols) + static_cast<size_t>(x)) * bins + b] +=
                        std::ldexp(std::nearbyint(dy * dx * std::ldexp(weights[b], 24)), -24);
            }
    }
    return out;
}

// exp(since / tau) as a power of two, whose fraction is a polynomial: each operation rounds once, the float too.
inline float exponential(double since, double tau) {
    const double decay = std::min(1.44269504088896340736 / tau, std::numeric_limits<double>::max());
    const double power = std::max(-160.0, std::min(128.0, since * decay)), whole = std::nearbyint(power);
    double sum = 0;
    for (const double coefficient :
         {0x1.c04815415f25ep-17, 0x1.443f95e689c5dp-13, 0x1.5dc05149ba9cap-10, 0x1.3b2a1bf5b7f04p-7, 0x1.c6b0551d56c6dp-5,
          0x1.ebfbe045705a1p-3, 0x1.62e4300b9dab4p-1, 1.0})
        sum = sum * (power - whole) + coefficient;
    return static_cast<float>(std::ldexp(sum, static_cast<int>(whole)));
}

// The bits of the half that is nearest to a float; of two, the even one.
inline uint16_t halfBits(float value) {
    const double size = std::fabs(static_cast<double>(value));
    const int exponent = size > 0 ? std::max(std::ilogb(size), -14) : -14;
    const double units = std::nearbyint(std::ldexp(size, 10 - exponent)), limit = 31 << 10;
    const double bits = size < 65536 ? std::ldexp(exponent + 14, 10) + units : limit;
    return static_cast<uint16_t>(static_cast<int>(bits) | (std::signbit(value) ? 0x8000 : 0));
}

inline double halfValue(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? std::numeric_limits<double>::infinity()
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

// One frame, row-major [row][col][channel], in double, which holds every value of every type. span: the window's own bounds.
inline std::vector<double> frame(const Events &events, cusEventWindow window, int rows, int cols,
                                 const cusRepresentation &r, const cusEventSpan *span = nullptr) {
    const size_t first = window.first, n = window.last - window.first;
    int type = 0;
    cusRepresentationType(&r, &type);
    const size_t channels = static_cast<size_t>(CUS_CHANNELS(type)), bins = static_cast<size_t>(r.channels);
    const double empty = r.kind == CUS_REPR_MDES && r.depth == CUS_8U ? 128 : 0;
    std::vector<double> out(static_cast<size_t>(rows) * static_cast<size_t>(cols) * channels, empty);
    if (n == 0)
        return out;
    const int64_t t0 = events.t[first], tn = events.t[first + n - 1], dt = tn - t0;
    const std::vector<size_t> starts = mdesStarts(n, r.channels);
    const cusEventSpan bounds = r.window_times && span ? *span : cusEventSpan{t0, tn};
    const double length = static_cast<double>(std::max<int64_t>(bounds.end - bounds.begin, 1));
    const bool unset = r.lower == 0 && r.upper == 0;
    const double lower = unset ? -128 : r.lower, upper = unset ? 127 : r.upper;
    for (size_t i = 0; i < n; ++i) {
        const size_t e = first + i;
        if (events.x[e] >= cols || events.y[e] >= rows)
            continue;
        double *pixel = &out[(events.y[e] * static_cast<size_t>(cols) + events.x[e]) * channels];
        const bool positive = events.p[e] != 0;
        const int64_t t = events.t[e];
        const size_t polarity = positive == (r.swap_channels != 0) ? 1 : 0; // 0: the first of the two
        switch (r.kind) {
        case CUS_REPR_HISTOGRAM:
            pixel[polarity] = saturate(pixel[polarity] + 1, 255);
            break;
        case CUS_REPR_MDES:
            for (size_t k = 0; k < channels; ++k)
                if (i >= starts[k])
                    pixel[k] = r.depth == CUS_8U ? (positive ? 255 : 0) : (positive ? 1 : -1);
            break;
        case CUS_REPR_MDES_COUNT:
            for (size_t k = 0; k < channels; ++k)
                if (i >= starts[k])
                    pixel[k] = saturate(pixel[k] + 1, 255);
            break;
        case CUS_REPR_TENCODE: {
            const double red = positive ? 255 : 0, blue = positive ? 0 : 255;
            pixel[0] = r.swap_channels ? red : blue;
            pixel[1] = dt > 0 ? static_cast<double>(255 * (tn - t) / dt) : 0;
            pixel[2] = r.swap_channels ? blue : red;
            break;
        }
        case CUS_REPR_STACKED_HISTOGRAM: {
            __extension__ using Wide = __int128; // bins times a span
            const Wide scaled = static_cast<Wide>(bins) * (t - t0) / std::max<int64_t>(dt, 1);
            const size_t bin = std::min(static_cast<size_t>(scaled), bins - 1);
            double &count = pixel[polarity * bins + bin];
            count = saturate(count + 1, r.cutoff);
            break;
        }
        case CUS_REPR_VOXEL_GRID: {
            const double time =
                static_cast<double>(bins - 1) * static_cast<double>(t - t0) / static_cast<double>(std::max<int64_t>(dt, 1));
            addVoxel(pixel, bins, time, positive, r.normalize != 0 || r.depth == CUS_16F);
            break;
        }
        case CUS_REPR_TIME_SURFACE:
            pixel[polarity] = r.surface == CUS_SURFACE_EXPONENTIAL
                                  ? static_cast<double>(exponential(static_cast<double>(t - bounds.end), r.tau))
                              : r.surface == CUS_SURFACE_TIME
                                  ? std::max(static_cast<double>(t - bounds.begin), 0.0)
                                  : std::max(static_cast<double>(t - bounds.begin), 0.0) / length;
            break;
        case CUS_REPR_EVENT_DIFF:
            pixel[0] += positive ? 1 : -1;
            if (r.clip_each_event)
                pixel[0] = std::max(lower, std::min(upper, pixel[0]));
            break;
        case CUS_REPR_EVENT_CUBE:
            addToCube(pixel + polarity, r.channels,
                      static_cast<double>(r.channels) * static_cast<double>(t - bounds.begin) / length + 0.5 - 1,
                      EVENT_WEIGHT);
            break;
        case CUS_REPR_MDES_DIFF:
            for (size_t k = 0; k < channels; ++k)
                if (k + 1 == channels || std::ldexp(static_cast<double>(t - t0), static_cast<int>(channels - 1 - k)) <
                                             static_cast<double>(std::max<int64_t>(dt, 1)))
                    pixel[k] += positive ? 1 : -1;
            break;
        }
    }
    if (r.kind == CUS_REPR_EVENT_DIFF || r.kind == CUS_REPR_MDES_DIFF)
        for (double &v : out)
            v = std::max(lower, std::min(upper, v));
    if (r.kind == CUS_REPR_EVENT_CUBE)
        for (double &v : out)
            v = static_cast<double>(static_cast<float>(std::min(v * (r.scale / EVENT_WEIGHT), r.clip)));
    if (r.kind == CUS_REPR_TIME_SURFACE && r.surface)
        for (double &v : out)
            v = static_cast<double>(static_cast<float>(v));
    if (r.kind == CUS_REPR_VOXEL_GRID && r.map) {
        out = rectifiedVoxels(events, window, rows, cols, bins, *r.map);
        for (double &v : out)
            v = static_cast<double>(static_cast<float>(v));
    }
    if (r.kind == CUS_REPR_VOXEL_GRID && r.normalize)
        normalize(out, r.normalize == CUS_NORMALIZE_SAMPLE);
    if (CUS_DEPTH(type) == CUS_16F)
        for (double &v : out)
            v = halfValue(halfBits(static_cast<float>(v)));
    return out;
}

inline uint64_t skipped(const Events &events, cusEventWindow window, int rows, int cols) {
    uint64_t count = 0;
    for (uint64_t e = window.first; e < window.last; ++e)
        count += events.x[e] >= cols || events.y[e] >= rows;
    return count;
}

// The windows in order, straight from the definition.
inline std::vector<cusEventWindow> windows(const Events &events, const cusWindowing &w) {
    std::vector<cusEventWindow> list;
    const uint64_t stride = w.stride ? w.stride : w.length, n = events.size();
    for (uint64_t start = 0; n > 0; start += stride) {
        cusEventWindow window = {start, std::min<uint64_t>(start + w.length, n)};
        bool complete = start + w.length <= n, any = start < n;
        if (w.unit == CUS_WINDOW_DURATION) {
            const auto at = [&](uint64_t time) {
                uint64_t i = 0;
                while (i < n && static_cast<uint64_t>(events.t[i] - events.t[0]) < time)
                    ++i;
                return i;
            };
            const uint64_t newest = static_cast<uint64_t>(events.t[n - 1] - events.t[0]);
            window = {at(start), at(start + w.length)};
            complete = newest + 1 >= start + w.length;
            any = newest >= start;
        }
        if (complete || (any && w.keep_incomplete))
            list.push_back(window);
        if (!complete)
            break;
    }
    return list;
}

} // namespace reference
