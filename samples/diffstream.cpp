// cusight-diffstream: live video as sparse differences. `send` captures and serves, `view` shows or records, `demo` does both
// over loopback.
#include "common/app.hpp"
#include "common/options.hpp"
#include "common/sink.hpp"
#include "common/source.hpp"
#include "diffstream/sender.hpp"
#include "diffstream/viewer.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <thread>

#include <unistd.h>

namespace {

using diffstream::SendSettings;
using diffstream::ViewSettings;

void tlsOptions(sample::Options &options, diffstream::TlsFiles &tls) {
    options.text(tls.key, "--key", "FILE",
                 "TLS 1.3 with the shared key in FILE: 64 hexadecimal digits (openssl rand -hex 32)");
    options.text(tls.certificate, "--cert", "FILE", "TLS 1.3 with certificates: this end's, PEM");
    options.text(tls.private_key, "--cert-key", "FILE", "its private key, PEM");
    options.text(tls.authority, "--ca", "FILE", "what the other end's certificate must be signed with, PEM");
}

void senderOptions(sample::Options &options, SendSettings &s) {
    options.argument(s.input, "INPUT", sample::SOURCE_HELP);
    options.text(s.device, "--device", "auto|cpu|cuda[:n]", "where the difference is computed");
    options.number(s.options.diff.threshold, "--threshold", "N", "changes of a byte up to N are not sent", 0, 255);
    options.number(s.options.diff.min_neighbors, "--noise-filter", "N",
                   "a changed pixel with fewer than N changed neighbors is noise and not sent; 0: off", 0, 8);
    options.number(s.options.compression_level, "--level", "N", "of the compression", 1, 19);
    options.number(s.rate, "--rate", "FPS", "frames a second; 0: as the source says", 0, 10000);
    options.flag(s.unpaced, "--unpaced", "as fast as it goes");
    options.flag(s.loop, "--loop", "start over at the end");
    options.number(s.max_frames, "--max-frames", "N", "stop after N frames; 0: never", 0, 1000000000);
    options.choice(
        s.drop, "--drop", {"auto", "never", "latest"},
        "when capture is ahead: never drop a frame, or keep the latest; auto: never for files, latest for cameras "
        "and URLs");
}

void viewerOptions(sample::Options &options, ViewSettings &v) {
    options.text(v.record, "--record", "FILE", "write a video, numbered images or one image");
    options.flag(v.headless, "--headless", "no window");
    options.flag(v.overlay, "--overlay", "figures over the picture");
}

int runSend(int argc, char **argv) {
    SendSettings s;
    std::string bind = s.address.text();
    sample::Options options("cusight-diffstream send",
                            "Sends a video as sparse differences to any number of viewers. Listens on loopback; any other "
                            "address needs --key, or --cert, --cert-key and --ca.");
    senderOptions(options, s);
    options.text(bind, "--bind", "HOST:PORT", "where to listen; port 0: any that is free");
    tlsOptions(options, s.tls);
    options.number(s.wait, "--wait", "N", "start with the first frame when N viewers are there", 0, 1000);
    options.number(s.max_viewers, "--max-viewers", "N", "refuse more than N", 1, 1000);
    options.number(s.timeout, "--timeout", "SECONDS", "drop a viewer that takes nothing for so long", 1, 3600);
    options.text(s.digests, "--digests", "FILE", "write a checksum of what viewers must see, a line a frame");
    if (!options.parse(argc, argv))
        return sample::OK;
    s.address = diffstream::parseAddress(bind, s.address.host, s.address.port);
    diffstream::send(
        s,
        [&](int port) {
            std::fprintf(stderr, "listening on %s%s\n",
                         diffstream::Address{s.address.host, std::to_string(port)}.text().c_str(),
                         s.tls.any() ? ", TLS" : "");
        },
        [] { return false; });
    return sample::OK;
}

int runView(int argc, char **argv) {
    ViewSettings v;
    std::string address = v.address.text();
    sample::Options options("cusight-diffstream view", "Shows or records what `cusight-diffstream send` sends.");
    options.argument(address, "HOST:PORT", "where the sender listens", false);
    viewerOptions(options, v);
    tlsOptions(options, v.tls);
    options.number(v.reconnect, "--reconnect", "SECONDS", "go on trying for so long when the connection breaks", 0, 1e9);
    options.number(v.max_frames, "--max-frames", "N", "leave after N frames; 0: never", 0, 1000000000);
    options.text(v.digests, "--digests", "FILE", "write a checksum of each picture, a line a frame");
    if (!options.parse(argc, argv))
        return sample::OK;
    v.address = diffstream::parseAddress(address, v.address.host, v.address.port);
    diffstream::view(v);
    return sample::OK;
}

int runDemo(int argc, char **argv) {
    SendSettings s;
    ViewSettings v;
    sample::Options options("cusight-diffstream demo", "Sender and viewer in one program, over loopback.");
    senderOptions(options, s);
    viewerOptions(options, v);
    if (!options.parse(argc, argv))
        return sample::OK;
    s.address.port = "0";
    s.wait = 1;
    s.progress = false;
    if (!v.headless)
        sample::displayProblem(); // forks: before there are threads

    std::promise<int> port;
    std::future<int> listening = port.get_future();
    std::atomic<bool> viewer_gone{false};
    std::exception_ptr send_error, view_error;
    std::thread sender([&] {
        bool listens = false;
        try {
            diffstream::send(
                s,
                [&](int p) {
                    listens = true;
                    port.set_value(p);
                },
                [&] { return viewer_gone.load(); });
        } catch (...) {
            send_error = std::current_exception();
            if (!listens)
                port.set_value(0);
        }
    });
    const int p = listening.get();
    try {
        v.address.port = std::to_string(p);
        v.reconnect = 0;
        if (p)
            diffstream::view(v);
    } catch (...) {
        view_error = std::current_exception();
    }
    viewer_gone = true;
    sender.join();
    for (const std::exception_ptr &error : {send_error, view_error})
        if (error)
            std::rethrow_exception(error);
    return sample::OK;
}

int run(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "--help";
    if (what == "send")
        return runSend(argc - 1, argv + 1);
    if (what == "view")
        return runView(argc - 1, argv + 1);
    if (what == "demo")
        return runDemo(argc - 1, argv + 1);
    const char *const help = "cusight-diffstream send INPUT      send a video as sparse differences\n"
                             "cusight-diffstream view [ADDRESS]  show or record what is sent\n"
                             "cusight-diffstream demo INPUT      both in one program, over loopback\n"
                             "Each has its own --help.\n";
    if (what != "--help" && what != "-h")
        throw sample::Stop(sample::USAGE, "'" + what + "' is unknown, expected send, view or demo");
    std::fputs(help, stdout);
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    // By default OpenMP's threads spin while they wait; on cores shared with other threads a frame then took 60 ms instead
    // of 1. The runtime reads its settings before main, hence the second start.
    if (!std::getenv("OMP_WAIT_POLICY")) {
        ::setenv("OMP_WAIT_POLICY", "passive", 1);
        ::execv("/proc/self/exe", argv); // if that fails, continue without
    }
    return sample::guarded(argc, argv, run);
}
