// stereo on the GPU: features (edges or signs) -> elevation -> fill -> median -> contours, one launch each.
#include "cuda.cuh"
#include "stereo_backend.h"

#include <cooperative_groups.h>

#include <algorithm>

namespace {

// At the head of a scratch block; all zero when a call starts. The rounds of a fill take turns with three slots: one that
// the round before wrote, one that this round writes, one that is cleared for the next. notmin is ~min, so that zero is
// the start of both ends of a range.
struct State {
    unsigned active[3], notmin[3], max[3]; // of a round
    unsigned range_notmin, range_max;      // of the finished map
};
static_assert(sizeof(State) <= STEREO_STATE_BYTES, "the head of a scratch block holds the state");

namespace tuning {
// The whole map at 640x480, 1920x1080, 3840x2160, 30 shifts, window 21 (H200): 8 warps, 3 blocks a multiprocessor, strips of 16 or
// 32 rows 53.3, 150, 476 us; 16 warps, 2 blocks, strips of 32 46.3 (there 16), 149.7, 485; of 64 46.3 (16), 153, 474.
constexpr int USUAL_WARPS = 16, FEWER_WARPS = 8; // fewer where shared memory has 64 KB: 7.5
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int WARPS = FEWER_WARPS;
#else
constexpr int WARPS = USUAL_WARPS;
#endif
constexpr int MOST_ROWS = 64;             // of a strip
constexpr int ELEVATION_BLOCKS = 2;       // a multiprocessor, for the register limit
constexpr int STRIP_START = 10;           // what starting a strip costs, in rows
constexpr long long SMALL_FILL = 1 << 20; // pixels below which smaller tiles fill the device better
} // namespace tuning

__device__ inline int wrap(int i, int n) {
    i %= n;
    return i < 0 ? i + n : i;
}

// A float or a 16-bit integer as an integer of the same order.
__device__ inline unsigned ordered(float v) {
    const unsigned bits = __float_as_uint(v);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}
__device__ inline unsigned ordered(uint16_t v) {
    return v;
}

template<class T>
__device__ inline T fromOrdered(unsigned v) {
    if constexpr (std::is_same_v<T, float>)
        return __uint_as_float(v ^ (v >> 31 ? 0x80000000u : 0xffffffffu));
    else
        return static_cast<T>(v);
}

// Widens a range by what the whole block has seen; called by all its threads.
__device__ inline void widen(unsigned *notmin, unsigned *max, unsigned seen_notmin, unsigned seen_max) {
    for (int i = 16; i > 0; i /= 2) {
        seen_notmin = ::max(seen_notmin, __shfl_xor_sync(0xffffffffu, seen_notmin, i));
        seen_max = ::max(seen_max, __shfl_xor_sync(0xffffffffu, seen_max, i));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(notmin, seen_notmin);
        atomicMax(max, seen_max);
    }
}

// ---- Edges and signs ---------------------------------------------------------------------------------------------------
// A thread makes four pixels from 3 x 6. Edges in float32 throughout: sums of bytes are exact in it, and it has twice the
// rate of integers. Signs of bytes four at a time.

struct FeatureJob {
    const unsigned char *image[2];
    unsigned char *out[2];
    size_t step[2], out_step[2];
    int rows, cols;
    float threshold;
    bool zero, aligned;
    State *state; // cleared, or null
};

// Columns x - 1 .. x + 4 of a row, under the border rule.
template<class T>
__device__ inline void loadSix(const T *row, int x, const FeatureJob &job, T *v) {
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const int c = x + k - 1;
        const bool beyond = c < 0 || c >= job.cols;
        v[k] = beyond && job.zero ? T(0) : row[beyond ? wrap(c, job.cols) : c];
    }
}

// The same of bytes: x - 1 .. x + 2 and x + 3, x + 4.
__device__ inline uint2 loadSixBytes(const unsigned char *row, int x, const FeatureJob &job) {
    if (job.aligned && x > 0 && x + 4 < job.cols) {
        const unsigned w = *reinterpret_cast<const unsigned *>(row + x);
        return make_uint2(w << 8 | row[x - 1], w >> 24 | row[x + 4] << 8);
    }
    unsigned char v[6];
    loadSix(row, x, job, v);
    return make_uint2(v[0] | v[1] << 8 | v[2] << 16 | v[3] << 24, v[4] | v[5] << 8);
}

__device__ inline float byteAsFloat(unsigned w, int k) {
    return __uint_as_float(__byte_perm(w, 0x4b000000u, 0x7540 + k)) - 8388608.0f; // 2^23 + byte, less 2^23
}

// a, b: sums of three. Of bytes: half of 2 |a - b| > threshold * (a + b), which is exact.
template<class T>
__device__ inline bool isEdge(float a, float b, float threshold) {
    const float sum = __fadd_rn(a, b), difference = fabsf(__fsub_rn(a, b));
    if (sizeof(T) == 1)
        return difference > __fmul_rn(threshold * 0.5f, sum);
    const float limit = __fmul_rn(threshold, __fmul_rn(sum, 0.5f));
    return difference > (limit < 3.0f ? limit : 3.0f);
}
__device__ inline float sum3(float a, float b, float c) {
    return __fadd_rn(__fadd_rn(a, b), c);
}

template<class T, bool SIGNS>
__global__ void __launch_bounds__(256) featuresKernel(const FeatureJob job) {
    cusi::startInOrder();
    if (job.state && blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.y == 0 &&
        threadIdx.x < sizeof(State) / 4)
        reinterpret_cast<unsigned *>(job.state)[threadIdx.x] = 0;
    // Not by index: that would copy the job to memory.
    const bool second = blockIdx.z != 0;
    const unsigned char *const image = second ? job.image[1] : job.image[0];
    unsigned char *const to = second ? job.out[1] : job.out[0];
    const size_t step = second ? job.step[1] : job.step[0], out_step = second ? job.out_step[1] : job.out_step[0];
    const int cols = job.cols, rows = job.rows;
    const int x = 4 * (blockIdx.x * 32 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        float v[3][6];
        uint2 bytes[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            int at = y + i - 1;
            const bool nothing = job.zero && (at < 0 || at >= rows);
            at = at < 0 ? rows - 1 : at >= rows ? 0 : at; // the opposite side, or not looked at
            const T *row = reinterpret_cast<const T *>(cusi::rowOf(image, step, at));
            if constexpr (sizeof(T) == 1) {
                bytes[i] = nothing ? make_uint2(0, 0) : loadSixBytes(row, x, job);
                if (!SIGNS) {
#pragma unroll
                    for (int k = 0; k < 6; ++k)
                        v[i][k] = k < 4 ? byteAsFloat(bytes[i].x, k) : byteAsFloat(bytes[i].y, k - 4);
                }
            } else {
#pragma unroll
                for (int k = 0; k < 6; ++k)
                    v[i][k] = 0;
                if (!nothing)
                    loadSix(row, x, job, v[i]);
            }
        }
        unsigned packed = 0;
        if constexpr (SIGNS && sizeof(T) == 1) {
            const unsigned center = __funnelshift_r(bytes[1].x, bytes[1].y, 8);
            int bit = 0;
#pragma unroll
            for (int i = 0; i < 3; ++i)
#pragma unroll
                for (int k = 0; k < 3; ++k)
                    if (i != 1 || k != 1)
                        packed |=
                            __vcmpgtu4(__funnelshift_r(bytes[i].x, bytes[i].y, 8 * k), center) & (0x01010101u << bit++);
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float ul = v[0][k], u = v[0][k + 1], ur = v[0][k + 2], l = v[1][k], c = v[1][k + 1], r = v[1][k + 2],
                            dl = v[2][k], d = v[2][k + 1], dr = v[2][k + 2];
                if (SIGNS) {
                    packed |= ((ul > c) | (u > c) << 1 | (ur > c) << 2 | (l > c) << 3 | (r > c) << 4 | (dl > c) << 5 |
                               (d > c) << 6 | (dr > c) << 7)
                              << (8 * k);
                } else {
                    const bool edge = isEdge<T>(sum3(ul, l, dl), sum3(ur, r, dr), job.threshold) |
                                      isEdge<T>(sum3(ul, u, ur), sum3(dl, d, dr), job.threshold) |
                                      isEdge<T>(sum3(ul, u, l), sum3(dr, d, r), job.threshold) |
                                      isEdge<T>(sum3(dl, d, l), sum3(ur, u, r), job.threshold);
                    packed |= edge ? 255u << (8 * k) : 0;
                }
            }
        }
        unsigned char *out = cusi::rowOf(to, out_step, y) + x;
        if (job.aligned && x + 3 < cols) {
            *reinterpret_cast<unsigned *>(out) = packed;
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (x + k < cols)
                    out[k] = static_cast<unsigned char>(packed >> (8 * k));
        }
    }
}

