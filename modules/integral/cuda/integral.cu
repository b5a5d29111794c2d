// The CUDA backend of integral chooses tiles, lays out the workspace, and launches once for each slab.
// docs/internals/integral.md names the stages of the kernel and their files.
#include "integral/backend.h"
#include "integral/cuda/colors.cuh"
#include "integral/cuda/grid.cuh"
#include "integral/cuda/kernel.cuh"

#include <algorithm>

namespace cusi::integral {
namespace {

// ---- Workspace: the launch state, then the chains of each table -----------------------------------------------------

// Returns the number of sums that a slab leaves to the next one: for each column of its tiles, and one after the last,
// rounded up.
template<class Tile>
constexpr size_t carried(size_t tile_cols) {
    return tile_cols * Tile::WIDTH + 4;
}

// Sets where a table's chains are, from word `at` of the workspace on. Each takes a multiple of 16 bytes. Returns the end
// of the chains in words. If base is NULL, only counts.
template<class Tile, class T>
size_t layOut(T &table, TaggedWord *base, size_t at, size_t tile_rows, size_t tile_cols) {
    if constexpr (EXISTS<T>) {
        const auto take = [&](size_t sums, size_t sum_bytes) {
            TaggedWord *const start = base ? base + at : nullptr;
            at += sums * sum_bytes / 4;
            return start;
        };
        const size_t width = tile_cols * Tile::WIDTH, height = tile_rows * Tile::HEIGHT;
        table.column_sums = take(tile_rows * width, sizeof(typename T::Column));
        table.column_prefixes =
            take(divUp(tile_rows, size_t(Tile::MIN_COLUMN_GROUP)) * width, sizeof(typename T::ColumnPrefix));
        table.row_sums = take(tile_cols * height, sizeof(typename T::Row));
        table.row_prefixes = take(divUp(tile_cols, size_t(tuning::GROUP)) * height, sizeof(typename T::Acc));
        table.corner_sums = take(divUp(tile_rows * tile_cols, size_t{2}) * 2, sizeof(typename T::Acc));
        if constexpr (T::ON_GRID)
            table.carries = take(2 * carried<Tile>(tile_cols), sizeof(typename T::Acc));
    }
    return at;
}

// Cuts an image into slabs of equal height, within tuning::SLAB_BYTES if possible. Each channel has chains of its own.
template<class Tile, class SumTable, class SquareTable>
struct Slabs {
    size_t channels, tile_rows, tile_cols, slab_tile_rows;

