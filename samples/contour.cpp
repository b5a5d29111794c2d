// cusight-contour: elevation and contour map of a stereo pair, or of each frame of a side-by-side video.
#include "common/app.hpp"
#include "common/options.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/opencv.hpp"
#include "cusight/stereo.h"

#include <opencv2/highgui.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

using cusight::check;

const char *const TITLE = "cusight-contour";

struct Settings {
    sample::Common common;
    std::string left, right, view = "picture", preset = "smooth", elevation_file, cloud_file, lines_file, edges_file;
    cusStereoOptions stereo = cusStereoDefaults();
    double threshold = cusStereoDefaults().threshold, tolerance = cusStereoDefaults().tolerance;
    double focal = 0, baseline = 1;
    int reduce = 1, frames = 0;
    bool no_labels = false;
};

// A matrix on the device of the run, and its way to and from cv::Mat.
class Mat {
  public:
    explicit Mat(cusSpace space) : space_(space) {}
    ~Mat() { cusMatRelease(&mat); }
    Mat(const Mat &) = delete;
    Mat &operator=(const Mat &) = delete;

    void set(const cv::Mat &from) {
        const cusMat host = cusight::view(from);
        check(cusMatCreate(&mat, from.rows, from.cols, from.type(), space_));
        check(space_ == CUS_DEVICE ? cusMatUpload(&host, &mat, nullptr) : cusMatCopy(&host, &mat, nullptr));
    }
    cv::Mat get() const {
        cv::Mat to(mat.rows, mat.cols, mat.type);
        cusMat host = cusight::view(to);
        check(space_ == CUS_DEVICE ? cusMatDownload(&mat, &host, nullptr) : cusMatCopy(&mat, &host, nullptr));
        if (space_ == CUS_DEVICE)
            check(cusStreamSynchronize(nullptr));
        return to;
    }
    cusMat mat = CUS_MAT_INIT;

  private:
    cusSpace space_;
};

struct Result {
    cv::Mat elevation, lines, edges, picture;
};

// One size of pair, made anew when an option changes.
class Engine {
  public:
    Engine(const sample::Device &device, cv::Size size, const cusStereoOptions &options)
        : device_(device), options_(options), left_(device.space), right_(device.space), elevation_(device.space),
          lines_(device.space), edges_(device.space), picture_(device.space) {
        check(cusContourMapperCreate(&mapper_, size.height, size.width, CUS_8UC1, device.space, &options));
    }
    ~Engine() { cusContourMapperDestroy(mapper_); }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    Result run(const cv::Mat &left, const cv::Mat &right, bool with_edges) {
        left_.set(left);
        right_.set(right);
        check(cusContourMap(mapper_, &left_.mat, &right_.mat, &elevation_.mat, &lines_.mat, nullptr));
        check(cusStereoPicture(&elevation_.mat, &lines_.mat, &picture_.mat, nullptr));
        Result r{elevation_.get(), lines_.get(), {}, picture_.get()};
        if (with_edges) {
            check(cusStereoEdges(&left_.mat, &edges_.mat, &options_, nullptr));
            r.edges = edges_.get();
        }
        return r;
    }

  private:
    const sample::Device &device_;
    const cusStereoOptions options_;
    cusContourMapper *mapper_ = nullptr;
    Mat left_, right_, elevation_, lines_, edges_, picture_;
};

