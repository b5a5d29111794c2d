// Rows of match: one frame with a prepared template, a sweep over sizes and paths, and the HSV count.
#include "harness.hpp"

#include "cusight/match.h"
#ifdef CUSIGHT_HAVE_CUDA
#include "peers/match.hpp"
#endif

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;

class Mat {
  public:
    Mat() = default;
    Mat(int rows, int cols, int type, cusSpace space, const std::vector<uint8_t> &tight) {
        cusMat from = CUS_MAT_INIT;
        check(cusMatWrap(&from, rows, cols, type, CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
        check(space == CUS_DEVICE ? cusMatUpload(&from, &mat, nullptr) : cusMatCopy(&from, &mat, nullptr));
    }
    ~Mat() { cusMatRelease(&mat); }
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;
    cusMat mat = CUS_MAT_INIT;
};

// Waves and noise: neighbouring scores are as similar as in a picture.
std::vector<uint8_t> picture(int rows, int cols, int channels, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes;
    bytes.reserve(static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels));
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c) {
                const double wave = 127 + 60 * std::sin(0.031 * x + 0.017 * y + c) + 40 * std::sin(0.11 * x - 0.13 * y);
                bytes.push_back(static_cast<uint8_t>(std::clamp(wave + random() % 24, 0.0, 255.0)));
            }
    return bytes;
}

struct Case {
    int cols, rows, w, h;
    std::string text() const {
        return std::to_string(cols) + "x" + std::to_string(rows) + "/" + std::to_string(w) + "x" + std::to_string(h);
    }
};

#ifdef CUSIGHT_HAVE_OPENCV
cv::Mat header(const cusMat &m) {
    return cv::Mat(m.rows, m.cols, m.type, m.data, m.step);
}
#endif

void match(const std::string &id, const Case &c, cusMatchMethod method, cusMatchPath path, int channels, int matches,
           bool with_peers) {
    perf::bothSpaces([&](cusSpace space) {
        const int type = channels == 1 ? CUS_8UC1 : CUS_8UC3;
        Mat frame(c.rows, c.cols, type, space, picture(c.rows, c.cols, channels, 1));
        // A piece of the frame with other noise: a good match, not an exact one.
        const auto other = picture(c.rows, c.cols, channels, 2);
        Mat whole(c.rows, c.cols, type, space, other);
        cusMat templ = CUS_MAT_INIT;
        check(cusMatRegion(&whole.mat, (c.cols - c.w) / 3, (c.rows - c.h) / 2, c.w, c.h, &templ));
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        options.path = path;
        options.max_matches = matches;
        options.min_distance = 8;
        if (space == CUS_HOST && path == CUS_MATCH_FFT && std::strcmp(cusMatcherHostFft(), "none") == 0)
            return;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, &templ, 1, c.rows, c.cols, &options, nullptr));
        perf::Row row(id, space, 0);
        row.note(std::string(cusMatcherPath(matcher) == CUS_MATCH_FFT ? "FFT" : "direct") +
                 "; template prepared; best position and exact score included" +
                 (space == CUS_DEVICE ? "; L2-resident" : std::string("; host FFT ") + cusMatcherHostFft()));
        row.measure([&](cusStream stream, int) { return cusMatcherRun(matcher, &frame.mat, nullptr, stream); });
#ifdef CUSIGHT_HAVE_OPENCV
        if (with_peers && space == CUS_HOST)
            row.peer("opencv", [&, scores = cv::Mat()](cusStream, int) mutable {
                double least = 0, most = 0;
                cv::Point at_least, at_most;
                cv::matchTemplate(header(frame.mat), header(templ), scores, static_cast<int>(method));
                cv::minMaxLoc(scores, &least, &most, &at_least, &at_most);
            });
#endif
#ifdef CUSIGHT_HAVE_CUDA
        std::unique_ptr<peers::PublishedMatch> published; // peers run in report()
        std::unique_ptr<peers::PlainFft> fft;
        if (with_peers && space == CUS_DEVICE) {
            published = std::make_unique<peers::PublishedMatch>(c.rows, c.cols, c.h, c.w);
            row.peer("published", [&](cusStream stream, int) { published->run(frame.mat, templ, stream); });
            fft = std::make_unique<peers::PlainFft>(c.rows, c.cols);
            row.peer("cufft alone", [&](cusStream stream, int) { fft->run(stream); });
        }
#endif
        row.report();
        cusMatcherDestroy(matcher);
    });
}

TEST(Match, ssd) {
    for (const Case &c : {Case{1326, 1025, 479, 432}, Case{1200, 1983, 150, 150}})
        match("match/ssd/" + c.text(), c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, true);
}

TEST(Match, other_methods) {
    const Case c = {1326, 1025, 479, 432};
    const char *const names[] = {"ssd", "ssdnormed", "ccorr", "ccorrnormed", "ccoeff", "ccoeffnormed"};
    for (auto method : {CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED})
        match(std::string("match/") + names[method] + "/" + c.text(), c, method, CUS_MATCH_AUTO, 1, 1, false);
    match("match/ssd/" + c.text() + "/8UC3", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3, 1, false);
    match("match/ssd/" + c.text() + "/top10", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 10, false);
}

// How cost grows, and where direct and FFT cross.
TEST(Match, sweep) {
    const auto pair = [](const Case &c) {
        match("match/ssd/" + c.text() + "/direct", c, CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 1, 1, false);
        match("match/ssd/" + c.text() + "/fft", c, CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 1, 1, false);
    };
    for (int n : {4, 8, 16, 24, 32, 48, 64})
        pair({640, 480, n, n});
    for (int n : {8, 16, 32, 64})
        pair({1920, 1080, n, n});
    for (int n : {128, 256})
        match("match/ssd/1920x1080/" + std::to_string(n) + "x" + std::to_string(n), {1920, 1080, n, n}, CUS_MATCH_SQDIFF,
              CUS_MATCH_FFT, 1, 1, false);
}

TEST(Match, hsvcount) {
    struct Size {
        int cols, rows;
    };
    for (const Size &s : {Size{479, 432}, Size{3840, 2160}})
        perf::bothSpaces([&](cusSpace space) {
            Mat src(s.rows, s.cols, CUS_8UC3, space, picture(s.rows, s.cols, 3, 3));
            const cusHsvRange range = {{100, 80, 50}, {130, 255, 255}};
            Mat count;
            const double bytes = 3.0 * s.rows * s.cols;
            perf::Row row("match/hsvcount/" + std::to_string(s.cols) + "x" + std::to_string(s.rows), space, bytes);
            row.note(space == CUS_DEVICE ? "L2-resident" : "");
            row.measure([&](cusStream stream, int) { return cusHsvCount(&src.mat, &range, &count.mat, nullptr, stream); });
#ifdef CUSIGHT_HAVE_OPENCV
            if (space == CUS_HOST)
                row.peer("opencv", [&, hsv = cv::Mat(), mask = cv::Mat()](cusStream, int) mutable {
                    cv::cvtColor(header(src.mat), hsv, cv::COLOR_BGR2HSV);
                    cv::inRange(hsv, cv::Scalar(100, 80, 50), cv::Scalar(130, 255, 255), mask);
                    volatile int n = cv::countNonZero(mask);
                    (void)n;
                });
#endif
            row.report();
        });
}

} // namespace
