#include "events-mpi/files/journal.hpp"

#include "common/output.hpp"
#include "common/terminal/files.hpp"

#include "cusight/live.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace events_mpi {

namespace fs = std::filesystem;
using sample::Stop;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto COMMIT_EVERY = std::chrono::milliseconds(500);

uint32_t checkOf(const Done &done) {
    return cusCrc32c(0, &done, offsetof(Done, check));
}

std::string contentOf(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

// The first line in which two texts differ, as "NOW, but it was BEFORE".
std::string difference(const std::string &before, const std::string &now) {
    size_t at = 0, line = 0;
    while (at < before.size() && at < now.size() && before[at] == now[at])
        line = before[at++] == '\n' ? at : line;
    const auto cut = [line](const std::string &text) { return text.substr(line, text.find('\n', line) - line); };
    return "\"" + cut(now) + "\", but it was \"" + cut(before) + "\"";
}

} // namespace

Journal::Journal(Team &team, bool active, const std::string &output, const std::string &fingerprint)
    : active_(active), output_(output), folder_(output + ".resume"), rank_(static_cast<uint32_t>(team.rank)),
      last_(Clock::now()) {
    if (!active_)
        return;
    team.onFirst([&] {
        std::error_code error;
        const bool overwrite = sample::currentFiles().overwrite;
        if (fs::exists(folder_ + "/run", error)) {
            if (contentOf(folder_ + "/run") == fingerprint)
                return load();
            if (!overwrite)
                refuse(fingerprint);
        } else if (fs::exists(folder_, error) && !fs::is_empty(folder_, error) && !overwrite) {
            throw Stop(sample::OUTPUT, "--resume: " + folder_ + " is not of an earlier run, expected none, or --overwrite");
        }
        remove();
        if (::mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST)
            sample::cannotWrite(folder_, std::strerror(errno));
        sample::currentFiles().derive("--resume", folder_, folder_ + "/run");
        sample::OutputFile run(folder_ + "/run");
        run.write(fingerprint.data(), fingerprint.size());
        run.commit();
    });
    team.share(run_);
    team.share(earlier_);
    team.together([&] {
        const std::string name = folder_ + sample::text("/done.%u.%u", run_, rank_);
        file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file_ < 0)
            sample::cannotWrite(name, std::strerror(errno));
    });
}

Journal::~Journal() {
    if (file_ >= 0)
        ::close(file_);
}

void Journal::refuse(const std::string &fingerprint) const {
    throw Stop(sample::INPUT, "--resume: this is not the run that " + folder_ +
                                  " belongs to: " + difference(contentOf(folder_ + "/run"), fingerprint) +
                                  "; add --overwrite to start again");
}

void Journal::load() {
    for (const auto &entry : fs::directory_iterator(folder_)) {
        unsigned run = 0, rank = 0;
        if (std::sscanf(entry.path().filename().c_str(), "done.%u.%u", &run, &rank) != 2)
            continue;
        run_ = std::max(run_, run + 1);
        const std::string records = contentOf(entry.path().string());
        for (size_t at = 0; at + sizeof(Done) <= records.size(); at += sizeof(Done)) {
            Done done;
            std::memcpy(&done, records.data() + at, sizeof done);
            if (done.check == checkOf(done))
                earlier_.push_back(done);
        }
    }
    std::sort(earlier_.begin(), earlier_.end(), [](const Done &a, const Done &b) { return a.window < b.window; });
    const auto same = [](const Done &a, const Done &b) { return a.window == b.window; };
    earlier_.erase(std::unique(earlier_.begin(), earlier_.end(), same), earlier_.end());
}

std::string Journal::framesFile(uint32_t run, uint32_t rank) const {
    return folder_ + sample::text("/frames.%u.%u", run, rank);
}

void Journal::add(uint64_t window, uint64_t offset, uint32_t bytes) {
    if (active_ && !ended_)
        pending_.push_back({window, offset, bytes, run_, rank_, 0});
}

bool Journal::due() const {
    return !pending_.empty() && Clock::now() - last_ > COMMIT_EVERY;
}

void Journal::commit() {
    if (pending_.empty())
        return;
    for (Done &done : pending_)
        done.check = checkOf(done);
    const size_t bytes = pending_.size() * sizeof(Done);
    const char *data = reinterpret_cast<const char *>(pending_.data());
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = ::write(file_, data + at, bytes - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            sample::cannotWrite(folder_, std::strerror(n < 0 ? errno : EIO));
        at += static_cast<size_t>(n);
    }
    pending_.clear();
    last_ = Clock::now();
}

void Journal::remove() {
    std::error_code error;
    for (fs::directory_iterator at(folder_, error), end; active_ && !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        unsigned run = 0, rank = 0;
        if (name == "run" || name == "frames" || name == "layout" ||
            std::sscanf(name.c_str(), "done.%u.%u", &run, &rank) == 2 ||
            std::sscanf(name.c_str(), "frames.%u.%u", &run, &rank) == 2)
            ::unlink(at->path().c_str());
    }
    if (active_)
        ::rmdir(folder_.c_str()); // unless somebody else has files there
}

std::string fingerprintOf(const std::string &path) {
    constexpr size_t BLOCK = 65536, BLOCKS = 64;
    struct stat about = {};
    std::ifstream file(path, std::ios::binary);
    if (::stat(path.c_str(), &about) != 0 || !file)
        throw Stop(sample::INPUT, path + ": " + std::strerror(errno));
    const auto size = static_cast<uint64_t>(about.st_size);
    std::vector<char> block(BLOCK);
    uint32_t crc = 0;
    for (uint64_t k = 0; k <= BLOCKS; ++k) {
        const uint64_t at = size > BLOCK ? (size - BLOCK) / BLOCKS * k + (k == BLOCKS ? (size - BLOCK) % BLOCKS : 0) : 0;
        file.clear();
        file.seekg(static_cast<std::streamoff>(at)).read(block.data(), static_cast<std::streamsize>(BLOCK));
        crc = cusCrc32c(crc, block.data(), static_cast<size_t>(file.gcount()));
    }
    return sample::text("input of %llu bytes, changed at %lld.%09ld, samples %08x\n", static_cast<unsigned long long>(size),
                        static_cast<long long>(about.st_mtim.tv_sec), about.st_mtim.tv_nsec, crc);
}

} // namespace events_mpi
