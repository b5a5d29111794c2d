// The published method of the stereo contour map: every stage over whole images, one agreement image per shift, running
// window sums in two steps (along the rows, then down the columns), memory allocated once; a torus, as published.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cusight/core.h"

namespace peers {

struct StereoSetting {
    int rows, cols, shifts, window, iterations, levels;
    float threshold;
};

// ---- Host: serial, images without padding -----------------------------------------------------------------------------------

class SerialStereo {
  public:
    explicit SerialStereo(const StereoSetting &s)
        : s_(s), edges_{image(), image()}, agreement_(image()), score_(image()), best_(image()), next_(image()) {}

    void run(const uint8_t *left, const uint8_t *right, uint16_t *elevation, uint8_t *contours) {
        edges(left, edges_[0]);
        edges(right, edges_[1]);
        std::fill(best_.begin(), best_.end(), 0);
        std::fill(elevation, elevation + best_.size(), uint16_t(0));
        for (int s = 0; s < s_.shifts; ++s) {
            for (int y = 0; y < s_.rows; ++y)
                for (int x = 0; x < s_.cols; ++x)
                    agreement_[at(y, x)] = edges_[0][at(y, x)] == edges_[1][at(y, x + s)];
            windowSums();
            for (size_t i = 0; i < best_.size(); ++i)
                if (agreement_[i] && score_[i] >= best_[i]) {
                    best_[i] = score_[i];
                    elevation[i] = static_cast<uint16_t>(1 + s);
                }
        }
        for (int i = 0; i < s_.iterations; ++i) {
            for (int y = 0; y < s_.rows; ++y)
                for (int x = 0; x < s_.cols; ++x) {
                    const int e = elevation[at(y, x)];
                    next_[at(y, x)] = e ? e
                                        : (elevation[at(y, x - 1)] + elevation[at(y, x + 1)] + elevation[at(y - 1, x)] +
                                           elevation[at(y + 1, x)]) /
                                              4;
                }
            std::copy(next_.begin(), next_.end(), elevation);
        }
        const auto range = std::minmax_element(elevation, elevation + best_.size());
        const int interval = std::max(1, (*range.second - *range.first) / s_.levels);
        for (size_t i = 0; i < best_.size(); ++i)
            contours[i] = (elevation[i] - *range.first) % interval == 0 ? 255 : 0;
    }

  private:
    std::vector<int> image() const { return std::vector<int>(static_cast<size_t>(s_.rows) * static_cast<size_t>(s_.cols)); }

    // Offsets never exceed the size of the image.
    size_t at(int y, int x) const {
        y += y < 0 ? s_.rows : y >= s_.rows ? -s_.rows : 0;
        x += x < 0 ? s_.cols : x >= s_.cols ? -s_.cols : 0;
        return static_cast<size_t>(y) * static_cast<size_t>(s_.cols) + static_cast<size_t>(x);
    }

    // score_: sums of agreement_ over the window; next_ holds those over its rows. An agreeing pixel counts itself.
    void windowSums() {
        const int radius = s_.window / 2;
        for (int y = 0; y < s_.rows; ++y) {
            int sum = 0;
            for (int x = -radius; x < radius; ++x)
                sum += agreement_[at(y, x)];
            for (int x = 0; x < s_.cols; ++x) {
                sum += agreement_[at(y, x + radius)];
                next_[at(y, x)] = sum;
                sum -= agreement_[at(y, x - radius)];
            }
        }
        std::vector<int> column(static_cast<size_t>(s_.cols));
        const auto add = [&](int y, int sign) {
            for (int x = 0; x < s_.cols; ++x)
                column[static_cast<size_t>(x)] += sign * next_[at(y, x)];
        };
        for (int y = -radius; y < radius; ++y)
            add(y, 1);
        for (int y = 0; y < s_.rows; ++y) {
            add(y + radius, 1);
            std::copy(column.begin(), column.end(), score_.begin() + static_cast<std::ptrdiff_t>(at(y, 0)));
            add(y - radius, -1);
        }
    }

    void edges(const uint8_t *p, std::vector<int> &out) const {
        const auto differ = [&](int a, int b) {
            return static_cast<float>(2 * std::abs(a - b)) > s_.threshold * static_cast<float>(a + b);
        };
        for (int y = 0; y < s_.rows; ++y)
            for (int x = 0; x < s_.cols; ++x) {
                const int ul = p[at(y - 1, x - 1)], u = p[at(y - 1, x)], ur = p[at(y - 1, x + 1)];
                const int l = p[at(y, x - 1)], r = p[at(y, x + 1)];
                const int dl = p[at(y + 1, x - 1)], d = p[at(y + 1, x)], dr = p[at(y + 1, x + 1)];
                out[at(y, x)] = differ(ul + l + dl, ur + r + dr) || differ(ul + u + ur, dl + d + dr) ||
                                differ(ul + u + l, dr + d + r) || differ(dl + d + l, ur + u + r);
            }
    }

    const StereoSetting s_;
    std::vector<int> edges_[2], agreement_, score_, best_, next_;
};

// ---- CUDA: stereo.cu, the same stages as kernels, a thread a pixel ---------------------------------------------------

class PublishedStereo {
  public:
    explicit PublishedStereo(const StereoSetting &s);
    ~PublishedStereo();
    PublishedStereo(const PublishedStereo &) = delete;
    PublishedStereo &operator=(const PublishedStereo &) = delete;
    // elevation (16UC1) and contours (8UC1) without padding; images of any step.
    void run(const cusMat &left, const cusMat &right, uint16_t *elevation, uint8_t *contours, cusStream stream);

  private:
    StereoSetting s_;
    void *memory_ = nullptr;
};

} // namespace peers
