// Start and end of every program: exit codes, errors, Ctrl-C, choosing the device.
//
//   static int run(int argc, char **argv) { ... return sample::OK; }
//   int main(int argc, char **argv) { return sample::guarded(argc, argv, run); }
#pragma once

#include "cusight/core.h"

#include "common/terminal/report.hpp"

#include <cstdarg>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace sample {

// Listed in --help.
enum ExitCode {
    OK = 0,
    FAILED = 1,       // anything else: out of memory, a CUDA error
    USAGE = 2,        // invalid command line
    INPUT = 3,        // the input cannot be opened or ends early; the output holds everything before that
    OUTPUT = 4,       // the output cannot be written
    DEVICE = 5,       // no such device
    INTERRUPTED = 130 // Ctrl-C; the output is complete up to that point
};

// Thrown anywhere to end the program with an exit code and a message for the user.
class Stop : public std::runtime_error {
  public:
    Stop(ExitCode code, const std::string &message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const noexcept { return code_; }

  private:
    ExitCode code_;
};

// Calls run() and turns what it throws into a message on stderr and an exit code. Meanwhile the first Ctrl-C (or SIGTERM)
// only sets interrupted(), so that files can be finished; a program that then waits, and is not Finishing, ends within a
// second. The second Ctrl-C ends it at once. Neither leaves an unfinished file. If run() returns OK after an interrupt, the
// exit code is INTERRUPTED.
int guarded(int argc, char **argv, int (*run)(int, char **));

// Check it in every long loop, and leave the loop normally if it is true.
bool interrupted() noexcept;

// While one exists, an interrupted program may wait: it stores a file, or its viewers get what is on its way.
class Finishing {
  public:
    Finishing() noexcept;
    ~Finishing();
    Finishing(const Finishing &) = delete;
    Finishing &operator=(const Finishing &) = delete;
};

struct Device {
    cusSpace space = CUS_HOST;
    int index = 0;    // of the GPU
    std::string name; // "CPU, 16 threads" or "cuda:0, NVIDIA H200"
};

// `text` is "auto" (the first GPU, or the CPU if there is none), "cpu", "cuda" or "cuda:n", as checked by addDevice. Sets the
// calling thread's current CUDA device; other threads that use CUDA must call cusDeviceSet(device.index) themselves.
// Throws Stop(DEVICE). Several devices: many_devices.hpp.
Device chooseDevice(const std::string &text);

// For a thread that computes on the CPU while others decode and encode video. Its OpenMP loops use half of the processors
// from now on, since spinning OpenMP threads slow the encoder down (vtest.avi to H.264 on two cores: 118 ms per frame with
// all processors, 65 ms with half). Several `workers` share that half.
void leaveCoresToCodecs(size_t workers = 1);

// Like sprintf.
std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string formatted(const char *format, va_list arguments);

// Text of files, peers and names for a terminal or a log: control characters, and bytes that are no UTF-8, become "\x1b". What
// programs print and log passes through it.
std::string printable(const std::string &words);
// The length of the printable character that `text` starts with, in UTF-8; 0: a control character, or no character.
size_t characterBytes(const char *text);

// The library's last message without the function in front, for errors of the user's, not the program's.
std::string lastMessage();

// Three significant digits, large numbers with k, M or G: "0.0123", "4.5 k".
std::string shortNumber(double value);

} // namespace sample
