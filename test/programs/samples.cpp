// What the sample programs share: options, sources, sinks, channels.
#include "support.hpp"

#include "common/channel.hpp"

#include <thread>

namespace {

TEST(Channel, KeepsOrderAndDrainsAfterClose) {
    sample::Channel<int> channel(4);
    long long sum = 0;
    int last = -1;
    bool ordered = true;
    std::thread consumer([&] {
        for (int item = 0; channel.pop(item); last = item) {
            ordered = ordered && item == last + 1;
            sum += item;
        }
    });
    for (int i = 0; i < 10000; ++i)
        ASSERT_TRUE(channel.push(i));
    channel.close();
    consumer.join();
    EXPECT_TRUE(ordered);
    EXPECT_EQ(sum, 10000LL * 9999 / 2);
    EXPECT_FALSE(channel.push(1)) << "closed";
}

TEST(Channel, CloseReleasesAWaitingProducer) {
    sample::Channel<int> channel(1);
    ASSERT_TRUE(channel.push(1));
    bool taken = true;
    std::thread producer([&] { taken = channel.push(2); });
    channel.close();
    producer.join();
    EXPECT_FALSE(taken);
    int item = 0;
    EXPECT_TRUE(channel.pop(item));
    EXPECT_EQ(item, 1);
    EXPECT_FALSE(channel.pop(item));
}

} // namespace

#ifdef CUSIGHT_HAVE_SAMPLES
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/image.hpp"
#include "common/video/sink.hpp"
#include "common/values.hpp"
#include "common/video/source.hpp"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/videoio.hpp>

#include <array>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace {

namespace fs = std::filesystem;

