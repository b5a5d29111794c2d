// Several frames in one call, each with its own template or with one for all.
#include "match/support.hpp"

#include <deque>

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime.h>
#endif

namespace {

using namespace match_test;

const cusMat NO_MAT = CUS_MAT_INIT;

class MatchBatch : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchBatch);

template<class T>
struct Frames {
    std::vector<Image<T>> images, templates;
    std::vector<std::unique_ptr<Pixels<T>>> memory;
    std::vector<cusMat> frames, patterns;

    Frames(int count, int channels, cusSpace space, bool own, std::mt19937_64 &random) {
        for (int i = 0; i < count; ++i) {
            images.push_back(picture<T>(48, 61, channels, random));
            const auto &from = own ? images.back() : images[0];
            if (own || i == 0)
                templates.push_back(cut(from, 7 + i % 25, 11 + 2 * i % 40, 12, 10));
            const size_t unit = 4 * static_cast<size_t>(i);
            memory.push_back(std::make_unique<Pixels<T>>(images.back(), space, support::Layout{unit, 3 * unit}));
            frames.push_back(memory.back()->mat);
        }
        for (const auto &templ : templates) {
            memory.push_back(std::make_unique<Pixels<T>>(templ, space));
            patterns.push_back(memory.back()->mat);
        }
    }
};

// Runs frames in one call, with maps and without, and one by one: the matches are the same to the last bit. patterns: one
// for all frames, or one for each. period: frames and patterns repeat after so many. others: further matches one by one.
void compareWithOneByOne(const std::vector<cusMat> &frames, const std::vector<cusMat> &patterns, cusMatcherOptions options,
                         size_t period = SIZE_MAX, int others = 0) {
    const size_t count = frames.size(), most = static_cast<size_t>(options.max_matches);
    SCOPED_TRACE(testing::Message() << count << " frames, " << patterns.size() << " templates, method " << options.method
                                    << " algorithm " << options.algorithm << " matches " << most);
    const int rows = frames[0].rows, cols = frames[0].cols;
    std::vector<std::vector<cusMatch>> expected;
    std::vector<std::vector<float>> expected_maps;
    cusMatcherOptions one = options;
    one.max_matches += others;
    for (size_t i = 0; i < std::min(count, period); ++i) {
        Matcher alone;
        support::Mat map;
        const cusMat &pattern = patterns[patterns.size() > 1 ? i : 0];
        CUS_ASSERT_OK(cusMatcherCreate(&alone, &pattern, 1, rows, cols, &one, nullptr));
        CUS_ASSERT_OK(cusMatcherRun(alone, &frames[i], &map, nullptr));
        expected.push_back(matchesOf(alone, 0, one.max_matches));
        expected.back().resize(std::min(expected.back().size(), most));
        expected_maps.push_back(support::elements<float>(map));
    }
    options.batch = static_cast<int>(count);
    Matcher matcher;
    CUS_ASSERT_OK(
        cusMatcherCreate(&matcher, patterns.data(), static_cast<int>(patterns.size()), rows, cols, &options, nullptr));
    std::vector<cusMat> maps(count, NO_MAT);
    for (const bool with_maps : {false, true, false}) {
        CUS_ASSERT_OK(cusMatcherRun(matcher, frames.data(), with_maps ? maps.data() : nullptr, nullptr));
        for (size_t i = 0; i < count; ++i) {
            const auto matches = matchesOf(matcher, static_cast<int>(i), options.max_matches);
            ASSERT_EQ(matches.size(), expected[i % period].size()) << "frame " << i;
            ASSERT_EQ(std::memcmp(matches.data(), expected[i % period].data(), matches.size() * sizeof(cusMatch)), 0)
                << "frame " << i;
        }
    }
    const bool exact = cusMatcherAlgorithm(matcher) == CUS_MATCH_DIRECT; // transforms depend on the mean of all templates
    for (size_t i = 0; i < count; ++i) {
        const auto map = support::elements<float>(maps[i]), &alone = expected_maps[i % period];
        ASSERT_EQ(map.size(), alone.size());
        const float tolerance = exact ? 0 : 1e-4f * (1 + std::fabs(*std::max_element(alone.begin(), alone.end())));
        for (size_t at = 0; at < map.size(); ++at)
            ASSERT_NEAR(map[at], alone[at], tolerance) << "frame " << i << " position " << at;
        cusMatRelease(&maps[i]);
    }
    cusMat view = CUS_MAT_INIT;
    CUS_EXPECT_OK(cusMatcherResults(matcher, &view));
    EXPECT_EQ(view.rows, options.batch);
}

