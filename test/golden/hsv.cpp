#include "golden/golden.hpp"

#include "cusight/hsv.h"
#include "reference/hsv.hpp"

namespace golden {
namespace {

struct Range {
    const char *name;
    cusHsvRange range;
};
const Range RANGES[] = {{"blues", {{100, 80, 50}, {130, 255, 255}}},
                        {"reds", {{170, 40, 40}, {10, 255, 255}}},
                        {"all", {{0, 0, 0}, {179, 255, 255}}},
                        {"dark grays", {{0, 0, 0}, {179, 20, 100}}}};

Data pixels(int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    Data bytes;
    for (int i = 0; i < rows * cols; ++i) {
        const uint32_t n = next(), gray = n >> 24;
        // A quarter of the pixels are nearly gray.
        for (uint32_t c = 0; c < 3; ++c)
            bytes.push_back(static_cast<uint8_t>(n & 3 ? n >> (2 + 8 * c) : gray + (n >> (8 * c) & 7)));
    }
    return bytes;
}

Data expected(const Data &bytes, const cusHsvRange &range) {
    Data mask;
    uint32_t count = 0;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const bool in = reference::inRange(reference::hsv(bytes[i], bytes[i + 1], bytes[i + 2]), range);
        count += in;
        mask.push_back(in ? 255 : 0);
    }
    append(mask, std::vector<uint32_t>{count});
    return mask;
}

Data computed(int rows, int cols, const Data &bytes, const cusHsvRange &range, cusSpace space, Layout layout) {
    TestMat src(rows, cols, CUS_8UC3, space, layout, bytes.data());
    TestMat mask(rows, cols, CUS_8UC1, space, layout), count(1, 1, CUS_32SC1, space);
    CUS_EXPECT_OK(cusHsvCount(&src.mat, &range, &count.mat, &mask.mat, nullptr));
    EXPECT_TRUE(mask.intact() && count.intact());
    Data data = mask.get();
    append(data, count.get<uint32_t>());
    return data;
}

Row row(int h, int w, const Data &bytes, const std::string &name, const cusHsvRange &range, uint32_t seed) {
    return {"cusHsvCount",
            "range=" + name,
            seed,
            sizeName(h, w),
            "8UC3",
            [=] { return expected(bytes, range); },
            [=](cusSpace space, Layout layout) { return computed(h, w, bytes, range, space, layout); }};
}

} // namespace

Row anyHsv(Choices &choices) {
    const int h = choices.between(1, 40), w = choices.between(1, 150);
    cusHsvRange range;
    for (int i = 0; i < 3; ++i) {
        range.lower[i] = static_cast<uint8_t>(choices.below(i ? 256 : 180));
        range.upper[i] = static_cast<uint8_t>(choices.below(i ? 256 : 180));
        if (i && range.lower[i] > range.upper[i])
            std::swap(range.lower[i], range.upper[i]);
    }
    return row(h, w, choices.content(static_cast<size_t>(3 * h * w)), "any", range, 0);
}

std::vector<Row> hsvRows() {
    std::vector<Row> rows;
    const uint32_t seed = 40;
    for (const auto &[h, w] : {std::pair(1, 1), std::pair(7, 33), std::pair(61, 130), std::pair(240, 321)})
        for (const Range &range : RANGES)
            rows.push_back(row(h, w, pixels(h, w, seed), range.name, range.range, seed));
    return rows;
}

} // namespace golden
