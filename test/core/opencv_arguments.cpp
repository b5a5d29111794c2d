// Every call of the C++ classes that takes matrices, with each kind of matrix, written as users write it: none is ambiguous, and all
// kinds give one answer.
#include "support.hpp"

#ifdef CUSIGHT_HAVE_OPENCV_CORE
#include "core/opencv_support.hpp"

namespace {

using namespace opencv_test;

constexpr int ROWS = 48, COLS = 64, X = 20, Y = 9, SIDE = 12;

template<class Int, class Double, class Short, class Byte, class Bgr, class Float>
struct Outputs {
    Int table;
    Double squares;
    Short elevation;
    Byte lines, mask;
    Bgr map;
    Float scores;
};
template<class M>
using Same = Outputs<M, M, M, M, M, M>;

// Calls everything. Color: 8UC3, the rest 8UC1.
template<class M, class Color, class Out>
std::vector<cusMatch> callEverything(const M &part, const M &other, const M &frame, const Color &color, Out &out) {
    const int rows = ROWS, cols = COLS;
    std::vector<cusMatch> found;
    cusMatcherOptions options = cusMatcherDefaults();
    const cusHsvRange any = {{0, 0, 0}, {179, 255, 255}};

    cusight::Matcher matcher(part, rows, cols);
    matcher.run(frame);
    matcher.run(frame, nullptr);
    matcher.run(frame, cusight::StreamRef());
    matcher.run(frame, out.scores);
    matcher.run(frame, out.scores, nullptr);
    matcher.inspect(color, any, 0.5);
    found.push_back(matcher.best());

    cusight::Matcher several({part, other}, rows, cols, options);
    several.run(frame);
    found.push_back(several.best({}, 1));
    options.batch = 2;
    cusight::Matcher batch(part, rows, cols, options);
    batch.run({frame, frame});
    batch.inspect({color, color}, any, 0.5);
    found.push_back(batch.best(nullptr, 1));

    cusight::Integrator integrator(rows, cols, CUS_HOST);
    integrator.sum(frame, out.table);
    integrator.squares(frame, out.squares);
    integrator.both(frame, out.table, out.squares);
    cusight::ContourMapper mapper(rows, cols, CUS_8UC1, CUS_HOST);
    mapper.map(frame, frame, out.elevation);
    mapper.map(frame, frame, out.elevation, out.lines);
    cusight::Heatmap().apply(frame, out.map);
    cusight::copy(color, out.map, CUS_HOST);
    cusight::PoseMatcher poses(part, rows, cols);
    poses.run(frame);
    cusight::DiffEncoder encoder(rows, cols, CUS_8UC1, CUS_HOST);
    cusight::SparseDiff diff(rows, cols, CUS_8UC1, CUS_HOST);
    encoder.encode(frame, diff);
    encoder.reset(frame);
    cusight::DiffDecoder(rows, cols, CUS_8UC1, CUS_HOST).reset(frame);
    cusight::MotionDetector motion(1, rows, cols, CUS_8UC1);
    motion.watch(frame);
    motion.run(frame);
    motion.run(frame, 40000);
    motion.runAll(frame);
    motion.runAll({frame}, {120000});
    motion.mask(out.mask);
    cusight::EventGenerator(rows, cols).push(frame, 0);
    EXPECT_THROW(cusight::EventGenerator(rows, cols).run(frame, {}, {}), cusight::Error); // no times
    cusight::FrameWriter(testing::TempDir() + "cusight_arguments_frames.h5", rows, cols, CUS_8UC1).write(frame);
    try {
        cusight::Sender(rows, cols, CUS_8UC1, CUS_HOST).submit(frame);
    } catch (const cusight::Error &e) {
        EXPECT_EQ(e.status(), CUS_ERROR_UNSUPPORTED) << e.what(); // no zstd in this build
    }
    return found;
}

// Vectors of each kind.
template<class M, class Color>
cusMatch callVectors(const std::vector<M> &parts, const std::vector<M> &frames, const std::vector<Color> &colors) {
    cusMatcherOptions options = cusMatcherDefaults();
    options.batch = static_cast<int>(frames.size());
    cusight::Matcher matcher(parts, ROWS, COLS, options);
    matcher.run(frames);
    matcher.run(frames, nullptr);
    matcher.inspect(colors, {{0, 0, 0}, {179, 255, 255}}, 0.5);
    cusight::MotionDetector motion(static_cast<int>(frames.size()), ROWS, COLS, CUS_8UC1);
    motion.runAll(frames);
    return matcher.best({}, 1);
}

class OpencvArguments : public testing::Test {
  protected:
    OpencvArguments() {
        cv::cvtColor(frame, color, cv::COLOR_GRAY2BGR);
        frame.copyTo(gray);
        color.copyTo(pixels);
    }
    void expectFound(const std::vector<cusMatch> &found) {
        ASSERT_EQ(found.size(), 3u);
        for (const cusMatch &match : found)
            expectFound(match);
    }
    void expectFound(const cusMatch &match) {
        EXPECT_EQ(match.x, X);
        EXPECT_EQ(match.y, Y);
    }
    std::mt19937_64 random = support::generator();
    const cv::Mat frame = randomImage(ROWS, COLS, CV_8UC1, random), part = frame({X, Y, SIDE, SIDE});
    cv::Mat color;
    cv::Mat_<uchar> gray;
    cv::Mat_<cv::Vec3b> pixels;
};

// Where both templates are the part, so that the second template, and frame, has its match there too.
TEST_F(OpencvArguments, EveryCallTakesCvMat) {
    Same<cv::Mat> out;
    expectFound(callEverything(part, part, frame, color, out));
    EXPECT_EQ(out.table.at<int>(ROWS, COLS), cv::sum(frame)[0]);
    EXPECT_EQ(difference(out.map, color), 0);
    expectFound(callVectors<cv::Mat, cv::Mat>({part}, {frame, frame}, {color, color}));
}

TEST_F(OpencvArguments, EveryCallTakesTypedCvMat) {
    const cv::Mat_<uchar> typed = gray(cv::Rect(X, Y, SIDE, SIDE));
    Outputs<cv::Mat_<int>, cv::Mat_<double>, cv::Mat_<ushort>, cv::Mat_<uchar>, cv::Mat_<cv::Vec3b>, cv::Mat_<float>> out;
    expectFound(callEverything(typed, typed, gray, pixels, out));
    EXPECT_EQ(out.table(ROWS, COLS), cv::sum(frame)[0]);
    expectFound(callVectors<cv::Mat_<uchar>, cv::Mat_<cv::Vec3b>>({typed, typed}, {gray, gray}, {pixels, pixels}));
    cv::Mat_<float> floats;
    try {
        cusight::Integrator(ROWS, COLS, CUS_HOST).sum(gray, floats);
        FAIL() << "no exception";
    } catch (const cusight::Error &e) {
        EXPECT_EQ(e.message(), "an output is a cv::Mat_ of CV_32FC1, expected CV_32SC1");
    }
}

TEST_F(OpencvArguments, EveryCallTakesTheLibrarysMatrices) {
    const cusMat view = cusight::view(frame), part_view = cusight::view(part), color_view = cusight::view(color);
    Same<cusight::Matrix> out;
    expectFound(callEverything(part_view, part_view, view, color_view, out));
    expectFound(callVectors<cusMat, cusMat>({part_view}, {view, view}, {color_view, color_view}));
    const auto owned = [](const cusMat &from) {
        cusight::Matrix to;
        cusight::copy(from, to, CUS_HOST);
        return to;
    };
    const cusight::Matrix own_part = owned(part_view), own = owned(view), own_color = owned(color_view);
    expectFound(callEverything(own_part, own_part, own, own_color, out));
    std::vector<cusight::Matrix> parts(1), frames(2), colors(2);
    cusight::copy(part, parts[0], CUS_HOST);
    for (size_t i = 0; i < 2; ++i) {
        cusight::copy(frame, frames[i], CUS_HOST);
        cusight::copy(color, colors[i], CUS_HOST);
    }
    expectFound(callVectors(parts, frames, colors));
}

// Compiles all calls; without a device the first throws.
TEST_F(OpencvArguments, EveryCallTakesGpuMat) {
    const cv::cuda::GpuMat none;
    Same<cv::cuda::GpuMat> out;
    EXPECT_THROW(callEverything(none, none, none, none, out), cusight::Error);
    EXPECT_THROW(callVectors<cv::cuda::GpuMat>({none}, {none, none}, std::vector<cv::cuda::GpuMat>{none, none}),
                 cusight::Error);
}

// What a std::vector of one matrix and a matrix have in common.
TEST_F(OpencvArguments, OneInBracesIsAList) {
    cusight::Matcher matcher({part}, ROWS, COLS);
    matcher.run({frame});
    expectFound(matcher.best());
    EXPECT_THROW(matcher.run({frame, frame}), cusight::Error);
    EXPECT_THROW(matcher.run(std::vector<cv::Mat>()), cusight::Error);
}

} // namespace

#endif
