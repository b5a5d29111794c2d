#include "common/terminal/files.hpp"

#include "common/output.hpp"
#include "common/terminal/report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace sample {

namespace fs = std::filesystem;

namespace {

constexpr unsigned CAMERAS = 81;                      // major number of /dev/video*
constexpr long long NUMBERS[] = {0, 1, 10, 99999999}; // of files that stand for all with a number

// The name of a file in the canonical name of its folder, whether they exist or not.
std::string placeOf(const std::string &path) {
    std::error_code error;
    const size_t slash = path.rfind('/');
    const fs::path folder = fs::weakly_canonical(fs::absolute(path.substr(0, slash + 1) + ".", error), error);
    return error ? path : (folder / path.substr(slash + 1)).string();
}

std::vector<std::string> filesIn(const std::string &folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        files.push_back(at->path().string());
    std::sort(files.begin(), files.end());
    return files;
}

// The existing files of a numbered name.
std::vector<std::string> filesOf(const NumberedName &name) {
    std::vector<std::string> files;
    const NumberedName plain = {name.head.substr(name.head.rfind('/') + 1), name.tail, name.digits};
    for (const std::string &path : filesIn(folderOf(name.head)))
        if (plain.matches(fs::path(path).filename().string()))
            files.push_back(path);
    return files;
}

// The existing files that an input names.
std::vector<std::string> filesOf(const std::string &spec) {
    std::error_code error;
    NumberedName name;
    if (!fs::is_directory(spec, error) && !fs::exists(spec, error) && parseNumbered(spec, name))
        return filesOf(name);
    std::vector<std::string> files;
    if (fs::is_directory(spec, error))
        files = filesIn(spec);
    files.push_back(spec);
    return files;
}

// The numbers of pictures that openFile writes for `spec`, if that is what it does.
bool parsePictures(const std::string &spec, NumberedName &name) {
    std::error_code error;
    if (spec.back() == '/')
        name = {spec, ".png", 6};
    else if (fs::is_directory(spec, error))
        name = {spec + "/", ".png", 6};
    else
        return parseNumbered(spec, name);
    return true;
}

// Throws Stop(OUTPUT) if the folder of a file cannot be written, or does not exist, unless it is `made`.
void requireFolder(const std::string &role, std::string folder, bool made) {
    struct stat about;
    while (::stat(folder.c_str(), &about) != 0) {
        const int why = errno;
        const size_t end = folder.find_last_not_of('/');
        const size_t slash = end == std::string::npos ? end : folder.rfind('/', end);
        if (!made || why != ENOENT)
            throw Stop(OUTPUT, role + ": " + folder + " cannot be written: " + std::strerror(why));
        folder = slash == std::string::npos ? "." : folder.substr(0, slash + 1);
    }
    if (!S_ISDIR(about.st_mode))
        errno = ENOTDIR;
    if (!S_ISDIR(about.st_mode) || ::access(folder.c_str(), W_OK | X_OK) != 0)
        throw Stop(OUTPUT, role + ": " + folder + " cannot be written: " + std::strerror(errno));
}

bool isFileSpec(const std::string &spec) {
    return !spec.empty() && spec.compare(0, 10, "synthetic:") != 0 && spec.find("://") == std::string::npos;
}

} // namespace

std::string folderOf(const std::string &path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

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

static std::string kindOfMode(mode_t mode) {
    return S_ISREG(mode)    ? ""
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

std::string kindOfFile(const std::string &path) {
    struct stat about;
    return ::stat(path.c_str(), &about) == 0 ? kindOfMode(about.st_mode) : "";
}

void requireRegular(const std::string &path) {
    struct stat about;
    if (::stat(path.c_str(), &about) == 0 && S_ISCHR(about.st_mode) && major(about.st_rdev) == CAMERAS)
        return;
    const std::string kind = kindOfFile(path);
    if (!kind.empty() && kind != "a folder")
        throw Stop(INPUT, path + " is " + kind + ", expected a regular file");
}

std::string readRegular(const std::string &path, size_t most) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); // a pipe must not wait
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb"),
                                                                std::fclose);
    struct stat about;
    if (!file || ::fstat(descriptor, &about) != 0)
        throw Stop(INPUT, path + ": " + std::strerror(errno));
    if (!S_ISREG(about.st_mode))
        throw Stop(INPUT, path + " is " + kindOfMode(about.st_mode) + ", expected a regular file");
    if (static_cast<unsigned long long>(about.st_size) > most)
        throw Stop(INPUT, text("%s has %lld bytes, expected at most %zu", path.c_str(),
                               static_cast<long long>(about.st_size), most));
    std::string content(static_cast<size_t>(about.st_size), '\0');
    content.resize(std::fread(&content[0], 1, content.size(), file.get()));
    if (std::ferror(file.get()))
        throw Stop(INPUT, path + ": " + std::strerror(errno));
    return content;
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

