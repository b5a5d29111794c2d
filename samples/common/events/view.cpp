#include "common/events/view.hpp"

#include "common/app.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace sample {

namespace {

const cv::Vec3f BACKGROUND(28, 18, 14), AMBER(64, 176, 255), AZURE(255, 150, 48);

cv::Vec3b color(float brighter, float darker) {
    cv::Vec3b out;
    for (int c = 0; c < 3; ++c)
        out[c] = cv::saturate_cast<uint8_t>(BACKGROUND[c] + brighter * (AMBER[c] - BACKGROUND[c]) +
                                            darker * (AZURE[c] - BACKGROUND[c]));
    return out;
}

// The 99th percentile, so that a few hot pixels do not darken the rest.
float whitePoint(std::vector<float> &values, float least) {
    if (values.empty())
        return least;
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size() - 1) * 0.99);
    std::nth_element(values.begin(), at, values.end());
    return std::max(*at, least);
}

float logScale(float value, float white) {
    return std::min(1.0f, std::log1p(value) / std::log1p(white));
}

std::vector<cv::Vec3b> shades(bool brighter) {
    return gradient(color(0, 0), brighter ? color(1, 0) : color(0, 1));
}

std::vector<Scale> polarityScales(const std::vector<Scale::Tick> &ticks, const std::string &unit) {
    return {{"darker, " + unit, shades(false), ticks}, {"brighter, " + unit, shades(true), ticks}};
}

// Colors each pixel by two magnitudes, of brighter and darker events.
template<class Magnitudes>
cv::Mat byPolarity(const cv::Mat &frame, float least, std::vector<Scale> &scales, Magnitudes magnitudes) {
    std::vector<float> values;
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x) {
            const cv::Vec2f m = magnitudes(y, x);
            if (m[0] > 0 || m[1] > 0)
                values.push_back(std::max(m[0], m[1]));
        }
    const float white = whitePoint(values, least);
    cv::Mat out(frame.size(), CV_8UC3);
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x) {
            const cv::Vec2f m = magnitudes(y, x);
            out.at<cv::Vec3b>(y, x) = color(logScale(m[0], white), logScale(m[1], white));
        }
    std::vector<Scale::Tick> ticks = {{0, "0"}};
    for (const float value : {1.0f, 3.0f, 9.0f, 30.0f, 90.0f, 300.0f})
        if (value < white)
            ticks.push_back({logScale(value, white), shortNumber(value)});
    ticks.push_back({1, shortNumber(white) + "+"});
    if (ticks.size() > 3 && ticks[ticks.size() - 2].at > 0.85)
        ticks.erase(ticks.end() - 2);
    scales = polarityScales(ticks, "events");
    return out;
}

// Colors each pixel by a time (0 old, 1 new), as strongly as its magnitude.
template<class Timed>
cv::Mat byTime(const cv::Mat &frame, std::vector<Scale> &scales, Timed timed) {
    static const std::vector<cv::Vec3b> colors = colorMap(cv::COLORMAP_TURBO, 24, 240); // without the dark ends of the map
    std::vector<float> values;
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x)
            if (const float m = timed(y, x)[0]; m > 0)
                values.push_back(m);
    const float white = whitePoint(values, 1e-6f);
    cv::Mat out(frame.size(), CV_8UC3);
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x) {
            const cv::Vec2f m = timed(y, x);
            const cv::Vec3b &hue = colors[cv::saturate_cast<uint8_t>(255 * m[1])];
            const float strength = m[0] > 0 ? 0.3f + 0.7f * std::min(1.0f, m[0] / white) : 0;
            for (int c = 0; c < 3; ++c)
                out.at<cv::Vec3b>(y, x)[c] =
                    cv::saturate_cast<uint8_t>(BACKGROUND[c] + strength * (static_cast<float>(hue[c]) - BACKGROUND[c]));
        }
    scales = {{"time, in the frame", colors, {{0, "start"}, {1, "end"}}},
              {"events", gradient(color(0, 0), {235, 235, 235}), {{0, "none"}, {1, "many"}}}};
    return out;
}

cv::Mat histogram(const cv::Mat &frame, bool swap, std::vector<Scale> &scales) {
    return byPolarity(frame, 3, scales, [&](int y, int x) {
        const uint8_t *v = frame.ptr<uint8_t>(y, x);
        return cv::Vec2f(v[swap ? 1 : 0], v[swap ? 0 : 1]);
    });
}

cv::Mat eventDifference(const cv::Mat &frame, std::vector<Scale> &scales) {
    return byPolarity(frame, 3, scales, [&](int y, int x) {
        const int8_t v = frame.at<int8_t>(y, x);
        return cv::Vec2f(static_cast<float>(std::max<int>(v, 0)), static_cast<float>(std::max(-v, 0)));
    });
}

cv::Mat tencode(const cv::Mat &frame, bool swap, std::vector<Scale> &scales) {
    cv::Mat out = frame.clone();
    if (swap)
        cv::cvtColor(frame, out, cv::COLOR_RGB2BGR);
    for (int y = 0; y < out.rows; ++y)
        for (int x = 0; x < out.cols; ++x)
            if (cv::Vec3b &v = out.at<cv::Vec3b>(y, x); v == cv::Vec3b(0, 0, 0))
                v = color(0, 0);
    const std::vector<Scale::Tick> ticks = {{0, "end"}, {1, "start"}};
    scales = {{"darker, last event", gradient({255, 0, 0}, {255, 255, 0}), ticks},
              {"brighter, last event", gradient({0, 0, 255}, {0, 255, 255}), ticks}};
    return out;
}

