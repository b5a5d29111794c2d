// The last step of a run of frames sets the state after it and reports what it did. From the first chunk that is malformed,
// has a bad event or does not fit, one block decodes chunk after chunk again: it drops what is bad, or finds the event at
// which to stop.
#include "raw/cuda/decoder.cuh"
#include "raw/cuda/ecf.cuh"
#include "raw/cuda/lzf.cuh"

namespace cusi::raw::frames {

namespace {

// Counts the events before the bad chunk, and those that were examined again.
struct RunCounts {
    unsigned long long passed, kept, bad_coordinates, bad_polarity, bad_time;
    long long first_time, last_time; // first event delivered by this run; latest event so far
};

// Where decoding stops; nowhere if kind is 0.
struct StopPoint {
    uint32_t kind;
    uint32_t chunk; // index in the list; NONE: at a header
    uint32_t event; // index in the chunk
    uint64_t detail[6];
};

struct Totals {
    Scans shared;
    RunCounts run_counts;
    StopPoint stop;
    uint32_t found;
};

// Checks that times do not decrease from one chunk to the next before chunk `bad`. Returns the first chunk that begins too
// early, or else `bad`, and sets the counts of the chunks before it.
__device__ uint32_t tallyGood(const Run &run, Totals &all, uint32_t bad) {
    const Memory &memory = *run.memory;
    int64_t last = memory.place.last_time;
    if (threadIdx.x == 0) {
        all.run_counts = {0, 0, 0, 0, 0, -1, last};
        all.found = bad;
    }
    __syncthreads();
    for (uint32_t from = 0; from < bad; from += THREADS) {
        const uint32_t c = from + threadIdx.x;
        const int64_t first_time = c < bad ? run.first_times[c] : INT64_MAX, last_time = c < bad ? run.last_times[c] : -1;
        int64_t before, latest;
        TimeScan(all.shared.scan.times)
            .ExclusiveScan(
                last_time, before, static_cast<int64_t>(-1), [](int64_t a, int64_t b) { return max(a, b); }, latest);
        before = max(before, last);
        const bool late = first_time < before;
        if (late)
            atomicMin(&all.found, c);
        __syncthreads();
        if (late && c == all.found)
            all.run_counts.last_time = before;
        if (c < all.found && first_time != INT64_MAX && run.list[c].base == 0)
            all.run_counts.first_time = first_time;
        last = max(last, latest);
        const bool stops = all.found < bad;
        __syncthreads();
        if (stops)
            break;
        if (threadIdx.x == 0)
            all.run_counts.last_time = last;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        all.run_counts.passed = all.run_counts.kept =
            all.found < memory.walk.chunks ? run.list[all.found].base : memory.walk.events;
    __syncthreads();
    return all.found;
}

// Examines the events of a chunk in the scratch arrays, from index `first` on, as the host does: one is good if it is on
// the sensor and not earlier than the good ones before. Writes the good ones. The whole block calls it.
__device__ void examine(const Run &run, Totals &all, uint32_t chunk, uint32_t first, uint32_t count) {
    for (uint32_t from = first; from < count && !all.stop.kind; from += THREADS) {
        const uint32_t i = from + threadIdx.x;
        const bool is_event = i < count;
        const uint32_t x = is_event ? run.scratch.x[i] : 0, y = is_event ? run.scratch.y[i] : 0,
                       p = is_event ? run.scratch.p[i] : 0;
        const int64_t t = is_event ? run.scratch.t[i] : -1;
        const bool is_sound = is_event && !badnessOf(run.sensor, x, y, p, t, t); // good unless it is too early
        int64_t before;
        TimeScan(all.shared.scan.times)
            .ExclusiveScan(is_sound ? t : -1, before, static_cast<int64_t>(all.run_counts.last_time),
                           [](int64_t a, int64_t b) { return max(a, b); });
        const uint32_t kind = is_event ? badnessOf(run.sensor, x, y, p, t, before) : 0;
        const bool good = is_event && !kind;
        uint32_t rank;
        if (threadIdx.x == 0)
            all.found = NONE;
        __syncthreads();
        NumberScan(all.shared.scan.numbers).ExclusiveSum(good ? 1 : 0, rank);
        const size_t place = all.run_counts.kept + rank;
        const uint32_t problem = kind && !run.skips ? kind : good && place >= run.events.capacity ? RAW_EVENTS_FULL : 0;
        if (problem)
            atomicMin(&all.found, i);
        __syncthreads();
        const bool passes = is_event && i < all.found;
        if (problem && i == all.found) {
            StopPoint &stop = all.stop;
            stop = {problem, chunk, i, {problem}};
            if (problem == RAW_EVENTS_FULL)
                stop.detail[1] = run.events.capacity;
            else if (problem == CUSI_BAD_COORDINATES)
                stop.detail[2] = x, stop.detail[3] = y, stop.detail[4] = run.sensor.width,
                stop.detail[5] = run.sensor.height;
            else if (problem == CUSI_BAD_TIME)
                stop.detail[2] = static_cast<uint64_t>(t), stop.detail[3] = static_cast<uint64_t>(before);
        }
        if (passes && good) {
            putEvent(run.events, place, x, y, p, t);
            if (place == 0)
                all.run_counts.first_time = t;
            atomicMax(&all.run_counts.last_time, static_cast<long long>(t));
        }
        const int passed = __syncthreads_count(passes), kept = __syncthreads_count(passes && good),
                  off_sensor = __syncthreads_count(passes && kind == CUSI_BAD_COORDINATES),
                  no_polarity = __syncthreads_count(passes && kind == CUSI_BAD_POLARITY);
        if (threadIdx.x == 0) {
            all.run_counts.passed += static_cast<unsigned>(passed);
            all.run_counts.kept += static_cast<unsigned>(kept);
            all.run_counts.bad_coordinates += static_cast<unsigned>(off_sensor);
            all.run_counts.bad_polarity += static_cast<unsigned>(no_polarity);
            all.run_counts.bad_time += static_cast<unsigned>(passed - kept - off_sensor - no_polarity);
        }
        __syncthreads();
    }
}

// Decodes chunk c into the scratch arrays and examines its events.
template<class Codec>
__device__ void repair(const Run &run, Totals &all, typename Codec::Shared &shared, uint32_t c) {
    const Listed chunk = run.list[c];
    const uint32_t first = c == 0 ? min(run.memory->place.vector, chunk.events) : 0;
    bool odd = false;
    const Target to = {&run.scratch, 0, 0, chunk.events, run.sensor, nullptr, nullptr};
    bool good = true;
#pragma unroll 1
    for (int part = 0; part < Codec::PARTS && good; ++part) {
        good = Codec::decode(Source(run), shared, chunk.at, chunk.size, to, part, odd);
        __syncthreads();
    }
    if (good)
        examine(run, all, c, first, chunk.events);
    else if (threadIdx.x == 0)
        all.stop = {RAW_BAD_CHUNK, c, 0, {RAW_BAD_CHUNK}};
    __syncthreads();
}

// Sets the state after the run and which bytes to keep for the next. `walk` ends at the stop. One thread calls it.
__device__ void keepState(const Run &run, const StopPoint &stop, const Walk &walk) {
    Memory &memory = *run.memory;
    const Place &end = walk.end;
    const uint32_t total = memory.held + run.size;
    Keep keep = {0, 0, 0, 0, memory.held};
    memory.keep = keep;
    if (stop.kind && stop.kind != RAW_EVENTS_FULL) // after an error there is no place to continue from
        return;
    if (stop.kind && end.chunk < memory.held) { // the chunk lies within the held bytes, which stay
        memory.place.vector = stop.event;
        return;
    }
    keep.header = end.header;
    keep.header_bytes = end.header_bytes ? end.header_bytes : total - end.header;
    if (end.header_bytes && end.chunk > total) { // the next chunk begins after this piece
        memory.dropped = total - end.header - end.header_bytes + walk.dropped;
    } else if (end.header_bytes) {
        memory.dropped = end.prefix;
        keep.chunk = end.chunk;
        keep.chunk_bytes = stop.kind ? 0 : total - end.chunk;
    } else {
        memory.dropped = 0;
    }
    memory.held = keep.header_bytes + keep.chunk_bytes;
    memory.place.offset = end.offset;
    memory.place.line = end.line;
    memory.place.vector = stop.kind ? stop.event : walk.chunks ? 0 : memory.place.vector;
    memory.place.carried = memory.held + memory.dropped;
    memory.keep = keep;
}

__device__ void commit(const Run &run, const RunCounts &run_counts, StopPoint &stop, const Walk &walk,
                       cusEventDecoded &done) {
    Memory &memory = *run.memory;
    cusEventDecoderState &place = memory.place;
    cusEventCounts &counts = memory.counts;
    const Place &end = walk.end;
    const uint32_t at = stop.chunk == NONE ? end.header : end.chunk;
    if (stop.kind == RAW_BAD_FRAME)
        stop.detail[1] = end.offset;
    else if (stop.kind == RAW_BAD_CHUNK)
        stop.detail[1] = end.offset + end.header_bytes + end.prefix;
    else if (stop.kind && stop.kind < RAW_EVENTS_FULL)
        stop.detail[1] = place.index + run_counts.passed;
    done = {};
    done.count = run_counts.kept;
    done.used = stop.kind ? at - min(at, memory.held) : run.size;
    done.status = !stop.kind ? CUS_OK : stop.kind == RAW_EVENTS_FULL ? CUS_ERROR_CAPACITY : CUS_ERROR_FORMAT;
    done.first_time = run_counts.kept ? run_counts.first_time : -1;
    done.last_time = run_counts.kept ? run_counts.last_time : -1;
    done.index = place.index + run_counts.passed;
    for (int i = 0; i < 6; ++i)
        done.detail[i] = stop.detail[i];
    counts.events += run_counts.kept;
    counts.bad_coordinates += run_counts.bad_coordinates;
    counts.bad_polarity += run_counts.bad_polarity;
    counts.bad_time += run_counts.bad_time;
    done.counts = counts;
    place.index = done.index;
    if (run_counts.kept)
        place.last_time = run_counts.last_time;
    memory.is_full = done.status == CUS_ERROR_CAPACITY;
    keepState(run, stop, walk);
}

template<class Codec>
__global__ void __launch_bounds__(THREADS) repairKernel(const __grid_constant__ Run run) {
    __shared__ Totals all;
    __shared__ typename Codec::Shared shared;
    startInOrder();
    Memory &memory = *run.memory;
    const bool idle = isIdle(memory);
    Walk end = memory.walk;
    if (!idle) {
        Codec::prepare(shared);
        if (threadIdx.x == 0)
            all.stop = {};
        for (uint32_t c = tallyGood(run, all, min(memory.bad_chunk, end.chunks)); c < end.chunks && !all.stop.kind; ++c)
            repair<Codec>(run, all, shared, c);
        if (all.stop.kind)
            end = walk(run, all.shared, all.stop.chunk, false);
    }
    __syncthreads();
    if (threadIdx.x)
        return;
    cusEventDecoded done = memory.last;
    if (idle) {
        done.count = done.triggers = done.used = 0;
        done.first_time = done.last_time = -1;
        memory.keep = {};
    } else {
        if (!all.stop.kind && end.bad)
            all.stop = {RAW_BAD_FRAME, NONE, 0, {RAW_BAD_FRAME}};
        commit(run, all.run_counts, all.stop, end, done);
    }
    memory.last = done;
    if (run.decoded)
        *run.decoded = done;
}

} // namespace

cusStatus launchRepair(const char *function, const Run &run, cudaStream_t stream) {
    const auto kernel = run.magic == CUSI_FRAME_ECF ? repairKernel<ecf::Codec> : repairKernel<lzf::Codec>;
    return launchOverlapped(function, kernel, 1, THREADS, 0, stream, run);
}

} // namespace cusi::raw::frames
