// The last kernel of a run sets the state after it and reports what it did. From the first tile with a bad event or word,
// or with more than fits, one block decodes tile after tile again: it drops what is bad, or finds the word at which to
// stop.
#include "raw/cuda/decoder.cuh"
#include "raw/cuda/stages.cuh"

namespace cusi::raw {

namespace {

constexpr int NOWHERE = INT_MAX;

// What the run has counted up to the stop.
struct Tally {
    unsigned long long events, kept, triggers, rising, falling, untimed, undefined, bad_coordinates, bad_polarity, bad_time;
};
struct RunCounts : Tally {
    long long last_time; // time of the latest event delivered
};

// A sink that examines events as the host does: one is good if it is on the sensor, has a polarity and is not earlier than
// the good ones before. Without `skips` it stops at the first bad event or undefined word.
struct BadEventSink {
    const Run *run;
    int64_t last;
    unsigned long long at, trigger_at; // indices of the next event and trigger
    bool writes = false;
    uint32_t passed = 0, kept = 0, triggers = 0, rising = 0, falling = 0, lost = 0, undefined_words = 0;
    uint32_t bad[CUSI_BAD_TIME + 1] = {};
    uint32_t stopped = 0; // a kind of cusEventDecoded.detail; 0: not stopped
    uint32_t x = 0, y = 0, type = 0;
    int64_t t = 0;

    __device__ void event(uint32_t column, uint32_t row, uint32_t p, int64_t time) {
        const uint32_t kind = badnessOf(run->sensor, column, row, p, time, last);
        if (kind && !run->skips) {
            stopped = kind, x = column, y = row, t = time;
            return;
        }
        ++passed;
        ++bad[kind];
        if (kind)
            return;
        last = time;
        const unsigned long long i = at + kept++;
        if (!writes || i >= run->events.capacity)
            return;
        if (i == 0)
            run->memory->first_time = time;
        putEvent(run->events, i, column, row, p, time);
    }
    __device__ void events(uint32_t first, uint32_t row, uint32_t p, int64_t time, uint32_t mask) {
        for (; mask && !stopped; mask &= mask - 1)
            event(min(first + __ffs(mask) - 1, static_cast<uint32_t>(CUSI_EVT3_BEYOND)), row, p, time);
    }
    __device__ void time(int64_t) {}
    __device__ void untimed(uint32_t n) { lost += n; }
    __device__ void undefined(uint32_t kind) {
        if (run->skips)
            ++undefined_words;
        else
            stopped = RAW_BAD_WORD, type = kind;
    }
    __device__ void trigger(int64_t time, int16_t id, uint32_t value, bool timed) {
        if (timed && run->events.triggers) {
            const unsigned long long i = trigger_at + triggers++;
            if (writes && i < run->events.trigger_capacity)
                run->events.triggers[i] = {time, id, static_cast<uint8_t>(value), {}};
        }
        ++*(value ? &rising : &falling);
    }
    // Returns why the words so far cannot all be delivered; 0: they can.
    __device__ uint32_t problem() const {
        if (at + kept > run->events.capacity)
            return RAW_EVENTS_FULL;
        if (run->events.triggers && trigger_at + triggers > run->events.trigger_capacity)
            return RAW_TRIGGERS_FULL;
        return stopped;
    }
};
// A sink that finds the latest time of events that are on the sensor and have a polarity.
struct LatestTimeSink {
    const Run &run;
    int64_t latest = -1;
    __device__ void events(uint32_t x, uint32_t y, uint32_t p, int64_t t, uint32_t mask) {
        const uint32_t columns = x >= run.sensor.width ? 0 : min(run.sensor.width - x, 32u);
        const uint32_t inside = mask & static_cast<uint32_t>((1ull << columns) - 1);
        if (inside && y < run.sensor.height && p <= 1)
            latest = max(latest, t);
    }
    __device__ void time(int64_t) {}
    __device__ void untimed(uint32_t) {}
    __device__ void undefined(uint32_t) {}
    __device__ void trigger(int64_t, int16_t, uint32_t, bool) {}
};

// Where decoding stops.
struct StopPoint {
    size_t word = 0; // index in the input; EVT4: the head of a vector
    uint32_t kind = 0;
    uint64_t index = 0; // number of the next event in the recording
    uint64_t detail[6] = {};
    Now now = {};
};

template<class Format>
struct Repair {
    using TimeScan = cub::BlockScan<int64_t, THREADS>;
    union Storage {
        typename TimeScan::TempStorage times;
        typename Scans<Format>::Sum::TempStorage sums;
    };
    const Run &run;
    TileBytes &bytes;
    Scans<Format> &scans;
    Storage &storage;
    RunCounts &run_counts;
    StopPoint &stop;
    int &stop_word; // index in the tile

