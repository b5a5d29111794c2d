// Recordings that are read in parts, and files of frames that are written in parts.
#include "eventio/support.hpp"

#include <csignal>
#include <numeric>

#include <sys/resource.h>

using namespace eventio_test;

namespace {

// Marks of `parts` parts, each scanned by a reader of its own.
std::vector<cusEventMark> marksOf(const Bytes &bytes, uint64_t parts) {
    std::vector<cusEventPart> summaries(parts);
    std::vector<cusEventMark> marks(parts + 1);
    for (uint64_t k = 0; k < parts; ++k) {
        Reader r(bytes);
        EXPECT_EQ(cusEventReaderScan(r.reader, k, parts, &summaries[k]), CUS_OK) << cusLastError();
    }
    Reader r(bytes);
    EXPECT_EQ(cusEventReaderMarks(r.reader, summaries.data(), parts, marks.data()), CUS_OK) << cusLastError();
    return marks;
}

// Wherever the cuts are, reading from a mark gives the same events as reading from the start.
void checkParts(const Bytes &bytes, const Events &all, uint64_t parts, const std::string &name) {
    const std::vector<cusEventMark> marks = marksOf(bytes, parts);
    ASSERT_EQ(marks[parts].index, all.size()) << name << ", " << parts << " parts";
    Reader r(bytes);
    for (uint64_t k = 0; k <= parts; ++k) {
        ASSERT_TRUE(k == 0 || marks[k].index >= marks[k - 1].index);
        ASSERT_EQ(cusEventReaderSeekMark(r.reader, &marks[k]), CUS_OK) << cusLastError();
        const size_t first = marks[k].index, n = k < parts ? marks[k + 1].index - first : 0;
        ASSERT_EQ(r.read(n), all.part(first, n)) << name << ", part " << k << " of " << parts;
    }
}

} // namespace

TEST(EventParts, ReadingFromEachMarkGivesTheSameEvents) {
    auto random = support::generator();
    const Events events = randomEvents(35000 / support::fewer(), random, int64_t(random() % 20000000));
    for (const auto &[name, bytes] : files(events)) {
        const Events all = Reader(bytes).all();
        ASSERT_EQ(all.size(), events.size());
        for (const uint64_t parts : {1, 2, 3, 7, 64})
            checkParts(bytes, all, parts, name);
        checkParts(bytes, all, 1 + random() % 150, name);
    }
}

// Long parts of EVT3 are scanned by blocks of words, short ones word by word; the marks are the same.
TEST(EventParts, BlocksOfWordsGiveTheMarksOfSingleWords) {
    auto random = support::generator();
    for (int round = 0; round < 200 / support::fewer(); ++round) {
        Bytes bytes = reference::bytesOf("% evt 3.0\n% geometry 1280x720\n% end\n");
        const uint32_t vectors = random() % 20, times = 1 + random() % 300, parts = 1 + random() % 3;
        for (uint32_t k = 0, n = 64 * (1 + random() % 40) * parts; k < n; ++k) {
            static constexpr uint32_t FREQUENT[] = {0, 2, 2, 6};
            const uint32_t type = random() % 20 < vectors ? 3 + random() % 3
                                  : random() % times == 0 ? 8
                                  : random() % 1000 == 0  ? random() % 16
                                                          : FREQUENT[random() % 4];
            const uint32_t word = type << 12 | (type == 8 ? random() % 3 : random() % 4096);
            bytes.push_back(static_cast<uint8_t>(word));
            bytes.push_back(static_cast<uint8_t>(word >> 8));
        }
        const uint64_t finer = (bytes.size() / parts + 99) / 100;
        const std::vector<cusEventMark> long_parts = marksOf(bytes, parts), short_parts = marksOf(bytes, parts * finer);
        for (uint32_t k = 0; k <= parts; ++k)
            ASSERT_EQ(std::memcmp(&long_parts[k], &short_parts[k * finer], sizeof long_parts[k]), 0)
                << "round " << round << ", part " << k << " of " << parts;
    }
}

