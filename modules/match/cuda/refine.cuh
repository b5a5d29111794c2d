// Refinement finds the best match: it computes the exact cost of every position whose range begins at or below the least
// upper end, and keeps the best. refineKernel and refineExactKernel share this code.
#ifndef CUSI_MATCH_CUDA_REFINE_CUH
#define CUSI_MATCH_CUDA_REFINE_CUH

#include "match/cuda/windows.cuh"

namespace cusi::match {

constexpr int REFINE_THREADS = 384, REFINE_WARPS = REFINE_THREADS / 32;
constexpr int MAX_TILES = 256; // the list overflows with more tiles, or with more positions than listLimit()
static_assert(REFINE_THREADS == MATCH_LANES);
constexpr int ITEMS = 16; // tiles or positions that a thread examines at a time

// ---- Comparing candidates, and the result of the best one

__device__ __forceinline__ Candidate noCandidate() {
    return {INFINITY, ~0ull};
}
__device__ inline bool isBetter(const Candidate &a, const Candidate &b) {
    return a.cost < b.cost || (a.cost == b.cost && a.position < b.position);
}

// Return the best of a warp, or of a block of COUNT warps, valid only in the first lane or thread.
__device__ __forceinline__ Candidate warpBestToFirst(Candidate best) {
    for (int d = 16; d; d /= 2) {
        const Candidate other = {__shfl_down_sync(cusi::FULL_WARP, best.cost, d),
                                 __shfl_down_sync(cusi::FULL_WARP, best.position, d)};
        if (isBetter(other, best))
            best = other;
    }
    return best;
}
template<int COUNT>
__device__ Candidate blockBestToFirst(Candidate best) {
    __shared__ Candidate warps[COUNT];
    best = warpBestToFirst(best);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < COUNT; ++w)
            if (isBetter(warps[w], best))
                best = warps[w];
    return best;
}

// Makes the result of the best position. around: exact costs of its neighbors, in the order of match_neighbor(); NULL if no
// fractions of a pixel are wanted.
__device__ __forceinline__ cusMatch matchOf(const MatchModel &m, const Candidate &best, const double *around) {
    cusMatch match = {-1, -1, NAN, 0, 0, 0, -1};
    if (best.position == ~0ull || !(best.cost * m.unit <= m.limit_cost))
        return match;
    const unsigned position = static_cast<unsigned>(best.position); // a map has less than 2^32
    match.x = static_cast<int>(position % m.ocols);
    match.y = static_cast<int>(position / m.ocols);
    match.score = (match_smallestIsBest(m.method) ? best.cost : 0 - best.cost) * m.unit;
    if (around)
        match_setFractions(&match, best.cost, around);
    return match;
}

// ---- Exact sums and costs of single windows, from the pixels

// Sums over a part of one window. For bytes: squared differences for SQDIFF, otherwise products. For floats: both, and
// the window's own sums.
template<class T>
struct PartialSums {
    unsigned long long sum = 0;
    __device__ void add(const PartialSums &other) { sum += other.sum; }
    __device__ void addLaneBelow(int d) { sum += __shfl_down_sync(cusi::FULL_WARP, sum, d); }
};
template<>
struct PartialSums<float> {
    double ssd = 0, c = 0, s2 = 0, s1[MATCH_MAX_CHANNELS] = {};
    __device__ void add(const PartialSums &other) {
        ssd += other.ssd, c += other.c, s2 += other.s2;
#pragma unroll
        for (int i = 0; i < MATCH_MAX_CHANNELS; ++i)
            s1[i] += other.s1[i];
    }
    __device__ void addLaneBelow(int d) {
        ssd += __shfl_down_sync(cusi::FULL_WARP, ssd, d);
        c += __shfl_down_sync(cusi::FULL_WARP, c, d);
        s2 += __shfl_down_sync(cusi::FULL_WARP, s2, d);
#pragma unroll
        for (double &sum : s1)
            sum += __shfl_down_sync(cusi::FULL_WARP, sum, d);
    }
    __device__ void fromFirstLane() {
        ssd = __shfl_sync(cusi::FULL_WARP, ssd, 0);
        c = __shfl_sync(cusi::FULL_WARP, c, 0);
        s2 = __shfl_sync(cusi::FULL_WARP, s2, 0);
#pragma unroll
        for (double &sum : s1)
            sum = __shfl_sync(cusi::FULL_WARP, sum, 0);
    }
};

