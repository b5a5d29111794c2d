// Integral images from the definition: sum[y + 1][x + 1] = sum of src[j][i] over j <= y, i <= x. Rows have no padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reference {

// (rows + 1) x (cols + 1) entries. Sum: uint32_t for 32SC1 tables, double otherwise. Each row is summed first and then
// added to the entry above: the order of cv::integral.
template<class Sum, class T>
std::vector<Sum> integral(const std::vector<T> &src, size_t rows, size_t cols, bool squares = false) {
    std::vector<Sum> table((rows + 1) * (cols + 1), Sum(0));
    for (size_t y = 0; y < rows; ++y) {
        Sum row = 0;
        for (size_t x = 0; x < cols; ++x) {
            const Sum v = static_cast<Sum>(src[y * cols + x]);
            row += squares ? v * v : v;
            table[(y + 1) * (cols + 1) + x + 1] = table[y * (cols + 1) + x + 1] + row;
        }
    }
    return table;
}

// The sum over a rectangle, pixel by pixel.
template<class Sum, class T>
Sum boxSum(const std::vector<T> &src, size_t cols, int x, int y, int width, int height, bool squares = false) {
    Sum sum = 0;
    for (int j = y; j < y + height; ++j)
        for (int i = x; i < x + width; ++i) {
            const Sum v = static_cast<Sum>(src[static_cast<size_t>(j) * cols + static_cast<size_t>(i)]);
            sum += squares ? v * v : v;
        }
    return sum;
}

} // namespace reference