    // Decodes a tile again; true if decoding stops in it.
    __device__ bool tile(uint32_t tile) const {
        __syncthreads();
        if (threadIdx.x == 0)
            stop_word = NOWHERE;
        const Words words = loadWords<Format>(run, tile, bytes);
        const Place<Format> place = placeOf<Format>(run, tile, words, scans);
        const BadEventSink start = startOf(words, place);
        const int problem = findProblem(words, place, start);
        if (problem != NOWHERE)
            atomicMin(&stop_word, problem);
        __syncthreads();
        if (problem != NOWHERE && problem == stop_word)
            describe(tile, words, place, start);
        __syncthreads();
        deliver(words, place, start);
        __syncthreads();
        return stop_word != NOWHERE;
    }

    // Finds the latest good event before the thread's words, and where its events and triggers go.
    __device__ BadEventSink startOf(const Words &words, const Place<Format> &place) const {
        LatestTimeSink latest = {run};
        each(words, place, [&](int, Now &now, uint32_t a, uint32_t b) {
            Format::step(now, a, b, latest);
            return true;
        });
        int64_t before;
        TimeScan(storage.times)
            .ExclusiveScan(latest.latest, before, static_cast<int64_t>(run_counts.last_time),
                           [](int64_t a, int64_t b) { return max(a, b); });
        __syncthreads();
        BadEventSink sink = {&run, before, run_counts.kept, run_counts.triggers};
        BadEventSink all = sink;
        each(words, place, [&](int, Now &now, uint32_t a, uint32_t b) {
            Format::step(now, a, b, all);
            return true;
        });
        uint32_t kept, triggers;
        typename Scans<Format>::Sum(storage.sums).ExclusiveSum(all.kept, kept);
        __syncthreads();
        typename Scans<Format>::Sum(storage.sums).ExclusiveSum(all.triggers, triggers);
        __syncthreads();
        sink.at += kept;
        sink.trigger_at += triggers;
        return sink;
    }

    template<class Each>
    __device__ Now each(const Words &words, const Place<Format> &place, const Each &each) const {
        Now now = place.now;
        forEachWord<Format>(words, [&](int k, uint32_t a, uint32_t b) { return each(k, now, a, b); });
        return now;
    }

    __device__ int findProblem(const Words &words, const Place<Format> &place, BadEventSink sink) const {
        int found = NOWHERE;
        each(words, place, [&](int k, Now &now, uint32_t a, uint32_t b) {
            Format::step(now, a, b, sink);
            if (sink.problem())
                found = words.first + k;
            return found == NOWHERE;
        });
        return found;
    }

    // Fills `stop`. The thread that has the word calls it.
    __device__ void describe(uint32_t tile, const Words &words, const Place<Format> &place, BadEventSink sink) const {
        const int wanted = stop_word - words.first;
        BadEventSink before = sink;
        stop.now = each(words, place, [&](int k, Now &now, uint32_t a, uint32_t b) {
            if (k == wanted)
                return false;
            Format::step(now, a, b, before);
            return true;
        });
        Now now = stop.now;
        sink = before;
        forEachWord<Format>(words, [&](int k, uint32_t a, uint32_t b) {
            if (k == wanted)
                Format::step(now, a, b, sink);
            return k < wanted;
        });
        stop.kind = sink.problem();
        const size_t word = static_cast<size_t>(tile) * (TILE / Format::WORD) + stop_word;
        const cusEventDecoderState &start = run.memory->place;
        stop.word = word - stop.now.open;
        stop.now.open = false;
        const bool is_event = stop.kind >= CUSI_BAD_COORDINATES && stop.kind <= CUSI_BAD_TIME;
        stop.index = start.index + place.event + (is_event ? sink.passed : before.passed);
        uint64_t *detail = stop.detail;
        detail[0] = stop.kind;
        if (is_event) {
            detail[1] = stop.index;
            if (stop.kind == CUSI_BAD_COORDINATES)
                detail[2] = sink.x, detail[3] = sink.y, detail[4] = run.sensor.width, detail[5] = run.sensor.height;
            else if (stop.kind == CUSI_BAD_TIME)
                detail[2] = sink.t, detail[3] = sink.last;
        } else if (stop.kind == RAW_BAD_WORD) {
            detail[1] = start.offset + stop.word * Format::WORD;
            detail[2] = sink.type;
        } else {
            detail[1] = stop.kind == RAW_EVENTS_FULL ? run.events.capacity : run.events.trigger_capacity;
        }
    }

