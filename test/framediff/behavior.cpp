#include "cusight/framediff.h"

#include "framediff/backend.h"
#include "framediff/support.hpp"

#include <deque>
#include <thread>

using namespace framediff_support;

namespace {

struct Diff {
    cusSparseDiff d = CUS_SPARSE_DIFF_INIT;
    Diff(Shape s, cusSpace space, uint32_t capacity = 0, bool mask = true) {
        EXPECT_EQ(cusSparseDiffCreate(&d, s.rows, s.cols, typeOf(s.channels), capacity, mask, space), CUS_OK)
            << cusLastError();
    }
    ~Diff() { cusSparseDiffRelease(&d); }
    reference::Entries entries() const {
        uint32_t count = 0;
        EXPECT_EQ(cusSparseDiffCount(&d, &count, nullptr), CUS_OK) << cusLastError();
        reference::Entries e;
        if (!count)
            return e;
        cusMat positions = CUS_MAT_INIT, values = CUS_MAT_INIT;
        EXPECT_EQ(cusMatRegion(&d.positions, 0, 0, static_cast<int>(count), 1, &positions), CUS_OK);
        EXPECT_EQ(cusMatRegion(&d.values, 0, 0, static_cast<int>(count), 1, &values), CUS_OK);
        e.positions = support::elements<uint32_t>(positions);
        e.values = support::elements(values);
        return e;
    }
};

// The next frame of a synthetic video: most bytes change by little, some jump.
Bytes nextFrame(const Bytes &frame, std::mt19937_64 &random, double changed = 0.1) {
    Bytes next = frame;
    std::uniform_real_distribution<double> chance;
    for (auto &b : next)
        if (chance(random) < changed)
            b = static_cast<uint8_t>(random());
        else
            b = static_cast<uint8_t>(std::clamp(b + static_cast<int>(random() % 15) - 7, 0, 255));
    return next;
}

void expectEqual(const reference::Entries &got, const reference::Entries &want, const std::string &where) {
    ASSERT_EQ(got.positions.size(), want.positions.size()) << where;
    EXPECT_TRUE(got.positions == want.positions) << where << ": positions differ";
    EXPECT_TRUE(got.values == want.values) << where << ": values differ";
}

class Framediff : public support::SpaceTest {};

} // namespace

CUS_BOTH_SPACES(Framediff);

// ---- Heatmap and noise view ------------------------------------------------------------------------------------------

TEST_P(Framediff, HeatmapWorkedColors) {
    // d = 0: blue; 381 and 384 around the middle: green; 765: red.
    const Bytes prev = {0, 0, 0, 0, 0, 0, 0, 0, 0}, cur = {0, 0, 0, 127, 127, 128, 255, 255, 255};
    TestMat p(1, 3, CUS_8UC3, space(), {}, prev.data()), c(1, 3, CUS_8UC3, space(), {}, cur.data());
    TestMat dst(1, 3, CUS_8UC3, space());
    CUS_ASSERT_OK(cusHeatmap(&p.mat, &c.mat, &dst.mat, nullptr, nullptr));
    const Bytes out = dst.get();
    EXPECT_EQ(Bytes(out.begin(), out.begin() + 3), (Bytes{255, 0, 0}));
    EXPECT_LE(out[3], 1);
    EXPECT_EQ(out[4], 254);
    EXPECT_EQ(Bytes(out.begin() + 6, out.end()), (Bytes{0, 0, 255}));
}

TEST_P(Framediff, HeatmapEveryDifference) {
    // All 766 differences, at several scales, in 3 channels.
    Bytes prev(766 * 3, 0), cur(766 * 3);
    for (int d = 0; d < 766; ++d)
        for (int c = 0; c < 3; ++c)
            cur[static_cast<size_t>(3 * d + c)] = static_cast<uint8_t>(std::clamp(d - 255 * c, 0, 255));
    const Shape s{1, 766, 3};
    TestMat p(1, 766, CUS_8UC3, space(), {}, prev.data()), c(1, 766, CUS_8UC3, space(), {}, cur.data());
    for (int full_scale : {765, 510, 255, 1, 7, 1000, 65535}) {
        TestMat dst(1, 766, CUS_8UC3, space());
        const cusHeatmapOptions options = {full_scale, nullptr, {}};
        CUS_ASSERT_OK(cusHeatmap(&p.mat, &c.mat, &dst.mat, &options, nullptr));
        EXPECT_TRUE(dst.get() == reference::heatmap(prev, cur, s, full_scale)) << "full_scale " << full_scale;
    }
    // Own colors, whatever full_scale is.
    auto random = support::generator();
    const Bytes colors = support::randomBytes(size_t{766} * 3, random);
    for (int full_scale : {765, 510, 0}) {
        TestMat dst(1, 766, CUS_8UC3, space());
        const cusHeatmapOptions options = {full_scale, colors.data(), {}};
        CUS_ASSERT_OK(cusHeatmap(&p.mat, &c.mat, &dst.mat, &options, nullptr));
        EXPECT_TRUE(dst.get() == colors) << "full_scale " << full_scale;
    }
}

