// What the sample programs print and draw: reports, JSON, manual pages, legends, labels.
#include "support.hpp"

#ifdef CUSIGHT_HAVE_SAMPLES
#include "common/events/view.hpp"
#include "common/video/legend.hpp"
#include "common/terminal/manual.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/video/rectified.hpp"

#include <nlohmann/json.hpp>
#include <opencv2/imgproc.hpp>
#if __has_include(<opencv2/geometry.hpp>) // OpenCV 5: boundingRect(), getRotationMatrix2D()
#include <opencv2/geometry.hpp>
#endif

namespace {

// ---- Reports -----------------------------------------------------------------------------------------------------------

TEST(SampleReport, Json) {
    sample::Json json = {{"text", "a \"b\"\n\\"}, {"yes", true}, {"n", -7}, {"big", 18446744073709551615ull}, {"x", 0.125}};
    json["none"] = std::nan("");
    json["inner"] = {{"k", 1}};
    json["list"].push_back({{"i", 0}});
    json["list"].push_back({{"i", 1}});
    json.update({{"after", 1}, {"merged", 2}});
    EXPECT_EQ(sample::dump(json),
              R"({"text":"a \"b\"\n\\","yes":true,"n":-7,"big":18446744073709551615,"x":0.125,"none":null,)"
              R"("inner":{"k":1},"list":[{"i":0},{"i":1}],"after":1,"merged":2})");
    EXPECT_EQ(sample::dump({{"name", "zo\xc3\xab \x9b\x7f\033"}}), R"({"name":"zo\u00eb \ufffd\u007f\u001b"})");
}

TEST(SampleReport, ShortNumbers) {
    for (const auto &[value, words] : std::vector<std::pair<double, const char *>>{{0, "0"},
                                                                                   {0.012345, "0.0123"},
                                                                                   {-1.23456, "-1.23"},
                                                                                   {999, "999"},
                                                                                   {1234.5, "1234"},
                                                                                   {12345, "12.3 k"},
                                                                                   {1234567, "1.23 M"},
                                                                                   {-2.5e9, "-2.5 G"}})
        EXPECT_EQ(sample::shortNumber(value), words);
}

// Sets the reporting for one test.
struct Reporting {
    explicit Reporting(sample::Reporting now) { sample::currentReporting() = now; }
    ~Reporting() { sample::currentReporting() = {}; }
};

std::string printed(const std::function<void()> &work) {
    testing::internal::CaptureStdout();
    work();
    return testing::internal::GetCapturedStdout();
}

TEST(SampleReport, LinesOrOneObjectOrNothing) {
    const auto run = [] {
        sample::startReport("program");
        sample::reportFrame({{"frame", 0}});
        sample::figure("frames", {{"frames", 5}}, "%d of them", 5);
        sample::figureText("device", "%s", "CPU");
        sample::detail({{"detail", 1}});
        sample::finishReport(3, "it \"broke\"");
    };
    EXPECT_EQ(printed(run), "frames: 5 of them\ndevice: CPU\n");
    const std::string version = std::string("\"version\":\"") + cusVersion() + "\"";
    const std::string object =
        "{\"program\":\"program\"," + version +
        ",\"frames\":5,\"device\":\"CPU\",\"detail\":1,\"exit_code\":3,\"error\":\"it \\\"broke\\\"\"}\n";
    {
        const Reporting reporting({false, true, false, false});
        EXPECT_EQ(printed(run), object);
    }
    {
        const Reporting reporting({true, false, true, false}); // --quiet does not silence what was asked for
        EXPECT_EQ(printed(run), "{\"frame\":0}\n" + object);
    }
    const Reporting reporting({true, false, false, false});
    EXPECT_EQ(printed(run), "");
}

// ---- Manual pages and completion ---------------------------------------------------------------------------------------

TEST(SampleManual, SaysEveryOption) {
    sample::Input input;
    std::string view = "a";
    int number = 3;
    const auto app = sample::makeApp("cusight-thing", "Does a thing. And more.", "  cusight-thing x.png -- 'y'\n");
    sample::addInput(*app, input);
    sample::addChoice(*app, "--view", view, {"a", "b"}, "what's to [show]: .this");
    sample::addNumber(*app, "--number", number, 0, 9, "a number");
    sample::addText(*app, "--save", input.names.emplace_back(), "FILE", "where to");
    sample::addCommand(*app, "info", "Prints.", "");
    const auto generated = [&](const char *what) {
        return printed([&] { EXPECT_TRUE(sample::printGenerated(*app, what)); });
    };
    const auto contains = [](const std::string &text, std::initializer_list<const char *> parts) {
        for (const char *part : parts)
            EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    };
    contains(generated("help"),
             {"Usage: cusight-thing [options] INPUT... [COMMAND]\n  or:  cusight-thing info [options]\n", "--view a|b",
              "(default 3)", "-q, --quiet", "*cusight-thing info*", "*Keys*", "*Exit status*"});
    EXPECT_EQ(generated("include"), "[NAME]\ncusight-thing \\- does a thing\n"
                                    "[EXAMPLES]\n.nf\n  cusight\\-thing x.png \\-\\- 'y'\n.fi\n");
    contains(generated("bash"), {"complete -F _cusight_thing cusight-thing", "--view) COMPREPLY=($(compgen -W 'a b'",
                                 "--json-frames", "--save) compopt", "info)"});
    contains(generated("zsh"),
             {"#compdef cusight-thing", "--view[what'\\''s to \\[show\\]\\: .this]:value:(a b)", "_files"});
    EXPECT_FALSE(sample::printGenerated(*app, "fish"));
    testing::internal::CaptureStdout();
    const char *words[] = {"cusight-thing", "--generate-include"};
    EXPECT_FALSE(sample::parse(*app, 2, const_cast<char **>(words)));
    EXPECT_EQ(testing::internal::GetCapturedStdout().substr(0, 6), "[NAME]");
}

