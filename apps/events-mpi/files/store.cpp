#include "events-mpi/files/store.hpp"

#include "common/output.hpp"
#include "events-mpi/files/parallel.hpp"

#include "cusight/eventio.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace events_mpi {

using sample::Stop;

namespace {
const char *const HOLDER = " (process "; // what a lock begins with
}

// ---- OutputLock --------------------------------------------------------------------------------------------------------

OutputLock::OutputLock(Team &team, const std::string &output) : output_(output) {
    if (output_.empty())
        return;
    const size_t slash = output_.rfind('/') + 1;
    name_ = output_.substr(0, slash) + "." + output_.substr(slash) + ".lock";
    team.onFirst([&] { take(); });
}

void OutputLock::take() {
    for (;;) {
        struct stat ours, there;
        file_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file_ < 0)
            sample::cannotWrite(output_, std::strerror(errno));
        const bool held = ::flock(file_, LOCK_EX | LOCK_NB) != 0;
        char holder[200] = "";
        const ssize_t size = ::pread(file_, holder, sizeof holder - 1, 0);
        const bool is_lock = size <= 0 || std::strncmp(holder, HOLDER, std::strlen(HOLDER)) == 0;
        if (held || !is_lock) {
            ::close(file_);
            file_ = -1;
            sample::cannotWrite(output_, held ? std::string("another run is writing it") + (is_lock ? holder : "")
                                              : name_ + " exists, and is not a lock that a run has left");
        }
        // The previous run may just have removed the name.
        if (::fstat(file_, &ours) == 0 && ::stat(name_.c_str(), &there) == 0 && ours.st_ino == there.st_ino)
            break;
        ::close(file_);
    }
    removeOnSignal(LOCK, name_);
    char host[128] = "";
    ::gethostname(host, sizeof host - 1);
    const std::string holder = sample::text("%s%ld on %s)", HOLDER, static_cast<long>(::getpid()), host);
    if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, holder.data(), holder.size(), 0) < 0) {
        // the lock also holds without a name
    }
}

OutputLock::~OutputLock() {
    if (file_ < 0)
        return;
    ::unlink(name_.c_str());
    removeOnSignal(LOCK, "");
    ::close(file_);
}

namespace {

// ---- Frames at their places --------------------------------------------------------------------------------------------

class DirectStore final : public Store {
  public:
    DirectStore(Team &team, const Options &o, const FrameShape &shape, const Plan &plan, Journal &journal)
        : with_header_(!o.raw()), shape_(shape), journal_(journal), target_(team, o.output, journal, "frames") {
        team.onFirst([&] {
            layOut(std::max<uint64_t>(plan.windows, 1));
            target_.reserve(header_ + plan.windows * shape_.bytes);
        });
        team.share(header_);
        team.together([&] { file_.open(target_.temporary(), o.output); });
    }

    void put(uint64_t first, const char *frames, size_t count) override {
        file_.write(header_ + first * shape_.bytes, frames, count * shape_.bytes);
        for (size_t k = 0; k < count; ++k)
            journal_.add(first + k, 0, 0);
        if (journal_.due())
            flush();
    }
    void flush() override {
        if (!journal_.active())
            return;
        file_.sync();
        journal_.commit();
    }
    void endJournal() override { journal_.end(); }
    void finish(Team &team, uint64_t frames) override {
        team.together([&] {
            file_.sync();
            file_.close();
        });
        team.onFirst([&] {
            layOut(frames);
            target_.commit();
            journal_.remove();
        });
    }

  private:
    // Writes the header, and sets the length of the file.
    void layOut(uint64_t frames) {
        if (!with_header_) {
            target_.resize(frames * shape_.bytes);
            return;
        }
        if (cusFrameFileLayout(target_.temporary().c_str(), shape_.rows, shape_.cols, shape_.type, frames, 0, nullptr,
                               &header_) != CUS_OK)
            sample::cannotWrite(target_.path(), cusLastError());
    }

    const bool with_header_;
    const FrameShape shape_;
    Journal &journal_;
    Target target_;
    ParallelFile file_;
    uint64_t header_ = 0;
};

// ---- Compressed frames -------------------------------------------------------------------------------------------------

// The places of compressed frames are known once all sizes are. Until then, each rank keeps its frames in a file beside the
// output.
class PackedStore final : public Store {
  public:
    PackedStore(Team &team, const Options &o, const FrameShape &shape, Journal &journal)
        : shape_(shape), journal_(journal), target_(team, o.output, journal, "layout"),
          rank_(static_cast<uint32_t>(team.rank)) {
        team.together([&] {
            const std::string name =
                journal.active() ? journal.framesFile(journal.run(), rank_) : target_.temporary() + std::to_string(rank_);
            spool_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (spool_ < 0)
                sample::cannotWrite(o.output, std::strerror(errno));
            if (!journal.active())
                ::unlink(name.c_str()); // nothing is left, whatever happens
        });
    }
    ~PackedStore() override {
        if (spool_ >= 0)
            ::close(spool_);
    }
    PackedStore(const PackedStore &) = delete;
    PackedStore &operator=(const PackedStore &) = delete;

