// Fuzzes the readers of AEDAT4, ROS bags and MCAP. Most mutations lie within a compressed block: it is unpacked, changed and packed again,
// and the sizes, places and checksums around it are repaired.
#include "eventio_watch.hpp"

extern "C" {
#include "eventio/aedat4/flatbuffer.h"
#include "eventio/packets/codec.h"
}

#include <cstring>
#include <random>
#include <string>

#ifdef CUSI_WITH_LZ4
#include <lz4frame.h>
#endif
#ifdef CUSI_WITH_ZSTD
#include <zstd.h>
#endif
#ifdef CUSI_WITH_BZIP2
#include <bzlib.h>
#endif

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t LARGEST_BLOCK = 1 << 18, MAX_GROWTH = 512;

uint64_t load(const Bytes &bytes, size_t at, size_t width) {
    uint64_t value = 0;
    for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
        value |= uint64_t(bytes[at + i]) << 8 * i;
    return value;
}

void store(Bytes &bytes, size_t at, size_t width, uint64_t value) {
    for (size_t i = 0; i < width && at + i < bytes.size(); ++i)
        bytes[at + i] = uint8_t(value >> 8 * i);
}

bool startsWith(const Bytes &bytes, const char *text, size_t n) {
    return bytes.size() >= n && std::memcmp(bytes.data(), text, n) == 0;
}

// ---- Compression ----

PacketCodec codecOf(const Bytes &block) {
    if (startsWith(block, "\x04\x22\x4d\x18", 4))
        return CODEC_LZ4;
    if (startsWith(block, "\x28\xb5\x2f\xfd", 4))
        return CODEC_ZSTD;
    return startsWith(block, "BZh", 3) ? CODEC_BZIP2 : CODEC_NONE;
}

bool unpack(PacketCodec codec, const Bytes &block, Bytes &plain) {
    plain = block;
    if (codec == CODEC_NONE)
        return true;
    plain.resize(LARGEST_BLOCK);
    size_t size = 0;
    const Unpacked result = eventio_unpack(codec, block.data(), block.size(), plain.data(), plain.size(), &size);
    if (result != UNPACK_DONE)
        return false;
    plain.resize(size);
    return true;
}

bool pack(PacketCodec codec, Bytes &plain, Bytes &block) {
    block.resize(plain.size() + plain.size() / 100 + 1024);
    switch (codec) {
#ifdef CUSI_WITH_LZ4
    case CODEC_LZ4: {
        const size_t size = LZ4F_compressFrame(block.data(), block.size(), plain.data(), plain.size(), nullptr);
        block.resize(LZ4F_isError(size) ? 0 : size);
        break;
    }
#endif
#ifdef CUSI_WITH_ZSTD
    case CODEC_ZSTD: {
        const size_t size = ZSTD_compress(block.data(), block.size(), plain.data(), plain.size(), 1);
        block.resize(ZSTD_isError(size) ? 0 : size);
        break;
    }
#endif
#ifdef CUSI_WITH_BZIP2
    case CODEC_BZIP2: {
        auto size = unsigned(block.size());
        const int result =
            BZ2_bzBuffToBuffCompress(reinterpret_cast<char *>(block.data()), &size, reinterpret_cast<char *>(plain.data()),
                                     unsigned(plain.size()), 1, 0, 0);
        block.resize(result == BZ_OK ? size : 0);
        break;
    }
#endif
    default:
        block = plain;
        return true;
    }
    return !block.empty();
}

// ---- Parts of a file ----

// An integer of a file.
struct Field {
    size_t at, width;
};

// Bytes whose length the file says, in one or more fields.
struct Part {
    size_t begin, end;
    std::vector<Field> sizes;
    bool is_block;            // records or a FlatBuffer, maybe compressed
    Field unpacked, checksum; // of a block; width 0: there is none
};

using Parts = std::vector<Part>;

// Adds a message, and within it the bytes at its end whose number precedes them.
void addMessage(const Bytes &file, size_t begin, size_t end, const Field &size, Parts &parts) {
    parts.push_back({begin, end, {size}, false, {}, {}});
    for (size_t at = begin; at + 4 < end && at < begin + 256; ++at)
        if (load(file, at, 4) == end - at - 4)
            parts.push_back({at + 4, end, {size, {at, 4}}, false, {}, {}});
}

