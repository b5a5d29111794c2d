// framediff on the GPU. Both kernels are bound by memory: what they move is written beside each.
#include "cuda.cuh"
#include "framediff_backend.h"

#include <algorithm>

namespace {

constexpr unsigned FULL_WARP = 0xffffffffu;

// ---- Heatmap and noise view
// ---------------------------------------------------------------------------------------------- Moves 2 reads of CN bytes
// and one write of 3 per pixel. A warp takes 512 pixels of a row: every lane loads CN 16-byte pieces of each input, so that
// the loads are coalesced and all in flight at once, leaves their byte differences in shared memory, takes 4 x 4
// neighbouring pixels from there (word stride CN: no bank conflicts for 1 and 3), looks their colours up and sends the
// result back through shared memory as 16-byte stores.

namespace tuning {
constexpr int PALETTE_THREADS = 256;
constexpr int PALETTE_BLOCKS_PER_SM = 6;
} // namespace tuning

constexpr int TILE_PIXELS = 512;

struct PaletteJob {
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

template<int CN>
__global__ void __launch_bounds__(tuning::PALETTE_THREADS)
    paletteKernel(const PaletteJob job, const __grid_constant__ FramediffPalette palette) {
    constexpr int WARPS = tuning::PALETTE_THREADS / 32;
    constexpr int WORDS = TILE_PIXELS * (CN > 3 ? CN : 3) / 4;
    __shared__ uint32_t colour[FRAMEDIFF_LEVELS];
    __shared__ __align__(16) uint32_t staged[WARPS][WORDS];
    for (int i = threadIdx.x; i < FRAMEDIFF_LEVELS; i += tuning::PALETTE_THREADS)
        colour[i] = palette.colour[i];
    __syncthreads();

    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t *const mine = staged[warp];
    for (unsigned long long tile = blockIdx.x * static_cast<unsigned long long>(WARPS) + warp; tile < job.tiles;
         tile += static_cast<unsigned long long>(gridDim.x) * WARPS) {
        const unsigned long long y = tile / job.tiles_per_row;
        const unsigned x = static_cast<unsigned>(tile - y * job.tiles_per_row) * TILE_PIXELS;
        const unsigned pixels = min(static_cast<unsigned>(TILE_PIXELS), job.cols - x);
        const unsigned char *prev = job.prev + y * job.prev_step + static_cast<size_t>(x) * CN;
        const unsigned char *cur = job.cur + y * job.cur_step + static_cast<size_t>(x) * CN;
        unsigned char *dst = job.dst + y * job.dst_step + static_cast<size_t>(x) * 3;

        uint4 a[CN], b[CN];
#pragma unroll
        for (int k = 0; k < CN; ++k) {
            const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * CN) - at;
            a[k] = left > 0 ? cusi::load16(prev + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
            b[k] = left > 0 ? cusi::load16(cur + at, left, job.aligned) : make_uint4(0, 0, 0, 0);
        }
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
            const uint32_t c0 = colour[d[j][0]], c1 = colour[d[j][1]], c2 = colour[d[j][2]], c3 = colour[d[j][3]];
            uint32_t *out = mine + 3 * (lane + 32 * j);
            out[0] = c0 | c1 << 24;
            out[1] = c1 >> 8 | c2 << 16;
            out[2] = c2 >> 16 | c3 << 8;
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * 3) - at;
            if (left > 0)
                cusi::store16(dst + at, reinterpret_cast<const uint4 *>(mine)[lane + 32 * k], left, job.aligned);
        }
        __syncwarp();
    }
}

// ---- Sparse difference
// --------------------------------------------------------------------------------------------------- One pass: reads frame
// and reference once; writes the 32-byte sectors of the reference that change, 5 bytes per changed byte and, if wanted, one
// bit per byte. The frame is cut into units of 16 bytes, row by row (the last of a row may be short), and tiles of units; a
// block takes the next tile in order, and learns how many entries come before it by decoupled look-back over the tiles'
// published counts. A published word carries the frame's number, so nothing is cleared between frames.

namespace tuning {
constexpr int ENCODE_THREADS = 256;
constexpr int ENCODE_UNITS = 3;      // 16-byte units a thread
constexpr int ENCODE_STAGED = 2048;  // entries that pass through shared memory at a time
constexpr int LOOKBACK_PER_LANE = 8; // 256 predecessors are looked at in one round trip
} // namespace tuning

