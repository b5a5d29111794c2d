// Three channels in one block: a tile's rows are loaded, and written, as they lie in memory, with all channels.
#ifndef CUSI_INTEGRAL_COLORS_CUH
#define CUSI_INTEGRAL_COLORS_CUH

#include "integral/cuda/kernel.cuh"

namespace cusi::integral {

// A warp's rows: first bytes as they are in memory, 128 columns of each third, then the columns of each channel.
template<int ROWS>
using ColorRows = Pixels4<unsigned char>[3][ROWS][32];

// Sorts rows by channel, in place.
template<int ROWS>
__device__ __forceinline__ void sortByChannel(ColorRows<ROWS> &rows, unsigned lane) {
    uint32_t words[ROWS][3]; // the lane's four pixels
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k)
#pragma unroll
        for (unsigned j = 0; j < 3; ++j)
            words[k][j] = rows[(3 * lane + j) / 32][k][(3 * lane + j) % 32].packed;
    __syncwarp();
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k) { // bytes 0, 3, 6, 9; 1, 4, 7, 10; 2, 5, 8, 11
        const uint32_t low = words[k][0], middle = words[k][1], high = words[k][2];
        rows[0][k][lane].packed = __byte_perm(__byte_perm(low, middle, 0x0630), high, 0x5210);
        rows[1][k][lane].packed = __byte_perm(__byte_perm(low, middle, 0x0741), high, 0x6210);
        rows[2][k][lane].packed = __byte_perm(__byte_perm(low, middle, 0x0052), high, 0x7410);
    }
    __syncwarp();
}

// A table row of a warp on its way to memory.
struct StagedColors {
    alignas(16) uint32_t entries[3 * WARP_COLS];

    // v: entries of four neighboring columns
    __device__ __forceinline__ void put(const uint32_t (&v)[12], unsigned lane) {
#pragma unroll
        for (unsigned p = 0; p < 3; ++p)
            reinterpret_cast<uint4 *>(entries)[3 * lane + p] =
                make_uint4(v[4 * p], v[4 * p + 1], v[4 * p + 2], v[4 * p + 3]);
    }
    // to: the warp's first entry in the row; end: entries to write; aligned: `to` is, to 16 bytes.
    __device__ __forceinline__ void write(uint32_t *to, unsigned end, bool aligned, unsigned lane) const {
        if (aligned && end == 3 * WARP_COLS)
#pragma unroll
            for (unsigned p = 0; p < 3; ++p)
                store16EvictFirst(to + WARP_COLS * p + 4 * lane, entries + WARP_COLS * p + 4 * lane);
        else
#pragma unroll 1
            for (unsigned i = lane; i < end; i += 32)
                storeEvictFirst(to + i, entries[i]);
    }
};

template<class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    colorsKernel(const SlabParams slab, const Interleaved<Sums32> table, const NoTable) {
    constexpr unsigned ROWS = Tile::WARP_ROWS;
    using Channel = TableTile<unsigned char, false, Interleaved<Sums32>, Tile, 3>;
    using Writer = TableWriter<Channel>;
    using Rows = ColorRows<Tile::WARP_ROWS>; // not of ROWS, at which the compiler of CUDA 12.4 crashes
    __shared__ alignas(16) Rows shared_rows[Tile::WARPS];
    __shared__ typename Channel::Shared shared[3];
    __shared__ uint32_t epoch;
    extern __shared__ __align__(16) uint32_t scan_memory[]; // a StagedColors for each warp
    startInOrder();
    if (threadIdx.x == 0)
        epoch = epochAfter(__ldcg(&slab.state->epoch));
    Position at = positionIn<Tile>(blockIdx.x, slab);
    const unsigned x = at.tile_x * Tile::WIDTH + at.warp_x * WARP_COLS, y = at.tile_y * Tile::HEIGHT + at.warp_y * ROWS;
    const bool whole = y + ROWS <= slab.rows && x + WARP_COLS <= slab.cols;
    Rows &rows = shared_rows[at.warp];
    SlabParams bytes = slab; // one channel of three times the columns
    bytes.cols *= 3;
#pragma unroll 1
    for (unsigned j = 0; j < 3; ++j)
        loadRows<ROWS>(rows[j][0], bytes, 3 * x + WARP_COLS * j, y, at.lane, whole && slab.src_aligned16);
    __pipeline_wait_prior(0);
    __syncwarp();
    sortByChannel(rows, at.lane);
    const PixelRows<unsigned char> pixels[3] = {
        {rows[0][0] + at.lane, slab, 0}, {rows[1][0] + at.lane, slab, 1}, {rows[2][0] + at.lane, slab, 2}};
    const Interleaved<Sums32> tables[3] = {table.ofChannel(0), table.ofChannel(1), table.ofChannel(2)};
    Channel channels[3] = {{shared[0], tables[0], slab, at, 0, scan_memory},
                           {shared[1], tables[1], slab, at, 1, scan_memory},
                           {shared[2], tables[2], slab, at, 2, scan_memory}};
#pragma unroll
    for (unsigned c = 0; c < 3; ++c)
        channels[c].sumTile(pixels[c]);
    __syncthreads();
    at.epoch = epoch;
    lookBack(at, channels[0], channels[1], channels[2]);
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) // it has waited for words of every block
        slab.state->epoch = at.epoch;
    Writer writers[3] = {Writer(channels[0]), Writer(channels[1]), Writer(channels[2])};
    __syncthreads();
    if (x >= slab.cols)
        return;
    const unsigned valid_rows = slab.rows - min(slab.rows, y);
#pragma unroll
    for (unsigned c = 0; c < 3; ++c)
        writers[c].writeEdges(pixels[c], valid_rows);
    StagedColors &stage = reinterpret_cast<StagedColors *>(scan_memory)[at.warp];
    const unsigned end = 3 * writers[0].validCols();
#pragma unroll
    for (unsigned k = 0; k < ROWS; ++k) {
        uint32_t out[12];
#pragma unroll
        for (unsigned c = 0; c < 3; ++c) {
            writers[c].advance(pixels[c], channels[c].scan, writers[c].startsOf(k).v[k % 4], k);
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                out[3 * i + c] = writers[c].entries[i];
        }
        stage.put(out, at.lane);
        __syncwarp();
        stage.write(writers[0].row + 3 * x, k < valid_rows ? end : 0, slab.tables_aligned16, at.lane);
        __syncwarp(); // the next row reuses this memory
    }
}

} // namespace cusi::integral

#endif
