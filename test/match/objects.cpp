// Matchers on two threads, bad arguments, inspection, and OpenCV on real pictures. scores.cpp: scores and matches.
#include "match/support.hpp"

#include "reference/hsv.hpp"

#include <deque>

#if defined(CUSIGHT_HAVE_OPENCV) && __has_include(<opencv2/imgcodecs.hpp>)
#include <opencv2/imgcodecs.hpp>
#endif

namespace {

using namespace match_test;

class MatchObjects : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchObjects);

TEST_P(MatchObjects, TwoThreadsTwoStreams) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(200, 220, 1, random);
    const auto work = [&](int y, int x, int *wrong) {
        support::Owned<cusStreamDestroy> stream;
        if (space() == CUS_DEVICE && cusStreamCreate(&stream) != CUS_OK) {
            ++*wrong;
            return;
        }
        Pixels<uint8_t> frame(image, space()), pattern(cut(image, y, x, 50, 40), space());
        const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO);
        Matcher matcher;
        *wrong += cusMatcherCreate(&matcher, &pattern.mat, 1, 200, 220, &options, stream) != CUS_OK;
        for (int i = 0; i < 20 && !*wrong; ++i) {
            cusMatch match = {};
            int found = 0;
            *wrong += cusMatcherRun(matcher, &frame.mat, nullptr, stream) != CUS_OK;
            *wrong += cusMatcherGet(matcher, 0, &match, 1, &found, stream) != CUS_OK;
            *wrong += found != 1 || match.x != x || match.y != y || match.score != 0;
        }
    };
    int wrong[2] = {0, 0};
    std::thread one(work, 13, 57, &wrong[0]), two(work, 101, 150, &wrong[1]);
    one.join();
    two.join();
    EXPECT_EQ(wrong[0], 0);
    EXPECT_EQ(wrong[1], 0);
}

// What one matcher asks of the device must not take away what another has asked for.
TEST_P(MatchObjects, LargeAndSmallSideBySide) {
    auto random = support::generator();
    struct Case {
        int rows, cols, y, x;
    };
    const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3);
    const std::vector<Case> cases = {{666, 2977, 400, 2500}, {70, 60, 11, 12}, {300, 400, 5, 250}};
    std::deque<Pixels<uint8_t>> frames;
    std::vector<Matcher> matchers(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
        const Case &c = cases[i];
        const auto image = picture<uint8_t>(c.rows, c.cols, 1, random);
        frames.emplace_back(image, space());
        Pixels<uint8_t> pattern(cut(image, c.y, c.x, 30, 20), space());
        CUS_ASSERT_OK(cusMatcherCreate(&matchers[i], &pattern.mat, 1, c.rows, c.cols, &options, nullptr));
    }
    for (size_t i = 0; i < cases.size(); ++i) {
        CUS_ASSERT_OK(cusMatcherRun(matchers[i], &frames[i].mat, nullptr, nullptr));
        const auto matches = matchesOf(matchers[i], 0, 3);
        ASSERT_FALSE(matches.empty());
        expectCopyAt(matches[0], cases[i].x, cases[i].y);
    }
}

