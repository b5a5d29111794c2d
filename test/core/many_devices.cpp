// Several devices: which ones, and the samples' Dealer.
#include "support.hpp"

#include "../../samples/common/many_devices.hpp"

#include "cusight/cusight.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace {

using sample::Dealer;
using sample::Device;
using sample::Stop;

std::vector<Device> cpus(size_t n) {
    return std::vector<Device>(n);
}

struct Number {
    long long in = 0, out = 0;
    size_t worker = 0;
};

// ---- Which devices -----------------------------------------------------------------------------------------------------

TEST(ManyDevices, ListsThatAreAcceptedAndNot) {
    for (const char *good :
         {"auto", "cpu", "cuda", "cuda:0", "cuda:12", "cuda:all", "cuda:0,2", "cuda:1,1,0", "cpu:1", "cpu:3", "cpu:64"})
        EXPECT_TRUE(sample::isDeviceList(good)) << good;
    for (const char *bad :
         {"",          "gpu",        "CPU",      "cpu:",      "cpu:0",  "cpu:65",  "cpu:-1",
          "cpu:1,2",   "cpu:x",      "cpu:all",  "cuda:",     "cuda:,", "cuda:0,", "cuda:,0",
          "cuda:0,,1", "cuda:all,0", "cuda:0 1", "cuda:1234", "cuda0",  "auto:2",  "cpu:1000000000000000000000"})
        EXPECT_FALSE(sample::isDeviceList(bad)) << bad;
    std::string many = "cuda:0";
    for (size_t i = 1; i < sample::MAX_DEVICES; ++i)
        many += ",0";
    EXPECT_TRUE(sample::isDeviceList(many));
    EXPECT_FALSE(sample::isDeviceList(many + ",0"));
}

TEST(ManyDevices, WorkersOfTheCpu) {
    const std::vector<Device> devices = sample::chooseDevices("cpu:3");
    ASSERT_EQ(devices.size(), 3u);
    for (const Device &device : devices)
        EXPECT_EQ(device.space, CUS_HOST);
    EXPECT_NE(sample::deviceNames(devices).find("CPU, "), std::string::npos);
    EXPECT_NE(sample::deviceNames(devices).find(", 3 workers"), std::string::npos);
    EXPECT_EQ(sample::chooseDevices("cpu").size(), 1u);
    EXPECT_EQ(sample::deviceNames(cpus(1)).find("worker"), std::string::npos);
}

TEST(ManyDevices, GpusThatAreThereAndNot) {
    int count = 0;
    CUS_ASSERT_OK(cusDeviceCount(&count));
    for (const std::string list : {"cuda:all", "cuda:0,1", "cuda:0,999"}) {
        try {
            const std::vector<Device> devices = sample::chooseDevices(list);
            EXPECT_EQ(devices.size(), list == "cuda:all" ? static_cast<size_t>(count) : 2u);
            for (size_t i = 0; i < devices.size(); ++i)
                EXPECT_EQ(devices[i].index, static_cast<int>(i));
        } catch (const Stop &stop) {
            EXPECT_EQ(stop.code(), sample::DEVICE);
            EXPECT_NE(std::string(stop.what()).find("--device " + list + ": "), std::string::npos) << stop.what();
            EXPECT_TRUE(count == 0 || list != "cuda:all") << stop.what();
        }
    }
}

// ---- Dealer ------------------------------------------------------------------------------------------------------------

// Numbers dealt by one thread and taken by another, with work of random length.
TEST(Dealer, ResultsComeBackInOrder) {
    for (const size_t workers : {1u, 2u, 3u, 8u}) {
        Dealer<Number> dealer(cpus(workers), 2, [&](size_t w) {
            return [w, random = support::generator("dealer" + std::to_string(w))](Number &n) mutable {
                if (random() % 8 == 0)
                    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
                n.out = n.in * n.in;
                n.worker = w;
            };
        });
        std::thread producer([&] {
            for (long long i = 0; i < 2000; ++i)
                EXPECT_TRUE(dealer.deal({i, 0, 0}));
            dealer.finish();
        });
        Number n;
        long long got = 0;
        for (; dealer.next(n); ++got) {
            ASSERT_EQ(n.in, got);
            ASSERT_EQ(n.out, got * got);
            ASSERT_EQ(n.worker, static_cast<size_t>(got) % workers) << "not the worker whose turn it was";
        }
        producer.join();
        EXPECT_EQ(got, 2000);
        EXPECT_FALSE(dealer.next(n)) << "after the end";
    }
}

// What a worker makes lives on its thread.
TEST(Dealer, WorkersKeepStateOnTheirOwnThreads) {
    struct State {
        const std::thread::id thread = std::this_thread::get_id();
        std::atomic<int> &wrong, &alive;
        long long sum = 0;
        State(std::atomic<int> &w, std::atomic<int> &a) : wrong(w), alive(a) { ++alive; }
        State(const State &) = delete;
        State &operator=(const State &) = delete;
        ~State() {
            wrong += std::this_thread::get_id() != thread;
            --alive;
        }
    };
    std::atomic<int> wrong{0}, alive{0};
    Dealer<Number> dealer(cpus(3), 4, [&](size_t) {
        const auto state = std::make_shared<State>(wrong, alive);
        return [state](Number &n) {
            state->wrong += std::this_thread::get_id() != state->thread;
            n.out = state->sum += n.in;
        };
    });
    long long sums[3] = {};
    for (long long i = 0; i < 12; ++i)
        ASSERT_TRUE(dealer.deal({i, 0, 0})); // as many as there is room for, without a consumer
    EXPECT_EQ(dealer.capacity(), 12u);
    dealer.finish();
    Number n;
    for (long long i = 0; i < 12; ++i) {
        ASSERT_TRUE(dealer.next(n));
        EXPECT_EQ(n.out, sums[i % 3] += i);
    }
    EXPECT_FALSE(dealer.next(n));
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(wrong, 0);
}

