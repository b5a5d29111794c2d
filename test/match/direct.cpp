// Direct matching of bytes: sizes around the device's tiles, pieces of large templates, several templates, sums beyond 32 bits.
#include "support.hpp"

#include <deque>

using namespace match_test;

namespace {

class MatchDirect : public support::SpaceTest {};
CUS_BOTH_SPACES(MatchDirect);

// SQDIFF by brute force, in integers.
std::vector<uint64_t> squaredDifferences(const Image<uint8_t> &image, const Image<uint8_t> &templ) {
    const size_t cn = static_cast<size_t>(image.channels), row = static_cast<size_t>(templ.cols) * cn;
    std::vector<uint64_t> map;
    for (int y = 0; y + templ.rows <= image.rows; ++y)
        for (int x = 0; x + templ.cols <= image.cols; ++x) {
            uint64_t sum = 0;
            for (int j = 0; j < templ.rows; ++j) {
                const uint8_t *a =
                    &image.data[(static_cast<size_t>(y + j) * static_cast<size_t>(image.cols) + static_cast<size_t>(x)) *
                                cn];
                const uint8_t *b = &templ.data[static_cast<size_t>(j) * row];
                uint32_t of_row = 0; // at most 2000 bytes
                for (size_t i = 0; i < row; ++i) {
                    const int difference = a[i] - b[i];
                    of_row += static_cast<uint32_t>(difference * difference);
                }
                sum += of_row;
            }
            map.push_back(sum);
        }
    return map;
}

// The score map, to the last bit, and the best match.
void compareExactly(const Image<uint8_t> &image, const Image<uint8_t> &templ, cusSpace space, support::Layout layout = {}) {
    SCOPED_TRACE(testing::Message() << image.cols << "x" << image.rows << " channels " << image.channels << " template "
                                    << templ.cols << "x" << templ.rows << " offset " << layout.offset);
    const auto map = squaredDifferences(image, templ);
    const auto outcome = run(image, templ, space, with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT), nullptr, layout);
    ASSERT_EQ(outcome.map.size(), map.size());
    size_t wrong = 0;
    for (size_t i = 0; i < map.size(); ++i)
        wrong += outcome.map[i] != static_cast<float>(map[i]);
    EXPECT_EQ(wrong, 0u) << "of " << map.size() << " scores";
    const size_t best = static_cast<size_t>(std::min_element(map.begin(), map.end()) - map.begin());
    const size_t cols = static_cast<size_t>(image.cols - templ.cols) + 1;
    ASSERT_EQ(outcome.matches.size(), 1u);
    EXPECT_EQ(outcome.matches[0].score, static_cast<double>(map[best]));
    EXPECT_EQ(outcome.matches[0].x, static_cast<int>(best % cols));
    EXPECT_EQ(outcome.matches[0].y, static_cast<int>(best / cols));
}

int upTo(std::mt19937_64 &random, int most) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(most));
}

} // namespace

// Maps of 1 to 200 positions a side, which end anywhere in the device's tiles of 64 x 32, 48 and 64.
TEST_P(MatchDirect, MapsOfEverySize) {
    auto random = support::generator();
    for (int size = 1; size <= 200; ++size) {
        const int channels = size % 3 == 0 ? 2 + size % 4 % 3 : 1, w = upTo(random, 24), h = upTo(random, 24);
        const int other = upTo(random, 200);
        compareExactly(picture<uint8_t>(h + other - 1, w + size - 1, channels, random),
                       picture<uint8_t>(h, w, channels, random), space());
        compareExactly(picture<uint8_t>(h + size - 1, w + other - 1, channels, random),
                       picture<uint8_t>(h, w, channels, random), space());
    }
}

// Every template side; rows at odd bytes, with odd steps.
TEST_P(MatchDirect, TemplatesOfEverySize) {
    auto random = support::generator();
    for (int side = 1; side <= 130; ++side)
        for (const bool tall : {false, true}) {
            const int other = upTo(random, 130 - side / 2), w = tall ? other : side, h = tall ? side : other;
            const int channels = random() % 3 ? 1 : 2 + static_cast<int>(random() % 3);
            const support::Layout layout = {random() % 2 ? random() % 70 : 0, random() % 2 ? random() % 40 : 0};
            const int rows = h + upTo(random, 40), cols = w + upTo(random, 70);
            compareExactly(picture<uint8_t>(rows, cols, channels, random), picture<uint8_t>(h, w, channels, random),
                           space(), layout);
            if (side % 4 == 0)
                compareExactly(flat<uint8_t>(rows, cols, channels, 255), flat<uint8_t>(h, w, channels, side % 8 ? 255 : 0),
                               space(), layout);
        }
}

