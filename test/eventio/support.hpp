// Helpers of the tests of event recordings: readers, files of every format, random events.
#pragma once

#include "../support.hpp"

#include "cusight/eventio.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <sys/stat.h>
#include <unistd.h>
#ifdef CUSIGHT_HAVE_HDF5
#include <hdf5.h>
#endif

#include "eventio/packet_files.hpp"
#include "reference/frames.hpp"

namespace eventio_test {

using reference::Bytes;
using reference::Events;

inline const std::string EVT2 = "% evt 2.0\n% geometry 640x480\n% end\n";
inline const std::string EVT21 = "% evt 2.1\n% geometry 640x480\n% end\n";
inline const std::string EVT4 = "% evt 4.0\n% geometry 640x480\n% end\n";
inline const std::string EVT3 = "% Date 2024-01-01 00:00:00\n% format EVT3;height=480;width=640\n% end\n";
inline const std::string DAT = "% Data file containing CD events.\n% Version 2\n% Height 480\n% Width 640\n";

#ifdef CUSIGHT_HAVE_HDF5
// A new file in the oldest format, whose bytes the tests know: HDF5 2 would begin with a newer one.
inline hid_t createHdf5(const std::string &path, H5F_libver_t oldest = H5F_LIBVER_EARLIEST) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, oldest, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    return file;
}
#endif

#if defined(CUSI_SANITIZE)
constexpr bool MEASURED = false; // a sanitizer's own memory and time are many times those of the reader
#else
constexpr bool MEASURED = true;
#endif

// A temporary folder, removed at the end.
class Folder {
  public:
    Folder() {
        char name[] = "/tmp/cusight-eventio-XXXXXX";
        path_ = mkdtemp(name);
    }
    ~Folder() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
#ifndef _WIN32 // where what is still open is not removed
        EXPECT_FALSE(error) << path_;
#endif
    }
    std::string operator/(const std::string &name) const {
        return path_ + "/" + name;
    }

  private:
    std::string path_;
};

class Reader {
  public:
    explicit Reader(const std::string &path, cusEventReaderOptions options = cusEventReaderDefaults()) {
        opened = cusEventReaderOpen(&reader, path.c_str(), &options);
        about();
    }
    explicit Reader(Bytes bytes, cusEventReaderOptions options = cusEventReaderDefaults()) : memory(std::move(bytes)) {
        opened = cusEventReaderOpenMemory(&reader, memory.data(), memory.size(), &options);
        about();
    }

    // Reads the next events, up to n.
    Events read(size_t n, cusStatus *status = nullptr) {
        Events e;
        e.x.resize(n), e.y.resize(n), e.p.resize(n), e.t.resize(n);
        size_t count = 0;
        const cusStatus result = cusEventReaderRead(reader, n, e.x.data(), e.y.data(), e.p.data(), e.t.data(), &count);
        EXPECT_LE(count, n);
        if (status)
            *status = result;
        else
            EXPECT_EQ(result, CUS_OK) << cusLastError();
        e.x.resize(count), e.y.resize(count), e.p.resize(count), e.t.resize(count);
        return e;
    }
    // Reads all remaining events, n at a time.
    Events all(size_t n = 70000, cusStatus *status = nullptr) {
        Events e;
        for (;;) {
            cusStatus result = CUS_OK;
            const Events piece = read(n, &result);
            e.x.insert(e.x.end(), piece.x.begin(), piece.x.end());
            e.y.insert(e.y.end(), piece.y.begin(), piece.y.end());
            e.p.insert(e.p.end(), piece.p.begin(), piece.p.end());
            e.t.insert(e.t.end(), piece.t.begin(), piece.t.end());
            if (status)
                *status = result;
            else
                EXPECT_EQ(result, CUS_OK) << cusLastError();
            if (result != CUS_OK || piece.size() < n)
                return e;
        }
    }
    cusEventCounts counts() const {
        cusEventCounts c;
        EXPECT_EQ(cusEventReaderCounts(reader, &c), CUS_OK);
        return c;
    }

    support::Owned<cusEventReaderClose> reader;
    cusStatus opened;
    cusEventInfo info = {};

  private:
    Bytes memory; // what the reader reads
    void about() {
        if (opened == CUS_OK)
            EXPECT_EQ(cusEventReaderInfo(reader, &info), CUS_OK);
    }
};

// What the reference makes of the chunks that cusEventReaderReadBytes gives, in pieces of any size. *status: of the call that failed, or
// the reference's, whose message is *message. *first: the number of the first event. format: the decoder's.
inline Events ofChunks(cusEventReader *reader, cusEventFormat format, std::mt19937_64 &random, size_t most,
                       cusStatus *status, uint64_t *first = nullptr, cusEventCounts *counts = nullptr,
                       std::string *message = nullptr) {
    cusEventDecoderOptions options;
    cusEventDecoderState state;
    *status = cusEventReaderDecoder(reader, &options, &state);
    if (*status != CUS_OK)
        return {};
    EXPECT_EQ(options.format, format);
    if (first)
        *first = state.index;
    Bytes stream;
    for (bool more = true; more && *status == CUS_OK;) {
        Bytes piece(1 + random() % most); // its end is seen
        size_t count = 0;
        *status = cusEventReaderReadBytes(reader, piece.size(), piece.data(), &count);
        more = count == piece.size();
        stream.insert(stream.end(), piece.begin(), piece.begin() + long(count));
    }
    reference::Frames frames(options);
    frames.startAt(state);
    frames.run(stream);
    if (frames.status == CUS_ERROR_FORMAT || *status == CUS_OK)
        *status = frames.status;
    if (message)
        *message = frames.message;
    if (counts)
        *counts = frames.counts;
    return frames.events;
}

