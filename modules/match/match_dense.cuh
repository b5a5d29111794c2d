// The best match where the refinement's list overflowed: correlations of all positions by transforms in double. Those of 8-bit
// pictures, and of floats that are integers, are integers, and the error is below one half. Those of other floats leave few
// positions, which match_fractions.cuh compares. Part of denseKernel and of refineDenseKernel.
#ifndef CUSI_MATCH_DENSE_CUH
#define CUSI_MATCH_DENSE_CUH

#include "match_fractions.cuh"
#include "match_scores.cuh"

namespace match {

namespace {

constexpr fft::Direction FORWARD = fft::Direction::FORWARD, INVERSE = fft::Direction::INVERSE;

// ---- Rows

// A plane of the frame or of a template: factor times the pixels less an offset, zero outside the mask.
template<class T>
struct Plane {
    using Value = std::conditional_t<sizeof(T) == 1, int, double>;
    const unsigned char *pixels, *mask; // mask NULL: none
    size_t step, mask_step;
    int rows, cols, channels;
    int channel; // `channels`: the plane of squares, which a template's mask is correlated with
    int factor;
    Value offset[3], square_offset;

    __device__ double at(int y, int x) const {
        if (y >= rows || x >= cols)
            return 0;
        const T *pixel =
            reinterpret_cast<const T *>(pixels + static_cast<size_t>(y) * step) + static_cast<size_t>(x) * channels;
        const size_t i = static_cast<size_t>(x) * channels + (channel < channels ? channel : 0);
        if (mask && !__ldg(mask + static_cast<size_t>(y) * mask_step + i))
            return 0;
        if (channel < channels)
            return factor * (__ldg(pixel + channel) - offset[channel]);
        if (mask)
            return 1;
        Value sum = -square_offset;
        for (int c = 0; c < channels; ++c) {
            const Value v = __ldg(pixel + c) - offset[c];
            sum += v * v;
        }
        return sum;
    }
};

// The windows of a part of the template in a piece of the map: the map's position (y, x) and that of the part in the template.
struct Place {
    int y, x, part_y, part_x;
};
__device__ __forceinline__ Place placeOf(const Pieces &pieces, int piece, int part) {
    return {piece / pieces.across * pieces.rows, piece % pieces.across * pieces.cols,
            part / pieces.parts_across * pieces.part_rows, part % pieces.parts_across * pieces.part_cols};
}

template<class T>
__device__ const unsigned char *pixelAt(const void *data, size_t step, int channels, int y, int x) {
    return static_cast<const unsigned char *>(data) + static_cast<size_t>(y) * step +
           static_cast<size_t>(x) * channels * sizeof(T);
}

template<class T>
__device__ Plane<T> framePlane(const MatchModel &m, const Frame &frame, const Pieces &pieces, const Place &place, int p) {
    using Value = typename Plane<T>::Value;
    const int y = place.y + place.part_y, x = place.x + place.part_x;
    Plane<T> plane = {pixelAt<T>(frame.data, frame.step, m.channels, y, x),
                      nullptr,
                      frame.step,
                      0,
                      min(m.rows - y, pieces.rows + pieces.part_rows - 1),
                      min(m.cols - x, pieces.cols + pieces.part_cols - 1),
                      m.channels,
                      p,
                      1,
                      {},
                      static_cast<Value>(m.square_shift)};
    for (int c = 0; c < 3; ++c)
        plane.offset[c] = static_cast<Value>(m.shift[c]);
    return plane;
}

// As in templatePlane() of match_spectra.cu.
template<class T>
__device__ Plane<T> templatePlane(const MatchModel &m, const Templates &templates, const Pieces &pieces, const Place &place,
                                  int k, int p) {
    using Value = typename Plane<T>::Value;
    const int y = place.part_y, x = place.part_x;
    Plane<T> plane = {pixelAt<T>(templates.pixels + k * templates.bytes, templates.step, m.channels, y, x),
                      templates.mask ? pixelAt<uint8_t>(templates.mask, templates.mask_step, m.channels, y, x) : nullptr,
                      templates.step,
                      templates.mask_step,
                      min(m.h - y, pieces.part_rows),
                      min(m.w - x, pieces.part_cols),
                      m.channels,
                      p,
                      m.masked && m.method == CUS_MATCH_SQDIFF ? -2 : 1,
                      {},
                      0};
    for (int c = 0; c < 3; ++c)
        plane.offset[c] = m.masked && m.method != CUS_MATCH_SQDIFF ? 0 : static_cast<Value>(m.shift[c]);
    return plane;
}

// Twice the spectra of a band of rows, in tiles of `pitch` rows; match_fft_rows.cu explains the separation of two rows.
template<class T>
__device__ void transformRows(const Dense &dense, const Plane<T> &plane, int band, double2 *spectra, int pitch) {
    fft::DoublePair *const elements = sharedElements();
    const int y = band * BAND + 2 * fft::signalIndex();
    fft::forwardOuterPass(dense.rows, elements, [&](int x) { return double2{plane.at(y, x), plane.at(y + 1, x)}; });
    fft::middlePass<FORWARD>(dense.rows, elements);
    fft::innerPass(dense.rows, elements);
    __syncthreads();
    const double2 *points = reinterpret_cast<const double2 *>(elements);
    for (int i = threadIdx.x; i < dense.tiles * 2 * BAND; i += DENSE_THREADS) {
        const int tile = i / (2 * BAND), row = i / 2 % BAND, k = 2 * tile + i % 2, mirrored = k ? dense.rows.n - k : 0;
        const double2 z = points[2 * __ldg(dense.rows.digit_reversal + k) + row / 2];
        const double2 w = points[2 * __ldg(dense.rows.digit_reversal + mirrored) + row / 2];
        spectra[(static_cast<size_t>(tile) * pitch + band * BAND + row) * 2 + i % 2] =
            row % 2 ? double2{z.y + w.y, w.x - z.x} : double2{z.x + w.x, z.y - w.y};
    }
}

// ---- Columns

__device__ __forceinline__ void transformColumns(const fft::PlanOf<double2> &plan, const double2 *spectra, int rows) {
    const double2 *in = spectra + fft::signalIndex();
    fft::forwardOuterPass(plan, sharedElements(), [&](int y) {
        return y < rows ? in[2 * static_cast<size_t>(y)] : double2{0, 0};
    });
    fft::middlePass<FORWARD>(plan, sharedElements());
    fft::innerPass(plan, sharedElements());
    __syncthreads();
}

// One tile of two columns: both spectra, the conjugate of the correlation's spectrum, and its inverse transform; `add`: to that of
// earlier parts of the template. The first elements of shared memory take the transforms, the next the sum over several planes.
__device__ void correlateTile(const MatchModel &m, const Dense &dense, const Pieces &pieces, bool add, int tile) {
    const fft::PlanOf<double2> &plan = dense.columns;
    const int points = 2 * plan.elements();
    double2 *const spectrum = reinterpret_cast<double2 *>(sharedElements());
    double2 *const sum = spectrum + (m.planes > 1 ? points : 0);
    double2 *const templ = dense.columns_of_template + static_cast<size_t>(blockIdx.x) * points;
    for (int p = 0; p < m.planes; ++p) {
        const size_t at = 2 * (static_cast<size_t>(p) * dense.tiles + tile);
        transformColumns(plan, dense.template_spectra + at * dense.template_pitch, pieces.part_rows);
        for (int i = threadIdx.x; i < points; i += DENSE_THREADS)
            templ[i] = spectrum[i]; // each thread reads what it wrote
        __syncthreads();
        transformColumns(plan, dense.spectra + at * dense.spectrum_pitch, pieces.rows + pieces.part_rows - 1);
        for (int i = threadIdx.x; i < points; i += DENSE_THREADS) {
            const double2 a = spectrum[i], b = templ[i], before = p ? sum[i] : double2{0, 0};
            sum[i] = {fma(a.x, b.x, fma(a.y, b.y, before.x)), fma(a.x, b.y, fma(-a.y, b.x, before.y))};
        }
        __syncthreads();
    }
    fft::DoublePair *const product = reinterpret_cast<fft::DoublePair *>(sum);
    fft::innerPass(plan, product);
    fft::middlePass<INVERSE>(plan, product);
    double2 *out = dense.products + 2 * static_cast<size_t>(tile) * dense.product_pitch + fft::signalIndex();
    fft::inverseOuterPass(plan, product, [&](int y, double2 *, const double2 &v) {
        if (y >= dense.product_pitch)
            return;
        double2 &to = out[2 * static_cast<size_t>(y)];
        to = add ? double2{to.x + v.x, to.y + v.y} : v;
    });
}

// ---- Scores

// The band's products, its rows joined in pairs, in the order of the inverse transform; as in match_fft_scores.cu.
__device__ void loadProducts(const Dense &dense, int band) {
    double2 *const points = reinterpret_cast<double2 *>(sharedElements());
    const int n = dense.rows.n, half = n / 2;
    for (int i = threadIdx.x; i < 2 * (half + 1); i += DENSE_THREADS) {
        const int k = i / 2, pair = i % 2;
        const double2 *in =
            dense.products + 2 * (static_cast<size_t>(k / 2) * dense.product_pitch + band * BAND + 2 * pair) + k % 2;
        double2 a = in[0], b = in[2];
        if (k == 0 || k == half) // real, apart from rounding
            a.y = b.y = 0;
        points[2 * __ldg(dense.rows.digit_reversal + k) + pair] = {a.x - b.y, a.y + b.x};
        if (k > 0 && k < half)
            points[2 * __ldg(dense.rows.digit_reversal + n - k) + pair] = {a.x + b.y, b.x - a.y};
    }
}

// A run's part that does not depend on the phase. Of floats with fractions the best of a band is the least upper end of its
// positions' costs, and the first position that has it.
// SEVERAL: more than one match may be wanted. IN_PIECES: otherwise the frame is one piece, the template one part, and the code does
// not know of them.
template<class T, bool SEVERAL, bool IN_PIECES>
struct Search {
    const MatchModel &m;
    const Templates &templates;
    const Windows &windows;
    const Scores &scores;
    const Refinement &refinement;
    const Dense &dense;

