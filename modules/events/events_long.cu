// Long windows: too few to keep the device busy with a block per tile, or too long for the workspace. A window is cut into
// parts, which are sorted like windows. A block adds up one tile (or a piece of it) of one part in shared memory and adds the
// result to accumulators in device memory; resolveKernel turns these into values. All adds are of integers, so their order
// does not matter.
#include "events_long.cuh"
#include "events_tiles.cuh"

#include <algorithm>
#include <type_traits>

namespace cusi::events {

namespace tuning {
constexpr int RESOLVE_THREADS = 256;
constexpr int LONG_HISTOGRAM_TILE = 13; // log2 of a tile's pixels, whose two counters share a word
// Per multiprocessor
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750 // 1024 resident threads at most
constexpr int HISTOGRAM_BLOCKS = 4;
#else
constexpr int HISTOGRAM_BLOCKS = 6;
#endif
constexpr int longBlocks(Kind kind) {
    return kind == HISTOGRAM ? HISTOGRAM_BLOCKS : kind == VOXEL_GRID ? 4 : 3;
}
// Blocks per multiprocessor in a group of parts: more make the last ones of a group shorter, fewer add less often.
constexpr unsigned LONG_BLOCKS = 12;
constexpr size_t LONG_SHARED_BYTES = 40 << 10; // for a block's accumulators
constexpr double LONG_READS = 48;              // of a block, before its window is cut into parts
constexpr unsigned MIN_PART_RUNS = 8;          // one per warp
// Blocks that help with the crowded tiles of a part: two per multiprocessor and group, but at least and at most so many.
constexpr unsigned MIN_HELPERS = 16, MAX_HELPERS = 64;
// HISTOGRAM: blocks that add to a pixel, in a group. Sums of as many counts up to 255 fit 16 bits.
constexpr unsigned MAX_ADDED = 256;
constexpr unsigned MAX_GROUP_PARTS = MAX_ADDED / (MIN_HELPERS + 1);
constexpr unsigned MAX_PARTS = 256;     // of a window
constexpr int LONG_VOXEL_CARVEOUT = 86; // percent: 4 blocks' accumulators
} // namespace tuning

namespace {

constexpr int THREADS = tuning::LONG_THREADS;
static_assert(tuning::MAX_ADDED * 255 + 254 < 65536 && tuning::MAX_PARTS <= tuning::BATCH_WINDOWS, "");

template<Kind KIND>
using RecordOf =
    std::conditional_t<KIND == HISTOGRAM, uint16_t, std::conditional_t<KIND == VOXEL_GRID, TimedRecord, uint32_t>>;

// Words of shared memory per pixel, each in a plane of its own, here and in device memory. The two counters of HISTOGRAM are
// the halves of one word; VOXEL_GRID has 64 bits in device memory.
__host__ __device__ constexpr unsigned planesOf(Kind kind, unsigned channels) {
    return kind == HISTOGRAM ? 1 : accumulatorsPerPixel(kind, channels);
}

// ---- Reading records ---------------------------------------------------------------------------------------------------

// What a block makes: a tile, from runs first .. last - 1 of the part, counted from the newest.
struct Share {
    unsigned tile, first, last;
};

// Events of the tile in a run.
__device__ __forceinline__ unsigned eventsOf(const uint16_t *ends, unsigned tile) {
    return ends[tile] - (tile > 0 ? ends[tile - 1] : 0);
}

// A tile with far more events than others, in the worst case all of them, shares its runs with helpers, the part's last
// blocks. Helpers find the crowded tiles in a sample of runs, and which of them is theirs; so does the block of a crowded
// tile, to know how many help it. Returns an empty range of runs to a helper without work.
__device__ __forceinline__ Share shareOf(const TileParams &params, unsigned w, unsigned tile, unsigned runs) {
    __shared__ Share result;
    __shared__ unsigned warps[THREADS / 32];
    __shared__ int alone;
    const unsigned tiles = params.tiling.tiles, tid = threadIdx.x, lane = tid & 31, samples = min(runs, SAMPLED_RUNS),
                   stride = runs / max(samples, 1u),
                   helpers = (gridDim.x >> (params.tiling.row_bits + params.tiling.col_bits - params.part_bits)) - tiles;
    const uint16_t *ends = params.sorted.ends + static_cast<size_t>(w) * params.sorted.runs_per_window * tiles;
    const size_t pitch = static_cast<size_t>(stride) * tiles; // from one sampled run to the next
    if (tid < 32) {
        const unsigned events = warpSum(tile < tiles && lane < samples ? eventsOf(ends + lane * pitch, tile) : 0u);
        alone = tile < tiles && helpersWanted(events, samples, helpers) == 0;
        result = tile < tiles ? Share{tile, 0, runs} : Share{0, 0, 0};
    }
    __syncthreads();
    if (alone)
        return result;
    unsigned before = 0; // helpers of the tiles before
    for (unsigned base = 0; base < tiles; base += THREADS) {
        const unsigned mine = base + tid;
        unsigned events = 0;
        if (mine < tiles)
#pragma unroll 8
            for (unsigned k = 0; k < samples; ++k)
                events += eventsOf(ends + k * pitch, mine);
        const unsigned wanted = mine < tiles ? helpersWanted(events, samples, helpers) : 0;
        unsigned scanned[1] = {wanted};
        warpInclusiveScan(scanned, lane);
        if (lane == 31)
            warps[tid / 32] = scanned[0];
        __syncthreads();
        unsigned first = before + scanned[0] - wanted; // the tile's first helper
        for (unsigned i = 0; i < THREADS / 32; ++i) {
            first += i < tid / 32 ? warps[i] : 0;
            before += warps[i];
        }
        const unsigned given = min(wanted, helpers - min(first, helpers)),
                       number = tile < tiles ? 0 : tile - tiles - first + 1; // of those that share the tile
        if (mine < tiles && (tile < tiles ? mine == tile : tile - tiles >= first && number <= given))
            result = {mine, runs * number / (given + 1), runs * (number + 1) / (given + 1)};
        __syncthreads();
    }
    return result;
}

// Calls visit(piece) in whole warps for the tile's segments in part w, newest run first. As forSegments(), but a warp has
// runs of its own, since a part has hundreds, and loads a piece while it visits the one before.
template<class Record, class Visit>
__device__ __forceinline__ void forPieces(const TileParams &params, unsigned w, unsigned tile, unsigned runs,
                                          const Share &share, Visit visit) {
    constexpr unsigned PAD = RECORDS_PER_16_BYTES<Record>, WARPS = THREADS / 32;
    constexpr bool HAS_BASE = std::is_same_v<Record, TimedRecord>;
    const SortedRuns &sorted = params.sorted;
    const unsigned lane = threadIdx.x & 31, mine = share.last - share.first, rounds = divUp(mine, 32 * WARPS),
                   at_once = divUp(mine, max(rounds, 1u) * WARPS);
    const size_t first_run = static_cast<size_t>(w) * sorted.runs_per_window;
    for (unsigned base = share.first + threadIdx.x / 32 * at_once; base < share.last; base += WARPS * at_once) {
        unsigned begin = 0, end = 0;
        uint32_t run_base = 0;
        if (lane < at_once && base + lane < share.last) {
            const uint16_t *ends = sorted.ends + (first_run + (runs - 1 - (base + lane))) * params.tiling.tiles;
            begin = tile > 0 ? divUp<unsigned>(ends[tile - 1], PAD) : 0;
            end = ends[tile];
            if constexpr (HAS_BASE)
                run_base = sorted.bases[first_run + (runs - 1 - (base + lane))];
        }
        const unsigned pieces = divUp(end, PAD) - begin;
        unsigned scanned[1] = {pieces};
        warpInclusiveScan(scanned, lane);
        const unsigned upto = scanned[0], shift = begin - (upto - pieces), all = __shfl_sync(FULL_WARP, upto, 31);
        const auto load = [&](unsigned first) {
            const unsigned number = first + lane, segment = segmentOf(number, upto);
            const unsigned at = __shfl_sync(FULL_WARP, shift, segment) + number,
                           last = __shfl_sync(FULL_WARP, end, segment), run = runs - 1 - (base + segment);
            Piece piece = {make_uint4(0, 0, 0, 0), 0, run, 0};
            if constexpr (HAS_BASE)
                piece.base = __shfl_sync(FULL_WARP, run_base, segment);
            if (number < all) {
                const Record *records = static_cast<const Record *>(sorted.records) + (first_run + run) * sorted.pitch;
                piece.records = reinterpret_cast<const uint4 *>(records)[at];
                piece.left = static_cast<int>(last - at * PAD);
            }
            return piece;
        };
        Piece next = load(0);
        for (unsigned first = 0; first < all; first += 32) {
            const Piece piece = next;
            next = load(first + 32);
            visit(piece);
        }
    }
}

// ---- Adding in device memory -------------------------------------------------------------------------------------------

// A pixel's two counts, saturated. Those whose sum is known to have reached 255 are left out.
__device__ __forceinline__ uint32_t countsToAdd(uint32_t counts, const volatile uint32_t *sums) {
    if (counts != 0 && sums)
        counts &= __vcmpltu2(*sums, 0x00ff00ff);
    return __vminu2(counts, 0x00ff00ff);
}

// Adds what a block has found to the window's accumulators, a strip of pixels per warp and plane. Zeros, such as those of the
// time bins that the part does not reach, are left out.
template<Kind KIND>
__device__ __forceinline__ void addToWindow(const TileParams &params, const TilePart &part, bool saturate,
                                            const uint32_t *cells) {
    const Tiling &tiling = params.tiling;
    const unsigned strip_bits = params.part_bits - STRIP_BITS, strips = planesOf(KIND, params.repr.channels) << strip_bits;
    const size_t plane_size = static_cast<size_t>(params.pitch) * tiling.rows;
    for (unsigned s = threadIdx.x / 32; s < strips; s += THREADS / 32) {
        const unsigned plane = s >> strip_bits, pixel = part.from + (s & ((1u << strip_bits) - 1)) * STRIP,
                       row = part.row0 + (pixel >> tiling.col_bits),
                       col = part.col0 + (pixel & ((1u << tiling.col_bits) - 1));
        if (row >= tiling.bottom || col >= tiling.cols)
            continue;
        const unsigned n = min(static_cast<unsigned>(STRIP), tiling.cols - col);
        const size_t start = plane * plane_size + static_cast<size_t>(row) * params.pitch + col;
        for (unsigned i = threadIdx.x & 31; i < n; i += 32) {
            uint32_t *sum = static_cast<uint32_t *>(params.sums) + start + i, found = cells[s * STRIP + i];
            if constexpr (KIND == HISTOGRAM)
                found = countsToAdd(found, saturate ? sum : nullptr);
            if (found == 0)
                continue;
            if constexpr (KIND == VOXEL_GRID)
                atomicAdd(static_cast<unsigned long long *>(params.sums) + start + i,
                          static_cast<unsigned long long>(static_cast<long long>(static_cast<int>(found))));
            else if constexpr (KIND == LAST_EVENT || KIND == TIME_SURFACE)
                atomicMax(sum, found);
            else
                atomicAdd(sum, countsEvents(KIND) && KIND != HISTOGRAM ? min(found, 255u) : found);
        }
    }
}

template<Kind KIND>
__global__ void __launch_bounds__(THREADS, tuning::longBlocks(KIND)) accumulateKernel(const TileParams params) {
    startInOrder();
    extern __shared__ uint4 dynamic[];
    __shared__ EventsLevels levels;
    __shared__ int crowded;
    const Representation &repr = params.repr;
    TilePart part(params);
    const Window window = params.windows[part.w];
    const unsigned runs = SortedRuns::runs(window);
    const Share share = shareOf(params, part.w, part.tile, runs);
    part.moveTo(params.tiling, share.tile);
    if (share.first == share.last || part.row0 + (part.from >> params.tiling.col_bits) >= params.tiling.bottom)
        return;
    const Target target = {reinterpret_cast<uint32_t *>(dynamic), part.pixels, part.from, &crowded};
    if (threadIdx.x == 0)
        crowded = 0;
    prepareLevels<KIND>(repr, 0, params.whole, &levels);
    clearShared(target.cells, part.pixels * planesOf(KIND, repr.channels));

    // Of the run's first event, in the whole window; a run begins at a multiple of CHUNK
    const uint32_t first_index = static_cast<uint32_t>(window.first / CHUNK * CHUNK - params.whole.first);
    if constexpr (KIND == HISTOGRAM) {
        const uint32_t flip = repr.swap ? 0 : 0x00010001; // positive comes first
        forPieces<RecordOf<KIND>>(params, part.w, part.tile, runs, share,
                                  [&](const Piece &piece) { countPiece(target, piece, flip); });
    } else if constexpr (KIND == VOXEL_GRID) {
        const auto overflow = [&](unsigned cell, long long by) {
            const Tiling &tiling = params.tiling;
            const unsigned pixel = part.from + (cell & (part.pixels - 1)), row = part.row0 + (pixel >> tiling.col_bits),
                           col = part.col0 + (pixel & ((1u << tiling.col_bits) - 1));
            const size_t at = static_cast<size_t>((cell >> params.part_bits) * tiling.rows + row) * params.pitch + col;
            atomicAdd(static_cast<unsigned long long *>(params.sums) + at, static_cast<unsigned long long>(by));
        };
        forPieces<RecordOf<KIND>>(params, part.w, part.tile, runs, share, [&](const Piece &piece) {
            sumVoxels(target, TimedEvents(target, piece, params, first_index), overflow);
        });
    } else {
        forPieces<RecordOf<KIND>>(params, part.w, part.tile, runs, share, [&](const Piece &piece) {
            const FourEvents four(target, piece, first_index);
            if constexpr (countsEvents(KIND))
                countFour<KIND>(target, four, repr, levels);
            else if constexpr (KIND == EVENT_DIFF)
                sumFour(target, four);
            else
                keepNewest<KIND>(target, four, repr);
        });
    }
    __syncthreads();
    // Sums stay below 65536: those who share a tile look before they add, and the others add once per part. If there are too
    // many parts for that, all look, and only the blocks of one group may miss each other's sums.
    const bool shared = share.first != 0 || share.last != runs;
    addToWindow<KIND>(params, part, params.saturate || shared, target.cells);
}

// ---- Accumulators to values --------------------------------------------------------------------------------------------

struct ResolveParams {
    Window window;
    unsigned rows, cols, pitch;
    const void *sums;
    Representation repr;
};

// Four bytes to any address, of which `n` exist.
__device__ inline void storeBytes(uint8_t *out, uint32_t four, unsigned n) {
    if (n == 4 && reinterpret_cast<uintptr_t>(out) % 4 == 0) {
        __stcs(reinterpret_cast<uint32_t *>(out), four);
        return;
    }
    for (unsigned i = 0; i < n; ++i)
        out[i] = static_cast<uint8_t>(four >> (8 * i));
}

// The bits of four floats to any address of floats, of which `n` exist.
__device__ inline void storeFloats(uint32_t *out, const uint4 &four, unsigned n) {
    if (n == 4 && reinterpret_cast<uintptr_t>(out) % 16 == 0)
        __stcs(reinterpret_cast<uint4 *>(out), four);
    else
        storeWords(out, four, n);
}

// A value as it is written: the bits of a float, or a byte.
template<Kind KIND>
__device__ __forceinline__ uint32_t valueOf(const ResolveParams &params, size_t pixel, unsigned plane, size_t plane_size) {
    const Representation &repr = params.repr;
    if constexpr (KIND == VOXEL_GRID) {
        return __float_as_uint(voxelValue64(static_cast<const int64_t *>(params.sums)[plane * plane_size + pixel]));
    } else if constexpr (KIND == HISTOGRAM) {
        return min(static_cast<const uint32_t *>(params.sums)[pixel] >> (16 * plane) & 0xffff, 255u);
    } else {
        const uint32_t sum = static_cast<const uint32_t *>(params.sums)[plane * plane_size + pixel];
        if constexpr (KIND == TIME_SURFACE) {
            const int64_t *t = repr.t + params.window.first, newest = repr.t[params.window.last - 1];
            return sum ? __float_as_uint(surfaceValue(repr, t[sum - 1], newest)) : 0;
        }
        return KIND == EVENT_DIFF ? static_cast<uint32_t>(max(-128, min(127, static_cast<int>(sum)))) & 255
                                  : min(sum, repr.cutoff);
    }
}

// A thread makes four values of a row, whose accumulators lie in `unit` planes.
template<Kind KIND>
__global__ void __launch_bounds__(tuning::RESOLVE_THREADS) resolveKernel(const ResolveParams params) {
    startInOrder();
    const Representation &repr = params.repr;
    const unsigned unit = accumulatorsPerPixel(KIND, repr.channels), values = params.cols * unit, quads = divUp(values, 4u);
    const size_t plane_size = static_cast<size_t>(params.pitch) * params.rows;
    const unsigned long long all = 1ull * quads * params.rows, threads = 1ull * gridDim.x * blockDim.x;
    for (unsigned long long q = 1ull * blockIdx.x * blockDim.x + threadIdx.x; q < all; q += threads) {
        const unsigned row = static_cast<unsigned>(q / quads), at = static_cast<unsigned>(q % quads) * 4,
                       n = min(4u, values - at);
        unsigned col = at / unit, plane = at % unit;
        uint32_t value[4] = {0, 0, 0, 0};
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            if (i < n)
                value[i] = valueOf<KIND>(params, static_cast<size_t>(row) * params.pitch + col, plane, plane_size);
            plane = plane + 1 < unit ? plane + 1 : 0;
            col += plane == 0;
        }
        if constexpr (KIND == TIME_SURFACE || KIND == VOXEL_GRID)
            storeFloats(rowOf(static_cast<uint32_t *>(repr.frames), repr.step, row) + at,
                        make_uint4(value[0], value[1], value[2], value[3]), n);
        else
            storeBytes(rowOf(static_cast<uint8_t *>(repr.frames), repr.step, row) + at,
                       value[0] | value[1] << 8 | value[2] << 16 | value[3] << 24, n);
    }
}

// ---- The host's side ---------------------------------------------------------------------------------------------------

struct LongKernels {
    TileKernel accumulate;
    void (*resolve)(ResolveParams); // not LAST_EVENT
};

template<Kind KIND>
LongKernels kernelsOfKind() {
    return {accumulateKernel<KIND>, resolveKernel<KIND>};
}

LongKernels kernelsOf(Kind kind) {
    switch (kind) {
    case LAST_EVENT:
        return {accumulateKernel<LAST_EVENT>, nullptr};
    case TIME_SURFACE:
        return kernelsOfKind<TIME_SURFACE>();
    case HISTOGRAM:
        return kernelsOfKind<HISTOGRAM>();
    case MDES_COUNT:
        return kernelsOfKind<MDES_COUNT>();
    case STACKED_HISTOGRAM:
        return kernelsOfKind<STACKED_HISTOGRAM>();
    case VOXEL_GRID:
        return kernelsOfKind<VOXEL_GRID>();
    default:
        return kernelsOfKind<EVENT_DIFF>();
    }
}

// Whether a pass over the window by a block per tile would take long while most of the device is idle: measured by how often
// a block would have to read 32 runs' bounds, or records with each of its threads. `windows`: how many windows of this length
// the call's events are worth, which keep the device busy together.
bool fillsFewBlocks(double events, unsigned blocks, double windows) {
    const double reads = events / (1.0 * tuning::VALUES_THREADS * CHUNK * blocks) + events / (32.0 * tuning::RUN);
    return reads > tuning::LONG_READS * windows;
}

} // namespace

