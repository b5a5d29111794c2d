// Host side of the kernel for thin images: which images are thin, how lanes are dealt out, workspace, launches.
#ifndef CUSI_INTEGRAL_THIN_LAUNCH_CUH
#define CUSI_INTEGRAL_THIN_LAUNCH_CUH

#include "integral_stages.cuh"
#include "integral_thin.cuh"

#include <algorithm>

namespace cusi::integral {

// How a thin image is cut into tiles.
struct ThinLayout {
    bool is_tall;              // else flat
    unsigned length, side;     // entries along, across
    unsigned skipped;          // 1 if no lane goes to the zeros at the start of the side
    unsigned lanes, registers; // that go across

    static bool isThin(int rows, int cols) {
        return (cols <= tuning::MAX_THIN_COLS && rows >= tuning::MIN_TALL_ROWS) ||
               (rows <= tuning::MAX_THIN_ROWS && cols >= tuning::MIN_FLAT_COLS);
    }
    // Neighboring lanes take neighbors in memory: all the columns of a tall image, as few rows as possible of a flat one.
    ThinLayout(int rows, int cols)
        : is_tall(rows > cols), length(static_cast<unsigned>(std::max(rows, cols)) + 1),
          side(static_cast<unsigned>(std::min(rows, cols)) + 1) {
        // The zeros of flat tables are whole rows. Those of tall ones are written with their rows, unless they are what needs
        // twice as many lanes; one or two columns take these, since a row is then a single write to a sector, not two.
        const unsigned pixels = side - 1;
        skipped = !is_tall || (pixels > 2 && (pixels & (pixels - 1)) == 0);
        const unsigned taken = side - skipped;
        registers = is_tall ? (taken > 32 ? 2 : 1) : (taken > 4 ? 8 : taken > 1 ? 2 : 1);
        lanes = 1;
        while (lanes * registers < taken)
            lanes *= 2;
    }
    unsigned tileLength(unsigned values) const { return thin::WARPS * values / registers * (32 / lanes); }
    // Tiles of a launch. A flat image, whose tiles have few words, is one slab: slabs are made of rows.
    size_t slabTiles(unsigned values) const {
        const size_t tiles = divUp(length, tileLength(values));
        return is_tall ? std::min(tiles, tuning::MAX_THIN_TILES) : tiles;
    }
    // Words of the sums of some tiles or groups of tiles: a multiple of 16 bytes.
    template<class Sum>
    size_t words(size_t sums) const {
        return divUp(sums * lanes * registers * sizeof(Sum), size_t(8)) * 2;
    }
    template<class Sum, class Acc>
    size_t chainWords(size_t tiles) const {
        return words<Sum>(tiles) + words<Acc>(divUp(tiles, size_t(tuning::GROUP)));
    }
    // For every source of this size: both tables of floats.
    size_t maxBytes() const {
        const size_t tiles = slabTiles(thin::VALUES<float>);
        return sizeof(LaunchState) + 2 * chainWords<double, double>(tiles) * sizeof(TaggedWord);
    }
};

// Fills in a table's parameters; `words` moves past its chains.
template<class Sum, class T>
void bindThinTable(ThinTable<T> &table, const cusMat *mat, const ThinLayout &layout, size_t tiles, TaggedWord *&words) {
    if constexpr (EXISTS<T>) {
        table.sums = words;
        table.prefixes = table.sums + layout.template words<Sum>(tiles);
        words += layout.template chainWords<Sum, typename T::Acc>(tiles);
        table.out = static_cast<typename T::Entry *>(mat->data);
        table.along = layout.is_tall ? mat->step : sizeof(typename T::Entry);
        table.across = layout.is_tall ? sizeof(typename T::Entry) : mat->step;
    }
}

template<class Pixel, class SumTable, class SquareTable>
cusStatus launchThin(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    const cusMat &src = *args.src;
    const ThinLayout layout(src.rows, src.cols);
    constexpr unsigned VALUES = thin::VALUES<Pixel>;
    const size_t tiles = layout.slabTiles(VALUES);
    ThinParams p = {};
    p.src = static_cast<const unsigned char *>(src.data);
    p.along = layout.is_tall ? src.step : sizeof(Pixel);
    p.across = layout.is_tall ? sizeof(Pixel) : src.step;
    p.side = layout.side;
    p.skipped = layout.skipped;
    p.lanes = layout.lanes;
    p.state = static_cast<LaunchState *>(args.workspace);
    ThinTable<SumTable> sum;
    ThinTable<SquareTable> squares;
    TaggedWord *words = reinterpret_cast<TaggedWord *>(p.state + 1);
    bindThinTable<typename Pixels4<Pixel>::Sum>(sum, args.sum, layout, tiles, words);
    bindThinTable<typename Pixels4<Pixel>::Sum>(squares, args.sqsum, layout, tiles, words);
    if (!args.workspace_is_ready) {
        const auto bytes = reinterpret_cast<char *>(words) - reinterpret_cast<char *>(p.state);
        CUSI_CUDA(function, cudaMemsetAsync(p.state, 0, static_cast<size_t>(bytes), stream));
    }
    const auto kernel = layout.registers == 1   ? thinKernel<Pixel, SumTable, SquareTable, 1>
                        : layout.registers == 2 ? thinKernel<Pixel, SumTable, SquareTable, 2>
                                                : thinKernel<Pixel, SumTable, SquareTable, 8>;
    const unsigned tile_length = layout.tileLength(VALUES);
    const size_t slab_length = tiles * tile_length;
    for (size_t first = 0; first < layout.length; first += slab_length) {
        p.first = static_cast<unsigned>(first);
        p.end = static_cast<unsigned>(std::min<size_t>(first + slab_length, layout.length));
        CUS_TRY(launchOverlapped(function, kernel, divUp(p.end - p.first, tile_length), thin::THREADS, 0, stream, p, sum,
                                 squares));
    }
    return CUS_OK;
}

} // namespace cusi::integral

#endif
