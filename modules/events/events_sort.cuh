// What the kernels that sort events by tile share: a run's events counted by tile, and the counts as positions.
#ifndef CUSI_EVENTS_SORT_CUH
#define CUSI_EVENTS_SORT_CUH

#include "events_cuda.cuh"

namespace cusi::events {

namespace tuning {
constexpr int SORT_BLOCKS = 2; // per multiprocessor
// Counters per tile, chosen by lane, so that fewer threads of a warp add to the same one when events are crowded.
constexpr int COUNTER_COPIES = 4;
} // namespace tuning

// Of four packed 16-bit pairs.
__device__ inline unsigned max16(const uint32_t *pairs) {
    const uint32_t m = __vmaxu2(__vmaxu2(pairs[0], pairs[1]), __vmaxu2(pairs[2], pairs[3]));
    return max(m & 0xffff, m >> 16);
}
__device__ inline unsigned min16(const uint32_t *pairs) {
    const uint32_t m = __vminu2(__vminu2(pairs[0], pairs[1]), __vminu2(pairs[2], pairs[3]));
    return min(m & 0xffff, m >> 16);
}
__device__ inline uint32_t replicate16(uint32_t value) {
    return value << 16 | value;
}

constexpr int THREADS = tuning::SORT_THREADS, EVENTS = tuning::RUN / THREADS, COPIES = tuning::COUNTER_COPIES;
static_assert(EVENTS % CHUNK == 0 && tuning::RUN <= 1 << (31 - tuning::INDEXED_TILE), "a record is 32 bits");

// A thread's events: tile << 16 | rank by its counter of the tile; and packed, 2 * pixel in the tile + polarity.
struct RankedEvents {
    uint32_t tile_rank[EVENTS], records[EVENTS / 2];
};

// The tiles and records of a chunk, two events at a time: valid if the chunk lies wholly inside the window and the band.
__device__ __forceinline__ void packChunk(const Tiling &tiling, const Chunk &c, uint32_t (&tile)[4], uint32_t *records) {
    const uint32_t row_mask = replicate16((1u << tiling.row_bits) - 1), col_mask = replicate16((1u << tiling.col_bits) - 1),
                   tile_row_mask = replicate16(0xffff >> tiling.row_bits),
                   tile_col_mask = replicate16(0xffff >> tiling.col_bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t tile_row = (c.y[i] >> tiling.row_bits & tile_row_mask) - replicate16(tiling.top >> tiling.row_bits),
                       tile_col = c.x[i] >> tiling.col_bits & tile_col_mask,
                       pixel = (c.y[i] & row_mask) << tiling.col_bits | (c.x[i] & col_mask),
                       nonzero = ((c.p[i / 2] & 0x7f7f7f7f) + 0x7f7f7f7f) | c.p[i / 2]; // bit 7 of each byte
        tile[i] = tile_row * tiling.tiles_per_row + tile_col;
        records[i] = pixel * 2 + (__byte_perm(nonzero, 0, i % 2 ? 0x4342 : 0x4140) >> 7 & 0x00010001);
    }
}

__device__ __forceinline__ bool allInside(const Tiling &tiling, const Chunk &c) {
    return c.begin == 0 && c.end == CHUNK && max16(c.x) < tiling.cols && max16(c.y) < tiling.bottom &&
           (tiling.top == 0 || min16(c.y) >= tiling.top);
}

// The tiles of a chunk event by event. Events outside the window, the frame or the band go to one more tile, the last,
// which is not written. Adds the events outside the frame to `outside`.
__device__ __forceinline__ void tilesOfEach(const Tiling &tiling, const Chunk &c, uint32_t (&tile)[4], unsigned &outside) {
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const unsigned row = c.row(i), col = c.col(i);
        outside += c.has(i) && (row >= tiling.rows || col >= tiling.cols);
        const bool inside = c.has(i) && col < tiling.cols && row >= tiling.top && row < tiling.bottom;
        const uint32_t number = inside ? tiling.tile(row, col) : tiling.tiles;
        tile[i / 2] = i % 2 ? tile[i / 2] | number << 16 : number;
    }
}

