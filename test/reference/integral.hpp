// Integral images from the definition: sum[y + 1][x + 1] = sum of src[j][i] over j <= y, i <= x. Rows have no padding.
#pragma once

#include <cstddef>
#include <cstdint>
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
