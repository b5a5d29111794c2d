// The kernel for thin images: up to 64 columns or up to 32 rows. Tiles of integral_kernel.cuh would be mostly empty there.
//
// A tile takes a piece of the length and the whole side, so that there is one chain only, along the length. Lanes and
// registers are dealt out to fit the side: `lanes` neighboring lanes, and ACROSS registers of each, go across it; the other
// lanes, registers and warps follow each other along the length. Columns and rows differ in nothing but two distances in
// memory. Indices count entries of the table, of which the first in each direction has no pixel. Across the side, `skipped`
// decides whether a lane goes to that entry, or the block writes its zeros apart.
#ifndef CUSI_INTEGRAL_THIN_CUH
#define CUSI_INTEGRAL_THIN_CUH

#include "integral_store.cuh"

namespace cusi::integral {

namespace thin {
constexpr unsigned WARPS = 8, THREADS = 32 * WARPS;
constexpr unsigned MAX_SIDE = 64;
constexpr unsigned PARTS = 4, BATCH = 8; // threads that share a look-back, words that each loads together
static_assert(PARTS * MAX_SIDE <= THREADS && PARTS * BATCH == tuning::GROUP, "");
template<class Pixel>
constexpr unsigned VALUES = sizeof(Pixel) == 1 ? 16 : 8; // pixels of a lane
} // namespace thin

// A slab: entries first .. end - 1 along the length, 0 .. side - 1 across.
struct ThinParams {
    const unsigned char *src;
    size_t along, across; // from pixel to pixel, in bytes
    unsigned first, end, side;
    unsigned skipped; // entries before the first lane's: 1 if the zeros are written apart, else 0
    unsigned lanes;   // that go across the side: a power of two
    LaunchState *state;
};

template<class T>
struct ThinTable {
    using Acc = typename T::Acc;
    using Entry = typename T::Entry;
    TaggedWord *sums;     // [tile][entry across, without those skipped]
    TaggedWord *prefixes; // [group of tiles][the same]
    Entry *out;
    size_t along, across;

    __device__ Entry *at(unsigned i, unsigned j) const { return rowOf(rowOf(out, along, i), across, j); }
};
template<>
struct ThinTable<NoTable> {};

struct ThinPosition {
    unsigned lane, warp;
    unsigned across;       // the lane's first entry across
    unsigned begin, pitch; // its first entry along, and how far the next one is
    unsigned tile_begin, tile_end;
    uint32_t epoch;
};

template<class Pixel, unsigned ACROSS>
__device__ __forceinline__ ThinPosition thinPosition(const ThinParams &p) {
    ThinPosition at;
    at.lane = threadIdx.x % 32;
    at.warp = threadIdx.x / 32;
    at.across = at.lane % p.lanes + p.skipped;
    at.pitch = 32 / p.lanes;
    const unsigned warp_length = thin::VALUES<Pixel> / ACROSS * at.pitch;
    at.tile_begin = p.first + blockIdx.x * thin::WARPS * warp_length;
    at.tile_end = min(at.tile_begin + thin::WARPS * warp_length, p.end);
    at.begin = at.tile_begin + at.warp * warp_length + at.lane / p.lanes;
    return at;
}

template<unsigned ACROSS, class Pixel, unsigned N>
__device__ __forceinline__ void loadThin(Pixel (&pixels)[N], const ThinParams &p, const ThinPosition &at) {
    const unsigned char *from = rowOf(p.src, p.along, at.begin) + at.across * p.across - p.along - p.across;
    unsigned i = at.begin - 1; // of the pixel, as j
#pragma unroll
    for (unsigned r = 0; r < N; r += ACROSS, i += at.pitch, from += at.pitch * p.along)
#pragma unroll
        for (unsigned k = 0; k < ACROSS; ++k) {
            const unsigned j = at.across + k * p.lanes - 1;
            pixels[r + k] = i < p.end - 1 && j < p.side - 1
                                ? __ldg(reinterpret_cast<const Pixel *>(from + k * p.lanes * p.across))
                                : Pixel(0);
        }
}

// A block's work on one table.
template<class Pixel, bool SQUARES, class T, unsigned ACROSS, bool BOTH>
struct ThinBuilder {
    using Acc = typename T::Acc;
    using Sum = typename Pixels4<Pixel>::Sum; // of a tile
    static constexpr unsigned N = thin::VALUES<Pixel>;
    struct Shared {
        Sum warps[thin::WARPS][thin::MAX_SIDE];    // the warps' sums up to each entry across
        Acc parts[2][thin::PARTS][thin::MAX_SIDE]; // of the tiles of the group, of the groups before
        Acc before[thin::MAX_SIDE];                // of all tiles before this one
    };
    Shared &shared;
    const ThinTable<T> &table;
    const ThinParams &p;
    const ThinPosition &at;
    const unsigned side, entry, part; // all lanes' entries across; the thread's in the look-back
    Sum v[N];                         // sums inside the warp's piece
    Acc own, before;                  // up to the thread's entry: in the tile, in the tiles before it

