// cusight::cuda and the classes on cv::Mat: results beside OpenCV's own, outputs, errors, and what people report about cv::cuda's
// template matching. test_opencv_cuda.cpp: the same on GpuMat.
#include "support.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CORE
#include "core/opencv_support.hpp"

#include <thread>

namespace {

using namespace opencv_test;

double squaredDifference(const cv::Mat &image, const cv::Mat &templ, cv::Point at) {
    return cv::norm(image(cv::Rect(at, templ.size())), templ, cv::NORM_L2SQR);
}

// The call must throw a cv::Exception with this code, whose message contains this text.
template<class F>
testing::AssertionResult throws(int code, const std::string &text, F &&call) {
    try {
        call();
    } catch (const cv::Exception &e) {
        if (e.code == code && e.err.find(text) != std::string::npos)
            return testing::AssertionSuccess();
        return testing::AssertionFailure() << "code " << e.code << ", message: " << e.err;
    }
    return testing::AssertionFailure() << "no exception";
}

// cv::error prints what it throws; not the errors that these tests expect.
class Opencv : public testing::Test {
  protected:
    void SetUp() override {
        cv::redirectError([](int, const char *, const char *, const char *, int, void *) { return 0; });
    }
    void TearDown() override { cv::redirectError(nullptr); }
    std::mt19937_64 random = support::generator();
};

TEST_F(Opencv, IntegralEqualsOpencv) {
    for (const auto &[rows, cols] : {std::pair{1, 1}, {37, 53}, {480, 641}, {1025, 1326}, {301, 4097}, {70, 32768}}) {
        const cv::Mat whole = randomImage(rows + 3, cols + 5, CV_8UC1, random), image = whole({3, 2, cols, rows});
        cv::Mat sum, sqsum, both, squares, want, want_squares;
        cv::integral(image, want, want_squares, CV_32S, CV_64F);
        cusight::cuda::integral(image, sum);
        cusight::cuda::sqrIntegral(image, sqsum);
        cusight::cuda::integral(image, both, squares);
        EXPECT_EQ(difference(sum, want), 0);
        EXPECT_EQ(difference(both, want), 0);
        EXPECT_EQ(difference(sqsum, want_squares), 0);
        EXPECT_EQ(difference(squares, want_squares), 0);
    }
    const cv::Mat floats = randomImage(40, 50, CV_32FC1, random);
    cv::Mat sum, want;
    cusight::cuda::integral(floats, sum);
    cv::integral(floats, want, CV_64F);
    EXPECT_EQ(difference(sum, want), 0);
    for (const int type : {CV_8UC2, CV_8UC3, CV_8UC4, CV_32FC2, CV_32FC3, CV_32FC4}) {
        const cv::Mat whole = randomImage(90, 130, type, random), image = whole({3, 2, 117, 83});
        cv::Mat sqsum, want_squares;
        cv::integral(image, want, want_squares, CV_MAT_DEPTH(type) == CV_8U ? CV_32S : CV_64F, CV_64F);
        cusight::cuda::integral(image, sum, sqsum);
        EXPECT_EQ(sum.type(), want.type());
        EXPECT_EQ(difference(sum, want), 0);
        EXPECT_EQ(difference(sqsum, want_squares), 0);
        cusight::cuda::sqrIntegral(image, sqsum);
        EXPECT_EQ(difference(sqsum, want_squares), 0);
    }
}

TEST_F(Opencv, OutputsAreCreatedOrWrittenInPlace) {
    const cv::Mat image = randomImage(20, 30, CV_8UC1, random);
    cv::Mat fits(21, 31, CV_32SC1), other(4, 4, CV_8UC3), frame(40, 50, CV_32SC1, cv::Scalar(-7));
    const auto *before = fits.data;
    cusight::cuda::integral(image, fits);
    EXPECT_EQ(fits.data, before);
    cusight::cuda::integral(image, other);
    EXPECT_EQ(difference(other, fits), 0);
    cv::Mat region = frame({5, 6, 31, 21}); // of the right size: written in place, its surroundings untouched
    cusight::cuda::integral(image, region);
    EXPECT_EQ(region.data, frame.ptr(6) + 5 * 4);
    EXPECT_EQ(difference(region, fits), 0);
    cv::Mat outside = frame.clone();
    outside({5, 6, 31, 21}).setTo(-7);
    EXPECT_EQ(difference(outside, cv::Mat(40, 50, CV_32SC1, cv::Scalar(-7))), 0);
    cv::Mat same = image.clone(); // the input stays alive until it is read
    cusight::cuda::integral(same, same);
    EXPECT_EQ(difference(same, fits), 0);
    cv::UMat unified; // whatever has a cv::Mat inside
    image.copyTo(unified);
    cv::Mat_<int> typed;
    cusight::cuda::integral(unified, typed);
    EXPECT_EQ(difference(typed, fits), 0);
}

TEST_F(Opencv, ExceptionsCarryTheMessage) {
    cv::Mat out;
    EXPECT_TRUE(throws(cv::Error::StsUnsupportedFormat,
                       "cusIntegral: src has type 16SC1, expected 8UC1, 8UC2, 8UC3, 8UC4, 32FC1",
                       [&] { cusight::cuda::integral(cv::Mat(4, 4, CV_16SC1), out); }));
    EXPECT_TRUE(out.empty()) << "an output was created for a rejected call";
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "src is", [&] { cusight::cuda::integral(cv::Mat(), out); }));
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "cusIntegral",
                       [&] { cusight::cuda::integral(cv::Mat(4, 4, CV_8UC1), cv::noArray()); }));
    EXPECT_TRUE(throws(cv::Error::StsBadSize, "cur is 5 x 4 (rows x cols), expected 4 x 4 like prev",
                       [&] { cusight::cuda::heatmap(cv::Mat(4, 4, CV_8UC3), cv::Mat(5, 4, CV_8UC3), out); }));
    EXPECT_TRUE(throws(cv::Error::StsOutOfRange, "threshold is 766, expected 0..765",
                       [&] { cusight::cuda::noiseView(cv::Mat(4, 4, CV_8UC3), cv::Mat(4, 4, CV_8UC3), out, 766); }));
    EXPECT_TRUE(throws(cv::Error::StsUnsupportedFormat,
                       "srcType is CV_16SC1, expected CV_8UC1 to CV_8UC4 or CV_32FC1 to CV_32FC4",
                       [] { cusight::cuda::createTemplateMatching(CV_16SC1, cv::TM_SQDIFF); }));
    EXPECT_TRUE(throws(cv::Error::StsOutOfRange, "method is 6", [] { cusight::cuda::createTemplateMatching(CV_8UC1, 6); }));
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
    const cv::Mat image(9, 9, CV_8UC1, cv::Scalar(0));
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "call setTemplate first", [&] { matching->match(image, out); }));
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "no match yet", [&] { matching->best(nullptr, nullptr); }));
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "templ is empty", [&] { matching->match(image, cv::Mat(), out); }));
    EXPECT_TRUE(throws(cv::Error::StsUnsupportedFormat, "templ has type CV_8UC3, expected CV_8UC1",
                       [&] { matching->match(image, cv::Mat(2, 2, CV_8UC3), out); }));
    EXPECT_TRUE(throws(cv::Error::StsBadSize, "cusMatcher",
                       [&] { matching->match(image, cv::Mat(10, 2, CV_8UC1, cv::Scalar(1)), out); }));
    const auto stereo = cusight::cuda::createStereoContour(30, 6);
    EXPECT_TRUE(throws(cv::Error::StsOutOfRange, "window is 6, expected an odd number",
                       [&] { stereo->compute(cv::Mat(40, 40, CV_8UC1), cv::Mat(40, 40, CV_8UC1), out); }));
}

