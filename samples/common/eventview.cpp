#include "eventview.hpp"

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

// Colors each pixel by two magnitudes, of brighter and darker events.
template<class Magnitudes>
cv::Mat byPolarity(const cv::Mat &frame, float least, Magnitudes magnitudes) {
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
    return out;
}

// Colors each pixel by a time (0 old, 1 new), as strongly as its magnitude.
template<class Timed>
cv::Mat byTime(const cv::Mat &frame, Timed timed) {
    static const cv::Mat colors = [] {
        cv::Mat ramp(1, 256, CV_8UC1), out;
        for (int i = 0; i < 256; ++i)
            ramp.at<uint8_t>(0, i) = static_cast<uint8_t>(24 + i * 216 / 255); // without the dark ends of the color map
        cv::applyColorMap(ramp, out, cv::COLORMAP_TURBO);
        return out;
    }();
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
            const cv::Vec3b &hue = colors.at<cv::Vec3b>(0, cv::saturate_cast<uint8_t>(255 * m[1]));
            const float strength = m[0] > 0 ? 0.3f + 0.7f * std::min(1.0f, m[0] / white) : 0;
            for (int c = 0; c < 3; ++c)
                out.at<cv::Vec3b>(y, x)[c] =
                    cv::saturate_cast<uint8_t>(BACKGROUND[c] + strength * (static_cast<float>(hue[c]) - BACKGROUND[c]));
        }
    return out;
}

} // namespace

cv::Mat eventPicture(const cusRepresentation &r, const cv::Mat &frame) {
    const int channels = frame.channels();
    switch (r.kind) {
    case CUS_REPR_HISTOGRAM:
        return byPolarity(frame, 3, [&](int y, int x) {
            const uint8_t *v = frame.ptr<uint8_t>(y, x);
            return cv::Vec2f(v[r.swap_channels ? 1 : 0], v[r.swap_channels ? 0 : 1]);
        });
    case CUS_REPR_TENCODE: {
        cv::Mat out = frame.clone();
        if (r.swap_channels)
            cv::cvtColor(frame, out, cv::COLOR_RGB2BGR);
        for (int y = 0; y < out.rows; ++y)
            for (int x = 0; x < out.cols; ++x)
                if (cv::Vec3b &v = out.at<cv::Vec3b>(y, x); v == cv::Vec3b(0, 0, 0))
                    v = color(0, 0);
        return out;
    }
    case CUS_REPR_MDES: {
        // The shortest window that contains an event of the pixel tells how recent that is.
        cv::Mat values;
        frame.convertTo(values, CV_32F, r.depth == CUS_8U ? 1 / 127.5 : 1, r.depth == CUS_8U ? -1 : 0);
        cv::Mat out(frame.size(), CV_8UC3);
        for (int y = 0; y < frame.rows; ++y)
            for (int x = 0; x < frame.cols; ++x) {
                const float *v = values.ptr<float>(y, x);
                int newest = channels - 1;
                while (newest >= 0 && std::fabs(v[newest]) < 0.5f)
                    --newest;
                const float strength = newest < 0 ? 0
                                       : channels == 1
                                           ? 1
                                           : 0.25f + 0.75f * static_cast<float>(newest) / static_cast<float>(channels - 1);
                out.at<cv::Vec3b>(y, x) = newest < 0      ? color(0, 0)
                                          : v[newest] > 0 ? color(strength, 0)
                                                          : color(0, strength);
            }
        return out;
    }
    case CUS_REPR_MDES_COUNT:
        return byTime(frame, [&](int y, int x) {
            const uint8_t *v = frame.ptr<uint8_t>(y, x);
            int newest = channels - 1;
            while (newest > 0 && !v[newest])
                --newest;
            return cv::Vec2f(std::log1p(static_cast<float>(v[0])),
                             channels > 1 ? static_cast<float>(newest) / static_cast<float>(channels - 1) : 1);
        });
    case CUS_REPR_STACKED_HISTOGRAM:
        return byTime(frame, [&](int y, int x) {
            const uint8_t *v = frame.ptr<uint8_t>(y, x);
            const int bins = channels / 2;
            float sum = 0, when = 0;
            for (int b = 0; b < channels; ++b) {
                sum += v[b];
                when += static_cast<float>(v[b] * (b % bins));
            }
            return cv::Vec2f(std::log1p(sum), sum > 0 && bins > 1 ? when / sum / static_cast<float>(bins - 1) : 1);
        });
    case CUS_REPR_VOXEL_GRID:
        return byTime(frame, [&](int y, int x) {
            const float *v = frame.ptr<float>(y, x);
            float sum = 0, when = 0;
            for (int b = 0; b < channels; ++b) {
                sum += std::fabs(v[b]);
                when += std::fabs(v[b]) * static_cast<float>(b);
            }
            return cv::Vec2f(std::log1p(sum), sum > 0 && channels > 1 ? when / sum / static_cast<float>(channels - 1) : 1);
        });
    case CUS_REPR_TIME_SURFACE: {
        cv::Mat out(frame.size(), CV_8UC3);
        for (int y = 0; y < frame.rows; ++y)
            for (int x = 0; x < frame.cols; ++x) {
                const float *v = frame.ptr<float>(y, x);
                out.at<cv::Vec3b>(y, x) = color(v[r.swap_channels ? 1 : 0], v[r.swap_channels ? 0 : 1]);
            }
        return out;
    }
    default: // CUS_REPR_EVENT_DIFF
        return byPolarity(frame, 3, [&](int y, int x) {
            const int8_t v = frame.at<int8_t>(y, x);
            return cv::Vec2f(static_cast<float>(std::max<int>(v, 0)), static_cast<float>(std::max(-v, 0)));
        });
    }
}

} // namespace sample
