// The threads of parallel regions (src/team.h), called as compiled regions call them, and how many there are (src/threads.c).
#include "eventio/support.hpp"

#include "host.h"
#include "progress.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>

namespace {

// Runs `body` on a team.
void region(unsigned threads, const std::function<void()> &body) {
    cusi_teamParallel([](void *data) { (*static_cast<const std::function<void()> *>(data))(); },
                      const_cast<std::function<void()> *>(&body), threads, 0);
}

TEST(Team, NumbersAndBarriers) {
    std::vector<std::atomic<int>> came(5);
    std::atomic<int> early{0}, before{0}, size{0};
    for (int round = 0; round < 50; ++round) {
        before = 0;
        region(5, [&] {
            ++came[static_cast<size_t>(cusi_teamNumber())];
            size = cusi_teamSize();
            ++before;
            cusi_teamBarrier();
            early += before != cusi_teamSize();
            cusi_teamBarrier();
            --before;
            cusi_teamBarrier();
            early += before != 0;
        });
    }
    EXPECT_EQ(size, 5);
    for (const auto &count : came)
        EXPECT_EQ(count, 50);
    EXPECT_EQ(early, 0) << "threads that passed a barrier before another one had come";
    EXPECT_EQ(cusi_teamSize(), 1) << "outside";
    EXPECT_EQ(cusi_teamNumber(), 0);
}

// The last item of a region may be a worker's: its caller goes on asking whether the call is to end.
TEST(Team, CallerAsksWhileItWaits) {
    std::atomic<bool> begun{false}, asked{false};
    const auto ask = [](void *user, double, double) {
        *static_cast<std::atomic<bool> *>(user) = true;
        return 0;
    };
    CUS_ASSERT_OK(cusi_setProgress(ask, &asked, 0));
    cusi_longBegin("test");
    region(2, [&] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        begun = begun || cusi_teamNumber() == 1;
        while (!(cusi_teamNumber() == 1 ? asked : begun) && std::chrono::steady_clock::now() < end)
            std::this_thread::yield();
    });
    EXPECT_TRUE(asked);
    CUS_EXPECT_OK(cusi_longEnd(CUS_OK));
    CUS_EXPECT_OK(cusSetProgress(nullptr, nullptr));
}

// Each iteration of a dynamic loop runs once, whatever its direction and step, and two loops in one region.
TEST(Team, Loops) {
    struct Case {
        long first, end, step, chunk;
    };
    for (const Case &c : {Case{0, 1000, 1, 1}, Case{-7, 500, 3, 4}, Case{500, -7, -3, 5}, Case{5, 5, 1, 1},
                          Case{9, 3, 1, 1}, Case{0, 3, 1, 64}}) {
        std::vector<std::atomic<int>> once(1600), again(1600), both(1600);
        const auto take = [&](std::vector<std::atomic<int>> &done, bool some, long from, long to) {
            for (; some; some = cusi_teamNext(&from, &to))
                for (long i = from; c.step > 0 ? i < to : i > to; i += c.step)
                    ++done[static_cast<size_t>(i + 100)];
        };
        region(4, [&] {
            long from, to;
            for (auto *done : {&once, &again}) {
                const bool some = cusi_teamStart(c.first, c.end, c.step, c.chunk, &from, &to);
                take(*done, some, from, to);
                cusi_teamBarrier();
            }
        });
        const std::function<void()> body = [&] {
            long from, to;
            const bool some = cusi_teamNext(&from, &to);
            take(both, some, from, to);
        };
        cusi_teamParallelLoop([](void *data) { (*static_cast<const std::function<void()> *>(data))(); },
                              const_cast<std::function<void()> *>(&body), 4, c.first, c.end, c.step, c.chunk, 0);
        std::vector<int> expected(1600);
        for (long i = c.first; c.step > 0 ? i < c.end : i > c.end; i += c.step)
            ++expected[static_cast<size_t>(i + 100)];
        for (const auto *done : {&once, &again, &both})
            for (size_t i = 0; i < expected.size(); ++i)
                ASSERT_EQ((*done)[i], expected[i]) << i << " of " << c.first << ".." << c.end << " by " << c.step;
    }
    std::atomic<unsigned long long> sum{0};
    region(3, [&] {
        unsigned long long from, to;
        for (bool some = cusi_teamStartUnsigned(true, ~0ULL - 1100, ~0ULL - 100, 7, 2, &from, &to); some;
             some = cusi_teamNextUnsigned(&from, &to))
            for (unsigned long long i = from; i < to; i += 7)
                sum += ~0ULL - 100 - i;
    });
    unsigned long long expected = 0;
    for (unsigned long long left = 1000; left <= 1000 && left > 0; left -= 7)
        expected += left;
    EXPECT_EQ(sum, expected);
}

