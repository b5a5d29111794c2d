#include "events-mpi/files/parallel.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace events_mpi {

using sample::cannotWrite;

// ---- Signals -----------------------------------------------------------------------------------------------------------

namespace {

char names[2][4096] = {"", ""};

void onSignal(int) {
    for (const char *name : names)
        if (name[0])
            ::unlink(name);
    sample::removeUnfinished();
    ::_exit(sample::INTERRUPTED);
}

} // namespace

void removeOnSignal(Removed which, const std::string &path) {
    char *name = names[which];
    name[0] = '\0';
    if (!path.empty() && path.size() < sizeof names[which]) { // the first byte last, since a signal may come in between
        std::memcpy(name + 1, path.c_str() + 1, path.size());
        name[0] = path[0];
    }
}

void endOnSignals() {
    std::signal(SIGINT, onSignal);
    std::signal(SIGTERM, onSignal);
}

// ---- Target ------------------------------------------------------------------------------------------------------------

Target::Target(Team &team, const std::string &path, const Journal &journal, const std::string &name) : path_(path) {
    team.onFirst([&] {
        if (!journal.active()) {
            file_ = std::make_unique<sample::OutputFile>(path_);
            if (file_->inPlace())
                cannotWrite(path_, "it is no regular file");
            temporary_ = file_->temporary();
            return;
        }
        temporary_ = journal.folder() + "/" + name;
        const int made = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (made < 0)
            cannotWrite(path_, std::strerror(errno));
        ::close(made);
    });
    team.share(temporary_);
    if (!journal.active())
        removeOnSignal(UNFINISHED, temporary_);
}

Target::~Target() {
    removeOnSignal(UNFINISHED, "");
}

void Target::resize(uint64_t bytes) const {
    if (::truncate(temporary_.c_str(), static_cast<off_t>(bytes)) != 0)
        cannotWrite(path_, std::strerror(errno));
}

void Target::reserve(uint64_t bytes) const {
    const int file = ::open(temporary_.c_str(), O_RDWR | O_CLOEXEC);
    const int done = file < 0 ? -1 : ::fallocate(file, 0, 0, static_cast<off_t>(std::max<uint64_t>(bytes, 1)));
    const int why = errno;
    if (file >= 0)
        ::close(file);
    if (done != 0 && (why == ENOSPC || why == EDQUOT || why == EFBIG || why == EIO))
        cannotWrite(path_,
                    sample::text("%s (%llu bytes are needed)", std::strerror(why), static_cast<unsigned long long>(bytes)));
}

void Target::commit() {
    if (file_) {
        file_->commit();
        return;
    }
    struct stat there;
    const int file = ::open(temporary_.c_str(), O_RDWR | O_CLOEXEC);
    const bool stored = file >= 0 && ::fsync(file) == 0;
    const int why = errno;
    if (file >= 0 && ::stat(path_.c_str(), &there) == 0 && ::fchmod(file, there.st_mode & 0777) != 0) {
        // keep the usual permissions
    }
    if (file >= 0)
        ::close(file);
    if (!stored)
        cannotWrite(path_, std::strerror(why));
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
        cannotWrite(path_, std::strerror(errno));
}

// ---- ParallelFile ------------------------------------------------------------------------------------------------------

ParallelFile::~ParallelFile() {
    if (file_ != MPI_FILE_NULL)
        MPI_File_close(&file_);
}

// MPI says little about what went wrong.
void ParallelFile::require(int code) const {
    if (code == MPI_SUCCESS)
        return;
    int kind = MPI_ERR_OTHER, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_class(code, &kind);
    MPI_Error_string(code, text, &length);
    struct statvfs disk;
    struct stat now;
    rlimit limit;
    if (::stat(path_.c_str(), &now) == 0 && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        static_cast<rlim_t>(now.st_size) >= limit.rlim_cur)
        cannotWrite(output_, std::strerror(EFBIG));
    if (kind == MPI_ERR_NO_SPACE || (::statvfs(path_.c_str(), &disk) == 0 && disk.f_blocks > 0 && disk.f_bavail == 0))
        cannotWrite(output_, std::strerror(ENOSPC));
    cannotWrite(output_, text);
}

void ParallelFile::open(const std::string &path, const std::string &output) {
    path_ = path;
    output_ = output;
    require(MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_WRONLY, MPI_INFO_NULL, &file_));
}

void ParallelFile::write(uint64_t offset, const void *data, size_t bytes) {
    constexpr size_t PART = size_t{1} << 30; // counts are int
    for (size_t at = 0; at < bytes; at += PART) {
        const int part = static_cast<int>(std::min(PART, bytes - at));
        MPI_Status status;
        int written = 0;
        const uint64_t place = offset + at;
        require(MPI_File_write_at(file_, static_cast<MPI_Offset>(place), static_cast<const char *>(data) + at, part,
                                  MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &written);
        if (written != part)
            require(MPI_ERR_IO);
    }
}

void ParallelFile::sync() {
    require(MPI_File_sync(file_));
}

void ParallelFile::close() {
    require(MPI_File_close(&file_));
}

} // namespace events_mpi