const char *nameOf(Names what) {
    static const char *const words[] = {"input", "output", "pictures", "folder"};
    return words[static_cast<int>(what)];
}

Files &currentFiles() {
    static Files files;
    return files;
}

std::string numbered(const std::string &path, int number) {
    const std::string type = fs::path(path).extension().string();
    return path.substr(0, path.size() - type.size()) + "-" + std::to_string(number) + type;
}

bool Files::Identity::operator<(const Identity &other) const {
    return std::tie(device, inode, name) < std::tie(other.device, other.inode, other.name);
}

// Returns false if neither the file nor its folder exists, or if it is a device or a pipe, which writing cannot destroy.
bool Files::identify(const std::string &path, Identity &identity) {
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

void Files::begin(bool any) {
    begun_ = !any;
    known_.clear();
    stdin_.clear();
    stdout_.clear();
    outputs_.clear();
    written_.clear();
}

bool Files::Output::has(const std::string &path) const {
    return numbered ? names.matches(path) : names.head == path;
}

const Files::Output *Files::find(const std::string &path) const {
    const std::string place = placeOf(path);
    for (const Output &output : outputs_)
        if (output.has(place))
            return &output;
    return nullptr;
}

// stdin can be read once, and stdout written once.
void Files::useStandard(std::vector<Entry> &users, const Entry &entry, const char *stream) {
    if (!users.empty())
        throw Stop(USAGE, entry.role + " is '" + entry.value + "', expected a file, since " + users.front().role + " is " +
                              stream);
    users.push_back(entry);
}

void Files::refuse(const Entry &own, const Entry &other, const std::string &path) {
    throw Stop(USAGE, own.role + " is '" + own.value + "', expected another file than " + other.role + " '" + other.value +
                          "'" + (path == own.value ? "" : ": it would replace " + path));
}

// Throws if the file is an input or another output.
void Files::addFile(const Output &output, const std::string &path) {
    const Entry &own = output.entry;
    Identity identity;
    if (identify(path, identity)) {
        const auto [at, is_new] = known_.insert({identity, own});
        if (!is_new && (at->second.role != own.role || at->second.value != own.value))
            refuse(own, at->second, path);
    }
}

// Throws if there is a file under a name that the program makes up.
void Files::requireFree(const Entry &own, const std::string &path) const {
    struct stat about;
    if (!overwrite && ::lstat(path.c_str(), &about) == 0 && !S_ISDIR(about.st_mode))
        throw Stop(OUTPUT,
                   own.role + " is '" + own.value + "', but " + path + " exists; expected another place, or --overwrite");
}

// Throws if a name could be that of an earlier output.
void Files::add(const Output &output) {
    const auto overlap = [](const Output &a, const Output &b) {
        return std::any_of(std::begin(NUMBERS), std::end(NUMBERS),
                           [&](long long number) { return b.has(a.numbered ? a.names.file(number) : a.names.head); });
    };
    for (const Output &other : outputs_) {
        if (other.numbered && !output.numbered && other.entry.role == output.entry.role)
            continue; // files with names in place of numbers
        if (overlap(output, other) || overlap(other, output))
            refuse(output.entry, other.entry, output.entry.value);
    }
    outputs_.push_back(output);
}

void Files::declare(const std::string &role, const std::string &value, Names what) {
    const Entry entry = {role, value};
    const Output output = {entry, {placeOf(value), "", 0}, false, false};
    NumberedName names;
    if (what == Names::INPUT) {
        Identity identity;
        if (isStandard(value))
            useStandard(stdin_, entry, "stdin");
        else if (isFileSpec(value))
            for (const std::string &file : filesOf(value))
                if (identify(file, identity))
                    known_.insert({identity, entry});
    } else if (what == Names::FOLDER) {
        requireFolder(role, value, true);
    } else if (isStandard(value)) {
        useStandard(stdout_, entry, "stdout");
        outputs_.push_back(output);
        currentReporting().to_stderr = true; // stdout carries this output
    } else if (what == Names::PICTURES && parsePictures(value, names)) {
        addFile(output, value); // the folder, or a file with this very name
        derive(role, value, names);
        requireFolder(role, folderOf(names.head), value.back() == '/');
    } else {
        addFile(output, value);
        add(output);
        if (!isSpecialPath(value))
            requireFolder(role, folderOf(value), false);
        struct stat about;
        const bool exists = ::stat(value.c_str(), &about) == 0;
        if (exists && (S_ISDIR(about.st_mode) || ::access(value.c_str(), W_OK) != 0)) // the owner has protected the file
            cannotWrite(value, std::strerror(S_ISDIR(about.st_mode) ? EISDIR : errno));
    }
}

void Files::derive(const std::string &role, const std::string &value, const std::string &path) {
    const Output output = {{role, value}, {placeOf(path), "", 0}, false, true};
    addFile(output, path);
    add(output);
    requireFree(output.entry, path);
}

void Files::derive(const std::string &role, const std::string &value, const NumberedName &names) {
    const Output output = {{role, value}, {placeOf(names.head), names.tail, names.digits}, true, true};
    const std::vector<std::string> taken = filesOf(names);
    for (const std::string &file : taken)
        addFile(output, file);
    add(output);
    for (const std::string &file : taken)
        requireFree(output.entry, file);
}

std::string Files::defaultOutput(const std::string &wanted) {
    const bool folder = wanted.back() == '/';
    const std::string name = folder ? wanted.substr(0, wanted.size() - 1) : wanted;
    std::string path = name;
    Identity identity;
    struct stat about;
    for (int number = 2; find(path) || (identify(path, identity) && known_.count(identity)) ||
                         (!overwrite && ::lstat(path.c_str(), &about) == 0);
         ++number)
        path = numbered(name, number);
    if (folder) // whose files are derived when it is opened
        return path + '/';
    derive("the default of --output", path, path);
    return path;
}

bool Files::isDerived(const std::string &path) const {
    const Output *const output = find(path);
    if (!output && begun_ && !isSpecialPath(path))
        throw std::logic_error(path + " is written, but was not declared to sample::Files");
    return output && output->derived;
}

std::string Files::prefix(const std::string &path) const {
    for (const Output &output : outputs_)
        if (output.entry.value == path || output.has(placeOf(path)))
            return output.entry.role + ": ";
    return "";
}

// ---- What was written --------------------------------------------------------------------------------------------------

void Files::wrote(const std::string &path) {
    wrote(path, path, 1);
}

void Files::wrote(const std::string &first, const std::string &last, size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::none_of(written_.begin(), written_.end(), [&](const Written &file) { return file.first == first; }))
        written_.push_back({first, last, count});
}

void Files::report() {
    std::string unnamed;
    Json json;
    for (const Written &file : written_) {
        struct stat about;
        if (::lstat(file.first.c_str(), &about) != 0)
            continue; // it was needed until the end of the run only
        Json each = {{"file", file.first}};
        if (file.count > 1)
            each.update({{"last", file.last}, {"count", file.count}});
        json["files"].push_back(each);
        const std::string name = file.count > 1 ? file.first + " to " + file.last : file.first;
        if (!wasNamed(name))
            unnamed += (unnamed.empty() ? "" : ", ") + name;
    }
    if (!unnamed.empty())
        figure("files", Json(), "%s", unnamed.c_str());
    detail(json);
}

} // namespace sample
