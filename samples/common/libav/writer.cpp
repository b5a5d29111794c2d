#include "common/libav/writer.hpp"

#include "common/channel.hpp"
#include "common/libav/libav.hpp"
#include "common/output.hpp"
#include "common/values.hpp"

#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>

extern "C" {
#include <libavutil/opt.h>
}

namespace av {

using sample::Encoding;
using sample::OutputFile;
using sample::Playback;
using sample::Stop;

namespace {

constexpr int OUTPUT_BUFFER = 1 << 20;
constexpr size_t WAITING = 3; // pictures between the program and the encoder
const AVRational FINE = {1, 90000};
const char *const PRESET = "veryfast"; // a third of the time of libx264's own, for files a few percent larger

using Words = std::vector<const char *>;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
using Bytes = const uint8_t;
#else
using Bytes = uint8_t;
#endif

struct Format {
    const char *ending, *muxer;
    Words encoders; // in order of preference
    bool constant;  // pictures have numbers instead of times
};
const std::vector<Format> FORMATS = {{".mp4", "mp4", {"libx264", "libopenh264", "mpeg4"}, false},
                                     {".mkv", "matroska", {"libx264", "libopenh264", "mpeg4"}, false},
                                     {".mov", "mov", {"libx264", "libopenh264", "mpeg4"}, false},
                                     {".webm", "webm", {"libvpx", "libvpx-vp9", "libsvtav1"}, false},
                                     {".avi", "avi", {"mjpeg"}, true},
                                     {".y4m", "yuv4mpegpipe", {"wrapped_avframe"}, true}};

struct Name {
    const char *name;
    Words encoders;
};
const std::vector<Name> CODECS = {{"h264", {"libx264", "libopenh264"}},
                                  {"hevc", {"libx265"}},
                                  {"av1", {"libsvtav1", "libaom-av1", "librav1e"}},
                                  {"vp8", {"libvpx"}},
                                  {"vp9", {"libvpx-vp9"}},
                                  {"mpeg4", {"mpeg4"}},
                                  {"mjpeg", {"mjpeg"}},
                                  {"ffv1", {"ffv1"}},
                                  {"hardware", {"h264_nvenc", "h264_qsv", "h264_amf", "h264_v4l2m2m"}}};

const Format *formatOf(const std::string &path) {
    const std::string type = sample::ending(path);
    const auto found = std::find_if(FORMATS.begin(), FORMATS.end(), [&](const Format &f) { return type == f.ending; });
    return found == FORMATS.end() ? nullptr : &*found;
}

// The formats of pictures that an encoder takes.
std::vector<AVPixelFormat> pixelFormats(const AVCodec &encoder) {
    const AVPixelFormat *list = nullptr;
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const void *all = nullptr;
    avcodec_get_supported_config(nullptr, &encoder, AV_CODEC_CONFIG_PIX_FORMAT, 0, &all, nullptr);
    list = static_cast<const AVPixelFormat *>(all);
#else
    list = encoder.pix_fmts;
#endif
    std::vector<AVPixelFormat> formats;
    for (; list && *list != AV_PIX_FMT_NONE; ++list)
        formats.push_back(*list);
    return formats;
}

// NULL if there is none of that name.
const AVCodec *videoEncoder(const std::string &name) {
    void *state = nullptr;
    while (const AVCodec *const each = av_codec_iterate(&state))
        if (av_codec_is_encoder(each) && each->type == AVMEDIA_TYPE_VIDEO && sample::sameName(each->name, name))
            return each;
    return nullptr;
}

// 4:2:0, which every player shows; all of the color for a codec without loss, and for one row or column, whose half
// libavcodec 60 leaves out. NONE: the encoder takes neither.
AVPixelFormat chooseFormat(const AVCodec &encoder, cv::Size size) {
    const std::vector<AVPixelFormat> formats = pixelFormats(encoder);
    if (formats.empty()) // any
        return AV_PIX_FMT_YUV420P;
    const bool thin = size.width == 1 || size.height == 1;
    const AVPixelFormat best = encoder.id == AV_CODEC_ID_FFV1    ? AV_PIX_FMT_BGR0
                               : encoder.id == AV_CODEC_ID_MJPEG ? (thin ? AV_PIX_FMT_YUVJ444P : AV_PIX_FMT_YUVJ420P)
                                                                 : AV_PIX_FMT_YUV420P;
    for (const AVPixelFormat wanted : {best, AV_PIX_FMT_YUV420P, AV_PIX_FMT_NV12})
        if (std::find(formats.begin(), formats.end(), wanted) != formats.end())
            return wanted;
    return AV_PIX_FMT_NONE;
}

bool hasOption(const AVCodec &encoder, const char *name) {
    const AVClass *group = encoder.priv_class;
    return group && av_opt_find(&group, name, nullptr, 0, AV_OPT_SEARCH_FAKE_OBJ);
}

bool isOneOf(const AVCodec &encoder, const Words &names) {
    return std::find(names.begin(), names.end(), std::string(encoder.name)) != names.end();
}

class Video final : public sample::Sink {
  public:
    Video(const std::string &path, cv::Size size, const Playback &playback, const Encoding &encoding);
    ~Video() override;

