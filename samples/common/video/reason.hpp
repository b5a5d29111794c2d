// Why a camera or a URL cannot be opened, which OpenCV does not tell.
#pragma once

#include <string>

namespace sample {

// Why /dev/video`number` cannot be opened.
std::string cameraProblem(const std::string &number);

// Why a URL cannot be opened: asks the server, and says what it answers to http. Takes a few seconds at most, but for the resolver.
std::string urlProblem(const std::string &url);

} // namespace sample
