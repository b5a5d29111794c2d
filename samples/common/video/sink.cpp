#include "common/video/sink.hpp"

#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/video/window.hpp"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace sample {

namespace fs = std::filesystem;

const char *const SINK_HELP =
    "write a video (.mp4 .mkv .webm .avi), numbered images (out_%04d.png, or a folder with / at the end) or one image (the "
    "last picture); .avi is the fastest, .mp4 and .webm play in browsers; - is stdout: PNG of one picture, otherwise "
    "uncompressed video (.y4m) that ffmpeg and mpv read";

namespace {

// Enough to notice a missing folder or a full disk at once.
constexpr size_t PROBE = 64 * 1024;

cv::Mat asColor(const cv::Mat &picture) {
    if (picture.type() == CV_8UC3)
        return picture;
    cv::Mat color;
    cv::cvtColor(picture, color, cv::COLOR_GRAY2BGR);
    return color;
}

// Encodes the picture in the format given by the name's ending.
std::vector<uchar> encode(const std::string &path, const cv::Mat &picture) {
    const std::string type = ending(path);
    cv::Mat converted = picture;
    if (type == ".pgm" && picture.channels() == 3)
        cv::cvtColor(picture, converted, cv::COLOR_BGR2GRAY);
    else if (type == ".ppm" || type == ".webp")
        converted = asColor(picture);
    std::vector<uchar> bytes;
    bool encoded = false;
    try {
        encoded = cv::imencode(type, converted, bytes);
    } catch (const cv::Exception &error) {
        cannotWrite(path, error.err);
    }
    if (!encoded || bytes.empty())
        cannotWrite(path, "the image could not be encoded");
    return bytes;
}

void storeImage(OutputFile &file, const cv::Mat &picture) {
    const std::vector<uchar> bytes = encode(file.path(), picture);
    file.write(bytes.data(), bytes.size());
    file.commit();
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
            throw Stop(USAGE, "--output is '" + path + "', expected " + expectedOutputs());
        // H.264 and VP8 subsample chroma 2 x 2, so odd sides lose one pixel, and a side of one pixel is too short.
        const cv::Size even(size.width & ~1, size.height & ~1);
        crop_ = type == ".avi" ? size : even;
        if (crop_.width < 2 || crop_.height < 2)
            cannotWrite(path, "a video must have at least 2 x 2 pixels");
        file_ = std::make_unique<OutputFile>(path);
        probe();
        for (const char *codec : format->codecs) {
            if (!codec)
                break;
            const int fourcc = cv::VideoWriter::fourcc(codec[0], codec[1], codec[2], codec[3]);
            try {
                if (writer_.open(file_->temporary(), cv::CAP_ANY, fourcc, fps, crop_))
                    return;
            } catch (const cv::Exception &) { // try the next codec
            }
        }
        cannotWrite(path, "this OpenCV has no encoder for " + type + " at " + std::to_string(size.width) + " x " +
                              std::to_string(size.height) + "; .y4m and pictures need none");
    }
    ~Video() override {
        writer_.release(); // before the file is removed
    }

    bool write(const cv::Mat &picture) override {
        if (picture.size() != size_)
            throw Stop(FAILED, path_ + ": a picture has another size than the first");
        file_->reserve(PROBE + 2 * pictureBytes());
        writer_.write(asColor(picture)(cv::Rect(cv::Point(), crop_)));
        ++written_;
        return true;
    }

    void finish() override {
        if (!file_)
            return;
        if (written_ > 0)
            file_->reserve(PROBE + 4 * pictureBytes() +
                           64 * static_cast<size_t>(written_)); // the last pictures and the index
        writer_.release();
        if (written_ > 0) {
            verify();
            file_->trim();
            file_->commit();
        }
        file_.reset();
    }

    std::string name() const override { return isStandard(path_) ? "stdout" : path_; }

  private:
    size_t pictureBytes() const { return 3 * static_cast<size_t>(size_.area()); }

    // The codecs report neither a missing folder nor a full disk.
    void probe() {
        const std::vector<char> block(PROBE, 0);
        file_->write(block.data(), block.size());
        file_->flush();
        std::error_code error;
        if (!file_->inPlace())
            fs::resize_file(file_->temporary(), 0, error);
    }