cusStatus createLong(State *state) {
    CUSI_CUDA(CREATE, multiprocessors(&state->multiprocessors));
    CUSI_CUDA(CREATE, cudaFuncSetAttribute(accumulateKernel<VOXEL_GRID>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           tuning::LONG_VOXEL_CARVEOUT));
    return CUS_OK;
}

size_t accumulatorBytes(const cusEventStacker *stacker, const cusRepresentation &r) {
    const Kind kind = kindOf(r.kind);
    return size_t{planesOf(kind, static_cast<unsigned>(r.channels))} *
           (kind == VOXEL_GRID ? sizeof(uint64_t) : sizeof(uint32_t)) * accumulatorPitch(stacker) *
           static_cast<size_t>(stacker->rows);
}

bool isLong(const Batch &batch, double all_events) {
    const double events = static_cast<double>(batch.max_events);
    bool idle = true;
    for (int i = 0; i < batch.stacker->count; ++i) {
        const Kind kind = kindOf(batch.stacker->representations[i].kind);
        const unsigned bits = kind == HISTOGRAM ? tuning::HISTOGRAM_TILE : tuning::INDEXED_TILE;
        const Tiling tiling = tilingOf(batch.stacker, bits);
        SortedRuns sorted = {};
        if ((kind == HISTOGRAM ? planSort<uint16_t>(batch, tiling, &sorted) : planSort<uint32_t>(batch, tiling, &sorted)) ==
            0)
            return true;
        const unsigned part_bits = kind == HISTOGRAM || kind == LAST_EVENT ? bits : valuesPartBits(batch, i);
        idle = idle && fillsFewBlocks(events, tiling.tiles << (bits - part_bits), all_events / events);
    }
    return idle;
}

