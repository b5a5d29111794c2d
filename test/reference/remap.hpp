// remap in its plainest scalar form: the definition that both backends must match. Images are tight.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace reference {

// In 1/256 pixel.
inline int64_t fixedPlace(float coordinate) {
    const double limit = 1 << 29, scaled = 256.0 * static_cast<double>(coordinate);
    if (!(scaled > -limit)) // also NaN
        return -(1 << 29);
    return static_cast<int64_t>(std::nearbyint(scaled < limit ? scaled : limit));
}

// map: x and y of each pixel of the result.
template<class T>
std::vector<T> remap(const std::vector<T> &src, int rows, int cols, int channels, const std::vector<float> &map) {
    std::vector<T> dst;
    for (size_t i = 0; i < map.size(); i += 2) {
        const int64_t fixed_x = fixedPlace(map[i]), fixed_y = fixedPlace(map[i + 1]);
        const auto left = static_cast<int64_t>(std::floor(static_cast<double>(fixed_x) / 256)),
                   top = static_cast<int64_t>(std::floor(static_cast<double>(fixed_y) / 256));
        const int64_t a = fixed_x - 256 * left, b = fixed_y - 256 * top;
        const int64_t weights[4] = {(256 - a) * (256 - b), a * (256 - b), (256 - a) * b, a * b};
        for (int c = 0; c < channels; ++c) {
            T p[4];
            for (int k = 0; k < 4; ++k) {
                const int64_t x = left + k % 2, y = top + k / 2;
                const bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
                p[k] = inside ? src[static_cast<size_t>((y * cols + x) * channels + c)] : T(0);
            }
            if constexpr (std::is_same_v<T, float>) {
                float v[4];
                for (int k = 0; k < 4; ++k)
                    v[k] = p[k] * (static_cast<float>(weights[k]) / 65536.0f);
                const float upper = v[0] + v[1], lower = v[2] + v[3];
                dst.push_back(upper + lower);
            } else {
                int64_t sum = 32768;
                for (int k = 0; k < 4; ++k)
                    sum += weights[k] * p[k];
                dst.push_back(static_cast<T>(sum / 65536));
            }
        }
    }
    return dst;
}

} // namespace reference