constexpr unsigned TILE_UNITS = tuning::ENCODE_THREADS * tuning::ENCODE_UNITS;

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
    unsigned long long ticket; // frame number << 32 | tiles handed out
    unsigned finished;         // blocks that are done (only counted when the capacity may be too small)
    unsigned unsafe_from;      // entries from here on were not delivered: the first tile that did not fit
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
    unsigned rows, cols, row_bytes, units, changed_words_per_row;
    Divisor units_per_row;
    unsigned tiles, capacity;
    unsigned char threshold, min_neighbours, channels;
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

// How many entries the tiles before `tile` have; called by one full warp. frame: its number, in the upper half of each word
// above the two state bits (30 bits are enough: a word is overwritten with every frame).
__device__ inline unsigned lookBack(const unsigned long long *words, unsigned tile, unsigned long long frame) {
    const unsigned lane = threadIdx.x % 32;
    unsigned before = 0;
    for (long long end = tile; end > 0;) { // tiles [.., end) are still to be added
        unsigned long long w[tuning::LOOKBACK_PER_LANE];
        bool ready;
        do {
            ready = true;
#pragma unroll
            for (int k = 0; k < tuning::LOOKBACK_PER_LANE; ++k) {
                const long long at = end - 1 - (k * 32 + static_cast<long long>(lane));
                w[k] = at >= 0 ? loadRelaxed(words + at) : frame | TILE_PREFIX;
            }
            // Only what lies between here and the nearest known prefix has to be there.
#pragma unroll
            for (int k = 0; k < tuning::LOOKBACK_PER_LANE; ++k) {
                const bool mine = (w[k] & ~(TILE_STATE | 0xffffffffull)) == frame;
                const unsigned prefixes = __ballot_sync(FULL_WARP, mine && (w[k] & TILE_STATE) == TILE_PREFIX);
                const unsigned missing = __ballot_sync(FULL_WARP, !mine);
                const unsigned wanted = prefixes ? (prefixes & -prefixes) - 1 : FULL_WARP;
                if (missing & wanted) {
                    ready = false;
                    break;
                }
                if (prefixes)
                    break;
            }
        } while (!ready);
        bool found = false;
#pragma unroll
        for (int k = 0; k < tuning::LOOKBACK_PER_LANE; ++k) {
            if (!found) {
                const bool mine = (w[k] & ~(TILE_STATE | 0xffffffffull)) == frame;
                const unsigned prefixes = __ballot_sync(FULL_WARP, mine && (w[k] & TILE_STATE) == TILE_PREFIX);
                const unsigned last = prefixes ? __ffs(static_cast<int>(prefixes)) - 1 : 31;
                before += __reduce_add_sync(FULL_WARP, lane <= last ? static_cast<unsigned>(w[k]) : 0u);
                found = prefixes != 0;
            }
        }
        if (found)
            break;
        end -= 32 * tuning::LOOKBACK_PER_LANE;
    }
    return before;
}

__device__ inline bool isNoise(const EncodeJob &job, unsigned y, unsigned x) {
    int neighbours = -1; // itself
    for (int j = -1; j <= 1; ++j) {
        const unsigned row = y + j;
        if (row >= job.rows)
            continue;
        const uint32_t *words = job.changed + static_cast<size_t>(row) * job.changed_words_per_row;
        for (int i = -1; i <= 1; ++i) {
            const unsigned column = x + i;
            if (column < job.cols)
                neighbours += words[column / 32] >> (column % 32) & 1;
        }
    }
    return neighbours < job.min_neighbours;
}

// One bit per byte that is 0xff in the eight bytes low, high.
__device__ inline unsigned bitsOf(uint32_t low, uint32_t high) {
    return __dp4a(low & 0x08040201u, 0x01010101u, __dp4a(high & 0x80402010u, 0x01010101u, 0u));
}

