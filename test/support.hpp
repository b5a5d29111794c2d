// Shared by all tests: seeds, skips, and matrices in either space whose padding is poisoned and checked.
#pragma once

#include "cusight/core.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>
#ifdef _WIN32
#include "windows.hpp"
#endif

// A call that must succeed; prints the library's message when it does not.
#define CUS_ASSERT_OK(call) ASSERT_TRUE(support::gives((call), CUS_OK))
#define CUS_EXPECT_OK(call) EXPECT_TRUE(support::gives((call), CUS_OK))

// A call that must be rejected with this status and a message that contains this text.
#define CUS_EXPECT_ERROR(call, status, text) EXPECT_TRUE(support::gives((call), (status), (text)))
#define CUS_REJECTS(call, status, text)      CUS_EXPECT_ERROR(call, CUS_ERROR_##status, text)

// First line of every test body with a space parameter: skipped by name without a GPU.
#define CUS_NEEDS(space)                                  \
    do {                                                  \
        if ((space) == CUS_DEVICE && !support::haveGpu()) \
            GTEST_SKIP() << "no GPU on this machine";     \
    } while (0)

// What a statement of the programs' code throws, a sample::Stop: its exit code and a part of its message.
#define EXPECT_STOP(statement, expected, part)                                                           \
    try {                                                                                                \
        statement;                                                                                       \
        ADD_FAILURE() << "was not stopped";                                                              \
    } catch (const sample::Stop &stop) {                                                                 \
        EXPECT_EQ(stop.code(), (expected)) << stop.what();                                               \
        EXPECT_NE(std::string(stop.what()).find(part), std::string::npos) << "message: " << stop.what(); \
    }

namespace support {

// Whether a call has this status, and a message with this text. main.cpp; one function for all compiles faster.
testing::AssertionResult gives(cusStatus got, cusStatus expected, std::string_view text = {});

// By how much tests with many rounds make fewer: under sanitizers, which are slow, and on a GPU, where each round waits for launches,
// unless CUSIGHT_TEST_ROUNDS is "all" (scripts/gpu-check --all). Odd, because some step by it.
int fewer();

// A file or folder of the sources, from its path in them.
std::string sourceFile(const std::string &path);

inline bool haveGpu() {
    static const bool have = [] {
        int count = 0;
        return cusDeviceCount(&count) == CUS_OK && count > 0;
    }();
    return have;
}

// The same in each run, so that no test passes or fails by chance, unless CUSIGHT_TEST_SEED is a number or "random".
uint64_t seed();

// Independent numbers for each test, repeatable from the printed seed.
inline std::mt19937_64 generator(const std::string &name) {
    std::seed_seq sequence{static_cast<uint32_t>(seed()), static_cast<uint32_t>(seed() >> 32),
                           static_cast<uint32_t>(std::hash<std::string>{}(name))};
    return std::mt19937_64(sequence);
}
inline std::mt19937_64 generator() {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    return generator(info ? std::string(info->test_suite_name()) + info->name() : "");
}

// Folder of real recordings and stereo pairs, which are not part of the project; "" if not set.
inline std::string dataFolder() {
    const char *text = std::getenv("CUSIGHT_TEST_DATA");
    return text ? text : "";
}

// A file of that folder, or of the one in which the folder of recordings lies; "" if it does not exist.
inline std::string dataFile(const std::string &name) {
    const char *recordings = std::getenv("CUSIGHT_TEST_DATA_EVENTS");
    for (const std::string &folder : {dataFolder(), recordings ? std::string(recordings) + "/.." : ""}) {
        const std::string path = folder + "/" + name;
        if (std::FILE *file = folder.empty() ? nullptr : std::fopen(path.c_str(), "rb")) {
            std::fclose(file);
            return path;
        }
    }
    return "";
}

size_t residentBytes(); // of this process

// A matrix that is released at the end, wherever its memory is.
struct Mat : cusMat {
    Mat() : cusMat(CUS_MAT_INIT) {}
    ~Mat() { cusMatRelease(this); }
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;
};

// An object of the library that DESTROY ends: Owned<cusMatcherDestroy> matcher; cusMatcherCreate(&matcher, ...).
template<auto DESTROY>
class Owned {
    template<class T>
    static T argumentOf(void (*)(T));
    using Pointer = decltype(argumentOf(DESTROY));

