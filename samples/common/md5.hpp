// MD5 (RFC 1321), for comparing outputs, not for security.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace sample {

class Md5 {
  public:
    Md5() {
        for (int i = 0; i < 64; ++i)
            sine_[i] = static_cast<uint32_t>(std::floor(4294967296.0 * std::fabs(std::sin(i + 1.0))));
    }

    void update(const void *data, size_t size) {
        const auto *bytes = static_cast<const uint8_t *>(data);
        size_t held = static_cast<size_t>(total_ % 64);
        total_ += size;
        if (held) {
            const size_t n = size < 64 - held ? size : 64 - held;
            std::memcpy(block_ + held, bytes, n);
            bytes += n;
            size -= n;
            if (held + n < 64)
                return;
            transform(block_);
        }
        for (; size >= 64; bytes += 64, size -= 64)
            transform(bytes);
        std::memcpy(block_, bytes, size);
    }

    // In hexadecimal; ends the sum.
    std::string finish() {
        const uint64_t bits = 8 * total_;
        static const uint8_t pad[64] = {0x80};
        update(pad, 1 + (119 - total_ % 64) % 64); // to 8 bytes before the end of a block
        uint8_t length[8];
        for (int i = 0; i < 8; ++i)
            length[i] = static_cast<uint8_t>(bits >> 8 * i);
        update(length, 8);
        char text[33];
        for (int i = 0; i < 16; ++i)
            std::snprintf(text + 2 * i, 3, "%02x", state_[i / 4] >> 8 * (i % 4) & 255);
        return text;
    }

  private:
    void transform(const uint8_t *bytes) {
        static const int shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
        uint32_t word[16], a = state_[0], b = state_[1], c = state_[2], d = state_[3];
        for (int i = 0; i < 16; ++i)
            word[i] = static_cast<uint32_t>(bytes[4 * i]) | static_cast<uint32_t>(bytes[4 * i + 1]) << 8 |
                      static_cast<uint32_t>(bytes[4 * i + 2]) << 16 | static_cast<uint32_t>(bytes[4 * i + 3]) << 24;
        for (int i = 0; i < 64; ++i) {
            const int round = i / 16;
            const uint32_t f = round == 0   ? (b & c) | (~b & d)
                               : round == 1 ? (d & b) | (~d & c)
                               : round == 2 ? b ^ c ^ d
                                            : c ^ (b | ~d);
            const int k = round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i;
            const uint32_t sum = a + f + sine_[i] + word[k % 16];
            const int s = shifts[round][i % 4];
            a = d;
            d = c;
            c = b;
            b += sum << s | sum >> (32 - s);
        }
        state_[0] += a;
        state_[1] += b;
        state_[2] += c;
        state_[3] += d;
    }

    uint32_t sine_[64];
    uint32_t state_[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};
    uint64_t total_ = 0;
    uint8_t block_[64] = {};
};

} // namespace sample
