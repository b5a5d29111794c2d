// Scores of 32F images, operation by operation: the order of all sums, so that backends can be compared bit for bit.
#pragma once

#include "reference/match.hpp"

#include <numeric>

namespace reference {

// a / sqrt(b c), rounded once, by arithmetic of 113 bits.
inline double quotient(double a, double b, double c) {
#ifdef __SIZEOF_FLOAT128__
    using Wide = __float128;
#else
    using Wide = long double;
#endif
    const Wide square = static_cast<Wide>(b) * c;
    Wide root = std::sqrt(static_cast<long double>(square));
    root = (root + square / root) / 2; // Newton's step doubles the digits
    return static_cast<double>(a / root);
}

// Halves the sums until one is left: 0 + n/2, 1 + n/2 + 1, ...
inline double byHalving(std::vector<double> sums) {
    for (size_t n = sums.size() / 2; n; n /= 2)
        for (size_t i = 0; i < n; ++i)
            sums[i] += sums[i + n];
    return sums[0];
}

// One number of each pixel inside the mask, summed over a window as modules/match/scores.h describes it.
class WindowOrder {
  public:
    WindowOrder(int rows, int cols, int channels) : rows_(rows), cols_(cols) {
        const int busy = rows * cols * channels / (8 * LANES);
        slices_ = std::clamp(busy, 1, std::min(rows, 64));
    }
    // value(add, row, column) calls add(v) for each channel.
    template<class Value>
    double sum(const Value &value) const {
        const int each = (rows_ + slices_ - 1) / slices_;
        std::vector<double> window(32);
        for (int s = 0; s < slices_; ++s) {
            std::vector<double> lanes(LANES);
            for (int j = std::min(s * each, rows_), pixel = 0; j < std::min((s + 1) * each, rows_); ++j)
                for (int i = 0; i < cols_; ++i, ++pixel)
                    value([&](double v) { lanes[static_cast<size_t>(pixel % LANES)] += v; }, j, i);
            window[static_cast<size_t>(s % 32)] += ofLanes(lanes);
        }
        return byHalving(window);
    }
    static double ofLanes(const std::vector<double> &lanes) {
        double sum = 0;
        for (auto at = lanes.begin(); at != lanes.end(); at += 32) {
            const double part = byHalving({at, at + 32});
            sum = at == lanes.begin() ? part : sum + part;
        }
        return sum;
    }
    static constexpr int LANES = 384;