  public:
    Owned() = default;
    ~Owned() { DESTROY(p_); }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    Pointer *operator&() { return &p_; }
    Pointer operator->() const { return p_; }
    operator Pointer() const { return p_; }

  private:
    Pointer p_ = nullptr;
};

// Where a matrix of a test lies in its memory: rows padded by `padding` bytes, the first element `offset` bytes past a
// 256-byte boundary. Both must be multiples of the size of one channel.
struct Layout {
    size_t padding = 0;
    size_t offset = 0;
};

// The layouts that every test covers: tight, padded to vectors, odd padding, and a region at an odd offset.
inline std::vector<Layout> layouts(int type) {
    const size_t unit = cusTypeSize(type) / static_cast<size_t>(CUS_CHANNELS(type));
    return {{0, 0}, {64, 0}, {5 * unit, 0}, {13 * unit, 3 * unit}};
}

// A matrix in either space inside a larger, poisoned block of memory. Elements are passed as vectors without padding.
// intact() is false when anything outside the elements was written.
class TestMat {
  public:
    TestMat(int rows, int cols, int type, cusSpace space, Layout layout = {})
        : rowBytes_(static_cast<size_t>(cols) * cusTypeSize(type)), step_(rowBytes_ + layout.padding),
          offset_(MARGIN + layout.offset), block_(2 * MARGIN + layout.offset + step_ * static_cast<size_t>(rows), POISON) {
        EXPECT_EQ(cusMatCreate(&memory_, 1, static_cast<int>(block_.size()), CUS_8UC1, space), CUS_OK) << cusLastError();
        write();
        EXPECT_EQ(cusMatWrap(&mat, rows, cols, type, space, static_cast<char *>(memory_.data) + offset_, step_), CUS_OK)
            << cusLastError();
    }
    TestMat(int rows, int cols, int type, cusSpace space, Layout layout, const void *tight)
        : TestMat(rows, cols, type, space, layout) {
        set(tight);
    }
    ~TestMat() { cusMatRelease(&memory_); }
    TestMat(const TestMat &) = delete;
    TestMat &operator=(const TestMat &) = delete;

    void set(const void *tight) {
        read();
        for (size_t y = 0; y < static_cast<size_t>(mat.rows); ++y)
            std::memcpy(&block_[offset_ + y * step_], static_cast<const char *>(tight) + y * rowBytes_, rowBytes_);
        write();
    }

    // Waits for all device work first.
    template<class T = uint8_t>
    std::vector<T> get() {
        read();
        std::vector<T> tight(rowBytes_ * static_cast<size_t>(mat.rows) / sizeof(T));
        for (size_t y = 0; y < static_cast<size_t>(mat.rows); ++y)
            std::memcpy(reinterpret_cast<char *>(tight.data()) + y * rowBytes_, &block_[offset_ + y * step_], rowBytes_);
        return tight;
    }

    testing::AssertionResult intact() {
        read();
        const size_t rows = static_cast<size_t>(mat.rows);
        for (size_t y = 0; y <= rows; ++y) { // the gap before row y; finally the one after the last row
            const size_t from = y > 0 ? offset_ + (y - 1) * step_ + rowBytes_ : 0,
                         to = y < rows ? offset_ + y * step_ : block_.size();
            for (size_t i = from; i < to; ++i)
                if (block_[i] != POISON)
                    return testing::AssertionFailure()
                           << "byte " << static_cast<long long>(i) - static_cast<long long>(offset_)
                           << " from the first element of " << mat.rows << " x " << mat.cols << ", step " << step_
                           << ", is padding and was overwritten";
        }
        return testing::AssertionSuccess();
    }

    cusMat mat = CUS_MAT_INIT;

  private:
    static constexpr size_t MARGIN = 256;
    static constexpr uint8_t POISON = 0xA5;

