#include "heatmap/motion.hpp"

#include "common/output.hpp"
#include "common/stages.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/progress.hpp"
#include "heatmap/feeds.hpp"
#include "heatmap/pictures/pictures.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>

namespace heatmap {

namespace fs = std::filesystem;
using cusight::check;
using sample::FrameSize;
using sample::Stop;

void addMotionOptions(CLI::App &app, MotionSettings &s) {
    const auto motion = [](CLI::Option *option) { return sample::group(option, "Motion"); };
    motion(sample::addFile(app, "--report", sample::Names::OUTPUT, s.report, "FILE",
                           "find what moves and write it to a .json or .csv file: start, end, boxes a frame, strength; "
                           "with it or --clips, pictures are made only for --output, as --view says"));
    if (sample::withoutPictures().empty()) {
        motion(
            sample::addFile(app, "--clips", sample::Names::FOLDER, s.clips, "FOLDER",
                            "find what moves and cut the video around it into this folder, which is made: INPUT-001.mp4"));
        motion(sample::addFile(app, "--ignore", sample::Names::INPUT, s.ignore, "MASK",
                               "an image of the size of the frames: do not watch where it is not black"));
    }
    const auto region = [&s](const std::string &text) {
        auto &r = s.region;
        char rest = 0;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &r[0], &r[1], &r[2], &r[3], &rest) == 4 && r[0] >= 0 &&
               r[1] >= 0 && r[2] > 0 && r[3] > 0;
    };
    motion(sample::addValue(app, "--region", region, "X,Y,W,H", "four integers X,Y,W,H, none below 0",
                            "watch only this rectangle of the frames"));
    motion(
        sample::addDuration(app, "--reconnect", s.reconnect, 0, 1e9,
                            "open a camera of the network that is lost again, for so long; the report says what was lost"));
    motion(sample::addNumber(app, "--motion-threshold", s.options.threshold, 1, 255,
                             "gray levels that a moving pixel differs from the background by"));
    motion(sample::addNumber(app, "--min-area", s.options.min_area, 1, 1e9, "pixels that a moving thing has at least"));
    motion(sample::addNumber(app, "--min-frames", s.least_frames, 1, 1e6,
                             "a moving thing counts once it was seen in so many frames and has left its first place"));
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

cusMotionOptions optionsOf(const MotionSettings &s, const sample::Device &device) {
    cusMotionOptions options = s.options;
    options.space = device.space;
    return options;
}

void limit(cusight::MotionDetector &detector, const MotionSettings &s, FrameSize size, cusSpace space) {
    if (s.ignore.empty() && s.region[2] == 0)
        return;
    const cusight::Matrix ignored = s.ignore.empty() ? cusight::Matrix() : readMask(s.ignore);
    if (!ignored.empty() && (ignored.cols() != size.width || ignored.rows() != size.height))
        throw Stop(sample::INPUT, sample::text("--ignore is '%s', %d x %d, expected %d x %d like the frames",
                                               s.ignore.c_str(), ignored.cols(), ignored.rows(), size.width, size.height));
    const auto [x, y, width, height] = s.region;
    if (width && (x >= size.width || y >= size.height))
        throw Stop(sample::USAGE, sample::text("--region is %d,%d,%d,%d, expected a part of frames of %d x %d", x, y, width,
                                               height, size.width, size.height));
    cusight::Matrix mask(size.height, size.width, CUS_8UC1), uploaded; // 255 inside the region where the image is black
    for (int row = 0; row < size.height; ++row)
        for (int col = 0; col < size.width; ++col) {
            const bool inside = !width || (col >= x && col - x < width && row >= y && row - y < height);
            mask.at<uint8_t>(row, col) = inside && (ignored.empty() || !ignored.at<uint8_t>(row, col)) ? 255 : 0;
        }
    if (space == CUS_DEVICE)
        check(cusMatUpload(&mask.get(), &uploaded.get(), nullptr));
    detector.watch(space == CUS_DEVICE ? uploaded : mask);
}

namespace {

// How many inputs are looked at together: a decoder each, with its threads and frames.
constexpr size_t AT_ONCE = 40;

// Where the time goes, over all inputs; that of decoding on all of their threads.
struct Times {
    double decoding = 0;
    sample::Stopwatch computing, writing;
};

class Group;

// One input while it is looked at.
class Camera {
  public:
    Camera(Watched &watched, const MotionSettings &s, const sample::Common &common, int frames, Times &times)
        : watched_(watched), common_(common), frames_(frames), times_(times), collector_(s.least_frames) {}

    // On the input's thread. Throws Stop.
    void open(const sample::Source &source) {
        watched_.size = source.size();
        watched_.fps = source.fps();
        total_ = frames_ ? frames_ : source.frames();
        if (!common_.output.empty())
            drawing_ = openDrawing(common_, source);
    }
    void showProgress(int lines_below) {
        progress_ = std::make_unique<sample::Progress>("frames of " + watched_.name, total_, lines_below);
    }
    // A detector that has not seen it yet: tracks are numbered on.
    void join(const Group *group) {
        group_ = group;
        tracks_before_ = collector_.lastTrack();
    }
    const Group *group() const { return group_; }
    bool over() const { return over_; }

