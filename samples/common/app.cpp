#include "app.hpp"

#include "output.hpp"

#include "cusight/matrix.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <thread>

#ifdef CUSIGHT_SAMPLES_OPENCV
#include <opencv2/core/utils/logger.hpp>
#endif

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef CUSIGHT_HAVE_OPENMP
#include <omp.h>
#endif

namespace sample {

namespace {

volatile std::sig_atomic_t interrupts = 0;

// An interrupted program that twice has computed less than BUSY_NS in CHECK_US, and stores no file, waits for something.
constexpr suseconds_t CHECK_US = 400000;
constexpr long long BUSY_NS = 8000000;
volatile long long cpu_before = 0;
volatile std::sig_atomic_t idle_checks = 0;

long long cpuTime() {
    timespec t = {};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1000000000LL * t.tv_sec + t.tv_nsec;
}

void onAlarm(int) {
    const long long now = cpuTime();
    idle_checks = now - cpu_before < BUSY_NS && committing() == 0 ? idle_checks + 1 : 0;
    if (idle_checks == 2) {
        removeUnfinished();
        ::_exit(INTERRUPTED);
    }
    cpu_before = now;
}

void onInterrupt(int signal) {
    if (interrupts) {
        removeUnfinished();
        std::signal(signal, SIG_DFL);
        std::raise(signal);
        return;
    }
    interrupts = 1;
    const int error = errno;
    static const char message[] = "\nfinishing; press Ctrl-C again to quit at once\n";
    if (::write(STDERR_FILENO, message, sizeof message - 1) < 0) {
        // stderr is closed
    }
    // Whoever checks interrupted() ends now; whoever waits in a system call never does, so the alarm ends it.
    cpu_before = cpuTime();
    const itimerval alarm = {{0, CHECK_US}, {0, CHECK_US}};
    ::setitimer(ITIMER_REAL, &alarm, nullptr);
    errno = error;
}

// A closed descriptor would be given to the next file that is opened, which would then receive what is printed. Opened the wrong
// way round, so that printing still fails.
void openStandardStreams() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
            const int got = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
            if (got >= 0 && got != descriptor) {
                ::dup2(got, descriptor);
                ::close(got);
            }
        }
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
    flushStdout();
}

void flushStdout() {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
        std::clearerr(stdout);
        throw Stop(OUTPUT, std::string("stdout cannot be written: ") + std::strerror(errno ? errno : EIO));
    }
}

int guarded(int argc, char **argv, int (*run)(int, char **)) {
    const char *slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "sample";
    openStandardStreams();
    std::signal(SIGALRM, onAlarm);
    std::signal(SIGINT, onInterrupt);
    std::signal(SIGTERM, onInterrupt);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN); // a write past the limit fails instead
#ifdef CUSIGHT_SAMPLES_OPENCV
    // Keeps the codecs' messages out of the progress bar; we report errors ourselves.
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);
#endif
    try {
        const int code = run(argc, argv);
        flushStdout();
        return code == OK && interrupted() ? static_cast<int>(INTERRUPTED) : code;
    } catch (const Stop &stop) {
        std::fprintf(stderr, "%s: %s\n", name, stop.what());
        if (stop.code() == OUTPUT)
            ::_exit(OUTPUT); // at exit, libhdf5 would write again to the file that it could not write, and crash
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
