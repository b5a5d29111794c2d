// The direct algorithm for bytes on the CPU: dot products with every instruction set, and score maps that are exact.
#include "match/support.hpp"
#include "match/dots/dots.h"

namespace {

using namespace match_test;

// Neither an instruction for it nor pairs: plain C, which other processors use.
#define MATCH_DOTS_SET   plain
#define MATCH_DOTS_LANES 4
#define MATCH_DOTS_NS    1
#include "match/dots/kernels.h"

// Tiles in plain C: shows on every processor that they are laid out as the kernel for AMX needs.
uint8_t tile_registers[8][16][64];
void loadTile(int tile, const void *from, ptrdiff_t step) {
    for (ptrdiff_t row = 0; row < 16; ++row)
        std::memcpy(tile_registers[tile][row], static_cast<const char *>(from) + row * step, 64);
}
void storeTile(int tile, void *to, ptrdiff_t step) {
    for (ptrdiff_t row = 0; row < 16; ++row)
        std::memcpy(static_cast<char *>(to) + row * step, tile_registers[tile][row], 64);
}
void addTiles(int sums, int taps, int pixels) {
    for (size_t row = 0; row < 16; ++row)
        for (size_t col = 0; col < 16; ++col) {
            uint32_t sum;
            std::memcpy(&sum, &tile_registers[sums][row][4 * col], 4);
            for (size_t k = 0; k < 64; ++k)
                sum += static_cast<uint32_t>(static_cast<int8_t>(tile_registers[taps][row][k]) *
                                             tile_registers[pixels][k / 4][4 * col + k % 4]);
            std::memcpy(&tile_registers[sums][row][4 * col], &sum, 4);
        }
}
#define MATCH_TILES_NS    1
#define MATCH_TILES_BEGIN std::memset(tile_registers, 0, sizeof tile_registers)
#define MATCH_TILES_LOAD  loadTile
#define MATCH_TILES_ADD   addTiles
#define MATCH_TILES_STORE storeTile
#define MATCH_TILES_END   std::memset(tile_registers, 255, sizeof tile_registers)
#include "match/dots/tiles.h"

constexpr size_t MOST_ROWS = 32, MOST_WORDS = 16; // of a kernel

struct Case {
    size_t h, width, step, cols, pitch;
    std::vector<uint32_t> pixels, taps;
    int64_t start;
    std::vector<int64_t> expected; // MOST_ROWS rows
};

int64_t tapSum(uint32_t taps, uint32_t pixels, int shift) {
    int64_t sum = 0;
    for (int b = 0; b < 32; b += 8)
        sum += static_cast<int8_t>(taps >> b) * (static_cast<uint8_t>(pixels >> b) - shift);
    return sum;
}

// Bytes are random, or all 255 and all the largest or the smallest tap, whose sums are the largest.
Case makeCase(std::mt19937_64 &random) {
    Case c = {1 + random() % 40,
              1 + random() % 20,
              random() % 2 ? 1u : 4u,
              MATCH_DOTS_COLS * (1 + random() % 2),
              0,
              {},
              {},
              0,
              {}};
    c.pitch = c.cols + (c.width + MOST_WORDS) * c.step + random() % 9;
    const auto extreme = random() % 3;
    for (size_t i = 0; i < (c.h + MOST_ROWS) * c.pitch; ++i)
        c.pixels.push_back(extreme ? 0xffffffff : static_cast<uint32_t>(random()));
    for (size_t i = 0; i < c.h * c.width; ++i) {
        c.taps.push_back(extreme == 0 ? static_cast<uint32_t>(random()) : extreme == 1 ? 0x7f7f7f7f : 0x80808080);
        c.start += tapSum(c.taps.back(), 0, MATCH_DOTS_SHIFT);
    }
    for (size_t j = 0; j < MOST_ROWS; ++j)
        for (size_t i = 0; i < c.cols; ++i) {
            int64_t sum = 0;
            for (size_t r = 0; r < c.h; ++r)
                for (size_t k = 0; k < c.width; ++k)
                    sum += tapSum(c.taps[r * c.width + k], c.pixels[(j + r) * c.pitch + i + k * c.step], MATCH_DOTS_SHIFT);
            c.expected.push_back(sum);
        }
    return c;
}

void check(const Case &c, const char *name, const MatchDots &kernels) {
    SCOPED_TRACE(testing::Message() << name << " rows " << c.h << " width " << c.width << " step " << c.step);
    ASSERT_LE(kernels.rows, MOST_ROWS);
    ASSERT_LE(kernels.words, MOST_WORDS);
    const size_t width = (c.width + kernels.words - 1) / kernels.words * kernels.words, pitch = c.cols + 3;
    std::vector<uint32_t> taps((c.h + 2 * kernels.zeros) * width);
    for (size_t i = 0; i < c.taps.size(); ++i)
        taps[(kernels.zeros + i / c.width) * width + i % c.width] = c.taps[i];
    std::vector<int32_t> sums(kernels.rows * pitch, 12345);
    kernels.correlate(c.pixels.data(), c.pitch, taps.data(), width, c.step, c.h, static_cast<int32_t>(c.start), c.cols,
                      sums.data(), pitch);
    for (size_t j = 0; j < kernels.rows; ++j)
        for (size_t i = 0; i < pitch; ++i)
            ASSERT_EQ(sums[j * pitch + i], i < c.cols ? c.expected[j * c.cols + i] : 12345)
                << "row " << j << " position " << i;
}

TEST(MatchDots, EveryInstructionSet) {
    auto random = support::generator();
    for (int round = 0; round < 40 && !testing::Test::HasFatalFailure(); ++round) {
        const Case c = makeCase(random);
        check(c, "plain C", table_plain);
        check(c, "tiles in plain C", table_tiles);
        for (int i = 0; const MatchDots *kernels = match_dots_kernels(i); ++i)
            check(c, ("instruction set " + std::to_string(i)).c_str(), *kernels);
    }
}

// Sums near the largest that 32 bits hold, and beyond, where windows are summed up one by one.
TEST(MatchDots, LargeTemplates) {
    auto random = support::generator();
    for (const int side : {361, 362, 363})
        for (const int value : {0, 255}) {
            auto image = flat<uint8_t>(side + 2, side + 3, 1, 255);
            image.data[random() % image.data.size()] = 254;
            compare(image, flat<uint8_t>(side, side, 1, static_cast<uint8_t>(value)), CUS_HOST,
                    with(CUS_MATCH_SQDIFF, CUS_MATCH_DIRECT));
        }
}

} // namespace
