#include "app.hpp"

#include "cusight/opencv.hpp"

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include <opencv2/core/utils/logger.hpp>

#include <unistd.h>
#ifdef CUSIGHT_HAVE_OPENMP
#include <omp.h>
#endif

namespace sample {

namespace {

volatile std::sig_atomic_t interrupts = 0;

void onInterrupt(int signal) {
    interrupts = 1;
    static const char message[] = "\nfinishing; press Ctrl-C again to quit at once\n";
    if (::write(STDERR_FILENO, message, sizeof message - 1) < 0) {
        // stderr is closed
    }
    std::signal(signal, SIG_DFL);
}

std::string formatted(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, arguments);
    std::string out(static_cast<size_t>(length > 0 ? length : 0), '\0');
    std::vsnprintf(&out[0], out.size() + 1, format, again);
    va_end(again);
    return out;
}

} // namespace

bool interrupted() noexcept {
    return interrupts != 0;
}

std::string text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::string out = formatted(format, arguments);
    va_end(arguments);
    return out;
}

void figure(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string value = formatted(format, arguments);
    va_end(arguments);
    std::printf("%s: %s\n", name, value.c_str());
    std::fflush(stdout);
}

int guarded(int argc, char **argv, int (*run)(int, char **)) {
    const char *slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "sample";
    std::signal(SIGINT, onInterrupt);
    std::signal(SIGTERM, onInterrupt);
    std::signal(SIGPIPE, SIG_IGN);
    // Keeps the codecs' messages out of the progress bar; we report errors ourselves.
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);
    try {
        const int code = run(argc, argv);
        return code == OK && interrupted() ? static_cast<int>(INTERRUPTED) : code;
    } catch (const Stop &stop) {
        std::fprintf(stderr, "%s: %s\n", name, stop.what());
        return stop.code();
    } catch (const cusight::Error &error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return error.status() == CUS_ERROR_NO_CUDA ? DEVICE : FAILED;
    } catch (const std::bad_alloc &) {
        std::fprintf(stderr, "%s: out of memory\n", name);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
    }
    return FAILED;
}

void leaveCoresToCodecs() {
#ifdef CUSIGHT_HAVE_OPENMP
    omp_set_num_threads(std::max(1, omp_get_num_procs() / 2));
#endif
}

Device chooseDevice(const std::string &text) {
    Device device;
    int count = 0;
    cusight::check(cusDeviceCount(&count));
    const bool required = text.compare(0, 4, "cuda") == 0;
    if (required && text.size() > 5)
        device.index = std::stoi(text.substr(5));
    if (required && count == 0)
        throw Stop(DEVICE, "--device " + text +
                               ": no usable GPU (no device, no driver, or built without CUDA); "
                               "--device cpu always works");
    if (required && device.index >= count)
        throw Stop(DEVICE, "--device " + text + ": expected cuda:0 to cuda:" + std::to_string(count - 1));
    if (required || (text == "auto" && count > 0)) {
        cusDeviceInfo info;
        cusight::check(cusDeviceSet(device.index));
        cusight::check(cusDeviceQuery(device.index, &info));
        device.space = CUS_DEVICE;
        device.name = "cuda:" + std::to_string(device.index) + ", " + info.name;
    } else {
        device.name = "CPU, " + std::to_string(std::thread::hardware_concurrency()) + " threads";
    }
    return device;
}

} // namespace sample
