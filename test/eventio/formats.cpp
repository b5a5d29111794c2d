// The formats that the event writer writes: each gives the same events back, and the same bytes for the same events.
#include "eventio/support.hpp"

#include "eventio/hdf5/codec.h"

#include <csignal>
#include <filesystem>

#include <sys/resource.h>

using namespace eventio_test;

namespace {

struct Format {
    cusEventFormat format;
    int compress;
    const char *name;
};
const Format FORMATS[] = {
    {CUS_EVENTS_M3ED, 1, "a.h5"},         {CUS_EVENTS_M3ED, 0, "b.h5"},         {CUS_EVENTS_METAVISION, 1, "a.hdf5"},
    {CUS_EVENTS_METAVISION, 0, "b.hdf5"}, {CUS_EVENTS_EVT2, 1, "2.raw"},        {CUS_EVENTS_EVT3, 1, "3.raw"},
    {CUS_EVENTS_DAT, 1, "a.dat"},         {CUS_EVENTS_TEXT, 1, "a.txt"},        {CUS_EVENTS_TEXT, 1, "a.csv"},
    {CUS_EVENTS_AEDAT4, 0, "a.aedat4"},
#ifdef CUSIGHT_HAVE_ZLIB
    {CUS_EVENTS_M3ED, 2, "z.h5"},         {CUS_EVENTS_METAVISION, 2, "z.hdf5"},
#endif
};

cusEventWriterOptions optionsFor(const Format &f, int width = 640, int height = 480) {
    cusEventWriterOptions options = sensor(width, height);
    options.format = f.format;
    options.compress = f.compress;
    options.chunk = f.format == CUS_EVENTS_M3ED || f.format == CUS_EVENTS_METAVISION ? 1024 : 0;
    return options;
}

// Writes in pieces of random sizes.
cusStatus write(const std::string &path, const Events &e, const cusEventWriterOptions &options, std::mt19937_64 &random) {
    cusEventWriter *writer = nullptr;
    CUS_TRY(cusEventWriterCreate(&writer, path.c_str(), &options));
    for (size_t i = 0, n; i < e.size(); i += n) {
        n = std::min<size_t>(e.size() - i, 1 + random() % (random() % 4 ? 5000 : 20));
        const cusStatus status = cusEventWriterWrite(writer, n, &e.x[i], &e.y[i], &e.p[i], &e.t[i]);
        if (status != CUS_OK) {
            cusEventWriterDiscard(writer);
            return status;
        }
    }
    return cusEventWriterFinish(writer);
}

// Streams of many kinds: bursts, rows, one pixel, one time, dense rows of one time, noise.
Events stream(size_t n, std::mt19937_64 &random, int width, int height) {
    const unsigned kind = unsigned(random() % 7);
    const int64_t start = int64_t(random() % 3 == 0 ? random() % 3000000000u : random() % 3);
    if (kind < 2)
        return randomEvents(n, random, start, 50000, width, height);
    Events e;
    int64_t t = start;
    unsigned x = 0, y = 0, p = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t r = random();
        const unsigned right = kind == 3 ? 1 + unsigned(r % 3) : kind == 4 ? unsigned(r % 40) : unsigned(r % 7);
        if (kind == 2) {
            t += int64_t(r % 2);
        } else if (kind == 6 || x + right >= unsigned(width) || r % 97 == 0) {
            t += int64_t(r >> 8) % (r % 5 ? 3 : 70000);
            x = unsigned(r >> 16) % unsigned(width);
            y = unsigned(r >> 32) % unsigned(height);
            p = unsigned(r >> 60) & 1;
        } else if (kind == 5 && r % 11 == 0) {
            t += int64_t(r >> 8) % 30;
        } else {
            x += right;
        }
        e.add(t, x, y, p);
    }
    return e;
}

class WrittenFormat : public testing::TestWithParam<Format> {};

TEST_P(WrittenFormat, GiveTheSameEventsAndBytes) {
    auto random = support::generator();
    Folder at;
    const std::string path = at / GetParam().name, again = at / (std::string("again_") + GetParam().name);
    const size_t sizes[] = {0, 1, 2, 3, 1023, 1024, 1025, 2048, 66000};
    for (int round = 0; round < 100; ++round) {
        const size_t n = round < 9 ? sizes[round] : 1 + random() % (round % 20 ? 300 : 70000);
        const int width = int(1 + random() % (random() % 2 ? 40 : 2048)), height = int(1 + random() % 2048);
        const Events events = stream(n, random, width, height);
        cusEventWriterOptions options = optionsFor(GetParam(), width, height);
        options.threads = 1;
        ASSERT_EQ(write(path, events, options, random), CUS_OK) << cusLastError();
        Reader r(path);
        ASSERT_EQ(r.opened, CUS_OK) << cusLastError() << ", " << n << " events";
        EXPECT_EQ(r.info.format, GetParam().format);
        EXPECT_EQ(r.info.width, width);
        EXPECT_EQ(r.info.height, height);
        ASSERT_TRUE(r.all() == events) << n << " events, " << width << " x " << height << ", round " << round;
        if (round % 4)
            continue;
        options.threads = 5;
        ASSERT_EQ(write(again, events, options, random), CUS_OK) << cusLastError();
        ASSERT_TRUE(load(path) == load(again)) << "other bytes for the same " << n << " events";
    }
}

