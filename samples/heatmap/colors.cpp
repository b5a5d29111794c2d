#include "heatmap/colors.hpp"

#include "common/video/legend.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace heatmap {

namespace {

constexpr int LEVELS = 766;    // sums of three differences of bytes
constexpr int SAMPLES = 40000; // pixels of a frame that are looked at

// The formula of cusHeatmap; n from 0 to 1.
cv::Vec3b classic(double n) {
    const double pi = std::acos(-1);
    const auto channel = [](double value) { return static_cast<uchar>(255 * std::max(0.0, value)); };
    return {channel(std::cos(pi * n)), channel(std::sin(pi * n)), channel(-std::cos(pi * n))};
}

// How many sampled pixels changed by 0 to 765.
std::vector<long long> histogramOf(const cv::Mat &before, const cv::Mat &now) {
    std::vector<long long> counts(LEVELS);
    const int step = std::max(1, static_cast<int>(std::sqrt(static_cast<double>(now.total()) / SAMPLES)));
    for (int y = 0; y < now.rows; y += step)
        for (int x = 0; x < now.cols; x += step) {
            const auto &a = before.at<cv::Vec3b>(y, x), &b = now.at<cv::Vec3b>(y, x);
            const int difference = std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]) + std::abs(a[2] - b[2]);
            ++counts[static_cast<size_t>(difference)];
        }
    return counts;
}

// The value below which `share` of those from `first` on lie.
int quantile(const std::vector<long long> &counts, int first, double share) {
    long long all = 0, below = 0;
    for (int d = first; d < LEVELS; ++d)
        all += counts[static_cast<size_t>(d)];
    int d = first;
    while (d + 1 < LEVELS &&
           static_cast<double>(below += counts[static_cast<size_t>(d)]) < share * static_cast<double>(all))
        ++d;
    return d;
}

} // namespace

const std::vector<std::string> &paletteNames() {
    static const std::vector<std::string> names = {"classic", "turbo", "viridis", "inferno", "gray"};
    return names;
}

std::vector<cv::Vec3b> paletteColors(const std::string &palette, int n, int full_scale) {
    std::vector<cv::Vec3b> map;
    if (palette == "gray")
        map = sample::gradient({0, 0, 0}, {255, 255, 255});
    else if (palette != "classic")
        map = sample::colorMap(palette == "turbo"     ? cv::COLORMAP_TURBO
                               : palette == "viridis" ? cv::COLORMAP_VIRIDIS
                                                      : cv::COLORMAP_INFERNO);
    std::vector<cv::Vec3b> colors;
    for (int d = 0; d < n; ++d) {
        const double at = std::min(1.0, static_cast<double>(d) / full_scale);
        colors.push_back(map.empty() ? classic(at) : map[static_cast<size_t>(std::lround(at * 255))]);
    }
    return colors;
}

int suitableFullScale(const std::vector<cv::Mat> &frames) {
    std::vector<int> scales, noises;
    for (size_t i = 1; i < frames.size() && frames[i].size() == frames[0].size(); ++i) {
        const std::vector<long long> counts = histogramOf(frames[i - 1], frames[i]);
        // Most pixels do not move: their median is the noise, which has few values above six times that.
        const int noise = quantile(counts, 0, 0.5), still = std::min(LEVELS - 1, std::max(30, 6 * noise));
        const auto first = counts.begin();
        noises.push_back(noise);
        if (5000 * std::accumulate(first + still, counts.end(), 0LL) >= std::accumulate(first, counts.end(), 0LL))
            scales.push_back(quantile(counts, still, 0.75));
    }
    const auto median = [](std::vector<int> &values) { // which a cut between two shots does not shift
        std::sort(values.begin(), values.end());
        return values.empty() ? 0 : values[values.size() / 2];
    };
    const int noise = median(noises);
    const int scale = !scales.empty() ? median(scales) : noise ? 12 * noise : 250;
    return std::max(150, std::min(LEVELS - 1, (scale + 9) / 10 * 10));
}

} // namespace heatmap
