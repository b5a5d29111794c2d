#include "common/window/window.hpp"

#include "common/opencv/opencv.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <thread>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sample {

namespace {

constexpr auto LATE = std::chrono::milliseconds(250); // a longer delay is not caught up with
constexpr auto LONGEST_GAP = std::chrono::seconds(1); // in a recording without events
constexpr int SMALLEST_WIDTH = 320, TICK = 20;        // pixels; milliseconds

const char *const WINDOW_KEYS[] = {"space   pause, go on", "s       one picture further", "f       full screen",
                                   "h       these keys", "q, Esc  quit"};

// Draws the list of keys over the picture, with letters of a size that can be read where it is shown `width` pixels wide.
cv::Mat withKeys(const cv::Mat &picture, int width) {
    cv::Mat out = picture;
    if (out.channels() == 1)
        cv::cvtColor(out, out, cv::COLOR_GRAY2BGR);
    const int times = std::max(1, (width + out.cols - 1) / out.cols);
    if (times > 1)
        cv::resize(out, out, {}, times, times, cv::INTER_NEAREST);
    else
        out = out.clone();
    const double wanted = std::max(0.5, width / 1600.0) * out.cols / width;
    const double scale = std::min({wanted, out.cols / 500.0, out.rows / 210.0}); // the list fits
    const int line = cvRound(34 * scale), column = cvRound(120 * scale);
    const cv::Rect box = cv::Rect(line / 2, line / 2, cvRound(460 * scale), line * 11 / 2) & cv::Rect({0, 0}, out.size());
    cv::Mat part = out(box);
    part *= 0.25;
    int y = box.y + line;
    for (const std::string keys : WINDOW_KEYS) {
        const auto put = [&](const std::string &words, int x) {
            cv::putText(out, words, {x, y}, cv::FONT_HERSHEY_SIMPLEX, scale, {255, 255, 255},
                        std::max(1, cvRound(1.6 * scale)), cv::LINE_AA);
        };
        put(keys.substr(0, keys.find("  ")), box.x + line / 2);
        put(keys.substr(8), box.x + line / 2 + column);
        y += line;
    }
    return out;
}

// Qt and GTK abort or throw if the display rejects them, so try in a child process.
std::string probeDisplay() {
    const auto set = [](const char *name) {
        const char *value = std::getenv(name);
        return value && *value;
    };
    if (!set("DISPLAY") && !set("WAYLAND_DISPLAY"))
        return "no display (neither DISPLAY nor WAYLAND_DISPLAY is set)";
    (void)openCv(); // before there are two processes
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0)
        return "";
    if (child == 0) {
        const int null = ::open("/dev/null", O_WRONLY);
        ::dup2(null, STDOUT_FILENO);
        ::dup2(null, STDERR_FILENO);
        ::signal(SIGABRT, SIG_DFL);
        ::signal(SIGINT, SIG_IGN);
        try {
            openCv().namedWindow("cusight", cv::WINDOW_AUTOSIZE);
            ::_exit(0);
        } catch (...) {
            ::_exit(1);
        }
    }
    for (int waited = 0; waited < 1000; ++waited) {
        int status = 0;
        const pid_t done = ::waitpid(child, &status, WNOHANG);
        if (done == child)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "the display cannot be used";
        if (done < 0 && errno != EINTR)
            break;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return "the display does not answer";
}

// The screen, which OpenCV does not tell. Without X11's library, or if it does not answer, one of usual size.
cv::Size screenSize() {
    const cv::Size usual(1778, 1000);
    const std::unique_ptr<void, int (*)(void *)> library(::dlopen("libX11.so.6", RTLD_LAZY | RTLD_LOCAL),
                                                         [](void *handle) { return handle ? ::dlclose(handle) : 0; });
    if (!library)
        return usual;
    const auto function = [&](const char *name) { return ::dlsym(library.get(), name); };
    const auto open = reinterpret_cast<void *(*)(const char *)>(function("XOpenDisplay"));
    const auto close = reinterpret_cast<int (*)(void *)>(function("XCloseDisplay"));
    const auto width = reinterpret_cast<int (*)(void *, int)>(function("XDisplayWidth"));
    const auto height = reinterpret_cast<int (*)(void *, int)>(function("XDisplayHeight"));
    void *const display = open && close && width && height ? open(nullptr) : nullptr;
    if (!display)
        return usual;
    const cv::Size size(width(display, 0), height(display, 0));
    close(display);
    return size.empty() ? usual
                        : cv::Size(std::min(size.width, size.height * 5 / 2), size.height); // of several beside each other
}

} // namespace

const std::string &displayProblem() {
    static const std::string problem = probeDisplay();
    return problem;
}

