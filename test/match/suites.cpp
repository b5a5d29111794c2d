// The sizes, types, masks and regions of OpenCV's own tests of template matching (imgproc, cudaimgproc), beside cv::matchTemplate.
#ifdef CUSIGHT_HAVE_OPENCV_CORE
#include "match/support.hpp"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace {

using namespace match_test;

class MatchSuites : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchSuites);

cv::Mat noise(int rows, int cols, int type, cv::RNG &random) {
    cv::Mat image(rows, cols, type);
    random.fill(image, cv::RNG::UNIFORM, 0, CV_MAT_DEPTH(type) == CV_8U ? 255 : 1);
    return image;
}

// A matrix in either space with the pixels of one of OpenCV's; with padding and an offset it is a region of a larger one.
struct Copy : support::TestMat {
    Copy(const cv::Mat &image, cusSpace space, support::Layout layout = {})
        : TestMat(image.rows, image.cols, CUS_MAKETYPE(image.depth(), image.channels()), space, layout,
                  image.isContinuous() ? image.data : image.clone().data) {}
};

// The map is cv::matchTemplate's up to its rounding, and the best match one of its best.
void compareWithOpencv(const cv::Mat &image, const cv::Mat &templ, int method, cusSpace space, const cv::Mat &mask = {},
                       support::Layout layout = {}) {
    SCOPED_TRACE(testing::Message() << image.cols << "x" << image.rows << " " << cv::typeToString(image.type())
                                    << ", template " << templ.cols << "x" << templ.rows << ", method " << method
                                    << (mask.empty() ? "" : ", mask " + cv::typeToString(mask.type())));
    cv::Mat want;
    cv::matchTemplate(image, templ, want, method, mask);
    Copy frame(image, space, layout), pattern(templ, space, layout), kept(mask.empty() ? templ : mask, space);
    cusMatcherOptions options = with(static_cast<cusMatchMethod>(method), CUS_MATCH_AUTO);
    options.mask = mask.empty() ? nullptr : &kept.mat;
    support::TestMat scores(want.rows, want.cols, CUS_32FC1, space);
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &pattern.mat, 1, image.rows, image.cols, &options, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, &scores.mat, nullptr));
    auto got = scores.get<float>();
    const cv::Mat map(want.rows, want.cols, CV_32FC1, got.data());
    const double tolerance = method % 2 ? 2e-3 : 2e-4 * cv::norm(templ) * std::max(cv::norm(templ), 1.0) + 1e-3;
    EXPECT_LE(cv::norm(map, want, cv::NORM_INF), tolerance);
    const auto found = matchesOf(matcher, 0, 1);
    ASSERT_EQ(found.size(), 1u);
    double least = 0, most = 0;
    cv::minMaxLoc(want, &least, &most);
    const double best = method == cv::TM_SQDIFF || method == cv::TM_SQDIFF_NORMED ? least : most;
    EXPECT_NEAR(want.at<float>(found[0].y, found[0].x), best, tolerance);
}

TEST_P(MatchSuites, Bytes) {
    cv::RNG random(20);
    for (const int size : {128, 113})
        for (const int side : {5, 16, 30})
            for (const int channels : {1, 3, 4}) {
                const cv::Mat image = noise(size, size, CV_8UC(channels), random);
                const cv::Mat templ = noise(side, side, CV_8UC(channels), random);
                for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method)
                    compareWithOpencv(image, templ, method, space(), {}, {static_cast<size_t>(side), 3});
            }
}

TEST_P(MatchSuites, Floats) {
    cv::RNG random(21);
    for (const int size : {128, 113})
        for (const int side : {5, 16, 30})
            for (const int channels : {1, 3, 4}) {
                const cv::Mat image = noise(size, size, CV_32FC(channels), random);
                const cv::Mat templ = noise(side, side, CV_32FC(channels), random);
                for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method)
                    compareWithOpencv(image, templ, method, space(), {}, {16, 8});
            }
}

// Templates as large as the image in one direction or both, and of one pixel.
TEST_P(MatchSuites, Corners) {
    cv::RNG random(22);
    for (const int type : {CV_8UC1, CV_8UC3, CV_32FC1}) {
        const cv::Mat image = noise(31, 44, type, random);
        for (const cv::Size size : {cv::Size(44, 31), cv::Size(44, 1), cv::Size(1, 31), cv::Size(1, 1)})
            for (const int method : {cv::TM_SQDIFF, cv::TM_CCORR, cv::TM_CCOEFF})
                compareWithOpencv(image, noise(size.height, size.width, type, random), method, space());
    }
}

// A template found in the picture that it was cut from, large ones too, and in a black picture.
TEST_P(MatchSuites, Finds) {
    cv::RNG random(23);
    cv::Mat image = noise(300, 400, CV_8UC3, random);
    cv::GaussianBlur(image, image, {}, 2);
    for (const cv::Rect where : {cv::Rect(37, 81, 24, 20), cv::Rect(11, 5, 300, 280)})
        for (const int method : {cv::TM_SQDIFF, cv::TM_SQDIFF_NORMED, cv::TM_CCORR_NORMED, cv::TM_CCOEFF_NORMED}) {
            Copy frame(image, space()), pattern(image(where).clone(), space());
            const cusMatcherOptions options = with(static_cast<cusMatchMethod>(method), CUS_MATCH_AUTO);
            Matcher matcher;
            CUS_ASSERT_OK(cusMatcherCreate(&matcher, &pattern.mat, 1, image.rows, image.cols, &options, nullptr));
            CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
            const auto found = matchesOf(matcher, 0, 1);
            ASSERT_EQ(found.size(), 1u);
            EXPECT_EQ(found[0].x, where.x);
            EXPECT_EQ(found[0].y, where.y);
            EXPECT_EQ(found[0].score, method == cv::TM_SQDIFF || method == cv::TM_SQDIFF_NORMED ? 0 : 1);
        }
    compareWithOpencv(cv::Mat::zeros(128, 128, CV_8UC1), noise(16, 16, CV_8UC1, random), cv::TM_CCORR_NORMED, space());
}

// Masks of bytes and floats, of one channel and of the template's.
TEST_P(MatchSuites, Masks) {
    cv::RNG random(24);
    for (const int type : {CV_8UC1, CV_8UC3, CV_32FC1, CV_32FC3})
        for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method) {
            const cv::Mat image = noise(80, 100, type, random), templ = noise(15, 21, type, random);
            cv::Mat bytes = noise(15, 21, CV_8UC1, random), floats = noise(15, 21, CV_32FC1, random);
            bytes.setTo(0, bytes < 90);
            compareWithOpencv(image, templ, method, space(), bytes > 0);
            if (method >= cv::TM_CCOEFF)
                continue;
            compareWithOpencv(image, templ, method, space(), floats);
            if (CV_MAT_CN(type) == 3) {
                cv::Mat colors = noise(15, 21, CV_32FC3, random), bits(15, 21, CV_8UC3);
                random.fill(bits, cv::RNG::UNIFORM, 0, 2);
                compareWithOpencv(image, templ, method, space(), colors);
                compareWithOpencv(image, templ, method, space(), bits * 255);
            }
        }
}

} // namespace
#endif
