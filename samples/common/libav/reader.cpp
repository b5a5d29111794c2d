#include "common/libav/reader.hpp"

#include "common/app.hpp"
#include "common/libav/gpu.hpp"
#include "common/terminal/report.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

extern "C" {
#include <libavutil/display.h>
#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
}

namespace av {

using cusight::check;

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

// How many quarters to turn pictures clockwise. Phones store what the sensor saw, and how they were held.
int rotationOf(const AVStream &stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    const AVPacketSideData *const data = av_packet_side_data_get(
        stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    const uint8_t *const matrix = data ? data->data : nullptr;
#else
    const uint8_t *const matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
#endif
    if (!matrix)
        return 0;
    const double clockwise = -av_display_rotation_get(reinterpret_cast<const int32_t *>(matrix));
    return std::isfinite(clockwise) ? static_cast<int>((std::lround(clockwise / 90) + 4) % 4) : 0;
}

// `from` in host memory, 8UC3, turned clockwise. Tiles, since a column of one picture is a row of the other.
void turn(const cusMat &from, int quarters, const cusMat &to) {
    constexpr int TILE = 32;
    for (int top = 0; top < to.rows; top += TILE)
        for (int left = 0; left < to.cols; left += TILE)
            for (int y = top; y < std::min(top + TILE, to.rows); ++y) {
                auto *const row = static_cast<uint8_t *>(to.data) + static_cast<size_t>(y) * to.step;
                for (int x = left; x < std::min(left + TILE, to.cols); ++x) {
                    const int from_y = quarters == 1 ? from.rows - 1 - x : quarters == 2 ? from.rows - 1 - y : x;
                    const int from_x = quarters == 1 ? y : quarters == 2 ? from.cols - 1 - x : from.cols - 1 - y;
                    std::memcpy(row + 3 * static_cast<size_t>(x),
                                static_cast<const uint8_t *>(from.data) + static_cast<size_t>(from_y) * from.step +
                                    3 * static_cast<size_t>(from_x),
                                3);
                }
            }
}

// Whether sws_scale may write to these rows: it writes whole blocks, beyond the end of a row.
bool isAligned(const cusMat &m) {
    return m.cols % 64 == 0 && m.step % 64 == 0 && reinterpret_cast<uintptr_t>(m.data) % 64 == 0;
}

// How a picture's planes are taken by the library.
struct Planes {
    int depth, channels; // channels: of a plane of chroma; 0: the library does not take such pictures
    bool low_bits;
};

// Where the frame's planes lie.
cusSpace spaceOf(const AVFrame &f) {
    return f.format == AV_PIX_FMT_CUDA ? CUS_DEVICE : CUS_HOST;
}

// NV12, P010, yuv420p and yuv420p10, by what libavutil says of them: they have other names where the range is full.
Planes planesOf(const AVFrame &f) {
    const auto format = spaceOf(f) == CUS_DEVICE ? reinterpret_cast<AVHWFramesContext *>(f.hw_frames_ctx->data)->sw_format
                                                 : static_cast<AVPixelFormat>(f.format);
    const AVPixFmtDescriptor *const d = av_pix_fmt_desc_get(format);
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

// Why NVDEC would make other pictures than the CPU of what it takes; "" if it does not.
const char *differs(const AVCodecContext &codec) {
    const AVPixFmtDescriptor *const d = av_pix_fmt_desc_get(codec.sw_pix_fmt);
    if (d && d->log2_chroma_w == 1 && d->log2_chroma_h == 0)
        return "of 4:2:2 it drops every other row of chroma";
    return codec.coded_width % 2 || codec.coded_height % 2 ? "it decodes odd sizes in another way" : "";
}

} // namespace

Reader::Reader(Decoding decoding)
    : decoding_(std::move(decoding)), packet_(allocated(av_packet_alloc())), frame_(allocated(av_frame_alloc())) {
    keepMessages();
    format_ = allocated(avformat_alloc_context());
}

Reader::~Reader() {
    avformat_close_input(&format_);
}

std::unique_ptr<Reader> Reader::file(const std::string &path, const Decoding &decoding) {
    std::unique_ptr<Reader> reader(new Reader(decoding));
    Options options;
    options.set("protocol_whitelist", "file"); // a file that names others does not reach the network
    options.set("format_whitelist", DEMUXERS);
    reader->open("file:" + path, options);
    return reader;
}

std::unique_ptr<Reader> Reader::network(const std::string &url, const Decoding &decoding,
                                        const std::function<bool()> &interrupted) {
    const bool web = url.compare(0, 7, "http://") == 0 || url.compare(0, 8, "https://") == 0;
    std::exception_ptr first;
    // Some servers refuse requests for a range. If they ignore them, a video whose index is at its end needs a copy.
    for (const Web way : {Web::RANGES, Web::STREAM, Web::COPY}) {
        std::unique_ptr<Reader> reader(new Reader(decoding));
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
    std::unique_ptr<Reader> reader = Reader::file("/proc/self/fd/" + std::to_string(::fileno(file.get())), decoding_);
    reader->temporary_ = std::move(file);
    return reader;
}

std::unique_ptr<Reader> Reader::pipe(Read read, const Decoding &decoding) {
    std::unique_ptr<Reader> reader(new Reader(decoding));
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
    rotation_ = rotationOf(*stream_);
    if (decoding_.gpu >= 0 && openOnGpu())
        return;
    sayRefused();
    const AVCodec *const decoder = avcodec_find_decoder(stream_->codecpar->codec_id);
    if (!decoder)
        throw OpenError(std::string("there is no decoder for ") + avcodec_get_name(stream_->codecpar->codec_id));
    const int result = openCodec(decoder, nullptr);
    if (result < 0)
        throw OpenError(reason(result));
}

// device: null: on the CPU.
int Reader::openCodec(const AVCodec *decoder, AVBufferRef *device) {
    codec_.reset(allocated(avcodec_alloc_context3(decoder)));
    const int result = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    codec_->pkt_timebase = stream_->time_base;
    codec_->thread_count = device ? 1 : decoding_.threads;
    if (live()) { // threads by frames would delay each picture by as many
        codec_->thread_type = FF_THREAD_SLICE;
        codec_->flags |= AV_CODEC_FLAG_LOW_DELAY;
    }
    if (device) {
        codec_->hw_device_ctx = allocated(av_buffer_ref(device));
        codec_->opaque = this;
        codec_->get_format = onFormat;
        codec_->extra_hw_frames = 2; // frame_, and the one that is decoded meanwhile
    }
    return result < 0 ? result : avcodec_open2(codec_.get(), decoder, nullptr);
}

// Returns false, with refused_ set, if the GPU cannot decode the stream. Mostly that is known with its first picture: fallBack().
bool Reader::openOnGpu() {
    const AVCodec *const decoder = gpuDecoder(stream_->codecpar->codec_id);
    if (!decoder)
        refused_ =
            std::string("this libavcodec has no decoder on the GPU for ") + avcodec_get_name(stream_->codecpar->codec_id);
    else if (rotation_)
        refused_ = "its pictures have to be turned";
    const Buffer device = refused_.empty() ? gpuDevice(decoding_.gpu, refused_) : nullptr;
    const int result = device ? openCodec(decoder, device.get()) : -1;
    if (device && result < 0)
        refused_ = reason(result);
    return result >= 0;
}

// Chooses the format of the pictures. libavcodec asks again, without CUDA, if the GPU or its driver refuses.
AVPixelFormat Reader::onFormat(AVCodecContext *codec, const AVPixelFormat *offered) {
    std::string why = differs(*codec);
    for (const AVPixelFormat *format = offered; why.empty() && *format != AV_PIX_FMT_NONE; ++format)
        if (*format == AV_PIX_FMT_CUDA) {
            messages();
            return *format;
        }
    const char *const profile = avcodec_profile_name(codec->codec_id, codec->profile);
    const char *const format = av_get_pix_fmt_name(codec->sw_pix_fmt);
    why = why.empty() ? messages() : why;
    static_cast<Reader *>(codec->opaque)->refused_ = sample::text(
        "the GPU does not take %s %s, %s, %d x %d%s%s", avcodec_get_name(codec->codec_id), profile ? profile : "",
        format ? format : "", codec->width, codec->height, why.empty() ? "" : ": ", why.c_str());
    return AV_PIX_FMT_NONE;
}

void Reader::sayRefused() {
    if (!refused_.empty())
        sample::note("%s: decoded on the CPU: %s", decoding_.name.c_str(), std::exchange(refused_, {}).c_str());
}

// If the GPU has refused packet_, which it does with the first picture of a size, the CPU's decoder takes over with it. Returns
// false if it has not, or if that decoder fails, too.
bool Reader::fallBack(int error) {
    if (refused_.empty() && codec_->hw_device_ctx && first_ == AV_NOPTS_VALUE) // it has not decoded anything yet
        refused_ = "the GPU's decoder has failed: " + reason(error);
    if (refused_.empty())
        return false;
    sayRefused();
    const AVCodec *const decoder = avcodec_find_decoder(stream_->codecpar->codec_id);
    return decoder && openCodec(decoder, nullptr) >= 0 &&
           avcodec_send_packet(codec_.get(), drained_ ? nullptr : packet_.get()) >= 0;
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
            damaged_ += frame_->decode_error_flags != 0; // the decoder has made up what was missing
            return true;
        }
        if (result != AVERROR(EAGAIN) && result != AVERROR_EOF && fallBack(result))
            continue;
        if (result == AVERROR_EOF || (drained_ && result == AVERROR(EAGAIN)))
            return false;
        if (result != AVERROR(EAGAIN))
            ++damaged_;
        if (drained_) // the decoder's threads have more pictures
            continue;
        deadline_ = Clock::now() + PATIENCE;
        av_packet_unref(packet_.get());
        const int got = av_read_frame(format_, packet_.get());
        if (got == AVERROR(EAGAIN))
            continue;
        drained_ = got < 0;
        if (drained_)
            avcodec_send_packet(codec_.get(), nullptr);
        else if (packet_->stream_index == stream_->index) {
            const int sent = avcodec_send_packet(codec_.get(), packet_.get());
            damaged_ += sent < 0 && !fallBack(sent);
        }
    }
}

bool Reader::next(double &seconds) {
    if (!waiting_ && !decode()) {
        if (read_error_)
            std::rethrow_exception(read_error_);
        return false;
    }
    waiting_ = false;
    takeFrame();
    const int64_t at = frame_->best_effort_timestamp;
    seconds = at == AV_NOPTS_VALUE || first_ == AV_NOPTS_VALUE
                  ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(at - first_) * av_q2d(stream_->time_base);
    return true;
}

// Fetches a frame from the device that the library does not take there: in another format or other colors, or cut.
void Reader::takeFrame() {
    cusMat planes[3] = {CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT};
    cusYuvOptions options = cusYuvDefaults();
    if (spaceOf(*frame_) == CUS_HOST || (wrap(planes, options) && !frame_->crop_left && !frame_->crop_top))
        return;
    Frame host(allocated(av_frame_alloc()));
    messages();
    int result = av_hwframe_transfer_data(host.get(), frame_.get(), 0);
    const std::string why = messages(); // libavutil returns 0 also where a copy has failed
    if (result >= 0 && !why.empty())
        result = AVERROR_EXTERNAL;
    if (result >= 0)
        result = av_frame_copy_props(host.get(), frame_.get());
    if (result >= 0)
        result = av_frame_apply_cropping(host.get(), AV_FRAME_CROP_UNALIGNED);
    if (result < 0)
        throw std::runtime_error(decoding_.name +
                                 ": a picture cannot be fetched from the GPU: " + (why.empty() ? reason(result) : why));
    frame_ = std::move(host);
}

void Reader::get(cusMat &bgr, cusSpace space) {
    cusMat planes[3] = {CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT};
    cusYuvOptions options = cusYuvDefaults();
    const int count = wrap(planes, options);
    const bool on_gpu = spaceOf(*frame_) == CUS_DEVICE,
               converts_there = on_gpu || (space == CUS_DEVICE && count && !rotation_);
    if (on_gpu)
        check(cusDeviceSet(decoding_.gpu));
    const cusSpace at = converts_there ? CUS_DEVICE : CUS_HOST;
    cusMat &to = at == space && !rotation_ ? bgr : staged_.get();
    check(cusMatCreate(&to, frame_->height, frame_->width, CUS_8UC3, at));
    if (count) {
        for (int i = 0; i < count && planes[i].space != at; ++i) { // half as many bytes as BGR
            check(cusMatUpload(&planes[i], &uploaded_[i].get(), nullptr));
            planes[i] = uploaded_[i].get();
        }
        check(cusYuvToBgr(&planes[0], &planes[1], count == 3 ? &planes[2] : nullptr, &options, &to, nullptr));
    } else {
        scale(to);
    }
    if (&to == &bgr)
        return;
    cusMat *upright = &to;
    if (rotation_) {
        upright = space == CUS_HOST ? &bgr : &turned_.get();
        check(cusMatCreate(upright, rows(), cols(), CUS_8UC3, CUS_HOST));
        turn(to, rotation_, *upright);
    }
    if (at == space)
        return;
    check(space == CUS_DEVICE ? cusMatUpload(upright, &bgr, nullptr) : cusMatDownload(upright, &bgr, nullptr));
    if (space == CUS_HOST)
        check(cusStreamSynchronize(nullptr)); // of page-locked memory
}

// The planes of frame_, with how the library converts them, so that colors are the same everywhere. Returns how many there are;
// 0: it does not take such pictures.
int Reader::wrap(cusMat (&planes)[3], cusYuvOptions &options) const {
    const AVFrame &f = *frame_;
    const Planes how = planesOf(f);
    if (!how.channels || !describe(f, options))
        return 0;
    options.full_range = f.color_range == AVCOL_RANGE_JPEG;
    options.low_bits = how.low_bits;
    const int count = how.channels == 2 ? 2 : 3;
    for (int i = 0; i < count; ++i)
        if (cusMatWrap(&planes[i], i ? (f.height + 1) / 2 : f.height, i ? (f.width + 1) / 2 : f.width,
                       CUS_MAKETYPE(how.depth, i ? how.channels : 1), spaceOf(f), f.data[i],
                       static_cast<size_t>(f.linesize[i])) != CUS_OK)
            return 0;
    return count;
}

// frame_ by libswscale.
void Reader::scale(cusMat &to) {
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
        padded_.create(f.height + 1, (f.width + 127) / 64 * 64, CUS_8UC3);
    const cusMat &target = direct ? to : padded_.get();
    uint8_t *const rows[] = {static_cast<uint8_t *>(target.data)};
    const int steps[] = {static_cast<int>(target.step)};
    sws_scale(scaler_.get(), f.data, f.linesize, 0, f.height, rows, steps);
    const cusMat made = direct ? to : padded_.region(0, 0, f.width, f.height);
    if (!direct)
        check(cusMatCopy(&made, &to, nullptr));
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
