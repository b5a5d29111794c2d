// cusight-events: turns a recording of an event camera, or a video, into frames: pictures, videos, raw frames, HDF5.
// `cusight-events info` prints what is in it, `convert` writes it in another format.
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/many_devices.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/stages.hpp"
#include "events/convert.hpp"
#include "events/info.hpp"
#include "events/merge.hpp"
#include "events/output.hpp"
#include "events/pictures/pictures.hpp"
#include "events/recording.hpp"
#include "events/settings.hpp"
#include "events/source.hpp"

#include "cusight/eventframes.h"
#include "cusight/events.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using events::check;
using events::EventSource;
using events::Selection;
using events::Settings;
using sample::Stop;

// ---- The command line --------------------------------------------------------------------------------------------------

bool parseShard(const std::string &text, Settings &s) {
    const size_t slash = text.find('/');
    const auto number = [&](size_t from, size_t to, unsigned long long &value) {
        const std::string digits = text.substr(from, to - from);
        value = std::strtoull(digits.c_str(), nullptr, 10);
        return !digits.empty() && digits.size() <= 7 && digits.find_first_not_of("0123456789") == std::string::npos;
    };
    s.shard_auto = text == "auto";
    return s.shard_auto ||
           (slash != std::string::npos && number(0, slash, s.shard) && number(slash + 1, text.size(), s.shards) &&
            s.shard >= 1 && s.shard <= s.shards && s.shards <= 1000000);
}

