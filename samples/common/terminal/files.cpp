#include "common/terminal/files.hpp"

#include "common/output.hpp"
#include "common/video/sink.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace sample {

namespace fs = std::filesystem;

namespace {

constexpr unsigned CAMERAS = 81; // major number of /dev/video*

// One file, whatever its name. A file that does not exist yet: its folder and name.
struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    std::string name;
    bool operator<(const Identity &other) const {
        return std::tie(device, inode, name) < std::tie(other.device, other.inode, other.name);
    }
};

std::string folderOf(const std::string &path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Returns false if neither the file nor its folder exists, or if it is a device or a pipe, which writing cannot destroy.
bool identify(const std::string &path, Identity &identity) {
    struct stat about;
    if (::stat(path.c_str(), &about) == 0) {
        identity = {about.st_dev, about.st_ino, ""};
        return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode);
    }
    if (::stat(folderOf(path).c_str(), &about) != 0)
        return false;
    identity = {about.st_dev, about.st_ino, path.substr(path.rfind('/') + 1)};
    return true;
}

std::vector<std::string> filesIn(const std::string &folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        files.push_back(at->path().string());
    std::sort(files.begin(), files.end());
    return files;
}

// The existing files that a spec names.
std::vector<std::string> filesOf(const std::string &spec, bool output) {
    std::error_code error;
    const bool folder = fs::is_directory(spec, error);
    NumberedName name;
    if (folder && !output) {
        std::vector<std::string> files = filesIn(spec);
        files.push_back(spec);
        return files;
    }
    const bool numbered = folder || spec.back() == '/'
                              ? parseNumbered(spec + (spec.back() == '/' ? "" : "/") + "%06d.png", name)
                              : parseNumbered(spec, name) && (output || !fs::exists(spec, error));
    if (!numbered)
        return {spec};
    std::vector<std::string> files;
    const std::string head = folderOf(name.head), prefix = name.head.substr(name.head.rfind('/') + 1);
    for (const std::string &path : filesIn(head))
        if (NumberedName{prefix, name.tail, name.digits}.matches(fs::path(path).filename().string()))
            files.push_back(path);
    if (folder)
        files.push_back(spec);
    return files;
}

bool isFileSpec(const std::string &spec) {
    return !spec.empty() && spec.compare(0, 10, "synthetic:") != 0 && spec.find("://") == std::string::npos;
}

} // namespace

// ---- Numbered names ----------------------------------------------------------------------------------------------------

std::string NumberedName::file(long long number) const {
    std::string text = std::to_string(number);
    if (text.size() < digits)
        text.insert(0, digits - text.size(), '0');
    return head + text + tail;
}

bool NumberedName::matches(const std::string &name) const {
    const size_t around = head.size() + tail.size();
    if (name.size() <= around || name.compare(0, head.size(), head) != 0 ||
        name.compare(name.size() - tail.size(), tail.size(), tail) != 0)
        return false;
    const std::string number = name.substr(head.size(), name.size() - around);
    const bool padded = number.size() > std::max<size_t>(digits, 1) && number[0] == '0';
    return number.size() >= digits && !padded && number.find_first_not_of("0123456789") == std::string::npos;
}

bool parseNumbered(const std::string &pattern, NumberedName &name) {
    const size_t percent = pattern.find('%');
    if (percent == std::string::npos)
        return false;
    size_t end = percent + 1;
    while (end < pattern.size() && std::isdigit(static_cast<unsigned char>(pattern[end])))
        ++end;
    if (end >= pattern.size() || pattern[end] != 'd' || pattern.find('%', end) != std::string::npos || end - percent > 3)
        return false;
    name.head = pattern.substr(0, percent);
    name.digits = end > percent + 1 ? static_cast<size_t>(std::stoi(pattern.substr(percent + 1, end - percent - 1))) : 0;
    name.tail = pattern.substr(end + 1);
    return true;
}

// ---- Kinds of files ----------------------------------------------------------------------------------------------------

