// Poses against the definition.
#include "../support.hpp"

#include "reference/pose.hpp"

#include "cusight/match.h"

namespace {

using reference::PosePicture;

cusPoseOptions squaredDifferences() {
    cusPoseOptions options = cusPoseDefaults();
    options.method = CUS_MATCH_SQDIFF;
    return options;
}

struct Case {
    PosePicture picture, templ;
    std::vector<uint8_t> mask;
    std::vector<double> angles, scales;
    cusPoseOptions options = squaredDifferences();
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
    for (int i = 1 + below(random, 3); i > 0; --i)
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
    c.options.refine = below(random, 2);
    if (below(random, 4) == 0)
        c.options.score_limit = c.options.method == CUS_MATCH_SQDIFF ? below(random, 3000) : below(random, 100) / 100.0;
    return c;
}

cusMat view(const PosePicture &p) {
    cusMat mat = CUS_MAT_INIT;
    EXPECT_EQ(cusMatWrap(&mat, p.rows, p.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(p.data.data()), 0), CUS_OK);
    return mat;
}

// A matcher of a case.
class Matcher {
  public:
    Matcher(const Case &c, cusSpace space)
        : case_(c), frame_(c.picture.rows, c.picture.cols, CUS_8UC1, space, {3, 1}, c.picture.data.data()) {
        cusPoseOptions o = c.options;
        o.angles.list = c.angles.data(), o.angles.count = static_cast<int>(c.angles.size());
        o.scales.list = c.scales.data(), o.scales.count = static_cast<int>(c.scales.size());
        support::TestMat templ(c.templ.rows, c.templ.cols, CUS_8UC1, space, {}, c.templ.data.data()),
            mask(c.templ.rows, c.templ.cols, CUS_8UC1, space);
        if (!c.mask.empty()) {
            mask.set(c.mask.data());
            o.mask = &mask.mat;
        }
        CUS_EXPECT_OK(cusPoseMatcherCreate(&matcher, &templ.mat, c.picture.rows, c.picture.cols, &o, nullptr));
    }
    std::vector<cusPoseMatch> run() {
        CUS_EXPECT_OK(cusPoseMatcherRun(matcher, &frame_.mat, nullptr));
        std::vector<cusPoseMatch> matches(static_cast<size_t>(case_.options.max_matches));
        int found = 0;
        CUS_EXPECT_OK(cusPoseMatcherGet(matcher, matches.data(), case_.options.max_matches, &found));
        matches.resize(static_cast<size_t>(found));
        return matches;
    }

    support::Owned<cusPoseMatcherDestroy> matcher;

  private:
    const Case &case_;
    support::TestMat frame_;
};

std::vector<cusPoseMatch> find(const Case &c, cusSpace space) {
    return Matcher(c, space).run();
}

bool equal(const Case &c, cusSpace space) {
    const auto expected = reference::bestPoses(
        reference::poseValues(c.picture, c.templ, c.mask, c.angles, c.scales, c.options.method), c.angles, c.options);
    const auto found = find(c, space);
    EXPECT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
        const cusPoseMatch &f = found[i];
        const reference::PoseValue &e = expected[i];
        EXPECT_TRUE(f.angle_index == e.angle && f.scale_index == e.scale && f.row == e.row && f.col == e.col)
            << "match " << i << ": pose " << f.angle_index << ", " << f.scale_index << " at row " << f.row << ", col "
            << f.col << ", expected " << e.angle << ", " << e.scale << " at " << e.row << ", " << e.col;
        EXPECT_EQ(f.score, e.score);
        EXPECT_EQ(f.pixels, e.n);
        reference::PoseRefined at = {e.x2 / 2.0, e.y2 / 2.0, c.angles[static_cast<size_t>(e.angle)],
                                     c.scales[static_cast<size_t>(e.scale)]};
        if (c.options.refine)
            at = reference::refinedPose(c.picture, c.templ, c.mask, c.angles, c.scales, c.options.method, e);
        EXPECT_EQ(f.x, at.x);
        EXPECT_EQ(f.y, at.y);
        EXPECT_EQ(f.angle, at.angle);
        EXPECT_EQ(f.scale, at.scale);
    }
    return !testing::Test::HasFailure();
}

class Pose : public support::SpaceTest {};
CUS_BOTH_SPACES(Pose);

