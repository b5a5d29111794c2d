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

// Stored by --shard I/N with its frames; `run` is the same for all shards of a recording and options.
std::string shardLabel(unsigned long long shard, unsigned long long shards, const std::string &run);

} // namespace events
