#include "video/support.hpp"

namespace {

using reference::YuvPicture;
using support::Layout;
using support::TestMat;
using support::YuvFormat;
using support::YuvPlanes;

class Video : public support::SpaceTest {};
CUS_BOTH_SPACES(Video);

YuvPicture randomPicture(int rows, int cols, int bits, std::mt19937_64 &random) {
    YuvPicture p = {rows, cols, bits, {}, {}, {}};
    const auto fill = [&](std::vector<int> &plane, int count) {
        for (const uint8_t b : support::randomBytes(static_cast<size_t>(count), random))
            plane.push_back(bits == 8 ? b : b * 4 + static_cast<int>(random() % 4));
    };
    fill(p.y, rows * cols);
    fill(p.u, p.chromaRows() * p.chromaCols());
    fill(p.v, p.chromaRows() * p.chromaCols());
    return p;
}

cusYuvOptions optionsOf(int matrix, int siting, int full_range, bool low_bits) {
    cusYuvOptions o = cusYuvDefaults();
    o.matrix = static_cast<cusYuvMatrix>(matrix);
    o.siting = static_cast<cusYuvSiting>(siting);
    o.full_range = full_range;
    o.low_bits = low_bits;
    return o;
}

void compare(const YuvPicture &p, const YuvFormat &format, const cusYuvOptions &o, cusSpace space, Layout in, Layout out) {
    const size_t unit = p.bits == 8 ? 1 : 2;
    YuvPlanes planes(p, format, space, {in.padding * unit, in.offset * unit}, {out.padding / 2 * 2, out.offset / 2 * 2});
    TestMat bgr(p.rows, p.cols, CUS_8UC3, space, out), gray(p.rows, p.cols, CUS_8UC1, space, out);
    CUS_ASSERT_OK(cusYuvToBgr(planes.y(), planes.u(), planes.v(), &o, &bgr.mat, nullptr));
    CUS_ASSERT_OK(cusYuvToGray(planes.y(), &o, &gray.mat, nullptr));
    const auto about = [&] {
        return std::string(format.name) + ", " + std::to_string(p.rows) + " x " + std::to_string(p.cols) + ", matrix " +
               std::to_string(o.matrix) + ", siting " + std::to_string(o.siting) + ", full " +
               std::to_string(o.full_range) + ", offsets " + std::to_string(in.offset) + " and " +
               std::to_string(out.offset);
    };
    const auto want = reference::yuvToBgr(p, o), got = bgr.get();
    for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(got[i], want[i]) << about() << ": color " << i % 3 << " of pixel " << i / 3;
    EXPECT_EQ(gray.get(), reference::yuvToGray(p, o)) << about();
    EXPECT_TRUE(planes.intact() && bgr.intact() && gray.intact()) << about();
}

TEST_P(Video, EqualsTheReferenceForAllFormatsSizesAndLayouts) {
    auto random = support::generator();
    int turn = 0;
    for (const YuvFormat &format : support::YUV_FORMATS)
        for (const auto &[rows, cols] : support::sizes()) {
            const YuvPicture p = randomPicture(rows, cols, format.bits, random);
            const auto layouts = support::layouts(CUS_8UC1);
            const auto &in = layouts[static_cast<size_t>(turn % 4)], &out = layouts[static_cast<size_t>(turn / 4 % 4)];
            compare(p, format, optionsOf(turn % 3, turn / 3 % 4, turn / 5 % 2, format.low), space(), in, out);
            ++turn;
        }
}

TEST_P(Video, EqualsTheReferenceForAllOptions) {
    auto random = support::generator();
    for (const YuvFormat &format : support::YUV_FORMATS)
        for (int matrix = 0; matrix < 3; ++matrix)
            for (int siting = 0; siting < 4; ++siting)
                for (const int full : {0, 1})
                    for (const auto &[rows, cols] : {std::pair(9, 70), std::pair(6, 262), std::pair(2, 517)})
                        compare(randomPicture(rows, cols, format.bits, random), format,
                                optionsOf(matrix, siting, full, format.low), space(), {}, {});
}

// Widths around the parts in which both backends take a row, and every layout.
TEST_P(Video, EqualsTheReferenceAroundTiles) {
    auto random = support::generator();
    for (const YuvFormat &format : support::YUV_FORMATS)
        for (const int cols : {8, 9, 16, 17, 254, 255, 256, 257, 511, 512, 513, 514, 768, 1024, 1040})
            for (const Layout &layout : support::layouts(CUS_8UC1))
                compare(randomPicture(5, cols, format.bits, random), format, optionsOf(0, cols % 4, 0, format.low), space(),
                        layout, layout);
}

TEST_P(Video, WorkedExample) {
    const std::vector<uint8_t> luma = {16, 235, 126, 81}, chroma = {128, 128, 90, 240}; // black, white, gray, red
    TestMat y(1, 4, CUS_8UC1, space(), {}, luma.data()), u(1, 2, CUS_8UC2, space(), {}, chroma.data());
    TestMat bgr(1, 4, CUS_8UC3, space()), gray(1, 4, CUS_8UC1, space());
    cusYuvOptions o = cusYuvDefaults();
    CUS_ASSERT_OK(cusYuvToGray(&y.mat, nullptr, &gray.mat, nullptr));
    EXPECT_EQ(gray.get(), (std::vector<uint8_t>{0, 255, 128, 76}));
    CUS_ASSERT_OK(cusYuvToBgr(&y.mat, &u.mat, nullptr, &o, &bgr.mat, nullptr));
    // Columns 1 and 3: halfway to red's chroma, and that of the last sample.
    EXPECT_EQ(bgr.get(), (std::vector<uint8_t>{0, 0, 0, 217, 217, 255, 51, 52, 255, 0, 0, 254}));
    o.full_range = 1;
    CUS_ASSERT_OK(cusYuvToGray(&y.mat, &o, &gray.mat, nullptr));
    EXPECT_EQ(gray.get(), luma); // full range of 8 bits is gray as it is
}

// Away from its edges, a region's pixels are those of the whole picture.
TEST_P(Video, ConvertsRegions) {
    auto random = support::generator();
    const YuvPicture p = randomPicture(40, 90, 8, random);
    YuvPlanes planes(p, support::YUV_FORMATS[0], space(), {}, {});
    TestMat whole(40, 90, CUS_8UC3, space()), part(24, 62, CUS_8UC3, space());
    CUS_ASSERT_OK(cusYuvToBgr(planes.y(), planes.u(), nullptr, nullptr, &whole.mat, nullptr));
    cusMat y = CUS_MAT_INIT, u = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatRegion(planes.y(), 14, 6, 62, 24, &y));
    CUS_ASSERT_OK(cusMatRegion(planes.u(), 7, 3, 31, 12, &u));
    CUS_ASSERT_OK(cusYuvToBgr(&y, &u, nullptr, nullptr, &part.mat, nullptr));
    const auto all = whole.get(), some = part.get();
    for (size_t row = 1; row < 23; ++row)
        for (size_t i = 3; i < size_t{3} * 61; ++i)
            ASSERT_EQ(some[row * 62 * 3 + i], all[(row + 6) * 90 * 3 + i + size_t{14} * 3]) << row << ", " << i;
}

