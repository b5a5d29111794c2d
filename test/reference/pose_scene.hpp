// Scenes for pose: parts that lie turned on textured ground, with noise, a light gradient and covered corners.
#pragma once

#include "reference/pose.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace reference {

struct PosePart {
    double x, y, angle, scale; // as in cusPoseMatch
};

struct PoseScene {
    PosePicture picture, templ;
    std::vector<PosePart> parts;
};

// Smooth noise in 0..1: values of a lattice, interpolated.
inline double latticeNoise(double x, double y, uint64_t salt) {
    const auto at = [&](double cx, double cy) {
        const uint64_t h = (salt + static_cast<uint64_t>(static_cast<int64_t>(cx)) * 0x9E3779B97F4A7C15u +
                            static_cast<uint64_t>(static_cast<int64_t>(cy)) * 0xC2B2AE3D27D4EB4Fu) *
                           0xD6E8FEB86659FD93u;
        return static_cast<double>((h ^ h >> 32) * 0xD6E8FEB86659FD93u >> 40) / (1 << 24);
    };
    const double cx = std::floor(x), cy = std::floor(y), fx = x - cx, fy = y - cy;
    const double upper = at(cx, cy) * (1 - fx) + at(cx + 1, cy) * fx,
                 lower = at(cx, cy + 1) * (1 - fx) + at(cx + 1, cy + 1) * fx;
    return upper * (1 - fy) + lower * fy;
}

// A plate with drilled holes, a milled slot and some texture, of which (u, v) are 0..1 from corner to corner.
inline double plate(double u, double v, uint64_t salt) {
    double value = 120 + 60 * latticeNoise(5 * u, 4 * v, salt) + 20 * latticeNoise(40 * u, 30 * v, salt + 1);
    for (int i = 0; i < 6; ++i) {
        const double x = 0.1 + 0.8 * latticeNoise(i, 0, salt + 2), y = 0.1 + 0.8 * latticeNoise(i, 1, salt + 2);
        const double distance = std::hypot(u - x, (v - y) * 0.7);
        value = distance < 0.05 ? 30 : distance < 0.065 ? 235 : value;
    }
    return u > 0.2 && u < 0.6 && std::fabs(v - 0.75) < 0.03 ? 60 : value;
}

inline uint8_t toPixel(double v) {
    return static_cast<uint8_t>(std::max(0.0, std::min(255.0, v + 0.5)));
}

// `count` parts in a picture of rows x cols, at whole degrees that are multiples of `step`, at most 20 pixels apart from the edge.
// texture: how much of the ground's is fine, 0..1.
inline PoseScene poseScene(int rows, int cols, int templ_rows, int templ_cols, int count, int step, double texture,
                           uint64_t seed) {
    PoseScene scene{{rows, cols, {}}, {templ_rows, templ_cols, {}}, {}};
    std::mt19937_64 random(seed);
    for (int y = 0; y < templ_rows; ++y)
        for (int x = 0; x < templ_cols; ++x)
            scene.templ.data.push_back(toPixel(plate((x + 0.5) / templ_cols, (y + 0.5) / templ_rows, seed)));
    const double radius = std::hypot(templ_rows, templ_cols) / 2 + 2;
    for (int i = 0; i < count; ++i) { // side by side
        const double space = cols / static_cast<double>(count), spare = std::max(0.0, space - 2 * radius);
        const auto share = [&] { return static_cast<double>(random() % 1024) / 1024; };
        scene.parts.push_back(
            {std::floor(space * i + radius + spare * share()),
             std::floor(radius + std::max(0.0, rows - 2 * radius) * share()),
             static_cast<double>(step * static_cast<int>(random() % static_cast<unsigned>(360 / step))) - 180, 1});
    }
    uint64_t state = seed | 1;
    for (int y = 0; y < rows; ++y)
        for (int x = 0; x < cols; ++x) {
            double value = 90 + (1 - texture) * 50 * latticeNoise(x / 37.0, y / 37.0, seed + 3) +
                           texture * 90 * latticeNoise(x / 3.0, y / 3.0, seed + 4);
            for (const PosePart &p : scene.parts) {
                const double c = std::cos(p.angle * M_PI / 180), s = std::sin(p.angle * M_PI / 180);
                const double u = (c * (x - p.x) - s * (y - p.y)) / templ_cols + 0.5,
                             v = (s * (x - p.x) + c * (y - p.y)) / templ_rows + 0.5;
                if (u >= 0 && u < 1 && v >= 0 && v < 1 && u + v > 0.25) // a corner is covered
                    value = plate(u, v, seed);
            }
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double noise = static_cast<double>((state >> 40 & 15) + (state >> 50 & 15)) - 15;
            scene.picture.data.push_back(toPixel(value + noise * 0.5 + 20.0 * x / cols - 10));
        }
    return scene;
}

} // namespace reference
