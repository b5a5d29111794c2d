// The sending half of cusight-diffstream.
#pragma once

#include "common/app.hpp"
#include "diffstream/net.hpp"

#include "cusight/live.h"

#include <functional>
#include <string>

namespace diffstream {

struct SendSettings {
    std::string input, device = "auto";
    Address address{"127.0.0.1", "7878"};
    TlsFiles tls;
    cusSenderOptions options = cusSenderDefaults();
    bool loop = false;
    std::string drop = "auto"; // auto, never, latest
    double rate = 0;           // frames a second; 0: the source's
    bool unpaced = false;      // as fast as it goes
    int max_frames = 0;
    int wait = 0; // viewers to wait for before the first frame
    int max_viewers = 32;
    double timeout = 30; // seconds that a viewer may take nothing
    std::string digests; // file for a checksum of each frame's reference
    bool progress = true;
};

// Sends until the source ends or Ctrl-C. `listening` is told the port once viewers can come, `stop` is asked now and then.
// Throws sample::Stop and cusight::Error.
void send(const SendSettings &settings, const std::function<void(int port)> &listening, const std::function<bool()> &stop);

} // namespace diffstream