// Sums over the warp or the block, valid only in the first lane or thread.
template<class T>
__device__ __forceinline__ void warpSumToFirst(PartialSums<T> &part) {
    for (int d = 16; d; d /= 2)
        part.addLaneBelow(d);
}
template<class T>
__device__ PartialSums<T> blockSumToFirst(PartialSums<T> part) {
    __shared__ PartialSums<T> warps[REFINE_WARPS];
    warpSumToFirst(part);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < REFINE_WARPS; ++w)
            part.add(warps[w]);
    return part;
}

// Loads 16 bytes at any address of a row that continues for `left` bytes, at least one; bytes beyond its end are arbitrary.
// Only aligned words that contain a byte of the row are read. There are no branches, so that loads of several calls
// overlap.
struct Unaligned16 {
    uint32_t words[5];
    unsigned shift;

    __device__ void load(const unsigned char *p, int left) {
        const uintptr_t address = reinterpret_cast<uintptr_t>(p);
        const uint32_t *at = reinterpret_cast<const uint32_t *>(address & ~uintptr_t{3});
        const int last = (static_cast<int>(address & 3) + min(left, 16) - 1) / 4;
#pragma unroll
        for (int i = 0; i < 5; ++i)
            words[i] = __ldg(at + min(i, last));
        shift = static_cast<unsigned>(address & 3) * 8;
    }
    __device__ uint32_t operator[](int i) const {
        return __funnelshift_r(words[i], words[i + 1], shift);
    }
};

// Visits units `first`, `first` + `stride`, ... of a window's rows from j0 on, each of which has `units` units.
struct UnitCursor {
    int j, unit;
    const int units, down, along;
    __device__ UnitCursor(int units_, int j0, int first, int stride)
        : j(j0 + first / units_), unit(first % units_), units(units_), down(stride / units_), along(stride % units_) {}
    __device__ void next() {
        j += down;
        unit += along;
        if (unit >= units) {
            unit -= units;
            ++j;
        }
    }
};

// Returns the sum of products of 16 bytes of a window with the template's, or for SQDIFF of their squared differences.
// Only the first `left` bytes count.
__device__ __forceinline__ uint32_t multiply16(const Unaligned16 &pixels, const uint4 &templ, const uint4 &mask,
                                               bool masked, int left, bool squared) {
    const uint32_t t[4] = {templ.x, templ.y, templ.z, templ.w};
    const uint32_t kept[4] = {mask.x, mask.y, mask.z, mask.w};
    uint32_t sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int bytes = left - 4 * i;
        const uint32_t inside = bytes >= 4 ? ~0u : bytes <= 0 ? 0 : (1u << (8 * bytes)) - 1;
        const uint32_t a = pixels[i] & inside & (masked ? kept[i] : ~0u), b = t[i] & inside;
        product = __dp4a(a, b, product);
        if (squared)
            sum = __dp4a(b, b, __dp4a(a, a, sum));
    }
    return squared ? sum - 2 * product : product;
}

// One thread's part of the window at (y, x) of template k: units `first`, `first` + `stride`, ... of rows j0 to j1 - 1. A
// unit is 16 bytes, or one pixel of floats. Templates and masks are zero-padded.
struct WindowPart {
    int k, y, x, j0, j1, first, stride;
};

