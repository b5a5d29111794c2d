// Rows of match: one frame with a prepared template, and sweeps over sizes and algorithms.
#include "harness/frames.hpp"
#include "harness/pictures.hpp"

#include "cusight/match.h"
#ifdef CUSIGHT_HAVE_CUDA
#include "peers/match.hpp"
#endif
#include "peers/npp.hpp"
#include "peers/opencv_cuda.hpp"

#ifdef CUSIGHT_HAVE_NPP
#include <nppi_statistics_functions.h>
#endif

#ifdef CUSIGHT_HAVE_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#endif
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
#include <opencv2/cudaarithm.hpp>
#include <opencv2/cudaimgproc.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;

using perf::Mat;
using perf::picture;

struct Case {
    int cols, rows, w, h;
    perf::Size frame() const { return {cols, rows}; }
    std::string text() const { return frame().text() + "/" + perf::Size{w, h}.text(); }
};

// A part of the frame with different noise: a good but inexact match.
std::vector<uint8_t> templateOf(const Case &c, int channels, unsigned seed = 2) {
    return picture(c.h, c.w, channels, seed, (c.cols - c.w) / 3, (c.rows - c.h) / 2);
}

#ifdef CUSIGHT_HAVE_OPENCV
cv::Mat header(const cusMat &m) {
    return cv::Mat(m.rows, m.cols, m.type, m.data, m.step);
}
#endif

#ifdef CUSIGHT_HAVE_CUDA
// Checks that the published map's value at the best match is near the exact score: its float table rounds large sums.
void checkPublished(const peers::PublishedMatch &published, const Case &c, cusMatcher *matcher) {
    cusMatch best = {};
    int found = 0;
    check(cusMatcherGet(matcher, 0, &best, 1, &found, nullptr));
    ASSERT_EQ(found, 1);
    cusMat on_device = CUS_MAT_INIT, on_host = CUS_MAT_INIT;
    float score = 0;
    check(cusMatWrap(&on_device, 1, 1, CUS_32FC1, CUS_DEVICE,
                     const_cast<float *>(published.scores()) +
                         static_cast<size_t>(best.y) * static_cast<size_t>(c.cols - c.w + 1) + best.x,
                     0));
    check(cusMatWrap(&on_host, 1, 1, CUS_32FC1, CUS_HOST, &score, 0));
    check(cusMatDownload(&on_device, &on_host, nullptr));
    check(cusStreamSynchronize(nullptr));
    EXPECT_NEAR(score, best.score, 1e-5 * 65025.0 * c.rows * c.cols) << "the published method gives another score";
}
#endif

#ifdef CUSIGHT_HAVE_OPENCV_CUDA
// cv::cuda's map alone, and with each way to find the best match: minMaxLoc waits and works in the null stream;
// findMinMaxLoc leaves the result on the device.
void opencvPeers(perf::Row &row, const cusMat &frame, const cusMat &templ, cusMatchMethod method) {
    const auto peer = [&](const std::string &name, auto find) {
        row.peer(name, [image = peers::gpuMat(frame), part = peers::gpuMat(templ), scores = cv::cuda::GpuMat(), find,
                        matching = cv::cuda::createTemplateMatching(frame.type, static_cast<int>(method))](cusStream stream,
                                                                                                           int) mutable {
            cv::cuda::Stream &s = peers::opencvStream(stream);
            matching->match(image, part, scores, s);
            find(scores, s);
        });
    };
    peer("opencv map alone", [](cv::cuda::GpuMat &, cv::cuda::Stream &) {});
    peer("opencv with minMaxLoc", [](cv::cuda::GpuMat &scores, cv::cuda::Stream &s) {
        double least = 0, most = 0;
        cv::Point at_least, at_most;
        s.waitForCompletion();
        cv::cuda::minMaxLoc(scores, &least, &most, &at_least, &at_most);
    });
    peer("opencv with findMinMaxLoc",
         [values = cv::cuda::GpuMat(), places = cv::cuda::GpuMat()](cv::cuda::GpuMat &scores, cv::cuda::Stream &s) mutable {
             cv::cuda::findMinMaxLoc(scores, values, places, cv::noArray(), s);
         });
}
#endif

