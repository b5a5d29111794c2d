// cusight-contour: elevation and contour map of a stereo pair, or of each frame of a side-by-side stereo video.
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/video/legend.hpp"
#include "common/many_devices.hpp"
#include "common/opencv/opencv.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/rectified.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "common/window/window.hpp"
#include "common/stages.hpp"
#include "contour/depth.hpp"
#include "contour/picture.hpp"
#include "contour/preset.hpp"
#include "contour/rectify.hpp"

#include "cusight/opencv.hpp"
#include "cusight/stereo.h"

#include <nlohmann/json.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using contour::Range;
using contour::rangeOf;
using cusight::check;

const char *const TITLE = "cusight-contour";

struct Settings {
    sample::Common common;
    sample::Input left;
    std::string right, view = "picture", preset = "auto", elevation_file, depth_file, cloud_file, lines_file, edges_file;
    std::string calibration, extrinsics, confidence_file;
    int window = 0;        // --window-size; 0: that of the preset, or a larger one for a pair that needs it
    int subpixel_bits = 8; // --subpixel-bits; fewer are used if the shifts need it
    bool rectify = false, aggregation_given = false;
    cusStereoOptions stereo = contour::optionsOf(preset);
    int shifts = 0; // --shifts; 0: found from the pair
    double focal = 0, baseline = 1, unit = 1;
    int reduce = 1, frames = 0;
    bool no_labels = false;
    bool wantsLegend() const { return common.legend && view == "picture"; }
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
        check(cusMatCreate(&mat, from.rows, from.cols, cusight::fromCvType(from.type()), space_));
        check(space_ == CUS_DEVICE ? cusMatUpload(&host, &mat, nullptr) : cusMatCopy(&host, &mat, nullptr));
    }
    cv::Mat get() const {
        cv::Mat to(mat.rows, mat.cols, cusight::toCvType(mat.type));
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

struct Pair {
    cv::Mat left, right; // gray
    cv::Mat color;       // the left image
    cv::Mat outside;     // 8UC1, 255 where the rectified left image has no source; empty if there is no such place
};

struct Result {
    cv::Mat elevation; // 32FC1, 1 + shift in pixels; 0 for a hole
    cv::Mat confidence, lines, edges, picture;
};

// Maps pairs of one size with one set of options.
class Engine {
  public:
    Engine(const sample::Device &device, cv::Size size, const cusStereoOptions &options)
        : options_(withSpeckles(options)), left_(device.space), right_(device.space), elevation_(device.space),
          confidence_(device.space), lines_(device.space), edges_(device.space), picture_(device.space) {
        check(cusContourMapperCreate(&mapper_, size.height, size.width, CUS_8UC1, device.space, &options_));
    }
    ~Engine() { cusContourMapperDestroy(mapper_); }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    Result run(const Pair &pair, bool with_edges) {
        left_.set(pair.left);
        right_.set(pair.right);
        const bool refined = options_.subpixel_bits > 0 || options_.min_confidence > 0;
        sample::longCalls([&] {
            check(cusContourMapConfidence(mapper_, &left_.mat, &right_.mat, &elevation_.mat, &lines_.mat,
                                          refined ? &confidence_.mat : nullptr, nullptr));
            if (left_.mat.space == CUS_DEVICE)
                check(cusStreamSynchronize(nullptr));
        });
        check(cusStereoPicture(&elevation_.mat, &lines_.mat, &picture_.mat, nullptr));
        Result r;
        elevation_.get().convertTo(r.elevation, CV_32F, 1.0 / (1 << options_.subpixel_bits));
        r.lines = lines_.get();
        r.picture = picture_.get();
        if (refined)
            r.confidence = confidence_.get();
        if (with_edges) {
            check(cusStereoEdges(&left_.mat, &edges_.mat, &options_, nullptr));
            r.edges = edges_.get();
        }
        if (!pair.outside.empty())
            for (cv::Mat *mat : {&r.elevation, &r.confidence, &r.lines, &r.edges, &r.picture})
                if (!mat->empty())
                    mat->setTo(cv::Scalar::all(0), pair.outside);
        return r;
    }

  private:
    // What matches by chance has about the size of the window.
    static cusStereoOptions withSpeckles(cusStereoOptions o) {
        o.speckle_size = o.speckle_size < 0 ? o.window * o.window : o.speckle_size;
        return o;
    }

    const cusStereoOptions options_;
    cusContourMapper *mapper_ = nullptr;
    Mat left_, right_, elevation_, confidence_, lines_, edges_, picture_;
};

// The map with the strip above it.
cv::Size shownSize(const Settings &s, cv::Size size) {
    return {size.width, size.height + (s.wantsLegend() ? sample::legendHeight(size.width) : 0)};
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
        contour::label(picture, r.elevation, s.stereo.levels);
    return s.wantsLegend() ? sample::withLegend(picture, {contour::scaleOf(r.elevation)}) : picture;
}

// Rectifies one image of each pair, on the device.
class Side {
  public:
    Side(cusSpace space, const cv::Mat &map, uint64_t seed) : remapper_(space, map) {
        const cv::Mat white(map.size(), CV_8UC3, cv::Scalar::all(255));
        cv::extractChannel(remapper_.run(white) < 255, outside_, 0);
        if (cv::countNonZero(outside_) == 0)
            outside_.release();
        noise_.create(map.size(), CV_8U);
        cv::RNG(seed).fill(noise_, cv::RNG::UNIFORM, 0, 256);
    }
    // With colors, and gray. What has no source is black, and in gray noise, which matches nothing; two black areas would match.
    std::pair<cv::Mat, cv::Mat> run(const cv::Mat &image) {
        std::pair<cv::Mat, cv::Mat> both = {remapper_.run(image), {}};
        cv::cvtColor(both.first, both.second, cv::COLOR_BGR2GRAY);
        if (!outside_.empty())
            noise_.copyTo(both.second, outside_);
        return both;
    }
    const cv::Mat &outside() const { return outside_; }

  private:
    contour::Remapper remapper_;
    cv::Mat outside_, noise_;
};

struct Remappers {
    Remappers(cusSpace space, const contour::Rectification &how) : left(space, how.left, 1), right(space, how.right, 2) {}
    Side left, right;
};

void writeFiles(const Settings &s, const contour::Rectification &how, const Result &r, const cv::Mat &color) {
    if (!s.elevation_file.empty()) {
        cv::Mat image;
        r.elevation.convertTo(image, CV_16U, 256); // eight bits of fraction; 256 saturates
        sample::writeImage(s.elevation_file, image);
    }
    if (!s.confidence_file.empty())
        sample::writeImage(s.confidence_file, r.confidence);
    if (!s.lines_file.empty())
        sample::writeImage(s.lines_file, r.lines);
    if (!s.edges_file.empty())
        sample::writeImage(s.edges_file, r.edges);
    if (s.depth_file.empty() && s.cloud_file.empty())
        return;
    const cv::Mat shifts = contour::shiftsOf(r.elevation, 1);
    const cv::Mat q =
        how.q.empty() ? contour::idealQ(color.size(), s.focal > 0 ? s.focal : color.cols, s.baseline, s.stereo.direction)
                      : how.q;
    if (!s.depth_file.empty())
        contour::writeDepth(s.depth_file, shifts, q, s.stereo.direction);
    if (!s.cloud_file.empty())
        contour::writeCloud(s.cloud_file, shifts, color, q, s.stereo.direction);
}

// Reduces, rectifies (remappers may be NULL) and makes gray.
Pair prepare(const Settings &s, const cv::Mat &left, const cv::Mat &right, Remappers *remappers) {
    if (left.size() != right.size())
        throw sample::Stop(sample::INPUT, sample::text("RIGHT is %d x %d, expected %d x %d like LEFT", right.cols,
                                                       right.rows, left.cols, left.rows));
    const cv::Size size(std::max(1, left.cols / s.reduce), std::max(1, left.rows / s.reduce));
    Pair p;
    cv::Mat other;
    cv::resize(left, p.color, size, 0, 0, cv::INTER_AREA);
    cv::resize(right, other, size, 0, 0, cv::INTER_AREA);
    if (remappers) {
        std::tie(p.color, p.left) = remappers->left.run(p.color);
        p.right = remappers->right.run(other).second;
        p.outside = remappers->left.outside();
    } else {
        cv::cvtColor(p.color, p.left, cv::COLOR_BGR2GRAY);
        cv::cvtColor(other, p.right, cv::COLOR_BGR2GRAY);
    }
    if (s.shifts > size.width)
        throw sample::Stop(sample::USAGE, sample::text("--shifts is %d, expected at most the %d columns of the images",
                                                       s.shifts, size.width));
    return p;
}

// How to rectify pairs like this first one, if the user asks for it; sets the direction of the shifts.
contour::Rectification chooseRectification(Settings &s, const cv::Mat &left, const cv::Mat &right) {
    contour::Rectification how;
    if (s.calibration.empty() && !s.rectify)
        return how;
    const Pair pair = prepare(s, left, right, nullptr);
    how = s.rectify
              ? contour::rectifyFromPoints(pair.left, pair.right)
              : contour::rectifyCalibrated(contour::readCalibration(s.calibration, s.extrinsics), pair.left.size(), s.unit);
    s.stereo.direction = how.direction;
    sample::figure("rectified", {{"rectified", how.summary}}, "%s", how.summary.c_str());
    return how;
}

std::shared_ptr<Remappers> remappersFor(const contour::Rectification &how, cusSpace space) {
    return how.left.empty() ? nullptr : std::make_shared<Remappers>(space, how);
}

// Elevations have 16 bits.
int fittingBits(int bits, int shifts) {
    while (bits > 0 && shifts << bits > UINT16_MAX)
        --bits;
    return bits == 1 ? 0 : bits;
}

// Trackbars change the options and the map follows, until the window is closed.
void interact(Settings &s, const sample::Device &device, const contour::Rectification &how, const Pair &pair,
              sample::Sink &sink) {
    const sample::OpenCv &gui = sample::openCv();
    int shifts = s.stereo.shifts, radius = s.stereo.window / 2, threshold = cvRound(100 * s.stereo.threshold),
        check_by = s.stereo.left_right_check + 1, levels = s.stereo.levels;
    gui.createTrackbar("shifts", TITLE, &shifts, std::min<int>(CUS_STEREO_MAX_SHIFTS, pair.left.cols));
    const bool paths = s.stereo.aggregation == CUS_STEREO_PATHS;
    gui.createTrackbar("window radius", TITLE, &radius, (paths ? CUS_STEREO_MAX_PATH_WINDOW : CUS_STEREO_MAX_WINDOW) / 2);
    gui.createTrackbar("edge threshold %", TITLE, &threshold, 200);
    gui.createTrackbar("left-right check + 1", TITLE, &check_by, 8);
    gui.createTrackbar("levels", TITLE, &levels, 50);
    constexpr int TRACKBARS = 200; // rows
    gui.resizeWindow(TITLE, sample::windowSize(pair.left.size(), TRACKBARS));
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
            now.subpixel_bits = fittingBits(s.subpixel_bits, now.shifts);
            s.stereo = now;
            Engine engine(device, pair.left.size(), s.stereo);
            const Result r = engine.run(pair, s.wantsEdges());
            writeFiles(s, how, r, pair.color);
            picture = shown(s, r);
        }
    } while (sink.write(picture) && !sample::interrupted());
}

