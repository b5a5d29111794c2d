// Options of cusight-events.
#pragma once

#include "common/options.hpp"

#include <opencv2/core.hpp>

#include <string>

namespace events {

struct Settings {
    sample::Common common;
    std::string input;
    // How to read it.
    std::string camera;
    cv::Size sensor; // 0 x 0: as the recording says
    bool skip_bad = false;
    double contrast_threshold = 0.2;
    // Which part of it, and on which grid.
    double from = 0, to = -1; // seconds from the first event; -1: to the end
    cv::Size resize;          // 0 x 0: the sensor
    // The frames.
    std::string representation = "histogram";
    int channels = 0; // 0: the representation's default
    int events_per_frame = 200000, us_per_frame = 0, stride = 0;
    bool keep_incomplete = false;
    unsigned long long shard = 1, shards = 1;
    // The output.
    bool checksum = false;
    std::string events_file; // --save-events
    double fps = 30;
};

} // namespace events