__device__ __forceinline__ PartialSums<uint8_t> sumBytes(const MatchModel &m, const Frame &frame,
                                                         const Templates &templates, const WindowPart &w) {
    constexpr int UNROLL = 4;
    PartialSums<uint8_t> part;
    const int row = m.w * m.channels, rest = (m.cols - w.x) * m.channels; // bytes: a window's row; left in the frame's row
    UnitCursor at(cusi::divUp(row, 16), w.j0, w.first, w.stride);
    while (at.j < w.j1) {
        Unaligned16 pixels[UNROLL];
        uint4 templ[UNROLL], mask[UNROLL];
        int left[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const bool busy = at.j < w.j1;
            const int line = busy ? at.j : w.j0, unit = busy ? at.unit : 0;
            const unsigned char *a = cusi::rowOf(static_cast<const unsigned char *>(frame.data), frame.step, w.y + line) +
                                     static_cast<size_t>(w.x) * m.channels;
            const unsigned char *b = templates.pixels + w.k * templates.bytes + line * templates.step;
            pixels[u].load(a + 16 * unit, rest - 16 * unit);
            templ[u] = __ldg(reinterpret_cast<const uint4 *>(b) + unit);
            if (templates.mask)
                mask[u] = __ldg(reinterpret_cast<const uint4 *>(templates.mask + line * templates.mask_step) + unit);
            left[u] = busy ? row - 16 * unit : 0;
            at.next();
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            part.sum +=
                multiply16(pixels[u], templ[u], mask[u], templates.mask != nullptr, left[u], m.method == CUS_MATCH_SQDIFF);
    }
    return part;
}

// What a window's pixels are centered by, match_center(). All lanes of the warp must take part; all get the same values.
struct Centers {
    double v[MATCH_MAX_CHANNELS] = {};

    __device__ __forceinline__ Centers(const MatchModel &m, const Frame &frame, const Templates &templates, int y, int x) {
        if (!m.samples)
            return;
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int c = 0; c < MATCH_MAX_CHANNELS; ++c) {
            if (c >= m.channels)
                break;
            const auto pixel = [&](unsigned at) {
                return cusi::rowOf(static_cast<const float *>(frame.data), frame.step,
                                   y + at / m.w)[(static_cast<size_t>(x) + at % m.w) * m.channels + c];
            };
            double sums[MATCH_LANES / 32];
#pragma unroll
            for (int i = 0; i < MATCH_LANES / 32; ++i)
                sums[i] = 32 * i + lane < m.samples ? pixel(templates.samples[32 * i + lane]) : 0;
            double sum = 0;
#pragma unroll
            for (int i = 0; i < MATCH_LANES / 32; ++i) {
                for (int d = 16; d; d /= 2)
                    sums[i] += __shfl_down_sync(cusi::FULL_WARP, sums[i], d);
                sum += sums[i];
            }
            v[c] = match_center(__shfl_sync(cusi::FULL_WARP, sum, 0), m.samples, pixel(0));
        }
    }
};

// CN is 1 for one channel without weights, otherwise MATCH_MAX_CHANNELS.
template<int CN>
__device__ __forceinline__ PartialSums<float> sumFloatsOf(const MatchModel &m, const Frame &frame,
                                                          const Templates &templates, const Centers &centers,
                                                          const WindowPart &w) {
    PartialSums<float> part;
    const int channels = CN == 1 ? 1 : m.channels;
    const double *const shift = templates.sums[w.k].shift;
    for (UnitCursor at(m.w, w.j0, w.first, w.stride); at.j < w.j1; at.next()) {
        const size_t element = static_cast<size_t>(at.unit) * channels;
        const float *a = cusi::rowOf(static_cast<const float *>(frame.data), frame.step, w.y + at.j) +
                         static_cast<size_t>(w.x) * channels + element;
        const float *b =
            reinterpret_cast<const float *>(templates.pixels + w.k * templates.bytes + at.j * templates.step) + element;
#pragma unroll
        for (int c = 0; c < CN; ++c) {
            if (c >= channels)
                break;
            if (templates.mask && !templates.mask[at.j * templates.mask_step + element + c])
                continue;
            double weight = 1;
            if (CN > 1 && templates.weights)
                weight = templates.weights[static_cast<size_t>(at.j) * m.w * channels + element + c];
            weight *= weight;
            const double pixel = a[c], templ = b[c], centered = pixel - centers.v[c];
            part.ssd += weight * ((pixel - templ) * (pixel - templ));
            part.c += weight * (centered * (templ - shift[c]));
            part.s1[c] += centered;
            part.s2 += weight * (centered * centered);
        }
    }
    return part;
}
static __device__ __noinline__ PartialSums<float> sumAnyFloats(const MatchModel &m, const Frame &frame,
                                                               const Templates &templates, const Centers &centers,
                                                               const WindowPart &w) {
    return sumFloatsOf<MATCH_MAX_CHANNELS>(m, frame, templates, centers, w);
}