// A plain decoder reads the words.
TEST_P(WrittenFormat, AreReadByTheReference) {
    const cusEventFormat format = GetParam().format;
    if (format != CUS_EVENTS_EVT2 && format != CUS_EVENTS_EVT3 && format != CUS_EVENTS_DAT)
        GTEST_SKIP() << "no reference for this format";
    auto random = support::generator();
    Folder at;
    for (int round = 0; round < 40; ++round) {
        const Events events = stream(1 + random() % 5000, random, 1280, 720);
        ASSERT_EQ(write(at / "r", events, optionsFor(GetParam(), 1280, 720), random), CUS_OK) << cusLastError();
        Bytes data = reference::afterHeader(load(at / "r"));
        if (format == CUS_EVENTS_DAT) // its type and size
            data.erase(data.begin(), data.begin() + 2);
        ASSERT_TRUE(events == (format == CUS_EVENTS_EVT2   ? reference::decodeEvt2(data)
                               : format == CUS_EVENTS_EVT3 ? reference::decodeEvt3(data)
                                                           : reference::decodeDat(data)));
    }
}

TEST_P(WrittenFormat, AFileThatCannotBeWrittenLeavesTheOneBefore) {
    auto random = support::generator();
    Folder at;
    const std::string path = at / GetParam().name;
    const Events events = randomEvents(300000, random);
    CUS_ASSERT_OK(write(path, events, optionsFor(GetParam()), random)); // clang's OpenMP writes a file when it starts
    std::ofstream(path) << "precious";
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const rlim_t limit : {rlim_t(0), rlim_t(100), rlim_t(5000), rlim_t(100000)}) {
        const rlimit small = {limit, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        const cusStatus status = write(path, events, optionsFor(GetParam()), random);
        const std::string message = cusLastError();
        setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_EQ(status, CUS_ERROR_IO);
        EXPECT_NE(message.find("File too large"), std::string::npos) << message;
        EXPECT_EQ(load(path), reference::bytesOf("precious"));
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(at / ""), {}), 1) << "something is left";
    }
    std::signal(SIGXFSZ, handler);
    CUS_ASSERT_OK(write(path, events, optionsFor(GetParam()), random));
    EXPECT_TRUE(Reader(path).all() == events);
}

