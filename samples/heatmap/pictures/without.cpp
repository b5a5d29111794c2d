// cusight-heatmap in a build without OpenCV: what moves, without pictures.
#include "heatmap/pictures/pictures.hpp"

#include "common/many_devices.hpp"
#include "heatmap/motion.hpp"

namespace heatmap {

using sample::Stop;

std::unique_ptr<Drawing> openDrawing(const sample::Common & /*common*/, const sample::Source & /*source*/) {
    throw Stop(sample::USAGE, sample::withoutPictures());
}

void cut(const sample::Input & /*input*/, const sample::Common & /*common*/, Watched & /*watched*/) {}

cusight::Matrix readMask(const std::string & /*path*/) {
    return {};
}

} // namespace heatmap

namespace {

int run(int argc, char **argv) {
    sample::Common common;
    sample::Input input;
    heatmap::MotionSettings motion;
    std::string view = "motion";
    int frames = 0;
    const auto app = sample::makeApp(
        "cusight-heatmap",
        "Finds what moves in videos, from when to when. This build has no OpenCV, so it makes no heatmaps.",
        "  cusight-heatmap a.mp4 b.mp4 --report motion.json   what moves, from when to when, in two cameras\n");
    sample::addInput(*app, input);
    sample::addChoice(*app, "--view", view, {"motion"}, "motion: what moves, each INPUT by itself");
    sample::addFrames(*app, frames);
    sample::addDevice(*app, common.device, true);
    sample::addHeadless(*app, common.headless);
    heatmap::addMotionOptions(*app, motion);
    if (!sample::parse(*app, argc, argv))
        return sample::OK;
    heatmap::checkMotion(motion, input, common);
    const sample::Device device = sample::chooseDevices(common.device).front();
    sample::chooseDecoder(input, device);
    return heatmap::findMotion(motion, input, common, device, frames);
}

} // namespace

int main(int argc, char **argv) {
    return sample::guarded(argc, argv, run);
}