// Writes the shift of each line beside it, where there is room.
void label(cv::Mat &picture, const cv::Mat &elevation, int levels) {
    double low = 0, high = 0;
    cv::minMaxLoc(elevation, &low, &high);
    std::vector<cv::Rect> taken;
    for (int k = 1; k < levels && high > low; ++k) {
        const double value = low + k * (high - low) / levels;
        std::vector<std::vector<cv::Point>> outlines;
        cv::findContours(elevation >= value, outlines, cv::RETR_LIST, cv::CHAIN_APPROX_NONE);
        std::sort(outlines.begin(), outlines.end(), [](const auto &a, const auto &b) { return a.size() > b.size(); });
        int written = 0;
        for (const auto &outline : outlines) {
            if (written == 3 || static_cast<int>(outline.size()) < picture.cols / 4)
                break;
            const std::string text = sample::text("%.0f", value - 1);
            const double scale = std::max(0.35, picture.cols / 1600.0);
            int base = 0;
            const cv::Size size = cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale, 1, &base);
            for (size_t i = outline.size() / 3; i < outline.size(); i += 7) {
                const cv::Rect box(outline[i].x - size.width / 2, outline[i].y - size.height / 2, size.width, size.height);
                const cv::Rect room(box.x - 6, box.y - 6, box.width + 12, box.height + 12);
                if ((room & cv::Rect(0, 0, picture.cols, picture.rows)) != room ||
                    std::any_of(taken.begin(), taken.end(), [&](const cv::Rect &t) { return (t & room).area() > 0; }))
                    continue;
                const cv::Point at(box.x, box.y + box.height);
                cv::putText(picture, text, at, cv::FONT_HERSHEY_SIMPLEX, scale, {255, 255, 255}, 3, cv::LINE_AA);
                cv::putText(picture, text, at, cv::FONT_HERSHEY_SIMPLEX, scale, {0, 0, 0}, 1, cv::LINE_AA);
                taken.push_back(room);
                ++written;
                break;
            }
        }
    }
}

cv::Mat shown(const Settings &s, const Result &r) {
    cv::Mat picture;
    if (s.view == "lines")
        cv::bitwise_not(r.lines, picture);
    else if (s.view == "edges")
        picture = r.edges;
    else
        picture = r.picture;
    if (picture.channels() == 1)
        cv::cvtColor(picture, picture, cv::COLOR_GRAY2BGR);
    if (!s.no_labels && s.view != "edges" && s.stereo.lines == CUS_LINES_CROSSING)
        label(picture, r.elevation, s.stereo.levels);
    return picture;
}

void writeImage(const std::string &path, const cv::Mat &image) {
    bool written = false;
    try {
        written = cv::imwrite(path, image);
    } catch (const cv::Exception &) {
    }
    if (!written)
        throw sample::Stop(sample::OUTPUT, path + " cannot be written");
}

// Each pixel with a shift above 0 as a point with its color: x, y right and down from the middle, z = focal * baseline /
// shift away.
void writeCloud(const std::string &path, const cv::Mat &elevation, const cv::Mat &color, double focal, double baseline) {
    cv::Mat e;
    elevation.convertTo(e, CV_32F);
    std::vector<cv::Point> points;
    for (int y = 0; y < e.rows; ++y)
        for (int x = 0; x < e.cols; ++x)
            if (e.at<float>(y, x) > 1)
                points.emplace_back(x, y);
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file)
        throw sample::Stop(sample::OUTPUT, path + " cannot be written");
    std::fprintf(file,
                 "ply\nformat ascii 1.0\nelement vertex %zu\nproperty float x\nproperty float y\nproperty float z\n"
                 "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n",
                 points.size());
    for (const cv::Point &p : points) {
        const double z = focal * baseline / (e.at<float>(p) - 1);
        const cv::Vec3b &c = color.at<cv::Vec3b>(p);
        std::fprintf(file, "%.5g %.5g %.5g %d %d %d\n", (p.x - 0.5 * e.cols) * z / focal, (p.y - 0.5 * e.rows) * z / focal,
                     z, c[2], c[1], c[0]);
    }
    const bool failed = std::ferror(file) != 0;
    if (std::fclose(file) != 0 || failed)
        throw sample::Stop(sample::OUTPUT, path + " cannot be written");
}