// ---- The command line --------------------------------------------------------------------------------------------------

void addFiles(CLI::App &app, Settings &s) {
    const auto file = [&](const char *name, std::string &value, const char *help) {
        sample::group(sample::addFile(app, name, sample::Names::OUTPUT, value, "FILE", help), "Files");
    };
    file("--save-elevation", s.elevation_file,
         "also write the elevation as a 16-bit image: 256 (1 + shift), where the shift is in pixels; 0 is a hole. So a "
         "value v means v / 256 - 1 pixels");
    file("--save-depth", s.depth_file,
         "also write the distance from the cameras, from --calibration or --focal and --baseline: .png with 16 bits, in "
         "millimeters, or .tif in meters; 0 where it is unknown");
    file("--save-cloud", s.cloud_file, "also write a colored point cloud as binary PLY");
    file("--save-confidence", s.confidence_file,
         "also write how sure each shift is as an image: 255 (best - second) / best of the scores, where the second best "
         "is no "
         "neighbor of the best; 0 is a hole");
    file("--save-lines", s.lines_file, "also write the contour lines as an image");
    file("--save-edges", s.edges_file, "also write the edges of the left image");
    sample::group(sample::addNumber(app, "--focal", s.focal, 0, 1e6,
                                    "focal length in pixels for depth and cloud without --calibration; 0: the image width"),
                  "Files");
    sample::group(sample::addNumber(app, "--baseline", s.baseline, 1e-6, 1e6,
                                    "distance of the cameras for depth and cloud without --calibration, in meters"),
                  "Files");
}

