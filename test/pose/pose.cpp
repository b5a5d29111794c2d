// Poses against the definition.
#include "../support.hpp"

#include "reference/pose.hpp"

#include "cusight/match.h"

namespace {

using reference::PosePicture;

struct Case {
    PosePicture picture, templ;
    std::vector<uint8_t> mask;
    std::vector<double> angles, scales;
    cusPoseOptions options = cusPoseDefaults();
};

int below(std::mt19937_64 &random, int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
}

// Patches of gray with `levels` values, or smooth ones; 1 level is flat.
PosePicture picture(std::mt19937_64 &random, int rows, int cols) {
    PosePicture p{rows, cols, {}};
    const int grain = 1 + below(random, 6), levels = below(random, 5) == 0 ? 1 + below(random, 3) : 256;
    const uint64_t salt = random();
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            const uint64_t h = (salt ^ (static_cast<uint64_t>(y / grain) * 1000003 + static_cast<uint64_t>(x / grain))) *
                               0x9E3779B97F4A7C15u;
            p.data.push_back(static_cast<uint8_t>((h >> 40) % static_cast<unsigned>(levels) +
                                                  (levels > 3 && grain > 1 ? random() % 8 : 0)));
        }
    return p;
}

Case randomCase(std::mt19937_64 &random, int largest) {
    Case c;
    c.templ = picture(random, 1 + below(random, largest), 1 + below(random, largest));
    c.picture = picture(random, c.templ.rows + below(random, largest), c.templ.cols + below(random, largest));
    const double first = below(random, 720) - 360 + (below(random, 2) ? 0.25 : 0);
    for (int i = 1 + below(random, 4); i > 0; --i)
        c.angles.push_back(below(random, 3) == 0 ? 90.0 * (below(random, 9) - 4)
                                                 : std::max(-360.0, std::min(360.0, first + 7.5 * i)));
    for (int i = 1 + below(random, 2); i > 0; --i)
        c.scales.push_back(below(random, 2) ? 1 : 0.5 + below(random, 16) / 16.0);
    if (below(random, 2)) { // the template lies in the picture, in a pose of the grid
        const auto w = reference::poseWindow(c.templ, {}, c.angles[0], c.scales[0]);
        for (int y = 0; y < std::min(w.rows, c.picture.rows); ++y)
            for (int x = 0; x < std::min(w.cols, c.picture.cols); ++x)
                if (const int v = w.pixels[static_cast<size_t>(y * w.cols + x)]; v >= 0)
                    c.picture.data[static_cast<size_t>(y * c.picture.cols + x)] =
                        static_cast<uint8_t>(std::min(255, v + below(random, 4)));
    }
    if (below(random, 3) == 0) {
        for (size_t i = 0; i < c.templ.data.size(); ++i)
            c.mask.push_back(static_cast<uint8_t>(below(random, 12) != 0));
        c.mask[0] = 1;
    }
    const cusMatchMethod methods[] = {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED,
                                      CUS_MATCH_CCOEFF_NORMED};
    c.options.method = methods[below(random, 4)];
    c.options.max_matches = below(random, 2) ? 1 : 1 + below(random, 4);
    c.options.min_distance = 1 + below(random, 6);
    c.options.min_angle = below(random, 2) ? 360 : 8 * below(random, 5);
    if (below(random, 4) == 0)
        c.options.score_limit = c.options.method == CUS_MATCH_SQDIFF ? below(random, 3000) : below(random, 100) / 100.0;
    return c;
}

cusMat view(const PosePicture &p) {
    cusMat mat = CUS_MAT_INIT;
    EXPECT_EQ(cusMatWrap(&mat, p.rows, p.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(p.data.data()), 0), CUS_OK);
    return mat;
}

std::vector<cusPoseMatch> find(const Case &c) {
    cusPoseOptions o = c.options;
    o.angles.list = c.angles.data(), o.angles.count = static_cast<int>(c.angles.size());
    o.scales.list = c.scales.data(), o.scales.count = static_cast<int>(c.scales.size());
    cusMat mask = CUS_MAT_INIT;
    if (!c.mask.empty()) {
        EXPECT_EQ(
            cusMatWrap(&mask, c.templ.rows, c.templ.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(c.mask.data()), 0),
            CUS_OK);
        o.mask = &mask;
    }
    const cusMat templ = view(c.templ), frame = view(c.picture);
    support::Owned<cusPoseMatcherDestroy> matcher;
    CUS_EXPECT_OK(cusPoseMatcherCreate(&matcher, &templ, c.picture.rows, c.picture.cols, &o));
    CUS_EXPECT_OK(cusPoseMatcherRun(matcher, &frame, nullptr));
    std::vector<cusPoseMatch> matches(static_cast<size_t>(o.max_matches));
    int found = 0;
    CUS_EXPECT_OK(cusPoseMatcherGet(matcher, matches.data(), o.max_matches, &found));
    matches.resize(static_cast<size_t>(found));
    return matches;
}

