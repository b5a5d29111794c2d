// Pictures in which bounds rule out little: the work is counted, and the answers are those of all poses by transforms.
#include "../support.hpp"

#include "reference/pose.hpp"

#include "pose/cpu/state.h"

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

class PoseWorst : public testing::Test {
  protected:
    void create(const PosePicture &picture, const PosePicture &templ, cusMatchMethod method, double limit = NAN,
                int matches = 1) {
        picture_ = picture;
        frame_ = view(picture_);
        const cusMat mat = view(templ);
        cusPoseOptions options = cusPoseDefaults();
        options.method = method;
        options.angles = {-180, 180 - 360.0 / POSES, 360.0 / POSES, nullptr, 0};
        options.score_limit = limit;
        options.max_matches = matches;
        options.min_distance = 8;
        cusPoseMatcherDestroy(matcher); // that of an earlier picture
        CUS_ASSERT_OK(cusPoseMatcherCreate(&matcher, &mat, picture.rows, picture.cols, &options, nullptr));
        host = static_cast<PoseHost *>(static_cast<cusPoseMatcher *>(matcher)->state);
    }
    cusPoseMatch run() {
        CUS_EXPECT_OK(cusPoseMatcherRun(matcher, &frame_, nullptr));
        cusPoseMatch match = {};
        int found = 0;
        CUS_EXPECT_OK(cusPoseMatcherNearest(matcher, &match, &found));
        EXPECT_EQ(found, 1);
        return match;
    }
    // What all poses take by transforms, in the estimated times that the search counts.
    double bruteForce() {
        double sum = 0;
        for (int i = 0; i < POSES; ++i)
            sum += pose_transformCost(matcher, i);
        return sum;
    }
    // The best of all poses by transforms.
    PoseBest bestOfAll() {
        const cusPoseMatcher *const m = matcher;
        const PosePicks none = pose_picks(m, nullptr, 0);
        PoseBest best = {0, 1, 0, -1, 0, 0};
        for (int i = 0; i < POSES; ++i) {
            PoseBest own;
            EXPECT_EQ(pose_bestByTransforms(m, host->scratch, i, &none, cusi_progress(), &own), 1);
            if (own.pose >= 0 && pose_isBetter(&own, &best))
                best = own;
        }
        return best;
    }
    static cusMat view(const PosePicture &p) {
        cusMat mat = CUS_MAT_INIT;
        EXPECT_EQ(cusMatWrap(&mat, p.rows, p.cols, CUS_8UC1, CUS_HOST, const_cast<uint8_t *>(p.data.data()), 0), CUS_OK);
        return mat;
    }

    support::Owned<cusPoseMatcherDestroy> matcher;
    PoseHost *host = nullptr;

  private:
    PosePicture picture_{0, 0, {}}; // frame_ is a view of it
    cusMat frame_ = CUS_MAT_INIT;
};

// Bounds, guesses and transforms take at most 1.5 times what transforms of all poses take.
TEST_F(PoseWorst, TakesNoLongerThanTransforms) {
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
            const PoseBest best = bestOfAll();
            EXPECT_TRUE(best.pose == match.angle_index && best.row == match.row && best.col == match.col)
                << "pose " << match.angle_index << " at " << match.row << ", " << match.col << ", by transforms "
                << best.pose << " at " << best.row << ", " << best.col;
            EXPECT_EQ(match.score, pose_score(method, &best));
        }
}

// A strict limit rules out nearly everything without transforms, and the best that was tried is named.
TEST_F(PoseWorst, StrictLimit) {
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
TEST_F(PoseWorst, FurtherMatches) {
    std::mt19937_64 random(9);
    const PosePicture picture = noise(random, 120, 150);
    create(picture, noise(random, 40, 50), CUS_MATCH_CCOEFF_NORMED);
    run();
    const double of_one = host->work;
    create(picture, noise(random, 40, 50), CUS_MATCH_CCOEFF_NORMED, NAN, 6);
    run();
    EXPECT_LT(host->work, 3 * of_one);
}

} // namespace