    void read() {
        if (memory_.space == CUS_DEVICE) {
            cusMat host = hostView();
            EXPECT_EQ(cusMatDownload(&memory_, &host, nullptr), CUS_OK) << cusLastError();
            EXPECT_EQ(cusStreamSynchronize(nullptr), CUS_OK) << cusLastError();
        } else {
            std::memcpy(block_.data(), memory_.data, block_.size());
        }
    }
    void write() {
        if (memory_.space == CUS_DEVICE) {
            cusMat host = hostView();
            EXPECT_EQ(cusMatUpload(&host, &memory_, nullptr), CUS_OK) << cusLastError();
            EXPECT_EQ(cusStreamSynchronize(nullptr), CUS_OK) << cusLastError();
        } else {
            std::memcpy(memory_.data, block_.data(), block_.size());
        }
    }
    cusMat hostView() {
        cusMat host = CUS_MAT_INIT;
        EXPECT_EQ(cusMatWrap(&host, 1, static_cast<int>(block_.size()), CUS_8UC1, CUS_HOST, block_.data(), 0), CUS_OK);
        return host;
    }

    size_t rowBytes_, step_, offset_;
    std::vector<uint8_t> block_;
    cusMat memory_ = CUS_MAT_INIT;
};

// The elements of any matrix, tight; waits for the device.
template<class T = uint8_t>
std::vector<T> elements(const cusMat &mat) {
    const size_t row = static_cast<size_t>(mat.cols) * cusTypeSize(mat.type);
    std::vector<T> tight(row * static_cast<size_t>(mat.rows) / sizeof(T));
    if (mat.space == CUS_DEVICE) {
        cusMat host = CUS_MAT_INIT;
        EXPECT_EQ(cusMatWrap(&host, mat.rows, mat.cols, mat.type, CUS_HOST, tight.data(), 0), CUS_OK) << cusLastError();
        EXPECT_EQ(cusMatDownload(&mat, &host, nullptr), CUS_OK) << cusLastError();
        EXPECT_EQ(cusStreamSynchronize(nullptr), CUS_OK) << cusLastError();
    } else {
        for (size_t y = 0; y < static_cast<size_t>(mat.rows); ++y)
            std::memcpy(reinterpret_cast<char *>(tight.data()) + y * row,
                        static_cast<const char *>(mat.data) + y * mat.step, row);
    }
    return tight;
}

// Random bytes; about half the time biased to the extremes, where saturation and wrap-around occur.
inline std::vector<uint8_t> randomBytes(size_t n, std::mt19937_64 &random) {
    std::vector<uint8_t> bytes(n);
    const bool extreme = random() & 1;
    for (auto &b : bytes) {
        const uint64_t r = random();
        b = extreme && (r & 0x300) ? ((r & 0x400) ? 255 : 0) : static_cast<uint8_t>(r);
    }
    return bytes;
}

// Heights and widths worth trying: one, odd, and around every power of two a kernel might use as a tile.
inline std::vector<std::pair<int, int>> sizes() {
    return {{1, 1},   {1, 7},    {7, 1},     {1, 1000},  {1000, 1},  {3, 5},     {16, 16},   {15, 17},  {31, 33},
            {64, 64}, {63, 129}, {127, 511}, {128, 512}, {129, 513}, {37, 1025}, {241, 643}, {480, 640}};
}

// One test body for both backends: `class Heatmap : public support::SpaceTest {}; CUS_BOTH_SPACES(Heatmap);` and TEST_P's
// that use space(). The CUDA half is skipped by name without a GPU.
class SpaceTest : public testing::TestWithParam<cusSpace> {
  protected:
    void SetUp() override { CUS_NEEDS(GetParam()); }
    cusSpace space() const { return GetParam(); }
};

inline std::string spaceName(const testing::TestParamInfo<cusSpace> &space) {
    return space.param == CUS_DEVICE ? "cuda" : "host";
}

#define CUS_BOTH_SPACES(Suite) INSTANTIATE_TEST_SUITE_P(, Suite, testing::Values(CUS_HOST, CUS_DEVICE), support::spaceName)

} // namespace support
