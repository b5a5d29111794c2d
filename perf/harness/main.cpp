// The program: measures the rows of the selected tests.
#include "harness/internal.hpp"

#include <cstdio>
#include <iostream>
#include <thread>

namespace perf {
namespace {

// Prints GoogleTest's messages for failures only, so that a run prints one line per row.
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

void printMachine() {
    std::printf("CPU %s, %u threads\n", cpuName().c_str(), std::thread::hardware_concurrency());
    if (haveGpu()) {
        const cusDeviceInfo gpu = deviceInfo();
        std::printf("GPU %s, compute capability %d.%d, %d multiprocessors, L2 %.0f MB\n", gpu.name, gpu.major, gpu.minor,
                    gpu.multiprocessors, static_cast<double>(gpu.l2_bytes) * 1e-6);
    } else {
        std::printf("no GPU: CUDA rows are skipped\n");
    }
    for (const cusSpace space : {CUS_HOST, CUS_DEVICE})
        if (wants(space))
            std::printf("copy %s %.1f GB/s\n", backendName(space), copyGbps(space));
    std::fflush(stdout);
}

int run(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    const bool understood = parseOptions(argc, argv);
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
        printMachine();
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
