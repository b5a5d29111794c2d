#include "sink.hpp"

#include <opencv2/highgui.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sample {

namespace fs = std::filesystem;

const char *const SINK_HELP =
    "write a video (.mp4 .mkv .webm .avi), numbered images (out_%04d.png, or a folder with / at the end) or one image (the "
    "last picture); .avi is the fastest, .mp4 and .webm play in browsers";

namespace {

std::string ending(const std::string &path) {
    std::string out = fs::path(path).extension().string();
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
}

[[noreturn]] void cannotWrite(const std::string &path, const std::string &why) {
    throw Stop(OUTPUT, path + " cannot be written: " + why);
}

// The codecs report neither a missing folder nor a full disk, so check both. Creates or empties the file.
void requireWritable(const std::string &path) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file)
        cannotWrite(path, std::strerror(errno));
    std::vector<char> block(64 * 1024, 0);
    errno = 0;
    const bool written = std::fwrite(block.data(), 1, block.size(), file) == block.size() && std::fflush(file) == 0;
    const int why = errno;
    std::fclose(file);
    if (!written)
        cannotWrite(path, std::strerror(why ? why : EIO));
    std::error_code error;
    if (fs::is_regular_file(path, error))
        fs::resize_file(path, 0, error);
}

bool diskFull(const std::string &path) {
    struct statvfs info;
    const std::string folder = fs::path(path).parent_path().string();
    return ::statvfs(folder.empty() ? "." : folder.c_str(), &info) == 0 && info.f_blocks > 0 &&
           static_cast<unsigned long long>(info.f_bavail) * info.f_frsize < 64 * 1024;
}

cv::Mat asColor(const cv::Mat &picture) {
    if (picture.type() == CV_8UC3)
        return picture;
    cv::Mat color;
    cv::cvtColor(picture, color, cv::COLOR_GRAY2BGR);
    return color;
}

class Video : public Sink {
  public:
    Video(const std::string &path, cv::Size size, double fps) : path_(path), size_(size) {
        static const struct {
            const char *ending;
            const char *codecs[3]; // in order of preference: what browsers play, then what every build can write
        } formats[] = {{".mp4", {"avc1", "mp4v", nullptr}},
                       {".mov", {"avc1", "mp4v", nullptr}},
                       {".mkv", {"avc1", "mp4v", "MJPG"}},
                       {".webm", {"VP80", "VP90", nullptr}},
                       {".avi", {"MJPG", "XVID", nullptr}}};
        const std::string type = ending(path);
        const auto format = std::find_if(std::begin(formats), std::end(formats), [&](auto &f) { return type == f.ending; });
        if (format == std::end(formats))
            throw Stop(USAGE, "--output is '" + path + "', expected " + EXPECTED_NAME);
        requireWritable(path);
        // H.264 and VP8 subsample chroma 2 x 2, so odd sides lose one pixel, and a side of one pixel is too short.
        const cv::Size even(size.width & ~1, size.height & ~1);
        crop_ = type == ".avi" ? size : even;
        if (crop_.width < 2 || crop_.height < 2)
            cannotWrite(path, "a video must have at least 2 x 2 pixels");
        for (const char *codec : format->codecs) {
            if (!codec)
                break;
            const int fourcc = cv::VideoWriter::fourcc(codec[0], codec[1], codec[2], codec[3]);
            try {
                if (writer_.open(path, cv::CAP_ANY, fourcc, fps, crop_))
                    return;
            } catch (const cv::Exception &) { // try the next one
            }
        }
        cannotWrite(path, "this OpenCV has no encoder for " + type + " at " + std::to_string(size.width) + " x " +
                              std::to_string(size.height));
    }

    bool write(const cv::Mat &picture) override {
        if (picture.size() != size_)
            throw Stop(FAILED, path_ + ": a picture has another size than the first");
        if (written_ % 16 == 0 && diskFull(path_))
            cannotWrite(path_, "the disk is full after " + std::to_string(written_) + " pictures");
        writer_.write(asColor(picture)(cv::Rect(cv::Point(), crop_)));
        ++written_;
        return true;
    }

