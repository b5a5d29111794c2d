#include "events/merge.hpp"

#include "common/app.hpp"
#include "common/terminal/files.hpp"
#include "common/output.hpp"
#include "common/terminal/progress.hpp"

#include "cusight/eventio.h"
#include "cusight/live.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace events {

using sample::Stop;

namespace {

// ---- Raw frames --------------------------------------------------------------------------------------------------------

void mergeRaw(const MergeSettings &s, sample::Progress &progress) {
    sample::OutputFile output(s.output);
    std::vector<char> block(size_t{4} << 20);
    long long done = 0;
    for (const std::string &input : s.inputs) {
        std::ifstream file(input, std::ios::binary);
        while (file && !sample::interrupted()) {
            file.read(block.data(), static_cast<std::streamsize>(block.size()));
            output.write(block.data(), static_cast<size_t>(file.gcount()));
            progress.update(done += file.gcount());
        }
        if (!file.eof() && !sample::interrupted())
            throw Stop(sample::INPUT, input + ": " + std::strerror(errno ? errno : EIO));
    }
    if (!sample::interrupted())
        output.commit();
}

// ---- HDF5 --------------------------------------------------------------------------------------------------------------

bool parseLabel(const char *text, ShardLabel &label) {
    char run[9] = "", damaged[9] = "";
    const int parts = std::sscanf(text, "%llu/%llu %8s %8s", &label.shard, &label.shards, run, damaged);
    if (parts < 3)
        label.shard = label.shards = 0;
    label.run = run;
    label.is_damaged = parts == 4;
    return parts >= 3;
}

struct Shard {
    std::string path;
    cusFrameReader *reader = nullptr;
    cusFrameFileInfo info = {};
    ShardLabel label;

