// Files of AEDAT4, ROS bags and MCAP, made of events by the plainest writers. Messages are split at random.
#pragma once

#include "reference/eventio.hpp"

#include <random>

#ifdef CUSIGHT_HAVE_BZIP2
#include <bzlib.h>
#endif

namespace eventio_test {

using reference::append;
using reference::Bytes;
using reference::bytesOf;
using reference::Events;

enum class Codec { NONE, LZ4, ZSTD, BZIP2 };

inline void add(Bytes &to, const Bytes &part) {
    to.insert(to.end(), part.begin(), part.end());
}
inline void addText(Bytes &to, const std::string &text) {
    append(to, text.size(), 4);
    add(to, bytesOf(text));
}

// ---- Compression ----

// XXH32 of up to 15 bytes, whose second byte the header of an LZ4 frame ends with.
inline uint32_t xxh32(const Bytes &in) {
    const auto rotate = [](uint32_t v, int n) { return v << n | v >> (32 - n); };
    uint32_t h = 374761393u + uint32_t(in.size());
    size_t i = 0;
    for (; i + 4 <= in.size(); i += 4)
        h = rotate(h + uint32_t(in[i] | in[i + 1] << 8 | in[i + 2] << 16 | uint32_t(in[i + 3]) << 24) * 3266489917u, 17) *
            668265263u;
    for (; i < in.size(); ++i)
        h = rotate(h + in[i] * 374761393u, 11) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h = (h ^ h >> 13) * 3266489917u;
    return h ^ h >> 16;
}

// A frame of blocks that are stored as they are, but for a run of one byte at the start, if there is one.
inline Bytes lz4(const Bytes &in) {
    Bytes out;
    append(out, 0x184D2204, 4);
    const Bytes header = {0x60, 0x70}; // version 1, independent blocks of up to 4 MiB
    add(out, header);
    out.push_back(uint8_t(xxh32(header) >> 8));
    for (size_t at = 0; at < in.size(); at += 4 << 20) {
        const size_t n = std::min<size_t>(in.size() - at, 4 << 20);
        append(out, n | 0x80000000, 4);
        out.insert(out.end(), in.begin() + std::ptrdiff_t(at), in.begin() + std::ptrdiff_t(at + n));
    }
    append(out, 0, 4);
    return out;
}

// A frame of raw blocks; or of blocks that repeat the first byte, for a bomb.
inline Bytes zstd(const Bytes &in, bool repeat = false, bool tell_size = true) {
    Bytes out;
    append(out, 0xFD2FB528, 4);
    if (tell_size) {
        append(out, 0xe0, 1); // single segment, 8 bytes of size
        append(out, in.size(), 8);
    } else {
        append(out, 0, 1);
        append(out, 0x78, 1); // window of 32 MiB
    }
    for (size_t at = 0; at < in.size() || at == 0; at += 1 << 17) {
        const size_t n = std::min<size_t>(in.size() - at, 1 << 17);
        append(out, n << 3 | (repeat ? 2 : 0) | (at + n >= in.size()), 3);
        out.insert(out.end(), in.begin() + std::ptrdiff_t(at),
                   in.begin() + std::ptrdiff_t(at + (repeat ? std::min<size_t>(n, 1) : n)));
    }
    return out;
}

inline bool canPack(Codec codec) {
    const std::string built = cusBuildInformation();
    const auto has = [&](const std::string &name) {
        const size_t at = built.find(name);
        return at != std::string::npos && built.substr(at, built.find('\n', at) - at).find("no") == std::string::npos;
    };
    switch (codec) {
    case Codec::LZ4:
        return has("LZ4");
    case Codec::ZSTD:
        return has("zstd");
    case Codec::BZIP2:
#ifdef CUSIGHT_HAVE_BZIP2
        return has("bzip2");
#else
        return false;
#endif
    default:
        return true;
    }
}

inline Bytes pack(const Bytes &in, Codec codec) {
    switch (codec) {
    case Codec::LZ4:
        return lz4(in);
    case Codec::ZSTD:
        return zstd(in);
#ifdef CUSIGHT_HAVE_BZIP2
    case Codec::BZIP2: {
        Bytes out(in.size() + in.size() / 100 + 700);
        auto n = unsigned(out.size());
        Bytes copy = in;
        BZ2_bzBuffToBuffCompress(reinterpret_cast<char *>(out.data()), &n, reinterpret_cast<char *>(copy.data()),
                                 unsigned(in.size()), 1, 0, 0);
        out.resize(n);
        return out;
    }
#endif
    default:
        return in;
    }
}

// ---- AEDAT4 ----

// A FlatBuffer with its size in front: a list of fields, a table of those fields, and what they refer to. `field` k is where it is in
// the table, 0: default; the table starts 4 bytes before a multiple of 8.
inline Bytes flatBuffer(const std::string &identifier, const std::vector<uint16_t> &field, const Bytes &table,
                        const Bytes &rest) {
    Bytes out;
    const size_t list = 12, root = (list + 4 + 2 * field.size() + 3) / 8 * 8 + 4;
    append(out, root + 4 + table.size() + rest.size() - 4, 4);
    append(out, root - 4, 4);
    add(out, bytesOf(identifier));
    append(out, 4 + 2 * field.size(), 2);
    append(out, 4 + table.size(), 2);
    for (const uint16_t f : field)
        append(out, f, 2);
    out.resize(root);
    append(out, root - list, 4);
    add(out, table);
    add(out, rest);
    return out;
}

inline Bytes aedat4Events(const Events &e) {
    Bytes table, events;
    append(table, 4, 4);
    append(events, e.size(), 4);
    for (size_t i = 0; i < e.size(); ++i) {
        append(events, uint64_t(e.t[i]), 8);
        append(events, e.x[i], 2);
        append(events, e.y[i], 2);
        append(events, e.p[i], 4);
    }
    return flatBuffer("EVTS", {4}, table, events);
}

// Tables with the time and the type, behind one list of fields.
inline Bytes aedat4Triggers(const std::vector<uint8_t> &types, int64_t t) {
    Bytes table, rest;
    append(table, 4, 4);
    append(rest, types.size(), 4);
    const size_t first = 4 + 4 * types.size() + 8;
    for (size_t i = 0; i < types.size(); ++i)
        append(rest, first + 16 * i - (4 + 4 * i), 4);
    for (const int value : {8, 16, 4, 12}) // the list: its size, the table's, time, type
        append(rest, uint64_t(value), 2);
    for (size_t i = 0; i < types.size(); ++i) {
        append(rest, 8 + 16 * i, 4);
        append(rest, uint64_t(t), 8);
        append(rest, types[i], 4);
    }
    return flatBuffer("TRIG", {4}, table, rest);
}

struct Aedat4Options {
    Codec codec = Codec::NONE;
    bool table = true; // false: a file that was not closed
    int width = 640, height = 480;
    std::string camera = "DVXplorer_1";
    size_t most = 500;                          // events of a packet
    std::vector<std::vector<uint8_t>> triggers; // of one packet each, between those of events
    Events other;                               // of a second camera, before those of the first
};

inline std::string aedat4Stream(int number, const std::string &type, const std::string &source, int width, int height) {
    const std::string n = std::to_string(number);
    return "<node name=\"" + n + "\" path=\"/outInfo/" + n + "/\"><attr key=\"typeIdentifier\" type=\"string\">" + type +
           "</attr>\n<node name=\"info\" path=\"/\"><attr key=\"sizeX\" type=\"int\">" + std::to_string(width) +
           "</attr><attr key=\"sizeY\" type=\"int\">" + std::to_string(height) +
           "</attr><attr key=\"source\" type=\"string\">" + source + "</attr></node></node>\n";
}

// Line 0 is the version; streams 0: frames, 1: events, 2: triggers, 3: events of the other camera, if it has any.
inline Bytes aedat4(const Events &e, std::mt19937_64 &random, const Aedat4Options &o = {}) {
    struct Line {
        size_t offset, size, count;
        int stream;
        int64_t first, last;
    };
    Bytes packets;
    std::vector<Line> lines;
    const auto put = [&](int stream, const Bytes &plain, size_t count, int64_t first, int64_t last) {
        const Bytes packed = pack(plain, o.codec);
        append(packets, uint64_t(stream), 4);
        append(packets, packed.size(), 4);
        lines.push_back({packets.size(), packed.size(), count, stream, first, last});
        add(packets, packed);
    };
    put(0, flatBuffer("FRME", {}, {}, {}), 1, 0, 0);
    if (o.other.size())
        put(3, aedat4Events(o.other), o.other.size(), o.other.t.front(), o.other.t.back());
    size_t trigger = 0;
    for (size_t i = 0; i < e.size() || trigger < o.triggers.size();) {
        const size_t n = std::min(e.size() - i, size_t(random() % (o.most + 1)));
        if (n || random() % 4 == 0)
            put(1, aedat4Events(e.part(i, n)), n, n ? e.t[i] : 0, n ? e.t[i + n - 1] : 0);
        i += n;
        if (trigger < o.triggers.size())
            put(2, aedat4Triggers(o.triggers[trigger], n ? e.t[i - 1] : 0), o.triggers[trigger].size(), 0, 0), ++trigger;
    }
    std::string xml = "<dv version=\"2.0\"><node name=\"outInfo\" path=\"/outInfo/\">" +
                      aedat4Stream(0, "FRME", o.camera, 1, 1) + aedat4Stream(1, "EVTS", o.camera, o.width, o.height) +
                      aedat4Stream(2, "TRIG", o.camera, 0, 0);
    if (o.other.size())
        xml += aedat4Stream(3, "EVTS", "other", 99, 88);
    xml += "</node></dv>";
    const auto header = [&](int64_t place) {
        Bytes table, text;
        append(table, uint64_t(place), 8);
        append(table, o.codec == Codec::NONE ? 0 : o.codec == Codec::LZ4 ? 1 : 3, 4);
        append(table, 4, 4);
        addText(text, xml);
        text.push_back(0);
        Bytes out = bytesOf("#!AER-DAT4.0\r\n");
        add(out, flatBuffer("IOHE", {12, 4, 16}, table, text));
        return out;
    };
    const size_t start = header(-1).size();
    Bytes out = header(o.table ? int64_t(start + packets.size()) : -1);
    add(out, packets);
    if (!o.table)
        return out;
    Bytes root, rest;
    append(root, 4, 4);
    append(rest, lines.size(), 4);
    const size_t first = 4 + 4 * lines.size() + 14;
    for (size_t i = 0; i < lines.size(); ++i)
        append(rest, first + 44 * i - (4 + 4 * i), 4);
    for (const int value : {14, 44, 4, 12, 20, 28, 36})
        append(rest, uint64_t(value), 2);
    for (size_t i = 0; i < lines.size(); ++i) {
        append(rest, 14 + 44 * i, 4);
        append(rest, start + lines[i].offset, 8);
        append(rest, uint64_t(lines[i].stream), 4);
        append(rest, lines[i].size, 4);
        append(rest, lines[i].count, 8);
        append(rest, uint64_t(lines[i].first), 8);
        append(rest, uint64_t(lines[i].last), 8);
    }
    add(out, pack(flatBuffer("FTAB", {4}, root, rest), o.codec));
    return out;
}

// ---- Messages of ROS ----

enum class Payload { ARRAY, EVT3, MONO, LIBCAER, TRIGGER };

// A writer of the serialization of ROS 1, or of CDR, where fields are aligned and may be big-endian.
struct Serializer {
    bool cdr, big;
    Bytes out = {};
    void put(uint64_t value, size_t size) {
        while (cdr && out.size() % size)
            out.push_back(0);
        for (size_t i = 0; i < size; ++i)
            out.push_back(uint8_t(value >> 8 * (cdr && big ? size - 1 - i : i)));
    }
    void text(const std::string &s) {
        put(s.size() + (cdr ? 1 : 0), 4);
        add(out, bytesOf(s));
        if (cdr)
            out.push_back(0);
    }
    void header(const std::string &frame, int64_t t, int width, int height) {
        if (!cdr)
            put(7, 4);
        put(uint64_t(t / 1000000), 4);
        put(uint64_t(t % 1000000) * 1000, 4);
        text(frame);
        put(uint64_t(height), 4);
        put(uint64_t(width), 4);
    }
    Bytes done() const {
        Bytes all;
        if (cdr)
            all = {0, uint8_t(!big), 0, 0};
        add(all, out);
        return all;
    }
};

inline Bytes rosArray(Serializer s, const Events &e, int width, int height) {
    s.header("camera", e.size() ? e.t[0] : 0, width, height);
    s.put(e.size(), 4);
    for (size_t i = 0; i < e.size(); ++i) {
        s.put(e.x[i], 2);
        s.put(e.y[i], 2);
        s.put(uint64_t(e.t[i] / 1000000), 4);
        s.put(uint64_t(e.t[i] % 1000000) * 1000 + 999, 4);
        s.put(e.p[i], 1);
    }
    return s.done();
}

inline Bytes rosPacket(Serializer s, const std::string &encoding, uint64_t base, const Bytes &bytes, int width,
                       int height) {
    s.header("c", int64_t(base / 1000), width, height);
    s.put(1, 8);
    s.put(base, 8);
    s.text(encoding);
    s.put(0, 1);
    s.put(bytes.size(), 4);
    add(s.out, bytes);
    return s.done();
}

inline Bytes monoEvents(const Events &e, uint64_t base) {
    Bytes out;
    for (size_t i = 0; i < e.size(); ++i)
        append(out,
               (uint64_t(e.t[i]) * 1000 - base + 500) | uint64_t(e.x[i]) << 32 | uint64_t(e.y[i]) << 48 |
                   uint64_t(e.p[i]) << 63,
               8);
    return out;
}

// The counter starts at `low`, and wraps at 2^31.
inline Bytes libcaerEvents(const Events &e, int64_t low) {
    Bytes out;
    for (size_t i = 0; i < e.size(); ++i) {
        append(out, 1u | unsigned(e.p[i]) << 1 | unsigned(e.y[i]) << 2 | unsigned(e.x[i]) << 17, 4);
        append(out, uint64_t(low + e.t[i] - e.t[0]) & 0x7fffffff, 4);
    }
    return out;
}

// What bags and MCAP store: messages by topic.
struct RosMessage {
    int topic;
    int64_t t;
    Bytes bytes;
};

struct RosOptions {
    Codec codec = Codec::NONE;
    Payload payload = Payload::ARRAY;
    bool cdr = false, big = false; // CDR; ROS 1 otherwise
    int width = 640, height = 480;
    size_t most = 500;   // events of a message
    size_t chunk = 5000; // bytes of a chunk, 0: none
    std::string topic = "/dvs/events";
    std::vector<uint8_t> triggers; // one message of them after the first of events
    bool index = true;
    bool checksum = true; // MCAP: of most chunks
};

// Topics 0: text, 1: events, 2: triggers.
inline std::vector<RosMessage> rosMessages(const Events &e, std::mt19937_64 &random, const RosOptions &o) {
    std::vector<RosMessage> messages;
    const Serializer s = {o.cdr, o.big};
    const Bytes evt3 = o.payload == Payload::EVT3 ? reference::evt3(e, "") : Bytes();
    size_t byte = 0, done = 0;
    for (size_t i = 0; i < e.size() || byte < evt3.size();) {
        size_t n = std::min(e.size() - i, size_t(random() % (o.most + 1)));
        for (size_t k = 1; k < n; ++k) // an offset in nanoseconds has 32 bits
            n = o.payload == Payload::MONO && e.t[i + k] - e.t[i] > 4000000 ? k : n;
        const Events part = e.part(i, n);
        const int64_t t = n ? e.t[i] : 0;
        Serializer text = s;
        text.text(std::string(random() % 50, 'x'));
        if (random() % 3 == 0)
            messages.push_back({0, t, text.done()});
        if (o.payload == Payload::EVT3) {
            const size_t size = std::min(evt3.size() - byte, size_t(random() % (2 * o.most + 1)) / 2 * 2);
            messages.push_back(
                {1, t,
                 rosPacket(s, "evt3", 77,
                           Bytes(evt3.begin() + std::ptrdiff_t(byte), evt3.begin() + std::ptrdiff_t(byte + size)), o.width,
                           o.height)});
            byte += size;
            i = byte < evt3.size() ? i : e.size();
        } else if (o.payload == Payload::ARRAY) {
            messages.push_back({1, t, rosArray(s, part, o.width, o.height)});
            i += n;
        } else if (o.payload == Payload::MONO) {
            const uint64_t base = uint64_t(t) * 1000;
            messages.push_back({1, t, rosPacket(s, "mono", base, monoEvents(part, base), o.width, o.height)});
            i += n;
        } else {
            const int64_t low =
                std::min<int64_t>(t, random() % 2 ? 0x7fffffff - 50 : 0); // so that the base is not negative
            messages.push_back(
                {1, t, rosPacket(s, "libcaer", uint64_t(t - low) * 1000, libcaerEvents(part, low), o.width, o.height)});
            i += n;
        }
        if (!done++ && !o.triggers.empty()) {
            Bytes words;
            for (const uint8_t value : o.triggers)
                append(words, uint64_t(5) << 48 | uint64_t(value) << 63, 8);
            messages.push_back({2, t, rosPacket(s, "trigger", uint64_t(t) * 1000, words, 0, 0)});
        }
    }
    return messages;
}

inline std::string rosTypeOf(const RosOptions &o, int topic) {
    const std::string msg = o.cdr ? "msg/" : "";
    if (topic == 0)
        return "std_msgs/" + msg + "String";
    return topic == 2 || o.payload != Payload::ARRAY ? "event_camera_msgs/" + msg + "EventPacket"
                                                     : "dvs_msgs/" + msg + "EventArray";
}

inline std::string rosTopicOf(const RosOptions &o, int topic) {
    return topic == 0 ? "/chatter" : topic == 1 ? o.topic : o.topic.substr(0, o.topic.rfind('/')) + "/triggers";
}

// ---- Bags ----

inline Bytes bagFields(const std::vector<std::pair<std::string, Bytes>> &fields) {
    Bytes out;
    for (const auto &[name, value] : fields) {
        append(out, name.size() + 1 + value.size(), 4);
        add(out, bytesOf(name + "="));
        add(out, value);
    }
    return out;
}
inline Bytes number(uint64_t value, int size) {
    Bytes out;
    append(out, value, size);
    return out;
}
inline Bytes bagRecord(const std::vector<std::pair<std::string, Bytes>> &fields, const Bytes &data) {
    const Bytes header = bagFields(fields);
    Bytes out;
    append(out, header.size(), 4);
    add(out, header);
    append(out, data.size(), 4);
    add(out, data);
    return out;
}

inline Bytes bag(const Events &e, std::mt19937_64 &random, const RosOptions &o = {}) {
    const auto connection = [&](int topic) {
        const Bytes name = bytesOf(rosTopicOf(o, topic));
        return bagRecord({{"op", {7}}, {"conn", number(uint64_t(topic), 4)}, {"topic", name}},
                         bagFields({{"topic", name}, {"type", bytesOf(rosTypeOf(o, topic))}, {"md5sum", bytesOf("*")}}));
    };
    Bytes body, chunk;
    bool known[3] = {};
    uint32_t chunks = 0;
    const auto flush = [&] {
        if (chunk.empty())
            return;
        static const char *const names[] = {"none", "lz4", "?", "bz2"};
        if (o.chunk)
            add(body,
                bagRecord({{"op", {5}}, {"compression", bytesOf(names[int(o.codec)])}, {"size", number(chunk.size(), 4)}},
                          pack(chunk, o.codec)));
        else
            add(body, chunk);
        add(body, bagRecord({{"op", {4}}, {"ver", number(1, 4)}, {"conn", number(1, 4)}, {"count", number(0, 4)}}, {}));
        chunk.clear();
        ++chunks;
    };
    for (const RosMessage &m : rosMessages(e, random, o)) {
        if (!known[m.topic])
            add(chunk, connection(m.topic));
        known[m.topic] = true;
        add(chunk,
            bagRecord({{"op", {2}}, {"conn", number(uint64_t(m.topic), 4)}, {"time", number(uint64_t(m.t), 8)}}, m.bytes));
        if (chunk.size() >= o.chunk)
            flush();
    }
    flush();
    Bytes out = bytesOf("#ROSBAG V2.0\n");
    const auto head = [&](uint64_t index) {
        return bagRecord({{"op", {3}},
                          {"index_pos", number(index, 8)},
                          {"conn_count", number(3, 4)},
                          {"chunk_count", number(chunks, 4)}},
                         Bytes(100, ' '));
    };
    add(out, head(o.index ? out.size() + head(0).size() + body.size() : 0));
    add(out, body);
    for (int topic = 0; topic < 3 && o.index; ++topic)
        if (known[topic])
            add(out, connection(topic));
    return out;
}

// ---- MCAP ----

inline uint32_t crc32(const Bytes &in) {
    uint32_t crc = 0xffffffff;
    for (const uint8_t byte : in) {
        crc ^= byte;
        for (int k = 0; k < 8; ++k)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

inline Bytes mcapRecord(uint8_t type, const Bytes &content) {
    Bytes out = {type};
    append(out, content.size(), 8);
    add(out, content);
    return out;
}

inline Bytes mcap(const Events &e, std::mt19937_64 &random, RosOptions o = {}) {
    static const char *const names[] = {"", "lz4", "zstd", "?"};
    const Bytes magic = {0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};
    const auto channel = [&](int topic) {
        Bytes schema = number(uint64_t(topic) + 1, 2), out = number(uint64_t(topic), 2);
        addText(schema, rosTypeOf(o, topic));
        addText(schema, o.cdr ? "ros2msg" : "ros1msg");
        addText(schema, "# the definition");
        append(out, uint64_t(topic) + 1, 2);
        addText(out, rosTopicOf(o, topic));
        addText(out, o.cdr ? "cdr" : "ros1");
        addText(out, "");
        Bytes both = mcapRecord(3, schema);
        add(both, mcapRecord(4, out));
        return both;
    };
    Bytes out = magic, start, chunk, summary;
    addText(start, o.cdr ? "ros2" : "ros1");
    addText(start, "test");
    add(out, mcapRecord(1, start));
    bool known[3] = {};
    const auto flush = [&] {
        if (chunk.empty())
            return;
        if (o.chunk) {
            Bytes content = number(0, 16);
            append(content, chunk.size(), 8);
            append(content, o.checksum && random() % 4 ? crc32(chunk) : 0, 4);
            addText(content, names[int(o.codec)]);
            const Bytes packed = pack(chunk, o.codec);
            append(content, packed.size(), 8);
            add(content, packed);
            add(out, mcapRecord(6, content));
            add(out, mcapRecord(7, number(1, 6)));
        } else {
            add(out, chunk);
        }
        chunk.clear();
    };
    for (const RosMessage &m : rosMessages(e, random, o)) {
        if (!known[m.topic])
            add(chunk, channel(m.topic));
        known[m.topic] = true;
        Bytes content = number(uint64_t(m.topic), 2);
        append(content, 0, 4);
        append(content, uint64_t(m.t) * 1000, 8);
        append(content, uint64_t(m.t) * 1000, 8);
        add(content, m.bytes);
        add(chunk, mcapRecord(5, content));
        if (chunk.size() >= o.chunk)
            flush();
    }
    flush();
    if (!o.index)
        return out;
    add(out, mcapRecord(15, number(0, 4)));
    for (int topic = 0; topic < 3; ++topic)
        if (known[topic])
            add(out, channel(topic));
    add(out, mcapRecord(2, number(0, 20)));
    add(out, magic);
    return out;
}

} // namespace eventio_test
