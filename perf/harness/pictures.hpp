// Generated pictures with the properties of photographs that matter for matching and color counting.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace perf {

// Waves and noise that make neighboring scores as similar as in a photograph. (x0, y0) is the first pixel of an endless
// picture.
inline std::vector<uint8_t> picture(int rows, int cols, int channels, unsigned seed, int x0 = 0, int y0 = 0) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes;
    bytes.reserve(static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels));
    // sin(a + b) and sin(a - b) from tables over the columns and the row's own sines.
    std::vector<double> sine[2], cosine[2];
    constexpr double along[2] = {0.031, 0.11}, down[2] = {0.017, -0.13}, height[2] = {60, 40};
    for (int k = 0; k < 2; ++k)
        for (int x = x0; x < x0 + cols; ++x) {
            sine[k].push_back(height[k] * std::sin(along[k] * x));
            cosine[k].push_back(height[k] * std::cos(along[k] * x));
        }
    for (int y = y0; y < y0 + rows; ++y) {
        double s[2][3], t[2][3]; // the row's sine and cosine, for each channel
        for (int k = 0; k < 2; ++k)
            for (int c = 0; c < channels; ++c) {
                s[k][c] = std::sin(down[k] * y + (k == 0 ? c : 0));
                t[k][c] = std::cos(down[k] * y + (k == 0 ? c : 0));
            }
        for (size_t x = 0; x < static_cast<size_t>(cols); ++x)
            for (int c = 0; c < channels; ++c) {
                double wave = 127;
                for (int k = 0; k < 2; ++k)
                    wave += sine[k][x] * t[k][c] + cosine[k][x] * s[k][c];
                bytes.push_back(static_cast<uint8_t>(std::clamp(wave + random() % 24, 0.0, 255.0)));
            }
    }
    return bytes;
}

} // namespace perf
