// The device's search where very many positions may be the best: exact correlations everywhere, in any mixture with the usual
// search, and in a CUDA graph. adversarial.cpp compares such contents on both backends.
#include "match/support.hpp"

#ifdef CUSIGHT_HAVE_CUDA

#include <cuda_runtime.h>

namespace {

using namespace match_test;

// Left half of one color.
Image<uint8_t> half(int rows, int cols, int channels, uint8_t value, std::mt19937_64 &random) {
    auto image = picture<uint8_t>(rows, cols, channels, random);
    for (int y = 0; y < rows; ++y)
        for (int i = 0; i < cols / 2 * channels; ++i)
            image.data[static_cast<size_t>(y * cols * channels + i)] = value;
    return image;
}

Image<uint8_t> stripes(int rows, int cols, int channels, int period) {
    Image<uint8_t> image{rows, cols, channels, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c)
                image.data.push_back(static_cast<uint8_t>(x % period < period / 2 ? 20 + c : 200 - c));
    return image;
}

class MatchWorstCuda : public testing::Test {
  protected:
    std::mt19937_64 random = support::generator();
    void SetUp() override { CUS_NEEDS(CUS_DEVICE); }
};

TEST_F(MatchWorstCuda, EveryMethodAndContent) {
    for (int channels : {1, 3})
        for (auto method : METHODS)
            for (auto algorithm : ALGORITHMS) {
                const auto natural = picture<uint8_t>(31, 43, channels, random);
                const int matches = method % 2 ? 1 : 4;
                compare(flat<uint8_t>(130, 151, channels, 0), natural, CUS_DEVICE, with(method, algorithm, matches, 9));
                compare(half(130, 151, channels, 0, random), flat<uint8_t>(31, 43, channels, 20), CUS_DEVICE,
                        with(method, algorithm, matches, 9));
                compare(half(130, 151, channels, 255, random), natural, CUS_DEVICE, with(method, algorithm, matches, 9));
                compare(stripes(130, 151, channels, 16), stripes(31, 43, channels, 16), CUS_DEVICE,
                        with(method, algorithm, matches, 9));
            }
}

// The first matches are unique, then thousands of positions are equal; and the other way round.
TEST_F(MatchWorstCuda, OverflowInALaterRound) {
    auto image = flat<uint8_t>(150, 170, 1, 0);
    const auto templ = picture<uint8_t>(20, 24, 1, random);
    for (const auto &[y0, x0] : {std::pair<int, int>{10, 30}, {100, 140}})
        for (int y = 0; y < 20; ++y)
            for (int x = 0; x < 24; ++x)
                image.data[static_cast<size_t>((y + y0) * 170 + x + x0)] = templ.at(y, x, 0);
    for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF})
        for (auto algorithm : ALGORITHMS)
            for (int distance : {1, 5, 30, 300})
                compare(image, templ, CUS_DEVICE, with(method, algorithm, 12, distance));
    compare(image, templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 400, 1));
    compare(flat<uint8_t>(60, 70, 1, 9), templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 1024, 1));
    compare(flat<uint8_t>(60, 70, 1, 9), templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 1024, 7)); // runs out
}

// Copies far apart and close together, and more matches than copies.
TEST_F(MatchWorstCuda, ManyCopies) {
    auto image = picture<uint8_t>(150, 190, 1, random);
    const auto templ = picture<uint8_t>(15, 18, 1, random);
    for (int copy = 0; copy < 14; ++copy) {
        const int y0 = static_cast<int>(random() % 135), x0 = static_cast<int>(random() % 172);
        for (int y = 0; y < 15; ++y)
            for (int x = 0; x < 18; ++x)
                image.data[static_cast<size_t>((y + y0) * 190 + x + x0)] =
                    static_cast<uint8_t>(std::min(255, templ.at(y, x, 0) + static_cast<int>(random() % 12)));
    }
    for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR})
        for (const auto &[matches, distance] :
             std::vector<std::pair<int, int>>{{10, 8}, {10, 1}, {40, 20}, {60, 3}, {300, 5}})
            compare(image, templ, CUS_DEVICE, with(method, CUS_MATCH_FFT, matches, distance));
    compare(image, templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 1024, 2));
}

