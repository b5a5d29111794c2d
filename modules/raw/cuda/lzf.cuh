// How a block decodes a column of a chunk of LZF (frames.h, lzf.h).
//
// Where a token begins is known only after the one before has been read, and what it copies only after that has been
// decoded. A block follows both kinds of chains by pointer doubling. For each byte of a tile it finds where the first token
// after the byte's group of 32 would begin if a token began at that byte; from these it finds the same for a warp's bytes,
// and then, starting at the first token, which bytes do begin tokens. Tokens mark the bytes that they make in a window. A
// thread then gives each byte its value, if it is a literal or copied from an earlier window, or else a link to its source
// in the window. Following all links takes log2 of the longest chain of copies.
#ifndef CUSI_RAW_CUDA_LZF_CUH
#define CUSI_RAW_CUDA_LZF_CUH

#include "lzf.h"
#include "raw/cuda/frames.cuh"

namespace cusi::raw::frames::lzf {

constexpr uint32_t EACH = 4, TILE = EACH * THREADS; // bytes in which a thread's, a block's tokens begin
constexpr uint32_t SPAN = 32 * EACH;                // bytes of a warp
constexpr uint32_t AHEAD = 32;                      // bytes loaded after a tile, for a token that begins in it
constexpr uint32_t ENTRIES = AHEAD + 2;             // bytes of a span at which its first token may begin
constexpr uint32_t STAGED = 4 * TILE;               // bytes loaded at a time
constexpr uint32_t MADE = 16, WINDOW = MADE * THREADS;
constexpr uint32_t RING = 4 * WINDOW; // bytes: the farthest source of a copy, and the window
static_assert(RING >= CUSI_LZF_MAX_DISTANCE + WINDOW && (RING & (RING - 1)) == 0);
constexpr uint32_t VALUE = 0x8000; // flag of a link whose lower bits are the byte itself

// Where a later token begins, and the bytes made before it.
struct Follower {
    uint32_t at, made;
};
// A token's output, which begins at byte `begin` of the column. Literals have distance 0.
struct Copy {
    uint32_t distance, begin;
};

struct Shared {
    alignas(16) uint8_t bytes[STAGED + 32]; // from an address that is a multiple of 16 on
    alignas(16) uint8_t ring[RING];         // byte i of the column at i % RING
    union {
        Follower followers[TILE]; // if a token begins here: the first token after these 32 bytes
        Copy copies[TILE];        // output of the token that begins here
    };
    Follower spans[WARPS][ENTRIES]; // if a token begins at byte 0, 1 .. of a span: the first after it
    uint16_t links[WINDOW];         // first 0 or a mark, which is 1 + the byte of the tile at which the token begins
};

struct Token {
    uint32_t size, made;
    uint32_t distance; // 0: literals
    __device__ explicit Token(const uint8_t *at) {
        const uint32_t control = at[0];
        if (control < 32) {
            size = control + 2;
            made = control + 1;
            distance = 0;
        } else {
            const bool is_long = control >> 5 == 7;
            size = is_long ? 3 : 2;
            made = (control >> 5) + 2 + (is_long ? at[1] : 0);
            distance = ((control & 31) << 8 | at[is_long ? 2 : 1]) + 1;
        }
    }
};

struct Column {
    uint32_t at, size; // offset in the input, bytes
    uint32_t length;   // bytes after decoding
};

struct Tile {
    const uint8_t *bytes;
    uint32_t size, made;   // bytes of all its tokens; bytes they make
    uint32_t begins = 0;   // bit k: a token begins at byte SPAN * warp + 32 * k + lane
    uint32_t before[EACH]; // bytes made before that token
};

// Finds the tokens of a tile, of which `limit` bytes exist. A token may end after these.
__device__ inline Tile findTokens(Shared &shared, const uint8_t *bytes, uint32_t limit) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, span = SPAN * warp;
    Tile tile;
    tile.bytes = bytes;
    limit = min(limit, TILE);
    uint32_t next[EACH], made[EACH], mask[EACH];
#pragma unroll
    for (uint32_t k = 0; k < EACH; ++k) {
        const Token token(bytes + min(span + 32 * k + lane, limit - 1));
        next[k] = lane + token.size;
        made[k] = token.made;
        mask[k] = 1u << lane;
    }
    // At most 16 tokens begin in 32 bytes.
#pragma unroll
    for (int round = 0; round < 4; ++round)
#pragma unroll
        for (uint32_t k = 0; k < EACH; ++k) {
            const bool inside = next[k] < 32 && span + 32 * k + next[k] < limit;
            const int from = static_cast<int>(next[k] % 32);
            const uint32_t n = __shfl_sync(FULL_WARP, next[k], from), m = __shfl_sync(FULL_WARP, made[k], from),
                           b = __shfl_sync(FULL_WARP, mask[k], from);
            if (inside) {
                next[k] = n;
                made[k] += m;
                mask[k] |= b;
            }
        }
#pragma unroll
    for (uint32_t k = 0; k < EACH; ++k)
        shared.followers[span + 32 * k + lane] = {span + 32 * k + next[k], made[k]};
    __syncwarp();
    const uint32_t end = min(span + SPAN, limit);
    const auto pass = [&](Follower f) {
        while (f.at < end) {
            const Follower then = shared.followers[f.at];
            f = {then.at, f.made + then.made};
        }
        return f;
    };
    shared.spans[warp][lane] = pass({span + lane, 0});
    if (lane < ENTRIES - 32)
        shared.spans[warp][32 + lane] = pass({span + 32 + lane, 0});
    __syncthreads();
    Follower f = {0, 0};
    uint32_t first = NONE, made_before = 0;
    for (uint32_t w = 0; w < WARPS; ++w) {
        if (w == warp && f.at < end) {
            first = f.at;
            made_before = f.made;
        }
        if (f.at < min(SPAN * (w + 1), limit)) {
            const Follower then = shared.spans[w][f.at - SPAN * w];
            f = {then.at, f.made + then.made};
        }
    }
    tile.size = f.at;
    tile.made = f.made;
#pragma unroll
    for (uint32_t k = 0; k < EACH; ++k) {
        const uint32_t group = span + 32 * k;
        const bool has = first - group < 32;
        const int from = static_cast<int>(first % 32);
        const uint32_t all = __shfl_sync(FULL_WARP, mask[k], from), to_end = __shfl_sync(FULL_WARP, made[k], from),
                       n = __shfl_sync(FULL_WARP, next[k], from);
        tile.begins |= has && (all >> lane & 1) ? 1u << k : 0;
        tile.before[k] = made_before + (to_end - made[k]);
        if (has) {
            first = group + n;
            if (first >= end)
                first = NONE;
            made_before += to_end;
        }
    }
    return tile;
}

