#include "common/output.hpp"

#include "common/terminal/files.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace sample {

namespace fs = std::filesystem;

namespace {

// Names of unfinished files, in fixed memory so that a signal handler can remove the files.
struct Unfinished {
    std::atomic<bool> taken{false}, set{false};
    char path[4096];
};
Unfinished unfinished[16];

int remember(const std::string &path) {
    for (size_t i = 0; i < std::size(unfinished); ++i)
        if (path.size() < sizeof unfinished[i].path && !unfinished[i].taken.exchange(true)) {
            std::memcpy(unfinished[i].path, path.c_str(), path.size() + 1);
            unfinished[i].set = true;
            return static_cast<int>(i);
        }
    return -1;
}

uint32_t hashed(const std::string &bytes) { // FNV-1a, as in the library (modules/eventio/output.c)
    uint32_t hash = 2166136261u;
    for (const char byte : bytes)
        hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619u;
    return hash;
}

// ".cusight-OUTPUT-HOST-", hashes: the same for all runs that write `path` and see each other's process numbers.
std::string hiddenStart(const std::string &path) {
    struct stat processes = {};
    utsname host = {};
    ::uname(&host);
    if (::stat("/proc/self/ns/pid", &processes) != 0)
        processes.st_ino = 0;
    return text(".cusight-%08x-%08x-", hashed(path.substr(path.rfind('/') + 1)),
                hashed(host.nodename + std::to_string(processes.st_ino)));
}

// Moves a file to a name that is free. Returns false with EEXIST if it is not.
bool renameNew(const std::string &from, const std::string &to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (::link(from.c_str(), to.c_str()) == 0) // a file system that cannot
        return ::unlink(from.c_str()) == 0;
    struct stat about;
    if (errno == EPERM && ::lstat(to.c_str(), &about) != 0)
        return ::rename(from.c_str(), to.c_str()) == 0;
    return false;
}

// Removes what killed runs have left beside `path`: files and folders of this user whose process is gone.
void removeLeftovers(const std::string &path) {
    constexpr size_t RANDOM = 17; // a dash and 16 digits
    const std::string start = hiddenStart(path), type = fs::path(path).extension().string();
    std::error_code error;
    for (fs::directory_iterator at(folderOf(path), error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.compare(0, start.size(), start) != 0)
            continue;
        char *rest = nullptr;
        const unsigned long process = std::strtoul(&name[start.size()], &rest, 16);
        const bool ours =
            std::strlen(rest) > RANDOM && (std::string(".part") == rest + RANDOM || ".part" + type == rest + RANDOM);
        struct stat about;
        if (ours && process > 0 && process <= INT_MAX && ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH &&
            ::lstat(at->path().c_str(), &about) == 0 && about.st_uid == ::geteuid()) {
            std::error_code ignored;
            fs::remove_all(at->path(), ignored);
        }
    }
}

// ".cusight-OUTPUT-HOST-PROCESS-0123456789abcdef.part" beside `path`.
std::string hiddenName(const std::string &path) {
    unsigned char random[8];
    if (::getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
        cannotWrite(path, std::strerror(errno));
    std::string name = hiddenStart(path) + text("%x-", static_cast<unsigned>(::getpid()));
    for (const unsigned char byte : random)
        name += text("%02x", byte);
    const size_t slash = path.rfind('/');
    return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + name + ".part";
}

// Returns an open descriptor given by name, /dev/stdout or /dev/fd/63. Opening it again would overwrite a file behind it
// from its start.
int openInPlace(const std::string &path) {
    int number = -1;
    char rest = 0;
    if (isStandard(path))
        number = STDOUT_FILENO;
    else if (path == "/dev/stdout" || path == "/dev/stderr")
        number = path == "/dev/stdout" ? STDOUT_FILENO : STDERR_FILENO;
    else if (std::sscanf(path.c_str(), "/dev/fd/%d%c", &number, &rest) != 1 &&
             std::sscanf(path.c_str(), "/proc/self/fd/%d%c", &number, &rest) != 1)
        number = -1;
    return number >= 0 ? ::fcntl(number, F_DUPFD_CLOEXEC, 3) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

void syncFolder(const std::string &folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return; // writable but not readable
    ::fsync(descriptor);
    ::close(descriptor);
}

} // namespace

std::string ending(const std::string &path) {
    std::string out = fs::path(path).extension().string();
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

bool isStandard(const std::string &path) {
    return !path.empty() && path[0] == '-' && (path.size() == 1 || path[1] == '.') && path.find('/') == std::string::npos;
}

bool isSpecialPath(const std::string &path) {
    const auto within = [&](const char *folder) { return path.compare(0, std::strlen(folder), folder) == 0; };
    return isStandard(path) || (within("/dev/") && !within("/dev/shm/")) || within("/proc/");
}

void cannotWrite(const std::string &path, const std::string &why) {
    throw Stop(OUTPUT, currentFiles().prefix(path) + path + " cannot be written: " + why);
}

void makeFolder(const std::string &path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error)
        cannotWrite(path, error.message());
}

std::string csvCell(const std::string &text) {
    std::string out = !text.empty() && std::strchr("=+-@\t\r", text[0]) ? "'" : "";
    bool quotes = false;
    for (size_t at = 0, bytes; at < text.size(); at += bytes) {
        bytes = std::max<size_t>(characterBytes(&text[at]), 1);
        const std::string character = text.substr(at, bytes);
        quotes = quotes || std::strchr(",\"\n\r", text[at]);
        out += text[at] == '"' ? "\"\"" : std::strchr("\n\r\t", text[at]) ? character : printable(character);
    }
    return quotes ? '"' + out + '"' : out;
}

void removeUnfinished() noexcept {
    for (const Unfinished &file : unfinished)
        if (file.set)
            ::unlink(file.path);
}

// ---- OutputFile --------------------------------------------------------------------------------------------------------

OutputFile::OutputFile(const std::string &path, const std::string &part)
    : path_(path), temporary_(path), derived_(currentFiles().isDerived(path)) {
    struct stat there;
    const bool exists = !isStandard(path) && ::stat(path.c_str(), &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        cannotWrite(path, std::strerror(EISDIR));
    if (exists && ::access(path.c_str(), W_OK) != 0) // the owner has protected the file
        cannotWrite(path, std::strerror(errno));
    in_place_ = isSpecialPath(path) || (exists && !S_ISREG(there.st_mode));
    if (in_place_) {
        descriptor_ = openInPlace(path);
    } else if (removeLeftovers(path); !part.empty()) {
        openPart(part);
    } else {
        do {
            temporary_ = hiddenName(path) + fs::path(path).extension().string();
            descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        } while (descriptor_ < 0 && errno == EEXIST);
    }
    if (descriptor_ < 0)
        cannotWrite(path, std::strerror(errno));
    if (!in_place_ && !part_)
        slot_ = remember(temporary_);
    if (exists && !in_place_ && ::fchmod(descriptor_, there.st_mode & 0777) != 0) {
        // keeps the usual permissions
    }
    stream_ = ::fdopen(descriptor_, "wb");
    if (!stream_) {
        const int why = errno;
        ::close(descriptor_);
        if (!in_place_)
            ::unlink(temporary_.c_str());
        forget();
        cannotWrite(path, std::strerror(why));
    }
}

OutputFile::~OutputFile() {
    if (stream_)
        std::fclose(stream_);
    if (!in_place_ && temporary_ != path_ && !part_)
        ::unlink(temporary_.c_str());
    if (part_ && temporary_ != path_) {
        note("what was recorded is in %s", temporary_.c_str());
        currentFiles().wrote(temporary_);
    }
    forget();
}

void OutputFile::openPart(const std::string &part) {
    const std::string stem = fs::path(path_).replace_extension("").string() + ".part" + part;
    part_ = true;
    temporary_ = stem;
    for (int number = 2;; temporary_ = sample::numbered(stem, number++)) {
        descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (descriptor_ >= 0 || errno != EEXIST)
            return;
        note("%s is there: a recording that did not end, or that another run is making", temporary_.c_str());
    }
}

void OutputFile::forget() {
    if (slot_ < 0)
        return;
    unfinished[slot_].set = false;
    unfinished[slot_].taken = false;
    slot_ = -1;
}

void OutputFile::write(const void *data, size_t bytes) {
    errno = 0;
    if (bytes && std::fwrite(data, 1, bytes, stream_) != bytes) // an empty vector's data is NULL
        cannotWrite(path_, std::strerror(errno ? errno : EIO));
}

void OutputFile::print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    const int written = std::vfprintf(stream_, format, arguments);
    va_end(arguments);
    if (written < 0)
        cannotWrite(path_, std::strerror(errno ? errno : EIO));
}

long long OutputFile::seek(long long offset, int whence) {
    if (::fseeko(stream_, static_cast<off_t>(offset), whence) != 0)
        cannotWrite(path_, std::strerror(errno));
    return ::ftello(stream_);
}

void OutputFile::flush() {
    errno = 0;
    if (std::fflush(stream_) != 0 || std::ferror(stream_))
        cannotWrite(path_, std::strerror(errno ? errno : EIO));
}

void OutputFile::rename() {
    if (in_place_ || temporary_ == path_)
        return;
    struct stat ours, there;
    // What an encoder wrote under the name must still be the file created for it.
    if (::fstat(descriptor_, &ours) != 0 || ::lstat(temporary_.c_str(), &there) != 0 || ours.st_dev != there.st_dev ||
        ours.st_ino != there.st_ino)
        cannotWrite(path_, "what was written has been removed");
    const bool keep = derived_ && !currentFiles().overwrite;
    const std::string wanted = path_;
    for (int number = 2; keep ? !renameNew(temporary_, path_) : ::rename(temporary_.c_str(), path_.c_str()) != 0;
         ++number) {
        if (!keep || errno != EEXIST)
            cannotWrite(wanted, std::strerror(errno));
        path_ = numbered(wanted, number);
    }
    temporary_ = path_;
    forget();
    syncFolder(folderOf(path_));
}

void OutputFile::publish() {
    flush();
    rename();
}

void OutputFile::commit() {
    const Finishing guard;
    flush();
    if (!in_place_ && ::fsync(descriptor_) != 0)
        cannotWrite(path_, std::strerror(errno));
    rename();
    if (std::fclose(std::exchange(stream_, nullptr)) != 0)
        cannotWrite(path_, std::strerror(errno));
    if (!in_place_)
        currentFiles().wrote(path_);
}

// ---- OutputFolder ------------------------------------------------------------------------------------------------------

OutputFolder::OutputFolder(const std::string &folder) : folder_(folder) {
    if (!folder_.empty() && folder_.back() != '/')
        folder_ += '/';
    removeLeftovers(folder_ + "x");
    int made;
    do {
        path_ = hiddenName(folder_ + "x");
        made = ::mkdir(path_.c_str(), 0777);
    } while (made != 0 && errno == EEXIST);
    if (made != 0)
        cannotWrite(folder.empty() ? "the folder" : folder, std::strerror(errno));
    path_ += '/';
}

OutputFolder::~OutputFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
}

void OutputFolder::commit() {
    const Finishing guard;
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool stored = descriptor >= 0 && ::syncfs(descriptor) == 0;
    const int why = errno;
    if (descriptor >= 0)
        ::close(descriptor);
    if (!stored)
        cannotWrite(folder_, std::strerror(why));
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(path_))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    for (const std::string &name : names) {
        const std::string from = path_ + name, to = folder_ + name;
        if (!currentFiles().overwrite ? !renameNew(from, to) : ::rename(from.c_str(), to.c_str()) != 0)
            cannotWrite(to, std::strerror(errno));
    }
    currentFiles().wrote(folder_ + names.front(), folder_ + names.back(), names.size());
    syncFolder(folder_.empty() ? "." : folder_);
}

} // namespace sample
