#include "events/support.hpp"

#include <thread>
#include <tuple>

namespace {

using namespace events;

class EventStack : public support::SpaceTest {};
CUS_BOTH_SPACES(EventStack);

// Four events on a 2 x 1 frame: (t, x, p) = (100, 0, +), (150, 0, -), (180, 1, +), (200, 0, +).
TEST_P(EventStack, WorkedExample) {
    Events events;
    events.add(100, 0, 0, 1);
    events.add(150, 0, 0, 0);
    events.add(180, 1, 0, 1);
    events.add(200, 0, 0, 1);
    std::vector<cusRepresentation> r = allKinds();
    r[CUS_REPR_MDES].channels = 3; // parts [0, 4), [2, 4), [3, 4)
    r[CUS_REPR_MDES_COUNT].channels = 3;
    r[CUS_REPR_STACKED_HISTOGRAM].channels = 2;
    r[CUS_REPR_VOXEL_GRID].channels = 2;
    r[CUS_REPR_TIME_SURFACE].tau = 50;
    const std::vector<std::vector<double>> expected = {
        {2, 1, 1, 0},
        {255, 255, 255, 255, 255, 128},
        {3, 1, 1, 1, 1, 0},
        {0, 0, 255, 0, 51, 255}, // G of pixel 1: 255 * 20 / 100
        {1, 1, 0, 1, 0, 1, 0, 0},
        {0.5, 0.5, 0.2, 0.8},
        {1, std::exp(-1.0), std::exp(-0.4), 0},
        {1, 1},
        {0.5, 0.5, 0.5, 0.5, 0, 0, 0.9, 0}, // at -0.5, 0.5, 1.1 and 1.5 from the middle of the first bin
        {1, 1, 1, 0, 0, 1},                 // before 125, before 150, all
    };
    r[CUS_REPR_EVENT_CUBE].channels = 2;
    r[CUS_REPR_MDES_DIFF].channels = 3;
    const SpaceEvents input(events, space());
    const cusEventWindow window = {0, 4};
    for (size_t i = 0; i < r.size(); ++i) {
        const Stacker stacker(1, 2, space(), {r[i]});
        support::Mat frame;
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, &window, 1, &frame, nullptr));
        const std::vector<double> got = values(frame);
        ASSERT_EQ(got.size(), expected[i].size()) << cusRepresentationName(r[i].kind);
        for (size_t k = 0; k < got.size(); ++k)
            EXPECT_NEAR(got[k], expected[i][k], 3e-7) << cusRepresentationName(r[i].kind) << " value " << k;
    }
}

TEST_P(EventStack, EveryRepresentationOverSizes) {
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols] : support::sizes()) {
        const size_t n = 1 + random() % 3000;
        const Events events = randomEvents(n, rows, cols, static_cast<int>(random() % 3) * 40, random);
        std::vector<cusEventWindow> windows = {{0, n}, {n / 3, n / 3}, {n / 2, n}, {0, n / 5}, {n - 1, n}};
        check(events, windows, rows, cols, allKinds(), space(), random() % 2);
        check(events, {windows[2], windows[3]}, rows, cols, otherOptions(random), space());
    }
}

// Windows that begin and end at every position within a vector of events, in arrays of several alignments.
TEST_P(EventStack, WindowEdges) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(100, 9, 11, 0, random);
    std::vector<cusEventWindow> windows;
    for (uint64_t first = 0; first <= 33; ++first)
        for (uint64_t n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40})
            windows.push_back({first, first + n});
    windows.push_back({99, 100});
    windows.push_back({100, 100});
    for (size_t shift : {0, 1, 3, 8})
        check(events, windows, 9, 11, allKinds(), space(), shift);
}

// Every count from 0 to 600, each on another pixel, in random order and in runs: where packed counters carry or saturate.
TEST_P(EventStack, EveryCountIsExact) {
    std::mt19937_64 random = support::generator();
    std::vector<int> pixels;
    for (int count = 0; count <= 600; ++count)
        pixels.insert(pixels.end(), static_cast<size_t>(count), count);
    for (int pass = 0; pass < 2; ++pass) {
        Events events;
        for (size_t i = 0; i < pixels.size(); ++i)
            events.add(static_cast<int64_t>(i), pixels[i] % 31, pixels[i] / 31, pixels[i] % 5 == 0 ? 0 : 1);
        check(events, {{0, events.size()}, {0, events.size() / 2}}, 20, 31,
              {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_EVENT_DIFF), repr(CUS_REPR_MDES_COUNT)}, space());
        std::shuffle(pixels.begin(), pixels.end(), random);
    }
}

