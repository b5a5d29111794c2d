// Fuzzes the reader of HDF5 recordings.
#include "eventio_watch.hpp"
#include "hdf5_repair.hpp"

#include <cstdlib>

namespace {

void readThrough() {
    cusEventReader *reader = nullptr;
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.threads = 1;
    options.max_memory = fuzz::MAX_MEMORY;
    if (cusEventReaderOpenMemory(&reader, fuzz::repaired, fuzz::repaired_size, &options) != CUS_OK)
        return;
    std::vector<int64_t> t(4096);
    size_t count = t.size();
    while (count == t.size() &&
           cusEventReaderRead(reader, t.size(), nullptr, nullptr, nullptr, t.data(), &count) == CUS_OK) {
    }
    cusEventReaderClose(reader);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz::watchedInput(data, size);
    return 0;
}

// Some inputs keep their wrong checksums; all of them if CUSIGHT_FUZZ_PLAIN is set. The first byte says how to read the file.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static const bool plain = std::getenv("CUSIGHT_FUZZ_PLAIN");
    size = LLVMFuzzerMutate(data, size, max_size);
    if (plain || size < 2 || seed % 16 == 0)
        return size;
    data[0] = seed / 16 % 2; // a reader of HDF5 that stops at bad events, or skips them
    fuzz::repairFile(data + 1, size - 1, readThrough);
    return size;
}