TEST_P(MatchObjects, RejectsBadArguments) {
    const auto image = flat<uint8_t>(20, 30, 1, 5);
    Pixels<uint8_t> frame(image, space()), templ(cut(image, 0, 0, 6, 8), space());
    Pixels<uint8_t> other(cut(image, 0, 0, 5, 8), space()), color(flat<uint8_t>(6, 8, 3, 1), space());
    const auto create = [&](const cusMat *templates, int count, int rows, int cols, const cusMatcherOptions *options) {
        cusMatcher *matcher = nullptr;
        const cusStatus status = cusMatcherCreate(&matcher, templates, count, rows, cols, options, nullptr);
        EXPECT_EQ(matcher, nullptr);
        cusMatcherDestroy(matcher);
        return status;
    };
    CUS_REJECTS(cusMatcherCreate(nullptr, &templ.mat, 1, 20, 30, nullptr, nullptr), NULL, "matcher is NULL");
    CUS_REJECTS(create(nullptr, 1, 20, 30, nullptr), NULL, "templates is NULL");
    CUS_REJECTS(create(&templ.mat, 0, 20, 30, nullptr), VALUE, "count is 0, expected 1..1024");
    CUS_REJECTS(create(&templ.mat, 1, 5, 30, nullptr), SIZE,
                "cusMatcherCreate: templates are 6 x 8 (rows x cols), expected at most the frame, 5 x 30");
    CUS_REJECTS(create(&templ.mat, 1, 20, 7, nullptr), SIZE, "expected at most the frame, 20 x 7");
    CUS_REJECTS(create(&templ.mat, 1, 1 << 16, 1 << 16, nullptr), SIZE, "expected at most 2^32 - 2 pixels");
    const cusMat empty = CUS_MAT_INIT;
    CUS_REJECTS(create(&empty, 1, 20, 30, nullptr), NULL, "templates[0]");
    const cusMat sizes[] = {templ.mat, other.mat}, types[] = {templ.mat, color.mat};
    CUS_REJECTS(create(sizes, 2, 20, 30, nullptr), SIZE, "templates[1]");
    CUS_REJECTS(create(types, 2, 20, 30, nullptr), TYPE, "templates[1]");
    support::TestMat wrong(6, 8, CUS_16UC1, space());
    CUS_REJECTS(
        create(&wrong.mat, 1, 20, 30, nullptr), TYPE,
        "cusMatcherCreate: templates[0] has type 16UC1, expected 8UC1, 8UC2, 8UC3, 8UC4, 32FC1, 32FC2, 32FC3 or 32FC4");
    const auto changed = [&](const auto &change) {
        auto options = cusMatcherDefaults();
        change(options);
        return create(&templ.mat, 1, 20, 30, &options);
    };
    CUS_REJECTS(changed([](auto &o) { o.method = static_cast<cusMatchMethod>(6); }), VALUE, "method is 6");
    CUS_REJECTS(changed([](auto &o) { o.algorithm = static_cast<cusMatchAlgorithm>(3); }), VALUE, "algorithm is 3");
    CUS_REJECTS(changed([](auto &o) { o.max_matches = 1025; }), VALUE, "max_matches is 1025, expected 1..1024");
    CUS_REJECTS(changed([](auto &o) { o.min_distance = 0; }), VALUE, "min_distance is 0, expected at least 1");
    Pixels<uint8_t> zero(flat<uint8_t>(6, 8, 1, 0), space());
    CUS_REJECTS(changed([&](auto &o) { o.mask = &other.mat; }), SIZE, "mask");
    CUS_REJECTS(changed([&](auto &o) { o.mask = &color.mat; }), TYPE, "mask has type 8UC3, expected 8UC1");
    CUS_REJECTS(changed([&](auto &o) { o.mask = &zero.mat; }), VALUE, "mask is all zero");
    // Running
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, 20, 30, nullptr, nullptr));
    CUS_REJECTS(cusMatcherRun(nullptr, &frame.mat, nullptr, nullptr), NULL, "matcher is NULL");
    CUS_REJECTS(cusMatcherRun(matcher, nullptr, nullptr, nullptr), NULL, "frame");
    CUS_REJECTS(cusMatcherRun(matcher, &templ.mat, nullptr, nullptr), SIZE,
                "cusMatcherRun: frame is 6 x 8 (rows x cols), expected 20 x 30 like the matcher");
    support::TestMat floats(20, 30, CUS_32FC1, space()), small(3, 3, CUS_32FC1, space());
    CUS_REJECTS(cusMatcherRun(matcher, &floats.mat, nullptr, nullptr), TYPE, "frame has type 32FC1, expected 8UC1");
    CUS_REJECTS(cusMatcherRun(matcher, &frame.mat, &small.mat, nullptr), SIZE, "scores[0]");
    cusMat elsewhere = frame.mat;
    elsewhere.space = space() == CUS_HOST ? CUS_DEVICE : CUS_HOST;
    CUS_REJECTS(cusMatcherRun(matcher, &elsewhere, nullptr, nullptr), SPACE, "like the matcher");
    int found = 0;
    cusMatch match;
    CUS_REJECTS(cusMatcherGet(matcher, 1, &match, 1, &found, nullptr), VALUE, "index is 1, expected 0..0");
    CUS_REJECTS(cusMatcherGet(matcher, 0, nullptr, 1, &found, nullptr), NULL, "matches is NULL");
    CUS_REJECTS(cusMatcherGet(matcher, 0, &match, 1, nullptr, nullptr), NULL, "found is NULL");
    cusMat view = CUS_MAT_INIT;
    CUS_REJECTS(cusMatcherResults(nullptr, &view), NULL, "matcher is NULL");
    EXPECT_EQ(cusMatcherAlgorithm(nullptr), CUS_MATCH_AUTO);
    cusMatcherDestroy(nullptr);
}