// Returns a / b for numbers up to the longest copy; 0 if b is 0 or greater than a.
__device__ __forceinline__ uint32_t repeats(uint32_t a, uint32_t b) {
    return b && b <= a ? static_cast<uint32_t>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b))) : 0;
}

// Links those bytes of the window at byte `window` of the column that the tile's tokens make, from byte `from` on. Returns
// whether the tokens are well-formed; otherwise the links are invalid.
__device__ inline bool link(Shared &shared, const Tile &tile, uint32_t window, uint32_t from, uint32_t left,
                            uint32_t length) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool good = true;
#pragma unroll
    for (uint32_t k = 0; k < EACH; ++k) {
        if (!(tile.begins >> k & 1))
            continue;
        const uint32_t i = SPAN * warp + 32 * k + lane, begin = from + tile.before[k];
        const Token token(tile.bytes + i);
        good &= i + token.size <= left && begin + token.made <= length && token.distance <= begin;
        shared.copies[i] = {token.distance, begin};
        const uint32_t last = min(begin + token.made, window + WINDOW);
        for (uint32_t j = max(begin, window); j < last; j = (j | 31) + 1)
            shared.links[j - window] = static_cast<uint16_t>(i + 1);
    }
    if (__syncthreads_or(!good))
        return false;
    const uint32_t first = max(from, window) - window, last = min(from + tile.made, window + WINDOW) - window;