    bool write(const cv::Mat &picture) override { return writeAt(picture, static_cast<double>(given_) / playback_.fps); }
    bool writeAt(const cv::Mat &picture, double seconds) override;
    void finish() override;
    std::string name() const override { return sample::isStandard(path_) ? "stdout" : path_; }

  private:
    struct Item {
        cv::Mat picture; // with a row and a column more, which sws_scale may read
        int64_t at = 0;  // in units of tick_
    };

    void openEncoder(const Format &format);
    void open(const AVCodec &encoder);
    void setQuality(const AVCodec &encoder, Options &options);
    void openFile(const Format &format, const AVCodecParameters *recorded = nullptr);
    void remux();
    int64_t timeOf(double seconds);
    void serve();
    void stop();
    void encode(const Item &item);
    void convert(const cv::Mat &picture);
    void send(AVFrame *frame);
    void writePacket();
    void check(int result) const;
    static int onWrite(void *self, Bytes *bytes, int count);
    static int64_t onSeek(void *self, int64_t offset, int whence);

    const std::string path_;
    const Playback playback_;
    const Encoding encoding_;
    const Format &format_;
    const cv::Size size_;
    cv::Size kept_; // what is encoded of it
    AVRational rate_, tick_;
    bool constant_;
    const char *part_ = ""; // the ending of a recording's file until it is complete
    double first_ = 0;      // the time of the first picture
    long long given_ = 0;   // pictures
    int64_t next_ = 0;      // the earliest time of the next picture

    std::unique_ptr<OutputFile> file_;
    std::exception_ptr file_error_;
    Io io_;
    AVFormatContext *muxer_ = nullptr;
    AVStream *stream_ = nullptr;
    Codec codec_;
    Scaler scaler_;
    Packet packet_;
    Frame frame_;
    int64_t sent_ = 0; // the time after the last picture that the encoder has got

