// Window sums inside a mask are correlations of the frame's channels and their squares with the mask, by transforms in
// double. Sums of bytes are integers, and the transforms' error is below one half, so rounding makes them exact.
#include "match/cuda/exact/transforms.cuh"

namespace cusi::match {

namespace {

// Grids of the kernels below are bands of rows, or tiles of columns, times sums. OF_MASK: computes the spectrum of the
// mask, which is done once. With weights, the squares of each channel are correlated with its own, and the products added
// up.
template<class T, bool OF_MASK>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskedRowsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                     const __grid_constant__ Templates templates, const __grid_constant__ ExactPass exact, int piece) {
    cusi::startInOrder();
    const int pitch = OF_MASK ? exact.template_pitch : exact.spectrum_pitch;
    const Plane<T> plane = OF_MASK ? templatePlane<T>(m, templates, 0, m.channels + blockIdx.y)
                                   : framePlane<T>(m, frame, exact.pieces, placeOf(exact.pieces, piece),
                                                   (m.needs_s1 ? 0 : m.channels) + blockIdx.y);
    double2 *spectra = OF_MASK ? exact.template_spectra : exact.spectra;
    transformRows(exact, plane, false, blockIdx.x, spectra + 2 * static_cast<size_t>(blockIdx.y) * exact.tiles * pitch,
                  pitch);
}

template<bool OF_MASK>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskedColumnsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ ExactPass exact) {
    cusi::startInOrder();
    const int tile = blockIdx.x, points = 2 * exact.columns.elements(), planes = !OF_MASK && m.weighted ? m.channels : 1;
    double2 *const spectrum = reinterpret_cast<double2 *>(sharedElements());
    double2 *const sum = spectrum + (planes > 1 ? points : 0);
#pragma unroll 1
    for (int p = 0; p < planes; ++p) {
        const size_t plane = static_cast<size_t>(blockIdx.y + p) * exact.tiles + tile;
        double2 *const mask = exact.mask_columns + (OF_MASK || m.weighted ? plane : tile) * points;
        if (OF_MASK)
            transformColumns(exact.columns, exact.template_spectra + 2 * plane * exact.template_pitch, m.h);
        else
            transformColumns(exact.columns, exact.spectra + 2 * plane * exact.spectrum_pitch, exact.pieces.rows + m.h - 1);
        for (int i = threadIdx.x; i < points; i += EXACT_THREADS)
            (OF_MASK ? mask : sum)[i] = OF_MASK ? spectrum[i] : correlate(spectrum[i], mask[i], p ? sum[i] : double2{0, 0});
        __syncthreads();
    }
    if (!OF_MASK)
        inverseColumns(exact, reinterpret_cast<fft::DoublePair *>(sum),
                       exact.products + 2 * static_cast<size_t>(blockIdx.y) * exact.tiles * exact.product_pitch, tile);
}

template<class T>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskedSumsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Windows windows,
                     const __grid_constant__ ExactPass exact, int piece) {
    using Sum = typename SumTypes<T>::Sum;
    cusi::startInOrder();
    const int quantity = blockIdx.y, band = blockIdx.x;
    const Place place = placeOf(exact.pieces, piece);
    const double *values =
        inverseRows(exact, exact.products + 2 * static_cast<size_t>(quantity) * exact.tiles * exact.product_pitch, band);
    const int y0 = place.y + band * BAND, y1 = min(place.y + exact.pieces.rows, m.orows);
    const int cols = min(exact.pieces.cols, m.ocols - place.x);
    Sum *out = static_cast<Sum *>(windows.sums) + static_cast<size_t>(quantity) * m.orows * m.ocols;
    for (int i = threadIdx.x; i < BAND * cols; i += EXACT_THREADS) {
        const int r = i / cols, column = i % cols, y = y0 + r;
        if (y >= y1)
            continue;
        const double sum = values[BAND * exact.rows.element(column) + r] * exact.scale;
        out[static_cast<size_t>(y) * m.ocols + place.x + column] = static_cast<Sum>(sizeof(T) == 1 ? rint(sum) : sum);
    }
}

template<bool OF_MASK>
auto rowsKernelFor(const MatchModel &m) {
    return m.integer ? maskedRowsKernel<uint8_t, OF_MASK> : maskedRowsKernel<float, OF_MASK>;
}
auto sumsKernelFor(const MatchModel &m) {
    return m.integer ? maskedSumsKernel<uint8_t> : maskedSumsKernel<float>;
}

} // namespace

cusStatus prepareMask(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    const Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    const ExactPass &exact = stages.exact;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    for (const void *kernel :
         {reinterpret_cast<const void *>(rowsKernelFor<true>(m)), reinterpret_cast<const void *>(rowsKernelFor<false>(m)),
          reinterpret_cast<const void *>(maskedColumnsKernel<true>),
          reinterpret_cast<const void *>(maskedColumnsKernel<false>), reinterpret_cast<const void *>(sumsKernelFor(m))})
        CUS_TRY(allowSharedMemory(kernel, most));
    const size_t bytes = exactBytes(stages);
    const unsigned planes = m.weighted ? m.channels : 1;
    CUS_TRY(cusi::launch(f, rowsKernelFor<true>(m), dim3(cusi::divUp(m.h, BAND), planes), EXACT_THREADS, bytes, stream, m,
                         stages.frame, stages.templates, exact, 0));
    return cusi::launch(f, maskedColumnsKernel<true>, dim3(exact.tiles, planes), EXACT_THREADS, bytes, stream, m, exact);
}

cusStatus launchMaskedSums(const Stages &stages, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const MatchModel &m = stages.model;
    const ExactPass &exact = stages.exact;
    const unsigned quantities = stages.windows.quantities, planes = m.weighted ? m.channels : quantities;
    const size_t bytes = exactBytes(stages);
    for (int piece = 0; quantities && piece < exact.pieces.count; ++piece) {
        CUS_TRY(cusi::launchOverlapped(f, rowsKernelFor<false>(m),
                                       dim3(cusi::divUp(exact.pieces.rows + m.h - 1, BAND), planes), EXACT_THREADS, bytes,
                                       stream, m, stages.frame, stages.templates, exact, piece));
        CUS_TRY(cusi::launchOverlapped(f, maskedColumnsKernel<false>, dim3(exact.tiles, quantities), EXACT_THREADS, bytes,
                                       stream, m, exact));
        CUS_TRY(cusi::launchOverlapped(f, sumsKernelFor(m), dim3(cusi::divUp(exact.pieces.rows, BAND), quantities),
                                       EXACT_THREADS, bytes, stream, m, stages.windows, exact, piece));
    }
    return CUS_OK;
}

} // namespace cusi::match
