// framediff on the GPU. Both kernels are bound by memory: what they move is written beside each.
#include "cuda.cuh"
#include "framediff_backend.h"

#include <algorithm>

namespace {

constexpr unsigned FULL_WARP = 0xffffffffu;

// ---- Heatmap and noise view ---------------------------------------------------------------------------------------
// Moves 2 reads of CN bytes and one write of 3 per pixel. A warp takes 512 pixels of a row: every lane loads CN 16-byte pieces
// of each input, so that the loads are coalesced and all in flight at once, leaves their byte differences in shared memory,
// takes 4 x 4 neighboring pixels from there (word stride CN: no bank conflicts for 1 and 3), looks their colors up and sends
// the result back through shared memory as 16-byte stores.

namespace tuning {
// H200, 3840x2160x3 of noise: 128 x 10 blocks 19.6 us, 128 x 12 21.2, 256 x 5 20.1, 256 x 6 20.9, 512 x 2 21.7.
constexpr int PAINT_THREADS = 128;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // has room for 1024 threads
constexpr int PAINT_BLOCKS_PER_SM = 8;
#else
constexpr int PAINT_BLOCKS_PER_SM = 10;
#endif
} // namespace tuning

constexpr int TILE_PIXELS = 512;

struct PaintJob {
    const unsigned char *prev, *cur;
    unsigned char *dst;
    size_t prev_step, cur_step, dst_step;
    unsigned cols, tiles_per_row;
    unsigned long long tiles;
    bool aligned;
};

template<int CN>
__device__ inline void differencesOfFour(const uint32_t *words, unsigned *d) {
    if constexpr (CN == 1) {
        const uint32_t w = words[0];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            d[i] = 3 * (w >> (8 * i) & 255);
    } else if constexpr (CN == 3) {
        const uint32_t w0 = words[0], w1 = words[1], w2 = words[2];
        d[0] = __dp4a(w0, 0x00010101u, 0u);
        d[1] = __dp4a(w0, 0x01000000u, __dp4a(w1, 0x00000101u, 0u));
        d[2] = __dp4a(w1, 0x01010000u, __dp4a(w2, 0x00000001u, 0u));
        d[3] = __dp4a(w2, 0x01010100u, 0u);
    } else {
        const uint4 w = *reinterpret_cast<const uint4 *>(words);
        d[0] = __dp4a(w.x, 0x00010101u, 0u);
        d[1] = __dp4a(w.y, 0x00010101u, 0u);
        d[2] = __dp4a(w.z, 0x00010101u, 0u);
        d[3] = __dp4a(w.w, 0x00010101u, 0u);
    }
}

// The usual palette stands in device memory from the start: reading 3 KB from a kernel parameter, each lane another word, is
// serialized and cost every launch about 4 us. sin(pi p / q) for 0 <= p <= q, by its series on the octant where that is exact
// to the last digit; the tests compare every color with the C library's.
constexpr double sinePi(int p, int q) {
    constexpr double PI = 3.14159265358979323846;
    if (2 * p > q)
        p = q - p;
    const bool cosine = 4 * p > q; // sin x = cos(pi/2 - x)
    const double x = cosine ? PI * (q - 2 * p) / (2 * q) : PI * p / q;
    double term = cosine ? 1 : x, sum = term;
    for (int k = cosine ? 1 : 2; k < 24; k += 2) {
        term *= -x * x / (k * (k + 1));
        sum += term;
    }
    return sum;
}

constexpr FramediffPalette usualPalette() {
    FramediffPalette palette = {};
    constexpr int FULL = FRAMEDIFF_LEVELS - 1;
    for (int d = 0; d <= FULL; ++d) {
        const double blue = 2 * d < FULL ? 255 * sinePi(FULL - 2 * d, 2 * FULL) : 0;
        const double red = 2 * d > FULL ? 255 * sinePi(2 * d - FULL, 2 * FULL) : 0;
        palette.color[d] = static_cast<uint32_t>(blue) | static_cast<uint32_t>(255 * sinePi(d, FULL)) << 8 |
                           static_cast<uint32_t>(red) << 16;
    }
    return palette;
}

__device__ const FramediffPalette USUAL_PALETTE = usualPalette();

// The three ways from a summed difference to a color; `table` is in shared memory.
struct UsualHeat {
    static constexpr bool TABLE = true;
    __device__ uint32_t entry(int i) const { return USUAL_PALETTE.color[i]; }
    __device__ uint32_t operator()(const uint32_t *table, unsigned d) const { return table[d]; }
};
struct AnyHeat {
    static constexpr bool TABLE = true;
    FramediffPalette palette;
    __device__ uint32_t entry(int i) const { return palette.color[i]; }
    __device__ uint32_t operator()(const uint32_t *table, unsigned d) const { return table[d]; }
};
struct Noise {
    static constexpr bool TABLE = false;
    unsigned threshold;
    __device__ uint32_t operator()(const uint32_t *, unsigned d) const { return d > threshold ? 0xff0000u : 0u; }
};

template<int CN, class Colors>
__global__ void __launch_bounds__(tuning::PAINT_THREADS, tuning::PAINT_BLOCKS_PER_SM)
    paintKernel(const PaintJob job, const __grid_constant__ Colors colors) {
    constexpr int WARPS = tuning::PAINT_THREADS / 32;
    constexpr int WORDS = TILE_PIXELS * (CN > 3 ? CN : 3) / 4;
    __shared__ uint32_t table[Colors::TABLE ? FRAMEDIFF_LEVELS : 1];
    __shared__ __align__(16) uint32_t staged[WARPS][WORDS];

    constexpr int ENTRIES = cusi::divUp(int{FRAMEDIFF_LEVELS}, tuning::PAINT_THREADS);
    uint32_t entries[ENTRIES]; // constants, so they need not wait for the kernel before
    if constexpr (Colors::TABLE)
#pragma unroll
        for (int i = 0; i < ENTRIES; ++i)
            entries[i] =
                colors.entry(min(static_cast<int>(threadIdx.x) + i * tuning::PAINT_THREADS, int{FRAMEDIFF_LEVELS} - 1));
    cusi::startInOrder();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long tile = blockIdx.x * static_cast<unsigned long long>(WARPS) + warp;
    const unsigned long long y = tile / job.tiles_per_row;
    const unsigned x = static_cast<unsigned>(tile - y * job.tiles_per_row) * TILE_PIXELS;
    const unsigned pixels = tile < job.tiles ? min(static_cast<unsigned>(TILE_PIXELS), job.cols - x) : 0;

    uint4 a[CN], b[CN];
    const unsigned char *prev = job.prev + y * job.prev_step + static_cast<size_t>(x) * CN;
    const unsigned char *cur = job.cur + y * job.cur_step + static_cast<size_t>(x) * CN;
#pragma unroll
    for (int k = 0; k < CN; ++k) {
        const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * CN) - at;
        a[k] = left > 0 ? cusi::load16(prev + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
        b[k] = left > 0 ? cusi::load16(cur + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
    }
    if constexpr (Colors::TABLE) {
#pragma unroll
        for (int i = 0; i < ENTRIES; ++i)
            table[min(static_cast<int>(threadIdx.x) + i * tuning::PAINT_THREADS, int{FRAMEDIFF_LEVELS} - 1)] = entries[i];
        __syncthreads();
    }

    uint32_t *const mine = staged[warp];
#pragma unroll
    for (int k = 0; k < CN; ++k)
        reinterpret_cast<uint4 *>(mine)[lane + 32 * k] =
            make_uint4(__vabsdiffu4(a[k].x, b[k].x), __vabsdiffu4(a[k].y, b[k].y), __vabsdiffu4(a[k].z, b[k].z),
                       __vabsdiffu4(a[k].w, b[k].w));
    __syncwarp();
    unsigned d[4][4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        differencesOfFour<CN>(mine + CN * (lane + 32 * j), d[j]);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const uint32_t c0 = colors(table, d[j][0]), c1 = colors(table, d[j][1]);
        const uint32_t c2 = colors(table, d[j][2]), c3 = colors(table, d[j][3]);
        uint32_t *out = mine + 3 * (lane + 32 * j);
        out[0] = c0 | c1 << 24;
        out[1] = c1 >> 8 | c2 << 16;
        out[2] = c2 >> 16 | c3 << 8;
    }
    __syncwarp();
    unsigned char *dst = job.dst + y * job.dst_step + static_cast<size_t>(x) * 3;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * 3) - at;
        if (left > 0)
            cusi::store16(dst + at, reinterpret_cast<const uint4 *>(mine)[lane + 32 * k], left, job.aligned);
    }
}

