// Rows of hsv: counting the pixels in a range.
#include "harness/frames.hpp"
#include "harness/pictures.hpp"

#include "cusight/hsv.h"

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace {

using perf::Mat;

TEST(Hsv, Count) {
    for (const perf::Size &s : {perf::Size{479, 432}, perf::Size{3840, 2160}})
        perf::bothSpaces([&](cusSpace space) {
            Mat src(s.rows, s.cols, CUS_8UC3, space, perf::picture(s.rows, s.cols, 3, 3));
            const cusHsvRange range = {{100, 80, 50}, {130, 255, 255}};
            Mat count;
            const double bytes = 3.0 * s.rows * s.cols;
            perf::Row row("hsv/count/" + s.text(), space, bytes);
            row.note(space == CUS_DEVICE ? "L2-resident" : "");
            row.measure([&](cusStream stream, int) { return cusHsvCount(&src.mat, &range, &count.mat, nullptr, stream); });
#ifdef CUSIGHT_HAVE_OPENCV
            if (space == CUS_HOST)
                row.peer("opencv", [&, hsv = cv::Mat(), mask = cv::Mat()](cusStream, int) mutable {
                    const cv::Mat bgr(src.mat.rows, src.mat.cols, CV_8UC3, src.mat.data, src.mat.step);
                    cv::cvtColor(bgr, hsv, cv::COLOR_BGR2HSV);
                    cv::inRange(hsv, cv::Scalar(100, 80, 50), cv::Scalar(130, 255, 255), mask);
                    volatile int n = cv::countNonZero(mask);
                    (void)n;
                });
#endif
            row.report();
        });
}

} // namespace