void addRectification(CLI::App &app, Settings &s) {
    const auto group = [](CLI::Option *option) { sample::group(option, "Rectification"); };
    group(sample::addFile(
        app, "--calibration", sample::Names::INPUT, s.calibration, "FILE",
        "rectify with this calibration of both cameras: YAML or XML of OpenCV (M1 D1 M2 D2 R T), or Kalibr's "
        "camchain"));
    group(sample::addFile(app, "--extrinsics", sample::Names::INPUT, s.extrinsics, "FILE",
                          "the file with R and T if --calibration lacks them, as OpenCV's stereo_calib writes it"));
    group(
        sample::addNumber(app, "--unit", s.unit, 1e-9, 1e9, "meters per unit of the calibration's T; 0.001: millimeters"));
    group(sample::addFlag(app, "--rectify", s.rectify,
                          "rectify with points that both images show, without a calibration; distances stay unknown"));
}

// --stereo-preset is declared first, since options are applied in the order of their declaration.
void addPreset(CLI::App &app, Settings &s) {
    const auto set = [&app, &s](const std::string &preset) {
        s.preset = preset;
        s.stereo = contour::optionsOf(preset);
        s.subpixel_bits = preset == "classic" ? 0 : 8;
        sample::refreshDefaults(app); // for --help
    };
    sample::group(sample::addWords(
                      app, "--stereo-preset", {"auto", "smooth", "best", "classic"}, set, [&s] { return s.preset; },
                      "starting values of the stereo options; best: semi-global matching; smooth: windows alone, in a "
                      "quarter of the time and less memory; classic: the algorithm as published in 1986; auto: best, or "
                      "smooth for over 2^29 pixels times shifts and for options that best cannot have"),
                  "Stereo");
}