// What cusEventReaderDecoder and cusEventReaderReadBytes give, a decoder makes the file's events of; the reference, if it is chunks.
TEST_P(WrittenFormat, TheBytesAreForADecoder) {
    const cusEventFormat format = GetParam().format;
    auto random = support::generator();
    Folder at;
    const Events events = randomEvents(format == CUS_EVENTS_EVT2 ? 700000 : 5000, random); // 2.8 MB: on several threads
    CUS_ASSERT_OK(write(at / "r", events, optionsFor(GetParam()), random));
    Reader reader(at / "r");
    cusEventDecoderOptions options = cusEventDecoderDefaults();
    cusEventDecoderState state = {};
    Bytes piece(1);
    size_t count = 7;
    CUS_REJECTS(cusEventReaderReadBytes(reader.reader, 1, piece.data(), &count), VALUE,
                "cusEventReaderReadBytes: expected cusEventReaderDecoder before it");
    EXPECT_EQ(count, 0u);
    const bool framed = (format == CUS_EVENTS_M3ED || format == CUS_EVENTS_METAVISION) && GetParam().compress == 1;
    if (!framed && format != CUS_EVENTS_EVT2 && format != CUS_EVENTS_EVT3 && format != CUS_EVENTS_DAT) {
        CUS_REJECTS(
            cusEventReaderDecoder(reader.reader, &options, &state), UNSUPPORTED,
            "expected EVT2, EVT2.1, EVT3, EVT4, DAT, Metavision in chunks compressed by ECF or HDF5 with columns x, y, p "
            "and t in equal chunks compressed by LZF");
        return;
    }
    for (const size_t most : {size_t{10000}, size_t{4} << 20}) {
        if (framed) {
            cusStatus status = CUS_OK;
            EXPECT_TRUE(ofChunks(reader.reader, format == CUS_EVENTS_M3ED ? CUS_EVENTS_HDF5 : format, random, most,
                                 &status) == events);
            CUS_EXPECT_OK(status);
            continue;
        }
        CUS_ASSERT_OK(cusEventReaderDecoder(reader.reader, &options, &state));
        EXPECT_EQ(options.format, format);
        EXPECT_EQ(options.width, reader.info.width);
        support::Owned<cusEventDecoderDestroy> decoder;
        CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
        CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
        EXPECT_TRUE(reader.read(10) == events.part(0, 10) || most != 10000); // reading events changes nothing
        Events got;
        for (;;) {
            piece.resize(most > 10000 ? most : 1 + random() % most);
            CUS_ASSERT_OK(cusEventReaderReadBytes(reader.reader, piece.size(), piece.data(), &count));
            Events e;
            const size_t most_events = std::min(events.size(), 6 * piece.size()); // twelve of a vector's 2 bytes
            e.x.resize(most_events), e.y.resize(most_events), e.p.resize(most_events), e.t.resize(most_events);
            const cusEventBuffers to = {e.x.data(), e.y.data(), e.p.data(), e.t.data(), most_events, nullptr, 0};
            cusEventDecoded done = {};
            CUS_ASSERT_OK(cusEventDecoderRun(decoder, piece.data(), count, &to, &done, nullptr));
            for (size_t i = 0; i < done.count; ++i)
                got.add(e.t[i], e.x[i], e.y[i], e.p[i]);
            if (count < piece.size())
                break;
        }
        EXPECT_TRUE(got == events);
    }
    CUS_REJECTS(cusEventReaderDecoder(reader.reader, nullptr, &state), NULL, "options is NULL");
    CUS_REJECTS(cusEventReaderDecoder(reader.reader, &options, nullptr), NULL, "state is NULL");
    CUS_REJECTS(cusEventReaderReadBytes(reader.reader, 1, nullptr, &count), NULL, "bytes is NULL and capacity 1");
    CUS_REJECTS(cusEventReaderReadBytes(reader.reader, 1, piece.data(), nullptr), NULL, "count is NULL");
}

INSTANTIATE_TEST_SUITE_P(, WrittenFormat, testing::ValuesIn(FORMATS), [](const auto &p) {
    std::string name = p.param.name;
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
});

// Counters of 34 bits (EVT2) and 24 bits (EVT3), which wrap once or often between two events, or before the first.
TEST(EventFormat, RawTellsGapsOfAnyLength) {
    auto random = support::generator();
    Folder at;
    for (const auto &[format, bits] : {std::pair{CUS_EVENTS_EVT2, 34}, std::pair{CUS_EVENTS_EVT3, 24}}) {
        const int64_t period = int64_t(1) << bits, most = int64_t(1) << 40;
        std::vector<int64_t> steps;
        for (const int64_t base : {period / 2, period, 3 * period / 2, 2 * period, 5 * period, int64_t(64), int64_t(4096)})
            for (const int64_t off : {-4097, -4096, -65, -64, -1, 0, 1, 63, 64, 4095, 4096})
                steps.push_back(std::max<int64_t>(0, base + off));
        for (int round = 0; round < 60; ++round) {
            Events e;
            int64_t t = round == 0 ? most : round % 3 ? int64_t(random() % 10) : steps[random() % steps.size()];
            for (int i = 0; i < 40 && t <= most; ++i) {
                e.add(t, unsigned(random() % 640), unsigned(random() % 480), unsigned(random() & 1));
                t += round % 2 ? steps[random() % steps.size()] : int64_t(random() % uint64_t(period));
            }
            cusEventWriterOptions options = sensor();
            options.format = format;
            CUS_ASSERT_OK(write(at / "g.raw", e, options, random));
            Reader r(at / "g.raw");
            ASSERT_TRUE(r.all() == e) << cusEventFormatName(format) << ", round " << round;
            const Bytes data = reference::afterHeader(load(at / "g.raw"));
            ASSERT_TRUE(e == (bits == 34 ? reference::decodeEvt2(data) : reference::decodeEvt3(data)));
        }
    }
}