TEST_P(EventStack, SensorSizesCrowdedAndUniform) {
    std::mt19937_64 random = support::generator();
    for (const auto &[rows, cols] : {std::pair{720, 1280}, std::pair{480, 640}, std::pair{260, 346}})
        for (int crowd : {0, 30, 95}) {
            const Events events = randomEvents(60000, rows, cols, crowd, random);
            check(events, {{0, 20000}, {20000, 60000}}, rows, cols,
                  {repr(CUS_REPR_TENCODE), repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_MDES)}, space());
        }
}

// The frame has several tiles.
TEST_P(EventStack, ManyWindows) {
    std::mt19937_64 random = support::generator();
    for (int crowd : {0, 60}) {
        const Events events = randomEvents(45000, 400, 640, crowd, random, 3);
        std::vector<cusEventWindow> windows;
        for (uint64_t w = 0; w < 75; ++w)
            windows.push_back({w * 599, w * 599 + 600 - w % 3});
        check(events, windows, 400, 640, {repr(CUS_REPR_HISTOGRAM)}, space());
    }
    const Events events = randomEvents(50000, 64, 48, 20, random, 3);
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < 400; ++w)
        windows.push_back({w * 100, w * 100 + 1 + random() % 9000});
    check(events, windows, 64, 48, allKinds(), space());
}

// More events than fit the device's workspace at once, in windows that overlap.
TEST_P(EventStack, MoreThanTheWorkspaceHolds) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(120000, 40, 50, 10, random, 3);
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < (space() == CUS_DEVICE ? 430u : 20u); ++w)
        windows.push_back({w * 50, w * 50 + 80000 + random() % 10000});
    cusRepresentation mdes = repr(CUS_REPR_MDES);
    mdes.channels = 3;
    check(events, windows, 40, 50, {mdes, repr(CUS_REPR_TENCODE)}, space());
}

// Frames with more tiles than the device can sort by.
TEST_P(EventStack, SeveralBands) {
    std::mt19937_64 random = support::generator();
    cusRepresentation mdes = repr(CUS_REPR_MDES);
    mdes.channels = 2;
    for (const auto &[rows, cols] : {std::pair{3000, 2200}, std::pair{17, 65536}, std::pair{65536, 20}}) {
        const int height = space() == CUS_DEVICE ? rows : rows / 16;
        const Events events = randomEvents(40000, height, cols, 10, random);
        check(events, {{3, 40000}}, height, cols, {repr(CUS_REPR_HISTOGRAM), mdes, repr(CUS_REPR_TENCODE)}, space());
    }
}

// A window with more events than fit the device's workspace.
TEST_P(EventStack, HugeWindow) {
    std::mt19937_64 random = support::generator();
    const size_t n = space() == CUS_DEVICE ? 67500000 : 100000;
    const Events events = randomEvents(n, 30, 40, 0, random, 3);
    cusRepresentation mdes = repr(CUS_REPR_MDES), signs = mdes, floats = mdes;
    mdes.channels = 3;
    signs.channels = 2, signs.depth = CUS_8S;
    floats.channels = 2, floats.depth = CUS_32F;
    check(events, {{1, n}, {5, 9}}, 30, 40, {repr(CUS_REPR_HISTOGRAM), mdes, repr(CUS_REPR_TENCODE), signs, floats},
          space());
}

cusRepresentation normalized(cusNormalization how, int channels) {
    cusRepresentation r = repr(CUS_REPR_VOXEL_GRID);
    r.normalize = how;
    r.channels = channels;
    return r;
}

constexpr cusNormalization BOTH_NORMALIZATIONS[] = {CUS_NORMALIZE_POPULATION, CUS_NORMALIZE_SAMPLE};

// counts[i] positive events on pixel i, negative ones if it is below 0.
Events eventsPerPixel(const std::vector<int> &counts) {
    Events events;
    for (size_t i = 0; i < counts.size(); ++i)
        for (int k = 0; k < std::abs(counts[i]); ++k)
            events.add(7, static_cast<int>(i), 0, counts[i] > 0);
    return events;
}

