// Helpers of the tests of live video: sender, peer and viewer as C++ objects, messages made by hand.
#pragma once

#include "cusight/live.h"

#include "reference/framediff.hpp"
#include "../support.hpp"

#include <algorithm>

namespace live_test {

using Bytes = std::vector<uint8_t>;

inline int typeOf(int channels) {
    return CUS_MAKETYPE(CUS_8U, channels);
}

// A build without libzstd has the functions, but cannot create the objects.
inline bool haveZstd() {
    support::Owned<cusViewerDestroy> viewer;
    return cusViewerCreate(&viewer, nullptr) != CUS_ERROR_UNSUPPORTED;
}
#define NEEDS_ZSTD()                                 \
    do {                                             \
        if (!haveZstd())                             \
            GTEST_SKIP() << "built without libzstd"; \
    } while (0)

// A copy of a packed frame, to use after its release.
struct Packed {
    uint64_t sequence = 0;
    Bytes message, key_frame, mask, values;
    int has_checksum = 0, error_bound = 0;
    uint32_t checksum = 0;
    cusSentFrame frame() const {
        cusSentFrame f = {};
        f.sequence = sequence;
        f.message = message.data();
        f.message_bytes = message.size();
        f.key_frame = key_frame.empty() ? nullptr : key_frame.data();
        f.key_frame_bytes = key_frame.size();
        f.mask = mask.data();
        f.values = values.data();
        f.count = static_cast<uint32_t>(values.size());
        f.has_checksum = has_checksum;
        f.error_bound = error_bound;
        f.checksum = checksum;
        return f;
    }
};

inline Packed copyOf(const cusSentFrame &f, reference::Shape s) {
    const size_t mask_bytes = (static_cast<size_t>(s.cols) * s.channels + 7) / 8 * s.rows;
    Packed p;
    p.sequence = f.sequence;
    p.message.assign(f.message, f.message + f.message_bytes);
    if (f.key_frame)
        p.key_frame.assign(f.key_frame, f.key_frame + f.key_frame_bytes);
    p.mask.assign(f.mask, f.mask + mask_bytes);
    p.values.assign(f.values, f.values + f.count);
    p.has_checksum = f.has_checksum;
    p.error_bound = f.error_bound;
    p.checksum = f.checksum;
    return p;
}

struct Sender {
    Sender(reference::Shape shape, cusSpace space, int threshold = 20, int max_in_flight = 4) : s(shape) {
        cusSenderOptions options = cusSenderDefaults();
        options.diff.threshold = threshold;
        options.max_in_flight = max_in_flight;
        CUS_EXPECT_OK(cusSenderCreate(&sender, s.rows, s.cols, typeOf(s.channels), space, &options));
    }

    Packed send(const Bytes &tight, bool with_key_frame = false) {
        cusMat frame = CUS_MAT_INIT;
        CUS_EXPECT_OK(
            cusMatWrap(&frame, s.rows, s.cols, typeOf(s.channels), CUS_HOST, const_cast<uint8_t *>(tight.data()), 0));
        CUS_EXPECT_OK(cusSenderSubmit(sender, &frame, with_key_frame, nullptr));
        cusSentFrame f = {};
        CUS_EXPECT_OK(cusSenderFinish(sender, &f));
        const Packed p = copyOf(f, s);
        CUS_EXPECT_OK(cusSenderRelease(sender));
        return p;
    }
    Bytes reference() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusSenderReference(sender, &view));
        return support::elements(view);
    }
    reference::Shape s;
    support::Owned<cusSenderDestroy> sender;
};