TEST_P(Pose, RandomScenes) {
    auto random = support::generator();
    const char *more = std::getenv("CUSIGHT_TEST_POSE_SCENES");
    const int scenes = (more ? std::atoi(more) : 1500) / support::fewer();
    for (int i = 0; i < scenes; ++i) {
        SCOPED_TRACE(i);
        if (!equal(randomCase(random, 5 + i % 20), space()))
            break;
    }
}

// Large enough for all levels of blocks; those that CUSIGHT_TEST_POSE_LARGE asks for take seconds each.
TEST_P(Pose, AllLevels) {
    auto random = support::generator();
    const char *more = std::getenv("CUSIGHT_TEST_POSE_LARGE");
    const int small = 25 / support::fewer() + 1, large = more ? std::atoi(more) : 0;
    for (int i = 0; i < small + large; ++i) {
        SCOPED_TRACE(i);
        Case c = randomCase(random, i < small ? 100 : 300);
        c.angles.resize(std::min<size_t>(c.angles.size(), 2));
        if (!equal(c, space()))
            break;
    }
}

// At 0 degrees and scale 1 a pose is the template, and its best position that of the matcher.
TEST_P(Pose, IdentityIsTheMatcher) {
    auto random = support::generator();
    Case c = randomCase(random, 40);
    c.angles = {0}, c.scales = {1}, c.mask.clear();
    c.options = squaredDifferences();
    const auto found = find(c, space());
    ASSERT_EQ(found.size(), 1u);
    support::TestMat templ(c.templ.rows, c.templ.cols, CUS_8UC1, space(), {}, c.templ.data.data()),
        frame(c.picture.rows, c.picture.cols, CUS_8UC1, space(), {}, c.picture.data.data());
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = CUS_MATCH_SQDIFF;
    support::Owned<cusMatcherDestroy> matcher;
    CUS_ASSERT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, c.picture.rows, c.picture.cols, &options, nullptr));
    CUS_ASSERT_OK(cusMatcherRun(matcher, &frame.mat, nullptr, nullptr));
    cusMatch match;
    int n = 0;
    CUS_ASSERT_OK(cusMatcherGet(matcher, 0, &match, 1, &n, nullptr));
    EXPECT_EQ(match.x, found[0].col);
    EXPECT_EQ(match.y, found[0].row);
    EXPECT_EQ(match.score / found[0].pixels, found[0].score); // one rounding each
}

// A smooth texture, about the center of the part.
double textureAt(double x, double y) {
    const auto smooth = [](double t) { return t * t * (3 - 2 * t); };
    const auto value = [](double cx, double cy) {
        const auto h =
            (static_cast<uint64_t>(cx + 4096) * 1000003 + static_cast<uint64_t>(cy + 4096)) * 0x9E3779B97F4A7C15u;
        return static_cast<double>((h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 56);
    };
    const double u = x / 5, v = y / 5, left = std::floor(u), top = std::floor(v), fx = smooth(u - left),
                 fy = smooth(v - top);
    return (1 - fy) * ((1 - fx) * value(left, top) + fx * value(left + 1, top)) +
           fy * ((1 - fx) * value(left, top + 1) + fx * value(left + 1, top + 1));
}

// The part at (x0, y0), turned and scaled, in a picture with gray noise. cut: it is -20..20 by -20..16, on other ground.
PosePicture partAt(int side, double x0, double y0, double angle, double scale, int noise, std::mt19937_64 &random,
                   bool cut = false) {
    const double radians = angle * 3.14159265358979 / 180, c = std::cos(radians) / scale, s = std::sin(radians) / scale;
    PosePicture p{side, side, {}};
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
            const double dx = x - x0, dy = y - y0, tx = c * dx - s * dy, ty = s * dx + c * dy;
            const bool other = cut && (std::fabs(tx) > 20.5 || std::fabs(ty + 2) > 18.5);
            const double v = textureAt(tx + (other ? 900 : 0), ty);
            p.data.push_back(static_cast<uint8_t>(std::clamp(v + below(random, 2 * noise + 1) - noise + 0.5, 0.0, 255.0)));
        }
    return p;
}