// OpenCV 5 numbers types with channels otherwise than OpenCV 4 and the library.
TEST(OpencvTypes, ThereAndBack) {
    for (int depth = CUS_8U; depth <= CUS_16F; ++depth)
        for (const int channels : {1, 2, 3, 4, CV_CN_MAX}) {
            const int type = CUS_MAKETYPE(depth, channels), cv_type = cusight::toCvType(type);
            EXPECT_EQ(cv_type, CV_MAKETYPE(depth, channels));
            EXPECT_EQ(cusight::fromCvType(cv_type), type);
        }
#if CV_VERSION_MAJOR >= 5
    EXPECT_THROW(cusight::fromCvType(CV_16BFC3), cusight::Error);
    EXPECT_THROW(cusight::toCvType(CUS_MAKETYPE(CUS_8U, CV_CN_MAX + 1)), cusight::Error);
#endif
}

// A GpuMat is never processed on the host and a cv::Mat never on the device: mixing them is an error, not a hidden copy.
TEST_F(Opencv, SpacesDoNotMix) {
    std::vector<uint8_t> memory(4096);
    cv::cuda::GpuMat device(16, 16, CV_32SC1, memory.data(), 64); // never dereferenced
    EXPECT_TRUE(throws(cv::Error::StsBadArg, "an output is a cv::cuda::GpuMat (device memory), expected a cv::Mat",
                       [&] { cusight::cuda::integral(cv::Mat(4, 4, CV_8UC1), device); }));
    cv::Mat host;
    const cv::cuda::GpuMat image(4, 4, CV_8UC1, memory.data(), 4);
    EXPECT_TRUE(throws(cv::Error::StsBadArg, "an output is a cv::Mat (host memory), expected a cv::cuda::GpuMat",
                       [&] { cusight::cuda::integral(image, host); }));
    EXPECT_TRUE(throws(cv::Error::StsBadArg, "cusHeatmap: cur is in CUS_HOST, expected CUS_DEVICE like prev",
                       [&] { cusight::cuda::heatmap(image, cv::Mat(4, 4, CV_8UC1), host); }));
    if (!support::haveGpu()) {
        cv::cuda::GpuMat table(5, 5, CV_32SC1, memory.data() + 1024, 20);
        EXPECT_TRUE(throws(cv::Error::GpuNotSupported, "cusIntegral", [&] { cusight::cuda::integral(image, table); }));
    }
}

