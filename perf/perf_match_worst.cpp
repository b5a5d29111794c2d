// Rows of family worst/ of match: contents with very many equal or nearly equal scores. Compare each with the row `typical` of
// its size.
#include "harness/frames.hpp"
#include "harness/pictures.hpp"

#include "cusight/match.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using perf::check;
using perf::Mat;

struct Case {
    int cols, rows, w, h, channels;
    std::string text() const {
        return perf::Size{cols, rows}.text() + "/" + perf::Size{w, h}.text() + (channels == 3 ? "/8UC3" : "");
    }
};

using Bytes = std::vector<uint8_t>;

Bytes naturalFrame(const Case &c) {
    return perf::picture(c.rows, c.cols, c.channels, 1);
}

Bytes naturalTemplate(const Case &c) {
    return perf::picture(c.h, c.w, c.channels, 2, (c.cols - c.w) / 3, (c.rows - c.h) / 2);
}

Bytes made(int rows, int cols, int channels, const std::function<int(int, int)> &value) {
    Bytes bytes;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x)
            bytes.insert(bytes.end(), static_cast<size_t>(channels), static_cast<uint8_t>(value(x, y)));
    return bytes;
}

Bytes ofOne(int rows, int cols, int channels, uint8_t value) {
    return Bytes(static_cast<size_t>(rows) * static_cast<size_t>(cols) * static_cast<size_t>(channels), value);
}

// As which type bytes are given: integers or fractions of 255 as floats.
enum class As { BYTES, INTEGERS, FRACTIONS };

void row(const std::string &id, const Case &c, cusMatchMethod method, int matches, const Bytes &pixels,
         const Bytes &pattern, As as = As::BYTES) {
    perf::bothSpaces([&](cusSpace space) {
        perf::Row row(id, space, 0);
        if (perf::listing())
            return row.report();
        const bool floats = as != As::BYTES;
        const int type = floats ? CUS_32FC1 : c.channels == 1 ? CUS_8UC1 : CUS_8UC3;
        const auto bytes = [&](const Bytes &in) {
            if (!floats)
                return in;
            std::vector<float> values(in.begin(), in.end());
            if (as == As::FRACTIONS)
                for (float &v : values)
                    v /= 255;
            Bytes out(values.size() * sizeof(float));
            std::memcpy(out.data(), values.data(), out.size());
            return out;
        };
        const Mat frame(c.rows, c.cols, type, space, bytes(pixels)), templ(c.h, c.w, type, space, bytes(pattern));
        cusMatcherOptions options = cusMatcherDefaults();
        options.method = method;
        options.max_matches = matches;
        options.min_distance = 8;
        cusMatcher *matcher = nullptr;
        check(cusMatcherCreate(&matcher, &templ.mat, 1, c.rows, c.cols, &options, nullptr));
        row.note(std::string(cusMatcherAlgorithm(matcher) == CUS_MATCH_FFT ? "FFT" : "direct") + "; template prepared");
        row.measure([&](cusStream stream, int) { return cusMatcherRun(matcher, &frame.mat, nullptr, stream); });
        row.report();
        cusMatcherDestroy(matcher);
    });
}

