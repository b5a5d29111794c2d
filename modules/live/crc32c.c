/* CRC-32C (Castagnoli): the polynomial 1edc6f41, reflected 82f63b78. */
#include "live/crc32c.h"

#include "cusight/live.h"
#include "host.h"

#include <string.h>

/* TABLES[k][b] is the remainder of byte b followed by k zero bytes. It is linear in b, so the remainders of the eight bits
 * of b give the rest. */
#define BYTE(b, r0, r1, r2, r3, r4, r5, r6, r7)                                                                          \
    (((b)&1 ? r0 : 0) ^ ((b)&2 ? r1 : 0) ^ ((b)&4 ? r2 : 0) ^ ((b)&8 ? r3 : 0) ^ ((b)&16 ? r4 : 0) ^ ((b)&32 ? r5 : 0) ^ \
     ((b)&64 ? r6 : 0) ^ ((b)&128 ? r7 : 0))
#define BYTES4(b, ...) BYTE(b, __VA_ARGS__), BYTE(b + 1, __VA_ARGS__), BYTE(b + 2, __VA_ARGS__), BYTE(b + 3, __VA_ARGS__)
#define BYTES16(b, ...) \
    BYTES4(b, __VA_ARGS__), BYTES4(b + 4, __VA_ARGS__), BYTES4(b + 8, __VA_ARGS__), BYTES4(b + 12, __VA_ARGS__)
#define BYTES64(b, ...) \
    BYTES16(b, __VA_ARGS__), BYTES16(b + 16, __VA_ARGS__), BYTES16(b + 32, __VA_ARGS__), BYTES16(b + 48, __VA_ARGS__)
#define TABLE(...) \
    { BYTES64(0, __VA_ARGS__), BYTES64(64, __VA_ARGS__), BYTES64(128, __VA_ARGS__), BYTES64(192, __VA_ARGS__) }

static const uint32_t TABLES[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664)};

static uint32_t fourBytes(const uint8_t *data) {
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

uint32_t live_crc32cTables(uint32_t remainder, const uint8_t *data, size_t bytes) {
    for (; bytes >= 8; data += 8, bytes -= 8) {
        const uint32_t low = remainder ^ fourBytes(data), high = fourBytes(data + 4);
        remainder = TABLES[7][low & 255] ^ TABLES[6][low >> 8 & 255] ^ TABLES[5][low >> 16 & 255] ^ TABLES[4][low >> 24] ^
                    TABLES[3][high & 255] ^ TABLES[2][high >> 8 & 255] ^ TABLES[1][high >> 16 & 255] ^
                    TABLES[0][high >> 24];
    }
    for (; bytes > 0; ++data, --bytes)
        remainder = remainder >> 8 ^ TABLES[0][(remainder ^ *data) & 255];
    return remainder;
}

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("sse4.2"))) static uint32_t instruction(uint32_t remainder, const uint8_t *data, size_t bytes) {
    uint64_t state = remainder;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint64_t eight;
        memcpy(&eight, data, 8);
        state = __builtin_ia32_crc32di(state, eight);
    }
    remainder = (uint32_t)state;
    for (; bytes > 0; ++data, --bytes)
        remainder = __builtin_ia32_crc32qi(remainder, *data);
    return remainder;
}

LiveCrc32c *live_crc32cInstruction(void) {
    return __builtin_cpu_supports("sse4.2") ? instruction : NULL;
}

#elif defined(__aarch64__) && defined(__AARCH64EL__) && defined(__linux__)

#include <sys/auxv.h>

enum { HAS_CRC32 = 1 << 7 }; /* HWCAP_CRC32 of <asm/hwcap.h> */

/* Assembly, since compilers disagree on how a function gets at the intrinsics without -march=...+crc. */
static uint32_t instruction(uint32_t remainder, const uint8_t *data, size_t bytes) {
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint64_t eight;
        memcpy(&eight, data, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(remainder) : "r"(eight));
    }
    for (; bytes > 0; ++data, --bytes)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(remainder) : "r"((uint32_t)*data));
    return remainder;
}

LiveCrc32c *live_crc32cInstruction(void) {
    return getauxval(AT_HWCAP) & HAS_CRC32 ? instruction : NULL;
}

#else

LiveCrc32c *live_crc32cInstruction(void) {
    return NULL;
}

#endif

/* ---- Many bytes, on all threads ------------------------------------------------------------------------------------ */

/* Returns the product of two polynomials modulo that of the CRC; bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= a >> 31 ? b : 0;
        b = b >> 1 ^ (b & 1 ? 0x82f63b78 : 0);
    }
    return product;
}

/* Returns x^(8 bytes). Multiplying a remainder by it appends so many zero bytes. */
static uint32_t past(size_t bytes) {
    uint32_t power = 1u << 31;
    for (uint32_t square = 1u << 23; bytes; bytes >>= 1, square = multiply(square, square))
        power = bytes & 1 ? multiply(power, square) : power;
    return power;
}

enum { BLOCK = 1 << 20, MAX_BLOCKS = 64, MIN_BLOCKS = 4 };

/* Computes the remainders of up to MAX_BLOCKS whole blocks in parallel, each from 0, and combines them. */
static uint32_t ofBlocks(LiveCrc32c *way, uint32_t remainder, const uint8_t *data, int blocks, int threads) {
    uint32_t of_block[MAX_BLOCKS];
    (void)threads;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int k = 0; k < blocks; ++k)
        of_block[k] = way(0, data + (size_t)k * BLOCK, BLOCK);
    const uint32_t past_block = past(BLOCK);
    for (int k = 0; k < blocks; ++k)
        remainder = multiply(past_block, remainder) ^ of_block[k];
    return remainder;
}

uint32_t cusCrc32c(uint32_t crc, const void *data, size_t bytes) {
    if (!data)
        return crc;
    LiveCrc32c *const by_instruction = live_crc32cInstruction(), *const way =
                                                                     by_instruction ? by_instruction : live_crc32cTables;
    const uint8_t *at = data;
    uint32_t remainder = ~crc;
    const int threads = cusi_threadsFor(bytes, BLOCK);
    while (threads > 1 && bytes >= (size_t)MIN_BLOCKS * BLOCK) {
        const int blocks = bytes / BLOCK < MAX_BLOCKS ? (int)(bytes / BLOCK) : MAX_BLOCKS;
        remainder = ofBlocks(way, remainder, at, blocks, threads);
        at += (size_t)blocks * BLOCK;
        bytes -= (size_t)blocks * BLOCK;
    }
    return ~way(remainder, at, bytes);
}
