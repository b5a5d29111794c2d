#include "cusight/remap.h"
#include "reference/remap.hpp"
#include "support.hpp"

#include <cmath>
#include <deque>
#include <limits>

namespace {

using support::Layout;
using support::TestMat;

class Remap : public support::SpaceTest {};
CUS_BOTH_SPACES(Remap);

// Places in and around an image, on and between its pixels, and far away.
std::vector<float> randomMap(int rows, int cols, int src_rows, int src_cols, std::mt19937_64 &random) {
    std::vector<float> map;
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 2097152.0f, -2097152.0f, -0.001953125f, 16383.99f};
    for (int i = 0; i < 2 * rows * cols; ++i) {
        const int side = i % 2 ? src_rows : src_cols;
        const auto r = random();
        float place = static_cast<float>(r % (256u * static_cast<unsigned>(side + 4))) / 256.0f - 2.0f;
        if (r >> 40 & 1) // halves of 1/256 pixel are rounded to even
            place += 1.0f / 512.0f;
        if ((r >> 41 & 3) == 0)
            place = std::floor(place);
        map.push_back((r >> 48) % 50 ? place : odd[(r >> 56) % 9]);
    }
    return map;
}

// Compares by bits, but NaN with any NaN.
template<class T>
testing::AssertionResult same(const std::vector<T> &got, const std::vector<T> &want) {
    if (got.size() != want.size())
        return testing::AssertionFailure() << got.size() << " values, expected " << want.size();
    for (size_t i = 0; i < got.size(); ++i)
        if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0 && (got[i] == got[i] || want[i] == want[i]))
            return testing::AssertionFailure() << "value " << i << " is " << +got[i] << ", the reference has " << +want[i];
    return testing::AssertionSuccess();
}

template<class T>
void compare(cusSpace space, int channels, std::mt19937_64 &random) {
    const int type = CUS_MAKETYPE(sizeof(T) == 1 ? CUS_8U : CUS_32F, channels);
    const std::pair<int, int> sizes[] = {{1, 1}, {1, 40}, {33, 9}, {65, 127}, {9, 257}, {8, 32}};
    for (const auto &[rows, cols] : sizes)
        for (const Layout &layout : support::layouts(type)) {
            const int map_rows = 1 + static_cast<int>(random() % 40), map_cols = 1 + static_cast<int>(random() % 300);
            std::vector<T> pixels;
            for (const uint8_t b : support::randomBytes(static_cast<size_t>(rows * cols * channels), random))
                pixels.push_back(sizeof(T) == 1 ? static_cast<T>(b) : static_cast<T>(b / 3.0 - 40));
            if constexpr (sizeof(T) == 4)
                if (random() & 1)
                    pixels[random() % pixels.size()] = std::numeric_limits<float>::infinity();
            const auto places = randomMap(map_rows, map_cols, rows, cols, random);
            const Layout of_map = {layout.padding / 4 * 4, layout.offset / 4 * 4};
            TestMat src(rows, cols, type, space, layout, pixels.data());
            TestMat map(map_rows, map_cols, CUS_32FC2, space, of_map, places.data());
            TestMat dst(map_rows, map_cols, type, space, layout);
            CUS_ASSERT_OK(cusRemap(&src.mat, &map.mat, &dst.mat, nullptr));
            EXPECT_TRUE(same(dst.get<T>(), reference::remap(pixels, rows, cols, channels, places)))
                << rows << " x " << cols << " to " << map_rows << " x " << map_cols << ", " << channels << " channels";
            EXPECT_TRUE(dst.intact() && src.intact() && map.intact());
        }
}

TEST_P(Remap, EqualsTheReferenceForAllTypesSizesAndLayouts) {
    auto random = support::generator();
    for (int channels = 1; channels <= 4; ++channels) {
        compare<uint8_t>(space(), channels, random);
        compare<float>(space(), channels, random);
    }
}

