#include "common/events/windows.hpp"

#include "common/values.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>

namespace events {

cusWindowing windowing(const FrameSettings &s) {
    cusWindowing w = cusEventPipelineDefaults().windowing;
    w.unit = s.us_per_frame ? CUS_WINDOW_DURATION : CUS_WINDOW_COUNT;
    w.length = static_cast<uint64_t>(s.us_per_frame ? s.us_per_frame : s.events_per_frame);
    w.stride = s.stride ? static_cast<uint64_t>(s.stride) : w.length;
    w.keep_incomplete = s.keep_incomplete;
    return w;
}

cusRepresentation representation(const FrameSettings &s) {
    int kind = 0;
    while (s.representation != cusRepresentationName(static_cast<cusRepresentationKind>(kind)))
        ++kind;
    cusRepresentation r = cusRepresentationDefaults(static_cast<cusRepresentationKind>(kind));
    if (s.channels)
        r.channels = s.channels;
    return r;
}

std::string lengthOption(const FrameSettings &s) {
    return s.us_per_frame ? "--us-per-frame is " + std::to_string(s.us_per_frame)
                          : "--events-per-frame is " + std::to_string(s.events_per_frame);
}

std::string inOptions(std::string message) {
    static const struct {
        std::string in_library, in_programs;
    } NAMES[] = {{"max_gap = ", "--max-gap "},
                 {"more than max_events = ", "more events than a frame may have, make --us-per-frame smaller: "},
                 {"the option max_memory", "--max-memory"},
                 {"max_memory", "--max-memory"},
                 {"max_chunk", "--max-memory"}};
    for (const auto &name : NAMES) {
        const size_t at = message.find(name.in_library);
        if (at != std::string::npos)
            message.replace(at, name.in_library.size(), name.in_programs);
    }
    return message;
}

bool parseSize(const std::string &text, int &width, int &height) {
    char rest = 0;
    return std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest) == 2 && width >= 1 && height >= 1 &&
           width <= 65536 && height <= 65536;
}

bool parseStride(const std::string &text, FrameSettings &settings) {
    double stride = 0;
    if (!sample::parseDuration(text, sample::MICROSECONDS, stride) || stride < 0 || stride > 2e9 ||
        stride != std::floor(stride))
        return false;
    settings.stride = static_cast<int>(stride);
    settings.stride_is_time = sample::hasUnit(text);
    return true;
}

std::string strideProblem(const FrameSettings &s) {
    return s.stride_is_time && !s.us_per_frame
               ? "--stride is " + std::to_string(s.stride) + " us, expected a number of events like --events-per-frame"
               : "";
}

bool parseRange(const std::string &text, double &from, double &to) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos || !sample::parseDuration(text.substr(0, colon), sample::SECONDS, from) || from < 0 ||
        from >= 1e9)
        return false;
    to = -1;
    return colon + 1 == text.size() ||
           (sample::parseDuration(text.substr(colon + 1), sample::SECONDS, to) && to > from && to < 1e9);
}

} // namespace events
