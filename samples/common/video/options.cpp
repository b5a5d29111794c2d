// Options of programs that read and write pictures and videos, declared in terminal/options.hpp.
#include "common/terminal/options.hpp"

#include "common/values.hpp"
#include "common/video/source.hpp"

#ifdef CUSIGHT_SAMPLES_OPENCV
#include "common/libav/writer.hpp"
#include "common/video/sink.hpp"
#endif

#include <cstdio>

namespace sample {

void addInput(CLI::App &app, Input &input) {
    names(addPositionals(app, "INPUT", input.names,
                         std::string(SOURCE_HELP) + ". Several of them, of the same size, are read one after the other"),
          Names::INPUT);
    addExcerpt(app, input);
    const auto set = [&input](const std::string &text) {
        std::array<int, 4> &c = input.crop;
        char rest = 0;
        return std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &c[0], &c[1], &c[2], &c[3], &rest) == 4 && c[0] >= 0 &&
               c[1] >= 0 && c[2] > 0 && c[3] > 0;
    };
    group(addValue(app, "--crop", set, "X,Y,W,H", "four integers X,Y,W,H, none below 0",
                   "use only this rectangle of the frames"),
          "Input");
}

void addExcerpt(CLI::App &app, Input &input) {
    group(addDuration(app, "--start", input.start, 0, 1e9, "begin this long after the first frame"), "Input");
    group(addDuration(app, "--duration", input.duration, 0, 1e9, "stop after so much of the input; 0: no limit"), "Input");
    group(
        addChoice(app, "--decoder", input.decoder, {"auto", "cpu", "cuda"},
                  "where videos are decoded; auto: on the GPU if --device is one; the CPU takes over what the GPU cannot"),
        "Input");
}

CLI::Option *addFrames(CLI::App &app, int &frames) {
    return addNumber(app, "--frames", frames, 0, 1000000000, "stop after N frames; 0: no limit");
}

#ifdef CUSIGHT_SAMPLES_OPENCV

void addEncoding(CLI::App &app, Encoding &encoding, bool rate) {
    const auto of_video = [](CLI::Option *option) { return group(option, "Video file"); };
    std::vector<std::string> codecs = av::codecNames();
    CLI::Option *const codec =
        addText(app, "--codec", encoding.codec, "NAME",
                "auto: H.264, in .webm VP8, in .avi Motion JPEG; " + join(codecs, ", ") +
                    " (H.264 by the GPU or processor, if it can), or any video encoder of libavcodec (hevc_nvenc)");
    codecs.insert(codecs.begin(), "auto");
    of_video(offer(codec, codecs));
    of_video(addNumber(
        app, "--crf", encoding.crf, 0, 255,
        "quality, lower is better and larger, on the encoder's scale: H.264 23, VP8 20, Motion JPEG 3 if not given"));
    of_video(offer(addText(app, "--preset", encoding.preset, "NAME",
                           "how hard the encoder tries; H.264: ultrafast to veryslow, veryfast if not given"),
                   {"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"}));
    if (rate)
        of_video(addNumber(
            app, "--fps", encoding.fps, 0, 10000,
            "constant frame rate: frames are repeated or left out; images follow each other at this rate; 0: each "
            "frame at its own time, images 25 a second"));
}

void addCommon(CLI::App &app, Common &common, const std::string &default_file, bool several_devices) {
    addDevice(app, common.device, several_devices);
    addOutput(app, common.output, std::string(SINK_HELP) + "; without a window and without this option: " + default_file);
    addOverwrite(app);
    addHeadless(app, common.headless);
    addSpeed(app, common.speed);
    addEncoding(app, common.video, true);
}

CLI::Option *addSpeed(CLI::App &app, double &speed) {
    return addNumber(app, "--speed", speed, 0, 1000, "speed of a window; 1: that of the recording; 0: as fast as possible");
}

CLI::Option *addLegend(CLI::App &app, bool &legend) {
    return addNegativeFlag(app, "--no-legend", legend, "leave out the strip above the pictures that explains their colors");
}

#endif

} // namespace sample
