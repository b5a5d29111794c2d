// What cusight-events does with OpenCV and FFmpeg's libraries: pictures of frames in a window, a video, files or a page for browsers, and
// their options. In a build without these libraries, without.cpp stands for this folder.
#pragma once

#include "events/settings.hpp"

#include "cusight/events.h"

#include <memory>
#include <string>

namespace events {

// ---- Options -----------------------------------------------------------------------------------------------------------

// What INPUT and --output may be besides recordings and frames, for --help.
std::string videoInputs();
std::string pictureOutputs();
// How to make events from video.
void addVideoOptions(CLI::App &app, Settings &settings);
// Those of windows, videos and the page. Returns --speed, or null if there is none.
CLI::Option *addPictureOptions(CLI::App &app, Settings &settings);

// ---- Pictures ----------------------------------------------------------------------------------------------------------

// Whether frames are shown at the recording's speed.
bool isPaced(const Settings &settings);
// Whether --output is one picture, not numbered ones.
bool isOnePicture(const Settings &settings);
// Throws Stop(USAGE) if pictures cannot be made, or not for what --output names.
void requirePictures(const Settings &settings);

class Pictures {
  public:
    virtual ~Pictures() = default;

    // Returns false if the user wants no more. seconds: when the frame is shown.
    virtual bool show(const cusMat &frame, double seconds) = 0;
    virtual void finish() = 0;
    virtual void hold() = 0; // after the report
    virtual std::string name() const = 0;
    virtual double drawingSeconds() const = 0;
};

// fps: of a video file.
std::unique_ptr<Pictures> openPictures(const Settings &settings, const cusRepresentation &representation, sample::Size size,
                                       double fps);

} // namespace events