    // Writes what is good before the stop and counts everything before it.
    __device__ void deliver(const Words &words, const Place<Format> &place, BadEventSink sink) const {
        const bool is_event = stop_word != NOWHERE && stop.kind >= CUSI_BAD_COORDINATES && stop.kind <= CUSI_BAD_TIME;
        __syncthreads(); // all threads have read run_counts
        sink.writes = true;
        each(words, place, [&](int k, Now &now, uint32_t a, uint32_t b) {
            const int word = words.first + k;
            if (word > stop_word || (word == stop_word && !is_event))
                return false;
            Format::step(now, a, b, sink);
            return true;
        });
        const auto add = [](unsigned long long &sum, uint32_t n) {
            if (n)
                atomicAdd(&sum, static_cast<unsigned long long>(n));
        };
        add(run_counts.events, sink.passed);
        add(run_counts.kept, sink.kept);
        add(run_counts.triggers, sink.triggers);
        add(run_counts.rising, sink.rising);
        add(run_counts.falling, sink.falling);
        add(run_counts.untimed, sink.lost);
        add(run_counts.undefined, sink.undefined_words);
        add(run_counts.bad_coordinates, sink.bad[CUSI_BAD_COORDINATES]);
        add(run_counts.bad_polarity, sink.bad[CUSI_BAD_POLARITY]);
        add(run_counts.bad_time, sink.bad[CUSI_BAD_TIME]);
        if (sink.kept)
            atomicMax(&run_counts.last_time, static_cast<long long>(sink.last));
    }
};

// Returns the time of the last event before `tile`, of this run or earlier ones.
__device__ int64_t lastTimeBefore(const Run &run, uint32_t tile) {
    for (uint32_t i = tile; i-- > 0;)
        if (run.last_times[i] >= 0)
            return run.last_times[i];
    return run.memory->place.last_time;
}

// Returns the counts of the tiles before `tile`, none of which has anything bad.
template<class Format>
__device__ Tally tallyBefore(const Run &run, uint32_t tile) {
    const TileSums<Format> sums = sumsBefore<Format>(run, tile);
    const int64_t high = run.memory->place.time_high;
    const uint32_t events = sums.events(high);
    return {events,
            events,
            run.events.triggers ? sums.triggers(high) : 0,
            sums.rare.rising,
            sums.rare.triggers - sums.rare.rising,
            sums.segment.times.events - events,
            sums.rare.undefined,
            0,
            0,
            0};
}

__device__ void keepState(cusEventDecoderState &place, const Now &now, bool has_rows, int64_t time) {
    place.time_high = now.high;
    place.time = time;
    if (has_rows) {
        place.time_low = now.low;
        place.y = now.y;
        place.vector_x = now.x;
        place.vector_p = now.p;
        place.vector_size = 0;
    }
}

// Sets the state after the run and what the run did. One thread calls it.
template<class Format>
__device__ void commit(const Run &run, const RunCounts &run_counts, const StopPoint &stop, bool stopped,
                       cusEventDecoded &done) {
    Memory &memory = *run.memory;
    cusEventDecoderState &place = memory.place;
    cusEventCounts &counts = memory.counts;
    const size_t total = inputSize(run),
                 bytes = stopped ? stop.word * Format::WORD : wordsOf<Format>(run) * Format::WORD - 4 * memory.ends_open;
    const Now end =
        stopped ? stop.now
                : nowAfter<Format>(place, startLow<Format>(place), sumsBefore<Format>(run, tilesOf<Format>(run)).segment);
    done.count = run_counts.kept;
    done.triggers = run_counts.triggers;
    done.used = stopped ? bytes - min(bytes, static_cast<size_t>(place.carried)) : run.size;
    done.status = !stopped ? CUS_OK : stop.kind >= RAW_EVENTS_FULL ? CUS_ERROR_CAPACITY : CUS_ERROR_FORMAT;
    done.first_time = run_counts.kept ? memory.first_time : -1;
    done.last_time = run_counts.kept ? run_counts.last_time : -1;
    done.index = stopped ? stop.index : place.index + run_counts.events;
    for (int i = 0; i < 6; ++i)
        done.detail[i] = stop.detail[i];
    counts.events += run_counts.kept;
    counts.triggers_rising += run_counts.rising;
    counts.triggers_falling += run_counts.falling;
    counts.untimed += run_counts.untimed;
    counts.bad_words += run_counts.undefined;
    counts.bad_coordinates += run_counts.bad_coordinates;
    counts.bad_polarity += run_counts.bad_polarity;
    counts.bad_time += run_counts.bad_time;
    done.counts = counts;

    uint8_t rest[8] = {};
    uint32_t left = 0;
    for (size_t i = bytes; !stopped && i < total; ++i)
        rest[left++] = byteAt(run, i);
    const bool moved = !stopped || bytes; // otherwise the carried bytes stay
    if (moved) {
        for (int i = 0; i < 8; ++i)
            place.carry[i] = rest[i];
        place.carried = left;
    }
    memory.is_full = done.status == CUS_ERROR_CAPACITY;
    keepState(place, end, Format::HAS_ROWS, Format::HAS_ROWS ? max(timeOf<Format>(end), place.time) : place.time);
    place.offset += bytes;
    place.index = done.index;
    if (run_counts.kept)
        place.last_time = run_counts.last_time;
}

// Copies 8 bytes a thread. The whole block calls it.
template<class T>
__device__ __forceinline__ void copyByBlock(T *to, const T &from) {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) == 8);
    for (uint32_t i = threadIdx.x; i < sizeof(T) / 8; i += THREADS)
        reinterpret_cast<unsigned long long *>(to)[i] = reinterpret_cast<const unsigned long long *>(&from)[i];
}

