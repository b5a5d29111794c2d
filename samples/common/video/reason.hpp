// Why a camera cannot be opened, which OpenCV does not tell.
#pragma once

#include <string>

namespace sample {

// Why /dev/video`number` cannot be opened.
std::string cameraProblem(const std::string &number);

} // namespace sample