#pragma unroll 4
    for (uint32_t group = (first & ~31u) + 32 * warp; group < last; group += 32 * WARPS) {
        const uint32_t j = group + lane;
        const bool is_ours = j >= first && j < last;
        const uint32_t mark = is_ours ? shared.links[j] : 0,
                       marked = __ballot_sync(FULL_WARP, mark != 0) & (FULL_WARP >> (31 - lane)),
                       i = max(__shfl_sync(FULL_WARP, mark, marked ? 31 - __clz(static_cast<int>(marked)) : 0), 1u);
        const auto [distance, begin] = shared.copies[i - 1];
        const uint32_t at = is_ours ? window + j - begin : 0;
        // A copy that overlaps its own output repeats what precedes it.
        const uint32_t source = begin - distance + (at - repeats(at, distance) * distance);
        const uint8_t value = *(distance ? shared.ring + source % RING : tile.bytes + i + at);
        if (is_ours)
            shared.links[j] = static_cast<uint16_t>(distance && source >= window ? source - window : VALUE | value);
    }
    __syncthreads();
    return true;
}

// Replaces the links of the window's n bytes by their values.
__device__ inline void follow(Shared &shared, uint32_t window, uint32_t n) {
    uint32_t links[MADE];
#pragma unroll
    for (uint32_t k = 0; k < MADE; ++k)
        links[k] = threadIdx.x + k * THREADS < n ? shared.links[threadIdx.x + k * THREADS] : VALUE;
    for (;;) {
        uint32_t changed = 0;
#pragma unroll
        for (uint32_t k = 0; k < MADE; ++k)
            if (!(links[k] & VALUE)) {
                links[k] = shared.links[links[k]];
                changed |= 1u << k;
            }
        if (!__syncthreads_or(changed != 0))
            break;
#pragma unroll
        for (uint32_t k = 0; k < MADE; ++k)
            if (changed >> k & 1)
                shared.links[threadIdx.x + k * THREADS] = static_cast<uint16_t>(links[k]);
        __syncthreads();
    }
#pragma unroll
    for (uint32_t k = 0; k < MADE; ++k)
        if (threadIdx.x + k * THREADS < n) {
            shared.ring[(window + threadIdx.x + k * THREADS) % RING] = static_cast<uint8_t>(links[k]);
            shared.links[threadIdx.x + k * THREADS] = 0;
        }
    __syncthreads();
}

// Decodes a column, and calls emit(window, n) when the n bytes from `window` on are in the ring. Returns whether the column
// is well-formed. The whole block calls it.
template<class Emit>
__device__ bool decodeColumn(const Source &s, Shared &shared, const Column &column, bool is_plain, const Emit &emit) {
    if (is_plain) {
        for (uint32_t at = 0; at < column.length; at += TILE) {
            const uint32_t n = min(TILE, column.length - at);
            __syncthreads();
            const uint8_t *const bytes = shared.bytes + stage(s, column.at + at, n, shared.bytes);
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < n; i += THREADS)
                shared.ring[(at + i) % RING] = bytes[i];
            __syncthreads();
            emit(at, n);
        }
        return column.size == column.length;
    }
    uint32_t made = 0, window = 0, at = 0, staged = 0, offset = 0, from = 0;
    for (uint32_t i = threadIdx.x; i < WINDOW; i += THREADS)
        shared.links[i] = 0;
    while (at < column.size) {
        const uint32_t left = column.size - at;
        __syncthreads();
        if (at == 0 || at + min(left, TILE + AHEAD) > staged) {
            from = at;
            staged = at + min(left, STAGED);
            offset = stage(s, column.at + at, staged - at, shared.bytes);
            __syncthreads();
        }
        const Tile tile = findTokens(shared, shared.bytes + offset + (at - from), left);
        for (;;) {
            if (!link(shared, tile, window, made, left, column.length))
                return false;
            const uint32_t n = min(WINDOW, column.length - window);
            if (made + tile.made < window + n)
                break;
            follow(shared, window, n);
            emit(window, n);
            window += n;
            if (window == column.length || made + tile.made == window)
                break;
        }
        made += tile.made;
        at += tile.size;
    }
    return at == column.size && made == column.length;
}

