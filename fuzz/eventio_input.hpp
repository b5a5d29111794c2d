// One input of the fuzzer of the event readers. The tests replay the seeds through it.
#pragma once

#include "cusight/eventio.h"
#include "eventio/hdf5/codec.h"
#include "lzf.h"
#include "reference/frames.hpp"

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

constexpr size_t MAX_MEMORY = size_t(1) << 26; // the least that a reader's option takes

inline bool isHdf5(cusEventFormat format) {
    return format == CUS_EVENTS_M3ED || format == CUS_EVENTS_DSEC ||
           (format >= CUS_EVENTS_METAVISION && format <= CUS_EVENTS_MVSEC);
}

inline bool isPackets(cusEventFormat format) {
    return format >= CUS_EVENTS_AEDAT4;
}

// Delivered events keep the contract of the interface, whatever the bytes. *whole: there was no damage.
inline size_t readAll(cusEventReader *reader, const cusEventInfo &info, bool skip, size_t capacity, size_t max_events,
                      bool *whole = nullptr) {
    std::vector<uint16_t> x(capacity), y(capacity);
    std::vector<uint8_t> p(capacity);
    std::vector<int64_t> t(capacity);
    int64_t last = 0;
    size_t total = 0;
    for (;;) {
        size_t count = 0;
        const cusStatus status = cusEventReaderRead(reader, capacity, x.data(), y.data(), p.data(), t.data(), &count);
        require(count <= capacity);
        for (size_t i = 0; i < count; ++i) {
            require(!info.width || (x[i] < info.width && y[i] < info.height));
            require(p[i] <= 1 && t[i] >= last);
            last = t[i];
        }
        total += count;
        require(total <= max_events);
        if (status != CUS_OK || count < capacity) {
            const bool packets = isPackets(info.format), hdf5 = isHdf5(info.format);
            require(status == CUS_OK || !skip || status == CUS_ERROR_TRUNCATED || status == CUS_ERROR_FORMAT ||
                    ((hdf5 || packets) && status == CUS_ERROR_CAPACITY) || (packets && status == CUS_ERROR_UNSUPPORTED));
            if (whole)
                *whole = status == CUS_OK;
            return total;
        }
    }
}

// Triggers end, and there is no more than one in each two bytes.
inline void readTriggers(cusEventReader *reader, size_t capacity, size_t size) {
    std::vector<cusEventTrigger> triggers(capacity);
    size_t count = 0, total = 0;
    do {
        if (cusEventReaderReadTriggers(reader, capacity, triggers.data(), &count) != CUS_OK)
            capacity = 0;
        require(count <= triggers.size());
        total += count;
    } while (capacity && count == capacity);
    require(total <= 1100 * (size / 2 + 1) + (size_t(1) << 26)); // packets give what one chunk may have in addition
}

// Reading from a mark gives what reading from the start gives after it: at least, since nothing compares the times before and after
// the mark. `total`: events from the start.
inline void readParts(cusEventReader *reader, const cusEventInfo &info, bool skip, size_t total, size_t max_events) {
    const uint64_t parts = 1 + total % 5;
    std::vector<cusEventPart> summaries(parts);
    std::vector<cusEventMark> marks(parts + 1);
    for (uint64_t k = 0; k < parts; ++k)
        if (cusEventReaderScan(reader, k, parts, &summaries[k]) != CUS_OK)
            return;
    if (cusEventReaderMarks(reader, summaries.data(), parts, marks.data()) != CUS_OK)
        return;
    for (const cusEventMark &mark : marks)
        if (cusEventReaderSeekMark(reader, &mark) == CUS_OK) {
            const size_t rest = readAll(reader, info, skip, 500, max_events);
            require(skip || mark.index >= total || rest >= total - mark.index);
        }
}

// What the reference makes of the chunks of HDF5 for a decoder: the events that reading gives, if neither finds damage.
inline void readChunks(cusEventReader *reader, const cusEventInfo &info, size_t total, bool whole) {
    cusEventDecoderOptions options;
    cusEventDecoderState state;
    if (!isHdf5(info.format) || cusEventReaderDecoder(reader, &options, &state) != CUS_OK)
        return;
    std::vector<uint8_t> piece(997), stream;
    cusStatus status = CUS_OK;
    for (size_t count = piece.size(); status == CUS_OK && count == piece.size();) {
        status = cusEventReaderReadBytes(reader, piece.size(), piece.data(), &count);
        require(count <= piece.size());
        stream.insert(stream.end(), piece.begin(), piece.begin() + std::ptrdiff_t(count));
    }
    reference::Frames frames(options);
    frames.startAt(state);
    frames.run(stream);
    require(frames.status == CUS_OK || frames.status == CUS_ERROR_FORMAT);
    require(!whole || status != CUS_OK || frames.status != CUS_OK || frames.events.size() == total);
}