    // A frame in the detector's memory.
    cusMat inSpace(const Feeds::Frame &frame, cusSpace space) {
        if (frame.picture.space() == space)
            return frame.picture.get();
        check(cusMatUpload(&frame.picture.get(), &uploaded_.get(), nullptr));
        return uploaded_.get();
    }
    // What has been found in it.
    void add(Feeds::Frame &frame, const cusMotionStatus &status, std::vector<cusMotionBox> boxes) {
        for (cusMotionBox &box : boxes)
            box.track += tracks_before_;
        collector_.add(frame.seconds, boxes);
        if (status.state == CUS_MOTION_SUDDEN)
            watched_.sudden.push_back(frame.seconds);
        if (drawing_)
            times_.writing([&] { drawing_->add(frame.picture.get(), frame.seconds, collector_.current()); });
        ++watched_.frames;
        if (progress_)
            progress_->update(watched_.frames, sample::text("%zu moving", collector_.current().size()));
    }
    // Its detector has failed with the exception that is handled: its feed was dropped.
    void fail() { keep(watched_, std::current_exception()); }
    // An error of the input is kept; throws any other.
    void end(const Outcome &outcome) {
        keep(watched_, outcome.error);
        watched_.gaps = outcome.gaps;
        watched_.damaged = outcome.damaged;
        times_.decoding += outcome.decoding;
        if (progress_)
            progress_->finish();
        if (drawing_)
            times_.writing([&] { drawing_->finish(); });
        watched_.things = collector_.things();
        over_ = true;
    }

  private:
    Watched &watched_;
    const sample::Common &common_;
    const int frames_;
    Times &times_;
    long long total_ = 0;
    std::unique_ptr<Drawing> drawing_;
    std::unique_ptr<sample::Progress> progress_;
    Collector collector_;
    const Group *group_ = nullptr;
    uint32_t tracks_before_ = 0;
    cusight::Matrix uploaded_;
    bool over_ = false;
};

void fail(Feeds &feeds, std::vector<Camera> &cameras, size_t index) {
    cameras[index].fail();
    feeds.drop(index);
}

// Cameras of one frame size, which share a detector: a step takes a frame of each that has one.
class Group {
  public:
    Group(const MotionSettings &s, const sample::Device &device, FrameSize size, std::vector<size_t> members)
        : members_(std::move(members)), size_(size), space_(device.space),
          max_boxes_(static_cast<size_t>(s.options.max_boxes)),
          detector_(static_cast<int>(members_.size()), size.height, size.width, CUS_8UC3, optionsOf(s, device)),
          frames_(members_.size()), times_(members_.size()), status_(members_.size()),
          boxes_(members_.size() * max_boxes_) {
        limit(detector_, s, size, space_);
    }
    FrameSize size() const { return size_; }

    void step(Feeds &feeds, std::vector<Camera> &cameras, Times &times) {
        std::vector<Feeds::Frame *> given(members_.size());
        try {
            if (!compute(feeds, cameras, times, given))
                return;
        } catch (const cusight::Error &) {
            for (size_t i = 0; i < members_.size(); ++i)
                if (given[i])
                    fail(feeds, cameras, members_[i]);
            return;
        }
        for (size_t i = 0; i < members_.size(); ++i) {
            if (!given[i])
                continue;
            const auto first = boxes_.begin() + static_cast<std::ptrdiff_t>(i * max_boxes_);
            cameras[members_[i]].add(*given[i], status_[i], {first, first + status_[i].boxes});
            feeds.pop(members_[i]);
        }
    }

  private:
    // Sets `given` to the cameras' frames. Returns false if none has one.
    bool compute(Feeds &feeds, std::vector<Camera> &cameras, Times &times, std::vector<Feeds::Frame *> &given) {
        bool any = false;
        for (size_t i = 0; i < members_.size(); ++i) {
            Camera &camera = cameras[members_[i]];
            given[i] = camera.group() == this ? feeds.front(members_[i]) : nullptr;
            frames_[i] = given[i] ? camera.inSpace(*given[i], space_) : cusMat CUS_MAT_INIT;
            times_[i] = given[i] ? std::llround(given[i]->seconds * 1e6) : 0;
            any |= given[i] != nullptr;
        }
        if (any)
            times.computing([&] {
                detector_.runAll(frames_, times_);
                check(cusMotionDetectorGet(detector_.get(), 0, static_cast<int>(members_.size()), status_.data(),
                                           boxes_.data(), nullptr, nullptr));
            });
        return any;
    }