TEST_F(Opencv, ScoreMapsAreMatchTemplates) {
    for (const int type : {CV_8UC1, CV_8UC2, CV_8UC3, CV_8UC4, CV_32FC1, CV_32FC2, CV_32FC3, CV_32FC4})
        for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method)
            for (const int side : {5, 40}) { // direct and by FFT
                SCOPED_TRACE(cv::typeToString(type) + ", method " + std::to_string(method) + ", side " +
                             std::to_string(side));
                const cv::Mat image = smoothImage(120, 151, type, random);
                const cv::Mat templ = image({37, 21, side, side}); // a region
                const auto matching = cusight::cuda::createTemplateMatching(type, method);
                cv::Mat map, want;
                matching->match(image, templ, map);
                cv::matchTemplate(image, templ, want, method);
                ASSERT_EQ(map.size(), want.size());
                ASSERT_EQ(map.type(), CV_32FC1);
                EXPECT_LT(difference(map, want), 1e-4 * std::max(1.0, cv::norm(want, cv::NORM_INF)));
                cv::Point at;
                ASSERT_TRUE(matching->best(nullptr, &at));
                if (method != cv::TM_CCORR && method != cv::TM_CCOEFF) { // which prefer brighter places
                    EXPECT_EQ(at, cv::Point(37, 21));
                }
            }
}

