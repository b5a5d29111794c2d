#include "common/video/source.hpp"

#include "common/libav/reader.hpp"
#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/video/image.hpp"
#include "common/video/reason.hpp"
#include "common/standard_input.hpp"

#include "cusight/eventio.h"

#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/stat.h>

namespace sample {

namespace fs = std::filesystem;

const char *const SOURCE_HELP =
    "a video file; the number of a camera (0); a URL (rtsp://, http://); an image; a folder of images, in the order of "
    "their "
    "names; a numbered sequence (frame_%04d.png); synthetic:WxH@N, a generated clip of N frames (100 without @N); or - for "
    "stdin, an image or a video that can be read without seeking";

namespace {

std::string sizeText(cv::Size size) {
    return std::to_string(size.width) + " x " + std::to_string(size.height);
}

bool allDigits(const std::string &text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool isImage(const std::string &path) {
    return isImageName(path) || ending(path) == ".pnm";
}

// Calls work() on another thread. Returns false if the program was interrupted meanwhile. The thread is then left waiting
// for its camera or network, so work() must own all that it uses.
bool unlessInterrupted(std::function<void()> work) {
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
    };
    const auto state = std::make_shared<State>();
    std::thread([state, work = std::move(work)] {
        work();
        const std::lock_guard<std::mutex> lock(state->mutex);
        state->done = true;
        state->changed.notify_all();
    }).detach();
    std::unique_lock<std::mutex> lock(state->mutex);
    while (!state->changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return state->done; }))
        if (interrupted())
            return false;
    return true;
}

// A video file, what a URL sends, or a pipe.
class Video : public Source {
  public:
    Video(const std::string &name, std::unique_ptr<av::Reader> reader, bool once = false) : reader_(std::move(reader)) {
        name_ = name;
        once_ = once;
        live_ = reader_->live();
        steady_ = !live_ && reader_->steady();
        sound_ = reader_->hasSound();
        total_ = header_ = reader_->frames();
        const double rate = reader_->rate();
        timed_ = rate <= MAX_RATE && (rate >= MIN_RATE || rate == 0);
        if (timed_ && rate > 0)
            fps_ = rate;
        if (timed_ && !steady_ && reader_->grid() > fps_ && reader_->grid() <= MAX_GRID)
            grid_ = reader_->grid();
        if (!timed_ && !live_) // some files give the ticks of their clock instead, such as 90000 a second
            note("%s says %.6g frames a second, which cannot be: taken as %g", name_.c_str(), rate, fps_);
        tick_num_ = reader_->tick().num;
        tick_den_ = reader_->tick().den;
    }

  protected:
    bool next(cv::Mat &frame, double &seconds) override {
        double time = 0;
        if (reader_->next(frame, time)) {
            if (timed_)
                seconds = std::isfinite(time) ? time : end_;
            end_ = seconds + 1 / fps_;
            ++read_;
            return true;
        }
        if (interrupted())
            return false;
        if (reader_->damaged())
            note("%s: %lld parts of it could not be decoded", name_.c_str(), reader_->damaged());
        if (live_)
            throw Stop(INPUT, name_ + " stopped after " + std::to_string(read_) + " frames");
        // In some formats the header's frame count is an estimate, so check that time is missing too.
        const double expected = static_cast<double>(header_), slack = 2 + 0.002 * expected;
        if ((sought_ || static_cast<double>(read_) < expected - slack) &&
            end_ < (expected - slack) / fps_ - (steady_ ? 0 : 1)) // the last frame may have been shown for a while
            throw Stop(INPUT,
                       text("%s ends early: after %.2f of the %.2f s in its header", name_.c_str(), end_, expected / fps_));
        return false;
    }
    bool seek(double seconds) override {
        if (header_) // past the end, some formats find nothing, not even the last frame
            seconds = std::min(seconds, std::max(0.0, static_cast<double>(header_) / fps_ - 1));
        return timed_ && (sought_ = reader_->seek(seconds));
    }

  private:
    static constexpr double MIN_RATE = 0.01, MAX_RATE = 1000, MAX_GRID = 120; // frames a second