TEST_P(MatchObjects, MoreThanAnyMemory) {
    Pixels<uint8_t> templ(flat<uint8_t>(6, 8, 1, 5), space());
    std::vector<cusMat> many(1024, templ.mat);
    cusMatcher *matcher = nullptr;
    auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 2);
    const cusStatus status = cusMatcherCreate(&matcher, many.data(), 1024, 60000, 70000, &options, nullptr);
    if (status == CUS_OK) {
        cusMatcherDestroy(matcher);
        GTEST_SKIP() << "this machine promises 34 TB (overcommit)";
    }
    CUS_REJECTS(status, NO_MEMORY, "cusMatcherCreate");
    EXPECT_EQ(matcher, nullptr);
}

// ---- Inspection

// Filled and empty capsules: found by their gray shape, told apart by the color inside.
TEST_P(MatchObjects, InspectionCountsTheColorInsideEachMatch) {
    auto random = support::generator();
    auto image = picture<uint8_t>(90, 160, 3, random);
    Image<uint8_t> gray{90, 160, 1, {}};
    const cusHsvRange blue = {{100, 150, 100}, {130, 255, 255}};
    for (int y = 30; y < 60; ++y)
        for (int x = 50; x < 90; ++x)
            for (int c = 0; c < 3; ++c)
                image.data[static_cast<size_t>((y * 160 + x) * 3 + c)] =
                    y < 45 ? static_cast<uint8_t>(c == 0 ? 250 : 10) : static_cast<uint8_t>(128);
    for (int i = 0; i < 90 * 160; ++i)
        gray.data.push_back(image.data[static_cast<size_t>(3 * i + 1)]);
    Pixels<uint8_t> frame(gray, space()), color(image, space()), templ(cut(gray, 30, 50, 30, 40), space());
    const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 3, 30);
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, 90, 160, &options, nullptr));
    for (double fill : {0.5, 0.501}) {
        CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
        CUS_ASSERT_OK(cusMatcherInspect(matcher, &color.mat, &blue, fill, nullptr));
        const auto matches = matchesOf(matcher, 0, 3);
        ASSERT_FALSE(matches.empty());
        EXPECT_EQ(matches[0].x, 50);
        EXPECT_EQ(matches[0].y, 30);
        for (const cusMatch &match : matches) {
            uint32_t expected = 0;
            for (int y = match.y; y < match.y + 30; ++y)
                for (int x = match.x; x < match.x + 40; ++x)
                    expected +=
                        reference::inRange(reference::hsv(image.at(y, x, 0), image.at(y, x, 1), image.at(y, x, 2)), blue);
            EXPECT_EQ(match.pixels, expected);
            EXPECT_EQ(match.filled, expected >= fill * 30 * 40 ? 1 : 0);
        }
        EXPECT_EQ(matches[0].pixels, 600u);
        EXPECT_EQ(matches[0].filled, fill <= 0.5 ? 1 : 0);
    }
    CUS_REJECTS(cusMatcherInspect(matcher, &frame.mat, &blue, 0.5, nullptr), TYPE, "expected 8UC3");
    CUS_REJECTS(cusMatcherInspect(matcher, &color.mat, &blue, 1.5, nullptr), VALUE, "min_fill is 1.5, expected 0..1");
    CUS_REJECTS(cusMatcherInspect(matcher, &templ.mat, &blue, 0.5, nullptr), TYPE, "frame");
}