// Binary masks, with every method. cv::matchTemplate takes a few of them by sums of floats: 1e-3 is its rounding.
TEST_F(Opencv, MasksAreMatchTemplates) {
    for (const int type : {CV_8UC1, CV_8UC3, CV_32FC1})
        for (int method = cv::TM_SQDIFF; method <= cv::TM_CCOEFF_NORMED; ++method) {
            SCOPED_TRACE(cv::typeToString(type) + ", method " + std::to_string(method));
            const cv::Mat image = smoothImage(90, 101, type, random), templ = image({37, 21, 24, 19});
            cv::Mat mask(templ.size(), CV_8UC1), map, want;
            cv::randu(mask, 0, 4);
            mask.setTo(255, mask > 0);
            cusMatcherOptions options = cusMatcherDefaults();
            options.method = static_cast<cusMatchMethod>(method);
            cusMat kept = CUS_MAT_INIT;
            ASSERT_EQ(cusMatWrap(&kept, mask.rows, mask.cols, CUS_8UC1, CUS_HOST, mask.data, mask.step), CUS_OK);
            options.mask = &kept;
            const auto matching = cusight::cuda::createTemplateMatching(type, options);
            matching->match(image, templ, map);
            cv::matchTemplate(image, templ, want, method, mask);
            ASSERT_EQ(map.size(), want.size());
            EXPECT_LT(difference(map, want), 1e-3 * std::max(1.0, cv::norm(want, cv::NORM_INF)));
            cv::Point at;
            ASSERT_TRUE(matching->best(nullptr, &at));
            if (method != cv::TM_CCORR && method != cv::TM_CCOEFF) {
                EXPECT_EQ(at, cv::Point(37, 21));
            }
        }
}

// Weights multiply image and template.
TEST_F(Opencv, WeightsAreMatchTemplates) {
    for (const int type : {CV_8UC1, CV_8UC3, CV_32FC1, CV_32FC3})
        for (const int method : {cv::TM_SQDIFF, cv::TM_SQDIFF_NORMED, cv::TM_CCORR, cv::TM_CCORR_NORMED})
            for (const int channels : {1, CV_MAT_CN(type)}) {
                SCOPED_TRACE(cv::typeToString(type) + ", method " + std::to_string(method));
                const cv::Mat image = smoothImage(90, 101, type, random), templ = image({37, 21, 24, 19});
                cv::Mat mask(templ.size(), CV_MAKETYPE(CV_32F, channels)), map, want;
                cv::randu(mask, 0.1, 1.5);
                cusMatcherOptions options = cusMatcherDefaults();
                options.method = static_cast<cusMatchMethod>(method);
                cusMat kept = CUS_MAT_INIT;
                ASSERT_EQ(cusMatWrap(&kept, mask.rows, mask.cols, cusight::fromCvType(mask.type()), CUS_HOST, mask.data,
                                     mask.step),
                          CUS_OK);
                options.mask = &kept;
                const auto matching = cusight::cuda::createTemplateMatching(type, options);
                matching->match(image, templ, map);
                cv::matchTemplate(image, templ, want, method, mask);
                EXPECT_LT(difference(map, want), 1e-3 * std::max(1.0, cv::norm(want, cv::NORM_INF)));
                cv::Point at;
                ASSERT_TRUE(matching->best(nullptr, &at));
                if (method != cv::TM_CCORR) {
                    EXPECT_EQ(at, cv::Point(37, 21));
                }
            }
}

TEST_F(Opencv, TheTemplateMayChangeInPlace) {
    const cv::Mat image = smoothImage(90, 100, CV_8UC1, random);
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF, cv::Size(64, 64));
    cv::Mat templ(12, 14, CV_8UC1), map;
    cv::Point at;
    double score = 0;
    for (const cv::Point want : {cv::Point(3, 60), cv::Point(80, 7), cv::Point(0, 0)}) {
        image(cv::Rect(want, templ.size())).copyTo(templ); // same header, same memory, other pixels
        matching->match(image, templ, map);
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(at, want);
        EXPECT_EQ(score, 0);
    }
    const auto *prepared = &matching->matcher();
    matching->match(image, templ.clone(), map); // the same pixels elsewhere: nothing is prepared again
    EXPECT_EQ(&matching->matcher(), prepared);
    const cv::Mat part = image({0, 0, 50, 60});
    matching->match(part, templ, cv::noArray()); // another size of image; no map
    ASSERT_TRUE(matching->best(&score, &at));
    EXPECT_EQ(at, cv::Point(0, 0));
    matching->setTemplate(image({30, 31, 9, 9}), image.size());
    matching->match(image, map);
    EXPECT_EQ(map.size(), cv::Size(92, 82));
    ASSERT_TRUE(matching->best(nullptr, &at));
    EXPECT_EQ(at, cv::Point(30, 31));
    matching->clear();
    EXPECT_TRUE(throws(cv::Error::StsNullPtr, "setTemplate", [&] { matching->match(image, map); }));
}