LongPlan planLong(const Batch &batch, Kind kind, const Representation &repr) {
    const State *state = batch.state;
    LongPlan plan = {};
    const unsigned bytes = planesOf(kind, repr.channels) * 4,
                   most_bits = kind == HISTOGRAM ? tuning::HISTOGRAM_TILE : tuning::INDEXED_TILE;
    unsigned part_bits = kind == HISTOGRAM ? tuning::LONG_HISTOGRAM_TILE : most_bits;
    while (size_t{bytes} << part_bits > tuning::LONG_SHARED_BYTES)
        --part_bits;
    // The smallest tiles that are not too many to sort by.
    unsigned bits = part_bits;
    for (plan.tiling = tilingOf(batch.stacker, bits);
         bits < most_bits && (plan.tiling.tiles == 0 || plan.tiling.tiles > tuning::MAX_TILES);)
        plan.tiling = tilingOf(batch.stacker, ++bits);
    plan.pass = {kernelsOf(kind).accumulate, THREADS, size_t{bytes} << part_bits, bits, part_bits, {}};
    TileParams &params = plan.pass.params;
    params.repr = repr;
    params.pitch = accumulatorPitch(batch.stacker);
    params.whole = {batch.windows.first, batch.windows.first + batch.windows.length};
    params.sums = state->accumulators;

    const unsigned tiles = std::min<unsigned>(plan.tiling.tiles, tuning::MAX_TILES), blocks = tiles << (bits - part_bits);
    const uint64_t runs = SortedRuns::mostRuns(batch.max_events),
                   capacity = kind == HISTOGRAM    ? runsThatFit<uint16_t>(tiles)
                              : kind == VOXEL_GRID ? runsThatFit<TimedRecord>(tiles)
                                                   : runsThatFit<uint32_t>(tiles);
    const unsigned multiprocessors = static_cast<unsigned>(state->multiprocessors),
                   per_group = std::clamp(multiprocessors * tuning::LONG_BLOCKS / blocks, 1u, tuning::MAX_GROUP_PARTS);
    plan.pass.helpers = std::clamp(2 * multiprocessors / per_group, tuning::MIN_HELPERS,
                                   kind == HISTOGRAM ? tuning::MIN_HELPERS : tuning::MAX_HELPERS);
    // As many groups as there must be at least, so none has more than per_group parts.
    const uint64_t groups = divUp<uint64_t>(runs, capacity),
                   parts = std::min<uint64_t>(groups * per_group, tuning::MAX_PARTS);
    plan.part_runs = std::max<uint64_t>(divUp(runs, parts), tuning::MIN_PART_RUNS);
    params.saturate = parts + per_group * (plan.pass.helpers + 1) > tuning::MAX_ADDED;
    return plan;
}