// Vectors are written as cameras do: 12, 12 and 8 pixels, which do not leave the sensor.
TEST(EventFormat, Evt3VectorsComeInThrees) {
    auto random = support::generator();
    Folder at;
    Events e;
    for (int row = 0; row < 400; ++row)
        for (unsigned x = unsigned(random() % 100); x < 1280; x += 1 + unsigned(random() % (row % 2 ? 3 : 30)))
            e.add(1000 * row, x, unsigned(row), row % 3 == 0);
    cusEventWriterOptions options = sensor(1280, 720);
    options.format = CUS_EVENTS_EVT3;
    CUS_ASSERT_OK(write(at / "v.raw", e, options, random));
    const Bytes data = reference::afterHeader(load(at / "v.raw"));
    unsigned base = 0, vectors = 0;
    const auto word = [&](size_t i) { return i + 1 < data.size() ? unsigned(data[i] | data[i + 1] << 8) : 0; };
    for (size_t i = 0; i < data.size(); i += 2) {
        ASSERT_NE(word(i) >> 12, 5u) << "8 pixels alone";
        base = word(i) >> 12 == 3 ? word(i) & 2047 : base;
        if (word(i) >> 12 != 4)
            continue;
        ASSERT_EQ(word(i + 2) >> 12, 4u);
        ASSERT_EQ(word(i + 4) >> 12, 5u);
        ASSERT_LE(base + 32, 1280u);
        base += 32;
        i += 4;
        ++vectors;
    }
    EXPECT_GT(vectors, 5000u);
    EXPECT_LT(data.size(), 2 * e.size());
}

TEST(EventFormat, DatCannotTellLongGaps) {
    auto random = support::generator();
    Folder at;
    cusEventWriterOptions options = sensor();
    options.format = CUS_EVENTS_DAT;
    const int64_t half = int64_t(1) << 31, period = 2 * half;
    const auto events = [](std::vector<int64_t> times) {
        Events e;
        for (const int64_t t : times)
            e.add(t, 1, 2, 1);
        return e;
    };
    for (const auto &times : std::vector<std::vector<int64_t>>{
             {period - 1, period}, {5, period - 1}, {period - 1, period + half - 2}, {half + 1, period, period + half}}) {
        CUS_ASSERT_OK(write(at / "d.dat", events(times), options, random));
        EXPECT_EQ(Reader(at / "d.dat").all().t, times);
    }
    CUS_REJECTS(write(at / "e.dat", events({period}), options, random), VALUE, "event 0 has time 4294967296 us after 0 us");
    for (const auto &times : std::vector<std::vector<int64_t>>{{period - 1, period + half - 1}, {0, 2 * period}})
        CUS_REJECTS(write(at / "e.dat", events(times), options, random), VALUE, "expected less than 2^32 us at first");
    EXPECT_NE(access((at / "e.dat").c_str(), F_OK), 0);
}

TEST(EventFormat, Errors) {
    Folder at;
    const std::string path = at / "w";
    cusEventWriter *writer = nullptr;
    cusEventWriterOptions options = sensor();
    for (const cusEventFormat format : {CUS_EVENTS_DSEC, CUS_EVENTS_EVT21, CUS_EVENTS_EVT4, cusEventFormat(99)}) {
        options.format = format;
        CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "which can be written");
    }
    options = sensor(2049, 10);
    for (const cusEventFormat format : {CUS_EVENTS_EVT2, CUS_EVENTS_EVT3, CUS_EVENTS_METAVISION}) {
        options.format = format;
        CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE,
                    "sensor is 2049 x 10 (width x height), expected 1..2048 each for");
    }
    options = sensor(10, 16385);
    options.format = CUS_EVENTS_DAT;
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "expected 1..16384 each for DAT");
    options = sensor();
    options.format = CUS_EVENTS_METAVISION;
    options.chunk = 65536;
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "expected 1024..65535 for Metavision, or 0");
    options.chunk = 0;
    options.compress = 3;
    CUS_REJECTS(cusEventWriterCreate(&writer, path.c_str(), &options), VALUE, "compress is 3");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(at / ""), {}), 0);
}

// Each of the three ways to store a chunk, with the longest runs and the largest values.
TEST(EventFormat, EcfChunks) {
    auto random = support::generator();
    int ways[4] = {0};
    for (int round = 0; round < 400 || !ways[0] || !ways[1] || !ways[2]; ++round) {
        const size_t n = round == 0 ? 65535 : random() % (round % 50 ? 600 : 65536);
        Events e = round == 0 ? Events() : stream(n, random, 2048, 2048);
        for (size_t i = 0; round == 0 && i < n; ++i)
            e.add(int64_t(1) << 40, 2047, 2047, 1);
        Bytes rows(16 * n), packed(14 * n + 36), back(16 * n);
        for (size_t i = 0; i < n; ++i) {
            std::memcpy(&rows[16 * i], &e.x[i], 2);
            std::memcpy(&rows[16 * i + 2], &e.y[i], 2);
            rows[16 * i + 4] = e.p[i];
            std::memcpy(&rows[16 * i + 8], &e.t[i], 8);
        }
        const size_t size = eventio_ecfEncode(rows.data(), rows.size(), packed.data());
        ASSERT_LE(size, packed.size());
        packed.resize(size); // so that a decoder that reads past the end is seen
        ++ways[packed[0] & 3];
        ASSERT_TRUE(eventio_ecfDecode(packed.data(), size, back.data(), back.size())) << n;
        ASSERT_TRUE(back == rows) << n;
    }
}

} // namespace
