// Components against cv::connectedComponentsWithStats, erosion and dilation against cv::erode and cv::dilate. Pixels of the first
// frame are 0 and those of the second 0 or 255, so the mask is what was drawn.
#ifdef CUSIGHT_HAVE_OPENCV
#include "motion/support.hpp"

#include <opencv2/imgproc.hpp>

using namespace motion_test;

namespace {

class MotionOpenCV : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionOpenCV);

Bytes randomMask(size_t n, std::mt19937_64 &random) {
    const uint64_t density = 1 + random() % 15;
    Bytes mask(n);
    bool last = false;
    for (uint8_t &v : mask) {
        if (random() % 3) // runs
            last = random() % 16 < density;
        v = last ? 255 : 0;
    }
    return mask;
}

struct Labeled {
    std::vector<std::vector<int>> boxes; // x, y, width, height, area; sorted
    cv::Mat mask;
};

Labeled labeled(const Bytes &mask, int rows, int cols, const Options &o) {
    Labeled l;
    cv::Mat image(rows, cols, CV_8U, const_cast<uint8_t *>(mask.data())), stats, labels, centers;
    const auto square = [](int radius) { return cv::Mat::ones(2 * radius + 1, 2 * radius + 1, CV_8U); };
    cv::erode(image, l.mask, square(o.erode));
    cv::dilate(l.mask, l.mask, square(o.dilate));
    const int count = cv::connectedComponentsWithStats(l.mask, labels, stats, centers, 8, CV_32S);
    for (int i = 1; i < count; ++i) {
        const int *s = stats.ptr<int>(i);
        if (s[cv::CC_STAT_AREA] >= o.min_area)
            l.boxes.push_back({s[cv::CC_STAT_LEFT], s[cv::CC_STAT_TOP], s[cv::CC_STAT_WIDTH], s[cv::CC_STAT_HEIGHT],
                               s[cv::CC_STAT_AREA]});
    }
    std::sort(l.boxes.begin(), l.boxes.end());
    return l;
}

void compare(int rows, int cols, Options o, cusSpace space, std::mt19937_64 &random) {
    o.max_boxes = 256;
    o.sudden_percent = 100;
    Frame frame = plain(rows, cols, 0);
    frame.bytes = randomMask(frame.bytes.size(), random);
    Detector detector(1, rows, cols, 1, o, space);
    (void)detector.step(plain(rows, cols, 0));
    const Result r = detector.step(frame);
    const Labeled expected = labeled(frame.bytes, rows, cols, o);
    EXPECT_EQ(std::memcmp(r.mask.data(), expected.mask.data, r.mask.size()), 0);
    ASSERT_EQ(r.status.components, expected.boxes.size()) << rows << " x " << cols;
    if (expected.boxes.size() > 256)
        return;
    std::vector<std::vector<int>> boxes;
    for (const cusMotionBox &b : r.boxes)
        boxes.push_back({b.x, b.y, b.width, b.height, static_cast<int>(b.area)});
    std::sort(boxes.begin(), boxes.end());
    EXPECT_EQ(boxes, expected.boxes) << rows << " x " << cols;
}

TEST_P(MotionOpenCV, ConnectedComponents) {
    auto random = support::generator();
    for (const auto &[rows, cols] : support::sizes())
        for (const int min_area : {1, 40}) {
            Options o = plainOptions();
            o.min_area = min_area;
            compare(rows, cols, o, space(), random);
        }
}

TEST_P(MotionOpenCV, ErodeAndDilate) {
    auto random = support::generator();
    for (int erode = 0; erode <= 8; ++erode)
        for (int dilate = 0; dilate <= 8; dilate += 1 + erode % 3) {
            Options o = plainOptions();
            o.erode = erode;
            o.dilate = dilate;
            compare(1 + static_cast<int>(random() % 100), 1 + static_cast<int>(random() % 300), o, space(), random);
        }
}

} // namespace
#endif
