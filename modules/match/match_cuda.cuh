// What the stages of template matching on the device share: each stage's parameters and the host functions that launch it.
// docs/internals/match.md describes the stages.
#ifndef CUSI_MATCH_CUDA_CUH
#define CUSI_MATCH_CUDA_CUH

#include "cuda.cuh"
#include "device.h"
#include "match_backend.h"
#include "match_fft.cuh"

#include <cufft.h>

#include <algorithm>
#include <new>
#include <vector>

namespace match {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int BAND = 4; // rows of a block of the row transforms: two complex signals
constexpr cufftHandle NO_PLAN = -1;
constexpr int MAX_CANDIDATES = 1024; // that are listed
constexpr int MAX_PERIOD = 64;       // of float pictures, of which windows are compared

// ---- Parameters of the stages

struct Frame {
    const void *data;
    size_t step;
};

// Pixels are rows of `step` bytes, masks of `mask_step` bytes, zero-padded.
struct Templates {
    const MatchTemplate *sums;
    const unsigned char *pixels, *mask;
    size_t step, bytes, mask_step; // bytes: of a template
    double masked_constant;        // masked SQDIFF: to be added to every correlation
};

// Transforms in shared memory. Spectra are tiles of two columns: rows in order (spectra, products), or frequencies in the
// order in which columnsFftKernel multiplies them (template_spectra).
struct BlockFft {
    fft::Plan rows, columns; // rows.n is 0 if cuFFT is used instead
    int tiles, spectrum_pitch, product_pitch;
    float4 *spectra, *products;
    const float4 *template_spectra;
};

// Transforms by cuFFT; spectra have rows of cols / 2 + 1.
struct CuFft {
    int rows, cols;
    float *planes; // NULL if only the frame's energy is wanted
    cufftComplex *spectra, *products;
    const cufftComplex *template_spectra;
    float *correlations;
};

// Sums over windows of up to four quantities: the channels, then the squares.
struct Windows {
    int quantities;
    void *vertical, *sums; // orows rows of vertical_pitch; orows x ocols
    size_t vertical_pitch;
    int wide;           // vertical sums of 8-bit pixels need 64 bits
    void *prefixes;     // of the rows of vertical sums, if they do not fit into shared memory
    int rows_per_block; // of sumWindowRow()
};

// Sums of squares of the frame's planes and the error bounds that follow from them.
struct Energy {
    double *parts, *planes;
    int part_count;     // a plane
    MatchError *errors; // of each template in this frame
};

struct Scores {
    float *const *maps; // of each template, rows of map_steps bytes; NULL if not wanted
    const size_t *map_steps;
    MatchRange *ranges;
    float *tile_lowers, *block_uppers; // minima over each tile, and over all tiles of a block of the score kernel
    int tiles_across, tiles_down, tile_cols_log2, tile_rows_log2;
    int upper_count; // block_uppers of a template
};

struct Candidate {
    double cost;
    unsigned long long position; // of the map, row-major
};

struct Refinement {
    void *partial_sums;
    unsigned *tickets;
    // Of each template: one more than the match from which on denseKernel is to find them, or 0; NULL if there is no denseKernel.
    unsigned *overflows;
    cusMatch *results;
    int round;  // 0 finds the best match, 1 the next, ...
    int blocks; // a template
};

// Frames that are too long for a transform are correlated piece by piece, templates part by part: the transforms have the size of
// a part's windows in a piece of the map.
struct Pieces {
    int cols, rows;           // of a piece
    int part_cols, part_rows; // of a part
    int across, count;        // pieces
    int parts_across, parts;  // of a template
};
inline bool isInPieces(const Pieces &pieces) {
    return pieces.count * pieces.parts > 1;
}

// Scores everywhere by transforms in double: exact ones of integers, bounds of others. Spectra are tiles of two columns, rows in
// order.
struct Dense {
    fft::PlanOf<double2> rows, columns; // rows.n is 0 if there is none
    Pieces pieces;
    int tiles, spectrum_pitch, template_pitch, product_pitch; // pitches: rows of a tile
    double2 *spectra, *template_spectra, *products;
    double2 *columns_of_template; // of a tile, for each block
    double scale;                 // of the results
    double *costs;                // of all positions for one template; none of one piece and one match
    Candidate *bests;             // of each template's bands
    unsigned *counters;
    int blocks;
    bool in_refine; // refineDenseKernel does this: there is no launch of denseKernel
    // Floats; match_fractions.cuh explains what they are for:
    const double *energy;     // of the frame's planes
    double units;             // error of a correlation: times the sum over planes of |plane| |template plane|
    float largest;            // magnitude of the templates' pixels if they are integers, otherwise infinity
    MatchInterval *intervals; // of every position's cost
    unsigned *period_counts, *equal_bits, *listed;
    Candidate *block_bests;
};

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
    Dense dense = {};
};

constexpr size_t MOST_ALLOCATIONS = 64; // of a matcher

