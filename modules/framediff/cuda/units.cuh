// Units of 16 bytes, and how the encoder's lanes find, load, filter and store them.
#ifndef CUSI_FRAMEDIFF_UNITS_CUH
#define CUSI_FRAMEDIFF_UNITS_CUH

#include "framediff/cuda/encode.cuh"

namespace cusi::framediff {

struct UnitLocation {
    unsigned y, x, length; // row; first byte in it; bytes, up to 16
};

__device__ inline UnitLocation locate(const EncodeParams &params, unsigned unit) {
    const unsigned y = params.units_per_row.divide(unit), x = 16 * (unit - y * params.units_per_row.d);
    return {y, x, min(16u, params.row_bytes - x)};
}

// Returns whether the aligned vectors that hold the 16 bytes from byte x of a row on lie in the row: two vectors, or
// one if `phase`, the address of these bytes modulo 16, is 0.
__host__ __device__ inline bool unitVectorsInside(unsigned x, unsigned row_bytes, unsigned phase) {
    return x >= phase && x + (phase ? 32 - phase : 16) <= row_bytes;
}

// ---- Loads -----------------------------------------------------------------------------------------------------------

// Like cusi::loadStreamedIf(), for bytes that the same kernel writes.
__device__ inline void loadReferenceIf(bool wanted, const uint4 *p, uint4 &v) {
    asm volatile("{ .reg .pred wanted; setp.ne.u32 wanted, %5, 0; @wanted ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(static_cast<unsigned>(wanted))
                 : "memory");
}

// A lane's iterator over frame and reference, 32 units a step. load() issues the loads of a unit, take() waits for them.
// FULL_UNITS: every unit has 16 bytes, aligned to 16, in both images; a row has at least 32 units and the frame a multiple
// of 32.
template<bool FULL_UNITS>
class UnitReader;

template<>
class UnitReader<true> {
  public:
    struct Loaded {
        uint4 cur, ref;
    };
    __device__ UnitReader(const EncodeParams &params, unsigned unit) {
        const unsigned y = params.units_per_row.divide(unit);
        column_ = unit - y * params.units_per_row.d;
        cur_ = unit + y * params.cur_gap;
        ref_ = unit + y * params.ref_gap;
    }
    __device__ void load(const EncodeParams &params, bool wanted, Loaded &unit) {
        cusi::loadStreamedIf(wanted, reinterpret_cast<const uint4 *>(params.cur) + cur_, unit.cur);
        loadReferenceIf(wanted, reinterpret_cast<const uint4 *>(params.ref) + ref_, unit.ref);
        __syncwarp();
        cur_ += 32;
        ref_ += 32;
        column_ += 32;
        if (column_ >= params.units_per_row.d) {
            column_ -= params.units_per_row.d;
            cur_ += params.cur_gap;
            ref_ += params.ref_gap;
        }
    }
    __device__ static void take(const EncodeParams &, unsigned, const Loaded &unit, uint4 &cur, uint4 &ref) {
        ref = unit.ref;
        cur = unit.cur;
    }

  private:
    unsigned column_, cur_, ref_;
};

// Loads two aligned vectors of the frame for a unit. If they exceed the row, take() reads the bytes of the unit one by one;
// the lanes beside it have mostly fetched their cache lines by then. The reference is padded with zeros.
template<>
class UnitReader<false> {
  public:
    struct Loaded {
        uint4 low, high, ref;
        unsigned phase; // phase of the unit in `low`; BYTES if only the reference has been loaded
    };
    __device__ UnitReader(const EncodeParams &, unsigned unit) : unit_(unit) {}
    __device__ void load(const EncodeParams &params, bool wanted, Loaded &unit) {
        const UnitLocation at = locate(params, unit_);
        const unsigned char *const c = params.cur + static_cast<size_t>(at.y) * params.cur_step + at.x;
        const unsigned char *const r = params.ref + static_cast<size_t>(at.y) * params.ref_step + at.x;
        const unsigned phase = static_cast<unsigned>(reinterpret_cast<uintptr_t>(c)) % 16;
        const bool exists = unit_ < params.units, inside = exists && unitVectorsInside(at.x, params.row_bytes, phase);
        unit.phase = inside ? phase : BYTES;
        cusi::loadStreamedIf(wanted && inside, c - phase, unit.low);
        cusi::loadStreamedIf(wanted && inside && phase != 0, c - phase + 16, unit.high);
        loadReferenceIf(wanted && exists, reinterpret_cast<const uint4 *>(r), unit.ref);
        unit_ += 32;
    }
    // number: the unit's number. Bytes past the end of its row, and of units past the last, are zero.
    __device__ static void take(const EncodeParams &params, unsigned number, const Loaded &unit, uint4 &cur, uint4 &ref) {
        ref = unit.ref;
        if (unit.phase != BYTES) {
            cur = cusi::bytesFrom(unit.low, unit.high, unit.phase);
            return;
        }
        const UnitLocation at = locate(params, number);
        const int length = number < params.units ? static_cast<int>(at.length) : 0;
        cur = cusi::load16(params.cur + static_cast<size_t>(at.y) * params.cur_step + at.x, length, false);
        if (length == 0)
            ref = make_uint4(0, 0, 0, 0);
    }

