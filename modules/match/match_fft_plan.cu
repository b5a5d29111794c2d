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
double errorUnits(const fft::Plan &plan) {
    return fft::butterflyUnits(plan.a) + fft::butterflyUnits(plan.b) + fft::butterflyUnits(plan.c) + 2 * fft::TWIDDLE_UNITS;
}

// Twiddle factors, rounded once, in the order of fft::Plan.
std::vector<float2> twiddleFactors(const fft::Plan &plan) {
    std::vector<float2> twiddles;
    const auto add = [&](int radix, int step) {
        for (int q = 1; q < radix; ++q)
            for (int t = 0; t < step; ++t) {
                const double angle = -2 * M_PI * q * t / (static_cast<double>(radix) * step);
                twiddles.push_back({static_cast<float>(cos(angle)), static_cast<float>(sin(angle))});
            }
    };
    add(plan.a, plan.b * plan.c);
    add(plan.b, plan.c);
    return twiddles;
}

std::vector<uint16_t> digitReversal(const fft::Plan &plan) {
    std::vector<uint16_t> elements(plan.n);
    for (int k = 0; k < plan.n; ++k)
        elements[k] =
            static_cast<uint16_t>(k % plan.a * plan.stride + k / plan.a % plan.b * plan.c + k / (plan.a * plan.b));
    return elements;
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

cusStatus makeTables(MatchCuda *cuda, fft::Plan *plan, cudaStream_t stream) {
    CUS_TRY(upload(cuda, twiddleFactors(*plan), &plan->twiddles, stream));
    return upload(cuda, digitReversal(*plan), &plan->digit_reversal, stream);
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
    const char *f = "cusMatcherCreate";
    constexpr int STATIC_BYTES = 8192; // left for the kernels' static shared memory
    const MatchModel &m = cuda->stages.model;
    BlockFft &fft = cuda->stages.block_fft;
    int device = 0, most = 0;
    CUSI_CUDA(f, cudaGetDevice(&device));
    CUSI_CUDA(f, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    most -= STATIC_BYTES;
    fft.rows = planFor(m.cols);
    fft.columns = planFor(m.rows);
    fft.columns.threads = std::min(fft.columns.threads, COLUMN_THREADS);
    const bool fits = fft.rows.n && fft.columns.n &&
                      std::max(columnFftBytes(cuda->stages), rowFftBytes(cuda->stages)) <= static_cast<size_t>(most);
    if (!fits) {
        fft.rows = fft.columns = {};
        return CUS_OK;
    }
    CUS_TRY(makeTables(cuda, &fft.rows, stream));
    CUS_TRY(makeTables(cuda, &fft.columns, stream));
    return allowSharedMemory(m, most);
}

} // namespace match
