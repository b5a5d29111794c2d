#include "cusight/hsv.h"
#include "reference/hsv.hpp"
#include "support.hpp"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

class Hsv : public support::SpaceTest {};
CUS_BOTH_SPACES(Hsv);

const cusHsvRange RANGES[] = {{{100, 80, 50}, {130, 255, 255}},
                              {{170, 40, 40}, {10, 255, 255}},
                              {{0, 0, 0}, {179, 255, 255}},
                              {{0, 0, 0}, {179, 20, 100}},
                              {{60, 255, 255}, {60, 255, 255}}};

TEST_P(Hsv, EveryColor) {
    // All 2^24 colors, once each, in a image of 4096 x 4096.
    std::vector<uint8_t> bytes(size_t{3} << 24);
    for (size_t i = 0; i < size_t{1} << 24; ++i)
        for (size_t c = 0; c < 3; ++c)
            bytes[3 * i + c] = static_cast<uint8_t>(i >> (8 * c));
    support::TestMat src(4096, 4096, CUS_8UC3, space(), {}, bytes.data()), mask(4096, 4096, CUS_8UC1, space());
    std::vector<reference::Hsv> hsv(size_t{1} << 24);
    for (size_t i = 0; i < hsv.size(); ++i)
        hsv[i] = reference::hsv(bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]);
#ifdef CUSIGHT_HAVE_OPENCV
    cv::Mat bgr(4096, 4096, CV_8UC3, bytes.data()), converted;
    cv::cvtColor(bgr, converted, cv::COLOR_BGR2HSV);
    for (size_t i = 0; i < hsv.size(); ++i) {
        const cv::Vec3b &c = converted.at<cv::Vec3b>(static_cast<int>(i >> 12), static_cast<int>(i & 4095));
        ASSERT_TRUE(c[0] == hsv[i].h && c[1] == hsv[i].s && c[2] == hsv[i].v) << "color " << i;
    }
#endif
    for (const auto &range : RANGES) {
        support::Mat count;
        CUS_ASSERT_OK(cusHsvCount(&src.mat, &range, &count, &mask.mat, nullptr));
        const auto marked = mask.get();
        uint32_t expected = 0;
        for (size_t i = 0; i < hsv.size(); ++i) {
            const bool in = reference::inRange(hsv[i], range);
            expected += in;
            ASSERT_EQ(marked[i], in ? 255 : 0) << "color " << i;
        }
        EXPECT_EQ(support::elements<uint32_t>(count)[0], expected);
    }
    EXPECT_TRUE(mask.intact());
}

TEST_P(Hsv, SizesAndLayouts) {
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes())
        for (const auto &layout : support::layouts(CUS_8UC3)) {
            const size_t pixels = static_cast<size_t>(rows) * static_cast<size_t>(cols);
            const auto bytes = support::randomBytes(3 * pixels, random);
            const auto &range = RANGES[random() % 4];
            uint32_t expected = 0;
            std::vector<uint8_t> marked;
            for (size_t i = 0; i < pixels; ++i) {
                const bool in = reference::inRange(reference::hsv(bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]), range);
                expected += in;
                marked.push_back(in ? 255 : 0);
            }
            support::TestMat src(rows, cols, CUS_8UC3, space(), layout, bytes.data());
            support::TestMat mask(rows, cols, CUS_8UC1, space(), layout), count(1, 1, CUS_32SC1, space());
            CUS_ASSERT_OK(cusHsvCount(&src.mat, &range, &count.mat, &mask.mat, nullptr));
            ASSERT_EQ(count.get<uint32_t>()[0], expected) << rows << " x " << cols;
            ASSERT_EQ(mask.get(), marked) << rows << " x " << cols;
            ASSERT_TRUE(mask.intact() && count.intact());
            CUS_ASSERT_OK(cusHsvCount(&src.mat, &range, &count.mat, nullptr, nullptr));
            ASSERT_EQ(count.get<uint32_t>()[0], expected) << rows << " x " << cols;
        }
}

TEST_P(Hsv, RejectsBadArguments) {
    support::TestMat src(4, 5, CUS_8UC3, space()), gray(4, 5, CUS_8UC1, space()), count(1, 1, CUS_32SC1, space());
    const cusHsvRange range = RANGES[0];
    CUS_REJECTS(cusHsvCount(nullptr, &range, &count.mat, nullptr, nullptr), NULL, "src");
    CUS_REJECTS(cusHsvCount(&gray.mat, &range, &count.mat, nullptr, nullptr), TYPE,
                "cusHsvCount: src has type 8UC1, expected 8UC3");
    CUS_REJECTS(cusHsvCount(&src.mat, nullptr, &count.mat, nullptr, nullptr), NULL, "range is NULL");
    CUS_REJECTS(cusHsvCount(&src.mat, &range, nullptr, nullptr, nullptr), NULL, "count");
    CUS_REJECTS(cusHsvCount(&src.mat, &range, &gray.mat, nullptr, nullptr), SIZE, "count");
    CUS_REJECTS(cusHsvCount(&src.mat, &range, &count.mat, &src.mat, nullptr), SIZE, "mask");
    cusHsvRange bad = range;
    bad.upper[0] = 180;
    CUS_REJECTS(cusHsvCount(&src.mat, &bad, &count.mat, nullptr, nullptr), VALUE, "hues 100..180, expected 0..179");
    bad = range;
    bad.lower[1] = 255, bad.upper[1] = 3;
    CUS_REJECTS(cusHsvCount(&src.mat, &bad, &count.mat, nullptr, nullptr), VALUE, "saturations 255..3");
}

} // namespace
