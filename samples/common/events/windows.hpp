// Which frames to make of a recording, as the command line says. Needs no OpenCV.
#pragma once

#include "cusight/events.h"

#include <string>

namespace events {

// The frames that the options ask for.
struct FrameSettings {
    std::string representation = "histogram";
    int channels = 0; // 0: the representation's default
    int events_per_frame = 200000, us_per_frame = 0, stride = 0;
    bool stride_is_time = false; // it was given with a unit
    bool keep_incomplete = true;
    int max_gap = 1000; // windows by time without events, in a row
};

// The stride is never 0.
cusWindowing windowing(const FrameSettings &settings);
cusRepresentation representation(const FrameSettings &settings);

// "--events-per-frame is 5000", for messages.
std::string lengthOption(const FrameSettings &settings);

// The library's message about an option of a reader or a pipeline, in words of the command line: --max-gap, --max-memory.
std::string inOptions(std::string message);

// "WIDTHxHEIGHT", each from 1 to 65536; false: invalid.
bool parseSize(const std::string &text, int &width, int &height);

// A --stride: a number of events or microseconds, or a duration; false: invalid.
bool parseStride(const std::string &text, FrameSettings &settings);
// What a duration as --stride of windows by count is told, or "".
std::string strideProblem(const FrameSettings &settings);

// "FROM:TO" or "FROM:" (to: -1), numbers of seconds or durations; false: invalid.
bool parseRange(const std::string &text, double &from, double &to);

} // namespace events
