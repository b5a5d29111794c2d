#include "diffstream/web/session_file.hpp"

#include "diffstream/web/files.hpp"

#include "cusight/opencv.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

namespace diffstream {

using cusight::check;

SessionFile::SessionFile(const std::string &path, cv::Size size, uint32_t rate_millihertz) : file_(path) {
    check(cusPeerCreate(&peer_, size.height, size.width, CUS_8UC3, rate_millihertz));
    for (const cusWireType type : {CUS_WIRE_HELLO, CUS_WIRE_REQUEST_CHECKSUMS}) {
        cusWireHeader header = {};
        header.type = type;
        uint8_t message[CUS_WIRE_HEADER_BYTES];
        check(cusWirePack(&header, nullptr, message));
        check(cusPeerInput(peer_, message, sizeof message));
    }
}

SessionFile::~SessionFile() {
    cusPeerDestroy(peer_);
}

void SessionFile::drain() {
    const uint8_t *data = nullptr;
    size_t bytes = 0;
    for (check(cusPeerOutput(peer_, &data, &bytes)); bytes > 0; check(cusPeerOutput(peer_, &data, &bytes))) {
        file_.write(data, bytes);
        check(cusPeerSent(peer_, bytes));
    }
}

void SessionFile::write(const cusSentFrame &frame) {
    check(cusPeerOffer(peer_, &frame));
    drain();
}

void SessionFile::finish() {
    check(cusPeerFinish(peer_));
    drain();
    file_.commit();
}

// ---- The page ----------------------------------------------------------------------------------------------------------

namespace {

const char *const LIBRARY = "cusight-simd.wasm", *const PLAIN_LIBRARY = "cusight.wasm", *const RECORDING = "recording.js";

// A session of a stranger: a regular file of limited size, of which no more than a piece is in memory.
class SessionInput {
  public:
    explicit SessionInput(const std::string &path) : path_(path) {
        descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); // a pipe must not wait
        struct stat about = {};
        if (descriptor_ < 0 || ::fstat(descriptor_, &about) != 0)
            fail(std::strerror(errno));
        if (!S_ISREG(about.st_mode))
            fail("expected a regular file");
        size_ = static_cast<uint64_t>(about.st_size);
        if (size_ > MAX_SESSION)
            fail(sample::text("expected at most %llu bytes, which browsers can load as a page; it has %llu",
                              static_cast<unsigned long long>(MAX_SESSION), static_cast<unsigned long long>(size_)));
    }
    ~SessionInput() {
        if (descriptor_ >= 0)
            ::close(descriptor_);
    }
    SessionInput(const SessionInput &) = delete;
    SessionInput &operator=(const SessionInput &) = delete;

    // Calls use(piece) for all of the file, from its start.
    template<class F>
    void forEachPiece(F &&use) {
        std::array<char, 3 << 14> piece; // base64 takes bytes by threes
        for (uint64_t at = 0; at < size_;) {
            const auto want = static_cast<size_t>(std::min<uint64_t>(piece.size(), size_ - at));
            size_t have = 0;
            while (have < want) {
                const ssize_t n = ::pread(descriptor_, &piece[have], want - have, static_cast<off_t>(at + have));
                if (n == 0 || (n < 0 && errno != EINTR))
                    fail(n == 0 ? "has become shorter" : std::strerror(errno));
                have += static_cast<size_t>(std::max<ssize_t>(n, 0));
            }
            use(std::string_view(piece.data(), have));
            at += have;
        }
    }

    // Throws unless the page's decoder takes it, whole.
    void check() {
        struct Destroy {
            void operator()(cusViewer *viewer) const { cusViewerDestroy(viewer); }
        };
        cusViewerOptions options = cusViewerDefaults();
        options.checksums = 1;
        cusViewer *made = nullptr;
        cusight::check(cusViewerCreate(&made, &options));
        const std::unique_ptr<cusViewer, Destroy> viewer(made);
        bool ended = false;
        forEachPiece([&](std::string_view piece) {
            while (!piece.empty()) {
                size_t used = 0;
                cusViewerUpdate update = CUS_VIEWER_NOTHING;
                if (ended || cusViewerInput(viewer.get(), piece.data(), piece.size(), &used, &update) != CUS_OK)
                    fail(EXPECTED + (ended ? "; it goes on after its end" : "; " + sample::lastMessage()));
                if (update == CUS_VIEWER_BASE_MISSING)
                    fail(EXPECTED + "; frames are missing");
                ended = update == CUS_VIEWER_ENDED;
                piece.remove_prefix(used);
            }
        });
        if (!ended)
            fail(EXPECTED + sample::text("; it is not complete, %llu bytes", static_cast<unsigned long long>(size_)));
    }

  private:
    static inline const std::string EXPECTED = "expected a session that cusight-diffstream send --save-wire has written";

    [[noreturn]] void fail(const std::string &why) {
        if (descriptor_ >= 0)
            ::close(std::exchange(descriptor_, -1));
        throw sample::Stop(sample::INPUT, path_ + ": " + why);
    }

    const std::string path_;
    int descriptor_ = -1;
    uint64_t size_ = 0;
};

std::string base64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
    EVP_EncodeBlock(reinterpret_cast<unsigned char *>(out.data()), reinterpret_cast<const unsigned char *>(bytes.data()),
                    static_cast<int>(bytes.size()));
    out.pop_back(); // a 0 that it adds
    return out;
}

void writeFile(const std::string &path, std::string_view content) {
    sample::OutputFile file(path);
    file.write(content.data(), content.size());
    file.commit();
}

} // namespace

void writeSessionPage(const std::string &session, const std::string &folder) {
    if (!webProblem().empty())
        throw sample::Stop(sample::USAGE, "page is not available: " + webProblem());
    const auto place = [&](std::string_view name) { return folder + "/" + std::string(name); };
    for (const WebFile &file : webFiles())
        if (file.name != LIBRARY && file.name != PLAIN_LIBRARY)
            sample::currentFiles().derive("FOLDER", folder, place(file.name));
    sample::currentFiles().derive("FOLDER", folder, place(RECORDING));
    SessionInput in(session);
    in.check();
    sample::makeFolder(folder);
    std::string library;
    for (const WebFile &file : webFiles()) {
        if (file.name == LIBRARY)
            library = base64(file.content);
        if (file.name == LIBRARY || file.name == PLAIN_LIBRARY)
            continue; // a page opened as a file cannot fetch them
        std::string content(file.content);
        const std::string mark = "<!-- recording -->";
        const size_t at = content.find(mark);
        if (file.name == "index.html" && at != std::string::npos)
            content.replace(at, mark.size(), std::string("<script src=\"") + RECORDING + "\"></script>");
        writeFile(place(file.name), content);
    }
    sample::OutputFile recording(place(RECORDING));
    const auto write = [&](const std::string &text) { recording.write(text.data(), text.size()); };
    write("\"use strict\";\nwindow.CUSIGHT_RECORDING = {name: \"a recorded session\", module: \"" + library +
          "\",\nsession: \"");
    in.forEachPiece([&](std::string_view piece) { write(base64(piece)); });
    write("\"};\n");
    recording.commit();
}

} // namespace diffstream
