#include "harness.hpp"

#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_profiler_api.h>
#endif
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace perf {
namespace {

namespace tuning {
constexpr double DEVICE_BATCH_MS = 2; // an event costs about 2 us: 0.1 %
constexpr double HOST_BATCH_MS = 5;   // past the time for which OpenMP's and OpenCV's idle threads spin
constexpr double WARM_UP_MS = 30;     // clocks, page tables, lazily loaded kernels
constexpr double ENOUGH_MS = 250;     // of samples, all work of a row together; a sweep's rows stop at min_samples
constexpr double TOO_LONG_MS = 15000; // then MIN_SAMPLES do, whatever was asked for
constexpr int MIN_SAMPLES = 3;
constexpr int MAX_SAMPLES = 200;
constexpr size_t COPY_BYTES = size_t(1) << 30;
constexpr size_t HOST_COPY_BYTES = size_t(256) << 20;
constexpr size_t BUS_COPY_BYTES = size_t(64) << 20;
} // namespace tuning

struct Options {
    int min_samples = 20;
    bool host = true, cuda = true, list = false, once = false, help = false;
    std::vector<std::string> rows; // none: all
    std::string json;
} options;

std::map<cusSpace, double> copy_gbps;
std::unique_ptr<BusGbps> bus_gbps;

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool startsWith(const std::string &text, const char *start) {
    return text.compare(0, std::strlen(start), start) == 0;
}

std::string currentTest() {
    const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test.test_suite_name()) + "." + test.name();
}

const char *backendName(cusSpace space) {
    return space == CUS_DEVICE ? "cuda" : "host";
}

cusDeviceInfo deviceInfo() {
    int device = 0;
    cusDeviceInfo info = {};
    check(cusDeviceGet(&device));
    check(cusDeviceQuery(device, &info));
    return info;
}

// The stream and events that device work is timed with; nothing for host work.
class Stopwatch {
  public:
    Stopwatch(cusSpace space, bool wall) : device_(space == CUS_DEVICE), events_(device_ && !wall) {
        if (device_)
            check(cusStreamCreate(&stream_));
        if (events_) {
            check(cusStreamEventCreate(&start_));
            check(cusStreamEventCreate(&stop_));
        }
    }
    ~Stopwatch() {
        cusStreamEventDestroy(start_);
        cusStreamEventDestroy(stop_);
        if (device_)
            cusStreamDestroy(stream_);
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;

    double batchMs() const { return events_ ? tuning::DEVICE_BATCH_MS : tuning::HOST_BATCH_MS; }

    // Milliseconds of `calls` calls. `i` counts over the life of the work.
    double run(const Work &work, int calls, bool untimed_first, int &i) {
        if (untimed_first)
            work(stream_, i++);
        if (events_) {
            check(cusStreamEventRecord(start_, stream_));
            for (int k = 0; k < calls; ++k)
                work(stream_, i++);
            check(cusStreamEventRecord(stop_, stream_));
            float ms = 0;
            check(cusStreamEventElapsed(start_, stop_, &ms));
            check(cusStreamSynchronize(stream_)); // reports the errors of the queued work
            return ms;
        }
        if (device_)
            check(cusStreamSynchronize(stream_));
        const auto start = Clock::now();
        for (int k = 0; k < calls; ++k) {
            work(stream_, i++);
            if (device_)
                check(cusStreamSynchronize(stream_));
        }
        return msSince(start);
    }

  private:
    bool device_, events_;
    cusStream stream_ = nullptr;
    cusStreamEvent start_ = nullptr, stop_ = nullptr;
};

// All pieces of work in turn, one sample each a round, until `enough_ms` are spent.
std::vector<Timing> timeInTurn(cusSpace space, bool wall, const std::vector<const Work *> &works,
                               double enough_ms = tuning::ENOUGH_MS) {
    Stopwatch watch(space, wall);
    std::vector<int> calls(works.size(), 1), turns(works.size(), 0);
    if (space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr)); // where bodies queue their set-up
    for (size_t k = 0; k < works.size(); ++k) {
        const auto start = Clock::now();
        double ms = watch.run(*works[k], 1, false, turns[k]); // the first call is no measure of the next
        double spent = msSince(start);
        for (int n = 1; spent < tuning::WARM_UP_MS || (ms < watch.batchMs() && spent < 10 * tuning::WARM_UP_MS);
             spent = msSince(start)) {
            ms = watch.run(*works[k], n, false, turns[k]);
            calls[k] = batchLength(watch.batchMs(), n, ms);
            n = std::min(calls[k], 2 * n);
        }
    }
    std::vector<std::vector<double>> samples(works.size());
    const auto start = Clock::now();
    for (int round = 0; round < tuning::MAX_SAMPLES; ++round) {
        const double spent = msSince(start);
        if (round >= tuning::MIN_SAMPLES &&
            (spent > tuning::TOO_LONG_MS || (round >= options.min_samples && spent > enough_ms)))
            break;
        for (size_t k = 0; k < works.size(); ++k)
            samples[k].push_back(watch.run(*works[k], calls[k], calls[k] > 1, turns[k]) / calls[k]);
    }
    std::vector<Timing> timings;
    for (auto &s : samples)
        timings.push_back(summary(std::move(s)));
    return timings;
}

// For a profiler: after calls that have made outputs and loaded kernels, one call of which the buffers are as far from the
// caches as in a measurement.
void profileOnce([[maybe_unused]] const Work &work) {
#ifdef CUSIGHT_HAVE_CUDA
    constexpr int before = 4;
    check(cusStreamSynchronize(nullptr)); // where bodies queue their set-up
    cusStream stream = nullptr;
    check(cusStreamCreate(&stream));
    for (int i = 0; i < before; ++i)
        work(stream, i);
    check(cusStreamSynchronize(stream));
    cudaProfilerStart();
    work(stream, before);
    check(cusStreamSynchronize(stream));
    cudaProfilerStop();
    cusStreamDestroy(stream);
#endif
}

class Buffer {
  public:
    Buffer(size_t bytes, cusSpace space, bool pinned = false) {
        const int cols = 1 << 16, rows = static_cast<int>(bytes >> 16);
        check(pinned ? cusMatCreatePinned(&mat, rows, cols, CUS_8UC1) : cusMatCreate(&mat, rows, cols, CUS_8UC1, space));
        if (space == CUS_HOST)
            for (int y = 0; y < rows; ++y) // touched, and not all one page of zeros
                std::memset(static_cast<char *>(mat.data) + static_cast<size_t>(y) * mat.step, y & 255,
                            static_cast<size_t>(cols));
        else
            check(cusMatSetZero(&mat, nullptr));
    }
    ~Buffer() { cusMatRelease(&mat); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    cusMat mat = CUS_MAT_INIT;
};

double measureCopy(cusSpace space) {
    const size_t bytes = space == CUS_DEVICE ? tuning::COPY_BYTES : tuning::HOST_COPY_BYTES;
    Buffer from(bytes, space), to(bytes, space);
    const size_t threads = std::max(1u, std::thread::hardware_concurrency()), share = bytes / threads;
    const Work copy = [&](cusStream stream, int) {
        if (space == CUS_DEVICE)
            return check(cusMatCopy(&from.mat, &to.mat, stream));
        std::vector<std::thread> crew;
        for (size_t t = 0; t < threads; ++t)
            crew.emplace_back([&, t] {
                std::memcpy(static_cast<char *>(to.mat.data) + t * share,
                            static_cast<const char *>(from.mat.data) + t * share, share);
            });
        for (auto &thread : crew)
            thread.join();
    };
    const size_t moved = 2 * (space == CUS_DEVICE ? bytes : share * threads);
    return static_cast<double>(moved) / time(space, copy).median_ms * 1e-6;
}

BusGbps measureBus() {
    constexpr size_t bytes = tuning::BUS_COPY_BYTES;
    Buffer up(bytes, CUS_HOST, true), down(bytes, CUS_HOST, true), in(bytes, CUS_DEVICE), out(bytes, CUS_DEVICE);
    check(cusStreamSynchronize(nullptr));
    cusStream other = nullptr;
    cusStreamEvent fork = nullptr, join = nullptr;
    check(cusStreamCreate(&other));
    check(cusStreamEventCreate(&fork));
    check(cusStreamEventCreate(&join));
    const auto gbps = [](double n, const Timing &t) { return n / t.median_ms * 1e-6; };
    BusGbps bus;
    bus.up = gbps(bytes, time(CUS_DEVICE, [&](cusStream s, int) { return cusMatUpload(&up.mat, &in.mat, s); }));
    bus.down = gbps(bytes, time(CUS_DEVICE, [&](cusStream s, int) { return cusMatDownload(&out.mat, &down.mat, s); }));
    bus.both = gbps(2.0 * bytes, time(CUS_DEVICE, [&](cusStream s, int) {
                        check(cusStreamEventRecord(fork, s));
                        check(cusStreamWaitEvent(other, fork));
                        check(cusMatDownload(&out.mat, &down.mat, other));
                        check(cusStreamEventRecord(join, other));
                        check(cusMatUpload(&up.mat, &in.mat, s));
                        check(cusStreamWaitEvent(s, join));
                    }));
    cusStreamEventDestroy(fork);
    cusStreamEventDestroy(join);
    cusStreamDestroy(other);
    return bus;
}

size_t cacheBytes(cusSpace space) {
    constexpr size_t usual = size_t(32) << 20;
    if (space == CUS_DEVICE)
        return deviceInfo().l2_bytes;
    const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return l3 > 0 ? static_cast<size_t>(l3) : usual;
}

// ---- The result file -------------------------------------------------------------------------------------------------

std::string cpuName() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.compare(0, 10, "model name") == 0)
            return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

std::string cudaVersion(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The machine's facts, the first line of a run's output.
std::string machineFacts() {
    JsonObject facts;
    facts.add("cpu", cpuName()).add("threads", std::thread::hardware_concurrency());
    if (copy_gbps.count(CUS_HOST))
        facts.add("host_copy_gbps", copy_gbps[CUS_HOST]);
    if (haveGpu()) {
        const cusDeviceInfo gpu = deviceInfo();
        facts.add("gpu", gpu.name).add("driver", cudaVersion(gpu.driver_version));
        facts.add("cuda", cudaVersion(gpu.runtime_version));
        if (copy_gbps.count(CUS_DEVICE))
            facts.add("copy_gbps", copy_gbps[CUS_DEVICE]);
    }
    return facts.text();
}

// The file of --json: one JSON object per line, flushed, so a crash loses at most the row being measured. Runs append to it.
class JsonLines {
  public:
    void open(const std::string &path) {
        path_ = path;
        if (std::ifstream old(path); old && old.get() == '{' && old.get() != '"')
            throw std::runtime_error(path + " exists and does not contain JSON lines; not written");
        out_.open(path, std::ios::app);
        expectGood();
    }
    void write(const std::string &line) {
        if (!out_.is_open())
            return;
        out_ << line << '\n' << std::flush;
        expectGood();
    }

  private:
    void expectGood() const {
        if (!out_)
            throw std::runtime_error("cannot write " + path_);
    }
    std::string path_;
    std::ofstream out_;
} json_lines;

// 3 or 4 significant digits, the same width for all.
std::string milliseconds(double ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%9.*f", ms < 1 ? 5 : ms < 100 ? 3 : 1, ms);
    return text;
}

// ---- Options ---------------------------------------------------------------------------------------------------------

constexpr const char *USAGE =
    "The performance suite. Options besides GoogleTest's:\n"
    "  --perf_min_samples=N          samples of each piece of work, default 20\n"
    "  --perf_space=host|cuda|both   which backend's rows, default both\n"
    "  --perf_rows=ID[,ID...]        these rows only, of the tests that --gtest_filter lets run\n"
    "  --json FILE                   append to FILE one JSON object per line: first the machine, then each row\n"
    "  --list-rows                   name the rows with their tests, measure nothing\n"
    "  --perf_once                   for a profiler: the library's work of each CUDA row once, between\n"
    "                                cudaProfilerStart and -Stop, in an NVTX range of the row's name\n";

bool parse(int argc, char **argv) {
    for (int k = 1; k < argc; ++k) {
        const std::string argument = argv[k];
        const auto value = [&](const char *name) { // of "--name=value" or "--name value"
            const std::string start = std::string(name) + "=";
            return argument.compare(0, start.size(), start) == 0 ? argv[k] + start.size()
                   : argument == name && k + 1 < argc            ? argv[++k]
                                                                 : nullptr;
        };
        if (argument == "--help")
            options.help = true;
        else if (argument == "--list-rows")
            options.list = true;
        else if (argument == "--perf_once")
            options.once = true;
        else if (const char *rows = value("--perf_rows")) {
            std::istringstream names(rows);
            for (std::string name; std::getline(names, name, ',');)
                options.rows.push_back(name);
        } else if (const char *samples = value("--perf_min_samples"))
            options.min_samples = std::clamp(std::atoi(samples), tuning::MIN_SAMPLES, tuning::MAX_SAMPLES);
        else if (const char *file = value("--json"))
            options.json = file;
        else if (const char *space = value("--perf_space")) {
            const std::string name = space;
            if (name != "host" && name != "cuda" && name != "both")
                return false;
            options.host = name != "cuda";
            options.cuda = name != "host";
        } else
            return false;
    }
    return true;
}

} // namespace

void check(cusStatus status) {
    if (status != CUS_OK)
        throw std::runtime_error(std::string(cusStatusName(status)) + ": " + cusLastError());
}

Timing time(cusSpace space, const Work &work) {
    return options.list ? Timing() : timeInTurn(space, false, {&work})[0];
}

bool haveGpu() {
    static const bool have = [] {
        int count = 0;
        return cusDeviceCount(&count) == CUS_OK && count > 0;
    }();
    return have;
}

bool wants(cusSpace space) {
    return space == CUS_DEVICE ? options.cuda && haveGpu() : options.host && !options.once;
}

bool listing() {
    return options.list;
}

double copyGbps(cusSpace space) {
    if (!copy_gbps.count(space))
        copy_gbps[space] = measureCopy(space);
    return copy_gbps[space];
}

const BusGbps &busGbps() {
    if (!bus_gbps) {
        bus_gbps = std::make_unique<BusGbps>(measureBus());
        JsonObject bus;
        bus.add("up", bus_gbps->up).add("down", bus_gbps->down).add("both", bus_gbps->both);
        json_lines.write(JsonObject().add("bus_gbps", bus).text());
    }
    return *bus_gbps;
}

int rotation(cusSpace space, size_t bytes_a_set) {
    return rotationFor(cacheBytes(space), bytes_a_set);
}

Row::Row(std::string id, cusSpace space, double bytes) : id_(std::move(id)), space_(space), bytes_(bytes) {}

void Row::measure(Work work) {
    work_.emplace(work_.begin(), "", std::move(work));
}

void Row::peer(const std::string &name, Work work) {
    work_.emplace_back(name, std::move(work));
}

void Row::note(const std::string &text) {
    note_ += (note_.empty() ? "" : "; ") + text;
}

void Row::wallClock(int frames_a_call) {
    wall_ = true;
    frames_ = frames_a_call;
}

void Row::hostToHost(double up_bytes, double down_bytes, int frames_a_call) {
    wallClock(frames_a_call);
    up_bytes_ = up_bytes;
    down_bytes_ = down_bytes;
}

void Row::report() {
    if (options.list) {
        std::printf("%-48s %s %s\n", id_.c_str(), backendName(space_), currentTest().c_str());
        return;
    }
    if (work_.empty() || !work_[0].first.empty())
        throw std::logic_error(id_ + ": nothing to measure");
    if (!options.rows.empty() && std::find(options.rows.begin(), options.rows.end(), id_) == options.rows.end())
        return;
    if (options.once) {
        std::printf("%s\n", id_.c_str());
        std::fflush(stdout);
        profileOnce(work_[0].second);
        return;
    }
    std::vector<const Work *> works;
    for (const auto &work : work_)
        works.push_back(&work.second);
    const double enough_ms = startsWith(id_, "sweep/") ? 0 : tuning::ENOUGH_MS;
    std::vector<Timing> timings = timeInTurn(space_, wall_, works, enough_ms);
    for (Timing &t : timings) {
        t.median_ms /= frames_;
        t.min_ms /= frames_;
        t.max_ms /= frames_;
    }
    const Timing &own = timings[0];

    std::ostringstream line;
    JsonObject json, peers;
    json.add("id", id_).add("backend", backendName(space_)).add("median_ms", own.median_ms).add("min_ms", own.min_ms);
    json.add("max_ms", own.max_ms).add("samples", own.samples).add("bytes", static_cast<long long>(bytes_));
    json.add("test", currentTest());
    char text[256];
    std::snprintf(text, sizeof text, "%-48s %s %s ms  min %s  spread %4.1f %%", id_.c_str(), backendName(space_),
                  milliseconds(own.median_ms).c_str(), milliseconds(own.min_ms).c_str(), 100 * own.spread);
    line << text;
    if (up_bytes_ + down_bytes_ > 0) {
        const double fraction = busFloorMs(busGbps(), up_bytes_, down_bytes_) / own.median_ms;
        std::snprintf(text, sizeof text, "  %6.1f GB/s  %5.1f %% of bus ", (up_bytes_ + down_bytes_) / own.median_ms * 1e-6,
                      100 * fraction);
        line << text;
        json.add("bus_bytes", static_cast<long long>(up_bytes_ + down_bytes_)).add("fraction_of_bus", fraction);
    } else if (bytes_ > 0) {
        const double gbps = bytes_ / own.median_ms * 1e-6, fraction = gbps / copyGbps(space_);
        std::snprintf(text, sizeof text, "  %6.*f GB/s  %5.1f %% of copy", gbps < 1000 ? 1 : 0, gbps, 100 * fraction);
        line << text;
        json.add("fraction_of_copy", fraction);
    }
    for (size_t k = 1; k < work_.size(); ++k) {
        peers.add(work_[k].first, timings[k].median_ms);
        std::snprintf(text, sizeof text, "  x%.3g %s", timings[k].median_ms / own.median_ms, work_[k].first.c_str());
        line << text;
    }
    json.add("peers", peers);
    if (!note_.empty()) {
        json.add("note", note_);
        line << "  (" << note_ << ")";
    }
    std::printf("%s\n", line.str().c_str());
    std::fflush(stdout);
    work_.clear();
    measured_ = true;
    json_lines.write(json.text());
}

void bothSpaces(const std::function<void(cusSpace)> &body) {
    for (const cusSpace space : {CUS_HOST, CUS_DEVICE})
        if (wants(space))
            body(space);
}

namespace {

// One line a row: gtest's own lines only for what failed.
class Quiet : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult &result) override {
        if (result.failed())
            std::cerr << (result.file_name() ? result.file_name() : "") << ":" << result.line_number() << ": "
                      << result.summary() << "\n";
    }
    void OnTestEnd(const testing::TestInfo &info) override {
        if (info.result()->Failed())
            std::cerr << info.test_suite_name() << "." << info.name() << " failed\n";
    }
};