cusStatus features(const char *function, const cusMat *const *images, cusMat *const *outs, int count, int signs,
                   const cusStereoOptions &o, State *state, cudaStream_t stream) {
    FeatureJob job = {};
    job.aligned = true;
    for (int i = 0; i < count; ++i) {
        job.image[i] = static_cast<const unsigned char *>(images[i]->data);
        job.out[i] = static_cast<unsigned char *>(outs[i]->data);
        job.step[i] = images[i]->step;
        job.out_step[i] = outs[i]->step;
        job.aligned = job.aligned && cusi::isAligned(*images[i], 4) && cusi::isAligned(*outs[i], 4);
    }
    job.rows = images[0]->rows;
    job.cols = images[0]->cols;
    job.threshold = o.threshold;
    job.zero = o.border == CUS_STEREO_ZERO;
    job.state = state;
    const dim3 grid(cusi::divUp(job.cols, 128), std::min(cusi::divUp(job.rows, 8), 65535), count), block(32, 8);
    const bool bytes = images[0]->type == CUS_8UC1;
    auto *kernel = bytes ? (signs ? featuresKernel<uint8_t, true> : featuresKernel<uint8_t, false>)
                         : (signs ? featuresKernel<float, true> : featuresKernel<float, false>);
    return cusi::launchOverlapped(function, kernel, grid, block, 0, stream, job);
}

// ---- Elevation ---------------------------------------------------------------------------------------------------------
// A block takes a strip of 4 SEG columns, whose features lie in shared memory, and goes down it 16 rows at a time; each of
// its warps has every WARPS-th shift to itself and needs no other warp until the end of the 16 rows.
//   Down: a lane has four columns and keeps the running sums of their agreements, four in a word, for each shift of its
//   warp. Row by row it adds the row that enters the window and takes away the one that leaves, and lays the sums down.
//   Across: a lane has rows r and r + 8 of SEG columns, as the halves of a word; it runs a window along them and keeps the
//   best key, score * 32 + shift, in registers. So a pixel and shift cost about 9 instructions whatever the window is.
// The keys of the warps then meet in shared memory. Of more than 32 shifts each group of 32 is a launch, and 32-bit keys,
// score * 256 + shift, pass through memory. WIDE: scores past 2047, which need such keys in registers too. PLANES 2: eight
// signs in windows past 31 overflow a byte, so each half of the signs has sums of its own.

constexpr int WARPS = tuning::WARPS, SHIFTS_PER_WARP = STEREO_GROUP / WARPS, CHUNK = 16;
constexpr int LEFT_WORDS = 32, RIGHT_WORDS = LEFT_WORDS + STEREO_GROUP / 4 + 2;

struct ElevationJob {
    const unsigned char *left, *right;
    uint16_t *out;
    uint32_t *keys; // or null: one group
    size_t left_step, right_step, out_step;
    int rows, cols, tiles_across, strip;
    int radius, pad;         // pad: radius rounded up to a word
    int first_shift, shifts; // of this group
    int direction;
    bool wrapped, smaller, first, last, aligned;
};

// Bytes of a (0..3) and b (4..7) by the four digits of the selector; a digit + 8 gives eight copies of that byte's sign,
// which __byte_perm cannot.
__device__ inline unsigned permute(unsigned a, unsigned b, unsigned selector) {
    unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
    return r;
}

// Four features from column x of a row; outside: the other side, or nothing.
__device__ inline unsigned loadFour(const unsigned char *row, int x, const ElevationJob &job) {
    if (x >= 0 && x + 3 < job.cols && job.aligned)
        return *reinterpret_cast<const unsigned *>(row + x);
    unsigned w = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = x + k;
        if (c < 0 || c >= job.cols) {
            if (!job.wrapped)
                continue;
            c = wrap(c, job.cols);
        }
        w |= static_cast<unsigned>(row[c]) << (8 * k);
    }
    return w;
}

template<int AGREEMENT, bool WIDE, int PLANES, int SEG>
__global__ void __launch_bounds__(32 * WARPS, WIDE ? 1 : tuning::ELEVATION_BLOCKS) elevationKernel(const ElevationJob job) {
    cusi::startInOrder();
    constexpr bool BINARY = AGREEMENT != CUS_STEREO_CENSUS;
    constexpr int PITCH = SEG == 28 ? 36 : 33; // words; no bank conflicts among the segments of 28 columns, few in others
    constexpr int PLANE = CHUNK * PITCH;
    constexpr int COLS = 4 * SEG;
    constexpr int KEYS = (WIDE ? 2 : 1) * 8 * COLS; // words of a warp's best keys
    constexpr int STAGE = PLANE * (PLANES + BINARY) > KEYS ? PLANE * (PLANES + BINARY) : KEYS;
    extern __shared__ unsigned shared[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int radius = job.radius, pad = job.pad, reach = 2 * radius, tile_rows = job.strip + reach;
    const int tile = blockIdx.x;
    const int x0 = tile % job.tiles_across * COLS, y0 = tile / job.tiles_across * job.strip;
    unsigned *const left = shared, *const right = left + tile_rows * LEFT_WORDS;
    unsigned *const stages = right + tile_rows * RIGHT_WORDS, *const stage = stages + warp * STAGE;
    const int strip_rows = min(job.strip, job.rows - y0);

    // Column c of `left` is image column x0 - pad + c; of `right`, that plus `right_from`.
    const int right_from = job.direction > 0 ? job.first_shift : -(job.first_shift + STEREO_GROUP);
    constexpr int ROW_WORDS = LEFT_WORDS + RIGHT_WORDS, BATCH = 4; // several loads in flight at once
    const int words = (strip_rows + reach) * ROW_WORDS;
    for (int start = threadIdx.x; start < words; start += BATCH * 32 * WARPS) {
        unsigned w[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const int i = start + b * 32 * WARPS, row = i / ROW_WORDS, word = i % ROW_WORDS;
            int y = y0 - radius + row;
            const bool outside = y < 0 || y >= job.rows;
            w[b] = 0;
            if (i < words && (!outside || job.wrapped)) {
                if (outside)
                    y = wrap(y, job.rows);
                w[b] = word < LEFT_WORDS ? loadFour(cusi::rowOf(job.left, job.left_step, y), x0 - pad + 4 * word, job)
                                         : loadFour(cusi::rowOf(job.right, job.right_step, y),
                                                    x0 - pad + right_from + 4 * (word - LEFT_WORDS), job);
            }
        }
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
            const int i = start + b * 32 * WARPS, row = i / ROW_WORDS, word = i % ROW_WORDS;
            const unsigned stored = BINARY ? __vminu4(w[b], 0x01010101u) : w[b];
            if (i < words && word < LEFT_WORDS)
                left[row * LEFT_WORDS + word] = stored;
            else if (i < words)
                right[row * RIGHT_WORDS + word - LEFT_WORDS] = stored;
        }
    }

    // Where both pixels lie inside, for this lane's columns and each of the warp's shifts.
    unsigned valid[SHIFTS_PER_WARP], sums[SHIFTS_PER_WARP][PLANES];
#pragma unroll
    for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
        valid[k] = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int x = x0 - pad + 4 * lane + j;
            const int partner = x + job.direction * (job.first_shift + warp + WARPS * k);
            if (job.wrapped || (x >= 0 && x < job.cols && partner >= 0 && partner < job.cols))
                valid[k] |= (BINARY ? 1u : 255u) << (8 * j);
        }