// Enough tiles for each of the device's shapes, at any address.
TEST_P(MatchDirect, LargeMaps) {
    auto random = support::generator();
    for (const auto &[cols, rows] : {std::pair{500, 300}, {700, 460}, {900, 800}, {1500, 1300}})
        for (const size_t offset : {0, 1, 19}) {
            const auto image = picture<uint8_t>(rows, cols, 1, random);
            compareExactly(image, cut(image, rows / 2, cols - 20, 9, 11), space(), {offset, offset});
        }
    const auto image = picture<uint8_t>(460, 700, 3, random);
    for (auto method : METHODS)
        compare(image, cut(image, 300, 650, 8, 10), space(), with(method, CUS_MATCH_DIRECT));
}

// Templates that the device cuts into pieces; sums of 255^2 that need more than 32 bits.
TEST_P(MatchDirect, PiecesAndSumsBeyond32Bits) {
    auto random = support::generator();
    for (const auto &[w, h] : {std::pair{300, 40}, {40, 300}, {120, 260}, {600, 3}, {3, 600}})
        for (const int channels : {1, 2, 3, 4})
            compareExactly(picture<uint8_t>(h + 30, w + 33, channels, random), picture<uint8_t>(h, w, channels, random),
                           space());
    for (const int channels : {1, 2, 3, 4}) {
        auto white = flat<uint8_t>(270, 280, channels, 255);
        white.data[static_cast<size_t>(265 * 280 + 278) * static_cast<size_t>(channels)] = 253;
        compareExactly(white, flat<uint8_t>(262, 260, channels, 0), space());
        auto pattern = flat<uint8_t>(262, 260, channels, 255);
        pattern.data[1] = 250;
        for (auto method : {CUS_MATCH_CCORR, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF, CUS_MATCH_CCOEFF_NORMED})
            compare(white, pattern, space(), with(method, CUS_MATCH_DIRECT));
    }
    std::vector<uint8_t> mask(static_cast<size_t>(300) * 70);
    for (auto &v : mask)
        v = random() % 4 ? 1 : 0;
    for (const int channels : {1, 2, 3, 4})
        for (auto method : METHODS)
            compare(picture<uint8_t>(80, 320, channels, random), picture<uint8_t>(70, 300, channels, random), space(),
                    with(method, CUS_MATCH_DIRECT, 3, 4), mask.data());
}

// Ties within and between the device's tiles, neighborhoods of several tiles and of the whole map, and fewer peaks than are
// asked for; by FFT, too, whose further matches a cluster of blocks finds as well.
TEST_P(MatchDirect, FurtherMatches) {
    auto random = support::generator();
    for (const auto &[cols, rows] : {std::pair{1, 1}, {5, 90}, {64, 32}, {65, 49}, {130, 97}, {577, 70}})
        for (const int distance : {1, 9, 64, 150, std::numeric_limits<int>::max()})
            for (const int matches : {2, 12}) {
                const auto natural = picture<uint8_t>(rows + 2, cols + 3, 1, random), templ = cut(natural, 0, 0, 3, 4);
                auto few = natural, ties = natural; // two gray levels; columns and rows that repeat
                for (size_t i = 0; i < few.data.size(); ++i) {
                    few.data[i] = random() % 9 ? 10 : 11;
                    ties.data[i] = natural.data[i % 12];
                }
                for (const auto &image : {natural, few, ties})
                    for (const auto method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCOEFF})
                        for (const auto algorithm : ALGORITHMS)
                            compare(image, templ, space(), with(method, algorithm, matches, distance));
            }
}

