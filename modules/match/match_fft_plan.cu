// Plans of the transforms in shared memory: radices, tables and error bound.
#include "match_cuda.cuh"

namespace match {

namespace {

constexpr int COLUMN_THREADS = 192; // of a block of columnsFftKernel at most; tuned, see docs/internals/match.md

// The shortest transform of n points or more that fits a block, with as few threads as there are such plans; n = 0 if there
// is none.
fft::Plan planFor(int n) {
    fft::Plan best = {};
    int least = 0;
    for (int a : fft::A_RADICES)
        for (int b : fft::B_RADICES)
            for (int c : fft::C_RADICES) {
                const int points = a * b * c, most = 2 * points / std::min({a, b, c});
                if (points < n || points > fft::MAX_POINTS || (best.n && points > best.n) ||
                    (points == best.n && most >= least))
                    continue;
                const int threads = cusi::divUp(cusi::divUp(most, cusi::divUp(most, fft::MAX_THREADS)), 32) * 32;
                best = {points, a, b, c, b * c | 1, threads, 65536 / b + 1, 65536 / c + 1, nullptr, nullptr};
                least = most;
            }
    return best;
}

// Rounding error of one transform in units of 2^-24; docs/internals/match.md has the derivation.
template<class Complex>
double errorUnits(const fft::PlanOf<Complex> &plan) {
    return fft::butterflyUnits(plan.a) + fft::butterflyUnits(plan.b) + fft::butterflyUnits(plan.c) + 2 * fft::TWIDDLE_UNITS;
}

// Twiddle factors, rounded once, in the order of fft::PlanOf. Wide: a type with more digits.
template<class Wide, class Complex>
void twiddleFactors(const fft::PlanOf<Complex> &plan, std::vector<Complex> &twiddles) {
    using Real = fft::RealOf<Complex>;
    twiddles.reserve(static_cast<size_t>(plan.a - 1) * plan.b * plan.c + static_cast<size_t>(plan.b - 1) * plan.c);
    const auto add = [&](int radix, int step) {
        for (int q = 1; q < radix; ++q)
            for (int t = 0; t < step; ++t) {
                const Wide angle = -2 * static_cast<Wide>(M_PIl) * q * t / (static_cast<Wide>(radix) * step);
                twiddles.push_back({static_cast<Real>(std::cos(angle)), static_cast<Real>(std::sin(angle))});
            }
    };
    add(plan.a, plan.b * plan.c);
    add(plan.b, plan.c);
}

template<class Complex>
void digitReversal(const fft::PlanOf<Complex> &plan, std::vector<uint16_t> &elements) {
    elements.resize(plan.n);
    for (int k = 0; k < plan.n; ++k)
        elements[k] =
            static_cast<uint16_t>(k % plan.a * plan.stride + k / plan.a % plan.b * plan.c + k / (plan.a * plan.b));
}

template<class T>
cusStatus upload(MatchCuda *cuda, const std::vector<T> &host, const T **device, cudaStream_t stream) {
    T *copy = nullptr;
    CUS_TRY(allocate(cuda, &copy, host.size(), stream));
    CUSI_CUDA("cusMatcherCreate",
              cudaMemcpyAsync(copy, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
    CUSI_CUDA("cusMatcherCreate", cudaStreamSynchronize(stream));
    *device = copy;
    return CUS_OK;
}

template<class Wide, class Complex>
cusStatus makeTables(MatchCuda *cuda, fft::PlanOf<Complex> *plan, cudaStream_t stream) {
    std::vector<Complex> twiddles;
    std::vector<uint16_t> elements;
    CUS_TRY(inHostMemory([&] {
        twiddleFactors<Wide>(*plan, twiddles);
        digitReversal(*plan, elements);
    }));
    CUS_TRY(upload(cuda, twiddles, &plan->twiddles, stream));
    return upload(cuda, elements, &plan->digit_reversal, stream);
}

// The plan without tables, for double.
fft::PlanOf<double2> inDouble(const fft::Plan &p) {
    return {p.n, p.a, p.b, p.c, p.stride, p.threads, p.b_inverse, p.c_inverse, nullptr, nullptr};
}

// Bound of the error of a correlation by transforms in double relative to the sum over planes of |plane| |template plane|;
// docs/internals/match.md has the derivation.
double denseUnits(const Stages &stages) {
    const double rows = errorUnits(stages.dense.rows), columns = errorUnits(stages.dense.columns);
    const double units = 2 * (rows + 1 + columns) + 3 * stages.model.planes + columns + 1.4143 * (1 + rows) + 4;
    // The bounds of a template's parts, each relative to the whole frame, add up to that of the whole by Cauchy-Schwarz, times this.
    const int parts = stages.dense.pieces.parts;
    return 1.001 * (units + 2 * (parts - 1)) * sqrt(static_cast<double>(parts)) * 0x1p-53;
}

// The largest error that a correlation of 8-bit pixels can have.
double denseError(const Stages &stages, const MatchTemplate *sums) {
    const MatchModel &m = stages.model;
    const Pieces &pieces = stages.dense.pieces;
    double squares = 0, energy = 0;
    for (int p = 0; p < m.planes; ++p) {
        const double most = std::max(m.shift[p % 3], 255 - m.shift[p % 3]);
        double value = most;
        if (p < m.channels)
            squares += most * most;
        else
            value = std::max(m.square_shift, squares);
        double norm = 0;
        for (int k = 0; k < m.count; ++k)
            norm = std::max(norm, sums[k].norm[p]);
        energy += value *
                  sqrt(static_cast<double>(pieces.rows + pieces.part_rows - 1) * (pieces.cols + pieces.part_cols - 1)) *
                  norm;
    }
    return denseUnits(stages) * energy;
}

// What floats need. Shifting the pixels in double adds a unit each for frame and template, their squares some more.
cusStatus prepareFloats(MatchCuda *cuda, const void *templates, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    Dense &dense = cuda->stages.dense;
    dense.energy = cuda->stages.energy.planes;
    dense.units = denseUnits(cuda->stages) + 8 * 0x1p-53;
    for (size_t i = 0; i < static_cast<size_t>(m.n) * m.count; ++i) {
        const float v = static_cast<const float *>(templates)[i];
        dense.largest = std::max(dense.largest, v == std::rint(v) ? std::fabs(v) : INFINITY);
    }
    const size_t map = static_cast<size_t>(m.orows) * m.ocols;
    CUS_TRY(allocate(cuda, &dense.intervals, map, stream));
    CUS_TRY(allocate(cuda, &dense.period_counts, 2 * MAX_PERIOD, stream));
    CUS_TRY(allocate(cuda, &dense.equal_bits, size_t{2} * m.orows * equalWords(m), stream));
    CUS_TRY(allocate(cuda, &dense.listed, MAX_CANDIDATES, stream));
    return allocate(cuda, &dense.block_bests, dense.blocks, stream);
}

// One direction: the longest piece of the map, and part of the template, whose transform fits: all of both, or parts of half the
// longest transform at most and equal pieces.
struct Cut {
    fft::Plan plan;
    int piece, part, pieces, parts;
};
Cut cutFor(int map, int w, int longest) {
    Cut cut = {planFor(map + w - 1), map, w, 1, 1};
    if (cut.plan.n && cut.plan.n <= longest)
        return cut;
    cut.parts = cusi::divUp(w, longest / 2);
    cut.part = cusi::divUp(w, cut.parts);
    cut.pieces = cusi::divUp(map, longest - cut.part + 1);
    cut.piece = cusi::divUp(map, cut.pieces);
    cut.plan = planFor(cut.piece + cut.part - 1);
    return cut;
}

// Points of the longest plan of which, as of all shorter ones, `bytes` hold all elements of `each` bytes.
int longestFitting(size_t bytes, size_t each) {
    constexpr int PADDING = 16; // the largest outer radix
    int points = fft::MAX_POINTS;
    while (points > 0 && (planFor(points).n > points || (points + PADDING) * each > bytes))
        --points;
    return points;
}

cusStatus allowSharedMemory(const MatchModel &m, int bytes) {
    CUS_TRY(allowRowsFftMemory(bytes));
    CUS_TRY(allowColumnsFftMemory(m, bytes));
    return allowScoresFftMemory(m, bytes);
}

} // namespace

size_t rowFftBytes(const Stages &stages) {
    return static_cast<size_t>(stages.block_fft.rows.elements()) * sizeof(float4);
}

// Bound of a correlation's error in units of 2^-24 of |frame| |template|, summed up over the frame's rounding, the
// transforms of rows and columns, the product, and the inverse transforms; docs/internals/match.md has the derivation.
double correlationErrorUnits(const Stages &stages) {
    const double rows = errorUnits(stages.block_fft.rows), columns = errorUnits(stages.block_fft.columns);
    return 1.001 * (1 + rows + 1 + columns + 1 + 3 * stages.model.planes + columns + 1.4143 * (1 + rows));
}

cusStatus chooseBlockFft(MatchCuda *cuda, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    BlockFft &fft = cuda->stages.block_fft;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    fft.rows = planFor(m.cols);
    fft.columns = planFor(m.rows);
    fft.columns.threads = std::min(fft.columns.threads, COLUMN_THREADS);
    const bool fits = fft.rows.n && fft.columns.n &&
                      std::max(columnFftBytes(cuda->stages), rowFftBytes(cuda->stages)) <= static_cast<size_t>(most);
    if (!fits) {
        fft.rows = fft.columns = {};
        return CUS_OK;
    }
    CUS_TRY(makeTables<double>(cuda, &fft.rows, stream));
    CUS_TRY(makeTables<double>(cuda, &fft.columns, stream));
    return allowSharedMemory(m, most);
}

cusStatus sharedMemory(int *bytes) {
    constexpr int STATIC_BYTES = 8192;
    const char *f = "cusMatcherCreate";
    int device = 0;
    CUSI_CUDA(f, cudaGetDevice(&device));
    CUSI_CUDA(f, cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    *bytes -= STATIC_BYTES;
    return CUS_OK;
}

// Everything about stages.dense but the model's results; rows.n stays 0 if there is none. Rounding must give the integer.
cusStatus chooseDense(MatchCuda *cuda, const void *templates, const MatchTemplate *sums, cudaStream_t stream) {
    constexpr double MAX_ERROR = 0.4;
    // Of frames in pieces: in larger maps the error of floats alone leaves more candidates than the list holds, which blocks examine
    // in less time than all transforms take (64 x 64 in 7680 x 4320: 1.9 ms instead of 5.1).
    constexpr size_t MAX_POSITIONS = size_t{1} << 24;
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    Dense &dense = stages.dense;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    const size_t pair = sizeof(fft::DoublePair), room = static_cast<size_t>(most);
    const Cut across = cutFor(m.ocols, m.w, longestFitting(room, pair));
    const Cut down = cutFor(m.orows, m.h, longestFitting(room, pair * (m.planes > 1 ? 2 : 1)));
    dense.rows = inDouble(across.plan);
    dense.columns = inDouble(down.plan);
    dense.pieces = {across.piece,  down.piece,
                    across.part,   down.part,
                    across.pieces, across.pieces * down.pieces,
                    across.parts,  across.parts * down.parts};
    const bool too_large = isInPieces(dense.pieces) && static_cast<size_t>(m.orows) * m.ocols > MAX_POSITIONS;
    if (too_large || denseBytes(stages) > room || (m.integer && !(denseError(stages, sums) < MAX_ERROR))) {
        dense = {};
        return CUS_OK;
    }
    CUS_TRY(makeTables<long double>(cuda, &dense.rows, stream));
    CUS_TRY(makeTables<long double>(cuda, &dense.columns, stream));
    CUS_TRY(allowDenseMemory(stages, most));
    CUS_TRY(allowRefineDenseMemory(m, most));
    dense.in_refine = refinesDensely(stages, most);
    dense.tiles = cusi::divUp(dense.rows.n / 2 + 1, 2);
    dense.spectrum_pitch = cusi::divUp(down.piece + down.part - 1, BAND) * BAND;
    dense.template_pitch = cusi::divUp(down.part, BAND) * BAND;
    dense.product_pitch = cusi::divUp(down.piece, BAND) * BAND;
    dense.scale = 1 / (4.0 * dense.rows.n * dense.columns.n); // rows give twice the spectra, of frame and template
    dense.blocks = cuda->multiprocessors;
    const size_t planes = m.planes, tiles = dense.tiles, count = m.count;
    CUS_TRY(allocate(cuda, &dense.spectra, 2 * planes * tiles * dense.spectrum_pitch, stream));
    CUS_TRY(allocate(cuda, &dense.template_spectra, 2 * planes * tiles * dense.template_pitch, stream));
    CUS_TRY(allocate(cuda, &dense.products, 2 * tiles * dense.product_pitch, stream));
    CUS_TRY(allocate(cuda, &dense.columns_of_template, size_t{2} * dense.blocks * dense.columns.elements(), stream));
    CUS_TRY(allocate(cuda, &dense.bests, count * cusi::divUp(m.orows, BAND), stream));
    CUS_TRY(allocate(cuda, &dense.counters, 5, stream));
    CUS_TRY(allocate(cuda, &stages.refinement.overflows, count, stream));
    if (!m.integer)
        return prepareFloats(cuda, templates, stream);
    if (m.max_matches == 1 && !isInPieces(dense.pieces))
        return CUS_OK;
    return allocate(cuda, &dense.costs, static_cast<size_t>(m.orows) * m.ocols, stream);
}

} // namespace match
