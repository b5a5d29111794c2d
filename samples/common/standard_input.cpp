#include "common/standard_input.hpp"

#include "common/app.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sample {

namespace {

constexpr size_t PIECE = 64 * 1024, MAX_BYTES = size_t{1} << 30;

// Reads up to `bytes`; returns 0 at the end. Waits, but not past an interrupt.
size_t readStandardInput(char *buffer, size_t bytes) {
    for (;;) {
        pollfd ready = {STDIN_FILENO, POLLIN, 0};
        if (::poll(&ready, 1, 100) == 0) {
            if (interrupted())
                throw Stop(INTERRUPTED, "stdin has not ended yet");
            continue;
        }
        const ssize_t got = ::read(STDIN_FILENO, buffer, bytes);
        if (got >= 0)
            return static_cast<size_t>(got);
        if (errno != EINTR && errno != EAGAIN)
            throw Stop(INPUT, std::string("stdin: ") + std::strerror(errno));
    }
}

bool writeAll(int descriptor, const char *bytes, size_t count) {
    while (count) {
        const ssize_t done = ::write(descriptor, bytes, count);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            bytes += done;
            count -= static_cast<size_t>(done);
        }
    }
    return true;
}

} // namespace

StandardInput::StandardInput() {
    start_.resize(PIECE);
    size_t have = 0;
    while (have < 256) {
        const size_t got = readStandardInput(&start_[have], PIECE - have);
        if (!got)
            break;
        have += got;
    }
    start_.resize(have);
    if (!have)
        throw Stop(INPUT, "stdin is empty");
}

bool StandardInput::extend() {
    const size_t have = start_.size();
    start_.resize(have + PIECE);
    const size_t got = readStandardInput(&start_[have], PIECE);
    start_.resize(have + got);
    return got > 0;
}

bool StandardInput::isFile() {
    struct stat about;
    return ::fstat(STDIN_FILENO, &about) == 0 && S_ISREG(about.st_mode);
}

bool StandardInput::isImage() const {
    static const std::string magics[] = {"\x89PNG", "\xff\xd8\xff", "BM", {'I', 'I', '*', '\0'}, {'M', 'M', '\0', '*'}};
    for (const std::string &magic : magics)
        if (start_.compare(0, magic.size(), magic) == 0)
            return true;
    if (start_.size() >= 12 && start_.compare(0, 4, "RIFF") == 0)
        return start_.compare(8, 4, "WEBP") == 0;
    return start_.size() > 2 && start_[0] == 'P' && start_[1] >= '1' && start_[1] <= '7' &&
           std::strchr("\n\r\t #", start_[2]);
}

std::vector<unsigned char> StandardInput::readAll() {
    std::vector<unsigned char> all(start_.begin(), start_.end());
    std::vector<char> piece(PIECE);
    while (const size_t got = readStandardInput(piece.data(), piece.size())) {
        if (all.size() + got > MAX_BYTES)
            throw Stop(INPUT, "stdin has more than a gigabyte");
        all.insert(all.end(), piece.data(), piece.data() + got);
    }
    return all;
}

size_t StandardInput::read(char *buffer, size_t bytes) {
    if (taken_ == start_.size())
        return readStandardInput(buffer, bytes);
    const size_t count = start_.copy(buffer, bytes, taken_);
    taken_ += count;
    return count;
}

std::string StandardInput::spool() const {
    if (isFile())
        return "/dev/stdin";
    const char *folder = std::getenv("TMPDIR");
    std::string name = std::string(folder && *folder ? folder : "/tmp") + "/cusight-XXXXXX";
    const int file = ::mkostemp(&name[0], O_CLOEXEC);
    if (file < 0)
        throw Stop(FAILED, name + ": " + std::strerror(errno));
    ::unlink(name.c_str());
    std::vector<char> piece(PIECE);
    bool stored = writeAll(file, start_.data(), start_.size());
    while (const size_t got = stored ? readStandardInput(piece.data(), piece.size()) : 0)
        stored = writeAll(file, piece.data(), got);
    if (!stored)
        throw Stop(FAILED, std::string("stdin cannot be kept in a temporary file (TMPDIR): ") + std::strerror(errno));
    return "/proc/self/fd/" + std::to_string(file);
}

} // namespace sample
