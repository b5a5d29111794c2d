// The sending half of cusight-diffstream.
#pragma once

#include "common/app.hpp"
#include "common/terminal/options.hpp"
#include "diffstream/net/address.hpp"
#include "diffstream/times.hpp"
#include "diffstream/web/options.hpp"

#include "cusight/live.h"

#include <functional>
#include <string>

namespace diffstream {

struct SendSettings {
    sample::Input input;
    std::string device = "auto";
    Address address{"127.0.0.1", "7878"}; // no port: viewers come as browsers only
    TlsFiles tls;
    WebSettings web;
    cusSenderOptions options = cusSenderDefaults();
    bool loop = false;
    std::string drop = "auto"; // auto, never, latest
    double rate = 0;           // frames a second; 0: at the times of the source
    bool unpaced = false;      // as fast as possible
    int max_frames = 0;
    int wait = 0; // for this many viewers before the first frame
    int max_viewers = 32;
    int max_pending = 16; // connections not yet authenticated
    double timeout = 30;  // seconds without progress before a viewer is dropped
    std::string session;  // output file: what a viewer of all frames receives
    std::string digests;  // output file: a checksum of the reference after each frame
    bool progress = true;
    FrameTimes *times = nullptr; // where a viewer in the same program learns the times of the frames
};

// Where viewers can connect: the port of the native endpoint, and the address of the page; 0 or "" without that endpoint.
using Announce = std::function<void(int port, const std::string &page)>;

// Sends until the source ends, Ctrl-C, or `stop` returns true. `listening` is called once viewers can connect.
// Throws sample::Stop and cusight::Error.
void send(const SendSettings &settings, const Announce &listening, const std::function<bool()> &stop);

} // namespace diffstream