    // Where both tables are computed, different warps look back if the side is small enough.
    __device__ ThinBuilder(Shared &shared_, const ThinTable<T> &table_, const ThinParams &p_, const ThinPosition &at_)
        : shared(shared_), table(table_), p(p_), at(at_), side(ACROSS * p.lanes), entry(threadIdx.x % side),
          part((threadIdx.x ^ (BOTH && SQUARES ? thin::THREADS / 2 : 0)) / side) {}

    __device__ __forceinline__ static Sum value(Pixel pixel) {
        if constexpr (sizeof(Pixel) == 1)
            return SQUARES ? Sum(pixel) * pixel : Sum(pixel);
        else
            return Pixels4<Pixel>::template value<SQUARES>(pixel);
    }
    // Sums inside the warp's piece, first across, then along.
    __device__ __forceinline__ void sumTile(const Pixel (&pixels)[N]) {
#pragma unroll
        for (unsigned r = 0; r < N; ++r)
            v[r] = value(pixels[r]);
#pragma unroll
        for (unsigned d = 1; d < 32; d *= 2) {
            const bool adds = (d < p.lanes ? at.lane % p.lanes : at.lane) >= d;
#pragma unroll
            for (unsigned r = 0; r < N; ++r) {
                const Sum other = __shfl_up_sync(FULL_WARP, v[r], d);
                if (adds)
                    v[r] += other;
            }
        }
#pragma unroll
        for (unsigned r = 0; r < N; ++r)
            if (r % ACROSS > 0)
                v[r] += __shfl_sync(FULL_WARP, v[r - 1], at.lane | (p.lanes - 1));
        Sum totals[ACROSS] = {};
#pragma unroll
        for (unsigned r = 0; r < N; ++r) {
            const Sum last = __shfl_sync(FULL_WARP, v[r], 32 - p.lanes + at.lane % p.lanes);
            v[r] += totals[r % ACROSS];
            totals[r % ACROSS] += last;
        }
        if (at.lane < p.lanes)
#pragma unroll
            for (unsigned k = 0; k < ACROSS; ++k)
                shared.warps[at.warp][at.lane + k * p.lanes] = totals[k];
    }

    __device__ __forceinline__ TaggedWord *word(TaggedWord *words, size_t words_each, unsigned number) const {
        return words + (static_cast<size_t>(number) * side + entry) * words_each;
    }
    // The sum of the thread's part of what tiles or groups first .. end - 1 published.
    template<class Item>
    __device__ __forceinline__ Acc lookBack(TaggedWord *words, unsigned first, unsigned end) const {
        Acc sum[1] = {};
        LookBack<Item, 1, thin::BATCH>(word(words, sizeof(Item) / 4, min(first + part, end)), thin::PARTS * side, 0,
                                       divUp(end - min(first + part, end), thin::PARTS))
            .addTo(sum, at.epoch);
        return sum[0];
    }
    __device__ __forceinline__ Acc sumOfParts(unsigned which) const {
        Acc sum = shared.parts[which][0][entry];
#pragma unroll
        for (unsigned k = 1; k < thin::PARTS; ++k)
            sum += shared.parts[which][k][entry];
        return sum;
    }
    __device__ __forceinline__ void publishPrefix(Acc sum) const {
        const Acc sums[1] = {sum};
        Published<Acc, 1>::store(word(table.prefixes, sizeof(Acc) / 4, blockIdx.x / tuning::GROUP), sums, at.epoch);
    }
    // The last tile of a group publishes the group's total, which waits for no earlier group, instead of its own sum; and the
    // last of a group of groups everything up to and including itself. Barriers separate the steps.
    __device__ __forceinline__ void lookBackInGroup() {
        const unsigned tile = blockIdx.x;
        if (part == 0) {
            Sum sum[1] = {shared.warps[0][entry]};
#pragma unroll
            for (unsigned w = 1; w < thin::WARPS; ++w)
                sum[0] += shared.warps[w][entry];
            own = static_cast<Acc>(sum[0]);
            if (!endsGroup(tile, tuning::GROUP))
                Published<Sum, 1>::store(word(table.sums, sizeof(Sum) / 4, tile), sum, at.epoch);
        }
        if (part < thin::PARTS)
            shared.parts[0][part][entry] = lookBack<Sum>(table.sums, groupStart(tile, tuning::GROUP), tile);
    }
    __device__ __forceinline__ void lookBackGroups() {
        const unsigned group = blockIdx.x / tuning::GROUP;
        if (part == 0) {
            before = sumOfParts(0);
            if (endsGroup(blockIdx.x, tuning::GROUP) && !endsGroup(group, tuning::GROUP))
                publishPrefix(before + own);
        }
        if (part < thin::PARTS)
            shared.parts[1][part][entry] = lookBack<Acc>(table.prefixes, firstGroup(group), group);
    }
    __device__ __forceinline__ void addBefore() {
        if (part > 0)
            return;
        before += sumOfParts(1);
        if (endsGroup(blockIdx.x, tuning::GROUP * tuning::GROUP))
            publishPrefix(before + own);
        if (p.first > 0 && entry + p.skipped < p.side) // all of this counts from the start of the slab
            before += static_cast<Acc>(*table.at(p.first - 1, entry + p.skipped));
        shared.before[entry] = before;
    }

