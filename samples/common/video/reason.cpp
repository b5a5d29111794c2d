#include "common/video/reason.hpp"

#include "common/app.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sample {

namespace {

constexpr int PATIENCE = 3000; // milliseconds

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

struct Address {
    std::string scheme, host, port, path;
};

// false: it names no server that could be asked.
bool parseUrl(const std::string &url, Address &address) {
    static const struct {
        const char *scheme, *port;
    } defaults[] = {{"http", "80"},   {"https", "443"}, {"rtsp", "554"}, {"rtsps", "322"},
                    {"rtmp", "1935"}, {"rtmps", "443"}, {"ftp", "21"},   {"tcp", ""}};
    const size_t colon = url.find("://");
    if (colon == std::string::npos)
        return false;
    address.scheme = url.substr(0, colon);
    const auto *known = std::find_if(std::begin(defaults), std::end(defaults),
                                     [&](const auto &each) { return address.scheme == each.scheme; });
    const size_t slash = std::min(url.find_first_of("/?#", colon + 3), url.size());
    std::string authority = url.substr(colon + 3, slash - colon - 3);
    address.path = url.substr(slash, url.find('#', slash) - slash);
    authority.erase(0, authority.rfind('@') + 1); // npos + 1 is 0
    const size_t bracket = authority.find(']');
    const size_t port = authority.find(':', bracket == std::string::npos ? 0 : bracket);
    address.host = authority.substr(0, port);
    if (bracket != std::string::npos)
        address.host = authority.substr(1, bracket - 1);
    address.port = port != std::string::npos ? authority.substr(port + 1) : known != std::end(defaults) ? known->port : "";
    return known != std::end(defaults) && !address.host.empty() && !address.port.empty();
}

bool waitFor(int fd, short events) {
    pollfd entry = {fd, events, 0};
    return ::poll(&entry, 1, PATIENCE) == 1;
}

// The socket's error; 0 if it is connected.
int connectTo(int fd, const addrinfo &to) {
    if (fd < 0)
        return errno;
    if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (!waitFor(fd, POLLOUT))
        return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

// "404 Not Found"; "" if the server answers nothing of the kind.
std::string httpAnswer(int fd, const Address &address) {
    const std::string path = address.path.compare(0, 1, "/") == 0 ? address.path : "/" + address.path;
    const std::string request = "GET " + path + " HTTP/1.0\r\nHost: " + address.host + "\r\n\r\n";
    char start[200] = "";
    if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()) ||
        !waitFor(fd, POLLIN) || ::recv(fd, start, sizeof start - 1, 0) < 12 || std::strncmp(start, "HTTP/", 5) != 0)
        return "";
    const std::string line(start, std::strcspn(start, "\r\n"));
    const size_t blank = line.find(' ');
    return blank == std::string::npos ? "" : line.substr(blank + 1);
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

std::string urlProblem(const std::string &url) {
    Address address;
    if (!parseUrl(url, address))
        return "it sends no video that can be decoded";
    addrinfo hints = {}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int unknown = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
    if (unknown)
        return address.host + ": " + ::gai_strerror(unknown);
    const std::unique_ptr<addrinfo, void (*)(addrinfo *)> guard(list, ::freeaddrinfo);
    const std::string server = address.host + " port " + address.port;
    int error = 0;
    for (const addrinfo *each = list; each; each = each->ai_next) {
        const Descriptor fd(::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, each->ai_protocol));
        error = connectTo(fd, *each);
        if (error)
            continue;
        const std::string answer = address.scheme == "http" ? httpAnswer(fd, address) : "";
        if (!answer.empty() && answer[0] != '2')
            return "the server answers " + answer;
        return "the server sends no video that can be decoded";
    }
    return server + ": " + std::strerror(error);
}

} // namespace sample