template<class Colors>
cusStatus launchPaint(int channels, const PaintJob &job, const Colors &colors, cudaStream_t stream) {
    const auto kernel = channels == 1   ? paintKernel<1, Colors>
                        : channels == 3 ? paintKernel<3, Colors>
                                        : paintKernel<4, Colors>;
    const unsigned long long blocks = cusi::divUp(job.tiles, 0ull + tuning::PAINT_THREADS / 32);
    CUSI_REQUIRE(blocks <= 0x7fffffffull, CUS_ERROR_SIZE,
                 "framediff: %llu tiles of 512 pixels are more than one launch takes", job.tiles);
    return cusi::launchOverlapped("framediff", kernel, static_cast<unsigned>(blocks), tuning::PAINT_THREADS, 0, stream, job,
                                  colors);
}

// ---- Sparse difference --------------------------------------------------------------------------------------------
// One pass: reads frame and reference once; writes the 32-byte sectors of the reference that change, 5 bytes per changed byte
// and, if wanted, one bit per byte. The frame is cut into units of 16 bytes, row by row (the last of a row may be short). Each
// warp streams through a run of units of its own and keeps what it finds in shared memory, so that no warp waits for another
// until the end; then blocks learn how many entries come before theirs by decoupled look-back over the blocks' published
// counts, and send their entries out in order. Frames up to some 70 MB are one wave of blocks, all of which look back once.
// Like CUB's, the look-back relies on blocks being started in the order of blockIdx. A published word carries the frame's
// number, so nothing is cleared between frames.

namespace tuning {
// H200, 3840x2160x3, 3 % of the bytes changed in small discs: 512 x 2 blocks 20.7 us, 256 x 4 21.9, 384 x 3 21.9, 1024 x 1 22.0;
// room for the next frame's blocks beside these (40 registers) 31, as they then crowd on some multiprocessors; pieces of one
// group 20.13, of two 20.11, runs of equal length 20.95; 512 entries kept 22.9, 1024 23.5 (an earlier state; less is left for
// the level-1 cache). Of today's 19.9 the look-back takes 1.3, sending the entries 1.4 and the reference's new bytes 3.2;
// nothing changed takes 15.0, of which the two reads are 11.6.
constexpr int ENCODE_THREADS = 512;
constexpr int ENCODE_BLOCKS_PER_SM = 2;
constexpr unsigned ENCODE_PIECE = 2;    // groups of 32 units: 1 KB
constexpr unsigned ENCODE_LONGEST = 16; // pieces in a run
constexpr int ENCODE_STAGED = 512;      // entries a warp keeps; the rest of a denser run is read a second time
} // namespace tuning

constexpr unsigned ENCODE_WARPS = tuning::ENCODE_THREADS / 32;

// Exact division of numbers below 2^31 by a divisor that is the same all over a launch.
struct Divisor {
    unsigned d = 1, multiplier = 0, shift = 0;
    Divisor() = default;
    explicit Divisor(unsigned divisor) : d(divisor) {
        if (d == 1)
            return;
        while ((1ull << shift) < d)
            ++shift;
        --shift;
        multiplier = static_cast<unsigned>(((1ull << (32 + shift)) + d - 1) / d);
    }
    __device__ unsigned divide(unsigned n) const { return d == 1 ? n : __umulhi(n, multiplier) >> shift; }
};

// What stays on the device between frames, followed by one word for each tile.
struct EncodeState {
    unsigned long long frame; // its number, in the lower 30 bits
    unsigned finished;        // blocks that are done (only counted when the capacity may be too small)
    unsigned unsafe_from;     // entries from here on were not delivered: the first tile that did not fit
};

