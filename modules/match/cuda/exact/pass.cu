// Finds the best matches if the refinement's list overflows: correlates all positions by transforms in double. Correlations
// of bytes, and of floats that are integers, are integers, and the error is below one half, so rounding makes them exact.
#include "match/cuda/exact/transforms.cuh"
#include "match/cuda/scores.cuh"

namespace cusi::match {

namespace {

constexpr int STATIC_BYTES = 8192; // bound of refineExactKernel's static shared memory

// ---- Columns

// Correlates a tile of two columns: both spectra, the conjugate of the correlation's spectrum, its inverse transform. The
// first elements of shared memory hold transforms, the next the sum over channels if there are several.
__device__ void correlateTile(const MatchModel &m, const ExactPass &exact, int tile) {
    const fft::PlanOf<double2> &plan = exact.columns;
    const int points = 2 * plan.elements();
    double2 *const spectrum = reinterpret_cast<double2 *>(sharedElements());
    double2 *const sum = spectrum + (m.channels > 1 ? points : 0);
    double2 *const templ = exact.columns_of_template + static_cast<size_t>(blockIdx.x) * points;
    for (int p = 0; p < m.channels; ++p) {
        const size_t at = 2 * (static_cast<size_t>(p) * exact.tiles + tile);
        transformColumns(plan, exact.template_spectra + at * exact.template_pitch, m.h);
        for (int i = threadIdx.x; i < points; i += EXACT_THREADS)
            templ[i] = spectrum[i]; // each thread reads what it wrote
        __syncthreads();
        transformColumns(plan, exact.spectra + at * exact.spectrum_pitch, exact.pieces.rows + m.h - 1);
        for (int i = threadIdx.x; i < points; i += EXACT_THREADS)
            sum[i] = correlate(spectrum[i], templ[i], p ? sum[i] : double2{0, 0});
        __syncthreads();
    }
    inverseColumns(exact, reinterpret_cast<fft::DoublePair *>(sum), exact.products, tile);
}

// ---- Rows

// Neither function is inlined, since four kernels would take twice as long to compile.
template<class T>
__device__ __noinline__ void transformBand(const ExactPass &exact, const Plane<T> &plane, bool of_frame, int band,
                                           double2 *spectra, int pitch) {
    transformRows(exact, plane, of_frame, band, spectra, pitch);
}
__device__ __noinline__ const double *correlationsOf(const ExactPass &exact, int band) {
    return inverseRows(exact, exact.products, band);
}

// ---- Scores

// The parameters of the kernel, and the work on scores.
template<class T>
struct Search {
    const MatchModel &m;
    const Frame &frame;
    const Templates &templates;
    const Windows &windows;
    const Scores &scores;
    const Refinement &refinement;
    const ExactPass &exact;

    // Earlier matches have removed their neighborhoods from the ranges.
    __device__ bool isFree(int round, size_t position) const { return !round || scores.ranges[position].lower < INFINITY; }
    __device__ void keepBest(int k, int band, Candidate best) const {
        best = blockBestToFirst<EXACT_THREADS / 32>(best);
        if (threadIdx.x == 0)
            exact.bests[static_cast<size_t>(k) * bands() + band] = best;
    }
    __device__ int bands() const { return cusi::divUp(m.orows, BAND); }

    // Computes the costs of a band of a piece. If there is one piece, that is a band of the map, and its best is kept.
    __device__ void scoreBand(int k, int round, int piece, int band) const {
        const Place at_place = placeOf(exact.pieces, piece);
        const int y0 = at_place.y + band * BAND, y1 = min(at_place.y + exact.pieces.rows, m.orows);
        const int cols = min(exact.pieces.cols, m.ocols - at_place.x);
        const fft::PlanOf<double2> &plan = exact.rows;
        const double *values = correlationsOf(exact, band);
        const bool integers = sizeof(T) == 1 || !*static_cast<const volatile unsigned *>(&exact.counters[FRACTIONS]);
        const double uncertain = integers ? 0 : exact.errors[k].energy;
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < BAND * cols; i += EXACT_THREADS) {
            const int column = i / BAND, x = at_place.x + column, r = i % BAND, y = y0 + r;
            if (y >= y1)
                continue;
            const double raw = values[BAND * plan.element(column) + r] * exact.scale;
            const unsigned long long position = static_cast<unsigned long long>(y) * m.ocols + x;
            const size_t at = static_cast<size_t>(k) * m.orows * m.ocols + position;
            const double c = integers ? rint(raw) : raw;
            const Candidate here = {costOf<T>(m, templates.sums[k], windows, y, x, c, uncertain), position};
            if (exact.costs)
                exact.costs[position] = here.cost;
            if (isFree(round, at) && isBetter(here, best))
                best = here;
        }
        if (exact.pieces.count == 1)
            keepBest(k, band, best);
    }

