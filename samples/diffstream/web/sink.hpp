// A page as the output of a program: browsers watch its pictures.
#pragma once

#include "common/video/sink.hpp"
#include "diffstream/web/options.hpp"

#include <memory>

namespace diffstream {

// Prints the page's address. Unless playback.live or --no-wait, the first picture waits for the first viewer; each is sent at its time.
// Throws sample::Stop.
std::unique_ptr<sample::Sink> openWebSink(const WebSettings &web, cv::Size size, const sample::Playback &playback);

} // namespace diffstream
