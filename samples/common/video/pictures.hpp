// Sources that need OpenCV: cameras of this machine, images, generated clips.
#pragma once

#include "common/video/source.hpp"

namespace sample {

#ifdef CUSIGHT_SAMPLES_OPENCV

// What is none of them: null. All throw Stop(INPUT).
std::unique_ptr<Source> openPictures(const std::string &spec);
std::unique_ptr<Source> openList(const std::string &name, const std::vector<std::string> &files);
// An image in memory.
std::unique_ptr<Source> openPicture(const std::string &name, const std::vector<unsigned char> &bytes);
// How images are told from videos, for errors: "; pictures have a name that ends in .png ...".
std::string pictureHint();
// Why /dev/video`number` cannot be opened, which OpenCV does not tell.
std::string cameraProblem(const std::string &number);

#else

inline std::unique_ptr<Source> openPictures(const std::string & /*spec*/) {
    return nullptr;
}
inline std::unique_ptr<Source> openList(const std::string & /*name*/, const std::vector<std::string> & /*files*/) {
    return nullptr;
}
inline std::unique_ptr<Source> openPicture(const std::string &name, const std::vector<unsigned char> & /*bytes*/) {
    throw Stop(INPUT, name + " is an image; " + withoutPictures());
}
inline std::string pictureHint() {
    return "; " + withoutPictures();
}

#endif

// Throws unless `path` is a file, or a device, with something that may be a video or an image.
void requireReadable(const std::string &path);

} // namespace sample
