// Plans the exact pass: pieces of the map, transforms, error bounds, memory.
#include "match/cuda/stages.cuh"

namespace cusi::match {

namespace {

// Copies a plan for use in double, without tables.
fft::PlanOf<double2> inDouble(const fft::Plan &p) {
    return {p.n, p.a, p.b, p.c, p.stride, p.threads, p.b_inverse, p.c_inverse, nullptr, nullptr};
}

// Returns the bound of the error of a correlation by transforms in double, relative to the sum over channels of |frame|
// |template|; docs/internals/match.md derives it.
double exactUnits(const Stages &stages) {
    const double rows = errorUnits(stages.exact.rows), columns = errorUnits(stages.exact.columns);
    const double units = 2 * (rows + 1 + columns) + 3 * stages.model.channels + columns + 1.4143 * (1 + rows) + 4;
    return 1.001 * units * 0x1p-53;
}

// Returns the largest error of a correlation if no shifted pixel is larger than `largest`.
double exactError(const Stages &stages, const MatchTemplate *sums, const double (&largest)[MATCH_MAX_CHANNELS]) {
    const MatchModel &m = stages.model;
    const Pieces &pieces = stages.exact.pieces;
    const double pixels = sqrt(static_cast<double>(pieces.rows + m.h - 1) * (pieces.cols + m.w - 1));
    double squares = 0, energy = 0;
    for (int c = 0; c < m.channels; ++c) {
        squares += largest[c] * largest[c];
        double norm = 0;
        for (int k = 0; k < m.templates; ++k)
            norm = std::max(norm, sums[k].norm[c]);
        energy += largest[c] * pixels * norm;
    }
    if (m.masked) // squares are correlated with the mask, too
        energy = std::max(energy, squares * pixels * m.mask_norm);
    return exactUnits(stages) * energy;
}

// Returns whether rounding makes the correlations of 8-bit pixels exact.
bool isExact(const Stages &stages, const MatchTemplate *sums) {
    constexpr double MAX_ERROR = 0.4;
    const double *shift = stages.model.shift;
    double largest[MATCH_MAX_CHANNELS];
    for (int c = 0; c < MATCH_MAX_CHANNELS; ++c)
        largest[c] = std::max(shift[c], 255 - shift[c]);
    return exactError(stages, sums, largest) < MAX_ERROR;
}

// Returns the value of ExactPass::largest_integer, a power of two.
double largestInteger(const Stages &stages, const float *templates, const MatchTemplate *sums) {
    const MatchModel &m = stages.model;
    const size_t elements = static_cast<size_t>(m.w) * m.h * m.channels;
    double least = m.weighted ? INFINITY : 0; // the templates' largest magnitude
    for (size_t i = 0; i < elements * m.templates; ++i) {
        const double v = templates[i] - sums[i / elements].shift[i % m.channels];
        least = std::max(least, v == std::rint(v) ? std::fabs(v) : INFINITY);
    }
    for (double largest = 0x1p24; largest >= least; largest /= 2)
        if (match_sumsAreIntegers(&m, largest) &&
            static_cast<double>(m.cols) * m.h * m.channels * largest * largest < 0x1p52 &&
            exactError(stages, sums, {largest, largest, largest, largest}) < 0.25)
            return largest;
    return -1;
}

// How one direction of the map is cut: into as few equal pieces as fit the transforms. plan.n is 0 if no piece fits.
struct Cut {
    fft::Plan plan;
    int piece, pieces;
};
Cut cutFor(int map, int w, int longest) {
    Cut cut = {planFor(map + w - 1), map, 1};
    if (cut.plan.n && cut.plan.n <= longest)
        return cut;
    if (w > longest / 2)
        return {};
    cut.pieces = cusi::divUp(map, longest - w + 1);
    cut.piece = cusi::divUp(map, cut.pieces);
    cut.plan = planFor(cut.piece + w - 1);
    return cut;
}

// Returns the most points n such that `bytes` hold the elements, of `each` bytes, of every transform of up to n points.
int longestFitting(size_t bytes, size_t each) {
    constexpr int PADDING = 16; // the largest outer radix
    int points = fft::MAX_POINTS;
    while (points > 0 && (planFor(points).n > points || (points + PADDING) * each > bytes))
        --points;
    return points;
}

struct Cuts {
    Cut across, down;
};
cusStatus cutMap(const MatchModel &m, size_t *room, Cuts *cuts) {
    constexpr size_t PAIR = sizeof(fft::DoublePair);
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    *room = static_cast<size_t>(most);
    *cuts = {cutFor(m.ocols, m.w, longestFitting(*room, PAIR)),
             cutFor(m.orows, m.h, longestFitting(*room, PAIR * (m.channels > 1 ? 2 : 1)))};
    return CUS_OK;
}

} // namespace

cusStatus exactFits(const MatchModel &m, bool *fits) {
    size_t room = 0;
    Cuts cuts;
    CUS_TRY(cutMap(m, &room, &cuts));
    *fits = cuts.across.plan.n && cuts.down.plan.n && static_cast<size_t>(m.orows) * m.ocols < INT_MAX;
    return CUS_OK;
}

size_t exactBytes(const Stages &stages) {
    const ExactPass &exact = stages.exact;
    const MatchModel &m = stages.model;
    const size_t columns = exact.columns.elements() * (m.channels > 1 ? size_t{2} : 1);
    return std::max<size_t>(exact.rows.elements(), columns) * sizeof(fft::DoublePair);
}

// Fills stages.exact; rows.n stays 0 if there is no exact pass, as for bytes that rounding would not make exact.
cusStatus chooseExact(MatchCuda *cuda, const void *templates, const MatchTemplate *sums, cudaStream_t stream) {
    // Larger maps are not cut into pieces: the error of floats alone leaves more candidates there than the list holds, and
    // blocks examine those in less time than all transforms take (64 x 64 in 7680 x 4320: 1.9 ms instead of 5.1).
    constexpr size_t MAX_POSITIONS = size_t{1} << 24;
    Stages &stages = cuda->stages;
    MatchModel &m = stages.model;
    ExactPass &exact = stages.exact;
    // Prefix and running sums of doubles are off by half an ulp of the largest sum for each row and column.
    m.window_error = (m.rows + m.cols) * 0x1p-52;
    size_t room = 0;
    Cuts cuts;
    CUS_TRY(cutMap(m, &room, &cuts));
    const Cut &across = cuts.across, &down = cuts.down;
    const auto leave = [&] {
        exact = {};
        CUSI_REQUIRE(
            !m.masked, CUS_ERROR_SIZE,
            "cusMatcherCreate: templates[0] is %d x %d (rows x cols) in frames of %d x %d, expected less with a mask "
            "and the FFT",
            m.h, m.w, m.rows, m.cols);
        return CUS_OK;
    };
    if (!across.plan.n || !down.plan.n || static_cast<size_t>(m.orows) * m.ocols >= INT_MAX)
        return leave();
    exact.rows = inDouble(across.plan);
    exact.columns = inDouble(down.plan);
    exact.pieces = {across.piece, down.piece, across.pieces, across.pieces * down.pieces};
    const bool too_large = !m.masked && exact.pieces.count > 1 && static_cast<size_t>(m.orows) * m.ocols > MAX_POSITIONS;
    if (too_large || exactBytes(stages) > room || (m.integer && !isExact(stages, sums)))
        return leave();
    if (m.masked)
        m.window_error = exactUnits(stages) * m.mask_norm;
    CUS_TRY(makeTables(cuda, &exact.rows, stream));
    CUS_TRY(makeTables(cuda, &exact.columns, stream));
    CUS_TRY(allowExactMemory(&stages, static_cast<int>(room)));
    exact.tiles = cusi::divUp(exact.rows.n / 2 + 1, 2);
    exact.spectrum_pitch = cusi::divUp(down.piece + m.h - 1, BAND) * BAND;
    exact.template_pitch = cusi::divUp(m.h, BAND) * BAND;
    exact.product_pitch = cusi::divUp(down.piece, BAND) * BAND;
    exact.scale = 1 / (4.0 * exact.rows.n * exact.columns.n); // transformRows() doubles both spectra
    exact.blocks = cuda->multiprocessors;
    const size_t sums_in_mask = m.masked ? stages.windows.quantities : 0, mask_planes = m.weighted ? m.channels : 1,
                 planes = std::max<size_t>(m.channels, sums_in_mask);
    const size_t tiles = exact.tiles, count = m.count;
    CUS_TRY(allocate(cuda, &exact.spectra, 2 * planes * tiles * exact.spectrum_pitch, stream));
    CUS_TRY(allocate(cuda, &exact.template_spectra, 2 * planes * tiles * exact.template_pitch, stream));
    CUS_TRY(allocate(cuda, &exact.products, 2 * std::max<size_t>(sums_in_mask, 1) * tiles * exact.product_pitch, stream));
    if (m.masked)
        CUS_TRY(allocate(cuda, &exact.mask_columns, mask_planes * 2 * tiles * exact.columns.elements(), stream));
    CUS_TRY(allocate(cuda, &exact.columns_of_template, size_t{2} * exact.blocks * exact.columns.elements(), stream));
    CUS_TRY(allocate(cuda, &exact.bests, count * cusi::divUp(m.orows, BAND), stream));
    CUS_TRY(allocate(cuda, &exact.counters, 4, stream));
    CUS_TRY(allocate(cuda, &stages.refinement.overflows, count, stream));
    exact.errors = stages.energy.errors;
    if (!m.integer)
        exact.largest_integer = largestInteger(stages, static_cast<const float *>(templates), sums);
    if (m.max_matches == 1 && exact.pieces.count == 1)
        return CUS_OK;
    return allocate(cuda, &exact.costs, static_cast<size_t>(m.orows) * m.ocols, stream);
}

} // namespace cusi::match
