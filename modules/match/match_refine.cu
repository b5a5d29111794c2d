// The best match: exact costs of all positions whose range reaches the least upper end, and the best of them.
#include "match_best.cuh"
#include "match_exact.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

constexpr int MAX_TILES = 256, MAX_CANDIDATES = 1024; // listed; beyond that each block searches its tiles
constexpr int ITEMS = 16, SPAN = ITEMS * THREADS;     // tiles or positions a thread or block examines at a time

// Appends value(i) of every thread, for each set bit i of `selected`, to the list in shared memory, in the same order in
// every block; false if they do not fit. `count`, the list's length, is the same in all threads. A barrier must follow
// before the list is read.
template<class Value>
__device__ bool appendSelected(unsigned *list, int capacity, int &count, int round, unsigned selected, const Value &value) {
    __shared__ int ends[2][WARPS]; // alternately: the next call writes while this one still reads
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = __popc(selected);
    int end[1] = {mine};
    cusi::warpInclusiveScan(end, lane);
    if (lane == 31)
        ends[round % 2][warp] = end[0];
    __syncthreads();
    int at = count + end[0] - mine;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
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
__device__ __forceinline__ float leastUpper(const Map &map, float (&ends)[ITEMS]) {
    float least = INFINITY;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
        ends[i] =
            i * THREADS + static_cast<int>(threadIdx.x) < map.tiles ? map.lowers[i * THREADS + threadIdx.x] : INFINITY;
    for (int i = threadIdx.x; i < map.upper_count; i += THREADS)
        least = fminf(least, map.uppers[i]);
    return cusi::blockMin(least);
}

__device__ __forceinline__ void listTiles(const Map &map, float threshold, float (&ends)[ITEMS], unsigned *tiles,
                                          ListState &state) {
    for (int i0 = 0; state.fits && i0 < map.tiles; i0 += SPAN) {
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            const int tile = i0 + i * THREADS + static_cast<int>(threadIdx.x);
            if (i0)
                ends[i] = tile < map.tiles ? map.lowers[tile] : INFINITY;
            selected |= (ends[i] <= threshold && threshold < INFINITY ? 1u : 0u) << i;
        }
        state.fits = appendSelected(tiles, MAX_TILES, state.tiles, state.round++, selected,
                                    [&](int i) { return static_cast<unsigned>(i0 + i * THREADS) + threadIdx.x; });
    }
}

__device__ __forceinline__ void listCandidates(const MatchModel &m, const Scores &scores, const Map &map, float threshold,
                                               const unsigned *tiles, unsigned *candidates, ListState &state) {
    const int tile_log2 = scores.tile_cols_log2 + scores.tile_rows_log2;
    const int positions = state.fits ? state.tiles << tile_log2 : 0;
    for (int i0 = 0; state.fits && i0 < positions; i0 += SPAN) {
        const auto positionOf = [&](int i, unsigned &position) {
            const int at = i0 + i * THREADS + static_cast<int>(threadIdx.x);
            int y = 0, x = 0;
            const bool inside = at < positions && tilePosition(m, scores, tiles[at >> tile_log2], at, y, x);
            position = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
            return inside;
        };
        unsigned selected = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if (i0 + i * THREADS >= positions)
                break;
            unsigned position;
            const bool inside = positionOf(i, position);
            selected |= (inside && map.ranges[position].lower <= threshold ? 1u : 0u) << i;
        }
        state.fits = appendSelected(candidates, MAX_CANDIDATES, state.candidates, state.round++, selected, [&](int i) {
            unsigned position;
            positionOf(i, position);
            return position;
        });
    }
}

// ---- Exact costs

// Slices of the windows of the listed candidates, shared by all blocks.
template<class T>
__device__ __forceinline__ void sumSlices(const MatchModel &m, const Frame &frame, const Templates &templates, int k,
                                          const unsigned *candidates, int found, int slices, PartialSums<T> *partial) {
    for (int item = blockIdx.x; item < found * slices; item += gridDim.x) {
        const int slice = item % slices;
        const unsigned position = candidates[item / slices];
        const int y = position / m.ocols, x = position % m.ocols;
        const int each = cusi::divUp(m.h, slices), j0 = min(slice * each, m.h), j1 = min(j0 + each, m.h);
        const WindowPart part = {k, y, x, j0, j1, static_cast<int>(threadIdx.x), THREADS};
        const PartialSums<T> sum = blockSumToFirst(sumWindowPart<T>(m, frame, templates, part));
        if (threadIdx.x == 0)
            partial[item] = sum;
    }
}

