// Repairs the checksums of a mutated HDF5 file that reading it meets, so that the structures behind them are reached.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" void (*eventio_hdf5Repair)(uint64_t at, uint32_t checksum);
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace fuzz {

inline uint8_t *repaired = nullptr; // the file
inline size_t repaired_size = 0;

inline void repair(uint64_t at, uint32_t checksum) {
    for (size_t i = 0; i < 4 && at + i < repaired_size; ++i)
        repaired[at + i] = uint8_t(checksum >> 8 * i);
}

// Repairs what `read` meets. It may contradict itself, since repairing a checksum may change another block.
inline void repairFile(uint8_t *file, size_t size, void (*read)()) {
    repaired = file;
    repaired_size = size;
    eventio_hdf5Repair = repair;
    read();
    eventio_hdf5Repair = nullptr;
}

} // namespace fuzz
