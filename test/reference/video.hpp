// video in its plainest scalar form: the definition that both backends must match.
#pragma once

#include "cusight/video.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace reference {

// A picture in 4:2:0, by samples of 8 or 10 bits without padding; chroma has half the rows and columns, rounded up.
struct YuvPicture {
    int rows, cols, bits;
    std::vector<int> y, u, v;
    int chromaRows() const { return (rows + 1) / 2; }
    int chromaCols() const { return (cols + 1) / 2; }
};

// Coefficients, times 2^13: of y, v in red, u and v in green, u in blue.
struct YuvCoefficients {
    int y, rv, gu, gv, bu;
};

inline YuvCoefficients yuvCoefficients(const cusYuvOptions &o, int bits) {
    static const YuvCoefficients limited[] = {
        {9539, 13075, -3209, -6660, 16525}, {9539, 14686, -1747, -4366, 17305}, {9539, 13752, -1535, -5328, 17545}};
    static const YuvCoefficients full8[] = {
        {8192, 11485, -2819, -5850, 14516}, {8192, 12901, -1535, -3835, 15201}, {8192, 12080, -1348, -4681, 15412}};
    static const YuvCoefficients full10[] = {
        {8168, 11452, -2811, -5833, 14474}, {8168, 12863, -1530, -3824, 15156}, {8168, 12044, -1344, -4667, 15367}};
    return (!o.full_range ? limited : bits == 8 ? full8 : full10)[o.matrix];
}

// The nearest integer below number / 2^bits.
inline int64_t floorShift(int64_t number, int bits) {
    const int64_t divisor = int64_t{1} << bits;
    return (number - ((number % divisor) + divisor) % divisor) / divisor;
}

// Samples along one axis for pixel x, and their weights, which sum to 4.
struct Taps {
    int at[2], weight[2];
};
inline Taps taps(int x, bool between, int count) {
    const int k = x / 2;
    Taps t = {};
    if (between)
        t = x % 2 ? Taps{{k, k + 1}, {3, 1}} : Taps{{k - 1, k}, {1, 3}};
    else
        t = x % 2 ? Taps{{k, k + 1}, {2, 2}} : Taps{{k, k}, {2, 2}};
    for (int &at : t.at)
        at = std::clamp(at, 0, count - 1);
    return t;
}

inline int chromaSum(const std::vector<int> &plane, const YuvPicture &p, int x, int y, cusYuvSiting siting) {
    const Taps across = taps(x, siting == CUS_YUV_CENTER || siting == CUS_YUV_TOP, p.chromaCols());
    const Taps down = taps(y, siting == CUS_YUV_LEFT || siting == CUS_YUV_CENTER, p.chromaRows());
    int sum = 0;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            sum +=
                across.weight[i] * down.weight[j] * plane[static_cast<size_t>(down.at[j] * p.chromaCols() + across.at[i])];
    return sum;
}

inline std::vector<uint8_t> yuvToBgr(const YuvPicture &p, const cusYuvOptions &o) {
    const YuvCoefficients c = yuvCoefficients(o, p.bits);
    const int unit = p.bits == 8 ? 1 : 4, bits = p.bits == 8 ? 17 : 19;
    std::vector<uint8_t> bgr;
    for (int y = 0; y < p.rows; ++y)
        for (int x = 0; x < p.cols; ++x) {
            const int64_t light = 16 * (p.y[static_cast<size_t>(y * p.cols + x)] - (o.full_range ? 0 : 16 * unit));
            const int64_t u = chromaSum(p.u, p, x, y, o.siting) - 16 * 128 * unit;
            const int64_t v = chromaSum(p.v, p, x, y, o.siting) - 16 * 128 * unit;
            for (const int64_t sum : {c.y * light + c.bu * u, c.y * light + c.gu * u + c.gv * v, c.y * light + c.rv * v})
                bgr.push_back(
                    static_cast<uint8_t>(std::clamp<int64_t>(floorShift(sum + (int64_t{1} << (bits - 1)), bits), 0, 255)));
        }
    return bgr;
}

// The green of neutral chroma.
inline std::vector<uint8_t> yuvToGray(YuvPicture p, const cusYuvOptions &o) {
    const auto chroma = static_cast<size_t>(p.chromaRows() * p.chromaCols());
    p.u.assign(chroma, p.bits == 8 ? 128 : 512);
    p.v = p.u;
    const std::vector<uint8_t> bgr = yuvToBgr(p, o);
    std::vector<uint8_t> gray;
    for (size_t i = 1; i < bgr.size(); i += 3)
        gray.push_back(bgr[i]);
    return gray;
}

} // namespace reference