__device__ __forceinline__ PartialSums<float> sumFloats(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                        const Centers &centers, const WindowPart &part) {
    return m.channels == 1 && !m.weighted ? sumFloatsOf<1>(m, frame, templates, centers, part)
                                          : sumAnyFloats(m, frame, templates, centers, part);
}

// Returns costs from a window's exact sums. For bytes, the window's own sums are read from memory.
__device__ __forceinline__ double costOfScore(const MatchModel &m, double score) {
    return match_smallestIsBest(m.method) ? score : -score;
}
__device__ inline double exactCost(const MatchModel &m, const Templates &templates, const Windows &windows, int k, int y,
                                   int x, const PartialSums<uint8_t> &part) {
    const MatchTemplate &t = templates.sums[k];
    const double sum = static_cast<double>(part.sum);
    if (m.method == CUS_MATCH_SQDIFF)
        return costOfScore(m, match_score(&m, &t, m.shift, sum, nullptr, 0, sum));
    double s1[MATCH_MAX_CHANNELS] = {}, s2 = 0, c = sum; // all integers below 2^53
    windowAt<uint8_t>(m, windows, y, x, s1, s2);
    for (int i = 0; i < m.channels; ++i)
        c -= m.shift[i] * (s1[i] + t.raw_t1[i]);
    return costOfScore(m, match_score(&m, &t, m.shift, c, s1, s2, s2 - 2 * c + t.t2));
}
__device__ inline double exactCost(const MatchModel &m, const Templates &templates, const Centers &centers, int k,
                                   const PartialSums<float> &part) {
    double scale[MATCH_MAX_CHANNELS];
#pragma unroll
    for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
        scale[c] = fabs(centers.v[c]);
    const MatchTemplate &t = templates.sums[k];
    return costOfScore(m, match_score(&m, &t, scale, part.c, part.s1, part.s2, part.ssd));
}

// ---- Listed candidates: all blocks share the sums, the last one to finish goes on

// Returns the part of thread `first` of `stride` in slice `slice` of `slices` of the window at a position.
__device__ __forceinline__ WindowPart partOf(const MatchModel &m, int k, unsigned position, int slice, int slices,
                                             int first, int stride) {
    const int each = cusi::divUp(m.h, slices), j0 = min(slice * each, m.h);
    return {
        k,     static_cast<int>(position / m.ocols), static_cast<int>(position % m.ocols), j0, min(j0 + each, m.h), first,
        stride};
}

// Returns how many slices each of `windows` windows has. For floats the number must not depend on the number of blocks,
// since it decides the order of sums.
template<class T>
__device__ __forceinline__ int slicesFor(const MatchModel &m, int windows) {
    return sizeof(T) > 1 ? match_slices(&m) : windows ? max(1, min(m.h, static_cast<int>(gridDim.x) / windows)) : 1;
}

// Returns the block's sum over a slice; valid only in the first thread.
template<class T>
__device__ __forceinline__ PartialSums<T> sumSlice(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                   int k, unsigned position, int slice, int slices) {
    const WindowPart part = partOf(m, k, position, slice, slices, static_cast<int>(threadIdx.x), REFINE_THREADS);
    if constexpr (sizeof(T) == 1)
        return blockSumToFirst(sumBytes(m, frame, templates, part));
    else
        return blockSumToFirst(sumFloats(m, frame, templates, Centers(m, frame, templates, part.y, part.x), part));
}

// Sums over the block's share of all slices of windows. Each listed candidate has `each` windows: its own or, if that is 5,
// those of its four neighbors, too.
template<class T>
__device__ __forceinline__ void sumSlices(const MatchModel &m, const Frame &frame, const Templates &templates, int k,
                                          const unsigned *candidates, int windows, int each, int slices,
                                          PartialSums<T> *partial) {
    for (int item = blockIdx.x; item < windows * slices; item += gridDim.x) {
        const int window = item / slices, beside = window % each;
        uint64_t position = candidates[window / each];
        if (beside)
            position = match_neighbor(&m, position, beside - 1);
        if (position == UINT64_MAX)
            continue;
        const PartialSums<T> sum =
            sumSlice<T>(m, frame, templates, k, static_cast<unsigned>(position), item % slices, slices);
        if (threadIdx.x == 0)
            partial[item] = sum;
    }
}