#pragma unroll
        for (int p = 0; p < PLANES; ++p)
            sums[k][p] = 0;
    }
    __syncthreads();

    // Agreements of four columns, from word `column` of row `row` of the tile on, for the warp's shift k.
    const auto agreements = [&](int row, int column, int shift, unsigned ok, unsigned *a) {
        const int offset = job.direction > 0 ? shift : STEREO_GROUP - shift;
        const unsigned l = left[row * LEFT_WORDS + column];
        const unsigned *r = right + row * RIGHT_WORDS + column + offset / 4;
        const unsigned partner = __funnelshift_r(r[0], r[1], 8 * (offset % 4));
        if (!job.wrapped && (y0 - radius + row < 0 || y0 - radius + row >= job.rows))
            ok = 0;
        if (AGREEMENT == CUS_STEREO_EQUAL) {
            a[0] = ~(l ^ partner) & ok;
        } else if (AGREEMENT == CUS_STEREO_EDGE) {
            a[0] = l & partner & ok;
        } else {
            unsigned d = l ^ partner;
            d = d - (d >> 1 & 0x55555555u);
            d = (d & 0x33333333u) + (d >> 2 & 0x33333333u);
            if (PLANES == 1) {
                a[0] = (0x08080808u - ((d + (d >> 4)) & 0x0f0f0f0fu)) & ok;
            } else {
                a[0] = (0x04040404u - (d & 0x0f0f0f0fu)) & ok;
                a[PLANES - 1] = (0x04040404u - (d >> 4 & 0x0f0f0f0fu)) & ok;
            }
        }
    };

    // All but the last row of the first window.
#pragma unroll
    for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
        const int shift = warp + WARPS * k;
        if (shift < job.shifts)
#pragma unroll 4
            for (int row = 0; row < reach; ++row) {
                unsigned a[PLANES];
                agreements(row, lane, shift, valid[k], a);
#pragma unroll
                for (int p = 0; p < PLANES; ++p)
                    sums[k][p] += a[p];
            }
    }

    const int r = lane % 8, segment = lane / 8; // of the way across
    const int out_at = segment * SEG + pad - radius, in_at = segment * SEG + pad + radius;
    const unsigned *const upper = stage + r * PITCH, *const lower = upper + 8 * PITCH;
    for (int chunk = 0; chunk < strip_rows; chunk += CHUNK) {
        const int chunk_rows = min(CHUNK, strip_rows - chunk);
        unsigned best[WIDE ? 2 * SEG : SEG];
#pragma unroll
        for (int i = 0; i < (WIDE ? 2 * SEG : SEG); ++i)
            best[i] = 0;
#pragma unroll
        for (int k = 0; k < SHIFTS_PER_WARP; ++k) {
            const int shift = warp + WARPS * k;
            if (shift >= job.shifts)
                break;
            // Down. Where the lane's own columns of output, which start a word or more later, are valid:
            const unsigned centre_valid = __shfl_sync(0xffffffffu, valid[k], (lane + pad / 4) % 32);
#pragma unroll 4
            for (int i = 0; i < chunk_rows; ++i) {
                const int row = chunk + i;
                unsigned a[PLANES], gone[PLANES];
                agreements(row + reach, lane, shift, valid[k], a);
                agreements(row, lane, shift, valid[k], gone);
#pragma unroll
                for (int p = 0; p < PLANES; ++p) {
                    sums[k][p] += a[p];
                    stage[p * PLANE + i * PITCH + lane] = sums[k][p];
                    sums[k][p] -= gone[p];
                }
                if (BINARY) {
                    unsigned center[PLANES];
                    const int at = lane + pad / 4;
                    if (lane < SEG) {
                        agreements(row + radius, at, shift, centre_valid, center);
                        stage[PLANES * PLANE + i * PITCH + lane] = center[0] << 7;
                    }
                }
            }
            __syncwarp();
            // Across: first the columns of the window but its last, then along.
            unsigned h = 0;
            {
                const int phase = 8 * (out_at % 4);
                unsigned upper_sum = 0, lower_sum = 0;
#pragma unroll
                for (int p = 0; p < PLANES; ++p) {
                    const unsigned *u = upper + p * PLANE + out_at / 4, *d = lower + p * PLANE + out_at / 4;
                    int left_over = reach;
                    for (; left_over >= 4; left_over -= 4, ++u, ++d) {
                        upper_sum = __dp4a(__funnelshift_r(u[0], u[1], phase), 0x01010101u, upper_sum);
                        lower_sum = __dp4a(__funnelshift_r(d[0], d[1], phase), 0x01010101u, lower_sum);
                    }
                    if (left_over) { // two columns
                        upper_sum = __dp4a(__funnelshift_r(u[0], u[1], phase), 0x00000101u, upper_sum);
                        lower_sum = __dp4a(__funnelshift_r(d[0], d[1], phase), 0x00000101u, lower_sum);
                    }
                }
                h = upper_sum | lower_sum << 16;
            }
            const int in_phase = 8 * (in_at % 4), out_phase = 8 * (out_at % 4);
            const unsigned tie = job.smaller ? STEREO_GROUP - 1 - shift : shift;
            const unsigned wide_shift = job.first_shift + shift, wide_tie = job.smaller ? 255 - wide_shift : wide_shift;
#pragma unroll
            for (int g = 0; g < SEG / 4; ++g) {
                unsigned in[PLANES][2], out[PLANES][2], mask[2] = {0, 0};
#pragma unroll
                for (int p = 0; p < PLANES; ++p) {
                    const unsigned *u = upper + p * PLANE + g, *d = lower + p * PLANE + g;
                    in[p][0] = __funnelshift_r(u[in_at / 4], u[in_at / 4 + 1], in_phase);
                    in[p][1] = __funnelshift_r(d[in_at / 4], d[in_at / 4 + 1], in_phase);
                    out[p][0] = __funnelshift_r(u[out_at / 4], u[out_at / 4 + 1], out_phase);
                    out[p][1] = __funnelshift_r(d[out_at / 4], d[out_at / 4 + 1], out_phase);
                }
                if (BINARY) {
                    mask[0] = upper[PLANES * PLANE + segment * (SEG / 4) + g];
                    mask[1] = lower[PLANES * PLANE + segment * (SEG / 4) + g];
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    // Byte j of two words as the halves of one; a selector of 8 + j gives eight copies of the sign bit.
                    const unsigned pick = BINARY ? j | (8 + j) << 4 | (4 + j) << 8 | (12 + j) << 12 : j | (4 + j) << 8;
                    const unsigned spread = (8 + j) * 0x11 | (12 + j) * 0x1100;
                    const unsigned keep = BINARY ? 0xffffffffu : 0x00ff00ffu;
#pragma unroll
                    for (int p = 0; p < PLANES; ++p)
                        h += permute(in[p][0], in[p][1], pick) & keep;
                    const unsigned marks = BINARY ? permute(mask[0], mask[1], spread) : 0xffffffffu;
                    const unsigned counted = h & marks;
                    const int at = 4 * g + j;
                    if (WIDE) {
                        const unsigned u = counted & 0xffffu, d = counted >> 16;
                        best[2 * at] = max(best[2 * at], u ? u << 8 | wide_tie : 0u);
                        best[2 * at + 1] = max(best[2 * at + 1], d ? d << 8 | wide_tie : 0u);
                    } else {
                        // Keys without a score stay below 32, whatever the shift.
                        best[at] = __vmaxu2(best[at], counted * 32 + tie * 0x00010001u);
                    }
#pragma unroll
                    for (int p = 0; p < PLANES; ++p)
                        h -= permute(out[p][0], out[p][1], pick) & keep;
                }
            }
            __syncwarp();
        }
        // The warps' keys meet.
#pragma unroll
        for (int i = 0; i < SEG; ++i) {
            const int at = r * COLS + segment * SEG + i;
            if (WIDE) {
                stage[at] = best[2 * i];
                stage[8 * COLS + at] = best[2 * i + 1];
            } else {
                stage[at] = best[i];
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 8 * COLS; i += 32 * WARPS) {
            const int x = x0 + i % COLS;
            unsigned key[2];
            if (WIDE) {
                key[0] = stages[i];
                key[1] = stages[8 * COLS + i];
#pragma unroll
                for (int w = 1; w < WARPS; ++w) {
                    key[0] = max(key[0], stages[w * STAGE + i]);
                    key[1] = max(key[1], stages[w * STAGE + 8 * COLS + i]);
                }
            } else {
                unsigned both = stages[i];
#pragma unroll
                for (int w = 1; w < WARPS; ++w)
                    both = __vmaxu2(both, stages[w * STAGE + i]);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const unsigned narrow = half ? both >> 16 : both & 0xffffu, score = narrow / 32, tie = narrow % 32;
                    const unsigned shift = job.first_shift + (job.smaller ? STEREO_GROUP - 1 - tie : tie);
                    key[half] = score ? score << 8 | (job.smaller ? 255 - shift : shift) : 0;
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = i / COLS + 8 * half, y = y0 + chunk + row;
                if (row >= chunk_rows || x >= job.cols)
                    continue;
                unsigned k = key[half];
                const size_t at = static_cast<size_t>(y) * job.cols + x;
                if (!job.first)
                    k = max(k, job.keys[at]);
                if (!job.last) {
                    job.keys[at] = k;
                } else {
                    const unsigned shift = job.smaller ? 255 - (k & 255) : k & 255;
                    cusi::rowOf(job.out, job.out_step, y)[x] = static_cast<uint16_t>(k ? 1 + shift : 0);
                }
            }
        }
        __syncthreads();
    }
}