// Large enough for several items a block, and for long and short transforms.
TEST_F(MatchWorstCuda, Sizes) {
    struct Shape {
        int rows, cols, h, w;
    };
    for (const Shape &s : {Shape{700, 900, 690, 880}, Shape{3000, 60, 20, 40}, Shape{40, 3800, 30, 3000},
                           Shape{1000, 1300, 975, 1290}, Shape{160, 160, 1, 1}, Shape{2, 3000, 1, 3}}) {
        const auto templ = picture<uint8_t>(s.h, s.w, 1, random);
        compare(flat<uint8_t>(s.rows, s.cols, 1, 0), templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT));
        compare(half(s.rows, s.cols, 1, 255, random), templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, 3, 4));
    }
}

// Many matches from exact costs: neighborhoods of one position up to the whole map, a limit, and more matches than the map has room
// for.
TEST_F(MatchWorstCuda, ManyMatchesOfEqualScores) {
    struct Shape {
        int rows, cols, h, w;
    };
    for (const Shape &s : {Shape{70, 90, 9, 11}, Shape{40, 170, 5, 6}, Shape{17, 43, 2, 12}, Shape{300, 9, 5, 4}}) {
        const auto templ = picture<uint8_t>(s.h, s.w, 1, random);
        for (auto algorithm : ALGORITHMS)
            for (const auto &[matches, distance] :
                 std::vector<std::pair<int, int>>{{1024, 1}, {500, 2}, {200, 5}, {60, 33}, {9, 1000}}) {
                compare(flat<uint8_t>(s.rows, s.cols, 1, 7), templ, CUS_DEVICE,
                        with(CUS_MATCH_CCORR, algorithm, matches, distance));
                compare(half(s.rows, s.cols, 1, 7, random), templ, CUS_DEVICE,
                        with(CUS_MATCH_SQDIFF, algorithm, matches, distance));
            }
    }
    const auto templ = picture<uint8_t>(9, 11, 1, random);
    const auto image = half(70, 90, 1, 7, random);
    for (auto algorithm : ALGORITHMS) { // every position of one color costs the same; a limit just below ends the search
        auto options = with(CUS_MATCH_SQDIFF, algorithm, 300, 3);
        const auto all = run(image, templ, CUS_DEVICE, options).matches;
        ASSERT_EQ(all.size(), 300u);
        options.score_limit = all[150].score;
        const auto some = run(image, templ, CUS_DEVICE, options).matches;
        ASSERT_GT(some.size(), 150u);
        ASSERT_LT(some.size(), 301u);
        for (size_t i = 0; i < some.size(); ++i)
            EXPECT_TRUE(some[i].x == all[i].x && some[i].y == all[i].y && some[i].score <= options.score_limit) << i;
        EXPECT_TRUE(some.size() == 300 || all[some.size()].score > options.score_limit);
    }
}

// Offsets to fractions of a pixel follow from what earlier matches have left: more positions of a column are equal than a list holds.
TEST_F(MatchWorstCuda, SubpixelBesideEarlierMatches) {
    constexpr int ROWS = 1100, COLS = 60, DISTANCE = 3;
    const auto row = picture<uint8_t>(1, COLS, 1, random), templ = picture<uint8_t>(5, 11, 1, random);
    Image<uint8_t> image{ROWS, COLS, 1, {}};
    for (int y = 0; y < ROWS; ++y)
        image.data.insert(image.data.end(), row.data.begin(), row.data.end());
    for (auto algorithm : ALGORITHMS) {
        auto options = with(CUS_MATCH_SQDIFF, algorithm, 1024, DISTANCE);
        options.subpixel = 1;
        const auto outcome = run(image, templ, CUS_DEVICE, options);
        ASSERT_EQ(outcome.matches.size(), 1024u);
        const int cols = COLS - 10;
        for (size_t i = 0; i < outcome.matches.size(); ++i) {
            const cusMatch &match = outcome.matches[i];
            const auto gone = [&](int x) {
                return std::any_of(
                    outcome.matches.begin(), outcome.matches.begin() + static_cast<long>(i),
                    [&](const cusMatch &m) { return std::abs(m.x - x) < DISTANCE && std::abs(m.y - match.y) < DISTANCE; });
            };
            double expected = 0;
            if (match.x > 0 && match.x + 1 < cols && !gone(match.x - 1) && !gone(match.x + 1)) {
                const float *at = &outcome.map[static_cast<size_t>(match.y * cols + match.x)];
                const double curvature = static_cast<double>(at[-1]) - 2.0 * at[0] + at[1];
                expected = 0.5 * (static_cast<double>(at[-1]) - at[1]) / curvature;
                expected = std::fabs(expected) <= 0.5 ? expected : 0;
            }
            ASSERT_NEAR(match.dx, expected, 1e-2) << i << " at " << match.x << " " << match.y;
        }
    }
}

