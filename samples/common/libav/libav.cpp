#include "common/libav/libav.hpp"

#include <cstdarg>
#include <utility>

extern "C" {
#include <libavutil/log.h>
}

namespace av {

namespace {

thread_local std::string kept;

void keep(void *source, int level, const char *format, va_list arguments) {
    if (level > AV_LOG_ERROR)
        return;
    char line[512];
    int prefix = 0; // the name of the library's object means nothing to users
    av_log_format_line(source, level, format, arguments, line, sizeof line, &prefix);
    std::string words = line;
    const size_t end = words.compare(0, 1, "[") == 0 ? words.find("] ") : std::string::npos;
    words.erase(0, end == std::string::npos ? 0 : end + 2);
    words.erase(words.find_last_not_of(" \n\r\t.") + 1);
    if (!words.empty() && kept.size() < 600 && kept.find(words) == std::string::npos)
        kept += (kept.empty() ? "" : "; ") + words;
}

} // namespace

void keepMessages() {
    av_log_set_callback(keep);
    messages();
}

std::string messages() {
    return std::exchange(kept, {});
}

std::string reason(int error) {
    const std::string said = messages();
    char words[AV_ERROR_MAX_STRING_SIZE] = "";
    const bool known = av_strerror(error, words, sizeof words) == 0;
    const bool vague = error == AVERROR(EIO) || error == AVERROR(EINVAL) || error == AVERROR_UNKNOWN ||
                       error == AVERROR_EXTERNAL || error == AVERROR_INVALIDDATA;
    if (said.empty() && error == AVERROR_INVALIDDATA)
        return "it is not recognized as a video";
    return !said.empty() && (vague || !known) ? said : words;
}

} // namespace av