// An elevation stays where its partner in the other image has nearly the same.
__global__ void __launch_bounds__(256) checkKernel(uint16_t *elevation, size_t step, const uint16_t *other, int rows,
                                                   int cols, int direction, int check, bool wrapped) {
    cusi::startInOrder();
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        uint16_t *const row = cusi::rowOf(elevation, step, y);
        const int e = row[x];
        if (e == 0)
            continue;
        int at = x + direction * (e - 1);
        const bool inside = at >= 0 && at < cols;
        at = inside ? at : wrap(at, cols);
        const int partner = inside || wrapped ? other[static_cast<size_t>(y) * cols + at] : 0;
        if (partner == 0 || abs(partner - e) > check)
            row[x] = 0;
    }
}

struct Way {
    void (*kernel)(ElevationJob);
    int segment, stage_words;
};

template<int AGREEMENT, bool WIDE, int PLANES, int SEG>
Way way() {
    constexpr int pitch = SEG == 28 ? 36 : 33, planes = PLANES + (AGREEMENT != CUS_STEREO_CENSUS);
    return {elevationKernel<AGREEMENT, WIDE, PLANES, SEG>, SEG,
            std::max(CHUNK * pitch * planes, (WIDE ? 2 : 1) * 8 * 4 * SEG)};
}

template<int AGREEMENT>
Way binaryWay(int window) {
    return window <= 17   ? way<AGREEMENT, false, 1, 28>()
           : window <= 33 ? way<AGREEMENT, false, 1, 24>()
           : window <= 45 ? way<AGREEMENT, false, 1, 16>()
                          : way<AGREEMENT, true, 1, 16>();
}

Way chooseWay(const cusStereoOptions &o) {
    switch (o.agreement) {
    case CUS_STEREO_EQUAL:
        return binaryWay<CUS_STEREO_EQUAL>(o.window);
    case CUS_STEREO_EDGE:
        return binaryWay<CUS_STEREO_EDGE>(o.window);
    default:
        return o.window <= 15   ? way<CUS_STEREO_CENSUS, false, 1, 28>()
               : o.window <= 31 ? way<CUS_STEREO_CENSUS, true, 1, 24>()
                                : way<CUS_STEREO_CENSUS, true, 2, 16>();
    }
}

