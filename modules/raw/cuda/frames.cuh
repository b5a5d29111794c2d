// The state of a run over frames of chunks, and how it finds the chunks. ecf.cuh and lzf.cuh decode a chunk.
#ifndef CUSI_RAW_CUDA_FRAMES_CUH
#define CUSI_RAW_CUDA_FRAMES_CUH

#include "cuda.cuh"
#include "event_checks.h"
#include "frames.h"
#include "raw/backend.h"

#include <cub/block/block_scan.cuh>

namespace cusi::raw::frames {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr uint32_t NONE = ~0u;
constexpr uint32_t MAX_HELD_BYTES = CUSI_FRAME_HEADER + CUSI_FRAME_UNIT + CUSI_CHUNK_MAX_BYTES;

// ---- A run

// A chunk that lies completely in the input.
struct Listed {
    uint32_t at, size; // offset in the input, bytes
    uint32_t events;   // events of the chunk that the frame wants
    uint32_t base;     // events before it that this run delivers
};

// A place between two chunks.
struct Place {
    uint64_t offset;       // offset of the frame's header in the whole input, over all pieces
    uint32_t header;       // offset of the frame's header in this run's input
    uint32_t header_bytes; // 0: the header is not complete
    uint32_t line;         // chunks of the frame before it
    uint32_t prefix;       // bytes of those chunks
    uint32_t chunk;        // offset of the next chunk in this run's input
};
// What the input has up to a place.
struct Walk {
    Place end;
    uint32_t chunks, events;
    uint32_t dropped; // bytes of the last frame's chunks that are no longer in the input
    uint32_t bad;     // a malformed header follows
};

// The parts of the input to keep for the next run: a header, then the beginning of a chunk. The first `held` bytes of the
// input are kept already.
struct Keep {
    uint32_t header, header_bytes, chunk, chunk_bytes, held;
};

// What a decoder keeps in device memory between runs.
struct Memory {
    cusEventDecoderState place;
    cusEventCounts counts;
    cusEventDecoded last;
    uint32_t held, dropped; // bytes kept; bytes of the frame's chunks before the kept chunk
    uint32_t is_full;       // the last run ended with CAPACITY, and check() has not been called since
    uint32_t bad_chunk;     // first chunk that is malformed, has a bad event or does not fit; else NONE
    Walk walk;
    Keep keep;
};

struct Run {
    Memory *memory;
    Listed *list;                      // the run's chunks
    int64_t *first_times, *last_times; // times of each chunk's first and last event; INT64_MAX and -1: none
    uint8_t *held;                     // what earlier pieces left: up to MAX_HELD_BYTES
    cusEventBuffers scratch;           // room for the events of a chunk
    const uint8_t *bytes;
    uint32_t size;
    cusEventBuffers events;
    cusEventDecoded *decoded;
    CusiSensor sensor;
    uint32_t magic; // first word of a frame
    bool skips;     // drop bad events
};

__device__ __forceinline__ bool isIdle(const Memory &memory) {
    return memory.is_full || memory.last.status == CUS_ERROR_FORMAT;
}

// The input of a run: the bytes that earlier pieces left, then the piece.
struct Source {
    const uint8_t *held, *piece;
    uint32_t held_bytes, total;
    __device__ explicit Source(const Run &run)
        : held(run.held), piece(run.bytes), held_bytes(run.memory->held), total(held_bytes + run.size) {}
    __device__ uint8_t at(uint32_t i) const { return i < held_bytes ? held[i] : piece[i - held_bytes]; }
    __device__ uint32_t number(uint32_t i) const {
        return at(i) | at(i + 1) << 8 | at(i + 2) << 16 | static_cast<uint32_t>(at(i + 3)) << 24;
    }
};

cusStatus launchRepair(const char *function, const Run &run, cudaStream_t stream); // repair.cu

// Shared memory for the scans of a block.
using NumberScan = cub::BlockScan<uint32_t, THREADS>;
using TimeScan = cub::BlockScan<int64_t, THREADS>;
struct Scans {
    union {
        typename NumberScan::TempStorage numbers;
        typename TimeScan::TempStorage times;
    } scan;
    uint32_t end;
};

// Loads n bytes of the input, 16 at a time where possible, and zeros after its end. Returns the index in `to` of the first
// byte.
__device__ inline uint32_t stage(const Source &s, uint32_t from, uint32_t n, uint8_t *to) {
    const uint32_t have = min(n, s.total - min(from, s.total));
    if (have == 0 || (from < s.held_bytes && from + have > s.held_bytes)) { // they span both parts
        for (uint32_t i = threadIdx.x; i < n; i += THREADS)
            to[i] = i < have ? s.at(from + i) : 0;
        return 0;
    }
    const uintptr_t begin =
                        reinterpret_cast<uintptr_t>(from < s.held_bytes ? s.held + from : s.piece + (from - s.held_bytes)),
                    end = begin + have;
    const uint32_t offset = begin % 16;
    for (uint32_t i = threadIdx.x; 16 * i < offset + n; i += THREADS) {
        const uintptr_t at = begin - offset + 16 * static_cast<uintptr_t>(i);
        uint4 sixteen = {0, 0, 0, 0};
        if (at >= begin && at + 16 <= end) {
            sixteen = *reinterpret_cast<const uint4 *>(at);
        } else {
            uint32_t four[4] = {};
            for (uint32_t j = 0; j < 16; ++j)
                if (at + j >= begin && at + j < end)
                    four[j / 4] |= static_cast<uint32_t>(*reinterpret_cast<const uint8_t *>(at + j)) << 8 * (j % 4);
            sixteen = {four[0], four[1], four[2], four[3]};
        }
        reinterpret_cast<uint4 *>(to)[i] = sixteen;
    }
    return offset;
}

__device__ __forceinline__ uint32_t load16(const uint8_t *p) {
    return p[0] | static_cast<uint32_t>(p[1]) << 8;
}

// Where the `count` events of a chunk from index `first` on go.
struct Target {
    const cusEventBuffers *arrays;
    size_t at;
    uint32_t first, count;
    CusiSensor sensor;
    int64_t *first_time, *last_time; // NULL: not wanted

