// Spectra of the templates are computed once, in double by cuFFT. Rounding them to float is their only error.
#include "match/cuda/stages.cuh"

namespace cusi::match {

namespace {

__global__ void __launch_bounds__(THREADS) roundSpectrumKernel(const cufftDoubleComplex *in, size_t n, cufftComplex *out) {
    for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < n;
         i += static_cast<size_t>(gridDim.x) * THREADS)
        out[i] = {static_cast<float>(in[i].x), static_cast<float>(in[i].y)};
}

// Reorders a spectrum with rows of `columns` values into the order of columnsFftKernel: tiles of two columns, in which the
// results of the inner pass follow each other thread by thread.
__global__ void __launch_bounds__(THREADS)
    arrangeSpectrumKernel(const cufftDoubleComplex *in, int columns, const fft::Plan plan, int tiles, float4 *out) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= tiles * plan.n)
        return;
    const int tile = i / plan.n, step = plan.a * plan.b, t = i % plan.n % step;
    const int row = t / plan.b + plan.a * (t % plan.b + plan.b * (i % plan.n / step));
    const cufftDoubleComplex *at = in + static_cast<size_t>(row) * columns + 2 * tile;
    const cufftDoubleComplex second = 2 * tile + 1 < columns ? at[1] : cufftDoubleComplex{0, 0};
    out[i] = make_float4(static_cast<float>(at[0].x), static_cast<float>(at[0].y), static_cast<float>(second.x),
                         static_cast<float>(second.y));
}

// A transform of rows x cols doubles with its memory.
struct DoubleFft {
    int rows, cols;
    cufftHandle plan = NO_PLAN;
    double *plane = nullptr;
    cufftDoubleComplex *spectrum = nullptr;
    Arena memory;

    DoubleFft(int rows_, int cols_) : rows(rows_), cols(cols_) {}
    DoubleFft(const DoubleFft &) = delete;
    DoubleFft &operator=(const DoubleFft &) = delete;
    ~DoubleFft() {
        if (plan != NO_PLAN)
            (void)cufftDestroy(plan);
    }
    size_t planePoints() const { return static_cast<size_t>(rows) * cols; }
    size_t spectrumPoints() const { return static_cast<size_t>(rows) * (cols / 2 + 1); }

    cusStatus create(cudaStream_t stream) {
        const char *f = "cusMatcherCreate";
        long long n[2] = {rows, cols}, complex[2] = {n[0], n[1] / 2 + 1};
        size_t bytes = 0;
        MATCH_CUFFT(f, cufftCreate(&plan));
        MATCH_CUFFT(f, cufftSetAutoAllocation(plan, 0));
        MATCH_CUFFT(
            f, cufftMakePlanMany64(plan, 2, n, n, 1, n[0] * n[1], complex, 1, n[0] * complex[1], CUFFT_D2Z, 1, &bytes));
        char *work = nullptr;
        CUS_TRY(memory.allocate(f, bytes, &work));
        MATCH_CUFFT(f, cufftSetWorkArea(plan, work));
        MATCH_CUFFT(f, cufftSetStream(plan, stream));
        CUS_TRY(memory.allocate(f, planePoints(), &plane));
        return memory.allocate(f, spectrumPoints(), &spectrum);
    }

    // Transforms h rows of w values, padded with zeros.
    cusStatus transform(const std::vector<double> &values, int w, int h, cudaStream_t stream) {
        const char *f = "cusMatcherCreate";
        CUSI_CUDA(f, cudaMemsetAsync(plane, 0, planePoints() * sizeof *plane, stream));
        CUSI_CUDA(f, cudaMemcpy2DAsync(plane, cols * sizeof(double), values.data(), w * sizeof(double), w * sizeof(double),
                                       h, cudaMemcpyHostToDevice, stream));
        MATCH_CUFFT(f, cufftExecD2Z(plan, plane, spectrum));
        return CUS_OK;
    }
};

// Fills `plane` with channel p of template k, shifted and weighted; it is zero outside the mask.
void templatePlane(const MatchModel &m, const void *templates, MatchMask mask, double shift, int k, int p, double scale,
                   std::vector<double> &plane) {
    const size_t elements = plane.size() * m.channels;
    for (size_t pixel = 0; pixel < plane.size(); ++pixel) {
        const size_t i = pixel * m.channels + p;
        const double value = match_element(templates, m.integer, k * elements + i) - shift, weight = match_weight(mask, i);
        plane[pixel] = weight != 0 ? value * weight * scale : 0;
    }
}

} // namespace

// Fills the template_spectra of the block FFT or of cuFFT.
cusStatus prepareSpectra(MatchCuda *cuda, const void *templates, MatchMask mask, const MatchTemplate *sums,
                         cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    const BlockFft &block = stages.block_fft;
    const bool in_block = block.rows.n > 0;
    DoubleFft fft(in_block ? block.columns.n : stages.cufft.rows, in_block ? block.rows.n : stages.cufft.cols);
    const int tiled = block.tiles * block.columns.n;
    float4 *tiles = nullptr;
    cufftComplex *rows = nullptr;
    const size_t planes = static_cast<size_t>(m.templates) * m.channels;
    if (in_block)
        CUS_TRY(allocate(cuda, &tiles, planes * tiled, stream));
    else
        CUS_TRY(allocate(cuda, &rows, planes * fft.spectrumPoints(), stream));
    stages.block_fft.template_spectra = tiles;
    stages.cufft.template_spectra = rows;
    CUS_TRY(fft.create(stream));
    // The factor 0.5 is there because rowsFftKernel makes twice the frame's spectra.
    const double scale = (in_block ? 0.5 : 1.0) / static_cast<double>(fft.planePoints());
    std::vector<double> plane;
    CUS_TRY(inHostMemory([&] { plane.resize(static_cast<size_t>(m.w) * m.h); }));
    for (size_t i = 0; i < planes; ++i) {
        const int k = static_cast<int>(i / m.channels), c = static_cast<int>(i % m.channels);
        templatePlane(m, templates, mask, sums[k].shift[c], k, c, scale / sums[k].unit, plane);
        CUS_TRY(fft.transform(plane, m.w, m.h, stream));
        if (in_block)
            CUS_TRY(cusi::launch(f, arrangeSpectrumKernel, cusi::divUp(tiled, THREADS), THREADS, 0, stream, fft.spectrum,
                                 fft.cols / 2 + 1, block.columns, block.tiles, tiles + i * tiled));
        else
            CUS_TRY(cusi::launch(f, roundSpectrumKernel, 16 * cuda->multiprocessors, THREADS, 0, stream, fft.spectrum,
                                 fft.spectrumPoints(), rows + i * fft.spectrumPoints()));
        CUSI_CUDA(f, cudaStreamSynchronize(stream));
    }
    return CUS_OK;
}

} // namespace cusi::match
