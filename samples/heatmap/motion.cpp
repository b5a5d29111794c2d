#include "heatmap/motion.hpp"

#include "common/libav/writer.hpp"
#include "common/output.hpp"
#include "common/stages.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/video/image.hpp"
#include "common/video/source.hpp"
#include "heatmap/things.hpp"

#include "cusight/algorithms.hpp"
#include "cusight/opencv.hpp"

#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

namespace heatmap {

namespace fs = std::filesystem;
using cusight::check;
using sample::Stop;

constexpr double CLIP_MARGIN = 1; // seconds before and after

void addMotionOptions(CLI::App &app, MotionSettings &s) {
    const auto motion = [](CLI::Option *option) { return sample::group(option, "Motion"); };
    motion(sample::addFile(app, "--report", sample::Names::OUTPUT, s.report, "FILE",
                           "find what moves and write it to a .json or .csv file: start, end, boxes a frame, strength; "
                           "with it or --clips, pictures are made only for --output, as --view says"));
    motion(sample::addFile(app, "--clips", sample::Names::FOLDER, s.clips, "FOLDER",
                           "find what moves and cut the video around it into this folder, which is made: INPUT-001.mp4"));
    const auto region = [&s](const std::string &text) {
        auto &r = s.region;
        char rest = 0;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &r[0], &r[1], &r[2], &r[3], &rest) == 4 && r[0] >= 0 &&
               r[1] >= 0 && r[2] > 0 && r[3] > 0;
    };
    motion(sample::addValue(app, "--region", region, "X,Y,W,H", "four integers X,Y,W,H, none below 0",
                            "watch only this rectangle of the frames"));
    motion(sample::addFile(app, "--ignore", sample::Names::INPUT, s.ignore, "MASK",
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
        const cv::Mat mask = sample::readImage(s.ignore, cv::IMREAD_GRAYSCALE);
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

// How many inputs are looked at together: a decoder each, with its threads and frames.
constexpr size_t AT_ONCE = 40;

// Where the time goes, over all inputs.
struct Times {
    double decoding = 0;
    sample::Stopwatch computing, writing;
};

// One input while it is looked at.
class Camera {
  public:
    // Throws Stop.
    Camera(Watched &watched, const sample::Input &input, const MotionSettings &s, const sample::Common &common, int frames,
           Times &times)
        : watched_(watched), settings_(s), times_(times), source_(sample::openSource(input)), frames_(frames) {
        watched.size = source_->size();
        watched.fps = source_->fps();
        if (!common.output.empty())
            sink_ = sample::openFile(common.output, watched.size, sample::playbackOf(*source_), common.video);
    }
    ~Camera() { cusMatRelease(&uploaded_); }
    Camera(const Camera &) = delete;
    Camera &operator=(const Camera &) = delete;

    void showProgress(int lines_below) {
        progress_ = std::make_unique<sample::Progress>("frames of " + watched_.name, frames_ ? frames_ : source_->frames(),
                                                       lines_below);
    }
    cv::Size size() const { return watched_.size; }
    int64_t microseconds() const { return std::llround(source_->seconds() * 1e6); }

    // The next frame in the detector's memory; empty from the end on, or from an error on, which is kept.
    cusMat next(cusSpace space) {
        cusMat mat = CUS_MAT_INIT;
        if (ended_)
            return mat;
        try {
            if ((frames_ && watched_.frames == frames_) || sample::interrupted() || !source_->read(frame_)) {
                end();
                return mat;
            }
        } catch (const Stop &stop) {
            fail(stop);
            return mat;
        }
        check(cusMatWrap(&mat, frame_.rows, frame_.cols, frame_.type(), CUS_HOST, frame_.data, frame_.step));
        if (space == CUS_HOST)
            return mat;
        check(cusMatUpload(&mat, &uploaded_, nullptr));
        return uploaded_;
    }
    // What has been found in that frame.
    void add(const cusMotionStatus &status, const std::vector<cusMotionBox> &boxes) {
        collector_.add(source_->seconds(), boxes);
        if (status.state == CUS_MOTION_SUDDEN)
            watched_.sudden.push_back(source_->seconds());
        if (sink_) {
            times_.writing([&] {
                collector_.draw(frame_, boxes, settings_.least_frames);
                sink_->writeAt(frame_, source_->seconds());
            });
        }
        progress_->update(++watched_.frames, sample::text("%d moving", status.boxes));
    }
    // Ends with an error of the input; throws any other.
    void fail(const Stop &stop) {
        if (stop.code() != sample::INPUT)
            throw stop;
        watched_.error = stop.what();
        end();
    }

  private:
    void end() {
        ended_ = true;
        progress_->finish();
        times_.decoding += source_->decodingSeconds();
        if (sink_)
            times_.writing([&] { sink_->finish(); });
        watched_.things = collector_.things(settings_.least_frames);
    }

    Watched &watched_;
    const MotionSettings &settings_;
    Times &times_;
    std::unique_ptr<sample::Source> source_;
    std::unique_ptr<sample::Sink> sink_;
    std::unique_ptr<sample::Progress> progress_;
    Collector collector_;
    cv::Mat frame_;
    cusMat uploaded_ = CUS_MAT_INIT;
    int frames_;
    bool ended_ = false;
};

cusMotionOptions optionsOf(const MotionSettings &s, const sample::Device &device) {
    cusMotionOptions options = s.options;
    options.space = device.space;
    return options;
}

// Lets a detector watch only what the settings say.
void limit(cusight::MotionDetector &detector, const MotionSettings &s, cv::Size size, cusSpace space) {
    cv::Mat watched = watchedPixels(s, size);
    if (watched.empty())
        return;
    cusMat mask = CUS_MAT_INIT, uploaded = CUS_MAT_INIT;
    check(cusMatWrap(&mask, watched.rows, watched.cols, watched.type(), CUS_HOST, watched.data, watched.step));
    if (space == CUS_DEVICE)
        check(cusMatUpload(&mask, &uploaded, nullptr));
    detector.watch(space == CUS_DEVICE ? uploaded : mask);
    cusMatRelease(&uploaded);
}

// Cameras of one frame size, which share a detector: a step takes a frame of each.
class Group {
  public:
    Group(const MotionSettings &s, const sample::Device &device, std::vector<Camera *> cameras)
        : cameras_(std::move(cameras)), space_(device.space), max_boxes_(static_cast<size_t>(s.options.max_boxes)),
          detector_(static_cast<int>(cameras_.size()), size().height, size().width, CUS_8UC3, optionsOf(s, device)),
          frames_(cameras_.size()), times_(cameras_.size()), status_(cameras_.size()),
          boxes_(cameras_.size() * max_boxes_) {
        limit(detector_, s, size(), space_);
    }
    // Returns false once all cameras have ended.
    bool step(Times &times) {
        bool any = false;
        for (size_t i = 0; i < cameras_.size(); ++i) {
            frames_[i] = cameras_[i]->next(space_);
            if (!frames_[i].data)
                continue;
            times_[i] = cameras_[i]->microseconds();
            any = true;
        }
        if (!any)
            return false;
        times.computing([&] {
            detector_.runAll(frames_, times_);
            check(cusMotionDetectorGet(detector_.get(), 0, static_cast<int>(cameras_.size()), status_.data(), boxes_.data(),
                                       nullptr, nullptr));
        });
        for (size_t i = 0; i < cameras_.size(); ++i)
            if (frames_[i].data) {
                const auto first = boxes_.begin() + static_cast<std::ptrdiff_t>(i * max_boxes_);
                cameras_[i]->add(status_[i], {first, first + status_[i].boxes});
            }
        return true;
    }

  private:
    cv::Size size() const { return cameras_.front()->size(); }

    std::vector<Camera *> cameras_;
    cusSpace space_;
    size_t max_boxes_;
    cusight::MotionDetector detector_;
    std::vector<cusMat> frames_;
    std::vector<int64_t> times_;
    std::vector<cusMotionStatus> status_;
    std::vector<cusMotionBox> boxes_;
};

sample::Input onlyOne(const sample::Input &input, const std::string &name) {
    sample::Input one = input;
    one.names = {name};
    return one;
}

// Reads inputs to their ends, or up to their errors, which are kept, a frame of each at a time.
void look(const MotionSettings &s, const sample::Input &input, const sample::Common &common, const sample::Device &device,
          int frames, Watched *first, size_t count, Times &times) {
    std::vector<std::unique_ptr<Camera>> cameras;
    for (size_t i = 0; i < count; ++i)
        try {
            cameras.push_back(std::make_unique<Camera>(first[i], onlyOne(input, first[i].name), s, common, frames, times));
        } catch (const Stop &stop) {
            if (stop.code() != sample::INPUT)
                throw;
            first[i].error = stop.what();
        }
    const bool lines = sample::Progress::makeRoom(cameras.size());
    for (size_t i = 0; i < cameras.size(); ++i)
        cameras[i]->showProgress(lines ? static_cast<int>(cameras.size() - i) : 0);
    std::vector<std::vector<Camera *>> sizes;
    for (const auto &camera : cameras) {
        const auto same = std::find_if(sizes.begin(), sizes.end(),
                                       [&](const auto &group) { return group.front()->size() == camera->size(); });
        if (same == sizes.end())
            sizes.push_back({camera.get()});
        else
            same->push_back(camera.get());
    }
    std::vector<std::unique_ptr<Group>> groups;
    for (const std::vector<Camera *> &group : sizes)
        try {
            groups.push_back(std::make_unique<Group>(s, device, group));
        } catch (const Stop &stop) {
            for (Camera *camera : group)
                camera->fail(stop);
        }
    for (bool any = true; any;) {
        any = false;
        for (const auto &group : groups)
            any |= group->step(times);
    }
}

// What the clips of an input are called: "vtest" for "cam/vtest.avi", "cam" for "cam/".
std::string stemOf(const std::string &input) {
    std::string stem = input.substr(0, input.find_last_not_of('/') + 1);
    stem.erase(0, stem.rfind('/') + 1);
    if (stem.empty() || stem == "." || stem == "..")
        stem = fs::weakly_canonical(input).filename().string();
    if (const size_t dot = stem.rfind('.'); dot != std::string::npos && dot > 0)
        stem.erase(dot);
    for (char &c : stem)
        c = c == '%' || c == ':' ? '-' : c;
    return stem.empty() || stem == "/" ? "clip" : stem;
}

// Inputs of one name in several folders have clips "v-001.mp4" and "v-2-001.mp4". Decides all names before anything is read.
void nameClips(const std::string &folder, std::vector<Watched> &inputs) {
    std::set<std::string> taken;
    for (Watched &input : inputs) {
        const std::string first = stemOf(input.name);
        std::string stem = first;
        for (int number = 2; !taken.insert(stem).second; ++number)
            stem = first + "-" + std::to_string(number);
        input.clip = {folder + "/" + stem + "-", ".mp4", 3};
        sample::currentFiles().derive("--clips", folder, input.clip);
    }
    sample::makeFolder(folder);
}

// Reads the input again and writes a video for each period in which something moves. An error of the input is kept.
void cut(const sample::Input &input, const sample::Common &common, Watched &watched) try {
    long long number = 0;
    for (const auto &[start, end] : periods(watched.things, CLIP_MARGIN)) {
        sample::Input part = input;
        part.start = input.start + start;
        part.duration = end - start;
        const std::unique_ptr<sample::Source> source = sample::openSource(part);
        const std::string name = watched.clip.file(++number);
        const auto sink = av::openVideo(name, source->size(), sample::playbackOf(*source), common.video);
        cv::Mat frame;
        while (!sample::interrupted() && source->read(frame))
            sink->writeAt(frame, source->seconds());
        sink->finish();
        watched.clips.push_back(name);
    }
} catch (const Stop &stop) {
    if (stop.code() != sample::INPUT)
        throw;
    watched.error = stop.what();
}

void reportInput(const Watched &w) {
    if (w.frames == 1)
        sample::note("%s: nothing moves in one picture alone; expected a video, a folder or a sequence of pictures",
                     w.name.c_str());
    std::string words = sample::text("%lld frames, %zu moving things, %zu sudden changes, %zu clips", w.frames,
                                     w.things.size(), w.sudden.size(), w.clips.size());
    if (!w.error.empty())
        words += "; failed: " + w.error;
    sample::figure(w.name.c_str(), sample::Json(), "%s", words.c_str());
    sample::reportFrame({{"input", w.name},
                         {"frames", w.frames},
                         {"things", w.things.size()},
                         {"sudden_changes", w.sudden.size()},
                         {"clips", w.clips.size()},
                         {"error", w.error}});
}

// The inputs of a run, with what has been found in them, and where that is written.
class Findings {
  public:
    Findings(const MotionSettings &s, const sample::Input &input, const sample::Common &common)
        : settings_(s), input_(input), common_(common), inputs(input.names.size()) {
        for (size_t i = 0; i < inputs.size(); ++i)
            inputs[i].name = input.names[i];
        if (!s.clips.empty())
            nameClips(s.clips, inputs);
        if (!s.report.empty())
            report_ = std::make_unique<sample::OutputFile>(s.report);
    }

    // Cuts the clips, and writes and prints what has been found.
    void write() {
        for (Watched &watched : inputs) {
            if (!settings_.clips.empty() && !sample::interrupted())
                cut(onlyOne(input_, watched.name), common_, watched);
            reportInput(watched);
        }
        if (!report_)
            return;
        writeReport(*report_, inputs);
        report_->commit();
    }
    // Throws the first input's error.
    void summarize() const {
        size_t things = 0, failed = 0;
        for (const Watched &watched : inputs) {
            failed += !watched.error.empty();
            things += watched.things.size();
        }
        sample::figure("things", {{"inputs", inputs.size()}, {"failed", failed}, {"things", things}},
                       "%zu moving things in %zu input%s, %zu of which failed", things, inputs.size(),
                       inputs.size() == 1 ? "" : "s", failed);
        for (const Watched &watched : inputs)
            if (!watched.error.empty())
                throw Stop(sample::INPUT, watched.error);
    }

  private:
    const MotionSettings &settings_;
    const sample::Input &input_;
    const sample::Common &common_;
    std::unique_ptr<sample::OutputFile> report_;

  public:
    std::vector<Watched> inputs;
};

} // namespace

int findMotion(const MotionSettings &s, const sample::Input &input, const sample::Common &common,
               const sample::Device &device, int frames) {
    Findings found(s, input, common);
    sample::Stopwatch overall;
    Times times;
    size_t looked = 0;
    long long seen = 0;
    overall([&] {
        while (looked < found.inputs.size() && !sample::interrupted()) {
            const size_t count = std::min(AT_ONCE, found.inputs.size() - looked);
            look(s, input, common, device, frames, &found.inputs[looked], count, times);
            looked += count;
        }
    });
    found.inputs.resize(looked);
    found.write();
    for (const Watched &watched : found.inputs)
        seen += watched.frames;
    sample::figureText("device", "%s", device.name.c_str());
    sample::detail({{"frames", seen}});
    sample::figureStages(
        {{"decode", times.decoding}, {"compute", times.computing.seconds}, {"write", times.writing.seconds}},
        overall.seconds, static_cast<double>(seen));
    found.summarize();
    return sample::OK;
}

// ---- Beside another view -----------------------------------------------------------------------------------------------

struct Watch::State {
    State(const MotionSettings &s, const sample::Input &input, const sample::Common &common, const sample::Device &device,
          const sample::Source &source)
        : settings(s), space(device.space), found(s, input, common),
          detector(1, source.size().height, source.size().width, CUS_8UC3, optionsOf(s, device)),
          boxes(static_cast<size_t>(s.options.max_boxes)) {
        watched().size = source.size();
        watched().fps = source.fps();
        limit(detector, s, source.size(), space);
    }
    ~State() { cusMatRelease(&uploaded); }
    State(const State &) = delete;
    State &operator=(const State &) = delete;

    Watched &watched() { return found.inputs.front(); }

    const MotionSettings &settings;
    const cusSpace space;
    Findings found;
    Collector collector;
    cusight::MotionDetector detector;
    std::vector<cusMotionBox> boxes;
    cusMat uploaded = CUS_MAT_INIT;
};

Watch::Watch(const MotionSettings &settings, const sample::Input &input, const sample::Common &common,
             const sample::Device &device, const sample::Source &source)
    : state_(std::make_unique<State>(settings, input, common, device, source)) {}

Watch::~Watch() = default;

void Watch::add(const cv::Mat &frame, double seconds) {
    State &s = *state_;
    cusMat mat = CUS_MAT_INIT;
    cusMotionStatus status = {};
    check(cusMatWrap(&mat, frame.rows, frame.cols, frame.type(), CUS_HOST, frame.data, frame.step));
    if (s.space == CUS_DEVICE)
        check(cusMatUpload(&mat, &s.uploaded, nullptr));
    s.detector.runAll({s.space == CUS_DEVICE ? s.uploaded : mat}, {std::llround(seconds * 1e6)});
    check(cusMotionDetectorGet(s.detector.get(), 0, 1, &status, s.boxes.data(), nullptr, nullptr));
    s.collector.add(seconds, {s.boxes.begin(), s.boxes.begin() + status.boxes});
    if (status.state == CUS_MOTION_SUDDEN)
        s.watched().sudden.push_back(seconds);
    ++s.watched().frames;
}

void Watch::finish(const std::exception_ptr &error) {
    State &s = *state_;
    try {
        if (error)
            std::rethrow_exception(error);
    } catch (const Stop &stop) {
        if (stop.code() != sample::INPUT)
            throw;
        s.watched().error = stop.what();
    }
    s.watched().things = s.collector.things(s.settings.least_frames);
    s.found.write();
    s.found.summarize();
}

} // namespace heatmap