    __device__ bool wants(uint32_t i) const { return i - first < count; }
    // The put functions write one value of the chunk's event i if it is wanted, and set `odd` if the value alone makes the
    // event bad.
    __device__ void putX(uint32_t i, uint32_t x, bool &odd) const {
        if (!wants(i))
            return;
        odd |= x >= sensor.width;
        if (arrays->x)
            arrays->x[at + (i - first)] = static_cast<uint16_t>(x);
    }
    __device__ void putY(uint32_t i, uint32_t y, bool &odd) const {
        if (!wants(i))
            return;
        odd |= y >= sensor.height;
        if (arrays->y)
            arrays->y[at + (i - first)] = static_cast<uint16_t>(y);
    }
    __device__ void putP(uint32_t i, uint32_t p, bool &odd) const {
        if (!wants(i))
            return;
        odd |= p > 1;
        if (arrays->p)
            arrays->p[at + (i - first)] = static_cast<uint8_t>(p);
    }
    __device__ void putTime(uint32_t i, unsigned long long t) const {
        if (!wants(i))
            return;
        if (arrays->t)
            arrays->t[at + (i - first)] = static_cast<int64_t>(t);
        if (first_time && i == first)
            *first_time = static_cast<int64_t>(t);
        if (last_time && i == first + count - 1)
            *last_time = static_cast<int64_t>(t);
    }
};

// ---- Frames

// Finds up to `limit` complete chunks of the input, and lists them if `lists` is set. The whole block calls it.
__device__ inline Walk walk(const Run &run, Scans &shared, uint32_t limit, bool lists) {
    const Source s(run);
    const Memory &memory = *run.memory;
    const uint32_t k = threadIdx.x; // index of a chunk in the frame
    Walk w = {};
    w.dropped = memory.dropped;
    Place &end = w.end;
    end.offset = memory.place.offset;
    end.line = static_cast<uint32_t>(memory.place.line);
    for (;;) {
        end.header_bytes = end.prefix = 0;
        end.chunk = end.header;
        const uint32_t left = s.total - end.header;
        if (left < CUSI_FRAME_START)
            return w;
        const uint32_t chunks = s.number(end.header + 4);
        w.bad = s.number(end.header) != run.magic || chunks <= end.line || chunks > CUSI_FRAME_CHUNKS;
        if (w.bad || left < cusi_frameHeader(chunks))
            return w;
        const bool is_chunk = k < chunks;
        const uint32_t entry = end.header + CUSI_FRAME_START + CUSI_FRAME_ENTRY * k, size = is_chunk ? s.number(entry) : 0,
                       events = is_chunk ? s.number(entry + 4) : 0;
        w.bad = __syncthreads_or(is_chunk && !cusi_isFrameEntry(run.magic, size, events));
        if (w.bad)
            return w;
        uint32_t before, all, events_before, all_events;
        NumberScan(shared.scan.numbers).ExclusiveSum(cusi_frameSlot(size), before, all);
        __syncthreads();
        const uint32_t header_bytes = cusi_frameHeader(chunks), at = end.header + header_bytes + before - w.dropped;
        const bool complete = is_chunk && k >= end.line && k - end.line < limit - w.chunks &&
                              static_cast<uint64_t>(at) + cusi_frameSlot(size) <= s.total;
        const uint32_t passed = w.chunks == 0 && k == end.line ? min(memory.place.vector, events) : 0;
        NumberScan(shared.scan.numbers).ExclusiveSum(complete ? events - passed : 0, events_before, all_events);
        if (lists && complete)
            run.list[w.chunks + k - end.line] = {at, size, events, w.events + events_before};
        const uint32_t done = static_cast<uint32_t>(__syncthreads_count(complete));
        w.chunks += done;
        w.events += all_events;
        end.line += done;
        if (end.line == chunks) {
            end.header += header_bytes + all - w.dropped;
            end.offset += header_bytes + all;
            end.line = w.dropped = 0;
            continue;
        }
        if (k == end.line)
            shared.end = before;
        __syncthreads();
        end.header_bytes = header_bytes;
        end.prefix = shared.end;
        end.chunk = end.header + header_bytes + end.prefix - w.dropped;
        return w;
    }
}

} // namespace cusi::raw::frames

#endif
