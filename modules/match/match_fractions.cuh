// Float pictures with fractions where the refinement's list overflowed. Correlations in double leave few positions that may be the
// best, apart from those whose windows have the same pixels, of which the first one counts. Part of denseKernel and of
// refineDenseKernel.
#ifndef CUSI_MATCH_FRACTIONS_CUH
#define CUSI_MATCH_FRACTIONS_CUH

#include "match_candidates.cuh"

namespace match {

namespace {

constexpr int DENSE_THREADS = 384; // one block on a multiprocessor: 168 registers a thread
constexpr int DENSE_WARPS = DENSE_THREADS / 32;
constexpr int INSPECTED_ROWS = 8; // of an item
constexpr int PERIOD_LINES = 16;  // on which periods are tried
enum Counter { TAKEN, DONE, LEFT, FOUND, LARGEST };

__device__ __forceinline__ fft::DoublePair *sharedElements() {
    return reinterpret_cast<fft::DoublePair *>(shared_points);
}

// The period, along rows (0) or down columns (1), under which most of the sample lines' pixels stay the same; the shortest one.
__device__ int bestPeriod(const Dense &dense, int down) {
    unsigned best = 0; // counts are below 2^16
#pragma unroll 8
    for (int i = 0; i < MAX_PERIOD; ++i)
        best = max(best, dense.period_counts[down * MAX_PERIOD + i] << 8 | (MAX_PERIOD - i));
    return MAX_PERIOD + 1 - static_cast<int>(best & 255);
}

// Two windows are equal if each pixel of one equals the one a period to its left, or above it. These comparisons are bits, 32
// columns a word; equal_bits has those of which h, one below the other, are all set, for each row of the map.
struct Fractions {
    const MatchModel &m;
    const Frame &frame;
    const Templates &templates;
    const Windows &windows;
    const Scores &scores;
    const Refinement &refinement;
    const Dense &dense;
    int k, round;
    int periods[2];

    __device__ const float *row(int y) const {
        return cusi::rowOf(static_cast<const float *>(frame.data), frame.step, static_cast<size_t>(y));
    }
    __device__ int bands() const { return cusi::divUp(m.orows, BAND); }
    __device__ unsigned *foundCounter() const { return &dense.counters[FOUND]; }

    // ---- Once a frame

    // The largest magnitude of some rows, or infinity if one of their pixels is not an integer.
    __device__ void inspectRows(int item) const {
        float largest = 0;
        for (int x = threadIdx.x; x < m.cols; x += DENSE_THREADS) {
            float v[INSPECTED_ROWS];
#pragma unroll
            for (int r = 0; r < INSPECTED_ROWS; ++r)
                v[r] = __ldg(row(min(item * INSPECTED_ROWS + r, m.rows - 1)) + x);
#pragma unroll
            for (int r = 0; r < INSPECTED_ROWS; ++r)
                largest = fmaxf(largest, v[r] == rintf(v[r]) ? fabsf(v[r]) : INFINITY);
        }
        largest = -cusi::blockMin(-largest);
        if (threadIdx.x == 0)
            atomicMax(&dense.counters[LARGEST], __float_as_uint(largest)); // in the order of floats that are not negative
    }

    // Equal pixels of the sample lines under one period.
    __device__ void countEqual(int item) const {
        const int down = item / MAX_PERIOD, period = item % MAX_PERIOD + 1;
        const int length = down ? m.rows : m.cols, lines = down ? m.cols : m.rows;
        unsigned equal = 0;
        for (int at = period + static_cast<int>(threadIdx.x); at < length; at += DENSE_THREADS) {
#pragma unroll
            for (int i = 0; i < PERIOD_LINES; ++i) {
                const int line = static_cast<int>(static_cast<long long>(lines) * i / PERIOD_LINES);
                const float a = __ldg(down ? row(at) + line : row(line) + at);
                const float b = __ldg(down ? row(at - period) + line : row(line) + at - period);
                equal += a == b ? 1 : 0;
            }
        }
        equal = cusi::blockSumToFirst(equal);
        if (threadIdx.x == 0)
            dense.period_counts[item] = equal;
    }