// A decoder elsewhere starts at the mark sought last, and at the first event after any other seek.
TEST(EventParts, ADecoderStartsAtAMark) {
    auto random = support::generator();
    const Events events = randomEvents(9000 / support::fewer(), random, int64_t(random() % 20000000));
    for (const auto &[name, bytes] : files(events)) {
        Reader r(bytes);
        cusEventDecoderOptions options;
        cusEventDecoderState state;
        if (cusEventReaderDecoder(r.reader, &options, &state) != CUS_OK)
            continue;
        const Events all = Reader(bytes).all();
        std::vector<cusEventMark> marks = marksOf(bytes, 1 + random() % 40);
        marks.insert(marks.begin(), cusEventMark{});
        for (const cusEventMark &mark : marks) {
            size_t count = 0;
            if (&mark != &marks[0])
                CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &mark));
            r.read(random() % 50); // changes nothing
            if (&mark == &marks[0])
                CUS_ASSERT_OK(random() % 2 ? cusEventReaderSeekIndex(r.reader, 7)
                                           : cusEventReaderSeekTime(r.reader, 9, nullptr));
            if (options.format == CUS_EVENTS_METAVISION || options.format == CUS_EVENTS_HDF5) {
                uint64_t first = 0;
                cusStatus status = CUS_OK;
                EXPECT_TRUE(ofChunks(r.reader, options.format, random, 5000, &status, &first) ==
                            all.part(mark.index, all.size() - mark.index))
                    << name;
                EXPECT_EQ(first, mark.index) << name;
                CUS_EXPECT_OK(status);
                continue;
            }
            CUS_ASSERT_OK(cusEventReaderDecoder(r.reader, &options, &state));
            EXPECT_EQ(state.index, mark.index) << name;
            support::Owned<cusEventDecoderDestroy> decoder;
            CUS_ASSERT_OK(cusEventDecoderCreate(&decoder, &options));
            CUS_ASSERT_OK(cusEventDecoderSetState(decoder, &state));
            Bytes rest(bytes.size());
            CUS_ASSERT_OK(cusEventReaderReadBytes(r.reader, rest.size(), rest.data(), &count));
            Events e;
            const size_t most = events.size() + 1;
            e.x.resize(most), e.y.resize(most), e.p.resize(most), e.t.resize(most);
            const cusEventBuffers to = {e.x.data(), e.y.data(), e.p.data(), e.t.data(), most, nullptr, 0};
            cusEventDecoded done = {};
            CUS_ASSERT_OK(cusEventDecoderRun(decoder, rest.data(), count, &to, &done, nullptr));
            EXPECT_TRUE(e.part(0, done.count) == all.part(mark.index, all.size() - mark.index))
                << name << ", " << mark.index;
        }
    }
}

TEST(EventParts, MorePartsThanEvents) {
    auto random = support::generator();
    for (const size_t n : {1, 2, 5}) {
        const Events events = randomEvents(n, random);
        for (const auto &[name, bytes] : files(events)) // so few lines do not tell the order of the columns
            checkParts(bytes, Reader(bytes).all(), 40, name);
    }
}

// Pauses of half a period and less, so that each counter wraps, some between two parts.
TEST(EventParts, TimeCountersWrap) {
    auto random = support::generator();
    for (const auto &[name, pause] : {std::pair<std::string, int64_t>{"evt3", 1500000}, {"dat", 1500000000}}) {
        Events events = randomEvents(6000, random);
        for (size_t i = 0; i < events.size(); ++i)
            events.t[i] += int64_t(i / 200) * pause;
        const Bytes bytes = name == "dat" ? reference::dat(events, DAT) : reference::evt3(events, EVT3);
        const Events all = Reader(bytes).all();
        ASSERT_GT(all.t.back(), name == "dat" ? int64_t{1} << 34 : int64_t{1} << 25);
        checkParts(bytes, all, 100, name);
    }
}