TEST_P(Framediff, HeatmapAndNoiseViewAllSizesTypesLayouts) {
    auto random = support::generator();
    for (auto [rows, cols] : support::sizes())
        for (int channels : {1, 3, 4}) {
            const Shape s{rows, cols, channels};
            const Bytes prev = support::randomBytes(s.bytes(), random), cur = nextFrame(prev, random, 0.5);
            for (auto layout : support::layouts(CUS_8UC1))
                expectPictures(s, prev, cur, space(), {layout, layout, layout});
        }
}

TEST_P(Framediff, HeatmapCreatesItsOutputAndKeepsOneThatFits) {
    const Bytes frame(4 * 5 * 3, 9);
    TestMat p(4, 5, CUS_8UC3, space(), {}, frame.data());
    support::Mat dst;
    CUS_ASSERT_OK(cusHeatmap(&p.mat, &p.mat, &dst, nullptr, nullptr));
    EXPECT_EQ(dst.type, CUS_8UC3);
    EXPECT_EQ(dst.space, space());
    void *data = dst.data;
    CUS_ASSERT_OK(cusNoiseView(&p.mat, &p.mat, &dst, 0, nullptr));
    EXPECT_EQ(dst.data, data);
}

TEST_P(Framediff, HeatmapsOfABatchEqualOneByOne) {
    auto random = support::generator();
    const Bytes colors = support::randomBytes(size_t{766} * 3, random);
    const cusHeatmapOptions choices[] = {cusHeatmapDefaults(), {510, nullptr, {}}, {765, colors.data(), {}}};
    for (const int count : {1, 2, 17, 64, 65, 130})
        for (const int channels : {1, 3, 4})
            for (const bool tight : {false, true}) {
                const int rows = 1 + static_cast<int>(random() % 20), cols = 1 + static_cast<int>(random() % 700);
                const int type = CUS_MAKETYPE(CUS_8U, channels);
                const auto layouts = support::layouts(CUS_8UC1);
                std::deque<TestMat> mats;
                std::vector<cusMat> prev, cur, got(static_cast<size_t>(count), cusMat(CUS_MAT_INIT));
                for (int i = 0; i < 2 * count; ++i) {
                    const Bytes bytes = support::randomBytes(static_cast<size_t>(rows * cols * channels), random);
                    mats.emplace_back(rows, cols, type, space(),
                                      tight ? support::Layout{} : layouts[random() % layouts.size()], bytes.data());
                    (i % 2 ? cur : prev).push_back(mats.back().mat);
                }
                const cusHeatmapOptions &options = choices[random() % 3];
                CUS_ASSERT_OK(cusHeatmapBatch(count, prev.data(), cur.data(), got.data(), &options, nullptr));
                for (size_t i = 0; i < got.size(); ++i) {
                    support::Mat want;
                    CUS_ASSERT_OK(cusHeatmap(&prev[i], &cur[i], &want, &options, nullptr));
                    EXPECT_EQ(support::elements(got[i]), support::elements(want)) << "pair " << i << " of " << count;
                    cusMatRelease(&got[i]);
                }
            }
}

