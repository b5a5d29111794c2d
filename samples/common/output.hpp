// Output files: written beside their place under an unpredictable name, and renamed when they are complete. Which names are
// allowed is for terminal/files.hpp to say.
#pragma once

#include "common/app.hpp"
#include "common/terminal/files.hpp"

#include <cstddef>
#include <cstdio>
#include <string>

namespace sample {

// "a.MP4" gives ".mp4".
std::string ending(const std::string &path);

// Whether the path is stdin or stdout: "-", or "-.png", which also gives the format.
bool isStandard(const std::string &path);

// Whether the path names stdout, a device or an open descriptor, such as /dev/stdout, no matter what is behind it.
bool isSpecialPath(const std::string &path);

[[noreturn]] void cannotWrite(const std::string &path, const std::string &why);

// Makes a folder, and those it is in, if it does not exist. Throws Stop(OUTPUT).
void makeFolder(const std::string &path);

// A cell of CSV with text from outside: in quotes if it has commas, quotes or line ends (RFC 4180); behind a ' if a spreadsheet
// would take it for a formula, as OWASP says; other control characters as for printable().
std::string csvCell(const std::string &text);

// One output file. A previous file at its path stays until commit(); without that, the destructor leaves no trace. A
// symbolic link at the path is replaced, not followed. A name that the program made up replaces nothing: if there is such a file
// by then, the next free name is taken. What killed runs of the same output have left is removed. stdout ("-"), a device or a pipe
// is written in place. All functions throw Stop(OUTPUT).
class OutputFile {
  public:
    // Fails if the folder, or an existing file, cannot be written. With `part`, an ending, it is called NAME.part.mkv until
    // commit(), or if that is taken NAME.part-2.mkv and so on, and stays if there is no commit(): what cannot be had again.
    explicit OutputFile(const std::string &path, const std::string &part = "");
    ~OutputFile();
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;

    const std::string &path() const { return path_; }
    // The name to write to until commit(); it has the ending of the path.
    const std::string &temporary() const { return temporary_; }
    bool inPlace() const { return in_place_; }

    void write(const void *data, size_t bytes);
    void print(const char *format, ...) __attribute__((format(printf, 2, 3)));
    // Like fseek; returns the new position. What is skipped, such as a header that is written last, stays 0.
    long long seek(long long offset, int whence);
    // Flushes what was printed, so that other programs can read it.
    void flush();

    // Gives the file its name while it is still being written, for logs that other programs follow.
    void publish();
    // Stores the file on the disk and gives it its name.
    void commit();
    // Leaves no trace, not even of a part.
    void discard() { part_ = false; }

  private:
    void openPart(const std::string &part);
    void rename();
    void forget();

    std::string path_, temporary_;
    int descriptor_ = -1;
    std::FILE *stream_ = nullptr;
    int slot_ = -1; // in the list of unfinished files
    bool in_place_ = false, derived_ = false, part_ = false;
};

// A new folder for files that the program names, inside `folder` under an unpredictable name. The destructor removes whatever is
// left.
class OutputFolder {
  public:
    // `folder` exists.
    explicit OutputFolder(const std::string &folder);
    ~OutputFolder();
    OutputFolder(const OutputFolder &) = delete;
    OutputFolder &operator=(const OutputFolder &) = delete;

    const std::string &path() const { return path_; }
    // Stores the files on the disk and moves them to `folder`, in the order of their names, numbers by size. Fails if a name is
    // taken, unless --overwrite is given.
    void commit();

  private:
    std::string folder_, path_;
};

// Removes what unfinished OutputFiles have written. Can be called by a signal handler.
void removeUnfinished() noexcept;

} // namespace sample
