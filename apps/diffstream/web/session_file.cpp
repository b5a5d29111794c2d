#include "diffstream/web/session_file.hpp"

#include "diffstream/web/visit.hpp"

#include "cusight/opencv.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

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

const char *const DECODER = "decoder.wasm", *const RECORDING = "recording.js";

std::string base64(std::string_view bytes) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve(bytes.size() / 3 * 4 + 4);
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const size_t n = std::min<size_t>(3, bytes.size() - i);
        uint32_t three = 0;
        for (size_t k = 0; k < 3; ++k)
            three = three << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0);
        for (size_t k = 0; k < 4; ++k)
            out += k <= n ? DIGITS[three >> (18 - 6 * k) & 63] : '=';
    }
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
        if (file.name != DECODER)
            sample::currentFiles().derive("FOLDER", folder, place(file.name));
    sample::currentFiles().derive("FOLDER", folder, place(RECORDING));
    std::ifstream in(session, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    cusWireHeader header = {};
    if (bytes.size() < CUS_WIRE_HEADER_BYTES ||
        cusWireParse(reinterpret_cast<const uint8_t *>(bytes.data()), &header) != CUS_OK || header.type != CUS_WIRE_HELLO)
        throw sample::Stop(sample::INPUT,
                           session + ": expected a session that cusight-diffstream send --save-wire has written");
    sample::makeFolder(folder);
    std::string decoder;
    for (const WebFile &file : webFiles()) {
        std::string content(file.content);
        if (file.name == DECODER) {
            decoder = base64(file.content);
            continue; // a page opened as a file cannot fetch it
        }
        const std::string mark = "<!-- recording -->";
        const size_t at = content.find(mark);
        if (file.name == "index.html" && at != std::string::npos)
            content.replace(at, mark.size(), std::string("<script src=\"") + RECORDING + "\"></script>");
        writeFile(place(file.name), content);
    }
    writeFile(place(RECORDING), "\"use strict\";\nwindow.CUSIGHT_RECORDING = {name: \"a recorded session\", decoder: \"" +
                                    decoder + "\",\nsession: \"" + base64(bytes) + "\"};\n");
}

} // namespace diffstream
