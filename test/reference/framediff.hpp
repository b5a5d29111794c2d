// framediff as plain scalar code: the definition that both backends must match. Frames are byte vectors without padding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace reference {

struct Shape {
    int rows, cols, channels;
    size_t bytes() const { return static_cast<size_t>(rows) * cols * channels; }
};

struct Entries {
    std::vector<uint32_t> positions;
    std::vector<uint8_t> values;
};

// Pixel (y, x) has a channel that changed by more than the threshold; pixels outside the frame have not.
inline bool pixelChanged(const std::vector<uint8_t> &cur, const std::vector<uint8_t> &ref, Shape s, int threshold, int y,
                         int x) {
    if (y < 0 || x < 0 || y >= s.rows || x >= s.cols)
        return false;
    for (int c = 0; c < s.channels; ++c) {
        const size_t i = (static_cast<size_t>(y) * s.cols + x) * s.channels + c;
        if (std::abs(cur[i] - ref[i]) > threshold)
            return true;
    }
    return false;
}

// One frame of the sparse difference with error feedback. Updates ref.
inline Entries encode(std::vector<uint8_t> &ref, const std::vector<uint8_t> &cur, Shape s, int threshold,
                      int min_neighbors) {
    Entries out;
    const std::vector<uint8_t> before = ref;
    for (int y = 0; y < s.rows; ++y)
        for (int x = 0; x < s.cols; ++x) {
            if (min_neighbors > 0 && pixelChanged(cur, before, s, threshold, y, x)) {
                int neighbors = 0;
                for (int j = -1; j <= 1; ++j)
                    for (int i = -1; i <= 1; ++i)
                        neighbors += (i || j) && pixelChanged(cur, before, s, threshold, y + j, x + i);
                if (neighbors < min_neighbors)
                    continue;
            }
            for (int c = 0; c < s.channels; ++c) {
                const size_t i = (static_cast<size_t>(y) * s.cols + x) * s.channels + c;
                const int d = cur[i] - before[i];
                if (std::abs(d) > threshold) {
                    out.positions.push_back(static_cast<uint32_t>(i));
                    out.values.push_back(static_cast<uint8_t>(d));
                    ref[i] = cur[i];
                }
            }
        }
    return out;
}

inline void decode(std::vector<uint8_t> &frame, const Entries &entries) {
    for (size_t k = 0; k < entries.positions.size(); ++k)
        frame[entries.positions[k]] = static_cast<uint8_t>(frame[entries.positions[k]] + entries.values[k]);
}

// The changed-byte mask: rows of ceil(cols * channels / 8) bytes, lowest bit first.
inline std::vector<uint8_t> mask(const Entries &entries, Shape s) {
    const size_t row = static_cast<size_t>(s.cols) * s.channels, mask_row = (row + 7) / 8;
    std::vector<uint8_t> bits(mask_row * s.rows, 0);
    for (uint32_t p : entries.positions)
        bits[p / row * mask_row + p % row / 8] |= static_cast<uint8_t>(1u << (p % row % 8));
    return bits;
}

// |dB| + |dG| + |dR|; for one channel, three times its difference.
inline int summedDifference(const uint8_t *a, const uint8_t *b, int channels) {
    if (channels == 1)
        return 3 * std::abs(a[0] - b[0]);
    return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
}

inline std::vector<uint8_t> heatmap(const std::vector<uint8_t> &prev, const std::vector<uint8_t> &cur, Shape s,
                                    int full_scale) {
    std::vector<uint8_t> out(static_cast<size_t>(s.rows) * s.cols * 3);
    const double pi = std::acos(-1.0);
    const auto level = [](double v) { return static_cast<uint8_t>(std::clamp(v, 0.0, 255.0)); };
    for (size_t p = 0; p < static_cast<size_t>(s.rows) * s.cols; ++p) {
        const double n =
            static_cast<double>(summedDifference(&prev[p * s.channels], &cur[p * s.channels], s.channels)) / full_scale;
        out[3 * p] = level(255 * std::sin(pi * n + pi / 2));
        out[3 * p + 1] = level(255 * std::sin(pi * n));
        out[3 * p + 2] = level(255 * std::sin(pi * n - pi / 2));
    }
    return out;
}

inline std::vector<uint8_t> noiseView(const std::vector<uint8_t> &prev, const std::vector<uint8_t> &cur, Shape s,
                                      int threshold) {
    std::vector<uint8_t> out(static_cast<size_t>(s.rows) * s.cols * 3, 0);
    for (size_t p = 0; p < static_cast<size_t>(s.rows) * s.cols; ++p)
        if (summedDifference(&prev[p * s.channels], &cur[p * s.channels], s.channels) > threshold)
            out[3 * p + 2] = 255;
    return out;
}

} // namespace reference
