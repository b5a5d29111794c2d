// The two parsers of the stream module under arbitrary bytes. Shared by the libFuzzer programs here and by the test that
// replays the corpus without a fuzzer.
//
// First byte of an input: bit 0: mend each message's magic, version and checksum on its way in, so that mutations get past
// them; bits 1..3: size of the pieces it arrives in.
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

// Follows the messages as a reader would and makes each one's header acceptable.
inline void mend(std::vector<uint8_t> &bytes) {
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
        piece = size_t{1} << (2 * (data[0] >> 1 & 7));
        bytes.assign(data + 1, data + size);
        if (data[0] & 1)
            mend(bytes);
    }
    size_t piece = 1;
    std::vector<uint8_t> bytes;
};

// A viewer fed by whatever claims to be a sender. Holds it to: bounded memory, no way back from a failure, a picture that
// only changes together with a report of a frame.
inline void viewer(const uint8_t *data, size_t size) {
    Input input(data, size);
    cusViewerOptions options = cusViewerDefaults();
    options.max_frame_bytes = 1 << 16;
    cusViewer *v = nullptr;
    require(cusViewerCreate(&v, &options) == CUS_OK);
    std::vector<uint8_t> before;
    cusStatus status = CUS_OK;
    for (size_t at = 0; at < input.bytes.size() && status == CUS_OK;) {
        const size_t n = std::min(input.piece, input.bytes.size() - at);
        size_t used = 0;
        cusViewerUpdate event = CUS_VIEWER_NOTHING;
        // A copy of its own, so that reading past the end is seen.
        const std::vector<uint8_t> piece(&input.bytes[at], &input.bytes[at] + n);
        status = cusViewerInput(v, piece.data(), n, &used, &event);
        require(used <= n && (status != CUS_OK || event != CUS_VIEWER_NOTHING || used == n));
        at += used;

        cusMat picture = CUS_MAT_INIT;
        if (cusViewerPicture(v, &picture) == CUS_OK) {
            const size_t picture_bytes = picture.step * static_cast<size_t>(picture.rows);
            require(picture_bytes <= options.max_frame_bytes);
            const auto *first = static_cast<const uint8_t *>(picture.data);
            const std::vector<uint8_t> now(first, first + picture_bytes);
            require(event == CUS_VIEWER_FRAME || event == CUS_VIEWER_CONNECTED || now == before);
            before = now;
        }
        const uint8_t *out = nullptr;
        size_t out_bytes = 0;
        require(cusViewerOutput(v, &out, &out_bytes) == CUS_OK && out_bytes <= 3 * CUS_WIRE_HEADER_BYTES);
        require(cusViewerSent(v, out_bytes) == CUS_OK);
    }
    if (status != CUS_OK) {
        size_t used = 0;
        cusViewerUpdate event = CUS_VIEWER_NOTHING;
        require(cusViewerInput(v, "x", 1, &used, &event) == status);
    }
    cusViewerDestroy(v);
}

// A peer fed by whatever claims to be a viewer, while frames are offered and what it puts out is taken away at a pace that
// depends on the input.
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
        const size_t n = std::min(input.piece, input.bytes.size() - at);
        const std::vector<uint8_t> piece(&input.bytes[at], &input.bytes[at] + n);
        status = cusPeerInput(p, piece.data(), n);
        at += n;
        cusPeerInfo info;
        require(cusPeerQuery(p, &info) == CUS_OK);
        ++frame.sequence;
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