// ---- Pictures ----------------------------------------------------------------------------------------------------------

TEST(SamplePictures, AStripAboveWidePictures) {
    const sample::Scale scale = {"change", sample::gradient({0, 0, 0}, {255, 0, 0}), {{0, "0"}, {0.5, "5"}, {1, "10"}}};
    EXPECT_EQ(sample::legendHeight(128), 0);
    EXPECT_EQ(sample::withLegend(cv::Mat(48, 128, CV_8UC1, cv::Scalar(7)), {scale}).size(), cv::Size(128, 48));
    for (const int width : {200, 333, 640, 1920, 7680}) {
        SCOPED_TRACE(width);
        const int height = sample::legendHeight(width);
        EXPECT_GT(height, 20);
        EXPECT_EQ(height % 2, 0);
        const cv::Mat picture(60, width, CV_8UC3, cv::Scalar(1, 2, 3));
        const cv::Mat out = sample::withLegend(picture, {scale});
        ASSERT_EQ(out.size(), cv::Size(width, 60 + height));
        EXPECT_EQ(cv::norm(out.rowRange(height, out.rows), picture), 0) << "the picture itself is unchanged";
        cv::Mat blue; // the bar ends in its last color
        cv::inRange(out.rowRange(0, height), cv::Scalar(245, 0, 0), cv::Scalar(255, 9, 9), blue);
        EXPECT_GT(cv::countNonZero(blue), 0);
    }
    // A long title leaves the bar room: what is in parentheses goes.
    const auto bar = [&](const char *title) {
        cv::Mat strip(sample::legendHeight(200), 200, CV_8UC3), colored;
        sample::drawLegend(strip, {{title, {{255, 0, 0}}, scale.ticks}});
        cv::inRange(strip, cv::Scalar(245, 0, 0), cv::Scalar(255, 9, 9), colored);
        return cv::boundingRect(colored).width;
    };
    EXPECT_EQ(bar("change (sum of B, G, R)"), bar("change"));
    EXPECT_GT(bar("change"), 100);
}

TEST(SamplePictures, TicksAreRoundNumbers) {
    const auto words = [](double low, double high) {
        std::string out;
        for (const auto &tick : sample::roundTicks(low, high))
            out += (out.empty() ? "" : " ") + tick.label;
        return out;
    };
    EXPECT_EQ(words(0, 765), "0 200 400 600");
    EXPECT_EQ(words(0, 1), "0 0.2 0.4 0.6 0.8 1");
    EXPECT_EQ(words(3.4, 61.2), "10 20 30 40 50 60");
    EXPECT_EQ(words(5, 5), "5");
    EXPECT_EQ(words(-30, 30), "-30 -20 -10 0 10 20 30");
    for (const auto &tick : sample::roundTicks(3.4, 61.2)) {
        EXPECT_GE(tick.at, 0);
        EXPECT_LE(tick.at, 1);
    }
}

TEST(SamplePictures, LabelsDoNotCoverEachOther) {
    sample::Labels labels({320, 240});
    cv::Mat picture(240, 320, CV_8UC3, cv::Scalar());
    const cv::Size size = sample::Labels::sizeOf("12.3 k", 0.5);
    EXPECT_FALSE(labels.isFree({{310, 10}, size})) << "leaves the picture";
    ASSERT_TRUE(labels.isFree({{10, 10}, size}));
    labels.draw(picture, "12.3 k", {10, 10}, 0.5, {255, 255, 255}, {0, 0, 0});
    EXPECT_FALSE(labels.isFree({{12, 12}, size}));
    EXPECT_TRUE(labels.isFree({{10, 12 + size.height}, size}));
    cv::Mat gray;
    cv::cvtColor(picture, gray, cv::COLOR_BGR2GRAY);
    const cv::Rect drawn = cv::boundingRect(gray), occupied({10, 10}, size);
    EXPECT_GT(drawn.area(), 0);
    EXPECT_EQ(drawn & cv::Rect(occupied.x - 2, occupied.y - 2, occupied.width + 4, occupied.height + 4), drawn)
        << "drawn where it occupies";
}

