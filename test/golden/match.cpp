#include "golden/golden.hpp"

#include "cusight/match.h"
#include "reference/hsv.hpp"
#include "reference/match.hpp"
#include "reference/match_floats.hpp"

namespace golden {
namespace {

template<class T>
using ImageOf = reference::Image<T>;
using Image = ImageOf<uint8_t>;

// Content: random numbers, or a pattern that repeats, so that many scores are equal. Floats are bytes times `unit`, with fractions.
template<class T>
ImageOf<T> picture(int rows, int cols, int channels, bool periodic, uint32_t seed, float unit = 1) {
    Numbers next(seed);
    ImageOf<T> image{rows, cols, channels, {}};
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            for (int c = 0; c < channels; ++c) {
                const uint32_t number = periodic ? 0 : next(); // 24 bits are a float's
                const int byte = periodic ? (x % 5) * 50 + (y % 3) * 20 + c : static_cast<int>(number >> 24);
                image.data.push_back(std::is_same_v<T, float> && !periodic
                                         ? static_cast<T>(unit * static_cast<float>(number >> 8))
                                         : static_cast<T>(unit * static_cast<float>(byte)));
            }
    return image;
}

template<class T>
ImageOf<T> cut(const ImageOf<T> &image, int y, int x, int rows, int cols) {
    ImageOf<T> part{rows, cols, image.channels, {}};
    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < cols; ++i)
            for (int c = 0; c < image.channels; ++c)
                part.data.push_back(image.at(y + j, x + i, c));
    return part;
}

template<class T>
Data maskFor(const ImageOf<T> &templ, uint32_t seed) {
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

template<class T>
struct Case {
    ImageOf<T> image, templ;
    Data mask; // empty: none
    cusMatcherOptions options;
    bool inspect = false;
};

// Fractions of a pixel are part of the row if they are wanted.
void appendMatch(Data &data, int x, int y, double score, uint32_t pixels, int filled, const cusMatcherOptions &options,
                 const reference::Fractions &fractions) {
    append(data, std::vector<int32_t>{x, y, static_cast<int32_t>(pixels), filled});
    append(data, std::vector<double>{score});
    if (options.subpixel)
        append(data, std::vector<float>{fractions.dx, fractions.dy});
}

template<class T>
int mapCols(const Case<T> &c) {
    return c.image.cols - c.templ.cols + 1;
}
std::vector<double> scoresOf(const Case<uint8_t> &c, const uint8_t *mask) {
    return reference::scoreMap(c.image, c.templ, mask, c.options.method);
}
std::vector<double> scoresOf(const Case<float> &c, const uint8_t *mask) {
    return reference::floatScores(c.image, c.templ, mask, c.options.method);
}
std::vector<reference::Found> bestOf(const Case<uint8_t> &c, const std::vector<double> &scores, const uint8_t *) {
    return reference::best(scores, mapCols(c), c.options.method, c.options.max_matches, c.options.min_distance);
}
std::vector<reference::Found> bestOf(const Case<float> &c, const std::vector<double> &scores, const uint8_t *mask) {
    return reference::bestFloats(scores, mapCols(c), c.templ, mask, c.options.method, c.options.max_matches,
                                 c.options.min_distance);
}

template<class T>
Data expected(const Case<T> &c) {
    Data data;
    const uint8_t *mask = c.mask.empty() ? nullptr : c.mask.data();
    const auto scores = scoresOf(c, mask);
    const auto found = bestOf(c, scores, mask);
    for (size_t n = 0; n < found.size(); ++n) {
        const reference::Found &f = found[n];
        uint32_t pixels = 0;
        for (int j = 0; c.inspect && j < c.templ.rows; ++j)
            for (int i = 0; i < c.templ.cols; ++i) {
                const int y = f.y + j, x = f.x + i;
                const auto channel = [&](int k) { return static_cast<uint8_t>(c.image.at(y, x, k)); };
                pixels += reference::inRange(reference::hsv(channel(0), channel(1), channel(2)), RANGE);
            }
        appendMatch(data, f.x, f.y, f.score, pixels, c.inspect ? pixels >= MIN_FILL * c.templ.rows * c.templ.cols : -1,
                    c.options,
                    reference::fractionsOf(scores, mapCols(c), c.options.method, c.options.min_distance, found, n));
    }
    return data;
}

template<class T>
int typeOf(const ImageOf<T> &image) {
    return CUS_MAKETYPE((std::is_same_v<T, float> ? CUS_32F : CUS_8U), image.channels);
}

template<class T>
Data computed(const Case<T> &c, cusSpace space, Layout bytes) {
    const int type = typeOf(c.image);
    const Layout layout = layoutFor(type, bytes);
    TestMat image(c.image.rows, c.image.cols, type, space, layout, c.image.data.data());
    TestMat templ(c.templ.rows, c.templ.cols, type, space, layout, c.templ.data.data());
    TestMat mask(c.templ.rows, c.templ.cols, CUS_8UC1, space, bytes);
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
        appendMatch(data, m.x, m.y, m.score, m.pixels, m.filled, options, {m.dx, m.dy});
    }
    return data;
}

struct Shape {
    int rows, cols, channels, height, width;
};

// The row of a case: `content` names its pictures.
template<class T>
Row rowOf(const Case<T> &c, const std::string &content, uint32_t seed) {
    static const char *const methods[] = {"sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed"};
    const bool direct = c.options.algorithm == CUS_MATCH_DIRECT;
    const std::string options =
        std::string(methods[c.options.method]) + (direct ? " direct" : " fft") +
        " max_matches=" + std::to_string(c.options.max_matches) + (c.options.subpixel ? " subpixel" : "") +
        " template=" + sizeName(c.templ.rows, c.templ.cols) + (c.mask.empty() ? "" : " mask") + "; " + content;
    return {c.inspect ? "cusMatcherInspect" : "cusMatcherRun",
            options,
            seed,
            sizeName(c.image.rows, c.image.cols),
            typeName(typeOf(c.image)),
            [c] { return expected(c); },
            [c](cusSpace space, Layout layout) { return computed(c, space, layout); }};
}

cusMatcherOptions optionsOf(cusMatchMethod method, cusMatchAlgorithm algorithm, int matches) {
    cusMatcherOptions options = cusMatcherDefaults();
    options.method = method, options.algorithm = algorithm;
    options.max_matches = matches, options.min_distance = 3;
    return options;
}

Row row(const Shape &s, cusMatchMethod method, cusMatchAlgorithm algorithm, int matches, bool masked, bool periodic,
        bool inspect, uint32_t seed, bool subpixel = false) {
    Case<uint8_t> c;
    c.image = picture<uint8_t>(s.rows, s.cols, s.channels, periodic, seed);
    c.templ = cut(c.image, (s.rows - s.height) / 2, (s.cols - s.width) / 3, s.height, s.width);
    c.templ.data[0] = static_cast<uint8_t>(c.templ.data[0] + 3); // the best score is not trivial
    if (masked)
        c.mask = maskFor(c.templ, seed);
    c.options = optionsOf(method, algorithm, matches);
    c.options.subpixel = subpixel;
    c.inspect = inspect;
    return rowOf(c, periodic ? "periodic" : "noise", seed);
}

// Floats: the template in the image's units or in others; the image's values are `size` times those of the others.
Row floatRow(const Shape &s, cusMatchMethod method, int matches, bool masked, bool periodic, float unit, uint32_t seed,
             bool subpixel = false, float size = 1) {
    Case<float> c;
    c.image = picture<float>(s.rows, s.cols, s.channels, periodic, seed, (periodic ? 0.3f : 0x1p-24f) * size);
    c.templ = cut(c.image, (s.rows - s.height) / 2, (s.cols - s.width) / 3, s.height, s.width);
    for (size_t i = 0; i < c.templ.data.size(); ++i)
        c.templ.data[i] = (c.templ.data[i] + (i % 7 ? 0.0f : 0.01f * size)) * unit;
    if (masked)
        c.mask = maskFor(c.templ, seed);
    c.options = optionsOf(method, CUS_MATCH_FFT, matches);
    c.options.subpixel = subpixel;
    return rowOf(c,
                 std::string(periodic ? "periodic" : "noise") + " fractions" +
                     (unit == 1 ? "" : ", template in other units") +
                     (size < 1   ? ", tiny values"
                      : size > 1 ? ", huge values"
                                 : ""),
                 seed);
}

} // namespace

