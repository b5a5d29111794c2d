#include "common/video/pictures.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace sample {

namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0)
            ::close(fd_);
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    operator int() const { return fd_; }

  private:
    const int fd_;
};

std::string presentCameras() {
    std::vector<std::string> numbers;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/dev", error)) {
        const std::string name = entry.path().filename().string();
        if (name.compare(0, 5, "video") == 0 && name.size() > 5 &&
            name.find_first_not_of("0123456789", 5) == std::string::npos)
            numbers.push_back(name.substr(5));
    }
    std::sort(numbers.begin(), numbers.end(), [](const std::string &a, const std::string &b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    std::string all;
    for (const std::string &number : numbers)
        all += (all.empty() ? "" : ", ") + number;
    return all;
}

} // namespace

std::string cameraProblem(const std::string &number) {
    const std::string path = "/dev/video" + number;
    const Descriptor camera(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (camera >= 0)
        return path + " gives no pictures that OpenCV can read; some cameras have a second number for data";
    if (errno == ENOENT || errno == ENODEV || errno == ENXIO) {
        const std::string present = presentCameras();
        return "there is no " + path + (present.empty() ? ", nor any other camera" : "; there are: " + present);
    }
    if (errno == EACCES || errno == EPERM)
        return path + ": " + std::strerror(errno) + "; is the user in the group video?";
    return path + ": " + std::strerror(errno) + (errno == EBUSY ? "; another program uses it" : "");
}

} // namespace sample
