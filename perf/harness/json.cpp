// The file of --json, and the facts about the machine at its start.
#include "harness/internal.hpp"

#include <stdexcept>
#include <thread>

namespace perf {

JsonLines json_lines;

std::string cpuName() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.compare(0, 10, "model name") == 0)
            return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

cusDeviceInfo deviceInfo() {
    int device = 0;
    cusDeviceInfo info = {};
    check(cusDeviceGet(&device));
    check(cusDeviceQuery(device, &info));
    return info;
}

static std::string cudaVersion(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string machineFacts() {
    JsonObject facts;
    facts.add("cpu", cpuName()).add("threads", std::thread::hardware_concurrency());
    if (wants(CUS_HOST))
        facts.add("host_copy_gbps", copyGbps(CUS_HOST));
    if (haveGpu()) {
        const cusDeviceInfo gpu = deviceInfo();
        facts.add("gpu", gpu.name).add("driver", cudaVersion(gpu.driver_version));
        facts.add("cuda", cudaVersion(gpu.runtime_version));
        if (wants(CUS_DEVICE))
            facts.add("copy_gbps", copyGbps(CUS_DEVICE));
    }
    return facts.text();
}

void JsonLines::open(const std::string &path) {
    path_ = path;
    if (std::ifstream old(path); old && old.get() == '{' && old.get() != '"')
        throw std::runtime_error(path + " exists and does not contain JSON lines; not written");
    out_.open(path, std::ios::app);
    expectGood();
}

void JsonLines::write(const std::string &line) {
    if (!out_.is_open())
        return;
    out_ << line << '\n' << std::flush;
    expectGood();
}

void JsonLines::expectGood() const {
    if (!out_)
        throw std::runtime_error("cannot write " + path_);
}

} // namespace perf
