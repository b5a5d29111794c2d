#include "golden/golden.hpp"

#include "cusight/match.h"
#include "reference/hsv.hpp"
#include "reference/match.hpp"

namespace golden {
namespace {

using Image = reference::Image<uint8_t>;

// Content: random bytes, or a pattern that repeats, so that many scores are equal.
Image picture(int rows, int cols, int channels, bool periodic, uint32_t seed) {
    Numbers next(seed);
    Image image{rows, cols, channels, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c)
                image.data.push_back(static_cast<uint8_t>(periodic ? (x % 5) * 50 + (y % 3) * 20 + c : next() >> 24));
    return image;
}

Image cut(const Image &image, int y, int x, int rows, int cols) {
    Image part{rows, cols, image.channels, {}};
    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < cols; ++i)
            for (int c = 0; c < image.channels; ++c)
                part.data.push_back(image.at(y + j, x + i, c));
    return part;
}

Data maskFor(const Image &templ, uint32_t seed) {
    Numbers next(seed);
    Data mask;
    for (int i = 0; i < templ.rows * templ.cols; ++i)
        mask.push_back(i == 0 || next() % 4 ? 255 : 0);
    return mask;
}

const cusMatchMethod METHODS[] = {CUS_MATCH_SQDIFF,       CUS_MATCH_SQDIFF_NORMED, CUS_MATCH_CCORR,
                                  CUS_MATCH_CCORR_NORMED, CUS_MATCH_CCOEFF,        CUS_MATCH_CCOEFF_NORMED};

const cusHsvRange RANGE = {{20, 30, 30}, {120, 255, 255}};
const double MIN_FILL = 0.3;

struct Case {
    Image image, templ;
    Data mask; // empty: none
    cusMatcherOptions options;
    bool inspect = false;
};

void appendMatch(Data &data, int x, int y, double score, uint32_t pixels, int filled) {
    append(data, std::vector<int32_t>{x, y, static_cast<int32_t>(pixels), filled});
    append(data, std::vector<double>{score});
}

Data expected(const Case &c) {
    Data data;
    const auto map = reference::scoreMap(c.image, c.templ, c.mask.empty() ? nullptr : c.mask.data(), c.options.method);
    const auto found = reference::best(map, c.image.cols - c.templ.cols + 1, c.options.method, c.options.max_matches,
                                       c.options.min_distance);
    for (const reference::Found &f : found) {
        uint32_t pixels = 0;
        for (int j = 0; c.inspect && j < c.templ.rows; ++j)
            for (int i = 0; i < c.templ.cols; ++i) {
                const int y = f.y + j, x = f.x + i;
                pixels += reference::inRange(reference::hsv(c.image.at(y, x, 0), c.image.at(y, x, 1), c.image.at(y, x, 2)),
                                             RANGE);
            }
        appendMatch(data, f.x, f.y, f.score, pixels, c.inspect ? pixels >= MIN_FILL * c.templ.rows * c.templ.cols : -1);
    }
    return data;
}

Data computed(const Case &c, cusSpace space, Layout layout) {
    const int type = CUS_MAKETYPE(CUS_8U, c.image.channels);
    TestMat image(c.image.rows, c.image.cols, type, space, layout, c.image.data.data());
    TestMat templ(c.templ.rows, c.templ.cols, type, space, layout, c.templ.data.data());
    TestMat mask(c.templ.rows, c.templ.cols, CUS_8UC1, space, layout);
    cusMatcherOptions options = c.options;
    if (!c.mask.empty()) {
        mask.set(c.mask.data());
        options.mask = &mask.mat;
    }
    Data data;
    support::Owned<cusMatcherDestroy> matcher;
    CUS_EXPECT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, c.image.rows, c.image.cols, &options, nullptr));
    if (!matcher)
        return data;
    CUS_EXPECT_OK(cusMatcherRun(matcher, &image.mat, nullptr, nullptr));
    if (c.inspect) {
        CUS_EXPECT_OK(cusMatcherInspect(matcher, &image.mat, &RANGE, MIN_FILL, nullptr));
    }
    std::vector<cusMatch> matches(static_cast<size_t>(options.max_matches));
    int found = 0;
    CUS_EXPECT_OK(cusMatcherGet(matcher, 0, matches.data(), options.max_matches, &found, nullptr));
    for (int i = 0; i < found; ++i) {
        const cusMatch &m = matches[static_cast<size_t>(i)];
        appendMatch(data, m.x, m.y, m.score, m.pixels, m.filled);
    }
    return data;
}

