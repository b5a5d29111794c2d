// Window sums inside a mask: correlations of the frame's channels and of their squares with the mask, by transforms in double. Those
// of bytes are integers, and the error is below one half.
#include "match/cuda/exact/transforms.cuh"

namespace cusi::match {

namespace {

// Of a window sum: the plane of the frame.
__device__ __forceinline__ int planeOf(const MatchModel &m, int quantity) {
    return m.needs_s1 ? quantity : m.channels;
}

// Grids: bands of rows or tiles of columns; sums.
template<class T>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskedRowsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Frame frame,
                     const __grid_constant__ ExactPass exact, int piece) {
    cusi::startInOrder();
    const int quantity = blockIdx.y, pitch = exact.spectrum_pitch;
    transformRows(exact, framePlane<T>(m, frame, exact.pieces, placeOf(exact.pieces, piece), planeOf(m, quantity)), false,
                  blockIdx.x, exact.spectra + 2 * static_cast<size_t>(quantity) * exact.tiles * pitch, pitch);
}

__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskedColumnsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ ExactPass exact) {
    cusi::startInOrder();
    const int tile = blockIdx.x, quantity = blockIdx.y, points = 2 * exact.columns.elements();
    double2 *const spectrum = reinterpret_cast<double2 *>(sharedElements());
    const size_t at = 2 * (static_cast<size_t>(quantity) * exact.tiles + tile);
    transformColumns(exact.columns, exact.spectra + at * exact.spectrum_pitch, exact.pieces.rows + m.h - 1);
    const double2 *mask = exact.mask_columns + static_cast<size_t>(tile) * points;
    for (int i = threadIdx.x; i < points; i += EXACT_THREADS)
        spectrum[i] = correlate(spectrum[i], mask[i], {0, 0});
    __syncthreads();
    inverseColumns(exact, sharedElements(),
                   exact.products + 2 * static_cast<size_t>(quantity) * exact.tiles * exact.product_pitch, tile);
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
        const double sum = y < y1 ? values[BAND * exact.rows.element(column) + r] * exact.scale : 0;
        if (y < y1)
            out[static_cast<size_t>(y) * m.ocols + place.x + column] = sizeof(T) == 1 ? static_cast<Sum>(rint(sum)) : sum;
    }
}

// The mask's spectrum: its rows, then its columns.
template<class T>
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskRowsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ Templates templates,
                   const __grid_constant__ ExactPass exact) {
    transformRows(exact, templatePlane<T>(m, templates, 0, m.channels), false, blockIdx.x, exact.template_spectra,
                  exact.template_pitch);
}
__global__ void __launch_bounds__(EXACT_THREADS, 1)
    maskColumnsKernel(const __grid_constant__ MatchModel m, const __grid_constant__ ExactPass exact) {
    const int tile = blockIdx.x, points = 2 * exact.columns.elements();
    transformColumns(exact.columns, exact.template_spectra + 2 * static_cast<size_t>(tile) * exact.template_pitch, m.h);
    const double2 *const spectrum = reinterpret_cast<const double2 *>(sharedElements());
    for (int i = threadIdx.x; i < points; i += EXACT_THREADS)
        exact.mask_columns[static_cast<size_t>(tile) * points + i] = spectrum[i];
}

} // namespace

cusStatus prepareMask(MatchCuda *cuda, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    const Stages &stages = cuda->stages;
    const MatchModel &m = stages.model;
    const ExactPass &exact = stages.exact;
    int most = 0;
    CUS_TRY(sharedMemory(&most));
    const auto rows = m.integer ? maskedRowsKernel<uint8_t> : maskedRowsKernel<float>;
    const auto sums = m.integer ? maskedSumsKernel<uint8_t> : maskedSumsKernel<float>;
    const auto mask_rows = m.integer ? maskRowsKernel<uint8_t> : maskRowsKernel<float>;
    for (const void *kernel : {reinterpret_cast<const void *>(rows), reinterpret_cast<const void *>(maskedColumnsKernel),
                               reinterpret_cast<const void *>(sums), reinterpret_cast<const void *>(mask_rows),
                               reinterpret_cast<const void *>(maskColumnsKernel)})
        CUS_TRY(allowSharedMemory(kernel, most));
    CUS_TRY(cusi::launch(f, mask_rows, cusi::divUp(m.h, BAND), EXACT_THREADS, exactBytes(stages), stream, m,
                         stages.templates, exact));
    return cusi::launch(f, maskColumnsKernel, exact.tiles, EXACT_THREADS, exactBytes(stages), stream, m, exact);
}

cusStatus launchMaskedSums(const Stages &stages, cudaStream_t stream) {
    const char *f = "cusMatcherRun";
    const MatchModel &m = stages.model;
    const ExactPass &exact = stages.exact;
    const unsigned quantities = stages.windows.quantities;
    const size_t bytes = exactBytes(stages);
    for (int piece = 0; quantities && piece < exact.pieces.count; ++piece) {
        CUS_TRY(cusi::launchOverlapped(f, m.integer ? maskedRowsKernel<uint8_t> : maskedRowsKernel<float>,
                                       dim3(cusi::divUp(exact.pieces.rows + m.h - 1, BAND), quantities), EXACT_THREADS,
                                       bytes, stream, m, stages.frame, exact, piece));
        CUS_TRY(cusi::launchOverlapped(f, maskedColumnsKernel, dim3(exact.tiles, quantities), EXACT_THREADS, bytes, stream,
                                       m, exact));
        CUS_TRY(cusi::launchOverlapped(f, m.integer ? maskedSumsKernel<uint8_t> : maskedSumsKernel<float>,
                                       dim3(cusi::divUp(exact.pieces.rows, BAND), quantities), EXACT_THREADS, bytes, stream,
                                       m, stages.windows, exact, piece));
    }
    return CUS_OK;
}

} // namespace cusi::match
