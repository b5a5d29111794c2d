// Parameters of the stages of template matching on the device, and the host functions that launch them.
// docs/internals/match.md describes the stages.
#ifndef CUSI_MATCH_CUDA_STAGES_CUH
#define CUSI_MATCH_CUDA_STAGES_CUH

#include "arena.cuh"
#include "match/cuda/fft/transform.cuh"
#include "match/scores.h"

#include <cufft.h>

#include <algorithm>
#include <new>
#include <vector>

namespace cusi::match {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int BAND = 4; // rows that a block transforms, as two complex signals
constexpr cufftHandle NO_PLAN = -1;
constexpr int MAX_CANDIDATES = 1024; // the longest list of bytes' candidates

// ---- Parameters of the stages

struct Frame {
    const void *data;
    size_t step;
    double *shift; // shift of each channel, for floats
};

// Frames of a batch that one launch matches: its kernels take them as a parameter, which a captured graph keeps.
constexpr int LAUNCH_FRAMES = 128;
struct Frames {
    struct {
        const void *data;
        size_t step;
    } frames[LAUNCH_FRAMES];
};

// Rows of pixels have `step` bytes, those of masks `mask_step` bytes; both are padded with zeros.
struct Templates {
    const MatchTemplate *sums;
    const unsigned char *pixels, *mask;
    size_t step, bytes, mask_step; // bytes: of one template
    const float *weights;          // without padding; NULL if there are none
    const uint32_t *samples;       // match_chooseSamples()
};

// Transforms in shared memory. Spectra are stored in tiles of two columns, in the order of rows (spectra, products) or in
// the order in which columnsFftKernel multiplies frequencies (template_spectra).
struct BlockFft {
    fft::Plan rows, columns; // rows.n is 0 if cuFFT is used instead
    int tiles, spectrum_pitch, product_pitch;
    float4 *spectra, *products;
    const float4 *template_spectra;
};

// Transforms by cuFFT. Rows of spectra have cols / 2 + 1 values.
struct CuFft {
    int rows, cols;
    float *planes;
    cufftComplex *spectra, *products;
    const cufftComplex *template_spectra;
    float *correlations;
};

// Sums over windows, first for each channel, then of all squares.
struct Windows {
    int quantities;
    void *vertical, *sums; // orows rows of vertical_pitch sums; orows x ocols sums
    size_t vertical_pitch;
    int wide;            // vertical sums of 8-bit pixels need 64 bits
    void *prefixes;      // prefix sums of rows if they do not fit into shared memory, else NULL
    int rows_per_block;  // rows that a block of sumWindowRow() makes
    const double *shift; // Frame::shift
};

// Sums of squares of the frame's channels, and the error bounds that follow from them.
struct Energy {
    double *parts, *channels;
    int part_count;     // parts of a channel
    MatchError *errors; // error bounds of each template in this frame
};

struct Scores {
    float *const *maps; // one for each template with rows of map_steps bytes; NULL if not wanted
    const size_t *map_steps;
    MatchRange *ranges;
    float *tile_lowers, *block_uppers; // minima over each tile; over all tiles of a block of the score kernel
    int tiles_across, tiles_down, tile_cols_log2, tile_rows_log2;
    int upper_count;          // block_uppers of one template
    const MatchError *errors; // Energy::errors
};

struct Candidate {
    double cost;
    unsigned long long position; // in the map, row-major
};

struct Refinement {
    void *partial_sums;
    unsigned *tickets; // of each template or frame; direct correlation: leastOf() behind them
    // For each template 1 + the first round that is left to exactCorrelationKernel, or 0; NULL if there is no exact pass.
    unsigned *overflows;
    cusMatch *results;
    int round;  // round 0 finds the best match, round 1 the next, and so on
    int blocks; // blocks for each template
};

// If a frame is too large for a transform, the map is computed piece by piece. Pieces are disjoint; the parts of the frame
// under them overlap by the template's size less one.
struct Pieces {
    int cols, rows;    // size of a piece
    int across, count; // pieces in a row of them; all pieces
};

// The exact pass computes all scores by transforms in double; those of integers are exact. Spectra are stored in tiles of
// two columns, in the order of rows.
struct ExactPass {
    fft::PlanOf<double2> rows, columns; // rows.n is 0 if there is no exact pass
    Pieces pieces;
    int tiles, spectrum_pitch, template_pitch, product_pitch; // pitches: rows of a tile
    double2 *spectra, *template_spectra, *products;
    double2 *columns_of_template; // for each block a tile of the template's spectrum
    double2 *mask_columns; // the mask's spectrum (with weights, one a channel); tiles are as transformColumns() leaves them
    double scale;          // factor from transforms to correlations
    double *costs;         // costs of one template at all positions; NULL if there is one piece and one match
    Candidate *bests;      // the best of each band of each template
    unsigned *counters;
    int blocks;
    bool in_refine; // whether refineExactKernel does refinement and exact pass
    // Floats only: the largest magnitude of shifted pixels with which rounding makes correlations exact, below 0 if there
    // is none; and the error bounds of window sums.
    double largest_integer;
    const MatchError *errors;
};

// Direct correlation of bytes (direct.cu) cuts the template into sections. With a mask, sections of the mask follow: window
// sums are correlations with it, of each channel and of both bytes of the pixels' squares.
enum { PIXELS, LOW_OF_SQUARES, HIGH_OF_SQUARES }; // bytes of the image that are multiplied
struct Section {
    int y, x, rows, bytes;
    int halves; // units of 16 bytes that cover a row's bytes under 16 neighboring positions
    int source, weight;
    int quantity;       // what it adds to: 0 the product, 1 + c a channel's sum, 1 + channels the sum of squares
    bool first;         // whether it is the first section of its quantity
    size_t words, ones; // index of its words in Direct::words; of its rows of ones, for window sums, in Direct::ones
};
// wgmma.cu's part of shared memory, in bytes: a ring of slabs of the template, planes of the image, sums.
struct Wgmma {
    const unsigned char *slabs; // of the frame's first template; NULL if mma.sync multiplies
    const unsigned char *mask;  // its slabs
    size_t template_bytes;      // from one template to the next
    int ring, slabs_each;       // slabs in shared memory, 0 if mma.sync multiplies; of a template
    int passes;                 // of products: channels of the templates; with a mask, one template and how often the mask
    int parts;                  // bests of a tile
    int chunks;                 // units of 16 bytes that cover a row's bytes under 16 neighboring positions
    int planes, plane, phase;   // count; bytes from one to the next; from one row % 4 to the next
    int sums_pitch;             // words of a row of sums
    int image_at, squares_at, sums_at;
    unsigned planes_reciprocal; // 2^32 / planes, rounded up
};
struct Direct {
    int count; // number of sections
    Section first;
    const Section *sections;
    const uint32_t *words, *ones; // words: of the frame's first template
    size_t template_words;        // words from one template to the next
    int words_pitch;              // words a row
    int pitch, tile_rows;         // size of the image under a tile: bytes in a row, rows
    bool sums_s1, sums_s2;        // whether window sums are computed beside the products
    int ones_rows;
    unsigned units_reciprocal;                     // 2^32 / (pitch / 16), rounded up
    int products_at, words_at, planes_at, ones_at; // offsets in shared memory, in bytes
    size_t shared;                                 // bytes of shared memory
    bool keeps;       // whether image and window sums stay in shared memory from template to template
    int frames;       // the most that one launch takes: the next three have as many parts. One unless there is a batch
    int match_blocks; // blocks that find the matches of a template or frame if there are costs
    double *totals;   // sums over the sections at each position: products, channels, squares; NULL if there is one section
    double *costs;    // costs of each template or frame at each position, for further matches and fractions of a pixel,
                      // otherwise NULL
    // What every block of wgmma.cu reads first, in few lines of the cache of parameters, which starts empty.
    Candidate *bests; // the best of each tile of each template or frame
    int shape, tiles_across;
    unsigned tiles;
    Wgmma wgmma;
};
static_assert(sizeof(MatchModel) + sizeof(Frames) + sizeof(Templates) + sizeof(Scores) + sizeof(Direct) +
                      sizeof(Refinement) <=
                  4000,
              "parameters of a launch");

// ---- Host

struct Stages {
    MatchModel model = {};
    Frame frame = {};
    Templates templates = {};
    BlockFft block_fft = {};
    CuFft cufft = {};
    Windows windows = {};
    Energy energy = {};
    Scores scores = {};
    Refinement refinement = {};
    ExactPass exact = {};
    Direct direct = {};
};

// The device half of a cusMatcher.
struct MatchCuda {
    Stages stages;
    Arena memory;
    cufftHandle forward = NO_PLAN, inverse = NO_PLAN;
    float **maps = nullptr; // stages.scores.maps if a run wants maps
    size_t *map_steps = nullptr;
    std::vector<float *> host_maps, sent_maps;
    std::vector<size_t> host_steps, sent_steps;
    unsigned *inspect_counts = nullptr;
    int multiprocessors = 0;
};

inline cusStatus cufftStatus(cufftResult result, const char *function, const char *what) {
    if (result == CUFFT_SUCCESS)
        return CUS_OK;
    return cusi_fail(result == CUFFT_ALLOC_FAILED ? CUS_ERROR_NO_MEMORY : CUS_ERROR_CUDA, "%s: %s: cuFFT error %d",
                     function, what, static_cast<int>(result));
}
#define MATCH_CUFFT(function, call) CUS_TRY(cusi::match::cufftStatus((call), function, #call))

// Runs fill(), which fills host containers, and turns std::bad_alloc into a status.
template<class Fill>
cusStatus inHostMemory(const Fill &fill) {
    try {
        fill();
        return CUS_OK;
    } catch (const std::bad_alloc &) {
        return cusi_fail(CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    }
}

template<class T>
cusStatus allocate(MatchCuda *cuda, T **p, size_t n, cudaStream_t stream) {
    return cuda->memory.allocateZeros("cusMatcherCreate", n, p, stream);
}

template<class T>
cusStatus upload(MatchCuda *cuda, const std::remove_const_t<T> *host, size_t n, T **device, cudaStream_t stream) {
    return cuda->memory.upload("cusMatcherCreate", host, n, device, stream);
}

// `bytes` must be the same for all matchers, since the limit of a kernel holds for all its launches in the process.
inline cusStatus allowSharedMemory(const void *kernel, int bytes) {
    CUSI_CUDA("cusMatcherCreate", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return CUS_OK;
}

// Return the shared memory of a block of the row transforms, of sumWindowRow(), and of columnsFftKernel.
size_t rowFftBytes(const Stages &stages);
size_t prefixBytes(const Stages &stages);
size_t columnFftBytes(const Stages &stages);

// Preparation. chooseBlockFft() leaves block_fft.rows.n 0 if the frame does not fit into shared memory.
cusStatus chooseBlockFft(MatchCuda *cuda, cudaStream_t stream);
// Plans the shortest transform of n points or more that fits a block; the plan's n is 0 if there is none.
fft::Plan planFor(int n);
template<class Complex>
cusStatus makeTables(MatchCuda *cuda, fft::PlanOf<Complex> *plan, cudaStream_t stream);
double correlationErrorUnits(const Stages &stages);
cusStatus chooseCufftSize(const MatchModel &m, CuFft *fft);
cusStatus sharedMemory(int *bytes);                   // the most that a block can have beside static shared memory
cusStatus exactFits(const MatchModel &m, bool *fits); // whether transforms in double fit into shared memory
cusStatus chooseExact(MatchCuda *cuda, const void *templates, const MatchTemplate *sums, cudaStream_t stream);
cusStatus allowExactMemory(Stages *stages, int bytes); // sets exact.in_refine
size_t exactBytes(const Stages &stages);
cusStatus makeCufftPlans(MatchCuda *cuda, cudaStream_t stream);
cusStatus prepareSpectra(MatchCuda *cuda, const void *templates, MatchMask mask, const MatchTemplate *sums,
                         cudaStream_t stream);
size_t refinementBytes(const Stages &stages);
cusStatus allowRowsFftMemory(int bytes);
cusStatus allowColumnsFftMemory(const MatchModel &m, int bytes);
cusStatus allowScoresFftMemory(const MatchModel &m, int bytes);

// A run. If there are window_blocks, launchVertical() precedes either transform.
cusStatus launchFrameShift(const Stages &stages, cudaStream_t stream); // if frames have a shift of their own
cusStatus launchVertical(const Stages &stages, cudaStream_t stream);
cusStatus launchRowsFft(const Stages &stages, bool beside_vertical, cudaStream_t stream);
cusStatus launchColumnsFft(const Stages &stages, int window_blocks, cudaStream_t stream);
cusStatus launchScoresFft(const Stages &stages, cudaStream_t stream);
cusStatus runCufft(const MatchCuda &cuda, const Stages &stages, int window_blocks, cudaStream_t stream);
cusStatus launchRemoveNeighborhood(const Stages &stages, cudaStream_t stream);
cusStatus launchRefine(const Stages &stages, cudaStream_t stream);
cusStatus launchExact(const Stages &stages, cudaStream_t stream);

// With a mask, prepareMask() makes its spectrum, and launchMaskedSums() replaces launchVertical().
cusStatus prepareMask(MatchCuda *cuda, cudaStream_t stream);
cusStatus launchMaskedSums(const Stages &stages, cudaStream_t stream);

// Direct correlation is all of a run.
cusStatus prepareDirect(MatchCuda *cuda, const void *pixels, const uint8_t *mask, cudaStream_t stream);
cusStatus launchDirect(const Stages &stages, const cusMat *frames, int count, cudaStream_t stream);
// The largest templates, in bytes, that direct correlation matches faster than the FFT by mma.sync; and those, in pixels,
// above and up to which wgmma is faster than both, for one channel and for three; up to `positions` for each
// multiprocessor. Measured on an H100 and an H200, SQDIFF: by mma.sync one channel takes as long as the FFT at 140 x 140 in
// 640 x 480, 97 x 97 in 1920 x 1080 and 107 x 107 in 3840 x 2160; three at 90, 60 and 68. By wgmma it is 152 x 152 in
// 1920 x 1080, and as long as by mma.sync about 33 x 33 in 640 x 480 and 16 x 16 in 1280 x 720 (other methods in
// 1920 x 1080, too). With a mask wgmma takes half the time or less; with further matches or fractions it takes less at
// every size. Three channels are faster by wgmma never in 640 x 480, from 32 x 32 to 80 x 80 in 1280 x 720, from 25 x 25
// to 92 x 92 in 1920 x 1080, and from 18 x 18 to 97 x 97 in 3840 x 2160.
struct Crossovers {
    double positions, mma, above, wgmma, above_colors, colors;
};
constexpr Crossovers CROSSOVERS[] = {{64 * 48, 128 * 128, 32 * 32, 144 * 144, 0, 0},
                                     {128 * 96, 97 * 97, 16 * 16, 144 * 144, 32 * 32, 80 * 80},
                                     {INFINITY, 97 * 97, 0, 144 * 144, 24 * 24, 92 * 92}};
inline const Crossovers &crossoversOf(const MatchModel &m, double frames, int multiprocessors) {
    const double positions = static_cast<double>(m.orows) * m.ocols * frames;
    const Crossovers *row = CROSSOVERS;
    while (positions > row->positions * multiprocessors)
        ++row;
    return *row;
}

// Sets shape, tiles and wgmma of direct correlation if wgmma does it, and is faster; otherwise wgmma.ring is 0.
cusStatus planWgmma(const MatchModel &m, int multiprocessors, Direct *direct);
cusStatus prepareWgmma(MatchCuda *cuda, const unsigned char *pixels, const uint8_t *mask, cudaStream_t stream);
cusStatus launchWgmma(const Stages &stages, const Frames &frames, int count, cudaStream_t stream);

// ---- Device

// Exact sums of 8-bit images are integers; those of floats are doubles.
template<class T>
struct SumTypes {
    using Sum = long long;
};
template<>
struct SumTypes<float> {
    using Sum = double;
};

// The frame's pixels are shifted by these values, one a channel.
template<class T>
__device__ __forceinline__ const double *frameShift(const MatchModel &m, const double *of_frame) {
    return sizeof(T) == 1 ? m.shift : of_frame;
}

// Finds the position with this index (modulo the size of a tile) in a tile; false if it is outside the map.
__device__ inline bool tilePosition(const MatchModel &m, const Scores &scores, int tile, long long index, int &y, int &x) {
    const int cols = 1 << scores.tile_cols_log2, rows = 1 << scores.tile_rows_log2;
    y = tile / scores.tiles_across * rows + (static_cast<int>(index >> scores.tile_cols_log2) & (rows - 1));
    x = tile % scores.tiles_across * cols + (static_cast<int>(index) & (cols - 1));
    return y < m.orows && x < m.ocols;
}

extern __shared__ float4 shared_points[];

} // namespace cusi::match

#endif