struct Shape {
    int rows, cols, channels, height, width;
};

Row row(const Shape &s, cusMatchMethod method, cusMatchAlgorithm algorithm, int matches, bool masked, bool periodic,
        bool inspect, uint32_t seed) {
    static const char *const methods[] = {"sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed"};
    Case c;
    c.image = picture(s.rows, s.cols, s.channels, periodic, seed);
    c.templ = cut(c.image, (s.rows - s.height) / 2, (s.cols - s.width) / 3, s.height, s.width);
    c.templ.data[0] = static_cast<uint8_t>(c.templ.data[0] + 3); // the best score is not trivial
    if (masked)
        c.mask = maskFor(c.templ, seed);
    c.options = cusMatcherDefaults();
    c.options.method = method, c.options.algorithm = algorithm;
    c.options.max_matches = matches, c.options.min_distance = 3;
    c.inspect = inspect;
    std::string options = std::string(methods[method]) + (algorithm == CUS_MATCH_FFT ? " fft" : " direct") +
                          " max_matches=" + std::to_string(matches) + " template=" + sizeName(s.height, s.width);
    options += std::string(masked ? " mask" : "") + (periodic ? "; periodic" : "; noise");
    return {inspect ? "cusMatcherInspect" : "cusMatcherRun",
            options,
            seed,
            sizeName(s.rows, s.cols),
            typeName(CUS_MAKETYPE(CUS_8U, s.channels)),
            [c] { return expected(c); },
            [c](cusSpace space, Layout layout) { return computed(c, space, layout); }};
}

} // namespace

Row anyMatch(Choices &choices) {
    Case c;
    const int channels = choices.between(1, 4), h = choices.between(1, 40), w = choices.between(1, 60);
    const int height = choices.between(1, std::min(h, 12)), width = choices.between(1, std::min(w, 20));
    c.image = {h, w, channels, choices.content(static_cast<size_t>(h * w * channels))};
    if (choices.yes()) {
        const int y = choices.below(h - height + 1), x = choices.below(w - width + 1);
        c.templ = cut(c.image, y, x, height, width);
    } else {
        c.templ = {height, width, channels, choices.content(static_cast<size_t>(height * width * channels))};
    }
    c.options = cusMatcherDefaults();
    c.options.method = METHODS[choices.below(6)];
    c.options.algorithm = choices.yes() ? CUS_MATCH_FFT : CUS_MATCH_DIRECT;
    c.options.max_matches = choices.between(1, 8);
    c.options.min_distance = choices.between(1, 6);
    if (choices.yes())
        c.mask = maskFor(c.templ, choices.seed());
    c.inspect = channels == 3 && choices.yes();
    return {"cusMatcherRun",
            "any",
            0,
            sizeName(h, w),
            typeName(CUS_MAKETYPE(CUS_8U, channels)),
            [c] { return expected(c); },
            [c](cusSpace space, Layout layout) { return computed(c, space, layout); }};
}

std::vector<Row> matchRows() {
    std::vector<Row> rows;
    const uint32_t seed = 20;
    for (const Shape &s : {Shape{23, 41, 1, 5, 7}, Shape{40, 30, 3, 8, 11}, Shape{33, 52, 2, 9, 6}, Shape{29, 44, 4, 7, 10},
                           Shape{97, 131, 1, 16, 33}})
        for (const cusMatchAlgorithm algorithm : {CUS_MATCH_DIRECT, CUS_MATCH_FFT}) {
            for (const cusMatchMethod method : METHODS)
                for (const int matches : {1, 6})
                    for (const bool periodic : {false, true})
                        rows.push_back(row(s, method, algorithm, matches, false, periodic, false, seed));
            for (const cusMatchMethod method : METHODS)
                rows.push_back(row(s, method, algorithm, 4, true, false, false, seed));
            if (s.channels == 3)
                rows.push_back(row(s, CUS_MATCH_SQDIFF, algorithm, 4, false, false, true, seed));
        }
    return rows;
}

} // namespace golden