// What is decoded is the reference's, and, if the encoder takes it, the same when it has been encoded and decoded again.
inline void ecfInput(const std::vector<uint8_t> &in, size_t most) {
    std::vector<uint8_t> out(16 * most), again(16 * most), packed(14 * most + 36);
    reference::Events expected;
    const size_t count = in.size() < 4 ? SIZE_MAX : size_t(in[0] | in[1] << 8 | in[2] << 16 | uint32_t{in[3]} << 24) >> 2;
    if (count <= most) {
        reference::Events got;
        got.x.resize(count), got.y.resize(count), got.p.resize(count), got.t.resize(count);
        const bool good = reference::EcfChunk(in).run(expected);
        require(good == (eventio_ecfDecodeColumns(in.data(), in.size(), count, reinterpret_cast<uint8_t *>(got.x.data()),
                                                  reinterpret_cast<uint8_t *>(got.y.data()), got.p.data(),
                                                  reinterpret_cast<uint8_t *>(got.t.data())) != 0));
        require(!good || got == expected);
    }
    if (!eventio_ecfDecode(in.data(), in.size(), out.data(), out.size()))
        return;
    int64_t last = 0;
    size_t n = 0;
    for (; n < most; ++n) {
        uint16_t pixel[3];
        int64_t t = 0;
        std::copy_n(out.data() + 16 * n, 6, reinterpret_cast<uint8_t *>(pixel));
        std::copy_n(out.data() + 16 * n + 8, 8, reinterpret_cast<uint8_t *>(&t));
        if (t < last || pixel[0] > 2047 || pixel[1] > 2047)
            break;
        last = t;
    }
    packed.resize(eventio_ecfEncode(out.data(), 16 * n, packed.data()));
    require(eventio_ecfDecode(packed.data(), packed.size(), again.data(), 16 * n));
    require(std::equal(again.begin(), again.begin() + std::ptrdiff_t(16 * n), out.begin()));
}

// The first byte chooses: 0..5 a reader (odd: bad events are skipped; 0 and 1: with bit 3 small chunks and the camera "left"; 2 and 3: as EVT2, with bit 3 as EVT2.1, 4 and 5: as EVT3, with
// bit 3 as EVT4, if the header does not name the encoding), 6 LZF, 7 Blosc or with bit 3 ECF.
inline void eventInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return;
    const bool other = *data & 8;
    const unsigned choice = *data++ & 7;
    --size;
    if (choice >= 6) {
        if (size < 2)
            return;
        const size_t out_size = 1 + *data++ * 16u;
        std::vector<uint8_t> in(data, data + size - 1), out(out_size), back(out_size);
        if (choice == 7 && other) {
            ecfInput(in, out_size / 16);
        } else if (choice == 7) {
            eventio_bloscDecode(in.data(), in.size(), out.data(), out_size);
        } else if (std::vector<uint8_t> plain; reference::decodeLzf(in, out_size, plain)) {
            require(cusi_lzfDecode(in.data(), in.size(), out.data(), out_size) && out == plain);
            const size_t packed = cusi_lzfEncode(out.data(), out_size, back.data());
            std::vector<uint8_t> again(out_size);
            require(!packed || (cusi_lzfDecode(back.data(), packed, again.data(), out_size) && again == out));
        } else {
            require(!cusi_lzfDecode(in.data(), in.size(), out.data(), out_size));
        }
        return;
    }
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.bad_events = choice & 1 ? CUS_BAD_EVENTS_SKIP : CUS_BAD_EVENTS_STOP;
    options.format = choice >> 1 == 1   ? (other ? CUS_EVENTS_EVT21 : CUS_EVENTS_EVT2)
                     : choice >> 1 == 2 ? (other ? CUS_EVENTS_EVT4 : CUS_EVENTS_EVT3)
                                        : CUS_EVENTS_ANY;
    options.threads = 1;
    options.max_memory = MAX_MEMORY;
    if (choice < 2 && other) {
        options.max_chunk = 1 << 20;
        options.camera = "left";
    }
    cusEventReader *reader = nullptr;
    if (cusEventReaderOpenMemory(&reader, data, size, &options) != CUS_OK)
        return;
    cusEventInfo info;
    require(cusEventReaderInfo(reader, &info) == CUS_OK);
    const bool packets = isPackets(info.format), hdf5 = isHdf5(info.format);
    // A word of EVT3 makes up to 12 events, one of EVT2.1 up to 32; HDF5 and packets may compress up to 1100 times, and packets give
    // what one chunk may have in addition.
    const size_t packed_events = 6 * (1100 * size + (options.max_chunk ? options.max_chunk : size_t(1) << 26));
    const size_t max_events = hdf5 ? 1100 * (size / 8 + 1) : packets ? packed_events : 6 * size;
    if ((hdf5 || packets) && info.count > 20000) { // in small steps it would only take long
        readAll(reader, info, options.bad_events == CUS_BAD_EVENTS_SKIP, 65536, max_events);
        cusEventReaderClose(reader);
        return;
    }
    readTriggers(reader, 50, size);
    const bool skip = options.bad_events == CUS_BAD_EVENTS_SKIP;
    bool whole = false;
    const size_t total = readAll(reader, info, skip, 97, max_events, &whole);
    if (cusEventReaderSeekIndex(reader, 0) == CUS_OK && total < 100000)
        require(readAll(reader, info, skip, 1000, max_events) == total);
    readChunks(reader, info, total, whole);
    cusEventReaderSeekIndex(reader, static_cast<int64_t>(total / 2));
    readAll(reader, info, skip, 7, max_events);
    if (whole && total < 100000) // an index that lies, of AEDAT4 for example, leads elsewhere
        readParts(reader, info, skip, total, max_events);
    int64_t index = 0;
    if (cusEventReaderSeekTime(reader, info.first_time / 2 + 1000, &index) == CUS_OK)
        require(index >= 0);
    cusEventReaderClose(reader);
}

} // namespace fuzz
