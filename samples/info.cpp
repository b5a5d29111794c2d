// cusight-info: what a bug report should say about the machine and the library.
#include "common/app.hpp"
#include "common/terminal/options.hpp"

#ifdef CUSIGHT_SAMPLES_OPENCV
#include <opencv2/core.hpp>
#endif

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <sys/utsname.h>

namespace {

// What follows `name` and the separators after it, in the first line that begins with it; "" if there is none.
std::string lineOf(const std::string &file, const std::string &name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const size_t value = line.find_first_not_of(" \t:=\"", name.size());
        if (line.compare(0, name.size(), name) == 0 && value != std::string::npos)
            return line.substr(value, line.find_last_not_of('"') + 1 - value);
    }
    return "";
}

void reportSystem() {
    utsname kernel = {};
    ::uname(&kernel);
    std::string system = lineOf("/etc/os-release", "PRETTY_NAME");
    if (system.empty())
        system = kernel.sysname;
    sample::figure("system", {{"system", system}, {"kernel", kernel.release}, {"machine", kernel.machine}},
                   "%s, Linux %s, %s", system.c_str(), kernel.release, kernel.machine);
    std::string processor = lineOf("/proc/cpuinfo", "model name");
    if (processor.empty())
        processor = "unknown";
    const unsigned threads = std::thread::hardware_concurrency();
    sample::figure("cpu", {{"cpu", processor}, {"threads", threads}}, "%s, %u threads", processor.c_str(), threads);
}

std::string cudaVersion(int version) {
    return sample::text("%d.%d", version / 1000, version % 1000 / 10);
}

void reportGpus() {
    int count = 0;
    if (cusDeviceCount(&count) != CUS_OK)
        sample::note("%s", cusLastError());
    const std::string driver = lineOf("/proc/driver/nvidia/version", "NVRM version");
    sample::figureText("driver", "%s", driver.empty() ? "none" : driver.c_str());
    if (count == 0)
        sample::figureText("gpu", "none that can be used");
    for (int i = 0; i < count; ++i) {
        cusDeviceInfo gpu = {};
        if (cusDeviceQuery(i, &gpu) != CUS_OK)
            throw sample::Stop(sample::DEVICE, sample::lastMessage());
        const std::string name = sample::text("gpu %d", i);
        sample::figureText(name.c_str(), "%s, compute capability %d.%d, %.0f GiB, driver for CUDA %s, runtime of CUDA %s",
                           gpu.name, gpu.major, gpu.minor, static_cast<double>(gpu.memory_total) / (1 << 30),
                           cudaVersion(gpu.driver_version).c_str(), cudaVersion(gpu.runtime_version).c_str());
    }
}

// The library's own lines: "cusight 0.3.0", then "  NAME: VALUE".
void reportLibrary() {
    std::istringstream lines(cusBuildInformation());
    std::string line;
    std::getline(lines, line);
    sample::figureText("cusight", "%s", cusVersion());
    while (std::getline(lines, line)) {
        const size_t name = line.find_first_not_of(' '), colon = line.find(':');
        const size_t value = line.find_first_not_of(' ', colon + 1);
        sample::figureText(line.substr(name, colon - name).c_str(), "%s", line.substr(value).c_str());
    }
#ifdef CUSIGHT_SAMPLES_OPENCV
    sample::figureText("OpenCV", "%s", cv::getVersionString().c_str());
#endif
}

// Variables that change how the library runs.
void reportEnvironment() {
    for (const char *name :
         {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "CUDA_VISIBLE_DEVICES", "CUDA_MODULE_LOADING"})
        if (const char *value = std::getenv(name))
            sample::figureText(name, "%s", value);
}

int run(int argc, char **argv) {
    const auto app = sample::makeApp(
        "cusight-info", "Prints versions, GPUs, driver, instruction set and build options. Put them into bug reports.",
        "  cusight-info\n"
        "  cusight-info --json\n");
    if (!sample::parse(*app, argc, argv))
        return sample::OK;
    reportLibrary();
    reportSystem();
    reportGpus();
    reportEnvironment();
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