// What refine promises in pose.h: the error over truths anywhere between the steps.
TEST_P(Pose, RefineAccuracy) {
    struct {
        cusMatchMethod method;
        double angle_step, scale_step; // 0: one scale
        int noise, rim;                // of the template, masked; 0: the texture goes on around the part
        double angle, scale, place;    // allowed: largest errors in degrees, of the scale and in pixels
    } cases[] = {{CUS_MATCH_SQDIFF, 3, 0, 0, 0, 0.1, 0, 0.03},
                 {CUS_MATCH_CCOEFF_NORMED, 2, 0, 0, 0, 0.1, 0, 0.03},
                 {CUS_MATCH_SQDIFF, 2, 0.03, 0, 0, 0.1, 0.003, 0.03},
                 {CUS_MATCH_CCOEFF_NORMED, 2, 0.03, 10, 0, 0.1, 0.003, 0.03},
                 {CUS_MATCH_CCOEFF_NORMED, 2, 0.03, 4, 2, 0.15, 0.005, 0.03}};
    std::mt19937_64 random; // the same truths each time: the figures are stated
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    for (const auto &k : cases) {
        random.seed(3);
        double angle = 0, scale = 0, place = 0;
        for (int i = 0; i < (support::fewer() > 1 ? 4 : 24); ++i) {
            Case c;
            const double turn = i == 0 ? 4 : 40 * uniform() - 20, size = 1 + k.scale_step * (4 * uniform() - 2);
            const double x0 = 38 + 3 * uniform(), y0 = 38 + 3 * uniform();
            c.templ = partAt(41, 20, 20, 0, 1, 0, random);
            c.templ.rows = 37, c.templ.data.resize(37 * 41); // its center is (20, 18)
            const double radians = turn * 3.14159265358979 / 180, s = 2 * size * std::sin(radians),
                         across = 2 * size * std::cos(radians);
            c.picture = partAt(80, x0, y0, turn, size, k.noise, random, k.rim > 0);
            for (int at = 0; k.rim > 0 && at < 37 * 41; ++at)
                c.mask.push_back(std::abs(at % 41 - 20) <= 20 - k.rim && std::abs(at / 41 - 18) <= 18 - k.rim);
            for (double a = -24; a <= 24; a += k.angle_step)
                c.angles.push_back(a);
            for (int j = -3; j <= 3; ++j)
                if (j == 0 || k.scale_step > 0)
                    c.scales.push_back(1 + j * k.scale_step);
            c.options.method = k.method;
            c.options.refine = 1;
            const auto found = find(c, space());
            ASSERT_EQ(found.size(), 1u);
            angle = std::max(angle, std::fabs(found[0].angle - turn));
            scale = std::max(scale, std::fabs(found[0].scale - size));
            place = std::max(place, std::hypot(found[0].x - (x0 - s), found[0].y - (y0 - across)));
        }
        SCOPED_TRACE(testing::Message() << "method " << k.method << ", steps " << k.angle_step << " and " << k.scale_step
                                        << ", rim " << k.rim);
        EXPECT_LE(angle, k.angle);
        EXPECT_LE(scale, k.scale);
        EXPECT_LE(place, k.place);
    }
}

// pose.h: where the number of columns that a pose takes is odd, its center lies on a pixel, otherwise between two; rows likewise.
TEST_P(Pose, Centers) {
    struct {
        int cols, rows;
        double angle, scale;
        int takes_cols, takes_rows;
    } cases[] = {{41, 37, 0, 1, 41, 37},   {40, 37, 0, 1, 40, 37},     {41, 37, 45, 1, 56, 56},   {41, 37, 30, 1, 55, 53},
                 {41, 36, -90, 1, 36, 41}, {41, 36, 180, 1.5, 62, 54}, {7, 30, 10, 0.75, 10, 24}, {11, 12, 5, 1, 13, 13}};
    auto random = support::generator();
    for (const auto &k : cases) {
        Case c;
        c.templ = picture(random, k.rows, k.cols);
        c.mask.assign(c.templ.data.size(), 255);
        std::fill_n(c.mask.begin(), k.cols / 2, uint8_t{0}); // trims the window, and leaves the center where it is
        c.picture = picture(random, 80, 80);
        c.angles = {k.angle}, c.scales = {k.scale};
        const auto found = find(c, space());
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(std::fmod(found[0].x, 1), k.takes_cols % 2 ? 0 : 0.5) << k.cols << " columns at " << k.angle;
        EXPECT_EQ(std::fmod(found[0].y, 1), k.takes_rows % 2 ? 0 : 0.5) << k.rows << " rows at " << k.angle;
    }
}

