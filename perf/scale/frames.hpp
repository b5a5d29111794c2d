// Frames of a recording in the page cache by one cusEventFrames on one device, and on several.
#pragma once

#include <cstdint>
#include <string>

namespace scale {

struct FrameOptions {
    std::string path;
    bool cpu = false; // threads of the host instead, to try it without a GPU
    int pin = 0;      // 1: the file is pinned
    int devices = 0;  // the maximum; 0: all
    int lanes = 1;    // of each device
    int passes = 7;
    uint64_t length = 1000000, shard = 0, shards = 0;
};

// Measures 1, 2, 4, 8 ... devices and prints one JSON object; times are of a pass over the open recording: of the
// first one with opening (first_s), and the median of later ones. Throws std::runtime_error.
void measureFrames(const FrameOptions &options);

} // namespace scale
