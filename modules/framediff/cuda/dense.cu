// The encoder's kernel for frames that change much. A block takes one short tile, reads it once and writes its list at
// once.
#include "framediff/cuda/units.cuh"

#include <cub/block/block_scan.cuh>

namespace cusi::framediff {
namespace {

// Entries are padded by one word for every 16, so that lanes with 16 entries each use different banks.
constexpr int bytesOfEntries(unsigned entries) {
    return static_cast<int>((entries + entries / 16) * sizeof(uint32_t));
}
__device__ __forceinline__ unsigned padded(unsigned entry) {
    return entry + entry / 16;
}

// Stores an entry in shared memory and counts it, or does neither. With a branch, the compiler would compute the entry and
// its address inside it: 20 instructions per byte instead of 7.
__device__ __forceinline__ void stageIf(unsigned wanted, uint32_t *entry, uint32_t value, unsigned &count) {
    asm volatile(
        "{ .reg .pred wanted; setp.ne.u32 wanted, %1, 0; @wanted st.shared.u32 [%2], %3; @wanted add.u32 %0, %0, 1; }"
        : "+r"(count)
        : "r"(wanted), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(entry))), "r"(value)
        : "memory");
}

// Puts a unit's entries in shared memory, from number `at` on, as offset in the tile << 8 | difference modulo 256. offset:
// the offset of the unit's first byte.
__device__ __forceinline__ void stageUnit(unsigned bits, const uint4 &cur, const uint4 &ref, uint32_t offset, unsigned at,
                                          uint32_t *entries) {
    const uint32_t d[4] = {__vsub4(cur.x, ref.x), __vsub4(cur.y, ref.y), __vsub4(cur.z, ref.z), __vsub4(cur.w, ref.w)};
#pragma unroll
    for (unsigned b = 0; b < 16; ++b)
        stageIf(bits & 1u << b, entries + padded(at), (offset << 8) + (b << 8) + __byte_perm(d[b / 4], 0, 0x4440 | b % 4),
                at);
}

constexpr int THREADS = tuning::ENCODE_THREADS, UNITS = tuning::DENSE_UNITS;
constexpr unsigned MAX_ENTRIES = THREADS * UNITS * 16;
static_assert(bytesOfEntries(MAX_ENTRIES) + 2048 <= cusi::SHARED_OF_BLOCK, "with the static shared memory");
static_assert(MAX_ENTRIES <= 1u << 24, "an entry's offset in the tile has 24 bits");