    // Earlier matches have removed their neighborhoods from the ranges.
    __device__ bool isFree(int round, size_t position) const { return !round || scores.ranges[position].lower < INFINITY; }
    __device__ void keepBest(int k, int band, Candidate best) const {
        best = blockBestToFirst<DENSE_THREADS / 32>(best);
        if (threadIdx.x == 0)
            dense.bests[static_cast<size_t>(k) * bands() + band] = best;
    }
    __device__ int bands() const { return cusi::divUp(m.orows, BAND); }
    __device__ Pieces pieces() const {
        if constexpr (IN_PIECES)
            return dense.pieces;
        return {m.ocols, m.orows, m.w, m.h, 1, 1, 1, 1};
    }
    __device__ Place place(int piece, int part) const {
        if constexpr (IN_PIECES)
            return placeOf(dense.pieces, piece, part);
        return {0, 0, 0, 0};
    }
    __device__ int pieceBands() const { return cusi::divUp(pieces().rows, BAND); }

    __device__ Fractions fractions(const Frame &frame, int k, int round, const int (&periods)[2]) const {
        return {m, frame, templates, windows, scores, refinement, dense, k, round, {periods[0], periods[1]}};
    }

    // Whether the correlations and all sums are integers that doubles hold and that rounding finds. frame_largest: the largest
    // magnitude of the frame's pixels if they are integers.
    __device__ bool hasIntegers(int k, float frame_largest) const {
        const double largest =
            fmax(static_cast<double>(frame_largest), static_cast<double>(dense.largest)) + fabs(m.shift[0]);
        return match_sumsAreIntegers(&m, largest) && static_cast<double>(m.cols) * m.h * largest * largest < 0x1p52 &&
               match_correlationError(&m, &templates.sums[k], dense.energy, dense.units) < 0.25;
    }