    // One word of equal_bits in all rows.
    __device__ void findEqual(int item) const {
        constexpr int UNROLL = 4;
        const int words = equalWords(m), down = item / words, word = item % words, period = periods[down];
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        const int x = min(word * 32 + lane, m.cols - 1), from_x = down ? x : max(x - period, 0);
        const bool inside = word * 32 + lane < m.cols && (down || x >= period);
        unsigned *now = reinterpret_cast<unsigned *>(sharedElements()), *next = now + m.rows;
        for (int y0 = warp; y0 < m.rows; y0 += UNROLL * DENSE_WARPS) {
            float a[UNROLL], b[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int y = min(y0 + u * DENSE_WARPS, m.rows - 1);
                a[u] = __ldg(row(y) + x);
                b[u] = __ldg(row(down ? max(y - period, 0) : y) + from_x);
            }
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const int y = y0 + u * DENSE_WARPS;
                const unsigned bits = __ballot_sync(cusi::FULL_WARP, inside && a[u] == b[u] && (!down || y >= period));
                if (lane == 0 && y < m.rows)
                    now[y] = bits;
            }
        }
        __syncthreads();
        int length = 1; // rows that a bit of `now` stands for
        for (; 2 * length <= m.h; length *= 2) {
            for (int y = threadIdx.x; y + 2 * length <= m.rows; y += DENSE_THREADS)
                next[y] = now[y] & now[y + length];
            __syncthreads();
            unsigned *const free = now;
            now = next;
            next = free;
        }
        for (int y = threadIdx.x; y < m.orows; y += DENSE_THREADS)
            dense.equal_bits[(static_cast<size_t>(down) * m.orows + y) * words + word] = now[y] & now[y + m.h - length];
    }

    // ---- Each round

    // The same bits `shift` columns further on.
    __device__ static unsigned shifted(const unsigned *line, int words, int word, int shift) {
        const int from = word + shift / 32;
        const unsigned low = from < words ? line[from] : 0, high = from + 1 < words ? line[from + 1] : 0;
        return __funnelshift_r(low, high, shift % 32);
    }

    // Shared memory becomes 2 * BAND lines of words: bits of the windows in a band that equal the one to their left, then above.
    __device__ const unsigned *equalWindows(int band) const {
        const int words = equalWords(m), all = 2 * BAND * words;
        unsigned *now = reinterpret_cast<unsigned *>(sharedElements()), *next = now + all;
        __syncthreads();
        for (int i = threadIdx.x; i < all; i += DENSE_THREADS) {
            const int line = i / words, y = min(band * BAND + line % BAND, m.orows - 1);
            now[i] = dense.equal_bits[(static_cast<size_t>(line / BAND) * m.orows + y) * words + i % words];
        }
        __syncthreads();
        for (int length = 1; length < m.w;) {
            const int shift = min(length, m.w - length);
            for (int i = threadIdx.x; i < all; i += DENSE_THREADS)
                next[i] = now[i] & shifted(now + i / words * words, words, i % words, shift);
            __syncthreads();
            length += shift;
            unsigned *const free = now;
            now = next;
            next = free;
        }
        return now;
    }

    __device__ bool isFree(int y, int x) const {
        return !round || scores.ranges[(static_cast<size_t>(k) * m.orows + y) * m.ocols + x].lower < INFINITY;
    }

    // Whether position (band * BAND + r, x) can be the best and no equal window before it can.
    __device__ bool isWanted(const unsigned *equal, int band, int r, int x, const Candidate &least, double &lower) const {
        const int y = band * BAND + r, words = equalWords(m);
        if (y >= m.orows || x >= m.ocols)
            return false;
        const unsigned long long position = static_cast<unsigned long long>(y) * m.ocols + x;
        lower = dense.intervals[position].lower;
        if (!(lower < least.cost || (lower == least.cost && position <= least.position)) || !isFree(y, x))
            return false;
        const bool left = equal[r * words + x / 32] >> x % 32 & 1, above = equal[(BAND + r) * words + x / 32] >> x % 32 & 1;
        return !(left && isFree(y, x - periods[0])) && !(above && isFree(y - periods[1], x));
    }

    // The least upper end of all positions, in every thread.
    __device__ Candidate leastUpper() const {
        __shared__ Candidate least;
        Candidate mine = noCandidate();
        for (int i = threadIdx.x; i < bands(); i += DENSE_THREADS) {
            const Candidate here = dense.bests[static_cast<size_t>(k) * bands() + i];
            if (isBetter(here, mine))
                mine = here;
        }
        mine = blockBestToFirst<DENSE_WARPS>(mine);
        if (threadIdx.x == 0)
            least = mine;
        __syncthreads();
        return least;
    }