TEST_P(EventStack, NormalizedWorkedExamples) {
    const float root = std::sqrt(1.5f);
    for (const auto &[counts, population, sample] :
         {std::tuple<std::vector<int>, std::vector<float>, std::vector<float>>{
              {1, 2, 0, 3}, {-root, 0, 0, root}, {-1, 0, 0, 1}},
          {{-5, 0, 0, 5}, {-1, 0, 0, 1}, {-std::sqrt(0.5f), 0, 0, std::sqrt(0.5f)}},
          {{0, 0, 9, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}},       // one value
          {{7, 7, 0, 7}, {0, 0, 0, 0}, {0, 0, 0, 0}},       // equal values
          {{-300, -300, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}, // sums past 32 bits
          {{0, 0, 0, 0, 6}, {0, 0, 0, 0}, {0, 0, 0, 0}}}) { // none, since all events are outside
        const Events events = eventsPerPixel(counts);
        const SpaceEvents input(events, space());
        const Stacker stacker(1, 4, space(),
                              {normalized(CUS_NORMALIZE_POPULATION, 1), normalized(CUS_NORMALIZE_SAMPLE, 1)});
        const cusEventWindow windows[] = {{0, events.size()}, {1, 1}};
        support::Mat frames[2];
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, windows, 2, frames, nullptr));
        for (int k = 0; k < 2; ++k) {
            std::vector<float> expected = k ? sample : population;
            expected.resize(8); // the window without events
            const auto got = support::elements<float>(frames[k]);
            ASSERT_EQ(got.size(), expected.size());
            for (size_t i = 0; i < got.size(); ++i)
                EXPECT_FLOAT_EQ(got[i], expected[i]) << (k ? "sample, " : "population, ") << counts[0] << ", value " << i;
        }
    }
}

TEST_P(EventStack, Normalized) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(5000, 60, 80, 10, random);
    const Events many = randomEvents(60000, 203, 301, 40, random); // rows that are no multiple of 16 bytes
    // Three weights of 1/3 and one of -1 in one bin: 0 in real arithmetic, -2^-24 as multiples of 2^-24, so they count for the
    // mean. On the next pixel, weights that cancel in both.
    Events canceling;
    for (const auto &[t, x, p] : {std::tuple{0, 9, 1}, std::tuple{1, 2, 1}, std::tuple{1, 2, 1}, std::tuple{1, 2, 1},
                                  std::tuple{1, 3, 1}, std::tuple{1, 3, 0}, std::tuple{3, 2, 0}, std::tuple{3, 9, 1}})
        canceling.add(t, x, 0, p);
    Events equal;
    for (int i = 0; i < 3000; ++i)
        equal.add(7, i * 17 % 100, i * 17 / 100 % 90, 1);
    for (cusNormalization how : BOTH_NORMALIZATIONS) {
        check(events, {{0, 5000}, {0, 0}, {1000, 1001}, {0, 700}}, 60, 80, {normalized(how, 5)}, space());
        for (int channels : {1, 3, 8})
            check(many, {{0, 60000}, {100, 30000}}, 203, 301, {normalized(how, channels)}, space());
        check(canceling, {{0, canceling.size()}}, 4, 10, {normalized(how, 2)}, space());
        check(equal, {{0, 3000}, {5, 500}}, 90, 100, {normalized(how, 1)}, space());
    }
}

// Sums that pass 2^24, where floats round, and 2^31, where a GPU's 32-bit accumulators and the CPU's short moments end.
TEST_P(EventStack, NormalizedHugeCounts) {
    std::mt19937_64 random = support::generator();
    for (int most : {3, 130, 4000}) {
        std::vector<int> counts(200);
        for (int &count : counts)
            count = static_cast<int>(random() % static_cast<uint64_t>(2 * most + 1)) - most;
        Events events = eventsPerPixel(counts);
        for (size_t i = 0; i < events.size(); ++i)
            events.t[i] = static_cast<int64_t>(i / 7);
        for (cusNormalization how : BOTH_NORMALIZATIONS)
            for (int channels : {1, 5})
                check(events, {{0, events.size()}, {2, events.size() / 2}}, 3, 200, {normalized(how, channels)}, space());
    }
    for (Content content : {Content::ONE_PIXEL, Content::HOT_PIXEL, Content::LAMP})
        check(eventsOf(content, 50000, 100, 130, random), {{0, 50000}, {7, 20000}}, 100, 130,
              {normalized(CUS_NORMALIZE_POPULATION, 5), normalized(CUS_NORMALIZE_SAMPLE, 2)}, space());
}

