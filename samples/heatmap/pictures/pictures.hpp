// What of the motion report needs OpenCV: pictures with boxes, clips, a mask. Without it, checkMotion refuses them.
#pragma once

#include "common/terminal/options.hpp"
#include "common/video/source.hpp"
#include "heatmap/things.hpp"

#include "cusight/matrix.hpp"

#include <memory>
#include <string>
#include <vector>

namespace heatmap {

// Pictures with boxes and the paths of what moves.
class Drawing {
  public:
    virtual ~Drawing() = default;
    // Draws on the picture, in host memory.
    virtual void add(cusMat &picture, double seconds, const std::vector<const Thing *> &things) = 0;
    virtual void finish() = 0;
};
// --output. Throws Stop, as the others do.
std::unique_ptr<Drawing> openDrawing(const sample::Common &common, const sample::Source &source);

// --clips: reads the input again and writes a video for each period in which something moves. An error of the input is kept.
void cut(const sample::Input &input, const sample::Common &common, Watched &watched);

// --ignore: an image in gray.
cusight::Matrix readMask(const std::string &path);

} // namespace heatmap
