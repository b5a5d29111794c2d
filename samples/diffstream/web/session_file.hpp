// A recorded session: what a viewer of all frames receives, in a file that the page plays without a server.
#pragma once

#include "common/output.hpp"

#include "cusight/live.h"

#include <opencv2/core.hpp>

#include <cstdint>
#include <string>

namespace diffstream {

class SessionFile {
  public:
    // Throws like OutputFile.
    SessionFile(const std::string &path, cv::Size size, uint32_t rate_millihertz);
    ~SessionFile();
    SessionFile(const SessionFile &) = delete;
    SessionFile &operator=(const SessionFile &) = delete;

    void write(const cusSentFrame &frame);
    // Ends the session and gives the file its name.
    void finish();

  private:
    void drain();

    sample::OutputFile file_;
    cusPeer *peer_ = nullptr;
};

// The most bytes of a session that a page can hold: browsers limit a text to 512 MiB, and base64 makes 4 bytes of 3.
constexpr uint64_t MAX_SESSION = uint64_t{256} << 20;

// Writes the page and the session to `folder`, which is made if it does not exist: its index.html plays the session without a server.
// Throws Stop(INPUT) unless the session is a complete one in a regular file of at most MAX_SESSION bytes, Stop(OUTPUT) if one of the
// page's files exists, unless --overwrite is given.
void writeSessionPage(const std::string &session, const std::string &folder);

} // namespace diffstream