    // Reads the file back.
    void verify() const {
        cv::VideoCapture back(file_->temporary());
        cv::Mat picture;
        if (!back.isOpened() || !back.read(picture) ||
            back.get(cv::CAP_PROP_FRAME_COUNT) + 1 < static_cast<double>(written_))
            cannotWrite(path_, "what was written cannot be read back");
    }

    std::string path_;
    cv::Size size_, crop_;
    std::unique_ptr<OutputFile> file_;
    cv::VideoWriter writer_;
    long long written_ = 0;
};

class Sequence : public Sink {
  public:
    explicit Sequence(const std::string &path) : path_(path) {
        const bool folder = path.back() == '/';
        if (!parseNumbered(folder ? path + "%06d.png" : path, name_) || name_.head.find('%') != std::string::npos ||
            name_.tail.find('/') != std::string::npos || !isImageName(name_.file(0)))
            throw Stop(USAGE, "--output is '" + path + "', expected " + expectedOutputs());
        std::error_code error;
        if (folder)
            fs::create_directories(path, error);
        if (error)
            cannotWrite(path, error.message());
        const size_t slash = name_.head.rfind('/');
        files_ = std::make_unique<OutputFolder>(slash == std::string::npos ? "" : name_.head.substr(0, slash + 1));
        name_.head.erase(0, slash + 1);
    }

    bool write(const cv::Mat &picture) override {
        const std::vector<uchar> bytes = encode(name_.file(written_), picture);
        const std::string path = files_->path() + name_.file(written_);
        std::FILE *file = std::fopen(path.c_str(), "wbx");
        errno = file ? 0 : errno;
        const bool stored = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        const int why = errno;
        if (!file || (std::fclose(file) != 0) || !stored)
            cannotWrite(path_, std::strerror(why ? why : errno ? errno : EIO));
        ++written_;
        return true;
    }
    void finish() override {
        if (files_ && written_ > 0)
            files_->commit();
        files_.reset();
    }
    std::string name() const override { return isStandard(path_) ? "stdout" : path_; }

  private:
    std::string path_;
    NumberedName name_;
    std::unique_ptr<OutputFolder> files_;
    long long written_ = 0;
};

class Still : public Sink {
  public:
    Still(const std::string &path, cv::Size size) : path_(path) {
        if (!isImageName(path))
            throw Stop(USAGE, "--output is '" + path + "', expected " + expectedOutputs());
        const int most = ending(path) == ".webp" ? 16383 : 65535; // limit of the format
        if (size.width > most || size.height > most)
            throw Stop(USAGE, text("--output is '%s', expected pictures of at most %d x %d for this format, not %d x %d",
                                   path.c_str(), most, most, size.width, size.height));
        file_ = std::make_unique<OutputFile>(path);
    }
    bool write(const cv::Mat &picture) override {
        picture.copyTo(last_);
        return true;
    }
    void finish() override {
        if (file_ && !last_.empty())
            storeImage(*file_, last_);
        file_.reset();
    }
    std::string name() const override { return isStandard(path_) ? "stdout" : path_; }

  private:
    std::string path_;
    std::unique_ptr<OutputFile> file_;
    cv::Mat last_;
};

// Uncompressed video (YUV4MPEG2, 4:4:4), which ffmpeg, mpv and this project's programs read from a pipe.
class Y4m : public Sink {
  public:
    Y4m(const std::string &path, cv::Size size, double fps) : file_(std::make_unique<OutputFile>(path)), path_(path) {
        file_->print("YUV4MPEG2 W%d H%d F%lld:1000 Ip A1:1 C444\n", size.width, size.height, std::llround(1000 * fps));
        file_->flush();
    }
    bool write(const cv::Mat &picture) override {
        cv::cvtColor(asColor(picture), converted_, cv::COLOR_BGR2YCrCb);
        cv::split(converted_, planes_);
        planes_[0].convertTo(planes_[0], CV_8U, 219.0 / 255, 16);
        for (const int chroma : {1, 2})
            planes_[static_cast<size_t>(chroma)].convertTo(planes_[static_cast<size_t>(chroma)], CV_8U, 224.0 / 255,
                                                           128 - 128 * 224.0 / 255);
        file_->write("FRAME\n", 6);
        for (const size_t plane : {0, 2, 1}) // Y, Cb, Cr
            file_->write(planes_[plane].data, planes_[plane].total());
        file_->flush();
        return true;
    }
    void finish() override {
        if (file_)
            file_->commit();
        file_.reset();
    }
    std::string name() const override { return isStandard(path_) ? "stdout" : path_; }

