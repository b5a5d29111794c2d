// Pictures of event frames for people: each representation as 8UC3. Amber is brighter, azure is darker; where a
// representation knows about time, new is bright, or the colors run from blue (old) to red (new).
#pragma once

#include "cusight/events.h"

#include <opencv2/core.hpp>

namespace sample {

// `frame` is one frame of the representation.
cv::Mat eventPicture(const cusRepresentation &representation, const cv::Mat &frame);

} // namespace sample