// Moments belong to one frame of one representation, and to one call.
TEST_P(EventStack, NormalizedBesideOthers) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(40000, 70, 90, 20, random);
    const std::vector<cusRepresentation> all = {normalized(CUS_NORMALIZE_SAMPLE, 5),
                                                repr(CUS_REPR_VOXEL_GRID),
                                                repr(CUS_REPR_HISTOGRAM),
                                                normalized(CUS_NORMALIZE_POPULATION, 5),
                                                repr(CUS_REPR_TENCODE),
                                                normalized(CUS_NORMALIZE_SAMPLE, 16),
                                                repr(CUS_REPR_TIME_SURFACE)};
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < 120; ++w)
        windows.push_back({w * 300, w * 300 + (w % 5 ? 400 + w : 0)});
    check(events, windows, 70, 90, all, space());
    const SpaceEvents input(events, space());
    const Stacker stacker(70, 90, space(), all);
    for (int call = 0; call < 3; ++call) {
        std::vector<support::Mat> frames(all.size());
        const std::vector<cusEventWindow> some(windows.begin() + call, windows.begin() + 20 + 30 * call);
        CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, some.data(), some.size(), frames.data(), nullptr));
        for (size_t i = 0; i < all.size(); ++i)
            expectFrames(frames[i], events, some, 70, 90, all[i]);
    }
}

// The bound of the header, from the plain grid in wider arithmetic. Few values differ from a mean that is large.
TEST_P(EventStack, NormalizedIsCloseToRealArithmetic) {
    std::mt19937_64 random = support::generator();
    Events crowded = eventsPerPixel(std::vector<int>(100, 1000));
    crowded.add(8, 3, 0, 1);
    for (const Events &events : {crowded, randomEvents(30000, 50, 100, 30, random)})
        for (cusNormalization how : BOTH_NORMALIZATIONS) {
            const SpaceEvents input(events, space());
            const Stacker stacker(50, 100, space(), {repr(CUS_REPR_VOXEL_GRID), normalized(how, 5)});
            const cusEventWindow window = {0, events.size()};
            support::Mat frames[2];
            CUS_ASSERT_OK(cusEventStack(stacker.object, &input.view, &window, 1, frames, nullptr));
            const auto plain = support::elements<float>(frames[0]), got = support::elements<float>(frames[1]);
            long double n = 0, sum = 0, squares = 0;
            for (float v : plain)
                n += v != 0, sum += v;
            for (float v : plain)
                squares += v != 0 ? (v - sum / n) * (v - sum / n) : 0;
            const long double deviation = std::sqrt(squares / (n - (how == CUS_NORMALIZE_SAMPLE)));
            for (size_t i = 0; i < plain.size(); ++i) {
                const double expected = static_cast<double>(plain[i] != 0 ? (plain[i] - sum / n) / deviation : 0);
                ASSERT_NEAR(got[i], expected, 3e-7 * std::fabs(expected) + 1e-15) << "value " << i;
            }
        }
}

// Times of many magnitudes, whose quotients both backends must round alike, and pixels so crowded that small accumulators
// overflow.
TEST(EventStackCuda, SameAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (int round = 0; round < 30; ++round) {
        const int rows = 1 + static_cast<int>(random() % 200), cols = 1 + static_cast<int>(random() % 400);
        const size_t n = 1 + random() % 60000;
        Events events = randomEvents(n, rows, cols, static_cast<int>(random() % 3) * 45, random);
        int64_t t = static_cast<int64_t>(random() >> 20);
        const int shift = 64 - static_cast<int>(random() % 40);
        for (int64_t &time : events.t)
            time = t += shift < 64 ? static_cast<int64_t>(random() >> shift) : 0;
        std::vector<cusEventWindow> windows = {{0, n}, {n / 3, n}, {n / 2, n / 2}};
        for (int i = 0; i < 4; ++i)
            windows.push_back({random() % (n / 2 + 1), n / 2 + random() % (n - n / 2)});
        expectSameAsOnHost(events, windows, rows, cols, otherOptions(random));
    }
}

