// Fault injection. The tests link a copy of the library in which every call that can fail (memory, files, libzstd,
// CUDA, cuFFT) goes to a function of the same name with "faulty_" in front; interposed.txt lists them. While a fault is armed,
// its n-th call fails without being made. The copy's resources are counted, so a leak is seen without a sanitizer.
#pragma once

#include "support.hpp"

#include <functional>

namespace faults {

enum Class {
    NONE,
    MEMORY,        // host memory
    OPEN,          // opening or creating a file
    READ,          // EIO
    SHORT_READ,    // half of what was asked for: no error
    INTERRUPT,     // EINTR: no error
    WRITE,         // writing, closing, renaming: ENOSPC
    ZSTD,          // any call of libzstd: as if out of memory
    BLOSC,         // any call of libblosc
    DEVICE_MEMORY, // cudaMalloc and its siblings, cuFFT's plans
    PINNED_MEMORY, // page-locked host memory
    CUDA,          // any call of the CUDA runtime: an unknown error
    NO_DEVICE,     // any call of the CUDA runtime: no device
    CUFFT,         // any call of cuFFT: internal error
    LOADER,        // opening libcufft
    CLASSES
};
const char *className(Class c);

// Arms the n-th call of a class, and with `onward` all that follow it.
void arm(Class c, int n, bool onward);
// Whether the armed fault was injected.
bool disarm();
// The name of the function that failed last.
const char *lastVictim();

// Between count(true) and count(false), the calls of each class are counted.
void count(bool on);
int counted(Class c);
void clearCounts();

// For the interposed functions: is this call to fail?
bool strikes(Class c, const char *function);

// Resources that the library holds; `take` returns its argument.
enum Resource { BLOCK, FILE_DESCRIPTOR, DEVICE_BLOCK, PINNED_BLOCK, STREAM, STREAM_EVENT, FFT_PLAN, CONTEXT, RESOURCES };
void take(Resource r, uintptr_t handle);
// Reports a resource that is not held (a double free, for example).
void give(Resource r, uintptr_t handle);
bool holds(Resource r, uintptr_t handle);
// Everything that is held: "2 blocks, 1 stream"; "" if nothing is.
std::string held();
// Whether this is a CUDA build, and whether CUDA's calls go to a simulation in host memory, in which kernels do nothing: all
// paths of errors and clean-up run on a machine without a GPU.
bool builtWithCuda();
void simulateCuda(bool on);
bool simulatingCuda();
// Device memory that is not the library's own, 256-byte aligned, and how often the library has asked CUDA for some.
void *deviceBlock(size_t bytes);
void freeDeviceBlock(void *data);
int cudaAllocations();
// Whether the simulation was given work in the NULL stream that nobody has waited for.
bool deviceHasWork();
// No error is left for the next caller of cudaGetLastError.
bool cudaErrorPending();

// ---- The walk

class Trial {
  public:
    Trial(Class c, int n, bool onward) : class_(c), n_(n), onward_(onward) {}
    // The call under test, with the fault armed. If it fails, its status and message must suit the fault, and a second call
    // without a fault must succeed; `instead` replaces the second call.
    void call(const std::function<cusStatus()> &f, const std::function<cusStatus()> &instead = nullptr);
    // Only the first half: for calls whose object is gone or has failed afterwards.
    cusStatus attempt(const std::function<cusStatus()> &f);
    // The call's results, which must be those of a run without a fault.
    void result(const std::vector<uint8_t> &bytes) { results.insert(results.end(), bytes.begin(), bytes.end()); }
    template<class T>
    void value(const T &v) {
        const auto *p = reinterpret_cast<const uint8_t *>(&v);
        results.insert(results.end(), p, p + sizeof v);
    }
    bool faulty() const { return class_ != NONE; }
    Class what() const { return class_; }

    bool injected = false, failed = false;
    std::vector<uint8_t> results;

  private:
    Class class_;
    int n_;
    bool onward_;
};

using Body = std::function<void(Trial &)>;

// Runs the body without a fault, then with the n-th call of each class failing, alone and with all that follow, for n = 1, 2,
// ... until nothing fails any more. The environment's CUSIGHT_FAULTS_SECONDS cuts it short: after that time, n = 1, 3, 7, 15 ...; after eight
// times as long it ends.
void walk(const std::string &name, const Body &body);

template<auto DESTROY, class Create>
void callCreate(Trial &t, Create &&create) {
    support::Owned<DESTROY> object;
    t.call([&] { return create(&object); });
    // The first use may be in another stream.
    EXPECT_FALSE(deviceHasWork()) << "an object was created, but its work in the NULL stream is not done";
}
template<auto DESTROY, class Create>
void walkCreate(const std::string &function, Create &&create) {
    walk(function, [&](Trial &t) { callCreate<DESTROY>(t, create); });
}

// ---- Matrices of the tests

struct Mat {
    cusMat mat = CUS_MAT_INIT;
    Mat() = default;
    Mat(int rows, int cols, int type, cusSpace space, const std::vector<uint8_t> &bytes);
    Mat(int rows, int cols, int type, cusSpace space, unsigned seed);
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;
    Mat(Mat &&other) noexcept : mat(other.mat) { other.mat = CUS_MAT_INIT; }
    ~Mat() { cusMatRelease(&mat); }
    cusMat *operator&() { return &mat; }
    std::vector<uint8_t> bytes() const { return bytesOf(mat); }
    // The elements; empty for an empty matrix.
    static std::vector<uint8_t> bytesOf(const cusMat &mat);
};
std::vector<uint8_t> noise(size_t n, unsigned seed);

// Where a test runs: on the CPU, on a GPU, or on the simulation.
enum Place { HOST, GPU, SIMULATED };
inline std::string placeName(const testing::TestParamInfo<Place> &p) {
    return p.param == HOST ? "host" : p.param == GPU ? "cuda" : "simulated";
}
class FaultTest : public testing::TestWithParam<Place> {
  protected:
    void SetUp() override;
    void TearDown() override { simulateCuda(false); }
    cusSpace space() const { return GetParam() == HOST ? CUS_HOST : CUS_DEVICE; }
    virtual void check(const std::string &function, const Body &body) {
        walk(function + (GetParam() == HOST ? "" : GetParam() == GPU ? " (cuda)" : " (simulated)"), body);
    }
    // A call that creates an object.
    template<auto DESTROY, class Create>
    void checkCreate(const std::string &function, Create &&create) {
        check(function, [&](Trial &t) { callCreate<DESTROY>(t, create); });
    }
    // A call that fills a matrix.
    void checkOutput(const std::string &function, const std::function<cusStatus(cusMat *)> &call) {
        check(function, [&](Trial &t) {
            Mat out;
            t.call([&] { return call(&out); });
            t.result(out.bytes());
        });
    }
};
#define FAULTS_IN_ALL_PLACES(Suite) \
    INSTANTIATE_TEST_SUITE_P(, Suite, testing::Values(faults::HOST, faults::GPU, faults::SIMULATED), faults::placeName)

} // namespace faults
