// The best match: exact costs of all positions whose range reaches the least upper end, and the best of them.
#include "match_candidates.cuh"
#include "match_dense.cuh"
#include "match_direct.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

// N: threads of a block.

constexpr int MAX_TILES = 256;     // listed; with more tiles or MAX_CANDIDATES each block searches its tiles
constexpr int SMALL_BYTES = 2048;  // of a window that one thread sums up
constexpr int STATIC_BYTES = 8192; // of refineDenseKernel's shared memory, at most
constexpr int ITEMS = 16;          // tiles or positions that a thread examines at a time

// Appends value(i) of every thread, for each set bit i of `selected`, to the list in shared memory, in the same order in
// every block; false if they do not fit. `count`, the list's length, is the same in all threads. A barrier must follow
// before the list is read.
template<int N, class Value>
__device__ bool appendSelected(unsigned *list, int capacity, int &count, int round, unsigned selected, const Value &value) {
    __shared__ int ends[2][N / 32]; // alternately: the next call writes while this one still reads
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = __popc(selected);
    int end[1] = {mine};
    cusi::warpInclusiveScan(end, lane);
    if (lane == 31)
        ends[round % 2][warp] = end[0];
    __syncthreads();
    int at = count + end[0] - mine;
#pragma unroll
    for (int w = 0; w < N / 32; ++w) {
        at += w < warp ? ends[round % 2][w] : 0;
        count += ends[round % 2][w];
    }
    for (; selected; selected &= selected - 1, ++at)
        if (at < capacity)
            list[at] = value(__ffs(selected) - 1);
    return count <= capacity;
}

// ---- Lists of tiles and candidates

// The score map of one template.
struct Map {
    const float *lowers, *uppers; // of the tiles; of the score kernel's blocks
    const MatchRange *ranges;
    int tiles, upper_count;
};

struct ListState {
    int tiles = 0, candidates = 0;
    int round = 0; // calls of appendSelected()
    bool fits = true;
};

// The threshold: the least upper end. The lower ends of the first tiles are loaded meanwhile.
template<int N>
__device__ __forceinline__ float leastUpper(const Map &map, float (&ends)[ITEMS]) {
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        ends[i] = i * N + static_cast<int>(threadIdx.x) < map.tiles ? map.lowers[i * N + threadIdx.x] : INFINITY;
    for (int i = threadIdx.x; i < map.upper_count; i += N)
        least = fminf(least, map.uppers[i]);
    return cusi::blockMin(least);
}

template<int N>
__device__ __forceinline__ void listTiles(const Map &map, float threshold, float (&ends)[ITEMS], unsigned *tiles,
                                          ListState &state) {
    for (int i0 = 0; state.fits && i0 < map.tiles; i0 += ITEMS * N) {
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int tile = i0 + i * N + static_cast<int>(threadIdx.x);
            if (i0)
                ends[i] = tile < map.tiles ? map.lowers[tile] : INFINITY;
            selected |= (ends[i] <= threshold && threshold < INFINITY ? 1u : 0u) << i;
        }
        state.fits = appendSelected<N>(tiles, MAX_TILES, state.tiles, state.round++, selected,
                                       [&](int i) { return static_cast<unsigned>(i0 + i * N) + threadIdx.x; });
    }
}

template<int N>
__device__ __forceinline__ void listCandidates(const MatchModel &m, const Scores &scores, const Map &map, float threshold,
                                               const unsigned *tiles, unsigned *candidates, ListState &state) {
    const int tile_log2 = scores.tile_cols_log2 + scores.tile_rows_log2;
    const int positions = state.fits ? state.tiles << tile_log2 : 0;
    for (int i0 = 0; state.fits && i0 < positions; i0 += ITEMS * N) {
        const auto positionOf = [&](int i, unsigned &position) {
            const int at = i0 + i * N + static_cast<int>(threadIdx.x);
            int y = 0, x = 0;
            const bool inside = at < positions && tilePosition(m, scores, tiles[at >> tile_log2], at, y, x);
            position = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
            return inside;
        };
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (i0 + i * N >= positions)
                break;
            unsigned position;
            const bool inside = positionOf(i, position);
            selected |= (inside && map.ranges[position].lower <= threshold ? 1u : 0u) << i;
        }
        state.fits = appendSelected<N>(candidates, MAX_CANDIDATES, state.candidates, state.round++, selected, [&](int i) {
            unsigned position;
            positionOf(i, position);
            return position;
        });
    }
}