    sample::Channel<Item> empty_{WAITING}, filled_{WAITING};
    std::exception_ptr error_; // of the thread; set before empty_ is closed
    std::thread thread_;
};

Video::Video(const std::string &path, cv::Size size, const Playback &playback, const Encoding &encoding)
    : path_(path), playback_(playback), encoding_(encoding), format_(*formatOf(path)), size_(size), kept_(size),
      packet_(allocated(av_packet_alloc())), frame_(allocated(av_frame_alloc())) {
    keepMessages();
    ::setenv("SVT_LOG", "0", 0); // of libsvtav1, which does not print by libav
    const Format &format = format_;
    if (!format.constant) { // H.264 and others take only whole blocks of 2 x 2 pixels, which share their chroma
        kept_ = cv::Size(size.width & ~1, size.height & ~1);
        if (kept_.empty())
            sample::cannotWrite(path, "a video must have at least 2 x 2 pixels; .y4m, .avi and pictures may be smaller");
    }
    constant_ = format.constant || encoding.fps > 0 || !playback.timed;
    const double grid = constant_ && playback.grid > 0 ? playback.grid : playback.fps;
    rate_ = av_d2q(encoding.fps > 0 ? encoding.fps : grid, 60000);
    const AVRational source = {playback.tick_num, playback.tick_den};
    tick_ = constant_ ? av_inv_q(rate_) : source.num > 0 && source.den > 0 ? source : FINE;
    // Matroska, which counts milliseconds, plays up to where it breaks off, and so do .avi and .y4m, which need nothing at their start.
    const bool streams = (av_guess_format(format.muxer, nullptr, nullptr)->flags & AVFMT_GLOBALHEADER) == 0;
    if (playback.recording && (streams || av_q2d(rate_) <= 500))
        part_ = streams ? format.ending : ".mkv";
    file_ = std::make_unique<OutputFile>(path, part_);
    if (file_->inPlace())
        part_ = "";
    const Format &first = *part_ ? *formatOf(file_->temporary()) : format;
    if (*part_ && !constant_)
        tick_ = {1, 1000};
    try {
        check(avformat_alloc_output_context2(&muxer_, nullptr, first.muxer, nullptr));
        openEncoder(format);
        openFile(first);
        for (size_t i = 0; i < WAITING; ++i)
            empty_.push({cv::Mat(size.height + 1, size.width + 1, CV_8UC3), 0});
        thread_ = std::thread([this] { serve(); });
    } catch (...) {
        file_->discard();
        avformat_free_context(muxer_);
        throw;
    }
}

Video::~Video() {
    stop();
    if (file_ && given_ == 0)
        file_->discard();
    avformat_free_context(muxer_);
}

// ---- The encoder and the file ------------------------------------------------------------------------------------------

void Video::openEncoder(const Format &format) {
    const bool chosen = encoding_.codec != "auto";
    const auto name = std::find_if(CODECS.begin(), CODECS.end(),
                                   [this](const Name &n) { return sample::sameName(encoding_.codec, n.name); });
    const Words encoders = !chosen                ? format.encoders
                           : name != CODECS.end() ? name->encoders
                                                  : Words{encoding_.codec.c_str()};
    if (chosen && encoders.front() != format.encoders.front() && format.ending == std::string(".y4m"))
        throw Stop(sample::USAGE, "--codec is '" + encoding_.codec + "', expected auto: .y4m is not compressed");
    std::string why;
    for (const char *each : encoders) {
        const AVCodec *const encoder = videoEncoder(each);
        if (!encoder) {
            why += (why.empty() ? "" : "; ") + std::string("libavcodec has no ") + each;
            continue;
        }
        if (avformat_query_codec(av_guess_format(format.muxer, nullptr, nullptr), encoder->id, FF_COMPLIANCE_NORMAL) == 0)
            throw Stop(sample::USAGE,
                       "--codec is '" + encoding_.codec + "', which does not go into " + format.ending + " files");
        try {
            return open(*encoder);
        } catch (const std::runtime_error &error) {
            why += (why.empty() ? "" : "; ") + std::string(each) + ": " + error.what();
        }
    }
    if (chosen && name == CODECS.end() && !videoEncoder(encoding_.codec))
        throw Stop(sample::USAGE, "--codec is '" + encoding_.codec + "', expected " + sample::join(codecNames(), ", ") +
                                      " or the name of a video encoder of libavcodec, such as hevc_nvenc");
    if (chosen || encoding_.crf || !encoding_.preset.empty())
        throw Stop(sample::USAGE, path_ + " cannot be encoded as --codec, --crf and --preset say: " + why);
    sample::cannotWrite(
        path_, sample::text("no encoder for %s at %d x %d: %s", format.ending, size_.width, size_.height, why.c_str()));
}

// Throws std::runtime_error with the reason.
void Video::open(const AVCodec &encoder) {
    messages();
    codec_.reset(allocated(avcodec_alloc_context3(&encoder)));
    codec_->pix_fmt = chooseFormat(encoder, kept_);
    if (codec_->pix_fmt == AV_PIX_FMT_NONE)
        throw std::runtime_error("it takes no pictures in 4:2:0 from the host's memory");
    codec_->width = kept_.width;
    codec_->height = kept_.height;
    codec_->time_base = encoder.id == AV_CODEC_ID_MPEG4 && tick_.den > 65535 ? AVRational{1, 60000} : tick_;
    codec_->framerate = rate_;
    codec_->thread_count = 0;
    const bool rgb = codec_->pix_fmt == AV_PIX_FMT_BGR0;
    codec_->colorspace = rgb ? AVCOL_SPC_RGB : AVCOL_SPC_SMPTE170M; // BT.601, which is what readers of pipes assume
    codec_->color_range = rgb || encoder.id == AV_CODEC_ID_MJPEG ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    if (muxer_->oformat->flags & AVFMT_GLOBALHEADER)
        codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (*part_)
        codec_->max_b_frames = 0; // which wait for later frames
    Options options;
    setQuality(encoder, options);
    const int result = avcodec_open2(codec_.get(), &encoder, &options.list);
    if (result < 0) {
        const std::string said = messages(), why = said.empty() ? reason(result) : said;
        const bool hardware = (encoder.capabilities & (AV_CODEC_CAP_HARDWARE | AV_CODEC_CAP_HYBRID)) != 0;
        throw std::runtime_error(hardware ? "no hardware or driver for it here (" + why + ")" : why);
    }
    tick_ = codec_->time_base;
}

void Video::setQuality(const AVCodec &encoder, Options &options) {
    const bool x26 = isOneOf(encoder, {"libx264", "libx265"}), vpx = isOneOf(encoder, {"libvpx", "libvpx-vp9"});
    if (!encoding_.preset.empty() && !hasOption(encoder, "preset"))
        throw std::runtime_error("it has no --preset");
    if (x26 || !encoding_.preset.empty())
        options.set("preset", encoding_.preset.empty() ? PRESET : encoding_.preset);
    std::optional<double> quality = encoding_.crf;
    if (!quality && vpx)
        quality = 20;
    else if (!quality && isOneOf(encoder, {"mpeg4", "mjpeg"}))
        quality = 3;
    const char *const scale = hasOption(encoder, "crf") ? "crf" : hasOption(encoder, "cq") ? "cq" : nullptr;
    if (quality && scale) {
        options.set(scale, sample::text("%g", *quality));
    } else if (quality) {
        codec_->flags |= AV_CODEC_FLAG_QSCALE;
        codec_->global_quality = static_cast<int>(std::lround(*quality * FF_QP2LAMBDA));
    }
    // The limit that VP8 needs; the rate of encoders that know no quality.
    const double bits_per_pixel = isOneOf(encoder, {"libvpx"})                  ? 1
                                  : quality || x26 || hasOption(encoder, "crf") ? 0
                                                                                : 0.125;
    codec_->bit_rate = static_cast<int64_t>(std::min(1e9, bits_per_pixel * kept_.area() * av_q2d(rate_)));
    if (isOneOf(encoder, {"libx265"})) // it does not print by libav
        options.set("x265-params", "log-level=none");
    if (vpx) { // as fast as the others
        options.set("deadline", "realtime");
        options.set("cpu-used", "6");
    }
}

// recorded: what the packets of a recording are, if it is their container that is opened.
void Video::openFile(const Format &format, const AVCodecParameters *recorded) {
    auto *const buffer = static_cast<unsigned char *>(allocated(av_malloc(OUTPUT_BUFFER)));
    const bool seekable = !file_->inPlace();
    io_.reset(allocated(avio_alloc_context(buffer, OUTPUT_BUFFER, 1, this, nullptr, onWrite, seekable ? onSeek : nullptr)));
    muxer_->pb = io_.get();
    muxer_->flags |= seekable ? AVFMT_FLAG_CUSTOM_IO : AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_FLUSH_PACKETS;
    stream_ = allocated(avformat_new_stream(muxer_, nullptr));
    check(recorded ? avcodec_parameters_copy(stream_->codecpar, recorded)
                   : avcodec_parameters_from_context(stream_->codecpar, codec_.get()));
    stream_->codecpar->codec_tag = 0;
    stream_->time_base = tick_;
    if (constant_ || playback_.steady)
        stream_->avg_frame_rate = rate_;
    const bool mov = format.ending == std::string(".mp4") || format.ending == std::string(".mov");
    if (mov && codec_->codec_id == AV_CODEC_ID_HEVC)
        stream_->codecpar->codec_tag = MKTAG('h', 'v', 'c', '1'); // browsers and Apple's players want it
    Options options;
    if (mov && !seekable)
        options.set("movflags", "frag_keyframe+empty_moov+default_base_moof");
    if (*part_) { // what is written is soon in the file, and can be read
        muxer_->flags |= AVFMT_FLAG_FLUSH_PACKETS;
        options.set("cluster_time_limit", "1000");
    }
    check(avformat_write_header(muxer_, &options.list));
    avio_flush(io_.get()); // a full disk is noticed at once
    check(io_->error);
}

int Video::onWrite(void *self, Bytes *bytes, int count) {
    auto *const video = static_cast<Video *>(self);
    try {
        video->file_->write(bytes, static_cast<size_t>(count));
        video->file_->flush();
        return count;
    } catch (...) {
        video->file_error_ = std::current_exception();
        return AVERROR(EIO);
    }
}

int64_t Video::onSeek(void *self, int64_t offset, int whence) {
    auto *const video = static_cast<Video *>(self);
    try {
        return whence & AVSEEK_SIZE ? AVERROR(ENOSYS) : video->file_->seek(offset, whence);
    } catch (...) {
        video->file_error_ = std::current_exception();
        return AVERROR(EIO);
    }
}

void Video::check(int result) const {
    if (file_error_)
        std::rethrow_exception(file_error_);
    if (result < 0)
        sample::cannotWrite(path_, reason(result));
}

// ---- The program's thread ----------------------------------------------------------------------------------------------

// When a picture is shown; -1: never, since at this rate there is one for its time already.
int64_t Video::timeOf(double seconds) {
    if (!playback_.timed)
        return given_;
    if (given_ == 0)
        first_ = seconds;
    const int64_t at = std::llround((seconds - first_) / av_q2d(tick_));
    return at >= next_ ? at : constant_ ? -1 : next_;
}

bool Video::writeAt(const cv::Mat &picture, double seconds) {
    if (picture.size() != size_)
        throw Stop(sample::USAGE,
                   sample::text("%s: a picture is %d x %d and the first one %d x %d, but a video has one size: "
                                "expected a folder, with / at the end",
                                path_.c_str(), picture.cols, picture.rows, size_.width, size_.height));
    const int64_t at = timeOf(seconds);
    ++given_;
    if (at < 0)
        return true;
    next_ = at + 1;
    Item item;
    if (!empty_.pop(item))
        std::rethrow_exception(error_);
    cv::Mat copy = item.picture(cv::Rect({0, 0}, size_));
    if (picture.channels() == 1)
        cv::cvtColor(picture, copy, cv::COLOR_GRAY2BGR);
    else
        picture.copyTo(copy);
    if (size_.width % 2) // the last column shares its chroma with the one beyond
        copy.col(size_.width - 1).copyTo(item.picture.col(size_.width).rowRange(0, size_.height));
    item.at = at;
    filled_.push(item);
    return true;
}

void Video::stop() {
    filled_.close();
    if (thread_.joinable())
        thread_.join();
}

void Video::finish() {
    if (!file_)
        return;
    stop();
    if (error_)
        std::rethrow_exception(error_);
    if (given_ > 0) {
        send(nullptr);
        check(av_write_trailer(muxer_));
        avio_flush(io_.get());
        check(io_->error);
        if (*part_ && format_.ending != std::string(part_))
            remux();
        else
            file_->commit();
    }
    file_->discard();
    file_.reset();
}

// Moves the packets of a recording to the container that was asked for.
void Video::remux() {
    const sample::Finishing guard;
    const std::unique_ptr<OutputFile> part = std::exchange(file_, std::make_unique<OutputFile>(path_));
    part_ = "";
    struct Input {
        AVFormatContext *context = nullptr;
        ~Input() { avformat_close_input(&context); }
    } input;
    check(avformat_open_input(&input.context, ("file:" + part->temporary()).c_str(), av_find_input_format("matroska"),
                              nullptr));
    check(avformat_find_stream_info(input.context, nullptr));
    avformat_free_context(std::exchange(muxer_, nullptr));
    check(avformat_alloc_output_context2(&muxer_, nullptr, format_.muxer, nullptr));
    openFile(format_, input.context->streams[0]->codecpar);
    int result = 0;
    while ((result = av_read_frame(input.context, packet_.get())) >= 0) {
        packet_->dts = packet_->dts == AV_NOPTS_VALUE ? packet_->pts : packet_->dts;
        av_packet_rescale_ts(packet_.get(), input.context->streams[0]->time_base, tick_);
        writePacket();
    }
    check(result == AVERROR_EOF ? 0 : result);
    check(av_write_trailer(muxer_));
    avio_flush(io_.get());
    check(io_->error);
    file_->commit();
    part->discard();
}

// ---- The encoder's thread ----------------------------------------------------------------------------------------------

void Video::serve() {
    try {
        Item item;
        while (filled_.pop(item)) {
            encode(item);
            empty_.push(item);
        }
    } catch (...) {
        error_ = std::current_exception();
        filled_.close();
        empty_.close();
    }
}

void Video::encode(const Item &item) {
    for (; constant_ && sent_ > 0 && sent_ < item.at; ++sent_) { // the picture before fills the gap
        frame_->pts = sent_;
        send(frame_.get());
    }
    convert(item.picture(cv::Rect({0, 0}, kept_)));
    frame_->pts = item.at;
    sent_ = item.at + 1;
    send(frame_.get());
}

// Fills frame_.
void Video::convert(const cv::Mat &picture) {
    if (!frame_->data[0] || !av_frame_is_writable(frame_.get())) { // the encoder keeps it
        av_frame_unref(frame_.get());
        frame_->format = codec_->pix_fmt;
        frame_->width = kept_.width;
        frame_->height = kept_.height;
        frame_->colorspace = codec_->colorspace;
        frame_->color_range = codec_->color_range;
        check(av_frame_get_buffer(frame_.get(), 0));
    }
    if (!scaler_) {
        // Otherwise libswscale 5 leaves the chroma of an odd last column as it is in memory.
        const int flags = SWS_BICUBIC | (kept_.width % 2 ? SWS_ACCURATE_RND : 0);
        scaler_.reset(allocated(sws_getContext(kept_.width, kept_.height, AV_PIX_FMT_BGR24, kept_.width, kept_.height,
                                               codec_->pix_fmt, flags, nullptr, nullptr, nullptr)));
        const int *const bt601 = sws_getCoefficients(SWS_CS_DEFAULT);
        sws_setColorspaceDetails(scaler_.get(), bt601, 1, bt601, codec_->color_range == AVCOL_RANGE_JPEG, 0, 1 << 16,
                                 1 << 16);
    }
    const uint8_t *const rows[] = {picture.data};
    const int steps[] = {static_cast<int>(picture.step)};
    sws_scale(scaler_.get(), rows, steps, 0, kept_.height, frame_->data, frame_->linesize);
}

// Encodes a frame, or with nullptr what is left, and writes what is ready.
void Video::send(AVFrame *frame) {
    check(avcodec_send_frame(codec_.get(), frame));
    for (;;) {
        const int result = avcodec_receive_packet(codec_.get(), packet_.get());
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF)
            return;
        check(result);
        writePacket();
    }
}

// Writes packet_, whose times are in units of tick_.
void Video::writePacket() {
    if (packet_->duration == 0)
        packet_->duration = std::max<int64_t>(1, std::llround(1 / av_q2d(rate_) / av_q2d(tick_)));
    packet_->stream_index = stream_->index;
    av_packet_rescale_ts(packet_.get(), tick_, stream_->time_base);
    const int written = av_write_frame(muxer_, packet_.get());
    av_packet_unref(packet_.get());
    check(written);
}

} // namespace

const std::vector<std::string> &videoEndings() {
    static const std::vector<std::string> endings = [] {
        std::vector<std::string> all;
        all.reserve(FORMATS.size());
        for (const Format &format : FORMATS)
            all.emplace_back(format.ending);
        return all;
    }();
    return endings;
}

std::vector<std::string> codecNames() {
    std::vector<std::string> all;
    all.reserve(std::size(CODECS));
    for (const Name &name : CODECS)
        all.emplace_back(name.name);
    return all;
}

std::unique_ptr<sample::Sink> openVideo(const std::string &path, cv::Size size, const sample::Playback &playback,
                                        const sample::Encoding &encoding) {
    return std::make_unique<Video>(path, size, playback, encoding);
}

} // namespace av