int run(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    const bool understood = parse(argc, argv);
    if (!understood || options.help) {
        (understood ? std::cout : std::cerr) << USAGE;
        return understood ? 0 : 2;
    }
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Quiet);
    if (!options.list && !options.once) {
        if (!options.json.empty())
            json_lines.open(options.json);
        std::printf("CPU %s, %u threads\n", cpuName().c_str(), std::thread::hardware_concurrency());
        if (haveGpu()) {
            const cusDeviceInfo gpu = deviceInfo();
            std::printf("GPU %s, compute capability %d.%d, %d multiprocessors, L2 %.0f MB\n", gpu.name, gpu.major,
                        gpu.minor, gpu.multiprocessors, static_cast<double>(gpu.l2_bytes) * 1e-6);
        } else {
            std::printf("no GPU: the rows of CUDA are left out\n");
        }
        for (const cusSpace space : {CUS_HOST, CUS_DEVICE})
            if (wants(space))
                std::printf("copy %s %.1f GB/s\n", backendName(space), copyGbps(space));
        std::fflush(stdout);
        json_lines.write(machineFacts());
    }
    return RUN_ALL_TESTS();
}

} // namespace
} // namespace perf

int main(int argc, char **argv) {
    try {
        return perf::run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "cusight_perf: " << error.what() << "\n";
        return 1;
    }
}
