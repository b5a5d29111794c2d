// Rows: what they measure and how they are reported.
#include "harness/internal.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace perf {
namespace {

bool startsWith(const std::string &text, const char *start) {
    return text.compare(0, std::strlen(start), start) == 0;
}

std::string currentTest() {
    const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test.test_suite_name()) + "." + test.name();
}

// 3 or 4 significant digits, in a fixed width.
std::string milliseconds(double ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%9.*f", ms < 1 ? 5 : ms < 100 ? 3 : 1, ms);
    return text;
}

std::string formatted(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string formatted(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

} // namespace

void check(cusStatus status) {
    if (status != CUS_OK)
        throw std::runtime_error(std::string(cusStatusName(status)) + ": " + cusLastError());
}

const char *backendName(cusSpace space) {
    return space == CUS_DEVICE ? "cuda" : "host";
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

void Row::calls(std::vector<double> microseconds) {
    calls_ = std::move(microseconds);
    std::sort(calls_.begin(), calls_.end());
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
    write(timeAll());
    work_.clear();
    measured_ = true;
}

std::vector<Timing> Row::timeAll() const {
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
    return timings;
}

// The bandwidth reached, as a fraction of the bus's or of a copy's.
void Row::addBandwidth(double median_ms, std::string &line, JsonObject &json) const {
    if (up_bytes_ + down_bytes_ > 0) {
        const double fraction = busFloorMs(busGbps(), up_bytes_, down_bytes_) / median_ms;
        line += formatted("  %6.1f GB/s  %5.1f %% of bus ", (up_bytes_ + down_bytes_) / median_ms * 1e-6, 100 * fraction);
        json.add("bus_bytes", static_cast<long long>(up_bytes_ + down_bytes_)).add("fraction_of_bus", fraction);
    } else if (bytes_ > 0) {
        const double gbps = bytes_ / median_ms * 1e-6, fraction = gbps / copyGbps(space_);
        line += formatted("  %6.*f GB/s  %5.1f %% of copy", gbps < 1000 ? 1 : 0, gbps, 100 * fraction);
        json.add("fraction_of_copy", fraction);
    }
}

void Row::addCalls(std::string &line, JsonObject &json) const {
    const double p50 = quantile(calls_, 0.5), p99 = quantile(calls_, 0.99), p99_9 = quantile(calls_, 0.999),
                 p99_99 = quantile(calls_, 0.9999);
    JsonObject calls, histogram; // histogram: calls by whole microseconds
    calls.add("count", static_cast<long long>(calls_.size())).add("p50_us", p50).add("p99_us", p99);
    calls.add("p99_9_us", p99_9).add("p99_99_us", p99_99).add("max_us", calls_.back());
    for (size_t i = 0, next = 0; i < calls_.size(); i = next) {
        const auto whole = static_cast<long long>(calls_[i]);
        while (next < calls_.size() && static_cast<long long>(calls_[next]) == whole)
            ++next;
        histogram.add(std::to_string(whole), static_cast<long long>(next - i));
    }
    json.add("calls", calls.add("histogram_us", histogram));
    line +=
        formatted("  %zu calls: p50 %.1f, p99 %.1f, p99.9 %.1f, p99.99 %.1f us", calls_.size(), p50, p99, p99_9, p99_99);
}

void Row::write(const std::vector<Timing> &timings) const {
    const Timing &own = timings[0];
    JsonObject json, peers;
    json.add("id", id_).add("backend", backendName(space_)).add("median_ms", own.median_ms).add("min_ms", own.min_ms);
    json.add("max_ms", own.max_ms).add("samples", own.samples).add("bytes", static_cast<long long>(bytes_));
    json.add("test", currentTest());
    std::string line = formatted("%-48s %s %s ms  min %s  spread %4.1f %%", id_.c_str(), backendName(space_),
                                 milliseconds(own.median_ms).c_str(), milliseconds(own.min_ms).c_str(), 100 * own.spread);
    addBandwidth(own.median_ms, line, json);
    for (size_t k = 1; k < work_.size(); ++k) {
        peers.add(work_[k].first, timings[k].median_ms);
        line += formatted("  x%.3g %s", timings[k].median_ms / own.median_ms, work_[k].first.c_str());
    }
    json.add("peers", peers);
    if (!calls_.empty())
        addCalls(line, json);
    if (!note_.empty()) {
        json.add("note", note_);
        line += "  (" + note_ + ")";
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    json_lines.write(json.text());
}

void bothSpaces(const std::function<void(cusSpace)> &body) {
    for (const cusSpace space : {CUS_HOST, CUS_DEVICE})
        if (wants(space))
            body(space);
}

} // namespace perf