// Writes the tile's list from index `out` of the output on. A lane writes four entries, in one store if both lists start at
// a vector.
__device__ __forceinline__ void writeList(const EncodeParams &params, const uint32_t *entries, size_t out, unsigned start,
                                          int count) {
    uint32_t *positions = params.positions + out;
    unsigned char *values = params.values + out;
    const int phase = static_cast<int>(out % 4); // entries since a vector began
    for (int n = 4 * static_cast<int>(threadIdx.x) - phase; n < count; n += 4 * THREADS) {
        if (params.list_vectors && n >= 0 && n + 4 <= count) {
            uint32_t e[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                e[k] = entries[padded(n + k)];
            *reinterpret_cast<uint4 *>(positions + n) =
                make_uint4(start + (e[0] >> 8), start + (e[1] >> 8), start + (e[2] >> 8), start + (e[3] >> 8));
            *reinterpret_cast<uint32_t *>(values + n) =
                __byte_perm(__byte_perm(e[0], e[1], 0x0040), __byte_perm(e[2], e[3], 0x0040), 0x5410);
            continue;
        }
        for (int k = max(n, 0); k < min(n + 4, count); ++k) {
            const uint32_t entry = entries[padded(k)];
            positions[k] = start + (entry >> 8);
            values[k] = static_cast<unsigned char>(entry);
        }
    }
}

// Returns the position of a unit's first byte.
template<bool FULL_UNITS>
__device__ __forceinline__ unsigned positionOf(const EncodeParams &params, unsigned unit) {
    if (FULL_UNITS)
        return unit * 16;
    const UnitLocation at = locate(params, unit);
    return at.y * params.row_bytes + at.x;
}

using BlockScan = cub::BlockScan<uint32_t, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;

// A thread's units of the tile, THREADS apart, and where their entries go.
template<bool FULL_UNITS, bool FILTER_OR_MASK>
class ThreadUnits {
  public:
    __device__ __forceinline__ ThreadUnits(unsigned tile) : first_(tile * (THREADS * UNITS) + threadIdx.x) {}

    __device__ __forceinline__ void load(const EncodeParams &params) {
#pragma unroll
        for (int j = 0; j < UNITS; ++j)
            UnitReader<FULL_UNITS>(params, unit(j)).load(params, unit(j) < params.units, loaded_[j]);
    }

    // Finds the bytes to be sent and the ranks of their entries in the tile. Returns the tile's number of entries.
    __device__ __forceinline__ unsigned examine(const EncodeParams &params, BlockScan::TempStorage &storage) {
        static_assert(UNITS == 2 && THREADS * 16 < 1 << 16, "the counts of two units are packed in 32 bits");
        uint32_t counts = 0, before, all;
#pragma unroll
        for (int j = 0; j < UNITS; ++j) {
            UnitReader<FULL_UNITS>::take(params, unit(j), loaded_[j], cur_[j], ref_[j]);
            bits_[j] = bytesToSend<FILTER_OR_MASK>(params, unit(j), cur_[j], ref_[j]);
            if (FILTER_OR_MASK)
                storeMask(params, unit(j), bits_[j]);
            counts += static_cast<uint32_t>(__popc(bits_[j])) << 16 * j;
        }
        BlockScan(storage).ExclusiveSum(counts, before, all);
        rank_[0] = before & 0xffff;
        rank_[1] = (all & 0xffff) + (before >> 16);
        return (all & 0xffff) + (all >> 16);
    }

    // Puts the entries in shared memory. start: the tile's first position.
    __device__ __forceinline__ void stage(const EncodeParams &params, unsigned start, uint32_t *entries) const {
#pragma unroll
        for (int j = 0; j < UNITS; ++j)
            stageUnit(bits_[j], cur_[j], ref_[j], positionOf<FULL_UNITS>(params, unit(j)) - start, rank_[j], entries);
    }

    __device__ __forceinline__ void update(const EncodeParams &params) const {
#pragma unroll
        for (int j = 0; j < UNITS; ++j)
            if (bits_[j])
                updateReference<FULL_UNITS>(params, unit(j), cur_[j], ref_[j], bits_[j]);
    }

  private:
    __device__ __forceinline__ unsigned unit(int j) const {
        return first_ + j * THREADS;
    }

    const unsigned first_;
    typename UnitReader<FULL_UNITS>::Loaded loaded_[UNITS] = {};
    uint4 cur_[UNITS], ref_[UNITS];
    unsigned bits_[UNITS], rank_[UNITS];
};

template<bool FULL_UNITS, bool FILTER_OR_MASK>
__global__ void __launch_bounds__(THREADS, tuning::DENSE_BLOCKS_PER_SM) encodeDenseKernel(const EncodeParams params) {
    extern __shared__ __align__(16) uint32_t entries[];
    __shared__ BlockScan::TempStorage scan;
    const unsigned tile = blockIdx.x;
    ThreadUnits<FULL_UNITS, FILTER_OR_MASK> units(tile);
    cusi::startInOrder();
    const unsigned long long frame = (cusi::loadRelaxed(&params.state->dense_frame) + 1) << 34;
    units.load(params);

    const unsigned tile_total = units.examine(params, scan);
    if (threadIdx.x == 0)
        cusi::storeRelaxed(params.dense_status + tile, frame | (tile > 0 ? TILE_COUNT : TILE_PREFIX) | tile_total);
    // The count becomes visible to other blocks meanwhile.
    const unsigned start = positionOf<FULL_UNITS>(params, tile * (THREADS * UNITS));
    units.stage(params, start, entries);
    units.update(params);
    __syncthreads();
    const unsigned before = lookBack<THREADS>(params.dense_status, tile, frame);
    if (threadIdx.x == 0) {
        if (tile > 0)
            cusi::storeRelaxed(params.dense_status + tile, frame | TILE_PREFIX | (before + tile_total));
        if (tile == params.dense_tiles - 1) { // all blocks have published with the frame's number, so they have read it
            *params.count = before + tile_total;
            params.state->dense_frame = frame >> 34;
            if (before + tile_total <= params.dense_from)
                *params.dense_hint = 0;
        }
    }
    writeList(params, entries, before, start, static_cast<int>(tile_total));
}

constexpr EncodeKernels<EncodeParams> KERNELS = {{encodeDenseKernel<false, false>, encodeDenseKernel<false, true>},
                                                 {encodeDenseKernel<true, false>, encodeDenseKernel<true, true>}};

int sharedBytes(int threads) {
    return bytesOfEntries(static_cast<unsigned>(threads * UNITS * 16));
}

} // namespace

unsigned denseTiles(unsigned groups, int threads) {
    return cusi::divUp(groups, static_cast<unsigned>(threads / 32 * UNITS));
}

cusStatus prepareDenseKernels(const char *function, int threads) {
    return allowShared(function, KERNELS, sharedBytes(threads));
}

cusStatus launchDense(const char *function, const EncodeParams &params, bool full_units, int threads, cudaStream_t stream) {
    return cusi::launchOverlapped(function, KERNELS[full_units][params.changed || params.mask], params.dense_tiles, threads,
                                  sharedBytes(threads), stream, params);
}

} // namespace cusi::framediff
