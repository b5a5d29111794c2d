// Several frames in one call, each with its own template or with one for all.
#include "match/support.hpp"

namespace {

using namespace match_test;

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
                templates.push_back(cut(from, 7 + i, 11 + 2 * i, 12, 10));
            memory.push_back(
                std::make_unique<Pixels<T>>(images.back(), space, support::Layout{static_cast<size_t>(i) * 4, size_t{0}}));
            frames.push_back(memory.back()->mat);
        }
        for (const auto &templ : templates) {
            memory.push_back(std::make_unique<Pixels<T>>(templ, space));
            patterns.push_back(memory.back()->mat);
        }
    }
};

template<class T>
void compareBatch(int channels, bool own, cusSpace space, cusMatcherOptions options, std::mt19937_64 &random,
                  const uint8_t *mask = nullptr) {
    SCOPED_TRACE(testing::Message() << channels << " channels, method " << options.method << " algorithm "
                                    << options.algorithm << (own ? ", own templates" : "") << (mask ? ", mask" : ""));
    constexpr int COUNT = 5;
    const Frames<T> batch(COUNT, channels, space, own, random);
    std::vector<Outcome> expected;
    for (int i = 0; i < COUNT; ++i)
        expected.push_back(run(batch.images[static_cast<size_t>(i)], batch.templates[own ? static_cast<size_t>(i) : 0],
                               space, options, mask));
    support::TestMat kept(12, 10, CUS_8UC1, space);
    if (mask) {
        kept.set(mask);
        options.mask = &kept.mat;
    }
    options.batch = COUNT;
    Matcher matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, batch.patterns.data(), own ? COUNT : 1, 48, 61, &options, nullptr));
    cusMat maps[COUNT] = {CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT};
    for (const bool with_maps : {false, true}) {
        CUS_ASSERT_OK(cusMatcherRun(matcher, batch.frames.data(), with_maps ? maps : nullptr, nullptr));
        for (int i = 0; i < COUNT; ++i)
            expectSame(matchesOf(matcher, i, options.max_matches), expected[static_cast<size_t>(i)].matches);
    }
    cusMat view = CUS_MAT_INIT;
    CUS_EXPECT_OK(cusMatcherResults(matcher, &view));
    EXPECT_EQ(view.rows, COUNT);
    for (cusMat &map : maps) {
        EXPECT_EQ(map.rows, 37);
        EXPECT_EQ(map.cols, 52);
        cusMatRelease(&map);
    }
}

TEST_P(MatchBatch, IsOneFrameAfterTheOther) {
    auto random = support::generator();
    std::vector<uint8_t> mask;
    for (int i = 0; i < 120; ++i)
        mask.push_back(random() % 3 ? 1 : 0);
    for (const bool own : {false, true})
        for (const auto algorithm : ALGORITHMS)
            for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF_NORMED}) {
                for (const int channels : {1, 3}) {
                    compareBatch<uint8_t>(channels, own, space(), with(method, algorithm), random);
                    compareBatch<uint8_t>(channels, own, space(), with(method, algorithm, 3, 4), random, mask.data());
                }
                compareBatch<float>(1, own, space(), with(method, algorithm, 2, 2), random);
            }
}

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
    for (const int wrong : {0, -1, 1025}) {
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
