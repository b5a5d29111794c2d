// Peers of framediff: the published method written plainly from its formulas, and an encoder built on CUB.
#pragma once

#include "cusight/core.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace peers {

// ---- Host: serial loops over tight 8UC3 frames -----------------------------------------------------------------------

inline uint8_t clampedSine(double phase) {
    return static_cast<uint8_t>(std::clamp(255 * std::sin(phase), 0.0, 255.0));
}

// Three sines per pixel.
inline void serialHeatmap(const uint8_t *prev, const uint8_t *cur, uint8_t *dst, size_t pixels) {
    constexpr double pi = 3.14159265358979323846;
    for (size_t p = 0; p < 3 * pixels; p += 3) {
        int d = 0;
        for (size_t c = 0; c < 3; ++c)
            d += std::abs(cur[p + c] - prev[p + c]);
        const double n = d / 765.0;
        dst[p] = clampedSine(pi * n + pi / 2);
        dst[p + 1] = clampedSine(pi * n);
        dst[p + 2] = clampedSine(pi * n - pi / 2);
    }
}

// Reverts unsent changes in cur, which is the next call's prev. Returns the count.
inline uint32_t serialEncode(uint8_t *cur, const uint8_t *prev, size_t bytes, int threshold, uint32_t *positions,
                             uint8_t *values) {
    uint32_t count = 0;
    for (size_t i = 0; i < bytes; ++i) {
        const int d = cur[i] - prev[i];
        if (std::abs(d) > threshold) {
            positions[count] = static_cast<uint32_t>(i);
            values[count] = static_cast<uint8_t>(d);
            ++count;
        } else {
            cur[i] = static_cast<uint8_t>(cur[i] - d);
        }
    }
    return count;
}

inline void serialDecode(uint8_t *frame, const uint32_t *positions, const uint8_t *values, uint32_t count) {
    for (uint32_t k = 0; k < count; ++k)
        frame[positions[k]] = static_cast<uint8_t>(frame[positions[k]] + values[k]);
}

// ---- CUDA: framediff.cu ----------------------------------------------------------------------------------------------

// One thread per pixel, byte loads, three sines per pixel.
void publishedHeatmap(const cusMat &prev, const cusMat &cur, cusMat &dst, cusStream stream);

// One thread per byte; an atomic counter assigns positions, so entries are unordered. cur becomes the next call's prev.
void publishedEncode(cusMat &cur, const cusMat &prev, int threshold, uint32_t *positions, uint8_t *values, uint32_t *count,
                     cusStream stream);

// DeviceSelect::If over the byte indices, then a gather of the values that also updates ref in place. Frames without padding.
class CubEncoder {
  public:
    CubEncoder() = default;
    ~CubEncoder();
    CubEncoder(const CubEncoder &) = delete;
    CubEncoder &operator=(const CubEncoder &) = delete;
    void create(uint32_t bytes);
    void encode(const uint8_t *cur, uint8_t *ref, int threshold, uint32_t *positions, uint8_t *values, uint32_t *count,
                cusStream stream);

  private:
    uint32_t bytes_ = 0;
    size_t temporary_bytes_ = 0;
    void *temporary_ = nullptr;
};

} // namespace peers
