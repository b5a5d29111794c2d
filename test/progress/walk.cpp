// The callback of cusSetProgress, and how a call is walked.
#include "progress/support.hpp"

#include "cusight/match.h"
#include "cusight/pose.h"
#include "cusight/stereo.h"

#include <chrono>
#include <cmath>
#include <thread>

extern "C" __attribute__((weak)) void omp_set_num_threads(int); // libgomp is not linked to all builds
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace progress_test {

namespace {

// Sets the number of threads while it exists.
class Threads {
  public:
    explicit Threads(int n) {
        if (omp_set_num_threads) {
            before_ = omp_get_max_threads();
            omp_set_num_threads(n);
        }
    }
    ~Threads() {
        if (omp_set_num_threads)
            omp_set_num_threads(before_);
    }

  private:
    int before_ = 1;
};

void cancelAt(int at, const std::string &name, After after, const std::function<Work()> &make,
              const std::vector<uint8_t> &expected) {
    SCOPED_TRACE("cancelled by call " + std::to_string(at) + " of the callback");
    const Work work = make();
    Watch watch;
    watch.cancel_at = at;
    watch.set();
    CUS_EXPECT_ERROR(work.call(), CUS_ERROR_CANCELLED, name + ": cancelled at ");
    EXPECT_EQ(watch.calls, at) << "asked again";
    cusSetProgress(nullptr, nullptr);
    if (after == After::ENDED) {
        CUS_EXPECT_ERROR(work.call(), CUS_ERROR_CANCELLED, "");
        return;
    }
    CUS_ASSERT_OK(work.call());
    EXPECT_TRUE(work.result() == expected);
}

} // namespace

void walk(const std::string &name, int least, After after, const std::function<Work()> &make) {
    SCOPED_TRACE(name);
    const Unset unset;
    const Threads one(1);
    const Work plain = make();
    CUS_ASSERT_OK(plain.call());
    const std::vector<uint8_t> expected = plain.result();
    Watch watch;
    const Work watched = make();
    watch.set();
    CUS_ASSERT_OK(watched.call());
    cusSetProgress(nullptr, nullptr);
    EXPECT_TRUE(watched.result() == expected);
    EXPECT_TRUE(watch.is_monotone);
    EXPECT_EQ(watch.done, 1);
    EXPECT_EQ(watch.left, 0);
    ASSERT_GE(watch.calls, least + 1) << "asked seldom";
    for (const int at : {1, watch.calls / 2, watch.calls - 1})
        cancelAt(at, name, after, make, expected);
    { // a team: only the calling thread asks, if it gets any of a work that is short
        const Threads two(2);
        const Work work = make();
        watch = {};
        watch.cancel_at = 1;
        watch.set();
        const cusStatus status = work.call();
        EXPECT_EQ(status, watch.calls > 0 ? CUS_ERROR_CANCELLED : CUS_OK);
        EXPECT_LE(watch.calls, 1);
    }
}

namespace {

// A search that takes some seconds, in noise.
struct Search {
    explicit Search(cusSpace space = CUS_HOST, int side = 110)
        : frame(side, side, CUS_8UC1, space), templ(24, 24, CUS_8UC1, space) {
        std::mt19937_64 random(7);
        frame.set(support::randomBytes(static_cast<size_t>(side * side), random).data());
        templ.set(support::randomBytes(24 * 24, random).data());
        cusPoseOptions options = cusPoseDefaults();
        options.angles = {0, 350, 10, nullptr, 0};
        CUS_EXPECT_OK(cusPoseMatcherCreate(&matcher, &templ.mat, side, side, &options, nullptr));
    }
    cusStatus run() { return cusPoseMatcherRun(matcher, &frame.mat, nullptr); }
    support::TestMat frame, templ;
    support::Owned<cusPoseMatcherDestroy> matcher;
};

TEST(Progress, TimeLeftIsKnownAndEndsAtZero) {
    const Unset unset;
    Search search;
    struct Seen {
        std::vector<std::pair<double, double>> calls;
    } seen;
    CUS_ASSERT_OK(cusi_setProgress(
        [](void *user, double done, double left) {
            static_cast<Seen *>(user)->calls.emplace_back(done, left);
            return 0;
        },
        &seen, 0));
    CUS_ASSERT_OK(search.run());
    ASSERT_GT(seen.calls.size(), 10u);
    EXPECT_LT(seen.calls.front().second, 0) << "not known yet";
    EXPECT_GT(seen.calls[seen.calls.size() / 2].second, 0);
    EXPECT_EQ(seen.calls.back(), std::make_pair(1.0, 0.0));
}

TEST(Progress, ShortCallsDoNotCall) {
    const Unset unset;
    Watch watch;
    CUS_ASSERT_OK(cusSetProgress(&Watch::callback, &watch));
    support::TestMat left(16, 32, CUS_8UC1, CUS_HOST), right(16, 32, CUS_8UC1, CUS_HOST);
    support::Mat elevation;
    cusStereoOptions options = cusStereoDefaults();
    options.shifts = 4;
    const auto begin = std::chrono::steady_clock::now();
    CUS_ASSERT_OK(cusStereoElevation(&left.mat, &right.mat, &elevation, &options, nullptr));
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(45))
        GTEST_SKIP() << "it was not short here"; // under a sanitizer
    EXPECT_EQ(watch.calls, 0);
}

TEST(Progress, IntervalIsKept) {
    const Unset unset;
    Search search;
    Watch watch;
    CUS_ASSERT_OK(cusi_setProgress(&Watch::callback, &watch, 1e6));
    CUS_ASSERT_OK(search.run());
    EXPECT_EQ(watch.calls, 0);
}

TEST(Progress, OtherThreadsAreNotAsked) {
    const Unset unset;
    Search search;
    Watch watch;
    watch.cancel_at = 1;
    watch.set();
    cusStatus status = CUS_ERROR_VALUE;
    std::thread([&] { status = search.run(); }).join();
    EXPECT_EQ(status, CUS_OK);
    EXPECT_EQ(watch.calls, 0);
    CUS_EXPECT_ERROR(search.run(), CUS_ERROR_CANCELLED, "cusPoseMatcherRun: cancelled at 0 %");
}

TEST(Progress, IsSetOutsideOfCalls) {
    const Unset unset;
    Search search;
    struct Seen {
        cusStatus status = CUS_OK;
        std::string message;
    } seen;
    CUS_ASSERT_OK(cusi_setProgress(
        [](void *user, double done, double) {
            Seen &s = *static_cast<Seen *>(user);
            if (done < 1) {
                s.status = cusSetProgress(nullptr, nullptr);
                s.message = cusLastError();
            }
            return 0;
        },
        &seen, 0));
    CUS_ASSERT_OK(search.run());
    EXPECT_EQ(seen.status, CUS_ERROR_BUSY);
    EXPECT_EQ(seen.message, "cusSetProgress: another call of this thread is running, expected none");
}

// A callback that uses the library: those calls are not asked about, and change nothing of the one that asks.
TEST(Progress, CallbackMayCallTheLibrary) {
    const Unset unset;
    Search search;
    struct Seen {
        Search inner{CUS_HOST, 40};
        int calls = 0, depth = 0, deepest = 0;
        double done = 0;
        bool is_monotone = true;
    } seen;
    CUS_ASSERT_OK(cusi_setProgress(
        [](void *user, double done, double) {
            Seen &s = *static_cast<Seen *>(user);
            s.deepest = std::max(s.deepest, ++s.depth);
            s.is_monotone &= done >= s.done;
            s.done = done;
            if (s.calls++ % 100 == 0)
                CUS_EXPECT_OK(s.inner.run());
            CUS_REJECTS(cusPoseMatcherRun(nullptr, nullptr, nullptr), NULL, "matcher is NULL");
            --s.depth;
            return 0;
        },
        &seen, 0));
    CUS_ASSERT_OK(search.run());
    EXPECT_EQ(seen.deepest, 1);
    EXPECT_TRUE(seen.is_monotone);
    EXPECT_EQ(seen.done, 1);
}

TEST(Progress, CancelledSearchGivesItsBestSoFar) {
    const Unset unset;
    const Threads one(1); // of a search that one thread makes, the same number of calls reaches the same place
    Search search;
    Watch all;
    all.set();
    CUS_ASSERT_OK(search.run());
    cusPoseMatch match;
    int found = -1;
    double best = 0;
    for (int at = 1; at < all.calls; at += all.calls / 20) {
        Watch watch;
        watch.cancel_at = at;
        watch.set();
        CUS_EXPECT_ERROR(search.run(), CUS_ERROR_CANCELLED, "");
        CUS_ASSERT_OK(cusPoseMatcherGet(search.matcher, &match, 1, &found));
        if (at == 1)
            EXPECT_EQ(found, 0) << "nothing had been compared";
        EXPECT_GE(found > 0 ? match.score : 0, best) << "cancelled by call " << at << " of " << all.calls;
        best = found > 0 ? match.score : 0;
    }
    EXPECT_GT(best, 0) << "none of " << all.calls << " calls found it";
}

} // namespace

} // namespace progress_test