cusStatus oneWay(const char *function, const cusMat &left, const cusMat &right, uint16_t *out, size_t out_step,
                 int direction, const cusStereoOptions &o, uint32_t *keys, cudaStream_t stream) {
    const Way chosen = chooseWay(o);
    ElevationJob job = {};
    job.left = static_cast<const unsigned char *>(left.data);
    job.right = static_cast<const unsigned char *>(right.data);
    job.out = out;
    job.keys = keys;
    job.left_step = left.step;
    job.right_step = right.step;
    job.out_step = out_step;
    job.rows = left.rows;
    job.cols = left.cols;
    job.tiles_across = cusi::divUp(left.cols, 4 * chosen.segment);
    job.radius = o.window / 2;
    job.pad = cusi::divUp(job.radius, 4) * 4;
    job.direction = direction;
    job.wrapped = o.border == CUS_STEREO_WRAP;
    job.smaller = o.prefer_smaller != 0;
    job.aligned = cusi::isAligned(left, 4) && cusi::isAligned(right, 4);

    int device = 0, sms = 0, shared_limit = 0;
    cudaFuncAttributes compiled = {};
    CUSI_CUDA(function, cudaGetDevice(&device));
    CUSI_CUDA(function, cudaFuncGetAttributes(&compiled, chosen.kernel));
    CUSI_CUDA(function, cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    CUSI_CUDA(function, cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    const int warps = compiled.ptxVersion < 80 ? tuning::FEWER_WARPS : tuning::USUAL_WARPS;
    const auto sharedBytes = [&](int strip) {
        return 4 * ((strip + 2 * job.radius) * (LEFT_WORDS + RIGHT_WORDS) + warps * chosen.stage_words);
    };
    // The strip that is done soonest: waves of blocks times a block's rows.
    long long least = INT64_MAX;
    for (int strip = CHUNK; strip <= tuning::MOST_ROWS && (strip == CHUNK || sharedBytes(strip) <= shared_limit);
         strip += CHUNK) {
        const long long strips = static_cast<long long>(job.tiles_across) * cusi::divUp(job.rows, strip);
        const long long cost = cusi::divUp(strips, 0ll + sms * tuning::ELEVATION_BLOCKS) * (strip + tuning::STRIP_START);
        if (cost < least) {
            least = cost;
            job.strip = strip;
        }
    }
    const int shared = sharedBytes(job.strip);
    CUSI_CUDA(function, cudaFuncSetAttribute(chosen.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    const unsigned blocks = static_cast<unsigned>(job.tiles_across) * cusi::divUp(job.rows, job.strip);
    for (int first = 0; first < o.shifts; first += STEREO_GROUP) {
        job.first_shift = first;
        job.shifts = std::min<int>(STEREO_GROUP, o.shifts - first);
        job.first = first == 0;
        job.last = first + STEREO_GROUP >= o.shifts;
        CUS_TRY(cusi::launchOverlapped(function, chosen.kernel, blocks, 32 * warps, shared, stream, job));
    }
    return CUS_OK;
}

// ---- Fill --------------------------------------------------------------------------------------------------------------

// The smaller of the nearest elevations to both sides. A warp takes a row, 32 columns at a time: to the right with the
// nearest so far, then back.
template<class T>
__global__ void __launch_bounds__(256)
    lowerKernel(const uint16_t *holes, size_t holes_step, T *out, size_t out_step, int rows, int cols) {
    cusi::startInOrder();
    constexpr int AHEAD = 4;
    const unsigned lane = threadIdx.x % 32;
    for (int y = blockIdx.x * 8 + threadIdx.x / 32; y < rows; y += gridDim.x * 8) {
        const uint16_t *const in = cusi::rowOf(holes, holes_step, y);
        T *const to = cusi::rowOf(out, out_step, y);
        unsigned nearest = 0;
        for (int x = 0; x < cols; x += 32 * AHEAD) {
            unsigned v[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int at = x + 32 * k + lane;
                v[k] = at < cols ? in[at] : 0;
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const unsigned known = __ballot_sync(0xffffffffu, v[k] != 0);
                const unsigned before = known & (0xffffffffu >> (31 - lane));
                const unsigned found = __shfl_sync(0xffffffffu, v[k], before ? 31 - __clz(before) : 0);
                const int at = x + 32 * k + lane;
                if (at < cols)
                    to[at] = static_cast<T>(before ? found : nearest);
                const unsigned last = __shfl_sync(0xffffffffu, v[k], known ? 31 - __clz(known) : 0);
                nearest = known ? last : nearest;
            }
        }
        nearest = 0;
        for (int x = (cols - 1) / (32 * AHEAD) * (32 * AHEAD); x >= 0; x -= 32 * AHEAD) {
            unsigned v[AHEAD], l[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int at = x + 32 * k + lane;
                v[k] = at < cols ? in[at] : 0;
                l[k] = at < cols ? static_cast<unsigned>(to[at]) : 0; // by this lane, above
            }
#pragma unroll
            for (int k = AHEAD - 1; k >= 0; --k) {
                const unsigned known = __ballot_sync(0xffffffffu, v[k] != 0);
                const unsigned after = known & (0xffffffffu << lane);
                const unsigned found = __shfl_sync(0xffffffffu, v[k], after ? __ffs(after) - 1 : 0);
                const unsigned right = after ? found : nearest;
                const int at = x + 32 * k + lane;
                if (at < cols && v[k] == 0 && right && (l[k] == 0 || right < l[k]))
                    to[at] = static_cast<T>(right);
                const unsigned first = __shfl_sync(0xffffffffu, v[k], known ? __ffs(known) - 1 : 0);
                nearest = known ? first : nearest;
            }
        }
    }
}

// ONCE (T = uint16_t) and RELAX (T = float): 16 iterations a round. A block takes a tile and as many
// pixels around it as a round has iterations into shared memory, lists the holes, iterates on those alone until nothing changes, and writes the tile. All rounds are one
// cooperative launch: the grid meets after each, and what has settled ends early. After the usual single round of ONCE that
// is one read and one write of the map.
template<class T, int CORE_>
struct FillTile {
    static constexpr int CORE = CORE_;
    static constexpr int ROUND = std::is_same_v<T, float> ? int(STEREO_ROUND) : 8; // iterations, and pixels around
    static constexpr int SIDE = CORE + 2 * ROUND;
    T v[2][SIDE * SIDE];
    uint16_t holes[SIDE * SIDE];
    unsigned count;
};

template<class T>
struct FillJob {
    const uint16_t *holes; // the elevation
    const T *start;        // what the first round reads
    T *filled, *second;
    State *state;
    size_t holes_step, start_step, filled_step;
    int rows, cols, tiles_across, tiles, iterations;
    float tolerance;
    bool wrapped;
};

constexpr int FILL_THREADS = 256;

// The state of a tile after up to 16 iterations in tile.v[result]. Returns whether the last of 16 iterations still changed
// (RELAX: by more than the tolerance) a pixel of the tile itself.
template<class T, int CORE>
__device__ int iterateTile(FillTile<T, CORE> &tile, const FillJob<T> &job, int iterations, bool *still) {
    constexpr int SIDE = FillTile<T, CORE>::SIDE, ROUND = FillTile<T, CORE>::ROUND;
    constexpr bool RELAX = std::is_same_v<T, float>;
    int from = 0;
    *still = false;
    for (int i = 0; i < iterations; ++i) {
        const T *const a = tile.v[from];
        T *const b = tile.v[from ^ 1];
        bool changed = false, counts = false;
        for (unsigned k = threadIdx.x; k < tile.count; k += FILL_THREADS) {
            const int at = tile.holes[k];
            const T now = a[at], l = a[at - 1], r = a[at + 1], u = a[at - SIDE], d = a[at + SIDE];
            T next;
            if constexpr (RELAX) {
                // Below zero: outside, where the pixel's own value stands in.
                next = __fmul_rn(
                    __fadd_rn(__fadd_rn(l < 0 ? now : l, r < 0 ? now : r), __fadd_rn(u < 0 ? now : u, d < 0 ? now : d)),
                    0.25f);
            } else {
                next = now ? now : static_cast<T>((l + r + u + d) / 4);
            }
            b[at] = next;
            if (next != now) {
                changed = true;
                const int y = at / SIDE, x = at % SIDE;
                bool large = true;
                if constexpr (RELAX)
                    large = fabsf(__fsub_rn(next, now)) > job.tolerance;
                counts = counts || (large && y >= ROUND && y < SIDE - ROUND && x >= ROUND && x < SIDE - ROUND);
            }
        }
        from ^= 1;
        if (!__syncthreads_or(changed)) {
            *still = false;
            break;
        }
        *still = counts;
    }
    return from;
}

template<class T, int CORE>
__global__ void __launch_bounds__(FILL_THREADS) fillKernel(const FillJob<T> job) {
    using Tile = FillTile<T, CORE>;
    constexpr int SIDE = Tile::SIDE, ROUND = Tile::ROUND;
    constexpr bool RELAX = std::is_same_v<T, float>;
    extern __shared__ unsigned shared[];
    Tile &tile = *reinterpret_cast<Tile *>(shared);
    const auto grid = cooperative_groups::this_grid();
    const T *from = job.start;
    size_t from_step = job.start_step;
    T *to = job.filled;
    size_t to_step = job.filled_step;
    int slot = 0, round = 0;
    if (RELAX) { // starts in its own output: the first round leaves it
        to = job.second;
        to_step = static_cast<size_t>(job.cols) * sizeof(T);
    }
    for (int done = 0;; ++round) {
        const int iterations = min(ROUND, job.iterations - done);
        const int next = slot == 2 ? 0 : slot + 1;
        if (blockIdx.x == 0 && threadIdx.x == 0)
            job.state->active[next] = job.state->notmin[next] = job.state->max[next] = 0;
        unsigned seen_notmin = 0, seen_max = 0;
        for (int t = blockIdx.x; t < job.tiles; t += gridDim.x) {
            const int x0 = t % job.tiles_across * CORE - ROUND, y0 = t / job.tiles_across * CORE - ROUND;
            __syncthreads();
            if (threadIdx.x == 0)
                tile.count = 0;
            __syncthreads();
            // Several loads in flight at once.
            constexpr int BATCH = 8;
            for (int start = 0; start < SIDE * SIDE; start += BATCH * FILL_THREADS) {
                T v[BATCH];
                bool hole[BATCH];
#pragma unroll
                for (int k = 0; k < BATCH; ++k) {
                    const int i = start + k * FILL_THREADS + threadIdx.x;
                    int y = y0 + i / SIDE, x = x0 + i % SIDE;
                    const bool outside = y < 0 || y >= job.rows || x < 0 || x >= job.cols;
                    v[k] = RELAX ? T(-1) : T(0);
                    hole[k] = false;
                    if (i < SIDE * SIDE && (!outside || job.wrapped)) {
                        if (outside) {
                            y = wrap(y, job.rows);
                            x = wrap(x, job.cols);
                        }
                        v[k] = cusi::rowOf(from, from_step, y)[x];
                        hole[k] = RELAX ? cusi::rowOf(job.holes, job.holes_step, y)[x] == 0 : v[k] == T(0);
                    }
                }
#pragma unroll
                for (int k = 0; k < BATCH; ++k) {
                    const int i = start + k * FILL_THREADS + threadIdx.x;
                    if (i >= SIDE * SIDE)
                        break;
                    tile.v[0][i] = tile.v[1][i] = v[k];
                    const int edge_y = i / SIDE, edge_x = i % SIDE;
                    if (hole[k] && edge_y > 0 && edge_y < SIDE - 1 && edge_x > 0 && edge_x < SIDE - 1)
                        tile.holes[atomicAdd(&tile.count, 1u)] = static_cast<uint16_t>(i);
                }
            }
            __syncthreads();
            bool still;
            const int result = iterateTile(tile, job, iterations, &still);
            if (__syncthreads_or(still) && threadIdx.x == 0)
                job.state->active[slot] = 1;
            for (int i = threadIdx.x; i < CORE * CORE; i += FILL_THREADS) {
                const int ty = i / CORE + ROUND, tx = i % CORE + ROUND, y = y0 + ty, x = x0 + tx;
                if (y < job.rows && x < job.cols) {
                    const T v = tile.v[result][ty * SIDE + tx];
                    cusi::rowOf(to, to_step, y)[x] = v;
                    seen_notmin = max(seen_notmin, ~ordered(v));
                    seen_max = max(seen_max, ordered(v));
                }
            }
        }
        widen(&job.state->notmin[slot], &job.state->max[slot], seen_notmin, seen_max);
        done += iterations;
        if (done < job.iterations || to != job.filled)
            grid.sync();
        // The map is in `to` now, and the next round would read it.
        if (done >= job.iterations || __ldcg(&job.state->active[slot]) == 0)
            break;
        from = to;
        from_step = to_step;
        const bool into_filled = to == job.second;
        to = into_filled ? job.filled : job.second;
        to_step = into_filled ? job.filled_step : static_cast<size_t>(job.cols) * sizeof(T);
        slot = next;
    }
    if (to != job.filled)
        for (int y = blockIdx.x; y < job.rows; y += gridDim.x)
            for (int x = threadIdx.x; x < job.cols; x += FILL_THREADS)
                cusi::rowOf(job.filled, job.filled_step, y)[x] = job.second[static_cast<size_t>(y) * job.cols + x];
    grid.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        job.state->range_notmin = __ldcg(&job.state->notmin[slot]);
        job.state->range_max = __ldcg(&job.state->max[slot]);
    }
}

template<class T, int CORE>
cusStatus iterate(const char *function, const cusMat &holes, const cusMat &start, cusMat &filled, const cusStereoOptions &o,
                  const StereoScratch &scratch, cudaStream_t stream) {
    using Tile = FillTile<T, CORE>;
    FillJob<T> job = {};
    job.holes = static_cast<const uint16_t *>(holes.data);
    job.holes_step = holes.step;
    job.start = static_cast<const T *>(start.data);
    job.start_step = start.step;
    job.filled = static_cast<T *>(filled.data);
    job.filled_step = filled.step;
    job.second = static_cast<T *>(scratch.wide);
    job.state = static_cast<State *>(scratch.block);
    job.rows = filled.rows;
    job.cols = filled.cols;
    job.tiles_across = cusi::divUp(job.cols, Tile::CORE);
    const long long tiles = static_cast<long long>(job.tiles_across) * cusi::divUp(job.rows, Tile::CORE);
    CUSI_REQUIRE(tiles < INT32_MAX, CUS_ERROR_SIZE, "%s: elevation is %d x %d (rows x cols), too large for one fill",
                 function, job.rows, job.cols);
    job.tiles = static_cast<int>(tiles);
    job.iterations = o.iterations;
    job.tolerance = o.tolerance;
    job.wrapped = o.border == CUS_STEREO_WRAP;
    int sms = 0, resident = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    CUSI_CUDA(function,
              cudaFuncSetAttribute(fillKernel<T, CORE>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Tile))));
    CUSI_CUDA(function,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, fillKernel<T, CORE>, FILL_THREADS, sizeof(Tile)));
    const int blocks = std::min<long long>(tiles, static_cast<long long>(sms) * resident);
    void *arguments[] = {&job};
    return cusi::cudaStatus(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(fillKernel<T, CORE>), dim3(blocks),
                                                        dim3(FILL_THREADS), arguments, sizeof(Tile), stream),
                            function, "kernel launch");
}