// A mask of what is usually cut out: an ellipse.
std::vector<uint8_t> ellipse(const Case &c) {
    std::vector<uint8_t> mask;
    for (int y = 0; y < c.h; ++y)
        for (int x = 0; x < c.w; ++x)
            mask.push_back(std::hypot((2.0 * y + 1) / c.h - 1, (2.0 * x + 1) / c.w - 1) < 1 ? 255 : 0);
    return mask;
}

void match(const std::string &id, const Case &c, cusMatchMethod method, cusMatchAlgorithm algorithm, int channels,
           int matches, [[maybe_unused]] bool with_peers, bool masked = false) {
    perf::bothSpaces([&](cusSpace space) {
        if (space == CUS_HOST && c.frame().pixels() > 9000000)
            return; // seconds a frame
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        const int type = channels == 1 ? CUS_8UC1 : CUS_8UC3;
        const Mat frame(c.rows, c.cols, type, space, picture(c.rows, c.cols, channels, 1));
        const Mat templ(c.h, c.w, type, space, templateOf(c, channels));
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        options.algorithm = algorithm;
        options.max_matches = matches;
        options.min_distance = 8;
        const Mat mask(c.h, c.w, CUS_8UC1, space, ellipse(c));
        options.mask = masked ? &mask.mat : nullptr;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, &templ.mat, 1, c.rows, c.cols, &options, nullptr));
        row.note(std::string(cusMatcherAlgorithm(matcher) == CUS_MATCH_FFT ? "FFT" : "direct") +
                 "; template prepared; best position and exact score included" +
                 (space == CUS_DEVICE ? "; L2-resident" : std::string("; host FFT ") + cusMatcherHostFft()));
        const auto one = [&](cusStream stream, int) { return cusMatcherRun(matcher, &frame.mat, nullptr, stream); };
        row.measure(one);
#ifdef CUSIGHT_HAVE_OPENCV
        if (with_peers && space == CUS_HOST)
            row.peer("opencv", [&, scores = cv::Mat()](cusStream, int) mutable {
                double least = 0, most = 0;
                cv::Point at_least, at_most;
                cv::matchTemplate(header(frame.mat), header(templ.mat), scores, static_cast<int>(method));
                cv::minMaxLoc(scores, &least, &most, &at_least, &at_most);
            });
#endif
#ifdef CUSIGHT_HAVE_CUDA
        std::unique_ptr<peers::PublishedMatch> published; // peers run in report()
        std::unique_ptr<peers::PlainFft> fft;
        if (with_peers && space == CUS_DEVICE) {
            published = std::make_unique<peers::PublishedMatch>(c.rows, c.cols, templ.mat);
            row.peer("published", [&](cusStream stream, int) { published->run(frame.mat, stream); });
            fft = std::make_unique<peers::PlainFft>(c.rows, c.cols);
            row.peer("cufft alone", [&](cusStream stream, int) { fft->run(stream); });
        }
#endif
#ifdef CUSIGHT_HAVE_NPP
        Mat npp_scores;
        if (with_peers && space == CUS_DEVICE) {
            check(cusMatCreate(&npp_scores.mat, c.rows - c.h + 1, c.cols - c.w + 1, CUS_32FC1, space));
            row.peer("npp scores alone", [&, context = peers::nppContext(nullptr)](cusStream stream, int) mutable {
                context.hStream = stream;
                peers::checkNpp(nppiSqrDistanceValid_Norm_8u32f_C1R_Ctx(
                    frame.as<Npp8u>(), frame.step(), {c.cols, c.rows}, templ.as<Npp8u>(), templ.step(), {c.w, c.h},
                    npp_scores.as<Npp32f>(), npp_scores.step(), context));
            });
        }
#endif
#ifdef CUSIGHT_HAVE_OPENCV_CUDA
        if (space == CUS_DEVICE && matches == 1 && !masked && id.compare(0, 6, "match/") == 0)
            opencvPeers(row, frame.mat, templ.mat, method);
#endif
        row.report();
#ifdef CUSIGHT_HAVE_CUDA
        if (published && row.measured())
            checkPublished(*published, c, matcher);
#endif
        if (space == CUS_DEVICE && id == "match/ssd/" + c.text() && c.w == 64)
            perf::latency(id, one);
        cusMatcherDestroy(matcher);
    });
}

