#include "common/video/source.hpp"

#include "common/libav/reader.hpp"
#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/standard_input.hpp"
#include "common/video/pictures.hpp"

#include "cusight/eventio.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace sample {

namespace fs = std::filesystem;

const char *const SOURCE_HELP =
#ifdef CUSIGHT_SAMPLES_OPENCV
    "a video file; the number of a camera (0); a URL (rtsp://, http://); an image; a folder of images, in the order of "
    "their "
    "names; a numbered sequence (frame_%04d.png); synthetic:WxH@N, a generated clip of N frames (100 without @N); or - for "
    "stdin, an image or a video that can be read without seeking";
#else
    "a video file; a URL (rtsp://, http://); or - for stdin, a video that can be read without seeking";
#endif

namespace {

using cusight::check;

std::string sizeText(FrameSize size) {
    return std::to_string(size.width) + " x " + std::to_string(size.height);
}

// A video file, what a URL sends, or a pipe.
class Video : public Source {
  public:
    Video(const std::string &name, std::unique_ptr<av::Reader> reader, bool once = false) : reader_(std::move(reader)) {
        name_ = name;
        once_ = once;
        is_video_ = true;
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
    bool next(double &seconds) override {
        double time = 0;
        if (reader_->next(time)) {
            if (timed_)
                seconds = std::isfinite(time) ? time : end_;
            end_ = seconds + 1 / fps_;
            ++read_;
            return true;
        }
        if (interrupted())
            return false;
        damaged_ = reader_->damaged();
        if (damaged_)
            note("%s: %lld parts of it could not be decoded", name_.c_str(), damaged_);
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
    void get(cusMat &frame, cusSpace space) override { reader_->get(frame, space); }
    FrameSize sizeNow() const override { return {reader_->cols(), reader_->rows()}; }
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

} // namespace

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

namespace {

av::Decoding decodingOf(const std::string &name, const Input &input) {
    return {name, input.gpu, input.threads};
}

std::unique_ptr<Source> openStandardInput(const Input &how) {
    const auto input = std::make_shared<StandardInput>();
    requireNoList("stdin", input->start());
    cusEventReader *reader = nullptr;
    const cusStatus status = cusEventReaderOpenMemory(&reader, input->start().data(), input->start().size(), nullptr);
    requireNoRecording("stdin", reader, status);
    if (input->isImage())
        return openPicture("stdin", input->readAll());
    try {
        return std::make_unique<Video>(
            "stdin",
            av::Reader::pipe([input](char *buffer, size_t bytes) { return input->read(buffer, bytes); },
                             decodingOf("stdin", how)),
            !StandardInput::isFile());
    } catch (const av::OpenError &error) {
        throw Stop(INPUT,
                   std::string("stdin is not a video that can be decoded without seeking (.mkv, .webm, .avi, .y4m and "
                               "MPEG-TS can): ") +
                       error.what());
    }
}

std::unique_ptr<Source> openUrl(const std::string &url, const Input &how) {
    requireNetwork(url);
    try {
        return std::make_unique<Video>(url, av::Reader::network(url, decodingOf(url, how), interrupted));
    } catch (const av::OpenError &error) {
        if (interrupted())
            throw Stop(INTERRUPTED, url + " had not answered yet");
        throw Stop(INPUT, url + " cannot be opened: " + error.what());
    }
}

std::unique_ptr<Source> openVideo(const std::string &path, const Input &how) {
    try {
        return std::make_unique<Video>(path, av::Reader::file(path, decodingOf(path, how)));
    } catch (const av::OpenError &error) {
        throw Stop(INPUT, path + " is not a video that can be decoded (" + error.what() + ")" + pictureHint());
    }
}

std::unique_ptr<Source> open(const std::string &spec, const Input &how) {
    if (isStandard(spec))
        return openStandardInput(how);
    if (spec.find("://") != std::string::npos)
        return openUrl(spec, how);
    std::unique_ptr<Source> pictures = openPictures(spec);
    if (pictures)
        return pictures;
    requireReadable(spec);
    return openVideo(spec, how);
}

// "a.mp4 and 2 more"
std::string nameOf(const std::vector<std::string> &names) {
    return names.front() + (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
}

} // namespace

// Sources one after the other; the next begins when the last frame of the one before ends.
class Several : public Source {
  public:
    explicit Several(const Input &input) : names_(input.names), how_(input) {
        FrameSize size;
        bool counted = true;
        is_video_ = true;
        for (const std::string &name : names_) {
            if (isStandard(name) || name.find("://") != std::string::npos)
                throw Stop(USAGE, "INPUT is '" + name + "', expected files only, since there are several");
            const std::unique_ptr<Source> source = openSource(name);
            if (size == FrameSize()) {
                size = source->size();
                fps_ = source->fps();
            }
            if (!(source->size() == size))
                throw Stop(INPUT, name + " is " + sizeText(source->size()) + ", expected " + sizeText(size) + " like " +
                                      names_.front());
            counted = counted && source->frames() > 0;
            is_video_ = is_video_ && source->isVideo();
            total_ += source->frames();
            timed_ = timed_ || source->timed_;
            steady_ = steady_ && source->steady() && source->fps() == fps_;
            sound_ = sound_ || source->sound_;
        }
        name_ = nameOf(names_);
        total_ = counted ? total_ : 0;
    }

  protected:
    bool next(double &seconds) override {
        for (; at_ < names_.size(); ++at_) {
            if (!current_)
                current_ = openSource(one(names_[at_]));
            if (current_->step()) {
                seconds = begin_ + current_->seconds();
                end_ = seconds + 1 / current_->fps();
                return true;
            }
            current_.reset();
            begin_ = end_;
        }
        return false;
    }
    void get(cusMat &frame, cusSpace space) override { current_->fetch(frame, space); }
    FrameSize sizeNow() const override { return current_->sizeNow(); }

  private:
    // All of an input, decoded as the others are.
    Input one(const std::string &name) const {
        Input input;
        input.names = {name};
        input.gpu = how_.gpu;
        input.threads = how_.threads;
        return input;
    }

    const std::vector<std::string> names_;
    const Input how_;
    std::unique_ptr<Source> current_;
    size_t at_ = 0;
    double begin_ = 0, end_ = 0; // of the current source; of the newest frame
};

void Source::start(const Input &input) {
    is_picture_ = total_ == 1;
    any_size_ = input.any_size && !pictures_.empty();
    from_ = input.start;
    to_ = input.duration > 0 ? from_ + input.duration : 0;
    crop_ = input.crop;
    if (!timed_ && input.fps > 0)
        fps_ = input.fps;
    if (from_ > 0)
        seek(from_);
    double seconds = 0;
    waiting_ = decoding_([&] { return advance(seconds); });
    if (!waiting_) {
        if (decoded_ == 0)
            throw Stop(INPUT, name_ + " contains no frame that can be decoded");
        throw Stop(INPUT, text("%s has no frame between %g s and %s; %s %.2f s", name_.c_str(), from_,
                               to_ > 0 ? text("%g s", to_).c_str() : "its end",
                               last_ < from_ ? "its last one is at" : "the next one is at", last_));
    }
    size_ = crop_[2] ? FrameSize{crop_[2], crop_[3]} : sizeNow();
    const double all = static_cast<double>(total_) / fps_;
    if (total_ && (from_ > 0 || to_ > 0))
        total_ = std::max(1LL, std::llround(((to_ > 0 ? std::min(to_, all) : all) - from_) * fps_));
    if (!pictures_.empty()) // the first one has been read
        pictures_.erase(pictures_.begin(), pictures_.begin() + (decoded_ - 1));
}

// Goes to the next frame of the part that is wanted.
bool Source::advance(double &seconds) {
    constexpr double ROUNDING = 5e-4; // of times in containers
    do {
        seconds = static_cast<double>(decoded_) / fps_;
        if (interrupted() && decoded_ > 0 && last_ < from_ - ROUNDING)
            return false;
        if (!next(seconds))
            return false;
        if (decoded_++ > 0 && seconds <= last_)
            seconds = last_ + 1e-6;
        last_ = seconds;
    } while (seconds < from_ - ROUNDING);
    if (to_ > 0 && seconds >= to_ - ROUNDING)
        return false;
    const FrameSize whole = sizeNow();
    if (crop_[2] && (crop_[0] > whole.width - crop_[2] || crop_[1] > whole.height - crop_[3]))
        throw Stop(USAGE, text("--crop is %d,%d,%d,%d, expected a rectangle inside the frame, %s", crop_[0], crop_[1],
                               crop_[2], crop_[3], sizeText(whole).c_str()));
    return true;
}

// Goes to the next frame of read().
bool Source::step() {
    from_ahead_ = taken_ < ahead_.size();
    if (from_ahead_) {
        seconds_ = ahead_[taken_++].seconds;
    } else if (waiting_) {
        waiting_ = false;
        seconds_ = last_;
    } else if (problem_) {
        std::rethrow_exception(problem_);
    } else if (ended_ || !decoding_([&] { return advance(seconds_); })) {
        ended_ = true;
        return false;
    }
    const FrameSize now = fetchedSize();
    if (!(now == size_) && !any_size_)
        throw Stop(INPUT, name_ + ": frame " + std::to_string(delivered_ + 1) + " is " + sizeText(now) + ", expected " +
                              sizeText(size_) + " like the " + std::to_string(delivered_) + " before it");
    ++delivered_;
    return true;
}

FrameSize Source::fetchedSize() const {
    if (from_ahead_)
        return {ahead_[taken_ - 1].frame.cols(), ahead_[taken_ - 1].frame.rows()};
    return crop_[2] ? size_ : sizeNow();
}

// The frame of the last step(), or of the last advance().
void Source::fetch(cusMat &frame, cusSpace space) {
    if (from_ahead_) {
        cusight::Matrix &made = ahead_[taken_ - 1].frame;
        check(space == CUS_DEVICE ? cusMatUpload(&made.get(), &frame, nullptr) : cusMatCopy(&made.get(), &frame, nullptr));
        made.release();
    } else if (crop_[2]) {
        get(whole_.get(), space);
        const cusMat part = whole_.region(crop_[0], crop_[1], crop_[2], crop_[3]);
        check(cusMatCopy(&part, &frame, nullptr));
    } else {
        get(frame, space);
    }
}

bool Source::read(cusMat &frame, cusSpace space) {
    if (!step())
        return false;
    decoding_([&] { fetch(frame, space); });
    return true;
}

void figureInput(const Source &source) {
    const FrameSize size = source.size();
    figure("input", {{"input", source.name()}, {"width", size.width}, {"height", size.height}}, "%s, %d x %d",
           source.name().c_str(), size.width, size.height);
}

void chooseDecoder(Input &input, const Device &device) {
    const bool cuda = device.space == CUS_DEVICE;
    input.gpu = input.decoder == "cuda" || (input.decoder == "auto" && cuda) ? device.index : -1;
}

std::unique_ptr<Source> openSource(const Input &input) {
    std::unique_ptr<Source> source;
    if (input.names.size() == 1)
        source = open(input.names.front(), input);
    else if (!(source = openList(nameOf(input.names), input.names)))
        source = std::make_unique<Several>(input);
    source->start(input);
    return source;
}

std::unique_ptr<Source> openSource(const std::string &name) {
    Input input;
    input.names = {name};
    return openSource(input);
}

} // namespace sample
