// Cancelling in calls on pictures.
#include "progress/support.hpp"

#include "cusight/match.h"
#include "cusight/pose.h"
#include "cusight/stereo.h"

#include <memory>

using namespace progress_test;

namespace {

std::vector<uint8_t> noise(size_t n, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<uint8_t> bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(random());
    return bytes;
}

using support::TestMat;

struct Matching {
    Matching(int side, int count, int rows, int cols, const std::function<void(cusMatcherOptions &)> &change,
             bool periodic = false)
        : frame(rows, cols, CUS_8UC1, CUS_HOST), color(rows, cols, CUS_8UC3, CUS_HOST) {
        std::vector<uint8_t> pixels = noise(static_cast<size_t>(rows * cols), 1);
        for (size_t i = 0; periodic && i < pixels.size(); ++i)
            pixels[i] = static_cast<uint8_t>(i % 4 * 60);
        frame.set(pixels.data());
        color.set(noise(static_cast<size_t>(3 * rows * cols), 2).data());
        for (int k = 0; k < count; ++k) {
            templates.push_back(CUS_MAT_INIT);
            CUS_EXPECT_OK(cusMatRegion(&frame.mat, 4 * k, 4, side, side, &templates.back()));
        }
        options = cusMatcherDefaults();
        change(options);
    }
    cusStatus create() {
        return cusMatcherCreate(&matcher, templates.data(), static_cast<int>(templates.size()), frame.mat.rows,
                                frame.mat.cols, &options, nullptr);
    }
    std::vector<uint8_t> matches() const {
        std::vector<uint8_t> bytes;
        for (int k = 0; k < static_cast<int>(templates.size()); ++k) {
            std::vector<cusMatch> found(static_cast<size_t>(options.max_matches));
            int n = 0;
            CUS_EXPECT_OK(cusMatcherGet(matcher, k, found.data(), options.max_matches, &n, nullptr));
            found.resize(static_cast<size_t>(n));
            append(bytes, found);
        }
        return bytes;
    }
    TestMat frame, color;
    std::vector<cusMat> templates;
    cusMatcherOptions options;
    support::Owned<cusMatcherDestroy> matcher;
};

TEST(Cancelling, MatcherCreate) {
    walk("cusMatcherCreate", 5, After::SAME, [] {
        const auto m =
            std::make_shared<Matching>(20, 5, 200, 200, [](cusMatcherOptions &o) { o.algorithm = CUS_MATCH_FFT; });
        return Work{[m] { return m->create(); },
                    [m] {
                        CUS_EXPECT_OK(cusMatcherRun(m->matcher, &m->frame.mat, nullptr, nullptr));
                        return m->matches();
                    }};
    });
}

void matcherRun(int least, int side, int count, bool periodic, const std::function<void(cusMatcherOptions &)> &change) {
    walk("cusMatcherRun", least, After::SAME, [=] {
        const auto m = std::make_shared<Matching>(side, count, 240, 240, change, periodic);
        CUS_EXPECT_OK(m->create());
        return Work{[m] { return cusMatcherRun(m->matcher, &m->frame.mat, nullptr, nullptr); },
                    [m] { return m->matches(); }};
    });
}

TEST(Cancelling, MatcherRunDirect) {
    matcherRun(20, 8, 3, false, [](cusMatcherOptions &o) { o.algorithm = CUS_MATCH_DIRECT, o.max_matches = 9; });
}

TEST(Cancelling, MatcherRunByTransforms) {
    matcherRun(15, 24, 4, false, [](cusMatcherOptions &o) { o.algorithm = CUS_MATCH_FFT, o.max_matches = 9; });
}

TEST(Cancelling, MatcherRunWhereAllPositionsAreAlike) {
    matcherRun(5, 24, 1, true, [](cusMatcherOptions &o) { o.algorithm = CUS_MATCH_FFT; });
}

TEST(Cancelling, MatcherRunOfABatch) {
    walk("cusMatcherRun", 15, After::SAME, [=] {
        const auto m = std::make_shared<Matching>(16, 1, 120, 120, [](cusMatcherOptions &o) { o.batch = 8; });
        CUS_EXPECT_OK(m->create());
        const auto frames = std::make_shared<std::vector<cusMat>>(8, m->frame.mat);
        return Work{[=] { return cusMatcherRun(m->matcher, frames->data(), nullptr, nullptr); },
                    [=] { return m->matches(); }};
    });
}

// Between the runs, matches are gone, not half.
TEST(Cancelling, MatcherHasNoMatchesAfterwards) {
    const Unset unset;
    Matching m(8, 2, 100, 100, [](cusMatcherOptions &) {});
    CUS_ASSERT_OK(m.create());
    CUS_ASSERT_OK(cusMatcherRun(m.matcher, &m.frame.mat, nullptr, nullptr));
    ASSERT_FALSE(m.matches().empty());
    Watch watch;
    watch.cancel_at = 1;
    watch.set();
    CUS_EXPECT_ERROR(cusMatcherRun(m.matcher, &m.frame.mat, nullptr, nullptr), CUS_ERROR_CANCELLED, "");
    EXPECT_TRUE(m.matches().empty());
}

TEST(Cancelling, MatcherInspect) {
    walk("cusMatcherInspect", 60, After::SAME, [] {
        const auto m = std::make_shared<Matching>(16, 2, 100, 100, [](cusMatcherOptions &o) { o.max_matches = 40; });
        m->color.mat.type = CUS_8UC3;
        CUS_EXPECT_OK(m->create());
        CUS_EXPECT_OK(cusMatcherRun(m->matcher, &m->frame.mat, nullptr, nullptr));
        return Work{[m] {
                        cusHsvRange range = {};
                        range.upper[0] = 100, range.upper[1] = range.upper[2] = 255;
                        return cusMatcherInspect(m->matcher, &m->color.mat, &range, 0.5, nullptr);
                    },
                    [m] { return m->matches(); }};
    });
}

struct Posing {
    explicit Posing(int matches) : frame(90, 110, CUS_8UC1, CUS_HOST), templ(16, 18, CUS_8UC1, CUS_HOST) {
        frame.set(noise(90 * 110, 3).data());
        templ.set(noise(16 * 18, 4).data());
        options = cusPoseDefaults();
        options.angles = {0, 345, 15, nullptr, 0};
        options.max_matches = matches;
        options.min_distance = 5;
        options.refine = 1;
    }
    cusStatus create() { return cusPoseMatcherCreate(&matcher, &templ.mat, 90, 110, &options, nullptr); }
    std::vector<uint8_t> matches() {
        std::vector<cusPoseMatch> found(static_cast<size_t>(options.max_matches));
        int n = 0;
        CUS_EXPECT_OK(cusPoseMatcherGet(matcher, found.data(), options.max_matches, &n));
        std::vector<uint8_t> bytes;
        for (int i = 0; i < n; ++i) {
            const cusPoseMatch &m = found[static_cast<size_t>(i)];
            append(bytes, std::vector<double>{m.x, m.y, m.angle, m.scale, m.score});
        }
        return bytes;
    }
    TestMat frame, templ;
    cusPoseOptions options;
    support::Owned<cusPoseMatcherDestroy> matcher;
};

TEST(Cancelling, PoseMatcherCreate) {
    walk("cusPoseMatcherCreate", 40, After::SAME, [] {
        const auto p = std::make_shared<Posing>(1);
        return Work{[p] { return p->create(); },
                    [p] {
                        CUS_EXPECT_OK(cusPoseMatcherRun(p->matcher, &p->frame.mat, nullptr));
                        return p->matches();
                    }};
    });
}

TEST(Cancelling, PoseMatcherRun) {
    walk("cusPoseMatcherRun", 100, After::SAME, [] {
        const auto p = std::make_shared<Posing>(3);
        CUS_EXPECT_OK(p->create());
        return Work{[p] { return cusPoseMatcherRun(p->matcher, &p->frame.mat, nullptr); }, [p] { return p->matches(); }};
    });
}

// A pair of features and what is made of it.
struct Pair {
    enum { ROWS = 500, COLS = 110 };
    Pair() : left(ROWS, COLS, CUS_8UC1, CUS_HOST), right(ROWS, COLS, CUS_8UC1, CUS_HOST), options(cusStereoDefaults()) {
        left.set(noise(ROWS * COLS, 5).data());
        right.set(noise(ROWS * COLS, 6).data());
        options.shifts = 20;
    }
    std::vector<uint8_t> outputs() const {
        std::vector<uint8_t> bytes = support::elements(elevation);
        for (const cusMat *mat : {static_cast<const cusMat *>(&confidence), static_cast<const cusMat *>(&contours)})
            if (mat->data)
                append(bytes, support::elements(*mat));
        return bytes;
    }
    TestMat left, right;
    cusStereoOptions options;
    support::Mat elevation, confidence, contours;
    support::Owned<cusContourMapperDestroy> mapper;
    int shifts = 0;
};

TEST(Cancelling, StereoElevation) {
    walk("cusStereoElevation", 6, After::SAME, [] {
        const auto p = std::make_shared<Pair>();
        return Work{[p] { return cusStereoElevation(&p->left.mat, &p->right.mat, &p->elevation, &p->options, nullptr); },
                    [p] { return p->outputs(); }};
    });
}

TEST(Cancelling, StereoElevationConfidenceOfARangeThatIsFound) {
    walk("cusStereoElevationConfidence", 20, After::SAME, [] {
        const auto p = std::make_shared<Pair>();
        p->options.shifts = CUS_STEREO_AUTO;
        return Work{[p] {
                        return cusStereoElevationConfidence(&p->left.mat, &p->right.mat, &p->elevation, &p->confidence,
                                                            &p->options, nullptr);
                    },
                    [p] { return p->outputs(); }};
    });
}

TEST(Cancelling, StereoFindShifts) {
    walk("cusStereoFindShifts", 10, After::SAME, [] {
        const auto p = std::make_shared<Pair>();
        return Work{[p] { return cusStereoFindShifts(&p->left.mat, &p->right.mat, &p->shifts, &p->options, nullptr); },
                    [p] { return std::vector<uint8_t>{static_cast<uint8_t>(p->shifts)}; }};
    });
}

TEST(Cancelling, StereoFill) {
    for (const cusStereoFillRule rule : {CUS_FILL_ONCE, CUS_FILL_RELAX})
        walk("cusStereoFill", 10, After::SAME, [=] {
            const auto p = std::make_shared<Pair>();
            CUS_EXPECT_OK(cusMatCreate(&p->confidence, 100, 100, CUS_16UC1, CUS_HOST));
            CUS_EXPECT_OK(cusMatSetZero(&p->confidence, nullptr));
            *static_cast<uint16_t *>(p->confidence.data) = 40000;
            p->options.fill = rule, p->options.iterations = 50, p->options.tolerance = 0;
            return Work{[p] { return cusStereoFill(&p->confidence, &p->elevation, &p->options, nullptr); },
                        [p] { return p->outputs(); }};
        });
}

void mapping(const char *name, bool with_confidence) {
    walk(name, 20, After::SAME, [=] {
        const auto p = std::make_shared<Pair>();
        p->options.shifts = CUS_STEREO_AUTO, p->options.fill = CUS_FILL_RELAX, p->options.min_confidence = with_confidence;
        CUS_EXPECT_OK(cusContourMapperCreate(&p->mapper, Pair::ROWS, Pair::COLS, CUS_8UC1, CUS_HOST, &p->options));
        return Work{[=] {
                        return with_confidence
                                   ? cusContourMapConfidence(p->mapper, &p->left.mat, &p->right.mat, &p->elevation,
                                                             &p->contours, &p->confidence, nullptr)
                                   : cusContourMap(p->mapper, &p->left.mat, &p->right.mat, &p->elevation, &p->contours,
                                                   nullptr);
                    },
                    [p] { return p->outputs(); }};
    });
}

TEST(Cancelling, ContourMap) {
    mapping("cusContourMap", false);
}
TEST(Cancelling, ContourMapConfidence) {
    mapping("cusContourMapConfidence", true);
}

} // namespace