    __device__ __forceinline__ void store() const {
        Acc start[ACROSS];
#pragma unroll
        for (unsigned k = 0; k < ACROSS; ++k) {
            const unsigned j = at.lane % p.lanes + k * p.lanes;
            start[k] = shared.before[j] + BIAS<Acc>;
#pragma unroll
            for (unsigned w = 0; w < thin::WARPS - 1; ++w)
                if (w < at.warp)
                    start[k] += static_cast<Acc>(shared.warps[w][j]);
        }
        char *to = reinterpret_cast<char *>(table.at(at.begin, at.across));
        unsigned i = at.begin;
#pragma unroll
        for (unsigned r = 0; r < N; r += ACROSS, i += at.pitch, to += at.pitch * table.along)
#pragma unroll
            for (unsigned k = 0; k < ACROSS; ++k)
                if (i < p.end && at.across + k * p.lanes < p.side)
                    *reinterpret_cast<typename T::Entry *>(to + k * p.lanes * table.across) =
                        toEntry(start[k] + static_cast<Acc>(v[r + k]));
        if (p.skipped)
            for (i = at.tile_begin + threadIdx.x; i < at.tile_end; i += thin::THREADS)
                *table.at(i, 0) = 0;
    }
};
// A table that was not requested.
template<class Pixel, bool SQUARES, unsigned ACROSS, bool BOTH>
struct ThinBuilder<Pixel, SQUARES, NoTable, ACROSS, BOTH> {
    struct Shared {};
    __device__ ThinBuilder(Shared &, const ThinTable<NoTable> &, const ThinParams &, const ThinPosition &) {}
    __device__ void sumTile(const Pixel (&)[thin::VALUES<Pixel>]) {}
    __device__ void lookBackInGroup() {}
    __device__ void lookBackGroups() {}
    __device__ void addBefore() {}
    __device__ void store() const {}
};

template<class Pixel, class SumTable, class SquareTable, unsigned ACROSS>
__global__ void __launch_bounds__(thin::THREADS, EXISTS<SumTable> &&EXISTS<SquareTable> ? 2 : 3)
    thinKernel(const ThinParams p, const ThinTable<SumTable> sum_table, const ThinTable<SquareTable> square_table) {
    constexpr bool BOTH = EXISTS<SumTable> && EXISTS<SquareTable>;
    using Sums = ThinBuilder<Pixel, false, SumTable, ACROSS, BOTH>;
    using Squares = ThinBuilder<Pixel, true, SquareTable, ACROSS, BOTH>;
    __shared__ typename Sums::Shared sum_shared;
    __shared__ typename Squares::Shared squares_shared;
    startInOrder();
    ThinPosition at = thinPosition<Pixel, ACROSS>(p);
    at.epoch = max((__ldcg(&p.state->epoch) + 1) & MAX_EPOCH, 1u);
    Pixel pixels[thin::VALUES<Pixel>];
    loadThin<ACROSS>(pixels, p, at);
    Sums sums(sum_shared, sum_table, p, at);
    Squares squares(squares_shared, square_table, p, at);
    sums.sumTile(pixels);
    squares.sumTile(pixels);
    __syncthreads();
    sums.lookBackInGroup();
    squares.lookBackInGroup();
    __syncthreads();
    sums.lookBackGroups();
    squares.lookBackGroups();
    __syncthreads();
    // The last tile has waited, directly or through others, for words of every block, so all have read the state.
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1)
        p.state->epoch = at.epoch;
    sums.addBefore();
    squares.addBefore();
    __syncthreads();
    sums.store();
    squares.store();
}

} // namespace cusi::integral

#endif