enum : unsigned long long { TILE_COUNT = 1ull << 32, TILE_PREFIX = 2ull << 32, TILE_STATE = 3ull << 32 };

struct EncodeJob {
    const unsigned char *cur;
    unsigned char *ref, *values, *mask;
    uint32_t *positions, *count;
    EncodeState *state;
    unsigned long long *tile_words;
    const uint32_t *changed; // bit per pixel, for the noise filter, or null
    size_t cur_step, ref_step, mask_step;
    unsigned wrap, cur_gap, ref_gap, ref_step16; // where units are whole, in units: a row, padding, the reference's step
    unsigned rows, cols, row_bytes, units, changed_words_per_row;
    Divisor units_per_row;
    unsigned groups, tiles;     // of 32 units; blocks
    unsigned run, run_fraction; // pieces a warp goes through, in 1 and 1 / 2^32
    unsigned capacity;
    uint32_t addend; // 255 - threshold in each byte
    unsigned char min_neighbors, channels;
    bool aligned, mask_by_two, may_overflow;
};

__device__ inline unsigned long long loadRelaxed(const unsigned long long *p) {
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ inline void storeRelaxed(unsigned long long *p, unsigned long long v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ inline unsigned warpSum(unsigned v) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(FULL_WARP, v);
#else
    for (int step = 16; step; step /= 2)
        v += __shfl_xor_sync(FULL_WARP, v, step);
    return v;
#endif
}

// How many entries the tiles before `tile` have, by decoupled look-back of the whole block: a thread waits for one of the
// THREADS tiles before, so that a wave of blocks is added up in one round trip. `frame`: its number in the upper half of each
// word, above the two state bits (30 bits are enough: a word is overwritten with every frame).
template<int THREADS>
__device__ inline unsigned lookBack(const unsigned long long *words, unsigned tile, unsigned long long frame) {
    constexpr unsigned WARPS = THREADS / 32;
    __shared__ unsigned sums[WARPS],
        ends[WARPS]; // of each warp's 32 tiles, up to the nearest known prefix; whether there is one
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned before = 0;
    bool found = tile == 0;
    for (long long end = tile; !found; end -= THREADS) { // tiles [.., end) are still to be added
        const long long at = end - 1 - threadIdx.x;
        unsigned long long word = frame | TILE_PREFIX; // before the first tile there is nothing
        if (at >= 0)
            do
                word = loadRelaxed(words + at);
            while ((word & ~(TILE_STATE | 0xffffffffull)) != frame);
        const unsigned prefixes = __ballot_sync(FULL_WARP, (word & TILE_STATE) == TILE_PREFIX);
        const unsigned last = prefixes ? __ffs(static_cast<int>(prefixes)) - 1 : 31;
        const unsigned sum = warpSum(lane <= last ? static_cast<unsigned>(word) : 0u);
        if (end != tile)
            __syncthreads(); // the round before has been read
        if (lane == 0) {
            sums[warp] = sum;
            ends[warp] = prefixes;
        }
        __syncthreads();
        const unsigned known = __ballot_sync(FULL_WARP, lane < WARPS && ends[lane % WARPS] != 0);
        const unsigned upto = known ? __ffs(static_cast<int>(known)) - 1 : 31;
        before += warpSum(lane < WARPS && lane <= upto ? sums[lane] : 0);
        found = known != 0;
    }
    return before;
}

// The highest bit of each byte of `difference` that is over the threshold: it is where adding 255 - threshold carries out of
// the byte. `addend`: 255 - threshold in each byte.
__device__ inline uint32_t overThreshold(uint32_t difference, uint32_t addend) {
    const uint32_t low = (difference & 0x7f7f7f7fu) + (addend & 0x7f7f7f7fu);
    return ((difference & addend) | (difference & low) | (addend & low)) & 0x80808080u;
}

// One bit per byte for the flags (0x80 or 0) in the eight bytes low, high.
__device__ inline unsigned bitsOf(uint32_t low, uint32_t high) {
    return __dp4a(low, 0x08040201u, __dp4a(high, 0x80402010u, 0u)) >> 7;
}

// One bit for each of 16 bytes that differ by more than the threshold.
__device__ inline unsigned changedBits(const uint4 &a, const uint4 &b, uint32_t addend) {
    const auto over = [&](uint32_t x, uint32_t y) { return overThreshold(__vabsdiffu4(x, y), addend); };
    return bitsOf(over(a.x, b.x), over(a.y, b.y)) | bitsOf(over(a.z, b.z), over(a.w, b.w)) << 8;
}

// 0xff for a byte whose highest bit is set, 0 for the others.
__device__ inline uint32_t spread(unsigned bits) {
    uint32_t mask; // bit k comes to the top of byte k, whose sign then fills the byte (__byte_perm cannot do that)
    asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(mask) : "r"((bits & 15) * 0x10204080u));
    return mask;
}

// Where a unit lies.
struct Place {
    unsigned y, x, left; // row, first byte in it, bytes up to 16
};

__device__ inline Place placeOf(const EncodeJob &job, unsigned unit) {
    const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
    return {y, x, min(16u, job.row_bytes - x)};
}

