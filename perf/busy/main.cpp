// cusight_busy: one piece of work of each module, on one thread and on as many as the library takes by default, while the machine is
// quiet and beside a busy loop on each processor. A thread that waits for another one that does not run shows in the last column.
#include "cusight/cusight.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <csignal>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

// Weak: a library without OpenMP lacks them.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);
extern "C" __attribute__((weak)) int omp_get_max_threads();

namespace {

void check(cusStatus status) {
    if (status != CUS_OK)
        throw std::runtime_error(cusLastError());
}

cusMat matrix(int rows, int cols, int type) {
    cusMat mat = CUS_MAT_INIT;
    check(cusMatCreate(&mat, rows, cols, type, CUS_HOST));
    return mat;
}

// Smooth waves and noise, the same in each run; moved by `shift` columns.
cusMat picture(int rows, int cols, int type, int shift = 0) {
    cusMat mat = matrix(rows, cols, type);
    std::mt19937 random(7);
    const int channels = CUS_CHANNELS(type);
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols * channels; ++x) {
            const int at = x / channels + shift;
            static_cast<uint8_t *>(mat.data)[static_cast<size_t>(y) * mat.step + static_cast<size_t>(x)] =
                static_cast<uint8_t>((at * at / 90 + y * y / 70 + at * y / 50) % 160 + static_cast<int>(random() % 40));
        }
    return mat;
}

// A piece of work: made under a number of threads, then repeated.
struct Work {
    const char *name;
    std::function<std::function<cusStatus()>()> make;
};

// Objects and matrices live as long as the program.
std::vector<Work> works() {
    std::vector<Work> all;
    all.push_back({"match/640x480/64x64/ccoeff_normed", [] {
                       cusMat frame = picture(480, 640, CUS_8UC1), part = CUS_MAT_INIT;
                       check(cusMatRegion(&frame, 201, 103, 64, 64, &part));
                       cusMatcher *matcher = nullptr;
                       check(cusMatcherCreate(&matcher, &part, 1, 480, 640, nullptr, nullptr));
                       return [=] { return cusMatcherRun(matcher, &frame, nullptr, nullptr); };
                   }});
    all.push_back({"pose/320x240/32x32/12 angles", [] {
                       cusMat frame = picture(240, 320, CUS_8UC1), part = CUS_MAT_INIT;
                       check(cusMatRegion(&frame, 101, 53, 32, 32, &part));
                       cusPoseOptions options = cusPoseDefaults();
                       options.angles.last = 330;
                       options.angles.step = 30;
                       cusPoseMatcher *matcher = nullptr;
                       check(cusPoseMatcherCreate(&matcher, &part, 240, 320, &options, nullptr));
                       return [=] { return cusPoseMatcherRun(matcher, &frame, nullptr); };
                   }});
    all.push_back({"integral/1280x720", [] {
                       cusMat frame = picture(720, 1280, CUS_8UC1), sum = matrix(721, 1281, CUS_32SC1);
                       return [=]() mutable { return cusIntegral(&frame, &sum, nullptr, nullptr, nullptr); };
                   }});
    all.push_back({"framediff/heatmap/1280x720", [] {
                       cusMat one = picture(720, 1280, CUS_8UC3), two = picture(720, 1280, CUS_8UC3, 1);
                       cusMat shown = matrix(720, 1280, CUS_8UC3);
                       return [=]() mutable { return cusHeatmap(&one, &two, &shown, nullptr, nullptr); };
                   }});
    all.push_back({"framediff/encode/1280x720", [] {
                       const std::vector<cusMat> frames = {picture(720, 1280, CUS_8UC3), picture(720, 1280, CUS_8UC3, 1)};
                       cusDiffEncoder *encoder = nullptr;
                       check(cusDiffEncoderCreate(&encoder, 720, 1280, CUS_8UC3, CUS_HOST, nullptr));
                       cusSparseDiff diff = {};
                       check(cusSparseDiffCreate(&diff, 720, 1280, CUS_8UC3, 720 * 1280 * 3, 0, CUS_HOST));
                       return [=, i = 0u]() mutable { return cusDiffEncode(encoder, &frames[i++ % 2], &diff, nullptr); };
                   }});
    all.push_back({"hsv/1280x720", [] {
                       cusMat frame = picture(720, 1280, CUS_8UC3), count = matrix(1, 1, CUS_32SC1);
                       const cusHsvRange range = {{0, 0, 0}, {90, 255, 255}};
                       return [=]() mutable { return cusHsvCount(&frame, &range, &count, nullptr, nullptr); };
                   }});
    all.push_back({"remap/1280x720", [] {
                       cusMat frame = picture(720, 1280, CUS_8UC1), map = matrix(720, 1280, CUS_32FC2);
                       cusMat out = matrix(720, 1280, CUS_8UC1);
                       for (int i = 0; i < 720 * 1280; ++i) {
                           float *at = static_cast<float *>(map.data) + 2 * i;
                           at[0] = static_cast<float>(i % 1280) * 0.99F;
                           at[1] = static_cast<float>(i / 1280) * 0.98F;
                       }
                       return [=]() mutable { return cusRemap(&frame, &map, &out, nullptr); };
                   }});
    all.push_back({"stereo/elevation/640x480", [] {
                       cusMat left = picture(480, 640, CUS_8UC1), right = picture(480, 640, CUS_8UC1, 5);
                       cusMat elevation = matrix(480, 640, CUS_16UC1);
                       return [=]() mutable { return cusStereoElevation(&left, &right, &elevation, nullptr, nullptr); };
                   }});
    all.push_back({"motion/4 x 640x480", [] {
                       const std::vector<cusMat> frames(4, picture(480, 640, CUS_8UC1));
                       cusMotionDetector *detector = nullptr;
                       check(cusMotionDetectorCreate(&detector, 4, 480, 640, CUS_8UC1, nullptr));
                       return [=] { return cusMotionDetectorRun(detector, frames.data(), nullptr, nullptr); };
                   }});
    all.push_back({"events/voxel_grid/400k", [] {
                       const size_t n = 400000;
                       auto *x = new std::vector<uint16_t>(n), *y = new std::vector<uint16_t>(n);
                       auto *p = new std::vector<uint8_t>(n);
                       auto *t = new std::vector<int64_t>(n);
                       std::mt19937 random(3);
                       for (size_t i = 0; i < n; ++i) {
                           (*x)[i] = static_cast<uint16_t>(random() % 640);
                           (*y)[i] = static_cast<uint16_t>(random() % 480);
                           (*p)[i] = random() & 1;
                           (*t)[i] = static_cast<int64_t>(i);
                       }
                       const cusEventArrays events = {x->data(), y->data(), p->data(), t->data(), n, CUS_HOST};
                       const cusRepresentation kind = cusRepresentationDefaults(CUS_REPR_VOXEL_GRID);
                       cusEventStacker *stacker = nullptr;
                       check(cusEventStackerCreate(&stacker, 480, 640, CUS_HOST, &kind, 1));
                       const std::vector<cusEventWindow> windows = {{0, n / 2}, {n / 2, n}};
                       cusMat frames = matrix(2 * 480 * kind.channels, 640, CUS_32FC1);
                       return [=]() mutable {
                           return cusEventStack(stacker, &events, windows.data(), windows.size(), &frames, nullptr);
                       };
                   }});
    return all;
}