void addStereo(CLI::App &app, Settings &s) {
    cusStereoOptions &o = s.stereo;
    const auto group = [](CLI::Option *option) { return sample::group(option, "Stereo"); };
    group(sample::addNumber(app, "--shifts", s.shifts, 0, CUS_STEREO_MAX_SHIFTS,
                            "number of shifts to try; 0: what the pair, or the first frame, needs"));
    group(sample::addChoice<int>(app, "--direction", o.direction, {{"left", -1}, {"right", 1}},
                                 "where near objects shift from the left image to the right one"));
    sample::require(
        group(sample::addNumber(
            app, "--window-size,--window", s.window, 0, CUS_STEREO_MAX_WINDOW,
            "side of the square window that votes, odd; 0: that of the preset, or with smooth 21 where 7 leaves "
            "more than 40 % holes")),
        [](const std::string &text) { return text == "0" || std::atoi(text.c_str()) % 2 == 1; }, "an odd number");
    group(sample::addChoice<cusStereoAgreement>(
        app, "--agreement", o.agreement,
        {{"equal", CUS_STEREO_EQUAL}, {"edge", CUS_STEREO_EDGE}, {"census", CUS_STEREO_CENSUS}},
        "when a left and a right pixel agree; equal: both are edges or neither is; edge: both are edges; census: by the "
        "number of neighbors that compare alike with the center"));
    const auto aggregate = [&s](const std::string &word) {
        s.stereo.aggregation = word == "paths" ? CUS_STEREO_PATHS : CUS_STEREO_WINDOW;
        s.aggregation_given = true;
    };
    group(sample::addWords(
        app, "--aggregation", {"window", "paths"}, aggregate,
        [&o] { return o.aggregation == CUS_STEREO_PATHS ? "paths" : "window"; },
        "what decides on a shift; window: the agreements in it; paths: also what is seen along lines to the pixel, with "
        "--agreement census and a window of at most 15"));
    group(sample::addChoice<int>(app, "--paths", o.paths, {{"0", 0}, {"4", 4}, {"8", 8}},
                                 "number of --aggregation paths; 0: 4"));
    group(sample::addNumber(app, "--p1", o.p1, 0, CUS_STEREO_MAX_PENALTY,
                            "penalty where the shift changes by 1 along a path; 0: 3 times the pixels of the window"));
    group(sample::addNumber(app, "--p2", o.p2, 0, CUS_STEREO_MAX_PENALTY,
                            "penalty of larger changes, at least that of --p1; 0: 7 times the pixels of the window"));
    group(sample::addNumber(app, "--p2-slope", o.p2_slope, 0, CUS_STEREO_MAX_PENALTY,
                            "what --p2 loses for each gray level between two pixels, down to --p1"));
    group(sample::addNumber(app, "--edge-threshold,--threshold", o.threshold, 0, 100,
                            "the two sides of an edge differ by more than this fraction of their mean"));
    group(sample::addChoice<cusStereoBorder>(app, "--border", o.border,
                                             {{"wrap", CUS_STEREO_WRAP}, {"zero", CUS_STEREO_ZERO}},
                                             "what lies outside the image; wrap: the opposite side; zero: nothing"));
    group(sample::addChoice<int>(app, "--prefer", o.prefer_smaller, {{"larger", 0}, {"smaller", 1}},
                                 "which of several shifts with the same score wins"));
    group(sample::addNumber(app, "--left-right-check", o.left_right_check, -1, 256,
                            "maximum difference between the shifts from the two images; -1: no check"));
    group(sample::addChoice<int>(app, "--subpixel-bits", s.subpixel_bits,
                                 {{"0", 0}, {"2", 2}, {"3", 3}, {"4", 4}, {"5", 5}, {"6", 6}, {"7", 7}, {"8", 8}},
                                 "bits of a shift's fraction; 0: whole pixels. More shifts than 255 leave fewer"));
    group(sample::addNumber(app, "--min-confidence", o.min_confidence, 0, 255,
                            "pixels of less confidence (--save-confidence) become holes"));
    group(sample::addNumber(app, "--speckle-size", o.speckle_size, -1, 1 << 30,
                            "regions of at most N pixels, which differ from what is around them, become holes; -1: as "
                            "many as the window has; 0: none"));
    group(sample::addChoice<cusStereoFillRule>(
        app, "--fill-holes,--fill", o.fill,
        {{"none", CUS_FILL_NONE}, {"once", CUS_FILL_ONCE}, {"relax", CUS_FILL_RELAX}, {"lower", CUS_FILL_LOWER}},
        "how to fill holes; once: repeatedly with the mean of the neighbors; lower: with the farther side of the row; "
        "relax: lower, then smoothed"));
    group(sample::addNumber(app, "--iterations", o.iterations, 0, 1000000, "iterations of --fill-holes once and relax"));
    group(sample::addNumber(app, "--tolerance", o.tolerance, 0, 1000,
                            "--fill-holes relax stops once no pixel changes by more than this"));
    group(sample::addChoice<int>(app, "--median", o.median, {{"0", 0}, {"3", 3}, {"5", 5}},
                                 "size of the median filter; 0: none"));
    group(sample::addChoice<cusStereoLines>(app, "--line-rule,--lines", o.lines,
                                            {{"modulo", CUS_LINES_MODULO}, {"crossing", CUS_LINES_CROSSING}},
                                            "which pixels are on a contour line; modulo: those at multiples of the level "
                                            "spacing; crossing: those where a neighbor is on another level"));
    group(sample::addNumber(app, "--levels", o.levels, 1, 65535, "number of contour levels"));
}

