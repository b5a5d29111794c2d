// Integral images from the definition: sum[y + 1][x + 1] = sum of src[j][i] over j <= y, i <= x. Rows have no padding.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace reference {

// (rows + 1) x (cols + 1) entries. Sum: uint32_t for 32S tables, double otherwise. Each row is summed first and then
// added to the entry above: the order of cv::integral. Channels are interleaved in both, each a sum of its own.
template<class Sum, class T>
std::vector<Sum> integral(const std::vector<T> &src, size_t rows, size_t cols, bool squares = false, size_t channels = 1) {
    const size_t above = (cols + 1) * channels;
    std::vector<Sum> table((rows + 1) * above, Sum(0));
    for (size_t y = 0; y < rows; ++y)
        for (size_t c = 0; c < channels; ++c) {
            Sum row = 0;
            for (size_t x = 0; x < cols; ++x) {
                const Sum v = static_cast<Sum>(src[(y * cols + x) * channels + c]);
                row += squares ? v * v : v;
                const size_t entry = (y + 1) * above + (x + 1) * channels + c;
                table[entry] = table[entry - above] + row;
            }
        }
    return table;
}

// The exponents of reproducible sums of one channel: values are multiples of 2^(e - k), squares of 2^(2 e - k).
struct Grid {
    int e = 0, k = 0;
    float limit; // a larger magnitude, an infinity or a NaN is outside

    Grid(const std::vector<float> &src, size_t rows, size_t cols, float range, size_t channels, size_t channel)
        : limit(range) {
        for (size_t i = channel; range == 0 && i < src.size(); i += channels)
            if (std::isfinite(src[i]) && std::fabs(src[i]) > limit)
                limit = std::fabs(src[i]);
        if (limit > 0)
            for (e = -149; std::ldexp(1.0, e) < static_cast<double>(limit);)
                ++e;
        while (k < 51 && static_cast<double>(rows) * static_cast<double>(cols) * std::ldexp(1.0, k + 1) < 0x1p63)
            ++k;
    }
    int unit(bool squares) const { return (squares ? 2 * e : e) - k; } // of sums, a power of two
};

// Reproducible tables of floats. range 0: the largest finite magnitude.
inline std::vector<double> reproducible(const std::vector<float> &src, size_t rows, size_t cols, bool squares = false,
                                        float range = 0, size_t channels = 1) {
    const size_t above = (cols + 1) * channels;
    std::vector<double> table((rows + 1) * above, 0.0);
    for (size_t c = 0; c < channels; ++c) {
        const Grid grid(src, rows, cols, range, channels, c);
        const int unit = grid.unit(squares);
        std::vector<int64_t> sums(cols + 1, 0);
        std::vector<bool> outside(cols + 1, false);
        for (size_t y = 0; y < rows; ++y) {
            int64_t row = 0;
            bool any = false; // in the row, up to x
            for (size_t x = 0; x < cols; ++x) {
                const float pixel = src[(y * cols + x) * channels + c];
                const double v = static_cast<double>(pixel);
                if (std::fabs(pixel) <= grid.limit)
                    row += static_cast<int64_t>(std::nearbyint(std::ldexp(squares ? v * v : v, -unit)));
                else
                    any = true;
                sums[x + 1] += row;
                outside[x + 1] = outside[x + 1] || any;
                table[(y + 1) * above + (x + 1) * channels + c] = outside[x + 1]
                                                                      ? std::numeric_limits<double>::quiet_NaN()
                                                                      : std::ldexp(static_cast<double>(sums[x + 1]), unit);
            }
        }
    }
    return table;
}

// The sum over a rectangle of one channel, pixel by pixel.
template<class Sum, class T>
Sum boxSum(const std::vector<T> &src, size_t cols, int x, int y, int width, int height, bool squares = false,
           size_t channels = 1, size_t channel = 0) {
    Sum sum = 0;
    for (int j = y; j < y + height; ++j)
        for (int i = x; i < x + width; ++i) {
            const size_t pixel = static_cast<size_t>(j) * cols + static_cast<size_t>(i);
            const Sum v = static_cast<Sum>(src[pixel * channels + channel]);
            sum += squares ? v * v : v;
        }
    return sum;
}

} // namespace reference