// Parts are windows of whole runs, which begin at multiples of CHUNK.
cusStatus listParts(const Batch &batch, const LongPlan &plan, Batch *parts) {
    cusEventWindow list[tuning::MAX_PARTS];
    const Window &whole = plan.pass.params.whole;
    const uint64_t length = plan.part_runs * tuning::RUN;
    *parts = batch;
    parts->count = 0;
    for (uint64_t first = whole.first; first < whole.last; first = list[parts->count++].last)
        list[parts->count] = {first, std::min<uint64_t>(whole.last, first / CHUNK * CHUNK + length)};
    parts->max_events = length - (CHUNK - 1); // fill part_runs runs wherever they begin: planSort()
    parts->whole = whole;
    parts->bins = plan.pass.params.repr.channels;
    return listWindows(batch.state, list, parts->count, batch.stream, &parts->windows);
}

cusStatus resolveWindow(const Batch &batch, int index) {
    const cusEventStacker *stacker = batch.stacker;
    const unsigned rows = static_cast<unsigned>(stacker->rows), cols = static_cast<unsigned>(stacker->cols);
    const Window window = {batch.windows.first, batch.windows.first + batch.windows.length};
    const ResolveParams params = {
        window, rows, cols, accumulatorPitch(stacker), batch.state->accumulators, representationOf(batch, index)};
    const Kind kind = kindOf(stacker->representations[index].kind);
    const uint64_t quads = uint64_t{rows} * divUp(cols * accumulatorsPerPixel(kind, params.repr.channels), 4u);
    const unsigned blocks =
        static_cast<unsigned>(std::min<uint64_t>(divUp<uint64_t>(quads, tuning::RESOLVE_THREADS), 8192));
    return launchOverlapped(STACK, kernelsOf(kind).resolve, blocks, tuning::RESOLVE_THREADS, 0, batch.stream, params);
}

} // namespace cusi::events
