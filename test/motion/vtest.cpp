// People on vtest.avi of OpenCV's samples, counted by hand on every hundredth frame: where each one's body is.
#ifdef CUSIGHT_HAVE_OPENCV
#include "motion/support.hpp"

#include <opencv2/videoio.hpp>

#include <map>

using namespace motion_test;

namespace {

class MotionVtest : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionVtest);

const std::map<int, std::vector<std::pair<int, int>>> PEOPLE = {
    {50, {{383, 225}, {418, 190}, {445, 215}, {522, 260}, {567, 260}, {690, 315}}},
    {150, {{79, 108}, {404, 230}, {449, 225}, {457, 195}, {645, 140}, {669, 135}, {720, 135}, {607, 270}}},
    {250, {{50, 210}, {207, 185}, {400, 275}, {561, 225}, {615, 305}, {645, 150}, {670, 155}}},
    {350, {{392, 200}, {398, 265}, {436, 185}, {494, 230}, {687, 265}, {710, 265}}},
    {450, {{325, 245}, {500, 220}, {578, 290}}},
    {550, {{135, 200}, {422, 185}, {612, 205}, {656, 355}, {197, 430}, {259, 435}}},
    {650, {{152, 185}, {231, 190}, {333, 190}, {483, 265}, {655, 235}, {358, 440}}},
    {750, {{197, 240}, {254, 255}, {387, 215}, {412, 255}, {520, 215}, {657, 265}, {673, 145}, {752, 75}}}};

// Two people may share a box; a box without a person is a trace of somebody who stood there.
TEST_P(MotionVtest, FindsEveryPerson) {
    const std::string path = support::dataFile("vtest.avi");
    if (path.empty())
        GTEST_SKIP() << "no vtest.avi in CUSIGHT_TEST_DATA";
    cv::VideoCapture video(path);
    ASSERT_TRUE(video.isOpened());
    Detector detector(1, 576, 768, 3, cusMotionDefaults(), space());
    cv::Mat frame;
    size_t people = 0, found = 0, empty = 0;
    for (int t = 0; t <= 750 && video.read(frame); ++t) {
        ASSERT_TRUE(frame.isContinuous());
        const Frame bytes = {576, 768, 3, Bytes(frame.datastart, frame.dataend)};
        CUS_ASSERT_OK(detector.run({bytes}));
        const auto seen = PEOPLE.find(t);
        if (seen == PEOPLE.end())
            continue;
        const Result r = detector.result();
        EXPECT_EQ(r.status.state, CUS_MOTION_WATCHING);
        const auto holds = [](const cusMotionBox &b, std::pair<int, int> p) {
            return p.first >= b.x && p.first < b.x + b.width && p.second >= b.y && p.second < b.y + b.height;
        };
        people += seen->second.size();
        for (const auto &p : seen->second)
            found += std::any_of(r.boxes.begin(), r.boxes.end(), [&](const cusMotionBox &b) { return holds(b, p); });
        for (const cusMotionBox &b : r.boxes)
            empty += std::none_of(seen->second.begin(), seen->second.end(), [&](const auto &p) { return holds(b, p); });
    }
    EXPECT_EQ(people, 50u);
    EXPECT_EQ(found, people);
    EXPECT_LE(empty, 11u);
}

} // namespace
#endif