// Frames just within and beyond the longest transform of a block, correlated in pieces; templates longer than half of it, window by
// window.
TEST_F(MatchWorstCuda, LongFrames) {
    struct Shape {
        int rows, cols, h, w;
    };
    std::vector<uint8_t> mask;
    for (int i = 0; i < 20 * 2500; ++i)
        mask.push_back(random() % 4 ? 255 : 0);
    for (const Shape &s :
         {Shape{12, 3840, 4, 30}, Shape{12, 3841, 4, 30}, Shape{5, 9000, 3, 60}, Shape{3841, 12, 30, 4},
          Shape{9000, 7, 60, 3}, Shape{6, 4500, 3, 2300}, Shape{4500, 6, 2300, 3}, Shape{2, 8100, 1, 3900}})
        for (int channels : {1, 3})
            for (int matches : {1, 8}) {
                const bool heavy = s.h * s.w > 3000; // for brute force
                if ((heavy || channels == 3) && (matches == 1 || (heavy && channels == 3)))
                    continue;
                const auto templ = picture<uint8_t>(s.h, s.w, channels, random);
                const auto partly = half(s.rows, s.cols, channels, 200, random);
                const auto one = flat<uint8_t>(s.rows, s.cols, channels, 9);
                for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR, CUS_MATCH_CCOEFF_NORMED}) {
                    if (heavy && method != CUS_MATCH_SQDIFF)
                        continue;
                    compare(one, templ, CUS_DEVICE, with(method, CUS_MATCH_FFT, matches, 6));
                    compare(partly, templ, CUS_DEVICE, with(method, CUS_MATCH_FFT, matches, 6));
                    compare(picture<uint8_t>(s.rows, s.cols, channels, random), templ, CUS_DEVICE,
                            with(method, CUS_MATCH_FFT, matches, 6));
                }
                compare(partly, templ, CUS_DEVICE, with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, matches, 6), mask.data());
                compare(one, templ, CUS_DEVICE, with(CUS_MATCH_CCORR, CUS_MATCH_FFT, matches, 6), mask.data());
            }
}

// The same of floats: integers and fractions.
TEST_F(MatchWorstCuda, LongFramesOfFloats) {
    struct Shape {
        int rows, cols, h, w;
    };
    for (const Shape &s : {Shape{12, 3841, 4, 30}, Shape{3841, 12, 30, 4}, Shape{6, 4500, 3, 2300}})
        for (const float scale : {1.0f, 0.3f})
            for (int matches : {1, 5}) {
                if (s.w > 2000 && matches == 1) // much for brute force
                    continue;
                const auto floats = [&](const Image<uint8_t> &bytes) {
                    Image<float> image{bytes.rows, bytes.cols, 1, {}};
                    for (const uint8_t v : bytes.data)
                        image.data.push_back(scale * v);
                    return image;
                };
                const auto templ = floats(picture<uint8_t>(s.h, s.w, 1, random));
                compare(floats(half(s.rows, s.cols, 1, 200, random)), templ, CUS_DEVICE,
                        with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, matches, 6));
                compare(floats(stripes(s.rows, s.cols, 1, 16)), templ, CUS_DEVICE,
                        with(CUS_MATCH_CCORR, CUS_MATCH_FFT, matches, 6));
            }
}

TEST_F(MatchWorstCuda, SomeTemplatesOfSeveral) {
    const auto image = half(120, 160, 1, 20, random);
    Pixels<uint8_t> frame(image, CUS_DEVICE);
    const std::vector<Image<uint8_t>> templates = {cut(image, 40, 100, 30, 40), flat<uint8_t>(30, 40, 1, 20),
                                                   cut(image, 70, 110, 30, 40), flat<uint8_t>(30, 40, 1, 0)};
    std::vector<std::unique_ptr<Pixels<uint8_t>>> pixels;
    std::vector<cusMat> mats;
    for (const auto &templ : templates) {
        pixels.push_back(std::make_unique<Pixels<uint8_t>>(templ, CUS_DEVICE));
        mats.push_back(pixels.back()->mat);
    }
    for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR})
        for (auto algorithm : ALGORITHMS) {
            const auto options = with(method, algorithm, 6, 5);
            Matcher matcher;
            CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats.data(), 4, 120, 160, &options, nullptr));
            for (int again = 0; again < 3; ++again)
                CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
            for (int k = 0; k < 4; ++k) {
                const auto expected = reference::best(reference::scoreMap(image, templates[static_cast<size_t>(k)],
                                                                          static_cast<const uint8_t *>(nullptr), method),
                                                      121, method, 6, 5);
                SCOPED_TRACE(k);
                expectSame(matchesOf(matcher, k, 6), expected);
            }
        }
}

