// Reference of live video, besides framediff.hpp: the checksum, bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reference {

// CRC-32C: reflected polynomial 0x82f63b78, register and result inverted.
inline uint32_t crc32c(const uint8_t *data, size_t bytes) {
    uint32_t state = 0xffffffffu;
    for (size_t i = 0; i < bytes; ++i) {
        state ^= data[i];
        for (int bit = 0; bit < 8; ++bit)
            state = state >> 1 ^ (state & 1 ? 0x82f63b78u : 0);
    }
    return ~state;
}

} // namespace reference
