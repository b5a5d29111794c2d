#include "common/video/source.hpp"

#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/video/reason.hpp"
#include "common/video/standard_input.hpp"

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

// A video file, camera or URL.
class Capture : public Source {
  public:
    enum Kind { FILE, CAMERA, URL, PIPE };

    // PIPE: `spec` is FFmpeg's name of the pipe, and `name` the user's.
    Capture(const std::string &spec, Kind kind, const std::string &name = "") : pipe_(kind == PIPE) {
        const bool camera = kind == CAMERA, file = kind == FILE;
        live_ = camera || kind == URL;
        name_ = !name.empty() ? name : camera ? "camera " + spec : spec;
        const auto open = [capture = capture_, camera, pipe = pipe_, spec] {
            try {
                if (pipe)
                    capture->open(spec, cv::CAP_FFMPEG);
                else if (camera)
                    capture->open(std::stoi(spec));
                else
                    capture->open(spec);
            } catch (const std::exception &) { // treat it like a failing backend
            }
        };
        if (file)
            open();
        else if (!unlessInterrupted(open))
            throw Stop(INTERRUPTED, name_ + " had not answered yet");
        if (!capture_->isOpened())
            throw Stop(INPUT, live_ ? name_ + " cannot be opened: " + problem(spec, camera)
                                    : name_ + " is not a video that can be decoded" +
                                          (pipe_ ? " without seeking (.mkv, .webm, .avi, .y4m and MPEG-TS can)"
                                                 : "; pictures have a name that ends in" + joined(imageEndings())));
        setRate(capture_->get(cv::CAP_PROP_FPS));
        const double count = file ? capture_->get(cv::CAP_PROP_FRAME_COUNT) : 0;
        if (std::isfinite(count) && count >= 1 && count < 1e9)
            total_ = std::llround(count);
    }

  protected:
    bool next(cv::Mat &frame) override {
        if (live_ || pipe_ ? nextLive(frame) : decode(*capture_, frame)) {
            seconds_ = capture_->get(cv::CAP_PROP_POS_MSEC) / 1000;
            ++read_;
            return true;
        }
        if (live_ && !interrupted())
            throw Stop(INPUT, name_ + " stopped after " + std::to_string(read_) + " frames");
        // In some formats the header's frame count is an estimate, so check that time is missing too.
        const double expected = static_cast<double>(total_), slack = 2 + 0.002 * expected;
        if (!live_ && !pipe_ && static_cast<double>(read_) < expected - slack && seconds_ * fps_ < expected - 1 - slack)
            throw Stop(INPUT, name_ + " ends early: " + std::to_string(read_) + " of the " + std::to_string(total_) +
                                  " frames in its header");
        return false;
    }

  private:
    static std::string problem(const std::string &spec, bool camera) {
        const auto found = std::make_shared<std::string>();
        if (!unlessInterrupted([found, spec, camera] { *found = camera ? cameraProblem(spec) : urlProblem(spec); }))
            throw Stop(INTERRUPTED, spec + " had not answered yet");
        return *found;
    }

    // Some files give the ticks of their clock instead, such as 90000 a second.
    void setRate(double fps) {
        if (std::isfinite(fps) && fps >= MIN_RATE && fps <= MAX_RATE)
            fps_ = fps;
        else if (!live_)
            note("%s says %.6g frames a second, which cannot be: taken as %g", name_.c_str(), fps, fps_);
    }

    static constexpr double MIN_RATE = 0.01, MAX_RATE = 1000;

    static bool decode(cv::VideoCapture &capture, cv::Mat &frame) {
        try {
            return capture.read(frame) && !frame.empty();
        } catch (const cv::Exception &) { // a frame that cannot be decoded
            return false;
        }
    }

    bool nextLive(cv::Mat &frame) {
        if (interrupted() || !unlessInterrupted([capture = capture_, latest = latest_] {
                if (!decode(*capture, *latest))
                    latest->release();
            }))
            return false;
        latest_->copyTo(frame);
        return !latest_->empty();
    }

    // Shared with a thread that may outlive the source.
    const std::shared_ptr<cv::VideoCapture> capture_ = std::make_shared<cv::VideoCapture>();
    const std::shared_ptr<cv::Mat> latest_ = std::make_shared<cv::Mat>();
    const bool pipe_;
    long long read_ = 0;
    double seconds_ = 0;
};

class Images : public Source {
  public:
    Images(const std::string &spec, std::vector<std::string> files) : files_(std::move(files)) {
        name_ = spec;
        total_ = static_cast<long long>(files_.size());
    }

