// What framediff's rows share: frames with a given share of changed bytes, encoders and their output.
#pragma once

#include "harness/frames.hpp"

#include "cusight/framediff.h"

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace perf::framediff {

struct Size : perf::Size {
    constexpr Size(int width, int height) : perf::Size{width, height} {}
    constexpr Size(perf::Size size) : perf::Size(size) {}
    size_t bytes() const { return pixels() * 3; }
};
constexpr Size SIZES[] = {{3840, 2160}, {1920, 1080}, {640, 480}};

class Mat : public perf::Mat {
  public:
    Mat(Size size, cusSpace space) : perf::Mat(size.rows, size.cols, CUS_8UC3, space) {}
    Mat(Size size, cusSpace space, const std::vector<uint8_t> &tight)
        : perf::Mat(size.rows, size.cols, CUS_8UC3, space, tight) {}
};

inline std::vector<uint8_t> randomBytes(size_t n) {
    std::mt19937_64 random(1);
    std::vector<uint8_t> bytes(n + 8);
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t eight = random();
        std::memcpy(&bytes[i], &eight, 8);
    }
    bytes.resize(n);
    return bytes;
}

// How the changed bytes are distributed. Besides their number, cost depends on how many 32-byte sectors of the reference
// they touch. In real video at threshold 20, the share of sectors is 3.0 (vtest.avi), 5.0 (Megamind.avi) and 7.7 (tree.avi)
// times the share of bytes; with discs of radius 2 it is 5 times. Single bytes at random positions are the worst case (62 %
// of the sectors at 3 %), large discs the densest.
enum class Distribution { CLUSTERS, RANDOM, BLOBS };

// The second frame of a pair: a share of its bytes differs by 128 each.
inline std::vector<uint8_t> changed(const std::vector<uint8_t> &frame, Size size, Distribution distribution,
                                    double share = 0.03) {
    std::mt19937_64 random(2);
    std::vector<uint8_t> other = frame;
    const size_t goal = static_cast<size_t>(share * static_cast<double>(frame.size()));
    size_t count = 0;
    const auto flip = [&](size_t i) {
        if (other[i] == frame[i]) {
            other[i] = static_cast<uint8_t>(other[i] ^ 128);
            ++count;
        }
    };
    if (distribution == Distribution::RANDOM) {
        while (count < goal)
            flip(random() % frame.size());
        return other;
    }
    const int radius = distribution == Distribution::CLUSTERS ? 2 : size.cols / 60;
    while (count < goal) {
        const int cx = static_cast<int>(random() % static_cast<unsigned>(size.cols));
        const int cy = static_cast<int>(random() % static_cast<unsigned>(size.rows));
        for (int y = std::max(0, cy - radius); y <= std::min(size.rows - 1, cy + radius); ++y)
            for (int x = std::max(0, cx - radius); x <= std::min(size.cols - 1, cx + radius); ++x)
                if ((x - cx) * (x - cx) + (y - cy) * (y - cy) <= radius * radius)
                    for (size_t c = 0; c < 3; ++c)
                        flip((static_cast<size_t>(y) * static_cast<size_t>(size.cols) + static_cast<size_t>(x)) * 3 + c);
    }
    return other;
}

inline const char *distributionNote(Distribution distribution) {
    switch (distribution) {
    case Distribution::CLUSTERS:
        return "3 % of the bytes change, in discs of radius 2";
    case Distribution::RANDOM:
        return "3 % of the bytes change, one by one at random places";
    case Distribution::BLOBS:
        break;
    }
    return "3 % of the bytes change, in large discs";
}

template<class T>
inline T &turn(std::deque<T> &sets, int i) {
    return sets[static_cast<size_t>(i) % sets.size()];
}

struct Lists {
    Lists(Size size, cusSpace space, uint32_t capacity = 0) { // 0: room for every byte
        check(cusSparseDiffCreate(&diff, size.rows, size.cols, CUS_8UC3, capacity, 0, space));
    }
    ~Lists() { cusSparseDiffRelease(&diff); }
    Lists(const Lists &) = delete;
    Lists &operator=(const Lists &) = delete;
    uint32_t *positions() const { return static_cast<uint32_t *>(diff.positions.data); }
    uint8_t *values() const { return static_cast<uint8_t *>(diff.values.data); }
    uint32_t *count() const { return static_cast<uint32_t *>(diff.count.data); }
    cusSparseDiff diff = CUS_SPARSE_DIFF_INIT;
};

inline uint32_t countOf(const cusMat &count) {
    uint32_t value = 0;
    cusMat host = CUS_MAT_INIT;
    check(cusMatWrap(&host, 1, 1, CUS_32SC1, CUS_HOST, &value, 0));
    check(count.space == CUS_DEVICE ? cusMatDownload(&count, &host, nullptr) : cusMatCopy(&count, &host, nullptr));
    if (count.space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
    return value;
}

// Two frames that alternate as the current one, and the output.
struct Frames {
    Frames(Size size, cusSpace space, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
           uint32_t capacity = 0)
        : a(size, space, first), b(size, space, second), lists(size, space, capacity) {}

    Mat &latest() { return use_b ? b : a; }
    Mat &next() {
        use_b = !use_b;
        return latest();
    }

    Mat a, b;
    Lists lists;
    bool use_b = false;
};

// Frames and an encoder whose reference starts as `a`, so every call sees the same bytes change.
struct Encoding : Frames {
    Encoding(Size size, cusSpace space, const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
             const cusDiffOptions *options, uint32_t capacity = 0)
        : Frames(size, space, first, second, capacity) {
        check(cusDiffEncoderCreate(&encoder, size.rows, size.cols, CUS_8UC3, space, options));
        check(cusDiffEncoderReset(encoder, &a.mat, nullptr));
    }
    ~Encoding() { cusDiffEncoderDestroy(encoder); }
    cusDiffEncoder *encoder = nullptr;
};

inline uint32_t differences(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) {
    uint32_t count = 0;
    for (size_t i = 0; i < a.size(); ++i)
        count += a[i] != b[i];
    return count;
}

// With random positions most sectors of the reference receive a new byte and are written back whole.
inline std::string sectorNote(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) {
    constexpr size_t sector = 32;
    size_t written = 0;
    for (size_t i = 0; i + sector <= a.size(); i += sector)
        written += std::memcmp(&a[i], &b[i], sector) != 0;
    return std::to_string(100 * written * sector / a.size()) + " % of the reference's 32-byte sectors change";
}

inline std::string changeId(Size size, Distribution distribution) {
    return "/" + size.text() + "/3pct" +
           (distribution == Distribution::CLUSTERS ? ""
            : distribution == Distribution::RANDOM ? "-scattered"
                                                   : "-blobs");
}

} // namespace perf::framediff