    // The cost of a position of a float picture, or its bounds.
    __device__ MatchInterval intervalOf(const MatchTemplate &t, const MatchDoubt &doubt, int y, int x, double raw,
                                        double constant, bool integers) const {
        if (integers) {
            const double cost = costOf<T>(m, t, windows, y, x, rint(raw) + constant);
            return {cost, cost};
        }
        double s1[3] = {0, 0, 0}, s2 = 0;
        if (!m.masked)
            windowAt<T>(m, windows, y, x, s1, s2);
        return match_narrow(&m, &t, raw + constant, doubt, s1[0], s2);
    }

    // A band of a piece. If it is the only piece, that is a band of the map, whose best position is kept.
    __device__ void scoreBand(int k, int round, int piece, int band, [[maybe_unused]] bool integers) const {
        const Place at_place = place(piece, 0);
        const int y0 = at_place.y + band * BAND, y1 = min(at_place.y + pieces().rows, m.orows);
        const int cols = min(pieces().cols, m.ocols - at_place.x);
        const fft::PlanOf<double2> &plan = dense.rows;
        fft::DoublePair *const elements = sharedElements();
        loadProducts(dense, band);
        fft::innerPass(plan, elements);
        fft::middlePass<INVERSE>(plan, elements);
        fft::inverseOuterPass(plan, elements, [&](int, double2 *from, const double2 &v) { *from = v; });
        __syncthreads();
        const double *values = reinterpret_cast<const double *>(elements);
        const double constant = m.masked ? maskedConstant(m, templates, k) : 0;
        [[maybe_unused]] MatchDoubt doubt = {};
        if constexpr (sizeof(T) > 1)
            doubt = match_doubt(&m, &templates.sums[k], dense.energy, dense.units, constant);
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < BAND * cols; i += DENSE_THREADS) {
            const int column = i / BAND, x = at_place.x + column, r = i % BAND, y = y0 + r;
            if (y >= y1)
                continue;
            const double raw = values[BAND * plan.element(column) + r] * dense.scale;
            const unsigned long long position = static_cast<unsigned long long>(y) * m.ocols + x;
            const size_t at = static_cast<size_t>(k) * m.orows * m.ocols + position;
            Candidate here = {0, position};
            if constexpr (sizeof(T) == 1) {
                here.cost = costOf<T>(m, templates.sums[k], windows, y, x, rint(raw) + constant);
                if (dense.costs)
                    dense.costs[position] = here.cost;
            } else {
                const MatchInterval interval = intervalOf(templates.sums[k], doubt, y, x, raw, constant, integers);
                here.cost = interval.upper;
                if (!integers || m.max_matches > 1 || IN_PIECES)
                    dense.intervals[position] = interval;
            }
            if (isFree(round, at) && isBetter(here, best))
                best = here;
        }
        if (!IN_PIECES)
            keepBest(k, band, best);
    }

