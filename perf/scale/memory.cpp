#include "memory.hpp"

#include "generate.hpp"

#include "cusight/events.h"
#include "cusight/live.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sched.h>
#ifdef CUSIGHT_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace scale {

namespace {

constexpr uint64_t WINDOW = 200000, PIECE = 45 * WINDOW; // whole batches of the pipeline
using Clock = std::chrono::steady_clock;

void check(cusStatus status) {
    if (status != CUS_OK)
        throw std::runtime_error(cusLastError());
}

// ---- Where a device is -------------------------------------------------------------------------------------------------

// The NUMA node of a GPU; -1: unknown.
int nodeOf(int device) {
    int node = -1;
#ifdef CUSIGHT_HAVE_CUDA
    char id[32] = "";
    if (cudaDeviceGetPCIBusId(id, sizeof id, device) == cudaSuccess) {
        for (char *c = id; *c; ++c)
            *c = static_cast<char>(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
        std::ifstream(std::string("/sys/bus/pci/devices/") + id + "/numa_node") >> node;
    }
#else
    (void)device;
#endif
    return node;
}

// Binds the calling thread, and so the memory that it allocates, to the node. Returns the node, or -1 if it is unknown or
// none of its processors may be used.
int stayOn(int node) {
    cpu_set_t allowed, wanted;
    CPU_ZERO(&wanted);
    std::ifstream list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    if (node < 0 || !list || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return -1;
    int first = 0, last = 0;
    for (char separator = ','; separator == ',' && list >> first; last = 0) { // "0-15,32-47"
        last = first;
        if (list.get(separator) && separator == '-')
            list >> last, list.get(separator);
        for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &allowed))
                CPU_SET(cpu, &wanted);
        if (!list)
            break;
    }
    return CPU_COUNT(&wanted) > 0 && sched_setaffinity(0, sizeof wanted, &wanted) == 0 ? node : -1;
}

// ---- Threads -----------------------------------------------------------------------------------------------------------

// Waits until `count` threads have arrived.
class Barrier {
  public:
    explicit Barrier(int count) : count_(count) {}
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        const long round = round_;
        if (++arrived_ == count_) {
            arrived_ = 0;
            ++round_;
            all_.notify_all();
            return;
        }
        all_.wait(lock, [&] { return round_ != round; });
    }

  private:
    const int count_;
    int arrived_ = 0;
    long round_ = 0;
    std::mutex mutex_;
    std::condition_variable all_;
};

// One device, its share of the events, and its pipeline. Everything is allocated by the thread that uses it.
class Lane {
  public:
    Lane(const MemoryOptions &o, int device, uint64_t first, uint64_t events)
        : cpu_(o.cpu), events_(events), representation_(choose(o.representation)) {
        if (!cpu_) {
            node = stayOn(nodeOf(device));
            check(cusDeviceSet(device));
        }
        const int types[] = {CUS_16UC1, CUS_16UC1, CUS_8UC1, CUS_64FC1}; // x, y, p; t is int64_t, as large as 64F
        const bool timed = representation_.kind != CUS_REPR_HISTOGRAM && representation_.kind != CUS_REPR_MDES &&
                           representation_.kind != CUS_REPR_MDES_COUNT && representation_.kind != CUS_REPR_EVENT_DIFF;
        for (int k = 0; k < (timed ? 4 : 3); ++k)
            check(cpu_ ? cusMatCreate(&column_[k], 1, static_cast<int>(events), types[k], CUS_HOST)
                       : cusMatCreatePinned(&column_[k], 1, static_cast<int>(events), types[k]));
        const auto threads = std::max(1u, std::thread::hardware_concurrency() / 4);
        inParallel(events, threads, [&](size_t low, size_t high) { // each thread inherits the node
            makeEvents(first + low, high - low, 10e6, x() + low, y() + low, p() + low, t() ? t() + low : nullptr);
        });
        cusEventPipelineOptions options = cusEventPipelineDefaults();
        options.compute = cpu_ ? CUS_HOST : CUS_DEVICE;
        options.windowing.keep_incomplete = 0;
        check(cusEventPipelineCreate(&pipeline_, ROWS, COLS, &representation_, 1, &options, receive, this));
    }
    ~Lane() {
        cusEventPipelineDestroy(pipeline_);
        for (cusMat &m : column_)
            cusMatRelease(&m);
    }
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;