  private:
    std::unique_ptr<OutputFile> file_;
    std::string path_;
    cv::Mat converted_;
    std::vector<cv::Mat> planes_;
};

class Both : public Sink {
  public:
    Both(std::unique_ptr<Sink> a, std::unique_ptr<Sink> b) : a_(std::move(a)), b_(std::move(b)) {}
    bool write(const cv::Mat &picture) override {
        const bool more = a_->write(picture);
        return b_->write(picture) && more;
    }
    bool writeAt(const cv::Mat &picture, double seconds) override {
        const bool more = a_->writeAt(picture, seconds);
        return b_->write(picture) && more;
    }
    void finish() override {
        a_->finish();
        b_->finish();
    }
    void hold() override {
        a_->hold();
        b_->hold();
    }
    std::string name() const override { return b_->name(); }

  private:
    std::unique_ptr<Sink> a_, b_;
};

} // namespace

static const std::vector<std::string> &videoEndings() {
    static const std::vector<std::string> endings = {".mp4", ".mkv", ".mov", ".webm", ".avi", ".y4m"};
    return endings;
}

const std::vector<std::string> &imageEndings() {
    static const std::vector<std::string> endings = {".png",  ".jpg", ".jpeg", ".bmp", ".tif",
                                                     ".tiff", ".pgm", ".ppm",  ".webp"};
    return endings;
}

std::string joined(const std::vector<std::string> &endings) {
    std::string all;
    for (const std::string &each : endings)
        all += " " + each;
    return all;
}

std::string expectedOutputs() {
    return "a name that ends in" + joined(videoEndings()) + joined(imageEndings()) +
           " or /, a picture's name with %d, or -";
}

bool isOutputName(const std::string &path) {
    const std::vector<std::string> &videos = videoEndings();
    return isStandard(path) || path.back() == '/' || isImageName(path) ||
           std::find(videos.begin(), videos.end(), ending(path)) != videos.end();
}

bool isImageName(const std::string &path) {
    const auto &endings = imageEndings();
    return std::find(endings.begin(), endings.end(), ending(path)) != endings.end();
}

void writeImage(const std::string &path, const cv::Mat &picture) {
    OutputFile file(path == "-" ? "-.png" : path);
    storeImage(file, picture);
}

std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, double fps, bool single) {
    if (path.empty())
        throw Stop(USAGE, "--output is '', expected " + expectedOutputs());
    if (path == "-")
        return openFile(single ? "-.png" : "-.y4m", size, fps, single);
    std::error_code error;
    if (path.back() != '/' && fs::is_directory(path, error))
        return std::make_unique<Sequence>(path + '/');
    if (path.back() == '/' || path.find('%') != std::string::npos)
        return std::make_unique<Sequence>(path);
    if (isImageName(path))
        return std::make_unique<Still>(path, size);
    if (ending(path) == ".y4m")
        return std::make_unique<Y4m>(path, size, fps);
    if (isStandard(path))
        throw Stop(USAGE,
                   "--output is '" + path + "', expected -, -.y4m or a picture such as -.png: other videos need a file");
    return std::make_unique<Video>(path, size, fps);
}

std::unique_ptr<Sink> openSink(const Common &common, const std::string &title, const std::string &default_file,
                               cv::Size size, const Playback &playback) {
    const std::string problem = common.headless ? "--headless" : displayProblem();
    if (problem.empty()) {
        try {
            Playback how = playback;
            how.speed = common.speed;
            auto window = std::make_unique<Window>(title, size, how);
            if (common.output.empty())
                return window;
            return std::make_unique<Both>(std::move(window), openFile(common.output, size, playback.fps, playback.single));
        } catch (const cv::Exception &error) {
            note("no window (%s)", error.err.c_str());
        }
    }
    const std::string file = common.output.empty() ? default_file : common.output;
    if (!common.headless)
        note("%s: writing %s", problem.empty() ? "no window" : problem.c_str(), file.c_str());
    return openFile(file, size, playback.fps, playback.single);
}

} // namespace sample