// Counts the thread's events by tile; the counter tells each its rank. Returns how many lie outside the frame.
__device__ __forceinline__ unsigned rankEvents(const Tiling &tiling, const Chunk (&chunk)[EVENTS / CHUNK], unsigned *counts,
                                               RankedEvents &ranked) {
    unsigned outside = 0;
#pragma unroll
    for (int v = 0; v < EVENTS / CHUNK; ++v) {
        const Chunk &c = chunk[v];
        uint32_t tile[4];
        packChunk(tiling, c, tile, ranked.records + v * 4);
        if (!allInside(tiling, c))
            tilesOfEach(tiling, c, tile, outside);
        unsigned rank[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) // all issued before the first result is used
            rank[i] = atomicAdd(counts + element16(tile, i) * COPIES, 1u);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i)
            ranked.tile_rank[v * CHUNK + i] = element16(tile, i) << 16 | rank[i];
    }
    return outside;
}

// Turns counts into positions in the sorted run, one thread per tile. `total` receives the length of the run.
template<class Record>
__device__ __forceinline__ void countsToPositions(unsigned tiles, unsigned *counts, uint16_t *ends, unsigned &total) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>;
    __shared__ unsigned warp_sums[THREADS / 32];
    const unsigned tid = threadIdx.x;
    unsigned count[COPIES], events = 0;
#pragma unroll
    for (int i = 0; i < COPIES; ++i)
        events += count[i] = tid <= tiles ? counts[tid * COPIES + i] : 0;
    const unsigned padded = divUp(events, PAD) * PAD;
    unsigned sum[1] = {padded};
    warpInclusiveScan(sum, tid & 31);
    if ((tid & 31) == 31)
        warp_sums[tid / 32] = sum[0];
    __syncthreads();
    unsigned at = sum[0] - padded;
    for (unsigned i = 0; i < tid / 32; ++i)
        at += warp_sums[i];
    if (tid < tiles)
        ends[tid] = static_cast<uint16_t>(at + events);
    if (tid == tiles)
        total = at;
    if (tid <= tiles)
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            counts[tid * COPIES + i] = at;
            at += count[i];
        }
}

// Where record k of the thread goes in the sorted run.
__device__ __forceinline__ unsigned positionOf(const RankedEvents &ranked, int k, const unsigned *positions) {
    return positions[(ranked.tile_rank[k] >> 16) * COPIES] + (ranked.tile_rank[k] & 0xffff);
}

// Writes run number `block`, `total` records long, from shared memory.
template<class Record>
__device__ __forceinline__ void writeRun(const SortedRuns &sorted, unsigned block, const uint4 *run,
                                         const unsigned &total) {
    uint4 *out =
        reinterpret_cast<uint4 *>(static_cast<Record *>(sorted.records) + static_cast<size_t>(block) * sorted.pitch);
    for (unsigned i = threadIdx.x; i < total / RECORDS_PER_16_BYTES<Record>; i += THREADS)
        out[i] = run[i];
}

// Adds up the threads' events outside the frame. skipped == NULL: another kernel does.
__device__ __forceinline__ void countSkipped(unsigned outside, unsigned long long *skipped) {
    if (skipped) {
        outside = warpSum(outside);
        if ((threadIdx.x & 31) == 0 && outside)
            atomicAdd(skipped, static_cast<unsigned long long>(outside));
    }
}

// Memory of a sorted run, in records: segments begin at multiples of 16 bytes.
template<class Record>
constexpr unsigned runPitch(unsigned tiles) {
    return tuning::RUN + RECORDS_PER_16_BYTES<Record> * (tiles + 1);
}

// A run and its tiles' counters.
template<class Record>
constexpr size_t sharedBytes(unsigned pitch) {
    return pitch * sizeof(Record) +
           (pitch - tuning::RUN) / RECORDS_PER_16_BYTES<Record> * tuning::COUNTER_COPIES * sizeof(unsigned);
}

} // namespace cusi::events

#endif
