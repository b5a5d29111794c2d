// Fuzzes the reader of HDF5 recordings. After each mutation the checksums that the reader meets are repaired, so that the structures behind
// them are reached.
#include "eventio_watch.hpp"

extern "C" void (*eventio_hdf5Repair)(uint64_t at, uint32_t checksum);
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace {

uint8_t *repaired = nullptr; // the file
size_t repaired_size = 0;

void repair(uint64_t at, uint32_t checksum) {
    for (size_t i = 0; i < 4 && at + i < repaired_size; ++i)
        repaired[at + i] = uint8_t(checksum >> 8 * i);
}

// Reads the file to its end. What it reads may contradict itself: repairing a checksum may change another block.
void readThrough() {
    cusEventReader *reader = nullptr;
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.threads = 1;
    options.max_memory = fuzz::MAX_MEMORY;
    if (cusEventReaderOpenMemory(&reader, repaired, repaired_size, &options) != CUS_OK)
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

// Some inputs keep their wrong checksums. The first byte says how to read the file.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size < 2 || seed % 16 == 0)
        return size;
    data[0] = seed / 16 % 2; // a reader of HDF5 that stops at bad events, or skips them
    repaired = data + 1;
    repaired_size = size - 1;
    eventio_hdf5Repair = repair;
    readThrough();
    eventio_hdf5Repair = nullptr;
    return size;
}
