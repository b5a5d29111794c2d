// Damaged videos: no crash, no hang, the frames before the damage as they were, and what could not be decoded is counted and said.
// CUSIGHT_TEST_MUTATIONS: how many of each codec (default 8; with CUSIGHT_TEST_ROUNDS=all 100, 500 in all).
#include "support.hpp"

#ifdef CUSIGHT_HAVE_SAMPLES
#include "common/libav/libav.hpp"
#include "common/video/sink.hpp"
#include "common/video/source.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace {

namespace fs = std::filesystem;

constexpr int FRAMES = 24;

struct Read {
    std::vector<std::vector<uint8_t>> frames;
    long long damaged = -1; // -1: it could not be opened
    std::string error, said;
};

Read readAll(const std::string &path) {
    Read read;
    testing::internal::CaptureStderr();
    try {
        const auto source = sample::openSource(path);
        try {
            for (cusight::Matrix frame; source->read(frame.get(), CUS_HOST);) {
                const auto *const data = static_cast<const uint8_t *>(frame.get().data);
                read.frames.emplace_back(data, data + frame.get().step * static_cast<size_t>(frame.rows()));
            }
        } catch (const sample::Stop &stop) {
            EXPECT_EQ(stop.code(), sample::INPUT);
            read.error = stop.what();
        }
        read.damaged = source->damaged();
    } catch (const sample::Stop &stop) {
        EXPECT_EQ(stop.code(), sample::INPUT);
        read.error = stop.what();
    }
    read.said = testing::internal::GetCapturedStderr();
    return read;
}

struct Packet {
    size_t end; // in the file
    int64_t pts;
};

// In the order of the file.
std::vector<Packet> packetsOf(const std::string &path) {
    std::vector<Packet> packets;
    AVFormatContext *file = nullptr;
    EXPECT_EQ(avformat_open_input(&file, path.c_str(), nullptr, nullptr), 0);
    const av::Packet packet(av_packet_alloc());
    while (av_read_frame(file, packet.get()) >= 0) {
        packets.push_back({static_cast<size_t>(packet->pos + packet->size), packet->pts});
        av_packet_unref(packet.get());
    }
    avformat_close_input(&file);
    return packets;
}

// How many frames are shown before the first one that damage at `offset` may reach.
size_t framesBefore(const std::vector<Packet> &packets, size_t offset) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const Packet &packet : packets)
        if (packet.end + 16 > offset) // 16: what a container writes in front of it, within `size` or not
            first = std::min(first, packet.pts);
    return static_cast<size_t>(
        std::count_if(packets.begin(), packets.end(), [&](const Packet &p) { return p.pts < first; }));
}

// Damages `bytes`, at `offset` first.
void mutate(std::string &bytes, size_t offset, std::mt19937_64 &random) {
    const size_t length = std::min<size_t>(1 + random() % 300, bytes.size() - offset);
    switch (random() % 5) {
    case 0: // bits
        for (size_t i = 0; i < 1 + length / 20; ++i)
            bytes[i ? offset + random() % length : offset] ^= static_cast<char>(1 << random() % 8);
        break;
    case 1: // what a network writes over
        for (size_t i = 0; i < length; ++i)
            bytes[offset + i] = static_cast<char>(random());
        break;
    case 2:
        bytes.erase(offset, length);
        break;
    case 3:
        bytes.insert(offset, bytes.substr(random() % bytes.size(), length));
        break;
    default:
        bytes.resize(offset);
    }
}

int openFiles() {
    return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST(VideoMutations, EveryCodec) {
    const char *const wanted = std::getenv("CUSIGHT_TEST_MUTATIONS"), *const rounds = std::getenv("CUSIGHT_TEST_ROUNDS");
    const bool all = rounds && std::string_view(rounds) == "all";
    const long count = wanted ? std::strtol(wanted, nullptr, 10) : all ? 100 : 8;
    auto random = support::generator();
    sample::currentFiles().begin(true);
    const fs::path folder = fs::temp_directory_path() / ("cusight_mutations_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    for (const char *codec : {"libx264", "libx265", "mpeg4", "mjpeg", "libvpx", "libvpx-vp9", "ffv1"}) {
        if (!avcodec_find_encoder_by_name(codec))
            continue;
        const std::string name = (folder / codec).string() + ".mkv", damaged = (folder / "damaged.mkv").string();
        sample::Encoding encoding;
        encoding.codec = codec;
        const auto source = sample::openSource("synthetic:160x96@" + std::to_string(FRAMES));
        const auto sink = sample::openFile(name, source->size(), sample::playbackOf(*source), encoding);
        for (cv::Mat frame; source->read(frame);)
            sink->write(frame);
        sink->finish();
        const Read whole = readAll(name);
        ASSERT_EQ(whole.frames.size(), size_t{FRAMES}) << codec << whole.error;
        ASSERT_EQ(whole.damaged, 0) << codec;
        const std::vector<Packet> packets = packetsOf(name);
        ASSERT_EQ(packets.size(), size_t{FRAMES}) << codec;
        std::ifstream in(name, std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(in), {});
        const int open = openFiles();
        long noticed = 0;
        for (long i = 0; i < count; ++i) {
            std::string other = bytes;
            const size_t offset = random() % (packets.back().end - 16);
            mutate(other, offset, random);
            std::ofstream(damaged, std::ios::binary) << other;
            SCOPED_TRACE(std::string(codec) + ", mutation " + std::to_string(i) + " at byte " + std::to_string(offset));
            const auto start = std::chrono::steady_clock::now();
            const Read read = readAll(damaged);
            EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
            const size_t before = framesBefore(packets, offset);
            ASSERT_GE(read.frames.size(), before) << read.error;
            for (size_t k = 0; k < before; ++k)
                EXPECT_EQ(read.frames[k], whole.frames[k]) << "frame " << k;
            if (read.damaged >= 0)
                EXPECT_EQ(read.damaged > 0, read.said.find("parts of it could not be decoded") != std::string::npos)
                    << read.said;
            noticed += read.damaged > 0 || !read.error.empty();
        }
        EXPECT_TRUE(noticed || count < 8) << codec << ": no damage was noticed";
        EXPECT_EQ(openFiles(), open) << codec;
    }
    fs::remove_all(folder);
}

} // namespace
#endif
