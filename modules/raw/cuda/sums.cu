// The first pass over the bytes finds what each tile's words do; a scan then finds what all tiles before each tile do.
#include "raw/cuda/stages.cuh"

namespace cusi::raw {

namespace {

// EVT4: finds whether EVEN or ODD many words like vectors end each tile, or ALL are.
__global__ void __launch_bounds__(THREADS) runsKernel(const __grid_constant__ Run run) {
    __shared__ TileBytes bytes;
    __shared__ MaxScan::TempStorage storage;
    startInOrder();
    const uint32_t tile = blockIdx.x;
    if (tile >= tilesOf<Evt4>(run))
        return;
    const Words words = loadWords<Evt4>(run, tile, bytes);
    int last;
    lastOther(words, storage, last);
    const int count =
        static_cast<int>(min(wordsOf<Evt4>(run) - static_cast<size_t>(tile) * (TILE / 4), static_cast<size_t>(TILE / 4)));
    if (threadIdx.x == 0)
        run.runs[tile] = last < 0 ? ALL : (count - 1 - last) % 2 ? ODD : EVEN;
}

template<class Format>
__global__ void __launch_bounds__(THREADS) sumsKernel(const __grid_constant__ Run run) {
    using Reduce = cub::BlockReduce<Segment<Format>, THREADS, cub::BLOCK_REDUCE_RAKING>;
    __shared__ TileBytes bytes;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        MaxScan::TempStorage max;
    } storage;
    startInOrder();
    const uint32_t tile = blockIdx.x;
    if (tile >= tilesOf<Format>(run))
        return;
    const Words words = loadWords<Format>(run, tile, bytes);
    bool open = false;
    if constexpr (std::is_same_v<Format, Evt4>) {
        open = startsOpen(run, tile, words, storage.max);
        __syncthreads();
    }
    TileSums<Format> sums;
    RareWords rare;
    forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
        Format::measure(sums.segment, open, a, b, rare);
        return true;
    });
    const size_t end = static_cast<size_t>(tile) * (TILE / Format::WORD) + words.first + words.count;
    if (open && words.count && end == wordsOf<Format>(run))
        run.memory->ends_open = 1;
    const uint32_t timed = sums.segment.times.timed;
    sums.segment = Reduce(storage.reduce).Reduce(sums.segment, Append());
    sums.rare = sumRare<THREADS>(rare, timed);
    if (threadIdx.x == 0)
        static_cast<TileSums<Format> *>(run.sums)[tile] = sums;
}

// Each block scans the sums of a group, a tile a thread. The last block to finish scans those of the groups.
template<class Format>
__global__ void __launch_bounds__(GROUP) scanKernel(const __grid_constant__ Run run) {
    using Scan = cub::BlockScan<TileSums<Format>, GROUP, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage storage;
    __shared__ TileSums<Format> before;
    __shared__ bool last;
    startInOrder();
    TileSums<Format> *sums = static_cast<TileSums<Format> *>(run.sums),
                     *groups = static_cast<TileSums<Format> *>(run.groups);
    const uint32_t tiles = tilesOf<Format>(run), i = blockIdx.x * GROUP + threadIdx.x;
    // The entry after the last tile gets the sums of all tiles.
    TileSums<Format> mine, sum;
    if (i < tiles)
        mine = sums[i];
    Scan(storage).ExclusiveScan(mine, sum, TileSums<Format>(), Append());
    if (i <= tiles)
        sums[i] = sum;
    if (threadIdx.x == GROUP - 1) {
        sum.append(mine);
        groups[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(&run.memory->scanned, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    if (threadIdx.x == 0) {
        run.memory->scanned = 0;
        before = TileSums<Format>();
    }
    for (uint32_t first = 0; first < gridDim.x; first += GROUP) {
        __syncthreads();
        TileSums<Format> group;
        if (first + threadIdx.x < gridDim.x)
            group = groups[first + threadIdx.x];
        const TileSums<Format> start = before;
        __syncthreads();
        Scan(storage).ExclusiveScan(group, sum, start, Append());
        if (first + threadIdx.x < gridDim.x)
            groups[first + threadIdx.x] = sum;
        if (threadIdx.x == GROUP - 1) {
            sum.append(group);
            before = sum;
        }
    }
}

} // namespace

cusStatus launchRuns(const char *function, const Run &run, cudaStream_t stream) {
    return launchOverlapped(function, runsKernel, run.tiles, THREADS, 0, stream, run);
}

template<class Format>
cusStatus launchSums(const char *function, const Run &run, cudaStream_t stream) {
    CUS_TRY(launchOverlapped(function, sumsKernel<Format>, run.tiles, THREADS, 0, stream, run));
    return launchOverlapped(function, scanKernel<Format>, run.tiles / GROUP + 1, GROUP, 0, stream, run);
}

#define INSTANTIATE(Format) template cusStatus launchSums<Format>(const char *, const Run &, cudaStream_t);
RAW_FOR_EACH_FORMAT(INSTANTIATE)

} // namespace cusi::raw
