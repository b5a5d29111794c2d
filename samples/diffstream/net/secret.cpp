#include "diffstream/net/secret.hpp"

#include "common/app.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace diffstream {

using sample::Stop;

Secret::Secret(const std::string &option, const std::string &file, size_t max_bytes) : bytes_(max_bytes + 1) {
    const std::string name = option + " " + file;
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); // a pipe must not wait
    if (descriptor < 0)
        throw Stop(sample::USAGE, name + ": " + std::strerror(errno));
    const std::string problem = read(descriptor, max_bytes);
    ::close(descriptor);
    if (problem.empty())
        return;
    ::explicit_bzero(bytes_.data(), bytes_.size());
    throw Stop(sample::USAGE, name + problem);
}

Secret::~Secret() {
    ::explicit_bzero(bytes_.data(), bytes_.size());
}

// Returns the problem, or "".
std::string Secret::read(int descriptor, size_t max_bytes) {
    struct stat status = {};
    if (::fstat(descriptor, &status) != 0)
        return std::string(": ") + std::strerror(errno);
    if (!S_ISREG(status.st_mode))
        return ": expected a regular file";
    if (status.st_mode & 077)
        return sample::text(" is open to others (mode %04o), expected mode 0600: chmod 600 FILE",
                            static_cast<unsigned>(status.st_mode & 07777));
    while (size_ <= max_bytes) {
        const ssize_t n = ::read(descriptor, bytes_.data() + size_, max_bytes + 1 - size_);
        if (n == 0)
            return "";
        if (n > 0)
            size_ += static_cast<size_t>(n);
        else if (errno != EINTR)
            return std::string(": ") + std::strerror(errno);
    }
    return sample::text(" is longer than %zu bytes", max_bytes);
}

} // namespace diffstream
