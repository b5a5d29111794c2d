#include "cusight/live.h"
#include "live/crc32c.h"
#include "reference/live.hpp"
#include "../support.hpp"

#include <cstring>

namespace {

// Every length around the steps of eight bytes, every alignment, and remainders that continue from earlier bytes.
void expectReference(LiveCrc32c *way) {
    std::mt19937_64 random(support::seed());
    std::vector<uint8_t> data(4096);
    for (uint8_t &byte : data)
        byte = static_cast<uint8_t>(random());
    for (size_t bytes = 0; bytes <= 70; ++bytes)
        for (size_t at = 0; at < 8; ++at)
            ASSERT_EQ(~way(~0u, data.data() + at, bytes), reference::crc32c(data.data() + at, bytes))
                << bytes << " bytes at " << at;
    const uint32_t whole = reference::crc32c(data.data(), data.size());
    for (const size_t cut : {0, 1, 7, 8, 9, 2047, 4095, 4096})
        EXPECT_EQ(~way(way(~0u, data.data(), cut), data.data() + cut, data.size() - cut), whole) << cut;
    // Each of the 2048 entries of the tables: one byte of eight at a time.
    for (size_t place = 0; place < 8; ++place)
        for (int value = 0; value < 256; ++value) {
            uint8_t eight[8] = {};
            eight[place] = static_cast<uint8_t>(value);
            ASSERT_EQ(~way(~0u, eight, 8), reference::crc32c(eight, 8)) << value << " at " << place;
        }
}

} // namespace

TEST(LiveCrc32c, TablesEqualTheReference) {
    expectReference(live_crc32cTables);
}

TEST(LiveCrc32c, InstructionEqualsTheReference) {
    LiveCrc32c *way = live_crc32cInstruction();
    if (!way)
        GTEST_SKIP() << "this processor has no instruction for CRC-32C";
    expectReference(way);
}

// Blocks that threads take, of any number, and the rest: what one after the other gives.
TEST(LiveCrc32c, ManyBytesOnAllThreads) {
    std::mt19937_64 random(support::seed());
    std::vector<uint8_t> data(size_t{150} << 20); // more blocks than are put together at once
    for (size_t i = 0; i < data.size(); i += 8) {
        const uint64_t eight = random();
        std::memcpy(&data[i], &eight, 8);
    }
    LiveCrc32c *const instruction = live_crc32cInstruction(), *const way = instruction ? instruction : live_crc32cTables;
    for (const size_t bytes :
         {size_t{3} << 20, (size_t{4} << 20) - 1, size_t{4} << 20, (size_t{17} << 20) + 5, data.size() - 3})
        for (const uint32_t crc : {0u, 0x12345678u})
            EXPECT_EQ(cusCrc32c(crc, data.data() + 3, bytes), ~way(~crc, data.data() + 3, bytes)) << bytes;
}