// Computes a window's cost from the sums of its slices with a warp; valid only in the first lane.
template<class T>
__device__ __forceinline__ double costOfSlices(const MatchModel &m, const Frame &frame, const Templates &templates,
                                               const Windows &windows, int k, unsigned position, int slices,
                                               const PartialSums<T> *partial) {
    PartialSums<T> sum;
    for (int s = static_cast<int>(threadIdx.x) % 32; s < slices; s += 32)
        sum.add(partial[s]);
    warpSumToFirst(sum);
    const int y = static_cast<int>(position / m.ocols), x = static_cast<int>(position % m.ocols);
    if constexpr (sizeof(T) == 1)
        return exactCost(m, templates, windows, k, y, x, sum);
    else
        return exactCost(m, templates, Centers(m, frame, templates, y, x), k, sum);
}

// Returns the best of the thread's listed candidates by rank, with its exact cost and its place in the list.
template<class T>
__device__ __forceinline__ Candidate bestListed(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                const Windows &windows, int k, const unsigned *candidates, int found,
                                                int each, int slices, const PartialSums<T> *partial, double &best_cost,
                                                int &place) {
    Candidate best = noCandidate();
    // Few candidates have many slices each, so a warp takes one; of many candidates a thread takes one.
    const int together = sizeof(T) == 1 && found > REFINE_WARPS ? 1 : 32, lane = threadIdx.x % together;
    for (int i = threadIdx.x / together; i < found; i += REFINE_THREADS / together) {
        double cost;
        const PartialSums<T> *const own = partial + static_cast<size_t>(i) * each * slices;
        if constexpr (sizeof(T) == 1) {
            PartialSums<T> sum;
#pragma unroll 8
            for (int s = lane; s < slices; s += together)
                sum.add(own[s]);
            if (together == 32)
                warpSumToFirst(sum);
            if (lane)
                continue;
            cost = exactCost(m, templates, windows, k, candidates[i] / m.ocols, candidates[i] % m.ocols, sum);
        } else {
            cost = costOfSlices(m, frame, templates, windows, k, candidates[i], slices, own);
            if (lane)
                continue;
        }
        const Candidate here = {match_rank(&m, &templates.sums[k], cost), candidates[i]};
        if (isBetter(here, best)) {
            best = here;
            best_cost = cost;
            place = i;
        }
    }
    return best;
}

// Return the most candidates that are listed, and the partial sums of a template. Bytes have at most as many slices as
// blocks or candidates, whichever are more.
template<class T>
__host__ __device__ constexpr int listLimit() {
    return sizeof(T) == 1 ? MAX_CANDIDATES : MAX_CANDIDATES / 4;
}
template<class T>
__host__ __device__ constexpr size_t partialSums(int blocks) {
    return sizeof(T) == 1 ? MAX_CANDIDATES + blocks : static_cast<size_t>(listLimit<T>()) * MATCH_MAX_SLICES;
}
template<class T>
__device__ __forceinline__ PartialSums<T> *partialsOf(const Refinement &refinement, int k) {
    return static_cast<PartialSums<T> *>(refinement.partial_sums) + k * partialSums<T>(refinement.blocks);
}

// Returns true in the last block of a template to arrive, which then sees the results of the others.
__device__ __forceinline__ bool isLastBlock(unsigned *ticket) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) { // with the barriers, its fences hold for the whole block
        __threadfence();
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
        if (last)
            __threadfence();
    }
    __syncthreads();
    return last;
}

// Appends value(i) for each set bit i of each thread's `selected` to the list in shared memory, in the same order in every
// block; false if they do not fit. `count`, the list's length, is the same in all threads. A barrier must precede any
// reading of the list.
template<class Value>
__device__ bool appendSelected(unsigned *list, int capacity, int &count, int round, unsigned selected, const Value &value) {
    __shared__ int ends[2][REFINE_WARPS]; // two, since the next call writes while this one still reads
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = __popc(selected);
    int end[1] = {mine};
    cusi::warpInclusiveScan(end, lane);
    if (lane == 31)
        ends[round % 2][warp] = end[0];
    __syncthreads();
    int at = count + end[0] - mine;
#pragma unroll
    for (int w = 0; w < REFINE_WARPS; ++w) {
        at += w < warp ? ends[round % 2][w] : 0;
        count += ends[round % 2][w];
    }
    for (; selected; selected &= selected - 1, ++at)
        if (at < capacity)
            list[at] = value(__ffs(selected) - 1);
    return count <= capacity;
}

