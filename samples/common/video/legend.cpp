#include "common/video/legend.hpp"

#include "common/app.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>

namespace sample {

namespace {

constexpr int NARROWEST = 200; // pixels
constexpr int FONT = cv::FONT_HERSHEY_SIMPLEX;
const cv::Scalar PAPER(24, 24, 24), INK(225, 225, 225);

double stripScale(int width) {
    return std::min(3.0, std::max(0.38, width / 1200.0));
}

// The width of the strip's letters: pages show wide pictures small, where thin lines fade.
int strokeOf(double scale) {
    return std::max(1, cvRound(1.7 * scale));
}

void put(cv::Mat &strip, const std::string &words, cv::Point at, double scale) {
    cv::putText(strip, words, at, FONT, scale, INK, strokeOf(scale), cv::LINE_AA);
}

// Draws one scale into its part of the strip.
void drawScale(cv::Mat part, const Scale &scale, double letters) {
    const int margin = cvRound(14 * letters), height = part.rows;
    const int baseline = cvRound(26 * letters), thick = strokeOf(letters);
    const auto widthOf = [&](const std::string &words) {
        return cv::getTextSize(words, FONT, letters, thick, nullptr).width;
    };
    std::string words = scale.title; // without what is in parentheses or behind a comma, where there is little room
    for (const char *const rest : {" (", ","})
        if (2 * widthOf(words) > part.cols)
            words.erase(std::min(words.size(), words.find(rest)));
    const int title = widthOf(words);
    int last = 0; // room for the half of the last number beyond the bar
    for (const Scale::Tick &tick : scale.ticks)
        last = std::max(last, widthOf(tick.label) / 2);
    const int left = margin + title + 2 * margin + last / 2, right = part.cols - margin - last;
    put(part, words, {margin, height / 2 + cvRound(9 * letters)}, letters);
    if (right - left < 3 * margin)
        return;
    const int top = cvRound(8 * letters), bottom = height - cvRound(43 * letters);
    for (int x = left; x < right; ++x) {
        const size_t n = scale.colors.size();
        const size_t i = std::min(n - 1, n * static_cast<size_t>(x - left) / static_cast<size_t>(right - left));
        const cv::Vec3b &c = scale.colors[i];
        cv::line(part, {x, top}, {x, bottom}, cv::Scalar(c[0], c[1], c[2]));
    }
    cv::rectangle(part, {left - 1, top - 1}, {right, bottom + 1}, {110, 110, 110});
    int free_from = 0;
    for (const Scale::Tick &tick : scale.ticks) {
        const int x = left + cvRound(tick.at * (right - 1 - left));
        const int width = widthOf(tick.label);
        cv::line(part, {x, bottom}, {x, bottom + cvRound(6 * letters)}, INK);
        const int from = std::max(0, std::min(x - width / 2, part.cols - width));
        if (from < free_from) // it would cover the number before
            continue;
        put(part, tick.label, {from, bottom + cvRound(6 * letters) + baseline}, letters);
        free_from = from + width + margin / 2;
    }
}

} // namespace

std::vector<cv::Vec3b> colorMap(int map, int from, int to) {
    cv::Mat ramp(1, 256, CV_8UC1), colors;
    for (int i = 0; i < 256; ++i)
        ramp.at<uchar>(0, i) = cv::saturate_cast<uchar>(from + (to - from) * i / 255.0);
    cv::applyColorMap(ramp, colors, map);
    return {colors.begin<cv::Vec3b>(), colors.end<cv::Vec3b>()};
}

std::vector<Scale::Tick> roundTicks(double low, double high) {
    const double span = high - low;
    if (span <= 0)
        return {{0.5, shortNumber(low)}};
    double step = std::pow(10, std::floor(std::log10(span / 4)));
    for (const double times : {2.0, 2.5, 2.0})
        if (span / step > 6)
            step *= times;
    std::vector<Scale::Tick> ticks;
    const auto first = std::llround(std::ceil(low / step - 1e-9)), last = std::llround(std::floor(high / step + 1e-9));
    for (long long k = first; k <= last; ++k) {
        const double value = static_cast<double>(k) * step;
        ticks.push_back({std::min(1.0, (value - low) / span), shortNumber(value)});
    }
    return ticks;
}

std::vector<cv::Vec3b> gradient(const cv::Vec3b &from, const cv::Vec3b &to) {
    std::vector<cv::Vec3b> colors(256);
    for (int i = 0; i < 256; ++i)
        for (int c = 0; c < 3; ++c)
            colors[static_cast<size_t>(i)][c] = cv::saturate_cast<uchar>(from[c] + (to[c] - from[c]) * i / 255.0);
    return colors;
}

int legendHeight(int picture_width) {
    return picture_width < NARROWEST ? 0 : 2 * cvRound(41 * stripScale(picture_width));
}

void drawLegend(cv::Mat &strip, const std::vector<Scale> &scales) {
    strip = PAPER;
    const int n = static_cast<int>(scales.size());
    for (int i = 0; i < n; ++i) {
        const int from = strip.cols * i / n, to = strip.cols * (i + 1) / n;
        drawScale(strip(cv::Rect(from, 0, to - from, strip.rows)), scales[static_cast<size_t>(i)], stripScale(strip.cols));
    }
}

cv::Mat withLegend(const cv::Mat &picture, const std::vector<Scale> &scales) {
    cv::Mat out(picture.rows + legendHeight(picture.cols), picture.cols, CV_8UC3);
    cv::Mat strip = out.rowRange(0, out.rows - picture.rows), below = out.rowRange(out.rows - picture.rows, out.rows);
    if (picture.channels() == 1)
        cv::cvtColor(picture, below, cv::COLOR_GRAY2BGR);
    else
        picture.copyTo(below);
    if (strip.rows)
        drawLegend(strip, scales);
    return out;
}

// ---- Labels ------------------------------------------------------------------------------------------------------------

double Labels::scaleFor(cv::Size picture) {
    return std::max(0.4, picture.width / 1600.0);
}

cv::Size Labels::sizeOf(const std::string &label, double scale) {
    int below = 0;
    const cv::Size size = cv::getTextSize(label, FONT, scale, std::max(1, cvRound(1.3 * scale)), &below);
    return {size.width, size.height + below};
}

bool Labels::isFree(const cv::Rect &box) const {
    return (box & cv::Rect({0, 0}, picture_)) == box &&
           std::none_of(occupied_.begin(), occupied_.end(),
                        [&](const cv::Rect &other) { return (other & box).area() > 0; });
}

void Labels::draw(cv::Mat &picture, const std::string &label, cv::Point at, double scale, const cv::Scalar &color,
                  const cv::Scalar &outline) {
    int below = 0;
    const int thick = std::max(1, cvRound(1.3 * scale));
    const cv::Size size = cv::getTextSize(label, FONT, scale, thick, &below);
    const cv::Point base(at.x, at.y + size.height);
    cv::putText(picture, label, base, FONT, scale, outline, thick + 2, cv::LINE_AA);
    cv::putText(picture, label, base, FONT, scale, color, thick, cv::LINE_AA);
    occupy({at, cv::Size(size.width, size.height + below)});
}

} // namespace sample