// Rejects formats that cannot hold an output.
void checkFiles(const Settings &s) {
    sample::requireEnding("--save-elevation", s.elevation_file, {".png", ".tif", ".tiff", ".pgm"}); // 16 bits
    sample::requireEnding("--save-depth", s.depth_file, {".png", ".tif", ".tiff"});
    sample::requireEnding("--save-cloud", s.cloud_file, {".ply"});
    sample::requireEnding("--save-confidence", s.confidence_file, sample::imageEndings());
    sample::requireEnding("--save-lines", s.lines_file, sample::imageEndings());
    sample::requireEnding("--save-edges", s.edges_file, sample::imageEndings());
    if (s.rectify && !s.calibration.empty())
        throw sample::Stop(sample::USAGE, "--rectify and --calibration exclude each other");
    if (!s.confidence_file.empty() && s.subpixel_bits == 0 && s.stereo.min_confidence == 0)
        throw sample::Stop(sample::USAGE, "--save-confidence needs --subpixel-bits or --min-confidence above 0");
    if (s.stereo.aggregation == CUS_STEREO_PATHS &&
        (s.stereo.agreement != CUS_STEREO_CENSUS || s.stereo.window > CUS_STEREO_MAX_PATH_WINDOW))
        throw sample::Stop(sample::USAGE,
                           sample::text("--aggregation paths needs --agreement census and a --window-size of at most %d",
                                        CUS_STEREO_MAX_PATH_WINDOW));
    if (!s.extrinsics.empty() && s.calibration.empty())
        throw sample::Stop(sample::USAGE, "--extrinsics needs --calibration");
    if (s.rectify && (!s.depth_file.empty() || !s.cloud_file.empty()))
        throw sample::Stop(sample::USAGE,
                           "--save-depth and --save-cloud need --calibration: points alone, as with --rectify, "
                           "give no distances");
}

// Returns false if --help or --version was printed.
bool parse(int argc, char **argv, Settings &s) {
    const auto app = sample::makeApp(
        TITLE, "Elevation and contour map of a stereo pair, or of each frame of a side-by-side stereo video.",
        "  cusight-contour left.png right.png\n"
        "  cusight-contour left.png right.png --shifts 64 --output map.png --save-cloud cloud.ply\n"
        "  cusight-contour side-by-side.mp4 --reduce 2 --output contour.mp4\n");
    sample::names(sample::addPositional(*app, "LEFT", s.left.names.emplace_back(),
                                        "left image of the pair; without RIGHT, a side-by-side image, video or camera",
                                        true),
                  sample::Names::INPUT);
    sample::names(sample::addPositional(*app, "RIGHT", s.right, "right image of the pair", false), sample::Names::INPUT);
    sample::addExcerpt(*app, s.left);
    addPreset(*app, s);
    sample::addChoice(
        *app, "--view", s.view, {"picture", "lines", "edges"},
        "picture: elevation in colors with contour lines; lines: only the lines; edges: edges of the left image");
    sample::addFlag(*app, "--no-labels", s.no_labels, "write no shifts beside the contour lines");
    sample::addNumber(*app, "--reduce", s.reduce, 1, 64, "shrink the images by this factor first");
    sample::addFrames(*app, s.frames);
    sample::addCommon(*app, s.common, "contour.png, or contour.mp4 for a video", true);
    sample::addLegend(*app, s.common.legend);
    addRectification(*app, s);
    addFiles(*app, s);
    addStereo(*app, s);
    const bool run = sample::parse(*app, argc, argv);
    if (s.common.video.preset == "smooth" || s.common.video.preset == "best" || s.common.video.preset == "classic")
        throw sample::Stop(sample::USAGE,
                           "--preset is '" + s.common.video.preset +
                               "', expected one of the encoder, such as veryfast; --stereo-preset chooses the "
                               "stereo options (see --help)");
    s.stereo.window = s.window ? s.window : s.stereo.window;
    const bool possible = s.stereo.agreement == CUS_STEREO_CENSUS && s.stereo.window <= CUS_STEREO_MAX_PATH_WINDOW;
    if (s.preset == "auto" && (s.stereo.aggregation == CUS_STEREO_WINDOW || !(possible || s.aggregation_given)))
        s.preset = contour::takeSmooth(s.stereo, s.window);
    s.left.fps = s.common.video.fps;
    return run;
}

// ---- The program -------------------------------------------------------------------------------------------------------