TEST_F(Opencv, SeveralMatches) {
    cv::Mat image = smoothImage(100, 120, CV_8UC1, random);
    const cv::Mat templ = image({20, 30, 16, 16}).clone();
    templ.copyTo(image({70, 60, 16, 16}));
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = CUS_MATCH_SQDIFF;
    options.max_matches = 5;
    options.min_distance = 8;
    options.score_limit = 0;
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, options);
    matching->match(image, templ, cv::noArray());
    const auto found = matching->matches();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(cv::Point(found[0].x, found[0].y), cv::Point(20, 30));
    EXPECT_EQ(cv::Point(found[1].x, found[1].y), cv::Point(70, 60));
}

// ---- What people report about cv::cuda ---------------------------------------------------------------------------------

// opencv 13883: template matching on several threads at once fails. Each thread has its own object.
TEST_F(Opencv, Issue13883MatchingOnThreads) {
    const int threads = 4, rounds = 6;
    std::vector<cv::Mat> images, want(threads);
    for (int k = 0; k < threads; ++k) {
        images.push_back(smoothImage(150 + k, 170 - k, CV_8UC1, random));
        const auto alone = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
        alone->match(images.back(), images.back()({40, 50, 33, 30}), want[static_cast<size_t>(k)]);
    }
    std::vector<std::thread> workers;
    std::vector<std::string> wrong(threads);
    for (size_t k = 0; k < threads; ++k)
        workers.emplace_back([&, k] {
            try {
                const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
                cv::Point at;
                cv::Mat map;
                for (int round = 0; round < rounds; ++round) {
                    matching->match(images[k], images[k]({40, 50, 33, 30}), map);
                    if (!matching->best(nullptr, &at) || at != cv::Point(40, 50) || difference(map, want[k]) != 0)
                        wrong[k] = "another result than alone";
                }
            } catch (const std::exception &e) {
                wrong[k] = e.what();
            }
        });
    for (auto &worker : workers)
        worker.join();
    EXPECT_EQ(wrong, std::vector<std::string>(threads));
}

// opencv 20484: template matching fails on large images. Wider and taller than any CUDA grid dimension but the first.
TEST_F(Opencv, Issue20484LargeImages) {
    for (const cv::Size size : {cv::Size(70000, 24), cv::Size(24, 70000), cv::Size(3000, 2000)}) {
        const cv::Mat image = randomImage(size.height, size.width, CV_8UC1, random);
        const cv::Point want(size.width - 17, size.height - 18);
        const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_CCOEFF_NORMED);
        cv::Mat map;
        matching->match(image, image({want.x, want.y, 16, 16}), map);
        EXPECT_EQ(map.size(), cv::Size(size.width - 15, size.height - 15));
        cv::Point at;
        double score = 0;
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(at, want) << size;
        EXPECT_NEAR(score, 1, 1e-12);
        EXPECT_NEAR(map.at<float>(want), 1, 1e-4);
    }
}

// opencv_contrib 2709: findMinMaxLoc allocates at every call. Here the best match lies in the matcher, always at the same place,
// and the map is not needed.
TEST_F(Opencv, Issue2709TheBestMatchStaysInPlace) {
    const cv::Mat image = smoothImage(100, 90, CV_8UC1, random);
    const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
    matching->setTemplate(image({40, 50, 20, 21}), image.size());
    cv::Mat map;
    matching->match(image, map);
    const cusMat results = matching->matcher().results();
    const auto *pixels = map.data;
    for (int round = 0; round < 4; ++round) {
        matching->match(image, map);
        EXPECT_EQ(matching->matcher().results().data, results.data);
        EXPECT_EQ(map.data, pixels);
        const auto *best = static_cast<const cusMatch *>(results.data);
        EXPECT_EQ(cv::Point(best->x, best->y), cv::Point(40, 50));
    }
}