    // Makes frames of `total` events, passing over the lane's share as often as needed.
    void run(uint64_t total) {
        windows_ = 0;
        for (uint64_t done = 0; done < total;) {
            const uint64_t at = done % events_, count = std::min({PIECE, events_ - at, total - done});
            const cusEventArrays piece = {x() + at, y() + at, p() + at, t() ? t() + at : nullptr, count, CUS_HOST};
            check(cusEventPipelinePush(pipeline_, &piece));
            done += count;
        }
        check(cusEventPipelineFlush(pipeline_));
        if (windows_ != total / WINDOW)
            throw std::runtime_error("a device made " + std::to_string(windows_) + " frames, expected " +
                                     std::to_string(total / WINDOW));
    }

    // Whether the first frame equals the CPU's for these events.
    bool isRight() {
        const uint32_t made = first_frame_;
        cusEventStacker *stacker = nullptr;
        check(cusEventStackerCreate(&stacker, ROWS, COLS, CUS_HOST, &representation_, 1));
        const cusEventArrays events = {x(), y(), p(), t(), static_cast<size_t>(WINDOW), CUS_HOST};
        const cusEventWindow window = {0, WINDOW};
        cusMat frame = CUS_MAT_INIT;
        const cusStatus status = cusEventStack(stacker, &events, &window, 1, &frame, nullptr);
        const uint32_t expected = status == CUS_OK ? checksum(frame) : ~made;
        cusMatRelease(&frame);
        cusEventStackerDestroy(stacker);
        check(status);
        return made == expected;
    }

    int node = -1;

  private:
    static cusRepresentation choose(const std::string &name) {
        for (int kind = 0; const char *each = cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind)
            if (name == each)
                return cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind));
        throw std::runtime_error("--representation is '" + name + "'");
    }
    static uint32_t checksum(const cusMat &frame) {
        uint32_t crc = 0;
        for (int row = 0; row < ROWS; ++row)
            crc = cusCrc32c(crc, static_cast<const char *>(frame.data) + static_cast<size_t>(row) * frame.step,
                            static_cast<size_t>(frame.cols) * cusTypeSize(frame.type));
        return crc;
    }
    static cusStatus receive(void *user, const cusFrameBatch *batch) {
        auto *self = static_cast<Lane *>(user);
        if (self->first_frame_ == 0 && self->windows_ == 0)
            self->first_frame_ = checksum(batch->frames[0]);
        self->windows_ += batch->count;
        return CUS_OK;
    }
    uint16_t *x() { return static_cast<uint16_t *>(column_[0].data); }
    uint16_t *y() { return static_cast<uint16_t *>(column_[1].data); }
    uint8_t *p() { return static_cast<uint8_t *>(column_[2].data); }
    int64_t *t() { return static_cast<int64_t *>(column_[3].data); }

    const bool cpu_;
    const uint64_t events_;
    const cusRepresentation representation_;
    cusMat column_[4] = {};
    cusEventPipeline *pipeline_ = nullptr;
    uint64_t windows_ = 0;
    uint32_t first_frame_ = 0;
};

struct Sample {
    std::vector<int> devices;
    uint64_t events;             // in one pass, over all devices
    std::vector<double> seconds; // of each pass
};

