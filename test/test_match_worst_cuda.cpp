// The device's search where very many positions may be the best: exact correlations everywhere, in any mixture with the usual
// search, and in a CUDA graph. test_match_worst.cpp compares such contents on both backends.
#include "match_support.hpp"

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

TEST_F(MatchWorstCuda, Masks) {
    std::vector<uint8_t> mask;
    for (int i = 0; i < 25 * 37; ++i)
        mask.push_back(random() % 4 ? 255 : 0);
    for (int channels : {1, 3})
        for (auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR})
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

// Copies far apart and close together, of which one turn of the search may decide several; with more matches than copies, and more
// than its list holds at a time.
TEST_F(MatchWorstCuda, SeveralMatchesATurn) {
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
            CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, mats.data(), 4, 120, 160, &options, nullptr));
            for (int again = 0; again < 3; ++again)
                CUS_ASSERT_OK(cusMatcherRun(matcher.object, &frame.mat, nullptr, nullptr));
            for (int k = 0; k < 4; ++k) {
                const auto expected = reference::best(reference::scoreMap(image, templates[static_cast<size_t>(k)],
                                                                          static_cast<const uint8_t *>(nullptr), method),
                                                      121, method, 6, 5);
                cusMatch matches[6];
                int found = 0;
                CUS_ASSERT_OK(cusMatcherGet(matcher.object, k, matches, 6, &found, nullptr));
                ASSERT_EQ(static_cast<size_t>(found), expected.size());
                for (int i = 0; i < found; ++i) {
                    EXPECT_EQ(matches[i].x, expected[static_cast<size_t>(i)].x) << k << " " << i;
                    EXPECT_EQ(matches[i].y, expected[static_cast<size_t>(i)].y) << k << " " << i;
                    EXPECT_EQ(matches[i].score, expected[static_cast<size_t>(i)].score) << k << " " << i;
                }
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
        CUS_ASSERT_OK(cusMatcherCreate(&matcher.object, &pattern.mat, 1, 200, 230, &options, nullptr));
        cudaStream_t stream = nullptr;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        CUS_EXPECT_OK(cusMatcherRun(matcher.object, &frame.mat, nullptr, stream));
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        std::vector<std::vector<cusMatch>> expected;
        for (const auto &image : contents)
            expected.push_back(run(image, templ, CUS_DEVICE, options).matches);
        for (size_t round = 0; round < 200; ++round) {
            const size_t i = random() % contents.size();
            frame.set(contents[i].data.data());
            ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
            std::vector<cusMatch> matches(static_cast<size_t>(count));
            int found = 0;
            CUS_ASSERT_OK(cusMatcherGet(matcher.object, 0, matches.data(), count, &found, stream));
            ASSERT_EQ(static_cast<size_t>(found), expected[i].size());
            for (size_t k = 0; k < expected[i].size(); ++k) {
                ASSERT_EQ(matches[k].x, expected[i][k].x) << i << " " << k;
                ASSERT_EQ(matches[k].y, expected[i][k].y) << i << " " << k;
                ASSERT_EQ(matches[k].score, expected[i][k].score) << i << " " << k;
            }
        }
        EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
}

} // namespace

#endif