inline Bytes load(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}
inline void save(const std::string &path, const Bytes &bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
}

// Events like a camera's: bursts at one time, runs within rows, pauses.
inline Events randomEvents(size_t n, std::mt19937_64 &random, int64_t start = 0, int64_t pause = 50000, int width = 640,
                           int height = 480) {
    Events e;
    int64_t t = start;
    unsigned y = 0, x = 0, p = 0;
    while (e.size() < n) {
        const uint64_t r = random();
        if (r % 4 == 0)
            t += int64_t(r >> 8) % 20;
        if (r % 997 == 0)
            t += int64_t(r >> 8) % pause;
        if (r % 5 == 0) {
            y = unsigned(random() % unsigned(height));
            x = unsigned(random() % unsigned(width));
            p = unsigned(random() & 1);
        } else {
            x = (x + unsigned(r >> 16) % 4) % unsigned(width);
        }
        e.add(t, x, y, p);
    }
    return e;
}

inline std::string fixture(const char *name) {
    return support::sourceFile("test/data/") + name;
}

inline cusStatus writeM3ed(const std::string &path, const Events &e, cusEventWriterOptions options, size_t piece) {
    cusEventWriter *writer = nullptr;
    CUS_TRY(cusEventWriterCreate(&writer, path.c_str(), &options));
    for (size_t i = 0; i < e.size(); i += piece) {
        const size_t n = std::min(piece, e.size() - i);
        EXPECT_EQ(cusEventWriterWrite(writer, n, &e.x[i], &e.y[i], &e.p[i], &e.t[i]), CUS_OK) << cusLastError();
    }
    return cusEventWriterFinish(writer);
}
inline cusEventWriterOptions sensor(int width = 640, int height = 480) {
    cusEventWriterOptions options = cusEventWriterDefaults();
    options.width = width;
    options.height = height;
    return options;
}

// A file with small chunks of 20,000 random events.
inline Bytes randomM3ed(std::mt19937_64 &random) {
    const Events events = randomEvents(20000, random);
    Folder at;
    cusEventWriterOptions options = sensor();
    options.chunk = 1024;
    EXPECT_EQ(writeM3ed(at / "w.h5", events, options, 20000), CUS_OK) << cusLastError();
    return load(at / "w.h5");
}

// Reading any number of events from any position, by index and by time, gives the same events.
inline void checkPiecesAndSeeks(Reader &r, const Events &all, std::mt19937_64 &random) {
    for (int round = 0; round < 25; ++round) {
        const size_t index = round == 0 ? 0 : round == 1 ? all.size() : random() % all.size();
        ASSERT_EQ(cusEventReaderSeekIndex(r.reader, int64_t(index)), CUS_OK) << cusLastError();
        const size_t n = std::min<size_t>(all.size() - index, random() % (round % 2 ? 100000 : 50));
        ASSERT_EQ(r.read(n), all.part(index, n)) << "from " << index << ", " << n;
    }
    for (int round = 0; round < 15; ++round) {
        const int64_t time = round == 0   ? all.t.back() + 1
                             : round == 1 ? 0
                                          : all.t[random() % all.size()] + int64_t(random() % 3) - 1;
        const int64_t expected = std::lower_bound(all.t.begin(), all.t.end(), time) - all.t.begin();
        int64_t index = -1;
        ASSERT_EQ(cusEventReaderSeekTime(r.reader, time, &index), CUS_OK) << cusLastError();
        ASSERT_EQ(index, expected) << "time " << time;
        const size_t n = std::min<size_t>(all.size() - size_t(index), 100);
        ASSERT_EQ(r.read(n), all.part(size_t(index), n));
    }
}

// AEDAT4, a bag and MCAP, each with another compression and kind of message.
inline void addPacketFiles(const Events &e, std::map<std::string, Bytes> &made) {
    std::mt19937_64 random(e.size());
    Aedat4Options packets;
    packets.codec = canPack(Codec::LZ4) ? Codec::LZ4 : Codec::NONE;
    made["aedat4"] = aedat4(e, random, packets);
    RosOptions messages;
    messages.codec = canPack(Codec::BZIP2) ? Codec::BZIP2 : Codec::NONE;
    made["bag"] = bag(e, random, messages);
    messages = {};
    messages.cdr = true;
    messages.payload = Payload::EVT3;
    messages.codec = canPack(Codec::ZSTD) ? Codec::ZSTD : Codec::NONE;
    made["mcap"] = mcap(e, random, messages);
}

// A file of each format that holds these events.
inline std::map<std::string, Bytes> files(const Events &e) {
    std::map<std::string, Bytes> made = {{"evt2", reference::evt2(e, EVT2)},
                                         {"evt21", reference::evt21(e, EVT21, false)},
                                         {"evt21_legacy", reference::evt21(e, EVT21, true)},
                                         {"evt3", reference::evt3(e, EVT3)},
                                         {"evt4", reference::evt4(e, EVT4)},
                                         {"dat", reference::dat(e, DAT)},
                                         {"text_csv", reference::csv(e)},
                                         {"text_us", reference::text(e, false)},
                                         {"text_seconds", reference::text(e, true)}};
    Folder at;
    cusEventWriterOptions options = sensor();
    options.chunk = 1024;
    EXPECT_EQ(writeM3ed(at / "r.h5", e, options, 5000), CUS_OK) << cusLastError();
    made["m3ed"] = load(at / "r.h5");
    options.compress = 0;
    EXPECT_EQ(writeM3ed(at / "u.h5", e, options, 999), CUS_OK) << cusLastError();
    made["m3ed_plain"] = load(at / "u.h5");
    addPacketFiles(e, made);
    return made;
}

} // namespace eventio_test
