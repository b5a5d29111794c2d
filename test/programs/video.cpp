// Videos: the times of their frames, parts of them, formats of sources, encodings of outputs.
#include "support.hpp"

#ifdef CUSIGHT_HAVE_SAMPLES
#include "common/libav/libav.hpp"
#include "common/libav/writer.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"

#include "reference/video.hpp"

#include <opencv2/imgproc.hpp>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace {

namespace fs = std::filesystem;

// A picture of one gray for each number, which encoding keeps.
cv::Mat numbered(int number, cv::Size size = {64, 48}) {
    return cv::Mat(size, CV_8UC3, cv::Scalar::all(20 + 10 * number));
}
int numberOf(const cv::Mat &picture) {
    return cvRound((cv::mean(picture)[1] - 20) / 10);
}

// What a stream says of its colors.
struct Colors {
    AVColorSpace space = AVCOL_SPC_UNSPECIFIED;
    AVColorRange range = AVCOL_RANGE_UNSPECIFIED;
    AVChromaLocation place = AVCHROMA_LOC_UNSPECIFIED;
};

sample::Playback timed(double fps) {
    sample::Playback playback;
    playback.fps = fps;
    playback.timed = true;
    playback.steady = false;
    return playback;
}

class Videos : public testing::Test {
  protected:
    void SetUp() override {
        sample::currentFiles().begin(true);
        folder = fs::temp_directory_path() / ("cusight_videos_" + std::to_string(::getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }
    std::string path(const std::string &name) const { return (folder / name).string(); }

    // Numbered pictures at these times.
    std::string write(const std::string &name, const std::vector<double> &times, const sample::Playback &playback,
                      const sample::Encoding &encoding = {}) const {
        const auto sink = sample::openFile(path(name), {64, 48}, playback, encoding);
        for (size_t i = 0; i < times.size(); ++i)
            sink->writeAt(numbered(static_cast<int>(i)), times[i]);
        sink->finish();
        return path(name);
    }

    struct Seen {
        std::vector<double> times;
        std::vector<int> numbers;
    };
    static Seen read(const sample::Input &input) {
        const auto source = sample::openSource(input);
        Seen seen;
        for (cv::Mat frame; source->read(frame);) {
            seen.times.push_back(source->seconds());
            seen.numbers.push_back(numberOf(frame));
        }
        return seen;
    }
    static Seen read(const std::string &name, double start = 0, double duration = 0) {
        sample::Input input;
        input.names = {name};
        input.start = start;
        input.duration = duration;
        return read(input);
    }

    // A picture in one of libav's formats.
    static av::Frame frameOf(const cv::Mat &picture, AVPixelFormat format) {
        const av::Scaler scaler(sws_getContext(picture.cols, picture.rows, AV_PIX_FMT_BGR24, picture.cols, picture.rows,
                                               format, SWS_BICUBIC | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
        av::Frame frame(av_frame_alloc());
        frame->format = format;
        frame->width = picture.cols;
        frame->height = picture.rows;
        av_frame_get_buffer(frame.get(), 0);
        const uint8_t *const rows[] = {picture.data};
        const int steps[] = {static_cast<int>(picture.step)};
        sws_scale(scaler.get(), rows, steps, 0, picture.rows, frame->data, frame->linesize);
        return frame;
    }

    // A clip of `frames` pictures without loss in one of libav's formats; with an empty sound track if `sound`.
    std::string encode(const std::string &name, AVPixelFormat format, const cv::Mat &picture, bool sound = false,
                       const Colors &colors = {}) const {
        AVFormatContext *muxer = nullptr;
        avformat_alloc_output_context2(&muxer, nullptr, "matroska", nullptr);
        const AVCodec *const encoder = avcodec_find_encoder(AV_CODEC_ID_FFV1);
        const av::Codec codec(avcodec_alloc_context3(encoder));
        codec->width = picture.cols;
        codec->height = picture.rows;
        codec->pix_fmt = format;
        codec->time_base = {1, 25};
        codec->colorspace = colors.space;
        codec->color_range = colors.range;
        codec->chroma_sample_location = colors.place;
        EXPECT_EQ(avcodec_open2(codec.get(), encoder, nullptr), 0);
        AVStream *const stream = avformat_new_stream(muxer, nullptr);
        avcodec_parameters_from_context(stream->codecpar, codec.get());
        if (sound) {
            AVCodecParameters &track = *avformat_new_stream(muxer, nullptr)->codecpar;
            track.codec_type = AVMEDIA_TYPE_AUDIO;
            track.codec_id = AV_CODEC_ID_PCM_S16LE;
            track.sample_rate = 8000;
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(59, 24, 100)
            track.ch_layout.nb_channels = 1;
#else
            track.channels = 1;
#endif
        }
        EXPECT_EQ(avio_open(&muxer->pb, path(name).c_str(), AVIO_FLAG_WRITE), 0);
        EXPECT_GE(avformat_write_header(muxer, nullptr), 0);
        const av::Frame frame = frameOf(picture, format);
        const av::Packet packet(av_packet_alloc());
        for (int i = 0; i <= 3; ++i) {
            frame->pts = i;
            avcodec_send_frame(codec.get(), i < 3 ? frame.get() : nullptr);
            while (avcodec_receive_packet(codec.get(), packet.get()) == 0) {
                av_packet_rescale_ts(packet.get(), codec->time_base, stream->time_base);
                av_interleaved_write_frame(muxer, packet.get());
            }
        }
        av_write_trailer(muxer);
        avio_closep(&muxer->pb);
        avformat_free_context(muxer);
        return path(name);
    }

    static AVPixelFormat formatOf(const std::string &name) {
        AVFormatContext *file = nullptr;
        EXPECT_EQ(avformat_open_input(&file, name.c_str(), nullptr, nullptr), 0) << name;
        avformat_find_stream_info(file, nullptr);
        const int format = file->streams[0]->codecpar->format;
        avformat_close_input(&file);
        return static_cast<AVPixelFormat>(format);
    }

    fs::path folder;
};

void expectNear(const std::vector<double> &got, const std::vector<double> &expected, double bound) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], expected[i], bound) << "frame " << i;
}

// ---- Times -------------------------------------------------------------------------------------------------------------

TEST_F(Videos, FramesKeepTheirTimes) {
    const std::vector<double> irregular = {0, 0.04, 0.1, 0.5, 0.52, 1.3, 1.34};
    for (const char *name : {"a.mp4", "a.mov", "a.mkv", "a.webm"}) {
        SCOPED_TRACE(name);
        const Seen seen = read(write(name, irregular, timed(10)));
        expectNear(seen.times, irregular, 6e-4); // .mkv and .webm count in milliseconds
        EXPECT_EQ(seen.numbers, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
        const auto source = sample::openSource(path(name));
        EXPECT_FALSE(source->steady());
        EXPECT_TRUE(sample::playbackOf(*source).timed);
    }
    // Times begin with the first picture, and never go back.
    expectNear(read(write("b.mp4", {7, 7.5, 7.5, 7.4, 8}, timed(10))).times, {0, 0.5, 0.5, 0.5, 1}, 1e-3);
    // A copy has the times of its source exactly, to the tick.
    const auto source = sample::openSource(path("a.mp4"));
    const auto sink = sample::openFile(path("copy.mp4"), source->size(), sample::playbackOf(*source));
    for (cv::Mat frame; source->read(frame);)
        sink->writeAt(frame, source->seconds());
    sink->finish();
    EXPECT_EQ(read(path("copy.mp4")).times, read(path("a.mp4")).times);
}

TEST_F(Videos, AConstantRateRepeatsAndLeavesOut) {
    sample::Encoding encoding;
    encoding.fps = 10;
    for (const char *name : {"a.mp4", "a.webm", "a.avi"}) {
        SCOPED_TRACE(name);
        const Seen seen = read(write(name, {0, 0.1, 0.12, 0.14, 0.4, 0.5}, timed(30), encoding));
        expectNear(seen.times, {0, 0.1, 0.2, 0.3, 0.4, 0.5}, 1e-6);
        EXPECT_EQ(seen.numbers, (std::vector<int>{0, 1, 1, 1, 4, 5}));
        EXPECT_NEAR(sample::openSource(path(name))->fps(), 10, 1e-6);
    }
    // Formats without times take the rate that leaves out nothing.
    const std::string uneven = write("u.mkv", {0, 0.1, 0.15, 0.3}, timed(10));
    const auto source = sample::openSource(uneven);
    const auto sink = sample::openFile(path("u.avi"), source->size(), sample::playbackOf(*source));
    for (cv::Mat frame; source->read(frame);)
        sink->writeAt(frame, source->seconds());
    sink->finish();
    const Seen seen = read(path("u.avi"));
    for (const int number : {0, 1, 2, 3})
        EXPECT_NE(std::find(seen.numbers.begin(), seen.numbers.end(), number), seen.numbers.end()) << number;
    EXPECT_NEAR(seen.times.back(), 0.3, 0.021);
    // Images have no times: they follow each other at that rate.
    EXPECT_EQ(read(write("i.mp4", {0, 0.04, 0.08}, {}, encoding)).times.size(), 3U);
}

// ---- Parts -------------------------------------------------------------------------------------------------------------

TEST_F(Videos, StartAndDuration) {
    std::vector<double> times;
    for (int i = 0; i < 20; ++i)
        times.push_back(i / 10.0);
    for (const char *name : {"a.mp4", "a.mkv", "a.avi", "a.y4m", "images/"}) {
        SCOPED_TRACE(name);
        sample::Playback playback = timed(10);
        playback.steady = true;
        write(name, times, playback);
        sample::Input input;
        input.names = {path(name)};
        input.start = 0.5;
        input.duration = 0.4;
        input.fps = 10;
        const Seen seen = read(input);
        expectNear(seen.times, {0.5, 0.6, 0.7, 0.8}, 1e-3);
        EXPECT_EQ(seen.numbers, (std::vector<int>{5, 6, 7, 8}));
        EXPECT_EQ(sample::openSource(input)->frames(), 4);
        input.start = 0.55;
        input.duration = 0;
        EXPECT_EQ(read(input).numbers.front(), 6);
        input.start = 3;
        EXPECT_STOP(sample::openSource(input), sample::INPUT,
                    "has no frame between 3 s and its end; its last one is at 1.90 s");
        input.start = 0.51;
        input.duration = 0.02;
        EXPECT_STOP(sample::openSource(input), sample::INPUT, "between 0.51 s and 0.53 s; the next one is at 0.60 s");
    }
}

TEST_F(Videos, Crop) {
    sample::Input input;
    input.names = {"synthetic:64x48@3"};
    input.crop = {11, 7, 30, 20};
    const auto whole = sample::openSource("synthetic:64x48@3"), part = sample::openSource(input);
    EXPECT_EQ(part->size(), cv::Size(30, 20));
    for (cv::Mat a, b; whole->read(a);) {
        ASSERT_TRUE(part->read(b));
        EXPECT_EQ(cv::norm(a(cv::Rect(11, 7, 30, 20)), b, cv::NORM_INF), 0);
    }
    input.crop = {40, 7, 30, 20};
    EXPECT_STOP(sample::openSource(input), sample::USAGE,
                "--crop is 40,7,30,20, expected a rectangle inside the frame, 64 x 48");
}

TEST_F(Videos, SeveralInputs) {
    sample::Input input;
    input.names = {write("a.mp4", {0, 0.1, 0.2}, timed(10)), write("b.mkv", {0, 0.5}, timed(2))};
    const Seen seen = read(input);
    EXPECT_EQ(seen.numbers, (std::vector<int>{0, 1, 2, 0, 1}));
    expectNear(seen.times, {0, 0.1, 0.2, 0.3, 0.8},
               0.02); // the second begins when the last frame of the first has been shown
    EXPECT_EQ(sample::openSource(input)->name(), path("a.mp4") + " and 1 more");
    input.start = 0.25;
    EXPECT_EQ(read(input).numbers, (std::vector<int>{0, 1}));
    input.start = 0;
    write("images/", {0, 1, 2}, {});
    input.names = {path("images/000001.png"), path("images/000000.png")};
    EXPECT_EQ(read(input).numbers, (std::vector<int>{1, 0}));
    EXPECT_EQ(sample::openSource(input)->frames(), 2);
    EXPECT_FALSE(sample::openSource(input)->isPicture());
    input.names = {path("a.mp4"), "synthetic:32x32@2"};
    EXPECT_STOP(sample::openSource(input), sample::INPUT, "synthetic:32x32@2 is 32 x 32, expected 64 x 48 like");
    input.names = {path("a.mp4"), path("missing.mp4")};
    EXPECT_STOP(sample::openSource(input), sample::INPUT, "missing.mp4: No such file");
    input.names = {path("images/000000.png"), path("missing.png")};
    EXPECT_STOP(sample::openSource(input), sample::INPUT, "missing.png: No such file");
    input.names = {path("a.mp4"), "-"};
    EXPECT_STOP(sample::openSource(input), sample::USAGE, "INPUT is '-', expected files only");
}

// ---- Sources -----------------------------------------------------------------------------------------------------------

TEST_F(Videos, EveryPixelFormatIsDecoded) {
    cv::Mat picture, frame;
    sample::openSource("synthetic:50x34@1")->read(picture);
    for (const AVPixelFormat format : {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV422P10, AV_PIX_FMT_YUVA420P,
                                       AV_PIX_FMT_BGR0, AV_PIX_FMT_RGB32, AV_PIX_FMT_GRAY8, AV_PIX_FMT_GRAY10}) {
        const std::string name = encode("a.mkv", format, picture);
        const auto source = sample::openSource(name);
        ASSERT_TRUE(source->read(frame));
        ASSERT_EQ(frame.size(), picture.size());
        cv::Mat expected = picture;
        if (format == AV_PIX_FMT_GRAY8 || format == AV_PIX_FMT_GRAY10) {
            cv::cvtColor(picture, expected, cv::COLOR_BGR2GRAY);
            cv::cvtColor(expected, expected, cv::COLOR_GRAY2BGR);
        }
        EXPECT_LT(cv::norm(frame, expected, cv::NORM_L1) / static_cast<double>(3 * picture.total()), 6) << format;
    }
    const auto silent = sample::openSource(encode("a.mkv", AV_PIX_FMT_YUV420P, picture));
    EXPECT_EQ(sample::playbackOf(*silent).sound, "");
    const auto loud = sample::openSource(encode("b.mkv", AV_PIX_FMT_YUV420P, picture, true));
    EXPECT_EQ(sample::playbackOf(*loud).sound, path("b.mkv"));
    testing::internal::CaptureStderr();
    sample::openFile(path("c.mkv"), loud->size(), sample::playbackOf(*loud));
    EXPECT_NE(testing::internal::GetCapturedStderr().find("the sound of " + path("b.mkv") + " is left out"),
              std::string::npos);
}

// Pictures in 4:2:0 have the colors of cusYuvToBgr, as the stream describes them.
TEST_F(Videos, ColorsOf420AreThoseOfTheLibrary) {
    cv::Mat picture, frame;
    sample::openSource("synthetic:51x35@1")->read(picture);
    cusYuvOptions plain = cusYuvDefaults(), jpeg = plain, wide = plain;
    jpeg.matrix = CUS_YUV_BT709;
    jpeg.full_range = 1;
    jpeg.siting = CUS_YUV_CENTER;
    wide.matrix = CUS_YUV_BT2020;
    wide.siting = CUS_YUV_TOP_LEFT;
    const std::pair<Colors, cusYuvOptions> all[] = {{{}, plain},
                                                    {{AVCOL_SPC_BT709, AVCOL_RANGE_JPEG, AVCHROMA_LOC_CENTER}, jpeg},
                                                    {{AVCOL_SPC_BT2020_NCL, AVCOL_RANGE_MPEG, AVCHROMA_LOC_TOPLEFT}, wide}};
    for (const AVPixelFormat format : {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10})
        for (const auto &[colors, options] : all) {
            const av::Frame planes = frameOf(picture, format);
            reference::YuvPicture p = {picture.rows, picture.cols, format == AV_PIX_FMT_YUV420P ? 8 : 10, {}, {}, {}};
            std::vector<int> *const to[] = {&p.y, &p.u, &p.v};
            for (int i = 0; i < 3; ++i)
                for (int y = 0; y < (i ? p.chromaRows() : p.rows); ++y)
                    for (int x = 0; x < (i ? p.chromaCols() : p.cols); ++x) {
                        const uint8_t *const row = planes->data[i] + y * planes->linesize[i];
                        to[i]->push_back(p.bits == 8 ? row[x] : row[2 * x] + 256 * row[2 * x + 1]);
                    }
            const auto source = sample::openSource(encode("a.mkv", format, picture, false, colors));
            ASSERT_TRUE(source->read(frame));
            const std::vector<uint8_t> expected = reference::yuvToBgr(p, options);
            EXPECT_EQ(std::vector<uint8_t>(frame.datastart, frame.dataend), expected) << p.bits << ", " << options.matrix;
        }
}

// Phones store what the sensor saw, and a matrix that says how they were held.
TEST_F(Videos, RotatedClipsAreTurnedUpright) {
    cv::Mat picture(48, 64, CV_8UC3, cv::Scalar::all(30));
    picture(cv::Rect(0, 0, 32, 24)).setTo(cv::Scalar::all(220)); // upper left
    {
        const auto sink = sample::openFile(path("a.mp4"), picture.size(), {});
        sink->write(picture);
        sink->finish();
    }
    std::ifstream in(path("a.mp4"), std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    const size_t header = bytes.find("tkhd");
    ASSERT_NE(header, std::string::npos);
    const struct {
        std::array<int, 4> matrix; // a, b, c, d of the file format
        cv::Point bright;          // where the bright quarter ends up
    } cases[] = {{{0, 1, -1, 0}, {1, 0}}, {{-1, 0, 0, -1}, {1, 1}}, {{0, -1, 1, 0}, {0, 1}}, {{1, 0, 0, 1}, {0, 0}}};
    for (const auto &each : cases) {
        for (size_t i = 0; i < 4; ++i) { // rows of three numbers, big-endian, 16.16
            const uint32_t fixed = __builtin_bswap32(static_cast<uint32_t>(each.matrix[i]) << 16);
            std::memcpy(&bytes[header + 4 + 40 + 4 * (i < 2 ? i : i + 1)], &fixed, 4);
        }
        std::ofstream(path("b.mp4"), std::ios::binary) << bytes;
        cv::Mat frame;
        const auto source = sample::openSource(path("b.mp4"));
        ASSERT_TRUE(source->read(frame));
        EXPECT_EQ(frame.size(), each.matrix[0] ? cv::Size(64, 48) : cv::Size(48, 64));
        const int x = frame.cols / 4 + each.bright.x * frame.cols / 2, y = frame.rows / 4 + each.bright.y * frame.rows / 2;
        EXPECT_GT(frame.at<cv::Vec3b>(y, x)[1], 180);
        EXPECT_LT(cv::mean(frame)[1], 110);
    }
}

TEST_F(Videos, WithoutAVideoStream) {
    // Matroska with a track of sound.
    const char head[] =
        "\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"
        "\x15\x49\xa9\x66\x87\x2a\xd7\xb1\x83\x0f\x42\x40\x16\x54\xae\x6b\xa7\xae\xa5\xd7\x81\x01\x73\xc5\x81\x01"
        "\x83\x81\x02\x86\x8d"
        "A_PCM/INT/LIT\xe1\x8a\xb5\x84\x45\xfa\0\0\x62\x64\x81\x10"
        "\x1f\x43\xb6\x75\xc9\xe7\x81\0\xa3\xc4\x81\0\0\x80";
    std::ofstream(path("a.mkv"), std::ios::binary) << std::string(head, sizeof head - 1) << std::string(64, '\0');
    EXPECT_STOP(sample::openSource(path("a.mkv")), sample::INPUT, "it contains no video stream");
    const char header[] = "RIFF\x24\x10\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\x10\0\0";
    std::ofstream(path("a.wav"), std::ios::binary) << std::string(header, sizeof header - 1) << std::string(4096, '\0');
    EXPECT_STOP(sample::openSource(path("a.wav")), sample::INPUT, "it is not recognized as a video");
}

// ---- Outputs -----------------------------------------------------------------------------------------------------------

TEST_F(Videos, PlayersGetSubsampledChroma) {
    for (const char *name : {"a.mp4", "a.mov", "a.mkv", "a.webm", "a.y4m"})
        EXPECT_EQ(formatOf(write(name, {0, 0.1}, timed(10))), AV_PIX_FMT_YUV420P) << name;
    EXPECT_EQ(formatOf(write("a.avi", {0, 0.1}, timed(10))), AV_PIX_FMT_YUVJ420P);
    sample::Encoding encoding;
    encoding.codec = "ffv1"; // without loss
    EXPECT_EQ(formatOf(write("b.mkv", {0, 0.1}, timed(10), encoding)), AV_PIX_FMT_BGR0);
}

TEST_F(Videos, SidesAreEvenWhereTheFormatWantsThat) {
    const struct {
        const char *name;
        cv::Size size, expected;
    } cases[] = {{"a.mp4", {31, 17}, {30, 16}}, {"a.webm", {31, 17}, {30, 16}}, {"a.y4m", {31, 17}, {31, 17}},
                 {"a.avi", {31, 17}, {31, 17}}, {"b.y4m", {1, 1}, {1, 1}},      {"b.avi", {1, 3}, {1, 3}},
                 {"c.avi", {3, 1}, {3, 1}},     {"b.mp4", {2, 2}, {2, 2}}};
    for (const auto &each : cases) {
        const auto sink = sample::openFile(path(each.name), each.size, {});
        for (int i = 0; i < 3; ++i)
            sink->write(numbered(i, each.size));
        sink->finish();
        const auto source = sample::openSource(path(each.name));
        EXPECT_EQ(source->size(), each.expected) << each.name;
        cv::Mat frame;
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(source->read(frame)) << each.name;
            EXPECT_EQ(numberOf(frame), i) << each.name;
        }
    }
    for (const char *name : {"c.mp4", "c.webm", "c.mkv"})
        EXPECT_STOP(sample::openFile(path(name), {1, 5}, {}), sample::OUTPUT,
                    "at least 2 x 2 pixels; .y4m, .avi and pictures");
}

TEST_F(Videos, Encodings) {
    const auto open = [this](const char *name, const char *codec, const char *preset = "", std::optional<double> crf = {}) {
        sample::Encoding encoding;
        encoding.codec = codec;
        encoding.preset = preset;
        encoding.crf = crf;
        return write(name, {0, 0.1, 0.2}, timed(10), encoding);
    };
    for (const char *codec : {"mpeg4", "mjpeg", "ffv1", "auto"})
        EXPECT_EQ(read(open("a.mkv", codec)).numbers, (std::vector<int>{0, 1, 2})) << codec;
    EXPECT_EQ(read(open("a.avi", "mpeg4", "", 5)).numbers, (std::vector<int>{0, 1, 2}));
    EXPECT_STOP(open("a.mkv", "nonsense"), sample::USAGE, "--codec is 'nonsense', expected h264, hevc, ");
    EXPECT_STOP(open("a.mkv", "aac"), sample::USAGE, "--codec is 'aac', expected h264, hevc, "); // no video
    EXPECT_STOP(open("a.webm", "mpeg4"), sample::USAGE, "--codec is 'mpeg4', which does not go into .webm files");
    EXPECT_STOP(open("a.y4m", "mpeg4"), sample::USAGE, "--codec is 'mpeg4', expected auto: .y4m is not compressed");
    EXPECT_STOP(open("a.mkv", "mpeg4", "fast"), sample::USAGE, "mpeg4: it has no --preset");
    EXPECT_FALSE(fs::exists(path("a.y4m"))) << "what was refused was written";
    // Encoders of the GPU or the processor encode, or it is said that there is nothing for them here, with the reason of the driver.
    for (const char *codec : {"hardware", "h264_nvenc", "hevc_nvenc", "h264_qsv", "h264_v4l2m2m"}) {
        const AVCodec *const encoder = avcodec_find_encoder_by_name(codec);
        const bool known = encoder || codec == std::string("hardware");
        try {
            EXPECT_EQ(read(open("a.mkv", codec)).numbers.size(), 3U) << codec;
        } catch (const sample::Stop &stop) {
            EXPECT_EQ(stop.code(), sample::USAGE);
            const char *const expected = known ? "no hardware or driver for it here (" : "expected h264, hevc, ";
            EXPECT_NE(std::string(stop.what()).find(expected), std::string::npos) << stop.what();
        }
    }
    if (!avcodec_find_encoder_by_name("libx264"))
        GTEST_SKIP() << "no libx264";
    const auto size = [](const std::string &name) { return fs::file_size(name); };
    cv::Mat frame;
    const auto clip = [&](const char *name, std::optional<double> crf) {
        sample::Encoding encoding;
        encoding.crf = crf;
        const auto source = sample::openSource("synthetic:160x120@10");
        const auto sink = sample::openFile(path(name), source->size(), sample::playbackOf(*source), encoding);
        while (source->read(frame))
            sink->write(frame);
        sink->finish();
        return path(name);
    };
    EXPECT_GT(size(clip("good.mp4", 10)), 2 * size(clip("poor.mp4", 40)));
    EXPECT_EQ(read(open("a.mp4", "h264", "ultrafast", 30)).numbers, (std::vector<int>{0, 1, 2}));
    EXPECT_STOP(open("a.mp4", "h264", "nonsense"), sample::USAGE, "libx264: Error setting preset");
}

// What goes wrong on the encoder's thread ends the run, no later than finish().
TEST_F(Videos, ErrorsOfTheEncoderThread) {
    fs::create_symlink("/dev/full", path("full.mkv"));
    EXPECT_STOP(sample::openFile(path("full.mkv"), {64, 48}, {}), sample::OUTPUT,
                "full.mkv cannot be written: No space left");
    const auto sink = sample::openFile(path("a.mp4"), {64, 48}, {});
    EXPECT_STOP(sink->write(numbered(0, {32, 48})), sample::USAGE,
                "a picture is 32 x 48 and the first one 64 x 48, but a video has one size");
    for (int i = 0; i < 50; ++i)
        sink->write(numbered(i % 20));
    // Dropped without finish(): nothing is left.
}

} // namespace
#endif
