#include "heatmap/pictures/pictures.hpp"

#include "common/libav/writer.hpp"
#include "common/video/image.hpp"
#include "common/video/legend.hpp"
#include "common/video/sink.hpp"

#include "cusight/opencv.hpp"

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include <string>

namespace heatmap {

namespace {

constexpr double CLIP_MARGIN = 1;  // seconds before and after
constexpr double PATH_SECONDS = 5; // longer ones hide the picture
constexpr double LETTERS = 0.6;

// Colors that neighbors in the list tell apart.
cv::Scalar colorOf(uint32_t id) {
    static const cv::Scalar colors[] = {{60, 220, 255}, {255, 180, 60}, {120, 255, 120}, {200, 120, 255},
                                        {80, 120, 255}, {255, 255, 90}, {180, 180, 255}, {90, 230, 200}};
    return colors[id % (sizeof colors / sizeof *colors)];
}

// Draws the last boxes of things, with the last part of their paths, and above each its number.
void draw(cv::Mat &picture, const std::vector<const Thing *> &things) {
    for (const Thing *const thing : things) {
        const cusMotionBox &b = thing->seen.back().box;
        std::vector<cv::Point> path;
        for (const Seen &s : thing->seen)
            if (s.seconds > thing->seen.back().seconds - PATH_SECONDS)
                path.emplace_back(s.box.center_x / 256, s.box.center_y / 256);
        cv::polylines(picture, path, false, colorOf(thing->id), 1, cv::LINE_AA);
        cv::rectangle(picture, cv::Rect(b.x, b.y, b.width, b.height), colorOf(thing->id), 2);
    }
    sample::Labels labels(picture.size());
    for (const Thing *const thing : things) { // above all lines
        const cusMotionBox &b = thing->seen.back().box;
        const std::string number = std::to_string(thing->id);
        const int above = b.y - sample::Labels::sizeOf(number, LETTERS).height - 2;
        labels.draw(picture, number, {b.x, above >= 0 ? above : b.y + 4}, LETTERS, colorOf(thing->id), {0, 0, 0});
    }
}

class Boxes : public Drawing {
  public:
    Boxes(const sample::Common &common, const sample::Source &source)
        : sink_(sample::openFile(common.output, source.size(), sample::playbackOf(source), common.video)) {}
    void add(cusMat &picture, double seconds, const std::vector<const Thing *> &things) override {
        cv::Mat view = cusight::toMat(picture);
        draw(view, things);
        sink_->writeAt(view, seconds);
    }
    void finish() override { sink_->finish(); }

  private:
    const std::unique_ptr<sample::Sink> sink_;
};

} // namespace

std::unique_ptr<Drawing> openDrawing(const sample::Common &common, const sample::Source &source) {
    return std::make_unique<Boxes>(common, source);
}

void cut(const sample::Input &input, const sample::Common &common, Watched &watched) try {
    long long number = 0;
    for (const auto &[start, end] : periods(watched.things, CLIP_MARGIN)) {
        sample::Input part = input;
        part.start = input.start + start;
        part.duration = end - start;
        const std::unique_ptr<sample::Source> source = sample::openSource(part);
        const std::string name = watched.clip.file(++number);
        const auto sink = av::openVideo(name, source->size(), sample::playbackOf(*source), common.video);
        cv::Mat frame;
        while (!sample::interrupted() && source->read(frame))
            sink->writeAt(frame, source->seconds());
        sink->finish();
        watched.clips.push_back(name);
    }
} catch (...) {
    keep(watched, std::current_exception());
}

cusight::Matrix readMask(const std::string &path) {
    const cv::Mat mask = sample::readImage(path, cv::IMREAD_GRAYSCALE);
    cusight::Matrix made;
    cusight::copy(mask, made, CUS_HOST);
    return made;
}

} // namespace heatmap