  private:
    static constexpr unsigned BYTES = 16;
    unsigned unit_;
};

// ---- Noise filter ----------------------------------------------------------------------------------------------------

// Returns bits x - 1 .. x + 30 of row y of the map of changed pixels, zeros outside.
__device__ inline uint32_t changedPixelsAround(const EncodeParams &params, unsigned y, unsigned x) {
    if (y >= params.rows)
        return 0;
    const uint32_t *words = params.changed + static_cast<size_t>(y) * params.changed_words_per_row;
    if (x == 0)
        return words[0] << 1;
    const unsigned w = (x - 1) / 32;
    return __funnelshift_r(words[w], 32 * (w + 1) < params.cols ? words[w + 1] : 0, (x - 1) % 32); // a row may be padded
}

// Returns which of up to 16 pixels from x on have at least min_neighbors changed neighbors, one bit each. A carry-save
// adder sums eight one-bit numbers for all pixels at once.
__device__ inline unsigned pixelsWithEnoughNeighbors(const EncodeParams &params, unsigned y, unsigned x) {
    const uint32_t up = changedPixelsAround(params, y - 1, x), own = changedPixelsAround(params, y, x);
    const uint32_t down = changedPixelsAround(params, y + 1, x);
    const auto sum = [](uint32_t a, uint32_t b, uint32_t c) { return a ^ b ^ c; };
    const auto carry = [](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (a & c) | (b & c); };
    const uint32_t ones_up = sum(up, up >> 1, up >> 2), twos_up = carry(up, up >> 1, up >> 2);
    const uint32_t ones_down = sum(down, down >> 1, down >> 2), twos_down = carry(down, down >> 1, down >> 2);
    const uint32_t ones_own = own ^ own >> 2, twos_own = own & own >> 2;
    const uint32_t ones = sum(ones_up, ones_down, ones_own), from_ones = carry(ones_up, ones_down, ones_own);
    const uint32_t twos_part = sum(twos_up, twos_down, twos_own), fours_part = carry(twos_up, twos_down, twos_own);
    const uint32_t twos = twos_part ^ from_ones, from_twos = twos_part & from_ones;
    const uint32_t count[4] = {ones, twos, fours_part ^ from_twos, fours_part & from_twos};
    uint32_t enough = 0xffffffffu; // count >= min_neighbors, compared from the lowest bit up
#pragma unroll
    for (int bit = 0; bit < 4; ++bit)
        enough = params.min_neighbors >> bit & 1 ? count[bit] & enough : count[bit] | enough;
    return enough;
}

// Returns the bytes of a unit that belong to pixels with enough changed neighbors, one bit each.
__device__ inline unsigned bytesPassingFilter(const EncodeParams &params, unsigned unit) {
    const UnitLocation at = locate(params, unit);
    const unsigned x = at.x / params.channels, phase = at.x % params.channels;
    const unsigned pixels = pixelsWithEnoughNeighbors(params, at.y, x);
    if (params.channels == 1)
        return pixels & 0xffff;
    const unsigned of_pixel = (1u << params.channels) - 1;
    unsigned bytes = 0;
    for (unsigned k = 0; k * params.channels < 16 + phase; ++k)
        bytes |= pixels >> k & 1 ? of_pixel << (k * params.channels) : 0;
    return bytes >> phase & 0xffff;
}

// Returns the bytes of a unit to be sent, one bit each. FILTER_OR_MASK: there may be a noise filter, and a mask to write.
template<bool FILTER_OR_MASK>
__device__ inline unsigned bytesToSend(const EncodeParams &params, unsigned unit, const uint4 &cur, const uint4 &ref) {
    unsigned bits = changedBits(cur, ref, params.addend);
    if (FILTER_OR_MASK && params.changed && bits)
        bits &= bytesPassingFilter(params, unit);
    return bits;
}

// ---- Stores ----------------------------------------------------------------------------------------------------------

// Expands the lowest four bits to bytes of 0xff or 0: bit k moves to the top of byte k, whose sign then fills the byte.
// cusi::permute with its operands in registers compiles to slightly longer code here.
__device__ inline uint32_t expandBits(unsigned bits) {
    uint32_t mask;
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"((bits & 15) * 0x10204080u));
    return mask;
}

__device__ inline uint32_t select(uint32_t mask, uint32_t yes, uint32_t no) {
    return (yes & mask) | (no & ~mask);
}

// Returns the bytes of the frame that are in `bits`, and otherwise those of the reference.
__device__ inline uint4 blend(const uint4 &cur, const uint4 &ref, unsigned bits) {
    return make_uint4(select(expandBits(bits), cur.x, ref.x), select(expandBits(bits >> 4), cur.y, ref.y),
                      select(expandBits(bits >> 8), cur.z, ref.z), select(expandBits(bits >> 12), cur.w, ref.w));
}

// Replaces the bytes of the reference in `bits` with those of the frame.
template<bool FULL_UNITS>
__device__ inline void updateReference(const EncodeParams &params, unsigned unit, const uint4 &cur, const uint4 &ref,
                                       unsigned bits) {
    const uint4 v = blend(cur, ref, bits);
    if constexpr (FULL_UNITS) {
        const unsigned y = params.units_per_row.divide(unit), x = unit - y * params.units_per_row.d;
        *(reinterpret_cast<uint4 *>(params.ref) + (y * params.ref_step16 + x)) = v;
    } else {
        const UnitLocation at = locate(params, unit);
        *reinterpret_cast<uint4 *>(params.ref + static_cast<size_t>(at.y) * params.ref_step + at.x) = v;
    }
}

__device__ inline void storeMask(const EncodeParams &params, unsigned unit, unsigned bits) {
    if (!params.mask || unit >= params.units)
        return;
    const UnitLocation at = locate(params, unit);
    unsigned char *m = params.mask + static_cast<size_t>(at.y) * params.mask_step + at.x / 8;
    m[0] = static_cast<unsigned char>(bits);
    if (at.length > 8)
        m[1] = static_cast<unsigned char>(bits >> 8);
}

} // namespace cusi::framediff

#endif
