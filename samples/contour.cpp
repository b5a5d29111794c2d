// cusight-contour: elevation and contour map of a stereo pair, or of each frame of a side-by-side stereo video.
#include "common/app.hpp"
#include "common/files.hpp"
#include "common/many_devices.hpp"
#include "common/options.hpp"
#include "common/output.hpp"
#include "common/progress.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"

#include "cusight/opencv.hpp"
#include "cusight/stereo.h"

#include <opencv2/highgui.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
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
    double focal = 0, baseline = 1;
    int reduce = 1, frames = 0;
    bool no_labels = false;
    bool wantsEdges() const { return view == "edges" || !edges_file.empty(); }
};

// A matrix in the memory of the chosen device, with copies from and to cv::Mat.
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

// Maps pairs of one size with one set of options.
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

// A place of `size` on the outline that overlaps no other label; false if there is none.
bool placeLabel(const std::vector<cv::Point> &outline, cv::Size size, cv::Size picture, std::vector<cv::Rect> &occupied,
                cv::Point &at) {
    for (size_t i = outline.size() / 3; i < outline.size(); i += 7) {
        const cv::Rect box({outline[i].x - size.width / 2, outline[i].y - size.height / 2}, size);
        const cv::Rect margin(box.x - 6, box.y - 6, box.width + 12, box.height + 12);
        if ((margin & cv::Rect({0, 0}, picture)) != margin ||
            std::any_of(occupied.begin(), occupied.end(), [&](const cv::Rect &o) { return (o & margin).area() > 0; }))
            continue;
        occupied.push_back(margin);
        at = {box.x, box.y + box.height};
        return true;
    }
    return false;
}

// Labels the long outlines of one level, at most three.
void labelLevel(cv::Mat &picture, const cv::Mat &elevation, double value, std::vector<cv::Rect> &occupied) {
    std::vector<std::vector<cv::Point>> outlines;
    cv::findContours(elevation >= value, outlines, cv::RETR_LIST, cv::CHAIN_APPROX_NONE);
    std::sort(outlines.begin(), outlines.end(), [](const auto &a, const auto &b) { return a.size() > b.size(); });
    const std::string text = sample::text("%.0f", value - 1);
    const double scale = std::max(0.35, picture.cols / 1600.0);
    const cv::Size size = cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, scale, 1, nullptr);
    int written = 0;
    for (const auto &outline : outlines) {
        if (written == 3 || static_cast<int>(outline.size()) < picture.cols / 4)
            break;
        cv::Point at;
        if (!placeLabel(outline, size, picture.size(), occupied, at))
            continue;
        cv::putText(picture, text, at, cv::FONT_HERSHEY_SIMPLEX, scale, {255, 255, 255}, 3, cv::LINE_AA);
        cv::putText(picture, text, at, cv::FONT_HERSHEY_SIMPLEX, scale, {0, 0, 0}, 1, cv::LINE_AA);
        ++written;
    }
}