    const std::vector<size_t> members_; // inputs
    const FrameSize size_;
    const cusSpace space_;
    const size_t max_boxes_;
    cusight::MotionDetector detector_;
    std::vector<cusMat> frames_;
    std::vector<int64_t> times_;
    std::vector<cusMotionStatus> status_;
    std::vector<cusMotionBox> boxes_;
};

FrameSize sizeOf(const Feeds::Frame &frame) {
    return {frame.picture.cols(), frame.picture.rows()};
}

// Gives those that have a frame and no detector for its size one together, for each size. A camera that comes back may have another.
void gather(Feeds &feeds, std::vector<Camera> &cameras, std::vector<std::unique_ptr<Group>> &groups,
            const MotionSettings &s, const sample::Device &device) {
    std::vector<size_t> waiting;
    for (size_t i = 0; i < cameras.size(); ++i) {
        const Feeds::Frame *const frame = feeds.front(i);
        if (frame && (!cameras[i].group() || !(cameras[i].group()->size() == sizeOf(*frame))))
            waiting.push_back(i);
    }
    for (auto first = waiting.begin(); first != waiting.end();) {
        const FrameSize size = sizeOf(*feeds.front(*first));
        const auto others =
            std::stable_partition(first, waiting.end(), [&](size_t i) { return sizeOf(*feeds.front(i)) == size; });
        const std::vector<size_t> members(first, others);
        first = others;
        try {
            groups.push_back(std::make_unique<Group>(s, device, size, members));
            for (const size_t i : members)
                cameras[i].join(groups.back().get());
        } catch (...) {
            for (const size_t i : members)
                fail(feeds, cameras, i);
        }
    }
}

sample::Input onlyOne(const sample::Input &input, const std::string &name) {
    sample::Input one = input;
    one.names = {name};
    return one;
}

void showProgress(std::vector<Camera> &cameras) {
    const auto running =
        static_cast<size_t>(std::count_if(cameras.begin(), cameras.end(), [](const Camera &c) { return !c.over(); }));
    const bool lines = sample::Progress::makeRoom(running);
    int below = static_cast<int>(running);
    for (Camera &camera : cameras)
        if (!camera.over())
            camera.showProgress(lines ? below-- : 0);
}

// Reads inputs to their ends, or up to their errors, which are kept, a frame of each at a time.
void look(const MotionSettings &s, const sample::Input &input, const sample::Common &common, const sample::Device &device,
          int frames, Watched *first, size_t count, Times &times) {
    std::vector<Camera> cameras;
    std::vector<sample::Input> inputs;
    for (size_t i = 0; i < count; ++i) {
        cameras.emplace_back(first[i], s, common, frames, times);
        inputs.push_back(onlyOne(input, first[i].name));
        if (count > 1) // they have threads already
            inputs.back().threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / count));
    }
    Feeds::Settings how = {device, common.output.empty() ? device.space : CUS_HOST, frames, s.reconnect, {}};
    how.opened = [&](size_t i, const sample::Source &source) { cameras[i].open(source); };
    Feeds feeds(inputs, how);
    const auto end = [&] {
        for (size_t i = 0; i < count; ++i)
            if (const Outcome *const outcome = cameras[i].over() ? nullptr : feeds.ended(i))
                cameras[i].end(*outcome);
    };
    std::vector<std::unique_ptr<Group>> groups;
    for (bool shown = false; feeds.wait();) {
        end();
        gather(feeds, cameras, groups, s, device);
        if (!std::exchange(shown, true))
            showProgress(cameras);
        for (const auto &group : groups)
            group->step(feeds, cameras, times);
    }
    end();
    for (Camera &camera : cameras) // the program was interrupted
        if (!camera.over())
            camera.end({});
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

void reportInput(const Watched &w) {
    if (w.frames == 1)
        sample::note("%s: nothing moves in one picture alone; expected a video, a folder or a sequence of pictures",
                     w.name.c_str());
    std::string words = sample::text("%lld frames, %zu moving things, %zu sudden changes, %zu clips", w.frames,
                                     w.things.size(), w.sudden.size(), w.clips.size());
    double lost = 0;
    for (const Gap &gap : w.gaps)
        lost += gap.lasted;
    if (!w.gaps.empty())
        words += sample::text("; lost %zu times, for %.1f s", w.gaps.size(), lost);
    if (w.damaged)
        words += sample::text("; %lld parts damaged", w.damaged);
    if (!w.error.empty())
        words += "; failed: " + w.error;
    sample::figure(w.name.c_str(), sample::Json(), "%s", words.c_str());
    sample::reportFrame({{"input", w.name},
                         {"frames", w.frames},
                         {"things", w.things.size()},
                         {"sudden_changes", w.sudden.size()},
                         {"clips", w.clips.size()},
                         {"lost", w.gaps.size()},
                         {"lost_seconds", lost},
                         {"damaged", w.damaged},
                         {"error", w.error}});
}

} // namespace

Findings::Findings(const MotionSettings &s, const sample::Input &input, const sample::Common &common)
    : settings_(s), input_(input), common_(common), inputs(input.names.size()) {
    for (size_t i = 0; i < inputs.size(); ++i)
        inputs[i].name = input.names[i];
    if (!s.clips.empty())
        nameClips(s.clips, inputs);
    if (!s.report.empty())
        report_ = std::make_unique<sample::OutputFile>(s.report);
}

void Findings::write() {
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

void Findings::summarize() const {
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
            throw Stop(watched.code, watched.error);
}

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

} // namespace heatmap
