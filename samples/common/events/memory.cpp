#include "common/events/memory.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#ifdef CUSIGHT_HAVE_OPENMP
#include <omp.h>
#endif
#include <unistd.h>

namespace events {

namespace {

constexpr double GIB = 1 << 30;

std::string gibibytes(double bytes) {
    return sample::text(bytes < GIB / 16 ? "%.4f GiB" : "%.1f GiB", bytes / GIB);
}

// The bytes per pixel of the accumulators that a host's thread has.
double accumulatorBytes(const cusRepresentation &r) {
    switch (r.kind) {
    case CUS_REPR_MDES:
    case CUS_REPR_TENCODE:
        return 2;
    case CUS_REPR_VOXEL_GRID:
        return 8.0 * r.channels;
    case CUS_REPR_TIME_SURFACE:
        return 8;
    case CUS_REPR_EVENT_DIFF:
        return 4;
    case CUS_REPR_EVENT_CUBE:
        return 16.0 * r.channels;
    case CUS_REPR_MDES_DIFF:
        return 4.0 * r.channels;
    default:
        return 0;
    }
}

int threads() {
#ifdef CUSIGHT_HAVE_OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

} // namespace

Memory::Memory()
    : limit_(
          std::max(2 * GIB, static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 8)),
      reader_(uint64_t{1} << 30) {}

bool Memory::parse(const std::string &text) {
    char *end = nullptr;
    double bytes = std::strtod(text.c_str(), &end);
    static const std::string UNITS = "KMGT";
    const size_t unit = *end ? UNITS.find(*end) : std::string::npos;
    if (unit != std::string::npos) {
        bytes *= std::pow(1024.0, static_cast<double>(unit + 1));
        ++end;
    }
    if (text.empty() || *end || !(bytes >= 128 << 20) || bytes > 1e18)
        return false;
    limit_ = bytes;
    reader_ = static_cast<uint64_t>(bytes / 2);
    return true;
}

std::string Memory::excess(double bytes) const {
    return gibibytes(bytes) + " of memory, more than the " +
           gibibytes(std::max(0.0, limit_ - static_cast<double>(reader_) - taken_)) + " that --max-memory, " +
           gibibytes(limit_) + ", leaves for them";
}

void Memory::take(double bytes, const std::string &what) {
    if (!has(bytes))
        throw sample::Stop(sample::INPUT, what + " need " + excess(bytes));
    taken_ += bytes;
}

double frameMemory(int rows, int cols, const cusRepresentation &r, size_t devices, bool on_gpu) {
    int type = 0;
    (void)cusRepresentationType(&r, &type);
    const double pixels = static_cast<double>(rows) * cols, frame = pixels * static_cast<double>(cusTypeSize(type)),
                 batch = std::max(frame, static_cast<double>(16 << 20));
    // Several devices make some batches ahead. A GPU's frames are there and on the host, and it has accumulators of 8 bytes a value.
    const double count = static_cast<double>(devices), ahead = devices > 1 ? on_gpu ? 128 << 20 : 48 << 20 : 0;
    if (on_gpu)
        return count * (2 * std::max(3 * batch, ahead) + 8 * pixels * CUS_CHANNELS(type));
    return count * (std::max(batch, ahead) + threads() / count * pixels * accumulatorBytes(r));
}

} // namespace events
