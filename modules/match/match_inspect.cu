// Pixels of a color range inside the matches' windows.
#include "hsv.cuh"
#include "match_cuda.cuh"

namespace {

constexpr int THREADS = cusi::HSV_THREADS;

// Blocks along x share one match's window. Counts and tickets are left at zero.
__global__ void __launch_bounds__(THREADS)
    inspectKernel(const cusi::BgrImage frame, const cusHsvRange range, double wanted, int w, int h, cusMatch *matches,
                  unsigned *counts, unsigned *tickets) {
    __shared__ cusi::HsvTables tables;
    cusMatch &match = matches[blockIdx.y];
    if (match.x < 0)
        return;
    tables.fill();
    const cusi::BgrImage window = {frame.data + match.y * frame.step + static_cast<size_t>(match.x) * 3, frame.step, h, w};
    const unsigned sum =
        cusi::blockSumToFirst(cusi::countInRange(window, range, tables, nullptr, 0, blockIdx.x, gridDim.x));
    if (threadIdx.x != 0)
        return;
    atomicAdd(&counts[blockIdx.y], sum);
    __threadfence();
    if (atomicAdd(&tickets[blockIdx.y], 1u) != gridDim.x - 1)
        return;
    const unsigned total = atomicExch(&counts[blockIdx.y], 0u);
    tickets[blockIdx.y] = 0;
    match.pixels = total;
    match.filled = total >= wanted;
}

} // namespace

cusStatus match_cuda_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream) {
    const MatchModel &m = matcher->model;
    const match::MatchCuda *cuda = static_cast<const match::MatchCuda *>(matcher->backend);
    const unsigned matches = static_cast<unsigned>(m.count) * m.max_matches;
    const long long quads = cusi::hsvQuads(m.h, m.w);
    const unsigned blocks =
        static_cast<unsigned>(std::min<long long>(2LL * cuda->multiprocessors, cusi::divUp<long long>(quads, 2 * THREADS)));
    cusMatch *results = static_cast<cusMatch *>(matcher->results.data);
    // Grids have at most 65535 blocks along y.
    for (unsigned first = 0; first < matches; first += 65535)
        CUS_TRY(cusi::launch("cusMatcherInspect", inspectKernel, dim3(blocks, std::min(65535u, matches - first)), THREADS,
                             0, stream, cusi::bgrImage(*frame), *range, min_fill * m.n, m.w, m.h, results + first,
                             cuda->inspect_counts + first, cuda->inspect_counts + matches + first));
    return CUS_OK;
}