// One thread per device, which lives as long as its lane; a measurement uses some of them.
class Bench {
  public:
    // The first measurement throws errors.
    Bench(const MemoryOptions &o, int devices)
        : nodes(static_cast<size_t>(devices), -1), o_(o), barrier_(devices + 1),
          // Whole pieces, so that no frame mixes the end and the start of a share.
          share_(wholePieces(o.events / static_cast<uint64_t>(devices))) {
        for (int d = 0; d < devices; ++d)
            threads_.emplace_back([this, d] { serve(d); });
        barrier_.wait(); // all lanes are ready
    }
    ~Bench() {
        order_ = Order::END;
        barrier_.wait();
        for (auto &thread : threads_)
            thread.join();
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;

    // Makes passes on each set of devices in turn, so that other load on the host affects all sets alike. The first pass of
    // a set wakes its devices up and does not count.
    std::vector<Sample> measure(const std::vector<std::vector<int>> &sets) {
        std::vector<Sample> samples;
        for (const auto &devices : sets)
            samples.push_back({devices, wholePieces(share_ * threads_.size() / devices.size()) * devices.size(), {}});
        for (int pass = 0; pass <= o_.passes; ++pass)
            for (Sample &sample : samples) {
                devices_ = sample.devices;
                per_device_ = sample.events / sample.devices.size();
                const auto start = Clock::now();
                obey(Order::RUN);
                const std::chrono::duration<double> took = Clock::now() - start;
                if (pass)
                    sample.seconds.push_back(took.count());
            }
        return samples;
    }

    // Throws if the first frame of a device differs from the CPU's.
    void compare() { obey(Order::COMPARE); }

    std::vector<int> nodes; // of the devices; -1: unknown

  private:
    enum class Order { RUN, COMPARE, END };

    static uint64_t wholePieces(uint64_t events) { return std::max<uint64_t>(1, events / PIECE) * PIECE; }

    void obey(Order order) {
        order_ = order;
        barrier_.wait();
        barrier_.wait();
        std::lock_guard<std::mutex> lock(mutex_);
        if (!problem_.empty())
            throw std::runtime_error(problem_);
    }
    void serve(int d) {
        const auto at = static_cast<size_t>(d);
        std::unique_ptr<Lane> lane;
        guard([&] {
            lane = std::make_unique<Lane>(o_, d, share_ * at, share_);
            nodes[at] = lane->node;
        });
        barrier_.wait();
        for (barrier_.wait(); order_ != Order::END; barrier_.wait()) {
            guard([&] {
                if (lane && order_ == Order::RUN && std::find(devices_.begin(), devices_.end(), d) != devices_.end())
                    lane->run(per_device_);
                if (lane && order_ == Order::COMPARE && !lane->isRight())
                    throw std::runtime_error("the first frame of device " + std::to_string(d) + " differs from the CPU's");
            });
            barrier_.wait();
        }
    }
    template<class F>
    void guard(const F &work) {
        try {
            work();
        } catch (const std::exception &error) {
            std::lock_guard<std::mutex> lock(mutex_);
            problem_ = error.what();
        }
    }

    const MemoryOptions &o_;
    Barrier barrier_;
    const uint64_t share_;
    uint64_t per_device_ = 0;
    std::vector<std::thread> threads_;
    std::vector<int> devices_;
    Order order_ = Order::RUN;
    std::mutex mutex_;
    std::string problem_;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return (values[n / 2] + values[(n - 1) / 2]) / 2;
}

} // namespace

void measureMemory(const MemoryOptions &o) {
    int count = 0;
    check(cusDeviceCount(&count));
    if (o.cpu)
        count = o.devices ? o.devices : 1;
    if (count == 0)
        throw std::runtime_error("no usable GPU; --cpu measures threads with the CPU backend");
    if (o.devices)
        count = std::min(count, o.devices);
    Bench bench(o, count);
    std::vector<std::vector<int>> sets;
    for (int d = 0; d < count; ++d) // each alone
        sets.push_back({d});
    for (int n = 2; n <= count; n = n < count && 2 * n > count ? count : 2 * n) {
        sets.emplace_back();
        for (int d = 0; d < n; ++d)
            sets.back().push_back(d);
    }
    const std::vector<Sample> samples = bench.measure(sets);
    bench.compare();
    std::printf("{\"representation\": \"%s\", \"backend\": \"%s\", \"nodes\": [", o.representation.c_str(),
                o.cpu ? "host" : "cuda");
    for (size_t d = 0; d < bench.nodes.size(); ++d)
        std::printf("%s%d", d ? ", " : "", bench.nodes[d]);
    std::printf("], \"rows\": [");
    for (size_t k = 0; k < samples.size(); ++k) {
        const Sample &s = samples[k];
        std::printf("%s\n  {\"devices\": [", k ? "," : "");
        for (size_t d = 0; d < s.devices.size(); ++d)
            std::printf("%s%d", d ? ", " : "", s.devices[d]);
        std::printf("], \"events\": %" PRIu64 ", \"frames\": %" PRIu64 ", \"passes\": %zu, \"median_s\": %.6f, "
                    "\"min_s\": %.6f, \"max_s\": %.6f}",
                    s.events, s.events / WINDOW, s.seconds.size(), median(s.seconds),
                    *std::min_element(s.seconds.begin(), s.seconds.end()),
                    *std::max_element(s.seconds.begin(), s.seconds.end()));
    }
    std::printf("\n]}\n");
}

} // namespace scale