// Recency is that of the shortest window that contains an event of the pixel.
cv::Mat mdes(const cv::Mat &frame, bool bytes, std::vector<Scale> &scales) {
    const int channels = frame.channels();
    cv::Mat values;
    frame.convertTo(values, CV_32F, bytes ? 1 / 127.5 : 1, bytes ? -1 : 0);
    cv::Mat out(frame.size(), CV_8UC3);
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x) {
            const float *v = values.ptr<float>(y, x);
            int newest = channels - 1;
            while (newest >= 0 && std::fabs(v[newest]) < 0.5f)
                --newest;
            const float age = channels == 1 ? 1 : static_cast<float>(newest) / static_cast<float>(channels - 1);
            const float strength = channels == 1 ? 1 : 0.25f + 0.75f * age;
            out.at<cv::Vec3b>(y, x) = newest < 0 ? color(0, 0) : v[newest] > 0 ? color(strength, 0) : color(0, strength);
        }
    const std::vector<Scale::Tick> ticks = {{0, "old"}, {1, "new"}};
    scales = {{"darker, last event", gradient(color(0, 0.25f), color(0, 1)), ticks},
              {"brighter, last event", gradient(color(0.25f, 0), color(1, 0)), ticks}};
    return out;
}

cv::Mat mdesCount(const cv::Mat &frame, std::vector<Scale> &scales) {
    const int channels = frame.channels();
    return byTime(frame, scales, [&](int y, int x) {
        const uint8_t *v = frame.ptr<uint8_t>(y, x);
        int newest = channels - 1;
        while (newest > 0 && !v[newest])
            --newest;
        return cv::Vec2f(std::log1p(static_cast<float>(v[0])),
                         channels > 1 ? static_cast<float>(newest) / static_cast<float>(channels - 1) : 1);
    });
}

// The sum over all channels and its mean time bin. `together`: neighboring channels of one bin.
template<class T>
cv::Mat timeBins(const cv::Mat &frame, int bins, std::vector<Scale> &scales, int together = 1) {
    const int channels = frame.channels();
    return byTime(frame, scales, [&](int y, int x) {
        const T *v = frame.ptr<T>(y, x);
        float sum = 0, weighted = 0;
        for (int c = 0; c < channels; ++c) {
            const float weight = std::fabs(static_cast<float>(v[c]));
            sum += weight;
            weighted += weight * static_cast<float>(c / together % bins);
        }
        return cv::Vec2f(std::log1p(sum), sum > 0 && bins > 1 ? weighted / sum / static_cast<float>(bins - 1) : 1);
    });
}

cv::Mat timeSurface(const cv::Mat &frame, bool swap, double tau, std::vector<Scale> &scales) {
    cv::Mat out(frame.size(), CV_8UC3);
    for (int y = 0; y < frame.rows; ++y)
        for (int x = 0; x < frame.cols; ++x) {
            const float *v = frame.ptr<float>(y, x);
            out.at<cv::Vec3b>(y, x) = color(v[swap ? 1 : 0], v[swap ? 0 : 1]);
        }
    std::vector<Scale::Tick> ticks = {{1, "0"}};
    for (const double ago : {0.5, 1.0, 2.0})
        ticks.insert(ticks.begin(), {std::exp(-ago), shortNumber(1e-3 * ago * tau)});
    scales = polarityScales(ticks, "ms ago");
    return out;
}

} // namespace

cv::Mat eventPicture(const cusRepresentation &r, const cv::Mat &frame, std::vector<Scale> *wanted) {
    const bool swap = r.swap_channels != 0;
    std::vector<Scale> unused;
    std::vector<Scale> &scales = wanted ? *wanted : unused;
    switch (r.kind) {
    case CUS_REPR_HISTOGRAM:
        return histogram(frame, swap, scales);
    case CUS_REPR_TENCODE:
        return tencode(frame, swap, scales);
    case CUS_REPR_MDES:
        return mdes(frame, r.depth == CUS_8U, scales);
    case CUS_REPR_MDES_COUNT:
        return mdesCount(frame, scales);
    case CUS_REPR_STACKED_HISTOGRAM:
        return timeBins<uint8_t>(frame, frame.channels() / 2, scales);
    case CUS_REPR_VOXEL_GRID:
        return timeBins<float>(frame, frame.channels(), scales);
    case CUS_REPR_TIME_SURFACE:
        return timeSurface(frame, swap, r.tau, scales);
    case CUS_REPR_EVENT_CUBE:
        return timeBins<float>(frame, frame.channels() / 2, scales, 2);
    case CUS_REPR_MDES_DIFF: {
        cv::Mat all;
        cv::extractChannel(frame, all, frame.channels() - 1);
        return eventDifference(all, scales);
    }
    default: // CUS_REPR_EVENT_DIFF
        return eventDifference(frame, scales);
    }
}

} // namespace sample