__global__ void __launch_bounds__(tuning::ENCODE_THREADS) encodeKernel(const EncodeJob job) {
    constexpr int WARPS = tuning::ENCODE_THREADS / 32, UNITS = tuning::ENCODE_UNITS;
    static_assert(UNITS <= 3, "three 10-bit counters share a word");
    __shared__ unsigned long long ticket_shared;
    __shared__ unsigned warp_totals[WARPS], before_shared;
    __shared__ uint32_t staged_positions[tuning::ENCODE_STAGED];
    __shared__ unsigned char staged_values[tuning::ENCODE_STAGED];

    // The next tile in order. The block that takes the last one readies the counter for the next frame.
    if (threadIdx.x == 0) {
        const unsigned long long ticket = atomicAdd(&job.state->ticket, 1ull);
        if (static_cast<unsigned>(ticket) == job.tiles - 1)
            job.state->ticket = ((ticket >> 32) + 1) << 32;
        ticket_shared = ticket;
    }
    __syncthreads();
    const unsigned tile = static_cast<unsigned>(ticket_shared);
    const unsigned long long frame = (ticket_shared >> 32) << 34;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned first = tile * TILE_UNITS + warp * (32 * UNITS) + lane;

    const uint32_t threshold4 = job.threshold * 0x01010101u;
    uint4 cur[UNITS], ref[UNITS];
    unsigned position[UNITS], bits[UNITS];
    unsigned char *ref_at[UNITS];
#pragma unroll
    for (int k = 0; k < UNITS; ++k) {
        const unsigned unit = first + 32 * k;
        cur[k] = ref[k] = make_uint4(0, 0, 0, 0);
        if (unit < job.units) {
            const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
            position[k] = y * job.row_bytes + x;
            ref_at[k] = job.ref + static_cast<size_t>(y) * job.ref_step + x;
            const int left = static_cast<int>(min(16u, job.row_bytes - x));
            cur[k] = cusi::load16(job.cur + static_cast<size_t>(y) * job.cur_step + x, left, job.aligned);
            ref[k] = left < 16 ? cusi::load16(ref_at[k], left, false) : *reinterpret_cast<const uint4 *>(ref_at[k]);
        }
    }
#pragma unroll
    for (int k = 0; k < UNITS; ++k) {
        const unsigned unit = first + 32 * k;
        uint32_t c[4];
        c[0] = __vcmpgtu4(__vabsdiffu4(cur[k].x, ref[k].x), threshold4);
        c[1] = __vcmpgtu4(__vabsdiffu4(cur[k].y, ref[k].y), threshold4);
        c[2] = __vcmpgtu4(__vabsdiffu4(cur[k].z, ref[k].z), threshold4);
        c[3] = __vcmpgtu4(__vabsdiffu4(cur[k].w, ref[k].w), threshold4);
        if (job.changed && unit < job.units) {
            const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
            for (unsigned b = 0; b < 16; ++b)
                if ((c[b / 4] >> (8 * (b % 4)) & 1) && isNoise(job, y, (x + b) / job.channels))
                    c[b / 4] &= ~(0xffu << (8 * (b % 4)));
        }
        bits[k] = bitsOf(c[0], c[1]) | bitsOf(c[2], c[3]) << 8;
        // From here on cur is the new reference, ref the difference.
        const uint4 d = make_uint4(__vsub4(cur[k].x, ref[k].x), __vsub4(cur[k].y, ref[k].y), __vsub4(cur[k].z, ref[k].z),
                                   __vsub4(cur[k].w, ref[k].w));
        cur[k] = make_uint4((cur[k].x & c[0]) | (ref[k].x & ~c[0]), (cur[k].y & c[1]) | (ref[k].y & ~c[1]),
                            (cur[k].z & c[2]) | (ref[k].z & ~c[2]), (cur[k].w & c[3]) | (ref[k].w & ~c[3]));
        ref[k] = d;
        if (job.mask && unit < job.units) {
            const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
            unsigned char *m = job.mask + static_cast<size_t>(y) * job.mask_step + x / 8;
            if (job.mask_by_two && job.row_bytes - x > 8) {
                *reinterpret_cast<unsigned short *>(m) = static_cast<unsigned short>(bits[k]);
            } else {
                m[0] = static_cast<unsigned char>(bits[k]);
                if (job.row_bytes - x > 8)
                    m[1] = static_cast<unsigned char>(bits[k] >> 8);
            }
        }
        if (bits[k] && !job.may_overflow) {
            const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
            const int left = static_cast<int>(min(16u, job.row_bytes - x));
            if (left == 16)
                *reinterpret_cast<uint4 *>(ref_at[k]) = cur[k];
            else
                cusi::store16(ref_at[k], cur[k], left, false);
        }
    }

    // Ranks: units count in the order k, lane; the three counters of a lane travel in one word.
    unsigned packed = 0;
#pragma unroll
    for (int k = 0; k < UNITS; ++k)
        packed |= __popc(bits[k]) << (10 * k);
    unsigned sum = packed;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step)
            sum += other;
    }
    const unsigned totals = __shfl_sync(FULL_WARP, sum, 31);
    unsigned rank[UNITS], warp_total = 0;