std::vector<uint8_t> holes(size_t n, std::mt19937_64 &random) {
    std::vector<uint8_t> mask;
    for (size_t i = 0; i < n; ++i)
        mask.push_back(random() % 3 ? 1 : 0);
    return mask;
}

TEST_P(MatchBatch, EqualsOneByOne) {
    auto random = support::generator();
    support::TestMat mask(12, 10, CUS_8UC1, space(), {}, holes(120, random).data());
    for (const bool own : {false, true})
        for (const auto method : METHODS)
            for (const int channels : {1, 3}) {
                const Frames<uint8_t> batch(5, channels, space(), own, random);
                for (const auto algorithm : ALGORITHMS)
                    for (const bool masked : {false, true}) {
                        auto options = with(method, algorithm, masked == own ? 3 : 1, 4);
                        options.mask = masked ? &mask.mat : nullptr;
                        options.subpixel = channels == 3;
                        compareWithOneByOne(batch.frames, batch.patterns, options);
                    }
            }
    for (const bool own : {false, true}) {
        const Frames<float> batch(3, 1, space(), own, random);
        for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF_NORMED})
            compareWithOneByOne(batch.frames, batch.patterns, with(method, CUS_MATCH_AUTO, 2, 2));
    }
}

// Boxes around tracked objects are regions of one picture that overlap, at any alignment, one or 1,024 of them.
TEST_P(MatchBatch, Boxes) {
    auto random = support::generator();
    const auto image = picture<uint8_t>(300, 411, 1, random);
    Pixels<uint8_t> whole(image, space(), {5, 3});
    for (const int count : {1, 32, 128, 129, 1024}) {
        std::vector<cusMat> boxes(static_cast<size_t>(count), NO_MAT), patterns = boxes;
        for (size_t i = 0; i < boxes.size(); ++i) {
            const int x = static_cast<int>(random() % 320), y = static_cast<int>(random() % 240);
            const int inside_x = static_cast<int>(random() % 80), inside_y = static_cast<int>(random() % 50);
            CUS_ASSERT_OK(cusMatRegion(&whole.mat, x, y, 91, 60, &boxes[i]));
            CUS_ASSERT_OK(cusMatRegion(&boxes[i], inside_x, inside_y, 11, 9, &patterns[i]));
        }
        auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, count == 129 ? 4 : 1, 6);
        compareWithOneByOne(boxes, patterns, options);
        options.method = CUS_MATCH_CCOEFF_NORMED;
        options.batch = count;
        Matcher matcher;
        CUS_ASSERT_OK(cusMatcherCreate(&matcher, patterns.data(), count, 60, 91, &options, nullptr));
        CUS_ASSERT_OK(cusMatcherRun(matcher, boxes.data(), nullptr, nullptr));
        for (int i = 0; i < count; ++i) {
            const auto best = matchesOf(matcher, i, options.max_matches);
            ASSERT_GE(best.size(), 1u);
            EXPECT_EQ(best[0].score, 1) << "each box holds its template";
        }
    }
}

