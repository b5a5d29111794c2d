// Pictures of event frames: each representation as 8UC3 for display. Amber means brighter, azure means darker; in
// representations of time, recent events are bright, or colors run from blue (old) to red (new).
#pragma once

#include "common/video/legend.hpp"

#include "cusight/events.h"

#include <opencv2/core.hpp>

namespace sample {

// `frame` is one frame of the representation. scales: if not null, set to what the colors of this picture mean.
cv::Mat eventPicture(const cusRepresentation &representation, const cv::Mat &frame, std::vector<Scale> *scales = nullptr);

} // namespace sample