    explicit Shard(const std::string &name) : path(name) {
        open();
        parseLabel(info.label, label);
        close();
    }
    ~Shard() { close(); }
    // There may be more shards than a process can have open files.
    void open() {
        if (cusFrameReaderOpen(&reader, path.c_str(), &info) != CUS_OK)
            throw Stop(sample::INPUT, sample::lastMessage());
    }
    void close() { cusFrameReaderClose(std::exchange(reader, nullptr)); }
    Shard(const Shard &) = delete;
    Shard &operator=(const Shard &) = delete;
};

using Shards = std::vector<std::unique_ptr<Shard>>;

size_t frameBytes(const cusFrameFileInfo &info) {
    return static_cast<size_t>(info.rows) * static_cast<size_t>(info.cols) * cusTypeSize(info.type);
}

// Checks that all are of one kind and one run, without duplicates, and sorts them.
void arrange(Shards &shards) {
    const auto &first = *shards.front();
    for (const auto &s : shards) {
        if (s->info.rows != first.info.rows || s->info.cols != first.info.cols || s->info.type != first.info.type ||
            s->info.compressed != first.info.compressed)
            throw Stop(sample::INPUT, s->path + " has other frames than " + first.path);
        if (s->label.shards != first.label.shards || s->label.run != first.label.run)
            throw Stop(sample::INPUT, s->path + " is a shard of another run than " + first.path);
    }
    const unsigned long long of = first.label.shards;
    if (!of)
        return; // made without --shard: in the order that was given
    std::sort(shards.begin(), shards.end(), [](const auto &a, const auto &b) { return a->label.shard < b->label.shard; });
    for (size_t k = 0; k < std::max<size_t>(shards.size(), of); ++k) {
        if (k > 0 && k - 1 < shards.size() && shards[k - 1]->label.is_damaged) // nothing comes after it
            return;
        if (k < shards.size() && k > 0 && shards[k]->label.shard == shards[k - 1]->label.shard)
            throw Stop(sample::INPUT, shards[k - 1]->path + " and " + shards[k]->path + " are the same shard");
        if (k >= shards.size() || shards[k]->label.shard != k + 1)
            throw Stop(sample::INPUT, sample::text("shard %zu of %llu is missing", k + 1, of));
    }
}

// Leaves out what comes after the damage of the recording, as one run does; returns the shard that ends there.
const Shard *endAtDamage(Shards &shards) {
    for (size_t k = 0; k < shards.size(); ++k)
        if (shards[k]->label.is_damaged) {
            shards.resize(k + 1);
            return shards[k].get();
        }
    return nullptr;
}

void checkRead(const Shard &shard, cusStatus status) {
    if (status != CUS_OK)
        throw Stop(sample::INPUT, shard.path + ": " + sample::lastMessage());
}

// The stored sizes of all frames, in order.
std::vector<uint32_t> sizesOf(const Shards &shards) {
    std::vector<uint32_t> sizes;
    for (const auto &s : shards) {
        s->open();
        for (uint64_t k = 0; k < s->info.frames; ++k) {
            size_t bytes = 0;
            checkRead(*s, cusFrameReaderStored(s->reader, k, nullptr, &bytes));
            sizes.push_back(static_cast<uint32_t>(bytes));
        }
        s->close();
    }
    return sizes;
}

void writeAt(int file, const std::string &output, uint64_t offset, const char *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = ::pwrite(file, data + at, bytes - at, static_cast<off_t>(offset + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            sample::cannotWrite(output, std::strerror(n < 0 ? errno : ENOSPC));
        at += static_cast<size_t>(n);
    }
}

// Returns what is wrong with the whole, or "".
std::string mergeHdf5(MergeSettings &s, sample::Progress &progress) {
    Shards shards;
    for (const std::string &input : s.inputs)
        shards.push_back(std::make_unique<Shard>(input));
    arrange(shards);
    const Shard *const damaged = endAtDamage(shards);
    const cusFrameFileInfo &info = shards.front()->info;
    double frames = 0;
    for (const auto &shard : shards)
        frames += static_cast<double>(shard->info.frames);
    if (frames == 0)
        throw Stop(sample::INPUT, "no frame: all shards are empty");
    s.memory.take(static_cast<double>(frameBytes(info)) + 20 * frames, // two lists of 32 and 64 bits, of which one grows
                  sample::text("%.0f frames of %d x %d", frames, info.cols, info.rows));
    const std::vector<uint32_t> sizes = sizesOf(shards);
    std::vector<uint64_t> offsets(sizes.size());
    sample::OutputFile output(s.output);
    if (output.inPlace())
        sample::cannotWrite(s.output, "it is no regular file");
    if (cusFrameFileLayout(output.temporary().c_str(), info.rows, info.cols, info.type, sizes.size(), info.compressed,
                           sizes.data(), offsets.data()) != CUS_OK)
        sample::cannotWrite(s.output, sample::lastMessage());
    for (size_t k = 1; k < offsets.size() && !info.compressed; ++k)
        offsets[k] = offsets[k - 1] + frameBytes(info);
    const struct File {
        int descriptor;
        ~File() { ::close(descriptor); }
    } file = {::open(output.temporary().c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.descriptor < 0)
        sample::cannotWrite(s.output, std::strerror(errno));
    std::vector<char> stored(frameBytes(info));
    size_t done = 0;
    long long bytes_done = 0;
    for (const auto &shard : shards) {
        shard->open();
        for (uint64_t k = 0; k < shard->info.frames && !sample::interrupted(); ++k, ++done) {
            size_t bytes = 0;
            checkRead(*shard, cusFrameReaderStored(shard->reader, k, stored.data(), &bytes));
            if (done >= sizes.size() || bytes != sizes[done])
                throw Stop(sample::INPUT, shard->path + " has changed since it was opened");
            writeAt(file.descriptor, s.output, offsets[done], stored.data(), bytes);
            progress.update(bytes_done += static_cast<long long>(bytes));
        }
        shard->close();
    }
    if (!sample::interrupted())
        output.commit();
    return damaged ? damaged->path + ": the recording is damaged after these frames; those of later shards are left out"
                   : "";
}

long long sizeOf(const std::string &path) {
    struct stat about;
    if (::stat(path.c_str(), &about) != 0)
        throw Stop(sample::INPUT, path + ": " + std::strerror(errno));
    return static_cast<long long>(about.st_size);
}

} // namespace

std::string shardRun(const std::string &run) {
    return sample::text("%08x", cusCrc32c(0, run.data(), run.size()));
}

std::string shardLabel(const ShardLabel &label) {
    return sample::text("%llu/%llu %s%s", label.shard, label.shards, shardRun(label.run).c_str(),
                        label.is_damaged ? " damaged" : "");
}

bool readShardLabel(const std::string &path, ShardLabel &label) {
    cusFrameReader *reader = nullptr;
    cusFrameFileInfo info = {};
    struct stat about;
    const bool is_label = ::stat(path.c_str(), &about) == 0 && cusFrameReaderOpen(&reader, path.c_str(), &info) == CUS_OK &&
                          parseLabel(info.label, label);
    cusFrameReaderClose(reader);
    return is_label;
}

void merge(MergeSettings &s) {
    sample::requireEnding("--output", s.output, {".raw", ".h5", ".hdf5"});
    const std::string kind = sample::ending(s.output) == ".raw" ? ".raw" : ".h5";
    long long bytes = 0;
    for (const std::string &input : s.inputs) {
        sample::requireRegular(input);
        bytes += sizeOf(input);
        if ((sample::ending(input) == ".raw") != (kind == ".raw"))
            throw Stop(sample::USAGE, "INPUT is '" + input + "', expected a name that ends in " + kind + " like --output");
    }
    sample::Progress progress("bytes", bytes);
    std::string problem;
    if (kind == ".raw")
        mergeRaw(s, progress);
    else
        problem = mergeHdf5(s, progress);
    progress.finish();
    if (sample::interrupted())
        return;
    sample::figure("shards", {{"shards", s.inputs.size()}}, "%zu", s.inputs.size());
    sample::figureText("frames in", "%s", s.output.c_str());
    if (!problem.empty())
        throw Stop(sample::INPUT, problem);
}

} // namespace events
