// Fuzzes the decoder of raw bytes: in pieces cut anywhere, into arrays of any capacity, it gives what the reference makes of
// the whole.
//
// The first byte chooses the format (bits 0..2), whether bad events are skipped (3) and a sensor (4, 5); the next four are the seed of
// the cuts.
#include "cusight/raw.h"

#include "reference/raw.hpp"

#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

void require(bool condition) {
    if (!condition)
        std::abort();
}

struct Arrays {
    reference::Events events;
    std::vector<cusEventTrigger> triggers;
};

// One run into arrays of exactly this capacity, so that AddressSanitizer sees a write past them. Appends what it delivers.
cusEventDecoded run(cusEventDecoder *decoder, const uint8_t *bytes, size_t size, size_t capacity, size_t trigger_capacity,
                    Arrays &all) {
    const std::vector<uint8_t> piece(bytes, bytes + size);
    std::vector<uint16_t> x(capacity), y(capacity);
    std::vector<uint8_t> p(capacity);
    std::vector<int64_t> t(capacity);
    std::vector<cusEventTrigger> triggers(trigger_capacity + 1); // not NULL
    const cusEventBuffers buffers = {
        capacity ? x.data() : nullptr, y.data(), p.data(), t.data(), capacity, triggers.data(), trigger_capacity};
    cusEventDecoded done = {};
    const cusStatus status = cusEventDecoderRun(decoder, piece.data(), size, &buffers, &done, nullptr);
    require(status == done.status && done.count <= capacity && done.triggers <= trigger_capacity && done.used <= size);
    for (size_t i = 0; i < done.count; ++i)
        all.events.add(t[i], x[i], y[i], p[i]);
    all.triggers.insert(all.triggers.end(), triggers.begin(), triggers.begin() + std::ptrdiff_t(done.triggers));
    return done;
}

void check(const cusEventDecoderOptions &options, const std::vector<uint8_t> &stream, std::minstd_rand &random) {
    reference::Raw expected(options);
    expected.run(stream);
    cusEventDecoder *decoder = nullptr;
    require(cusEventDecoderCreate(&decoder, &options) == CUS_OK);
    const size_t longest = 1 + random() % 300;
    Arrays all;
    cusEventDecoded last = {};
    for (size_t at = 0; at < stream.size() && last.status != CUS_ERROR_FORMAT;) {
        const size_t n = std::min<size_t>(stream.size() - at, random() % (longest + 1));
        last = run(decoder, stream.data() + at, n, random() % 70, random() % 5, all);
        if (last.status != CUS_OK && random() % 4 == 0) {
            cusEventDecoderState state;
            require(cusEventDecoderGetState(decoder, &state) ==
                    (last.status == CUS_ERROR_FORMAT ? CUS_ERROR_FORMAT : CUS_OK));
        }
        at += last.used;
    }
    if (last.status != CUS_ERROR_FORMAT)
        last = run(decoder, stream.data(), 0, 40, 10, all); // what was left of a vector
    const cusStatus status = expected.status == CUS_ERROR_TRUNCATED ? CUS_OK : expected.status;
    if (status == CUS_ERROR_FORMAT)
        require(cusLastError() == "cusEventDecoderRun: " + expected.message ||
                cusLastError() == "cusEventDecoderGetState: " + expected.message);
    require(last.status == status && last.index == expected.index);
    require(std::memcmp(&last.counts, &expected.counts, sizeof last.counts) == 0);
    require(all.events == expected.events && all.triggers.size() == expected.triggers.size());
    for (size_t i = 0; i < all.triggers.size(); ++i)
        require(std::memcmp(&all.triggers[i], &expected.triggers[i], sizeof all.triggers[i]) == 0);
    require(cusEventDecoderFinish(decoder, nullptr) ==
            (expected.status == CUS_ERROR_TRUNCATED ? CUS_ERROR_TRUNCATED : CUS_OK));
    cusEventDecoderDestroy(decoder);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const cusEventFormat formats[6] = {CUS_EVENTS_EVT2, CUS_EVENTS_EVT21, CUS_EVENTS_EVT3,
                                              CUS_EVENTS_EVT4, CUS_EVENTS_DAT,   CUS_EVENTS_EVT21};
    static const int sides[4] = {0, 64, 1280, 65536};
    if (size < 5)
        return 0;
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    const int kind = (data[0] & 7) % 6;
    options.format = formats[kind];
    options.legacy = kind == 5;
    options.bad_events = data[0] & 8 ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    options.width = options.height = sides[data[0] >> 4 & 3];
    uint32_t seed = 0;
    std::memcpy(&seed, data + 1, 4);
    std::minstd_rand random(seed);
    const std::vector<uint8_t> stream(data + 5, data + size);

    check(options, stream, random);
    return 0;
}