    const std::unique_ptr<av::Reader> reader_;
    long long header_ = 0, read_ = 0;
    double end_ = 0; // when the newest frame ends
    bool sought_ = false;
};

class Camera : public Source {
  public:
    explicit Camera(const std::string &number) {
        name_ = "camera " + number;
        live_ = timed_ = true;
        steady_ = false;
        const auto open = [capture = capture_, number] {
            try {
                capture->open(std::stoi(number));
            } catch (const std::exception &) { // treat it like a failing backend
            }
        };
        const auto why = std::make_shared<std::string>();
        if (!unlessInterrupted(open) ||
            (!capture_->isOpened() && !unlessInterrupted([why, number] { *why = cameraProblem(number); })))
            throw Stop(INTERRUPTED, name_ + " had not answered yet");
        if (!capture_->isOpened())
            throw Stop(INPUT, name_ + " cannot be opened: " + *why);
        const double rate = capture_->get(cv::CAP_PROP_FPS);
        if (std::isfinite(rate) && rate >= 0.01 && rate <= 1000)
            fps_ = rate;
    }

  protected:
    bool next(cv::Mat &frame, double &seconds) override {
        const auto grab = [capture = capture_, latest = latest_] {
            try {
                if (!capture->read(*latest))
                    latest->release();
            } catch (const cv::Exception &) { // a frame that cannot be decoded
                latest->release();
            }
        };
        if (interrupted() || !unlessInterrupted(grab))
            return false;
        if (latest_->empty())
            throw Stop(INPUT, name_ + " stopped after " + std::to_string(read_) + " frames");
        const auto now = std::chrono::steady_clock::now();
        first_ = read_++ ? first_ : now;
        seconds = std::chrono::duration<double>(now - first_).count();
        latest_->copyTo(frame);
        return true;
    }

  private:
    // Shared with a thread that may outlive the source.
    const std::shared_ptr<cv::VideoCapture> capture_ = std::make_shared<cv::VideoCapture>();
    const std::shared_ptr<cv::Mat> latest_ = std::make_shared<cv::Mat>();
    std::chrono::steady_clock::time_point first_;
    long long read_ = 0;
};

class Images : public Source {
  public:
    // `single`: they belong to each other only by lying in one folder or list.
    Images(const std::string &spec, std::vector<std::string> files, bool single) : files_(std::move(files)) {
        name_ = spec;
        if (single)
            pictures_ = files_;
        total_ = static_cast<long long>(files_.size());
    }

  protected:
    bool next(cv::Mat &frame, double &) override {
        if (at_ == files_.size())
            return false;
        readImage(files_[at_++], cv::IMREAD_COLOR).copyTo(frame);
        return true;
    }

  private:
    std::vector<std::string> files_;
    size_t at_ = 0;
};

// Discs and a bar that move over a still, lightly textured background, as seen by a fixed camera.
class Synthetic : public Source {
  public:
    Synthetic(const std::string &spec, int width, int height, int count) : scene_(height, width, CV_8UC3) {
        name_ = spec;
        total_ = count;
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                const int grain = static_cast<int>(
                    (static_cast<unsigned>(x) * 73856093u ^ static_cast<unsigned>(y) * 19349663u) >> 7 & 15u);
                scene_.at<cv::Vec3b>(y, x) =
                    cv::Vec3b(static_cast<uchar>(90 + 60 * y / height + grain),
                              static_cast<uchar>(100 + 50 * x / width + grain), static_cast<uchar>(110 + grain));
            }
    }

  protected:
    bool next(cv::Mat &frame, double &) override {
        if (at_ == total_)
            return false;
        const double t = static_cast<double>(at_++) / 25;
        const int w = scene_.cols, h = scene_.rows, unit = std::max(1, std::min(w, h) / 12);
        scene_.copyTo(frame);
        for (int i = 0; i < 5; ++i) {
            const double phase = t * (0.5 + 0.25 * i) + 1.3 * i;
            const cv::Point center(static_cast<int>(w * (0.5 + 0.4 * std::cos(phase))),
                                   static_cast<int>(h * (0.5 + 0.4 * std::sin(1.4 * phase))));
            cv::circle(frame, center, unit * (2 + i) / 4, cv::Scalar(40 + 50 * i, 220 - 40 * i, (80 * i) % 256), cv::FILLED,
                       cv::LINE_AA);
        }
        const int x = static_cast<int>(std::fmod(t * 0.15, 1.0) * w);
        cv::rectangle(frame, cv::Point(x, h / 3), cv::Point(x + unit, h / 3 + 3 * unit), cv::Scalar(230, 230, 230),
                      cv::FILLED);
        return true;
    }

  private:
    cv::Mat scene_;
    long long at_ = 0;
};