Row anyMatch(Choices &choices) {
    Case<uint8_t> c;
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
    c.options.subpixel = choices.yes();
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
    for (const Shape &s : {Shape{23, 41, 1, 5, 7}, Shape{40, 30, 3, 8, 11}, Shape{33, 52, 2, 9, 6}, Shape{29, 44, 4, 7, 10},
                           Shape{90, 131, 1, 51, 83}})
        for (const cusMatchMethod method : METHODS) {
            for (const bool periodic : {false, true})
                for (const int matches : {1, 6})
                    rows.push_back(floatRow(s, method, matches, false, periodic, 1, seed));
            rows.push_back(floatRow(s, method, 2, false, false, 65535, seed));
            rows.push_back(floatRow(s, method, 4, true, false, 1, seed));
        }
    for (const Shape &s : {Shape{23, 41, 1, 5, 7}, Shape{40, 30, 3, 8, 11}, Shape{97, 131, 1, 16, 33}})
        for (const cusMatchMethod method : METHODS)
            for (const bool masked : {false, true}) {
                for (const cusMatchAlgorithm algorithm : {CUS_MATCH_DIRECT, CUS_MATCH_FFT})
                    for (const bool periodic : {false, true})
                        rows.push_back(row(s, method, algorithm, 6, masked, periodic, false, seed, true));
                if (s.rows > 40) // brute force takes seconds
                    continue;
                for (const bool periodic : {false, true})
                    rows.push_back(floatRow(s, method, 6, masked, periodic, 1, seed, true));
                for (const float size : {0x1p-130f, 0x1p120f})
                    rows.push_back(floatRow(s, method, 6, masked, false, 1, seed, true, size));
            }
    return rows;
}

} // namespace golden