// Frames whose tiles the device cuts into parts, frames with several bands, and tiles of one row.
TEST(EventStackCuda, PartsAndBands) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    std::vector<cusRepresentation> all = allKinds();
    for (cusRepresentation &r : all)
        r.channels = 16;
    for (const auto &[rows, cols] : {std::pair{720, 1280}, std::pair{17, 65536}, std::pair{3000, 2200}}) {
        Events events = randomEvents(50000, rows, cols, 10, random);
        for (size_t i = 0; i < events.size(); i += 7) { // crowded in the last part of a tile too
            events.x[i] = static_cast<uint16_t>(cols - 2 - static_cast<int>(i % 3 * 150));
            events.y[i] = static_cast<uint16_t>(rows - 1);
            events.p[i] = 1;
        }
        expectSameAsOnHost(events, {{3, 50000}}, rows, cols, all);
        expectSameAsOnHost(events, {{0, 20000}, {9, 40000}}, rows, cols, {all[CUS_REPR_VOXEL_GRID]});
        expectSameAsOnHost(events, {{1, 30000}}, rows, cols, {all[CUS_REPR_STACKED_HISTOGRAM], all[CUS_REPR_MDES]});
        expectSameAsOnHost(events, {{1, 30000}}, rows, cols, {all[CUS_REPR_TIME_SURFACE], all[CUS_REPR_MDES_COUNT]});
    }
}

// A window with more events than fit the device's workspace, in the representations that EventStack.HugeWindow leaves out.
TEST(EventStackCuda, HugeWindowOfTheOtherKinds) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    std::vector<cusRepresentation> kinds;
    for (const cusRepresentation &r : allKinds())
        if (r.kind != CUS_REPR_HISTOGRAM && r.kind != CUS_REPR_MDES && r.kind != CUS_REPR_TENCODE)
            kinds.push_back(r);
    kinds.push_back(normalized(CUS_NORMALIZE_SAMPLE, 5));
    expectSameAsOnHost(randomEvents(34000000, 200, 346, 5, random, 3), {{1, 34000000}, {5, 900}}, 200, 346, kinds);
}

// Frames with several bands, tiles in parts, frames at an odd address, and windows in several groups.
TEST(EventStackCuda, NormalizedAsOnTheHost) {
    CUS_NEEDS(CUS_DEVICE);
    auto random = support::generator();
    for (const auto &[rows, cols] : {std::pair{720, 1280}, std::pair{17, 65536}, std::pair{3000, 2200}}) {
        const Events events = randomEvents(60000, rows, cols, 10, random);
        for (const int channels : {5, 16})
            expectSameAsOnHost(events, {{3, 50000}, {9, 9}, {20000, 60000}}, rows, cols,
                               {normalized(CUS_NORMALIZE_SAMPLE, channels), repr(CUS_REPR_VOXEL_GRID),
                                normalized(CUS_NORMALIZE_POPULATION, channels), repr(CUS_REPR_TENCODE)});
    }
    const Events events = randomEvents(1000000, 200, 301, 20, random, 3);
    std::vector<cusEventWindow> windows;
    for (uint64_t w = 0; w < 90; ++w)
        windows.push_back({w * 1000, w * 1000 + 900000});
    expectSameAsOnHost(events, windows, 200, 301, {normalized(CUS_NORMALIZE_POPULATION, 3)});
}

TEST_P(EventStack, TimesMayBeMissingIfUnused) {
    Events events;
    events.add(0, 1, 1, 1);
    const SpaceEvents input(events, space());
    cusEventArrays view = input.view;
    view.t = nullptr;
    const cusEventWindow window = {0, 1};
    support::Mat frames[2];
    {
        const Stacker stacker(2, 2, space(), {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_MDES)});
        CUS_EXPECT_OK(cusEventStack(stacker.object, &view, &window, 1, frames, nullptr));
        EXPECT_EQ(support::elements(frames[0]), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 0}));
    }
    const Stacker stacker(2, 2, space(), {repr(CUS_REPR_TENCODE)});
    CUS_REJECTS(cusEventStack(stacker.object, &view, &window, 1, frames, nullptr), NULL,
                "cusEventStack: events' t is NULL, expected times");
}

