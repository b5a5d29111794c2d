#include "heatmap/motion.hpp"

#include "common/output.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "heatmap/things.hpp"

#include "cusight/algorithms.hpp"
#include "cusight/opencv.hpp"

#include <opencv2/imgcodecs.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

namespace heatmap {

using cusight::check;
using sample::Stop;

constexpr double CLIP_MARGIN = 1; // seconds before and after

void addMotionOptions(CLI::App &app, MotionSettings &s) {
    const auto motion = [](CLI::Option *option) { return sample::group(option, "Motion"); };
    motion(sample::addText(app, "--report", s.report, "FILE",
                           "find what moves and write it to a .json or .csv file: start, end, boxes a frame, strength"));
    motion(sample::addText(app, "--clips", s.clips, "FOLDER",
                           "find what moves and cut the video around it into this folder, which exists"));
    const auto region = [&s](const std::string &text) {
        auto &r = s.region;
        char rest = 0;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &r[0], &r[1], &r[2], &r[3], &rest) == 4 && r[0] >= 0 &&
               r[1] >= 0 && r[2] > 0 && r[3] > 0;
    };
    motion(sample::addValue(app, "--region", region, "X,Y,W,H", "four integers X,Y,W,H, none below 0",
                            "watch only this rectangle of the frames"));
    motion(sample::addText(app, "--ignore", s.ignore, "MASK",
                           "an image of the size of the frames: do not watch where it is not black"));
    motion(sample::addNumber(app, "--motion-threshold", s.options.threshold, 1, 255,
                             "gray levels that a moving pixel differs from the background by"));
    motion(sample::addNumber(app, "--min-area", s.options.min_area, 1, 1e9, "pixels that a moving thing has at least"));
    motion(
        sample::addNumber(app, "--min-frames", s.least_frames, 1, 1e6, "frames that a moving thing is seen in at least"));
    motion(sample::addNumber(app, "--learn", s.options.shift, 0, 8,
                             "the background learns 1 / 2^N of each frame; things that stand still fade into it"));
}

void checkMotion(const MotionSettings &s, const sample::Input &input, const sample::Common &common) {
    sample::requireEnding("--report", s.report, {".json", ".csv"});
    if (!common.output.empty() && input.names.size() > 1)
        throw Stop(sample::USAGE, "--output is '" + common.output + "', expected one INPUT, as the picture is that of one");
    for (const std::string &name : input.names)
        if (!s.clips.empty() && sample::isStandard(name))
            throw Stop(sample::USAGE, "--clips is '" + s.clips + "', expected an INPUT that can be read twice, not stdin");
}

namespace {

// The watched pixels: 255 inside the region where the mask is black. Empty: all.
cv::Mat watchedPixels(const MotionSettings &s, cv::Size size) {
    if (s.ignore.empty() && s.region[2] == 0)
        return {};
    cv::Mat watched(size, CV_8U, cv::Scalar(255));
    if (!s.ignore.empty()) {
        sample::requireRegular(s.ignore);
        const cv::Mat mask = cv::imread(s.ignore, cv::IMREAD_GRAYSCALE);
        if (mask.empty())
            throw Stop(sample::INPUT, "--ignore is '" + s.ignore + "', which cannot be read as an image");
        if (mask.size() != size)
            throw Stop(sample::INPUT, sample::text("--ignore is '%s', %d x %d, expected %d x %d like the frames",
                                                   s.ignore.c_str(), mask.cols, mask.rows, size.width, size.height));
        watched.setTo(cv::Scalar(0), mask);
    }
    if (s.region[2] > 0) {
        cv::Mat inside = cv::Mat::zeros(size, CV_8U);
        const cv::Rect region = cv::Rect(s.region[0], s.region[1], s.region[2], s.region[3]) & cv::Rect({}, size);
        if (region.empty())
            throw Stop(sample::USAGE,
                       sample::text("--region is %d,%d,%d,%d, expected a part of frames of %d x %d", s.region[0],
                                    s.region[1], s.region[2], s.region[3], size.width, size.height));
        watched(region).copyTo(inside(region));
        watched = inside;
    }
    return watched;
}

// A detector for the frames of one input, on the CPU or a GPU.
class Camera {
  public:
    Camera(const MotionSettings &s, cv::Size size, const sample::Device &device)
        : detector_(1, size.height, size.width, CUS_8UC3, optionsOf(s, device)), space_(device.space) {
        cv::Mat watched = watchedPixels(s, size);
        if (!watched.empty())
            detector_.watch(onDevice(watched));
    }
    ~Camera() { cusMatRelease(&uploaded_); }
    Camera(const Camera &) = delete;
    Camera &operator=(const Camera &) = delete;
    cusight::MotionDetector::Found step(cv::Mat &frame, double seconds) {
        detector_.run(onDevice(frame), static_cast<int64_t>(std::llround(seconds * 1e6)));
        return detector_.found();
    }

  private:
    static cusMotionOptions optionsOf(const MotionSettings &s, const sample::Device &device) {
        cusMotionOptions options = s.options;
        options.space = device.space;
        return options;
    }
    cusMat onDevice(cv::Mat &host) {
        cusMat mat = CUS_MAT_INIT;
        check(cusMatWrap(&mat, host.rows, host.cols, host.type(), CUS_HOST, host.data, host.step));
        if (space_ == CUS_HOST)
            return mat;
        if (uploaded_.type != mat.type)
            cusMatRelease(&uploaded_);
        check(cusMatUpload(&mat, &uploaded_, nullptr));
        return uploaded_;
    }

