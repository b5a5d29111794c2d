// Rows of eventio: a recording, in memory or in a cached file, to arrays of events.
#include "harness/harness.hpp"

#include "cusight/eventio.h"
#include "reference/eventio.hpp"

#include <cstdio>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using perf::check;
using reference::Bytes;
using reference::Events;

constexpr size_t COUNT = 4000000, PIECE = 65536;
constexpr int WIDTH = 1280, HEIGHT = 720;

// Bursts along rows, like those of moving edges: about five events in a row, about 4 million events a second.
Events recording() {
    std::mt19937_64 random(11);
    Events e;
    int64_t t = 0;
    unsigned x = 0, y = 0, p = 0;
    for (size_t i = 0; i < COUNT; ++i) {
        const uint64_t r = random();
        if (r % 5 == 0) {
            t += static_cast<int64_t>(r >> 8) % 3;
            y = static_cast<unsigned>(r >> 16) % HEIGHT;
            x = static_cast<unsigned>(r >> 32) % WIDTH;
            p = static_cast<unsigned>(r >> 60) & 1;
        } else {
            x = (x + 1 + static_cast<unsigned>(r >> 16) % 3) % WIDTH;
        }
        e.add(t, x, y, p);
    }
    return e;
}

// Reads the whole recording, PIECE events at a time, into the same arrays.
void readAll(cusEventReader *reader) {
    static std::vector<uint16_t> x(PIECE), y(PIECE);
    static std::vector<uint8_t> p(PIECE);
    static std::vector<int64_t> t(PIECE);
    size_t count = 0, all = 0;
    do {
        check(cusEventReaderRead(reader, PIECE, x.data(), y.data(), p.data(), t.data(), &count));
        all += count;
    } while (count > 0);
    cusEventReaderClose(reader);
    ASSERT_EQ(all, COUNT);
}

// A recording in a temporary file, which the system caches in memory.
class Written {
  public:
    explicit Written(const Events &events, cusEventFormat format = CUS_EVENTS_M3ED) {
        cusEventWriterOptions options = cusEventWriterDefaults();
        options.format = format;
        options.width = WIDTH;
        options.height = HEIGHT;
        options.format = format;
        cusEventWriter *writer = nullptr;
        check(cusEventWriterCreate(&writer, path_.c_str(), &options));
        check(
            cusEventWriterWrite(writer, events.size(), events.x.data(), events.y.data(), events.p.data(), events.t.data()));
        check(cusEventWriterFinish(writer));
    }
    ~Written() { std::remove(path_.c_str()); }
    Written(const Written &) = delete;
    Written &operator=(const Written &) = delete;
    const char *path() const { return path_.c_str(); }

  private:
    std::string path_ = "/tmp/cusight-perf-" + std::to_string(getpid()) + ".h5";
};

cusEventReaderOptions sensor() {
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.width = WIDTH;
    options.height = HEIGHT;
    return options;
}

void reading(const std::string &name, const std::function<Bytes(const Events &)> &encode) {
    if (!perf::wants(CUS_HOST))
        return;
    const Bytes file = perf::listing() ? Bytes() : encode(recording());
    const cusEventReaderOptions options = sensor();
    perf::Row row("eventio/read/" + name + "/4M", CUS_HOST, 0);
    row.note(std::to_string(file.size() / 1000000) + " MB, one thread");
    row.measure([&](cusStream, int) {
        cusEventReader *reader = nullptr;
        check(cusEventReaderOpenMemory(&reader, file.data(), file.size(), &options));
        readAll(reader);
    });
    row.report();
}

TEST(Eventio, Evt2) {
    reading("evt2", [](const Events &e) { return reference::evt2(e, "% evt 2.0\n% geometry 1280x720\n% end\n"); });
}

TEST(Eventio, Evt3) {
    reading("evt3", [](const Events &e) { return reference::evt3(e, "% evt 3.0\n% geometry 1280x720\n% end\n"); });
}

TEST(Eventio, Dat) {
    reading("dat", [](const Events &e) { return reference::dat(e, "% Version 2\n% Height 720\n% Width 1280\n"); });
}

TEST(Eventio, Text) {
    reading("text", [](const Events &e) { return reference::text(e, false); });
}

// What the library's own writer makes, from a file.
void readingWritten(const std::string &name, cusEventFormat format, const std::string &note) {
    if (!perf::wants(CUS_HOST))
        return;
    std::optional<Written> file;
    if (!perf::listing())
        file.emplace(recording(), format);
    perf::Row row("eventio/read/" + name + "/4M", CUS_HOST, 0);
    row.note(note);
    row.measure([&](cusStream, int) {
        cusEventReader *reader = nullptr;
        check(cusEventReaderOpen(&reader, file->path(), nullptr));
        readAll(reader);
    });
    row.report();
}

TEST(Eventio, M3ed) {
    readingWritten("m3ed", CUS_EVENTS_M3ED, "HDF5 with LZF, all threads");
}

TEST(Eventio, Aedat4) {
    if (std::string(cusBuildInformation()).find("LZ4:            yes") != std::string::npos)
        readingWritten("aedat4", CUS_EVENTS_AEDAT4, "LZ4, one thread");
}

// Into a file that the system keeps in memory; synchronizing it to disk is part of it.
void writing(const std::string &name, cusEventFormat format, const std::string &note) {
    if (!perf::wants(CUS_HOST))
        return;
    const Events events = perf::listing() ? Events() : recording();
    perf::Row row("eventio/write/" + name + "/4M", CUS_HOST, 0);
    row.note(note);
    row.measure([&](cusStream, int) { const Written file(events, format); });
    row.report();
}

TEST(Eventio, WriteM3ed) {
    writing("m3ed", CUS_EVENTS_M3ED, "HDF5 with LZF, all threads");
}

TEST(Eventio, WriteMetavision) {
    writing("metavision", CUS_EVENTS_METAVISION, "HDF5 with ECF, all threads");
}

TEST(Eventio, WriteEvt2) {
    writing("evt2", CUS_EVENTS_EVT2, "one thread");
}

TEST(Eventio, WriteEvt3) {
    writing("evt3", CUS_EVENTS_EVT3, "one thread");
}

TEST(Eventio, WriteAedat4) {
    if (std::string(cusBuildInformation()).find("LZ4:            yes") != std::string::npos)
        writing("aedat4", CUS_EVENTS_AEDAT4, "LZ4, one thread");
}

} // namespace