// ---- Lists of tiles and candidates

struct Map {
    const float *lowers, *uppers; // least lower end of each tile; least upper end of each block of the score kernel
    const MatchRange *ranges;
    int tiles, upper_count;
};

struct ListState {
    int tiles = 0, candidates = 0;
    int round = 0; // calls of appendSelected()
    bool fits = true;
};

// Returns the threshold, which is the least upper end. The lower ends of the first tiles are loaded at the same time.
__device__ __forceinline__ float leastUpper(const Map &map, float (&ends)[ITEMS]) {
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        ends[i] = i * REFINE_THREADS + static_cast<int>(threadIdx.x) < map.tiles
                      ? map.lowers[i * REFINE_THREADS + threadIdx.x]
                      : INFINITY;
    for (int i = threadIdx.x; i < map.upper_count; i += REFINE_THREADS)
        least = fminf(least, map.uppers[i]);
    return cusi::blockMin(least);
}

__device__ __forceinline__ void listTiles(const Map &map, float threshold, float (&ends)[ITEMS], unsigned *tiles,
                                          ListState &state) {
    for (int i0 = 0; state.fits && i0 < map.tiles; i0 += ITEMS * REFINE_THREADS) {
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int tile = i0 + i * REFINE_THREADS + static_cast<int>(threadIdx.x);
            if (i0)
                ends[i] = tile < map.tiles ? map.lowers[tile] : INFINITY;
            selected |= (ends[i] <= threshold && threshold < INFINITY ? 1u : 0u) << i;
        }
        state.fits = appendSelected(tiles, MAX_TILES, state.tiles, state.round++, selected,
                                    [&](int i) { return static_cast<unsigned>(i0 + i * REFINE_THREADS) + threadIdx.x; });
    }
}

__device__ __forceinline__ void listCandidates(const MatchModel &m, const Scores &scores, const Map &map, float threshold,
                                               const unsigned *tiles, unsigned *candidates, int limit, ListState &state) {
    const int tile_log2 = scores.tile_cols_log2 + scores.tile_rows_log2;
    const int positions = state.fits ? state.tiles << tile_log2 : 0;
    for (int i0 = 0; state.fits && i0 < positions; i0 += ITEMS * REFINE_THREADS) {
        const auto positionOf = [&](int i, unsigned &position) {
            const int at = i0 + i * REFINE_THREADS + static_cast<int>(threadIdx.x);
            int y = 0, x = 0;
            const bool inside = at < positions && tilePosition(m, scores, tiles[at >> tile_log2], at, y, x);
            position = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
            return inside;
        };
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (i0 + i * REFINE_THREADS >= positions)
                break;
            unsigned position;
            const bool inside = positionOf(i, position);
            selected |= (inside && map.ranges[position].lower <= threshold ? 1u : 0u) << i;
        }
        state.fits = appendSelected(candidates, limit, state.candidates, state.round++, selected, [&](int i) {
            unsigned position;
            positionOf(i, position);
            return position;
        });
    }
}

// ---- Exact costs

// Computes the cost of a window with one warp, adding up in the order of listed candidates; valid only in the first
// lane.
template<class T>
__device__ __forceinline__ double costByWarp(const MatchModel &m, const Frame &frame, const Templates &templates,
                                             const Windows &windows, int k, unsigned long long position) {
    const int lane = static_cast<int>(threadIdx.x) % 32, slices = sizeof(T) == 1 ? 1 : match_slices(&m);
    const unsigned at = static_cast<unsigned>(position);
    if constexpr (sizeof(T) == 1) {
        PartialSums<T> sum = sumBytes(m, frame, templates, partOf(m, k, at, 0, 1, lane, 32));
        warpSumToFirst(sum);
        return exactCost(m, templates, windows, k, at / m.ocols, at % m.ocols, sum);
    } else {
        const Centers centers(m, frame, templates, static_cast<int>(at / m.ocols), static_cast<int>(at % m.ocols));
        PartialSums<T> window; // lane s % 32 has slice s
        for (int s = 0; s < slices; ++s) {
            PartialSums<T> slice;
            for (int first = 0; first < MATCH_LANES; first += 32) {
                PartialSums<T> part =
                    sumFloats(m, frame, templates, centers, partOf(m, k, at, s, slices, first + lane, MATCH_LANES));
                warpSumToFirst(part);
                slice.add(part);
            }
            slice.fromFirstLane();
            if (lane == s % 32)
                window.add(slice);
        }
        warpSumToFirst(window);
        return exactCost(m, templates, centers, k, window);
    }
}