// Loads without a branch, which would let the compiler put the use of the last unit before the load of the next.
__device__ inline void loadFrameIf(bool wanted, const uint4 *p, uint4 &v) {
    asm volatile("{ .reg .pred wanted; setp.ne.u32 wanted, %5, 0; @wanted ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
__device__ inline void loadReferenceIf(bool wanted, const uint4 *p, uint4 &v) {
    asm volatile("{ .reg .pred wanted; setp.ne.u32 wanted, %5, 0; @wanted ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"(static_cast<unsigned>(wanted))
                 : "memory");
}

// A lane's way through frame and reference, 32 units a step. WHOLE: every unit has 16 bytes, 16-byte aligned, in both, a row
// at least 32 units, and the frame a multiple of 32; without padding the frame counts as one row.
template<bool WHOLE>
class Reader;

template<>
class Reader<true> {
  public:
    __device__ Reader(const EncodeJob &job, unsigned unit) {
        const unsigned y = job.wrap == job.units ? 0 : job.units_per_row.divide(unit);
        column_ = unit - y * job.wrap;
        cur_ = unit + y * job.cur_gap;
        ref_ = unit + y * job.ref_gap;
    }
    __device__ void load(const EncodeJob &job, bool wanted, uint4 &cur, uint4 &ref) {
        loadFrameIf(wanted, reinterpret_cast<const uint4 *>(job.cur) + cur_, cur);
        loadReferenceIf(wanted, reinterpret_cast<const uint4 *>(job.ref) + ref_, ref);
        __syncwarp();
        cur_ += 32;
        ref_ += 32;
        column_ += 32;
        if (column_ >= job.wrap) {
            column_ -= job.wrap;
            cur_ += job.cur_gap;
            ref_ += job.ref_gap;
        }
    }

  private:
    unsigned column_, cur_, ref_;
};

template<>
class Reader<false> {
  public:
    __device__ Reader(const EncodeJob &, unsigned unit) : unit_(unit) {}
    __device__ void load(const EncodeJob &job, bool wanted, uint4 &cur, uint4 &ref) { // zeros past the last unit
        cur = ref = make_uint4(0, 0, 0, 0);
        if (wanted && unit_ < job.units) {
            const Place p = placeOf(job, unit_);
            const unsigned char *c = job.cur + static_cast<size_t>(p.y) * job.cur_step + p.x;
            const unsigned char *r = job.ref + static_cast<size_t>(p.y) * job.ref_step + p.x;
            cur = cusi::load16(c, static_cast<int>(p.left), job.aligned);
            ref = p.left < 16 ? cusi::load16(r, static_cast<int>(p.left), false) : *reinterpret_cast<const uint4 *>(r);
        }
        unit_ += 32;
    }

  private:
    unsigned unit_;
};

// Bits x - 1 .. x + 30 of row y of the map of changed pixels; zeros outside.
__device__ inline uint32_t changedAround(const EncodeJob &job, unsigned y, unsigned x) {
    if (y >= job.rows)
        return 0;
    const uint32_t *words = job.changed + static_cast<size_t>(y) * job.changed_words_per_row;
    if (x == 0)
        return words[0] << 1;
    const unsigned w = (x - 1) / 32;
    return __funnelshift_r(words[w], 32 * (w + 1) < job.cols ? words[w + 1] : 0, (x - 1) % 32); // a row may be padded
}

// Which of the pixels from x on, up to 16, have enough changed neighbors, a bit each: eight one-bit numbers are added for all
// pixels at once.
__device__ inline unsigned haveNeighbors(const EncodeJob &job, unsigned y, unsigned x) {
    const uint32_t up = changedAround(job, y - 1, x), own = changedAround(job, y, x), down = changedAround(job, y + 1, x);
    const auto sum = [](uint32_t a, uint32_t b, uint32_t c) { return a ^ b ^ c; };
    const auto carry = [](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (a & c) | (b & c); };
    const uint32_t ones_up = sum(up, up >> 1, up >> 2), twos_up = carry(up, up >> 1, up >> 2);
    const uint32_t ones_down = sum(down, down >> 1, down >> 2), twos_down = carry(down, down >> 1, down >> 2);
    const uint32_t ones_own = own ^ own >> 2, twos_own = own & own >> 2;
    const uint32_t ones = sum(ones_up, ones_down, ones_own), from_ones = carry(ones_up, ones_down, ones_own);
    const uint32_t twos_part = sum(twos_up, twos_down, twos_own), fours_part = carry(twos_up, twos_down, twos_own);
    const uint32_t twos = twos_part ^ from_ones, from_twos = twos_part & from_ones;
    const uint32_t count[4] = {ones, twos, fours_part ^ from_twos, fours_part & from_twos};
    uint32_t enough = 0xffffffffu; // count >= min_neighbors, from the lowest bit up
#pragma unroll
    for (int bit = 0; bit < 4; ++bit)
        enough = job.min_neighbors >> bit & 1 ? count[bit] & enough : count[bit] | enough;
    return enough;
}

// The bytes of a unit whose pixels are not noise, a bit each.
__device__ inline unsigned keptBytes(const EncodeJob &job, unsigned unit) {
    const Place p = placeOf(job, unit);
    const unsigned x = p.x / job.channels, phase = p.x % job.channels, pixels = haveNeighbors(job, p.y, x);
    if (job.channels == 1)
        return pixels & 0xffff;
    const unsigned of_pixel = (1u << job.channels) - 1;
    unsigned bytes = 0;
    for (unsigned k = 0; k * job.channels < 16 + phase; ++k)
        bytes |= pixels >> k & 1 ? of_pixel << (k * job.channels) : 0;
    return bytes >> phase & 0xffff;
}

// The bytes of a unit that are to be sent, a bit each. EXTRAS: there may be a noise filter, and a mask to be written.
template<bool EXTRAS>
__device__ inline unsigned findChanges(const EncodeJob &job, unsigned unit, const uint4 &cur, const uint4 &ref) {
    unsigned bits = changedBits(cur, ref, job.addend);
    if (EXTRAS && job.changed && bits)
        bits &= keptBytes(job, unit);
    return bits;
}

__device__ inline uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no) {
    return (yes & mask) | (no & ~mask);
}

template<bool WHOLE>
__device__ inline void updateReference(const EncodeJob &job, unsigned unit, const uint4 &cur, const uint4 &ref,
                                       unsigned bits) {
    const uint4 blend = make_uint4(choose(spread(bits), cur.x, ref.x), choose(spread(bits >> 4), cur.y, ref.y),
                                   choose(spread(bits >> 8), cur.z, ref.z), choose(spread(bits >> 12), cur.w, ref.w));
    if constexpr (WHOLE) {
        const unsigned y = job.units_per_row.divide(unit), x = unit - y * job.units_per_row.d;
        *(reinterpret_cast<uint4 *>(job.ref) + (y * job.ref_step16 + x)) = blend;
    } else {
        const Place p = placeOf(job, unit);
        unsigned char *r = job.ref + static_cast<size_t>(p.y) * job.ref_step + p.x;
        if (p.left == 16)
            *reinterpret_cast<uint4 *>(r) = blend;
        else
            cusi::store16(r, blend, static_cast<int>(p.left), false);
    }
}

__device__ inline void storeMask(const EncodeJob &job, unsigned unit, unsigned bits) {
    if (!job.mask || unit >= job.units)
        return;
    const Place p = placeOf(job, unit);
    unsigned char *m = job.mask + static_cast<size_t>(p.y) * job.mask_step + p.x / 8;
    if (job.mask_by_two && p.left > 8) {
        *reinterpret_cast<unsigned short *>(m) = static_cast<unsigned short>(bits);
    } else {
        m[0] = static_cast<unsigned char>(bits);
        if (p.left > 8)
            m[1] = static_cast<unsigned char>(bits >> 8);
    }
}

// How many of the counts (0..16) of the lanes before this one; total: of all lanes. Counts over 3 are rare.
__device__ inline unsigned ranks(unsigned count, unsigned &total) {
    const unsigned before = (1u << (threadIdx.x % 32)) - 1;
    const unsigned ones = __ballot_sync(FULL_WARP, count & 1), twos = __ballot_sync(FULL_WARP, count & 2);
    unsigned rank = __popc(ones & before) + 2 * __popc(twos & before);
    total = __popc(ones) + 2 * __popc(twos);
    if (__any_sync(FULL_WARP, count > 3)) {
#pragma unroll
        for (int bit = 2; bit < 5; ++bit) {
            const unsigned lanes = __ballot_sync(FULL_WARP, count >> bit & 1);
            rank += __popc(lanes & before) << bit;
            total += __popc(lanes) << bit;
        }
    }
    return rank;
}

// Changed units wait here until there is one for every lane: of 32 units that a warp looks at, often only some have changed.
struct Queue {
    uint4 cur[64], ref[64];
    uint32_t unit[64]; // unit of the run << 16 | bits
};

constexpr int ENCODE_WORDS = tuning::ENCODE_STAGED + 16; // of entries a warp; 16 of padding
static_assert(tuning::ENCODE_STAGED >= 512, "the entries of 32 units fit");
constexpr int ENCODE_SHARED = ENCODE_WARPS * (sizeof(Queue) + ENCODE_WORDS * sizeof(uint32_t));

template<bool WHOLE, bool EXTRAS>
__global__ void __launch_bounds__(tuning::ENCODE_THREADS, tuning::ENCODE_BLOCKS_PER_SM) encodeKernel(const EncodeJob job) {
    constexpr int STAGED = tuning::ENCODE_STAGED;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned warp_totals[ENCODE_WARPS], finished_before;

    const unsigned tile = blockIdx.x;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, index = tile * ENCODE_WARPS + warp;
    const auto beginOf = [&](unsigned w) { // the first group of a warp's run
        return min((w * job.run + __umulhi(w, job.run_fraction)) * tuning::ENCODE_PIECE, job.groups);
    };
    const unsigned begin = beginOf(index), groups = beginOf(index + 1) - begin;
    const unsigned run = begin * 32; // the first unit
    Queue &queue = reinterpret_cast<Queue *>(shared)[warp];
    uint32_t *const entries = reinterpret_cast<uint32_t *>(shared + ENCODE_WARPS * sizeof(Queue)) + warp * ENCODE_WORDS;

    const unsigned none = groups * 32;
    unsigned dense_from = none; // unit of the run from which on entries are only counted
    unsigned staged = 0, counted = 0, queued = 0, head = 0;

    // Takes n <= 32 units out of the queue, one a lane.
    const auto drain = [&](unsigned n) {
        __syncwarp();
        const unsigned slot = (head + lane) % 64;
        const uint32_t record = lane < n ? queue.unit[slot] : 0;
        const unsigned bits = record & 0xffff;
        unsigned found;
        const unsigned rank = ranks(__popc(bits), found);
        if (staged + found > STAGED) {
            dense_from = __shfl_sync(FULL_WARP, record, 0) >> 16;
            counted = found;
        } else {
            const unsigned first = record >> 16;
            if (bits && !job.may_overflow)
                updateReference<WHOLE>(job, run + first, queue.cur[slot], queue.ref[slot], bits);
            const uint4 c = queue.cur[slot], r = queue.ref[slot];
            const uint32_t d[4] = {__vsub4(c.x, r.x), __vsub4(c.y, r.y), __vsub4(c.z, r.z), __vsub4(c.w, r.w)};
            uint32_t *entry = entries + staged + rank;
#pragma unroll
            for (unsigned b = 0; b < 16; ++b) // without a branch: lanes have different bits
                if (bits >> b & 1)
                    *entry++ = ((first * 16 + b) << 8) + __byte_perm(d[b / 4], 0, 0x4440 | b % 4);
            staged += found;
        }
        head += n;
        queued -= n;
        __syncwarp();
    };

    const auto look = [&](unsigned i, const uint4 &cur, const uint4 &ref) {
        const unsigned unit = run + i * 32 + lane;
        const unsigned bits = findChanges<EXTRAS>(job, unit, cur, ref);
        if (EXTRAS)
            storeMask(job, unit, bits);
        const unsigned changed = __ballot_sync(FULL_WARP, bits != 0);
        if (!changed)
            return;
        if (dense_from != none) {
            counted += warpSum(__popc(bits));
            return;
        }
        if (bits) {
            const unsigned slot = (head + queued + __popc(changed & ((1u << lane) - 1))) % 64;
            queue.cur[slot] = cur;
            queue.ref[slot] = ref;
            queue.unit[slot] = (i * 32 + lane) << 16 | bits;
        }
        queued += __popc(changed);
        if (queued >= 32) {
            drain(32);
            if (dense_from != none) { // what is left in the queue comes after it
                __syncwarp();
                counted += warpSum(lane < queued ? __popc(queue.unit[(head + lane) % 64] & 0xffff) : 0);
                queued = 0;
            }
        }
    };
    Reader<WHOLE> reader(job, run + lane);
    cusi::startInOrder();
    const unsigned long long frame = loadRelaxed(&job.state->frame) << 34;
    // While a warp looks at some units the next ones are on their way.
    uint4 cur[2] = {}, ref[2] = {};
    reader.load(job, groups > 0, cur[0], ref[0]);
    for (unsigned i = 0; i < groups; i += 2) {
        reader.load(job, i + 1 < groups, cur[1], ref[1]);
        look(i, cur[0], ref[0]);
        if (i + 1 == groups)
            break;
        reader.load(job, i + 2 < groups, cur[0], ref[0]);
        look(i + 1, cur[1], ref[1]);
    }
    __syncwarp();
    // The count goes out before the rest is taken from the queue, which the look-back's latency leaves time for.
    const unsigned rest = warpSum(lane < queued ? __popc(queue.unit[(head + lane) % 64] & 0xffff) : 0);
    const unsigned total = staged + counted + rest;
    if (lane == 0)
        warp_totals[warp] = total;
    __syncthreads();
    const unsigned of_lane = lane < ENCODE_WARPS ? warp_totals[lane] : 0;
    const unsigned tile_total = warpSum(of_lane), warp_before = warpSum(lane < warp ? of_lane : 0);
    if (threadIdx.x == 0)
        storeRelaxed(job.tile_words + tile, frame | (tile > 0 ? TILE_COUNT : TILE_PREFIX) | tile_total);
    if (queued)
        drain(queued);
    const unsigned before = lookBack<tuning::ENCODE_THREADS>(job.tile_words, tile, frame);
    if (threadIdx.x == 0) {
        if (job.tiles > tuning::ENCODE_THREADS) // fewer are read in one round anyway
            storeRelaxed(job.tile_words + tile, frame | TILE_PREFIX | (before + tile_total));
        if (tile == job.tiles - 1) { // every other block has read the frame's number, as it has published with it
            *job.count = before + tile_total;
            job.state->frame = (frame >> 34) + 1;
        }
    }
    const bool fits = !job.may_overflow || static_cast<unsigned long long>(before) + tile_total <= job.capacity;
    if (fits) {
        size_t out = static_cast<size_t>(before) + warp_before;
        const auto send = [&](unsigned count, bool padded) {
#pragma unroll 4
            for (unsigned n = lane; n < count; n += 32) {
                const uint32_t entry = entries[padded ? n + n / 32 : n], offset = entry >> 8;
                unsigned position = run * 16 + offset;
                if (!WHOLE || (job.may_overflow && !padded)) {
                    const Place p = placeOf(job, run + offset / 16);
                    position = p.y * job.row_bytes + p.x + offset % 16;
                    if (job.may_overflow && !padded)
                        job.ref[static_cast<size_t>(p.y) * job.ref_step + p.x + offset % 16] +=
                            static_cast<unsigned char>(entry);
                }
                job.positions[out + n] = position;
                job.values[out + n] = static_cast<unsigned char>(entry);
            }
            out += count;
        };
        send(staged, false);
        // What was too dense to keep is read again, now that its place in the output is known. A word of padding for every
        // 32 entries keeps lanes with 16 each out of each other's banks.
        Reader<WHOLE> again(job, run + dense_from / 32 * 32 + lane);
        uint4 cur = {}, ref = {}, next_cur = {}, next_ref = {};
        again.load(job, dense_from != none, cur, ref);
        for (unsigned i = dense_from / 32; i < groups; ++i) {
            again.load(job, i + 1 < groups, next_cur, next_ref);
            const unsigned first = i * 32 + lane, unit = run + first;
            const unsigned bits = first >= dense_from ? findChanges<EXTRAS>(job, unit, cur, ref) : 0;
            unsigned found;
            unsigned at = ranks(__popc(bits), found);
            if (bits)
                updateReference<WHOLE>(job, unit, cur, ref, bits);
            const uint32_t d[4] = {__vsub4(cur.x, ref.x), __vsub4(cur.y, ref.y), __vsub4(cur.z, ref.z),
                                   __vsub4(cur.w, ref.w)};
            __syncwarp(); // the entries before have been read
#pragma unroll
            for (unsigned b = 0; b < 16; ++b)
                if (bits >> b & 1) {
                    entries[at + at / 32] = ((first * 16 + b) << 8) + __byte_perm(d[b / 4], 0, 0x4440 | b % 4);
                    ++at;
                }
            __syncwarp();
            send(found, true);
            cur = next_cur;
            ref = next_ref;
        }
    } else if (threadIdx.x == 0) {
        atomicMin(&job.state->unsafe_from, before);
    }
    if (!job.may_overflow)
        return;

    // The capacity may be too small, which only the last block in order can tell. Blocks whose entries fitted have updated the
    // reference; if the whole did not fit, the last one to finish takes that back, so that nothing is lost.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        finished_before = atomicAdd(&job.state->finished, 1u);
    __syncthreads();
    if (finished_before != job.tiles - 1)
        return;
    __threadfence();
    const unsigned delivered = *reinterpret_cast<volatile unsigned *>(&job.state->unsafe_from);
    if (delivered != 0xffffffffu)
        for (unsigned i = threadIdx.x; i < delivered; i += tuning::ENCODE_THREADS) {
            const unsigned p = __ldcg(job.positions + i), y = p / job.row_bytes;
            unsigned char *at = job.ref + static_cast<size_t>(y) * job.ref_step + (p - y * job.row_bytes);
            *at = static_cast<unsigned char>(__ldcg(at) - __ldcg(job.values + i));
        }
    __syncthreads();
    if (threadIdx.x == 0) {
        job.state->finished = 0;
        job.state->unsafe_from = 0xffffffffu;
    }
}

// The map of changed pixels, a bit each. A warp takes 512 pixels of a row: coalesced 16-byte pieces of both images become bits
// of bytes in shared memory, from which each lane makes those of 16 pixels. Moves two reads of the frame.
struct MapJob {
    const unsigned char *cur, *ref;
    uint32_t *changed;
    size_t cur_step, ref_step;
    unsigned words_per_row, tiles_per_row, cols;
    unsigned long long tiles;
    uint32_t addend;
    bool aligned;
};
constexpr int MAP_THREADS = 256;

template<int CN>
__global__ void __launch_bounds__(MAP_THREADS) changedPixelsKernel(const MapJob job) {
    __shared__ uint16_t bytes[MAP_THREADS / 32][32 * CN + 4];
    cusi::startInOrder();
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long tile = blockIdx.x * (MAP_THREADS / 32ull) + warp;
    if (tile >= job.tiles)
        return;
    const unsigned long long y = tile / job.tiles_per_row;
    const unsigned x = static_cast<unsigned>(tile - y * job.tiles_per_row) * TILE_PIXELS;
    const unsigned pixels = min(static_cast<unsigned>(TILE_PIXELS), job.cols - x);
    const unsigned char *cur = job.cur + y * job.cur_step + static_cast<size_t>(x) * CN;
    const unsigned char *ref = job.ref + y * job.ref_step + static_cast<size_t>(x) * CN;
    uint4 a[CN], b[CN];
#pragma unroll
    for (int k = 0; k < CN; ++k) {
        const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * CN) - at;
        a[k] = left > 0 ? cusi::load16(cur + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
        b[k] = left > 0 ? cusi::load16(ref + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < CN; ++k) {
        bytes[warp][lane + 32 * k] = static_cast<uint16_t>(changedBits(a[k], b[k], job.addend));
    }
    __syncwarp();
    unsigned long long mine = 0; // 16 CN bits
#pragma unroll
    for (int k = 0; k < CN; ++k)
        mine |= static_cast<unsigned long long>(bytes[warp][lane * CN + k]) << (16 * k);
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k)
        found |= (mine >> (CN * k) & ((1u << CN) - 1)) != 0 ? 1u << k : 0;
    const unsigned upper = __shfl_down_sync(FULL_WARP, found, 1), word = x / 32 + lane / 2;
    if (lane % 2 == 0 && word < job.words_per_row)
        job.changed[y * job.words_per_row + word] = found | upper << 16;
}

cusStatus mapChangedPixels(const EncodeJob &encode, uint32_t *changed, bool aligned, cudaStream_t stream) {
    MapJob job = {};
    job.cur = encode.cur;
    job.ref = encode.ref;
    job.changed = changed;
    job.cur_step = encode.cur_step;
    job.ref_step = encode.ref_step;
    job.words_per_row = encode.changed_words_per_row;
    job.cols = encode.cols;
    job.tiles_per_row = cusi::divUp(job.cols, static_cast<unsigned>(TILE_PIXELS));
    job.tiles = static_cast<unsigned long long>(job.tiles_per_row) * encode.rows;
    job.addend = encode.addend;
    job.aligned = aligned;
    const auto kernel = encode.channels == 1   ? changedPixelsKernel<1>
                        : encode.channels == 3 ? changedPixelsKernel<3>
                                               : changedPixelsKernel<4>;
    return cusi::launchOverlapped("cusDiffEncode", kernel,
                                  static_cast<unsigned>(cusi::divUp(job.tiles, MAP_THREADS / 32ull)), MAP_THREADS, 0,
                                  stream, job);
}

__global__ void decodeKernel(unsigned char *frame, size_t step, unsigned row_bytes, unsigned long long bytes,
                             const uint32_t *positions, const unsigned char *values, const uint32_t *count,
                             unsigned capacity) {
    cusi::startInOrder();
    const unsigned n = *count;
    if (n > capacity)
        return;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * blockDim.x) {
        const unsigned p = positions[i];
        if (p >= bytes)
            continue;
        const unsigned y = p / row_bytes;
        frame[static_cast<size_t>(y) * step + (p - y * row_bytes)] += values[i];
    }
}

