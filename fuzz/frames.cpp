// Fuzzes the reader of files of frames, and labeling one.
#include "cusight/eventio.h"

#include "hdf5_repair.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t LARGEST_FRAME = 1 << 20;

void require(bool condition) {
    if (!condition)
        std::abort();
}

// A file in memory.
class File {
  public:
    File(const uint8_t *data, size_t size) : fd(memfd_create("frames", MFD_CLOEXEC)) {
        require(fd >= 0 && write(fd, data, size) == ssize_t(size));
    }
    ~File() { close(fd); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

  private:
    int fd;
};

// Reads the first and the last frames, which are no larger than the file says.
void readFrames(const std::string &path) {
    cusFrameReader *reader = nullptr;
    cusFrameFileInfo info = {};
    if (cusFrameReaderOpen(&reader, path.c_str(), &info) != CUS_OK)
        return;
    require(info.rows > 0 && info.cols > 0 && cusTypeSize(info.type) > 0);
    const size_t frame_bytes = size_t(info.rows) * size_t(info.cols) * cusTypeSize(info.type);
    std::vector<uint8_t> stored(std::min(frame_bytes, LARGEST_FRAME));
    for (uint64_t i = 0; i < std::min<uint64_t>(info.frames, 200); ++i) {
        const uint64_t frame = i < 100 ? i : info.frames - 1 - (i - 100);
        size_t bytes = 0;
        if (cusFrameReaderStored(reader, frame, nullptr, &bytes) != CUS_OK)
            continue;
        require(bytes <= frame_bytes);
        if (bytes <= stored.size())
            cusFrameReaderStored(reader, frame, stored.data(), &bytes);
    }
    cusFrameReaderClose(reader);
}

void readRepaired() {
    readFrames(File(fuzz::repaired, fuzz::repaired_size).path());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const File file(data, size);
    readFrames(file.path());
    if (cusFrameFileLabel(file.path().c_str(), "label") == CUS_OK) {
        cusFrameReader *reader = nullptr;
        cusFrameFileInfo info = {};
        require(cusFrameReaderOpen(&reader, file.path().c_str(), &info) == CUS_OK && std::string(info.label) == "label");
        cusFrameReaderClose(reader);
    }
    return 0;
}

// Some inputs keep their wrong checksums.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16)
        fuzz::repairFile(data, size, readRepaired);
    return size;
}
