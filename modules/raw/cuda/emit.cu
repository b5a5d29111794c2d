// The second pass over the bytes writes the events of all tiles as if none were bad, and finds the first tile that has a
// bad one. Events are gathered in shared memory, so that neighboring threads write neighboring events. The kernel of a
// packet, which is read once, does the same.
#include "raw/cuda/stages.cuh"

#include <cub/warp/warp_scan.cuh>

namespace cusi::raw {

namespace {

constexpr uint32_t CHUNK = 2944;  // events gathered at a time, so that six blocks fit the 228 KB of a multiprocessor
constexpr uint32_t VECTORS = 320; // vectors in the list; most tiles have fewer

// Event i of a chunk is stored at i + shift, with shift in 0..3, so that the index modulo 4 is the same as in the output
// arrays.
constexpr uint32_t ROOM = CHUNK + 4;
struct Gathered {
    alignas(16) uint32_t place[ROOM]; // y << 16 | x
    alignas(16) int32_t before[ROOM]; // microseconds before the tile's last time; negative only if times decrease
    alignas(4) uint8_t p[ROOM];
};

// A word with several events.
struct Vector {
    uint32_t place, mask;
    int32_t before;
    int16_t at; // index of its first event
    uint16_t p;
};

struct Shared {
    Gathered gathered;
    Vector vectors[VECTORS];
    TileBytes bytes;
    uint32_t vector_count;
    uint32_t count; // events of the tile
    int64_t end;    // the time after the tile
    bool skip;      // the tile has more events or triggers than fit
};

// Stores an event in the gathered arrays. Events of neighboring chunks that land within ROOM are stored too and never
// written.
__device__ __forceinline__ void gather(Gathered &gathered, uint32_t i, uint32_t x, uint32_t y, uint32_t p, int32_t before) {
    if (i >= ROOM)
        return;
    gathered.place[i] = y << 16 | min(x, static_cast<uint32_t>(CUSI_EVT3_BEYOND));
    gathered.before[i] = before;
    gathered.p[i] = static_cast<uint8_t>(p);
}

// A sink that gathers a chunk of the tile's events; the thread's events begin at `at`. It gathers single events at once,
// which keeps the lanes of a warp together, and lists vectors for expandVectors() while there is room.
struct Gather {
    Shared &shared;
    uint32_t at; // index in Gathered
    int64_t end;
    cusEventTrigger *triggers; // where this thread's go; NULL: not wanted
    bool bad;                  // a time lies 2^31 us or more before the end

