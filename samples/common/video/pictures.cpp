#include "common/video/pictures.hpp"

#include "common/opencv/opencv.hpp"
#include "common/output.hpp"
#include "common/terminal/files.hpp"
#include "common/video/image.hpp"
#include "common/video/sink.hpp"

#include "cusight/opencv.hpp"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/stat.h>

namespace sample {

namespace fs = std::filesystem;

namespace {

using cusight::check;

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

// Sources whose frames OpenCV makes.
class Drawn : public Source {
  protected:
    void get(cusMat &frame, cusSpace space) override {
        if (space == CUS_HOST) {
            const FrameSize size = sizeNow();
            check(cusMatCreate(&frame, size.height, size.width, CUS_8UC3, CUS_HOST));
            cv::Mat view = cusight::toMat(frame);
            fill(view);
        } else {
            fill(drawn_);
            const cusMat view = cusight::view(drawn_);
            check(cusMatUpload(&view, &frame, nullptr));
        }
    }
    virtual void fill(cv::Mat &frame) = 0;

  private:
    cv::Mat drawn_;
};

class Camera : public Drawn {
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
    bool next(double &seconds) override {
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
        return true;
    }
    void fill(cv::Mat &frame) override { latest_->copyTo(frame); }
    FrameSize sizeNow() const override { return latest_->size(); }

  private:
    // Shared with a thread that may outlive the source.
    const std::shared_ptr<cv::VideoCapture> capture_ = openCv().videoCapture();
    const std::shared_ptr<cv::Mat> latest_ = std::make_shared<cv::Mat>();
    std::chrono::steady_clock::time_point first_;
    long long read_ = 0;
};

class Images : public Drawn {
  public:
    // `single`: they belong to each other only by lying in one folder or list.
    Images(const std::string &spec, std::vector<std::string> files, bool single) : files_(std::move(files)) {
        name_ = spec;
        if (single)
            pictures_ = files_;
        total_ = static_cast<long long>(files_.size());
    }

  protected:
    bool next(double &) override {
        if (at_ == files_.size())
            return false;
        picture_ = readImage(files_[at_++], cv::IMREAD_COLOR);
        return true;
    }
    void fill(cv::Mat &frame) override { picture_.copyTo(frame); }
    FrameSize sizeNow() const override { return picture_.size(); }

  private:
    cv::Mat picture_;
    std::vector<std::string> files_;
    size_t at_ = 0;
};

// Discs and a bar that move over a still, lightly textured background, as seen by a fixed camera.
class Synthetic : public Drawn {
  public:
    Synthetic(const std::string &spec, int width, int height, int count) : scene_(height, width, CV_8UC3), count_(count) {
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
    bool next(double &) override { return at_++ < count_; }
    FrameSize sizeNow() const override { return scene_.size(); }
    void fill(cv::Mat &frame) override {
        const double t = static_cast<double>(at_ - 1) / 25;
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
    }

  private:
    cv::Mat scene_;
    const long long count_; // total_ is what is left of it
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

// A picture in memory.
class Picture : public Drawn {
  public:
    Picture(const std::string &name, const cv::Mat &picture) : picture_(picture) {
        name_ = name;
        total_ = 1;
    }

  protected:
    bool next(double &) override { return !std::exchange(given_, true); }
    void fill(cv::Mat &frame) override { picture_.copyTo(frame); }
    FrameSize sizeNow() const override { return picture_.size(); }

  private:
    const cv::Mat picture_;
    bool given_ = false;
};

} // namespace

std::unique_ptr<Source> openPicture(const std::string &name, const std::vector<unsigned char> &bytes) {
    return std::make_unique<Picture>(name, decodeImage(name, bytes.data(), bytes.size(), cv::IMREAD_COLOR));
}

std::string pictureHint() {
    return "; pictures have a name that ends in" + joined(imageEndings());
}

std::unique_ptr<Source> openList(const std::string &name, const std::vector<std::string> &files) {
    if (!std::all_of(files.begin(), files.end(), isImage))
        return nullptr;
    for (const std::string &file : files)
        requireReadable(file);
    return std::make_unique<Images>(name, files, true);
}

std::unique_ptr<Source> openPictures(const std::string &spec) {
    if (spec.compare(0, std::strlen("synthetic:"), "synthetic:") == 0)
        return synthetic(spec);
    if (allDigits(spec) && spec.size() < 4 && !fs::exists(spec))
        return std::make_unique<Camera>(spec);
    std::error_code error;
    if (fs::is_directory(spec, error))
        return std::make_unique<Images>(spec, folder(spec), true);
    if (spec.find('%') != std::string::npos && !fs::exists(spec, error))
        return std::make_unique<Images>(spec, sequence(spec), false);
    struct stat about;
    if (::stat(spec.c_str(), &about) == 0 && S_ISCHR(about.st_mode)) { // /dev/video0
        requireReadable(spec);
        return std::make_unique<Camera>(spec.substr(spec.find_last_not_of("0123456789") + 1));
    }
    if (!isImage(spec))
        return nullptr;
    requireReadable(spec);
    return std::make_unique<Images>(spec, std::vector<std::string>{spec}, false);
}

// ---- What of Source has to do with OpenCV ------------------------------------------------------------------------------

std::vector<cv::Mat> Source::preview(double seconds, double bytes) {
    from_ahead_ = false;
    const double frames = std::min(fps_ * (live_ ? std::min(1.0, seconds) : seconds), bytes / (3.0 * size_.area()));
    while (static_cast<double>(ahead_.size()) < std::max(2.0, frames) && !ended_ && !problem_ && !interrupted())
        try {
            decoding_([&] {
                double at = last_;
                ended_ = !std::exchange(waiting_, false) && !advance(at);
                if (ended_)
                    return;
                cusight::Matrix frame;
                fetch(frame.get(), CUS_HOST);
                ahead_.push_back({std::move(frame), at});
            });
        } catch (...) {
            problem_ = std::current_exception();
        }
    std::vector<cv::Mat> all;
    for (const Ahead &each : ahead_)
        all.push_back(cusight::toMat(each.frame.get()));
    return all;
}

bool Source::read(cv::Mat &frame) {
    if (!step())
        return false;
    decoding_([&] {
        frame.create(fetchedSize(), CV_8UC3);
        cusMat view = cusight::view(frame);
        fetch(view, CUS_HOST);
    });
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

} // namespace sample