TEST_P(Framediff, BadBatchesOfHeatmapsAreRejectedWithAClearMessage) {
    TestMat a(4, 6, CUS_8UC3, space()), small(4, 5, CUS_8UC3, space()), gray(4, 6, CUS_8UC1, space());
    cusMat prev[2] = {a.mat, a.mat}, cur[2] = {a.mat, a.mat}, dst[2] = {CUS_MAT_INIT, CUS_MAT_INIT};
    const auto call = [&](int count) { return cusHeatmapBatch(count, prev, cur, dst, nullptr, nullptr); };
    CUS_REJECTS(call(0), VALUE, "cusHeatmapBatch: count is 0, expected 1..1024");
    CUS_REJECTS(call(1025), VALUE, "cusHeatmapBatch: count is 1025, expected 1..1024");
    CUS_REJECTS(cusHeatmapBatch(2, nullptr, cur, dst, nullptr, nullptr), NULL, "prev");
    CUS_REJECTS(cusHeatmapBatch(2, prev, nullptr, dst, nullptr, nullptr), NULL, "cur");
    CUS_REJECTS(cusHeatmapBatch(2, prev, cur, nullptr, nullptr, nullptr), NULL, "dst");
    cur[1] = gray.mat;
    CUS_REJECTS(call(2), TYPE, "cur[1] has type 8UC1, expected 8UC3 like prev[1]");
    prev[1] = gray.mat;
    CUS_REJECTS(call(2), TYPE, "prev[1] has type 8UC1, expected 8UC3 like prev[0]");
    prev[1] = cur[1] = small.mat;
    CUS_REJECTS(call(2), SIZE, "prev[1]");
    prev[1] = cur[1] = a.mat;
    dst[1] = small.mat;
    CUS_REJECTS(call(2), SIZE, "dst[1]");
    dst[1] = a.mat;
    CUS_REJECTS(call(2), ALIAS, "dst[1]");
    EXPECT_EQ(dst[0].data, nullptr); // a rejected call has changed nothing
}

TEST_P(Framediff, PicturesRejectBadArguments) {
    TestMat a(4, 6, CUS_8UC3, space()), small(4, 5, CUS_8UC3, space()), gray(4, 6, CUS_8UC1, space());
    TestMat shorts(4, 6, CUS_16SC1, space()), out(4, 6, CUS_8UC3, space()), wrong(5, 6, CUS_8UC3, space());
    cusMat empty = CUS_MAT_INIT;
    CUS_REJECTS(cusHeatmap(nullptr, &a.mat, &out.mat, nullptr, nullptr), NULL, "cusHeatmap: prev is NULL");
    CUS_REJECTS(cusHeatmap(&a.mat, nullptr, &out.mat, nullptr, nullptr), NULL, "cusHeatmap: cur is NULL");
    CUS_REJECTS(cusHeatmap(&a.mat, &a.mat, nullptr, nullptr, nullptr), NULL, "cusHeatmap: dst is NULL");
    CUS_REJECTS(cusHeatmap(&empty, &a.mat, &out.mat, nullptr, nullptr), NULL, "prev is an empty matrix");
    CUS_REJECTS(cusHeatmap(&shorts.mat, &shorts.mat, &out.mat, nullptr, nullptr), TYPE,
                "cusHeatmap: prev has type 16SC1, expected 8UC1, 8UC3 or 8UC4");
    CUS_REJECTS(cusHeatmap(&a.mat, &gray.mat, &out.mat, nullptr, nullptr), TYPE,
                "cusHeatmap: cur has type 8UC1, expected 8UC3 like prev");
    CUS_REJECTS(cusHeatmap(&a.mat, &small.mat, &out.mat, nullptr, nullptr), SIZE,
                "cusHeatmap: cur is 4 x 5 (rows x cols), expected 4 x 6 like prev");
    CUS_REJECTS(cusHeatmap(&a.mat, &a.mat, &wrong.mat, nullptr, nullptr), SIZE, "dst does not own its memory");
    CUS_REJECTS(cusHeatmap(&a.mat, &a.mat, &a.mat, nullptr, nullptr), ALIAS, "cusHeatmap: dst overlaps prev");
    CUS_REJECTS(cusHeatmap(&a.mat, &out.mat, &out.mat, nullptr, nullptr), ALIAS, "cusHeatmap: dst overlaps cur");
    const cusHeatmapOptions zero = {0, nullptr, {}}, large = {65536, nullptr, {}};
    CUS_REJECTS(cusHeatmap(&a.mat, &a.mat, &out.mat, &zero, nullptr), VALUE, "full_scale is 0, expected 1..65535");
    CUS_REJECTS(cusHeatmap(&a.mat, &a.mat, &out.mat, &large, nullptr), VALUE, "full_scale is 65536");
    CUS_REJECTS(cusNoiseView(&a.mat, &a.mat, &out.mat, -1, nullptr), VALUE, "threshold is -1, expected 0..765");
    CUS_REJECTS(cusNoiseView(&a.mat, &a.mat, &out.mat, 766, nullptr), VALUE, "cusNoiseView: threshold is 766");
    EXPECT_EQ(out.get(), Bytes(4 * 6 * 3, 0xA5)) << "a rejected call wrote its output";
}

