// The shapes of the integral kernel's tiles, the formats of published sums, and the kernel's parameters.
#ifndef CUSI_INTEGRAL_TILE_CUH
#define CUSI_INTEGRAL_TILE_CUH

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cusi::integral {

// ---- Shapes ---------------------------------------------------------------------------------------------------------

constexpr int WARP_COLS = 128; // columns of a warp: 32 lanes of four pixels

// How a tile is divided among the warps of a block.
template<int WARPS_X_, int WARPS_Y_, int WARP_ROWS_, int BLOCKS_PER_SM_, int MIN_COLUMN_GROUP_, int COLUMN_BATCH_,
         bool THROTTLED_ = false>
struct TileShape {
    static constexpr int WARPS_X = WARPS_X_, WARPS_Y = WARPS_Y_;
    static constexpr int WARP_ROWS = WARP_ROWS_;
    static constexpr int BLOCKS_PER_SM = BLOCKS_PER_SM_;
    static constexpr int MIN_COLUMN_GROUP = MIN_COLUMN_GROUP_; // fewest tiles in a group of the column chain
    static constexpr int COLUMN_BATCH = COLUMN_BATCH_;         // tiles of that chain that a thread loads together
    static constexpr bool THROTTLED = THROTTLED_; // writes are throttled if not all tiles fit on the GPU at once
    static constexpr int CHANNELS = 1;            // that a block computes
    static constexpr int WIDTH = WARPS_X * WARP_COLS, HEIGHT = WARPS_Y * WARP_ROWS;
    static constexpr int WARPS = WARPS_X * WARPS_Y, THREADS = 32 * WARPS;
    static_assert(HEIGHT % 32 == 0 && HEIGHT <= 256, "a lane has whole rows; column sums of bytes fit 16 bits");
    static_assert(WARP_ROWS % 4 == 0 && WARP_ROWS <= 32 && WARP_ROWS % (HEIGHT / 32) == 0, "");
    static_assert(32 * (WARPS - WARPS_X) >= HEIGHT / 2, "a thread for every two rows besides those for the columns");
};

// Small images get small tiles, so that every multiprocessor has some. docs/internals/integral.md has the measurements.
namespace tuning {
using Small32 = TileShape<1, 8, 8, 4, 8, 4>; // 32-bit sums alone
using Medium32 = TileShape<2, 4, 16, 4, 8, 3, true>;
using Large32 = TileShape<4, 2, 32, 4, 16, 2, true>;
using Small64 = TileShape<1, 8, 8, 2, 8, 3>; // 8-bit sources with any 64-bit table
using Medium64 = TileShape<1, 8, 8, 4, 8, 1>;
using Large64 = TileShape<2, 4, 16, 3, 8, 1, true>;
using Float = TileShape<1, 8, 4, 4, 2, 1>;      // 32FC1 sources
struct Colors32 : TileShape<1, 8, 8, 2, 8, 4> { // 32-bit sums of three channels, with the chains of Small32
    static constexpr int CHANNELS = 3;
};

// Narrow images, from this ratio of the sides on and up to this width, get small tiles: larger ones would be mostly empty,
// and throttled writes would hold up the long chains down the columns.
constexpr int NARROW_SHAPE = 16, MAX_NARROW_COLS = 1024;
// In throttled launches four blocks write at a time for every five multiprocessors.
constexpr unsigned WRITERS = 4, WRITERS_PER_SMS = 5;
constexpr unsigned START_INTERVAL = 2640; // cycles between the starts of a multiprocessor's first blocks
// Memory traffic of one group of the column chain: it takes longer than passing the prefix from tile to tile.
constexpr size_t GROUP_BYTES = 16 << 20;
constexpr unsigned MAX_COLUMN_GROUP = 32;
constexpr unsigned GROUP = 32; // tiles in a group of the row and corner chains
// Workspace of one slab. Taller images are cut into slabs, one launch each; 16384 x 16384 is one slab.
constexpr size_t SLAB_BYTES = 48 << 20;
} // namespace tuning

constexpr size_t MAX_SLAB_ROWS = 1 << 18; // a column's sum of squares fits 34 bits

// ---- Published sums -------------------------------------------------------------------------------------------------

// A published sum of up to 34 bits with the epoch of its launch above. A word with the current epoch is complete: no fence
// is needed, and nothing is cleared between launches. The epoch has the same bits in all words, because a later launch may
// use the same memory for other sums.
using TaggedWord = unsigned long long;
constexpr unsigned EPOCH_SHIFT = 34;
constexpr uint32_t MAX_EPOCH = (1u << 30) - 1;

// Formats besides uint16_t (two share a word), uint32_t, uint64_t and double (two words each).
struct Bits17 { // a row's sum of bytes, up to 512 * 255; two share a word
    uint16_t half_of_payload;
};
struct Bits34 { // a column's sum of bytes or their squares over a slab
    uint32_t payload;
};
template<class T>
constexpr unsigned FORMAT_BITS = std::is_same_v<T, Bits17>   ? 17
                                 : std::is_same_v<T, Bits34> ? 34
                                                             : 8 * sizeof(T);

// ---- Kernel parameters ----------------------------------------------------------------------------------------------

// The state that the kernels of reproducible sums share.
constexpr unsigned MARK_BLOCKS = 128;
struct GridState {
    uint32_t magnitudes[4]; // bits of the largest finite magnitude of each channel; 0 before each run
    uint32_t has_outside;   // whether a pixel is outside the range or not finite; 0 before each run
    TaggedWord first_outside[4][MARK_BLOCKS];
};

// The start of the workspace, which is all zero before the first launch. The words of the chains follow.
struct alignas(128) LaunchState {
    // The last launch's number, 1 .. MAX_EPOCH in turn. Only a word left exactly 2^30 - 1 launches ago could be mistaken
    // for a current one.
    uint32_t epoch;
    uint32_t tiles_before;               // tiles written by the earlier throttled launches, modulo 2^32
    uint32_t channels_done;              // Interleaved: channels whose last tile is done; 0 between launches
    alignas(128) uint32_t tiles_written; // like tiles_before, but including the current launch
    alignas(128) GridState grid;
};

// One slab of the image: the rows of one launch.
struct SlabParams {
    const unsigned char *src;
    size_t step;
    unsigned rows, cols, tile_rows, tile_cols;
    unsigned column_group; // tiles in a group of the column chain, a power of two
    LaunchState *state;
    bool src_aligned16;                  // rows of the source start at a multiple of 16 bytes
    bool tables_aligned16;               // rows of the tables too
    bool is_top;                         // the slab is the top of the image
    unsigned max_writers;                // blocks that write at a time; 0 if all may
    unsigned first_wave, start_interval; // the first first_wave blocks start start_interval cycles apart
    int grid_bits;                       // GridFloat: integral_gridBits()
    float range;                         // GridFloat: 0 if the magnitudes of the state count
};

// One table. Column and Row are the formats of a tile's published sums of a column and of a row, Acc the accumulator, Entry
// the type of the table.
template<class Column_, class Row_, class Acc_, class Entry_>
struct TableParams {
    using Column = Column_;
    using Row = Row_;
    using Acc = Acc_;
    using Entry = Entry_;
    using ColumnPrefix = std::conditional_t<std::is_same_v<Acc, uint64_t>, Bits34, Acc>;
    TaggedWord *column_sums;     // [tile row][column]
    TaggedWord *column_prefixes; // [group of tile rows][column]
    TaggedWord *row_sums;        // [tile column][row]
    TaggedWord *row_prefixes;    // [group of tile columns][row]
    TaggedWord *corner_sums;     // [tile column][tile row]
    Entry *out;                  // the table row above the slab's first
    size_t step;
    static constexpr bool INTERLEAVED = false, BATCHED = false, ON_GRID = false;
    static constexpr bool COLUMNS_APART = !std::is_same_v<Column, Acc>; // published singly, not as prefix sums
};
struct NoTable {
    static constexpr bool INTERLEAVED = false, BATCHED = false, ON_GRID = false;
};
template<class T>
constexpr bool EXISTS = !std::is_same_v<T, NoTable>;

// The table of a launch for several channels, each of which has chains of its own. A block computes one channel of a tile,
// or all three (colors.cuh). The blocks of a tile follow each other, so that the L2 cache completes the sectors that they
// write in turn.
template<class T>
struct Interleaved : T {
    static constexpr bool INTERLEAVED = true;
    unsigned channels;
    size_t channel_words; // from one channel's chains to the next one's

    __device__ Interleaved ofChannel(unsigned channel) const {
        Interleaved table = *this;
        const size_t words = channel * channel_words;
        table.column_sums += words;
        table.column_prefixes += words;
        table.row_sums += words;
        table.row_prefixes += words;
        table.corner_sums += words;
        table.out += channel;
        if constexpr (T::ON_GRID) {
            table.above += words;
            table.below += table.below ? words : 0;
        }
        return table;
    }
};

// The tables of a batch of images, each with chains of its own.
constexpr unsigned BATCH_IMAGES = 64; // as many as fit a launch's parameters
template<class T>
struct Batched : T {
    using Single = T;
    struct Image {
        const unsigned char *src;
        size_t src_step;
        typename T::Entry *out;
        size_t step;
    };
    static constexpr bool BATCHED = true;
    unsigned channels; // the images of the launch
    size_t channel_words;
    Image images[BATCH_IMAGES];

    __device__ T ofChannel(unsigned image) const {
        T table = *this;
        const size_t words = image * channel_words;
        table.column_sums += words;
        table.column_prefixes += words;
        table.row_sums += words;
        table.row_prefixes += words;
        table.corner_sums += words;
        table.out = images[image].out;
        table.step = images[image].step;
        return table;
    }
};
template<class T, bool = T::BATCHED>
struct SingleOf {
    using Type = T;
};
template<class T>
struct SingleOf<T, true> {
    using Type = typename T::Single;
};

using Sums32 = TableParams<uint16_t, Bits17, uint32_t, uint32_t>; // sums of bytes, modulo 2^32
using Sums64 = TableParams<uint16_t, Bits17, uint64_t, double>;
using Squares64 = TableParams<uint32_t, uint32_t, uint64_t, double>;
using Floats64 = TableParams<double, double, double, double>; // sums or squares

// Reproducible sums or squares of floats. The entries of the row between two slabs are rounded, so their sums are kept as
// well.
struct Grid64 : TableParams<int64_t, int64_t, int64_t, double> {
    static constexpr bool ON_GRID = true;
    TaggedWord *carries;       // two rows in turn: a slab's first blocks may read one while its last ones write the other
    TaggedWord *above, *below; // the row to read; the row to write, NULL for the last slab
};

// The pixel type for reproducible sums.
struct GridFloat {
    float value;
};

// The place where a thread works.
struct Position {
    unsigned tile_y, tile_x; // the tile in the slab
    unsigned warp_x, warp_y; // the warp in the tile
    unsigned lane, warp;
    uint32_t epoch;
};

} // namespace cusi::integral

#endif