struct Codec {
    static constexpr int PARTS = CUSI_COLUMNS;
    using Shared = lzf::Shared;

    static __device__ void prepare(Shared &) {}

    // Decodes a column of a chunk, which must have the target's events. Returns false if this column is malformed, or
    // another column claims too many bytes. Sets `odd` if one of this thread's events is bad. The whole block calls it.
    static __device__ bool decode(const Source &s, Shared &shared, uint32_t start, uint32_t size, const Target &to,
                                  int which, bool &odd) {
        const uint32_t rows = s.number(start), flags = s.number(start + 4), taken = to.first + to.count,
                       width = cusi_columnWidth(which, flags);
        const unsigned long long offset = s.number(start + 8) | static_cast<unsigned long long>(s.number(start + 12)) << 32;
        if (rows < taken || rows > CUSI_CHUNK_MAX_EVENTS || flags > CUSI_COLUMNS_FLAGS)
            return false;
        Column column = {};
        bool is_plain = false;
        uint32_t before = CUSI_COLUMNS_HEADER;
        for (int k = 0; k < CUSI_COLUMNS; ++k) {
            const uint32_t stored = s.number(start + 16 + 4 * k), bytes = stored & ~CUSI_COLUMNS_PLAIN;
            if (bytes > size - before)
                return false;
            if (k == which) {
                column = {start + before, bytes, rows * width};
                is_plain = stored != bytes;
            }
            before += bytes;
        }
        if (before != size || (is_plain && column.size != column.length))
            return false;
        const auto timeAt = [&](uint32_t i, bool &good) {
            const uint8_t *const at = shared.ring + i * width % RING;
            unsigned long long t;
            if (flags & CUSI_COLUMNS_SHORT_T) {
                t = *reinterpret_cast<const uint32_t *>(at);
                if (flags & CUSI_COLUMNS_SIGNED_T)
                    t = static_cast<unsigned long long>(static_cast<long long>(static_cast<int32_t>(t)));
            } else {
                t = *reinterpret_cast<const unsigned long long *>(at);
                good &= (flags & CUSI_COLUMNS_SIGNED_T) || t >> 62 == 0;
            }
            t += offset;
            good &= t >> 62 == 0;
            return t;
        };
        bool good = true;
        const bool formed = decodeColumn(s, shared, column, is_plain, [&](uint32_t window, uint32_t n) {
            const uint32_t last = min((window + n) / width, taken);
            for (uint32_t i = window / width + threadIdx.x; i < last; i += THREADS) {
                const uint32_t at = i * width % RING;
                if (which < 2) {
                    const uint32_t value = *reinterpret_cast<const uint16_t *>(shared.ring + at);
                    if (which == 0)
                        to.putX(i, value, odd);
                    else
                        to.putY(i, value, odd);
                } else if (which == 2) {
                    const uint32_t value = shared.ring[at];
                    to.putP(i, (flags & CUSI_COLUMNS_SIGNED_P) && value == 255 ? 0 : value, odd);
                } else {
                    const unsigned long long t = timeAt(i, good);
                    odd |= i > to.first && t < timeAt(i - 1, good);
                    to.putTime(i, t);
                }
            }
        });
        return !__syncthreads_or(!formed || !good);
    }
};

} // namespace cusi::raw::frames::lzf

#endif