// Uploads frames; downloads the best match, 32 bytes.
void hostToHost(const Case &c) {
    if (!perf::wants(CUS_DEVICE))
        return;
    struct Slot {
        Slot(const Case &k, const std::vector<uint8_t> &pixels)
            : frame(k.rows, k.cols, CUS_8UC1, CUS_DEVICE, pixels), best(1, sizeof(cusMatch), CUS_8UC1, CUS_DEVICE),
              in(frame.mat), out(1, sizeof(cusMatch), CUS_8UC1) {}
        Mat frame, best;
        perf::Pinned in, out;
    };
    const Mat templ(c.h, c.w, CUS_8UC1, CUS_DEVICE, templateOf(c, 1));
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = CUS_MATCH_SQDIFF;
    cusMatcher *matcher = nullptr;
    check(cusMatcherCreate(&matcher, &templ.mat, 1, c.rows, c.cols, &options, nullptr));
    cusMat result = CUS_MAT_INIT;
    check(cusMatcherResults(matcher, &result));
    const auto pixels = picture(c.rows, c.cols, 1, 1);
    std::deque<Slot> ring;
    perf::Pipeline pipeline;
    for (int k = 0; k < perf::Pipeline::SLOTS; ++k) {
        Slot &slot = ring.emplace_back(c, pixels);
        pipeline.add({{&slot.in.mat, &slot.frame.mat}},
                     [&](cusStream stream) {
                         check(cusMatcherRun(matcher, &slot.frame.mat, nullptr, stream));
                         check(cusMatCopy(&result, &slot.best.mat, stream));
                     },
                     {{&slot.best.mat, &slot.out.mat}});
    }
    pipeline.report("match/ssd/" + c.text(), "pinned frames up, best match down");
    cusMatcherDestroy(matcher);
}

TEST(Match, Ssd) {
    for (const Case &c : {Case{1326, 1025, 479, 432}, Case{1200, 1983, 150, 150}})
        match("match/ssd/" + c.text(), c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, true);
}

TEST(Match, OtherMethods) {
    const Case c = {1326, 1025, 479, 432};
    const char *const names[] = {"ssd", "ssdnormed", "ccorr", "ccorrnormed", "ccoeff", "ccoeffnormed"};
    for (auto method : {CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED})
        match(std::string("match/") + names[method] + "/" + c.text(), c, method, CUS_MATCH_AUTO, 1, 1, false);
    match("match/ssd/" + c.text() + "/8UC3", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3, 1, false);
    match("match/ssd/" + c.text() + "/top10", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 10, false);
}

TEST(Match, Frames) {
    for (const perf::Size size : perf::FRAME_SIZES) {
        const Case c = {size.cols, size.rows, 64, 64};
        match("match/ssd/" + c.text(), c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false);
        hostToHost(c);
    }
}

// What people look for has 16 to 100 pixels a side.
TEST(Match, SmallTemplates) {
    match("match/ssd/256x256/64x64", {256, 256, 64, 64}, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false);
    for (const int n : {16, 100})
        match("match/ssd/" + Case{640, 480, n, n}.text(), {640, 480, n, n}, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false);
    for (const int n : {16, 32, 100, 128})
        match("match/ssd/" + Case{1920, 1080, n, n}.text(), {1920, 1080, n, n}, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1,
              false);
    match("match/ssd/3840x2160/16x16", {3840, 2160, 16, 16}, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false);
    const Case c = {1920, 1080, 64, 64};
    match("match/ccoeffnormed/" + c.text(), c, CUS_MATCH_CCOEFF_NORMED, CUS_MATCH_AUTO, 1, 1, false);
    match("match/ssd/" + c.text() + "/8UC3", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3, 1, false);
    match("match/ssd/" + c.text() + "/top10", c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 10, false);
}

