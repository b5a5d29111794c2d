// Prints the results of a run as "name: value" lines or as JSON, and notes on stderr.
//
//   sample::figure("frames", sample::Json().add("frames", n).add("rate", rate), "%lld, %.1f frames/s", n, rate);
//
// prints "frames: 250, 41.3 frames/s", or with --json adds the members "frames" and "rate" to the run's object. Results go to stdout,
// or to stderr if stdout carries an output ("-").
#pragma once

#include <string>

namespace sample {

// A JSON object; members stay in their order.
class Json {
  public:
    Json &add(const char *key, const std::string &value);
    Json &add(const char *key, const char *value) { return add(key, std::string(value)); }
    Json &add(const char *key, bool value);
    Json &add(const char *key, double value); // null if it is not finite
    Json &add(const char *key, int value) { return add(key, static_cast<long long>(value)); }
    Json &add(const char *key, long value) { return add(key, static_cast<long long>(value)); }
    Json &add(const char *key, long long value);
    Json &add(const char *key, unsigned value) { return add(key, static_cast<unsigned long long>(value)); }
    Json &add(const char *key, unsigned long value) { return add(key, static_cast<unsigned long long>(value)); }
    Json &add(const char *key, unsigned long long value);
    Json &add(const char *key, const Json &value);
    // Appends to the array `key`, which must be the last member.
    Json &append(const char *key, const Json &value);
    // The members of another object.
    Json &merge(const Json &other);

    std::string text() const { return "{" + members_ + "}"; }

  private:
    Json &raw(const char *key, const std::string &value);
    std::string members_, array_; // array_: the key of the array at the end, if that is the last member
};

// The options --quiet, --json and --json-frames.
struct Reporting {
    bool quiet = false, json = false, json_frames = false;
    bool to_stderr = false; // stdout carries an output
    bool any_json() const { return json || json_frames; }
};
Reporting &currentReporting();

// Begins the run's object; called by parse().
void startReport(const std::string &program);

// Prints one result of the run. Throws Stop(OUTPUT).
void figure(const char *name, const Json &members, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The same for results without a JSON form of their own: a member "name" with the text, "frames_in" for "frames in".
void figure(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
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