// The shift that a two-hundredth of the pixels exceed, by a map of the pair at 320 columns.
double coarseShift(const Settings &s, const sample::Device &device, const Pair &pair) {
    const double scale = std::max(1.0, pair.left.cols / 320.0);
    const cv::Size size(std::max(1, cvRound(pair.left.cols / scale)), std::max(1, cvRound(pair.left.rows / scale)));
    cv::Mat left, right;
    cv::resize(pair.left, left, size, 0, 0, cv::INTER_AREA);
    cv::resize(pair.right, right, size, 0, 0, cv::INTER_AREA);
    cusStereoOptions options = cusStereoDefaults();
    options.direction = s.stereo.direction;
    options.shifts = std::max(1, size.width / 2);
    options.fill = CUS_FILL_NONE;
    cv::Mat elevation;
    Engine(device, size, options).run({left, right, {}, {}}, false).elevation.convertTo(elevation, CV_32F);
    std::vector<float> known;
    std::copy_if(elevation.begin<float>(), elevation.end<float>(), std::back_inserter(known),
                 [](float e) { return e > 0; });
    if (known.empty())
        return 0;
    const auto high = known.begin() + static_cast<std::ptrdiff_t>(known.size() * 199 / 200);
    std::nth_element(known.begin(), high, known.end());
    return scale * (static_cast<double>(*high) - 1);
}

// What a user can do if no range of shifts is found in a pair.
[[noreturn]] void noRange(const Settings &s, const Pair &pair) {
    const char *const found = "too few corners of the left image are in the right one";
    if (sample::findShifts(pair.left, pair.right, -s.stereo.direction))
        throw sample::Stop(sample::INPUT,
                           sample::text("near objects shift to the %s: exchange the images, or set --direction %s",
                                        s.stereo.direction < 0 ? "right" : "left",
                                        s.stereo.direction < 0 ? "right" : "left"));
    if (s.right.empty())
        throw sample::Stop(sample::INPUT, s.left.names.front() + " looks like no side-by-side pair: " + found +
                                              ". Name the right image, too, or set --shifts");
    throw sample::Stop(sample::INPUT, "LEFT and RIGHT look like no rectified pair: " + std::string(found) +
                                          ". Set --shifts to map them nevertheless");
}

// Sets the shifts to try: those of --shifts, or what the pair needs. In a video whose first frame does not tell, the library's default.
void chooseShifts(Settings &s, const contour::Rectification &how, const sample::Device &device, const Pair &pair,
                  bool video) {
    const int most = std::min<int>(CUS_STEREO_MAX_SHIFTS, pair.left.cols);
    int needed = s.shifts            ? s.shifts
                 : how.highest_shift ? sample::withReserve(how.highest_shift)
                                     : sample::findShifts(pair.left, pair.right, s.stereo.direction);
    if (!needed && !video)
        noRange(s, pair);
    if (needed && !s.shifts) // the nearest points may have no corner, and a map at that size has some wrong shifts
        needed = std::max(needed, std::min(2 * needed, sample::withReserve(coarseShift(s, device, pair))));
    if (!needed)
        sample::note("the first frame does not tell how far points shift: trying %d shifts; set --shifts if it is too few",
                     std::min(most, s.stereo.shifts));
    if (needed > CUS_STEREO_MAX_SHIFTS)
        sample::note("near points shift by about %d pixels, more than the %d that can be tried: add --reduce %d", needed,
                     CUS_STEREO_MAX_SHIFTS, s.reduce * ((needed - 1) / CUS_STEREO_MAX_SHIFTS + 1));
    s.stereo.shifts = std::min(most, needed ? needed : s.stereo.shifts);
    constexpr double MOST = 1 << 29; // a gigabyte, and less than a second on few cores
    const double volume = static_cast<double>(pair.left.total()) * s.stereo.shifts;
    if (s.preset == "auto" && volume > MOST && s.stereo.aggregation == CUS_STEREO_PATHS) {
        sample::note("%.0f million pixels times shifts: windows decide, as with --stereo-preset smooth", volume / 1e6);
        s.preset = contour::takeSmooth(s.stereo, s.window);
    }
    s.stereo.subpixel_bits = fittingBits(s.subpixel_bits, s.stereo.shifts);
    sample::figure("shifts tried", {{"shifts_tried", s.stereo.shifts}}, "%d%s", s.stereo.shifts,
                   s.shifts || !needed ? "" : ", found from the pair");
}

// The share of pixels without a shift before filling.
double holesBeforeFilling(const sample::Device &device, const cusStereoOptions &of, const Pair &pair) {
    cusStereoOptions options = of;
    options.fill = CUS_FILL_NONE;
    options.median = 0;
    const Result r = Engine(device, pair.left.size(), options).run(pair, false);
    return 1 - cv::countNonZero(r.elevation) / static_cast<double>(r.elevation.total());
}