    Slabs(size_t rows, size_t cols, size_t channels_)
        : channels(channels_), tile_rows(divUp(rows, size_t(Tile::HEIGHT))), tile_cols(divUp(cols, size_t(Tile::WIDTH))) {
        constexpr size_t GROUP = Tile::MIN_COLUMN_GROUP;
        const size_t fixed = bytes(0), room = tuning::SLAB_BYTES - std::min(tuning::SLAB_BYTES, fixed);
        const size_t slabs =
            divUp(tile_rows, std::clamp<size_t>(room / (bytes(GROUP) - fixed) * GROUP, 1, MAX_SLAB_ROWS / Tile::HEIGHT));
        slab_tile_rows = divUp(tile_rows, slabs);
    }
    size_t bytes(size_t some_tile_rows) const { return channels * channelBytes(some_tile_rows); }
    size_t channelBytes(size_t some_tile_rows) const {
        SumTable sums;
        SquareTable squares;
        const size_t words = layOut<Tile>(sums, nullptr, 0, some_tile_rows, tile_cols);
        return layOut<Tile>(squares, nullptr, words, some_tile_rows, tile_cols) * sizeof(TaggedWord);
    }
    // Returns enough bytes for every image up to this size.
    size_t maxBytes() const {
        return sizeof(LaunchState) + std::min(bytes(tile_rows), std::max(tuning::SLAB_BYTES, bytes(1)));
    }
};

template<class SumTable, class SquareTable, class... Tiles>
size_t maxBytes(int rows, int cols, int channels) {
    return std::max({Slabs<Tiles, SumTable, SquareTable>(static_cast<size_t>(rows), static_cast<size_t>(cols),
                                                         static_cast<size_t>(channels))
                         .maxBytes()...});
}

// ---- Launches -------------------------------------------------------------------------------------------------------

// The order in which doubles are added must not depend on the tables requested, so slabs and groups are always those for
// both tables. (With several channels, each table has its own launch.)
template<class Pixel, class T>
using LayoutTable = std::conditional_t<std::is_same_v<Pixel, float>, Floats64, T>;

template<class T>
constexpr size_t accBytes() {
    if constexpr (EXISTS<T>)
        return sizeof(typename T::Acc);
    else
        return 0;
}

// Returns the tiles in a group of the column chain, a power of two.
template<class Tile, class Pixel, class SumTable, class SquareTable>
unsigned columnGroup(unsigned cols) {
    const size_t bytes_per_pixel =
        sizeof(Pixel) + accBytes<LayoutTable<Pixel, SumTable>>() + accBytes<LayoutTable<Pixel, SquareTable>>();
    const size_t tiles = divUp(tuning::GROUP_BYTES, size_t{cols} * Tile::HEIGHT * bytes_per_pixel);
    unsigned group = Tile::MIN_COLUMN_GROUP;
    while (group < tiles && group < tuning::MAX_COLUMN_GROUP)
        group *= 2;
    return group;
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

template<class T>
void bindTable(T &table, const cusMat *mat, unsigned first_row) {
    if constexpr (EXISTS<T>) {
        table.out = rowOf(static_cast<typename T::Entry *>(mat->data), mat->step, first_row);
        table.step = mat->step;
    }
}

// Sets the rows of sums above and below slab i.
template<class Tile, class T>
void bindCarries(T &table, size_t i, bool is_last, size_t tile_cols) {
    if constexpr (T::ON_GRID) {
        const size_t words = carried<Tile>(tile_cols) * sizeof(typename T::Acc) / 4;
        table.above = table.carries + i % 2 * words;
        table.below = is_last ? nullptr : table.carries + (i + 1) % 2 * words;
    }
}

template<class T>
void bindChannels(T &table, unsigned channels, size_t channel_words) {
    table.channels = channels;
    table.channel_words = channel_words;
}

template<class Tile, class Pixel, class SumTable, class SquareTable>
constexpr auto kernelOf() {
    if constexpr (Tile::CHANNELS == 3)
        return colorsKernel<Tile>;
    else
        return integralKernel<Pixel, SumTable, SquareTable, Tile>;
}

template<class Tile, class Pixel, class SumTable, class SquareTable>
cusStatus launchTiles(const char *function, const IntegralArgs &args, unsigned multiprocessors, cudaStream_t stream) {
    const cusMat &src = *args.src;
    const unsigned rows = static_cast<unsigned>(src.rows), channels = static_cast<unsigned>(CUS_CHANNELS(src.type));
    constexpr bool INTERLEAVED = SumTable::INTERLEAVED || SquareTable::INTERLEAVED;
    const std::conditional_t<INTERLEAVED, Slabs<Tile, SumTable, SquareTable>,
                             Slabs<Tile, LayoutTable<Pixel, SumTable>, LayoutTable<Pixel, SquareTable>>>
        slabs(rows, static_cast<size_t>(src.cols), channels);
    SlabParams slab = {};
    slab.step = src.rows > 1 ? src.step : 0;
    slab.cols = static_cast<unsigned>(src.cols);
    slab.tile_cols = static_cast<unsigned>(slabs.tile_cols);
    slab.column_group = columnGroup<Tile, Pixel, SumTable, SquareTable>(slab.cols);
    slab.state = static_cast<LaunchState *>(args.workspace);
    slab.grid_bits = integral_gridBits(src.rows, src.cols);
    slab.range = args.range;
    slab.src_aligned16 = isAligned(src, 16);
    slab.tables_aligned16 = (!args.sum || isAligned(*args.sum, 16)) && (!args.sqsum || isAligned(*args.sqsum, 16));
    SumTable sum;
    SquareTable squares;
    TaggedWord *const chains = reinterpret_cast<TaggedWord *>(slab.state + 1);
    const size_t sum_words = layOut<Tile>(sum, chains, 0, slabs.slab_tile_rows, slabs.tile_cols),
                 words = layOut<Tile>(squares, chains, sum_words, slabs.slab_tile_rows, slabs.tile_cols);
    if constexpr (SumTable::INTERLEAVED)
        bindChannels(sum, channels, words);
    if constexpr (SquareTable::INTERLEAVED)
        bindChannels(squares, channels, words);
    if (!args.workspace_is_ready)
        CUSI_CUDA(function,
                  cudaMemsetAsync(slab.state, 0, sizeof *slab.state + channels * words * sizeof(TaggedWord), stream));
    const auto kernel = kernelOf<Tile, Pixel, SumTable, SquareTable>();
    constexpr size_t SCANS = SCAN_BYTES<Pixel, SquareTable, Tile>,
                     STAGE = Tile::CHANNELS == 3 ? sizeof(StagedColors) : STAGE_BYTES,
                     MAX_BYTES = SCANS + Tile::WARPS * STAGE;
    const bool all_whole = src.cols % WARP_COLS == 0 && src.rows % Tile::WARP_ROWS == 0;
    const size_t shared_bytes = !INTERLEAVED && all_whole && slab.tables_aligned16 ? SCANS : MAX_BYTES;
    if (shared_bytes > 0) // with the static shared memory, it may exceed the default limit
        CUSI_CUDA(function,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(MAX_BYTES)));
    const unsigned slab_rows = static_cast<unsigned>(std::min<size_t>(rows, slabs.slab_tile_rows * Tile::HEIGHT));
    for (unsigned y = 0; y < rows; y += slab_rows) {
        slab.src = static_cast<const unsigned char *>(src.data) + y * src.step;
        slab.rows = std::min(slab_rows, rows - y);
        slab.tile_rows = divUp(slab.rows, unsigned(Tile::HEIGHT));
        slab.is_top = y == 0;
        throttleWrites<Tile>(slab, multiprocessors);
        bindTable(sum, args.sum, y);
        bindTable(squares, args.sqsum, y);
        bindCarries<Tile>(sum, y / slab_rows, rows - y <= slab_rows, slabs.tile_cols);
        bindCarries<Tile>(squares, y / slab_rows, rows - y <= slab_rows, slabs.tile_cols);
        CUS_TRY(launchOverlapped(function, kernel, slab.tile_rows * slab.tile_cols * (channels / Tile::CHANNELS),
                                 Tile::THREADS, shared_bytes, stream, slab, sum, squares));
    }
    return CUS_OK;
}

// Chooses the tiles by the size of the image.
template<class Pixel, class SumTable, class SquareTable>
cusStatus launchIntegral(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    const int rows = args.src->rows, cols = args.src->cols;
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const auto with = [&](auto shape) {
        return launchTiles<decltype(shape), Pixel, SumTable, SquareTable>(function, args,
                                                                          static_cast<unsigned>(multiprocessors), stream);
    };
    const auto fits = [&](auto shape) { // whether all tiles fit on the GPU at once
        using Tile = decltype(shape);
        return static_cast<size_t>(divUp(rows, Tile::HEIGHT)) * divUp(cols, Tile::WIDTH) <=
               static_cast<size_t>(multiprocessors) * Tile::BLOCKS_PER_SM;
    };
    const bool narrow = cols <= tuning::MAX_NARROW_COLS && rows / tuning::NARROW_SHAPE >= cols;
    if constexpr (sizeof(Pixel) == 4)
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

template<class Pixel, class SumTable, class SquareTable>
cusStatus launchRequested(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    if (!args.sum)
        return launchIntegral<Pixel, NoTable, SquareTable>(function, args, stream);
    if (!args.sqsum)
        return launchIntegral<Pixel, SumTable, NoTable>(function, args, stream);
    return launchIntegral<Pixel, SumTable, SquareTable>(function, args, stream);
}

// ---- Batches: 32-bit sums of images whose tiles all fit on the GPU at once -------------------------------------------

// Returns how many images of the call one launch may take; 1: integral_cuda_run() takes them one by one.
cusStatus imagesOfLaunch(const char *function, const IntegralArgs &args, unsigned *images) {
    using Tile = tuning::Small32;
    const size_t rows = static_cast<size_t>(args.src->rows), cols = static_cast<size_t>(args.src->cols);
    const Slabs<Tile, Sums32, NoTable> slabs(rows, cols, 1);
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const bool small = args.src->type == CUS_8UC1 && args.sum && !args.sqsum && args.sum->type == CUS_32SC1 &&
                       slabs.tile_rows * slabs.tile_cols <= static_cast<size_t>(multiprocessors) * Tile::BLOCKS_PER_SM;
    const size_t fit = (args.workspace_bytes - sizeof(LaunchState)) / slabs.bytes(slabs.tile_rows),
                 most = std::min<size_t>(static_cast<size_t>(args.count), BATCH_IMAGES);
    *images = small ? static_cast<unsigned>(std::max<size_t>(std::min(fit, most), 1)) : 1;
    return CUS_OK;
}

cusStatus launchBatch(const char *function, const IntegralArgs &args, unsigned images, cudaStream_t stream) {
    using Tile = tuning::Small32;
    const size_t tile_rows = divUp(static_cast<size_t>(args.src->rows), size_t(Tile::HEIGHT)),
                 tile_cols = divUp(static_cast<size_t>(args.src->cols), size_t(Tile::WIDTH));
    SlabParams slab = {};
    slab.rows = static_cast<unsigned>(args.src->rows);
    slab.cols = static_cast<unsigned>(args.src->cols);
    slab.tile_rows = static_cast<unsigned>(tile_rows);
    slab.tile_cols = static_cast<unsigned>(tile_cols);
    slab.column_group = columnGroup<Tile, unsigned char, Sums32, NoTable>(slab.cols);
    slab.state = static_cast<LaunchState *>(args.workspace);
    slab.src_aligned16 = slab.tables_aligned16 = slab.is_top = true;
    Batched<Sums32> sums;
    sums.channels = images;
    sums.channel_words =
        layOut<Tile>(static_cast<Sums32 &>(sums), reinterpret_cast<TaggedWord *>(slab.state + 1), 0, tile_rows, tile_cols);
    for (unsigned i = 0; i < images; ++i) {
        const cusMat &src = args.src[i], &sum = args.sum[i];
        sums.images[i] = {static_cast<const unsigned char *>(src.data), src.rows > 1 ? src.step : 0,
                          static_cast<uint32_t *>(sum.data), sum.step};
        slab.src_aligned16 = slab.src_aligned16 && isAligned(src, 16);
        slab.tables_aligned16 = slab.tables_aligned16 && isAligned(sum, 16);
    }
    return launchOverlapped(function, integralKernel<unsigned char, Batched<Sums32>, NoTable, Tile>,
                            slab.tile_rows * slab.tile_cols * images, Tile::THREADS, Tile::WARPS * STAGE_BYTES, stream,
                            slab, sums, NoTable());
}

// ---- Several channels -------------------------------------------------------------------------------------------------

// Sources of several channels have one tile shape for each type, and a launch for each table. That is less code, and the
// chains need no more workspace than those of both tables of one channel with as many values in a row.
template<class Pixel, class SumTable, class SumTile, class SquareTable, class SquareTile>
cusStatus launchChannels(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    int multiprocessors = 0;
    CUSI_CUDA(function, cusi::multiprocessors(&multiprocessors));
    const unsigned count = static_cast<unsigned>(multiprocessors);
    IntegralArgs sums = args, squares = args;
    sums.sqsum = squares.sum = nullptr;
    if (args.sum)
        CUS_TRY((launchTiles<SumTile, Pixel, Interleaved<SumTable>, NoTable>(function, sums, count, stream)));
    if (args.sqsum)
        CUS_TRY((launchTiles<SquareTile, Pixel, NoTable, Interleaved<SquareTable>>(function, squares, count, stream)));
    return CUS_OK;
}

cusStatus launchReproducible(const char *function, IntegralArgs args, cudaStream_t stream) {
    using namespace tuning;
    if (!args.workspace_is_ready)
        CUSI_CUDA(function, cudaMemsetAsync(args.workspace, 0, args.workspace_bytes, stream));
    args.workspace_is_ready = true;
    CUS_TRY(prepareGrid(function, args, stream));
    if (CUS_CHANNELS(args.src->type) > 1)
        CUS_TRY((launchChannels<GridFloat, Grid64, Float, Grid64, Float>(function, args, stream)));
    else
        CUS_TRY((launchRequested<GridFloat, Grid64, Grid64>(function, args, stream)));
    return markOutside(function, args, stream);
}

// ---- Sums over rectangles: one thread each, four reads --------------------------------------------------------------

template<bool IS_64F>
__global__ void boxSumsKernel(const char *table, size_t step, int rows, int cols, const char *boxes, size_t boxes_step,
                              char *sums, size_t sums_step, unsigned count) {
    const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count)
        return;
    const int *box = reinterpret_cast<const int *>(boxes + k * boxes_step);
    const int x = box[0], y = box[1], width = box[2], height = box[3];
    double sum = nan("");
    if (x >= 0 && y >= 0 && width >= 0 && height >= 0 && static_cast<long long>(x) + width <= cols &&
        static_cast<long long>(y) + height <= rows)
        sum = IS_64F ? cusBoxSum64F(table, step, x, y, width, height) : cusBoxSum32S(table, step, x, y, width, height);
    *reinterpret_cast<double *>(sums + k * sums_step) = sum;
}

// For tables of several channels, a thread computes one channel of a rectangle.
template<bool IS_64F>
__global__ void channelBoxSumsKernel(const char *table, size_t step, int rows, int cols, int channels, const char *boxes,
                                     size_t boxes_step, char *sums, size_t sums_step, unsigned count) {
    const unsigned k = blockIdx.x * (blockDim.x / 4) + threadIdx.x / 4;
    const int channel = static_cast<int>(threadIdx.x % 4);
    if (k >= count || channel >= channels)
        return;
    const int *box = reinterpret_cast<const int *>(boxes + k * boxes_step);
    const int x = box[0], y = box[1], width = box[2], height = box[3];
    double sum = nan("");
    if (x >= 0 && y >= 0 && width >= 0 && height >= 0 && static_cast<long long>(x) + width <= cols &&
        static_cast<long long>(y) + height <= rows)
        sum = IS_64F ? cusBoxSum64F(table, step, x * channels + channel, y, width * channels, height)
                     : cusBoxSum32S(table, step, x * channels + channel, y, width * channels, height);
    reinterpret_cast<double *>(sums + k * sums_step)[channel] = sum;
}

} // namespace
} // namespace cusi::integral

