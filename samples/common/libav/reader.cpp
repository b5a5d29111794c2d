#include "common/libav/reader.hpp"

#include "common/terminal/report.hpp"
#include "cusight/video.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

extern "C" {
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>
}

namespace av {

namespace {

constexpr int BUFFER = 64 * 1024;
constexpr auto PATIENCE = std::chrono::seconds(30);

// The demuxers that may read an input: of videos, and of pictures whose names do not tell. None of these opens other files. Those of
// text, of game files and so on are never chosen, whatever a file looks like.
const std::string DEMUXERS =
    "mov,matroska,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,vvc,av1,obu,ivf,flv,live_flv,asf,yuv4mpegpipe,"
    "ogg,mxf,nut,dv,rm,wtv,vc1,mjpeg,mpjpeg,gif,apng,jpeg_pipe,png_pipe,webp_pipe,bmp_pipe,tiff_pipe";
// More of them from the network, which lead to other addresses, and the protocols by which those are reached.
const std::string NETWORK_DEMUXERS = DEMUXERS + ",rtsp,rtp,sdp,hls,dash";
const char *const NETWORK_PROTOCOLS =
    "http,https,httpproxy,tls,tcp,udp,rtp,srtp,rtmp,rtmps,rtmpt,rtmpts,rtmpe,rtmpte,ffrtmphttp,"
    "ffrtmpcrypt,srt,ftp,crypto";

constexpr int64_t MAX_COPY = int64_t{4} << 30;

// How to read from a web server: with requests for ranges, without them, and by way of a temporary copy.
enum class Web { RANGES, STREAM, COPY };

bool isValid(AVRational rate) {
    return rate.num > 0 && rate.den > 0;
}

// How to turn pictures upright; -1: not at all. Phones store what the sensor saw, and how they were held.
int rotationOf(const AVStream &stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    const AVPacketSideData *const data = av_packet_side_data_get(
        stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    const uint8_t *const matrix = data ? data->data : nullptr;
#else
    const uint8_t *const matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
#endif
    if (!matrix)
        return -1;
    const double clockwise = -av_display_rotation_get(reinterpret_cast<const int32_t *>(matrix));
    const long quarters = std::isfinite(clockwise) ? (std::lround(clockwise / 90) + 4) % 4 : 0;
    return quarters == 1   ? cv::ROTATE_90_CLOCKWISE
           : quarters == 2 ? cv::ROTATE_180
           : quarters == 3 ? cv::ROTATE_90_COUNTERCLOCKWISE
                           : -1;
}

// Whether sws_scale may write to these rows: it writes whole blocks, beyond the end of a row.
bool isAligned(const cv::Mat &m) {
    return m.cols % 64 == 0 && m.step % 64 == 0 && reinterpret_cast<uintptr_t>(m.data) % 64 == 0;
}

// How a picture's planes are taken by the library.
struct Planes {
    int depth, channels; // channels: of a plane of chroma; 0: the library does not take such pictures
    bool low_bits;
};

// NV12, P010, yuv420p and yuv420p10, by what libavutil says of them: they have other names where the range is full.
Planes planesOf(const AVFrame &f) {
    const AVPixFmtDescriptor *const d = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(f.format));
    if (!d || d->nb_components != 3 || d->log2_chroma_w != 1 || d->log2_chroma_h != 1 ||
        (d->flags & ~uint64_t{AV_PIX_FMT_FLAG_PLANAR}) || (d->comp[0].depth != 8 && d->comp[0].depth != 10))
        return {};
    const int bytes = d->comp[0].depth == 8 ? 1 : 2, channels = d->comp[1].step / bytes;
    if (d->comp[0].step != bytes || d->comp[2].plane != 3 - channels || d->comp[1].offset ||
        *std::min_element(f.linesize, f.linesize + 3) < 0)
        return {};
    return {bytes == 1 ? CUS_8U : CUS_16U, channels, bytes == 2 && d->comp[0].shift == 0};
}

// Sets the matrix and the place of chroma. Returns false for those that the library does not have.
bool describe(const AVFrame &f, cusYuvOptions &options) {
    switch (f.colorspace) {
    case AVCOL_SPC_UNSPECIFIED: // as libswscale
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M:
        options.matrix = CUS_YUV_BT601;
        break;
    case AVCOL_SPC_BT709:
        options.matrix = CUS_YUV_BT709;
        break;
    case AVCOL_SPC_BT2020_NCL:
        options.matrix = CUS_YUV_BT2020;
        break;
    default:
        return false;
    }
    if (f.chroma_location > AVCHROMA_LOC_TOP)
        return false;
    options.siting = static_cast<cusYuvSiting>(std::max<int>(f.chroma_location - AVCHROMA_LOC_LEFT, 0)); // in one order
    return true;
}

} // namespace

Reader::Reader() : packet_(allocated(av_packet_alloc())), frame_(allocated(av_frame_alloc())) {
    keepMessages();
    format_ = allocated(avformat_alloc_context());
}

Reader::~Reader() {
    avformat_close_input(&format_);
}

std::unique_ptr<Reader> Reader::file(const std::string &path) {
    std::unique_ptr<Reader> reader(new Reader);
    Options options;
    options.set("protocol_whitelist", "file"); // a file that names others does not reach the network
    options.set("format_whitelist", DEMUXERS);
    reader->open("file:" + path, options);
    return reader;
}

std::unique_ptr<Reader> Reader::network(const std::string &url, const std::function<bool()> &interrupted) {
    const bool web = url.compare(0, 7, "http://") == 0 || url.compare(0, 8, "https://") == 0;
    std::exception_ptr first;
    // Some servers refuse requests for a range. If they ignore them, a video whose index is at its end needs a copy.
    for (const Web way : {Web::RANGES, Web::STREAM, Web::COPY}) {
        std::unique_ptr<Reader> reader(new Reader);
        reader->interrupted_ = interrupted;
        reader->format_->interrupt_callback = {onWait, reader.get()};
        Options options;
        options.set("protocol_whitelist", NETWORK_PROTOCOLS);
        if (way != Web::RANGES)
            options.set("seekable", "0");
        try {
            if (way == Web::COPY)
                return reader->copy(url, options);
            options.set("rtsp_flags", "prefer_tcp");
            options.set("format_whitelist", NETWORK_DEMUXERS);
            reader->open(url, options);
            if (!web || (reader->waiting_ = reader->decode()) || interrupted())
                return reader;
        } catch (const OpenError &error) {
            first = first ? first : std::current_exception();
            if (!web || way == Web::COPY || !error.another_way || interrupted())
                std::rethrow_exception(first);
        }
    }
    return nullptr; // not reached
}

// A reader of a temporary file with all that the server sends.
std::unique_ptr<Reader> Reader::copy(const std::string &url, Options &options) {
    deadline_ = Clock::now() + PATIENCE;
    AVIOContext *server = nullptr;
    int64_t result = avio_open2(&server, url.c_str(), AVIO_FLAG_READ, &format_->interrupt_callback, &options.list);
    if (result < 0)
        throw OpenError(reason(static_cast<int>(result)));
    const std::unique_ptr<AVIOContext, int (*)(AVIOContext *)> guard(server, avio_close);
    Temporary file(std::tmpfile(), std::fclose);
    std::vector<unsigned char> piece(BUFFER);
    sample::note("%s: the server sends no parts of it, so it is copied to a temporary file first", url.c_str());
    for (int64_t all = 0; file && (result = avio_read(server, piece.data(), BUFFER)) > 0 && all <= MAX_COPY;
         all += result) {
        deadline_ = Clock::now() + PATIENCE;
        if (std::fwrite(piece.data(), 1, static_cast<size_t>(result), file.get()) != static_cast<size_t>(result))
            file.reset();
    }
    if (!file || std::fflush(file.get()) != 0)
        throw OpenError(std::string("no temporary copy: ") + std::strerror(errno));
    if (result != AVERROR_EOF)
        throw OpenError(result > 0 ? "it has more than 4 GiB" : reason(static_cast<int>(result)));
    std::unique_ptr<Reader> reader = Reader::file("/proc/self/fd/" + std::to_string(::fileno(file.get())));
    reader->temporary_ = std::move(file);
    return reader;
}

std::unique_ptr<Reader> Reader::pipe(Read read) {
    std::unique_ptr<Reader> reader(new Reader);
    reader->read_ = std::move(read);
    auto *const buffer = static_cast<unsigned char *>(allocated(av_malloc(BUFFER)));
    reader->io_.reset(allocated(avio_alloc_context(buffer, BUFFER, 0, reader.get(), onRead, nullptr, nullptr)));
    reader->format_->pb = reader->io_.get();
    Options options;
    options.set("protocol_whitelist", "none");
    options.set("format_whitelist", DEMUXERS);
    reader->open("", options);
    return reader;
}

int Reader::onRead(void *self, uint8_t *buffer, int bytes) {
    auto *const reader = static_cast<Reader *>(self);
    try {
        const size_t got = reader->read_(reinterpret_cast<char *>(buffer), static_cast<size_t>(bytes));
        return got ? static_cast<int>(got) : AVERROR_EOF;
    } catch (...) {
        reader->read_error_ = std::current_exception();
        return AVERROR_EXIT;
    }
}

int Reader::onWait(void *self) {
    const auto *const reader = static_cast<Reader *>(self);
    return reader->interrupted_() || Clock::now() > reader->deadline_;
}

void Reader::open(const std::string &url, Options &options) {
    deadline_ = Clock::now() + PATIENCE;
    int result = avformat_open_input(&format_, url.c_str(), nullptr, &options.list);
    if (result >= 0)
        result = avformat_find_stream_info(format_, nullptr);
    if (read_error_)
        std::rethrow_exception(read_error_);
    if (result < 0) {
        const std::string why = result == AVERROR_EXIT ? "no answer" : reason(result);
        const bool other_format = why.find("not on whitelist") != std::string::npos;
        throw OpenError(other_format ? "it is not recognized as a video" : why,
                        result == AVERROR_INVALIDDATA || result == AVERROR_HTTP_BAD_REQUEST ||
                            result == AVERROR_HTTP_OTHER_4XX || result == AVERROR_HTTP_SERVER_ERROR);
    }
    openDecoder();
}

void Reader::openDecoder() {
    const AVCodec *decoder = nullptr;
    // The type of its last argument differs from version to version.
    const int best = av_find_best_stream(format_, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (best == AVERROR_STREAM_NOT_FOUND)
        throw OpenError("it contains no video stream");
    if (best < 0)
        throw OpenError(reason(best));
    stream_ = format_->streams[best];
    for (unsigned i = 0; i < format_->nb_streams; ++i)
        if (format_->streams[i] != stream_)
            format_->streams[i]->discard = AVDISCARD_ALL;
    decoder = avcodec_find_decoder(stream_->codecpar->codec_id);
    if (!decoder)
        throw OpenError(std::string("there is no decoder for ") + avcodec_get_name(stream_->codecpar->codec_id));
    codec_.reset(allocated(avcodec_alloc_context3(decoder)));
    int result = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    codec_->pkt_timebase = stream_->time_base;
    codec_->thread_count = 0;
    if (live()) { // threads by frames would delay each picture by as many
        codec_->thread_type = FF_THREAD_SLICE;
        codec_->flags |= AV_CODEC_FLAG_LOW_DELAY;
    }
    if (result >= 0)
        result = avcodec_open2(codec_.get(), decoder, nullptr);
    if (result < 0)
        throw OpenError(reason(result));
    rotation_ = rotationOf(*stream_);
}

double Reader::rate() const {
    const bool average = isValid(stream_->avg_frame_rate);
    const AVRational rate = average ? stream_->avg_frame_rate : stream_->r_frame_rate;
    if (!isValid(rate) || (!average && stream_->nb_frames == 0 && av_cmp_q(rate, {999, 1}) > 0)) // the unit of time
        return 0;
    return av_q2d(rate);
}

double Reader::grid() const {
    return isValid(stream_->r_frame_rate) ? av_q2d(stream_->r_frame_rate) : 0;
}

bool Reader::steady() const {
    return isValid(stream_->avg_frame_rate) && std::fabs(grid() / av_q2d(stream_->avg_frame_rate) - 1) < 1e-3;
}

AVRational Reader::tick() const {
    return stream_->time_base;
}

long long Reader::frames() const {
    if (live() || read_)
        return 0;
    if (stream_->nb_frames > 0)
        return stream_->nb_frames;
    const double seconds = stream_->duration != AV_NOPTS_VALUE
                               ? static_cast<double>(stream_->duration) * av_q2d(stream_->time_base)
                           : format_->duration != AV_NOPTS_VALUE ? static_cast<double>(format_->duration) / AV_TIME_BASE
                                                                 : 0;
    const double frames = seconds * rate();
    return frames >= 1 && frames < 1e9 ? std::llround(frames) : 0;
}

bool Reader::live() const {
    return interrupted_ && format_->duration <= 0;
}

bool Reader::hasSound() const {
    for (unsigned i = 0; i < format_->nb_streams; ++i)
        if (format_->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO)
            return true;
    return false;
}

// Decodes the next picture to frame_.
bool Reader::decode() {
    for (;;) {
        const int result = avcodec_receive_frame(codec_.get(), frame_.get());
        if (result == 0) {
            if (first_ == AV_NOPTS_VALUE)
                first_ = frame_->best_effort_timestamp;
            return true;
        }
        if (result == AVERROR_EOF || drained_)
            return false;
        if (result != AVERROR(EAGAIN))
            ++damaged_;
        deadline_ = Clock::now() + PATIENCE;
        const int got = av_read_frame(format_, packet_.get());
        if (got == AVERROR(EAGAIN))
            continue;
        drained_ = got < 0;
        if (drained_)
            avcodec_send_packet(codec_.get(), nullptr);
        else if (packet_->stream_index == stream_->index && avcodec_send_packet(codec_.get(), packet_.get()) < 0)
            ++damaged_;
        av_packet_unref(packet_.get());
    }
}

bool Reader::next(cv::Mat &frame, double &seconds) {
    if (!waiting_ && !decode()) {
        if (read_error_)
            std::rethrow_exception(read_error_);
        return false;
    }
    waiting_ = false;
    const int64_t at = frame_->best_effort_timestamp;
    seconds = at == AV_NOPTS_VALUE || first_ == AV_NOPTS_VALUE
                  ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(at - first_) * av_q2d(stream_->time_base);
    if (rotation_ < 0) {
        convert(frame);
    } else {
        convert(turned_);
        cv::rotate(turned_, frame, rotation_);
    }
    av_frame_unref(frame_.get());
    return true;
}

// frame_ as BGR.
void Reader::convert(cv::Mat &to) {
    to.create(frame_->height, frame_->width, CV_8UC3);
    if (!convertYuv(to))
        scale(to);
}

// frame_ by the library, whose colors are the same everywhere. Returns false if it does not take such pictures.
bool Reader::convertYuv(cv::Mat &to) {
    const AVFrame &f = *frame_;
    cusYuvOptions options = cusYuvDefaults();
    const Planes planes = planesOf(f);
    if (!planes.channels || !describe(f, options))
        return false;
    options.full_range = f.color_range == AVCOL_RANGE_JPEG;
    options.low_bits = planes.low_bits;
    cusMat y = CUS_MAT_INIT, chroma[2] = {CUS_MAT_INIT, CUS_MAT_INIT}, bgr = CUS_MAT_INIT;
    cusStatus status = cusMatWrap(&y, f.height, f.width, CUS_MAKETYPE(planes.depth, 1), CUS_HOST, f.data[0],
                                  static_cast<size_t>(f.linesize[0]));
    const int count = planes.channels == 2 ? 1 : 2;
    for (int i = 0; i < count && status == CUS_OK; ++i)
        status = cusMatWrap(&chroma[i], (f.height + 1) / 2, (f.width + 1) / 2, CUS_MAKETYPE(planes.depth, planes.channels),
                            CUS_HOST, f.data[i + 1], static_cast<size_t>(f.linesize[i + 1]));
    if (status == CUS_OK)
        status = cusMatWrap(&bgr, f.height, f.width, CUS_8UC3, CUS_HOST, to.data, to.step);
    if (status == CUS_OK)
        status = cusYuvToBgr(&y, &chroma[0], count == 2 ? &chroma[1] : nullptr, &options, &bgr, nullptr);
    return status == CUS_OK;
}

// frame_ by libswscale.
void Reader::scale(cv::Mat &to) {
    const AVFrame &f = *frame_;
    const int now[] = {f.width, f.height, f.format, f.colorspace, f.color_range};
    if (!scaler_ || !std::equal(now, now + 5, scaled_)) {
        std::copy(now, now + 5, scaled_);
        scaler_.reset(allocated(sws_getContext(f.width, f.height, static_cast<AVPixelFormat>(f.format), f.width, f.height,
                                               AV_PIX_FMT_BGR24, SWS_BICUBIC, nullptr, nullptr, nullptr)));
        // Fails for formats that have no such details. Unless the stream says otherwise, colors are those of BT.601.
        sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(f.colorspace), f.color_range == AVCOL_RANGE_JPEG,
                                 sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    }
    const bool direct = isAligned(to);
    if (!direct)
        padded_.create(f.height + 1, (f.width + 127) / 64 * 64, CV_8UC3);
    cv::Mat &target = direct ? to : padded_;
    uint8_t *const rows[] = {target.data};
    const int steps[] = {static_cast<int>(target.step)};
    sws_scale(scaler_.get(), f.data, f.linesize, 0, f.height, rows, steps);
    if (!direct)
        padded_(cv::Rect(0, 0, f.width, f.height)).copyTo(to);
}

bool Reader::seek(double seconds) {
    if (live() || read_)
        return false;
    if (first_ == AV_NOPTS_VALUE && !waiting_)
        waiting_ = decode();
    if (first_ == AV_NOPTS_VALUE)
        return false;
    const int64_t at = first_ + std::llround(seconds / av_q2d(stream_->time_base));
    if (avformat_seek_file(format_, stream_->index, std::numeric_limits<int64_t>::min(), at, at, 0) < 0)
        return false;
    avcodec_flush_buffers(codec_.get());
    av_frame_unref(frame_.get());
    waiting_ = drained_ = false;
    return true;
}

} // namespace av
