// Inputs that are hard for a backend, and rare: events on few pixels, windows that overlap a hundredfold, times out of order,
// frames at any address.
#include "events/support.hpp"

namespace {

using namespace events;

class EventsAdversarial : public support::SpaceTest {};
CUS_BOTH_SPACES(EventsAdversarial);

// Frames whose rows start `offset` channels past a multiple of 16 bytes, and every `16 - offset` channels more; the arrays of the
// events too.
void checkPlaced(const Events &events, const std::vector<cusEventWindow> &windows, int rows, int cols,
                 const cusRepresentation &r, cusSpace space, size_t offset) {
    int type = 0;
    CUS_ASSERT_OK(cusRepresentationType(&r, &type));
    const size_t unit = cusTypeSize(CUS_DEPTH(type));
    const Stacker stacker(rows, cols, space, {r});
    const SpaceEvents input(events, space, offset);
    support::TestMat out(rows * static_cast<int>(windows.size()), cols, type, space, {(16 - offset) * unit, offset * unit});
    CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows.data(), windows.size(), &out.mat, nullptr));
    expectFrames(out.mat, events, windows, rows, cols, r);
    EXPECT_TRUE(out.intact());
}

// Hot pixels, lamps and worse in windows that a GPU makes tile by tile; frames at odd addresses.
TEST_P(EventsAdversarial, CrowdedWindows) {
    std::mt19937_64 random = support::generator();
    const bool on_device = space() == CUS_DEVICE;
    const uint64_t n = on_device ? 100000 : 20000;
    const int rows = on_device ? 300 : 60, cols = on_device ? 201 : 75;
    for (Content content : CONTENTS) {
        const Events events = eventsOf(content, n, rows, cols, random);
        const std::vector<cusEventWindow> windows = {{n / 2, n / 2 + 500}, {3, n}};
        for (const cusRepresentation &r : allKinds())
            checkPlaced(events, windows, rows, cols, r, space(), 1 + random() % 15);
        for (const cusRepresentation &r : otherOptions(random))
            check(events, windows, rows, cols, {r}, space(), 1 + random() % 9);
        check(events, {{n, n}, {0, n - 9}, {9, n}}, rows, cols, allKinds(), space());
    }
}

// The same with more tiles, with tiles of several parts, and with frames of several bands.
TEST(EventsAdversarialCuda, CrowdedWindowsAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols, n] : {std::tuple{720, 1280, size_t{200001}}, std::tuple{2000, 2112, size_t{300000}},
                                        std::tuple{260, 346, size_t{200000}}})
        for (Content content : CONTENTS) {
            if (rows == 2000 && content != Content::TWO_PIXELS) // large frames take the host long
                continue;
            const Events events = eventsOf(content, n, rows, cols, random);
            for (const cusRepresentation &r : allKinds())
                expectSameAsOnHost(events, {{3, n}, {n / 2, n}, {0, n / 3}, {n, n}, {5, n}, {0, 9}}, rows, cols, {r});
        }
}

TEST_P(EventsAdversarial, WindowsThatOverlapAHundredfold) {
    std::mt19937_64 random = support::generator();
    const Events events = eventsOf(Content::UNIFORM, 30000, 50, 140, random);
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < 150; ++w)
        windows.push_back({w * 100, w * 100 + (w % 10 ? 10000 : 0)});
    check(events, windows, 50, 140, {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_VOXEL_GRID), repr(CUS_REPR_EVENT_DIFF)},
          space());
}

// Values are unspecified, memory is not: frames keep their padding, counts do not depend on times, and a call with good
// times is not affected.
TEST_P(EventsAdversarial, TimesOutOfOrder) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 900000 : 20000;
    const Events good = eventsOf(Content::UNIFORM, n, 40, 60, random);
    Events events = good;
    for (size_t i = 0; i < n; ++i) // extremes now and then
        events.t[i] = i % 1000 == 0 ? INT64_MIN / 8 + static_cast<int64_t>(i)
                                    : static_cast<int64_t>(random() >> (5 + random() % 58)) * (random() & 1 ? 1 : -1);
    const SpaceEvents input(events, space());
    const cusEventWindow windows[] = {{1, n}, {0, n / 2}};
    for (const cusRepresentation &r : allKinds()) {
        if (r.kind == CUS_REPR_HISTOGRAM || r.kind == CUS_REPR_EVENT_DIFF || r.kind == CUS_REPR_MDES) {
            check(events, {windows[0], windows[1]}, 40, 60, {r}, space());
            continue;
        }
        int type = 0;
        CUS_ASSERT_OK(cusRepresentationType(&r, &type));
        const Stacker stacker(40, 60, space(), {r});
        for (const support::Layout &layout : support::layouts(type)) {
            support::TestMat out(80, 60, type, space(), layout);
            CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows, 2, &out.mat, nullptr));
            if (space() == CUS_DEVICE)
                CUS_ASSERT_OK(cusStreamSynchronize(nullptr));
            EXPECT_TRUE(out.intact());
        }
        check(good, {{1, n}}, 40, 60, {r}, space());
    }
}

// Windows that a GPU makes tile by tile, and a long one.
TEST_P(EventsAdversarial, FramesAtAnyAddress) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 420000 : 20000;
    const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, n, 21, 75, random);
    for (const cusRepresentation &r : allKinds())
        for (const size_t offset : {1, 2, 3, 7})
            checkPlaced(events, {{3, 900}, {0, n}, {17, 17}}, 21, 75, r, space(), offset);
}

// Rows of many pixels, of several tiles, of a multiple of 32 bytes with their padding, and of less than 16 bytes.
TEST_P(EventsAdversarial, FramesOfAnyWidthAtAnyAddress) {
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols] :
         {std::pair{5, 300}, {3, 520}, {40, 391}, {20, 346}, {70, 368}, {40, 376}, {4, 1}, {4, 2}, {4, 3}, {4, 5}}) {
        const Events events = eventsOf(Content::HALF_ON_ONE_PIXEL, 3000, rows, cols, random);
        std::vector<cusRepresentation> all = allKinds();
        for (int channels = 1; channels <= 2; ++channels)
            for (cusRepresentation r : allKinds())
                if (r.kind != CUS_REPR_HISTOGRAM && r.kind != CUS_REPR_TENCODE && r.kind != CUS_REPR_TIME_SURFACE &&
                    r.kind != CUS_REPR_EVENT_DIFF) {
                    r.channels = channels;
                    r.normalize = r.kind == CUS_REPR_VOXEL_GRID;
                    all.push_back(r);
                }
        for (const cusRepresentation &r : otherOptions(random))
            all.push_back(r);
        for (const cusRepresentation &r : all)
            checkPlaced(events, {{3, 900}, {0, 3000}, {17, 17}}, rows, cols, r, space(), 1 + random() % 15);
    }
}

} // namespace