TEST_P(Video, UsesTheGivenStreamAndKeepsAnOutputThatFits) {
    auto random = support::generator();
    const YuvPicture p = randomPicture(31, 77, 8, random);
    YuvPlanes planes(p, support::YUV_FORMATS[1], space(), {}, {});
    support::Mat bgr, gray;
    cusStream stream = nullptr;
    if (space() == CUS_DEVICE) {
        CUS_ASSERT_OK(cusStreamCreate(&stream));
    }
    for (int i = 0; i < 2; ++i) {
        const void *const before = bgr.data;
        CUS_ASSERT_OK(cusYuvToBgr(planes.y(), planes.u(), planes.v(), nullptr, &bgr, stream));
        CUS_ASSERT_OK(cusYuvToGray(planes.y(), nullptr, &gray, stream));
        EXPECT_TRUE(i == 0 || bgr.data == before);
    }
    if (space() == CUS_DEVICE) {
        CUS_EXPECT_OK(cusStreamSynchronize(stream));
        cusStreamDestroy(stream);
    }
    EXPECT_EQ(support::elements(bgr), reference::yuvToBgr(p, cusYuvDefaults()));
    EXPECT_EQ(support::elements(gray), reference::yuvToGray(p, cusYuvDefaults()));
}

TEST_P(Video, BadInputIsRejectedWithAClearMessage) {
    TestMat y(5, 6, CUS_8UC1, space()), u(3, 3, CUS_8UC2, space()), one(3, 3, CUS_8UC1, space());
    TestMat color(5, 6, CUS_8UC3, space()), words(3, 3, CUS_MAKETYPE(CUS_16U, 2), space()), small(2, 3, CUS_8UC2, space());
    TestMat floats(5, 6, CUS_32FC1, space());
    cusMat out = CUS_MAT_INIT;
    cusYuvOptions o = cusYuvDefaults();
    const auto bgr = [&](const TestMat &luma, const TestMat &chroma, const cusMat *v, cusMat *dst) {
        return cusYuvToBgr(&luma.mat, &chroma.mat, v, &o, dst, nullptr);
    };
    CUS_REJECTS(cusYuvToBgr(nullptr, &u.mat, nullptr, &o, &out, nullptr), NULL, "y");
    CUS_REJECTS(cusYuvToBgr(&y.mat, nullptr, nullptr, &o, &out, nullptr), NULL, "u");
    CUS_REJECTS(bgr(y, u, nullptr, nullptr), NULL, "bgr");
    CUS_REJECTS(bgr(floats, u, nullptr, &out), TYPE, "y has type 32FC1, expected 8UC1 or 16UC1");
    CUS_REJECTS(bgr(y, one, nullptr, &out), TYPE, "u has type 8UC1, expected 8UC2");
    CUS_REJECTS(bgr(y, u, &one.mat, &out), TYPE, "u has type 8UC2, expected 8UC1");
    CUS_REJECTS(bgr(y, one, &u.mat, &out), TYPE, "v has type 8UC2, expected 8UC1");
    CUS_REJECTS(bgr(y, words, nullptr, &out), TYPE, "u has type 16UC2, expected 8UC2");
    CUS_REJECTS(bgr(y, small, nullptr, &out), SIZE, "u is 2 x 3 (rows x cols), expected 3 x 3 for y of 5 x 6");
    CUS_REJECTS(bgr(y, u, nullptr, &one.mat), SIZE, "bgr does not own its memory and is 3 x 3");
    CUS_REJECTS(cusYuvToGray(&y.mat, &o, &color.mat, nullptr), SIZE, "expected 5 x 6 8UC1");
    CUS_REJECTS(cusYuvToGray(&y.mat, &o, &y.mat, nullptr), ALIAS, "gray");
    TestMat tall(1, 3, CUS_8UC1, space()), flat(1, 2, CUS_8UC2, space());
    cusMat over = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&over, 1, 3, CUS_8UC3, space(), tall.mat.data, 0));
    CUS_REJECTS(bgr(tall, flat, nullptr, &over), ALIAS, "bgr overlaps y");
    CUS_ASSERT_OK(cusMatWrap(&over, 1, 3, CUS_8UC3, space(), flat.mat.data, 0));
    CUS_REJECTS(bgr(tall, flat, nullptr, &over), ALIAS, "bgr overlaps u");
    o.low_bits = 1;
    CUS_REJECTS(bgr(y, u, nullptr, &out), VALUE, "low_bits is 1, expected 0 for y of type 8UC1");
    o.low_bits = 2;
    CUS_REJECTS(bgr(y, u, nullptr, &out), VALUE, "low_bits is 2, expected 0 or 1");
    o = optionsOf(3, 0, 0, false);
    CUS_REJECTS(bgr(y, u, nullptr, &out), VALUE, "matrix is 3, expected 0..2");
    o = optionsOf(0, -1, 0, false);
    CUS_REJECTS(bgr(y, u, nullptr, &out), VALUE, "siting is -1, expected 0..3");
    o = optionsOf(0, 0, 2, false);
    CUS_REJECTS(bgr(y, u, nullptr, &out), VALUE, "full_range is 2, expected 0 or 1");
    o = cusYuvDefaults();
    o.reserved[7] = 1;
    CUS_REJECTS(cusYuvToGray(&y.mat, &o, &out, nullptr), VALUE, "options->reserved[7]");
    EXPECT_EQ(out.data, nullptr); // a rejected call has changed nothing
}

TEST(VideoSpaces, MixedSpacesAreAnError) {
    CUS_NEEDS(CUS_DEVICE);
    TestMat y(5, 6, CUS_8UC1, CUS_DEVICE), u(3, 3, CUS_8UC2, CUS_HOST);
    cusMat bgr = CUS_MAT_INIT;
    CUS_REJECTS(cusYuvToBgr(&y.mat, &u.mat, nullptr, nullptr, &bgr, nullptr), SPACE, "u");
}

} // namespace
