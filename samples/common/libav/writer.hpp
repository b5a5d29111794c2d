// Encodes pictures to a video file or pipe, beside the program's work: on a thread of its own.
#pragma once

#include "common/video/sink.hpp"

#include <memory>
#include <string>
#include <vector>

namespace av {

// ".mp4" and so on.
const std::vector<std::string> &videoEndings();
// The codecs that --codec takes by name.
std::vector<std::string> codecNames();

// A video whose format the ending of the path gives. Throws Stop(OUTPUT), or Stop(USAGE) for settings that no encoder takes.
std::unique_ptr<sample::Sink> openVideo(const std::string &path, cv::Size size, const sample::Playback &playback,
                                        const sample::Encoding &encoding);

} // namespace av
