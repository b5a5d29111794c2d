// The files that a command line names: numbered ones, ones that must be regular, and the check that no output is an input.
#pragma once

#include "common/terminal/options.hpp"

#include <string>
#include <vector>

namespace sample {

// A name with one %d or %04d.
struct NumberedName {
    std::string head, tail;
    size_t digits = 0; // the minimum

    std::string file(long long number) const;
    // Whether `name` is file(n) for an n.
    bool matches(const std::string &name) const;
};

// Returns false if `pattern` is not such a name.
bool parseNumbered(const std::string &pattern, NumberedName &name);

// "" if `path` is a regular file, or is missing; otherwise "a pipe", "a folder" and so on.
std::string kindOfFile(const std::string &path);

// Throws Stop(INPUT) if `path` is a pipe, a socket or a device: opening or reading one may wait for ever.
void requireRegular(const std::string &path);

// The files that a program is asked to read and to write. Opens none.
class Files {
  public:
    // `role`: "INPUT" or "--mask". `spec`: as for openSource; cameras, URLs and generated clips are not files.
    void read(const std::string &role, const std::string &spec);
    void read(const std::string &role, const std::vector<std::string> &specs);
    // `spec`: as for openFile; "" is not written.
    void write(const std::string &role, const std::string &spec);
    // --output of openSink: without it, and without a window, `default_file` is written. Call it before threads start.
    void write(const Common &common, const std::string &default_file);
    // Throws Stop(USAGE) if stdin or stdout ("-") is used twice, if an output is also an input, by any name, or if two
    // outputs are the same file.
    void check() const;

  private:
    struct Entry {
        std::string role, spec;
    };
    static void checkStandard(const std::vector<Entry> &entries, const char *stream);
    std::vector<Entry> inputs_, outputs_;
};

// Throws Stop(USAGE) unless the path ends in one of the endings (".ply"), names a device or pipe, or is empty.
void requireEnding(const std::string &role, const std::string &path, const std::vector<std::string> &endings);

// Throws Stop(USAGE) for stdout, for formats that are not written from front to back.
void requireFile(const std::string &role, const std::string &path);

// Throws Stop(USAGE) if the path ends like a picture, video or recording; for outputs that are plain text.
void requireText(const std::string &role, const std::string &path);

} // namespace sample
