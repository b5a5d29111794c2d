// cusight-belt: makes a test video for cusight-match: capsules on a conveyor belt, filled with blue soap or empty. Writes the
// video, a template of the capsule, a mask that excludes its inside, and the ground truth as CSV.
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"
#include "common/video/sink.hpp"
#include "common/stages.hpp"

#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include <memory>
#include <string>

namespace {

constexpr int WIDTH = 640, HEIGHT = 360, SPACING = 250, SPEED = 6;
const cv::Size CAPSULE(132, 84), WINDOW(150, 100); // WINDOW: the template's size, with some belt around the capsule

// A rectangle with round ends.
void stadium(cv::Mat &image, cv::Point center, cv::Size size, const cv::Scalar &color) {
    const int radius = size.height / 2, half = size.width / 2 - radius;
    cv::rectangle(image, {center.x - half, center.y - radius}, {center.x + half, center.y + radius}, color, cv::FILLED);
    for (int side : {-1, 1})
        cv::circle(image, {center.x + side * half, center.y}, radius, color, cv::FILLED, cv::LINE_AA);
}

void drawCapsule(cv::Mat &image, cv::Point center, bool filled, int level) {
    stadium(image, center, CAPSULE, {70, 70, 75});
    stadium(image, center, {CAPSULE.width - 10, CAPSULE.height - 10}, {225, 225, 225});
    stadium(image, center, {CAPSULE.width - 22, CAPSULE.height - 22}, {150, 155, 155});
    const cv::Size inside(CAPSULE.width - 26, CAPSULE.height - 26);
    if (!filled) { // a small residue
        cv::circle(image, center + cv::Point(level % 30 - 15, 8), 6 + level % 5, {190, 90, 30}, cv::FILLED, cv::LINE_AA);
    } else {
        cv::Mat soap = image.clone();
        stadium(soap, center, inside, {210, 80, 20});
        const cv::Rect part(center.x - inside.width / 2, center.y - inside.height / 2 + level % 12, inside.width + 1,
                            inside.height - level % 12);
        const cv::Rect visible = part & cv::Rect(0, 0, image.cols, image.rows);
        if (visible.area() > 0)
            soap(visible).copyTo(image(visible));
    }
}

cv::Mat belt(int shift) {
    cv::Mat image(HEIGHT, WIDTH, CV_8UC3, cv::Scalar(52, 56, 58));
    for (int x = shift % 40 - 40; x < WIDTH; x += 40)
        cv::rectangle(image, {x, 40}, {x + 19, HEIGHT - 41}, {60, 64, 66}, cv::FILLED);
    cv::rectangle(image, {0, 0}, {WIDTH, 39}, {30, 30, 32}, cv::FILLED);
    cv::rectangle(image, {0, HEIGHT - 40}, {WIDTH, HEIGHT}, {30, 30, 32}, cv::FILLED);
    return image;
}

// Capsule k looks the same in every frame.
unsigned hash(unsigned k) {
    k = (k ^ 61) ^ (k >> 16);
    k *= 9;
    k ^= k >> 4;
    k *= 0x27d4eb2d;
    return k ^ (k >> 15);
}

const cv::Point MIDDLE(WINDOW.width / 2, WINDOW.height / 2); // the middle of the template

void writeTemplate(const std::string &folder) {
    cv::Mat capsule = belt(0)(cv::Rect({WIDTH / 2, HEIGHT / 2}, WINDOW)).clone();
    cv::Mat mask(WINDOW, CV_8UC1, cv::Scalar(0));
    drawCapsule(capsule, MIDDLE, true, 0);
    stadium(mask, MIDDLE, CAPSULE, 255);
    stadium(mask, MIDDLE, {CAPSULE.width - 24, CAPSULE.height - 24}, 0);
    cv::threshold(mask, mask, 127, 255, cv::THRESH_BINARY);
    sample::writeImage(folder + "/capsule.png", capsule);
    sample::writeImage(folder + "/capsule-mask.png", mask);
}

// Draws the capsules of one frame. Those wholly inside are written to `truth`; returns how many.
int drawCapsules(cv::Mat &image, int frame, sample::OutputFile &truth) {
    const int shift = frame * SPEED;
    int whole = 0;
    for (int k = 0; k * SPACING <= shift + CAPSULE.width; ++k) {
        const cv::Point center(shift - k * SPACING,
                               HEIGHT / 2 + static_cast<int>(hash(static_cast<unsigned>(k)) % 31) - 15);
        if (center.x > WIDTH + CAPSULE.width)
            continue;
        const unsigned kind = hash(static_cast<unsigned>(k) + 1000);
        const bool filled = (7 * k + 3) % 5 < 3;
        drawCapsule(image, center, filled, static_cast<int>(kind / 8 % 64));
        const cv::Rect window(center - MIDDLE, WINDOW);
        if ((window & cv::Rect(0, 0, WIDTH, HEIGHT)) == window) {
            truth.print("%d,%d,%d,%d\n", frame, window.x, window.y, filled ? 1 : 0);
            ++whole;
        }
    }
    return whole;
}

// Draws and writes all frames, and reports what they contain.
void writeVideo(sample::Sink &sink, int frames, sample::OutputFile &truth) {
    sample::Progress progress("frames", frames);
    sample::Stopwatch drawing, writing;
    cv::RNG noise(7);
    int capsules = 0, done = 0;
    bool more = true;
    while (more && done < frames && !sample::interrupted()) {
        int whole = 0;
        const cv::Mat image = drawing([&] {
            cv::Mat picture = belt(done * SPEED), grain(HEIGHT, WIDTH, CV_8UC3);
            whole = drawCapsules(picture, done, truth);
            noise.fill(grain, cv::RNG::UNIFORM, 0, 12);
            picture += grain;
            return picture;
        });
        capsules += whole;
        sample::reportFrame({{"frame", done}, {"capsules", whole}});
        more = writing([&] { return sink.write(image); });
        progress.update(++done);
    }
    writing([&] { sink.finish(); });
    sample::figure("frames", {{"frames", done}}, "%d", done);
    sample::figureStages({{"draw", drawing.seconds}, {"write", writing.seconds}}, progress.seconds(), done);
    sample::figure("capsules", {{"capsules", capsules}}, "%d whole ones in all frames", capsules);
}

int run(int argc, char **argv) {
    sample::Common common;
    std::string folder = ".";
    int frames = 240;
    const auto app = sample::makeApp("cusight-belt",
                                     "Makes a test video for cusight-match: filled and empty capsules on a conveyor belt. "
                                     "Writes the video, and capsule.png, capsule-mask.png and truth.csv to FOLDER.",
                                     "  cusight-belt . --output belt.avi\n"
                                     "  cusight-match belt.avi --template capsule.png --mask capsule-mask.png --top-k 4\n");
    sample::names(sample::addPositional(*app, "FOLDER", folder,
                                        "folder for the template, its mask and the ground truth; made if it does not exist",
                                        false),
                  sample::Names::FOLDER);
    sample::addNumber(*app, "--frames", frames, 1, 1000000, "make N frames");
    sample::addCommon(*app, common, "belt.mp4");
    if (!sample::parse(*app, argc, argv))
        return sample::OK;

    for (const char *name : {"capsule.png", "capsule-mask.png", "truth.csv"})
        sample::currentFiles().derive("FOLDER", folder, folder + "/" + name);
    sample::makeFolder(folder);
    sample::OutputFile truth(folder + "/truth.csv");
    truth.print("frame,x,y,filled\n");
    const std::unique_ptr<sample::Sink> sink = sample::openSink(common, "cusight-belt", "belt.mp4", {WIDTH, HEIGHT}, {});
    writeVideo(*sink, frames, truth);
    truth.commit();
    writeTemplate(folder);
    sample::figureText("output", "%s", sink->name().c_str());
    sink->hold();
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