    void finish() override {
        if (!writer_.isOpened())
            return;
        writer_.release();
        // The writer does not report disk errors, so read the file back.
        std::error_code error;
        if (written_ == 0) {
            fs::remove(path_, error);
            return;
        }
        cv::VideoCapture back(path_);
        cv::Mat picture;
        if (!back.isOpened() || !back.read(picture) ||
            back.get(cv::CAP_PROP_FRAME_COUNT) + 1 < static_cast<double>(written_))
            cannotWrite(path_, diskFull(path_) ? "the disk is full" : "what was written cannot be read back");
    }

    std::string name() const override { return path_; }

    static constexpr const char *EXPECTED_NAME =
        "a name that ends in .mp4 .mkv .mov .webm .avi .png .jpg or /, or contains %d";

  private:
    std::string path_;
    cv::Size size_, crop_;
    cv::VideoWriter writer_;
    long long written_ = 0;
};

void writeImage(const std::string &path, const cv::Mat &picture) {
    bool written = false;
    try {
        written = cv::imwrite(path, picture);
    } catch (const cv::Exception &error) {
        cannotWrite(path, error.err);
    }
    if (!written) {
        requireWritable(path); // reports the file system's reason, if any
        cannotWrite(path, "the image could not be encoded or stored");
    }
}

class Sequence : public Sink {
  public:
    explicit Sequence(const std::string &path) : path_(path), pattern_(path) {
        if (path.back() == '/') {
            std::error_code error;
            fs::create_directories(path, error);
            if (error)
                cannotWrite(path, error.message());
            pattern_ += "%06d.png";
        }
        const size_t percent = pattern_.find('%');
        size_t end = percent + 1;
        while (end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])))
            ++end;
        if (end >= pattern_.size() || pattern_[end] != 'd' || end - percent > 3 || !cv::haveImageWriter(pattern_))
            throw Stop(USAGE, "--output is '" + path + "', expected " + Video::EXPECTED_NAME);
        digits_ = end > percent + 1 ? std::stoi(pattern_.substr(percent + 1)) : 1;
        tail_ = pattern_.substr(end + 1);
        pattern_.resize(percent);
    }

    bool write(const cv::Mat &picture) override {
        const std::string path = pattern_ + text("%0*lld", digits_, written_) + tail_;
        try {
            writeImage(path, picture);
            if (diskFull(path)) // the encoder may have truncated it silently
                cannotWrite(path, "the disk is full after " + std::to_string(written_) + " pictures");
        } catch (const Stop &) {
            std::error_code error;
            fs::remove(path, error);
            throw;
        }
        ++written_;
        return true;
    }
    void finish() override {}
    std::string name() const override { return path_; }

  private:
    std::string path_, pattern_, tail_;
    int digits_ = 1;
    long long written_ = 0;
};

class Still : public Sink {
  public:
    explicit Still(const std::string &path) : path_(path) {
        if (!cv::haveImageWriter(path))
            throw Stop(USAGE, "--output is '" + path + "', expected " + Video::EXPECTED_NAME);
        requireWritable(path);
    }
    bool write(const cv::Mat &picture) override {
        picture.copyTo(last_);
        return true;
    }
    void finish() override {
        if (!last_.empty()) {
            writeImage(path_, last_);
            if (cv::imread(path_, cv::IMREAD_UNCHANGED).empty())
                cannotWrite(path_, diskFull(path_) ? "the disk is full" : "what was written cannot be read back");
        }
        last_.release();
    }
    std::string name() const override { return path_; }

  private:
    std::string path_;
    cv::Mat last_;
};

