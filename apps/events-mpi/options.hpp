// The command line of cusight-events-mpi: the options of cusight-events that make sense for many processes.
#pragma once

#include "common/events/windows.hpp"

#include <string>

namespace events_mpi {

struct Size {
    int width = 0, height = 0; // 0 x 0: not given
};

struct Options : events::FrameSettings {
    std::string input, output;
    std::string device = "auto";
    std::string compression = "lzf"; // of frames in HDF5
    bool checksum = false, resume = false;
    // How to read the recording.
    std::string camera;
    Size sensor, resize;
    bool skip_bad = false;
    double from = 0, to = -1; // seconds from the first event; -1: to the end

    bool raw() const; // the output is NAME.raw, otherwise HDF5
};

// Returns false if --help or --version was given; `text` is what to print. Throws sample::Stop(USAGE).
bool parseOptions(int argc, char **argv, Options &options, std::string &text);

// All options that determine the output, one per line.
std::string describeOptions(const Options &options);

} // namespace events_mpi
