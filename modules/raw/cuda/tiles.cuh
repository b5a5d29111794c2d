// A tile is what one block decodes: its bytes, each thread's words, and the state before them.
#ifndef CUSI_RAW_CUDA_TILES_CUH
#define CUSI_RAW_CUDA_TILES_CUH

#include "cuda.cuh"
#include "raw/backend.h"
#include "raw/cuda/formats.cuh"

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

namespace cusi::raw {

constexpr int TILE = 4096; // bytes of a block
// Threads of a block. A packet's have fewer words each and are done sooner, while few blocks are on the device.
constexpr int THREADS = 128, PACKET_THREADS = 256;
constexpr int LOOKBEHIND_BYTES = 4; // loaded before a tile: in EVT4 the head of a vector whose mask is the first word
constexpr uint32_t NO_TILE = ~0u;

// What a decoder keeps in device memory between runs.
struct Memory {
    cusEventDecoderState place;
    cusEventCounts counts;
    cusEventDecoded last;
    uint32_t ends_open; // EVT4: the last word of the run is a vector without its mask
    uint32_t is_full;   // the last run ended with CAPACITY, and check() has not been called since
    uint32_t scanned;   // groups that scanKernel() has finished in this run
    uint32_t bad_tile;  // first tile with a bad event or word, or with more than fits; else NO_TILE
    int64_t first_time; // time of the run's first event
};

// What a tile's words do; after scanKernel() what the words of all tiles before it in its group do.
template<class Format>
struct TileSums {
    Segment<Format> segment;
    RareWords rare;
    __device__ __forceinline__ void append(const TileSums &b) {
        rare.early_triggers = segment.times.timed ? rare.early_triggers : rare.triggers + b.rare.early_triggers;
        rare.triggers += b.rare.triggers;
        rare.rising += b.rare.rising;
        rare.undefined += b.rare.undefined;
        segment.append(b.segment);
    }
    // Count events and triggers with a time. Early ones have one only if the decoder starts with a time (`high` >= 0).
    __device__ __forceinline__ uint32_t events(int64_t high) const {
        return segment.times.events - (high < 0 ? segment.times.earlyEvents() : 0);
    }
    __device__ __forceinline__ uint32_t triggers(int64_t high) const {
        return rare.triggers - (high < 0 ? (segment.times.timed ? rare.early_triggers : rare.triggers) : 0);
    }
};

constexpr uint32_t GROUP = 256; // tiles of a group, which one block scans

// The arguments of a run's kernels.
struct Run {
    Memory *memory;
    void *sums;          // a TileSums for each tile; after the scan that of the tiles before it in its group
    void *groups;        // a TileSums for each group; after the scan that of the groups before it
    uint8_t *runs;       // EVT4: how many words that look like vectors end each tile: EVEN, ODD or ALL
    int64_t *last_times; // time of each tile's last event; -1: no event
    const uint8_t *bytes;
    size_t size;
    uint32_t tiles; // upper bound
    cusEventBuffers events;
    cusEventDecoded *decoded;
    CusiSensor sensor;
    bool skips;   // drop bad events and undefined words
    bool aligned; // four events can be written at once to each array
};
enum { EVEN, ODD, ALL };

// What a tile of a packet publishes for the tiles behind it; complete once `number` is the packet's.
template<class Format>
struct alignas(16) Message {
    TileSums<Format> sums;
    unsigned long long number;
};
// The arguments of a packet's kernel, beside those of a run.
struct Packet {
    void *messages;            // a Message for each tile
    unsigned long long number; // of the packet, from 1
    CusiPacketSums sums;
};

// Returns whether runs do nothing, after one that ended with CAPACITY or FORMAT.
__device__ __forceinline__ bool isIdle(const Run &run) {
    return run.memory->is_full || run.memory->last.status == CUS_ERROR_FORMAT;
}
// Returns the size of the input: the bytes that the last piece left, then the piece.
__device__ __forceinline__ size_t inputSize(const Run &run) {
    return run.memory->place.carried + run.size;
}
template<class Format>
__device__ __forceinline__ size_t wordsOf(const Run &run) {
    return inputSize(run) / Format::WORD;
}
__device__ __forceinline__ uint8_t byteAt(const Run &run, size_t i) {
    const cusEventDecoderState &place = run.memory->place;
    return i < place.carried ? place.carry[i] : run.bytes[i - place.carried];
}

// A padding word after every 32 avoids bank conflicts when lanes read words that are 8 apart.
struct TileBytes {
    static constexpr int WORDS = (LOOKBEHIND_BYTES + TILE) / 4 + 8;
    uint32_t words[WORDS + WORDS / 32 + 1];
    __device__ __forceinline__ uint32_t &at(int i) { return words[i + i / 32]; }
};

// The words of the tile that a thread handles.
struct Words {
    TileBytes *bytes;
    int at;    // 32-bit word that holds the byte LOOKBEHIND_BYTES before the first
    int shift; // bits of that word before this byte
    int count; // in words of the format
    int first; // index in the tile, in words of the format
};
template<class Format, int COUNT>
constexpr int WORDS = TILE / COUNT / Format::WORD; // words of one of COUNT threads

// Calls each(k, a, b) for the thread's words until it returns false. For 32-bit words `b` is the word before.
template<class Format, class Each>
__device__ __forceinline__ void forEachWord(const Words &words, const Each &each) {
    constexpr int WORD = Format::WORD, STEP = WORD == 8 ? 2 : 1;
    uint32_t here = words.bytes->at(words.at + 1), before = __funnelshift_r(words.bytes->at(words.at), here, words.shift);
    const auto next = [&](int i) {
        const uint32_t last = here;
        here = words.bytes->at(words.at + 2 + i);
        return __funnelshift_r(last, here, words.shift);
    };
#pragma unroll 1
    for (int i = 0;; i += STEP) {
        const int k = i * 4 / WORD;
        if (k >= words.count)
            return;
        const uint32_t value = next(i);
        if (WORD == 2) {
            if (!each(k, value & 0xffff, 0) || k + 1 >= words.count || !each(k + 1, value >> 16, 0))
                return;
        } else if (!each(k, value, WORD == 8 ? next(i + 1) : before)) {
            return;
        }
        before = value;
    }
}

// Returns the thread's words of `count` that begin `offset` bytes after LOOKBEHIND_BYTES.
template<class Format, int COUNT>
__device__ __forceinline__ Words wordsOfThread(TileBytes &bytes, int offset, int count) {
    const int thread = static_cast<int>(threadIdx.x), first = thread * WORDS<Format, COUNT>;
    return {&bytes, thread * (TILE / COUNT / 4) + offset / 4, 8 * (offset % 4),
            max(0, min(count - first, WORDS<Format, COUNT>)), first};
}

// Loads the tile of a block of COUNT threads. Reads nothing outside the piece, and 16 bytes at a time where all of them lie
// inside.
template<class Format, int COUNT = THREADS>
__device__ __forceinline__ Words loadWords(const Run &run, uint32_t tile, TileBytes &bytes) {
    const uint32_t carried = run.memory->place.carried;
    const size_t start = static_cast<size_t>(tile) * TILE, total = carried + run.size;
    const int wanted = static_cast<int>(min(total - min(total, start), static_cast<size_t>(TILE))) + LOOKBEHIND_BYTES;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(run.bytes), end = begin + run.size;
    const uintptr_t from = begin + start - LOOKBEHIND_BYTES - carried; // address of the first byte wanted
    const int offset = static_cast<int>(from % 16);
    for (int i = threadIdx.x; 16 * i < offset + wanted; i += COUNT) {
        const uintptr_t at = from - offset + 16 * static_cast<uintptr_t>(i);
        uint32_t four[4] = {};
        if (at >= begin && at + 16 <= end) {
            const uint4 loaded = __ldg(reinterpret_cast<const uint4 *>(at));
            four[0] = loaded.x, four[1] = loaded.y, four[2] = loaded.z, four[3] = loaded.w;
        } else {
            for (int j = 0; j < 16; ++j)
                if (at + j >= begin && at + j < end)
                    four[j / 4] |= static_cast<uint32_t>(*reinterpret_cast<const uint8_t *>(at + j)) << 8 * (j % 4);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
            bytes.at(4 * i + j) = four[j];
    }
    __syncthreads();
    if (tile == 0 && carried && threadIdx.x == 0)
        for (uint32_t i = 0; i < carried; ++i) {
            const uint32_t at = offset + LOOKBEHIND_BYTES + i, shift = 8 * (at % 4);
            uint32_t &word = bytes.at(static_cast<int>(at / 4));
            word = (word & ~(0xffu << shift)) | static_cast<uint32_t>(run.memory->place.carry[i]) << shift;
        }
    __syncthreads();
    return wordsOfThread<Format, COUNT>(bytes, offset, (wanted - LOOKBEHIND_BYTES) / Format::WORD);
}

template<class Format>
__device__ __forceinline__ uint32_t tilesOf(const Run &run) {
    return static_cast<uint32_t>(divUp(wordsOf<Format>(run) * Format::WORD, static_cast<size_t>(TILE)));
}
// Returns the sums of all tiles before `tile`, which may be one past the last.
template<class Format>
__device__ __forceinline__ TileSums<Format> sumsBefore(const Run &run, uint32_t tile) {
    TileSums<Format> sums = static_cast<const TileSums<Format> *>(run.groups)[tile / GROUP];
    sums.append(static_cast<const TileSums<Format> *>(run.sums)[tile]);
    return sums;
}

// ---- EVT4: which words are masks

// After a word that does not look like a vector's head, words that do are heads and masks in turn. For each thread, returns
// where in the tile the last word that does not lies before its words; -1 if there is none.
using MaxScan = cub::BlockScan<int, THREADS>;
__device__ __forceinline__ int lastOther(const Words &words, MaxScan::TempStorage &storage, int &of_tile) {
    int last = -1;
    forEachWord<Evt4>(words, [&](int k, uint32_t a, uint32_t) {
        last = cusi_isEvt4Vector(a) ? last : words.first + k;
        return true;
    });
    int before;
    MaxScan(storage).ExclusiveScan(
        last, before, -1, [](int a, int b) { return max(a, b); }, of_tile);
    return before;
}

// Returns whether the thread's first word is a mask. Searches backward for a tile that does not consist of words like
// vectors alone.
__device__ __forceinline__ bool startsOpen(const Run &run, uint32_t tile, const Words &words,
                                           MaxScan::TempStorage &storage) {
    __shared__ bool tile_open;
    if (threadIdx.x < 32) {
        bool odd = false;
        for (int64_t end = tile; end > 0; end -= 32) {
            const int64_t mine = end - 1 - static_cast<int64_t>(threadIdx.x);
            const int found = mine >= 0 ? run.runs[mine] : EVEN;
            const unsigned others = __ballot_sync(FULL_WARP, found != ALL);
            if (others) { // tiles between have an even number of words, so their count does not matter
                odd = __shfl_sync(FULL_WARP, found, __ffs(others) - 1) == ODD;
                break;
            }
        }
        if (threadIdx.x == 0)
            tile_open = odd;
    }
    int whole;
    const int last = lastOther(words, storage, whole);
    __syncthreads();
    return last >= 0 ? (words.first - 1 - last) % 2 : (words.first + tile_open) % 2;
}

// Sums the rare words of all COUNT threads, for thread 0. Triggers before the tile's first time word are early.
template<int COUNT>
__device__ __forceinline__ RareWords sumRare(const RareWords &mine, bool timed) {
    using Reduce = cub::BlockReduce<uint32_t, COUNT>;
    __shared__ typename Reduce::TempStorage storage;
    __shared__ int first_timed;
    RareWords sum;
    if (!__syncthreads_or(mine.any()))
        return sum;
    if (threadIdx.x == 0)
        first_timed = COUNT;
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.x);
    if (timed)
        atomicMin(&first_timed, thread);
    __syncthreads();
    const auto add = [&](uint32_t value) {
        const uint32_t all = Reduce(storage).Sum(value);
        __syncthreads();
        return all;
    };
    sum.early_triggers = add(thread < first_timed ? mine.triggers : thread == first_timed ? mine.early_triggers : 0);
    sum.triggers = add(mine.triggers);
    sum.rising = add(mine.rising);
    sum.undefined = add(mine.undefined);
    return sum;
}

// ---- The state before a thread's words

// Returns the lower bits of the current time at the end of the earlier pieces.
template<class Format>
__device__ __forceinline__ uint32_t startLow(const cusEventDecoderState &place) {
    if (Format::HAS_ROWS)
        return place.time_low;
    return place.last_time >= 0 && place.last_time >> Format::LOW_BITS == place.time_high
               ? static_cast<uint32_t>(place.last_time & ((1 << Format::LOW_BITS) - 1))
               : 0;
}

// Shared memory for the scans of placeOf(), or of a packet's.
template<class Format, int COUNT = THREADS>
struct Scans {
    using Scan = cub::BlockScan<Segment<Format>, COUNT, cub::BLOCK_SCAN_WARP_SCANS>;
    using Sum = cub::BlockScan<uint32_t, COUNT>;
    union {
        typename Scan::TempStorage scan;
        typename Sum::TempStorage sum;
        MaxScan::TempStorage max;
    };
};

// What a thread's words do, and the state and the counts of events and triggers before them.
template<class Format>
struct Place {
    Segment<Format> segment;
    RareWords rare;
    Now now;
    uint32_t base;           // events of the run before the tile
    uint32_t event, trigger; // events and triggers with a time before the thread's words
};

// Completes a place whose segment and rare words are set. `before`: the sums of all tiles before; `earlier`: what all words
// before the thread's do.
template<class Format, int COUNT>
__device__ __forceinline__ void complete(Place<Format> &place, const Run &run, const TileSums<Format> &before,
                                         const Segment<Format> &earlier, Scans<Format, COUNT> &scans) {
    const cusEventDecoderState &start = run.memory->place;
    place.now = nowAfter<Format>(start, startLow<Format>(start), earlier);
    TileSums<Format> sums = {earlier, before.rare};
    place.event = sums.events(start.time_high);
    place.base = before.events(start.time_high);
    place.trigger = before.triggers(start.time_high);
    if (__syncthreads_or(place.rare.triggers != 0)) {
        const uint32_t mine =
            place.now.high < 0
                ? place.rare.triggers - (place.segment.times.timed ? place.rare.early_triggers : place.rare.triggers)
                : place.rare.triggers;
        uint32_t before_mine;
        typename Scans<Format, COUNT>::Sum(scans.sum).ExclusiveSum(mine, before_mine);
        place.trigger += before_mine;
    }
    __syncthreads();
}

template<class Format>
__device__ __forceinline__ Place<Format> placeOf(const Run &run, uint32_t tile, const Words &words, Scans<Format> &scans) {
    Place<Format> place = {};
    bool open = false;
    if constexpr (std::is_same_v<Format, Evt4>) {
        open = startsOpen(run, tile, words, scans.max);
        __syncthreads();
    }
    const bool starts_open = open;
    forEachWord<Format>(words, [&](int, uint32_t a, uint32_t b) {
        Format::measure(place.segment, open, a, b, place.rare);
        return true;
    });
    const TileSums<Format> before = sumsBefore<Format>(run, tile);
    Segment<Format> all;
    typename Scans<Format>::Scan(scans.scan).ExclusiveScan(place.segment, all, before.segment, Append());
    __syncthreads();
    complete(place, run, before, all, scans);
    place.now.open = starts_open;
    return place;
}

} // namespace cusi::raw

#endif