// A neighbor of a match at the end of a full turn is at its other end.
TEST_P(Pose, RefineAcrossTheTurn) {
    std::mt19937_64 random(5);
    Case c;
    c.templ = partAt(37, 18, 18, 0, 1, 0, random);
    c.picture = partAt(70, 34.3, 33.9, 180.9, 1, 0, random);
    for (int a = -180; a < 180; a += 3)
        c.angles.push_back(a);
    c.scales = {1};
    c.options.refine = 1;
    ASSERT_TRUE(equal(c, space()));
    EXPECT_NEAR(find(c, space())[0].angle, -179.1, 0.2);
    c.angles.assign({-180, -177, -174}); // at the end of a grid that is no full turn
    ASSERT_TRUE(equal(c, space()));
    EXPECT_EQ(find(c, space())[0].angle, -180);
}

// What poses are compared with is what the definition resamples.
TEST_P(Pose, Templates) {
    auto random = support::generator();
    for (int i = 0; i < 60 / support::fewer(); ++i) {
        SCOPED_TRACE(i);
        const Case c = randomCase(random, 30);
        Matcher m(c, space());
        int angles = 0, scales = 0;
        CUS_ASSERT_OK(cusPoseMatcherGrid(m.matcher, &angles, &scales));
        ASSERT_TRUE(angles == static_cast<int>(c.angles.size()) && scales == static_cast<int>(c.scales.size()));
        for (int a = 0; a < angles; ++a)
            for (int s = 0; s < scales; ++s) {
                const auto w = reference::poseWindow(c.templ, c.mask, c.angles[static_cast<size_t>(a)],
                                                     c.scales[static_cast<size_t>(s)]);
                if (w.rows == 0) {
                    CUS_REJECTS(cusPoseMatcherTemplate(m.matcher, a, s, nullptr, nullptr), VALUE,
                                "has no pixels that count, expected a pose with some");
                    continue;
                }
                std::vector<uint8_t> pixels, counts;
                for (const int v : w.pixels) {
                    pixels.push_back(static_cast<uint8_t>(std::max(v, 0)));
                    counts.push_back(v < 0 ? 0 : 255);
                }
                support::TestMat templ(w.rows, w.cols, CUS_8UC1, CUS_HOST, {5, 3});
                support::Mat mask; // created by the call
                CUS_ASSERT_OK(cusPoseMatcherTemplate(m.matcher, a, s, &templ.mat, &mask));
                EXPECT_TRUE(templ.intact());
                EXPECT_EQ(templ.get(), pixels);
                ASSERT_TRUE(mask.rows == w.rows && mask.cols == w.cols);
                EXPECT_EQ(support::elements(mask), counts);
            }
    }
}

// The number of threads, which OpenMP's runtime is asked for where there is one, changes no bit.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

TEST(PoseHost, AnyNumberOfThreads) {
    if (!omp_set_num_threads || !omp_get_max_threads)
        GTEST_SKIP() << "built without OpenMP";
    const int before = omp_get_max_threads();
    auto random = support::generator();
    for (int i = 0; i < 40 / support::fewer(); ++i) {
        SCOPED_TRACE(i);
        Case c = randomCase(random, i % 4 ? 20 : 100);
        c.options.max_matches = 3;
        std::vector<cusPoseMatch> first;
        for (const int threads : {1, 2, 5}) {
            omp_set_num_threads(threads);
            const auto found = find(c, CUS_HOST);
            if (threads == 1)
                first = found;
            ASSERT_EQ(found.size(), first.size());
            EXPECT_TRUE(found.empty() || std::memcmp(found.data(), first.data(), found.size() * sizeof found[0]) == 0)
                << threads << " threads";
        }
    }
    omp_set_num_threads(before);
}

// Every pose and position ties, or none has energy: the first is best.
TEST_P(Pose, FlatTemplate) {
    auto random = support::generator();
    Case c;
    c.templ = {9, 14, std::vector<uint8_t>(126, 77)};
    c.picture = picture(random, 30, 33);
    c.angles = {0, 33, 90}, c.scales = {1, 0.75};
    c.options.max_matches = 3;
    c.options.min_distance = 4;
    for (const int value : {77, 0, 255})
        for (const cusMatchMethod method :
             {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED}) {
            c.templ.data.assign(c.templ.data.size(), static_cast<uint8_t>(value));
            c.options.method = method;
            EXPECT_TRUE(equal(c, space())) << "value " << value << ", method " << method;
        }
    const cusPoseMatch first = find(c, space())[0];
    EXPECT_TRUE(first.score == 1 && first.angle_index == 0 && first.scale_index == 0 && first.row == 0 && first.col == 0);
}

