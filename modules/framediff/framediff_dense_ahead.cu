// As framediff_dense.cu, for frames of whole units of which more changes, from 9.0 on where a multiprocessor has the shared memory:
// a block stays and takes tile after tile. The next tile is on its way to shared memory while the current one's entries are put in
// order, it is counted before the block waits for the counts of the tiles before the current one, which have been published for
// long by then, and the tile after it is loaded while the list is written. docs/internals/framediff.md says what that gains.
#include "framediff_dense.cuh"

#include <algorithm>

namespace framediff {
namespace {

constexpr int THREADS = tuning::AHEAD_THREADS, UNITS = tuning::DENSE_UNITS, WARPS = THREADS / 32;
constexpr unsigned TILE = THREADS * UNITS; // units
static_assert(TILE / 32 + 1 <= 32, "a lane for each row that a tile lies in, as these have 32 units or more");

struct Shared {
    uint4 cur[2][TILE], ref[2][TILE];                               // two tiles: one in use, one on its way
    uint32_t entries[bytesOfEntries(TILE * 16) / sizeof(uint32_t)]; // of the one in use
    unsigned long long arrived[2];                                  // barriers that count a tile's bytes
    unsigned tile[2];                                               // their numbers
    unsigned warp_totals[2][WARPS];                                 // entries
    unsigned added[2]; // the sum of these, and in multiples of ONE_WARP how many warps have added theirs
    unsigned sums[WARPS];
};
constexpr unsigned ONE_WARP = 1u << 24;
static_assert(TILE * 16 < ONE_WARP, "the sum of all entries");

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t sharedAddress(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void initBarrier(unsigned long long *barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(sharedAddress(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expectBytes(unsigned long long *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void waitForBytes(unsigned long long *barrier, unsigned parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(sharedAddress(barrier)),
                 "r"(parity)
                 : "memory");
}

// Starts a copy to shared memory, whose bytes the barrier counts.
__device__ __forceinline__ void startCopy(void *to, const void *from, unsigned bytes, unsigned long long *barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(to)),
        "l"(from), "r"(bytes), "r"(sharedAddress(barrier))
        : "memory");
}

// For one warp: starts to load a tile, if there is one of that number; if not, nobody will wait for bytes.
__device__ __forceinline__ void startLoading(const EncodeParams &params, unsigned tile, unsigned half, Shared &shared) {
    const unsigned lane = threadIdx.x % 32, first = tile * TILE;
    const unsigned last = tile < params.ahead_tiles ? min(first + TILE, params.units) : first;
    if (lane == 0) {
        shared.tile[half] = tile;
        expectBytes(&shared.arrived[half], (last - first) * static_cast<unsigned>(2 * sizeof(uint4)));
    }
    __syncwarp();
    const unsigned y = (params.line == params.units ? 0 : params.units_per_row.divide(first)) + lane;
    const unsigned long long row = 1ull * y * params.line, from = max(row, 0ull + first),
                             to = min(row + params.line, 0ull + last);
    if (from >= to)
        return;
    const unsigned bytes = static_cast<unsigned>((to - from) * sizeof(uint4));
    startCopy(&shared.cur[half][from - first],
              reinterpret_cast<const uint4 *>(params.cur) + from + static_cast<size_t>(y) * params.cur_gap, bytes,
              &shared.arrived[half]);
    startCopy(&shared.ref[half][from - first],
              reinterpret_cast<const uint4 *>(params.ref) + from + static_cast<size_t>(y) * params.ref_gap, bytes,
              &shared.arrived[half]);
}

// The place in a tile of a lane's unit j: they are 32 apart.
__device__ __forceinline__ unsigned placeOf(int j) {
    return (threadIdx.x / 32 * UNITS + j) * 32 + threadIdx.x % 32;
}

// For one thread of a block: the number of a tile that no block has taken. A block draws one tile if there are no more than blocks,
// else until none is left; the last draw of all sets the counter back to 0. The number is on its way until it is used: with
// atomicAdd() the thread would wait for it, as the compiler adds up what a warp's lanes add.
__device__ __forceinline__ unsigned drawTile(const EncodeParams &params) {
    const unsigned tiles = params.ahead_tiles, draws = tiles > gridDim.x ? tiles + gridDim.x : tiles;
    return atomicInc(&params.state->ahead_drawn, draws - 1);
}

#endif

// A block counts its next tile before it waits, and then only for tiles that were drawn before its own, by blocks that run: none
// waits for itself, and whatever else the GPU does, they finish.
template<bool FILTER_OR_MASK>
__global__ void __launch_bounds__(THREADS, tuning::AHEAD_BLOCKS_PER_SM) denseAheadKernel(const EncodeParams params) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char dynamic[];
    Shared &shared = *reinterpret_cast<Shared *>(dynamic);
    const unsigned tiles = params.ahead_tiles, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x < 2) {
        initBarrier(&shared.arrived[threadIdx.x]);
        shared.added[threadIdx.x] = 0;
    }
    cusi::startInOrder();
    const unsigned long long frame = cusi::loadRelaxed(&params.state->ahead_frame) << 34;
    const bool several = tiles > gridDim.x;
    unsigned drawn = 0; // warp 0: the last tile that it drew
    if (warp == 0) {
        __syncwarp();
        for (unsigned half = 0; half < 2; ++half) {
            const bool draws = half == 0 || (several && drawn < tiles);
            if (lane == 0 && draws)
                drawn = drawTile(params);
            drawn = __shfl_sync(cusi::FULL_WARP, drawn, 0);
            startLoading(params, draws ? drawn : tiles, half, shared);
        }
    }
    __syncthreads();

    // Finds the bytes to be sent and their ranks in the warp. The last warp publishes the number of entries.
    unsigned bits[UNITS], rank[UNITS];
    const auto examine = [&](unsigned tile, unsigned half, unsigned parity) {
        waitForBytes(&shared.arrived[half], parity);
#pragma unroll
        for (int j = 0; j < UNITS; ++j) {
            const unsigned place = placeOf(j), unit = tile * TILE + place;
            bits[j] = 0;
            if (tile < tiles && unit < params.units) {
                bits[j] = bytesToSend<FILTER_OR_MASK>(params, unit, shared.cur[half][place], shared.ref[half][place]);
                if (FILTER_OR_MASK)
                    storeMask(params, unit, bits[j]);
            }
        }
        const unsigned total = rankUnits(bits, rank);
        if (lane == 0) {
            shared.warp_totals[half][warp] = total;
            const unsigned all = atomicAdd(&shared.added[half], ONE_WARP + total) + ONE_WARP + total;
            if (all / ONE_WARP == WARPS) {
                shared.added[half] = 0;
                if (tile < tiles)
                    cusi::storeRelaxed(params.ahead_status + tile, frame | TILE_COUNT | all % ONE_WARP);
            }
        }
    };

    unsigned tile = shared.tile[0];
    examine(tile, 0, 0);
    unsigned known = 0, before = 0; // entries in the tiles before number `known`
    for (unsigned round = 0; tile < tiles; ++round) {
        const unsigned half = round % 2;
        // On their way during what follows: the counts of the tiles since the block's last one, and another draw.
        unsigned long long word = frame;
        const unsigned at = known + threadIdx.x;
        if (at < tile)
            word = cusi::loadRelaxed(params.ahead_status + at);
        if (threadIdx.x == 0 && several && drawn < tiles)
            drawn = drawTile(params);

        __syncthreads(); // all warps have counted, and the previous list has been written
        const unsigned of_lane = lane < WARPS ? shared.warp_totals[half][lane] : 0;
        const unsigned total = cusi::warpSum(of_lane), warp_before = cusi::warpSum(lane < warp ? of_lane : 0u);
#pragma unroll
        for (int j = 0; j < UNITS; ++j) {
            const unsigned place = placeOf(j);
            const uint4 cur = shared.cur[half][place], ref = shared.ref[half][place];
            stageUnit(bits[j], cur, ref, place * 16, warp_before + rank[j], shared.entries);
            if (bits[j])
                updateReference<true>(params, tile * TILE + place, cur, ref, bits[j]);
        }
        __syncthreads(); // the tile has been read
        if (warp == 0) {
            drawn = __shfl_sync(cusi::FULL_WARP, drawn, 0);
            startLoading(params, drawn, half, shared);
        }
        const unsigned next = shared.tile[half ^ 1];
        examine(next, half ^ 1, (round + 1) / 2 % 2); // so often has that half been loaded before

        unsigned sum = 0;
        for (unsigned n = at; n < tile; n += THREADS) {
            if (n != at)
                word = cusi::loadRelaxed(params.ahead_status + n);
            while ((word & ~(TILE_STATE | 0xffffffffull)) != frame)
                word = cusi::loadRelaxed(params.ahead_status + n);
            sum += static_cast<unsigned>(word);
        }
        sum = cusi::warpSum(sum);
        if (lane == 0)
            shared.sums[warp] = sum;
        __syncthreads();
        before += cusi::warpSum(lane < WARPS ? shared.sums[lane] : 0u);
        if (threadIdx.x == 0 && tile == tiles - 1) { // the blocks of all tiles have read the frame's number
            *params.count = before + total;
            params.state->ahead_frame = (frame >> 34) + 1;
            // Always: frames before this one, of which less changed, may have written while later ones were queued.
            *params.dense_hint = before + total > params.ahead_from ? 2 : before + total > params.dense_from;
        }
        writeList<THREADS>(params, shared.entries, before, tile * (TILE * 16), static_cast<int>(total));
        before += total;
        known = tile + 1;
        tile = next;
    }
#endif
}

using AheadKernel = void (*)(EncodeParams);
AheadKernel aheadKernelFor(bool filter_or_mask) {
    return filter_or_mask ? denseAheadKernel<true> : denseAheadKernel<false>;
}

} // namespace

unsigned aheadTiles(unsigned units) {
    return cusi::divUp(units, TILE);
}

cusStatus prepareAheadKernels(const char *function, unsigned *blocks) {
    int device = 0, shared_limit = 0, sms = 0, resident = 0;
    *blocks = 0;
    CUSI_CUDA(function, cudaGetDevice(&device));
    CUSI_CUDA(function, cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    cudaFuncAttributes compiled = {};
    CUSI_CUDA(function, cudaFuncGetAttributes(&compiled, aheadKernelFor(false)));
    if (compiled.ptxVersion < 90 || static_cast<size_t>(shared_limit) < sizeof(Shared))
        return CUS_OK;
    for (bool filter_or_mask : {false, true}) {
        const AheadKernel kernel = aheadKernelFor(filter_or_mask);
        CUSI_CUDA(function, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(sizeof(Shared))));
        CUSI_CUDA(function, cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                 cudaSharedmemCarveoutMaxShared));
    }
    CUSI_CUDA(function,
              cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, aheadKernelFor(false), THREADS, sizeof(Shared)));
    CUSI_CUDA(function, cusi::multiprocessors(&sms));
    if (resident >= tuning::AHEAD_BLOCKS_PER_SM)
        *blocks = static_cast<unsigned>(resident * sms);
    return CUS_OK;
}

cusStatus launchAhead(const EncodeParams &params, unsigned blocks, cudaStream_t stream) {
    return cusi::launchOverlapped("cusDiffEncode", aheadKernelFor(params.changed || params.mask),
                                  std::min(blocks, params.ahead_tiles), THREADS, sizeof(Shared), stream, params);
}

} // namespace framediff