// Replaces the list if it overflowed. A warp examines segments of 32 neighboring positions, and computes the exact cost of
// each candidate that can still be the best.
template<class T>
__device__ __forceinline__ Candidate searchTiles(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                 const Windows &windows, const Scores &scores, int k, const Map &map,
                                                 float threshold) {
    const double floor = match_smallestIsBest(m.method) ? 0 : (m.method & 1) ? -1 : -INFINITY;
    const double range = scores.errors[k].range;
    const int lane = threadIdx.x % 32;
    Candidate best = noCandidate();
    const int segments_log2 = scores.tile_cols_log2 + scores.tile_rows_log2 - 5;
    for (long long segment = static_cast<long long>(blockIdx.x) * REFINE_WARPS + threadIdx.x / 32;
         segment < static_cast<long long>(map.tiles) << segments_log2;
         segment += static_cast<long long>(gridDim.x) * REFINE_WARPS) {
        const int tile = static_cast<int>(segment >> segments_log2);
        if (!(map.lowers[tile] <= threshold))
            continue;
        int y = 0, x = 0;
        const bool inside = tilePosition(m, scores, tile, segment * 32 + lane, y, x);
        const unsigned long long mine = static_cast<unsigned long long>(y) * m.ocols + x, start = mine - lane;
        const float lower = inside ? map.ranges[mine].lower : INFINITY;
        for (unsigned votes = __ballot_sync(cusi::FULL_WARP, lower <= threshold && lower < INFINITY); votes;
             votes &= votes - 1) {
            const int at = __ffs(votes) - 1;
            if (__shfl_sync(cusi::FULL_WARP, lower, at) > best.cost * range ||
                (best.cost <= floor && best.position < start + at))
                continue;
            Candidate here = {costByWarp<T>(m, frame, templates, windows, k, start + at), start + at};
            here.cost = match_rank(&m, &templates.sums[k], __shfl_sync(cusi::FULL_WARP, here.cost, 0));
            if (isBetter(here, best))
                best = here;
        }
    }
    return best;
}

// ---- The result

// Computes the exact cost of a window with the block, valid in all threads. partial: room for its slices.
template<class T>
__device__ __noinline__ double costByBlock(const MatchModel &m, const Frame &frame, const Templates &templates,
                                           const Windows &windows, int k, unsigned position, PartialSums<T> *partial) {
    __shared__ double cost;
    const int slices = sizeof(T) == 1 ? 1 : match_slices(&m);
    for (int s = 0; s < slices; ++s) {
        const PartialSums<T> sum = sumSlice<T>(m, frame, templates, k, position, s, slices);
        if (threadIdx.x == 0)
            partial[s] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const double sum = costOfSlices(m, frame, templates, windows, k, position, slices, partial);
        if (threadIdx.x == 0)
            cost = sum;
    }
    __syncthreads();
    return cost;
}

// Returns the exact costs of the best position's neighbors, for matchOf(), valid in the first thread; NULL if they are
// not wanted. A cost is NAN if there is no such position or an earlier match has removed it. listed: sums of the slices
// of the best window and its neighbors; if NULL, they are computed here, in `partial`. `position` must be the same in
// all threads.
template<class T>
__device__ __forceinline__ const double *costsAround(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                     const Windows &windows, const MatchRange *ranges, int k,
                                                     unsigned long long position, int slices, const PartialSums<T> *listed,
                                                     PartialSums<T> *partial) {
    __shared__ double costs[4];
    if (!m.subpixel || position == ~0ull)
        return nullptr;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    for (int i = 0; i < 4; ++i) {
        const uint64_t at = match_neighbor(&m, position, i);
        const unsigned here = static_cast<unsigned>(at);
        double cost = NAN;
        if (at != UINT64_MAX && ranges[at].lower < INFINITY) {
            if (!listed)
                cost = costByBlock<T>(m, frame, templates, windows, k, here, partial);
            else if (warp == i)
                cost = costOfSlices(m, frame, templates, windows, k, here, slices, listed + (i + 1) * slices);
        }
        if (threadIdx.x == (listed ? i * 32 : 0))
            costs[i] = cost;
    }
    __syncthreads();
    return costs;
}