// One thread does most of the work on a copy in shared memory, where it waits less for each value.
template<class Format>
__global__ void __launch_bounds__(THREADS) finishKernel(const __grid_constant__ Run given) {
    __shared__ TileBytes bytes;
    __shared__ Scans<Format> scans;
    __shared__ typename Repair<Format>::Storage storage;
    __shared__ RunCounts run_counts;
    __shared__ StopPoint stop;
    __shared__ int stop_word;
    __shared__ Memory memory;
    waitForEarlierWork();
    letNextKernelStart(); // not before: the frame of a packet is made meanwhile (events/cuda/packets.cu)
    copyByBlock(&memory, *given.memory);
    __syncthreads();
    Run run = given;
    run.memory = &memory;
    const bool idle = isIdle(run);
    const uint32_t tiles = tilesOf<Format>(run), bad = min(memory.bad_tile, tiles);
    bool stopped = false;
    if (!idle) {
        if (threadIdx.x == 0) {
            stop = StopPoint();
            static_cast<Tally &>(run_counts) = tallyBefore<Format>(run, bad);
        } else if (threadIdx.x == 32) { // another warp, which loads at the same time
            run_counts.last_time = lastTimeBefore(run, bad);
        }
        const Repair<Format> repair = {run, bytes, scans, storage, run_counts, stop, stop_word};
        for (uint32_t tile = bad; tile < tiles && !stopped; ++tile)
            stopped = repair.tile(tile);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        cusEventDecoded &done = memory.last;
        if (idle) {
            done.count = done.triggers = done.used = 0;
            done.first_time = done.last_time = -1;
        } else {
            commit<Format>(run, run_counts, stop, stopped, done);
        }
        memory.bad_tile = NO_TILE;
        memory.ends_open = 0;
    }
    __syncthreads();
    copyByBlock(given.memory, memory);
    if (given.decoded)
        copyByBlock(given.decoded, memory.last);
}

} // namespace

template<class Format>
cusStatus launchFinish(const char *function, const Run &run, cudaStream_t stream) {
    return launchOverlapped(function, finishKernel<Format>, 1, THREADS, 0, stream, run);
}

#define INSTANTIATE(Format) template cusStatus launchFinish<Format>(const char *, const Run &, cudaStream_t);
RAW_FOR_EACH_FORMAT(INSTANTIATE)

} // namespace cusi::raw