// Words in any order that decode: state set long before a cut, vectors without a new base, triggers, no time word at first.
TEST(EventParts, StateSurvivesACut) {
    auto random = support::generator();
    for (int round = 0; round < 20; ++round) {
        Bytes evt3(EVT3.begin(), EVT3.end()), evt2(EVT2.begin(), EVT2.end());
        const auto put16 = [&](uint32_t w) { evt3.push_back(uint8_t(w)), evt3.push_back(uint8_t(w >> 8)); };
        const auto put32 = [&](uint32_t w) {
            for (int k = 0; k < 4; ++k)
                evt2.push_back(uint8_t(w >> 8 * k));
        };
        uint32_t high = uint32_t(random() % 4096), low = 0, columns = 0, high2 = 1, low2 = 0;
        const bool timed = round % 2;
        const size_t start = round % 4 < 2 ? 0 : 500;
        for (size_t i = 0; i < 4000; ++i) {
            const uint64_t r = random();
            const uint32_t value = uint32_t(r >> 32);
            const bool time = timed || i > start;
            switch (r % (round % 3 ? 12 : 40)) { // seldom anything but events
            case 0:
                if (time) {
                    const uint32_t step = value % 8 ? value & 1 : 900;
                    high += step;
                    low = step ? 0 : low;
                    put16(0x8000 | (high & 4095));
                }
                break;
            case 1:
                low = std::min(4095u, low + value % 30);
                put16(0x6000 | low);
                break;
            case 2:
                put16(value % 480);
                break;
            case 3:
                put16(0x3000 | value % 200 | (value >> 20 & 1) << 11);
                columns = value % 200;
                break;
            case 4:
                put16(0xa000 | (value & 1));
                break;
            case 5:
                put16(0xe000 | (value & 4095));
                break;
            case 6:
            case 7:
                columns += r & 1 ? 12 : 8;
                if (columns < 600)
                    put16((r & 1 ? 0x4000 | (value & 4095) : 0x5000 | (value & 255)));
                break;
            default:
                put16(0x2000 | value % 640 | (value >> 20 & 1) << 11);
            }
            if (time && r % 50 == 0) {
                high2 += 1 + value % 100;
                low2 = 0;
                put32(0x80000000u | high2);
            }
            low2 = std::min(63u, low2 + uint32_t(r >> 20 & 1));
            put32((value & 1) << 28 | low2 << 22 | value % 640 << 11 | (value >> 12) % 480);
        }
        for (const Bytes &bytes : {evt2, evt3}) {
            cusStatus status = CUS_OK;
            const Events all = Reader(bytes).all(70000, &status);
            ASSERT_EQ(status, CUS_OK) << cusLastError();
            checkParts(bytes, all, 1 + random() % 60, "words");
        }
    }
}

// Masks that look like vectors, in runs of any length, where parts are cut.
TEST(EventParts, MasksThatLookLikeVectors) {
    auto random = support::generator();
    for (int round = 0; round < 20; ++round) {
        Bytes bytes = reference::bytesOf("% evt 4.0\n% end\n");
        reference::append(bytes, 0xe0000001u, 4);
        const size_t n = round < 3 ? 5000 : 300;
        for (size_t i = 0; i < n; ++i) {
            const uint64_t r = random();
            if (round < 3 ? i == 7 : r % 9 == 0)
                reference::append(bytes, 0xa0000000u | (r >> 32 & 0x3fffff), 4);
            reference::append(bytes, 0xc0000000u | (r >> 8 & 0x103fffff), 4);
            reference::append(bytes, (r & 16 || round < 3 ? 0xc0000000u : 0u) | (r >> 36 & 0xfff), 4);
        }
        checkParts(bytes, Reader(bytes).all(), 1 + random() % 60, "masks");
    }
}

