// Rows of pose: parts that lie turned on textured ground. The peer on the CPU is this library's own matcher with masks, once a pose,
// extrapolated from one pose.
#include "harness/frames.hpp"

#include "cusight/pose.h"
#include "reference/pose_scene.hpp"

namespace {

using perf::check;
using perf::Mat;

struct Search {
    Search(const reference::PoseScene &scene, int angles, cusMatchMethod method, cusSpace space)
        : templ(scene.templ.rows, scene.templ.cols, CUS_8UC1, space, scene.templ.data),
          frame(scene.picture.rows, scene.picture.cols, CUS_8UC1, space, scene.picture.data) {
        cusPoseOptions o = cusPoseDefaults();
        o.method = method;
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

} // namespace