// Scores that are not exact, and below zero where the template is an exact copy: bright pictures, where float sums round.
TEST_F(Opencv, ExactScores) {
    for (const int side : {9, 64, 150}) {
        cv::Mat image = randomImage(200, 210, CV_8UC1, random);
        image = image / 16 + 240; // 240..255
        const cv::Mat copy = image({31, 22, side, side}).clone();
        const auto matching = cusight::cuda::createTemplateMatching(CV_8UC1, cv::TM_SQDIFF);
        double score = -1;
        cv::Point at;
        matching->match(image, copy, cv::noArray());
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(at, cv::Point(31, 22));
        EXPECT_EQ(score, 0);
        cv::Mat changed = copy.clone(); // one unit away from a copy
        changed.at<uint8_t>(side / 2, side / 3) ^= 1;
        matching->match(image, changed, cv::noArray());
        ASSERT_TRUE(matching->best(&score, &at));
        EXPECT_EQ(score, 1);
        // The true minimum by brute force.
        cv::Mat templ = randomImage(side, side, CV_8UC1, random) / 16 + 240;
        matching->match(image, templ, cv::noArray());
        ASSERT_TRUE(matching->best(&score, &at));
        double least = INFINITY;
        cv::Point where;
        for (int y = 0; y + side <= image.rows; y += side == 9 ? 1 : 3) // every third for the large ones
            for (int x = 0; x + side <= image.cols; x += side == 9 ? 1 : 3) {
                const double d = squaredDifference(image, templ, {x, y});
                if (d < least) {
                    least = d;
                    where = {x, y};
                }
            }
        EXPECT_EQ(score, squaredDifference(image, templ, at));
        EXPECT_LE(score, least);
        if (side == 9)
            EXPECT_EQ(at, where);
    }
}

// ---- The other algorithms ----------------------------------------------------------------------------------------------

TEST_F(Opencv, HeatmapAndNoiseView) {
    const cv::Mat prev = randomImage(30, 41, CV_8UC3, random), cur = randomImage(30, 41, CV_8UC3, random);
    cv::Mat map, noise, difference_image, want(30, 41, CV_8UC3), sums;
    cusight::cuda::heatmap(prev, cur, map);
    cusMat p = cusight::view(prev), c = cusight::view(cur), w = cusight::view(want);
    CUS_ASSERT_OK(cusHeatmap(&p, &c, &w, nullptr, nullptr));
    EXPECT_EQ(difference(map, want), 0);
    cusight::cuda::noiseView(prev, cur, noise, 200);
    cv::absdiff(prev, cur, difference_image);
    difference_image.convertTo(difference_image, CV_32F);
    cv::transform(difference_image, sums, cv::Matx13f(1, 1, 1));
    want.setTo(0);
    want.setTo(cv::Scalar(0, 0, 255), sums > 200);
    EXPECT_EQ(difference(noise, want), 0);

    cusight::Heatmap state; // frame against frame
    cv::Mat first, second, changed_size;
    state.apply(prev, first);
    state.apply(cur, second);
    EXPECT_EQ(difference(first, cv::Mat(30, 41, CV_8UC3, cv::Scalar(255, 0, 0))), 0);
    EXPECT_EQ(difference(second, map), 0);
    state.apply(cur(cv::Rect(0, 0, 20, 20)).clone(), changed_size);
    EXPECT_EQ(difference(changed_size, cv::Mat(20, 20, CV_8UC3, cv::Scalar(255, 0, 0))), 0);
}

