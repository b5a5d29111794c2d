// Filters: time, hot pixels, background activity, region and flips.
#include "eventio/support.hpp"
#include "reference/filter.hpp"

using namespace eventio_test;

namespace {

cusEventFilterOptions randomOptions(std::mt19937_64 &random, int width, int height, int64_t last) {
    cusEventFilterOptions o = cusEventFilterDefaults();
    o.width = width, o.height = height;
    const auto maybe = [&random] { return random() % 2 == 0; };
    if (maybe()) {
        o.begin = static_cast<int64_t>(random() % static_cast<uint64_t>(last));
        o.end = o.begin + static_cast<int64_t>(random() % static_cast<uint64_t>(last));
    }
    if (maybe()) {
        o.hot_events = 1 + random() % 5;
        o.hot_period = 1 + static_cast<int64_t>(random() % 2000);
    }
    if (maybe())
        o.activity = 1 + static_cast<int64_t>(random() % 300);
    if (maybe()) {
        o.x = static_cast<int>(random() % static_cast<uint64_t>(width));
        o.y = static_cast<int>(random() % static_cast<uint64_t>(height));
        o.region_width = 1 + static_cast<int>(random() % static_cast<uint64_t>(width - o.x));
        o.region_height = 1 + static_cast<int>(random() % static_cast<uint64_t>(height - o.y));
    }
    if (maybe()) { // both ways, and up to the largest
        o.grid_width = 1 + static_cast<int>(random() % (maybe() ? 20 : 65536));
        o.grid_height = 1 + static_cast<int>(random() % 20);
    }
    o.flip_x = maybe();
    o.flip_y = maybe();
    return o;
}

// In pieces of random sizes.
Events run(const Events &events, const cusEventFilterOptions &options, std::mt19937_64 &random) {
    support::Owned<cusEventFilterDestroy> filter;
    CUS_EXPECT_OK(cusEventFilterCreate(&filter, &options));
    Events out;
    for (size_t from = 0, n; from < events.size(); from += n) {
        n = std::min<size_t>(events.size() - from, random() % 300);
        Events piece = events.part(from, n);
        size_t kept = n + 1;
        CUS_EXPECT_OK(cusEventFilterRun(filter, n, piece.x.data(), piece.y.data(), piece.p.data(), piece.t.data(), &kept));
        for (size_t i = 0; i < kept && i < n; ++i)
            out.add(piece.t[i], piece.x[i], piece.y[i], piece.p[i]);
    }
    return out;
}

} // namespace

TEST(EventFilter, EqualsTheReference) {
    auto random = support::generator();
    size_t some = 0;
    for (int round = 0; round < 60 || some <= 20; ++round) {
        const int width = 1 + static_cast<int>(random() % 12), height = 1 + static_cast<int>(random() % 9);
        Events events;
        int64_t t = static_cast<int64_t>(random() % 1000000);
        for (int i = 0; i < 1500; ++i)
            events.add(t += static_cast<int64_t>(random() % 30), static_cast<unsigned>(random() % uint64_t(width + 2)),
                       static_cast<unsigned>(random() % uint64_t(height + 2)), random() & 1);
        const cusEventFilterOptions options = randomOptions(random, width, height, t);
        const Events expected = reference::filtered(events, options);
        ASSERT_TRUE(run(events, options, random) == expected) << "round " << round;
        some += expected.size() > 0;
    }
}

// Times of both signs and the whole range of 64 bits.
TEST(EventFilter, Extremes) {
    auto random = support::generator();
    Events events;
    for (const int64_t t : {INT64_MIN, INT64_MIN + 1, int64_t(-1), int64_t(0), INT64_MAX - 1})
        for (int i = 0; i < 2; ++i)
            events.add(t, static_cast<unsigned>(i), 0, 1);
    cusEventFilterOptions options = cusEventFilterDefaults();
    options.width = options.height = 2;
    options.hot_events = 1;
    options.activity = INT64_MAX;
    // The second event at -1, and both at the end; INT64_MIN is no time.
    EXPECT_EQ(run(events, options, random).size(), 3u);
}

TEST(EventFilter, Rejects) {
    cusEventFilter *filter = nullptr;
    cusEventFilterOptions good = cusEventFilterDefaults();
    good.width = 8, good.height = 6;
    const auto rejects = [&](auto change, const char *message) {
        cusEventFilterOptions options = good;
        change(options);
        CUS_REJECTS(cusEventFilterCreate(&filter, &options), VALUE, message);
        EXPECT_EQ(filter, nullptr);
    };
    using Options = cusEventFilterOptions;
    rejects([](Options &o) { o.width = 0; },
            "cusEventFilterCreate: sensor is 0 x 6 (width x height), expected 1..65536 each");
    rejects([](Options &o) { o.height = 65537; }, "sensor is 8 x 65537");
    rejects([](Options &o) { o.begin = 5, o.end = 4; }, "window is 5..4 us, expected begin <= end");
    rejects([](Options &o) { o.activity = -1; }, "activity is -1 us");
    rejects([](Options &o) { o.hot_period = 0; }, "hot_period is 0 us");
    rejects([](Options &o) { o.x = 1; }, "region is 0 x 0 at 1, 0, expected a part of the 8 x 6 sensor");
    rejects([](Options &o) { o.x = 5, o.region_width = 4, o.region_height = 1; }, "region is 4 x 1 at 5, 0");
    rejects([](Options &o) { o.grid_width = 3; }, "grid_width x grid_height is 3 x 0, expected 1..65536 each, or 0 x 0");
    rejects([](Options &o) { o.grid_width = 65537, o.grid_height = 1; }, "grid_width x grid_height is 65537 x 1");
    CUS_REJECTS(cusEventFilterCreate(nullptr, &good), NULL, "filter is NULL");
    CUS_REJECTS(cusEventFilterCreate(&filter, nullptr), NULL, "options is NULL");
    support::Owned<cusEventFilterDestroy> made;
    CUS_ASSERT_OK(cusEventFilterCreate(&made, &good));
    uint16_t x[2] = {1, 2}, y[2] = {1, 2};
    uint8_t p[2] = {0, 1};
    int64_t t[2] = {5, 4};
    size_t kept = 9;
    CUS_REJECTS(cusEventFilterRun(made, 2, x, y, p, t, &kept), VALUE,
                "cusEventFilterRun: event 1 has time 4 us, expected 5 or more");
    t[1] = 5;
    CUS_EXPECT_OK(cusEventFilterRun(made, 2, x, y, p, t, &kept));
    EXPECT_EQ(kept, 2u);
    t[0] = 4; // also across calls
    CUS_REJECTS(cusEventFilterRun(made, 1, x, y, p, t, &kept), VALUE,
                "cusEventFilterRun: event 0 has time 4 us, expected 5 or more");
    kept = 9;
    CUS_REJECTS(cusEventFilterRun(made, 2, x, nullptr, p, t, &kept), NULL, "y is NULL");
    CUS_REJECTS(cusEventFilterRun(made, 0, nullptr, nullptr, nullptr, nullptr, nullptr), NULL, "kept is NULL");
    CUS_REJECTS(cusEventFilterRun(nullptr, 0, nullptr, nullptr, nullptr, nullptr, &kept), NULL, "filter is NULL");
    EXPECT_EQ(kept, 9u);
    cusEventFilterDestroy(nullptr);
}