// However slow the consumer, no more jobs are under way than the queues and hands of the workers hold.
TEST(Dealer, MemoryIsBounded) {
    constexpr size_t WORKERS = 3, DEPTH = 2;
    std::atomic<long long> dealt{0};
    Dealer<Number> dealer(cpus(WORKERS), DEPTH, [](size_t) { return [](Number &n) { n.out = n.in; }; });
    std::thread producer([&] {
        while (dealer.deal({dealt, 0, 0}))
            ++dealt;
    });
    Number n;
    for (long long taken = 0; taken < 300; ++taken) {
        if (taken % 60 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the producer runs into full queues
        ASSERT_LE(dealt - taken, static_cast<long long>(WORKERS * (2 * DEPTH + 1)));
        ASSERT_TRUE(dealer.next(n));
        ASSERT_EQ(n.in, taken);
    }
    dealer.stop();
    producer.join();
    EXPECT_FALSE(dealer.next(n));
}

TEST(Dealer, AFailingWorkerEndsItAfterTheResultsBefore) {
    for (const long long bad : {0LL, 1LL, 40LL, 41LL}) {
        Dealer<Number> dealer(cpus(3), 2, [&](size_t) {
            return [bad](Number &n) {
                if (n.in == bad)
                    throw Stop(sample::FAILED, "the device fell off the bus");
                n.out = n.in;
            };
        });
        std::thread producer([&] {
            for (long long i = 0; dealer.deal({i, 0, 0}); ++i) {
            }
            dealer.finish();
        });
        long long got = 0;
        std::string message;
        try {
            for (Number n; dealer.next(n); ++got)
                EXPECT_EQ(n.out, got);
        } catch (const Stop &stop) {
            message = stop.what();
        }
        EXPECT_EQ(got, bad);
        EXPECT_EQ(message, "the device fell off the bus");
        dealer.stop();
        producer.join();
    }
}

TEST(Dealer, AWorkerThatCannotBeMadeIsAnErrorEvenWithoutAJobForIt) {
    for (long long jobs = 0; jobs < 3; ++jobs) {
        Dealer<Number> dealer(cpus(3), 2, [](size_t w) {
            if (w == 2)
                throw Stop(sample::FAILED, "no memory");
            return [](Number &) {};
        });
        for (long long i = 0; i < jobs; ++i)
            dealer.deal({i, 0, 0});
        dealer.finish();
        Number n;
        for (long long got = 0; got < jobs; ++got)
            EXPECT_TRUE(dealer.next(n));
        EXPECT_THROW(dealer.next(n), Stop);
    }
}

TEST(Dealer, StopReleasesAProducerAndDropsWhatWaits) {
    std::atomic<int> worked{0};
    {
        Dealer<Number> dealer(cpus(2), 3, [&](size_t) { return [&](Number &) { ++worked; }; });
        std::thread producer([&] {
            while (dealer.deal({}))
                std::this_thread::yield();
        });
        while (worked < 2)
            std::this_thread::yield();
        dealer.stop();
        producer.join();
        Number n;
        EXPECT_FALSE(dealer.next(n));
    }
    const int after = worked;
    EXPECT_EQ(after, worked) << "somebody works after the end";
    { // destroyed while all queues are full
        Dealer<Number> dealer(cpus(2), 1, [](size_t) { return [](Number &) {}; });
        EXPECT_TRUE(dealer.deal({}));
        EXPECT_TRUE(dealer.deal({}));
    }
}

TEST(Dealer, ErrorsNameTheGpuIfThereAreSeveral) {
    Device gpu;
    gpu.space = CUS_DEVICE;
    gpu.index = 3;
    const auto message = [&](const std::exception_ptr &error, size_t workers) {
        try {
            sample::rethrow(error, gpu, workers);
        } catch (const std::exception &thrown) {
            return std::string(thrown.what());
        }
    };
    const auto failed = std::make_exception_ptr(Stop(sample::FAILED, "out of memory"));
    EXPECT_EQ(message(failed, 2), "cuda:3: out of memory");
    EXPECT_EQ(message(failed, 1), "out of memory");
    EXPECT_EQ(message(std::make_exception_ptr(cusight::Error(CUS_ERROR_CUDA, "lost")), 2), "cuda:3: CUS_ERROR_CUDA: lost");
    EXPECT_EQ(message(std::make_exception_ptr(Stop(sample::USAGE, "too large")), 2), "too large");
}

struct Box {
    int in = 0, out = 0;
};

TEST(Dealer, ProcessReadsAndTakesOnOneThread) {
    for (const int length : {0, 1, 5, 100}) {
        for (const bool broken : {false, true}) {
            Dealer<Box *> dealer(cpus(3), 2, [](size_t) { return [](Box *b) { b->out = 2 * b->in; }; });
            std::vector<Box> boxes(dealer.capacity());
            std::vector<Box *> jobs;
            for (Box &box : boxes)
                jobs.push_back(&box);
            int read = 0, taken = 0;
            const auto fill = [&](Box &box) {
                if (read == length && broken)
                    throw Stop(sample::INPUT, "ends early");
                box.in = read;
                return read++ < length;
            };
            const auto take = [&](const Box &box) {
                EXPECT_EQ(box.out, 2 * taken);
                return ++taken < 50;
            };
            const std::exception_ptr error = dealer.process(jobs, fill, take);
            EXPECT_EQ(taken, std::min(length, 50));
            EXPECT_EQ(error != nullptr, broken && length < 50) << length;
        }
    }
}

} // namespace
