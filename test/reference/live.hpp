// Reference of live video, besides framediff.hpp: the checksum, by tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reference {

// CRC-32C: reflected polynomial 0x82f63b78, register and result inverted. Eight bytes at a time, since golden rows sum up gigabytes.
inline uint32_t crc32c(const uint8_t *data, size_t bytes) {
    static const auto table = [] { // [k][b]: a register b after 8 (k + 1) bits more
        std::array<std::array<uint32_t, 256>, 8> t{};
        for (uint32_t b = 0; b < 256; ++b) {
            t[0][b] = b;
            for (int bit = 0; bit < 8; ++bit)
                t[0][b] = t[0][b] >> 1 ^ (t[0][b] & 1 ? 0x82f63b78u : 0);
        }
        for (size_t k = 1; k < 8; ++k)
            for (size_t b = 0; b < 256; ++b)
                t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
        return t;
    }();
    uint32_t state = 0xffffffffu;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint8_t first[4]; // the register's bytes meet the first four
        uint32_t next = 0;
        for (size_t k = 0; k < 4; ++k)
            first[k] = static_cast<uint8_t>(data[k] ^ state >> 8 * k);
        for (size_t k = 0; k < 4; ++k)
            next ^= table[7 - k][first[k]] ^ table[3 - k][data[4 + k]];
        state = next;
    }
    for (; bytes > 0; ++data, --bytes)
        state = state >> 8 ^ table[0][(state ^ *data) & 255];
    return ~state;
}

} // namespace reference
