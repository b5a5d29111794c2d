// Further matches of 8-bit pictures: one launch finds them all, one after the other.
#include "match_best.cuh"
#include "match_exact.cuh"
#include "match_tiles.cuh"

namespace match {

namespace {

constexpr int MAX_TILES = 256; // that may hold the next match

// A match is usually the only candidate: it is certain without its exact score, and the next one follows at once. The windows
// of such matches, and of the candidates of a match that is not certain, are a batch, which all blocks sum up.
struct Lists {
    int tile_count, candidate_count;
    unsigned tiles[MAX_TILES];
    unsigned positions[MAX_BATCH];
    float lowers[MAX_BATCH];
};

// The map of template k.
struct Map {
    const MatchModel &m;
    const Scores &scores;
    MatchRange *ranges;
    float *lowers; // of the tiles
    int tiles, tile_log2;

    // The least lower end and the first tile that has it.
    __device__ Candidate least() const {
        Candidate best = noCandidate();
#pragma unroll 8
        for (int i = threadIdx.x; i < tiles; i += THREADS) {
            const Candidate here = {lowers[i], static_cast<unsigned long long>(i)};
            if (isBetter(here, best))
                best = here;
        }
        return best;
    }
    __device__ bool position(int tile, int i, unsigned &at) const {
        int y, x;
        const bool inside = tilePosition(m, scores, tile, i, y, x);
        at = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
        return inside;
    }

    // The positions that may be the best, at least one unless the map is empty; false if there are too many. All that begin at
    // or below the upper end of some position are listed, then those that do not begin at or below the least upper end are
    // dropped.
    __device__ bool list(Lists &lists) const {
        __shared__ Candidate first;
        const Candidate mine = blockBestToFirst(least());
        if (threadIdx.x == 0) {
            first = mine;
            lists.tile_count = lists.candidate_count = 0;
        }
        __syncthreads();
        if (!(first.cost < INFINITY) || first.cost > m.limit_cost)
            return true;
        const float some = leastUpper(static_cast<int>(first.position));
        for (int i = threadIdx.x; i < tiles; i += THREADS)
            if (lowers[i] <= some) {
                const int at = atomicAdd(&lists.tile_count, 1);
                if (at < MAX_TILES)
                    lists.tiles[at] = i;
            }
        __syncthreads();
        if (lists.tile_count > MAX_TILES)
            return false;
        float least_upper = INFINITY;
        for (int i = threadIdx.x; i < lists.tile_count << tile_log2; i += THREADS) {
            unsigned at;
            if (!position(static_cast<int>(lists.tiles[i >> tile_log2]), i, at))
                continue;
            const MatchRange range = ranges[at];
            if (!(range.lower <= some))
                continue;
            least_upper = fminf(least_upper, range.upper);
            const int to = atomicAdd(&lists.candidate_count, 1);
            if (to < MAX_BATCH) {
                lists.positions[to] = at;
                lists.lowers[to] = range.lower;
            }
        }
        least_upper = cusi::blockMin(least_upper);
        __syncthreads();
        if (lists.candidate_count > MAX_BATCH)
            return false;
        dropAbove(lists, least_upper);
        return true;
    }
    __device__ float leastUpper(int tile) const {
        float upper = INFINITY;
        for (int i = threadIdx.x; i < 1 << tile_log2; i += THREADS) {
            unsigned at;
            if (position(tile, i, at))
                upper = fminf(upper, ranges[at].upper);
        }
        return cusi::blockMin(upper);
    }
    __device__ void dropAbove(Lists &lists, float upper) const {
        if (threadIdx.x == 0) {
            int kept = 0;
            for (int i = 0; i < lists.candidate_count; ++i)
                if (lists.lowers[i] <= upper)
                    lists.positions[kept++] = lists.positions[i];
            lists.candidate_count = kept;
        }
        __syncthreads();
    }