std::unique_ptr<Source> synthetic(const std::string &spec) {
    int width = 0, height = 0, count = 100, used = 0;
    const char *text = spec.c_str() + std::strlen("synthetic:");
    const bool sized = std::sscanf(text, "%6dx%6d%n", &width, &height, &used) == 2;
    if (sized && text[used] == '@') {
        const std::string rest = text + used + 1;
        count = allDigits(rest) && rest.size() < 9 ? std::stoi(rest) : 0;
        used += 1 + static_cast<int>(rest.size());
    }
    if (!sized || text[used] || width < 1 || height < 1 || width > 65536 || height > 65536 || count < 1)
        throw Stop(INPUT, "'" + spec + "' is not synthetic:WxH@N, such as synthetic:640x480@100 (W and H from 1 to 65536)");
    return std::make_unique<Synthetic>(spec, width, height, count);
}

// Says what is not read of a sequence without the file `missing`.
void noteGap(const std::string &pattern, const NumberedName &name, long long missing) {
    const fs::path gap = name.file(missing);
    const NumberedName plain = {name.head.substr(name.head.rfind('/') + 1), name.tail, name.digits};
    const std::string folder = gap.has_parent_path() ? gap.parent_path().string() : ".";
    long long later = 0, last = 0;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string file = at->path().filename().string();
        if (!plain.matches(file) || file.size() - plain.head.size() - plain.tail.size() > 18)
            continue;
        const long long number = std::stoll(file.substr(plain.head.size()));
        later += number > missing;
        last = std::max(last, number);
    }
    if (later)
        note("%s: %s is missing, so the sequence ends before it; %lld later files, up to %s, are not read", pattern.c_str(),
             gap.c_str(), later, name.file(last).c_str());
}

// frame_%04d.png: the files from number 0 or 1 up to the first missing one.
std::vector<std::string> sequence(const std::string &pattern) {
    NumberedName name;
    if (!parseNumbered(pattern, name))
        throw Stop(INPUT, "'" + pattern + "' is not a numbered sequence such as frame_%04d.png");
    std::vector<std::string> files;
    long long first = fs::exists(name.file(0)) ? 0 : 1;
    for (std::string file; fs::exists(file = name.file(first)); ++first) {
        requireRegular(file);
        files.push_back(file);
    }
    if (files.empty())
        throw Stop(INPUT, pattern + ": neither " + name.file(0) + " nor " + name.file(1) + " exists");
    noteGap(pattern, name, first);
    return files;
}

std::vector<std::string> folder(const std::string &path) {
    std::vector<std::string> files;
    for (const auto &entry : fs::directory_iterator(path))
        if (entry.is_regular_file() && isImage(entry.path().string()) && entry.path().filename().string()[0] != '.')
            files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    if (files.empty())
        throw Stop(INPUT, path + " contains no images");
    return files;
}

// URLs may reach the network only: a file named by file:// would be neither checked nor protected from being overwritten.
void requireNetwork(const std::string &url) {
    static const char *const schemes[] = {"http", "https", "rtsp", "rtsps", "rtmp", "rtmps",
                                          "rtp",  "srt",   "udp",  "tcp",   "ftp"};
    const std::string scheme = url.substr(0, url.find("://"));
    if (std::none_of(std::begin(schemes), std::end(schemes), [&](const char *s) { return scheme == s; }))
        throw Stop(INPUT,
                   url + " is not a URL of http, https, rtsp, rtsps, rtmp, rtmps, rtp, srt, udp, tcp or ftp; expected one "
                         "of these or the path of a file");
}