void writeFiles(const Settings &s, const Result &r, const cv::Mat &color) {
    if (!s.elevation_file.empty()) {
        cv::Mat image;
        r.elevation.convertTo(image, CV_16U, 256); // eight bits of fraction; 256 saturates
        writeImage(s.elevation_file, image);
    }
    if (!s.lines_file.empty())
        writeImage(s.lines_file, r.lines);
    if (!s.edges_file.empty())
        writeImage(s.edges_file, r.edges);
    if (!s.cloud_file.empty())
        writeCloud(s.cloud_file, r.elevation, color, s.focal > 0 ? s.focal : color.cols, s.baseline);
}

struct Pair {
    cv::Mat color, left, right; // of the left image; gray
};

Pair prepare(const Settings &s, const cv::Mat &left, const cv::Mat &right) {
    if (left.size() != right.size())
        throw sample::Stop(sample::INPUT, sample::text("left is %d x %d, right is %d x %d: a pair has one size", left.cols,
                                                       left.rows, right.cols, right.rows));
    const cv::Size size(std::max(1, left.cols / s.reduce), std::max(1, left.rows / s.reduce));
    Pair p;
    cv::Mat other;
    cv::resize(left, p.color, size, 0, 0, cv::INTER_AREA);
    cv::resize(right, other, size, 0, 0, cv::INTER_AREA);
    cv::cvtColor(p.color, p.left, cv::COLOR_BGR2GRAY);
    cv::cvtColor(other, p.right, cv::COLOR_BGR2GRAY);
    if (s.stereo.shifts > size.width)
        throw sample::Stop(sample::USAGE,
                           sample::text("--shifts %d: the images have only %d columns", s.stereo.shifts, size.width));
    return p;
}

// The trackbars change the options; the map follows until the window is closed.
void interact(Settings &s, const sample::Device &device, const Pair &pair, sample::Sink &sink) {
    int shifts = s.stereo.shifts, radius = s.stereo.window / 2, threshold = cvRound(100 * s.stereo.threshold),
        check_by = s.stereo.left_right_check + 1, levels = s.stereo.levels;
    const int most = std::min<int>(CUS_STEREO_MAX_SHIFTS, pair.left.cols);
    cv::createTrackbar("shifts", TITLE, &shifts, most);
    cv::createTrackbar("window radius", TITLE, &radius, CUS_STEREO_MAX_WINDOW / 2);
    cv::createTrackbar("edge threshold %", TITLE, &threshold, 200);
    cv::createTrackbar("left-right check + 1", TITLE, &check_by, 8);
    cv::createTrackbar("levels", TITLE, &levels, 50);
    const int width = std::max(640, pair.left.cols);
    cv::resizeWindow(TITLE, width, width * pair.left.rows / pair.left.cols + 200); // room for the trackbars
    cusStereoOptions now = s.stereo;
    cv::Mat picture;
    do {
        now.shifts = std::max(1, shifts);
        now.window = 2 * radius + 1;
        now.threshold = static_cast<float>(threshold) / 100.0f;
        now.left_right_check = check_by - 1;
        now.levels = std::max(1, levels);
        const bool changed = now.shifts != s.stereo.shifts || now.window != s.stereo.window ||
                             now.threshold != s.stereo.threshold || now.left_right_check != s.stereo.left_right_check ||
                             now.levels != s.stereo.levels;
        if (changed || picture.empty()) {
            s.stereo = now;
            Engine engine(device, pair.left.size(), s.stereo);
            const Result r = engine.run(pair.left, pair.right, s.view == "edges" || !s.edges_file.empty());
            writeFiles(s, r, pair.color);
            picture = shown(s, r);
        }
    } while (sink.write(picture) && !sample::interrupted());
}