class Samples : public testing::Test {
  protected:
    void SetUp() override {
        sample::currentFiles().begin(true);
        folder = fs::temp_directory_path() / ("cusight_samples_" + std::to_string(::getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::create_directories(folder);
    }
    void TearDown() override { fs::remove_all(folder); }
    std::string path(const std::string &name) const { return (folder / name).string(); }

    // Frames of `spec` written to `name`; how many.
    int copy(const std::string &spec, const std::string &name) const {
        auto source = sample::openSource(spec);
        auto sink = sample::openFile(path(name), source->size(), sample::playbackOf(*source));
        cv::Mat frame;
        int frames = 0;
        for (; source->read(frame); ++frames)
            sink->write(frame);
        sink->finish();
        return frames;
    }
    static int framesIn(const std::string &spec) {
        auto source = sample::openSource(spec);
        cv::Mat frame;
        while (source->read(frame)) {
        }
        return static_cast<int>(source->delivered());
    }
    fs::path folder;
};

// ---- Options and pictures ----------------------------------------------------------------------------------------------

TEST(Clock, MinutesAndHours) {
    for (const auto &[words, expected] : std::vector<std::pair<const char *, double>>{
             {"1:05", 65}, {"0:00", 0}, {"90:00", 5400}, {"1:02:03", 3723}, {"1:02:03.25", 3723.25}, {"0:01.5", 1.5}}) {
        double seconds = -1;
        EXPECT_TRUE(sample::parseClock(words, seconds)) << words;
        EXPECT_DOUBLE_EQ(seconds, expected) << words;
    }
    for (const char *words : {"", ":", "1", "1:", "1:5", "1:60", "1:60:00", ":05", "-1:05", "1:05:", "1:05:06:07", "1:05.",
                              "1.5:05", "1:05.5.5", "1:05s", " 1:05", "1:0x", "12345678:00", "1:.5"}) {
        double seconds = -1;
        EXPECT_FALSE(sample::parseClock(words, seconds)) << words;
        EXPECT_EQ(seconds, -1) << words;
    }
}

// ---- Options -----------------------------------------------------------------------------------------------------------

struct Parsed {
    sample::Common common;
    sample::Input input;
    std::string view = "a";
    std::string method = "ccoeff-normed";
    int number = 7, order = 1, rest = 0;
    double gain = 1.5;

    bool parse(std::vector<const char *> words) {
        words.insert(words.begin(), "program");
        return sample::parse(*declare(), static_cast<int>(words.size()), const_cast<char **>(words.data()));
    }
    std::shared_ptr<CLI::App> declare() {
        auto app = sample::makeApp("program", "Does something.", "  program video.mp4\n");
        sample::addInput(*app, input);
        sample::addNumber(*app, "--number", number, -3, 10, "a number");
        sample::addNumber(*app, "--gain", gain, 0, 2, "a factor");
        sample::addChoice(*app, "--view", view, {"a", "b"}, "what to show");
        sample::addChoice(*app, "--method", method, {"sqdiff", "ccoeff-normed", "voxel_grid"}, "how");
        sample::addDuration(*app, "--rest", rest, 0, 1000000, "a time in microseconds");
        sample::addChoice<int>(*app, "--order", order, {{"up", 1}, {"down", -1}}, "a choice that stands for a number");
        sample::addCommon(*app, common, "program.mp4");
        return app;
    }
};

TEST(SampleOptions, BothFormsOfValuesAndDefaults) {
    Parsed p;
    ASSERT_TRUE(
        p.parse({"--number", "-3", "clip.avi", "--gain=0.25", "--headless", "--device=cuda:12", "--output", "o.mp4"}));
    EXPECT_EQ(p.number, -3);
    EXPECT_EQ(p.gain, 0.25);
    EXPECT_EQ(p.view, "a");
    EXPECT_EQ(p.input.names, std::vector<std::string>{"clip.avi"});
    EXPECT_TRUE(p.common.headless);
    EXPECT_EQ(p.common.device, "cuda:12");
    EXPECT_EQ(p.common.output, "o.mp4");
    Parsed q;
    ASSERT_TRUE(q.parse({"--", "--number"}));
    EXPECT_EQ(q.input.names, std::vector<std::string>{"--number"});
    EXPECT_EQ(q.order, 1);
    Parsed r;
    ASSERT_TRUE(r.parse({"x", "--order", "down", "--number", "1", "--number", "2"}));
    EXPECT_EQ(r.order, -1);
    EXPECT_EQ(r.number, 2) << "the last one wins";
}

TEST(SampleOptions, TimesTakeUnits) {
    const auto parsed = [](const char *start, const char *rest) {
        Parsed p;
        EXPECT_TRUE(p.parse({"x", "--start", start, "--rest", rest}));
        return std::pair(p.input.start, p.rest);
    };
    EXPECT_EQ(parsed("1.5", "300"), std::pair(1.5, 300)); // seconds and microseconds, as ever
    EXPECT_EQ(parsed("1.5s", "300us"), std::pair(1.5, 300));
    EXPECT_EQ(parsed("10ms", "10ms"), std::pair(0.01, 10000));
    EXPECT_EQ(parsed("250 us", "0.3ms"), std::pair(0.00025, 300));
    Parsed p;
    for (const char *wrong : {"10m", "ms", "", "1:2", "nan", "1e9ms", "0.1us", "0.5", "-1us", "2s"})
        EXPECT_STOP(p.parse({"x", "--rest", wrong}), sample::USAGE,
                    "expected an integer from 0 to 1000000 (microseconds), or a duration such as 10ms");
    EXPECT_STOP(p.parse({"x", "--duration", "10 years"}), sample::USAGE,
                "--duration is '10 years', expected a number from 0 to 1e+09 (seconds), or a time such as 500ms or 1:05");
}

TEST(SampleOptions, NamesTakeHyphensAndUnderscores) {
    for (const auto &[given, listed] : {std::pair("ccoeff_normed", "ccoeff-normed"),
                                        {"ccoeff-normed", "ccoeff-normed"},
                                        {"voxel-grid", "voxel_grid"},
                                        {"SQDIFF", "sqdiff"}}) {
        Parsed p;
        ASSERT_TRUE(p.parse({"x", "--method", given}));
        EXPECT_EQ(p.method, listed);
    }
    Parsed p;
    EXPECT_STOP(p.parse({"x", "--method", "ccoeffnormed"}), sample::USAGE, "expected sqdiff|ccoeff-normed|voxel_grid");
}

TEST(SampleOptions, RenamedOptionsSayTheirNewNames) {
    Parsed p;
    EXPECT_STOP(p.parse({"x", "--encoder-preset", "fast"}), sample::USAGE,
                "unknown option --encoder-preset: it is --preset now");
    EXPECT_STOP(p.parse({"x", "--encoder-preset=fast"}), sample::USAGE,
                "unknown option --encoder-preset: it is --preset now");
}

TEST(SampleOptions, Commands) {
    sample::Input input;
    const auto run = [&](std::vector<const char *> words) {
        words.insert(words.begin(), "program");
        const auto app = sample::makeApp("program", "Does something.", "");
        sample::requireCommand(*app);
        sample::addInput(*sample::addCommand(*app, "send", "Sends.", ""), input);
        sample::addCommand(*app, "view", "Views.", "");
        return sample::parse(*app, static_cast<int>(words.size()), const_cast<char **>(words.data()));
    };
    ASSERT_TRUE(run({"send", "x"}));
    EXPECT_EQ(input.names, std::vector<std::string>{"x"});
    EXPECT_STOP(run({}), sample::USAGE, "expected a command: send or view");
    EXPECT_STOP(run({"receive"}), sample::USAGE, "unexpected argument 'receive', expected send or view");
    EXPECT_STOP(run({"send"}), sample::USAGE, "INPUT is required");
    EXPECT_STOP(run({"view", "--nonsense"}), sample::USAGE, "unknown option --nonsense");
    testing::internal::CaptureStdout();
    EXPECT_FALSE(run({"send", "--help"}));
    EXPECT_NE(testing::internal::GetCapturedStdout().find("Usage: program send"), std::string::npos);
}

TEST(SampleOptions, AWordIsTheValueOfOneOption) {
    std::vector<std::string> list;
    std::string input;
    const auto run = [&](std::vector<const char *> words) {
        words.insert(words.begin(), "program");
        const auto app = sample::makeApp("program", "Does something.", "");
        sample::addList(*app, "--template", list, "FILE", "may be repeated");
        sample::addPositional(*app, "INPUT", input, "a file", true);
        sample::addPositional(*sample::addCommand(*app, "info", "Informs.", ""), "INPUT", input, "a file", true);
        return sample::parse(*app, static_cast<int>(words.size()), const_cast<char **>(words.data()));
    };
    ASSERT_TRUE(run({"--template", "a", "x", "--template=--b"}));
    EXPECT_EQ(list, (std::vector<std::string>{"a", "--b"}));
    EXPECT_EQ(input, "x");
    ASSERT_TRUE(run({"-5"}));
    EXPECT_EQ(input, "-5") << "a camera that does not exist, but no option";
    EXPECT_STOP(run({"x", "y"}), sample::USAGE, "unexpected argument 'y'");
    EXPECT_STOP(run({"info", "x", "y"}), sample::USAGE, "unexpected argument 'y'");
    EXPECT_STOP(run({"x", "--template="}), sample::USAGE, "--template requires a value");
    EXPECT_STOP(run({"x", "-x"}), sample::USAGE, "unknown option -x");
    testing::internal::CaptureStdout();
    EXPECT_FALSE(run({"-hh", "--nonsense"}));
    EXPECT_NE(testing::internal::GetCapturedStdout().find("Usage: program [options] INPUT [COMMAND]"), std::string::npos);
}

TEST(SampleOptions, ErrorsNameOptionValueAndWhatIsExpected) {
    Parsed p;
    EXPECT_STOP(p.parse({"x", "--number", "11"}), sample::USAGE, "--number is '11', expected an integer from -3 to 10");
    EXPECT_STOP(p.parse({"x", "--number", "5x"}), sample::USAGE, "'5x'");
    EXPECT_STOP(p.parse({"x", "--number", "99999999999999999999"}), sample::USAGE, "expected an integer");
    EXPECT_STOP(p.parse({"x", "--number="}), sample::USAGE, "--number requires a value");
    EXPECT_STOP(p.parse({"x", "--number"}), sample::USAGE, "--number requires a value");
    EXPECT_STOP(p.parse({"x", "--gain", "nan"}), sample::USAGE, "--gain is 'nan', expected a number from 0 to 2");
    EXPECT_STOP(p.parse({"x", "--view", "c"}), sample::USAGE, "--view is 'c', expected a|b");
    EXPECT_STOP(p.parse({"x", "--headless=1"}), sample::USAGE, "--headless takes no value");
    EXPECT_STOP(p.parse({"x", "--nonsense"}), sample::USAGE, "unknown option --nonsense");
    EXPECT_STOP(p.parse({"x", "--crop", "1,2,3"}), sample::USAGE, "--crop is '1,2,3', expected four integers X,Y,W,H");
    EXPECT_STOP(p.parse({"x", "--start", "-1"}), sample::USAGE, "--start is '-1', expected a number from 0");
    EXPECT_STOP(p.parse({}), sample::USAGE, "INPUT is required");
    for (const char *device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:12345", "CPU", ""})
        EXPECT_STOP(p.parse({"x", "--device", device}), sample::USAGE, "expected auto, cpu, cuda or cuda:n");
}

TEST(SampleOptions, HelpNamesEverythingAndTheExitCodes) {
    Parsed p;
    const std::string help = sample::helpText(*p.declare());
    for (const char *part : {"INPUT", "--number N", "--gain N", "--view a|b", "--order up|down", "default up",
                             "Examples:", "--device auto|cpu|cuda[:n]", "--output FILE", "--headless", "--help",
                             "default 7", "130 interrupted"})
        EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

TEST(SampleOptions, DeviceThatIsNotThere) {
    EXPECT_EQ(sample::chooseDevice("cpu").space, CUS_HOST);
    EXPECT_EQ(sample::chooseDevice("auto").space, support::haveGpu() ? CUS_DEVICE : CUS_HOST);
    EXPECT_STOP(sample::chooseDevice("cuda:999"), sample::DEVICE, "cuda:999");
    if (!support::haveGpu())
        EXPECT_STOP(sample::chooseDevice("cuda"), sample::DEVICE, "no usable GPU");
}

// ---- Sources -----------------------------------------------------------------------------------------------------------

TEST_F(Samples, SyntheticClipIsTheSameEveryTime) {
    auto a = sample::openSource("synthetic:33x17@5"), b = sample::openSource("synthetic:33x17@5");
    EXPECT_EQ(a->size(), cv::Size(33, 17));
    EXPECT_EQ(a->frames(), 5);
    cv::Mat x, y, last;
    int frames = 0;
    for (; a->read(x); ++frames) {
        ASSERT_TRUE(b->read(y));
        EXPECT_EQ(cv::norm(x, y), 0);
        if (!last.empty())
            EXPECT_GT(cv::norm(x, last), 0) << "nothing moved";
        x.copyTo(last);
    }
    EXPECT_EQ(frames, 5);
    EXPECT_FALSE(b->read(y));
    for (const char *bad : {"synthetic:", "synthetic:10", "synthetic:0x5", "synthetic:5x5@0", "synthetic:5x5@x",
                            "synthetic:5x5y", "synthetic:70000x5", "synthetic:5x5@"})
        EXPECT_STOP(sample::openSource(bad), sample::INPUT, "is not synthetic:WxH@N");
}

TEST_F(Samples, AFrameIsReadInPlace) {
    auto source = sample::openSource("synthetic:40x30@3");
    std::vector<uint8_t> memory(40 * 30 * 3);
    cv::Mat frame(30, 40, CV_8UC3, memory.data());
    while (source->read(frame))
        EXPECT_EQ(frame.data, memory.data());
}

TEST_F(Samples, MissingEmptyAndFalseFiles) {
    EXPECT_STOP(sample::openSource(path("missing.avi")), sample::INPUT, "No such file");
    std::ofstream(path("empty.avi"));
    EXPECT_STOP(sample::openSource(path("empty.avi")), sample::INPUT, "is empty");
    std::ofstream(path("text.avi")) << std::string(5000, 'a') << "\n";
    EXPECT_STOP(sample::openSource(path("text.avi")), sample::INPUT, "is not a video that can be decoded");
    std::ofstream(path("text.png")) << "not a picture";
    EXPECT_STOP(sample::openSource(path("text.png")), sample::INPUT, "is not an image that can be decoded");
    fs::create_directory(path("none"));
    EXPECT_STOP(sample::openSource(path("none")), sample::INPUT, "contains no images");
    EXPECT_STOP(sample::openSource(path("f_%03d.png")), sample::INPUT, "f_000.png");
    EXPECT_STOP(sample::openSource(path("f_%s.png")), sample::INPUT, "is not a numbered sequence");
    EXPECT_STOP(sample::openSource("997"), sample::INPUT, "camera 997 cannot be opened");
}

TEST_F(Samples, ImagesFromFolderSequenceAndFile) {
    ASSERT_EQ(copy("synthetic:64x48@12", "frames/"), 12);
    EXPECT_EQ(framesIn(path("frames")), 12);
    EXPECT_EQ(framesIn(path("frames/%06d.png")), 12);
    EXPECT_EQ(framesIn(path("frames/000003.png")), 1);
    fs::rename(path("frames/000005.png"), path("frames/gap.txt"));
    EXPECT_EQ(framesIn(path("frames/%06d.png")), 5) << "up to the gap";
}

TEST_F(Samples, TruncatedVideoDeliversWhatIsThereAndSaysSo) {
    ASSERT_EQ(copy("synthetic:160x120@90", "whole.avi"), 90);
    EXPECT_EQ(framesIn(path("whole.avi")), 90);
    fs::resize_file(path("whole.avi"), fs::file_size(path("whole.avi")) / 2);
    auto source = sample::openSource(path("whole.avi"));
    cv::Mat frame;
    EXPECT_STOP(while (source->read(frame)){}, sample::INPUT, "ends early");
    EXPECT_GT(source->delivered(), 20);
    EXPECT_LT(source->delivered(), 70);
    ASSERT_EQ(copy("synthetic:160x120@90", "whole.mp4"), 90);
    fs::resize_file(path("whole.mp4"), fs::file_size(path("whole.mp4")) / 2); // its index was at the end
    EXPECT_STOP(sample::openSource(path("whole.mp4")), sample::INPUT, "is not a video that can be decoded");
}

// An AVI whose header claims the ticks of a clock as its frame rate.
TEST_F(Samples, AFrameRateThatCannotBeIsReplacedAndSaid) {
    std::string bytes;
    {
        copy("synthetic:64x48@6", "a.avi");
        std::ifstream in(path("a.avi"), std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    const size_t stream = bytes.find("strh");
    ASSERT_NE(stream, std::string::npos);
    const uint32_t scale = 1, rate = 90000; // dwScale and dwRate, 28 bytes into the chunk
    std::memcpy(&bytes[stream + 28], &scale, 4);
    std::memcpy(&bytes[stream + 32], &rate, 4);
    std::ofstream(path("b.avi"), std::ios::binary) << bytes;
    testing::internal::CaptureStderr();
    const auto source = sample::openSource(path("b.avi"));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(source->fps(), 25);
    EXPECT_NE(said.find("b.avi says 90000 frames a second, which cannot be: taken as 25"), std::string::npos) << said;
}

// Uncompressed video keeps the colors, up to the rounding of YCbCr and chroma for each 2 x 2 pixels.
TEST_F(Samples, Y4mKeepsTheColors) {
    cv::Mat first, back;
    sample::openSource("synthetic:64x48@6")->read(first);
    copy("synthetic:64x48@6", "c.y4m");
    sample::openSource(path("c.y4m"))->read(back);
    ASSERT_EQ(back.size(), first.size());
    EXPECT_LT(cv::norm(first, back, cv::NORM_L1) / static_cast<double>(first.total() * 3), 3.5);
}

// ---- Sinks -------------------------------------------------------------------------------------------------------------

TEST_F(Samples, EveryKindOfFileCanBeReadBack) {
    for (const char *name : {"a.mp4", "a.mkv", "a.avi", "a.webm", "a.y4m"}) {
        ASSERT_EQ(copy("synthetic:96x64@7", name), 7) << name;
        EXPECT_EQ(framesIn(path(name)), 7) << name;
    }
    copy("synthetic:31x17@3", "odd.mp4");
    EXPECT_EQ(sample::openSource(path("odd.mp4"))->size(), cv::Size(30, 16));
    copy("synthetic:31x17@3", "last.png");
    cv::Mat last, frame;
    for (auto source = sample::openSource("synthetic:31x17@3"); source->read(frame);)
        frame.copyTo(last);
    EXPECT_EQ(cv::norm(cv::imread(path("last.png")), last), 0);
}

TEST_F(Samples, PicturesThatAreNotReadAreNamedForWhatTheyAre) {
    const auto save = [&](const std::string &name, const std::string &bytes) {
        std::ofstream(path(name), std::ios::binary) << bytes;
        return path(name);
    };
    const auto number = [](uint32_t value, size_t bytes) {
        std::string out;
        for (size_t i = 0; i < bytes; ++i)
            out += static_cast<char>(value >> 8 * i & 255);
        return out;
    };
    // A TIFF of 2 x 2 floats.
    const std::vector<std::array<uint32_t, 3>> tags = {{256, 3, 2}, {257, 3, 2}, {258, 3, 32}, {259, 3, 1},  {262, 3, 1},
                                                       {273, 4, 8}, {277, 3, 1}, {278, 3, 2},  {279, 4, 16}, {339, 3, 3}};
    std::string tiff = std::string("II*\0", 4) + number(24, 4) + std::string(16, '\0') + number(10, 2);
    for (const auto &tag : tags)
        tiff += number(tag[0], 2) + number(tag[1], 2) + number(1, 4) + number(tag[2], 4);
    EXPECT_STOP(sample::readImage(save("float.tif", tiff + number(0, 4)), cv::IMREAD_COLOR), sample::INPUT,
                "float.tif has values of float, expected integers of 8 or 16 bits: scale and convert them");
    // An animated WebP, of which the header is enough.
    const std::string webp = "RIFF" + number(22, 4) + "WEBPVP8X" + number(10, 4) + '\x02' + std::string(9, '\0');
    EXPECT_STOP(sample::openSource(save("moving.webp", webp)), sample::INPUT,
                "moving.webp is an animated WebP, expected one picture: anim_dump");
    EXPECT_STOP(sample::readImage(save("text.png", "text"), cv::IMREAD_COLOR), sample::INPUT,
                "is not an image that can be decoded");
    EXPECT_STOP(sample::readImage(save("empty.png", ""), cv::IMREAD_COLOR), sample::INPUT,
                "is not an image that can be decoded");
    EXPECT_STOP(sample::readImage("/dev/zero", cv::IMREAD_COLOR), sample::INPUT, "is a device, expected a regular file");
    EXPECT_STOP(sample::readImage(folder.string(), cv::IMREAD_COLOR), sample::INPUT,
                "is a folder, expected a regular file");
    EXPECT_STOP(sample::readRegular(path("float.tif"), 9), sample::INPUT, "bytes, expected at most 9");
    EXPECT_EQ(sample::readRegular(path("text.png"), 4), "text");
}

TEST_F(Samples, GrayPicturesAreTakenToo) {
    auto sink = sample::openFile(path("gray.avi"), {32, 32}, {});
    for (int i = 0; i < 3; ++i)
        sink->write(cv::Mat(32, 32, CV_8UC1, cv::Scalar(80 * i)));
    sink->finish();
    EXPECT_EQ(framesIn(path("gray.avi")), 3);
}

TEST_F(Samples, OutputsThatCannotBeWritten) {
    EXPECT_STOP(sample::openFile(path("no/such/a.mp4"), {64, 64}, {}), sample::OUTPUT, "No such file or directory");
    EXPECT_STOP(sample::openFile("", {64, 64}, {}), sample::USAGE, "--output is ''");
    EXPECT_STOP(sample::openFile(path("a.mp4"), {1, 1}, {}), sample::OUTPUT, "2 x 2");
    for (const char *name : {"full.mp4", "full.avi"}) {
        fs::create_symlink("/dev/full", path(name));
        EXPECT_STOP(sample::openFile(path(name), {64, 64}, {}), sample::OUTPUT, "No space left");
    }
    fs::create_symlink("/dev/full", path("full.png"));
    auto still = sample::openFile(path("full.png"), {64, 64}, {});
    still->write(cv::Mat(64, 64, CV_8UC3, cv::Scalar()));
    EXPECT_STOP(still->finish(), sample::OUTPUT, "No space left");
    EXPECT_STOP(sample::openFile(path("no/such/%d.png"), {64, 64}, {}), sample::OUTPUT, "No such file or directory");
}

TEST_F(Samples, AFileThatWasSpoiledWhileWritingIsNotReportedAsWritten) {
    auto sink = sample::openFile(path("a.avi"), {64, 64}, {});
    for (int i = 0; i < 5; ++i)
        sink->write(cv::Mat(64, 64, CV_8UC3, cv::Scalar(i, i, i)));
    for (const auto &entry : fs::directory_iterator(folder))
        fs::remove(entry);
    EXPECT_STOP(sink->finish(), sample::OUTPUT, "what was written has been removed");
}

TEST_F(Samples, AnOutputFileReplacesWhatWasThereOnlyWhenItIsWhole) {
    const auto content = [&](const std::string &name) {
        std::ifstream in(path(name));
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const auto files = [&] { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); };
    std::ofstream(path("a.txt")) << "before";
    fs::permissions(path("a.txt"), fs::perms::owner_read | fs::perms::owner_write);
    {
        sample::OutputFile file(path("a.txt"));
        file.print("lost");
        file.flush();
        EXPECT_EQ(files(), 2);
        EXPECT_EQ(content("a.txt"), "before");
    }
    EXPECT_EQ(files(), 1) << "an unfinished file was left behind";
    fs::create_symlink(path("a.txt"), path("link.txt"));
    for (const char *name : {"a.txt", "link.txt"}) {
        sample::OutputFile file(path(name));
        file.print("%d", 7);
        file.commit();
        EXPECT_EQ(content(name), "7");
    }
    EXPECT_EQ(fs::status(path("a.txt")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_FALSE(fs::is_symlink(path("link.txt"))) << "a link is replaced";
    sample::OutputFile log(path("log.txt"));
    log.print("first\n");
    log.publish();
    EXPECT_EQ(content("log.txt"), "first\n");
    log.print("second\n");
    log.publish();
    EXPECT_EQ(content("log.txt"), "first\nsecond\n");
    sample::OutputFile first(path("b.txt")), second(path("b.txt"));
    EXPECT_NE(first.temporary(), second.temporary());
    sample::removeUnfinished(); // as a signal handler does
    EXPECT_EQ(files(), 3);
    EXPECT_STOP(first.commit(), sample::OUTPUT, "has been removed");
    EXPECT_STOP(sample::OutputFile(folder.string()), sample::OUTPUT, "Is a directory");
}

TEST(SampleFiles, NumberedNames) {
    sample::NumberedName name;
    ASSERT_TRUE(sample::parseNumbered("a/f_%03d.png", name));
    EXPECT_EQ(name.file(7), "a/f_007.png");
    EXPECT_EQ(name.file(12345), "a/f_12345.png");
    for (const char *good : {"a/f_000.png", "a/f_999.png", "a/f_1000.png"})
        EXPECT_TRUE(name.matches(good)) << good;
    for (const char *bad : {"a/f_07.png", "a/f_0007.png", "a/f_.png", "a/f_x07.png", "a/f_007.jpg", "b/f_007.png"})
        EXPECT_FALSE(name.matches(bad)) << bad;
    for (const char *bad : {"a.png", "a_%s.png", "a_%", "a_%d_%d.png", "a_%1234d.png"})
        EXPECT_FALSE(sample::parseNumbered(bad, name)) << bad;
}

// ---- Progress ----------------------------------------------------------------------------------------------------------

TEST(SampleProgress, LineShowsShareCountRateAndNote) {
    sample::Progress known("frames", 200);
    known.update(50, "1.5 % changed");
    std::string line = known.line();
    for (const char *part : {"[#######.....", "25 %", "50/200 frames", "/s", "left", "1.5 % changed"})
        EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
    sample::Progress::within(0.371, 72); // by a call of the library: only the first line that there is shows it
    EXPECT_NE(known.line().find("1.5 % changed  this one 37 %, 1:12 left"), std::string::npos) << known.line();
    sample::Progress::within(0.4, -1);
    line = known.line();
    EXPECT_EQ(line.substr(line.find("this one")), "this one 40 %");
    known.update(51);
    EXPECT_EQ(known.line().find("this one"), std::string::npos);
    sample::Progress endless("frames", 0);
    endless.update(50);
    EXPECT_EQ(endless.line().find('['), std::string::npos);
    EXPECT_EQ(endless.line().find("left"), std::string::npos);
}

TEST_F(Samples, AFrameOfAnotherSizeIsAnErrorAndWhatWasBeforeIsDelivered) {
    copy("synthetic:64x48@3", "frames/");
    cv::imwrite(path("frames/000003.png"), cv::Mat(48, 65, CV_8UC3, cv::Scalar(1, 2, 3)));
    auto source = sample::openSource(path("frames"));
    cv::Mat frame;
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(source->read(frame));
    EXPECT_STOP(source->read(frame), sample::INPUT, "frame 4 is 65 x 48, expected 64 x 48 like the 3 before it");
    EXPECT_EQ(source->delivered(), 3);
}

} // namespace
#endif