TEST(FramediffSpaces, MixedSpacesAreNamed) {
    // Needs no GPU: only the headers of the matrices are checked.
    uint8_t bytes[12] = {};
    cusMat host = CUS_MAT_INIT, device = CUS_MAT_INIT, out = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&host, 2, 2, CUS_8UC3, CUS_HOST, bytes, 0));
    CUS_ASSERT_OK(cusMatWrap(&device, 2, 2, CUS_8UC3, CUS_DEVICE, bytes, 0));
    CUS_REJECTS(cusHeatmap(&host, &device, &out, nullptr, nullptr), SPACE,
                "cusHeatmap: cur is in CUS_DEVICE, expected CUS_HOST like prev");
    EXPECT_EQ(out.data, nullptr);
    Encoder encoder({2, 2, 3}, CUS_HOST);
    Diff diff({2, 2, 3}, CUS_HOST);
    CUS_REJECTS(cusDiffEncode(encoder.p, &device, &diff.d, nullptr), SPACE,
                "cusDiffEncode: frame is in CUS_DEVICE, expected CUS_HOST like the encoder");
}

// ---- Sparse difference -----------------------------------------------------------------------------------------------

TEST_P(Framediff, EncodeWorkedExample) {
    // threshold 20: +21 and -21 are sent, +-20 are kept back until they have grown.
    const Shape s{1, 6, 1};
    Encoder encoder(s, space());
    Diff diff(s, space());
    const Bytes key = {100, 100, 100, 100, 0, 255}, cur = {121, 79, 120, 80, 255, 0}, later = {121, 79, 125, 80, 255, 0};
    TestMat k(1, 6, CUS_8UC1, space(), {}, key.data()), c(1, 6, CUS_8UC1, space(), {}, cur.data());
    TestMat l(1, 6, CUS_8UC1, space(), {}, later.data());
    CUS_ASSERT_OK(cusDiffEncoderReset(encoder.p, &k.mat, nullptr));
    CUS_ASSERT_OK(cusDiffEncode(encoder.p, &c.mat, &diff.d, nullptr));
    expectEqual(diff.entries(), {{0, 1, 4, 5}, {21, static_cast<uint8_t>(-21), 255, 1}}, "first");
    EXPECT_EQ(encoder.reference(), (Bytes{121, 79, 100, 100, 255, 0}));
    EXPECT_EQ(support::elements(diff.d.mask), (Bytes{0x33}));
    CUS_ASSERT_OK(cusDiffEncode(encoder.p, &l.mat, &diff.d, nullptr));
    expectEqual(diff.entries(), {{2}, {25}}, "grown past the threshold");
}

TEST_P(Framediff, EncodeAllSizesTypesLayouts) {
    auto random = support::generator();
    for (auto [rows, cols] : support::sizes())
        for (int channels : {1, 3, 4}) {
            const Shape s{rows, cols, channels};
            const auto layouts = support::layouts(CUS_8UC1);
            const auto layout = layouts[random() % layouts.size()];
            for (int min_neighbors : {0, static_cast<int>(1 + random() % 8)}) {
                const int threshold = static_cast<int>(random() % 4 ? 20 : random() % 256);
                const std::string where = describe(s) + " threshold " + std::to_string(threshold) + " neighbors " +
                                          std::to_string(min_neighbors) + " padding " + std::to_string(layout.padding);
                Lists lists(s, space(), allBytes(s));
                Link link(s, space(), min_neighbors, layout, threshold);
                Bytes cur = support::randomBytes(s.bytes(), random);
                for (int frame = 0; frame < 4; ++frame, cur = nextFrame(cur, random)) {
                    link.send(cur, lists, where + " frame " + std::to_string(frame));
                    for (size_t i = 0; i < cur.size() && min_neighbors == 0; ++i)
                        ASSERT_LE(std::abs(link.reference()[i] - cur[i]), threshold) << where << " byte " << i;
                }
            }
        }
}

