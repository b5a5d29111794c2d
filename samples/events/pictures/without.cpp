// A build without OpenCV or FFmpeg's libraries: there are no pictures and no videos, and whoever asks for them is told why.
#include "events/pictures/pictures.hpp"
#include "events/pictures/video.hpp"

#include "common/app.hpp"

namespace events {

using sample::Stop;

std::string videoInputs() {
    return "";
}

std::string pictureOutputs() {
    return "";
}

void addVideoOptions(CLI::App & /*app*/, Settings & /*settings*/) {}

CLI::Option *addPictureOptions(CLI::App & /*app*/, Settings & /*settings*/) {
    return nullptr;
}

bool isPaced(const Settings & /*settings*/) {
    return false;
}

bool isOnePicture(const Settings & /*settings*/) {
    return false;
}

void requirePictures(const Settings &s) {
    throw Stop(sample::USAGE,
               (s.common.output.empty() ? "--output, --checksum, --save-events or --triggers is required"
                                        : "--output is '" + s.common.output + "', expected NAME.raw or NAME.h5") +
                   "; " + sample::withoutPictures());
}

std::unique_ptr<Pictures> openPictures(const Settings &settings, const cusRepresentation & /*representation*/,
                                       sample::Size /*size*/, double /*fps*/) {
    requirePictures(settings);
    return nullptr;
}

// The reader has said why it is no recording.
std::unique_ptr<EventSource> openVideo(const std::string &path, const cusEventGeneratorOptions & /*options*/,
                                       Memory & /*memory*/) {
    const std::string message = inOptions(sample::lastMessage());
    const bool is_other = message.find("not an event recording") != std::string::npos; // otherwise it cannot be read
    throw Stop(sample::INPUT, is_other ? path + ": " + message + "; " + sample::withoutPictures() : message);
}

} // namespace events
