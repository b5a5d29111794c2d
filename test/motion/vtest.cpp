// The people of vtest.avi, and the leaves of tree.avi.
#ifdef CUSIGHT_HAVE_OPENCV
#include "heatmap/drawn_options.hpp"
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

// How the boxes of a detector meet the people of some frames.
struct Count {
    int people = 0, found = 0, own = 0, empty = 0;
    std::vector<Person> missed;

    void add(const std::vector<Person> &here, const std::vector<cusMotionBox> &boxes) {
        const auto holds = [](const cusMotionBox &b, const Person &p) {
            const int x = p.x + p.width / 2, y = p.y + p.height / 2;
            return x >= b.x && x < b.x + b.width && y >= b.y && y < b.y + b.height;
        };
        // Whether they share a third of both, which is an IoU of a half.
        const auto fits = [](const cusMotionBox &b, const Person &p) {
            const int width = std::min(b.x + b.width, p.x + p.width) - std::max(b.x, p.x),
                      height = std::min(b.y + b.height, p.y + p.height) - std::max(b.y, p.y);
            return width > 0 && height > 0 && 3 * width * height >= b.width * b.height + p.width * p.height;
        };
        for (const Person &p : here) {
            const auto any = [&](const auto &test) {
                return std::any_of(boxes.begin(), boxes.end(), [&](const cusMotionBox &b) { return test(b, p); });
            };
            ++people;
            found += any(holds);
            own += any(fits);
            if (!any(holds))
                missed.push_back(p);
        }
        for (const cusMotionBox &b : boxes)
            empty += std::none_of(here.begin(), here.end(), [&](const Person &p) { return holds(b, p); });
    }
};

// The people of a frame.
template<size_t N>
std::vector<Person> peopleOf(int frame, const Person (&people)[N]) {
    std::vector<Person> here;
    std::copy_if(std::begin(people), std::end(people), std::back_inserter(here),
                 [&](const Person &p) { return p.frame == frame; });
    return here;
}

// A box without a person is a trace of somebody who stood there, which the program's options do not leave. Two people may share a
// box.
TEST_P(MotionVtest, FindsEveryPerson) {
    const std::string path = support::dataFile("vtest.avi");
    if (path.empty())
        GTEST_SKIP() << "no vtest.avi in CUSIGHT_TEST_DATA";
    cv::VideoCapture video(path);
    ASSERT_TRUE(video.isOpened());
    Options options = cusMotionDefaults();
    Detector usual(1, 576, 768, 3, options, space());
    options.min_area = 200;
    Detector fine(1, 576, 768, 3, options, space());
    Detector program(1, 576, 768, 3, heatmap::drawnOptions(), space());
    Count first[3], between[3]; // of each detector
    cv::Mat frame;
    for (int t = 0; t <= 790 && video.read(frame); ++t) {
        ASSERT_TRUE(frame.isContinuous());
        const Frame bytes = {576, 768, 3, Bytes(frame.datastart, frame.dataend)};
        Detector *const detectors[] = {&usual, &fine, &program};
        for (size_t i = 0; i < 3; ++i) {
            CUS_ASSERT_OK(detectors[i]->run({bytes}));
            const std::vector<Person> here = peopleOf(t, PEOPLE), others = peopleOf(t, PEOPLE_BETWEEN);
            if (here.empty() && others.empty())
                continue;
            const Result r = detectors[i]->result();
            EXPECT_EQ(r.status.state, CUS_MOTION_WATCHING);
            (here.empty() ? between : first)[i].add(here.empty() ? others : here, r.boxes);
        }
    }
    EXPECT_EQ(first[0].people, 75);
    EXPECT_EQ(between[0].people, 79);
    EXPECT_TRUE(first[1].missed.empty());
    ASSERT_EQ(first[0].missed.size(), 1u); // behind a car: head and shoulders are less than the least area
    EXPECT_LE(first[0].missed[0].width * first[0].missed[0].height, 150);
    EXPECT_LE(first[0].empty, 20);
    EXPECT_LE(between[0].own, 40);
    const auto meets = [](const Count &c, int found, int own) {
        EXPECT_GE(c.found, found);
        EXPECT_GE(c.own, own);
        EXPECT_LE(c.empty, 2);
    };
    meets(first[2], 74, 59);
    meets(between[2], 77, 68);
}

// A tree in the wind, before which a hand comes down from frame 53 on: leaves are boxes for moments, only the hand lasts.
TEST_P(MotionVtest, LeavesDoNotLast) {
    const std::string path = support::dataFile("tree.avi");
    if (path.empty())
        GTEST_SKIP() << "no tree.avi in CUSIGHT_TEST_DATA";
    cv::VideoCapture video(path);
    ASSERT_TRUE(video.isOpened());
    Detector program(1, 240, 320, 3, heatmap::drawnOptions(), space());
    cv::Mat frame;
    uint32_t most = 0; // boxes of a track
    int frames = 0;
    for (; video.read(frame); ++frames) {
        ASSERT_TRUE(frame.isContinuous());
        for (const cusMotionTrack &track : program.step({240, 320, 3, Bytes(frame.datastart, frame.dataend)}).tracks)
            most = std::max(most, track.boxes);
        if (frames == 52) {
            EXPECT_LT(most, 8u);
        }
    }
    EXPECT_EQ(frames, 68);
    EXPECT_GE(most, 8u);
}

} // namespace
#endif
