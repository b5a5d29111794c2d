// The device half of a matcher allocates its memory and queues a run, all in the caller's stream.
#include "hsv.cuh"
#include "match/cuda/stages.cuh"

using cusi::match::MatchCuda, cusi::match::Stages;

namespace cusi::match {

namespace {

// Bound of the rounding error of one level of a cuFFT transform, in units of 2^-24: a product with a twiddle factor, the
// rounding of that factor, and a sum make sqrt(5) + 1 / sqrt(2) + 1 < 4.
constexpr double CUFFT_UNITS = 4;
constexpr size_t PREFIX_BYTES = 46080; // shared memory for prefix sums of rows; longer rows use global memory

// ---- Preparation

// Prefix sums (doubles or 64-bit integers) are in shared memory if those of one row fit.
cusStatus planWindows(MatchCuda *cuda, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    Windows &windows = cuda->stages.windows;
    windows.quantities = (m.needs_s1 ? m.channels : 0) + (m.needs_s2 ? 1 : 0);
    windows.vertical_pitch = cusi::divUp(m.cols, 4) * size_t{4};
    windows.wide = !m.integer || m.channels % 2 == 0 || static_cast<double>(m.h) * m.channels * 255 * 255 >= 4294967296.0;
    if (!m.masked && windows.quantities && windows.vertical_pitch * sizeof(double) > PREFIX_BYTES)
        CUS_TRY(allocate(cuda, reinterpret_cast<double **>(&windows.prefixes),
                         static_cast<size_t>(windows.quantities) * m.orows * windows.vertical_pitch, stream));
    return CUS_OK;
}

// One warp handles a row. Blocks of the column kernels have `warps` warps.
void planWindowRows(Windows &windows, int warps) {
    const int fitting = static_cast<int>(PREFIX_BYTES / (windows.vertical_pitch * sizeof(double)));
    windows.rows_per_block = windows.prefixes ? warps : std::clamp(fitting, 1, warps);
}

// Returns the bound of a correlation's error, relative to |frame| |template|.
double correlationError(const Stages &stages) {
    if (stages.block_fft.rows.n)
        return correlationErrorUnits(stages) * 0x1p-24;
    // The frame's transform and the inverse one count; the templates' spectra are computed in double.
    return 2 * CUFFT_UNITS * log2(static_cast<double>(stages.cufft.rows) * stages.cufft.cols) * 0x1p-24 + 0x1p-22;
}

// A tile of the score map has 32 columns of a band of rows with the block FFT, otherwise 64 x 32 positions.
void planTiles(Stages &stages) {
    const MatchModel &m = stages.model;
    Scores &scores = stages.scores;
    const bool in_block = stages.block_fft.rows.n > 0;
    scores.tile_cols_log2 = in_block ? 5 : 6;
    scores.tile_rows_log2 = in_block ? 2 : 5;
    static_assert(BAND == 1 << 2, "tile_rows_log2");
    scores.tiles_across = cusi::divUp(m.ocols, 1 << scores.tile_cols_log2);
    scores.tiles_down = cusi::divUp(m.orows, 1 << scores.tile_rows_log2);
    scores.upper_count = in_block ? scores.tiles_down : scores.tiles_across * scores.tiles_down;
    stages.energy.part_count = in_block ? cusi::divUp(m.rows, BAND) : m.rows;
    if (in_block) {
        BlockFft &fft = stages.block_fft;
        fft.tiles = cusi::divUp(fft.rows.n / 2 + 1, 2);
        fft.spectrum_pitch = cusi::divUp(m.rows, BAND) * BAND;
        fft.product_pitch = cusi::divUp(m.orows, BAND) * BAND;
    }
}

cusStatus allocateResults(MatchCuda *cuda, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    const size_t count = static_cast<size_t>(m.frames) * m.count;
    CUS_TRY(allocate(cuda, &cuda->stages.refinement.tickets, 2 * count, stream)); // leastOf() has the second half
    CUS_TRY(allocate(cuda, &cuda->maps, count, stream));
    CUS_TRY(allocate(cuda, &cuda->map_steps, count, stream));
    CUS_TRY(allocate(cuda, &cuda->inspect_counts, 2 * count * m.max_matches, stream));
    return inHostMemory([&] {
        cuda->host_maps.assign(count, nullptr);
        cuda->sent_maps.assign(count, nullptr);
        cuda->host_steps.assign(count, 0);
        cuda->sent_steps.assign(count, 0);
    });
}

cusStatus allocateBuffers(MatchCuda *cuda, cudaStream_t stream) {
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    Windows &windows = stages.windows;
    Scores &scores = stages.scores;
    const size_t count = m.count, map_rows = static_cast<size_t>(windows.quantities) * m.orows;
    CUS_TRY(allocate(cuda, &stages.energy.parts, static_cast<size_t>(m.channels) * stages.energy.part_count, stream));
    CUS_TRY(allocate(cuda, &stages.energy.channels, MATCH_MAX_CHANNELS, stream));
    CUS_TRY(allocate(cuda, &stages.energy.errors, count, stream));
    CUS_TRY(upload(cuda, m.shift, MATCH_MAX_CHANNELS, &stages.frame.shift, stream));
    windows.shift = stages.frame.shift;
    scores.errors = stages.energy.errors;
    CUS_TRY(allocate(
        cuda, reinterpret_cast<char **>(&windows.vertical),
        (m.masked ? 0 : map_rows) * windows.vertical_pitch * (windows.wide ? sizeof(double) : sizeof(uint32_t)), stream));
    CUS_TRY(allocate(cuda, reinterpret_cast<double **>(&windows.sums), map_rows * m.ocols, stream));
    CUS_TRY(allocate(cuda, &scores.ranges, count * m.orows * m.ocols, stream));
    CUS_TRY(allocate(cuda, &scores.tile_lowers, count * scores.tiles_across * scores.tiles_down, stream));
    CUS_TRY(allocate(cuda, &scores.block_uppers, count * scores.upper_count, stream));
    return allocate(cuda, reinterpret_cast<char **>(&stages.refinement.partial_sums), refinementBytes(stages), stream);
}

cusStatus allocateFft(MatchCuda *cuda, cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    BlockFft &block = cuda->stages.block_fft;
    CuFft &cufft = cuda->stages.cufft;
    const size_t count = m.count, planes = m.channels, tiles = block.tiles;
    if (block.rows.n) {
        CUS_TRY(allocate(cuda, &block.spectra, planes * tiles * block.spectrum_pitch, stream));
        return allocate(cuda, &block.products, count * tiles * block.product_pitch, stream);
    }
    const size_t plane = static_cast<size_t>(cufft.rows) * cufft.cols;
    const size_t spectrum = static_cast<size_t>(cufft.rows) * (cufft.cols / 2 + 1);
    CUS_TRY(allocate(cuda, &cufft.planes, plane * planes, stream));
    CUS_TRY(allocate(cuda, &cufft.spectra, spectrum * planes, stream));
    CUS_TRY(allocate(cuda, &cufft.products, spectrum * count, stream));
    CUS_TRY(allocate(cuda, &cufft.correlations, plane * count, stream));
    return makeCufftPlans(cuda, stream);
}

// Uploads templates (masked pixels are 0), mask and sums; results start as "no match".
cusStatus uploadTemplates(MatchCuda *cuda, const void *pixels, MatchMask mask, const MatchTemplate *sums,
                          cudaStream_t stream) {
    const MatchModel &m = cuda->stages.model;
    Templates &templates = cuda->stages.templates;
    const size_t count = m.templates, row = static_cast<size_t>(m.w) * m.channels, elements = row * m.h;
    const size_t element = m.integer ? 1 : sizeof(float);
    templates.step = cusi::divUp<size_t>(row * element, 16) * 16;
    templates.bytes = templates.step * m.h;
    templates.mask_step = mask.inside ? cusi::divUp<size_t>(row, 16) * 16 : 0;
    const cusMatch none = {-1, -1, NAN, 0, 0, 0, -1};
    std::vector<unsigned char> host, host_mask;
    std::vector<cusMatch> results;
    CUS_TRY(inHostMemory([&] {
        host.assign(templates.bytes * count, 0);
        host_mask.assign(templates.mask_step * m.h, 0);
        results.assign(static_cast<size_t>(m.frames) * m.count * m.max_matches, none);
    }));
    for (size_t i = 0; i < elements * count; ++i)
        if (!mask.inside || mask.inside[i % elements])
            std::copy_n(static_cast<const unsigned char *>(pixels) + i * element, element,
                        &host[i / row * templates.step + i % row * element]);
    if (mask.inside) {
        for (size_t i = 0; i < elements; ++i)
            host_mask[i / row * templates.mask_step + i % row] = mask.inside[i];
        CUS_TRY(upload(cuda, host_mask.data(), host_mask.size(), &templates.mask, stream));
    }
    if (m.samples) {
        std::vector<uint32_t> samples;
        CUS_TRY(inHostMemory([&] { samples.assign(m.samples, 0); }));
        match_chooseSamples(&m, mask, samples.data());
        CUS_TRY(upload(cuda, samples.data(), samples.size(), &templates.samples, stream));
    }
    if (mask.weights)
        CUS_TRY(upload(cuda, mask.weights, elements, &templates.weights, stream));
    CUS_TRY(upload(cuda, host.data(), host.size(), &templates.pixels, stream));
    CUS_TRY(upload(cuda, sums, count, &templates.sums, stream));
    return upload(cuda, results.data(), results.size(), &cuda->stages.refinement.results, stream);
}

cusStatus prepare(cusMatcher *matcher, MatchCuda *cuda, const void *templates, MatchMask mask, const MatchTemplate *sums,
                  cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    MatchModel &m = matcher->model;
    Stages &stages = cuda->stages;
    CUSI_CUDA(f, cusi::multiprocessors(&cuda->multiprocessors));
    stages.model = m;
    stages.refinement.blocks = cuda->multiprocessors;
    CUS_TRY(allocateResults(cuda, stream));
    CUS_TRY(uploadTemplates(cuda, templates, mask, sums, stream));
    CUS_TRY(cusMatWrap(&matcher->results, m.frames * m.count, m.max_matches * static_cast<int>(sizeof(cusMatch)), CUS_8UC1,
                       CUS_DEVICE, stages.refinement.results, 0));
    if (matcher->algorithm == CUS_MATCH_DIRECT) {
        CUS_TRY(prepareDirect(cuda, templates, mask.inside, stream));
        matcher->frames_at_once = stages.direct.frames;
        return CUS_OK;
    }
    CUS_TRY(planWindows(cuda, stream));
    CUS_TRY(chooseBlockFft(cuda, stream));
    if (!stages.block_fft.rows.n)
        CUS_TRY(chooseCufftSize(m, &stages.cufft));
    stages.model.error = m.error = correlationError(stages);
    planWindowRows(stages.windows, (stages.block_fft.rows.n ? stages.block_fft.columns.threads : THREADS) / 32);
    planTiles(stages);
    CUS_TRY(allocateBuffers(cuda, stream));
    CUS_TRY(chooseExact(cuda, templates, sums, stream));
    CUS_TRY(allocateFft(cuda, stream));
    CUS_TRY(prepareSpectra(cuda, templates, mask, sums, stream));
    if (m.masked)
        CUS_TRY(prepareMask(cuda, stream));
    m.window_error = stages.model.window_error;
    CUSI_CUDA(f, cudaStreamSynchronize(stream));
    return CUS_OK;
}

// ---- A run

// Matches one frame by the FFT.
cusStatus runFft(const MatchCuda &cuda, Stages &stages, cudaStream_t stream) {
    const MatchModel &m = stages.model;
    const int window_blocks =
        m.masked ? 0 : cusi::divUp(stages.windows.quantities * m.orows, stages.windows.rows_per_block);
    if (match_hasOwnShift(&m))
        CUS_TRY(launchFrameShift(stages, stream));
    if (m.masked)
        CUS_TRY(launchMaskedSums(stages, stream));
    if (window_blocks)
        CUS_TRY(launchVertical(stages, stream));
    if (stages.block_fft.rows.n) {
        CUS_TRY(launchRowsFft(stages, window_blocks > 0, stream));
        CUS_TRY(launchColumnsFft(stages, window_blocks, stream));
        CUS_TRY(launchScoresFft(stages, stream));
    } else {
        CUS_TRY(runCufft(cuda, stages, window_blocks, stream));
    }
    CUS_TRY(launchRefine(stages, stream));
    for (int &round = stages.refinement.round; ++round < m.max_matches;) {
        CUS_TRY(launchRemoveNeighborhood(stages, stream));
        CUS_TRY(launchRefine(stages, stream));
    }
    return stages.refinement.overflows && !stages.exact.in_refine ? launchExact(stages, stream) : CUS_OK;
}

// ---- Inspection

// Blocks along x share one match's window. The last of them sets counts and tickets back to zero.
__global__ void __launch_bounds__(cusi::HSV_THREADS)
    inspectKernel(const cusi::BgrImage frame, const cusHsvRange range, double wanted, int w, int h, cusMatch *matches,
                  unsigned *counts, unsigned *tickets) {
    __shared__ cusi::HsvTables tables;
    cusMatch &match = matches[blockIdx.y];
    if (match.x < 0)
        return;
    tables.fill();
    const cusi::BgrImage window = {frame.data + match.y * frame.step + static_cast<size_t>(match.x) * 3, frame.step, h, w};
    const unsigned sum = cusi::blockSum(cusi::countInRange(window, range, tables, nullptr, 0, blockIdx.x, gridDim.x));
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

// ---- Frames

__global__ void __launch_bounds__(THREADS)
    toFloatsKernel(const unsigned char *frame, size_t step, int rows, unsigned cols, float *floats, size_t floats_step) {
    for (int y = blockIdx.x; y < rows; y += gridDim.x)
        for (unsigned x = threadIdx.x; x < cols; x += THREADS)
            cusi::rowOf(floats, floats_step, y)[x] = cusi::rowOf(frame, step, y)[x];
}

// Makes the stages see only the templates after the first `count`.
void skipTemplates(Stages &stages, int count) {
    const MatchModel &m = stages.model;
    const size_t planes = static_cast<size_t>(count) * m.channels;
    stages.templates.sums += count;
    stages.templates.pixels += count * stages.templates.bytes;
    stages.direct.words += count * stages.direct.template_words;
    stages.direct.wgmma.slabs += count * stages.direct.wgmma.template_bytes;
    stages.block_fft.template_spectra += planes * stages.block_fft.tiles * stages.block_fft.columns.n;
    stages.cufft.template_spectra += planes * stages.cufft.rows * (stages.cufft.cols / 2 + 1);
}

// ---- Score maps

// Uploads the addresses of the maps unless the previous run had the same.
cusStatus sendMaps(MatchCuda *cuda, const cusMat *maps, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const int count = cuda->stages.model.frames * cuda->stages.model.count;
    for (int k = 0; k < count; ++k) {
        cuda->host_maps[k] = static_cast<float *>(maps[k].data);
        cuda->host_steps[k] = maps[k].step;
    }
    if (cuda->host_maps == cuda->sent_maps && cuda->host_steps == cuda->sent_steps)
        return CUS_OK;
    CUSI_CUDA(f,
              cudaMemcpyAsync(cuda->maps, cuda->host_maps.data(), count * sizeof(float *), cudaMemcpyHostToDevice, stream));
    CUSI_CUDA(f, cudaMemcpyAsync(cuda->map_steps, cuda->host_steps.data(), count * sizeof(size_t), cudaMemcpyHostToDevice,
                                 stream));
    cuda->sent_maps = cuda->host_maps;
    cuda->sent_steps = cuda->host_steps;
    return CUS_OK;
}

} // namespace

size_t prefixBytes(const Stages &stages) {
    const Windows &windows = stages.windows;
    return !stages.model.masked && windows.quantities && !windows.prefixes
               ? windows.rows_per_block * windows.vertical_pitch * sizeof(double)
               : 0;
}

} // namespace cusi::match

cusStatus match_cuda_prepare(cusMatcher *matcher, const void *templates, MatchMask mask, const MatchTemplate *sums,
                             cusStream stream) try {
    MatchCuda *cuda = new MatchCuda;
    matcher->backend = cuda;
    return cusi::match::prepare(matcher, cuda, templates, mask, sums, stream);
} catch (const std::bad_alloc &) {
    return cusi_fail(CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
}

void match_cuda_release(cusMatcher *matcher) {
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    if (!cuda)
        return;
    for (const cufftHandle plan : {cuda->forward, cuda->inverse})
        if (plan != cusi::match::NO_PLAN)
            (void)cufftDestroy(plan);
    delete cuda;
}

cusStatus match_cuda_algorithm(const MatchModel *m, cusMatchAlgorithm wanted, cusMatchAlgorithm *algorithm) {
    const char *f = "cusMatcherCreate";
    int count = 0, device = 0, major = 0, minor = 0;
    CUSI_CUDA(f, cusi::multiprocessors(&count));
    CUSI_CUDA(f, cudaGetDevice(&device));
    CUSI_CUDA(f, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CUSI_CUDA(f, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    const int capability = 10 * major + minor;
    const bool integers = capability >= 75 && capability != 103; // tensor cores multiply bytes; slowly on 10.3
    cusi::match::Direct direct = {};
    CUS_TRY(cusi::match::planWgmma(*m, count, &direct));
    const double most = cusi::match::crossoversOf(*m, 1, count).mma * (m->masked ? 2 : 1);
    // With a mask, direct correlation needs one more product a channel and two for squares; the FFT takes twice as long.
    const int products = m->masked ? 1 + (m->method >= CUS_MATCH_CCOEFF) * m->channels + 2 * m->needs_s2 : 1;
    const bool small = direct.wgmma.ring || m->n * m->channels * products <= most;
    bool fits = true; // whether sums inside a mask can be computed
    if (m->masked)
        CUS_TRY(cusi::match::exactFits(*m, &fits));
    *algorithm = !m->integer || !integers   ? CUS_MATCH_FFT
                 : !fits                    ? CUS_MATCH_DIRECT
                 : wanted != CUS_MATCH_AUTO ? wanted
                 : small                    ? CUS_MATCH_DIRECT
                                            : CUS_MATCH_FFT;
    return CUS_OK;
}

cusStatus match_cuda_run(cusMatcher *matcher, int index, int count, const cusMat *frames, cusMat *scores,
                         cusStream stream) {
    MatchCuda *cuda = static_cast<MatchCuda *>(matcher->backend);
    Stages stages = cuda->stages;
    const MatchModel &m = stages.model;
    if (scores && index == 0)
        CUS_TRY(cusi::match::sendMaps(cuda, scores, stream));
    if (scores) {
        stages.scores.maps = cuda->maps + index * m.count;
        stages.scores.map_steps = cuda->map_steps + index * m.count;
    }
    stages.refinement.results += static_cast<size_t>(index) * m.count * m.max_matches;
    if (m.templates > m.count)
        cusi::match::skipTemplates(stages, index);
    if (matcher->algorithm == CUS_MATCH_DIRECT)
        return cusi::match::launchDirect(stages, frames, count, stream);
    stages.frame.data = frames->data;
    stages.frame.step = frames->step;
    return cusi::match::runFft(*cuda, stages, stream);
}

cusStatus match_cuda_toFloats(const cusMat *frame, cusMat *floats, cusStream stream) {
    const unsigned cols = static_cast<unsigned>(frame->cols) * CUS_CHANNELS(frame->type);
    return cusi::launch("cusMatcherRun", cusi::match::toFloatsKernel, static_cast<unsigned>(std::min(frame->rows, 1 << 20)),
                        cusi::match::THREADS, 0, stream, static_cast<const unsigned char *>(frame->data), frame->step,
                        frame->rows, cols, static_cast<float *>(floats->data), floats->step);
}

cusStatus match_cuda_inspect(cusMatcher *matcher, int index, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream) {
    const MatchModel &m = matcher->model;
    const cusi::match::MatchCuda *cuda = static_cast<const cusi::match::MatchCuda *>(matcher->backend);
    const unsigned matches = static_cast<unsigned>(m.count) * m.max_matches;
    const long long quads = cusi::hsvQuads(m.h, m.w);
    const unsigned blocks = static_cast<unsigned>(
        std::min<long long>(2LL * cuda->multiprocessors, cusi::divUp<long long>(quads, 2 * cusi::HSV_THREADS)));
    cusMatch *results = static_cast<cusMatch *>(matcher->results.data) + static_cast<size_t>(index) * matches;
    // Grids have at most 65535 blocks along y.
    for (unsigned first = 0; first < matches; first += 65535)
        CUS_TRY(cusi::launch("cusMatcherInspect", cusi::match::inspectKernel,
                             dim3(blocks, std::min(65535u, matches - first)), cusi::HSV_THREADS, 0, stream,
                             cusi::bgrImage(*frame), *range, min_fill * m.w * m.h, m.w, m.h, results + first,
                             cuda->inspect_counts + first, cuda->inspect_counts + matches + first));
    return CUS_OK;
}
