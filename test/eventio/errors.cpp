// Damaged and malformed recordings, and invalid arguments of the reader.
#include "eventio/support.hpp"

using namespace eventio_test;

namespace {

TEST(EventErrors, TruncatedWords) {
    auto random = support::generator();
    const Events events = randomEvents(5000, random);
    for (const auto &[name, whole] : files(events)) {
        if (name.substr(0, 4) == "m3ed" || name == "aedat4" || name == "bag" || name == "mcap")
            continue;
        SCOPED_TRACE(name);
        const size_t record = name == "evt2"                 ? 4
                              : name.substr(0, 5) == "evt21" ? 8
                              : name == "evt3"               ? 2
                              : name == "dat"                ? 8
                                                             : 0;
        for (int round = 0; round < 100; ++round) {
            const size_t size = 200 + random() % (whole.size() - 200);
            const Bytes cut(whole.begin(), whole.begin() + long(size));
            Reader r(cut);
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events got = r.all(997, &status);
            // Text can be cut within its last number and still be four numbers.
            const size_t sure = record || got.size() == 0 ? got.size() : got.size() - 1;
            ASSERT_TRUE(got.part(0, sure) == events.part(0, sure));
            const size_t header = whole.size() - reference::afterHeader(whole).size() + (name == "dat" ? 2 : 0);
            if (record)
                ASSERT_EQ(status, (size - header) % record ? CUS_ERROR_TRUNCATED : CUS_OK) << size;
            // In CSV the last number is the time: cut, it goes back in time.
            const bool past = name == "text_csv" && status == CUS_ERROR_FORMAT;
            if (status != CUS_OK && !past) {
                ASSERT_EQ(status, CUS_ERROR_TRUNCATED);
                ASSERT_NE(std::string(cusLastError()).find("the file ends"), std::string::npos) << cusLastError();
            }
        }
    }
}

// What is read before is the recording's; the end is not.
TEST(EventErrors, FilesThatBecomeShorter) {
    auto random = support::generator();
    const Events events = randomEvents(200000, random); // several buffers of the reader
    const Folder at;
    const std::string path = at / "recording";
    for (const auto &[name, whole] : files(events)) {
        SCOPED_TRACE(name);
        save(path, whole);
        const bool is_words = name.substr(0, 3) == "evt" || name == "dat";
        Reader reader(path), bytes(path);
        ASSERT_EQ(reader.opened, CUS_OK) << cusLastError();
        cusEventDecoderOptions options;
        cusEventDecoderState state;
        if (is_words)
            CUS_ASSERT_OK(cusEventReaderDecoder(bytes.reader, &options, &state));
        const uint64_t size = whole.size() * 3 / 4 & ~uint64_t{15}, left = size - (is_words ? state.offset : 0);
        ASSERT_EQ(truncate(path.c_str(), off_t(size)), 0);
        cusStatus status = CUS_OK;
        const Events got = reader.all(70000, &status);
        ASSERT_TRUE(got == events.part(0, got.size()));
        if (name.substr(0, 4) != "m3ed") {
            ASSERT_GT(got.size(), events.size() / 4);
            if (is_words)
                ASSERT_LT(got.size(), events.size());
        }
        ASSERT_EQ(status, CUS_ERROR_TRUNCATED) << cusLastError();
        (void)reader.read(10, &status);
        ASSERT_EQ(status, CUS_ERROR_TRUNCATED) << cusLastError();
        if (!is_words)
            continue;
        std::vector<uint8_t> to(whole.size());
        size_t count = 0;
        ASSERT_EQ(cusEventReaderReadBytes(bytes.reader, to.size(), to.data(), &count), CUS_ERROR_TRUNCATED);
        ASSERT_EQ(count, left);
        ASSERT_EQ(0, std::memcmp(to.data(), whole.data() + state.offset, left));
        const std::string message = "the file ends at byte " + std::to_string(size) + ", and had " +
                                    std::to_string(whole.size()) + " bytes when it was opened: it has become shorter";
        ASSERT_NE(std::string(cusLastError()).find(message), std::string::npos) << cusLastError();
        if (name == "dat")
            continue;
        std::vector<cusEventTrigger> triggers(10);
        ASSERT_EQ(cusEventReaderReadTriggers(bytes.reader, 10, triggers.data(), &count), CUS_ERROR_TRUNCATED);
    }
}

TEST(EventErrors, BadEventsStopOrAreSkipped) {
    auto random = support::generator();
    Events events = randomEvents(3000, random, 1000, 5000);
    struct Case {
        const char *what;
        size_t at;
        void (*spoil)(Events &, size_t);
        const char *message;
        uint64_t cusEventCounts::*count;
    };
    for (const Case &c :
         {Case{"x", 1234, [](Events &e, size_t i) { e.x[i] = 640; }, "event 1234 at x 640",
               &cusEventCounts::bad_coordinates},
          Case{"y", 0, [](Events &e, size_t i) { e.y[i] = 480; }, "event 0 at x", &cusEventCounts::bad_coordinates},
          Case{"p", 2999, [](Events &e, size_t i) { e.p[i] = 2; }, "event 2999 has a polarity",
               &cusEventCounts::bad_polarity},
          Case{"t", 1500, [](Events &e, size_t i) { e.t[i] = e.t[i - 1] - 900; }, "event 1500 at",
               &cusEventCounts::bad_time}}) {
        Events bad = events, kept;
        c.spoil(bad, c.at);
        for (size_t i = 0; i < events.size(); ++i)
            if (i != c.at)
                kept.add(events.t[i], events.x[i], events.y[i], events.p[i]);
        for (const auto &[name, bytes] : std::map<std::string, Bytes>{{"evt2", reference::evt2(bad, EVT2)},
                                                                      {"evt4", reference::evt4(bad, EVT4)},
                                                                      {"dat", reference::dat(bad, DAT)},
                                                                      {"text", reference::text(bad, false)}}) {
            if (name.substr(0, 3) == "evt" && *c.what == 'p')
                continue; // a polarity of one bit is always valid
            SCOPED_TRACE(name + " " + c.what);
            cusEventReaderOptions options = cusEventReaderDefaults();
            options.width = 640;
            options.height = 480;
            Reader strict(bytes, options);
            ASSERT_EQ(strict.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events before = strict.all(700, &status);
            EXPECT_EQ(status, CUS_ERROR_FORMAT);
            EXPECT_NE(std::string(cusLastError()).find(c.message), std::string::npos) << cusLastError();
            EXPECT_TRUE(before == events.part(0, c.at));
            // Reading continues after a seek past the damage.
            CUS_ASSERT_OK(cusEventReaderSeekIndex(strict.reader, int64_t(c.at) + 1));
            EXPECT_TRUE(strict.all() == events.part(c.at + 1, events.size() - c.at - 1));

            options.bad_events = CUS_BAD_EVENTS_SKIP;
            Reader lenient(bytes, options);
            EXPECT_TRUE(lenient.all(700) == kept);
            EXPECT_EQ(lenient.counts().*c.count, 1u);
            EXPECT_EQ(lenient.counts().events, 2999u);
        }
    }
}

TEST(EventErrors, UndefinedWords) {
    auto random = support::generator();
    const Events events = randomEvents(100, random);
    Bytes two = reference::evt2(events, EVT2), vectors = reference::evt21(events, EVT21, false),
          three = reference::evt3(events, EVT3), four = reference::evt4(events, EVT4), text = reference::text(events, true);
    reference::append(two, 0x50000000u, 4);
    reference::append(vectors, uint64_t(0x5) << 60, 8);
    reference::append(three, 0x9000u, 2);
    reference::append(four, 0x80000000u, 4);
    for (const char c : std::string("garbage here\n"))
        text.push_back(uint8_t(c));
    for (const Bytes *bytes : {&two, &vectors, &three, &four, &text}) {
        Reader strict(*bytes);
        cusStatus status = CUS_OK;
        EXPECT_TRUE(strict.all(1000, &status) == events);
        CUS_REJECTS(status, FORMAT, "byte ");
        cusEventReaderOptions options = cusEventReaderDefaults();
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        Reader lenient(*bytes, options);
        EXPECT_TRUE(lenient.all() == events);
        EXPECT_EQ(lenient.counts().bad_words, 1u);
    }
}

TEST(EventErrors, FilesThatAreNotRecordings) {
    Folder at;
    cusEventReader *reader = nullptr;
    const auto open = [&](const std::string &path) { return cusEventReaderOpen(&reader, path.c_str(), nullptr); };
    CUS_REJECTS(open(at / "nothing"), IO, "No such file");
    ASSERT_EQ(mkfifo((at / "pipe").c_str(), 0600), 0);
    CUS_REJECTS(open(at / ""), IO, "is a directory, expected a regular file");
    CUS_REJECTS(open(at / "pipe"), IO, "is a pipe, expected a regular file");
    CUS_REJECTS(open("/dev/null"), IO, "is a device, expected a regular file");
    const auto content = [&](const std::string &text) {
        save(at / "file", reference::bytesOf(text));
        return open(at / "file");
    };
    CUS_REJECTS(content(""), FORMAT, "the file is empty");
    CUS_REJECTS(content("hello"), FORMAT, "not an event recording");
    CUS_REJECTS(content(std::string(5000, '\0')), FORMAT, "not an event recording");
    CUS_EXPECT_ERROR(content("1 2 3 four\n"), CUS_OK, "");
    cusEventReaderClose(reader);
    reader = nullptr;
    CUS_REJECTS(content("% evt 2.2\n% end\n1234"), UNSUPPORTED, "encoding is EVT 2.2, expected EVT 2.0, 2.1, 3.0 or 4.0");
    CUS_REJECTS(content("% format EVT21;height=720;width=1280;endianness=big\n% end\n12345678"), UNSUPPORTED,
                "endianness of EVT 2.1 is big, expected little or legacy");
    CUS_REJECTS(content("% evt 5.0\n% end\n1234"), UNSUPPORTED, "EVT 5.0");
    for (const char *version : {"evt 4294967299.0", "evt 3.4294967296", "evt -4294967293.0", "evt 99999999999999999999.0"})
        CUS_REJECTS(content("% " + std::string(version) + "\n% end\n1234"), UNSUPPORTED,
                    "expected EVT 2.0, 2.1, 3.0 or 4.0");
    CUS_REJECTS(content("% Version 1\n" + std::string("\0\x08", 2) + "12345678"), UNSUPPORTED, "DAT version is 1");
    CUS_REJECTS(content("% Version 2\n\x03\x09"
                        "12345678"),
                FORMAT, "names no EVT encoding");
    CUS_REJECTS(content("% Data file containing X events\n\x03\x09"
                        "12345678"),
                FORMAT, "records of type 3 and 9");
    CUS_REJECTS(content("% evt 3.0"), TRUNCATED, "ends within its header, at byte 9");
    CUS_REJECTS(content("% Version 2\n"), TRUNCATED, "ends after its header");
    CUS_REJECTS(content("% " + std::string(100000, 'x')), FORMAT, "header is longer than 65536 bytes");
    for (const size_t end : {65535u, 65536u, 65537u}) { // a line ends before, at and after the limit
        const std::string line = "% " + std::string(1021, 'x') + "\n", start = "% evt 3.0\n";
        std::string text = start;
        while (text.size() + 2 * line.size() < end)
            text += line;
        text += "% " + std::string(end - text.size() - 3, 'y') + "\n";
        ASSERT_EQ(text.size(), end);
        CUS_REJECTS(content(text + line + "% end\n1234"), FORMAT, "header is longer than 65536 bytes");
    }
    CUS_EXPECT_ERROR(content("\x89HDF\r\n\x1a\n garbled"), CUS_ERROR_FORMAT, "HDF5");
    CUS_EXPECT_ERROR(content("\x89HDF\r\n\x1a\n" + std::string(4096, 'x')), CUS_ERROR_FORMAT, "HDF5");
    EXPECT_EQ(reader, nullptr);
}

// Messages go to terminals and logs.
TEST(EventErrors, MessagesHaveNoControlCharacters) {
    cusEventReader *reader = nullptr;
    const auto message = [&](const std::string &path) {
        EXPECT_EQ(cusEventReaderOpen(&reader, path.c_str(), nullptr), CUS_ERROR_IO);
        return std::string(cusLastError());
    };
    const auto has = [&](const std::string &path, const std::string &shown) {
        EXPECT_NE(message(path).find("/none/" + shown), std::string::npos) << cusLastError();
    };
    has("/none/\x1b[2J\a\n\t\x7f.", "\\x1b[2J\\x07\\x0a\\x09\\x7f.");
    has("/none/\xc2\x9b.\x9b.\xc3.\xff", "\\xc2\\x9b.\\x9b.\\xc3.\\xff"); // C1 and what is no UTF-8
    has("/none/z\xc3\xb6 \xe6\x97\xa5 \xf0\x9f\x98\x80 \\.", "z\xc3\xb6 \xe6\x97\xa5 \xf0\x9f\x98\x80 \\.");
    for (size_t n = 100; n < 140; ++n) { // cut at any place
        const std::string text = message("/none/" + std::string(n, '\x1b'));
        EXPECT_LT(text.size(), 512u);
        EXPECT_EQ(text.find('\x1b'), std::string::npos);
        EXPECT_NE(text.find("\\x1b\\x1b"), std::string::npos);
    }
    EXPECT_EQ(reader, nullptr);
}

TEST(EventErrors, Arguments) {
    cusEventReader *reader = nullptr;
    size_t count = 0;
    cusEventInfo info;
    cusEventCounts counts;
    CUS_REJECTS(cusEventReaderOpen(nullptr, "x", nullptr), NULL, "cusEventReaderOpen: reader is NULL");
    CUS_REJECTS(cusEventReaderOpen(&reader, nullptr, nullptr), NULL, "path is NULL");
    CUS_REJECTS(cusEventReaderOpenMemory(&reader, nullptr, 5, nullptr), NULL, "data is NULL");
    CUS_REJECTS(cusEventReaderRead(nullptr, 1, nullptr, nullptr, nullptr, nullptr, &count), NULL, "reader");
    CUS_REJECTS(cusEventReaderInfo(nullptr, &info), NULL, "reader");
    CUS_REJECTS(cusEventReaderCounts(nullptr, &counts), NULL, "reader");
    CUS_REJECTS(cusEventReaderSeekIndex(nullptr, 0), NULL, "reader");
    CUS_REJECTS(cusEventReaderSeekTime(nullptr, 0, nullptr), NULL, "reader");
    cusEventReaderClose(nullptr);
    const auto changed = [&](const auto &change) {
        cusEventReaderOptions wrong = cusEventReaderDefaults();
        change(wrong);
        return cusEventReaderOpen(&reader, "x", &wrong);
    };
    CUS_REJECTS(changed([](auto &o) { o.width = 5; }), VALUE, "sensor is 5 x 0");
    CUS_REJECTS(changed([](auto &o) { o.camera = ""; }), VALUE, "camera is \"\"");
    CUS_REJECTS(changed([](auto &o) { o.format = cusEventFormat(99); }), VALUE, "format is 99");
    CUS_REJECTS(changed([](auto &o) { o.threads = -1; }), VALUE, "threads is -1");
    CUS_REJECTS(changed([](auto &o) { o.bad_events = cusBadEvents(2); }), VALUE, "bad_events is 2");
    CUS_REJECTS(changed([](auto &o) { o.max_memory = 1000; }), VALUE, "max_memory is 1000, expected 0 or 67108864");
    CUS_REJECTS(changed([](auto &o) { o.max_chunk = size_t(1) << 32; }), VALUE, "max_chunk is 4294967296, expected 0..");
    CUS_REJECTS(changed([](auto &o) { o.pin_file = 2; }), VALUE, "pin_file is 2, expected 0 or 1");
    CUS_REJECTS(changed([](auto &o) { o.plugins = 1; }), VALUE,
                "plugins is 1, expected 0: HDF5 filters are no longer decoded by plugins; `h5repack");
    cusEventReaderOptions options = cusEventReaderDefaults();
    EXPECT_EQ(options.max_memory, size_t(1) << 30);
    EXPECT_EQ(options.max_chunk, size_t(1) << 26);
    options.format = CUS_EVENTS_DAT;
    const Bytes text = reference::bytesOf("1 2 3 1\n");
    CUS_REJECTS(cusEventReaderOpenMemory(&reader, text.data(), text.size(), &options), FORMAT,
                "the file is text, expected DAT");
    Reader r(text);
    CUS_REJECTS(cusEventReaderSeekIndex(r.reader, -1), VALUE, "index is -1");
    CUS_REJECTS(cusEventReaderRead(r.reader, 1, nullptr, nullptr, nullptr, nullptr, nullptr), NULL, "count");
    EXPECT_STREQ(cusEventFormatName(CUS_EVENTS_EVT3), "EVT3");
    EXPECT_STREQ(cusEventFormatName(cusEventFormat(77)), "unknown");
}

// A vector of EVT2.1 may run past 11 bits; coordinates are checked like any others.
TEST(EventHostile, Evt21VectorsPastTheSensor) {
    Bytes bytes = reference::bytesOf("% evt 2.1\n% geometry 2048x2048\n% end\n");
    reference::append(bytes, uint64_t(0x80000001) << 32, 8);
    reference::append(bytes, uint64_t(2047u << 11 | 2047u) << 32 | 0xffffffffu, 8);
    cusEventReaderOptions options = cusEventReaderDefaults();
    Reader strict(bytes, options);
    cusStatus status = CUS_OK;
    EXPECT_EQ(strict.all(7, &status).size(), 1u);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    options.bad_events = CUS_BAD_EVENTS_SKIP;
    Reader lenient(bytes, options);
    EXPECT_EQ(lenient.all().size(), 1u);
    EXPECT_EQ(lenient.counts().bad_coordinates, 31u);
}

// Lines of text that fit no order of the columns, or several: no parser reads past the end of a line.
TEST(EventHostile, TextThatFitsNoOrder) {
    for (const char *const text :
         {"9 9 9 9\n8 8 8 8\n", "0 0 0 0\n", "-1 -1 -1 -1\n", "1e400 1e400 1e400 1e400\n", "1.5 1.5 1.5 1.5\n", "x y p\n",
          "x y p t\n", "x x y t\n1 2 1 4\n", "t x y p p\n1 2 3 0\n", "%geometry:,\n1 2 3 1\n",
          "%geometry:99999999999999999999,-5\n1 2 3 1\n", "%geometry:"}) {
        SCOPED_TRACE(text);
        Reader r(reference::bytesOf(text));
        cusStatus status = CUS_OK;
        if (r.opened == CUS_OK) {
            EXPECT_LE(r.all(100, &status).size(), 2u);
            EXPECT_EQ(r.info.width, 0);
        }
    }
}

// Vectors that run past 16 bits are outside every sensor; they are not cut to 16 bits.
TEST(EventErrors, Evt3VectorsPastSixteenBits) {
    for (const int width : {0, 640, 65536}) {
        Bytes bytes = reference::bytesOf("% evt 3.0\n% end\n");
        for (const uint32_t word : {0x8000u, 0x6001u, 0x0005u, 0x3000u})
            reference::append(bytes, word, 2);
        size_t good = 0, bad = 0;
        for (unsigned k = 0; k < 140000; ++k) { // each vector of 12 columns has its first and last event
            reference::append(bytes, 0x4801u, 2);
            for (const unsigned x : {12 * k, 12 * k + 11})
                ++(x < (width ? unsigned(std::min(width, 65535)) : 65535u) ? good : bad);
        }
        cusEventReaderOptions options = cusEventReaderDefaults();
        options.width = options.height = width;
        options.bad_events = CUS_BAD_EVENTS_SKIP;
        Reader lenient(bytes, options);
        ASSERT_EQ(lenient.opened, CUS_OK) << cusLastError();
        const Events got = lenient.all();
        EXPECT_EQ(got.size(), good);
        EXPECT_EQ(lenient.counts().bad_coordinates, bad);
        EXPECT_TRUE(std::is_sorted(got.x.begin(), got.x.end())) << "x was cut to 16 bits";
        options.bad_events = CUS_BAD_EVENTS_STOP;
        Reader strict(bytes, options);
        cusStatus status = CUS_OK;
        EXPECT_EQ(strict.all(777, &status).size(), good);
        CUS_REJECTS(status, FORMAT, "is outside the");
    }
}

} // namespace