// Writes the shift of each contour line beside it.
void label(cv::Mat &picture, const cv::Mat &elevation, int levels) {
    double low = 0, high = 0;
    cv::minMaxLoc(elevation, &low, &high);
    std::vector<cv::Rect> occupied;
    for (int k = 1; k < levels && high > low; ++k)
        labelLevel(picture, elevation, low + k * (high - low) / levels, occupied);
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

// A colored point for each pixel with a shift above 0: x right and y down from the image center, z = focal * baseline / shift.
void writeCloud(const std::string &path, const cv::Mat &elevation, const cv::Mat &color, double focal, double baseline) {
    cv::Mat e;
    elevation.convertTo(e, CV_32F);
    std::vector<cv::Point> points;
    for (int y = 0; y < e.rows; ++y)
        for (int x = 0; x < e.cols; ++x)
            if (e.at<float>(y, x) > 1)
                points.emplace_back(x, y);
    sample::OutputFile file(path);
    file.print("ply\nformat ascii 1.0\nelement vertex %zu\nproperty float x\nproperty float y\nproperty float z\n"
               "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n",
               points.size());
    for (const cv::Point &p : points) {
        const double z = focal * baseline / (e.at<float>(p) - 1);
        const cv::Vec3b &c = color.at<cv::Vec3b>(p);
        file.print("%.5g %.5g %.5g %d %d %d\n", (p.x - 0.5 * e.cols) * z / focal, (p.y - 0.5 * e.rows) * z / focal, z, c[2],
                   c[1], c[0]);
    }
    file.commit();
}

void writeFiles(const Settings &s, const Result &r, const cv::Mat &color) {
    if (!s.elevation_file.empty()) {
        cv::Mat image;
        r.elevation.convertTo(image, CV_16U, 256); // eight bits of fraction; 256 saturates
        sample::writeImage(s.elevation_file, image);
    }
    if (!s.lines_file.empty())
        sample::writeImage(s.lines_file, r.lines);
    if (!s.edges_file.empty())
        sample::writeImage(s.edges_file, r.edges);
    if (!s.cloud_file.empty())
        writeCloud(s.cloud_file, r.elevation, color, s.focal > 0 ? s.focal : color.cols, s.baseline);
}

struct Pair {
    cv::Mat color;       // the left image
    cv::Mat left, right; // gray
};

Pair prepare(const Settings &s, const cv::Mat &left, const cv::Mat &right) {
    if (left.size() != right.size())
        throw sample::Stop(sample::INPUT, sample::text("RIGHT is %d x %d, expected %d x %d like LEFT", right.cols,
                                                       right.rows, left.cols, left.rows));
    const cv::Size size(std::max(1, left.cols / s.reduce), std::max(1, left.rows / s.reduce));
    Pair p;
    cv::Mat other;
    cv::resize(left, p.color, size, 0, 0, cv::INTER_AREA);
    cv::resize(right, other, size, 0, 0, cv::INTER_AREA);
    cv::cvtColor(p.color, p.left, cv::COLOR_BGR2GRAY);
    cv::cvtColor(other, p.right, cv::COLOR_BGR2GRAY);
    if (s.stereo.shifts > size.width)
        throw sample::Stop(sample::USAGE, sample::text("--shifts is %d, expected at most the %d columns of the images",
                                                       s.stereo.shifts, size.width));
    return p;
}

// Trackbars change the options, and the map follows, until the window is closed.
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
            const Result r = engine.run(pair.left, pair.right, s.wantsEdges());
            writeFiles(s, r, pair.color);
            picture = shown(s, r);
        }
    } while (sink.write(picture) && !sample::interrupted());
}

// ---- The command line --------------------------------------------------------------------------------------------------

void addFiles(CLI::App &app, Settings &s) {
    const auto file = [&](const char *name, std::string &value, const char *help) {
        sample::addText(app, name, value, "FILE", help)->group("Files");
    };
    file("--save-elevation", s.elevation_file, "also write the elevation as 16-bit PNG, 256 per shift");
    file("--save-cloud", s.cloud_file, "also write a colored point cloud as PLY");
    file("--save-lines", s.lines_file, "also write the contour lines as an image");
    file("--save-edges", s.edges_file, "also write the edges of the left image");
    sample::addNumber(app, "--focal", s.focal, 0, 1e6, "focal length in pixels for --save-cloud; 0: the image width")
        ->group("Files");
    sample::addNumber(app, "--baseline", s.baseline, 1e-6, 1e6,
                      "distance of the cameras for --save-cloud; sets the unit of the points")
        ->group("Files");
}

// --preset is declared first, since options are applied in the order of their declaration.
void addPreset(CLI::App &app, Settings &s) {
    sample::addChoice(app, "--preset", s.preset, {"smooth", "classic"},
                      "starting values of the stereo options; classic: the algorithm as published in 1986")
        ->group("Stereo")
        ->each([&app, &s](const std::string &preset) {
            s.preset = preset;
            s.stereo = preset == "classic" ? cusStereoClassic() : cusStereoDefaults();
            for (CLI::Option *option : app.get_options()) // for --help
                option->capture_default_str();
        });
}