TEST_P(Remap, ABatchEqualsOneByOne) {
    auto random = support::generator();
    enum Maps { SOME, ONE, ONE_AND_ONE_LAYOUT };
    for (const auto &[count, kind] : {std::pair{1, SOME},
                                      {2, SOME},
                                      {7, SOME},
                                      {64, SOME},
                                      {65, SOME},
                                      {130, SOME},
                                      {2, ONE},
                                      {17, ONE},
                                      {67, ONE},
                                      {3, ONE_AND_ONE_LAYOUT},
                                      {4, ONE_AND_ONE_LAYOUT},
                                      {66, ONE_AND_ONE_LAYOUT},
                                      {71, ONE_AND_ONE_LAYOUT}})
        for (const int type : {CUS_8UC1, CUS_8UC3, CUS_32FC1, CUS_32FC4}) {
            const int rows = 1 + static_cast<int>(random() % 40), cols = 1 + static_cast<int>(random() % 40);
            const int map_rows = 1 + static_cast<int>(random() % 40), map_cols = 1 + static_cast<int>(random() % 40);
            const auto layouts = support::layouts(type);
            std::deque<TestMat> src, map;
            std::vector<cusMat> sources, maps, got(static_cast<size_t>(count), cusMat(CUS_MAT_INIT));
            for (int i = 0; i < count; ++i) {
                const Layout layout = kind == ONE_AND_ONE_LAYOUT ? Layout{} : layouts[random() % layouts.size()];
                const auto bytes = support::randomBytes(static_cast<size_t>(rows * cols) * cusTypeSize(type), random);
                src.emplace_back(rows, cols, type, space(), layout, bytes.data());
                const auto places = randomMap(map_rows, map_cols, rows, cols, random);
                const Layout of_map = {layout.padding / 4 * 4, layout.offset / 4 * 4};
                if (kind == SOME ? i % 3 != 1 : i == 0) // otherwise the map of the image before
                    map.emplace_back(map_rows, map_cols, CUS_32FC2, space(), of_map, places.data());
                sources.push_back(src.back().mat);
                maps.push_back(map.back().mat);
            }
            CUS_ASSERT_OK(cusRemapBatch(count, sources.data(), maps.data(), got.data(), nullptr));
            for (size_t i = 0; i < got.size(); ++i) {
                support::Mat want;
                CUS_ASSERT_OK(cusRemap(&sources[i], &maps[i], &want, nullptr));
                EXPECT_EQ(support::elements(got[i]), support::elements(want)) << "image " << i << " of " << count;
                cusMatRelease(&got[i]);
            }
        }
}

