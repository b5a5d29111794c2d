// Shards of cusEventFrames: one after the other they are the frames of the whole recording.
#include "eventframes/support.hpp"

#include <cstdlib>
#include <map>

namespace {

using namespace eventframes_test;

class EventFramesShards : public FramesTest {
  protected:
    // Windows and frames up to the first shard that ends with damage, whose status is returned.
    static cusStatus join(const Bytes &bytes, cusEventFramesOptions o, uint64_t shards,
                          const cusEventReaderOptions &reading, Collected &to) {
        const cusRepresentation r[] = {repr(CUS_REPR_HISTOGRAM), repr(CUS_REPR_TENCODE)};
        o.shards = shards;
        o.max_events = 8192, o.batch_windows = 16; // little memory, since it is reserved thousands of times
        cusStatus status = CUS_OK;
        for (o.shard = 0; o.shard < std::max<uint64_t>(shards, 1) && status == CUS_OK; ++o.shard) {
            Reader reader(bytes, reading);
            Frames frames;
            status = cusEventFramesOpenReader(&frames, reader.reader, r, 2, &o);
            EXPECT_EQ(status, CUS_OK) << cusLastError();
            status = status == CUS_OK ? collect(frames, to) : CUS_ERROR_NO_CUDA;
        }
        return status;
    }

    static void expectSame(const Bytes &bytes, const cusEventFramesOptions &o, const std::string &name,
                           cusEventReaderOptions reading = cusEventReaderDefaults()) {
        if (isLeftOut(o))
            return;
        reading.width = WIDTH, reading.height = HEIGHT;
        Collected whole;
        const cusStatus status = join(bytes, o, 0, reading, whole);
        for (const uint64_t shards : {2, 7, 1, 3, 40}) {
            if (support::fewer() > 1 && shards != 2 && shards != 7)
                break;
            SCOPED_TRACE(name + ", " + std::to_string(shards) + " shards, windows of " +
                         std::to_string(o.windowing.length) + " every " + std::to_string(o.windowing.stride));
            Collected joined;
            ASSERT_EQ(join(bytes, o, shards, reading, joined), status) << cusLastError();
            ASSERT_EQ(joined.windows.size(), whole.windows.size());
            for (size_t k = 0; k < whole.windows.size(); ++k) {
                ASSERT_EQ(joined.windows[k].first, whole.windows[k].first) << "window " << k;
                ASSERT_EQ(joined.windows[k].last, whole.windows[k].last) << "window " << k;
            }
            ASSERT_TRUE(joined.values == whole.values);
        }
    }

