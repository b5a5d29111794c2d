// The harness's arithmetic and JSON, separate from measuring so that tests can check them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace perf {

struct Timing {
    double median_ms = 0, min_ms = 0, max_ms = 0;
    double spread = 0; // 90th minus 10th percentile, as a fraction of the median
    int samples = 0;
};

struct BusGbps {
    double up = 0, down = 0, both = 0;
};

// Interpolates linearly between the two nearest of the sorted values.
inline double quantile(const std::vector<double> &sorted, double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

inline Timing summary(std::vector<double> samples_ms) {
    Timing t;
    if (samples_ms.empty())
        return t;
    std::sort(samples_ms.begin(), samples_ms.end());
    t.median_ms = quantile(samples_ms, 0.5);
    t.min_ms = samples_ms.front();
    t.max_ms = samples_ms.back();
    t.spread = t.median_ms > 0 ? (quantile(samples_ms, 0.9) - quantile(samples_ms, 0.1)) / t.median_ms : 0;
    t.samples = static_cast<int>(samples_ms.size());
    return t;
}

// The number of calls that make a batch of target_ms if `calls` took elapsed_ms; at least 1.
inline int batchLength(double target_ms, int calls, double elapsed_ms) {
    constexpr double most = 1 << 20;
    const double one = std::max(elapsed_ms, 1e-6) / calls;
    return static_cast<int>(std::clamp(std::ceil(target_ms / one), 1.0, most));
}

// The number of buffer sets to rotate through: before a set is used again, the other sets have filled the cache twice.
inline int rotationFor(size_t cache_bytes, size_t bytes_a_set) {
    constexpr size_t most = 256;
    const size_t others = (2 * cache_bytes + bytes_a_set - 1) / std::max<size_t>(bytes_a_set, 1);
    return static_cast<int>(std::min(1 + others, most));
}

// The minimum time for these bytes over a full-duplex bus whose total bandwidth may be below the sum of both directions.
inline double busFloorMs(const BusGbps &bus, double up_bytes, double down_bytes) {
    const auto ms = [](double bytes, double gbps) { return gbps > 0 ? bytes / gbps * 1e-6 : 0.0; };
    return std::max({ms(up_bytes, bus.up), ms(down_bytes, bus.down), ms(up_bytes + down_bytes, bus.both)});
}

inline std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20)
            out += c;
    }
    return out + '"';
}

inline std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

// A JSON object on one line.
class JsonObject {
  public:
    JsonObject &add(const std::string &key, const std::string &value) { return addText(key, quoted(value)); }
    JsonObject &add(const std::string &key, const char *value) { return addText(key, quoted(value)); }
    JsonObject &add(const std::string &key, double value) { return addText(key, number(value)); }
    JsonObject &add(const std::string &key, const JsonObject &value) { return addText(key, value.text()); }
    template<class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
    JsonObject &add(const std::string &key, Integer value) {
        return addText(key, std::to_string(value));
    }
    std::string text() const { return "{" + members_ + "}"; }

  private:
    JsonObject &addText(const std::string &key, const std::string &value) {
        members_ += (members_.empty() ? "" : ", ") + quoted(key) + ": " + value;
        return *this;
    }
    std::string members_;
};

} // namespace perf