    // Calls use(position, lower) in each lane for 32 neighboring positions of a band, `wanted` or not. By whole warps.
    template<class Use>
    __device__ __forceinline__ void visitBand(int band, const Candidate &least, const Use &use) const {
        const unsigned *const equal = equalWindows(band);
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        for (int run = warp; run < BAND * cusi::divUp(m.ocols, 32); run += DENSE_WARPS) {
            const int r = run % BAND, x = run / BAND * 32 + lane;
            double lower = INFINITY;
            const bool wanted = isWanted(equal, band, r, x, least, lower);
            use(wanted, band * BAND + r, x, lower);
        }
    }

    __device__ void listBand(int band) const {
        const Candidate least = leastUpper();
        visitBand(band, least, [&](bool wanted, int y, int x, double) {
            const int lane = static_cast<int>(threadIdx.x) % 32;
            const unsigned votes = __ballot_sync(cusi::FULL_WARP, wanted);
            if (!votes)
                return;
            unsigned at = lane == 0 ? atomicAdd(foundCounter(), static_cast<unsigned>(__popc(votes))) : 0;
            at = __shfl_sync(cusi::FULL_WARP, at, 0) + __popc(votes & ((1u << lane) - 1));
            if (wanted && at < MAX_CANDIDATES)
                dense.listed[at] = static_cast<unsigned>(static_cast<size_t>(y) * m.ocols + x);
        });
    }

    __device__ unsigned found() const {
        return *static_cast<const volatile unsigned *>(foundCounter());
    }
    __device__ int slices(unsigned found) const {
        return static_cast<int>(
            max(1u, min(static_cast<unsigned>(m.h), static_cast<unsigned>(dense.blocks) / max(found, 1u))));
    }
    __device__ PartialSums<float> *partialSums() const {
        return static_cast<PartialSums<float> *>(refinement.partial_sums) +
               static_cast<size_t>(k) * (MAX_CANDIDATES + dense.blocks);
    }

    // A share of the listed windows; if the list overflowed, of the bands.
    __device__ void sum(int item) const {
        const unsigned listed = found();
        if (listed <= MAX_CANDIDATES) {
            sumSlices<float, DENSE_THREADS>(m, frame, templates, k, dense.listed, static_cast<int>(listed), slices(listed),
                                            partialSums(), item, dense.blocks);
            return;
        }
        const Candidate least = leastUpper();
        Candidate best = noCandidate(); // of the warp
        for (int band = item; band < bands(); band += dense.blocks)
            visitBand(band, least, [&](bool wanted, int y, int x, double lower) {
                const int lane = static_cast<int>(threadIdx.x) % 32;
                for (unsigned votes = __ballot_sync(cusi::FULL_WARP, wanted); votes; votes &= votes - 1) {
                    const int at = __ffs(static_cast<int>(votes)) - 1, here_x = x - lane + at;
                    if (__shfl_sync(cusi::FULL_WARP, lower, at) > best.cost)
                        continue;
                    PartialSums<float> sum = sumWindowPart<float>(m, frame, templates, {k, y, here_x, 0, m.h, lane, 32});
                    warpSumToFirst(sum);
                    Candidate here = {exactCost<float>(m, templates, windows, k, y, here_x, sum),
                                      static_cast<unsigned long long>(y) * m.ocols + here_x};
                    here.cost = __shfl_sync(cusi::FULL_WARP, here.cost, 0);
                    if (isBetter(here, best))
                        best = here;
                }
            });
        best = blockBestToFirst<DENSE_WARPS>(best);
        if (threadIdx.x == 0)
            dense.block_bests[item] = best;
    }

    // By each thread: the best of some of what sum() has computed. The list is empty then.
    __device__ Candidate best() const {
        const unsigned listed = found();
        __syncthreads();
        if (threadIdx.x == 0)
            *foundCounter() = 0;
        if (listed <= MAX_CANDIDATES)
            return bestListed<float, DENSE_THREADS>(m, templates, windows, k, dense.listed, static_cast<int>(listed),
                                                    slices(listed), partialSums());
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < dense.blocks; i += DENSE_THREADS)
            if (isBetter(dense.block_bests[i], best))
                best = dense.block_bests[i];
        return best;
    }
};

} // namespace

} // namespace match

#endif
