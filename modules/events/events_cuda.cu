// Event frames on the GPU: the workspace, and which kernels make a batch of windows.
//
// Windows are sorted by tile (events_sort.cu), and passes over the tiles make the pixels: events are read once, frames
// written once, and in between 2 or 4 bytes per event are written and read. Windows too long for the workspace go through
// accumulators in device memory (events_scatter.cu).
#include "events_cuda.cuh"

#include <algorithm>
#include <limits>
#include <new>

namespace cusi::events {

namespace tuning {
constexpr size_t ACCUMULATOR_BYTES = size_t{16} << 20; // of a group of windows: stays in the L2 cache
}

Kind kindOf(cusRepresentationKind kind) {
    switch (kind) {
    case CUS_REPR_HISTOGRAM:
        return HISTOGRAM;
    case CUS_REPR_MDES_COUNT:
        return MDES_COUNT;
    case CUS_REPR_STACKED_HISTOGRAM:
        return STACKED_HISTOGRAM;
    case CUS_REPR_VOXEL_GRID:
        return VOXEL_GRID;
    case CUS_REPR_TIME_SURFACE:
        return TIME_SURFACE;
    case CUS_REPR_EVENT_DIFF:
        return EVENT_DIFF;
    default:
        return LAST_EVENT;
    }
}

unsigned accumulatorPitch(const cusEventStacker *stacker) {
    return divUp(static_cast<unsigned>(stacker->cols), 4u) * 4;
}

size_t accumulatorBytesPerPixel(const cusRepresentation &r) {
    const Kind kind = kindOf(r.kind);
    return accumulatorsPerPixel(kind, static_cast<unsigned>(r.channels)) *
           (kind == VOXEL_GRID ? sizeof(uint64_t) : sizeof(uint32_t));
}

Representation representationOf(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    const cusMat &mat = batch.frames[index];
    Representation repr = {frameTop<void>(batch, mat),
                           mat.step,
                           static_cast<unsigned>(r.channels),
                           r.swap_channels != 0,
                           255,
                           std::min(1 / (r.tau * 0.693147180559945309417), std::numeric_limits<double>::max()),
                           batch.source.t,
                           nullptr};
    if (r.kind == CUS_REPR_STACKED_HISTOGRAM) {
        repr.cutoff = static_cast<unsigned>(r.cutoff);
        repr.levels = batch.state->levels + static_cast<size_t>(index) * tuning::BATCH_WINDOWS;
    }
    return repr;
}

namespace {

// Runs a pass over the tiles of windows first .. first + count - 1 of the batch.
cusStatus launchPass(const Batch &batch, const TilePass &pass, const Tiling &tiling, unsigned first, unsigned count) {
    TileParams params = pass.params;
    const size_t y = static_cast<size_t>(first) * tiling.rows;
    params.windows = batch.windows.from(first);
    params.tiling = tiling;
    params.mdes = params.mdes ? rowOf(params.mdes, params.mdes_step, y) : nullptr;
    params.tencode = params.tencode ? rowOf(params.tencode, params.tencode_step, y) : nullptr;
    Representation &repr = params.repr;
    repr.frames = repr.frames ? rowOf(static_cast<char *>(repr.frames), repr.step, y) : nullptr;
    repr.levels += repr.levels ? first : 0;
    params.part_bits = pass.part_bits;
    return launchOverlapped(STACK, pass.kernel, dim3(tiling.tiles << (pass.tile_bits - pass.part_bits), count),
                            pass.threads, pass.shared, batch.stream, params);
}

// Sorts group after group and band after band, and runs the passes over the sorted runs.
template<class Record>
cusStatus sortAndRun(const Batch &batch, const Tiling &tiling, bool with_green, bool count_skipped, TilePass *passes,
                     int pass_count) {
    SortedRuns sorted = {};
    const unsigned group = planSort<Record>(batch, tiling, &sorted);
    for (unsigned first = 0; first < batch.count; first += group) {
        const unsigned count = std::min(group, batch.count - first);
        for (unsigned top = 0; top < tiling.rows;) {
            const Tiling band = bandOf(tiling, top);
            CUS_TRY(
                sortWindows<Record>(batch, band, sorted, first, count, with_green && top == 0, count_skipped && top == 0));
            for (int k = 0; k < pass_count; ++k) {
                passes[k].params.sorted = sorted;
                CUS_TRY(launchPass(batch, passes[k], band, first, count));
            }
            top = band.bottom;
        }
    }
    return CUS_OK;
}

cusStatus runHistogram(const Batch &batch, int index, bool count_skipped) {
    const Tiling tiling = tilingOf(batch.stacker, tuning::HISTOGRAM_TILE);
    SortedRuns sorted = {};
    if (planSort<uint16_t>(batch, tiling, &sorted) == 0)
        return scatterValues(batch, index, count_skipped);
    TilePass pass = histogramPass(batch, index);
    return sortAndRun<uint16_t>(batch, tiling, false, count_skipped, &pass, 1);
}

// Passes over records of 32 bits: those over tiles of the same size share a sort.
cusStatus runPasses(const Batch &batch, const TilePasses &passes, bool count_skipped) {
    for (unsigned bits = 0; bits <= tuning::INDEXED_TILE; ++bits) {
        TilePasses same = {};
        for (int i = 0; i < passes.count; ++i)
            if (passes.pass[i].tile_bits == bits)
                same.pass[same.count++] = passes.pass[i];
        if (same.count == 0)
            continue;
        const bool with_green = passes.with_green && bits == tuning::INDEXED_TILE;
        CUS_TRY(
            sortAndRun<uint32_t>(batch, tilingOf(batch.stacker, bits), with_green, count_skipped, same.pass, same.count));
        count_skipped = false;
    }
    return CUS_OK;
}

// MDES and TENCODE of windows too long to sort: the same passes over keys in device memory.
cusStatus runLastEventPassesOverKeys(const Batch &batch, const Tiling &tiling, TilePasses *passes, bool count_skipped) {
    const ScatterPlan plan = planScatter(batch, sizeof(uint32_t), count_skipped);
    SortedRuns sorted = {};
    sorted.green_begin = reinterpret_cast<uint32_t *>(batch.state->sorted);
    for (unsigned first = 0; first < batch.count; first += plan.group) {
        const unsigned count = std::min(plan.group, batch.count - first);
        CUS_TRY(scatterLastEvents(batch, plan, first, count));
        if (passes->with_green)
            CUS_TRY(findGreenLevels(batch, tiling, sorted, first, count));
        for (int k = 0; k < passes->count; ++k) {
            TileParams &params = passes->pass[k].params;
            params.sorted = sorted;
            params.keys = static_cast<uint32_t *>(batch.state->accumulators);
            params.pitch = plan.pitch;
            params.keep_keys = k + 1 < passes->count;
            CUS_TRY(launchPass(batch, passes->pass[k], tiling, first, count));
        }
    }
    return CUS_OK;
}

// All but MDES and TENCODE, whose passes are in `passes` or done. HISTOGRAM is made at once. The others are added to
// `passes` if their windows can be sorted and made at once otherwise.
cusStatus runRepresentation(const Batch &batch, int index, bool sorted, bool *count_skipped, TilePasses *passes) {
    const cusRepresentationKind kind = batch.stacker->representations[index].kind;
    if (eventsUsesLastEvent(kind))
        return CUS_OK;
    if (kind == CUS_REPR_STACKED_HISTOGRAM)
        CUS_TRY(findTimeBins(batch, index));
    const bool count = *count_skipped;
    if (kind == CUS_REPR_HISTOGRAM) {
        *count_skipped = false;
        return runHistogram(batch, index, count);
    }
    if (sorted) {
        passes->pass[passes->count++] = valuesPass(batch, index);
        return CUS_OK;
    }
    *count_skipped = false;
    return scatterValues(batch, index, count);
}

cusStatus runBatch(const Batch &batch) {
    const Tiling tiling = tilingOf(batch.stacker, tuning::INDEXED_TILE);
    SortedRuns runs = {};
    const bool sorted = planSort<uint32_t>(batch, tiling, &runs) > 0;
    TilePasses passes = {};
    addLastEventPasses(batch, &passes);
    bool count_skipped = true; // by the first kernel that reads all events
    if (!sorted && passes.count > 0) {
        CUS_TRY(runLastEventPassesOverKeys(batch, tiling, &passes, count_skipped));
        count_skipped = false;
    }
    for (int i = 0; i < batch.stacker->count; ++i)
        CUS_TRY(runRepresentation(batch, i, sorted, &count_skipped, &passes));
    if (sorted)
        CUS_TRY(runPasses(batch, passes, count_skipped));
    for (int i = 0; i < batch.stacker->count; ++i)
        if (batch.stacker->representations[i].kind == CUS_REPR_VOXEL_GRID && batch.stacker->representations[i].normalize)
            CUS_TRY(normalizeFrames(batch, i));
    return CUS_OK;
}

cusStatus createWorkspace(const cusEventStacker *stacker, State *state) {
    size_t frame_bytes = 0;
    bool levels = false;
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation &r = stacker->representations[i];
        frame_bytes = std::max(frame_bytes, accumulatorBytesPerPixel(r) * accumulatorPitch(stacker) *
                                                static_cast<size_t>(stacker->rows));
        levels = levels || r.kind == CUS_REPR_STACKED_HISTOGRAM;
    }
    state->accumulator_bytes = divUp(std::max(frame_bytes, tuning::ACCUMULATOR_BYTES), size_t{256}) * 256;
    const size_t list_bytes = tuning::BATCH_WINDOWS * sizeof(Window),
                 levels_bytes = levels ? EVENTS_MAX_REPRESENTATIONS *
                                             divUp(tuning::BATCH_WINDOWS * sizeof(EventsLevels), size_t{256}) * 256
                                       : 0,
                 cleared_bytes = 256 + list_bytes + levels_bytes + state->accumulator_bytes;
    CUSI_CUDA(CREATE, cudaMalloc(&state->memory, cleared_bytes + tuning::SORTED_BYTES));
    char *at = static_cast<char *>(state->memory);
    state->skipped = reinterpret_cast<unsigned long long *>(at);
    state->list = reinterpret_cast<Window *>(at += 256);
    state->levels = reinterpret_cast<EventsLevels *>(at += list_bytes);
    state->accumulators = at += levels_bytes;
    state->sorted = at + state->accumulator_bytes;
    CUSI_CUDA(CREATE, cudaMemsetAsync(state->memory, 0, cleared_bytes, nullptr));
    return cudaStatus(cudaStreamSynchronize(nullptr), CREATE, "clearing the accumulators");
}

} // namespace

} // namespace cusi::events

