// Plans transforms in shared memory: chooses radices, makes tables, and bounds errors.
#include "match/cuda/stages.cuh"

namespace cusi::match {

namespace {

constexpr int COLUMN_THREADS = 192; // most threads of a columnsFftKernel block, tuned: see docs/internals/match.md

// Computes twiddle factors in the order of fft::PlanOf, with more digits than needed, and rounds them once.
template<class Complex>
void twiddleFactors(const fft::PlanOf<Complex> &plan, std::vector<Complex> &twiddles) {
    using Real = fft::RealOf<Complex>;
    using Wide = std::conditional_t<sizeof(Real) == sizeof(float), double, long double>;
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

} // namespace

// Of equally short plans, chooses the one with the fewest threads.
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

template<class Complex>
cusStatus makeTables(MatchCuda *cuda, fft::PlanOf<Complex> *plan, cudaStream_t stream) {
    std::vector<Complex> twiddles;
    std::vector<uint16_t> elements;
    CUS_TRY(inHostMemory([&] {
        twiddleFactors(*plan, twiddles);
        digitReversal(*plan, elements);
    }));
    CUS_TRY(upload(cuda, twiddles.data(), twiddles.size(), &plan->twiddles, stream));
    return upload(cuda, elements.data(), elements.size(), &plan->digit_reversal, stream);
}
template cusStatus makeTables(MatchCuda *cuda, fft::PlanOf<float2> *plan, cudaStream_t stream);
template cusStatus makeTables(MatchCuda *cuda, fft::PlanOf<double2> *plan, cudaStream_t stream);

size_t rowFftBytes(const Stages &stages) {
    return static_cast<size_t>(stages.block_fft.rows.elements()) * sizeof(float4);
}

// Returns the bound of a correlation's error in units of 2^-24 of |frame| |template|: a sum over the frame's rounding,
// the transforms of rows and columns, the product, and the inverse transforms; docs/internals/match.md derives it.
double correlationErrorUnits(const Stages &stages) {
    const double rows = errorUnits(stages.block_fft.rows), columns = errorUnits(stages.block_fft.columns);
    return 1.001 * (1 + rows + 1 + columns + 1 + 3 * stages.model.channels + columns + 1.4143 * (1 + rows));
}

cusStatus chooseBlockFft(MatchCuda *cuda, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    BlockFft &fft = cuda->stages.block_fft;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    fft.rows = planFor(m.cols);
    fft.columns = planFor(m.rows);
    fft.columns.threads = std::min(fft.columns.threads, COLUMN_THREADS);
    const size_t bytes = std::max(columnFftBytes(cuda->stages), rowFftBytes(cuda->stages));
    if (!fft.rows.n || !fft.columns.n || bytes > static_cast<size_t>(most)) {
        fft.rows = fft.columns = {};
        return CUS_OK;
    }
    CUS_TRY(makeTables(cuda, &fft.rows, stream));
    CUS_TRY(makeTables(cuda, &fft.columns, stream));
    CUS_TRY(allowRowsFftMemory(most));
    CUS_TRY(allowColumnsFftMemory(m, most));
    return allowScoresFftMemory(m, most);
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

} // namespace cusi::match
