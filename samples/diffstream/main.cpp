// cusight-diffstream: live video as sparse differences. `send` captures and serves, `view` shows or records, and `demo` does
// both over loopback.
#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/terminal/options.hpp"
#include "common/output.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"
#include "diffstream/sender.hpp"
#include "diffstream/viewer.hpp"
#include "diffstream/web/options.hpp"
#include "diffstream/web/session_file.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <thread>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

namespace {

using diffstream::addWeb;
using diffstream::SendSettings;
using diffstream::ViewSettings;

// ---- The command lines -------------------------------------------------------------------------------------------------

void addTls(CLI::App &app, diffstream::TlsFiles &tls) {
    const auto file = [&](const char *name, std::string &value, const char *help) {
        sample::group(sample::addFile(app, name, sample::Names::INPUT, value, "FILE", help), "TLS 1.3");
    };
    file("--key", tls.key, "a key shared by both ends: 64 hexadecimal digits (openssl rand -hex 32)");
    file("--cert", tls.certificate, "certificate of this end, PEM; with --cert-key and --ca instead of --key");
    file("--cert-key", tls.private_key, "its private key, PEM");
    file("--ca", tls.authority, "authority that signed the other end's certificate, PEM");
}

void addSaveWire(CLI::App &app, SendSettings &s) {
    sample::addFile(
        app, "--save-wire", sample::Names::OUTPUT, s.session, "FILE.cusd",
        "write what a viewer of all frames receives: a session that `cusight-diffstream page` and the page of --web play");
}

void addSenderOptions(CLI::App &app, SendSettings &s) {
    sample::addInput(app, s.input);
    sample::addDevice(app, s.device);
    sample::addNumber(app, "--threshold", s.options.diff.threshold, 0, 255, "a byte that changed by N or less is not sent");
    sample::addNumber(app, "--min-neighbors", s.options.diff.min_neighbors, 0, 8,
                      "a changed pixel with fewer changed neighbors counts as noise and is not sent; 0: off");
    sample::addNumber(app, "--compression-level", s.options.compression_level, 1, 19, "zstd level");
    sample::addNumber(app, "--fps", s.rate, 0, 10000, "play at N frames per second; 0: each frame at its own time");
    sample::addFlag(app, "--unpaced", s.unpaced, "send as fast as possible");
    sample::addFlag(app, "--loop", s.loop, "start over at the end");
    sample::addFrames(app, s.max_frames);
    sample::addChoice(app, "--drop", s.drop, {"auto", "never", "latest"},
                      "if capture is faster than sending: never drop a frame, or keep only the latest; auto: never for "
                      "files, latest for cameras and URLs");
}

void addViewerOptions(CLI::App &app, ViewSettings &v) {
    sample::addOutput(app, v.record, sample::SINK_HELP);
    sample::addOverwrite(app);
    sample::addHeadless(app, v.headless);
    sample::addFlag(app, "--overlay", v.overlay, "write statistics into the picture");
    sample::addEncoding(app, v.encoding, false);
}

CLI::App *addSend(CLI::App &app, SendSettings &s, std::string &bind) {
    CLI::App *send =
        sample::addCommand(app, "send",
                           "Sends a video as sparse differences to any number of viewers. Listens on loopback; "
                           "any other address requires --key, or --cert, --cert-key and --ca.",
                           "  cusight-diffstream send 0                       camera 0, on 127.0.0.1:7878\n"
                           "  cusight-diffstream send 0 --bind 0.0.0.0:7878 --key stream.key\n");
    addSenderOptions(*send, s);
    sample::addText(*send, "--bind", bind, "HOST:PORT", "address to listen on; port 0: any free port");
    sample::addNumber(*send, "--min-viewers", s.wait, 0, 1000, "wait for N viewers before the first frame");
    sample::addNumber(*send, "--max-viewers", s.max_viewers, 1, 1000, "refuse further viewers");
    sample::addNumber(*send, "--max-pending", s.max_pending, 1, 1000,
                      "connections that have not said who they are, at most 4 from one address; beyond that one of them is "
                      "dropped");
    sample::addDuration(*send, "--timeout", s.timeout, 1, 3600, "drop a viewer that accepts no data for so long");
    sample::addFile(*send, "--frame-checksums", sample::Names::OUTPUT, s.digests, "FILE",
                    "write the CRC-32C of what viewers must see, one line per frame");
    addTls(*send, s.tls);
    addWeb(*send, s.web);
    addSaveWire(*send, s);
    return send;
}

CLI::App *addView(CLI::App &app, ViewSettings &v, std::string &address) {
    CLI::App *view = sample::addCommand(app, "view", "Shows or records what `cusight-diffstream send` sends.",
                                        "  cusight-diffstream view\n"
                                        "  cusight-diffstream view camera.example:7878 --key stream.key\n");
    sample::addPositional(*view, "ADDRESS", address, "where the sender listens: HOST or HOST:PORT", false);
    addViewerOptions(*view, v);
    sample::addDuration(*view, "--reconnect", v.reconnect, 0, 1e9, "keep trying for so long after the connection breaks");
    sample::addFrames(*view, v.max_frames);
    sample::addFile(*view, "--frame-checksums", sample::Names::OUTPUT, v.digests, "FILE",
                    "write the CRC-32C of each picture, one line per frame");
    addTls(*view, v.tls);
    return view;
}

CLI::App *addDemo(CLI::App &app, SendSettings &s, ViewSettings &v) {
    CLI::App *demo = sample::addCommand(app, "demo", "Runs a sender and a viewer in one program, over loopback.",
                                        "  cusight-diffstream demo video.mp4\n"
                                        "  cusight-diffstream demo video.mp4 --headless --overlay --output seen.mp4\n");
    addSenderOptions(*demo, s);
    addViewerOptions(*demo, v);
    sample::addFile(*demo, "--frame-checksums", sample::Names::OUTPUT, v.digests, "FILE",
                    "write the CRC-32C of each picture that the viewer sees, one line per frame");
    addWeb(*demo, s.web);
    addSaveWire(*demo, s);
    return demo;
}

CLI::App *addPage(CLI::App &app, std::string &session, std::string &folder) {
    CLI::App *page =
        sample::addCommand(app, "page", "Writes a page that plays a session of --save-wire without a server.",
                           "  cusight-diffstream send video.mp4 --unpaced --save-wire session.cusd\n"
                           "  cusight-diffstream page session.cusd session/    then open session/index.html\n");
    sample::names(sample::addPositional(*page, "SESSION", session, "what --save-wire has written, at most 256 MiB", true),
                  sample::Names::INPUT);
    sample::names(
        sample::addPositional(*page, "FOLDER", folder, "where the page's files go; made if it does not exist", true),
        sample::Names::FOLDER);
    sample::addOverwrite(*page);
    return page;
}

// ---- The commands ------------------------------------------------------------------------------------------------------

void runSend(const SendSettings &s) {
    const auto announce = [&](int port, const std::string &page) {
        std::fprintf(stderr, "listening on %s%s\n",
                     sample::printable(diffstream::Address{s.address.host, std::to_string(port)}.text()).c_str(),
                     s.tls.any() ? ", TLS" : "");
        if (!page.empty())
            std::fprintf(stderr, "in a browser: %s\n", sample::printable(page).c_str());
    };
    diffstream::send(s, announce, [] { return false; });
}

void runDemo(SendSettings &s, ViewSettings &v) {
    s.address.port = "0";
    s.wait = 1;
    s.progress = false;
    if (!v.headless)
        sample::displayProblem(); // forks, so it must come before any threads

    // A recording of a file lacks no frame, and has the times of its frames: the sender waits for the viewer.
    diffstream::FrameTimes times;
    if (!v.record.empty())
        s.times = v.times = &times;

    std::promise<int> port;
    std::future<int> listening = port.get_future();
    std::atomic<bool> viewer_gone{false};
    std::exception_ptr send_error, view_error;
    std::thread sender([&] {
        bool listens = false;
        try {
            diffstream::send(
                s,
                [&](int p, const std::string &page) {
                    listens = true;
                    if (!page.empty())
                        std::fprintf(stderr, "in a browser: %s\n", sample::printable(page).c_str());
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
        v.beside_sender = true;
        if (p)
            diffstream::view(v);
    } catch (...) {
        view_error = std::current_exception();
    }
    viewer_gone = true;
    times.close();
    sender.join();
    for (const std::exception_ptr &error : {send_error, view_error})
        if (error)
            std::rethrow_exception(error);
}

// Rejects inputs that cannot be read again, and pictures as logs.
void checkFiles(const SendSettings &s, const ViewSettings &v) {
    for (const std::string &input : s.input.names)
        if (s.loop && sample::isStandard(input))
            throw sample::Stop(sample::USAGE, "INPUT is '" + input + "', expected what can be read again for --loop");
    sample::requireText("--frame-checksums", s.digests);
    sample::requireText("--frame-checksums", v.digests);
}

int run(int argc, char **argv) {
    const auto app =
        sample::makeApp("cusight-diffstream", "Live video as sparse differences. Each command has its own --help.", "");
    sample::requireCommand(*app);
    SendSettings s;
    ViewSettings v;
    std::string bind = s.address.text(), address = v.address.text(), session, folder;
    CLI::App *const send = addSend(*app, s, bind), *const view = addView(*app, v, address);
    CLI::App *const page = addPage(*app, session, folder);
    addDemo(*app, s, v);
    if (!sample::parse(*app, argc, argv))
        return sample::OK;
    checkFiles(s, v);
    if (sample::isParsed(*send)) {
        s.address = diffstream::parseAddress(bind, s.address.host, s.address.port);
        runSend(s);
    } else if (sample::isParsed(*view)) {
        v.address = diffstream::parseAddress(address, v.address.host, v.address.port);
        diffstream::view(v);
    } else if (sample::isParsed(*page)) {
        diffstream::writeSessionPage(session, folder);
    } else {
        runDemo(s, v);
    }
    return sample::OK;
}

} // namespace

int main(int argc, char **argv) {
    // OpenMP's threads spin while they wait. On cores shared with capture, viewers and other programs, a frame then took 60
    // ms instead of 1. The runtime reads its settings before main, hence the restart.
    if (!std::getenv("OMP_WAIT_POLICY")) {
        ::setenv("OMP_WAIT_POLICY", "passive", 1);
        ::execv("/proc/self/exe", argv); // if that fails, continue without it
    }
#ifdef __GLIBC__
    // By default the limit grows with use, and buffers of viewers that come and go would leave holes in the heap.
    ::mallopt(M_MMAP_THRESHOLD, 256 * 1024);
#endif
    return sample::guarded(argc, argv, run);
}