cusStatus copy(const char *function, const cusMat &src, cusMat &dst, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemcpy2DAsync(dst.data, dst.step, src.data, src.step, cusi_rowBytes(&src), src.rows,
                                          cudaMemcpyDeviceToDevice, stream));
    return CUS_OK;
}

// The state is all zero. Leaves the range of the result in it where ONCE or RELAX iterate.
cusStatus fill(const char *function, const cusMat &holes, cusMat &filled, const cusStereoOptions &o,
               const StereoScratch &scratch, cudaStream_t stream) {
    if (o.fill == CUS_FILL_NONE || (o.fill == CUS_FILL_ONCE && o.iterations == 0))
        return copy(function, holes, filled, stream);
    if (o.fill == CUS_FILL_ONCE)
        return static_cast<long long>(holes.rows) * holes.cols < tuning::SMALL_FILL
                   ? iterate<uint16_t, 32>(function, holes, holes, filled, o, scratch, stream)
                   : iterate<uint16_t, 64>(function, holes, holes, filled, o, scratch, stream);
    const bool relax = o.fill == CUS_FILL_RELAX;
    const int blocks = std::min(cusi::divUp(holes.rows, 8), 1 << 20);
    const uint16_t *const from = static_cast<const uint16_t *>(holes.data);
    if (relax)
        CUS_TRY(cusi::launchOverlapped(function, lowerKernel<float>, blocks, 256, 0, stream, from, holes.step,
                                       static_cast<float *>(filled.data), filled.step, holes.rows, holes.cols));
    else
        CUS_TRY(cusi::launchOverlapped(function, lowerKernel<uint16_t>, blocks, 256, 0, stream, from, holes.step,
                                       static_cast<uint16_t *>(filled.data), filled.step, holes.rows, holes.cols));
    return relax && o.iterations > 0 ? iterate<float, 32>(function, holes, filled, filled, o, scratch, stream) : CUS_OK;
}

// ---- Median ------------------------------------------------------------------------------------------------------------
// Forgetful selection in registers (see the host's). 16-bit: two neighboring pixels in the halves of a word.

__device__ inline void order(unsigned &a, unsigned &b, bool halves) {
    const unsigned low = halves ? __vminu2(a, b) : min(a, b), high = halves ? __vmaxu2(a, b) : max(a, b);
    a = low;
    b = high;
}

template<int SIZE, bool HALVES>
__device__ inline unsigned medianOf(const unsigned *values) {
    constexpr int KEPT = SIZE * SIZE / 2 + 2;
    unsigned v[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; ++i)
        v[i] = values[i];
#pragma unroll
    for (int kept = KEPT; kept >= 3; --kept) {
        // Pairs first: the smallest is among the lower ones, the largest among the upper.
#pragma unroll
        for (int i = 0; i < kept / 2; ++i)
            order(v[i], v[kept - 1 - i], HALVES);
        if (kept % 2) { // the odd one out takes part on both sides
            order(v[0], v[kept / 2], HALVES);
            order(v[kept / 2], v[kept - 1], HALVES);
        }
#pragma unroll
        for (int i = 1; i < kept / 2; ++i) {
            order(v[0], v[i], HALVES);
            order(v[kept - 1 - i], v[kept - 1], HALVES);
        }
        if (kept > 3)
            v[0] = values[2 * KEPT - kept]; // the next; the largest, v[kept - 1], is left out by the next turn
    }
    return v[1];
}

