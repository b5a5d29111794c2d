// Prints the results of a run as "name: value" lines or as JSON, and notes on stderr.
//
//   sample::figure("frames", {{"frames", n}, {"rate", rate}}, "%lld, %.1f frames/s", n, rate);
//
// prints "frames: 250, 41.3 frames/s", or with --json adds the members "frames" and "rate" to the run's object. Results go to stdout,
// or to stderr if stdout carries an output ("-").
#pragma once

#include <nlohmann/json_fwd.hpp> // files that print results include json.hpp

#include <string>

namespace sample {

using Json = nlohmann::ordered_json;

// One line of ASCII: control characters, names in other scripts and what is no UTF-8 reach the terminal as \u escapes.
std::string dump(const Json &json);

// The options --quiet, --json and --json-frames.
struct Reporting {
    bool quiet = false, json = false, json_frames = false;
    bool to_stderr = false; // stdout carries an output
    bool any_json() const { return json || json_frames; }
};
Reporting &currentReporting();

// Begins the run's object; called by parse().
void startReport(const std::string &program);

// Prints one result of the run; `members` is an object, or null for none. Throws Stop(OUTPUT).
void figure(const char *name, const Json &members, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The same for results without a JSON form of their own: a member "name" with the text, "frames_in" for "frames in".
void figureText(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
// A result that only --json shows.
void detail(const Json &members);

// Whether a result that was printed contains `name` as a word.
bool wasNamed(const std::string &name);

// Prints the object of one frame if --json-frames asks for it. Throws Stop(OUTPUT).
void reportFrame(const Json &frame);

// A line on stderr, unless --quiet.
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Prints the run's object, if JSON was asked for; `error` is "" after success. Called by guarded(). Throws Stop(OUTPUT).
void finishReport(int exit_code, const std::string &error);

// Throws Stop(OUTPUT) if something could not be printed.
void flushStdout();

} // namespace sample