TEST(MatchWorst, Contents) {
    const Case c = {1326, 1025, 479, 432, 1};
    const auto natural = naturalTemplate(c);
    const auto black = ofOne(c.rows, c.cols, 1, 0);
    const auto stripes = [](int x, int) { return x % 16 < 8 ? 30 : 200; };
    auto half = naturalFrame(c);
    for (int y = 0; y < c.rows; ++y)
        std::fill_n(half.begin() + y * c.cols, c.cols / 2, uint8_t{0});
    const std::string at = "worst/match/";
    row(at + "typical", c, CUS_MATCH_SQDIFF, 1, naturalFrame(c), natural);
    row(at + "typical-ccoeff-normed", c, CUS_MATCH_CCOEFF_NORMED, 1, naturalFrame(c), natural);
    row(at + "black", c, CUS_MATCH_SQDIFF, 1, black, natural);
    row(at + "black-ccoeff-normed", c, CUS_MATCH_CCOEFF_NORMED, 1, black, natural);
    row(at + "half-black", c, CUS_MATCH_SQDIFF, 1, half, ofOne(c.h, c.w, 1, 20));
    row(at + "stripes", c, CUS_MATCH_SQDIFF, 1, made(c.rows, c.cols, 1, stripes), made(c.h, c.w, 1, stripes));
    row(at + "checkerboard", c, CUS_MATCH_SQDIFF, 1,
        made(c.rows, c.cols, 1, [](int x, int y) { return (x + y) % 2 * 255; }), natural);
    row(at + "gradient", c, CUS_MATCH_CCOEFF, 1, made(c.rows, c.cols, 1, [](int x, int y) { return (x + y) / 10; }),
        natural);
    row(at + "black-32F", c, CUS_MATCH_SQDIFF, 1, black, natural, As::INTEGERS);
    row(at + "typical-32F", c, CUS_MATCH_SQDIFF, 1, naturalFrame(c), natural, As::INTEGERS);
    row(at + "black-32F-fractions", c, CUS_MATCH_SQDIFF, 1, black, natural, As::FRACTIONS);
    row(at + "stripes-32F-fractions", c, CUS_MATCH_SQDIFF, 1, made(c.rows, c.cols, 1, stripes), made(c.h, c.w, 1, stripes),
        As::FRACTIONS);
    auto dark = naturalFrame(c);
    std::transform(dark.begin(), dark.end(), dark.begin(), [](uint8_t v) { return static_cast<uint8_t>(v % 4); });
    row(at + "dark-32F-fractions", c, CUS_MATCH_SQDIFF, 1, dark, natural, As::FRACTIONS);
    row(at + "typical-32F-fractions", c, CUS_MATCH_SQDIFF, 1, naturalFrame(c), natural, As::FRACTIONS);
}

TEST(MatchWorst, Sizes) {
    for (const Case &c : {Case{640, 480, 100, 100, 1}, Case{640, 480, 12, 12, 1}, Case{640, 480, 32, 32, 3}}) {
        row("worst/match/typical/" + c.text(), c, CUS_MATCH_SQDIFF, 1, naturalFrame(c), naturalTemplate(c));
        row("worst/match/black/" + c.text(), c, CUS_MATCH_SQDIFF, 1, ofOne(c.rows, c.cols, c.channels, 0),
            naturalTemplate(c));
    }
}

TEST(MatchWorst, ManyMatches) {
    const Case c = {768, 576, 40, 40, 3};
    for (const int matches : {1, 100, 1024})
        row("worst/match/top" + std::to_string(matches) + "/" + c.text(), c, CUS_MATCH_SQDIFF, matches, naturalFrame(c),
            naturalTemplate(c));
    row("worst/match/black-top100/" + c.text(), c, CUS_MATCH_SQDIFF, 100, ofOne(c.rows, c.cols, 3, 0), naturalTemplate(c));
}

// Templates that are correlated directly.
TEST(MatchWorst, SmallTemplates) {
    const Case c = {1024, 1024, 7, 35, 3};
    for (const int matches : {1, 10}) {
        const std::string top = "-top" + std::to_string(matches) + "/" + c.text();
        row("worst/match/typical-ccorr-normed" + top, c, CUS_MATCH_CCORR_NORMED, matches, naturalFrame(c),
            naturalTemplate(c));
        row("worst/match/one-color-ccorr-normed" + top, c, CUS_MATCH_CCORR_NORMED, matches,
            ofOne(c.rows, c.cols, c.channels, 90), naturalTemplate(c));
    }
}

// Rows longer than a transform in a block's shared memory, beside the square of as many pixels.
TEST(MatchWorst, LongRows) {
    for (const Case &c : {Case{1664, 1664, 144, 130, 3}, Case{4063, 682, 144, 130, 3}}) {
        row("worst/match/top1/" + c.text(), c, CUS_MATCH_SQDIFF, 1, naturalFrame(c), naturalTemplate(c));
        row("worst/match/top100/" + c.text(), c, CUS_MATCH_SQDIFF, 100, naturalFrame(c), naturalTemplate(c));
        row("worst/match/black/" + c.text(), c, CUS_MATCH_SQDIFF, 1, ofOne(c.rows, c.cols, c.channels, 0),
            naturalTemplate(c));
        row("worst/match/black-top100/" + c.text(), c, CUS_MATCH_SQDIFF, 100, ofOne(c.rows, c.cols, c.channels, 0),
            naturalTemplate(c));
    }
}

} // namespace
