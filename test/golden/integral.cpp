#include "golden/golden.hpp"

#include "cusight/integral.h"
#include "reference/integral.hpp"

namespace golden {
namespace {

// Which tables, and of which depth.
struct Tables {
    const char *name;
    int depth;
    bool sum, sqsum;
};
const Tables TABLES[] = {{"sum 32S", CUS_32S, true, false},
                         {"sum 64F", CUS_64F, true, false},
                         {"sqsum", CUS_32S, false, true},
                         {"sum 32S and sqsum", CUS_32S, true, true},
                         {"sum 64F and sqsum", CUS_64F, true, true}};

Data noise(size_t n, uint32_t seed) {
    Numbers next(seed);
    Data bytes(n);
    for (auto &b : bytes)
        b = static_cast<uint8_t>(next());
    return bytes;
}

template<class T>
Data expected(const std::vector<T> &src, int rows, int cols, Tables tables) {
    const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols);
    Data data;
    if (tables.sum && tables.depth == CUS_32S)
        append(data, reference::integral<uint32_t>(src, h, w));
    else if (tables.sum)
        append(data, reference::integral<double>(src, h, w));
    if (tables.sqsum)
        append(data, reference::integral<double>(src, h, w, true));
    return data;
}

template<class T>
Data computed(const std::vector<T> &values, int rows, int cols, Tables tables, cusSpace space, Layout layout) {
    const int type = sizeof(T) == 1 ? CUS_8UC1 : CUS_32FC1, sum_type = CUS_MAKETYPE(tables.depth, 1);
    TestMat src(rows, cols, type, space, layoutFor(type, layout), values.data());
    TestMat sum(rows + 1, cols + 1, sum_type, space, layoutFor(sum_type, layout));
    TestMat sqsum(rows + 1, cols + 1, CUS_64FC1, space, layoutFor(CUS_64FC1, layout));
    cusIntegralOptions options = cusIntegralDefaults();
    options.sum_depth = tables.depth;
    CUS_EXPECT_OK(
        cusIntegral(&src.mat, tables.sum ? &sum.mat : nullptr, tables.sqsum ? &sqsum.mat : nullptr, &options, nullptr));
    EXPECT_TRUE(sum.intact() && sqsum.intact());
    Data data;
    if (tables.sum)
        append(data, sum.get());
    if (tables.sqsum)
        append(data, sqsum.get());
    return data;
}

template<class T>
Row row(const std::string &content, const std::vector<T> &src, uint32_t seed, int h, int w, Tables tables,
        Promise promise) {
    return {"cusIntegral",
            std::string(tables.name) + "; " + content,
            seed,
            sizeName(h, w),
            sizeof(T) == 1 ? "8UC1" : "32FC1",
            [=] { return expected(src, h, w, tables); },
            [=](cusSpace space, Layout layout) { return computed(src, h, w, tables, space, layout); },
            promise};
}

// Rectangles in the image, some empty, some outside.
std::vector<int32_t> boxes(int n, int rows, int cols, uint32_t seed) {
    Numbers next(seed);
    std::vector<int32_t> list;
    for (int k = 0; k < n; ++k) {
        const int x = next.below(cols + 1), y = next.below(rows + 1);
        for (int v : {x, y, next.below(cols - x + 1), next.below(rows - y + 1) + (k % 16 == 0 ? rows : 0)})
            list.push_back(v);
    }
    return list;
}

Data expectedSums(const Data &src, int rows, int cols, const std::vector<int32_t> &list) {
    std::vector<double> sums;
    for (size_t k = 0; k < list.size(); k += 4) {
        const int x = list[k], y = list[k + 1], w = list[k + 2], h = list[k + 3];
        sums.push_back(
            x + w > cols || y + h > rows ? -1 : reference::boxSum<double>(src, static_cast<size_t>(cols), x, y, w, h));
    }
    return bytesOf(sums);
}

// -1 in place of NaN, whose bits are not promised.
Data computedSums(const Data &bytes, int rows, int cols, int depth, const std::vector<int32_t> &list, cusSpace space,
                  Layout layout) {
    const int n = static_cast<int>(list.size() / 4);
    TestMat src(rows, cols, CUS_8UC1, space, layout, bytes.data()), rectangles(n, 4, CUS_32SC1, space, {}, list.data());
    TestMat table(rows + 1, cols + 1, CUS_MAKETYPE(depth, 1), space), sums(n, 1, CUS_64FC1, space);
    cusIntegralOptions options = cusIntegralDefaults();
    options.sum_depth = depth;
    CUS_EXPECT_OK(cusIntegral(&src.mat, &table.mat, nullptr, &options, nullptr));
    CUS_EXPECT_OK(cusBoxSums(&table.mat, &rectangles.mat, &sums.mat, nullptr));
    auto values = sums.get<double>();
    for (double &v : values)
        v = v == v ? v : -1;
    return bytesOf(values);
}

} // namespace

Row anyIntegral(Choices &choices) {
    const int h = choices.between(1, 70), w = choices.between(1, 300);
    const Tables tables = TABLES[choices.below(5)];
    const Data bytes = choices.content(static_cast<size_t>(h * w));
    if (tables.depth == CUS_32S && tables.sum)
        return row("any", bytes, 0, h, w, tables, Promise::BOTH_SPACES);
    const int kind = choices.below(3);
    std::vector<float> values;
    for (const uint8_t b : bytes)
        values.push_back(kind == 1 ? b : static_cast<float>(b) / 255.0f - 0.25f);
    return kind == 0 ? row("any", bytes, 0, h, w, tables, Promise::BOTH_SPACES)
                     : row("any", values, 0, h, w, tables, kind == 1 ? Promise::BOTH_SPACES : Promise::HOST_ONLY);
}

std::vector<Row> integralRows() {
    std::vector<Row> rows;
    const uint32_t seed = 10;
    // The last are more than 4 MB of tables, which AVX-512 writes past the caches.
    for (const auto &[h, w] : {std::pair(1, 1), std::pair(1, 1000), std::pair(700, 1), std::pair(31, 33),
                               std::pair(65, 515), std::pair(769, 1027)})
        for (const Tables &tables : TABLES) {
            const size_t n = static_cast<size_t>(h) * static_cast<size_t>(w);
            const Data bytes = noise(n, seed);
            rows.push_back(row("noise", bytes, seed, h, w, tables, Promise::BOTH_SPACES));
            if (tables.depth == CUS_32S && tables.sum)
                rows.push_back(row("white", Data(n, 255), seed, h, w, tables, Promise::BOTH_SPACES));
            if (tables.depth == CUS_32S && tables.sum)
                continue;
            std::vector<float> whole(bytes.begin(), bytes.end()), fractions;
            for (float v : whole)
                fractions.push_back(v / 255.0f);
            rows.push_back(row("integers", whole, seed, h, w, tables, Promise::BOTH_SPACES));
            rows.push_back(row("fractions (host)", fractions, seed, h, w, tables, Promise::HOST_ONLY));
        }
    for (const int depth : {CUS_32S, CUS_64F}) {
        const int h = 97, w = 203;
        const Data bytes = noise(static_cast<size_t>(h * w), seed);
        const auto list = boxes(500, h, w, seed);
        rows.push_back(
            {"cusBoxSums", std::string("table ") + (depth == CUS_32S ? "32S" : "64F"), seed, sizeName(h, w), "8UC1",
             [=] { return expectedSums(bytes, h, w, list); },
             [=](cusSpace space, Layout layout) { return computedSums(bytes, h, w, depth, list, space, layout); }});
    }
    return rows;
}

} // namespace golden