unsigned unitsPerRow(const cusMat &mat) {
    return static_cast<unsigned>(cusi::divUp(cusi_rowBytes(&mat), size_t{16}));
}

} // namespace

cusStatus framediff_cuda_paint(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffPaint *paint,
                               cusStream stream) {
    PaintJob job = {};
    job.prev = static_cast<const unsigned char *>(prev->data);
    job.cur = static_cast<const unsigned char *>(cur->data);
    job.dst = static_cast<unsigned char *>(dst->data);
    job.prev_step = prev->step;
    job.cur_step = cur->step;
    job.dst_step = dst->step;
    job.aligned = cusi::isAligned(*prev, 16) && cusi::isAligned(*cur, 16) && cusi::isAligned(*dst, 16);
    unsigned long long rows = static_cast<unsigned long long>(cur->rows);
    job.cols = static_cast<unsigned>(cur->cols);
    // Without padding the frame is one long row: no tile but the last is short.
    if (cusi_isContinuous(prev) && cusi_isContinuous(cur) && cusi_isContinuous(dst) && rows * job.cols <= 0x7fffffffu) {
        job.cols = static_cast<unsigned>(rows * job.cols);
        rows = 1;
        job.aligned = cusi::isAligned(prev->data, 0, 1, 16) && cusi::isAligned(cur->data, 0, 1, 16) &&
                      cusi::isAligned(dst->data, 0, 1, 16);
    }
    job.tiles_per_row = cusi::divUp(job.cols, static_cast<unsigned>(TILE_PIXELS));
    job.tiles = rows * job.tiles_per_row;
    const int channels = CUS_CHANNELS(cur->type);
    if (paint->full_scale == 0)
        return launchPaint(channels, job, Noise{static_cast<unsigned>(paint->threshold)}, stream);
    if (paint->full_scale == FRAMEDIFF_LEVELS - 1)
        return launchPaint(channels, job, UsualHeat{}, stream);
    return launchPaint(channels, job, AnyHeat{*paint->palette}, stream);
}