// The decoder would open every file that a list names. `text`: the start of the file.
void requireNoList(const std::string &path, const std::string &text) {
    for (const char *list : {"ffconcat version", "#EXTM3U", "v=0\n", "v=0\r"})
        if (text.compare(0, std::strlen(list), list) == 0)
            throw Stop(INPUT, path + " is a list of other files or streams, expected a video");
    if (text.compare(0, 1, "<") == 0)
        throw Stop(INPUT, path + " is text (XML), expected a video");
}

// The decoder would take a recording for a broken video, or for another format. `status`: of opening it, which closes the reader.
void requireNoRecording(const std::string &name, cusEventReader *reader, cusStatus status) {
    cusEventReaderClose(reader);
    if (status == CUS_OK || status == CUS_ERROR_TRUNCATED || status == CUS_ERROR_UNSUPPORTED ||
        status == CUS_ERROR_CAPACITY)
        throw Stop(INPUT, name + " is a recording of an event camera, expected a video; use cusight-events");
}

// Neither missing nor empty nor a list nor a recording.
void requireReadable(const std::string &path) {
    requireRegular(path); // opening a pipe would wait for its writer
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (!file)
        throw Stop(INPUT, path + ": " + std::strerror(errno));
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> guard(file, std::fclose);
    std::error_code error;
    if (!fs::is_regular_file(path, error))
        return;
    char start[256] = "";
    requireNoList(path, std::string(start, std::fread(start, 1, sizeof start, file)));
    if (fs::file_size(path, error) == 0)
        throw Stop(INPUT, path + " is empty");
    cusEventReader *reader = nullptr;
    const cusStatus status = cusEventReaderOpen(&reader, path.c_str(), nullptr);
    requireNoRecording(path, reader, status);
}

// A picture in memory.
class Picture : public Source {
  public:
    Picture(const std::string &name, const cv::Mat &picture) : picture_(picture) {
        name_ = name;
        total_ = 1;
    }

  protected:
    bool next(cv::Mat &frame, double &) override {
        if (picture_.empty())
            return false;
        picture_.copyTo(frame);
        picture_.release();
        return true;
    }

  private:
    cv::Mat picture_;
};

std::unique_ptr<Source> openStandardInput() {
    const auto input = std::make_shared<StandardInput>();
    requireNoList("stdin", input->start());
    cusEventReader *reader = nullptr;
    const cusStatus status = cusEventReaderOpenMemory(&reader, input->start().data(), input->start().size(), nullptr);
    requireNoRecording("stdin", reader, status);
    if (input->isImage()) {
        const std::vector<unsigned char> all = input->readAll();
        return std::make_unique<Picture>("stdin", decodeImage("stdin", all.data(), all.size(), cv::IMREAD_COLOR));
    }
    try {
        return std::make_unique<Video>(
            "stdin", av::Reader::pipe([input](char *buffer, size_t bytes) { return input->read(buffer, bytes); }),
            !StandardInput::isFile());
    } catch (const av::OpenError &error) {
        throw Stop(INPUT,
                   std::string("stdin is not a video that can be decoded without seeking (.mkv, .webm, .avi, .y4m and "
                               "MPEG-TS can): ") +
                       error.what());
    }
}

std::unique_ptr<Source> openUrl(const std::string &url) {
    requireNetwork(url);
    try {
        return std::make_unique<Video>(url, av::Reader::network(url, interrupted));
    } catch (const av::OpenError &error) {
        if (interrupted())
            throw Stop(INTERRUPTED, url + " had not answered yet");
        throw Stop(INPUT, url + " cannot be opened: " + error.what());
    }
}

std::unique_ptr<Source> openVideo(const std::string &path) {
    try {
        return std::make_unique<Video>(path, av::Reader::file(path));
    } catch (const av::OpenError &error) {
        throw Stop(INPUT, path + " is not a video that can be decoded (" + error.what() +
                              "); pictures have a name that ends in" + joined(imageEndings()));
    }
}