    // The best of a band of the map, from the costs of all pieces or of an earlier round.
    __device__ void scanBand(int k, int round, int band) const {
        const int begin = band * BAND * m.ocols, end = min(begin + BAND * m.ocols, m.orows * m.ocols);
        const size_t map = static_cast<size_t>(k) * m.orows * m.ocols;
        Candidate best = noCandidate();
        for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += DENSE_THREADS) {
            Candidate here = {0, static_cast<unsigned long long>(i)};
            if constexpr (sizeof(T) == 1)
                here.cost = dense.costs[i];
            else
                here.cost = dense.intervals[i].upper;
            if (isFree(round, map + i) && isBetter(here, best))
                best = here;
        }
        keepBest(k, band, best);
    }

    // By each thread: the best of some bands.
    __device__ Candidate bestOfBands(int k) const {
        Candidate best = noCandidate();
        for (int i = threadIdx.x; i < bands(); i += DENSE_THREADS) {
            const Candidate here = dense.bests[static_cast<size_t>(k) * bands() + i];
            if (isBetter(here, best))
                best = here;
        }
        return best;
    }

    // The match of a round, from the best of each thread, and the neighborhood that it takes from the next.
    __device__ void finish(int k, int round, Candidate best) const {
        __shared__ cusMatch match;
        MatchRange *ranges = scores.ranges + static_cast<size_t>(k) * m.orows * m.ocols;
        best = blockBestToFirst<DENSE_THREADS / 32>(best);
        if (threadIdx.x == 0) {
            match = matchOf(m, ranges, best);
            refinement.results[static_cast<size_t>(k) * m.max_matches + round] = match;
        }
        __syncthreads();
        if (match.x < 0 || round + 1 == m.max_matches)
            return;
        const long long d = m.min_distance;
        const int x0 = static_cast<int>(max(match.x - d + 1, 0LL)), y0 = static_cast<int>(max(match.y - d + 1, 0LL));
        const int x1 = static_cast<int>(min(match.x + d, static_cast<long long>(m.ocols)));
        const int y1 = static_cast<int>(min(match.y + d, static_cast<long long>(m.orows)));
        for (int i = threadIdx.x; i < (x1 - x0) * (y1 - y0); i += DENSE_THREADS)
            ranges[static_cast<size_t>(y0 + i / (x1 - x0)) * m.ocols + x0 + i % (x1 - x0)] = {INFINITY, INFINITY};
    }
};

// ---- Phases

// Floats begin with INSPECT. Those with fractions need PERIODS and EQUALS once, and LIST and SUM before each FINISH.
enum class Stage { ROWS, COLUMNS, SCORES, FINISH, SCAN, INSPECT, PERIODS, EQUALS, LIST, SUM };