    // Removes the neighborhood of a position. A warp handles a tile; those inside need not be read.
    __device__ void suppress(int x, int y) const {
        const long long d = m.min_distance;
        const int x0 = static_cast<int>(max(x - d + 1, 0LL)),
                  x1 = static_cast<int>(min(x + d, static_cast<long long>(m.ocols))) - 1;
        const int y0 = static_cast<int>(max(y - d + 1, 0LL)),
                  y1 = static_cast<int>(min(y + d, static_cast<long long>(m.orows))) - 1;
        const int across = (x1 >> scores.tile_cols_log2) - (x0 >> scores.tile_cols_log2) + 1;
        const int down = (y1 >> scores.tile_rows_log2) - (y0 >> scores.tile_rows_log2) + 1;
        for (int i = threadIdx.x / 32; i < across * down; i += WARPS) {
            const int ty = (y0 >> scores.tile_rows_log2) + i / across, tx = (x0 >> scores.tile_cols_log2) + i % across;
            const int tile = ty * scores.tiles_across + tx;
            float lower = INFINITY;
            if (lowers[tile] < INFINITY)
#pragma unroll 4
                for (int j = threadIdx.x % 32; j < 1 << tile_log2; j += 32) {
                    int py, px;
                    if (!tilePosition(m, scores, tile, j, py, px))
                        continue;
                    MatchRange &range = ranges[static_cast<size_t>(py) * m.ocols + px];
                    if (px >= x0 && px <= x1 && py >= y0 && py <= y1)
                        range = {INFINITY, INFINITY};
                    else
                        lower = fminf(lower, range.lower);
                }
            lower = cusi::warpMin(lower);
            if (threadIdx.x % 32 == 0)
                lowers[tile] = lower;
        }
        __syncthreads();
    }
};

// The work on one template. The block that completes a batch prepares the next one; the others wait for it.
struct Selection {
    const MatchModel &m;
    const Frame &frame;
    const Templates &templates;
    const Windows &windows;
    const Map &map;
    Batch &batch;
    unsigned *positions;           // of the batch
    PartialSums<uint8_t> *partial; // of the batch's slices
    cusMatch *results;
    int k;

    __device__ void sumSlice(int item) const {
        const int slice = item % batch.slices, each = cusi::divUp(m.h, batch.slices);
        const unsigned position = positions[item / batch.slices];
        const int j0 = min(slice * each, m.h), j1 = min(j0 + each, m.h);
        const WindowPart part = {k,
                                 static_cast<int>(position / m.ocols),
                                 static_cast<int>(position % m.ocols),
                                 j0,
                                 j1,
                                 static_cast<int>(threadIdx.x),
                                 THREADS};
        const PartialSums<uint8_t> sum = blockSumToFirst(sumWindowPart<uint8_t>(m, frame, templates, part));
        if (threadIdx.x == 0)
            partial[item] = sum;
    }

    // No match from `round` on.
    __device__ void endFrom(int round) const {
        for (int i = round + static_cast<int>(threadIdx.x); i < m.max_matches; i += THREADS)
            results[i] = {-1, -1, NAN, 0, 0, 0, -1};
    }

    // The batch's scores and, if its last match was not certain, that match. False if a match misses the limit.
    __device__ bool resolve() const {
        __shared__ int missing;
        __shared__ cusMatch chosen;
        if (threadIdx.x == 0)
            missing = m.max_matches;
        __syncthreads();
        Candidate best = noCandidate();
        const int lane = threadIdx.x % 32;
        for (int i = threadIdx.x / 32; i < batch.found; i += WARPS) {
            PartialSums<uint8_t> sum;
#pragma unroll 4
            for (int s = lane; s < batch.slices; s += 32)
                sum.add(partial[static_cast<size_t>(i) * batch.slices + s]);
            warpSumToFirst(sum);
            if (lane)
                continue;
            const unsigned position = positions[i];
            const int y = static_cast<int>(position / m.ocols), x = static_cast<int>(position % m.ocols);
            const Candidate here = {exactCost<uint8_t>(m, templates, windows, k, y, x, sum), position};
            if (i >= batch.certain) {
                if (isBetter(here, best))
                    best = here;
            } else if (here.cost <= m.limit_cost) {
                results[batch.round + i].score = match_smallestIsBest(m.method) ? here.cost : 0 - here.cost;
            } else {
                atomicMin(&missing, batch.round + i);
            }
        }
        best = blockBestToFirst(best);
        if (batch.found > batch.certain) {
            if (threadIdx.x == 0) {
                chosen = matchOf(m, map.ranges, best);
                results[batch.round + batch.certain] = chosen;
                if (chosen.x < 0)
                    atomicMin(&missing, batch.round + batch.certain);
            }
            __syncthreads();
            if (chosen.x >= 0)
                map.suppress(chosen.x, chosen.y);
        }
        __syncthreads();
        if (missing < m.max_matches)
            endFrom(missing);
        return missing == m.max_matches;
    }