// With and without the processor's vector instructions: the same lists, and no write outside them.
TEST(FramediffHost, EveryProcessorWritesTheSameAndOnlyThat) {
    auto random = support::generator();
    for (const Shape s : {Shape{1, 1, 1}, Shape{3, 21, 3}, Shape{2, 64, 1}, Shape{5, 700, 3}, Shape{300, 333, 4}})
        for (const int min_neighbors : {0, 3})
            for (const double share : {0.02, 0.4, 1.0})
                for (const bool vbmi2 : {false, true}) {
                    Encoder encoder(s, CUS_HOST, {20, min_neighbors, {}});
                    encoder.p->vbmi2 = encoder.p->vbmi2 && vbmi2;
                    Bytes ref = support::randomBytes(s.bytes(), random);
                    const Bytes cur = nextFrame(ref, random, share);
                    TestMat r(s.rows, s.cols, typeOf(s.channels), CUS_HOST, {}, ref.data());
                    TestMat c(s.rows, s.cols, typeOf(s.channels), CUS_HOST, {5, 3}, cur.data());
                    const auto want = reference::encode(ref, cur, s, 20, min_neighbors);
                    const int changes = std::max(1, static_cast<int>(want.positions.size()));
                    for (const int room : {changes, static_cast<int>(s.bytes())}) {
                        const std::string where = describe(s) + " neighbors " + std::to_string(min_neighbors) + " share " +
                                                  std::to_string(share) + " vectors " + std::to_string(encoder.p->vbmi2) +
                                                  " room " + std::to_string(room);
                        CUS_ASSERT_OK(cusDiffEncoderReset(encoder.p, &r.mat, nullptr));
                        TestMat positions(1, room, CUS_32SC1, CUS_HOST), values(1, room, CUS_8UC1, CUS_HOST);
                        TestMat count(1, 1, CUS_32SC1, CUS_HOST);
                        cusSparseDiff diff = {positions.mat, values.mat, count.mat, CUS_MAT_INIT,
                                              static_cast<uint32_t>(room)};
                        CUS_ASSERT_OK(cusDiffEncode(encoder.p, &c.mat, &diff, nullptr));
                        ASSERT_EQ(count.get<uint32_t>()[0], want.positions.size()) << where;
                        auto got = positions.get<uint32_t>();
                        auto got_values = values.get();
                        got.resize(want.positions.size());
                        got_values.resize(want.values.size());
                        expectEqual({got, got_values}, want, where);
                        ASSERT_TRUE(encoder.reference() == ref) << where;
                        ASSERT_TRUE(positions.intact() && values.intact() && count.intact()) << where;
                    }
                }
}

TEST_P(Framediff, ThresholdZeroIsLosslessAndUnchangedIsEmpty) {
    auto random = support::generator();
    const Shape s{67, 93, 3};
    Lists lists(s, space(), allBytes(s));
    Link link(s, space(), 0, {}, 0);
    for (int frame = 0; frame < 3; ++frame) {
        const Bytes cur = support::randomBytes(s.bytes(), random);
        link.send(cur, lists, "new");
        ASSERT_TRUE(link.reference() == cur);
        link.send(cur, lists, "unchanged");
        uint32_t count = 1;
        CUS_ASSERT_OK(cusSparseDiffCount(&lists.diff, &count, nullptr));
        EXPECT_EQ(count, 0u);
    }
}

TEST_P(Framediff, ResetMakesAKeyFrame) {
    const Shape s{9, 11, 4};
    auto random = support::generator();
    const Bytes key = support::randomBytes(s.bytes(), random);
    TestMat k(s.rows, s.cols, CUS_8UC4, space(), {4, 0}, key.data());
    Encoder encoder(s, space());
    Decoder decoder(s, space());
    CUS_ASSERT_OK(cusDiffEncoderReset(encoder.p, &k.mat, nullptr));
    CUS_ASSERT_OK(cusDiffDecoderReset(decoder.p, &k.mat, nullptr));
    EXPECT_EQ(encoder.reference(), key);
    EXPECT_EQ(decoder.frame(), key);
    CUS_ASSERT_OK(cusDiffEncoderReset(encoder.p, nullptr, nullptr));
    EXPECT_EQ(encoder.reference(), Bytes(s.bytes(), 0));
}

