// The events of all tiles, as if none were bad: the second reading of the bytes. Events are gathered in shared memory, so that they
// are written side by side, and checked there.
#include "raw/cuda/stages.cuh"

namespace cusi::raw {

namespace {

constexpr uint32_t CHUNK = 2816;  // events gathered at a time
constexpr uint32_t VECTORS = 384; // listed; most tiles have fewer

struct Gathered {
    uint32_t place[CHUNK];  // y << 16 | x
    uint32_t before[CHUNK]; // microseconds before the tile's end
    uint8_t p[CHUNK];
};

// Several events of a word.
struct Vector {
    uint32_t place, before, mask;
    int16_t at; // its first event
    uint16_t p;
};

struct Shared {
    Gathered gathered;
    Vector vectors[VECTORS];
    TileBytes bytes;
    uint32_t vector_count;
    uint32_t count; // of the tile's events
    int64_t end;    // the time after the tile
    bool skip;      // it has more than fits
};

__device__ __forceinline__ void gather(Gathered &gathered, uint32_t i, uint32_t x, uint32_t y, uint32_t p,
                                       uint32_t before) {
    if (i >= CHUNK)
        return;
    gathered.place[i] = y << 16 | min(x, static_cast<uint32_t>(CUSI_EVT3_BEYOND));
    gathered.before[i] = before;
    gathered.p[i] = static_cast<uint8_t>(p);
}

// Takes the events first .. first + CHUNK - 1 of the tile; the thread's begin at `at`. Words with one event are gathered at once, so
// that the lanes of a warp stay together; vectors are listed, as far as there is room.
struct Gather {
    Shared &shared;
    uint32_t at; // less `first`
    int64_t end;
    cusEventTrigger *triggers; // of this thread; NULL: not wanted
    bool bad;                  // a time that 32 bits before the end do not reach

    __device__ __forceinline__ void events(uint32_t x, uint32_t y, uint32_t p, int64_t t, uint32_t mask) {
        if (!mask)
            return;
        const uint32_t i = at, first = x + __ffs(mask) - 1, n = __popc(mask);
        const auto before = static_cast<uint32_t>(end - t);
        bad |= end - t != before;
        at += n;
        if (n == 1) {
            gather(shared.gathered, i, first, y, p, before);
            return;
        }
        if (static_cast<int>(at) <= 0 || static_cast<int>(i) >= static_cast<int>(CHUNK)) // in another chunk
            return;
        const uint32_t slot = atomicAdd(&shared.vector_count, 1u);
        const Vector vector = {y << 16 | min(x, static_cast<uint32_t>(CUSI_EVT3_BEYOND)), before, mask,
                               static_cast<int16_t>(i), static_cast<uint16_t>(p)};
        if (slot < VECTORS)
            shared.vectors[slot] = vector;
        else
            expand(shared.gathered, i, x, y, p, before, mask);
    }
    static __device__ __noinline__ void expand(Gathered &gathered, uint32_t i, uint32_t x, uint32_t y, uint32_t p,
                                               uint32_t before, uint32_t mask) {
        for (; mask; mask &= mask - 1)
            gather(gathered, i++, x + __ffs(mask) - 1, y, p, before);
    }
    __device__ __forceinline__ void untimed(uint32_t) {}
    __device__ __forceinline__ void undefined(uint32_t) {}
    __device__ __forceinline__ void trigger(int64_t t, int16_t id, uint32_t value, bool timed) {
        if (timed && triggers)
            *triggers++ = {t, id, static_cast<uint8_t>(value), {}};
    }
};

__device__ __forceinline__ void expandVectors(Shared &shared) {
    for (uint32_t v = threadIdx.x; v < min(shared.vector_count, VECTORS); v += THREADS) {
        const Vector vector = shared.vectors[v];
        uint32_t mask = vector.mask, i = static_cast<uint32_t>(vector.at);
        for (; mask; mask &= mask - 1)
            gather(shared.gathered, i++, (vector.place & 0xffff) + __ffs(mask) - 1, vector.place >> 16, vector.p,
                   vector.before);
    }
}

// Writes `count` gathered events from `at` on; `last`: the time before them. Whether one of them is bad.
__device__ __forceinline__ bool writeEvents(const Run &run, const Shared &shared, size_t at, uint32_t count, int64_t last) {
    const Gathered &gathered = shared.gathered;
    const cusEventBuffers &out = run.events;
    const int64_t end = shared.end;
    bool bad = false;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        const uint32_t place = gathered.place[i], x = place & 0xffff, y = place >> 16, p = gathered.p[i];
        const uint32_t before = gathered.before[i];
        const int64_t t = end - before;
        bad |= x >= run.sensor.width || y >= run.sensor.height || p > 1 || (i ? gathered.before[i - 1] < before : t < last);
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

// The tile's number of events, the time after it, and whether all of it fits. By one thread.
template<class Format>
__device__ __forceinline__ void measureTile(const Run &run, uint32_t tile, uint32_t base, Shared &shared) {
    const cusEventDecoderState &start = run.memory->place;
    const TileSums<Format> next = sumsBefore<Format>(run, tile + 1);
    shared.count = next.events(start.time_high) - base;
    shared.end = timeOf<Format>(nowAfter<Format>(start, startLow<Format>(start), next.segment));
    shared.skip = next.events(start.time_high) > run.events.capacity ||
                  (run.events.triggers && next.triggers(start.time_high) > run.events.trigger_capacity);
}

template<class Format>
__global__ void __launch_bounds__(THREADS, 7) emitKernel(const __grid_constant__ Run run) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Scans<Format> scans;
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    startInOrder();
    const uint32_t tile = blockIdx.x;
    const cusEventDecoderState &start = run.memory->place;
    if (tile >= tilesOf<Format>(run) || run.memory->is_full || run.memory->last.status == CUS_ERROR_FORMAT)
        return;
    const Words words = loadWords<Format>(run, tile, shared.bytes);
    const Place<Format> place = placeOf<Format>(run, tile, words, scans);
    if (threadIdx.x == 0)
        measureTile<Format>(run, tile, place.base, shared);
    if (__syncthreads_or(place.rare.undefined && !run.skips) || shared.skip) {
        if (threadIdx.x == 0)
            atomicMin(&run.memory->bad_tile, tile);
        return;
    }
    const uint32_t count = shared.count;
    int64_t last = start.last_time;
    bool bad = false;
    if (threadIdx.x == 0) // no event so far is later
        last = max(timeOf<Format>(place.now), last);
    for (uint32_t first = 0; first < count || first == 0; first += CHUNK) {
        if (threadIdx.x == 0)
            shared.vector_count = 0;
        __syncthreads();
        Gather gather = {shared, place.event - place.base - first, shared.end,
                         run.events.triggers && first == 0 ? run.events.triggers + place.trigger : nullptr, false};
        Now now = place.now;
        forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
            Format::step(now, a, b, gather);
            return true;
        });
        __syncthreads();
        expandVectors(shared);
        __syncthreads();
        const uint32_t here = min(count - first, CHUNK);
        bad |= gather.bad | writeEvents(run, shared, place.base + first, here, last);
        last = here ? shared.end - shared.gathered.before[here - 1] : last;
        if (threadIdx.x == 0 && place.base + first == 0 && here)
            run.memory->first_time = shared.end - shared.gathered.before[0];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        run.last_times[tile] = count ? last : -1;
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