    // Finds matches as long as they are certain. True if there is a batch, which is then published.
    __device__ bool prepare(Lists &lists) const {
        const bool first = batch.end == 0;
        int round = first ? 1 : batch.round + batch.certain + (batch.found > batch.certain ? 1 : 0);
        bool more = true;
        if (first) {
            const cusMatch match = results[0];
            more = match.x >= 0;
            if (more)
                map.suppress(match.x, match.y);
            else
                endFrom(1);
        } else {
            more = resolve();
            if (!more && threadIdx.x == 0)
                batch.overflow = 0; // the matches have ended before it
            more = more && batch.overflow == 0;
        }
        if (!more || round >= m.max_matches)
            return false;
        const int begin = round;
        int found = 0;
        unsigned overflow = 0;
        for (;;) {
            if (round == m.max_matches)
                break;
            const bool fits = map.list(lists);
            const int count = lists.candidate_count;
            if (!fits || count == 0) {
                overflow = fits ? 0 : static_cast<unsigned>(round) + 1;
                if (fits)
                    endFrom(round);
                break;
            }
            if (found + count > MAX_BATCH)
                break; // the next batch lists them again
            for (int i = threadIdx.x; i < count; i += THREADS)
                positions[found + i] = lists.positions[i];
            found += count;
            if (count > 1)
                break;
            const Candidate only = {-INFINITY, lists.positions[0]};
            const int y = static_cast<int>(only.position / m.ocols), x = static_cast<int>(only.position % m.ocols);
            if (threadIdx.x == 0)
                results[round] = matchOf(m, map.ranges, only);
            __syncthreads();
            map.suppress(x, y);
            ++round;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            batch.round = begin;
            batch.certain = round - begin;
            batch.found = found;
            batch.slices = found ? max(1, min(m.h, static_cast<int>(gridDim.x) / found)) : 1;
            batch.overflow = overflow;
        }
        __syncthreads();
        return found > 0;
    }

    // Publishes the next batch or, without one, the end.
    __device__ void publish(bool more) const {
        __syncthreads();
        if (threadIdx.x == 0) {
            volatile Batch &shared = batch;
            const unsigned start = max(batch.end, 1u);
            batch.start = start;
            __threadfence();
            if (more)
                shared.end = start + static_cast<unsigned>(batch.found * batch.slices);
            else
                shared.finished = 1;
        }
        __syncthreads();
    }

    // Thread 0 takes an item and waits until it is published; false after the last batch. Item 0 is the first preparation.
    __device__ bool takeItem(unsigned &item) const {
        __shared__ unsigned taken;
        __shared__ bool available;
        __syncthreads();
        if (threadIdx.x == 0) {
            taken = atomicAdd(&batch.taken, 1u);
            const volatile Batch &shared = batch;
            available = true;
            while (taken >= max(shared.end, 1u) && available) {
                available = !shared.finished;
                if (available)
                    __nanosleep(20);
            }
            __threadfence();
        }
        __syncthreads();
        item = taken;
        return available;
    }
    // Publishes an item's sums; true in the block that completed the batch.
    __device__ bool finishItem() const {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            const unsigned end = max(batch.end, 1u);
            __threadfence();
            last = atomicAdd(&batch.done, 1u) + 1 == end;
            __threadfence();
        }
        __syncthreads();
        return last;
    }
};

// blockIdx.y: the template. Blocks wait for running blocks only, however many the device runs at a time.
__global__ void __launch_bounds__(THREADS)
    selectKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                 const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                 const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement) {
    __shared__ Lists lists;
    __shared__ bool last;
    cusi::startInOrder();
    const int k = blockIdx.y, tiles = scores.tiles_across * scores.tiles_down;
    if (refinement.overflows[k]) // in the first round
        return;
    const Map map = {m,
                     scores,
                     scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols,
                     scores.tile_lowers + static_cast<size_t>(k) * tiles,
                     tiles,
                     scores.tile_cols_log2 + scores.tile_rows_log2};
    Batch &batch = refinement.batches[k];
    const Selection selection = {m,
                                 frame,
                                 templates,
                                 windows,
                                 map,
                                 batch,
                                 refinement.batch_positions + static_cast<size_t>(k) * MAX_BATCH,
                                 static_cast<PartialSums<uint8_t> *>(refinement.partial_sums) +
                                     static_cast<size_t>(k) * (MAX_BATCH + refinement.blocks),
                                 refinement.results + static_cast<size_t>(k) * m.max_matches,
                                 k};
    for (unsigned item; selection.takeItem(item);) {
        if (item)
            selection.sumSlice(static_cast<int>(item - batch.start));
        if (selection.finishItem())
            selection.publish(selection.prepare(lists));
    }
    // The last block to leave prepares the next run and what denseKernel reads.
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&batch.left, 1u) == gridDim.x - 1;
        __threadfence();
        if (last) {
            refinement.overflows[k] = batch.overflow;
            batch = {};
        }
    }
}

} // namespace

cusStatus launchSelect(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", selectKernel, dim3(stages.refinement.blocks, stages.model.count),
                                  THREADS, 0, stream, stages.model, stages.frame, stages.templates, stages.windows,
                                  stages.scores, stages.refinement);
}

} // namespace match
