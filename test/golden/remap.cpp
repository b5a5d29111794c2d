#include "golden/golden.hpp"

#include "cusight/remap.h"
#include "reference/remap.hpp"

namespace golden {
namespace {

// An image and a map of the same size; places lie up to two pixels outside.
struct Case {
    int rows, cols, channels;
    std::vector<float> map;
};

Case turned(int rows, int cols, int channels) {
    Case c = {rows, cols, channels, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) { // exact in float32
            c.map.push_back(static_cast<float>(250 * x + 21 * y - 300) / 256.0f);
            c.map.push_back(static_cast<float>(251 * y - 19 * x + 201) / 512.0f);
        }
    return c;
}

template<class T>
Row row(const Case &c, const Data &content, const std::string &options, uint32_t seed) {
    std::vector<T> pixels;
    for (const uint8_t b : content)
        pixels.push_back(static_cast<T>(sizeof(T) == 1 ? b : b / 256.0));
    const int type = CUS_MAKETYPE(sizeof(T) == 1 ? CUS_8U : CUS_32F, c.channels);
    return {"cusRemap",
            options,
            seed,
            sizeName(c.rows, c.cols),
            typeName(type),
            [=] { return bytesOf(reference::remap(pixels, c.rows, c.cols, c.channels, c.map)); },
            [=](cusSpace space, Layout layout) {
                TestMat src(c.rows, c.cols, type, space, layoutFor(type, layout), pixels.data());
                TestMat map(c.rows, c.cols, CUS_32FC2, space, layoutFor(CUS_32FC2, layout), c.map.data());
                TestMat dst(c.rows, c.cols, type, space, layoutFor(type, layout));
                CUS_EXPECT_OK(cusRemap(&src.mat, &map.mat, &dst.mat, nullptr));
                EXPECT_TRUE(src.intact() && map.intact() && dst.intact());
                return dst.get();
            }};
}

} // namespace

Row anyRemap(Choices &choices) {
    Case c = {choices.between(1, 24), choices.between(1, 70), choices.between(1, 4), {}};
    const size_t pixels = static_cast<size_t>(c.rows * c.cols);
    const Data places = choices.content(2 * pixels), content = choices.content(pixels * static_cast<size_t>(c.channels));
    const float scale = static_cast<float>(choices.between(1, 64)) / 128.0f;
    for (const uint8_t b : places)
        c.map.push_back((static_cast<float>(b) - 10) * scale);
    return choices.yes() ? row<float>(c, content, "any", 0) : row<uint8_t>(c, content, "any", 0);
}

std::vector<Row> remapRows() {
    std::vector<Row> rows;
    const uint32_t seed = 90;
    for (const auto &[h, w] : {std::pair(1, 1), std::pair(7, 33), std::pair(61, 130)})
        for (int channels = 1; channels <= 4; ++channels) {
            Numbers next(seed);
            Data content;
            for (int i = 0; i < h * w * channels; ++i)
                content.push_back(static_cast<uint8_t>(next()));
            const Case c = turned(h, w, channels);
            rows.push_back(row<uint8_t>(c, content, "turned", seed));
            rows.push_back(row<float>(c, content, "turned", seed));
        }
    return rows;
}

} // namespace golden
