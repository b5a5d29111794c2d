// Event frames on the GPU: the workspace, and which kernels make a batch of windows. Windows are sorted by tile (sort.cu);
// passes over the tiles then make the pixels. Long windows are made differently (long.cu).
#include "device.h"
#include "events/cuda/stages.cuh"

#include <algorithm>
#include <limits>
#include <new>

namespace cusi::events {

Kind kindOf(const cusRepresentation &r) {
    constexpr Kind KINDS[] = {HISTOGRAM,  LAST_EVENT,   MDES_COUNT, LAST_EVENT, STACKED_HISTOGRAM,
                              VOXEL_GRID, TIME_SURFACE, EVENT_DIFF, EVENT_CUBE, MDES_DIFF};
    static_assert(KINDS[CUS_REPR_MDES_COUNT] == MDES_COUNT && KINDS[CUS_REPR_MDES_DIFF] == MDES_DIFF, "");
    const bool limited = r.lower != INT8_MIN || r.upper != INT8_MAX;
    const Kind kind = KINDS[r.kind];
    return kind == VOXEL_GRID && r.map                                 ? RECTIFIED_VOXELS
           : kind == TIME_SURFACE && (r.surface || eventsUsesSpan(&r)) ? OTHER_SURFACE
           : kind == EVENT_DIFF && (eventsInOrder(&r) || limited)      ? eventsInOrder(&r) ? ORDERED_DIFF : MDES_DIFF
                                                                       : kind;
}

unsigned channelsOf(const cusRepresentation &r) {
    return r.kind == CUS_REPR_EVENT_DIFF ? 1 : static_cast<unsigned>(r.channels);
}

Representation representationOf(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    const cusMat &mat = batch.frames[index];
    Representation repr = {frameTop<void>(batch, mat), mat.step,       channelsOf(r), r.swap_channels != 0,          255,
                           eventsDecay(r.tau),         batch.source.t, nullptr,       CUS_DEPTH(mat.type) == CUS_16F};
    if (r.kind == CUS_REPR_STACKED_HISTOGRAM)
        repr.cutoff = static_cast<unsigned>(r.cutoff);
    if (usesLevels(kindOf(r)))
        repr.levels = batch.state->levels + static_cast<size_t>(index) * tuning::BATCH_WINDOWS;
    return repr;
}

ValueOptions optionsOf(const Batch &batch, int index) {
    const cusRepresentation &r = batch.stacker->representations[index];
    ValueOptions options = {};
    if (usesSpans(kindOf(r)))
        options.spans = batch.state->spans + (eventsUsesSpan(&r) ? 0 : tuning::BATCH_WINDOWS);
    if (r.map) {
        options.map = static_cast<const char *>(r.map->data);
        options.map_step = r.map->step;
    }
    options.unit = r.scale / EVENTS_VOXEL_UNIT;
    options.clip = r.clip;
    options.lower = r.lower;
    options.upper = r.upper;
    options.surface = r.surface;
    return options;
}

namespace {

// Runs a kernel of a pass over the tiles of windows first .. first + count - 1 of the batch.
cusStatus launchPass(const Batch &batch, const TilePass &pass, TileKernel kernel, const Tiling &tiling, unsigned first,
                     unsigned count) {
    TileParams params = pass.params;
    const size_t y = static_cast<size_t>(first) * tiling.rows;
    params.windows = batch.windows.from(first);
    params.tiling = tiling;
    params.mdes = params.mdes ? rowOf(params.mdes, params.mdes_step, y) : nullptr;
    params.tencode = params.tencode ? rowOf(params.tencode, params.tencode_step, y) : nullptr;
    Representation &repr = params.repr;
    repr.frames = repr.frames ? rowOf(static_cast<char *>(repr.frames), repr.step, y) : nullptr;
    repr.levels += repr.levels ? first : 0;
    params.moments += params.moments ? first : 0;
    params.scalings += params.scalings ? first : 0;
    params.options.spans += params.options.spans ? first : 0;
    params.part_bits = pass.part_bits;
    return launchOverlapped(STACK, kernel, dim3(tiling.tiles << (pass.tile_bits - pass.part_bits), count),
                            tuning::TILE_THREADS, pass.shared, batch.stream, params);
}

// Sorts group after group and band after band, and runs the passes over the sorted runs. Normalized values need the moments
// of the whole frame; if it has several bands, a first round over them sums moments only.
cusStatus sortAndRun(const Batch &batch, const Tiling &tiling, unsigned record_bytes, bool with_green, bool count_skipped,
                     TilePass *passes, int pass_count) {
    SortedRuns sorted = {};
    const unsigned group = planSort(batch, tiling, record_bytes, &sorted);
    const bool two_rounds = bandOf(tiling, 0).bottom < tiling.rows &&
                            std::any_of(passes, passes + pass_count, [](const TilePass &pass) { return pass.moments; });
    for (unsigned first = 0; first < batch.count; first += group) {
        const unsigned count = std::min(group, batch.count - first);
        for (int rounds = two_rounds ? 2 : 1; rounds > 0; --rounds)
            for (unsigned top = 0; top < tiling.rows;) {
                const Tiling band = bandOf(tiling, top);
                const bool last_round = rounds == 1, once = last_round && top == 0;
                CUS_TRY(sortWindows(batch, band, record_bytes, sorted, first, count, with_green && once,
                                    count_skipped && once));
                for (int k = 0; k < pass_count; ++k) {
                    TilePass &pass = passes[k];
                    pass.params.sorted = sorted;
                    if (pass.moments && last_round != two_rounds)
                        CUS_TRY(launchPass(batch, pass, pass.moments, band, first, count));
                    if (pass.moments && once)
                        CUS_TRY(findScalings(batch, pass.index, first, count));
                    if (last_round)
                        CUS_TRY(launchPass(batch, pass, pass.kernel, band, first, count));
                }
                top = band.bottom;
            }
    }
    return CUS_OK;
}

// Runs the passes over 32-bit records. Passes over tiles of the same size share a sort.
cusStatus runPasses(const Batch &batch, const TilePasses &passes, bool count_skipped) {
    for (unsigned bits = 0; bits <= tuning::INDEXED_TILE; ++bits) {
        TilePasses same = {};
        for (int i = 0; i < passes.count; ++i)
            if (passes.pass[i].tile_bits == bits)
                same.pass[same.count++] = passes.pass[i];
        if (same.count == 0)
            continue;
        const bool with_green = passes.with_green && bits == tuning::INDEXED_TILE;
        CUS_TRY(sortAndRun(batch, tilingOf(batch.stacker, bits), 4, with_green, count_skipped, same.pass, same.count));
        count_skipped = false;
    }
    return CUS_OK;
}

// Returns a batch of window w alone, with events first .. last - 1 of it.
Batch oneWindow(const Batch &batch, unsigned w, uint64_t first, uint64_t last) {
    Batch one = batch;
    one.top += static_cast<size_t>(w) * static_cast<size_t>(batch.stacker->rows);
    one.windows = {nullptr, first, 0, last - first};
    one.count = 1;
    one.max_events = last - first;
    return one;
}

// Makes ORDERED_DIFF of a long window part by part; each part starts from the values that the last one left in the frame.
cusStatus runOrdered(const Batch &batch, int index, bool count_skipped) {
    constexpr uint64_t PART = uint64_t{1} << 22;
    const cusEventWindow &window = batch.host_windows[0];
    for (uint64_t first = window.first; first < window.last; first += PART) {
        const Batch part = oneWindow(batch, 0, first, std::min(window.last, first + PART));
        TilePass pass = valuesPass(part, index);
        pass.params.options.continues = first > window.first;
        CUS_TRY(sortAndRun(part, tilingOf(part.stacker, pass.tile_bits), 4, false, count_skipped, &pass, 1));
    }
    return CUS_OK;
}

// Makes RECTIFIED_VOXELS, whose events do not stay in their tiles, window by window.
cusStatus runRectified(const Batch &batch, int index, bool count_skipped) {
    for (unsigned w = 0; w < batch.count; ++w)
        CUS_TRY(
            makeLong(oneWindow(batch, w, batch.host_windows[w].first, batch.host_windows[w].last), index, count_skipped));
    return CUS_OK;
}

// Makes a long window, without sorting its events.
cusStatus runLongWindow(const Batch &batch) {
    bool count_skipped = true; // only the first kernel that reads all events counts
    TilePasses passes = {};
    addLastEventPasses(batch, &passes);
    if (passes.count > 0) {
        const Tiling tiling = tilingOf(batch.stacker, tuning::INDEXED_TILE);
        SortedRuns sorted = {};
        sorted.green_begin = reinterpret_cast<uint32_t *>(batch.state->sorted);
        CUS_TRY(findKeys(batch, count_skipped));
        count_skipped = false;
        if (passes.with_green)
            CUS_TRY(findGreenLevels(batch, sorted));
        for (int k = 0; k < passes.count; ++k) {
            passes.pass[k].params.sorted = sorted;
            passes.pass[k].params.keys = static_cast<uint32_t *>(batch.state->accumulators);
            CUS_TRY(launchPass(batch, passes.pass[k], passes.pass[k].kernel, tiling, 0, 1));
        }
    }
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentationKind kind = batch.stacker->representations[i].kind;
        if (eventsUsesLastEvent(kind))
            continue;
        const Kind made = kindOf(batch.stacker->representations[i]);
        if (usesLevels(made))
            CUS_TRY(findTimeBins(batch, i));
        CUS_TRY((made == ORDERED_DIFF ? runOrdered : makeLong)(batch, i, count_skipped));
        count_skipped = false;
    }
    return CUS_OK;
}

cusStatus runWindows(const Batch &batch) {
    TilePasses passes = {};
    addLastEventPasses(batch, &passes);
    bool count_skipped = true; // only the first kernel that reads all events counts
    for (int i = 0; i < batch.stacker->count; ++i) {
        const cusRepresentationKind kind = batch.stacker->representations[i].kind;
        const Kind made = kindOf(batch.stacker->representations[i]);
        if (usesLevels(made))
            CUS_TRY(findTimeBins(batch, i));
        if (made == RECTIFIED_VOXELS) {
            CUS_TRY(runRectified(batch, i, count_skipped));
            count_skipped = false;
        } else if (kind == CUS_REPR_HISTOGRAM) {
            TilePass pass = histogramPass(batch, i);
            CUS_TRY(sortAndRun(batch, tilingOf(batch.stacker, tuning::HISTOGRAM_TILE), 2, false, count_skipped, &pass, 1));
            count_skipped = false;
        } else if (!eventsUsesLastEvent(kind)) {
            passes.pass[passes.count++] = valuesPass(batch, i);
        }
    }
    return runPasses(batch, passes, count_skipped);
}

cusStatus runBatch(const Batch &batch) {
    for (int i = 0; i < batch.stacker->count; ++i)
        if (eventsNormalize(&batch.stacker->representations[i]))
            CUS_TRY(clearMoments(batch, i));
    CUS_TRY(listSpans(batch));
    return batch.is_long ? runLongWindow(batch) : runWindows(batch);
}

cusStatus createWorkspace(const cusEventStacker *stacker, State *state) {
    size_t frame_bytes = 0;
    bool levels = false, moments = false, spans = false;
    for (int i = 0; i < stacker->count; ++i) {
        const cusRepresentation &r = stacker->representations[i];
        frame_bytes = std::max(frame_bytes, accumulatorBytes(stacker, kindOf(r), channelsOf(r)));
        levels = levels || usesLevels(kindOf(r));
        spans = spans || usesSpans(kindOf(r));
        moments = moments || eventsNormalize(&r);
    }
    const auto whole = [](size_t bytes) { return divUp(bytes, size_t{256}) * 256; };
    const size_t list_bytes = tuning::BATCH_WINDOWS * sizeof(Window),
                 all_windows = size_t{EVENTS_MAX_REPRESENTATIONS} * tuning::BATCH_WINDOWS,
                 levels_bytes = levels ? whole(all_windows * sizeof(EventsLevels)) : 0,
                 moments_bytes = moments ? whole(all_windows * sizeof(EventsMoments)) : 0,
                 scalings_bytes = moments ? whole(all_windows * sizeof(EventsScaling)) : 0,
                 spans_bytes = spans ? 2 * tuning::BATCH_WINDOWS * sizeof(cusEventSpan) : 0,
                 bytes = 256 + list_bytes + levels_bytes + moments_bytes + scalings_bytes + spans_bytes +
                         whole(frame_bytes) + tuning::SORTED_BYTES;
    CUS_TRY(cusi_deviceAllocate(CREATE, bytes, &state->memory));
    char *at = static_cast<char *>(state->memory);
    state->skipped = reinterpret_cast<unsigned long long *>(at);
    state->list = reinterpret_cast<Window *>(at += 256);
    state->levels = reinterpret_cast<EventsLevels *>(at += list_bytes);
    state->moments = reinterpret_cast<EventsMoments *>(at += levels_bytes);
    state->scalings = reinterpret_cast<EventsScaling *>(at += moments_bytes);
    state->spans = reinterpret_cast<cusEventSpan *>(at += scalings_bytes);
    state->accumulators = at += spans_bytes;
    state->sorted = at + whole(frame_bytes);
    CUSI_CUDA(CREATE, cudaMemsetAsync(state->skipped, 0, sizeof *state->skipped, nullptr));
    return cudaStatus(cudaStreamSynchronize(nullptr), CREATE, "clearing the count of skipped events");
}

// Fills the batch with windows that are made together: one long window, or all windows before the next long one.
void fillBatch(const cusEventWindow *windows, size_t count, double all_events, Batch *batch) {
    Batch one = *batch;
    one.count = 1;
    const size_t most = std::min<size_t>(count, tuning::BATCH_WINDOWS);
    while (batch->count < most) {
        one.max_events = windows[batch->count].last - windows[batch->count].first;
        // If a window is not long, no shorter one is.
        const bool is_long = one.max_events > batch->max_events && isLong(one, all_events);
        if (is_long && batch->count > 0)
            return;
        ++batch->count;
        batch->max_events = std::max(batch->max_events, one.max_events);
        batch->is_long = is_long;
        if (is_long)
            return;
    }
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
    CUS_TRY(createValues(stacker, state));
    CUSI_CUDA(CREATE, cusi::multiprocessors(&state->multiprocessors));
    return createWorkspace(stacker, state);
}

void events_cuda_destroy(cusEventStacker *stacker) {
    State *state = static_cast<State *>(stacker->state);
    if (!state)
        return;
    cusi_deviceFree(state->memory); // waits until the device no longer uses it
    delete state;
}

cusStatus events_cuda_stack(cusEventStacker *stacker, const cusEventArrays *events, const cusEventWindow *windows,
                            const cusEventSpan *spans, size_t window_count, cusMat *frames, cusStream stream) {
    State *state = static_cast<State *>(stacker->state);
    double all_events = 0;
    for (size_t w = 0; w < window_count; ++w)
        all_events += static_cast<double>(windows[w].last - windows[w].first);
    for (size_t done = 0; done < window_count;) {
        const size_t top = done * static_cast<size_t>(stacker->rows);
        Batch batch = {stacker, state, sourceOf(events), frames, top, stream};
        fillBatch(windows + done, window_count - done, all_events, &batch);
        batch.host_windows = windows + done;
        batch.host_spans = spans ? spans + done : nullptr;
        CUS_TRY(listWindows(state, windows + done, batch.count, stream, &batch.windows));
        CUS_TRY(runBatch(batch));
        done += batch.count;
    }
    return CUS_OK;
}

cusStatus events_cuda_skipped(cusEventStacker *stacker, uint64_t *skipped, cusStream stream) {
    const State *state = static_cast<const State *>(stacker->state);
    unsigned long long value = 0;
    CUS_TRY(cusi_deviceWaitToDownload("cusEventStackerSkipped", &value, stream));
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