// Enlarges the window for a pair with little texture, and says what else to try.
void chooseWindow(Settings &s, const sample::Device &device, const Pair &pair) {
    constexpr double MANY = 0.4;
    constexpr int LARGE = 21;
    cusStereoOptions options = s.stereo;
    options.speckle_size = 0; // how many shifts the images agree on
    const double holes = holesBeforeFilling(device, options, pair);
    if (holes <= MANY)
        return;
    const bool enlarges = s.window == 0 && s.preset == "smooth" && s.stereo.aggregation == CUS_STEREO_WINDOW;
    sample::note(
        "%.0f %% of the pixels have no shift that both images agree on%s: try %s, --reduce 2 or %s--window-size, and "
        "look whether the images are a rectified pair, left first",
        100 * holes, enlarges ? ", so the window has 21 x 21 pixels instead of 7 x 7" : "",
        s.shifts ? "to leave out --shifts" : "another --shifts", enlarges ? "another " : "a larger ");
    if (enlarges)
        s.stereo.window = LARGE;
}

// Tells the user about the pair and its map.
void reportPair(const sample::Device &device, const Settings &s, const Pair &pair, const cv::Mat &elevation) {
    const double holes = holesBeforeFilling(device, s.stereo, pair),
                 left = 1 - cv::countNonZero(elevation) / static_cast<double>(elevation.total());
    if (left < 1) {
        double low = 0, high = 0;
        cv::minMaxLoc(elevation, &low, &high, nullptr, nullptr, elevation > 0);
        sample::figure("shifts", {{"lowest_shift", low - 1}, {"highest_shift", high - 1}}, "%s to %s pixels",
                       sample::shortNumber(low - 1).c_str(), sample::shortNumber(high - 1).c_str());
    }
    sample::figure("holes", {{"holes", holes}, {"holes_left", left}}, "%.2f %% of the pixels, %.2f %% after filling",
                   100 * holes, 100 * left);
    const sample::Rows rows = sample::compareRows(pair.left, pair.right, s.stereo.shifts, s.stereo.direction);
    sample::detail({{"row_offset", rows.median}, {"rectified", rows.rectified()}, {"row_matches", rows.matches}});
    if (!rows.rectified())
        sample::note(
            "the pair does not look rectified: matching points lie %.1f rows apart (median of %d; %.0f %% of them on "
            "another row). Use --calibration FILE or --rectify",
            rows.median, rows.matches, 100 * rows.off_share);
}

// `size`: of one image when it is mapped.
void figureInput(const Settings &s, const std::string &name, cv::Size size) {
    sample::figure("input", {{"input", name}, {"width", size.width}, {"height", size.height}, {"reduced", s.reduce}},
                   "%s, %d x %d%s", name.c_str(), size.width, size.height,
                   s.reduce > 1 ? sample::text(" after --reduce %d", s.reduce).c_str() : "");
}

void reportFiles(const Settings &s) {
    if (!s.elevation_file.empty())
        sample::figure("elevation in", {{"elevation_in", s.elevation_file}},
                       "%s, 16 bits: 256 (1 + shift in pixels), 0 for a hole", s.elevation_file.c_str());
}

void mapPair(Settings &s, const sample::Device &device, sample::Source &left_source) {
    const double opening = left_source.decodingSeconds(); // before the clock starts
    const sample::Progress clock("pairs", 1);
    const bool window = !s.common.headless && sample::displayProblem().empty();
    cv::Mat left, right;
    const std::unique_ptr<sample::Source> right_source = sample::openSource(s.right);
    if (!left_source.read(left) || !right_source->read(right))
        throw sample::Stop(sample::INPUT, "the pair cannot be read");
    sample::Stopwatch computing, drawing, writing;
    contour::Rectification how;
    const Pair pair = computing([&] {
        how = chooseRectification(s, left, right);
        return prepare(s, left, right, remappersFor(how, device.space).get());
    });
    sample::Playback playback;
    playback.single = true;
    playback.live = playback.controls = window;
    const auto sink = sample::openSink(s.common, TITLE, "contour.png", shownSize(s, pair.left.size()), playback);
    sample::figureText("device", "%s", device.name.c_str());
    figureInput(s, left_source.name() + " and " + right_source->name(), pair.left.size());
    computing([&] {
        chooseShifts(s, how, device, pair, false);
        chooseWindow(s, device, pair);
    });
    Engine engine(device, pair.left.size(), s.stereo);
    const Result r = computing([&] { return engine.run(pair, s.wantsEdges()); });
    reportPair(device, s, pair, r.elevation);
    const double decoding = left_source.decodingSeconds() + right_source->decodingSeconds();
    if (window) { // what is drawn, and for how long, depends on the user
        interact(s, device, how, pair, *sink);
        sink->finish();
        sample::figureStages({{"decode", decoding}, {"compute", computing.seconds}}, 0, 1);
    } else {
        const cv::Mat picture = drawing([&] { return shown(s, r); });
        writing([&] {
            writeFiles(s, how, r, pair.color);
            sink->write(picture);
            sink->finish();
        });
        sample::figureStages(
            {{"decode", decoding}, {"compute", computing.seconds}, {"draw", drawing.seconds}, {"write", writing.seconds}},
            opening + clock.seconds(), 1);
    }
    reportFiles(s);
    sample::figureText("output", "%s", sink->name().c_str());
    sink->hold();
}