TEST_P(Framediff, ObjectsRejectBadArguments) {
    const Shape s{4, 6, 3};
    cusDiffEncoder *none = nullptr;
    cusDiffDecoder *no_decoder = nullptr;
    const auto make = [&](int rows, int cols, int type, cusDiffOptions options) {
        return cusDiffEncoderCreate(&none, rows, cols, type, space(), &options);
    };
    CUS_REJECTS(cusDiffEncoderCreate(nullptr, 4, 6, CUS_8UC3, space(), nullptr), NULL, "encoder is NULL");
    CUS_REJECTS(make(0, 6, CUS_8UC3, {20, 0, {}}), VALUE, "cusDiffEncoderCreate: frame is 0 x 6");
    CUS_REJECTS(make(4, -1, CUS_8UC3, {20, 0, {}}), VALUE, "frame is 4 x -1");
    CUS_REJECTS(make(4, 6, CUS_32FC1, {20, 0, {}}), TYPE, "type is 32FC1, expected 8UC1, 8UC3 or 8UC4");
    CUS_REJECTS(make(4, 6, CUS_8UC3, {256, 0, {}}), VALUE, "threshold is 256, expected 0..255");
    CUS_REJECTS(make(4, 6, CUS_8UC3, {-1, 0, {}}), VALUE, "threshold is -1");
    CUS_REJECTS(make(4, 6, CUS_8UC3, {20, 9, {}}), VALUE, "min_neighbors is 9, expected 0..8");
    CUS_REJECTS(make(65536, 65536, CUS_8UC1, {20, 0, {}}), SIZE, "expected at most 4294967294");
    CUS_REJECTS(cusDiffDecoderCreate(&no_decoder, 65536, 65536, CUS_8UC4, space()), SIZE, "cusDiffDecoderCreate");
    CUS_REJECTS(cusDiffEncoderCreate(&none, 4, 6, CUS_8UC3, static_cast<cusSpace>(7), nullptr), VALUE, "space is 7");
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(no_decoder, nullptr);

    Encoder encoder(s, space());
    Decoder decoder(s, space());
    Diff diff(s, space());
    TestMat frame(4, 6, CUS_8UC3, space()), taller(5, 6, CUS_8UC3, space()), gray(4, 6, CUS_8UC1, space());
    frame.set(Bytes(s.bytes(), 0).data());
    CUS_REJECTS(cusDiffEncode(nullptr, &frame.mat, &diff.d, nullptr), NULL, "cusDiffEncode: encoder is NULL");
    CUS_REJECTS(cusDiffEncode(encoder.p, nullptr, &diff.d, nullptr), NULL, "frame is NULL");
    CUS_REJECTS(cusDiffEncode(encoder.p, &frame.mat, nullptr, nullptr), NULL, "diff is NULL");
    CUS_REJECTS(cusDiffEncode(encoder.p, &taller.mat, &diff.d, nullptr), SIZE,
                "cusDiffEncode: frame is 5 x 6 (rows x cols), expected 4 x 6 like the encoder");
    CUS_REJECTS(cusDiffEncode(encoder.p, &gray.mat, &diff.d, nullptr), TYPE, "expected 8UC3 like the encoder");
    cusSparseDiff empty = CUS_SPARSE_DIFF_INIT;
    CUS_REJECTS(cusDiffEncode(encoder.p, &frame.mat, &empty, nullptr), NULL, "diff is empty");
    CUS_REJECTS(cusDiffDecode(decoder.p, &empty, nullptr), NULL, "diff is empty");
    CUS_REJECTS(cusDiffDecode(nullptr, &diff.d, nullptr), NULL, "cusDiffDecode: decoder is NULL");
    uint32_t count = 0;
    CUS_REJECTS(cusSparseDiffCount(&empty, &count, nullptr), NULL, "diff is empty");
    CUS_REJECTS(cusSparseDiffCount(&diff.d, nullptr, nullptr), NULL, "count is NULL");
    Diff other({5, 9, 3}, space());
    CUS_REJECTS(cusDiffEncode(encoder.p, &frame.mat, &other.d, nullptr), SIZE,
                "diff's mask is 5 x 4 (rows x cols), expected 4 x 3");
    cusMat view = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusDiffEncoderReference(encoder.p, &view));
    CUS_REJECTS(cusDiffEncode(encoder.p, &view, &diff.d, nullptr), ALIAS, "frame overlaps the encoder's reference");
    CUS_REJECTS(cusDiffEncoderReset(encoder.p, &taller.mat, nullptr), SIZE, "cusDiffEncoderReset: frame is 5 x 6");
    CUS_REJECTS(cusDiffEncoderReference(encoder.p, nullptr), NULL, "view is NULL");
    CUS_REJECTS(cusDiffDecoderFrame(nullptr, &view), NULL, "decoder is NULL");
    EXPECT_EQ(encoder.reference(), Bytes(s.bytes(), 0));
    cusDiffEncoderDestroy(nullptr);
    cusDiffDecoderDestroy(nullptr);
    cusSparseDiffRelease(nullptr);
}

TEST(FramediffHost, DecodeRejectsBadPositions) {
    const Shape s{2, 3, 1};
    Decoder decoder(s, CUS_HOST);
    Diff diff(s, CUS_HOST);
    auto *positions = static_cast<uint32_t *>(diff.d.positions.data);
    auto *count = static_cast<uint32_t *>(diff.d.count.data);
    std::memset(diff.d.values.data, 1, 6);
    *count = 2;
    positions[0] = 1;
    positions[1] = 6;
    CUS_REJECTS(cusDiffDecode(decoder.p, &diff.d, nullptr), VALUE, "position 1 is 6 after 1");
    positions[1] = 1;
    CUS_REJECTS(cusDiffDecode(decoder.p, &diff.d, nullptr), VALUE, "expected ascending positions below 6");
    *count = 7;
    CUS_REJECTS(cusDiffDecode(decoder.p, &diff.d, nullptr), CAPACITY, "7 bytes changed, its capacity is 6");
    EXPECT_EQ(decoder.frame(), Bytes(6, 0));
}