    void put(uint64_t first, const char *frames, size_t count) override {
        packed_.resize(count * shape_.bytes);
        std::vector<size_t> stored(count);
        bool good = true;
#pragma omp parallel for schedule(dynamic) if (count > 1) reduction(&& : good)
        for (size_t k = 0; k < count; ++k) {
            cusMat frame = CUS_MAT_INIT;
            good = cusMatWrap(&frame, shape_.rows, shape_.cols, shape_.type, CUS_HOST,
                              const_cast<char *>(frames + k * shape_.bytes), 0) == CUS_OK &&
                   cusFramePack(&frame, &packed_[k * shape_.bytes], &stored[k]) == CUS_OK && good;
        }
        if (!good)
            throw std::bad_alloc();
        for (size_t k = 0; k < count; ++k) {
            append(&packed_[k * shape_.bytes], stored[k]);
            own_.push_back({first + k, end_, static_cast<uint32_t>(stored[k]), journal_.run(), rank_, 0});
            journal_.add(first + k, end_, static_cast<uint32_t>(stored[k]));
            end_ += stored[k];
        }
        if (journal_.due())
            flush();
    }
    void flush() override {
        if (!journal_.active())
            return;
        if (::fdatasync(spool_) != 0)
            sample::cannotWrite(target_.path(), std::strerror(errno));
        journal_.commit();
    }

    void endJournal() override {
        journal_.end();
    }
    void finish(Team &team, uint64_t frames) override {
        std::vector<uint32_t> stored(frames, 0);
        std::vector<uint64_t> offsets(frames);
        std::vector<Done> everything = team.gather(own_);
        team.onFirst([&] {
            everything.insert(everything.end(), journal_.earlier().begin(), journal_.earlier().end());
            for (const Done &done : everything)
                if (done.window < frames)
                    stored[done.window] = done.bytes;
            if (cusFrameFileLayout(target_.temporary().c_str(), shape_.rows, shape_.cols, shape_.type, frames, 1,
                                   stored.data(), offsets.data()) != CUS_OK)
                sample::cannotWrite(target_.path(), cusLastError());
        });
        team.share(offsets);
        team.together([&] {
            ParallelFile file;
            file.open(target_.temporary(), target_.path());
            copy(file, spool_, own_, offsets);
            copyEarlier(file, static_cast<uint32_t>(team.size), offsets);
            file.sync();
            file.close();
        });
        team.onFirst([&] {
            target_.commit();
            journal_.remove();
        });
    }

  private:
    void append(const char *data, size_t bytes) {
        for (size_t at = 0; at < bytes;) {
            const ssize_t n = ::pwrite(spool_, data + at, bytes - at, static_cast<off_t>(end_ + at));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                sample::cannotWrite(target_.path(), std::strerror(n < 0 ? errno : ENOSPC));
            at += static_cast<size_t>(n);
        }
    }

    // Copies frames of one spool to their places; adjacent ones together.
    void copy(ParallelFile &file, int from, const std::vector<Done> &frames, const std::vector<uint64_t> &offsets) {
        constexpr size_t MAX_BYTES = size_t{16} << 20;
        for (size_t k = 0; k < frames.size();) {
            if (frames[k].window >= offsets.size()) {
                ++k;
                continue;
            }
            const uint64_t source = frames[k].offset, destination = offsets[frames[k].window];
            size_t bytes = frames[k].bytes;
            for (++k; k < frames.size() && bytes < MAX_BYTES && frames[k].window < offsets.size() &&
                      frames[k].offset == source + bytes && offsets[frames[k].window] == destination + bytes;
                 ++k)
                bytes += frames[k].bytes;
            packed_.resize(std::max(packed_.size(), bytes));
            for (size_t at = 0; at < bytes;) {
                const ssize_t n = ::pread(from, &packed_[at], bytes - at, static_cast<off_t>(source + at));
                if (n < 0 && errno == EINTR)
                    continue;
                if (n <= 0)
                    sample::cannotWrite(target_.path(), n < 0 ? std::strerror(errno) : "what was written has been removed");
                at += static_cast<size_t>(n);
            }
            file.write(destination, packed_.data(), bytes);
        }
    }

    // Copies the spools of earlier runs, dealt to the ranks.
    void copyEarlier(ParallelFile &file, uint32_t ranks, const std::vector<uint64_t> &offsets) {
        std::map<std::pair<uint32_t, uint32_t>, std::vector<Done>> spools;
        for (const Done &done : journal_.earlier())
            spools[{done.run, done.rank}].push_back(done);
        uint32_t number = 0;
        for (const auto &[name, frames] : spools) {
            if (number++ % ranks != rank_)
                continue;
            const std::string path = journal_.framesFile(name.first, name.second);
            const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
            if (from < 0)
                sample::cannotWrite(target_.path(), path + ": " + std::strerror(errno));
            const struct Closer {
                int descriptor;
                ~Closer() { ::close(descriptor); }
            } closer = {from};
            copy(file, from, frames, offsets);
        }
    }

    const FrameShape shape_;
    Journal &journal_;
    Target target_;
    const uint32_t rank_;
    int spool_ = -1;
    uint64_t end_ = 0; // size of the spool
    std::vector<char> packed_;
    std::vector<Done> own_;
};

} // namespace

std::unique_ptr<Store> makeStore(Team &team, const Options &options, const FrameShape &shape, const Plan &plan,
                                 Journal &journal) {
    if (options.output.empty())
        return nullptr;
    if (options.raw() || options.compression == "none")
        return std::make_unique<DirectStore>(team, options, shape, plan, journal);
    return std::make_unique<PackedStore>(team, options, shape, journal);
}

} // namespace events_mpi