TEST_P(EventStack, AnotherStreamAndManyThreads) {
    std::mt19937_64 random = support::generator();
    const Events events = randomEvents(20000, 100, 120, 20, random);
    const std::vector<cusEventWindow> windows = {{0, 10000}, {10000, 20000}};
    std::vector<std::thread> threads;
    for (int k = 0; k < 2; ++k)
        threads.emplace_back([&] {
            const SpaceEvents input(events, space());
            const std::vector<cusRepresentation> r = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
            const Stacker stacker(100, 120, space(), r);
            support::Owned<cusStreamDestroy> stream;
            if (space() == CUS_DEVICE) {
                CUS_EXPECT_OK(cusStreamCreate(&stream));
                CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
            }
            support::Mat frames[2];
            for (int again = 0; again < 20; ++again)
                CUS_EXPECT_OK(cusEventStack(stacker.object, &input.view, windows.data(), 2, frames, stream));
            if (stream)
                CUS_EXPECT_OK(cusStreamSynchronize(stream));
            for (size_t i = 0; i < 2; ++i)
                expectFrames(frames[i], events, windows, 100, 120, r[i]);
        });
    for (std::thread &t : threads)
        t.join();
}

TEST_P(EventStack, RejectsAndChangesNothing) {
    Events events;
    for (int i = 0; i < 10; ++i)
        events.add(i, i, i, 1);
    const SpaceEvents input(events, space());
    const Stacker stacker(4, 4, space(), {repr(CUS_REPR_HISTOGRAM)});
    cusMat frame = CUS_MAT_INIT;
    const auto stack = [&](const cusEventArrays *e, cusEventWindow w, cusMat *f) {
        return cusEventStack(stacker.object, e, &w, 1, f, nullptr);
    };
    const cusEventArrays *good = &input.view;
    CUS_REJECTS(cusEventStack(nullptr, good, nullptr, 0, &frame, nullptr), NULL, "cusEventStack: stacker is NULL");
    CUS_REJECTS(stack(nullptr, {0, 1}, &frame), NULL, "cusEventStack: events is NULL");
    CUS_REJECTS(stack(good, {0, 1}, nullptr), NULL, "cusEventStack: frames is NULL");
    CUS_REJECTS(cusEventStack(stacker.object, good, nullptr, 1, &frame, nullptr), NULL, "windows is NULL");
    CUS_REJECTS(stack(good, {3, 2}, &frame), VALUE, "windows[0] is 3..2, expected 0 <= first <= last <= 10");
    CUS_REJECTS(stack(good, {3, 11}, &frame), VALUE, "windows[0] is 3..11");
    cusEventArrays bad = *good;
    bad.y = nullptr;
    CUS_REJECTS(stack(&bad, {0, 1}, &frame), NULL, "events' y is NULL");
    bad = *good;
    bad.space = static_cast<cusSpace>(7);
    CUS_REJECTS(stack(&bad, {0, 1}, &frame), VALUE, "events' space is 7");
    bad.space = space() == CUS_HOST ? CUS_DEVICE : CUS_HOST;
    CUS_REJECTS(stack(&bad, {0, 1}, &frame), SPACE, "memory like the stacker");
    EXPECT_EQ(frame.data, nullptr);

    const std::vector<uint8_t> before(4 * 5 * 2, 7);
    support::TestMat fixed(4, 5, CUS_8UC2, space(), {}, before.data());
    CUS_REJECTS(stack(good, {0, 1}, &fixed.mat), SIZE, "frames[0]");
    EXPECT_EQ(fixed.get(), before);
    support::TestMat wrong(4, 4, CUS_8UC3, space());
    CUS_REJECTS(stack(good, {0, 1}, &wrong.mat), SIZE, "frames[0]");
    // A frame that overlaps the events.
    support::TestMat both(4, 4, CUS_8UC2, space());
    bad = *good;
    bad.p = static_cast<const uint8_t *>(both.mat.data) + 3;
    CUS_REJECTS(stack(&bad, {0, 1}, &both.mat), ALIAS, "frames[0] overlaps events' p");
    CUS_EXPECT_OK(cusEventStack(stacker.object, good, nullptr, 0, nullptr, nullptr));
}

