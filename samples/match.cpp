// cusight-match: finds one or several templates in an image, a video or a camera's pictures, draws the matches, and tells
// filled from empty by the color inside them.
#include "common/app.hpp"
#include "common/options.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/match.h"
#include "cusight/opencv.hpp"

#include <opencv2/highgui.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace {

using cusight::check;

struct Settings {
    sample::Common common;
    std::string input, mask, csv, method = "sqdiff", lower, upper;
    std::vector<std::string> templates;
    std::vector<cv::Rect> rois;
    bool gray = false, subpixel = false;
    int top_k = 1, min_distance = 0, frames = 0;
    double limit = NAN, min_fill = 0.3;
    bool limited = false;
};

// "a,b,c" as numbers; false where it is not `n` of them.
bool numbers(const std::string &text, int n, int *values) {
    const char *at = text.c_str();
    for (int i = 0; i < n; ++i) {
        char *end = nullptr;
        values[i] = static_cast<int>(std::strtol(at, &end, 10));
        if (end == at || *end != (i + 1 < n ? ',' : '\0'))
            return false;
        at = end + 1;
    }
    return true;
}

const std::vector<std::string> METHODS = {"sqdiff", "sqdiff-normed", "ccorr", "ccorr-normed", "ccoeff", "ccoeff-normed"};

// Templates of one size, which share a matcher.
struct Group {
    std::vector<int> members; // numbers of the templates
    std::vector<cusMat> mats;
    cusMatcher *matcher = nullptr;
    Group() = default;
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;
    ~Group() {
        cusMatcherDestroy(matcher);
        for (cusMat &m : mats)
            cusMatRelease(&m);
    }
};