TEST_F(Opencv, StereoContourEqualsTheMapper) {
    const cv::Mat right = smoothImage(60, 90, CV_8UC1, random);
    cv::Mat left(60, 90, CV_8UC1, cv::Scalar(0)), elevation, contours, alone;
    right({0, 0, 80, 60}).copyTo(left({10, 0, 80, 60})); // left x is right x - 10
    const auto stereo = cusight::cuda::createStereoContour(20, 9);
    stereo->compute(left, right, elevation, contours);
    stereo->compute(left, right, alone);
    EXPECT_EQ(elevation.type(), CV_16UC1);
    EXPECT_EQ(contours.type(), CV_8UC1);
    EXPECT_EQ(difference(elevation, alone), 0);
    EXPECT_EQ(cv::countNonZero(elevation({40, 10, 40, 40}) != 11), 0); // 1 + disparity
    cusight::ContourMapper mapper(60, 90, CUS_8UC1, CUS_HOST, stereo->options());
    cv::Mat heights, lines;
    mapper.map(left, right, heights, lines);
    EXPECT_EQ(difference(elevation, heights), 0);
    EXPECT_EQ(difference(contours, lines), 0);
    stereo->compute(left.colRange(0, 60), right.colRange(0, 60), elevation); // another size
    EXPECT_EQ(elevation.size(), cv::Size(60, 60));
    cusStereoOptions relax = cusStereoDefaults();
    relax.fill = CUS_FILL_RELAX;
    cusight::cuda::createStereoContour(relax)->compute(left, right, elevation);
    EXPECT_EQ(elevation.type(), CV_32FC1);
    const auto paths = cusight::cuda::createStereoPaths(20, 8);
    EXPECT_EQ(paths->options().aggregation, CUS_STEREO_PATHS);
    EXPECT_EQ(paths->options().paths, 8);
    paths->compute(left, right, elevation);
    EXPECT_EQ(cv::countNonZero(elevation({40, 10, 40, 40}) != 11), 0);
}

TEST_F(Opencv, SparseDiffThereAndBack) {
    cusDiffOptions options = cusDiffDefaults();
    options.threshold = 3;
    cusight::cuda::SparseDiff sender(options);
    cusight::cuda::SparseDiffDecoder receiver({41, 30}, CV_8UC3, CUS_HOST), direct({41, 30}, CV_8UC3, CUS_HOST);
    cv::Mat frame = randomImage(30, 41, CV_8UC3, random), positions, values, got, reference;
    for (int k = 0; k < 4; ++k) {
        if (k < 3)
            frame({k, 2 * k, 9, 7}) = cv::Scalar::all(40 * k);
        sender.encode(frame);
        const uint32_t n = sender.changes(positions, values);
        EXPECT_EQ(n, sender.count());
        EXPECT_EQ(n == 0, k == 3); // the last frame repeats the one before
        EXPECT_EQ(static_cast<uint32_t>(positions.cols), n);
        EXPECT_EQ(positions.empty(), values.empty());
        receiver.decode(positions, values);
        direct.decode(sender);
        receiver.frame(got);
        sender.reference(reference);
        EXPECT_EQ(difference(got, reference), 0);
        EXPECT_LE(difference(got, frame), 3);
        direct.frame(got);
        EXPECT_EQ(difference(got, reference), 0);
    }
    cusight::cuda::SparseDiffDecoder late({41, 30}, CV_8UC3, CUS_HOST);
    late.reset(reference);
    late.frame(got);
    EXPECT_EQ(difference(got, reference), 0);
    EXPECT_TRUE(throws(cv::Error::StsBadSize, "positions are 1 x 1, values 1 x 2 (rows x cols), expected 1 x n both", [&] {
        receiver.decode(cv::Mat(1, 1, CV_32SC1, cv::Scalar(0)), cv::Mat(1, 2, CV_8UC1, cv::Scalar(0)));
    }));
    EXPECT_TRUE(throws(cv::Error::StsUnsupportedFormat, "type is 16SC1", [] {
        cusight::cuda::SparseDiffDecoder({4, 4}, CV_16SC1, CUS_HOST);
    }));
}

} // namespace

#endif
