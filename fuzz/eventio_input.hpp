// One input of the event readers' fuzz target. The tests replay the corpus through it.
#pragma once

#include "cusight/eventio.h"
#include "../io/eventio/eventio_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace fuzz {

inline void require(bool condition) {
    if (!condition)
        std::abort();
}

// What is delivered keeps every promise of the interface, whatever the bytes are.
inline size_t readAll(cusEventReader *reader, const cusEventInfo &info, bool skip, size_t piece, size_t most) {
    std::vector<uint16_t> x(piece), y(piece);
    std::vector<uint8_t> p(piece);
    std::vector<int64_t> t(piece);
    int64_t last = 0;
    size_t total = 0;
    for (;;) {
        size_t count = 0;
        const cusStatus status = cusEventReaderRead(reader, piece, x.data(), y.data(), p.data(), t.data(), &count);
        require(count <= piece);
        for (size_t i = 0; i < count; ++i) {
            require(!info.width || (x[i] < info.width && y[i] < info.height));
            require(p[i] <= 1 && t[i] >= last);
            last = t[i];
        }
        total += count;
        require(total <= most);
        if (status != CUS_OK || count < piece) {
            require(status == CUS_OK || !skip || status == CUS_ERROR_TRUNCATED || status == CUS_ERROR_FORMAT);
            return total;
        }
    }
}

// The first byte chooses: 0..5 readers (odd: bad events are left out; 2 and 3 as EVT2, 4 and 5 as EVT3
// where the header does not say), 6 LZF, 7 Blosc.
inline void eventInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return;
    const unsigned how = *data++ & 7;
    --size;
    if (how >= 6) {
        if (size < 2)
            return;
        const size_t out_size = 1 + *data++ * 16u;
        std::vector<uint8_t> in(data, data + size - 1), out(out_size), back(out_size);
        if (how == 7) {
            eventio_bloscDecode(in.data(), in.size(), out.data(), out_size);
        } else if (eventio_lzfDecode(in.data(), in.size(), out.data(), out_size)) {
            const size_t packed = eventio_lzfEncode(out.data(), out_size, back.data());
            std::vector<uint8_t> again(out_size);
            require(!packed || (eventio_lzfDecode(back.data(), packed, again.data(), out_size) && again == out));
        }
        return;
    }
    // The container is libhdf5's to parse, which leaks on damaged files; what is ours of it are the codecs above.
    static const char signature[] = "\x89HDF";
    if (std::search(data, data + size, signature, signature + 4,
                    [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }) != data + size)
        return;
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.bad_events = how & 1 ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    options.format = how >> 1 == 1 ? CUS_EVENTS_EVT2 : how >> 1 == 2 ? CUS_EVENTS_EVT3 : CUS_EVENTS_ANY;
    options.threads = 1;
    cusEventReader *reader = nullptr;
    if (cusEventReaderOpenMemory(&reader, data, size, &options) != CUS_OK)
        return;
    cusEventInfo info;
    require(cusEventReaderInfo(reader, &info) == CUS_OK);
    const size_t most = 6 * size; // a word of EVT3 makes up to 12 events
    const bool skip = options.bad_events == CUS_BAD_EVENTS_SKIP;
    const size_t total = readAll(reader, info, skip, 97, most);
    if (cusEventReaderSeekIndex(reader, 0) == CUS_OK && total < 100000)
        require(readAll(reader, info, skip, 1000, most) == total);
    cusEventReaderSeekIndex(reader, static_cast<int64_t>(total / 2));
    readAll(reader, info, skip, 7, most);
    int64_t index = 0;
    if (cusEventReaderSeekTime(reader, info.first_time / 2 + 1000, &index) == CUS_OK)
        require(index >= 0);
    cusEventReaderClose(reader);
}

} // namespace fuzz