class Finder {
  public:
    Finder(const Settings &settings, const sample::Device &device, const std::vector<cv::Mat> &templates, cv::Size frame,
           bool inspect, const cusHsvRange &range)
        : settings_(settings), space_(device.space), inspect_(inspect), range_(range) {
        if (space_ == CUS_DEVICE)
            check(cusStreamCreate(&stream_));
        cusMatcherOptions options = cusMatcherDefaults();
        options.method =
            static_cast<cusMatchMethod>(std::find(METHODS.begin(), METHODS.end(), settings.method) - METHODS.begin());
        options.max_matches = settings.top_k;
        options.subpixel = settings.subpixel;
        for (size_t i = 0; i < templates.size(); ++i) {
            const cv::Mat &t = templates[i];
            if (t.cols > frame.width || t.rows > frame.height)
                throw sample::Stop(sample::USAGE, sample::text("template %zu is %d x %d, the frames are only %d x %d", i,
                                                               t.cols, t.rows, frame.width, frame.height));
            auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group &g) {
                return templates[static_cast<size_t>(g.members[0])].size() == t.size();
            });
            if (group == groups_.end()) {
                groups_.emplace_back();
                group = std::prev(groups_.end());
            }
            group->members.push_back(static_cast<int>(i));
            group->mats.push_back(place(toType(t)));
        }
        for (Group &group : groups_) {
            const cv::Size size = templates[static_cast<size_t>(group.members[0])].size();
            cusMat mask = CUS_MAT_INIT;
            double counted = size.area() * (settings.gray ? 1.0 : 3.0);
            if (!settings.mask.empty()) {
                const cv::Mat picture = cv::imread(settings.mask, cv::IMREAD_GRAYSCALE);
                if (picture.empty())
                    throw sample::Stop(sample::INPUT, settings.mask + " cannot be read as an image");
                counted *= static_cast<double>(cv::countNonZero(picture)) / static_cast<double>(picture.total());
                mask = place(picture);
                options.mask = &mask;
            }
            options.min_distance =
                settings.min_distance ? settings.min_distance : std::max(1, std::min(size.width, size.height) / 2);
            if (settings.limited) // a difference is given per value
                options.score_limit =
                    settings.method == "sqdiff" ? settings.limit * settings.limit * counted : settings.limit;
            const cusStatus status =
                cusMatcherCreate(&group.matcher, group.mats.data(), static_cast<int>(group.mats.size()), frame.height,
                                 frame.width, &options, stream_);
            cusMatRelease(&mask);
            if (status == CUS_ERROR_SIZE || status == CUS_ERROR_VALUE)
                throw sample::Stop(sample::USAGE, cusLastError());
            check(status);
        }
    }
    ~Finder() {
        if (stream_)
            cusStreamSynchronize(stream_);
        groups_.clear();
        cusMatRelease(&color_);
        cusMatRelease(&gray_);
        cusStreamDestroy(stream_);
    }
    Finder(const Finder &) = delete;
    Finder &operator=(const Finder &) = delete;

    // Matches of each template.
    std::vector<std::vector<cusMatch>> find(const cv::Mat &frame, size_t templates) {
        if (inspect_ || !settings_.gray)
            send(frame, color_);
        if (settings_.gray) {
            cv::cvtColor(frame, host_grey_, cv::COLOR_BGR2GRAY);
            send(host_grey_, gray_);
        }
        std::vector<std::vector<cusMatch>> found(templates);
        for (Group &group : groups_) {
            check(cusMatcherRun(group.matcher, settings_.gray ? &gray_ : &color_, nullptr, stream_));
            if (inspect_)
                check(cusMatcherInspect(group.matcher, &color_, &range_, settings_.min_fill, stream_));
        }
        for (Group &group : groups_)
            for (size_t i = 0; i < group.members.size(); ++i) {
                std::vector<cusMatch> matches(static_cast<size_t>(settings_.top_k));
                int n = 0;
                check(cusMatcherGet(group.matcher, static_cast<int>(i), matches.data(), settings_.top_k, &n, stream_));
                matches.resize(static_cast<size_t>(n));
                found[static_cast<size_t>(group.members[i])] = matches;
            }
        return found;
    }

  private:
    cv::Mat toType(const cv::Mat &picture) const {
        cv::Mat result = picture;
        if (settings_.gray)
            cv::cvtColor(picture, result, cv::COLOR_BGR2GRAY);
        return result;
    }
    // In the device's memory or the host's.
    void send(const cv::Mat &picture, cusMat &mat) const {
        const cusMat view = cusight::view(picture);
        check(space_ == CUS_DEVICE ? cusMatUpload(&view, &mat, stream_) : cusMatCopy(&view, &mat, nullptr));
    }
    cusMat place(const cv::Mat &picture) const {
        cusMat mat = CUS_MAT_INIT;
        send(picture, mat);
        return mat;
    }

    const Settings &settings_;
    const cusSpace space_;
    const bool inspect_;
    const cusHsvRange range_;
    cusStream stream_ = nullptr;
    std::list<Group> groups_;
    cusMat color_ = CUS_MAT_INIT, gray_ = CUS_MAT_INIT;
    cv::Mat host_grey_;
};

void draw(cv::Mat &picture, const cusMatch &m, cv::Size size, const std::string &label) {
    const cv::Scalar green(0, 220, 0), red(0, 0, 230);
    const cv::Scalar color = m.filled == 0 ? red : green;
    cv::rectangle(picture, cv::Rect({m.x, m.y}, size), color, 2);
    const int width = cv::getTextSize(label, cv::FONT_HERSHEY_SIMPLEX, 0.45, 1, nullptr).width;
    const cv::Point at(std::max(0, std::min(m.x, picture.cols - width - 2)), m.y >= 16 ? m.y - 5 : m.y + size.height + 14);
    cv::putText(picture, label, at, cv::FONT_HERSHEY_SIMPLEX, 0.45, {0, 0, 0}, 3, cv::LINE_AA);
    cv::putText(picture, label, at, cv::FONT_HERSHEY_SIMPLEX, 0.45, color, 1, cv::LINE_AA);
}