TEST(EventParts, SeeksAfterAMark) {
    auto random = support::generator();
    const Events events = randomEvents(42000 / support::fewer(), random);
    for (const auto &[name, bytes] : files(events)) {
        const Events all = Reader(bytes).all();
        const std::vector<cusEventMark> marks = marksOf(bytes, 20);
        Reader r(bytes);
        for (const size_t k : {15, 3, 9}) {
            CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &marks[k]));
            const size_t index = marks[k].index + 777;
            CUS_ASSERT_OK(cusEventReaderSeekIndex(r.reader, int64_t(index)));
            ASSERT_EQ(r.read(100), all.part(index, 100)) << name;
            checkPiecesAndSeeks(r, all, random);
        }
    }
}

TEST(EventParts, DamageIsLeftToReading) {
    auto random = support::generator();
    const Events events = randomEvents(20000, random);
    Bytes bytes = reference::evt2(events, EVT2);
    bytes.resize(bytes.size() - 3);
    const std::vector<cusEventMark> marks = marksOf(bytes, 10);
    EXPECT_EQ(marks[10].index, events.size() - 1);
    Reader r(bytes);
    CUS_ASSERT_OK(cusEventReaderSeekMark(r.reader, &marks[9]));
    cusStatus status = CUS_OK;
    const Events end = r.all(1000, &status);
    EXPECT_EQ(status, CUS_ERROR_TRUNCATED);
    EXPECT_EQ(end.size(), events.size() - 1 - marks[9].index);
}

TEST(EventParts, Errors) {
    auto random = support::generator();
    const Events events = randomEvents(1000, random);
    Reader r(reference::evt2(events, EVT2));
    cusEventPart parts[2];
    cusEventMark marks[3];
    CUS_REJECTS(cusEventReaderScan(nullptr, 0, 1, parts), NULL, "reader");
    CUS_REJECTS(cusEventReaderScan(r.reader, 0, 1, nullptr), NULL, "summary");
    CUS_REJECTS(cusEventReaderScan(r.reader, 0, 0, parts), VALUE, "parts is 0, expected 1 to 2^32");
    CUS_REJECTS(cusEventReaderScan(r.reader, 2, 2, parts), VALUE, "part is 2, expected less than parts, 2");
    CUS_ASSERT_OK(cusEventReaderScan(r.reader, 0, 2, &parts[0]));
    CUS_ASSERT_OK(cusEventReaderScan(r.reader, 1, 3, &parts[1]));
    CUS_REJECTS(cusEventReaderMarks(r.reader, parts, 2, marks), VALUE, "summaries[1] starts at byte");
    CUS_ASSERT_OK(cusEventReaderScan(r.reader, 1, 2, &parts[1]));
    CUS_ASSERT_OK(cusEventReaderMarks(r.reader, parts, 2, marks));
    marks[1].offset = 1 << 30;
    CUS_REJECTS(cusEventReaderSeekMark(r.reader, &marks[1]), VALUE, "mark is at byte 1073741824");
    CUS_REJECTS(cusEventReaderSeekMark(r.reader, nullptr), NULL, "mark");
    EXPECT_EQ(r.read(10), events.part(0, 10)); // rejected calls have changed nothing
}

// ---- Files of frames ---------------------------------------------------------------------------------------------------

namespace {

std::vector<uint8_t> randomFrame(size_t bytes, std::mt19937_64 &random) {
    std::vector<uint8_t> frame(bytes);
    const int kind = int(random() % 3); // zeros, sparse, incompressible
    for (uint8_t &byte : frame) {
        const uint64_t r = random();
        byte = kind == 0 || (kind == 1 && r % 10) ? 0 : uint8_t(r >> 8);
    }
    return frame;
}

void putAt(const std::string &path, uint64_t offset, const void *data, size_t bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(offset)).write(static_cast<const char *>(data), std::streamsize(bytes));
    ASSERT_TRUE(file.good());
}

} // namespace

