// fork(): a child process uses the library after its parent has.
#include "faults.hpp"

#include "cusight/cusight.h"
#include "eventio/support.hpp"

#include <atomic>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace faults;

namespace {

// Runs `work` in a child process: 0 if it returned true within ten seconds.
template<class Work>
int inChild(Work &&work) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(10); // a child that hangs
        _exit(work() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Work on all OpenMP threads.
std::vector<uint8_t> tables() {
    const Mat image(700, 900, CUS_8UC1, CUS_HOST, 1);
    Mat sum, census;
    CUS_EXPECT_OK(cusIntegral(&image.mat, &sum, nullptr, nullptr, nullptr));
    CUS_EXPECT_OK(cusStereoCensus(&image.mat, &census, nullptr, nullptr));
    std::vector<uint8_t> all = sum.bytes(), more = census.bytes();
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

TEST(FaultsOfFork, ChildAfterParallelWork) {
    const auto right = tables();
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(inChild([&] { return tables() == right; }), 0) << "SIGALRM is 14";
        EXPECT_EQ(tables(), right) << "in the parent, afterwards";
    }
}

TEST(FaultsOfFork, GrandchildAndThread) {
    const auto right = tables();
    EXPECT_EQ(inChild([&] { return tables() == right && inChild([&] { return tables() == right; }) == 0; }), 0);
    int status = -1;
    std::thread([&] { status = tables() == right ? inChild([&] { return tables() == right; }) : -1; }).join();
    EXPECT_EQ(status, 0) << "forked on another thread";
}

// An object made by the parent works in the child, which also destroys its copy.
TEST(FaultsOfFork, ObjectOfTheParent) {
    const Mat left(300, 400, CUS_8UC1, CUS_HOST, 1), right(300, 400, CUS_8UC1, CUS_HOST, 2);
    cusContourMapper *mapper = nullptr;
    CUS_ASSERT_OK(cusContourMapperCreate(&mapper, 300, 400, CUS_8UC1, CUS_HOST, nullptr));
    const auto map = [&] {
        Mat heights;
        CUS_EXPECT_OK(cusContourMap(mapper, &left.mat, &right.mat, &heights.mat, nullptr, nullptr));
        return heights.bytes();
    };
    const auto expected = map();
    EXPECT_EQ(inChild([&] {
                  const bool equal = map() == expected;
                  cusContourMapperDestroy(mapper);
                  return equal;
              }),
              0);
    EXPECT_EQ(map(), expected);
    cusContourMapperDestroy(mapper);
}

// While another thread reads, too.
TEST(FaultsOfFork, ChildWhileAThreadReadsHdf5) {
#ifdef CUSI_SANITIZE
    GTEST_SKIP() << "a child may inherit the sanitizer's own allocator locked";
#endif
    const std::string path = eventio_test::fixture("m3ed_lzf.h5");
    const auto read = [&] {
        cusEventReader *reader = nullptr;
        std::vector<int64_t> t(5000);
        size_t count = 0;
        const bool good = cusEventReaderOpen(&reader, path.c_str(), nullptr) == CUS_OK &&
                          cusEventReaderRead(reader, t.size(), nullptr, nullptr, nullptr, t.data(), &count) == CUS_OK;
        cusEventReaderClose(reader);
        return good && count == t.size();
    };
    std::atomic<bool> done{false};
    std::thread other([&] {
        while (!done)
            EXPECT_TRUE(read());
    });
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(inChild(read), 0);
    done = true;
    other.join();
}

} // namespace
