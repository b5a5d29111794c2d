// What every sample program starts and ends with: exit codes, errors, Ctrl-C, the choice of the device.
//
//   static int run(int argc, char **argv) { ... return sample::OK; }
//   int main(int argc, char **argv) { return sample::guarded(argc, argv, run); }
#pragma once

#include "cusight/core.h"

#include <stdexcept>
#include <string>

namespace sample {

// Listed in --help.
enum ExitCode {
    OK = 0,
    FAILED = 1,       // anything else: out of memory, a CUDA error
    USAGE = 2,        // an option is unknown or its value is not taken
    INPUT = 3,        // the input cannot be opened or breaks off; what was good before that is in the output
    OUTPUT = 4,       // the output cannot be written
    DEVICE = 5,       // no such device
    INTERRUPTED = 130 // Ctrl-C; the output is complete up to there
};

// Thrown anywhere to end the program with a code and a sentence for the user.
class Stop : public std::runtime_error {
  public:
    Stop(ExitCode code, const std::string &message) : std::runtime_error(message), code_(code) {}
    ExitCode code() const noexcept { return code_; }

  private:
    ExitCode code_;
};

// Calls run() and turns what it throws into a sentence on stderr and an exit code. From here on the first Ctrl-C (or
// SIGTERM) only sets interrupted(), so that files can be finished; the second ends the program at once. A run that returned
// OK although it was interrupted exits with INTERRUPTED.
int guarded(int argc, char **argv, int (*run)(int, char **));

// Ask for it in every long loop, and then leave that loop in the ordinary way.
bool interrupted() noexcept;

struct Device {
    cusSpace space = CUS_HOST;
    int index = 0;    // of the GPU
    std::string name; // "CPU, 16 threads" or "cuda:0, NVIDIA H200"
};

// "auto" (the first GPU, or the CPU where there is none), "cpu", "cuda" or "cuda:n", as checked by the option parser. The
// calling thread's current CUDA device is set; other threads that use CUDA call cusDeviceSet(device.index) themselves.
// Throws Stop(DEVICE).
Device chooseDevice(const std::string &text);

// For a thread that computes on the CPU while others decode and encode video: its OpenMP loops take half of the processors
// from now on. (All of them would wait for each other spinning, in the encoder's way: 118 ms a frame of vtest.avi to H.264
// on two cores became 65 ms.)
void leaveCoresToCodecs();

// One figure of the run on stdout, "name: value": the form in which scripts read them. Progress and errors go to stderr.
void figure(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

// printf into a string.
std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace sample
