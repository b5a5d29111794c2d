// Golden rows: a checksum of a function's output for fixed input. test/golden/tables/NAME.csv holds those of module NAME, made from the
// scalar reference by `CUSIGHT_MAKE_GOLDEN=1 cusight_tests --gtest_filter='*GoldenReference*'`. Both backends must reproduce them,
// with every instruction set, and so must the reference itself.
#pragma once

#include "../support.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace golden {

using Data = std::vector<uint8_t>;
using support::Layout;
using support::TestMat;

// The input's numbers: splitmix64, integers only, the same on every machine.
class Numbers {
  public:
    explicit Numbers(uint32_t seed) : state_(seed) {}
    uint32_t operator()() {
        state_ += 0x9e3779b97f4a7c15u;
        uint64_t z = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return static_cast<uint32_t>((z ^ z >> 31) >> 32);
    }
    int below(int n) { return static_cast<int>((*this)() % static_cast<uint32_t>(n)); }

  private:
    uint64_t state_;
};

// Which backends give these bits. HOST_ONLY: the device's result is only bounded. DEVICE_ONLY: the host has no such function.
enum class Promise { BOTH_SPACES, HOST_ONLY, DEVICE_ONLY };

struct Row {
    std::string function, options;
    uint32_t seed;
    std::string size, type;
    std::function<Data()> expected;                 // from the reference
    std::function<Data(cusSpace, Layout)> computed; // from the library, inputs and outputs laid out so
    Promise promise = Promise::BOTH_SPACES;

    // The columns of the table, but the checksum.
    std::string key() const { return function + "," + options + "," + std::to_string(seed) + "," + size + "," + type; }
};

// Bytes that choose a random case. Past their end all are 0.
class Choices {
  public:
    Choices(const uint8_t *bytes, size_t count) : at_(bytes), end_(bytes + count) {}
    int below(int n) {
        const int low = next(), high = n > 256 ? next() : 0;
        return (256 * high + low) % n;
    }
    int between(int low, int high) { return low + below(high - low + 1); }
    bool yes() { return below(2) != 0; }
    uint32_t seed() { return static_cast<uint32_t>(below(65536)); }
    Layout layout() {
        const auto padding = static_cast<size_t>(below(32));
        return {padding, static_cast<size_t>(below(16))};
    }
    // Noise, one value, extremes, few values with runs, or the bytes that remain, over and over.
    Data content(size_t n);

  private:
    int next() { return at_ == end_ ? 0 : *at_++; }
    const uint8_t *at_, *end_;
};

// Compares the case that the bytes choose with the reference. Names it if they differ, otherwise "".
std::string differentFromReference(const uint8_t *bytes, size_t count, cusSpace space);

// The row that the bytes choose, of any module.
Row anyRow(Choices &choices);
Row anyIntegral(Choices &choices);
Row anyMatch(Choices &choices);
Row anyFramediff(Choices &choices);
Row anyHsv(Choices &choices);
Row anyStereo(Choices &choices);
Row anyEvents(Choices &choices);
Row anyEventgen(Choices &choices);
Row anyRaw(Choices &choices);
Row anyMotion(Choices &choices);
Row anyRemap(Choices &choices);
Row anyPose(Choices &choices);
Row anyVideo(Choices &choices);

std::vector<Row> integralRows();
std::vector<Row> matchRows();
std::vector<Row> framediffRows();
std::vector<Row> hsvRows();
std::vector<Row> stereoRows();
std::vector<Row> eventsRows();
std::vector<Row> eventgenRows();
std::vector<Row> rawRows();
std::vector<Row> motionRows();
std::vector<Row> remapRows();
std::vector<Row> poseRows();
std::vector<Row> videoRows();

inline std::string sizeName(int rows, int cols) {
    return std::to_string(rows) + "x" + std::to_string(cols);
}

// "8UC3"
inline std::string typeName(int type) {
    static const char *const depths[] = {"8U", "8S", "16U", "16S", "32S", "32F", "64F", "16F"};
    return std::string(depths[CUS_DEPTH(type)]) + "C" + std::to_string(CUS_CHANNELS(type));
}

// Appends the bytes of values.
template<class T>
void append(Data &data, const std::vector<T> &values) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    data.insert(data.end(), bytes, bytes + values.size() * sizeof(T));
}

template<class T>
Data bytesOf(const std::vector<T> &values) {
    Data data;
    append(data, values);
    return data;
}

// A layout for elements of another type: multiples of the size of one channel.
inline Layout layoutFor(int type, Layout layout) {
    const size_t unit = cusTypeSize(type) / static_cast<size_t>(CUS_CHANNELS(type));
    return {layout.padding / 8 * 8 + (layout.padding % 8) * unit, layout.offset / 8 * 8 + (layout.offset % 8) * unit};
}

} // namespace golden