// Frames in one call, each with a template of its own: the boxes around tracked objects.
void batch(const Case &c, int count) {
    const std::string id = "match/ssd/" + c.text() + "/batch" + std::to_string(count);
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        std::deque<Mat> memory;
        std::vector<cusMat> frames, templates;
        for (int i = 0; i < count; ++i) {
            const unsigned seed = static_cast<unsigned>(2 * i);
            frames.push_back(
                memory.emplace_back(c.rows, c.cols, CUS_8UC1, space, picture(c.rows, c.cols, 1, seed + 1)).mat);
            templates.push_back(memory.emplace_back(c.h, c.w, CUS_8UC1, space, templateOf(c, 1, seed + 2)).mat);
        }
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = CUS_MATCH_SQDIFF;
        options.batch = count;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, templates.data(), count, c.rows, c.cols, &options, nullptr));
        row.note("a template for each frame; best position and exact score included");
        row.measure([&](cusStream stream, int) { return cusMatcherRun(matcher, frames.data(), nullptr, stream); });
        row.report();
        cusMatcherDestroy(matcher);
    });
}

TEST(Match, Batches) {
    for (const int count : {32, 256})
        batch({256, 256, 64, 64}, count);
    batch({640, 480, 64, 64}, 32);
}

TEST(Match, Masks) {
    for (const Case &c : {Case{1326, 1025, 479, 432}, Case{1920, 1080, 64, 64}}) {
        match("match/ssd-masked/" + c.text(), c, CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false, true);
        match("match/ccoeffnormed-masked/" + c.text(), c, CUS_MATCH_CCOEFF_NORMED, CUS_MATCH_AUTO, 1, 1, false, true);
    }
}

// Floats, of 0 to 1 and with fractions, and fractions of a pixel, which take the exact scores beside the best match.
void fractions(const std::string &id, const Case &c, cusMatchMethod method, bool floats, bool subpixel) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        const auto typed = [&](const std::vector<uint8_t> &bytes) {
            if (!floats)
                return bytes;
            std::vector<uint8_t> pixels;
            for (const uint8_t byte : bytes) {
                const float value = static_cast<float>(byte) / 255;
                const auto *first = reinterpret_cast<const uint8_t *>(&value);
                pixels.insert(pixels.end(), first, first + sizeof value);
            }
            return pixels;
        };
        const int type = floats ? CUS_32FC1 : CUS_8UC1;
        const Mat frame(c.rows, c.cols, type, space, typed(picture(c.rows, c.cols, 1, 1)));
        const Mat templ(c.h, c.w, type, space, typed(templateOf(c, 1)));
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        options.subpixel = subpixel;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, &templ.mat, 1, c.rows, c.cols, &options, nullptr));
        row.note(std::string(cusMatcherAlgorithm(matcher) == CUS_MATCH_FFT ? "FFT" : "direct") + "; template prepared" +
                 (subpixel ? "; with dx, dy" : "") + (space == CUS_DEVICE ? "; L2-resident" : ""));
        row.measure([&](cusStream stream, int) { return cusMatcherRun(matcher, &frame.mat, nullptr, stream); });
        row.report();
        cusMatcherDestroy(matcher);
    });
}

