// The people of vtest.avi.
#ifdef CUSIGHT_HAVE_OPENCV
#include "motion/people.hpp"
#include "motion/support.hpp"

#include <opencv2/videoio.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

using namespace motion_test;

namespace {

class MotionVtest : public support::SpaceTest {};
CUS_BOTH_SPACES(MotionVtest);

// A box without a person is a trace of somebody who stood there. Two people may share a box.
TEST_P(MotionVtest, FindsEveryPerson) {
    const std::string path = support::dataFile("vtest.avi");
    if (path.empty())
        GTEST_SKIP() << "no vtest.avi in CUSIGHT_TEST_DATA";
    cv::VideoCapture video(path);
    ASSERT_TRUE(video.isOpened());
    Options options = cusMotionDefaults();
    Detector detector(1, 576, 768, 3, options, space());
    options.min_area = 200;
    Detector fine(1, 576, 768, 3, options, space());
    const auto holds = [](const cusMotionBox &b, const Person &p) {
        const int x = p.x + p.width / 2, y = p.y + p.height / 2;
        return x >= b.x && x < b.x + b.width && y >= b.y && y < b.y + b.height;
    };
    const auto found = [&](const Result &r, const Person &p) {
        return std::any_of(r.boxes.begin(), r.boxes.end(), [&](const cusMotionBox &b) { return holds(b, p); });
    };
    cv::Mat frame;
    size_t people = 0, empty = 0;
    std::vector<Person> missed;
    for (int t = 0; t <= 761 && video.read(frame); ++t) {
        ASSERT_TRUE(frame.isContinuous());
        const Frame bytes = {576, 768, 3, Bytes(frame.datastart, frame.dataend)};
        CUS_ASSERT_OK(detector.run({bytes}));
        CUS_ASSERT_OK(fine.run({bytes}));
        std::vector<Person> here;
        std::copy_if(std::begin(PEOPLE), std::end(PEOPLE), std::back_inserter(here),
                     [&](const Person &p) { return p.frame == t; });
        if (here.empty())
            continue;
        const Result usual = detector.result(), small = fine.result();
        EXPECT_EQ(usual.status.state, CUS_MOTION_WATCHING);
        people += here.size();
        for (const Person &p : here) {
            EXPECT_TRUE(found(small, p)) << t << ": " << p.x << ", " << p.y;
            if (!found(usual, p))
                missed.push_back(p);
        }
        for (const cusMotionBox &b : usual.boxes)
            empty += std::none_of(here.begin(), here.end(), [&](const Person &p) { return holds(b, p); });
    }
    EXPECT_EQ(people, 75u);
    ASSERT_EQ(missed.size(), 1u); // behind a car: head and shoulders are less than the least area
    EXPECT_LE(missed[0].width * missed[0].height, 150);
    EXPECT_LE(empty, 20u);
}

} // namespace
#endif