    cusight::MotionDetector detector_;
    cusSpace space_;
    cusMat uploaded_ = CUS_MAT_INIT;
};

sample::Input onlyOne(const sample::Input &input, const std::string &name) {
    sample::Input one = input;
    one.names = {name};
    return one;
}

// Reads an input to its end, or up to its error, which is kept.
void look(const MotionSettings &s, const sample::Input &input, const sample::Common &common, const sample::Device &device,
          int frames, Watched &watched) {
    const std::unique_ptr<sample::Source> source = sample::openSource(input);
    watched.size = source->size();
    watched.fps = source->fps();
    Camera camera(s, watched.size, device);
    std::unique_ptr<sample::Sink> sink;
    if (!common.output.empty())
        sink = sample::openFile(common.output, watched.size, sample::playbackOf(*source), common.video);
    Collector collector;
    sample::Progress progress("frames of " + watched.name, frames ? frames : source->frames());
    std::exception_ptr problem;
    cv::Mat frame;
    try {
        while ((!frames || watched.frames < frames) && !sample::interrupted() && source->read(frame)) {
            const cusight::MotionDetector::Found found = camera.step(frame, source->seconds());
            collector.add(source->seconds(), found.boxes);
            if (found.status.state == CUS_MOTION_SUDDEN)
                watched.sudden.push_back(source->seconds());
            if (sink) {
                collector.draw(frame, found.boxes, s.least_frames);
                sink->writeAt(frame, source->seconds());
            }
            progress.update(++watched.frames, sample::text("%d moving", found.status.boxes));
        }
    } catch (const Stop &stop) {
        if (stop.code() != sample::INPUT)
            throw;
        problem = std::current_exception();
    }
    progress.finish();
    if (sink)
        sink->finish();
    watched.things = collector.things(s.least_frames);
    if (problem)
        std::rethrow_exception(problem);
}

// "FOLDER/vtest-001.mp4"
std::string clipName(const std::string &folder, const std::string &input, size_t number) {
    const size_t slash = input.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = input.find_last_of('.');
    std::string stem = input.substr(begin, dot == std::string::npos || dot < begin ? std::string::npos : dot - begin);
    for (char &c : stem)
        if (c == '%' || c == ':')
            c = '-';
    return sample::text("%s/%s-%03zu.mp4", folder.c_str(), stem.c_str(), number);
}

// Reads the input again and writes a video for each period in which something moves.
void cut(const MotionSettings &s, const sample::Input &input, const sample::Common &common, Watched &watched) {
    size_t number = 0;
    for (const auto &[start, end] : periods(watched.things, CLIP_MARGIN)) {
        sample::Input part = input;
        part.start = input.start + start;
        part.duration = end - start;
        const std::unique_ptr<sample::Source> source = sample::openSource(part);
        const std::string name = clipName(s.clips, watched.name, ++number);
        const auto sink = sample::openFile(name, source->size(), sample::playbackOf(*source), common.video);
        cv::Mat frame;
        while (!sample::interrupted() && source->read(frame))
            sink->writeAt(frame, source->seconds());
        sink->finish();
        watched.clips.push_back(name);
    }
}

void reportInput(const Watched &w) {
    std::string words = sample::text("%lld frames, %zu moving things, %zu sudden changes, %zu clips", w.frames,
                                     w.things.size(), w.sudden.size(), w.clips.size());
    if (!w.error.empty())
        words += "; failed: " + w.error;
    sample::figure(w.name.c_str(), sample::Json(), "%s", words.c_str());
    sample::Json json;
    json.add("input", w.name).add("frames", w.frames).add("things", w.things.size());
    json.add("sudden_changes", w.sudden.size()).add("clips", w.clips.size()).add("error", w.error);
    sample::reportFrame(json);
}

} // namespace

int findMotion(const MotionSettings &s, const sample::Input &input, const sample::Common &common,
               const sample::Device &device, int frames) {
    std::unique_ptr<sample::OutputFile> report;
    if (!s.report.empty())
        report = std::make_unique<sample::OutputFile>(s.report);
    std::vector<Watched> all;
    size_t things = 0, failed = 0;
    for (const std::string &name : input.names) {
        if (sample::interrupted())
            break;
        all.emplace_back();
        Watched &watched = all.back();
        watched.name = name;
        const sample::Input one = onlyOne(input, name);
        try {
            look(s, one, common, device, frames, watched);
            if (!s.clips.empty())
                cut(s, one, common, watched);
        } catch (const Stop &stop) {
            if (stop.code() != sample::INPUT)
                throw;
            watched.error = stop.what();
            ++failed;
        }
        things += watched.things.size();
        reportInput(watched);
    }
    if (report) {
        writeReport(*report, all);
        report->commit();
    }
    sample::figure("things", sample::Json().add("inputs", all.size()).add("failed", failed).add("things", things),
                   "%zu moving things in %zu inputs, %zu of which failed", things, all.size(), failed);
    for (const Watched &w : all)
        if (!w.error.empty())
            throw Stop(sample::INPUT, w.error);
    return sample::OK;
}

} // namespace heatmap