// The work is a list of items that every block can tell: for each template whose list overflowed, the items of each stage.
// Blocks take items in order and begin one when all items of earlier stages are done. Whoever waits therefore waits for
// running blocks only, and it does not matter how many blocks the device runs at a time.
template<class T, bool SEVERAL, bool IN_PIECES>
struct Phase {
    int k = -1;
    int round = 0, piece = 0, part = 0;
    Stage stage = Stage::FINISH;
    unsigned start = 0, end = 0;
    bool frame_done = false; // its spectra were made in an earlier phase
    // Of floats:
    bool inspected = false, has_periods = false, has_equals = false, integers = true;
    float largest = 0; // magnitude of the frame's pixels, infinity if they are not all integers
    int periods[2] = {1, 1};

    __device__ int frameItems(const MatchModel &m, const Pieces &pieces) const {
        return frame_done ? 0 : cusi::divUp(pieces.rows + pieces.part_rows - 1, BAND) * m.planes;
    }
    // A template in one part keeps its spectra for all pieces.
    __device__ int templateItems(const MatchModel &m, const Pieces &pieces) const {
        return pieces.parts == 1 && piece ? 0 : cusi::divUp(pieces.part_rows, BAND) * m.planes;
    }

    // Whether what comes next depends on the results of this stage, which learn() gets.
    __device__ bool decides() const { return stage == Stage::INSPECT || stage == Stage::PERIODS; }
    __device__ void learn(const Dense &dense) {
        if (stage == Stage::INSPECT)
            largest = __uint_as_float(*static_cast<const volatile unsigned *>(&dense.counters[LARGEST]));
        else
            for (int along = 0; along < 2; ++along)
                periods[along] = bestPeriod(dense, along);
    }

    // Of template k, after what is done once a frame.
    __device__ Stage firstStage(const Search<T, SEVERAL, IN_PIECES> &search) {
        if constexpr (sizeof(T) > 1) {
            if (!inspected) {
                inspected = true;
                return Stage::INSPECT;
            }
            integers = search.hasIntegers(k, largest);
            if (!integers && !has_periods) {
                has_periods = true;
                return Stage::PERIODS;
            }
            if (!integers && !has_equals) {
                has_equals = true;
                return Stage::EQUALS;
            }
        }
        return Stage::ROWS;
    }

    __device__ unsigned items(const Search<T, SEVERAL, IN_PIECES> &search) const {
        const MatchModel &m = search.m;
        if constexpr (sizeof(T) > 1) {
            if (stage == Stage::INSPECT)
                return cusi::divUp(m.rows, INSPECTED_ROWS);
            if (stage == Stage::PERIODS)
                return 2 * MAX_PERIOD;
            if (stage == Stage::EQUALS)
                return 2 * equalWords(m);
            if (stage == Stage::SUM)
                return search.dense.blocks;
        }
        const Pieces pieces = search.pieces();
        return stage == Stage::ROWS      ? frameItems(m, pieces) + templateItems(m, pieces)
               : stage == Stage::COLUMNS ? search.dense.tiles
               : stage == Stage::SCORES  ? search.pieceBands()
               : stage == Stage::FINISH  ? 1
                                         : search.bands();
    }

    // The next phase; false after the last one.
    __device__ bool advance(const Search<T, SEVERAL, IN_PIECES> &search) {
        const MatchModel &m = search.m;
        start = end;
        const Pieces pieces = search.pieces();
        if (stage == Stage::ROWS) {
            frame_done = !IN_PIECES;
            stage = Stage::COLUMNS;
        } else if (stage == Stage::COLUMNS) {
            part = IN_PIECES && part + 1 < pieces.parts ? part + 1 : 0;
            stage = part ? Stage::ROWS : Stage::SCORES;
        } else if (IN_PIECES && stage == Stage::SCORES && piece + 1 < pieces.count) {
            ++piece;
            stage = Stage::ROWS;
        } else if (IN_PIECES && stage == Stage::SCORES) { // the least of all pieces
            stage = Stage::SCAN;
        } else if (sizeof(T) > 1 && stage >= Stage::INSPECT && stage <= Stage::EQUALS) {
            stage = firstStage(search);
        } else if (sizeof(T) > 1 && !integers && stage != Stage::SUM && stage != Stage::FINISH) {
            stage = stage == Stage::LIST ? Stage::SUM : Stage::LIST;
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
            stage = firstStage(search);
        }
        end += items(search);
        return true;
    }
};

