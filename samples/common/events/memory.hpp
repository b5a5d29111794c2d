// How much memory a run may take by what its input claims. Sizes of sensors are numbers in a file: a recording of two events may
// have 2^32 pixels.
#pragma once

#include "cusight/events.h"

#include <cstdint>
#include <string>
#include <vector>

namespace events {

class Memory {
  public:
    // The default: 2 GiB, or an eighth of the machine's memory if that is more.
    Memory();

    // "512M", "2G", "1.5T" or bytes, at least 128M, of which a reader takes half; false: invalid.
    bool parse(const std::string &text);

    // What a reader may take, from the start: 1 GiB, or half of what --max-memory gives.
    uint64_t reader() const { return reader_; }

    // Whether so many more bytes are allowed.
    bool has(double bytes) const { return taken_ + bytes <= limit_ - static_cast<double>(reader_); }
    // Counts them. Throws sample::Stop if they are too many, with the option's name: "WHAT need 8.0 GiB of memory, ...".
    void take(double bytes, const std::string &what);
    // "8.0 GiB of memory, more than the 1.0 GiB that --max-memory 2.0 GiB leaves", for messages.
    std::string excess(double bytes) const;

  private:
    double limit_, taken_ = 0;
    uint64_t reader_;
};

// The bytes that `devices` pipelines, on the host or on GPUs, take for frames of a representation.
double frameMemory(int rows, int cols, const cusRepresentation &representation, size_t devices, bool on_gpu);

} // namespace events