std::unique_ptr<Source> open(const std::string &spec) {
    if (isStandard(spec))
        return openStandardInput();
    if (spec.compare(0, std::strlen("synthetic:"), "synthetic:") == 0)
        return synthetic(spec);
    if (allDigits(spec) && spec.size() < 4 && !fs::exists(spec))
        return std::make_unique<Camera>(spec);
    if (spec.find("://") != std::string::npos)
        return openUrl(spec);
    std::error_code error;
    if (fs::is_directory(spec, error))
        return std::make_unique<Images>(spec, folder(spec), true);
    if (spec.find('%') != std::string::npos && !fs::exists(spec, error))
        return std::make_unique<Images>(spec, sequence(spec), false);
    requireReadable(spec);
    if (isImage(spec))
        return std::make_unique<Images>(spec, std::vector<std::string>{spec}, false);
    struct stat about;
    if (::stat(spec.c_str(), &about) == 0 && S_ISCHR(about.st_mode)) // /dev/video0
        return std::make_unique<Camera>(spec.substr(spec.find_last_not_of("0123456789") + 1));
    return openVideo(spec);
}

// "a.mp4 and 2 more"
std::string nameOf(const std::vector<std::string> &names) {
    return names.front() + (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
}

} // namespace

// Sources one after the other; the next begins when the last frame of the one before ends.
class Several : public Source {
  public:
    explicit Several(const std::vector<std::string> &names) : names_(names) {
        cv::Size size;
        bool counted = true;
        for (const std::string &name : names) {
            if (isStandard(name) || name.find("://") != std::string::npos)
                throw Stop(USAGE, "INPUT is '" + name + "', expected files only, since there are several");
            const std::unique_ptr<Source> source = openSource(name);
            if (size.empty()) {
                size = source->size();
                fps_ = source->fps();
            }
            if (source->size() != size)
                throw Stop(INPUT, name + " is " + sizeText(source->size()) + ", expected " + sizeText(size) + " like " +
                                      names.front());
            counted = counted && source->frames() > 0;
            total_ += source->frames();
            timed_ = timed_ || source->timed_;
            steady_ = steady_ && source->steady() && source->fps() == fps_;
            sound_ = sound_ || source->sound_;
        }
        name_ = nameOf(names);
        total_ = counted ? total_ : 0;
    }

  protected:
    bool next(cv::Mat &frame, double &seconds) override {
        for (; at_ < names_.size(); ++at_) {
            if (!current_)
                current_ = openSource(names_[at_]);
            if (current_->read(frame)) {
                seconds = begin_ + current_->seconds();
                end_ = seconds + 1 / current_->fps();
                return true;
            }
            current_.reset();
            begin_ = end_;
        }
        return false;
    }

  private:
    const std::vector<std::string> names_;
    std::unique_ptr<Source> current_;
    size_t at_ = 0;
    double begin_ = 0, end_ = 0; // of the current source; of the newest frame
};

void Source::start(const Input &input) {
    is_picture_ = total_ == 1;
    any_size_ = input.any_size && !pictures_.empty();
    from_ = input.start;
    to_ = input.duration > 0 ? from_ + input.duration : 0;
    crop_ = cv::Rect(input.crop[0], input.crop[1], input.crop[2], input.crop[3]);
    if (!timed_ && input.fps > 0)
        fps_ = input.fps;
    if (from_ > 0)
        seek(from_);
    cv::Mat first;
    double seconds = 0;
    if (!first_decoding_([&] { return advance(first, seconds); }) || first.empty()) {
        if (decoded_ == 0)
            throw Stop(INPUT, name_ + " contains no frame that can be decoded");
        throw Stop(INPUT, text("%s has no frame between %g s and %s; %s %.2f s", name_.c_str(), from_,
                               to_ > 0 ? text("%g s", to_).c_str() : "its end",
                               last_ < from_ ? "its last one is at" : "the next one is at", last_));
    }
    size_ = first.size();
    ahead_ = {first};
    ahead_seconds_ = {seconds};
    const double all = static_cast<double>(total_) / fps_;
    if (total_ && (from_ > 0 || to_ > 0))
        total_ = std::max(1LL, std::llround(((to_ > 0 ? std::min(to_, all) : all) - from_) * fps_));
    if (!pictures_.empty()) // the first one has been read
        pictures_.erase(pictures_.begin(), pictures_.begin() + (decoded_ - 1));
}