    // Disjoint, overlapping, with gaps, longer than a part, and more windows than events.
    std::vector<cusEventFramesOptions> windowings() const {
        std::vector<cusEventFramesOptions> all = byNumberAndTime({{300, 0}, {300, 110}, {90, 400}, {2500, 700}});
        for (size_t k = 0; k < all.size(); k += 3)
            all[k].windowing.keep_incomplete = 0;
        return all;
    }
    std::mt19937_64 random = support::generator();
};
CUS_BOTH_SPACES(EventFramesShards);

TEST_P(EventFramesShards, AreTheWholeInEveryFormat) {
    const Events events = some(4000 / support::fewer(), random);
    for (const auto &[name, bytes] : files(events))
        for (const cusEventFramesOptions &o : windowings())
            expectSame(bytes, o, name);
}

TEST_P(EventFramesShards, EqualTimes) {
    const Events events = ofEqualTimes(random);
    for (const auto &[name, bytes] : files(events))
        for (const auto &[length, stride] : {std::pair<uint64_t, uint64_t>{1, 30}, {400, 0}, {20000, 500}})
            expectSame(bytes, options(CUS_WINDOW_DURATION, length, stride), name);
}

TEST_P(EventFramesShards, FewerEventsThanShards) {
    for (const size_t n : {1, 2, 5}) {
        const Events events = some(n, random);
        for (const auto &[name, bytes] : files(events)) {
            expectSame(bytes, options(CUS_WINDOW_COUNT, 2), name);
            expectSame(bytes, options(CUS_WINDOW_DURATION, 1000), name);
        }
    }
}

// Events without fixed numbers.
TEST_P(EventFramesShards, RangeFilterAndBadEvents) {
    const Events events = some(2000, random);
    cusEventFilterOptions filter = cusEventFilterDefaults();
    filter.width = WIDTH, filter.height = HEIGHT;
    filter.activity = 3000; // which remembers
    for (const auto &[name, bytes] : files(events))
        for (cusEventFramesOptions o : {options(CUS_WINDOW_COUNT, 90, 40), options(CUS_WINDOW_DURATION, 500, 600)}) {
            cusEventReaderOptions skipping = cusEventReaderDefaults();
            skipping.bad_events = CUS_BAD_EVENTS_SKIP;
            expectSame(bytes, o, name + ", skipping", skipping);
            o.filter = &filter;
            expectSame(bytes, o, name + ", filter");
            o.from = events.t[500], o.to = events.t[1500];
            expectSame(bytes, o, name + ", range");
        }
}

// The shard that meets the damage has the frames before it, as one run has.
TEST_P(EventFramesShards, Damage) {
    const Events events = some(3000, random);
    for (const auto &[name, good] : files(events))
        for (int round = 0; round < 8; ++round) {
            Bytes bytes = good;
            const size_t at = bytes.size() / 16 + random() % (bytes.size() * 15 / 16);
            if (round % 2)
                bytes.resize(at);
            else
                std::fill(bytes.begin() + std::ptrdiff_t(at),
                          bytes.begin() + std::ptrdiff_t(std::min(at + 40, bytes.size())),
                          uint8_t(round % 4 ? 0xff : random()));
            cusEventReader *reader = nullptr;
            cusEventReaderOptions sized = cusEventReaderDefaults();
            sized.width = WIDTH, sized.height = HEIGHT;
            const bool opens = cusEventReaderOpenMemory(&reader, bytes.data(), bytes.size(), &sized) == CUS_OK;
            cusEventReaderClose(reader);
            if (!opens)
                continue;
            const std::vector<cusEventFramesOptions> all = windowings();
            expectSame(bytes, all[size_t(round) % all.size()], name + ", round " + std::to_string(round));
        }
}

// What reviews have found: lines of text, windows, and options, in which a shard differed from the whole.
TEST_P(EventFramesShards, PlacesOfDamage) {
    const auto text = [](const std::vector<std::string> &lines) {
        std::string all = "64 48\n";
        for (const std::string &line : lines)
            all += line + "\n";
        return reference::bytesOf(all);
    };
    std::vector<std::string> lines;
    for (int i = 1; i <= 40; ++i)
        lines.push_back(std::to_string(i) + " 3 3 1");
    expectSame(text(lines), options(CUS_WINDOW_COUNT, 5), "the first event at 1 us");
    // Times step back: before the first event of a part, within one, and far.
    for (const int at : {100, 99, 101, 30})
        for (const int step : {5000, 200, 20, 100000}) {
            if (support::fewer() > 1 && step != 5000)
                continue;
            lines.clear();
            for (int i = 0; i < 200; ++i)
                lines.push_back(std::to_string(200000 + 100 * i - (i >= at ? step : 0)) + " 3 3 1");
            for (const cusEventFramesOptions &o :
                 {options(CUS_WINDOW_COUNT, 10), options(CUS_WINDOW_COUNT, 3, 7), options(CUS_WINDOW_DURATION, 1000),
                  options(CUS_WINDOW_DURATION, 300, 110), options(CUS_WINDOW_DURATION, 1, 2000),
                  options(CUS_WINDOW_DURATION, 100, 700)})
                expectSame(text(lines), o, "a step of " + std::to_string(step) + " at " + std::to_string(at));
        }
    lines.clear(); // after the step the times of the part's borders differ by less than a window
    for (int i = 0; i < 30; ++i)
        lines.push_back(std::to_string(200000 + (i < 10   ? 100 * i
                                                 : i < 16 ? 1000 + 150 * (i - 10)
                                                          : 1000 + i - 16)) +
                        " 3 3 1");
    expectSame(text(lines), options(CUS_WINDOW_DURATION, 100), "a step between two borders");
    // Events that are skipped, and damage behind a range.
    cusEventReaderOptions skipping = cusEventReaderDefaults();
    skipping.bad_events = CUS_BAD_EVENTS_SKIP;
    const std::vector<std::string> bad = {"16 8 1 0", "3 4 0 0", "4 5 1 0",  "14 0 5 0", "24 15 7 1",
                                          "24 8 1 0", "0 1 1 1", "24 1 5 0", "34 4 3 0"};
    expectSame(text(bad), options(CUS_WINDOW_COUNT, 2, 3), "skipping", skipping);
    lines.resize(100);
    lines.emplace_back("no event");
    for (const int64_t to : {205000, 209900, 209950, 300000}) {
        cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 7);
        o.to = to;
        expectSame(text(lines), o, "to " + std::to_string(to));
    }
}

