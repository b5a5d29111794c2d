// Contents of frames, from a natural picture to one color, and matrices at any alignment.
#include "cliffs.hpp"
#include "pictures.hpp"

#include <cstring>
#include <stdexcept>

namespace perf::cliffs {
namespace {

enum Content {
    PICTURE,
    BLACK,
    WHITE,
    ONE_COLOR,
    HALF_BLACK,
    STRIPES,
    CHECKERBOARD,
    GRADIENT,
    NOISE,
    TWO_VALUES,
    SATURATED
};

int valueAt(size_t content, int x, int y, Size size, int period, Random &random) {
    switch (content) {
    case WHITE:
        return 255;
    case ONE_COLOR:
        return 93;
    case STRIPES:
        return x % period < period / 2 ? 30 : 200;
    case CHECKERBOARD:
        return (x + y) % 2 * 255;
    case GRADIENT:
        return static_cast<int>(255.0 * x / size.cols);
    case NOISE:
        return static_cast<int>(random() & 255);
    case TWO_VALUES:
        return random() & 1 ? 7 : 8;
    default:
        return 0;
    }
}

} // namespace

const std::vector<std::string> &frameContents() {
    static const std::vector<std::string> names = {"picture",    "black",      "white",        "one color",
                                                   "half black", "stripes",    "checkerboard", "gradient",
                                                   "noise",      "two values", "saturated"};
    return names;
}

std::vector<uint8_t> makeFrame(Size size, int channels, size_t content, unsigned seed) {
    std::vector<uint8_t> bytes;
    if (content == PICTURE || content == HALF_BLACK || content == SATURATED) {
        bytes = picture(size.rows, size.cols, channels, seed);
        const size_t row = static_cast<size_t>(size.cols) * static_cast<size_t>(channels);
        if (content == HALF_BLACK)
            for (size_t y = 0; y < static_cast<size_t>(size.rows); ++y)
                std::memset(bytes.data() + y * row, 0, row / 2);
        if (content == SATURATED)
            for (uint8_t &b : bytes)
                b = static_cast<uint8_t>(std::min(255, 2 * b));
        return bytes;
    }
    Random random(seed);
    const int period = drawn(random, 2, 64);
    bytes.reserve(size.pixels() * static_cast<size_t>(channels));
    for (int y = 0; y < size.rows; ++y)
        for (int x = 0; x < size.cols; ++x)
            bytes.insert(bytes.end(), static_cast<size_t>(channels),
                         static_cast<uint8_t>(valueAt(content, x, y, size, period, random)));
    return bytes;
}

// Rows are tight unless they are misaligned: a region of a larger image, whose step is a multiple of 256.
Placed::Placed(int rows, int cols, int type, cusSpace space, int offset) {
    const size_t channel = cusTypeSize(CUS_DEPTH(type)), shift = static_cast<size_t>(offset) / channel * channel;
    const size_t tight = static_cast<size_t>(cols) * cusTypeSize(type);
    const size_t step = offset ? (tight + 16 + 255) / 256 * 256 : tight;
    const size_t bytes = static_cast<size_t>(rows) * step + 16;
    if (bytes > INT32_MAX)
        throw std::length_error("a matrix of the search is too large");
    check(cusMatCreate(&memory_.mat, 1, static_cast<int>(bytes), CUS_8UC1, space));
    check(cusMatWrap(&view, rows, cols, type, space, memory_.bytes() + shift, step));
}

void Placed::fill(const std::vector<uint8_t> &tight) {
    cusMat from = CUS_MAT_INIT;
    check(cusMatWrap(&from, view.rows, view.cols, view.type, CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
    check(view.space == CUS_DEVICE ? cusMatUpload(&from, &view, nullptr) : cusMatCopy(&from, &view, nullptr));
    if (view.space == CUS_DEVICE)
        check(cusStreamSynchronize(nullptr));
}

} // namespace perf::cliffs