// Poses that do not fit have no positions.
TEST_P(Pose, LargerThanTheFrame) {
    auto random = support::generator();
    Case c;
    c.templ = picture(random, 10, 40);
    c.picture = picture(random, 20, 45);
    c.angles = {90, 0, 45, 3}, c.scales = {2, 1};
    c.options.max_matches = 5;
    EXPECT_TRUE(equal(c, space()));
    EXPECT_FALSE(find(c, space()).empty());
    c.angles = {90};
    EXPECT_TRUE(find(c, space()).empty());
    c.picture = picture(random, 1, 1);
    c.angles = {0, 45};
    EXPECT_TRUE(find(c, space()).empty());
}

// n sum(I T) is above 2^63, which the sanitizers watch.
TEST_P(Pose, SumsOfWhitePixels) {
    Case c;
    c.templ = {3500, 3500, std::vector<uint8_t>(3500 * 3500, 255)};
    c.templ.data[3500 * 1700 + 900] = 3;
    c.picture = c.templ;
    c.angles = {0}, c.scales = {1};
    c.options.method = CUS_MATCH_CCOEFF_NORMED;
    const auto found = find(c, space());
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].score, 1);
}

class PoseErrors : public testing::Test {
  protected:
    template<class Change>
    void rejects(cusStatus status, const std::string &text, const Change &change) {
        cusPoseOptions o = cusPoseDefaults();
        change(o);
        CUS_EXPECT_ERROR(cusPoseMatcherCreate(&matcher, &templ, 9, 9, &o, nullptr), status,
                         "cusPoseMatcherCreate: " + text);
        EXPECT_EQ(matcher, nullptr);
    }
    static cusMat wrapped(int rows, int cols, int type, cusSpace space, std::vector<uint8_t> &data) {
        cusMat mat = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusMatWrap(&mat, rows, cols, type, space, data.data(), 0));
        return mat;
    }

    const PosePicture picture{4, 5, std::vector<uint8_t>(20, 7)};
    const cusMat templ = view(picture);
    support::Owned<cusPoseMatcherDestroy> matcher;
};

TEST_F(PoseErrors, Options) {
    using O = cusPoseOptions;
    const cusStatus value = CUS_ERROR_VALUE;
    const double nan = std::nan("");
    rejects(value, "method is 4, expected CUS_MATCH_SQDIFF, or SQDIFF_NORMED, CCORR_NORMED or CCOEFF_NORMED",
            [](O &o) { o.method = CUS_MATCH_CCOEFF; });
    rejects(value, "max_matches is 0, expected 1..1024", [](O &o) { o.max_matches = 0; });
    rejects(value, "max_matches is 1025, expected 1..1024", [](O &o) { o.max_matches = 1025; });
    rejects(value, "min_distance is 0, expected at least 1", [](O &o) { o.min_distance = 0; });
    rejects(value, "min_angle is -1, expected 0..360", [](O &o) { o.min_angle = -1; });
    rejects(value, "min_angle is nan, expected 0..360", [=](O &o) { o.min_angle = nan; });
    rejects(value, "angles.step is 0, expected more than 0", [](O &o) { o.angles = {0, 10, 0, nullptr, 0}; });
    rejects(value, "angles.step is 1e-05, expected at most 65536 values", [](O &o) {
        o.angles = {0, 10, 1e-5, nullptr, 0};
    });
    rejects(value, "angles are 0 to 361, expected an ascending range within -360..360", [](O &o) {
        o.angles = {0, 361, 1, nullptr, 0};
    });
    rejects(value, "angles are 2 to 1, expected an ascending range", [](O &o) { o.angles = {2, 1, 1, nullptr, 0}; });
    rejects(value, "angles are nan to 1, expected an ascending range", [=](O &o) { o.angles = {nan, 1, 1, nullptr, 0}; });
    rejects(value, "scales are 0 to 1, expected an ascending range within 0.0625..16", [](O &o) {
        o.scales = {0, 1, 1, nullptr, 0};
    });
    const double list[] = {1, 17};
    rejects(value, "scales.list[1] is 17, expected 0.0625..16", [&](O &o) { o.scales.list = list, o.scales.count = 2; });
    rejects(value, "angles.count is 0, expected 1..65536", [&](O &o) { o.angles.list = list, o.angles.count = 0; });
    rejects(value, "721 angles and 100 scales, expected at most 65536 poses", [](O &o) {
        o.angles = {-360, 360, 1, nullptr, 0};
        o.scales = {1, 1.99, 0.01, nullptr, 0};
    });
    std::vector<uint8_t> zeros(60);
    cusMat mask = wrapped(4, 5, CUS_8UC1, CUS_HOST, zeros);
    const auto masked = [&](O &o) { o.mask = &mask; };
    rejects(value, "mask is all zero, expected a pixel that counts", masked);
    mask = wrapped(4, 6, CUS_8UC1, CUS_HOST, zeros);
    rejects(CUS_ERROR_SIZE, "mask is 4 x 6 (rows x cols), expected 4 x 5 like templ", masked);
    mask = wrapped(4, 5, CUS_8UC3, CUS_HOST, zeros);
    rejects(CUS_ERROR_TYPE, "mask has type 8UC3, expected 8UC1", masked);
    mask = wrapped(4, 5, CUS_8UC1, CUS_DEVICE, zeros);
    rejects(CUS_ERROR_SPACE, "mask is in CUS_DEVICE, expected CUS_HOST like templ", masked);
}