double milliseconds(const std::function<cusStatus()> &call) {
    const auto start = std::chrono::steady_clock::now();
    check(call());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Processes that do nothing but take time, one on each processor that this one may use.
class Loops {
  public:
    Loops() {
        cpu_set_t allowed;
        if (sched_getaffinity(0, sizeof allowed, &allowed))
            throw std::runtime_error("no list of processors");
        const pid_t parent = getpid();
        for (int i = 0; i < CPU_SETSIZE; ++i)
            if (CPU_ISSET(i, &allowed)) {
                const pid_t child = fork();
                if (child < 0)
                    throw std::runtime_error("no process for a busy loop");
                if (child > 0) {
                    children_.push_back(child);
                    continue;
                }
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(i, &one);
                sched_setaffinity(0, sizeof one, &one);
                while (getppid() == parent)
                    for (volatile int k = 0; k < 1000000; k = k + 1)
                        continue;
                _exit(0);
            }
    }
    ~Loops() {
        for (const pid_t child : children_) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
    }
    Loops(const Loops &) = delete;
    Loops &operator=(const Loops &) = delete;

  private:
    std::vector<pid_t> children_;
};

// Mean times of one thread and of the default number, call by call in turn.
struct Times {
    double one = 0, all = 0;
};

Times measure(const Work &work, int threads, double seconds) {
    std::function<cusStatus()> calls[2];
    for (int k = 0; k < 2; ++k) {
        omp_set_num_threads(k ? threads : 1);
        calls[k] = work.make();
        check(calls[k]());
    }
    double sums[2] = {};
    int rounds = 0;
    const auto start = std::chrono::steady_clock::now();
    for (; rounds < 5 || std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds;
         ++rounds)
        for (int k = 0; k < 2; ++k) {
            omp_set_num_threads(k ? threads : 1);
            for (int repeat = 0; repeat < 4; ++repeat)
                sums[k] += milliseconds(calls[k]) / 4;
        }
    return {sums[0] / rounds, sums[1] / rounds};
}

int run(int argc, char **argv) {
    double limit = 0, seconds = 2;
    std::string only;
    for (int i = 1; i + 1 < argc + 1; i += 2) {
        const std::string name = argv[i];
        if (i + 1 == argc || (name != "--limit" && name != "--seconds" && name != "--work"))
            throw std::runtime_error("usage: cusight_busy [--work TEXT] [--seconds S] [--limit RATIO]\n"
                                     "--limit: exit status 1 if a ratio beside busy loops is larger");
        if (name == "--work")
            only = argv[i + 1];
        else
            (name == "--limit" ? limit : seconds) = std::atof(argv[i + 1]);
    }
    if (!omp_get_max_threads || !omp_set_num_threads) {
        std::puts("the library has one thread: it was built without OpenMP");
        return 77;
    }
    const int threads = omp_get_max_threads();
    std::printf("milliseconds a call, mean                   quiet               beside busy loops\n"
                "                                     1 thread %8d    ratio   1 thread %8d    ratio\n",
                threads, threads);
    bool good = true;
    for (const Work &work : works()) {
        if (std::string(work.name).find(only) == std::string::npos)
            continue;
        const Times quiet = measure(work, threads, seconds / 2);
        Times busy;
        {
            const Loops loops;
            busy = measure(work, threads, seconds);
        }
        const double ratio = busy.all / busy.one;
        std::printf("%-36s %8.2f %8.2f %8.2f   %8.2f %8.2f %8.2f\n", work.name, quiet.one, quiet.all, quiet.all / quiet.one,
                    busy.one, busy.all, ratio);
        std::fflush(stdout);
        good = good && (limit == 0 || ratio <= limit);
    }
    return good ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "cusight_busy: %s\n", error.what());
        return 2;
    }
}