// Templates share the image in shared memory, or, in pieces, load it again.
TEST_P(MatchDirect, SeveralTemplates) {
    auto random = support::generator();
    for (const auto &[w, h] : {std::pair{20, 30}, {90, 280 / support::fewer()}})
        for (const int channels : {1, 2, 3, 4})
            for (auto method : METHODS) {
                const auto image = picture<uint8_t>(h + 90, w + 150, channels, random);
                std::vector<Image<uint8_t>> templates;
                std::deque<Pixels<uint8_t>> device;
                std::vector<cusMat> mats;
                for (int k = 0; k < 4; ++k) {
                    templates.push_back(cut(image, 17 * k, 31 * k, h, w));
                    for (auto &v : templates.back().data)
                        v = static_cast<uint8_t>(v ^ (random() % 4));
                    mats.push_back(device.emplace_back(templates.back(), space()).mat);
                }
                Pixels<uint8_t> frame(image, space());
                const auto options = with(method, CUS_MATCH_DIRECT, 2, 8);
                Matcher matcher;
                CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats.data(), 4, image.rows, image.cols, &options, nullptr));
                for (int again = 0; again < 2; ++again)
                    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
                for (int k = 0; k < 4; ++k) {
                    SCOPED_TRACE(testing::Message() << "template " << k << " of " << w << "x" << h << " method " << method);
                    const auto matches = matchesOf(matcher, k, 2);
                    expectSame(matches, run(image, templates[static_cast<size_t>(k)], space(), options).matches);
                    if (method == CUS_MATCH_SQDIFF || method == CUS_MATCH_CCOEFF_NORMED) {
                        EXPECT_EQ(matches[0].x, 31 * k);
                        EXPECT_EQ(matches[0].y, 17 * k);
                    }
                }
            }
}

// Edges of the tiles of wgmma (64, 128, 256 and 512 x 32 positions), of its chunks of 16 bytes and slabs of eight rows.
TEST_P(MatchDirect, EdgesOfTiles) {
    auto random = support::generator();
    for (const int cols : {1, 63, 64, 65, 127, 129, 255, 256, 257, 513})
        for (const int rows : {1, 31, 32, 33, 64, 65}) {
            const int channels = random() % 3 ? 1 : 3, w = upTo(random, channels == 1 ? 32 : 10), h = upTo(random, 32);
            const support::Layout layout = {random() % 2 ? random() % 70 : 0, random() % 2 ? random() % 40 : 0};
            compareExactly(picture<uint8_t>(rows + h - 1, cols + w - 1, channels, random),
                           picture<uint8_t>(h, w, channels, random), space(), layout);
        }
    for (const int w : {1, 2, 16, 17, 18, 32})
        for (const int h : {1, 5, 6, 13, 14, 29, 30})
            for (const uint8_t pixel : {0, 255}) {
                auto image = picture<uint8_t>(h + 40, w + 80, 1, random);
                for (auto &v : image.data)
                    v = random() % 2 ? 255 : 0;
                compareExactly(image, flat<uint8_t>(h, w, 1, pixel), space());
            }
}

// Maps that take tiles of 288 x 32 positions by wgmma where there are 132 multiprocessors, as they are fewer than of 256.
TEST_P(MatchDirect, TilesOf288) {
    auto random = support::generator();
    for (const int cols : {287, 288})
        compareExactly(picture<uint8_t>(4480 + 16, cols + 17, 1, random), picture<uint8_t>(17, 18, 1, random), space());
}

// Frames of three channels, in maps that take wgmma where there are 132 multiprocessors, against the FFT: the best match,
// and further ones with fractions; two templates, for which each channel is loaded again.
TEST_P(MatchDirect, Colors) {
    auto random = support::generator();
    for (const auto &[cols, rows] : {std::pair{641, 640}, {1025, 415}, {258, 1600}})
        for (const auto &[w, h] : {std::pair{33, 40}, {64, 64}, {82, 50}}) {
            if (space() == CUS_HOST && w != 33) // it has no such tiles
                continue;
            const auto image = picture<uint8_t>(rows + h - 1, cols + w - 1, 3, random);
            const Image<uint8_t> templates[] = {cut(image, rows / 3, cols - 1, h, w), cut(image, rows - 1, cols / 2, h, w)};
            const support::Layout layout = {random() % 2 ? random() % 70 : 0, random() % 2 ? random() % 40 : 0};
            Pixels<uint8_t> frame(image, space(), layout), first(templates[0], space()), second(templates[1], space());
            const cusMat mats[] = {first.mat, second.mat};
            for (const int matches : {1, 4}) {
                auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT, matches, 9);
                options.subpixel = matches > 1;
                Matcher matcher;
                CUS_ASSERT_OK(cusMatcherCreate(&matcher, mats, 2, image.rows, image.cols, &options, nullptr));
                for (int again = 0; again < 2; ++again)
                    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
                options.algorithm = CUS_MATCH_FFT;
                for (int k = 0; k < 2; ++k) {
                    SCOPED_TRACE(testing::Message() << cols << "x" << rows << " template " << k << " of " << w << "x" << h);
                    const auto found = matchesOf(matcher, k, matches);
                    expectSame(found, run(image, templates[k], space(), options).matches);
                    EXPECT_EQ(found[0].score, 0);
                }
            }
        }
}