int run(int argc, char **argv) {
    Settings s;
    sample::Options options(
        "cusight-match", "Finds templates in pictures and draws the matches in green with their scores. With --hsv-lower "
                         "and --hsv-upper it counts the pixels of that color inside each match and calls it filled "
                         "(green) or empty (red).");
    options.argument(s.input, "INPUT", sample::SOURCE_HELP);
    options.custom("--template", "FILE", "an image to find; may be given several times", [&](const std::string &v) {
        s.templates.push_back(v);
        return std::string(v.empty() ? "a file name" : "");
    });
    options.custom("--roi", "X,Y,W,H", "a rectangle of the first frame to find; may be given several times",
                   [&](const std::string &v) {
                       int n[4];
                       if (!numbers(v, 4, n) || n[2] < 1 || n[3] < 1)
                           return std::string("four numbers X,Y,W,H");
                       s.rois.emplace_back(n[0], n[1], n[2], n[3]);
                       return std::string();
                   });
    options.text(s.mask, "--mask", "FILE", "image of the template's size: black pixels do not count (sqdiff, ccorr)");
    options.choice(s.method, "--method", METHODS, "how to score");
    options.flag(s.gray, "--gray", "match gray pictures; the color is still counted in color");
    options.number(s.top_k, "--top-k", "N", "matches to find per template", 1, 1024);
    options.number(s.min_distance, "--min-distance", "N", "pixels between two matches; 0: half the template", 0, 100000);
    options.custom("--limit", "X",
                   "drop worse matches: sqdiff takes the root mean square difference per value, the others their score",
                   [&](const std::string &v) {
                       char *end = nullptr;
                       s.limit = std::strtod(v.c_str(), &end);
                       s.limited = true;
                       return std::string(v.empty() || *end ? "a number" : "");
                   });
    options.flag(s.subpixel, "--subpixel", "positions to fractions of a pixel, in the CSV");
    cusHsvRange range = {{0, 0, 0}, {179, 255, 255}};
    bool inspect = false;
    for (bool upper : {false, true})
        options.custom(upper ? "--hsv-upper" : "--hsv-lower", "H,S,V",
                       upper ? "to this color; a smaller hue than the lower one wraps around through red"
                             : "count colors from here: H 0..179, S and V 0..255",
                       [&, upper](const std::string &v) {
                           int n[3];
                           if (!numbers(v, 3, n) || n[0] < 0 || n[0] > 179 || n[1] < 0 || n[1] > 255 || n[2] < 0 ||
                               n[2] > 255)
                               return std::string("three numbers H,S,V: 0..179, 0..255, 0..255");
                           for (int i = 0; i < 3; ++i)
                               (upper ? range.upper : range.lower)[i] = static_cast<uint8_t>(n[i]);
                           inspect = true;
                           return std::string();
                       });
    options.number(s.min_fill, "--min-fill", "F", "share of a match that must have the color to be filled", 0, 1);
    options.text(s.csv, "--csv", "FILE", "write every match: frame, template, rank, x, y, score, pixels, filled");
    options.number(s.frames, "--frames", "N", "stop after N frames; 0: never", 0, 1000000000);
    options.common(s.common, std::string(sample::SINK_HELP) + "match.mp4");
    if (!options.parse(argc, argv))
        return sample::OK;

    // The display is asked first: that forks, and there must be no threads and no CUDA yet.
    const bool display = !s.common.headless && sample::displayProblem().empty();
    const std::unique_ptr<sample::Source> source = sample::openSource(s.input);
    cv::Mat frame;
    if (!source->read(frame))
        throw sample::Stop(sample::INPUT, source->name() + " holds no frame");
    std::vector<cv::Mat> templates;
    for (const std::string &file : s.templates) {
        templates.push_back(cv::imread(file, cv::IMREAD_COLOR));
        if (templates.back().empty())
            throw sample::Stop(sample::INPUT, file + " cannot be read as an image");
    }
    if (templates.empty() && s.rois.empty() && display) {
        s.rois.push_back(cv::selectROI("cusight-match: choose what to find, then press Enter", frame));
        cv::destroyAllWindows();
    }
    for (const cv::Rect &roi : s.rois) {
        if (roi.area() == 0 || (roi & cv::Rect({0, 0}, frame.size())) != roi)
            throw sample::Stop(sample::USAGE, sample::text("the rectangle %d,%d,%d,%d is not inside the frame, %d x %d",
                                                           roi.x, roi.y, roi.width, roi.height, frame.cols, frame.rows));
        templates.push_back(frame(roi).clone());
    }
    if (templates.empty())
        throw sample::Stop(sample::USAGE, "nothing to find: give --template or --roi");

    const sample::Device device = sample::chooseDevice(s.common.device);
    Finder finder(s, device, templates, frame.size(), inspect, range);
    const std::unique_ptr<FILE, int (*)(FILE *)> csv(s.csv.empty() ? nullptr : std::fopen(s.csv.c_str(), "w"),
                                                     [](FILE *file) { return file ? std::fclose(file) : 0; });
    if (!s.csv.empty() && !csv)
        throw sample::Stop(sample::OUTPUT, s.csv + " cannot be written");
    if (csv)
        std::fprintf(csv.get(), "frame,template,rank,x,y,score,pixels,filled\n");
    const std::unique_ptr<sample::Sink> sink =
        sample::openSink(s.common, "cusight-match", "match.mp4", source->size(), source->fps());
    long long total = source->frames();
    if (s.frames)
        total = total ? std::min<long long>(total, s.frames) : s.frames;
    sample::Progress progress("frames", total);

    long long frames = 0, matches = 0, filled = 0;
    cusMatch first = {};
    cv::Mat picture;
    do {
        const auto found = finder.find(frame, templates.size());
        frame.copyTo(picture);
        for (size_t t = 0; t < found.size(); ++t)
            for (size_t rank = 0; rank < found[t].size(); ++rank) {
                const cusMatch &m = found[t][rank];
                std::string label = sample::text("%.6g", m.score);
                if (inspect)
                    label += sample::text(" %s %.0f %%", m.filled ? "filled" : "empty",
                                          100.0 * m.pixels / templates[t].size().area());
                draw(picture, m, templates[t].size(), label);
                if (csv)
                    std::fprintf(csv.get(), "%lld,%zu,%zu,%.9g,%.9g,%.17g,%u,%d\n", frames, t, rank,
                                 m.x + static_cast<double>(m.dx), m.y + static_cast<double>(m.dy), m.score, m.pixels,
                                 m.filled);
                if (matches++ == 0)
                    first = m;
                filled += m.filled == 1;
            }
        progress.update(++frames, sample::text("%lld matches", matches));
        if (!sink->write(picture))
            break;
    } while ((!s.frames || frames < s.frames) && !sample::interrupted() && source->read(frame));
    sink->finish();
    const double seconds = progress.seconds();
    progress.finish();
    if (csv && (std::fflush(csv.get()) != 0 || std::ferror(csv.get())))
        throw sample::Stop(sample::OUTPUT, s.csv + " cannot be written");

    sample::figure("input", "%s, %d x %d", source->name().c_str(), source->size().width, source->size().height);
    sample::figure("device", "%s", device.name.c_str());
    for (size_t t = 0; t < templates.size(); ++t)
        sample::figure("template", "%d x %d, method %s", templates[t].cols, templates[t].rows, s.method.c_str());
    sample::figure("frames", "%lld, %.1f frames/s", frames, static_cast<double>(frames) / seconds);
    sample::figure("matches", "%lld", matches);
    if (matches)
        sample::figure("first match", "x %d, y %d, score %.17g", first.x, first.y, first.score);
    if (inspect)
        sample::figure("filled", "%lld of %lld", filled, matches);
    sample::figure("output", "%s", sink->name().c_str());
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