TEST_F(PoseErrors, Create) {
    const auto create = [&](const cusMat *t, int rows, int cols) {
        return cusPoseMatcherCreate(&matcher, t, rows, cols, nullptr, nullptr);
    };
    std::vector<uint8_t> zeros(8193);
    const cusMat empty = CUS_MAT_INIT, color = wrapped(4, 5, CUS_8UC3, CUS_HOST, zeros),
                 wide = wrapped(1, 8193, CUS_8UC1, CUS_HOST, zeros), half = wrapped(1, 5000, CUS_8UC1, CUS_HOST, zeros);
    CUS_REJECTS(cusPoseMatcherCreate(nullptr, &templ, 9, 9, nullptr, nullptr), NULL,
                "cusPoseMatcherCreate: matcher is NULL");
    CUS_REJECTS(create(nullptr, 9, 9), NULL, "cusPoseMatcherCreate: templ is NULL");
    CUS_REJECTS(create(&empty, 9, 9), NULL, "cusPoseMatcherCreate: templ is an empty matrix");
    CUS_REJECTS(create(&color, 9, 9), TYPE, "cusPoseMatcherCreate: templ has type 8UC3, expected 8UC1");
    CUS_REJECTS(create(&templ, 0, 9), VALUE,
                "cusPoseMatcherCreate: frames are 0 x 9 (rows x cols), expected at least 1 x 1");
    CUS_REJECTS(create(&templ, 9, -1), VALUE, "frames are 9 x -1 (rows x cols), expected at least 1 x 1");
    CUS_REJECTS(create(&templ, 1 << 16, 1 << 15), SIZE,
                "cusPoseMatcherCreate: frames are 65536 x 32768 (rows x cols), expected at most 2^30 pixels");
    CUS_REJECTS(create(&wide, 9, 9), SIZE,
                "cusPoseMatcherCreate: templ is 1 x 8193 (rows x cols), expected sides of at most 8192");
    cusPoseOptions o = cusPoseDefaults();
    o.scales = {1, 2, 1, nullptr, 0};
    CUS_REJECTS(cusPoseMatcherCreate(&matcher, &half, 9, 9, &o, nullptr), SIZE,
                "templ is 1 x 5000 (rows x cols) at scale 2, expected scaled sides of at most 8192 and 2^24 pixels");
    EXPECT_EQ(matcher, nullptr);
}

