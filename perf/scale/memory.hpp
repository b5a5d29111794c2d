// Frames from events in page-locked memory, on one GPU and on several at once: one thread and one pipeline a GPU.
#pragma once

#include <cstdint>
#include <string>

namespace scale {

struct MemoryOptions {
    uint64_t events = 1000000000;
    std::string representation = "histogram";
    bool cpu = false; // threads with the CPU backend instead, to try it without a GPU
    int devices = 0;  // the maximum; 0: all
    int passes = 15;
};

// Measures 1, 2, 4, 8 ... devices and prints one JSON object. Throws std::runtime_error.
void measureMemory(const MemoryOptions &options);

} // namespace scale
