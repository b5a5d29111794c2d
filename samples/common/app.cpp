#include "common/app.hpp"

#include "common/output.hpp"
#include "common/terminal/files.hpp"

#include "cusight/matrix.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <string>

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

std::atomic<int> finishing{0};
std::atomic<int> interrupts{0}; // read by other threads than the one that the signal interrupts

// An interrupted program waits for something if it has twice computed less than BUSY_NS in CHECK_US and is not Finishing.
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
    idle_checks = now - cpu_before < BUSY_NS && finishing == 0 ? idle_checks + 1 : 0;
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
    // A loop that checks interrupted() ends now. A thread that waits in a system call does not, so the alarm ends it.
    cpu_before = cpuTime();
    const itimerval alarm = {{0, CHECK_US}, {0, CHECK_US}};
    ::setitimer(ITIMER_REAL, &alarm, nullptr);
    errno = error;
}

// The next file opened would get a closed descriptor and receive what is printed. These are opened the wrong way round, so
// that printing still fails.
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

} // namespace

std::string formatted(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, arguments);
    std::string out(static_cast<size_t>(length > 0 ? length : 0), '\0');
    std::vsnprintf(&out[0], out.size() + 1, format, again);
    va_end(again);
    return out;
}

// As in the library's messages (src/status.c).
size_t characterBytes(const char *text) {
    const auto *const s = reinterpret_cast<const unsigned char *>(text);
    if (*s < 0x80)
        return *s >= 0x20 && *s != 0x7f;
    const size_t bytes = *s < 0xc2 || *s > 0xf4 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < bytes; ++i)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return *s == 0xc2 && s[1] < 0xa0 ? 0 : bytes; // U+0080 to U+009F are control characters
}

std::string printable(const std::string &words) {
    std::string out;
    for (size_t at = 0; at < words.size();) {
        const size_t bytes = characterBytes(&words[at]);
        out += bytes ? words.substr(at, bytes) : text("\\x%02x", static_cast<unsigned char>(words[at]));
        at += std::max<size_t>(bytes, 1);
    }
    return out;
}

std::string lastMessage() {
    const std::string message = cusLastError();
    const size_t colon = message.find(": ");
    return message.compare(0, 3, "cus") == 0 && colon != std::string::npos && message.find(' ') > colon
               ? message.substr(colon + 2)
               : message;
}

std::string shortNumber(double value) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
    for (const auto &u : units)
        if (std::fabs(value) >= (u.unit == 1e3 ? 9999.5 : 0.9995 * u.unit))
            return text("%.3g%s", value / u.unit, u.name);
    return std::fabs(value) >= 999.5 ? text("%.0f", value) : text("%.3g", value);
}

Finishing::Finishing() noexcept {
    ++finishing;
}
Finishing::~Finishing() {
    --finishing;
}

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

int guarded(int argc, char **argv, int (*run)(int, char **)) {
    const char *slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "sample";
    openStandardStreams();
    std::signal(SIGALRM, onAlarm);
    std::signal(SIGINT, onInterrupt);
    std::signal(SIGTERM, onInterrupt);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN); // so that a write past the limit fails
#ifdef CUSIGHT_SAMPLES_OPENCV
    // Keeps the codecs' messages out of the progress bar; we report errors ourselves.
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    ::setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);
#endif
    int code = FAILED;
    std::string problem;
    try {
        code = run(argc, argv);
        flushStdout();
        code = code == OK && interrupted() ? static_cast<int>(INTERRUPTED) : code;
    } catch (const Stop &stop) {
        code = stop.code();
        problem = stop.what();
    } catch (const cusight::Error &error) {
        code = error.status() == CUS_ERROR_NO_CUDA ? DEVICE : FAILED;
        problem = error.what();
    } catch (const std::bad_alloc &) {
        problem = "out of memory";
    } catch (const std::exception &error) {
        problem = error.what();
    }
    if (!problem.empty())
        std::fprintf(stderr, "%s\n", printable(std::string(name) + ": " + problem).c_str());
    try {
        currentFiles().report();
        finishReport(code, problem);
    } catch (const Stop &stop) {
        if (code == OK || code == INTERRUPTED)
            std::fprintf(stderr, "%s\n", printable(std::string(name) + ": " + stop.what()).c_str());
        code = code == OK || code == INTERRUPTED ? stop.code() : code;
    }
    if (code == OUTPUT)
        ::_exit(OUTPUT); // at exit, libhdf5 would write again to the file that it could not write, and crash
    return code;
}

void leaveCoresToCodecs(size_t workers) {
#ifdef CUSIGHT_HAVE_OPENMP
    omp_set_num_threads(std::max(1, omp_get_num_procs() / 2 / static_cast<int>(workers)));
#else
    (void)workers;
#endif
}

} // namespace sample
