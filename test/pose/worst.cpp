// Pictures in which bounds rule out little: the work is counted, and the answers are those of all poses by transforms.
#include "../support.hpp"

#include "reference/pose.hpp"

#include "pose/cpu/state.h"

#include <cstring>
#include <memory>

namespace {

using reference::PosePicture;

constexpr int POSES = 120;

PosePicture noise(std::mt19937_64 &random, int rows, int cols) {
    PosePicture p{rows, cols, {}};
    for (int i = 0; i < rows * cols; ++i)
        p.data.push_back(static_cast<uint8_t>(random() >> 56));
    return p;
}

// A wave of `period` pixels; 0: flat.
PosePicture wave(int rows, int cols, int period) {
    PosePicture p{rows, cols, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            p.data.push_back(static_cast<uint8_t>(
                period ? 127 + 100 * std::sin(2 * M_PI * x / period) * std::sin(2 * M_PI * y / period) : 90));
    return p;
}

// Blocks of gray, whose edges are everywhere.
PosePicture blocks(std::mt19937_64 &random, int rows, int cols) {
    PosePicture p{rows, cols, {}};
    const uint64_t salt = random();
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            p.data.push_back(
                static_cast<uint8_t>(((salt ^ static_cast<uint64_t>(y / 9 * 977 + x / 7)) * 0x9E3779B97F4A7C15u) >> 56));
    return p;
}

PosePicture cut(const PosePicture &from, int row, int col, int rows, int cols) {
    PosePicture p{rows, cols, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            p.data.push_back(static_cast<uint8_t>(from.at(row + y, col + x)));
    return p;
}

cusMat view(const PosePicture &p) {
    cusMat mat = CUS_MAT_INIT;
    EXPECT_EQ(cusMatWrap(&mat, p.rows, p.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(p.data.data()), 0), CUS_OK);
    return mat;
}

// A matcher in the test's space, and one on the host, whose transforms of all poses are the judge.
class PoseWorst : public support::SpaceTest {
  protected:
    void create(const PosePicture &picture, const PosePicture &templ, cusMatchMethod method, double limit = NAN,
                int matches = 1) {
        picture_ = picture;
        frame_ = std::make_unique<support::TestMat>(picture.rows, picture.cols, CUS_8UC1, space(), support::Layout{3, 1},
                                                    picture.data.data());
        const support::TestMat own(templ.rows, templ.cols, CUS_8UC1, space(), {}, templ.data.data());
        const cusMat of_host = view(templ);
        cusPoseOptions options = cusPoseDefaults();
        options.method = method;
        options.angles = {-180, 180 - 360.0 / POSES, 360.0 / POSES, nullptr, 0};
        options.score_limit = limit;
        options.max_matches = matches;
        options.min_distance = 8;
        cusPoseMatcherDestroy(matcher); // those of an earlier picture
        cusPoseMatcherDestroy(judge);
        CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &own.mat, picture.rows, picture.cols, &options, nullptr));
        CUS_ASSERT_OK(cusPoseMatcherCreate(&judge, &of_host, picture.rows, picture.cols, &options, nullptr));
        host = static_cast<PoseHost *>(static_cast<cusPoseMatcher *>(judge)->state);
    }
    cusPoseMatch run() {
        const cusMat frame = view(picture_);
        CUS_EXPECT_OK(cusPoseMatcherRun(judge, &frame, nullptr));
        CUS_EXPECT_OK(cusPoseMatcherRun(matcher, &frame_->mat, nullptr));
        cusPoseMatch match = {};
        int found = 0;
        CUS_EXPECT_OK(cusPoseMatcherNearest(matcher, &match, &found));
        EXPECT_EQ(found, 1);
        return match;
    }
    static std::vector<cusPoseMatch> matchesOf(cusPoseMatcher *m, int most) {
        std::vector<cusPoseMatch> matches(static_cast<size_t>(most));
        int found = 0;
        CUS_EXPECT_OK(cusPoseMatcherGet(m, matches.data(), most, &found));
        matches.resize(static_cast<size_t>(found));
        return matches;
    }
    const cusMat &deviceFrame() const { return frame_->mat; }
    int transformed() { return static_cast<cusPoseMatcher *>(matcher)->transformed; }
    // What all poses take by transforms, in the estimated times that the search on the host counts.
    double bruteForce() {
        double sum = 0;
        for (int i = 0; i < POSES; ++i)
            sum += pose_transformCost(judge, i);
        return sum;
    }
    // The best of all poses by transforms.
    PoseBest bestOfAll() {
        const cusPoseMatcher *const m = judge;
        const PosePicks none = pose_picks(m, nullptr, 0);
        PoseBest best = {0, 1, 0, -1, 0, 0};
        const cusMat frame = view(picture_);
        host->frame = &frame;
        for (int i = 0; i < POSES; ++i) {
            PoseBest own;
            EXPECT_EQ(pose_bestByTransforms(m, host->scratch, i, &none, cusi_progress(), &own), 1);
            if (own.pose >= 0 && pose_isBetter(&own, &best))
                best = own;
        }
        return best;
    }
    void expectBestOfAll(const cusPoseMatch &match, cusMatchMethod method) {
        const PoseBest best = bestOfAll();
        EXPECT_TRUE(best.pose == match.angle_index && best.row == match.row && best.col == match.col)
            << "pose " << match.angle_index << " at " << match.row << ", " << match.col << ", by transforms " << best.pose
            << " at " << best.row << ", " << best.col;
        EXPECT_EQ(match.score, pose_score(method, &best));
    }

    support::Owned<cusPoseMatcherDestroy> matcher, judge;
    PoseHost *host = nullptr;

  private:
    PosePicture picture_{0, 0, {}};
    std::unique_ptr<support::TestMat> frame_;
};
CUS_BOTH_SPACES(PoseWorst);

// Bounds, guesses and transforms take at most 1.5 times what transforms of all poses take: counted on the host, measured by perf/pose.cpp
// on the device.
TEST_P(PoseWorst, TakesNoLongerThanTransforms) {
    std::mt19937_64 random(7);
    const PosePicture of_noise = noise(random, 120, 150), of_blocks = blocks(random, 160, 150),
                      other = noise(random, 40, 50);
    const struct {
        const char *name;
        PosePicture picture, templ;
    } cases[] = {{"noise without the part", of_noise, other},
                 {"noise", of_noise, cut(of_noise, 30, 41, 40, 50)},
                 {"wave without the part", wave(120, 150, 10), other},
                 {"wave", wave(120, 150, 10), wave(40, 50, 10)},
                 {"flat", wave(120, 150, 0), other},
                 {"blocks without the part", of_blocks, blocks(random, 90, 70)},
                 {"blocks", of_blocks, cut(of_blocks, 30, 41, 90, 70)}};
    for (const auto &c : cases)
        for (const cusMatchMethod method : {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED}) {
            SCOPED_TRACE(testing::Message() << c.name << ", method " << method);
            create(c.picture, c.templ, method);
            const cusPoseMatch match = run();
            EXPECT_GT(host->work, 0);
            EXPECT_LE(host->work, 1.5 * bruteForce());
#ifdef CUSIGHT_HAVE_CUDA
            if (space() == CUS_DEVICE) { // the device's transforms alone
                PoseBest own;
                const cusMat &frame = deviceFrame();
                CUS_ASSERT_OK(pose_cuda_bestByTransforms(matcher, &frame, &own, nullptr));
                EXPECT_TRUE(own.pose == match.angle_index && own.row == match.row && own.col == match.col);
                EXPECT_EQ(pose_score(method, &own), match.score);
            }
#endif
            if (&c == cases) // nothing stands out
                EXPECT_GT(transformed(), POSES / 2);
            expectBestOfAll(match, method);
        }
}

// Drawn pictures, a quarter of them mixtures; the template is cut from the picture, or from another of its kind.
TEST_P(PoseWorst, TakesNoLongerThanTransformsOnDrawnPictures) {
    std::mt19937_64 random = support::generator();
    const cusMatchMethod methods[] = {CUS_MATCH_SQDIFF, CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF_NORMED};
    const auto drawn = [&](uint64_t kind, int rows, int cols) {
        PosePicture p = kind == 0   ? noise(random, rows, cols)
                        : kind == 1 ? wave(rows, cols, 4 + static_cast<int>(random() % 30))
                                    : blocks(random, rows, cols);
        const PosePicture other = noise(random, rows, cols);
        for (size_t k = 0; kind == 3 && k < p.data.size(); ++k)
            p.data[k] = static_cast<uint8_t>((3 * p.data[k] + other.data[k]) / 4);
        return p;
    };
    for (int i = 0; i < 20; ++i) {
        const uint64_t kind = random() % 4;
        const int rows = 90 + static_cast<int>(random() % 70), cols = 90 + static_cast<int>(random() % 70),
                  h = 24 + static_cast<int>(random() % 40), w = 24 + static_cast<int>(random() % 40);
        const PosePicture picture = drawn(kind, rows, cols),
                          templ = random() % 2 ? cut(picture, 11, 17, h, w) : drawn(kind, h, w);
        const cusMatchMethod method = methods[random() % 3];
        SCOPED_TRACE(testing::Message() << "picture " << i << ", kind " << kind << ", method " << method);
        create(picture, templ, method);
        const cusPoseMatch match = run();
        EXPECT_LE(host->work, 1.5 * bruteForce());
        expectBestOfAll(match, method);
    }
}

// A strict limit rules out nearly everything without transforms, and the best that was tried is named.
TEST_P(PoseWorst, StrictLimit) {
    std::mt19937_64 random(8);
    create(blocks(random, 160, 150), blocks(random, 90, 70), CUS_MATCH_CCOEFF_NORMED, 0.95);
    const cusPoseMatch nearest = run();
    int found = -1;
    CUS_ASSERT_OK(cusPoseMatcherGet(matcher, nullptr, 0, &found));
    EXPECT_EQ(found, 0);
    EXPECT_LT(host->work, 0.3 * bruteForce());
    EXPECT_LT(nearest.score, 0.95);
    const PoseBest best = bestOfAll();
    EXPECT_LE(nearest.score, pose_score(CUS_MATCH_CCOEFF_NORMED, &best));
}

// What transforms found for a match is known for the next.
TEST_P(PoseWorst, FurtherMatches) {
    std::mt19937_64 random(9);
    const PosePicture picture = noise(random, 120, 150);
    create(picture, noise(random, 40, 50), CUS_MATCH_CCOEFF_NORMED);
    run();
    const double of_one = host->work;
    create(picture, noise(random, 40, 50), CUS_MATCH_CCOEFF_NORMED, NAN, 6);
    run();
    EXPECT_LT(host->work, 3 * of_one);
    const auto found = matchesOf(matcher, 6), expected = matchesOf(judge, 6);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(std::memcmp(&found[i], &expected[i], sizeof found[i]), 0) << "match " << i;
}

// Sides around a power of two, with masks and limits, against the definition.
TEST_P(PoseWorst, Sizes) {
    auto random = support::generator();
    const cusMatchMethod methods[] = {CUS_MATCH_SQDIFF, CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR_NORMED,
                                      CUS_MATCH_CCOEFF_NORMED};
    for (const int side : {127, 128, 129})
        for (int i = 0; i < 8; ++i) {
            SCOPED_TRACE(testing::Message() << side << ", case " << i);
            const PosePicture picture = i % 2 ? noise(random, side, 70) : blocks(random, 70, side),
                              templ = i < 6 ? noise(random, 31, 33) : cut(picture, 11, 23, 31, 33);
            std::vector<uint8_t> mask;
            for (size_t k = 0; k < templ.data.size() && i % 3 == 0; ++k)
                mask.push_back(static_cast<uint8_t>(random() % 9 != 0));
            std::vector<double> angles;
            for (int k = 0; k < 18; ++k)
                angles.push_back(20.0 * k);
            cusPoseOptions options = cusPoseDefaults();
            options.method = methods[static_cast<size_t>(i % 4)];
            options.max_matches = 3;
            options.min_distance = 5;
            options.angles.list = angles.data(), options.angles.count = static_cast<int>(angles.size());
            if (i > 3)
                options.score_limit = options.method == CUS_MATCH_SQDIFF ? 5000 : 0.2;
            const support::TestMat frame(picture.rows, picture.cols, CUS_8UC1, space(), {5, 2}, picture.data.data()),
                own(templ.rows, templ.cols, CUS_8UC1, space(), {}, templ.data.data());
            support::TestMat own_mask(templ.rows, templ.cols, CUS_8UC1, space());
            if (!mask.empty()) {
                own_mask.set(mask.data());
                options.mask = &own_mask.mat;
            }
            support::Owned<cusPoseMatcherDestroy> m;
            CUS_ASSERT_OK(cusPoseMatcherCreate(&m, &own.mat, picture.rows, picture.cols, &options, nullptr));
            CUS_ASSERT_OK(cusPoseMatcherRun(m, &frame.mat, nullptr));
            if (i % 2 && i < 4) // noise without a limit
                EXPECT_GT(static_cast<cusPoseMatcher *>(m)->transformed, 0);
            const auto expected = reference::bestPoses(
                reference::poseValues(picture, templ, mask, angles, {1}, options.method), angles, options);
            const auto found = matchesOf(m, 3);
            ASSERT_EQ(found.size(), expected.size());
            for (size_t k = 0; k < found.size(); ++k) {
                EXPECT_TRUE(found[k].angle_index == expected[k].angle && found[k].row == expected[k].row &&
                            found[k].col == expected[k].col)
                    << "match " << k;
                EXPECT_EQ(found[k].score, expected[k].score);
            }
        }
}

#ifdef CUSIGHT_HAVE_CUDA

// Where the device has no memory for transforms, bounds find the same.
TEST(PoseWorstCuda, WithoutMemory) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random(10);
    const PosePicture picture = noise(random, 120, 150), templ = noise(random, 40, 50);
    const support::TestMat frame(picture.rows, picture.cols, CUS_8UC1, CUS_DEVICE, {}, picture.data.data()),
        own(templ.rows, templ.cols, CUS_8UC1, CUS_DEVICE, {}, templ.data.data());
    cusPoseOptions options = cusPoseDefaults();
    options.angles = {0, 340, 20, nullptr, 0};
    cusPoseMatch matches[2];
    for (const bool has_memory : {true, false}) {
        support::Owned<cusPoseMatcherDestroy> matcher;
        CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &own.mat, picture.rows, picture.cols, &options, nullptr));
        const cusDeviceAllocator none = {[](size_t, int, cusStream, void *) -> void * { return nullptr; },
                                         [](void *, size_t, int, cusStream, void *) {},
                                         nullptr,
                                         {}};
        if (!has_memory)
            CUS_ASSERT_OK(cusSetDeviceAllocator(&none));
        const cusStatus status = cusPoseMatcherRun(matcher, &frame.mat, nullptr);
        CUS_ASSERT_OK(cusSetDeviceAllocator(nullptr));
        CUS_ASSERT_OK(status);
        EXPECT_EQ(static_cast<cusPoseMatcher *>(matcher)->transformed > 0, has_memory);
        int found = 0;
        CUS_ASSERT_OK(cusPoseMatcherGet(matcher, &matches[has_memory], 1, &found));
        ASSERT_EQ(found, 1);
    }
    EXPECT_EQ(std::memcmp(&matches[0], &matches[1], sizeof matches[0]), 0);
}

#endif

} // namespace