// The next frame of the part that is wanted.
bool Source::advance(cv::Mat &frame, double &seconds) {
    constexpr double ROUNDING = 5e-4; // of times in containers
    cv::Mat &into = crop_.empty() ? frame : whole_;
    do {
        seconds = static_cast<double>(decoded_) / fps_;
        if (interrupted() && decoded_ > 0 && last_ < from_ - ROUNDING)
            return false;
        if (!next(into, seconds))
            return false;
        if (decoded_++ > 0 && seconds <= last_)
            seconds = last_ + 1e-6;
        last_ = seconds;
    } while (seconds < from_ - ROUNDING);
    if (to_ > 0 && seconds >= to_ - ROUNDING)
        return false;
    if (!crop_.empty()) {
        if ((crop_ & cv::Rect({0, 0}, whole_.size())) != crop_)
            throw Stop(USAGE, text("--crop is %d,%d,%d,%d, expected a rectangle inside the frame, %s", crop_.x, crop_.y,
                                   crop_.width, crop_.height, sizeText(whole_.size()).c_str()));
        whole_(crop_).copyTo(frame);
    }
    return true;
}

const std::vector<cv::Mat> &Source::preview(double seconds, double bytes) {
    const double frames = std::min(fps_ * (live_ ? std::min(1.0, seconds) : seconds), bytes / (3.0 * size_.area()));
    while (static_cast<double>(ahead_.size()) < std::max(2.0, frames) && !ended_ && !problem_ && !interrupted())
        try {
            cv::Mat frame;
            double at = 0;
            ended_ = !first_decoding_([&] { return advance(frame, at); });
            if (!ended_) {
                ahead_.push_back(frame);
                ahead_seconds_.push_back(at);
            }
        } catch (...) {
            problem_ = std::current_exception();
        }
    return ahead_;
}

bool Source::read(cv::Mat &frame) {
    if (taken_ < ahead_.size()) {
        seconds_ = ahead_seconds_[taken_];
        cv::Mat &first = ahead_[taken_++];
        first.copyTo(frame);
        first.release();
    } else if (problem_) {
        std::rethrow_exception(problem_);
    } else if (ended_ || !decoding_([&] { return advance(frame, seconds_); })) {
        ended_ = true;
        return false;
    }
    if ((frame.size() != size_ && !any_size_) || frame.type() != CV_8UC3)
        throw Stop(INPUT, name_ + ": frame " + std::to_string(delivered_ + 1) + " is " + sizeText(frame.size()) +
                              ", expected " + sizeText(size_) + " like the " + std::to_string(delivered_) + " before it");
    ++delivered_;
    return true;
}

Playback playbackOf(const Source &source) {
    Playback playback;
    playback.fps = source.fps();
    playback.grid = source.grid_;
    playback.timed = source.timed_;
    playback.steady = source.steady();
    playback.tick_num = source.tick_num_;
    playback.tick_den = source.tick_den_;
    playback.live = source.live();
    playback.recording = source.live() || source.once_;
    playback.single = source.isPicture();
    playback.sound = source.sound_ ? source.name() : "";
    return playback;
}

void figureInput(const Source &source) {
    const cv::Size size = source.size();
    figure("input", {{"input", source.name()}, {"width", size.width}, {"height", size.height}}, "%s, %d x %d",
           source.name().c_str(), size.width, size.height);
}

std::unique_ptr<Source> openSource(const Input &input) {
    std::unique_ptr<Source> source;
    if (input.names.size() == 1)
        source = open(input.names.front());
    else if (std::all_of(input.names.begin(), input.names.end(), isImage)) {
        for (const std::string &name : input.names)
            requireReadable(name);
        source = std::make_unique<Images>(nameOf(input.names), input.names, true);
    } else
        source = std::make_unique<Several>(input.names);
    source->start(input);
    return source;
}

std::unique_ptr<Source> openSource(const std::string &name) {
    Input input;
    input.names = {name};
    return openSource(input);
}

} // namespace sample