// ---- Against OpenCV, on real pictures

#ifdef CUSIGHT_HAVE_OPENCV
#ifdef OPENCV_IMGCODECS_HPP
Image<uint8_t> real(const std::string &name, int flags) {
    const cv::Mat mat = cv::imread(support::dataFolder() + "/" + name, flags);
    Image<uint8_t> image{mat.rows, mat.cols, mat.channels(), {}};
    for (int y = 0; y < mat.rows; ++y)
        image.data.insert(image.data.end(), mat.ptr(y), mat.ptr(y) + static_cast<size_t>(mat.cols) * mat.elemSize());
    return image;
}

TEST_P(MatchObjects, RealPicturesBesideOpencv) {
    struct Pair {
        const char *image, *templ;
    };
    if (support::dataFolder().empty() || real("box.png", cv::IMREAD_GRAYSCALE).rows == 0)
        GTEST_SKIP() << "set CUSIGHT_TEST_DATA to the folder of OpenCV's sample pictures";
    for (const Pair &pair : {Pair{"box_in_scene.png", "box.png"}, Pair{"pic1.png", "templ.png"}})
        for (int flags : {cv::IMREAD_GRAYSCALE, cv::IMREAD_COLOR}) {
            const auto image = real(pair.image, flags);
            auto templ = real(pair.templ, flags);
            if (image.rows == 0 || templ.rows == 0)
                continue;
            templ = cut(templ, 0, 0, std::min(templ.rows, image.rows), std::min(templ.cols, image.cols));
            for (auto method : METHODS)
                for (auto algorithm : {CUS_MATCH_FFT, CUS_MATCH_DIRECT}) {
                    if (space() == CUS_HOST && algorithm == CUS_MATCH_DIRECT && (flags == cv::IMREAD_COLOR || method))
                        continue; /* slow, and covered above */
                    SCOPED_TRACE(testing::Message() << pair.image << " flags " << flags << " method " << method);
                    const auto outcome = run(image, templ, space(), with(method, algorithm));
                    const cv::Mat a(image.rows, image.cols, CV_8UC(image.channels),
                                    const_cast<uint8_t *>(image.data.data()));
                    const cv::Mat b(templ.rows, templ.cols, CV_8UC(templ.channels),
                                    const_cast<uint8_t *>(templ.data.data()));
                    cv::Mat expected;
                    cv::matchTemplate(a, b, expected, static_cast<int>(method));
                    // OpenCV's own error: no mean is subtracted there, so norms of the whole pictures enter.
                    const double scale = (method & 1) ? 1 : cv::norm(a) * cv::norm(b);
                    const double bound = 2 * 21 * 22 * 0x1p-24 * scale;
                    double worst = 0;
                    for (int y = 0; y < expected.rows; ++y)
                        for (int x = 0; x < expected.cols; ++x)
                            worst =
                                std::max<double>(worst, std::fabs(expected.at<float>(y, x) -
                                                                  outcome.map[static_cast<size_t>(y * expected.cols + x)]));
                    EXPECT_LE(worst, bound);
                    // No position of OpenCV's map may be better than the exact best by more than its error.
                    ASSERT_EQ(outcome.matches.size(), 1u);
                    const auto &best = outcome.matches[0];
                    if (method == CUS_MATCH_SQDIFF || method == CUS_MATCH_CCORR || method == CUS_MATCH_CCOEFF_NORMED)
                        EXPECT_NEAR(best.score, reference::score(image, templ, nullptr, method, best.y, best.x),
                                    method == CUS_MATCH_CCOEFF_NORMED ? 1e-9 : 0);
                    double low = 0, high = 0;
                    cv::minMaxLoc(expected, &low, &high);
                    EXPECT_LE(method < 2 ? best.score - low : high - best.score, bound);
                }
        }
}
#endif
#endif

} // namespace