// A list long enough for several threads: an error anywhere, including where their parts meet, leaves the frame unchanged.
TEST(FramediffHost, DecodeOfALongListIsAllOrNothing) {
    const Shape s{211, 333, 3};
    auto random = support::generator();
    for (const uint32_t count : {255u, 256u, 257u, 16383u, 16384u, 49151u, 49152u, 100000u}) {
        SCOPED_TRACE(count);
        Decoder decoder(s, CUS_HOST);
        Diff diff(s, CUS_HOST);
        auto *positions = static_cast<uint32_t *>(diff.d.positions.data);
        auto *values = static_cast<uint8_t *>(diff.d.values.data);
        *static_cast<uint32_t *>(diff.d.count.data) = count;
        const uint64_t bytes = s.bytes();
        for (uint32_t k = 0; k < count; ++k) {
            positions[k] = static_cast<uint32_t>(bytes - 1 - (count - 1 - k) * bytes / count);
            values[k] = static_cast<uint8_t>(random());
        }
        std::vector<uint32_t> places = {0, count - 2};
        for (uint32_t parts = 2; parts <= 8; ++parts)
            for (uint32_t part = 1; part < parts; ++part)
                for (const int off : {-2, -1, 0})
                    places.push_back(static_cast<uint32_t>(uint64_t{count} * part / parts) + static_cast<uint32_t>(off));
        for (const uint32_t k : places) {
            std::swap(positions[k], positions[k + 1]);
            CUS_REJECTS(cusDiffDecode(decoder.p, &diff.d, nullptr), VALUE, "position " + std::to_string(k + 1) + " is ");
            std::swap(positions[k], positions[k + 1]);
        }
        ASSERT_EQ(decoder.frame(), Bytes(s.bytes(), 0));
        CUS_ASSERT_OK(cusDiffDecode(decoder.p, &diff.d, nullptr));
        Bytes expected(s.bytes(), 0);
        for (uint32_t k = 0; k < count; ++k)
            expected[positions[k]] = values[k];
        ASSERT_TRUE(decoder.frame() == expected);
    }
}

TEST(FramediffCuda, DecodeSkipsPositionsOutsideTheFrame) {
    CUS_NEEDS(CUS_DEVICE);
    const Shape s{2, 3, 1};
    Decoder decoder(s, CUS_DEVICE);
    Diff diff(s, CUS_DEVICE);
    uint32_t positions[6] = {1, 6, 0xffffffffu, 0, 0, 0}, count = 3;
    uint8_t values[6] = {5, 5, 5, 5, 5, 5};
    const auto upload = [](void *from, int type, cusMat *to) {
        cusMat host = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatWrap(&host, to->rows, to->cols, type, CUS_HOST, from, 0));
        CUS_ASSERT_OK(cusMatUpload(&host, to, nullptr));
    };
    upload(positions, CUS_32SC1, &diff.d.positions);
    upload(values, CUS_8UC1, &diff.d.values);
    upload(&count, CUS_32SC1, &diff.d.count);
    CUS_ASSERT_OK(cusDiffDecode(decoder.p, &diff.d, nullptr));
    EXPECT_EQ(decoder.frame(), (Bytes{0, 5, 0, 0, 0, 0}));
}

TEST_P(Framediff, TwoThreadsTwoStreams) {
    // Two encoders at once, each on its own stream, each against the reference.
    const Shape s{241, 643, 3};
    const auto one = [&](uint64_t seed) {
        std::mt19937_64 random(seed);
        support::Owned<cusStreamDestroy> stream;
        if (space() == CUS_DEVICE)
            ASSERT_EQ(cusStreamCreate(&stream), CUS_OK) << cusLastError();
        Encoder encoder(s, space(), {20, 0, {}});
        Diff diff(s, space());
        Bytes ref(s.bytes(), 0), cur = support::randomBytes(s.bytes(), random);
        TestMat c(s.rows, s.cols, CUS_8UC3, space()), heat(s.rows, s.cols, CUS_8UC3, space());
        for (int frame = 0; frame < 8; ++frame) {
            const Bytes last = ref;
            c.set(cur.data());
            ASSERT_EQ(cusDiffEncode(encoder.p, &c.mat, &diff.d, stream), CUS_OK) << cusLastError();
            ASSERT_EQ(cusHeatmap(&c.mat, &c.mat, &heat.mat, nullptr, stream), CUS_OK) << cusLastError();
            if (stream)
                ASSERT_EQ(cusStreamSynchronize(stream), CUS_OK) << cusLastError();
            expectEqual(diff.entries(), reference::encode(ref, cur, s, 20, 0), "frame " + std::to_string(frame));
            EXPECT_EQ(heat.get()[0], 255);
            cur = nextFrame(cur, random);
        }
    };
    std::thread other(one, support::seed() + 1);
    one(support::seed());
    other.join();
}

