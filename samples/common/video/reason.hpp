// Why a camera or a URL cannot be opened, which OpenCV does not tell.
#pragma once

#include <string>

namespace sample {

// Of /dev/video`number`.
std::string cameraProblem(const std::string &number);

// Asks the server; takes a few seconds at most, but for the resolver. Of http also what the server answers.
std::string urlProblem(const std::string &url);

} // namespace sample