// The device half of a cusMatcher.
struct MatchCuda {
    Stages stages;
    std::vector<void *> memory; // all device memory
    cufftHandle forward = NO_PLAN, inverse = NO_PLAN;
    float **maps = nullptr; // stages.scores.maps when a run wants maps
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
#define MATCH_CUFFT(function, call) CUS_TRY(match::cufftStatus((call), function, #call))

// Fills host containers. No exception leaves it, so none passes what else is held meanwhile.
template<class Fill>
cusStatus inHostMemory(const Fill &fill) {
    try {
        fill();
        return CUS_OK;
    } catch (const std::bad_alloc &) {
        return cusi_fail(CUS_ERROR_NO_MEMORY, "cusMatcherCreate: out of host memory");
    }
}

// Zeroed device memory, 256-byte aligned, freed with the matcher.
template<class T>
cusStatus allocate(MatchCuda *cuda, T **p, size_t n, cudaStream_t stream) {
    const char *f = "cusMatcherCreate";
    void *memory = nullptr;
    n = std::max<size_t>(n, 1);
    CUSI_REQUIRE(n <= SIZE_MAX / 2 / sizeof(T), CUS_ERROR_NO_MEMORY, "%s: out of device memory", f);
    CUS_TRY(inHostMemory([&] { cuda->memory.reserve(MOST_ALLOCATIONS); }));
    CUSI_REQUIRE(cuda->memory.size() < MOST_ALLOCATIONS, CUS_ERROR_NO_MEMORY, "%s: too many blocks", f);
    CUS_TRY(cusi_deviceAllocate(f, n * sizeof(T), &memory));
    cuda->memory.push_back(memory);
    CUSI_CUDA(f, cudaMemsetAsync(memory, 0, n * sizeof(T), stream));
    *p = static_cast<T *>(memory);
    return CUS_OK;
}

// `bytes`: the same for all matchers, since a kernel has one limit for all of a program's launches.
inline cusStatus allowSharedMemory(const void *kernel, int bytes) {
    CUSI_CUDA("cusMatcherCreate", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return CUS_OK;
}

// Shared memory of a block of the row transforms, of sumWindowRow(), and of columnsFftKernel.
size_t rowFftBytes(const Stages &stages);
size_t prefixBytes(const Stages &stages);
size_t columnFftBytes(const Stages &stages);
// Whether 8-bit pixels without a mask are correlated directly.
bool correlatesDotProducts(const Stages &stages);

// Preparation. chooseBlockFft() leaves block_fft.rows.n 0 if the frame does not fit into shared memory.
cusStatus chooseBlockFft(MatchCuda *cuda, cudaStream_t stream);
double correlationErrorUnits(const Stages &stages);
void chooseCufftSize(const MatchModel &m, int *rows, int *cols, cudaStream_t stream);
cusStatus sharedMemory(int *bytes); // of a block, less what kernels have static
cusStatus chooseDense(MatchCuda *cuda, const void *templates, const MatchTemplate *sums, cudaStream_t stream);
cusStatus allowDenseMemory(const Stages &stages, int bytes);
cusStatus allowRefineDenseMemory(const MatchModel &m, int bytes);
bool refinesDensely(const Stages &stages, int most); // most: shared memory of a block
size_t denseBytes(const Stages &stages);
cusStatus makeCufftPlans(MatchCuda *cuda, cudaStream_t stream);
cusStatus prepareSpectra(MatchCuda *cuda, const void *templates, const uint8_t *mask, cudaStream_t stream);
size_t refinementBytes(const Stages &stages);
cusStatus allowRowsFftMemory(int bytes);
cusStatus allowColumnsFftMemory(const MatchModel &m, int bytes);
cusStatus allowScoresFftMemory(const MatchModel &m, int bytes);

// A run. The block FFT: vertical, rows, columns, scores. cuFFT: vertical, planes, forward, columns, inverse, scores.
cusStatus launchVertical(const Stages &stages, cudaStream_t stream);
cusStatus launchRowsFft(const Stages &stages, bool beside_vertical, cudaStream_t stream);
cusStatus launchColumnsFft(const Stages &stages, int window_blocks, cudaStream_t stream);
cusStatus launchScoresFft(const Stages &stages, cudaStream_t stream);
cusStatus launchPlanes(const Stages &stages, int rows, cudaStream_t stream);
cusStatus runCufftForward(const MatchCuda &cuda, cudaStream_t stream);
cusStatus launchColumns(const Stages &stages, int window_blocks, int energy_blocks, int product_blocks,
                        cudaStream_t stream);
cusStatus runCufftInverse(const MatchCuda &cuda, cudaStream_t stream);
int productBlocks(const Stages &stages, int multiprocessors);
enum class Correlation { FFT, DOT_PRODUCTS, PLAIN };
cusStatus launchScores(const Stages &stages, Correlation source, cudaStream_t stream);
cusStatus launchSuppress(const Stages &stages, cudaStream_t stream);
cusStatus launchRefine(const Stages &stages, cudaStream_t stream);
cusStatus launchDense(const Stages &stages, cudaStream_t stream);

// ---- Device

// Words of equal_bits of a row of the map.
__host__ __device__ inline int equalWords(const MatchModel &m) {
    return cusi::divUp(m.cols, 32);
}

// Exact sums of 8-bit images are integers; those of floats are doubles.
template<class T>
struct SumTypes {
    using Sum = long long;
};
template<>
struct SumTypes<float> {
    using Sum = double;
};

extern __shared__ float4 shared_points[];

} // namespace match

#endif