cv::Size windowSize(cv::Size picture, int below) {
    constexpr double PART = 0.9; // the rest is for frames of windows and panels of desktops
    const cv::Size screen = screenSize();
    const double width = PART * screen.width, height = std::max(1.0, PART * screen.height - below);
    const double most = std::min(width / picture.width, height / picture.height);
    const double scale = std::min(most, std::max(1.0, static_cast<double>(SMALLEST_WIDTH) / picture.width));
    return {std::max(1, cvRound(picture.width * scale)), std::max(1, cvRound(picture.height * scale)) + below};
}

void openWindow(const std::string &title, cv::Size picture) {
    openCv().namedWindow(title, cv::WINDOW_NORMAL | cv::WINDOW_KEEPRATIO | cv::WINDOW_GUI_NORMAL);
    openCv().resizeWindow(title, windowSize(picture));
}

Window::Window(const std::string &title, cv::Size size, const Playback &playback) : title_(title), playback_(playback) {
    openWindow(title_, size);
}

void Window::draw() const {
    try {
        const int width = help_ ? openCv().getWindowImageRect(title_).width : 0;
        openCv().imshow(title_,
                        help_ ? withKeys(picture_, width > 0 ? width : std::max(SMALLEST_WIDTH, picture_.cols)) : picture_);
    } catch (const cv::Exception &error) {
        throw Stop(OUTPUT, "the window cannot be drawn: " + error.err);
    }
}

void Window::setPaused(bool paused) {
    paused_ = paused;
    openCv().setWindowTitle(title_, paused ? title_ + " (paused)" : title_);
}

bool Window::obey(int key) {
    switch (key) {
    case 27:
    case 'q':
        return false;
    case ' ':
        setPaused(!paused_);
        break;
    case 's':
        if (!paused_)
            setPaused(true);
        step_ = true;
        break;
    case 'h':
        help_ = !help_;
        draw();
        break;
    case 'f':
        full_screen_ = !full_screen_;
        openCv().setWindowProperty(title_, cv::WND_PROP_FULLSCREEN,
                                   full_screen_ ? cv::WINDOW_FULLSCREEN : cv::WINDOW_NORMAL);
        break;
    default:
        any_key_ = true;
    }
    return true;
}

// With GTK, OpenCV 4.5.4 does not know whether a window is visible (-1), but whether it exists.
bool isWindowOpen(const std::string &title) {
    const double visible = openCv().getWindowProperty(title, cv::WND_PROP_VISIBLE);
    return visible > 0 || (visible < 0 && openCv().getWindowProperty(title, cv::WND_PROP_AUTOSIZE) >= 0);
}

bool Window::poll(int milliseconds) {
    try {
        const int key = openCv().waitKey(std::max(1, milliseconds));
        if (key >= 0 && !obey(key & 255))
            closed_ = true;
        if (!isWindowOpen(title_))
            closed_ = true;
    } catch (const cv::Exception &error) {
        throw Stop(OUTPUT, "the window cannot be drawn: " + error.err);
    }
    return !closed_;
}

bool Window::waitFor(Clock::time_point due) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now()).count();
        const auto before = Clock::now();
        if (!poll(paused_ ? TICK : static_cast<int>(std::min<long long>(TICK, left))))
            return false;
        if (step_ || interrupted())
            break;
        if (paused_) { // a pause does not count
            due += Clock::now() - before;
            origin_ += Clock::now() - before;
        } else if (Clock::now() >= due) {
            break;
        }
    }
    if (step_) // the next pictures are due from here on
        origin_ += Clock::now() - due;
    step_ = false;
    return true;
}

bool Window::write(const cv::Mat &picture) {
    return writeAt(picture, static_cast<double>(shown_) / playback_.fps);
}

bool Window::writeAt(const cv::Mat &picture, double seconds) {
    if (closed_)
        return false;
    if (playback_.live) {
        if (!paused_ || step_)
            show(picture);
        step_ = false;
        return poll(playback_.controls ? TICK : 1);
    }
    const auto now = Clock::now();
    const double speed = playback_.speed;
    const auto at =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(speed > 0 ? seconds / speed : 0));
    if (shown_ == 0 || speed <= 0)
        origin_ = now - at;
    const auto due = origin_ + at;
    if (due > now + LONGEST_GAP)
        origin_ = now + LONGEST_GAP - at;
    else if (due < now - LATE)
        origin_ = now - at;
    if (shown_ > 0 && !waitFor(origin_ + at))
        return false;
    show(picture);
    return poll(1);
}

void Window::show(const cv::Mat &picture) {
    picture.copyTo(picture_); // kept for the list of keys, and while it is shown
    draw();
    ++shown_;
}

void Window::hold() {
    try {
        any_key_ = paused_ = step_ = false;
        if (shown_ > 1 && !playback_.live && !closed_)
            waitFor(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                       playback_.speed > 0 ? std::min(1.0, 1 / playback_.fps / playback_.speed) : 0)));
        while (shown_ == 1 && !playback_.live && !closed_ && !any_key_ && !paused_ && !step_ && !interrupted())
            poll(TICK);
        openCv().destroyAllWindows();
    } catch (const cv::Exception &) { // already closed
    }
}

} // namespace sample