template<int SIZE>
__global__ void __launch_bounds__(256)
    median16Kernel(const uint16_t *in, size_t step, uint16_t *out, size_t out_step, int rows, int cols) {
    cusi::startInOrder();
    constexpr int RADIUS = SIZE / 2;
    const int x = 2 * (blockIdx.x * 32 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        unsigned values[SIZE * SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const uint16_t *const row = cusi::rowOf(in, step, min(max(y + j - RADIUS, 0), rows - 1));
            unsigned v[SIZE + 1];
#pragma unroll
            for (int i = 0; i <= SIZE; ++i)
                v[i] = row[min(max(x + i - RADIUS, 0), cols - 1)];
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                values[j * SIZE + i] = v[i] | v[i + 1] << 16;
        }
        const unsigned m = medianOf<SIZE, true>(values);
        uint16_t *const to = cusi::rowOf(out, out_step, y) + x;
        to[0] = static_cast<uint16_t>(m);
        if (x + 1 < cols)
            to[1] = static_cast<uint16_t>(m >> 16);
    }
}

template<int SIZE>
__global__ void __launch_bounds__(256)
    median32Kernel(const unsigned *in, size_t step, unsigned *out, size_t out_step, int rows, int cols) {
    cusi::startInOrder();
    constexpr int RADIUS = SIZE / 2;
    const int x = blockIdx.x * 32 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y * 8 + threadIdx.y; y < rows; y += gridDim.y * 8) {
        unsigned values[SIZE * SIZE];
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
            const unsigned *const row = cusi::rowOf(in, step, min(max(y + j - RADIUS, 0), rows - 1));
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                values[j * SIZE + i] = row[min(max(x + i - RADIUS, 0), cols - 1)];
        }
        cusi::rowOf(out, out_step, y)[x] = medianOf<SIZE, false>(values);
    }
}

cusStatus median(const char *function, const cusMat &in, cusMat &out, int size, cudaStream_t stream) {
    const dim3 block(32, 8);
    const unsigned down = std::min(cusi::divUp(in.rows, 8), 65535);
    if (in.type == CUS_16UC1) {
        auto *kernel = size == 3 ? median16Kernel<3> : median16Kernel<5>;
        return cusi::launchOverlapped(function, kernel, dim3(cusi::divUp(in.cols, 64), down), block, 0, stream,
                                      static_cast<const uint16_t *>(in.data), in.step, static_cast<uint16_t *>(out.data),
                                      out.step, in.rows, in.cols);
    }
    auto *kernel = size == 3 ? median32Kernel<3> : median32Kernel<5>;
    return cusi::launchOverlapped(function, kernel, dim3(cusi::divUp(in.cols, 32), down), block, 0, stream,
                                  static_cast<const unsigned *>(in.data), in.step, static_cast<unsigned *>(out.data),
                                  out.step, in.rows, in.cols);
}

// ---- Contours and picture ----------------------------------------------------------------------------------------------

template<class T>
__global__ void __launch_bounds__(256) rangeKernel(const T *elevation, size_t step, int rows, int cols, State *state) {
    cusi::startInOrder();
    unsigned seen_notmin = 0, seen_max = 0;
    for (int y = blockIdx.x; y < rows; y += gridDim.x) {
        const T *const row = cusi::rowOf(elevation, step, y);
        for (int x = threadIdx.x; x < cols; x += 256) {
            const T v = row[x];
            if (v != v) // NaN
                continue;
            seen_notmin = max(seen_notmin, ~ordered(v));
            seen_max = max(seen_max, ordered(v));
        }
    }
    widen(&state->range_notmin, &state->range_max, seen_notmin, seen_max);
}

// Which of `levels` bands a value lies in. Where all are NaN, so are min and max.
__device__ inline unsigned band(float e, float min, float max, unsigned levels) {
    if (!(max > min))
        return 0;
    const float scale = __fdiv_rn(static_cast<float>(levels), __fsub_rn(max, min));
    const float band = __fmul_rn(__fsub_rn(e, min), scale);
    return band < static_cast<float>(levels) ? static_cast<unsigned>(band) : levels; // NaN and infinity, too
}
__device__ inline unsigned band(uint16_t e, uint16_t min, uint16_t max, unsigned levels) {
    return max > min ? (e - min) * levels / static_cast<unsigned>(max - min) : 0;
}

// A thread makes four pixels.
template<class T, bool CROSSING>
__global__ void __launch_bounds__(256)
    contoursKernel(const T *elevation, size_t step, unsigned char *out, size_t out_step, int rows, int cols,
                   unsigned levels, bool aligned, const State *state) {
    cusi::startInOrder();
    const T min = fromOrdered<T>(~state->range_notmin), max = fromOrdered<T>(state->range_max);
    const unsigned low = static_cast<unsigned>(min), width = (static_cast<unsigned>(max) - low) / levels;
    const unsigned interval = width ? width : 1;
    const float inverse = 1.0f / static_cast<float>(interval);
    const int x = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        const T *const row = cusi::rowOf(elevation, step, y) + x;
        const T *const below = y + 1 < rows ? cusi::rowOf(elevation, step, y + 1) + x : row;
        const int n = ::min(4, cols - x);
        T v[5], b[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = row[::min(k, n - 1)];
            b[k] = CROSSING ? below[::min(k, n - 1)] : v[k];
        }
        v[4] = CROSSING && x + 4 < cols ? row[4] : v[3];
        unsigned packed = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            bool line;
            if (CROSSING) { // neighbors are mostly equal, and then their bands are
                line = (v[k + 1] != v[k] || b[k] != v[k]) &&
                       (band(v[k], min, max, levels) != band(v[k + 1], min, max, levels) ||
                        band(v[k], min, max, levels) != band(b[k], min, max, levels));
            } else { // where the interval divides it, the rounded quotient is exact
                const unsigned above = static_cast<unsigned>(v[k]) - low;
                line = __float2uint_rn(static_cast<float>(above) * inverse) * interval == above;
            }
            packed |= line ? 255u << (8 * k) : 0;
        }
        unsigned char *const to = cusi::rowOf(out, out_step, y) + x;
        if (aligned && n == 4) {
            *reinterpret_cast<unsigned *>(to) = packed;
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (k < n)
                    to[k] = static_cast<unsigned char>(packed >> (8 * k));
        }
    }
}

template<class T>
__global__ void __launch_bounds__(256)
    pictureKernel(const T *elevation, size_t step, const unsigned char *lines, size_t lines_step, unsigned char *out,
                  size_t out_step, int rows, int cols, const State *state) {
    cusi::startInOrder();
    const T min = fromOrdered<T>(~state->range_notmin), max = fromOrdered<T>(state->range_max);
    const int x = blockIdx.x * 256 + threadIdx.x;
    if (x >= cols)
        return;
    for (int y = blockIdx.y; y < rows; y += gridDim.y) {
        const T e = cusi::rowOf(elevation, step, y)[x];
        const bool black = e == T(0) || (lines && cusi::rowOf(lines, lines_step, y)[x]);
        const uint32_t color = black ? 0 : stereo_color(band(e, min, max, STEREO_COLORS - 1));
        unsigned char *const to = cusi::rowOf(out, out_step, y) + 3 * static_cast<size_t>(x);
        to[0] = static_cast<unsigned char>(color);
        to[1] = static_cast<unsigned char>(color >> 8);
        to[2] = static_cast<unsigned char>(color >> 16);
    }
}

