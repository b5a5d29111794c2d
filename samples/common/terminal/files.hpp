// The files of a run: numbered ones, ones that must be regular, and the rules for all that are written.
#pragma once

#include "common/app.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <sys/types.h>

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

// The folder that a file is in: "name/" or ".".
std::string folderOf(const std::string &path);

// "" if `path` is a regular file, or is missing; otherwise "a pipe", "a folder" and so on.
std::string kindOfFile(const std::string &path);

// Throws Stop(INPUT) if `path` is a pipe, a socket or a device: opening or reading one may wait for ever.
void requireRegular(const std::string &path);

// The content of a file that an option names beside the input: a picture, a calibration. Throws Stop(INPUT) unless it is a regular file of
// at most `most` bytes.
std::string readRegular(const std::string &path, size_t most);

// What the value of an option names: files that are read; one that is written; what openFile writes; a folder for files that
// the program names.
enum class Names { INPUT, OUTPUT, PICTURES, FOLDER };

// "input", "output", "pictures", "folder"
const char *nameOf(Names what);

// The files that a run reads and writes. Each is declared before anything is opened; parse() declares those that options name. No
// output is an input, or another output, by any name. A file whose name the program makes up (a clip, a page, one of numbered
// pictures) replaces no file, unless --overwrite is given; one that the user names is replaced when the new one is complete.
class Files {
  public:
    bool overwrite = false; // --overwrite

    // Begins a run, in which nothing is declared yet. Only what is declared can be written then, unless `any` is set, for tests.
    void begin(bool any = false);

    // `role`: "INPUT" or "--mask". `value`: of an input as for openSource (cameras, URLs and generated clips are not files), of
    // PICTURES as for openFile. Inputs come before outputs. Throws Stop(USAGE) if stdin or stdout ("-") is used twice, or if an
    // output is an input or another output; Stop(OUTPUT) if there can be no such file.
    void declare(const std::string &role, const std::string &value, Names what);
    // Names that the program makes up for `value` of the option `role`. Also throws Stop(OUTPUT) if such a file exists.
    void derive(const std::string &role, const std::string &value, const std::string &path);
    void derive(const std::string &role, const std::string &value, const NumberedName &names);
    // The file of a program whose --output is not given: `wanted`, or if that is taken, "heatmap-2.mp4" and so on; with / at the
    // end a folder, which is not declared.
    std::string defaultOutput(const std::string &wanted);

    // Whether the program made up this name. Throws std::logic_error if the path was not declared.
    bool isDerived(const std::string &path) const;
    // "--output: " for a declared path or value, otherwise "".
    std::string prefix(const std::string &path) const;

    // Keeps the name of a file that is complete, or of `count` numbered ones, for report().
    void wrote(const std::string &path);
    void wrote(const std::string &first, const std::string &last, size_t count);
    // Prints the files of the run that no result has named, and all of them in its JSON as "files". Throws Stop(OUTPUT).
    void report();

  private:
    // One file, whatever its name. A file that does not exist yet: its folder and name.
    struct Identity {
        dev_t device = 0;
        ino_t inode = 0;
        std::string name;
        bool operator<(const Identity &other) const;
    };
    struct Entry {
        std::string role, value;
    };
    struct Output {
        Entry entry;
        NumberedName names; // in the canonical name of the folder; of one file, it is the head
        bool numbered, derived;
        bool has(const std::string &path) const;
    };
    struct Written {
        std::string first, last;
        size_t count;
    };
    static bool identify(const std::string &path, Identity &identity);
    const Output *find(const std::string &path) const;
    static void useStandard(std::vector<Entry> &users, const Entry &entry, const char *stream);
    [[noreturn]] static void refuse(const Entry &own, const Entry &other, const std::string &path);
    void add(const Output &output);
    void addFile(const Output &output, const std::string &path);
    void requireFree(const Entry &own, const std::string &path) const;

    bool begun_ = false;
    std::map<Identity, Entry> known_;
    std::vector<Entry> stdin_, stdout_;
    std::vector<Output> outputs_;
    std::vector<Written> written_;
    std::mutex mutex_; // of written_: programs write on several threads
};
Files &currentFiles();

// "a.mp4" gives "a-2.mp4".
std::string numbered(const std::string &path, int number);

// Throws Stop(USAGE) unless the path ends in one of the endings (".ply"), names a device or pipe, or is empty.
void requireEnding(const std::string &role, const std::string &path, const std::vector<std::string> &endings);

// Throws Stop(USAGE) for stdout, for formats that are not written from front to back.
void requireFile(const std::string &role, const std::string &path);

// Throws Stop(USAGE) if the path ends like a picture, video or recording; for outputs that are plain text.
void requireText(const std::string &role, const std::string &path);

} // namespace sample