TEST(FrameFileLayout, FramesWrittenInAnyOrderGiveTheWritersFile) {
    auto random = support::generator();
    Folder at;
    for (const size_t count : {0, 1, 2, 40, 700}) {
        const int rows = int(1 + random() % 40), cols = int(1 + random() % 60),
                  type = count % 2 ? CUS_8UC2 : CUS_MAKETYPE(count == 700 ? CUS_16F : CUS_32F, 5);
        const size_t bytes = size_t(rows) * size_t(cols) * cusTypeSize(type);
        std::vector<std::vector<uint8_t>> frames(count), packed(count);
        std::vector<uint32_t> stored(count);
        std::vector<uint64_t> offsets(count + 1);
        cusFrameWriter *writer = nullptr;
        CUS_ASSERT_OK(cusFrameWriterCreate(&writer, (at / "whole.h5").c_str(), rows, cols, type));
        std::vector<uint8_t> pair;
        for (size_t k = 0; k < count; ++k) {
            frames[k] = randomFrame(bytes, random);
            cusMat mat = CUS_MAT_INIT;
            CUS_ASSERT_OK(cusMatWrap(&mat, rows, cols, type, CUS_HOST, frames[k].data(), 0));
            packed[k].resize(bytes);
            size_t size = 0;
            CUS_ASSERT_OK(cusFramePack(&mat, packed[k].data(), &size));
            stored[k] = uint32_t(size);
            if (k % 3 == 2 && k + 1 < count) { // in batches of one and two
                pair = frames[k];
                continue;
            }
            pair.insert(pair.end(), frames[k].begin(), frames[k].end());
            CUS_ASSERT_OK(cusMatWrap(&mat, int(pair.size() / bytes) * rows, cols, type, CUS_HOST, pair.data(), 0));
            CUS_ASSERT_OK(cusFrameWriterWrite(writer, &mat));
            pair.clear();
        }
        CUS_ASSERT_OK(cusFrameWriterFinish(writer));
        save(at / "parts.h5", Bytes(5, 7));
        CUS_ASSERT_OK(
            cusFrameFileLayout((at / "parts.h5").c_str(), rows, cols, type, count, 1, stored.data(), offsets.data()));
        std::vector<size_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t k : order)
            putAt(at / "parts.h5", offsets[k], packed[k].data(), stored[k]);
        ASSERT_TRUE(load(at / "parts.h5") == load(at / "whole.h5")) << count << " frames of " << bytes << " bytes";
    }
}

TEST(FrameFileLayout, AContiguousFileIsOneBlockAfterAHeader) {
    auto random = support::generator();
    Folder at;
    uint64_t header = 0;
    for (const size_t count : {1, 3, 1000, 0}) {
        save(at / "f.h5", Bytes(5, 7));
        uint64_t offset = 0;
        CUS_ASSERT_OK(cusFrameFileLayout((at / "f.h5").c_str(), 11, 13, CUS_16SC1, 1, 0, nullptr, &offset));
        EXPECT_TRUE(header == 0 || header == offset);
        header = offset;
        const std::vector<uint8_t> all = randomFrame(count * 11 * 13 * 2, random);
        putAt(at / "f.h5", offset, all.data(), all.size());
        CUS_ASSERT_OK(cusFrameFileLayout((at / "f.h5").c_str(), 11, 13, CUS_16SC1, count, 0, nullptr, &offset));
        EXPECT_EQ(offset, header);
        const Bytes bytes = load(at / "f.h5");
        ASSERT_EQ(bytes.size(), count ? header + all.size() : bytes.size());
        if (count)
            EXPECT_TRUE(std::equal(all.begin(), all.end(), bytes.begin() + std::ptrdiff_t(header)));
    }
    CUS_EXPECT_OK(cusFrameFileLayout((at / "f.h5").c_str(), 720, 1280, CUS_8UC2, 100, 0, nullptr, &header)); // sparse
}