    // Finds the best of a band of the map from the costs of all pieces, or of an earlier round.
    __device__ void scanBand(int k, int round, int band) const {
        const int begin = band * BAND * m.ocols, end = min(begin + BAND * m.ocols, m.orows * m.ocols);
        const size_t map = static_cast<size_t>(k) * m.orows * m.ocols;
        Candidate best = noCandidate();
        for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += EXACT_THREADS) {
            const Candidate here = {exact.costs[i], static_cast<unsigned long long>(i)};
            if (isFree(round, map + i) && isBetter(here, best))
                best = here;
        }
        keepBest(k, band, best);
    }

    // Makes the match of a round from the best of each band, and removes its neighborhood from the ranges.
    __device__ void finish(int k, int round) const {
        __shared__ cusMatch match;
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < bands(); i += EXACT_THREADS) {
            const Candidate here = exact.bests[static_cast<size_t>(k) * bands() + i];
            if (isBetter(here, best))
                best = here;
        }
        MatchRange *ranges = scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols;
        const cusMatch here = matchByBlock<T>(m, frame, templates, windows, refinement, ranges, k,
                                              blockBestToFirst<EXACT_THREADS / 32>(best));
        if (threadIdx.x == 0)
            refinement.results[static_cast<size_t>(k) * m.max_matches + round] = match = here;
        __syncthreads();
        if (match.x < 0 || round + 1 == m.max_matches)
            return;
        const long long d = m.min_distance;
        const int x0 = static_cast<int>(max(match.x - d + 1, 0LL)), y0 = static_cast<int>(max(match.y - d + 1, 0LL));
        const int x1 = static_cast<int>(min(match.x + d, static_cast<long long>(m.ocols)));
        const int y1 = static_cast<int>(min(match.y + d, static_cast<long long>(m.orows)));
        for (int i = threadIdx.x; i < (x1 - x0) * (y1 - y0); i += EXACT_THREADS)
            ranges[static_cast<size_t>(y0 + i / (x1 - x0)) * m.ocols + x0 + i % (x1 - x0)] = {INFINITY, INFINITY};
    }
};

// ---- Phases

enum class Stage { ROWS, COLUMNS, SCORES, FINISH, SCAN };

// The work is a list of items, the same for every block: for each template whose list overflowed, the items of each stage.
// Blocks take items in order, and begin one when all items of earlier phases are done. Blocks wait only for running blocks,
// so any number of resident blocks will do.
template<class T>
struct Phase {
    int k = -1;
    int round = 0, piece = 0;
    Stage stage = Stage::FINISH;
    unsigned start = 0, end = 0;
    bool frame_done = false; // whether an earlier phase has made the frame's spectra

    // If there is one piece, the frame's spectra are made once for all templates.
    __device__ int frameItems(const Search<T> &search) const {
        return frame_done ? 0 : cusi::divUp(search.exact.pieces.rows + search.m.h - 1, BAND) * search.m.channels;
    }
    __device__ int templateItems(const Search<T> &search) const {
        return piece ? 0 : cusi::divUp(search.m.h, BAND) * search.m.channels;
    }
    __device__ unsigned items(const Search<T> &search) const {
        return stage == Stage::ROWS      ? frameItems(search) + templateItems(search)
               : stage == Stage::COLUMNS ? search.exact.tiles
               : stage == Stage::SCORES  ? cusi::divUp(search.exact.pieces.rows, BAND)
               : stage == Stage::FINISH  ? 1
                                         : search.bands();
    }

    // Goes to the next phase; returns false after the last one.
    __device__ bool advance(const Search<T> &search) {
        const MatchModel &m = search.m;
        start = end;
        const int pieces = search.exact.pieces.count;
        if (stage == Stage::ROWS) {
            frame_done = pieces == 1;
            stage = Stage::COLUMNS;
        } else if (stage == Stage::COLUMNS) {
            stage = Stage::SCORES;
        } else if (stage == Stage::SCORES && piece + 1 < pieces) {
            ++piece;
            stage = Stage::ROWS;
        } else if (stage == Stage::SCORES && pieces > 1) { // bands of the map span pieces
            stage = Stage::SCAN;
        } else if (stage != Stage::FINISH) {
            stage = Stage::FINISH;
        } else if (k >= 0 && round + 1 < m.max_matches) {
            ++round;
            stage = Stage::SCAN;
        } else {
            do
                ++k;
            while (k < m.count && !search.refinement.overflows[k]);
            if (k >= m.count)
                return false;
            round = static_cast<int>(search.refinement.overflows[k]) - 1;
            piece = 0;
            stage = Stage::ROWS;
        }
        end += items(search);
        return true;
    }
};