// A gap that is too long is an error of the shard whose windows it follows, not of one that reads so far.
TEST_P(EventFramesShards, Gap) {
    Events events;
    for (int k = 0; k < 4000; ++k)
        events.add(k < 3500 ? 2 * k : 1000000 + k, k % WIDTH, k % HEIGHT, k % 2);
    for (const auto &[name, bytes] : files(events))
        for (const uint64_t stride : {0, 30})
            expectSame(bytes, options(CUS_WINDOW_DURATION, 100, stride), name);
}

TEST_P(EventFramesShards, Restart) {
    const Events events = some(3000, random);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const auto &[name, bytes] : files(events))
        for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
            cusEventFramesOptions o = options(unit, unit == CUS_WINDOW_COUNT ? 200 : 700);
            o.shards = 3, o.shard = 1, o.batch_windows = 2;
            Reader reader(bytes);
            Frames frames;
            CUS_ASSERT_OK(cusEventFramesOpenReader(&frames, reader.reader, &r, 1, &o));
            Collected once, again;
            CUS_ASSERT_OK(collect(frames, once));
            CUS_ASSERT_OK(cusEventFramesRestart(frames));
            CUS_ASSERT_OK(collect(frames, again));
            EXPECT_GT(once.windows.size(), 2u) << name;
            EXPECT_TRUE(again.values == once.values && again.first == once.first) << name;
        }
}

// A shard reads no more than its part and what its windows need.
TEST_P(EventFramesShards, ReadTheirPart) {
    const Folder at;
    Events events;
    for (int i = 0; i < 12000000; ++i)
        events.add(i, i % WIDTH, i % HEIGHT, i % 2);
    save(at / "r", reference::dat(events, DAT)); // three pieces of 32 MiB
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    for (const cusWindowUnit unit : {CUS_WINDOW_COUNT, CUS_WINDOW_DURATION}) {
        cusEventFramesOptions o = options(unit, 100000);
        o.shards = 12, o.batch_windows = 4;
        o.shard = 3;
        Frames frames;
        CUS_ASSERT_OK(cusEventFramesOpen(&frames, (at / "r").c_str(), nullptr, &r, 1, &o));
        Collected got;
        CUS_ASSERT_OK(collect(frames, got));
        EXPECT_EQ(got.first, unit == CUS_WINDOW_COUNT ? 30u : 31u); // events of one time stay together
        EXPECT_EQ(got.windows.size(), 10u);
        cusEventFramesCounts counts;
        CUS_ASSERT_OK(cusEventFramesQuery(frames, &counts));
        EXPECT_LE(counts.events, 33554432u / 8 * 5 / 4); // of one piece, or a quarter and one
        EXPECT_GE(counts.events, 1000000u);
    }
}

TEST_P(EventFramesShards, Rejects) {
    std::mt19937_64 again = random;
    const Bytes bytes = reference::dat(some(100, random), DAT);
    const cusRepresentation r = repr(CUS_REPR_HISTOGRAM);
    Reader reader(bytes);
    cusEventFrames *frames = nullptr;
    const auto open = [&](const cusEventFramesOptions &o) {
        return cusEventFramesOpenReader(&frames, reader.reader, &r, 1, &o);
    };
    cusEventFramesOptions o = options(CUS_WINDOW_COUNT, 10);
    o.shard = 1;
    CUS_REJECTS(open(o), VALUE, "cusEventFramesOpenReader: shard is 1, expected less than shards, 0");
    o.shards = 1;
    CUS_REJECTS(open(o), VALUE, "shard is 1, expected less than shards, 1");
    o.shards = (1 << 20) + 1;
    CUS_REJECTS(open(o), VALUE, "shards is 1048577, expected 0 to 2^20");
    o.shards = 2, o.first_window = 3, o.end_window = 5;
    CUS_REJECTS(open(o), VALUE, "first_window is 3 and end_window 5, expected 0 with shards");
    o.first_window = o.end_window = 0;
    o.windowing.length = 0;
    CUS_REJECTS(open(o), VALUE, "windowing's length is 0");
    o.windowing.length = 10, o.max_events = 1; // noticed when the shard has been found
    CUS_REJECTS(open(o), VALUE, "cusEventFramesOpenReader: ");
    EXPECT_EQ(reader.read(1).t, some(100, again).part(0, 1).t) << "the reader has been moved";
    o.max_events = 0;
    reader.read(6);
    CUS_REJECTS(open(o), VALUE, "reader is at event 7, expected its first event with shards");
    EXPECT_EQ(frames, nullptr);
}

