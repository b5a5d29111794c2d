// Rows worst/stereo: flat pairs, noise, stripes, 256 shifts, windows of 63, images as narrow as the shifts. The row "/typical" of
// each group stands beside them: squares of random brightness, shifted.
#include "harness/frames.hpp"

#include "cusight/stereo.h"

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using perf::check;
using perf::Mat;
using perf::Size;

enum class Content { TYPICAL, FLAT, NOISE, STRIPES };
constexpr const char *NAMES[] = {"typical", "flat", "noise", "stripes"};

std::vector<uint8_t> imageOf(Content content, Size size, int shift) {
    std::mt19937_64 random(content == Content::NOISE ? static_cast<uint64_t>(1 + shift) : 1);
    std::vector<uint8_t> squares(static_cast<size_t>(size.cols / 8 + 32) * static_cast<size_t>(size.rows / 8 + 1));
    for (auto &s : squares)
        s = static_cast<uint8_t>(random());
    std::vector<uint8_t> pixels(size.pixels());
    for (int y = 0; y < size.rows; ++y)
        for (int x = 0; x < size.cols; ++x) {
            uint8_t &pixel = pixels[static_cast<size_t>(y) * static_cast<size_t>(size.cols) + static_cast<size_t>(x)];
            if (content == Content::TYPICAL) {
                const int from = x + shift * ((y / 100 + x / 100) % 30);
                pixel = squares[static_cast<size_t>(y / 8) * static_cast<size_t>(size.cols / 8 + 32) +
                                static_cast<size_t>(from / 8)];
            } else {
                pixel = content == Content::NOISE              ? static_cast<uint8_t>(random())
                        : content == Content::STRIPES && x & 1 ? 255
                                                               : 0;
            }
        }
    return pixels;
}

void worst(const std::string &group, Size size, const cusStereoOptions &o, const std::vector<Content> &contents) {
    perf::bothSpaces([&](cusSpace space) {
        for (const Content content : contents) {
            perf::Row row("worst/stereo/" + group + "/" + size.text() + "/" + NAMES[static_cast<int>(content)], space, 0);
            cusContourMapper *mapper = nullptr;
            std::deque<Mat> images;
            Mat elevation, contours;
            if (!perf::listing()) {
                for (int k = 0; k < 2; ++k)
                    images.emplace_back(size.rows, size.cols, CUS_8UC1, space, imageOf(content, size, k));
                check(cusContourMapperCreate(&mapper, size.rows, size.cols, CUS_8UC1, space, &o));
            }
            row.note(std::to_string(o.shifts) + " shifts, window " + std::to_string(o.window));
            row.measure([&](cusStream stream, int) {
                return cusContourMap(mapper, &images[0].mat, &images[1].mat, &elevation.mat, &contours.mat, stream);
            });
            row.report();
            cusContourMapperDestroy(mapper);
        }
    });
}

const std::vector<Content> ALL = {Content::TYPICAL, Content::FLAT, Content::NOISE, Content::STRIPES};

TEST(StereoWorst, Contents) {
    worst("defaults", {640, 480}, cusStereoDefaults(), ALL);
    worst("classic", {320, 240}, cusStereoClassic(), ALL);
}
TEST(StereoWorst, Relax) { // its iterations stop early where nothing changes
    cusStereoOptions o = cusStereoDefaults();
    o.fill = CUS_FILL_RELAX;
    worst("relax", {320, 240}, o, ALL);
}
TEST(StereoWorst, Options) {
    cusStereoOptions o = cusStereoDefaults();
    o.shifts = 256;
    worst("shifts-256", {320, 240}, o, {Content::TYPICAL, Content::NOISE});
    worst("shifts-256", {256, 300}, o, {Content::TYPICAL}); // as many columns as shifts
    o = cusStereoDefaults();
    o.window = 63;
    worst("window-63", {640, 480}, o, {Content::TYPICAL, Content::NOISE});
}

} // namespace