void listBag(const Bytes &file, size_t at, Parts &parts) {
    while (file.size() - at >= 8) {
        const Field header = {at, 4};
        const uint64_t header_size = load(file, at, 4);
        if (header_size > file.size() - at - 8)
            return;
        const size_t body = at + 4 + size_t(header_size);
        const uint64_t size = load(file, body, 4);
        if (size > file.size() - body - 4)
            return;
        const std::string text(file.begin() + std::ptrdiff_t(at) + 4, file.begin() + std::ptrdiff_t(body));
        const bool is_chunk = text.find("op=\x05") != std::string::npos;
        const size_t unpacked = text.find("size=");
        parts.push_back({at + 4, body, {header}, false, {}, {}});
        at = body + 4 + size_t(size);
        if (is_chunk && unpacked != std::string::npos)
            parts.push_back({body + 4, at, {{body, 4}}, true, {header.at + 4 + unpacked + 5, 4}, {}});
        else
            addMessage(file, body + 4, at, {body, 4}, parts);
    }
}

void listMcap(const Bytes &file, size_t at, Parts &parts) {
    while (file.size() - at >= 9) {
        const Field length = {at + 1, 8};
        const uint64_t size = load(file, at + 1, 8);
        const uint8_t type = file[at];
        const size_t body = at + 9;
        if (size > file.size() - body)
            return;
        at = body + size_t(size);
        const size_t name = size_t(load(file, body + 28, 4)), data = body + 32 + name + 8;
        if (type == 6 && size > 40 && name < 32 && data <= at)
            parts.push_back({data, at, {length, {data - 8, 8}}, true, {body + 16, 8}, {body + 24, 4}});
        else if (type == 5 && size > 22)
            addMessage(file, body + 22, at, length, parts);
        else
            parts.push_back({body, at, {length}, false, {}, {}});
    }
}

constexpr size_t AEDAT4_HEADER = 14;

void listAedat4(const Bytes &file, Parts &parts) {
    if (file.size() < AEDAT4_HEADER + 4)
        return;
    const uint64_t header = load(file, AEDAT4_HEADER, 4);
    if (header > file.size() - AEDAT4_HEADER - 4)
        return;
    size_t at = AEDAT4_HEADER + 4 + size_t(header);
    parts.push_back({AEDAT4_HEADER + 4, at, {{AEDAT4_HEADER, 4}}, false, {}, {}});
    while (file.size() - at >= 8) {
        const uint64_t size = load(file, at + 4, 4);
        if (size > file.size() - at - 8)
            break;
        parts.push_back({at + 8, at + 8 + size_t(size), {{at + 4, 4}}, true, {}, {}});
        at += 8 + size_t(size);
    }
    if (at < file.size())
        parts.push_back({at, file.size(), {}, true, {}, {}}); // the table
}

enum class Format { AEDAT4, BAG, MCAP };

Parts list(const Bytes &bytes, Format format, bool within_block) {
    Parts parts;
    if (format == Format::BAG)
        listBag(bytes, within_block ? 0 : 13, parts);
    else if (format == Format::MCAP)
        listMcap(bytes, within_block ? 0 : 8, parts);
    else if (!within_block)
        listAedat4(bytes, parts);
    else if (bytes.size() > 4)
        parts.push_back({4, bytes.size(), {{0, 4}}, false, {}, {}}); // a FlatBuffer
    return parts;
}

// ---- Mutations ----

Bytes copy(const Bytes &file, size_t begin, size_t end) {
    return {file.begin() + std::ptrdiff_t(begin), file.begin() + std::ptrdiff_t(end)};
}