// One graph, replayed while the frame's contents alternate, gives what plain calls give.
TEST_F(MatchWorstCuda, Graph) {
    const auto natural = picture<uint8_t>(200, 230, 1, random), templ = cut(natural, 60, 70, 50, 60);
    const std::vector<Image<uint8_t>> contents = {natural, flat<uint8_t>(200, 230, 1, 0), half(200, 230, 1, 0, random),
                                                  stripes(200, 230, 1, 4)};
    for (int count : {1, 7}) {
        const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_FFT, count, 10);
        Pixels<uint8_t> frame(natural, CUS_DEVICE), pattern(templ, CUS_DEVICE);
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, &pattern.mat, 1, 200, 230, &options, nullptr));
        cudaStream_t stream = nullptr;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        CUS_EXPECT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, stream));
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        std::vector<std::vector<cusMatch>> expected;
        for (const auto &image : contents)
            expected.push_back(run(image, templ, CUS_DEVICE, options).matches);
        for (size_t round = 0; round < 200; ++round) {
            const size_t i = random() % contents.size();
            frame.set(contents[i].data.data());
            ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
            SCOPED_TRACE(i);
            expectSame(matchesOf(matcher, 0, count, stream), expected[i]);
        }
        EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
}

TEST_F(MatchWorstCuda, Masks) {
    std::vector<uint8_t> mask;
    for (int i = 0; i < 25 * 37; ++i)
        mask.push_back(random() % 4 ? 255 : 0);
    for (int channels : {1, 3})
        for (auto method : METHODS)
            for (auto algorithm : ALGORITHMS)
                for (int matches : {1, 5}) {
                    const auto natural = picture<uint8_t>(25, 37, channels, random);
                    compare(flat<uint8_t>(110, 140, channels, 0), natural, CUS_DEVICE, with(method, algorithm, matches, 6),
                            mask.data());
                    compare(half(110, 140, channels, 255, random), natural, CUS_DEVICE, with(method, algorithm, matches, 6),
                            mask.data());
                    compare(stripes(110, 140, channels, 8), stripes(25, 37, channels, 8), CUS_DEVICE,
                            with(method, algorithm, matches, 6), mask.data());
                }
}

// Columns more than 2^31 bytes into a row, for templates that tensor cores match in both ways. The frame is black but for one copy.
TEST_F(MatchWorstCuda, RowsPast2GiB) {
    constexpr int ROWS = 5, COLS = 850'000'000, X = 849'990'001;
    cusDeviceInfo info;
    CUS_ASSERT_OK(cusDeviceQuery(0, &info));
    if (info.memory_free < (size_t{30} << 30))
        GTEST_SKIP() << "less than 30 GiB of device memory free";
    for (const int w : {48, 128}) {
        const auto templ = picture<uint8_t>(ROWS, w, 3, random);
        const Pixels<uint8_t> pattern(templ, CUS_DEVICE);
        support::Mat frame;
        Matcher matcher;
        cusMat copy = CUS_MAT_INIT, host = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatCreate(&frame, ROWS, COLS, CUS_8UC3, CUS_DEVICE));
        CUS_ASSERT_OK(cusMatSetZero(&frame, nullptr));
        CUS_ASSERT_OK(cusMatRegion(&frame, X, 0, w, ROWS, &copy));
        CUS_ASSERT_OK(cusMatWrap(&host, ROWS, w, CUS_8UC3, CUS_HOST, const_cast<uint8_t *>(templ.data.data()), 0));
        CUS_ASSERT_OK(cusMatUpload(&host, &copy, nullptr));
        const auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 1, 1);
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, &pattern.mat, 1, ROWS, COLS, &options, nullptr));
        CUS_ASSERT_OK(cusMatcherRun(matcher, &frame, nullptr, nullptr));
        const auto matches = matchesOf(matcher, 0, 1);
        ASSERT_EQ(matches.size(), 1u);
        expectCopyAt(matches[0], X, 0);
    }
}

} // namespace

#endif
