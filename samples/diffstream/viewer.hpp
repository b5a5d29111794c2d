// The viewing half of cusight-diffstream.
#pragma once

#include "common/terminal/options.hpp"
#include "diffstream/net/address.hpp"
#include "diffstream/times.hpp"

#include <functional>
#include <string>

namespace diffstream {

struct ViewSettings {
    Address address{"127.0.0.1", "7878"};
    TlsFiles tls;
    std::string record; // output: a video or images
    sample::Encoding encoding;
    bool headless = false;
    bool overlay = false;  // show rate and size in the frame
    double reconnect = 10; // seconds to keep trying
    int max_frames = 0;    // disconnect after this many; 0: never
    std::string digests;   // output file: a checksum of each frame
    bool progress = true;
    bool beside_sender = false;  // in one program, which reports for both
    FrameTimes *times = nullptr; // of that sender
};

// Shows until the sender says bye, the window is closed, or Ctrl-C. Throws sample::Stop and cusight::Error.
void view(const ViewSettings &settings);

} // namespace diffstream