cusStatus findRange(const char *function, const cusMat &elevation, State *state, cudaStream_t stream) {
    int sms = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    const int blocks = std::min(elevation.rows, 8 * sms);
    if (elevation.type == CUS_16UC1)
        return cusi::launchOverlapped(function, rangeKernel<uint16_t>, blocks, 256, 0, stream,
                                      static_cast<const uint16_t *>(elevation.data), elevation.step, elevation.rows,
                                      elevation.cols, state);
    return cusi::launchOverlapped(function, rangeKernel<float>, blocks, 256, 0, stream,
                                  static_cast<const float *>(elevation.data), elevation.step, elevation.rows,
                                  elevation.cols, state);
}

template<class T>
cusStatus contourLines(const char *function, const cusMat &elevation, cusMat &lines, const cusStereoOptions &o,
                       const State *state, cudaStream_t stream) {
    auto *kernel = o.lines == CUS_LINES_CROSSING ? contoursKernel<T, true> : contoursKernel<T, false>;
    const dim3 grid(cusi::divUp(elevation.cols, 4 * 256), std::min(elevation.rows, 65535));
    return cusi::launchOverlapped(function, kernel, grid, 256, 0, stream, static_cast<const T *>(elevation.data),
                                  elevation.step, static_cast<unsigned char *>(lines.data), lines.step, elevation.rows,
                                  elevation.cols, static_cast<unsigned>(o.levels), cusi::isAligned(lines, 4), state);
}

cusStatus contourLines(const char *function, const cusMat &elevation, cusMat &lines, const cusStereoOptions &o,
                       const State *state, cudaStream_t stream) {
    return elevation.type == CUS_16UC1 ? contourLines<uint16_t>(function, elevation, lines, o, state, stream)
                                       : contourLines<float>(function, elevation, lines, o, state, stream);
}

cusStatus clear(const char *function, const StereoScratch &scratch, cudaStream_t stream) {
    CUSI_CUDA(function, cudaMemsetAsync(scratch.block, 0, sizeof(State), stream));
    return CUS_OK;
}

cusStatus elevate(const char *function, const cusMat &left, const cusMat &right, cusMat &elevation,
                  const cusStereoOptions &o, const StereoScratch &scratch, cudaStream_t stream) {
    uint16_t *const out = static_cast<uint16_t *>(elevation.data);
    uint32_t *const keys = static_cast<uint32_t *>(scratch.wide);
    CUS_TRY(oneWay(function, left, right, out, elevation.step, o.direction, o, keys, stream));
    if (o.left_right_check < 0)
        return CUS_OK;
    CUS_TRY(oneWay(function, right, left, scratch.other, sizeof(uint16_t) * static_cast<size_t>(left.cols), -o.direction, o,
                   keys, stream));
    const dim3 grid(cusi::divUp(left.cols, 256), std::min(left.rows, 65535));
    return cusi::launchOverlapped(function, checkKernel, grid, 256, 0, stream, out, elevation.step, scratch.other,
                                  left.rows, left.cols, o.direction, o.left_right_check, o.border == CUS_STEREO_WRAP);
}

} // namespace

cusStatus stereo_cuda_allocate(const char *function, void **block, size_t bytes, cusStream stream) {
    CUSI_CUDA(function, cudaMallocAsync(block, bytes, stream));
    return CUS_OK;
}

void stereo_cuda_free(void *block, cusStream stream) {
    cudaFreeAsync(block, stream);
}

cusStatus stereo_cuda_features(const cusMat *image, cusMat *out, int signs, const cusStereoOptions *options,
                               cusStream stream) {
    return features(signs ? "cusStereoCensus" : "cusStereoEdges", &image, &out, 1, signs, *options, nullptr, stream);
}

cusStatus stereo_cuda_elevation(const cusMat *left, const cusMat *right, cusMat *elevation, const cusStereoOptions *options,
                                const StereoScratch *scratch, cusStream stream) {
    return elevate("cusStereoElevation", *left, *right, *elevation, *options, *scratch, stream);
}

cusStatus stereo_cuda_fill(const cusMat *elevation, cusMat *filled, const cusStereoOptions *options,
                           const StereoScratch *scratch, cusStream stream) {
    CUS_TRY(clear("cusStereoFill", *scratch, stream));
    return fill("cusStereoFill", *elevation, *filled, *options, *scratch, stream);
}

cusStatus stereo_cuda_median(const cusMat *elevation, cusMat *smoothed, int size, cusStream stream) {
    return median("cusStereoMedian", *elevation, *smoothed, size, stream);
}

cusStatus stereo_cuda_contours(const cusMat *elevation, cusMat *contours, const cusStereoOptions *options,
                               const StereoScratch *scratch, cusStream stream) {
    State *const state = static_cast<State *>(scratch->block);
    CUS_TRY(clear("cusStereoContours", *scratch, stream));
    CUS_TRY(findRange("cusStereoContours", *elevation, state, stream));
    return contourLines("cusStereoContours", *elevation, *contours, *options, state, stream);
}

cusStatus stereo_cuda_picture(const cusMat *elevation, const cusMat *contours, cusMat *picture,
                              const StereoScratch *scratch, cusStream stream) {
    static const char function[] = "cusStereoPicture";
    State *const state = static_cast<State *>(scratch->block);
    CUS_TRY(clear(function, *scratch, stream));
    CUS_TRY(findRange(function, *elevation, state, stream));
    const unsigned char *const lines = contours ? static_cast<const unsigned char *>(contours->data) : nullptr;
    const size_t lines_step = contours ? contours->step : 0;
    const dim3 grid(cusi::divUp(elevation->cols, 256), std::min(elevation->rows, 65535));
    unsigned char *const out = static_cast<unsigned char *>(picture->data);
    if (elevation->type == CUS_16UC1)
        return cusi::launchOverlapped(function, pictureKernel<uint16_t>, grid, 256, 0, stream,
                                      static_cast<const uint16_t *>(elevation->data), elevation->step, lines, lines_step,
                                      out, picture->step, elevation->rows, elevation->cols, state);
    return cusi::launchOverlapped(function, pictureKernel<float>, grid, 256, 0, stream,
                                  static_cast<const float *>(elevation->data), elevation->step, lines, lines_step, out,
                                  picture->step, elevation->rows, elevation->cols, state);
}

cusStatus stereo_cuda_map(cusContourMapper *m, const cusMat *left, const cusMat *right, cusMat *elevation, cusMat *contours,
                          cusStream stream) {
    static const char function[] = "cusContourMap";
    const cusStereoOptions &o = m->options;
    State *const state = static_cast<State *>(m->scratch.block);
    cusMat *const unfiltered = o.median ? &m->unfiltered : elevation;
    cusMat *const holes = o.fill != CUS_FILL_NONE ? &m->holes : unfiltered;
    const cusMat *images[2] = {left, right};
    cusMat *outs[2] = {&m->left, &m->right};
    CUS_TRY(features(function, images, outs, 2, o.agreement == CUS_STEREO_CENSUS, o, state, stream));
    CUS_TRY(elevate(function, m->left, m->right, *holes, o, m->scratch, stream));
    if (o.fill != CUS_FILL_NONE)
        CUS_TRY(fill(function, *holes, *unfiltered, o, m->scratch, stream));
    if (o.median)
        CUS_TRY(median(function, *unfiltered, *elevation, o.median, stream));
    if (!contours)
        return CUS_OK;
    const bool iterated = (o.fill == CUS_FILL_ONCE || o.fill == CUS_FILL_RELAX) && o.iterations > 0;
    if (o.median || !iterated) {
        if (iterated) // the fill has left its own range
            CUS_TRY(clear(function, m->scratch, stream));
        CUS_TRY(findRange(function, *elevation, state, stream));
    }
    return contourLines(function, *elevation, *contours, o, state, stream);
}