// ---- Exact costs

// The list overflowed: each warp handles rows of 32 positions and every candidate in them that can still be the best.
template<class T>
__device__ __forceinline__ Candidate searchTiles(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                 const Windows &windows, const Scores &scores, int k, const Map &map,
                                                 float threshold) {
    const double floor = match_smallestIsBest(m.method) ? 0 : (m.method & 1) ? -1 : -INFINITY;
    const int lane = threadIdx.x % 32;
    Candidate best = noCandidate();
    const int runs_log2 = scores.tile_cols_log2 + scores.tile_rows_log2 - 5; // of 32 neighboring positions in a tile
    for (long long run = static_cast<long long>(blockIdx.x) * WARPS + threadIdx.x / 32;
         run < static_cast<long long>(map.tiles) << runs_log2; run += static_cast<long long>(gridDim.x) * WARPS) {
        const int tile = static_cast<int>(run >> runs_log2);
        if (!(map.lowers[tile] <= threshold))
            continue;
        int y = 0, x = 0;
        const bool inside = tilePosition(m, scores, tile, run * 32 + lane, y, x);
        const unsigned long long mine = static_cast<unsigned long long>(y) * m.ocols + x, start = mine - lane;
        const float lower = inside ? map.ranges[mine].lower : INFINITY;
        for (unsigned votes = __ballot_sync(cusi::FULL_WARP, lower <= threshold && lower < INFINITY); votes;
             votes &= votes - 1) {
            const int at = __ffs(votes) - 1;
            if (__shfl_sync(cusi::FULL_WARP, lower, at) > best.cost || (best.cost <= floor && best.position < start + at))
                continue;
            const WindowPart part = {k, y, x - lane + at, 0, m.h, lane, 32};
            PartialSums<T> sum = sumWindowPart<T>(m, frame, templates, part);
            warpSumToFirst(sum);
            Candidate here = {exactCost<T>(m, templates, windows, k, y, x - lane + at, sum), start + at};
            here.cost = __shfl_sync(cusi::FULL_WARP, here.cost, 0);
            if (isBetter(here, best))
                best = here;
        }
    }
    return best;
}

// The same with a thread for each candidate: small windows, which all are summed up in the same order.
template<class T>
__device__ __forceinline__ Candidate searchPositions(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                     const Windows &windows, const Scores &scores, int k, const Map &map,
                                                     float threshold) {
    const int positions = 1 << (scores.tile_cols_log2 + scores.tile_rows_log2);
    Candidate best = noCandidate();
    for (int tile = blockIdx.x; tile < map.tiles; tile += gridDim.x) {
        if (!(map.lowers[tile] <= threshold))
            continue;
        for (int i = threadIdx.x; i < positions; i += THREADS) {
            int y = 0, x = 0;
            if (!tilePosition(m, scores, tile, i, y, x))
                continue;
            const unsigned long long position = static_cast<unsigned long long>(y) * m.ocols + x;
            const float lower = map.ranges[position].lower;
            if (!(lower <= threshold && lower < INFINITY) || lower > best.cost)
                continue;
            const WindowPart part = {k, y, x, 0, m.h, 0, 1};
            const PartialSums<T> sum = sumWindowPart<T>(m, frame, templates, part);
            const Candidate here = {exactCost<T>(m, templates, windows, k, y, x, sum), position};
            if (isBetter(here, best))
                best = here;
        }
    }
    return best;
}

