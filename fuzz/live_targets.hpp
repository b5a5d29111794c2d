// The two parsers of live video on arbitrary bytes, for the libFuzzer programs here and for the test that replays the seeds
// without a fuzzer.
//
// First byte of an input: bit 0: repair the magic, version and checksum of each message, so that mutations get past these
// checks; bits 1..3, n: the input arrives in reads of 4^n bytes.
#pragma once

#include "cusight/live.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fuzz {

inline void require(bool holds) {
    if (!holds)
        std::abort();
}

// Finds the messages as a reader does and makes each header acceptable.
inline void repairHeaders(std::vector<uint8_t> &bytes) {
    for (size_t at = 0; at + CUS_WIRE_HEADER_BYTES <= bytes.size();) {
        uint8_t *header = &bytes[at];
        std::memcpy(header, "CUSD\1\0", 6);
        uint32_t payload;
        std::memcpy(&payload, header + 8, 4);
        const size_t left = bytes.size() - at - CUS_WIRE_HEADER_BYTES;
        if (payload <= left) {
            const uint32_t crc = cusCrc32c(cusCrc32c(0, header, 44), header + CUS_WIRE_HEADER_BYTES, payload);
            std::memcpy(header + 44, &crc, 4);
        }
        at += CUS_WIRE_HEADER_BYTES + std::min<size_t>(payload, left);
    }
}

struct Input {
    Input(const uint8_t *data, size_t size) {
        if (size == 0)
            return;
        read_bytes = size_t{1} << (2 * (data[0] >> 1 & 7));
        bytes.assign(data + 1, data + size);
        if (data[0] & 1)
            repairHeaders(bytes);
    }
    size_t read_bytes = 1;
    std::vector<uint8_t> bytes;
};

// A viewer with an arbitrary sender. Requires bounded memory, no way back from a failure, and a frame that changes only
// together with an update that says so.
inline void viewer(const uint8_t *data, size_t size) {
    Input input(data, size);
    cusViewerOptions options = cusViewerDefaults();
    options.max_frame_bytes = 1 << 16;
    options.checksums = 1;
    cusViewer *v = nullptr;
    require(cusViewerCreate(&v, &options) == CUS_OK);
    std::vector<uint8_t> before;
    cusStatus status = CUS_OK;
    for (size_t at = 0; at < input.bytes.size() && status == CUS_OK;) {
        const size_t n = std::min(input.read_bytes, input.bytes.size() - at);
        size_t used = 0;
        cusViewerUpdate update = CUS_VIEWER_NOTHING;
        // A separate copy, so that the sanitizer detects reads past its end.
        const std::vector<uint8_t> piece(&input.bytes[at], &input.bytes[at] + n);
        status = cusViewerInput(v, piece.data(), n, &used, &update);
        require(used <= n && (status != CUS_OK || update != CUS_VIEWER_NOTHING || used == n));
        at += used;

        cusMat frame = CUS_MAT_INIT;
        if (cusViewerFrame(v, &frame) == CUS_OK) {
            const size_t frame_bytes = frame.step * static_cast<size_t>(frame.rows);
            require(frame_bytes <= options.max_frame_bytes);
            const auto *first = static_cast<const uint8_t *>(frame.data);
            const std::vector<uint8_t> now(first, first + frame_bytes);
            require(update == CUS_VIEWER_FRAME || update == CUS_VIEWER_CONNECTED || now == before);
            before = now;
        }
        const uint8_t *out = nullptr;
        size_t out_bytes = 0;
        require(cusViewerOutput(v, &out, &out_bytes) == CUS_OK && out_bytes <= 4 * CUS_WIRE_HEADER_BYTES);
        require(cusViewerSent(v, out_bytes) == CUS_OK);
    }
    if (status != CUS_OK) {
        size_t used = 0;
        cusViewerUpdate update = CUS_VIEWER_NOTHING;
        require(cusViewerInput(v, "x", 1, &used, &update) == status);
    }
    cusViewerDestroy(v);
}

// A peer with an arbitrary viewer, while frames are offered and its output is read at a rate that depends on the input.
inline void peer(const uint8_t *data, size_t size) {
    Input input(data, size);
    const int rows = 5, cols = 7;
    cusPeer *p = nullptr;
    require(cusPeerCreate(&p, rows, cols, CUS_8UC3, 25000) == CUS_OK);
    const uint8_t mask[15] = {1}, values[1] = {77};
    uint8_t message[100] = {0};
    cusSentFrame frame = {};
    frame.message = message;
    frame.message_bytes = sizeof message;
    frame.mask = mask;
    frame.values = values;
    frame.count = 1;
    cusStatus status = CUS_OK;
    for (size_t at = 0; at < input.bytes.size() && status == CUS_OK;) {
        const size_t n = std::min(input.read_bytes, input.bytes.size() - at);
        const std::vector<uint8_t> piece(&input.bytes[at], &input.bytes[at] + n);
        status = cusPeerInput(p, piece.data(), n);
        at += n;
        cusPeerInfo info;
        require(cusPeerQuery(p, &info) == CUS_OK);
        ++frame.sequence;
        frame.has_checksum = frame.sequence % 3 == 0;
        frame.key_frame = info.wants_key_frame ? message : nullptr;
        frame.key_frame_bytes = info.wants_key_frame ? sizeof message : 0;
        require(cusPeerOffer(p, &frame) == status);
        const uint8_t *out = nullptr;
        size_t out_bytes = 0;
        require(cusPeerOutput(p, &out, &out_bytes) == status);
        if (status == CUS_OK)
            require(cusPeerSent(p, std::min<size_t>(out_bytes, piece[0])) == CUS_OK);
    }
    cusPeerDestroy(p);
}

} // namespace fuzz