TEST(FrameFileLayout, Errors) {
    Folder at;
    save(at / "f.h5", {});
    const uint32_t stored[] = {4, 7};
    uint64_t offsets[2];
    const std::string path = at / "f.h5", missing = at / "none.h5";
    CUS_REJECTS(cusFrameFileLayout(nullptr, 2, 3, CUS_8UC1, 2, 1, stored, offsets), NULL, "path");
    CUS_REJECTS(cusFrameFileLayout(path.c_str(), 2, 3, CUS_8UC1, 2, 1, stored, nullptr), NULL, "offsets");
    CUS_REJECTS(cusFrameFileLayout(path.c_str(), 2, 3, CUS_8UC1, 2, 1, stored, offsets), VALUE,
                "stored[1] is 7, expected 1 to 6");
    CUS_REJECTS(cusFrameFileLayout(path.c_str(), 0, 3, CUS_8UC1, 2, 1, stored, offsets), VALUE, "0 x 3");
    CUS_REJECTS(cusFrameFileLayout(path.c_str(), 2, 3, CUS_8UC1, uint64_t{1} << 60, 0, nullptr, offsets), SIZE,
                "2^60 bytes or more");
    CUS_REJECTS(cusFrameFileLayout(missing.c_str(), 2, 3, CUS_8UC1, 1, 1, stored, offsets), IO, "No such file");
    size_t size = 0;
    uint8_t byte = 0;
    CUS_REJECTS(cusFramePack(nullptr, &byte, &size), NULL, "frame");
    cusMat mat = CUS_MAT_INIT;
    CUS_ASSERT_OK(cusMatWrap(&mat, 1, 1, CUS_8UC1, CUS_HOST, &byte, 0));
    CUS_REJECTS(cusFramePack(&mat, nullptr, &size), NULL, "packed");
}

// Frames read back and joined elsewhere give the same file, without the label.
TEST(FrameReader, ReturnsStoredFrames) {
    auto random = support::generator();
    Folder at;
    constexpr int rows = 20, cols = 30, type = CUS_8UC2;
    constexpr size_t bytes = size_t{2} * rows * cols, count = 50;
    cusFrameWriter *writer = nullptr;
    CUS_ASSERT_OK(cusFrameWriterCreate(&writer, (at / "f.h5").c_str(), rows, cols, type));
    std::vector<std::vector<uint8_t>> packed(count);
    for (auto &each : packed) {
        std::vector<uint8_t> frame = randomFrame(bytes, random);
        cusMat mat = CUS_MAT_INIT;
        CUS_ASSERT_OK(cusMatWrap(&mat, rows, cols, type, CUS_HOST, frame.data(), 0));
        CUS_ASSERT_OK(cusFrameWriterWrite(writer, &mat));
        each.resize(bytes);
        size_t stored = 0;
        CUS_ASSERT_OK(cusFramePack(&mat, each.data(), &stored));
        each.resize(stored);
    }
    CUS_REJECTS(cusFrameWriterLabel(writer, ""), VALUE, "label has 0 bytes, expected 1 to 63");
    CUS_REJECTS(cusFrameWriterLabel(writer, std::string(64, 'x').c_str()), VALUE, "label has 64 bytes");
    CUS_REJECTS(cusFrameWriterLabel(writer, nullptr), NULL, "label");
    CUS_ASSERT_OK(cusFrameWriterLabel(writer, "3/7 of something"));
    CUS_ASSERT_OK(cusFrameWriterFinish(writer));

    cusFrameReader *reader = nullptr;
    cusFrameFileInfo info;
    CUS_ASSERT_OK(cusFrameReaderOpen(&reader, (at / "f.h5").c_str(), &info));
    EXPECT_EQ(info.rows, rows);
    EXPECT_EQ(info.cols, cols);
    EXPECT_EQ(info.type, type);
    EXPECT_EQ(info.compressed, 1);
    EXPECT_EQ(info.frames, count);
    EXPECT_STREQ(info.label, "3/7 of something");
    std::vector<uint8_t> stored(bytes);
    size_t size = 0;
    for (size_t k = 0; k < count; ++k) {
        CUS_ASSERT_OK(cusFrameReaderStored(reader, k, nullptr, &size));
        ASSERT_EQ(size, packed[k].size());
        CUS_ASSERT_OK(cusFrameReaderStored(reader, k, stored.data(), &size));
        ASSERT_TRUE(std::equal(packed[k].begin(), packed[k].end(), stored.begin())) << "frame " << k;
    }
    CUS_REJECTS(cusFrameReaderStored(reader, count, nullptr, &size), VALUE, "frame is 50, expected less than 50");
    cusFrameReaderClose(reader);
    CUS_REJECTS(cusFrameFileLabel((at / "f.h5").c_str(), "again"), IO, "cannot be labeled");

    save(at / "plain.h5", {});
    uint64_t offset = 0;
    CUS_ASSERT_OK(cusFrameFileLayout((at / "plain.h5").c_str(), rows, cols, type, 3, 0, nullptr, &offset));
    const std::vector<uint8_t> last = randomFrame(bytes, random);
    putAt(at / "plain.h5", offset + 2 * bytes, last.data(), bytes);
    CUS_ASSERT_OK(cusFrameFileLabel((at / "plain.h5").c_str(), "one"));
    CUS_ASSERT_OK(cusFrameReaderOpen(&reader, (at / "plain.h5").c_str(), &info));
    EXPECT_EQ(info.compressed, 0);
    EXPECT_STREQ(info.label, "one");
    CUS_ASSERT_OK(cusFrameReaderStored(reader, 2, stored.data(), &size));
    EXPECT_EQ(size, bytes);
    EXPECT_EQ(stored, last);
    cusFrameReaderClose(reader);
}