// The same of 8-bit pictures without a mask, if one match is wanted: the tiles are correlated once more.
template<int CN>
__device__ __forceinline__ Candidate searchDirectly(const MatchModel &m, const Frame &frame, const Templates &templates,
                                                    const Windows &windows, const Scores &scores, int k, const Map &map,
                                                    float threshold) {
    Candidate best = noCandidate();
    for (int tile = blockIdx.x; tile < map.tiles; tile += gridDim.x) {
        if (!(map.lowers[tile] <= threshold))
            continue;
        const int y0 = tile / scores.tiles_across * TILE_ROWS, x0 = tile % scores.tiles_across * TILE_COLS;
        ThreadSums sums;
        DotProducts<CN>::correlate(m, frame, templates, k, y0, x0, sums);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int y = y0 + static_cast<int>(threadIdx.x) / 16 * 2 + i / 4;
            const int x = x0 + static_cast<int>(threadIdx.x) % 16 * 4 + i % 4;
            if (y >= m.orows || x >= m.ocols)
                continue;
            const Candidate here = {costOf<uint8_t>(m, templates.sums[k], windows, y, x, sums[i / 4][i % 4]),
                                    static_cast<unsigned long long>(y) * m.ocols + x};
            if (isBetter(here, best))
                best = here;
        }
    }
    return best;
}

// CN: channels if the tiles can be correlated directly, otherwise 0.
template<class T, int CN>
__device__ __forceinline__ Candidate search(const MatchModel &m, const Frame &frame, const Templates &templates,
                                            const Windows &windows, const Scores &scores, int k, const Map &map,
                                            float threshold) {
    if constexpr (CN > 0)
        return searchDirectly<CN>(m, frame, templates, windows, scores, k, map, threshold);
    if (static_cast<long long>(m.w) * m.h * m.channels <= SMALL_BYTES)
        return searchPositions<T>(m, frame, templates, windows, scores, k, map, threshold);
    return searchTiles<T>(m, frame, templates, windows, scores, k, map, threshold);
}

// ---- The result

// One thread stores the result of template k.
template<int N>
__device__ __forceinline__ void storeBest(const MatchModel &m, const Refinement &refinement, const Map &map, int k,
                                          Candidate best) {
    best = blockBestToFirst<N / 32>(best);
    if (threadIdx.x != 0)
        return;
    refinement.tickets[k] = 0;
    refinement.results[static_cast<size_t>(k) * m.max_matches + refinement.round] = matchOf(m, map.ranges, best);
}

// Every block finds the same list of candidates, so blocks need not communicate; then each sums up some slices of some
// windows, and the last block to finish computes the costs. False if the list overflowed: no block has done anything then.
template<class T, int N>
__device__ __forceinline__ bool refine(const MatchModel &m, const Frame &frame, const Templates &templates,
                                       const Windows &windows, const Scores &scores, const Refinement &refinement,
                                       const Map &map, int k, float &threshold) {
    __shared__ unsigned tiles[MAX_TILES], candidates[MAX_CANDIDATES];
    const int blocks = gridDim.x;
    float ends[ITEMS];
    threshold = leastUpper<N>(map, ends);
    ListState state;
    listTiles<N>(map, threshold, ends, tiles, state);
    __syncthreads();
    listCandidates<N>(m, scores, map, threshold, tiles, candidates, state);
    __syncthreads();
    if (!state.fits)
        return false;

    const int found = state.candidates, slices = found ? max(1, min(m.h, blocks / found)) : 1;
    PartialSums<T> *partial =
        static_cast<PartialSums<T> *>(refinement.partial_sums) + static_cast<size_t>(k) * (MAX_CANDIDATES + blocks);
    sumSlices<T, N>(m, frame, templates, k, candidates, found, slices, partial, blockIdx.x, gridDim.x);
    if (isLastBlock(&refinement.tickets[k]))
        storeBest<N>(m, refinement, map, k, bestListed<T, N>(m, templates, windows, k, candidates, found, slices, partial));
    return true;
}

__device__ __forceinline__ Map mapOf(const MatchModel &m, const Scores &scores, int k) {
    const int tiles = scores.tiles_across * scores.tiles_down;
    return {scores.tile_lowers + static_cast<size_t>(k) * tiles,
            scores.block_uppers + static_cast<size_t>(k) * scores.upper_count,
            scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols, tiles, scores.upper_count};
}