using namespace cusi::events;

cusStatus events_cuda_create(cusEventStacker *stacker) {
    State *state = new (std::nothrow) State;
    CUSI_REQUIRE(state, CUS_ERROR_NO_MEMORY, "%s: no host memory", CREATE);
    stacker->state = state;
    CUS_TRY(createSort());
    CUS_TRY(createLastEvent(stacker));
    CUS_TRY(createValues(state));
    return createWorkspace(stacker, state);
}

void events_cuda_destroy(cusEventStacker *stacker) {
    State *state = static_cast<State *>(stacker->state);
    if (!state)
        return;
    (void)cudaFree(state->memory);
    delete state;
}

cusStatus events_cuda_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            size_t window_count, cusMat *frames, cusStream stream) {
    State *state = static_cast<State *>(stacker->state);
    for (size_t done = 0; done < window_count; done += tuning::BATCH_WINDOWS) {
        Batch batch = {};
        batch.stacker = stacker;
        batch.state = state;
        batch.source = sourceOf(events);
        batch.count = static_cast<unsigned>(std::min<size_t>(window_count - done, tuning::BATCH_WINDOWS));
        for (unsigned w = 0; w < batch.count; ++w)
            batch.max_events = std::max(batch.max_events, windows[done + w].last - windows[done + w].first);
        batch.top = done * static_cast<size_t>(stacker->rows);
        batch.frames = frames;
        batch.stream = stream;
        CUS_TRY(listWindows(state, windows + done, batch.count, stream, &batch.windows));
        CUS_TRY(runBatch(batch));
    }
    return CUS_OK;
}

cusStatus events_cuda_skipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    const State *state = static_cast<const State *>(stacker->state);
    unsigned long long value = 0;
    CUSI_CUDA("cusEventStackerSkipped",
              cudaMemcpyAsync(&value, state->skipped, sizeof value, cudaMemcpyDeviceToHost, stream));
    CUSI_CUDA("cusEventStackerSkipped", cudaStreamSynchronize(stream));
    *skipped = value;
    return CUS_OK;
}

int events_cuda_isPinned(const void *data) {
    cudaPointerAttributes attributes = {};
    const bool known = cudaPointerGetAttributes(&attributes, data) == cudaSuccess;
    (void)cudaGetLastError();
    return known && attributes.type == cudaMemoryTypeHost;
}