// A side-by-side frame and its map.
struct Job {
    cv::Mat frame;
    double seconds = 0; // the time of the frame
    Pair pair;
    Result result;
    sample::Stopwatch computing; // over all frames that the job has held
};

// Maps frames of size 2 `half` on one device.
sample::Dealer<Job *>::Work worker(const Settings &s, const contour::Rectification &how, const sample::Device &device,
                                   cv::Size half) {
    return [&s, &how, &device, half, engine = std::shared_ptr<Engine>(),
            remappers = std::shared_ptr<Remappers>()](Job *job) mutable {
        if (!engine)
            remappers = remappersFor(how, device.space);
        job->pair = job->computing([&] {
            return prepare(s, job->frame(cv::Rect({0, 0}, half)), job->frame(cv::Rect({half.width, 0}, half)),
                           remappers.get());
        });
        if (!engine)
            engine = std::make_shared<Engine>(device, job->pair.left.size(), s.stereo);
        job->result = job->computing([&] { return engine->run(job->pair, s.wantsEdges()); });
    };
}

// Frames are dealt to the devices in turn.
void mapVideo(Settings &s, const std::vector<sample::Device> &devices, sample::Source &source) {
    const cv::Size half(source.size().width / 2, source.size().height);
    if (half.width < 1)
        throw sample::Stop(sample::INPUT, "a side-by-side picture must have at least two columns");
    const cv::Size size(std::max(1, half.width / s.reduce), std::max(1, half.height / s.reduce));
    const auto sink = sample::openSink(s.common, TITLE, source.isPicture() ? "contour.png" : "contour.mp4",
                                       shownSize(s, size), sample::playbackOf(source));
    const size_t depth = devices.size() > 1 ? 2 : 1;
    std::vector<Job> memory(depth * devices.size());
    std::vector<Job *> jobs(memory.size());
    std::transform(memory.begin(), memory.end(), jobs.begin(), [](Job &job) { return &job; });
    const double opening = source.decodingSeconds(); // before the clock starts
    sample::Progress progress("frames", s.frames ? s.frames : source.frames());
    sample::figureText("device", "%s", sample::deviceNames(devices).c_str());
    figureInput(s, source.name(), size);
    const cv::Mat first = source.preview(0, 0).front();
    const cv::Mat left = first(cv::Rect({0, 0}, half)), right = first(cv::Rect({half.width, 0}, half));
    const contour::Rectification how = chooseRectification(s, left, right);
    const Pair pair = prepare(s, left, right, remappersFor(how, devices.front().space).get());
    chooseShifts(s, how, devices.front(), pair, !source.isPicture());
    chooseWindow(s, devices.front(), pair);
    sample::Dealer<Job *> dealer(devices, depth, [&](size_t w) { return worker(s, how, devices[w], half); });
    long long read = 0, frames = 0;
    const auto fill = [&](Job &job) {
        const bool more = (!s.frames || read < s.frames) && !sample::interrupted() && source.read(job.frame) && ++read > 0;
        job.seconds = source.seconds();
        return more;
    };
    Job last;
    sample::Stopwatch drawing, writing;
    const std::exception_ptr ended_early = dealer.process(jobs, fill, [&](Job &job) {
        last.pair.color = job.pair.color;
        last.result = job.result;
        if (frames == 0)
            reportPair(devices.front(), s, job.pair, job.result.elevation); // the first frame
        const Range range = rangeOf(job.result.elevation);
        sample::reportFrame({{"frame", frames},
                             {"seconds", job.seconds},
                             {"lowest_shift", range.low - 1},
                             {"highest_shift", range.high - 1}});
        progress.update(++frames);
        const cv::Mat picture = drawing([&] { return shown(s, job.result); });
        return writing([&] { return sink->writeAt(picture, job.seconds); });
    });
    progress.finish();
    writing([&] {
        if (frames)
            writeFiles(s, how, last.result, last.pair.color); // the last frame
        sink->finish();
    });
    const double seconds = progress.seconds(), n = static_cast<double>(frames);
    sample::figure("frames", {{"frames", frames}}, "%lld", frames);
    sample::figure("rate", {{"frames_per_second", n / seconds}}, "%.1f frames/s", n / seconds);
    const double computing = std::accumulate(memory.begin(), memory.end(), 0.0,
                                             [](double sum, const Job &job) { return sum + job.computing.seconds; });
    sample::figureStages({{"decode", source.decodingSeconds()},
                          {"compute", computing},
                          {"draw", drawing.seconds},
                          {"write", writing.seconds}},
                         opening + seconds, n);
    if (frames > 0) {
        reportFiles(s);
        sample::figureText("output", "%s", sink->name().c_str());
    }
    if (ended_early)
        std::rethrow_exception(ended_early);
    sink->hold();
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
    sample::chooseDecoder(s.left, devices.front());
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
