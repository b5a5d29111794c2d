#include "golden/golden.hpp"

#include "cusight/framediff.h"
#include "reference/framediff.hpp"

namespace golden {
namespace {

using reference::Shape;

// A sequence: noise, then frames in which a part of the bytes changes, some by little.
std::vector<Data> frames(Shape s, int percent, uint32_t seed) {
    Numbers next(seed);
    std::vector<Data> list(1, Data(s.bytes()));
    for (auto &b : list[0])
        b = static_cast<uint8_t>(next());
    for (int k = 1; k < 4; ++k) {
        Data frame = list.back();
        for (auto &b : frame)
            if (next.below(100) < percent)
                b = static_cast<uint8_t>(b + (next() & 1 ? next.below(41) - 20 : next.below(256)));
        list.push_back(frame);
    }
    return list;
}

Data expectedDiffs(const std::vector<Data> &list, Shape s, cusDiffOptions o) {
    Data data, ref(s.bytes()), decoded(s.bytes());
    for (const Data &frame : list) {
        const auto entries = reference::encode(ref, frame, s, o.threshold, o.min_neighbors);
        reference::decode(decoded, entries);
        append(data, entries.positions);
        append(data, entries.values);
        append(data, reference::mask(entries, s));
        append(data, ref);
        append(data, decoded);
    }
    return data;
}

struct Diff : cusSparseDiff {
    Diff() : cusSparseDiff(CUS_SPARSE_DIFF_INIT) {}
    ~Diff() { cusSparseDiffRelease(this); }
};

Data computedDiffs(const std::vector<Data> &list, Shape s, cusDiffOptions o, cusSpace space, Layout layout) {
    const int type = CUS_MAKETYPE(CUS_8U, s.channels);
    support::Owned<cusDiffEncoderDestroy> encoder;
    support::Owned<cusDiffDecoderDestroy> decoder;
    Diff diff;
    Data data;
    CUS_EXPECT_OK(cusDiffEncoderCreate(&encoder, s.rows, s.cols, type, space, &o));
    CUS_EXPECT_OK(cusDiffDecoderCreate(&decoder, s.rows, s.cols, type, space));
    CUS_EXPECT_OK(cusSparseDiffCreate(&diff, s.rows, s.cols, type, 0, 1, space));
    if (testing::Test::HasFailure())
        return data;
    for (const Data &bytes : list) {
        TestMat frame(s.rows, s.cols, type, space, layout, bytes.data());
        uint32_t count = 0;
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusDiffEncode(encoder, &frame.mat, &diff, nullptr));
        CUS_EXPECT_OK(cusSparseDiffCount(&diff, &count, nullptr));
        CUS_EXPECT_OK(cusDiffDecode(decoder, &diff, nullptr));
        auto positions = support::elements<uint32_t>(diff.positions);
        auto values = support::elements(diff.values);
        positions.resize(count);
        values.resize(count);
        append(data, positions);
        append(data, values);
        append(data, support::elements(diff.mask));
        CUS_EXPECT_OK(cusDiffEncoderReference(encoder, &view));
        append(data, support::elements(view));
        CUS_EXPECT_OK(cusDiffDecoderFrame(decoder, &view));
        append(data, support::elements(view));
    }
    return data;
}

// Heatmap for a scale above 0, otherwise noise view.
Data computedPicture(const Data &before, const Data &after, Shape s, int scale, int threshold, cusSpace space,
                     Layout layout) {
    const int type = CUS_MAKETYPE(CUS_8U, s.channels);
    TestMat prev(s.rows, s.cols, type, space, layout, before.data()),
        cur(s.rows, s.cols, type, space, layout, after.data());
    TestMat dst(s.rows, s.cols, CUS_8UC3, space, layout);
    cusHeatmapOptions options = cusHeatmapDefaults();
    options.full_scale = scale;
    if (scale > 0) {
        CUS_EXPECT_OK(cusHeatmap(&prev.mat, &cur.mat, &dst.mat, &options, nullptr));
    } else {
        CUS_EXPECT_OK(cusNoiseView(&prev.mat, &cur.mat, &dst.mat, threshold, nullptr));
    }
    EXPECT_TRUE(dst.intact());
    return dst.get();
}

Row diffRow(const std::vector<Data> &list, Shape s, cusDiffOptions o, const std::string &content, uint32_t seed) {
    return {"cusDiffEncode and cusDiffDecode",
            "threshold=" + std::to_string(o.threshold) + " min_neighbors=" + std::to_string(o.min_neighbors) + "; " +
                content,
            seed,
            sizeName(s.rows, s.cols),
            typeName(CUS_MAKETYPE(CUS_8U, s.channels)),
            [=] { return expectedDiffs(list, s, o); },
            [=](cusSpace space, Layout layout) { return computedDiffs(list, s, o, space, layout); }};
}

Row pictureRow(const Data &before, const Data &after, Shape s, int scale, int threshold, uint32_t seed) {
    return {
        scale > 0 ? "cusHeatmap" : "cusNoiseView",
        scale > 0 ? "full_scale=" + std::to_string(scale) : "threshold=" + std::to_string(threshold),
        seed,
        sizeName(s.rows, s.cols),
        typeName(CUS_MAKETYPE(CUS_8U, s.channels)),
        [=] {
            return scale > 0 ? reference::heatmap(before, after, s, scale)
                             : reference::noiseView(before, after, s, threshold);
        },
        [=](cusSpace space, Layout layout) { return computedPicture(before, after, s, scale, threshold, space, layout); }};
}

} // namespace

Row anyFramediff(Choices &choices) {
    const int channels[] = {1, 3, 4};
    const Shape s = {choices.between(1, 40), choices.between(1, 130), channels[choices.below(3)]};
    const int kind = choices.below(4), number = choices.below(65536);
    const Data first = choices.content(s.bytes()), second = choices.content(s.bytes());
    if (kind == 0)
        return pictureRow(first, second, s, std::max(1, number), 0, 0);
    if (kind == 1)
        return pictureRow(first, second, s, 0, number % 766, 0);
    return diffRow({first, second, first}, s, {number % 256, choices.below(9), {}}, "any", 0);
}

std::vector<Row> framediffRows() {
    std::vector<Row> rows;
    const uint32_t seed = 30;
    for (const Shape s : {Shape{1, 1, 1}, Shape{1, 77, 3}, Shape{63, 65, 4}, Shape{130, 257, 3}, Shape{241, 333, 1}}) {
        for (const int percent : {3, 60})
            for (const cusDiffOptions &o : {cusDiffOptions{0, 0, {}}, cusDiffOptions{20, 0, {}}, cusDiffOptions{20, 3, {}}})
                rows.push_back(diffRow(frames(s, percent, seed), s, o, std::to_string(percent) + " % change", seed));
        const auto list = frames(s, 60, seed);
        for (const int scale : {765, 510, 1000})
            rows.push_back(pictureRow(list[0], list[1], s, scale, 0, seed));
        for (const int threshold : {0, 30})
            rows.push_back(pictureRow(list[0], list[1], s, 0, threshold, seed));
    }
    return rows;
}

} // namespace golden