void addStereo(CLI::App &app, cusStereoOptions &o) {
    const auto group = [](CLI::Option *option) { return option->group("Stereo"); };
    group(sample::addNumber(app, "--shifts", o.shifts, 1, CUS_STEREO_MAX_SHIFTS, "number of shifts to try"));
    group(sample::addChoice<int>(app, "--direction", o.direction, {{"left", -1}, {"right", 1}},
                                 "where near objects shift from the left image to the right one"));
    group(sample::addNumber(app, "--window-size", o.window, 1, CUS_STEREO_MAX_WINDOW,
                            "side of the square window that votes, odd"))
        ->check(sample::expect([](const std::string &text) { return std::atoi(text.c_str()) % 2 == 1; }, "an odd number"));
    group(sample::addChoice<cusStereoAgreement>(
        app, "--agreement", o.agreement,
        {{"equal", CUS_STEREO_EQUAL}, {"edge", CUS_STEREO_EDGE}, {"census", CUS_STEREO_CENSUS}},
        "when a left and a right pixel agree; equal: both are edges or neither is; edge: both are edges; census: by the "
        "number of neighbors that compare alike with the center"));
    group(sample::addNumber(app, "--edge-threshold", o.threshold, 0, 100,
                            "the two sides of an edge differ by more than this fraction of their mean"));
    group(sample::addChoice<cusStereoBorder>(app, "--border", o.border,
                                             {{"wrap", CUS_STEREO_WRAP}, {"zero", CUS_STEREO_ZERO}},
                                             "what lies outside the image; wrap: the opposite side; zero: nothing"));
    group(sample::addChoice<int>(app, "--prefer", o.prefer_smaller, {{"larger", 0}, {"smaller", 1}},
                                 "which of several shifts with the same score wins"));
    group(sample::addNumber(app, "--left-right-check", o.left_right_check, -1, 256,
                            "maximum difference between the shifts from the two images; -1: no check"));
    group(sample::addChoice<cusStereoFillRule>(
        app, "--fill-holes", o.fill,
        {{"none", CUS_FILL_NONE}, {"once", CUS_FILL_ONCE}, {"relax", CUS_FILL_RELAX}, {"lower", CUS_FILL_LOWER}},
        "how to fill holes"));
    group(sample::addNumber(app, "--iterations", o.iterations, 0, 1000000, "iterations of the fills once and relax"));
    group(sample::addNumber(app, "--tolerance", o.tolerance, 0, 1000,
                            "the fill relax stops when no pixel changes by more than this"));
    group(app.add_option("--median", o.median, "size of the median filter; 0: none"))
        ->type_name("0|3|5")
        ->check(sample::oneOf({"0", "3", "5"}));
    group(sample::addChoice<cusStereoLines>(app, "--line-rule", o.lines,
                                            {{"modulo", CUS_LINES_MODULO}, {"crossing", CUS_LINES_CROSSING}},
                                            "which pixels are on a contour line; modulo: those at multiples of the level "
                                            "spacing; crossing: those where a neighbor is on another level"));
    group(sample::addNumber(app, "--levels", o.levels, 1, 65535, "number of contour levels"));
}

// No output is an input, and each has a format that can hold it.
void checkFiles(const Settings &s) {
    sample::Files files;
    files.read("LEFT", s.left);
    files.read("RIGHT", s.right);
    files.write(s.common, "contour.png");
    if (s.common.output.empty() && s.right.empty())
        files.write(s.common, "contour.mp4");
    files.write("--save-elevation", s.elevation_file);
    files.write("--save-cloud", s.cloud_file);
    files.write("--save-lines", s.lines_file);
    files.write("--save-edges", s.edges_file);
    files.check();
    sample::requireEnding("--save-elevation", s.elevation_file, {".png", ".tif", ".tiff", ".pgm"}); // 16 bits
    sample::requireEnding("--save-cloud", s.cloud_file, {".ply"});
    sample::requireEnding("--save-lines", s.lines_file, sample::imageEndings());
    sample::requireEnding("--save-edges", s.edges_file, sample::imageEndings());
}

// False: --help or --version was printed.
bool parse(int argc, char **argv, Settings &s) {
    const auto app = sample::makeApp(
        TITLE, "Elevation and contour map of a stereo pair, or of each frame of a side-by-side stereo video.",
        "  cusight-contour left.png right.png\n"
        "  cusight-contour left.png right.png --shifts 64 --output map.png --save-cloud cloud.ply\n"
        "  cusight-contour side-by-side.mp4 --reduce 2 --output contour.mp4\n");
    app->add_option("LEFT", s.left, "left image of the pair; without RIGHT, a side-by-side image, video or camera")
        ->required();
    app->add_option("RIGHT", s.right, "right image of the pair");
    addPreset(*app, s);
    sample::addChoice(
        *app, "--view", s.view, {"picture", "lines", "edges"},
        "picture: elevation in colors with contour lines; lines: only the lines; edges: edges of the left image");
    app->add_flag("--no-labels", s.no_labels, "write no shifts beside the contour lines");
    sample::addNumber(*app, "--reduce", s.reduce, 1, 64, "shrink the images by this factor first");
    sample::addFrames(*app, s.frames);
    sample::addCommon(*app, s.common, "contour.png, or contour.mp4 for a video", true);
    addFiles(*app, s);
    addStereo(*app, s.stereo);
    return sample::parse(*app, argc, argv);
}