    __device__ __forceinline__ void events(uint32_t x, uint32_t y, uint32_t p, int64_t t, uint32_t mask) {
        if (!mask)
            return;
        const uint32_t i = at, first = x + __ffs(mask) - 1, n = __popc(mask);
        const auto before = static_cast<int32_t>(static_cast<uint32_t>(end) - static_cast<uint32_t>(t));
        at += n;
        if (n == 1) {
            gather(shared.gathered, i, first, y, p, before);
            return;
        }
        if (static_cast<int>(at) <= 0 || static_cast<int>(i) >= static_cast<int>(ROOM)) // all in another chunk
            return;
        const uint32_t slot = atomicAdd(&shared.vector_count, 1u);
        const Vector vector = {y << 16 | min(x, static_cast<uint32_t>(CUSI_EVT3_BEYOND)), mask, before,
                               static_cast<int16_t>(i), static_cast<uint16_t>(p)};
        if (slot < VECTORS)
            shared.vectors[slot] = vector;
        else
            expand(shared.gathered, i, x, y, p, before, mask);
    }
    static __device__ __noinline__ void expand(Gathered &gathered, uint32_t i, uint32_t x, uint32_t y, uint32_t p,
                                               int32_t before, uint32_t mask) {
        for (; mask; mask &= mask - 1)
            gather(gathered, i++, x + __ffs(mask) - 1, y, p, before);
    }
    __device__ __forceinline__ void time(int64_t t) { bad |= static_cast<uint64_t>(end - t) >> 31 != 0; }
    __device__ __forceinline__ void untimed(uint32_t) {}
    __device__ __forceinline__ void undefined(uint32_t) {}
    __device__ __forceinline__ void trigger(int64_t t, int16_t id, uint32_t value, bool timed) {
        if (timed && triggers)
            *triggers++ = {t, id, static_cast<uint8_t>(value), {}};
    }
};

__device__ __forceinline__ void expandVectors(Shared &shared) {
    for (uint32_t v = threadIdx.x; v < min(shared.vector_count, VECTORS); v += blockDim.x) {
        const Vector vector = shared.vectors[v];
        uint32_t mask = vector.mask, i = static_cast<uint32_t>(vector.at);
        for (; mask; mask &= mask - 1)
            gather(shared.gathered, i++, (vector.place & 0xffff) + __ffs(mask) - 1, vector.place >> 16, vector.p,
                   vector.before);
    }
}

template<class T>
__device__ __forceinline__ void store(T *out, size_t i, T value) {
    if (out)
        out[i] = value;
}

// Writes events j .. j + 3 of the gathered ones to `at` and on. Returns whether one of them is bad.
__device__ __forceinline__ bool writeFour(const Run &run, const Shared &shared, uint32_t j, size_t at, int32_t before) {
    const cusEventBuffers &out = run.events;
    const uint4 places = *reinterpret_cast<const uint4 *>(&shared.gathered.place[j]);
    const int4 befores = *reinterpret_cast<const int4 *>(&shared.gathered.before[j]);
    const uint32_t p = *reinterpret_cast<const uint32_t *>(&shared.gathered.p[j]);
    const uint2 x = {__byte_perm(places.x, places.y, 0x5410), __byte_perm(places.z, places.w, 0x5410)};
    const uint2 y = {__byte_perm(places.x, places.y, 0x7632), __byte_perm(places.z, places.w, 0x7632)};
    const int64_t end = shared.end;
    if (out.x)
        *reinterpret_cast<uint2 *>(out.x + at) = x;
    if (out.y)
        *reinterpret_cast<uint2 *>(out.y + at) = y;
    if (out.p)
        *reinterpret_cast<uint32_t *>(out.p + at) = p;
    if (out.t) {
        reinterpret_cast<longlong2 *>(out.t + at)[0] = {end - befores.x, end - befores.y};
        reinterpret_cast<longlong2 *>(out.t + at)[1] = {end - befores.z, end - befores.w};
    }
    const auto outside = [&](uint32_t place) {
        return (place & 0xffff) >= run.sensor.width || place >> 16 >= run.sensor.height;
    };
    return outside(places.x) | outside(places.y) | outside(places.z) | outside(places.w) | (p & 0xfefefefe) != 0 |
           before < befores.x | befores.x < befores.y | befores.y < befores.z | befores.z < befores.w;
}

// Writes the `count` gathered events, which begin at `shift`, to `at` and on. `last`: the time before them. Returns whether
// one is bad.
__device__ __forceinline__ bool writeEvents(const Run &run, const Shared &shared, size_t at, uint32_t shift, uint32_t count,
                                            int64_t last) {
    const Gathered &gathered = shared.gathered;
    bool bad = false;
    for (uint32_t four = 4 * threadIdx.x; four < shift + count; four += 4 * blockDim.x) {
        if (run.aligned && four > shift && four + 4 <= shift + count) {
            bad |= writeFour(run, shared, four, at + four - shift, gathered.before[four - 1]);
            continue;
        }
        for (uint32_t j = max(four, shift); j < min(four + 4, shift + count); ++j) {
            const uint32_t x = gathered.place[j] & 0xffff, y = gathered.place[j] >> 16, p = gathered.p[j];
            const int64_t t = shared.end - gathered.before[j];
            const size_t i = at + j - shift;
            bad |= x >= run.sensor.width || y >= run.sensor.height || p > 1 ||
                   t < (j > shift ? shared.end - gathered.before[j - 1] : last);
            store(run.events.x, i, static_cast<uint16_t>(x));
            store(run.events.y, i, static_cast<uint16_t>(y));
            store(run.events.p, i, static_cast<uint8_t>(p));
            store(run.events.t, i, t);
        }
    }
    return bad;
}

// Finds the tile's number of events, the time after it, and whether it fits. `next`: the sums of all tiles up to it. One
// thread calls it.
template<class Format>
__device__ __forceinline__ void measureTile(const Run &run, const TileSums<Format> &next, uint32_t base, Shared &shared) {
    const cusEventDecoderState &start = run.memory->place;
    shared.count = next.events(start.time_high) - base;
    shared.end = timeOf<Format>(nowAfter<Format>(start, startLow<Format>(start), next.segment));
    shared.skip = next.events(start.time_high) > run.events.capacity ||
                  (run.events.triggers && next.triggers(start.time_high) > run.events.trigger_capacity);
}

// Writes the events of a measured tile, after a barrier. Calls each(first, shift, count) when events first .. first + count
// - 1 of the tile lie in shared.gathered, from `shift` on. Returns in all threads whether the tile must be decoded again.
template<class Format, class Each>
__device__ __forceinline__ bool emitTile(const Run &run, uint32_t tile, const Words &words, const Place<Format> &place,
                                         Shared &shared, const Each &each) {
    if (__syncthreads_or(place.rare.undefined && !run.skips) || shared.skip) {
        if (threadIdx.x == 0)
            atomicMin(&run.memory->bad_tile, tile);
        return true;
    }
    const uint32_t count = shared.count;
    int64_t last = run.memory->place.last_time;
    bool bad = false;
    if (threadIdx.x == 0) // no event so far is later than the current time
        last = max(timeOf<Format>(place.now), last);
    for (uint32_t first = 0; first < count || first == 0; first += CHUNK) {
        if (threadIdx.x == 0)
            shared.vector_count = 0;
        __syncthreads();
        const uint32_t shift = (place.base + first) % 4, here = min(count - first, CHUNK);
        Gather gather = {shared, place.event - place.base - first + shift, shared.end,
                         run.events.triggers && first == 0 ? run.events.triggers + place.trigger : nullptr, false};
        Now now = place.now;
        if (now.high >= 0)
            gather.time(timeOf<Format>(now));
        forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
            Format::step(now, a, b, gather);
            return true;
        });
        __syncthreads();
        expandVectors(shared);
        __syncthreads();
        bad |= (count && gather.bad) | writeEvents(run, shared, place.base + first, shift, here, last);
        each(first, shift, here);
        last = here ? shared.end - shared.gathered.before[shift + here - 1] : last;
        if (threadIdx.x == 0 && place.base + first == 0 && here)
            run.memory->first_time = shared.end - shared.gathered.before[shift];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        run.last_times[tile] = count ? last : -1;
    bad = __syncthreads_or(bad);
    if (bad && threadIdx.x == 0)
        atomicMin(&run.memory->bad_tile, tile);
    return bad;
}

template<class Format>
__global__ void __launch_bounds__(THREADS, 6) emitKernel(const __grid_constant__ Run run) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Scans<Format> scans;
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    startInOrder();
    const uint32_t tile = blockIdx.x;
    if (tile >= tilesOf<Format>(run) || isIdle(run))
        return;
    const Words words = loadWords<Format>(run, tile, shared.bytes);
    const Place<Format> place = placeOf<Format>(run, tile, words, scans);
    if (threadIdx.x == 0)
        measureTile<Format>(run, sumsBefore<Format>(run, tile + 1), place.base, shared);
    emitTile<Format>(run, tile, words, place, shared, [](uint32_t, uint32_t, uint32_t) {});
}

