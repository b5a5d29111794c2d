// `cusight-events merge`: puts the frames of all shards together, as one run would have stored them.
#pragma once

#include "common/events/memory.hpp"

#include <string>
#include <vector>

namespace events {

struct MergeSettings {
    std::vector<std::string> inputs;
    std::string output;
    Memory memory; // --max-memory
};

// Throws sample::Stop.
void merge(MergeSettings &settings);

// What --shard I/N stores with its frames.
struct ShardLabel {
    unsigned long long shard = 0, shards = 0; // I and N; 0: none
    std::string run;                          // the same for all shards of a recording and options
    bool is_damaged = false;                  // the recording ends after its frames
};

std::string shardRun(const std::string &run); // short
// Makes a text of at most 63 characters, in which `run` becomes shardRun().
std::string shardLabel(const ShardLabel &label);
// Reads the label of a file of frames in HDF5. Returns false if there is none.
bool readShardLabel(const std::string &path, ShardLabel &label);

} // namespace events