using EncodeKernel = void (*)(EncodeJob);
static EncodeKernel encodeKernelFor(bool whole, bool extras) {
    if (extras)
        return whole ? encodeKernel<true, true> : encodeKernel<false, true>;
    return whole ? encodeKernel<true, false> : encodeKernel<false, false>;
}

// How a frame is cut: blocks, one wave of them where the frame is small enough for that, and how long their warps' runs are.
static cusStatus cut(const char *function, EncodeJob *job) {
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    job->groups = cusi::divUp(job->units, 32u);
    const unsigned pieces = cusi::divUp(job->groups, tuning::ENCODE_PIECE);
    const unsigned wave = static_cast<unsigned>(sms) * tuning::ENCODE_BLOCKS_PER_SM;
    job->tiles = std::max(std::min(cusi::divUp(pieces, ENCODE_WARPS), wave),
                          cusi::divUp(pieces, ENCODE_WARPS * tuning::ENCODE_LONGEST));
    const unsigned warps = job->tiles * ENCODE_WARPS;
    job->run = pieces / warps;
    job->run_fraction =
        static_cast<unsigned>(cusi::divUp(static_cast<unsigned long long>(pieces % warps) << 32, 0ull + warps));
    return CUS_OK;
}

cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder) {
    for (bool whole : {false, true})
        for (bool extras : {false, true})
            CUSI_CUDA("cusDiffEncoderCreate",
                      cudaFuncSetAttribute(encodeKernelFor(whole, extras), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           ENCODE_SHARED));
    EncodeJob job = {};
    job.units = unitsPerRow(encoder->ref) * static_cast<unsigned>(encoder->rows);
    CUS_TRY(cut("cusDiffEncoderCreate", &job));
    const size_t bytes = sizeof(EncodeState) + 8 * size_t{job.tiles};
    CUS_TRY(cusMatCreate(&encoder->scratch, 1, static_cast<int>(bytes), CUS_8UC1, CUS_DEVICE));
    CUS_TRY(cusMatSetZero(&encoder->scratch, nullptr));
    // The zeros left in the tiles' words must not be taken for those of the first frame.
    const EncodeState start = {1, 0, 0xffffffffu};
    CUSI_CUDA("cusDiffEncoderCreate", cudaMemcpy(encoder->scratch.data, &start, sizeof start, cudaMemcpyHostToDevice));
    if (encoder->options.min_neighbors > 0)
        CUS_TRY(cusMatCreate(&encoder->changed, encoder->rows, cusi::divUp(encoder->cols, 32), CUS_32SC1, CUS_DEVICE));
    return cusi::cudaStatus(cudaStreamSynchronize(nullptr), "cusDiffEncoderCreate", "setting up");
}