// If the list overflows, denseKernel takes over; where there is none, the blocks search the tiles instead.
template<class T, int CN = 0>
__global__ void __launch_bounds__(THREADS)
    refineKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement) {
    cusi::startInOrder();
    const int k = blockIdx.y, blocks = gridDim.x;
    if (refinement.round && refinement.overflows && refinement.overflows[k]) // in an earlier round
        return;
    const Map map = mapOf(m, scores, k);
    float threshold;
    if (refine<T, THREADS>(m, frame, templates, windows, scores, refinement, map, k, threshold))
        return;
    if (refinement.overflows) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            refinement.overflows[k] = static_cast<unsigned>(refinement.round) + 1;
        return;
    }
    Candidate *bests = reinterpret_cast<Candidate *>(static_cast<PartialSums<T> *>(refinement.partial_sums) +
                                                     static_cast<size_t>(k) * (MAX_CANDIDATES + blocks)); // one a block
    Candidate best = blockBestToFirst(search<T, CN>(m, frame, templates, windows, scores, k, map, threshold));
    if (threadIdx.x == 0)
        bests[blockIdx.x] = best;
    if (!isLastBlock(&refinement.tickets[k]))
        return;
    best = noCandidate();
    for (int i = threadIdx.x; i < blocks; i += THREADS)
        if (isBetter(bests[i], best))
            best = bests[i];
    storeBest<THREADS>(m, refinement, map, k, best);
}

// For one template and one match: refineKernel and denseKernel in one launch, since a launch that has nothing to do costs a
// microsecond. All blocks find the same list, so all know of an overflow.
template<class T>
__global__ void __launch_bounds__(DENSE_THREADS, 1)
    refineDenseKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                      const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                      const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement,
                      const __grid_constant__ Dense dense) {
    __shared__ unsigned overflow;
    cusi::startInOrder();
    float threshold;
    if (refine<T, DENSE_THREADS>(m, frame, templates, windows, scores, refinement, mapOf(m, scores, 0), 0, threshold))
        return;
    if (threadIdx.x == 0)
        overflow = 1;
    __syncthreads();
    Refinement here = refinement;
    here.overflows = &overflow;
    findDense<T, false, false>({m, templates, windows, scores, here, dense}, frame);
}

} // namespace

// Room for the partial sums of the slices, of which there are at most as many as blocks or MAX_CANDIDATES, whichever is
// more, and for a Candidate of each block.
size_t refinementBytes(const Stages &stages) {
    const MatchModel &m = stages.model;
    const size_t partial_bytes = m.integer ? sizeof(PartialSums<uint8_t>) : sizeof(PartialSums<float>);
    return static_cast<size_t>(m.count) * (MAX_CANDIDATES + stages.refinement.blocks) *
           std::max(partial_bytes, sizeof(Candidate));
}

cusStatus allowRefineDenseMemory(const MatchModel &m, int bytes) {
    const auto kernel = m.integer ? refineDenseKernel<uint8_t> : refineDenseKernel<float>;
    return allowSharedMemory(reinterpret_cast<const void *>(kernel), bytes - STATIC_BYTES);
}

bool refinesDensely(const Stages &stages, int most) {
    return stages.model.count == 1 && stages.model.max_matches == 1 && !isInPieces(stages.dense.pieces) &&
           denseBytes(stages) + STATIC_BYTES <= static_cast<size_t>(most);
}

cusStatus launchRefine(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    if (stages.dense.in_refine)
        return cusi::launchOverlapped("cusMatcherRun", m.integer ? refineDenseKernel<uint8_t> : refineDenseKernel<float>,
                                      stages.refinement.blocks, DENSE_THREADS, denseBytes(stages), stream, m, stages.frame,
                                      stages.templates, stages.windows, stages.scores, stages.refinement, stages.dense);
    auto kernel = m.integer ? refineKernel<uint8_t> : refineKernel<float>;
    if (correlatesDotProducts(stages) && m.max_matches == 1)
        kernel = m.channels == 1 ? refineKernel<uint8_t, 1> : refineKernel<uint8_t, 3>;
    return cusi::launchOverlapped("cusMatcherRun", kernel, dim3(stages.refinement.blocks, m.count), THREADS, 0, stream, m,
                                  stages.frame, stages.templates, stages.windows, stages.scores, stages.refinement);
}

} // namespace match