TEST(Match, Fractions) {
    const Case small = {1920, 1080, 64, 64}, large = {1326, 1025, 479, 432};
    for (const bool subpixel : {false, true}) {
        const std::string end = subpixel ? "/subpixel" : "";
        fractions("match/ssd/" + small.text() + "/32FC1" + end, small, CUS_MATCH_SQDIFF, true, subpixel);
        fractions("match/ccoeffnormed/" + small.text() + "/32FC1" + end, small, CUS_MATCH_CCOEFF_NORMED, true, subpixel);
        fractions("match/ccoeffnormed/" + large.text() + "/32FC1" + end, large, CUS_MATCH_CCOEFF_NORMED, true, subpixel);
    }
    fractions("match/ssd/" + large.text() + "/subpixel", large, CUS_MATCH_SQDIFF, false, true);
    fractions("match/ccoeffnormed/" + small.text() + "/subpixel", small, CUS_MATCH_CCOEFF_NORMED, false, true);
}

// ---- Family worst/: contents with very many equal or nearly equal scores, beside the row `typical`

using Bytes = std::vector<uint8_t>;

void worst(const std::string &name, const Case &c, cusMatchMethod method, const Bytes &pixels, const Bytes &pattern) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row("worst/match/" + name, space, 0);
        if (perf::listing())
            return row.report();
        const Mat frame(c.rows, c.cols, CUS_8UC1, space, pixels), templ(c.h, c.w, CUS_8UC1, space, pattern);
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, &templ.mat, 1, c.rows, c.cols, &options, nullptr));
        row.note("template prepared");
        row.measure([&](cusStream stream, int) { return cusMatcherRun(matcher, &frame.mat, nullptr, stream); });
        row.report();
        cusMatcherDestroy(matcher);
    });
}

TEST(Match, Worst) {
    const Case c = {1326, 1025, 479, 432};
    const auto filled = [](int rows, int cols, const auto &value) {
        Bytes bytes;
        for (int y = 0; y < rows; ++y)
            for (int x = 0; x < cols; ++x)
                bytes.push_back(static_cast<uint8_t>(value(x)));
        return bytes;
    };
    const auto natural = templateOf(c, 1), frame = picture(c.rows, c.cols, 1, 1);
    const auto black = filled(c.rows, c.cols, [](int) { return 0; });
    const auto stripes = [](int x) { return x % 16 < 8 ? 30 : 200; };
    auto half = frame;
    for (int y = 0; y < c.rows; ++y)
        std::fill_n(half.begin() + y * c.cols, c.cols / 2, uint8_t{0});
    worst("typical", c, CUS_MATCH_SQDIFF, frame, natural);
    worst("typical-ccoeff-normed", c, CUS_MATCH_CCOEFF_NORMED, frame, natural);
    worst("black", c, CUS_MATCH_SQDIFF, black, natural);
    worst("black-ccoeff-normed", c, CUS_MATCH_CCOEFF_NORMED, black, natural);
    worst("half-black", c, CUS_MATCH_SQDIFF, half, filled(c.h, c.w, [](int) { return 20; }));
    worst("stripes", c, CUS_MATCH_SQDIFF, filled(c.rows, c.cols, stripes), filled(c.h, c.w, stripes));
}

// How cost grows, and where direct and FFT cross.
TEST(MatchSweep, Sides) {
    for (const perf::Size size : {perf::Size{640, 480}, perf::Size{1920, 1080}})
        for (const int n : {4, 8, 16, 32, 64, 96, 128, 160, 256, 512}) {
            const Case c = {size.cols, size.rows, n, n};
            const auto id = [&](const char *algorithm) {
                return "sweep/match/ssd " + size.text() + " " + algorithm + "/side=" + std::to_string(n);
            };
            if (n <= 256)
                match(id("direct"), c, CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 1, 1, false);
            if (n < size.rows)
                match(id("FFT"), c, CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 1, 1, false);
        }
}

TEST(MatchSweep, Pixels) {
    for (const perf::Size size : perf::SWEEP_SIZES)
        for (const int n : {16, 64})
            match("sweep/match/ssd " + perf::Size{n, n}.text() + perf::pixelsOf(size), {size.cols, size.rows, n, n},
                  CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 1, 1, false);
}

} // namespace