// The best listed candidate, from its slices' sums.
template<class T>
__device__ __forceinline__ Candidate bestListed(const MatchModel &m, const Templates &templates, const Windows &windows,
                                                int k, const unsigned *candidates, int found, int slices,
                                                const PartialSums<T> *partial) {
    Candidate best = noCandidate();
    // Few candidates have many slices, many have few: a warp or a thread each.
    const int together = found > WARPS ? 1 : 32, lane = threadIdx.x % together;
    for (int i = threadIdx.x / together; i < found; i += THREADS / together) {
        PartialSums<T> sum;
#pragma unroll 8
        for (int s = lane; s < slices; s += together)
            sum.add(partial[static_cast<size_t>(i) * slices + s]);
        if (together == 32)
            warpSumToFirst(sum);
        if (lane)
            continue;
        const int y = candidates[i] / m.ocols, x = candidates[i] % m.ocols;
        const Candidate here = {exactCost<T>(m, templates, windows, k, y, x, sum), candidates[i]};
        if (isBetter(here, best))
            best = here;
    }
    return best;
}

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

// ---- The result

// True in the last block of a template to arrive, to which the others' results are then visible.
__device__ __forceinline__ bool isLastBlock(unsigned *ticket) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return false;
    __threadfence();
    return true;
}

// Every block finds the same list of candidates, so blocks need not communicate; then each sums up some slices of some
// windows, and the last block to finish computes the costs. If the list overflows, denseKernel takes over; where there is none,
// the blocks search the tiles instead.
template<class T>
__global__ void __launch_bounds__(THREADS)
    refineKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement) {
    __shared__ unsigned tiles[MAX_TILES], candidates[MAX_CANDIDATES];
    cusi::startInOrder();
    const int k = blockIdx.y, blocks = gridDim.x, tile_total = scores.tiles_across * scores.tiles_down;
    const Map map = {scores.tile_lowers + static_cast<size_t>(k) * tile_total,
                     scores.block_uppers + static_cast<size_t>(k) * scores.upper_count,
                     scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols, tile_total, scores.upper_count};
    float ends[ITEMS];
    const float threshold = leastUpper(map, ends);
    ListState state;
    listTiles(map, threshold, ends, tiles, state);
    __syncthreads();
    listCandidates(m, scores, map, threshold, tiles, candidates, state);
    __syncthreads();

    const int found = state.candidates;
    const int slices = state.fits && found ? max(1, min(m.h, blocks / found)) : 1;
    PartialSums<T> *partial =
        static_cast<PartialSums<T> *>(refinement.partial_sums) + static_cast<size_t>(k) * (MAX_CANDIDATES + blocks);
    Candidate *bests = reinterpret_cast<Candidate *>(partial); // one a block if the list overflowed
    if (state.fits) {
        sumSlices<T>(m, frame, templates, k, candidates, found, slices, partial);
    } else if (refinement.overflows) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            refinement.overflows[k] = 1;
        return;
    } else {
        const Candidate best = blockBestToFirst(searchTiles<T>(m, frame, templates, windows, scores, k, map, threshold));
        if (threadIdx.x == 0)
            bests[blockIdx.x] = best;
    }
    if (!isLastBlock(&refinement.tickets[k]))
        return;
    Candidate best = noCandidate();
    if (state.fits) {
        best = bestListed<T>(m, templates, windows, k, candidates, found, slices, partial);
    } else {
        for (int i = threadIdx.x; i < blocks; i += THREADS)
            if (isBetter(bests[i], best))
                best = bests[i];
    }
    best = blockBestToFirst(best);
    if (threadIdx.x != 0)
        return;
    refinement.tickets[k] = 0;
    refinement.results[static_cast<size_t>(k) * m.max_matches + refinement.round] = matchOf(m, map.ranges, best);
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

cusStatus launchRefine(const Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    return cusi::launchOverlapped("cusMatcherRun", m.integer ? refineKernel<uint8_t> : refineKernel<float>,
                                  dim3(stages.refinement.blocks, m.count), THREADS, 0, stream, m, stages.frame,
                                  stages.templates, stages.windows, stages.scores, stages.refinement);
}

} // namespace match