// The message names the frame, of any number of representations.
TEST_P(EventStack, NamesTheFrame) {
    Events events;
    events.add(0, 0, 0, 1);
    const SpaceEvents input(events, space());
    const Stacker stacker(4, 4, space(), std::vector<cusRepresentation>(8, repr(CUS_REPR_HISTOGRAM)));
    const cusEventWindow window = {0, 1};
    support::TestMat wrong(4, 5, CUS_8UC2, space());
    for (size_t i = 0; i < 8; ++i) {
        cusMat frames[8] = {};
        frames[i] = wrong.mat;
        CUS_REJECTS(cusEventStack(stacker.object, &input.view, &window, 1, frames, nullptr), SIZE,
                    "cusEventStack: frames[" + std::to_string(i) + "]");
    }
}

TEST(EventStacker, Rejects) {
    cusEventStacker *stacker = nullptr;
    cusRepresentation r = repr(CUS_REPR_MDES);
    const auto create = [&](int rows, int cols, cusSpace space, int count) {
        return cusEventStackerCreate(&stacker, rows, cols, space, &r, count);
    };
    CUS_REJECTS(cusEventStackerCreate(nullptr, 1, 1, CUS_HOST, &r, 1), NULL, "stacker is NULL");
    CUS_REJECTS(cusEventStackerCreate(&stacker, 1, 1, CUS_HOST, nullptr, 1), NULL, "representations is NULL");
    CUS_REJECTS(create(0, 5, CUS_HOST, 1), VALUE, "frame is 0 x 5 (rows x cols), expected 1..65536 each");
    CUS_REJECTS(create(5, 65537, CUS_HOST, 1), VALUE, "frame is 5 x 65537");
    CUS_REJECTS(create(5, 5, static_cast<cusSpace>(3), 1), VALUE, "space is 3");
    CUS_REJECTS(create(5, 5, CUS_HOST, 0), VALUE, "count is 0, expected 1..8");
    CUS_REJECTS(create(5, 5, CUS_HOST, 9), VALUE, "count is 9, expected 1..8");
    r.channels = 17;
    CUS_REJECTS(create(5, 5, CUS_HOST, 1), VALUE, "mdes's channels are 17, expected 1..16");
    r = repr(CUS_REPR_MDES);
    r.depth = CUS_16S;
    CUS_REJECTS(create(5, 5, CUS_HOST, 1), TYPE, "mdes's depth is 3");
    r = repr(CUS_REPR_STACKED_HISTOGRAM);
    r.cutoff = 0;
    CUS_REJECTS(create(5, 5, CUS_HOST, 1), VALUE, "cutoff is 0, expected 1..255");
    r = repr(CUS_REPR_VOXEL_GRID);
    for (r.normalize = -1; r.normalize <= 3; r.normalize += 4)
        CUS_REJECTS(create(5, 5, CUS_HOST, 1), VALUE,
                    "voxel_grid's normalize is " + std::to_string(r.normalize) +
                        ", expected 0 (none), 1 (population) or 2 (sample)");
    r = repr(CUS_REPR_TIME_SURFACE);
    r.normalize = 3; // ignored
    r.tau = -1;
    CUS_REJECTS(create(5, 5, CUS_HOST, 1), VALUE, "tau is -1");
    r.kind = static_cast<cusRepresentationKind>(10);
    CUS_REJECTS(create(5, 5, CUS_HOST, 1), VALUE, "kind is 10, expected 0..9");
    EXPECT_EQ(cusRepresentationName(r.kind), nullptr);
    EXPECT_EQ(stacker, nullptr);
    cusEventStackerDestroy(nullptr);
    if (!support::haveGpu()) {
        r = repr(CUS_REPR_HISTOGRAM);
        EXPECT_EQ(create(5, 5, CUS_DEVICE, 1), CUS_ERROR_NO_CUDA) << cusLastError();
    }
}

// ---- Windows -----------------------------------------------------------------------------------------------------------

class EventWindows : public support::SpaceTest {};
CUS_BOTH_SPACES(EventWindows);