template<class T, bool SEVERAL, bool IN_PIECES>
__device__ void runItem(const Search<T, SEVERAL, IN_PIECES> &search, const Frame &frame,
                        const Phase<T, SEVERAL, IN_PIECES> &phase, int item) {
    const MatchModel &m = search.m;
    const Dense &dense = search.dense;
    const Pieces pieces = search.pieces();
    if (phase.stage == Stage::ROWS) {
        const int frame_items = phase.frameItems(m, pieces), i = item < frame_items ? item : item - frame_items;
        const bool of_frame = item < frame_items;
        const int p = i % m.planes, pitch = of_frame ? dense.spectrum_pitch : dense.template_pitch;
        const Place place = search.place(phase.piece, phase.part);
        double2 *spectra = of_frame ? dense.spectra : dense.template_spectra;
        transformRows(dense,
                      of_frame ? framePlane<T>(m, frame, pieces, place, p)
                               : templatePlane<T>(m, search.templates, pieces, place, phase.k, p),
                      i / m.planes, spectra + 2 * static_cast<size_t>(p) * dense.tiles * pitch, pitch);
    } else if (phase.stage == Stage::COLUMNS) {
        correlateTile(m, dense, pieces, IN_PIECES && phase.part, item);
    } else if (phase.stage == Stage::SCORES) {
        search.scoreBand(phase.k, phase.round, phase.piece, item, phase.integers);
    } else if (phase.stage == Stage::SCAN) {
        search.scanBand(phase.k, phase.round, item);
    } else if (sizeof(T) == 1 || (phase.stage == Stage::FINISH && phase.integers)) {
        search.finish(phase.k, phase.round, search.bestOfBands(phase.k));
    } else if constexpr (sizeof(T) > 1) {
        const Fractions fractions = search.fractions(frame, phase.k, phase.round, phase.periods);
        if (phase.stage == Stage::INSPECT)
            fractions.inspectRows(item);
        else if (phase.stage == Stage::PERIODS)
            fractions.countEqual(item);
        else if (phase.stage == Stage::EQUALS)
            fractions.findEqual(item);
        else if (phase.stage == Stage::LIST)
            fractions.listBand(item);
        else if (phase.stage == Stage::SUM)
            fractions.sum(item);
        else
            search.finish(phase.k, phase.round, fractions.best());
    }
}

// Thread 0 takes an item; all threads learn its number.
__device__ unsigned takeItem(unsigned *counters) {
    __shared__ unsigned taken;
    __syncthreads();
    if (threadIdx.x == 0)
        taken = atomicAdd(&counters[TAKEN], 1u);
    __syncthreads();
    return taken;
}

// Waits until the items before `start` are done, and makes their results visible.
__device__ void waitFor(const unsigned *counters, unsigned start) {
    if (threadIdx.x == 0) {
        while (*static_cast<const volatile unsigned *>(&counters[DONE]) < start)
            __nanosleep(100);
        __threadfence();
    }
    __syncthreads();
}

// Publishes an item's results.
__device__ void finishItem(unsigned *counters) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&counters[DONE], 1u);
    }
}

// The last block to leave prepares the next run; until then all blocks see the same list of work.
template<class T, bool SEVERAL, bool IN_PIECES>
__device__ void leave(const Search<T, SEVERAL, IN_PIECES> &search) {
    __shared__ bool last;
    unsigned *counters = search.dense.counters;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(&counters[LEFT], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    for (int k = threadIdx.x; k < search.m.count; k += DENSE_THREADS)
        search.refinement.overflows[k] = 0;
    if (threadIdx.x <= (sizeof(T) == 1 ? LEFT : LARGEST))
        counters[threadIdx.x] = 0;
}

// All work of a run: for the templates whose flags in search.refinement.overflows are set.
template<class T, bool SEVERAL, bool IN_PIECES>
__device__ void findDense(const Search<T, SEVERAL, IN_PIECES> &search, const Frame &frame) {
    const Dense &dense = search.dense;
    Phase<T, SEVERAL, IN_PIECES> phase;
    for (bool more = true; more;) {
        const unsigned item = takeItem(dense.counters);
        while (more && item >= phase.end) {
            if constexpr (sizeof(T) > 1)
                if (phase.decides()) {
                    waitFor(dense.counters, phase.end);
                    phase.learn(dense);
                }
            more = phase.advance(search);
        }
        if (!more)
            break;
        waitFor(dense.counters, phase.start);
        runItem(search, frame, phase, static_cast<int>(item - phase.start));
        finishItem(dense.counters);
    }
    leave(search);
}

} // namespace

} // namespace match

#endif