cusStatus framediff_cuda_encode(cusDiffEncoder *encoder, const cusMat *frame, cusSparseDiff *diff, cusStream stream) {
    const size_t row_bytes = cusi_rowBytes(frame);
    EncodeJob job = {};
    job.cur = static_cast<const unsigned char *>(frame->data);
    job.ref = static_cast<unsigned char *>(encoder->ref.data);
    job.values = static_cast<unsigned char *>(diff->values.data);
    job.positions = static_cast<uint32_t *>(diff->positions.data);
    job.count = static_cast<uint32_t *>(diff->count.data);
    job.mask = static_cast<unsigned char *>(diff->mask.data);
    job.state = static_cast<EncodeState *>(encoder->scratch.data);
    job.tile_words = reinterpret_cast<unsigned long long *>(job.state + 1);
    job.cur_step = frame->step;
    job.ref_step = encoder->ref.step;
    job.mask_step = diff->mask.step;
    job.rows = static_cast<unsigned>(frame->rows);
    job.cols = static_cast<unsigned>(frame->cols);
    job.row_bytes = static_cast<unsigned>(row_bytes);
    job.units_per_row = Divisor(unitsPerRow(*frame));
    job.units = job.units_per_row.d * job.rows;
    CUS_TRY(cut("cusDiffEncode", &job));
    job.capacity = diff->capacity;
    job.addend = static_cast<uint32_t>(255 - encoder->options.threshold) * 0x01010101u;
    job.min_neighbors = static_cast<unsigned char>(encoder->options.min_neighbors);
    job.channels = static_cast<unsigned char>(CUS_CHANNELS(frame->type));
    job.aligned = cusi::isAligned(*frame, 16);
    job.mask_by_two = job.mask && cusi::isAligned(diff->mask, 2);
    job.may_overflow = diff->capacity < row_bytes * static_cast<size_t>(frame->rows);
    if (job.min_neighbors > 0) {
        job.changed = static_cast<const uint32_t *>(encoder->changed.data);
        job.changed_words_per_row = static_cast<unsigned>(encoder->changed.step / 4);
        CUS_TRY(mapChangedPixels(job, static_cast<uint32_t *>(encoder->changed.data),
                                 job.aligned && cusi::isAligned(encoder->ref, 16), stream));
    }
    const bool tight = job.cur_step == row_bytes && job.ref_step == row_bytes;
    job.ref_step16 = static_cast<unsigned>(job.ref_step / 16);
    job.wrap = tight ? job.units : job.units_per_row.d;
    job.cur_gap = static_cast<unsigned>((job.cur_step - row_bytes) / 16);
    job.ref_gap = static_cast<unsigned>((job.ref_step - row_bytes) / 16);
    const bool whole = job.aligned && row_bytes % 16 == 0 && job.wrap >= 32 && job.units % 32 == 0 &&
                       job.rows * std::max(job.cur_step, job.ref_step) / 16 <= 0xffffffffu;
    return cusi::launchOverlapped("cusDiffEncode", encodeKernelFor(whole, job.changed || job.mask), job.tiles,
                                  tuning::ENCODE_THREADS, ENCODE_SHARED, stream, job);
}

cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    const size_t row_bytes = cusi_rowBytes(&decoder->frame);
    int sms = 0;
    CUSI_CUDA("cusDiffDecode", cusi::multiprocessors(&sms));
    // How many entries there are is only known on the device, so the grid fills it once and strides.
    const unsigned blocks = std::min(cusi::divUp(diff->capacity, 256u), 8u * sms);
    return cusi::launchOverlapped(
        "cusDiffDecode", decodeKernel, blocks, 256, 0, stream, static_cast<unsigned char *>(decoder->frame.data),
        decoder->frame.step, static_cast<unsigned>(row_bytes), static_cast<unsigned long long>(row_bytes) * decoder->rows,
        static_cast<const uint32_t *>(diff->positions.data), static_cast<const unsigned char *>(diff->values.data),
        static_cast<const uint32_t *>(diff->count.data), diff->capacity);
}
