// The harness's own options.
#include "harness/internal.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace perf {

Options options;

const char *const USAGE =
    "The performance suite. Options in addition to GoogleTest's:\n"
    "  --perf_min_samples=N          minimum number of samples of each measurement (default 20)\n"
    "  --perf_space=host|cuda|both   measure the rows of one backend or of both (default both)\n"
    "  --perf_rows=ID[,ID...]        measure only these rows of the tests selected by --gtest_filter\n"
    "  --json FILE                   append one JSON object per line to FILE: the machine, then each row\n"
    "  --list-rows                   list the rows and their tests; measure nothing\n"
    "  --perf_once                   for profilers: run the library's work of each CUDA row once, between\n"
    "                                cudaProfilerStart and cudaProfilerStop\n";

bool parseOptions(int argc, char **argv) {
    for (int k = 1; k < argc; ++k) {
        const std::string argument = argv[k];
        const auto value = [&](const char *name) { // from "--name=value" or "--name value"
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

} // namespace perf