void mutate(Bytes &bytes) {
    const size_t size = bytes.size();
    bytes.resize(size + 1 + std::min(size, MAX_GROWTH));
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

void replace(Bytes &file, const Part &part, const Bytes &bytes) {
    const uint64_t grown = uint64_t(bytes.size()) - (part.end - part.begin);
    for (const Field &f : part.sizes)
        store(file, f.at, f.width, load(file, f.at, f.width) + grown);
    file.erase(file.begin() + std::ptrdiff_t(part.begin), file.begin() + std::ptrdiff_t(part.end));
    file.insert(file.begin() + std::ptrdiff_t(part.begin), bytes.begin(), bytes.end());
}

uint32_t crc32(const Bytes &bytes) {
    uint32_t crc = 0xffffffff;
    for (const uint8_t byte : bytes) {
        crc ^= byte;
        for (int k = 0; k < 8; ++k)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

// Changes one part, or everything.
void mutatePart(Bytes &bytes, const Parts &parts, std::minstd_rand &random) {
    if (parts.empty() || random() % 4 == 0)
        return mutate(bytes);
    const Part &part = parts[random() % parts.size()];
    Bytes inner = copy(bytes, part.begin, part.end);
    mutate(inner);
    replace(bytes, part, inner);
}

bool mutateBlock(Bytes &file, const Part &part, Format format, std::minstd_rand &random) {
    Bytes block = copy(file, part.begin, part.end), plain;
    const PacketCodec codec = codecOf(block);
    if (!unpack(codec, block, plain))
        return false;
    mutatePart(plain, list(plain, format, true), random);
    if (!pack(codec, plain, block))
        return false;
    store(file, part.unpacked.at, part.unpacked.width, plain.size());
    store(file, part.checksum.at, part.checksum.width, crc32(plain));
    replace(file, part, block);
    return true;
}

// Behind `begin` everything has moved by `grown` bytes.
void repairBag(Bytes &file, uint64_t grown) {
    static const char name[] = "index_pos=";
    const auto found =
        std::search(file.begin(), file.begin() + std::ptrdiff_t(std::min<size_t>(file.size(), 300)), name, name + 10);
    const auto at = size_t(found - file.begin()) + 10;
    if (at + 8 <= file.size() && load(file, at, 8))
        store(file, at, 8, load(file, at, 8) + grown);
}

// The lines of the table.
void repairTable(Bytes &table, size_t begin, uint64_t grown) {
    FlatTable root, line;
    const uint8_t *lines, *offset, *packet;
    size_t count;
    if (table.size() < 8 || !eventio_flatRoot(table.data() + 4, table.size() - 4, "FTAB", &root) ||
        !eventio_flatVector(&root, 0, 4, &lines, &count))
        return;
    for (size_t i = 0; i < count; ++i) {
        if (!eventio_flatElement(&root, lines, i, &line) || !eventio_flatField(&line, 0, 8, &offset) ||
            !eventio_flatField(&line, 1, 8, &packet) || !offset || !packet)
            return;
        const auto at = size_t(offset - table.data()), size = size_t(packet - table.data()) + 4;
        if (load(table, at, 8) > begin)
            store(table, at, 8, load(table, at, 8) + grown);
        else if (load(table, at, 8) == begin)
            store(table, size, 4, load(table, size, 4) + grown);
    }
}

// Moves the table of packets, whose place the header says, and what it says of the packets from `begin` on.
void repairAedat4(Bytes &file, size_t begin, uint64_t grown) {
    FlatTable root;
    const uint8_t *place;
    const uint64_t header = load(file, AEDAT4_HEADER, 4);
    if (header > file.size() - AEDAT4_HEADER - 4 ||
        !eventio_flatRoot(file.data() + AEDAT4_HEADER + 4, size_t(header), "IOHE", &root) ||
        !eventio_flatField(&root, 1, 8, &place) || !place)
        return;
    const auto at = size_t(place - file.data());
    uint64_t table = load(file, at, 8);
    if (table < begin || table == UINT64_MAX)
        return;
    table += grown;
    store(file, at, 8, table);
    if (table >= file.size())
        return;
    const Part part = {size_t(table), file.size(), {}, true, {}, {}};
    Bytes block = copy(file, part.begin, part.end), plain;
    const PacketCodec codec = codecOf(block);
    if (!unpack(codec, block, plain))
        return;
    repairTable(plain, begin, grown);
    if (pack(codec, plain, block))
        replace(file, part, block);
}

// False: the file is not as expected, and unchanged.
bool mutateFile(Bytes &file, std::minstd_rand &random) {
    const Format format = startsWith(file, "#!AER", 5)     ? Format::AEDAT4
                          : startsWith(file, "#ROSBAG", 7) ? Format::BAG
                                                           : Format::MCAP;
    const size_t before = file.size();
    const Parts parts = list(file, format, false);
    if (parts.empty())
        return false;
    const Part &part = parts[random() % parts.size()];
    if (part.is_block && random() % 8) {
        if (!mutateBlock(file, part, format, random))
            return false;
    } else {
        Bytes inner = copy(file, part.begin, part.end);
        mutate(inner);
        replace(file, part, inner);
    }
    const uint64_t grown = uint64_t(file.size()) - before;
    if (format == Format::BAG && grown)
        repairBag(file, grown);
    if (format == Format::AEDAT4 && grown && random() % 8)
        repairAedat4(file, part.begin, grown);
    return true;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::watchedInput(data, size);
    return 0;
}

// The first byte says how to read the file: bad events stop reading or are skipped; small chunks, and a camera that is named.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    std::minstd_rand random(seed);
    Bytes file(data + std::min<size_t>(size, 1), data + size);
    if (size < 20 || random() % 8 == 0 || !mutateFile(file, random) || file.size() + 1 > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    if (random() % 16 == 0)
        data[0] = uint8_t(random() % 2 + random() % 2 * 8);
    std::copy(file.begin(), file.end(), data + 1);
    return file.size() + 1;
}