// ---- Launchers -----------------------------------------------------------------------------------------------------------

// The shard by these variables and no others, "shard/shards", or the message.
std::string launched(const std::map<std::string, std::string> &variables) {
    for (const char *const name :
         {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_PROCID",
          "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"})
        unsetenv(name);
    for (const auto &[name, value] : variables)
        setenv(name.c_str(), value.c_str(), 1);
    uint64_t shard = 77, shards = 78;
    const cusStatus status = cusEventFramesLauncherShard(&shard, &shards);
    for (const auto &[name, value] : variables)
        unsetenv(name.c_str());
    EXPECT_TRUE(status == CUS_OK || (status == CUS_ERROR_VALUE && shard == 77 && shards == 78));
    return status == CUS_OK ? std::to_string(shard) + "/" + std::to_string(shards) : cusLastError();
}

TEST(EventFramesLauncher, SaysWhichShard) {
    EXPECT_EQ(launched({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}}), "3/8");
    EXPECT_EQ(launched({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "0/2");
    EXPECT_EQ(launched({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "6"}}), "5/6");
    std::map<std::string, std::string> array = {{"SLURM_ARRAY_TASK_ID", "7"},
                                                {"SLURM_ARRAY_TASK_COUNT", "3"},
                                                {"SLURM_ARRAY_TASK_MIN", "1"},
                                                {"SLURM_ARRAY_TASK_STEP", "3"}};
    EXPECT_EQ(launched(array), "2/3");
    array["SLURM_PROCID"] = "0"; // of the batch script itself
    EXPECT_EQ(launched(array), "2/3");
    array["SLURM_STEP_NUM_TASKS"] = "4";
    array["SLURM_PROCID"] = "1";
    EXPECT_EQ(launched(array), "9/12");
    array["OMPI_COMM_WORLD_RANK"] = "0"; // mpirun's own step
    array["OMPI_COMM_WORLD_SIZE"] = "2";
    EXPECT_EQ(launched(array), "4/6");
}

TEST(EventFramesLauncher, Rejects) {
    const std::string name = "cusEventFramesLauncherShard: ";
    const auto starts = [&](const std::map<std::string, std::string> &variables, const std::string &message) {
        const std::string got = launched(variables);
        EXPECT_EQ(got.substr(0, name.size() + message.size()), name + message);
    };
    starts({}, "no launcher has started this process");
    starts({{"PMI_RANK", "0"}}, "no launcher has started this process");
    starts({{"SLURM_PROCID", "0"}}, "no launcher has started this process");
    starts({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, "process 2 of 2 in task 0 of 1, expected less");
    starts({{"PMI_RANK", "0"}, {"PMI_SIZE", "2000000"}}, "process 0 of 2000000");
    for (const char *const wrong : {"", "-1", "x", "1x", " 1", "99999999999", "99999999999999999999999"})
        starts({{"PMI_RANK", wrong}, {"PMI_SIZE", "2"}}, "PMI_RANK is '" + std::string(wrong) + "', expected a number");
    starts({{"SLURM_ARRAY_TASK_ID", "7"}, {"SLURM_ARRAY_TASK_COUNT", "3"}, {"SLURM_ARRAY_TASK_MIN", "1"}},
           "SLURM_ARRAY_TASK_ID is 7, expected one of 3 numbers from 1 on, every 1");
    starts({{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "3"}, {"SLURM_ARRAY_TASK_MIN", "2"}},
           "SLURM_ARRAY_TASK_ID is 1");
    uint64_t one = 0;
    CUS_REJECTS(cusEventFramesLauncherShard(nullptr, &one), NULL, "shard is NULL");
    CUS_REJECTS(cusEventFramesLauncherShard(&one, nullptr), NULL, "shards is NULL");
}

} // namespace