// Makes the match at the best position from its pixels. `best` counts in the first thread only, as does the result.
template<class T>
__device__ __forceinline__ cusMatch matchByBlock(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                 const Windows &windows, const Refinement &refinement,
                                                 const MatchRange *ranges, int k, Candidate best) {
    __shared__ Candidate found;
    if (threadIdx.x == 0)
        found = best;
    __syncthreads();
    best = found;
    PartialSums<T> *const partial = partialsOf<T>(refinement, k);
    if (sizeof(T) > 1 && best.position != ~0ull) // so far it is a rank, or comes from transforms
        best.cost = costByBlock<T>(m, frame, templates, windows, k, static_cast<unsigned>(best.position), partial);
    return matchOf(m, best, costsAround<T>(m, frame, templates, windows, ranges, k, best.position, 1, nullptr, partial));
}

__device__ __forceinline__ void storeMatch(const MatchModel &m, const Refinement &refinement, int k,
                                           const cusMatch &match) {
    refinement.tickets[k] = 0;
    refinement.results[static_cast<size_t>(k) * m.max_matches + refinement.round] = match;
}

// Every block makes the same list of candidates, so that blocks need not communicate. Then each sums up some slices of some
// windows, and the last block to finish computes the costs. Returns false if the list overflowed; then nothing is stored.
template<class T>
__device__ __forceinline__ bool refine(const MatchModel &m, const Frame &frame, const Templates &templates,
                                       const Windows &windows, const Scores &scores, const Refinement &refinement,
                                       const Map &map, int k, float &threshold) {
    __shared__ unsigned tiles[MAX_TILES], candidates[MAX_CANDIDATES];
    float ends[ITEMS];
    threshold = leastUpper(map, ends);
    ListState state;
    listTiles(map, threshold, ends, tiles, state);
    __syncthreads();
    listCandidates(m, scores, map, threshold, tiles, candidates, listLimit<T>(), state);
    __syncthreads();
    if (!state.fits)
        return false;

    // If candidates are few, blocks are idle, and sum up the windows around each candidate as well.
    const int found = state.candidates, each = m.subpixel && found <= listLimit<T>() / 5 ? 5 : 1;
    const int slices = slicesFor<T>(m, found * each);
    PartialSums<T> *partial = partialsOf<T>(refinement, k);
    sumSlices<T>(m, frame, templates, k, candidates, found * each, each, slices, partial);
    if (!isLastBlock(&refinement.tickets[k]))
        return true;
    double cost = INFINITY;
    int place = 0;
    const Candidate own =
        bestListed<T>(m, frame, templates, windows, k, candidates, found, each, slices, partial, cost, place);
    Candidate best = blockBestToFirst<REFINE_WARPS>(own);
    const double *around = nullptr;
    if (sizeof(T) > 1 || m.subpixel) { // replaces the rank by the cost
        __shared__ Candidate winner;
        __shared__ int winner_place;
        if (threadIdx.x == 0)
            winner = best;
        __syncthreads();
        best = winner;
        __syncthreads();
        if (own.position == best.position) {
            winner.cost = cost;
            winner_place = place;
        }
        __syncthreads();
        best.cost = winner.cost;
        around = costsAround<T>(m, frame, templates, windows, map.ranges, k, best.position, slices,
                                each > 1 ? partial + static_cast<size_t>(winner_place) * each * slices : nullptr, partial);
    }
    if (threadIdx.x == 0)
        storeMatch(m, refinement, k, matchOf(m, best, around));
    return true;
}

__device__ __forceinline__ Map mapOf(const MatchModel &m, const Scores &scores, int k) {
    const int tiles = scores.tiles_across * scores.tiles_down;
    return {scores.tile_lowers + static_cast<size_t>(k) * tiles,
            scores.block_uppers + static_cast<size_t>(k) * scores.upper_count,
            scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols, tiles, scores.upper_count};
}

} // namespace cusi::match

#endif