// The processes of a host share its GPUs, unless the launcher has given each its own.
void shareDevices(Settings &s) {
    int devices = 0;
    if ((s.common.device != "auto" && s.common.device != "cuda") || cusDeviceCount(&devices) != CUS_OK || devices < 2)
        return;
    unsigned long long number = s.shard - 1;
    for (const char *const name : {"SLURM_LOCALID", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"})
        if (const char *const local = std::getenv(name))
            number = std::strtoull(local, nullptr, 10);
    s.common.device = "cuda:" + std::to_string(number % static_cast<unsigned long long>(devices));
}

// --shard auto: which one it is, on which GPU, and a name of its own for what it stores.
void askLauncher(Settings &s) {
    uint64_t shard = 0, shards = 1;
    if (cusEventFramesLauncherShard(&shard, &shards) != CUS_OK)
        throw Stop(sample::USAGE, "--shard is 'auto', but " + sample::lastMessage());
    s.shard = shard + 1;
    s.shards = shards;
    shareDevices(s);
    for (const auto &[option, given] :
         {std::pair<const char *, std::string>{"--save-events", s.events_file}, {"--triggers", s.triggers_file}})
        if (!given.empty())
            throw Stop(sample::USAGE, std::string(option) + " is '" + given +
                                          "', which every process of --shard auto would write; leave it out");
    std::string &name = s.common.output;
    if (name.empty())
        return;
    if (!events::storesFrames(name) || sample::isStandard(name))
        throw Stop(sample::USAGE, "--output is '" + name + "', expected NAME.raw or NAME.h5 with --shard auto");
    const std::string given = name, type = sample::ending(name), digits = std::to_string(shards),
                      number = std::to_string(s.shard);
    name.insert(name.size() - type.size(),
                ".part-" + std::string(digits.size() - number.size(), '0') + number + "-of-" + digits);
    events::ShardLabel label;
    if (events::readShardLabel(name, label)) // an earlier run's
        sample::currentFiles().declare("--output", name, sample::Names::OUTPUT);
    else
        sample::currentFiles().derive("--output", given, name);
}

void addSize(CLI::App &app, const std::string &name, sample::Size &size, const std::string &help,
             const std::string &group) {
    const auto set = [&size](const std::string &text) { return events::parseSize(text, size.width, size.height); };
    sample::group(sample::addValue(app, name, set, "WxH", "WIDTHxHEIGHT, each from 1 to 65536", help), group);
}

void addMaxMemory(CLI::App &app, events::Memory &memory) {
    const auto set = [&memory](const std::string &text) { return memory.parse(text); };
    sample::group(
        sample::addValue(app, "--max-memory", set, "SIZE", "a size from 128M, such as 512M or 4G",
                         "memory for what INPUT claims: its reader, its sensor, frames of its size; by default 2G, or "
                         "an eighth of the machine's if that is more"),
        "Input");
}

void addInputOptions(CLI::App &app, Settings &s) {
    addMaxMemory(app, *s.memory);
    addSize(app, "--sensor-size", s.sensor, "size of the sensor, if the recording does not contain it", "Input");
    const auto group = [](CLI::Option *option) { return sample::group(option, "Input"); };
    group(sample::addText(app, "--camera", s.camera, "NAME", "camera of an M3ED recording: left or right"));
    group(sample::addFlag(app, "--skip-bad", s.skip_bad, "skip invalid events instead of stopping at the first"));
}

void addSelectionOptions(CLI::App &app, Settings &s) {
    const auto set = [&s](const std::string &text) { return events::parseRange(text, s.from, s.to); };
    sample::group(sample::addValue(app, "--range", set, "FROM:TO",
                                   "FROM:TO or FROM: in seconds from the first event, or with units such as 10ms",
                                   "use only these events, in seconds from the first one; without TO, to the end"),
                  "Input");
    const auto group = [](CLI::Option *option) { return sample::group(option, "Input"); };
    const auto crop = [&s](const std::string &text) {
        char rest = 0;
        std::array<int, 4> &c = s.crop;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &c[0], &c[1], &c[2], &c[3], &rest) == 4 && c[0] >= 0 &&
               c[1] >= 0 && c[2] >= 1 && c[3] >= 1;
    };
    group(sample::addValue(app, "--crop", crop, "X,Y,W,H", "four integers X,Y,W,H, X and Y from 0 and W and H from 1 on",
                           "use only events of this part of the sensor"));
    group(sample::addChoice(app, "--flip", s.flip, {"none", "x", "y", "both"}, "mirror the columns, the rows, or both"));
    group(sample::addNumber(app, "--hot-pixels,--hot-events", s.hot_events, 0, 2000000000,
                            "drop what a pixel has beyond N events in a second; 0: nothing"));
    group(sample::addDuration(app, "--activity", s.activity, 0, 2000000000,
                              "drop events without another at a neighboring pixel in so much time before; 0: none"));
    addSize(app, "--resize", s.resize, "map the events to a grid of this size", "Input");
}

// Returns those that say how long frames are.
std::vector<CLI::Option *> addFrameOptions(CLI::App &app, Settings &s) {
    std::vector<std::string> names;
    for (int kind = 0; const char *name = cusRepresentationName(static_cast<cusRepresentationKind>(kind)); ++kind)
        names.emplace_back(name);
    const auto group = [](CLI::Option *option) { return sample::group(option, "Frames"); };
    group(sample::addChoice(app, "--representation", s.representation, names, "how events become a frame"));
    group(
        sample::addNumber(app, "--channels", s.channels, 0, 16,
                          "mdes, mdes_count, mdes_diff: channels; stacked_histogram, voxel_grid, event_cube: time bins; 0: "
                          "their default"));
    std::vector<CLI::Option *> length = {
        group(sample::addNumber(app, "--events-per-frame", s.events_per_frame, 1, 2000000000,
                                std::string("frames of N events") +
                                    (sample::withoutPictures().empty()
                                         ? "; of videos, pictures and a window by default frames of equal time, "
                                           "--fps of them a second"
                                         : ""))),
        group(sample::addDuration(app, "--us-per-frame", s.us_per_frame, 0, 2000000000,
                                  "frames of so much time instead, in microseconds or as 10ms; 0: use --events-per-frame")),
        group(sample::addValue(
            app, "--stride", [&s](const std::string &text) { return events::parseStride(text, s); }, "N|TIME",
            "an integer from 0 to 2000000000, or a duration such as 10ms",
            "events, or time, from the start of one frame to that of the next; 0: the length of a frame (default 0)"))};
    group(sample::addNumber(app, "--max-gap", s.max_gap, 1, 2000000000,
                            "frames of equal time without events, in a row; a longer gap in the recording is an error"));
    group(sample::addFlag(app, "--keep-incomplete", s.keep_incomplete,
                          "make the last frame although it is not full (default)"));
    group(sample::addNegativeFlag(app, "--no-keep-incomplete", s.keep_incomplete,
                                  "leave out the last frame if it is not full"));
    const auto set_shard = [&s](const std::string &text) { return parseShard(text, s); };
    group(sample::addValue(app, "--shard", set_shard, "I/N|auto", "I/N with I from 1 to N, or auto",
                           "make only the frames that begin in the I-th of N parts of the recording; auto: as Slurm or MPI "
                           "numbers this process, in NAME.part-I-of-N.h5"));
    return length;
}

void addOutputOptions(CLI::App &app, Settings &s) {
    const auto group = [](CLI::Option *option) { return sample::group(option, "Output"); };
    group(sample::addFlag(app, "--checksum", s.checksum, "print the CRC-32C of all frames in order"));
    group(sample::addChoice(app, "--compression", s.compression, {"lzf", "none"}, "how frames are stored in NAME.h5"));
    group(sample::addFile(app, "--save-events", sample::Names::OUTPUT, s.events_file, "FILE",
                          "write the events as a recording: M3ED-style HDF5 (.h5), Metavision's HDF5 (.hdf5), EVT3 (.raw), "
                          ".aedat4, .dat, .csv or .txt"));
    group(
        sample::addFile(app, "--triggers", sample::Names::OUTPUT, s.triggers_file, "FILE.csv",
                        "write all external triggers of the recording: t (microseconds), id, value (1 rising, 0 falling)"));
}

const std::string RECORDING_HELP = "a recording (M3ED, DSEC or Metavision HDF5, Prophesee RAW EVT2, EVT2.1, EVT3 or EVT4, "
                                   "DAT, AEDAT4, ROS bag, MCAP, text "
                                   "or CSV), "
                                   "recognized by its content";

CLI::Option *addRecording(CLI::App &app, Settings &s, bool required) {
    return sample::names(sample::addPositional(app, "INPUT", s.input, RECORDING_HELP + events::videoInputs(), required),
                         sample::Names::INPUT);
}

void addConvert(CLI::App &app, Settings &s, events::ConvertSettings &how) {
    addRecording(app, s, true);
    sample::names(sample::addPositional(app, "OUTPUT", how.output,
                                        "M3ED-style HDF5 (NAME.h5), Metavision's HDF5 (NAME.hdf5), Prophesee RAW "
                                        "(NAME.raw), NAME.aedat4, NAME.dat, NAME.csv or NAME.txt",
                                        true),
                  sample::Names::OUTPUT);
    addInputOptions(app, s);
    events::addVideoOptions(app, s);
    addSelectionOptions(app, s);
    const auto group = [](CLI::Option *option) { return sample::group(option, "Output"); };
    group(sample::addChoice(app, "--format", how.format, {"m3ed", "metavision", "evt2", "evt3", "aedat4", "dat", "text"},
                            "how events are stored; by default OUTPUT's ending says so, .raw: evt3"));
    group(sample::addChoice(app, "--compression", how.compression, {"own", "gzip", "zstd", "none"},
                            "own is LZF for M3ED, ECF for Metavision and LZ4 for AEDAT4; gzip: HDF5; zstd: AEDAT4"));
}

// Returns false if there is nothing left to do, or if `info` was asked for and printed.
bool parse(int argc, char **argv, Settings &s) {
    const bool pictures = sample::withoutPictures().empty();
    const std::string examples[] = {
        "  cusight-events recording.raw                        a window, at the recording's speed\n"
        "  cusight-events recording.h5 --representation tencode --us-per-frame 33000 --output frames/\n",
        "  cusight-events recording.h5 --shard 3/16 --checksum --output frames.raw\n"
        "  cusight-events recording.raw --save-events recording.h5\n",
        "  cusight-events video.mp4 --output events.mp4        events generated from video\n"
        "  cusight-events recording.raw --web 8080             in a browser, at http://127.0.0.1:8080\n",
        "  cusight-events info recording.raw\n"
        "  cusight-events convert recording.raw recording.hdf5\n"
        "  cusight-events merge part-*.h5 --output frames.h5   of shards\n"};
    const auto app = sample::makeApp(
        "cusight-events",
        std::string("Turns a recording of an event camera") + (pictures ? ", or a video," : "") + " into frames.",
        (pictures ? examples[0] : "") + examples[1] + (pictures ? examples[2] : "") + examples[3]);
    CLI::App *const info =
        sample::addCommand(*app, "info", "Prints what is in a recording.", "  cusight-events info recording.raw\n");
    CLI::App *const convert = sample::addCommand(*app, "convert", "Writes the events of a recording in another format.",
                                                 "  cusight-events convert recording.dat recording.raw --format evt2\n"
                                                 "  cusight-events convert recording.raw part.hdf5 --range 1:2.5\n");
    CLI::App *const merge = sample::addCommand(*app, "merge", "Puts the frames of all shards together.",
                                               "  cusight-events merge part-*.h5 --output frames.h5\n");
    events::MergeSettings parts;
    sample::names(sample::addPositionals(
                      *merge, "INPUT", parts.inputs,
                      "what --shard 1/N to N/N have stored: NAME.h5 in any order, or NAME.raw in order of their shards"),
                  sample::Names::INPUT);
    sample::addOutput(*merge, parts.output, "the frames of all, as one run would have stored them: NAME.h5 or NAME.raw",
                      sample::Names::OUTPUT);
    addMaxMemory(*merge, parts.memory);
    CLI::Option *const input = addRecording(*app, s, false);
    addRecording(*info, s, true);
    addInputOptions(*info, s);
    events::addVideoOptions(*info, s);
    events::ConvertSettings how;
    addConvert(*convert, s, how);
    sample::addDevice(*app, s.common.device, true);
    sample::addOutput(*app, s.common.output,
                      "store the frames themselves as NAME.raw or NAME.h5 (-.raw: on stdout)" + events::pictureOutputs());
    sample::addOverwrite(*app);
    sample::addHeadless(*app, s.common.headless);
    addInputOptions(*app, s);
    events::addVideoOptions(*app, s);
    addSelectionOptions(*app, s);
    const std::vector<CLI::Option *> length = addFrameOptions(*app, s);
    addOutputOptions(*app, s);
    const CLI::Option *const speed = events::addPictureOptions(*app, s);
    if (!sample::parse(*app, argc, argv))
        return false;
    s.choose_length = std::none_of(length.begin(), length.end(), sample::isGiven);
    s.choose_speed = !speed || !sample::isGiven(speed);
    if (sample::isParsed(*info)) {
        events::printInfo(s);
        return false;
    }
    if (sample::isParsed(*convert)) {
        events::convert(s, how);
        return false;
    }
    if (sample::isParsed(*merge)) {
        if (parts.output.empty())
            throw Stop(sample::USAGE, "--output is required (see --help)");
        events::merge(parts);
        return false;
    }
    if (!sample::isGiven(input))
        throw Stop(sample::USAGE, "INPUT is required (see --help)");
    if (const std::string problem = events::strideProblem(s); !problem.empty())
        throw Stop(sample::USAGE, problem + " (see --help)");
    return true;
}

// ---- Which frames to make ----------------------------------------------------------------------------------------------

// The length of the selection in events or microseconds: from the file, or by reading all of it, or until it is `enough`.
uint64_t measureExtent(const EventSource &source, Selection &selection, bool by_count, uint64_t enough = UINT64_MAX) {
    if (selection.whole() && source.count > 0 && by_count)
        return static_cast<uint64_t>(source.count);
    if (selection.whole() && source.count > 0 && source.last_time >= 0)
        return static_cast<uint64_t>(source.last_time - source.first_time) + 1;
    uint64_t extent = 0;
    cusEventArrays e;
    int64_t first = -1;
    while (extent < enough && !sample::interrupted() && selection.next(e)) {
        first = first < 0 ? e.t[0] : first;
        extent = by_count ? extent + e.count : static_cast<uint64_t>(e.t[e.count - 1] - first) + 1;
    }
    selection.rewind();
    return extent;
}

// Frames that are only seen follow one another at --fps and have the events of a thirtieth of a second. A recording that would last
// less than 5 s is slowed down to that, in steps shorter than its frames, which have at least a tenth of it.
void chooseLength(Settings &s, const EventSource &source, Selection &selection) {
    constexpr double MIN_EXTENT = 5e6, FRAMES_OF_ALL = 10;
    if (!s.choose_length || !events::FrameOutput::onlySeen(s))
        return;
    double speed = s.common.speed > 0 ? s.common.speed : 1, length = 1e6 / s.fps;
    if (source.info() && !source.arrival()) { // a video's frames, and those of a camera, are as fast as they are
        const double extent =
            static_cast<double>(measureExtent(source, selection, false, static_cast<uint64_t>(MIN_EXTENT)));
        length = std::min(length, extent / FRAMES_OF_ALL);
        if (s.choose_speed && extent < MIN_EXTENT)
            speed = (extent - length) / MIN_EXTENT;
    }
    s.stride = static_cast<int>(std::lround(std::clamp(1e6 * speed / s.fps, 1.0, 2e9)));
    s.us_per_frame = std::max(s.stride, static_cast<int>(std::lround(length)));
    s.common.speed = s.common.speed > 0 ? speed : 0;
    s.chosen_speed = speed;
}

// The number of events that the windows need.
uint64_t eventsNeeded(const cusEventPipelineOptions &options) {
    const cusWindowing &w = options.windowing;
    if (!options.end_window || w.unit != CUS_WINDOW_COUNT)
        return UINT64_MAX;
    return (options.end_window - 1) * w.stride + w.length;
}

// ---- The program -------------------------------------------------------------------------------------------------------

// Pushes the selection through a pipeline into the outputs.
class Run {
  public:
    Run(const Settings &s, const std::vector<sample::Device> &devices, EventSource &source, Selection &selection)
        : settings_(s), devices_(devices), source_(source), selection_(selection) {
        options_.windowing = windowing(s);
        options_.compute = devices.front().space;
        options_.max_gap = static_cast<uint64_t>(s.max_gap);
        double fps = s.fps;
        if (options_.windowing.unit == CUS_WINDOW_DURATION &&
            !s.chosen_speed) // a video plays at the speed of the recording
            fps = std::min(240.0, std::max(1.0, 1e6 * (s.common.speed > 0 ? s.common.speed : 1) /
                                                    static_cast<double>(options_.windowing.stride)));
        s.memory->take(events::frameMemory(selection_.grid.height, selection_.grid.width, kind_, devices.size(),
                                           devices.front().space == CUS_DEVICE),
                       sample::text("frames of %d x %d pixels", selection_.grid.width, selection_.grid.height));
        output_ = std::make_unique<events::FrameOutput>(s, kind_, selection_.grid, fps);
        if (output_->paced() || source.arrival()) // frames come out as they are complete
            options_.batch_windows = 1;
        file_ = std::make_unique<events::EventFile>(s.events_file, selection_.grid, s.events_format, "own");
        triggers_ = std::make_unique<events::TriggerFile>(s.triggers_file);
        createPipeline();
        if (pipeline_ && s.to < 0)
            source.quiet = [this](int64_t time) { return advance(time); };
    }
    ~Run() {
        cusEventFramesClose(frames_);
        cusEventPipelineDestroy(pipeline_);
    }
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    void run() {
        const bool all = selection_.whole() && settings_.shards == 1;
        sample::Progress progress("events", all && source_.count > 0 ? source_.count : 0);
        cusStatus status = nonempty_ ? push(progress) : CUS_OK;
        seconds_ = progress.seconds();
        progress.finish();
        output_->rethrow();
        if (!output_->closed())
            check(status);
        const uint64_t outside = skipped();
        cusEventFramesClose(std::exchange(frames_, nullptr)); // the reader is the source's again
        if (isWhole())                                        // the damage is behind the shard
            source_.damaged("");
        output_->is_damaged = !source_.problem().empty();
        requireFrames();
        output_->finish();
        saving_([this] {
            file_->finish();
            if (!settings_.triggers_file.empty() && !source_.arrival())
                triggers_->write(source_);
            triggers_->finish();
        });
        overall_ = progress.seconds();
        report(outside);
        output_->hold();
        if (!source_.problem().empty())
            throw Stop(sample::INPUT, source_.problem());
    }

  private:
    // Whether the shard has all of its windows. cusEventFrames knows that itself.
    bool isWhole() const {
        const cusWindowing &w = options_.windowing;
        const uint64_t last = options_.end_window - 1;
        if (by_frames_ || !options_.end_window)
            return false;
        return !nonempty_ || (output_->frames() == options_.end_window - options_.first_window &&
                              (w.unit == CUS_WINDOW_COUNT ? output_->last().last - output_->last().first == w.length
                                                          : extent_ > last * w.stride + w.length));
    }

    uint64_t skipped() {
        if (!frames_ && !pipeline_) // interrupted
            return 0;
        cusEventFramesCounts of_frames = {};
        cusEventPipelineCounts of_pipeline = {};
        check(frames_ ? cusEventFramesQuery(frames_, &of_frames) : cusEventPipelineQuery(pipeline_, &of_pipeline));
        return of_frames.skipped + of_pipeline.skipped;
    }

    // Whether nothing here needs the events themselves.
    bool takesFrames() { return source_.reader() && !output_->paced() && settings_.events_file.empty(); }

    void createPipeline() {
        const int rows = selection_.grid.height, cols = selection_.grid.width;
        cusEventPipelineDestroy(std::exchange(pipeline_, nullptr));
        cusEventFramesClose(std::exchange(frames_, nullptr));
        by_frames_ = takesFrames();
        if (!by_frames_ && settings_.shards > 1)
            chooseWindows();
        if (by_frames_)
            openFrames();
        else
            check(cusEventPipelineCreate(&pipeline_, rows, cols, &kind_, 1, &options_, events::FrameOutput::receive,
                                         output_.get()));
    }

    // The windows of --shard: those that cusEventFrames makes, or would make of a video's events.
    void chooseWindows() {
        if (source_.reader()) {
            openFrames();
            cusEventFramesCounts counts = {};
            if (frames_) // not interrupted
                check(cusEventFramesQuery(frames_, &counts));
            cusEventFramesClose(std::exchange(frames_, nullptr));
            selection_.rewind();
            options_.first_window = counts.first_window;
            options_.end_window = counts.end_window;
        } else {
            const bool by_count = options_.windowing.unit == CUS_WINDOW_COUNT;
            const uint64_t extent = measureExtent(source_, selection_, by_count), stride = options_.windowing.stride;
            const auto border = [&](unsigned long long shard) { // the first window after it
                const uint64_t at =
                    extent / settings_.shards * shard + extent % settings_.shards * shard / settings_.shards;
                return shard == 0 ? 0 : by_count ? (at + stride - 1) / stride : at / stride + 1;
            };
            options_.first_window = border(settings_.shard - 1);
            options_.end_window = settings_.shard < settings_.shards ? std::max<uint64_t>(border(settings_.shard), 1) : 0;
        }
        nonempty_ = !options_.end_window || options_.first_window < options_.end_window;
    }

    void openFrames() {
        cusEventFramesOptions options = cusEventFramesDefaults();
        options.windowing = options_.windowing;
        options.rows = selection_.grid.height;
        options.cols = selection_.grid.width;
        options.compute = options_.compute;
        options.max_gap = options_.max_gap;
        options.batch_windows = options_.batch_windows;
        options.shard = settings_.shard - 1;
        options.shards = settings_.shards;
        std::vector<int> indices;
        for (const sample::Device &device : devices_)
            indices.push_back(device.index);
        options.device_count = static_cast<int>(devices_.size());
        options.devices = options_.compute == CUS_DEVICE ? indices.data() : nullptr;
        selection_.choose(options);
        const cusStatus status =
            sample::longCalls([&] { return cusEventFramesOpenReader(&frames_, source_.reader(), &kind_, 1, &options); });
        if (status != CUS_ERROR_CANCELLED) // interrupted
            check(status);
    }

    // Fails if frames were wanted and there are none. A shard may be empty, if its part of a file is.
    void requireFrames() const {
        if (output_->frames() || !output_->wanted() || output_->closed() || sample::interrupted())
            return;
        if (output_->plain() && settings_.shards > 1) // merging needs the part
            return;
        if (!source_.problem().empty())
            throw Stop(sample::INPUT, source_.problem() + "; there is no frame before that");
        const bool by_time = settings_.us_per_frame > 0;
        const char *const unit = by_time ? "--us-per-frame" : "--events-per-frame";
        const int length = by_time ? settings_.us_per_frame : settings_.events_per_frame;
        if (settings_.shards > 1)
            throw Stop(sample::INPUT, sample::text("no frame: --shard is %llu/%llu, and no frame begins in that part",
                                                   settings_.shard, settings_.shards));
        if (pushed_ == 0)
            throw Stop(sample::INPUT, "no frame: " + selection_.whyEmpty(decoded_.events > 0));
        throw Stop(
            sample::INPUT,
            sample::text("no frame: %s is %d, more than there is%s; make it smaller, or leave out --no-keep-incomplete",
                         unit, length,
                         pushed_ ? sample::text(" in %llu events", static_cast<unsigned long long>(pushed_)).c_str() : ""));
    }

    // All frames of the recording. Damage ends it; what is complete is delivered.
    cusStatus takeFrames(sample::Progress &progress) {
        cusStatus status = CUS_OK;
        cusEventFramesCounts counts = {};
        if (!frames_) // interrupted
            return status;
        for (cusFrameBatch batch = {}; status == CUS_OK && !sample::interrupted();) {
            status = pushing_([&] { return cusEventFramesNext(frames_, &batch); });
            if (status == CUS_OK && batch.count == 0)
                break;
            if (status == CUS_ERROR_FORMAT || status == CUS_ERROR_TRUNCATED || status == CUS_ERROR_IO) {
                source_.damaged(settings_.input + ": " + events::inOptions(sample::lastMessage()));
                status = CUS_OK;
                break;
            }
            if (status == CUS_OK)
                status = events::FrameOutput::receive(output_.get(), &batch);
            check(cusEventFramesQuery(frames_, &counts));
            progress.update(static_cast<long long>(counts.events),
                            sample::text("%llu frames", static_cast<unsigned long long>(output_->frames())));
        }
        check(cusEventFramesQuery(frames_, &counts));
        if (counts.last_time >= 0 && source_.first_time >= 0 && selection_.whole())
            extent_ = static_cast<uint64_t>(counts.last_time - source_.first_time) + 1;
        pushed_ = counts.events;
        decoded_ = counts.read;
        progress.update(static_cast<long long>(pushed_));
        return status;
    }

    // The scene is still: makes the windows that end by `time`.
    bool advance(int64_t time) {
        output_->still = true;
        quiet_ = pushing_([&] { return cusEventPipelineAdvance(pipeline_, time); });
        output_->still = false;
        return quiet_ == CUS_OK;
    }

    // Pushes all events, and lets the pipeline finish.
    cusStatus push(sample::Progress &progress) {
        if (by_frames_)
            return takeFrames(progress);
        const uint64_t needed = eventsNeeded(options_);
        cusStatus status = CUS_OK;
        cusEventArrays e;
        while (status == CUS_OK && pushed_ < needed && !sample::interrupted() &&
               decoding_([&] { return selection_.next(e); })) {
            // Small pieces if a window shows the frames, so that it starts at once and knows their times.
            const size_t step = output_->paced() ? 65536 : e.count;
            for (size_t i = 0; i < e.count && status == CUS_OK; i += step) {
                const cusEventArrays piece = {e.x + i, e.y + i, e.p + i, e.t + i, std::min(step, e.count - i), CUS_HOST};
                output_->clock.add(pushed_, piece, source_.arrival());
                saving_([&] { file_->write(piece); });
                saveCameraTriggers();
                status = pushing_([&] { // and of a camera deliver what is complete, which a GPU would keep
                    const cusStatus pushed = cusEventPipelinePush(pipeline_, &piece);
                    return pushed == CUS_OK && source_.arrival()
                               ? cusEventPipelineAdvance(pipeline_, piece.t[piece.count - 1])
                               : pushed;
                });
                first_time_ = pushed_ ? first_time_ : piece.t[0];
                extent_ = static_cast<uint64_t>(piece.t[piece.count - 1] - first_time_) + 1;
                pushed_ += piece.count;
                progress.update(static_cast<long long>(pushed_),
                                sample::text("%llu frames", static_cast<unsigned long long>(output_->frames())));
            }
        }
        status = status == CUS_OK ? quiet_ : status;
        saveCameraTriggers(); // those after the last event
        if (status == CUS_OK)
            status = pushing_([this] { return cusEventPipelineFlush(pipeline_); });
        return status;
    }

    // A camera does not keep its triggers.
    void saveCameraTriggers() {
        if (source_.arrival())
            saving_([&] { triggers_->write(source_); });
    }

    void report(uint64_t outside) const {
        using ull = unsigned long long;
        sample::figure("input",
                       {{"input", source_.describe()}, {"width", source_.sensor.width}, {"height", source_.sensor.height}},
                       "%s, %d x %d", source_.describe().c_str(), source_.sensor.width, source_.sensor.height);
        sample::figureText("device", "%s", sample::deviceNames(devices_).c_str());
        sample::figure("frames",
                       {{"frames", output_->frames()},
                        {"representation", settings_.representation},
                        {"frame_width", selection_.grid.width},
                        {"frame_height", selection_.grid.height}},
                       "%llu of %s, %d x %d", static_cast<ull>(output_->frames()), settings_.representation.c_str(),
                       selection_.grid.width, selection_.grid.height);
        const uint64_t events = settings_.shards > 1 ? output_->covered() : pushed_;
        sample::figure("events", {{"events", events}}, "%llu", static_cast<ull>(events));
        if (settings_.chosen_speed > 0 && output_->frames())
            sample::figure(
                "frame length",
                {{"us_per_frame", settings_.us_per_frame}, {"stride", settings_.stride}, {"speed", settings_.chosen_speed}},
                "%d us, one every %d us, shown at %.3g times the speed of the recording", settings_.us_per_frame,
                settings_.stride, settings_.chosen_speed);
        reportIncomplete();
        if (outside)
            sample::figure("outside the frame", {{"outside", outside}}, "%llu", static_cast<ull>(outside));
        events::warnOutside(outside, output_->events() - std::min(outside, output_->events()));
        if (source_.info())
            source_.reportOutside(decoded_);
        const double rate = static_cast<double>(pushed_) / std::max(seconds_, 1e-9);
        sample::figure("rate", {{"events_per_second", rate}}, "%.2f million events/s", 1e-6 * rate);
        reportStages();
        output_->report();
        triggers_->report();
    }

    // Whether the last frame is not full, and what is in no frame.
    void reportIncomplete() const {
        const cusEventWindow &last = output_->last();
        const cusWindowing &w = options_.windowing;
        if (!output_->frames() || settings_.shards > 1 || output_->closed())
            return;
        if (w.unit == CUS_WINDOW_COUNT && last.last - last.first < w.length)
            sample::figure("incomplete", {{"incomplete", true}}, "the last frame has %llu events, %s",
                           static_cast<unsigned long long>(last.last - last.first),
                           events::lengthOption(settings_).c_str());
        else if (w.unit == CUS_WINDOW_DURATION && output_->frames() == 1 && extent_ && extent_ < w.length)
            sample::figure("incomplete", {{"incomplete", true}}, "the frame has %llu us of events, %s",
                           static_cast<unsigned long long>(extent_), events::lengthOption(settings_).c_str());
        if (pushed_ > last.last)
            sample::figure("left out", {{"left_out", pushed_ - last.last}}, "%llu events after the last full frame",
                           static_cast<unsigned long long>(pushed_ - last.last));
        if (output_->frames() > 1 && output_->onlyLast())
            sample::figure("not shown", {{"not_shown", output_->frames() - 1}}, "%llu %s before that in %s",
                           static_cast<unsigned long long>(output_->frames() - 1),
                           output_->frames() == 2 ? "frame" : "frames", settings_.common.output.c_str());
    }

    // A pipeline calls the output during a push. With cusEventFrames it is the wait for frames, beside which it reads and decodes.
    void reportStages() const {
        const double within = by_frames_ ? 0 : output_->receivingSeconds();
        sample::figureStages({{"decode", decoding_.seconds},
                              {devices_.front().space == CUS_DEVICE ? "queue" : "compute", pushing_.seconds - within},
                              {"draw", output_->drawingSeconds()},
                              {"write", output_->writingSeconds() + saving_.seconds}},
                             overall_, static_cast<double>(output_->frames()));
    }

    const Settings &settings_;
    const std::vector<sample::Device> &devices_;
    EventSource &source_;
    Selection &selection_;
    cusEventPipelineOptions options_ = cusEventPipelineDefaults();
    const cusRepresentation kind_ = representation(settings_);
    bool nonempty_ = true; // the shard has windows
    std::unique_ptr<events::FrameOutput> output_;
    std::unique_ptr<events::EventFile> file_;
    std::unique_ptr<events::TriggerFile> triggers_;
    bool by_frames_ = false;               // a recording by
    cusEventFrames *frames_ = nullptr;     // this, other events by
    cusEventPipeline *pipeline_ = nullptr; // this, on the first device
    uint64_t pushed_ = 0, extent_ = 0;     // events, and microseconds if they have been seen
    int64_t first_time_ = 0;
    cusStatus quiet_ = CUS_OK;    // of advance()
    cusEventCounts decoded_ = {}; // by the pipeline
    sample::Stopwatch decoding_, pushing_, saving_;
    double seconds_ = 0, overall_ = 0;
};

int run(int argc, char **argv) {
    Settings s;
    if (!parse(argc, argv, s))
        return sample::OK;
    if (s.shard_auto)
        askLauncher(s);
    // This may fork to try a display, so it must come before any threads and CUDA.
    if (events::FrameOutput::hasPictures(s))
        events::requirePictures(s);
    if (!s.events_file.empty())
        s.events_format = events::recordingFormat("--save-events", s.events_file, "");
    sample::requireEnding("--triggers", s.triggers_file, {".csv"});
    if (const std::string type = sample::ending(s.common.output); type == ".h5" || type == ".hdf5")
        sample::requireFile("--output", s.common.output);
    if (s.shards > 1)
        s.run = events::runOf(s);
    if (events::isMadeAlready(s))
        return sample::OK;
    const std::vector<sample::Device> devices = sample::chooseDevices(s.common.device);
    const bool pinned = devices.front().space == CUS_DEVICE; // from which a pipeline uploads directly
    const std::unique_ptr<EventSource> source = events::openEvents(s, pinned);
    Selection selection(*source, s);
    chooseLength(s, *source, selection);
    Run(s, devices, *source, selection).run();
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
