// Fuzzes the decoder of raw bytes: in pieces cut anywhere, into arrays of any capacity, it gives what the reference makes of
// the whole.
//
// The first byte chooses the format (bits 0..2; 6: frames of chunks made of the bytes, 7: that the bytes are), whether bad events are
// skipped (3), a sensor (4, 5) and whether chunks are columns of LZF (6) or ECF's; the next four are the seed of the cuts.
#include "cusight/raw.h"

#include "reference/frames.hpp"
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

// LZF of `size` bytes: the tokens that the bytes are, with distances that are there and lengths that fit, and copies for what is missing.
std::vector<uint8_t> mended(const std::vector<uint8_t> &in, size_t size) {
    std::vector<uint8_t> out;
    size_t made = 0, at = 0;
    const auto next = [&]() -> size_t { return at < in.size() ? in[at++] : 0; };
    const auto match = [&](size_t length, size_t distance) {
        reference::appendMatch(out, std::min(length, size - made), std::min(distance, made));
        made += std::min(length, size - made);
    };
    while (at < in.size() && made < size) {
        const size_t control = next();
        if (control < 32 || made == 0 || size - made < 3) {
            const size_t n = std::min(control % 32 + 1, size - made);
            out.push_back(static_cast<uint8_t>(n - 1));
            for (size_t i = 0; i < n; ++i)
                out.push_back(static_cast<uint8_t>(next()));
            made += n;
            continue;
        }
        const size_t length = 2 + (control >> 5) + (control >> 5 == 7 ? next() : 0);
        match(length, ((control & 31) << 8 | next()) + 1);
    }
    while (made < size)
        if (made && size - made >= 3)
            match(264, 1);
        else
            out.insert(out.end(), {0, 0}), ++made;
    return out;
}

// A chunk of LZF's columns that the bytes give: flags, rows, an offset, how many bytes x, y and p have, which columns are not compressed,
// and the columns; mended unless the first byte has its highest bit.
std::vector<uint8_t> columnsOf(const std::vector<uint8_t> &bytes, size_t taken) {
    const auto at = [&](size_t i) -> uint64_t { return i < bytes.size() ? bytes[i] : 0; };
    const bool is_mended = at(0) < 128;
    reference::StoredColumns chunk;
    chunk.rows = is_mended ? std::max<uint64_t>(at(1), taken) : at(1);
    chunk.flags = at(0) == 255 ? 255 : at(0) & 7;
    chunk.offset = (at(2) | at(3) << 8) - (at(0) >> 3 & 7); // may be below 0
    size_t from = std::min<size_t>(bytes.size(), 8);
    for (size_t k = 0; k < 4; ++k) {
        const size_t left = bytes.size() - from, size = k == 3 ? left : std::min<size_t>(at(4 + k), left),
                     full = size_t(chunk.rows) * (k < 2             ? 2
                                                  : k == 2          ? 1
                                                  : chunk.flags & 1 ? 4
                                                                    : 8);
        std::vector<uint8_t> column(bytes.begin() + std::ptrdiff_t(from), bytes.begin() + std::ptrdiff_t(from + size));
        const bool plain = at(7) >> k & 1;
        if (is_mended && plain)
            column.resize(full);
        else if (is_mended)
            column = mended(column, full);
        chunk.store(k, std::move(column), plain);
        from += size;
    }
    return chunk.chunk();
}

// Frames of chunks that the bytes give: sizes, events that are taken, and what is in them.
std::vector<uint8_t> framesOf(const std::vector<uint8_t> &bytes, cusEventFormat format) {
    std::vector<uint8_t> stream;
    for (size_t at = 0; at < bytes.size();) {
        std::vector<std::vector<uint8_t>> chunks;
        std::vector<uint32_t> taken;
        for (size_t n = 1 + bytes[at++] % 4; n > 0 && at + 2 < bytes.size(); --n) {
            const size_t from = at + 2, size = std::min<size_t>(bytes[at], bytes.size() - from);
            taken.push_back(bytes[at + 1]);
            chunks.emplace_back(bytes.begin() + std::ptrdiff_t(from), bytes.begin() + std::ptrdiff_t(from + size));
            if (format == CUS_EVENTS_HDF5)
                chunks.back() = columnsOf(chunks.back(), taken.back());
            at = from + size;
        }
        if (chunks.empty())
            break;
        reference::appendFrame(stream, chunks, taken, format);
    }
    return stream;
}

template<class Reference>
void check(const cusEventDecoderOptions &options, const std::vector<uint8_t> &stream, std::minstd_rand &random) {
    Reference expected(options);
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
    static const cusEventFormat formats[8] = {CUS_EVENTS_EVT2,       CUS_EVENTS_EVT21,     CUS_EVENTS_EVT3,
                                              CUS_EVENTS_EVT4,       CUS_EVENTS_DAT,       CUS_EVENTS_EVT21,
                                              CUS_EVENTS_METAVISION, CUS_EVENTS_METAVISION};
    static const int sides[4] = {0, 64, 1280, 65536};
    if (size < 5)
        return 0;
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    options.format = formats[data[0] & 7];
    if (options.format == CUS_EVENTS_METAVISION && data[0] & 64)
        options.format = CUS_EVENTS_HDF5;
    options.legacy = (data[0] & 7) == 5;
    options.bad_events = data[0] & 8 ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    options.width = options.height = sides[data[0] >> 4 & 3];
    uint32_t seed = 0;
    std::memcpy(&seed, data + 1, 4);
    std::minstd_rand random(seed);
    const std::vector<uint8_t> stream(data + 5, data + size);

    if ((data[0] & 7) == 6)
        check<reference::Frames>(options, framesOf(stream, options.format), random);
    else if ((data[0] & 7) == 7)
        check<reference::Frames>(options, stream, random);
    else
        check<reference::Raw>(options, stream, random);
    return 0;
}
