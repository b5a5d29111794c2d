// Options of cusight-events.
#pragma once

#include "common/terminal/options.hpp"
#include "common/events/memory.hpp"
#include "common/events/windows.hpp"
#include "common/values.hpp"
#include "diffstream/web/options.hpp"

#include "cusight/eventio.h"

#include <array>
#include <memory>
#include <string>

namespace events {

struct Settings : FrameSettings {
    sample::Common common;
    std::string input;
    // How to read the recording.
    std::string camera;
    sample::Size sensor; // 0 x 0: from the recording
    bool skip_bad = false;
    std::shared_ptr<Memory> memory = std::make_shared<Memory>(); // --max-memory
    // How to make events from video: cusEventGeneratorOptions.
    double contrast_threshold = 0.2, threshold_spread = 0, leak_rate = 0, leak_jitter = 0, shot_rate = 0;
    int refractory = 0, seed = 0;
    // Which part of the recording, and on which grid.
    double from = 0, to = -1;         // seconds from the first event; -1: to the end
    std::array<int, 4> crop = {};     // x, y, width, height; all 0: the sensor
    std::string flip = "none";        // x, y, both
    int hot_events = 0, activity = 0; // cusEventFilterOptions
    sample::Size resize;              // 0 x 0: the sensor
    unsigned long long shard = 1, shards = 1;
    bool shard_auto = false; // they come from the launcher
    std::string run;         // runOf(), of a shard
    // The output.
    bool checksum = false;
    std::string compression = "lzf"; // of frames in HDF5
    std::string events_file;         // --save-events
    std::string triggers_file;       // --triggers
    cusEventFormat events_format = CUS_EVENTS_M3ED;
    double fps = 30;
    bool choose_length = true;   // neither the length of frames nor their stride is given
    bool choose_speed = true;    // nor is --speed
    double chosen_speed = 0;     // at which chooseLength() has frames shown; 0: it has not chosen
    diffstream::WebSettings web; // --web
};

} // namespace events