#pragma unroll
    for (int k = 0; k < UNITS; ++k) {
        rank[k] = warp_total + ((sum - packed) >> (10 * k) & 1023);
        warp_total += totals >> (10 * k) & 1023;
    }
    if (lane == 0)
        warp_totals[warp] = warp_total;
    __syncthreads();
    unsigned tile_total = 0, warp_before = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        warp_before += static_cast<unsigned>(w) < warp ? warp_totals[w] : 0;
        tile_total += warp_totals[w];
    }
    if (warp == 0) {
        unsigned before = 0;
        if (tile > 0) {
            if (lane == 0)
                storeRelaxed(job.tile_words + tile, frame | TILE_COUNT | tile_total);
            before = lookBack(job.tile_words, tile, frame);
        }
        if (lane == 0) {
            storeRelaxed(job.tile_words + tile, frame | TILE_PREFIX | (before + tile_total));
            if (tile == job.tiles - 1)
                *job.count = before + tile_total;
            before_shared = before;
        }
    }

    // Entries pass through shared memory to leave it in order, coalesced; nearly always all of them at once.
    bool fits = true;
    unsigned before = 0;
    for (unsigned window = 0; window < tile_total || window == 0; window += tuning::ENCODE_STAGED) {
#pragma unroll
        for (int k = 0; k < UNITS; ++k) {
            unsigned at = warp_before + rank[k] - window;
            const unsigned long long low = ref[k].x | static_cast<unsigned long long>(ref[k].y) << 32;
            const unsigned long long high = ref[k].z | static_cast<unsigned long long>(ref[k].w) << 32;
            for (unsigned left = bits[k]; left; left &= left - 1, ++at) {
                const unsigned b = __ffs(static_cast<int>(left)) - 1;
                if (at < tuning::ENCODE_STAGED) {
                    staged_positions[at] = position[k] + b;
                    staged_values[at] = static_cast<unsigned char>((b < 8 ? low : high) >> (8 * (b % 8)));
                }
            }
        }
        __syncthreads();
        if (window == 0) {
            before = before_shared;
            fits = !job.may_overflow || static_cast<unsigned long long>(before) + tile_total <= job.capacity;
        }
        if (!fits)
            break;
        const unsigned n = min(tile_total - window, static_cast<unsigned>(tuning::ENCODE_STAGED));
        const size_t out = static_cast<size_t>(before) + window;
        for (unsigned i = threadIdx.x; i < n; i += tuning::ENCODE_THREADS) {
            job.positions[out + i] = staged_positions[i];
            job.values[out + i] = staged_values[i];
        }
        if (tile_total > window + tuning::ENCODE_STAGED)
            __syncthreads();
    }
    if (!job.may_overflow)
        return;

    // The capacity may be too small, which only the last tile can tell. Tiles that fit update the reference; if then the
    // whole did not fit, the last block to finish takes it back, so that nothing is lost.
    if (fits) {
#pragma unroll
        for (int k = 0; k < UNITS; ++k) {
            if (bits[k]) {
                const unsigned unit = first + 32 * k;
                const unsigned y = job.units_per_row.divide(unit), x = 16 * (unit - y * job.units_per_row.d);
                cusi::store16(ref_at[k], cur[k], static_cast<int>(min(16u, job.row_bytes - x)), false);
            }
        }
    } else if (threadIdx.x == 0) {
        atomicMin(&job.state->unsafe_from, before);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        before_shared = atomicAdd(&job.state->finished, 1u);
    __syncthreads();
    if (before_shared != job.tiles - 1)
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

// A bit for every pixel with a changed channel; a warp makes the word of 32 pixels.
__global__ void changedPixelsKernel(const unsigned char *cur, size_t cur_step, const unsigned char *ref, size_t ref_step,
                                    uint32_t *changed, unsigned words_per_row, Divisor words, unsigned rows, unsigned cols,
                                    int channels, int threshold) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned total = rows * words_per_row;
    for (unsigned word = (blockIdx.x * blockDim.x + threadIdx.x) / 32; word < total; word += gridDim.x * blockDim.x / 32) {
        const unsigned y = words.divide(word), x = (word - y * words_per_row) * 32 + lane;
        bool is = false;
        if (x < cols) {
            const unsigned char *c = cur + static_cast<size_t>(y) * cur_step + static_cast<size_t>(x) * channels;
            const unsigned char *r = ref + static_cast<size_t>(y) * ref_step + static_cast<size_t>(x) * channels;
            for (int k = 0; k < channels; ++k)
                is |= abs(c[k] - r[k]) > threshold;
        }
        const unsigned ballot = __ballot_sync(FULL_WARP, is);
        if (lane == 0)
            changed[word] = ballot;
    }
}

