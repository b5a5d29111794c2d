// What the two kernels for frames of which much changes share: a tile's entries in shared memory, and its list.
#ifndef CUSI_FRAMEDIFF_DENSE_CUH
#define CUSI_FRAMEDIFF_DENSE_CUH

#include "framediff_lookback.cuh"
#include "framediff_units.cuh"

namespace framediff {

// Entries are padded by one word for every 16: lanes with 16 entries each use different banks.
constexpr int bytesOfEntries(unsigned entries) {
    return static_cast<int>((entries + entries / 16) * sizeof(uint32_t));
}
__device__ __forceinline__ unsigned padded(unsigned entry) {
    return entry + entry / 16;
}

// Stores an entry in shared memory and counts it, or does neither. With a branch, the compiler would compute the entry and its
// address inside: 20 instructions per byte instead of 7.
__device__ __forceinline__ void stageIf(unsigned wanted, uint32_t *entry, uint32_t value, unsigned &count) {
    asm volatile(
        "{ .reg .pred wanted; setp.ne.u32 wanted, %1, 0; @wanted st.shared.u32 [%2], %3; @wanted add.u32 %0, %0, 1; }"
        : "+r"(count)
        : "r"(wanted), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(entry))), "r"(value)
        : "memory");
}

// Puts a unit's entries in shared memory, from number `at` on, as offset in the tile << 8 | difference modulo 256. `offset`: the
// unit's first byte.
__device__ __forceinline__ void stageUnit(unsigned bits, const uint4 &cur, const uint4 &ref, uint32_t offset, unsigned at,
                                          uint32_t *entries) {
    const uint32_t d[4] = {__vsub4(cur.x, ref.x), __vsub4(cur.y, ref.y), __vsub4(cur.z, ref.z), __vsub4(cur.w, ref.w)};
#pragma unroll
    for (unsigned b = 0; b < 16; ++b)
        stageIf(bits & 1u << b, entries + padded(at), (offset << 8) + (b << 8) + __byte_perm(d[b / 4], 0, 0x4440 | b % 4),
                at);
}

// The ranks in the warp of the first entries of a lane's units, which are 32 apart. Returns the warp's number of entries.
template<int UNITS>
__device__ __forceinline__ unsigned rankUnits(const unsigned (&bits)[UNITS], unsigned (&rank)[UNITS]) {
    static_assert(UNITS == 1 || UNITS == 2, "the counts of a lane's units are packed in 32 bits");
    uint32_t counts[1] = {0}; // 16 bits for each unit
#pragma unroll
    for (int j = 0; j < UNITS; ++j)
        counts[0] += static_cast<uint32_t>(__popc(bits[j])) << 16 * j;
    const uint32_t own = counts[0];
    cusi::warpInclusiveScan(counts, threadIdx.x % 32);
    const uint32_t all = __shfl_sync(cusi::FULL_WARP, counts[0], 31), before = counts[0] - own;
    rank[0] = before & 0xffff;
    if (UNITS == 2)
        rank[UNITS - 1] = (all & 0xffff) + (before >> 16);
    return (all & 0xffff) + (all >> 16);
}

// Writes the tile's list from index `out` of the output on: four entries per lane and store where both lists start at a vector.
template<int THREADS>
__device__ __forceinline__ void writeList(const EncodeParams &params, const uint32_t *entries, size_t out, unsigned start,
                                          int count) {
    uint32_t *positions = params.positions + out;
    unsigned char *values = params.values + out;
    if (!params.list_vectors) {
        for (int n = static_cast<int>(threadIdx.x); n < count; n += THREADS) {
            const uint32_t entry = entries[padded(n)];
            positions[n] = start + (entry >> 8);
            values[n] = static_cast<unsigned char>(entry);
        }
        return;
    }
    const int phase = static_cast<int>(out % 4); // entries since a vector began
    for (int n = 4 * static_cast<int>(threadIdx.x) - phase; n < count; n += 4 * THREADS) {
        if (n >= 0 && n + 4 <= count) {
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

} // namespace framediff

#endif