// Frames whose maps make enough tiles together for wgmma on the device, as in MatchDirect.LargeTemplatesInBatches. One by
// one there is a second match, so that mma.sync multiplies.
TEST_P(MatchBatch, LargeTemplates) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "both are the same on the host";
    auto random = support::generator();
    constexpr int ROWS = 35, COLS = 115, KINDS = 4;
    const std::pair<int, int> sizes[] = {{64, 64}, {33, 50}, {100, 100}, {128, 128}, {128, 37}, {19, 125}};
    for (const auto &[w, h] : sizes) {
        std::deque<Pixels<uint8_t>> memory;
        for (int kind = 0; kind < KINDS; ++kind) { // natural, saturated, white, one color but for a pixel
            auto image = picture<uint8_t>(ROWS + h - 1, COLS + w - 1, 1, random);
            for (auto &v : image.data)
                v = kind == 0 ? v : kind == 1 ? (v < 128 ? 0 : 255) : kind == 2 ? 255 : 100;
            if (kind == 3)
                image.data[image.data.size() / 2] = 101;
            const size_t odd = static_cast<size_t>(kind);
            memory.emplace_back(image, space(), support::Layout{13 * odd, odd});
            memory.emplace_back(cut(image, 5 + 9 * kind, 77 - 20 * kind, h, w), space());
        }
        support::TestMat mask(h, w, CUS_8UC1, space(), {},
                              holes(static_cast<size_t>(w) * static_cast<size_t>(h), random).data());
        for (const bool own : {false, true})
            for (const bool masked : {false, true})
                for (const auto method : METHODS) {
                    std::vector<cusMat> frames, patterns;
                    for (size_t i = 0; i < 128; ++i) {
                        frames.push_back(memory[i % KINDS * 2].mat);
                        if (own || i == 0)
                            patterns.push_back(memory[i % KINDS * 2 + 1].mat);
                    }
                    auto options = with(method, CUS_MATCH_DIRECT);
                    options.mask = masked ? &mask.mat : nullptr;
                    compareWithOneByOne(frames, patterns, options, KINDS, 1);
                }
    }
}

// The costs of 48 such frames are too large for one launch.
TEST_P(MatchBatch, LargeFrames) {
    if (space() == CUS_HOST)
        GTEST_SKIP() << "launches are the device's";
    auto random = support::generator();
    const auto image = picture<uint8_t>(1348, 1346, 1, random);
    Pixels<uint8_t> whole(image, space()), pattern(cut(image, 650, 660, 24, 20), space());
    std::vector<cusMat> frames(48, NO_MAT);
    for (size_t i = 0; i < frames.size(); ++i)
        CUS_ASSERT_OK(cusMatRegion(&whole.mat, static_cast<int>(i), static_cast<int>(47 - i), 1299, 1301, &frames[i]));
    compareWithOneByOne(frames, {pattern.mat}, with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, 2, 5));
}