TEST(FramediffCuda, EncodeLargePast2GiB) {
    // 47000 x 47000: 2.2e9 bytes, so byte offsets pass 2^31. Changes at both ends and around 2^31.
    CUS_NEEDS(CUS_DEVICE);
    cusDeviceInfo info;
    CUS_ASSERT_OK(cusDeviceQuery(0, &info));
    if (info.memory_free < (size_t{40} << 30))
        GTEST_SKIP() << "less than 40 GiB of device memory free";
    const Shape s{47000, 47000, 1};
    Encoder encoder(s, CUS_DEVICE, {20, 0, {}});
    Decoder decoder(s, CUS_DEVICE);
    Diff diff(s, CUS_DEVICE, 1000, false);
    support::Mat frame, heat;
    CUS_ASSERT_OK(cusMatCreate(&frame, s.rows, s.cols, CUS_8UC1, CUS_DEVICE));
    CUS_ASSERT_OK(cusMatSetZero(&frame, nullptr));
    reference::Entries want;
    for (uint64_t p : {0ull, 46999ull, 47000ull, 2147483647ull, 2147483648ull, 2208999999ull}) {
        cusMat one = CUS_MAT_INIT, host = CUS_MAT_INIT;
        uint8_t value = static_cast<uint8_t>(100 + p % 100);
        CUS_ASSERT_OK(cusMatRegion(&frame, static_cast<int>(p % 47000), static_cast<int>(p / 47000), 1, 1, &one));
        CUS_ASSERT_OK(cusMatWrap(&host, 1, 1, CUS_8UC1, CUS_HOST, &value, 0));
        CUS_ASSERT_OK(cusMatUpload(&host, &one, nullptr));
        CUS_ASSERT_OK(cusStreamSynchronize(nullptr));
        want.positions.push_back(static_cast<uint32_t>(p));
        want.values.push_back(value);
    }
    CUS_ASSERT_OK(cusDiffEncode(encoder.p, &frame, &diff.d, nullptr));
    expectEqual(diff.entries(), want, "2.2 GB");
    CUS_ASSERT_OK(cusDiffDecode(decoder.p, &diff.d, nullptr));
    cusMat view = CUS_MAT_INIT, last = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusDiffDecoderFrame(decoder.p, &view));
    CUS_ASSERT_OK(cusMatRegion(&view, 0, 46999, 47000, 1, &last));
    EXPECT_EQ(support::elements(last).back(), want.values.back());
    // The heatmap of it is 6.6e9 bytes.
    CUS_ASSERT_OK(cusHeatmap(&view, &frame, &heat, nullptr, nullptr));
    CUS_ASSERT_OK(cusMatRegion(&heat, 0, 46999, 47000, 1, &last));
    const Bytes row = support::elements(last);
    EXPECT_EQ(Bytes(row.end() - 3, row.end()), (Bytes{255, 0, 0}));
}

TEST(FramediffCuda, OutOfDeviceMemoryIsAClearError) {
    CUS_NEEDS(CUS_DEVICE);
    // Allocates large diffs until device memory is exhausted.
    std::vector<cusSparseDiff> diffs;
    cusStatus status = CUS_OK;
    for (int i = 0; i < 200 && status == CUS_OK; ++i) {
        cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
        status = cusSparseDiffCreate(&diff, 40000, 40000, CUS_8UC1, 0, 0, CUS_DEVICE);
        if (status == CUS_OK)
            diffs.push_back(diff);
        else
            EXPECT_EQ(diff.positions.data, nullptr);
    }
    CUS_REJECTS(status, NO_MEMORY, "no device memory for");
    for (auto &diff : diffs)
        cusSparseDiffRelease(&diff);
    // The device remains usable.
    Encoder encoder({480, 640, 3}, CUS_DEVICE);
    EXPECT_EQ(encoder.reference(), Bytes(480 * 640 * 3, 0));
}