std::string kindOfFile(const std::string &path) {
    struct stat about;
    if (::stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode))
        return "";
    return S_ISDIR(about.st_mode)    ? "a folder"
           : S_ISFIFO(about.st_mode) ? "a pipe"
           : S_ISSOCK(about.st_mode) ? "a socket"
                                     : "a device";
}

void requireRegular(const std::string &path) {
    struct stat about;
    if (::stat(path.c_str(), &about) == 0 && S_ISCHR(about.st_mode) && major(about.st_rdev) == CAMERAS)
        return;
    const std::string kind = kindOfFile(path);
    if (!kind.empty() && kind != "a folder")
        throw Stop(INPUT, path + " is " + kind + ", expected a regular file");
}

void requireEnding(const std::string &role, const std::string &path, const std::vector<std::string> &endings) {
    const std::string kind = kindOfFile(path);
    if (path.empty() || isSpecialPath(path) || (!kind.empty() && kind != "a folder") ||
        std::find(endings.begin(), endings.end(), ending(path)) != endings.end())
        return;
    std::string expected;
    for (const std::string &each : endings)
        expected += " " + each;
    throw Stop(USAGE, role + " is '" + path + "', expected a name that ends in" + expected);
}

void requireFile(const std::string &role, const std::string &path) {
    if (isStandard(path))
        throw Stop(USAGE, role + " is '" + path +
                              "', expected the name of a file: recordings and HDF5 cannot be written to stdout");
}

void requireText(const std::string &role, const std::string &path) {
    static const char *const others[] = {".png", ".jpg",  ".jpeg", ".bmp", ".tif", ".tiff", ".pgm",
                                         ".ppm", ".webp", ".mp4",  ".mov", ".mkv", ".avi",  ".webm",
                                         ".raw", ".h5",   ".hdf5", ".dat", ".ply", ".csv"};
    const std::string type = ending(path);
    if (std::any_of(std::begin(others), std::end(others), [&](const char *other) { return type == other; }))
        throw Stop(USAGE, role + " is '" + path + "', expected the name of a text file, such as .txt");
}

// ---- Files -------------------------------------------------------------------------------------------------------------

void Files::read(const std::string &role, const std::string &spec) {
    if (isFileSpec(spec))
        inputs_.push_back({role, spec});
}

void Files::read(const std::string &role, const std::vector<std::string> &specs) {
    for (const std::string &spec : specs)
        read(role, spec);
}

void Files::write(const std::string &role, const std::string &spec) {
    if (!spec.empty())
        outputs_.push_back({role, spec});
    if (isStandard(spec))
        currentReporting().to_stderr = true; // stdout carries this output
}

void Files::write(const Common &common, const std::string &default_file) {
    if (!common.output.empty())
        write("--output", common.output);
    else if (common.headless || !displayProblem().empty())
        write("the default of --output", default_file);
}

// stdin can be read once, and stdout written once.
void Files::checkStandard(const std::vector<Entry> &entries, const char *stream) {
    const Entry *first = nullptr;
    for (const Entry &entry : entries) {
        if (isStandard(entry.spec) && first)
            throw Stop(USAGE,
                       entry.role + " is '" + entry.spec + "', expected a file, since " + first->role + " is " + stream);
        if (isStandard(entry.spec))
            first = &entry;
    }
}

void Files::check() const {
    checkStandard(inputs_, "stdin");
    checkStandard(outputs_, "stdout");
    std::map<Identity, std::pair<const Entry *, std::string>> known;
    Identity identity;
    for (const Entry &input : inputs_)
        for (const std::string &file : filesOf(input.spec, false))
            if (!isStandard(file) && identify(file, identity))
                known.insert({identity, {&input, file}});
    for (const Entry &output : outputs_)
        for (const std::string &file : filesOf(output.spec, true)) {
            if (isStandard(file) || !identify(file, identity))
                continue;
            const auto found = known.insert({identity, {&output, file}}).first;
            const Entry &other = *found->second.first;
            if (&other == &output)
                continue; // two names of a numbered output
            std::string message = output.role + " is '" + output.spec + "', expected another file than " + other.role +
                                  " '" + other.spec + "'";
            if (file != output.spec)
                message += ": it would replace " + file;
            throw Stop(USAGE, message);
        }
}

} // namespace sample