TEST_P(EventWindows, EqualTheirDefinition) {
    std::mt19937_64 random = support::generator();
    for (int round = 0; round < 200; ++round) {
        const Events events = randomEvents(random() % 60, 5, 5, 0, random, 4);
        const SpaceEvents input(events, space());
        cusWindowing w = cusWindowingDefaults();
        w.unit = random() & 1 ? CUS_WINDOW_COUNT : CUS_WINDOW_DURATION;
        w.length = 1 + random() % (round % 3 ? 10 : 100);
        w.stride = random() % 12;
        w.keep_incomplete = static_cast<int>(random() & 1);
        const std::vector<cusEventWindow> expected = reference::windows(events, w);
        size_t count = 99;
        CUS_ASSERT_OK(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr));
        ASSERT_EQ(count, expected.size());
        std::vector<cusEventWindow> got(count + 1);
        CUS_ASSERT_OK(cusEventWindows(&input.view, &w, got.data(), got.size(), &count, nullptr));
        for (size_t i = 0; i < count; ++i) {
            ASSERT_EQ(got[i].first, expected[i].first) << "window " << i;
            ASSERT_EQ(got[i].last, expected[i].last) << "window " << i;
        }
        if (count > 1) {
            CUS_REJECTS(cusEventWindows(&input.view, &w, got.data(), 1, &count, nullptr), CAPACITY, "capacity is 1");
            EXPECT_EQ(count, expected.size());
        }
    }
}

// From the first time to the last, which is all that is read to count windows; nothing is written.
TEST_P(EventWindows, TimesThatEndBeforeTheyBegin) {
    for (const auto &[times, decrease] : {std::pair{std::vector<int64_t>{5000, 6000, 4000}, "1000"},
                                          {{0, -1}, "1"},
                                          {{INT64_MAX / 2, INT64_MIN / 2}, "9223372036854775807"},
                                          {{INT64_MIN, 0, 7}, "9223372036854775801"}}) { // too long to be told apart
        Events events;
        for (const int64_t t : times)
            events.add(t, 0, 0, 0);
        const SpaceEvents input(events, space());
        cusWindowing w = cusWindowingDefaults();
        w.unit = CUS_WINDOW_DURATION;
        w.length = 10000;
        for (w.keep_incomplete = 0; w.keep_incomplete < 2; ++w.keep_incomplete) {
            cusEventWindow window = {77, 77};
            size_t count = 99;
            CUS_REJECTS(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr), VALUE,
                        std::string("t decreases by ") + decrease + " us from the first event to the last");
            CUS_REJECTS(cusEventWindows(&input.view, &w, &window, 1, &count, nullptr), VALUE, "expected non-decreasing");
            EXPECT_EQ(count, 99u);
            EXPECT_EQ(window.last, 77u);
        }
        w = cusWindowingDefaults(); // by count: times are not read
        w.length = 2;
        size_t count = 0;
        CUS_EXPECT_OK(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr));
        EXPECT_EQ(count, (events.size() + 1) / 2);
    }
}

TEST(EventWindowing, ExtremesAndErrors) {
    Events events;
    events.add(INT64_MIN / 2, 0, 0, 0);
    events.add(INT64_MAX / 2, 0, 0, 0);
    const SpaceEvents input(events, CUS_HOST);
    cusWindowing w = cusWindowingDefaults();
    size_t count = 0;
    w.unit = CUS_WINDOW_DURATION;
    w.length = w.stride = uint64_t{1} << 62;
    cusEventWindow windows[2];
    w.keep_incomplete = 1;
    CUS_EXPECT_OK(cusEventWindows(&input.view, &w, windows, 2, &count, nullptr));
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(windows[1].last, 2u);
    w.length = 0;
    CUS_REJECTS(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr), VALUE, "length is 0");
    w.length = uint64_t{1} << 63;
    CUS_REJECTS(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr), VALUE, "length is 9223372036854775808");
    w = cusWindowingDefaults();
    w.stride = uint64_t{1} << 63;
    CUS_REJECTS(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr), VALUE, "stride is");
    w = cusWindowingDefaults();
    w.unit = static_cast<cusWindowUnit>(5);
    CUS_REJECTS(cusEventWindows(&input.view, &w, nullptr, 0, &count, nullptr), VALUE, "unit is 5");
    CUS_REJECTS(cusEventWindows(nullptr, nullptr, nullptr, 0, &count, nullptr), NULL, "events is NULL");
    CUS_REJECTS(cusEventWindows(&input.view, nullptr, nullptr, 0, nullptr, nullptr), NULL, "count is NULL");
    CUS_REJECTS(cusEventWindows(&input.view, nullptr, nullptr, 3, &count, nullptr), NULL, "windows is NULL");
    cusEventArrays bad = input.view;
    bad.t = nullptr;
    w.unit = CUS_WINDOW_DURATION;
    CUS_REJECTS(cusEventWindows(&bad, &w, nullptr, 0, &count, nullptr), NULL, "t is NULL");
}

} // namespace
