// The viewing half of cusight-diffstream.
#pragma once

#include "common/options.hpp"
#include "diffstream/net.hpp"

#include <functional>
#include <string>

namespace diffstream {

struct ViewSettings {
    Address address{"127.0.0.1", "7878"};
    TlsFiles tls;
    std::string record; // file
    bool headless = false;
    bool overlay = false;  // figures over the picture
    double reconnect = 10; // seconds to go on trying
    int max_frames = 0;    // leave after so many
    std::string digests;   // file for a checksum of each picture
    bool progress = true;
};

// Shows until the sender says bye, the window is closed, or Ctrl-C. Throws sample::Stop and cusight::Error.
void view(const ViewSettings &settings);

} // namespace diffstream