TEST(FrameReader, RejectsOtherFiles) {
    auto random = support::generator();
    Folder at;
    cusFrameReader *reader = nullptr;
    cusFrameFileInfo info;
    CUS_REJECTS(cusFrameReaderOpen(&reader, (at / "none.h5").c_str(), &info), IO, "No such file");
    save(at / "text.h5", Bytes(1000, 'x'));
    save(at / "events.h5", randomM3ed(random));
    for (const char *name : {"text.h5", "events.h5"})
        CUS_REJECTS(cusFrameReaderOpen(&reader, (at / name).c_str(), &info), FORMAT, "not a file of frames");
    cusFrameReaderClose(nullptr);
}

// Not under sanitizers, which set the exit code themselves.
#if defined(GTEST_HAS_DEATH_TEST) && !defined(CUSI_SANITIZE)
// libhdf5 keeps a file that it could not write, and tries again when the program ends.
TEST(FrameFileLayoutDeathTest, AFullDiskIsAnErrorAndTheProgramEndsWell) {
    Folder at;
    const std::string path = at / "f.h5";
    rlimit none = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &none), 0);
    none.rlim_cur = 16;
    const auto ends = [&](const std::function<cusStatus()> &work) {
        std::signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &none);
        std::exit(work() == CUS_ERROR_IO ? 0 : 1);
    };
    uint64_t offset = 0;
    save(path, {});
    const auto lay_out = [&] { return cusFrameFileLayout(path.c_str(), 2, 3, CUS_8UC1, 1, 0, nullptr, &offset); };
    CUS_ASSERT_OK(lay_out());
    EXPECT_EXIT(ends(lay_out), testing::ExitedWithCode(0), "");
    CUS_ASSERT_OK(lay_out());
    EXPECT_EXIT(ends([&] { return cusFrameFileLabel(path.c_str(), "1/2"); }), testing::ExitedWithCode(0), "");
}
#endif
