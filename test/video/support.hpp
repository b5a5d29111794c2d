// Pictures of the reference as planes in memory, in the formats that video takes.
#pragma once

#include "cusight/video.h"
#include "reference/video.hpp"
#include "../support.hpp"

#include <memory>
#include <string>
#include <vector>

namespace support {

struct YuvFormat {
    const char *name;
    int bits;
    bool planar, low;
};
constexpr YuvFormat YUV_FORMATS[] = {{"nv12", 8, false, false},
                                     {"i420", 8, true, false},
                                     {"p010", 10, false, false},
                                     {"yuv420p10", 10, true, true},
                                     {"planar, high bits", 10, true, false}};

// The planes of a picture. Bits that belong to no sample are random. Chroma has a layout of its own.
class YuvPlanes {
  public:
    YuvPlanes(const reference::YuvPicture &p, const YuvFormat &format, cusSpace space, const Layout &luma,
              const Layout &chroma) {
        add(p.rows, p.cols, 1, format, space, luma, p.y);
        if (format.planar) {
            add(p.chromaRows(), p.chromaCols(), 1, format, space, chroma, p.u);
            add(p.chromaRows(), p.chromaCols(), 1, format, space, luma, p.v);
        } else {
            std::vector<int> both;
            for (size_t i = 0; i < p.u.size(); ++i) {
                both.push_back(p.u[i]);
                both.push_back(p.v[i]);
            }
            add(p.chromaRows(), p.chromaCols(), 2, format, space, chroma, both);
        }
    }

    const cusMat *y() const { return &planes_[0]->mat; }
    const cusMat *u() const { return &planes_[1]->mat; }
    const cusMat *v() const { return planes_.size() > 2 ? &planes_[2]->mat : nullptr; }
    testing::AssertionResult intact() {
        for (const auto &plane : planes_)
            if (const auto result = plane->intact(); !result)
                return result;
        return testing::AssertionSuccess();
    }

  private:
    void add(int rows, int cols, int channels, const YuvFormat &format, cusSpace space, const Layout &layout,
             const std::vector<int> &samples) {
        const int type = CUS_MAKETYPE(format.bits == 8 ? CUS_8U : CUS_16U, channels);
        if (format.bits == 8) {
            const std::vector<uint8_t> bytes(samples.begin(), samples.end());
            planes_.push_back(std::make_unique<TestMat>(rows, cols, type, space, layout, bytes.data()));
            return;
        }
        std::vector<uint16_t> words;
        for (const int sample : samples) {
            noise_ = noise_ * 1664525u + 1013904223u;
            const uint32_t word = static_cast<uint32_t>(sample), other = noise_ >> 26;
            words.push_back(static_cast<uint16_t>(format.low ? word | other << 10 : word << 6 | other));
        }
        planes_.push_back(std::make_unique<TestMat>(rows, cols, type, space, layout, words.data()));
    }

    std::vector<std::unique_ptr<TestMat>> planes_;
    uint32_t noise_ = 1;
};

} // namespace support