class Window : public Sink {
  public:
    Window(const std::string &title, cv::Size size) : title_(title) {
        cv::namedWindow(title_, cv::WINDOW_NORMAL | cv::WINDOW_KEEPRATIO);
        const double scale = std::min(1.0, std::min(1600.0 / size.width, 900.0 / size.height));
        cv::resizeWindow(title_, std::max(1, cvRound(size.width * scale)), std::max(1, cvRound(size.height * scale)));
    }
    bool write(const cv::Mat &picture) override {
        try {
            cv::imshow(title_, picture);
            const int key = cv::waitKey(1);
            return key != 27 && key != 'q' && cv::getWindowProperty(title_, cv::WND_PROP_VISIBLE) > 0;
        } catch (const cv::Exception &error) {
            throw Stop(OUTPUT, "the window cannot be drawn: " + error.err);
        }
    }
    void finish() override {
        try {
            cv::destroyAllWindows();
        } catch (const cv::Exception &) { // already closed
        }
    }
    std::string name() const override { return "a window"; }

  private:
    std::string title_;
};

class Both : public Sink {
  public:
    Both(std::unique_ptr<Sink> a, std::unique_ptr<Sink> b) : a_(std::move(a)), b_(std::move(b)) {}
    bool write(const cv::Mat &picture) override {
        const bool more = a_->write(picture);
        return b_->write(picture) && more;
    }
    void finish() override {
        a_->finish();
        b_->finish();
    }
    std::string name() const override { return b_->name(); }

  private:
    std::unique_ptr<Sink> a_, b_;
};

// Qt and GTK abort or throw if the display rejects them, so try in a child process.
std::string probeDisplay() {
    const auto set = [](const char *name) {
        const char *value = std::getenv(name);
        return value && *value;
    };
    if (!set("DISPLAY") && !set("WAYLAND_DISPLAY"))
        return "no display (neither DISPLAY nor WAYLAND_DISPLAY is set)";
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0)
        return "";
    if (child == 0) {
        const int null = ::open("/dev/null", O_WRONLY);
        ::dup2(null, STDOUT_FILENO);
        ::dup2(null, STDERR_FILENO);
        ::signal(SIGABRT, SIG_DFL);
        ::signal(SIGINT, SIG_IGN);
        try {
            cv::namedWindow("cusight", cv::WINDOW_AUTOSIZE);
            ::_exit(0);
        } catch (...) {
            ::_exit(1);
        }
    }
    for (int waited = 0; waited < 1000; ++waited) {
        int status = 0;
        const pid_t done = ::waitpid(child, &status, WNOHANG);
        if (done == child)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "the display cannot be used";
        if (done < 0 && errno != EINTR)
            break;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return "the display does not answer";
}

} // namespace

const std::string &displayProblem() {
    static const std::string problem = probeDisplay();
    return problem;
}

std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, double fps) {
    if (path.empty())
        throw Stop(USAGE, std::string("--output is '', expected ") + Video::EXPECTED_NAME);
    std::error_code error;
    if (path.back() != '/' && fs::is_directory(path, error))
        return std::make_unique<Sequence>(path + '/');
    if (path.back() == '/' || path.find('%') != std::string::npos)
        return std::make_unique<Sequence>(path);
    static const char *const images[] = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".webp"};
    const std::string type = ending(path);
    if (std::any_of(std::begin(images), std::end(images), [&](const char *e) { return type == e; }))
        return std::make_unique<Still>(path);
    return std::make_unique<Video>(path, size, fps);
}

std::unique_ptr<Sink> openSink(const Common &common, const std::string &title, const std::string &default_file,
                               cv::Size size, double fps) {
    const std::string problem = common.headless ? "--headless" : displayProblem();
    if (problem.empty()) {
        try {
            auto window = std::make_unique<Window>(title, size);
            if (common.output.empty())
                return window;
            return std::make_unique<Both>(std::move(window), openFile(common.output, size, fps));
        } catch (const cv::Exception &error) {
            std::fprintf(stderr, "no window (%s)\n", error.err.c_str());
        }
    }
    const std::string file = common.output.empty() ? default_file : common.output;
    if (!common.headless)
        std::fprintf(stderr, "%s: writing %s\n", problem.empty() ? "no window" : problem.c_str(), file.c_str());
    return openFile(file, size, fps);
}

} // namespace sample