#ifdef CUSIGHT_HAVE_CUDA
// Captures a run, and returns the number of its operations; `replay` becomes the graph.
size_t capture(cusMatcher *matcher, const std::vector<cusMat> &frames, cudaStream_t stream, cudaGraphExec_t *replay) {
    cudaGraph_t graph = nullptr;
    size_t nodes = 0;
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CUS_EXPECT_OK(cusMatcherRun(matcher, frames.data(), nullptr, stream));
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(replay, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return nodes;
}

// Templates that wgmma takes on 9.0.
TEST(MatchBatchCuda, OneLaunchOfLargeTemplates) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    const auto image = picture<uint8_t>(200, 260, 1, random);
    const Pixels<uint8_t> frame(image, CUS_DEVICE), templ(cut(image, 7, 9, 64, 64), CUS_DEVICE);
    const std::vector<cusMat> frames(32, frame.mat);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (const auto method : METHODS) {
        auto options = with(method, CUS_MATCH_DIRECT, 1, 4);
        options.batch = 32;
        Matcher all;
        CUS_ASSERT_OK(cusMatcherCreate(&all, &templ.mat, 1, 200, 260, &options, nullptr));
        cudaGraphExec_t replay = nullptr;
        EXPECT_EQ(capture(all, frames, stream, &replay), 1u);
        EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// A run of 32 frames queues as many kernels as one of a frame, also in a captured graph, whose replays see new pixels.
TEST(MatchBatchCuda, LaunchesDoNotGrow) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    support::TestMat mask(12, 10, CUS_8UC1, CUS_DEVICE, {}, holes(120, random).data());
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (const bool own : {false, true})
        for (const bool masked : {false, true})
            for (const auto method : METHODS)
                for (const int matches : {1, 5}) {
                    Frames<uint8_t> batch(32, 1, CUS_DEVICE, own, random);
                    auto options = with(method, CUS_MATCH_DIRECT, matches, 4);
                    options.mask = masked ? &mask.mat : nullptr;
                    Matcher one, all;
                    CUS_ASSERT_OK(cusMatcherCreate(&one, batch.patterns.data(), 1, 48, 61, &options, nullptr));
                    options.batch = 32;
                    CUS_ASSERT_OK(cusMatcherCreate(&all, batch.patterns.data(), own ? 32 : 1, 48, 61, &options, nullptr));
                    cudaGraphExec_t graph_of_one = nullptr, replay = nullptr;
                    const size_t launches = capture(one, batch.frames, stream, &graph_of_one);
                    EXPECT_EQ(launches, matches > 1 ? 2u : 1u);
                    EXPECT_EQ(capture(all, batch.frames, stream, &replay), launches);
                    for (const int round : {0, 1}) {
                        std::vector<std::vector<cusMatch>> expected;
                        CUS_ASSERT_OK(cusMatcherRun(all, batch.frames.data(), nullptr, nullptr));
                        for (int i = 0; i < 32; ++i)
                            expected.push_back(matchesOf(all, i, matches));
                        ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
                        for (int i = 0; i < 32; ++i)
                            expectSame(matchesOf(all, i, matches, stream), expected[static_cast<size_t>(i)]);
                        for (size_t i = 0; i < 32 && round == 0; ++i)
                            batch.memory[i]->set(picture<uint8_t>(48, 61, 1, random).data.data());
                    }
                    EXPECT_EQ(cudaGraphExecDestroy(graph_of_one), cudaSuccess);
                    EXPECT_EQ(cudaGraphExecDestroy(replay), cudaSuccess);
                }
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}
#endif

TEST_P(MatchBatch, Inspection) {
    auto random = support::generator();
    const Frames<uint8_t> batch(4, 3, space(), true, random);
    cusMatcherOptions options = with(CUS_MATCH_SQDIFF, CUS_MATCH_AUTO, 2, 9);
    options.batch = 4;
    const cusHsvRange range = {{0, 40, 60}, {90, 255, 255}};
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, batch.patterns.data(), 4, 48, 61, &options, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, batch.frames.data(), nullptr, nullptr));
    CUS_ASSERT_OK(cusMatcherInspect(matcher, batch.frames.data(), &range, 0.4, nullptr));
    for (int i = 0; i < 4; ++i) {
        const auto &image = batch.images[static_cast<size_t>(i)];
        const auto matches = matchesOf(matcher, i, 2);
        ASSERT_EQ(matches.size(), 2u);
        for (const auto &match : matches) {
            uint32_t pixels = 0;
            for (int y = 0; y < 12; ++y)
                for (int x = 0; x < 10; ++x) {
                    const auto hsv =
                        reference::hsv(image.at(match.y + y, match.x + x, 0), image.at(match.y + y, match.x + x, 1),
                                       image.at(match.y + y, match.x + x, 2));
                    pixels += reference::inRange(hsv, range);
                }
            EXPECT_EQ(match.pixels, pixels);
            EXPECT_EQ(match.filled, pixels >= 0.4 * 120);
        }
    }
}

TEST_P(MatchBatch, Rejects) {
    auto random = support::generator();
    Frames<uint8_t> batch(3, 1, space(), true, random);
    Matcher matcher;
    cusMatcherOptions options = cusMatcherDefaults();
    options.batch = 4;
    CUS_REJECTS(cusMatcherCreate(&matcher, batch.patterns.data(), 3, 48, 61, &options, nullptr), VALUE,
                "count is 3, expected 1 or 4, a template for each frame of a batch");
    for (const int wrong : {-1, 1025}) {
        options.batch = wrong;
        CUS_REJECTS(cusMatcherCreate(&matcher, batch.patterns.data(), 1, 48, 61, &options, nullptr), VALUE,
                    "expected 1..1024");
    }
    options.batch = 3;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, batch.patterns.data(), 3, 48, 61, &options, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, batch.frames.data(), nullptr, nullptr));
    const auto before = matchesOf(matcher, 2, 1);
    cusMat frames[] = {batch.frames[0], batch.frames[1], batch.frames[2]};
    --frames[2].rows;
    CUS_REJECTS(cusMatcherRun(matcher, frames, nullptr, nullptr), SIZE,
                "frame[2] is 47 x 61 (rows x cols), expected 48 x 61");
    expectSame(matchesOf(matcher, 2, 1), before);
    std::vector<cusMatch> matches(1);
    int found = 0;
    CUS_REJECTS(cusMatcherGet(matcher, 3, matches.data(), 1, &found, nullptr), VALUE, "index is 3, expected 0..2");
}

} // namespace
