#include "common/video/sink.hpp"

#include "common/libav/writer.hpp"
#include "common/opencv/opencv.hpp"
#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/window/window.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

namespace sample {

namespace fs = std::filesystem;

const char *const SINK_HELP =
    "write a video (.mp4 .mkv .mov .webm .avi .y4m), numbered images (out_%04d.png, or a folder with / at the end) or one "
    "image "
    "(the last picture); .avi and .y4m have a constant frame rate, .mp4 and .webm play in browsers; - is stdout: PNG of "
    "one "
    "picture, otherwise uncompressed video (.y4m) that ffmpeg and mpv read; -.mkv and so on name another format";

namespace {

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
        encoded = openCv().imencode(type, converted, bytes);
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

class Sequence : public Sink {
  public:
    // `value`: of --output. `names`: of the pictures in a folder; empty: numbers.
    Sequence(const std::string &path, const std::string &value, const std::vector<std::string> &names)
        : path_(path), names_(names) {
        const bool folder = path.back() == '/';
        if (!parseNumbered(folder ? path + "%06d.png" : path, name_) || name_.head.find('%') != std::string::npos ||
            name_.tail.find('/') != std::string::npos || !isImageName(name_.file(0)))
            throw Stop(USAGE, "--output is '" + path + "', expected " + expectedOutputs());
        if (folder)
            makeFolder(path);
        else
            names_.clear();
        if (names_.empty())
            currentFiles().isDerived(name_.file(0));
        for (const std::string &name : names_)
            currentFiles().derive("--output", value, path + name);
        const size_t slash = name_.head.rfind('/');
        files_ = std::make_unique<OutputFolder>(slash == std::string::npos ? "" : name_.head.substr(0, slash + 1));
        name_.head.erase(0, slash + 1);
        (void)openCv();
    }

    bool write(const cv::Mat &picture) override {
        const auto at = static_cast<size_t>(written_);
        const std::string name = names_.empty() ? name_.file(written_) : names_.at(at);
        const std::vector<uchar> bytes = encode(name, picture);
        const std::string path = files_->path() + name;
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
    std::vector<std::string> names_; // of a folder; empty: numbers
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
        (void)openCv(); // what is missing should not be noticed at the end
    }
    bool write(const cv::Mat &picture) override {
        picture.copyTo(last_);
        return true;
    }
    bool onlyLast() const override { return true; }
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

class Both : public Sink {
  public:
    Both(std::unique_ptr<Sink> a, std::unique_ptr<Sink> b) : a_(std::move(a)), b_(std::move(b)) {}
    bool write(const cv::Mat &picture) override {
        const bool more = a_->write(picture);
        return b_->write(picture) && more;
    }
    bool writeAt(const cv::Mat &picture, double seconds) override {
        const bool more = a_->writeAt(picture, seconds);
        return b_->writeAt(picture, seconds) && more;
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
    return "a name that ends in" + joined(av::videoEndings()) + joined(imageEndings()) +
           " or /, a picture's name with %d, or -";
}

bool isOutputName(const std::string &path) {
    const std::vector<std::string> &videos = av::videoEndings();
    return isStandard(path) || path.back() == '/' || isImageName(path) ||
           std::find(videos.begin(), videos.end(), ending(path)) != videos.end();
}

bool isImageName(const std::string &path) {
    const auto &endings = imageEndings();
    return std::find(endings.begin(), endings.end(), ending(path)) != endings.end();
}

std::vector<std::string> namesLike(const std::vector<std::string> &pictures) {
    std::map<std::string, int> count;
    for (const std::string &picture : pictures)
        ++count[fs::path(picture).stem().string()];
    std::vector<std::string> names;
    std::map<std::string, std::string> taken;
    for (const std::string &picture : pictures) {
        const fs::path path = picture;
        names.push_back((count[path.stem().string()] > 1 ? path.filename() : path.stem()).string() + ".png");
        const auto [other, is_new] = taken.insert({names.back(), picture});
        if (!is_new)
            throw Stop(USAGE, "--output would have one picture " + names.back() + " for INPUT '" + other->second +
                                  "' and '" + picture + "', expected pictures of different names");
    }
    return names;
}

void writeImage(const std::string &path, const cv::Mat &picture) {
    OutputFile file(path == "-" ? "-.png" : path);
    storeImage(file, picture);
}

std::unique_ptr<Sink> openFile(const std::string &path, cv::Size size, const Playback &playback, const Encoding &encoding) {
    if (path.empty())
        throw Stop(USAGE, "--output is '', expected " + expectedOutputs());
    if (path == "-")
        return openFile(playback.single ? "-.png" : "-.y4m", size, playback, encoding);
    std::error_code error;
    if (path.back() != '/' && fs::is_directory(path, error))
        return std::make_unique<Sequence>(path + '/', path, playback.names);
    if (path.back() == '/' || path.find('%') != std::string::npos)
        return std::make_unique<Sequence>(path, path, playback.names);
    const std::vector<std::string> &videos = av::videoEndings();
    if (std::find(videos.begin(), videos.end(), ending(path)) == videos.end())
        return std::make_unique<Still>(path, size);
    if (!playback.sound.empty())
        note("%s: the sound of %s is left out", path.c_str(), playback.sound.c_str());
    return av::openVideo(path, size, playback, encoding);
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
            return std::make_unique<Both>(std::move(window), openFile(common.output, size, playback, common.video));
        } catch (const cv::Exception &error) {
            note("no window (%s)", error.err.c_str());
        }
    }
    const std::string file = common.output.empty() ? currentFiles().defaultOutput(default_file) : common.output;
    if (!common.headless)
        note("%s: writing %s", problem.empty() ? "no window" : problem.c_str(), file.c_str());
    return openFile(file, size, playback, common.video);
}

} // namespace sample