// ---- A packet: one kernel in place of both passes and the scan between them. A tile's block publishes what its words do
// and reads what the blocks before it have published, writes the events, and adds them to the sums of two windows. The
// bytes are read once, so they may lie in page-locked memory. finishKernel() follows as after two passes.

template<class Format>
__device__ __forceinline__ void waitForMessage(const Packet &packet, uint32_t tile) {
    while (loadAcquire(&static_cast<const Message<Format> *>(packet.messages)[tile].number) != packet.number)
        ;
}

// Waits for the block that is AHEAD before this one. If all blocks ask for their bytes at once these come in any order, and
// blocks wait for the bytes of others. 384 KB under way are enough for the bus.
template<class Format>
__device__ __forceinline__ void waitForTurn(const Packet &packet, uint32_t tile) {
    constexpr uint32_t AHEAD = 96;
    if (tile < AHEAD)
        return;
    if (threadIdx.x == 0)
        waitForMessage<Format>(packet, tile - AHEAD);
    __syncthreads();
}

// Does what loadWords() does, from the host's memory, where a load takes 2 us. All loads of a thread are under way together.
template<class Format>
__device__ __forceinline__ Words loadPacket(const Run &run, uint32_t tile, TileBytes &bytes) {
    static_assert(TILE == 16 * PACKET_THREADS, "a load of 16 bytes for each thread");
    const uintptr_t from = reinterpret_cast<uintptr_t>(run.bytes) + static_cast<size_t>(tile) * TILE;
    const size_t left = run.size - min(run.size, static_cast<size_t>(tile) * TILE);
    if (run.memory->place.carried || from % 16)
        return loadWords<Format, PACKET_THREADS>(run, tile, bytes);
    const int size = static_cast<int>(min(left, static_cast<size_t>(TILE))), whole = size / 16, thread = threadIdx.x;
    uint4 unit = {};
    uint8_t last = 0; // of the bytes after whole units
    const int last_at = 16 * whole + thread;
    if (thread < whole)
        unit = __ldg(reinterpret_cast<const uint4 *>(from) + thread);
    if (last_at < size)
        last = *reinterpret_cast<const uint8_t *>(from + last_at);
    constexpr int FIRST = LOOKBEHIND_BYTES / 4;
    const uint32_t four[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
        bytes.at(FIRST + 4 * thread + j) = four[j];
    __syncthreads();
    if (last_at < size)
        reinterpret_cast<uint8_t *>(&bytes.at(FIRST + last_at / 4))[last_at % 4] = last;
    __syncthreads();
    return wordsOfThread<Format, PACKET_THREADS>(bytes, 0, size / Format::WORD);
}

// Returns what the words of the threads before this one do, and in `all` what those of all threads do. Every warp scans the
// sums of all warps, which takes less time than to append them in turn. A kernel may scan each type once.
template<class T>
__device__ __forceinline__ T scanPacket(const T &mine, T &all) {
    constexpr int WARPS = PACKET_THREADS / 32;
    __shared__ T sums[WARPS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    typename cub::WarpScan<T>::TempStorage of_lanes; // empty, as the other one
    typename cub::WarpScan<T, WARPS>::TempStorage of_warps;
    T upto;
    cub::WarpScan<T>(of_lanes).InclusiveScan(mine, upto, Append());
    if (lane == 31)
        sums[warp] = upto;
    const T in_warp = cub::ShuffleUp<32>(upto, 1, 0, FULL_WARP);
    __syncthreads();
    cub::WarpScan<T, WARPS>(of_warps).InclusiveScan(sums[lane % WARPS], upto, Append());
    all = cub::ShuffleIndex<WARPS>(upto, WARPS - 1, FULL_WARP);
    T before = cub::ShuffleIndex<WARPS>(upto, static_cast<int>((warp + WARPS - 1) % WARPS), FULL_WARP);
    if (warp == 0)
        before = T();
    if (lane > 0)
        before.append(in_warp);
    return before;
}

// Publishes a tile's sums for the blocks of later tiles, and returns in all threads the sums of all tiles before it. Blocks
// start in order, so those it waits for are running. The messages of earlier packets have other numbers.
template<class Format>
__device__ __forceinline__ TileSums<Format> exchange(const Packet &packet, uint32_t tile, const TileSums<Format> &own) {
    Message<Format> *messages = static_cast<Message<Format> *>(packet.messages);
    if (threadIdx.x == 0) {
        messages[tile].sums = own;
        storeRelease(&messages[tile].number, packet.number);
    }
    const uint32_t each = divUp(tile, static_cast<uint32_t>(PACKET_THREADS)), first = threadIdx.x * each;
    TileSums<Format> mine, before;
    for (uint32_t k = first; k < min(first + each, tile); ++k) {
        waitForMessage<Format>(packet, k);
        uint4 parts[sizeof(Message<Format>) / 16]; // all at once: append() asks for them one by one
#pragma unroll
        for (size_t i = 0; i < sizeof parts / 16; ++i)
            parts[i] = __ldcg(reinterpret_cast<const uint4 *>(messages + k) + i);
        Message<Format> message;
        memcpy(&message, parts, sizeof message);
        mine.append(message.sums);
    }
    scanPacket(mine, before);
    return before;
}

// Leaves the sums before each tile, and before the end, for finishKernel().
template<class Format>
__device__ __forceinline__ void keepSums(const Run &run, uint32_t tile, const TileSums<Format> &before) {
    static_cast<TileSums<Format> *>(run.sums)[tile] = before;
    if (tile % GROUP == 0)
        static_cast<TileSums<Format> *>(run.groups)[tile / GROUP] = TileSums<Format>();
}

__device__ __forceinline__ void raise(uint64_t &to, uint64_t value) {
    atomicMax(reinterpret_cast<unsigned long long *>(&to), static_cast<unsigned long long>(value));
}

// Adds `count` gathered events, from `shift` on, to the sums; the first is event `number` of the packet. A warp takes 32
// neighboring events at a time and adds those of one sum together, since atomics on one address wait for each other.
__device__ __forceinline__ void addEvents(const CusiPacketSums &sums, const Shared &shared, uint64_t number, uint32_t shift,
                                          uint32_t count) {
    const Gathered &events = shared.gathered;
    CusiPacketDone &done = *sums.done;
    const bool differs = sums.kind == CUSI_SUMS_DIFFERENCE, times = sums.kind == CUSI_SUMS_TIMES;
    const uint32_t lane = threadIdx.x % 32;
    const auto timeOf = [&](uint32_t i) { return static_cast<uint64_t>(shared.end - events.before[shift + i]); };
    const auto windowOf = [&](uint32_t i) { // 2: neither
        const uint64_t at = (sums.by_duration ? timeOf(i) : number + i) - static_cast<uint64_t>(sums.begin);
        return at < sums.lengths[0] ? 0 : at - sums.lengths[0] < sums.lengths[1] ? 1 : 2;
    };
    constexpr int AT_ONCE = 2; // neither waits for the other
    for (uint32_t from = threadIdx.x - lane; from < count; from += AT_ONCE * PACKET_THREADS) { // uniform in a warp
        uint32_t at[AT_ONCE];
        int windows[AT_ONCE];
        bool inside[AT_ONCE];
        unsigned same[AT_ONCE], positive[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const uint32_t wanted = from + lane + k * PACKET_THREADS, i = min(wanted, count - 1),
                           x = events.place[shift + i] & 0xffff, y = events.place[shift + i] >> 16, p = events.p[shift + i];
            windows[k] = wanted < count ? windowOf(i) : 3;
            inside[k] = x < sums.cols && y < sums.rows;
            at[k] = y * sums.row_sums + (differs ? x : 2 * x + (p ? sums.swap : 1 - sums.swap));
            const uint32_t id = inside[k] ? windows[k] * sums.rows * sums.row_sums + at[k] : ~0u - windows[k];
            positive[k] = __ballot_sync(FULL_WARP, p != 0);
            same[k] = __match_any_sync(FULL_WARP, windows[k] < 2 ? id : ~0u - 2);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const uint32_t i = from + lane + k * PACKET_THREADS;
            const int window = windows[k];
            if (i < count && (i + 1 == count || windowOf(i + 1) != window)) { // the last of its window so far
                if (window == 0)
                    raise(done.in_first, number + i + 1);
                if (window == 2)
                    raise(done.spoiled, 1);
                else if (times)
                    raise(done.newest[window], timeOf(i) + 1);
            }
            if (window >= 2 || lane != 31u - __clz(static_cast<int>(same[k])))
                continue;
            const int n = __popc(same[k]);
            if (!inside[k])
                atomicAdd(reinterpret_cast<unsigned long long *>(&done.outside[window]),
                          static_cast<unsigned long long>(n));
            else if (times) // the last lane has the latest time
                raise(static_cast<uint64_t *>(sums.sums[window])[at[k]], timeOf(i) + 1);
            else
                atomicAdd(static_cast<int *>(sums.sums[window]) + at[k],
                          differs ? 2 * __popc(same[k] & positive[k]) - n : n);
        }
    }
}

template<class Format>
__global__ void __launch_bounds__(PACKET_THREADS, 3)
    packetKernel(const __grid_constant__ Run run, const __grid_constant__ Packet packet) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ Scans<Format, PACKET_THREADS> scans;
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    startInOrder();
    const uint32_t tile = blockIdx.x, tiles = tilesOf<Format>(run);
    if (isIdle(run) || (tile >= tiles && tile > 0))
        return;
    if (tiles == 0) { // less than a word
        if (threadIdx.x == 0)
            keepSums<Format>(run, 0, TileSums<Format>());
        return;
    }
    waitForTurn<Format>(packet, tile);
    const Words words = loadPacket<Format>(run, tile, shared.bytes);
    Place<Format> place = {};
    bool open = false;
    forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
        Format::measure(place.segment, open, a, b, place.rare);
        return true;
    });
    TileSums<Format> own;
    const Segment<Format> earlier = scanPacket(place.segment, own.segment);
    own.rare = sumRare<PACKET_THREADS>(place.rare, place.segment.times.timed); // in thread 0
    const TileSums<Format> before = exchange<Format>(packet, tile, own);
    Segment<Format> all = before.segment;
    all.append(earlier);
    complete(place, run, before, all, scans);
    const bool adds = packet.sums.kind != CUSI_SUMS_NONE;
    if (threadIdx.x == 0) {
        TileSums<Format> next = before;
        next.append(own);
        keepSums<Format>(run, tile, before);
        if (tile + 1 == tiles)
            keepSums<Format>(run, tiles, next);
        measureTile<Format>(run, next, place.base, shared);
        if (adds && tile + 1 == tiles)
            packet.sums.done->events = place.base + shared.count;
    }
    const bool bad = emitTile<Format>(run, tile, words, place, shared, [&](uint32_t first, uint32_t shift, uint32_t count) {
        if (adds)
            addEvents(packet.sums, shared, place.base + first, shift, count);
    });
    if (bad && adds && threadIdx.x == 0)
        packet.sums.done->spoiled = 1;
}

} // namespace

template<class Format>
cusStatus launchEmit(const char *function, const Run &run, cudaStream_t stream) {
    return launchOverlapped(function, emitKernel<Format>, run.tiles, THREADS, sizeof(Shared), stream, run);
}

#define INSTANTIATE(Format) template cusStatus launchEmit<Format>(const char *, const Run &, cudaStream_t);
RAW_FOR_EACH_FORMAT(INSTANTIATE)

template<class Format>
cusStatus launchPacket(const char *function, const Run &run, const Packet &packet, cudaStream_t stream) {
    CUS_TRY(
        launchOverlapped(function, packetKernel<Format>, run.tiles, PACKET_THREADS, sizeof(Shared), stream, run, packet));
    return launchFinish<Format>(function, run, stream);
}

template cusStatus launchPacket<Evt20>(const char *, const Run &, const Packet &, cudaStream_t);
template cusStatus launchPacket<Evt3>(const char *, const Run &, const Packet &, cudaStream_t);

} // namespace cusi::raw
