// cusight_scale: makes recordings of any length, and measures several GPUs at once. perf/scale runs it.
#include "frames.hpp"
#include "generate.hpp"
#include "memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

const char *const HELP =
    "cusight_scale generate FILE [--format evt2|evt3|dat|text|m3ed] [--events N] [--rate EVENTS_PER_SECOND]\n"
    "    writes a recording of 1280 x 720 pixels; the same options give the same file\n"
    "cusight_scale memory [--events N] [--representation NAME] [--devices N] [--passes N] [--cpu]\n"
    "    frames of 200000 events from page-locked memory, on each GPU alone and on 2, 4, 8 ... at once; prints JSON\n"
    "cusight_scale frames FILE [--length EVENTS] [--devices N] [--lanes N] [--passes N] [--shard I --shards N] [--cpu] "
    "[--pin]\n"
    "    histograms of a recording by one cusEventFrames on 1, 2, 4, 8 ... GPUs, each N times; I from 1; prints JSON\n";

// Options and their values; a flag has the value "".
std::map<std::string, std::string> optionsOf(int argc, char **argv, int first) {
    std::map<std::string, std::string> options;
    for (int i = first; i < argc; ++i) {
        const std::string name = argv[i];
        const bool is_flag = name == "--cpu" || name == "--pin";
        if (name.compare(0, 2, "--") != 0 || (!is_flag && i + 1 == argc))
            throw std::runtime_error(name + " is not an option or lacks its value");
        options[name] = is_flag ? "" : argv[++i];
    }
    return options;
}

double take(std::map<std::string, std::string> &options, const std::string &name, double otherwise) {
    const auto found = options.find(name);
    if (found == options.end())
        return otherwise;
    char *end = nullptr;
    const double value = std::strtod(found->second.c_str(), &end);
    if (*end || value < 1 || value > 1e15)
        throw std::runtime_error(name + " is '" + found->second + "', expected a number from 1 on");
    options.erase(found);
    return value;
}

std::string takeText(std::map<std::string, std::string> &options, const std::string &name, const std::string &otherwise) {
    const auto found = options.find(name);
    const std::string value = found == options.end() ? otherwise : found->second;
    options.erase(name);
    return value;
}

void requireEmpty(const std::map<std::string, std::string> &options) {
    if (!options.empty())
        throw std::runtime_error("unknown option " + options.begin()->first);
}

void run(int argc, char **argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "generate" && argc > 2) {
        auto options = optionsOf(argc, argv, 3);
        const std::string format = takeText(options, "--format", "evt2");
        const auto events = static_cast<uint64_t>(take(options, "--events", 1e9));
        const double rate = take(options, "--rate", 10e6);
        requireEmpty(options);
        if (format != "evt2" && format != "evt3" && format != "dat" && format != "text" && format != "m3ed")
            throw std::runtime_error("--format is '" + format + "', expected evt2, evt3, dat, text or m3ed");
        scale::generate(argv[2], format, events, rate, std::max(1u, std::thread::hardware_concurrency()));
    } else if (command == "memory") {
        auto options = optionsOf(argc, argv, 2);
        scale::MemoryOptions o;
        o.events = static_cast<uint64_t>(take(options, "--events", 1e9));
        o.representation = takeText(options, "--representation", o.representation);
        o.devices = static_cast<int>(take(options, "--devices", 0));
        o.passes = static_cast<int>(take(options, "--passes", 15));
        o.cpu = options.erase("--cpu") > 0;
        requireEmpty(options);
        scale::measureMemory(o);
    } else if (command == "frames" && argc > 2) {
        auto options = optionsOf(argc, argv, 3);
        scale::FrameOptions o;
        o.path = argv[2];
        o.length = static_cast<uint64_t>(take(options, "--length", 1e6));
        o.devices = static_cast<int>(take(options, "--devices", 0));
        o.lanes = static_cast<int>(take(options, "--lanes", 1));
        o.passes = static_cast<int>(take(options, "--passes", 7));
        o.shard = static_cast<uint64_t>(take(options, "--shard", 1)) - 1;
        o.shards = static_cast<uint64_t>(take(options, "--shards", 1));
        o.cpu = options.erase("--cpu") > 0;
        o.pin = options.erase("--pin") > 0;
        requireEmpty(options);
        scale::measureFrames(o);
    } else {
        std::fputs(HELP, stdout);
    }
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "cusight_scale: %s\n", error.what());
        return 1;
    }
}