// ---- What backend.h declares ----------------------------------------------------------------------------------------

using namespace cusi::integral;

cusStatus integral_cuda_workspace(const char *, int rows, int cols, int channels, size_t *bytes) {
    using namespace tuning;
    if (channels == 1)
        *bytes =
            std::max({maxBytes<Sums32, NoTable, Small32, Medium32, Large32>(rows, cols, 1),
                      maxBytes<Sums64, Squares64, Small64, Medium64, Large64>(rows, cols, 1),
                      maxBytes<Floats64, Floats64, Float>(rows, cols, 1), maxBytes<Grid64, Grid64, Float>(rows, cols, 1)});
    else
        *bytes = std::max({maxBytes<Sums32, NoTable, Small32>(rows, cols, channels),
                           maxBytes<Squares64, NoTable, Medium64>(rows, cols, channels),
                           maxBytes<Floats64, NoTable, Float>(rows, cols, channels),
                           maxBytes<Grid64, NoTable, Float>(rows, cols, channels)});
    return CUS_OK;
}

static cusStatus runOne(const char *function, const IntegralArgs *args, cusStream stream) {
    using Byte = unsigned char;
    using namespace tuning;
    const int channels = CUS_CHANNELS(args->src->type);
    const bool several = channels > 1;
    if (args->reproducible)
        return launchReproducible(function, *args, stream);
    if (CUS_DEPTH(args->src->type) == CUS_32F)
        return several ? launchChannels<float, Floats64, Float, Floats64, Float>(function, *args, stream)
                       : launchRequested<float, Floats64, Floats64>(function, *args, stream);
    if (args->sum && CUS_DEPTH(args->sum->type) == CUS_32S)
        return channels == 3 ? launchChannels<Byte, Sums32, Colors32, Squares64, Medium64>(function, *args, stream)
               : several     ? launchChannels<Byte, Sums32, Small32, Squares64, Medium64>(function, *args, stream)
                             : launchRequested<Byte, Sums32, Squares64>(function, *args, stream);
    return several ? launchChannels<Byte, Sums64, Medium64, Squares64, Medium64>(function, *args, stream)
                   : launchRequested<Byte, Sums64, Squares64>(function, *args, stream);
}