// A region in a region has one thread, and leaves the outer one as it was.
TEST(Team, Nested) {
    std::atomic<int> wrong{0};
    region(3, [&] {
        const int number = cusi_teamNumber();
        region(3, [&] { wrong += cusi_teamNumber() != 0 || cusi_teamSize() != 1; });
        wrong += cusi_teamNumber() != number || cusi_teamSize() != 3;
        cusi_teamBarrier();
    });
    EXPECT_EQ(wrong, 0);
}

size_t threadsOfProcess() {
#ifdef _WIN32 // they end a moment after their caller
    return 0;
#endif
    const std::filesystem::directory_iterator threads("/proc/self/task");
    return static_cast<size_t>(std::distance(begin(threads), end(threads)));
}

// Each calling thread has its own workers, which end with it.
TEST(Team, CallersSideBySide) {
    region(4, [] {});
    const size_t before = threadsOfProcess();
    std::vector<std::thread> callers;
    std::atomic<int> sum{0};
    for (int i = 0; i < 3; ++i)
        callers.emplace_back([&] {
            for (int k = 0; k < 100; ++k)
                region(4, [&] { sum += cusi_teamNumber(); });
        });
    for (std::thread &caller : callers)
        caller.join();
    EXPECT_EQ(sum, 3 * 100 * 6);
    EXPECT_EQ(threadsOfProcess(), before) << "threads that outlive their caller";
}

// A child process has its own workers, and a team without enough memory for threads is smaller.
TEST(Team, ForkAndLackOfThreads) {
#ifdef CUSI_SANITIZE
    GTEST_SKIP() << "a sanitizer reserves terabytes";
#else
    region(4, [] {});
    const auto size_in_child = [](bool limited) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10);
            long pages = 0;
            std::ifstream("/proc/self/statm") >> pages;
            const rlim_t bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (1 << 20); // no room for a stack
            const rlimit limit = {bytes, bytes};
            if (limited && setrlimit(RLIMIT_AS, &limit))
                _exit(99);
            std::atomic<int> ran{0};
            region(20, [&] { ++ran; });
            int size = 0;
            region(20, [&] {
                if (cusi_teamNumber() == 0)
                    size = cusi_teamSize();
            });
            _exit(ran == size ? size : 98);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    };
    EXPECT_EQ(size_in_child(false), 20);
    EXPECT_LT(size_in_child(true), 10) << "the C library keeps some stacks";
    std::atomic<int> ran{0};
    region(4, [&] { ++ran; });
    EXPECT_EQ(ran, 4) << "in the parent, afterwards";
#endif
}

// Waiting for a thread takes no processor: beside a busy loop it would take the time that the thread needs.
TEST(Team, WaitsAsleep) {
    region(3, [] {});
    timespec start = {}, end = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (int i = 0; i < 20; ++i)
        region(3, [] {
            if (cusi_teamNumber() == 1)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            cusi_teamBarrier();
            if (cusi_teamNumber() == 2)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
        });
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    const double taken =
        static_cast<double>(end.tv_sec - start.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - start.tv_nsec);
    EXPECT_LT(taken, 0.2) << "seconds of processors, in 0.8 seconds of waiting on two threads";
}

// Files as the kernel has them for both versions of control groups.
TEST(Team, Quotas) {
    const eventio_test::Folder folder;
    const auto put = [&](const std::string &name, const std::string &text) {
        std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
        std::ofstream(folder / name, std::ios::binary) << text;
    };
    const auto quota = [&](const std::string &list) {
        put("list", list);
        return cusi_quotaOf((folder / "list").c_str(), (folder / "").c_str());
    };
    put("cpu.max", "max 100000\n");
    put("a/cpu.max", "250000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    put("a/c/cpu.max", "50000 100000\n");
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("cpu/old/cpu.cfs_quota_us", "400000\n");
    put("cpu/old/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(quota("0::/\n"), 0);
    EXPECT_EQ(quota("0::/a\n"), 3) << "two and a half, rounded up";
    EXPECT_EQ(quota("0::/a/b\n"), 3) << "of the group above";
    EXPECT_EQ(quota("0::/a/c\n"), 1);
    EXPECT_EQ(quota("0::/not/there\n"), 0) << "a container: only the root is there";
    EXPECT_EQ(quota("5:memory:/a\n4:cpu,cpuacct:/old\n0::/\n"), 4) << "version 1";
    EXPECT_EQ(quota("4:cpuset:/old\n"), 0) << "not the controller cpu";
    EXPECT_EQ(quota(""), 0);
    EXPECT_EQ(quota("nonsense\n::\n:"), 0);
    EXPECT_EQ(cusi_quotaOf((folder / "missing").c_str(), (folder / "").c_str()), 0);
    put("cpu.max", "100000 100000\n");
    EXPECT_EQ(quota("0::/a\n"), 1) << "of the root";
}

} // namespace