template<class T>
__device__ void runItem(const Search<T> &search, const Phase<T> &phase, int item) {
    const MatchModel &m = search.m;
    const ExactPass &exact = search.exact;
    if (phase.stage == Stage::ROWS) {
        const int frame_items = phase.frameItems(search), i = item < frame_items ? item : item - frame_items;
        const bool of_frame = item < frame_items;
        const int p = i % m.channels, pitch = of_frame ? exact.spectrum_pitch : exact.template_pitch;
        const Place place = placeOf(exact.pieces, phase.piece);
        double2 *spectra = of_frame ? exact.spectra : exact.template_spectra;
        transformBand(exact,
                      of_frame ? framePlane<T>(m, search.frame, exact.pieces, place, p)
                               : templatePlane<T>(m, search.templates, phase.k, p),
                      of_frame, i / m.channels, spectra + 2 * static_cast<size_t>(p) * exact.tiles * pitch, pitch);
    } else if (phase.stage == Stage::COLUMNS) {
        correlateTile(m, exact, item);
    } else if (phase.stage == Stage::SCORES) {
        search.scoreBand(phase.k, phase.round, phase.piece, item);
    } else if (phase.stage == Stage::SCAN) {
        search.scanBand(phase.k, phase.round, item);
    } else {
        search.finish(phase.k, phase.round);
    }
}

// The last block to leave resets the counters; until then all blocks see the same list of work.
template<class T>
__device__ void leave(const Search<T> &search) {
    __shared__ bool last;
    unsigned *counters = search.exact.counters;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&counters[LEFT], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    for (int k = threadIdx.x; k < search.m.count; k += EXACT_THREADS)
        search.refinement.overflows[k] = 0;
    if (threadIdx.x < COUNTERS)
        counters[threadIdx.x] = 0;
}

template<class T>
__device__ __forceinline__ void findExact(const Search<T> &search) {
    __shared__ unsigned taken;
    unsigned *counters = search.exact.counters;
    Phase<T> phase;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            taken = atomicAdd(&counters[TAKEN], 1u);
        __syncthreads();
        const unsigned item = taken;
        while (item >= phase.end)
            if (!phase.advance(search))
                return leave(search);
        if (threadIdx.x == 0) { // waits for all items before the phase, and makes their results visible
            while (*static_cast<const volatile unsigned *>(&counters[DONE]) < phase.start)
                __nanosleep(100);
            __threadfence();
        }
        __syncthreads();
        runItem(search, phase, static_cast<int>(item - phase.start));
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(&counters[DONE], 1u);
        }
    }
}

// This kernel has nothing to do unless a list has overflowed.
template<class T>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    exactCorrelationKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                           const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                           const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement,
                           const __grid_constant__ ExactPass exact) {
    cusi::startInOrder();
    bool overflow = false;
    for (int k = threadIdx.x; k < m.count; k += EXACT_THREADS)
        overflow |= refinement.overflows[k] != 0;
    if (__syncthreads_or(overflow))
        findExact<T>({m, frame, templates, windows, scores, refinement, exact});
}

// Replaces refineKernel and exactCorrelationKernel for one template and one match, since a launch that has nothing to do
// costs 3 microseconds. All blocks make the same list, so all know of an overflow.
template<class T>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    refineExactKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                      const __grid_constant__ Templates templates, const __grid_constant__ Windows windows,
                      const __grid_constant__ Scores scores, const __grid_constant__ Refinement refinement,
                      const __grid_constant__ ExactPass exact) {
    __shared__ unsigned overflow;
    cusi::startInOrder();
    float threshold;
    if (refine<T>(m, frame, templates, windows, scores, refinement, mapOf(m, scores, 0), 0, threshold))
        return;
    if (threadIdx.x == 0)
        overflow = 1;
    __syncthreads();
    Refinement here = refinement;
    here.overflows = &overflow;
    findExact<T>({m, frame, templates, windows, scores, here, exact});
}

using ExactKernel = void (*)(MatchModel, Frame, Templates, Windows, Scores, Refinement, ExactPass);
ExactKernel kernelFor(const Stages &stages) {
    if (stages.exact.in_refine)
        return stages.model.integer ? refineExactKernel<uint8_t> : refineExactKernel<float>;
    return stages.model.integer ? exactCorrelationKernel<uint8_t> : exactCorrelationKernel<float>;
}

} // namespace

cusStatus allowExactMemory(Stages *stages, int bytes) {
    stages->exact.in_refine = stages->model.count == 1 && stages->model.max_matches == 1 &&
                              exactBytes(*stages) + STATIC_BYTES <= static_cast<size_t>(bytes);
    return allowSharedMemory(reinterpret_cast<const void *>(kernelFor(*stages)),
                             stages->exact.in_refine ? bytes - STATIC_BYTES : bytes);
}

cusStatus launchExact(const Stages &stages, cudaStream_t stream) {
    return cusi::launchOverlapped("cusMatcherRun", kernelFor(stages), stages.exact.blocks, EXACT_THREADS,
                                  exactBytes(stages), stream, stages.model, stages.frame, stages.templates, stages.windows,
                                  stages.scores, stages.refinement, stages.exact);
}

} // namespace cusi::match