int run(int argc, char **argv) {
    Settings s;
    cusStereoOptions &o = s.stereo;
    // The preset comes first: the options after it change single things.
    for (int i = 1; i < argc; ++i)
        if (std::string(argv[i]) == "--preset=classic" ||
            (std::string(argv[i]) == "--preset" && i + 1 < argc && std::string(argv[i + 1]) == "classic"))
            o = cusStereoClassic();
    s.threshold = o.threshold;
    s.tolerance = o.tolerance;
    const std::vector<std::string> borders = {"wrap", "zero"}, agreements = {"equal", "edge", "signs"},
                                   fills = {"none", "once", "relax", "lower"}, lines = {"modulo", "crossing"},
                                   directions = {"left", "right"}, ties = {"larger", "smaller"};
    std::string border = borders[o.border], agreement = agreements[o.agreement], fill = fills[o.fill],
                line = lines[o.lines], direction = directions[o.direction > 0],
                tie = ties[static_cast<size_t>(o.prefer_smaller)];
    sample::Options options(TITLE, "Elevation and contour map of a stereo pair, or of a side-by-side stereo video.");
    options.argument(s.left, "LEFT", "left image of the pair; without RIGHT, a side-by-side image, video or camera");
    options.argument(s.right, "RIGHT", "right image of the pair", false);
    options.choice(s.view, "--view", {"picture", "lines", "edges"},
                   "elevation in colors with contour lines; the lines alone; the edges of the left image");
    options.text(s.elevation_file, "--elevation", "FILE", "also write the elevation, 256 to a shift, as 16-bit PNG");
    options.text(s.cloud_file, "--cloud", "FILE", "also write the points in space, with their colors, as PLY");
    options.text(s.lines_file, "--lines-file", "FILE", "also write the contour lines as an image");
    options.text(s.edges_file, "--edges-file", "FILE", "also write the edges of the left image");
    options.number(s.focal, "--focal", "PIXELS", "for --cloud: focal length; 0: the width of the image", 0.0, 1e6);
    options.number(s.baseline, "--baseline", "LENGTH", "for --cloud: distance of the cameras, which is its unit", 1e-6,
                   1e6);
    options.number(s.reduce, "--reduce", "N", "make the images N times smaller first", 1, 64);
    options.choice(s.preset, "--preset", {"smooth", "classic"}, "what the options below start from");
    options.number(o.shifts, "--shifts", "N", "shifts to try", 1, int(CUS_STEREO_MAX_SHIFTS));
    options.choice(direction, "--direction", directions, "where the right image shows near things, seen from the left one");
    options.number(o.window, "--window", "N", "side of the square that votes, odd", 1, int(CUS_STEREO_MAX_WINDOW));
    options.choice(agreement, "--agreement", agreements, "what pixels agree in");
    options.number(s.threshold, "--threshold", "T", "edges: share of their mean by which two sides differ", 0.0, 100.0);
    options.choice(border, "--border", borders, "what lies outside: the opposite side, or nothing");
    options.choice(tie, "--tie", ties, "which shift wins of equal ones");
    options.number(o.left_right_check, "--left-right-check", "N",
                   "left-right check: shifts the two may differ by; -1: none", -1, 256);
    options.choice(fill, "--fill", fills, "how holes are filled");
    options.number(o.iterations, "--iterations", "N", "of the fills once and relax", 0, 1000000);
    options.number(s.tolerance, "--tolerance", "E", "fill relax ends at changes up to this", 0.0, 1000.0);
    options.number(o.median, "--median", "N", "median filter: 0, 3 or 5", 0, 5);
    options.choice(line, "--lines", lines, "which pixels are on a contour line");
    options.number(o.levels, "--levels", "N", "contour levels", 1, 65535);
    options.flag(s.no_labels, "--no-labels", "no shifts written beside the lines");
    options.number(s.frames, "--frames", "N", "stop after N frames; 0: never", 0, 1000000000);
    options.common(s.common, std::string(sample::SINK_HELP) + "contour.png, or contour.mp4 of a video");
    if (!options.parse(argc, argv))
        return sample::OK;
    const auto index = [](const std::vector<std::string> &all, const std::string &one) {
        return static_cast<int>(std::find(all.begin(), all.end(), one) - all.begin());
    };
    o.border = static_cast<cusStereoBorder>(index(borders, border));
    o.agreement = static_cast<cusStereoAgreement>(index(agreements, agreement));
    o.fill = static_cast<cusStereoFillRule>(index(fills, fill));
    o.lines = static_cast<cusStereoLines>(index(lines, line));
    o.direction = direction == "right" ? 1 : -1;
    o.prefer_smaller = index(ties, tie);
    o.threshold = static_cast<float>(s.threshold);
    o.tolerance = static_cast<float>(s.tolerance);
    if (o.window % 2 == 0)
        throw sample::Stop(sample::USAGE, sample::text("--window %d: takes odd numbers", o.window));
    if (o.median != 0 && o.median != 3 && o.median != 5)
        throw sample::Stop(sample::USAGE, sample::text("--median %d: takes 0, 3 or 5", o.median));

    const bool window = !s.common.headless && sample::displayProblem().empty();
    const sample::Device device = sample::chooseDevice(s.common.device);
    const bool with_edges = s.view == "edges" || !s.edges_file.empty();
    const bool pair_given = !s.right.empty();
    std::unique_ptr<sample::Source> source = sample::openSource(s.left);
    cv::Mat frame;
    if (pair_given) {
        cv::Mat right;
        std::unique_ptr<sample::Source> other = sample::openSource(s.right);
        if (!source->read(frame) || !other->read(right))
            throw sample::Stop(sample::INPUT, "the pair cannot be read");
        const Pair pair = prepare(s, frame, right);
        const auto sink = sample::openSink(s.common, TITLE, "contour.png", pair.left.size(), 25);
        sample::figure("device", "%s", device.name.c_str());
        sample::figure("input", "%d x %d, reduced %d times", pair.left.cols, pair.left.rows, s.reduce);
        if (window) {
            interact(s, device, pair, *sink);
        } else {
            Engine engine(device, pair.left.size(), o);
            const Result r = engine.run(pair.left, pair.right, with_edges);
            writeFiles(s, r, pair.color);
            double low = 0, high = 0;
            cv::minMaxLoc(r.elevation, &low, &high);
            sample::figure("elevation", "%.1f to %.1f, %.2f %% holes", low, high,
                           100.0 - 100.0 * cv::countNonZero(r.elevation) / static_cast<double>(r.elevation.total()));
            sink->write(shown(s, r));
        }
        sink->finish();
        sample::figure("output", "%s", sink->name().c_str());
        return sample::OK;
    }

    const cv::Size half(source->size().width / 2, source->size().height);
    if (half.width < 1)
        throw sample::Stop(sample::INPUT, "a side-by-side picture has two columns or more");
    const cv::Size size(std::max(1, half.width / s.reduce), std::max(1, half.height / s.reduce));
    const auto sink =
        sample::openSink(s.common, TITLE, source->frames() == 1 ? "contour.png" : "contour.mp4", size, source->fps());
    std::unique_ptr<Engine> engine;
    sample::Progress progress("frames", s.frames ? s.frames : source->frames());
    long long frames = 0;
    Result r;
    Pair pair;
    while ((!s.frames || frames < s.frames) && !sample::interrupted() && source->read(frame)) {
        pair = prepare(s, frame(cv::Rect({0, 0}, half)), frame(cv::Rect({half.width, 0}, half)));
        if (!engine)
            engine = std::make_unique<Engine>(device, pair.left.size(), o);
        r = engine->run(pair.left, pair.right, with_edges);
        progress.update(++frames);
        if (!sink->write(shown(s, r)))
            break;
    }
    progress.finish();
    sink->finish();
    if (frames)
        writeFiles(s, r, pair.color); // of the last frame
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("frames", "%lld", frames);
    sample::figure("rate", "%.1f frames/s", static_cast<double>(frames) / progress.seconds());
    sample::figure("output", "%s", sink->name().c_str());
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
