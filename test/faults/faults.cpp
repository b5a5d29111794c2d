// The walk, its report, and the books of what is held.
#include "faults.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <set>

namespace faults {

namespace {

const char *const class_names[CLASSES] = {"none",          "memory", "open",      "read",  "short read",
                                          "interrupt",     "write",  "zstd",      "blosc", "device memory",
                                          "pinned memory", "cuda",   "no device", "cufft", "loader"};
const char *const resource_names[RESOURCES] = {"block",  "file descriptor", "device block", "pinned block",
                                               "stream", "stream event",    "FFT plan",     "context"};

std::atomic<int> armed_class{NONE};
std::atomic<int> countdown{0};
std::atomic<bool> onward_{false}, struck{false};
std::atomic<const char *> victim{""};

std::mutex books_mutex;
std::multiset<uintptr_t> books[RESOURCES];
int double_frees = 0;

// A child must not inherit the lock taken. Registered first, so taken last before a fork: the library's locks are outer ones.
__attribute__((constructor(101))) void registerForkHandlers() {
    (void)pthread_atfork([] { books_mutex.lock(); }, [] { books_mutex.unlock(); }, [] { books_mutex.unlock(); });
}

struct Tally {
    int injected = 0, survived = 0;
};
std::map<std::string, std::map<Class, Tally>> report;
std::vector<std::string> report_order;
int walks_cut = 0;

std::atomic<bool> counting{false};
std::atomic<int> counts[CLASSES];

bool suits(Class c, cusStatus status) {
    switch (c) {
    case MEMORY:
    case DEVICE_MEMORY:
    case PINNED_MEMORY:
        return status == CUS_ERROR_NO_MEMORY;
    case OPEN:
    case READ:
    case WRITE:
        return status == CUS_ERROR_IO;
    case ZSTD:
        return status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_FORMAT;
    case BLOSC:
        return status == CUS_ERROR_FORMAT || status == CUS_ERROR_NO_MEMORY || status == CUS_ERROR_TRUNCATED;
    case CUDA: // a runtime that cannot count its devices has none
        return status == CUS_ERROR_CUDA ||
               (status == CUS_ERROR_NO_CUDA && std::string(lastVictim()) == "cudaGetDeviceCount");
    case CUFFT:
        return status == CUS_ERROR_CUDA;
    case NO_DEVICE:
    case LOADER:
        return status == CUS_ERROR_NO_CUDA;
    default: // SHORT_READ and INTERRUPT are no errors
        return false;
    }
}

double secondsOfAWalk() {
    const char *text = std::getenv("CUSIGHT_FAULTS_SECONDS");
    return text ? std::atof(text) : std::numeric_limits<double>::infinity();
}

int failuresSoFar() {
    const auto *result = testing::UnitTest::GetInstance()->current_test_info()->result();
    int n = 0;
    for (int i = 0; i < result->total_part_count(); ++i)
        n += result->GetTestPartResult(i).failed();
    return n;
}

class Report : public testing::Environment {
    void TearDown() override {
        int total = 0, survived = 0;
        for (const auto &name : report_order) {
            std::string line;
            for (const auto &[c, tally] : report[name]) {
                total += tally.injected;
                survived += tally.survived;
                line += std::string(line.empty() ? "" : ", ") + className(c) + " " + std::to_string(tally.injected);
                if (tally.survived)
                    line += " (" + std::to_string(tally.survived) + " survived)";
            }
            std::printf("faults: %-44s %s\n", name.c_str(), line.empty() ? "none possible" : line.c_str());
        }
        std::printf("faults: %d injected into %zu functions; %d of them survived with the right result\n", total,
                    report_order.size(), survived);
        if (walks_cut)
            std::printf("faults: %d walks were cut short by CUSIGHT_FAULTS_SECONDS\n", walks_cut);
    }
};
const auto *const report_environment = testing::AddGlobalTestEnvironment(new Report);

} // namespace

const char *className(Class c) {
    return class_names[c];
}

// ---- Injection

void arm(Class c, int n, bool onward) {
    struck = false;
    onward_ = onward;
    countdown = n;
    armed_class = c;
}

bool disarm() {
    armed_class = NONE;
    return struck;
}

const char *lastVictim() {
    return victim;
}

void count(bool on) {
    counting = on;
}
int counted(Class c) {
    return counts[c];
}
void clearCounts() {
    for (auto &n : counts)
        n = 0;
}

bool strikes(Class c, const char *function) {
    if (counting.load(std::memory_order_relaxed))
        ++counts[c];
    if (armed_class.load(std::memory_order_relaxed) != c)
        return false;
    const int left = --countdown;
    if (left > 0 || (left < 0 && !onward_))
        return false;
    if (left == 0)
        victim = function;
    struck = true;
    return true;
}

// ---- Books

void take(Resource r, uintptr_t handle) {
    const std::lock_guard<std::mutex> lock(books_mutex);
    books[r].insert(handle);
}

void give(Resource r, uintptr_t handle) {
    const std::lock_guard<std::mutex> lock(books_mutex);
    const auto at = books[r].find(handle);
    if (at == books[r].end())
        ++double_frees;
    else
        books[r].erase(at);
}

bool holds(Resource r, uintptr_t handle) {
    const std::lock_guard<std::mutex> lock(books_mutex);
    return books[r].count(handle) > 0;
}

std::string held() {
    const std::lock_guard<std::mutex> lock(books_mutex);
    std::string text;
    const auto add = [&](size_t n, const std::string &what) {
        if (n)
            text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + what;
    };
    for (int r = 0; r < RESOURCES; ++r)
        add(books[r].size(), resource_names[r]);
    add(static_cast<size_t>(double_frees), "freed that was not held");
    return text;
}

// ---- The walk

cusStatus Trial::attempt(const std::function<cusStatus()> &f) {
    if (faulty())
        arm(class_, n_, onward_);
    count(!faulty());
    const cusStatus status = f();
    count(false);
    injected = faulty() && disarm();
    if (!injected) {
        EXPECT_EQ(status, CUS_OK) << "without a fault: " << cusLastError();
        return status;
    }
    failed = status != CUS_OK;
    if (failed) {
        EXPECT_TRUE(suits(class_, status))
            << lastVictim() << " failed: " << cusStatusName(status) << ", " << cusLastError();
        const std::string message = cusLastError(); // "live:": what the other end did
        EXPECT_TRUE(message.rfind("cus", 0) == 0 || message.rfind("live: ", 0) == 0) << "message: " << message;
    }
    if (!onward_) { // otherwise clearing it fails, too
        EXPECT_FALSE(cudaErrorPending()) << "an error is left behind";
    }
    return status;
}

void Trial::call(const std::function<cusStatus()> &f, const std::function<cusStatus()> &instead) {
    attempt(f);
    if (failed) {
        const std::string message = cusLastError();
        EXPECT_EQ((instead ? instead : f)(), CUS_OK)
            << "again, without a fault: " << cusLastError() << "\nafter: " << message;
    }
}

void walk(const std::string &name, const Body &body) {
    Trial first(NONE, 0, false);
    body(first); // what a thread or the process keeps from then on, as its workers, is there
    const std::string before = held();
    const auto start = std::chrono::steady_clock::now();
    const double limit = secondsOfAWalk();
    bool cut = false;
    const int failures = failuresSoFar();
    clearCounts();
    Trial right(NONE, 0, false);
    body(right);
    ASSERT_EQ(held(), before) << name << " without a fault";
    auto &tallies = report[name];
    report_order.push_back(name);
    for (int c = NONE + 1; c < CLASSES; ++c)
        for (const bool onward : {false, true}) {
            // A disk that interrupts every read for ever is not a fault that ends.
            if (counted(Class(c)) == 0 || (onward && (c == SHORT_READ || c == INTERRUPT)))
                continue;
            for (int n = 1, step = 1;; n += step) {
                const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                if (taken > limit) {
                    step *= 2;
                    walks_cut += !cut;
                    cut = true;
                    if (taken > 8 * limit)
                        break;
                }
                SCOPED_TRACE(name + ": " + className(Class(c)) + " " + std::to_string(n) +
                             (onward ? " and all after" : ""));
                Trial trial(Class(c), n, onward);
                body(trial);
                if (!trial.injected)
                    break;
                ++tallies[Class(c)].injected;
                tallies[Class(c)].survived += !trial.failed;
                EXPECT_EQ(trial.results, right.results) << lastVictim() << " failed: other results";
                ASSERT_EQ(held(), before) << lastVictim() << " failed: leak";
                if (failuresSoFar() > failures) // those that follow would say the same
                    return;
                ASSERT_LT(n, 100000);
            }
        }
}

// ---- Matrices

std::vector<uint8_t> noise(size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(random());
    return bytes;
}

Mat::Mat(int rows, int cols, int type, cusSpace space, const std::vector<uint8_t> &bytes) {
    cusMat host = CUS_MAT_INIT;
    CUS_EXPECT_OK(cusMatWrap(&host, rows, cols, type, CUS_HOST, const_cast<uint8_t *>(bytes.data()), 0));
    CUS_EXPECT_OK(space == CUS_HOST ? cusMatCopy(&host, &mat, nullptr) : cusMatUpload(&host, &mat, nullptr));
}

Mat::Mat(int rows, int cols, int type, cusSpace space, unsigned seed)
    : Mat(rows, cols, type, space, noise(static_cast<size_t>(rows) * static_cast<size_t>(cols) * cusTypeSize(type), seed)) {
}

std::vector<uint8_t> Mat::bytesOf(const cusMat &mat) {
    if (!mat.data)
        return {};
    cusMat host = CUS_MAT_INIT;
    const bool device = mat.space == CUS_DEVICE;
    if (device) {
        CUS_EXPECT_OK(cusMatDownload(&mat, &host, nullptr));
        CUS_EXPECT_OK(cusStreamSynchronize(nullptr));
    }
    const cusMat &from = device ? host : mat;
    const size_t row = static_cast<size_t>(mat.cols) * cusTypeSize(mat.type);
    std::vector<uint8_t> bytes;
    for (int y = 0; y < mat.rows; ++y) {
        const auto *at = static_cast<const uint8_t *>(from.data) + static_cast<size_t>(y) * from.step;
        bytes.insert(bytes.end(), at, at + row);
    }
    cusMatRelease(&host);
    return bytes;
}

void FaultTest::SetUp() {
    if (GetParam() == GPU && !support::haveGpu())
        GTEST_SKIP() << "no GPU on this machine";
    if (GetParam() == SIMULATED && !builtWithCuda())
        GTEST_SKIP() << "built without CUDA";
    if (GetParam() == SIMULATED && support::haveGpu())
        GTEST_SKIP() << "this machine has a GPU";
    simulateCuda(GetParam() == SIMULATED);
}

} // namespace faults
