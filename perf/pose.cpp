// Rows of pose: parts that lie turned on textured ground. The peer on the CPU is this library's own matcher with masks, once a pose,
// extrapolated from one pose.
#include "harness/frames.hpp"

#include "cusight/pose.h"
#include "pose/backend.h"
#include "reference/pose_scene.hpp"

namespace {

using perf::check;
using perf::Mat;

struct Search {
    Search(const reference::PoseScene &scene, int angles, cusMatchMethod method, cusSpace space, double limit = NAN)
        : templ(scene.templ.rows, scene.templ.cols, CUS_8UC1, space, scene.templ.data),
          frame(scene.picture.rows, scene.picture.cols, CUS_8UC1, space, scene.picture.data) {
        cusPoseOptions o = cusPoseDefaults();
        o.method = method;
        o.score_limit = limit;
        o.angles = {-180, 180, 360.0 / (angles - 1), nullptr, 0};
        check(cusPoseMatcherCreate(&matcher, &templ.mat, frame.mat.rows, frame.mat.cols, &o, nullptr));
    }
    ~Search() { cusPoseMatcherDestroy(matcher); }
    Search(const Search &) = delete;
    Search &operator=(const Search &) = delete;

    Mat templ, frame;
    cusPoseMatcher *matcher = nullptr;
};

void pose(const std::string &id, cusMatchMethod method, double texture) {
    perf::bothSpaces([&](cusSpace space) {
        constexpr int ROWS = 3036, COLS = 4024;
        perf::Row row(id, space, static_cast<double>(ROWS) * COLS);
        if (perf::listing())
            return row.report();
        const reference::PoseScene scene = reference::poseScene(ROWS, COLS, 521, 762, 3, 1, texture, 41);
        const Search search(scene, 361, method, space);
        row.note("361 angles, 3 parts with a covered corner; bytes: the frame");
        row.measure([&](cusStream stream, int) { return cusPoseMatcherRun(search.matcher, &search.frame.mat, stream); });
        row.report();
        if (row.measured()) {
            cusPoseMatch match;
            int found = 0;
            check(cusPoseMatcherGet(search.matcher, &match, 1, &found));
            ASSERT_EQ(found, 1);
            bool is_part = false;
            for (const reference::PosePart &p : scene.parts)
                is_part |= std::abs(match.x - p.x) <= 1 && std::abs(match.y - p.y) <= 1 &&
                           std::fabs(std::remainder(match.angle - p.angle, 360)) < 0.5;
            EXPECT_TRUE(is_part) << match.x << ", " << match.y << " at " << match.angle;
        }
    });
}

TEST(Pose, pose_4024x3036_762x521_361) {
    pose("pose/4024x3036/762x521/361", CUS_MATCH_SQDIFF, 0.2);
}

TEST(Pose, pose_4024x3036_762x521_361_ccoeff_normed) {
    pose("pose/4024x3036/762x521/361/ccoeff-normed", CUS_MATCH_CCOEFF_NORMED, 0.2);
}

TEST(Pose, pose_4024x3036_762x521_361_fine_texture) {
    pose("pose/4024x3036/762x521/361/fine-texture", CUS_MATCH_SQDIFF, 1);
}

// Where bounds rule out little: the part is not there, or nothing stands out.
void worst(const std::string &id, const reference::PoseScene &scene, double limit, const char *note) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row(id, space, static_cast<double>(scene.picture.rows) * scene.picture.cols);
        if (perf::listing())
            return row.report();
        const Search search(scene, 361, CUS_MATCH_CCOEFF_NORMED, space, limit);
        row.note(note);
        row.measure([&](cusStream stream, int) { return cusPoseMatcherRun(search.matcher, &search.frame.mat, stream); });
#ifdef CUSIGHT_HAVE_CUDA
        if (space == CUS_DEVICE)
            row.peer("brute force by transforms", [&](cusStream stream, int) {
                PoseBest best;
                return pose_cuda_bestByTransforms(search.matcher, &search.frame.mat, &best, stream);
            });
#endif
        row.report();
    });
}

TEST(Pose, pose_4024x3036_762x521_361_absent) {
    const reference::PoseScene scene = perf::listing() ? reference::PoseScene{{3036, 4024, {}}, {}, {}}
                                                       : reference::poseScene(3036, 4024, 521, 762, 0, 1, 0.2, 41);
    worst("pose/4024x3036/762x521/361/absent", scene, 0.9,
          "361 angles, no part, CCOEFF_NORMED, limit 0.9; bytes: the frame");
}

// Pixels of noise, or of a wave of 10 pixels, and a template of other noise.
reference::PoseScene pattern(int rows, int cols, int templ_rows, int templ_cols, bool is_noise) {
    reference::PoseScene scene{{rows, cols, {}}, {templ_rows, templ_cols, {}}, {}};
    std::mt19937_64 random(5);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            scene.picture.data.push_back(
                is_noise ? static_cast<uint8_t>(random() >> 56)
                         : reference::toPixel(127 + 100 * std::sin(x * M_PI / 5) * std::sin(y * M_PI / 5)));
    for (int i = 0; i < templ_rows * templ_cols; ++i)
        scene.templ.data.push_back(static_cast<uint8_t>(random() >> 56));
    return scene;
}

TEST(Pose, pose_250x200_64x48_361_noise) {
    worst("pose/250x200/64x48/361/noise", pattern(200, 250, 48, 64, true), NAN,
          "361 angles, CCOEFF_NORMED; bytes: the frame");
}

TEST(Pose, pose_250x200_64x48_361_periodic) {
    worst("pose/250x200/64x48/361/periodic", pattern(200, 250, 48, 64, false), NAN,
          "361 angles, CCOEFF_NORMED; bytes: the frame");
}

} // namespace
