#include "golden/golden.hpp"

#include "cusight/integral.h"
#include "reference/integral.hpp"

#include <cstring>

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
Data expected(const std::vector<T> &src, int rows, int cols, int channels, Tables tables) {
    const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
    Data data;
    if (tables.sum && tables.depth == CUS_32S)
        append(data, reference::integral<uint32_t>(src, h, w, false, n));
    else if (tables.sum)
        append(data, reference::integral<double>(src, h, w, false, n));
    if (tables.sqsum)
        append(data, reference::integral<double>(src, h, w, true, n));
    return data;
}

template<class T>
Data computed(const std::vector<T> &values, int rows, int cols, int channels, Tables tables, cusSpace space, Layout layout,
              cusIntegralOptions options = cusIntegralDefaults()) {
    const int type = CUS_MAKETYPE(sizeof(T) == 1 ? CUS_8U : CUS_32F, channels),
              sum_type = CUS_MAKETYPE(tables.depth, channels), square_type = CUS_MAKETYPE(CUS_64F, channels);
    TestMat src(rows, cols, type, space, layoutFor(type, layout), values.data());
    TestMat sum(rows + 1, cols + 1, sum_type, space, layoutFor(sum_type, layout));
    TestMat sqsum(rows + 1, cols + 1, square_type, space, layoutFor(square_type, layout));
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
Row row(const std::string &content, const std::vector<T> &src, uint32_t seed, int h, int w, Tables tables, Promise promise,
        int channels = 1) {
    return {"cusIntegral",
            std::string(tables.name) + "; " + content,
            seed,
            sizeName(h, w),
            typeName(CUS_MAKETYPE(sizeof(T) == 1 ? CUS_8U : CUS_32F, channels)),
            [=] { return expected(src, h, w, channels, tables); },
            [=](cusSpace space, Layout layout) { return computed(src, h, w, channels, tables, space, layout); },
            promise};
}

// ---- Reproducible tables ---------------------------------------------------------------------------------------------

Data expectedReproducible(const std::vector<float> &src, int rows, int cols, int channels, Tables tables, float range) {
    const size_t h = static_cast<size_t>(rows), w = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
    Data data;
    if (tables.sum)
        append(data, reference::reproducible(src, h, w, false, range, n));
    if (tables.sqsum)
        append(data, reference::reproducible(src, h, w, true, range, n));
    return data;
}

// range 0: unknown
Row reproducible(const std::string &content, const std::vector<float> &src, uint32_t seed, int h, int w, int channels,
                 Tables tables, float range) {
    cusIntegralOptions options = cusIntegralDefaults();
    options.reproducible = 1;
    options.range = static_cast<double>(range);
    return {"cusIntegral",
            std::string(tables.name) + "; reproducible" + (range > 0 ? " with range; " : "; ") + content,
            seed,
            sizeName(h, w),
            typeName(CUS_MAKETYPE(CUS_32F, channels)),
            [=] { return expectedReproducible(src, h, w, channels, tables, range); },
            [=](cusSpace space, Layout layout) { return computed(src, h, w, channels, tables, space, layout, options); }};
}

// Values up to 1 over many magnitudes, from integers alone.
std::vector<float> magnitudes(size_t n, uint32_t seed) {
    Numbers next(seed);
    std::vector<float> values(n);
    for (float &v : values) { // one by one, since compilers choose the order in which arguments are evaluated
        const int mantissa = next.below(1 << 24) - (1 << 23), shift = next.below(30);
        v = std::ldexp(static_cast<float>(mantissa), -23 - shift);
    }
    return values;
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

Data expectedSums(const Data &src, int rows, int cols, int channels, const std::vector<int32_t> &list) {
    std::vector<double> sums;
    const size_t width = static_cast<size_t>(cols), n = static_cast<size_t>(channels);
    for (size_t k = 0; k < list.size(); k += 4) {
        const int x = list[k], y = list[k + 1], w = list[k + 2], h = list[k + 3];
        for (size_t c = 0; c < n; ++c)
            sums.push_back(x + w > cols || y + h > rows ? -1
                                                        : reference::boxSum<double>(src, width, x, y, w, h, false, n, c));
    }
    return bytesOf(sums);
}

// -1 in place of NaN, whose bits are not promised.
Data computedSums(const Data &bytes, int rows, int cols, int channels, int depth, const std::vector<int32_t> &list,
                  cusSpace space, Layout layout) {
    const int n = static_cast<int>(list.size() / 4);
    TestMat src(rows, cols, CUS_MAKETYPE(CUS_8U, channels), space, layout, bytes.data()),
        rectangles(n, 4, CUS_32SC1, space, {}, list.data());
    TestMat table(rows + 1, cols + 1, CUS_MAKETYPE(depth, channels), space),
        sums(n, 1, CUS_MAKETYPE(CUS_64F, channels), space);
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
    const int channels = choices.between(1, 4);
    const Data bytes = choices.content(static_cast<size_t>(h * w * channels));
    if (tables.depth == CUS_32S && tables.sum)
        return row("any", bytes, 0, h, w, tables, Promise::BOTH_SPACES, channels);
    const int kind = choices.below(5);
    std::vector<float> values;
    for (const uint8_t b : bytes)
        values.push_back(kind == 1 ? b : static_cast<float>(b) / 255.0f - 0.25f);
    if (kind > 2) { // any bits, of which some are NaN
        const bool any_bits = choices.yes();
        for (size_t i = 0; any_bits && i < values.size(); ++i) {
            const uint32_t word = bytes[i] * 0x1010101u ^ (static_cast<uint32_t>(i) * 0x9e3779b9u & 0xffffff);
            std::memcpy(&values[i], &word, sizeof word);
        }
        return reproducible("any", values, 0, h, w, channels, tables,
                            kind == 3 ? 0 : std::ldexp(1.5f, choices.between(-150, 126)));
    }
    return kind == 0 ? row("any", bytes, 0, h, w, tables, Promise::BOTH_SPACES, channels)
                     : row("any", values, 0, h, w, tables, kind == 1 ? Promise::BOTH_SPACES : Promise::HOST_ONLY, channels);
}

// All tables of one source.
static void addRows(std::vector<Row> &rows, uint32_t seed, int h, int w, int channels) {
    const size_t n = static_cast<size_t>(h) * static_cast<size_t>(w) * static_cast<size_t>(channels);
    const Data bytes = noise(n, seed);
    for (const Tables &tables : TABLES) {
        rows.push_back(row("noise", bytes, seed, h, w, tables, Promise::BOTH_SPACES, channels));
        if (tables.depth == CUS_32S && tables.sum) {
            rows.push_back(row("white", Data(n, 255), seed, h, w, tables, Promise::BOTH_SPACES, channels));
            continue;
        }
        std::vector<float> whole(bytes.begin(), bytes.end()), fractions;
        for (float v : whole)
            fractions.push_back(v / 255.0f);
        rows.push_back(row("integers", whole, seed, h, w, tables, Promise::BOTH_SPACES, channels));
        rows.push_back(row("fractions (host)", fractions, seed, h, w, tables, Promise::HOST_ONLY, channels));
        for (const float range : {0.0f, 1.0f}) {
            std::vector<float> values = magnitudes(n, seed);
            rows.push_back(reproducible("magnitudes", values, seed, h, w, channels, tables, range));
            values[n / 2] = range > 0 ? 1.5f : std::numeric_limits<float>::quiet_NaN();
            rows.push_back(
                reproducible(range > 0 ? "one outside" : "one NaN", values, seed, h, w, channels, tables, range));
        }
    }
}

static void addSums(std::vector<Row> &rows, uint32_t seed, int channels) {
    for (const int depth : {CUS_32S, CUS_64F}) {
        const int h = 97, w = 203;
        const Data bytes = noise(static_cast<size_t>(h * w * channels), seed);
        const auto list = boxes(500, h, w, seed);
        rows.push_back({"cusBoxSums", std::string("table ") + (depth == CUS_32S ? "32S" : "64F"), seed, sizeName(h, w),
                        typeName(CUS_MAKETYPE(CUS_8U, channels)), [=] { return expectedSums(bytes, h, w, channels, list); },
                        [=](cusSpace space, Layout layout) {
                            return computedSums(bytes, h, w, channels, depth, list, space, layout);
                        }});
    }
}

std::vector<Row> integralRows() {
    std::vector<Row> rows;
    const uint32_t seed = 10;
    // The last are more than 4 MB of tables, which AVX-512 writes past the caches.
    for (const auto &[h, w] : {std::pair(1, 1), std::pair(1, 1000), std::pair(700, 1), std::pair(31, 33),
                               std::pair(65, 515), std::pair(769, 1027)})
        addRows(rows, seed, h, w, 1);
    addSums(rows, seed, 1);
    for (int channels = 2; channels <= 4; ++channels) {
        for (const auto &[h, w] : {std::pair(1, 1), std::pair(31, 33), std::pair(65, 515)})
            addRows(rows, seed, h, w, channels);
        addSums(rows, seed, channels);
    }
    return rows;
}

} // namespace golden