TEST_P(Remap, BadBatchesAreRejectedWithAClearMessage) {
    TestMat a(3, 4, CUS_8UC1, space()), color(3, 4, CUS_8UC3, space()), wide(3, 5, CUS_8UC1, space());
    TestMat map(2, 2, CUS_32FC2, space()), tall(3, 2, CUS_32FC2, space());
    cusMat src[2] = {a.mat, a.mat}, maps[2] = {map.mat, map.mat}, dst[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
    CUS_REJECTS(cusRemapBatch(0, src, maps, dst, nullptr), VALUE, "count is 0, expected 1..1024");
    CUS_REJECTS(cusRemapBatch(1025, src, maps, dst, nullptr), VALUE, "count is 1025, expected 1..1024");
    CUS_REJECTS(cusRemapBatch(2, nullptr, maps, dst, nullptr), NULL, "src");
    CUS_REJECTS(cusRemapBatch(2, src, nullptr, dst, nullptr), NULL, "map");
    CUS_REJECTS(cusRemapBatch(2, src, maps, nullptr, nullptr), NULL, "dst");
    src[1] = color.mat;
    CUS_REJECTS(cusRemapBatch(2, src, maps, dst, nullptr), TYPE, "src[1] has type 8UC3, expected 8UC1 like src[0]");
    src[1] = wide.mat;
    CUS_REJECTS(cusRemapBatch(2, src, maps, dst, nullptr), SIZE, "src[1]");
    src[1] = cusMat(CUS_MAT_INIT);
    CUS_REJECTS(cusRemapBatch(2, src, maps, dst, nullptr), NULL, "src[1]");
    src[1] = a.mat;
    maps[1] = tall.mat;
    CUS_REJECTS(cusRemapBatch(2, src, maps, dst, nullptr), SIZE, "map[1]");
    maps[1] = map.mat;
    dst[1] = wide.mat;
    CUS_REJECTS(cusRemapBatch(2, src, maps, dst, nullptr), SIZE, "dst[1]");
    EXPECT_EQ(dst[0].data, nullptr); // a rejected call has changed nothing
}

TEST_P(Remap, WorkedExample) {
    const std::vector<uint8_t> pixels = {0, 100, 200, 50};
    const std::vector<float> places = {1, 0, 0.5f, 0, 0.5f, 0.5f, 1, 1, -0.5f, 0, 2, 0};
    TestMat src(2, 2, CUS_8UC1, space(), {}, pixels.data()), map(1, 6, CUS_32FC2, space(), {}, places.data());
    TestMat dst(1, 6, CUS_8UC1, space());
    CUS_ASSERT_OK(cusRemap(&src.mat, &map.mat, &dst.mat, nullptr));
    EXPECT_EQ(dst.get(), (std::vector<uint8_t>{100, 50, 88, 50, 0, 0})); // 87.5 is rounded up
}

TEST_P(Remap, TheIdentityChangesNothing) {
    auto random = support::generator();
    const int rows = 31, cols = 77;
    const auto pixels = support::randomBytes(static_cast<size_t>(rows * cols * 3), random);
    std::vector<float> places;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            places.insert(places.end(), {static_cast<float>(x), static_cast<float>(y)});
    TestMat src(rows, cols, CUS_8UC3, space(), {}, pixels.data()), map(rows, cols, CUS_32FC2, space(), {}, places.data());
    support::Mat dst;
    CUS_ASSERT_OK(cusRemap(&src.mat, &map.mat, &dst, nullptr));
    EXPECT_EQ(support::elements(dst), pixels);
    const void *const data = dst.data;
    CUS_ASSERT_OK(cusRemap(&src.mat, &map.mat, &dst, nullptr));
    EXPECT_EQ(dst.data, data); // an output that fits stays
}

TEST_P(Remap, UsesTheGivenStream) {
    const std::vector<uint8_t> pixels(12, 7);
    const std::vector<float> places(24, 1.0f);
    TestMat src(3, 4, CUS_8UC1, space(), {}, pixels.data()), map(3, 4, CUS_32FC2, space(), {}, places.data());
    TestMat dst(3, 4, CUS_8UC1, space());
    cusStream stream = nullptr;
    if (space() == CUS_DEVICE) {
        CUS_ASSERT_OK(cusStreamCreate(&stream));
    }
    CUS_EXPECT_OK(cusRemap(&src.mat, &map.mat, &dst.mat, stream));
    if (space() == CUS_DEVICE) {
        CUS_EXPECT_OK(cusStreamSynchronize(stream));
        cusStreamDestroy(stream);
    }
    EXPECT_EQ(dst.get(), pixels);
}

TEST_P(Remap, BadInputIsRejectedWithAClearMessage) {
    TestMat src(3, 4, CUS_8UC1, space()), words(3, 4, CUS_16UC1, space()), map(5, 6, CUS_32FC2, space());
    TestMat flat(5, 6, CUS_32FC1, space()), small(3, 4, CUS_8UC1, space()),
        wide(1, CUS_REMAP_MAX_SIDE + 1, CUS_8UC1, space());
    cusMat dst = CUS_MAT_INIT;
    CUS_REJECTS(cusRemap(nullptr, &map.mat, &dst, nullptr), NULL, "src");
    CUS_REJECTS(cusRemap(&src.mat, nullptr, &dst, nullptr), NULL, "map");
    CUS_REJECTS(cusRemap(&src.mat, &map.mat, nullptr, nullptr), NULL, "dst");
    CUS_REJECTS(cusRemap(&words.mat, &map.mat, &dst, nullptr), TYPE, "src has type 16UC1");
    CUS_REJECTS(cusRemap(&src.mat, &flat.mat, &dst, nullptr), TYPE, "map has type 32FC1, expected 32FC2");
    CUS_REJECTS(cusRemap(&wide.mat, &map.mat, &dst, nullptr), SIZE,
                "src is 1 x 1048577 (rows x cols), expected at most 1048576 of each");
    CUS_REJECTS(cusRemap(&src.mat, &map.mat, &small.mat, nullptr), SIZE, "dst");
    CUS_REJECTS(cusRemap(&src.mat, &map.mat, &src.mat, nullptr), SIZE, "dst");
    TestMat places(3, 4, CUS_32FC2, space());
    CUS_REJECTS(cusRemap(&src.mat, &places.mat, &src.mat, nullptr), ALIAS, "dst");
    CUS_REJECTS(cusRemap(&places.mat, &places.mat, &places.mat, nullptr), ALIAS, "dst");
    EXPECT_EQ(dst.data, nullptr); // a rejected call has changed nothing
}

TEST(RemapSpaces, MixedSpacesAreAnError) {
    CUS_NEEDS(CUS_DEVICE);
    TestMat src(3, 4, CUS_8UC1, CUS_DEVICE), map(5, 6, CUS_32FC2, CUS_HOST);
    cusMat dst = CUS_MAT_INIT;
    CUS_REJECTS(cusRemap(&src.mat, &map.mat, &dst, nullptr), SPACE, "map");
}

} // namespace