__global__ void decodeKernel(unsigned char *frame, size_t step, unsigned row_bytes, unsigned long long bytes,
                             const uint32_t *positions, const unsigned char *values, const uint32_t *count,
                             unsigned capacity) {
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

cusStatus framediff_cuda_palette(const cusMat *prev, const cusMat *cur, cusMat *dst, const FramediffPalette *palette,
                                 cusStream stream) {
    PaletteJob job = {};
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
    int sms = 0;
    CUSI_CUDA("framediff", cusi::multiprocessors(&sms));
    constexpr unsigned WARPS = tuning::PALETTE_THREADS / 32;
    const unsigned blocks = static_cast<unsigned>(
        std::min<unsigned long long>(cusi::divUp(job.tiles, 0ull + WARPS), 0ull + sms * tuning::PALETTE_BLOCKS_PER_SM));
    const int channels = CUS_CHANNELS(cur->type);
    const auto kernel = channels == 1 ? paletteKernel<1> : channels == 3 ? paletteKernel<3> : paletteKernel<4>;
    return cusi::launch("framediff", kernel, blocks, tuning::PALETTE_THREADS, 0, stream, job, *palette);
}

cusStatus framediff_cuda_prepare(cusDiffEncoder *encoder) {
    const size_t tiles = cusi::divUp(static_cast<size_t>(unitsPerRow(encoder->ref)) * encoder->rows, size_t{TILE_UNITS});
    const size_t bytes = sizeof(EncodeState) + 8 * tiles;
    CUS_TRY(cusMatCreate(&encoder->scratch, 1, static_cast<int>(bytes), CUS_8UC1, CUS_DEVICE));
    CUS_TRY(cusMatSetZero(&encoder->scratch, nullptr));
    // The zeros left in the tiles' words must not be taken for those of the first frame.
    const EncodeState start = {1ull << 32, 0, 0xffffffffu};
    CUSI_CUDA("cusDiffEncoderCreate", cudaMemcpy(encoder->scratch.data, &start, sizeof start, cudaMemcpyHostToDevice));
    if (encoder->options.min_neighbours > 0)
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
    job.tiles = cusi::divUp(job.units, TILE_UNITS);
    job.capacity = diff->capacity;
    job.threshold = static_cast<unsigned char>(encoder->options.threshold);
    job.min_neighbours = static_cast<unsigned char>(encoder->options.min_neighbours);
    job.channels = static_cast<unsigned char>(CUS_CHANNELS(frame->type));
    job.aligned = cusi::isAligned(*frame, 16);
    job.mask_by_two = job.mask && cusi::isAligned(diff->mask, 2);
    job.may_overflow = diff->capacity < row_bytes * static_cast<size_t>(frame->rows);
    if (job.min_neighbours > 0) {
        job.changed = static_cast<const uint32_t *>(encoder->changed.data);
        job.changed_words_per_row = static_cast<unsigned>(encoder->changed.step / 4);
        const unsigned words = job.changed_words_per_row * job.rows;
        int sms = 0;
        CUSI_CUDA("cusDiffEncode", cusi::multiprocessors(&sms));
        CUS_TRY(cusi::launch("cusDiffEncode", changedPixelsKernel, std::min(cusi::divUp(words, 8u), 16u * sms), 256, 0,
                             stream, job.cur, job.cur_step, job.ref, job.ref_step,
                             static_cast<uint32_t *>(encoder->changed.data), job.changed_words_per_row,
                             Divisor(job.changed_words_per_row), job.rows, job.cols, static_cast<int>(job.channels),
                             static_cast<int>(job.threshold)));
    }
    return cusi::launch("cusDiffEncode", encodeKernel, job.tiles, tuning::ENCODE_THREADS, 0, stream, job);
}

cusStatus framediff_cuda_decode(cusDiffDecoder *decoder, const cusSparseDiff *diff, cusStream stream) {
    const size_t row_bytes = cusi_rowBytes(&decoder->frame);
    int sms = 0;
    CUSI_CUDA("cusDiffDecode", cusi::multiprocessors(&sms));
    // How many entries there are is only known on the device, so the grid fills it once and strides.
    const unsigned blocks = std::min(cusi::divUp(diff->capacity, 256u), 8u * sms);
    return cusi::launch(
        "cusDiffDecode", decodeKernel, blocks, 256, 0, stream, static_cast<unsigned char *>(decoder->frame.data),
        decoder->frame.step, static_cast<unsigned>(row_bytes), static_cast<unsigned long long>(row_bytes) * decoder->rows,
        static_cast<const uint32_t *>(diff->positions.data), static_cast<const unsigned char *>(diff->values.data),
        static_cast<const uint32_t *>(diff->count.data), diff->capacity);
}
