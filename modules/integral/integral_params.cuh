// What the host passes to the integral kernel: the slab of the image and, for each table, where its chains and entries are.
#ifndef CUSI_INTEGRAL_PARAMS_CUH
#define CUSI_INTEGRAL_PARAMS_CUH

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cusi::integral {

// A published sum of up to 34 bits with the epoch of its launch above. A word with the current epoch is complete: no fence
// is needed, and nothing is cleared between launches. The epoch has the same bits in all words, because a later launch may
// use the same memory for other sums.
using TaggedWord = unsigned long long;
constexpr unsigned EPOCH_SHIFT = 34;
constexpr uint32_t MAX_EPOCH = (1u << 30) - 1;

// The start of the workspace, which is all zero before the first launch. The words of the chains follow.
struct alignas(128) LaunchState {
    // Of the last launch, 1 .. MAX_EPOCH in turn. A word would be mistaken only exactly 2^30 - 1 launches later.
    uint32_t epoch;
    uint32_t tiles_before;               // tiles written by the earlier throttled launches, modulo 2^32
    alignas(128) uint32_t tiles_written; // the same, including the current launch
};

// One slab of the image.
struct SlabParams {
    const unsigned char *src;
    size_t step;
    unsigned rows, cols, tile_rows, tile_cols;
    unsigned column_group; // tiles in a group of the column chain, a power of two
    LaunchState *state;
    bool src_aligned16;                  // rows of the source start at a multiple of 16 bytes
    bool tables_aligned16;               // rows of the tables, too
    bool is_top;                         // the top of the image
    unsigned max_writers;                // blocks that write at a time; 0: all
    unsigned first_wave, start_interval; // the first blocks start this many cycles after one another
};

// One table. Column, Row: a tile's sum of a column, of a row, as published; Acc: accumulator; Entry: what is stored.
template<class Column_, class Row_, class Acc_, class Entry_>
struct TableParams {
    using Column = Column_;
    using Row = Row_;
    using Acc = Acc_;
    using Entry = Entry_;
    TaggedWord *column_sums;     // [tile row][column]
    TaggedWord *column_prefixes; // [group of tile rows][column]
    TaggedWord *row_sums;        // [tile column][row]
    TaggedWord *row_prefixes;    // [group of tile columns][row]
    TaggedWord *corner_sums;     // [tile column][tile row]
    Entry *out;                  // the table row above the slab's first
    size_t step;
};
struct NoTable {};
template<class T>
constexpr bool EXISTS = !std::is_same_v<T, NoTable>;

// Publish format of a row's sum of bytes, up to 512 * 255; two share a word.
struct Bits17 {
    uint16_t half_of_payload;
};
// Publish format of a column's sum of bytes or their squares over a slab.
struct Bits34 {
    uint32_t payload;
};
template<class Acc>
using ColumnPrefix = std::conditional_t<std::is_same_v<Acc, uint64_t>, Bits34, Acc>;

using Sums32 = TableParams<uint16_t, Bits17, uint32_t, uint32_t>; // of bytes, modulo 2^32
using Sums64 = TableParams<uint16_t, Bits17, uint64_t, double>;
using Squares64 = TableParams<uint32_t, uint32_t, uint64_t, double>;
using Floats64 = TableParams<double, double, double, double>; // sums or squares

} // namespace cusi::integral

#endif