cusStatus integral_cuda_run(const char *function, const IntegralArgs *args, cusStream stream) {
    if (args->count == 1)
        return runOne(function, args, stream);
    IntegralArgs part = *args;
    unsigned images = 0;
    CUS_TRY(imagesOfLaunch(function, *args, &images));
    for (int i = 0; i < args->count; i += part.count) {
        part.count = std::min(args->count - i, static_cast<int>(images));
        part.src = args->src + i;
        part.sum = args->sum ? args->sum + i : nullptr;
        part.sqsum = args->sqsum ? args->sqsum + i : nullptr;
        CUS_TRY(images > 1 ? launchBatch(function, part, static_cast<unsigned>(part.count), stream)
                           : runOne(function, &part, stream));
    }
    return CUS_OK;
}

cusStatus integral_cuda_boxSums(const cusMat *table, const cusMat *boxes, cusMat *sums, cusStream stream) {
    constexpr unsigned THREADS = 256;
    const unsigned count = static_cast<unsigned>(boxes->rows);
    const bool is64 = CUS_DEPTH(table->type) == CUS_64F;
    const int channels = CUS_CHANNELS(table->type);
    if (channels > 1)
        return cusi::launch("cusBoxSums", is64 ? channelBoxSumsKernel<true> : channelBoxSumsKernel<false>,
                            cusi::divUp(count, THREADS / 4), THREADS, 0, stream, table->data, table->step, table->rows - 1,
                            table->cols - 1, channels, boxes->data, boxes->step, sums->data, sums->step, count);
    const auto kernel = is64 ? boxSumsKernel<true> : boxSumsKernel<false>;
    return cusi::launch("cusBoxSums", kernel, cusi::divUp(count, THREADS), THREADS, 0, stream, table->data, table->step,
                        table->rows - 1, table->cols - 1, boxes->data, boxes->step, sums->data, sums->step, count);
}
