// The bounds of the rows: copy bandwidth in host and device memory and over the bus, and the size of the caches.
#include "harness/internal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

namespace perf {
namespace {

constexpr size_t COPY_BYTES = size_t(1) << 30;
constexpr size_t HOST_COPY_BYTES = size_t(256) << 20;
constexpr size_t BUS_COPY_BYTES = size_t(64) << 20;

std::map<cusSpace, double> copy_gbps;
std::unique_ptr<BusGbps> bus_gbps;

class Buffer {
  public:
    Buffer(size_t bytes, cusSpace space, bool pinned = false) {
        const int cols = 1 << 16, rows = static_cast<int>(bytes >> 16);
        check(pinned ? cusMatCreatePinned(&mat, rows, cols, CUS_8UC1) : cusMatCreate(&mat, rows, cols, CUS_8UC1, space));
        if (space == CUS_HOST)
            for (int y = 0; y < rows; ++y) // otherwise all pages would be one shared page of zeros
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
    const size_t bytes = space == CUS_DEVICE ? COPY_BYTES : HOST_COPY_BYTES;
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
    constexpr size_t bytes = BUS_COPY_BYTES;
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
    constexpr size_t fallback = size_t(32) << 20;
    if (space == CUS_DEVICE)
        return deviceInfo().l2_bytes;
    const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return l3 > 0 ? static_cast<size_t>(l3) : fallback;
}

} // namespace

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

int last_rotation = 0;

int rotation(cusSpace space, size_t bytes_a_set) {
    return last_rotation = rotationFor(cacheBytes(space), bytes_a_set);
}

} // namespace perf
