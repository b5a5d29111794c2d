// Stereo pairs with ground truth, which a local window cannot decide: smooth, unequally exposed, repetitive, and fine ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace scenes {

constexpr int ROWS = 240, COLS = 420, SHIFTS = 64;

struct Scene {
    std::string name;
    std::vector<uint8_t> left, right;
    std::vector<float> truth; // the disparity of each left pixel
};

// Brightness of a picture that is wider than an image, for disparities up to SHIFTS.
using Picture = std::vector<float>;
constexpr int WIDE = COLS + SHIFTS;

// Noise of seven octaves, whose amplitude grows with their size as in photographs.
inline Picture photograph(std::mt19937_64 &random) {
    Picture picture(static_cast<size_t>(ROWS) * WIDE, 128);
    for (int size = 1; size <= 64; size *= 2) {
        const int across = WIDE / size + 2;
        std::vector<double> grid(static_cast<size_t>(across) * (ROWS / size + 2));
        for (double &v : grid)
            v = static_cast<double>(random() % 2001) / 1000.0 - 1;
        for (int y = 0; y < ROWS; ++y)
            for (int x = 0; x < WIDE; ++x) {
                const size_t at =
                    static_cast<size_t>(y / size) * static_cast<size_t>(across) + static_cast<size_t>(x / size);
                const double v = static_cast<double>(y % size) / size, u = static_cast<double>(x % size) / size;
                const double upper = grid[at] * (1 - u) + grid[at + 1] * u;
                const double lower =
                    grid[at + static_cast<size_t>(across)] * (1 - u) + grid[at + static_cast<size_t>(across) + 1] * u;
                picture[static_cast<size_t>(y) * WIDE + static_cast<size_t>(x)] +=
                    static_cast<float>(1.6 * std::pow(size, 0.85) * (upper * (1 - v) + lower * v));
            }
    }
    return picture;
}

// A tile of 24 columns and 40 rows, again and again.
inline Picture pattern(std::mt19937_64 &random) {
    constexpr int WIDTH = 24, HEIGHT = 40;
    std::vector<float> tile(WIDTH * HEIGHT);
    for (float &v : tile)
        v = static_cast<float>(40 + random() % 176);
    Picture picture(static_cast<size_t>(ROWS) * WIDE);
    for (int y = 0; y < ROWS; ++y)
        for (int x = 0; x < WIDE; ++x) {
            float sum = 0; // of 3 x 3 pixels, so that the texture is smooth
            for (int k = 0; k < 9; ++k)
                sum += tile[static_cast<size_t>((y + k / 3) % HEIGHT * WIDTH + (x + k % 3) % WIDTH)];
            picture[static_cast<size_t>(y) * WIDE + static_cast<size_t>(x)] = sum / 9;
        }
    return picture;
}

inline uint8_t seen(double brightness, std::mt19937_64 &random) {
    const double noise = static_cast<double>(random() % 401) / 100.0 - 2; // of a sensor
    return static_cast<uint8_t>(std::clamp(std::lround(brightness + noise), 0l, 255l));
}

// The right image shows the picture, the left one what is `disparity` columns to the left.
inline Scene ofSurface(const std::string &name, const Picture &picture, double (*disparity)(int y, int x), double gain,
                       double offset, std::mt19937_64 &random) {
    Scene scene{name, {}, {}, {}};
    for (int y = 0; y < ROWS; ++y)
        for (int x = 0; x < COLS; ++x) {
            const float *const row = &picture[static_cast<size_t>(y) * WIDE];
            const double d = disparity(y, x), at = x - d + SHIFTS;
            const auto whole = static_cast<size_t>(at);
            scene.left.push_back(
                seen(row[whole] + (at - static_cast<double>(whole)) * (row[whole + 1] - row[whole]), random));
            scene.right.push_back(seen(gain * row[x + SHIFTS] + offset, random));
            scene.truth.push_back(static_cast<float>(d));
        }
    return scene;
}

inline double slanted(int y, int x) {
    return 8 + 30.0 * x / COLS + 8.0 * y / ROWS;
}

// Posts of 8 columns every 40, before another surface.
inline Scene fence(const Picture &near, const Picture &far, std::mt19937_64 &random) {
    constexpr int NEAR = 30, FAR = 10;
    Scene scene{"fence", {}, {}, {}};
    for (int y = 0; y < ROWS; ++y)
        for (int x = 0; x < COLS; ++x) {
            const size_t row = static_cast<size_t>(y) * WIDE;
            const auto at = [&](int column) { return row + static_cast<size_t>(column); };
            const bool post = x % 40 < 8;
            scene.left.push_back(seen(post ? near[at(x)] : far[at(x - FAR + SHIFTS)], random));
            scene.right.push_back(seen((x + NEAR) % 40 < 8 ? near[at(x + NEAR)] : far[at(x + SHIFTS)], random));
            scene.truth.push_back(static_cast<float>(post ? NEAR : FAR));
        }
    return scene;
}

inline std::vector<Scene> all() {
    std::mt19937_64 random(1); // statistical laws: always the same scenes
    const Picture photo = photograph(random), other = photograph(random), repeated = pattern(random);
    // A wall with a pattern between plainer parts, which say where it is.
    Picture wall = photo;
    for (int y = 30; y < ROWS - 30; ++y)
        for (int x = 150; x < WIDE - 60; ++x)
            wall[static_cast<size_t>(y) * WIDE + static_cast<size_t>(x)] =
                repeated[static_cast<size_t>(y) * WIDE + static_cast<size_t>(x)];
    std::vector<Scene> scenes;
    scenes.push_back(ofSurface("photograph", photo, slanted, 1, 0, random));
    scenes.push_back(ofSurface("other exposure", photo, slanted, 0.7, 20, random));
    scenes.push_back(ofSurface(
        "repetitive", wall, [](int y, int) { return 12 + 6.0 * y / ROWS; }, 1, 0, random));
    scenes.push_back(fence(photo, other, random));
    return scenes;
}

// Percent of the pixels from column `from` on whose disparity is off by more than 1. Both images show all from SHIFTS on.
template<class Disparity>
double bad1(const Scene &scene, Disparity &&disparity, int from = SHIFTS) {
    int bad = 0;
    for (int y = 0; y < ROWS; ++y)
        for (int x = from; x < COLS; ++x)
            bad += std::fabs(disparity(y, x) - static_cast<double>(scene.truth[static_cast<size_t>(y * COLS + x)])) > 1;
    return 100.0 * bad / (ROWS * (COLS - from));
}

} // namespace scenes