TEST_F(PoseErrors, Use) {
    std::vector<uint8_t> bytes(243);
    const cusMat frame = wrapped(9, 9, CUS_8UC1, CUS_HOST, bytes), color = wrapped(9, 9, CUS_8UC3, CUS_HOST, bytes),
                 device = wrapped(9, 9, CUS_8UC1, CUS_DEVICE, bytes);
    CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &templ, 9, 9, nullptr, nullptr));
    CUS_REJECTS(cusPoseMatcherRun(nullptr, &frame, nullptr), NULL, "cusPoseMatcherRun: matcher is NULL");
    CUS_REJECTS(cusPoseMatcherRun(matcher, nullptr, nullptr), NULL, "cusPoseMatcherRun: frame is NULL");
    CUS_REJECTS(cusPoseMatcherRun(matcher, &color, nullptr), TYPE, "cusPoseMatcherRun: frame has type 8UC3, expected 8UC1");
    CUS_REJECTS(cusPoseMatcherRun(matcher, &templ, nullptr), SIZE,
                "cusPoseMatcherRun: frame is 4 x 5 (rows x cols), expected 9 x 9 like the matcher");
    CUS_REJECTS(cusPoseMatcherRun(matcher, &device, nullptr), SPACE,
                "cusPoseMatcherRun: frame is in device memory, expected host like the matcher");

    int found = -1;
    cusPoseMatch match;
    CUS_ASSERT_OK(cusPoseMatcherGet(matcher, nullptr, 0, &found)); // before the first run
    EXPECT_EQ(found, 0);
    CUS_ASSERT_OK(cusPoseMatcherRun(matcher, &frame, nullptr));
    CUS_REJECTS(cusPoseMatcherGet(nullptr, &match, 1, &found), NULL, "cusPoseMatcherGet: matcher is NULL");
    CUS_REJECTS(cusPoseMatcherGet(matcher, &match, 1, nullptr), NULL, "cusPoseMatcherGet: found is NULL");
    CUS_REJECTS(cusPoseMatcherGet(matcher, nullptr, 1, &found), NULL, "cusPoseMatcherGet: matches is NULL");
    CUS_REJECTS(cusPoseMatcherGet(matcher, &match, -1, &found), VALUE,
                "cusPoseMatcherGet: capacity is -1, expected at least 0");
    CUS_REJECTS(cusPoseMatcherGet(matcher, &match, 0, &found), CAPACITY,
                "cusPoseMatcherGet: capacity is 0, expected at least 1");
    EXPECT_EQ(found, 1);

    CUS_REJECTS(cusPoseMatcherNearest(nullptr, &match, &found), NULL, "cusPoseMatcherNearest: matcher is NULL");
    CUS_REJECTS(cusPoseMatcherNearest(matcher, nullptr, &found), NULL, "cusPoseMatcherNearest: nearest is NULL");
    CUS_REJECTS(cusPoseMatcherNearest(matcher, &match, nullptr), NULL, "cusPoseMatcherNearest: found is NULL");

    const auto window = [&](int angle, int scale, cusMat *pixels, cusMat *mask) {
        return cusPoseMatcherTemplate(matcher, angle, scale, pixels, mask);
    };
    cusMat odd = frame, far = wrapped(4, 5, CUS_8UC1, CUS_DEVICE, bytes), fits = wrapped(4, 5, CUS_8UC1, CUS_HOST, bytes),
           same = fits;
    CUS_REJECTS(cusPoseMatcherTemplate(nullptr, 0, 0, &fits, nullptr), NULL, "cusPoseMatcherTemplate: matcher is NULL");
    CUS_REJECTS(window(1, 0, nullptr, nullptr), VALUE, "cusPoseMatcherTemplate: angle_index is 1, expected 0..0");
    CUS_REJECTS(window(0, -1, nullptr, nullptr), VALUE, "cusPoseMatcherTemplate: scale_index is -1, expected 0..0");
    CUS_REJECTS(
        window(0, 0, &odd, nullptr), SIZE,
        "cusPoseMatcherTemplate: templ does not own its memory and is 9 x 9 (rows x cols) 8UC1, expected 4 x 5 8UC1");
    CUS_REJECTS(window(0, 0, nullptr, &far), SPACE, "cusPoseMatcherTemplate: mask is in CUS_DEVICE, expected CUS_HOST");
    CUS_REJECTS(window(0, 0, &fits, &same), ALIAS, "cusPoseMatcherTemplate: mask overlaps templ");
    CUS_REJECTS(cusPoseMatcherGrid(nullptr, &found, nullptr), NULL, "cusPoseMatcherGrid: matcher is NULL");
}

} // namespace
