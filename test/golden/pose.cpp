#include "golden/golden.hpp"

#include "cusight/pose.h"
#include "reference/pose.hpp"

namespace golden {
namespace {

using reference::PosePicture;

const cusMatchMethod METHODS[] = {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED,
                                  CUS_MATCH_CCOEFF_NORMED};
const char *const NAMES[] = {"sqdiff", "sqdiff-normed", "ccorr-normed", "ccoeff-normed"};

struct Case {
    PosePicture picture, templ;
    Data mask; // empty: none
    std::vector<double> angles, scales;
    cusPoseOptions options = cusPoseDefaults();
};

// Blobs of 8 x 8 pixels under noise, so that blocks differ.
PosePicture scene(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    std::vector<int> blobs;
    for (int i = 0; i < (rows / 8 + 1) * (cols / 8 + 1); ++i)
        blobs.push_back(next.below(200));
    PosePicture p{rows, cols, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            p.data.push_back(
                static_cast<uint8_t>(blobs[static_cast<size_t>(y / 8 * (cols / 8 + 1) + x / 8)] + next.below(56)));
    return p;
}

PosePicture cut(const PosePicture &from, int row, int col, int rows, int cols) {
    PosePicture part{rows, cols, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            part.data.push_back(static_cast<uint8_t>(from.at(row + y, col + x)));
    return part;
}

void appendMatch(Data &data, std::vector<int32_t> place, std::vector<double> pose) {
    append(data, place);
    append(data, pose);
}

Data expectedMatches(const Case &c) {
    Data data;
    const cusMatchMethod method = c.options.method;
    const auto values = reference::poseValues(c.picture, c.templ, c.mask, c.angles, c.scales, method);
    for (const reference::PoseValue &v : reference::bestPoses(values, c.angles, c.options)) {
        reference::PoseRefined at = {v.x2 / 2.0, v.y2 / 2.0, c.angles[static_cast<size_t>(v.angle)],
                                     c.scales[static_cast<size_t>(v.scale)]};
        if (c.options.refine)
            at = reference::refinedPose(c.picture, c.templ, c.mask, c.angles, c.scales, method, v);
        appendMatch(data, {v.angle, v.scale, v.row, v.col, static_cast<int32_t>(v.n)},
                    {at.x, at.y, at.angle, at.scale, v.score});
    }
    return data;
}

// Of all poses.
Data expectedTemplates(const Case &c) {
    Data data;
    for (const double angle : c.angles)
        for (const double scale : c.scales) {
            const reference::PoseWindow w = reference::poseWindow(c.templ, c.mask, angle, scale);
            append(data, std::vector<int32_t>{w.rows, w.cols});
            for (const int v : w.pixels)
                data.push_back(static_cast<uint8_t>(std::max(v, 0)));
            for (const int v : w.pixels)
                data.push_back(v < 0 ? 0 : 255);
        }
    return data;
}

void createMatcher(const Case &c, cusSpace space, Layout layout, cusPoseMatcher **matcher) {
    TestMat templ(c.templ.rows, c.templ.cols, CUS_8UC1, space, layout, c.templ.data.data());
    TestMat mask(c.templ.rows, c.templ.cols, CUS_8UC1, space, layout);
    cusPoseOptions o = c.options;
    o.angles.list = c.angles.data(), o.angles.count = static_cast<int>(c.angles.size());
    o.scales.list = c.scales.data(), o.scales.count = static_cast<int>(c.scales.size());
    if (!c.mask.empty()) {
        mask.set(c.mask.data());
        o.mask = &mask.mat;
    }
    CUS_EXPECT_OK(cusPoseMatcherCreate(matcher, &templ.mat, c.picture.rows, c.picture.cols, &o, nullptr));
}

Data computedMatches(const Case &c, cusSpace space, Layout layout) {
    Data data;
    support::Owned<cusPoseMatcherDestroy> matcher;
    createMatcher(c, space, layout, &matcher);
    TestMat frame(c.picture.rows, c.picture.cols, CUS_8UC1, space, layout, c.picture.data.data());
    std::vector<cusPoseMatch> matches(static_cast<size_t>(c.options.max_matches));
    int found = 0;
    CUS_EXPECT_OK(cusPoseMatcherRun(matcher, &frame.mat, nullptr));
    CUS_EXPECT_OK(cusPoseMatcherGet(matcher, matches.data(), c.options.max_matches, &found));
    matches.resize(static_cast<size_t>(found));
    for (const cusPoseMatch &m : matches)
        appendMatch(data, {m.angle_index, m.scale_index, m.row, m.col, m.pixels}, {m.x, m.y, m.angle, m.scale, m.score});
    return data;
}

Data computedTemplates(const Case &c, cusSpace space, Layout layout) {
    Data data;
    support::Owned<cusPoseMatcherDestroy> matcher;
    createMatcher(c, space, layout, &matcher);
    for (int i = 0; i < static_cast<int>(c.angles.size() * c.scales.size()); ++i) {
        const int scales = static_cast<int>(c.scales.size());
        support::Mat templ, mask;
        CUS_EXPECT_OK(cusPoseMatcherTemplate(matcher, i / scales, i % scales, &templ, &mask));
        append(data, std::vector<int32_t>{templ.rows, templ.cols});
        append(data, support::elements(templ));
        append(data, support::elements(mask));
    }
    return data;
}

Row row(const Case &c, bool templates, const std::string &name, uint32_t seed) {
    return {templates ? "cusPoseMatcherTemplate" : "cusPoseMatcherRun",
            name,
            seed,
            sizeName(c.picture.rows, c.picture.cols),
            "8UC1",
            [=] { return templates ? expectedTemplates(c) : expectedMatches(c); },
            [=](cusSpace space, Layout layout) {
                return templates ? computedTemplates(c, space, layout) : computedMatches(c, space, layout);
            }};
}

// A template of rows x cols, cut out of its picture or, turned by 30 degrees, put into it.
Case caseOf(int rows, int cols, int margin, bool turned, bool masked, uint32_t seed) {
    Case c;
    c.picture = scene(rows + margin, cols + margin, seed);
    c.templ = turned ? scene(rows, cols, seed + 1) : cut(c.picture, margin / 2, margin / 3, rows, cols);
    c.angles = {-30, 0, 30, 90, 137.5}, c.scales = {0.875, 1};
    Numbers next(seed + 2);
    for (int i = 0; masked && i < rows * cols; ++i)
        c.mask.push_back(i == 0 || next() % 256 ? 255 : 0);
    const auto w = reference::poseWindow(c.templ, {}, 30, 0.875);
    for (int y = 0; turned && y < w.rows && y + 3 < c.picture.rows; ++y)
        for (int x = 0; x < w.cols && x + 5 < c.picture.cols; ++x)
            if (const int v = w.pixels[static_cast<size_t>(y * w.cols + x)]; v >= 0)
                c.picture.data[static_cast<size_t>((y + 3) * c.picture.cols + x + 5)] = static_cast<uint8_t>(v ^ (x & 3));
    return c;
}

} // namespace

Row anyPose(Choices &choices) {
    Case c;
    const int h = choices.between(1, 30), w = choices.between(1, 40);
    c.picture = {h, w, choices.content(static_cast<size_t>(h * w))};
    const int rows = choices.between(1, std::min(h, 14)), cols = choices.between(1, std::min(w, 14));
    if (choices.yes())
        c.templ = cut(c.picture, choices.below(h - rows + 1), choices.below(w - cols + 1), rows, cols);
    else
        c.templ = {rows, cols, choices.content(static_cast<size_t>(rows * cols))};
    for (int i = choices.between(1, 3); i > 0; --i)
        c.angles.push_back(choices.yes() ? 90 * (choices.below(9) - 4) : choices.below(721) - 360);
    for (int i = choices.between(1, 2); i > 0; --i)
        c.scales.push_back(choices.yes() ? 1 : choices.between(1, 32) / 16.0);
    c.options.method = METHODS[choices.below(4)];
    c.options.max_matches = choices.between(1, 4);
    c.options.min_distance = choices.between(1, 6);
    c.options.min_angle = choices.yes() ? 360 : choices.below(181);
    c.options.refine = choices.yes();
    return row(c, false, "any", 0);
}

std::vector<Row> poseRows() {
    std::vector<Row> rows;
    const uint32_t seed = 60;
    const struct {
        int rows, cols, margin;
        bool turned;
    } shapes[] = {{11, 14, 12, true}, {23, 17, 20, false}, {90, 85, 20, true}};
    for (const auto &s : shapes)
        for (const bool masked : {false, true}) {
            Case c = caseOf(s.rows, s.cols, s.margin, s.turned, masked, seed);
            const std::string name = "template=" + sizeName(s.rows, s.cols) + (masked ? " mask" : "");
            rows.push_back(row(c, true, name, seed));
            for (const int method : {0, 1, 2, 3})
                for (const int matches : {1, 4}) {
                    c.options.method = METHODS[method];
                    c.options.max_matches = matches, c.options.min_distance = 3;
                    c.options.min_angle = matches > 1 ? 45 : 360;
                    c.options.refine = matches == 1;
                    rows.push_back(row(c, false,
                                       std::string(NAMES[method]) + " max_matches=" + std::to_string(matches) +
                                           (matches == 1 ? " refine " : " min_angle=45 ") + name,
                                       seed));
                }
        }
    return rows;
}

} // namespace golden