// Frames whose maps make enough tiles together for wgmma with templates of any size: with maps and without, with one template
// and with one for each, frames at odd addresses; the largest sums.
TEST_P(MatchDirect, LargeTemplatesInBatches) {
    auto random = support::generator();
    constexpr int ROWS = 35, COLS = 115;
    const int count = space() == CUS_DEVICE ? 128 : 3;
    const std::tuple<int, int, int> sizes[] = {{64, 64, 1},  {33, 50, 1},  {100, 100, 1}, {128, 128, 1},
                                               {128, 37, 1}, {19, 125, 1}, {64, 64, 3},   {21, 90, 3},
                                               {33, 32, 3},  {80, 80, 3},  {145, 16, 3}};
    for (const auto &[w, h, channels] : sizes)
        for (const bool own : {false, true}) {
            SCOPED_TRACE(testing::Message() << w << "x" << h << " channels " << channels << (own ? " own" : ""));
            std::vector<Image<uint8_t>> images, templates;
            std::deque<Pixels<uint8_t>> memory;
            std::vector<std::vector<uint64_t>> maps;
            std::vector<cusMat> frames, patterns;
            for (int i = 0; i < 3; ++i) {
                images.push_back(i == 2 ? flat<uint8_t>(ROWS + h - 1, COLS + w - 1, channels, 255)
                                        : picture<uint8_t>(ROWS + h - 1, COLS + w - 1, channels, random));
                if (own || i == 0)
                    templates.push_back(i == 2 ? flat<uint8_t>(h, w, channels, 255)
                                               : cut(images[0], 5 + 20 * i, 77 - 30 * i, h, w));
                maps.push_back(squaredDifferences(images.back(), templates.back()));
                memory.emplace_back(images.back(), space(),
                                    support::Layout{static_cast<size_t>(13 * i), static_cast<size_t>(i)});
                memory.emplace_back(templates.back(), space());
            }
            for (int i = 0; i < count; ++i) {
                frames.push_back(memory[static_cast<size_t>(i % 3 * 2)].mat);
                if (own || i == 0)
                    patterns.push_back(memory[static_cast<size_t>(i % 3 * 2 + 1)].mat);
            }
            auto options = with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT);
            options.batch = count;
            Matcher matcher;
            CUS_ASSERT_OK(cusMatcherCreate(&matcher, patterns.data(), static_cast<int>(patterns.size()), ROWS + h - 1,
                                           COLS + w - 1, &options, nullptr));
            std::vector<cusMat> scores(frames.size(), cusMat CUS_MAT_INIT);
            for (const bool with_maps : {false, true}) {
                CUS_ASSERT_OK(cusMatcherRun(matcher, frames.data(), with_maps ? scores.data() : nullptr, nullptr));
                for (size_t i = 0; i < frames.size(); ++i) {
                    const auto &map = maps[i % 3];
                    const auto best = std::min_element(map.begin(), map.end());
                    const auto matches = matchesOf(matcher, static_cast<int>(i), 1);
                    ASSERT_EQ(matches.size(), 1u);
                    ASSERT_EQ(matches[0].score, static_cast<double>(*best)) << "frame " << i;
                    ASSERT_EQ(matches[0].y * COLS + matches[0].x, best - map.begin()) << "frame " << i;
                }
            }
            for (size_t i = 0; i < frames.size(); ++i) {
                if (i < 3) {
                    const auto found = support::elements<float>(scores[i]);
                    ASSERT_EQ(found, std::vector<float>(maps[i].begin(), maps[i].end())) << "frame " << i;
                }
                cusMatRelease(&scores[i]);
            }
        }
}