struct Peer {
    explicit Peer(reference::Shape s, uint32_t rate = 25000) {
        CUS_EXPECT_OK(cusPeerCreate(&peer, s.rows, s.cols, typeOf(s.channels), rate));
    }
    void offer(const Packed &p) {
        const cusSentFrame f = p.frame();
        CUS_EXPECT_OK(cusPeerOffer(peer, &f));
    }
    // Takes up to `most` bytes of the output.
    Bytes take(size_t most = SIZE_MAX) {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        CUS_EXPECT_OK(cusPeerOutput(peer, &data, &bytes));
        const size_t n = std::min(bytes, most);
        const Bytes out(data, data + n);
        CUS_EXPECT_OK(cusPeerSent(peer, n));
        return out;
    }
    cusPeerInfo info() const {
        cusPeerInfo i = {};
        CUS_EXPECT_OK(cusPeerQuery(peer, &i));
        return i;
    }
    support::Owned<cusPeerDestroy> peer;
};

struct Viewer {
    explicit Viewer(size_t max_frame_bytes = size_t{1} << 28, int checksums = 0) {
        cusViewerOptions options = cusViewerDefaults();
        options.max_frame_bytes = max_frame_bytes;
        options.checksums = checksums;
        CUS_EXPECT_OK(cusViewerCreate(&viewer, &options));
    }
    // Passes the data on, n bytes at a time; onUpdate runs after each update.
    template<class F>
    cusStatus feed(const Bytes &data, F &&onUpdate, size_t piece = SIZE_MAX) {
        for (size_t at = 0; at < data.size();) {
            const size_t n = std::min(piece, data.size() - at);
            const Bytes part(data.begin() + static_cast<long>(at), data.begin() + static_cast<long>(at + n));
            size_t used = 0;
            cusViewerUpdate update = CUS_VIEWER_NOTHING;
            const cusStatus status = cusViewerInput(viewer, part.data(), n, &used, &update);
            if (status != CUS_OK)
                return status;
            at += used;
            if (update != CUS_VIEWER_NOTHING)
                onUpdate(update);
        }
        return CUS_OK;
    }
    cusStatus feed(const Bytes &data) {
        return feed(data, [](cusViewerUpdate) {});
    }
    Bytes take() {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        CUS_EXPECT_OK(cusViewerOutput(viewer, &data, &bytes));
        const Bytes out(data, data + bytes);
        CUS_EXPECT_OK(cusViewerSent(viewer, bytes));
        return out;
    }
    Bytes frame() const {
        cusMat view = CUS_MAT_INIT;
        CUS_EXPECT_OK(cusViewerFrame(viewer, &view));
        return support::elements(view);
    }
    cusViewerInfo info() const {
        cusViewerInfo i = {};
        CUS_EXPECT_OK(cusViewerQuery(viewer, &i));
        return i;
    }
    support::Owned<cusViewerDestroy> viewer;
};

// Completes the handshake.
inline void connect(Peer &peer, Viewer &viewer) {
    const Bytes hello = viewer.take();
    CUS_ASSERT_OK(cusPeerInput(peer.peer, hello.data(), hello.size()));
    CUS_ASSERT_OK(viewer.feed(peer.take()));
}

// The next frame of a synthetic video: a share of the bytes gets a new value, others vary within the threshold.
inline void advance(Bytes &frame, double share, std::mt19937_64 &random) {
    for (auto &b : frame) {
        const uint64_t r = random();
        if (static_cast<double>(r >> 40) < share * (1 << 24))
            b = static_cast<uint8_t>(r);
        else if ((r & 7) == 0)
            b = static_cast<uint8_t>(std::clamp(b + static_cast<int>(r >> 3 & 7) - 3, 0, 255));
    }
}

inline Bytes simple(cusWireType type, uint64_t sequence = 0) {
    cusWireHeader header = {};
    header.type = type;
    header.sequence = sequence;
    Bytes out(CUS_WIRE_HEADER_BYTES);
    CUS_EXPECT_OK(cusWirePack(&header, nullptr, out.data()));
    return out;
}

inline Bytes message(const cusWireHeader &header, const Bytes &payload) {
    Bytes out(CUS_WIRE_HEADER_BYTES);
    CUS_EXPECT_OK(cusWirePack(&header, payload.data(), out.data()));
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

inline Bytes join(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const auto &p : parts)
        all.insert(all.end(), p.begin(), p.end());
    return all;
}

} // namespace live_test