// ---- The program -------------------------------------------------------------------------------------------------------

void mapPair(Settings &s, const sample::Device &device, sample::Source &left_source) {
    const bool window = !s.common.headless && sample::displayProblem().empty();
    cv::Mat left, right;
    const std::unique_ptr<sample::Source> right_source = sample::openSource(s.right);
    if (!left_source.read(left) || !right_source->read(right))
        throw sample::Stop(sample::INPUT, "the pair cannot be read");
    const Pair pair = prepare(s, left, right);
    const auto sink = sample::openSink(s.common, TITLE, "contour.png", pair.left.size(), 25);
    sample::figure("device", "%s", device.name.c_str());
    sample::figure("input", "%d x %d, reduced %d times", pair.left.cols, pair.left.rows, s.reduce);
    if (window) {
        interact(s, device, pair, *sink);
    } else {
        Engine engine(device, pair.left.size(), s.stereo);
        const Result r = engine.run(pair.left, pair.right, s.wantsEdges());
        writeFiles(s, r, pair.color);
        double low = 0, high = 0;
        cv::minMaxLoc(r.elevation, &low, &high);
        sample::figure("elevation", "%.1f to %.1f, %.2f %% holes", low, high,
                       100.0 - 100.0 * cv::countNonZero(r.elevation) / static_cast<double>(r.elevation.total()));
        sink->write(shown(s, r));
    }
    sink->finish();
    sample::figure("output", "%s", sink->name().c_str());
}

// A side-by-side frame and its map.
struct Job {
    cv::Mat frame, color;
    Result result;
};

// Frames are dealt to the devices in turn.
void mapVideo(const Settings &s, const std::vector<sample::Device> &devices, sample::Source &source) {
    const cv::Size half(source.size().width / 2, source.size().height);
    if (half.width < 1)
        throw sample::Stop(sample::INPUT, "a side-by-side picture must have at least two columns");
    const cv::Size size(std::max(1, half.width / s.reduce), std::max(1, half.height / s.reduce));
    const auto sink =
        sample::openSink(s.common, TITLE, source.frames() == 1 ? "contour.png" : "contour.mp4", size, source.fps());
    const size_t depth = devices.size() > 1 ? 2 : 1;
    std::vector<Job> memory(depth * devices.size());
    std::vector<Job *> jobs(memory.size());
    std::transform(memory.begin(), memory.end(), jobs.begin(), [](Job &job) { return &job; });
    sample::Dealer<Job *> dealer(devices, depth, [&](size_t w) {
        return [&s, half, &device = devices[w], engine = std::shared_ptr<Engine>()](Job *job) mutable {
            const Pair pair = prepare(s, job->frame(cv::Rect({0, 0}, half)), job->frame(cv::Rect({half.width, 0}, half)));
            if (!engine)
                engine = std::make_shared<Engine>(device, pair.left.size(), s.stereo);
            job->color = pair.color;
            job->result = engine->run(pair.left, pair.right, s.wantsEdges());
        };
    });
    sample::Progress progress("frames", s.frames ? s.frames : source.frames());
    long long read = 0, frames = 0;
    const auto fill = [&](Job &job) {
        return (!s.frames || read < s.frames) && !sample::interrupted() && source.read(job.frame) && ++read > 0;
    };
    Job last;
    const std::exception_ptr ended_early = dealer.process(jobs, fill, [&](Job &job) {
        last.color = job.color;
        last.result = job.result;
        progress.update(++frames);
        return sink->write(shown(s, job.result));
    });
    progress.finish();
    if (frames)
        writeFiles(s, last.result, last.color); // of the last frame
    sink->finish();
    sample::figure("device", "%s", sample::deviceNames(devices).c_str());
    sample::figure("frames", "%lld", frames);
    sample::figure("rate", "%.1f frames/s", static_cast<double>(frames) / progress.seconds());
    sample::figure("output", "%s", sink->name().c_str());
    if (ended_early)
        std::rethrow_exception(ended_early);
}

int run(int argc, char **argv) {
    Settings s;
    if (!parse(argc, argv, s))
        return sample::OK;
    checkFiles(s);
    // The display check forks, so it must come before any threads and CUDA.
    if (!s.common.headless)
        sample::displayProblem();
    const std::vector<sample::Device> devices = sample::chooseDevices(s.common.device);
    const std::unique_ptr<sample::Source> source = sample::openSource(s.left);
    if (s.right.empty())
        mapVideo(s, devices, *source);
    else
        mapPair(s, devices.front(), *source);
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
