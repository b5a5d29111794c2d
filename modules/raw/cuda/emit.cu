// The events of all tiles, as if none were bad: the second reading of the bytes. Events are gathered in shared memory, so that they
// are written side by side, and checked there.
#include "raw/cuda/stages.cuh"

namespace cusi::raw {

namespace {

constexpr int CHUNK = 2816; // events gathered at a time: with the bytes, 45 KB

struct Gathered {
    int64_t t[CHUNK];
    uint32_t place[CHUNK]; // y << 16 | x
    uint8_t p[CHUNK];
};

struct Shared {
    Gathered gathered;
    TileBytes bytes;
};

// Takes the events first .. first + CHUNK - 1 of the tile; the thread's begin at `at`.
struct Gather {
    Gathered &gathered;
    uint32_t at, first;
    cusEventTrigger *triggers; // of this thread; NULL: not wanted

    __device__ __forceinline__ void events(uint32_t x, uint32_t y, uint32_t p, int64_t t, uint32_t mask) {
        for (; mask; mask &= mask - 1, ++at) {
            const uint32_t i = at - first, column = x + __ffs(mask) - 1;
            if (i >= CHUNK)
                continue;
            gathered.place[i] = y << 16 | min(column, static_cast<uint32_t>(CUSI_EVT3_BEYOND));
            gathered.p[i] = static_cast<uint8_t>(p);
            gathered.t[i] = t;
        }
    }
    __device__ __forceinline__ void untimed(uint32_t) {}
    __device__ __forceinline__ void undefined(uint32_t) {}
    __device__ __forceinline__ void trigger(int64_t t, int16_t id, uint32_t value, bool timed) {
        if (timed && triggers)
            *triggers++ = {t, id, static_cast<uint8_t>(value), {}};
    }
};

// Writes `count` gathered events from `at` on; `last`: the time before them. Whether one of them is bad.
__device__ __forceinline__ bool writeEvents(const Run &run, const Gathered &gathered, size_t at, int count, int64_t last) {
    const cusEventBuffers &out = run.events;
    bool bad = false;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const uint32_t place = gathered.place[i], x = place & 0xffff, y = place >> 16, p = gathered.p[i];
        const int64_t t = gathered.t[i], before = i ? gathered.t[i - 1] : last;
        bad |= x >= run.sensor.width || y >= run.sensor.height || p > 1 || t < before;
        if (out.x)
            out.x[at + i] = static_cast<uint16_t>(x);
        if (out.y)
            out.y[at + i] = static_cast<uint16_t>(y);
        if (out.p)
            out.p[at + i] = static_cast<uint8_t>(p);
        if (out.t)
            out.t[at + i] = t;
    }
    return bad;
}

template<class Format>
__global__ void __launch_bounds__(THREADS, 4) emitKernel(const __grid_constant__ Run run) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Scans<Format> scans;
    __shared__ int64_t lower;
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    startInOrder();
    const uint32_t tile = blockIdx.x;
    const cusEventDecoderState &start = run.memory->place;
    if (tile >= tilesOf<Format>(run) || tile >= *static_cast<volatile uint32_t *>(&run.memory->bad_tile))
        return;
    const Words words = loadWords<Format>(run, tile, shared.bytes);
    const Place<Format> place = placeOf<Format>(run, tile, words, scans);
    const TileSums<Format> *sums = sumsOf<Format>(run) + tile;
    const uint32_t base = sums[0].events(start.time_high), count = sums[1].events(start.time_high) - base;
    if (threadIdx.x == 0)
        lower = max(timeOf<Format>(place.now), start.last_time);
    __syncthreads();
    int64_t last = lower;
    bool bad = false;
    for (uint32_t first = 0; first < count || first == 0; first += CHUNK) {
        Gather gather = {shared.gathered, place.event - base, first,
                         run.events.triggers && first == 0 ? run.events.triggers + place.trigger : nullptr};
        Now now = place.now;
        forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
            Format::step(now, a, b, gather);
            return true;
        });
        __syncthreads();
        const int here = static_cast<int>(min(count - first, static_cast<uint32_t>(CHUNK)));
        bad |= writeEvents(run, shared.gathered, base + first, here, last);
        if (threadIdx.x == 0 && base + first == 0 && here)
            run.memory->first_time = shared.gathered.t[0];
        last = here ? shared.gathered.t[here - 1] : last;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        run.last_times[tile] = count ? last : -1;
        const Now end = nowAfter<Format>(start, startLow<Format>(start), sums[1].segment);
        bad |= timeOf<Format>(end) < last && count; // the next tile's events would be compared with less
    }
    if (__syncthreads_or(bad) && threadIdx.x == 0)
        atomicMin(&run.memory->bad_tile, tile);
}

} // namespace

template<class Format>
cusStatus launchEmit(const char *function, const Run &run, cudaStream_t stream) {
    return launchOverlapped(function, emitKernel<Format>, run.tiles, THREADS, sizeof(Shared), stream, run);
}

#define INSTANTIATE(Format) template cusStatus launchEmit<Format>(const char *, const Run &, cudaStream_t);
RAW_FOR_EACH_FORMAT(INSTANTIATE)

} // namespace cusi::raw