  protected:
    bool next(cv::Mat &frame) override {
        if (at_ == files_.size())
            return false;
        cv::Mat image;
        try {
            image = cv::imread(files_[at_], cv::IMREAD_COLOR);
        } catch (const cv::Exception &) { // the image stays empty
        }
        if (image.empty())
            throw Stop(INPUT, files_[at_] + " is not an image that can be decoded");
        ++at_;
        image.copyTo(frame);
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
    bool next(cv::Mat &frame) override {
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

// A picture in memory.
class Picture : public Source {
  public:
    Picture(const std::string &name, const cv::Mat &picture) : picture_(picture) {
        name_ = name;
        total_ = 1;
    }

  protected:
    bool next(cv::Mat &frame) override {
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
    StandardInput input;
    requireNoList("stdin", input.start());
    if (input.isImage())
        return std::make_unique<Picture>("stdin", decodeImage("stdin", input.readAll(), cv::IMREAD_COLOR));
    return std::make_unique<Capture>("pipe:" + std::to_string(input.relay()), Capture::PIPE, "stdin");
}

std::unique_ptr<Source> open(const std::string &spec) {
    if (isStandard(spec))
        return openStandardInput();
    if (spec.compare(0, std::strlen("synthetic:"), "synthetic:") == 0)
        return synthetic(spec);
    if (allDigits(spec) && spec.size() < 4 && !fs::exists(spec))
        return std::make_unique<Capture>(spec, Capture::CAMERA);
    if (spec.find("://") != std::string::npos) {
        requireNetwork(spec);
        return std::make_unique<Capture>(spec, Capture::URL);
    }
    std::error_code error;
    if (fs::is_directory(spec, error))
        return std::make_unique<Images>(spec, folder(spec));
    if (spec.find('%') != std::string::npos && !fs::exists(spec, error))
        return std::make_unique<Images>(spec, sequence(spec));
    requireRegular(spec); // opening a pipe would wait for its writer
    std::FILE *file = std::fopen(spec.c_str(), "rb");
    if (!file)
        throw Stop(INPUT, spec + ": " + std::strerror(errno));
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> guard(file, std::fclose);
    if (fs::is_regular_file(spec, error)) {
        char start[256] = "";
        requireNoList(spec, std::string(start, std::fread(start, 1, sizeof start, file)));
    }
    if (fs::is_regular_file(spec, error) && fs::file_size(spec, error) == 0)
        throw Stop(INPUT, spec + " is empty");
    if (isImage(spec))
        return std::make_unique<Images>(spec, std::vector<std::string>{spec});
    return std::make_unique<Capture>(spec, Capture::FILE);
}

} // namespace

void Source::start() {
    cv::Mat first;
    if (!first_decoding_([&] { return next(first); }) || first.empty())
        throw Stop(INPUT, name_ + " contains no frame that can be decoded");
    size_ = first.size();
    ahead_ = {first};
}

const std::vector<cv::Mat> &Source::preview(double seconds, double bytes) {
    const double frames = std::min(fps_ * (live_ ? std::min(1.0, seconds) : seconds), bytes / (3.0 * size_.area()));
    while (static_cast<double>(ahead_.size()) < std::max(2.0, frames) && !ended_ && !problem_ && !interrupted())
        try {
            cv::Mat frame;
            ended_ = !first_decoding_([&] { return next(frame); });
            if (!ended_)
                ahead_.push_back(frame);
        } catch (...) {
            problem_ = std::current_exception();
        }
    return ahead_;
}

bool Source::read(cv::Mat &frame) {
    if (taken_ < ahead_.size()) {
        cv::Mat &first = ahead_[taken_++];
        first.copyTo(frame);
        first.release();
    } else if (problem_) {
        std::rethrow_exception(problem_);
    } else if (ended_ || !decoding_([&] { return next(frame); })) {
        ended_ = true;
        return false;
    }
    if (frame.size() != size_ || frame.type() != CV_8UC3)
        throw Stop(INPUT, name_ + ": frame " + std::to_string(delivered_ + 1) + " is " + sizeText(frame.size()) +
                              ", expected " + sizeText(size_) + " like the " + std::to_string(delivered_) + " before it");
    ++delivered_;
    return true;
}

Playback playbackOf(const Source &source) {
    Playback playback;
    playback.fps = source.fps();
    playback.live = source.live();
    playback.single = source.frames() == 1;
    return playback;
}

void figureInput(const Source &source) {
    const cv::Size size = source.size();
    figure("input", Json().add("input", source.name()).add("width", size.width).add("height", size.height), "%s, %d x %d",
           source.name().c_str(), size.width, size.height);
}

std::unique_ptr<Source> openSource(const std::string &spec) {
    std::unique_ptr<Source> source = open(spec);
    source->start();
    return source;
}

} // namespace sample
