// The arithmetic of the performance suite's harness.
#include "support.hpp"

#include "../../perf/harness/arithmetic.hpp"

namespace {

TEST(PerfHarness, SummaryOfSamples) {
    std::vector<double> samples;
    for (int k = 100; k >= 0; --k)
        samples.push_back(k < 100 ? 10 + k * 0.01 : 1000); // one outlier
    const perf::Timing t = perf::summary(samples);
    EXPECT_DOUBLE_EQ(t.median_ms, 10.5);
    EXPECT_DOUBLE_EQ(t.min_ms, 10);
    EXPECT_DOUBLE_EQ(t.max_ms, 1000);
    EXPECT_NEAR(t.spread, 0.8 / 10.5, 1e-12);
    EXPECT_EQ(t.samples, 101);
    EXPECT_DOUBLE_EQ(perf::summary({3, 1}).median_ms, 2);
    EXPECT_DOUBLE_EQ(perf::summary({7}).median_ms, 7);
    EXPECT_EQ(perf::summary({}).samples, 0);
}

TEST(PerfHarness, BatchLength) {
    EXPECT_EQ(perf::batchLength(2, 10, 0.2), 100); // 0.02 ms a call
    EXPECT_EQ(perf::batchLength(2, 1, 1.5), 2);
    EXPECT_EQ(perf::batchLength(2, 1, 300), 1);
    EXPECT_GT(perf::batchLength(2, 1, 0), 1000); // below the clock's resolution
}

TEST(PerfHarness, RotationOutlastsTheCache) {
    EXPECT_EQ(perf::rotationFor(60, 1000), 2); // one other set is more than twice the cache
    EXPECT_EQ(perf::rotationFor(60, 120), 2);
    EXPECT_EQ(perf::rotationFor(60, 119), 3);
    EXPECT_EQ(perf::rotationFor(60, 12), 11);
    EXPECT_EQ(perf::rotationFor(size_t(60) << 20, 1), 256);
}

TEST(PerfHarness, BusFloor) {
    const perf::BusGbps bus = {54, 55, 84};
    EXPECT_NEAR(perf::busFloorMs(bus, 54e6, 0), 1, 1e-12);
    EXPECT_NEAR(perf::busFloorMs(bus, 54e6, 55e6), 109.0 / 84, 1e-12);
    EXPECT_NEAR(perf::busFloorMs(bus, 1e6, 55e6), 1, 1e-12);
}

TEST(PerfHarness, RowsAreJsonLines) {
    perf::JsonObject row, peers;
    EXPECT_EQ(peers.text(), "{}");
    peers.add("npp", 0.5).add("\"x\"", 3.0);
    row.add("id", std::string("integral/1x1"))
        .add("backend", "cuda")
        .add("median_ms", 0.0123456789)
        .add("bytes", 1ll << 40);
    row.add("peers", peers);
    EXPECT_EQ(row.text(), "{\"id\": \"integral/1x1\", \"backend\": \"cuda\", \"median_ms\": 0.0123457, "
                          "\"bytes\": 1099511627776, \"peers\": {\"npp\": 0.5, \"\\\"x\\\"\": 3}}");
}

TEST(PerfHarness, StringsAreQuoted) {
    EXPECT_EQ(perf::quoted("a \"b\" \\ c\n"), "\"a \\\"b\\\" \\\\ c\"");
}

} // namespace
