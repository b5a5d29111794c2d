// Contents and options that are hard for stereo: flat images, stripes, noise, checkers; 256 shifts; windows of 63, larger than the
// image; images as narrow as the shifts, and narrower. Features and elevation equal the reference, and so does the mapper.
#include "stereo/support.hpp"

namespace {

using namespace stereo_test;

class StereoWorst : public support::SpaceTest {};
CUS_BOTH_SPACES(StereoWorst);

enum class Content { BLACK, WHITE, STRIPES, WIDE_STRIPES, ROWS, CHECKER, NOISE, HALF_FLAT };
constexpr Content CONTENTS[] = {Content::BLACK, Content::WHITE,   Content::STRIPES, Content::WIDE_STRIPES,
                                Content::ROWS,  Content::CHECKER, Content::NOISE,   Content::HALF_FLAT};

ref::Bytes imageOf(Content content, int rows, int cols, std::mt19937_64 &random) {
    ref::Bytes image(rows, cols);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            const auto noise = static_cast<uint8_t>(random());
            const bool on = content == Content::STRIPES        ? x & 1
                            : content == Content::WIDE_STRIPES ? x / 7 & 1
                            : content == Content::ROWS         ? y & 1
                            : content == Content::CHECKER      ? (x ^ y) & 1
                                                               : content == Content::WHITE;
            const bool noisy = content == Content::NOISE || (content == Content::HALF_FLAT && x < cols / 2);
            image(y, x) = noisy ? noise : on ? 255 : 0;
        }
    return image;
}

struct Setting {
    int rows, cols, shifts, window;
};

// Tiny images, as the reference takes time: window * window * shifts steps a pixel.
constexpr Setting SETTINGS[] = {{5, 300, 256, 3}, {3, 256, 256, 1}, {6, 40, 10, 63},
                                {5, 33, 33, 5},   {7, 1, 1, 63},    {1, 70, 65, 7}};

cusStereoOptions optionsOf(const Setting &setting, std::mt19937_64 &random) {
    cusStereoOptions o = randomOptions(setting.cols, random);
    o.shifts = setting.shifts;
    while (o.subpixel_bits > 0 && o.shifts << o.subpixel_bits > 65535)
        --o.subpixel_bits;
    o.window = setting.window;
    o.left_right_check = random() % 3 ? -1 : 1;
    o.fill = static_cast<cusStereoFillRule>(random() % 4);
    o.iterations = static_cast<int>(random() % 40);
    o.median = 0;
    o.lines = random() & 1 ? CUS_LINES_CROSSING : CUS_LINES_MODULO;
    return o;
}

template<class T>
void expectMap(const ref::Image<T> &want, const ref::Bytes &left, const ref::Bytes &right, const cusStereoOptions &o,
               cusSpace space, const Layout &layout) {
    Placed<uint8_t> l(left, space, layout), r(right, space, layout);
    TestMat elevation(left.rows, left.cols, typeOf<T>(), space, {4 * layout.padding, 4 * layout.offset}),
        contours(left.rows, left.cols, CUS_8UC1, space, layout);
    support::Owned<cusContourMapperDestroy> mapper;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, left.rows, left.cols, CUS_8UC1, space, &o));
    CUS_EXPECT_OK(cusContourMap(mapper, &l.mat, &r.mat, &elevation.mat, &contours.mat, nullptr));
    EXPECT_TRUE(same(elevation.mat, want)) << describe(o);
    EXPECT_TRUE(same(contours.mat, ref::contours(want, o))) << describe(o);
    EXPECT_TRUE(elevation.intact() && contours.intact());
}

TEST_P(StereoWorst, MapsEqualTheReference) {
    auto random = support::generator();
    for (const Setting &setting : SETTINGS)
        for (const Content content : CONTENTS)
            for (const auto agreement : {CUS_STEREO_EQUAL, CUS_STEREO_EDGE, CUS_STEREO_CENSUS}) {
                const auto left = imageOf(content, setting.rows, setting.cols, random),
                           right = imageOf(random() & 1 ? content : Content::NOISE, setting.rows, setting.cols, random);
                cusStereoOptions o = optionsOf(setting, random);
                o.agreement = agreement;
                const auto layouts = support::layouts(CUS_8UC1);
                const Layout layout = layouts[random() % layouts.size()];
                withFilled(holesOf(left, right, o), o,
                           [&](const auto &want) { expectMap(want, left, right, o, space(), layout); });
                ASSERT_FALSE(HasFailure())
                    << setting.rows << " x " << setting.cols << ", content " << static_cast<int>(content);
            }
}

// Maps without holes, all holes, and of the extremes: what flat and saturated pairs become.
TEST_P(StereoWorst, MediansAndFillsOfUniformMaps) {
    auto random = support::generator();
    for (const uint16_t value : {uint16_t{0}, uint16_t{1}, uint16_t{256}, uint16_t{65535}})
        for (const auto &[rows, cols] : {std::pair{1, 1}, {1, 90}, {90, 1}, {37, 65}}) {
            ref::Elevation map(rows, cols);
            std::fill(map.data.begin(), map.data.end(), value);
            map.data[random() % map.data.size()] = static_cast<uint16_t>(value ^ 1);
            Placed<uint16_t> in(map, space());
            support::Mat out;
            for (const int size : {3, 5}) {
                CUS_ASSERT_OK(cusStereoMedian(&in.mat, &out, size, nullptr));
                EXPECT_TRUE(same(out, ref::median(map, size)));
            }
            cusStereoOptions o = cusStereoDefaults();
            o.speckle_size = 50;
            CUS_ASSERT_OK(cusStereoFilterSpeckles(&in.mat, &out, &o, nullptr));
            EXPECT_TRUE(same(out, ref::filterSpeckles(map, o)));
            CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
            EXPECT_TRUE(same(out, ref::fillLower(map)));
            o.fill = CUS_FILL_ONCE;
            o.iterations = 33;
            CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
            EXPECT_TRUE(same(out, ref::fillOnce(map, o)));
            cusMatRelease(&out);
            o.fill = CUS_FILL_RELAX;
            CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
            EXPECT_TRUE(same(out, ref::fillRelax(map, o)));
        }
}

} // namespace

// Tiles with few and with many holes side by side, images of few tiles and of many, iterations that end within a round and
// after it.
TEST_P(StereoWorst, RelaxOfSparseAndDenseTiles) {
    auto random = support::generator();
    for (const auto &[rows, cols] : {std::pair{90, 130}, {70, 33}, {31, 200}, {420, 430}})
        for (const auto border : {CUS_STEREO_WRAP, CUS_STEREO_ZERO})
            for (const uint64_t percent : {20, 27, 50, 97}) {
                ref::Elevation map(rows, cols);
                for (int y = 0; y < rows; ++y)
                    for (int x = 0; x < cols; ++x) {
                        const uint64_t share = x < cols / 2 ? percent : 3;
                        map(y, x) = static_cast<uint16_t>(random() % 100 < share ? 0 : 1 + random() % 30);
                    }
                cusStereoOptions o = cusStereoDefaults();
                o.border = border;
                o.fill = CUS_FILL_RELAX;
                o.tolerance = random() & 1 ? 0.0f : 0.05f;
                static const int counts[] = {1, 15, 16, 17, 31, 40};
                o.iterations = counts[random() % 6];
                Placed<uint16_t> in(map, space());
                support::Mat out;
                CUS_ASSERT_OK(cusStereoFill(&in.mat, &out, &o, nullptr));
                ASSERT_TRUE(same(out, ref::fillRelax(map, o)))
                    << percent << " % of " << rows << " x " << cols << ", " << describe(o);
            }
}
