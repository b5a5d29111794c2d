// Host side of the integral kernel: choice of tiles, parameters, one launch for each slab.
#ifndef CUSI_INTEGRAL_LAUNCH_CUH
#define CUSI_INTEGRAL_LAUNCH_CUH

#include "integral_kernel.cuh"
#include "integral_stages.cuh"
#include "integral_workspace.cuh"

#include <algorithm>

namespace cusi::integral {

template<class T>
constexpr size_t accBytes() {
    if constexpr (EXISTS<T>)
        return sizeof(typename T::Acc);
    else
        return 0;
}

template<class T>
void advanceRows(T &table, unsigned rows) {
    if constexpr (EXISTS<T>)
        table.out = rowOf(table.out, table.step, rows);
}

inline unsigned powerOfTwo(size_t at_least) {
    unsigned n = 1;
    while (n < at_least)
        n *= 2;
    return n;
}

// The order in which floats are added must not depend on which tables are requested: their slabs and groups are always
// those for both.
template<class Pixel, class T>
using LayoutTable = std::conditional_t<std::is_same_v<Pixel, float>, Floats64, T>;

// What all slabs share.
template<class Tile, class Pixel, class SumTable, class SquareTable, class Layout>
SlabParams commonParams(const IntegralArgs &args, const Layout &layout) {
    const cusMat &src = *args.src;
    SlabParams slab = {};
    slab.step = src.rows > 1 ? src.step : 0;
    slab.cols = static_cast<unsigned>(src.cols);
    slab.tile_cols = static_cast<unsigned>(layout.tile_cols);
    slab.state = static_cast<LaunchState *>(args.workspace);
    slab.src_aligned16 = isAligned(src, 16);
    slab.tables_aligned16 = (!args.sum || isAligned(*args.sum, 16)) && (!args.sqsum || isAligned(*args.sqsum, 16));
    const size_t tile_row_bytes =
        static_cast<size_t>(slab.cols) * Tile::HEIGHT *
        (sizeof(Pixel) + accBytes<LayoutTable<Pixel, SumTable>>() + accBytes<LayoutTable<Pixel, SquareTable>>());
    slab.column_group = powerOfTwo(std::clamp(divUp(tuning::GROUP_BYTES, tile_row_bytes), size_t(Tile::MIN_COLUMN_GROUP),
                                              size_t(tuning::MAX_COLUMN_GROUP)));
    return slab;
}

// Throttles the writes of a launch whose tiles do not all fit on the GPU at once.
template<class Tile>
void throttleWrites(SlabParams &slab, unsigned multiprocessors) {
    const unsigned resident = multiprocessors * Tile::BLOCKS_PER_SM;
    const bool throttled = Tile::THROTTLED && slab.tile_rows * slab.tile_cols > resident;
    slab.max_writers = throttled ? divUp(multiprocessors * tuning::WRITERS, tuning::WRITERS_PER_SMS) : 0;
    slab.start_interval = divUp(tuning::START_INTERVAL, multiprocessors);
    slab.first_wave = throttled ? resident : 0;
}

// Fills in a table's parameters; `words` moves past its chains.
template<class Tile, class T>
void bindTable(T &table, const cusMat *mat, size_t slab_tile_rows, size_t tile_cols, TaggedWord *&words) {
    ChainLayout<Tile, T>{slab_tile_rows, tile_cols}.assign(table, words);
    if constexpr (EXISTS<T>) {
        table.out = static_cast<typename T::Entry *>(mat->data);
        table.step = mat->step;
    }
}

template<class Tile, class Pixel, class SumTable, class SquareTable>
cusStatus launchTiles(const char *function, const IntegralArgs &args, unsigned multiprocessors, cudaStream_t stream) {
    const cusMat &src = *args.src;
    const unsigned rows = static_cast<unsigned>(src.rows);
    const WorkspaceLayout<Tile, LayoutTable<Pixel, SumTable>, LayoutTable<Pixel, SquareTable>> layout(
        rows, static_cast<size_t>(src.cols));
    SlabParams slab = commonParams<Tile, Pixel, SumTable, SquareTable>(args, layout);
    SumTable sum;
    SquareTable squares;
    TaggedWord *words = reinterpret_cast<TaggedWord *>(slab.state + 1);
    bindTable<Tile>(sum, args.sum, layout.slab_tile_rows, layout.tile_cols, words);
    bindTable<Tile>(squares, args.sqsum, layout.slab_tile_rows, layout.tile_cols, words);
    if (!args.workspace_is_ready) {
        const auto bytes = reinterpret_cast<char *>(words) - reinterpret_cast<char *>(slab.state);
        CUSI_CUDA(function, cudaMemsetAsync(slab.state, 0, static_cast<size_t>(bytes), stream));
    }
    const auto kernel = integralKernel<Pixel, SumTable, SquareTable, Tile>;
    constexpr size_t SCANS = SCAN_BYTES<Pixel, SquareTable, Tile>, MOST = SCANS + Tile::WARPS * STAGE_BYTES;
    const size_t shared_bytes = slab.tables_aligned16 ? SCANS : MOST;
    if (shared_bytes > 0) // may be, with the static shared memory, more than the default limit
        CUSI_CUDA(function,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(MOST)));
    const unsigned slab_rows = static_cast<unsigned>(std::min<size_t>(rows, layout.slab_tile_rows * Tile::HEIGHT));
    for (unsigned y = 0; y < rows; y += slab_rows) {
        slab.src = static_cast<const unsigned char *>(src.data) + y * src.step;
        slab.rows = std::min(slab_rows, rows - y);
        slab.tile_rows = divUp(slab.rows, unsigned(Tile::HEIGHT));
        slab.is_top = y == 0;
        throttleWrites<Tile>(slab, multiprocessors);
        CUS_TRY(launchOverlapped(function, kernel, slab.tile_rows * slab.tile_cols, Tile::THREADS, shared_bytes, stream,
                                 slab, sum, squares));
        advanceRows(sum, slab_rows);
        advanceRows(squares, slab_rows);
    }
    return CUS_OK;
}

// Chooses the kernel and its tiles by the size of the image.
template<class Pixel, class SumTable, class SquareTable>
cusStatus launchIntegral(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const auto with = [&](auto shape) {
        return launchTiles<decltype(shape), Pixel, SumTable, SquareTable>(function, args,
                                                                          static_cast<unsigned>(multiprocessors), stream);
    };
    const auto fits = [&](auto shape) { // all tiles at once
        using Tile = decltype(shape);
        return static_cast<size_t>(divUp(args.src->rows, Tile::HEIGHT)) * divUp(args.src->cols, Tile::WIDTH) <=
               static_cast<size_t>(multiprocessors) * Tile::BLOCKS_PER_SM;
    };
    const bool narrow =
        args.src->cols <= tuning::MAX_NARROW_COLS && args.src->rows / tuning::NARROW_SHAPE >= args.src->cols;
    if constexpr (std::is_same_v<Pixel, float>)
        return with(tuning::Float());
    else if constexpr (!std::is_same_v<SumTable, Sums32> || EXISTS<SquareTable>)
        return fits(tuning::Small64())              ? with(tuning::Small64())
               : narrow || fits(tuning::Medium64()) ? with(tuning::Medium64())
                                                    : with(tuning::Large64());
    else
        return narrow || fits(tuning::Small32()) ? with(tuning::Small32())
               : fits(tuning::Large32())         ? with(tuning::Medium32())
                                                 : with(tuning::Large32());
}

} // namespace cusi::integral

#endif