bool equal(const Case &c) {
    const auto expected = reference::bestPoses(
        reference::poseValues(c.picture, c.templ, c.mask, c.angles, c.scales, c.options.method), c.angles, c.options);
    const auto found = find(c);
    EXPECT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
        const cusPoseMatch &f = found[i];
        const reference::PoseValue &e = expected[i];
        EXPECT_TRUE(f.angle_index == e.angle && f.scale_index == e.scale && f.row == e.row && f.col == e.col)
            << "match " << i << ": pose " << f.angle_index << ", " << f.scale_index << " at row " << f.row << ", col "
            << f.col << ", expected " << e.angle << ", " << e.scale << " at " << e.row << ", " << e.col;
        EXPECT_EQ(f.score, e.score);
        EXPECT_EQ(f.pixels, e.n);
        EXPECT_TRUE(f.x == e.x2 / 2.0 && f.y == e.y2 / 2.0);
    }
    return !testing::Test::HasFailure();
}

TEST(Pose, RandomScenes) {
    auto random = support::generator();
    const char *more = std::getenv("CUSIGHT_TEST_POSE_SCENES");
    const int scenes = (more ? std::atoi(more) : 1500) / support::SLOWER;
    for (int i = 0; i < scenes; ++i) {
        SCOPED_TRACE(i);
        if (!equal(randomCase(random, 5 + i % 20)))
            break;
    }
}

// Large enough for all levels of blocks.
TEST(Pose, LargerScenes) {
    auto random = support::generator();
    for (int i = 0; i < 25 / support::SLOWER + 1; ++i) {
        SCOPED_TRACE(i);
        Case c = randomCase(random, 100);
        c.angles.resize(std::min<size_t>(c.angles.size(), 2));
        if (!equal(c))
            break;
    }
}

// At 0 degrees and scale 1 a pose is the template, and its best position that of the matcher.
TEST(Pose, IdentityIsTheMatcher) {
    auto random = support::generator();
    Case c = randomCase(random, 40);
    c.angles = {0}, c.scales = {1}, c.mask.clear();
    c.options = cusPoseDefaults();
    const auto found = find(c);
    ASSERT_EQ(found.size(), 1u);
    const cusMat templ = view(c.templ), frame = view(c.picture);
    support::Owned<cusMatcherDestroy> matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ, 1, c.picture.rows, c.picture.cols, nullptr, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame, nullptr, nullptr));
    cusMatch match;
    int n = 0;
    CUS_ASSERT_OK(cusMatcherGet(matcher, 0, &match, 1, &n, nullptr));
    EXPECT_EQ(match.x, found[0].col);
    EXPECT_EQ(match.y, found[0].row);
    EXPECT_EQ(match.score, found[0].score * found[0].pixels);
}

TEST(Pose, Errors) {
    const PosePicture picture{4, 5, std::vector<uint8_t>(20, 7)};
    cusMat templ = view(picture);
    support::Owned<cusPoseMatcherDestroy> matcher;
    cusPoseOptions o = cusPoseDefaults();
    CUS_REJECTS(cusPoseMatcherCreate(nullptr, &templ, 9, 9, &o), NULL, "cusPoseMatcherCreate: matcher is NULL");
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, nullptr, 9, 9, &o), NULL, "templ is NULL");
    o.method = CUS_MATCH_CCOEFF;
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "method is 4, expected CUS_MATCH_SQDIFF");
    o = cusPoseDefaults();
    o.angles = {0, 10, 0, nullptr, 0};
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "angles.step is 0, expected more than 0");
    o.angles = {0, 361, 1, nullptr, 0};
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE,
                "angles are 0 to 361, expected an ascending range within -360..360");
    o = cusPoseDefaults();
    o.scales = {0, 1, 1, nullptr, 0};
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "scales are 0 to 1, expected");
    o = cusPoseDefaults();
    o.min_angle = -1;
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "min_angle is -1, expected 0..360");
    o = cusPoseDefaults();
    o.min_distance = 0;
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "min_distance is 0");
    o = cusPoseDefaults();
    o.max_matches = 0;
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "max_matches is 0, expected 1..1024");
    const PosePicture zeros{4, 5, std::vector<uint8_t>(20, 0)};
    const cusMat mask = view(zeros);
    o = cusPoseDefaults();
    o.mask = &mask;
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o), VALUE, "mask is all zero");
    CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &templ, 9, 9, nullptr));
    CUS_REJECTS(cusPoseMatcherRun(matcher, &templ, nullptr), SIZE, "frame is 4 x 5 (rows x cols), expected 9 x 9");
    CUS_REJECTS(cusPoseMatcherTemplate(matcher, 1, 0, nullptr, nullptr), VALUE, "angle_index is 1, expected 0..0");
    int found = -1;
    CUS_ASSERT_OK(cusPoseMatcherGet(matcher, nullptr, 0, &found));
    EXPECT_EQ(found, 0);
}

} // namespace