TEST(SamplePictures, EveryRepresentationExplainsItsColors) {
    for (int kind = 0; kind <= CUS_REPR_EVENT_DIFF; ++kind) {
        const cusRepresentation r = cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind));
        SCOPED_TRACE(cusRepresentationName(r.kind));
        int type = 0;
        CUS_ASSERT_OK(cusRepresentationType(&r, &type));
        std::vector<sample::Scale> scales;
        cv::Mat frame(48, 64, CV_MAKETYPE(CUS_DEPTH(type), CUS_CHANNELS(type)));
        std::memset(frame.data, 1, frame.total() * frame.elemSize());
        const cv::Mat picture = sample::eventPicture(r, frame, &scales);
        EXPECT_EQ(picture.size(), cv::Size(64, 48));
        ASSERT_EQ(scales.size(), 2u);
        for (const sample::Scale &scale : scales) {
            EXPECT_FALSE(scale.title.empty());
            EXPECT_FALSE(scale.colors.empty());
            ASSERT_GE(scale.ticks.size(), 2u);
            for (const auto &tick : scale.ticks) {
                EXPECT_GE(tick.at, 0);
                EXPECT_LE(tick.at, 1);
            }
        }
    }
}

// ---- Stereo pairs ------------------------------------------------------------------------------------------------------

TEST(SampleStereo, SaysWhenAPairIsNotRectified) {
    cv::RNG random(5);
    cv::Mat scene(300, 460, CV_8UC1), left, right;
    random.fill(scene, cv::RNG::UNIFORM, 0, 256);
    cv::GaussianBlur(scene, scene, {}, 1.5);
    cv::normalize(scene, scene, 0, 255, cv::NORM_MINMAX);
    const auto view = [&](int x, int y) { return scene(cv::Rect(x, y, 400, 240)).clone(); };
    left = view(30, 30);
    for (const int direction : {-1, 1}) { // the right image shows everything further left, or right
        SCOPED_TRACE(direction);
        sample::Rows rows = sample::compareRows(left, view(30 - 12 * direction, 30), 30, direction);
        EXPECT_GT(rows.matches, 50);
        EXPECT_EQ(rows.median, 0);
        EXPECT_TRUE(rows.rectified());
        rows = sample::compareRows(left, view(30 - 12 * direction, 26), 30, direction);
        EXPECT_EQ(rows.median, 4);
        EXPECT_FALSE(rows.rectified());
    }
    const cv::Mat turn = cv::getRotationMatrix2D({200, 120}, 4, 1);
    cv::warpAffine(view(42, 30), right, turn, left.size(), cv::INTER_LINEAR, cv::BORDER_REFLECT);
    EXPECT_FALSE(sample::compareRows(left, right, 40, -1).rectified()) << "turned by 4 degrees";
    EXPECT_TRUE(sample::compareRows(cv::Mat(50, 50, CV_8UC1, cv::Scalar(9)), cv::Mat(50, 50, CV_8UC1, cv::Scalar(9)), 5, -1)
                    .rectified())
        << "nothing to tell by";
    EXPECT_TRUE(sample::compareRows(cv::Mat(3, 3, CV_8UC1, cv::Scalar(9)), cv::Mat(3, 3, CV_8UC1, cv::Scalar(9)), 1, 1)
                    .rectified());
}

TEST(SampleStereo, FindsHowFarPointsShift) {
    cv::RNG random(6);
    cv::Mat scene(240, 1400, CV_8UC1), other(240, 1000, CV_8UC1);
    for (cv::Mat *each : {&scene, &other}) {
        random.fill(*each, cv::RNG::UNIFORM, 0, 256);
        cv::GaussianBlur(*each, *each, {}, 4);
        cv::normalize(*each, *each, 0, 255, cv::NORM_MINMAX);
    }
    const auto view = [&](int x) { return scene(cv::Rect(x, 0, 1000, 240)).clone(); };
    for (const int shift : {0, 12, 100, 300}) {
        SCOPED_TRACE(shift);
        for (const int direction : {-1, 1}) {
            const int found =
                sample::findShifts(view(direction < 0 ? 0 : shift), view(direction < 0 ? shift : 0), direction);
            EXPECT_GT(found, shift);
            EXPECT_LE(found, 1.2 * shift + 24);
        }
    }
    EXPECT_EQ(sample::findShifts(view(0), view(100), 1), 0) << "exchanged";
    EXPECT_EQ(sample::findShifts(view(0), other, -1), 0);
    EXPECT_EQ(sample::findShifts(cv::Mat(3, 3, CV_8UC1, cv::Scalar(9)), cv::Mat(3, 3, CV_8UC1, cv::Scalar(9)), -1), 0);
}

} // namespace
#endif