  private:
    int rows_, cols_, slices_;
};

// The mean of a channel inside the mask, one value after the other; rounded if all values of all channels are integers.
inline std::vector<double> means(const Image<float> &templ, const uint8_t *mask, double n) {
    std::vector<double> sums(static_cast<size_t>(templ.channels));
    bool integers = true;
    for (size_t i = 0; i < templ.data.size(); ++i) {
        const size_t channels = sums.size();
        if (mask && !mask[i / channels])
            continue;
        sums[i % channels] += templ.data[i];
        integers &= templ.data[i] == std::rint(templ.data[i]);
    }
    for (double &sum : sums)
        sum = static_cast<float>(integers ? std::rint(sum / n) : sum / n);
    return sums;
}

// The score of the window at (y, x), without weights.
inline double floatScore(const Image<float> &image, const Image<float> &templ, const uint8_t *mask, cusMatchMethod method,
                         int y, int x) {
    const int channels = templ.channels, pixels = templ.rows * templ.cols;
    const auto isInside = [&](int pixel) { return !mask || mask[pixel]; };
    std::vector<int> inside;
    for (int i = 0; i < pixels; ++i)
        if (isInside(i))
            inside.push_back(i);
    const double n = static_cast<double>(inside.size());
    const std::vector<double> shift = means(templ, mask, n);

    // The window is centered by the mean of a sample of its pixels.
    std::vector<double> center(shift.size()), s1(shift.size()), t1(shift.size());
    const size_t samples = method >= CUS_MATCH_CCOEFF ? std::min<size_t>(inside.size(), WindowOrder::LANES) : 0;
    for (int c = 0; c < channels && samples; ++c) {
        std::vector<double> lanes(WindowOrder::LANES);
        for (size_t i = 0; i < samples; ++i) {
            const int pixel = inside[i * inside.size() / samples];
            lanes[i] = image.at(y + pixel / templ.cols, x + pixel % templ.cols, c);
        }
        const double sum = WindowOrder::ofLanes(lanes), mean = sum / static_cast<double>(samples);
        const bool integers = sum == std::rint(sum) && image.at(y, x, c) == std::rint(image.at(y, x, c));
        center[static_cast<size_t>(c)] = integers ? std::rint(mean) : mean;
    }

    const WindowOrder order(templ.rows, templ.cols, channels);
    const auto sumOf = [&](int first, int last, const auto &term) { // term(pixel, template, channel)
        return order.sum([&](const auto &add, int j, int i) {
            for (int c = first; c < last && isInside(j * templ.cols + i); ++c)
                add(term(static_cast<double>(image.at(y + j, x + i, c)), static_cast<double>(templ.at(j, i, c)),
                         static_cast<size_t>(c)));
        });
    };
    const double ssd = sumOf(0, channels, [](double a, double b, size_t) { return (a - b) * (a - b); });
    const double product =
        sumOf(0, channels, [&](double a, double b, size_t c) { return (a - center[c]) * (b - shift[c]); });
    const double s2 = sumOf(0, channels, [&](double a, double, size_t c) { return (a - center[c]) * (a - center[c]); });
    double t2 = 0, raw_t2 = 0;
    bool one_color = true;
    for (int pixel : inside)
        for (int c = 0; c < channels; ++c) {
            const double raw = templ.at(pixel / templ.cols, pixel % templ.cols, c), v = raw - shift[static_cast<size_t>(c)];
            t1[static_cast<size_t>(c)] += v;
            t2 += v * v;
            raw_t2 += raw * raw;
            one_color &= raw == templ.at(inside[0] / templ.cols, inside[0] % templ.cols, c);
        }
    for (int c = 0; c < channels; ++c)
        s1[static_cast<size_t>(c)] = sumOf(c, c + 1, [&](double a, double, size_t at) { return a - center[at]; });

    const auto centered = [&](double ab, const std::vector<double> &a, const std::vector<double> &b) {
        double sum = n * ab;
        for (size_t c = 0; c < a.size(); ++c)
            sum -= a[c] * b[c];
        return sum;
    };
    double corr = product;
    for (size_t c = 0; c < s1.size(); ++c)
        corr += shift[c] * s1[c];
    switch (method) {
    case CUS_MATCH_SQDIFF:
        return ssd;
    case CUS_MATCH_SQDIFF_NORMED:
        return s2 > 0 && raw_t2 > 0 ? std::min(quotient(ssd, s2, raw_t2), 1.0) : 1;
    case CUS_MATCH_CCORR:
        return corr;
    case CUS_MATCH_CCORR_NORMED:
        return s2 > 0 && raw_t2 > 0 ? std::clamp(quotient(corr, s2, raw_t2), -1.0, 1.0) : 0;
    case CUS_MATCH_CCOEFF:
        return quotient(centered(product, s1, t1), n, n);
    default: {
        const double window = centered(s2, s1, s1), flat = centered(t2, t1, t1);
        double least = 0; // of a window that is not of one color
        for (double c : center)
            least += 0x1p-60 * c * c * n;
        if (one_color || !(flat > 0))
            return 1;
        return window > least ? std::clamp(quotient(centered(product, s1, t1), window, flat), -1.0, 1.0) : 0;
    }
    }
}

// What positions are compared by; scores that differ by less are ties.
inline double rankOf(const Image<float> &templ, const uint8_t *mask, cusMatchMethod method, double score) {
    if (score == std::rint(score) && std::fabs(score) < 0x1p53)
        return score;
    if (method == CUS_MATCH_SQDIFF_NORMED || method == CUS_MATCH_CCORR_NORMED || method == CUS_MATCH_CCOEFF_NORMED)
        return std::rint(score * 0x1p34) * 0x1p-34;
    int exponent = 0;
    if (method == CUS_MATCH_SQDIFF) {
        double squares = 0;
        for (size_t i = 0; i < templ.data.size(); ++i)
            if (!mask || mask[i / static_cast<size_t>(templ.channels)])
                squares += static_cast<double>(templ.data[i]) * templ.data[i];
        if (!(squares > 0))
            return score;
        const double step = std::ldexp(1, std::ilogb(squares) - 36);
        return std::rint(score / step) * step;
    }
    const double mantissa = std::frexp(score, &exponent); // 0.5 to 1: 36 bits
    return std::ldexp(std::rint(std::ldexp(mantissa, 36)), exponent - 36);
}

inline std::vector<double> floatScores(const Image<float> &image, const Image<float> &templ, const uint8_t *mask,
                                       cusMatchMethod method) {
    std::vector<double> scores;
    for (int y = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x)
            scores.push_back(floatScore(image, templ, mask, method, y, x));
    return scores;
}

inline std::vector<Found> bestFloats(const std::vector<double> &scores, int cols, const Image<float> &templ,
                                     const uint8_t *mask, cusMatchMethod method, int k, int distance) {
    std::vector<double> ranks;
    for (const double score : scores)
        ranks.push_back(rankOf(templ, mask, method, score));
    auto found = best(ranks, cols, method, k, distance);
    for (Found &f : found)
        f.score = scores[static_cast<size_t>(f.y) * static_cast<size_t>(cols) + static_cast<size_t>(f.x)];
    return found;
}

} // namespace reference
